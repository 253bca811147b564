"""A primal-dual interior-point method for the task funnel with its utility linearised output by output.

Output j has an affine loss in place of the concave −Σ_d ω_d v_d log v_d: a unit of mass from cell c costs ℓ_cj there.
With u_cj = p(c, j) for cells c of public symbols, T_j = P u_j and r_j = Σ_c u_cj, the program is either of

    minimise  Σ_j Σ_k T_kj log(T_kj / r_j)  ( = −H(S|Y) )   subject to  Σ_j u_cj = p_c,  Σ ℓ_cj u_cj ≤ limit,  u ≥ 0,
    minimise  Σ ℓ_cj u_cj + κ Σ_jk |T_kj − p_k r_j|         subject to  Σ_j u_cj = p_c,  u ≥ 0,

the second with κ so large that nothing leaks. Both are coupled between cells through δ_kj = T_kj − o_kj r_j alone,
k < K, with o_j = T_j / r_j in the first and p(s) in the second, so that a Newton step costs a product of (cells) ×
(outputs · (K − 1))² and a Cholesky factor of that width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from privfunnel import measures
from privfunnel.algorithms.deadline import Deadline
from privfunnel.measures import Array

#: κ, larger than any multiplier that is wanted; a private symbol that is rare or hardly varies may take more.
ELASTIC = 20.0
#: The share of the gap that a step aims at, at least and at most.
LEAST_CENTRING, MOST_CENTRING = 0.05, 0.8
MAX_STEPS = 150


class Program(NamedTuple):
    """One convex program.

    Attributes:
        p: Probabilities of the cells, shape (C,).
        told: p(s|c), shape (C, K).
        losses: ℓ, shape (C, J).
        limit: What the losses may sum to; ∞ to minimise them without leakage.
        elastic: κ, where there is no limit.
    """

    p: Array
    told: Array
    losses: Array
    limit: float
    elastic: float = ELASTIC

    @property
    def limited(self) -> bool:
        """Whether what the losses sum to is limited, and leakage is least."""
        return self.limit < math.inf


class Outcome(NamedTuple):
    """What the method found.

    Attributes:
        mass: u, shape (C, J).
        slope: μ, leakage per utility; 1 where there is no limit.
        multipliers: q, shape (J, K): log p(s|j), or the multipliers of T_j = p(s) r_j.
        steps: Newton steps taken.
        last_slope: μ where the method ended; ``slope`` and ``multipliers`` are those of its best bound.
    """

    mass: Array
    slope: float
    multipliers: Array
    steps: int
    last_slope: float


@dataclass(frozen=True)
class _Iterate:
    """Where the method is, or a direction from there.

    Attributes:
        mass: u, shape (C, J), and ``reduced`` its multipliers.
        prices: a, shape (C,).
        below: What δ is below 0, shape (J, K − 1), ``above`` what above, ``eta`` the multipliers in (−κ, κ); empty
            where there is a limit.
        spare: Slack of the limit, and ``slope`` its multiplier μ.
    """

    mass: Array
    reduced: Array
    prices: Array
    below: Array
    above: Array
    eta: Array
    spare: float
    slope: float

    def moved(self, step: _Iterate, length: float) -> _Iterate:
        """The iterate a step of this length further."""
        return _Iterate(*(getattr(self, name) + length * getattr(step, name) for name in _FIELDS))

    def gap(self, elastic: float) -> float:
        """The sum of all complementarities, in nats."""
        rows = (self.below * (elastic - self.eta)).sum() + (self.above * (elastic + self.eta)).sum()
        return float((self.mass * self.reduced).sum() + rows + self.spare * self.slope)


_FIELDS = tuple(_Iterate.__dataclass_fields__)


def minimise(program: Program, tolerance: float, deadline: Deadline) -> Outcome:
    """Solve the program to a duality gap of ``tolerance`` nats, or until the deadline."""
    at = _start(program)
    best, kept, steps = -np.inf, None, 0
    for steps in range(1, MAX_STEPS + 1):
        q, values = _values(program, at)
        bound = float(program.p @ values.min(axis=1))
        bound -= at.slope * program.limit if program.limited else 0.0
        if bound >= best:
            best, kept = bound, Outcome(at.mass, at.slope, q, steps, at.slope)
        if at.gap(program.elastic) <= tolerance or deadline.passed():
            break
        newer = _newton(program, at, values)
        if newer is None:
            break
        at = newer
    assert kept is not None  # the first iterate has a bound
    return kept._replace(mass=at.mass, steps=steps, last_slope=at.slope)


def _start(program: Program) -> _Iterate:
    """Every cell spread evenly over the outputs."""
    n_outputs = program.losses.shape[1]
    mass = np.repeat(program.p[:, None], n_outputs, axis=1) / n_outputs
    spent = float((mass * program.losses).sum())
    if not program.limited:
        rows = np.full((n_outputs, program.told.shape[1] - 1), 0.1 / n_outputs)
        at = _Iterate(mass, mass, program.p, rows, rows, np.zeros_like(rows), 0.0, 1.0)
    else:
        rows = np.zeros((n_outputs, 0))
        at = _Iterate(mass, mass, program.p, rows, rows, rows, max(program.limit - spent, 0.05), 0.5)
    values = _values(program, at)[1]
    prices = values.min(axis=1) - 0.3
    return replace(at, prices=prices, reduced=values - prices[:, None])


def _values(program: Program, at: _Iterate) -> tuple[Array, Array]:
    """The multipliers q, shape (J, K), and what a unit of cell c costs in output j before prices, shape (C, J)."""
    costs = at.slope * program.losses
    if not program.limited:
        q = np.concatenate([-at.eta, np.zeros((at.eta.shape[0], 1))], axis=1)
        p_s = program.p @ program.told
        return q, np.asarray(costs + (program.told - p_s) @ q.T)
    images = np.maximum(at.mass.T @ program.told, measures.TINY)
    q = measures.safe_log(images / images.sum(axis=1, keepdims=True))
    return q, np.asarray(costs + program.told @ q.T)


class _System:
    """The Newton system at one iterate, factorised once and solved for several right-hand sides.

    With D = z/u the masses move by N(right − A ν − ℓ dμ), N = D⁻¹ − D⁻¹1 (1ᵀD⁻¹1)⁻¹ 1ᵀD⁻¹, where A maps the masses to δ
    and ν are the changes of q along it: (W⁻¹ + AᵀNA) ν + AᵀNℓ dμ = AᵀN right + …, a symmetric positive system.
    """

    def __init__(self, program: Program, at: _Iterate, values: Array) -> None:
        self.program, self.at = program, at
        j, k = program.losses.shape[1], program.told.shape[1] - 1
        images = np.maximum(at.mass.T @ program.told, measures.TINY)
        totals = images.sum(axis=1)
        limited = program.limited
        offset = (
            images / totals[:, None] if limited else np.repeat((program.p @ program.told)[None], j, axis=0)
        )
        self.stationary = values - at.prices[:, None] - at.reduced
        self.unassigned = program.p - at.mass.sum(axis=1)
        self.inverse = at.mass / at.reduced
        self.total = self.inverse.sum(axis=1)
        moments = program.told[:, None, :k] - offset[None, :, :k]
        self.rows, self.output = moments.reshape(-1, j * k), np.repeat(np.arange(j), k)
        spread = self.inverse[:, self.output] * self.rows / np.sqrt(self.total)[:, None]
        matrix = np.zeros((j * k + limited, j * k + limited))
        matrix[: j * k, : j * k] = -(spread.T @ spread)
        own = np.einsum("cj,cjk,cjl->jkl", self.inverse, moments, moments, optimize=True)
        if not program.limited:
            under, over = program.elastic - at.eta, program.elastic + at.eta
            self.weight = 1.0 / (at.below / under + at.above / over)
            self.outside = images[:, :k] - offset[:, :k] * totals[:, None] + at.below - at.above
            own += np.eye(k) / self.weight[:, :, None]
        else:
            self.unspent = program.limit - float((program.losses * at.mass).sum()) - at.spare
            own += images[:, :k, None] * (np.eye(k) - offset[:, None, :k])
            self.spent = self.projected(program.losses)
            matrix[-1, :-1] = matrix[:-1, -1] = self.gathered(self.spent)
            matrix[-1, -1] = float((self.spent * program.losses).sum()) + at.spare / at.slope
        index = np.arange(j * k).reshape(j, k)
        matrix[index[:, :, None], index[:, None, :]] += own
        self.factor = linalg.cho_factor(matrix, lower=True, check_finite=False)

    def projected(self, values: Array) -> Array:
        """N times ``values``, both (C, J)."""
        mean = (self.inverse * values).sum(axis=1) / self.total
        return np.asarray(self.inverse * (values - mean[:, None]))

    def gathered(self, mass: Array) -> Array:
        """δ of a change of the masses (C, J), shape (J (K − 1),)."""
        return np.asarray((mass[:, self.output] * self.rows).sum(axis=0))

    def spread(self, nu: Array) -> Array:
        """A ν as a change of the values, shape (C, J)."""
        j = self.program.losses.shape[1]
        return np.asarray((self.rows * nu).reshape(-1, j, nu.size // j).sum(axis=2))

    def solve(self, centre: float, ahead: _Iterate | None) -> _Iterate:
        """The direction to complementarities of ``centre``, those of cells in proportion to their probability.

        Args:
            centre: The complementarity aimed at.
            ahead: The direction with ``centre`` 0, whose products correct this one; None to find it.
        """
        program, at = self.program, self.at
        for_mass = centre * program.p[:, None] - at.mass * at.reduced
        for_mass -= 0.0 if ahead is None else ahead.mass * ahead.reduced
        right = for_mass / at.mass - self.stationary
        base = self.projected(right) + self.inverse * (self.unassigned / self.total)[:, None]
        vector = self.gathered(base)
        below = above = eta = at.eta
        spare = slope = 0.0
        if not program.limited:
            under, over = program.elastic - at.eta, program.elastic + at.eta
            for_below, for_above = centre - at.below * under, centre - at.above * over
            if ahead is not None:
                for_below, for_above = (
                    for_below + ahead.below * ahead.eta,
                    for_above - ahead.above * ahead.eta,
                )
            constant = for_above / over - for_below / under - self.outside
            nu = linalg.cho_solve(self.factor, vector - constant.reshape(-1), check_finite=False)
            eta = -nu.reshape(at.eta.shape)
            below, above = (for_below + at.below * eta) / under, (for_above - at.above * eta) / over
            moved = base - self.projected(self.spread(nu))
        else:
            for_spare = centre - at.spare * at.slope - (0.0 if ahead is None else ahead.spare * ahead.slope)
            last = float((program.losses * base).sum()) - self.unspent + for_spare / at.slope
            found = linalg.cho_solve(self.factor, np.append(vector, last), check_finite=False)
            nu, slope = found[:-1], float(found[-1])
            spare = (for_spare - at.spare * slope) / at.slope
            moved = base - self.projected(self.spread(nu)) - slope * self.spent
        reduced = (for_mass - at.reduced * moved) / at.mass
        # The change of the values is A ν + ℓ dμ; what it is more than that of the multipliers is that of the prices.
        prices = (self.stationary + self.spread(nu) + slope * program.losses - reduced)[:, 0]
        return _Iterate(moved, reduced, prices, below, above, eta, spare, slope)


def _newton(program: Program, at: _Iterate, values: Array) -> _Iterate | None:
    """One predictor-corrector step; None where it cannot be made in floating-point numbers."""
    # Where the curvature of the leakage has spoilt stationarity the multipliers of the masses are made to fit again.
    at = replace(at, reduced=np.maximum(values - at.prices[:, None], 0.5 * at.reduced))
    try:
        with np.errstate(all="ignore"):
            system = _System(program, at, values)
            first = system.solve(0.0, None)
            gap = at.gap(program.elastic)
            reached = at.moved(first, _length(program, at, first)).gap(program.elastic) / gap
            count = at.mass.shape[1] * (1 + 2 * at.eta.shape[1]) + 1
            centre = min(max(reached**2, LEAST_CENTRING), MOST_CENTRING) * gap / count
            step = system.solve(centre, first)
    except (linalg.LinAlgError, ValueError):
        return None
    if not (np.isfinite(step.mass).all() and np.isfinite(step.reduced).all() and np.isfinite(step.eta).all()):
        return None
    # How far a step goes towards the boundary.
    return at.moved(step, 0.9 * _length(program, at, step))


def _length(program: Program, at: _Iterate, step: _Iterate) -> float:
    """The longest step, at most 1, that keeps everything non-negative."""
    longest = 1.0
    pairs = [
        (at.mass, step.mass), (at.reduced, step.reduced), (at.below, step.below), (at.above, step.above),
        (program.elastic - at.eta, -step.eta), (program.elastic + at.eta, step.eta),
        (np.array([at.spare, at.slope]), np.array([step.spare, step.slope])),
    ]  # fmt: skip
    for value, change in pairs:
        falling = change < 0.0
        if falling.any():
            longest = min(longest, float((value[falling] / -change[falling]).min()))
    return longest
