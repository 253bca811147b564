"""Which algorithm answers a question: one table, of which the first row that serves it wins."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from privfunnel.algorithms.base import Solver
from privfunnel.model.question import Quantity, Question
from privfunnel.solving.base import Way
from privfunnel.solving.guarded import GuardedWay
from privfunnel.solving.guarded_task import GuardedTaskWay
from privfunnel.solving.plain import PlainWay
from privfunnel.solving.records import RecordsWay
from privfunnel.solving.task import TaskWay


class Row(NamedTuple):
    """One row of the table.

    Attributes:
        serves: Whether the algorithm answers a question.
        where: Where it is asked for, in an error about a solver that knows the plain funnel only; empty for that one.
        way: Makes it of the chosen solver and of the options that were named.
    """

    serves: Callable[[Question], bool]
    where: str
    way: Callable[[Any, Collection[str], str], Way]


#: From the narrowest to the widest: any question is served by one of them.
TABLE = (
    Row(lambda q: q.axis is Quantity.DISTORTION, "records are released for records", RecordsWay.of),
    Row(lambda q: q.axis is Quantity.UTILITY and q.guards.plain, "a utility is asked for", TaskWay.of),
    Row(
        lambda q: q.axis is Quantity.UTILITY,
        "a release for a task is guarded, or discloses something besides",
        GuardedTaskWay.of,
    ),
    Row(lambda q: q.guards.plain, "", lambda solver, _named, _where: PlainWay(solver)),
    Row(
        lambda _: True,
        "attackers know something, columns are published or guarantees are asked for",
        GuardedWay.of,
    ),
)


def way_of(question: Question, chosen: Solver, named: Collection[str] = ()) -> Way:
    """The algorithm that answers a question, with the options of the chosen solver.

    Args:
        question: The question.
        chosen: The solver; another funnel's algorithm takes its gap and its limits.
        named: Options that were named, which count even where they say what the solver has anyway.

    Raises:
        InvalidInputError: The solver knows the plain funnel only, and something else is asked.
    """
    row = next(row for row in TABLE if row.serves(question))
    return row.way(chosen, named, row.where)
