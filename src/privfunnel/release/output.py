"""The columns of a release as Arrow arrays: the symbol, or a record whose public values are drawn from p(x|y)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from privfunnel.engines import Column, Cut
from privfunnel.engines.categories import text
from privfunnel.errors import InvalidInputError, need
from privfunnel.mechanism import Mechanism
from privfunnel.release.options import BINNED, FORMS
from privfunnel.release.randomness import Uniforms
from privfunnel.release.sampler import Alias, Indices


class Output:
    """Turns released symbols into columns.

    Args:
        mechanism: The mechanism.
        form: ``"symbols"``, one column with the symbol's name, or ``"records"``, the public columns with values drawn
            from p(x|y); that is post-processing of y, so it leaks no more than y does.
        name: Name of the symbol's column.
        binned: What a record holds for a bin of numbers: its middle, a number drawn uniformly from it, or its label.

    Raises:
        InvalidInputError: A form is unknown.
    """

    def __init__(self, mechanism: Mechanism, form: str, name: str, binned: str = "midpoint") -> None:
        """Prepare the tables."""
        if form not in FORMS:
            raise InvalidInputError(f"output as {form!r} is unknown: use one of {', '.join(FORMS)}")
        if binned not in BINNED:
            raise InvalidInputError(f"binned={binned!r} is unknown: use one of {', '.join(BINNED)}")
        self.form, self.binned, self.x_alphabet = form, binned, mechanism.x_alphabet
        self.names = (name,) if form == "symbols" else mechanism.public_names
        self.labels = mechanism.y_labels
        if form == "records":
            p_x_given_y = mechanism.p_x_given_y.copy()
            # A symbol that never occurs is never drawn from; the tables want a sum of 1 all the same.
            p_x_given_y[:, mechanism.p_y <= 0.0] = mechanism.p_x[:, None]
            self.posterior = Alias(p_x_given_y.T)

    def fields(self) -> list[Any]:
        """Arrow fields of the output."""
        pa = need("pyarrow", "tables")
        if self.form == "symbols":
            return [pa.field(self.names[0], pa.string(), nullable=False)]
        return [pa.field(column.name, arrow_type(column, self.binned)) for column in self.x_alphabet.columns]

    def texts(self) -> list[str]:
        """Every text that may appear, so that a CSV writer knows whether it has to quote."""
        if self.form == "symbols":
            return list(self.labels)
        values = [
            value for column in self.x_alphabet.columns for value in column.values if isinstance(value, str)
        ]
        return [shown for shown in map(text, values) if shown is not None]

    def arrays(self, y: Indices, uniforms: Uniforms) -> list[Any]:
        """Columns for the symbols ``y``."""
        pa = need("pyarrow", "tables")
        if self.form == "symbols":
            return [pa.DictionaryArray.from_arrays(pa.array(y.astype(np.int32)), pa.array(self.labels))]
        x = self.posterior.draw(y, uniforms(len(y)))
        return [
            self._values(column, self.x_alphabet.codes[x, j], uniforms).cast(arrow_type(column, self.binned))
            for j, column in enumerate(self.x_alphabet.columns)
        ]

    def _values(self, column: Column, codes: Indices, uniforms: Uniforms) -> Any:
        pa = need("pyarrow", "tables")
        if not isinstance(column.bins, Cut) or self.binned == "label":
            return pa.array(column.values, arrow_type(column, self.binned)).take(pa.array(codes))
        spans = [column.bins.span(code) for code in range(column.bins.size)]
        low, high = (np.array([*ends, 0.0])[codes] for ends in zip(*spans, strict=True))
        whole = column.bins.integer
        if self.binned == "uniform":
            u = uniforms(len(codes))
            # Rounding must not carry a number over the end of its bin.
            numbers = np.minimum(
                low + (np.floor(u * (high - low + 1.0)) if whole else u * (high - low)), high
            )
        else:
            numbers = np.array([*map(column.bins.middle, range(column.bins.size)), 0.0])[codes]
        return pa.array(numbers, mask=codes >= column.bins.size)


def arrow_type(column: Column, binned: str = "midpoint") -> Any:
    """The Arrow type that holds a public column of a record."""
    pa = need("pyarrow", "tables")
    if isinstance(column.bins, Cut) and binned == "label":
        return pa.string()
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
