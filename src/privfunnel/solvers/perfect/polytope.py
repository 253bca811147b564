"""The perfectly private posteriors of a component, the polytope ``{w ≥ 0, P w = t}``: its best vertices.

Perfectly private are those that leave p(s) as it is, so that learning Y says nothing about S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privfunnel.errors import SolverError
from privfunnel.measures import Array, entropy, xlogx
from privfunnel.solvers.deadline import Deadline, Limits
from privfunnel.solvers.perfect import triangles
from privfunnel.solvers.perfect.equations import PrivateEquations
from privfunnel.solvers.perfect.program import ZERO, MixtureProgram
from privfunnel.solvers.perfect.splitting import split
from privfunnel.solvers.posteriors.boxes import Box, fill_chords, propagate, shrink
from privfunnel.solvers.posteriors.lp import (
    NO_ROWS,
    NO_VALUES,
    is_infeasible,
    is_optimal,
    new_model,
)
from privfunnel.solvers.posteriors.points import distinct, sparse_starts

#: Lists of vertices up to this many candidate supports are made outright.
MOST_SUPPORTS = 200_000
#: Seconds that this takes, about, for each support and for each vertex, which goes into a program as well.
SUPPORT_SECONDS, VERTEX_SECONDS = 2e-6, 5e-5
#: Decimals to which two vertices agree that branch and bound happens to meet.
MET_DECIMALS = 7

#: R0 counts as proved when no posterior could improve it by more than this, in nats.
PROVED = 1e-7
#: The first level of what a posterior has to gain, in nats, and the factor to the next.
FIRST_LEVEL, LEVEL_FACTOR = 1e-2, 10.0
#: Starts of the local search in each round.
STARTS = 20
#: Linear minimisations of one local search at most; it ends with one that gains less than ZERO.
SETTLING_STEPS = 20
#: Entries are raised to this before −log gives the next cost, and below SETTLED they are left out at the end.
LEAST_ENTRY, SETTLED = 1e-6, 1e-9
#: Branch and bound hands over after so many boxes with a posterior below the cutoff.
MOST_HITS = 10
#: Intervals narrower than this are not split.
NARROW = 1e-9
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
    """

    weights: Array
    posteriors: Array
    entropy: float
    slack: float
    vertices: Array


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
        for _ in range(SETTLING_STEPS):
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
    ) -> tuple[bool, Array, int]:
        """Branch and bound on ``H(w) − prices·w``: is it ≥ ``cutoff`` everywhere, vertices below it, boxes opened.

        The bound of a box is recomputed from the multipliers by hand, so the program's tolerance cannot spoil it.
        """
        n_x = prices.size
        stack = [Box(np.zeros(n_x), np.ones(n_x))]
        met: dict[bytes, Array] = {}
        alpha, beta = np.empty(n_x), np.empty(n_x)
        opened = hits = 0
        while stack and hits < MOST_HITS and opened < nodes and not deadline.passed():
            opened += 1
            box = stack.pop()
            fill_chords(box, alpha, beta)
            step = self.minimise(beta - prices, box)
            if step is None:
                if is_infeasible(self._lp):
                    continue
                stack.append(box)  # a program that could not be solved proves nothing
                break
            w, multipliers = step
            rates, bound = self._bound(prices, multipliers, box)
            if bound >= cutoff:
                continue
            if float(entropy(w) - prices @ w) < cutoff:
                vertex = self.settle(prices, w)
                met.setdefault(np.round(vertex, MET_DECIMALS).tobytes(), vertex)
                hits += 1
            shrink(rates, 1.0, cutoff - bound, box)
            if propagate(box):
                stack += _split(box, w, -xlogx(w) - alpha - beta * w)
        return not (met or stack), np.array(list(met.values())).reshape(-1, n_x), opened

    def _bound(self, prices: Array, multipliers: Array, box: Box) -> tuple[Array, float]:
        """The rates (M,) of ``H(w) − prices·w`` less the equations' multiples, and what they prove over a box."""
        lower, upper = box
        rates = -self.columns @ multipliers - prices
        ends = np.minimum(rates * lower - xlogx(lower), rates * upper - xlogx(upper))
        # Each row may be off by its error in every entry, which Σ w = 1 turns into a sum over the rows.
        off = float(np.abs(multipliers) @ self.equations.errors)
        return rates, float(multipliers @ self.equations.goal + ends.sum()) - off


def _split(box: Box, w: Array, gaps: Array) -> list[Box]:
    """Two halves of a box, split near ``w`` (M,) at the symbol whose chord has the widest of ``gaps`` (M,)."""
    lower, upper = box
    i = int(np.argmax(np.where(upper - lower > NARROW, gaps, -1.0)))
    most = 1.0 - LEAST_SIDE
    middle = float(
        np.clip(w[i], most * lower[i] + LEAST_SIDE * upper[i], LEAST_SIDE * lower[i] + most * upper[i])
    )
    left, right = upper.copy(), lower.copy()
    left[i], right[i] = middle, middle
    return [Box(lower, left), Box(right, upper)]


def listing_seconds(equations: PrivateEquations) -> float:
    """Seconds that a list of all vertices takes, about: rank(P) random symbols are around p(s) once in 2^(rank − 1)."""
    rank = len(equations.rows)
    return equations.n_supports * (SUPPORT_SECONDS + VERTEX_SECONDS / 2.0 ** (rank - 1))


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
            value, weights, prices = program.solve()
            slack = _rounding(vertices, errors, prices)
        else:
            program.add(floor.posteriors.toarray())
            if p_sx is not None and triangles.is_for(equations.rows, limits):
                slack = triangles.generate(program, triangles.plane_of(p_s_given_x, p_x, p_sx), limits)
            else:
                slack = _generate(program, Polytope(equations), rng, limits)
            value, weights, _ = program.solve()
        r, posteriors = program.exact_weights(weights)
    except SolverError:  # a table at the edge of double precision: nothing is proved, but p_x can be split
        r, posteriors, slack = floor.weights, floor.posteriors.toarray(), math.inf
        value = float(r @ entropy(posteriors))
    return PrivateMixture(weights=r, posteriors=posteriors, entropy=value, slack=slack, vertices=program.pool)


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


def _generate(program: MixtureProgram, polytope: Polytope, rng: Generator, limits: Limits) -> float:
    """Add vertices until none improves by 1e-7 nats or the limits stop it; return what is left to gain at most.

    Coarse levels first: a vertex that gains little is not worth finding while others gain much, and each level that is
    settled bounds what is left.
    """
    n_x = program.p_x.size
    slack, level, nodes = math.inf, FIRST_LEVEL, limits.nodes
    while not limits.passed():
        _, _, prices = program.solve()
        starts = sparse_starts(rng, STARTS, n_x, n_x // 2 + 1)
        settled = np.array([polytope.settle(prices, start) for start in starts if not limits.passed()])
        settled = settled.reshape(-1, n_x)
        values = entropy(settled) - settled @ prices
        good = values < -level / LEVEL_FACTOR
        if program.add(distinct(settled[good], values[good], STARTS)):
            continue
        none_below, below, opened = polytope.explore(prices, -level, limits, nodes)
        nodes -= opened
        if none_below:
            slack = level
            if level <= PROVED:
                break
            level = max(level / LEVEL_FACTOR, PROVED)
        elif not program.add(below):
            break
    return slack
