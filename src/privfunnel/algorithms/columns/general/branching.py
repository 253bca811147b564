"""Branch and bound over the allowed posteriors of one stratum: prove F ≥ cutoff, or find posteriors below it.

The tree is the one that :mod:`privfunnel.certificate` checks, with the multipliers of a stack in place of those of Pw.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from privfunnel.algorithms.columns.general.tangent_relaxation import Relaxation, Solved
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.posteriors.boxes import Box, fill_chords, propagate, shrink, split_hole
from privfunnel.certificate import LEAF, SHRINK, Proof
from privfunnel.certificate.attacker_images import Stack
from privfunnel.certificate.tree import LARGEST
from privfunnel.measures import Array, entropy, xlogx

#: The search proves this much more than it claims, so that the checker's rounding allowance fits in between.
MARGIN = 1e-9
#: Times what the checker takes a bound to be off by, and the unit of rounding errors.
ROUNDED, _EPS = 2.0, float(np.finfo(np.float64).eps)
#: Programs of one box at most, and the share of the missing height to which its relaxation is solved.
MOST_TRIALS, TIGHTNESS = 6, 0.5
#: Posteriors that violate W by less than this in all are in it.
INSIDE = 1e-8
#: Posteriors that one search collects at most, and boxes it opens after the first besides as many as that took.
MOST_FOUND, PATIENCE = 30, 30
#: A box that shrinks below this share of its total width is bounded again before it is split.
WORTH_BOUNDING = 0.7
#: Where W has more equations than this share of the symbols, they are used to make boxes smaller:
TIED = 0.3
#: on so many symbols of a box, where that cuts off this share of the interval, with multipliers times this.
MOST_TIGHTENED, LEAST_CUT, FACTOR = 3, 0.1, 1e4
#: Open boxes up to which the one of the least bound comes first; beyond, the newest does.
FRONTIER = 5000


class Bracket(NamedTuple):
    """F of one stratum: weights θ (averages,), prices a (M,) and slope μ; λω of a task's entries, (D,)."""

    weights: Array
    prices: Array
    slope: float
    task: Array | None = None

    @property
    def slopes(self) -> float | Array:
        """The slope of every entry of a point: μ of all of them, or (n,)."""
        if self.task is None:
            return self.slope
        return np.concatenate([np.full(self.prices.size, self.slope), self.task])

    @property
    def costs(self) -> Array:
        """The prices of the entries, (n,): a task's have none."""
        return self.prices if self.task is None else np.append(self.prices, np.zeros(self.task.size))


class Bounded(NamedTuple):
    """A box's multipliers (J,) and ν, the rates (n,) of the e_i, the bound they prove, and the program's point (n,)."""

    multipliers: Array
    price: float
    rates: Array
    bound: float
    point: Array
    inside: bool


@dataclass(eq=False)
class Tree:
    """The nodes so far, as lists."""

    q: list[Array] = field(default_factory=list)
    nu: list[float] = field(default_factory=list)
    variable: list[int] = field(default_factory=list)
    split: list[tuple[float, float]] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    def new(self, size: int, parent: Array | None = None, price: float = 0.0) -> int:
        """Add a leaf; its multipliers and ν are its parent's until it is bounded, and prove no less of it."""
        self.q.append(np.zeros(size) if parent is None else parent)
        self.nu.append(price)
        self.variable.append(LEAF)
        self.split.append((0.0, 0.0))
        self.first.append(0)
        return len(self.nu) - 1

    def proof(self, claim: float, images: Stack, weights: Array) -> Proof:
        """As certificates store it: multipliers of averages without weight are left out."""
        kept = [block for block in images.blocks if not block.leaks or weights[block.owner] > 0.0]
        places = np.concatenate([np.arange(0), *(np.arange(each.start, each.stop) for each in kept)])
        return Proof(
            claim=claim,
            q=np.array(self.q)[:, places.astype(np.intp)],
            nu=np.array(self.nu),
            variable=np.array(self.variable, dtype=np.int32),
            split=np.array(self.split),
            first=np.array(self.first, dtype=np.int32),
        )


