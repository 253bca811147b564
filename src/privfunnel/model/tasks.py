"""What a release is for: tasks U that should still be done well with it, and the utility I(U;Y) that it keeps of them.

U − X − Y is a Markov chain like S − X − Y, so that a task is a table p(u, x) with the problem's own p(x). Of several
tasks the utility is the weighted sum Σ_j ω_j I(U_j;Y), in nats.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import SUM_TOLERANCE, as_labels, as_table, frame_labels, is_number, summed
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel

#: What a task is called where it was given no name.
UNNAMED = "task"


@dataclass(frozen=True, eq=False)
class Task:
    """One task U over the public symbols of a problem.

    Attributes:
        name: What it is called; a column's name where it comes from a table.
        labels: Names of its symbols.
        table: Its counts, or p(u, x), shape (U, M), no empty row.
        p_u_given_x: Q = p(u|x), shape (U, M), columns sum to 1.
        weight: ω > 0, what a nat of it counts.
    """

    name: str
    labels: tuple[str, ...]
    table: Array
    p_u_given_x: Array
    weight: float = 1.0

    @property
    def n_u(self) -> int:
        """The number of its symbols."""
        return len(self.labels)

    def p_u(self, p_x: Array) -> Array:
        """p(u), shape (U,)."""
        return np.asarray(self.p_u_given_x @ p_x)

    def information(self, p_x: Array, channel: Channel) -> float:
        """I(U;Y) of a channel p(y|x), (M, N), without its weight, in nats."""
        return float(measures.mutual_information((self.p_u_given_x * p_x) @ channel))


@dataclass(frozen=True, eq=False)
class Utility:
    """The tasks of a problem.

    Attributes:
        tasks: At least one task.
        p_x: p(x), shape (M,).
        counted: Whether the tables hold counts, of the same rows as the problem's.
    """

    tasks: tuple[Task, ...]
    p_x: Array
    counted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(task.name for task in self.tasks)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The rows of :attr:`rows` that belong to each task."""
        ends = np.cumsum([0, *(task.n_u for task in self.tasks)]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @cached_property
    def rows(self) -> Array:
        """p(u|x) of all tasks, one below the other, shape (D, M)."""
        return np.vstack([task.p_u_given_x for task in self.tasks])

    @cached_property
    def weights(self) -> Array:
        """ω of each of these rows, shape (D,)."""
        return np.concatenate([np.full(task.n_u, task.weight) for task in self.tasks])

    @cached_property
    def h_u(self) -> float:
        """Σ_j ω_j H(U_j), in nats."""
        return float(sum(task.weight * float(measures.entropy(task.p_u(self.p_x))) for task in self.tasks))

    @cached_property
    def ceiling(self) -> float:
        """Σ_j ω_j I(U_j;X), the utility of X itself, in nats."""
        shares = (
            task.weight * float(measures.mutual_information(task.p_u_given_x * self.p_x))
            for task in self.tasks
        )
        return float(sum(shares))

    def among(self, x: NDArray[np.intp]) -> Utility:
        """The tasks of these public symbols alone, shape (g,), with p(x) given that it is one of them."""
        if x.size == self.p_x.size:
            return self
        p_x = self.p_x[x] / self.p_x[x].sum()
        some = (
            replace(each, table=each.table[:, x], p_u_given_x=each.p_u_given_x[:, x]) for each in self.tasks
        )
        return Utility(tuple(some), p_x, self.counted)

    def of(self, channel: Channel) -> float:
        """Σ_j ω_j I(U_j;Y) of a channel p(y|x), (M, N), in nats."""
        kept = sum(task.weight * task.information(self.p_x, channel) for task in self.tasks)
        return min(float(kept), self.ceiling)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of p(u|x) and the weights, as hex."""
        digest = hashlib.sha256(repr([(task.n_u, task.weight) for task in self.tasks]).encode())
        digest.update(np.ascontiguousarray(self.rows, dtype="<f8").tobytes())
        return digest.hexdigest()

    @cached_property
    def counts(self) -> NDArray[np.int64] | None:
        """The counts of all tasks, one below the other, shape (D, M); None where they are probabilities."""
        if not self.counted:
            return None
        return np.vstack([task.table for task in self.tasks]).astype(np.int64)


def as_utility(
    p_ux: object,
    p_x: Array,
    kept_x: NDArray[np.bool_],
    *,
    labels: Mapping[str, Sequence[str]] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Utility:
    """The tasks behind the argument ``p_ux`` of :class:`privfunnel.Problem`.

    Args:
        p_ux: One table with a row for each symbol of U and a column for each public symbol given, or a mapping from
            names to tables: probabilities, counts or weights with the problem's own p(x).
        p_x: p(x) of the M public symbols that are kept.
        kept_x: Which of the public symbols given are kept.
        labels: Name of a task to the names of its symbols; those of a frame's index by default.
        weights: Name of a task to its weight ω > 0; 1 by default.

    Raises:
        InvalidInputError: A table, a label or a weight cannot be used.
    """
    tables = dict(p_ux) if isinstance(p_ux, Mapping) else {UNNAMED: p_ux}
    if not tables:
        raise InvalidInputError("p_ux has no task: give a table, or a name and a table for each task")
    labels, weights = labels or {}, weights or {}
    for name in (*labels, *weights):
        if name not in tables:
            raise InvalidInputError(
                f"there is no task {name!r}: the tasks are {', '.join(map(repr, tables))}"
            )
    tasks, counted = [], True
    for name, table in tables.items():
        task, is_count = _task(str(name), table, p_x, kept_x, labels.get(name), weights.get(name, 1.0))
        tasks.append(task)
        counted = counted and is_count
    made = Utility(tuple(tasks), p_x, counted)
    if not made.ceiling > 0.0:
        raise InvalidInputError(
            f"public symbols say nothing about {', '.join(made.names)}: choose a task that depends on them"
        )
    return made


def _task(
    name: str, given: Any, p_x: Array, kept_x: NDArray[np.bool_], labels: Sequence[str] | None, weight: float
) -> tuple[Task, bool]:
    """One task, and whether its table holds counts."""
    what = "p_ux" if name == UNNAMED else f"p_ux[{name!r}]"
    if not is_number(weight) or not 0.0 < float(weight) < math.inf:
        raise InvalidInputError(
            f"the weight {weight!r} of task {name!r} is not usable: give a positive number"
        )
    table = as_table(given, what)
    if table.shape[1] != kept_x.size:
        raise InvalidInputError(
            f"{what} has {table.shape[1]} columns for {kept_x.size} public symbols: give p(u, x), rows U, a column for "
            "each public symbol"
        )
    named = as_labels(frame_labels(given, "index") if labels is None else labels, table.shape[0], "u")
    total, is_count = summed(table, what)
    marginal = table.sum(axis=0) / total
    full = np.zeros(kept_x.size)
    full[kept_x] = p_x
    worst = int(np.argmax(np.abs(marginal - full)))
    if abs(marginal[worst] - full[worst]) > SUM_TOLERANCE * max(full[worst], 1e-3):
        raise InvalidInputError(
            f"{what} gives public symbol {worst} the probability {marginal[worst]:.6g}, p_sx gives it "
            f"{full[worst]:.6g}: both tables must have the same p(x)"
        )
    rows = table.sum(axis=1) > 0.0
    kept = table[np.ix_(rows, kept_x)]
    conditional = kept / kept.sum(axis=0)
    conditional = conditional / conditional.sum(axis=0)
    for array in (kept, conditional):
        array.setflags(write=False)
    some = tuple(label for label, keep in zip(named, rows, strict=True) if keep)
    return Task(name, some, kept, conditional, float(weight)), is_count


def stored_tasks(utility: Utility, kept_x: NDArray[np.bool_]) -> Document:
    """The tasks as the file of a problem holds them: tables with a column for each public symbol that was given."""
    stored = []
    for task in utility.tasks:
        full = np.zeros((task.n_u, kept_x.size))
        full[:, kept_x] = task.table
        stored.append(
            {"name": task.name, "labels": list(task.labels), "weight": task.weight, "table": full.tolist()}
        )
    return {"tasks": stored}


def read_tasks(stored: Any) -> Document:
    """What :func:`stored_tasks` wrote, as arguments of :class:`privfunnel.Problem`."""
    return {
        "p_ux": {str(task["name"]): task["table"] for task in stored},
        "u_labels": {str(task["name"]): task["labels"] for task in stored},
        "task_weights": {str(task["name"]): task["weight"] for task in stored},
    }
