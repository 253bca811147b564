"""Cells of public symbols: what a proof over them may use in place of their members' columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import CertificateError
from privfunnel.measures import Array


def cell_columns(p_s_given_x: Array, cells: NDArray[np.int32] | None) -> tuple[Array, bool]:
    """Columns (K, C) that a tree over cells may use in place of p(s|x), and whether each cell is one class.

    A multiplier q with Σ exp q ≤ 1 has no positive entry, so that p_x·q ≥ p̄_c·q for every x of cell c, p̄_c being the
    elementwise maximum of its columns; and Σ_{x∈c} −w_x log w_x ≥ −W_c log W_c with W_c = Σ_{x∈c} w_x. Hence the bound
    of a box of W over the columns p̄_c holds for every posterior w with these sums. Where the members' columns are
    equal up to rounding this is the certificate of the lumped table, rivals included.
    """
    if cells is None:
        return p_s_given_x, True
    order = np.argsort(cells, kind="stable")
    start = np.searchsorted(cells[order], np.arange(int(cells.max()) + 1))
    sorted_columns = p_s_given_x[:, order]
    highest = np.maximum.reduceat(sorted_columns, start, axis=1)
    lowest = np.minimum.reduceat(sorted_columns, start, axis=1)
    # Columns whose entries agree to this share are one class: the margin of :func:`.rivalry` is a hundred times as
    # wide.
    return highest, bool(np.all(highest - lowest <= 1e-12 * highest))


def spread_within(p_s_given_x: Array, columns: Array, cells: NDArray[np.int32] | None) -> float:
    """By what share the entries of p(s|x), (K, M), are below those of their cells' ``columns`` (K, C), at most."""
    if cells is None:
        return 0.0
    highest = columns[:, cells]
    return float(np.max((highest - p_s_given_x) / np.where(highest > 0.0, highest, 1.0)))


def check_cells(cells: NDArray[np.int32], prices: Array) -> None:
    """Raise CertificateError unless cells are numbered from 0 on, and prices are equal within each; shapes (M,)."""
    if cells.shape != prices.shape or cells.dtype != np.int32:
        raise CertificateError(f"the certificate's cells are not those of {prices.size} public symbols")
    numbers, first = np.unique(cells, return_index=True)
    if not np.array_equal(numbers, np.arange(numbers.size)):
        raise CertificateError(f"the certificate's {numbers.size} cells are not numbered from 0 on")
    if not np.array_equal(prices, prices[first][cells]):
        raise CertificateError("the certificate's prices differ within a cell: it is damaged")
