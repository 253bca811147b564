"""What the tests of AEM's backends share."""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.aem.starts import random_channel
from privfunnel.algorithms.aem.state import Tables, log_of
from privfunnel.measures import Array, mutual_information
from privfunnel.model.problem import Problem


def case(seed: int) -> tuple[Tables, Array, Array]:
    """A random problem with zeros in p(s|x), three feasible points with zeros, and their targets."""
    rng = np.random.default_rng(seed)
    n_s, n_x = int(rng.integers(1, 6)), int(rng.integers(2, 12))
    table = rng.gamma(0.6, size=(n_s, n_x)) * (rng.uniform(size=(n_s, n_x)) > 0.4)
    table[rng.integers(n_s, size=n_x), np.arange(n_x)] += 0.1
    problem = Problem(table / table.sum())
    tables = Tables.of(problem.p_sx)
    n_y = problem.n_x + int(rng.integers(1, 4))
    channels = np.stack([random_channel(problem.n_x, n_y, 0.5, rng) for _ in range(3)])
    channels *= rng.uniform(size=channels.shape) > 0.3
    channels[:, :, -1] += 0.05
    if n_y > problem.n_x + 1:
        channels[:, :, 0] = 0.0  # an output that never occurs
    channels /= channels.sum(axis=-1, keepdims=True)
    p_xy = tables.p_x[:, None] * channels
    reached = mutual_information(p_xy)
    return tables, log_of(p_xy), reached * rng.uniform(0.3, 1.0, size=3) - tables.h_x
