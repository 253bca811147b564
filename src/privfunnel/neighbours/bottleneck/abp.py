"""ABP: the bottleneck at a given relevance or a given rate, without a sweep over the multiplier.

Chen, Wu, Ye, Wu, Zhang and Wu (Efficient and Provably Convergent Computation of Information Bottleneck: A Semi-Relaxed
Approach, ICC 2024) keep the step of Blahut and Arimoto and look for its multiplier in every step. With r = p(y) and
z = p(s|y) of the channel so far, and c_xy = Σ_s p(s|x) log z_sy,

    ``p(y|x) ∝ r_y exp(β c_xy)``,   β ≥ 0 the root of   ``Σ_xy p(x) p(y|x) c_xy + H(S) = I``

makes I(X;Y) as small as I(S;Y) ≥ I allows while r and z stay, and then r and z are taken from the new channel. A
channel that tells I or more has a root, and so have all that follow it, hence the start: X itself
(:func:`whole`), which tells all. For a rate R the same step has β from ``Σ_xy p(x) p(y|x) log(p(y|x)/r_y) = R``, which
has a root from every start, and the relevance rises in every step. It begins with X itself as well: no two symbols are
merged before the steps merge them, so that it ends where Blahut-Arimoto ends that begins there. A start with only a
tenth of random rows has merged some already, and may end lower. Further starts are random
(:func:`near_identity` for a relevance).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.neighbours.bottleneck.blahut_arimoto import parts, responses

#: No multiplier is larger: the curve is flat to a millionth of a nat per nat there.
LARGEST_MULTIPLIER = 1e6
#: Newton steps for one multiplier, and how closely its equation is met, in nats.
MOST_NEWTON, MET = 60, 1e-13
#: Steps after which outputs are looked at, and the probability below which one is dropped.
TIDY_EVERY, VANISHED = 25, 1e-16
#: Public symbols beyond this make starts, M × M, that fill the memory.
MOST_SYMBOLS = 4000
#: How far from the identity a further start is at first: the weight of random rows.
NOISE = 0.1


class Run(NamedTuple):
    """Where a run ended: p(y|x) (M, N), the multiplier β, whether it stopped moving, and the steps it took."""

    channel: Array
    multiplier: float
    still: bool
    steps: int


def whole(problem: Problem) -> Array:
    """The start: X itself, (M, M).

    Raises:
        InvalidInputError: The table has too many public symbols.
    """
    if problem.n_x > MOST_SYMBOLS:
        raise InvalidInputError(
            f"the table has {problem.n_x} public symbols: ABP takes up to {MOST_SYMBOLS}; use fewer columns"
        )
    return np.eye(problem.n_x)


def near_identity(problem: Problem, rng: np.random.Generator, *, relevance: float) -> Array:
    """The identity mixed with random rows, (M, M): so few that I(S;Y) ≥ ``relevance`` (nats)."""
    random = rng.dirichlet(np.ones(problem.n_x), size=problem.n_x)
    weight = NOISE
    while weight > 1e-12:
        channel = (1.0 - weight) * np.eye(problem.n_x) + weight * random
        if problem.evaluate(channel).leakage >= relevance:
            return channel
        weight *= 0.25
    return np.eye(problem.n_x)


def run(
    problem: Problem,
    start: Array,
    *,
    rate: float | None = None,
    relevance: float | None = None,
    tolerance: float = 1e-9,
    max_steps: int = 5000,
) -> Run:
    """ABP from the channel ``start`` (M, N), for a rate or for a relevance in nats (exactly one of them)."""
    channel, beta = start, 1.0
    for step in range(max_steps):
        if step % TIDY_EVERY == TIDY_EVERY - 1:
            channel = _tidied(problem, channel)
        log_p_y, scores = parts(problem, channel)
        beta, new = _multiplier(problem, log_p_y, scores, beta, rate=rate, relevance=relevance)
        moved = float(np.abs(new - channel).max())
        channel = new
        if moved < tolerance:
            return Run(channel, beta, True, step + 1)
    return Run(channel, beta, False, max_steps)


def _multiplier(
    problem: Problem,
    log_p_y: Array,
    scores: Array,
    beta: float,
    *,
    rate: float | None,
    relevance: float | None,
) -> tuple[float, Array]:
    """β by Newton's method inside a bracket, and the channel it gives; both sides of the equations grow with β."""
    low, high, p_x = 0.0, math.inf, problem.p_x
    for _ in range(MOST_NEWTON):
        channel, log_norm = responses(log_p_y, scores, beta)
        weighted = channel * scores
        mean = weighted.sum(axis=1)
        spread = float(p_x @ ((weighted * scores).sum(axis=1) - mean**2))
        if rate is not None:
            off, slope = float(p_x @ (beta * mean - log_norm)) - rate, beta * spread
        else:
            assert relevance is not None
            off, slope = float(p_x @ mean) + problem.h_s - relevance, spread
        if abs(off) <= MET:
            break
        low, high = (low, beta) if off > 0.0 else (beta, high)
        if low >= LARGEST_MULTIPLIER or (high < math.inf and high - low <= 1e-15 * high):
            break
        newton = beta - off / slope if slope > 0.0 else math.inf
        if not low < newton < high:
            newton = 2.0 * low + 1.0 if math.isinf(high) else 0.5 * (low + high)
        beta = min(newton, LARGEST_MULTIPLIER)
    return beta, channel


def _tidied(problem: Problem, channel: Array) -> Array:
    """The channel without outputs that vanish, and with equal ones merged: a step costs as much as it has outputs."""
    kept = channel[:, problem.p_x @ channel > VANISHED]
    return channels.merge_outputs(kept, 1e-12)
