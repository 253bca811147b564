"""The bound of a box with curvature, compiled: what −w log w curves downwards the attackers' part of F makes up for.

:mod:`privfunnel.certificate.curvature` says why it holds, and checks it. The multipliers are those of the centre c, so
that Ac = 0: what a box proves with them its parts prove, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.columns.general.box_relaxation import LEAST_DISTANCE, Pricing
from privfunnel.algorithms.posteriors.boxes import Box, copy, plogp
from privfunnel.certificate.curvature import KAPPA, LEAST_SCALE, NOISE, SLACK
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: Problems with more public symbols do without: A takes M² entries of every column.
CURVED_UP_TO = 32
#: Steps of the search for ν, for the least value of a convex part, and for where a cut may be.
PRICE_STEPS, NEWTON_STEPS, CUT_STEPS = 30, 10, 12
#: The first move away from the price that is expected, in nats, and how the moves grow until the best is between two.
FIRST_MOVE, MOVE_GROWS = 1e-5, 4.0
#: A price ν whose bound is this close to the best, in nats, is good enough; cuts are made where they are so safe.
PRICE_CLOSE, CLEAR = 1e-9, 1e-11
#: Times what the checker takes one e_i to be off by, so that what is proved here is proved there.
MARGIN = 8.0


class Curves(NamedTuple):
    """What nodes with curvature store, one a row, as in :class:`privfunnel.certificate.curvature.Curved`.

    ``used`` (n,) says which rows are in use.
    """

    used: NDArray[np.bool_]
    nu: Array
    curvature: Array
    centre: Array
    lower: Array
    upper: Array


class Room(NamedTuple):
    """Arrays that each box overwrites: A and the inverse of what is left of it, (M, M); some of (M,)."""

    matrix: Array
    inverse: Array
    rates: Array
    least: Array
    slopes: Array
    answers: Array
    free: NDArray[np.int64]


@compiled
def new_curves(size: int, n_x: int) -> Curves:
    """Room for ``size`` nodes, none of them in use."""
    return Curves(
        np.zeros(size, np.bool_),
        np.zeros(size),
        np.zeros((size, n_x)),
        np.zeros((size, n_x)),
        np.zeros((size, n_x)),
        np.ones((size, n_x)),
    )


@compiled
def longer(curves: Curves, size: int) -> Curves:
    """The same with room for ``size`` nodes; where there is none for more than one, none is needed."""
    if curves.nu.size == 1:
        return curves
    made = new_curves(size, curves.centre.shape[1])
    for row in range(curves.nu.size):
        copy_row(made, row, curves, row)
        copy(made.lower[row], curves.lower[row])
        copy(made.upper[row], curves.upper[row])
    return made


@compiled
def copy_row(target: Curves, to: int, source: Curves, row: int) -> None:
    """Copy ν, D and c of a node: what they prove of its box they prove of its parts."""
    target.used[to] = source.used[row]
    target.nu[to] = source.nu[row]
    copy(target.curvature[to], source.curvature[row])
    copy(target.centre[to], source.centre[row])


@compiled
def hand_down(curves: Curves, node: int, first: int, children: int) -> None:
    """Copy what a node stores to its children, numbered from ``first`` on, where there is room for any."""
    if curves.nu.size > 1:
        for child in range(first, first + children):
            copy_row(curves, child, curves, node)


@compiled
def new_room(n_x: int) -> Room:
    """Scratch arrays for M symbols."""
    return Room(
        np.zeros((n_x, n_x)),
        np.zeros((n_x, n_x)),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x, np.int64),
    )


@compiled
def fullest(columns: Array, inside: NDArray[np.int64], k: int, box: Box, space: float) -> float:
    """What t_k gains at most when the symbols ``inside`` a block take ``space`` more in all than their least."""
    most = np.inf
    for i in inside:
        # The price of a continuous knapsack is one of its values, and each price bounds it.
        bound = space * columns[i, k]
        for j in inside:
            if columns[j, k] > columns[i, k]:
                bound += (columns[j, k] - columns[i, k]) * (box.upper[j] - box.lower[j])
        most = min(most, bound)
    return most


@compiled
def fill_least_curvature(pricing: Pricing, box: Box, q: Array, room: Room) -> None:
    """Write A (M, M), what the attackers' part of F curves upwards at least, for the multipliers ``q`` (J,)."""
    columns, starts, members, first = pricing.images
    lower, upper = box
    matrix, slopes = room.matrix, room.slopes
    matrix[:, :] = 0.0
    free = max(1.0 - lower.sum(), 0.0)
    for b in range(starts.size - 1):
        inside = members[first[b] : first[b + 1]]
        space = 0.0
        weight = 0.0
        held = 0.0
        for i in inside:
            space += upper[i] - lower[i]
            held += lower[i]
        for k in range(starts[b], starts[b + 1]):
            weight += columns[inside[0], k]
        space = min(space, free)
        for k in range(starts[b], starts[b + 1]):
            expected = weight * np.exp(q[k])
            most = fullest(columns, inside, k, box, space) + 2.0 * expected * (held + space)
            for i in inside:
                most += columns[i, k] * lower[i]
                slopes[i] = columns[i, k] - expected
            most = max(most / 3.0 * (1.0 + 2.0 * SLACK) + 2.0 * SLACK, LEAST_SCALE)
            for i in inside:
                share = slopes[i] / most
                for j in inside:
                    if j <= i:
                        matrix[i, j] += share * slopes[j]
    for i in range(lower.size):
        for j in range(i):
            matrix[j, i] = matrix[i, j]


