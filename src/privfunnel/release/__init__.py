"""Releases: rows go through a mechanism, batch by batch, and only what it draws is written.

:func:`write` makes a file of any table, :func:`frame` a frame of the engine the rows are in (on Spark the same sampler
runs on the executors).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privfunnel.engines import ReadOptions, Table, open_table
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.mechanism import Mechanism
from privfunnel.release import codebook as codebooks
from privfunnel.release.output import BINNED, FORMS, Output, check_kept
from privfunnel.release.randomness import Uniforms, secure, seeded
from privfunnel.release.sampler import UNSEEN_RULES, Sampler, Tally
from privfunnel.release.writer import BatchWriter, atomic, check_target, file_format

__all__ = ["BINNED", "FORMS", "UNSEEN_RULES", "Report", "frame", "write"]

BATCH_ROWS = 131_072
DEFAULT_NAME = "released"


@dataclass(frozen=True)
class Report:
    """What a release did.

    Attributes:
        out: The file.
        codebook: The codebook beside it.
        rows: Rows read.
        written: Rows written.
        unseen: Rows with values unknown at design time, by column (``"combination"`` for a new combination).
        unseen_rule: What was done with them.
        symbols: How often each symbol was released.
        seconds: Wall-clock time.
        seed: The seed, or ``None`` for secure randomness.
    """

    out: Path
    codebook: Path
    rows: int
    written: int
    unseen: dict[str, int]
    unseen_rule: str
    symbols: tuple[int, ...]
    seconds: float
    seed: int | None


def write(
    source: Any,
    mechanism: Mechanism,
    out: str | os.PathLike[str],
    *,
    form: str = "symbols",
    keep: Sequence[str] = (),
    unseen: str = "error",
    seed: int | None = None,
    force: bool = False,
    name: str = DEFAULT_NAME,
    binned: str = "midpoint",
    codebook: str | os.PathLike[str] | None = None,
    read: ReadOptions | None = None,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Release a table as a CSV or Parquet file, in the order of its rows, at bounded memory.

    Args:
        source: A path or a frame, as for :func:`privfunnel.tables.count`; it needs the public columns only.
        mechanism: The mechanism.
        out: The file, ``.csv`` or ``.parquet``; it appears whole at the end or not at all.
        form: ``"symbols"``: one column with the released symbol; ``"records"``: the public columns with values drawn
            from p(x|y).
        keep: Further columns to copy unchanged; they void the guarantee.
        unseen: What to do with values that did not occur at design time: ``"error"``, ``"nearest"``, ``"marginal"`` or
            ``"drop"``; see :class:`~privfunnel.release.sampler.Sampler`.
        seed: For experiments only: draw reproducibly instead of from the operating system's secure randomness.
        force: Overwrite existing files.
        name: Name of the symbol's column.
        binned: What a record holds for a bin of numbers: ``"midpoint"``, ``"uniform"`` (drawn from the bin) or
            ``"label"``.
        codebook: Where p(y), p(x|y), p(s|y) go (``.json`` or ``.csv``), rounded so that they may be published with the
            release; beside ``out`` by default. The mechanism itself is confidential and no part of a release.
        read: How to read a text file.
        batch_rows: Rows in memory at a time.
        progress: Called with the number of rows done.

    Returns:
        Counts of what was read, written and unknown.

    Raises:
        InvalidInputError: A file or option cannot be used, the table lacks a column, or a value was not seen at design
            time. Nothing is written then.

    Warns:
        GuaranteeWarning: ``seed`` or ``keep`` weaken or void the guarantee.
    """
    started = time.perf_counter()
    target = Path(out)
    file_format(target)
    book = codebooks.default_path(target) if codebook is None else Path(codebook)
    text = codebooks.render(mechanism, book)
    output = Output(mechanism, form, name, binned)
    check_kept(mechanism, output.names, keep)
    sampler, tally = Sampler(mechanism, unseen), Tally()
    uniforms = _uniforms(seed)
    _check_apart(source, target, book)
    for path in (target, book):
        check_target(path, force=force)
    _warn(seed, keep)
    with open_table(source, read) as table:
        names = _needed(table, mechanism, keep)
        # Left in reverse order: the release takes its name first, so that no codebook stands without one.
        with atomic(book, force=force) as book_temporary, atomic(target, force=force) as temporary:
            book_temporary.write_text(text, encoding="utf-8")
            batches = table.batches(names, batch_rows)
            _stream(batches, sampler, output, keep, uniforms, tally, target, temporary, progress)
    if tally.unseen_rows:
        warnings.warn(
            f"{tally.unseen_rows} of {tally.rows} rows held values not seen at design time: rule {unseen!r} applied",
            GuaranteeWarning,
            stacklevel=2,
        )
    return Report(
        out=target,
        codebook=book,
        rows=tally.rows,
        written=tally.written,
        unseen=dict(tally.unseen),
        unseen_rule=unseen,
        symbols=tuple(tally.symbols.tolist()),
        seconds=time.perf_counter() - started,
        seed=seed,
    )


def _check_apart(source: Any, target: Path, book: Path) -> None:
    """The release must not take the place of the original, nor the codebook that of either."""
    read = Path(os.fspath(source).partition("::")[0]) if isinstance(source, str | os.PathLike) else None
    if target.absolute() == book.absolute():
        raise InvalidInputError(
            f"release and codebook are both {str(target)!r}: give the codebook another name"
        )
    for path in (target, book):
        if read is not None and read.exists() and path.exists() and path.samefile(read):
            raise InvalidInputError(
                f"{str(path)!r} is the table to be released: it is never overwritten, choose another name"
            )


