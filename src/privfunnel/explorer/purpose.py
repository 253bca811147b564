"""A release for a task on the page: its curve along utility, what it is good for, and what would be as good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.explorer import guards
from privfunnel.guarded_task_tracing import tracing_guarded_task
from privfunnel.guessing import Guess
from privfunnel.measures import guessing_accuracy
from privfunnel.problem import Problem
from privfunnel.report.rounding import Exact
from privfunnel.solution import FEASIBILITY, Solution
from privfunnel.solvers.base import Listener
from privfunnel.solvers.options import SAME_SOLVER
from privfunnel.solvers.task import TaskFunnel
from privfunnel.tables import Counts
from privfunnel.task_alternatives import instead_for_task
from privfunnel.task_curve import PartialTaskCurve, tracing_task, wanted_utilities
from privfunnel.task_solution import TaskSolution
from privfunnel.tasking import solve_task

#: Seconds that the points of a curve may take together: somebody is waiting.
SECONDS = 60.0


def check(solver: str) -> None:
    """Refuse what a release for a task does not go with."""
    if solver not in SAME_SOLVER:
        raise InvalidInputError(
            f"the solver {solver!r} knows no task: choose auto, or let the release be for anything"
        )


def following(problem: Problem, points: int, seed: int, progress: Listener) -> Iterator[PartialTaskCurve]:
    """Trace the curve of a task and say what was found after each point: 0, what is free, and on to all of I(U;X)."""
    solver = TaskFunnel(time_limit=SECONDS)
    nothing = solve_task(problem, solver, (0.0, None, None), seed, None)
    free = solve_task(problem, solver, (None, 0.0, None), seed, progress, throw=False)
    known = (nothing, free) if free.utility > FEASIBILITY and free.leakage <= FEASIBILITY else (nothing,)
    start = PartialTaskCurve(problem=problem, solver=solver, seed=seed, points=known, throw=False)
    yield start
    even = np.linspace(known[-1].utility, problem.utility_ceiling, points)[1:]
    if known[-1].utility < problem.utility_ceiling - FEASIBILITY:
        yield from tracing_task(start, even.tolist(), progress)
    else:
        yield replace(start, complete=True)


def following_guarded(
    problem: Problem, asked: Mapping[str, Any], points: int, seed: int, progress: Listener
) -> Iterator[PartialTaskCurve]:
    """The same against guards, see :func:`.guards.threat_of`: from what is published to what the guarantees allow."""
    threat = guards.threat_of(problem, asked)
    start = PartialTaskCurve(problem=problem, solver=guards.solver(), seed=seed, threat=threat, throw=False)
    return tracing_guarded_task(start, points, progress)


def further(
    found: PartialTaskCurve, utilities: Sequence[float], progress: Listener
) -> Iterator[PartialTaskCurve]:
    """Add points to a curve, at utilities in nats."""
    if found.threat is not None:
        new = [utility for utility in utilities if utility not in utilities_of(found)]
        for partial in tracing_guarded_task(found, new, progress) if new else ():
            ordered = sorted(partial.points, key=lambda s: getattr(s, "utility", 0.0))
            yield replace(partial, points=tuple(ordered), complete=found.complete)
        return
    alone = replace(found, points=(), complete=False)
    for partial in tracing_task(alone, wanted_utilities(found.problem, utilities), progress):
        both = sorted((*found.points, *partial.points), key=lambda s: getattr(s, "utility", 0.0))
        yield replace(partial, points=tuple(both), complete=found.complete or partial.complete)


def utilities_of(found: PartialTaskCurve) -> tuple[float, ...]:
    """The utilities that the points were asked for, in nats; that of what is free."""
    points = (s for s in found.points if isinstance(s, TaskSolution))
    return tuple(sorted({s.utility if s.requested_utility is None else s.requested_utility for s in points}))


def good_for(solution: Solution) -> list[dict[str, Any]]:
    """How often each task is guessed right without the release, with it, and from the public columns themselves."""
    problem = solution.problem
    found = []
    for task in problem.tasks.tasks if problem.tasks is not None else ():
        p_ux = task.p_u_given_x * problem.p_x
        guess = Guess(
            task.name,
            float(task.p_u(problem.p_x).max()),
            float(guessing_accuracy(np.asarray(p_ux @ solution.channel))),
            float(guessing_accuracy(p_ux)),
        )
        found.append(vars(guess))
    return found


def described(solution: Solution) -> dict[str, Any]:
    """What the page shows of the task at a point: nothing where there is none."""
    if not isinstance(solution, TaskSolution):
        return {"task": None, "useful": []}
    tasks = solution.problem.required_tasks()
    share = solution.utility / tasks.ceiling
    name = " and ".join(tasks.names)
    return {
        "task": {"name": name, "utility": solution.utility, "share": share, "words": words(solution)},
        "useful": good_for(solution),
    }


def words(solution: TaskSolution) -> str:
    """Say how much of the task is kept."""
    tasks = solution.problem.required_tasks()
    kept = Exact().percent(solution.utility / tasks.ceiling)
    name = " and ".join(tasks.names)
    return (
        f"This release keeps {kept} of what the public columns tell about {name}, which it was designed for."
    )


def instead(solution: TaskSolution, counts: Counts) -> list[dict[str, Any]]:
    """Dropping columns and coarser categories that are as good for the task."""
    found = instead_for_task(solution.problem, solution.utility, counts.x_alphabet)
    return [each.to_dict() for each in found]
