"""Prices of cells, tested against all posteriors: those that beat them, or boxes that prove that none does by much.

With prices a and a slope μ the bracket −H(Pw) + μ G(Qw) − a·w has to be at least 0 for every posterior w. As a function
of v = Qw it is convex but for G, so that the values of v are cut into boxes, and on each a relaxation with chords in
place of G is solved (:mod:`.relaxation`). Its multipliers (q, γ) give the function f_box of a certificate; where
f_box(c) ≥ a_c for every cell the box is done. What a box lacks lowers the prices of the cells that lack it only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.task.growing import GrowingTree, chord_gaps
from privfunnel.algorithms.task.relaxation import Images, relaxed
from privfunnel.certificate.kinds.task import Partition, chords, empty, least_tilted
from privfunnel.measures import Array
from privfunnel.reductions.task_cells import Cells

#: Boxes are relaxed so many at a time, times cells.
TOGETHER = 18_000
#: Boxes that a partition may have, and times cells.
MOST_BOXES, MOST_ENTRIES = 40_000, 24_000_000
#: Boxes after which twice as many should lose less by this factor, or, near the target, there is no use in more.
FIRST_BOXES, WORTHWHILE = 2_500, 0.9
#: Gap to which relaxations are solved, in nats.
SOLVED = 3e-7
#: A posterior in the box that is as bad as this share of what the box lacks: cutting it is of no use.
REAL = 0.7
#: Multipliers are kept below this.
LARGEST = 1e5
#: Values of p(u|y) are kept away from 0, where logarithms end.
LEAST = 1e-9


class Tips(NamedTuple):
    """Values of p(u|y), shape (n, D), and the least bracket that was found there, shape (n,)."""

    values: Array
    brackets: Array

    def joined(self, other: Tips) -> Tips:
        """Both."""
        return Tips(
            np.concatenate([self.values, other.values]), np.concatenate([self.brackets, other.brackets])
        )

    def worst(self, below: float, most: int) -> Array:
        """The values with brackets below ``below``, the worst first, no two of them alike, ``most`` at most."""
        chosen: list[Array] = []
        for i in np.argsort(self.brackets):
            if self.brackets[i] > below or len(chosen) >= most:
                break
            here = np.sqrt(self.values[i])
            if all(((here - np.sqrt(each)) ** 2).sum() > 1e-6 for each in chosen):
                chosen.append(self.values[i])
        return np.array(chosen).reshape(-1, self.values.shape[1])


class _Boxes(NamedTuple):
    """Boxes of a growing partition.

    Attributes:
        node: Their nodes, shape (n,).
        low: Their lower, and ``high`` their upper ends, shape (n, D).
        cut: Which multipliers they have, shape (n,).
        least: Least f − a over all cells, shape (n,).
        found: The bracket of a posterior in the box, shape (n,); infinite where there is none.
    """

    node: NDArray[np.intp]
    low: Array
    high: Array
    cut: NDArray[np.intp]
    least: Array
    found: Array

    def of(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> _Boxes:
        parts: list[Any] = [part[which] for part in self]
        return _Boxes(*parts)

    def joined(self, other: _Boxes) -> _Boxes:
        parts: list[Any] = [np.concatenate(both) for both in zip(self, other, strict=True)]
        return _Boxes(*parts)


class Cover:
    """Prices (C,) under test, at a slope; ``zero`` for posteriors without leakage."""

    def __init__(self, cells: Cells, prices: Array, slope: float, *, zero: bool) -> None:
        self.cells, self.prices, self.slope, self.zero = cells, prices, slope, zero
        self.weights = slope * cells.tasks.weights
        self.images = Images(cells.told, cells.kept, cells.p @ cells.told if zero else None)
        self.told = cells.told - cells.p @ cells.told if zero else cells.told
        self.tree = GrowingTree(cells.tasks)
        self.q = np.zeros((0, cells.told.shape[1]))
        self.tilts = np.zeros((0, cells.kept.shape[1]))
        self.heights = np.zeros(0)
        self.tips = Tips(np.zeros((0, cells.kept.shape[1])), np.zeros(0))
        self.done: list[_Boxes] = []
        self.bound = -np.inf

    def local(self, starts: Array) -> Tips:
        """Follow tangents of G from values of p(u|y), (n, D), to posteriors with the least brackets around."""
        starts = starts[: max(TOGETHER * 4 // self.cells.n, 24)]
        values = np.clip(starts, LEAST, 1.0)
        low, high = np.zeros_like(values), np.ones_like(values)
        # Tangent steps of a local search.
        for _ in range(6):
            costs = -(measures.safe_log(values) * self.weights) @ self.cells.kept.T - self.prices
            posteriors = relaxed(self.images, costs, low, high, SOLVED / 10.0).posteriors
            values, brackets = self._brackets(posteriors)
        brackets[self._leaking(posteriors)] = np.inf
        return Tips(values, brackets)

    def _brackets(self, posteriors: Array) -> tuple[Array, Array]:
        """p(u|y) and the brackets of posteriors (n, C)."""
        values = np.clip(posteriors @ self.cells.kept, LEAST, 1.0)
        paid = 0.0 if self.zero else measures.xlogx(posteriors @ self.cells.told).sum(axis=1)
        return values, np.asarray(paid - posteriors @ self.prices - measures.xlogx(values) @ self.weights)

    def _leaking(self, posteriors: Array) -> NDArray[np.bool_]:
        """Which posteriors (n, C) leak where nothing may."""
        if not self.zero:
            return np.zeros(posteriors.shape[0], dtype=bool)
        return np.asarray(np.abs(posteriors @ self.told).max(axis=1) > 1e-6)

    def _relax(self, low: Array, high: Array) -> tuple[Array, NDArray[np.intp]]:
        """Solve the relaxations of boxes (n, D): brackets of posteriors in them, and where their multipliers are."""
        slopes = chords(low, high)[1] * self.weights
        made = relaxed(self.images, slopes @ self.cells.kept.T - self.prices, low, high, SOLVED)
        # Where there is nothing in a box its multipliers may grow without end.
        size = np.maximum(np.abs(made.forces).max(axis=1), np.abs(made.q).max(axis=1) if self.zero else 0.0)
        shrunk = np.minimum(1.0, LARGEST / np.maximum(size, 1.0))[:, None]
        q = made.q * shrunk if self.zero else made.q
        tilts = -(slopes + made.forces * shrunk)
        heights = (self.told @ q.T - self.cells.kept @ tilts.T - self.prices[:, None]).min(axis=0)
        first = self.heights.size
        self.q = np.concatenate([self.q, q])
        self.tilts = np.concatenate([self.tilts, tilts])
        self.heights = np.concatenate([self.heights, heights])
        values, brackets = self._brackets(made.posteriors)
        inside = np.all((values >= low - 1e-6) & (values <= high + 1e-6), axis=1)
        inside &= ~self._leaking(made.posteriors)
        self.tips = self.tips.joined(Tips(values[inside], brackets[inside]))
        return np.where(inside, brackets, np.inf), first + np.arange(heights.size)

    def _least(self, low: Array, high: Array, cut: NDArray[np.intp]) -> Array:
        blocks = self.cells.tasks.blocks
        return self.heights[cut] + least_tilted(low, high, self.weights, self.tilts[cut], blocks)

    def _boxes(
        self, node: NDArray[np.intp], low: Array, high: Array, parent: NDArray[np.intp], enough: float
    ) -> _Boxes:
        """Boxes with the multipliers of their parents where those are good enough, otherwise with their own."""
        nothing = empty(low, high, self.cells.tasks.blocks)
        cut, found = parent.copy(), np.full(node.size, np.inf)
        least = self._least(low, high, cut) if self.heights.size else np.full(node.size, -np.inf)
        least[nothing] = np.inf
        poor = np.flatnonzero(least < -enough)
        if poor.size:
            found[poor], own = self._relax(low[poor], high[poor])
            own_least = self._least(low[poor], high[poor], own)
            better = own_least > least[poor]
            cut[poor[better]], least[poor[better]] = own[better], own_least[better]
        return _Boxes(node, low, high, cut, least, found)

    def _lacks(self, boxes: _Boxes) -> Array:
        """By how much f of each box is below the price of each cell, shape (C, n)."""
        level = boxes.least - self.heights[boxes.cut]
        level[~np.isfinite(level)] = 0.0
        f = self.told @ self.q[boxes.cut].T - self.cells.kept @ self.tilts[boxes.cut].T + level
        lacks = np.maximum(self.prices[:, None] - f, 0.0)
        lacks[:, ~np.isfinite(boxes.least)] = 0.0
        return np.asarray(lacks)

    def close(self, target: float, deadline: Deadline, *, patient: bool) -> float:
        """Cut boxes until the prices have to be lowered by ``target`` nats in all at most.

        Args:
            target: What is good enough.
            deadline: When to stop.
            patient: Go on although posteriors were found that beat the prices by more than that.

        Returns:
            By how much they have to be lowered, Σ p_c (a_c − min f(c)).
        """
        p, enough = self.cells.p, target / 10.0
        most = min(MOST_BOXES, MOST_ENTRIES // self.cells.n)
        batch = max(TOGETHER // self.cells.n, 16)
        low, high = self.tree.root
        root = np.zeros(1, dtype=np.intp)
        boxes = self._boxes(root, low, high, root, enough)
        lacks, settled = self._lacks(boxes), np.zeros(self.cells.n)
        before = (FIRST_BOXES, np.inf)
        while True:
            loss = float(p @ np.maximum(settled, lacks.max(axis=1, initial=0.0)))
            real = (boxes.found < 0.0) & (boxes.found <= REAL * boxes.least)
            really = float(p @ np.maximum(settled, lacks[:, real].max(axis=1, initial=0.0)))
            score = (p @ lacks) * np.where(real, 1e-3, 1.0)
            chosen = np.argsort(-score)[:batch]
            chosen = chosen[score[chosen] > 0.02 * score.max(initial=0.0)]
            size = len(self.tree.variable)
            full = size > most or not chosen.size or deadline.passed()
            if size >= 2 * before[0]:
                full = full or WORTHWHILE * before[1] < loss <= 3.0 * target
                before = (size, loss)
            beaten = really > target or loss - really <= target / 20.0
            if loss <= target or full or (beaten and not patient):
                self.done.append(boxes)
                self.bound = float(p @ self.prices) - loss
                return loss
            gaps = self.weights * chord_gaps(boxes.low[chosen], boxes.high[chosen])
            cut = boxes.of(chosen)
            made = self.tree.cut(cut.node, cut.low, cut.high, gaps.argmax(axis=1))
            children = self._boxes(*made, np.repeat(cut.cut, 2), enough)
            lacking = self._lacks(children)
            left = children.least < -enough
            settled = np.maximum(settled, lacking[:, ~left].max(axis=1, initial=0.0))
            self.done.append(children.of(~left))
            rest = np.ones(boxes.node.size, dtype=bool)
            rest[chosen] = False
            boxes = boxes.of(rest).joined(children.of(left))
            lacks = np.concatenate([lacks[:, rest], lacking[:, left]], axis=1)

    def proof(self) -> tuple[Partition, Array, Array]:
        """The partition, and q and tilts of its leaves, in their order."""
        node = np.concatenate([boxes.node for boxes in self.done])
        cut = np.concatenate([boxes.cut for boxes in self.done])[np.argsort(node)]
        return self.tree.partition(), self.q[cut], self.tilts[cut]
