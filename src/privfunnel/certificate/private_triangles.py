r"""Posteriors that tell nothing about a private symbol in the plane are triangles: H(w) − a·w of all of them.

With two equations besides Σ w = 1 let q_x be the columns of these in the plane. A vertex is a symbol at 0, two opposite
ones, or a triangle around 0. With r_x the length of q_x and unit vectors u_x,

    w_i : w_j : w_k = sin(j,k)/r_i : sin(k,i)/r_j : sin(i,j)/r_k,       sin(i,j) = u_i × u_j.

There are M³/24 of them or so: a second of compiled work for a thousand symbols.

**Rounding.** The q_x are right to the last digits (:mod:`.private_equations`), so that the three weights are off by
NOISE/r before they are scaled to sum to 1. Triangles of which all sines are below FLAT are flat: two symbols lie on one
side of 0, and one on the other. Σ w q = 0 holds for projections on the line of that one, too, where H(w) − a·w is
concave, so that one of its two pairs is no better: pairs opposite to each other within 2·FLAT are looked at instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.private_equations import Equations
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array, xlogx

#: Up to so many symbols: M³/24 triangles, and M² sines and logarithms; so few are gone through without compiling.
MOST_SYMBOLS, FEW = 1500, 100
#: What a sine of two directions is off by at most, with room: each number in it was rounded three times.
NOISE = 8.0 * float(np.finfo(np.float64).eps)
#: −w log w rises up to here, and changes by no more than −e log e where w changes by e.
LARGEST_LOSS = math.exp(-1.0)
#: Triangles with sines no larger than this are flat; angles that are compared may be off by so much.
FLAT, ASTRAY = 1e-6, 1e-13
#: What the weights of a pair that is opposite within 2·FLAT may be off by, and what sums of a few terms may be.
PAIRED, SUMMED = 1e-11, 1e-12
#: Weights off by less than this share are looked at closely only where the triangle is within so many nats.
SURE, CLOSE = 1e-10, 1e-6
#: Lines of triangles that are gone through together: compiled loops hear no Ctrl-C.
_LINES = 16

Index = NDArray[np.int64]


class Plane(NamedTuple):
    """The symbols that are not at 0, by angle: their numbers (n,), |sin| and its log (n, n), 1/r and its log (n,).

    ``first`` and ``last`` (n,) say which symbols are at least, and at most, half a turn further than each.
    """

    order: Index
    sines: Array
    logs: Array
    inverse: Array
    log_inverse: Array
    first: Index
    last: Index
    angles: Array


def plane_at(q: Array, off: NDArray[np.bool_]) -> Plane:
    """The plane of columns q (2, M), of those symbols that are ``off`` 0, (M,)."""
    radius, angle = np.hypot(q[0], q[1]), np.arctan2(q[1], q[0])
    chosen = np.flatnonzero(off & (radius > 0.0))
    order = chosen[np.argsort(angle[chosen], kind="stable")]
    u, angle, inverse = q[:, order] / radius[order], angle[order], 1.0 / radius[order]
    sines = np.abs(np.outer(u[0], u[1]) - np.outer(u[1], u[0]))
    first = np.searchsorted(angle, angle + (math.pi - ASTRAY))
    last = np.searchsorted(angle, angle + (math.pi + ASTRAY), side="right")
    return Plane(order, sines, np.log(np.maximum(sines, TINY)), inverse, np.log(inverse), first, last, angle)


def available(n: int) -> bool:
    """Whether the triangles of n symbols can be gone through: they are few enough, and compiled."""
    return n <= MOST_SYMBOLS and hasattr(least_of_lines, "py_func")


def least_of(equations: Equations, prices: Array) -> float:
    """Proved: H(w) − a·w, a (n,), is at least this, in nats, for every posterior that satisfies two equations."""
    scales = np.abs(equations.rows).max(axis=1, keepdims=True, initial=0.0)
    q = equations.rows / np.where(scales > 0.0, scales, 1.0)
    plane = plane_at(q, np.any(equations.exact != 0, axis=0))
    n = plane.order.size
    return least(plane, prices, (slice(start, min(start + _LINES, n)) for start in range(0, n, _LINES)))


@compiled
def least_of_lines(plane: Plane, prices: Array, begin: int, end: int, least: float) -> float:
    """The least of ``least`` and of H(w) − a·w over triangles that are not flat, in nats, rounding allowed for."""
    sines, inverse, first, last = plane.sines, plane.inverse, plane.first, plane.last
    for i in range(begin, end):
        for j in range(i + 1, last[i]):
            for k in range(max(first[i], j + 1), last[j]):
                if max(sines[j, k], sines[i, k], sines[i, j]) <= FLAT:
                    continue
                b_i, b_j, b_k = sines[j, k] * inverse[i], sines[i, k] * inverse[j], sines[i, j] * inverse[k]
                total = b_i + b_j + b_k
                value = np.log(total)
                for b, x in ((b_i, i), (b_j, j), (b_k, k)):
                    if b > 0.0:
                        value -= b * (np.log(b) + prices[x]) / total
                spread = NOISE * (inverse[i] + inverse[j] + inverse[k]) / total
                size = abs(prices[i]) + abs(prices[j]) + abs(prices[k])
                if spread > SURE or value < least + CLOSE * (1.0 + size):
                    value -= SUMMED * (1.0 + size)
                    for b, x in ((b_i, i), (b_j, j), (b_k, k)):
                        off = 2.0 * (NOISE * inverse[x] + b * spread) / total
                        share = min(off, LARGEST_LOSS)
                        value -= off * abs(prices[x]) - share * np.log(share)
                    least = min(least, value)
    return least


def pairs_of(plane: Plane) -> tuple[Index, Index, Array]:
    """Pairs on opposite sides of 0, within 2·FLAT: their two symbols, and the weight of the first, each (n,)."""
    turns = plane.angles[None, :] - plane.angles[:, None]
    i, j = np.nonzero(np.abs(turns - math.pi) <= 2.0 * FLAT)
    near, far = plane.inverse[i], plane.inverse[j]
    return plane.order[i], plane.order[j], near / (near + far)


def least(plane: Plane, prices: Array, parts: Iterable[slice]) -> float:
    """What H(w) − a·w is at least for every perfectly private w, in nats; −∞ where lines are left out.

    Args:
        plane: The plane.
        prices: a, shape (M,).
        parts: Lines of triangles, in order; those of a search may end before the last.
    """
    alone = np.setdiff1d(np.arange(prices.size), plane.order)
    i, j, share = pairs_of(plane)
    size = np.abs(prices[i]) + np.abs(prices[j])
    paired = -xlogx(share) - xlogx(1.0 - share) - share * prices[i] - (1.0 - share) * prices[j]
    paired -= PAIRED * size - 2.0 * PAIRED * math.log(PAIRED) + SUMMED * (1.0 + size)
    bound = min(float(np.min(-prices[alone], initial=np.inf)), float(np.min(paired, initial=np.inf)))
    own, n, done = np.ascontiguousarray(prices[plane.order]), plane.order.size, 0
    for part in parts:
        bound = least_of_lines(plane, own, part.start, part.stop, bound)
        done = part.stop
    return bound if done == n else -math.inf
