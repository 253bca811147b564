"""The solver of tables with two private symbols: every point proved, at any number of public symbols."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.binary.funnel import Bracket, ClassOracle, Support, Target, bracket, mixed
from privfunnel.algorithms.binary.proof import ALL_PAIRS, CLAIMS, pairs_proof, prove
from privfunnel.algorithms.binary.table import binary_table
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.options import check_positive, check_seconds
from privfunnel.certificate import Certificate, PlainBody
from privfunnel.certificate.answer import DEFAULT_GAP, Answer, Status
from privfunnel.errors import CertificateError
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import Quantity

#: How far apart the search lets value and tangent be, in nats: as close as double precision allows.
SEARCH_GAP = 1e-12
#: The slope of the line that bounds what a budget of 0 buys.
FIRST_SLOPE = 1e-4


@functools.cache
def load_kernels() -> None:
    """Compile the kernels, or read them from numba's cache."""
    rates = np.linspace(0.1, 0.9, 6)
    problem = Problem(np.stack([1.0 - rates, rates]) / 6.0)
    run = Run(problem)
    found = bracket(run.curve, Target(Quantity.DISCLOSURE, 0.8 * run.curve.h_t), 1e-3, run.known)
    run.certificate(found.best, crossings=True)


class Run:
    """One run on one problem with two private symbols: the points of a trace share slopes and certificates."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.table = binary_table(problem.p_sx)
        self.curve = ClassOracle(self.table)
        self.within = max(problem.disclosure_ceiling - self.curve.h_t, 0.0)  # H(X|class) costs nothing
        self.known: list[Support] = []
        self.proved: dict[float, Certificate | None] = {}

    def answer(self, disclosure: float, deadline: Deadline = NEVER) -> Answer:
        """Least leakage at ``disclosure`` nats."""
        started = time.perf_counter()
        wanted = min(disclosure - self.within, self.curve.h_t)
        found = bracket(self.curve, Target(Quantity.DISCLOSURE, wanted), SEARCH_GAP, self.known, deadline)
        answer = self._answer(found, found.best, started, deadline)
        have = self.problem.evaluate(answer.channel).disclosure
        if found.share <= 0.0 and have > disclosure:  # up to R0: the rest of the time nothing is released
            return self._shared_down(answer, disclosure / have)
        return answer

    def spend(self, leakage: float, deadline: Deadline = NEVER) -> Answer:
        """Most disclosure within ``leakage`` nats."""
        started = time.perf_counter()
        found = bracket(self.curve, Target(Quantity.LEAKAGE, leakage), SEARCH_GAP, self.known, deadline)
        if not any(0.0 < support.slope < 1.0 for support in self.known) and not deadline.passed():
            self.known.append(self.curve.at(FIRST_SLOPE))
        rising = [support for support in self.known if support.slope > 0.0]

        def ceiling(support: Support) -> float:
            return support.point.disclosure + (leakage - support.point.leakage) / support.slope

        return self._answer(found, min(rising, key=ceiling), started, deadline)

    def certificate(self, support: Support, *, crossings: bool) -> Certificate | None:
        """The proof of a support's tangent, or None where rounding keeps the checker from confirming it."""
        if support.slope not in self.proved:
            self.proved[support.slope] = self._certify(support, crossings=crossings)
        return self.proved[support.slope]

    def _certify(self, support: Support, *, crossings: bool) -> Certificate | None:
        classes, n = self.curve.classes, self.table.n_classes
        prices = prove(classes, support.prices, support.slope) if support.slope > 0.0 else None
        if prices is None:
            return None
        members = self.table.class_of
        cells = None if n == self.problem.n_x else members.astype(np.int32)
        for claim in CLAIMS:
            proof = pairs_proof(classes, prices, support.slope, claim, crossings=crossings)
            made = PlainBody.build(self.problem, prices[members], support.slope, [proof], cells=cells)
            try:
                made.verify(self.problem)
            except CertificateError:
                continue  # the checker's rounding allowance is its own: claim a little less
            return made
        return None

    def _answer(self, found: Bracket, line: Support, started: float, deadline: Deadline) -> Answer:
        release = mixed(self.table, found)
        return Answer(
            channel=channels.as_held(release.channel(self.problem.n_x)),
            status=Status.TIME_LIMIT if deadline.passed() else Status.OPTIMAL,
            slope=found.best.slope,
            certificate=self.certificate(line, crossings=self.table.n_classes > ALL_PAIRS),
            bound_source="pairs",
            steps=found.tried,
            seconds=time.perf_counter() - started,
            message=f"{self.table.n_classes} classes, {found.tried} slopes",
        )

    def _shared_down(self, answer: Answer, share: float) -> Answer:
        channel: Channel = answer.channel
        nothing = np.full((self.problem.n_x, 1), 1.0 - share)
        if isinstance(channel, np.ndarray):
            channel = np.hstack([share * channel, nothing])
        else:
            channel = sparse.csc_array(sparse.hstack([share * channel, sparse.csc_array(nothing)]))
        return Answer(channel=channel, status=Status.OPTIMAL, slope=0.0, message="perfect privacy")


@dataclass(frozen=True, kw_only=True)
class Binary(TimeLimited):
    """The exact curve of a table with two private symbols, by slopes: each optimum is a staircase of pairs.

    It is found and proved in time that grows with M log M: see docs/math-binary.md. A trace shares slopes among its
    points, and a leakage budget is spent exactly. Nothing is random. Other tables are refused.

    Attributes:
        gap: Leakage, or within a budget disclosure, and proved bound are to be within this, in nats; leakages end
            within some 1e-12, more from 10⁵ classes on, where the rounding of a sum counts.
        time_limit: Seconds for one answer; it is needed without numba, where some thousand classes take minutes.
    """

    name: ClassVar[str] = "binary"
    proves: ClassVar[bool] = True
    n_s: ClassVar[int | None] = 2

    gap: float = DEFAULT_GAP

    def __post_init__(self) -> None:
        check_positive(self.name, gap=self.gap)
        check_seconds(self.name, self.time_limit)

    @property
    def target_gap(self) -> float:
        """The gap in nats at which an answer counts as proved optimal."""
        return self.gap

    def warm_up(self) -> None:
        """Compile the kernels, or read them from the cache."""
        load_kernels()

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """One answer a disclosure, in the order given."""
        wanted = [float(r) for r in disclosures]
        if problem.n_s != self.n_s:
            yield from (_refused(problem) for _ in wanted)
            return
        run = Run(problem)
        for i, disclosure in enumerate(wanted):
            yield run.answer(disclosure, Deadline(self.time_limit))
            if progress is not None:
                progress(Progress(done=i + 1, total=len(wanted), message=f"R = {disclosure:.4f} nats"))

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Most disclosure within ``leakage`` nats, with a certificate that no channel discloses more."""
        if problem.n_s != self.n_s:
            return _refused(problem)
        deadline = Deadline(self.time_limit)
        return Run(problem).spend(leakage, deadline)


def _refused(problem: Problem) -> Answer:
    message = f"binary needs two private symbols, this table has {problem.n_s}: use solver='auto'"
    return Answer(channel=channels.constant(problem.n_x), status=Status.FAILED, message=message)
