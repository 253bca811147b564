r"""The distortion funnel by Newton's method along its central path.

In u = p(x, y), masked to the changes that are allowed, the problem is convex:

    minimise I(S;Y)  subject to  Σ_y u_xy = p_x,  Σ u_xy d_xy + slack = D,  u, slack ≥ 0,

and Σ_x u_xy = p_y where the channel is to be invariant. With P = p(s|x), v_y = P u_y and r_y = Σ_x u_xy its gradient is
g_xy = P_x·log(v_y / (r_y p_s)), and a point with multipliers a (of rows), b (of outputs), λ and z ≥ 0 (of u ≥ 0) is
optimal where g_xy + λ d_xy − a_x − b_y = z_xy, u_xy z_xy = 0 and λ·slack = 0. On the central path these products are
μ > 0; Newton's method follows it as μ falls. What multiplies du_y in the Hessian is diag(z_y/u_y) + Pᵀ G_y P with
G_y = diag(1/v_y) − 1 1ᵀ/r_y = B_y B_yᵀ of rank below K, so that one step costs O(N K M²).

The cuts log(v_y/r_y) and the multipliers prove a bound at every step (:mod:`privfunnel.certificate.kinds.distortion`);
an output that is hardly used has a good cut only near the path, which is why μ is lowered only there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.distortion.equations import Case, Inverse
from privfunnel.measures import TINY, Array

#: μ is lowered to this share of itself where the dual equations hold to FAR times z, and kept where they do not.
LOWERED, FAR = 0.1, 2.0
#: Share of the way to the boundary that a step goes at most.
FRACTION = 0.95
#: The first μ, and the most that λ begins at.
START, STEEPEST = 1e-3, 10.0


class Found(NamedTuple):
    """What was found.

    Attributes:
        channel: p(y|x), shape (M, N).
        multiplier: λ ≥ 0.
        cuts: log p(s|y), shape (N, K).
        outputs: b, shape (N,).
        slacks: z, shape (M, N): what is small beside them is not needed.
        gap: Leakage above the bound that the multipliers prove, in nats, rounding aside.
        steps: Newton steps.
    """

    channel: Array
    multiplier: float
    cuts: Array
    outputs: Array
    slacks: Array
    gap: float
    steps: int


@dataclass(frozen=True)
class State:
    """A point with its multipliers: u and z are 1 where a change is not allowed."""

    u: Array
    z: Array
    rows: Array
    outputs: Array
    slack: float
    multiplier: float


class Move(NamedTuple):
    """A direction for every part of a :class:`State`."""

    u: Array
    z: Array
    rows: Array
    outputs: Array
    slack: float
    multiplier: float


@dataclass(frozen=True)
class Point:
    """What the equations need at a state."""

    case: Case
    state: State

    @cached_property
    def u(self) -> Array:
        """p(x, y), 0 where a change is not allowed."""
        return np.where(self.case.allowed, self.state.u, 0.0)

    @cached_property
    def v(self) -> Array:
        """p(s, y), shape (K, N)."""
        return np.asarray(np.maximum(self.case.p_s_given_x @ self.u, TINY))

    @cached_property
    def r(self) -> Array:
        """p(y), shape (N,)."""
        return np.asarray(np.maximum(self.u.sum(axis=0), TINY))

    @cached_property
    def cuts(self) -> Array:
        """The logarithms of p(s|y), shape (K, N)."""
        return np.log(self.v) - np.log(self.r)

    @cached_property
    def gradient(self) -> Array:
        """g, shape (M, N)."""
        p = self.case.p_s_given_x
        return np.asarray(p.T @ (self.cuts - np.log(p @ self.case.p_x)[:, None]))

    @cached_property
    def slopes(self) -> Array:
        """What a row's least is taken of, g + λd − b, shape (M, N)."""
        return self.gradient + self.state.multiplier * self.case.costs - self.state.outputs

    @cached_property
    def gap(self) -> float:
        """Leakage above what the multipliers prove, in nats."""
        least = np.where(self.case.allowed, self.slopes, np.inf).min(axis=1)
        bound = float(least @ self.case.p_x)
        if self.case.limited:
            bound -= self.state.multiplier * self.case.limit
        if self.case.invariant:
            bound += float(self.state.outputs @ self.case.p_x)
        return float((self.u * self.gradient).sum()) - bound

    @cached_property
    def dual_residual(self) -> Array:
        """What the dual equations lack, a + z − (g + λd − b), shape (M, N), 0 where a change is not allowed."""
        missing = self.state.rows[:, None] + self.state.z - self.slopes
        return np.where(self.case.allowed, missing, 0.0)

    @property
    def complementarity(self) -> float:
        """The mean of u·z and slack·λ."""
        products = float((self.u * self.state.z).sum())
        count = int(self.case.allowed.sum())
        if not self.case.limited:
            return products / count
        return (products + self.state.slack * self.state.multiplier) / (count + 1)


