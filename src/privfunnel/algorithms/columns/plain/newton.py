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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.columns.plain.master import Master, Prices
from privfunnel.algorithms.posteriors.assembly import Used
from privfunnel.algorithms.posteriors.boxes import plogp
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array

Index = NDArray[np.intp]

#: Newton steps at most.
STEPS = 12
#: Largest residual that counts as solved, in nats and in probability.
SOLVED = 1e-11
#: Unknowns at most: the cost of a step grows with their cube.
MOST_UNKNOWNS = 500
#: From this step on each has to cut the largest residual at least to this share, or the method is given up.
STRICT_FROM, PROGRESS = 4, 0.9


@dataclass(frozen=True, kw_only=True, eq=False)
class Refined:
    """What Newton's method reached: the multipliers, and for each component (weights (n,), posteriors (n, M_c))."""

    duals: Prices
    used: list[Used]


@compiled(later=True)
def invert(matrix: Array, n: int) -> bool:
    """Replace ``matrix[:n, :n]`` by its inverse (Gauss and Jordan, pivots by rows); False when it is singular."""
    order = np.empty(n, np.int64)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        order[k] = pivot
        if not abs(matrix[pivot, k]) > TINY:
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


class Blocks(NamedTuple):
    """Posteriors on their supports.

    Posterior j, of weight ``r[j]`` (N,), has the entries ``start[j]:start[j + 1]`` of ``symbol`` and ``w``, both (n,).
    """

    start: Index
    symbol: Index
    w: Array
    r: Array

    @classmethod
    def by_owner(cls, owner: Index, symbol: Index, w: Array, r: Array) -> Blocks:
        """Blocks whose entry i belongs to posterior ``owner[i]``, in increasing order."""
        return cls(np.searchsorted(owner, np.arange(r.size + 1)), symbol, w, r)

    @property
    def owner(self) -> Index:
        """The posterior that each entry belongs to, (n,)."""
        return np.repeat(np.arange(self.r.size), np.diff(self.start))

    def tidy(self, stays: NDArray[np.bool_], alive: NDArray[np.bool_]) -> Blocks:
        """Without the entries and posteriors that do not stay; each posterior keeps its weight per entry."""
        owner = self.owner
        kept = stays & alive[owner]
        mass = np.bincount(owner[kept], self.w[kept], self.r.size)
        alive = alive & (mass > 0.0)
        kept &= alive[owner]
        number = np.cumsum(alive) - 1
        owner = owner[kept]
        return Blocks.by_owner(
            number[owner], self.symbol[kept], self.w[kept] / mass[owner], (self.r * mass)[alive]
        )


class System(NamedTuple):
    """Newton's equations in (δa, δμ, δr), M + 1 + N of them, and what the δw follow from.

    ``matrix`` and ``rhs``; for each entry its ``surprisal`` −log w = ∂H + 1 and ``gradient`` ∂F, both (n,); and
    ``inverse`` (N, k + 1, k + 1), with the C_j in its corners, k being the largest support.
    """

    matrix: Array
    rhs: Array
    surprisal: Array
    gradient: Array
    inverse: Array

    @classmethod
    def room_for(cls, blocks: Blocks, n_x: int) -> System:
        """Empty equations for these posteriors on M = ``n_x`` symbols."""
        n, count = blocks.w.size, blocks.r.size
        size, corner = n_x + 1 + count, int(np.diff(blocks.start).max()) + 1
        return cls(
            np.empty((size, size)),
            np.empty(size),
            np.empty(n),
            np.empty(n),
            np.empty((count, corner, corner)),
        )


@compiled(later=True)
def conditions(pricing: Pricing, p_x: Array, room: float, blocks: Blocks, system: System) -> float:
    """Write the system for the multipliers of ``pricing`` and return the largest violation of the conditions.

    ``room`` is the right side of the entropies' constraint, in nats. Infinite when some C_j does not exist.
    """
    n_x, n_s = pricing.columns.shape
    matrix, rhs = system.matrix, system.rhs
    for i in range(rhs.size):
        rhs[i] = 0.0
        for k in range(rhs.size):
            matrix[i, k] = 0.0
    for x in range(n_x):
        rhs[x] = p_x[x]
    rhs[n_x] = -room
    image = np.empty(n_s)
    log_image = np.empty(n_s)
    worst = 0.0
    for j in range(blocks.r.size):
        fill_image(pricing.columns, blocks, j, image, log_image)
        worst = write_block(pricing, blocks, j, log_image, system, worst)
        fill_curvature(pricing, blocks, j, image, system.inverse[j])
    for i in range(n_x + 1):
        worst = max(worst, abs(rhs[i]))
    for j in range(blocks.r.size):
        if not invert(system.inverse[j], blocks.start[j + 1] - blocks.start[j] + 1):
            return np.inf
        eliminate(blocks, j, n_x, system)
    return worst


