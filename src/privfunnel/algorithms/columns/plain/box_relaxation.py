"""The convex relaxation of one pricing box, and its bound.

Over a box ``l <= w <= u`` of posteriors the pricing function is ``F(w) = -H(Pw) + μ H(w) - a·w`` (nats). With each
``-w log w`` replaced by its chord on ``[l_i, u_i]`` it becomes the convex ``φ(w) = Σ_k t_k log t_k + g·w + const``,
``t = Pw``. Because ``Σ t log t >= q·t`` for every ``q`` with ``Σ exp q <= 1``, each such ``q`` bounds F from below by a
continuous knapsack; the best ``q`` is ``log t`` at the minimiser of φ. It is found by simplicial decomposition (fully
corrective Frank-Wolfe): the knapsack supplies atoms and bounds, :mod:`.mixtures` mixes the atoms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.columns.plain.mixtures import (
    Mixture,
    add_atom,
    blend,
    drop_lightest,
    drop_unused,
    mix_atoms,
    new_mixture,
)
from privfunnel.algorithms.posteriors.boxes import Box, copy, fill_chords
from privfunnel.infra.jit import compiled, compiled_inner
from privfunnel.measures import Array

#: Multipliers q that one box tries at most.
MOST_TRIALS = 60
#: Where bound and value of φ differ by less, in nats, rounding is all that is left.
CLOSED = 1e-14
#: The mixture is solved to this share of the height that the bound misses: it only proposes the next q.
MIXING = 1e-3
#: Entries of Pw are raised to this before log gives q, so that q stays moderate (the checker refuses huge ones).
LEAST_IMAGE = 1e-16


class Workspace(NamedTuple):
    """Arrays that each box overwrites.

    Chords ``alpha + beta·w`` (M,) of −w log w; ``linear`` (M,), the g of φ; ``cost`` (M,), that of the best q so far;
    the q (K,) on trial with its costs (M,); and the atoms with their mixture.
    """

    alpha: Array
    beta: Array
    linear: Array
    cost: Array
    trial_q: Array
    trial_cost: Array
    mixture: Mixture


@compiled(later=True)
def new_workspace(n_x: int, n_s: int) -> Workspace:
    """Room for boxes of a component with M = ``n_x`` public and K = ``n_s`` private symbols."""
    return Workspace(
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_x),
        np.zeros(n_s),
        np.zeros(n_x),
        # Atoms beside the K that a minimiser needs: room to exchange some before one has to go.
        new_mixture(n_s + 4, n_x, n_s),
    )


@compiled(later=True)
def knapsack(cost: Array, box: Box, point: Array) -> tuple[float, float]:
    """Minimise ``cost·w`` over the box cut with the simplex; write the vertex into ``point``; return (value, price).

    The price ν is the cost of the last symbol filled, i.e. the multiplier of ``Σ w = 1``.
    """
    lower, upper = box
    rest = 1.0
    value = 0.0
    for i in range(cost.size):
        point[i] = lower[i]
        rest -= lower[i]
        value += cost[i] * lower[i]
    # The cheapest symbols are filled one after the other; few are, so that no sorting pays.
    price = np.inf
    while True:
        best = -1
        cheapest = np.inf
        for i in range(cost.size):
            if cost[i] < cheapest and point[i] < upper[i]:
                cheapest = cost[i]
                best = i
        if best < 0:
            break
        price = cheapest
        room = upper[best] - point[best]
        if room >= rest:
            if rest > 0.0:
                point[best] += rest
                value += cheapest * rest
            break
        point[best] = upper[best]
        value += cheapest * room
        rest -= room
    # Nothing could be filled: the box is one point, and the dearest symbol's cost bounds it best.
    if price == np.inf:
        price = -np.inf
        for i in range(cost.size):
            price = max(price, cost[i])
    return value, price


@compiled(later=True)
def repair(point: Array, box: Box) -> None:
    """Move ``point`` into the box and onto the simplex, keeping it near; all arrays (M,)."""
    lower, upper = box
    total = 0.0
    for i in range(point.size):
        point[i] = min(max(point[i], lower[i]), upper[i])
        total += point[i]
    slack = 0.0
    for i in range(point.size):
        slack += (upper[i] - point[i]) if total < 1.0 else (point[i] - lower[i])
    if slack > 0.0:
        share = min(1.0, abs(1.0 - total) / slack)
        for i in range(point.size):
            if total < 1.0:
                point[i] += share * (upper[i] - point[i])
            else:
                point[i] -= share * (point[i] - lower[i])


@compiled(later=True)
def fill_linear(pricing: Pricing, alpha: Array, beta: Array, linear: Array) -> float:
    """Write the g (M,) of φ that goes with the chords ``alpha + beta·w`` of −w log w; return φ's constant."""
    _, prices, slope = pricing
    const = 0.0
    for i in range(linear.size):
        const += slope * alpha[i]
        linear[i] = slope * beta[i] - prices[i]
    return const


