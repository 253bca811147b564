"""The largest information within simultaneous exact intervals, by chords: certified, not searched for."""

from __future__ import annotations

import numpy as np

from privfunnel import measures
from privfunnel.data.population.intervals import ROUNDING, clopper_pearson
from privfunnel.measures import TINY, Array

#: Of the error probability: for the intervals of p(s|y); the rest is for those of p(y).
CONDITIONAL_SHARE = 0.8


def largest_information(counts: Array, miss: float) -> float:
    """An upper bound of I(S;Y|A) that fails with probability ``miss`` at most, nats.

    For any fixed q_a, I(S;Y|A) ≤ Σ p(y, a) D(p(s|y, a)‖q_a), with equality at q_a = p(s|a); so p(s|a) needs no
    interval. D is convex in p(s|y, a) and lies below the chords of its terms w log(w/q) between the limits of w. With
    the chords, the largest value over the limits and Σ w = 1 is a fractional knapsack, and so is the largest mean of
    these values over the limits of p(y, a).

    Given the number of rows of a column its counts are binomial, so the intervals of Clopper and Pearson hold;
    Bonferroni's inequality joins them.

    Args:
        counts: Rows, shape (K, N, A).
        miss: Error probability.
    """
    n_s, columns = len(counts), counts.shape[1] * counts.shape[2]
    table = counts.reshape(n_s, columns)
    smoothed = counts.sum(axis=1) + 0.5
    reference = np.broadcast_to((smoothed / smoothed.sum(axis=0))[:, None, :], counts.shape).reshape(
        table.shape
    )
    parameters = columns * (1 if n_s == 2 else n_s)
    low, high = clopper_pearson(table, table.sum(axis=0), CONDITIONAL_SHARE * miss / (2 * parameters))
    if n_s == 2:  # one coin a column: the limits of the second symbol are those of the first
        low[1], high[1] = 1.0 - high[0], 1.0 - low[0]
    ends = [measures.xlogx(end) - end * np.log(reference) for end in (low, high)]
    divergence = _knapsack(low, high, ends[0], ends[1])
    low_y, high_y = clopper_pearson(
        table.sum(axis=0), table.sum(), (1.0 - CONDITIONAL_SHARE) * miss / (2 * columns)
    )
    mean = _knapsack(
        low_y[:, None], high_y[:, None], (low_y * divergence)[:, None], (high_y * divergence)[:, None]
    )
    return float(mean[0]) * (1.0 + ROUNDING) + ROUNDING**2


def _knapsack(low: Array, high: Array, at_low: Array, at_high: Array) -> Array:
    """The largest sum of chords over low ≤ w ≤ high with Σ w = 1, along the first axis, for each column."""
    width = high - low
    slope = (at_high - at_low) / np.maximum(width, TINY)
    order = np.argsort(-slope, axis=0)
    width, slope = np.take_along_axis(width, order, 0), np.take_along_axis(slope, order, 0)
    left = np.maximum(1.0 - low.sum(axis=0), 0.0) - (np.cumsum(width, axis=0) - width)
    return np.asarray(at_low.sum(axis=0) + np.sum(slope * np.clip(left, 0.0, width), axis=0))
