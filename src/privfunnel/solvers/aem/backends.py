"""The engines that advance AEM runs: plain NumPy, compiled code on the CPU's cores, and PyTorch on any device.

All take the same state and make the same step; they differ in speed and in the last digits. An engine's answer for a
run never depends on the other runs of the batch, nor on the number of threads.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.solvers.aem import arrays as batched
from privfunnel.solvers.aem import state as reference
from privfunnel.solvers.aem.state import Tables

Integers = NDArray[np.int64]

CPU_MEMORY = 1 << 29
STEPS_A_LOOK = 64
# Entries times steps that one call of the compiled code may take on: a fraction of a second.
ENTRIES_A_CALL = 1 << 24


class Pace(NamedTuple):
    """What a run carries from one call to the next besides its points; all shape (B,).

    Attributes:
        slope: λ of the last iteration.
        eta: Length η of the next step (accelerated runs).
        age: Steps since momentum began (accelerated runs).
    """

    slope: Array
    eta: Array
    age: Array

    @classmethod
    def first(cls, size: int, slope: float) -> Pace:
        """The pace of ``size`` runs that have not begun."""
        return cls(np.full(size, slope), np.ones(size), np.zeros(size))

    def take(self, runs: NDArray[np.intp]) -> Pace:
        """The pace of some of the runs."""
        return Pace(*(values[runs] for values in self))

    def put(self, runs: NDArray[np.intp], pace: Pace) -> None:
        """Overwrite the pace of some of the runs."""
        for mine, theirs in zip(self, pace, strict=True):
            mine[runs] = theirs


class Progressed(NamedTuple):
    """What became of each of B runs; all shape (B,).

    Attributes:
        pace: λ, η, momentum.
        residual: The last stationarity residual seen.
        steps: Iterations done.
        alive: False where the run cannot go on from where it stands.
        leakage: I(S;Y) of the point (accelerated runs; not a number otherwise).
    """

    pace: Pace
    residual: Array
    steps: Integers
    alive: NDArray[np.bool_]
    leakage: Array

    @classmethod
    def blank(cls, pace: Pace) -> Progressed:
        """Nothing has happened yet."""
        size = len(pace.slope)
        return cls(
            Pace(*(values.copy() for values in pace)),
            np.full(size, np.inf),
            np.zeros(size, dtype=np.int64),
            np.ones(size, dtype=bool),
            np.full(size, np.nan),
        )


class Engine(Protocol):
    """Advances a batch of runs."""

    @property
    def arrays_a_run(self) -> int:
        """How many (M, N) arrays of doubles a run needs at once."""

    @property
    def memory(self) -> int:
        """Bytes that the runs in work may take unless the caller says otherwise."""

    @property
    def steps_a_look(self) -> int:
        """Iterations between two looks at the batch: then finished runs leave it and progress is told."""

    def advance(self, log_u: Array, pace: Pace, target: Array, steps: int, tolerance: float) -> Progressed:
        """Advance each run by ``steps`` plain iterations, or until its residual is ``tolerance``; in place."""

    def hasten(
        self, now: Array, before: Array, pace: Pace, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """The same with accelerated iterations; ``now`` and ``before`` are the last two points, in place."""


@dataclass(frozen=True)
class NumpyEngine:
    """The reference step on batches that fit the cache."""

    tables: Tables
    arrays_a_run: int = 12
    memory: int = CPU_MEMORY
    steps_a_look: int = STEPS_A_LOOK

    def advance(self, log_u: Array, pace: Pace, target: Array, steps: int, tolerance: float) -> Progressed:
        """See :meth:`Engine.advance`."""
        result = Progressed.blank(pace)
        for part in reference.pieces(len(log_u), self.arrays_a_run * log_u[0].nbytes):
            runs = np.arange(part.start, part.stop)
            self._advance_piece(log_u, target, runs, result, steps, tolerance)
        return result

    def _advance_piece(
        self,
        log_u: Array,
        target: Array,
        runs: NDArray[np.intp],
        result: Progressed,
        steps: int,
        tolerance: float,
    ) -> None:
        for _ in range(steps):
            if not len(runs):
                return
            made = reference.step(self.tables, log_u[runs], result.pace.slope[runs], target[runs])
            log_u[runs] = made.log_u
            result.pace.slope[runs] = made.slope
            result.residual[runs] = np.where(made.moved, made.residual, result.residual[runs])
            result.steps[runs] += made.moved
            result.alive[runs] = made.moved
            runs = runs[made.moved & (made.residual > tolerance)]

    def hasten(
        self, now: Array, before: Array, pace: Pace, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`Engine.hasten`."""
        result = Progressed.blank(pace)
        batch = batched.Batch.of(self.tables)
        for part in reference.pieces(len(now), self.arrays_a_run * now[0].nbytes):
            runs = np.arange(part.start, part.stop)
            state = batched.begin(batch, now[runs], before[runs], *pace.take(runs))
            for _ in range(steps):
                state = batched.fast_step(batch, state, target[runs], tolerance)
                if not state.going.any():
                    break
            now[runs], before[runs] = state.now, state.before
            note(result, runs, state)
        return result


