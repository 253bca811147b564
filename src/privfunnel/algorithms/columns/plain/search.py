"""Column generation with exact pricing: closes the gap at one disclosure after another on one shared pool."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.columns.plain import branching
from privfunnel.algorithms.columns.plain import clique_pricing as cliqued
from privfunnel.algorithms.columns.plain import first_posteriors as seeding
from privfunnel.algorithms.columns.plain import interior_prices as interior
from privfunnel.algorithms.columns.plain import support_pricing as supported
from privfunnel.algorithms.columns.plain.descents import Pricing, descend_all, descend_best, exchanges
from privfunnel.algorithms.columns.plain.first_posteriors import Seed
from privfunnel.algorithms.columns.plain.master import Master, Prices
from privfunnel.algorithms.columns.plain.newton import refine
from privfunnel.algorithms.columns.plain.plan import PLAN
from privfunnel.algorithms.columns.plain.search_trees import root_alone
from privfunnel.algorithms.columns.plain.support_pricing import Sight
from privfunnel.algorithms.deadline import Deadline, Limits
from privfunnel.algorithms.posteriors.assembly import Used, build
from privfunnel.algorithms.posteriors.components import Part
from privfunnel.algorithms.posteriors.points import distinct, pricing_values, sparse_starts, tidy
from privfunnel.certificate import (
    Certificate,
    CliqueProof,
    PlainBody,
    Proof,
    SupportsProof,
    cliques_of,
    rivalry,
    rivals,
)
from privfunnel.certificate.answer import Status
from privfunnel.certificate.exclusion import MOST_SYMBOLS
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: The search proves this much more than it claims, so that the checker's rounding allowance fits in between.
MARGIN = 1e-10
#: A point is closed when value and bound are within this share of the gap asked for: rounding needs some.
CLOSED = 0.95
#: A channel's disclosure may fall short of the program's by rounding: aim so much higher, in nats, until it does not.
AIMS = (2e-10, 2e-9, 2e-8, 2e-7)
#: Boxes that the first attempt at a proof may open.
CHUNK = 100_000
#: Boxes of a component for the coarse proof that is made when the limits came first.
LAST_BOXES = 20_000
#: The coarse proof leaves so many times the target, each time more, until it succeeds or says less than nothing.
COARSER, COARSEST = 4.0, 100.0
#: Nodes that branch and bound goes on for after its first find, and how well it solves its relaxations.
PATIENCE, TIGHTNESS = 50, 0.2
#: Posteriors worth less than this share of the gap to be proved are left to the proof: chasing them takes many rounds.
WORTHWHILE = 0.2
#: Rounds that lower the value by less than this share of the gap to be proved are idle;
IDLE = 0.5
#: after so many of them in a row the proof is tried all the same.
IDLE_ROUNDS = 3
#: Random posteriors to descend from in each round: so many or a third of the symbols, but fewer in each of many parts.
RANDOM_STARTS, STARTS_PER_PART = 30, 3
#: How much of the uniform distribution is mixed into a posterior in use, to descend from its neighbourhood.
SPREAD = 0.1
#: Steps of a descent.
DESCENT_STEPS = 60
#: Of the posteriors in use, at most this many lend their neighbourhood in one round.
MOST_STARTS = 50
#: Posteriors that one round adds at most: by local descents, by them in each of many components, by branch and bound.
MOST_LOCAL, MOST_PER_PART, MOST_EXACT = 100, 20, 50


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How work on one disclosure ended: the program's duals there, and why it stopped."""

    duals: Prices
    status: Status
    message: str = ""


