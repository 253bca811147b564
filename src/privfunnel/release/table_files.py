"""A table released as files, whole or not at all."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Unpack

import numpy as np

from privfunnel.data.engines import ReadOptions, open_table
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.infra.signals import terminate_as_exception
from privfunnel.infra.storage import AnyPath, check_target, whole_files
from privfunnel.release import codebook as codebooks
from privfunnel.release import order as orders
from privfunnel.release import weakening
from privfunnel.release.batch_writer import BatchWriter, check_apart, file_format, uses_semicolons
from privfunnel.release.drawing import Draw
from privfunnel.release.fidelity import Watch
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DEFAULT_FORM, DrawKeywords, DrawOptions
from privfunnel.release.publication import Policy
from privfunnel.release.randomness import Uniforms, chosen_uniforms
from privfunnel.release.records import RecordAlphabet
from privfunnel.release.sampler import Indices, Tally
from privfunnel.release.shuffling import Shuffle
from privfunnel.release.summary import ReleaseSummary


def write(
    source: object,
    mechanism: Mechanism,
    out: AnyPath,
    *,
    form: str = DEFAULT_FORM,
    codebook: AnyPath | None = None,
    order: AnyPath | None = None,
    force: bool = False,
    read: ReadOptions | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[DrawKeywords],
) -> ReleaseSummary:
    """Release a table as a CSV or Parquet file, its rows shuffled, at bounded memory.

    Args:
        source: A path or a frame, as for :func:`privfunnel.data.tables.count`; it needs the public columns only.
        mechanism: The mechanism.
        out: The file, ``.csv`` or ``.parquet``; it appears whole at the end or not at all.
        form: ``"records"``: the public columns with values drawn from p(x|y); ``"decoys"``: all candidates of each row
            with their weights p(x|y), see :mod:`privfunnel.release.decoys`; ``"symbols"``: one column with the
            released symbol.
        codebook: Where p(y), p(x|y), p(s|y) go (``.json`` or ``.csv``), rounded so that they may be published with the
            release; beside ``out`` by default. The mechanism itself is confidential and no part of a release.
        order: Where the confidential file goes that says which row each line was drawn for, and without which an audit
            cannot match them; beside ``out`` by default. See :mod:`privfunnel.release.order`.
        force: Overwrite existing files.
        read: How to read a text file or a workbook, where it differs from the design data.
        progress: Called with the number of rows done.
        **options: ``keep``, ``unseen``, ``seed``, ``name``, ``numbers``, ``threshold``, ``keep_order``, ``raw_text``,
            ``dialect``, ``person``, ``sticky``, ``series``, ``id``, ``enter``, ``batch_rows``; see
            :class:`~privfunnel.release.options.DrawOptions`.

    Returns:
        Counts of what was read, written and unknown.

    Raises:
        InvalidInputError: A file or option cannot be used, the table lacks a column, or a value was not seen at design
            time; or the release would tell a row's place, and the private columns depend on it. Nothing is written
            then.

    Warns:
        GuaranteeWarning: ``seed``, ``keep`` or ``keep_order`` weaken or void the guarantee, or persons have several
            draws.
    """
    book = codebooks.default_path(Path(out)) if codebook is None else Path(codebook)
    chosen = DrawOptions(**options)
    files = _Files({Path(out): form}, book, _order_path(Path(out), order, chosen), force)
    return _write(files, source, mechanism, chosen, read, progress)


def write_all(
    source: object,
    mechanism: Mechanism,
    files: Mapping[AnyPath, str],
    *,
    codebook: AnyPath | None = None,
    order: AnyPath | None = None,
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
        files: File to the form it holds, as ``form`` there; all of them appear, or none.
        codebook: As for :func:`write`, but written only where it is named.
        order: As for :func:`write`; beside the first file by default.
        force: As for :func:`write`.
        read: As for :func:`write`.
        progress: As for :func:`write`.
        **options: As for :func:`write`.
    """
    named = {Path(path): form for path, form in files.items()}
    if not named:
        raise InvalidInputError("no file is named: give at least one, e.g. {'release.csv': 'symbols'}")
    book = None if codebook is None else Path(codebook)
    chosen = DrawOptions(**options)
    files_ = _Files(named, book, _order_path(next(iter(named)), order, chosen), force)
    return _write(files_, source, mechanism, chosen, read, progress)


def _order_path(out: Path, order: AnyPath | None, options: DrawOptions) -> Path | None:
    """Where the order file goes; nowhere where the order is kept.

    Raises:
        InvalidInputError: A place is named for it all the same.
    """
    if options.keep_order:
        if order is not None:
            raise InvalidInputError("the rows keep their order, so that there is no order file: leave it out")
        return None
    return orders.default_path(out) if order is None else Path(order)


@dataclass(frozen=True)
class _Files:
    """Where a release goes: files by form, a codebook, and the order of the rows."""

    forms: Mapping[Path, str]
    book: Path | None
    order: Path | None
    force: bool

    @property
    def paths(self) -> list[Path]:
        """All of them; the release first, so that no codebook ever stands without one."""
        return [*self.forms, *(path for path in (self.book, self.order) if path is not None)]

    def check(self, source: Any, key: Path | None) -> None:
        """Refuse targets that cannot be written, before any work is done."""
        named = isinstance(source, str | os.PathLike)
        table = Path(os.fspath(source).partition("::")[0]) if named else None
        check_apart(self.paths, {"the table to be released": table, "the key file": key})
        for path in self.paths:
            check_target(path, force=self.force)


