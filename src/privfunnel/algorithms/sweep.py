"""Sweeps: methods that answer for a multiplier, not for a disclosure, and draw a curve by trying many.

For one multiplier λ such a method minimises I(S;Y) − λ I(X;Y) and lands where it lands. All that it reaches goes into a
:class:`~privfunnel.algorithms.pool.Pool`, whose lower convex envelope answers every disclosure by time sharing. A
solver says how to fill the pool; the classes here do the rest:

* :class:`Sweep` sweeps once;
* :class:`MultiplierSweep` also searches the multiplier around an asked disclosure;
* :class:`RestartedSweep` fills the pool with batches of runs from random starts, spread over the numbers of outputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.options import (
    check_numbers,
    check_positive,
    check_seconds,
    check_some,
    check_whole,
)
from privfunnel.algorithms.pool import Pool
from privfunnel.certificate.answer import Answer
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import TINY, Array
from privfunnel.model.problem import Problem

#: Entries of the channels of one batch of runs: enough to hide NumPy's overhead, few enough for the cache.
BATCH_ENTRIES = 60_000


@dataclass(frozen=True, kw_only=True)
class Sweep(TimeLimited, ABC):
    """A method whose points lie where they lie.

    Attributes:
        time_limit: Seconds after which no further run is started and running ones are cut; infinite for no limit.
    """

    sweeps: ClassVar[bool] = True
    #: Whether its runs have a stopping test of their own.
    iterative: ClassVar[bool] = True

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Sweep, then time-share the two neighbours of ``disclosure`` on the envelope of all runs."""
        deadline = Deadline(self.time_limit)
        pool = self._swept(problem, seed, deadline, progress)
        self._search(problem, pool, disclosure, seed, deadline)
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
        pool = self._swept(problem, seed, deadline, progress)
        yield from pool.answers(message=self._message(pool, deadline))

    @abstractmethod
    def _swept(self, problem: Problem, seed: int, deadline: Deadline, progress: Listener | None) -> Pool:
        """A pool with all that one sweep reaches."""

    def _search(self, problem: Problem, pool: Pool, disclosure: float, seed: int, deadline: Deadline) -> None:
        """Add to the pool what lowers its envelope at ``disclosure``; nothing, where there is no multiplier."""

    def _message(self, pool: Pool, deadline: Deadline) -> str:
        """What is worth telling of the runs, in a sentence."""
        cut = pool.cut or deadline.passed()
        return f"{self.name}: the sweep was cut by the time limit" if cut else ""


@dataclass(frozen=True, kw_only=True)
class MultiplierSweep(Sweep):
    """A sweep over multipliers, which can be repeated at the slope of the chord around an asked disclosure.

    Attributes:
        refine: How many times :meth:`solve` repeats it at most.
    """

    #: Gains in leakage (nats) and slopes that are too small to go on for.
    resolution: ClassVar[float] = 1e-9

    refine: int = 3

    def __post_init__(self) -> None:
        """Check the options."""
        check_seconds(self.name, self.time_limit)
        check_whole(self.name, 0, refine=self.refine)

    @abstractmethod
    def _multipliers(self) -> Array:
        """The multipliers of the sweep, as the method counts them (β or λ)."""

    @abstractmethod
    def _multiplier(self, slope: float) -> float:
        """The multiplier that belongs to a slope λ of the curve."""

    @abstractmethod
    def _fill(
        self,
        problem: Problem,
        pool: Pool,
        multipliers: Array,
        seed: int,
        deadline: Deadline,
        progress: Listener | None,
    ) -> None:
        """Run the method for these multipliers and add what it reaches to the pool, until the deadline."""

    def _swept(self, problem: Problem, seed: int, deadline: Deadline, progress: Listener | None) -> Pool:
        pool = Pool(problem.p_sx, iterative=self.iterative)
        self._fill(problem, pool, self._multipliers(), seed, deadline, progress)
        return pool

    def _search(self, problem: Problem, pool: Pool, disclosure: float, seed: int, deadline: Deadline) -> None:
        for round_ in range(1, self.refine + 1):
            before, slope = pool.value(disclosure), pool.slope(disclosure)
            if deadline.passed() or slope <= self.resolution:
                return
            multiplier = np.array([self._multiplier(slope)])
            # Added to the seed in each round of the search around a disclosure: a prime, so that rounds share no
            # stream.
            self._fill(problem, pool, multiplier, seed + 7919 * round_, deadline, None)
            if pool.value(disclosure) > before - self.resolution:
                return


