"""Branch and bound over all posteriors of one stratum, compiled: for attackers' mutual information without guarantees.

The tree is that of :mod:`.branching`, which serves all other threats: its programs learn tangents and know every set W.
Here a box costs some Newton steps (:mod:`.box_relaxation`) in place of some linear programs.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.columns.general.box_centres import loosest_bend
from privfunnel.algorithms.columns.general.box_relaxation import (
    Pricing,
    Work,
    new_work,
    relax,
    try_multipliers,
)
from privfunnel.algorithms.columns.general.branching import Bracket, Explored
from privfunnel.algorithms.columns.general.curvature_bounds import (
    CURVED_UP_TO,
    Curves,
    Room,
    copy_row,
    curved_bound,
    cut,
    hand_down,
    longer,
    new_curves,
    new_room,
)
from privfunnel.algorithms.columns.general.curvature_shares import balance
from privfunnel.algorithms.columns.general.images import Images, fill_image, fill_multipliers, images_of
from privfunnel.algorithms.columns.general.local_descents import descend
from privfunnel.algorithms.columns.general.open_boxes import Frontier, larger, new_frontier, pop, push
from privfunnel.algorithms.columns.general.plan import PLAN
from privfunnel.algorithms.columns.general.reachable_cutoff import Landing
from privfunnel.algorithms.columns.general.tangent_relaxation import Relaxation
from privfunnel.algorithms.columns.plain.branching import is_known
from privfunnel.algorithms.columns.plain.search_trees import Tree, grown, kept, new_tree
from privfunnel.algorithms.deadline import Deadline, Pace
from privfunnel.algorithms.posteriors.boxes import (
    Box,
    choose_split,
    copy,
    propagate,
    shrink,
    split_near,
    sum_of_ends,
    total_width,
)
from privfunnel.certificate import SHRINK, Proof
from privfunnel.certificate.attacker_images import Stack, stack
from privfunnel.certificate.curvature import Curved
from privfunnel.infra.jit import compiled
from privfunnel.infra.signals import unveiled
from privfunnel.measures import Array
from privfunnel.model.threat import Stratum, Threat

#: Room for nodes and for open boxes at first; it doubles when it is used up.
FIRST_NODES = FIRST_OPEN = 1024
#: Numbers that a tree and its open boxes may hold, a gigabyte: a search ends there, whatever its limits are.
MOST_NUMBERS = 125_000_000
#: Posteriors that one search collects at most, and boxes it opens after the first besides as many as that took.
MOST_FOUND, PATIENCE = 48, 60
#: A split leaves the left side at least this share of the interval, and the right one this; and with curvature.
LEFT, RIGHT = 0.3, 0.5
CURVED_LEFT, CURVED_RIGHT = 0.25, 0.7
#: Entries of the curvature that are worked on before the first look at the clock.
FIRST_WORK = 50_000


class State(NamedTuple):
    """A search under way: tree, open boxes, scratch arrays and posteriors found, and how many there are of each.

    ``n_nodes`` of the tree and ``height`` rows of the frontier are in use; ``opened`` boxes were, ``last`` are to
    be at most. ``left`` is the lowest bound of those that were left as they are, since they hold a posterior found.
    """

    tree: Tree
    curves: Curves
    frontier: Frontier
    work: Work
    room: Room
    found: Array
    n_found: int
    n_nodes: int
    height: int
    opened: int
    last: int
    left: float


#: What :func:`advance` gives: tree, curves, frontier, then ``n_found``, …, ``left`` of a :class:`State`.
Advanced = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], int, int, int, int, int, float]


@compiled
def load(images: Images, row: Array, work: Work) -> None:
    """Fill ``work.q`` (J,) with the multipliers of a node, by what the ``row`` of its tree has."""
    if row.size == work.q.size:
        copy(work.q, row)
    else:
        copy(work.touching, row)
        fill_image(images, row, work.image, work.sums)
        fill_multipliers(images, work.image, work.sums, work.q)


@compiled
def store(row: Array, work: Work) -> None:
    """Write a node's multipliers (J,) into the ``row`` of its tree, or where they touch φ, (M,), which may be less."""
    copy(row, work.q if row.size == work.q.size else work.touching)


