"""What every table can be asked, wherever its rows are: nothing above this package knows more of an engine.

Counting runs where the rows are, and rows leave only as streamed Arrow batches. A :class:`Source` is asked for columns
and their kinds, for what binning needs to know, for counts, and for rows.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import bins as binning
from privfunnel.data.engines import cutting
from privfunnel.data.engines.bins import Bins, Cut, Rule, Top
from privfunnel.data.engines.calendar import Part
from privfunnel.data.engines.dialect import (
    COMMA_NUMBER,
    MISSING_MARKS,
    decimal_commas,
    grouped_numbers,
    is_number,
    mixed,
    null_options,
    ungrouped,
)
from privfunnel.data.engines.reading import ReadOptions
from privfunnel.data.engines.texts import clip
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import with_comma

QUANTILE_VALUES = 200_000  # different values up to which quantiles are computed here, from the values' counts
MOST_ENDS = 2_000  # numbers of either end of a column that are brought back
EXAMPLE_VALUES = 10_000  # different values among which one is looked for that is no number

#: Kinds of columns that can be categories; ``"object"`` may turn out to mix types, which is told when it is counted.
USABLE = frozenset({"integer", "number", "boolean", "text", "date", "datetime", "object"})


@dataclass(frozen=True)
class Grouped:
    """Counts of the combinations that occur: one list of raw values a column, and how often each combination is.

    ``sums`` are those of the numbers behind each combination, for the columns that were asked for.
    """

    columns: dict[str, list[Any]]
    counts: list[int]
    complete: bool  # False where the limit on combinations cut the list off
    sums: dict[str, list[Any]] = field(default_factory=dict)


class Tails(NamedTuple):
    """The numbers that a few rows on either side of a column lie beyond; see :meth:`Source.tails`."""

    low: float
    high: float


class Extremes(NamedTuple):
    """Smallest and largest number of a column, None where it has none, and whether all but a few rows' are whole."""

    low: float | None
    high: float | None
    whole: bool


class Overview(NamedTuple):
    """How many different values a column has, missing ones aside, and how many are missing."""

    distinct: int
    missing: int


class Weighing(NamedTuple):
    """Sum of the weights in a column, sum of their squares, and rows without a usable one."""

    total: float
    squares: float
    unusable: int


