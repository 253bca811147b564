"""AEM compiled by numba: whole runs on each core, one run in a core's cache at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from privfunnel.algorithms.aem import kernel_accelerated, kernel_plain
from privfunnel.algorithms.aem.backends import CPU_MEMORY, STEPS_PER_CHECK, Progressed, StepState
from privfunnel.algorithms.aem.kernel_groups import KernelTables
from privfunnel.algorithms.aem.state import Tables
from privfunnel.measures import Array

#: Entries times steps that one call of the compiled code may take on where there are few private symbols: a fraction of
#: a second, after which an interrupt is seen.
ENTRIES_PER_CALL = 1 << 24


@dataclass(frozen=True)
class NumbaBackend:
    """The compiled step on ``threads`` threads."""

    tables: Tables
    threads: int
    arrays_per_run: int = 4
    memory: int = CPU_MEMORY
    steps_per_check: int = STEPS_PER_CHECK

    def advance(
        self, log_u: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.algorithms.aem.backends.Backend.advance`."""
        tables, result = KernelTables.of(self.tables), Progressed.blank(state)

        def some(begin: int, end: int) -> None:
            kernel_plain.run_some(tables, log_u, target, steps, tolerance, result, begin, end)

        self._share_out(some, log_u.shape, steps)
        return result

    def advance_accelerated(
        self, now: Array, before: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.algorithms.aem.backends.Backend.advance_accelerated`."""
        tables, result = KernelTables.of(self.tables), Progressed.blank(state)
        points = kernel_accelerated.Points(now, before)

        def some(begin: int, end: int) -> None:
            kernel_accelerated.run_some(tables, points, target, steps, tolerance, result, begin, end)

        self._share_out(some, now.shape, steps)
        return result

    def _share_out(self, do: Callable[[int, int], None], shape: tuple[int, ...], steps: int) -> None:
        """Call ``do`` on ranges of runs that cover the batch, several per thread and often enough to interrupt."""
        runs, n_x, n_y = shape
        n_s = len(self.tables.p_s_given_x)
        # From so many private symbols on a step takes longer in proportion to them.
        length = ENTRIES_PER_CALL // (n_x * n_y * steps * max(1, n_s // 16))
        if self.threads > 1:
            # Calls for each thread at least, so that none waits long for the slowest.
            length = min(length, runs // (4 * self.threads))
        begins = range(0, runs, max(1, length))
        ends = [min(begin + begins.step, runs) for begin in begins]
        if self.threads == 1:
            for begin, end in zip(begins, ends, strict=True):
                do(begin, end)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                for _ in pool.map(do, begins, ends):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)  # or an interrupt would wait for all that is left
                raise