class Runs(Protocol):
    """Some runs of one shape, advanced together."""

    @property
    def going(self) -> bool:
        """Whether any of them goes on."""

    def advance(self) -> None:
        """A step, or a few, of every run that goes on."""


def groups(start: Array) -> list[slice]:
    """The runs of ``start`` (runs, M, N) in groups that are advanced together: a matter of shapes, never of time."""
    size = max(1, BATCH_ENTRIES // start[0].size) if len(start) else 1
    return [slice(first, first + size) for first in range(0, len(start), size)]


def in_turns(work: Sequence[Runs], deadline: Deadline, seconds: float = 0.0) -> None:
    """Advance the groups in turn until none goes on, or less is left than the ``seconds`` that a step takes.

    No group gets more than a step ahead of the others.
    """
    going = [runs for runs in work if runs.going]
    while going:
        for runs in going:
            if deadline.left() <= seconds:
                return
            runs.advance()
        going = [runs for runs in going if runs.going]


class Job(NamedTuple):
    """A batch of runs of one shape: the restarts ``first``, ``first + 1``, … with ``n_y`` outputs."""

    n_y: int
    first: int
    restarts: int


@dataclass(frozen=True, kw_only=True)
class RestartedSweep(MultiplierSweep):
    """A sweep over β = 1/λ, the number of outputs N and random starts, in batches of runs of one shape.

    Attributes:
        betas: Multipliers β of the sweep.
        outputs: Numbers of outputs N to try; None for the method's own choice, which depends on the table.
        restarts: Random starts for each cell of the sweep.
        tolerance: Stopping tolerance of a run.
        max_steps: Cap on the iterations of a run.
    """

    #: Which form of the method this is: ``"published"`` or ``"repaired"``.
    variant: ClassVar[str] = ""
    #: The least β that means something to the method.
    least_beta: ClassVar[float] = 1.0
    #: Seconds, about, that what cannot be interrupted takes for each entry of a channel (:meth:`_seconds`).
    entry_seconds: ClassVar[float] = 1e-6
    #: Seconds, about, for each product of an entry with p(s|x) in one step, whatever the method.
    product_seconds: ClassVar[float] = 3e-9

    betas: tuple[float, ...]
    outputs: tuple[int, ...] | None = None
    restarts: int
    tolerance: float
    max_steps: int
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_whole(self.name, 1, restarts=self.restarts, max_steps=self.max_steps)
        check_positive(self.name, tolerance=self.tolerance)
        check_numbers(self.name, "betas", self.betas, self.least_beta)
        if self.outputs is not None:
            check_whole(self.name, 2, **{f"outputs[{i}]": n for i, n in enumerate(self.outputs)})
            check_some(self.name, "outputs", self.outputs)

    @abstractmethod
    def _outputs(self, problem: Problem) -> tuple[int, ...]:
        """The numbers of outputs N that the method tries where none are given."""

    @abstractmethod
    def _runs_per_restart(self, n_betas: int) -> int:
        """Runs of one shape that a restart means: one for each cell of the sweep."""

    @abstractmethod
    def _run_job(
        self,
        problem: Problem,
        pool: Pool,
        job: Job,
        betas: Array,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> None:
        """Draw the starts of a job, run them and add what they reach to the pool."""

    def _multipliers(self) -> Array:
        return np.array(self.betas)

    def _multiplier(self, slope: float) -> float:
        return max(1.0, 1.0 / slope)

    def _fill(
        self,
        problem: Problem,
        pool: Pool,
        multipliers: Array,
        seed: int,
        deadline: Deadline,
        progress: Listener | None,
    ) -> None:
        jobs = self._jobs(problem, len(multipliers), seed)
        # What takes longer than all the time there is, is left out: a matter of shapes, not of the moment.
        seconds = self._seconds(problem, jobs[:, 0])
        pool.cut |= bool((seconds > deadline.seconds).any())
        jobs, seconds = jobs[seconds <= deadline.seconds], seconds[seconds <= deadline.seconds]
        for done, (job, needed) in enumerate(zip(jobs.tolist(), seconds.tolist(), strict=True), start=1):
            if deadline.left() <= needed:
                pool.cut = True
                return
            n_y, first, restarts = job
            rng = np.random.default_rng([seed, n_y, first, 1])
            self._run_job(problem, pool, Job(n_y, first, restarts), multipliers, rng, deadline)
            if progress is not None:
                method = self.name.removesuffix("-repaired")
                message = f"{method} ({self.variant}), N = {n_y}"
                progress(Progress(done=done, total=len(jobs), message=message))

    def _seconds(self, problem: Problem, n_y: NDArray[np.int64]) -> Array:
        """Seconds that a run with N outputs takes, about, from one look at the clock to the next."""
        return np.asarray(problem.n_x * n_y * (self.entry_seconds + problem.n_s * self.product_seconds))

    def _jobs(self, problem: Problem, n_betas: int, seed: int) -> NDArray[np.int64]:
        """The batches of a sweep as rows (N, first restart, restarts).

        Their order mixes the N, so that a time limit thins them evenly.
        """
        order = np.random.default_rng([seed, 0])
        cells = self._runs_per_restart(n_betas) * problem.n_x
        outputs = np.array(self._outputs(problem) if self.outputs is None else self.outputs)
        # A sweep goes over all N at least this many times, with a part of the restarts each: a time limit thins it
        # evenly.
        blocks = np.clip(BATCH_ENTRIES // (cells * outputs), 1, math.ceil(self.restarts / 5))
        counts = -(-self.restarts // blocks)
        n_y, block = np.repeat(outputs, counts), np.repeat(blocks, counts)
        first = block * (np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts))
        jobs = np.stack([n_y, first, np.minimum(block, self.restarts - first)], axis=1)
        return jobs[np.argsort(order.random(len(jobs)) + first, kind="stable")]


def parts(runs: int, n_x: int, n_y: int) -> list[slice]:
    """``runs`` runs in parts whose channels fit into memory together."""
    # Entries of the channels that are in memory at one time, if a single channel has no more.
    size = max(1, (1 << 22) // (n_x * n_y))
    return [slice(first, min(first + size, runs)) for first in range(0, runs, size)]


def uniform_starts(rng: np.random.Generator, runs: int, n_x: int, n_y: int) -> Array:
    """Random channels (runs, M, N) with uniform entries, rows normalised: the authors' first kind of start."""
    start = rng.random((runs, n_x, n_y))
    return np.asarray(start / start.sum(axis=2, keepdims=True))


def stationarity(p_sx: Array, channel: Array, beta: Array) -> Array:
    """How far ``channel`` (runs, M, N) is from a stationary point of ``β I(S;Y) − I(X;Y)``, in nats (runs,).

    With ``g_xy = β Σ_s p(s|x) ln p(s|y) − ln p(x|y)`` (the gradient up to ``p_x`` and terms constant in ``y``), a
    stationary channel has ``g`` constant in ``y`` wherever ``P > 0``. The residual is ``Σ_xy p(x,y) |g − ḡ_x|``.
    """
    p_x = p_sx.sum(axis=0)
    s_given_x = p_sx / p_x
    p_xy = p_x[:, None] * channel
    p_y = np.maximum(p_xy.sum(axis=1), TINY)[:, None, :]
    log_t = np.log(np.maximum(s_given_x @ p_xy / p_y, TINY))
    g = beta[:, None, None] * (s_given_x.T @ log_t) - np.log(np.maximum(p_xy / p_y, TINY))
    mean = np.sum(channel * g, axis=2, keepdims=True)
    return np.asarray(np.sum(p_xy * np.abs(g - mean), axis=(1, 2)))
