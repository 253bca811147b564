"""Spatial branch and bound for one pricing problem: prove ``min F >= cutoff``, or find posteriors below it.

The proof is a binary tree of boxes. A node stores multipliers ``(q, ν)``; its bound is the plain sum

    F(w) >= ν + Σ_i min(e_i(l_i), e_i(u_i)),    e_i(w) = (p_i·q - a_i - ν) w - μ w log w,

because every ``e_i`` is concave. The same ``e_i`` shrink the box (a coordinate whose own ``e_i`` lifts the sum above
the cutoff cannot be there) and drop the middle of a split. :mod:`privfunnel.certificate` redoes all of it from the
stored numbers alone, so both must shrink boxes by the same rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import LEAF, SHRINK
from privfunnel.jit import compiled
from privfunnel.measures import Array
from privfunnel.solvers.deadline import NEVER, Deadline, Pace
from privfunnel.solvers.global_.descents import Pricing, descend
from privfunnel.solvers.global_.relaxation import Workspace, new_workspace, relax
from privfunnel.solvers.posteriors.boxes import Box, copy, exclude, plogp, propagate, shrink, split_hole

#: How a search ended: the tree proves the cutoff, posteriors are below it, or the nodes ran out.
PROVED, FOUND, LIMIT = 0, 1, 2
#: While fewer boxes are open, the one of the lowest bound comes first, which finds posteriors sooner; beyond, the
#: newest does, so that memory stays bounded.
FRONTIER = 1000
#: Room for boxes beyond these: as the newest comes first, it takes a tree this much deeper to fill it.
SPARE_DEPTH = 400
#: Room for nodes at first; it doubles when it is used up.
FIRST_NODES = 1024
#: Posteriors that one search collects at most.
MOST_FOUND = 64
#: Posteriors of one search this close in total variation are the same.
SAME = 1e-3
#: Steps of the descent from each box's point.
DESCENT_STEPS = 12
#: A box that shrinks below this share of its total width is bounded again before it is split.
WORTH_BOUNDING = 0.7
#: A split leaves each side at least this share of the interval.
LEAST_SIDE = 0.2


#: Entries of columns that are worked on before the first look at the clock.
FIRST_WORK = 20_000


class Tree(NamedTuple):
    """The nodes' arrays as in :class:`privfunnel.certificate.Proof`, with room for more nodes than there are."""

    q: Array
    nu: Array
    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]


class Frontier(NamedTuple):
    """The open boxes, one a row: their node (n,), parent's bound (n,), ends and the parent's point, (n, M) each."""

    node: NDArray[np.int64]
    promise: Array
    lower: Array
    upper: Array
    point: Array


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


@compiled
def new_tree(size: int, n_s: int) -> Tree:
    """A tree with room for ``size`` nodes, all leaves; the root's multipliers are those of the uniform p(s)."""
    q = np.zeros((size, n_s))
    for k in range(n_s):
        q[0, k] = -np.log(n_s)
    return Tree(
        q, np.zeros(size), np.full(size, LEAF, np.int32), np.zeros((size, 2)), np.zeros(size, np.int32)
    )


@compiled
def new_frontier(depth: int, n_x: int) -> Frontier:
    """Room for ``depth`` boxes, the first of which is the whole simplex and belongs to the root."""
    frontier = Frontier(
        np.zeros(depth, np.int64),
        np.zeros(depth),
        np.zeros((depth, n_x)),
        np.zeros((depth, n_x)),
        np.zeros((depth, n_x)),
    )
    for i in range(n_x):
        frontier.upper[0, i] = 1.0
        frontier.point[0, i] = 1.0 / n_x
    return frontier


@compiled
def doubled(table: Array) -> Array:
    """A table (n, m) with room for as many rows again, which are 0."""
    larger = np.zeros((2 * table.shape[0], table.shape[1]))
    for i in range(table.shape[0]):
        copy(larger[i], table[i])
    return larger


@compiled
def doubled_index(values: NDArray[np.int32], rest: int) -> NDArray[np.int32]:
    """A vector with room for as many entries again, which are ``rest``."""
    larger = np.full(2 * values.size, rest, np.int32)
    for i in range(values.size):
        larger[i] = values[i]
    return larger


