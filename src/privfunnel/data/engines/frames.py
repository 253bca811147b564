"""Frames of any engine that narwhals knows: the same expressions, run as the engine's own query.

A file becomes a DuckDB relation, a frame stays what it is (pandas, Polars, PyArrow, DuckDB, PySpark, Dask …).
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from privfunnel.data.engines import bins as binning
from privfunnel.data.engines.bins import Bins, Cut, Top
from privfunnel.data.engines.calendar import Part
from privfunnel.data.engines.cutting import FEW
from privfunnel.data.engines.source import (
    QUANTILE_VALUES,
    Extremes,
    Grouped,
    Overview,
    Source,
    Tails,
    Weighing,
)
from privfunnel.data.engines.texts import first_line
from privfunnel.errors import InvalidInputError, PrivFunnelError, need


class FrameSource(Source):
    """A frame.

    Args:
        frame: A narwhals DataFrame or LazyFrame.
        name: What to call the table in messages.
        hint: Advice that fits the source when a column is missing.
        explain: Turns an error of the engine into one of ours (or returns it unchanged).
        check_rows: Raises an error where a number of rows is not that of the table, counted in another way.
    """

    def __init__(
        self,
        frame: Any,
        *,
        name: str,
        hint: str = "",
        explain: Callable[[Exception], Exception] | None = None,
        check_rows: Callable[[int], None] | None = None,
    ) -> None:
        """Wrap a frame; nothing is computed."""
        super().__init__(name, hint)
        self._check_rows = check_rows or (lambda rows: None)
        self.frame = frame
        self._explain = explain or (lambda error: error)

    @property
    def engine(self) -> str:
        """The engine's name, e.g. ``"duckdb"``."""
        return str(self.frame.implementation).lower()

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kind of each column, from the frame's schema."""
        return {name: _kind_of_type(dtype) for name, dtype in self._run(self.frame.collect_schema).items()}

    def n_rows(self) -> int:
        """The number of rows, counted in the engine."""
        nw = _narwhals()
        return int(self._collect(self.frame.select(nw.len().alias("n")))["n"][0])

    def n_unique(self, name: str) -> int:
        """The number of different values of a column, null included, counted in the engine."""
        nw = _narwhals()
        return int(self._collect(self.frame.select(nw.col(name).n_unique().alias("n")))["n"][0])

    def peek(self, names: Sequence[str], rows: int) -> dict[str, int]:
        """Different values among the first rows."""
        nw = _narwhals()
        head = self.frame.select(*names).head(rows)
        found = self._collect(
            head.select(*(nw.col(name).n_unique().alias(f"k{i}") for i, name in enumerate(names)))
        )
        return {name: int(found[f"k{i}"][0] or 0) for i, name in enumerate(names)}

    def overview(self, names: Sequence[str]) -> dict[str, Overview]:
        """Different and missing values of columns, in one pass over the rows."""
        nw = _narwhals()
        asked = []
        for i, name in enumerate(names):
            missing = self._missing(name)
            present = nw.when(~missing).then(nw.col(name))  # NaN and null are one value, null
            asked += [present.n_unique().alias(f"u{i}"), missing.cast(nw.Int64).sum().alias(f"m{i}")]
        found = self._collect(self.frame.select(*asked))
        told = {}
        for i, name in enumerate(names):
            n_missing = int(found[f"m{i}"][0] or 0)
            told[name] = Overview(int(found[f"u{i}"][0]) - (n_missing > 0), n_missing)
        return told

    def incomplete(self, names: Sequence[str]) -> int:
        """Rows with a missing value in one of the columns, counted in the engine."""
        nw = _narwhals()
        lacking = self._lacking(names).cast(nw.Int64).sum().alias("m")
        found = self._collect(self.frame.select(lacking, nw.len().alias("n")))
        self._check_rows(int(found["n"][0]))
        return int(found["m"][0] or 0)

    def complete(self, names: Sequence[str]) -> FrameSource:
        """The rows without missing values in these columns; :meth:`incomplete` has compared the rows of the file."""
        rows = FrameSource(
            self.frame.filter(~self._lacking(names)), name=self.name, hint=self.hint, explain=self._explain
        )
        rows.read = self.read
        return rows

    def weighing(self, name: str) -> Weighing:
        """Sums of weights and of their squares, in one pass over the rows."""
        nw = _narwhals()
        value = nw.col(name).cast(nw.Float64)
        odd = self._missing(name) | (value < 0.0) | (value > sys.float_info.max)
        usable = nw.when(~odd).then(value)
        asked = (
            usable.sum().alias("t"),
            (usable * usable).sum().alias("q"),
            odd.cast(nw.Int64).sum().alias("o"),
        )
        found = self._collect(self.frame.select(*asked))
        return Weighing(float(found["t"][0] or 0.0), float(found["q"][0] or 0.0), int(found["o"][0] or 0))

    def _lacking(self, names: Sequence[str]) -> Any:
        """Whether one of the columns is missing."""
        return functools.reduce(operator.or_, map(self._missing, names))

    def _missing(self, name: str) -> Any:
        column = _narwhals().col(name)
        return column.is_null() | column.is_nan() if self.kinds[name] == "number" else column.is_null()

    def extremes(self, name: str) -> Extremes:
        """Ends of a number column; null and NaN left out."""
        nw = _narwhals()
        value = nw.col(name)
        asked = [value.min().alias("low"), value.max().alias("high")]
        if self.kinds[name] == "number":
            part = value.cast(nw.Float64) % 1
            asked += [
                (part > 0.0).cast(nw.Int64).sum().alias("broken"),
                (part == 0.0).cast(nw.Int64).sum().alias("full"),
            ]
        found = self._collect(self._present(name).select(*asked))
        low, high = (None if found[end][0] is None else float(found[end][0]) for end in ("low", "high"))
        finite = all(end is not None and math.isfinite(end) for end in (low, high))
        broken, full = ((found[each][0] or 0) if each in found else 0 for each in ("broken", "full"))
        # A few rows' own decimals are no reason to write all bins with some: that would tell of them.
        return Extremes(
            low, high, "broken" not in found or (finite and (broken == 0 or broken < FEW <= full))
        )

    def ends(self, name: str, rows: int) -> tuple[list[float], list[float]]:
        """The least and the largest numbers; null and NaN left out."""
        nw = _narwhals()
        present = self._present(name).select(nw.col(name).alias("v")).filter(~nw.col("v").is_null())
        low, high = (
            self._collect(present.sort("v", descending=down).head(rows))["v"] for down in (False, True)
        )
        return [float(v) for v in low], [float(v) for v in high]

    def frequencies(self, name: str) -> tuple[list[Any], list[int]] | None:
        """Different numbers and how often each occurs, counted in the engine."""
        nw = _narwhals()
        values = self._present(name).select(nw.col(name).cast(nw.Float64).alias("v"))
        found = self._collect(values.group_by("v").agg(nw.len().alias("n")).head(QUANTILE_VALUES + 1))
        return None if len(found["v"]) > QUANTILE_VALUES else (found["v"], found["n"])

    def quantiles(self, name: str, size: int) -> list[float]:
        """Quantiles as the engine computes them."""
        nw = _narwhals()
        value = nw.col(name).cast(nw.Float64)
        present = self._present(name)
        asked = [value.quantile(i / size, interpolation="linear").alias(f"q{i}") for i in range(size + 1)]
        try:
            found = self._collect(present.select(*asked))
        except NotImplementedError as error:
            raise InvalidInputError(
                f"{self.engine} cannot compute quantiles of column {name!r}: give its bins by edges or width"
            ) from error
        return [float(found[f"q{i}"][0]) for i in range(size + 1)]

    def _present(self, name: str) -> Any:
        """The column alone, without NaN; engines leave nulls out of minima, maxima and quantiles by themselves."""
        nw = _narwhals()
        column = self.frame.select(name)
        return column.filter(~nw.col(name).is_nan()) if self.kinds[name] == "number" else column

    def top(self, name: str, size: int) -> list[str]:
        """The most frequent values; of equally frequent ones the first in order."""
        nw = _narwhals()
        counted = self.frame.select(nw.col(name).alias("v")).filter(~nw.col("v").is_null())
        counted = counted.group_by("v").agg(nw.len().alias("n"))
        return self._collect(counted.sort("n", "v", descending=[True, False]).head(size))["v"]

    def some_values(self, name: str, limit: int) -> list[Any]:
        """Some of a column's different values."""
        nw = _narwhals()
        grouped = self.frame.select(nw.col(name).alias("v")).group_by("v").agg(nw.len().alias("n"))
        return self._collect(grouped.head(limit))["v"]

    def each_once(self, person: str, name: str) -> FrameSource:
        """Different pairs of the two columns."""
        pairs = self.frame.select(person, name).unique()
        return FrameSource(pairs, name=self.name, hint=self.hint, explain=self._explain)

    def group(
        self,
        keys: Mapping[str, Bins | None],
        limit: int,
        sums: Mapping[str, Tails] | None = None,
        person: str | None = None,
    ) -> Grouped:
        """Count combinations in the engine."""
        nw = _narwhals()
        aliases = {name: f"k{i}" for i, name in enumerate(keys)}
        totals = {name: f"t{i}" for i, name in enumerate(sums or {})}
        asked = [nw.len().alias("n"), *(nw.col(alias).sum() for alias in totals.values())]
        selected = self.frame.select(
            *(self._key(name, bins).alias(aliases[name]) for name, bins in keys.items()),
            *(self._within(name, (sums or {})[name]).alias(alias) for name, alias in totals.items()),
            *([] if person is None else self._people(person)),
        )
        if person is not None:
            # People of a combination once each, then how many there are; nameless rows are as many as they are.
            selected = selected.group_by(*aliases.values(), "who").agg(nw.col("lone").sum())
            each = nw.when(nw.col("lone") > 0).then(nw.col("lone")).otherwise(nw.lit(1))
            selected = selected.select(*aliases.values(), each.alias("people"))
            asked = [nw.col("people").sum().alias("n")]
        found = self._collect(selected.group_by(*aliases.values()).agg(*asked).head(limit + 1))
        counts = [int(count) for count in found["n"]]
        if len(counts) <= limit and person is None:
            self._check_rows(sum(counts))
        return Grouped(
            {name: found[alias] for name, alias in aliases.items()},
            counts,
            len(counts) <= limit,
            {name: found[alias] for name, alias in totals.items()},
        )

    def _people(self, person: str) -> list[Any]:
        """Who a row is about, and whether it says nobody."""
        nw, missing = _narwhals(), self._missing(person)
        return [nw.when(~missing).then(nw.col(person)).alias("who"), missing.cast(nw.Int64).alias("lone")]

    @staticmethod
    def _within(name: str, tails: Tails) -> Any:
        """The column's numbers, those beyond the tails moved to them."""
        nw = _narwhals()
        value = nw.col(name).cast(nw.Float64)
        moved = nw.when(value < tails.low).then(nw.lit(tails.low)).when(value > tails.high)
        return moved.then(nw.lit(tails.high)).otherwise(value)

    def _key(self, name: str, bins: Bins | None) -> Any:
        nw = _narwhals()
        column = nw.col(name)
        if isinstance(bins, Top):
            kept = nw.when(column.is_in(list(bins.kept))).then(column)
            return kept.otherwise(nw.when(~column.is_null()).then(nw.lit(binning.OTHER)))
        if bins is None:
            return column.cast(nw.String) if self.kinds[name] == "text" else column
        if isinstance(bins, Part):
            return bins.expression(self._in_utc(name))
        if bins.part:
            return self._cut(Part(bins.part).expression(self._in_utc(name)), bins, may_be_nan=True)
        return self._cut(column, bins, may_be_nan=self.kinds[name] == "number")

    def _in_utc(self, name: str) -> Any:
        """A column of dates; times with a zone are taken in UTC, as their values are."""
        column = _narwhals().col(name)
        zoned = getattr(self.frame.collect_schema()[name], "time_zone", None) is not None
        return column.dt.convert_time_zone("UTC") if zoned else column

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
            raise InvalidInputError(f"{self.name} mixes types in one column: {first_line(error)}") from error
        return {name: _shared(arrow[name], pa) for name in arrow.column_names}

    def _run(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except PrivFunnelError:
            raise
        except TypeError as error:  # pandas cannot order or hash what an object column may hold
            raise InvalidInputError(f"{self.name} mixes types in one column: {first_line(error)}") from error
        except Exception as error:
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Stream columns in their order; the caller never holds more than a batch or two.

        Raises:
            InvalidInputError: The engine's rows live on a cluster and should stay there.
        """
        iterator = self._run(lambda: self._stream(names, rows))
        seen = 0
        while True:
            batch = self._run(lambda: next(iterator, None))
            if batch is None:
                self._check_rows(seen)
                return
            seen += batch.num_rows
            yield batch

    def _stream(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Record batches, one way an engine."""
        frame = self.frame.select(*names)
        if self.engine == "duckdb":
            return iter(frame.to_native().to_arrow_reader(rows))
        if self.engine == "polars" and not hasattr(frame, "to_arrow"):
            return _polars_lazy(frame.to_native(), rows)
        if self.engine == "dask":
            return _dask(frame.to_native(), rows)
        if hasattr(frame, "to_arrow"):
            return _eager(frame, rows)
        raise InvalidInputError(
            f"rows of a {self.engine} frame stay on its cluster: use privfunnel.release.frame(df, mechanism) and write "
            "the result there"
        )


def _eager(frame: Any, rows: int) -> Iterator[Any]:
    for start in range(0, len(frame), rows):
        part = frame[start : start + rows].to_arrow().select(list(frame.columns))
        yield from part.combine_chunks().to_batches()


def _polars_lazy(native: Any, rows: int) -> Iterator[Any]:
    for part in native.collect_batches(chunk_size=rows, maintain_order=True):
        yield from part.to_arrow().combine_chunks().to_batches(max_chunksize=rows)


def _dask(native: Any, rows: int) -> Iterator[Any]:
    pa = need("pyarrow", "tables")
    for index in range(native.npartitions):
        part = pa.Table.from_pandas(native.partitions[index].compute(), preserve_index=False)
        yield from part.combine_chunks().to_batches(max_chunksize=rows)


def _kind_of_type(dtype: Any) -> str:
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


def _shared(column: Any, pa: Any) -> list[Any]:
    """A column as a list in which equal texts are one object: a few texts in millions of places take little memory."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return list(column.to_pylist())
    coded = column.combine_chunks().dictionary_encode()
    texts = [*coded.dictionary.to_pylist(), None]
    return list(map(texts.__getitem__, coded.indices.fill_null(len(texts) - 1).to_pylist()))
