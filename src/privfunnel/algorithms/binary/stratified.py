"""Published columns and two private symbols: the strata are binary funnels of their own, met at one slope.

Where nothing else is guarded against, I(S;Y|A) = Σ_a p(a) L_a and I(X;A,Y) = H(A) + Σ_a p(a) R_a, nats: the curve of
the whole is supported at slope μ where those of all strata are, and these have staircases and proofs by pairs at any
number of public symbols (docs/math-binary.md). Without leakage the closed form of each stratum is proved by its pairs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.algorithms.binary.expansion import expand
from privfunnel.algorithms.binary.funnel import Bracket, ClassOracle, Support, Target, bracket
from privfunnel.algorithms.binary.pairing import PairRelease, join
from privfunnel.algorithms.binary.proof import ALL_PAIRS, CLAIMS, pairs_proof, prove
from privfunnel.algorithms.binary.solver import FIRST_SLOPE, SEARCH_GAP
from privfunnel.algorithms.binary.table import BinaryTable, Index, binary_table
from privfunnel.algorithms.binary.transport import free_pairs
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.certificate import Certificate, GuardedBody, PairsProof, least_of_private_pairs
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.model import channels
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import Quantity, Question
from privfunnel.model.threat import Stratum, Threat

#: A proof that looks at all pairs names none.
NO_CROSSINGS = np.zeros(0, dtype=np.int32)


#: Slopes of the lines that bound what is free where there are no counts: the curve is flat there, so that small ones
#: tell more, until rounding, which counts by the slope, tells less.
FLAT_SLOPES = (FIRST_SLOPE, 1e-1 * FIRST_SLOPE, 1e-2 * FIRST_SLOPE)
#: Up to this many public symbols a search proves more of what is free than such a line.
SEARCHED_WITHOUT_COUNTS = 128


def is_for(question: Question) -> bool:
    """Whether columns are published, nothing else is guarded against, and two private symbols are left."""
    problem, threat = question.problem, question.guards
    alone = len(threat.attackers) == 1 and threat.published is not None
    plain = not threat.guarantees and not threat.attributes and threat.measure.is_information
    free = question.budget <= 0.0
    by_search = free and problem.counts is None and problem.n_x <= SEARCHED_WITHOUT_COUNTS
    return alone and plain and problem.n_s == 2 and not by_search


class _Part(NamedTuple):
    """One stratum, its classes and their curve, and H(X|class) in nats."""

    stratum: Stratum
    table: BinaryTable
    curve: ClassOracle
    within: float

    @classmethod
    def of(cls, stratum: Stratum) -> _Part:
        p_sx = stratum.problem.p_sx
        if len(p_sx) == 1:  # S is known in this stratum
            p_sx = np.concatenate([p_sx, np.zeros_like(p_sx)])
        table = binary_table(p_sx)
        curve = ClassOracle(table)
        within = max(stratum.problem.disclosure_ceiling - curve.h_t, 0.0)
        return cls(stratum, table, curve, within)

    @property
    def x(self) -> Index:
        """Its symbols, shape (M_a,)."""
        return self.stratum.x

    def support(self, slope: float, deadline: Deadline) -> Support:
        """The stratum's own tangent of this slope; one class is told at any, and leaks nothing."""
        if self.table.n_classes == 1:
            return replace(self.curve.told(), point=Point(0.0, 0.0))
        if slope >= 1.0:
            return self.curve.told()
        return self.curve.free() if slope <= 0.0 else self.curve.at(slope, deadline)


class StrataOracle:
    """The curve I(S;Y|A) of a problem and what is published, by slopes; its releases and prices are of all symbols."""

    def __init__(self, problem: Problem, threat: Threat) -> None:
        self.parts = [_Part.of(each) for each in threat.strata(problem)]
        self.masses = np.array([part.stratum.mass for part in self.parts])
        inside = np.array([part.within for part in self.parts])
        #: H(A), which is published, and what the members of classes disclose beyond them.
        self.free_of_charge = float(measures.entropy(self.masses) + self.masses @ inside)
        self.n_x = problem.n_x

    def free(self) -> Support:
        """Slope 0: the largest disclosure without leakage."""
        return self._together(0.0)

    def told(self) -> Support:
        """Slope 1: X itself."""
        return self._together(1.0)

    def at(self, slope: float, deadline: Deadline = NEVER) -> Support:
        """The tangent of slope 0 < μ < 1; after the deadline, a point of no use."""
        return self._together(slope, deadline)

    def _together(self, slope: float, deadline: Deadline = NEVER) -> Support:
        own = [part.support(slope, deadline) for part in self.parts]
        points = np.array([each.point for each in own])
        disclosure, leakage = self.masses @ points
        prices = np.empty(self.n_x)
        for part, each in zip(self.parts, own, strict=True):
            prices[part.x] = each.prices[part.table.class_of]
        release = _side_by_side(self.parts, own)
        point = Point(self.free_of_charge + float(disclosure), float(leakage))
        return Support(slope=slope, point=point, release=release, prices=prices)

    def proofs(self, support: Support, claim: float) -> tuple[Array, list[PairsProof]] | None:
        """Prices (M,) and proofs of the line of a support with a slope above 0; None where there is none."""
        prices, proofs = np.empty(self.n_x), []
        for part in self.parts:
            first = part.x[part.table.order[part.table.begins[:-1]]]
            lowered = prove(part.curve.classes, support.prices[first], support.slope)
            if lowered is None:
                return None
            named = part.table.n_classes == part.x.size > ALL_PAIRS
            proofs.append(pairs_proof(part.curve.classes, lowered, support.slope, claim, crossings=named))
            prices[part.x] = lowered[part.table.class_of]
        return prices, proofs

    def private_proofs(self) -> tuple[Array, list[PairsProof]]:
        """Prices (M,) and proofs of what no release without leakage exceeds.

        Raises:
            CertificateError: The table has no counts, or too many.
        """
        prices, proofs = np.zeros(self.n_x), []
        for part in self.parts:
            if part.table.n_classes > 1:
                prices[part.x] = free_pairs(part.curve.p_st).prices[part.table.class_of]
            claim = least_of_private_pairs(part.stratum.problem, prices[part.x], 1.0)
            proofs.append(PairsProof(claim=claim, outer=NO_CROSSINGS, inner=NO_CROSSINGS))
        return prices, proofs


