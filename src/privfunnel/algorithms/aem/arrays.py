"""AEM on whole batches of arrays, plain and accelerated, for NumPy and for PyTorch on any device: the reference.

The two libraries share the few functions used here (``exp``, ``log``, ``where``, ``clip``, ``amax``, sums
along an axis), so one text serves both: ``xp`` is the module. Equations (1) to (5) are those of
:mod:`privfunnel.algorithms.aem.state`, the rules of the accelerated step those of
:mod:`privfunnel.algorithms.aem.schedule`; every run of the batch keeps its own λ, η and momentum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privfunnel.algorithms.aem.schedule import GRID, GROWTH, INEXACT, LONGEST, SAFETY
from privfunnel.algorithms.aem.state import CUT, ROOT_EVALUATIONS, SLOPE_LIMIT, ZERO, Tables
from privfunnel.measures import TINY

Tensor = Any  # numpy.ndarray or torch.Tensor


@dataclass(frozen=True)
class Batch:
    """The problem's tables as arrays of one library on one device.

    Attributes:
        xp: ``numpy`` or ``torch``.
        p_s_given_x: Shape (K, M).
        p_x: Shape (M,).
        log_p_x: Shape (M,).
        log_p_s: Shape (K,).
        root_tolerance: How far above 0 the accepted G may lie, nats.
        fused: :mod:`privfunnel.algorithms.aem.kernel_fused` where it can be used, or None.
    """

    xp: Any
    p_s_given_x: Tensor
    p_x: Tensor
    log_p_x: Tensor
    log_p_s: Tensor
    root_tolerance: float
    fused: Any = None

    @classmethod
    def of(cls, tables: Tables, xp: Any = np, fused: Any = None, **placement: Any) -> Batch:
        """Tables for ``xp``; ``placement`` (a torch device) goes to its ``asarray``."""
        return cls(
            xp=xp,
            p_s_given_x=xp.asarray(tables.p_s_given_x, **placement),
            p_x=xp.asarray(tables.p_x, **placement),
            log_p_x=xp.asarray(tables.log_p_x, **placement),
            log_p_s=xp.asarray(tables.log_p_s, **placement),
            root_tolerance=tables.root_tolerance(),
            fused=fused,
        )


class Evaluation(NamedTuple):
    """The update at some λ: weights (B, M, N), row sums (B, M), exponents less their row's top, G, dG/dλ, d²G/dλ²."""

    weight: Tensor
    total: Tensor
    exponent: Tensor
    value: Tensor
    gain: Tensor
    bend: Tensor


class Outputs(NamedTuple):
    """p(s, y) and log p(s|y), both (B, K, N); log p(y) (B, 1, N); leakage (B,)."""

    p_sy: Tensor
    log_t: Tensor
    log_r: Tensor
    leakage: Tensor


class Aim(NamedTuple):
    """What a step starts from: the point and what its outputs make of (2).

    Attributes:
        log_u: log p(x, y), shape (B, M, N).
        product: Σ_k p(s_k|x) log p(s_k|y), shape (B, M, N).
        log_r: log p(y), shape (B, 1, N).
        eta: Length η of the step, shape (B,).
    """

    log_u: Tensor
    product: Tensor
    log_r: Tensor
    eta: Tensor

    @property
    def base(self) -> Tensor:
        """Log u − η Σ_k s_k log t_k, shape (B, M, N)."""
        return self.log_u - self.eta[:, None, None] * self.product

    @property
    def log_w(self) -> Tensor:
        """Log u − log r, shape (B, M, N)."""
        return self.log_u - self.log_r


class Move(NamedTuple):
    """Where a step leads; where no λ meets the constraint, anywhere.

    Attributes:
        log_u: The new log p(x, y), shape (B, M, N).
        u: p(x, y), shape (B, M, N), or None where it was not asked for.
        growth: Root mean square of the growth log(new/old) centred row by row, η times (5); shape (B,).
        divergence: D(new ‖ old), shape (B,).
    """

    log_u: Tensor
    u: Tensor | None
    growth: Tensor
    divergence: Tensor