def _write(
    files: _Files,
    source: object,
    mechanism: Mechanism,
    options: DrawOptions,
    read: ReadOptions | None,
    progress: Callable[[int], None] | None,
) -> ReleaseSummary:
    started = time.perf_counter()
    for path in files.forms:
        file_format(path)
    policy = Policy(options.threshold)
    decoys = "decoys" in files.forms.values()
    records, text = RecordAlphabet.of(mechanism, policy), ""
    if files.book is not None:
        text = codebooks.render(
            mechanism, files.book, policy, decoys=decoys, records=records, raw_text=options.raw_text
        )
    draw, tally = Draw(mechanism, dict.fromkeys(files.forms.values()), options, records), Tally()
    uniforms = chosen_uniforms(options.seed)
    watch = Watch(mechanism, records) if "records" in draw.outputs else None
    files.check(source, None if draw.sticky is None else draw.sticky.path)
    weakening.warn(options, stacklevel=3)
    if decoys:
        weakening.warn_of_decoys(mechanism, policy, stacklevel=3)
    with (
        terminate_as_exception(),
        open_table(source, draw.read_options(mechanism.read_options(read, public_only=True))) as table,
    ):
        names = draw.needed(table)
        weakening.check_places(table, mechanism, options, stacklevel=3)
        draw.enter(options.enter, table.batches(names, options.batch_rows))
        private = () if files.order is None else (files.order,)
        with whole_files(files.paths, force=files.force, private=private) as opened:
            streams = dict(zip(files.paths, opened, strict=True))
            if files.book is not None:
                streams[files.book].write(text.encode("utf-8"))
            batches = table.batches(names, options.batch_rows)
            commas = uses_semicolons(options.dialect, source, table.read or ReadOptions())
            _stream(batches, _Pipe(draw, uniforms, options, tally, files, streams, watch, commas), progress)
            name = draw.name()
            if draw.sticky is not None:
                draw.sticky.keep()
    if tally.unseen_rows:
        warnings.warn(
            f"{tally.unseen_rows} of {tally.rows} rows held values not seen at design time: rule {options.unseen!r} "
            "applied",
            GuaranteeWarning,
            stacklevel=3,
        )
    persons = draw.people(tally)
    if persons is not None and persons.varying:
        warnings.warn(persons.words, GuaranteeWarning, stacklevel=3)
    return ReleaseSummary(
        files=tuple(files.forms),
        codebook=files.book,
        order=files.order,
        rows=tally.rows,
        written=tally.written,
        unseen=dict(tally.unseen),
        unseen_rule=options.unseen,
        symbols=tuple(tally.symbols.tolist()),
        seconds=time.perf_counter() - started,
        seed=options.seed,
        persons=persons,
        sticky=None if draw.sticky is None else draw.sticky.summary(name),
        fidelity=None if watch is None or tally.written == 0 else watch.found(),
    )


@dataclass
class _Pipe:
    """What batches go through: the draw, and the files that they end in."""

    draw: Draw
    uniforms: Uniforms
    options: DrawOptions
    tally: Tally
    files: _Files
    streams: Mapping[Path, BinaryIO]
    watch: Watch | None
    semicolons: bool = False

    def writers(self, schema: object, stack: ExitStack) -> list[tuple[str, BatchWriter]]:
        """A writer for each file with the form it holds; kept columns have the types of ``schema``."""
        return [
            (
                form,
                stack.enter_context(
                    BatchWriter(
                        file_format(path),
                        self.streams[path],
                        self.draw.fields(form, schema),
                        self.draw.texts(form),
                        raw_text=self.options.raw_text,
                        semicolons=self.semicolons,
                    )
                ),
            )
            for path, form in self.files.forms.items()
        ]

    def to_files(
        self, writers: Sequence[tuple[str, BatchWriter]], columns: Mapping[str, list[Any]], places: Indices
    ) -> None:
        """Write columns by form; ``places`` are those of the rows in the release, counted from 0."""
        for form, writer in writers:
            writer.write(self.draw.lines(form, columns[form], places + 1, self.mixing))

    @cached_property
    def mixing(self) -> Uniforms:
        """Randomness of the order of candidates."""
        return chosen_uniforms(self.options.seed, "decoys")


def _stream(batches: Iterator[Any], pipe: _Pipe, progress: Callable[[int], None] | None) -> None:
    """Draw batch by batch, and write each as it comes, or all of them shuffled at the end."""
    draw, tally, order = pipe.draw, pipe.tally, pipe.files.order
    with ExitStack() as stack:
        writers: list[tuple[str, BatchWriter]] = []
        shuffle = None
        if order is not None:
            shuffle = stack.enter_context(Shuffle(order.parent, chosen_uniforms(pipe.options.seed, "order")))
        for batch in batches:
            drawn = draw.columns(batch, pipe.uniforms, tally)
            columns, rows = drawn.columns, drawn.rows
            if pipe.watch is not None and drawn.records is not None:
                pipe.watch.add(drawn.batch, drawn.x, drawn.records, columns["records"])
            writers = writers or pipe.writers(batch.schema, stack)
            if shuffle is None:
                pipe.to_files(writers, columns, rows)
            else:
                shuffle.add([array for form in draw.outputs for array in columns[form]], rows)
            if progress is not None:
                progress(tally.rows)
        if order is not None and shuffle is not None:
            stream = pipe.streams[order]
            kind = orders.write_header(stream, shuffle.rows, tally.rows, pipe.options.threshold)
            done = 0
            for arrays, rows in shuffle.shuffled():
                left = iter(arrays)
                widths = {form: output.held + len(draw.keep) for form, output in draw.outputs.items()}
                shuffled = {form: list(islice(left, width)) for form, width in widths.items()}
                pipe.to_files(writers, shuffled, np.arange(done, done + len(rows)))
                stream.write(rows.astype(kind).tobytes())
                done += len(rows)
    if tally.rows == 0:
        raise InvalidInputError("the table has no rows: there is nothing to release")
