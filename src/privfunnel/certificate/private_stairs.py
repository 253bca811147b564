r"""Pairs of symbols that tell nothing, all of them by the O(M) along a staircase: for tables with more than are listed.

A pair of a symbol at distance u below p(s) and one at v above it, with weights v/(u+v) and u/(u+v), has for a unit of
moment the entropy c(u, v) = log(1 + v/u)/v + log(1 + u/v)/u, with ∂²c/∂u∂v = 1/(u v (u+v)) > 0. With φ = a/u below and
ψ = a/v above, H(w) − a·w ≥ −ε u v/(u+v) where S = c − φ − ψ ≥ −ε.

Rows in descending u, columns in ascending v: for i < i' and j < j', integrating the mixed derivative gives
S(i, j') − S(i, j) ≥ S(i', j') − S(i', j). A staircase of cells from the first row and column to the last ones crosses
from every column j to the next in one row k(j). For a cell (i, j') right of the staircase, let (i, j) be the last cell
of it in row i; then

    S(i, j') ≥ S(i, j) + Σ_{l=j}^{j'−1} [S(k(l), l+1) − S(k(l), l)],       all k(l) ≥ i,

and the same holds with rows and columns exchanged below it. So S is nowhere less than its least value on the staircase
less the sum of the changes along it: O(M) numbers, all 0 up to rounding where prices are best, bound all M²/4 pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array

Index = NDArray[np.intp]

EPS = float(np.finfo(np.float64).eps)
#: Symbols whose p(s=1|x) is this close to p(s=1) are taken to be at it.
AT = 8.0 * EPS


class Sides(NamedTuple):
    """Symbols below and above p(s=1), as a staircase takes them: largest u first, smallest v first."""

    below: Index
    above: Index
    u: Array
    v: Array


class Staircase(NamedTuple):
    """Cells (row, column) of the north-west-corner plan; from one to the next either row or column grows by 1."""

    row: Index
    column: Index
    moment: Array


def unit_cost(u: Array, v: Array) -> Array:
    """c(u, v) in nats for each unit of moment; both arguments positive."""
    return np.asarray(np.log1p(v / u) / v + np.log1p(u / v) / u)


def north_west(rows: Array, columns: Array) -> Staircase:
    """Fill a transport plan from its first corner: ``rows`` and ``columns`` are amounts with equal sums.

    The cuts of both cumulative sums, merged, are the ends of the plan's cells; no loop.
    """
    up = np.cumsum(rows, dtype=np.longdouble)
    down = np.cumsum(columns, dtype=np.longdouble)
    down *= up[-1] / down[-1]
    cuts = np.concatenate([up[:-1], down[:-1]])
    order = np.argsort(cuts, kind="stable")
    is_row = order < rows.size - 1
    ends = np.concatenate([[0.0], cuts[order], up[-1:]])
    return Staircase(
        np.concatenate([[0], np.cumsum(is_row)]),
        np.concatenate([[0], np.cumsum(~is_row)]),
        np.maximum(np.diff(ends), 0.0).astype(np.float64),
    )


def worst_violation(sides: Sides, stairs: Staircase, phi: Array, psi: Array) -> float:
    """Proved: φ_b + ψ_a − c(u_b, v_a) exceeds this, in nats of a posterior, for no pair; O(M), see the module.

    Any staircase and any potentials will do: the changes along it say how well they fit each other. The rounding of
    every term is added, so that the bound holds for the doubles u and v as they are.
    """
    row, column = stairs.row, stairs.column
    cost = unit_cost(sides.u[row], sides.v[column])
    slack = cost - phi[row] - psi[column]
    rounding = 4.0 * EPS * (cost + np.abs(phi[row]) + np.abs(psi[column]))
    changes = np.abs(np.diff(slack)) + rounding[1:] + rounding[:-1]
    violation = float(np.sum(changes)) * (1.0 + EPS * changes.size) + max(
        float(np.max(rounding - slack)), 0.0
    )
    largest = 1.0 / (1.0 / sides.u[0] + 1.0 / sides.v[-1])
    return float(violation * largest * (1.0 + 8.0 * EPS))


def least_of(distance: Array, prices: Array, masses: Array, below: Index, above: Index) -> float:
    """Proved: H(w) − a·w of pairs of the symbols ``below`` with those ``above`` is at least this, in nats.

    Args:
        distance: |p(s=1|x) − p(s=1)|, up to a factor, shape (n,).
        prices: a, shape (n,).
        masses: p(x) up to a factor, shape (n,): they say which staircase is tried, any would do.
        below: Symbols on one side.
        above: Those on the other side.
    """
    if below.size == 0 or above.size == 0:
        return np.inf
    below = below[np.argsort(-distance[below], kind="stable")]
    above = above[np.argsort(distance[above], kind="stable")]
    sides = Sides(below, above, distance[below], distance[above])
    phi, psi = prices[below] / sides.u, prices[above] / sides.v
    # What prices of R₀ are tight on is the staircase of the plan that they belong to, from its first corner on.
    stairs = north_west(masses[below] * sides.u, masses[above] * sides.v)
    return -worst_violation(sides, stairs, phi, psi)
