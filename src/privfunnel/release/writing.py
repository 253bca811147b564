"""A table released as files, whole or not at all, or as a frame."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Unpack

from privfunnel.engines import ReadOptions, open_table
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.mechanism import Mechanism
from privfunnel.publication import Policy
from privfunnel.release import codebook as codebooks
from privfunnel.release.drawing import Draw
from privfunnel.release.options import DrawKeywords, DrawOptions
from privfunnel.release.randomness import Uniforms, secure, seeded
from privfunnel.release.sampler import Tally
from privfunnel.release.writer import BatchWriter, check_apart, file_format
from privfunnel.signals import terminate_as_exception
from privfunnel.storage import AnyPath, check_target, whole_files


@dataclass(frozen=True)
class ReleaseSummary:
    """What a release did.

    Attributes:
        files: The files, all of one draw.
        codebook: The codebook that was written with them, if any.
        rows: Rows read.
        written: Rows written to each file.
        unseen: Rows with values unknown at design time, by column (``"combination"`` for a new combination).
        unseen_rule: What was done with them.
        symbols: How often each symbol was released.
        seconds: Wall-clock time.
        seed: The seed, or ``None`` for secure randomness.
    """

    files: tuple[Path, ...]
    codebook: Path | None
    rows: int
    written: int
    unseen: dict[str, int]
    unseen_rule: str
    symbols: tuple[int, ...]
    seconds: float
    seed: int | None

    @property
    def out(self) -> Path:
        """The file, or the first of several."""
        return self.files[0]


def write(
    source: Any,
    mechanism: Mechanism,
    out: AnyPath,
    *,
    form: str = "symbols",
    codebook: AnyPath | None = None,
    force: bool = False,
    read: ReadOptions | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[DrawKeywords],
) -> ReleaseSummary:
    """Release a table as a CSV or Parquet file, in the order of its rows, at bounded memory.

    Args:
        source: A path or a frame, as for :func:`privfunnel.tables.count`; it needs the public columns only.
        mechanism: The mechanism.
        out: The file, ``.csv`` or ``.parquet``; it appears whole at the end or not at all.
        form: ``"symbols"``: one column with the released symbol; ``"records"``: the public columns with values drawn
            from p(x|y).
        codebook: Where p(y), p(x|y), p(s|y) go (``.json`` or ``.csv``), rounded so that they may be published with the
            release; beside ``out`` by default. The mechanism itself is confidential and no part of a release.
        force: Overwrite existing files.
        read: How to read a text file or a workbook, where it differs from the design data.
        progress: Called with the number of rows done.
        **options: ``keep``, ``unseen``, ``seed``, ``name``, ``numbers``, ``threshold``, ``batch_rows``; see
            :class:`~privfunnel.release.options.DrawOptions`.

    Returns:
        Counts of what was read, written and unknown.

    Raises:
        InvalidInputError: A file or option cannot be used, the table lacks a column, or a value was not seen at design
            time. Nothing is written then.

    Warns:
        GuaranteeWarning: ``seed`` or ``keep`` weaken or void the guarantee.
    """
    book = codebooks.default_path(Path(out)) if codebook is None else Path(codebook)
    return _write(
        _Files({Path(out): form}, book, force), source, mechanism, DrawOptions(**options), read, progress
    )


def write_all(
    source: Any,
    mechanism: Mechanism,
    files: Mapping[AnyPath, str],
    *,
    codebook: AnyPath | None = None,
    force: bool = False,
    read: ReadOptions | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[DrawKeywords],
) -> ReleaseSummary:
    """Release a table as several files of one draw: row i is the same release in each of them.

    Whoever holds two independent draws of the same rows knows more than the promise says; files of one draw tell no
    more than the most telling of them.

    Args:
        source: As for :func:`write`.
        mechanism: As for :func:`write`.
        files: File to the form it holds, ``"symbols"`` or ``"records"``; all of them appear, or none.
        codebook: As for :func:`write`, but written only where it is named.
        force: As for :func:`write`.
        read: As for :func:`write`.
        progress: As for :func:`write`.
        **options: As for :func:`write`.
    """
    named = {Path(path): form for path, form in files.items()}
    if not named:
        raise InvalidInputError("no file is named: give at least one, e.g. {'release.csv': 'symbols'}")
    book = None if codebook is None else Path(codebook)
    return _write(_Files(named, book, force), source, mechanism, DrawOptions(**options), read, progress)


@dataclass(frozen=True)
class _Files:
    """Where a release goes: files by form, and a codebook."""

    forms: Mapping[Path, str]
    book: Path | None
    force: bool

    @property
    def paths(self) -> list[Path]:
        """All of them; the release first, so that no codebook ever stands without one."""
        return [*self.forms, *([] if self.book is None else [self.book])]

    def check(self, source: Any) -> None:
        """Refuse targets that cannot be written, before any work is done."""
        named = isinstance(source, str | os.PathLike)
        table = Path(os.fspath(source).partition("::")[0]) if named else None
        check_apart(self.paths, {"the table to be released": table})
        for path in self.paths:
            check_target(path, force=self.force)


def _write(
    files: _Files,
    source: Any,
    mechanism: Mechanism,
    options: DrawOptions,
    read: ReadOptions | None,
    progress: Callable[[int], None] | None,
) -> ReleaseSummary:
    started = time.perf_counter()
    for path in files.forms:
        file_format(path)
    policy = Policy(options.threshold)
    text = "" if files.book is None else codebooks.render(mechanism, files.book, policy)
    draw, tally = Draw(mechanism, dict.fromkeys(files.forms.values()), options), Tally()
    uniforms = _uniforms(options.seed)
    files.check(source)
    _warn(options.seed, options.keep, stacklevel=4)
    with (
        terminate_as_exception(),
        open_table(source, mechanism.read_options(read, public_only=True)) as table,
    ):
        names = draw.needed(table)
        with whole_files(files.paths, force=files.force) as streams:
            if files.book is not None:
                streams[-1].write(text.encode("utf-8"))
            batches = table.batches(names, options.batch_rows)
            # The codebook's stream is the last one, behind those of the files.
            sinks = [
                (path, form, stream)
                for (path, form), stream in zip(files.forms.items(), streams, strict=False)
            ]
            _stream(batches, draw, uniforms, tally, sinks, progress)
    if tally.unseen_rows:
        warnings.warn(
            f"{tally.unseen_rows} of {tally.rows} rows held values not seen at design time: rule {options.unseen!r} "
            "applied",
            GuaranteeWarning,
            stacklevel=3,
        )
    return ReleaseSummary(
        files=tuple(files.forms),
        codebook=files.book,
        rows=tally.rows,
        written=tally.written,
        unseen=dict(tally.unseen),
        unseen_rule=options.unseen,
        symbols=tuple(tally.symbols.tolist()),
        seconds=time.perf_counter() - started,
        seed=options.seed,
    )


def _uniforms(seed: int | None) -> Uniforms:
    return secure if seed is None else seeded(seed)


def _warn(seed: int | None, keep: Sequence[str], *, stacklevel: int) -> None:
    if seed is not None:
        warnings.warn(
            f"seed={seed} makes the draws predictable: whoever knows it can undo the release; for experiments only",
            GuaranteeWarning,
            stacklevel=stacklevel,
        )
    if keep:
        warnings.warn(
            f"kept columns ({', '.join(keep)}) are copied unchanged: the guarantee does not cover them, and "
            "together with the released column they void it",
            GuaranteeWarning,
            stacklevel=stacklevel,
        )


def _stream(
    batches: Iterator[Any],
    draw: Draw,
    uniforms: Uniforms,
    tally: Tally,
    sinks: Sequence[tuple[Path, str, BinaryIO]],
    progress: Callable[[int], None] | None,
) -> None:
    """Draw batch by batch; ``sinks`` are the files by name, the forms they hold, and where their bytes go."""
    with ExitStack() as stack:
        writers: list[tuple[str, BatchWriter]] = []
        for batch in batches:
            columns = draw.columns(batch, uniforms, tally)
            if not writers:  # kept columns have the types of the first batch
                for path, form, stream in sinks:
                    writer = BatchWriter(
                        file_format(path), stream, draw.fields(form, batch.schema), draw.texts(form)
                    )
                    writers.append((form, stack.enter_context(writer)))
            for form, writer in writers:
                writer.write(columns[form])
            if progress is not None:
                progress(tally.rows)
    if tally.rows == 0:
        raise InvalidInputError("the table has no rows: there is nothing to release")


def frame(
    source: Any,
    mechanism: Mechanism,
    *,
    form: str = "symbols",
    on_unseen: Callable[[int], None] | None = None,
    **options: Unpack[DrawKeywords],
) -> Any:
    """Release a frame as a frame of the same engine.

    A PySpark frame stays where it is: the result is a lazy Spark frame whose rows are drawn on the executors, each from
    its own operating system's randomness. A pandas, Polars or PyArrow frame comes back as one; any other as a PyArrow
    table.

    Args:
        source: The frame.
        mechanism: The mechanism.
        form: As for :func:`write`.
        on_unseen: Called with the number of rows that held unknown values, where there are any; on Spark give the
            ``add`` of an accumulator.
        **options: As for :func:`write`; with a ``seed``, on Spark each partition has a stream of its own.
    """
    chosen = DrawOptions(**options)
    draw, uniforms = Draw(mechanism, [form], chosen), _uniforms(chosen.seed)
    _warn(chosen.seed, chosen.keep, stacklevel=3)
    with open_table(source) as table:
        names = draw.needed(table)
        if "pyspark" in table.engine:
            from privfunnel.release.spark import map_frame

            return map_frame(source, names, draw, chosen.seed, on_unseen)
        pa, nw = need("pyarrow", "tables"), need("narwhals", "tables")
        tally, parts = Tally(), []
        for batch in table.batches(names, chosen.batch_rows):
            fields = draw.fields(form, batch.schema)
            arrays = draw.columns(batch, uniforms, tally)[form]
            plain = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
            parts.append(pa.RecordBatch.from_arrays(plain, schema=pa.schema(fields)))
        if on_unseen is not None and tally.unseen_rows:
            on_unseen(tally.unseen_rows)
        kept = pa.schema([pa.field(column, pa.null()) for column in draw.keep])
        empty = pa.schema(draw.fields(form, kept))
        result = pa.Table.from_batches(parts) if parts else empty.empty_table()
        engine = table.engine.rpartition(".")[2]
        return nw.from_arrow(result, backend=engine).to_native() if engine in {"pandas", "polars"} else result
