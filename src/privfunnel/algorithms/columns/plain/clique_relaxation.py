"""The convex relaxation of a box over cliques, and its bound.

A posterior of the box uses one symbol of each clique at most. With z_i saying which, ``−μ w log w`` is at least its
chord on ``[L_g, u_i]``, ``alpha_i z_i + beta_i w_i``, and what remains is convex:

    φ = Σ_k t_k log t_k + Σ_i (beta_i − a_i) w_i + alpha_i z_i,    t = Pw,   L_g z_i ≤ w_i ≤ u_i z_i,   Σ_{i∈g} z_i ≤ 1.

As in :mod:`.box_relaxation`, each q with Σ exp q ≤ 1 bounds it from below by a linear program, here a knapsack of
which one thing of each clique can be taken, and simplicial decomposition finds the best q.
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.columns.plain.box_relaxation import (
    CLOSED,
    MIXING,
    MOST_TRIALS,
    Workspace,
    enter,
    propose,
)
from privfunnel.algorithms.columns.plain.clique_boxes import HEAVY, LIGHT, TRIED, Cliques, fill_clique_chords
from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.columns.plain.mixtures import blend
from privfunnel.algorithms.posteriors.boxes import Box, copy
from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array

#: Rounding of a knapsack's value, as a share of it; and the room around the costs' range for the first prices.
ROUNDING, AROUND = 1e-15, 1e-9


@compiled_inner
def choose(
    price: float, cost: Array, alpha: Array, box: Box, cliques: Cliques, row: int
) -> tuple[float, float]:
    """The best that each clique can do at a price ν of Σ w = 1, into a ``row`` of its choices: (value, mass)."""
    lower, upper = box
    best, chosen, masses = cliques.top, cliques.chosen[row], cliques.masses[row]
    for g in range(best.size):
        best[g] = 0.0 if lower[g] == 0.0 else np.inf
        chosen[g] = -1
        masses[g] = 0.0
    for i in range(cost.size):
        if upper[i] > 0.0:
            g = cliques.of[i]
            rate = cost[i] - price
            w = upper[i] if rate < 0.0 else lower[g]
            value = alpha[i] + rate * w
            if value < best[g]:
                best[g] = value
                chosen[g] = i
                masses[g] = w
    total = price
    mass = 0.0
    for g in range(best.size):
        total += best[g]
        mass += masses[g]
    return total, mass


@compiled_inner
def keep(cliques: Cliques, row: int) -> None:
    """Copy the choices on trial to another row."""
    for g in range(cliques.top.size):
        cliques.chosen[row, g] = cliques.chosen[TRIED, g]
        cliques.masses[row, g] = cliques.masses[TRIED, g]


@compiled_inner
def mix_choices(cliques: Cliques, share: float, alpha: Array, point: Array) -> float:
    """The mixture of both choices, with a ``share`` of the heavy one, into ``point`` (M,); Σ alpha_i z_i of it."""
    constant = 0.0
    for i in range(point.size):
        point[i] = 0.0
    for row in (LIGHT, HEAVY):
        part = share if row == HEAVY else 1.0 - share
        for g in range(cliques.top.size):
            i = cliques.chosen[row, g]
            if i >= 0:
                point[i] += part * cliques.masses[row, g]
                constant += part * alpha[i]
    return constant


@compiled_inner
def clique_knapsack(
    cost: Array, alpha: Array, box: Box, cliques: Cliques, point: Array
) -> tuple[float, float, float]:
    """Minimise ``cost·w + alpha·z``; write a minimiser into ``point``; return (value, price ν, its alpha·z).

    The value as a function of ν is concave and consists of lines, whose slopes are 1 minus the mass chosen: the price
    is where the lines of too light and too heavy a choice meet, unless another line is below.
    """
    low, high = np.inf, -np.inf
    for i in range(cost.size):
        if box.upper[i] > 0.0:
            low, high = min(low, cost[i]), max(high, cost[i])
    low, high = low - AROUND, high + AROUND
    step = high - low
    light, light_mass = choose(low, cost, alpha, box, cliques, LIGHT)
    heavy, heavy_mass = choose(high, cost, alpha, box, cliques, HEAVY)
    # No price is above this, in nats: the checker refuses huge ones.
    while heavy_mass < 1.0 and high + step < 1e4:
        high += step
        step *= 2.0
        heavy, heavy_mass = choose(high, cost, alpha, box, cliques, HEAVY)
    value, price = (light, low) if light > heavy else (heavy, high)
    # Prices that are tried at most for one knapsack: each but the last halves what is left, as a rule.
    for _ in range(100):
        if not light_mass < 1.0 <= heavy_mass:
            break
        slack, surplus = 1.0 - light_mass, heavy_mass - 1.0
        middle = (heavy - light + slack * low + surplus * high) / (slack + surplus)
        if not low < middle < high:
            break
        line = light + slack * (middle - low)
        tried, mass = choose(middle, cost, alpha, box, cliques, TRIED)
        if tried > value:
            value, price = tried, middle
        if tried >= line - ROUNDING * (1.0 + abs(line)):
            break
        if mass < 1.0:
            low, light, light_mass = middle, tried, mass
            keep(cliques, LIGHT)
        else:
            high, heavy, heavy_mass = middle, tried, mass
            keep(cliques, HEAVY)
    share = 0.0
    if heavy_mass > light_mass:
        share = min(max((1.0 - light_mass) / (heavy_mass - light_mass), 0.0), 1.0)
    return value, price, mix_choices(cliques, share, alpha, point)


@compiled_inner
def fill_used_costs(columns: Array, linear: Array, q: Array, upper: Array, cost: Array) -> None:
    """``cost = Pᵀq + linear`` of the symbols that may be used, (M,)."""
    for i in range(cost.size):
        if upper[i] > 0.0:
            total = linear[i]
            for k in range(q.size):
                total += columns[i, k] * q[k]
            cost[i] = total


@compiled_inner
def relax_cliques(
    pricing: Pricing,
    box: Box,
    point: Array,
    q: Array,
    aims: tuple[float, float],
    work: Workspace,
    cliques: Cliques,
) -> float:
    """Find multipliers that bound φ over one box; improve ``q`` (K,) in place; return the price ν.

    ``point`` (M,) leaves as the relaxation's minimiser, ``work.cost`` (M,) as the rates ``p_i·q − a_i − ν`` of the e_i.
    ``aims`` are the cutoff and the tightness of :func:`.box_relaxation.relax`, which says when it ends.
    """
    cutoff, tightness = aims
    columns, mixture, linear, alpha = pricing.columns, work.mixture, work.linear, work.alpha
    cost, trial_q, trial_cost = work.cost, work.trial_q, work.trial_cost
    fill_clique_chords(box, cliques, pricing.slope, alpha, work.beta)
    for i in range(linear.size):
        linear[i] = work.beta[i] - pricing.prices[i]
    copy(trial_q, q)
    n = 0
    best_bound, best_price, value = -np.inf, 0.0, np.inf
    for _ in range(MOST_TRIALS):
        # The multipliers on trial give a bound, and an atom where it is attained.
        fill_used_costs(columns, linear, trial_q, box.upper, trial_cost)
        bound, price, constant = clique_knapsack(trial_cost, alpha, box, cliques, point)
        if bound > best_bound:
            best_bound, best_price = bound, price
            copy(q, trial_q)
            copy(cost, trial_cost)
        height, left = cutoff - best_bound, value - best_bound
        if best_bound >= cutoff or left <= tightness * height or left < CLOSED:
            break
        # The best mixture of the atoms proposes the next multipliers.
        entered = enter(mixture, n, columns, linear, point, constant)
        if entered == 0:
            break
        n, value = propose(mixture, entered, MIXING * height, trial_q)
    if n > 0:
        blend(mixture, n, point)
    for i in range(cost.size):
        cost[i] -= work.beta[i] + best_price
    return best_price
