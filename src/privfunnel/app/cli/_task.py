"""Releases for a task on the command line: what they are good for, and what an audit says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from privfunnel.app.cli._screen import say
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.audit import Audit, TaskFindings
    from privfunnel.data.engines import ReadOptions
    from privfunnel.data.tables import Counts
    from privfunnel.model.problem import Problem
    from privfunnel.neighbours.task_alternatives import TaskAlternative
    from privfunnel.release.mechanism import Mechanism
    from privfunnel.solving.solution import Solution


def guess_words(solution: Solution) -> str:
    """How often the task is guessed right from the release and from the public data themselves."""
    from privfunnel.measures import guessing_accuracy

    problem = solution.problem
    parts = []
    for task in problem.required_tasks().tasks:
        p_ux = task.p_u_given_x * problem.p_x
        blind, full = float(task.p_u(problem.p_x).max()), float(guessing_accuracy(p_ux))
        kept = float(guessing_accuracy(p_ux @ solution.channel))
        parts.append(
            f"{task.name} is guessed right in {100 * kept:.1f} % of the rows from the release, in {100 * full:.1f} % "
            f"from the public columns themselves, and in {100 * blind:.1f} % from nothing"
        )
    return f"On these rows {'; '.join(parts)}."


def as_good(problem: Problem, utility: float, counts: Counts | None) -> tuple[TaskAlternative, ...]:
    """What one would do otherwise to keep as much of the task, in nats, and what that leaks."""
    from privfunnel.neighbours.task_alternatives import instead_for_task

    return tuple(instead_for_task(problem, utility, None if counts is None else counts.x_alphabet))


def audited_task(
    tables: Sequence[str],
    mechanism: Mechanism | None,
    read: ReadOptions,
    found: Audit,
    effort: Mapping[str, int],
) -> TaskFindings | None:
    """What an audit says of a release for a task; None where there is none, or the table does not tell it.

    Args:
        tables: The original and perhaps the released table.
        mechanism: The mechanism.
        read: How to read the original.
        found: The audit: attackers that it has trained are not trained again.
        effort: The most ``rows`` to train on, and the ``seed``.
    """
    from privfunnel import audit
    from privfunnel.data.engines import open_table

    if not tables or mechanism is None or not mechanism.task:
        return None
    with open_table(tables[0], mechanism.read_options(read)) as table:
        if any(name not in table.columns for name in mechanism.task):
            return None
    trained = audit.attackers(found)
    try:
        findings = audit.for_task(tables[0], mechanism, read=read, private=not trained, **effort)
    except InvalidInputError as error:  # of another table than the design's; the audit stands without it
        say(f"warning: nothing is said of the task, {error}", err=True, one_line=True)
        return None
    return findings if not trained else replace(findings, private=trained)


def of_task(found: TaskFindings | None) -> Document:
    """The findings as fields of :class:`privfunnel.report.Report`."""
    if found is None:
        return {}
    return {"task_alternatives": found.instead, "usefulness": (*found.tasks, *found.private)}
