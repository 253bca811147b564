"""What makes a solution of an answer: numbers recomputed from its channel, proofs verified, the status corrected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from privfunnel.certificate import Certificate
from privfunnel.errors import SolverError
from privfunnel.free import free_disclosure_bounds
from privfunnel.problem import Problem
from privfunnel.solution import (
    DEFAULT_GAP,
    FEASIBILITY,
    ROUNDING,
    Answer,
    Solution,
    Status,
    final_status,
    stationarity,
)

#: Public symbols up to which the free disclosure is searched for the bound of a release that leaks nothing.
SMALL = 64


class Line(NamedTuple):
    """A certificate that has been verified, a line below the whole curve, and what to call it."""

    certificate: Certificate
    source: str


def judge(
    problem: Problem,
    answer: Answer,
    solver: str,
    seed: int,
    *,
    gap: float = DEFAULT_GAP,
    requested: float | None = None,
    budget: float | None = None,
    seconds: float | None = None,
    lines: Iterable[Line] = (),
) -> Solution:
    """Make a solution of an answer: evaluate its channel, verify its certificate, and correct its status.

    ``Status.OPTIMAL`` survives only where a proof stands behind it: a closed form that meets the leakage, or a
    certificate that verifies, within ``gap`` nats.

    Args:
        problem: The problem.
        answer: What the solver found.
        solver: Name of the solver.
        seed: Seed of the run.
        gap: The gap in nats at which an answer is proved optimal.
        requested: The asked disclosure in nats, or None.
        budget: The asked leakage budget in nats, or None.
        seconds: Time spent, where it is not the answer's.
        lines: Further proofs of the same problem, verified before: those of a curve hold at each of its points.
    """
    channel = problem.check_channel(answer.channel)
    point = problem.evaluate(channel)
    target = point.disclosure if requested is None else requested
    certificate = answer.certificate
    if certificate is not None:
        certificate.verify(problem)
        lines = [*lines, Line(certificate, answer.bound_source)]
    lower, source, proof = _lower_bound(problem, target, lines)
    met = point.disclosure >= target - FEASIBILITY
    if met:  # a channel that falls short may well leak less than the bound
        lower = meet(lower, point.leakage, source)
    upper, missing = None, point.leakage - lower
    if budget is not None:
        met = point.leakage <= budget + FEASIBILITY
        upper = _most_disclosure(problem, budget, certificate, point.disclosure)
        sought = answer.most_free if budget == 0.0 else None
        upper = upper if sought is None else min(upper, max(sought, point.disclosure))
        # A proved line of slope μ turns missing disclosure into leakage: whatever discloses as much as this channel
        # leaks at least budget − μ (upper − disclosure). Only a verified slope counts; no curve is steeper than 1.
        # Near R₀ lines have next to no slope, and what is free is a matter of disclosure.
        price = 1.0 if certificate is None or sought is not None else min(certificate.slope, 1.0)
        missing = (upper - point.disclosure) * price
    status = final_status(answer.status, met=met, proved=missing <= gap + ROUNDING)
    slope = answer.slope
    if slope is None and status is not Status.FAILED:
        slope = min(stationarity(problem, channel)[1], 1.0)
    return Solution(
        problem=problem,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=lower,
        bound_source=source,
        slope=slope,
        status=status,
        certificate=proof if certificate is None else certificate,
        requested=requested,
        budget=budget,
        disclosure_upper_bound=upper,
        solver=solver,
        seed=seed,
        steps=answer.steps,
        seconds=answer.seconds if seconds is None else seconds,
        message=answer.message,
        record=answer.record,
    )


def _lower_bound(
    problem: Problem, disclosure: float, lines: Iterable[Line]
) -> tuple[float, str, Certificate | None]:
    """The best proved bound on L(R), what proves it, and the certificate where it is one."""
    # X itself is the only release that keeps H(X), up to names: its leakage is its bound, without any rounding.
    at_the_top = disclosure >= problem.disclosure_ceiling
    closed = problem.leakage_ceiling if at_the_top else float(problem.lower_bound(disclosure))
    bound, source, proof = max(closed, 0.0), "closed form" if closed > 0.0 else "zero", None
    for line in lines:
        proved = line.certificate.lower_bound(disclosure)
        if proved > bound:
            bound, source, proof = proved, line.source, line.certificate
    return bound, source, proof


def meet(lower: float, leakage: float, source: str, slack: float = FEASIBILITY) -> float:
    """The bound, no higher than the value by rounding: both carry a few ulps. More than that is a wrong proof.

    Args:
        lower: A lower bound on the leakage, in nats.
        leakage: What a channel leaks, in nats.
        source: What proves the bound.
        slack: By how much rounding may let the bound exceed the leakage, in nats.

    Raises:
        SolverError: The bound exceeds the leakage by more.
    """
    if lower > leakage + slack:
        raise SolverError(
            f"the bound {lower!r} ({source}) exceeds the leakage {leakage!r} of a real channel: please report this"
        )
    return min(lower, leakage)


def _most_disclosure(
    problem: Problem, budget: float, certificate: Certificate | None, disclosure: float
) -> float:
    """No channel that leaks at most ``budget`` discloses more than this, in nats; rounded up; found: ``disclosure``."""
    upper = min(problem.disclosure_ceiling, problem.h_x_given_s + budget + problem.rounding)
    if certificate is not None and certificate.slope > 0.0:
        # L(R) ≥ c + μ R and L(R) ≤ budget give R ≤ (budget − c)/μ.
        bought = (budget - certificate.lower_bound(0.0)) / certificate.slope
        upper = min(upper, bought * (1.0 + problem.rounding) + problem.rounding)
    if budget == 0.0 and (problem.n_x <= SMALL or "_free_disclosure_bounds" in vars(problem)):
        # Near R₀ lines have next to no slope; but a channel that leaks as little as rounding may disclose more than R₀.
        free = free_disclosure_bounds(problem)[1]
        upper = free if disclosure <= free < upper else upper
    return float(upper)
