"""Douglas-Rachford splitting as its authors ship it, over a batch of runs of one shape.

For a multiplier ``β`` the method minimises ``β I(S;Y) − I(X;Y)`` with two copies of the channel, ``P = p(y|x)`` and
``Q ≈ p(y|s)``, tied by ``Q = A P`` with ``A = p(x|s)``. With ``r = p_x P`` and ``E = Q − A P`` the Lagrangian is

    ``(β−1) H(r) − β H(Y|S; Q) + H(Y|X; P) + ⟨Λ, E⟩ + (c/2) ‖E‖²``

and each iteration takes one gradient step in ``Q``, half a dual step, one gradient step in ``P`` and the other half
(Huang, El Gamal, El Gamal 2022). Rows are distributions over ``y`` here, so every gradient has its mean over ``y``
removed. Nothing is repaired in this module: there is no descent test, the step restarts at ``t0`` and only shrinks
until every entry stays inside [0, 1], and the stopping test is the distance of the two copies, not stationarity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.solvers.deadline import Deadline

CONVERGED, MAX_STEPS, FROZEN, TIMEOUT = 0, 1, 2, 3

_SMALLEST_STEP = 1e-11
_TINY = 1e-300


@dataclass(frozen=True)
class PublishedSettings:
    """The authors' constants: penalty ``c``, relaxation ``a``, tolerance ``ε``, step ``t0`` and its shrink factor."""

    penalty: float = 1024.0
    relaxation: float = 1.0
    tolerance: float = 1e-6
    step: float = 1e-3
    shrink: float = 0.25
    max_steps: int = 40_000


@dataclass(frozen=True)
class Batch:
    """Where a batch of runs ended.

    ``channel`` is (runs, M, N), ``second`` is the copy ``Q`` (runs, K, N), ``code`` and ``steps`` are (runs,).
    """

    channel: Array
    second: Array
    code: NDArray[np.int64]
    steps: NDArray[np.int64]


def run_published(
    p_sx: Array, start: Array, beta: Array, settings: PublishedSettings, deadline: Deadline
) -> Batch:
    """Run the published iteration from ``start`` (runs, M, N), one multiplier ``beta`` (runs,) a run.

    A run that cannot move (every step leaves [0, 1], which is also how a wrong penalty ends) has code ``FROZEN``; its
    last interior channel is returned, so no entry is ever NaN.
    """
    p_s, p_x = p_sx.sum(axis=1), p_sx.sum(axis=0)
    x_given_s = p_sx / p_s[:, None]
    n_runs = len(start)
    channel, second = start.copy(), x_given_s @ start
    code = np.full(n_runs, MAX_STEPS)
    steps = np.zeros(n_runs, dtype=np.int64)

    alive = np.arange(n_runs)
    p, q, dual = channel.copy(), second.copy(), np.zeros_like(second)
    b = beta[:, None, None]
    c, half = settings.penalty, (1.0 - settings.relaxation) * settings.penalty
    error = q - x_given_s @ p
    for step in range(1, settings.max_steps + 1):
        slope_q = _centred(b * p_s[:, None] * (_log(q) + 1.0) + dual + c * error)
        t_q = _feasible_step(q, slope_q, settings)
        q_new = np.clip(q - t_q[:, None, None] * slope_q, 0.0, 1.0)
        middle = q_new - x_given_s @ p
        dual_half = dual - half * middle
        r = np.matmul(p_x, p)[:, None, :]
        slope_p = _centred(
            -p_x[:, None] * ((b - 1.0) * (_log(r) + 1.0) + _log(p) + 1.0)
            - x_given_s.T @ (dual_half + c * middle)
        )
        t_p = _feasible_step(p, slope_p, settings)
        p_new = np.clip(p - t_p[:, None, None] * slope_p, 0.0, 1.0)
        error = q_new - x_given_s @ p_new
        dual = dual_half + c * error

        frozen = (t_q < _SMALLEST_STEP) | (t_p < _SMALLEST_STEP)
        close = (0.5 * np.abs(error).sum(axis=2).max(axis=1) < settings.tolerance) & ~frozen
        ended = frozen | close
        if ended.any():
            # A converged run returns the pair before its last step, as the authors' code does.
            at = alive[ended]
            channel[at], second[at] = p[ended], q[ended]
            code[at] = np.where(close[ended], CONVERGED, FROZEN)
            steps[at] = step
            keep = ~ended
            alive, p_new, q_new, dual, error, b = (
                alive[keep], p_new[keep], q_new[keep], dual[keep], error[keep], b[keep]
            )  # fmt: skip
        p, q = p_new, q_new
        if not alive.size:
            break
        if step % 16 == 0 and deadline.passed():
            code[alive] = TIMEOUT
            break
    else:
        step = settings.max_steps
    channel[alive], second[alive], steps[alive] = p, q, step
    return Batch(channel, second, code, steps)


def _log(p: Array) -> Array:
    """Logarithm of a distribution, large and finite at 0."""
    return np.asarray(np.log(np.maximum(p, _TINY)))


def _centred(gradient: Array) -> Array:
    """The gradient with its mean over ``y`` removed, so that rows keep summing to 1."""
    return np.asarray(gradient - gradient.mean(axis=2, keepdims=True))


def _feasible_step(p: Array, gradient: Array, settings: PublishedSettings) -> Array:
    """The first of ``t0, ρ t0, ρ² t0, …`` that keeps every entry of ``p − t gradient`` inside [0, 1], a run (runs,).

    The largest admissible step is known in closed form, so the authors' loop of trials becomes one logarithm.
    """
    room = np.where(gradient > 0.0, p, 1.0 - p)
    speed = np.abs(gradient)
    with np.errstate(divide="ignore", invalid="ignore"):
        longest = np.where(speed > 0.0, room / speed, np.inf)
    ratio = longest.min(axis=(1, 2)) / settings.step
    shrinks = np.ceil(np.log(np.clip(ratio, 1e-300, 1.0)) / np.log(settings.shrink))
    step: Array = settings.step * settings.shrink**shrinks
    return np.where(np.isfinite(speed).all(axis=(1, 2)), step, 0.0)
