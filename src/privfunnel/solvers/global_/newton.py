"""Newton's method on the conditions of optimality, from a solution of the linear program over posteriors.

The linear program mixes the posteriors it has; that they are optimal themselves it learns one column at a time. With
the supports in use given, the funnel is a smooth program in weights r_j and posteriors w_j,

    min Σ_j r_j (−H(P w_j))   s.t.   Σ_j r_j w_j = p_x,   Σ_j r_j H(w_j) = H(X|C) + d − R,

with multipliers (a, μ). At its optimum F(w_j) = 0 and F is stationary at each w_j. A Newton step moves a posterior by
δw_j = C_j (δa − δμ ∂H − ∂F), where C_j inverts the curvature of F among posteriors on the same support, so that what
has to be solved together is a system in (a, μ, r) alone, no larger than the linear program's basis. A few steps from
the program's solution reach the optimum to rounding. Nothing is proved by this: what it gives are posteriors for the
pool, and prices that the search proves like any others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.solvers.global_.master import Master, Prices, Used
from privfunnel.solvers.jit import compiled
from privfunnel.solvers.posteriors.boxes import plogp

Index = NDArray[np.intp]

#: Newton steps at most.
STEPS = 12
#: Largest residual that counts as solved, in nats and in probability.
SOLVED = 1e-11
#: Entries of the program's posteriors below this are on their way out: they are left out from the start.
FLOOR = 1e-3
#: An entry that a step would cut to less than this share of itself is dropped instead.
LEAVING = 0.02
#: A posterior whose weight a step would cut to less than this share of itself is dropped instead.
WANING = 1e-3
#: Posteriors on the same symbols within this total variation are one posterior that has not settled yet.
SAME = 0.2
#: Unknowns at most: the cost of a step grows with their cube.
MOST_UNKNOWNS = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Refined:
    """What Newton's method reached: the multipliers, and for each component (weights (n,), posteriors (n, M_c))."""

    duals: Prices
    used: list[Used]


@compiled
def invert(matrix: Array, n: int) -> bool:
    """Replace ``matrix[:n, :n]`` by its inverse (Gauss and Jordan, pivots by rows); False when it is singular."""
    order = np.empty(n, np.int64)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        order[k] = pivot
        if not abs(matrix[pivot, k]) > 1e-300:
            return False
        if pivot != k:
            for c in range(n):
                matrix[k, c], matrix[pivot, c] = matrix[pivot, c], matrix[k, c]
        scale = 1.0 / matrix[k, k]
        matrix[k, k] = 1.0
        for c in range(n):
            matrix[k, c] *= scale
        for i in range(n):
            if i != k:
                factor = matrix[i, k]
                matrix[i, k] = 0.0
                for c in range(n):
                    matrix[i, c] -= factor * matrix[k, c]
    for k in range(n - 1, -1, -1):
        if order[k] != k:
            for i in range(n):
                matrix[i, k], matrix[i, order[k]] = matrix[i, order[k]], matrix[i, k]
    return True


