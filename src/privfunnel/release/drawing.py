"""One draw of a table's rows: what every form of the release, and every file, is made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from privfunnel.engines import ReadOptions, Source
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.mechanism import Mechanism
from privfunnel.release.decoys import DecoyOutput
from privfunnel.release.options import DrawOptions
from privfunnel.release.output import Output, check_kept
from privfunnel.release.persons import PersonDraws, PersonSummary
from privfunnel.release.randomness import Uniforms
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
        return [*self.outputs[form].fields(), *(schema.field(column) for column in self.keep)]

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
        names = [*self.keep, *([] if self.persons is None else [self.persons.column])]
        copied = [batch.column(batch.schema.get_field_index(column)) for column in names]
        rows = np.arange(before, tally.rows)
        if kept_rows is not None:
            mask = need("pyarrow", "tables").array(kept_rows)
            copied, rows = [column.filter(mask) for column in copied], rows[kept_rows]
            batch = batch.filter(mask)
        if self.persons is not None:
            uniforms = self.persons.rows(copied.pop(), x, uniforms, tally.persons)
        y = self.sampler.released(x, uniforms, tally)
        columns, records = {}, None
        for form, output in self.outputs.items():
            drawn = output.records(y, uniforms)
            columns[form] = [*output.arrays(y, drawn, uniforms), *copied]
            records = drawn if records is None else records
        return Drawn(columns, rows, batch, x, records)


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
