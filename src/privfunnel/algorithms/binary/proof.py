"""Prove F ≥ 0 for all pairs of classes, from prices and slope alone; docs/math-binary.md has the theorems.

An optimal posterior of a binary funnel has at most two symbols, so that F is bounded on the whole simplex once it is
on all pairs. On one pair, with P_b and P_a the prices that make the posterior of weight w tight (:mod:`frontier`), the
tangent of F at w runs from P_a − price_a to P_b − price_b; hence, for *any* w in the convex range,

    F ≥ min(cap_b − price_b, cap_a − price_a, P_b − price_b, P_a − price_a)      everywhere on the pair.

Not all pairs need a look. Let A_a(b) be the largest price of b that its pair with a allows. For two classes a' > a
above, if A_a'(b) ≤ A_a(b) at some b, then so it is for all b nearer to them (single crossing, whatever the prices).
One comparison on either side of the crossing of neighbours a and a + 1 therefore settles which of them binds for every
other b, and only a few pairs along the staircase are left to be bounded: O(n) in all. Where a price is too high for one
of these it is lowered: what is returned are prices for which F ≥ 0 is proved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.binary.pair_prices import (
    NONE,
    Classes,
    Pair,
    convex_range,
    odds_from_above,
    pair_of,
    price_above,
    price_below,
    spread,
    weights,
)
from privfunnel.algorithms.binary.staircase_steps import Integers
from privfunnel.certificate import PairsProof
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

EPS = float(np.finfo(np.float64).eps)
#: Prices, logarithms of weights included, are computed to this many units in the last place of 1 + their size.
UNITS = 8.0
#: Newton steps towards the least F of a pair at most, the change of the log odds (as a share of 1 + their size) at
#: which they end, and how near to an end of the range they count as that end.
ROOT_STEPS, ROOT_CHANGE, AT_AN_END = 60, 1e-13, 1e-12
#: Pairs bounded one by one at most, for each class, before the check gives up.
MOST_PAIRS = 200
#: Values of min F that certificates claim, in nats, the first that the checker confirms.
CLAIMS = (-1e-13, -1e-12, -1e-10)
#: More classes than this are proved with crossings, fewer by all their pairs.
ALL_PAIRS = 300


class Crossings(NamedTuple):
    """Which of class a and its inner neighbour a − 1 is proved to bind, by b; each (n,), indexed by a.

    ``outer``: from this b on, a binds no less than a − 1. ``inner``: up to this b it is the other way round (−1: none).
    """

    outer: Integers
    inner: Integers


@compiled
def allowance(odds: float, slope: float) -> float:
    """More than rounding can have added to a tight price at these log odds, in nats.

    π |log t| and (1−π) |log(1−t)| are each at most 1 + |odds|, as t ≥ w π_b and t ≥ (1−w) π_a; so is |log w|.
    """
    return float(UNITS * EPS * (1.0 + (2.0 + slope) * (1.0 + abs(odds))))


@compiled
def stationary(pair: Pair, price_b: float, price_a: float, slope: float) -> float:
    """Log odds at which F is least on the convex range (ends included); NONE if there is no such range."""
    low, high = convex_range(pair, slope)
    if not low < high:
        return NONE
    first, last = low, high
    delta = spread(pair)
    odds = 0.5 * (low + high)
    for _ in range(ROOT_STEPS):
        w, y = weights(odds)
        t = w * pair.pi_b + y * pair.pi_a
        s = w * pair.rho_b + y * pair.rho_a
        rise = (price_below(pair, odds, slope) - price_b) - (price_above(pair, odds, slope) - price_a)
        if rise > 0.0:
            high = odds
        else:
            low = odds
        bend = w * y * delta * delta / (t * s) - slope
        new = odds - rise / bend if bend > 0.0 else 0.5 * (low + high)
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - odds) <= ROOT_CHANGE * (1.0 + abs(odds)):
            break
        odds = new
    if odds - first <= AT_AN_END * (1.0 + abs(first)):
        odds = first
    if last - odds <= AT_AN_END * (1.0 + abs(last)):
        odds = last
    return float(odds)


@compiled
def bound_inside(pair: Pair, price_b: float, price_a: float, slope: float) -> float:
    """A lower bound of F on the convex range of a pair, rounding included; infinite if there is no such range.

    The tangent's bound; or F itself, where it is least at an end of the range because it grows from there.
    """
    odds = stationary(pair, price_b, price_a, slope)
    if odds == NONE:
        return np.inf
    over_b = price_below(pair, odds, slope) - price_b
    over_a = price_above(pair, odds, slope) - price_a
    rounding = allowance(odds, slope)
    low, high = convex_range(pair, slope)
    if (odds <= low and over_b - over_a > 2.0 * rounding) or (
        odds >= high and over_a - over_b > 2.0 * rounding
    ):
        w, y = weights(odds)
        return w * over_b + y * over_a - rounding
    return min(over_b, over_a) - rounding


@compiled
def binds_no_less(classes: Classes, prices: Array, slope: float, b: int, ones: tuple[int, int]) -> bool:
    """Proved: for b, class ``ones[0]`` above allows no higher price than ``ones[1]`` does, nor so on the way out.

    Some price v between the two is found first; then F of the first pair is shown to be negative somewhere at v, and
    that of the second to be nowhere so. "On the way out" means to larger b where ``ones[0]`` is the outer of the two,
    to smaller b where it is the inner. If the second one allows b its cap that is enough in the first case, as
    it then does so for all larger b; not in the second, where the crossing has to be strict.
    """
    cap = classes.caps[b]
    tight = pair_of(classes, b, ones[0])
    loose = pair_of(classes, b, ones[1])
    odds = odds_from_above(loose, prices[ones[1]], slope, 0.0)
    allowed = cap
    if odds != NONE:
        allowed = min(price_below(loose, odds, slope), cap)
    if ones[0] > ones[1] and allowed >= cap and bound_inside(loose, cap, prices[ones[1]], slope) >= 0.0:
        return True
    odds = odds_from_above(tight, prices[ones[0]], slope, 0.0)
    if odds == NONE:
        return False
    least = price_below(tight, odds, slope)
    price = 0.5 * (least + allowed)
    w, y = weights(odds)
    value = w * (least - price) + y * (price_above(tight, odds, slope) - prices[ones[0]])
    if not value < -allowance(odds, slope):
        return False
    return bound_inside(loose, price, prices[ones[1]], slope) >= 0.0


@compiled
def find_crossings(classes: Classes, prices: Array, slope: float, crossings: Crossings) -> None:
    """Fill in, for neighbours a and a − 1, from which b on and up to which b it is proved which of them binds.

    On a staircase both fall with a, so that each search begins where the last one ended.
    """
    at = classes.pi.size - 2
    for a in range(classes.pi.size - 1, 1, -1):
        at = min(at, a - 2)
        if not binds_no_less(classes, prices, slope, at, (a, a - 1)):
            while at < a - 1:
                at += 1
                if at < a - 1 and binds_no_less(classes, prices, slope, at, (a, a - 1)):
                    break
        if at < a - 1:
            step = 1
            while at > 0:  # gallop outwards, then halve the step
                b = max(at - step, 0)
                if binds_no_less(classes, prices, slope, b, (a, a - 1)):
                    at = b
                    step *= 2
                elif step == 1:
                    break
                else:
                    step = max(step // 4, 1)
        crossings.outer[a] = at
        b = min(at, a - 1) - 1
        step = 1
        while b >= 0 and not binds_no_less(classes, prices, slope, b, (a - 1, a)):
            b -= step
            step *= 2
        crossings.inner[a] = max(b, -1)
        at = min(at, a - 2)


@compiled
def candidates(crossings: Crossings, n: int, first: Integers, last: Integers) -> None:
    """For every b the classes above, ``first`` to ``last``, among which is one that binds most."""
    for b in range(n):
        last[b] = b + 1
        first[b] = n - 1
    for a in range(2, n):
        b = crossings.inner[a] + 1
        if b < n:
            last[b] = max(last[b], a)
        b = crossings.outer[a] - 1
        if b >= 0:
            first[b] = min(first[b], a - 1)
    for b in range(1, n):
        last[b] = max(last[b], last[b - 1])
    for b in range(n - 2, -1, -1):
        first[b] = max(min(first[b], first[b + 1]), b + 1) if b + 1 < n else first[b]


@compiled
def proved_price(pair: Pair, price_b: float, price_a: float, slope: float) -> float:
    """``price_b``, or a lower price of b at which F of the pair is proved to be nowhere negative."""
    if bound_inside(pair, price_b, price_a, slope) >= 0.0:
        return price_b
    price = price_b
    odds = odds_from_above(pair, price_a, slope, 0.0)
    step = 2.0 * UNITS * EPS
    if odds != NONE:
        price = min(price_below(pair, odds, slope), price_b)
        step = allowance(odds, slope)
    # Doublings of the amount by which a price is lowered until its proof holds.
    for _ in range(60):
        if bound_inside(pair, price - step, price_a, slope) >= 0.0:
            return price - step
        step *= 2.0
    return -np.inf


@compiled
def repair(classes: Classes, prices: Array, slope: float, first: Integers, last: Integers) -> Array:
    """Prices (n,), none larger than ``prices``, proved against the candidates of each class."""
    n = classes.pi.size
    out = prices.copy()
    for b in range(n):
        for a in range(min(first[b], last[b]), max(first[b], last[b]) + 1):
            if b < a < n:
                out[b] = proved_price(pair_of(classes, b, a), out[b], prices[a], slope)
    return out


@compiled
def bound_all_pairs(classes: Classes, prices: Array, slope: float) -> float:
    """The least bound of F over single classes and all pairs: no theorem used but the tangent's; O(n²)."""
    least = np.inf
    n = classes.pi.size
    for b in range(n):
        least = min(least, classes.caps[b] - prices[b] - UNITS * EPS)
        for a in range(b + 1, n):
            least = min(least, bound_inside(pair_of(classes, b, a), prices[b], prices[a], slope))
    return least


