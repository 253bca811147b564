"""Split p(x) into perfectly private posteriors with few symbols: the free disclosure that no search has to find.

Let ``rows @ w = goal``, w ≥ 0, be the posteriors that say nothing about S, with as many rows as P has rank. Each vertex
has at most rank(P) symbols, so that its entropy is at most log rank(P); and p(x), being one of these posteriors, is a
mixture of vertices. Hence R0 ≥ H(X) − log rank(P), and the mixture is found greedily: from what is left of p(x), split
off as much of a vertex as fits. That uses up one of its symbols; the simplex method drives it out of the basis, which
is possible because what is left is feasible without it. Every vertex uses up a symbol: there are at most M.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.measures import Array

#: What counts as 0 in values and pivots of the simplex method, whose rows are scaled to order 1.
ZERO = 1e-12
#: Pivots by the largest rate for each symbol of the basis; then by the first one, which cannot cycle.
STEEPEST_PIVOTS, MOST_PIVOTS = 20, 400


class Split(NamedTuple):
    """A mixture of posteriors: weights (n,), and posteriors as a sparse array (n, M), at most rank(P) entries a row.

    The last row may be what rounding kept from being split off, with more entries and next to no weight.
    """

    weights: Array
    posteriors: sparse.csr_array


def _first_basis(rows: Array, p_x: Array, deadline: Deadline) -> NDArray[np.intp] | None:
    """A basis of a vertex: as long as there are more symbols than rows, move within them until one is used up.

    None where there is no time.
    """
    rank, n_x = rows.shape
    values = p_x.copy()
    basis = list(range(min(rank, n_x)))
    for x in range(rank, n_x):
        if deadline.passed():
            return None
        window = [*basis, x]
        move = np.linalg.svd(rows[:, window])[2][-1]
        falling = np.flatnonzero(move < -ZERO)
        if falling.size == 0:
            move, falling = -move, np.flatnonzero(move > ZERO)
        steps = values[window][falling] / -move[falling]
        values[window] += steps.min() * move
        gone = int(falling[np.argmin(steps)])
        values[window[gone]] = 0.0
        basis = window[:gone] + window[gone + 1 :]
    return np.array(basis)


def _drive_out(
    rows: Array, goal: Array, basis: NDArray[np.intp], left: Array, deadline: Deadline
) -> tuple[NDArray[np.intp], Array] | None:
    """A basis whose vertex uses only symbols that are left, and its values; None where rounding or time is short."""
    for pivot in range(MOST_PIVOTS):
        if deadline.passed():
            return None
        try:
            inverse = np.linalg.inv(rows[:, basis])
        except np.linalg.LinAlgError:
            return None
        values = np.maximum(inverse @ goal, 0.0)
        gone = left[basis] <= 0.0
        if values[gone].sum() <= ZERO:
            return basis, np.where(gone, 0.0, values)
        rates = np.where(left > 0.0, inverse[gone].sum(axis=0) @ rows, 0.0)
        rates[basis] = 0.0
        enter = int(np.argmax(rates) if pivot < STEEPEST_PIVOTS * basis.size else np.argmax(rates > ZERO))
        column = inverse @ rows[:, enter]
        falling = np.flatnonzero(column > ZERO)
        if not rates[enter] > ZERO or falling.size == 0:
            return None
        ratios = values[falling] / column[falling]
        # Of those that reach 0 first, a symbol that is gone leaves first, then the one with the largest pivot.
        first = falling[ratios <= ratios.min() + ZERO]
        leave = int(first[np.lexsort((-column[first], ~gone[first]))[0]])
        basis = basis.copy()
        basis[leave] = enter
    return None


def split(rows: Array, goal: Array, p_x: Array, deadline: Deadline = NEVER) -> Split:
    """Split p_x (M,), with ``rows @ p_x = goal``, into vertices of ``{w ≥ 0, rows @ w = goal}``; O(M² rank), no chance.

    What the deadline leaves no time for stays together, one posterior that says nothing about S either.

    Args:
        rows: Shape (rank, M), linearly independent, its last row ones.
        goal: Shape (rank,).
        p_x: Shape (M,), positive.
        deadline: When to stop.
    """
    left = p_x.copy()
    basis = _first_basis(rows, p_x, deadline)
    weights: list[float] = []
    supports: list[NDArray[np.intp]] = []
    entries: list[Array] = []
    while basis is not None and np.count_nonzero(left > 0.0) > 1:
        found = _drive_out(rows, goal, basis, left, deadline)
        if found is None:
            break
        basis, values = found
        used = values > ZERO
        support, vertex = basis[used], values[used] / values[used].sum()
        # A vertex that misses its equations by more than this is none.
        if np.abs(rows[:, support] @ vertex - goal).max() > 1e-11:
            break  # a basis that rounding has spoilt; what is left still says nothing
        ratios = left[support] / vertex
        weight = float(ratios.min())
        left[support] = np.maximum(left[support] - weight * vertex, 0.0)
        left[support[ratios <= weight * (1.0 + ZERO)]] = 0.0
        weights.append(weight)
        supports.append(support)
        entries.append(vertex)
    rest = np.flatnonzero(left > 0.0)
    if rest.size:
        weights.append(float(left[rest].sum()))
        supports.append(rest)
        entries.append(left[rest] / left[rest].sum())
    ends = np.cumsum([0, *(support.size for support in supports)])
    posteriors = sparse.csr_array(
        (np.concatenate(entries), np.concatenate(supports), ends), shape=(len(weights), p_x.size)
    )
    return Split(np.array(weights) / sum(weights), posteriors)
