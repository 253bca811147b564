"""Bins as the page asks for them: which rules fit a column, which one is suggested, and their short texts."""

from __future__ import annotations

import datetime
import math
from typing import Any

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.infra.storage import Document

MANY_VALUES = 12  # a number or date with more different values gets bins suggested
MANY_TEXTS = 32  # a text with more gets its frequent values suggested
SIZES = (2, 50)
PARTS = ("year", "quarter", "month", "weekday")
#: Rules that need a number, with the text of the rule.
_COUNTED = {"bins": "bins", "quantiles": "quantiles", "top": "top", "years": "year:quantiles"}


def suggested(column: Document) -> Document | None:
    """Return the rule to begin with for a column as :mod:`.profile` describes it; None for each value by itself."""
    if column["type"] in {"date", "datetime"} and column["distinct"] > MANY_VALUES:
        return {"rule": "year"} if column["years"] <= MANY_VALUES else {"rule": "years", "number": 4}
    if column["odd"]:
        return None  # what it holds is asked first: grouping would hide it
    if column["type"] == "text" and column["distinct"] > MANY_TEXTS:
        return {"rule": "top", "number": 10}
    if column["histogram"] and column["distinct"] > MANY_VALUES:
        return {"rule": "quantiles", "number": 4}
    return None


def rule(column: str, asked: Document) -> str:
    """Return a rule such as ``"width:5"`` or ``"age@2020-01-01:quantiles:4"``.

    Args:
        column: Name of the column, for messages.
        asked: ``rule`` with the ``number`` of bins or values, or of units that a bin is wide, the ``edges``, or the
            day ``at`` which ages are taken.

    Raises:
        InvalidInputError: There is no such rule, or a number is missing.
    """
    kind = asked.get("rule")
    if kind == "edges":
        edges = asked.get("edges")
        if not isinstance(edges, list) or not edges or not all(map(_finite, edges)):
            raise InvalidInputError(f"the edges of {column!r} are not numbers: write e.g. 30, 45, 60")
        # People name the cuts; what lies outside belongs to the first and the last bin.
        return "edges:" + ",".join(f"{e:.12g}" for e in (float("-inf"), *sorted(set(edges)), float("inf")))
    if isinstance(kind, str) and kind in PARTS:
        return kind
    if kind == "ages":
        return f"age@{_day(column, asked.get('at'))}:quantiles:{_size(column, asked.get('number'))}"
    if kind == "width":
        wide = asked.get("number")
        if wide is None or not _finite(wide) or not wide > 0:
            raise InvalidInputError(f"bins of {column!r} cannot be {wide!r} wide: give a number above 0")
        return f"width:{wide:.12g}"
    if not isinstance(kind, str) or kind not in _COUNTED:
        raise InvalidInputError(f"unknown rule {kind!r} for the bins of {column!r}: choose one of the list")
    return f"{_COUNTED[kind]}:{_size(column, asked.get('number'))}"


def _size(column: str, number: object) -> int:
    if not isinstance(number, int) or not SIZES[0] <= number <= SIZES[1]:
        raise InvalidInputError(f"{number!r} bins for {column!r} cannot be made: give a number from 2 to 50")
    return number


def _day(column: str, text: Any) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"the ages of {column!r} need a day: choose the one they are taken at"
        ) from None


def _finite(value: Any) -> bool:
    """Whether a value that came as JSON is a number that a float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False
