"""The columns of a release as Arrow arrays: the symbol, or a record whose public values are drawn from p(x|y)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from privfunnel.data.engines import Column, Cut
from privfunnel.data.engines.categories import text
from privfunnel.errors import InvalidInputError, need
from privfunnel.release.bin_density import Density
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import FORMS, DrawOptions
from privfunnel.release.publication import Policy, Written, middles
from privfunnel.release.randomness import Uniforms
from privfunnel.release.records import RecordAlphabet, released_names
from privfunnel.release.sampler import Indices, drawer


class Output:
    """Turns released symbols into columns.

    Args:
        mechanism: The mechanism.
        form: ``"symbols"``, one column with the symbol's name, or ``"records"``, the public columns with values drawn
            from p(x|y); that is post-processing of y, so it leaks no more than y does. For ``"decoys"`` see
            :class:`~privfunnel.release.decoy_files.DecoyOutput`.
        options: The name of the symbol's column, what stands for a bin of numbers, and how many rows are few.
        records: The mechanism's records under that number, where they are known already.

    Raises:
        InvalidInputError: The form is unknown.
    """

    def __init__(
        self, mechanism: Mechanism, form: str, options: DrawOptions, records: RecordAlphabet | None = None
    ) -> None:
        """Prepare the tables."""
        if form not in FORMS:
            raise InvalidInputError(f"output as {form!r} is unknown: use one of {', '.join(FORMS)}")
        self.form, self.numbers = form, options.numbers
        self.names = (options.name,) if form == "symbols" else released_names(mechanism)
        self.labels = mechanism.y_labels if form == "symbols" else ()
        if form == "records":
            record_given_y = mechanism.record_given_y.copy()
            # A symbol that never occurs is never drawn from; the tables want a sum of 1 all the same.
            if not mechanism.sparse:
                record_given_y[:, mechanism.p_y <= 0.0] = mechanism.p_x[:, None]
            self.posterior = drawer(record_given_y.T)
        if form != "symbols":
            alphabet = records or RecordAlphabet.of(mechanism, Policy(options.threshold))
            self.columns = alphabet.written
            # What is written for each record, and of each symbol which record that is: as narrow as the categories
            # allow, and side by side, since rows are looked up one by one.
            most = max(written.column.n_values for written in self.columns)
            self.codes = alphabet.codes.astype(np.min_scalar_type(-most - 1))
            self.of_x = alphabet.of_x
            self.densities = [_density(written) for written in self.columns]

    @cached_property
    def label_array(self) -> Any:
        """Names of all symbols as an Arrow array."""
        return need("pyarrow", "tables").array(self.labels)

    @property
    def held(self) -> int:
        """Columns that :meth:`arrays` gives."""
        return len(self.names)

    def lines(self, arrays: list[Any], rows: Indices, uniforms: Uniforms) -> list[Any]:
        """What is written for shuffled rows: by default what :meth:`arrays` gave, and kept columns, as they are."""
        return arrays

    def fields(self) -> list[Any]:
        """Arrow fields of the output."""
        pa = need("pyarrow", "tables")
        if self.form == "symbols":
            return [pa.field(self.names[0], pa.string(), nullable=False)]
        return [pa.field(name, self._type(w)) for name, w in zip(self.names, self.columns, strict=True)]

    def texts(self) -> list[str]:
        """Every text that may appear, so that a CSV writer knows whether it has to quote."""
        if self.form == "symbols":
            return list(self.labels)
        found = [shown for written in self.columns for shown in written.texts]
        values = [text(v) for written in self.columns for v in written.column.values if isinstance(v, str)]
        return [*found, *(value for value in values if value is not None)]

    def records(self, y: Indices, uniforms: Uniforms) -> Indices | None:
        """The public symbols that are drawn for the symbols ``y``; None for a release of symbols."""
        return None if self.form == "symbols" else self.posterior.draw(y, uniforms(len(y)))

    def arrays(self, y: Indices, records: Indices | None, uniforms: Uniforms) -> list[Any]:
        """Columns for the symbols ``y`` and what :meth:`records` drew for them."""
        pa = need("pyarrow", "tables")
        # Names of symbols up to which a batch carries all of them and refers to them.
        if records is None and len(self.labels) > 10_000:
            return [self.label_array.take(pa.array(y))]
        if records is None:
            return [pa.DictionaryArray.from_arrays(pa.array(y.astype(np.int32)), pa.array(self.labels))]
        return self.written(records, uniforms)

    def written(self, symbols: Indices, uniforms: Uniforms) -> list[Any]:
        """The public columns of records, given by symbols that are written so."""
        return self.recorded(self.of_x[symbols], uniforms)

    def recorded(self, records: Indices, uniforms: Uniforms) -> list[Any]:
        """The public columns of records, given by their places; texts as references to what they can be."""
        rows = self.codes[records]
        return [self._values(j, codes, uniforms) for j, codes in enumerate(np.ascontiguousarray(rows.T))]

    def _values(self, j: int, codes: Indices, uniforms: Uniforms) -> Any:
        column, _, texts, numbers = self.columns[j]
        if not isinstance(column.bins, Cut):
            return _chosen(column.values, codes, arrow_type(column))
        pa = need("pyarrow", "tables")
        null = codes >= column.bins.size
        if self.numbers == "interval":
            return _chosen(
                [*texts[: column.bins.size], None], np.where(null, column.bins.size, codes), pa.string()
            )
        inside = np.where(null, 0, codes)
        if self.numbers == "draw":
            drawn = self.densities[j].draw(inside, uniforms(len(codes)))
            return pa.array(drawn, mask=null).cast(self._type(self.columns[j]))
        assert numbers is not None
        shown = numbers if self.numbers == "mean" else middles(column.bins, numbers)
        return pa.array(shown[inside], mask=null).cast(self._type(self.columns[j]))

    def _type(self, written: Written) -> Any:
        if isinstance(written.column.bins, Cut) and self.numbers == "interval":
            return need("pyarrow", "tables").string()
        return arrow_type(written.column)


def _chosen(values: Sequence[Any], codes: Indices, kind: object) -> Any:
    """The value of each code as an Arrow array; texts are referred to, and copied where they are written."""
    pa = need("pyarrow", "tables")
    if not pa.types.is_string(kind):
        return pa.array(values, kind).take(pa.array(codes))
    # A dictionary must not hold the missing value itself.
    missing = np.array([value is None for value in values])
    texts = pa.array(["" if value is None else value for value in values], kind)
    indices = pa.array(codes, mask=missing[codes] if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, texts)


def _density(written: Written) -> Any:
    """What draws the numbers of a cut column; None for others."""
    cut = written.column.bins
    return Density(cut, written.numbers) if isinstance(cut, Cut) and written.numbers is not None else None


def arrow_type(column: Column) -> Any:
    """The Arrow type that holds a public column of a record."""
    pa = need("pyarrow", "tables")
    zoned = any(isinstance(value, datetime.datetime) and value.tzinfo is not None for value in column.values)
    types = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "text": pa.string(),
             "date": pa.date32(), "datetime": pa.timestamp("us", "UTC" if zoned else None)}  # fmt: skip
    return types[column.kind]


def check_kept(mechanism: Mechanism, names: Sequence[str], keep: Sequence[str]) -> None:
    """Refuse columns that must not be written beside the output's own ``names``.

    Raises:
        InvalidInputError: A kept column is private, public or has an output column's name.
    """
    for column in keep:
        if column in mechanism.private_names:
            raise InvalidInputError(
                f"column {column!r} is private: it is never written, leave it out of --keep"
            )
        if column in mechanism.public_names:
            raise InvalidInputError(
                f"column {column!r} is public and written only through the mechanism: leave it out of --keep"
            )
        if column in names or list(keep).count(column) > 1:
            raise InvalidInputError(f"the output would have two columns {column!r}: choose another --name")
