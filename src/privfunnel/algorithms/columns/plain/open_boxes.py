"""The open boxes of a search: a stack, from which the box of the lowest bound is brought up as long as it is small.

Memory stays bounded, since the newest comes first in the end; :mod:`privfunnel.algorithms.columns.general.open_boxes`
grows instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.posteriors.boxes import Box, copy
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array


class Frontier(NamedTuple):
    """The open boxes, one a row: their node (n,), parent's bound (n,), ends and the parent's point, (n, M) each."""

    node: NDArray[np.int64]
    promise: Array
    lower: Array
    upper: Array
    point: Array


@compiled(later=True)
def new_frontier(depth: int, n_x: int) -> Frontier:
    """Room for ``depth`` boxes, the first of which is the whole simplex and belongs to the root."""
    frontier = Frontier(
        np.zeros(depth, np.int64),
        np.zeros(depth),
        np.zeros((depth, n_x)),
        np.zeros((depth, n_x)),
        np.zeros((depth, n_x)),
    )
    for i in range(n_x):
        frontier.upper[0, i] = 1.0
        frontier.point[0, i] = 1.0 / n_x
    return frontier


@compiled(later=True)
def least_index(values: Array) -> int:
    """Where the least of some values (n,) is; the last such place."""
    best = values.size - 1
    for j in range(values.size - 1, -1, -1):
        if values[j] < values[best]:
            best = j
    return best


@compiled(later=True)
def bring_up(j: int, top: int, frontier: Frontier) -> None:
    """Exchange open box ``j`` with the one on top, in place."""
    if j != top:
        node, promise, lower, upper, point = frontier
        node[j], node[top] = node[top], node[j]
        promise[j], promise[top] = promise[top], promise[j]
        for i in range(lower.shape[1]):
            lower[j, i], lower[top, i] = lower[top, i], lower[j, i]
            upper[j, i], upper[top, i] = upper[top, i], upper[j, i]
            point[j, i], point[top, i] = point[top, i], point[j, i]


@compiled(later=True)
def load(frontier: Frontier, height: int, box: Box, point: Array) -> int:
    """Copy the box at ``height`` and its point (M,) out; return the node that it belongs to."""
    copy(box.lower, frontier.lower[height])
    copy(box.upper, frontier.upper[height])
    copy(point, frontier.point[height])
    return int(frontier.node[height])


@compiled(later=True)
def push(frontier: Frontier, height: int, node: int, bound: float, box: Box, point: Array) -> None:
    """Put the box of a node on top of the open ones, with its parent's bound and point (M,)."""
    frontier.node[height] = node
    frontier.promise[height] = bound
    copy(frontier.lower[height], box.lower)
    copy(frontier.upper[height], box.upper)
    copy(frontier.point[height], point)
