r"""Extremes of information over a divergence ball {p : D(p̂‖p) ≤ ε}, by duality: any multipliers give a valid bound.

**Largest.** I(S;Y|A) is the least divergence D(p‖Q) to a table Q in which S and Y are independent given A; so for
every such Q, fixed without looking at p, I(S;Y|A) ≤ D(p‖Q) (no margin of p is replaced by that of p̂). And D(p‖Q) is
a sum over cells. For every μ ≥ 0 and ν, and every p of the ball with no cell above its cap,

    D(p‖Q) ≤ D(p‖Q) + μ (ε − D(p̂‖p)) + ν (1 − Σ p)
           = μ ε + ν + Σ_cells [x log(x/Q) − ν x + μ p̂ log(x/p̂)]   at x = p
           ≤ μ ε + ν + Σ_cells max_{0 ≤ x ≤ cap} [ … ].

The brackets are functions φ of one number, concave below x = μp̂ and convex above. So the maximum of each is at the cap
or at the zero x* of φ' = log(x/Q) + 1 − ν + μp̂/x on the concave side; an x_0 ≤ x* there bounds it by the tangent,
φ(x_0) + φ'(x_0)(μp̂ − x_0), whatever the error of x_0. The multipliers are searched for; the bound holds for all.

**Least.** For fixed V(s|y), I(S;Y) ≥ Σ p log V(s|y) + H(S), and H(S) = Σ_s −p_s log p_s, concave, lies above the
chords of its terms between the ends that p_s can have. So I ≥ k + Σ c p for numbers k, c, and for every ν < min c

    min {Σ c p : D(p̂‖p) ≤ ε} ≥ ν + exp(Σ p̂ log(c − ν) − ε),

because Σ p̂ log(c − ν) = Σ p̂ log(p (c − ν)/p̂) + D(p̂‖p) ≤ log Σ p (c − ν) + ε by Jensen's inequality.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from privfunnel import measures
from privfunnel.data.population.intervals import ROUNDING, divergence_cap, larger_root
from privfunnel.measures import TINY, Array

#: Rows added to each private symbol, spread over its cells, before the margins that make Q are taken; each choice gives
#: a bound, and the least is kept.
SMOOTHING = (0.05, 0.5)
#: Rounds in which Q and V follow the extreme p found last.
ROUNDS = 2
EVALUATIONS = 60


def largest_information(counts: Array, radius: float) -> float:
    """An upper bound of I(S;Y|A) over {p : n D(p̂‖p) ≤ radius}, nats.

    Args:
        counts: Rows, shape (K, N, A).
        radius: Of the ball, times n.
    """
    if counts.size == 1:
        return 0.0
    n = float(counts.sum())
    p_hat, epsilon = counts / n, radius / n
    cap = divergence_cap(p_hat, epsilon)
    best = math.inf
    for added in SMOOTHING:
        room = added / n / (counts.shape[1] * counts.shape[2])
        extreme = p_hat
        for _ in range(ROUNDS):
            smoothed = extreme + room
            reference = _independent(smoothed / smoothed.sum())
            bound, extreme = _largest_divergence(p_hat, reference, epsilon, cap)
            best = min(best, bound)
    return best


def least_information(counts: Array, radius: float) -> float:
    """A lower bound of I(S;Y) over {p : n D(p̂‖p) ≤ radius}, nats, 0 at least.

    Args:
        counts: Rows, shape (K, N).
        radius: Of the ball, times n.
    """
    n = float(counts.sum())
    p_hat, epsilon = counts / n, radius / n
    p_s = p_hat.sum(axis=1)
    high, low = divergence_cap(p_s, epsilon), 1.0 - divergence_cap(1.0 - p_s, epsilon)
    ends = -measures.xlogx(np.stack([low, high]))
    slope = (ends[1] - ends[0]) / np.maximum(high - low, TINY)
    constant = float(np.sum(ends[0] - slope * low))
    best, extreme = 0.0, p_hat
    for _ in range(ROUNDS + 1):
        smoothed = extreme + 1e-3 / n / counts.shape[1]
        cost = np.log(smoothed / smoothed.sum(axis=0)) + slope[:, None]
        value, extreme = _least_mean(p_hat, cost, epsilon)
        best = max(best, constant + value - ROUNDING * (1.0 + abs(constant) + abs(value)))
    return best


def _independent(p: Array) -> Array:
    """p(a) p(s|a) p(y|a) of a table (s, y, a)."""
    p_a = p.sum(axis=(0, 1))
    return np.asarray(p.sum(axis=1)[:, None, :] * p.sum(axis=0)[None] / np.maximum(p_a, TINY))


def _largest_divergence(p_hat: Array, reference: Array, epsilon: float, cap: Array) -> tuple[float, Array]:
    """An upper bound of D(p‖Q) over the ball, and the cells at which its parts are attained."""
    p, q, top = p_hat.ravel(), reference.ravel(), cap.ravel()
    found = float(np.sum(np.where(p > 0.0, p * np.log(np.where(p > 0.0, p, 1.0) / q), 0.0)))
    first = math.log1p(math.sqrt(max(found, 0.0) / epsilon))
    start = np.array([first, math.exp(first) + 1.0])

    def value_at(multipliers: Array) -> float:
        return _dual(math.exp(multipliers[0]), float(multipliers[1]), (p, q, top), epsilon)[0]

    simplex = start + np.array([[0.0, 0.0], [0.1, 0.1], [0.0, 0.1]])
    searched = scipy.optimize.minimize(
        value_at, start, method="Nelder-Mead", options={"initial_simplex": simplex, "maxfev": EVALUATIONS}
    )
    value, at = _dual(math.exp(searched.x[0]), float(searched.x[1]), (p, q, top), epsilon)
    return value, at.reshape(p_hat.shape)


def _dual(mu: float, nu: float, table: tuple[Array, Array, Array], epsilon: float) -> tuple[float, Array]:
    """The dual value μ ε + ν + Σ max φ, rounded up, and where each φ is largest."""
    p, q, top = table
    full = p > 0.0
    safe = np.where(full, p, 1.0)
    turn = mu * p

    def phi(x: Array) -> Array:
        return np.asarray(x * np.log(x / q) - nu * x + np.where(full, turn * np.log(x / safe), 0.0))

    excess = nu - 2.0 + np.log(q / (mu * safe))
    inside = full & (excess > 0.0)
    x = np.where(inside, turn / larger_root(np.where(inside, excess, 1.0)), top)
    inside &= x < top
    x = np.where(inside, x, top)
    at_top, at_x = phi(top), phi(x)
    slope = np.log(x / q) + 1.0 - nu + turn / x
    peak = at_x + np.maximum(slope, 0.0) * np.maximum(turn - x, 0.0)
    # A cell without rows may also stay empty, where its function is 0.
    largest = np.where(inside, np.maximum(peak, at_top), np.where(full, at_top, np.maximum(at_top, 0.0)))
    size = mu * epsilon + abs(nu) + float(np.abs(largest).sum())
    where = np.where(inside & (peak >= at_top), x, np.where(full | (at_top > 0.0), top, 0.0))
    return mu * epsilon + nu + float(largest.sum()) + 1e-13 * size, where


def _least_mean(p_hat: Array, cost: Array, epsilon: float) -> tuple[float, Array]:
    """A lower bound of Σ c p over the ball, and a p near the one that attains it."""
    floor, spread = float(cost.min()), float(np.ptp(cost)) + 1e-12

    def bound(log_gap: float) -> float:
        nu = floor - spread * math.exp(log_gap)
        return nu + math.exp(float(np.sum(p_hat * np.log(cost - nu))) - epsilon)

    found = scipy.optimize.minimize_scalar(lambda at: -bound(at), bounds=(-12.0, 16.0), method="bounded")
    nu = floor - spread * math.exp(found.x)
    weight = p_hat / (cost - nu)
    return bound(float(found.x)), weight / weight.sum()
