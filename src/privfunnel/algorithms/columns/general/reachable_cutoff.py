"""What a search tries to prove when its limits come before what was asked for: the most that it can still finish.

A search for F ≥ cutoff opens the box of the lowest bound first, so that what it proves grows all the time. A cutoff far
beyond reach is a waste: the lower the cutoff, the more of each box the checker's rules cut off, and the more children
are settled at once. Bounds of many dimensions rise like a power of the boxes opened. Where that says that the cutoff
asked for is out of reach, and ways down the tree say that there are too many boxes left, a lower one is proved in its
place: a power knows nothing of trees that end, and few ways down know nothing of the deepest parts. A cutoff may go
down while the tree grows, never up: what was cut off for a higher one is above a lower one too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

#: Shares of the limits at which the search looks ahead, and how many times all of them a hopeless search would take.
LOOKS = ((0.05, math.inf), (0.1, 100.0), (0.25, 20.0), (0.5, 4.0))
#: A search whose cutoff is within reach proves what one whose cutoff is not takes so many times the boxes for.
WORTH = 16.0
#: The boxes grow at most with this power of the inverse height: what is measured between two looks is rough. A search
#: that grows more slowly than the other power, or has opened few boxes, is let go on: most end suddenly.
STEEPEST, SLOW = 6.0, 1.5
FEW_BOXES = 2000
#: Shares of the limits at which a search that lags behind settles for this share of the height still missing.
SETTLE = ((0.4, 0.6), (0.6, 0.75), (0.75, 0.85), (0.87, 0.93), (0.95, 0.97))


class Landing:
    """The cutoff of a search under way, in nats: the one asked for, until it is out of reach.

    Args:
        asked: What is to be proved, below 0: the least value of F is about 0. Others are never given up.
        steady: Whether it is not given up either.

    Attributes:
        cutoff: What is tried now. Posteriors between it and what was asked for are not looked for any more: each would
            end the proof, and there is no time for another.
    """

    def __init__(self, asked: float, *, steady: bool = False) -> None:
        self.asked = self.cutoff = asked
        self._looks = list(LOOKS) if asked < 0.0 and not steady else []
        self._settle = list(SETTLE)
        self._before: tuple[float, float] | None = None

    @property
    def landed(self) -> bool:
        """Whether what was asked for was given up."""
        return self.cutoff < self.asked

    @property
    def next_look(self) -> float:
        """The share of the limits at which to look next; infinite for never."""
        waiting = self._settle if self.landed else self._looks
        return waiting[0][0] if waiting else math.inf

    def look(self, share: float, opened: int, least: float, left: Callable[[], float]) -> None:
        """Look ahead after ``share`` of the limits and ``opened`` boxes, which prove ``least`` in nats, and adapt.

        Of several looks that are due only the last one counts. ``left`` says how many boxes are left, about.
        """
        if share < self.next_look:
            return
        waiting = self._settle if self.landed else self._looks
        while waiting and waiting[0][0] <= share:
            _, number = waiting.pop(0)
        if not -math.inf < least < self.cutoff:
            return
        if self.landed:
            self.cutoff = min(self.cutoff, number * least)
            return
        if self._before is not None:
            power = self._power(opened, least)
            many = opened >= FEW_BOXES and power >= SLOW
            hopeless = many and share * (least / self.asked) ** power > number
            # Boxes that are left fit where they are no more than this share of those that there is time for.
            if hopeless and left() > 0.7 * opened * (1.0 / share - 1.0):
                self.cutoff = min(self.asked, least * (WORTH / share) ** (-1.0 / power))
                self._settle = [each for each in self._settle if each[0] > share]
        self._before = (float(opened), least)

    def _power(self, opened: int, least: float) -> float:
        """The power of the inverse height that the boxes grew with since the look before, at most ``STEEPEST``."""
        assert self._before is not None
        boxes, height = self._before
        grown, fallen = math.log(opened / boxes), math.log(height / least)
        return grown / fallen if fallen > grown / STEEPEST else STEEPEST