class AcceleratedState(NamedTuple):
    """Where accelerated runs stand; shape (B,) but for the points.

    Attributes:
        now: log u of the last point, shape (B, M, N).
        before: log u of the point before it, shape (B, M, N).
        slope: λ of the last accepted step.
        eta: Length η of the next step.
        age: Steps since momentum began.
        slack: How far above 0 the next accepted G may lie, nats.
        leakage: I(S;Y) of ``now``, nats.
        residual: Equation (5) of the last accepted step, nats.
        steps: Iterations done.
        going: False where the run has converged or cannot go on.
        alive: False where not even the plain step lowers the leakage.
    """

    now: Tensor
    before: Tensor
    slope: Tensor
    eta: Tensor
    age: Tensor
    slack: Tensor
    leakage: Tensor
    residual: Tensor
    steps: Tensor
    going: Tensor
    alive: Tensor


class Trial(NamedTuple):
    """A step that was tried; shape (B,) but for the point.

    Attributes:
        log_u: The new point, shape (B, M, N).
        slope: η·λ of the step, −1 where no λ meets the constraint.
        leakage: I(S;Y) of the new point, nats.
        growth: Root mean square of the growth log(new/old) centred row by row: η times the residual.
        eta: The step length that the measured curvature allows.
        beta: Momentum that the step was made with.
    """

    log_u: Tensor
    slope: Tensor
    leakage: Tensor
    growth: Tensor
    eta: Tensor
    beta: Tensor


def outputs(batch: Batch, u: Tensor) -> Outputs:
    """What p(x, y) = ``u`` (B, M, N) tells of the outputs; zeros get logarithm 0."""
    xp = batch.xp
    p_sy = batch.p_s_given_x @ u
    if batch.fused is not None:
        return Outputs(p_sy, *batch.fused.outputs(batch, p_sy))
    r = p_sy.sum(axis=-2, keepdims=True)
    log_r = xp.log(xp.where(r > 0.0, r, 1.0))
    log_t = xp.where(p_sy > 0.0, xp.log(xp.where(p_sy > 0.0, p_sy, 1.0)) - log_r, 0.0)
    return Outputs(p_sy, log_t, log_r, (p_sy * (log_t - batch.log_p_s[:, None])).sum(axis=(-2, -1)))


