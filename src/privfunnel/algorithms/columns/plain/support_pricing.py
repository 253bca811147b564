"""Exact pricing by supports: for a few private symbols and hundreds of classes, where branch and bound does not end."""

from __future__ import annotations

import functools
from enum import Enum
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.columns.plain.descents import Pricing, descend_all
from privfunnel.algorithms.columns.plain.master import Master, Prices
from privfunnel.algorithms.deadline import Deadline
from privfunnel.certificate import FEWEST, MOST, rivals, search
from privfunnel.certificate.supports import MOST_SLICES
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Public symbols from which supports are looked at: trees are faster for fewer.
MANY = 150
#: Slopes between which they are: the weights of symbols depend on 1/μ, and no two symbols are used together at 1.
LEAST_SLOPE, MOST_SLOPE = 1e-3, 1.0 - 1e-6
#: Steps of the descents from what is found.
DESCENT_STEPS = 60
#: Posteriors that one look adds at most, and one round of local descents.
MOST_ADDED, MOST_LOCAL = 300, 200
#: Rounds of local descents that lower the value by less than this share of it are idle: a look finds more.
IDLE = 3e-4
#: A proof of what a look left is tried this share below the least F that it found, and no less than this, in nats.
BELOW, BELOW_LEAST = 0.02, 1e-9
#: Where no look was finished, the first proof leaves so many times the least F that the last one met, or this share of
#: the value.
DEEPER, COARSE = 2.0, 0.1
#: What a look does between two questions for the time counts as so many boxes of branch and bound.
BOXES_PER_QUESTION = 200
#: What one look counts as at most: half of what the checker would do again.
MOST_BOXES = MOST_SLICES // 2 * BOXES_PER_QUESTION
#: What the last proof may count as, once limits came first.
LAST_BOXES = 200_000
#: So many times what a look took is left for the next one and for the proof of what it leaves.
KEPT = 2.5


class Sight(Enum):
    """How a look ended: F ≥ cutoff is proved, posteriors below it were added, limits came first, or none of these."""

    PROVED = 0
    FOUND = 1
    LIMITED = 2
    STUCK = 3


class Look(NamedTuple):
    """A look at all supports: where, with which duals, the least F that was found below the cutoff, and seconds."""

    disclosure: float
    duals: Prices
    least: float
    seconds: float

    @property
    def cutoff(self) -> float:
        """What F can be proved to be above, most likely."""
        return self.least - max(BELOW * abs(self.least), BELOW_LEAST)

    @property
    def bound(self) -> float:
        """What the line of this cutoff is at the disclosure, in nats."""
        return self.duals.value + self.cutoff


class Seen(NamedTuple):
    """What a look saw: posteriors (n, M) below the cutoff, the least F of them, and the boxes it counts as.

    ``proved``: there are none; ``whole``: all supports were looked at; ``limited``: it was ended early.
    """

    found: Array
    least: float
    boxes: int
    proved: bool
    whole: bool
    limited: bool


def of_size(problem: Problem) -> bool:
    """Whether a table has as many symbols as proofs by supports are for."""
    return FEWEST <= problem.n_s <= MOST and problem.n_x >= MANY


def fits(master: Master) -> bool:
    """Whether supports of this table are looked at: it is of that size, and of one component."""
    return len(master.parts) == 1 and of_size(master.problem)


def applies(master: Master, slope: float) -> bool:
    """Whether they are looked at with this slope."""
    return fits(master) and LEAST_SLOPE <= slope <= MOST_SLOPE


@functools.cache
def load_kernels() -> None:
    """Compile what looks at supports, or read it from numba's cache: no time limit should pay for that."""
    columns = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]])
    mates = np.ones((3, 3), dtype=np.bool_)
    search(columns, np.full(3, -0.81), 0.3, -1e-3, mates)  # no single symbol is below the cutoff


class _Watch:
    """Ends a look when its time or its boxes are used up."""

    def __init__(self, deadline: Deadline, boxes: int) -> None:
        self.deadline, self.allowed, self.boxes = deadline, boxes, 0

    @property
    def ended(self) -> bool:
        return self.boxes > self.allowed or self.deadline.passed()

    def __call__(self) -> bool:
        self.boxes += BOXES_PER_QUESTION
        return self.ended


def look(pricing: Pricing, thresholds: Array, cutoff: float, boxes: int, deadline: Deadline) -> Seen:
    """Look for posteriors whose F is below ``cutoff`` nats, and descend from what is found.

    Args:
        pricing: Prices and slope.
        thresholds: Slopes from which symbols exclude each other, see :func:`privfunnel.certificate.rivalry`.
        cutoff: In nats.
        boxes: What it may count as at most.
        deadline: When it ends.
    """
    watch = _Watch(deadline, min(boxes, MOST_BOXES))
    mates = rivals(thresholds, pricing.slope) == 0
    below = search(pricing.columns, pricing.prices, pricing.slope, cutoff, mates, watch)
    found = np.ascontiguousarray(below.found)
    values = descend_all(pricing, found, DESCENT_STEPS, deadline)
    least = min(float(values.min(initial=np.inf)), float(below.values.min(initial=np.inf)))
    limited = not below.whole and watch.ended
    return Seen(found, least, watch.boxes, below.proved, below.whole, limited)
