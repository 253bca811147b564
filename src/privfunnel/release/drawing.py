"""One draw of a table's rows: what every form of the release, and every file, is made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privfunnel.data.engines import ReadOptions, Source, open_table
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.release.decoy_files import DecoyOutput
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawOptions, Entered
from privfunnel.release.output import Output, check_kept
from privfunnel.release.persons import PersonDraws, PersonSummary
from privfunnel.release.randomness import Uniforms, secure
from privfunnel.release.records import RecordAlphabet
from privfunnel.release.sampler import Indices, Sampler, Tally
from privfunnel.release.sticky import StickyDraws


class Drawn(NamedTuple):
    """The release of a batch.

    Attributes:
        columns: Arrow columns by form.
        rows: The rows of the table, from 0, that they belong to.
        batch: The rows themselves, as they were.
        x: The public symbols of these rows; M for one that was not seen at design time.
        records: The public symbols that were drawn for them; None where no records are.
    """

    columns: dict[str, list[Any]]
    rows: Indices
    batch: Any
    x: Indices
    records: Indices | None


class Draw:
    """Draws a symbol once for every row, and a record once for every symbol, in all the forms asked for.

    Whoever holds two independent draws of the same rows knows more than the promise says, so the forms share one. Holds
    the mechanism's tables and never a row: it travels to Spark's executors.

    Args:
        mechanism: The mechanism.
        forms: Some of ``FORMS``.
        options: How to draw.
        records: The mechanism's records, where they are known already: of a wide table they take seconds.

    Raises:
        InvalidInputError: A form or rule is unknown, or a column cannot be kept.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        forms: Iterable[str],
        options: DrawOptions,
        records: RecordAlphabet | None = None,
    ) -> None:
        """Build the tables."""
        self.outputs = {form: _output(mechanism, form, options, records) for form in forms}
        self.public, self.keep = mechanism.public_names, tuple(options.keep)
        for output in self.outputs.values():
            check_kept(mechanism, output.names, self.keep)
        self.sampler = Sampler(mechanism, options.unseen)
        self.persons = _persons(mechanism, options)
        self.sticky = self.persons if isinstance(self.persons, StickyDraws) else None
        self.asked = options.person is not None or self.sticky is not None
        # Rows that are told apart by their place, or by columns that are copied, may be others under the same ids.
        self.placed = bool(options.keep) or options.keep_order
        self._entered: tuple[str | None, ...] = ()

    def needed(self, table: Source) -> list[str]:
        """The columns to be read; a table without any of the public ones was made for another mechanism.

        Raises:
            InvalidInputError: The table lacks one; draws are sticky, and the key file cannot be used or the ids do
                not tell the rows apart.

        Warns:
            GuaranteeWarning: The table lacks the column that the design has told persons by.
        """
        if not set(self.public) & set(table.columns):
            raise InvalidInputError(
                f"the mechanism is for other columns: it needs {', '.join(self.public)}, and {table.name} has "
                f"{', '.join(table.columns[:8])}{table.hint}"
            )
        table.require([*self.public, *self.keep])
        if self.persons is None:
            return [*self.public, *self.keep]
        who = self.persons.column
        if who not in table.columns and not self.asked:
            warnings.warn(
                f"the mechanism tells persons by {who!r}, which {table.name} does not have: every row is drawn as a "
                "person of its own; name the column (person=)",
                GuaranteeWarning,
                stacklevel=4,
            )
            self.persons = None
            return [*self.public, *self.keep]
        table.require([who])
        if self.sticky is not None:
            self.sticky.open(table)
        return list(dict.fromkeys([*self.public, *self.keep, who]))

    def read_options(self, read: ReadOptions) -> ReadOptions:
        """How to read a file for this draw: ids as the texts they are, so that 007 is never taken for 7."""
        if self.sticky is None:
            return read
        return replace(read, types={self.sticky.column: "text", **read.types})

    def people(self, tally: Tally) -> PersonSummary | None:
        """Whom the rows were about; None where every row is a person of its own."""
        if self.persons is None or (self.sticky is not None and not self.sticky.several):
            return None
        return tally.persons.summary(self.persons.column)

    def fields(self, form: str, schema: Any) -> list[Any]:
        """Arrow fields of a release; ``schema`` is that of the rows it is drawn for."""
        return [*self.outputs[form].fields(), *(_plain(schema.field(column)) for column in self.keep)]

    def lines(self, form: str, arrays: list[Any], rows: Indices, uniforms: Uniforms) -> list[Any]:
        """What is written of columns that :meth:`columns` gave, after the rows were shuffled.

        Args:
            form: The form they are of.
            arrays: The columns.
            rows: Numbers that tell the rows apart and say nothing about them.
            uniforms: Randomness.
        """
        return self.outputs[form].lines(arrays, rows, uniforms)

    def texts(self, form: str) -> list[str] | None:
        """Every text that may appear in a release, or None where that is not known."""
        return None if self.keep else self.outputs[form].texts()

    def columns(self, batch: Any, uniforms: Uniforms, tally: Tally) -> Drawn:
        """The release of one Arrow batch, in all forms."""
        before = tally.rows
        x, kept_rows = self.sampler.symbols(batch, tally)
        rows = np.arange(before, tally.rows)
        if kept_rows is not None:
            rows = rows[kept_rows]
            batch = batch.filter(need("pyarrow", "tables").array(kept_rows))
        copied = [_decoded(_column(batch, name)) for name in self.keep]
        y, uniforms = self._released(batch, x, uniforms, tally)
        columns, records = {}, None
        for form, output in self.outputs.items():
            drawn = output.records(y, uniforms)
            columns[form] = [*output.arrays(y, drawn, uniforms), *copied]
            records = drawn if records is None else records
        return Drawn(columns, rows, batch, x, records)

    def enter(self, enter: Entered | None, batches: Iterable[Any]) -> None:
        """Tell who wants to know it the name of the draw that these batches will be, before anything is written."""
        if enter is not None:
            self._entered = (self._announced(batches),)
            enter(*self._entered)

    def name(self) -> str | None:
        """The name of the draw that the batches were which :meth:`columns` was given; None where it repeats no other.

        Raises:
            InvalidInputError: It is another than was told by :meth:`enter`.
        """
        name = None if self.sticky is None or self.placed else self.sticky.name()
        if self._entered not in ((), (name,)):
            raise InvalidInputError(
                "the table changed while it was released, and is another draw than was entered: release it again"
            )
        return name

    def _announced(self, batches: Iterable[Any]) -> str | None:
        """The name that :meth:`name` will give once these batches were drawn."""
        if self.sticky is None or self.placed:
            return None
        tally = Tally()
        for batch in batches:
            x, kept = self.sampler.symbols(batch, tally)
            held = batch if kept is None else batch.filter(need("pyarrow", "tables").array(kept))
            self._released(held, x, secure, tally)
        return self.sticky.name()

    def _released(
        self, batch: object, x: Indices, uniforms: Uniforms, tally: Tally
    ) -> tuple[Indices, Uniforms]:
        """The symbols of rows whose public ones are known, and the numbers that they go on being drawn by."""
        if self.persons is None:
            return self.sampler.released(x, uniforms, tally), uniforms
        drawn = self.persons.rows(_column(batch, self.persons.column), x, uniforms, tally.persons)
        y = self.sampler.released(x, drawn, tally)
        if self.sticky is not None:
            self.sticky.met(drawn, y)
        return y, drawn


