"""Best of many restarts at many disclosures, as one batch of bounded memory: plain and accelerated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.aem.backends import Backend, StepState
from privfunnel.algorithms.aem.schedule import (
    KEPT_AT_R,
    KEPT_TO_THE_END,
    RAMP,
    REVIVAL,
    kept,
    level_of,
    level_steps,
)
from privfunnel.algorithms.aem.starts import Starts
from privfunnel.algorithms.aem.state import Tables, channel_of, log_of, pieces
from privfunnel.algorithms.deadline import MOMENT, NEVER, Deadline
from privfunnel.errors import SolverError
from privfunnel.measures import Array, mutual_information

#: λ that the first root search of a run starts from.
FIRST_SLOPE = 0.5

#: Where there is a deadline, runs that are advanced before the first look at the clock: so many at most,
RUNS_AT_ONCE = 8
#: but no more than a moment's work, at so many products of an iteration's K·M·N a second.
PRODUCTS_PER_SECOND = 5e8

#: Called with (iterations done, iterations at most).
Report = Callable[[int, int], None]
Job = tuple[int, int]  # (point of the curve, restart)


@dataclass(frozen=True)
class Run:
    """The end of one run.

    Attributes:
        channel: p(y|x), shape (M, N).
        leakage: I(S;Y) of the channel, nats.
        slope: λ of the last iteration.
        steps: Iterations done.
        restart: Index of the restart.
    """

    channel: Array
    leakage: float
    slope: float
    steps: int
    restart: int


@dataclass(frozen=True)
class Work:
    """What is to be done: see the options of :class:`privfunnel.algorithms.aem.AEM`.

    Attributes:
        tables: The problem's tables.
        disclosures: R of each point, nats, strictly between 0 and H(X).
        floors: A proved lower bound on the leakage at each point, nats.
        starts: Where the runs start.
        backend: What advances them.
        restarts: Runs at each point.
        max_steps: Iterations of a run at most.
        tolerance: Residual at which a run stops.
        memory: Bytes that the runs in work may take.
        deadline: When to stop; what has been reached by then is the answer.
        first: Number of the first restart.
    """

    tables: Tables
    disclosures: Sequence[float]
    floors: Sequence[float]
    starts: Starts
    backend: Backend
    restarts: int
    max_steps: int
    tolerance: float
    memory: int
    deadline: Deadline = NEVER
    first: int = 0

    def block(self) -> int:
        """How many runs may be in work at one time."""
        entry = 8 * len(self.tables.p_x) * self.starts.n_y
        return max(1, self.memory // (entry * self.backend.arrays_per_run))

    def runs_at_once(self, steps: int) -> int:
        """How many runs are advanced by ``steps`` iterations before the first look at the clock."""
        n_s, n_x = self.tables.p_s_given_x.shape
        one = steps * n_s * n_x * self.starts.n_y / PRODUCTS_PER_SECOND
        return max(1, min(RUNS_AT_ONCE, int(MOMENT / one)))

    def targets(self, jobs: Sequence[Job], levels: Array) -> Array:
        """``levels``·R − H(X) of each job, shape (B,)."""
        return np.asarray(levels * np.array([self.disclosures[point] for point, _ in jobs]) - self.tables.h_x)

    def finish(self, job: Job, log_u: Array, slope: float, steps: int) -> Run:
        """The run that ended at ``log_u`` (M, N)."""
        channel = channel_of(self.tables, log_u)
        leakage = float(mutual_information(self.tables.p_s_given_x @ (self.tables.p_x[:, None] * channel)))
        if not np.isfinite(leakage):
            raise SolverError(
                f"restart {job[1]} ended in numbers that are not finite: check the table for extremes"
            )
        return Run(channel, leakage, slope, steps, job[1])


def best_runs(work: Work, report: Report, *, accelerate: bool) -> Iterator[Run]:
    """The run of least leakage for each disclosure, in order.

    Runs are made in blocks that keep to ``work.memory`` bytes. Plain runs do not know of each other.
    Accelerated restarts of a point compete with each other; they do so in smaller groups where the memory does
    not hold all of them.

    Args:
        work: What is to be done.
        report: Called with (iterations done, iterations at most) after every few.
        accelerate: Whether to ramp up, take longer steps and retire restarts that fall behind.

    Yields:
        One run for each disclosure.
    """
    restarts = range(work.first, work.first + work.restarts)
    block = work.block()
    if work.deadline.seconds < math.inf and not accelerate:
        block = min(block, work.runs_at_once(work.backend.steps_per_check))
    if accelerate and block < work.restarts:
        groups = [restarts[begin : begin + block] for begin in range(0, work.restarts, block)]
        blocks = [[(point, r) for r in group] for point in range(len(work.disclosures)) for group in groups]
    else:
        jobs = [(point, restart) for point in range(len(work.disclosures)) for restart in restarts]
        length = block // work.restarts * work.restarts if accelerate else block
        blocks = [jobs[begin : begin + length] for begin in range(0, len(jobs), length)]
    run_block = _run_accelerated if accelerate else _run_plain
    total = len(work.disclosures) * work.restarts * work.max_steps
    best: dict[int, Run] = {}
    following = begun = 0
    for number, jobs in enumerate(blocks):

        def report_block(done: int, begun: int = begun, size: int = len(jobs)) -> None:
            report(begun * work.max_steps + done * size, total)

        # When the time is up, points that have an answer get no better one.
        if not work.deadline.passed() or any(point not in best for point, _ in jobs):
            for (point, _), run in run_block(work, jobs, report_block):
                if point not in best or run.leakage < best[point].leakage:
                    best[point] = run
        begun += len(jobs)
        finished = blocks[number + 1][0][0] if number + 1 < len(blocks) else len(work.disclosures)
        for point in range(following, finished):
            yield best.pop(point)
        following = finished


def _begin(work: Work, jobs: Sequence[Job], levels: Array) -> Array:
    """Log p(x, y) (B, M, N) of the starts of some jobs, at these shares (B,) of their disclosure."""
    disclosures = levels * np.array([work.disclosures[point] for point, _ in jobs])
    return _logarithm(work.tables, work.starts.channels([restart for _, restart in jobs], disclosures))


def _logarithm(tables: Tables, channels: Array) -> Array:
    """Log p(x, y) of channels (B, M, N), written over them."""
    for part in pieces(len(channels), 4 * channels[0].nbytes):
        channels[part] = log_of(tables.p_x[:, None] * channels[part])
    return channels


def _run_plain(work: Work, jobs: Sequence[Job], report: Callable[[int], None]) -> Iterator[tuple[Job, Run]]:
    """Run plain Algorithm 1 for some jobs to their ends."""
    log_u = _begin(work, jobs, np.ones(len(jobs)))
    target = work.targets(jobs, np.ones(len(jobs)))
    state = StepState.first(len(jobs), FIRST_SLOPE)
    steps = np.zeros(len(jobs), dtype=np.int64)
    going = np.arange(len(jobs))
    per_check = work.backend.steps_per_check
    for begin in range(0, work.max_steps, per_check):
        length = min(per_check, work.max_steps - begin)
        whole = len(going) == len(jobs)
        part = log_u if whole else log_u[going]
        made = work.backend.advance(part, state.take(going), target[going], length, work.tolerance)
        if not whole:
            log_u[going] = part
        state.put(going, made.state)
        steps[going] += made.steps
        going = going[made.alive & (made.residual > work.tolerance)]
        report(begin + length)
        if not len(going) or work.deadline.passed():
            break
    for run, job in enumerate(jobs):
        yield job, work.finish(job, log_u[run], float(state.slope[run]), int(steps[run]))


def _run_accelerated(
    work: Work, jobs: Sequence[Job], report: Callable[[int], None]
) -> Iterator[tuple[Job, Run]]:
    """Ramp up some jobs, retire those that fall behind, and run the rest to their ends."""
    runs = _Population(work, jobs)
    length = level_steps(work.max_steps)
    for level in RAMP:
        if work.deadline.passed():
            break
        runs.climb(level)
        runs.run(length)
        report(int(runs.steps.max()))
    runs.retire(KEPT_AT_R)
    runs.climb(1.0)
    runs.run(length)
    report(int(runs.steps.max()))
    runs.settle()
    runs.retire(KEPT_TO_THE_END)
    runs.drop_finished()
    while len(runs.going) and not work.deadline.passed():
        runs.run(min(work.backend.steps_per_check, work.max_steps - int(runs.steps[runs.going].max())))
        runs.drop_finished()
        report(int(runs.steps.max()))
    report(work.max_steps)
    for run in np.flatnonzero(runs.leakage < np.inf).tolist():
        end = work.finish(jobs[run], runs.now[run], float(runs.state.slope[run]), int(runs.steps[run]))
        yield jobs[run], replace(end, channel=without_unused(end.channel))


def without_unused(channel: Array) -> Array:
    """The channel (M, N) without outputs that no symbol has more than a rounding's worth of probability for."""
    # An output that every symbol gives this probability or less is not used: dropping it changes nothing but rounding.
    used = channel[:, channel.max(axis=0) > 1.0e-15]
    return np.asarray(used / used.sum(axis=1, keepdims=True))


