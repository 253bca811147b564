"""Questions made of others: smaller ones, or ones that an algorithm is for, whose answers become answers of the first.

A :class:`Reduction` is applied to a question and inverted for an answer, whose proof comes back where nothing was lost.
Public symbols that are alike become one: in p(s|x) (``equal_symbols``), to all attackers besides (``seen_alike``), to a
task besides (``task_alike``, on ``cells`` where there are too many). A release that follows others is one of pairs, of
which one half is published (``following``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from privfunnel.certificate.answer import Answer
from privfunnel.model.question import Question


class Reduction(ABC):
    """A way from a question to another one, and back from its answers."""

    @abstractmethod
    def apply(self, question: Question) -> Question:
        """The other question."""

    @abstractmethod
    def invert(self, answer: Answer, question: Question | None) -> Answer:
        """An answer to the other question as one to this; without its proof where that does not hold here.

        Args:
            answer: What was answered.
            question: The question that was reduced; None for a point of a sweep, which answers no single question.
        """
