"""The Blahut-Arimoto iteration of the information bottleneck, for one multiplier β.

    ``p(y|x) ∝ p(y) exp(−β D(p(s|x) ‖ p(s|y)))``

lowers ``I(X;Y) − β I(S;Y)`` in every step (Tishby, Pereira and Bialek, The Information Bottleneck Method, Allerton
1999, after Blahut 1972). :func:`parts` and :func:`responses` are the same step taken apart, which ABP shares.
"""

from __future__ import annotations

import numpy as np

from privfunnel.certificate.answer import Status
from privfunnel.measures import TINY, Array
from privfunnel.model import channels
from privfunnel.model.problem import Problem


def iterate(
    problem: Problem, channel: Array, beta: float, *, tolerance: float, max_steps: int
) -> tuple[Array, bool]:
    """Blahut-Arimoto from ``channel`` (M, N): the channel it ends at, and whether it stopped moving."""
    for _ in range(max_steps):
        new = update(problem, channel, beta)
        moved = float(np.abs(new - channel).max())
        channel = new
        if moved < tolerance:
            return channel, True
    return channel, False


def update(problem: Problem, channel: Array, beta: float) -> Array:
    """One iteration ``p(y|x) ∝ p(y) exp(−β D(p(s|x) ‖ p(s|y)))`` on a channel (M, N)."""
    p_y = np.maximum(problem.p_x @ channel, TINY)
    log_t = np.log(np.maximum(problem.p_sx @ channel / p_y, TINY))
    logits = np.log(p_y) + beta * (problem.p_s_given_x.T @ log_t)
    logits -= logits.max(axis=1, keepdims=True)
    new = np.exp(logits)
    return np.asarray(new / new.sum(axis=1, keepdims=True))


def parts(problem: Problem, channel: Array) -> tuple[Array, Array]:
    """Logarithms of p(y), shape (N,), and ``Σ_s p(s|x) log p(s|y)``, shape (M, N), of a channel (M, N)."""
    p_y = np.maximum(problem.p_x @ channel, TINY)
    log_t = np.log(np.maximum(problem.p_sx @ channel / p_y, TINY))
    return np.log(p_y), np.asarray(problem.p_s_given_x.T @ log_t)


def responses(log_p_y: Array, scores: Array, beta: float) -> tuple[Array, Array]:
    """``p(y|x) ∝ p(y) exp(β scores)``, shape (M, N), and the logarithm of each row's normaliser, shape (M,)."""
    logits = log_p_y + beta * scores
    top = logits.max(axis=1, keepdims=True)
    weights = np.exp(logits - top)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total, np.asarray((top + np.log(total))[:, 0])


def best(
    problem: Problem,
    beta: float,
    rng: np.random.Generator,
    restarts: int,
    tolerance: float,
    max_steps: int,
    warm: Array | None,
) -> tuple[Array, Status]:
    """The least ``I(X;Y) − β I(S;Y)`` over the runs from X itself, from ``warm`` and from random channels."""
    n_x = problem.n_x
    starts = [channels.identity(n_x)] if warm is None else [warm, channels.identity(n_x)]
    starts += list(rng.dirichlet(np.ones(n_x), size=(restarts, n_x)))
    best, least, status = channels.constant(n_x), 0.0, Status.CONVERGED
    for start in starts:
        channel, still = iterate(problem, start, beta, tolerance=tolerance, max_steps=max_steps)
        point = problem.evaluate(channel)
        value = point.disclosure - beta * point.leakage
        if value < least:
            best, least, status = channel, value, Status.CONVERGED if still else Status.MAX_STEPS
    return channels.merge_outputs(best), status
