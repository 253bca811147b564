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

from privfunnel.algorithms.task.search import all_utility
from privfunnel.certificate.answer import Answer, Status
from privfunnel.measures import INFORMATION, Array, Channel, Measure
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, ROUNDING, Quantity, Question
from privfunnel.model.threat import Threat


class End(NamedTuple):
    """A release at an end of a curve: its place along the axis, its leakage, and p(y|x), shape (M, N)."""

    place: float
    leakage: float
    channel: Channel


@dataclass(frozen=True, eq=False)
class Ends:
    """What is known of the ends of a curve without a search; nats.

    Attributes:
        first: The release that tells nothing beyond what is published; None where the axis is distortion.
        last: X itself, or all that a task can use; None where guarantees do not allow it, or the axis is distortion.
        steepest: The largest slope that the curve can have.
        measure: What leakage is measured by: time sharing is linear in its averages.
    """

    first: End | None
    last: End | None
    steepest: float
    measure: Measure = INFORMATION

    def averages(self, leakages: Array) -> Array:
        """The averages that belong to leakages of any shape: what a curve is convex in."""
        if not self.measure.worst_value:
            return np.asarray(leakages)
        return np.asarray(np.vectorize(self.measure.average, otypes=[np.float64])(leakages))

    def leakages(self, averages: Array) -> Array:
        """The leakages that belong to averages of any shape."""
        if not self.measure.worst_value:
            return np.asarray(averages)
        return np.asarray(np.vectorize(self.measure.leakage, otypes=[np.float64])(averages))

    @property
    def known(self) -> tuple[End, ...]:
        """Those that there are."""
        return tuple(end for end in (self.first, self.last) if end is not None)


class Dominated(NamedTuple):
    """What the plain funnel's information says of the largest leakage to some attackers, by their measure.

    Unless columns are published, who knows nothing is among the attackers: what I(S;Y) is at least by the plain funnel,
    the largest leakage is, or what belongs to it by :meth:`privfunnel.measures.Measure.leakage_at_least`.

    Attributes:
        measure: What leakage is measured by.
        p_s: p(s), shape (K,).
    """

    measure: Measure
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
        return "certificate" if self.measure.is_information else "certificate of I(S;Y)"

    def leakage(self, information: ArrayLike) -> Array:
        """The largest leakage at least, where I(S;Y) is no less than ``information`` nats, of any shape."""
        if self.measure.is_information:
            return np.asarray(information)
        return self.measure.leakage_at_least(information, self.p_s)

    def information(self, leakage: ArrayLike) -> Array:
        """I(S;Y) at most in nats, where no attacker learns more than ``leakage``, of any shape."""
        if self.measure.is_information:
            return np.asarray(leakage)
        return self.measure.information_at_most(leakage, self.p_s)


def ends_of(question: Question) -> Ends:
    """The ends of the curve that a question belongs to.

    Whatever Y is, I(S;X|A) − I(S;Y|A) ≤ H(X|Y) for every A, so that no curve that ends at X is steeper than 1. Of other
    measures, and along other axes, no such thing is known.
    """
    problem, guards, axis = question.problem, question.guards, question.axis
    if axis is Quantity.DISTORTION:
        return Ends(None, None, math.inf, guards.measure)
    nothing = guards.nothing(problem)
    # Everyone knows what is published.
    first = End(question.values(nothing).of(axis), 0.0, nothing)
    whole = itself(problem, guards) if axis is Quantity.DISCLOSURE else whole_task(problem, guards)
    if whole is None:
        return Ends(first, None, math.inf, guards.measure)
    values = question.values(whole)
    bounded = guards.measure.is_information and axis is Quantity.DISCLOSURE
    return Ends(
        first, End(values.of(axis), values.leakage, whole), 1.0 if bounded else math.inf, guards.measure
    )


def end_of_curve(problem: Problem, disclosure: float) -> Answer | None:
    """The answer at the two ends of every curve, nothing and X itself; None between them, where a solver is needed.

    A disclosure is at an end when it misses it by no more than any request may be missed.
    """
    if disclosure <= FEASIBILITY:
        return Answer(channel=channels.constant(problem.n_x), status=Status.OPTIMAL, slope=0.0)
    if disclosure >= problem.disclosure_ceiling - FEASIBILITY:
        return Answer(channel=channels.identity(problem.n_x), status=Status.OPTIMAL)
    return None


def itself(problem: Problem, guards: Threat) -> Channel | None:
    """The release of X, the only one that discloses H(X), up to names; None where guarantees forbid it."""
    whole = channels.identity(problem.n_x)
    return whole if guards.allow(problem, whole) else None


def all_of_task(problem: Problem, utility: float) -> bool:
    """Whether a utility in nats is I(U;X), but for rounding.

    Symbols whose p(u|x) differ by little may be told apart for less than any larger tolerance, and leak a lot.
    """
    return utility >= problem.utility_ceiling - ROUNDING * max(problem.utility_ceiling, 1.0)


def whole_task(problem: Problem, guards: Threat) -> Channel | None:
    """The release of p(u|x), beside what is published, that keeps all of I(U;X); None where guarantees forbid it."""
    found = all_utility(problem)
    whole, shown = found.table, guards.published
    if shown is not None:
        both = np.unique(found.cells.of * shown.n_values + shown.values, return_inverse=True)[1].reshape(-1)
        whole = np.eye(int(both.max()) + 1)[both]
    return whole if guards.allow(problem, whole) else None


def closed_form(problem: Problem, guards: Threat, disclosure: ArrayLike) -> Array:
    """Closed-form lower bound on the (largest) leakage at disclosures of any shape; nats.

    See :class:`Dominated` for the leakage by other measures.
    """
    told = Dominated.of(problem, guards)
    if told is None:
        return np.zeros(np.shape(disclosure))
    return told.leakage(problem.lower_bound(disclosure))
