"""One distortion funnel with everything its points share: costs in their own unit, and the ends of the curve."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.distortion.equations import Case, circulating, levelled
from privfunnel.algorithms.distortion.newton import Found, follow
from privfunnel.certificate import Certificate, DistortionBody
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.measures import TINY, Array
from privfunnel.model.costs import Costs
from privfunnel.model.problem import Problem
from privfunnel.model.question import ROUNDING

#: Share of the largest cost within which the least distortion for a leakage budget is found.
CLOSE = 1e-7
#: Newton's method aims at this share of the asked gap; the rest is for rounding.
AIM = 0.05
#: Share of the largest cost by which two distortions or two costs count as the same.
SAME = 1e-13
#: Share of the largest cost above the least distortion within which the answer there is as good as any.
NARROW = 1e-6
#: Numbers M·N·K that Newton's method holds several times.
MOST_NUMBERS = 20_000_000
#: Cuts of outputs that hardly occur are mixed with this much of p(s), so that they are finite.
MIXED = 1e-12
#: The steepest line that is claimed.
STEEPEST = 1e6
#: Entries of p(x, y) below this are left out where the multipliers say that they are not needed, or below the next.
UNNEEDED = (1e-6, 1e-8, 1e-10)


class Step(NamedTuple):
    """A channel, what proves it good, and what it took."""

    channel: Array
    multiplier: float = 0.0
    certificate: Certificate | None = None
    steps: int = 0


class Reached(NamedTuple):
    """A channel with what it has: distortion in the unit of the costs, leakage in nats, and the line's bound on it."""

    step: Step
    distortion: float
    leakage: float
    lower_bound: float
    seconds: float = 0.0

    @property
    def gap(self) -> float:
        """Leakage above the bound, in nats."""
        return self.leakage - self.lower_bound

    def answer(self, status: Status = Status.MAX_STEPS) -> Answer:
        """What a solver returns of it."""
        return Answer(
            channel=self.step.channel,
            status=status,
            slope=-self.step.multiplier,
            certificate=self.step.certificate,
            steps=self.step.steps,
            seconds=self.seconds,
        )


