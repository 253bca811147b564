"""The perfectly private posteriors of a component, the polytope ``{w ≥ 0, P w = t}``: its best vertices.

Perfectly private are those that leave p(s) as it is, so that learning Y says nothing about S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.deadline import Deadline, Limits
from privfunnel.algorithms.perfect import triangles
from privfunnel.algorithms.perfect.equations import PrivateEquations
from privfunnel.algorithms.perfect.plan import PLAN
from privfunnel.algorithms.perfect.program import ZERO, MixtureProgram
from privfunnel.algorithms.perfect.splitting import split
from privfunnel.algorithms.posteriors.boxes import Box, fill_chords, propagate, shrink
from privfunnel.algorithms.posteriors.lp import (
    INFINITY,
    NO_ROWS,
    NO_VALUES,
    is_infeasible,
    is_optimal,
    new_model,
)
from privfunnel.algorithms.posteriors.points import distinct, sparse_starts
from privfunnel.certificate import LEAF, Proof
from privfunnel.errors import SolverError
from privfunnel.measures import Array, entropy, xlogx

#: Lists of vertices up to this many candidate supports are made outright.
MOST_SUPPORTS = 700_000

#: R0 counts as proved when no posterior could improve it by more than this, in nats.
PROVED = 1e-7
#: The first level of what a posterior has to gain, in nats, and the factor to the next.
FIRST_LEVEL, LEVEL_FACTOR = 1e-2, 10.0
#: Starts of the local search in each round.
STARTS = 20
#: Entries are raised to this before −log gives the next cost, and below SETTLED they are left out at the end.
LEAST_ENTRY, SETTLED = 1e-6, 1e-9
#: Intervals narrower than this are not split.
NARROW = 1e-9
#: Boxes are proved to this far above what their tree claims, in nats: the checker allows more for rounding.
MARGIN = 1e-9
#: A split leaves each side at least this share of the interval.
LEAST_SIDE = 0.2


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateMixture:
    """The best mixture of perfectly private posteriors of one component.

    Attributes:
        weights: Probabilities of the posteriors inside the component, shape (n,).
        posteriors: Shape (n, M_c); each satisfies P w = t.
        entropy: Σ weights·H(posterior), in nats: as small as was found.
        slack: No mixture has an entropy smaller by more than this, in nats; infinite where nothing is proved.
        vertices: All posteriors met on the way, shape (m, M_c).
        prices: What a proof starts from, shape (M_c,); None where there is none.
        tree: A tree of boxes that proves ``slack`` with these prices, where one was grown.
    """

    weights: Array
    posteriors: Array
    entropy: float
    slack: float
    vertices: Array
    prices: Array | None = None
    tree: Proof | None = None


class Reached(NamedTuple):
    """What a search leaves to gain at most, in nats, and the prices (M,) and the tree that say so."""

    slack: float
    prices: Array
    tree: Proof | None = None


@dataclass(eq=False)
class Boxes:
    """The nodes of a tree so far, in the form of :class:`privfunnel.certificate.Proof`."""

    q: list[Array] = field(default_factory=list)
    nu: list[float] = field(default_factory=list)
    variable: list[int] = field(default_factory=list)
    split: list[float] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    def new(self, size: int) -> int:
        """Add a leaf; return its number."""
        self.q.append(np.zeros(size))
        self.nu.append(0.0)
        self.variable.append(LEAF)
        self.split.append(0.0)
        self.first.append(0)
        return len(self.nu) - 1

    def proof(self, claim: float) -> Proof:
        """The tree as certificates store it."""
        return Proof(
            claim=claim,
            q=np.array(self.q),
            nu=np.array(self.nu),
            variable=np.array(self.variable, dtype=np.int32),
            split=np.column_stack([self.split, self.split]),
            first=np.array(self.first, dtype=np.int32),
        )


class Polytope:
    """Linear minimisation over perfectly private posteriors in a box ``l ≤ w ≤ u``, on one live model."""

    def __init__(self, equations: PrivateEquations) -> None:
        self.equations = equations
        self.columns = np.ascontiguousarray(equations.rows.T)
        n_x = len(self.columns)
        self._every = np.arange(n_x, dtype=np.int32)
        self._lp = new_model()
        for _ in range(n_x):
            self._lp.addCol(0.0, 0.0, 1.0, 0, NO_ROWS, NO_VALUES)
        for row, goal in zip(equations.rows, equations.goal, strict=True):
            used = np.flatnonzero(row).astype(np.int32)
            self._lp.addRow(float(goal), float(goal), used.size, used, row[used])
        self._nearest: Any = None

    def separate(self, box: Box) -> Array | None:
        """Multipliers of the equations that show that a box misses the polytope, if it does; None where they fail."""
        n_x, rank = len(self.columns), len(self.equations.goal)
        if self._nearest is None:
            lp = self._nearest = new_model()
            lp.passModel(self._lp.getLp())
            lp.changeColsCost(n_x, self._every, np.zeros(n_x))
            for row in range(rank):
                for sign in (1.0, -1.0):
                    place = np.array([row], dtype=np.int32)
                    lp.addCol(1.0, 0.0, INFINITY, 1, place, np.array([sign]))
        self._nearest.changeColsBounds(n_x, self._every, box.lower, box.upper)
        self._nearest.run()
        if not is_optimal(self._nearest):
            return None
        # How many times what a box without any such posterior misses them by its bound is raised by.
        return 1e4 * np.array(self._nearest.getSolution().row_dual)

    def minimise(self, cost: Array, box: Box) -> tuple[Array, Array] | None:
        """Minimiser (M,) and multipliers of the equations; None where the box misses the polytope."""
        n_x = cost.size
        self._lp.changeColsCost(n_x, self._every, cost)
        self._lp.changeColsBounds(n_x, self._every, box.lower, box.upper)
        self._lp.run()
        if not is_optimal(self._lp):
            return None
        solution = self._lp.getSolution()
        return np.maximum(np.array(solution.col_value), 0.0), np.array(solution.row_dual)

    def settle(self, prices: Array, start: Array) -> Array:
        """A vertex where the concave ``H(w) − prices·w`` is locally least: repeated linear minimisation."""
        everywhere = Box(np.zeros(start.size), np.ones(start.size))
        w, value = start, np.inf
        # Linear minimisations of one local search at most; it ends with one that gains less than ZERO.
        for _ in range(20):
            cost = -np.log(np.maximum(w, LEAST_ENTRY)) - prices
            step = self.minimise(cost, everywhere)
            if step is None:
                break
            new = float(entropy(step[0]) - prices @ step[0])
            if new >= value - ZERO:
                break
            w, value = step[0], new
        return self.equations.polish(np.where(w > SETTLED, w, 0.0))

    def explore(
        self, prices: Array, cutoff: float, deadline: Deadline, nodes: int
    ) -> tuple[Proof | None, Array, int]:
        """Branch and bound on ``H(w) − prices·w``: the proof that it is ≥ ``cutoff``, vertices below it, boxes opened.

        The bound of a box is recomputed from the multipliers by hand, so the program's tolerance cannot spoil it.
        """
        n_x, tree, rank = prices.size, Boxes(), len(self.equations.goal)
        stack = [(tree.new(rank - 1), Box(np.zeros(n_x), np.ones(n_x)))]
        met: dict[bytes, Array] = {}
        alpha, beta = np.empty(n_x), np.empty(n_x)
        opened = hits = 0
        # Branch and bound hands over after so many boxes with a posterior below the cutoff.
        while stack and hits < 10 and opened < nodes and not deadline.passed():
            opened += 1
            node, box = stack.pop()
            fill_chords(box, alpha, beta)
            step = self.minimise(beta - prices, box)
            if step is None:
                apart = self.separate(box) if is_infeasible(self._lp) else None
                if apart is None:
                    stack.append((node, box))  # a program that could not be solved proves nothing
                    break
                w, multipliers = 0.5 * (box.lower + box.upper), apart
            else:
                w, multipliers = step
            rates, bound = self._bound(prices, multipliers, box)
            tree.q[node], tree.nu[node] = -multipliers[:-1], float(multipliers[-1])
            if bound >= cutoff:
                continue
            if step is not None and float(entropy(w) - prices @ w) < cutoff:
                vertex = self.settle(prices, w)
                # Decimals to which two vertices agree that branch and bound happens to meet.
                met.setdefault(np.round(vertex, 7).tobytes(), vertex)
                hits += 1
            shrink(rates, 1.0, cutoff - bound, box)
            if propagate(box):
                tree.variable[node], tree.split[node], halves = _split(box, w, -xlogx(w) - alpha - beta * w)
                tree.first[node] = tree.new(rank - 1)
                stack += zip((tree.first[node], tree.new(rank - 1)), halves, strict=True)
        proof = None if met or stack else tree.proof(cutoff - MARGIN)
        return proof, np.array(list(met.values())).reshape(-1, n_x), opened

    def _bound(self, prices: Array, multipliers: Array, box: Box) -> tuple[Array, float]:
        """The rates (M,) of ``H(w) − prices·w`` less the equations' multiples, and what they prove over a box."""
        lower, upper = box
        rates = -self.columns @ multipliers - prices
        ends = np.minimum(rates * lower - xlogx(lower), rates * upper - xlogx(upper))
        # Each row may be off by its error in every entry, which Σ w = 1 turns into a sum over the rows.
        off = float(np.abs(multipliers) @ self.equations.errors)
        return rates, float(multipliers @ self.equations.goal + ends.sum()) - off


