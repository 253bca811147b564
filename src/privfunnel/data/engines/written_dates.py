"""Dates as people write them: 31.12.2020, 12/31/2020, with or without a time; the year has four digits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from privfunnel.data.engines.texts import literal, quoted
from privfunnel.errors import InvalidInputError

PATTERN = r"\d{1,2}([./-])\d{1,2}[./-]\d{4}( \d{1,2}:\d{2}(:\d{2})?)?"
_WRITTEN = re.compile(r"(\d{1,2})([./-])(\d{1,2})[./-]\d{4}( \d{1,2}:\d{2}(:\d{2})?)?")
FORMATS = {"dmy": "%d-%m-%Y", "mdy": "%m-%d-%Y", "ymd": "%Y-%m-%d"}
TIMES = (" %H:%M:%S", " %H:%M", "")


class Order(NamedTuple):
    """How the dates of a column are written.

    Attributes:
        order: ``ymd``, ``dmy`` or ``mdy``.
        timed: Whether times of the day belong to them.
    """

    order: str
    timed: bool

    def sql(self, column: str) -> str:
        """The column (a SQL expression) as dates, or dates with times; a text that is none is an error."""
        return f"CAST({self._parse(column, 'strptime')} AS {'TIMESTAMP' if self.timed else 'DATE'})"

    def fails(self, column: str) -> str:
        """A SQL condition: there is a text, and it is no date."""
        return (
            f"{column} IS NOT NULL AND trim({column}) <> '' AND {self._parse(column, 'try_strptime')} IS NULL"
        )

    def _parse(self, column: str, function: str) -> str:
        plain = f"regexp_replace(nullif(trim({column}), ''), '[./]', '-', 'g')"
        times = [*TIMES, " %H:%M:%S.%f"] if self.order == "ymd" else TIMES
        forms = ", ".join(literal(FORMATS[self.order] + time) for time in times)
        return f"{function}({plain}, [{forms}])"


def order_of(values: Sequence[str]) -> str | None:
    """How some texts are written as dates.

    Returns:
        ``dmy`` or ``mdy``; ``""`` where both may be meant; None where they are no dates or contradict each other.
    """
    found = [_WRITTEN.fullmatch(value) for value in values]
    if not found or None in found:
        return None
    parts = [(int(match[1]), int(match[3]), match[2]) for match in found if match]
    first, second = max(part[0] for part in parts), max(part[1] for part in parts)
    return _order(first, second, dots=all(part[2] == "." for part in parts))


def _order(first: int, second: int, *, dots: bool) -> str | None:
    """The order, from the largest first and second number of a column; with dots the day comes first everywhere."""
    if first > 31 or second > 31 or min(first, second) > 12:
        return None
    if first > 12:
        return "dmy"
    if second > 12:
        return None if dots else "mdy"
    return "dmy" if dots else ""


def parsed(relation: Any, raw: str, name: str, given: str | None, path: Path) -> Order | None:
    """How the dates of a text column are written, told by all of its values.

    Args:
        relation: The engine's relation.
        raw: The column's name there.
        name: What people call it.
        given: The order that was asked for, if any.
        path: The file, for messages.

    Returns:
        The order, or None where the values are no dates or may be read in two ways: they stay texts then.

    Raises:
        InvalidInputError: The values are dates, but not in the order that was asked for.
    """
    column = f"nullif(trim({quoted(raw)}), '')"
    part = f"TRY_CAST(regexp_extract({column}, '^(\\d+)[./-](\\d+)', {{}}) AS INTEGER)"
    dates, first, second, dots, timed = relation.aggregate(
        f"bool_and(regexp_full_match({column}, {literal(PATTERN)})), max({part.format(1)}), max({part.format(2)}), "
        f"bool_and({column} LIKE '%.%.%'), bool_or(length({column}) > 10)"
    ).fetchall()[0]
    if not dates or given == "ymd":
        return None
    order = Order(given or _order(first, second, dots=dots) or "", bool(timed))
    if not order.order:
        return None
    odd = relation.filter(order.fails(quoted(raw))).project(quoted(raw)).limit(1).fetchall()
    if not odd:
        return order
    if given is None:
        return None
    raise InvalidInputError(
        f"{path.name!r} holds {odd[0][0]!r} in column {name!r}, which is no date in the order {given}: give another "
        f"order (--dates), or read the column as text (--type {shlex.quote(f'{name}=text')})"
    )
