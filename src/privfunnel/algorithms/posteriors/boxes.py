"""Boxes ``l ≤ w ≤ u`` of posteriors: chords of −w log w, and the rules that shrink and split a box.

The certificate checker applies the same rules to the stored tree, so that both arrive at the same boxes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import SIMPLEX_SLACK
from privfunnel.infra.jit import compiled, compiled_inner
from privfunnel.measures import Array

#: Intervals narrower than this have no chord that rounding would not spoil: a constant below both ends takes its place.
NARROW = 1e-13
#: Secant steps towards each end of the hole that a split leaves out.
HOLE_STEPS = 3


class Box(NamedTuple):
    """Posteriors w with ``lower ≤ w ≤ upper``, both (M,)."""

    lower: Array
    upper: Array


@compiled(later=True)
def plogp(p: float) -> float:
    """``p log p`` of a scalar, 0 at 0."""
    if p > 0.0:
        return float(p * np.log(p))
    return 0.0


@compiled(later=True)
def copy(target: Array, source: Array) -> None:
    """``target[:] = source`` for vectors; a loop compiles in a fraction of the time that a slice takes."""
    for i in range(source.size):
        target[i] = source[i]


@compiled(later=True)
def fill_chords(box: Box, alpha: Array, beta: Array) -> None:
    """Chords ``alpha_i + beta_i w`` of ``-w log w`` on ``[lower_i, upper_i]``; all arrays (M,)."""
    lower, upper = box
    for i in range(lower.size):
        low = -plogp(lower[i])
        high = -plogp(upper[i])
        width = upper[i] - lower[i]
        if width > NARROW:
            beta[i] = (high - low) / width
            alpha[i] = low - beta[i] * lower[i]
        else:
            beta[i] = 0.0
            alpha[i] = min(low, high)


@compiled(later=True)
def shrink(rates: Array, slope: float, excess: float, box: Box) -> None:
    """Cut off, in place, the ends of ``[lower_i, upper_i]`` where ``e_i`` alone lifts the bound by ``excess``.

    ``rates`` (M,) are ``p_i·q - a_i - ν``. Two secant steps on the concave ``e_i``: each lands on the safe side.
    """
    lower, upper = box
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


@compiled(later=True)
def exclude(rivals: NDArray[np.uint8], box: Box, before: Array) -> None:
    """Use in place that rivals are not used together: see :func:`privfunnel.certificate.rivals`.

    A symbol with a rival that is surely used is not; nor is one that cannot carry the whole posterior with its allies.
    ``before`` (M,) is scratch.
    """
    lower, upper = box
    for i in range(lower.size):
        if lower[i] > 0.0:
            for j in range(lower.size):
                if rivals[i, j]:
                    upper[j] = 0.0
    # All sums are of the ends as the first rule left them, as the checker takes them.
    copy(before, upper)
    for i in range(lower.size):
        if upper[i] > 0.0:
            reach = 0.0
            for j in range(lower.size):
                if not rivals[i, j]:
                    reach += before[j]
            if reach < 1.0 - SIMPLEX_SLACK:
                upper[i] = 0.0


@compiled(later=True)
def propagate(box: Box) -> bool:
    """Use ``Σ w = 1`` on the box, in place; False when the box misses the simplex."""
    lower, upper = box
    total_low = 0.0
    total_high = 0.0
    for i in range(lower.size):
        if lower[i] > upper[i]:
            return False
        total_low += lower[i]
        total_high += upper[i]
    if total_low > 1.0 + SIMPLEX_SLACK or total_high < 1.0 - SIMPLEX_SLACK:
        return False
    for i in range(lower.size):
        high = lower[i] + (1.0 - total_low) + SIMPLEX_SLACK
        low = upper[i] - (total_high - 1.0) - SIMPLEX_SLACK
        if high < upper[i]:
            upper[i] = high
        if low > lower[i]:
            lower[i] = low
    return True


@compiled(later=True)
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
    for _ in range(HOLE_STEPS):
        if at_low < goal:
            left = low + (left - low) * ((goal - at_low) / (at_left - at_low))
            at_left = rate * left - slope * plogp(left)
        if at_high < goal:
            right = high - (high - right) * ((goal - at_high) / (at_right - at_high))
            at_right = rate * right - slope * plogp(right)
    if at_left < goal or at_right < goal:
        return middle, middle
    return left, right


@compiled(later=True)
def total_width(box: Box) -> float:
    """``Σ_i (u_i − l_i)``."""
    lower, upper = box
    width = 0.0
    for i in range(lower.size):
        width += upper[i] - lower[i]
    return width


@compiled(later=True)
def sum_of_ends(slope: float, box: Box, price: float, rates: Array, beta: Array) -> float:
    """The bound ``ν + Σ_i min(e_i(l_i), e_i(u_i))`` as the checker computes it: a knapsack's value in another order.

    ``rates`` (M,) come in as the costs of that knapsack, with the chords' ``beta`` (M,), and leave as those of the e_i.
    """
    lower, upper = box
    bound = price
    for i in range(rates.size):
        rates[i] -= slope * beta[i] + price
        bound += min(
            rates[i] * lower[i] - slope * plogp(lower[i]), rates[i] * upper[i] - slope * plogp(upper[i])
        )
    return bound


@compiled_inner
def loosest_symbol(point: Array, box: Box, alpha: Array, beta: Array) -> int:
    """The symbol whose chord is furthest below ``-w log w`` at ``point``."""
    lower, upper = box
    chosen = 0
    loosest = -1.0
    for i in range(point.size):
        w = min(max(point[i], lower[i]), upper[i])
        gap = -plogp(w) - alpha[i] - beta[i] * w
        if gap > loosest and upper[i] > lower[i]:
            loosest = gap
            chosen = i
    return chosen


@compiled(later=True)
def choose_split(
    box: Box,
    point: Array,
    slope: float,
    excess: float,
    rates: Array,
    chords: tuple[Array, Array],
    sides: tuple[float, float],
) -> tuple[int, float, float]:
    """The symbol to split on, where its left side ends and where its right one begins.

    The split is near ``point`` (M,), but leaves the left and the right side at least these shares of the interval.
    Between the sides e_i alone lifts the bound by ``excess``. The ``chords`` are alpha and beta, (M,) each.
    """
    symbol = loosest_symbol(point, box, chords[0], chords[1])
    low = box.lower[symbol]
    high = box.upper[symbol]
    left, right = split_near(point[symbol], low, high, slope, excess, rates[symbol], sides)
    return symbol, left, right


@compiled(later=True)
def split_near(
    w: float, low: float, high: float, slope: float, excess: float, rate: float, sides: tuple[float, float]
) -> tuple[float, float]:
    """Where the left side of an interval ends and the right one begins, as :func:`choose_split` has it, near ``w``."""
    width = high - low
    middle = min(max(w, low + sides[0] * width), high - sides[1] * width)
    return split_hole(rate, slope, excess, low, high, middle)
