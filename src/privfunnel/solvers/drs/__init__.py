"""Douglas-Rachford splitting (Huang, El Gamal, El Gamal 2022), as published and repaired.

The method minimises ``β I(S;Y) − I(X;Y)`` for a multiplier ``β`` (the slope of the curve is ``λ = 1/β``) and draws a
curve by sweeping ``β``, the number of outputs ``N`` and random starts. :class:`DRS` is the authors' iteration
(:mod:`.published`), :class:`RepairedDRS` this project's (:mod:`.repaired`); they share the splitting and nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Status
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.drs import published
from privfunnel.solvers.drs.published import CONVERGED, MAX_STEPS, Batch, PublishedSettings, run_published
from privfunnel.solvers.drs.repaired import RepairedSettings, run_repaired
from privfunnel.solvers.options import check_positive
from privfunnel.solvers.pool import Pool
from privfunnel.solvers.sweep import Job, RestartedSweep, uniform_starts

_STATUS = {
    CONVERGED: Status.CONVERGED,
    MAX_STEPS: Status.MAX_STEPS,
    published.FROZEN: Status.FEASIBLE,
    published.TIMEOUT: Status.TIME_LIMIT,
}
_PUBLISHED_ONLY = "only the published iteration has it"


@dataclass(frozen=True, kw_only=True)
class DouglasRachford(RestartedSweep):
    """What both forms of the method share: two kinds of start, and batches of runs for all β at once.

    Attributes:
        restarts: Starts of each of the two kinds, for each β and N.
        penalty: Penalty ``c`` on the distance of the two copies of the channel.
    """

    formerly_none: ClassVar[tuple[str, ...]] = (*RestartedSweep.formerly_none, "penalty")
    dropped: ClassVar[dict[str, str]] = {
        "clock": "count CPU time inside `with privfunnel.solvers.deadline.cpu_clock():`"
    }

    penalty: float

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_positive(self.name, penalty=self.penalty)

    @abstractmethod
    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline | None = None) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.published.Batch`."""

    @abstractmethod
    def _keep(self, pool: Pool, batch: Batch, beta: Array) -> None:
        """Add what the method keeps of a batch to the pool."""

    def _runs_per_restart(self, n_betas: int) -> int:
        return 2 * n_betas

    def _run_job(
        self,
        problem: Problem,
        pool: Pool,
        job: Job,
        betas: Array,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> None:
        shape = (job.restarts * len(betas), problem.n_x, job.n_y)
        start = np.concatenate([uniform_starts(rng, *shape), spread_starts(rng, *shape)])
        beta = np.tile(np.repeat(betas, job.restarts), 2)
        batch = self.run(problem, start, beta, deadline)
        pool.runs += len(beta)
        pool.converged += int((batch.code == CONVERGED).sum())
        self._keep(pool, batch, beta)

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        cut = ", cut by the time limit" if deadline.passed() else ""
        if pool.converged == 0:
            return (
                f"drs ({self.variant}): none of {pool.runs} runs met its stopping test{cut}; lower penalty or step "
                "(the published iteration needs penalty × step < 2)"
            )
        return f"drs ({self.variant}): {pool.converged} of {pool.runs} runs met their stopping test{cut}"


@dataclass(frozen=True, kw_only=True)
class DRS(DouglasRachford):
    """The authors' iteration, constants and sweep.

    Attributes:
        betas: Multipliers β ≥ 1 of the sweep.
        outputs: Numbers of outputs N to try; by default M, M − 1, …, 2.
        restarts: Starts of each of the two kinds, for each β and N.
        penalty: Penalty ``c``.
        relaxation: Relaxation ``a``.
        tolerance: Stopping tolerance on the distance of the two copies.
        step: First step length ``t0``.
        shrink: Factor ``ρ`` by which the step shrinks.
        max_steps: Cap on the iterations of a run.
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit.
    """

    name: ClassVar[str] = "drs"
    variant: ClassVar[str] = "published"

    betas: tuple[float, ...] = tuple(np.geomspace(1.0, 20.0, 30).tolist())
    restarts: int = 80
    penalty: float = 1024.0
    relaxation: float = 1.0
    tolerance: float = 1e-6
    step: float = 1e-3
    shrink: float = 0.25
    max_steps: int = 40_000

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_positive(self.name, relaxation=self.relaxation, step=self.step)
        if not 0.0 < self.shrink < 1.0:
            raise InvalidInputError(
                f"drs: shrink={self.shrink!r} is not usable: give a number between 0 and 1"
            )

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline | None = None) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.published.Batch`."""
        settings = PublishedSettings(
            penalty=self.penalty, relaxation=self.relaxation, tolerance=self.tolerance, step=self.step,
            shrink=self.shrink, max_steps=self.max_steps,
        )  # fmt: skip
        return run_published(problem.p_sx, start, beta, settings, deadline or Deadline())

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return tuple(range(max(problem.n_x, 2), 1, -1))

    def _keep(self, pool: Pool, batch: Batch, beta: Array) -> None:
        """The runs that pass the authors' stopping test, which is no test of stationarity."""
        kept = batch.code == CONVERGED
        statuses = [Status.FEASIBLE] * int(kept.sum())
        pool.add(batch.channel[kept], statuses, batch.steps[kept], 1.0 / beta[kept])


@dataclass(frozen=True, kw_only=True)
class RepairedDRS(DouglasRachford):
    """The same splitting with steps that cannot fail silently and a stopping test that means stationarity.

    Attributes:
        betas: Multipliers β ≥ 1 of the sweep.
        outputs: Numbers of outputs N to try; by default M + 1, which always suffices.
        restarts: Starts of each of the two kinds, for each β and N.
        penalty: Penalty ``c``, in units of β p(s).
        tolerance: Stopping tolerance on stationarity, in nats.
        max_steps: Cap on the iterations of a run.
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit.
    """

    name: ClassVar[str] = "drs-repaired"
    variant: ClassVar[str] = "repaired"
    dropped: ClassVar[dict[str, str]] = DouglasRachford.dropped | dict.fromkeys(
        ("relaxation", "step", "shrink"), _PUBLISHED_ONLY
    )

    betas: tuple[float, ...] = tuple(np.geomspace(1.0, 1000.0, 30).tolist())
    restarts: int = 4
    penalty: float = 64.0
    tolerance: float = 1e-5
    max_steps: int = 4000

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline | None = None) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.published.Batch`."""
        settings = RepairedSettings(penalty=self.penalty, tolerance=self.tolerance, max_steps=self.max_steps)
        return run_repaired(problem.p_sx, start, beta, settings, deadline or Deadline())

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return (problem.n_x + 1,)

    def _keep(self, pool: Pool, batch: Batch, beta: Array) -> None:
        """Every run: each says for itself how it ended."""
        statuses = [_STATUS[int(code)] for code in batch.code]
        pool.add(batch.channel, statuses, batch.steps, 1.0 / beta)


DouglasRachford.variants = {"published": DRS, "repaired": RepairedDRS}


def spread_starts(rng: np.random.Generator, runs: int, n_x: int, n_y: int, floor: float = 5e-3) -> Array:
    """Nearly deterministic channels (runs, M, N): the authors' second kind of start.

    As many symbols as there are outputs go to distinct outputs, the rest anywhere; ``floor`` is added to every entry.
    """
    symbols = np.argsort(rng.random((runs, n_x)), axis=1)
    spread = np.argsort(rng.random((runs, n_y)), axis=1)[:, : min(n_x, n_y)]
    rest = rng.integers(n_y, size=(runs, max(0, n_x - n_y)))
    start = np.full((runs, n_x, n_y), floor)
    start[np.arange(runs)[:, None], symbols, np.concatenate([spread, rest], axis=1)] += 1.0
    return np.asarray(start / start.sum(axis=2, keepdims=True))
