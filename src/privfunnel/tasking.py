"""The front door of task funnels: least leakage at a utility, most utility within a leakage, judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from privfunnel import channels
from privfunnel.amounts import check_budget, check_disclosure, check_utility
from privfunnel.coupling import couple
from privfunnel.errors import InvalidInputError
from privfunnel.problem import Problem
from privfunnel.solution import FAILURES, FEASIBILITY, ROUNDING, Status, failed, final_status
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.guarded import Guarded
from privfunnel.solvers.options import taken_over
from privfunnel.solvers.task import TaskAnswer, TaskFunnel
from privfunnel.solvers.task.cells import classes
from privfunnel.solvers.task.search import all_utility
from privfunnel.task_guarding import all_of_task, solve_guarded_task
from privfunnel.task_solution import TaskSolution
from privfunnel.threats import Threat

#: Share of the time limit for a release without regard to its disclosure, where one is asked for besides, and the least
#: share that the search has that regards it.
FIRST, LAST = 0.5, 0.1


def task_solver(chosen: Solver, named: Collection[str] = ()) -> TaskFunnel:
    """The solver of task funnels with the options of ``chosen``: see :func:`~privfunnel.solvers.options.taken_over`."""
    return taken_over(TaskFunnel, chosen, named, "a utility is asked for")


def solve_task(
    problem: Problem,
    solver: TaskFunnel,
    asked: tuple[float | str | None, Any, float | str | None],
    seed: int,
    progress: Listener | None,
    *,
    throw: bool = True,
) -> TaskSolution:
    """One point of a task funnel, judged: numbers recomputed from the channel, the certificate verified.

    Args:
        problem: The problem, with a task.
        solver: The solver.
        asked: Least utility, what may leak, and least disclosure; None for what was not asked for.
        seed: Fixes all randomness; there is none.
        progress: Called with news.
        throw: If False, what cannot be had and what goes wrong is a status.

    Where symbols that are alike disclose too little of what is asked for besides, the release is searched by the solver
    of guarded ones.

    Raises:
        InvalidInputError: What was asked for makes no sense.
        InfeasibleError: The utility exceeds I(U;X), or nothing within the leakage discloses enough.
        CertificateError: The certificate does not prove its bound.
    """
    utility, leakage, disclosure = asked
    if (utility is None) == (leakage is None):
        raise InvalidInputError(
            "give exactly one of utility= (nats of the task to keep) and leakage= (nats to spend)"
        )
    wanted = budget = None
    channel: Any = channels.constant(problem.n_x)
    try:
        wanted = None if utility is None else check_utility(problem, utility)
        budget = None if leakage is None else check_budget(problem, leakage)
        answer, deadline = end_of_task_curve(problem, wanted, budget), Deadline(solver.time_limit)
        # The rest of the time is for a search that discloses enough, where that is asked for besides.
        first = (
            solver
            if disclosure is None
            else dataclasses.replace(solver, time_limit=FIRST * solver.time_limit)
        )
        if answer is None and wanted is not None:
            answer = first.solve(problem, wanted, progress=progress)
        elif answer is None and budget is not None and budget > 0.0:
            answer = first.solve_leakage(problem, budget, progress=progress)
        elif answer is None:
            answer = first.free(problem, progress=progress)
        channel = answer.channel
        if disclosure is not None:
            wide = _disclosing(problem, channel, check_disclosure(problem, disclosure))
            if wide is None:
                left = max(deadline.left(), LAST * solver.time_limit)
                other = Guarded(gap=solver.gap, time_limit=left)
                return solve_guarded_task(
                    problem,
                    Threat.of(problem),
                    other,
                    (wanted, budget, disclosure),
                    seed,
                    progress,
                    throw=throw,
                )
            answer = dataclasses.replace(answer, channel=wide)
        return judge_task(problem, answer, solver.gap, (wanted, budget), seed)
    except FAILURES as error:
        if throw:
            raise
        return failed_task(problem, channel, error, (wanted, budget), seed)


def end_of_task_curve(problem: Problem, utility: float | None, budget: float | None) -> TaskAnswer | None:
    """What needs no search: nothing, and all that the task can use."""
    if utility is not None and utility <= FEASIBILITY:
        return TaskAnswer(channel=channels.constant(problem.n_x), status=Status.OPTIMAL, slope=0.0)
    whole = all_utility(problem)
    if utility is not None:
        enough = utility >= problem.utility_ceiling - FEASIBILITY
    else:
        enough = budget is not None and whole.leakage <= budget
    return TaskAnswer(channel=whole.table, status=Status.OPTIMAL) if enough else None


def judge_task(
    problem: Problem,
    answer: TaskAnswer,
    gap: float,
    asked: tuple[float | None, float | None],
    seed: int,
) -> TaskSolution:
    """Make a solution of an answer: evaluate its channel, verify its certificate, and correct its status.

    Args:
        problem: The problem, with a task.
        answer: What the solver found.
        gap: The gap in nats at which an answer is proved optimal.
        asked: The utility and the leakage that were asked for, in nats; None for what was not.
        seed: Seed of the run.
    """
    requested, budget = asked
    channel = problem.check_channel(answer.channel)
    point = problem.evaluate(channel)
    kept = float(point.utility or 0.0)
    ceiling = problem.utility_ceiling
    target = kept if requested is None else requested
    lower, source, upper = 0.0, "zero", ceiling
    if answer.certificate is not None:
        answer.certificate.verify(problem)
        bound = answer.certificate.lower_bound(target)
        lower, source = (bound, "certificate") if bound > 0.0 else (lower, source)
        upper = min(upper, answer.certificate.most_utility(0.0 if budget is None else budget))
    if all_of_task(problem, target):
        # All of I(U;X) is kept only by a release that tells symbols with different p(u|x) apart.
        lower, source = all_utility(problem).leakage, "closed form"
    # Utility is compared in units of the largest weight.
    unit = float(problem.required_tasks().weights.max())
    if requested is not None:
        met = kept >= requested - FEASIBILITY * max(unit, 1.0)
        proved = point.leakage - lower <= gap + ROUNDING
    else:
        met = point.leakage <= (budget or 0.0) + FEASIBILITY
        slope = answer.certificate.slope if answer.certificate is not None else 1.0
        proved = (upper - kept) * (slope if budget else 1.0 / unit) <= gap + ROUNDING
    return TaskSolution(
        problem=problem,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=min(lower, point.leakage),
        bound_source=source,
        slope=answer.slope,
        status=final_status(answer.status, met=met, proved=proved),
        certificate=answer.certificate,
        budget=budget,
        solver=TaskFunnel.name,
        seed=seed,
        steps=answer.steps,
        seconds=answer.seconds,
        message=answer.message,
        utility=kept,
        requested_utility=requested,
        utility_upper_bound=None if requested is not None else max(upper, kept),
    )


def _disclosing(problem: Problem, channel: Any, disclosure: float) -> Any:
    """A channel with the same leakage and utility that discloses ``disclosure`` nats; None where it costs more.

    Members of a class with the same p(s|x) and p(u|x) may be released with the output: see
    :mod:`privfunnel.lumping`. That is all that is free.
    """
    have = problem.evaluate(channel).disclosure
    if have >= disclosure - FEASIBILITY:
        return channel
    of = classes(problem).of
    first = np.unique(of, return_index=True)[1]
    rows = channel if isinstance(channel, np.ndarray) else channel.tocsr()
    wide = channels.as_held(couple(of, problem.p_x, rows[first]).channel)
    return wide if problem.evaluate(wide).disclosure >= disclosure - FEASIBILITY else None


def failed_task(
    problem: Problem,
    channel: Any,
    error: Exception,
    asked: tuple[float | None, float | None],
    seed: int,
) -> TaskSolution:
    """What is left of an answer that cannot be believed: see :func:`privfunnel.solution.failed`.

    Args:
        problem: The problem, with a task.
        channel: The answer's channel.
        error: What is wrong with the answer.
        asked: The utility and the leakage that were asked for, in nats; None for what was not.
        seed: Seed of the run.
    """
    utility, budget = asked
    plain = failed(problem, channel, error, TaskFunnel.name, seed, budget=budget)
    kept = problem.evaluate(plain.mapping).utility
    return TaskSolution.of(
        plain,
        utility=float(kept or 0.0),
        requested_utility=utility if utility is not None or budget is not None else problem.utility_ceiling,
        utility_upper_bound=None if budget is None else problem.utility_ceiling,
    )
