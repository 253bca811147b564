"""The curvature and the centre of a box, balanced, compiled: each is the best answer to the other.

With D given, the best centre w is the least point of φ(w) − Σ D_i w_i²/2 and of the convex envelopes of the
D_i w²/2 − μ w log w (:mod:`.box_centres`). With w given, more of D_i is worth half the variance of the two points that
its envelope mixes there, (w_i − l_i)(t_i − w_i)/2: l_i, and the touch t_i that comes down to w_i as D_i grows. All D_i
share what A has. The best ones for w and τ log det(A + κ11' − D) are found one after the other, a step of Newton's
moves w, and so on while τ falls. The step knows that D answers it, or the two would chase each other. A box begins with
the curvature and the centre of the one that it is a part of.
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.columns.general.box_centres import centre_step, envelope, reaching
from privfunnel.algorithms.columns.general.box_relaxation import Pricing, Work, move_inside, start_duals
from privfunnel.algorithms.columns.general.curvature_bounds import Room, fill_least_curvature
from privfunnel.algorithms.columns.general.images import fill_image, fill_multipliers
from privfunnel.algorithms.posteriors.boxes import Box
from privfunnel.algorithms.posteriors.cholesky import factor, solve_factored
from privfunnel.certificate.curvature import DEFINITE, KAPPA, LARGEST
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: Nor more than this, in nats: a narrow interval next to 0 would want more than a certificate may hold.
MOST_WANTED = 0.5 * LARGEST
#: What D is lowered by, a share of the largest entries and nats, so that rounding leaves A + κ11' − D definite.
LOWERED, LEAST_LOWERED = 20.0 * DEFINITE, 1e-9
#: τ at first and at least, shares of what is at stake, and how it falls from round to round.
FIRST_WEIGHT, LEAST_WEIGHT, WEIGHT_FALLS = 0.05, 0.01, 0.6
#: Rounds, each with the A of another centre, and answers of D and w to each other in a round.
ROUNDS, TURNS = 2, 3
#: No variance counts for less than this share of an interval's square: entries at an end may move, too.
LEAST_SPREAD = 1e-3
#: What D is multiplied by until A + κ11' − D is definite, where another box's or centre's A was larger.
FACTORS = (1.0, 0.98, 0.95, 0.9, 0.8, 0.6, 0.3, 0.0)
#: How much of the middle of the box is mixed into the centre to begin with, and the first products, in nats.
MIXED, FIRST_PRODUCT = 0.05, 3e-6


@compiled
def best_bend(slope: float, low: float, high: float, w: float, limit: float, weight: float) -> float:
    """The D at which half the variance at w is ``weight/(limit − D)``, what τ log det loses: no less than 0."""
    share = 2.0 * weight
    best = max(limit - share / (LEAST_SPREAD * (high - low) ** 2), 0.0)
    spread = (w - low) * (high - w)
    if not spread > 0.0:
        return best
    if spread * (limit - reaching(slope, low, high)) <= share:
        return max(best, limit - share / spread)
    inner = w
    outer = high
    # Steps of the bisection for a touch.
    for _ in range(10):
        touch = 0.5 * (inner + outer)
        if (w - low) * (touch - w) * (limit - reaching(slope, low, touch)) < share:
            inner = touch
        else:
            outer = touch
    return max(best, reaching(slope, low, outer))


@compiled
def invert(matrix: Array, n: int, inverse: Array, column: Array) -> bool:
    """The inverse of the leading (n, n) part, which is overwritten; False where it is not positive definite.

    ``column`` (M,) is scratch.
    """
    if not factor(matrix, n):
        return False
    for c in range(n):
        for i in range(n):
            column[i] = 1.0 if i == c else 0.0
        solve_factored(matrix, column, n, c)
        for i in range(n):
            inverse[i, c] = column[i]
    return True


@compiled
def take(inverse: Array, n: int, a: int, move: float, column: Array) -> None:
    """Update the inverse (n, n) of a matrix whose diagonal entry ``a`` is lowered by ``move``."""
    share = move / (1.0 - move * inverse[a, a])
    for b in range(n):
        column[b] = inverse[b, a]
    for b in range(n):
        scaled = share * column[b]
        for c in range(n):
            inverse[b, c] += scaled * column[c]


@compiled
def prepare(box: Box, curvature: Array, room: Room) -> int:
    """Write the inverse of A + κ11' − D over the free symbols, whose number is returned, 0 where it cannot be had.

    D (M,) is made smaller where it is too large for A.
    """
    matrix, free = room.matrix, room.free
    n = 0
    largest = 0.0
    for i in range(curvature.size):
        largest = max(largest, matrix[i, i])
        if box.upper[i] > box.lower[i]:
            free[n] = i
            n += 1
        else:
            curvature[i] = 0.0
    lowered = LOWERED * (largest + KAPPA) + LEAST_LOWERED
    compact = np.zeros((n, n))
    for share in FACTORS:
        for a in range(n):
            for b in range(n):
                compact[a, b] = matrix[free[a], free[b]] + KAPPA
            compact[a, a] += lowered - share * curvature[free[a]]
        if n > 1 and invert(compact, n, room.inverse, room.slopes):
            for a in range(n):
                curvature[free[a]] *= share
            return n
    return 0


@compiled
def settle(n: int, curvature: Array, room: Room) -> None:
    """Lower D so that the checker's rounding leaves A + κ11' − D definite."""
    largest = 0.0
    for i in range(curvature.size):
        largest = max(largest, room.matrix[i, i])
    for a in range(n):
        curvature[room.free[a]] -= 2.0 * (LOWERED * (largest + KAPPA) + LEAST_LOWERED)


@compiled
def sweep(slope: float, box: Box, point: Array, weight: float, n: int, curvature: Array, room: Room) -> None:
    """Give each free symbol the D that is best at ``point`` (M,), one after the other; ``weight`` is τ."""
    inverse = room.inverse
    for a in range(n):
        i = room.free[a]
        w = min(max(point[i], box.lower[i]), box.upper[i])
        left = 1.0 / inverse[a, a]
        best = best_bend(slope, box.lower[i], box.upper[i], w, curvature[i] + left, weight)
        # No symbol takes more than this share of the curvature that is left in its direction.
        move = min(min(best, MOST_WANTED) - curvature[i], 0.98 * left)
        take(inverse, n, a, move, room.slopes)
        curvature[i] += move


@compiled
def fill_answers(
    slope: float, box: Box, point: Array, weight: float, n: int, curvature: Array, room: Room
) -> None:
    """Write into ``room.answers`` (M,) what the second derivatives in w gain because D answers."""
    for i in range(point.size):
        room.answers[i] = 0.0
    for a in range(n):
        i = room.free[a]
        low = box.lower[i]
        touch = envelope(slope, curvature[i], low, box.upper[i])[0]
        if point[i] < touch:
            stiff = weight * room.inverse[a, a] ** 2
            rise = curvature[i] - slope / touch
            if touch < box.upper[i] and rise > 0.0:
                stiff += 0.25 * (point[i] - low) * (touch - low) / rise
            # A second derivative in D is at least this.
            room.answers[i] = (0.5 * (touch + low) - point[i]) ** 2 / max(stiff, 1e-12)


@compiled
def stake(slope: float, box: Box) -> float:
    """What chords lose for a free symbol, on average, about, in nats: half its curvature times its largest variance."""
    total = 0.0
    n = 0
    for i in range(box.lower.size):
        width = box.upper[i] - box.lower[i]
        if width > 0.0:
            # Where it is least, a symbol's share of what is at stake is judged at this share of its interval's upper
            # end.
            total += slope * width**2 / (8.0 * max(box.lower[i], 0.35 * box.upper[i]))
            n += 1
    return total / max(n, 1)


@compiled
def fill_touching(pricing: Pricing, box: Box, point: Array, q: Array, work: Work, room: Room) -> None:
    """Write the multipliers q (J,) that touch φ at ``point`` (M,), and the A that they have in the box."""
    fill_image(pricing.images, point, work.image, work.sums)
    fill_multipliers(pricing.images, work.image, work.sums, q)
    fill_least_curvature(pricing, box, q, room)


@compiled
def balance(
    pricing: Pricing, box: Box, point: Array, curvature: Array, q: Array, work: Work, room: Room
) -> bool:
    """Improve the centre ``point`` (M,) and D (M,), which may be another box's; False where there is no D.

    ``work`` has the box's chords. Leaves the multipliers of the centre in q (J,), and A in ``room``.
    """
    slope = pricing.slope
    fill_touching(pricing, box, point, q, work, room)
    at_stake = stake(slope, box)
    weight = FIRST_WEIGHT * at_stake
    rounds = ROUNDS if move_inside(box, point, MIXED) else 0
    start_duals(box, point, FIRST_PRODUCT, work)
    for _ in range(rounds):
        n = prepare(box, curvature, room)
        for _ in range(TURNS if n > 0 else 0):
            sweep(slope, box, point, weight, n, curvature, room)
            fill_answers(slope, box, point, weight, n, curvature, room)
            if not centre_step(pricing, box, point, curvature, work, room):
                break
        weight = max(WEIGHT_FALLS * weight, LEAST_WEIGHT * at_stake)
        fill_touching(pricing, box, point, q, work, room)
    n = prepare(box, curvature, room)
    sweep(slope, box, point, weight, n, curvature, room)
    settle(n, curvature, room)
    return n > 0
