"""One AEM iteration on a batch of runs in plain NumPy: the reference that every faster engine is tested against.

The state of a run is ``log_u``, the logarithm of p(x, y) with shape (M, N). Since every column of p(s|x) sums
to 1, the auxiliary q = p(x|s, y) of Algorithm 1 never has to be stored: with t_kj = p(s_k|y_j) one iteration is

    log u_ij ← log p_i + log softmax_j( log u_ij − Σ_k s_ki log t_kj + λ log w_ij ),      w_ij = u_ij / r_j

where λ ≥ 0 is the root of the nondecreasing function G(λ) = Σ_ij u_ij(λ) log w_ij − (R − H(X)), or 0 when G(0)
≥ 0. By Gibbs' inequality G(λ) ≥ 0 implies I(X;Y) ≥ R after the update, so the root is always approached from
its feasible side.

Zeros. The update is multiplicative: an entry that is 0 stays 0. Such entries carry ``log_u = ZERO``, a finite
stand-in for −∞ (so that λ·log w is a number even at λ = 0) whose exponential is exactly 0. An entry whose
share of its row falls below exp(CUT) ≈ 1e-287 is treated as 0: it is about to underflow and carries less than
1e-284 nats of anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privfunnel.measures import Array, entropy, safe_log

ZERO = -1.0e30
CUT = -660.0
SLOPE_LIMIT = 2.0**40
ROOT_EVALUATIONS = 120
CACHE_BYTES = 1 << 21


@dataclass(frozen=True)
class Tables:
    """What all runs of one problem share.

    Attributes:
        p_s_given_x: p(s|x), shape (K, M).
        p_x: p(x), shape (M,).
        log_p_x: log p(x), shape (M,).
        log_p_s: log p(s), shape (K,).
        h_x: H(X) in nats.
    """

    p_s_given_x: Array
    p_x: Array
    log_p_x: Array
    log_p_s: Array
    h_x: float

    @classmethod
    def of(cls, p_sx: Array) -> Tables:
        """Tables of the joint distribution ``p_sx`` (K, M), whose columns all have positive mass."""
        p_x = p_sx.sum(axis=0)
        p_s_given_x = np.ascontiguousarray(p_sx / p_x)
        return cls(p_s_given_x, p_x, np.log(p_x), np.log(p_sx.sum(axis=1)), float(entropy(p_x)))

    def root_tolerance(self) -> float:
        """How far above 0 the accepted G(λ) may lie, in nats: a few hundred roundings of H(X)."""
        return 1.0e-13 * max(1.0, self.h_x)


class StepResult(NamedTuple):
    """What one iteration returns for a batch of B runs.

    Attributes:
        log_u: The new log p(x, y), shape (B, M, N).
        slope: The λ of the update, shape (B,).
        residual: Stationarity residual of the *old* point, shape (B,): see :func:`change_residual`.
        moved: False where no λ could meet the constraint (the old point is returned), shape (B,).
    """

    log_u: Array
    slope: Array
    residual: Array
    moved: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def pieces(size: int, item_bytes: int) -> list[slice]:
    """Cut a batch of ``size`` items into slices whose work stays in cache: one call for many small, few large each."""
    length = max(1, CACHE_BYTES // max(1, item_bytes))
    return [slice(begin, min(size, begin + length)) for begin in range(0, size, length)]


def log_of(p_xy: Array) -> Array:
    """Log p(x, y) with exact zeros carried as ``ZERO``; any shape."""
    return np.asarray(np.where(p_xy > 0.0, safe_log(p_xy), ZERO))


def channel_of(tables: Tables, log_u: Array) -> Array:
    """The channel p(y|x) (…, M, N) of the state ``log_u``; rows sum to 1."""
    channel = np.exp(log_u - tables.log_p_x[:, None])
    return np.asarray(channel / channel.sum(axis=-1, keepdims=True))


def exponents(tables: Tables, log_u: Array) -> tuple[Array, Array]:
    """The two λ-free parts of the exponent, both (B, M, N).

    Returns:
        ``base`` = log u_ij − Σ_k s_ki log t_kj, and ``log_w`` = log p(x_i|y_j).
    """
    p_sy = tables.p_s_given_x @ np.exp(log_u)
    log_r = safe_log(p_sy.sum(axis=-2))[:, None, :]
    # Where t_kj = 0 every u_ij > 0 has s_ki = 0, so any finite value for log t_kj is right: 0.
    log_t = np.where(p_sy > 0.0, safe_log(p_sy) - log_r, 0.0)
    return log_u - tables.p_s_given_x.T @ log_t, log_u - log_r


def _update(
    tables: Tables, base: Array, log_w: Array, slope: Array, target: Array
) -> tuple[Array, Array, Array, Array]:
    """The update at given λ: (log u (B, M, N), G, dG/dλ and d²G/dλ² (B,)), ``target`` being R − H(X)."""
    exponent = base + slope[:, None, None] * log_w
    exponent -= exponent.max(axis=-1, keepdims=True)
    dead = exponent < CUT
    weight = np.exp(exponent)
    weight[dead] = 0.0
    total = weight.sum(axis=-1)
    weight *= log_w
    first = weight.sum(axis=-1) / total
    weight *= log_w
    second = weight.sum(axis=-1) / total
    weight *= log_w
    third = weight.sum(axis=-1) / total - first * (3.0 * second - 2.0 * first * first)
    value = (first * tables.p_x).sum(axis=-1) - target
    gain = (np.maximum(second - first * first, 0.0) * tables.p_x).sum(axis=-1)
    exponent += (tables.log_p_x - np.log(total))[..., None]
    exponent[dead] = ZERO
    return exponent, value, gain, (third * tables.p_x).sum(axis=-1)


def step(tables: Tables, log_u: Array, slope: Array, target: Array) -> StepResult:
    """One iteration of Algorithm 1 for a batch.

    Args:
        tables: The problem's tables.
        log_u: log p(x, y) of B runs, shape (B, M, N); each with I(X;Y) ≥ R.
        slope: λ to start the root search from, shape (B,): that of the previous iteration.
        target: R − H(X) of each run, shape (B,).

    Returns:
        The new points with their λ. Halley's method is kept inside a bracket, because G is flat at both ends.
    """
    base, log_w = exponents(tables, log_u)
    size = len(log_u)
    new_u, new_slope = log_u.copy(), slope.copy()
    moved = np.zeros(size, dtype=bool)
    low, high = np.full(size, -1.0), np.full(size, np.inf)
    trial = np.maximum(slope, 0.0)
    tolerance = tables.root_tolerance()
    open_ = np.arange(size)
    for _ in range(ROOT_EVALUATIONS):
        everything = len(open_) == size
        part_base, part_w = (base, log_w) if everything else (base[open_], log_w[open_])
        candidate, value, gain, bend = _update(tables, part_base, part_w, trial[open_], target[open_])
        feasible = value >= 0.0
        new_u[open_[feasible]] = candidate[feasible]
        new_slope[open_[feasible]] = trial[open_[feasible]]
        moved[open_[feasible]] = True
        high[open_[feasible]] = trial[open_[feasible]]
        low[open_[~feasible]] = trial[open_[~feasible]]
        done = feasible & ((value <= tolerance) | (trial[open_] == 0.0))
        missing = value - 0.5 * tolerance
        following = next_slope(trial[open_], missing, halley(missing, gain, bend), low[open_], high[open_])
        done |= (following == trial[open_]) | (following > SLOPE_LIMIT)
        trial[open_] = following
        open_ = open_[~done]
        if not len(open_):
            break
    return StepResult(new_u, new_slope, change_residual(tables, log_u, new_u), moved)


def halley(value: Array, gain: Array, bend: Array) -> Array:
    """The slope with which a step of Newton's method is one of Halley's; ``gain`` itself where it is far from that.

    Near the root Halley's method triples the digits that Newton's doubles.
    """
    slope = gain - 0.5 * value * bend / np.where(gain > 0.0, gain, 1.0)
    return np.asarray(np.where((0.5 * gain < slope) & (slope < 2.0 * gain), slope, gain))


def next_slope(trial: Array, value: Array, gain: Array, low: Array, high: Array) -> Array:
    """Safeguarded Newton step for G(λ) = 0 inside (low, high); ``low = −1`` means that λ = 0 is untried.

    Where the bracket has no float left inside it, the trial itself comes back.
    """
    newton = trial - value / np.where(gain > 0.0, gain, 1.0)
    bounded = np.isfinite(high)
    middle = np.where(bounded, 0.5 * (np.maximum(low, 0.0) + np.where(bounded, high, 0.0)), 2.0 * trial + 1.0)
    # A Newton step may overshoot wildly where G is flat: never more than the doubling while there is no upper end.
    usable = (gain > 0.0) & (newton > low) & (newton < high) & (bounded | (newton < 4.0 * trial + 4.0))
    chosen = np.where(usable, newton, middle)
    chosen = np.where((low < 0.0) & (chosen <= 0.0), 0.0, chosen)
    # With λ = 0 untried a Newton step below 0 means: try 0 itself.
    chosen = np.where((low < 0.0) & (gain > 0.0) & (newton <= 0.0), 0.0, chosen)
    stuck = (chosen <= low) | (chosen >= high)
    return np.asarray(np.where(stuck, trial, chosen))


def change_residual(tables: Tables, log_u: Array, new_u: Array) -> Array:
    """Stationarity residual of ``log_u`` read off its own update ``new_u``, shape (B,), in nats.

    At the λ of the step, −log(u_new / u) is the gradient g_xy of :func:`privfunnel.solution.kkt_residual` up
    to a constant for each x, so that sqrt(Σ u_new (g − mean of g in its row)²) is that residual to first
    order, at no extra logarithm.
    """
    weight = np.exp(new_u)
    growth = np.where(weight > 0.0, new_u - log_u, 0.0)
    mean = (weight * growth).sum(axis=-1, keepdims=True) / tables.p_x[:, None]
    return np.asarray(np.sqrt((weight * (growth - mean) ** 2).sum(axis=(-2, -1))))