@compiled(later=True)
def fill_image(columns: Array, blocks: Blocks, j: int, image: Array, log_image: Array) -> None:
    """``t = P w_j`` and its logarithm, (K,); 0 where t is, because the products with it are 0."""
    start, symbol, w, _ = blocks
    for s in range(image.size):
        image[s] = 0.0
        for i in range(start[j], start[j + 1]):
            image[s] += columns[symbol[i], s] * w[i]
        log_image[s] = np.log(image[s]) if image[s] > 0.0 else 0.0


@compiled(later=True)
def write_block(
    pricing: Pricing, blocks: Blocks, j: int, log_image: Array, system: System, worst: float
) -> float:
    """The part that posterior j has in the conditions, before its δw is eliminated; return the worst violation so far.

    Its column and row are those of δr_j: Σ r w = p_x has the entry w, the entropies' constraint −H(w).
    """
    columns, prices, slope = pricing
    start, symbol, w, r = blocks
    matrix, rhs, surprisal, gradient, _ = system
    n_x = prices.size
    unknown = n_x + 1 + j
    entropy = 0.0
    value = 0.0
    for i in range(start[j], start[j + 1]):
        x = symbol[i]
        surprisal[i] = -np.log(w[i])
        derivative = slope * surprisal[i] - prices[x]
        for s in range(log_image.size):
            derivative += columns[x, s] * log_image[s]
        gradient[i] = derivative
        worst = max(worst, abs(derivative))
        entropy -= plogp(w[i])
        value += w[i] * derivative
        rhs[x] -= r[j] * w[i]
        matrix[x, unknown] = w[i]
        matrix[unknown, x] = w[i]
    rhs[n_x] += r[j] * entropy
    rhs[unknown] = value
    matrix[n_x, unknown] = -entropy
    matrix[unknown, n_x] = -entropy
    return worst


@compiled(later=True)
def fill_curvature(pricing: Pricing, blocks: Blocks, j: int, image: Array, curvature: Array) -> None:
    """∂²F at posterior j, (k, k), bordered by the row and column of ones that keep Σ δw = 0."""
    columns, _, slope = pricing
    start, symbol, w, _ = blocks
    low = start[j]
    size = start[j + 1] - low
    for i in range(size):
        x = symbol[low + i]
        for k in range(size):
            curvature[i, k] = 0.0
            for s in range(image.size):
                if columns[x, s] > 0.0:
                    curvature[i, k] += columns[x, s] * columns[symbol[low + k], s] / image[s]
        curvature[i, i] -= slope / w[low + i]
        curvature[i, size] = 1.0
        curvature[size, i] = 1.0
    curvature[size, size] = 0.0


@compiled(later=True)
def eliminate(blocks: Blocks, j: int, n_x: int, system: System) -> None:
    """Put δw_j = C_j (δa − δμ ∂H − ∂F) into the constraints: a block of C_j in (a, μ), and its right side."""
    start, symbol, _, r = blocks
    matrix, rhs, surprisal, gradient, _ = system
    inverse = system.inverse[j]
    low = start[j]
    size = start[j + 1] - low
    for i in range(size):
        x = symbol[low + i]
        for k in range(size):
            z = symbol[low + k]
            c = r[j] * inverse[i, k]
            matrix[x, z] += c
            matrix[x, n_x] -= c * surprisal[low + k]
            matrix[n_x, z] -= c * surprisal[low + i]
            matrix[n_x, n_x] += c * surprisal[low + i] * surprisal[low + k]
            rhs[x] += c * gradient[low + k]
            rhs[n_x] -= c * surprisal[low + i] * gradient[low + k]


@compiled(later=True)
def moves(blocks: Blocks, system: System, change: Array, n_x: int) -> Array:
    """The δw (n,) that go with a solution ``change`` of the system of :func:`conditions`."""
    start, symbol, _, _ = blocks
    moved = np.zeros(symbol.size)
    for j in range(start.size - 1):
        low = start[j]
        size = start[j + 1] - low
        for k in range(size):
            pull = (
                change[symbol[low + k]] - system.surprisal[low + k] * change[n_x] - system.gradient[low + k]
            )
            for i in range(size):
                moved[low + i] += system.inverse[j, i, k] * pull
    return moved


