"""Cholesky's factorisation of small positive definite matrices, compiled: to call LAPACK takes longer than this."""

from __future__ import annotations

import numpy as np

from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array


@compiled_inner
def factor(matrix: Array, n: int) -> bool:
    """Write L of ``A = L Lᵀ`` over the leading (n, n) part of a matrix; False where that is not positive definite.

    A is read from the lower triangle, and L is left there; the upper one is not touched.
    """
    for j in range(n):
        for i in range(j, n):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = entry / matrix[j, j]
            elif entry > 0.0:
                matrix[j, j] = np.sqrt(entry)
            else:
                return False
    return True


@compiled_inner
def solve_factored(matrix: Array, right: Array, n: int, first: int) -> None:
    """Solve ``L Lᵀ x = right`` in place with the L that :func:`factor` left; the first n entries of ``right`` are used.

    Those before ``first`` are 0, which saves work where a column of the inverse is asked for.
    """
    for i in range(first, n):
        entry = right[i]
        for k in range(first, i):
            entry -= matrix[i, k] * right[k]
        right[i] = entry / matrix[i, i]
    for i in range(n - 1, -1, -1):
        entry = right[i]
        for k in range(i + 1, n):
            entry -= matrix[k, i] * right[k]
        right[i] = entry / matrix[i, i]
