r"""A proved lower bound of the χ² funnel by its doubly nonnegative relaxation (needs the extra ``sdp``).

Both χ² of a channel are linear in G = Σ_y r_y w_y w_yᵀ, see :mod:`privfunnel.certificate.kinds.chi_squared`. Such
matrices are *completely positive*; asking only that G ⪰ 0 and G ≥ 0 is a semidefinite program below the funnel,

    least ⟨C, G⟩ − 1   subject to   G1 = p_x,   ⟨diag(1/p_x), G⟩ ≥ 1 + ρ,   G ⪰ 0,   G ≥ 0,

and, since both kinds of matrices are the same up to 4 × 4, the χ² funnel itself for M ≤ 4. Clarabel solves it; what
counts is its dual solution, which is verified without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.certificate import Certificate, ChiSquaredBody
from privfunnel.errors import InfeasibleError, InvalidInputError, SolverError, need
from privfunnel.infra.checks import is_number
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Public symbols beyond this make a program that takes minutes and gigabytes.
MOST_SYMBOLS = 60


@dataclass(frozen=True, eq=False)
class ChiSquaredBound:
    """What χ²(S;Y) is at least where χ²(X;Y) ≥ ``requested``.

    Attributes:
        requested: ρ.
        certificate: Proves :attr:`value`.
        matrix: G, where the program ended, shape (M, M); an approximation that nothing rests on.
    """

    requested: float
    certificate: Certificate
    matrix: Array

    @property
    def value(self) -> float:
        """The proved bound."""
        return max(self.certificate.lower_bound(self.requested), 0.0)


def lower_bound(problem: Problem, chi_squared: float) -> ChiSquaredBound:
    """Bound χ²(S;Y) from below for all channels with χ²(X;Y) ≥ ``chi_squared``, with a proof.

    Args:
        problem: The problem, with at most 60 public symbols.
        chi_squared: ρ, from 0 to M − 1.

    Raises:
        InfeasibleError: ρ is more than X itself has.
    """
    if not is_number(chi_squared) or not chi_squared >= 0.0:
        raise InvalidInputError(f"chi_squared={chi_squared!r} is not usable: give a number ≥ 0")
    n_x = problem.n_x
    if chi_squared > n_x - 1 + 1e-9:
        raise InfeasibleError(
            f"chi_squared={chi_squared!r} is infeasible: χ²(X;Y) is at most M − 1 = {n_x - 1}"
        )
    if n_x > MOST_SYMBOLS:
        raise InvalidInputError(
            f"the table has {n_x} public symbols: the relaxation takes up to {MOST_SYMBOLS}; use fewer columns"
        )
    asked = min(float(chi_squared), n_x - 1.0)
    matrix, slope, prices, entries = _solved(problem, asked)
    certificate = ChiSquaredBody.build(problem, slope, prices, entries)
    certificate.verify(problem)
    return ChiSquaredBound(float(chi_squared), certificate, matrix)


def _solved(problem: Problem, asked: float) -> tuple[Array, float, Array, Array]:
    """G and the multipliers μ, z, N of the relaxation, by Clarabel in the scaling H = D^−½ G D^−½, D = diag(p_x).

    In H the identity matrix of X itself has entries of order 1, however rare a symbol is. Unknowns are the upper
    triangle of H column by column, off-diagonal entries times √2, as Clarabel's cone has them.
    """
    clarabel = need("clarabel", extra="sdp")
    n = problem.n_x
    columns, rows = _triangle(n)
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    root = np.sqrt(problem.p_x)
    table = problem.p_s_given_x * root
    cost = (table.T / problem.p_s) @ table
    n_v = rows.size
    # H√p = √p: row i of H times √p
    index = np.arange(n_v)
    upper = sparse.coo_array((root[columns] / weight, (rows, index)), shape=(n, n_v))
    off = rows != columns
    lower = sparse.coo_array(((root[rows] / weight)[off], (columns[off], index[off])), shape=(n, n_v))
    trace = sparse.csr_array((rows == columns).astype(np.float64)[None])
    every: Any = sparse.eye_array(n_v)
    constraints = sparse.csc_matrix(sparse.vstack([upper + lower, -trace, -every, -every]))
    right = np.concatenate([root, [-(1.0 + asked)], np.zeros(2 * n_v)])
    cones = [
        clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(1 + n_v), clarabel.PSDTriangleConeT(n),
    ]  # fmt: skip
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    found = clarabel.DefaultSolver(
        sparse.csc_matrix((n_v, n_v)), cost[rows, columns] * weight, constraints, right, cones, settings
    ).solve()
    dual = np.asarray(found.z, dtype=np.float64)
    if dual.size != right.size or not np.all(np.isfinite(dual)):
        raise SolverError(
            f"the semidefinite program was not solved ({found.status}): try another chi_squared"
        )
    # Back from H to G = D^½ H D^½: multipliers of G are those of H divided by the same roots.
    entries = np.zeros((n, n))
    entries[rows, columns] = entries[columns, rows] = np.maximum(dual[n + 1 : n + 1 + n_v], 0.0) / weight
    matrix = np.zeros((n, n))
    matrix[rows, columns] = matrix[columns, rows] = np.asarray(found.x) / weight
    prices = -2.0 * dual[:n] / root / 2.0
    return matrix * np.outer(root, root), max(float(dual[n]), 0.0), prices, entries / np.outer(root, root)


def _triangle(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Columns and rows of the upper triangle of an n × n matrix, column by column."""
    columns = np.repeat(np.arange(n), np.arange(1, n + 1))
    rows = np.concatenate([np.arange(j + 1) for j in range(n)])
    return columns, rows
