"""One iteration of the difference-of-convex method, as published and repaired, over a batch of runs of one shape.

Both minimise ``β I(S;Y) − I(X;Y) = −β H(Y|S) + [β H(Y) − I(X;Y)]``: the first part is convex in ``P = p(y|x)``, the
bracket is concave and is linearised at the current channel, which leaves the stationarity condition

    ``Σ_s p(s|x) ln p(y|s) = C_xy + const_x``,   ``C_xy = ln r_y + (1/β) ln(P_xy / r_y)``,   ``r = p(y)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.measures import TINY, Array

#: The authors keep every probability this far from 0 and 1.
_CLIP = 1e-8
#: Projected gradient steps for the regression at most, the change of an entry at which it is solved, and the momentum
#: where the problem has no curvature of its own to set it by.
_REGRESSION_STEPS, _REGRESSION_CHANGE, _SPARSE_MOMENTUM = 400, 1e-10, 0.9


@dataclass(frozen=True)
class Table:
    """Constants of one problem: p(s) (K,), p(x) (M,), p(x|s) (K, M), p(s|x) (K, M), pseudo-inverse (K, M).

    ``gram`` is ``Aᵀ A`` (M, M) of ``A = p(x|s)``, where it saves time.
    """

    p_s: Array
    p_x: Array
    x_given_s: Array
    s_given_x: Array
    solve_s: Array
    curvature: float
    gram: Array | None

    @classmethod
    def of(cls, p_sx: Array) -> Table:
        """The constants of a joint table (K, M)."""
        p_s, p_x = p_sx.sum(axis=1), p_sx.sum(axis=0)
        x_given_s, s_given_x = p_sx / p_s[:, None], p_sx / p_x
        # (B Bᵀ)⁻¹ B for B = p(s|x) of full row rank; the least-norm solution otherwise.
        return cls(
            p_s=p_s,
            p_x=p_x,
            x_given_s=x_given_s,
            s_given_x=s_given_x,
            solve_s=np.linalg.pinv(s_given_x.T),
            curvature=float(np.linalg.norm(x_given_s, 2) ** 2),
            # Symbols M up to which ``Aᵀ A`` is made in any case: beyond, two products with ``A`` may cost less.
            gram=x_given_s.T @ x_given_s if len(p_x) <= max(256, 2 * len(p_s)) else None,
        )

    def squared(self, channel: Array) -> Array:
        """``Aᵀ A P`` (runs, M, N) for ``A = p(x|s)``."""
        if self.gram is None:
            return np.asarray(self.x_given_s.T @ (self.x_given_s @ channel))
        return np.asarray(self.gram @ channel)


def linearised(table: Table, channel: Array, beta: Array) -> Array:
    """``C`` (runs, M, N): the linearised concave part at ``channel``, divided by ``−β p_x``."""
    log_r = np.log(np.maximum(np.matmul(table.p_x, channel), TINY))[:, None, :]
    log_p = np.log(np.maximum(channel, TINY))
    return np.asarray(log_r + (log_p - log_r) / beta[:, None, None])


def target(table: Table, channel: Array, beta: Array) -> Array:
    """The published target ``Q̂ = softmax_y (B Bᵀ)⁻¹ B C`` for p(y|s), (runs, K, N), clipped to [1e-8, 1 − 1e-8].

    The softmax is over ``y`` with its own maximum removed for each ``s``. (The authors' code removes the maximum over
    ``s`` instead, which is not constant in ``y`` and changes the answer.)
    """
    logits = table.solve_s @ linearised(table, channel, beta)
    logits -= logits.max(axis=2, keepdims=True)
    q = np.exp(logits)
    return np.asarray(np.clip(q / q.sum(axis=2, keepdims=True), _CLIP, 1.0 - _CLIP))


def published_step(
    table: Table, channel: Array, beta: Array, weight: Array, *, sparse: bool, deadline: Deadline = NEVER
) -> Array | None:
    """``argmin ‖A P − Q̂‖² + α ‖P‖²`` with rows on the simplex (ridge), or ``+ α ‖P‖₁`` with P ≥ 0 (sparse).

    The 1-norm is constant on the simplex, so the sparse variant imposes only ``P ≥ 0`` and normalises the rows
    afterwards, as both variants do after clipping at 1e-8. Solved by accelerated projected gradients; None where the
    time is up before they end.
    """
    q = target(table, channel, beta)
    alpha = weight[:, None, None]
    pull = table.x_given_s.T @ q
    if sparse:
        bend, ridge = table.curvature, np.zeros_like(alpha)
        pull = pull - 0.5 * alpha
        momentum: Array | float = _SPARSE_MOMENTUM
    else:
        bend, ridge = table.curvature, alpha
        root = np.sqrt(alpha / (alpha + bend))
        momentum = (1.0 - root) / (1.0 + root)
    length = 1.0 / (bend + ridge)
    p, ahead = channel, channel
    for _ in range(_REGRESSION_STEPS):
        if deadline.passed():
            return None
        gradient = table.squared(ahead) + ridge * ahead - pull
        new = ahead - length * gradient
        new = np.maximum(new, 0.0) if sparse else project_rows(new)
        moved = float(np.abs(new - p).max())
        ahead = new + momentum * (new - p)
        p = new
        if moved < _REGRESSION_CHANGE:
            break
    p = np.clip(p, _CLIP, 1.0 - _CLIP)
    return np.asarray(p / p.sum(axis=2, keepdims=True))


def project_rows(z: Array) -> Array:
    """Euclidean projection of every row (last axis) onto the probability simplex."""
    n = z.shape[-1]
    ordered = -np.sort(-z, axis=-1)
    excess = (np.cumsum(ordered, axis=-1) - 1.0) / np.arange(1, n + 1)
    active = np.count_nonzero(ordered > excess, axis=-1, keepdims=True)
    return np.maximum(z - np.take_along_axis(excess, active - 1, axis=-1), 0.0)


def repaired_step(table: Table, channel: Array, beta: Array, inner_steps: int) -> Array:
    """The convex subproblem itself, in the log domain: a step that cannot raise ``β I(S;Y) − I(X;Y)``.

    ``Σ_s p(s) D(A P ‖ A P')`` is at most ``Σ_x p(x) D(P ‖ P')`` (data processing), so the convex part is smooth
    relative to the entropy with constant ``β``, and ``P ← P exp(C − Σ_s p(s|x) ln(A P)_sy)``, normalised, descends.
    (One inner step is the update of an alternating minimisation; many solve the subproblem.)
    """
    fixed = linearised(table, channel, beta)
    log_p = np.log(np.maximum(channel, TINY))
    p = channel
    for _ in range(inner_steps):
        log_q = np.log(np.maximum(table.x_given_s @ p, TINY))
        log_p = log_p + fixed - table.s_given_x.T @ log_q
        log_p -= log_p.max(axis=2, keepdims=True)
        p = np.exp(log_p)
        total = p.sum(axis=2, keepdims=True)
        # Logarithm of the smallest entry: just above log TINY, so that every entry stays positive.
        p, log_p = p / total, np.maximum(log_p - np.log(total), -690.0)
    return np.asarray(p)
