"""Clocks for deadlines that go by looks, not by time: what they find is the same on every machine, however busy."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from privfunnel.algorithms import deadline

#: Looks until a limit has passed, and those that may follow: each phase that is given up looks at the clock once.
BEFORE, AFTERWARDS = 1000, 500


class Ticking:
    """A clock that goes on by ``tick`` seconds at each look, and fails at the first look beyond ``most``.

    Attributes:
        looks: How often it was looked at.
    """

    def __init__(self, tick: float, most: float) -> None:
        self.tick, self.most, self.looks = tick, most, 0

    def __call__(self) -> float:
        """What it says now, in seconds."""
        self.looks += 1
        assert self.looks <= self.most, "the time was up long ago"
        return self.tick * self.looks


def ticking(
    monkeypatch: pytest.MonkeyPatch, limit: float, before: int = BEFORE, afterwards: float = AFTERWARDS
) -> Ticking:
    """Let all deadlines go by a clock on which ``limit`` seconds have passed after so many looks."""
    clock = Ticking(limit / before, before + afterwards)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=clock, thread_time=clock))
    # Kernels that are compiled meanwhile take real seconds, which this clock does not know.
    monkeypatch.setattr(deadline, "seconds_compiling", lambda _clock: 0.0)
    return clock
