"""Public symbols with the same p(s|x) as one: nothing is lost against an attacker who knows nothing.

See :mod:`privfunnel.model.equal_symbols` for the proof: L_X(R) = L_T(max(0, R − H(X|T))), nats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import Answer
from privfunnel.errors import CertificateError
from privfunnel.model.equal_symbols import ClassChannel, Lumping
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.reductions import Reduction


@dataclass(frozen=True, eq=False)
class EqualSymbols(Reduction):
    """A plain question about classes of symbols.

    Attributes:
        classes: The classes; each symbol its own where they are trivial.
        whole: Whether members are released always, also where less was asked for than they disclose, unless nothing.
    """

    classes: Lumping
    whole: bool = False

    def apply(self, question: Question) -> Question:
        """The question about the classes: H(X|T) of the disclosure is what their members have."""
        disclosure = self.classes.inner(question.disclosure)
        return replace(question, problem=self.classes.lumped, disclosure=disclosure)

    def invert(self, answer: Answer, question: Question | None) -> Answer:
        """An answer for the classes as one for their members: H(X|T) more disclosure at the same leakage."""
        classes = self.classes
        if classes.trivial:
            return answer
        # Below H(X|T) the members alone disclose more than was asked for: release them only some of the time.
        most = min(FEASIBILITY, classes.h_within) if self.whole else classes.h_within
        share = 1.0
        if question is not None and question.names_place and question.disclosure < most:
            share = question.disclosure / classes.h_within
        proof = carried(classes, answer.certificate)
        return replace(answer, channel=ClassChannel(classes, answer.channel, share), certificate=proof)


def of_members(classes: Lumping, proof: Certificate) -> Certificate | None:
    """A proof of what the classes' releases without leakage disclose, as one of their members'; both verified.

    None where classes are equal up to rounding only, which a proof in whole numbers does not take for equal.

    Raises:
        CertificateError: It does not prove of the classes what it claims.
    """
    proof.verify(classes.lumped)
    try:
        carried = proof.on_members(classes.problem, classes.cells)
        carried.verify(classes.problem)
    except CertificateError:
        return None
    return carried


def carried(classes: Lumping, proof: Certificate | None) -> Certificate | None:
    """A plain proof of the classes as one of their members; None for none, and where :func:`of_members` says so."""
    if proof is None or classes.trivial:
        return proof
    if proof.claim.scope.zero:
        return of_members(classes, proof)
    return proof.on_members(classes.problem, classes.cells)
