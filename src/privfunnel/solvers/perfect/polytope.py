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
from privfunnel.solvers.perfect.equations import PrivateEquations
from privfunnel.solvers.perfect.splitting import split
from privfunnel.solvers.posteriors.boxes import Box, fill_chords, propagate, shrink
from privfunnel.solvers.posteriors.exactly import DENSE_SYMBOLS, corrected
from privfunnel.solvers.posteriors.lp import (
    INFINITY,
    NO_ROWS,
    NO_VALUES,
    is_infeasible,
    is_optimal,
    new_model,
)
from privfunnel.solvers.posteriors.points import distinct, sparse_starts

#: Lists of vertices up to this many candidate supports are made outright.
MOST_SUPPORTS = 200_000
#: Entries and weights within this of 0 are 0, and a solution is exact where it errs by less.
ZERO = 1e-12
#: Decimals to which two vertices agree that are the same, and two that branch and bound happens to meet.
SAME_DECIMALS, MET_DECIMALS = 9, 7

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


class MixtureProgram:
    """Least ``Σ r H(w)`` with ``Σ r w = p_x``, ``r ≥ 0``, over a growing set of posteriors."""

    def __init__(self, p_x: Array) -> None:
        self.p_x = p_x
        self.pool = np.zeros((0, p_x.size))
        self._keys: set[bytes] = set()
        self._lp = new_model(primal=True)
        for p in p_x:
            self._lp.addRow(float(p), float(p), 0, NO_ROWS, NO_VALUES)

    def add(self, posteriors: Array) -> int:
        """Add posteriors (n, M) that are not there yet; return how many were new."""
        new = []
        for w in posteriors:
            key = np.round(w, SAME_DECIMALS).tobytes()
            if key not in self._keys:
                self._keys.add(key)
                new.append(w)
                rows = np.flatnonzero(w).astype(np.int32)
                self._lp.addCol(float(entropy(w)), 0.0, INFINITY, rows.size, rows, w[rows])
        if new:
            self.pool = np.concatenate([self.pool, np.array(new)])
        return len(new)

    def solve(self) -> tuple[float, Array, Array]:
        """Value, weights (n,) and prices (M,)."""
        self._lp.run()
        if not is_optimal(self._lp):
            raise SolverError(
                "the linear program over perfectly private posteriors could not be solved: report the table"
            )
        solution = self._lp.getSolution()
        return (
            float(self._lp.getObjectiveValue()),
            np.maximum(np.array(solution.col_value), 0.0),
            np.array(solution.row_dual),
        )

    def exact_weights(self, weights: Array) -> tuple[Array, Array]:
        """Weights and posteriors in use, with Σ r w = p_x to rounding instead of the solver's tolerance."""
        used = weights > ZERO
        posteriors = self.pool[used]
        if self.p_x.size > DENSE_SYMBOLS:
            r = corrected(posteriors, weights[used], self.p_x)
        else:
            r = np.asarray(np.linalg.lstsq(posteriors.T, self.p_x, rcond=None)[0], dtype=np.float64)
        good = r.min() > -ZERO and np.abs(posteriors.T @ r - self.p_x).max() < ZERO
        r = np.maximum(r, 0.0) if good else weights[used]
        return r / r.sum(), posteriors


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


def best_private_mixture(
    p_s_given_x: Array, p_x: Array, rng: Generator, limits: Limits, p_sx: Array | None = None
) -> PrivateMixture:
    """The mixture of perfectly private posteriors of one component, of total p_x (M,), with the least entropy.

    Lists the vertices where that is affordable, and generates them by column generation otherwise: local search first,
    branch and bound when it finds no more. It starts from a split of p_x into vertices, so that the entropy is at most
    log rank(P) however short the search is.
    """
    equations = PrivateEquations.of(p_s_given_x, p_x, p_sx)
    program = MixtureProgram(p_x)
    program.add(p_x[None, :])
    floor = split(equations.rows, equations.goal, p_x, limits)
    try:
        if equations.n_supports <= MOST_SUPPORTS:
            vertices, errors = equations.vertices()
            program.add(vertices)
            value, weights, prices = program.solve()
            slack = _rounding(vertices, errors, prices)
        else:
            program.add(floor.posteriors.toarray())
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
