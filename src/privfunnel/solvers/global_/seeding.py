"""Posteriors to begin with where descents from single symbols take too long: those of one short run of AEM."""

from __future__ import annotations

import functools

import numpy as np

from privfunnel.certificate import MOST
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solvers.aem import AEM
from privfunnel.solvers.base import SHORTEST_LIMIT
from privfunnel.solvers.posteriors.points import tidy

#: Public symbols from which a table with more private symbols than proofs by supports bear begins with AEM.
MANY = 300
#: Starts and steps of AEM: more of them gain little, and what is left descents find sooner.
RESTARTS, STEPS = 1, 100
#: Share of the time of a point that AEM may take.
SHARE = 0.2
#: Where prices from the interior go on from it: runs on their own, the steps of each, and its share of the time.
RUNS, FEW_STEPS, RUN_SHARE = 2, 40, 0.15
#: Share of the time after them for these prices.
APPROACH_SHARE = 0.75
#: Outputs less likely than this are left out.
LEAST_OUTPUT = 1e-12


def pays(problem: Problem) -> bool:
    """Whether a table is so large that its search begins with AEM."""
    return problem.n_s > MOST and problem.n_x >= MANY


@functools.cache
def load_kernels() -> None:
    """Compile AEM's kernels, or read them from numba's cache: no time limit should pay for that."""
    AEM(restarts=RESTARTS, max_steps=STEPS, threads=1).warm_up()


def posteriors(problem: Problem, disclosure: float, seconds: float, seed: int, steps: int = STEPS) -> Array:
    """The posteriors p(x|y) of AEM's channel at ``disclosure`` nats, 0 < disclosure < H(X), shape (n, M)."""
    limit = max(seconds, SHORTEST_LIMIT)
    aem = AEM(restarts=RESTARTS, max_steps=steps, threads=1, time_limit=limit)
    channel = aem.solve(problem, disclosure, seed=seed).channel
    if not isinstance(channel, np.ndarray):
        return np.zeros((0, problem.n_x))  # the table is too large for AEM: it only shares time
    joint = problem.p_x * channel.T
    masses = joint.sum(axis=1)
    used = masses > LEAST_OUTPUT
    return tidy(joint[used] / masses[used, None])