def _split(box: Box, w: Array, gaps: Array) -> tuple[int, float, list[Box]]:
    """Where to split a box, near ``w`` (M,) at the symbol whose chord has the widest of ``gaps`` (M,); the halves."""
    lower, upper = box
    i = int(np.argmax(np.where(upper - lower > NARROW, gaps, -1.0)))
    most = 1.0 - LEAST_SIDE
    middle = float(
        np.clip(w[i], most * lower[i] + LEAST_SIDE * upper[i], LEAST_SIDE * lower[i] + most * upper[i])
    )
    left, right = upper.copy(), lower.copy()
    left[i], right[i] = middle, middle
    return i, middle, [Box(lower, left), Box(right, upper)]


def listing_seconds(equations: PrivateEquations) -> float:
    """Seconds that a list of all vertices takes, about: rank(P) random symbols are around p(s) once in 2^(rank − 1)."""
    rank = len(equations.rows)
    return equations.n_supports * (PLAN.support_seconds + PLAN.vertex_seconds / 2.0 ** (rank - 1))


def best_private_mixture(
    p_s_given_x: Array, p_x: Array, rng: Generator, limits: Limits, p_sx: Array | None = None
) -> PrivateMixture:
    """The mixture of perfectly private posteriors of one component, of total p_x (M,), with the least entropy.

    Lists the vertices where that is affordable and there is time, and generates them by column generation otherwise:
    local search first, branch and bound when it finds no more; where they are triangles, all of them are looked at
    (:mod:`.triangles`). It starts from a split of p_x into vertices, so that the entropy is at most log rank(P) however
    short the search is.
    """
    equations = PrivateEquations.of(p_s_given_x, p_x, p_sx)
    program = MixtureProgram(p_x)
    program.add(p_x[None, :])
    floor = split(equations.rows, equations.goal, p_x, limits)
    try:
        if equations.n_supports <= MOST_SUPPORTS and listing_seconds(equations) <= limits.left():
            vertices, errors = equations.vertices()
            program.add(vertices)
            value, weights, prices = program.solve(limits)
            reached = Reached(_rounding(vertices, errors, prices), prices)
        else:
            program.add(floor.posteriors.toarray())
            if p_sx is not None and triangles.is_for(equations.rows, limits):
                reached = Reached(
                    *triangles.generate(program, triangles.plane_of(p_s_given_x, p_x, p_sx), limits)
                )
            else:
                reached = _generate(program, Polytope(equations), rng, limits)
            value, weights, _ = program.solve(limits)
        r, posteriors = program.exact_weights(weights)
    except (
        SolverError
    ):  # no time, or a table at the edge of double precision: nothing is proved, but p_x can be split
        r, posteriors = floor.weights, floor.posteriors.toarray()
        value = float(r @ entropy(posteriors))
        return PrivateMixture(
            weights=r, posteriors=posteriors, entropy=value, slack=math.inf, vertices=program.pool
        )
    return PrivateMixture(weights=r, posteriors=posteriors, entropy=value, slack=reached.slack,
                          vertices=program.pool, prices=reached.prices, tree=reached.tree)  # fmt: skip


