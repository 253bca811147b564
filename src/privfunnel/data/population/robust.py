"""Worst-case guarantees that hold whatever the population is, within intervals of what the rows tell of each symbol.

p(s|y) of a channel is a mean of p(s|x) with weights in proportion to p(x) p(y|x). Exact limits of all p(s|x), p(x) and
p(s) at once therefore limit every lift of *every* channel, also of one that was designed on the same rows:

    p(s|y)/p(s) ≤ max { Σ_x p_x p(y|x) h_sx / Σ_x p_x p(y|x) : l_x ≤ p_x ≤ u_x } / l_s,

with h the upper limits of p(s|x). The largest mean has p_x at its upper limit where h is large and at its lower one
elsewhere, so that it is found by going through the symbols in the order of h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from privfunnel.data.population.intervals import ROUNDING, checked_confidence, checked_counts, clopper_pearson
from privfunnel.measures import TINY, Array


def population_worst_lift(counts_sx: ArrayLike, channel: Array, confidence: float = 0.95) -> float:
    """An upper bound of the largest ``log p(s|y)/p(s)`` in the population, nats, for every channel at once.

    Nothing needs to be held out: with probability at least ``confidence`` the limits hold for all symbols together, and
    the bound is then true of each channel, also of one designed on these rows. Infinite where nothing is known. Public
    symbols that the table does not have are not covered.

    Args:
        counts_sx: Rows, shape (K, M).
        channel: p(y|x), shape (M, N).
        confidence: For example 0.95.

    Raises:
        InvalidInputError: The counts or the confidence cannot be used.
    """
    counts, miss = checked_counts(counts_sx, axes=(2,)), checked_confidence(confidence)
    n, n_s, n_x = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    # One limit for each p(s|x) and p(s), two for each p(x); of two private symbols, p(s|x) of one is that of the other.
    tail = miss / (counts.size + len(n_s) + 2 * len(n_x))
    high = clopper_pearson(counts, n_x, tail)[1]
    low_s = clopper_pearson(n_s, n, tail)[0]
    low_x, high_x = clopper_pearson(n_x, n, tail)
    weight_low, weight_high = low_x[:, None] * channel, high_x[:, None] * channel
    worst = -np.inf
    for s, limits in enumerate(high):
        mean = _largest_mean(limits, weight_low, weight_high)
        with np.errstate(divide="ignore"):
            worst = max(worst, float(np.log(mean.max() / low_s[s])))
    return worst * (1.0 + ROUNDING) if worst > 0.0 else 0.0


def _largest_mean(values: Array, low: Array, high: Array) -> Array:
    """The largest Σ w v / Σ w over low ≤ w ≤ high, for each column; 0 for one that has no weight at all.

    Args:
        values: v, shape (M,), not negative.
        low: Least weights, shape (M, N).
        high: Largest weights, shape (M, N).
    """
    order = np.argsort(-values, kind="stable")
    v, least, most = values[order][:, None], low[order], high[order]
    # The first symbols at their largest weight, the others at their least: all places to change over are tried.
    above = np.vstack([np.zeros((1, low.shape[1])), np.cumsum(most, axis=0)])
    above_v = np.vstack([np.zeros((1, low.shape[1])), np.cumsum(most * v, axis=0)])
    below, below_v = least.sum(axis=0) - _sums(least), (least * v).sum(axis=0) - _sums(least * v)
    total, weighted = above + np.maximum(below, 0.0), above_v + np.maximum(below_v, 0.0)
    return np.asarray(np.where(total > TINY, weighted / np.maximum(total, TINY), 0.0).max(axis=0))


def _sums(terms: Array) -> Array:
    """Sums of the first 0, 1, …, M terms of each column, shape (M + 1, N)."""
    return np.vstack([np.zeros((1, terms.shape[1])), np.cumsum(terms, axis=0)])
