"""The convex relaxation of one box, compiled: a primal-dual interior point that ends as soon as it knows enough.

With chords in place of −w log w, ``φ(w) + g·w`` is to be minimised over ``l ≤ w ≤ u``, Σ w = 1. Each point on the way
gives multipliers q, whose continuous knapsack bounds F over the box. A point inside has no empty block, where φ has a
kink and the best q is no logarithm of anything: the central path leads to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.columns.general.images import (
    Images,
    fill_costs,
    fill_curvature,
    fill_image,
    fill_multipliers,
)
from privfunnel.algorithms.columns.plain.box_relaxation import knapsack, repair
from privfunnel.algorithms.posteriors.boxes import Box, copy, fill_chords
from privfunnel.algorithms.posteriors.cholesky import factor, solve_factored
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: Where bound and value differ by less, in nats, rounding is all that is left.
CLOSED = 1e-13
#: Intervals narrower than this are points.
NARROW = 1e-12
#: Distances from an end are raised to this, so that rounding onto it divides nothing by 0.
LEAST_DISTANCE = 1e-30
#: A step ends at this share of the way to the boundary, and the next products are to be this share of the present ones.
BOUNDARY, CENTRING = 0.95, 0.15
#: The first products, at least and at most, in nats.
LEAST_PRODUCT, LARGEST_PRODUCT = 1e-9, 1e-2


class Pricing(NamedTuple):
    """F of one stratum, φ + μ H(w) − a·w: its images, ``prices`` a (M,) and ``slope`` μ ≥ 0; nats."""

    images: Images
    prices: Array
    slope: float


class Work(NamedTuple):
    """Arrays that each box overwrites.

    Chords ``alpha + beta·w`` (M,) of −w log w; ``linear`` g (M,) and the ``cost`` (M,) of the best q; the q (J,) on
    trial with its cost (M,) and a vertex (M,); t (J,) and T (B,); the multipliers of l ≤ w and w ≤ u, (2, M); Newton's
    ``matrix`` (M, M) and its two right sides (2, M). The multipliers ``q`` (J,) of a node are those that touch φ at
    ``touching`` (M,).
    """

    alpha: Array
    beta: Array
    linear: Array
    cost: Array
    trial_q: Array
    trial_cost: Array
    vertex: Array
    image: Array
    sums: Array
    bound_duals: Array
    matrix: Array
    rhs: Array
    q: Array
    touching: Array


@compiled
def new_work(n_x: int, size: int, blocks: int) -> Work:
    """Room for boxes of M symbols, J columns and B blocks."""
    return Work(
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(size),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(size),
        np.zeros(blocks),
        np.zeros((2, n_x)),
        np.zeros((n_x, n_x)),
        np.zeros((2, n_x)),
        np.zeros(size),
        np.zeros(n_x),
    )


@compiled
def fill_linear(pricing: Pricing, box: Box, work: Work) -> float:
    """Write the chords and g; return the constant."""
    fill_chords(box, work.alpha, work.beta)
    const = 0.0
    for i in range(work.linear.size):
        const += pricing.slope * work.alpha[i]
        work.linear[i] = pricing.slope * work.beta[i] - pricing.prices[i]
    return const


@compiled
def move_inside(box: Box, point: Array, mixed: float) -> bool:
    """Move a point (M,) into the interior of the box, on the simplex; False where there is hardly any."""
    lower, upper = box
    low = 0.0
    high = 0.0
    for i in range(point.size):
        low += lower[i]
        high += upper[i]
    if high - low < NARROW:
        repair(point, box)
        return False
    share = (1.0 - low) / (high - low)
    repair(point, box)
    if share < NARROW or share > 1.0 - NARROW:
        return False
    for i in range(point.size):
        middle = lower[i] + share * (upper[i] - lower[i])
        point[i] = (1.0 - mixed) * point[i] + mixed * middle
    return True


@compiled
def start_duals(box: Box, point: Array, product: float, work: Work) -> None:
    """The multipliers of l ≤ w ≤ u whose products with the distances are ``product``."""
    for i in range(point.size):
        if box.upper[i] - box.lower[i] > NARROW:
            work.bound_duals[0, i] = product / max(point[i] - box.lower[i], LEAST_DISTANCE)
            work.bound_duals[1, i] = product / max(box.upper[i] - point[i], LEAST_DISTANCE)


@compiled
def fill_system(pricing: Pricing, box: Box, point: Array, product: float, work: Work) -> None:
    """Write Newton's matrix and right sides (−gradient of the barrier problem, 1); points of intervals do not move."""
    images, matrix, rhs, duals = pricing.images, work.matrix, work.rhs, work.bound_duals
    fill_curvature(images, work.image, work.sums, matrix)
    largest = 0.0
    for i in range(point.size):
        below = max(point[i] - box.lower[i], LEAST_DISTANCE)
        above = max(box.upper[i] - point[i], LEAST_DISTANCE)
        if box.upper[i] - box.lower[i] > NARROW:
            # work.trial_cost is the gradient of φ + g·w at the point
            rhs[0, i] = product / below - product / above - work.trial_cost[i]
            rhs[1, i] = 1.0
            matrix[i, i] += duals[0, i] / below + duals[1, i] / above
        else:
            for j in range(point.size):
                matrix[max(i, j), min(i, j)] = 0.0
            matrix[i, i] = 1.0
            rhs[0, i] = 0.0
            rhs[1, i] = 0.0
        largest = max(largest, matrix[i, i])
    for i in range(point.size):
        # This share of the largest diagonal entry is added to each: symbols with equal columns are dependent.
        matrix[i, i] += 1e-13 * largest


