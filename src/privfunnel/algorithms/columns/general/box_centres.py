"""The centre of a box with curvature, compiled: the one whose bound is largest, and what its bound still loses where.

While D stays as it is, a centre c bounds F by the tangent at c of φ(w) − Σ D_i w_i²/2, which is convex, and by the
convex envelopes of the D_i w²/2 − μ w log w. The best tangent is the one at the least point of their sum, and at that
point the bound misses F by what the envelopes are below their functions. Chords alone have their least point elsewhere.
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.columns.general.box_relaxation import (
    NARROW,
    Pricing,
    Work,
    fill_system,
    mean_product,
    take_step,
)
from privfunnel.algorithms.columns.general.curvature_bounds import Room
from privfunnel.algorithms.columns.general.images import fill_costs, fill_image, fill_multipliers
from privfunnel.algorithms.posteriors.boxes import Box, plogp
from privfunnel.algorithms.posteriors.cholesky import factor
from privfunnel.certificate.curvature import KAPPA
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array

#: Shares of the downward curvature that Newton's matrix has: the first that leaves it definite.
DOWNWARD = (0.95, 0.5, 0.0)
#: Steps of Newton's for where an envelope leaves its chord.
TOUCH_STEPS = 6


@compiled
def bent(slope: float, curvature: float, w: float) -> float:
    """``D w²/2 − μ w log w``, in nats."""
    return float(0.5 * curvature * w * w - slope * plogp(w))


@compiled
def reaching(slope: float, low: float, touch: float) -> float:
    """The D whose envelope over an interval from ``low`` leaves its chord at ``touch``."""
    width = touch - low
    if low <= 0.0:
        return 2.0 * slope / width
    if width <= NARROW * low:
        return slope / low
    return float(2.0 * slope * (width - low * np.log(touch / low)) / (width * width))


@compiled
def envelope(slope: float, curvature: float, low: float, high: float) -> tuple[float, float]:
    """Where the convex envelope of ``D w²/2 − μ w log w`` leaves its chord from ``low``, and the slope of that."""
    touch = high
    if curvature * low >= slope:
        touch = low
    elif high > low and curvature > reaching(slope, low, high):
        # D falls in its touch, and is convex in it: Newton's steps from below stay below, hence above D
        touch = max(low * (1.0 + 1e-6), slope / curvature)
        if low <= 0.0:
            touch = 2.0 * slope / curvature
        else:
            for _ in range(TOUCH_STEPS):
                width = touch - low
                found = reaching(slope, low, touch)
                fall = 2.0 * (found / width - slope / (touch * width))
                if not (found > curvature and fall > 0.0):
                    break
                touch = min(touch + (found - curvature) / fall, high)
    if touch <= low:
        return low, 0.0
    return touch, (bent(slope, curvature, touch) - bent(slope, curvature, low)) / (touch - low)


@compiled
def loosest_bend(slope: float, box: Box, point: Array, curvature: Array) -> int:
    """The symbol whose envelope is furthest below its function at ``point`` (M,); −1 where none is below."""
    chosen = -1
    loosest = 0.0
    for i in range(point.size):
        low = box.lower[i]
        high = box.upper[i]
        if high - low > NARROW:
            w = min(max(point[i], low), high)
            touch, rate = envelope(slope, curvature[i], low, high)
            lost = bent(slope, curvature[i], w) - bent(slope, curvature[i], low) - rate * (w - low)
            if w < touch and lost > loosest:
                loosest = lost
                chosen = i
    return chosen


@compiled
def fill_rise(pricing: Pricing, box: Box, point: Array, curvature: Array, work: Work, room: Room) -> None:
    """Write the gradient of φ − Σ D w²/2 and the envelopes into ``work.trial_cost`` (M,), touches into ``room.least``.

    ``work`` has the box's chords.
    """
    slope = pricing.slope
    fill_image(pricing.images, point, work.image, work.sums)
    fill_multipliers(pricing.images, work.image, work.sums, work.trial_q)
    fill_costs(pricing.images, work.linear, work.trial_q, work.trial_cost)
    for i in range(point.size):
        touch, rate = envelope(slope, curvature[i], box.lower[i], box.upper[i])
        room.least[i] = touch
        rise = rate - curvature[i] * point[i]
        if point[i] >= touch:
            rise = -slope * (np.log(max(point[i], TINY)) + 1.0)
        work.trial_cost[i] += rise - slope * work.beta[i]


@compiled
def centre_step(pricing: Pricing, box: Box, point: Array, curvature: Array, work: Work, room: Room) -> bool:
    """One step of Newton's towards the best centre for D (M,), in place, or False.

    ``work`` has the box's chords and the multipliers of its ends, ``room.answers`` (M,) what is added to the diagonal.
    """
    fill_rise(pricing, box, point, curvature, work, room)
    # How each of Newton's steps to the centre makes the products of distances from the ends fall.
    product = 0.3 * mean_product(box, point, work)
    matrix = work.matrix
    for share in DOWNWARD:
        fill_system(pricing, box, point, product, work)
        for i in range(point.size):
            if box.upper[i] - box.lower[i] > NARROW:
                down = curvature[i] if point[i] < room.least[i] else pricing.slope / point[i]
                matrix[i, i] += room.answers[i] - share * down
                for j in range(i + 1):
                    if box.upper[j] - box.lower[j] > NARROW:
                        matrix[i, j] += KAPPA
        if factor(matrix, point.size):
            return take_step(box, point, product, work)
    return False
