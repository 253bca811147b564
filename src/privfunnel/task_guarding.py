"""The front door of guarded releases for a task: attackers who know something, guarantees, a disclosure besides."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from privfunnel import channels
from privfunnel.amounts import check_budget, check_disclosure, check_utility
from privfunnel.certificate import GuardedCertificate
from privfunnel.errors import InvalidInputError, SolverError
from privfunnel.guarantees import MET
from privfunnel.guarding import INEXACT, slope_of
from privfunnel.measures import Array
from privfunnel.problem import Channel, Problem
from privfunnel.solution import FAILURES, FEASIBILITY, ROUNDING, ProvedAnswer, Status, failed, final_status
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solvers.guarded import Guarded
from privfunnel.solvers.guarded.tasks import Asked, answer_task
from privfunnel.solvers.options import taken_over
from privfunnel.solvers.task import TaskFunnel
from privfunnel.solvers.task.search import all_utility
from privfunnel.task_solution import TaskSolution
from privfunnel.threats import Threat

#: What was asked for as it was written: utility, leakage, disclosure.
Written = tuple[float | str | None, float | str | None, float | str | None]

GuardedTaskAnswer = ProvedAnswer[GuardedCertificate]


def guarded_task_solver(chosen: Solver, named: Collection[str] = ()) -> Guarded:
    """The guarded solver with the options of ``chosen``, and the gap of task funnels where none is named."""
    made = taken_over(
        Guarded, chosen, named, "a release for a task is guarded, or discloses something besides"
    )
    return made if "gap" in named else dataclasses.replace(made, gap=max(made.gap, TaskFunnel().gap))


def solve_guarded_task(
    problem: Problem,
    threat: Threat,
    solver: Guarded,
    written: Written,
    seed: int,
    progress: Listener | None,
    *,
    throw: bool = True,
    pool: Array | None = None,
) -> TaskSolution:
    """One point of a guarded task funnel, judged: numbers recomputed from the channel, the certificate verified.

    Args:
        problem: The problem, with a task.
        threat: Attackers, published columns and guarantees; the plain one where only a disclosure is asked for besides.
        solver: The solver.
        written: Least utility, what may leak to any attacker, and least disclosure; None for what was not asked for.
            With neither of the first two the most utility that the guarantees, or the attributes' budgets, allow.
        seed: Fixes all randomness.
        progress: Called with news.
        throw: If False, what cannot be had and what goes wrong is a status.
        pool: Allowed posteriors to begin with, (n, M): those of other points of the same curve.

    Raises:
        InvalidInputError: What was asked for makes no sense.
        InfeasibleError: The guarantees do not allow that much.
        CertificateError: The certificate does not prove its bound.
    """
    _check(threat, written)
    channel, asked = threat.nothing(problem), Asked()
    try:
        asked = _asked(problem, threat, written)
        answer = end_of_guarded_task(problem, threat, asked)
        if answer is None:
            answer = answer_task(solver, problem, threat, asked, seed=seed, progress=progress, pool=pool)
        channel = answer.channel
        return judge_guarded_task(problem, threat, answer, solver.gap, asked, seed)
    except FAILURES as error:
        if throw:
            raise
        return failed_guarded_task(problem, threat, channel, error, asked, seed)


def _check(threat: Threat, written: Written) -> None:
    """Raise InvalidInputError where what was asked for makes no sense."""
    utility, leakage, disclosure = written
    if utility is not None and leakage is not None:
        raise InvalidInputError(
            "give exactly one of utility= (nats of the task to keep) and leakage= (nats to spend)"
        )
    if utility is None and leakage is None and not threat.guarantees and not threat.attributes:
        raise InvalidInputError(
            "give utility= (nats of the task to keep) or leakage= (nats to spend); with guarantees= neither is needed"
        )
    if threat.attributes and (utility is not None or disclosure is not None):
        raise InvalidInputError(
            "attributes with budgets of their own are for the most utility: leave utility= and disclosure= out"
        )


def _asked(problem: Problem, threat: Threat, written: Written) -> Asked:
    """What was asked for, in nats."""
    utility, leakage, disclosure = written
    return Asked(
        None if utility is None else check_utility(problem, utility),
        None if leakage is None else check_budget(problem, leakage, threat.measure),
        None if disclosure is None else check_disclosure(problem, disclosure),
    )


def end_of_guarded_task(problem: Problem, threat: Threat, asked: Asked) -> GuardedTaskAnswer | None:
    """What needs no search: nothing beyond what is published, all that the task can use, and X itself.

    Who keeps all of I(U;X) tells symbols with different p(u|x) apart. By data processing no such release leaks less
    than those classes T themselves, to any attacker, and T meets the guarantees where any such release does.
    """
    wide = asked.disclosure or 0.0
    nothing = threat.nothing(problem)
    least = problem.evaluate(nothing)
    if (
        asked.utility is not None
        and asked.utility <= float(least.utility or 0.0) + FEASIBILITY
        and wide <= least.disclosure + FEASIBILITY
    ):
        return ProvedAnswer(channel=nothing, status=Status.OPTIMAL, slope=0.0)
    if wide >= problem.disclosure_ceiling - FEASIBILITY:
        itself = _itself(problem, threat)
        return None if itself is None else ProvedAnswer(channel=itself, status=Status.OPTIMAL)
    whole = whole_task(problem, threat)
    if whole is None or problem.evaluate(whole).disclosure < wide - FEASIBILITY:
        return None
    if asked.utility is not None:
        enough = asked.utility >= problem.utility_ceiling - FEASIBILITY
    else:
        enough = threat.overspent(threat.leakages(problem, whole), asked.leakage) <= 0.0
    return ProvedAnswer(channel=whole, status=Status.OPTIMAL) if enough else None


def whole_task(problem: Problem, threat: Threat) -> Channel | None:
    """The release of p(u|x), beside what is published, that keeps all of I(U;X); None where guarantees forbid it."""
    found = all_utility(problem)
    whole, shown = found.table, threat.published
    if shown is not None:
        both = np.unique(found.cells.of * shown.n_values + shown.values, return_inverse=True)[1].reshape(-1)
        whole = np.eye(int(both.max()) + 1)[both]
    return None if threat.guarantees and threat.excess(problem, whole) > MET else whole


def _itself(problem: Problem, threat: Threat) -> Channel | None:
    """The release of X, the only one that discloses H(X), up to names; None where guarantees forbid it."""
    itself = channels.identity(problem.n_x)
    return None if threat.guarantees and threat.excess(problem, itself) > MET else itself


def judge_guarded_task(
    problem: Problem, threat: Threat, answer: GuardedTaskAnswer, gap: float, asked: Asked, seed: int
) -> TaskSolution:
    """Make a solution of an answer: evaluate its channel, verify its certificate, and correct its status.

    Args:
        problem: The problem, with a task.
        threat: What it is guarded against.
        answer: What the solver found.
        gap: The gap in nats at which an answer is proved optimal.
        asked: What was asked for.
        seed: Seed of the run.
    """
    channel = problem.check_channel(answer.channel)
    leakages, point = threat.leakages(problem, channel), problem.evaluate(channel)
    leakage, kept = max(leakages.values()), float(point.utility or 0.0)
    lower, source, upper = _proved(problem, threat, answer, asked, kept)
    exact = not threat.guarantees and not threat.attributes and (asked.leakage is None or asked.leakage > 0.0)
    if asked.utility is not None and lower > leakage + (FEASIBILITY if exact else INEXACT):
        raise SolverError(
            f"the bound {lower!r} ({source}) exceeds the leakage {leakage!r} of a real channel: please report this"
        )
    met = not threat.guarantees or threat.excess(problem, channel) <= MET
    met = met and point.disclosure >= (asked.disclosure or 0.0) - FEASIBILITY
    if asked.utility is None:
        met = met and threat.overspent(leakages, asked.leakage) <= FEASIBILITY
        proved = upper - kept <= gap + ROUNDING
    else:
        met = met and kept >= asked.utility - FEASIBILITY
        proved = leakage - lower <= gap + ROUNDING
    return TaskSolution(
        problem=problem,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=leakage,
        lower_bound=min(lower, leakage),
        bound_source=source,
        slope=slope_of(threat, answer.slope, leakage),
        status=final_status(answer.status, met=met, proved=proved),
        certificate=answer.certificate,
        requested=asked.disclosure,
        budget=asked.leakage,
        solver=Guarded.name,
        seed=seed,
        steps=answer.steps,
        seconds=answer.seconds,
        message=answer.message,
        threat=None if threat.plain else threat,
        utility=kept,
        requested_utility=asked.utility,
        utility_upper_bound=None if asked.utility is not None else max(upper, kept),
    )


def _proved(
    problem: Problem, threat: Threat, answer: GuardedTaskAnswer, asked: Asked, kept: float
) -> tuple[float, str, float]:
    """A lower bound on the leakage at the asked utility, or at ``kept``, what proves it, and the most utility."""
    lower, source, upper = 0.0, "zero", problem.utility_ceiling
    target = kept if asked.utility is None else asked.utility
    only: Channel | None = None
    if (asked.disclosure or 0.0) >= problem.disclosure_ceiling - FEASIBILITY:
        only = _itself(problem, threat)
    elif target >= problem.utility_ceiling - FEASIBILITY:
        only = whole_task(problem, threat)
    if only is not None:
        lower, source = max(threat.leakages(problem, only).values()), "closed form"
    if answer.certificate is not None:
        answer.certificate.verify(problem)
        wide = asked.disclosure or 0.0
        bound = answer.certificate.lower_bound(wide, target)
        lower, source = (bound, "certificate") if bound > lower else (lower, source)
        upper = min(upper, answer.certificate.most_utility(asked.leakage or 0.0, wide))
    return lower, source, upper


def failed_guarded_task(
    problem: Problem, threat: Threat, channel: Any, error: Exception, asked: Asked, seed: int
) -> TaskSolution:
    """What is left of an answer that cannot be believed: see :func:`privfunnel.solution.failed`."""
    plain = failed(problem, channel, error, Guarded.name, seed, requested=asked.disclosure, budget=asked.leakage,
                   threat=threat)  # fmt: skip
    shared = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    kept, most = problem.evaluate(plain.mapping).utility, problem.utility_ceiling
    return TaskSolution(
        **shared | {"disclosure_upper_bound": None, "threat": None if threat.plain else threat},
        utility=float(kept or 0.0),
        requested_utility=asked.utility,
        utility_upper_bound=most if asked.utility is None else None,
    )
