"""Spatial branch and bound for one pricing problem: prove ``min F >= cutoff``, or find posteriors below it.

The proof is a binary tree of boxes. A node stores multipliers ``(q, ν)``; its bound is the plain sum

    F(w) >= ν + Σ_i min(e_i(l_i), e_i(u_i)),    e_i(w) = (p_i·q - a_i - ν) w - μ w log w,

because every ``e_i`` is concave. The same ``e_i`` shrink the box (a coordinate whose own ``e_i`` lifts the sum above
the cutoff cannot be there) and drop the middle of a split. :mod:`privfunnel.certificate` redoes all of it from the
stored numbers alone, so both must shrink boxes by the same rule. Boxes over cliques of rivals have bounds of their own:
:mod:`.box_steps` says what is done with a box of either kind, here is in which order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.columns.plain.box_relaxation import Workspace, new_workspace
from privfunnel.algorithms.columns.plain.box_steps import (
    bound_box,
    make_smaller,
    part_box,
    split_box,
    width_of,
)
from privfunnel.algorithms.columns.plain.clique_boxes import Cliques, new_cliques
from privfunnel.algorithms.columns.plain.descents import Pricing, descend
from privfunnel.algorithms.columns.plain.open_boxes import (
    Frontier,
    bring_up,
    least_index,
    load,
    new_frontier,
    push,
)
from privfunnel.algorithms.columns.plain.plan import PLAN
from privfunnel.algorithms.columns.plain.search_trees import Tree, grown, kept, new_tree
from privfunnel.algorithms.deadline import NEVER, Deadline, Pace
from privfunnel.algorithms.posteriors.boxes import Box, copy
from privfunnel.certificate import SHRINK
from privfunnel.infra.jit import compiled, compiled_inner, left, spend
from privfunnel.measures import Array

#: How a search ended: the tree proves the cutoff, posteriors are below it, or the nodes ran out.
PROVED, FOUND, LIMIT = 0, 1, 2
#: While fewer boxes are open, the one of the lowest bound comes first, which finds posteriors sooner; beyond, the
#: newest does, so that memory stays bounded.
FRONTIER = 1000
#: Room for nodes at first; it doubles when it is used up.
FIRST_NODES = 1024
#: Posteriors that one search collects at most.
MOST_FOUND = 64
#: Entries of columns that are worked on before the first look at the clock.
FIRST_WORK = 20_000


class State(NamedTuple):
    """A search under way: its tree, open boxes, scratch arrays and posteriors found, and how many there are of each.

    ``n_nodes`` of the tree and the lowest ``height`` of the frontier are in use; ``opened`` boxes were, ``last`` are to
    be at most; ``best`` is the least F met.
    """

    tree: Tree
    frontier: Frontier
    work: Workspace
    found: Array
    n_found: int
    n_nodes: int
    height: int
    opened: int
    last: int
    best: float


#: What :func:`advance` gives: the tree, then ``n_found``, …, ``best`` of a :class:`State`.
Advanced = tuple[tuple[Any, ...], int, int, int, int, int, float]


class Explored(NamedTuple):
    """What a search leaves: PROVED, FOUND or LIMIT; the nodes opened; the tree; posteriors (m, M); the least F met."""

    outcome: int
    opened: int
    tree: Tree
    found: Array
    best: float


@compiled_inner
def open_children(
    tree: Tree, frontier: Frontier, place: tuple[int, int, int, float], box: Box, point: Array
) -> int:
    """Open the children of a node, one (SHRINK) or two, with its box, multipliers and point (M,); return how many.

    ``place`` is the node, the number of its first child, the height of the frontier, and its bound in nats.
    """
    node, first, height, bound = place
    children = 1 if tree.variable[node] == SHRINK else 2
    tree.first[node] = first
    for child in range(children):
        copy(tree.q[first + child], tree.q[node])
        push(frontier, height + child, first + child, bound, box, point)
    return children


@compiled(later=True)
def is_known(known: Array, point: Array) -> bool:
    """Whether a posterior (M,) is among some ``known`` ones (n, M)."""
    for j in range(known.shape[0]):
        distance = 0.0
        for i in range(point.size):
            distance += abs(known[j, i] - point[i])
        # Posteriors of one search this close in total variation are the same.
        if distance < 1e-3:
            return True
    return False


@compiled(later=True)
def begin(pricing: Pricing, node_limit: int) -> State:
    """A search that has opened nothing yet."""
    n_x, n_s = pricing.columns.shape
    tree = new_tree(min(node_limit, FIRST_NODES) + 2, n_s)
    # Room for boxes beyond these: as the newest comes first, it takes a tree this much deeper to fill it.
    frontier = new_frontier(FRONTIER + 400, n_x)
    found = np.zeros((MOST_FOUND, n_x))
    return State(tree, frontier, new_workspace(n_x, n_s), found, 0, 1, 1, 0, node_limit, np.inf)


@compiled(later=True)
def advance(
    pricing: Pricing,
    rivals: NDArray[np.uint8] | None,
    cliques: Cliques | None,
    state: State,
    cutoff: float,
    patience: int,
    tightness: float,
    boxes: int,
) -> Advanced:
    """Open up to ``boxes`` more, of single symbols with ``rivals``, or of ``cliques``; one of the two is None.

    The other arguments are those of :func:`branch_and_bound`.
    Returns the tree and the numbers of the state, in plain tuples: to make a named one is Python's work, where a signal
    that came in the meantime would strike inside numba and crash it. The other arrays are written to.
    """
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
        # A box whose bound reaches the cutoff is settled: its node stays a leaf.
        price, bound = bound_box(pricing, box, point, tree.q[node], (cutoff, tightness), work, cliques)
        tree.nu[node] = price
        if bound >= cutoff:
            continue
        # The relaxation's minimiser is where F may be below the cutoff itself: descend from there.
        copy(candidate, point)
        # Steps of the descent from each box's point.
        score = descend(pricing, candidate, image, 12)
        best = min(best, score)
        if score < cutoff:
            if not is_known(found[:n_found], candidate):
                if n_found == MOST_FOUND:
                    last = opened
                    break
                # Go on for a while after the first: a round of the master program gains from several.
                if n_found == 0:
                    last = min(last, 2 * opened + patience)
                    pause = min(pause, last)
                copy(found[n_found], candidate)
                n_found += 1
            # This box will never be settled: leave it and look elsewhere. Large ones, early on, hold more than that.
            if opened > patience:
                continue
        # Make it smaller by the checker's rules; a box that becomes empty is settled too.
        before = width_of(box, cliques)
        if not make_smaller(work.cost, slope, cutoff - bound, box, rivals, cliques, candidate):
            continue
        # Hand the rest to one child, if it is so much smaller that its bound will be better, or else to two.
        if n_nodes + 2 > tree.nu.size:
            tree = grown(tree)
        if height + 2 > frontier.node.size:
            height += 1  # this box stays open
            last = opened
            break
        # A box that shrinks below this share of its total width is bounded again before it is split.
        if width_of(box, cliques) < 0.7 * before:
            tree.variable[node] = SHRINK
        else:
            split_box(tree, node, pricing, box, point, cutoff - bound, work, cliques)
        children = open_children(tree, frontier, (node, n_nodes, height, bound), box, point)
        if children == 2:
            part_box(tree, node, frontier, height, pricing.columns, cliques)
        height += children
        n_nodes += children
    return tree[:], n_found, n_nodes, height, opened, last, best


def branch_and_bound(
    pricing: Pricing,
    rivals: NDArray[np.uint8],
    cutoff: float,
    node_limit: int,
    patience: int,
    tightness: float,
    deadline: Deadline = NEVER,
) -> Explored:
    """Search one component's simplex for ``F(w) < cutoff``.

    Args:
        pricing: The function F; its columns C-contiguous.
        rivals: Pairs of symbols that need not be used together, (M, M).
        cutoff: The value to prove or to undercut.
        node_limit: Most nodes to open.
        patience: Nodes, besides as many as it took, to go on collecting after the first posterior below the cutoff.
        tightness: How well each relaxation is solved, see :func:`relax`.
        deadline: When to stop, whatever is left; looked at now and then, as signals are.
    """
    limits = (cutoff, node_limit, patience, tightness)
    return search_boxes(pricing, rivals, None, limits, deadline)


def search_cliques(
    pricing: Pricing,
    groups: NDArray[np.int32],
    cutoff: float,
    node_limit: int,
    patience: int,
    tightness: float,
    deadline: Deadline = NEVER,
) -> Explored:
    """The same with boxes over cliques of rivals; the other arguments are those of :func:`branch_and_bound`.

    ``groups`` (M,) are the cliques, see :func:`privfunnel.certificate.cliques_of`.
    """
    limits = (cutoff, node_limit, patience, tightness)
    return search_boxes(pricing, None, new_cliques(groups), limits, deadline)


def search_boxes(
    pricing: Pricing,
    rivals: NDArray[np.uint8] | None,
    cliques: Cliques | None,
    limits: tuple[float, int, int, float],
    deadline: Deadline,
) -> Explored:
    """Search with one kind of boxes; the ``limits`` are ``cutoff``, ``node_limit``, ``patience`` and ``tightness``."""
    cutoff, node_limit, patience, tightness = limits
    state = begin(pricing, node_limit)
    pace, each = Pace(FIRST_WORK // pricing.columns.size), PLAN.plain_entry_seconds * pricing.columns.size
    while state.height > 0 and state.opened < state.last and pace.goes_on(deadline):
        boxes, before = min(pace.size, 1.0 + left() // each), state.opened
        made = advance(pricing, rivals, cliques, state, cutoff, patience, tightness, int(boxes))
        state = State(Tree(*made[0]), state.frontier, state.work, state.found, *made[1:])
        spend(each * (state.opened - before))
    return explored(state)


def explored(state: State) -> Explored:
    """What a search leaves that has ended, or was ended: what is still open is not proved."""
    outcome = FOUND if state.n_found > 0 else LIMIT if state.height > 0 else PROVED
    tree, found = kept(state.tree, state.n_nodes), state.found[: state.n_found]
    return Explored(outcome, int(state.opened), tree, found, float(state.best))


def root_bound(pricing: Pricing, tree: Tree) -> float:
    """What the root's multipliers prove of F on the whole simplex, ``ν + Σ_i min(0, ρ_i)``, in nats."""
    q, nu = tree.q[0], float(tree.nu[0])
    q = q - q.max()
    rates = pricing.columns @ (q - np.log(np.exp(q).sum())) - pricing.prices - nu
    return nu + float(np.minimum(rates, 0.0).sum())