@compiled
def grown(tree: Tree) -> Tree:
    """The tree with room for twice as many nodes."""
    return Tree(
        doubled(tree.q),
        doubled(tree.nu.reshape(-1, 1)).reshape(-1),
        doubled_index(tree.variable, LEAF),
        doubled(tree.split),
        doubled_index(tree.first, 0),
    )


@compiled
def kept(tree: Tree, n: int) -> Tree:
    """The tree without the room beyond its ``n`` nodes."""
    return Tree(tree.q[:n], tree.nu[:n], tree.variable[:n], tree.split[:n], tree.first[:n])


@compiled
def least_index(values: Array) -> int:
    """Where the least of some values (n,) is; the last such place."""
    best = values.size - 1
    for j in range(values.size - 1, -1, -1):
        if values[j] < values[best]:
            best = j
    return best


@compiled
def bring_up(j: int, top: int, frontier: Frontier) -> None:
    """Exchange open box ``j`` with the one on top, in place."""
    if j != top:
        node, promise, lower, upper, point = frontier
        node[j], node[top] = node[top], node[j]
        promise[j], promise[top] = promise[top], promise[j]
        for i in range(lower.shape[1]):
            lower[j, i], lower[top, i] = lower[top, i], lower[j, i]
            upper[j, i], upper[top, i] = upper[top, i], upper[j, i]
            point[j, i], point[top, i] = point[top, i], point[j, i]


@compiled
def load(frontier: Frontier, height: int, box: Box, point: Array) -> int:
    """Copy the box at ``height`` and its point (M,) out; return the node that it belongs to."""
    copy(box.lower, frontier.lower[height])
    copy(box.upper, frontier.upper[height])
    copy(point, frontier.point[height])
    return int(frontier.node[height])


@compiled
def push(frontier: Frontier, height: int, node: int, bound: float, box: Box, point: Array) -> None:
    """Put the box of a node on top of the open ones, with its parent's bound and point (M,)."""
    frontier.node[height] = node
    frontier.promise[height] = bound
    copy(frontier.lower[height], box.lower)
    copy(frontier.upper[height], box.upper)
    copy(frontier.point[height], point)


@compiled
def open_children(
    tree: Tree, frontier: Frontier, node: int, first: int, height: int, bound: float, box: Box, point: Array
) -> int:
    """Open the children of a node, numbered from ``first`` on; return how many they are.

    They share its box (SHRINK) or the two sides of its split, and start with its multipliers and its point (M,).
    """
    symbol = tree.variable[node]
    children = 1 if symbol == SHRINK else 2
    tree.first[node] = first
    for child in range(children):
        copy(tree.q[first + child], tree.q[node])
        push(frontier, height + child, first + child, bound, box, point)
    if children == 2:
        frontier.upper[height, symbol] = tree.split[node, 0]
        frontier.lower[height + 1, symbol] = tree.split[node, 1]
    return children


@compiled
def is_known(known: Array, point: Array) -> bool:
    """Whether a posterior (M,) is among some ``known`` ones (n, M)."""
    for j in range(known.shape[0]):
        distance = 0.0
        for i in range(point.size):
            distance += abs(known[j, i] - point[i])
        if distance < SAME:
            return True
    return False


@compiled
def total_width(box: Box) -> float:
    """``Σ_i (u_i − l_i)``."""
    lower, upper = box
    width = 0.0
    for i in range(lower.size):
        width += upper[i] - lower[i]
    return width


@compiled
def sum_of_ends(pricing: Pricing, box: Box, price: float, work: Workspace) -> float:
    """The bound as the checker computes it: the knapsack's value in another order of summation.

    ``work.cost`` (M,) leaves as the rates ``p_i·q - a_i - ν`` of the e_i.
    """
    lower, upper = box
    slope, rates, beta = pricing.slope, work.cost, work.beta
    bound = price
    for i in range(rates.size):
        rates[i] -= slope * beta[i] + price
        bound += min(
            rates[i] * lower[i] - slope * plogp(lower[i]), rates[i] * upper[i] - slope * plogp(upper[i])
        )
    return bound


@compiled
def loosest_symbol(point: Array, box: Box, alpha: Array, beta: Array) -> int:
    """The symbol whose chord is furthest below ``-w log w`` at ``point``."""
    lower, upper = box
    chosen = 0
    loosest = -1.0
    for i in range(point.size):
        w = min(max(point[i], lower[i]), upper[i])
        gap = -plogp(w) - alpha[i] - beta[i] * w
        if gap > loosest and upper[i] > lower[i]:
            loosest = gap
            chosen = i
    return chosen


