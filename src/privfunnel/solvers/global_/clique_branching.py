"""Spatial branch and bound over cliques of rivals: prove ``min F >= cutoff``, or find posteriors below it.

It does what :mod:`.branching` does, with boxes of :mod:`.clique_boxes`. What it splits is the mass of a clique, which
bounds all its symbols at once, or which of its symbols may be used; a hundred symbols in some ten cliques then take a
tenth of the boxes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import SHRINK
from privfunnel.jit import compiled, compiled_inner
from privfunnel.measures import Array
from privfunnel.solvers.deadline import NEVER, Deadline, Pace
from privfunnel.solvers.global_.branching import (
    DESCENT_STEPS,
    FIRST_WORK,
    FRONTIER,
    LEAST_SIDE,
    MOST_FOUND,
    WORTH_BOUNDING,
    Advanced,
    Explored,
    Frontier,
    State,
    Tree,
    begin,
    bring_up,
    explored,
    grown,
    is_known,
    least_index,
    load,
    push,
)
from privfunnel.solvers.global_.clique_boxes import (
    Cliques,
    loosest_mass,
    loosest_members,
    mass_hole,
    meets_simplex,
    new_cliques,
    propagate_cliques,
    shrink_cliques,
    sum_of_cliques,
    total_room,
)
from privfunnel.solvers.global_.clique_relaxation import relax_cliques
from privfunnel.solvers.global_.descents import Pricing, descend
from privfunnel.solvers.posteriors.boxes import Box, copy


@compiled_inner
def split_cliques(
    tree: Tree, node: int, pricing: Pricing, box: Box, point: Array, rates: Array, cliques: Cliques
) -> None:
    """Write into the tree what a node splits, the mass of a clique or its symbols: whichever its bound misses most by.

    ``cliques.least`` are the goals that :func:`shrink_cliques` left: no e_i may reach its clique's.
    """
    n_cliques, n_s = cliques.top.size, pricing.columns.shape[1]
    loss, clique, private, at = loosest_members(pricing, point, cliques)
    gap, heaviest, mass = loosest_mass(pricing.slope, box, point, cliques)
    if gap < loss:
        tree.variable[node] = n_cliques + clique * n_s + private
        tree.split[node, 0] = tree.split[node, 1] = at
        return
    low, high = box.lower[heaviest], cliques.top[heaviest]
    margin = LEAST_SIDE * (high - low)
    middle = min(max(mass, low + margin), high - margin)
    left, right = mass_hole(rates, pricing.slope, cliques.least[heaviest], box, cliques, heaviest, middle)
    tree.variable[node] = heaviest
    tree.split[node, 0], tree.split[node, 1] = left, right


@compiled_inner
def part_children(
    tree: Tree, node: int, frontier: Frontier, height: int, columns: Array, cliques: Cliques
) -> None:
    """Give the two children of a node, open at ``height`` and above with its own box, their sides of it."""
    n_cliques, n_s = cliques.top.size, columns.shape[1]
    variable = tree.variable[node]
    left, right = tree.split[node, 0], tree.split[node, 1]
    if variable < n_cliques:
        frontier.lower[height + 1, variable] = max(frontier.lower[height + 1, variable], right)
    for i in range(columns.shape[0]):
        if variable < n_cliques:
            if cliques.of[i] == variable:
                frontier.upper[height, i] = min(frontier.upper[height, i], left)
                if frontier.upper[height + 1, i] < right:
                    frontier.upper[height + 1, i] = 0.0
        elif cliques.of[i] == (variable - n_cliques) // n_s:
            first = columns[i, (variable - n_cliques) % n_s] <= left
            frontier.upper[height + 1 if first else height, i] = 0.0


@compiled_inner
def open_clique_children(
    tree: Tree,
    frontier: Frontier,
    place: tuple[int, int, int, float],
    box: Box,
    point: Array,
    columns: Array,
    cliques: Cliques,
) -> int:
    """Open the children of a node; return how many they are.

    ``place`` is the node, the number of its first child, the height of the frontier, and its bound in nats.
    """
    node, first, height, bound = place
    children = 1 if tree.variable[node] == SHRINK else 2
    tree.first[node] = first
    for child in range(children):
        copy(tree.q[first + child], tree.q[node])
        push(frontier, height + child, first + child, bound, box, point)
    if children == 2:
        part_children(tree, node, frontier, height, columns, cliques)
    return children


@compiled
def advance_cliques(
    pricing: Pricing,
    cliques: Cliques,
    state: State,
    cutoff: float,
    patience: int,
    tightness: float,
    boxes: int,
) -> Advanced:
    """Open up to ``boxes`` more, as :func:`.branching.advance` does."""
    (n_x, n_s), slope = pricing.columns.shape, pricing.slope
    tree, frontier, work, found, n_found, n_nodes, height, opened, last, best = state
    box = Box(np.zeros(n_x), np.zeros(n_x))
    point, candidate, image = np.zeros(n_x), np.zeros(n_x), np.zeros(n_s)
    pause = min(opened + boxes, last)
    while height > 0 and opened < pause:
        height -= 1
        opened += 1
        if height < FRONTIER:
            bring_up(least_index(frontier.promise[: height + 1]), height, frontier)
        node = load(frontier, height, box, point)
        if not meets_simplex(box, cliques):
            continue
        price = relax_cliques(pricing, box, point, tree.q[node], (cutoff, tightness), work, cliques)
        tree.nu[node] = price
        bound = sum_of_cliques(slope, work.cost, price, box, cliques)
        if bound >= cutoff:
            continue
        copy(candidate, point)
        score = descend(pricing, candidate, image, DESCENT_STEPS)
        best = min(best, score)
        if score < cutoff:
            if not is_known(found[:n_found], candidate):
                if n_found == MOST_FOUND:
                    last = opened
                    break
                if n_found == 0:
                    last = min(last, 2 * opened + patience)
                    pause = min(pause, last)
                copy(found[n_found], candidate)
                n_found += 1
            if opened > patience:
                continue
        before = total_room(box, cliques)
        shrink_cliques(work.cost, slope, cutoff - bound, box, cliques)
        if not propagate_cliques(box, cliques):
            continue
        if n_nodes + 2 > tree.nu.size:
            tree = grown(tree)
        if height + 2 > frontier.node.size:
            height += 1  # this box stays open
            last = opened
            break
        if total_room(box, cliques) < WORTH_BOUNDING * before:
            tree.variable[node] = SHRINK
        else:
            split_cliques(tree, node, pricing, box, point, work.cost, cliques)
        place = (node, n_nodes, height, bound)
        children = open_clique_children(tree, frontier, place, box, point, pricing.columns, cliques)
        height += children
        n_nodes += children
    return tree[:], n_found, n_nodes, height, opened, last, best


def search_cliques(
    pricing: Pricing,
    groups: NDArray[np.int32],
    cutoff: float,
    node_limit: int,
    patience: int,
    tightness: float,
    deadline: Deadline = NEVER,
) -> Explored:
    """Search the simplex for ``F(w) < cutoff``; arguments are those of :func:`.branching.branch_and_bound`.

    ``groups`` (M,) are cliques of rivals, see :func:`privfunnel.certificate.cliques_of`.
    """
    cliques = new_cliques(groups)
    state = begin(pricing, node_limit)
    pace = Pace(FIRST_WORK // pricing.columns.size)
    while state.height > 0 and state.opened < state.last and pace.goes_on(deadline):
        made = advance_cliques(pricing, cliques, state, cutoff, patience, tightness, pace.size)
        state = State(Tree(*made[0]), state.frontier, state.work, state.found, *made[1:])
    return explored(state)