def prove(classes: Classes, prices: Array, slope: float) -> Array | None:
    """Prices (n,), none larger than those given, for which F ≥ 0 everywhere is proved, rounding included; 0 < μ ≤ 1.

    Prices from a staircase come back less some 1e-13 nats, in O(n). Prices of other origin are lowered where they are
    too high. None if they are so far from a staircase that some hundred pairs a class would have to be looked at.
    """
    n = classes.pi.size
    # Prices are lowered by this much before the check, in nats: more than rounding moves F on a tight pair.
    lowered = np.minimum(prices, classes.caps) - 2e-13
    if n < 2 or slope >= 1.0:
        return lowered  # F is concave: its least values are those of single symbols
    first, last = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    crossings = Crossings(np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64))
    find_crossings(classes, lowered, slope, crossings)
    candidates(crossings, n, first, last)
    if int(np.sum(np.abs(last - first) + 1)) > MOST_PAIRS * n:
        return None
    proved = repair(classes, lowered, slope, first, last)
    return proved if np.all(np.isfinite(proved)) else None


def pairs_proof(
    classes: Classes, prices: Array, slope: float, claim: float, *, crossings: bool
) -> PairsProof:
    """What a certificate stores to prove F ≥ ``claim`` with these prices (n,): crossings, or nothing for all pairs."""
    n = classes.pi.size
    size = n if crossings and slope < 1.0 else 0
    named = Crossings(np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64))
    if size:
        find_crossings(classes, prices + claim, slope, named)
    outer, inner = (side[:size].astype(np.int32) for side in named)
    return PairsProof(claim=claim, outer=outer, inner=inner)
