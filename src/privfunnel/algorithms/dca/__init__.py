"""The difference-of-convex method (Huang, El Gamal 2024) for a known distribution, as published and repaired.

The method minimises ``β I(S;Y) − I(X;Y)`` for a multiplier ``β`` (the slope of the curve is ``λ = 1/β``). :class:`DCA`,
the published form, replaces its convex subproblem by a closed-form target for p(y|s) and a regularised regression for
p(y|x); :class:`RepairedDCA` solves the subproblem, which makes every step a descent. See :mod:`.steps`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.dca.steps import Table, published_step, repaired_step
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.options import check_choice, check_numbers, check_whole
from privfunnel.algorithms.pool import Pool, evaluate_batch
from privfunnel.algorithms.sweep import (
    Job,
    RestartedSweep,
    groups,
    in_turns,
    parts,
    stationarity,
    uniform_starts,
)
from privfunnel.certificate.answer import Status
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: From the channels of the runs that go on (alive, M, N) and their numbers (alive,) to the next channels, and which of
#: the runs have met their stopping test (alive,); None where the time was up in the middle of the step.
Advance = Callable[[Array, NDArray[np.int64]], tuple[Array, NDArray[np.bool_]] | None]


class Batch(NamedTuple):
    """Where a batch of runs ended: channels (runs, M, N), whether each met its stopping test, steps (runs,).

    A channel is that of the run's last whole step; a run without any has its start, and 0 steps.
    """

    channel: Array
    converged: NDArray[np.bool_]
    steps: NDArray[np.int64]


class _Group:
    """Runs that are advanced together: ``part`` of a batch, which is written to."""

    def __init__(self, batch: Batch, part: slice, advance: Advance, max_steps: int) -> None:
        self._batch, self._advance, self._left = batch, advance, max_steps
        self._alive = np.arange(len(batch.steps))[part]

    @property
    def going(self) -> bool:
        """Whether any of them goes on."""
        return bool(self._alive.size) and self._left > 0

    def advance(self) -> None:
        """A step of every run that goes on, or none where the time is up in its middle."""
        alive, (channel, converged, steps) = self._alive, self._batch
        made = self._advance(channel[alive], alive)
        if made is None:
            return
        channel[alive], done = made
        steps[alive] += 1
        converged[alive[done]] = True
        self._alive = alive[~done]
        self._left -= 1


@dataclass(frozen=True, kw_only=True)
class DifferenceOfConvex(RestartedSweep):
    """What both forms of the method share: the loop over the steps of a batch, and uniform starts."""

    #: What a run that met its stopping test may claim.
    met: ClassVar[Status] = Status.FEASIBLE

    @abstractmethod
    def _cells(self, betas: Array) -> tuple[Array, ...]:
        """The cells of the sweep for one start each: β, and what else :meth:`run` takes, each (cells,)."""

    @abstractmethod
    def run(self, problem: Problem, start: Array, beta: Array, *others: Any) -> Batch:
        """Run a batch from ``start`` (runs, M, N) with the parameters of the cells, each (runs,), and a deadline."""

    @abstractmethod
    def _kind(self) -> str:
        """Which form of the method this is, for people."""

    def _iterate(self, problem: Problem, start: Array, advance: Advance, deadline: Deadline) -> Batch:
        """Step from ``start`` (runs, M, N) until every run has met its test, the cap is reached or the time is up."""
        runs, n_y = len(start), start.shape[2]
        batch = Batch(start.copy(), np.zeros(runs, dtype=bool), np.zeros(runs, dtype=np.int64))
        work = [_Group(batch, part, advance, self.max_steps) for part in groups(start)]
        in_turns(work, deadline, float(self._seconds(problem, np.array(n_y))))
        return batch

    def _run_job(
        self,
        problem: Problem,
        pool: Pool,
        job: Job,
        betas: Array,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> None:
        cells = [np.repeat(cell, job.restarts) for cell in self._cells(betas)]
        for part in parts(len(cells[0]), problem.n_x, job.n_y):
            if part.start and deadline.passed():
                return
            start = uniform_starts(rng, part.stop - part.start, problem.n_x, job.n_y)
            batch = self.run(problem, start, *(cell[part] for cell in cells), deadline)
            made = batch.steps > 0
            pool.runs += int(made.sum())
            pool.converged += int(batch.converged.sum())
            statuses = [
                self.met if converged else Status.MAX_STEPS if steps >= self.max_steps else Status.TIME_LIMIT
                for converged, steps in zip(batch.converged[made], batch.steps[made], strict=True)
            ]
            pool.cut |= not made.all() or Status.TIME_LIMIT in statuses
            multiplier = np.minimum(1.0 / cells[0][part], 1.0)
            pool.add(batch.channel[made], statuses, batch.steps[made], multiplier[made])

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        cut = ", cut by the time limit" if pool.cut or deadline.passed() else ""
        if cut and pool.runs == 0:
            return f"dca ({self._kind()}): cut by the time limit before the first step"
        return f"dca ({self._kind()}): {pool.converged} of {pool.runs} runs met their stopping test{cut}"


@dataclass(frozen=True, kw_only=True)
class DCA(DifferenceOfConvex):
    """The authors' iteration, constants and sweep.

    Attributes:
        penalty: ``"ridge"`` or ``"sparse"``, the regularisation of the regression.
        betas: Multipliers β of the sweep.
        alphas: Regularisation weights α of the sweep.
        outputs: Numbers of outputs N to try; by default 2, …, max(M, K) + 1.
        restarts: Random starts for each β, α and N.
        tolerance: Stop when ``β I(S;Y) − I(X;Y)`` changes by less, in nats.
        max_steps: Cap on the iterations of a run.
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit.
    """

    name: ClassVar[str] = "dca"
    variant: ClassVar[str] = "published"
    least_beta: ClassVar[float] = 0.0
    entry_seconds: ClassVar[float] = 4e-7

    penalty: str = "ridge"
    betas: tuple[float, ...] = tuple(np.geomspace(0.01, 10.0, 20).tolist())
    alphas: tuple[float, ...] = tuple(np.geomspace(0.01, 10.0, 16).tolist())
    restarts: int = 20
    tolerance: float = 1e-6
    max_steps: int = 10_000

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_choice(self.name, "penalty", self.penalty, ("ridge", "sparse"))
        check_numbers(self.name, "alphas", self.alphas)

    def run(
        self, problem: Problem, start: Array, beta: Array, alpha: Array, deadline: Deadline = NEVER
    ) -> Batch:
        """Run a batch from ``start`` (runs, M, N) with multipliers β and weights α, each (runs,)."""
        table = Table.of(problem.p_sx)
        value = np.concatenate([_objective(problem, start[part], beta[part]) for part in groups(start)])

        def advance(channel: Array, alive: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]] | None:
            new = published_step(
                table, channel, beta[alive], alpha[alive], sparse=self.penalty == "sparse", deadline=deadline
            )
            if new is None:
                return None
            before, value[alive] = value[alive], _objective(problem, new, beta[alive])
            return new, np.abs(value[alive] - before) < self.tolerance

        return self._iterate(problem, start, advance, deadline)

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return tuple(range(2, max(problem.n_x, problem.n_s) + 2))

    def _runs_per_restart(self, n_betas: int) -> int:
        return n_betas * len(self.alphas)

    def _cells(self, betas: Array) -> tuple[Array, ...]:
        beta, alpha = np.meshgrid(betas, np.array(self.alphas))
        return beta.ravel(), alpha.ravel()

    def _kind(self) -> str:
        return f"{self.variant}, {self.penalty}"


@dataclass(frozen=True, kw_only=True)
class RepairedDCA(DifferenceOfConvex):
    """The same decomposition with its convex subproblem solved, and a stopping test that means stationarity.

    Attributes:
        betas: Multipliers β of the sweep.
        outputs: Numbers of outputs N to try; by default M + 1, which always suffices.
        restarts: Random starts for each β and N.
        tolerance: Stop when the stationarity residual is below, in nats.
        inner_steps: Steps on the convex subproblem.
        max_steps: Cap on the iterations of a run.
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit.
    """

    name: ClassVar[str] = "dca-repaired"
    variant: ClassVar[str] = "repaired"
    least_beta: ClassVar[float] = 0.0
    entry_seconds: ClassVar[float] = 6e-7
    met: ClassVar[Status] = Status.CONVERGED

    betas: tuple[float, ...] = tuple(np.geomspace(1.0, 1000.0, 30).tolist())
    restarts: int = 8
    tolerance: float = 1e-5
    inner_steps: int = 5
    max_steps: int = 2000

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_whole(self.name, 1, inner_steps=self.inner_steps)

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline = NEVER) -> Batch:
        """Run a batch from ``start`` (runs, M, N) with multipliers β (runs,)."""
        table = Table.of(problem.p_sx)

        def advance(channel: Array, alive: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]]:
            new = repaired_step(table, channel, beta[alive], self.inner_steps)
            return new, stationarity(problem.p_sx, new, beta[alive]) < self.tolerance

        return self._iterate(problem, start, advance, deadline)

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return (problem.n_x + 1,)

    def _runs_per_restart(self, n_betas: int) -> int:
        return n_betas

    def _cells(self, betas: Array) -> tuple[Array, ...]:
        return (betas,)

    def _kind(self) -> str:
        return self.variant


def _objective(problem: Problem, channel: Array, beta: Array) -> Array:
    """``β I(S;Y) − I(X;Y)`` of a batch (runs,), in nats."""
    disclosure, leakage = evaluate_batch(problem.p_sx, channel)
    return np.asarray(beta * leakage - disclosure)
