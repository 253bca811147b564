"""Douglas-Rachford splitting (Huang, El Gamal, El Gamal 2022), as published and repaired.

The method minimises ``β I(S;Y) − I(X;Y)`` for a multiplier ``β`` (the slope of the curve is ``λ = 1/β``) and draws a
curve by sweeping ``β``, the number of outputs ``N`` and random starts. The two variants share the splitting and nothing
else, and are told apart everywhere by :attr:`DRS.variant`: see :mod:`.published` and :mod:`.repaired`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Answer, Status
from privfunnel.solvers.base import Listener, Progress, TimeLimited
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.drs import published
from privfunnel.solvers.drs.published import CONVERGED, MAX_STEPS, Batch, PublishedSettings, run_published
from privfunnel.solvers.drs.repaired import RepairedSettings, run_repaired
from privfunnel.solvers.options import check_choice, check_positive, check_seconds, check_whole
from privfunnel.solvers.sweep import Pool, uniform_starts

_STATUS = {
    CONVERGED: Status.CONVERGED,
    MAX_STEPS: Status.MAX_STEPS,
    published.FROZEN: Status.FEASIBLE,
    published.TIMEOUT: Status.TIME_LIMIT,
}
# Entries a batch of runs: large enough to hide NumPy's overhead, small enough for the cache.
_BATCH_ENTRIES = 60_000
# A sweep goes over all N at least this many times, with a part of the runs each: a time limit thins it evenly.
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class DRS(TimeLimited):
    """Douglas-Rachford splitting; every option left at None takes its variant's value (published, repaired).

    Attributes:
        variant: ``"published"`` (the authors' iteration, constants and sweep) or ``"repaired"``.
        betas: Multipliers β ≥ 1 of the sweep (30 geometric values in [1, 20]; in [1, 1000]).
        outputs: Numbers of outputs N to try (M, M−1, …, 2; M+1, which always suffices).
        runs: Runs for each β, N and each of the two kinds of start (80; 4).
        penalty: Penalty c (1024; 64, in units of β p(s)).
        relaxation: Relaxation a, published only (1).
        tolerance: Stopping tolerance (1e-6 on the distance of the copies; 1e-5 on stationarity, nats).
        step: First step length t0, published only (1e-3).
        shrink: Factor ρ by which the step shrinks, published only (0.25).
        max_steps: Cap on iterations (40 000; 4000).
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit. The
            answer depends on the machine only when the limit is met.
    """

    name: ClassVar[str] = "drs"
    formerly_none: ClassVar[tuple[str, ...]] = ("time_limit",)
    sweeps: ClassVar[bool] = True
    dropped: ClassVar[dict[str, str]] = {
        "clock": "count CPU time inside `with privfunnel.solvers.deadline.cpu_clock():`"
    }

    variant: str = "published"
    betas: tuple[float, ...] | None = None
    outputs: tuple[int, ...] | None = None
    runs: int | None = None
    penalty: float | None = None
    relaxation: float = 1.0
    tolerance: float | None = None
    step: float = 1e-3
    shrink: float = 0.25
    max_steps: int | None = None
    refine: int = 3
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options, and tell the variants apart by name."""
        if self.variant == "repaired":
            object.__setattr__(self, "name", "drs-repaired")
        check_choice("drs", "variant", self.variant, ("published", "repaired"))
        check_seconds(self.name, self.time_limit)
        check_positive(
            "drs", penalty=self.penalty, tolerance=self.tolerance, step=self.step, relaxation=self.relaxation,
        )  # fmt: skip
        check_whole("drs", 1, runs=self.runs, max_steps=self.max_steps)
        check_whole("drs", 0, refine=self.refine)
        if not 0.0 < self.shrink < 1.0:
            raise InvalidInputError(
                f"drs: shrink={self.shrink!r} is not usable: give a number between 0 and 1"
            )
        for beta in self.betas if self.betas is not None else ():
            if not 1.0 <= beta < math.inf:
                raise InvalidInputError(
                    f"drs: beta={beta!r} is not usable: give multipliers β ≥ 1 (a slope is ≤ 1)"
                )
        for n in self.outputs if self.outputs is not None else ():
            check_whole("drs", 2, outputs=n)
        if self.betas == () or self.outputs == ():
            raise InvalidInputError(
                "drs: betas and outputs must not be empty: give at least one value or None"
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

    def run(self, problem: Problem, start: Array, beta: Array, deadline: Deadline | None = None) -> Batch:
        """Run one batch: starts (runs, M, N) with multipliers β (runs,); see :class:`.published.Batch`."""
        deadline = Deadline() if deadline is None else deadline
        if self.variant == "published":
            default = PublishedSettings()
            settings = PublishedSettings(
                penalty=self.penalty or default.penalty, relaxation=self.relaxation,
                tolerance=self.tolerance or default.tolerance, step=self.step, shrink=self.shrink,
                max_steps=self.max_steps or default.max_steps,
            )  # fmt: skip
            return run_published(problem.p_sx, start, beta, settings, deadline)
        default_r = RepairedSettings()
        settings_r = RepairedSettings(
            penalty=self.penalty or default_r.penalty, tolerance=self.tolerance or default_r.tolerance,
            max_steps=self.max_steps or default_r.max_steps,
        )  # fmt: skip
        return run_repaired(problem.p_sx, start, beta, settings_r, deadline)

    def _betas(self) -> Array:
        if self.betas is not None:
            return np.array(self.betas)
        return np.geomspace(1.0, 20.0 if self.variant == "published" else 1000.0, 30)

    def _outputs(self, n_x: int) -> tuple[int, ...]:
        if self.outputs is not None:
            return self.outputs
        if self.variant == "published":
            return tuple(range(max(n_x, 2), 1, -1))
        return (n_x + 1,)

    def _sweep(
        self,
        problem: Problem,
        pool: Pool,
        betas: Array,
        seed: int,
        deadline: Deadline,
        progress: Listener | None,
    ) -> None:
        """Run all (β, N, start) cells in batches, spread over N so that a time limit thins them evenly."""
        runs = self.runs or (80 if self.variant == "published" else 4)
        jobs: list[tuple[float, int, int, int]] = []
        order = np.random.default_rng([seed, 0])
        for n_y in self._outputs(problem.n_x):
            block = max(1, _BATCH_ENTRIES // (2 * len(betas) * problem.n_x * n_y))
            block = min(block, math.ceil(runs / _ROUNDS))
            for first in range(0, runs, block):
                jobs.append((float(order.random()) + first, n_y, first, min(block, runs - first)))
        for done, (_, n_y, first, count) in enumerate(sorted(jobs)):
            if deadline.passed():
                return
            rng = np.random.default_rng([seed, n_y, first, 1])
            many = count * len(betas)
            start = np.concatenate([uniform_starts(rng, many, problem.n_x, n_y),
                                    spread_starts(rng, many, problem.n_x, n_y)])  # fmt: skip
            beta = np.tile(np.repeat(betas, count), 2)
            batch = self.run(problem, start, beta, deadline)
            self._keep(pool, batch, beta)
            if progress is not None:
                progress(Progress(done=done + 1, total=len(jobs), message=f"drs ({self.variant}), N = {n_y}"))

    def _keep(self, pool: Pool, batch: Batch, beta: Array) -> None:
        converged = batch.code == CONVERGED
        pool.runs += len(beta)
        pool.converged += int(converged.sum())
        # The authors keep the runs that pass their stopping test, which is no test of stationarity.
        keep = converged if self.variant == "published" else np.ones(len(beta), dtype=bool)
        statuses = [
            Status.FEASIBLE if self.variant == "published" else _STATUS[int(code)]
            for code in batch.code[keep]
        ]
        pool.add(batch.channel[keep], statuses, batch.steps[keep], 1.0 / beta[keep])

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        cut = ", cut by the time limit" if deadline.passed() else ""
        if pool.converged == 0:
            return (
                f"drs ({self.variant}): none of {pool.runs} runs met its stopping test{cut}; lower penalty or step "
                "(the published iteration needs penalty × step < 2)"
            )
        return f"drs ({self.variant}): {pool.converged} of {pool.runs} runs met their stopping test{cut}"


@dataclass(frozen=True, kw_only=True)
class RepairedDRS(DRS):
    """:class:`DRS` with ``variant="repaired"``, under a name of its own."""

    name: ClassVar[str] = "drs-repaired"

    variant: str = "repaired"


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
