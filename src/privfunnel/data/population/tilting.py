r"""Bounds on mutual information by exponential tilting: exact generating functions, and no count of cells in them.

Let n rows be drawn from p(s, y), let w_y = p(·|y), q = p(s), and let hats denote frequencies. The statistic is

    Z = Σ_y n_y D(ŵ_y‖q) = n Î(S;Y) + n D(p̂_s‖q).

**Tilting.** Given the column totals n_y the columns are independent multinomials. For one of them with m rows, and any
λ > −1, put α = 1/(1 + λ) and let v be proportional to q^{1−α} w^α. Multiplying out,
``λ D(ŵ‖q) + D(ŵ‖w) = λ D_α(w‖q) + (1 + λ) D(ŵ‖v)`` with Rényi's divergence D_α, hence exactly

    E exp(−λ m D(ŵ‖q)) = exp(−λ m D_α(w‖q)) · E_v exp(−λ m D(v̂‖v)).                                        (1)

**Upper bound** (λ > 0). The last factor of (1) is at most 1. Averaging over the column totals,

    E exp(−λ Z) ≤ (Σ_y p(y) exp(−λ D_α(w_y‖q)))^n ≤ (1 − b I(S;Y))^n,                                        (2)

where b is such that 1 − exp(−λ D_α(w‖q)) ≥ b D(w‖q) for every w (:func:`least_ratio`), since Σ_y p(y) D(w_y‖q) is
I(S;Y). By Markov's inequality P(Z ≤ z) ≤ exp(λ z) (1 − b I)^n; the right side is increasing in z, and so is its least
value over λ, which is therefore a p-value: all λ may be tried, at no cost. With probability at least 1 − δ, for all λ,

    −n log(1 − b I(S;Y)) ≤ λ (n Î(S;Y) + n D(p̂_s‖q)) + log(1/δ).                                             (3)

**Lower bound** (λ = −θ, 0 < θ < 1). The last factor of (1) is at most (1 − θ)^{−(K−1)} (Agrawal 2020), and n Î ≤ Z,
so with B such that exp(θ D_α(w‖q)) − 1 ≤ B D(w‖q) for every w (:func:`largest_ratio`), with probability ≥ 1 − δ,

    θ n Î(S;Y) ≤ n log(1 + B I(S;Y)) + N (K − 1) log(1/(1 − θ)) + log(1/δ)     for all θ.                     (4)

**Knowing A.** With columns (a, y) and q_a = p(s|a) the same lines bound I(S;Y|A) by Î(S;Y|A).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from privfunnel.data.population.intervals import ROUNDING, binary_divergence
from privfunnel.measures import TINY, Array

GRID = 400
#: From near 0 to 1, closer together towards both ends.
STEPS = np.concatenate([np.geomspace(1e-7, 0.5, GRID), 1.0 - np.geomspace(0.5, 1e-9, GRID)[1:], [1.0]])
#: Ratios w/q up to this are bounded together; above, on a grid of probabilities of this mesh, on a logarithmic scale.
NEAR, MESH = 1.25, 0.05
#: The λ that are tried, and how many are passed over at the first look.
TILTS, COARSE = np.geomspace(1e-6, 1e2, 257), 16
#: log min p(s) is rounded down to multiples of this, so that tables that differ by little share the work.
COARSENESS = 0.002


def upper(plug_in: float, divergence: float, n: float, least: float, miss: float) -> float:
    """The I(S;Y) that (3) allows, the least over λ; nats.

    Args:
        plug_in: Î(S;Y).
        divergence: An upper bound of D(p̂_s‖p_s).
        n: Number of rows.
        least: A lower bound of every p(s).
        miss: Error probability δ.
    """
    shared = math.exp(-COARSENESS * math.ceil(-math.log(min(least, 0.5)) / COARSENESS))

    def bound(tilt: float) -> float:
        exponent = tilt * (plug_in + divergence) - math.log(miss) / n
        return -math.expm1(-exponent * (1.0 + ROUNDING)) / least_ratio(tilt, shared)

    return _least(bound, math.inf)


def lower(plug_in: float, cells: int, n: float, ratio: float, miss: float) -> float:
    """The least I(S;Y) that (4) allows, the largest over θ; nats, 0 at least.

    Args:
        plug_in: Î(S;Y).
        cells: N (K − 1), the free parameters of p(s|y).
        n: Number of rows.
        ratio: An upper bound of p(s|y)/p(s).
        miss: Error probability δ.
    """

    def bound(tilt: float) -> float:
        exponent = tilt * plug_in + (cells * math.log1p(-tilt) + math.log(miss)) / n
        return -math.expm1(exponent * (1.0 - math.copysign(ROUNDING, exponent))) / largest_ratio(tilt, ratio)

    return max(-_least(bound, 0.99), 0.0)


def _least(bound: Callable[[float], float], last: float) -> float:
    """The least value of a function of λ found on a fixed grid, coarsely and then closer; every value is a bound."""
    known: dict[int, float] = {}

    def at(index: int) -> float:
        if index not in known:
            known[index] = bound(float(TILTS[index]))
        return known[index]

    end = int(np.searchsorted(TILTS, last))
    best = min(range(0, end, COARSE), key=at)
    step = COARSE
    while step > 1:
        step //= 2
        best = min((each for each in (best - step, best, best + step) if 0 <= each < end), key=at)
    return at(best)


@functools.lru_cache(maxsize=2**14)
def least_ratio(tilt: float, least: float) -> float:
    r"""A b with ``1 − exp(−λ D_α(w‖q)) ≥ b D(w‖q)`` for all w, if no q_s is below ``least``; α = 1/(1 + λ).

    Let r = w/q and u = E_q r^α, so that exp(−λ D_α) = u^{1/α}. It suffices to look at two symbols: where
    u^{1/α} + b D(w‖q) is largest over w no w_s is 0 (the slope of u is infinite there), and A r^{α−1} + b log r is
    the same for all s with some A > 0; as this function first decreases and then increases, r has two values at most,
    and the symbols of each may be merged. So b is the least of (1 − u^{1/α})/D over two symbols of probabilities Q and
    1 − Q, ``least`` ≤ Q ≤ 1 − ``least``, the first with the larger r. It is bounded from below where r ≤ NEAR by
    :func:`_near_ratio`, elsewhere by :func:`_far_ratio`, or everywhere by the former.
    """
    least = min(least, 0.5)
    everywhere = _near_ratio(tilt, 1.0 / least)
    near = _near_ratio(tilt, min(NEAR, 1.0 / least))
    return max(everywhere, min(near, _far_ratio(tilt, least)))


def _near_ratio(tilt: float, ratio: float) -> float:
    r"""A b with ``1 − exp(−λ D_α(w‖q)) ≥ b D(w‖q)`` whenever w/q ≤ R; α = 1/(1 + λ).

    Let f_1(x) = 1 + α(x − 1) − x^α and f_2(x) = x log x − x + 1. The ratio f_1''/f_2'' = α(1 − α) x^{α−1} decreases,
    so f_1/f_2 decreases too, and f_1(r/c) ≥ f_2(r/c) f_1(R/c)/f_2(R/c) for 0 < c < 1 and r ≤ R. Averaged over q this
    says that, among all r ≤ R with E r = 1 and a given u = E r^α, D = E r log r is largest where r has the two values
    c and R. With mass π at R, c = (1 − πR)/(1 − π), b is the least (1 − u^{1/α})/D over 0 < π ≤ 1/R.

    That least value is itself bounded from below: on an interval of π, D is convex in π and lies below its chord; u
    is concave and lies below its tangent in the middle, so that 1 − u^{1/α} lies above 1 − tangent^{1/α}, which is
    concave and lies above its chord; and a ratio of two chords is least at an end.
    """
    power = 1.0 / (1.0 + tilt)
    edges = STEPS / ratio
    middles = 0.5 * (edges[1:] + edges[:-1])
    ends = np.stack([edges[:-1], edges[1:]])
    deficit, slope = _deficit(middles, ratio, power)
    # The first interval starts at 0, where u = 1: the tangent there is used, and everything is proportional to π.
    first = edges[0] * ((1.0 - power) * (1.0 - ratio) - ratio * math.expm1((power - 1.0) * math.log(ratio)))
    lost = np.concatenate([[first], np.maximum(deficit + slope * (ends - middles), 0.0).ravel()])
    divergence = _divergence(np.concatenate([[edges[0]], ends.ravel()]), ratio)
    return float(np.min(_powered(lost, power) / divergence)) * (1.0 - ROUNDING)


def _far_ratio(tilt: float, least: float) -> float:
    """The same for two symbols of probabilities Q and 1 − Q, least ≤ Q ≤ 1 − least, where w/Q ≥ NEAR.

    In (w, Q), D is jointly convex and u jointly concave. So on every cell of a grid with straight edges D lies below
    the interpolation of its corners, and 1 − u^{1/α} above that of 1 − plane^{1/α}, the plane tangent to u in the
    middle of the cell; the ratio of two interpolations is least at a corner.
    """
    last = min(1.0 - least, 1.0 / NEAR)
    if least >= last:
        return math.inf
    power = 1.0 / (1.0 + tilt)
    rows = max(2, 1 + math.ceil(math.log(last / least) / MESH))
    mass = np.geomspace(least, last, rows)[:, None]
    share = np.minimum(NEAR * mass + (1.0 - NEAR * mass) * np.concatenate([[0.0], STEPS[::8], [1.0]]), 1.0)
    mass = np.broadcast_to(mass, share.shape)
    q, w = (0.25 * (x[1:, 1:] + x[:-1, 1:] + x[1:, :-1] + x[:-1, :-1]) for x in (mass, share))
    log_first, log_second = np.log(w / q), np.log((1.0 - w) / (1.0 - q))
    bent = -np.expm1((power - 1.0) * np.stack([log_first, log_second]))
    deficit = w * bent[0] + (1.0 - w) * bent[1]
    slope_w = power * (bent[0] - bent[1])
    slope_q = (1.0 - power) * (np.exp(power * log_second) - np.exp(power * log_first))
    divergence = binary_divergence(share, mass)
    worst = math.inf
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        corner = np.s_[i : i + rows - 1, j : j + share.shape[1] - 1]
        lost = np.maximum(deficit + slope_w * (share[corner] - w) + slope_q * (mass[corner] - q), 0.0)
        found = _powered(lost, power) / np.maximum(divergence[corner], TINY)
        worst = min(worst, float(found.min()))
    return worst * (1.0 - ROUNDING)


def _powered(lost: Array, power: float) -> Array:
    """1 − u^{1/α} from 1 − u."""
    return np.asarray(-np.expm1(np.log1p(-np.minimum(lost, 1.0 - 1e-16)) / power))


def largest_ratio(tilt: float, ratio: float) -> float:
    """A B with ``exp(θ D_α(w‖q)) − 1 ≤ B D(w‖q)`` whenever w/q ≤ R; α = 1/(1 − θ).

    With u = E r^α ≥ 1, exp(θ D_α) = u^{1−θ} ≤ 1 + (1 − θ)(u − 1); and u − 1 = E f(r) for
    f(r) = r^α − 1 − α(r − 1), where f''/f_2'' = α(α − 1) r^{α−1} increases, so f/f_2 is largest at R.
    """
    ratio = max(ratio, 1.0 + 1e-6)
    power = 1.0 / (1.0 - tilt)
    with np.errstate(over="ignore"):
        grown = np.exp(power * np.log(ratio)) - 1.0 - power * (ratio - 1.0)
    return float((1.0 - tilt) * grown / (ratio * math.log(ratio) - ratio + 1.0)) * (1.0 + ROUNDING)


def _rest(mass: Array, ratio: float) -> Array:
    """The logarithm of the value c = (1 − πR)/(1 − π) = 1 − π(R − 1)/(1 − π)."""
    return np.log1p(-np.minimum(mass * (ratio - 1.0) / (1.0 - mass), 1.0 - 1e-16))


def _divergence(mass: Array, ratio: float) -> Array:
    """D = π R log R + (1 − πR) log c."""
    log_rest = _rest(mass, ratio)
    return np.asarray(mass * ratio * math.log(ratio) + (1.0 - mass) * np.exp(log_rest) * log_rest)


def _deficit(mass: Array, ratio: float, power: float) -> tuple[Array, Array]:
    """1 − u and its derivative in π, c^α f_1(R/c)."""
    log_rest = _rest(mass, ratio)
    rest = np.exp(log_rest)
    # 1 − E r^α = E r (1 − r^{α−1}), which keeps its accuracy when α is close to 1.
    lost = -mass * ratio * math.expm1((power - 1.0) * math.log(ratio)) - (1.0 - mass) * rest * np.expm1(
        (power - 1.0) * log_rest
    )
    x = ratio / rest
    loss = (1.0 - power) * (1.0 - x) - x * np.expm1((power - 1.0) * np.log(x))
    return lost, np.exp(power * log_rest) * loss