def draw_name(
    source: object, mechanism: Mechanism, options: DrawOptions, read: ReadOptions | None = None
) -> str | None:
    """The name of the draw that a sticky release of a table is, or was, for a ledger; nothing is written.

    Args:
        source: A path or a frame, as for :func:`privfunnel.release.write`.
        mechanism: The mechanism.
        options: How the rows are drawn: key file, series and column of ids.
        read: How to read a file, where it differs from the design data.

    Returns:
        The name; None where the draw is not sticky, or has no key file yet, so that it repeats no other.

    Raises:
        InvalidInputError: The key file cannot be used, or the table does not fit the mechanism or the ids.
    """
    if options.sticky is None or not Path(options.sticky).exists():
        return None
    found: list[str | None] = []
    draw = Draw(mechanism, ["symbols"], options)
    with open_table(source, draw.read_options(mechanism.read_options(read, public_only=True))) as table:
        draw.enter(found.append, table.batches(draw.needed(table), options.batch_rows))
    return found[0]


def _column(batch: Any, name: str) -> Any:
    return batch.column(batch.schema.get_field_index(name))


def _decoded(array: object) -> Any:
    """A column without a dictionary, in which there may be values that no row has."""
    return array.dictionary_decode() if hasattr(array, "dictionary_decode") else array


def _plain(field: Any) -> Any:
    """The Arrow field of such a column."""
    kind = field.type
    return field.with_type(kind.value_type) if hasattr(kind, "index_type") else field


def _output(mechanism: Mechanism, form: str, options: DrawOptions, records: RecordAlphabet | None) -> Output:
    if form == "decoys":
        return DecoyOutput(mechanism, options, records)
    return Output(mechanism, form, options, records)


def _persons(mechanism: Mechanism, options: DrawOptions) -> PersonDraws | None:
    """Who gives the draws that are one for a person; None where every row is a person of its own.

    Raises:
        InvalidInputError: The column is public or private, or does not fit sticky draws.
    """
    person = mechanism.person if options.person is None else options.person
    column = person if options.sticky is None else options.id or person
    if not column:
        if options.sticky is not None:
            raise InvalidInputError(
                "sticky draws need a column that tells the rows apart: name it, e.g. --id id"
            )
        return None
    if person and column != person:
        raise InvalidInputError(
            f"rows go by {column!r} and persons by {person!r}: the rows of a person are drawn alike, so give --id "
            f"{person}, or --person '' where every row is a person of its own"
        )
    if column in {*mechanism.public_names, *mechanism.private_names}:
        raise InvalidInputError(
            f"column {column!r} cannot say who a row is about: it is public or private in this mechanism"
        )
    if options.sticky is not None:
        series = (options.series or "").strip()
        return StickyDraws(column, options.sticky, series, mechanism.fingerprint, several=bool(person))
    return PersonDraws(column, options.seed)