@compiled
def split_of(
    box: Box, point: Array, slope: float, excess: float, curves: Curves, row: int, work: Work
) -> tuple[int, float, float]:
    """The symbol to split on, where its left side ends and where its right one begins: where the bound loses most.

    As :func:`.boxes.choose_split` has it, with the curvature of a ``row`` of ``curves``; −1 is for none.
    """
    symbol = loosest_bend(slope, box, point, curves.curvature[row]) if row >= 0 else -1
    if symbol < 0:
        return choose_split(box, point, slope, excess, work.cost, (work.alpha, work.beta), (LEFT, RIGHT))
    low = box.lower[symbol]
    high = box.upper[symbol]
    sides = (CURVED_LEFT, CURVED_RIGHT)
    left, right = split_near(point[symbol], low, high, slope, excess, work.cost[symbol], sides)
    return symbol, left, right


@compiled
def open_children(
    tree: Tree, frontier: Frontier, node: int, first: int, height: int, bound: float, box: Box, point: Array
) -> int:
    """Open the children of a node, numbered from ``first`` on; return how many they are.

    They share its box (SHRINK) or the two sides of its split. What its multipliers and price prove holds of them until
    they are bounded themselves.
    """
    symbol = tree.variable[node]
    children = 1 if symbol == SHRINK else 2
    tree.first[node] = first
    for child in range(children):
        copy(tree.q[first + child], tree.q[node])
        tree.nu[first + child] = tree.nu[node]
        row = push(frontier, height + child, first + child, bound, box, point)
        if children == 2 and child == 0:
            frontier.upper[row, symbol] = tree.split[node, 0]
        elif children == 2:
            frontier.lower[row, symbol] = tree.split[node, 1]
    return children


@compiled
def bend(
    pricing: Pricing, box: Box, point: Array, node: int, tree: Tree, curves: Curves, room: Room, work: Work
) -> tuple[float, float]:
    """Give a node a centre, its multipliers, and curvature; return its bounds without and with it, in nats.

    ``point`` (M,) comes in as the relaxation's, or as the parent's centre where the node has its curvature, and leaves
    as the centre.
    ``work.cost`` (M,) leaves as the rates of the e_i without, ``room.rates`` (M,) as those with.
    """
    q, curvature = work.q, curves.curvature[node]
    if not curves.used[node]:
        for i in range(point.size):
            curvature[i] = 0.0
    curves.used[node] = balance(pricing, box, point, curvature, q, work, room)
    copy(work.touching, point)
    store(tree.q[node], work)
    copy(work.trial_q, q)
    _, price = try_multipliers(pricing, box, work)
    copy(work.cost, work.trial_cost)
    tree.nu[node] = price
    bound = sum_of_ends(pricing.slope, box, price, work.cost, work.beta)
    if not curves.used[node]:
        return bound, -np.inf
    for i in range(point.size):
        room.rates[i] = work.cost[i] + price
        curves.centre[node, i] = min(max(point[i], box.lower[i]), box.upper[i])
    return bound, curved_bound(pricing.slope, box, curves, node, room)


@compiled
def begin(pricing: Pricing, caps: Array, node_limit: int) -> State:
    """A search that has opened nothing yet; posteriors are at most ``caps`` (M,)."""
    n_x, size = pricing.images.columns.shape
    tree = new_tree(min(node_limit, FIRST_NODES) + 2, min(size, n_x))
    work = new_work(n_x, size, pricing.images.starts.size - 1)
    work.touching[:] = 1.0 / n_x
    fill_image(pricing.images, work.touching, work.image, work.sums)
    fill_multipliers(pricing.images, work.image, work.sums, work.q)
    store(tree.q[0], work)
    frontier = new_frontier(FIRST_OPEN, n_x)
    push(frontier, 0, 0, -np.inf, Box(np.zeros(n_x), caps), np.full(n_x, 1.0 / n_x))
    curves = new_curves(tree.nu.size if n_x <= CURVED_UP_TO else 1, n_x)
    found = np.zeros((MOST_FOUND, n_x))
    return State(tree, curves, frontier, work, new_room(n_x), found, 0, 1, 1, 0, node_limit, np.inf)


