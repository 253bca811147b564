"""What H(w) − a·w is at least over all posteriors that tell nothing of S: proved by going through their vertices.

H is concave, so that H(w) − a·w is least at a vertex of ``{w ≥ 0, rows @ w = 0, Σ w = 1}``: a posterior with no more
symbols than there are equations, Σ w = 1 included, whose columns are independent. Of symbols with the same p(s|x) a
vertex uses one at most, the one with the highest price. All *supports* of that many symbols are gone through: pairs
where there is one equation besides Σ w = 1, triangles (:mod:`.private_triangles`) where there are two and symbols are
many. Beyond :data:`MOST_PAIRS` pairs a staircase through them is enough (:mod:`.private_stairs`).

**Rounding.** Entries of the equations are right to a few roundings each. For a support's matrix A with last row ones,
its approximate inverse X and w' = X e, |w − w'| ≤ |X|·|e − Aw'| + δ/(1−δ) max(…), δ = ‖1 − XA‖, with what rounding
adds to each term. Where δ is too large for that, in supports that are singular or nearly so, the support is solved in
fractions, which are exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import private_stairs, private_triangles
from privfunnel.certificate.private_equations import Equations, Whole, classes_of, equations_of
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx

Index = NDArray[np.intp]

_EPS = float(np.finfo(np.float64).eps)
#: Supports that are gone through at most, and together.
MOST_SUPPORTS, _TOGETHER = 2_000_000, 20_000
#: Pairs that are gone through at most, and together.
MOST_PAIRS, _BLOCK = 20_000_000, 200_000
#: Roundings of an entry of an equation, and in the value of a posterior whose weights are right to a few.
ROUNDINGS, VALUED = 6.0, 32.0
#: Supports are solved in fractions where 1 − XA is larger than this, or the determinant is below that share of what
#: columns of their lengths could have.
_UNSURE, _SINGULAR = 1e-3, 1e-13


def least_private(whole: Whole, combinations: Array, prices: Array) -> float:
    """Proved: H(w) − a·w is at least this, in nats, for every posterior w that tells nothing.

    Args:
        whole: The table of one component in whole numbers, shape (K, M).
        combinations: Which equations are used, (K, j); any are equations, and fewer only prove less.
        prices: a, shape (M,).

    Raises:
        CertificateError: The equations depend on each other, or the vertices are too many.
    """
    own = classes_of(whole)
    first = np.unique(own, return_index=True)[1]
    highest = np.full(first.size, -np.inf)
    np.maximum.at(highest, own, prices)
    equations = equations_of(whole, combinations)
    shares = (equations.sizes / equations.sizes.sum()).astype(np.float64)
    masses = np.asarray(np.bincount(own, shares), dtype=np.float64)
    equations = equations.of(first)
    count, n = equations.rows.shape
    if count == 0:
        return -float(highest.max())
    if count == 1:
        return _least_of_pairs(equations, highest, masses)
    if count == 2 and n > private_triangles.FEW and private_triangles.available(n):
        return private_triangles.least_of(equations, highest)
    return _least_of_supports(equations, highest)


def _least_of_pairs(equations: Equations, prices: Array, masses: Array) -> float:
    """:func:`least_private` with one equation: symbols at 0, and pairs of one below and one above."""
    side = np.sign(equations.exact[0]).astype(np.int64)
    below, above = np.flatnonzero(side < 0), np.flatnonzero(side > 0)
    least = float((-prices[side == 0]).min(initial=np.inf))
    if below.size == 0 or above.size == 0:
        return least
    distance = np.abs(equations.rows[0])
    if below.size * above.size <= MOST_PAIRS:
        return min(least, _least_between(distance, prices, below, above))
    near = distance <= private_stairs.AT
    for some, others in ((below[near[below]], above), (above[near[above]], below[~near[below]])):
        if some.size * others.size > MOST_PAIRS:
            raise CertificateError(
                "too many symbols nearly have the p(s|x) of all: the pairs cannot be checked"
            )
        least = min(least, _least_between(distance, prices, some, others))
    rest = private_stairs.least_of(distance, prices, masses, below[~near[below]], above[~near[above]])
    rounding = VALUED * _EPS * (1.0 + 2.0 * float(np.abs(prices).max()))
    return min(least, rest - rounding)


def _least_between(distance: Array, prices: Array, below: Index, above: Index) -> float:
    """The least of all pairs of some symbols on one side and some on the other; ∞ where there are none."""
    least = np.inf
    if below.size == 0 or above.size == 0:
        return least
    v, price_a = distance[None, above], prices[None, above]
    step = max(_BLOCK // above.size, 1)
    for start in range(0, below.size, step):
        b = below[start : start + step, None]
        u, price_b = distance[b], prices[b]
        w, y = v / (u + v), u / (u + v)
        value = -xlogx(w) - xlogx(y) - w * price_b - y * price_a
        rounding = VALUED * _EPS * (1.0 + np.abs(price_b) + np.abs(price_a))
        least = min(least, float((value - rounding).min()))
    return least


def _least_of_supports(equations: Equations, prices: Array) -> float:
    """:func:`least_private` by all supports of as many symbols as there are equations, Σ w = 1 included."""
    count, n = equations.rows.shape
    rank = count + 1
    if math.comb(n, rank) > MOST_SUPPORTS:
        raise CertificateError(
            f"the certificate has {math.comb(n, rank)} supports, {MOST_SUPPORTS} are gone through: it cannot be checked"
        )
    largest = np.abs(equations.rows).max(axis=1, keepdims=True, initial=0.0)
    if not np.all(largest > 0.0):
        raise CertificateError("the certificate's equations depend on each other: it is damaged")
    rows = np.vstack([equations.rows / largest, np.ones((1, n))])
    sides = np.sign(equations.exact).astype(np.int8)
    least, unsure = np.inf, 0
    for supports in _chunks(n, rank):
        # Where an equation has one sign throughout, no posterior of these symbols satisfies it.
        some = sides[:, supports]
        supports = supports[np.all((some.min(axis=2) <= 0) & (some.max(axis=2) >= 0), axis=0)]
        value, open_ = _least_of_solved(rows, supports, prices)
        least, unsure = min(least, value), unsure + len(open_)
        # Supports that are solved in fractions at most.
        if unsure > 20_000:
            raise CertificateError("too many supports are nearly singular: the certificate cannot be checked")
        for support in open_:
            least = min(least, _in_fractions(equations, support, prices))
    if not math.isfinite(
        least
    ):  # there is a vertex, and it has such a support, unless equations are dependent
        raise CertificateError("the certificate's equations depend on each other: it is damaged")
    return least


def _chunks(n: int, rank: int) -> Iterator[Index]:
    """All supports of ``rank`` of n symbols, in order, some at a time."""
    supports = itertools.combinations(range(n), rank)
    while (chunk := np.array(list(itertools.islice(supports, _TOGETHER)), dtype=np.intp)).size:
        yield chunk


def _least_of_solved(rows: Array, supports: Index, prices: Array) -> tuple[float, Index]:
    """The least over those of some supports (n, r) that are solved surely; and the others."""
    rank = len(rows)
    systems = np.moveaxis(rows[:, supports], 0, 1)
    lengths = np.linalg.norm(systems, axis=1)
    solid = np.abs(np.linalg.det(systems)) > _SINGULAR * np.prod(lengths, axis=1)
    unsure, supports, systems = supports[~solid], supports[solid], systems[solid]
    inverse = np.linalg.inv(systems)
    sizes, steps = np.abs(inverse), (rank + ROUNDINGS) * _EPS
    off = np.abs(np.eye(rank) - inverse @ systems) + steps * (sizes @ np.abs(systems))
    share = off.sum(axis=2).max(axis=1, initial=0.0)
    sure = share < _UNSURE
    unsure = np.concatenate([unsure, supports[~sure]])
    supports, systems, sizes, share = supports[sure], systems[sure], sizes[sure], share[sure]
    if supports.size == 0:
        return np.inf, unsure
    w = inverse[sure][:, :, -1]
    goal = np.eye(rank)[-1]
    missed = np.abs(goal - (systems @ w[:, :, None])[..., 0])
    missed += steps * ((np.abs(systems) @ np.abs(w)[:, :, None])[..., 0] + goal)
    errors = (sizes @ missed[:, :, None])[..., 0] * (1.0 + steps)
    errors += (share / (1.0 - share) * errors.max(axis=1))[:, None]
    allowed = np.all(w >= -errors, axis=1)
    return _least_near(np.maximum(w[allowed], 0.0), errors[allowed], prices[supports[allowed]]), unsure


def _least_near(w: Array, errors: Array, prices: Array) -> float:
    """The least of H − a·w of posteriors whose entries are within ``errors`` of w, all (n, r).

    −w log w changes by no more than −e log e where w changes by e, and by no more than 1/e in all.
    """
    bounded = np.minimum(errors, math.exp(-1.0))
    value = -(xlogx(w) + w * prices).sum(axis=1)
    value -= (np.abs(prices) * errors - xlogx(bounded)).sum(axis=1)
    value -= VALUED * _EPS * (1.0 + np.abs(prices).max(axis=1, initial=0.0))
    return float(value.min(initial=np.inf))


def _in_fractions(equations: Equations, support: Index, prices: Array) -> float:
    """H − a·w of the vertex of one support, solved exactly; ∞ where it is singular or its solution is no posterior."""
    sizes = [Fraction(int(equations.sizes[x])) for x in support]
    table = [[Fraction(int(row[x])) for x in support] for row in equations.exact]
    # In z = w/n(x): Σ exact z = 0, Σ n(x) z = 1.
    system = [[*row, Fraction(0)] for row in table] + [[*sizes, Fraction(1)]]
    rank = len(system)
    for place in range(rank):
        pivot = next((i for i in range(place, rank) if system[i][place]), None)
        if pivot is None:
            return math.inf
        system[place], system[pivot] = system[pivot], system[place]
        head = system[place][place]
        system[place] = [value / head for value in system[place]]
        for i in range(rank):
            factor = system[i][place]
            if i != place and factor:
                system[i] = [a - factor * b for a, b in zip(system[i], system[place], strict=True)]
    weights = [row[-1] * size for row, size in zip(system, sizes, strict=True)]
    if min(weights) < 0:
        return math.inf
    w = np.array([[float(weight) for weight in weights]])
    return _least_near(w, np.zeros_like(w), prices[support][None, :])
