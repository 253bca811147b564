"""What both splittings share: the problem's constants, where a batch of runs ended, and groups of runs on their way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.sweep import in_turns
from privfunnel.measures import Array

CONVERGED, MAX_STEPS, FROZEN, TIMEOUT = 0, 1, 2, 3

Mask = NDArray[np.bool_]


class Table:
    """The constants of one problem that every step reads."""

    def __init__(self, p_sx: Array) -> None:
        self.p_s = p_sx.sum(axis=1)
        self.p_x = p_sx.sum(axis=0)
        self.x_given_s = p_sx / self.p_s[:, None]


@dataclass(frozen=True)
class Batch:
    """Where a batch of runs ended.

    ``channel`` is (runs, M, N), ``second`` is the copy ``Q`` (runs, K, N), ``code`` and ``steps`` are (runs,).
    """

    channel: Array
    second: Array
    code: NDArray[np.int64]
    steps: NDArray[np.int64]

    @classmethod
    def begin(cls, table: Table, start: Array) -> Batch:
        """Runs that have taken no step from ``start`` (runs, M, N)."""
        runs = len(start)
        steps = np.zeros(runs, dtype=np.int64)
        return cls(start.copy(), table.x_given_s @ start, np.full(runs, TIMEOUT), steps)

    def put(
        self, runs: NDArray[np.int64], p: Array, q: Array, code: int | NDArray[np.int64], steps: int
    ) -> None:
        """Write down where some runs ended."""
        self.channel[runs], self.second[runs], self.code[runs], self.steps[runs] = p, q, code, steps


class Iterates(Protocol):
    """The iterates of some runs: both copies P (runs, M, N) and Q (runs, K, N), and whatever else goes with them."""

    p: Array
    q: Array

    def keep(self, mask: Mask) -> Self:
        """Those of the runs (runs,) that are wanted."""


State = TypeVar("State", bound=Iterates)


class Group(ABC, Generic[State]):
    """Runs that are advanced together: ``part`` of a batch, which is written to as they end."""

    def __init__(self, batch: Batch, part: slice, state: State, max_steps: int) -> None:
        self._batch, self._state, self._max_steps = batch, state, max_steps
        self._alive = np.arange(len(batch.code))[part]
        self._steps = 0

    @property
    def going(self) -> bool:
        """Whether any of them goes on."""
        return bool(self._alive.size) and self._steps < self._max_steps

    @abstractmethod
    def advance(self) -> None:
        """A step of every run that goes on, or a few."""

    def _go_on(self, following: State, last: State, close: Mask, stuck: Mask) -> None:
        """Go on from the ``following`` iterates, but write those runs down that are ``close`` enough or ``stuck``.

        They end where they are in ``last``.
        """
        ended = close | stuck
        if ended.any():
            code = np.where(close[ended], CONVERGED, FROZEN)
            self._batch.put(self._alive[ended], last.p[ended], last.q[ended], code, self._steps)
            self._alive, following = self._alive[~ended], following.keep(~ended)
        self._state = following

    def end(self) -> None:
        """Write down where those are that have not ended by themselves."""
        code = MAX_STEPS if self._steps >= self._max_steps else TIMEOUT
        self._batch.put(self._alive, self._state.p, self._state.q, code, self._steps)


def run_groups(work: Sequence[Group[State]], batch: Batch, deadline: Deadline, seconds: float) -> Batch:
    """Advance the groups in turn, a step of one taking about ``seconds``, and write down where all runs are."""
    in_turns(work, deadline, seconds)
    for group in work:
        group.end()
    return batch
