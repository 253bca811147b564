"""AEM in NumPy: the reference step of :mod:`privfunnel.algorithms.aem.arrays` on batches that fit the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.aem import arrays
from privfunnel.algorithms.aem.backends import CPU_MEMORY, STEPS_PER_CHECK, Progressed, StepState
from privfunnel.algorithms.aem.state import Tables, pieces
from privfunnel.measures import Array


@dataclass(frozen=True)
class NumpyBackend:
    """The reference step on batches that fit the cache."""

    tables: Tables
    arrays_per_run: int = 12
    memory: int = CPU_MEMORY
    steps_per_check: int = STEPS_PER_CHECK

    def _pieces(self, points: Array) -> list[NDArray[np.intp]]:
        """The indices of the batch ``points`` (B, M, N), in pieces whose work stays in cache."""
        cuts = pieces(len(points), self.arrays_per_run * points[0].nbytes)
        return [np.arange(cut.start, cut.stop) for cut in cuts]

    def advance(
        self, log_u: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.algorithms.aem.backends.Backend.advance`."""
        batch, result = arrays.Batch.of(self.tables), Progressed.blank(state)
        for piece in self._pieces(log_u):
            runs = piece
            for _ in range(steps):
                made = arrays.plain_step(batch, log_u[runs], None, result.state.slope[runs], target[runs])
                log_u[runs] = made.log_u
                result.state.slope[runs] = made.slope
                result.residual[runs] = np.where(made.moved, made.residual, result.residual[runs])
                result.steps[runs] += made.moved
                result.alive[runs] = made.moved
                runs = runs[made.moved & (made.residual > tolerance)]
                if not len(runs):
                    break
        return result

    def advance_accelerated(
        self, now: Array, before: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """See :meth:`privfunnel.algorithms.aem.backends.Backend.advance_accelerated`."""
        batch, result = arrays.Batch.of(self.tables), Progressed.blank(state)
        for runs in self._pieces(now):
            part = arrays.begin(batch, now[runs], before[runs], *state.take(runs))
            for _ in range(steps):
                part = arrays.accelerated_step(batch, part, target[runs], tolerance)
                if not part.going.any():
                    break
            now[runs], before[runs] = part.now, part.before
            result.put(runs, part)
        return result
