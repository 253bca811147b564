r"""R₀ with three private symbols: every perfectly private posterior is a triangle around p(s), and all are looked at.

Where P − p(s) has rank 2, let q_x be its columns in the plane. P w = p(s) says that Σ w_x q_x = 0, so that a vertex is
a symbol at 0, two opposite ones, or a triangle around 0. With r_x the length of q_x and unit vectors u_x,

    w_i : w_j : w_k = sin(j,k)/r_i : sin(k,i)/r_j : sin(i,j)/r_k,       sin(i,j) = u_i × u_j.

For any prices a no mixture has less entropy than a·p_x + min (H(w) − a·w) over the vertices, M³/24 of them or so: a
second of compiled work for a thousand symbols. :func:`least` goes through all of them, with what rounding may do to
each; :func:`generate` finds the prices by column generation, at prices smoothed towards the best so far, since those of
the program swing.

**Rounding.** The q_x are right to the last digits (:func:`.equations.exact_rows`), so that the three weights are off by
NOISE/r before they are scaled to sum to 1. Triangles of which all sines are below FLAT are flat: two symbols lie on one
side of 0, and one on the other. Σ w q = 0 holds for projections on the line of that one, too, where H(w) − a·w is
concave, so that one of its two pairs is no better: pairs opposite to each other within 2·FLAT are looked at instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.jit import compiled
from privfunnel.measures import TINY, Array, entropy, xlogx
from privfunnel.solvers.deadline import Limits
from privfunnel.solvers.perfect.equations import exact_rows
from privfunnel.solvers.perfect.program import MixtureProgram

#: Up to so many symbols: M³/24 triangles, and M² sines and logarithms.
MOST_SYMBOLS = 1500
#: Symbols whose p(s|x) are this close to p(s) are taken to be at it: the table's own rounding.
AT = 8.0 * float(np.finfo(np.float64).eps)
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
#: Of the triangles one in so many is looked at while value and bound are further apart than this, in nats.
SOME, FAR = 4, 0.05
#: How much of the best prices so far there is in those looked at, and the gaps in nats below which it is halved, or 0.
SMOOTH, NEAR, NEARLY = 0.85, 1e-3, 5e-5
#: Less of it is none; a proof takes so many times what a look at all triangles does, with room.
LEAST_SMOOTH, LAST = 0.05, 4.0
#: R₀ is proved where this is missing, in nats.
PROVED = 1e-7
#: Columns that gain less are left out; beyond MANY for each symbol they are cut down to FEW.
GAIN, MANY, FEW = 1e-9, 20, 6
#: Lines of triangles before the first look at the clock.
FIRST_LINES = 4

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


def plane_of(p_s_given_x: Array, p_x: Array, p_sx: Array) -> Plane:
    """The plane of P − p(s), (K, M) of rank 2, in whole numbers until the last step."""
    deviation = p_s_given_x - (p_s_given_x @ p_x)[:, None]
    q = exact_rows(p_sx, np.linalg.svd(deviation, full_matrices=False)[0][:, :2])
    radius, angle = np.hypot(q[0], q[1]), np.arctan2(q[1], q[0])
    off = np.flatnonzero((radius > 0.0) & (np.abs(deviation).max(axis=0) > AT))
    order = off[np.argsort(angle[off], kind="stable")]
    u, angle, inverse = q[:, order] / radius[order], angle[order], 1.0 / radius[order]
    sines = np.abs(np.outer(u[0], u[1]) - np.outer(u[1], u[0]))
    first = np.searchsorted(angle, angle + (math.pi - ASTRAY))
    last = np.searchsorted(angle, angle + (math.pi + ASTRAY), side="right")
    return Plane(order, sines, np.log(np.maximum(sines, TINY)), inverse, np.log(inverse), first, last, angle)


@compiled
def sweep(plane: Plane, prices: Array, lines: Index, least: Array, others: Index) -> None:
    """Lower ``least`` (n,) to the least H(w) − a·w of triangles with each symbol, and say which ``others`` (n, 2).

    Those are looked at whose first symbol is one of ``lines``; ``prices`` (n,) are in the plane's order.
    """
    _, sines, logs, inverse, log_inverse, first, last, _ = plane
    for i in lines:
        for j in range(i + 1, last[i]):
            across = sines[i, j]
            for k in range(max(first[i], j + 1), last[j]):
                if across <= FLAT and sines[j, k] <= FLAT:
                    continue  # rounding has made its weights; its pairs are sides of other triangles
                b_i, b_j, b_k = sines[j, k] * inverse[i], sines[i, k] * inverse[j], across * inverse[k]
                total = b_i + b_j + b_k
                told = b_i * (logs[j, k] + log_inverse[i] + prices[i])
                told += b_j * (logs[i, k] + log_inverse[j] + prices[j])
                told += b_k * (logs[i, j] + log_inverse[k] + prices[k])
                value = np.log(total) - told / total
                if value < least[i]:
                    least[i], others[i, 0], others[i, 1] = value, j, k
                if value < least[j]:
                    least[j], others[j, 0], others[j, 1] = value, i, k
                if value < least[k]:
                    least[k], others[k, 0], others[k, 1] = value, i, j


@compiled
def least_of(plane: Plane, prices: Array, begin: int, end: int, least: float) -> float:
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


def least(plane: Plane, prices: Array, limits: Limits) -> float:
    """What H(w) − a·w is at least for every perfectly private w, in nats, no more than 0; −∞ where there is no time.

    Args:
        plane: The plane.
        prices: a, shape (M,).
        limits: When to stop.
    """
    alone = np.setdiff1d(np.arange(prices.size), plane.order)
    i, j, share = pairs_of(plane)
    size = np.abs(prices[i]) + np.abs(prices[j])
    paired = -xlogx(share) - xlogx(1.0 - share) - share * prices[i] - (1.0 - share) * prices[j]
    paired -= PAIRED * size - 2.0 * PAIRED * math.log(PAIRED) + SUMMED * (1.0 + size)
    bound = min(float(np.min(-prices[alone], initial=0.0)), float(np.min(paired, initial=0.0)))
    own, n, done = np.ascontiguousarray(prices[plane.order]), plane.order.size, 0
    for part in limits.slices(n, FIRST_LINES):
        bound = least_of(plane, own, part.start, part.stop, bound)
        done = part.stop
    return bound if done == n else -math.inf


def posteriors_of(plane: Plane, symbols: Index, n_x: int) -> Array:
    """The posteriors (n, M) of triangles (n, 3) by their places in the plane's order."""
    i, j, k = np.sort(symbols, axis=1).T
    sines, inverse = plane.sines, plane.inverse
    b = np.stack([sines[j, k] * inverse[i], sines[i, k] * inverse[j], sines[i, j] * inverse[k]], axis=1)
    made = np.zeros((len(symbols), n_x))
    np.put_along_axis(
        made, plane.order[np.stack([i, j, k], axis=1)], b / b.sum(axis=1, keepdims=True), axis=1
    )
    return made