def softmax(xp: Any, exponent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (0 below exp(CUT)), row sums, and exponents less their row's top (B, M, N); works in place."""
    exponent -= xp.amax(exponent, -1, keepdims=True)
    weight = xp.exp(exponent)
    weight *= exponent >= CUT
    return weight, weight.sum(axis=-1), exponent


def log_point(batch: Batch, weight: Tensor, total: Tensor, exponent: Tensor) -> Tensor:
    """Log u (B, M, N) of a softmax, zeros as ``ZERO``."""
    xp = batch.xp
    return xp.where(weight > 0.0, exponent + (batch.log_p_x - xp.log(total))[..., None], ZERO)


def evaluate(batch: Batch, base: Tensor, log_w: Tensor, slope: Tensor, target: Tensor) -> Evaluation:
    """The update (1) and G (3) with its derivatives at given λ (B,), ``target`` being R − H(X).

    G', G'' are the variance and the third central moment of log w under u(λ), row by row.
    """
    xp = batch.xp
    weight, total, exponent = softmax(xp, base + slope[:, None, None] * log_w)
    part = weight * log_w
    first = part.sum(axis=-1) / total
    part *= log_w
    square = part.sum(axis=-1) / total
    part *= log_w
    third = part.sum(axis=-1) / total - first * (3.0 * square - 2.0 * first * first)
    spread = xp.clip(square - first * first, 0.0, None)
    value, gain, bend = ((moment * batch.p_x).sum(axis=-1) for moment in (first, spread, third))
    return Evaluation(weight, total, exponent, value - target, gain, bend)


def root(
    batch: Batch, base: Tensor, log_w: Tensor, slope: Tensor, target: Tensor, slack: Tensor
) -> tuple[Tensor, Evaluation]:
    """λ (B,) with 0 ≤ G(λ) ≤ ``slack``, −1 where there is none, and the update there (that of any λ where none).

    Equation (4); it aims for half the slack, so that a step that lands a little short is feasible still.
    """
    xp = batch.xp
    trial = xp.clip(slope, 0.0, None)
    best, low, high = trial * 0.0 - 1.0, trial * 0.0 - 1.0, trial * 0.0 + np.inf
    open_ = trial >= 0.0
    made = evaluate(batch, base, log_w, trial, target)
    for _ in range(ROOT_EVALUATIONS):
        feasible = made.value >= 0.0
        best = xp.where(open_ & feasible, trial, best)
        high = xp.where(open_ & feasible, trial, high)
        low = xp.where(open_ & ~feasible, trial, low)
        open_ = open_ & ~(feasible & ((made.value <= slack) | (trial == 0.0)))
        missing = made.value - 0.5 * slack
        following = next_slope(xp, trial, missing, halley(xp, missing, made.gain, made.bend), low, high)
        open_ = open_ & (following != trial) & (following <= SLOPE_LIMIT)
        if not bool(open_.any()):
            break
        trial = xp.where(open_, following, trial)
        made = evaluate(batch, base, log_w, trial, target)
    if bool(((best >= 0.0) & (trial != best)).any()):
        made = evaluate(batch, base, log_w, xp.where(best >= 0.0, best, trial), target)
    return best, made


def halley(xp: Any, value: Tensor, gain: Tensor, bend: Tensor) -> Tensor:
    """The slope with which a step of Newton's method is one of Halley's (4); ``gain`` itself where it is far from that.

    Near the root Halley's method triples the digits that Newton's doubles.
    """
    slope = gain - 0.5 * value * bend / xp.where(gain > 0.0, gain, 1.0)
    return xp.where((0.5 * gain < slope) & (slope < 2.0 * gain), slope, gain)


def next_slope(xp: Any, trial: Tensor, value: Tensor, gain: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Safeguarded Newton step for G(λ) = 0 inside (low, high); ``low = −1`` means that λ = 0 is untried.

    Where the bracket has no float left inside it, the trial itself comes back.
    """
    steep = gain > 0.0
    newton = trial - value / xp.where(steep, gain, 1.0)
    bounded = high < np.inf
    middle = xp.where(
        bounded, 0.5 * (xp.clip(low, 0.0, None) + xp.where(bounded, high, 0.0)), 2.0 * trial + 1.0
    )
    # A Newton step may overshoot wildly where G is flat: never far above the doubling while there is no upper end.
    usable = steep & (newton > low) & (newton < high) & (bounded | (newton < 4.0 * trial + 4.0))
    chosen = xp.where(usable, newton, middle)
    # With λ = 0 untried a Newton step below 0 means: try 0 itself.
    chosen = xp.where((low < 0.0) & ((chosen <= 0.0) | (steep & (newton <= 0.0))), 0.0, chosen)
    return xp.where((chosen <= low) | (chosen >= high), trial, chosen)


def change(batch: Batch, old: Tensor, new: Tensor, made: Evaluation) -> tuple[Tensor, Tensor]:
    """Root mean square of the growth log(new/old) centred row by row (η times (5)), and D(new ‖ old); both (B,)."""
    xp = batch.xp
    growth = xp.where(made.weight > 0.0, new - old, 0.0)
    part = made.weight * growth
    mean = part.sum(axis=-1) / made.total
    part *= growth
    spread = xp.clip(part.sum(axis=-1) / made.total - mean * mean, 0.0, None)
    divergence = xp.clip((mean * batch.p_x).sum(axis=-1), 0.0, None)
    return xp.sqrt((spread * batch.p_x).sum(axis=-1)), divergence


def move(
    batch: Batch, aim: Aim, slope: Tensor, target: Tensor, slack: Tensor, *, with_u: bool
) -> tuple[Tensor, Move]:
    """Search for λ and make the update: λ (B,), −1 where there is none, and where it leads.

    Args:
        batch: The problem's tables.
        aim: What the step starts from.
        slope: λ to start the search from, shape (B,).
        target: R − H(X) of each run, shape (B,).
        slack: How far above 0 the accepted G may lie, nats, shape (B,).
        with_u: Whether p(x, y) itself is wanted.
    """
    if batch.fused is not None:
        found = batch.fused.root(batch, aim, slope, target, slack)
        return found, Move(*batch.fused.update(batch, aim, found))
    found, made = root(batch, aim.base, aim.log_w, slope, target, slack)
    new = log_point(batch, made.weight, made.total, made.exponent)
    growth, divergence = change(batch, aim.log_u, new, made)
    u = made.weight * (batch.p_x / made.total)[..., None] if with_u else None
    return found, Move(new, u, growth, divergence)


class PlainStep(NamedTuple):
    """What a plain step returns.

    Attributes:
        log_u: The new log p(x, y), shape (B, M, N).
        u: p(x, y) if it was made on the way, or None.
        slope: λ of the update, shape (B,).
        residual: Equation (5) of the *old* point, nats, shape (B,).
        moved: False where no λ meets the constraint (the old point is returned), shape (B,).
    """

    log_u: Tensor
    u: Tensor | None
    slope: Tensor
    residual: Tensor
    moved: Tensor


def plain_step(batch: Batch, log_u: Tensor, u: Tensor | None, slope: Tensor, target: Tensor) -> PlainStep:
    """One iteration of Algorithm 1, equations (1) to (5) with η = 1.

    Args:
        batch: The problem's tables.
        log_u: log p(x, y) of B runs, shape (B, M, N); each with I(X;Y) ≥ R.
        u: exp(``log_u``) where it is at hand, or None.
        slope: λ to start the root search from, shape (B,): that of the previous iteration.
        target: R − H(X) of each run, shape (B,).
    """
    xp = batch.xp
    now = outputs(batch, xp.exp(log_u) if u is None else u)
    none = slope * 0.0
    aim = Aim(log_u, batch.p_s_given_x.T @ now.log_t, now.log_r, none + 1.0)
    found, made = move(batch, aim, slope, target, none + batch.root_tolerance, with_u=False)
    moved = found >= 0.0
    # The fused update leaves a run that cannot move where it is, and makes p(x, y) on the way.
    new = made.log_u if batch.fused is not None else xp.where(moved[:, None, None], made.log_u, log_u)
    return PlainStep(new, made.u, xp.where(moved, found, slope), made.growth, moved)


def begin(
    batch: Batch, now: Tensor, before: Tensor, slope: Tensor, eta: Tensor, age: Tensor
) -> AcceleratedState:
    """State of accelerated runs at the points ``now``."""
    xp = batch.xp
    none = slope * 0.0
    leakage = outputs(batch, xp.exp(now)).leakage
    on = none == 0.0
    slack = none + batch.root_tolerance
    return AcceleratedState(now, before, slope, eta, age, slack, leakage, none + np.inf, none, on, on)


def accelerated_step(
    batch: Batch, state: AcceleratedState, target: Tensor, tolerance: float
) -> AcceleratedState:
    """One accelerated iteration of every run that is still going: try a step, then accept or reject it."""
    return judge(batch, state, try_step(batch, state, target), tolerance)


def try_step(batch: Batch, state: AcceleratedState, target: Tensor) -> Trial:
    """Equations (1) to (4) from the point that momentum leads to, with step length η."""
    xp = batch.xp
    beta = xp.where(state.age > 1.0, (state.age - 1.0) / (state.age + 2.0), 0.0)
    shifted, u = momentum(batch, state.now, state.before, beta)
    old = outputs(batch, u)
    aim = Aim(shifted, batch.p_s_given_x.T @ old.log_t, old.log_r, state.eta)
    found, made = move(batch, aim, state.slope * state.eta, target, state.slack, with_u=True)
    after = outputs(batch, made.u)
    # The leakage exceeds its linearisation by ρ·D(new ‖ old); 1/η must not be below ρ.
    excess = (after.p_sy * (after.log_t - old.log_t)).sum(axis=(-2, -1))
    free = excess * LONGEST <= SAFETY * made.divergence
    allowed = xp.where(free, LONGEST, coarse(xp, SAFETY * made.divergence / xp.where(free, 1.0, excess)))
    return Trial(made.log_u, found, after.leakage, made.growth, allowed, beta)


def momentum(batch: Batch, now: Tensor, before: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Log u and u (B, M, N) of the point that lies β (B,) times the last step beyond the last point."""
    if batch.fused is not None:
        return batch.fused.momentum(batch, now, before, beta)  # type: ignore[no-any-return]
    weight, total, exponent = softmax(batch.xp, now + beta[:, None, None] * (now - before))
    shifted = log_point(batch, weight, total, exponent)
    weight *= (batch.p_x / total)[..., None]
    return shifted, weight


def coarse(xp: Any, values: Tensor) -> Tensor:
    """The nearest of GRID powers per octave: see :data:`privfunnel.algorithms.aem.schedule.GRID`."""
    return xp.exp2(xp.floor(GRID * xp.log2(xp.clip(values, TINY, None)) + 0.5) / GRID)


def judge(batch: Batch, state: AcceleratedState, trial: Trial, tolerance: float) -> AcceleratedState:
    """Accept the trials that leak less, reject the others, and set η and momentum for the next step."""
    xp = batch.xp
    rooted = trial.slope >= 0.0
    better = state.going & rooted & (trial.leakage < state.leakage)
    worse = state.going & ~better

    # Accepted: η may grow, and the next root may be as inexact as the descent was large. A residual within the
    # tolerance is that of the shifted point: the run ends if there was no momentum, else the next step goes without.
    residual = xp.where(better, trial.growth / state.eta, state.residual)
    still = better & (residual <= tolerance)
    descent = xp.where(better, state.leakage - trial.leakage, 1.0)
    slack = xp.clip(coarse(xp, INEXACT * descent), batch.root_tolerance, None)
    grown = GROWTH * state.eta
    eta_accepted = xp.where(trial.eta < grown, trial.eta, grown)

    # Rejected: momentum goes first, then η is halved; if there was neither, the run cannot go on.
    young = state.age <= 1.0
    stuck = worse & young & (state.eta <= 1.0)
    capped = xp.where(trial.eta < state.eta, trial.eta, state.eta)
    eta_rejected = xp.where(young, 0.5 * state.eta, xp.where(rooted, capped, state.eta))

    eta = xp.clip(xp.where(better, eta_accepted, eta_rejected), 1.0, None)
    age = xp.where(better & ~still, state.age + 1.0, 0.0)
    now, before = chosen(batch, better, trial.log_u, state)
    return AcceleratedState(
        now=now,
        before=before,
        slope=xp.where(better, trial.slope / state.eta, state.slope),
        eta=xp.where(state.going, eta, state.eta),
        age=xp.where(state.going, age, state.age),
        slack=xp.where(better, slack, batch.root_tolerance),
        leakage=xp.where(better, trial.leakage, state.leakage),
        residual=residual,
        steps=state.steps + xp.where(state.going & ~stuck, 1.0, 0.0),
        going=state.going & ~(still & (trial.beta == 0.0)) & ~stuck,
        alive=state.alive & ~stuck,
    )


def chosen(batch: Batch, better: Tensor, new: Tensor, state: AcceleratedState) -> tuple[Tensor, Tensor]:
    """The last two points (B, M, N) after a trial: ``new`` and the last where it is better (B,), else the state's.

    Fused, they are made out of ``new`` and the last point, whose arrays are not to be used any more: only runs whose
    trial was taken back cost anything.
    """
    if batch.fused is not None:
        return batch.fused.chosen(better, new, state.now, state.before)  # type: ignore[no-any-return]
    mask = better[:, None, None]
    return batch.xp.where(mask, new, state.now), batch.xp.where(mask, state.now, state.before)
