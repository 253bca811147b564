"""Public symbols with the same p(s|x) that no attacker tells apart better, as one: nothing is lost to any of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from privfunnel.certificate.answer import Answer
from privfunnel.model import channels
from privfunnel.model.equal_symbols import Lumping
from privfunnel.model.question import Question
from privfunnel.model.seen_alike import threat_to
from privfunnel.reductions import Reduction


@dataclass(frozen=True, eq=False)
class SeenAlike(Reduction):
    """A guarded question about classes of symbols; see :func:`privfunnel.model.seen_alike.guarded_lumping`."""

    classes: Lumping

    def apply(self, question: Question) -> Question:
        """The question about the classes, guarded against what its attackers know of these."""
        return replace(
            question,
            problem=self.classes.lumped,
            guards=threat_to(self.classes, question.guards),
            disclosure=self.classes.inner(question.disclosure),
        )

    def invert(self, answer: Answer, question: Question | None) -> Answer:
        """An answer for the classes as one for their members: H(X|T) more disclosure, and the same leakages."""
        classes, proof = self.classes, answer.certificate
        if classes.trivial:
            return answer
        if proof is not None:  # of probabilities, which are equal within rounding only, there is none
            problem, guards = classes.problem, None if question is None else question.guards
            proof = None if problem.counts is None else proof.on_members(problem, classes.cells, guards)
        return replace(answer, channel=channels.as_held(classes.lift(answer.channel)), certificate=proof)
