"""What all ways to an answer have in common, whatever is asked: one question in, an answer and its proofs out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from privfunnel.certificate.answer import Answer
from privfunnel.infra.watching import Listener
from privfunnel.model.equal_symbols import Lumping
from privfunnel.model.problem import Problem
from privfunnel.model.question import Question
from privfunnel.solving.judging import Line
from privfunnel.solving.solution import Solution


class Found(NamedTuple):
    """An answer, and what else is proved of its question.

    Attributes:
        answer: The answer; the judge verifies its proof.
        lines: Proofs besides its own, verified before.
        by: The name of the algorithm that answered, where it is another than the one that was asked.
        place: The place that it was asked for in a trace; None for a point that a sweep reached.
    """

    answer: Answer
    lines: tuple[Line, ...] = ()
    by: str = ""
    place: float | None = None


class Asking(NamedTuple):
    """How a question is asked.

    Attributes:
        seed: Fixes all randomness.
        progress: Called with news; None where nobody listens.
        lump: True or False to solve classes of symbols or every symbol; None leaves it to the size of the table.
        before: Solutions of other points of the same curve, whose posteriors a search may begin with.
    """

    seed: int = 0
    progress: Listener | None = None
    lump: bool | None = None
    before: tuple[Solution, ...] = ()


class Way(ABC):
    """An algorithm behind the door that all of them share."""

    #: What solutions call it.
    name: str
    #: Whether it begins with what other points of a curve found, so that a curve asks it place by place.
    warm: ClassVar[bool] = False

    @property
    @abstractmethod
    def gap(self) -> float:
        """The gap at which an answer is proved optimal, in nats."""

    def classes(self, problem: Problem, lump: bool | None) -> Lumping | None:
        """The classes whose channels its answers hold; None where they are channels of the symbols."""
        return None

    def tolerance(self, question: Question) -> float:
        """The gap at which an answer to this question is proved optimal, in units of :attr:`Question.scale`."""
        return self.gap

    @abstractmethod
    def answer(self, question: Question, how: Asking) -> Found:
        """An answer to the question."""

    def trace(self, question: Question, places: Sequence[float], how: Asking) -> Iterator[Found]:
        """Answers that draw the curve over some places along the question's axis; a sweep yields what it reaches."""
        for place in places:
            yield self.answer(question.at(place), how)._replace(place=place)
