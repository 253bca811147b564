"""What becomes of one box of a search: it is bounded, made smaller, split, and its sides are given to its children.

Boxes are of single symbols (:mod:`.box_relaxation`), or of cliques of rivals (:mod:`.clique_boxes`). Here alone the
two are told apart, by whether ``cliques`` is None: numba knows that from its type, and compiles the steps of one kind
only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.columns.plain.box_relaxation import Workspace, relax
from privfunnel.algorithms.columns.plain.clique_boxes import (
    Cliques,
    meets_simplex,
    propagate_cliques,
    shrink_cliques,
    sum_of_cliques,
    total_room,
)
from privfunnel.algorithms.columns.plain.clique_relaxation import relax_cliques
from privfunnel.algorithms.columns.plain.clique_splitting import LEAST_SIDE, part_children, split_cliques
from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.columns.plain.open_boxes import Frontier
from privfunnel.algorithms.columns.plain.search_trees import Tree
from privfunnel.algorithms.posteriors.boxes import (
    Box,
    choose_split,
    exclude,
    propagate,
    shrink,
    sum_of_ends,
    total_width,
)
from privfunnel.infra.jit import compiled_inner
from privfunnel.measures import Array


@compiled_inner
def bound_box(
    pricing: Pricing,
    box: Box,
    point: Array,
    q: Array,
    aims: tuple[float, float],
    work: Workspace,
    cliques: Cliques | None,
) -> tuple[float, float]:
    """The price ν and the bound of a box, in nats, as the checker computes it; ∞ where there is no posterior in it.

    ``q`` (K,) and ``point`` (M,) leave as the best multipliers and the relaxation's minimiser, ``work.cost`` (M,) as
    the rates ``p_i·q - a_i - ν`` of the e_i. ``aims`` are the cutoff and the tightness of
    :func:`.box_relaxation.relax`.
    """
    if cliques is None:
        price = relax(pricing, box, point, q, aims, work)
        return price, sum_of_ends(pricing.slope, box, price, work.cost, work.beta)
    if not meets_simplex(box, cliques):
        return 0.0, np.inf
    price = relax_cliques(pricing, box, point, q, aims, work, cliques)
    return price, sum_of_cliques(pricing.slope, work.cost, price, box, cliques)


@compiled_inner
def width_of(box: Box, cliques: Cliques | None) -> float:
    """How wide a box is in all."""
    if cliques is None:
        return total_width(box)
    return total_room(box, cliques)


@compiled_inner
def make_smaller(
    rates: Array,
    slope: float,
    excess: float,
    box: Box,
    rivals: NDArray[np.uint8] | None,
    cliques: Cliques | None,
    scratch: Array,
) -> bool:
    """Make a box whose bound misses the cutoff by ``excess`` nats smaller; False where nothing of it is left.

    The rules are the checker's; one of ``rivals`` (M, M) and ``cliques`` is None, and ``scratch`` is (M,).
    """
    if cliques is not None:
        shrink_cliques(rates, slope, excess, box, cliques)
        return propagate_cliques(box, cliques)
    shrink(rates, slope, excess, box)
    if rivals is not None:
        exclude(rivals, box, scratch)
    return propagate(box)


@compiled_inner
def split_box(
    tree: Tree,
    node: int,
    pricing: Pricing,
    box: Box,
    point: Array,
    excess: float,
    work: Workspace,
    cliques: Cliques | None,
) -> None:
    """Write into the tree where a node, whose bound misses the cutoff by ``excess`` nats, is split."""
    if cliques is None:
        chords, sides = (work.alpha, work.beta), (LEAST_SIDE, LEAST_SIDE)
        tree.variable[node], tree.split[node, 0], tree.split[node, 1] = choose_split(
            box, point, pricing.slope, excess, work.cost, chords, sides
        )
    else:
        split_cliques(tree, node, pricing, box, point, work.cost, cliques)


@compiled_inner
def part_box(
    tree: Tree, node: int, frontier: Frontier, height: int, columns: Array, cliques: Cliques | None
) -> None:
    """Give the two children of a node, open at ``height`` and above with its own box, their sides of it."""
    if cliques is None:
        symbol = tree.variable[node]
        frontier.upper[height, symbol] = tree.split[node, 0]
        frontier.lower[height + 1, symbol] = tree.split[node, 1]
    else:
        part_children(tree, node, frontier, height, columns, cliques)
