"""Exact tails of counts: what the rows of a sample rule out about the population they come from.

Everything here errs on the safe side, rounding included: an interval is a little too wide, a radius a little too
large, never the other way round.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.measures import TINY, Array

#: Relative room for rounding; the special functions are good to about 1e-13.
ROUNDING = 1e-9


def checked_counts(counts: ArrayLike, axes: tuple[int, ...] = (2, 3)) -> Array:
    """Counts as an array, if they are whole, not negative, and at least one.

    Args:
        counts: The table.
        axes: Numbers of axes that it may have.

    Raises:
        InvalidInputError: It has another shape, or something in it is no count.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim not in axes or table.size == 0:
        shapes = " or ".join(str(axis) for axis in axes)
        raise InvalidInputError(
            f"a table of counts has {shapes} axes, none empty; this has shape {table.shape}"
        )
    wrong = ~np.isfinite(table) | (table < 0.0) | (table != np.rint(table))
    if wrong.any():
        raise InvalidInputError(
            f"{table[wrong][0]:g} is not a number of rows: give the counts themselves, not shares or weights"
        )
    if table.sum() < 1.0:
        raise InvalidInputError("the table counts no rows: nothing can be said about the population")
    return table


def checked_confidence(confidence: float) -> float:
    """The error probability ``1 − confidence``.

    Raises:
        InvalidInputError: The confidence is not strictly between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidInputError(f"a confidence lies between 0 and 1, for example 0.95; not {confidence!r}")
    return 1.0 - confidence


def clopper_pearson(successes: ArrayLike, n: ArrayLike, tail: float) -> tuple[Array, Array]:
    """Exact (Clopper and Pearson) confidence limits of shares, elementwise.

    Each limit alone is wrong with probability at most ``tail``; both together with at most twice that. Without any
    rows the limits are 0 and 1.

    Args:
        successes: Numbers of rows counted.
        n: Numbers of rows they were counted among.
        tail: Error probability of one limit.
    """
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64))
    some, not_all = k > 0.0, k < n
    low = special.betaincinv(np.where(some, k, 1.0), np.where(some, n - k + 1.0, 1.0), tail)
    high = special.betainccinv(np.where(not_all, k + 1.0, 1.0), np.where(not_all, n - k, 1.0), tail)
    return (
        np.where(some, low * (1.0 - ROUNDING), 0.0),
        np.where(not_all, np.minimum(high * (1.0 + ROUNDING), 1.0), 1.0),
    )


def divergence_radius(dimensions: int, miss: float) -> float:
    """A radius x with ``P(n D(p̂‖p) ≥ x) ≤ miss``, whatever p and n are.

    For n rows of k symbols the generating function of n D(p̂‖p) is at most that of a gamma variable of shape k − 1
    (Agrawal 2020), ``E exp(λ n D) ≤ (1 − λ)^−(k−1)`` for 0 ≤ λ < 1. So for x > d = k − 1

        P(n D ≥ x) ≤ exp(−x) (e x / d)^d,

    of which x = d z with z − log z = 1 + log(1/miss) / d makes ``miss``. Generating functions of independent samples
    multiply, so d may as well be the sum of k − 1 over several of them and n D the sum over their divergences.

    Args:
        dimensions: d, the free parameters of p.
        miss: Error probability.
    """
    if dimensions == 0:
        return 0.0
    return dimensions * float(larger_root(np.array(-math.log(miss) / dimensions))) * (1.0 + ROUNDING)


def larger_root(excess: Array) -> Array:
    """The z ≥ 1 with ``z − log z = 1 + excess`` for excess ≥ 0, from above, elementwise.

    z − log z is convex and increasing there and Newton's method starts above the root (Chatzigeorgiou 2013: it is
    below 1 + √(2·excess) + excess), so that every iterate stays above it.
    """
    z = 1.0 + np.sqrt(2.0 * excess) + excess
    # Newton steps on z − log z, started close by and on the safe side.
    for _ in range(8):
        z = z - (z - np.log(z) - 1.0 - excess) * z / np.maximum(z - 1.0, TINY)
    return np.maximum(z, 1.0)


def divergence_cap(share: Array, radius: float) -> Array:
    """The largest shares p with ``kl(share‖p) ≤ radius`` (two symbols), from above, elementwise.

    Merging all other symbols never raises a divergence, so every single share of a p with D(p̂‖p) ≤ radius is below
    this.
    """
    low, high = np.asarray(share, dtype=np.float64), np.ones_like(share)
    # Halvings of an interval: enough for every bit of a double.
    for _ in range(60):
        middle = 0.5 * (low + high)
        within = binary_divergence(share, middle) <= radius
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return np.minimum(high * (1.0 + ROUNDING), 1.0)


def binary_divergence(p: ArrayLike, q: ArrayLike) -> Array:
    """``kl(p‖q)`` of two coins, nats, elementwise."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    return measures.kl_divergence(np.stack([p, 1.0 - p], axis=-1), np.stack([q, 1.0 - q], axis=-1))
