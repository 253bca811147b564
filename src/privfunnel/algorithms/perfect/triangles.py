r"""R₀ with three private symbols: every perfectly private posterior is a triangle around p(s), and all are looked at.

Where P − p(s) has rank 2 vertices are triangles in a plane: :mod:`privfunnel.certificate.private_triangles` says how,
and goes through all of them for a proof. For any prices a no mixture has less entropy than a·p_x + min (H(w) − a·w)
over the vertices. :func:`generate` finds the prices by column generation, at prices smoothed towards the best so far,
since those of the program swing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import Limits
from privfunnel.algorithms.perfect.equations import exact_rows
from privfunnel.algorithms.perfect.program import MixtureProgram
from privfunnel.certificate.private_triangles import (
    FLAT,
    MOST_SYMBOLS,
    Plane,
    least_of_lines,
    plane_at,
)
from privfunnel.certificate.private_triangles import least as least_of_plane
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array, entropy

#: Symbols whose p(s|x) are this close to p(s) are taken to be at it: the table's own rounding.
AT = 8.0 * float(np.finfo(np.float64).eps)
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


def plane_of(p_s_given_x: Array, p_x: Array, p_sx: Array) -> Plane:
    """The plane of P − p(s), (K, M) of rank 2, in whole numbers until the last step."""
    deviation = p_s_given_x - (p_s_given_x @ p_x)[:, None]
    q = exact_rows(p_sx, np.linalg.svd(deviation, full_matrices=False)[0][:, :2])
    return plane_at(q, np.abs(deviation).max(axis=0) > AT)


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


def least(plane: Plane, prices: Array, limits: Limits) -> float:
    """What H(w) − a·w is at least for every perfectly private w, in nats, no more than 0; −∞ where there is no time.

    Args:
        plane: The plane.
        prices: a, shape (M,).
        limits: When to stop.
    """
    return min(least_of_plane(plane, prices, limits.slices(plane.order.size, FIRST_LINES)), 0.0)


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


def generate(program: MixtureProgram, plane: Plane, limits: Limits) -> tuple[float, Array]:
    """Add vertices until none improves by 1e-7 nats or the limits stop it.

    Returns:
        What is left to gain at most, in nats, and the prices (M,) that say so.
    """
    p_x, n_x = program.p_x, program.p_x.size
    program.add(np.eye(n_x)[np.setdiff1d(np.arange(n_x), plane.order)])
    best: Prices | None = None
    # Compiled, or read from the cache, before it is timed.
    _best_triangles(plane, p_x, (plane.order.size, 1), limits)
    least_of_lines(plane, p_x, 0, 0, 0.0)
    smooth, some, turn, taken = SMOOTH, SOME, 0, 0.0
    while True:
        value, _, prices = program.solve(limits)
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
    value, _, _ = program.solve(limits)
    return max(value - float(best.prices @ p_x) - least(plane, best.prices, limits), 0.0), best.prices


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
