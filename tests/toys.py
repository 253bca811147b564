"""Tiny solvers for tests of the rooms above the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel import Problem, channels
from privfunnel.certificate.answer import Answer, Status
from privfunnel.solvers.base import Solver
from privfunnel.watching import Listener


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
