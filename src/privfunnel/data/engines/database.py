"""Tables of any database with a DB-API connection: the same group-by, as plain SQL that runs in the database."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from privfunnel.data.engines import bins as binning
from privfunnel.data.engines.bins import Bins, Cut, Top
from privfunnel.data.engines.calendar import Part
from privfunnel.data.engines.categories import canonical, kind_of
from privfunnel.data.engines.source import (
    QUANTILE_VALUES,
    Extremes,
    Grouped,
    Overview,
    Source,
    Tails,
    Weighing,
)
from privfunnel.data.engines.texts import LONGEST_MESSAGE, clip, first_line, literal, one_line, quoted
from privfunnel.errors import InvalidInputError, need

SAMPLE_VALUES = 50


class DatabaseSource(Source):
    """One table or view of a database, reached through a DB-API connection (sqlite3, psycopg, …).

    Counting asks the database for ``SELECT …, COUNT(*) … GROUP BY``; only the counts come back. Kinds of columns are
    told from a few of their different values. The database must know ``CASE``, ``LIMIT`` and sub-selects.

    Args:
        connection: An open DB-API connection; it stays open.
        table: Name of the table, or ``schema.table``; for names that hold a dot, a tuple of their parts.
        quote: The character around identifiers: ``"`` in standard SQL, a backtick in MySQL.
    """

    def __init__(self, connection: Any, table: str | tuple[str, ...], *, quote: str = '"') -> None:
        """Remember the connection; nothing is asked yet."""
        parts = table.split(".") if isinstance(table, str) else table
        super().__init__(repr(".".join(parts)))
        self.connection = connection
        self._quote = quote
        self._from = ".".join(self._quoted(part) for part in parts)

    @property
    def engine(self) -> str:
        """The driver's module, e.g. ``"sqlite3"``."""
        return type(self.connection).__module__.partition(".")[0]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kind of each column, from some of its different values; a column of nulls counts as text."""
        names = list(self._query(f"SELECT * FROM {self._from} WHERE 1 = 0"))
        found = {}
        for name in names:
            values = self.some_values(name, SAMPLE_VALUES)
            if any(isinstance(value, bytes) for value in values):
                found[name] = "bytes"
                continue
            try:
                found[name] = kind_of({canonical(value) for value in values}, name)
            except InvalidInputError:
                found[name] = "object"  # mixed: told when the column is used
        return found

    def n_rows(self) -> int:
        """The number of rows."""
        return int(self._query(f"SELECT COUNT(*) AS n FROM {self._from}")["n"][0])

    def n_unique(self, name: str) -> int:
        """Different values, null included."""
        values = f"SELECT DISTINCT {self._quoted(name)} AS v FROM {self._from}"
        return int(self._query(f"SELECT COUNT(*) AS n FROM ({values}) AS d")["n"][0])

    def peek(self, names: Sequence[str], rows: int) -> dict[str, int]:
        """Different values among some rows."""
        found = {}
        for name in names:
            head = f"SELECT {self._quoted(name)} AS v FROM {self._from} LIMIT {rows}"
            values = f"SELECT DISTINCT v FROM ({head}) AS h"
            found[name] = int(self._query(f"SELECT COUNT(*) AS n FROM ({values}) AS d")["n"][0])
        return found

    def overview(self, names: Sequence[str]) -> dict[str, Overview]:
        """Different and missing values of columns, in one query."""
        asked = []
        for i, name in enumerate(names):
            column = self._quoted(name)
            asked += [f"COUNT(DISTINCT {column}) AS u{i}", f"COUNT(*) - COUNT({column}) AS m{i}"]
        found = self._query(f"SELECT {', '.join(asked)} FROM {self._from}")
        return {
            name: Overview(int(found[f"u{i}"][0]), int(found[f"m{i}"][0])) for i, name in enumerate(names)
        }

    def incomplete(self, names: Sequence[str]) -> int:
        """Rows with a null in one of the columns, counted in the database."""
        lacking = " OR ".join(f"{self._quoted(name)} IS NULL" for name in names)
        return int(self._query(f"SELECT COUNT(*) AS n FROM {self._from} WHERE {lacking}")["n"][0])

    def complete(self, names: Sequence[str]) -> DatabaseSource:
        """The rows without nulls in these columns, as a sub-select."""
        filled = " AND ".join(f"{self._quoted(name)} IS NOT NULL" for name in names)
        rows = copy.copy(self)
        rows._from = f"(SELECT * FROM {self._from} WHERE {filled}) AS filled"
        return rows

    def weighing(self, name: str) -> Weighing:
        """Sums of weights and of their squares, in one query."""
        column = self._quoted(name)
        odd = f"{column} IS NULL OR {column} < 0 OR {column} > {sys.float_info.max!r}"
        usable = f"CASE WHEN {odd} THEN 0 ELSE 1.0 * {column} END"
        rows = f"SELECT {usable} AS w, CASE WHEN {odd} THEN 1 ELSE 0 END AS odd FROM {self._from}"
        found = self._query(f"SELECT SUM(w) AS t, SUM(w * w) AS q, SUM(odd) AS o FROM ({rows}) AS r")
        return Weighing(float(found["t"][0] or 0.0), float(found["q"][0] or 0.0), int(found["o"][0] or 0))

    def extremes(self, name: str) -> Extremes:
        """Ends of a number column, as the database compares numbers."""
        column = self._quoted(name)
        found = self._query(f"SELECT MIN({column}) AS low, MAX({column}) AS high FROM {self._from}")
        low, high = (None if found[end][0] is None else float(found[end][0]) for end in ("low", "high"))
        return Extremes(low, high, self.kinds[name] == "integer")

    def ends(self, name: str, rows: int) -> tuple[list[float], list[float]]:
        """The least and the largest numbers."""
        column = self._quoted(name)
        low, high = (
            self._query(
                f"SELECT {column} AS v FROM {self._from} WHERE {column} IS NOT NULL ORDER BY v {way} LIMIT {rows}"
            )["v"]
            for way in ("ASC", "DESC")
        )
        return [float(v) for v in low], [float(v) for v in high]

    def frequencies(self, name: str) -> tuple[list[Any], list[int]] | None:
        """Different numbers and how often each occurs, counted in the database."""
        column = self._quoted(name)
        found = self._query(
            f"SELECT {column} AS v, COUNT(*) AS n FROM {self._from} WHERE {column} IS NOT NULL GROUP BY {column} "
            f"LIMIT {QUANTILE_VALUES + 1}"
        )
        return None if len(found["v"]) > QUANTILE_VALUES else (found["v"], found["n"])

    def quantiles(self, name: str, size: int) -> list[float]:
        """Plain SQL has no quantiles."""
        raise InvalidInputError(
            f"column {name!r} has more than {QUANTILE_VALUES} different values: give its bins by edges or width"
        )

    def some_values(self, name: str, limit: int) -> list[Any]:
        """Some of a column's different values."""
        return self._query(f"SELECT DISTINCT {self._quoted(name)} AS v FROM {self._from} LIMIT {limit}")["v"]

    def top(self, name: str, size: int) -> list[str]:
        """The most frequent values; of equally frequent ones the first in the database's order."""
        column = self._quoted(name)
        found = self._query(
            f"SELECT {column} AS v, COUNT(*) AS n FROM {self._from} WHERE {column} IS NOT NULL GROUP BY {column} "
            f"ORDER BY n DESC, v LIMIT {size}"
        )
        return found["v"]

    def each_once(self, person: str, name: str) -> DatabaseSource:
        """Different pairs of the two columns, as a sub-select."""
        pairs = copy.copy(self)
        listed = ", ".join(dict.fromkeys(map(self._quoted, (person, name))))
        pairs._from = f"(SELECT DISTINCT {listed} FROM {self._from}) AS once"
        return pairs

    def group(
        self,
        keys: Mapping[str, Bins | None],
        limit: int,
        sums: Mapping[str, Tails] | None = None,
        person: str | None = None,
    ) -> Grouped:
        """Count combinations in the database."""
        aliases = {name: f"k{i}" for i, name in enumerate(keys)}
        totals = {name: f"t{i}" for i, name in enumerate(sums or {})}
        selected = [f"{self._case(name, bins)} AS {aliases[name]}" for name, bins in keys.items()]
        selected += [f"{self._within(name, (sums or {})[name])} AS {alias}" for name, alias in totals.items()]
        counted = "COUNT(*)"
        if person is not None:  # a row without a name is a person of its own
            selected.append(f"{self._quoted(person)} AS who")
            counted = "COUNT(DISTINCT who) + COUNT(*) - COUNT(who)"
        listed = ", ".join(aliases.values())
        asked = ", ".join(
            [listed, f"{counted} AS n", *(f"SUM({alias}) AS {alias}" for alias in totals.values())]
        )
        found = self._query(
            f"SELECT {asked} FROM (SELECT {', '.join(selected)} FROM {self._from}) AS r GROUP BY {listed} "
            f"LIMIT {limit + 1}"
        )
        counts = [int(count) for count in found["n"]]
        return Grouped(
            {name: found[alias] for name, alias in aliases.items()},
            counts,
            len(counts) <= limit,
            {name: found[alias] for name, alias in totals.items()},
        )

    def _within(self, name: str, tails: Tails) -> str:
        """The column's numbers, those beyond the tails moved to them."""
        column = self._quoted(name)
        low, high = (f"{end!r}" for end in tails)
        return (
            f"CASE WHEN {column} IS NULL THEN NULL WHEN {column} < {low} THEN {low} WHEN {column} > {high} THEN {high} "
            f"ELSE {column} END"
        )

    def _case(self, name: str, bins: Bins | None) -> str:
        column = self._quoted(name)
        if isinstance(bins, Top):
            kept = ", ".join(map(literal, bins.kept))
            return (
                f"CASE WHEN {column} IS NULL OR {column} IN ({kept}) THEN {column} ELSE '{binning.OTHER}' END"
            )
        if isinstance(bins, Part):
            return bins.sql(column, sqlite=self._sqlite)
        if not isinstance(bins, Cut):
            return column
        if bins.part:
            column = Part(bins.part).sql(column, sqlite=self._sqlite)
        first, *inner = bins.edges[:-1]
        whens = [
            self._below(column, first, -1),
            *(self._below(column, edge, i) for i, edge in enumerate(inner)),
        ]
        last = (
            "" if bins.edges[-1] == float("inf") else f"WHEN {column} > {bins.edges[-1]!r} THEN {bins.size} "
        )
        return f"CASE WHEN {column} IS NULL THEN NULL {' '.join(whens)} {last}ELSE {bins.size - 1} END"

    @staticmethod
    def _below(column: str, edge: float, code: int) -> str:
        return "" if edge == float("-inf") else f"WHEN {column} < {edge!r} THEN {code}"

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Rows as the cursor gives them, ``rows`` at a time."""
        pa = need("pyarrow", "tables")
        types = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "text": pa.string()}
        cursor = self._execute(f"SELECT {', '.join(map(self._quoted, names))} FROM {self._from}")
        try:
            while part := self._fetched(cursor, rows):
                columns = list(zip(*part, strict=True))
                try:
                    arrays = [
                        pa.array(values, types.get(self.kinds[name]))
                        for name, values in zip(names, columns, strict=True)
                    ]
                except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                    raise InvalidInputError(
                        f"{self.name} mixes types in one column: {first_line(error)}"
                    ) from error
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))
        finally:
            cursor.close()

    @property
    def _sqlite(self) -> bool:
        return self.engine == "sqlite3"

    def dated(self, name: str) -> bool:
        """Whether a column holds dates; SQLite has no such type, so texts written year first are dates there."""
        if not self._sqlite or self.kinds[name] != "text":
            return super().dated(name)
        column = self._quoted(name)
        odd = (
            f"{column} IS NOT NULL AND ({column} NOT LIKE '____-__-__%' OR strftime('%Y', {column}) IS NULL)"
        )
        return not self._query(f"SELECT 1 AS odd FROM {self._from} WHERE {odd} LIMIT 1")["odd"]

    def _fetched(self, cursor: Any, rows: int) -> list[Any]:
        try:
            return list(cursor.fetchmany(rows))
        except Exception as error:  # as above
            raise self._unreadable(error) from error

    def _quoted(self, name: str) -> str:
        return quoted(name, self._quote)

    def _execute(self, sql: str) -> Any:
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql)
        except Exception as error:  # every driver has exceptions of its own
            cursor.close()
            raise self._unreadable(error) from error
        return cursor

    def _unreadable(self, error: Exception) -> InvalidInputError:
        return InvalidInputError(f"{self.name} cannot be read: {clip(one_line(error), LONGEST_MESSAGE)}")

    def _query(self, sql: str) -> dict[str, list[Any]]:
        cursor = self._execute(sql)
        try:
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
        except Exception as error:
            raise self._unreadable(error) from error
        finally:
            cursor.close()
        return {name: [row[j] for row in rows] for j, name in enumerate(names)}