def _side_by_side(parts: Sequence[_Part], supports: Sequence[Support]) -> PairRelease:
    """The strata's releases, of classes, as one of all symbols."""
    whole = [expand(part.table, each.release) for part, each in zip(parts, supports, strict=True)]
    both = list(zip(parts, whole, strict=True))
    return PairRelease(
        first=np.concatenate([part.x[each.first] for part, each in both]),
        second=np.concatenate([part.x[each.second] for part, each in both]),
        mass_first=np.concatenate([part.stratum.mass * each.mass_first for part, each in both]),
        mass_second=np.concatenate([part.stratum.mass * each.mass_second for part, each in both]),
    )


def solve_strata(question: Question, seconds: float) -> Answer:
    """Least leakage at a disclosure, or most disclosure within a leakage, and its proof.

    Args:
        question: A question about two private symbols and published columns: see :func:`is_for`.
        seconds: The time limit.
    """
    started, deadline = time.perf_counter(), Deadline(seconds)
    problem, threat = question.problem, question.guards
    curve = StrataOracle(problem, threat)
    known: list[Support] = []
    wanted = question.place if question.names_place else question.budget
    target = Target(Quantity.DISCLOSURE if question.names_place else Quantity.LEAKAGE, wanted)
    found = bracket(curve, target, SEARCH_GAP, known, deadline)
    certificate = None
    if question.budget <= 0.0:
        certificate = _private(problem, threat, curve) or _flat(problem, threat, curve, deadline)
    if certificate is None:
        line = found.best if question.names_place else _ceiling(curve, known, question.budget, deadline)
        certificate = _certificate(problem, threat, curve, line) if line.slope > 0.0 else None
    return Answer(
        channel=channels.as_held(_mixed(found).channel(problem.n_x)),
        status=Status.TIME_LIMIT if deadline.passed() else Status.OPTIMAL,
        slope=found.best.slope,
        certificate=certificate,
        steps=found.tried,
        seconds=time.perf_counter() - started,
        message=f"{len(curve.parts)} strata, {found.tried} slopes",
    )


def _ceiling(curve: StrataOracle, known: list[Support], leakage: float, deadline: Deadline) -> Support:
    """The support whose line allows least disclosure within a leakage, in nats."""
    if not any(0.0 < each.slope < 1.0 for each in known) and not deadline.passed():
        known.append(curve.at(FIRST_SLOPE))
    rising = [each for each in known if each.slope > 0.0]
    return min(rising, key=lambda one: one.point.disclosure + (leakage - one.point.leakage) / one.slope)


def _mixed(found: Bracket) -> PairRelease:
    """Both ends of a bracket, time-shared."""
    ends = ((1.0 - found.share, found.low.release), (found.share, found.high.release))
    return join([(share, release) for share, release in ends if share > 0.0])


def _private(problem: Problem, threat: Threat, curve: StrataOracle) -> Certificate | None:
    """The proof of what no release without leakage exceeds, or None where the table has no counts, or too many."""
    try:
        prices, proofs = curve.private_proofs()
    except CertificateError:
        return None
    return GuardedBody.build(problem, threat, prices, (np.zeros(1), 1.0), proofs, zero=True)


def _flat(problem: Problem, threat: Threat, curve: StrataOracle, deadline: Deadline) -> Certificate | None:
    """The line of those with small slopes that allows least disclosure without leakage."""
    lines = [each for each in (curve.at(slope, deadline) for slope in FLAT_SLOPES) if not deadline.passed()]
    proved = [each for line in lines if (each := _certificate(problem, threat, curve, line)) is not None]
    return min(proved, key=lambda one: one.most_disclosure(0.0), default=None)


def _certificate(problem: Problem, threat: Threat, curve: StrataOracle, line: Support) -> Certificate | None:
    """The proof of a line, or None where rounding keeps the checker from confirming it."""
    for claim in CLAIMS:
        made = curve.proofs(line, claim)
        if made is None:
            return None
        prices, proofs = made
        duals = (np.ones(1), line.slope)
        proved = GuardedBody.build(problem, threat, prices, duals, proofs, zero=False)
        try:
            proved.verify(problem)
        except CertificateError:
            continue  # the checker's rounding allowance is its own: claim a little less
        return proved
    return None