class Search:
    """Everything known about one problem's curve: posteriors, proved lines, nodes spent.

    ``limits`` are those of the point in work; ``parts`` the problem's components where they are known already.
    """

    def __init__(
        self, problem: Problem, rng: Generator, limits: Limits, parts: list[Part] | None = None
    ) -> None:
        self.problem = problem
        self.rng = rng
        self.limits = limits
        self.master = Master(problem, parts)
        self.lines: list[Certificate] = []
        self.nodes = 0
        self.rounds = 0
        self.effort = CHUNK
        self._rivalry: list[Array] | None = None
        self._looks: list[supported.Look] = []
        self._least = 0.0  # of the last look at this disclosure
        self._longest = 0.0  # of all looks at it, in seconds
        self._ladder = cliqued.Ladder()
        self._solved: tuple[tuple[float, int], Prices, list[Used]] | None = None
        self._kept: dict[float, Seed] = {}  # AEM's best channel for a disclosure

    def bound(self, disclosure: float, *, by_line: bool = False) -> tuple[float, Certificate | None]:
        """Best proved lower bound on L(R) in nats, and the certificate behind it (None for the closed forms)."""
        best = -np.inf if by_line else float(self.problem.lower_bound(disclosure))
        line = None
        for certificate in self.lines:
            value = certificate.lower_bound(disclosure)
            if value > best:
                best, line = value, certificate
        return best, line

    def improve(self, disclosure: float, rounds: int, threshold: float) -> None:
        """A few rounds of local pricing at ``disclosure``: posteriors, no proof."""
        for _ in range(rounds):
            if self.limits.passed(PLAN.searched):
                break
            duals = self.master.solve(disclosure)
            if not self._price_locally(duals, self.master.weights(), threshold):
                break

    def seed(self, disclosure: float) -> None:
        """Begin with the posteriors of AEM, where the table is of one component."""
        if len(self.master.parts) == 1 and 0.0 < disclosure < self.problem.disclosure_ceiling:
            seconds, number = PLAN.seed * self.limits.left(), int(self.rng.integers(2**31))
            found = seeding.run(self.problem, disclosure, seconds, number)
            self._keep(disclosure, [] if found is None else [found])
            if found is not None and found.ended:
                self.master.add(0, found.posteriors)

    def approach(self, disclosure: float, gap: float = 0.0) -> None:
        """Begin with several runs of AEM, and go on with prices from the interior: for a table of one component.

        A leakage within ``gap`` nats of none is not improved on.
        """
        if len(self.master.parts) > 1 or not 0.0 < disclosure < self.problem.disclosure_ceiling:
            return
        found = seeding.runs(self.problem, disclosure, self.rng, self.limits)
        self._keep(disclosure, found)
        ended = [seed.posteriors for seed in found if seed.ended]
        if not ended or self._kept_leakage(disclosure) <= CLOSED * gap:
            return
        start = np.concatenate(
            [self.master.pools[0].posteriors[self.problem.n_x :], *ended]
        )  # no single symbols
        near = seeding.near(self.problem, self._kept_leakage(disclosure))
        hopeless = near or seeding.beyond_proofs(self.problem)
        share = PLAN.prices if hopeless else PLAN.prices_before_proof
        own = Deadline(share * self.limits.left(), self.limits.clock)
        used, value = interior.approach(self.problem, disclosure, start, self.rng, own)
        if np.isfinite(value):
            self.master.add(0, used)
        else:
            self.master.add(0, ended[0])  # the simplex method would take long for those of all runs

    def hurry(self, disclosure: float, seed: int) -> None:
        """Keep what one run of AEM finds in all the time, for a table of one component.

        Its posteriors do not enter the program, for which the simplex method would take as long again.
        """
        if len(self.master.parts) == 1 and 0.0 < disclosure < self.problem.disclosure_ceiling:
            found = seeding.only_run(self.problem, disclosure, seed, self.limits)
            self._keep(disclosure, [] if found is None else [found])

    def _keep(self, disclosure: float, found: list[Seed]) -> None:
        """Keep the best channel of AEM for a disclosure."""
        known = [self._kept[disclosure]] if disclosure in self._kept else []
        if known or found:
            self._kept[disclosure] = min(known + found, key=lambda seed: seed.leakage)

    def _kept_leakage(self, disclosure: float) -> float:
        """The leakage in nats of the channel that is kept for a disclosure; infinite where there is none."""
        return self._kept[disclosure].leakage if disclosure in self._kept else math.inf

    def channel(self, disclosure: float) -> Array:
        """The best channel (M, N) with at least ``disclosure`` nats: the pool's, refined, or AEM's own."""
        channel = self._pooled(disclosure)
        if self._kept_leakage(disclosure) < self.problem.evaluate(channel).leakage:
            return self._kept[disclosure].channel
        return channel

    def _pooled(self, disclosure: float) -> Array:
        """The best channel (M, N) of the pool."""
        channel = np.eye(self.problem.n_x)
        self._solve(disclosure)  # adds the refined posteriors
        for aim in AIMS:
            wanted = disclosure + aim
            if wanted >= self.problem.disclosure_ceiling:
                break
            self.master.solve(wanted)
            d = self.master.revealed
            revealed = d / self.master.h_c if d > 0.0 else 0.0
            channel = build(self.problem, self.master.parts, self.master.weights(), revealed, wanted)
            if self.problem.evaluate(channel).disclosure >= disclosure:
                return channel
        return channel

    def close(
        self, disclosure: float, gap: float, tell: Listener | None = None, *, by_line: bool = False
    ) -> Outcome:
        """Add posteriors and proofs until value and bound at ``disclosure`` are within ``gap``, or limits stop it.

        With ``by_line`` the closed forms do not count: the bound has to come from a certificate.
        """
        kept = self._kept.get(disclosure)
        if kept is not None and kept.leakage - self.bound(disclosure, by_line=by_line)[0] <= CLOSED * gap:
            return Outcome(duals=kept.duals, status=Status.OPTIMAL)
        allowed = self.nodes + self.limits.nodes
        # A proof leaves this share of the gap asked for, so that it also closes the point when the channel is a little
        # worse.
        target = 0.85 * gap
        value, idle, self._ladder = np.inf, 0, cliqued.Ladder()
        self._least = self._longest = 0.0
        if supported.fits(self.master):
            self._find_rivals()  # as long as there is time: without them nothing can be proved in the end
        while True:
            duals, used = self._solve(disclosure)
            idle = idle + 1 if value - duals.value < self._worth(value, target) else 0
            value = duals.value
            self.rounds += 1
            bound = self.bound(disclosure, by_line=by_line)[0]
            least = min(value, self._kept_leakage(disclosure))
            if tell is not None:
                tell(Progress(value=least, bound=bound))
            if least - bound <= CLOSED * gap:
                return Outcome(duals=duals, status=Status.OPTIMAL)
            if self._late() or self.nodes >= allowed:
                status = Status.NODE_LIMIT if self.nodes >= allowed else Status.TIME_LIMIT
                self._prove_something(duals, target, disclosure)
                return Outcome(duals=duals, status=status)
            if self._price_locally(duals, used, -WORTHWHILE * target) and idle < IDLE_ROUNDS:
                continue
            idle = 0
            if not self._find_rivals():
                self._prove_by_roots(duals)
                return Outcome(duals=duals, status=Status.TIME_LIMIT)
            self._price_exactly(duals, target, allowed, disclosure)

    def _solve(self, disclosure: float) -> tuple[Prices, list[Used]]:
        """The program's duals at ``disclosure`` and the posteriors in use, by Newton's method where it applies.

        The linear program's own duals belong to the posteriors that it happens to have; Newton's to the best ones on
        the same symbols, as if many more rounds had been made. They count where the pool has nothing better. The last
        answer is kept for as long as the pool does not grow.
        """
        if self._solved is None or self._solved[0] != (disclosure, self.master.n_columns):
            duals, used = self._solve_anew(disclosure)
            self._solved = (disclosure, self.master.n_columns), duals, used
        return self._solved[1:]

    def _solve_anew(self, disclosure: float) -> tuple[Prices, list[Used]]:
        duals, used = self.master.solve(disclosure), self.master.weights()
        refined = refine(self.master, disclosure, duals, used)
        if refined is None:
            return duals, used
        for c, (_, posteriors) in enumerate(refined.used):
            self.master.add(c, posteriors)
        # The prices of Newton's method count where no posterior of the pool is below them by more than this, in nats.
        if self.master.least(refined.duals) < -1e-9:
            return self.master.solve(disclosure), self.master.weights()
        return refined.duals, refined.used

    # --- pricing ------------------------------------------------------------------------------------------------

    def _price_locally(self, duals: Prices, used: list[Used], threshold: float) -> int:
        """Descend F from the posteriors in use, their neighbours and random ones; add those below ``threshold``."""
        added = 0
        many = len(self.master.parts) > 1
        most = supported.MOST_LOCAL if supported.fits(self.master) else MOST_LOCAL
        for c, (part, (_, active)) in enumerate(zip(self.master.parts, used, strict=True)):
            n_x, n_s = part.columns.shape
            n_random = STARTS_PER_PART if many else max(RANDOM_STARTS, n_x // 3)
            random = sparse_starts(self.rng, n_random, n_x, n_s + 1)
            pricing = Pricing(part.columns, np.ascontiguousarray(duals.prices[part.x]), duals.slope)
            lenders = active
            if len(active) > MOST_STARTS:
                lenders = active[self.rng.permutation(len(active))[:MOST_STARTS]]
            spread = (1.0 - SPREAD) * lenders + SPREAD / n_x
            # Exchanges of a symbol for each posterior in use.
            exchanged = exchanges(pricing, np.ascontiguousarray(lenders), 2, self.limits)
            near = np.ascontiguousarray(np.concatenate([active, spread, exchanged]))
            descend_all(pricing, near, DESCENT_STEPS, self.limits)
            minima = np.concatenate([near, descend_best(pricing, random, DESCENT_STEPS, self.limits)])
            added += self._add(c, minima, pricing, threshold, MOST_PER_PART if many else most)
        return added

    def _add(self, c: int, posteriors: Array, pricing: Pricing, threshold: float, most: int) -> int:
        """Add the best posteriors (n, M_c) of component c whose F is below ``threshold``; how many were new."""
        posteriors = tidy(posteriors)
        part = self.master.parts[c]
        values = pricing_values(part.p_s_given_x, pricing.prices, pricing.slope, posteriors)
        good = values < threshold
        return self.master.add(c, distinct(posteriors[good], values[good], most))

    def _worth(self, value: float, target: float) -> float:
        """What a round of local pricing has to lower the value by, in nats: less is left to exact pricing."""
        fits = supported.fits(self.master) and np.isfinite(value)
        return max(IDLE * target, supported.IDLE * value) if fits else IDLE * target

    def _late(self) -> bool:
        """Whether what is left of the time is for what can still be proved."""
        return self.limits.passed(PLAN.searched) or self.limits.left() < supported.KEPT * self._longest

    def _price_exactly(self, duals: Prices, target: float, allowed: int, disclosure: float) -> None:
        """Prove that no posterior of any component has F below −target, or add some that have.

        An attempt that runs out of boxes doubles what the next one may open.
        """
        if supported.applies(self.master, duals.slope):
            own = Deadline(self.limits.left(PLAN.searched), self.limits.clock)
            if self._look(disclosure, duals, -target, allowed - self.nodes, own) is not Sight.STUCK:
                return
        if cliqued.fits(self.master):
            self._climb(duals, target, allowed - self.nodes, disclosure)
            return
        boxes = min(self.effort, allowed - self.nodes)
        _, limited = self._prove(duals, -target, boxes, self.limits)
        if limited:
            self.effort *= 2

    def _climb(self, duals: Prices, target: float, boxes: int, disclosure: float) -> bool:
        """One attempt by cliques at what is asked for, or at some of it once that has failed; whether it was proved."""
        missing = min(duals.value, duals.value - self.bound(disclosure)[0])
        share = 1.0 if self._ladder.part else PLAN.searched
        own = Deadline(PLAN.attempt * self.limits.left(share), self.limits.clock)
        boxes = math.ceil(PLAN.attempt * boxes)
        proved, limited = self._prove(duals, self._ladder.cutoff(target, missing), boxes, own)
        if limited:
            self._ladder.failed()
        return proved

    def _look(self, disclosure: float, duals: Prices, cutoff: float, boxes: int, deadline: Deadline) -> Sight:
        """Look at supports: prove F ≥ cutoff, or add posteriors below it; a look at all of them is remembered."""
        pricing = Pricing(self.master.parts[0].columns, np.ascontiguousarray(duals.prices), duals.slope)
        began = deadline.elapsed()
        seen = supported.look(pricing, (self._rivalry or [])[0], cutoff, boxes, deadline)
        self.nodes += seen.boxes
        self._least = min(seen.least, self._least if np.isinf(seen.least) else 0.0)
        self._longest = max(self._longest, deadline.elapsed() - began)
        if seen.proved:
            proof = SupportsProof(claim=cutoff - MARGIN)
            self.lines.append(PlainBody.build(self.problem, duals.prices, duals.slope, [proof]))
            return Sight.PROVED
        if seen.whole:
            self._looks.append(supported.Look(disclosure, duals, seen.least, deadline.elapsed() - began))
        if self._add(0, seen.found, pricing, cutoff, supported.MOST_ADDED):
            return Sight.FOUND
        return Sight.LIMITED if seen.limited else Sight.STUCK

    def _prove_by_supports(self, disclosure: float, duals: Prices) -> bool:
        """When the limits came first: prove the best line that a look at all supports has left, or a coarse one."""
        cutoff = -supported.COARSE * duals.value
        if self._least < 0.0:
            cutoff = max(cutoff, supported.DEEPER * self._least)
        while cutoff > -COARSEST and self._find_rivals() and not self.limits.passed():
            looks = [look for look in self._looks if look.disclosure == disclosure]
            best = max(looks, key=lambda look: look.bound, default=None)
            if best is not None:
                duals, cutoff = best.duals, best.cutoff
            sight = self._look(disclosure, duals, cutoff, supported.LAST_BOXES, self.limits)
            if sight is Sight.PROVED or best is not None:
                return sight is Sight.PROVED
            if sight is Sight.FOUND:
                duals, cutoff = self._solve(disclosure)[0], min(cutoff, self._least)
            else:
                cutoff *= COARSER
        return False

    def _prove_something(self, duals: Prices, target: float, disclosure: float) -> None:
        """When the limits came first: prove the best line that a few boxes allow, coarser and coarser.

        At last the line that the roots prove, which is as good as nothing on most tables, but a proof.
        """
        if supported.applies(self.master, duals.slope) and self._prove_by_supports(disclosure, duals):
            return
        if cliqued.fits(self.master) and self._prove_by_cliques(disclosure, duals, target):
            return
        cutoff = -COARSER * target
        while cutoff > -COARSEST and self._find_rivals() and not self.limits.passed():
            # The next attempts are to have as much time as this one.
            own = Deadline(PLAN.coarser * self.limits.left(), self.limits.clock)
            if self._prove(duals, cutoff, LAST_BOXES, own)[0]:
                return
            cutoff *= COARSER
        self._prove_by_roots(duals)

    def _prove_by_cliques(self, disclosure: float, duals: Prices, target: float) -> bool:
        """When the limits came first: climb as far as there is time; whether there is any line at this disclosure."""
        self._ladder = cliqued.Ladder(max(self._ladder.part, cliqued.FIRST_PART))
        for _ in range(cliqued.LAST_ATTEMPTS):
            if self.limits.passed() or not self._find_rivals():
                break
            self._climb(duals, target, cliqued.LAST_BOXES, disclosure)
        return self.bound(disclosure)[1] is not None

    def _prove_by_roots(self, duals: Prices) -> None:
        """The line that one box a component proves, whatever it is worth."""
        prices = self.master.global_prices(duals)
        proofs = []
        for part in self.master.parts:
            pricing = Pricing(part.columns, np.ascontiguousarray(prices[part.x]), duals.slope)
            nobody = np.zeros((part.x.size, part.x.size), dtype=np.uint8)
            tree = branching.branch_and_bound(pricing, nobody, 0.0, 1, PATIENCE, TIGHTNESS).tree
            root = root_alone(tree)
            proofs.append(Proof(claim=branching.root_bound(pricing, root) - MARGIN, **root._asdict()))
        self.lines.append(PlainBody.build(self.problem, prices, duals.slope, proofs))

    def _find_rivals(self) -> bool:
        """Work out which symbols exclude each other, M² K work for every component; False where there is no time.

        Nor is it done for so many symbols that no proof may compare them.
        """
        if self._rivalry is None:
            if max(part.x.size for part in self.master.parts) > MOST_SYMBOLS:
                return False
            watch = Deadline(PLAN.rivals * self.limits.left(PLAN.searched), self.limits.clock)
            sizes = [part.x.size * part.columns.size for part in self.master.parts]
            found: list[Array] = []

            def stop(share: float) -> bool:
                """Whether the time is up, or will be before the work is done."""
                done = (sum(sizes[: len(found)]) + share * sizes[len(found)]) / sum(sizes)
                return watch.elapsed() > PLAN.rivals_foreseen and watch.elapsed() > done * watch.seconds

            try:
                for part in self.master.parts:
                    found.append(rivalry(part.columns, stop))
            except TimeoutError:
                return False
            self._rivalry = found
        return True

    def _prove(self, duals: Prices, cutoff: float, boxes: int, deadline: Deadline) -> tuple[bool, bool]:
        """Try to prove F ≥ cutoff, or else to add posteriors below it: (a line was proved, the limits came first)."""
        prices = self.master.global_prices(duals)
        explore = self._explore_cliques if cliqued.fits(self.master) else self._explore
        proofs, limited = explore(duals, prices, cutoff, boxes, deadline)
        proved = len(proofs) == len(self.master.parts)
        if proved:
            self.lines.append(PlainBody.build(self.problem, prices, duals.slope, proofs))
        return proved, limited

    def _explore(
        self, duals: Prices, prices: Array, cutoff: float, boxes: int, deadline: Deadline
    ) -> tuple[list[Proof], bool]:
        """Branch and bound in every component: the trees that prove it, and whether one was cut short."""
        proofs: list[Proof] = []
        limited = False
        for c, (part, thresholds) in enumerate(zip(self.master.parts, self._rivalry or (), strict=True)):
            own = np.ascontiguousarray(prices[part.x])
            shift = float(duals.prices[part.x[0]] - own[0])
            pricing = Pricing(part.columns, own, duals.slope)
            exclusive = rivals(thresholds, duals.slope)
            explored = branching.branch_and_bound(
                pricing, exclusive, cutoff + shift, boxes, PATIENCE, TIGHTNESS, deadline
            )
            self.nodes += int(explored.opened)
            if explored.outcome == branching.FOUND:
                descend_all(pricing, explored.found, DESCENT_STEPS, deadline)
                self._add(c, explored.found, pricing, cutoff + shift, MOST_EXACT)
            elif explored.outcome == branching.LIMIT:
                limited = True
            else:
                proofs.append(Proof(claim=cutoff + shift - MARGIN, **explored.tree._asdict()))
        return proofs, limited

    def _explore_cliques(
        self, duals: Prices, prices: Array, cutoff: float, boxes: int, deadline: Deadline
    ) -> tuple[list[CliqueProof], bool]:
        """The same by cliques, where there is one component."""
        pricing = Pricing(self.master.parts[0].columns, np.ascontiguousarray(prices), duals.slope)
        groups = cliques_of(rivals((self._rivalry or [])[0], duals.slope))
        explored = branching.search_cliques(pricing, groups, cutoff, boxes, PATIENCE, TIGHTNESS, deadline)
        self.nodes += int(explored.opened)
        if explored.outcome == branching.PROVED:
            tree = Proof(claim=cutoff - MARGIN, **explored.tree._asdict())
            return [CliqueProof(tree=tree, cliques=groups)], False
        descend_all(pricing, explored.found, DESCENT_STEPS, deadline)
        self._add(0, explored.found, pricing, cutoff, MOST_EXACT)
        return [], explored.outcome == branching.LIMIT
