"""Values of p(u|y) at which the utility is linearised, and the boxes in which a bound is proved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.algorithms.task.barrier import Outcome
from privfunnel.algorithms.task.growing import GrowingTree, angles, chord_gaps, middles
from privfunnel.certificate.kinds.task import Partition, chords, empty
from privfunnel.measures import Array
from privfunnel.model.tasks import Utility
from privfunnel.reductions.task_cells import Cells


def on_a_line(tasks: Utility) -> bool:
    """Whether p(u|y) has one dimension: one task with two symbols."""
    return tasks.rows.shape[0] == 2 and len(tasks.tasks) == 1


def first_labels(cells: Cells, count: int) -> Array:
    """Labels spread evenly over what the cells have, shape (count, D) at most."""
    tasks = cells.tasks
    if on_a_line(tasks):
        ends = angles(tasks.rows[1])
        v = np.sin(np.linspace(float(ends.min()), float(ends.max()), count)) ** 2
        return clipped(np.stack([1.0 - v, v], axis=1))
    return clipped(_spread(cells, count))


def starts(cells: Cells, used: Array, turn: int) -> Array:
    """Where a local search for better labels begins: labels in use, mixtures of cells, cells' own p(u|c)."""
    mixed = np.random.default_rng(turn).dirichlet(np.full(cells.n, 0.3), size=60) @ cells.kept
    return np.concatenate([used, mixed, cells.kept])


def _spread(cells: Cells, count: int) -> Array:
    """Cells' own p(u|c), each as far as possible from all before it; likely cells count as farther away."""
    points = np.sqrt(cells.kept)
    away = ((points - np.sqrt(cells.p @ cells.kept)) ** 2).sum(axis=1)
    chosen: list[int] = []
    for _ in range(max(min(count, cells.n), 0)):
        best = int(np.argmax(away * cells.p ** (1.0 / 3.0)))
        if chosen and away[best] <= 0.0:
            break
        chosen.append(best)
        away = np.minimum(away, ((points - points[best]) ** 2).sum(axis=1))
    # Few cells have few values of their own: outputs mix them, and so do further labels.
    more = np.random.default_rng(0).dirichlet(np.full(cells.n, 0.5), size=max(count - len(chosen), 0))
    return np.concatenate([cells.kept[chosen], more @ cells.kept])


def clipped(labels: Array) -> Array:
    """Labels kept away from 0."""
    # Labels are kept away from 0, where logarithms end.
    return np.clip(labels, 1e-9, 1.0)


def losses(tasks: Utility, kept: Array, labels: Array) -> Array:
    """−Σ_d ω_d Q_dc log v_jd: the tangent of −Σ ω v log v at each label, for each cell, shape (C, J)."""
    return np.asarray(-(kept * tasks.weights) @ measures.safe_log(labels).T)


class Multipliers:
    """Multipliers q as a function of p(u|y) where that is one number, interpolated between labels."""

    def __init__(self, labels: Array, outcome: Outcome, *, zero: bool) -> None:
        self.zero = zero
        values = outcome.multipliers if zero else np.exp(outcome.multipliers)
        order = np.argsort(labels[:, 1])
        self.places, self.values = angles(labels[order, 1]), values[order]

    def at(self, values: Array) -> Array:
        """Q at values of p(u|y), (n, 2), shape (n, K)."""
        wanted = angles(values[:, 1])
        made = np.stack([np.interp(wanted, self.places, column) for column in self.values.T], axis=1)
        return made if self.zero else measures.safe_log(np.maximum(made, measures.TINY))


class Boxes:
    """A growing partition of the values of p(u|y), cut where a bound loses most."""

    def __init__(self, cells: Cells, multipliers: Multipliers, slope: float) -> None:
        self.cells, self.tasks, self.multipliers, self.slope = cells, cells.tasks, multipliers, slope
        self.tree = GrowingTree(self.tasks)
        self.low, self.high = self.tree.root
        self.node = np.zeros(1, dtype=np.intp)  # of each leaf
        self.q = multipliers.at(self._middle(self.low, self.high))
        self.values = self._values(self.low, self.high, self.q)

    def _middle(self, low: Array, high: Array) -> Array:
        middle = middles(low, high)
        for block in self.tasks.blocks:
            middle[:, block] /= np.maximum(middle[:, block].sum(axis=1, keepdims=True), measures.TINY)
        return middle

    def _values(self, low: Array, high: Array, q: Array) -> Array:
        """F of boxes at the cells, shape (C, n); infinite for boxes that hold nothing."""
        alpha, beta = chords(low, high)
        weights = self.slope * self.tasks.weights
        told = self.cells.told
        if self.multipliers.zero:
            told = told - self.cells.p @ told
        made = told @ q.T + self.cells.kept @ (beta * weights).T + alpha @ weights
        made[:, empty(low, high, self.tasks.blocks)] = np.inf
        return made

    def refine(self, target: float, most: int) -> None:
        """Cut boxes until what chords lose is below ``target`` nats in all, or there are ``most`` boxes."""
        while self.node.size < most:
            best = self.values.argmin(axis=1)
            weight = np.bincount(best, self.cells.p, self.node.size)
            gaps = self.slope * self.tasks.weights * chord_gaps(self.low, self.high)
            loss = weight * gaps.sum(axis=1)
            if loss.sum() <= target:
                return
            cut = np.flatnonzero(loss > max(target, 0.02 * loss.sum()) / (2.0 * self.node.size))
            cut = cut[np.argsort(-loss[cut])][: most - self.node.size]
            if cut.size == 0:
                return
            self._cut(cut, gaps[cut].argmax(axis=1))

    def _cut(self, cut: NDArray[np.intp], axis: NDArray[np.intp]) -> None:
        nodes, lows, highs = self.tree.cut(self.node[cut], self.low[cut], self.high[cut], axis)
        q = self.multipliers.at(self._middle(lows, highs))
        values = self._values(lows, highs, q)
        left = np.setdiff1d(np.arange(self.node.size), cut)
        self.low, self.high = np.concatenate([self.low[left], lows]), np.concatenate([self.high[left], highs])
        self.node = np.concatenate([self.node[left], nodes])
        self.q, self.values = (
            np.concatenate([self.q[left], q]),
            np.concatenate([self.values[:, left], values], axis=1),
        )

    @property
    def bound(self) -> float:
        """Σ_c p_c min over boxes of f, in nats."""
        return float(self.cells.p @ self.values.min(axis=1))

    def proof(self) -> tuple[Partition, Array]:
        """The partition and the multipliers of its leaves, in their order."""
        return self.tree.partition(), self.q[np.argsort(self.node)]
