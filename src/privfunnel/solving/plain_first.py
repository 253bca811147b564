"""What the plain funnel says of a guarded one: a bound that holds for it, and a release to begin with.

Unless columns are published, who knows nothing is among the attackers, and guarantees only take releases away: no
guarded release leaks less than the plain funnel's least leakage. By another measure it leaks no less than what belongs
to so much information: maximal leakage, say, is never below it. Its proof takes a second on tables where a guarded
search over boxes of all posteriors comes nowhere, and where its release tells the other attackers no more, the guarded
funnel is solved with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.auto import Auto
from privfunnel.algorithms.columns.general import SMALL
from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import FAILURES
from privfunnel.measures import Array, Channel
from privfunnel.model import channels
from privfunnel.model.equal_symbols import LUMPED_BEYOND, ClassChannel, chosen_lumping
from privfunnel.model.problem import Problem
from privfunnel.model.question import Question
from privfunnel.reductions.plain_classes import carried
from privfunnel.solving.ends import Dominated

#: Tables with more public symbols than this have their plain funnel solved first; on smaller ones a search is quick.
SEARCHED_UP_TO = LUMPED_BEYOND


class Floor(NamedTuple):
    """A solved point of the plain funnel.

    Attributes:
        certificate: Its proof, verified; None where a closed form decides it.
        channel: Its release p(y|x), shape (M, N).
        slope: dL/dR there, where it is known.
        told: How much leakage information is.
    """

    certificate: Certificate | None
    channel: Channel
    slope: float | None
    told: Dominated

    def lower_bound(self, disclosure: float) -> float:
        """What every release with this disclosure leaks at least, in nats or the measure's own numbers."""
        line = 0.0 if self.certificate is None else self.certificate.lower_bound(disclosure)
        return float(self.told.leakage(line))

    def most_disclosure(self, budget: float) -> float:
        """What a release discloses at most, in nats, that leaks no more than ``budget``; ∞ for no bound."""
        spent = float(self.told.information(budget))
        return math.inf if self.certificate is None else self.certificate.most_disclosure(spent)

    def posteriors(self, problem: Problem) -> Array:
        """p(x|y) of its release, shape (n, M); none where there are too many."""
        # Outputs of its release whose posteriors a search begins with.
        if self.channel.shape[1] > 2000:
            return np.zeros((0, problem.n_x))
        joint = channels.joint(problem.p_x, self.channel)
        table = np.asarray(joint.toarray() if channels.is_sparse(joint) else joint).T
        sums = table.sum(axis=1, keepdims=True)
        return np.asarray((table / np.where(sums > 0.0, sums, 1.0))[sums[:, 0] > 0.0])


def plain_floor(question: Question, gap: float, seconds: float, seed: int) -> Floor | None:
    """The plain funnel's answer to a question about a guarded one; None where it says nothing, or is not worth it.

    Args:
        question: The question.
        gap: The gap in nats of the guarded search.
        seconds: The time that this may take.
        seed: Fixes all randomness.
    """
    problem, guards = question.problem, question.guards
    told, within = Dominated.of(problem, guards), question.budget < math.inf
    # A small budget of χ² is slow to search: next to no leakage χ² is flat, and its boxes have no curvature.
    little = question.budget < SMALL and guards.measure.smooth and not guards.measure.is_information
    worth = little or problem.n_x > SEARCHED_UP_TO
    if told is None or not worth or not (question.names_place or within):
        return None
    lumping = chosen_lumping(problem, None)
    solver = Auto(gap=gap, time_limit=seconds)
    try:
        if within:
            answer = solver.solve_leakage(lumping.lumped, float(told.information(question.budget)), seed=seed)
        else:
            answer = solver.solve(lumping.lumped, lumping.inner(question.disclosure), seed=seed)
        proof = carried(lumping, answer.certificate)
        if proof is not None:
            proof.verify(problem)
        channel = answer.channel if lumping.trivial else ClassChannel(lumping, answer.channel).table
        return Floor(proof, channel, answer.slope, told)
    except FAILURES:
        return None  # the guarded search does without