@compiled
def conditions(
    columns: Array,
    p_x: Array,
    room: float,
    start: Index,
    symbol: Index,
    w: Array,
    r: Array,
    prices: Array,
    slope: float,
    system: Array,
    rhs: Array,
    told: Array,
    residual: Array,
    inverse: Array,
) -> float:
    """Write the system (M + 1 + N, the same) in (δa, δμ, δr) and its right side; return the largest violation.

    Posterior j, of weight ``r[j]``, has the entries ``start[j]:start[j + 1]`` of ``symbol`` and ``w``, both (n,);
    ``columns`` is Pᵀ, (M, K). ``told`` and ``residual`` (n,) leave as −log w and ∂F, ``inverse`` (N, k + 1, k + 1) with
    the C_j in its corners. Infinite when some C_j does not exist.
    """
    n_x, n_s = columns.shape
    for i in range(rhs.size):
        rhs[i] = 0.0
        for k in range(rhs.size):
            system[i, k] = 0.0
    for x in range(n_x):
        rhs[x] = p_x[x]
    rhs[n_x] = -room
    image = np.empty(n_s)
    log_image = np.empty(n_s)
    worst = 0.0
    for j in range(r.size):
        low = start[j]
        size = start[j + 1] - low
        own = inverse[j]
        for s in range(n_s):
            image[s] = 0.0
            for i in range(size):
                image[s] += columns[symbol[low + i], s] * w[low + i]
            log_image[s] = np.log(image[s]) if image[s] > 0.0 else 0.0
        hidden = 0.0
        value = 0.0
        for i in range(size):
            x = symbol[low + i]
            told[low + i] = -np.log(w[low + i])
            gradient = slope * told[low + i] - prices[x]
            for s in range(n_s):
                gradient += columns[x, s] * log_image[s]
            residual[low + i] = gradient
            worst = max(worst, abs(gradient))
            hidden -= plogp(w[low + i])
            value += w[low + i] * gradient
            rhs[x] -= r[j] * w[low + i]
            system[x, n_x + 1 + j] = w[low + i]
            system[n_x + 1 + j, x] = w[low + i]
            for k in range(size):
                own[i, k] = 0.0
                for s in range(n_s):
                    if columns[x, s] > 0.0:
                        own[i, k] += columns[x, s] * columns[symbol[low + k], s] / image[s]
            own[i, i] -= slope / w[low + i]
            own[i, size] = 1.0
            own[size, i] = 1.0
        own[size, size] = 0.0
        rhs[n_x] += r[j] * hidden
        rhs[n_x + 1 + j] = value
        system[n_x, n_x + 1 + j] = -hidden
        system[n_x + 1 + j, n_x] = -hidden
    for i in range(n_x + 1):
        worst = max(worst, abs(rhs[i]))
    for j in range(r.size):
        low = start[j]
        size = start[j + 1] - low
        own = inverse[j]
        if not invert(own, size + 1):
            return np.inf
        for i in range(size):
            x = symbol[low + i]
            for k in range(size):
                z = symbol[low + k]
                c = r[j] * own[i, k]
                system[x, z] += c
                system[x, n_x] -= c * told[low + k]
                system[n_x, z] -= c * told[low + i]
                system[n_x, n_x] += c * told[low + i] * told[low + k]
                rhs[x] += c * residual[low + k]
                rhs[n_x] -= c * told[low + i] * residual[low + k]
    return worst


@compiled
def moves(
    start: Index, symbol: Index, told: Array, residual: Array, inverse: Array, change: Array, n_x: int
) -> Array:
    """The δw (n,) that go with a solution ``change`` of the system of :func:`conditions`."""
    moved = np.zeros(symbol.size)
    for j in range(start.size - 1):
        low = start[j]
        size = start[j + 1] - low
        for k in range(size):
            pull = change[symbol[low + k]] - told[low + k] * change[n_x] - residual[low + k]
            for i in range(size):
                moved[low + i] += inverse[j, i, k] * pull
    return moved


@dataclass
class _Blocks:
    """Posteriors on their supports: entry i belongs to posterior ``owner[i]`` of weight r, and to ``symbol[i]``."""

    owner: Index
    symbol: Index
    w: Array
    r: Array

    def tidy(self, stays: NDArray[np.bool_], alive: NDArray[np.bool_]) -> _Blocks:
        """Without the entries and posteriors that do not stay; each posterior keeps its weight per entry."""
        kept = stays & alive[self.owner]
        mass = np.bincount(self.owner[kept], self.w[kept], self.r.size)
        alive = alive & (mass > 0.0)
        kept &= alive[self.owner]
        number = np.cumsum(alive) - 1
        owner = self.owner[kept]
        return _Blocks(number[owner], self.symbol[kept], self.w[kept] / mass[owner], (self.r * mass)[alive])


def refine(master: Master, disclosure: float, duals: Prices, used: list[Used]) -> Refined | None:
    """The optimum near a solution of ``master`` for ``disclosure`` nats, given by its duals and the posteriors in use.

    None where the method does not apply (no leakage; part of the component is told, so that μ = 1; too many unknowns)
    or does not converge.
    """
    d = master.told
    if 0.0 < d < master.h_c or not 0.0 < duals.slope < 1.0:
        return None
    problem = master.problem
    if problem.n_x + 1 > MOST_UNKNOWNS:
        return None
    room = problem.disclosure_ceiling - master.h_c - disclosure + d
    blocks = _settling(master, used)
    if blocks is None:
        return None
    solved = _iterate(master.columns, problem.p_x, room, blocks, duals)
    if solved is None:
        return None
    blocks, prices, slope = solved
    split = _by_component(master, blocks)
    value = problem.h_s - master.h_c + d + master.cost(split)
    return Refined(duals=Prices(prices=prices, slope=slope, value=value), used=split)


