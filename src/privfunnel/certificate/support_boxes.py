"""Supports within boxes of images, and the least F on each: the second half of a proof, see :mod:`.image_boxes`.

A support is a set of at most K symbols, no two of them rivals. Since F is no lower along e_x − e_y to second order,

    (5)  Σ_s (p_sx − p_sy)²/t_s ≥ μ (1/w_x + 1/w_y)     for any two of its symbols.

With its weights in an interval each, l ≤ w ≤ u, and any distribution τ, −H(t) ≥ t·log τ gives
F(w) ≥ Σ_x w_x (p_x·log τ − a_x) + μ H(w), and, with any ν, because Σ w = 1,

    F ≥ ν + Σ_x min(e_x(l_x), e_x(u_x)),     e_x(w) = (p_x·log τ − a_x − ν) w − μ w log w,  concave.

What the bound misses by is of second order in the width of the box. A box that misses is narrowed by (1), (2) and (4)
of :mod:`.image_boxes`, by Σ w = 1 and t = Pw, with the bound as the new least v, and split.

The functions here are compiled where numba is there. A :class:`Nest` holds the boxes of the support in hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.certificate.image_boxes import ROOM, SUM_ROOM, Bracket, Index
from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array

#: A box this narrow is not split any further: rounding is all that is left.
_LEAST_WIDTH = 1e-9
#: Room for the open boxes of one support, which are split in turns, and how many of them are looked at.
DEPTH, PATIENCE = 400, 300


class Nest(NamedTuple):
    """Open boxes of one support: its symbols (K,), ends of weights (d, K), of images (d, K) and of v (d, 2).

    ``point`` (K,) is the middle of the box in hand, ``image`` (K,) its image, ``worth`` (K,) p_x·log τ − a_x there.
    """

    symbols: Index
    least: Array
    most: Array
    lower: Array
    upper: Array
    value: Array
    point: Array
    image: Array
    worth: Array


class Found(NamedTuple):
    """Posteriors below the cutoff: symbols and weights (n, K), how many symbols each has and F (n,); ``total[0]`` are.

    ``cutoff`` in nats.
    """

    cutoff: float
    symbols: Index
    weights: Array
    sizes: Index
    values: Array
    total: Index


def empty_nest(n_s: int) -> Nest:
    """Room for the boxes of one support of up to K = ``n_s`` symbols."""
    least, most, lower, upper = np.zeros((4, DEPTH, n_s))
    point, image, worth = np.zeros((3, n_s))
    names = np.zeros(n_s, dtype=np.intp)
    return Nest(names, least, most, lower, upper, np.zeros((DEPTH, 2)), point, image, worth)


def none_found(cutoff: float, enough: int, n_s: int) -> Found:
    """Room for ``enough`` posteriors of up to K = ``n_s`` symbols, none as yet."""
    names, sizes = np.zeros((enough, n_s), dtype=np.intp), np.zeros(enough, dtype=np.intp)
    return Found(cutoff, names, np.zeros((enough, n_s)), sizes, np.zeros(enough), np.zeros(1, dtype=np.intp))


@compiled_inner
def _plogp(p: float) -> float:
    """``p log p``, 0 for p = 0."""
    return float(p * np.log(p)) if p > 0.0 else 0.0


@compiled_inner
def _narrow_sums(bracket: Bracket, nest: Nest, d: int, size: int) -> bool:
    """Leave of box d what Σ w = 1 and t = Pw leave; False where that is nothing."""
    least, most, lower, upper = nest.least[d], nest.most[d], nest.lower[d], nest.upper[d]
    least_sum = most_sum = 0.0
    for k in range(size):
        least_sum += least[k]
        most_sum += most[k]
    for k in range(size):
        low = max(least[k], 1.0 - (most_sum - most[k]) - SUM_ROOM)
        most[k] = min(most[k], 1.0 - (least_sum - least[k]) + SUM_ROOM)
        least[k] = low
        if low > most[k]:
            return False
    for s in range(lower.size):
        low = high = 0.0
        for k in range(size):
            p = bracket.columns[nest.symbols[k], s]
            low += least[k] * p
            high += most[k] * p
        lower[s], upper[s] = max(lower[s], low - SUM_ROOM), min(upper[s], high + SUM_ROOM)
        if lower[s] > upper[s]:
            return False
        for k in range(size):
            p = bracket.columns[nest.symbols[k], s]
            if p > 0.0:
                above = (upper[s] - low + SUM_ROOM) / p + least[k]
                below = (lower[s] - high - SUM_ROOM) / p + most[k]
                least[k], most[k] = max(least[k], below), min(most[k], above)
                if least[k] > most[k]:
                    return False
    return True


@compiled_inner
def _narrow_weights(bracket: Bracket, nest: Nest, d: int, size: int) -> bool:
    """Leave of box d what (1) and (4) leave, of its values too; False where that is nothing."""
    slope, value = bracket.slope, nest.value[d]
    for k in range(size):
        x = nest.symbols[k]
        at_lower = at_upper = -bracket.prices[x]
        distance = -1.0
        for s in range(nest.image.size):
            p = bracket.columns[x, s]
            if p > 0.0:
                at_lower += p * np.log(nest.lower[d, s])
                at_upper += p * np.log(nest.upper[d, s])
                distance += p * p / nest.lower[d, s]
        by_value = np.exp(min((at_lower - value[1] - ROOM) / slope, 1.0))
        by_curvature = (1.0 - ROOM) * slope / (slope + max(distance, 0.0))
        low = max(nest.least[d, k], by_value, by_curvature)
        high = min(nest.most[d, k], np.exp(min((at_upper - value[0] + ROOM) / slope, 1.0)))
        nest.least[d, k], nest.most[d, k] = low, high
        if low > high:
            return False
        value[0] = max(value[0], at_lower - slope * np.log(high) - ROOM)
        value[1] = min(value[1], at_upper - slope * np.log(low) + ROOM)
        if value[0] > value[1]:
            return False
    return True


@compiled_inner
def apart(bracket: Bracket, x: int, y: int, lower: Array, reach: float) -> bool:
    """By (5): whether x and y differ enough to be used together, ``reach`` being the least μ (1/w_x + 1/w_y)."""
    distance = 0.0
    for s in range(lower.size):
        step = bracket.columns[x, s] - bracket.columns[y, s]
        distance += step * step / lower[s]
    return distance >= reach * (1.0 - ROOM)


@compiled_inner
def _all_apart(bracket: Bracket, nest: Nest, d: int, size: int) -> bool:
    """By (5): whether all symbols of the support can be used together in box d."""
    for k in range(size):
        for j in range(k):
            reach = bracket.slope * (1.0 / nest.most[d, k] + 1.0 / nest.most[d, j])
            if not apart(bracket, nest.symbols[k], nest.symbols[j], nest.lower[d], reach):
                return False
    return True


@compiled_inner
def _middle(bracket: Bracket, nest: Nest, d: int, size: int) -> float:
    """Fill in the middle of box d, its image and what its symbols are worth there; F at the middle."""
    total = 0.0
    for k in range(size):
        nest.point[k] = 0.5 * (nest.least[d, k] + nest.most[d, k])
        total += nest.point[k]
    for k in range(size):
        nest.point[k] /= total
    for s in range(nest.image.size):
        nest.image[s] = 0.0
        for k in range(size):
            nest.image[s] += nest.point[k] * bracket.columns[nest.symbols[k], s]
    value = 0.0
    for k in range(size):
        x = nest.symbols[k]
        worth = -bracket.prices[x]
        for s in range(nest.image.size):
            if bracket.columns[x, s] > 0.0:
                worth += bracket.columns[x, s] * np.log(nest.image[s])
        nest.worth[k] = worth
        value += nest.point[k] * worth - bracket.slope * _plogp(nest.point[k])
    return value


@compiled_inner
def _bound(bracket: Bracket, nest: Nest, d: int, size: int) -> float:
    """A lower bound on F on box d, after :func:`_middle`; ν from the chord of each symbol in turn, the best of them."""
    slope, best = bracket.slope, -np.inf
    for j in range(size):
        low, high = nest.least[d, j], nest.most[d, j]
        chord = (_plogp(high) - _plogp(low)) / (high - low) if high > low else 0.0
        nu = nest.worth[j] - slope * chord
        bound, reach = nu, 1.0 + abs(nu)
        for k in range(size):
            low, high, steep = nest.least[d, k], nest.most[d, k], nest.worth[k] - nu
            bound += min(steep * low - slope * _plogp(low), steep * high - slope * _plogp(high))
            reach += abs(steep) * high
        # What arithmetic may have added to a bound, in nats, for terms of size 1.
        best = max(best, bound - 1e-13 * reach)
    return best


@compiled_inner
def _split(bracket: Bracket, nest: Nest, d: int, size: int) -> bool:
    """Split box d into d and d + 1, at the weight or the image that costs its bound most; False where it is a point."""
    least, most, lower, upper = nest.least, nest.most, nest.lower, nest.upper
    worst, at, widest = -1.0, 0, 0.0
    for k in range(size):
        width = most[d, k] - least[d, k]
        cost = bracket.slope * width * width / max(most[d, k], _LEAST_WIDTH)
        widest = max(widest, width)
        if cost > worst:
            worst, at = cost, k
    for s in range(nest.image.size):
        width = upper[d, s] - lower[d, s]
        cost = width * width / max(upper[d, s], _LEAST_WIDTH)
        widest = max(widest, width)
        if cost > worst:
            worst, at = cost, size + s
    if widest < _LEAST_WIDTH:
        return False
    for k in range(size):
        least[d + 1, k], most[d + 1, k] = least[d, k], most[d, k]
    for s in range(nest.image.size):
        lower[d + 1, s], upper[d + 1, s] = lower[d, s], upper[d, s]
    nest.value[d + 1, 0], nest.value[d + 1, 1] = nest.value[d, 0], nest.value[d, 1]
    if at < size:
        most[d, at] = least[d + 1, at] = 0.5 * (least[d, at] + most[d, at])
    else:
        upper[d, at - size] = lower[d + 1, at - size] = 0.5 * (lower[d, at - size] + upper[d, at - size])
    return True


@compiled_inner
def _note(nest: Nest, size: int, value: float, found: Found) -> None:
    """Put the middle of the box in hand among those found, if there is room."""
    n = found.total[0]
    if n < found.sizes.size:
        for k in range(size):
            found.symbols[n, k], found.weights[n, k] = nest.symbols[k], nest.point[k]
        found.sizes[n], found.values[n] = size, value
        found.total[0] += 1


@compiled_inner
def settle(bracket: Bracket, nest: Nest, size: int, found: Found) -> int:
    """Split box 0 of a support until F is at or above v's upper end on all of it; how many boxes that took.

    Negative where it would take too many. Where F is below the cutoff at the middle of a box, this is noted in
    ``found`` and the support left as it is, since nothing is proved any more.
    """
    d, looked = min(size, 0), 0  # no literal 0, for which all kernels would be compiled once more
    while d >= 0:
        looked += 1
        left = True
        # Rounds of narrowing before a box is bounded.
        for _ in range(2):
            left = left and _narrow_sums(bracket, nest, d, size) and _narrow_weights(bracket, nest, d, size)
        if not left or not _all_apart(bracket, nest, d, size):
            d -= 1
            continue
        value = _middle(bracket, nest, d, size)
        bound = _bound(bracket, nest, d, size)
        if value < found.cutoff:
            _note(nest, size, value, found)
            return looked
        if bound >= nest.value[d, 1]:
            d -= 1
            continue
        nest.value[d, 0] = max(nest.value[d, 0], bound)
        if looked > PATIENCE or d + 1 >= DEPTH or not _split(bracket, nest, d, size):
            return -looked
        d += 1
    return looked