@compiled
def choose_split(
    box: Box, point: Array, slope: float, excess: float, rates: Array, alpha: Array, beta: Array
) -> tuple[int, float, float]:
    """The symbol to split on, where its left side ends and where its right one begins.

    The split is near ``point`` (M,), but leaves each side wide enough. Between the sides e_i alone lifts the bound by
    ``excess``.
    """
    symbol = loosest_symbol(point, box, alpha, beta)
    low = box.lower[symbol]
    high = box.upper[symbol]
    margin = LEAST_SIDE * (high - low)
    middle = min(max(point[symbol], low + margin), high - margin)
    left, right = split_hole(rates[symbol], slope, excess, low, high, middle)
    return symbol, left, right


@compiled
def begin(pricing: Pricing, node_limit: int) -> State:
    """A search that has opened nothing yet."""
    n_x, n_s = pricing.columns.shape
    tree = new_tree(min(node_limit, FIRST_NODES) + 2, n_s)
    frontier = new_frontier(FRONTIER + SPARE_DEPTH, n_x)
    found = np.zeros((MOST_FOUND, n_x))
    return State(tree, frontier, new_workspace(n_x, n_s), found, 0, 1, 1, 0, node_limit, np.inf)


@compiled
def advance(
    pricing: Pricing,
    rivals: NDArray[np.uint8],
    state: State,
    cutoff: float,
    patience: int,
    tightness: float,
    boxes: int,
) -> Advanced:
    """Open up to ``boxes`` more; the other arguments are those of :func:`branch_and_bound`.

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
        price = relax(pricing, box, point, tree.q[node], cutoff, tightness, work)
        tree.nu[node] = price
        bound = sum_of_ends(pricing, box, price, work)
        if bound >= cutoff:
            continue
        # The relaxation's minimiser is where F may be below the cutoff itself: descend from there.
        copy(candidate, point)
        score = descend(pricing, candidate, image, DESCENT_STEPS)
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
        # Make it smaller by the checker's three rules; a box that becomes empty is settled too.
        before = total_width(box)
        shrink(work.cost, slope, cutoff - bound, box)
        exclude(rivals, box, candidate)  # the candidate is only scratch from here on
        if not propagate(box):
            continue
        # Hand the rest to one child, if it is so much smaller that its bound will be better, or else to two.
        if n_nodes + 2 > tree.nu.size:
            tree = grown(tree)
        if height + 2 > frontier.node.size:
            height += 1  # this box stays open
            last = opened
            break
        if total_width(box) < WORTH_BOUNDING * before:
            tree.variable[node] = SHRINK
        else:
            tree.variable[node], tree.split[node, 0], tree.split[node, 1] = choose_split(
                box, point, slope, cutoff - bound, work.cost, work.alpha, work.beta
            )
        children = open_children(tree, frontier, node, n_nodes, height, bound, box, point)
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
    state = begin(pricing, node_limit)
    pace = Pace(FIRST_WORK // pricing.columns.size)
    while state.height > 0 and state.opened < state.last and pace.goes_on(deadline):
        made = advance(pricing, rivals, state, cutoff, patience, tightness, pace.size)
        state = State(Tree(*made[0]), state.frontier, state.work, state.found, *made[1:])
    return explored(state)


def explored(state: State) -> Explored:
    """What a search leaves that has ended, or was ended: what is still open is not proved."""
    outcome = FOUND if state.n_found > 0 else LIMIT if state.height > 0 else PROVED
    tree, found = kept(state.tree, state.n_nodes), state.found[: state.n_found]
    return Explored(outcome, int(state.opened), tree, found, float(state.best))


def root_alone(tree: Tree) -> Tree:
    """A tree of nothing but this one's root."""
    root = kept(tree, 1)
    return root._replace(variable=np.full(1, LEAF, np.int32))


def root_bound(pricing: Pricing, tree: Tree) -> float:
    """What the root's multipliers prove of F on the whole simplex, ``ν + Σ_i min(0, ρ_i)``, in nats."""
    q, nu = tree.q[0], float(tree.nu[0])
    q = q - q.max()
    rates = pricing.columns @ (q - np.log(np.exp(q).sum())) - pricing.prices - nu
    return nu + float(np.minimum(rates, 0.0).sum())
