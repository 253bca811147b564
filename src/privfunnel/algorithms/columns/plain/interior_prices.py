"""Column generation with prices from the interior, for tables of so many classes that the simplex method crawls.

With a thousand rows the program over posteriors is so degenerate that its vertices have wild prices, and hundreds of
rounds pass before they mean anything. An interior-point method without crossover ends in the middle of the best
prices, and takes as long for ten thousand columns as the simplex method for a few more. So posteriors come and go here
by the thousand: the neighbours of all that are in use enter, those furthest from use leave. Nothing is proved by this.
"""

from __future__ import annotations

from typing import NamedTuple

import highspy
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.algorithms.columns.plain.descents import Pricing, descend_all, exchanges
from privfunnel.algorithms.columns.plain.master import Prices
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.posteriors.lp import INFINITY, is_optimal
from privfunnel.algorithms.posteriors.points import entries, sparse_starts, tidy
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Public symbols up to which this is done, and entries of all posteriors that are held at a time: 96 MB.
MOST_SYMBOLS, MOST_ENTRIES = 2000, 12_000_000
#: Weights above this are in use; of the posteriors in use, at most so many lend their neighbours in one round.
IN_USE, MOST_LENDERS = 1e-6, 1500
#: Exchanges of a symbol for each of them, random posteriors on so many symbols, and steps of all descents.
EXCHANGES, RANDOM_STARTS, RANDOM_SYMBOLS, DESCENT_STEPS = 2, 200, 5, 60
#: Share of a round's prices in those that are descended with; the rest are the prices before, which calms them.
NEWS = 0.5
#: After a round that lowers the value by less than this share of it there is none.
IDLE = 1e-3
#: A round is begun where so many times what the last one took is left.
KEPT = 1.6


