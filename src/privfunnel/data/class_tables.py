"""Classes of public symbols counted where the rows are: of any number of symbols only classes come back.

:func:`privfunnel.data.tables.count` brings every combination that occurs into Python. Here the engine (a Spark cluster,
say) goes one step further: it counts the private symbols of each public one, and groups the public ones by p(s|x).
What comes back are the classes of :mod:`privfunnel.model.equal_symbols` with their counts, how many symbols each has,
and H(X|T). Solving needs no more: L_X(R) = L_T(max(0, R − H(X|T))), nats.

Different quotients of whole numbers below 2²⁶ differ in floating point, too, so that counts decide equality exactly up
to 67 million rows of a public symbol, and to 1e-16 beyond.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import FrameSource, open_table
from privfunnel.data.engines.advice import MEASURED
from privfunnel.data.engines.cutting import FEW
from privfunnel.data.tables import MAX_LEVELS, PEEK_ROWS, column_names
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import entropy, entropy_of_sums
from privfunnel.model.equal_symbols import classes_of
from privfunnel.model.problem import Problem

#: Most private symbols; each is a column of the query.
MAX_PRIVATE = 64
#: Most classes that are brought back from an engine.
MAX_CLASSES = 200_000


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How often each private symbol occurs in each class of public ones.

    Attributes:
        private: Names of the private columns, and ``public`` of the public ones.
        s_values: The private values of each symbol of S, as the engine has them; K of them.
        table: Rows with each private symbol in each class, shape (K, C), in a fixed order of the classes.
        members: Public symbols in each class, shape (C,).
        h_x: H(X) in nats.
        few: Rows whose public symbol fewer than 5 rows have.
    """

    private: tuple[str, ...]
    public: tuple[str, ...]
    s_values: tuple[tuple[Any, ...], ...]
    table: NDArray[np.int64]
    members: NDArray[np.int64]
    h_x: float
    few: int

    @property
    def n_x(self) -> int:
        """M, the number of public symbols."""
        return int(self.members.sum())

    @property
    def n_classes(self) -> int:
        """C, the number of classes."""
        return len(self.members)

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.table.sum())

    @property
    def h_within(self) -> float:
        """H(X|T) in nats: what the members disclose beyond their class, at no leakage."""
        return max(self.h_x - float(entropy(self.table.sum(axis=0) / self.n)), 0.0)

    @property
    def quotients(self) -> NDArray[np.float64]:
        """p(s|t), shape (K, C): what the engine grouped by, bit for bit."""
        return np.asarray(self.table / self.table.sum(axis=0))

    def problem(self) -> Problem:
        """The funnel problem of the classes; its leakages are those of X, disclosures are smaller by H(X|T)."""
        names = [
            ", ".join(f"{name}={value}" for name, value in zip(self.private, values, strict=True))
            for values in self.s_values
        ]
        counted = [f"class {i + 1} of {n} symbols" for i, n in enumerate(self.members.tolist())]
        return Problem(self.table, names, counted)

    def inner(self, disclosure: float) -> float:
        """The disclosure of the classes, in nats, that goes with ``disclosure`` nats of X.

        Raises:
            InvalidInputError: X has less than that.
        """
        if not 0.0 <= disclosure <= self.h_x * (1.0 + 1e-12):
            raise InvalidInputError(
                f"a disclosure of {disclosure!r} nats is not between 0 and H(X) = {self.h_x:.6g} nats: ask for a share "
                "of that"
            )
        return min(max(disclosure - self.h_within, 0.0), self.problem().disclosure_ceiling)


def count(source: object, *, private: str | Iterable[str], public: str | Iterable[str]) -> ClassCounts:
    """Count classes in the table's own engine; columns are taken as they are, cut into bins beforehand.

    Args:
        source: A frame of PySpark, DuckDB, Polars, pandas, Dask …, or a path.
        private: Names of the private columns (S).
        public: Names of the public columns (X).

    Raises:
        InvalidInputError: A column is missing or has too many values, the table is empty, or there are too many private
            symbols or classes.
    """
    roles = [column_names(private, "private"), column_names(public, "public")]
    with open_table(source) as table:
        frame = _checked(table, roles)
        s_values = _private_symbols(frame, table.name, roles[0])
        named = _per_symbol(frame, roles, s_values)
        return _collected(named, roles, s_values)


def symbols(source: object, counts: ClassCounts) -> Any:
    """The public symbols as a frame of the source's engine.

    A row each: values ``x0`` …, rows with each private symbol ``n0`` … and in all ``n``, quotients ``q0`` ….
    """
    frame = need("narwhals", "tables").from_native(source)
    return _per_symbol(frame, [counts.private, counts.public], counts.s_values).to_native()


