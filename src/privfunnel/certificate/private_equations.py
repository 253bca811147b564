"""What posteriors that tell nothing of S satisfy, in whole numbers, so that no rounding stands in a proof about them.

With the counts n(s,x) that a table is a multiple of, n(s) and n(x) their sums and n the sum of all, a posterior w tells
nothing where Σ_x w_x D(s,x)/n(x) = 0 for every s, D(s,x) = n(s,x) n − n(s) n(x). Combinations of these equations are
equations, too; leaving some out makes the posteriors no fewer, which no upper bound minds. Probabilities are multiples
of a power of two, so that they have such counts as well.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.model.equal_symbols import numbered
from privfunnel.model.problem import Problem

#: Whole numbers: of 64 bits, or Python's own where products would not fit these.
Whole = NDArray[Any]

#: Rows of a table beyond which products of counts do not fit whole numbers of 64 bits.
MOST_ROWS = 2**31
#: Binary digits to which the combinations of rows are taken: any combination is an equation.
DIGITS = 52


class Equations(NamedTuple):
    """The equations ``rows @ w = 0`` of posteriors that tell nothing, j of them, about n symbols.

    Attributes:
        rows: Shape (j, n); every entry is right to a few roundings of itself.
        exact: The same in whole numbers, (j, n): rows are in proportion to these divided by ``sizes``.
        sizes: n(x), (n,).
    """

    rows: Array
    exact: Whole
    sizes: Whole

    def of(self, symbols: NDArray[np.intp]) -> Equations:
        """The same of some of the symbols."""
        return Equations(self.rows[:, symbols], self.exact[:, symbols], self.sizes[symbols])


def whole_table(problem: Problem) -> Whole:
    """Whole numbers (K, M) in the proportions of a problem's table, exactly."""
    counts = problem.counts
    if counts is not None and counts.sum() < MOST_ROWS:
        return counts.astype(np.int64)
    return whole_numbers(problem.p_sx if counts is None else counts)


def whole_numbers(table: Array) -> Whole:
    """Whole numbers in the same proportions as the floating-point numbers of a table, exactly."""
    ratios = [float(value).as_integer_ratio() for value in table.flat]
    common = max(below for _, below in ratios)  # powers of two
    whole = np.empty(table.size, dtype=object)
    whole[:] = [above * (common // below) for above, below in ratios]
    return whole.reshape(table.shape)


def deviation(whole: Whole) -> Whole:
    """D, shape (K, M)."""
    n_x, n_s, n = whole.sum(axis=0), whole.sum(axis=1), whole.sum()
    return np.asarray(whole * n - np.outer(n_s, n_x))


def combined(whole: Whole, combinations: Array) -> Whole:
    """Combinations (K, j) of the rows of D, shape (j, M); with two private symbols all are multiples of one row."""
    if len(whole) == 2 and combinations.shape[1] == 1:
        (first,), (second,) = combinations
        return deviation(whole)[1:] if first <= second else deviation(whole)[:1]
    factors = np.rint(np.ldexp(combinations, DIGITS)).astype(np.int64).astype(object)
    return np.asarray(factors.T @ deviation(whole).astype(object)).reshape(-1, whole.shape[1])


def equations_of(whole: Whole, combinations: Array) -> Equations:
    """The equations that some combinations (K, j) of rows make, for a table in whole numbers (K, M).

    Raises:
        CertificateError: The entries of a row are too many orders of magnitude apart.
    """
    exact, n_x, n = combined(whole, combinations), whole.sum(axis=0), whole.sum()
    if exact.dtype == np.int64:
        rows = exact.astype(np.float64) / n_x.astype(np.float64) / float(n)
    else:
        scale = int(n) if len(whole) == 2 else int(n) << DIGITS
        below = [int(size) * scale for size in n_x]
        rows = np.array([[int(v) / b for v, b in zip(row, below, strict=True)] for row in exact])
        rows = rows.reshape(exact.shape)
    # Entries of an equation below this have fewer digits than others; they are refused.
    if np.any((np.abs(rows) < 1e-290) & (exact != 0)):
        raise CertificateError("the table's numbers are too many orders of magnitude apart for a proof")
    return Equations(rows, exact, n_x)


def classes_of(whole: Whole) -> NDArray[np.intp]:
    """The class of each column, (M,), numbered by first appearance: columns of one are multiples of each other."""
    if whole.dtype == np.int64:
        return numbered(whole // np.maximum(np.gcd.reduce(whole, axis=0), 1))
    known: dict[tuple[int, ...], int] = {}
    keys = []
    for column in whole.T:
        values = [int(value) for value in column]
        common = math.gcd(*values)
        keys.append(tuple(value // common for value in values))
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)


def merged(whole: Whole, cells: NDArray[np.int32]) -> Whole:
    """The table of the classes that ``cells`` (M,) put symbols into, (K, C).

    Raises:
        CertificateError: A cell holds columns that are no multiples of each other, which only rounding may hide.
    """
    first = np.unique(cells, return_index=True)[1]
    own = classes_of(whole)
    if not np.array_equal(own, own[first][cells]):
        raise CertificateError("the certificate's cells hold different p(s|x): it is damaged")
    made = np.zeros((len(whole), first.size), dtype=whole.dtype)
    np.add.at(made.T, cells, whole.T)
    return made