class AnyTree(Protocol):
    """The nodes of a search, which make a proof."""

    def proof(self, claim: float, images: Stack, weights: Array) -> Proof:
        """As certificates store it: multipliers of averages without weight are left out."""
        ...


class Explored(NamedTuple):
    """The tree, what it proves (the cutoff where it is complete), posteriors (n, M) below the cutoff, boxes opened.

    A tree that was cut short proves the least bound of the boxes that it leaves open. A ``hurried`` search gave the
    cutoff up for a lower one, because time was short. About so many boxes are ``left`` where a trial was cut short.
    """

    tree: AnyTree
    least: float
    found: Array
    opened: int
    complete: bool
    hurried: bool = False
    left: float = 0.0


def value(relaxation: Relaxation, bracket: Bracket, posteriors: Array) -> Array:
    """F of posteriors (n, M), in nats, shape (n,)."""
    points = relaxation.images.points(posteriors)
    leaked = np.array([relaxation.spread(bracket.weights) @ relaxation.curvature(w) for w in points])
    made = leaked + bracket.slope * entropy(posteriors) - posteriors @ bracket.prices
    if bracket.task is not None:
        made = made - xlogx(points[:, relaxation.n_x :]) @ bracket.task
    return np.asarray(made)


def bound_box(relaxation: Relaxation, bracket: Bracket, box: Box, cutoff: float) -> Bounded | None:
    """The best bound of a box that a few programs give; None where a program fails."""
    alpha, beta = np.empty(relaxation.n_entries), np.empty(relaxation.n_entries)
    fill_chords(box, alpha, beta)
    cost = bracket.slopes * beta - bracket.costs
    best: Bounded | None = None
    for _ in range(MOST_TRIALS):
        solved = relaxation.minimise(cost, box)
        if solved is None:
            return best
        made = _bounded(relaxation, bracket, box, solved)
        better = best is None or made.bound > best.bound
        best = made if best is None or better else best._replace(point=made.point, inside=made.inside)
        if best.bound >= cutoff:
            break
        if not relaxation.sharpen(solved.point, bracket.weights, TIGHTNESS * (cutoff - best.bound)):
            break
    return best


def _bounded(relaxation: Relaxation, bracket: Bracket, box: Box, solved: Solved) -> Bounded:
    """What multipliers prove over a box, by the checker's rule."""
    images = relaxation.images
    z, shift = images.normalised(solved.multipliers[None, :])
    rates = images.columns @ (z[0] * relaxation.scale(bracket.weights)) - bracket.costs
    rates[: relaxation.n_x] -= solved.price
    if bracket.task is not None and bracket.slope <= 0.0 and bool(np.all(box.upper[: relaxation.n_x] >= 1.0)):
        # Σ w = 1 is then all that is known of w: ν takes the least rate, however many symbols have it.
        least = min(float(rates[: relaxation.n_x].min()), 0.0)
        rates[: relaxation.n_x] -= least
        solved = solved._replace(price=solved.price + least)
    slopes = bracket.slopes
    ends = np.minimum(
        rates * box.lower - slopes * xlogx(box.lower), rates * box.upper - slopes * xlogx(box.upper)
    )
    bound = solved.price + float(shift[0]) + float(ends.sum())
    bound -= _rounding(relaxation, bracket, box, (z[0], solved.price, float(shift[0])), rates, ends)
    return Bounded(solved.multipliers, solved.price, rates, bound, solved.point, solved.violation <= INSIDE)


def _rounding(
    relaxation: Relaxation,
    bracket: Bracket,
    box: Box,
    multipliers: tuple[Array, float, float],
    rates: Array,
    ends: Array,
) -> float:
    """What the checker allows for rounding in a bound, with room: large multipliers of a narrow W make it large."""
    images, (z, price, shift) = relaxation.images, multipliers
    n, size = images.columns.shape
    sizes = np.abs(z * relaxation.scale(bracket.weights)) @ images.sizes.T + np.abs(bracket.costs)
    largest = float(sizes.max()) + abs(price) + abs(shift)
    noise = 16.0 * (np.abs(rates) * box.upper + 0.4 * bracket.slopes)
    terms = len(images.groups) * (size + 16) * largest + float(noise.sum()) + 8.0 * size
    return float(ROUNDED * _EPS * (terms + (n + 8) * (abs(price) + float(np.abs(ends).sum()))))


