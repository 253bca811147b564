"""A budget of time that long loops look at between steps."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Deadline:
    """A moment after which a solver stops at the next safe place.

    Args:
        seconds: The budget from now; None for no limit.
        clock: ``"wall"``, or ``"cpu"`` for the CPU time of this process, which a busy machine does not shorten.
    """

    seconds: float | None = None
    clock: str = "wall"
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        object.__setattr__(self, "started", self._now())

    def _now(self) -> float:
        return time.process_time() if self.clock == "cpu" else time.monotonic()

    def passed(self) -> bool:
        """Whether the budget is spent."""
        return self.seconds is not None and self.elapsed() >= self.seconds

    def elapsed(self) -> float:
        """Seconds since the start, by its clock."""
        return self._now() - self.started

    def left(self) -> float:
        """Seconds left, infinite without a limit, never negative."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed())
