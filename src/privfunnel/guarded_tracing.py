"""Trace the curve of a guarded funnel: the least leakage to the worst attacker, for every disclosure allowed.

Mixing releases with outputs of their own is linear in every I(S;Y|A), hence convex in the largest of them, and it keeps
every guarantee about outputs: time sharing on the lower convex envelope works as for the plain funnel. Each point
is searched with the posteriors of the points before it, and each certificate counts at all points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privfunnel.amounts import check_disclosure
from privfunnel.certificate import Certificate, GuardedCertificate
from privfunnel.curve import AchievedPoints, Curve, strengthened
from privfunnel.ends import Ends
from privfunnel.errors import InvalidInputError
from privfunnel.guarded_classes import class_posteriors, guarded_lumping
from privfunnel.guarding import judge_guarded, solve_guarded
from privfunnel.lumping import Lumping
from privfunnel.measures import Array
from privfunnel.problem import Point, Problem
from privfunnel.solution import FAILURES, FEASIBILITY, USELESS, Solution, failed, posteriors_of
from privfunnel.solvers.base import Listener, counted
from privfunnel.solvers.guarded import Guarded, GuardedAnswer
from privfunnel.threats import Threat

#: The last point under guarantees asks for so much less than is known to be possible, in nats: a program has room then.
SHORT = 1e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class GuardedPartialCurve:
    """What a run has found so far.

    Attributes:
        problem: The problem.
        threat: Attackers, published columns and guarantees.
        solver: The solver.
        seed: Seed of the run.
        ends: Where the curve begins, and where it ends unless guarantees end it before.
        wanted: The disclosures of the curve in nats, those of the refinements so far included.
        answers: The solutions until now, in the order found.
        limit: The release that discloses most, where guarantees end the curve before X itself.
        complete: True for the last item of a run that was not interrupted.
        throw: Whether what is wrong with an answer raises, or is a status.
        lump: Whether classes are solved; None leaves it to the size of the table.
    """

    problem: Problem
    threat: Threat
    solver: Guarded
    seed: int
    ends: Ends
    wanted: tuple[float, ...] = ()
    answers: tuple[Solution, ...] = ()
    limit: Solution | None = None
    complete: bool = False
    throw: bool = True
    lump: bool | None = None

    @cached_property
    def lumping(self) -> Lumping:
        """The classes that are solved."""
        return guarded_lumping(self.problem, self.threat, self.lump)

    @cached_property
    def found(self) -> tuple[Solution, ...]:
        """Everything that is a release, the one that discloses most included."""
        every = self.answers if self.limit is None else (*self.answers, self.limit)
        return tuple(s for s in every if s.status not in USELESS)

    @property
    def newest(self) -> Solution:
        """The answer that was found last."""
        return self.answers[-1]

    @cached_property
    def achieved(self) -> AchievedPoints:
        """The envelope of what was found and of the ends."""
        points = ((Point(s.disclosure, s.leakage), s.channel, s.status) for s in self.found)
        return AchievedPoints.of(self.ends, points)

    @property
    def posteriors(self) -> Array:
        """p(t|y) of all that was found, of the classes t that are solved, shape (n, C)."""
        if self.lumping.trivial:
            return posteriors_of(self.problem, self.found)
        made = [class_posteriors(self.lumping, s.channel) for s in self.found]
        return np.concatenate([np.zeros((0, self.lumping.n_classes)), *made])

    def curve(self) -> Curve:
        """The curve of everything found: where the run is not complete, up to the largest disclosure reached."""
        reached = max((s.disclosure for s in self.answers), default=0.0)
        wanted = [r for r in self.wanted if self.complete or r <= reached + FEASIBILITY]
        proofs = [
            s.certificate for s in self.found if isinstance(s.certificate, GuardedCertificate | Certificate)
        ]
        gap = self.solver.gap
        return Curve(
            problem=self.problem,
            solutions=tuple(self._point(r, proofs) for r in wanted),
            raw=tuple(sorted(Point(s.disclosure, s.leakage) for s in self.found)),
            solver=self.solver.name,
            seed=self.seed,
            complete=self.complete,
            target_gap=gap,
            threat=self.threat,
            limit=self.limit,
        )

    def _point(self, disclosure: float, proofs: Sequence[GuardedCertificate | Certificate]) -> Solution:
        """The best release found for a disclosure, with the best bound that is proved there."""
        found = self._release(disclosure)
        try:
            return strengthened(found, proofs, self.solver.gap)
        except FAILURES as error:
            if self.throw:
                raise
            return failed(self.problem, found.channel, error, self.solver.name, self.seed, requested=disclosure,
                          threat=self.threat)  # fmt: skip

    def _release(self, disclosure: float) -> Solution:
        """The best release found for a disclosure: its own, or two others that are time-shared."""
        own = next((s for s in self.answers if s.requested == disclosure), None)
        if own is not None and own.status in USELESS:
            return own
        shared = self.achieved.answer(disclosure)
        if own is not None and own.channel is shared.channel:
            return own
        answer = GuardedAnswer(channel=shared.channel, status=shared.status, slope=shared.slope)
        try:
            made = judge_guarded(
                self.problem, self.threat, answer, self.solver.gap, (disclosure, None), self.seed
            )
        except FAILURES as error:
            if self.throw:
                raise
            return failed(self.problem, shared.channel, error, self.solver.name, self.seed, requested=disclosure,
                          threat=self.threat)  # fmt: skip
        # Rounding may have left the envelope a hair above what was found for this very disclosure; a release of more
        # than was asked for, since that is free, is no point of it.
        return made if own is None or own.free_extra > 0.0 or made.leakage <= own.leakage else own


def tracing_guarded(
    start: GuardedPartialCurve,
    *,
    points: int,
    disclosures: Iterable[float | str] | None,
    refine: int,
    progress: Listener | None,
) -> Iterator[GuardedPartialCurve]:
    """Trace the curve and say what has been found after each answer; the last item is complete.

    Args:
        start: What is to be traced.
        points: Number of points, spaced uniformly from the least disclosure to the most.
        disclosures: The disclosures instead, in nats or as texts.
        refine: Number of further points, placed one after the other where the curve bends most.
        progress: Called with news.
    """
    given = None
    if disclosures is not None:
        given = tuple(sorted({check_disclosure(start.problem, value) for value in disclosures}))
        if not given:
            raise InvalidInputError("disclosures is empty: give at least one value in nats")
    return _follow(start, points, given, refine, progress)


def _follow(
    found: GuardedPartialCurve,
    points: int,
    given: tuple[float, ...] | None,
    refine: int,
    progress: Listener | None,
) -> Iterator[GuardedPartialCurve]:
    """Find out where the guarantees end the curve, solve the wanted points, and then those where it bends most."""
    total = (points if given is None else len(given)) + refine
    if found.ends.most is None:
        limit = solve_guarded(found.problem, found.threat, found.solver, (None, None), found.seed,
                              counted(progress, 0, total), throw=found.throw, lumping=found.lumping)  # fmt: skip
        found = replace(found, limit=limit)
    wanted = given or tuple(np.linspace(found.ends.least.disclosure, _most(found), points).tolist())
    found = replace(found, wanted=wanted)
    for disclosure in wanted:
        found = with_point(found, disclosure, progress, total)
        yield found
    for _ in range(refine):
        extra = found.achieved.envelope.bend(found.wanted)
        found = with_point(
            replace(found, wanted=tuple(sorted((*found.wanted, extra)))), extra, progress, total
        )
        yield found
    yield replace(found, complete=True)


def with_point(
    found: GuardedPartialCurve, disclosure: float, progress: Listener | None, total: int
) -> GuardedPartialCurve:
    """What was found, with one more point at a disclosure in nats, searched with all posteriors found before."""
    tell = counted(progress, len(found.answers), total)
    solution = solve_guarded(found.problem, found.threat, found.solver, (disclosure, None), found.seed, tell,
                             throw=found.throw, pool=found.posteriors, lumping=found.lumping)  # fmt: skip
    return replace(found, answers=(*found.answers, solution))


def _most(found: GuardedPartialCurve) -> float:
    """The largest disclosure to ask for, in nats."""
    return found.problem.disclosure_ceiling if found.limit is None else found.limit.disclosure - SHORT
