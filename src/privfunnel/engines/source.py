"""A table wherever its rows live: counting runs in its engine, rows leave it only as streamed Arrow batches.

One path for every engine: a file becomes a DuckDB relation, a frame stays what it is (pandas, Polars, PyArrow, DuckDB,
PySpark, Dask …), and narwhals turns the same expressions into the engine's own query.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privfunnel.engines import bins as binning
from privfunnel.engines.bins import Bins, Cut, Rule, Top
from privfunnel.errors import InvalidInputError, PrivFunnelError, need

QUANTILE_VALUES = 200_000


@dataclass(frozen=True)
class Grouped:
    """Counts of the combinations that occur: one list of raw values a column, and how often each combination is."""

    columns: dict[str, list[Any]]
    counts: list[int]
    complete: bool  # False where the limit on combinations cut the list off


class Table:
    """One table of one engine.

    Args:
        frame: A narwhals DataFrame or LazyFrame.
        name: What to call the table in messages.
        hint: Advice that fits the source when a column is missing.
        explain: Turns an error of the engine into one of ours (or returns it unchanged).
    """

    def __init__(
        self,
        frame: Any,
        *,
        name: str,
        hint: str = "",
        explain: Callable[[Exception], Exception] | None = None,
    ) -> None:
        """Wrap a frame; nothing is computed."""
        self.frame = frame
        self.name = name
        self.hint = hint
        self._explain = explain or (lambda error: error)

    @property
    def engine(self) -> str:
        """The engine's name, e.g. ``"duckdb"``."""
        return str(self.frame.implementation).lower()

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kind of each column by name: integer, number, boolean, text, date, datetime, or the engine's type name."""
        return {name: _kind(dtype) for name, dtype in self._run(self.frame.collect_schema).items()}

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
            if self.kinds[name] not in _USABLE:
                raise InvalidInputError(
                    f"column {name!r} of {self.name} has the type {self.kinds[name]}: cast it to text or numbers first"
                )

    def _advice(self, name: str) -> str:
        folded = {column.strip().casefold(): column for column in self.columns}
        close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
        if close:
            return f": did you mean {folded[close[0]]!r}?"
        listed = ", ".join(_clip(column) for column in self.columns[:12])
        more = f" and {len(self.columns) - 12} more" if len(self.columns) > 12 else ""
        return f": its columns are {listed}{more}{self.hint}"

    def n_rows(self) -> int:
        """The number of rows, counted in the engine."""
        nw = _narwhals()
        return int(self._collect(self.frame.select(nw.len().alias("n")))["n"][0])

    def n_unique(self, name: str) -> int:
        """The number of different values of a column, null included, counted in the engine."""
        nw = _narwhals()
        return int(self._collect(self.frame.select(nw.col(name).n_unique().alias("n")))["n"][0])

    def peek(self, names: Sequence[str], rows: int) -> dict[str, int]:
        """Different values among the first rows: a cheap look before a full count."""
        nw = _narwhals()
        head = self.frame.select(*names).head(rows)
        found = self._collect(
            head.select(*(nw.col(name).n_unique().alias(f"k{i}") for i, name in enumerate(names)))
        )
        return {name: int(found[f"k{i}"][0] or 0) for i, name in enumerate(names)}

    def range(self, name: str) -> tuple[float, float, bool]:
        """Smallest and largest number of a column, and whether all are whole; nulls and NaN left out.

        Raises:
            InvalidInputError: The column has no numbers, or infinite ones.
        """
        low, high, whole = self._extremes(name)
        if low is None or high is None or math.isnan(low):
            raise InvalidInputError(f"column {name!r} of {self.name} has no numbers to bin")
        if math.isinf(low) or math.isinf(high):
            raise InvalidInputError(
                f"column {name!r} of {self.name} has infinite values: give bins by edges, with inf"
            )
        return low, high, whole

    def _extremes(self, name: str) -> tuple[float | None, float | None, bool]:
        nw = _narwhals()
        value = nw.col(name)
        asked = [value.min().alias("low"), value.max().alias("high")]
        if self.kinds[name] == "number":
            asked.append((value.cast(nw.Float64) % 1).max().alias("part"))
        found = self._collect(self._present(name).select(*asked))
        low, high = (None if found[end][0] is None else float(found[end][0]) for end in ("low", "high"))
        finite = all(end is not None and math.isfinite(end) for end in (low, high))
        return low, high, "part" not in found or (finite and found["part"][0] == 0.0)

    def quantiles(self, name: str, size: int) -> list[float]:
        """Quantiles 0, 1/size, …, 1 of a number column, with linear interpolation."""
        nw = _narwhals()
        value = nw.col(name).cast(nw.Float64)
        present = self._present(name)
        by_value = (
            present.select(value.alias("v")).group_by("v").agg(nw.len().alias("n")).head(QUANTILE_VALUES + 1)
        )
        found = self._collect(by_value)
        if len(found["v"]) <= QUANTILE_VALUES:
            return self._by_value(found, size)
        asked = [value.quantile(i / size, interpolation="linear").alias(f"q{i}") for i in range(size + 1)]
        try:
            found = self._collect(present.select(*asked))
        except NotImplementedError as error:
            raise InvalidInputError(
                f"{self.engine} cannot compute quantiles of column {name!r}: give its bins by edges or width"
            ) from error
        return [float(found[f"q{i}"][0]) for i in range(size + 1)]

    @staticmethod
    def _by_value(found: Mapping[str, list[Any]], size: int) -> list[float]:
        """Quantiles from values ``v`` and their counts ``n``; null and NaN are left out."""
        pairs = [(float(v), int(n)) for v, n in zip(found["v"], found["n"], strict=True) if v is not None]
        pairs = sorted((v, n) for v, n in pairs if not math.isnan(v))
        values, counts = (np.array(part) for part in zip(*pairs, strict=True))
        return binning.weighted_quantiles(values, counts, size)

    def _present(self, name: str) -> Any:
        """The column alone, without NaN; engines leave nulls out of minima, maxima and quantiles by themselves."""
        nw = _narwhals()
        column = self.frame.select(name)
        return column.filter(~nw.col(name).is_nan()) if self.kinds[name] == "number" else column

    def resolve(self, name: str, rule: Rule | Bins) -> Bins:
        """Look at the data once and turn a rule into recorded bins.

        Raises:
            InvalidInputError: The rule does not fit the column's kind.
        """
        if isinstance(rule, Cut | Top):
            self._check_fits(name, isinstance(rule, Cut), rule.rule)
            return rule
        self._check_fits(name, rule.kind != "top", str(rule))
        if rule.kind == "top":
            return self._top(name, rule)
        if rule.kind == "edges":  # values outside them show up in the counts
            whole = self.kinds[name] == "integer" or self._extremes(name)[2]
            return Cut("edges", binning.merged(rule.edges) if whole else rule.edges, whole)
        low, high, whole = self.range(name)
        if rule.kind == "width":
            return binning.equal_width(low, high, rule.size, integer=whole)
        return binning.from_quantiles(self.quantiles(name, rule.size), rule.size, integer=whole)

    def _check_fits(self, name: str, numeric: bool, rule: str) -> None:
        kind = self.kinds[name]
        if numeric and kind not in {"integer", "number"}:
            seen = self._example(name) if kind == "text" else ""
            raise InvalidInputError(
                f"column {name!r} of {self.name} is {kind}{seen}, so it cannot be cut by {rule!r}: "
                "clean it, mark the odd text as null, or group it with 'top:10'"
            )
        if not numeric and kind != "text":
            raise InvalidInputError(
                f"column {name!r} is {kind}: {rule!r} groups text; use 'width:5' or 'quantiles:4'"
            )

    def _example(self, name: str) -> str:
        """A text value of a column that was meant to hold numbers."""
        nw = _narwhals()
        values = self._collect(
            self.frame.select(nw.col(name).alias("v")).group_by("v").agg(nw.len().alias("n")).head(10_000)
        )["v"]
        return self._odd(values)

    @staticmethod
    def _odd(values: Sequence[Any]) -> str:
        odd = sorted(str(value) for value in values if value is not None and not is_number(str(value)))
        return f" (it holds {_clip(odd[0])!r})" if odd else ""

    def _top(self, name: str, rule: Rule) -> Top:
        nw = _narwhals()
        counted = self.frame.select(nw.col(name).alias("v")).filter(~nw.col("v").is_null())
        counted = counted.group_by("v").agg(nw.len().alias("n"))
        found = self._collect(counted.sort("n", "v", descending=[True, False]).head(rule.size))
        return self._kept(name, rule, found["v"])

    @staticmethod
    def _kept(name: str, rule: Rule, values: Sequence[str]) -> Top:
        if binning.OTHER in values:
            raise InvalidInputError(
                f"column {name!r} already holds {binning.OTHER!r}: rename it before grouping"
            )
        return Top(str(rule), tuple(sorted(values)))

    def group(self, keys: Mapping[str, Bins | None], limit: int) -> Grouped:
        """Count the combinations of categories that occur; the group-by runs in the engine.

        Args:
            keys: Column name to its bins, or ``None`` for the values themselves.
            limit: Most combinations to bring back.

        Returns:
            Raw values (of a cut: the interval's number, ``-1`` below, ``size`` above) and counts.
        """
        nw = _narwhals()
        aliases = {name: f"k{i}" for i, name in enumerate(keys)}
        selected = self.frame.select(
            *(self._key(name, bins).alias(aliases[name]) for name, bins in keys.items())
        )
        grouped = selected.group_by(*aliases.values()).agg(nw.len().alias("n")).head(limit + 1)
        found = self._collect(grouped)
        counts = [int(count) for count in found["n"]]
        return Grouped({name: found[alias] for name, alias in aliases.items()}, counts, len(counts) <= limit)

    def _key(self, name: str, bins: Bins | None) -> Any:
        nw = _narwhals()
        column = nw.col(name)
        if isinstance(bins, Top):
            kept = nw.when(column.is_in(list(bins.kept))).then(column)
            return kept.otherwise(nw.when(~column.is_null()).then(nw.lit(binning.OTHER)))
        if bins is None:
            return column.cast(nw.String) if self.kinds[name] == "text" else column
        return self._cut(column, bins, may_be_nan=self.kinds[name] == "number")

    @staticmethod
    def _cut(column: Any, bins: Cut, *, may_be_nan: bool) -> Any:
        """``case when v < e0 then −1 when v < e1 then 0 … end``, null for null and NaN."""
        nw = _narwhals()
        value = column.cast(nw.Float64)
        missing = column.is_null()
        if may_be_nan:  # NaN compares as the largest number in some engines
            missing = missing | column.is_nan()
        first, *inner = bins.edges[:-1]
        code = nw.when(value < first).then(nw.lit(-1))
        for i, edge in enumerate(inner):
            code = code.when(value < edge).then(nw.lit(i))
        code = code.when(value <= bins.edges[-1]).then(nw.lit(bins.size - 1)).otherwise(nw.lit(bins.size))
        return nw.when(~missing).then(code)

    def _collect(self, frame: Any) -> dict[str, list[Any]]:
        """Run a query whose small result comes back as lists."""
        nw, pa = _narwhals(), need("pyarrow", "tables")

        def work() -> Any:
            return (frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame).to_arrow()

        try:
            arrow = self._run(work)
        except pa.ArrowException as error:
            raise InvalidInputError(f"{self.name} mixes types in one column: {_first_line(error)}") from error
        return {name: arrow[name].to_pylist() for name in arrow.column_names}

    def _run(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except PrivFunnelError:
            raise
        except TypeError as error:  # pandas cannot order or hash what an object column may hold
            raise InvalidInputError(f"{self.name} mixes types in one column: {_first_line(error)}") from error
        except Exception as error:
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Stream columns in their order as Arrow record batches of at most ``rows`` rows."""
        from privfunnel.engines.batches import stream

        iterator = self._run(lambda: stream(self, names, rows))
        while True:
            batch = self._run(lambda: next(iterator, None))
            if batch is None:
                return
            yield batch


_USABLE = frozenset({"integer", "number", "boolean", "text", "date", "datetime", "object"})


def _kind(dtype: Any) -> str:
    nw = _narwhals()
    if dtype.is_integer():
        return "integer"
    if dtype.is_float() or dtype.is_decimal():
        return "number"
    if dtype == nw.Boolean:
        return "boolean"
    if dtype in {nw.String, nw.Categorical, nw.Object} or isinstance(dtype, nw.Enum):
        return "object" if dtype == nw.Object else "text"
    if dtype == nw.Date:
        return "date"
    return "datetime" if dtype == nw.Datetime else str(dtype)


def _narwhals() -> Any:
    return need("narwhals", "tables")


def is_number(value: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def _clip(value: str, length: int = 40) -> str:
    return value if len(value) <= length else value[: length - 1] + "…"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