def note(result: Progressed, runs: NDArray[np.intp], state: batched.State) -> None:
    """Write the end of a batch of accelerated runs (NumPy arrays) into the result."""
    result.pace.put(runs, Pace(state.slope, state.eta, state.age))
    result.residual[runs] = state.residual
    result.steps[runs] = state.steps
    result.alive[runs] = state.alive
    result.leakage[runs] = state.leakage


def nonzeros(p_s_given_x: Array) -> tuple[Integers, Integers, Integers, Array]:
    """The nonzeros of p(s|x) (K, M), symbol by symbol of X, as the compiled kernel reads them.

    Returns:
        For each x where its nonzeros begin and how many there are, both (M,); for each nonzero its s and its value.
    """
    symbol, index = np.nonzero(p_s_given_x.T)
    count = np.bincount(symbol, minlength=p_s_given_x.shape[1]).astype(np.int64)
    first = (np.cumsum(count) - count).astype(np.int64)
    return first, count, index.astype(np.int64), p_s_given_x[index, symbol]


@dataclass(frozen=True)
class KernelEngine:
    """The compiled step: whole runs on each core, one run in a core's cache at a time."""

    tables: Tables
    threads: int
    arrays_a_run: int = 4
    memory: int = CPU_MEMORY
    steps_a_look: int = STEPS_A_LOOK

    def advance(self, log_u: Array, pace: Pace, target: Array, steps: int, tolerance: float) -> Progressed:
        """See :meth:`Engine.advance`."""
        kernel: Any = need("privfunnel.solvers.aem.kernel_plain", extra="fast")
        tables, result = self.tables, Progressed.blank(pace)
        shared = (*nonzeros(tables.p_s_given_x), tables.p_x, tables.log_p_x, tables.log_p_s)

        def some(begin: int, end: int) -> None:
            kernel.run_some(
                *shared, log_u, result.pace.slope, target, steps, tolerance, tables.root_tolerance(), begin, end,
                result.residual, result.steps, result.alive,
            )  # fmt: skip

        self._share_out(some, log_u.shape, steps)
        return result

    def hasten(
        self, now: Array, before: Array, pace: Pace, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`Engine.hasten`."""
        kernel: Any = need("privfunnel.solvers.aem.kernel_accelerated", extra="fast")
        tables, result = self.tables, Progressed.blank(pace)
        shared = (*nonzeros(tables.p_s_given_x), tables.p_x, tables.log_p_x, tables.log_p_s)

        def some(begin: int, end: int) -> None:
            kernel.run_some(
                *shared, now, before, *result.pace, target, steps, tolerance, tables.root_tolerance(), begin, end,
                result.residual, result.steps, result.alive, result.leakage,
            )  # fmt: skip

        self._share_out(some, now.shape, steps)
        return result

    def _share_out(self, do: Callable[[int, int], None], shape: tuple[int, ...], steps: int) -> None:
        """Call ``do`` on ranges of runs that cover the batch, several times a thread and often enough to interrupt."""
        runs, n_x, n_y = shape
        length = ENTRIES_A_CALL // (n_x * n_y * steps)
        if self.threads > 1:
            length = min(length, runs // (4 * self.threads))
        begins = range(0, runs, max(1, length))
        ends = [min(begin + begins.step, runs) for begin in begins]
        if self.threads == 1:
            for begin, end in zip(begins, ends, strict=True):
                do(begin, end)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(do, begins, ends):
                pass


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_engine(tables: Tables, device: str, threads: int | None) -> Engine:
    """The engine for a device.

    Args:
        tables: The problem's tables.
        device: ``"cpu"`` (compiled if numba is installed, else NumPy), ``"numba"``, ``"numpy"``, ``"torch"``
            (PyTorch on the CPU), ``"cuda"`` or ``"cuda:1"``, or ``"auto"`` (a GPU if PyTorch sees one, else
            ``"cpu"``).
        threads: Threads of the compiled engine; None means all cores this process may use.

    Raises:
        InvalidInputError: The device is unknown or not there.
        MissingExtraError: The device needs a package that is not installed.
    """
    if device == "auto":
        device = "cuda" if _torch_sees_cuda() else "cpu"
    if device == "cpu":
        device = "numba" if importlib.util.find_spec("numba") else "numpy"
    if device == "numpy":
        return NumpyEngine(tables)
    if device == "numba":
        need("numba", extra="fast")
        return KernelEngine(tables, threads or available_threads())
    if device == "torch":
        return _torch_engine(tables, "cpu")
    if device == "cuda" or device.startswith("cuda:"):
        return _torch_engine(tables, device)
    raise InvalidInputError(f"unknown device {device!r}: use cpu, auto, numpy, numba, torch or cuda")


def _torch_engine(tables: Tables, device: str) -> Engine:
    from privfunnel.solvers.aem import torch_backend  # it needs this module

    return torch_backend.torch_engine(tables, device)


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    return bool(need("torch", extra="gpu").cuda.is_available())
