"""Posteriors as columns of the funnel's linear program: their entries in it, which to keep, where to start."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from privfunnel.measures import Array, entropy

#: Posteriors closer than this in total variation bring the program nothing new.
APART = 1e-4


def tidy(posteriors: Array) -> Array:
    """Drop dust from posteriors (n, M) and normalise them."""
    # Entries of a posterior below this are rounding left over by a descent; they are dropped.
    clean = np.where(posteriors > 1e-12, posteriors, 0.0)
    return np.asarray(clean / clean.sum(axis=1, keepdims=True))


def entries(p_s_given_x: Array, posteriors: Array) -> tuple[Array, Array]:
    """Cost −H(Pw) and resource H(w) of posteriors (n, M), in nats, shapes (n,)."""
    return -entropy(posteriors @ p_s_given_x.T), entropy(posteriors)


def pricing_values(p_s_given_x: Array, prices: Array, slope: float, posteriors: Array) -> Array:
    """F of posteriors (n, M), in nats, shape (n,)."""
    cost, resource = entries(p_s_given_x, posteriors)
    return np.asarray(cost + slope * resource - posteriors @ prices)


def sparse_starts(rng: Generator, n: int, n_x: int, support: int) -> Array:
    """Random posteriors (n, M) on ``support`` symbols each."""
    support = min(support, n_x)
    starts = np.zeros((n, n_x))
    symbols = np.argsort(rng.random((n, n_x)), axis=1)[:, :support]
    np.put_along_axis(starts, symbols, rng.dirichlet(np.ones(support), size=n), axis=1)
    return starts


def distinct(posteriors: Array, values: Array, most: int) -> Array:
    """The ``most`` best posteriors (n, M), no two within :data:`APART` in total variation."""
    kept: list[Array] = []
    for j in np.argsort(values, kind="stable"):
        if len(kept) == most:
            break
        if not kept or np.abs(np.array(kept) - posteriors[j]).sum(axis=1).min() > APART:
            kept.append(posteriors[j])
    return np.array(kept).reshape(len(kept), posteriors.shape[1])
