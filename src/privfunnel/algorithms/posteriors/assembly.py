"""From weights on posteriors to a clean channel."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from privfunnel.algorithms.posteriors.components import Part
from privfunnel.algorithms.posteriors.lp import INFINITY, NO_ROWS, NO_VALUES, is_optimal, new_model
from privfunnel.algorithms.posteriors.points import entries
from privfunnel.measures import Array, Channel
from privfunnel.model import channels
from privfunnel.model.problem import Problem

#: Cells of the common refinement narrower than this are made by rounding; weights below it are too.
NEGLIGIBLE = 1e-13
#: A symbol whose posteriors add up to less than this share of its probability was left out by the program's tolerance.
LOST = 0.1

#: The weights (n,) of one component's posteriors in use, and the posteriors, (n, M_c).
Used = tuple[Array, Array]


def align(parts: list[Part], used: list[Used], revealed: float) -> tuple[Array, Array]:
    """Joint weights (n,) and posteriors (n, M) that release every component's posteriors side by side.

    Inside component c the outputs have probabilities r/p(c). Laying them out on [0, 1] and releasing the cell of the
    common refinement keeps Y independent of the component. With probability ``revealed`` the component is released too.
    """
    cuts = [np.cumsum(weights) / weights.sum() for weights, _ in used]
    grid = np.unique(np.concatenate([[0.0, 1.0], *[cut[:-1] for cut in cuts]]))
    # Cells that rounding made are no outputs.
    grid = np.append(grid[np.append(np.diff(grid) > NEGLIGIBLE, False)], 1.0)
    n_x = sum(part.x.size for part in parts)
    middle = (grid[1:] + grid[:-1]) / 2.0
    weights = np.diff(grid) * (1.0 - revealed)
    together = np.zeros((middle.size, n_x))
    alone_weights, alone = [], []
    for part, (r, pool), cut in zip(parts, used, cuts, strict=True):
        which = np.minimum(np.searchsorted(cut, middle), r.size - 1)
        together[:, part.x] = part.mass * pool[which]
        if revealed > 0.0:
            lifted = np.zeros((r.size, n_x))
            lifted[:, part.x] = pool
            alone.append(lifted)
            alone_weights.append(revealed * r)
    return np.concatenate([weights, *alone_weights]), np.concatenate([together, *alone])


def reduce(problem: Problem, weights: Array, posteriors: Array, disclosure: float) -> tuple[Array, Array]:
    """At most M + 1 of the posteriors (n, M), reweighted to leak no more: a basic solution of the small program."""
    cost, resource = entries(problem.p_s_given_x, posteriors)
    lp = new_model()
    for j in range(weights.size):
        lp.addCol(float(cost[j]), 0.0, INFINITY, 0, NO_ROWS, NO_VALUES)
    everything = np.arange(weights.size, dtype=np.int32)
    for i, p in enumerate(problem.p_x):
        lp.addRow(float(p), float(p), weights.size, everything, np.ascontiguousarray(posteriors[:, i]))
    # The weights given are feasible; rounding must not make the program infeasible.
    room = max(problem.disclosure_ceiling - disclosure, float(weights @ resource))
    lp.addRow(-INFINITY, room, weights.size, everything, resource)
    lp.run()
    if not is_optimal(lp):
        return weights, posteriors
    r = np.maximum(np.array(lp.getSolution().col_value), 0.0)
    return r[r > NEGLIGIBLE], posteriors[r > NEGLIGIBLE]


def build(problem: Problem, parts: list[Part], used: list[Used], revealed: float, disclosure: float) -> Array:
    """The channel (M, N) of a solution of the master program: at most M + 1 outputs, merged, in a fixed order."""
    weights, posteriors = align(parts, used, revealed)
    if weights.size > problem.n_x + 1:
        weights, posteriors = reduce(problem, weights, posteriors, disclosure)
    return channel_of_posteriors(problem, weights, posteriors)


def channel_of_posteriors(problem: Problem, weights: Array, posteriors: Array) -> Array:
    """The clean channel (M, N) of weights (n,) on posteriors (n, M).

    A symbol rarer than the program's tolerance may have been left out of every posterior: it gets Y drawn from p(y).
    """
    p_xy = (weights[:, None] * posteriors).T
    p_y = p_xy.sum(axis=0)
    lost = p_xy.sum(axis=1) < LOST * problem.p_x
    p_xy[lost] = p_y
    return tidy_channel(p_xy / p_xy.sum(axis=1, keepdims=True))


def held_channel(problem: Problem, weights: Array, posteriors: Array) -> Channel:
    """:func:`channel_of_posteriors`; sparse beyond ten million entries, outputs of one symbol merged, none sorted."""
    if posteriors.size <= channels.DENSE_ENTRIES:
        return channel_of_posteriors(problem, weights, posteriors)
    p_xy = sparse.csr_array((sparse.diags_array(weights) @ sparse.csr_array(posteriors)).T)
    likely: Array = np.asarray(p_xy.sum(axis=1))
    lost = np.flatnonzero(likely < LOST * problem.p_x)
    if lost.size:
        anything = np.zeros((problem.n_x, 1))
        anything[lost] = 1.0
        p_xy = sparse.csr_array(
            p_xy + sparse.csr_array(anything) @ sparse.csr_array(p_xy.sum(axis=0)[None, :])
        )
        likely = np.asarray(p_xy.sum(axis=1))
    channel: Channel = channels.time_share([sparse.csc_array(sparse.diags_array(1.0 / likely) @ p_xy)], [1.0])
    return channel


def tidy_channel(channel: Array) -> Array:
    """Merge equal posteriors and sort the outputs: by the first symbols they are likeliest for, then by size."""
    # Outputs whose posteriors differ by less than this are one output.
    merged = channels.merge_outputs(channel, tolerance=1e-10)
    # Decimals to which channel entries count when outputs are sorted, so that rounding does not change their order.
    order = np.lexsort(np.round(-merged[::-1], 9))
    return np.ascontiguousarray(merged[:, order])
