"""The posteriors that say nothing about S: the polytope ``{w ≥ 0, P w = t}`` of a component, its best vertices."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privfunnel.errors import SolverError
from privfunnel.measures import Array, entropy, xlogx
from privfunnel.solvers.perfect.splitting import split
from privfunnel.solvers.posteriors.boxes import fill_chords, propagate, shrink
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
#: R0 counts as proved when no posterior could improve it by more than this, in nats.
PROVED = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Silent:
    """The best mixture of silent posteriors of one component.

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


@dataclass(frozen=True, eq=False)
class Silence:
    """The equations of a component's silent posteriors, ``rows @ w = goal``, well scaled.

    ``P w = t`` and Σ w = 1 say that ``(P − t) w = 0``. Where S and X are nearly independent the entries of P − t are
    tiny beside those of P, so its row space is taken by an orthonormal basis; directions that are 0 up to the
    rounding of P are left out.

    Attributes:
        rows: Shape (rank(P), M).
        goal: Shape (rank(P),).
    """

    rows: Array
    goal: Array

    @classmethod
    def of(cls, p_s_given_x: Array, p_x: Array) -> Silence:
        """The equations for ``P w = P p_x``, p_x (M,) being a silent posterior itself."""
        n_s, n_x = p_s_given_x.shape
        target = p_s_given_x @ p_x
        _, sizes, basis = np.linalg.svd(p_s_given_x - target[:, None], full_matrices=False)
        rank = int(np.sum(sizes > 8 * max(n_s, n_x) * np.finfo(float).eps))
        # p_x is silent exactly: what rounding makes of it, large where P − t is tiny, is taken out of every row.
        basis = basis[:rank] - np.outer(basis[:rank] @ p_x / (p_x @ p_x), p_x)
        rows = np.vstack([basis, np.ones((1, n_x))])
        return cls(rows, np.concatenate([np.zeros(rank), np.ones(1)]))

    @property
    def n_supports(self) -> int:
        """Number of candidate supports of a vertex: subsets of rank(P) symbols."""
        rank, n_x = self.rows.shape
        return math.comb(n_x, rank)

    def vertices(self) -> Array:
        """All vertices of ``{w ≥ 0, rows @ w = goal}``, shape (n, M), from every support of rank(P) symbols."""
        rank, n_x = self.rows.shape
        sizes = np.linalg.norm(self.rows, axis=0)
        found: dict[bytes, Array] = {}
        supports = itertools.combinations(range(n_x), rank)
        while True:
            chunk = np.array(list(itertools.islice(supports, 20_000)), dtype=np.intp)
            if chunk.size == 0:
                break
            systems = np.moveaxis(self.rows[:, chunk], 0, 1)
            # A determinant as a share of the largest that columns of these lengths could have.
            solid = np.abs(np.linalg.det(systems)) > 1e-12 * np.prod(sizes[chunk], axis=1)
            chunk, systems = chunk[solid], systems[solid]
            goals = np.broadcast_to(self.goal, (len(systems), rank))
            values = np.linalg.solve(systems, goals[..., None])[..., 0]
            for support, value in zip(chunk, values, strict=True):
                if value.min() < -1e-12:
                    continue
                vertex = np.zeros(n_x)
                vertex[support] = np.where(value > 1e-12, value, 0.0)
                found.setdefault(np.round(vertex, 9).tobytes(), vertex)
        return np.array([self.polish(vertex) for vertex in found.values()]).reshape(-1, n_x)

    def polish(self, vertex: Array) -> Array:
        """The vertex again, with its equations met to rounding: one correction on its own support."""
        used = vertex > 0.0
        part = self.rows[:, used]
        w = vertex[used] + np.linalg.lstsq(part, self.goal - part @ vertex[used], rcond=None)[0]
        out = np.zeros_like(vertex)
        out[used] = np.maximum(w, 0.0)
        return np.asarray(out / out.sum())


class Mixture:
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
            key = np.round(w, 9).tobytes()
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
                "the linear program over silent posteriors could not be solved: report the table"
            )
        solution = self._lp.getSolution()
        return (
            float(self._lp.getObjectiveValue()),
            np.maximum(np.array(solution.col_value), 0.0),
            np.array(solution.row_dual),
        )

    def exact_weights(self, weights: Array) -> tuple[Array, Array]:
        """Weights and posteriors in use, with Σ r w = p_x to rounding instead of the solver's tolerance."""
        used = weights > 1e-12
        posteriors = self.pool[used]
        r = np.linalg.lstsq(posteriors.T, self.p_x, rcond=None)[0]
        good = r.min() > -1e-12 and np.abs(posteriors.T @ r - self.p_x).max() < 1e-12
        r = np.maximum(r, 0.0) if good else weights[used]
        return r / r.sum(), posteriors


