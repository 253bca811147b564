"""Douglas-Rachford splitting (Huang, El Gamal, El Gamal 2022), as published and repaired.

The method minimises ``β I(S;Y) − I(X;Y)`` for a multiplier ``β`` (the slope of the curve is ``λ = 1/β``) and draws a
curve by sweeping ``β``, the number of outputs ``N`` and random starts. :class:`DRS` is the authors' iteration
(:mod:`.published`), :class:`RepairedDRS` this project's (:mod:`.repaired`); they share the splitting and nothing else.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.drs.batches import CONVERGED, FROZEN, MAX_STEPS, TIMEOUT, Batch
from privfunnel.algorithms.drs.published import PublishedSettings, run_published
from privfunnel.algorithms.drs.repaired import RepairedSettings, run_repaired
from privfunnel.algorithms.options import check_positive
from privfunnel.algorithms.pool import Pool
from privfunnel.algorithms.sweep import Job, RestartedSweep, parts, uniform_starts
from privfunnel.certificate.answer import Status
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

_STATUS = {
    CONVERGED: Status.CONVERGED,
    MAX_STEPS: Status.MAX_STEPS,
    FROZEN: Status.FEASIBLE,
    TIMEOUT: Status.TIME_LIMIT,
}


@dataclass(frozen=True, kw_only=True)
class DouglasRachford(RestartedSweep):
    """What both forms of the method share: two kinds of start, and batches of runs for all β at once.

    Attributes:
        restarts: Starts of each of the two kinds, for each β and N.
        penalty: Penalty ``c`` on the distance of the two copies of the channel.
    """

    penalty: float

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_positive(self.name, penalty=self.penalty)

    @abstractmethod
    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline = NEVER) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.batches.Batch`."""

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
        runs = job.restarts * len(betas)
        starts = Starts(rng, runs, problem.n_x, job.n_y)
        beta = np.tile(np.repeat(betas, job.restarts), 2)
        for part in parts(2 * runs, problem.n_x, job.n_y):
            if part.start and deadline.passed():
                return
            batch = self.run(problem, starts.draw(part), beta[part], deadline)
            pool.runs += int((batch.steps > 0).sum())
            pool.converged += int((batch.code == CONVERGED).sum())
            pool.cut |= bool((batch.code == TIMEOUT).any())
            self._keep(pool, batch, beta[part])

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        cut = ", cut by the time limit" if pool.cut or deadline.passed() else ""
        if cut and pool.runs == 0:
            return f"drs ({self.variant}): cut by the time limit before the first step"
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
    entry_seconds: ClassVar[float] = 4e-7

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

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline = NEVER) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.batches.Batch`."""
        settings = PublishedSettings(
            penalty=self.penalty, relaxation=self.relaxation, tolerance=self.tolerance, step=self.step,
            shrink=self.shrink, max_steps=self.max_steps,
        )  # fmt: skip
        seconds = float(self._seconds(problem, np.array(start.shape[2])))
        return run_published(problem.p_sx, start, beta, settings, deadline, seconds)

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
    entry_seconds: ClassVar[float] = 1e-6

    betas: tuple[float, ...] = tuple(np.geomspace(1.0, 1000.0, 30).tolist())
    restarts: int = 4
    penalty: float = 64.0
    tolerance: float = 1e-5
    max_steps: int = 4000

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline = NEVER) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.batches.Batch`."""
        settings = RepairedSettings(penalty=self.penalty, tolerance=self.tolerance, max_steps=self.max_steps)
        seconds = float(self._seconds(problem, np.array(start.shape[2])))
        return run_repaired(problem.p_sx, start, beta, settings, deadline, seconds)

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return (problem.n_x + 1,)

    def _keep(self, pool: Pool, batch: Batch, beta: Array) -> None:
        """Every run that took a step: each says for itself how it ended."""
        kept = batch.steps > 0
        statuses = [_STATUS[int(code)] for code in batch.code[kept]]
        pool.add(batch.channel[kept], statuses, batch.steps[kept], 1.0 / beta[kept])


class Starts:
    """The starts of a job, ``runs`` of each kind, the authors' two kinds one after the other, drawn part by part.

    Args:
        rng: Where they come from; the parts have to be drawn in order.
        runs: Runs of each kind.
        n_x: Public symbols M.
        n_y: Outputs N.
    """

    def __init__(self, rng: np.random.Generator, runs: int, n_x: int, n_y: int) -> None:
        self._rng, self._runs, self._shape = rng, runs, (n_x, n_y)
        later = copy.deepcopy(rng)
        later.bit_generator.advance(runs * n_x * n_y)  # type: ignore[attr-defined]
        self._outputs = spread_outputs(later, runs, n_x, n_y)

    def draw(self, part: slice) -> Array:
        """The starts of some runs (runs, M, N)."""
        middle = min(max(part.start, self._runs), part.stop)
        spread = self._outputs[middle - self._runs : part.stop - self._runs] if middle < part.stop else None
        uniform = uniform_starts(self._rng, middle - part.start, *self._shape)
        return uniform if spread is None else np.concatenate([uniform, spread_starts(spread, self._shape[1])])


def spread_outputs(rng: np.random.Generator, runs: int, n_x: int, n_y: int) -> NDArray[np.int64]:
    """The outputs (runs, M) that nearly deterministic channels send the symbols to.

    As many symbols as there are outputs go to distinct outputs, the rest anywhere.
    """
    symbols = np.argsort(rng.random((runs, n_x)), axis=1)
    spread = np.argsort(rng.random((runs, n_y)), axis=1)[:, : min(n_x, n_y)]
    rest = rng.integers(n_y, size=(runs, max(0, n_x - n_y)))
    outputs = np.empty((runs, n_x), dtype=np.int64)
    outputs[np.arange(runs)[:, None], symbols] = np.concatenate([spread, rest], axis=1)
    return outputs


def spread_starts(outputs: NDArray[np.int64], n_y: int, floor: float = 5e-3) -> Array:
    """Nearly deterministic channels (runs, M, N), the authors' second kind of start: ``floor`` is added to every entry.

    ``outputs`` (runs, M) says where each symbol goes.
    """
    start = np.full((*outputs.shape, n_y), floor)
    np.put_along_axis(start, outputs[:, :, None], 1.0 + floor, axis=2)
    return np.asarray(start / start.sum(axis=2, keepdims=True))
