"""Parts of dates as categories: year, quarter, month, weekday, and the age at a date.

Every engine computes the same whole number for a date; its text is made here. Times with a zone are taken in UTC.

| part | number of 2020-03-31 | text |
|---|---|---|
| ``year`` | 2020 | 2020 |
| ``quarter`` | 4 · 2020 + 0 | 2020-Q1 |
| ``month`` | 12 · 2020 + 2 | 2020-03 |
| ``weekday`` | 2 (Monday is 1) | Tuesday |
| ``age@2024-03-30`` | 3, in whole years | 3 |
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privfunnel.data.engines.texts import first_line
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import Document

PARTS = ("year", "quarter", "month", "weekday")
AGE = "age@"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FORMS = "'year', 'quarter', 'month', 'weekday' or 'age@2020-01-01' for dates"


@dataclass(frozen=True)
class Part:
    """A part of a date, each of its values a category.

    Attributes:
        rule: ``year``, ``quarter``, ``month``, ``weekday`` or ``age@DATE``.

    Raises:
        InvalidInputError: The part is unknown, or its date is none.
    """

    form: ClassVar[str] = "part"
    rule: str

    def __post_init__(self) -> None:
        """Refuse unknown parts."""
        if not is_part(self.rule):
            raise InvalidInputError(f"the part {self.rule!r} of a date is unknown: use {FORMS}")
        if self.rule.startswith(AGE):
            _ = self.at

    @property
    def at(self) -> datetime.date:
        """The date at which ages are taken."""
        try:
            return datetime.date.fromisoformat(self.rule.removeprefix(AGE))
        except ValueError:
            raise InvalidInputError(
                f"{self.rule!r} names no date: write it year first, e.g. 'age@2020-01-01'"
            ) from None

    @property
    def numeric(self) -> bool:
        """Whether the part is a number that may be cut further."""
        return self.rule == "year" or self.rule.startswith(AGE)

    @property
    def words(self) -> str:
        """What it is, in words: ``year``, ``age at 2020-01-01``."""
        return f"age at {self.at}" if self.rule.startswith(AGE) else self.rule

    @property
    def kind(self) -> str:
        """The kind of its categories."""
        return "integer" if self.numeric else "text"

    def value(self, number: int) -> int | str:
        """The category of a number."""
        if self.rule == "weekday":
            return WEEKDAYS[number - 1]
        if self.rule == "month":
            return f"{number // 12:04d}-{number % 12 + 1:02d}"
        return f"{number // 4:04d}-Q{number % 4 + 1}" if self.rule == "quarter" else number

    def to_dict(self) -> Document:
        """JSON-ready."""
        return {"form": self.form, "rule": self.rule}

    def numbers(self, array: Any, column: str) -> Any:
        """The numbers of an Arrow array of dates, times or texts written year first; null stays null.

        Raises:
            InvalidInputError: The values are no dates.
        """
        pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
        try:
            dates = array if pa.types.is_temporal(array.type) else pc.cast(array, pa.timestamp("us"))
            if pa.types.is_timestamp(dates.type) and dates.type.tz is not None:
                dates = pc.cast(dates, pa.timestamp(dates.type.unit, "UTC"))
            year, month, day = (pc.cast(part(dates), pa.int64()) for part in (pc.year, pc.month, pc.day))
            weekday = pc.cast(pc.day_of_week(dates, count_from_zero=False), pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"column {column!r} must hold dates for its bins {self.rule!r}: {first_line(error)}"
            ) from error
        if self.rule == "year":
            return year
        if self.rule == "weekday":
            return weekday
        if self.rule == "month":
            return pc.add(pc.multiply(year, 12), pc.subtract(month, 1))
        if self.rule == "quarter":
            return pc.add(pc.multiply(year, 4), pc.divide(pc.subtract(month, 1), 3))
        before = pc.greater(pc.add(pc.multiply(month, 100), day), self.at.month * 100 + self.at.day)
        return pc.subtract(pc.subtract(self.at.year, year), pc.cast(before, pa.int64()))

    def expression(self, column: Any) -> Any:
        """The number as an expression of narwhals: a whole number as a float, since pandas has no other null."""
        nw = need("narwhals", "tables")
        year, month = column.dt.year().cast(nw.Float64), column.dt.month().cast(nw.Float64)
        if self.rule == "year":
            return year
        if self.rule == "weekday":
            return column.dt.weekday().cast(nw.Float64)
        if self.rule == "month":
            return year * 12 + (month - 1)
        if self.rule == "quarter":
            return year * 4 + sum((month > last).cast(nw.Float64) for last in (3, 6, 9))
        days = month * 100 + column.dt.day().cast(nw.Float64)
        return self.at.year - year - (days > self.at.month * 100 + self.at.day).cast(nw.Float64)

    def sql(self, column: str, *, sqlite: bool) -> str:
        """The number as plain SQL; SQLite keeps dates as texts written year first."""
        letters = {"year": "%Y", "month": "%m", "day": "%d", "weekday": "%w"}

        def part(name: str) -> str:
            if sqlite:
                return f"CAST(strftime('{letters[name]}', {column}) AS INTEGER)"
            return f"CAST(EXTRACT({name.upper()} FROM {column}) AS INTEGER)"

        if self.rule == "year":
            return part("year")
        if self.rule == "weekday":
            # 0 is Sunday in SQLite; ISODOW counts from Monday, which is 1.
            if not sqlite:
                return f"CAST(EXTRACT(ISODOW FROM {column}) AS INTEGER)"
            return f"(({part('weekday')} + 6) % 7 + 1)"
        if self.rule == "month":
            return f"({part('year')} * 12 + {part('month')} - 1)"
        if self.rule == "quarter":
            month = part("month")
            quarter = " + ".join(f"CASE WHEN {month} > {last} THEN 1 ELSE 0 END" for last in (3, 6, 9))
            return f"({part('year')} * 4 + {quarter})"
        limit = self.at.month * 100 + self.at.day
        before = f"CASE WHEN {part('month')} * 100 + {part('day')} > {limit} THEN 1 ELSE 0 END"
        return f"({self.at.year} - {part('year')} - {before})"


def is_part(text: str) -> bool:
    """Whether a text names a part of dates."""
    return text in PARTS or text.startswith(AGE)


def as_floats(numbers: object) -> Any:
    """Whole numbers of an Arrow array as floats, null as NaN."""
    pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
    floats = pc.cast(numbers, pa.float64())
    found = floats.to_numpy(zero_copy_only=False) if isinstance(floats, pa.Array) else floats.to_numpy()
    return np.asarray(found)