def explore(
    relaxation: Relaxation, bracket: Bracket, cutoff: float, nodes: int, deadline: Deadline
) -> Explored:
    """Search the stratum's posteriors for ``F(w) < cutoff``; prove that there is none where there is none."""
    relaxation.deadline = deadline
    relaxation.weigh(bracket.weights)
    size, n_x = relaxation.images.columns.shape[1], relaxation.n_x
    tree = Tree()
    root = tree.new(size)
    frontier: list[tuple[float, int, Box]] = [
        (-np.inf, root, Box(relaxation.images.floors, relaxation.images.caps.copy()))
    ]
    found: list[Array] = []
    opened, waiting, complete, least = 0, PATIENCE, True, cutoff
    while frontier:
        if opened >= nodes or deadline.passed() or (found and waiting < 0) or len(found) >= MOST_FOUND:
            complete = False
            break
        promise, node, box = heapq.heappop(frontier) if len(frontier) < FRONTIER else frontier.pop()
        opened += 1
        waiting -= 1 if found else 0
        bounded = bound_box(relaxation, bracket, box, cutoff)
        if bounded is None:
            complete, least = False, min(least, promise)
            break
        tree.q[node], tree.nu[node] = bounded.multipliers, bounded.price
        if bounded.bound >= cutoff:
            continue
        candidate = relaxation.pulled(bounded.point)
        if bounded.inside and float(value(relaxation, bracket, candidate[None, :])[0]) < cutoff:
            complete = False
            # Posteriors of one search this close in total variation are the same.
            if all(np.abs(candidate - other).sum() > 1e-3 for other in found):
                if not found:
                    waiting += opened
                found.append(candidate)
            if opened > PATIENCE:
                least = min(least, bounded.bound)
                continue
        for child, part in _children(relaxation, bracket, tree, Opened(node, box, bounded), cutoff):
            heapq.heappush(frontier, (bounded.bound, child, part))
    least = min([least, *(promise for promise, _, _ in frontier)])
    return Explored(tree, least, np.array(found).reshape(-1, n_x), opened, complete and not found)


class Opened(NamedTuple):
    """A node with its box and what was proved of it."""

    node: int
    box: Box
    bounded: Bounded


def _smaller(
    relaxation: Relaxation, bracket: Bracket, bounded: Bounded, box: Box, cutoff: float
) -> Box | None:
    """The box made smaller by the checker's rules; None where nothing is left of it."""
    made = Box(box.lower.copy(), box.upper.copy())
    excess, n_x = cutoff - bounded.bound, relaxation.n_x
    if bracket.task is None or bracket.slope > 0.0:  # otherwise only the entries of the task have to be cut
        shrink(bounded.rates[:n_x], bracket.slope, excess, _part(made, slice(0, n_x)))
    for d, slope in enumerate(() if bracket.task is None else bracket.task, n_x):
        shrink(bounded.rates[d : d + 1], float(slope), excess, _part(made, slice(d, d + 1)))
    full = [propagate(_part(made, group)) for group in relaxation.images.groups]
    return made if all(full) else None


def _part(box: Box, some: slice) -> Box:
    """The same intervals of some entries alone: what is done to them is done to the box."""
    return Box(box.lower[some], box.upper[some])


def _width(box: Box) -> float:
    return float((box.upper - box.lower).sum())


def _gaps(point: Array, box: Box, bracket: Bracket) -> Array:
    """How far the chord of −w log w is below it at a point of the box, (n,); −1 where the box has no width.

    Where entries have slopes of their own it counts times these.
    """
    alpha, beta = np.empty(point.size), np.empty(point.size)
    fill_chords(box, alpha, beta)
    w = np.clip(point, box.lower, box.upper)
    gaps = -xlogx(w) - alpha - beta * w
    return np.where(box.upper > box.lower, gaps if bracket.task is None else bracket.slopes * gaps, -1.0)


