"""Records for records: the least leakage at a distortion, or the least distortion within a leakage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.distortion import DistortionFunnel
from privfunnel.algorithms.distortion.work import CLOSE, Work
from privfunnel.algorithms.options import taken_over
from privfunnel.model.question import Quantity, Question
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.judging import Line


@dataclass(frozen=True)
class RecordsWay(Way):
    """The distortion funnel."""

    solver: DistortionFunnel
    name = DistortionFunnel.name

    @classmethod
    def of(cls, chosen: Solver | DistortionFunnel, named: Collection[str], where: str) -> RecordsWay:
        """With the gap and the limits of ``chosen``."""
        return cls(taken_over(DistortionFunnel, chosen, named, where))

    @property
    def gap(self) -> float:
        """The solver's, in nats."""
        return self.solver.gap

    def tolerance(self, question: Question) -> float:
        """Of distortion, a share of the largest cost."""
        return max(self.gap, CLOSE) if question.goal is Quantity.DISTORTION else self.gap

    def answer(self, question: Question, how: Asking) -> Found:
        """The answer at the distortion asked for, or the mixture of two that meets the budget."""
        work, deadline = self.work(question), Deadline(self.solver.time_limit)
        if question.goal is Quantity.LEAKAGE:
            return Found(work.at(question.distortion, deadline).answer())
        every = list(work.within(question.budget, deadline))
        lines = [each.step.certificate for each in every]
        for line in lines:
            if line is not None:
                line.verify(question.problem)
        return Found(every[-1].answer(), tuple(Line(line) for line in lines if line is not None))

    def trace(self, question: Question, places: Sequence[float], how: Asking) -> Iterator[Found]:
        """Answers at distortions, in the order given."""
        work = self.work(question)
        for place in places:
            yield Found(work.at(place, Deadline(self.solver.time_limit)).answer(), place=place)

    def work(self, question: Question) -> Work:
        """What all points of a question's curve share."""
        assert question.costs is not None
        work = Work(
            question.problem, question.costs, question.invariant, self.solver.gap, self.solver.max_steps
        )
        work.check()
        return work

    def ends(self, question: Question) -> tuple[float, float]:
        """The least distortion, and that at which nothing leaks or, where that is forbidden, changes no longer help."""
        work = self.work(question)
        if work.free is not None:
            return work.least, max(work.free[0], work.least)
        most = work.at(work.dearest)
        # A curve that cannot come down to 0 ends this many nats above the least leakage.
        *_, last = work.within(most.leakage + 1e-6, NEVER)
        return work.least, last.distortion
