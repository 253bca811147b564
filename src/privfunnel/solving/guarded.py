"""Guarded funnels by the quickest way: their ends, strata by themselves, the plain funnel's release, or a search."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from privfunnel.algorithms import guarded_too_large as unsearched
from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.binary.stratified import is_for, solve_strata
from privfunnel.algorithms.columns.general import Guarded
from privfunnel.algorithms.columns.general.master import TooLateError, begins_in
from privfunnel.algorithms.options import taken_over
from privfunnel.certificate.answer import USELESS, Answer, Status
from privfunnel.measures import Array
from privfunnel.model.equal_symbols import Lumping
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.model.seen_alike import class_posteriors, guarded_lumping
from privfunnel.reductions.guarded_classes import SeenAlike
from privfunnel.reductions.plain_classes import carried
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.ends import closed_form, itself
from privfunnel.solving.judging import Line
from privfunnel.solving.plain_first import SEARCHED_UP_TO, Floor, plain_floor
from privfunnel.solving.plan import PLAN
from privfunnel.solving.solution import posteriors_of


@dataclass(frozen=True)
class GuardedWay(Way):
    """Attackers who know something, published columns, guarantees for every output, and other measures."""

    solver: Guarded
    name = Guarded.name
    warm = True

    @classmethod
    def of(cls, chosen: Solver | Guarded, named: Collection[str], where: str) -> GuardedWay:
        """With the gap and the limits of ``chosen``."""
        return cls(taken_over(Guarded, chosen, named, where))

    @property
    def gap(self) -> float:
        """The solver's, in nats."""
        return self.solver.gap

    def answer(self, question: Question, how: Asking) -> Found:
        """An answer for classes that everybody sees alike, and what the plain funnel proves where it was asked."""
        reduction = SeenAlike(guarded_lumping(question.problem, question.guards, how.lump))
        inner = reduction.apply(question)
        started, floor = time.perf_counter(), None
        answer = _end(inner)
        if answer is None and inner.problem.n_x > SEARCHED_UP_TO and is_for(inner):
            answer = solve_strata(inner, self.solver.time_limit)
        if answer is None:
            floor = plain_floor(inner, self.gap, PLAN.floor * self.solver.time_limit, how.seed)
            answer = None if floor is None else _enough(inner, floor, self.gap)
        if answer is None:
            left = self.solver.time_limit - (time.perf_counter() - started)
            hurried = dataclasses.replace(
                self.solver, time_limit=max(left, PLAN.search * self.solver.time_limit)
            )
            answer = _searched(inner, hurried, how, floor, posteriors(reduction.classes, how))
        return Found(reduction.invert(answer, question), _plain_line(reduction.classes, floor))


def posteriors(classes: Lumping, how: Asking) -> Array | None:
    """p(t|y) of the releases that were found before, of the classes t, shape (n, C); None where there are none."""
    usable = [s for s in how.before if s.status not in USELESS]
    if not usable:
        return None
    if classes.trivial:
        return posteriors_of(classes.problem, usable)
    return np.concatenate([class_posteriors(classes, s.channel) for s in usable])


def _plain_line(classes: Lumping, floor: Floor | None) -> tuple[Line, ...]:
    """What the plain funnel proves of the members, verified; empty where it was not asked."""
    line = None if floor is None else carried(classes, floor.certificate)
    if line is None:
        return ()
    if not classes.trivial:
        line.verify(classes.problem)
    return (Line(line),)


def _end(question: Question) -> Answer | None:
    """What needs no search: nothing beyond what is published, and X itself."""
    problem, guards = question.problem, question.guards
    least = guards.nothing(problem)
    if question.names_place and question.disclosure <= problem.evaluate(least).disclosure + FEASIBILITY:
        return Answer(channel=least, status=Status.OPTIMAL, slope=0.0)
    whole = itself(problem, guards)
    if whole is None:
        return None
    if question.names_place:
        enough = question.disclosure >= problem.disclosure_ceiling - FEASIBILITY
    else:
        enough = guards.overspent(guards.leakages(problem, whole), question.budget) <= 0.0
    return Answer(channel=whole, status=Status.OPTIMAL) if enough else None


def _enough(question: Question, floor: Floor, gap: float) -> Answer | None:
    """The plain funnel's release where it is good enough against everybody, and its bound says that none is better."""
    problem, guards = question.problem, question.guards
    if not guards.allow(problem, floor.channel):
        return None
    values = question.values(floor.channel)
    if question.names_place:
        wanted = question.disclosure
        lower = max(floor.lower_bound(wanted), float(closed_form(problem, guards, wanted)))
        good = values.disclosure >= wanted - FEASIBILITY and values.leakage - lower <= gap
    else:
        most = min(floor.most_disclosure(question.budget), problem.disclosure_ceiling)
        good = question.within(values) and most - values.disclosure <= gap
    if not good:
        return None
    return Answer(
        channel=floor.channel, status=Status.OPTIMAL, slope=floor.slope, message="the plain funnel's release"
    )


def _searched(
    question: Question, solver: Guarded, how: Asking, floor: Floor | None, pool: Array | None
) -> Answer:
    """What the search finds, from the posteriors of the pool on, no further than what the plain funnel proves."""
    problem, guards = question.problem, question.guards
    if problem.n_x > unsearched.MOST_SEARCHED or not begins_in(problem, solver.time_limit):
        return unsearched.without_search(question, solver.time_limit, how.seed)
    least = -math.inf
    if floor is not None and question.names_place:
        least = guards.measure.average(floor.lower_bound(question.disclosure))
    elif floor is not None:
        least = problem.disclosure_ceiling - floor.most_disclosure(question.budget)
    if floor is not None and not guards.guarantees:  # which say what posteriors are allowed
        own = floor.posteriors(problem)
        pool = own if pool is None else np.concatenate([pool, own])
    try:
        return solver.answer(
            question,
            seed=how.seed,
            progress=how.progress,
            pool=pool,
            least=least,
        )
    except TooLateError:
        return unsearched.without_search(question, PLAN.late * solver.time_limit, how.seed)
