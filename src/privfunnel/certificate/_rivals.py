"""Rivals: pairs of public symbols that some optimal posterior does not use together.

Moving mass between symbols i and j, F is concave where μ ≥ c_ij. Take a minimiser of F with as few symbols as possible:
if it used both, an end of the segment along e_i − e_j would be no worse and use fewer. So it uses at most one of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array


def rivalry(columns: Array) -> Array:
    """Upper bounds on c_ij, the least slope at which symbols i and j exclude each other, shape (M, M).

    With p and q rows of ``columns`` = Pᵀ and m = x p + (1−x) q, the second derivative of F along e_i − e_j is at most

        (1/(w_i + w_j)) [ Σ_k (p_k − q_k)² / m_k − μ / (x (1−x)) ],   x = w_i / (w_i + w_j),

    and x(1−x) Σ (p−q)²/m = 1 − Σ pq/m =: g(x), which is concave. Its maximum c_ij is bracketed by bisection on g' and
    bounded by a tangent, rounding added; 0 for two equal columns, 1 for two that share no private symbol.
    """
    n_x = columns.shape[0]
    c = np.zeros((n_x, n_x))
    for i in range(n_x - 1):
        p, q = columns[i], columns[i + 1 :]
        product = p * q
        low, high = np.zeros(len(q)), np.ones(len(q))
        for _ in range(40):
            x = (low + high) / 2.0
            rising = _overlap(p, q, product, x)[1] > 0.0
            low, high = np.where(rising, x, low), np.where(rising, high, x)
        at_low, slope_low = _overlap(p, q, product, np.maximum(low, 1e-12))
        top = at_low + np.abs(slope_low) * (high - low + 1e-12) + 1e-10
        c[i, i + 1 :] = c[i + 1 :, i] = np.minimum(top, 1.0)
    return c


def _overlap(p: Array, q: Array, product: Array, x: Array) -> tuple[Array, Array]:
    """g(x) = 1 − Σ pq/m and its derivative, for one p (K,), many q (n, K) and x (n,)."""
    m = x[:, None] * p + (1.0 - x[:, None]) * q
    ratio = np.divide(product, m, out=np.zeros_like(product), where=product > 0.0)
    slope = np.divide(ratio * (p - q), m, out=np.zeros_like(product), where=product > 0.0)
    return 1.0 - ratio.sum(axis=1), slope.sum(axis=1)


def rivals(thresholds: Array, slope: float) -> NDArray[np.uint8]:
    """Which pairs of symbols exclude each other at this slope, from :func:`rivalry`'s thresholds, shape (M, M)."""
    exclusive = thresholds <= slope
    np.fill_diagonal(exclusive, False)
    return exclusive.astype(np.uint8)
