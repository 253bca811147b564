"""The search for a leakage budget by a method that can only be asked for disclosures: what every solver inherits."""

from __future__ import annotations

from collections.abc import Callable

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.certificate.answer import Answer, Status
from privfunnel.measures import TINY
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY

#: Solves at most, the share of H(X) at which two neighbours are close enough to be time-shared, and the share of their
#: distance that each step cuts off at least.
MOST_STEPS, WIDTH, MARGIN = 30, 1e-3, 0.1


def most_disclosure(
    problem: Problem, budget: float, solve: Callable[[float], Answer], deadline: Deadline = NEVER
) -> Answer:
    """Most disclosure within a leakage budget, 0 ≤ budget < I(S;X), in nats.

    Searches the disclosure by bisection and time-shares the two last neighbours, which spends the budget exactly,
    however soon the time is up.

    Args:
        problem: The problem.
        budget: The most leakage allowed, in nats.
        solve: Least leakage at a disclosure in nats.
        deadline: After which no further disclosure is tried.
    """
    below = Answer(channel=channels.constant(problem.n_x), status=Status.FEASIBLE)
    above = Answer(channel=channels.identity(problem.n_x), status=Status.FEASIBLE)
    low, high = problem.evaluate(below.channel), problem.evaluate(above.channel)
    for _ in range(MOST_STEPS):
        if high.disclosure - low.disclosure <= WIDTH * problem.disclosure_ceiling or deadline.passed():
            break
        # The chord between the neighbours is achievable, so the answer lies at or beyond where it meets the budget.
        rise = high.leakage - low.leakage
        share = (budget - low.leakage) / rise if rise > 0.0 else 0.5
        width = high.disclosure - low.disclosure
        target = low.disclosure + min(max(share, MARGIN), 1.0 - MARGIN) * width
        answer = solve(target)
        point = problem.evaluate(answer.channel)
        if point.disclosure < target - FEASIBILITY or point.disclosure >= high.disclosure:
            break
        if point.leakage <= budget:
            if point.disclosure <= low.disclosure:
                break
            below, low = answer, point
        else:
            above, high = answer, point
    rise = high.leakage - low.leakage
    share = min(max((budget - low.leakage) / rise, 0.0), 1.0) if rise > 0.0 else 0.0
    channel = channels.time_share([below.channel, above.channel], [1.0 - share, share])
    slope = rise / max(high.disclosure - low.disclosure, TINY)
    return Answer(channel=channel, status=below.status, slope=slope, steps=below.steps)
