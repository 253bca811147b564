"""Tiny solvers for tests of the rooms above the solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import privfunnel as pf
from privfunnel import Problem
from privfunnel.algorithms.base import Solver
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener
from privfunnel.model import channels

#: Options that keep a solver quick here; quality is tested where the solver's own tests are.
QUICK: dict[str, dict[str, Any]] = {
    "aem": {"restarts": 3, "max_steps": 60},
    "drs": {
        "betas": (1.5, 5.0, 15.0),
        "restarts": 1,
        "outputs": (8, 3),
        "refine": 1,
        "max_steps": 500,
        "time_limit": math.inf,
    },
    "dca": {
        "betas": (1.5, 5.0),
        "alphas": (0.05, 0.5),
        "restarts": 1,
        "outputs": (4,),
        "max_steps": 30,
        "refine": 1,
        "time_limit": math.inf,
    },
    "drs-repaired": {
        "restarts": 1,
        "betas": (1.5, 5.0),
        "refine": 1,
        "max_steps": 50,
        "time_limit": math.inf,
    },
    "dca-repaired": {
        "restarts": 1,
        "betas": (1.5, 5.0),
        "refine": 1,
        "max_steps": 50,
        "time_limit": math.inf,
    },
    "ipopt": {"restarts": 2, "time_limit": math.inf},
    "slsqp": {"restarts": 1, "max_steps": 4, "time_limit": math.inf},
    "submodular": {"slopes": (0.05, 0.2, 0.5), "restarts": 4, "refine": 2, "time_limit": math.inf},
}

SYNTHETIC = [[0.9, 0.08, 0.4], [0.025, 0.82, 0.05], [0.075, 0.1, 0.55]]


def synthetic() -> pf.Problem:
    return pf.Problem.from_conditional(SYNTHETIC, [1 / 3] * 3)


@dataclass(frozen=True, kw_only=True)
class Mixer(Solver):
    """Time-shares X and nothing: the closed-form upper bound, with an optional flaw."""

    name: ClassVar[str] = "mixer"
    status: Status = Status.FEASIBLE
    shortfall: float = 0.0
    interrupt_after: int = -1

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        share = max(disclosure / problem.disclosure_ceiling - self.shortfall, 0.0)
        if self.interrupt_after >= 0 and disclosure > self.interrupt_after * problem.disclosure_ceiling / 10:
            raise KeyboardInterrupt
        pair = [channels.constant(problem.n_x), channels.identity(problem.n_x)]
        return Answer(channel=channels.time_share(pair, [1.0 - share, share]), status=self.status, steps=1)


@dataclass(frozen=True, kw_only=True)
class Wavy(Solver):
    """Random channels that miss R upwards by luck: a curve whose raw points are far from convex."""

    name: ClassVar[str] = "wavy"

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        rng = np.random.default_rng([seed, int(disclosure * 1e6)])
        share = 1.0 - rng.random() * (1.0 - disclosure / problem.disclosure_ceiling)
        noise = rng.dirichlet(np.ones(problem.n_x), size=problem.n_x)
        pair = [channels.time_share([channels.identity(problem.n_x), noise], [share, 1.0 - share])]
        return Answer(channel=pair[0], status=Status.MAX_STEPS)