class Source(ABC):
    """One table, wherever its rows are.

    Args:
        name: What to call the table in messages.
        hint: Advice that fits the source when a column is missing.
    """

    def __init__(self, name: str, hint: str = "") -> None:
        """Remember what messages say."""
        self.name = name
        self.hint = hint
        #: How a file was read, what was found out about it included; None where nothing had to be said.
        self.read: ReadOptions | None = None

    # --- what an engine has to answer -------------------------------------------------------------------------

    @property
    @abstractmethod
    def engine(self) -> str:
        """The engine's name, e.g. ``"duckdb"``."""

    @property
    @abstractmethod
    def kinds(self) -> dict[str, str]:
        """Kind of each column by name: integer, number, boolean, text, date, datetime, or the engine's type name."""

    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def n_unique(self, name: str) -> int:
        """The number of different values of a column, null included."""

    @abstractmethod
    def peek(self, names: Sequence[str], rows: int) -> dict[str, int]:
        """Different values among the first rows: a cheap look before a full count."""

    @abstractmethod
    def overview(self, names: Sequence[str]) -> dict[str, Overview]:
        """Different and missing values of columns; null and NaN are missing."""

    @abstractmethod
    def incomplete(self, names: Sequence[str]) -> int:
        """The number of rows in which at least one of the columns is missing (null or NaN)."""

    @abstractmethod
    def complete(self, names: Sequence[str]) -> Source:
        """The same table without the rows that :meth:`incomplete` counts."""

    @abstractmethod
    def weighing(self, name: str) -> Weighing:
        """What the numbers of a column add up to as weights; those missing, negative or infinite are not usable."""

    @abstractmethod
    def extremes(self, name: str) -> Extremes:
        """Ends of a number column; null and NaN left out."""

    @abstractmethod
    def ends(self, name: str, rows: int) -> tuple[list[float], list[float]]:
        """The ``rows`` least numbers of a column in ascending order, and the largest in descending order."""

    @abstractmethod
    def frequencies(self, name: str) -> tuple[list[Any], list[int]] | None:
        """The different numbers of a column and how often each occurs; None where they are too many to bring back."""

    @abstractmethod
    def quantiles(self, name: str, size: int) -> list[float]:
        """Quantiles 0, 1/size, …, 1 of a number column, with linear interpolation, computed by the engine."""

    @abstractmethod
    def top(self, name: str, size: int) -> list[str]:
        """The most frequent values of a text column, the most frequent first; null left out."""

    @abstractmethod
    def some_values(self, name: str, limit: int) -> list[Any]:
        """Some of a column's different values."""

    @abstractmethod
    def each_once(self, person: str, name: str) -> Source:
        """The two columns, a value of a person once: what tails, cut points and frequent values of people are from."""

    @abstractmethod
    def group(
        self,
        keys: Mapping[str, Bins | None],
        limit: int,
        sums: Mapping[str, Tails] | None = None,
        person: str | None = None,
    ) -> Grouped:
        """Count the combinations of categories that occur, where the rows are.

        Args:
            keys: Column name to its bins, or ``None`` for the values themselves.
            limit: Most combinations to bring back.
            sums: Number columns whose values to add up, each value moved into these tails first.
            person: Column that says who a row is about: not rows are counted then, but people; a row without a name is
                a person of its own.

        Returns:
            Raw values (of a cut: the interval's number, ``-1`` below, ``size`` above) and counts.
        """

    @abstractmethod
    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Stream columns in their order as Arrow record batches of at most ``rows`` rows."""

    # --- what follows from it ---------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self.kinds)

    def require(self, names: Sequence[str]) -> None:
        """Check that columns exist and can be categories.

        Raises:
            InvalidInputError: One does not; the message names the closest existing column.
        """
        for name in names:
            if name not in self.kinds:
                raise InvalidInputError(f"{self.name} has no column {name!r}{self._advice(name)}")
            if self.kinds[name] not in USABLE:
                raise InvalidInputError(
                    f"column {name!r} of {self.name} has the type {self.kinds[name]}: cast it to text or numbers first"
                )

    def _advice(self, name: str) -> str:
        # A single column whose name holds commas is a table that was read with the wrong delimiter.
        if len(self.columns) > 1 and (told := with_comma(name, self.columns)):
            return f": {told}"
        folded = {column.strip().casefold(): column for column in self.columns}
        close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
        if close:
            return f": did you mean {folded[close[0]]!r}?"
        listed = ", ".join(clip(column) for column in self.columns[:12])
        more = f" and {len(self.columns) - 12} more" if len(self.columns) > 12 else ""
        return f": its columns are {listed}{more}{self.hint}"

    def range(self, name: str) -> tuple[float, float, bool]:
        """:meth:`extremes` of a column that has them.

        Raises:
            InvalidInputError: The column has no numbers, or infinite ones.
        """
        low, high, whole = self.extremes(name)
        if low is None or high is None or math.isnan(low):
            raise InvalidInputError(f"column {name!r} of {self.name} has no numbers to bin")
        if math.isinf(low) or math.isinf(high):
            raise InvalidInputError(
                f"column {name!r} of {self.name} has infinite values: give bins by edges, with inf"
            )
        return low, high, whole

    def resolve(self, name: str, rule: Rule | Bins) -> Bins:
        """Look at the data once and turn a rule into recorded bins.

        Raises:
            InvalidInputError: The rule does not fit the column's kind.
        """
        part = rule.rule if isinstance(rule, Part) else "" if isinstance(rule, Top) else rule.part
        if part:
            self._check_dated(name, str(rule) if isinstance(rule, Rule) else rule.rule)
            return self._resolve_part(name, rule, Part(part)) if isinstance(rule, Rule) else rule
        if isinstance(rule, Part):  # it has a part
            return rule
        if isinstance(rule, Cut | Top):
            self._check_fits(name, isinstance(rule, Cut), rule.rule)
            return rule
        self._check_fits(name, rule.kind != "top", str(rule))
        if rule.kind == "top":
            return self._kept(name, rule)
        if rule.kind == "edges":  # values outside them show up in the counts
            whole = self.kinds[name] == "integer" or self.extremes(name).whole
            return Cut("edges", binning.merged(rule.edges) if whole else rule.edges, whole)
        *_, whole = self.range(name)
        if rule.kind == "bins":
            return cutting.equal_width(*self.tails(name, rule.size), rule.size, integer=whole)
        if rule.kind == "width":
            return self._of_width(name, rule, self.tails(name), whole)
        found = self.frequencies(name)
        if found is None:
            return cutting.from_quantiles(self.quantiles(name, rule.size), rule.size, integer=whole)
        return cutting.from_frequencies(*_sorted(*found), rule.size, integer=whole)

    def tails(self, name: str, size: int = 1) -> Tails:
        """The numbers of a column that ``FEW`` rows reach on either side: what lies beyond is a few rows' own.

        Of a table with fewer than ``FEW`` rows for each half of ``size`` bins, fewer rows are left out.
        """
        low, high = self.ends(name, min(2 * size * cutting.FEW, MOST_ENDS))
        few = max(1, min(cutting.FEW, len(low) // (2 * size)) if len(low) < MOST_ENDS else cutting.FEW)
        return Tails(low[few - 1], high[few - 1]) if low else Tails(math.nan, math.nan)

    def dated(self, name: str) -> bool:
        """Whether a column holds dates."""
        return self.kinds[name] in {"date", "datetime"}

    def _check_dated(self, name: str, rule: str) -> None:
        if not self.dated(name):
            raise InvalidInputError(
                f"column {name!r} of {self.name} is {self.kinds[name]}, so it cannot be binned by {rule!r}: read it as "
                f"dates (--dates dmy, or --type {shlex.quote(f'{name}=date')})"
            )

    def _resolve_part(self, name: str, rule: Rule, part: Part) -> Bins:
        """Bins of the year or age of a column of dates."""
        if rule.kind == "part":
            return part
        if rule.kind == "edges":
            return Cut("edges", binning.merged(rule.edges), True, part.rule)
        numbers, counts = self._part_frequencies(name, part)
        if rule.kind == "bins":
            low, high = _inner_range(numbers, counts, rule.size)
            cut = cutting.equal_width(low, high, rule.size, integer=True)
        elif rule.kind == "width":
            cut = self._of_width(name, rule, Tails(*_inner_range(numbers, counts, 1)), True)
        else:
            cut = cutting.from_frequencies(numbers, counts, rule.size, integer=True)
        return dataclasses.replace(cut, part=part.rule)

    def _of_width(self, name: str, rule: Rule, tails: Tails, whole: bool) -> Cut:
        cut = cutting.of_width(*tails, rule.width, integer=whole)
        if cut is None:
            raise InvalidInputError(
                f"bins of column {name!r} that are {rule.width:g} wide are more than {cutting.MOST_BINS}: make them "
                "wider"
            )
        return cut

    def _part_frequencies(self, name: str, part: Part) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Numbers of a part of dates in ascending order, and how often each occurs."""
        grouped = self.group({name: part}, QUANTILE_VALUES)
        numbers, counts = _sorted(grouped.columns[name], grouped.counts)
        if not len(numbers):
            raise InvalidInputError(f"column {name!r} of {self.name} has no dates to bin")
        return numbers, counts

    def part_means(self, name: str, cut: Cut) -> tuple[float | None, ...]:
        """The mean of the years or ages in each bin, a few rows' own moved inwards; None for a bin without any."""
        numbers, counts = self._part_frequencies(name, Part(cut.part))
        low, high = _inner_range(numbers, counts, 1)
        codes = cut.codes(numbers)
        inside = np.clip(numbers, low, high)
        found: list[float | None] = []
        for code in range(cut.size):
            here = codes == code
            found.append(float(np.average(inside[here], weights=counts[here])) if here.any() else None)
        return tuple(found)

    def _check_fits(self, name: str, numeric: bool, rule: str) -> None:
        kind = self.kinds[name]
        if numeric and kind not in {"integer", "number"}:
            seen = self._odd(name) if kind == "text" else ""
            raise InvalidInputError(
                f"column {name!r} of {self.name} is {kind}{seen}, so it cannot be cut by {rule!r}: "
                f"{self._other_bins(name)}"
            )
        if not numeric and kind != "text":
            raise InvalidInputError(
                f"column {name!r} is {kind}: {rule!r} groups text; use 'width:5' or 'quantiles:4'"
            )

    def _other_bins(self, name: str) -> str:
        if self.dated(name):
            return "bin it by 'year', 'quarter', 'month', 'weekday' or 'age@2020-01-01'"
        return self.number_advice(name) or "clean it, or group it with 'top:10'"

    def number_advice(self, name: str) -> str:
        """Why a column of texts is not one of numbers, and what to do, where decimal or thousands signs are why."""
        values = [v.strip() for v in self.some_values(name, EXAMPLE_VALUES) if isinstance(v, str)]
        marks = sorted({v for v in values if v.lower() in MISSING_MARKS})
        unmarked = [v for v in values if v not in marks]
        if unmarked and decimal_commas(unmarked) and (self.read is None or self.read.decimal != ","):
            return f"it has decimal commas ({' '.join(['--decimal ,', null_options(marks)]).strip()})"
        if values and (grouped := grouped_numbers(values)):
            return f"it has separated thousands, {ungrouped(grouped)}"
        # Marks of missing values alone; beside them, numbers are texts as the file writes them.
        if self.read is not None and (found := mixed([self._plain(v) for v in values], len(values))):
            return f"mark {', '.join(map(repr, found.odd))} as null ({null_options(found.odd)})"
        return ""

    def _plain(self, text: str) -> str:
        """A text with a decimal point where the file was said to write a decimal comma."""
        commas = self.read is not None and self.read.decimal == ","
        return text.replace(",", ".") if commas and COMMA_NUMBER.fullmatch(text.strip()) else text

    def _odd(self, name: str) -> str:
        """A text value of a column that was meant to hold numbers, in words."""
        values = self.some_values(name, EXAMPLE_VALUES)
        odd = sorted(
            str(value) for value in values if value is not None and not is_number(self._plain(str(value)))
        )
        return f" (it holds {clip(odd[0])!r})" if odd else ""

    def _kept(self, name: str, rule: Rule) -> Top:
        values = self.top(name, rule.size)
        if binning.OTHER in values:
            raise InvalidInputError(
                f"column {name!r} already holds {binning.OTHER!r}: rename it before grouping"
            )
        return Top(str(rule), tuple(sorted(values)))


def _sorted(values: Sequence[Any], counts: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Values and how often each occurs, in ascending order; null and NaN are left out."""
    pairs = [(float(v), int(n)) for v, n in zip(values, counts, strict=True) if v is not None]
    pairs = sorted((v, n) for v, n in pairs if not math.isnan(v))
    return np.array([v for v, _ in pairs]), np.array([n for _, n in pairs], dtype=np.int64)


def _inner_range(numbers: NDArray[np.float64], counts: NDArray[np.int64], size: int) -> tuple[float, float]:
    """The numbers that a few rows reach on either side; fewer where there are few for ``size`` bins."""
    ends = np.cumsum(counts)
    few = max(1, min(cutting.FEW, int(ends[-1]) // (2 * size)))
    low = numbers[np.searchsorted(ends, few)]
    high = numbers[np.searchsorted(ends, ends[-1] - few, side="right")]
    return float(low), float(high)
