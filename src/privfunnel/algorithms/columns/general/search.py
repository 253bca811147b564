"""Column generation with exact pricing for guarded funnels: a channel, and a certificate of how good it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.columns.general.branching import MARGIN, AnyTree, Bracket, Explored, explore, value
from privfunnel.algorithms.columns.general.compiled_branching import explore_compiled, is_for
from privfunnel.algorithms.columns.general.first_posteriors import PRIVATE, first_posteriors
from privfunnel.algorithms.columns.general.local_pricing import candidates
from privfunnel.algorithms.columns.general.master import Duals, Master
from privfunnel.algorithms.columns.general.plan import PLAN
from privfunnel.algorithms.columns.general.random_descents import scatter
from privfunnel.algorithms.columns.general.tangent_relaxation import Relaxation
from privfunnel.algorithms.deadline import Deadline, Limits
from privfunnel.algorithms.posteriors.assembly import held_channel
from privfunnel.algorithms.posteriors.points import distinct
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.certificate.answer import Status
from privfunnel.certificate.attacker_images import stack
from privfunnel.certificate.tree import LARGEST
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Array, Channel
from privfunnel.model.problem import Problem
from privfunnel.model.tasks import Utility
from privfunnel.model.threat import Threat

#: Posteriors worth less than this share of the gap to be proved are left to the proof.
WORTHWHILE = 0.2
#: Rounds that lower the value by less than this share of the gap are idle; after so many of them a proof is tried.
IDLE, IDLE_ROUNDS = 0.5, 3
#: Posteriors that one round adds at most.
MOST_ADDED = 60
#: Boxes of the first attempt at a proof: where they do not end it, posteriors are looked for everywhere before the
#: next.
TRIAL_BOXES = 8000
#: Looks everywhere that have to find nothing before the next attempt, which what it comes upon makes begin again, and
#: descents of each; and those before a proof of more than so many boxes.
SHORT_LOOKS, LONG_LOOKS, LONG_PROOF = (1, 25), (2, 100), 60_000.0
#: When the limits came first, so many boxes prove what they can.
LAST_BOXES = 300


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A channel (M, N), the certificate that was proved, how it ended, and boxes opened."""

    channel: Channel
    certificate: Certificate | None
    status: Status
    duals: Duals
    opened: int


