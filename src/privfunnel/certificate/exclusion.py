"""Rivals: pairs of public symbols that some optimal posterior does not use together.

Moving mass between symbols i and j, F is concave where μ ≥ c_ij. Take a minimiser of F with as few symbols as possible:
if it used both, an end of the segment along e_i − e_j would be no worse and use fewer. So it uses at most one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import CertificateError
from privfunnel.measures import Array

#: The tangent is taken no nearer to 0 than this, where g' may be huge; the interval is taken as much wider.
_LEAST_X = 1e-12
#: Symbols up to which there are tables of pairs: (M, M) thresholds take 2 GiB then.
MOST_SYMBOLS = 16_384
#: Bytes of the tables that are remembered; the newest always is.
MOST_REMEMBERED = 64 << 20
_REMEMBERED: dict[bytes, Array] = {}


def check_size(n_x: int) -> None:
    """Raise CertificateError where a table of all pairs of M symbols would take more memory than a proof may."""
    if n_x > MOST_SYMBOLS:
        raise CertificateError(
            f"the certificate compares all pairs of {n_x} classes, and proofs do that for {MOST_SYMBOLS} at most: "
            "it is damaged"
        )


def rivalry(columns: Array, stop: Callable[[float], bool] | None = None) -> Array:
    """Upper bounds on c_ij, the least slope at which symbols i and j exclude each other, shape (M, M).

    With p and q rows of ``columns`` = Pᵀ and m = x p + (1−x) q, the second derivative of F along e_i − e_j is at most

        (1/(w_i + w_j)) [ Σ_k (p_k − q_k)² / m_k − μ / (x (1−x)) ],   x = w_i / (w_i + w_j),

    and x(1−x) Σ (p−q)²/m = 1 − Σ pq/m =: g(x), which is concave. Its maximum c_ij is bracketed by bisection on g' and
    bounded by a tangent, rounding added; 0 for two equal columns, 1 for two that share no private symbol.

    It takes some 400 M² K operations. The last tables are remembered: a search and its checker ask for the same.

    Args:
        columns: Pᵀ, shape (M, K).
        stop: Asked now and then with the share that is done; True ends the work.

    Raises:
        TimeoutError: It was stopped.
        CertificateError: There are more symbols than proofs may compare.
    """
    check_size(len(columns))
    key = hashlib.sha256(repr(columns.shape).encode() + np.ascontiguousarray(columns).tobytes()).digest()
    known = _REMEMBERED.pop(key, None)
    if known is None:
        known = _rivalry(columns, stop)
        known.setflags(write=False)
    _REMEMBERED[key] = known  # the newest is the last
    while len(_REMEMBERED) > 1 and sum(table.nbytes for table in _REMEMBERED.values()) > MOST_REMEMBERED:
        del _REMEMBERED[next(iter(_REMEMBERED))]
    return known


def _rivalry(columns: Array, stop: Callable[[float], bool] | None) -> Array:
    n_x, n_s = columns.shape
    c = np.zeros((n_x, n_x))
    # The pairs i < j in order; those of i begin at begin[i]. A list of them all would take more memory than c.
    begin = np.arange(n_x) * (2 * n_x - 1 - np.arange(n_x)) // 2
    pairs = n_x * (n_x - 1) // 2
    # Pairs are taken together up to this many entries of their columns: the work stays in cache and memory bounded.
    most = max(1, 16_384 // n_s)
    for start in range(0, pairs, most):
        if stop is not None and stop(start / pairs):
            raise TimeoutError
        number = np.arange(start, min(start + most, pairs))
        i = np.searchsorted(begin, number, side="right") - 1
        j = number - begin[i] + i + 1
        c[i, j] = c[j, i] = _thresholds(columns[i], columns[j])
    return c


def _thresholds(p: Array, q: Array) -> Array:
    """The bound on c_ij for pairs of columns (n, K), shape (n,)."""
    product = p * q
    # Where the product is 0, any m > 0 gives the term 0 that belongs there.
    absent = np.where(product > 0.0, 0.0, 1.0)
    low, high = np.zeros(len(p)), np.ones(len(p))
    # Halvings of [0, 1] in the search for the top of g: they leave an interval of 1e-12, and the tangent at its lower
    # end bounds g on all of it.
    for _ in range(40):
        x = (low + high) / 2.0
        rising = _overlap(p, q, product, absent, x)[1] > 0.0
        low, high = np.where(rising, x, low), np.where(rising, high, x)
    at_low, slope_low = _overlap(p, q, product, absent, np.maximum(low, _LEAST_X))
    # Added to every threshold: more than rounding, and a hundred times what columns of one class may differ by. A
    # threshold that is too high only leaves a pair unused; one that is too low would be wrong.
    top = at_low + np.abs(slope_low) * (high - low + _LEAST_X) + 1e-10
    return np.minimum(top, 1.0)


def _overlap(p: Array, q: Array, product: Array, absent: Array, x: Array) -> tuple[Array, Array]:
    """g(x) = 1 − Σ pq/m and its derivative for pairs p, q (n, K) with the given products, and x (n,)."""
    # Sums of positive terms alone: every entry of m keeps its relative accuracy, also where p or q is tiny.
    m = x[:, None] * p + (1.0 - x[:, None]) * q + absent
    ratio = product / m
    return 1.0 - ratio.sum(axis=1), (ratio * (p - q) / m).sum(axis=1)


def rivals(thresholds: Array, slope: float) -> NDArray[np.uint8]:
    """Which pairs of symbols exclude each other at this slope, from :func:`rivalry`'s thresholds, shape (M, M)."""
    exclusive = thresholds <= slope
    np.fill_diagonal(exclusive, False)
    return exclusive.astype(np.uint8)


def cliques_of(exclusive: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Symbols grouped so that any two of a group are rivals, from :func:`rivals`' table: the group of each, (M,).

    As few groups as a greedy choice makes: each begins with the symbol of the fewest rivals that are left, and takes in
    the one with the most rivals among those that still fit, as long as there is one.
    """
    rival = exclusive.astype(bool)
    group = np.full(len(rival), -1, dtype=np.int32)
    number = 0
    while np.any(left := group < 0):
        known = np.where(left, rival[:, left].sum(axis=1), len(rival) + 1)
        symbol = int(np.argmin(known))
        fitting = left & rival[symbol]
        known = rival[:, fitting].sum(
            axis=1
        )  # rivals among those that fit, kept up to date as these become fewer
        group[symbol] = number
        while fitting.any():
            symbol = int(np.argmax(np.where(fitting, known, -1)))
            group[symbol] = number
            gone = fitting & ~rival[symbol]
            known = known - rival[:, gone].sum(axis=1)
            fitting &= rival[symbol]
        number += 1
    return group
