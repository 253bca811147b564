"""The convex relaxation of one pricing box, and its bound.

Over a box ``l <= w <= u`` of posteriors the pricing function is ``F(w) = -H(Pw) + μ H(w) - a·w`` (nats). With each
``-w log w`` replaced by its chord on ``[l_i, u_i]`` it becomes the convex ``φ(w) = Σ_k t_k log t_k + g·w + const``,
``t = Pw``. Because ``Σ t log t >= q·t`` for every ``q`` with ``Σ exp q <= 1``, each such ``q`` bounds F from below by a
continuous knapsack; the best ``q`` is ``log t`` at the minimiser of φ. It is found by simplicial decomposition (fully
corrective Frank-Wolfe): the knapsack supplies atoms and bounds, a small Newton method mixes the atoms.
"""

from __future__ import annotations

import numpy as np

from privfunnel.measures import Array
from privfunnel.solvers.jit import compiled
from privfunnel.solvers.posteriors.boxes import TINY, copy, plogp


@compiled
def knapsack(cost: Array, lower: Array, upper: Array, point: Array) -> tuple[float, float]:
    """Minimise ``cost·w`` over the box cut with the simplex; write the vertex into ``point``; return (value, price).

    The price ν is the cost of the last symbol filled, i.e. the multiplier of ``Σ w = 1``.
    """
    rest = 1.0
    value = 0.0
    for i in range(cost.size):
        point[i] = lower[i]
        rest -= lower[i]
        value += cost[i] * lower[i]
    price = np.inf
    while True:
        best = -1
        cheapest = np.inf
        for i in range(cost.size):
            if cost[i] < cheapest and point[i] < upper[i]:
                cheapest = cost[i]
                best = i
        if best < 0:
            break
        price = cheapest
        room = upper[best] - point[best]
        if room >= rest:
            if rest > 0.0:
                point[best] += rest
                value += cheapest * rest
            break
        point[best] = upper[best]
        value += cheapest * room
        rest -= room
    if price == np.inf:
        price = -np.inf
        for i in range(cost.size):
            price = max(price, cost[i])
    return value, price


@compiled
def repair(point: Array, lower: Array, upper: Array) -> None:
    """Move ``point`` into the box and onto the simplex, keeping it near; all arrays (M,)."""
    total = 0.0
    for i in range(point.size):
        point[i] = min(max(point[i], lower[i]), upper[i])
        total += point[i]
    slack = 0.0
    for i in range(point.size):
        slack += (upper[i] - point[i]) if total < 1.0 else (point[i] - lower[i])
    if slack > 0.0:
        share = min(1.0, abs(1.0 - total) / slack)
        for i in range(point.size):
            if total < 1.0:
                point[i] += share * (upper[i] - point[i])
            else:
                point[i] -= share * (point[i] - lower[i])


@compiled
def solve_spd(matrix: Array, rhs: Array, n: int, n_rhs: int) -> bool:
    """Solve ``matrix[:n,:n] x = rhs[:n,:n_rhs]`` in place by Cholesky; False when not positive definite."""
    for j in range(n):
        diagonal = matrix[j, j]
        for k in range(j):
            diagonal -= matrix[j, k] * matrix[j, k]
        if not diagonal > 0.0:
            return False
        diagonal = np.sqrt(diagonal)
        matrix[j, j] = diagonal
        for i in range(j + 1, n):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = entry / diagonal
    for c in range(n_rhs):
        for i in range(n):
            entry = rhs[i, c]
            for k in range(i):
                entry -= matrix[i, k] * rhs[k, c]
            rhs[i, c] = entry / matrix[i, i]
        for i in range(n - 1, -1, -1):
            entry = rhs[i, c]
            for k in range(i + 1, n):
                entry -= matrix[k, i] * rhs[k, c]
            rhs[i, c] = entry / matrix[i, i]
    return True