def follow(case: Case, tolerance: float, max_steps: int, deadline: Deadline) -> Found:
    """Follow the central path until the gap is below ``tolerance`` nats, or until steps or time run out.

    The best-proved point that was passed is returned, and its gap says how good it is.
    """
    point = Point(case, _start(case))
    best, steps = point, 0
    size = int(case.allowed.sum()) + 1
    while point.gap > tolerance and steps < max_steps and not deadline.passed():
        mu = point.complementarity
        far = float((np.abs(point.dual_residual) / point.state.z).max())
        # Once μ is small enough for the tolerance only the path has to be met.
        lowered = far < FAR and mu * size > tolerance / 4.0
        try:
            move = _direction(point, LOWERED * mu if lowered else mu)
        except np.linalg.LinAlgError:
            break
        if not all(np.isfinite(part).all() for part in move):
            break
        point = Point(case, _moved(point, move))
        steps += 1
        if point.gap < best.gap and _feasible(point):
            best = point
    channel = best.u / best.u.sum(axis=1, keepdims=True)
    last = best.state
    return Found(channel, last.multiplier, best.cuts.T.copy(), last.outputs, last.z, best.gap, steps)


def _feasible(point: Point) -> bool:
    """Whether the point is close to a channel: steps that are cut short leave the equations open."""
    case, u = point.case, point.u
    worst = float(np.abs(u.sum(axis=1) - case.p_x).max())
    if case.invariant:
        worst = max(worst, float(np.abs(u.sum(axis=0) - case.p_x).max()))
    return worst <= 1e-11


def _start(case: Case) -> State:
    """A channel well inside: the cheapest one mixed with the one that makes every allowed change."""
    allowed, p = case.allowed, case.p_x
    weights = np.where(allowed, p, 0.0) if case.invariant else allowed.astype(np.float64)
    spread = p[:, None] * weights / weights.sum(axis=1, keepdims=True)
    priced = np.where(allowed, case.costs, np.inf)
    # Costs that differ by less, of at most 1, are the same.
    tied = (priced <= priced.min(axis=1, keepdims=True) + 1e-12) & allowed
    cheap = p[:, None] * tied / tied.sum(axis=1, keepdims=True)
    if case.invariant:
        cheap = 0.5 * (cheap + np.diag(p)) if tied.sum() > p.size else np.diag(p)
    low, high = float((cheap * case.costs).sum()), float((spread * case.costs).sum())
    share, slack, multiplier = 0.5, 1.0, 0.0
    if high > case.limit:
        share = min(0.5, 0.5 * (case.limit - low) / (high - low))
    u = (1.0 - share) * cheap + share * spread
    if case.limited:
        slack = case.limit - float((u * case.costs).sum())
        multiplier = min(START / slack, STEEPEST)
    u = np.where(allowed, u, 1.0)
    z = np.where(allowed, START / u, 1.0)
    return State(u, z, np.zeros(p.size), np.zeros(u.shape[1]), slack, multiplier)


def _direction(point: Point, mu: float) -> Move:
    """Newton's direction towards the point of the path at μ.

    With du = H⁻¹(rest − λ' d + a' + b'), what is left are the equations of the channel and of the limit for a', b', λ'.
    """
    case, state = point.case, point.state
    inverse, equations = Inverse(case, point.v, state.u / state.z), case.equations
    pull = np.where(case.allowed, mu / state.u - state.z, 0.0)
    still, priced = inverse(point.dual_residual + pull), inverse(case.costs)
    matrix = equations.matrix(inverse)
    right = equations.missing(point.u) - equations.sums(still)
    turn, slack = 0.0, 0.0
    if case.limited:
        column = equations.sums(priced)
        own = float((case.costs * priced).sum()) + state.slack / state.multiplier
        spent = float((case.costs * (point.u + still)).sum()) + mu / state.multiplier
        matrix = np.block([[matrix, -column[:, None]], [column[None], np.array([[-own]])]])
        right = np.append(right, case.limit - spent)
    solved: Array = np.linalg.solve(matrix, right).astype(np.float64)
    if case.limited:
        solved, turn = solved[:-1], float(solved[-1])
        slack = (mu - state.slack * (state.multiplier + turn)) / state.multiplier
    added = np.where(case.allowed, equations.spread(solved), 0.0)
    du = np.where(case.allowed, still - turn * priced + inverse(added), 0.0)
    dz = np.where(case.allowed, pull - state.z / state.u * du, 0.0)
    return Move(du, dz, *equations.multipliers(solved), slack, turn)


def _moved(point: Point, move: Move) -> State:
    """The state after as much of a move as keeps everything positive."""
    state = point.state
    lengths = [1.0 / FRACTION, _room(state.u, move.u), _room(state.z, move.z)]
    if point.case.limited:
        lengths += [_room(np.array(part), np.array(change)) for part, change in
                    ((state.slack, move.slack), (state.multiplier, move.multiplier))]  # fmt: skip
    t = FRACTION * min(lengths)
    return replace(
        state, u=state.u + t * move.u, z=state.z + t * move.z, rows=state.rows + t * move.rows,
        outputs=state.outputs + t * move.outputs, slack=state.slack + t * move.slack,
        multiplier=state.multiplier + t * move.multiplier,
    )  # fmt: skip


def _room(value: Array, change: Array) -> float:
    """How many times ``change`` can be added before a value is 0."""
    falling = change < 0.0
    return float((-value[falling] / change[falling]).min(initial=np.inf))
