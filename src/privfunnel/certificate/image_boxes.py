"""Boxes of images t = Pw, and which public symbols a least posterior may use in each: the first half of a proof.

Let w be a minimiser of F(w) = −H(Pw) + μ H(w) − a·w with the fewest symbols, v = F(w) and t = Pw. Then w has at most K
symbols, and where it has two or more, for each symbol x that it uses

    (1)  μ log w_x = p_x·log t − a_x − v                     (stationary on its face),
    (2)  w_x p_sx ≤ t_s                                      (t is a sum of such terms),
    (3)  (p_y − p_x)·log t − (a_y − a_x) + w_x Σ_s (p_sy − p_sx)²/t_s ≥ 0      for every other y,
    (4)  w_x (μ + χ²(p_x‖t)) ≥ μ                             (no lower along e_x − w, to second order),

(3) because handing all of x's mass to y does not lower F, and KL(t'‖t) ≤ Σ (t'−t)²/t. On a box of (t, v) all four are
tests of single symbols: (1), (2) and (4) bound w_x, (3) leaves few symbols, since those near x pin log t to the slope
of the prices there. Boxes are split until their lists are short; :mod:`.support_lists` goes through the supports within
them. Here t_s > 0: :mod:`.supports` looks at the faces t_s = 0 on their own.

The functions here are compiled where numba is there. They work on one box in place, the :class:`Box` they are given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array

Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

#: What comparisons of exponents and of prices leave for rounding, in nats: a symbol or a box is dropped only where it
#: misses by more. Logarithms are below 1000 in size, so that sums of K of their products are exact to 1e-12.
ROOM = 1e-10
#: The same for sums of weights and of images, which are at most 1 in size.
SUM_ROOM = 1e-11


class Bracket(NamedTuple):
    """F: Pᵀ (M, K) and its logarithms (0 for log 0), prices (M,) and slope μ, in nats.

    ``mates`` (M, M) says which symbols may be used together, ``near`` (M, n) holds the nearest other ones of each.
    """

    columns: Array
    logs: Array
    prices: Array
    slope: float
    mates: Mask
    near: Index


class Box(NamedTuple):
    """One box: ends of log t and of t (K,), ``value`` = ends of v (2,), and its list of ``length[0]`` symbols.

    Of each symbol of the list, (M,): its name, and the least and the most weight that it can have.
    """

    low: Array
    high: Array
    lower: Array
    upper: Array
    value: Array
    symbols: Index
    least: Array
    most: Array
    length: Index


def empty_box(n_x: int, n_s: int) -> Box:
    """Room for a box of K = ``n_s`` images and a list of up to ``n_x`` symbols."""
    low, high, lower, upper = np.zeros((4, n_s))
    least, most = np.zeros((2, n_x))
    names, length = np.zeros(n_x, dtype=np.intp), np.zeros(1, dtype=np.intp)
    return Box(low, high, lower, upper, np.zeros(2), names, least, most, length)


@compiled_inner
def sum_to_one(box: Box) -> bool:
    """Cut off what Σ t = 1 excludes and fill in the ends of t; False where nothing is left."""
    low, high, lower, upper = box.low, box.high, box.lower, box.upper
    for _ in range(3):
        least_sum = most_sum = 0.0
        for s in range(low.size):
            lower[s], upper[s] = np.exp(low[s]), np.exp(high[s])
            least_sum += lower[s]
            most_sum += upper[s]
        for s in range(low.size):
            least = 1.0 - (most_sum - upper[s]) - SUM_ROOM
            most = 1.0 - (least_sum - lower[s]) + SUM_ROOM
            if least > lower[s]:
                low[s] = np.log(least)
            if most <= lower[s]:
                return False
            if most < upper[s]:
                high[s] = np.log(most)
            if low[s] > high[s]:
                return False
    for s in range(low.size):
        lower[s], upper[s] = np.exp(low[s]), np.exp(high[s])
    return True


@compiled_inner
def weigh(bracket: Bracket, x: int, box: Box) -> tuple[float, float]:
    """The least weight of symbol x by (1) and (4), and the most by (1) and (2)."""
    slope = bracket.slope
    at_low = at_high = -bracket.prices[x]
    share, distance = 0.0, -1.0
    for s in range(box.low.size):
        p = bracket.columns[x, s]
        if p > 0.0:
            at_low += p * box.low[s]
            at_high += p * box.high[s]
            share = min(share, box.high[s] - bracket.logs[x, s])
            distance += p * p / box.lower[s]
    most = np.exp(min(share + ROOM, (at_high - box.value[0] + ROOM) / slope))
    by_value = np.exp(min((at_low - box.value[1] - ROOM) / slope, 1.0))
    by_curvature = (1.0 - ROOM) * slope / (slope + max(distance, 0.0))
    return max(by_value, by_curvature), min(most, 1.0)


@compiled_inner
def overfull(bracket: Bracket, x: int, box: Box) -> bool:
    """Whether (1) and (2) contradict each other at every t of the box: w_x p_sx > t_s for some s."""
    slope = bracket.slope
    excess = -bracket.prices[x] - box.value[1]
    for s in range(box.low.size):
        excess += bracket.columns[x, s] * box.low[s]
    for s in range(box.low.size):
        p = bracket.columns[x, s]
        if p > 0.0:
            # Once log t_s is taken to one side its coefficient is p − μ.
            beyond = (slope - p) * (box.low[s] - box.high[s]) if p < slope else 0.0
            if excess + beyond + slope * (bracket.logs[x, s] - box.low[s]) > ROOM:
                return True
    return False


@compiled_inner
def replaced(bracket: Bracket, x: int, most: float, box: Box) -> bool:
    """By (3): whether a symbol near x is better than x at every t of the box.

    Each term in t_s is largest at an end of its interval.
    """
    columns, prices = bracket.columns, bracket.prices
    for b in range(bracket.near.shape[1]):
        y = bracket.near[x, b]
        gain = prices[x] - prices[y]
        for s in range(box.low.size):
            step = columns[y, s] - columns[x, s]
            square = most * step * step
            at_end = step * box.low[s] + square / box.lower[s]
            if step > 0.0:
                at_end = max(at_end, step * box.high[s] + square / box.upper[s])
            gain += at_end
        if gain < -ROOM:
            return True
    return False


@compiled_inner
def _keep_usable(bracket: Bracket, box: Box) -> None:
    """Leave in the list what (1) to (4) leave, with the ends of the weights."""
    kept = 0
    for c in range(box.length[0]):
        x = box.symbols[c]
        least, most = weigh(bracket, x, box)
        if least <= most and not overfull(bracket, x, box) and not replaced(bracket, x, most, box):
            box.symbols[kept], box.least[kept], box.most[kept] = x, least, most
            kept += 1
    box.length[0] = kept


@compiled_inner
def _largest_sum(values: Array, n: int, best: Array) -> float:
    """The sum of the largest of the first n values, as many as ``best`` has room for."""
    for k in range(best.size):
        best[k] = 0.0
    for c in range(n):
        if values[c] > best[-1]:
            k = best.size - 1
            while k > 0 and best[k - 1] < values[c]:
                best[k] = best[k - 1]
                k -= 1
            best[k] = values[c]
    total = 0.0
    for k in range(best.size):
        total += best[k]
    return total


@compiled_inner
def _reachable(bracket: Bracket, box: Box) -> bool:
    """Whether K symbols of the list can sum to 1 and have an image in the box; t is cut to what the list reaches."""
    n, n_s = box.length[0], box.low.size
    best, shares = np.empty(n_s), np.empty(n)
    if n < 2 or _largest_sum(box.most, n, best) < 1.0 - SUM_ROOM:
        return False
    for s in range(n_s):
        least, most = 1.0, 0.0
        for c in range(n):
            p = bracket.columns[box.symbols[c], s]
            shares[c] = box.most[c] * p
            least, most = min(least, p), max(most, p)
        # Sums of K positive terms: what rounding adds is a share of them.
        most = (1.0 + SUM_ROOM) * min(most, _largest_sum(shares, n, best))
        least = (1.0 - SUM_ROOM) * least
        if most < box.lower[s] or least > box.upper[s]:
            return False
        if most < box.upper[s]:
            box.high[s] = np.log(most)
        if least > box.lower[s]:
            box.low[s] = np.log(least)
    return True


@compiled_inner
def narrow(bracket: Bracket, box: Box) -> bool:
    """Leave of the box and its list what Σ t = 1 and (1) to (4) leave; False where that is nothing."""
    if not sum_to_one(box):
        return False
    _keep_usable(bracket, box)
    return bool(_reachable(bracket, box)) and bool(sum_to_one(box))