@compiled
def line_search(image: Array, change: Array, linear: float, longest: float) -> float:
    """Length in (0, longest] along which ``Σ t log t + linear`` decreases; t moves from ``image`` by ``change``."""
    low = 0.0
    high = longest
    for trial in range(30):
        step = high if trial == 0 else 0.5 * (low + high)
        slope = linear
        for k in range(image.size):
            if change[k] != 0.0:
                slope += change[k] * (1.0 + np.log(max(image[k] + step * change[k], TINY)))
        if slope <= 0.0:
            if trial == 0:
                return step
            low = step
            if high - low < 0.05 * high:
                break
        else:
            high = step
            if trial > 6 and low > 0.0:
                break
    return low if low > 0.0 else 0.5 * high


@compiled
def mix_atoms(
    images: Array,
    linear: Array,
    weights: Array,
    n: int,
    tolerance: float,
    image: Array,
    matrix: Array,
    rhs: Array,
) -> float:
    """Minimise ``Σ t log t + linear·weights``, ``t = weights·images``, over the simplex of ``n`` atoms, in place.

    ``images`` (n, K), ``linear`` and ``weights`` (n,). Returns the value. Newton steps on the support, Frank-Wolfe
    steps to let an atom enter. The result is only used to propose a ``q``, so an approximate minimiser does no harm.
    """
    n_s = image.size
    change = np.empty(n_s)
    log_image = np.empty(n_s)
    gradient = np.empty(n)
    support = np.empty(n, np.int64)
    for _ in range(40):
        for k in range(n_s):
            image[k] = 0.0
            for j in range(n):
                image[k] += weights[j] * images[j, k]
            log_image[k] = np.log(max(image[k], TINY))
        mean = 0.0
        best = 0
        for j in range(n):
            gradient[j] = linear[j]
            for k in range(n_s):
                gradient[j] += images[j, k] * log_image[k]
            mean += weights[j] * gradient[j]
            if gradient[j] < gradient[best]:
                best = j
        if mean - gradient[best] <= tolerance:
            break
        if weights[best] <= 0.0:
            for k in range(n_s):
                change[k] = images[best, k] - image[k]
            slope = linear[best]
            for j in range(n):
                slope -= weights[j] * linear[j]
            step = line_search(image, change, slope, 1.0)
            for j in range(n):
                weights[j] *= 1.0 - step
            weights[best] += step
            continue
        size = 0
        for j in range(n):
            if weights[j] > 0.0:
                support[size] = j
                size += 1
        trace = 0.0
        for x in range(size):
            for y in range(x + 1):
                entry = 0.0
                for k in range(n_s):
                    entry += images[support[x], k] * images[support[y], k] / max(image[k], 1e-14)
                matrix[x, y] = entry
                matrix[y, x] = entry
            trace += matrix[x, x]
        for x in range(size):
            matrix[x, x] += 1e-10 * trace
            rhs[x, 0] = gradient[support[x]]
            rhs[x, 1] = 1.0
        if not solve_spd(matrix, rhs, size, 2):
            break
        top = 0.0
        bottom = 0.0
        for x in range(size):
            top += rhs[x, 0]
            bottom += rhs[x, 1]
        shift = top / bottom
        longest = 1.0
        leaving = -1
        slope = 0.0
        for k in range(n_s):
            change[k] = 0.0
        for x in range(size):
            j = support[x]
            move = shift * rhs[x, 1] - rhs[x, 0]
            rhs[x, 0] = move
            slope += move * linear[j]
            for k in range(n_s):
                change[k] += move * images[j, k]
            if weights[j] + longest * move < 0.0:
                longest = weights[j] / -move
                leaving = j
        step = line_search(image, change, slope, longest)
        for x in range(size):
            j = support[x]
            weights[j] = max(weights[j] + step * rhs[x, 0], 0.0)
        if leaving >= 0 and step == longest:
            weights[leaving] = 0.0
    value = 0.0
    for j in range(n):
        value += weights[j] * linear[j]
    for k in range(n_s):
        value += plogp(image[k])
    return value


