"""Guarded releases for a task: attackers who know something, guarantees, a disclosure besides."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.columns.general import Guarded
from privfunnel.algorithms.columns.general.task_points import answer_task
from privfunnel.algorithms.options import taken_over
from privfunnel.algorithms.task import TaskFunnel
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InfeasibleError, InvalidInputError, SolverError
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.guarantees import MET
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.reductions.task_classes import TaskAlike, classes_of
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.ends import itself, whole_task
from privfunnel.solving.judging import Line
from privfunnel.solving.plain_first import SEARCHED_UP_TO
from privfunnel.solving.plan import PLAN
from privfunnel.solving.solution import posteriors_of

#: Public symbols up to which a disclosure besides the utility is searched.
MOST_SYMBOLS = 300


@dataclass(frozen=True)
class GuardedTaskWay(Way):
    """The guarded search on points that have p(u|y) behind the posterior, by classes on large tables."""

    solver: Guarded
    name = Guarded.name
    warm = True

    @classmethod
    def of(cls, chosen: Solver | Guarded, named: Collection[str], where: str) -> GuardedTaskWay:
        """With the options of ``chosen``, and the gap of task funnels where none is named."""
        made = taken_over(Guarded, chosen, named, where)
        if made is chosen or "gap" in named:
            return cls(made)
        return cls(dataclasses.replace(made, gap=max(made.gap, TaskFunnel().gap)))

    @property
    def gap(self) -> float:
        """The solver's, in nats of a task of weight 1."""
        return self.solver.gap

    def answer(self, question: Question, how: Asking) -> Found:
        """An end of the curve, or what the search finds."""
        end = _end(question)
        if end is not None:
            return Found(end)
        pool = posteriors_of(question.problem, how.before) if how.before else None
        if question.problem.n_x > SEARCHED_UP_TO:
            return self._of_many(question, how, pool)
        return Found(answer_task(self.solver, question, seed=how.seed, progress=how.progress, pool=pool))

    def _of_many(self, question: Question, how: Asking, pool: Array | None) -> Found:
        """An answer for a table with many public symbols, by classes of them, and what the plain task funnel proves.

        Who knows nothing is among the attackers, and guarantees only take releases away: its bound holds here, too.

        Raises:
            InvalidInputError: A disclosure is asked for besides, which is of the symbols, not of their classes.
        """
        problem, guards, wide = question.problem, question.guards, question.disclosure > 0.0
        if wide and problem.n_x > MOST_SYMBOLS:
            raise InvalidInputError(
                f"a disclosure besides the utility is searched on up to {MOST_SYMBOLS} public symbols, there are "
                f"{problem.n_x}: leave disclosure= out, or take coarser columns"
            )
        started = time.perf_counter()
        usual = guards.measure.is_information and guards.published is None and not guards.attributes
        lines: tuple[Line, ...] = ()
        if usual and question.names_place:
            limited = TaskFunnel(gap=self.gap, time_limit=PLAN.floor * self.solver.time_limit)
            plain = limited.solve(problem, question.utility)
            if plain.certificate is not None:
                plain.certificate.verify(problem)
                lines = (Line(plain.certificate),)
            lower = 0.0 if plain.certificate is None else plain.certificate.lower_bound(question.utility)
            values = question.values(plain.channel)
            enough = values.disclosure >= question.disclosure and values.leakage - lower <= self.gap
            if enough and question.allowed(plain.channel):
                said = "the plain task funnel's release"
                same: Answer = Answer(
                    channel=plain.channel, status=plain.status, slope=plain.slope, message=said
                )
                return Found(same, lines)
        left = self.solver.time_limit - (time.perf_counter() - started)
        hurried = dataclasses.replace(self.solver, time_limit=max(left, PLAN.search * self.solver.time_limit))
        if wide:
            found = answer_task(hurried, question, seed=how.seed, progress=how.progress, pool=pool)
            return Found(found, lines)
        return Found(_by_classes(question, hurried, how, pool, usual=usual), lines)


