"""Cells of public symbols that are nearly alike in p(s|x) and p(u|x): what the task funnel is solved on.

A channel of cells is one of their members with the same leakage and the same utility, so that nothing of what is
achieved is lost by solving on cells; what could be gained beyond is bounded by the certificate, which looks at all
members.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.measures import Array
from privfunnel.model.problem import Problem
from privfunnel.model.tasks import Utility


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of the public symbols of a problem with tasks.

    Attributes:
        problem: The problem.
        of: Cell of each public symbol, numbered from 0, shape (M,).
        exact: Whether the members of a cell are equal, so that nothing is lost by it.
    """

    problem: Problem
    of: NDArray[np.intp]
    exact: bool = False

    @property
    def tasks(self) -> Utility:
        """The tasks of the problem."""
        return self.problem.required_tasks()

    @cached_property
    def n(self) -> int:
        """C, the number of cells."""
        return int(self.of.max()) + 1

    @cached_property
    def p(self) -> Array:
        """Probability of each cell, shape (C,)."""
        return np.asarray(np.bincount(self.of, self.problem.p_x, self.n), dtype=np.float64)

    @cached_property
    def told(self) -> Array:
        """p(s|c), shape (C, K)."""
        return self._means(self.problem.p_s_given_x)

    @cached_property
    def kept(self) -> Array:
        """p(u|c), shape (C, D), the tasks side by side."""
        return self._means(self.tasks.rows)

    def _means(self, rows: Array) -> Array:
        sums = [np.bincount(self.of, row * self.problem.p_x, self.n) for row in rows]
        return np.asarray(np.stack(sums, axis=1) / self.p[:, None])

    def leakage(self, channel: Array) -> float:
        """I(S;Y) of a channel of cells, (C, N), in nats."""
        return float(measures.mutual_information(np.asarray((self.told * self.p[:, None]).T @ channel)))

    def utility(self, channel: Array) -> float:
        """Σ ω I(U;Y) of a channel of cells, (C, N), in nats."""
        tasks = self.tasks
        joint = np.asarray((self.kept * self.p[:, None]).T @ channel)
        informations = (float(measures.mutual_information(joint[block])) for block in tasks.blocks)
        return float(sum(t.weight * i for t, i in zip(tasks.tasks, informations, strict=True)))

    def refined(self, most: int) -> Cells:
        """Cells cut at their means where probability times spread is largest, ``most`` of them in all, roughly."""
        points = np.vstack([self.problem.p_s_given_x[:-1], self.tasks.rows]).T
        means = np.concatenate([self.told[:, :-1], self.kept], axis=1)
        apart = (points - means[self.of]) ** 2
        spread = np.bincount(self.of, self.problem.p_x * apart.sum(axis=1), self.n)
        order = np.argsort(-spread)
        cut = order[: max((most - self.n) // 3, 1)]
        cut = cut[spread[cut] > 0.0]
        chosen = np.zeros(self.n, dtype=bool)
        chosen[cut] = True
        inside = chosen[self.of]
        # Each is cut through its mean in the two directions in which its members differ most.
        variance = np.stack([np.bincount(self.of, self.problem.p_x * column, self.n) for column in apart.T])
        wide = np.argsort(-variance, axis=0)[:2]
        key = np.zeros(self.of.size, dtype=np.int64)
        for bit, axis in enumerate(wide):
            middle = np.take_along_axis(means, axis[:, None], 1)[self.of]
            key += (1 << bit) * (np.take_along_axis(points, axis[self.of][:, None], 1) > middle)[:, 0]
        key = np.where(inside, key, 0)
        return Cells(self.problem, _numbered(self.of * 4 + key))


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """The number of each key among the different ones."""
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def alike(problem: Problem, points: Array) -> Cells:
    """The public symbols with equal columns of ``points``, (rows, M), up to rounding."""
    # Probabilities that agree to so many decimals are equal.
    whole = np.rint(points * 10.0**12).astype(np.int64)
    order = np.lexsort(whole)
    new = np.any(np.diff(whole[:, order], axis=1) != 0, axis=0)
    of = np.empty(problem.n_x, dtype=np.intp)
    of[order] = np.concatenate([[0], np.cumsum(new)])
    return Cells(problem, of, exact=True)


def classes(problem: Problem) -> Cells:
    """The public symbols that are equal in p(s|x) and p(u|x): nothing at all is lost by these."""
    return alike(problem, np.vstack([problem.p_s_given_x, problem.required_tasks().rows]))


def cells_of(problem: Problem, most: int) -> Cells:
    """The classes, where they are at most ``most``; otherwise about as many cells."""
    exact = classes(problem)
    if exact.n <= most:
        return exact
    cells = Cells(problem, np.zeros(problem.n_x, dtype=np.intp))
    while cells.n < 0.9 * most:
        finer = cells.refined(min(4 * cells.n, most))
        if finer.n <= cells.n:
            break
        cells = finer
    return cells
