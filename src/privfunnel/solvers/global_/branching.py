"""Spatial branch and bound for one pricing problem: prove ``min F >= cutoff``, or find posteriors below it.

The proof is a binary tree of boxes. A node stores multipliers ``(q, ν)``; its bound is the plain sum

    F(w) >= ν + Σ_i min(e_i(l_i), e_i(u_i)),    e_i(w) = (p_i·q - a_i - ν) w - μ w log w,

because every ``e_i`` is concave. The same ``e_i`` shrink the box (a coordinate whose own ``e_i`` lifts the sum above
the cutoff cannot be there) and drop the middle of a split. :mod:`privfunnel.certificate` redoes all of it from the
stored numbers alone, so both must shrink boxes by the same rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.solvers.global_.descents import descend
from privfunnel.solvers.global_.relaxation import relax
from privfunnel.solvers.jit import compiled
from privfunnel.solvers.posteriors.boxes import (
    copy,
    exclude,
    fill_chords,
    plogp,
    propagate,
    shrink,
    split_hole,
)

LEAF = -1
SHRINK = -2
PROVED, FOUND, LIMIT = 0, 1, 2
#: While fewer boxes are open, the one of the lowest bound comes first, which finds posteriors sooner; beyond, the
#: newest does, so that memory stays bounded.
FRONTIER = 1000
#: Posteriors of one search this close in total variation are the same.
SAME = 1e-3

Tree = tuple[int, int, Array, Array, NDArray[np.int32], Array, NDArray[np.int32], Array, float]


@compiled
def loosest_symbol(point: Array, lower: Array, upper: Array, alpha: Array, beta: Array) -> int:
    """The symbol whose chord is furthest below ``-w log w`` at ``point``."""
    chosen = 0
    loosest = -1.0
    for i in range(point.size):
        w = min(max(point[i], lower[i]), upper[i])
        gap = -plogp(w) - alpha[i] - beta[i] * w
        if gap > loosest and upper[i] > lower[i]:
            loosest = gap
            chosen = i
    return chosen


@compiled
def least_index(values: Array) -> int:
    """Where the least of some values (n,) is; the last such place."""
    best = values.size - 1
    for j in range(values.size - 1, -1, -1):
        if values[j] < values[best]:
            best = j
    return best


@compiled
def bring_up(
    j: int,
    top: int,
    stack: NDArray[np.int64],
    promise: Array,
    lowers: Array,
    uppers: Array,
    points: Array,
) -> None:
    """Exchange open box ``j`` with the one on top, in place."""
    if j != top:
        stack[j], stack[top] = stack[top], stack[j]
        promise[j], promise[top] = promise[top], promise[j]
        for i in range(lowers.shape[1]):
            lowers[j, i], lowers[top, i] = lowers[top, i], lowers[j, i]
            uppers[j, i], uppers[top, i] = uppers[top, i], uppers[j, i]
            points[j, i], points[top, i] = points[top, i], points[j, i]


@compiled
def is_known(known: Array, point: Array) -> bool:
    """Whether a posterior (M,) is among some ``known`` ones (n, M)."""
    for j in range(known.shape[0]):
        apart = 0.0
        for i in range(point.size):
            apart += abs(known[j, i] - point[i])
        if apart < SAME:
            return True
    return False


@compiled
def doubled(table: Array) -> Array:
    """A table (n, m) with room for as many rows again, which are 0."""
    larger = np.zeros((2 * table.shape[0], table.shape[1]))
    for i in range(table.shape[0]):
        copy(larger[i], table[i])
    return larger


@compiled
def doubled_index(values: NDArray[np.int32], rest: int) -> NDArray[np.int32]:
    """A vector with room for as many entries again, which are ``rest``."""
    larger = np.full(2 * values.size, rest, np.int32)
    for i in range(values.size):
        larger[i] = values[i]
    return larger


@compiled
def branch_and_bound(
    columns: Array,
    prices: Array,
    slope: float,
    rivals: NDArray[np.uint8],
    cutoff: float,
    node_limit: int,
    patience: int,
    tightness: float,
) -> Tree:
    """Search one component's simplex for ``F(w) < cutoff``.

    Args:
        columns: Pᵀ, (M, K), C-contiguous.
        prices: a, (M,).
        slope: μ >= 0.
        rivals: Pairs of symbols that need not be used together, (M, M).
        cutoff: The value to prove or to undercut.
        node_limit: Most nodes to open.
        patience: Nodes, besides as many as it took, to go on collecting after the first posterior below the cutoff.
        tightness: How well each relaxation is solved, see :func:`relax`.

    Returns:
        ``(outcome, n, q (n, K), nu (n,), variable (n,), split (n, 2), first (n,), found (m, M), best value)``;
        ``variable`` is LEAF, SHRINK or the symbol split on, ``first`` the first child's number.
    """
    n_x, n_s = columns.shape
    depth = FRONTIER + 400
    q = np.zeros((min(node_limit, 1024) + 2, n_s))
    nu = np.zeros(q.shape[0])
    variable = np.full(q.shape[0], LEAF, np.int32)
    split = np.zeros((q.shape[0], 2))
    first = np.zeros(q.shape[0], np.int32)
    stack = np.zeros(depth, np.int64)
    promise = np.zeros(depth)
    lowers = np.zeros((depth, n_x))
    uppers = np.zeros((depth, n_x))
    points = np.zeros((depth, n_x))
    found = np.zeros((64, n_x))
    n_found = 0
    best = np.inf
    capacity = n_s + 4
    atoms = np.zeros((capacity, n_x))
    images = np.zeros((capacity, n_s))
    weights = np.zeros(capacity)
    values = np.zeros(capacity)
    alpha = np.zeros(n_x)
    beta = np.zeros(n_x)
    linear = np.zeros(n_x)
    cost = np.zeros(n_x)
    candidate = np.zeros(n_x)
    image = np.zeros(n_s)
    lower = np.zeros(n_x)
    upper = np.zeros(n_x)
    point = np.zeros(n_x)
    for k in range(n_s):
        q[0, k] = -np.log(n_s)
    for i in range(n_x):
        uppers[0, i] = 1.0
        points[0, i] = 1.0 / n_x
    height = 1
    n = 1
    opened = 0
    waiting = patience
    outcome = PROVED
    while height > 0:
        if opened >= node_limit:
            outcome = LIMIT
            break
        if n_found > 0:
            waiting -= 1
            if waiting < 0:
                break
        height -= 1
        opened += 1
        if height < FRONTIER:
            bring_up(least_index(promise[: height + 1]), height, stack, promise, lowers, uppers, points)
        node = stack[height]
        copy(lower, lowers[height])
        copy(upper, uppers[height])
        copy(point, points[height])
        fill_chords(lower, upper, alpha, beta)
        const = 0.0
        for i in range(n_x):
            const += slope * alpha[i]
            linear[i] = slope * beta[i] - prices[i]
        _, price, _ = relax(
            columns,
            linear,
            const,
            lower,
            upper,
            cutoff,
            tightness,
            point,
            q[node],
            cost,
            atoms,
            images,
            weights,
            values,
        )
        nu[node] = price
        # The bound as the checker computes it: the knapsack's value in another order of summation.
        bound = price
        for i in range(n_x):
            cost[i] -= slope * beta[i] + price
            bound += min(
                cost[i] * lower[i] - slope * plogp(lower[i]), cost[i] * upper[i] - slope * plogp(upper[i])
            )
        if bound >= cutoff:
            continue
        copy(candidate, point)
        score = descend(columns, prices, slope, candidate, image, 12)
        best = min(best, score)
        if score < cutoff:
            if not is_known(found[:n_found], candidate):
                if n_found == found.shape[0]:
                    break
                if n_found == 0:
                    waiting += opened
                copy(found[n_found], candidate)
                n_found += 1
            # This box will never be settled: leave it and look elsewhere. Large ones, early on, hold more than that.
            if opened > patience:
                continue
        before = 0.0
        for i in range(n_x):
            before += upper[i] - lower[i]
        shrink(cost, slope, cutoff - bound, lower, upper)
        exclude(rivals, lower, upper, candidate)
        if not propagate(lower, upper):
            continue
        after = 0.0
        for i in range(n_x):
            after += upper[i] - lower[i]
        if n + 2 > q.shape[0]:
            q = doubled(q)
            nu = doubled(nu.reshape(-1, 1)).reshape(-1)
            split = doubled(split)
            variable = doubled_index(variable, LEAF)
            first = doubled_index(first, 0)
        if height + 2 > depth:
            outcome = LIMIT
            break
        first[node] = n
        if after < 0.7 * before:
            variable[node] = SHRINK
            copy(q[n], q[node])
            stack[height] = n
            promise[height] = bound
            copy(lowers[height], lower)
            copy(uppers[height], upper)
            copy(points[height], point)
            height += 1
            n += 1
            continue
        chosen = loosest_symbol(point, lower, upper, alpha, beta)
        low = lower[chosen]
        high = upper[chosen]
        middle = min(max(point[chosen], low + 0.2 * (high - low)), high - 0.2 * (high - low))
        left, right = split_hole(cost[chosen], slope, cutoff - bound, low, high, middle)
        variable[node] = chosen
        split[node, 0] = left
        split[node, 1] = right
        for side in range(2):
            copy(q[n], q[node])
            stack[height] = n
            promise[height] = bound
            copy(lowers[height], lower)
            copy(uppers[height], upper)
            copy(points[height], point)
            if side == 0:
                uppers[height, chosen] = left
            else:
                lowers[height, chosen] = right
            height += 1
            n += 1
    if n_found > 0:
        outcome = FOUND
    return outcome, opened, q[:n], nu[:n], variable[:n], split[:n], first[:n], found[:n_found], best
