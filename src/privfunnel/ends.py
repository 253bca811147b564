"""Where a curve begins and ends: what every release has at least, and X itself where it is allowed.

Both ends need no search, whoever is guarded against. With guarantees that X itself does not meet, the curve ends at the
most disclosure that they allow, which has to be found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import channels, measures
from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.averages import CONVEX, Convex
from privfunnel.guarantees import MET
from privfunnel.measures import Array
from privfunnel.problem import Channel, Point, Problem
from privfunnel.solution import FEASIBILITY, Answer, Status
from privfunnel.threats import Threat


@dataclass(frozen=True, eq=False)
class Ends:
    """The known ends of a problem's curve; nats.

    Attributes:
        nothing: p(y|x) of the release that tells nothing beyond what is published, shape (M, N).
        least: Its disclosure, H(A) of the published columns A, and its leakage, 0.
        whole: X itself; None where the guarantees do not allow it.
        most: Its disclosure, H(X), and its largest leakage; None where the guarantees do not allow it.
        steepest: The largest slope that the curve can have.
        convex: What leakage is measured by: time sharing is linear in its averages.
    """

    nothing: Channel
    least: Point
    whole: Channel | None
    most: Point | None
    steepest: float
    convex: Convex = CONVEX[DEFAULT_MEASURE]

    def averages(self, leakages: Array) -> Array:
        """The averages that belong to leakages of any shape: what a curve is convex in."""
        return np.asarray(np.vectorize(self.convex.average, otypes=[np.float64])(leakages))

    def leakages(self, averages: Array) -> Array:
        """The leakages that belong to averages of any shape."""
        return np.asarray(np.vectorize(self.convex.leakage, otypes=[np.float64])(averages))

    @property
    def known(self) -> tuple[tuple[Point, Channel], ...]:
        """The ends that need no search, each with its channel."""
        first = ((self.least, self.nothing),)
        return first if self.whole is None or self.most is None else (*first, (self.most, self.whole))


class Dominated(NamedTuple):
    """What the plain funnel's information says of the largest leakage to some attackers, by their measure.

    Unless columns are published, who knows nothing is among the attackers: what I(S;Y) is at least by the plain funnel,
    the largest leakage is, or what belongs to it by :func:`privfunnel.measures.leakage_at_least`.

    Attributes:
        measure: What leakage is measured by.
        p_s: p(s), shape (K,).
    """

    measure: str
    p_s: Array

    @classmethod
    def of(cls, problem: Problem, threat: Threat) -> Dominated | None:
        """What holds under a threat; None where nothing does: columns are published, or budgets are of columns."""
        if threat.published is not None or threat.attributes:
            return None
        return cls(threat.measure, problem.p_s)

    @property
    def source(self) -> str:
        """What a bound by the plain funnel's certificate is called."""
        return "certificate" if self.measure == DEFAULT_MEASURE else "certificate of I(S;Y)"

    def leakage(self, information: ArrayLike) -> Array:
        """The largest leakage at least, where I(S;Y) is no less than ``information`` nats, of any shape."""
        if self.measure == DEFAULT_MEASURE:
            return np.asarray(information)
        return measures.leakage_at_least(information, self.p_s, self.measure)

    def information(self, leakage: ArrayLike) -> Array:
        """I(S;Y) at most in nats, where no attacker learns more than ``leakage``, of any shape."""
        if self.measure == DEFAULT_MEASURE:
            return np.asarray(leakage)
        return measures.information_at_most(leakage, self.p_s, self.measure)


def ends_of(problem: Problem, threat: Threat | None = None) -> Ends:
    """The ends of the plain funnel, or of one that is guarded.

    Whatever Y is, I(S;X|A) − I(S;Y|A) ≤ H(X|Y) for every A, so that no curve that ends at X is steeper than 1. Of other
    measures no such thing is known.
    """
    nothing = channels.constant(problem.n_x) if threat is None else threat.nothing(problem)
    least, identity = problem.evaluate(nothing), channels.identity(problem.n_x)
    if threat is not None:
        least = least._replace(leakage=0.0)  # everyone knows what is published
    if threat is not None and threat.guarantees and threat.excess(problem, identity) > MET:
        return Ends(nothing, least, None, None, math.inf, threat.convex)
    whole = point_of(problem, threat, identity)
    if threat is None:
        return Ends(nothing, least, identity, whole, 1.0)
    return Ends(nothing, least, identity, whole, 1.0 if usual(threat) else math.inf, threat.convex)


def end_of_curve(problem: Problem, disclosure: float) -> Answer | None:
    """The answer at the two ends of every curve, nothing and X itself; None between them, where a solver is needed.

    A disclosure is at an end when it misses it by no more than any request may be missed.
    """
    if disclosure <= FEASIBILITY:
        return Answer(channel=channels.constant(problem.n_x), status=Status.OPTIMAL, slope=0.0)
    if disclosure >= problem.disclosure_ceiling - FEASIBILITY:
        return Answer(channel=channels.identity(problem.n_x), status=Status.OPTIMAL)
    return None


def usual(threat: Threat | None) -> bool:
    """Whether leakage is mutual information, which closed forms are about."""
    return threat is None or threat.measure == DEFAULT_MEASURE


def point_of(problem: Problem, threat: Threat | None, channel: Channel) -> Point:
    """Disclosure and leakage of a channel, the largest leakage of the attackers where there are any; nats."""
    point = problem.evaluate(channel)
    if threat is None:
        return point
    return point._replace(leakage=max(threat.leakages(problem, channel).values()))


def closed_form(problem: Problem, threat: Threat | None, disclosure: ArrayLike) -> Array:
    """Closed-form lower bound on the (largest) leakage at disclosures of any shape; nats.

    See :class:`Dominated` for the leakage by other measures.
    """
    if threat is None:
        return np.asarray(problem.lower_bound(disclosure))
    told = Dominated.of(problem, threat)
    if told is None:
        return np.zeros(np.shape(disclosure))
    return told.leakage(problem.lower_bound(disclosure))