class Columns(NamedTuple):
    """Posteriors (n, M) with their cost −H(Pw) and resource H(w), (n,), in nats; the first M are single symbols."""

    posteriors: Array
    cost: Array
    resource: Array

    @classmethod
    def of(cls, problem: Problem, posteriors: Array) -> Columns:
        """Those of some posteriors."""
        return cls(posteriors, *entries(problem.p_s_given_x, posteriors))

    def values(self, duals: Prices) -> Array:
        """F of each, in nats, (n,)."""
        return np.asarray(self.cost + duals.slope * self.resource - self.posteriors @ duals.prices)

    def some(self, chosen: NDArray[np.intp]) -> Columns:
        """Some of them."""
        return Columns(*(array[chosen] for array in self))

    def and_those(self, others: Columns) -> Columns:
        """These and others."""
        return Columns(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


def pays(problem: Problem) -> bool:
    """Whether a table is small enough for this."""
    return problem.n_x <= MOST_SYMBOLS


def approach(
    problem: Problem, disclosure: float, start: Array, rng: Generator, deadline: Deadline
) -> tuple[Array, float]:
    """Posteriors (n, M) of a mixture with ``disclosure`` nats that leaks little, and its leakage, about, in nats.

    Args:
        problem: A table of one component.
        disclosure: Between 0 and H(X).
        start: Posteriors to begin with, (n, M), best of several channels: the neighbours of one lead nowhere.
        rng: For random posteriors.
        deadline: When it ends; the start comes back, with an infinite value, where that is at once.
    """
    pool = Columns.of(problem, np.concatenate([np.eye(problem.n_x), start]))
    used, value, calm, took = start, np.inf, None, 0.0
    while KEPT * took <= deadline.left() and not deadline.passed():
        began = deadline.elapsed()
        found = _solve(problem, disclosure, pool)
        if found is None:
            return used, value
        duals, weights = found
        lenders = np.argsort(-weights, kind="stable")[: min(int(np.sum(weights > IN_USE)), MOST_LENDERS)]
        used = pool.posteriors[weights > IN_USE]
        gained, value = value - duals.value, duals.value
        if gained < IDLE * value:
            break
        calm = duals if calm is None else _between(calm, duals)
        near = _neighbours(problem, calm, pool.posteriors[lenders], rng, deadline)
        pool = _renewed(pool, weights, near, duals, rng)
        took = deadline.elapsed() - began
    last = _solve(problem, disclosure, pool, vertex=True) if np.isfinite(value) else None
    return (used, value) if last is None else (pool.posteriors[last[1] > 0.0], last[0].value)


def _between(old: Prices, new: Prices) -> Prices:
    """Prices and slope between two rounds'."""
    prices = NEWS * new.prices + (1.0 - NEWS) * old.prices
    return Prices(prices=prices, slope=NEWS * new.slope + (1.0 - NEWS) * old.slope, value=new.value)


def _solve(
    problem: Problem, disclosure: float, pool: Columns, *, vertex: bool = False
) -> tuple[Prices, Array] | None:
    """Duals of the program over the pool, and the weights (n,); None where it could not be solved.

    Central ones, or those of a ``vertex``, which has no more than M + 1 weights.
    """
    n, n_x = pool.posteriors.shape
    matrix = sparse.vstack(
        [sparse.csr_array(pool.posteriors.T), sparse.csr_array(pool.resource[None])]
    ).tocsc()
    lp = highspy.Highs()  # type: ignore[no-untyped-call]
    lp.silent()
    for name, setting in (
        ("solver", "ipm"), ("run_crossover", "on" if vertex else "off"), ("presolve", "off"), ("threads", 1),
        # How well a program is solved, relative to its terms.
        ("ipm_optimality_tolerance", 1e-5),
    ):  # fmt: skip
        lp.setOptionValue(name, setting)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n, n_x + 1
    model.col_cost_, model.col_lower_, model.col_upper_ = pool.cost, np.zeros(n), np.full(n, INFINITY)
    model.row_lower_ = np.append(problem.p_x, -INFINITY)
    model.row_upper_ = np.append(problem.p_x, problem.disclosure_ceiling - disclosure)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    lp.passModel(model)
    lp.run()
    if not is_optimal(lp):
        return None
    solution = lp.getSolution()
    duals = np.array(solution.row_dual)
    value = problem.h_s + float(lp.getObjectiveValue())
    return Prices(prices=duals[:n_x], slope=max(-float(duals[n_x]), 0.0), value=value), np.array(
        solution.col_value
    )


def _neighbours(
    problem: Problem, duals: Prices, lenders: Array, rng: Generator, deadline: Deadline
) -> Columns:
    """Where F descends to from posteriors in use (n, M), from exchanges of their symbols and from random ones."""
    pricing = Pricing(np.ascontiguousarray(problem.p_s_given_x.T), duals.prices, duals.slope)
    exchanged = exchanges(pricing, lenders, EXCHANGES, deadline)
    random = sparse_starts(rng, RANDOM_STARTS, problem.n_x, RANDOM_SYMBOLS)
    starts = np.concatenate([lenders, exchanged, random])
    descend_all(pricing, starts, DESCENT_STEPS, deadline)
    return Columns.of(problem, tidy(starts))


def _renewed(pool: Columns, weights: Array, near: Columns, duals: Prices, rng: Generator) -> Columns:
    """The pool with those of ``near`` that are worth it, without those furthest from use where it is full."""
    n_x = duals.prices.size
    # Posteriors enter whose F is below this, in nats.
    good = np.flatnonzero(near.values(duals) < -1e-6)
    # Decimals to which a random projection of two posteriors agrees where they count as one.
    sketch = np.round(near.posteriors[good] @ rng.random(n_x), 6)
    good = good[np.unique(sketch, return_index=True)[1]]
    distance = pool.values(duals)
    distance[weights > IN_USE] = -np.inf
    distance[:n_x] = -np.inf  # single symbols, without which there may be no mixture
    room = max(MOST_ENTRIES // n_x - good.size, n_x)
    kept = np.sort(np.argsort(distance, kind="stable")[:room])
    return pool.some(kept).and_those(near.some(good))