class Search:
    """The search for one problem and threat.

    Args:
        problem: The problem.
        threat: Attackers, published columns and guarantees.
        zero: Whether nothing may leak to any attacker.
        rng: Randomness of the local searches.
        limits: Time and boxes.
        pool: Allowed posteriors that were found before, (n, M), or None.
        tasks: What the release is for; None for no task.
    """

    def __init__(
        self,
        problem: Problem,
        threat: Threat,
        *,
        zero: bool,
        rng: Generator,
        limits: Limits,
        pool: Array | None = None,
        tasks: Utility | None = None,
    ) -> None:
        self.tasks = tasks
        self.pool = np.zeros((0, problem.n_x)) if pool is None else pool
        self.problem, self.threat, self.zero, self.rng, self.limits = problem, threat, zero, rng, limits
        self.strata = threat.strata(problem)
        ones = [0.0 if silent else 1.0 for silent in threat.silent(zero=zero)]
        self.relaxations = [
            Relaxation(stack(each, threat, ones, zero=zero, tasks=tasks), each.problem.p_x)
            for each in self.strata
        ]
        self.opened, self.exhausted, self.hurried = 0, False, False
        #: Whether a proof takes more boxes than a trial, and about how many more.
        self.hard, self.left = False, 0.0
        self.partial: Certificate | None = None

    def starts(self) -> Array:
        """Allowed posteriors to begin with, of which p(x) is a mixture, (n, M)."""
        deadline = Deadline(max(PLAN.start * self.limits.seconds, PLAN.start_seconds))
        made = [
            self._lift(number, first_posteriors(stratum, relaxation, self.threat, self.zero, deadline))
            for number, (stratum, relaxation) in enumerate(zip(self.strata, self.relaxations, strict=True))
        ]
        return np.concatenate([*made, self._allowed()])

    def _allowed(self) -> Array:
        """The posteriors found before, without those that tell something where nothing may leak."""
        if not self.zero:
            return self.pool
        if len(self.relaxations) > 1:
            return self.pool[:0]
        rows, goal = self.relaxations[0].equations
        return np.asarray(self.pool[np.abs(self.pool @ rows.T - goal).max(axis=1) <= PRIVATE])

    def close(
        self,
        master: Master,
        gap: float,
        tell: Listener | None = None,
        *,
        enough: float = -math.inf,
        prove: bool = True,
    ) -> Outcome:
        """Add posteriors until none improves by ``gap`` nats, and prove it, or stop at the limits.

        A program whose value is no more than ``enough`` is good enough as it is. When the limits come first, ``prove``
        asks for what can still be proved.
        """
        # A proof leaves this share of the gap asked for: rounding of the channel needs the rest.
        target = 0.8 * gap
        least = self.threat.measure.average(0.0)
        master.add(self.starts())
        best, idle = math.inf, 0
        certificate: Certificate | None = None
        status = Status.OPTIMAL
        while True:
            duals = self._tidy(master.solve(self.limits))
            idle = idle + 1 if best - duals.value < IDLE * target else 0
            best = duals.value
            if tell is not None:
                tell(Progress(message=f"{len(master.posteriors)} posteriors, {self.opened} boxes"))
            if (master.least and duals.value - least <= gap) or duals.value <= enough:
                break  # leakage cannot be negative
            if self.limits.passed() or self.exhausted or master.stalled or self.opened >= self.limits.nodes:
                rest = self.hurried and not self.limits.passed()
                if rest and self._price_locally(master, duals, WORTHWHILE * target):
                    continue  # the time that a proof leaves is for better posteriors
                late = self.limits.passed() or self.hurried
                status = Status.TIME_LIMIT if late else Status.NODE_LIMIT
                if prove:
                    certificate = self.partial or self._prove_something(duals, target)
                break
            if self._price_locally(master, duals, WORTHWHILE * target) and idle < IDLE_ROUNDS:
                continue
            idle = 0
            if self.hard and self._price_everywhere(master, duals, WORTHWHILE * target):
                continue
            trees = self._explore(master, duals, -target)
            if trees is not None:
                certificate = self._certify(duals, trees, -target)
                break
        weights, posteriors = master.used()
        channel = held_channel(self.problem, weights, posteriors)
        return Outcome(
            channel=channel, certificate=certificate, status=status, duals=duals, opened=self.opened
        )

    def _tidy(self, duals: Duals) -> Duals:
        """The duals with prices that are worth the same on W, and moderate."""
        prices = duals.prices.copy()
        for stratum, relaxation in zip(self.strata, self.relaxations, strict=True):
            prices[stratum.x] = relaxation.reduced(prices[stratum.x])
        return replace(duals, prices=prices)

    def _bracket(self, duals: Duals, number: int) -> Bracket:
        prices = np.ascontiguousarray(duals.prices[self.strata[number].x])
        task = None if self.tasks is None else (duals.task_slope or 0.0) * self.tasks.weights
        return Bracket(duals.weights, prices, duals.slope, task)

    def _lift(self, number: int, posteriors: Array) -> Array:
        """Posteriors (n, M_a) of a stratum as posteriors of all symbols, (n, M)."""
        lifted = np.zeros((len(posteriors), self.problem.n_x))
        lifted[:, self.strata[number].x] = posteriors
        return lifted

    def _price_locally(self, master: Master, duals: Duals, worth: float) -> int:
        """Add local minima below −``worth``; how many were new."""
        active = master.active()
        added = 0
        for number, (stratum, relaxation) in enumerate(zip(self.strata, self.relaxations, strict=True)):
            own = active[active[:, stratum.x].any(axis=1)][:, stratum.x]
            found = candidates(relaxation, self._bracket(duals, number), own, self.rng, self.limits)
            added += self._add(master, duals, number, found, -worth)
        return added

    def _price_everywhere(self, master: Master, duals: Duals, worth: float) -> int:
        """Add local minima below −``worth`` from random symbols, where that is compiled; how many were new.

        Before a long proof some looks from other symbols each have to find nothing.
        """
        looks, descents = LONG_LOOKS if self.left > LONG_PROOF else SHORT_LOOKS
        for _ in range(looks):
            added = 0
            if self.limits.passed(PLAN.everywhere):
                break
            deadline = Deadline(self.limits.left(PLAN.everywhere))
            for number, (stratum, relaxation) in enumerate(zip(self.strata, self.relaxations, strict=True)):
                bracket = self._bracket(duals, number)
                if is_for(relaxation, bracket):
                    found = scatter(stratum, self.threat, bracket, -worth, descents, self.rng, deadline)
                    added += self._add(master, duals, number, found, -worth)
            if added:
                return added
        return 0

    def _add(self, master: Master, duals: Duals, number: int, found: Array, threshold: float) -> int:
        if not len(found):
            return 0
        values = value(self.relaxations[number], self._bracket(duals, number), found)
        good = values < threshold
        return master.add(self._lift(number, distinct(found[good], values[good], MOST_ADDED)))

    def _search(
        self, number: int, duals: Duals, cutoff: float, limits: Limits, *, trial: bool = False
    ) -> Explored:
        """Search one stratum for posteriors below the cutoff, compiled where that is possible; others have no trial."""
        relaxation, bracket = self.relaxations[number], self._bracket(duals, number)
        if is_for(relaxation, bracket):
            nodes = min(limits.nodes, TRIAL_BOXES) if trial else limits.nodes
            given = (self.strata[number], self.threat, bracket, cutoff, nodes, limits)
            return explore_compiled(*given, trial=trial)
        return explore(relaxation, bracket, cutoff, limits.nodes, limits)

    def _explore(self, master: Master, duals: Duals, cutoff: float) -> list[AnyTree] | None:
        """The trees that prove F ≥ cutoff in every stratum; None where one was cut short or posteriors were added."""
        trees: list[AnyTree] = []
        every: list[Explored] = []
        limits = Limits(self.limits.left(), nodes=self.limits.nodes - self.opened)
        trial = not self.hard
        for number in range(len(self.strata)):
            explored = self._search(number, duals, cutoff, limits, trial=trial)
            self.opened += explored.opened
            every.append(explored)
            if explored.complete:
                trees.append(explored.tree)
            else:
                self._add(master, duals, number, explored.found, cutoff)
        if len(trees) == len(self.relaxations):
            return trees
        least = min(each.least for each in every)
        found = any(len(each.found) for each in every)
        long = trial and (not found or any(each.opened == TRIAL_BOXES for each in every))
        if long and self.opened < self.limits.nodes and not self.limits.passed():
            self.left = max(each.left for each in every)
            self.hard = True  # the next search proves what it can, if not what is asked for
            return None
        if not found and not self.limits.passed():
            # Neither time nor posteriors ended it: the boxes did, or their room, or it proved what there was time for.
            self.exhausted, self.hurried = True, any(each.hurried for each in every)
        if math.isfinite(least) and not found:
            # Cut short: what it proved so far is the best there is, since the prices get better all the time.
            self.partial = self._certify(duals, [each.tree for each in every], least)
        return None

    def _certify(self, duals: Duals, trees: list[AnyTree], cutoff: float) -> Certificate | None:
        """The certificate of some trees; None for duals too large for one, those of a budget of next to nothing."""
        if max(float(np.abs(duals.prices).max()), float(duals.weights.max(initial=0.0))) > LARGEST:
            return None
        proofs = [
            tree.proof(cutoff - MARGIN, relaxation.images, duals.weights)
            for tree, relaxation in zip(trees, self.relaxations, strict=True)
        ]
        both = (duals.weights, duals.slope)
        slope = None if self.tasks is None else duals.task_slope or 0.0
        return GuardedBody.build(self.problem, self.threat, duals.prices, both, proofs, zero=self.zero,
                                        task_slope=slope)  # fmt: skip

    def _prove_something(self, duals: Duals, target: float) -> Certificate | None:
        """When the limits came first: the line that a few boxes prove."""
        patient = Limits(max(PLAN.last * self.limits.seconds, PLAN.last_seconds), nodes=LAST_BOXES)
        every = [self._search(number, duals, -target, patient) for number in range(len(self.strata))]
        least = min(each.least for each in every)
        return self._certify(duals, [each.tree for each in every], least) if math.isfinite(least) else None
