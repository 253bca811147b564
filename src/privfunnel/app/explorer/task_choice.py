"""A release for a task on the page: what it is good for, and what would be as good."""

from __future__ import annotations

import numpy as np

from privfunnel.data.tables import Counts
from privfunnel.infra.storage import Document
from privfunnel.measures import guessing_accuracy
from privfunnel.model.question import Quantity
from privfunnel.neighbours.task_alternatives import instead_for_task
from privfunnel.release.guesses import Guess
from privfunnel.report.rounding import Exact
from privfunnel.solving.solution import Solution


def good_for(solution: Solution) -> list[Document]:
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


def described(solution: Solution) -> Document:
    """What the page shows of the task at a point: nothing where there is none."""
    if solution.question.axis is not Quantity.UTILITY:
        return {"task": None, "useful": []}
    tasks = solution.problem.required_tasks()
    share = solution.utility / tasks.ceiling
    name = " and ".join(tasks.names)
    return {
        "task": {"name": name, "utility": solution.utility, "share": share, "words": words(solution)},
        "useful": good_for(solution),
    }


def words(solution: Solution) -> str:
    """Say how much of the task is kept."""
    tasks = solution.problem.required_tasks()
    kept = Exact().percent(solution.utility / tasks.ceiling)
    name = " and ".join(tasks.names)
    return (
        f"This release keeps {kept} of what the public columns tell about {name}, which it was designed for."
    )


def instead(solution: Solution, counts: Counts) -> list[Document]:
    """Dropping columns and coarser categories that are as good for the task."""
    found = instead_for_task(solution.problem, solution.utility, counts.x_alphabet)
    return [each.to_dict() for each in found]
