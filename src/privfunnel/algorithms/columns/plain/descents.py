"""The pricing function F(w) = −H(Pw) + μ H(w) − a·w: its local descents, and exchanges of one symbol for another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.posteriors.boxes import copy, plogp
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array

#: A descent ends with a step that gains less than this share of |F| and this many nats: branch and bound needs many
#: cheap descents, and what is left of the way Newton's method goes faster.
RELATIVE_GAIN, GAIN_NATS = 1e-3, 1e-9
#: Steps after which a descent from a random start has to be among the best to go on.
TRIAL = 12


#: Rows that are descended from before the first look at the clock.
FIRST_ROWS = 16


class Pricing(NamedTuple):
    """The pricing function of one component: ``columns`` Pᵀ (M, K), ``prices`` a (M,), ``slope`` μ ≥ 0; F in nats."""

    columns: Array
    prices: Array
    slope: float


class Exchanges(NamedTuple):
    """The best exchanges of one posterior, each (n,): F after it, the symbol that leaves, the one that enters."""

    values: Array
    leaving: NDArray[np.int64]
    entering: NDArray[np.int64]


@compiled(later=True)
def pricing_value(pricing: Pricing, point: Array, image: Array) -> float:
    """``F(w)`` of a posterior (M,), in nats; ``image`` (K,) is scratch and leaves as ``Pw``."""
    columns, prices, slope = pricing
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


@compiled(later=True)
def descend(pricing: Pricing, point: Array, image: Array, steps: int) -> float:
    """Local descent of F on the support of ``point``, in place; return F there.

    One step is ``w_i <- w_i^(1+μ) exp(a_i - p_i·log t)``, normalised: AEM's own update with fixed prices.
    """
    columns, prices, slope = pricing
    value = pricing_value(pricing, point, image)
    for _ in range(steps):
        for k in range(image.size):
            image[k] = np.log(max(image[k], TINY))
        # The exponents first, inf standing for a symbol that is out; the largest is taken off before exp.
        top = -np.inf
        for i in range(point.size):
            # Entries of a posterior that a descent finds below this are on their way to 0, and are set to it.
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
        new = pricing_value(pricing, point, image)
        if new > value - RELATIVE_GAIN * abs(value) - GAIN_NATS:
            value = min(new, value)
            break
        value = new
    return value


@compiled(later=True)
def descend_rows(pricing: Pricing, starts: Array, steps: int) -> Array:
    """Descend F from every row of ``starts`` (n, M), in place; return the values (n,)."""
    values = np.empty(starts.shape[0])
    image = np.empty(pricing.columns.shape[1])
    for j in range(starts.shape[0]):
        values[j] = descend(pricing, starts[j], image, steps)
    return values


def descend_all(pricing: Pricing, starts: Array, steps: int, deadline: Deadline = NEVER) -> Array:
    """Descend F from every row of ``starts`` (n, M), in place; return the values (n,).

    Rows that the deadline leaves no time for stay as they are, with the value inf.
    """
    values = np.full(len(starts), np.inf)
    for rows in deadline.slices(len(starts), FIRST_ROWS):
        values[rows] = descend_rows(pricing, starts[rows], steps)
    return values


def descend_best(pricing: Pricing, starts: Array, steps: int, deadline: Deadline = NEVER) -> Array:
    """Descend F from some rows of ``starts`` (n, M): a few steps from all, the others from the best quarter.

    Returns that quarter. The rest would end in worse minima, or in the same.
    """
    values = descend_all(pricing, starts, TRIAL, deadline)
    # One in so many of the random starts goes on after that.
    best = starts[np.argsort(values, kind="stable")[: max(1, len(starts) // 4)]]
    descend_all(pricing, best, steps - TRIAL, deadline)
    return best


def exchanges(pricing: Pricing, active: Array, most: int, deadline: Deadline = NEVER) -> Array:
    """Posteriors with one symbol replaced by another: the ``most`` of least F for each of ``active`` (n, M).

    Descents stay on the symbols they start with, or lose some: where a symbol enters, H(w) rises with infinite slope.
    The minima that they miss are mostly one exchange away from a posterior in use. Returns (n·most, M) or fewer.
    """
    found = [exchange_rows(pricing, active[rows], most) for rows in deadline.slices(len(active), FIRST_ROWS)]
    return np.concatenate(found) if found else np.zeros((0, active.shape[1]))


@compiled(later=True)
def exchange_rows(pricing: Pricing, active: Array, most: int) -> Array:
    """:func:`exchanges` for some rows."""
    n, n_x = active.shape
    starts = np.zeros((n * most, n_x))
    image = np.empty(pricing.columns.shape[1])
    best = Exchanges(np.empty(most), np.empty(most, np.int64), np.empty(most, np.int64))
    size = 0
    for j in range(n):
        find_exchanges(pricing, active[j], image, best)
        for b in range(most):
            if best.values[b] < np.inf:
                copy(starts[size], active[j])
                starts[size, best.entering[b]] += active[j, best.leaving[b]]
                starts[size, best.leaving[b]] = 0.0
                size += 1
    return starts[:size]


@compiled(later=True)
def find_exchanges(pricing: Pricing, w: Array, image: Array, best: Exchanges) -> None:
    """Fill ``best`` with the exchanges of least F for a posterior (M,); unused places have the value inf."""
    columns, prices, slope = pricing
    values, leaving, entering = best
    # F without its part −H(Pw), which an exchange changes as a whole; the rest changes in two symbols only.
    separable = pricing_value(pricing, w, image)
    for k in range(image.size):
        separable -= plogp(image[k])
    for b in range(values.size):
        values[b] = np.inf
    for i in range(w.size):
        mass = w[i]
        if not mass > 0.0:
            continue
        for x in range(w.size):
            if x == i:
                continue
            value = separable + prices[i] * mass - prices[x] * mass
            value += slope * (plogp(mass) + plogp(w[x]) - plogp(mass + w[x]))
            for k in range(image.size):
                value += plogp(max(image[k] + mass * (columns[x, k] - columns[i, k]), 0.0))
            worst = 0
            for b in range(1, values.size):
                if values[b] > values[worst]:
                    worst = b
            if value < values[worst]:
                values[worst] = value
                leaving[worst] = i
                entering[worst] = x
