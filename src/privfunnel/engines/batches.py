"""Rows as streamed Arrow batches, one way an engine; the caller never holds more than a batch or two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from privfunnel.errors import InvalidInputError, need

if TYPE_CHECKING:
    from privfunnel.engines.source import Table


def stream(table: Table, names: Sequence[str], rows: int) -> Iterator[Any]:
    """Record batches of at most ``rows`` rows with the columns ``names``, in the order of the table.

    Raises:
        InvalidInputError: The engine's rows live on a cluster and should stay there.
    """
    frame = table.frame.select(*names)
    engine = table.engine
    if engine == "duckdb":
        return iter(frame.to_native().to_arrow_reader(rows))
    if engine == "polars" and not hasattr(frame, "to_arrow"):
        return _polars_lazy(frame.to_native(), rows)
    if engine == "dask":
        return _dask(frame.to_native(), rows)
    if hasattr(frame, "to_arrow"):
        return _eager(frame, rows)
    raise InvalidInputError(
        f"rows of a {engine} frame stay on its cluster: use privfunnel.release.frame(df, mechanism) and write "
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