@compiled
def relax(
    columns: Array,
    linear: Array,
    const: float,
    lower: Array,
    upper: Array,
    cutoff: float,
    tightness: float,
    point: Array,
    q: Array,
    cost: Array,
    atoms: Array,
    images: Array,
    weights: Array,
    values: Array,
) -> tuple[float, float, float]:
    """Bound φ over one box; improve ``q`` and ``point`` in place; return (bound, price ν, value of φ at ``point``).

    ``columns`` (M, K) is Pᵀ, ``linear`` (M,) and ``const`` describe φ. ``q`` (K,) and ``point`` (M,) come in as a warm
    start and leave as the best multipliers and the relaxation's minimiser; ``cost`` (M,) leaves as ``Pᵀq + linear``
    for the best ``q``. Stops as soon as the box is settled: the bound reaches ``cutoff``, or φ is below it and the
    bound is close enough to φ to steer branching (``tightness`` is that fraction of the missing height).
    """
    n_x, n_s = columns.shape
    capacity = weights.size
    trial_q = np.empty(n_s)
    copy(trial_q, q)
    trial_cost = np.empty(n_x)
    image = np.empty(n_s)
    matrix = np.empty((capacity, capacity))
    rhs = np.empty((capacity, 2))
    best_bound = -np.inf
    best_price = 0.0
    value = np.inf
    repair(point, lower, upper)
    copy(atoms[0], point)
    n = 1
    weights[0] = 1.0
    for k in range(n_s):
        images[0, k] = 0.0
    values[0] = 0.0
    for i in range(n_x):
        if point[i] > 0.0:
            values[0] += linear[i] * point[i]
            for k in range(n_s):
                images[0, k] += point[i] * columns[i, k]
    for _ in range(60):
        for i in range(n_x):
            total = linear[i]
            for k in range(n_s):
                total += columns[i, k] * trial_q[k]
            trial_cost[i] = total
        bound, price = knapsack(trial_cost, lower, upper, point)
        bound += const
        if bound > best_bound:
            best_bound = bound
            best_price = price
            copy(q, trial_q)
            copy(cost, trial_cost)
        if best_bound >= cutoff:
            break
        height = cutoff - best_bound
        if value - best_bound <= tightness * height or value - best_bound < 1e-14:
            break
        if n == capacity:
            lightest = 0
            for j in range(1, n):
                if weights[j] < weights[lightest]:
                    lightest = j
            scale = 1.0 - weights[lightest]
            if scale <= 0.0:
                break
            for j in range(n):
                weights[j] /= scale
            n -= 1
            copy(atoms[lightest], atoms[n])
            copy(images[lightest], images[n])
            values[lightest] = values[n]
            weights[lightest] = weights[n]
        copy(atoms[n], point)
        weights[n] = 0.0
        values[n] = 0.0
        for k in range(n_s):
            images[n, k] = 0.0
        for i in range(n_x):
            if point[i] > 0.0:
                values[n] += linear[i] * point[i]
                for k in range(n_s):
                    images[n, k] += point[i] * columns[i, k]
        n += 1
        value = const + mix_atoms(images, values, weights, n, 1e-3 * height, image, matrix, rhs)
        kept = 0
        for j in range(n):
            if weights[j] > 0.0:
                if kept < j:
                    copy(atoms[kept], atoms[j])
                    copy(images[kept], images[j])
                    values[kept] = values[j]
                    weights[kept] = weights[j]
                kept += 1
        n = kept
        norm = 0.0
        for k in range(n_s):
            norm += max(image[k], 1e-16)
        for k in range(n_s):
            trial_q[k] = np.log(max(image[k], 1e-16) / norm)
    for i in range(n_x):
        total = 0.0
        for j in range(n):
            total += weights[j] * atoms[j, i]
        point[i] = total
    return best_bound, best_price, value
