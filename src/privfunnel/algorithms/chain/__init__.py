"""Lines below the curve of a table with three or more private symbols, at any number of public ones.

S is told in steps, each a yes or no; every step is a funnel with two private symbols, whose curve is exact. With
S' the first step, I(S;Y) = I(S';Y) + Σ p(i) I(S;Y|S'=i) and R − I(S';Y) = Σ p(i) I(X;Y|S'=i), so that the curves of the
steps bound the curve of S: L(R) ≥ β(μ) + μ R with

    β(μ) = max over m < μ of (1 − m) α(σ) + Σ p(i) β_i(m),     σ = (μ − m)/(1 − m),

where α(σ) is the tangent of slope σ of the step's own curve at R = 0, β_i belongs to the stratum S' = i, and β(m) of a
single private symbol is −m H(X|s). Which steps, and in which order, is tried out; :mod:`privfunnel.certificate.chain`
has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.algorithms.chain.yes_no_splits import Members, Question, Sides, ask, first_questions
from privfunnel.algorithms.deadline import Deadline
from privfunnel.certificate import Certificate, ChainProof, PlainBody, Step, chain_prices, flat_prices
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Slopes at which the tangents of all questions are worked out first;
SLOPES = (0.01, 0.04, 0.08, 0.13, 0.2, 0.28, 0.36, 0.44, 0.52, 0.6, 0.68, 0.76, 0.84, 0.92, 1.0)
#: then, for the best chain, those halfway to the neighbours of the slopes in use, so often.
REFINEMENTS = 5
#: What a chain claims less than its steps sum up to, in nats, the first that the checker confirms.
MARGINS = (1e-11, 1e-9, 1e-7)


class Split(NamedTuple):
    """A step of a chain at one slope: who is on which side, the slope σ of its funnel and m of what comes after."""

    sides: Sides
    slope: float
    rest: float


class OutOfTime(Exception):  # noqa: N818 - nothing went wrong
    """The deadline came before the first chain was known."""


class Chain:
    """The chains of one problem, with what has been worked out for them."""

    def __init__(self, problem: Problem) -> None:
        """Prepare; nothing is worked out yet."""
        self.problem = problem
        self.deadline = Deadline()
        self.everyone = np.ones(problem.n_s, dtype=bool)
        self._questions: dict[bytes, Question] = {}
        self._first = Heights(self, SLOPES)

    def question(self, sides: Sides) -> Question:
        """The question with these sides."""
        key = sides.tobytes()
        if key not in self._questions:
            self._questions[key] = ask(self.problem, sides)
        return self._questions[key]

    def line(self, disclosure: float, deadline: Deadline) -> Certificate | None:
        """The certificate of the highest line at ``disclosure`` nats, or None where no chain is above L ≥ 0 there.

        Half the time is for the search; where it does not suffice for any chain, there is none.
        """
        self.deadline = Deadline(0.5 * deadline.left(), deadline.clock)
        heights = self._first
        try:
            height, slope = heights.highest(disclosure)
        except OutOfTime:
            return None
        for _ in range(REFINEMENTS):
            if self.deadline.passed():
                break
            chain = heights.chain(self.everyone, slope)
            finer = Heights(self, refined(heights.slopes, slope, chain), chain)
            try:
                height, slope = finer.highest(disclosure)
            except OutOfTime:
                break
            heights = finer
        return self._certificate(heights, slope) if height > 0.0 else None

    def _certificate(self, heights: Heights, slope: float) -> Certificate | None:
        try:
            steps, prices, value = self._steps(heights, self.everyone, slope)
        except CertificateError:
            return None
        for margin in MARGINS:
            proof = ChainProof(claim=value - margin, shares=np.array(self.problem.p_s), steps=tuple(steps))
            made = PlainBody.build(self.problem, prices, slope, [proof])
            try:
                made.verify(self.problem)
            except CertificateError:
                continue  # the checker's rounding allowance is its own: claim a little less
            return made
        return None

    def _steps(self, heights: Heights, members: Members, slope: float) -> tuple[list[Step], Array, float]:
        """The proved steps of the best chain at a slope, its prices (M,), and the bound of its F."""
        n = self.problem.n_x
        if members.sum() == 1:
            return [], np.zeros(n), 0.0
        if slope == 0.0:
            return [], flat_prices(self.problem.p_s_given_x, members, self.problem.p_s), 0.0
        sides, own_slope, rest = heights.split(members, slope)
        question = self.question(sides)
        own = np.zeros(n)
        own[question.left], proof = question.proved(own_slope)
        step = Step(sides=sides, slope=own_slope, rest=rest, prices=own, cells=question.cells, proof=proof)
        after = [self._steps(heights, sides == side, rest) for side in (0, 1)]
        of_sides = after[0][1][question.left], after[1][1][question.left]
        made = np.zeros(n)
        made[question.left] = chain_prices(question.halves, rest, own[question.left], of_sides)
        value = (1.0 - rest) * proof.claim + min(after[0][2], after[1][2])
        return [step, *after[0][0], *after[1][0]], made, value


class Heights:
    """β at some slopes for every stratum that is reached, and the steps that give it.

    Args:
        chain: Whose problem it is.
        slopes: Ascending, the last of them 1.
        fixed: The steps to take; without them several are tried in each stratum.
    """

    def __init__(self, chain: Chain, slopes: Sequence[float], fixed: Sequence[Split] | None = None) -> None:
        self.chain_of = chain
        self.slopes = tuple(slopes)
        self._fixed = None if fixed is None else {(s.sides >= 0).tobytes(): s.sides for s in fixed}
        self._known: dict[bytes, tuple[Array, list[Split | None]]] = {}

    def highest(self, disclosure: float) -> tuple[float, float]:
        """The highest line at ``disclosure`` nats: its height there, in nats, and its slope."""
        values = self._at(self.chain_of.everyone)[0] + np.array(self.slopes) * disclosure
        best = int(np.argmax(values))
        return float(values[best]), self.slopes[best]

    def split(self, members: Members, slope: float) -> Split:
        """The step that a stratum of several private symbols takes at one of the slopes."""
        found = self._at(members)[1][self.slopes.index(slope)]
        assert found is not None
        return found

    def chain(self, members: Members, slope: float) -> list[Split]:
        """All steps of the best chain at a slope."""
        if slope == 0.0 or members.sum() == 1:
            return []
        split = self.split(members, slope)
        return [split, *(s for side in (0, 1) for s in self.chain(split.sides == side, split.rest))]

    def _at(self, members: Members) -> tuple[Array, list[Split | None]]:
        key = members.tobytes()
        if key not in self._known:
            if members.sum() == 1:
                p = self.chain_of.problem.p_sx[members][0]
                alone = -np.array(self.slopes) * float(measures.entropy(p / p.sum()))
                self._known[key] = alone, [None] * len(self.slopes)
            elif self._fixed is None:
                self._known[key] = self._best(first_questions(self.chain_of.problem, members))
            elif key in self._fixed:
                self._known[key] = self._best([self._fixed[key]])
            else:  # a stratum that the fixed chain leaves at slope 0
                self._known[key] = self._best(first_questions(self.chain_of.problem, members)[:1])
        return self._known[key]

    def _best(self, questions: list[Sides]) -> tuple[Array, list[Split | None]]:
        """The heights of the best of some steps at each slope."""
        heights = np.full(len(self.slopes), -np.inf)
        best: list[Split | None] = [None] * len(self.slopes)
        for number, sides in enumerate(questions):
            if number and self.chain_of.deadline.passed():
                break
            question = self.chain_of.question(sides)
            for slope in self.slopes:
                if self.chain_of.deadline.passed():
                    raise OutOfTime
                question.support(slope)
            tangent = question.between(self.slopes)
            below = (1.0 - question.share) * self._at(sides == 0)[0] + question.share * self._at(sides == 1)[
                0
            ]
            # m = 0 is always possible, and its line is L ≥ 0.
            rests, after = np.concatenate([[0.0], self.slopes]), np.concatenate([[0.0], below])
            for k, slope in enumerate(self.slopes):
                m = rests[rests < slope]
                own = (slope - m) / (1.0 - m)  # μ itself for m = 0, less for any other
                totals = (1.0 - m) * tangent(own) + after[: m.size]
                j = int(np.argmax(totals))
                if totals[j] > heights[k]:
                    heights[k], best[k] = totals[j], Split(sides, float(own[j]), float(m[j]))
        return heights, best


def refined(slopes: Sequence[float], slope: float, chain: Sequence[Split]) -> list[float]:
    """The slopes, and those halfway between the ones that a chain uses and their neighbours."""
    used = {slope, *(s.rest for s in chain), *(s.slope for s in chain)}
    known = sorted({0.0, *slopes, *used})
    more = set(known)
    for value in used:
        place = known.index(value)
        more |= {
            0.5 * (value + known[beside]) for beside in (place - 1, place + 1) if 0 <= beside < len(known)
        }
    return sorted(more - {0.0})
