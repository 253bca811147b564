"""Boxes over cliques of rivals, of which a posterior uses one symbol each: what :mod:`privfunnel.certificate` checks.

A box has ``lower[g]``, the least mass L_g of clique g, in its first G places, and ``upper[i]``, the most that symbol i
may carry, 0 where it is not used. Where L_g = 0 the clique may be unused. The rules are those of
:mod:`privfunnel.certificate.cliques`, whose checker arrives at the same boxes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.posteriors.boxes import HOLE_STEPS, NARROW, Box, plogp
from privfunnel.certificate import SIMPLEX_SLACK
from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array

#: Rows of :class:`Cliques`' choices: of a price too low, of one too high, and of one on trial.
LIGHT, HEAVY, TRIED = 0, 1, 2


class Cliques(NamedTuple):
    """The clique of each symbol, (M,), and arrays that each box overwrites.

    ``least`` m_g and the largest ``upper`` of each clique, (G,); ``chosen``, the symbols that a price chooses, −1 for
    none, and their ``masses``, (3, G).
    """

    of: NDArray[np.int64]
    least: Array
    top: Array
    chosen: NDArray[np.int64]
    masses: Array


def new_cliques(groups: NDArray[np.int32]) -> Cliques:
    """Cliques with room for G = max + 1 of them."""
    n = int(groups.max()) + 1
    of = groups.astype(np.int64)
    return Cliques(of, np.zeros(n), np.zeros(n), np.zeros((3, n), np.int64), np.zeros((3, n)))


@compiled_inner
def term(rate: float, slope: float, w: float) -> float:
    """``e(w) = ρ w − μ w log w``."""
    return rate * w - slope * plogp(w)


@compiled_inner
def fill_clique_chords(box: Box, cliques: Cliques, slope: float, alpha: Array, beta: Array) -> None:
    """Chords ``alpha_i + beta_i w`` of −μ w log w on ``[L_g, upper_i]``; arrays (M,)."""
    for i in range(alpha.size):
        alpha[i] = beta[i] = 0.0
        high = box.upper[i]
        if high > 0.0:
            low = box.lower[cliques.of[i]]
            at_low = -slope * plogp(low)
            at_high = -slope * plogp(high)
            if high - low > NARROW:
                beta[i] = (at_high - at_low) / (high - low)
                alpha[i] = at_low - beta[i] * low if low > 0.0 else 0.0
            else:
                alpha[i] = min(at_low, at_high)


@compiled_inner
def sum_of_cliques(slope: float, rates: Array, price: float, box: Box, cliques: Cliques) -> float:
    """The bound as the checker computes it, ``ν + Σ_g m_g``; ``cliques.least`` leaves as m_g."""
    least = cliques.least
    for g in range(least.size):
        least[g] = 0.0 if box.lower[g] == 0.0 else np.inf
    for i in range(rates.size):
        if box.upper[i] > 0.0:
            g = cliques.of[i]
            ends = min(term(rates[i], slope, box.lower[g]), term(rates[i], slope, box.upper[i]))
            least[g] = min(least[g], ends)
    bound = price
    for g in range(least.size):
        bound += least[g]
    return bound


@compiled_inner
def ends_below(rate: float, slope: float, goal: float, low: float, high: float) -> tuple[float, float]:
    """The ends of what is left of ``[low, high]`` where ``e`` is to be below ``goal``; (1, 0) where nothing is.

    Two secant steps on the concave e: each lands on the safe side.
    """
    at_low = term(rate, slope, low)
    at_high = term(rate, slope, high)
    if at_low >= goal and at_high >= goal:
        return 1.0, 0.0
    if at_high > goal:
        width = (high - low) * ((goal - at_low) / (at_high - at_low))
        reached = term(rate, slope, low + width)
        if reached > goal:
            width *= (goal - at_low) / (reached - at_low)
        return low, low + width
    if at_low > goal:
        width = (high - low) * ((goal - at_high) / (at_low - at_high))
        reached = term(rate, slope, high - width)
        if reached > goal:
            width *= (goal - at_high) / (reached - at_high)
        return high - width, high
    return low, high


@compiled_inner
def shrink_cliques(rates: Array, slope: float, excess: float, box: Box, cliques: Cliques) -> None:
    """Cut off, in place, where ``e_i ≥ m_g + excess``; ``cliques.least`` are the m_g and leave as goals."""
    lower, upper = box
    goals, lowest = cliques.least, cliques.top
    for g in range(goals.size):
        goals[g] += excess
        lowest[g] = np.inf
    for i in range(upper.size):
        if upper[i] > 0.0:
            g = cliques.of[i]
            low, high = ends_below(rates[i], slope, goals[g], lower[g], upper[i])
            upper[i] = high
            if high > 0.0:
                lowest[g] = min(lowest[g], low)
    for g in range(goals.size):
        # Unless the clique may be unused, its least mass is that of the symbol that can do with least.
        if lower[g] > 0.0 or goals[g] <= 0.0:
            lower[g] = max(lower[g], lowest[g])


@compiled_inner
def fill_tops(box: Box, cliques: Cliques) -> tuple[float, float]:
    """The largest ``upper`` of each clique into ``cliques.top``; returns ``Σ L_g`` and the sum of those."""
    top = cliques.top
    for g in range(top.size):
        top[g] = 0.0
    for i in range(box.upper.size):
        top[cliques.of[i]] = max(top[cliques.of[i]], box.upper[i])
    low = 0.0
    high = 0.0
    for g in range(top.size):
        low += box.lower[g]
        high += top[g]
    return low, high


@compiled_inner
def meets_simplex(box: Box, cliques: Cliques) -> bool:
    """Whether there is any posterior in the box; ``cliques.top`` leaves as in :func:`fill_tops`."""
    low, high = fill_tops(box, cliques)
    for g in range(cliques.top.size):
        if box.lower[g] > cliques.top[g]:
            return False
    return low <= 1.0 + SIMPLEX_SLACK and high >= 1.0 - SIMPLEX_SLACK


@compiled_inner
def propagate_cliques(box: Box, cliques: Cliques) -> bool:
    """Use ``Σ w = 1`` on the box, in place; False when there is no posterior in it."""
    if not meets_simplex(box, cliques):
        return False
    lower, upper = box
    low, high = fill_tops(box, cliques)
    for i in range(upper.size):
        upper[i] = min(upper[i], lower[cliques.of[i]] + (1.0 - low) + SIMPLEX_SLACK)
    for g in range(cliques.top.size):
        lower[g] = max(lower[g], cliques.top[g] - (high - 1.0) - SIMPLEX_SLACK)
    for i in range(upper.size):
        if upper[i] < lower[cliques.of[i]]:
            upper[i] = 0.0
    return True


@compiled_inner
def total_room(box: Box, cliques: Cliques) -> float:
    """``Σ_i (upper_i − L_g)`` of the symbols that may be used."""
    room = 0.0
    for i in range(box.upper.size):
        if box.upper[i] > 0.0:
            room += max(box.upper[i] - box.lower[cliques.of[i]], 0.0)
    return room


@compiled_inner
def loosest_mass(slope: float, box: Box, point: Array, cliques: Cliques) -> tuple[float, int, float]:
    """How far the chord of a clique's mass is below ``−μ w log w`` at ``point`` at most, where, and the mass there."""
    fill_tops(box, cliques)
    loosest, chosen, at = -1.0, 0, 0.0
    masses = np.zeros(cliques.top.size)
    for i in range(point.size):
        masses[cliques.of[i]] += point[i]
    for g in range(masses.size):
        low = box.lower[g]
        high = cliques.top[g]
        if high - low > NARROW:
            w = min(max(masses[g], low), high)
            beta = (plogp(low) - plogp(high)) / (high - low)
            gap = slope * (plogp(low) - plogp(w) - beta * (w - low))
            if gap > loosest:
                loosest, chosen, at = gap, g, w
    return loosest, chosen, at


