"""Random feasible starts, and the last lift of a channel that stops just short of its disclosure."""

from __future__ import annotations

import numpy as np

from privfunnel.measures import Array, Channel, mutual_information
from privfunnel.model import channels
from privfunnel.model.problem import Problem


def feasible_starts(
    rng: np.random.Generator, problem: Problem, disclosure: float, runs: int, n_y: int
) -> Array:
    """Random channels (runs, M, N), N ≥ M, each mixed with a permuted identity until ``I(X;Y)`` is ``disclosure``.

    The disclosure of a mixture inside the same outputs is convex in the weight and H(X) at 1, so bisection finds the
    least weight that reaches it from above.
    """
    n_x, p_x = problem.n_x, problem.p_x[:, None]
    noise = rng.dirichlet(np.ones(n_y), size=(runs, n_x))
    target = np.zeros((runs, n_x, n_y))
    outputs = np.argsort(rng.random((runs, n_y)), axis=1)[:, :n_x]
    target[np.arange(runs)[:, None], np.arange(n_x), outputs] = 1.0
    low, high = np.zeros(runs), np.ones(runs)
    for _ in range(50):
        middle = 0.5 * (low + high)
        mixed = noise + middle[:, None, None] * (target - noise)
        enough = mutual_information(p_x * mixed) >= disclosure
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(noise + high[:, None, None] * (target - noise))


def lift(problem: Problem, channel: Array, disclosure: float) -> Channel:
    """The channel, time-shared with X itself just enough to disclose ``disclosure`` nats where it falls short."""
    reached = problem.evaluate(channel).disclosure
    if reached >= disclosure:
        return channel
    weight = min((disclosure - reached) / (problem.disclosure_ceiling - reached), 1.0)
    return channels.time_share([channel, channels.identity(problem.n_x)], [1.0 - weight, weight])
