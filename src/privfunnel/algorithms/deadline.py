"""A deadline that long loops look at between steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from privfunnel.infra.jit import seconds_compiling

#: Seconds between two looks at clocks and signals, about.
MOMENT = 0.1

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
        now = time.thread_time() if self.clock == "cpu" else time.monotonic()
        return now - seconds_compiling(self.clock)  # kernels are compiled once, which no limit should pay for

    def passed(self, share: float = 1.0) -> bool:
        """Whether the time is up, or ``share`` of it."""
        return self.elapsed() >= share * self.seconds

    def elapsed(self) -> float:
        """Seconds since the start, by its clock."""
        return self._now() - self.started

    def left(self, share: float = 1.0) -> float:
        """Seconds left of all the time, or of ``share`` of it; infinite without a limit, never negative."""
        return max(0.0, share * self.seconds - self.elapsed())

    def slices(self, total: int, first: int = 1) -> Iterator[slice]:
        """The numbers from 0 to ``total`` in slices that take a moment each, until the time is up."""
        pace, start = Pace(first), 0
        while start < total and pace.goes_on(self):
            yield slice(start, min(start + pace.size, total))
            start += pace.size


class Pace:
    """How many of many equal steps are taken at a time: a moment's worth, then clocks and signals are looked at.

    Compiled loops hear no Ctrl-C. What they compute does not depend on the pace, only when they look up.

    Attributes:
        size: Steps to take now.
    """

    def __init__(self, first: int = 1) -> None:
        self.size = max(first, 1)
        self._since: float | None = None

    def goes_on(self, deadline: Deadline) -> bool:
        """Called before each ``size`` steps: adapt it to what the last ones took; whether there is time for more."""
        now = deadline.elapsed()
        if self._since is not None:
            took = now - self._since
            if took < MOMENT / 4.0:
                self.size *= 2
            elif took > MOMENT:
                self.size = max(1, self.size // 2)
        self._since = now
        return not deadline.passed()


@dataclass(frozen=True)
class Limits(Deadline):
    """What a search may spend on one point: time, and boxes that it opens.

    Args:
        nodes: Most boxes to open.
    """

    nodes: int = field(kw_only=True)


#: No limit.
NEVER = Deadline()