def is_for(rows: Array, limits: Limits) -> bool:
    """Whether the vertices of some equations (rank, M) are triangles, few enough, to be compiled, and to be proved."""
    return (
        rows.shape[0] == 3
        and rows.shape[1] <= MOST_SYMBOLS
        and limits.nodes > 0
        and hasattr(sweep, "py_func")
    )


class Prices(NamedTuple):
    """Prices (M,) that are known to prove something: no mixture has less entropy than ``bound``, in nats."""

    prices: Array
    bound: float


def generate(program: MixtureProgram, plane: Plane, limits: Limits) -> float:
    """Add vertices until none improves by 1e-7 nats or the limits stop it; return what is left to gain at most."""
    p_x, n_x = program.p_x, program.p_x.size
    program.add(np.eye(n_x)[np.setdiff1d(np.arange(n_x), plane.order)])
    best: Prices | None = None
    # Compiled, or read from the cache, before it is timed.
    _best_triangles(plane, p_x, (plane.order.size, 1), limits)
    least_of(plane, p_x, 0, 0, 0.0)
    smooth, some, turn, taken = SMOOTH, SOME, 0, 0.0
    while True:
        value, _, prices = program.solve()
        asked = prices if best is None or smooth == 0.0 else smooth * best.prices + (1.0 - smooth) * prices
        whole, started = some == 1, limits.elapsed()
        gains, found = _best_triangles(plane, asked, (turn % some, some), limits)
        taken = max(taken, some * (limits.elapsed() - started))
        turn += 1
        reached = float(asked @ p_x) + gains
        if best is None or reached > best.bound:
            best = Prices(asked, reached)
        gap = value - best.bound
        if limits.left() < LAST * taken or (whole and gap <= PROVED):
            break
        if gap < FAR and not whole:
            some, best = 1, Prices(best.prices, -math.inf)  # what a part of the triangles says is no bound
        elif gap < NEAR:
            smooth = 0.0 if gap < NEARLY else min(smooth, 0.5 * SMOOTH)
        if not program.add(found[entropy(found) - found @ prices < -GAIN]):
            if whole and asked is prices:
                break
            some, smooth = 1 if smooth == 0.0 else some, 0.5 * smooth if smooth > LEAST_SMOOTH else 0.0
        elif len(program.pool) > MANY * n_x:
            costs = entropy(program.pool) - program.pool @ prices
            program.keep(np.argsort(costs, kind="stable")[: FEW * n_x])
    value, _, _ = program.solve()
    return max(value - float(best.prices @ p_x) - least(plane, best.prices, limits), 0.0)


def _best_triangles(
    plane: Plane, prices: Array, lines: tuple[int, int], limits: Limits
) -> tuple[float, Array]:
    """The least H(w) − a·w of triangles, no more than 0, and the posteriors (m, M) that are best for their symbols.

    ``lines`` are the first of their first symbols and from one to the next.
    """
    (begin, step), n = lines, plane.order.size
    own = np.ascontiguousarray(prices[plane.order])
    gains, others = np.zeros(n), np.zeros((n, 2), dtype=np.int64)
    chosen = np.arange(begin, n, step)
    sweep(plane, own, chosen[:0], gains, others)
    for part in limits.slices(chosen.size, FIRST_LINES):
        sweep(plane, own, chosen[part], gains, others)
    good = np.flatnonzero(gains < -GAIN)
    corners = np.column_stack([good, others[good]])
    return float(gains.min(initial=0.0)), posteriors_of(plane, corners, prices.size)