def _by_classes(
    question: Question, solver: Guarded, how: Asking, pool: Array | None, *, usual: bool
) -> Answer:
    """The search on classes of symbols, or on cells of nearly alike ones, for their members."""
    problem, guards = question.problem, question.guards
    alike = classes_of(problem, guards)
    inner = alike.apply(question)
    begun = [] if pool is None else [_permitted(alike, alike.summed(pool), MET)]
    if usual:
        begun.append(_unguarded(alike, question, solver))
    try:
        if question.utility > alike.problem.utility_ceiling + FEASIBILITY:
            raise InfeasibleError(f"{alike.problem.n_x} groups keep {alike.problem.utility_ceiling:.9g} nats")
        start = np.concatenate(begun) if begun else None
        answer = answer_task(solver, inner, seed=how.seed, progress=how.progress, pool=start)
    except InfeasibleError as error:
        if alike.exact:
            raise
        # What cells of symbols cannot reach their members may.
        raise SolverError(
            f"utility={question.utility:.9g} nats was not reached with {alike.problem.n_x} groups of the "
            f"{problem.n_x} public symbols, which proves nothing of all of them: lower it, or take coarser columns"
        ) from error
    return alike.invert(answer, question)


def _unguarded(alike: TaskAlike, question: Question, solver: Guarded) -> Array:
    """Posteriors (n, classes) of releases that nothing guards and that the guarantees allow all the same.

    Without leakage every output has p(s|y) = p(s), which most guarantees allow: no search has to find that again.
    """
    problem = alike.problem
    funnel = TaskFunnel(gap=solver.gap, time_limit=PLAN.unguarded * solver.time_limit)
    made = [funnel.free(problem)]
    if question.names_place and 0.0 < question.utility < problem.utility_ceiling:
        made.append(funnel.solve(problem, question.utility))
    found = []
    for answer in made:
        p_xy = np.asarray(channels.joint(problem.p_x, answer.channel))
        likely = p_xy.sum(axis=0)
        found.append((p_xy[:, likely > 0.0] / likely[likely > 0.0]).T)
    return _permitted(alike, np.concatenate(found), 0.0)


def _permitted(alike: TaskAlike, listed: Array, most: float) -> Array:
    """Those of the posteriors (n, classes) that no guarantee forbids by more than ``most``.

    Each lies in one stratum of what is published, and guarantees are relative to what everyone knows there.
    """
    kept = np.zeros(len(listed), dtype=np.bool_)
    for stratum in alike.threat.strata(alike.problem):
        for i in np.flatnonzero(listed[:, stratum.x].any(axis=1)):
            own = listed[i, stratum.x]
            kept[i] = all(each.excess(stratum.problem, own) <= most for each in alike.threat.guarantees)
    return np.asarray(listed[kept])


def _end(question: Question) -> Answer | None:
    """What needs no search: nothing beyond what is published, all that the task can use, and X itself.

    Who keeps all of I(U;X) tells symbols with different p(u|x) apart. By data processing no such release leaks less
    than those classes T themselves, to any attacker, and T meets the guarantees where any such release does.
    """
    problem, guards, wide = question.problem, question.guards, question.disclosure
    nothing = guards.nothing(problem)
    least = problem.evaluate(nothing)
    idle = question.names_place and question.utility <= float(least.utility or 0.0) + FEASIBILITY
    if idle and wide <= least.disclosure + FEASIBILITY:
        return Answer(channel=nothing, status=Status.OPTIMAL, slope=0.0)
    if wide >= problem.disclosure_ceiling - FEASIBILITY:
        whole = itself(problem, guards)
        return None if whole is None else Answer(channel=whole, status=Status.OPTIMAL)
    whole = whole_task(problem, guards)
    if whole is None or problem.evaluate(whole).disclosure < wide - FEASIBILITY:
        return None
    if question.names_place:
        enough = question.utility >= problem.utility_ceiling - FEASIBILITY
    else:
        enough = guards.overspent(guards.leakages(problem, whole), question.budget) <= 0.0
    return Answer(channel=whole, status=Status.OPTIMAL) if enough else None
