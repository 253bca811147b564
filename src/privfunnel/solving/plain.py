"""The plain funnel: one attacker who knows nothing, asked of classes of public symbols by any of the plain solvers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from privfunnel.algorithms.base import Solver
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InvalidInputError
from privfunnel.infra.watching import Listener
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.equal_symbols import Lumping, chosen_lumping
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, Quantity, Question
from privfunnel.reductions.plain_classes import EqualSymbols
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.ends import end_of_curve
from privfunnel.solving.free_disclosure import (
    FREE,
    free_certificate,
    is_whole,
    keep_to,
    within_classes,
    without_silence,
)

#: An answer that misses what was asked for by less than this, in nats, is repaired.
REPAIRABLE = 1e-4
#: Public symbols up to which what is free is searched for the proof of a release that leaks nothing.
SMALL = 64


@dataclass(frozen=True)
class PlainWay(Way):
    """A plain solver, for the least leakage at a disclosure or the most disclosure within a budget."""

    solver: Solver

    @property
    def name(self) -> str:  # type: ignore[override]
        """The solver's."""
        return self.solver.name

    @property
    def gap(self) -> float:
        """The solver's."""
        return self.solver.target_gap

    def classes(self, problem: Problem, lump: bool | None) -> Lumping:
        """The classes that the solver gets; each symbol its own where they are trivial."""
        return chosen_lumping(problem, False if self.solver.by_columns else lump)

    def answer(self, question: Question, how: Asking) -> Found:
        """The solver's answer for the classes, repaired where rounding kept it from what was asked, for the members."""
        keep_to(question.problem, getattr(self.solver, "time_limit", math.inf))
        classes = self.classes(question.problem, how.lump)
        whole = question.names_place and is_whole(question.problem, self.solver)
        reduction = EqualSymbols(classes, whole)
        inner = reduction.apply(question)
        free = within_classes(classes, question.disclosure, self.solver, how.seed) if whole else None
        answer = free or self._solved(inner, how.seed, how.progress)
        if not self.solver.free_only and answer.status is not Status.FAILED:
            with contextlib.suppress(InvalidInputError):  # of what is no channel the judge says what is wrong
                answer = repaired(inner, answer)
                answer = without_silence(inner.problem, answer) if whole else answer
        return Found(with_free(question, reduction.invert(answer, question)))

    def _solved(self, inner: Question, seed: int, progress: Listener | None) -> Answer:
        """What the solver says of the classes, unless it is an end of the curve."""
        problem = inner.problem
        if inner.goal is Quantity.LEAKAGE:
            end = end_of_curve(problem, inner.disclosure)
            return end or self.solver.solve(problem, inner.disclosure, seed=seed, progress=progress)
        if inner.budget < problem.leakage_ceiling:
            return self.solver.solve_leakage(problem, inner.budget, seed=seed, progress=progress)
        return Answer(channel=channels.identity(problem.n_x), status=Status.OPTIMAL)

    def trace(self, question: Question, places: Sequence[float], how: Asking) -> Iterator[Found]:
        """The solver's own trace over the classes; what it finds, whatever the place was."""
        keep_to(question.problem, getattr(self.solver, "time_limit", math.inf))
        classes = self.classes(question.problem, how.lump)
        problem = classes.lumped
        inner = sorted({classes.inner(place) for place in places}) if not classes.trivial else list(places)
        inner = [place for place in inner if end_of_curve(problem, place) is None]
        found = self.solver.trace(problem, inner, seed=how.seed, progress=how.progress) if inner else iter(())
        for answer in found:
            yield Found(EqualSymbols(classes).invert(answer, None))


def repaired(question: Question, answer: Answer) -> Answer:
    """The answer, time-shared with X itself where it discloses too little, or with nothing where it leaks too much.

    What can be asked for can be had: that rounding kept a solver from it is no reason to refuse it. A channel that
    misses it by more than rounding can explain is left as it is, and judged.
    """
    problem, point = question.problem, question.problem.evaluate(answer.channel)
    other: Channel
    if FEASIBILITY < question.disclosure - point.disclosure < REPAIRABLE:
        more = (question.disclosure - point.disclosure) / (problem.disclosure_ceiling - point.disclosure)
        other = channels.identity(problem.n_x)
    elif FEASIBILITY < point.leakage - question.budget < REPAIRABLE:
        more, other = 1.0 - question.budget / point.leakage, channels.constant(problem.n_x)
    else:
        return answer
    more = min(more, 1.0)
    return replace(answer, channel=channels.time_share([answer.channel, other], [1.0 - more, more]))


def with_free(question: Question, answer: Answer) -> Answer:
    """Where nothing may leak, the answer with the proof of what is free, unless its own says no less of it.

    It is searched for on small tables, and where it is known.
    """
    problem, own = question.problem, answer.certificate
    if question.budget > 0.0 or (own is not None and own.claim.scope.zero):
        return answer
    if problem.n_x > SMALL and problem.n_s > 2 and FREE not in vars(problem):
        return answer
    free = free_certificate(problem)
    if free is None or (own is not None and own.most_disclosure(0.0) < free.most_disclosure(0.0)):
        return answer
    return replace(answer, certificate=free)
