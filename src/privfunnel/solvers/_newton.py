"""Newton's method on the conditions of optimality, from a solution of the linear program over posteriors.

The linear program mixes the posteriors it has; that they are optimal themselves it learns one column at a time. With
the supports in use given, the funnel is a smooth program in the unnormalised posteriors u_j = r_j w_j,

    min Σ_j g(u_j)   s.t.   Σ_j u_j = p_x,   Σ_j h(u_j) = H(X|C) + d − R,
    g(u) = Σ_s t_s log(t_s/|u|),  t = P u,     h(u) = −Σ_i u_i log(u_i/|u|),

with multipliers (a, μ), and a few steps from the program's solution reach its optimum to rounding. Nothing is proved by
this: it takes the last digits of a value that is already proved to be near the optimum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array

from ._jit import compiled
from ._master import Master, Prices

Index = NDArray[np.intp]
#: The symbols (k,) of one posterior in use and its unnormalised entries there, (k,).
Block = tuple[Index, Array]

#: Newton steps at most.
STEPS = 12
#: Largest residual that counts as solved, in nats and in probability.
SOLVED = 1e-11
#: Entries of the program's posteriors below this are on their way out: they are left out from the start.
FLOOR = 1e-3
#: An entry that a step would cut to less than this share of itself is dropped instead.
LEAVING = 0.02
#: Posteriors on the same symbols within this total variation are one posterior that has not settled yet.
SAME = 0.2
#: Unknowns at most: the cost of a step grows with their cube.
MOST_UNKNOWNS = 500


@compiled
def conditions(
    columns: Array,
    p_x: Array,
    room: float,
    start: Index,
    symbol: Index,
    u: Array,
    prices: Array,
    slope: float,
    residual: Array,
    jacobian: Array,
) -> None:
    """Write the residual (n + M + 1,) of the conditions and its derivative by (u, a, μ), square and symmetric.

    Posterior j has the entries ``start[j]:start[j + 1]`` of ``symbol`` and ``u``, both (n,); ``columns`` is Pᵀ, (M, K).
    """
    n = u.size
    n_x, n_s = columns.shape
    last = n + n_x
    for i in range(last + 1):
        residual[i] = 0.0
        for k in range(last + 1):
            jacobian[i, k] = 0.0
    for x in range(n_x):
        residual[n + x] = p_x[x]
    residual[last] = -room
    image = np.empty(n_s)
    log_image = np.empty(n_s)
    for j in range(start.size - 1):
        total = 0.0
        for s in range(n_s):
            image[s] = 0.0
        for i in range(start[j], start[j + 1]):
            total += u[i]
            for s in range(n_s):
                image[s] += columns[symbol[i], s] * u[i]
        for s in range(n_s):
            log_image[s] = np.log(image[s] / total) if image[s] > 0.0 else 0.0
        for i in range(start[j], start[j + 1]):
            x = symbol[i]
            told = -np.log(u[i] / total)
            residual[i] = slope * told - prices[x]
            for s in range(n_s):
                residual[i] += columns[x, s] * log_image[s]
            residual[n + x] -= u[i]
            residual[last] += u[i] * told
            jacobian[i, n + x] = -1.0
            jacobian[n + x, i] = -1.0
            jacobian[i, last] = told
            jacobian[last, i] = told
            for k in range(start[j], start[j + 1]):
                bend = (slope - 1.0) / total
                for s in range(n_s):
                    if columns[x, s] > 0.0:
                        bend += columns[x, s] * columns[symbol[k], s] / image[s]
                jacobian[i, k] = bend
            jacobian[i, i] -= slope / u[i]


def refine(master: Master, disclosure: float, duals: Prices) -> list[Array] | None:
    """Better posteriors (n, M_c) for each component, from the last solution of ``master`` for ``disclosure`` nats.

    ``duals`` belong to that solution. None where the method does not apply (no leakage; part of the component is told,
    so that μ = 1; too many unknowns) or does not converge.
    """
    d, used = master.weights()
    if 0.0 < d < master.h_c or not 0.0 < duals.slope < 1.0:
        return None
    problem = master.problem
    blocks = [
        (part.x[symbols], mass)
        for part, (weights, posteriors) in zip(master.parts, used, strict=True)
        for symbols, mass in _settling(weights, posteriors)
    ]
    room = problem.disclosure_ceiling - master.h_c - disclosure + d
    columns = np.ascontiguousarray(problem.p_s_given_x.T)
    solved = _iterate(columns, problem.p_x, room, blocks, duals)
    return None if solved is None else _by_component(master, solved)


def _settling(weights: Array, posteriors: Array) -> list[Block]:
    """Posteriors (n, M_c) in use as blocks, those that will settle in the same place merged."""
    merged: list[Block] = []
    for r, w in zip(weights, posteriors, strict=True):
        symbols = np.flatnonzero(w > FLOOR)
        for j, (others, mass) in enumerate(merged):
            if np.array_equal(symbols, others) and np.abs(mass / mass.sum() - w[symbols]).sum() < SAME:
                merged[j] = (others, mass + r * w[symbols])
                break
        else:
            merged.append((symbols, r * w[symbols]))
    return merged


def _iterate(
    columns: Array, p_x: Array, room: float, blocks: list[Block], duals: Prices
) -> list[Block] | None:
    """The blocks after Newton steps that make the conditions hold."""
    n_x = p_x.size
    prices, slope = duals.prices, duals.slope
    before = np.inf
    for step in range(STEPS):
        start = np.cumsum([0, *(mass.size for _, mass in blocks)]).astype(np.intp)
        symbol = np.concatenate([symbols for symbols, _ in blocks]).astype(np.intp)
        u = np.concatenate([mass for _, mass in blocks])
        n = u.size
        covered = np.zeros(n_x, dtype=bool)
        covered[symbol] = True
        if n + n_x + 1 > MOST_UNKNOWNS or not covered.all():
            return None
        residual, jacobian = np.empty(n + n_x + 1), np.empty((n + n_x + 1, n + n_x + 1))
        conditions(columns, p_x, room, start, symbol, u, prices, slope, residual, jacobian)
        size = float(np.abs(residual).max())
        if size < SOLVED:
            return blocks
        if not size < np.inf or (step > 3 and size > 0.9 * before):
            return None
        before = size
        try:
            change = np.linalg.solve(jacobian, -residual)
        except np.linalg.LinAlgError:
            return None
        prices, slope = prices + change[n : n + n_x], slope + float(change[-1])
        if not 0.0 < slope < 1.0:
            return None
        blocks = _kept(blocks, start, u, u + change[:n])
    return None


def _kept(blocks: list[Block], start: Index, u: Array, moved: Array) -> list[Block]:
    """The blocks after a step from ``u`` to ``moved``, without entries and posteriors that it uses up."""
    stays = moved > LEAVING * u
    kept = []
    for j, (symbols, mass) in enumerate(blocks):
        own = slice(int(start[j]), int(start[j + 1]))
        if np.any(stays[own]) and moved[own].sum() > 1e-3 * mass.sum():
            kept.append((symbols[stays[own]], moved[own][stays[own]]))
    return kept


def _by_component(master: Master, blocks: list[Block]) -> list[Array]:
    """The posteriors of some blocks, (n, M_c) for each component."""
    posteriors = []
    for part in master.parts:
        own = [(np.searchsorted(part.x, symbols), mass) for symbols, mass in blocks if symbols[0] in part.x]
        table = np.zeros((len(own), part.x.size))
        for row, (places, mass) in zip(table, own, strict=True):
            row[places] = mass / mass.sum()
        posteriors.append(table)
    return posteriors
