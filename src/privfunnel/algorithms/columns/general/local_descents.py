"""Local descent of F over attackers' images, compiled: from the point of a box, and from anywhere."""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.columns.general.box_relaxation import Pricing, Work
from privfunnel.algorithms.columns.general.images import Images, fill_image
from privfunnel.algorithms.posteriors.boxes import plogp
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array

#: Steps of the descent from each box's point, and entries below which it drops a symbol.
DESCENT_STEPS, VANISHED = 12, 1e-12
#: A descent ends with a step that gains less than this, in nats.
LEAST_GAIN = 1e-10


@compiled
def value_of(pricing: Pricing, point: Array, work: Work) -> float:
    """``F(w)`` of a posterior (M,), in nats; t and T are left in ``work``."""
    value = fill_image(pricing.images, point, work.image, work.sums)
    for i in range(point.size):
        value -= pricing.prices[i] * point[i] + pricing.slope * plogp(point[i])
    return value


@compiled
def fill_exponents(images: Images, image: Array, sums: Array, exponents: Array) -> None:
    """Subtract ``columns·log(t/T)`` from some exponents (M,)."""
    columns, starts, members, first = images
    for b in range(sums.size):
        for m in range(first[b], first[b + 1]):
            total = 0.0
            for k in range(starts[b], starts[b + 1]):
                total += columns[members[m], k] * np.log(max(image[k], TINY) / max(sums[b], TINY))
            exponents[members[m]] -= total


@compiled
def descend(pricing: Pricing, total: float, point: Array, goal: float, work: Work) -> float:
    """Local descent of F on the support of ``point``, in place; return F there.

    The step is that of :func:`.pricing.descend`, ``total`` being Θ, the sum of the attackers' weights. It ends where
    as many steps as are left, with the last one's gain each, would not reach ``goal``: later ones gain less.
    """
    value = value_of(pricing, point, work)
    exponents = work.vertex
    for left in range(DESCENT_STEPS - 1, -1, -1):
        for i in range(point.size):
            exponents[i] = pricing.prices[i]
        fill_exponents(pricing.images, work.image, work.sums, exponents)
        top = -np.inf
        for i in range(point.size):
            if point[i] > VANISHED:
                exponents[i] = (1.0 + pricing.slope / total) * np.log(point[i]) + exponents[i] / total
                top = max(top, exponents[i])
        norm = 0.0
        for i in range(point.size):
            point[i] = np.exp(exponents[i] - top) if point[i] > VANISHED else 0.0
            norm += point[i]
        for i in range(point.size):
            point[i] /= norm
        new = value_of(pricing, point, work)
        if new > value - LEAST_GAIN or new - left * (value - new) >= goal:
            return min(new, value)
        value = new
    return value
