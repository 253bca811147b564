"""One pair of classes: the prices at which a posterior on it pays for itself.

A posterior with weight w on class b and 1 − w on class a (π_b < π_a) has image t = w π_b + (1−w) π_a, and

    F(w) = −h(t) + μ H(w) − w·price_b − (1−w)·price_a,      h the binary entropy, H(w) = h(w).

F'' = (π_a−π_b)²/(t(1−t)) − μ/(w(1−w)) is positive on one interval of w (a quadratic inequality), so that F is concave,
convex, concave; a pair is *tight* where F = F' = 0 inside that interval, which fixes both prices,

    price_x = −c(π_x; t) − μ log w_x,      c(π; t) = −π log t − (1−π) log(1−t).

Along the interval price_b grows with w and price_a falls: given one price, w is one scalar root. A symbol alone is
tight at the price −h(π), its *cap*. Everything is written for the class below; for that above, exchange s = 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.posteriors.boxes import plogp
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: Newton steps inside the bracket at most (bisection alone would need some sixty), and the change of the log odds at
#: which they end.
ROOT_STEPS, ROOT_CHANGE = 100, 1e-15
#: Stands for "no tight posterior on this pair at that price".
NONE = 1e300
#: Log odds beyond which nothing matters any more, and the weight that belongs to it.
FAR, TINY = 700.0, 1e-304


class Pair(NamedTuple):
    """p(s=1|·) and p(s=0|·) of the class below (b) and of the class above (a)."""

    pi_b: float
    rho_b: float
    pi_a: float
    rho_a: float


@compiled
def cap(pi: float, rho: float) -> float:
    """−h(π): the price of a class that is released alone; no price is larger."""
    return plogp(pi) + plogp(rho)


@compiled
def spread(pair: Pair) -> float:
    """π_a − π_b, from whichever of p(s=1|·) and p(s=0|·) loses less to cancellation."""
    if pair.pi_a < 0.5:
        return pair.pi_a - pair.pi_b
    return pair.rho_b - pair.rho_a


@compiled
def mirrored(pair: Pair) -> Pair:
    """The same pair with s = 0 and s = 1 exchanged: above becomes below."""
    return Pair(pair.rho_a, pair.pi_a, pair.rho_b, pair.pi_b)


@compiled
def weights(odds: float) -> tuple[float, float]:
    """Weights w and 1 − w from log(w/(1−w)), both to full relative accuracy."""
    return float(1.0 / (1.0 + np.exp(-odds))), float(1.0 / (1.0 + np.exp(odds)))


@compiled
def log_part(part: float, rest: float) -> float:
    """log(part) where part + rest = 1, accurate to the last digits also when ``rest`` is tiny."""
    return float(np.log1p(-rest)) if part > 0.5 else float(np.log(part))


@compiled
def price_below(pair: Pair, odds: float, slope: float) -> float:
    """The price of b at which the posterior with log odds ``odds`` of b is stationary with F = 0."""
    w, y = weights(odds)
    t = w * pair.pi_b + y * pair.pi_a
    s = w * pair.rho_b + y * pair.rho_a
    return pair.pi_b * log_part(t, s) + pair.rho_b * log_part(s, t) - slope * log_part(w, y)


@compiled
def price_above(pair: Pair, odds: float, slope: float) -> float:
    """The price of a at which the posterior with log odds ``odds`` of b is stationary with F = 0."""
    return price_below(mirrored(pair), -odds, slope)


@compiled
def lower_end(pair: Pair, slope: float) -> float:
    """The smaller root w of w(1−w)(π_a−π_b)² = μ t(1−t); 2 when F is concave throughout."""
    delta = spread(pair)
    square = (1.0 - slope) * delta * delta
    linear = delta * delta + slope * delta * (pair.rho_a - pair.pi_a)
    constant = slope * pair.pi_a * pair.rho_a
    under = linear * linear - 4.0 * square * constant
    if under <= 0.0 or linear <= 0.0 or square <= 0.0:
        return 2.0
    return float(2.0 * constant / (linear + np.sqrt(under)))


@compiled
def convex_range(pair: Pair, slope: float) -> tuple[float, float]:
    """The interval of log odds on which F is convex; its ends in the wrong order when there is none."""
    low = lower_end(pair, slope)
    high = lower_end(mirrored(pair), slope)  # of 1 − w
    if low >= 1.0 or high >= 1.0:
        return 1.0, -1.0
    least = np.log(low / (1.0 - low)) if low > TINY else -FAR
    most = np.log((1.0 - high) / high) if high > TINY else FAR
    return float(least), float(most)


@compiled
def odds_from_below(pair: Pair, price: float, slope: float, guess: float) -> float:
    """Log odds of b in the tight posterior when b has ``price``, at most its cap; NONE if the pair has none.

    Newton's method inside a bracket: price_b rises over the convex range from its least value to more than the cap.
    """
    low, high = convex_range(pair, slope)
    if not low < high or price_below(pair, low, slope) > price:
        return NONE
    odds = guess if low < guess < high else 0.5 * (low + high)
    delta = spread(pair)
    for _ in range(ROOT_STEPS):
        w, y = weights(odds)
        t = w * pair.pi_b + y * pair.pi_a
        s = w * pair.rho_b + y * pair.rho_a
        excess = pair.pi_b * log_part(t, s) + pair.rho_b * log_part(s, t) - slope * log_part(w, y) - price
        if excess > 0.0:
            high = odds
        else:
            low = odds
        rise = y * (w * y * delta * delta / (t * s) - slope)
        new = odds - excess / rise if rise > 0.0 else high
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - odds) <= ROOT_CHANGE or new in (low, high):
            return float(new)
        odds = new
    return float(odds)


@compiled
def odds_from_above(pair: Pair, price: float, slope: float, guess: float) -> float:
    """Log odds of b in the tight posterior when a has ``price``, at most its cap; NONE if the pair has none."""
    other = odds_from_below(mirrored(pair), price, slope, -guess)
    return NONE if other == NONE else -other


class Classes(NamedTuple):
    """The classes in ascending order of p(s=1|·): p(s=1|·), p(s=0|·), probability and cap, each (n,)."""

    pi: Array
    rho: Array
    mass: Array
    caps: Array


@compiled
def pair_of(classes: Classes, b: int, a: int) -> Pair:
    """The pair of classes b < a."""
    return Pair(classes.pi[b], classes.rho[b], classes.pi[a], classes.rho[a])
