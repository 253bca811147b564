"""The distortion funnel of Calmon and Fawaz: least I(S;Y) for a release of records that are close to the true ones.

Records go in and records come out: the channel X → Y has the public symbols as its outputs, and what counts is a cost
d(x, y) of releasing y for x, not I(X;Y):

    minimise I(S;Y)  subject to  E d(X,Y) ≤ D.

That is convex, so that every point is solved to the optimum and proved in one pass
(:mod:`privfunnel.certificate.distortion`). With S = X it is Shannon's rate-distortion problem.

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

from privfunnel.amounts import check_budget
from privfunnel.checks import is_number
from privfunnel.distortion.changes import unchanged
from privfunnel.distortion.costs import Costs, costs_of
from privfunnel.distortion.pram import transition_matrix, write_transition_matrix
from privfunnel.distortion.result import DistortionCurve, DistortionSolution
from privfunnel.distortion.work import Work
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.problem import Problem
from privfunnel.solution import ROUNDING
from privfunnel.solvers.deadline import NEVER, Deadline
from privfunnel.solvers.options import check_positive, check_seconds, check_whole
from privfunnel.solving import problem_of
from privfunnel.tables import Counts

__all__ = [
    "Costs",
    "DistortionCurve",
    "DistortionSolution",
    "costs_of",
    "free_distortion",
    "solve",
    "trace",
    "transition_matrix",
    "unchanged",
    "write_transition_matrix",
]

#: Nats that the leakage may be above its proved bound.
GAP = 1e-9
#: Newton steps a point, at most.
MAX_STEPS = 300
#: Points that are tried for a leakage budget, at most.
MOST_TRIED = 25
#: Share of the largest cost within which the least distortion for a leakage budget is found.
CLOSE = 1e-7
#: A curve that cannot come down to 0 ends this many nats above the least leakage.
STILL = 1e-6


def solve(
    problem: Problem | Counts,
    *,
    distortion: float | None = None,
    leakage: float | str | None = None,
    costs: Any = None,
    invariant: bool = False,
    gap: float = GAP,
    max_steps: int = MAX_STEPS,
    time_limit: float = math.inf,
) -> DistortionSolution:
    """Solve one point of the distortion funnel.

    Args:
        problem: The problem, or counts that make one and know the order of the columns' values.
        distortion: The most E d(X,Y) allowed, in the unit of the costs: minimise the leakage.
        leakage: Instead: the most I(S;Y) allowed, a number in nats or a text such as ``"5%"`` (of I(S;X)): minimise the
            distortion.
        costs: What a change costs, see :func:`costs_of`; 1 for any other record by default, so that the distortion is
            the share of records that are changed.
        invariant: Whether the release must have the distribution of the table, p(y) = p(x).
        gap: What may be left between the leakage and the proved bound, in nats.
        max_steps: Newton steps a point, at most.
        time_limit: Seconds, after which the best is returned with the bound that it has.

    Returns:
        The solution, each of its numbers recomputed from its channel.

    Raises:
        InvalidInputError: An argument cannot be used.
        InfeasibleError: Every channel has more distortion, or leaks more.
    """
    if (distortion is None) == (leakage is None):
        raise InvalidInputError(
            "give exactly one of distortion= (the most E d(X,Y)) and leakage= (nats to spend)"
        )
    work, deadline = _work(problem, costs, invariant, (gap, max_steps)), _deadline(time_limit)
    if distortion is not None:
        return work.at(_number(distortion), deadline)
    return _within_budget(work, check_budget(work.problem, leakage), deadline)


def trace(
    problem: Problem | Counts,
    *,
    points: int = 20,
    end: float | None = None,
    distortions: Iterable[float] | None = None,
    costs: Any = None,
    invariant: bool = False,
    gap: float = GAP,
    max_steps: int = MAX_STEPS,
    time_limit: float = math.inf,
) -> DistortionCurve:
    """Trace the least leakage for distortions from the least possible one to that at which nothing leaks.

    Args:
        problem: The problem, or counts that make one.
        points: Number of distortions, uniform between the two ends.
        end: The last distortion, instead of that at which nothing leaks.
        distortions: The distortions, instead of ``points``.
        costs: What a change costs, see :func:`costs_of`.
        invariant: Whether the release must have the distribution of the table, p(y) = p(x).
        gap: What may be left between the leakage and the proved bound, in nats.
        max_steps: Newton steps a point, at most.
        time_limit: Seconds a point.
    """
    check_whole("distortion", 2, points=points)
    work = _work(problem, costs, invariant, (gap, max_steps))
    if distortions is None:
        last = _end(work) if end is None else _number(end)
        if last < work.least:
            raise InvalidInputError(
                f"end={end!r} is below the least possible distortion {work.least:.6g}: raise it"
            )
        wanted = np.linspace(work.least, last, points).tolist()
    else:
        wanted = sorted({_number(each) for each in distortions})
    if not wanted:
        raise InvalidInputError("distortions are empty: give at least one")
    solutions = tuple(work.at(each, _deadline(time_limit)) for each in wanted)
    return DistortionCurve(problem=work.problem, costs=work.costs, solutions=solutions, invariant=invariant)


def free_distortion(problem: Problem | Counts, *, costs: Any = None, invariant: bool = False) -> float:
    """The least distortion without any leakage, in the unit of the costs; infinite where that is forbidden.

    Of tables with more than 200 records it is that of releasing one record for all, which is more.
    """
    free = _work(problem, costs, invariant, (GAP, MAX_STEPS)).free
    return math.inf if free is None else free[0]


def _work(problem: Problem | Counts, costs: Any, invariant: bool, limits: tuple[float, int]) -> Work:
    gap, max_steps = limits
    check_positive("distortion", gap=gap)
    check_whole("distortion", 1, max_steps=max_steps)
    table = problem_of(problem)
    work = Work(table, costs_of(problem, costs), bool(invariant), gap, max_steps)
    work.check()
    return work


def _deadline(time_limit: float) -> Deadline:
    check_seconds("distortion", time_limit)
    return Deadline(time_limit)


def _number(distortion: Any) -> float:
    if not is_number(distortion) or not 0.0 <= distortion < math.inf:
        raise InvalidInputError(
            f"distortion={distortion!r} is not usable: give a number ≥ 0 in the unit of the costs"
        )
    return float(distortion)


def _end(work: Work) -> float:
    """Where the curve ends: at no leakage, or, where that is forbidden, where changes no longer help by much."""
    if work.free is not None:
        return max(work.free[0], work.least)
    most = work.at(work.dearest)
    return _within_budget(work, most.leakage + STILL, NEVER).distortion


def _within_budget(work: Work, budget: float, deadline: Deadline) -> DistortionSolution:
    """The least distortion with at most ``budget`` nats of leakage.

    The curve is convex: from a point above the budget its proved line cannot reach the budget too late, and between two
    points the mixed channel leaks no more than their chord.
    """
    asked: dict[str, Any] = {"budget": budget}
    low = work.at(work.least, deadline, **asked)
    if low.leakage <= budget + ROUNDING:
        return work.judged_within(low, low, budget, work.least)
    high = work.at(work.dearest if work.free is None else max(work.free[0], work.least), deadline, **asked)
    if high.leakage > budget + work.gap:
        raise InfeasibleError(
            f"leakage={budget!r} nats is infeasible with these costs: the least is {high.leakage:.9g}; raise it"
        )
    reached = work.least
    for _ in range(MOST_TRIED):
        line = low.certificate
        if line is not None and line.slope > 0.0:
            reached = max(reached, (line.intercept - budget) / line.slope)
        best = work.judged_within(low, high, budget, reached)
        if best.distortion - reached <= CLOSE * work.costs.scale or deadline.passed():
            break
        # The line's own crossing is on the left of the optimum, or on it; a little more crosses over.
        middle = work.at(min(reached + 0.5 * CLOSE * work.costs.scale, best.distortion), deadline, **asked)
        if middle.leakage > budget:
            low = middle
        else:
            high = middle
    return best