def refine(master: Master, disclosure: float, duals: Prices, used: list[Used]) -> Refined | None:
    """The optimum near a solution of ``master`` for ``disclosure`` nats, given by its duals and the posteriors in use.

    None where the method does not apply (no leakage; the component is revealed in part, so that μ = 1; too many
    unknowns) or does not converge.
    """
    d = master.revealed
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


def _settling(master: Master, used: list[Used]) -> Blocks | None:
    """The posteriors in use, those that will settle in the same place merged; None where they are too many."""
    merged: dict[bytes, list[tuple[Index, Array]]] = {}
    for part, (weights, posteriors) in zip(master.parts, used, strict=True):
        for r, w in zip(weights, posteriors, strict=True):
            # Entries of the program's posteriors below this are on their way out: they are left out from the start.
            places = np.flatnonzero(w > 1e-3)
            symbols, entries = part.x[places], w[places]
            on_these = merged.setdefault(symbols.tobytes(), [])
            for j, (_, mass) in enumerate(on_these):
                # Posteriors on the same symbols within this total variation are one posterior that has not settled
                # yet.
                if np.abs(mass / mass.sum() - entries).sum() < 0.2:
                    on_these[j] = (symbols, mass + r * entries)
                    break
            else:
                on_these.append((symbols, r * entries))
        if master.problem.n_x + 1 + len(merged) > MOST_UNKNOWNS:
            return None
    blocks = [block for on_these in merged.values() for block in on_these]
    owner = np.repeat(np.arange(len(blocks)), [mass.size for _, mass in blocks])
    u = np.concatenate([mass for _, mass in blocks])
    r = np.bincount(owner, u).astype(np.float64)
    return Blocks.by_owner(owner, np.concatenate([symbols for symbols, _ in blocks]), u / r[owner], r)


def _iterate(
    columns: Array, p_x: Array, room: float, blocks: Blocks, duals: Prices
) -> tuple[Blocks, Array, float] | None:
    """The blocks after Newton steps that make the conditions hold, and their multipliers (a, μ)."""
    n_x = p_x.size
    prices, slope = duals.prices, duals.slope
    before = np.inf
    for step in range(STEPS):
        # Each symbol needs a posterior that uses it, or Σ r w = p_x cannot hold.
        too_many = n_x + 1 + blocks.r.size > MOST_UNKNOWNS
        if too_many or not np.all(np.bincount(blocks.symbol, minlength=n_x)):
            return None
        system = System.room_for(blocks, n_x)
        worst = conditions(Pricing(columns, prices, slope), p_x, room, blocks, system)
        if worst < SOLVED:
            return blocks, prices, slope
        if not worst < np.inf or (step >= STRICT_FROM and worst > PROGRESS * before):
            return None
        before = worst
        try:
            change: Array = np.linalg.solve(system.matrix, system.rhs).astype(np.float64)
        except np.linalg.LinAlgError:
            return None
        w: Array = blocks.w + moves(blocks, system, change, n_x)
        r = blocks.r + change[n_x + 1 :]
        prices, slope = prices + change[:n_x], slope + float(change[n_x])
        if not 0.0 < slope < 1.0 or not np.all(np.isfinite(w)):
            return None
        # What a step would make (nearly) 0 or negative is on its way out.
        # An entry that a step would cut to less than this share of itself is dropped instead.
        # A posterior whose weight a step would cut to less than this share of itself is dropped instead.
        stays, alive = w > 0.02 * blocks.w, r > 1e-3 * blocks.r
        blocks = blocks._replace(w=w, r=r).tidy(stays, alive)
        if blocks.r.size == 0:
            return None
    return None


def _by_component(master: Master, blocks: Blocks) -> list[Used]:
    """The weights (n,) and posteriors (n, M_c) of each component's blocks."""
    table = np.zeros((blocks.r.size, master.problem.n_x))
    table[blocks.owner, blocks.symbol] = blocks.w
    used = []
    for part in master.parts:
        inside = table[:, part.x].any(axis=1)
        used.append((blocks.r[inside], np.ascontiguousarray(table[np.ix_(inside, part.x)])))
    return used
