"""The bottleneck with a proof: what no channel of the rate can exceed, and a channel that reaches it.

At a point where Blahut-Arimoto stands still, with slope μ = 1/β and normalisers Z_x = Σ_y p(y) exp(β Σ_s p(s|x) log
p(s|y)), the prices a_x = μ log(Z_x/p_x) make F of :mod:`privfunnel.certificate.kinds.bottleneck` vanish at every
posterior that is used, and the proved line touches the point if F is positive nowhere. :func:`certify` searches for its
maximum by branch and bound over boxes of p(s|y). Where it is positive the point is not the best of its rate, and the
place of the maximum is an output that improves it: :func:`prove` adds it, lets ABP run on, and ends with the optimum
and its proof.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.options import check_positive, check_whole
from privfunnel.certificate import BottleneckBody, Certificate
from privfunnel.certificate.answer import DEFAULT_GAP, Answer, Status
from privfunnel.certificate.kinds.bottleneck import (
    SMALLEST_SLOPE,
    BoxTree,
    box_bounds,
    chords,
    root_box,
    shrunken,
)
from privfunnel.certificate.tree import LEAF
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import check_seed
from privfunnel.measures import TINY, Array, xlogx
from privfunnel.model import channels
from privfunnel.model.asked_amounts import check_disclosure
from privfunnel.model.problem import Problem
from privfunnel.neighbours.bottleneck import abp
from privfunnel.neighbours.bottleneck.blahut_arimoto import parts, responses
from privfunnel.neighbours.bottleneck.curves import solution_of
from privfunnel.solving.solution import Solution

#: What points that are proved are said to come from.
SOLVER_NAME = "bottleneck-abp"
#: Outputs that are added to a point, at most, before it is given up as it is, and the probability each begins with:
#: a hundredth of the last where that was too much to improve anything.
MOST_OUTPUTS_ADDED, FIRST_PROBABILITY, SMALLEST_PROBABILITY = 50, 1e-2, 1e-9
#: Steps of ascent from the best place of a level, and how near to its ends a box may be split.
ASCENT, MARGIN = 30, 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class ProvedPoint:
    """A point of the bottleneck with what bounds it; nats.

    Attributes:
        solution: The channel and its numbers: ``leakage`` is the relevance I(S;Y), ``disclosure`` the rate.
        upper_bound: No channel of this rate tells more.
        certificate: Proves it, or None where ``min(R, I(S;X))`` does.
    """

    solution: Solution
    upper_bound: float
    certificate: Certificate | None

    @property
    def gap(self) -> float:
        """What the relevance is below the proved bound, never negative."""
        return max(self.upper_bound - self.solution.leakage, 0.0)


class _Search(NamedTuple):
    """A finished search: the tree, what F is at most, and where it was largest: t (K,) and F there."""

    tree: BoxTree
    value: float
    place: Array
    best: float


def certify(
    problem: Problem, solution: Solution, *, gap: float = DEFAULT_GAP, node_limit: int = 200_000
) -> Certificate:
    """Prove an upper bound of the bottleneck from the prices of a solution and its slope, whatever found it.

    Args:
        problem: The problem.
        solution: One that :func:`~privfunnel.neighbours.bottleneck.solve` or a curve of it gave.
        gap: How closely the largest F is enclosed, in nats.
        node_limit: Boxes, at most; the bound is valid and less tight where they run out.

    Raises:
        InvalidInputError: The solution has no slope, or one without a price: ``min(R, I(S;X))`` is all there is to say.
    """
    check_positive("bottleneck", gap=gap)
    check_whole("bottleneck", 1, node_limit=node_limit)
    if solution.slope is None or not solution.slope >= SMALLEST_SLOPE:
        raise InvalidInputError(
            f"slope={solution.slope!r} gives no prices: the bound there is the closed form min(R, I(S;X))"
        )
    prices = _prices(problem, np.asarray(solution.channel), solution.slope)
    return _certificate(
        problem, prices, solution.slope, _maximum(problem, prices, solution.slope, gap, node_limit)
    )


def prove(
    problem: Problem,
    rate: float,
    *,
    gap: float = DEFAULT_GAP,
    node_limit: int = 200_000,
    tolerance: float = 1e-10,
    max_steps: int = 5000,
    seed: int = 0,
) -> ProvedPoint:
    """The bottleneck at a rate, proved: most I(S;Y) for I(X;Y) ≤ ``rate`` to within ``gap``, where the limits allow.

    Args:
        problem: The problem.
        rate: The most I(X;Y) allowed, 0 ≤ rate ≤ H(X), in nats.
        gap: The difference of bound and relevance at which the point is proved, in nats.
        node_limit: Boxes of one search, at most.
        tolerance: ABP stops when no entry of p(y|x) moves by more.
        max_steps: Cap on the steps of one run.
        seed: Noted in the solution; nothing is random.
    """
    check_positive("bottleneck", gap=gap, tolerance=tolerance)
    check_whole("bottleneck", 1, node_limit=node_limit, max_steps=max_steps)
    check_seed(seed)
    wanted = check_disclosure(problem, rate)
    started = time.perf_counter()
    ceiling = min(wanted, problem.leakage_ceiling) + problem.rounding
    start = abp.whole(problem)
    share = FIRST_PROBABILITY
    best: ProvedPoint | None = None
    for _ in range(MOST_OUTPUTS_ADDED):
        found = abp.run(problem, start, rate=wanted, tolerance=tolerance, max_steps=max_steps)
        slope = min(max(1.0 / max(found.multiplier, TINY), SMALLEST_SLOPE), 1.0)
        status = Status.CONVERGED if found.still else Status.MAX_STEPS
        channel = channels.merge_outputs(found.channel)
        seconds = time.perf_counter() - started
        made = Answer(channel=channel, status=status, slope=slope, seconds=seconds)
        solution = solution_of(problem, made, wanted, seed, SOLVER_NAME)
        point = ProvedPoint(solution=solution, upper_bound=ceiling, certificate=None)
        if best is not None and solution.leakage <= best.solution.leakage + 1e-12:
            share *= 0.01
        best = point if best is None else _better(best, point)
        if best.gap <= gap:
            break
        prices = _prices(problem, found.channel, slope)
        search = _maximum(problem, prices, slope, 0.5 * gap, node_limit)
        certificate = _certificate(problem, prices, slope, search)
        bound = certificate.upper_bound(wanted)
        if bound < best.upper_bound:
            best = ProvedPoint(solution=best.solution, upper_bound=bound, certificate=certificate)
        if best.gap <= gap or search.best <= 0.25 * gap or share < SMALLEST_PROBABILITY:
            break
        start = _with_output(problem, found.channel, 1.0 / slope, search.place, share)
    assert best is not None
    return best


def _better(one: ProvedPoint, other: ProvedPoint) -> ProvedPoint:
    """The higher relevance and the lower bound of two: each holds by itself."""
    lower = min((one, other), key=lambda point: point.upper_bound)
    solution = max((one, other), key=lambda point: point.solution.leakage).solution
    return ProvedPoint(solution=solution, upper_bound=lower.upper_bound, certificate=lower.certificate)


def _prices(problem: Problem, channel: Array, slope: float) -> Array:
    """a_x = μ log(Z_x/p_x), shape (M,)."""
    log_p_y, scores = parts(problem, channel)
    _, log_norm = responses(log_p_y, scores, 1.0 / slope)
    return np.asarray(slope * (log_norm - np.log(problem.p_x)))


def _with_output(problem: Problem, channel: Array, beta: float, place: Array, share: float) -> Array:
    """The channel with one more output, at p(s|y) = ``place`` (K,), with probability ``share`` to begin with."""
    log_p_y, scores = parts(problem, channel)
    more = problem.p_s_given_x.T @ np.log(np.maximum(place, TINY))
    wider = np.concatenate([scores, more[:, None]], axis=1)
    new, _ = responses(np.append(log_p_y, np.log(share)), wider, beta)
    return new


def _certificate(problem: Problem, prices: Array, slope: float, search: _Search) -> Certificate:
    """The certificate of a search, verified before anybody sees it."""
    certificate = BottleneckBody.build(problem, prices, slope, search.value, search.tree)
    certificate.verify(problem)
    return certificate


class _Growing:
    """A tree in the making: the arrays of a BoxTree, as long as the node limit allows, filled from the front."""

    def __init__(self) -> None:
        self.count = 1
        self._variable = [np.full(1, LEAF, dtype=np.int32)]
        self._split = [np.zeros(1)]
        self._first = [np.zeros(1, dtype=np.int32)]

    def divide(self, nodes: NDArray[np.intp], symbols: NDArray[np.intp], cuts: Array) -> NDArray[np.intp]:
        """Give some nodes of the newest level two children each, and return these, (2n,), pair by pair."""
        at = nodes - (self.count - self._variable[-1].size)
        children = self.count + 2 * np.arange(nodes.size)
        self._variable[-1][at], self._split[-1][at], self._first[-1][at] = symbols, cuts, children
        more = 2 * nodes.size
        self._variable.append(np.full(more, LEAF, dtype=np.int32))
        self._split.append(np.zeros(more))
        self._first.append(np.zeros(more, dtype=np.int32))
        self.count += more
        return np.arange(self.count - more, self.count)

    def tree(self) -> BoxTree:
        """The tree as it is."""
        return BoxTree(
            variable=np.concatenate(self._variable),
            split=np.concatenate(self._split),
            first=np.concatenate(self._first),
        )


def _maximum(problem: Problem, prices: Array, slope: float, gap: float, node_limit: int) -> _Search:
    """Enclose max F to ``gap`` by boxes of t, level by level; what is open at the node limit is left as it is."""
    table = problem.p_s_given_x
    lower, upper = root_box(table)
    growing, nodes = _Growing(), np.zeros(1, dtype=np.intp)
    value, best, place = -np.inf, -np.inf, problem.p_s
    while nodes.size:
        lower, upper, full = shrunken(lower, upper)
        nodes, lower, upper = nodes[full], lower[full], upper[full]
        if not nodes.size:
            break
        bounds = box_bounds(table, prices, slope, lower, upper)
        tops = _tops(table, prices, slope, lower, upper)
        reached, where = _highest(table, prices, slope, tops)
        if reached > best:
            best, place = reached, where
        settled = bounds <= best + gap
        if growing.count + 2 * int((~settled).sum()) > node_limit:
            settled[:] = True
        value = max(value, float(bounds[settled].max(initial=-np.inf)))
        lower, upper = lower[~settled], upper[~settled]
        symbols, cuts = _cuts(lower, upper, tops[~settled])
        nodes = growing.divide(nodes[~settled], symbols, cuts)
        rows = np.arange(symbols.size)
        left, right = upper.copy(), lower.copy()
        left[rows, symbols] = right[rows, symbols] = cuts
        lower = np.stack([lower, right], axis=1).reshape(-1, problem.n_s)
        upper = np.stack([left, upper], axis=1).reshape(-1, problem.n_s)
    return _Search(growing.tree(), value, place, best)


def _answers(table: Array, prices: Array, slope: float, log_z: Array) -> tuple[Array, Array]:
    """The w (n, M) with the largest ``Σ_x w_x (Σ_s p(s|x) log z_s − a_x) + μ H(w)`` for n rows log z, and Pw (n, K)."""
    exponents = (log_z @ table - prices) / slope
    w = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    return w, np.asarray(w @ table.T)


def _tops(table: Array, prices: Array, slope: float, lower: Array, upper: Array) -> Array:
    """Where the bound of each box is reached: t (n, K), which may lie outside the box."""
    return _answers(table, prices, slope, chords(lower, upper)[1])[1]


def _highest(table: Array, prices: Array, slope: float, tops: Array) -> tuple[float, Array]:
    """The largest F that is reached from some t (n, K) by ascent, and where: each step raises F."""
    best, place = -np.inf, tops[0]
    places = tops
    for _ in range(ASCENT):
        w, places = _answers(table, prices, slope, np.log(np.maximum(places, TINY)))
        heights = xlogx(places).sum(axis=1) - slope * xlogx(w).sum(axis=1) - w @ prices
        top = int(np.argmax(heights))
        if heights[top] > best:
            best, place = float(heights[top]), places[top]
        places = places[[top]]
    return best, place


def _cuts(lower: Array, upper: Array, tops: Array) -> tuple[NDArray[np.intp], Array]:
    """Where to split boxes (n, K): the symbol whose chord is furthest off at the top, and the place, each (n,)."""
    alpha, beta = chords(lower, upper)
    inside = np.clip(tops, lower, upper)
    off, width = alpha + beta * inside - xlogx(inside), upper - lower
    symbols = np.argmax(np.maximum(off, 1e-3 * width), axis=1)
    rows = np.arange(symbols.size)
    room = MARGIN * width[rows, symbols]
    cuts = np.clip(inside[rows, symbols], lower[rows, symbols] + room, upper[rows, symbols] - room)
    return symbols, cuts
