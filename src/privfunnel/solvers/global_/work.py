"""One run of the global solver on one problem: points of a trace share posteriors and lines."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privfunnel import channels
from privfunnel.certificate import Certificate, ThinProof
from privfunnel.errors import CertificateError, MissingExtraError
from privfunnel.problem import Channel, Problem
from privfunnel.solution import FEASIBILITY, Answer, Status
from privfunnel.solvers.base import SHORTEST_LIMIT, Listener, Progress
from privfunnel.solvers.deadline import Deadline, Limits
from privfunnel.solvers.global_ import cliqued, interior, seeding, supported
from privfunnel.solvers.global_.coarsening import coarse_lines
from privfunnel.solvers.global_.hurried import ENTRY_SECONDS, channel_seconds
from privfunnel.solvers.global_.search import Outcome, Search
from privfunnel.solvers.perfect import FreeDisclosure, free_disclosure, share_down
from privfunnel.solvers.posteriors.components import split_problem
from privfunnel.solvers.thinning import ceiling_lines, thinning_line

if TYPE_CHECKING:
    from privfunnel.solvers.global_ import Global

#: Share of a point's time that perfect privacy may take, where its vertices are too many to list.
FREE_SHARE = 0.2
#: Share of the time of all points, but no more than one point's, that filling the pool before the first one may take.
WARM_SHARE = 0.2
#: The share of a point's time that is set aside at most for building and judging its channel.
LATEST_SHARE = 0.8
#: Points of a trace, spread over it, that fill the pool before the first one is proved, and rounds for each.
WARM_POINTS, WARM_ROUNDS = 10, 2
#: Up to this much beyond R0, in nats, perfect privacy is the answer.
AT_R0 = 1e-12
#: Coarser tables are tried where the search left more than this share of the value and so many gaps,
HOPELESS_SHARE, HOPELESS_GAPS = 0.01, 10.0
#: together with this share of a point's time, or what its search left of it, and so many boxes each, to so many gaps.
COARSE_SHARE, COARSE_NODES, COARSE_GAPS = 0.1, 500_000, 10.0
#: Share of a point's time for the search of a table so large that its own proof is out of reach: the rest is for
#: coarser ones.
LARGE_SHARE = 0.75
#: Share of a point's time for what is free, where nothing else is asked for.
SOUGHT_SHARE = 0.6
#: Share of a point's time that a bound by thinning may take where the search has left none.
THINNING_SHARE = 0.05
#: Newton steps towards a leakage budget at most, and the width in nats that is left to none.
BUDGET_STEPS, BUDGET_WIDTH = 60, 1e-9
#: A budget is met when this share of the gap, or of the budget if that is less, is left of it;
UNSPENT = 0.05
#: steps aim this share of the gap below it, so that the last one ends inside it.
AIM_BELOW = 0.01
#: Distances above a disclosure at which a line that rises is looked for: the first, the factor, the last; in nats.
FIRST_RISE, RISE_FACTOR, LAST_RISE = 1e-6, 10.0, 0.1
#: A line that rises by less than this per nat bounds no disclosure.
LEAST_SLOPE = 1e-6
#: The share of the gap to which such a line is proved.
RISING = 0.9


@functools.cache
def load_kernels() -> None:
    """Compile the search's kernels, or read them from numba's cache: no time limit should pay for that.

    Closing the gap of a small problem and refining its channel calls each of them with the types that any problem uses.
    """
    problem = Problem([[0.3, 0.2, 0.1], [0.05, 0.1, 0.25]])
    limits = Limits(nodes=1000)
    search = Search(problem, np.random.default_rng(0), limits)
    search.close(0.5 * problem.disclosure_ceiling, 1e-3, by_line=True)
    search.channel(0.5 * problem.disclosure_ceiling)


def _named(certificate: Certificate | None) -> str:
    """What kind of proof a certificate is, for people."""
    if certificate is not None and isinstance(certificate.proofs[0], ThinProof):
        return "thinning"
    return "certificate" if certificate is None or certificate.coarsening is None else "coarsened certificate"


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
        seconds = FREE_SHARE * options.time_limit
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
        most = supported.BORROWED * each if self.borrows else each
        seconds = min(most, (self.total * each - self.clock.elapsed()) / points)
        # A channel of a large table takes its time, too, once it has been found.
        seconds -= min(channel_seconds(self.problem), LATEST_SHARE * seconds)
        return Limits(max(share * seconds, SHORTEST_LIMIT), nodes=self.options.node_limit)

    def warm(self, disclosures: list[float]) -> None:
        """Fill the pool from the easy end of the curve, so that the hard end starts with good posteriors."""
        seconds = min(1.0, WARM_SHARE * len(disclosures)) * self.options.time_limit
        self.search.limits = Limits(seconds, nodes=self.options.node_limit)
        if len(disclosures) > 1:
            todo = sorted(filter(self._open, disclosures), reverse=True)
            for disclosure in todo[:: max(1, math.ceil(len(todo) / WARM_POINTS))]:
                self.search.improve(disclosure, rounds=WARM_ROUNDS, threshold=-self.options.gap)

    def _open(self, disclosure: float) -> bool:
        """Whether perfect privacy does not answer for this disclosure."""
        return disclosure > self.free.disclosure + AT_R0

    def answer(self, disclosure: float) -> Answer:
        """The answer for one disclosure."""
        started = time.perf_counter()
        before = self.search.nodes
        if not self._open(disclosure):
            channel = share_down(self.problem, self.free.channel, disclosure)
            answer = Answer(channel=channel, status=Status.OPTIMAL, slope=0.0, message="perfect privacy")
        else:
            limits = self._limits(LARGE_SHARE if self.large else 1.0)
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

    def _close(self, disclosure: float, seeds: bool) -> Outcome:
        """Close the gap at one disclosure, as far as limits allow; ``seeds``: AEM begins."""
        if self.hurries:
            self.search.hurry(disclosure, self.seed)
        elif seeds and interior.pays(self.problem):
            self.search.approach(disclosure, self.options.gap)
        elif seeds:
            self.search.seed(disclosure)
        return self.search.close(disclosure, self.options.gap, self._tell(disclosure))

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
        nodes = min(self.options.node_limit, COARSE_NODES)
        share = (1.0 - LARGE_SHARE) / LARGE_SHARE if self.large else COARSE_SHARE
        limits = Limits(max(own.left(), share * own.seconds), own.clock, nodes=nodes)
        if limits.seconds < ENTRY_SECONDS * self.problem.n_x**2:
            return  # setting up one search takes longer
        for line in coarse_lines(self.problem, disclosure, COARSE_GAPS * gap, limits, rng):
            try:
                line.verify(self.problem)
            except (CertificateError, MissingExtraError):
                continue  # rounded unluckily when merged, or too large to check without numba: do without this bound
            self.search.lines.append(line)

    def _near(self, disclosure: float, value: float) -> bool:
        """Whether the bound is so close to the value, in nats, that coarser proofs are not tried."""
        left = value - self.search.bound(disclosure)[0]
        return left <= max(HOPELESS_SHARE * value, HOPELESS_GAPS * self.options.gap)

    def _thin(self, disclosure: float) -> None:
        """Add the line by thinning at a disclosure, where there is one."""
        line = thinning_line(self.problem, disclosure, self._thinning_deadline())
        if line is not None:
            self.search.lines.append(line)

    def _thinning_deadline(self) -> Deadline:
        own = self.search.limits
        return Deadline(max(own.left(), THINNING_SHARE * own.seconds), own.clock)

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
        """Newton's method on the convex L(R) = budget: each point is closed, its slope leads to the next."""
        started = time.perf_counter()
        gap = self.options.gap
        most_free, status = None, Status.OPTIMAL
        if budget <= 0.0:
            most_free = self._seek_free()
            status = Status.OPTIMAL if self.free.proved else Status.TIME_LIMIT
        low, high = self.free.disclosure, self.problem.disclosure_ceiling - FEASIBILITY
        channel = self.free.channel
        above: Channel = channels.identity(self.problem.n_x)
        guess = min(high, max(low, self.problem.h_x_given_s + budget))
        self.search.limits = self._limits()
        for _ in range(BUDGET_STEPS):
            if high - low <= BUDGET_WIDTH or budget <= 0.0:
                break
            outcome = self._close(guess, self.large)  # smaller tables have the posteriors of the step before
            slope, status = outcome.duals.slope, outcome.status
            refined = self.search.channel(guess)  # it may leak less than the program's value says
            value = self.problem.evaluate(refined).leakage
            if value <= budget:
                low, channel = guess, refined
                if budget - value <= UNSPENT * min(gap, budget):
                    break
            else:
                high, above = guess, refined
            if status is not Status.OPTIMAL:
                channel = spend(self.problem, channel, above, budget)
                break
            guess += (budget - AIM_BELOW * gap - value) / slope if slope > 0.0 else math.inf
            if not low < guess < high:
                guess = 0.5 * (low + high)
        if status is not Status.OPTIMAL and budget > 0.0:
            self.search.lines.extend(ceiling_lines(self.problem, low, budget, self._thinning_deadline()))
        certificate = self._ceiling(low, budget)
        return Answer(
            channel=channel,
            status=status,
            slope=1.0 if certificate is None else certificate.slope,
            certificate=certificate,
            bound_source=_named(certificate),
            steps=self.search.nodes,
            seconds=time.perf_counter() - started,
            message=f"{self.search.master.n_columns} posteriors, {self.search.nodes} boxes",
            most_free=most_free,
        )

    def _seek_free(self) -> float:
        """Look for more that is free, where there may be; return what nothing free exceeds, in nats."""
        if self.free.proved:
            return self.free.upper
        seconds = SOUGHT_SHARE * self.options.time_limit
        found = free_disclosure(self.problem, seed=self.seed, seconds=seconds)
        upper = min(found.upper, self.free.upper)
        best = found if found.disclosure > self.free.disclosure else self.free
        self.free = replace(best, upper=max(upper, best.disclosure))
        return self.free.upper

    def _ceiling(self, disclosure: float, budget: float) -> Certificate | None:
        """A line that rises through the budget next to ``disclosure``: L(R) ≥ c + μR gives R ≤ (budget − c)/μ."""
        closed_form = min(self.problem.disclosure_ceiling, self.problem.h_x_given_s + budget)
        if disclosure >= closed_form - self.options.gap:
            return None  # the closed form says it
        step = FIRST_RISE
        ceiling = self.problem.disclosure_ceiling
        while step < LAST_RISE and disclosure + step < ceiling and not self.search.limits.passed():
            outcome = self.search.close(disclosure + step, RISING * self.options.gap, by_line=True)
            if outcome.status is not Status.OPTIMAL or outcome.duals.slope > LEAST_SLOPE:
                break
            step *= RISE_FACTOR
        rising = [line for line in self.search.lines if line.slope > 0.0]
        return min(rising, key=lambda line: (budget - line.intercept) / line.slope, default=None)