class _Population:
    """Accelerated runs that compete: their points, step states and leakages, and who is still going."""

    def __init__(self, work: Work, jobs: Sequence[Job]) -> None:
        """Set up the runs at their starts, at the first level of the ramp."""
        self.work = work
        self.jobs = jobs
        self.points = np.array([point for point, _ in jobs])
        self.restarts = np.array([restart for _, restart in jobs])
        self.levels = self._levels(RAMP[0])
        self.now = _begin(work, jobs, self.levels)
        self.before = self.now.copy()
        self.state = StepState.first(len(jobs), FIRST_SLOPE)
        self.steps = np.zeros(len(jobs), dtype=np.int64)
        self.leakage = np.full(len(jobs), np.inf)
        self.stopped = np.zeros(len(jobs), dtype=bool)
        self.going = np.arange(len(jobs))

    def _levels(self, level: float) -> Array:
        return np.array([level_of(restart, level) for restart in self.restarts.tolist()])

    def climb(self, level: float) -> None:
        """Raise the runs to ``level`` times their disclosure; those that are there already go on as they are."""
        levels = self._levels(level)
        low = self.going[levels[self.going] > self.levels[self.going]]
        self.levels = levels
        if not len(low):
            return
        tables, starts = self.work.tables, self.work.starts
        restarts = self.restarts[low].tolist()
        channels = self.now[low]
        for part in pieces(len(low), 4 * channels[0].nbytes):
            channels[part] = (1.0 - REVIVAL) * channel_of(tables, channels[part])
        for channel, restart in zip(channels, restarts, strict=True):
            channel += REVIVAL * starts.draw(restart)
        disclosures = levels[low] * np.array([self.work.disclosures[point] for point in self.points[low]])
        self.now[low] = self.before[low] = _logarithm(tables, starts.lift(channels, restarts, disclosures))
        self.state.age[low] = 0.0
        self.stopped[low] = False

    def run(self, steps: int) -> None:
        """Advance the runs that are going and have not stopped, as many of them as there is time for."""
        runs, deadline = self.going[~self.stopped[self.going]], self.work.deadline
        if deadline.seconds == math.inf:
            self._advance(runs, steps)
            return
        for part in deadline.slices(len(runs), self.work.runs_at_once(steps)):
            self._advance(runs[part], steps)

    def settle(self) -> None:
        """One step for a run of each point that none had time for."""
        for point in np.unique(self.points[self.going]):
            runs = self.going[self.points[self.going] == point]
            if np.all(self.leakage[runs] == np.inf):
                self._advance(runs[:1], 1)

    def _advance(self, runs: NDArray[np.intp], steps: int) -> None:
        """Advance some runs."""
        if not len(runs):
            return
        whole = len(runs) == len(self.jobs)
        now, before = (self.now, self.before) if whole else (self.now[runs], self.before[runs])
        target = self.work.targets([self.jobs[run] for run in runs.tolist()], self.levels[runs])
        made = self.work.backend.advance_accelerated(
            now, before, self.state.take(runs), target, steps, self.work.tolerance
        )
        if not whole:
            self.now[runs], self.before[runs] = now, before
        self.state.put(runs, made.state)
        self.steps[runs] += made.steps
        self.leakage[runs] = made.leakage
        self.stopped[runs] = ~made.alive | (made.residual <= self.work.tolerance)

    def retire(self, divisor: int) -> None:
        """Keep the best of each point among those at the same level; ties go to the lower restart."""
        best = []
        for point in np.unique(self.points[self.going]):
            for level in np.unique(self.levels):
                rivals = (self.points == point) & (self.levels == level)
                runs = self.going[rivals[self.going]]
                best.append(
                    runs[np.argsort(self.leakage[runs], kind="stable")][: kept(int(rivals.sum()), divisor)]
                )
        remaining = np.zeros(len(self.jobs), dtype=bool)
        remaining[np.concatenate(best)] = True
        self.leakage[self.going[~remaining[self.going]]] = np.inf
        self.going = np.flatnonzero(remaining)

    def drop_finished(self) -> None:
        """Runs that converged, or used up their steps, or whose point is settled, need no more work."""
        floors = np.array([self.work.floors[point] for point in self.points[self.going]])
        # A leakage this close to a proved bound, in nats, cannot be beaten.
        settled = self.leakage[self.going] <= floors + 1.0e-13
        done: NDArray[np.bool_] = np.isin(self.points[self.going], self.points[self.going][settled])
        done |= self.stopped[self.going] | (self.steps[self.going] >= self.work.max_steps)
        self.going = self.going[~done]
