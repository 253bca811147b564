"""Exact pricing by cliques of rivals: for tables of one component and a hundred public symbols or more."""

from __future__ import annotations

import functools

import numpy as np

from privfunnel.algorithms.columns.plain.branching import search_cliques
from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.columns.plain.master import Master
from privfunnel.model.problem import Problem

#: Public symbols from which cliques are searched: boxes of single symbols are as good for fewer.
MANY = 100
#: Once the attempt at all that is asked for has failed, the next one leaves this part of what is missing, and later
#: ones, once they fail, so many times as much, up to the largest part: the less is proved, the fewer boxes it takes.
FIRST_PART, PART_FACTOR, LARGEST_PART = 0.25, 2.0, 0.9
#: Attempts once limits came first, and twice the boxes of each.
LAST_ATTEMPTS, LAST_BOXES = 6, 400_000


def of_size(problem: Problem) -> bool:
    """Whether a table has as many symbols as cliques are searched for."""
    return problem.n_x >= MANY


def fits(master: Master) -> bool:
    """Whether cliques of this table are searched: it is of that size, and of one component."""
    return len(master.parts) == 1 and of_size(master.problem)


@functools.cache
def load_kernels() -> None:
    """Compile the search, or read it from numba's cache: no time limit should pay for that."""
    columns = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]])
    pricing = Pricing(columns, np.full(3, -0.81), 0.3)
    search_cliques(pricing, np.zeros(3, np.int32), -1e-3, 10, 1, 0.2)


class Ladder:
    """What to prove next, in nats below the least F, where all that was asked for is out of reach.

    Attributes:
        part: The part of what is missing that the next proof may leave; 0 as long as none has failed.
    """

    def __init__(self, part: float = 0.0) -> None:
        self.part = part

    def cutoff(self, target: float, missing: float) -> float:
        """What F is to be proved to be above, at most 0: ``missing`` nats are between value and bound."""
        return -max(target, self.part * missing)

    def failed(self) -> None:
        """The limits came before a proof."""
        self.part = min(self.part * PART_FACTOR, LARGEST_PART) if self.part else FIRST_PART
