"""The difference-of-convex method (Huang, El Gamal 2024) for a known distribution, as published and repaired.

The method minimises ``β I(S;Y) − I(X;Y)`` for a multiplier ``β`` (the slope of the curve is ``λ = 1/β``). :class:`DCA`,
the published form, replaces its convex subproblem by a closed-form target for p(y|s) and a regularised regression for
p(y|x); :class:`RepairedDCA` solves the subproblem, which makes every step a descent. See :mod:`.steps`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Status
from privfunnel.solvers.dca.steps import Table, published_step, repaired_step
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.options import check_choice, check_numbers, check_whole
from privfunnel.solvers.pool import Pool, evaluate_batch
from privfunnel.solvers.sweep import Job, RestartedSweep, stationarity, uniform_starts

#: From the channels of the runs that go on (alive, M, N) and their numbers (alive,) to the next channels, and which of
#: the runs have met their stopping test (alive,).
Advance = Callable[[Array, NDArray[np.int64]], tuple[Array, NDArray[np.bool_]]]


class Batch(NamedTuple):
    """Where a batch of runs ended: channels (runs, M, N), whether each met its stopping test, steps (runs,)."""

    channel: Array
    converged: NDArray[np.bool_]
    steps: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class DifferenceOfConvex(RestartedSweep):
    """What both forms of the method share: the loop over the steps of a batch, and uniform starts."""

    #: What a run that met its stopping test may claim.
    met: ClassVar[Status] = Status.FEASIBLE

    @abstractmethod
    def _run_cells(
        self, problem: Problem, job: Job, betas: Array, rng: np.random.Generator, deadline: Deadline
    ) -> tuple[Batch, Array]:
        """The runs of a job, and the multiplier β of each (runs,)."""

    @abstractmethod
    def _kind(self) -> str:
        """Which form of the method this is, for people."""

    def _iterate(self, start: Array, advance: Advance, deadline: Deadline) -> Batch:
        """Step from ``start`` (runs, M, N) until every run has met its test, the cap is reached or the time is up."""
        channel, alive = start.copy(), np.arange(len(start))
        converged, steps = np.zeros(len(start), dtype=bool), np.zeros(len(start), dtype=np.int64)
        for _ in range(self.max_steps):
            new, done = advance(channel[alive], alive)
            channel[alive] = new
            steps[alive] += 1
            converged[alive[done]] = True
            alive = alive[~done]
            if not alive.size or deadline.passed():
                break
        return Batch(channel, converged, steps)

    def _run_job(
        self,
        problem: Problem,
        pool: Pool,
        job: Job,
        betas: Array,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> None:
        batch, beta = self._run_cells(problem, job, betas, rng, deadline)
        pool.runs += len(beta)
        pool.converged += int(batch.converged.sum())
        unmet = Status.TIME_LIMIT if deadline.passed() else Status.MAX_STEPS
        statuses = [self.met if converged else unmet for converged in batch.converged]
        pool.add(batch.channel, statuses, batch.steps, np.minimum(1.0 / beta, 1.0))

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        cut = ", cut by the time limit" if deadline.passed() else ""
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
    formerly_none: ClassVar[tuple[str, ...]] = (*DifferenceOfConvex.formerly_none, "alphas")
    dropped: ClassVar[dict[str, str]] = {"inner_steps": "only the repaired method has it"}

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
        self, problem: Problem, start: Array, beta: Array, alpha: Array, deadline: Deadline | None = None
    ) -> Batch:
        """Run a batch from ``start`` (runs, M, N) with multipliers β and weights α, each (runs,)."""
        table = Table.of(problem.p_sx)
        value = _objective(problem, start, beta)

        def advance(channel: Array, alive: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]]:
            new = published_step(table, channel, beta[alive], alpha[alive], sparse=self.penalty == "sparse")
            before, value[alive] = value[alive], _objective(problem, new, beta[alive])
            return new, np.abs(value[alive] - before) < self.tolerance

        return self._iterate(start, advance, deadline or Deadline())

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return tuple(range(2, max(problem.n_x, problem.n_s) + 2))

    def _runs_per_restart(self, n_betas: int) -> int:
        return n_betas * len(self.alphas)

    def _run_cells(
        self, problem: Problem, job: Job, betas: Array, rng: np.random.Generator, deadline: Deadline
    ) -> tuple[Batch, Array]:
        cells = np.meshgrid(betas, np.array(self.alphas))
        beta, alpha = (np.repeat(cell.ravel(), job.restarts) for cell in cells)
        start = uniform_starts(rng, len(beta), problem.n_x, job.n_y)
        return self.run(problem, start, beta, alpha, deadline), beta

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
    met: ClassVar[Status] = Status.CONVERGED
    dropped: ClassVar[dict[str, str]] = dict.fromkeys(
        ("penalty", "alphas"), "only the published method has it"
    )

    betas: tuple[float, ...] = tuple(np.geomspace(1.0, 1000.0, 30).tolist())
    restarts: int = 8
    tolerance: float = 1e-5
    inner_steps: int = 5
    max_steps: int = 2000

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_whole(self.name, 1, inner_steps=self.inner_steps)

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline | None = None) -> Batch:
        """Run a batch from ``start`` (runs, M, N) with multipliers β (runs,)."""
        table = Table.of(problem.p_sx)

        def advance(channel: Array, alive: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]]:
            new = repaired_step(table, channel, beta[alive], self.inner_steps)
            return new, stationarity(problem.p_sx, new, beta[alive]) < self.tolerance

        return self._iterate(start, advance, deadline or Deadline())

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        return (problem.n_x + 1,)

    def _runs_per_restart(self, n_betas: int) -> int:
        return n_betas

    def _run_cells(
        self, problem: Problem, job: Job, betas: Array, rng: np.random.Generator, deadline: Deadline
    ) -> tuple[Batch, Array]:
        beta = np.repeat(betas, job.restarts)
        return self.run(problem, uniform_starts(rng, len(beta), problem.n_x, job.n_y), beta, deadline), beta

    def _kind(self) -> str:
        return self.variant


DifferenceOfConvex.variants = {"published": DCA, "repaired": RepairedDCA}


def _objective(problem: Problem, channel: Array, beta: Array) -> Array:
    """``β I(S;Y) − I(X;Y)`` of a batch (runs,), in nats."""
    disclosure, leakage = evaluate_batch(problem.p_sx, channel)
    return np.asarray(beta * leakage - disclosure)