@compiled(later=True)
def fill_costs(columns: Array, linear: Array, q: Array, cost: Array) -> None:
    """``cost = Pᵀq + linear``, (M,): what the knapsack minimises for these multipliers (K,)."""
    for i in range(cost.size):
        total = linear[i]
        for k in range(q.size):
            total += columns[i, k] * q[k]
        cost[i] = total


@compiled(later=True)
def fill_multipliers(image: Array, q: Array) -> None:
    """``q = log t``, (K,), normalised to ``Σ exp q = 1``: the tangent of ``Σ t log t`` at ``image``."""
    norm = 0.0
    for k in range(q.size):
        norm += max(image[k], LEAST_IMAGE)
    for k in range(q.size):
        q[k] = np.log(max(image[k], LEAST_IMAGE) / norm)


@compiled_inner
def enter(mixture: Mixture, n: int, columns: Array, linear: Array, point: Array, constant: float) -> int:
    """Let ``point`` (M,) join ``n`` atoms; return how many there are then, 0 where there is no room.

    The lightest leaves where they are full. The point's value is ``linear``·point + ``constant``, in nats; the first of
    all is the whole mixture.
    """
    if n == mixture.weights.size:
        if not drop_lightest(mixture, n):
            return 0
        n -= 1
    add_atom(mixture, n, columns, linear, point)
    mixture.values[n] += constant
    if n == 0:
        mixture.weights[0] = 1.0
    return n + 1


@compiled_inner
def propose(mixture: Mixture, n: int, tolerance: float, q: Array) -> tuple[int, float]:
    """Mix ``n`` atoms to ``tolerance`` nats, and write the multipliers (K,) of that: (atoms in use, value in nats)."""
    value = mix_atoms(mixture, n, tolerance)
    n = drop_unused(mixture, n)
    fill_multipliers(mixture.image, q)
    return n, value


@compiled(later=True)
def relax(
    pricing: Pricing, box: Box, point: Array, q: Array, aims: tuple[float, float], work: Workspace
) -> float:
    """Find multipliers that bound φ over one box; improve ``q`` and ``point`` in place; return the price ν.

    ``q`` (K,) and ``point`` (M,) come in as a warm start and leave as the best multipliers and the relaxation's
    minimiser; ``work.cost`` (M,) leaves as ``Pᵀq + linear`` for the best ``q``. ``aims`` are a cutoff and a tightness:
    it ends as soon as the box is settled, because the bound reaches the cutoff, or φ is below it and the bound is close
    enough to φ to steer branching (the tightness is that fraction of the missing height).
    """
    cutoff, tightness = aims
    # Bound to names once: numba counts references each time that a field goes to another function.
    columns, mixture, linear = pricing.columns, work.mixture, work.linear
    cost, trial_q, trial_cost = work.cost, work.trial_q, work.trial_cost
    fill_chords(box, work.alpha, work.beta)
    const = fill_linear(pricing, work.alpha, work.beta, linear)
    repair(point, box)
    copy(trial_q, q)
    n = enter(mixture, 0, columns, linear, point, 0.0)
    best_bound = -np.inf
    best_price = 0.0
    value = np.inf
    for _ in range(MOST_TRIALS):
        # The multipliers on trial give a bound, and a vertex of the box where it is attained.
        fill_costs(columns, linear, trial_q, trial_cost)
        bound, price = knapsack(trial_cost, box, point)
        bound += const
        if bound > best_bound:
            best_bound = bound
            best_price = price
            copy(q, trial_q)
            copy(cost, trial_cost)
        height = cutoff - best_bound
        left = value - best_bound
        if best_bound >= cutoff or left <= tightness * height or left < CLOSED:
            break
        # That vertex joins the atoms; the best mixture of them proposes the next multipliers.
        entered = enter(mixture, n, columns, linear, point, 0.0)
        if entered == 0:
            break
        n, value = propose(mixture, entered, MIXING * height, trial_q)
        value += const
    blend(mixture, n, point)
    return best_price
