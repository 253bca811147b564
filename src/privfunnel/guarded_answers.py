"""The quickest way to an answer of a guarded funnel: its ends, strata by themselves, the plain funnel, or a search."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import NamedTuple

import numpy as np

from privfunnel import channels, unsearched
from privfunnel.ends import closed_form
from privfunnel.floors import SEARCHED_UP_TO, SHARE, Floor, plain_floor
from privfunnel.guarantees import MET
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import FEASIBILITY, Status
from privfunnel.solvers.base import Listener
from privfunnel.solvers.guarded import Guarded, GuardedAnswer
from privfunnel.solvers.guarded.stratified import is_for, solve_strata
from privfunnel.threats import Threat


class Request(NamedTuple):
    """What is asked of whom: the disclosure and the leakage ``asked`` for are in nats, None for what was not.

    ``pool`` (n, M) has allowed posteriors to begin with, those of other points of the same curve.
    """

    problem: Problem
    threat: Threat
    solver: Guarded
    asked: tuple[float | None, float | None]
    seed: int
    progress: Listener | None
    pool: Array | None


def answered(request: Request) -> tuple[GuardedAnswer, Floor | None]:
    """An answer by the quickest way there is, and what the plain funnel says of it where it was asked."""
    problem, threat, solver, asked, seed, *_ = request
    answer, started, floor = _end(request), time.perf_counter(), None
    if answer is None and problem.n_x > SEARCHED_UP_TO and is_for(problem, threat, asked):
        answer = solve_strata(problem, threat, asked, solver.time_limit)
    if answer is None:
        floor = plain_floor(problem, threat, asked, (solver.gap, solver.time_limit), seed)
        answer = None if floor is None else _enough(request, floor)
    if answer is None:
        spent = min(time.perf_counter() - started, SHARE * solver.time_limit)
        hurried = dataclasses.replace(solver, time_limit=solver.time_limit - spent)
        answer = _searched(request._replace(solver=hurried), floor)
    return answer, floor


def _end(request: Request) -> GuardedAnswer | None:
    """What needs no search: nothing beyond what is published, and X itself."""
    problem, threat, (disclosure, leakage) = request.problem, request.threat, request.asked
    least = threat.nothing(problem)
    if disclosure is not None and disclosure <= problem.evaluate(least).disclosure + FEASIBILITY:
        return GuardedAnswer(channel=least, status=Status.OPTIMAL, slope=0.0)
    whole = channels.identity(problem.n_x)
    allowed = not threat.guarantees or threat.excess(problem, whole) <= MET
    asked = disclosure is not None and disclosure >= problem.disclosure_ceiling - FEASIBILITY
    enough = threat.overspent(threat.leakages(problem, whole), leakage) <= 0.0
    if allowed and (asked or (disclosure is None and enough)):
        return GuardedAnswer(channel=whole, status=Status.OPTIMAL)
    return None


def _enough(request: Request, floor: Floor) -> GuardedAnswer | None:
    """The plain funnel's release where it is good enough against everybody, and its bound says that none is better."""
    problem, threat, gap = request.problem, request.threat, request.solver.gap
    if threat.guarantees and threat.excess(problem, floor.channel) > MET:
        return None
    (disclosure, leakage), kept = request.asked, problem.evaluate(floor.channel).disclosure
    told = threat.leakages(problem, floor.channel)
    if disclosure is not None:
        lower = max(floor.lower_bound(disclosure), float(closed_form(problem, threat, disclosure)))
        good = kept >= disclosure - FEASIBILITY and max(told.values()) - lower <= gap
    else:
        most = min(floor.most_disclosure(float(leakage or 0.0)), problem.disclosure_ceiling)
        good = threat.overspent(told, leakage) <= FEASIBILITY and most - kept <= gap
    if not good:
        return None
    return GuardedAnswer(
        channel=floor.channel, status=Status.OPTIMAL, slope=floor.slope, message="the plain funnel's release"
    )


def _searched(request: Request, floor: Floor | None) -> GuardedAnswer:
    """What the search finds, from the posteriors of the pool on, no further than what the plain funnel proves."""
    problem, threat, solver, (disclosure, leakage), seed, progress, pool = request
    if problem.n_x > unsearched.MOST_SEARCHED:
        return unsearched.without_search(problem, threat, request.asked, solver.time_limit, seed)
    least = -math.inf
    if floor is not None:
        most = floor.most_disclosure(float(leakage or 0.0))
        least = problem.disclosure_ceiling - most
        if disclosure is not None:
            least = threat.convex.average(floor.lower_bound(disclosure))
    if floor is not None and not threat.guarantees:  # which say what posteriors are allowed
        own = floor.posteriors(problem)
        pool = own if pool is None else np.concatenate([pool, own])
    return solver.answer(
        problem,
        threat,
        disclosure=disclosure,
        leakage=leakage,
        seed=seed,
        progress=progress,
        pool=pool,
        least=least,
    )