@compiled
def term(rate: float, slope: float, bend: float, centre: float, w: float) -> float:
    """``e(w) = rate·w − slope·w log w + bend (w − centre)²/2``."""
    return float(rate * w - slope * plogp(w) + 0.5 * bend * (w - centre) ** 2)


@compiled
def least_term(
    rate: float, slope: float, bend: float, centre: float, low: float, high: float
) -> tuple[float, float]:
    """A lower bound of e on an interval, as the checker has it, and about where e is least."""
    at_low = term(rate, slope, bend, centre, low)
    at_high = term(rate, slope, bend, centre, high)
    if not bend * high > slope:
        return (at_low, low) if at_low <= at_high else (at_high, high)
    begin = max(low, slope / bend)
    w = high
    rise = rate - slope * (np.log(w) + 1.0) + bend * (w - centre)
    for _ in range(NEWTON_STEPS):
        curve = bend - slope / w
        if not curve > 0.0 or (w == high and rise <= 0.0):
            break
        moved = min(max(w - rise / curve, begin), high)
        if moved == w:
            break
        w = moved
        rise = rate - slope * (np.log(w) + 1.0) + bend * (w - centre)
    bound = term(rate, slope, bend, centre, w) + min(rise * (begin - w), rise * (high - w))
    return (at_low, low) if begin > low and at_low < bound else (bound, w)


@compiled
def noise(rate: float, slope: float, bend: float, high: float) -> float:
    """What an evaluation of e on an interval that ends at ``high`` may be off by, as the checker has it."""
    return float(NOISE * (abs(rate) * high + 0.4 * slope + abs(bend)))


@compiled
def rounding(slope: float, upper: Array, curvature: Array, room: Room) -> float:
    """What the checker lowers the bound by, or more: its noise, and what a large A may be off by."""
    lost = 0.0
    largest = KAPPA
    for i in range(upper.size):
        lost += MARGIN * noise(room.rates[i], slope, curvature[i], upper[i])
        largest = max(largest, KAPPA + room.matrix[i, i])
    return lost + MARGIN * NOISE * upper.size * largest


@compiled
def expected_price(slope: float, box: Box, centre: Array, curvature: Array, rates: Array) -> float:
    """About the best ν, for the ``rates`` (M,) of the e_i without it: their slope at a good centre.

    It is that of the chord where e_i is concave there; entries count by their distance from the ends.
    """
    lower, upper = box
    total = 0.0
    weight = LEAST_DISTANCE
    for i in range(centre.size):
        away = min(centre[i] - lower[i], upper[i] - centre[i])
        if away > 0.0:
            rise = rates[i] - slope * (np.log(centre[i]) + 1.0)
            if curvature[i] * centre[i] < slope:
                at_low = term(rates[i], slope, curvature[i], centre[i], lower[i])
                at_high = term(rates[i], slope, curvature[i], centre[i], upper[i])
                rise = (at_high - at_low) / (upper[i] - lower[i])
            total += away * rise
            weight += away
    return float(total / weight)


