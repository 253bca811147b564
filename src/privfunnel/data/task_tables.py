"""The counts of tasks: how often each category of a column that a release is for occurs with each public symbol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.engines.alphabet import distinct
from privfunnel.data.engines.categories import Codes
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array


@dataclass(frozen=True, eq=False)
class TaskCounts:
    """How often each category of one task column occurs with each public symbol.

    Attributes:
        alphabet: Its categories that occur.
        table: The counts, shape (U, M); with weights, theirs, scaled as the table of the private symbols is.
        weight: What a nat of this task counts.
    """

    alphabet: Alphabet
    table: Array
    weight: float = 1.0

    @property
    def name(self) -> str:
        """The column."""
        return self.alphabet.names[0]


def task_weights(task: str | Iterable[str] | Mapping[str, float] | None) -> dict[str, float]:
    """The columns of tasks and their weights, as :func:`privfunnel.data.tables.count` takes them.

    Raises:
        InvalidInputError: One is not a name, or named twice.
    """
    if task is None:
        return {}
    if isinstance(task, Mapping):
        return {str(name): weight for name, weight in task.items()}
    names = [task] if isinstance(task, str) else list(task)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"the task column {name!r} is not a name: give texts")
        if names.count(name) > 1:
            raise InvalidInputError(f"column {name!r} is a task twice: name it once")
    return dict.fromkeys(names, 1.0)


def task_counts(
    encoded: Mapping[str, tuple[Column, Codes]],
    x: Codes,
    share: Array,
    weights: Mapping[str, float],
) -> tuple[TaskCounts, ...]:
    """The counts of each task column.

    Args:
        encoded: The columns and, for each group of rows, its category.
        x: The public symbol of each group, shape (groups,), negative for one that does not count.
        share: What each group of rows counts, shape (groups,); those that count nothing are left out.
        weights: The task columns and the weights of the tasks.
    """
    some = x >= 0
    made = []
    for name, weight in weights.items():
        symbols, u = distinct(encoded[name][1][some, None])
        table = np.zeros((len(symbols), int(x.max()) + 1))
        np.add.at(table, (u, x[some]), share[some])
        made.append(TaskCounts(Alphabet((encoded[name][0],), symbols), table, weight))
    return tuple(made)


def described(tasks: Sequence[TaskCounts]) -> Document:
    """What it takes to count the tasks again: weights where they are not all 1, and bins where there are any."""
    weights = {task.name: task.weight for task in tasks}
    bins = {name: cut.to_dict() for task in tasks for name, cut in task.alphabet.bins.items()}
    return ({"weights": weights} if any(each != 1.0 for each in weights.values()) else {}) | (
        {"bins": bins} if bins else {}
    )


def as_tasks(tasks: Sequence[TaskCounts]) -> Document:
    """The tasks as arguments of :class:`privfunnel.Problem`; none where there are none."""
    if not tasks:
        return {}
    return {
        "p_ux": {task.name: task.table for task in tasks},
        "u_labels": {task.name: task.alphabet.labels for task in tasks},
        "task_weights": {task.name: task.weight for task in tasks},
    }
