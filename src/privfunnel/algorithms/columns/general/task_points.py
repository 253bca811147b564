"""Guarded releases for a task: the least leakage at a utility, or the most utility within what may leak.

What is searched is the same as without a task, :mod:`.search`, on points that have p(u|y) behind the posterior.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from privfunnel.algorithms.columns.general.master import Master, Purpose
from privfunnel.algorithms.columns.general.search import Search
from privfunnel.algorithms.deadline import Limits
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InfeasibleError, SolverError
from privfunnel.infra.watching import Listener
from privfunnel.measures import Array
from privfunnel.model.question import FEASIBILITY, Question

if TYPE_CHECKING:
    from privfunnel.algorithms.columns.general import Guarded

#: A channel may fall short of the program by rounding: aim so much higher, in nats.
AIM = 5e-10
#: Where the program's value is known to be no less than some bound, this share of the gap above it is good enough.
ENOUGH = 0.8


def answer_task(
    solver: Guarded,
    question: Question,
    *,
    seed: int = 0,
    progress: Listener | None = None,
    pool: Array | None = None,
    least: float = -math.inf,
) -> Answer:
    """One point of a guarded task funnel.

    Args:
        solver: Gap and limits.
        question: A question about a task; against who knows nothing for a disclosure besides.
        seed: Fixes all randomness.
        progress: Called with news.
        pool: Allowed posteriors to begin with, (n, M).
        least: What the leakage is known to be no less than, or −utility where the most is looked for, in nats.

    Raises:
        InfeasibleError: The guarantees do not allow that much.
        SolverError: The limits came before a release that keeps so much was found.
    """
    problem, threat, started = question.problem, question.guards, time.perf_counter()
    tasks = problem.required_tasks()
    budgets = [question.budget, *(one.budget for one in threat.attributes)]
    zero = threat.measure.faithful and any(each <= 0.0 for each in budgets)
    search = Search(
        problem, threat, zero=zero, rng=np.random.default_rng(seed),
        limits=Limits(solver.time_limit, nodes=solver.node_limit), pool=pool, tasks=tasks,
    )  # fmt: skip
    ahead = AIM * min(float(tasks.weights.max()), 1.0)  # a nat of a task that hardly counts is dear
    aim = min(question.utility + ahead, tasks.ceiling) if question.names_place else None
    wide = (
        min(question.disclosure + AIM, problem.disclosure_ceiling) if question.disclosure > 0.0 else -math.inf
    )
    averages = np.where(threat.silent(zero=zero), np.inf, threat.limits(question.budget))
    limits = averages if aim is None else None
    master = Master(problem, threat, disclosure=wide, limits=limits, purpose=Purpose(tasks, aim))
    _make_room(search, master, (aim, wide), solver.gap)
    known = least if aim is not None else (tasks.h_u + least) / master.unit
    outcome = search.close(master, solver.gap, progress, enough=known + ENOUGH * solver.gap)
    total = float(outcome.duals.weights.sum())
    slope = (outcome.duals.task_slope or 0.0) / total if total > 0.0 else 0.0 if zero else None
    return Answer(
        channel=outcome.channel,
        status=outcome.status,
        slope=slope,
        certificate=outcome.certificate,
        steps=outcome.opened,
        seconds=time.perf_counter() - started,
        message=f"{len(master.posteriors)} posteriors, {outcome.opened} boxes",
    )


def _make_room(search: Search, master: Master, floors: tuple[float | None, float], gap: float) -> None:
    """Fill the pool until the utility and the disclosure asked for, ``floors``, are possible.

    Without guarantees, and where something may leak, X itself keeps and discloses all there is.
    """
    (utility, disclosure), problem, tasks = floors, search.problem, search.tasks
    narrow = bool(search.threat.guarantees) or search.zero
    if disclosure > 0.0 and narrow:
        most = Master(problem, search.threat)
        _reach(search, most, ("disclosure", disclosure, problem.disclosure_ceiling), gap)
        master.add(most.posteriors)
    if utility is not None and narrow and tasks is not None:
        best = Master(problem, search.threat, disclosure=disclosure, purpose=Purpose(tasks))
        best.add(master.posteriors)
        _reach(search, best, ("utility", utility, tasks.h_u), gap)
        master.add(best.posteriors)


def _reach(search: Search, most: Master, wanted: tuple[str, float, float], gap: float) -> None:
    """Add posteriors until so much of something, its name, nats and what the program's value is below, is possible.

    Raises:
        InfeasibleError: The guarantees do not allow it.
        SolverError: The limits came first.
    """
    name, amount, whole = wanted
    outcome = search.close(most, gap, enough=(whole - amount) / most.unit, prove=False)
    largest = whole - most.unit * outcome.duals.value
    if largest >= amount - FEASIBILITY:
        return
    besides = " besides the disclosure" if name == "utility" and most.floored else ""
    if outcome.status is not Status.OPTIMAL:
        raise SolverError(
            f"{name}={amount:.9g} nats was not reached{besides} before the limits came, {largest:.9g} nats were: raise "
            "time_limit, or lower it"
        )
    what = "the guarantees allow" if search.threat.guarantees else "without leakage there are"
    raise InfeasibleError(
        f"{name}={amount:.9g} nats is infeasible{besides}: {what} {largest:.9g} nats; lower it"
    )
