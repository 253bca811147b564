"""A wall-clock budget that long loops look at between steps."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock after which a solver stops at the next safe place.

    Args:
        seconds: The budget from now; None for no limit.
    """

    seconds: float | None = None
    started: float = field(default_factory=time.monotonic)

    def passed(self) -> bool:
        """Whether the budget is spent."""
        return self.seconds is not None and time.monotonic() - self.started >= self.seconds

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def left(self) -> float:
        """Seconds left, infinite without a limit, never negative."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed())
