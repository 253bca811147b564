"""Task funnels against who knows nothing: least leakage at a utility, most utility within a leakage."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.columns.general import Guarded
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.options import taken_over
from privfunnel.algorithms.task import TaskFunnel
from privfunnel.algorithms.task.search import all_utility
from privfunnel.certificate.answer import Answer, Status
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.coupling import couple
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.reductions.task_cells import classes
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.guarded_task import GuardedTaskWay
from privfunnel.solving.plan import PLAN


@dataclass(frozen=True)
class TaskWay(Way):
    """The interior-point method for a task."""

    solver: TaskFunnel
    name = TaskFunnel.name

    @classmethod
    def of(cls, chosen: Solver | TaskFunnel, named: Collection[str], where: str) -> TaskWay:
        """With the gap and the limits of ``chosen``."""
        return cls(taken_over(TaskFunnel, chosen, named, where))

    @property
    def gap(self) -> float:
        """The solver's, in nats."""
        return self.solver.gap

    def answer(self, question: Question, how: Asking) -> Found:
        """The answer; by the guarded search where alike symbols disclose too little of what is asked besides."""
        deadline = Deadline(self.solver.time_limit)
        answer = self._alone(question, how)
        if question.disclosure <= 0.0:
            return Found(answer)
        wide = _disclosing(question.problem, answer.channel, question.disclosure)
        if wide is not None:
            return Found(dataclasses.replace(answer, channel=wide))
        left = max(deadline.left(), PLAN.regarding * self.solver.time_limit)
        other = GuardedTaskWay(Guarded(gap=self.gap, time_limit=left))
        return other.answer(question, how)._replace(by=other.name)

    def _alone(self, question: Question, how: Asking) -> Answer:
        """An answer without regard to the disclosure."""
        problem, solver = question.problem, self.solver
        end = _end(question)
        if end is not None:
            return end
        if question.disclosure > 0.0:  # the rest of the time is for a search that discloses enough
            solver = dataclasses.replace(solver, time_limit=PLAN.disregarding * solver.time_limit)
        if question.names_place:
            return solver.solve(problem, question.utility, progress=how.progress)
        if question.budget > 0.0:
            return solver.solve_leakage(problem, question.budget, progress=how.progress)
        return solver.free(problem, progress=how.progress)

    def trace(self, question: Question, places: Sequence[float], how: Asking) -> Iterator[Found]:
        """Answers at utilities, with the ends of the curve as they are."""
        ends = [_end(question.at(place)) for place in places]
        inner = [place for place, end in zip(places, ends, strict=True) if end is None]
        answers = self.solver.trace(question.problem, inner, progress=how.progress) if inner else iter(())
        for place, end in zip(places, ends, strict=True):
            yield Found(next(answers) if end is None else end, place=place)


def _end(question: Question) -> Answer | None:
    """What needs no search: nothing, and all that the task can use."""
    problem = question.problem
    if question.names_place and question.utility <= FEASIBILITY:
        return Answer(channel=channels.constant(problem.n_x), status=Status.OPTIMAL, slope=0.0)
    whole = all_utility(problem)
    if question.names_place:
        enough = question.utility >= problem.utility_ceiling - FEASIBILITY
    else:
        enough = question.budget < math.inf and whole.leakage <= question.budget
    return Answer(channel=whole.table, status=Status.OPTIMAL) if enough else None


def _disclosing(problem: Problem, channel: Channel, disclosure: float) -> Channel | None:
    """A channel with the same leakage and utility that discloses ``disclosure`` nats; None where it costs more.

    Members of a class with the same p(s|x) and p(u|x) may be released with the output: see
    :mod:`privfunnel.model.equal_symbols`. That is all that is free.
    """
    have = problem.evaluate(channel).disclosure
    if have >= disclosure - FEASIBILITY:
        return channel
    of = classes(problem).of
    first = np.unique(of, return_index=True)[1]
    rows = channel if isinstance(channel, np.ndarray) else channel.tocsr()
    wide: Channel = channels.as_held(couple(of, problem.p_x, rows[first]).channel)
    return wide if problem.evaluate(wide).disclosure >= disclosure - FEASIBILITY else None
