"""The bound of a box with curvature, compiled: what −w log w curves downwards the attackers' part of F makes up for.

:mod:`privfunnel.certificate.curvature` says why it holds, and checks it. The multipliers are those of the centre c, so
that Ac = 0: what a box proves with them its parts prove, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.curvature import DEFINITE, KAPPA, LARGEST, LEAST_SCALE, NOISE, SLACK
from privfunnel.jit import compiled
from privfunnel.measures import Array
from privfunnel.solvers.guarded.interior import LEAST_DISTANCE, Pricing
from privfunnel.solvers.posteriors.boxes import Box, copy, plogp
from privfunnel.solvers.posteriors.cholesky import factor, solve_factored

#: Problems with more public symbols do without: A takes M² entries of every column.
CURVED_UP_TO = 32
#: Rounds over the symbols; the weight of log det in the first, a share of the curvature wanted; how it falls.
SWEEPS, FIRST_WEIGHT, WEIGHT_FALLS = 6, 1.0, 0.5
#: No symbol takes more than this share of the curvature that is left in its direction.
MOST_TAKEN = 0.98
#: A symbol wants no more curvature than −w log w has at this share of its interval's upper end.
WANTED_AT = 0.35
#: Nor more than this, in nats: a narrow interval next to 0 would want more than a certificate may hold.
MOST_WANTED = 0.5 * LARGEST
#: What D is lowered by, a share of the largest entries and nats, so that rounding leaves A + κ11' − D definite.
LOWERED, LEAST_LOWERED = 20.0 * DEFINITE, 1e-9
#: Steps of the search for ν, for the least value of a convex part, and for where a cut may be.
PRICE_STEPS, NEWTON_STEPS, CUT_STEPS = 30, 10, 12
#: The first move away from the price that is expected, in nats, and how the moves grow until the best is between two.
FIRST_MOVE, MOVE_GROWS = 1e-5, 4.0
#: A price ν this close to the best, in nats, is good enough; cuts are made where they are safe by so much.
PRICE_CLOSE, CLEAR = 1e-8, 1e-11
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
        np.zeros(n_x, np.int64),
    )


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
        for i in inside:
            space += upper[i] - lower[i]
        for k in range(starts[b], starts[b + 1]):
            weight += columns[inside[0], k]
        space = min(space, free)
        for k in range(starts[b], starts[b + 1]):
            expected = weight * np.exp(q[k])
            low = 0.0
            high = 0.0
            top = 0.0
            for i in inside:
                scale = (columns[i, k] + 2.0 * expected) / 3.0
                low += scale * lower[i]
                high += scale * upper[i]
                top = max(top, scale)
                slopes[i] = columns[i, k] - expected
            most = max(min(high, low + space * top) * (1.0 + 2.0 * SLACK) + 2.0 * SLACK, LEAST_SCALE)
            for i in inside:
                share = slopes[i] / most
                for j in inside:
                    if j <= i:
                        matrix[i, j] += share * slopes[j]
    for i in range(lower.size):
        for j in range(i):
            matrix[j, i] = matrix[i, j]


@compiled
def invert(matrix: Array, n: int, inverse: Array, column: Array) -> bool:
    """The inverse of the leading (n, n) part, which is overwritten; False where it is not positive definite.

    ``column`` (M,) is scratch.
    """
    if not factor(matrix, n):
        return False
    for c in range(n):
        for i in range(n):
            column[i] = 1.0 if i == c else 0.0
        solve_factored(matrix, column, n, c)
        for i in range(n):
            inverse[i, c] = column[i]
    return True


@compiled
def absorb(slope: float, box: Box, room: Room, curvature: Array) -> bool:
    """Write D (M,): Σ D_i (u_i − l_i)² is to be large, and A + κ11' − D definite; False where it cannot be.

    Symbol after symbol gets what is best for that sum and τ log det(A + κ11' − D), which is a closed form, while τ
    falls: the next to come would get nothing if each took all there is.
    """
    lower, upper = box
    matrix, inverse, free = room.matrix, room.inverse, room.free
    n = 0
    largest = 0.0
    wanted = 0.0
    for i in range(lower.size):
        curvature[i] = 0.0
        largest = max(largest, matrix[i, i])
        if upper[i] > lower[i]:
            free[n] = i
            n += 1
            wanted += slope / max(lower[i], WANTED_AT * upper[i]) * (upper[i] - lower[i]) ** 2
    lowered = LOWERED * (largest + KAPPA) + LEAST_LOWERED
    compact = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            compact[a, b] = matrix[free[a], free[b]] + KAPPA
        compact[a, a] += lowered
    if n < 2 or not invert(compact, n, inverse, room.slopes):
        return False
    weight = FIRST_WEIGHT * wanted / n
    for _ in range(SWEEPS):
        for a in range(n):
            i = free[a]
            most = min(slope / max(lower[i], WANTED_AT * upper[i]), MOST_WANTED)
            best = curvature[i] + 1.0 / inverse[a, a] - weight / (upper[i] - lower[i]) ** 2
            move = min(max(best, 0.0), most) - curvature[i]
            move = min(move, MOST_TAKEN / inverse[a, a])
            take(inverse, n, a, move, room.slopes)
            curvature[i] += move
        weight *= WEIGHT_FALLS
    for a in range(n):
        curvature[free[a]] -= 2.0 * lowered
    return True


@compiled
def take(inverse: Array, n: int, a: int, move: float, column: Array) -> None:
    """Update the inverse (n, n) of a matrix whose diagonal entry ``a`` is lowered by ``move``."""
    share = move / (1.0 - move * inverse[a, a])
    for b in range(n):
        column[b] = inverse[b, a]
    for b in range(n):
        scaled = share * column[b]
        for c in range(n):
            inverse[b, c] += scaled * column[c]


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
            above = True
        else:
            low = nu
            below = True
        if high - low < PRICE_CLOSE:
            break
        nu = 0.5 * (low + high)
        if not below:
            nu = max(nu, high - move)
        elif not above:
            nu = min(nu, low + move)
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
def curved_bound(pricing: Pricing, box: Box, q: Array, curves: Curves, row: int, room: Room) -> float:
    """The bound with curvature of a box, in nats; −∞ where there is none.

    ``q`` (J,) are the multipliers of the centre, which the row has already; ``room.rates`` (M,) come in as
    ``columns·q − a`` and leave as those of the e_i. Writes ν and D into the row.
    """
    fill_least_curvature(pricing, box, q, room)
    if not absorb(pricing.slope, box, room, curves.curvature[row]):
        curves.used[row] = False
        return -np.inf
    bound, nu = best_price(pricing.slope, box, curves.centre[row], curves.curvature[row], room)
    curves.nu[row] = nu
    curves.used[row] = True
    return bound - rounding(pricing.slope, box.upper, curves.curvature[row], room)
