"""Engines: where the rows are. Everything above this package sees counts or streamed batches, never an engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from privfunnel.data.engines.alphabet import Alphabet
from privfunnel.data.engines.bins import Bins, Cut, Top
from privfunnel.data.engines.calendar import Part
from privfunnel.data.engines.categories import Column, Value
from privfunnel.data.engines.database import DatabaseSource
from privfunnel.data.engines.frames import FrameSource
from privfunnel.data.engines.readers import connect, open_file, sniff
from privfunnel.data.engines.reading import ReadOptions
from privfunnel.data.engines.source import Source
from privfunnel.errors import InvalidInputError, need

__all__ = [
    "Alphabet",
    "Bins",
    "Column",
    "Cut",
    "Database",
    "DatabaseSource",
    "FrameSource",
    "Part",
    "ReadOptions",
    "Source",
    "Top",
    "Value",
    "open_table",
    "sniff",
]

#: A table of a database, under the short name by which people write it.
Database = DatabaseSource


@contextmanager
def open_table(source: object, read: ReadOptions | None = None) -> Iterator[Source]:
    """Open a file, a database table or a frame; everything opened is closed again at the end.

    Args:
        source: A path (CSV, Excel, Parquet, JSON lines, Arrow), ``"FILE.duckdb::TABLE"``, a frame that narwhals knows
            (pandas, Polars, PyArrow, DuckDB relation, PySpark, Dask …), or a :class:`Source` such as
            ``Database(connection, "customers")``.
        read: How to read a text file or a workbook.

    Raises:
        InvalidInputError: The source is none of these.
    """
    with ExitStack() as stack:
        if isinstance(source, Source):
            yield source
        elif isinstance(source, str | os.PathLike):
            yield open_file(os.fspath(source), read or ReadOptions(), stack)
        else:
            yield _frame(source, stack)


def _frame(source: object, stack: ExitStack) -> Source:
    nw = need("narwhals", "tables")
    if type(source).__module__.startswith("pyarrow") and hasattr(source, "scanner"):
        source = connect(stack).from_arrow(source)  # an Arrow dataset: DuckDB streams it
    try:
        frame = nw.from_native(source, allow_series=False)
    except TypeError as error:
        raise InvalidInputError(
            f"a source of type {type(source).__name__} is not a table: give a path or a frame of pandas, Polars, "
            "PyArrow, DuckDB, PySpark or Dask"
        ) from error
    return FrameSource(frame, name="the frame")