def _settling(master: Master, used: list[Used]) -> _Blocks | None:
    """The posteriors in use, those that will settle in the same place merged; None where they are too many."""
    merged: dict[bytes, list[tuple[Index, Array]]] = {}
    for part, (weights, posteriors) in zip(master.parts, used, strict=True):
        for r, w in zip(weights, posteriors, strict=True):
            places = np.flatnonzero(w > FLOOR)
            symbols, entries = part.x[places], w[places]
            alike = merged.setdefault(symbols.tobytes(), [])
            for j, (_, mass) in enumerate(alike):
                if np.abs(mass / mass.sum() - entries).sum() < SAME:
                    alike[j] = (symbols, mass + r * entries)
                    break
            else:
                alike.append((symbols, r * entries))
        if master.problem.n_x + 1 + len(merged) > MOST_UNKNOWNS:
            return None
    blocks = [block for alike in merged.values() for block in alike]
    owner = np.repeat(np.arange(len(blocks)), [mass.size for _, mass in blocks])
    u = np.concatenate([mass for _, mass in blocks])
    r = np.bincount(owner, u).astype(np.float64)
    return _Blocks(owner, np.concatenate([symbols for symbols, _ in blocks]), u / r[owner], r)


def _iterate(
    columns: Array, p_x: Array, room: float, blocks: _Blocks, duals: Prices
) -> tuple[_Blocks, Array, float] | None:
    """The blocks after Newton steps that make the conditions hold, and their multipliers (a, μ)."""
    n_x = p_x.size
    prices, slope = duals.prices, duals.slope
    before = np.inf
    for step in range(STEPS):
        n, count = blocks.w.size, blocks.r.size
        size = n_x + 1 + count
        if size > MOST_UNKNOWNS or not np.all(np.bincount(blocks.symbol, minlength=n_x)):
            return None
        start = np.searchsorted(blocks.owner, np.arange(count + 1))
        system, rhs, told, residual = np.empty((size, size)), np.empty(size), np.empty(n), np.empty(n)
        widest = int(np.diff(start).max()) + 1
        inverse = np.empty((count, widest, widest))
        worst = conditions(
            columns, p_x, room, start, blocks.symbol, blocks.w, blocks.r, prices, slope,
            system, rhs, told, residual, inverse,
        )  # fmt: skip
        if worst < SOLVED:
            return blocks, prices, slope
        if not worst < np.inf or (step > 3 and worst > 0.9 * before):
            return None
        before = worst
        try:
            change: Array = np.linalg.solve(system, rhs).astype(np.float64)
        except np.linalg.LinAlgError:
            return None
        w: Array = blocks.w + moves(start, blocks.symbol, told, residual, inverse, change, n_x)
        r = blocks.r + change[n_x + 1 :]
        prices, slope = prices + change[:n_x], slope + float(change[n_x])
        if not 0.0 < slope < 1.0 or not np.all(np.isfinite(w)):
            return None
        stays, alive = w > LEAVING * blocks.w, r > WANING * blocks.r
        blocks = _Blocks(blocks.owner, blocks.symbol, w, r).tidy(stays, alive)
        if blocks.r.size == 0:
            return None
    return None


def _by_component(master: Master, blocks: _Blocks) -> list[Used]:
    """The weights (n,) and posteriors (n, M_c) of each component's blocks."""
    table = np.zeros((blocks.r.size, master.problem.n_x))
    table[blocks.owner, blocks.symbol] = blocks.w
    used = []
    for part in master.parts:
        own = table[:, part.x].any(axis=1)
        used.append((blocks.r[own], np.ascontiguousarray(table[np.ix_(own, part.x)])))
    return used