def _uniforms(seed: int | None) -> Uniforms:
    return secure if seed is None else seeded(seed)


def _warn(seed: int | None, keep: Sequence[str]) -> None:
    if seed is not None:
        warnings.warn(
            f"seed={seed} makes the draws predictable: whoever knows it can undo the release; for experiments only",
            GuaranteeWarning,
            stacklevel=3,
        )
    if keep:
        warnings.warn(
            f"kept columns ({', '.join(keep)}) are copied unchanged: the guarantee does not cover them, and "
            "together with the released column they void it",
            GuaranteeWarning,
            stacklevel=3,
        )


def _needed(table: Table, mechanism: Mechanism, keep: Sequence[str]) -> list[str]:
    """Public and kept columns; a table without any of the public ones was made for another mechanism."""
    missing = [name for name in mechanism.public_names if name not in table.columns]
    if len(missing) == len(mechanism.public_names):
        table_names = ", ".join(table.columns[:8])
        raise InvalidInputError(
            f"the mechanism is for other columns: it needs {', '.join(mechanism.public_names)}, and {table.name} has "
            f"{table_names}{table.hint}"
        )
    table.require([*mechanism.public_names, *keep])
    return [*mechanism.public_names, *keep]


def _stream(
    batches: Iterator[Any],
    sampler: Sampler,
    output: Output,
    keep: Sequence[str],
    uniforms: Uniforms,
    tally: Tally,
    target: Path,
    temporary: Path,
    progress: Callable[[int], None] | None,
) -> None:
    writer: BatchWriter | None = None
    try:
        for batch in batches:
            if writer is None:
                writer = _open(batch.schema, output, keep, target, temporary)
            writer.write(release_batch(batch, sampler, output, keep, uniforms, tally))
            if progress is not None:
                progress(tally.rows)
        if tally.rows == 0:
            raise InvalidInputError("the table has no rows: there is nothing to release")
    finally:
        if writer is not None:
            writer.__exit__()


def _open(schema: Any, output: Output, keep: Sequence[str], target: Path, temporary: Path) -> BatchWriter:
    fields = [*output.fields(), *(schema.field(column) for column in keep)]
    return BatchWriter(target, temporary, fields, None if keep else output.texts())


def release_batch(
    batch: Any, sampler: Sampler, output: Output, keep: Sequence[str], uniforms: Uniforms, tally: Tally
) -> list[Any]:
    """The output columns of one Arrow batch."""
    y, kept_rows = sampler.draw(batch, uniforms, tally)
    kept = [batch.column(batch.schema.get_field_index(column)) for column in keep]
    if kept_rows is not None:
        mask = need("pyarrow", "tables").array(kept_rows)
        kept = [column.filter(mask) for column in kept]
    return [*output.arrays(y, uniforms), *kept]


def frame(
    source: Any,
    mechanism: Mechanism,
    *,
    form: str = "symbols",
    keep: Sequence[str] = (),
    unseen: str = "error",
    seed: int | None = None,
    name: str = DEFAULT_NAME,
    binned: str = "midpoint",
    on_unseen: Callable[[int], None] | None = None,
) -> Any:
    """Release a frame as a frame of the same engine.

    A PySpark frame stays where it is: the result is a lazy Spark frame whose rows are drawn on the executors, each from
    its own operating system's randomness. A pandas, Polars or PyArrow frame comes back as one; any other as a PyArrow
    table.

    Args:
        source: The frame.
        mechanism: The mechanism.
        form: As for :func:`write`.
        keep: As for :func:`write`.
        unseen: As for :func:`write`.
        seed: As for :func:`write`; on Spark each partition has a stream of its own.
        name: As for :func:`write`.
        binned: As for :func:`write`.
        on_unseen: Called with the number of rows that held unknown values, where there are any; on Spark give the
            ``add`` of an accumulator.
    """
    output = Output(mechanism, form, name, binned)
    check_kept(mechanism, output.names, keep)
    sampler, uniforms = Sampler(mechanism, unseen), _uniforms(seed)
    _warn(seed, keep)
    with open_table(source) as table:
        names = _needed(table, mechanism, keep)
        if "pyspark" in table.engine:
            from privfunnel.release.spark import map_frame

            return map_frame(source, names, sampler, output, keep, seed, on_unseen)
        pa, nw = need("pyarrow", "tables"), need("narwhals", "tables")
        tally, parts = Tally(), []
        for batch in table.batches(names, BATCH_ROWS):
            fields = [*output.fields(), *(batch.schema.field(column) for column in keep)]
            arrays = release_batch(batch, sampler, output, keep, uniforms, tally)
            plain = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
            parts.append(pa.RecordBatch.from_arrays(plain, schema=pa.schema(fields)))
        if on_unseen is not None and tally.unseen_rows:
            on_unseen(tally.unseen_rows)
        empty = pa.schema([*output.fields(), *(pa.field(column, pa.null()) for column in keep)])
        result = pa.Table.from_batches(parts) if parts else empty.empty_table()
        engine = table.engine.rpartition(".")[2]
        return nw.from_arrow(result, backend=engine).to_native() if engine in {"pandas", "polars"} else result
