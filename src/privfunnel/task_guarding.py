"""The front door of guarded releases for a task: attackers who know something, guarantees, a disclosure besides."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection
from typing import Any

import numpy as np

from privfunnel import channels
from privfunnel.amounts import check_budget, check_disclosure, check_utility
from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.certificate import GuardedCertificate, TaskCertificate
from privfunnel.errors import InfeasibleError, InvalidInputError, SolverError
from privfunnel.floors import SEARCHED_UP_TO, SHARE
from privfunnel.guarantees import MET
from privfunnel.guarding import INEXACT, Has, Proved, concluded
from privfunnel.judging import meet
from privfunnel.measures import Array
from privfunnel.problem import Channel, Problem
from privfunnel.solution import FAILURES, FEASIBILITY, ROUNDING, ProvedAnswer, Status, failed
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solvers.guarded import Guarded
from privfunnel.solvers.guarded.tasks import Asked, answer_task
from privfunnel.solvers.options import taken_over
from privfunnel.solvers.task import TaskFunnel
from privfunnel.solvers.task.search import all_utility
from privfunnel.task_classes import Classes, classes_of, lifted
from privfunnel.task_solution import TaskSolution
from privfunnel.threats import Threat

#: Public symbols up to which a disclosure besides the utility is searched.
MOST_SYMBOLS = 300
#: Share of the time in which each release that nothing guards is looked for, to begin with its posteriors.
UNGUARDED = 0.1
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
        answer, floor = end_of_guarded_task(problem, threat, asked), None
        if answer is None and problem.n_x > SEARCHED_UP_TO:
            answer, floor = _of_many(problem, threat, solver, asked, (seed, progress), pool)
        elif answer is None:
            answer = answer_task(solver, problem, threat, asked, seed=seed, progress=progress, pool=pool)
        channel = answer.channel
        return judge_guarded_task(problem, threat, answer, solver.gap, asked, seed, floor)
    except FAILURES as error:
        if throw:
            raise
        return failed_guarded_task(problem, threat, channel, error, asked, seed)


def _of_many(
    problem: Problem,
    threat: Threat,
    solver: Guarded,
    asked: Asked,
    run: tuple[int, Listener | None],
    pool: Array | None,
) -> tuple[GuardedTaskAnswer, TaskCertificate | None]:
    """An answer for a table with many public symbols, by classes of them, and what the plain task funnel proves.

    Who knows nothing is among the attackers, and guarantees only take releases away: its bound holds here, too. The
    search begins with the posteriors of ``pool``, (n, M), too.

    Raises:
        InvalidInputError: A disclosure is asked for besides, which is of the symbols, not of their classes.
    """
    if asked.disclosure is not None and problem.n_x > MOST_SYMBOLS:
        raise InvalidInputError(
            f"a disclosure besides the utility is searched on up to {MOST_SYMBOLS} public symbols, there are "
            f"{problem.n_x}: leave disclosure= out, or take coarser columns"
        )
    started, floor = time.perf_counter(), None
    usual = threat.measure == DEFAULT_MEASURE and threat.published is None and not threat.attributes
    if usual and asked.utility is not None:
        plain = TaskFunnel(gap=solver.gap, time_limit=SHARE * solver.time_limit).solve(problem, asked.utility)
        floor = plain.certificate
        lower = 0.0 if floor is None else floor.lower_bound(asked.utility)
        told = max(threat.leakages(problem, plain.channel).values())
        wide = problem.evaluate(plain.channel).disclosure >= (asked.disclosure or 0.0)
        if wide and told - lower <= solver.gap and _allowed(problem, threat, plain.channel):
            said = "the plain task funnel's release"
            return ProvedAnswer(
                channel=plain.channel, status=plain.status, slope=plain.slope, message=said
            ), floor
    spent = min(time.perf_counter() - started, SHARE * solver.time_limit)
    hurried = dataclasses.replace(solver, time_limit=solver.time_limit - spent)
    if asked.disclosure is not None:
        return answer_task(hurried, problem, threat, asked, seed=run[0], progress=run[1], pool=pool), floor
    alike = classes_of(problem, threat)
    begun = [] if pool is None else [_permitted(alike, alike.summed(pool), MET)]
    if usual:
        begun.append(_unguarded(alike, asked, hurried))
    try:
        if (asked.utility or 0.0) > alike.problem.utility_ceiling + FEASIBILITY:
            raise InfeasibleError(f"{alike.problem.n_x} groups keep {alike.problem.utility_ceiling:.9g} nats")
        answer = answer_task(
            hurried, alike.problem, alike.threat, asked, seed=run[0], progress=run[1],
            pool=np.concatenate(begun) if begun else None,
        )  # fmt: skip
    except InfeasibleError as error:
        if alike.exact:
            raise
        # What cells of symbols cannot reach their members may.
        raise SolverError(
            f"utility={asked.utility or 0.0:.9g} nats was not reached with {alike.problem.n_x} groups of the "
            f"{problem.n_x} public symbols, which proves nothing of all of them: lower it, or take coarser columns"
        ) from error
    return lifted(answer, alike, problem, threat), floor


def _unguarded(alike: Classes, asked: Asked, solver: Guarded) -> Array:
    """Posteriors (n, classes) of releases that nothing guards and that the guarantees allow all the same.

    Without leakage every output has p(s|y) = p(s), which most guarantees allow: no search has to find that again.
    """
    problem = alike.problem
    funnel = TaskFunnel(gap=solver.gap, time_limit=UNGUARDED * solver.time_limit)
    made = [funnel.free(problem)]
    if asked.utility is not None and 0.0 < asked.utility < problem.utility_ceiling:
        made.append(funnel.solve(problem, asked.utility))
    found = []
    for answer in made:
        p_xy = np.asarray(channels.joint(problem.p_x, answer.channel))
        likely = p_xy.sum(axis=0)
        found.append((p_xy[:, likely > 0.0] / likely[likely > 0.0]).T)
    return _permitted(alike, np.concatenate(found), 0.0)


def _permitted(alike: Classes, listed: Array, most: float) -> Array:
    """Those of the posteriors (n, classes) that no guarantee forbids by more than ``most``.

    Each lies in one stratum of what is published, and guarantees are relative to what everyone knows there.
    """
    kept = np.zeros(len(listed), dtype=np.bool_)
    for stratum in alike.threat.strata(alike.problem):
        for i in np.flatnonzero(listed[:, stratum.x].any(axis=1)):
            own = listed[i, stratum.x]
            kept[i] = all(each.excess(stratum.problem, own) <= most for each in alike.threat.guarantees)
    return np.asarray(listed[kept])


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


def all_of_task(problem: Problem, utility: float) -> bool:
    """Whether a utility in nats is I(U;X), but for rounding.

    Symbols whose p(u|x) differ by little may be told apart for less than any larger tolerance, and leak a lot.
    """
    return utility >= problem.utility_ceiling - ROUNDING * max(problem.utility_ceiling, 1.0)


def whole_task(problem: Problem, threat: Threat) -> Channel | None:
    """The release of p(u|x), beside what is published, that keeps all of I(U;X); None where guarantees forbid it."""
    found = all_utility(problem)
    whole, shown = found.table, threat.published
    if shown is not None:
        both = np.unique(found.cells.of * shown.n_values + shown.values, return_inverse=True)[1].reshape(-1)
        whole = np.eye(int(both.max()) + 1)[both]
    return whole if _allowed(problem, threat, whole) else None


def _allowed(problem: Problem, threat: Threat, channel: Channel) -> bool:
    """Whether a channel meets the guarantees, sparse or not."""
    return not threat.guarantees or threat.excess(problem, channel) <= MET


def _itself(problem: Problem, threat: Threat) -> Channel | None:
    """The release of X, the only one that discloses H(X), up to names; None where guarantees forbid it."""
    itself = channels.identity(problem.n_x)
    return itself if _allowed(problem, threat, itself) else None


def judge_guarded_task(
    problem: Problem,
    threat: Threat,
    answer: GuardedTaskAnswer,
    gap: float,
    asked: Asked,
    seed: int,
    floor: TaskCertificate | None = None,
) -> TaskSolution:
    """Make a solution of an answer: evaluate its channel, verify its certificate, and correct its status.

    Args:
        problem: The problem, with a task.
        threat: What it is guarded against.
        answer: What the solver found.
        gap: The gap in nats at which an answer is proved optimal.
        asked: What was asked for.
        seed: Seed of the run.
        floor: What the plain task funnel proves of it.
    """
    channel = problem.check_channel(answer.channel)
    leakages, point = threat.leakages(problem, channel), problem.evaluate(channel)
    kept = float(point.utility or 0.0)
    lower, source, upper = _proved(problem, threat, answer, asked, kept)
    proof: GuardedCertificate | TaskCertificate | None = answer.certificate
    if floor is not None and asked.utility is not None:
        floor.verify(problem)
        bound = floor.lower_bound(asked.utility)
        lower, source, proof = (bound, "certificate", floor) if bound > lower else (lower, source, proof)
    exact = not threat.guarantees and not threat.attributes and (asked.leakage is None or asked.leakage > 0.0)
    if asked.utility is not None:
        meet(lower, max(leakages.values()), source, FEASIBILITY if exact else INEXACT)
    wide = point.disclosure >= (asked.disclosure or 0.0) - FEASIBILITY
    has, proved = Has(channel, point.disclosure, leakages, kept, wide), Proved(lower, source, upper, proof)
    # Utility is compared in units of the largest weight.
    unit = 1.0 if asked.utility is not None else float(problem.required_tasks().weights.max())
    made = concluded(problem, threat, answer, has, proved, (asked.utility, asked.leakage), unit * gap, seed)
    return TaskSolution.of(
        made,
        requested=asked.disclosure,
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
    elif all_of_task(problem, target):
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
    kept, most = problem.evaluate(plain.mapping).utility, problem.utility_ceiling
    return TaskSolution.of(
        plain,
        threat=None if threat.plain else threat,
        utility=float(kept or 0.0),
        requested_utility=asked.utility,
        utility_upper_bound=most if asked.utility is None else None,
    )
