"""Where a curve ends under guarantees that X itself does not meet: at the most of the axis that they allow.

That release is searched for once, before the places of the curve are chosen; ends that are known without a search are
in :mod:`.ends`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from privfunnel.errors import InfeasibleError
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.solving.base import Asking, Way
from privfunnel.solving.ends import ends_of
from privfunnel.solving.point import answered
from privfunnel.solving.records import RecordsWay
from privfunnel.solving.solution import Solution

#: The last point under guarantees asks for so much less than is known to be possible, in nats: a program has room then.
SHORT = 1e-8


def guaranteed_end(
    question: Question, way: Way, how: Asking, also: Sequence[float] = (), *, throw: bool = True
) -> Solution | None:
    """The release that has most of the axis, where guarantees end the curve; None where its end is known.

    Args:
        question: What each point of the curve asks, its place left open.
        way: The algorithm.
        how: How it is asked.
        also: Places that were asked for besides.
        throw: If False, what goes wrong is a status.

    Raises:
        InfeasibleError: A place besides is more than the guarantees are proved to allow.
    """
    ends = ends_of(question)
    if ends.first is None or ends.last is not None:
        return None
    most = answered(replace(question, goal=question.axis), way, how, throw=throw)
    for place in also:
        if place > most.bound + FEASIBILITY:
            raise InfeasibleError(
                f"{question.axis}={place:.9g} nats is infeasible: the guarantees allow {most.bound:.9g} nats; lower it"
            )
    return most


def span(question: Question, way: Way, limit: Solution | None) -> tuple[float, float]:
    """Where a curve begins and ends along its axis, with the release that ends it where guarantees do."""
    if isinstance(way, RecordsWay):
        return way.ends(question)
    first = ends_of(question).first
    low = 0.0 if first is None else first.place
    high = question.whole if limit is None else limit.values.of(question.axis) - SHORT
    return low, max(high, low)
