"""Cells of public symbols in the shape that a proof asks for: narrow where symbols want different outputs, else long.

The price of a symbol, a(x) = min over boxes of f_box(x), is a concave function of its p(s|x) and p(u|x). A cell that is
solved as one symbol loses what a at its mean exceeds the mean of a by, and a bends only across the borders between
symbols that want different outputs. So cells are halved where that is most, across the direction in which a bends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.kinds.task import Functions
from privfunnel.measures import Array
from privfunnel.model.problem import Problem
from privfunnel.reductions.task_cells import Cells

#: Halvings at most, each of many cells at once; only cells that lose this share of the most that one does take part.
MOST_SWEEPS, WORTH = 40, 0.05


class _Bend:
    """Prices of all symbols of a problem, and how they bend.

    Attributes:
        places: p(s|x) and p(u|x) without the last symbol of S and of each task, shape (d, M).
        prices: a, shape (M,).
        gradients: Gradients of a at the places, shape (d, M).
        stiffness: Curvature in all directions that is added to that of a: the next proof bends a little otherwise.
    """

    def __init__(self, problem: Problem, functions: Functions) -> None:
        tasks = problem.required_tasks()
        told, kept = problem.p_s_given_x, tasks.rows
        blocks = [(told, functions.of_told)]
        blocks += [(kept[block], functions.of_kept[block]) for block in tasks.blocks]
        slopes = np.vstack([of[:-1] - of[-1] for _, of in blocks])
        which = np.empty(problem.n_x, dtype=np.intp)
        self.prices = np.empty(problem.n_x)
        for some, values in functions.values(told, kept):
            which[some] = values.argmin(axis=1)
            self.prices[some] = values.min(axis=1)
        self.problem, self.functions = problem, functions
        self.places = np.vstack([rows[:-1] for rows, _ in blocks])
        self.gradients = slopes[:, which]
        one = Cells(problem, np.zeros(problem.n_x, dtype=np.intp))
        self.stiffness = 0.0
        # Curvature that is added in all directions, as a share of that of all symbols: cells get no longer than its
        # inverse root, in widths.
        self.stiffness = 0.005 * float(self.losses(one)[0] / max(self._spread(one)[0], measures.TINY))

    def _spread(self, cells: Cells) -> Array:
        """Σ_x p(x) |z_x − z̄_c|² of each cell, shape (C,)."""
        away = _centred(self.places, cells.of, self.problem.p_x, cells.p)
        return np.asarray(np.bincount(cells.of, self.problem.p_x * (away**2).sum(axis=0), cells.n))

    def losses(self, cells: Cells) -> Array:
        """What each cell loses, p(c) (a of its mean − mean of a), in nats, shape (C,)."""
        at_mean = np.empty(cells.n)
        for some, values in self.functions.values(cells.told.T, cells.kept.T):
            at_mean[some] = values.min(axis=1)
        paid = np.bincount(cells.of, self.problem.p_x * self.prices, cells.n)
        bent = np.maximum(cells.p * at_mean - paid, 0.0)
        return np.asarray(bent + self.stiffness * self._spread(cells))

    def halved(self, cells: Cells, chosen: NDArray[np.bool_]) -> Cells:
        """The cells with the chosen ones cut through their means, across the direction in which prices bend most."""
        members = np.flatnonzero(chosen[cells.of])
        new = np.cumsum(chosen) - 1
        of, p = new[cells.of[members]], self.problem.p_x[members]
        n = int(chosen.sum())
        total = np.asarray(np.bincount(of, p, n), dtype=np.float64)
        away = _centred(self.places[:, members], of, p, total)
        slopes = _centred(self.gradients[:, members], of, p, total)
        # a = −½ zᵀHz has gradients −Hz: minus their covariance with z is HΣ, whose top eigenvector is the direction.
        slopes -= self.stiffness * away
        bends = np.array([[-np.bincount(of, p * g * z, n) for z in away] for g in slopes]).transpose(2, 0, 1)
        direction = _top(bends)
        beyond = (away * direction.T[:, of]).sum(axis=0) > 0.0
        made = cells.of.copy()
        made[members[beyond]] = cells.n + of[beyond]
        return Cells(self.problem, np.unique(made, return_inverse=True)[1].reshape(-1))


def _centred(rows: Array, of: NDArray[np.intp], p: Array, total: Array) -> Array:
    """Rows (d, m) less the mean of each cell."""
    return np.stack([row - (np.bincount(of, p * row, total.size) / total)[of] for row in rows])


def _top(matrices: Array) -> Array:
    """Eigenvectors of the largest eigenvalue of matrices (n, d, d), about; shape (n, d)."""
    longest = (matrices**2).sum(axis=1).argmax(axis=1)
    found = np.take_along_axis(matrices, longest[:, None, None], axis=2)[:, :, 0]
    # Steps of a power iteration for the direction in which prices bend most.
    for _ in range(12):
        size = np.sqrt((found**2).sum(axis=1, keepdims=True))
        found = np.matmul(matrices, (found / np.where(size > 0.0, size, 1.0))[:, :, None])[:, :, 0]
    return np.asarray(found)


def shaped(problem: Problem, functions: Functions, target: float, most: int) -> Cells:
    """Cells that lose ``target`` nats in all by the functions of a proof, or ``most`` of them, about."""
    bend = _Bend(problem, functions)
    cells = Cells(problem, np.zeros(problem.n_x, dtype=np.intp))
    for _ in range(MOST_SWEEPS):
        losses = bend.losses(cells)
        if losses.sum() <= target or cells.n >= most:
            break
        order = np.argsort(-losses, kind="stable")[: most - cells.n]
        chosen = np.zeros(cells.n, dtype=bool)
        chosen[order[losses[order] > WORTH * losses.max()]] = True
        finer = bend.halved(cells, chosen)
        if finer.n == cells.n:
            break
        cells = finer
    return cells
