"""The engines that advance AEM runs: plain NumPy, compiled code on the CPU's cores, and PyTorch on any device.

All take the same state and make the same step; they differ in speed and in the last digits. An engine's answer
for a run never depends on the other runs of the batch, nor on the number of threads.
"""

from __future__ import annotations

import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.solvers import _aem_step as reference
from privfunnel.solvers._aem_step import Tables

Integers = NDArray[np.int64]

# NumPy works through a batch in pieces of about this size, so that the temporaries of a step stay in cache.
CACHE_BYTES = 1 << 21


class Progressed(NamedTuple):
    """What became of each of B runs; all shape (B,).

    Attributes:
        slope: λ of the last iteration.
        residual: The last stationarity residual seen.
        steps: Iterations done.
        alive: False where the run cannot go on from where it stands.
    """

    slope: Array
    residual: Array
    steps: Integers
    alive: NDArray[np.bool_]


class Engine(Protocol):
    """Advances a batch of runs."""

    @property
    def arrays_a_run(self) -> int:
        """How many (M, N) arrays of doubles a run needs at once."""

    def advance(self, log_u: Array, slope: Array, target: Array, steps: int, tolerance: float) -> Progressed:
        """Advance each run by ``steps`` iterations, or until its residual is ``tolerance``; ``log_u`` in place."""


@dataclass(frozen=True)
class NumpyEngine:
    """The reference step on batches that fit the cache."""

    tables: Tables
    arrays_a_run: int = 10

    def advance(self, log_u: Array, slope: Array, target: Array, steps: int, tolerance: float) -> Progressed:
        """See :meth:`Engine.advance`."""
        size = len(log_u)
        result = Progressed(
            slope.copy(), np.full(size, np.inf), np.zeros(size, dtype=np.int64), np.ones(size, dtype=bool)
        )
        piece = max(1, CACHE_BYTES // max(1, self.arrays_a_run * log_u[0].nbytes)) if size else 1
        for begin in range(0, size, piece):
            self._advance_piece(
                log_u, target, np.arange(begin, min(size, begin + piece)), result, steps, tolerance
            )
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
            made = reference.step(self.tables, log_u[runs], result.slope[runs], target[runs])
            log_u[runs] = made.log_u
            result.slope[runs] = made.slope
            result.residual[runs] = np.where(made.moved, made.residual, result.residual[runs])
            result.steps[runs] += made.moved
            result.alive[runs] = made.moved
            runs = runs[made.moved & (made.residual > tolerance)]


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

    def advance(self, log_u: Array, slope: Array, target: Array, steps: int, tolerance: float) -> Progressed:
        """See :meth:`Engine.advance`."""
        kernel: Any = need("privfunnel.solvers._aem_kernel", extra="fast")
        tables, sparse = self.tables, nonzeros(self.tables.p_s_given_x)
        size = len(log_u)
        result = Progressed(
            slope.copy(), np.full(size, np.inf), np.zeros(size, dtype=np.int64), np.ones(size, dtype=bool)
        )

        def one(run: int) -> None:
            made = kernel.run(
                *sparse, tables.p_x, tables.log_p_x, len(tables.p_s_given_x), log_u[run], float(slope[run]),
                float(target[run]), steps, tolerance, tables.root_tolerance(),
            )  # fmt: skip
            result.slope[run], result.residual[run], result.steps[run], _, result.alive[run] = made

        if self.threads == 1 or size == 1:
            for run in range(size):
                one(run)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                for _ in pool.map(one, range(size)):
                    pass
        return result


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_engine(tables: Tables, device: str, threads: int | None) -> Engine:
    """The engine for a device.

    Args:
        tables: The problem's tables.
        device: ``"cpu"`` (compiled if numba is installed, else NumPy), ``"numba"``, ``"numpy"``, ``"torch"``
            (PyTorch on the CPU), ``"cuda"`` or ``"cuda:<index>"``, or ``"auto"`` (a GPU if PyTorch sees one,
            else ``"cpu"``).
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
    raise InvalidInputError(f"unknown device {device!r}: use cpu, auto, numpy, numba, torch or cuda")


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    return bool(need("torch", extra="gpu").cuda.is_available())
