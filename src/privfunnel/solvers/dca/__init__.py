"""The difference-of-convex method (Huang, El Gamal 2024) for a known distribution, as published and repaired.

The method minimises ``β I(S;Y) − I(X;Y)`` for a multiplier ``β`` (the slope of the curve is ``λ = 1/β``). The published
variant replaces its convex subproblem by a closed-form target for p(y|s) and a regularised regression for p(y|x); the
repaired one solves the subproblem, which makes every step a descent. See :mod:`.steps`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Answer, Status
from privfunnel.solvers.base import Listener, Progress, TimeLimited
from privfunnel.solvers.dca.steps import Table, published_step, repaired_step
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.options import check_choice, check_positive, check_seconds, check_whole
from privfunnel.solvers.sweep import Pool, evaluate_batch, stationarity, uniform_starts

_BATCH_ENTRIES = 60_000
# A sweep goes over all N at least this many times, with a part of the runs each: a time limit thins it evenly.
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class DCA(TimeLimited):
    """The difference-of-convex method; options left at None take their variant's value (published, repaired).

    Attributes:
        variant: ``"published"`` (the authors' iteration, constants and sweep) or ``"repaired"``.
        penalty: ``"ridge"`` or ``"sparse"``, the regularisation of the published regression.
        betas: Multipliers β of the sweep (20 geometric values in [0.01, 10]; 30 in [1, 1000]).
        alphas: Regularisation weights α, published only (16 geometric values in [0.01, 10]).
        outputs: Numbers of outputs N (2, …, max(M, K) + 1; M + 1).
        runs: Random starts for each β, α and N (20; 8).
        tolerance: Published: stop when ``β I(S;Y) − I(X;Y)`` changes by less (1e-6 nats). Repaired: stop when the
            stationarity residual is below (1e-5 nats).
        inner_steps: Steps on the convex subproblem, repaired only.
        max_steps: Cap on iterations (10 000; 2000).
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit.
    """

    name: ClassVar[str] = "dca"
    formerly_none: ClassVar[tuple[str, ...]] = ("time_limit",)
    sweeps: ClassVar[bool] = True

    variant: str = "published"
    penalty: str = "ridge"
    betas: tuple[float, ...] | None = None
    alphas: tuple[float, ...] | None = None
    outputs: tuple[int, ...] | None = None
    runs: int | None = None
    tolerance: float | None = None
    inner_steps: int = 5
    max_steps: int | None = None
    refine: int = 3
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options, and tell the variants apart by name."""
        if self.variant == "repaired":
            object.__setattr__(self, "name", "dca-repaired")
        check_choice("dca", "variant", self.variant, ("published", "repaired"))
        check_choice("dca", "penalty", self.penalty, ("ridge", "sparse"))
        check_seconds(self.name, self.time_limit)
        check_positive("dca", tolerance=self.tolerance)
        check_whole("dca", 1, runs=self.runs, max_steps=self.max_steps, inner_steps=self.inner_steps)
        check_whole("dca", 0, refine=self.refine)
        for name, values in (("beta", self.betas), ("alpha", self.alphas)):
            for value in values if values is not None else ():
                if not 0.0 < value < math.inf:
                    raise InvalidInputError(f"dca: {name}={value!r} is not usable: give numbers above 0")
        for n in self.outputs if self.outputs is not None else ():
            check_whole("dca", 2, outputs=n)
        if () in (self.betas, self.alphas, self.outputs):
            raise InvalidInputError(
                "dca: betas, alphas and outputs must not be empty: give at least one value or None"
            )

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Sweep, then search the multiplier around ``disclosure`` and time-share the two neighbours."""
        deadline = Deadline(self.time_limit)
        pool = Pool(problem.p_sx)
        self._sweep(problem, pool, self._betas(), seed, deadline, progress)
        for round_ in range(self.refine):
            before, slope = pool.value(disclosure), pool.slope(disclosure)
            if deadline.passed() or slope <= 1e-9:
                break
            self._sweep(
                problem, pool, np.array([max(1.0, 1.0 / slope)]), seed + 7919 * (round_ + 1), deadline, None
            )
            if pool.value(disclosure) > before - 1e-9:
                break
        return pool.answer(disclosure, message=self._message(pool, deadline), seconds=deadline.elapsed())

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """The native sweep: the envelope of all runs, and the best run in each 0.1 nat of disclosure."""
        deadline = Deadline(self.time_limit)
        pool = Pool(problem.p_sx)
        self._sweep(problem, pool, self._betas(), seed, deadline, progress)
        yield from pool.answers(message=self._message(pool, deadline))

    def run(
        self, problem: Problem, start: Array, beta: Array, alpha: Array, deadline: Deadline | None = None
    ) -> tuple[Array, NDArray[np.bool_], NDArray[np.int64]]:
        """Run a batch from ``start`` (runs, M, N): channels, whether each met its stopping test, steps (runs,)."""
        deadline = Deadline() if deadline is None else deadline
        table = Table.of(problem.p_sx)
        channel, alive = start.copy(), np.arange(len(start))
        converged, steps = np.zeros(len(start), dtype=bool), np.zeros(len(start), dtype=np.int64)
        value = _objective(problem, channel, beta)
        cap = self.max_steps or (10_000 if self.variant == "published" else 2000)
        for _ in range(cap):
            current, b = channel[alive], beta[alive]
            if self.variant == "published":
                tolerance = self.tolerance or 1e-6
                new = published_step(table, current, b, alpha[alive], sparse=self.penalty == "sparse")
                new_value = _objective(problem, new, b)
                done = np.abs(new_value - value[alive]) < tolerance
                value[alive] = new_value
            else:
                new = repaired_step(table, current, b, self.inner_steps)
                done = stationarity(problem.p_sx, new, b) < (self.tolerance or 1e-5)
            channel[alive] = new
            steps[alive] += 1
            converged[alive[done]] = True
            alive = alive[~done]
            if not alive.size or deadline.passed():
                break
        return channel, converged, steps

    def _betas(self) -> Array:
        if self.betas is not None:
            return np.array(self.betas)
        return np.geomspace(0.01, 10.0, 20) if self.variant == "published" else np.geomspace(1.0, 1000.0, 30)

    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        if self.outputs is not None:
            return self.outputs
        if self.variant == "published":
            return tuple(range(2, max(problem.n_x, problem.n_s) + 2))
        return (problem.n_x + 1,)

    def _sweep(
        self,
        problem: Problem,
        pool: Pool,
        betas: Array,
        seed: int,
        deadline: Deadline,
        progress: Listener | None,
    ) -> None:
        """Run all (β, α, N, start) cells in batches, in random order so that a time limit thins them evenly."""
        published = self.variant == "published"
        alphas = np.array(self.alphas) if self.alphas is not None else np.geomspace(0.01, 10.0, 16)
        if not published:
            alphas = np.ones(1)
        runs = self.runs or (20 if published else 8)
        grid_beta, grid_alpha = (g.ravel() for g in np.meshgrid(betas, alphas))
        order = np.random.default_rng([seed, 0])
        jobs: list[tuple[float, int, int, int]] = []
        for n_y in self._outputs(problem):
            block = max(1, _BATCH_ENTRIES // (len(grid_beta) * problem.n_x * n_y))
            block = min(block, math.ceil(runs / _ROUNDS))
            for first in range(0, runs, block):
                jobs.append((float(order.random()) + first, n_y, first, min(block, runs - first)))
        for done, (_, n_y, first, count) in enumerate(sorted(jobs)):
            if deadline.passed():
                return
            rng = np.random.default_rng([seed, n_y, first, 1])
            beta, alpha = np.repeat(grid_beta, count), np.repeat(grid_alpha, count)
            start = uniform_starts(rng, len(beta), problem.n_x, n_y)
            channel, converged, steps = self.run(problem, start, beta, alpha, deadline)
            pool.runs += len(beta)
            pool.converged += int(converged.sum())
            met = Status.FEASIBLE if published else Status.CONVERGED
            unmet = Status.TIME_LIMIT if deadline.passed() else Status.MAX_STEPS
            pool.add(channel, [met if c else unmet for c in converged], steps, np.minimum(1.0 / beta, 1.0))
            if progress is not None:
                progress(Progress(done=done + 1, total=len(jobs), message=f"dca ({self.variant}), N = {n_y}"))

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        cut = ", cut by the time limit" if deadline.passed() else ""
        kind = f"{self.variant}, {self.penalty}" if self.variant == "published" else self.variant
        return f"dca ({kind}): {pool.converged} of {pool.runs} runs met their stopping test{cut}"


@dataclass(frozen=True, kw_only=True)
class RepairedDCA(DCA):
    """:class:`DCA` with ``variant="repaired"``, under a name of its own."""

    name: ClassVar[str] = "dca-repaired"

    variant: str = "repaired"


def _objective(problem: Problem, channel: Array, beta: Array) -> Array:
    """``β I(S;Y) − I(X;Y)`` of a batch (runs,), in nats."""
    disclosure, leakage = evaluate_batch(problem.p_sx, channel)
    return np.asarray(beta * leakage - disclosure)
