"""Posteriors as columns of the funnel's linear program: their entries, where to start, how to improve them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from privfunnel.measures import Array, entropy

from ._jit import compiled
from ._relax import copy, plogp
from ._tree import descend, pricing_value

#: Entries of a posterior below this are rounding left over by a descent; they are dropped.
DUST = 1e-12
#: Steps after which a descent from a random start has to be among the best to go on.
TRIAL = 12


@compiled
def descend_all(columns: Array, prices: Array, slope: float, starts: Array, steps: int) -> Array:
    """Descend F from every row of ``starts`` (n, M), in place; return the values (n,)."""
    values = np.empty(starts.shape[0])
    image = np.empty(columns.shape[1])
    for j in range(starts.shape[0]):
        values[j] = descend(columns, prices, slope, starts[j], image, steps)
    return values


def descend_best(columns: Array, prices: Array, slope: float, starts: Array, steps: int) -> Array:
    """Descend F from some rows of ``starts`` (n, M): a few steps from all, the others from the best quarter.

    Returns that quarter. The rest would end in worse minima, or in the same.
    """
    values = descend_all(columns, prices, slope, starts, TRIAL)
    best = starts[np.argsort(values, kind="stable")[: max(1, len(starts) // 4)]]
    descend_all(columns, prices, slope, best, steps - TRIAL)
    return best


@compiled
def exchanges(columns: Array, prices: Array, slope: float, active: Array, most: int) -> Array:
    """Posteriors with one symbol replaced by another: the ``most`` of least F for each of ``active`` (n, M).

    Descents stay on the symbols they start with, or lose some: where a symbol enters, H(w) rises with infinite slope.
    The minima that they miss are mostly one exchange away from a posterior in use. Returns (n·most, M) or fewer.
    """
    n, n_x = active.shape
    n_s = columns.shape[1]
    starts = np.zeros((n * most, n_x))
    image = np.empty(n_s)
    values = np.empty(most)
    leaving = np.empty(most, np.int64)
    entering = np.empty(most, np.int64)
    size = 0
    for j in range(n):
        rest = pricing_value(columns, prices, slope, active[j], image)
        for k in range(n_s):
            rest -= plogp(image[k])
        for b in range(most):
            values[b] = np.inf
        for i in range(n_x):
            mass = active[j, i]
            if not mass > 0.0:
                continue
            for x in range(n_x):
                if x == i:
                    continue
                there = active[j, x]
                value = rest + prices[i] * mass - prices[x] * mass
                value += slope * (plogp(mass) + plogp(there) - plogp(mass + there))
                for k in range(n_s):
                    value += plogp(max(image[k] + mass * (columns[x, k] - columns[i, k]), 0.0))
                worst = 0
                for b in range(1, most):
                    if values[b] > values[worst]:
                        worst = b
                if value < values[worst]:
                    values[worst] = value
                    leaving[worst] = i
                    entering[worst] = x
        for b in range(most):
            if values[b] < np.inf:
                copy(starts[size], active[j])
                starts[size, entering[b]] += active[j, leaving[b]]
                starts[size, leaving[b]] = 0.0
                size += 1
    return starts[:size]


def tidy(posteriors: Array) -> Array:
    """Drop dust from posteriors (n, M) and normalise them."""
    clean = np.where(posteriors > DUST, posteriors, 0.0)
    return np.asarray(clean / clean.sum(axis=1, keepdims=True))


def entries(p_s_given_x: Array, posteriors: Array) -> tuple[Array, Array]:
    """Cost −H(Pw) and resource H(w) of posteriors (n, M), in nats, shapes (n,)."""
    return -entropy(posteriors @ p_s_given_x.T), entropy(posteriors)


def pricing(p_s_given_x: Array, prices: Array, slope: float, posteriors: Array) -> Array:
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


def distinct(posteriors: Array, values: Array, most: int, apart: float = 1e-4) -> Array:
    """The ``most`` best posteriors (n, M), no two within ``apart`` in total variation."""
    kept: list[Array] = []
    for j in np.argsort(values, kind="stable"):
        if len(kept) == most:
            break
        if not kept or np.abs(np.array(kept) - posteriors[j]).sum(axis=1).min() > apart:
            kept.append(posteriors[j])
    return np.array(kept).reshape(len(kept), posteriors.shape[1])
