"""Local descents from everywhere, compiled: what a long proof would come upon is found in a second before it.

A descent keeps the symbols that it starts with or loses some, and local minima of F differ in theirs. Against many
attackers hundreds of sets of symbols have one next to the least; a proof that meets one below its cutoff was in vain.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.columns.general.box_relaxation import Pricing, Work, new_work
from privfunnel.algorithms.columns.general.branching import Bracket
from privfunnel.algorithms.columns.general.images import images_of
from privfunnel.algorithms.columns.general.local_descents import LEAST_GAIN, descend, value_of
from privfunnel.algorithms.deadline import Deadline
from privfunnel.certificate.attacker_images import stack
from privfunnel.infra.jit import compiled
from privfunnel.infra.signals import unveiled
from privfunnel.measures import TINY, Array
from privfunnel.model.threat import Stratum, Threat

#: Posteriors to descend from, how many of them before the first look at the clock, and the shape of their weights.
STARTS, FIRST, SHAPE = 1000, 32, 2.0


@compiled
def descend_all(
    pricing: Pricing, total: float, points: Array, cutoff: float, descents: int, work: Work
) -> Array:
    """Local descents of F from posteriors (n, M), in place, for as long as they gain; F where they end, (n,).

    So many ``descents`` of some steps each are made from one posterior, at most. One that would not come below
    ``cutoff`` at the pace of its last steps is left where it is. ``total`` is Θ.
    """
    values = np.zeros(len(points))
    for n in range(len(points)):
        value = value_of(pricing, points[n], work)
        for left in range(descents - 1, -1, -1):
            new = descend(pricing, total, points[n], np.inf, work)
            gain = value - new
            value = new
            if gain < LEAST_GAIN or value - left * gain >= cutoff:
                break
        values[n] = value
    return values


def starts(rng: Generator, n_x: int) -> Array:
    """Random posteriors (n, M), each on symbols that are as many as chance has it."""
    used = rng.random((STARTS, n_x)) < rng.random((STARTS, 1))
    used[np.arange(STARTS), rng.integers(n_x, size=STARTS)] = True
    points = np.where(used, rng.gamma(SHAPE, size=(STARTS, n_x)) + TINY, 0.0)
    return np.asarray(points / points.sum(axis=1, keepdims=True))


def scatter(
    stratum: Stratum,
    threat: Threat,
    bracket: Bracket,
    cutoff: float,
    descents: int,
    rng: Generator,
    deadline: Deadline,
) -> Array:
    """Posteriors (n, M) of the stratum with F below ``cutoff``, for what :func:`.compiled_branching.is_for` says.

    A local minimum of a flat F takes more ``descents``.
    """
    images = stack(stratum, threat, bracket.weights.tolist(), zero=False)
    pricing = Pricing(images_of(images), bracket.prices, bracket.slope)
    n_x, size = images.columns.shape
    work = new_work(n_x, size, pricing.images.starts.size - 1)
    points = starts(rng, n_x)
    values = np.full(len(points), np.inf)
    for some in deadline.slices(len(points), FIRST):
        with unveiled():
            values[some] = descend_all(
                pricing, float(bracket.weights.sum()), points[some], cutoff, descents, work
            )
    return np.asarray(points[values < cutoff])