class Polytope:
    """Linear minimisation over silent posteriors in a box ``l ≤ w ≤ u``, on one live model."""

    def __init__(self, silence: Silence) -> None:
        self.silence = silence
        self.columns = np.ascontiguousarray(silence.rows.T)
        n_x = len(self.columns)
        self._every = np.arange(n_x, dtype=np.int32)
        self._lp = new_model()
        for _ in range(n_x):
            self._lp.addCol(0.0, 0.0, 1.0, 0, NO_ROWS, NO_VALUES)
        for row, goal in zip(silence.rows, silence.goal, strict=True):
            used = np.flatnonzero(row).astype(np.int32)
            self._lp.addRow(float(goal), float(goal), used.size, used, row[used])

    def minimise(self, cost: Array, lower: Array, upper: Array) -> tuple[Array, Array] | None:
        """Minimiser (M,) and multipliers of the equations; None where the box misses the polytope."""
        n_x = cost.size
        self._lp.changeColsCost(n_x, self._every, cost)
        self._lp.changeColsBounds(n_x, self._every, lower, upper)
        self._lp.run()
        if not is_optimal(self._lp):
            return None
        solution = self._lp.getSolution()
        return np.maximum(np.array(solution.col_value), 0.0), np.array(solution.row_dual)

    def settle(self, prices: Array, start: Array) -> Array:
        """A vertex where the concave ``H(w) − prices·w`` is locally least: repeated linear minimisation."""
        zero, one = np.zeros(start.size), np.ones(start.size)
        w, value = start, np.inf
        for _ in range(20):
            cost = -np.log(np.maximum(w, 1e-6)) - prices
            step = self.minimise(cost, zero, one)
            if step is None:
                break
            new = float(entropy(step[0]) - prices @ step[0])
            if new >= value - 1e-12:
                break
            w, value = step[0], new
        return self.silence.polish(np.where(w > 1e-9, w, 0.0))

    def explore(self, prices: Array, cutoff: float, deadline: float, nodes: int) -> tuple[bool, Array, int]:
        """Branch and bound on ``H(w) − prices·w``: is it ≥ ``cutoff`` everywhere, vertices below it, boxes opened.

        The bound of a box is recomputed from the multipliers by hand, so the program's tolerance cannot spoil it.
        """
        n_x = prices.size
        stack = [(np.zeros(n_x), np.ones(n_x))]
        found: dict[bytes, Array] = {}
        alpha, beta = np.empty(n_x), np.empty(n_x)
        opened = hits = 0
        while stack and hits < 10 and opened < nodes and time.perf_counter() < deadline:
            opened += 1
            lower, upper = stack.pop()
            fill_chords(lower, upper, alpha, beta)
            step = self.minimise(beta - prices, lower, upper)
            if step is None:
                if is_infeasible(self._lp):
                    continue
                stack.append((lower, upper))  # a program that could not be solved proves nothing
                break
            w, y = step
            rates = -self.columns @ y - prices
            ends = np.minimum(rates * lower - xlogx(lower), rates * upper - xlogx(upper))
            bound = float(y @ self.silence.goal + ends.sum())
            if bound >= cutoff:
                continue
            if float(entropy(w) - prices @ w) < cutoff:
                vertex = self.settle(prices, w)
                found.setdefault(np.round(vertex, 7).tobytes(), vertex)
                hits += 1
            shrink(rates, 1.0, cutoff - bound, lower, upper)
            if not propagate(lower, upper):
                continue
            gap = -xlogx(w) - alpha - beta * w
            i = int(np.argmax(np.where(upper - lower > 1e-9, gap, -1.0)))
            middle = float(np.clip(w[i], 0.8 * lower[i] + 0.2 * upper[i], 0.2 * lower[i] + 0.8 * upper[i]))
            left, right = upper.copy(), lower.copy()
            left[i], right[i] = middle, middle
            stack += [(lower, left), (right, upper)]
        return not (found or stack), np.array(list(found.values())).reshape(-1, n_x), opened


def most_silent(p_s_given_x: Array, p_x: Array, rng: Generator, seconds: float, nodes: int) -> Silent:
    """The mixture of silent posteriors of one component, of total p_x (M,), with the least entropy.

    Lists the vertices where that is affordable, and generates them by column generation otherwise: local search first,
    branch and bound over at most ``nodes`` boxes when it finds no more. It starts from a split of p_x into vertices, so
    that the entropy is at most log rank(P) however short the search is.
    """
    silence = Silence.of(p_s_given_x, p_x)
    mixture = Mixture(p_x)
    mixture.add(p_x[None, :])
    floor = split(silence.rows, silence.goal, p_x)
    try:
        if silence.n_supports <= MOST_SUPPORTS:
            mixture.add(silence.vertices())
            slack = 0.0
        else:
            mixture.add(floor.posteriors.toarray())
            slack = _generate(mixture, Polytope(silence), rng, time.perf_counter() + seconds, nodes)
        value, weights, _ = mixture.solve()
        r, posteriors = mixture.exact_weights(weights)
    except SolverError:  # a table at the edge of double precision: nothing is proved, but p_x can be split
        r, posteriors, slack = floor.weights, floor.posteriors.toarray(), math.inf
        value = float(r @ entropy(posteriors))
    return Silent(weights=r, posteriors=posteriors, entropy=value, slack=slack, vertices=mixture.pool)


def _generate(mixture: Mixture, polytope: Polytope, rng: Generator, deadline: float, nodes: int) -> float:
    """Add vertices until none improves by 1e-7 nats or the limits stop it; return what is left to gain at most.

    Coarse levels first: a vertex that gains little is not worth finding while others gain much, and each level that is
    settled bounds what is left.
    """
    n_x = mixture.p_x.size
    slack, level = math.inf, 1e-2
    while time.perf_counter() < deadline:
        _, _, prices = mixture.solve()
        starts = sparse_starts(rng, 20, n_x, n_x // 2 + 1)
        settled = np.array([polytope.settle(prices, start) for start in starts])
        values = entropy(settled) - settled @ prices
        good = values < -level / 10.0
        if mixture.add(distinct(settled[good], values[good], 20)):
            continue
        none_below, found, opened = polytope.explore(prices, -level, deadline, nodes)
        nodes -= opened
        if none_below:
            slack = level
            if level <= PROVED:
                break
            level = max(level / 10.0, PROVED)
        elif not mixture.add(found):
            break
    return slack
