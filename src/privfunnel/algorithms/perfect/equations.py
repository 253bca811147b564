"""The equations of a component's perfectly private posteriors, their errors, and the vertices that they have."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from privfunnel.certificate.private_equations import combined as combinations_of
from privfunnel.certificate.private_equations import whole_numbers
from privfunnel.measures import Array

#: Entries within this of 0 are 0.
ZERO = 1e-12
#: Where a direction of P − t is shorter than this, it is worked out in whole numbers, without any rounding,
FAINT = 1e-2
#: unless that takes more multiplications.
MOST_EXACT = 1_000_000

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PrivateEquations:
    """The equations of a component's perfectly private posteriors, ``rows @ w = goal``, well scaled.

    ``P w = t`` and Σ w = 1 say that ``(P − t) w = 0``. Where S and X are nearly independent the entries of P − t are
    tiny beside those of P, so its row space is taken by an orthonormal basis, from the exact numbers of the table where
    rounding would count. Directions that are 0 up to the rounding of P are left out: that makes the polytope no
    smaller, and a posterior that only they exclude leaks some 1e-28 nats.

    Attributes:
        rows: Shape (rank(P), M).
        goal: Shape (rank(P),).
        errors: What the entries of each row are off by at most, shape (rank(P),).
        combinations: Which combinations of rows of P − t the rows are, but for the last, shape (K, rank(P) − 1).
    """

    rows: Array
    goal: Array
    errors: Array
    combinations: Array

    @classmethod
    def of(cls, p_s_given_x: Array, p_x: Array, p_sx: Array | None = None) -> PrivateEquations:
        """The equations for ``P w = P p_x``, p_x (M,) being such a posterior itself.

        Args:
            p_s_given_x: P, shape (K, M).
            p_x: Shape (M,), sums to 1.
            p_sx: What P was computed from, shape (K, M), up to a factor; None where P is all that is known.
        """
        n_s, n_x = p_s_given_x.shape
        target = p_s_given_x @ p_x
        combinations, sizes, basis = np.linalg.svd(p_s_given_x - target[:, None], full_matrices=False)
        noise = 8 * max(n_s, n_x) * _EPS
        rank = int(np.sum(sizes > noise))
        basis, errors = basis[:rank], noise / sizes[:rank]
        faint = rank > 0 and sizes[rank - 1] < FAINT
        if p_sx is not None and faint and rank * p_sx.size <= MOST_EXACT:
            basis = exact_rows(p_sx, combinations[:, :rank])
            errors = np.full(rank, 8 * _EPS)
        # p_x solves them exactly: what rounding makes of it, large where P − t is tiny, is taken out of every row.
        basis = basis - np.outer(basis @ p_x / (p_x @ p_x), p_x)
        rows = np.vstack([basis, np.ones((1, n_x))])
        goal, errors = np.append(np.zeros(rank), 1.0), np.append(errors, n_x * _EPS)
        return cls(rows, goal, errors, combinations[:, :rank])

    @property
    def n_supports(self) -> int:
        """Number of candidate supports of a vertex: subsets of rank(P) symbols."""
        rank, n_x = self.rows.shape
        return math.comb(n_x, rank)

    def vertices(self) -> tuple[Array, Array]:
        """All vertices of ``{w ≥ 0, rows @ w = goal}`` from every support of rank(P) symbols, and their errors.

        Both have shape (n, M). A support whose least value is below 0 by no more than its error counts: its vertex may
        be there.
        """
        rank, n_x = self.rows.shape
        sizes = np.linalg.norm(self.rows, axis=0)
        found: dict[bytes, tuple[Array, Array]] = {}
        supports = itertools.combinations(range(n_x), rank)
        while True:
            # Supports that are looked at together.
            chunk = np.array(list(itertools.islice(supports, 20_000)), dtype=np.intp)
            if chunk.size == 0:
                break
            systems = np.moveaxis(self.rows[:, chunk], 0, 1)
            # Supports whose determinant is below this share of the largest that columns of their lengths could have
            # are singular.
            solid = np.abs(np.linalg.det(systems)) > 1e-12 * np.prod(sizes[chunk], axis=1)
            chunk, systems = chunk[solid], systems[solid]
            goals = np.broadcast_to(self.goal, (len(systems), rank))
            values = np.linalg.solve(systems, goals[..., None])[..., 0]
            # A support whose least value is below this is no vertex, whatever rounding did to it.
            near = values.min(axis=1, initial=np.inf) > -1e-2
            chunk, values = chunk[near], values[near]
            # To first order w is off by |A⁻¹| times what the equations are, the entries of w being at most 1.
            errors = np.abs(np.linalg.inv(systems[near])) @ self.errors
            for support, value, error in zip(chunk, values, errors, strict=True):
                if np.any(value < -np.maximum(error, ZERO)):
                    continue
                vertex, off = np.zeros((2, n_x))
                vertex[support], off[support] = np.where(value > ZERO, value, 0.0), error
                # Decimals to which two vertices agree that are the same.
                found.setdefault(np.round(vertex, 9).tobytes(), (vertex, off))
        vertices = [self.polish(vertex) for vertex, _ in found.values()]
        return np.array(vertices).reshape(-1, n_x), np.array([off for _, off in found.values()]).reshape(
            -1, n_x
        )

    def polish(self, vertex: Array) -> Array:
        """The vertex again, with its equations met to rounding: one correction on its own support."""
        used = vertex > 0.0
        part = self.rows[:, used]
        w = vertex[used] + np.linalg.lstsq(part, self.goal - part @ vertex[used], rcond=None)[0]
        out = np.zeros_like(vertex)
        out[used] = np.maximum(w, 0.0)
        return np.asarray(out / out.sum())


def exact_rows(p_sx: Array, combinations: Array) -> Array:
    """Combinations of the rows of P − t, each scaled to length 1, right to the last digit however small P − t is.

    With the counts n(s,x) that p_sx is a multiple of, n(s) and n(x) their sums and n the sum of all, the entry (s, x)
    of P − t is (n(s,x) n − n(s) n(x)) / (n(x) n): whole numbers until the division, which is rounded once.

    Args:
        p_sx: Shape (K, M).
        combinations: Shape (K, n).

    Returns:
        Shape (n, M).
    """
    whole = whole_numbers(p_sx)
    n_x, n, combined = whole.sum(axis=0), whole.sum(), combinations_of(whole, combinations)
    most = max((abs(value) for value in combined.flat), default=0) or 1  # a common factor, against underflow
    rows = np.array(
        [[int(row[x]) * int(n) / (int(n_x[x]) * most) for x in range(n_x.size)] for row in combined]
    )
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