def _rounding(vertices: Array, errors: Array, prices: Array) -> float:
    """How much more a mixture of the true vertices may gain than the program of the computed ones says, in nats.

    By weak duality it gains no more than the most that one vertex does at the program's ``prices`` (M,), λ·w − H(w). An
    entry that is off by e changes H by at most −e log e, e ≤ 1/e, because −w log w is concave.

    Args:
        vertices: As computed, shape (n, M).
        errors: What each of their entries is off by at most, shape (n, M).
        prices: λ, shape (M,).
    """
    gains = vertices @ prices - entropy(vertices)
    bounded = np.minimum(errors, np.exp(-1.0))
    return max(
        0.0, float(np.max(gains + np.sum(np.abs(prices) * errors - xlogx(bounded), axis=1), initial=0.0))
    )


def _generate(program: MixtureProgram, polytope: Polytope, rng: Generator, limits: Limits) -> Reached:
    """Add vertices until none improves by 1e-7 nats or the limits stop it; return what is left to gain at most.

    Coarse levels first: a vertex that gains little is not worth finding while others gain much, and each level that is
    settled bounds what is left.
    """
    n_x = program.p_x.size
    best, level, nodes = None, FIRST_LEVEL, limits.nodes
    while not limits.passed():
        _, _, prices = program.solve(limits)
        starts = sparse_starts(rng, STARTS, n_x, n_x // 2 + 1)
        settled = np.array([polytope.settle(prices, start) for start in starts if not limits.passed()])
        settled = settled.reshape(-1, n_x)
        values = entropy(settled) - settled @ prices
        good = values < -level / LEVEL_FACTOR
        if program.add(distinct(settled[good], values[good], STARTS)):
            continue
        tree, below, opened = polytope.explore(prices, -level, limits, nodes)
        nodes -= opened
        if tree is not None:
            best = Reached(level + MARGIN, prices, tree)
            if level <= PROVED:
                break
            level = max(level / LEVEL_FACTOR, PROVED)
        elif not program.add(below):
            break
    return Reached(math.inf, program.solve(limits)[2]) if best is None else best