@compiled
def best_price(slope: float, box: Box, centre: Array, curvature: Array, room: Room) -> tuple[float, float]:
    """The largest bound over ν, and that ν; ``room.rates`` (M,) are those without ν; fills ``room.least``."""
    lower, upper = box
    n_x = centre.size
    low = np.inf
    high = -np.inf
    for i in range(n_x):
        steepest = slope * (1.0 + np.log(max(upper[i], 1e-12))) if upper[i] > 0.0 else 0.0
        spread = abs(curvature[i]) * (upper[i] - lower[i])
        low = min(low, room.rates[i] - abs(steepest) - slope - spread)
        high = max(high, room.rates[i] + 30.0 * slope + spread)
    best = -np.inf
    best_nu = 0.0
    left = (0.0, 0.0)  # what the bound and its slope, 1 − mass, are at either end
    right = (0.0, 0.0)
    nu = min(max(expected_price(slope, box, centre, curvature, room.rates), low), high)
    below = False
    above = False
    move = FIRST_MOVE
    for _ in range(PRICE_STEPS):
        bound = nu
        mass = 0.0
        for i in range(n_x):
            least, where = least_term(room.rates[i] - nu, slope, curvature[i], centre[i], lower[i], upper[i])
            bound += least
            mass += where
        if bound > best:
            best = bound
            best_nu = nu
        if mass > 1.0:
            high = nu
            right = (bound, 1.0 - mass)
            above = True
        else:
            low = nu
            left = (bound, 1.0 - mass)
            below = True
        if below and above:
            # The bound is concave in ν: no ν between is better than where the tangents at both ends meet.
            inside = (right[0] - left[0] - right[1] * (high - low)) / (left[1] - right[1])
            if left[0] + left[1] * inside - best < PRICE_CLOSE:
                break
            # The next price is this share of the interval away from its ends.
            margin = 0.02 * (high - low)
            nu = low + min(max(inside, margin), high - low - margin)
        else:
            nu = max(0.5 * (low + high), high - move) if above else min(0.5 * (low + high), low + move)
        move *= MOVE_GROWS
    for i in range(n_x):
        room.rates[i] -= best_nu
        room.least[i] = least_term(room.rates[i], slope, curvature[i], centre[i], lower[i], upper[i])[0]
    return best, best_nu


@compiled
def where_above(
    rate: float, slope: float, bend: float, centre: float, goal: float, inner: float, end: float
) -> float:
    """The furthest from ``end`` towards ``inner``, where e is least, that bisection finds e to be above ``goal``."""
    if not term(rate, slope, bend, centre, end) > goal:
        return end
    for _ in range(CUT_STEPS):
        middle = 0.5 * (inner + end)
        if term(rate, slope, bend, centre, middle) > goal:
            end = middle
        else:
            inner = middle
    return end


@compiled
def cut(slope: float, excess: float, box: Box, curves: Curves, row: int, room: Room) -> None:
    """Cut the box where one e_i alone lifts the bound by ``excess``; the row says where the cuts are."""
    lower, upper = box
    for i in range(lower.size):
        rate, bend, centre = room.rates[i], curves.curvature[row, i], curves.centre[row, i]
        goal = room.least[i] + excess + CLEAR + MARGIN * noise(rate, slope, bend, upper[i])
        if upper[i] > lower[i]:
            _, where = least_term(rate, slope, bend, centre, lower[i], upper[i])
            end = where_above(rate, slope, bend, centre, goal, where, upper[i])
            if end < upper[i] and least_term(rate, slope, bend, centre, end, upper[i])[0] > goal:
                upper[i] = end
            end = where_above(rate, slope, bend, centre, goal, where, lower[i])
            if end > lower[i] and least_term(rate, slope, bend, centre, lower[i], end)[0] > goal:
                lower[i] = end
        curves.lower[row, i] = lower[i]
        curves.upper[row, i] = upper[i]


@compiled
def curved_bound(slope: float, box: Box, curves: Curves, row: int, room: Room) -> float:
    """The bound with curvature of a box, in nats; −∞ where there is none.

    The row has its centre and D already, ``room`` the A of the centre's multipliers q; ``room.rates`` (M,) come in as
    ``columns·q − a`` and leave as those of the e_i. Writes ν into the row.
    """
    bound, nu = best_price(slope, box, curves.centre[row], curves.curvature[row], room)
    curves.nu[row] = nu
    return bound - rounding(slope, box.upper, curves.curvature[row], room)
