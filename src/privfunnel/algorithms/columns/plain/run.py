"""One run of the global solver on one problem: points of a trace share posteriors and lines."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from privfunnel.algorithms.base import SHORTEST_LIMIT
from privfunnel.algorithms.columns.plain import branching
from privfunnel.algorithms.columns.plain import clique_pricing as cliqued
from privfunnel.algorithms.columns.plain import first_posteriors as seeding
from privfunnel.algorithms.columns.plain import interior_prices as interior
from privfunnel.algorithms.columns.plain import support_pricing as supported
from privfunnel.algorithms.columns.plain.fewer_private import coarse_lines
from privfunnel.algorithms.columns.plain.plan import PLAN
from privfunnel.algorithms.columns.plain.search import CLOSED, Outcome, Search
from privfunnel.algorithms.columns.plain.too_large import channel_seconds
from privfunnel.algorithms.deadline import Deadline, Limits
from privfunnel.algorithms.perfect import FreeDisclosure, free_disclosure, prove, share_down
from privfunnel.algorithms.posteriors.components import split_problem
from privfunnel.algorithms.thinning import ceiling_lines, thinning_line
from privfunnel.certificate import Certificate, PlainBody
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import CertificateError, MissingExtraError
from privfunnel.infra.jit import pays, wait_no_longer
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY

if TYPE_CHECKING:
    from privfunnel.algorithms.columns.plain import Global

#: Steps towards a leakage budget aim this share of the gap below it, so that the last one ends inside it.
AIM_BELOW = 0.01
#: Within a budget a point is proved to this share of the gap at its slope, but to no less than so many nats.
FINER, FINEST = 0.9, 1.5e-9
#: A line that rises by less than this per nat bounds no disclosure.
LEAST_SLOPE = 1e-6


@functools.cache
def load_kernels() -> None:
    """Compile the search's kernels, or read them from numba's cache: no time limit should pay for that.

    Closing the gap of a small problem and refining its channel calls each of them with the types that any problem uses.
    """
    wait_no_longer()
    problem = Problem([[0.3, 0.2, 0.1], [0.05, 0.1, 0.25]])
    limits = Limits(nodes=1000)
    search = Search(problem, np.random.default_rng(0), limits)
    search.close(0.5 * problem.disclosure_ceiling, 1e-3, by_line=True)
    search.channel(0.5 * problem.disclosure_ceiling)


def _named(certificate: Certificate | None) -> str:
    """What kind of proof a certificate is, for people."""
    body = None if certificate is None else certificate.body
    return body.source if isinstance(body, PlainBody) else "certificate"


def spend(problem: Problem, below: Channel, above: Channel, budget: float) -> Channel:
    """Time sharing of two channels, one within a leakage budget and one beyond it, that leaks just the budget."""
    least, most = problem.evaluate(below).leakage, problem.evaluate(above).leakage
    share = max((budget - least) / (most - least), 0.0) if most > budget else 1.0
    return channels.time_share([below, above], [1.0 - share, share])


class Work:
    """One run of the solver on one problem."""

    def __init__(
        self, options: Global, problem: Problem, seed: int, progress: Listener | None, total: int
    ) -> None:
        self.options, self.problem, self.progress, self.total = options, problem, progress, total
        self.done, self.seed = 0, seed
        if pays(PLAN.plain_pair_seconds * problem.n_x**2 * total, branching.advance):
            if progress is not None:
                progress(Progress(total=total, message="loading the kernels (the first run compiles them)"))
            load_kernels()  # before any clock starts
        if supported.of_size(problem):
            supported.load_kernels()
        if cliqued.of_size(problem):
            cliqued.load_kernels()
        self.seeds, self.large = seeding.pays(problem), seeding.beyond_proofs(problem)
        self.hurries = False
        if self.seeds:
            seeding.load_kernels()
            supported.load_kernels()  # for tables with fewer private symbols
        self.clock = Deadline()
        parts = split_problem(problem)
        self.borrows = supported.of_size(problem) and len(parts) == 1
        seconds = PLAN.free * options.time_limit
        self.free: FreeDisclosure = free_disclosure(problem, seed=seed, seconds=seconds, nodes=0, parts=parts)
        self.search = Search(problem, np.random.default_rng(seed), self._limits(), parts)
        for component, mixture in enumerate(self.free.mixtures):
            self.search.master.add(component, mixture.posteriors)

    def _limits(self, share: float = 1.0) -> Limits:
        """The limits of the next point: no more than its time, nor than its part of what is left for all of them.

        A ``share`` of that is for the search. Where supports are looked at, the hard points of a curve come last, and
        have what the easy ones left.
        """
        each, points = self.options.time_limit, max(self.total - self.done, 1)
        most = PLAN.borrowed * each if self.borrows else each
        seconds = min(most, (self.total * each - self.clock.elapsed()) / points)
        # A channel of a large table takes its time, too, once it has been found.
        seconds -= min(channel_seconds(self.problem), PLAN.channel * seconds)
        return Limits(max(share * seconds, SHORTEST_LIMIT), nodes=self.options.node_limit)

    def warm(self, disclosures: list[float]) -> None:
        """Fill the pool from the easy end of the curve, so that the hard end starts with good posteriors."""
        seconds = min(1.0, PLAN.warm * len(disclosures)) * self.options.time_limit
        self.search.limits = Limits(seconds, nodes=self.options.node_limit)
        if len(disclosures) > 1:
            todo = sorted(filter(self._open, disclosures), reverse=True)
            every = max(1, math.ceil(len(todo) / 10))  # ten of them, spread over the trace
            for disclosure in todo[::every]:
                self.search.improve(disclosure, rounds=2, threshold=-self.options.gap)

    def _open(self, disclosure: float) -> bool:
        """Whether perfect privacy does not answer for this disclosure."""
        return disclosure > self.free.disclosure + 1e-12  # nats: rounding of R0

    def answer(self, disclosure: float) -> Answer:
        """The answer for one disclosure."""
        started = time.perf_counter()
        before = self.search.nodes
        if not self._open(disclosure):
            channel = share_down(self.problem, self.free.channel, disclosure)
            answer = Answer(channel=channel, status=Status.OPTIMAL, slope=0.0, message="perfect privacy")
        else:
            limits = self._limits(PLAN.large if self.large else 1.0)
            one = len(self.search.master.parts) == 1
            self.hurries = self.seeds and one and seeding.hurries(self.problem, limits.seconds)
            self.search.limits = self._limits() if self.hurries else limits
            outcome = self._close(disclosure, self.seeds)
            if outcome.status is not Status.OPTIMAL:
                self._coarsen(disclosure, outcome.duals.value)
            answer = self._finish(disclosure, outcome, self.search.nodes - before, started)
        self.done += 1
        self._report(disclosure, None, None)
        return answer

    def _close(self, disclosure: float, seeds: bool, gap: float | None = None) -> Outcome:
        """Close the gap at one disclosure, as far as limits allow; ``seeds``: AEM begins."""
        if self.hurries:
            self.search.hurry(disclosure, self.seed)
        elif seeds and interior.pays(self.problem):
            self.search.approach(disclosure, self.options.gap)
        elif seeds:
            self.search.seed(disclosure)
        return self.search.close(disclosure, gap or self.options.gap, self._tell(disclosure))

    def answers(self, disclosures: list[float]) -> Iterator[Answer]:
        """The answers, in the order given.

        Where supports are looked at, those of perfect privacy come first, which leave all their time to the others, and
        these from the largest disclosure down, since what one needs is mostly known from the one above it; otherwise
        one after the other.
        """
        if not supported.fits(self.search.master):
            for disclosure in disclosures:
                yield self.answer(disclosure)
            return
        known: dict[float, Answer] = {}
        try:
            for disclosure in sorted(set(disclosures), key=lambda r: (self._open(r), -r)):
                known[disclosure] = self.answer(disclosure)
        except KeyboardInterrupt:
            yield from (known.get(disclosure) or self.pooled(disclosure) for disclosure in disclosures)
            raise
        yield from (known[disclosure] for disclosure in disclosures)

    def pooled(self, disclosure: float) -> Answer:
        """What the pool has for a disclosure as it is, with no further search."""
        if not self._open(disclosure):
            return self.answer(disclosure)
        message = f"{self.search.master.n_columns} posteriors, interrupted before any proof"
        return Answer(channel=self.search.channel(disclosure), status=Status.TIME_LIMIT, message=message)

    def _coarsen(self, disclosure: float, value: float) -> None:
        """Where the search was hopeless within its limits, see what thinning and fewer private symbols prove."""
        gap, rng, own = self.options.gap, self.search.rng, self.search.limits
        if self._near(disclosure, value):
            return
        self._thin(disclosure)
        if self.hurries or self._near(disclosure, value):
            return
        nodes = min(self.options.node_limit, 500_000)  # each
        share = (1.0 - PLAN.large) / PLAN.large if self.large else PLAN.coarse
        limits = Limits(max(own.left(), share * own.seconds), own.clock, nodes=nodes)
        if limits.seconds < PLAN.entry_seconds * self.problem.n_x**2:
            return  # setting up one search takes longer
        for line in coarse_lines(self.problem, disclosure, 10.0 * gap, limits, rng):
            try:
                line.verify(self.problem)
            except (CertificateError, MissingExtraError):
                continue  # rounded unluckily when merged, or too large to check without numba: do without this bound
            self.search.lines.append(line)

    def _near(self, disclosure: float, value: float) -> bool:
        """Whether the bound is within a hundredth of the value, in nats, or ten gaps, which coarser proofs leave."""
        left = value - self.search.bound(disclosure)[0]
        return left <= max(0.01 * value, 10.0 * self.options.gap)

    def _thin(self, disclosure: float) -> None:
        """Add the line by thinning at a disclosure, where there is one."""
        line = thinning_line(self.problem, disclosure, self._thinning_deadline())
        if line is not None:
            self.search.lines.append(line)

    def _thinning_deadline(self) -> Deadline:
        own = self.search.limits
        return Deadline(max(own.left(), PLAN.thinning * own.seconds), own.clock)

    def _finish(self, disclosure: float, outcome: Outcome, nodes: int, started: float) -> Answer:
        _, certificate = self.search.bound(disclosure)
        return Answer(
            channel=self.search.channel(disclosure),
            status=outcome.status,
            slope=min(outcome.duals.slope, 1.0),
            certificate=certificate,
            bound_source=_named(certificate),
            steps=nodes,
            seconds=time.perf_counter() - started,
            message=f"{self.search.master.n_columns} posteriors, {nodes} boxes",
        )

    def _tell(self, disclosure: float) -> Listener | None:
        if self.progress is None:
            return None

        def tell(news: Progress) -> None:
            self._report(disclosure, news.value, news.bound)

        return tell

    def _report(self, disclosure: float, value: float | None, bound: float | None) -> None:
        if self.progress is not None:
            gap = "" if value is None or bound is None else f", gap {value - bound:.2g}"
            message = f"R = {disclosure:.4f} nats{gap}"
            self.progress(
                Progress(done=self.done, total=self.total, value=value, bound=bound, message=message)
            )

    # --- leakage budgets ------------------------------------------------------------------------------------------

    def within(self, budget: float) -> Answer:
        """Newton's method on the convex L(R) = budget: each point is closed, its slope leads to the next.

        Where the curve is flat leakage has to be proved to less than the gap, which is of disclosure.
        """
        started = time.perf_counter()
        gap = fine = self.options.gap
        free, status = None, Status.OPTIMAL
        if budget <= 0.0:
            free = self._seek_free()
            status = Status.TIME_LIMIT if free is None else Status.OPTIMAL
        low, high = self.free.disclosure, self.problem.disclosure_ceiling - FEASIBILITY
        channel = self.free.channel
        above: Channel = channels.identity(self.problem.n_x)
        guess = min(high, max(low, self.problem.h_x_given_s + budget))
        self.search.limits = self._limits()
        for _ in range(60):  # each squares the error, so that a few are enough, or halves the interval
            if high - low <= 1e-9 or budget <= 0.0 or self._most(budget) - low <= CLOSED * gap:
                break
            outcome = self._close(
                guess, self.large, fine
            )  # smaller tables have the posteriors of the step before
            slope, status = outcome.duals.slope, outcome.status
            refined = self.search.channel(guess)  # it may leak less than the program's value says
            value = self.problem.evaluate(refined).leakage
            if value <= budget:
                low, channel = guess, refined
            else:
                high, above = guess, refined
            if status is not Status.OPTIMAL:
                channel = spend(self.problem, channel, above, budget)
                break
            left = budget - value
            if 0.0 <= left <= 0.05 * min(fine, budget):  # the budget is met
                # A line of slope μ turns leakage that is not proved into disclosure: prove more of it where it is flat.
                finer = max(FINER * gap * slope, FINEST)
                if finer >= fine:
                    break
                fine = finer
                guess = min(max(guess + (left - AIM_BELOW * fine) / max(slope, LEAST_SLOPE), low), high)
                continue
            guess += (left - AIM_BELOW * fine) / slope if slope > 0.0 else math.inf
            if not low < guess < high:
                guess = 0.5 * (low + high)
        if status is not Status.OPTIMAL and budget > 0.0:
            self.search.lines.extend(ceiling_lines(self.problem, low, budget, self._thinning_deadline()))
        certificate = free or self._ceiling(low, budget, fine)
        if status is Status.OPTIMAL and budget > 0.0 and self._most(budget) - low > gap:
            status = Status.CONVERGED  # next to what is free the curve is too flat for rounding
        return Answer(
            channel=channel,
            status=status,
            slope=0.0 if free else 1.0 if certificate is None else certificate.slope,
            certificate=certificate,
            bound_source=_named(certificate),
            steps=self.search.nodes,
            seconds=time.perf_counter() - started,
            message=f"{self.search.master.n_columns} posteriors, {self.search.nodes} boxes",
        )

    def _seek_free(self) -> Certificate | None:
        """Look for more that is free, where there may be; return the proof of what nothing free exceeds."""
        found = self.free
        if not found.proved:
            seconds = PLAN.free_alone * self.options.time_limit
            found = free_disclosure(self.problem, seed=self.seed, seconds=seconds)
            self.free = max(self.free, found, key=lambda free: free.disclosure)
        return prove(self.problem, found)

    def _ceiling(self, disclosure: float, budget: float, gap: float) -> Certificate | None:
        """A line that rises through the budget next to ``disclosure``: L(R) ≥ c + μR gives R ≤ (budget − c)/μ.

        Where those that are proved allow more, further ones are proved to ``gap`` nats.
        """
        closed_form = min(self.problem.disclosure_ceiling, self.problem.h_x_given_s + budget)
        if disclosure >= closed_form - self.options.gap:
            return None  # the closed form says it
        step = 1e-6  # nats above the disclosure, where lines begin to rise; ten times as many in each turn
        ceiling = self.problem.disclosure_ceiling
        while step < 0.1 and disclosure + step < ceiling and not self.search.limits.passed():
            if self._most(budget) - disclosure <= CLOSED * self.options.gap:
                break
            outcome = self.search.close(disclosure + step, 0.9 * gap, by_line=True)
            if outcome.status is not Status.OPTIMAL or outcome.duals.slope > LEAST_SLOPE:
                break
            step *= 10.0
        return min(self._rising, key=lambda line: (budget - line.intercept) / line.slope, default=None)

    @property
    def _rising(self) -> list[Certificate]:
        return [line for line in self.search.lines if line.slope > 0.0]

    def _most(self, budget: float) -> float:
        """What no channel that leaks at most ``budget`` is proved to disclose more than, in nats."""
        bought = ((budget - line.intercept) / line.slope for line in self._rising)
        return min([self.problem.disclosure_ceiling, self.problem.h_x_given_s + budget, *bought])
