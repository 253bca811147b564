"""Local descents of the pricing function F(w) = −H(Pw) + μ H(w) − a·w, and exchanges of one symbol for another."""

from __future__ import annotations

import numpy as np

from privfunnel.measures import Array
from privfunnel.solvers.jit import compiled
from privfunnel.solvers.posteriors.boxes import copy, plogp


@compiled
def pricing_value(columns: Array, prices: Array, slope: float, point: Array, image: Array) -> float:
    """``F(w)`` of a posterior (M,), in nats; ``image`` (K,) is scratch and leaves as ``Pw``."""
    value = 0.0
    for k in range(image.size):
        image[k] = 0.0
    for i in range(point.size):
        if point[i] > 0.0:
            value -= prices[i] * point[i] + slope * plogp(point[i])
            for k in range(image.size):
                image[k] += columns[i, k] * point[i]
    for k in range(image.size):
        value += plogp(image[k])
    return value


@compiled
def descend(columns: Array, prices: Array, slope: float, point: Array, image: Array, steps: int) -> float:
    """Local descent of F on the support of ``point``, in place; return F there.

    One step is ``w_i <- w_i^(1+μ) exp(a_i - p_i·log t)``, normalised: AEM's own update with fixed prices.
    """
    value = pricing_value(columns, prices, slope, point, image)
    for _ in range(steps):
        top = -np.inf
        for k in range(image.size):
            image[k] = np.log(max(image[k], 1e-300))
        for i in range(point.size):
            if point[i] > 1e-14:
                exponent = (1.0 + slope) * np.log(point[i]) + prices[i]
                for k in range(image.size):
                    exponent -= columns[i, k] * image[k]
                point[i] = exponent
                top = max(top, exponent)
            else:
                point[i] = np.inf
        total = 0.0
        for i in range(point.size):
            point[i] = np.exp(point[i] - top) if point[i] < np.inf else 0.0
            total += point[i]
        for i in range(point.size):
            point[i] /= total
        new = pricing_value(columns, prices, slope, point, image)
        if new > value - 1e-3 * abs(value) - 1e-9:
            value = min(new, value)
            break
        value = new
    return value


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
