"""How a box over cliques of rivals is split: by the mass of a clique, or by which of its symbols may be used.

The mass of a clique bounds all its symbols at once; a hundred symbols in some ten cliques then take a tenth of the
boxes that single symbols do.
"""

from __future__ import annotations

from privfunnel.algorithms.columns.plain.clique_boxes import Cliques, loosest_mass, loosest_members, mass_hole
from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.columns.plain.open_boxes import Frontier
from privfunnel.algorithms.columns.plain.search_trees import Tree
from privfunnel.algorithms.posteriors.boxes import Box
from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array

#: A split leaves each side at least this share of the interval.
LEAST_SIDE = 0.2


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