@dataclass(frozen=True, eq=False)
class Work:
    """A problem with costs, solved at any distortion.

    Attributes:
        problem: The problem.
        costs: d.
        invariant: Whether p(y) = p(x).
        gap: What may be left between leakage and proved bound, in nats.
        max_steps: Most Newton steps a point.
    """

    problem: Problem
    costs: Costs
    invariant: bool
    gap: float
    max_steps: int

    def check(self) -> None:
        """Refuse what cannot be solved.

        Raises:
            InvalidInputError: The table is too large, or costs and invariance do not go together.
        """
        n_x, n_y = self.costs.matrix.shape
        if n_x * n_y * self.problem.n_s > MOST_NUMBERS:
            raise InvalidInputError(
                f"{n_x} records to {n_y} outputs with {self.problem.n_s} private symbols are too many for the "
                "distortion funnel: bin or drop a public column"
            )
        if not self.invariant:
            return
        if n_x != n_y:
            raise InvalidInputError(
                f"an invariant channel has the symbols as its outputs, and the costs have {n_y} outputs for {n_x} "
                "symbols: give a square matrix"
            )
        if (np.diag(self.costs.matrix) > self.costs.least).any():
            raise InvalidInputError(
                "an invariant channel may leave every record as it is, and the costs ask for more than the least on "
                "their diagonal: lower it"
            )

    # --- the ends of the curve --------------------------------------------------------------------------------

    @cached_property
    def cheapest(self) -> Array:
        """A channel of the least distortion, shape (M, N): records stay as they are where that costs least."""
        d, n_x = self.costs.matrix, self.problem.n_x
        place = np.argmin(d, axis=1)
        if d.shape[0] == d.shape[1]:
            place = np.where(np.diag(d) <= self.costs.least, np.arange(n_x), place)
        channel = np.zeros(d.shape)
        channel[np.arange(n_x), place] = 1.0
        return channel

    @cached_property
    def least(self) -> float:
        """The least distortion that any channel has."""
        return self.costs.of(self.problem.p_x, self.cheapest)

    @property
    def dearest(self) -> float:
        """A distortion that no channel exceeds."""
        d = self.costs.matrix
        return float(self.problem.p_x @ np.where(np.isfinite(d), d, 0.0).max(axis=1))

    @cached_property
    def free(self) -> tuple[float, Array] | None:
        """The least distortion without leakage, and its channel; None where no such channel is allowed or known."""
        constant = self._constant()
        # Entries M·N up to which the distortion without leakage is found by a linear program.
        if self.costs.matrix.size > 40_000:
            return constant
        return self._programmed() or constant

    def _constant(self) -> tuple[float, Array] | None:
        """Release one and the same record for all; where p(y) = p(x), any record for any other."""
        p_x, d = self.problem.p_x, self.costs.matrix
        if self.invariant:
            channel = np.tile(p_x, (p_x.size, 1))
        else:
            average = np.where(np.isfinite(d).all(axis=0), p_x @ np.where(np.isfinite(d), d, 0.0), np.inf)
            channel = np.zeros(d.shape)
            channel[:, int(np.argmin(average))] = 1.0
        cost = self.costs.of(p_x, channel)
        return (cost, channel) if np.isfinite(cost) else None

    def _programmed(self) -> tuple[float, Array] | None:
        """Minimise E d over channels with p(s|y) = p(s), a linear program in p(x, y)."""
        problem, d = self.problem, self.costs.matrix
        x, y = np.nonzero(np.isfinite(d))
        n_x, n_y = d.shape
        every = np.arange(x.size)
        told = problem.p_s_given_x - problem.p_s[:, None]
        blocks = [sparse.csr_array((np.ones(x.size), (x, every)), shape=(n_x, x.size))]
        blocks += [
            sparse.csr_array((told[k][x], (y, every)), shape=(n_y, x.size)) for k in range(problem.n_s - 1)
        ]
        right = [problem.p_x, np.zeros(n_y * (problem.n_s - 1))]
        if self.invariant:
            blocks.append(sparse.csr_array((np.ones(x.size), (y, every)), shape=(n_y, x.size)))
            right.append(problem.p_x)
        left: Any = sparse.vstack(blocks)
        found = linprog(d[x, y] / self.costs.scale, A_eq=left, b_eq=np.concatenate(right))
        if found.status != 0:
            return None
        u = np.zeros(d.shape)
        u[x, y] = np.maximum(np.asarray(found.x), 0.0)
        sums = u.sum(axis=1, keepdims=True)
        channel = np.where(sums > 0.0, u / np.where(sums > 0.0, sums, 1.0), self.cheapest)
        if self.invariant:
            channel = _balanced(channel, problem.p_x)
            if float(np.abs(problem.p_x @ channel - problem.p_x).max()) > ROUNDING:
                return None
        if problem.evaluate(channel).leakage > self.gap * AIM:
            return None
        return self.costs.of(problem.p_x, channel), channel

    # --- one point --------------------------------------------------------------------------------------------

    def at(self, distortion: float, deadline: Deadline = NEVER) -> Reached:
        """The least leakage at one distortion.

        Raises:
            InfeasibleError: Every channel has more distortion.
        """
        started = time.perf_counter()
        limit = float(distortion)
        room = limit - self.least
        if room < -SAME * self.costs.scale:
            raise InfeasibleError(
                f"distortion={limit!r} is infeasible: the least possible is {self.least:.9g}; raise it"
            )
        nothing = self.problem.evaluate(self.cheapest).leakage <= ROUNDING
        if nothing:
            step = Step(self.cheapest)
        elif self.free is not None and limit >= self.free[0]:
            step = Step(self.free[1])
        elif room <= SAME * self.costs.scale:
            step = self._tight(deadline)
        else:
            step = self._inside(limit, deadline)
        found = self._reached(step, limit)
        if found.gap > self.gap and 0.0 < room <= NARROW * self.costs.scale:
            found = min(found, self._reached(self._tight(deadline), limit), key=lambda each: each.gap)
        return found._replace(seconds=time.perf_counter() - started)

    def within(self, budget: float, deadline: Deadline) -> Iterator[Reached]:
        """Points whose lines enclose the least distortion within a leakage of ``budget`` nats, and last its release.

        The curve is convex: from a point above the budget its proved line cannot reach the budget too late, and between
        two points the mixed channel leaks no more than their chord.

        Raises:
            InfeasibleError: Every channel leaks more.
        """
        low = self.at(self.least, deadline)
        yield low
        if low.leakage <= budget + ROUNDING:
            return
        high = self.at(self.dearest if self.free is None else max(self.free[0], self.least), deadline)
        if high.leakage > budget + self.gap:
            raise InfeasibleError(
                f"leakage={budget!r} nats is infeasible with these costs: the least is {high.leakage:.9g}; raise it"
            )
        reached, best = self.least, high
        # Points that are tried for a leakage budget, at most.
        for _ in range(25):
            line = low.step.certificate
            if line is not None and line.slope > 0.0:
                reached = max(reached, (line.intercept - budget) / line.slope)
            best = self._mixed(low, high, budget)
            if best.distortion - reached <= CLOSE * self.costs.scale or deadline.passed():
                break
            # The line's own crossing is on the left of the optimum, or on it; a little more crosses over.
            middle = self.at(min(reached + 0.5 * CLOSE * self.costs.scale, best.distortion), deadline)
            yield middle
            if middle.leakage > budget:
                low = middle
            else:
                high = middle
        yield best

    def _case(self, allowed: Any, limit: float) -> Case:
        # What every release of a record costs is taken off: a little above that, the rest would be lost in rounding.
        costs = np.where(allowed, self.costs.matrix - self.costs.least[:, None], 0.0) / self.costs.scale
        scaled = (limit - self.least) / self.costs.scale
        return Case(self.problem.p_s_given_x, self.problem.p_x, costs, allowed, scaled, self.invariant)

    def _inside(self, limit: float, deadline: Deadline) -> Step:
        """Between the ends: Newton's method, and a channel within the limit of what it found."""
        allowed = np.isfinite(self.costs.matrix)
        usable = circulating(allowed)[0] if self.invariant else allowed
        found = follow(self._case(usable, limit), AIM * self.gap, self.max_steps, deadline)
        multiplier = min(found.multiplier / self.costs.scale, STEEPEST)
        channel = self._within(found.channel, limit)
        most = self._leakage(channel) + AIM * self.gap
        for least in UNNEEDED:
            pruned = self._pruned(found, least, limit)
            if pruned is not None and self._leakage(pruned) <= most:
                channel = pruned
                break
        outputs = found.outputs
        if self.invariant:
            worth = (found.cuts @ self.problem.p_s_given_x).T + multiplier * np.where(
                allowed, self.costs.matrix, 0.0
            )
            outputs = outputs + levelled(worth - outputs, allowed, circulating(allowed)[1])
        proof = self._proof(multiplier, found.cuts, outputs)
        return Step(channel, multiplier, proof, found.steps)

    def _tight(self, deadline: Deadline) -> Step:
        """At the least distortion only the cheapest changes are allowed, and λ is what keeps the others away."""
        d, scale = self.costs.matrix, self.costs.scale
        cheap = d <= self.costs.least[:, None] + SAME * scale
        channel, outputs, steps = self.cheapest, np.zeros(d.shape[1]), 0
        p_sy = self.problem.p_sx @ channel
        t = p_sy / np.maximum(p_sy.sum(axis=0), TINY)
        if cheap.sum() > d.shape[0]:
            usable = circulating(cheap)[0] if self.invariant else cheap
            found = follow(self._case(usable, math.inf), AIM * self.gap, self.max_steps, deadline)
            channel, t = found.channel, np.exp(found.cuts.T)
            outputs, steps = found.outputs, found.steps
        cuts = np.log((1.0 - MIXED) * t + MIXED * self.problem.p_s[:, None]).T
        value = (cuts @ self.problem.p_s_given_x).T - outputs
        if self.invariant:
            price = levelled(value, cheap, circulating(cheap)[1])
            outputs, value = outputs + price, value - price
        best = np.where(cheap, value, np.inf).min(axis=1)
        dearer = np.isfinite(d) & ~cheap
        extra = np.where(dearer, d - self.costs.least[:, None], 1.0)
        needed = np.where(dearer, (best[:, None] - value) / extra, 0.0)
        multiplier = min(max(float(needed.max()), 0.0), STEEPEST)
        return Step(channel, multiplier, self._proof(multiplier, cuts, outputs), steps)

    def _proof(self, multiplier: float, cuts: Array, outputs: Array) -> Certificate:
        prices = np.clip(outputs, -STEEPEST, STEEPEST) if self.invariant else None
        return DistortionBody.build(self.problem, self.costs.matrix, multiplier, cuts, prices)

    def _leakage(self, channel: Array) -> float:
        return self.problem.evaluate(channel).leakage

    # --- channels ---------------------------------------------------------------------------------------------

    def _reached(self, step: Step, limit: float) -> Reached:
        """What a channel has, and what its line proves of distortions up to ``limit``."""
        bound = 0.0 if step.certificate is None else max(step.certificate.lower_bound(limit), 0.0)
        spent = self.costs.of(self.problem.p_x, step.channel)
        return Reached(step, spent, self._leakage(step.channel), bound)

    def _mixed(self, low: Reached, high: Reached, budget: float) -> Reached:
        """The mixture of two channels that leaks ``budget`` nats."""
        share = min((low.leakage - budget) / max(low.leakage - high.leakage, TINY), 1.0)
        channel = (1.0 - share) * low.step.channel + share * high.step.channel
        step = low.step._replace(channel=channel, steps=low.step.steps + high.step.steps)
        made = self._reached(step, self.costs.of(self.problem.p_x, channel))
        return made._replace(seconds=low.seconds + high.seconds)

    def _within(self, channel: Array, limit: float) -> Array:
        """The channel, mixed with the cheapest one where rounding left it above the limit."""
        channel = channel / channel.sum(axis=1, keepdims=True)
        spent = self.costs.of(self.problem.p_x, channel)
        if spent <= limit:
            return channel
        share = min((spent - limit) / max(spent - self.least, SAME * self.costs.scale) * (1.0 + 1e-12), 1.0)
        return np.asarray((1.0 - share) * channel + share * self.cheapest)

    def _pruned(self, found: Found, least: float, limit: float) -> Array | None:
        """The channel without what only the path's distance from the boundary put there; None where it is needed."""
        u = found.channel * self.problem.p_x[:, None]
        kept = np.where((u > least) | (u > found.slacks), found.channel, 0.0)
        if not (kept.sum(axis=1) > 0.0).all():
            return None
        if self.invariant:
            kept = _balanced(kept, self.problem.p_x)
            if float(np.abs(self.problem.p_x @ kept - self.problem.p_x).max()) > ROUNDING:
                return None
        return self._within(kept, limit)


def _balanced(channel: Array, p_x: Array) -> Array:
    """A channel close to one with p(y) = p(x), made one by scaling outputs and rows in turn."""
    for _ in range(200):
        p_y = p_x @ channel
        channel = channel * np.where(p_y > 0.0, p_x / np.where(p_y > 0.0, p_y, 1.0), 1.0)
        channel = channel / channel.sum(axis=1, keepdims=True)
        if float(np.abs(p_x @ channel - p_x).max()) < 1e-15:
            break
    return channel
