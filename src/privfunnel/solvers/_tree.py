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

from ._jit import compiled
from ._relax import copy, fill_chords, plogp, relax

LEAF = -1
SHRINK = -2
PROVED, FOUND, LIMIT = 0, 1, 2
SLACK = 1e-12
#: While fewer boxes are open, the one of the lowest bound comes first, which finds posteriors sooner; beyond, the
#: newest does, so that memory stays bounded.
FRONTIER = 1000
#: Posteriors of one search this close in total variation are the same.
SAME = 1e-3

Tree = tuple[int, int, Array, Array, NDArray[np.int32], Array, NDArray[np.int32], Array, float]


@compiled
def shrink(rates: Array, slope: float, excess: float, lower: Array, upper: Array) -> None:
    """Cut off, in place, the ends of ``[lower_i, upper_i]`` where ``e_i`` alone lifts the bound by ``excess``.

    ``rates`` (M,) are ``p_i·q - a_i - ν``. Two secant steps on the concave ``e_i``: each lands on the safe side.
    """
    for i in range(rates.size):
        low = lower[i]
        high = upper[i]
        if high <= low:
            continue
        at_low = rates[i] * low - slope * plogp(low)
        at_high = rates[i] * high - slope * plogp(high)
        if at_high - at_low > excess:
            width = (high - low) * (excess / (at_high - at_low))
            x = low + width
            rise = rates[i] * x - slope * plogp(x) - at_low
            if rise > excess:
                width *= excess / rise
            upper[i] = low + width
        elif at_low - at_high > excess:
            width = (high - low) * (excess / (at_low - at_high))
            x = high - width
            rise = rates[i] * x - slope * plogp(x) - at_high
            if rise > excess:
                width *= excess / rise
            lower[i] = high - width


@compiled
def exclude(rivals: NDArray[np.uint8], lower: Array, upper: Array, before: Array) -> None:
    """Use in place that rivals are not used together: see :func:`privfunnel.certificate.rivals`.

    A symbol with a rival that is surely used is not; nor is one that cannot carry the whole posterior with its allies.
    ``before`` (M,) is scratch.
    """
    for i in range(lower.size):
        if lower[i] > 0.0:
            for j in range(lower.size):
                if rivals[i, j]:
                    upper[j] = 0.0
    copy(before, upper)
    for i in range(lower.size):
        if upper[i] > 0.0:
            reach = 0.0
            for j in range(lower.size):
                if not rivals[i, j]:
                    reach += before[j]
            if reach < 1.0 - SLACK:
                upper[i] = 0.0


@compiled
def propagate(lower: Array, upper: Array) -> bool:
    """Use ``Σ w = 1`` on the box, in place; False when the box misses the simplex."""
    total_low = 0.0
    total_high = 0.0
    for i in range(lower.size):
        if lower[i] > upper[i]:
            return False
        total_low += lower[i]
        total_high += upper[i]
    if total_low > 1.0 + SLACK or total_high < 1.0 - SLACK:
        return False
    for i in range(lower.size):
        high = lower[i] + (1.0 - total_low) + SLACK
        low = upper[i] - (total_high - 1.0) - SLACK
        if high < upper[i]:
            upper[i] = high
        if low > lower[i]:
            lower[i] = low
    return True


@compiled
def pricing_value(columns: Array, prices: Array, slope: float, point: Array, image: Array) -> float:
    """``F(w)`` of a posterior (M,), in nats; ``image`` (K,) is scratch and leaves as ``Pw``."""
    value = 0.0
    for k in range(image.size):
        image[k] = 0.0
    for i in range(point.size):
        if point[i] > 0.0:
            value -= prices[i] * point[i] + slope * plogp(point[i])
            for k in range(image.size):
                image[k] += columns[i, k] * point[i]
    for k in range(image.size):
        value += plogp(image[k])
    return value


@compiled
def descend(columns: Array, prices: Array, slope: float, point: Array, image: Array, steps: int) -> float:
    """Local descent of F on the support of ``point``, in place; return F there.

    One step is ``w_i <- w_i^(1+μ) exp(a_i - p_i·log t)``, normalised: AEM's own update with fixed prices.
    """
    value = pricing_value(columns, prices, slope, point, image)
    for _ in range(steps):
        top = -np.inf
        for k in range(image.size):
            image[k] = np.log(max(image[k], 1e-300))
        for i in range(point.size):
            if point[i] > 1e-14:
                exponent = (1.0 + slope) * np.log(point[i]) + prices[i]
                for k in range(image.size):
                    exponent -= columns[i, k] * image[k]
                point[i] = exponent
                top = max(top, exponent)
            else:
                point[i] = np.inf
        total = 0.0
        for i in range(point.size):
            point[i] = np.exp(point[i] - top) if point[i] < np.inf else 0.0
            total += point[i]
        for i in range(point.size):
            point[i] /= total
        new = pricing_value(columns, prices, slope, point, image)
        if new > value - 1e-3 * abs(value) - 1e-9:
            value = min(new, value)
            break
        value = new
    return value


@compiled
def split_hole(
    rate: float, slope: float, excess: float, low: float, high: float, middle: float
) -> tuple[float, float]:
    """Ends ``(s1, s2)`` of the part around ``middle`` where ``e_i`` alone lifts the bound by ``excess``.

    Both equal ``middle`` when there is no such part. Secants from inside keep to the safe side.
    """
    at_low = rate * low - slope * plogp(low)
    at_high = rate * high - slope * plogp(high)
    goal = min(at_low, at_high) + excess
    at_middle = rate * middle - slope * plogp(middle)
    if at_middle <= goal:
        return middle, middle
    left = middle
    right = middle
    at_left = at_middle
    at_right = at_middle
    for _ in range(3):
        if at_low < goal:
            left = low + (left - low) * ((goal - at_low) / (at_left - at_low))
            at_left = rate * left - slope * plogp(left)
        if at_high < goal:
            right = high - (high - right) * ((goal - at_high) / (at_right - at_high))
            at_right = rate * right - slope * plogp(right)
    if at_left < goal or at_right < goal:
        return middle, middle
    return left, right


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
