"""The open boxes of a compiled search: the one of the lowest bound comes first, so that what is proved always grows.

The first ``height`` entries of ``order`` are a binary heap of rows by their promise, the others are the free rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.posteriors.boxes import Box, copy
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array


class Frontier(NamedTuple):
    """One open box a row: node and parent's bound (n,), ends and the parent's point, (n, M) each; and their order."""

    order: NDArray[np.int64]
    node: NDArray[np.int64]
    promise: Array
    lower: Array
    upper: Array
    point: Array


@compiled
def new_frontier(size: int, n_x: int) -> Frontier:
    """Room for ``size`` boxes of M symbols."""
    return Frontier(
        np.arange(size),
        np.zeros(size, np.int64),
        np.zeros(size),
        np.zeros((size, n_x)),
        np.zeros((size, n_x)),
        np.zeros((size, n_x)),
    )


@compiled
def larger(frontier: Frontier) -> Frontier:
    """The same with twice the room."""
    size, n_x = frontier.lower.shape
    made = new_frontier(2 * size, n_x)
    for j in range(size):
        made.order[j] = frontier.order[j]
        made.node[j] = frontier.node[j]
        made.promise[j] = frontier.promise[j]
        copy(made.lower[j], frontier.lower[j])
        copy(made.upper[j], frontier.upper[j])
        copy(made.point[j], frontier.point[j])
    return made


@compiled
def push(frontier: Frontier, height: int, node: int, bound: float, box: Box, point: Array) -> int:
    """Open the box of a node, with its parent's bound and point (M,), when ``height`` are open; return its row."""
    order, promise = frontier.order, frontier.promise
    row = order[height]
    frontier.node[row] = node
    promise[row] = bound
    copy(frontier.lower[row], box.lower)
    copy(frontier.upper[row], box.upper)
    copy(frontier.point[row], point)
    place = height
    while place > 0 and promise[order[(place - 1) // 2]] > bound:
        order[place] = order[(place - 1) // 2]
        place = (place - 1) // 2
    order[place] = row
    return int(row)


@compiled
def pop(frontier: Frontier, height: int, box: Box, point: Array) -> int:
    """Copy the box of the lowest bound of ``height`` open ones, and its point (M,), out; return its node."""
    order, promise = frontier.order, frontier.promise
    row = order[0]
    moved = order[height - 1]
    order[height - 1] = row  # free from now on
    place = 0
    while True:
        child = 2 * place + 1
        if child >= height - 1:
            break
        if child + 1 < height - 1 and promise[order[child + 1]] < promise[order[child]]:
            child += 1
        if promise[order[child]] >= promise[moved]:
            break
        order[place] = order[child]
        place = child
    if height > 1:
        order[place] = moved
    copy(box.lower, frontier.lower[row])
    copy(box.upper, frontier.upper[row])
    copy(point, frontier.point[row])
    return int(frontier.node[row])
