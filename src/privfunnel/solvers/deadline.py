"""A deadline that long loops look at between steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_CLOCK: ContextVar[str] = ContextVar("clock", default="wall")


@contextmanager
def cpu_clock() -> Iterator[None]:
    """Inside the block, deadlines count CPU time of the thread unless they name their clock.

    Solvers that are compared get the same amount of work done, however busy the machine is with others.
    """
    token = _CLOCK.set("cpu")
    try:
        yield
    finally:
        _CLOCK.reset(token)


@dataclass(frozen=True)
class Deadline:
    """When a solver stops, at the next safe place.

    Args:
        seconds: From now; infinite for no limit.
        clock: ``"wall"``, or ``"cpu"`` for the CPU time of this thread, which a busy machine does not shorten.
    """

    seconds: float = math.inf
    clock: str = field(default_factory=_CLOCK.get)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        object.__setattr__(self, "started", self._now())

    def _now(self) -> float:
        return time.thread_time() if self.clock == "cpu" else time.monotonic()

    def passed(self) -> bool:
        """Whether the time is up."""
        return self.elapsed() >= self.seconds

    def elapsed(self) -> float:
        """Seconds since the start, by its clock."""
        return self._now() - self.started

    def left(self) -> float:
        """Seconds left, infinite without a limit, never negative."""
        return max(0.0, self.seconds - self.elapsed())


@dataclass(frozen=True)
class Limits(Deadline):
    """What a search may spend on one point: time, and boxes that it opens.

    Args:
        nodes: Most boxes to open.
    """

    nodes: int = field(kw_only=True)

    def restarted(self) -> Limits:
        """The same limits, from now."""
        return Limits(self.seconds, self.clock, nodes=self.nodes)