def _children(
    relaxation: Relaxation, bracket: Bracket, tree: Tree, opened: Opened, cutoff: float
) -> list[tuple[int, Box]]:
    """Make a box smaller by the checker's rules and split what is left; no child where nothing is."""
    node, before, bounded = opened
    box = _smaller(relaxation, bracket, bounded, before, cutoff)
    if box is None:
        return []
    curved = bracket.task is None or bracket.slope > 0.0
    if curved and relaxation.n_equations > TIED * relaxation.n_x:
        tied = _tighten(relaxation, bracket, tree, Opened(node, box, bounded), cutoff)
        if tied is None:
            return []
        node, box = tied
    if _width(box) < WORTH_BOUNDING * _width(before):
        if node == opened.node:
            node = _only_child(tree, node, bounded)
        return [(node, box)]
    if node != opened.node:
        tree.q[node], tree.nu[node] = bounded.multipliers, bounded.price
        again = _bounded(
            relaxation, bracket, box, Solved(bounded.point, bounded.multipliers, bounded.price, 0.0)
        )
        bounded = again
    symbol = int(np.argmax(_gaps(bounded.point, box, bracket)))
    low, high = float(box.lower[symbol]), float(box.upper[symbol])
    middle = 0.5 * (
        low + high
    )  # not at the point: both halves would hold it, and so on for each symbol of a vertex
    slope = bracket.slope if bracket.task is None else float(bracket.slopes[symbol])  # type: ignore[index]
    left, right = split_hole(float(bounded.rates[symbol]), slope, cutoff - bounded.bound, low, high, middle)
    tree.variable[node], tree.split[node] = symbol, (left, right)
    q = bounded.multipliers
    tree.first[node] = tree.new(q.size, q, bounded.price)
    tree.new(q.size, q, bounded.price)
    below, above = box.upper.copy(), box.lower.copy()
    below[symbol], above[symbol] = left, right
    return [(tree.first[node], Box(box.lower, below)), (tree.first[node] + 1, Box(above, box.upper))]


def _only_child(tree: Tree, node: int, bounded: Bounded) -> int:
    """Give a node one child, what its multipliers leave of its box; return the child, which begins with ``bounded``."""
    tree.variable[node] = SHRINK
    tree.first[node] = tree.new(bounded.multipliers.size, bounded.multipliers, bounded.price)
    return tree.first[node]


def _tighten(
    relaxation: Relaxation, bracket: Bracket, tree: Tree, opened: Opened, cutoff: float
) -> tuple[int, Box] | None:
    """Use the equations of W on the symbols whose chords are loosest: the last node of a chain, and its box.

    The multipliers of the program that looks for the largest or least entry, times a large factor, make the checker's
    own rule cut the interval off there. None where nothing is left of the box.
    """
    node, box, bounded = opened
    relaxation.weigh(np.zeros(bracket.weights.size))
    for symbol in np.argsort(-_gaps(bounded.point, box, bracket), kind="stable")[:MOST_TIGHTENED]:
        for sign in (1.0, -1.0):
            solved = relaxation.reach(int(symbol), sign, box)
            if solved is None:
                continue
            end = sign * (solved.point[symbol] - (box.lower if sign > 0.0 else box.upper)[symbol])
            if solved.violation <= INSIDE and end < LEAST_CUT * (box.upper - box.lower)[symbol]:
                continue
            mixed = bounded.multipliers.copy()
            largest = max(float(np.abs(solved.multipliers).max(initial=0.0)), abs(solved.price), 1.0)
            factor = min(FACTOR, 0.4 * LARGEST / largest)
            mixed[relaxation.of_w] += factor * solved.multipliers[relaxation.of_w]
            made = _bounded(
                relaxation,
                bracket,
                box,
                Solved(bounded.point, mixed, bounded.price + factor * solved.price, 0.0),
            )
            smaller = _smaller(relaxation, bracket, made, box, cutoff)
            if smaller is not None and _width(smaller) > (1.0 - LEAST_CUT / relaxation.n_x) * _width(box):
                continue
            node = _only_child(tree, node, made)
            if smaller is None or made.bound >= cutoff:
                relaxation.weigh(bracket.weights)
                return None
            box = smaller
    relaxation.weigh(bracket.weights)
    if node != opened.node:
        node = _only_child(tree, node, bounded)
    return node, box