@compiled_inner
def loosest_members(pricing: Pricing, point: Array, cliques: Cliques) -> tuple[float, int, int, float]:
    """What it costs most to use one symbol of a clique where ``point`` mixes several: the clique, and how to divide it.

    About ``½ W² Σ_s Var p(s|i) / t_s`` nats, W being the clique's mass; it is divided by the private symbol of the
    largest term, at the mean.
    """
    columns = pricing.columns
    n_s = columns.shape[1]
    n_cliques = cliques.top.size
    sums = np.zeros((n_cliques, n_s))
    squares = np.zeros((n_cliques, n_s))
    masses = np.zeros(n_cliques)
    image = np.zeros(n_s)
    for i in range(point.size):
        if point[i] > 0.0:
            g = cliques.of[i]
            masses[g] += point[i]
            for k in range(n_s):
                image[k] += point[i] * columns[i, k]
                sums[g, k] += point[i] * columns[i, k]
                squares[g, k] += point[i] * columns[i, k] * columns[i, k]
    loosest, chosen, private, at = -1.0, 0, 0, 0.0
    for g in range(n_cliques):
        total, largest, where = 0.0, -1.0, 0
        for k in range(n_s):
            if masses[g] > NARROW and image[k] > 0.0:
                mean = sums[g, k] / masses[g]
                share = max(squares[g, k] / masses[g] - mean * mean, 0.0) / image[k]
                total += share
                if share > largest:
                    largest, where = share, k
        gap = 0.5 * masses[g] * masses[g] * total
        if gap > loosest:
            loosest, chosen, private = gap, g, where
            at = sums[g, where] / max(masses[g], NARROW)
    return loosest, chosen, private, at


@compiled_inner
def mass_hole(
    rates: Array, slope: float, goal: float, box: Box, cliques: Cliques, clique: int, middle: float
) -> tuple[float, float]:
    """Ends of the masses around ``middle`` that no symbol of a clique can have: ``e_i ≥ goal`` there.

    Both equal ``middle`` when there are none. Secants from inside keep to the safe side.
    """
    low = box.lower[clique]
    left, right = low, 1.0
    for i in range(rates.size):
        high = box.upper[i]
        if cliques.of[i] != clique or high <= 0.0:
            continue
        if high <= middle:
            left = max(left, high)
            continue
        at_low, at_high = term(rates[i], slope, low), term(rates[i], slope, high)
        start, end = middle, middle
        at_start = at_end = term(rates[i], slope, middle)
        if at_start <= goal:
            return middle, middle
        for _ in range(HOLE_STEPS):
            if at_low < goal:
                start = low + (start - low) * ((goal - at_low) / (at_start - at_low))
                at_start = term(rates[i], slope, start)
            if at_high < goal:
                end = high - (high - end) * ((goal - at_high) / (at_end - at_high))
                at_end = term(rates[i], slope, end)
        if at_start < goal or at_end < goal:
            return middle, middle
        left = max(left, start if at_low < goal else low)
        right = min(right, end if at_high < goal else high)
    return min(left, middle), max(right, middle)
