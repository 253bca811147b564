"""What advances AEM runs: the protocol of its backends.

All backends take the same state and make the same step; they differ in speed and in the last digits. A backend's
answer for a run never depends on the other runs of the batch, nor on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.aem.arrays import AcceleratedState
from privfunnel.measures import Array

#: Bytes that the runs in work may take on a CPU unless the caller says otherwise.
CPU_MEMORY = 1 << 29
#: Iterations between two checks of a batch on a CPU: then finished runs leave it and progress is reported.
STEPS_PER_CHECK = 64


class StepState(NamedTuple):
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
    def first(cls, size: int, slope: float) -> StepState:
        """The state of ``size`` runs that have not begun."""
        return cls(np.full(size, slope), np.ones(size), np.zeros(size))

    def take(self, runs: NDArray[np.intp]) -> StepState:
        """The state of some of the runs."""
        return StepState(*(values[runs] for values in self))

    def put(self, runs: NDArray[np.intp], state: StepState) -> None:
        """Overwrite the state of some of the runs."""
        for mine, theirs in zip(self, state, strict=True):
            mine[runs] = theirs


class Progressed(NamedTuple):
    """What became of each of B runs; all shape (B,).

    Attributes:
        state: λ, η, momentum.
        residual: The last stationarity residual seen, nats.
        steps: Iterations done.
        alive: False where the run cannot go on from where it stands.
        leakage: I(S;Y) of the point, nats (accelerated runs; not a number otherwise).
    """

    state: StepState
    residual: Array
    steps: NDArray[np.int64]
    alive: NDArray[np.bool_]
    leakage: Array

    @classmethod
    def blank(cls, state: StepState) -> Progressed:
        """Nothing has happened yet."""
        size = len(state.slope)
        return cls(
            StepState(*(values.copy() for values in state)),
            np.full(size, np.inf),
            np.zeros(size, dtype=np.int64),
            np.ones(size, dtype=bool),
            np.full(size, np.nan),
        )

    def put(self, runs: NDArray[np.intp], end: AcceleratedState) -> None:
        """Write down how some accelerated runs (NumPy arrays) ended."""
        self.state.put(runs, StepState(end.slope, end.eta, end.age))
        self.residual[runs] = end.residual
        self.steps[runs] = end.steps
        self.alive[runs] = end.alive
        self.leakage[runs] = end.leakage


class Backend(Protocol):
    """Advances a batch of runs."""

    @property
    def arrays_per_run(self) -> int:
        """How many (M, N) arrays of doubles a run needs at once."""

    @property
    def memory(self) -> int:
        """Bytes that the runs in work may take unless the caller says otherwise."""

    @property
    def steps_per_check(self) -> int:
        """Iterations between two checks of the batch: then finished runs leave it and progress is reported."""

    def advance(
        self, log_u: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """Advance each run by ``steps`` plain iterations, or until its residual is ``tolerance``; in place."""

    def advance_accelerated(
        self, now: Array, before: Array, state: StepState, target: Array, steps: int, tolerance: float
    ) -> Progressed:
        """The same with accelerated iterations; ``now`` and ``before`` are the last two points, in place."""