@compiled
def with_room(
    tree: Tree, curves: Curves, frontier: Frontier, n_nodes: int, height: int
) -> tuple[Tree, Curves, Frontier]:
    """The same with room for two nodes and two open boxes more than there are."""
    if n_nodes + 2 > tree.nu.size:
        tree = grown(tree)
        curves = longer(curves, tree.nu.size)
    if height + 2 > frontier.node.size:
        frontier = larger(frontier)
    return tree, curves, frontier


@compiled
def advance(pricing: Pricing, total: float, state: State, cutoff: float, boxes: int) -> Advanced:
    """Open up to ``boxes`` more, to prove F ≥ ``cutoff``, or to find posteriors below it; ``total`` is Θ.

    Returns what may be new of the state in plain tuples: to make a named one is Python's work, where a signal that came
    in the meantime would strike inside numba and crash it. The other arrays are written to.
    """
    n_x, slope = pricing.prices.size, pricing.slope
    tree, curves, frontier, work, room, found, n_found, n_nodes, height, opened, last, left = state
    box = Box(np.zeros(n_x), np.zeros(n_x))
    point, candidate = np.zeros(n_x), np.zeros(n_x)
    pause = min(opened + boxes, last)
    while height > 0 and opened < pause:
        node = pop(frontier, height, box, point)
        height -= 1
        opened += 1
        copy(candidate, point)
        load(pricing.images, tree.q[node], work)
        # How well each relaxation is solved, a share of the missing height.
        price = relax(pricing, box, candidate, work.q, cutoff, 0.5, work)
        store(tree.q[node], work)
        tree.nu[node] = price
        bound = sum_of_ends(pricing.slope, box, price, work.cost, work.beta)
        if bound >= cutoff:
            if n_x <= CURVED_UP_TO:
                curves.used[node] = False  # its parent's are not needed
            continue
        if n_x > CURVED_UP_TO or not curves.used[node]:
            copy(point, candidate)  # others have the centre that goes with their curvature
        if descend(pricing, total, candidate, cutoff, work) < cutoff:
            if not is_known(found[:n_found], candidate):
                # Go on for a while after the first: a round of the master program gains from several.
                if n_found == 0:
                    last = min(last, 2 * opened + PATIENCE)
                    pause = min(pause, last)
                copy(found[n_found], candidate)
                n_found += 1
                if n_found == MOST_FOUND:
                    last = opened
                    left = min(left, bound)
                    break
            if opened > PATIENCE:
                left = min(left, bound)
                continue
        before = total_width(box)
        curved = -np.inf
        if n_x <= CURVED_UP_TO:
            bound, curved = bend(pricing, box, point, node, tree, curves, room, work)
            if curved >= cutoff:
                continue
        # Make it smaller by the checker's rules; a box that becomes empty is settled too.
        shrink(work.cost, slope, cutoff - bound, box)
        if curved > -np.inf:
            cut(slope, cutoff - curved, box, curves, node, room)
        if not propagate(box):
            continue
        tree, curves, frontier = with_room(tree, curves, frontier, n_nodes, height)
        # A box that shrinks below this share of its total width is bounded again before it is split.
        if total_width(box) < 0.5 * before:
            tree.variable[node] = SHRINK
        else:
            row = node if n_x <= CURVED_UP_TO else -1
            tree.variable[node], tree.split[node, 0], tree.split[node, 1] = split_of(
                box, point, slope, cutoff - bound, curves, row, work
            )
        reach = max(bound, curved)
        children = open_children(tree, frontier, node, n_nodes, height, reach, box, point)
        hand_down(curves, node, n_nodes, children)
        height += children
        n_nodes += children
    return tree[:], curves[:], frontier[:], n_found, n_nodes, height, opened, last, left


