"""The distortion funnel of Calmon and Fawaz: least I(S;Y) for a release of records that are close to the true ones.

Records go in and records come out: the channel X → Y has the public symbols as its outputs, and what counts is a cost
d(x, y) of releasing y for x, not I(X;Y):

    minimise I(S;Y)  subject to  E d(X,Y) ≤ D.

That is convex, so that every point is solved to the optimum and proved in one pass
(:mod:`privfunnel.certificate.kinds.distortion`). With S = X it is Shannon's rate-distortion problem.

    >>> import privfunnel as pf
    >>> problem = pf.Problem([[0.4, 0.1], [0.1, 0.4]])
    >>> solution = pf.distortion.solve(problem, distortion=0.1)
    >>> round(solution.leakage, 4), solution.status.value
    (0.1201, 'optimal')
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from privfunnel.algorithms.distortion import DistortionFunnel
from privfunnel.algorithms.options import check_whole
from privfunnel.data.cost_rules import costs_of
from privfunnel.data.tables import Counts
from privfunnel.errors import InvalidInputError
from privfunnel.model.costs import Costs
from privfunnel.model.problem import Problem
from privfunnel.model.question import Quantity
from privfunnel.release.distortion.changes import unchanged
from privfunnel.release.distortion.pram import transition_matrix, write_transition_matrix
from privfunnel.solving.base import Asking
from privfunnel.solving.curve import Curve
from privfunnel.solving.point import posed
from privfunnel.solving.records import RecordsWay
from privfunnel.solving.request import Request, check_distortion
from privfunnel.solving.solution import Solution
from privfunnel.solving.tracing import Grid, PartialCurve, following

__all__ = [
    "Costs",
    "DistortionFunnel",
    "costs_of",
    "free_distortion",
    "solve",
    "trace",
    "transition_matrix",
    "unchanged",
    "write_transition_matrix",
]


def solve(
    problem: Problem | Counts,
    *,
    distortion: float | None = None,
    leakage: float | str | None = None,
    costs: object = None,
    invariant: bool = False,
    **options: Any,
) -> Solution:
    """Solve one point of the distortion funnel.

    Args:
        problem: The problem, or counts that make one and know the order of the columns' values.
        distortion: The most E d(X,Y) allowed, in the unit of the costs: minimise the leakage.
        leakage: Instead: the most I(S;Y) allowed, a number in nats or a text such as ``"5%"`` (of I(S;X)): minimise the
            distortion.
        costs: What a change costs, see :func:`costs_of`; 1 for any other record by default, so that the distortion is
            the share of records that are changed.
        invariant: Whether the release must have the distribution of the table, p(y) = p(x).
        **options: Those of :class:`~privfunnel.algorithms.distortion.DistortionFunnel`: ``gap``, ``max_steps``,
            ``time_limit``.

    Returns:
        The solution, each of its numbers recomputed from its channel.

    Raises:
        InvalidInputError: An argument cannot be used.
        InfeasibleError: Every channel has more distortion, or leaks more.
    """
    held = "record" if costs is None else costs
    asked = Request(distortion=distortion, leakage=leakage, costs=held, invariant=invariant)
    return posed(problem, asked, DistortionFunnel(**options))


def trace(
    problem: Problem | Counts,
    *,
    points: int = 20,
    end: float | None = None,
    distortions: Iterable[float] | None = None,
    costs: object = None,
    invariant: bool = False,
    **options: Any,
) -> Curve:
    """Trace the least leakage for distortions from the least possible one to that at which nothing leaks.

    Args:
        problem: The problem, or counts that make one.
        points: Number of distortions, uniform between the two ends.
        end: The last distortion, instead of that at which nothing leaks.
        distortions: The distortions, instead of ``points``.
        costs: What a change costs, see :func:`costs_of`.
        invariant: Whether the release must have the distribution of the table, p(y) = p(x).
        **options: Those of :class:`~privfunnel.algorithms.distortion.DistortionFunnel`; the time limit is of a point.
    """
    check_whole("distortion", 2, points=points)
    way = RecordsWay(DistortionFunnel(**options))
    question = Request(costs=costs, invariant=invariant).open(problem, Quantity.DISTORTION)
    places: Iterable[float] | None = distortions
    if distortions is None and end is not None:
        last, least = check_distortion(end), way.work(question).least
        if last < least:
            raise InvalidInputError(
                f"end={end!r} is below the least possible distortion {least:.6g}: raise it"
            )
        places = np.linspace(least, last, points).tolist()
    begun = PartialCurve(question=question, way=way, how=Asking())
    *_, found = following(begun, Grid(points, places), None)
    return found.curve()


def free_distortion(problem: Problem | Counts, *, costs: object = None, invariant: bool = False) -> float:
    """The least distortion without any leakage, in the unit of the costs; infinite where that is forbidden.

    Of tables with more than 200 records it is that of releasing one record for all, which is more.
    """
    question = Request(costs=costs, invariant=invariant).open(problem, Quantity.DISTORTION)
    free = RecordsWay(DistortionFunnel()).work(question).free
    return math.inf if free is None else free[0]
