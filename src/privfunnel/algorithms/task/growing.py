"""Partitions of the values of p(u|y) while they grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.kinds.task import Partition, chords, tighten
from privfunnel.measures import Array
from privfunnel.model.tasks import Utility


def angles(probabilities: Array) -> Array:
    """Arcsin √v: equal steps of it are equally hard to tell apart."""
    return np.asarray(np.arcsin(np.sqrt(np.clip(probabilities, 0.0, 1.0))))


def middles(low: Array, high: Array) -> Array:
    """The middles of intervals by angle, in the shape of ``low``."""
    return np.asarray(np.sin((angles(low) + angles(high)) / 2.0) ** 2)


def chord_gaps(low: Array, high: Array) -> Array:
    """By how much −v log v exceeds its chord at most, elementwise."""
    alpha, beta = chords(low, high)
    v = np.clip(np.exp(-1.0 - beta), low, high)
    return np.asarray(np.maximum(-measures.xlogx(v) - alpha - beta * v, 0.0))


class GrowingTree:
    """A tree of cuts through the box that all of p(u|x) lie in."""

    def __init__(self, tasks: Utility) -> None:
        self.blocks = tasks.blocks
        self.variable, self.split, self.first = [-1], [0.0], [0]
        self.root = tasks.rows.min(axis=1)[None], tasks.rows.max(axis=1)[None]

    def cut(
        self, nodes: NDArray[np.intp], low: Array, high: Array, axis: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], Array, Array]:
        """Cut leaves (n,) with boxes (n, D) in the middle of an axis each.

        Returns:
            Their children, two after each other for each leaf, (2 n,), with the ends of their boxes, (2 n, D).
        """
        index = np.arange(nodes.size)
        at = middles(low[index, axis], high[index, axis])
        lows, highs = np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0)
        highs[2 * index, axis], lows[2 * index + 1, axis] = at, at
        tighten(lows, highs, self.blocks)
        children = len(self.variable) + np.arange(2 * nodes.size)
        for i, node in enumerate(nodes):
            self.variable[node], self.split[node] = int(axis[i]), float(at[i])
            self.first[node] = int(children[2 * i])
        self.variable += [-1] * children.size
        self.split += [0.0] * children.size
        self.first += [0] * children.size
        return children, lows, highs

    def partition(self) -> Partition:
        """The tree as a certificate has it."""
        return Partition(
            np.array(self.variable, dtype=np.int32),
            np.array(self.split),
            np.array(self.first, dtype=np.int32),
        )