def search(
    pricing: Pricing,
    total: float,
    caps: Array,
    cutoff: float,
    node_limit: int,
    deadline: Deadline,
    *,
    trial: bool = False,
) -> Explored:
    """Search the stratum's posteriors for ``F(w) < cutoff``; prove that there is none where there is none.

    Where the limits come long before that, something lower is proved: see :mod:`.reachable_cutoff`; but not in a
    ``trial``.

    Args:
        pricing: The function F.
        total: Θ, the sum of the attackers' weights.
        caps: Largest entries of a posterior, (M,).
        cutoff: The value to prove or to undercut, in nats.
        node_limit: Most boxes to open.
        deadline: When to stop; looked at now and then, as signals are.
        trial: Whether to end at the limits with nothing proved.
    """
    state = begin(pricing, caps, node_limit)
    pace, hurried = Pace(FIRST_WORK // pricing.prices.size**2), False
    landing = Landing(cutoff, steady=trial)
    while state.height > 0 and state.opened < state.last and pace.goes_on(deadline):
        boxes = max(1, min(pace.size, math.ceil(min(landing.next_look, 1.0) * node_limit) - state.opened))
        tree, curves, frontier, n_found, n_nodes, height, opened, last, left = advance(
            pricing, total, state, landing.cutoff, boxes
        )
        made = (Tree(*tree), Curves(*curves), Frontier(*frontier), state.work, state.room, state.found)
        state = State(*made, n_found, n_nodes, height, opened, last, left)
        time_used, boxes_used = deadline.elapsed() / deadline.seconds, opened / node_limit
        used = max(time_used, boxes_used)
        if height > 0 and n_found == 0 and used >= landing.next_look:
            ahead = functools.partial(boxes_left, pricing, total, state, landing.cutoff)
            landing.look(used, opened, least_bound(state), ahead)
            hurried = landing.landed and time_used > boxes_used
        if landing.landed and least_bound(state) >= landing.cutoff:
            break  # what was opened for a higher cutoff is settled for this one
    least = min(landing.cutoff, float(state.left), least_bound(state))
    complete = state.height == 0 and state.n_found == 0 and not landing.landed
    found = np.array(state.found[: state.n_found])
    nodes = CompiledTree(kept(state.tree, state.n_nodes), state.curves)
    cut_short = trial and state.height > 0 and state.n_found == 0 and not deadline.passed()
    rest = boxes_left(pricing, total, state, cutoff) if cut_short else 0.0
    return Explored(nodes, least, found, int(state.opened), complete, hurried, rest)


def least_bound(state: State) -> float:
    """The least bound of the open boxes, in nats; ∞ where none is open."""
    waiting = state.frontier.order[: state.height]
    return float(state.frontier.promise[waiting].min(initial=np.inf))


def boxes_left(pricing: Pricing, total: float, state: State, cutoff: float) -> float:
    """About how many boxes are still to be opened to prove F ≥ ``cutoff``: the mean of some ways down, all boxes alike.

    A way down from an open box that takes either child by chance counts what it comes to after d splits 2^d times: in
    the mean that is all there are (D. E. Knuth, Mathematics of Computation 29, 1975).
    """
    rng, waiting = np.random.default_rng(state.opened), state.frontier.order[: state.height]
    counted, visited = [0.0], 0
    while visited < PLAN.ways * state.opened:
        way = _way_down(pricing, total, state, int(rng.choice(waiting)), cutoff, rng)
        counted.append(way[0])
        visited += way[1]
    return state.height * float(np.mean(counted[1:] or counted))


def _way_down(
    pricing: Pricing, total: float, state: State, row: int, cutoff: float, rng: Generator
) -> tuple[float, int]:
    """What one way down from the open box of a ``row`` counts, and the boxes that it visits."""
    made = begin(pricing, state.frontier.upper[row], state.last)
    node = int(state.frontier.node[row])
    copy(made.tree.q[0], state.tree.q[node])
    if state.curves.nu.size > 1:
        copy_row(made.curves, 0, state.curves, node)
    frontier, place, child, weights = state.frontier, row, 0, [1.0]
    while True:
        alone, box = new_frontier(2, made.found.shape[1]), Box(frontier.lower[place], frontier.upper[place])
        push(alone, 0, child, 0.0, box, frontier.point[place])
        tree, curves, boxes, n_found, n_nodes, height, *_ = advance(
            pricing, total, made._replace(frontier=alone, height=1, opened=0), cutoff, 1
        )
        if height == 0 or n_found > 0:
            return sum(weights), len(weights)
        frontier = Frontier(*boxes)
        place = int(frontier.order[rng.integers(height)])
        child = int(frontier.node[place])
        weights.append(weights[-1] * height)
        made = made._replace(tree=Tree(*tree), curves=Curves(*curves), n_nodes=n_nodes)


def explore_compiled(
    stratum: Stratum,
    threat: Threat,
    bracket: Bracket,
    cutoff: float,
    nodes: int,
    deadline: Deadline,
    *,
    trial: bool = False,
) -> Explored:
    """:func:`.branching.explore` by the compiled search, for what :func:`is_for` says."""
    images = stack(stratum, threat, bracket.weights.tolist(), zero=False)
    n_x, size = images.columns.shape
    nodes = min(nodes, MOST_NUMBERS // (min(size, n_x) + (7 if n_x <= CURVED_UP_TO else 3) * n_x))
    if (
        PLAN.box_seconds * n_x**3 > deadline.left()
    ):  # not one box can be bounded: the time is for better posteriors
        none = CompiledTree(new_tree(1, size), new_curves(1, n_x))
        return Explored(none, -math.inf, np.zeros((0, n_x)), 0, False, True)
    pricing = Pricing(images_of(images), bracket.prices, bracket.slope)
    with unveiled():
        total = float(bracket.weights.sum())
        return search(pricing, total, images.caps, cutoff, nodes, deadline, trial=trial)


def is_for(relaxation: Relaxation, bracket: Bracket) -> bool:
    """Whether the compiled search can be used, and is compiled: for mutual information and all posteriors."""
    usable = hasattr(advance, "py_func") and relaxation.free and bracket.task is None
    return usable and relaxation.measure.is_information and bool(bracket.weights.any())


class CompiledTree(NamedTuple):
    """The nodes of a compiled search; columns of attackers without weight are not among its multipliers."""

    nodes: Tree
    curves: Curves

    def proof(self, claim: float, images: Stack, weights: Array) -> Proof:
        """As certificates store it."""
        q, nu, variable, split, first = self.nodes
        # As :func:`store` has them: where multipliers touch φ, if there are more of these than symbols.
        used = [block.stop - block.start for block in images.blocks if weights[block.owner] > 0.0]
        by_points = q.shape[1] < sum(used)
        return Proof(
            claim=claim,
            q=np.zeros((len(q), 0)) if by_points else q.copy(),
            nu=nu.copy(),
            variable=variable.copy(),
            split=split.copy(),
            first=first.copy(),
            curved=self._curved(),
            touching=q.copy() if by_points else None,
        )

    def _curved(self) -> Curved | None:
        """What its nodes with curvature store; None where there are none."""
        used, *arrays = self.curves
        rows = np.flatnonzero(used[: self.nodes.nu.size])
        if not rows.size:
            return None
        nu, curvature, centre, lower, upper = (each[rows] for each in arrays)
        return Curved(rows.astype(np.int32), nu, curvature, centre, lower, upper)
