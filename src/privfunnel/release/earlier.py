"""The symbols that rows were released as before, as a column of their table: what a release that follows looks at.

The column is called as :data:`privfunnel.reductions.earlier_releases.EARLIER` says. Sticky draws are made again by
their key; of others the file of symbols is needed that was released, and its order file. That table is confidential.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import ReadOptions, open_table
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import AnyPath, check_target, whole_files
from privfunnel.reductions.earlier_releases import EARLIER
from privfunnel.release import order as orders
from privfunnel.release.batch_writer import BatchWriter, check_apart, file_format
from privfunnel.release.drawing import Draw
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DEFAULT_NAME, DrawOptions
from privfunnel.release.randomness import chosen_uniforms
from privfunnel.release.sampler import Tally

#: Rows that are worked on at a time.
BATCH = 100_000


def attach_redrawn(
    source: object,
    mechanism: Mechanism,
    out: AnyPath,
    *,
    sticky: AnyPath,
    series: str,
    id: str,
    read: ReadOptions | None = None,
    force: bool = False,
) -> int:
    """Write a table with the symbols of a sticky release, drawn again, as one more column; return its rows.

    Args:
        source: A path or a frame, as for :func:`privfunnel.release.write`.
        mechanism: The mechanism of the earlier release.
        out: The file, ``.csv`` or ``.parquet``, for the user alone.
        sticky: The key file of the draws.
        series: The name of their series.
        id: The column that tells the rows apart.
        read: How to read a text file or a workbook, where it differs from the design data.
        force: Overwrite an existing file.

    Raises:
        InvalidInputError: There is no such key, the table does not fit, or a file cannot be written.
    """
    if not Path(sticky).exists():
        raise InvalidInputError(f"there is no key file {str(sticky)!r}: give that of the earlier release")
    draw = Draw(mechanism, ["symbols"], DrawOptions(sticky=Path(sticky), series=series, id=id))
    uniforms, tally = chosen_uniforms(None), Tally()
    how = draw.read_options(mechanism.read_options(read, public_only=True))
    with open_table(source, how) as table:
        _check_target(source, Path(out), table, force)
        draw.needed(table)
        batches = table.batches(list(table.columns), BATCH)
        made = ((batch, draw.columns(batch, uniforms, tally).columns["symbols"][0]) for batch in batches)
        return _write(made, Path(out), force)


def attach_released(
    source: object,
    mechanism: Mechanism,
    out: AnyPath,
    *,
    released: object,
    order: AnyPath,
    name: str = DEFAULT_NAME,
    read: ReadOptions | None = None,
    force: bool = False,
) -> int:
    """Write a table with the symbols of a release, read from its file, as one more column; return its rows.

    Args:
        source: As for :func:`attach_redrawn`.
        mechanism: The mechanism of the earlier release.
        out: As there.
        released: The file of symbols that was released.
        order: Its order file, which says which row each line is of.
        name: The column of the symbols in it.
        read: As there.
        force: As there.

    Raises:
        InvalidInputError: The files do not fit each other or the table, or one cannot be read or written.
    """
    symbols = _released(released, mechanism, orders.load(order), name)
    with open_table(source, mechanism.read_options(read, public_only=True)) as table:
        _check_target(source, Path(out), table, force)
        rows = table.n_rows()
        if len(symbols) != rows:
            raise InvalidInputError(
                f"the release is of {len(symbols)} rows and the table has {rows}: give the table that was released"
            )
        return _write(_side_by_side(table.batches(list(table.columns), BATCH), symbols), Path(out), force)


def _released(released: object, mechanism: Mechanism, order: orders.Order, name: str) -> NDArray[Any]:
    """The released symbol of each row of the table, in its order."""
    with open_table(released, ReadOptions(types={name: "text"})) as table:
        if name not in table.columns:
            raise InvalidInputError(
                f"{table.name} has no column {name!r}: give the release as symbols (release --as symbols), and the "
                "column's name where it is another (--name)"
            )
        lines = [each for batch in table.batches([name], BATCH) for each in batch.column(0).to_pylist()]
    unknown = sorted({str(each) for each in lines} - set(mechanism.y_labels))
    if unknown:
        raise InvalidInputError(
            f"the mechanism has no symbol {unknown[0]!r}: give the one that the rows were released by"
        )
    symbols, kept = order.restore(np.array(lines, dtype=object))
    if not kept.all():
        raise InvalidInputError(
            f"{int((~kept).sum())} rows of the table were not released before: design for the others alone"
        )
    return symbols


def _side_by_side(batches: Iterator[Any], symbols: NDArray[Any]) -> Iterator[tuple[Any, Any]]:
    """Each batch with its part of the symbols."""
    pa, done = need("pyarrow", "tables"), 0
    for batch in batches:
        yield batch, pa.array(symbols[done : done + batch.num_rows].tolist(), pa.string())
        done += batch.num_rows


def _check_target(source: Any, out: Path, table: Any, force: bool) -> None:
    """Refuse what cannot be written, or read back as the design data was."""
    if EARLIER in table.columns:
        raise InvalidInputError(
            f"{table.name} has a column {EARLIER!r} already: rename it, or use the table as it is"
        )
    named = isinstance(source, str | Path)
    check_apart([out], {"the table itself": Path(str(source).partition("::")[0]) if named else None})
    read = table.read or ReadOptions()
    if file_format(out) == "csv" and read.skip_rows:
        raise InvalidInputError(
            f"{str(out)!r} would be written without the {read.skip_rows} rows above the header: write a .parquet file "
            "instead"
        )
    plain = read.delimiter in (None, ",")
    if file_format(out) == "csv" and not plain:
        raise InvalidInputError(
            f"{str(out)!r} would be written with commas, and the table has others: write a .parquet file instead"
        )
    check_target(out, force=force)


def _write(made: Iterator[tuple[Any, Any]], out: Path, force: bool) -> int:
    """Write batches with their symbols, whole or not at all; return how many rows there were."""
    pa, rows = need("pyarrow", "tables"), 0
    with whole_files([out], force=force, private=[out]) as (stream,):
        first = next(made, None)
        if first is None:
            raise InvalidInputError("the table has no rows: there is nothing to add to")
        fields = [*first[0].schema, pa.field(EARLIER, pa.string())]
        with BatchWriter(file_format(out), stream, fields, None, raw_text=True) as writer:
            for batch, symbols in chain([first], made):
                writer.write([*batch.columns, symbols.cast(pa.string())])
                rows += batch.num_rows
    return rows