def _checked(table: Any, roles: Sequence[tuple[str, ...]]) -> Any:
    """The frame of a table whose columns can be used."""
    if not isinstance(table, FrameSource):
        raise InvalidInputError(
            f"{table.name} is not a frame: classes are counted in frames and files; use tables.count"
        )
    names = list(dict.fromkeys([*roles[0], *roles[1]]))
    table.require(names)
    for name, found in table.peek(names, PEEK_ROWS).items():
        if table.kinds[name] in MEASURED and found > MAX_LEVELS + 1:
            raise InvalidInputError(
                f"column {name!r} ({table.kinds[name]}) has {found} different values or more: cut it into bins in the "
                "frame first"
            )
    return table.frame


def _private_symbols(frame: Any, name: str, private: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    nw = need("narwhals", "tables")
    aliases = [f"s{j}" for j in range(len(private))]
    keys = frame.select(
        *(nw.col(column).alias(alias) for column, alias in zip(private, aliases, strict=True))
    )
    found = _rows(keys.group_by(*aliases).agg(nw.len().alias("n")).head(MAX_PRIVATE + 1))
    if not found["n"]:
        raise InvalidInputError(f"{name} has no rows: there is nothing to count")
    if len(found["n"]) > MAX_PRIVATE:
        raise InvalidInputError(
            f"the private columns have more than {MAX_PRIVATE} combinations: group their values in the frame first"
        )
    values = zip(*(found[alias] for alias in aliases), strict=True)
    # Any order will do that all engines share; None has no place among texts and numbers.
    return tuple(sorted(values, key=lambda row: [(value is None, str(value)) for value in row]))


def _per_symbol(frame: Any, roles: Sequence[tuple[str, ...]], s_values: Sequence[tuple[Any, ...]]) -> Any:
    """A row a public symbol: its values, how many rows have each private symbol, and the quotients."""
    nw = need("narwhals", "tables")

    def is_value(column: str, value: object) -> Any:
        return nw.col(column).is_null() if value is None else nw.col(column) == nw.lit(value)

    x = [f"x{j}" for j in range(len(roles[1]))]
    n = [f"n{k}" for k in range(len(s_values))]
    marks = []
    for alias, values in zip(n, s_values, strict=True):
        here = functools.reduce(operator.and_, map(is_value, roles[0], values))
        marks.append(nw.when(here).then(nw.lit(1)).otherwise(nw.lit(0)).cast(nw.Int64).alias(alias))
    publics = (nw.col(column).alias(alias) for column, alias in zip(roles[1], x, strict=True))
    grouped = frame.select(*publics, *marks).group_by(*x).agg(*(nw.col(alias).sum() for alias in n))
    whole = functools.reduce(operator.add, map(nw.col, n))
    told = grouped.with_columns(whole.cast(nw.Float64).alias("n"))
    quotients = ((nw.col(alias).cast(nw.Float64) / nw.col("n")).alias(f"q{k}") for k, alias in enumerate(n))
    return told.with_columns(*quotients)


def _collected(
    named: Any, roles: Sequence[tuple[str, ...]], s_values: tuple[tuple[Any, ...], ...]
) -> ClassCounts:
    """Group the symbols by their quotients, and bring back what there is of each class."""
    nw = need("narwhals", "tables")
    n, q = ([f"{letter}{k}" for k in range(len(s_values))] for letter in "nq")
    rows = nw.col("n")
    rare = nw.when(rows < float(FEW)).then(rows).otherwise(nw.lit(0.0))
    asked = [*(nw.col(alias).sum() for alias in n), nw.len().alias("members"),
             nw.col("logs").sum(), nw.col("few").sum()]  # fmt: skip
    logs = (rows * rows.log()).alias("logs")
    grouped = named.with_columns(logs, rare.alias("few")).group_by(*q).agg(*asked)
    found = _rows(grouped.head(MAX_CLASSES + 1))
    if len(found["members"]) > MAX_CLASSES:
        raise InvalidInputError(
            f"the public columns have more than {MAX_CLASSES:,} classes: group their values in the frame first"
        )
    table = np.array([found[alias] for alias in n], dtype=np.int64)
    # Quotients of more than 2²⁶ rows may differ by a rounding: whole numbers have the last word, and order the classes.
    classes = classes_of(table.astype(np.float64))
    size = int(classes.max()) + 1
    summed = np.zeros((size, len(n)), dtype=np.int64)
    np.add.at(summed, classes, table.T)
    merged = summed.T
    members = np.bincount(classes, found["members"], size).astype(np.int64)
    order = np.lexsort((merged / merged.sum(axis=0))[::-1])
    total = float(table.sum())
    return ClassCounts(
        private=roles[0], public=roles[1], s_values=s_values, table=merged[:, order], members=members[order],
        h_x=entropy_of_sums(total, sum(found["logs"])), few=round(sum(found["few"])),
    )  # fmt: skip


def _rows(frame: Any) -> dict[str, list[Any]]:
    """A small result as lists."""
    nw = need("narwhals", "tables")
    arrow = (frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame).to_arrow()
    return {name: arrow[name].to_pylist() for name in arrow.column_names}
