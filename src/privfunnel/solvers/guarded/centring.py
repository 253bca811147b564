"""The centre of a box with curvature, compiled: the one whose bound is largest, and what its bound still loses where.

While D stays as it is, a centre c bounds F by the tangent at c of φ(w) − Σ D_i w_i²/2, which is convex, and by the
convex envelopes of the D_i w²/2 − μ w log w. The best tangent is the one at the least point of their sum, and at that
point the bound misses F by what the envelopes are below their functions. Chords alone have their least point elsewhere.
"""

from __future__ import annotations

import numpy as np

from privfunnel.certificate.curvature import KAPPA
from privfunnel.jit import compiled
from privfunnel.measures import TINY, Array
from privfunnel.solvers.guarded.absorbing import Room
from privfunnel.solvers.guarded.images import fill_costs, fill_image, fill_multipliers
from privfunnel.solvers.guarded.interior import (
    NARROW,
    Pricing,
    Work,
    fill_system,
    mean_product,
    move_inside,
    start_duals,
    take_step,
)
from privfunnel.solvers.posteriors.boxes import Box, plogp
from privfunnel.solvers.posteriors.cholesky import factor

#: Newton steps to the centre, the products they begin with, in nats, and how each makes them fall.
CENTRE_STEPS, CENTRE_PRODUCT, CENTRE_FALLS = 4, 1e-5, 0.3
#: Shares of the downward curvature that Newton's matrix has: the first that leaves it definite.
SHARES = (0.95, 0.5, 0.0)
#: Steps of the bisection for where an envelope leaves its chord.
TOUCH_STEPS = 20


@compiled
def bent(slope: float, curvature: float, w: float) -> float:
    """``D w²/2 − μ w log w``, in nats."""
    return float(0.5 * curvature * w * w - slope * plogp(w))


@compiled
def envelope(slope: float, curvature: float, low: float, high: float) -> tuple[float, float]:
    """Where the convex envelope of ``D w²/2 − μ w log w`` leaves its chord from ``low``, and the slope of that."""
    touch = high
    if curvature * low >= slope:
        touch = low
    elif curvature * high > slope:
        at_low = bent(slope, curvature, low)
        inner = max(low, slope / curvature)
        outer = high
        for step in range(TOUCH_STEPS):
            w = high if step == 0 else 0.5 * (inner + outer)
            rise = curvature * w - slope * (np.log(w) + 1.0)
            if bent(slope, curvature, w) - at_low >= rise * (w - low):
                inner = w
                if step == 0:
                    break
            else:
                outer = w
        touch = inner
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
def bent_step(
    pricing: Pricing, box: Box, point: Array, product: float, curvature: Array, work: Work, room: Room
) -> bool:
    """One step towards the centre, in place, or False.

    ``work.trial_cost`` (M,) is the gradient, ``room.least`` (M,) where the envelopes leave their chords.
    """
    matrix = work.matrix
    for share in SHARES:
        fill_system(pricing, box, point, product, work)
        for i in range(point.size):
            if box.upper[i] - box.lower[i] > NARROW:
                down = curvature[i] if point[i] < room.least[i] else pricing.slope / point[i]
                matrix[i, i] -= share * down
                for j in range(i + 1):
                    if box.upper[j] - box.lower[j] > NARROW:
                        matrix[i, j] += KAPPA
        if factor(matrix, point.size):
            return take_step(box, point, product, work)
    return False


@compiled
def recentre(pricing: Pricing, box: Box, point: Array, curvature: Array, work: Work, room: Room) -> None:
    """Move ``point`` (M,) to about the best centre for the curvature D (M,); ``work`` has the box's chords.

    Overwrites ``room.least`` and ``room.slopes``. Wherever the steps end, the centre is one.
    """
    slope = pricing.slope
    touches, rates = room.least, room.slopes
    for i in range(point.size):
        touches[i], rates[i] = envelope(slope, curvature[i], box.lower[i], box.upper[i])
    if not move_inside(box, point):
        return
    start_duals(box, point, CENTRE_PRODUCT, work)
    for _ in range(CENTRE_STEPS):
        fill_image(pricing.images, point, work.image, work.sums)
        fill_multipliers(pricing.images, work.image, work.sums, work.trial_q)
        fill_costs(pricing.images, work.linear, work.trial_q, work.trial_cost)
        for i in range(point.size):
            rise = rates[i] - curvature[i] * point[i]
            if point[i] >= touches[i]:
                rise = -slope * (np.log(max(point[i], TINY)) + 1.0)
            work.trial_cost[i] += rise - slope * work.beta[i]
        product = CENTRE_FALLS * mean_product(box, point, work)
        if not bent_step(pricing, box, point, product, curvature, work, room):
            return