@compiled
def newton_step(pricing: Pricing, box: Box, point: Array, product: float, work: Work) -> bool:
    """One primal-dual step towards products of ``product``, in place; False where the system cannot be solved."""
    fill_system(pricing, box, point, product, work)
    return factor(work.matrix, point.size) and take_step(box, point, product, work)


@compiled
def take_step(box: Box, point: Array, product: float, work: Work) -> bool:
    """The step itself, in place: ``work.matrix`` is Newton's, factored, ``work.rhs`` its two right sides."""
    n_x = point.size
    solve_factored(work.matrix, work.rhs[0], n_x, 0)
    solve_factored(work.matrix, work.rhs[1], n_x, 0)
    moved = 0.0
    free = 0.0
    for i in range(point.size):
        moved += work.rhs[0, i]
        free += work.rhs[1, i]
    if not free > 0.0:
        return False
    # The multiplier of Σ w = 1 makes the moves add up to 0; the furthest step that stays inside, for w and multipliers.
    duals, moves, dual_moves = work.bound_duals, work.rhs[0], work.rhs[1]
    longest = 1.0
    dual_longest = 1.0
    for i in range(point.size):
        if box.upper[i] - box.lower[i] <= NARROW:
            moves[i] = 0.0
            continue
        below = max(point[i] - box.lower[i], LEAST_DISTANCE)
        above = max(box.upper[i] - point[i], LEAST_DISTANCE)
        move = moves[i] - moved / free * dual_moves[i]
        moves[i] = move
        if move < 0.0:
            longest = min(longest, -BOUNDARY * below / move)
        else:
            longest = min(longest, BOUNDARY * above / max(move, NARROW * above))
        low = (product - duals[0, i] * move) / below - duals[0, i]
        high = (product + duals[1, i] * move) / above - duals[1, i]
        if low < 0.0:
            dual_longest = min(dual_longest, -BOUNDARY * duals[0, i] / low)
        if high < 0.0:
            dual_longest = min(dual_longest, -BOUNDARY * duals[1, i] / high)
    for i in range(point.size):
        if box.upper[i] - box.lower[i] > NARROW:
            below = max(point[i] - box.lower[i], LEAST_DISTANCE)
            above = max(box.upper[i] - point[i], LEAST_DISTANCE)
            duals[0, i] += dual_longest * ((product - duals[0, i] * moves[i]) / below - duals[0, i])
            duals[1, i] += dual_longest * ((product + duals[1, i] * moves[i]) / above - duals[1, i])
            point[i] += longest * moves[i]
    return True


@compiled
def mean_product(box: Box, point: Array, work: Work) -> float:
    """The mean of multiplier times distance, in nats."""
    total = 0.0
    count = 0
    for i in range(point.size):
        if box.upper[i] - box.lower[i] > NARROW:
            total += work.bound_duals[0, i] * (point[i] - box.lower[i])
            total += work.bound_duals[1, i] * (box.upper[i] - point[i])
            count += 2
    return total / max(count, 1)


@compiled
def try_multipliers(pricing: Pricing, box: Box, work: Work) -> tuple[float, float]:
    """The bound, without the chords' constant, and the price ν of ``work.trial_q``; fills ``work.trial_cost``."""
    fill_costs(pricing.images, work.linear, work.trial_q, work.trial_cost)
    return knapsack(work.trial_cost, box, work.vertex)


@compiled
def relax(
    pricing: Pricing, box: Box, point: Array, q: Array, cutoff: float, tightness: float, work: Work
) -> float:
    """Find multipliers that bound F over one box; improve ``q`` and ``point`` in place; return the price ν.

    ``q`` (J,) and ``point`` (M,) come in as the parent's and leave as the best multipliers and a point near the
    relaxation's minimiser; ``work.cost`` (M,) leaves as ``columns·q + g``, ``work.touching`` (M,) as where a new q
    touches φ. Stops as soon as the bound reaches
    ``cutoff``, or the relaxation is below it and the bound close enough to steer branching: within ``tightness`` of the
    missing height.
    """
    const = fill_linear(pricing, box, work)
    copy(work.trial_q, q)
    best, best_price = try_multipliers(pricing, box, work)
    copy(work.cost, work.trial_cost)
    best += const
    if best >= cutoff:
        return best_price
    # How much of the point in the middle of the box is mixed into the parent's to begin with.
    inside = move_inside(box, point, 0.2)
    # Newton steps of one box at most.
    for step in range(40):
        value = const + fill_image(pricing.images, point, work.image, work.sums)
        for i in range(point.size):
            value += work.linear[i] * point[i]
        fill_multipliers(pricing.images, work.image, work.sums, work.trial_q)
        bound, price = try_multipliers(pricing, box, work)
        bound += const
        if bound > best:
            best = bound
            best_price = price
            copy(q, work.trial_q)
            copy(work.touching, point)
            copy(work.cost, work.trial_cost)
        left = value - best
        if best >= cutoff or left <= tightness * (cutoff - best) or left < CLOSED or not inside:
            break
        if step == 0:
            first = left / (4.0 * point.size)
            start_duals(box, point, min(max(first, LEAST_PRODUCT), LARGEST_PRODUCT), work)
        if not newton_step(pricing, box, point, CENTRING * mean_product(box, point, work), work):
            break
    return best_price
