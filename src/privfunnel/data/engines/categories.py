"""Columns of categories: values, their texts, and the way from new data back to category numbers."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import bins as binning
from privfunnel.data.engines.bins import Bins, Cut, Top
from privfunnel.data.engines.calendar import Part, as_floats
from privfunnel.data.engines.texts import first_line
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.checks import is_number, is_whole
from privfunnel.infra.storage import Document

Value = None | bool | int | float | str | datetime.date | datetime.datetime
Codes = NDArray[np.int64]

KINDS = ("integer", "number", "boolean", "text", "date", "datetime")
NULL = "null"
UNSEEN = -1
BELOW = -2
ABOVE = -3


def canonical(value: object) -> Value:
    """The one Python value that stands for an engine's value: NaN is null, 2.0 is 2, decimals are floats."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(datetime.UTC)
    if isinstance(value, datetime.date):
        return value
    raise InvalidInputError(
        f"a value of type {type(value).__name__} cannot be a category: cast the column to text"
    )


def text(value: Value) -> str | None:
    """The text by which a value is recognised in any engine or file format; null has none."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value if isinstance(value, str) else repr(value)


def shown(value: Value) -> str:
    """The text of a value inside a label: quoted where it could be mistaken for null or for the label's punctuation."""
    plain = text(value)
    if plain is None:
        return NULL
    quote = isinstance(value, str) and (
        plain in {"", NULL}
        or plain != plain.strip()
        or any(mark in plain for mark in '",')
        or not plain.isprintable()
    )
    return json.dumps(plain, ensure_ascii=False) if quote else plain


def kind_of(values: Iterable[Value], column: str) -> str:
    """The kind that all values of a column share.

    Raises:
        InvalidInputError: The column mixes kinds.
    """
    kinds = {_kind_of_value(value) for value in values if value is not None}
    if kinds <= {"integer", "number"}:
        return "number" if "number" in kinds else "integer" if kinds else "text"
    if len(kinds) > 1:
        found = ", ".join(sorted(kinds))
        raise InvalidInputError(f"column {column!r} mixes types ({found}): cast it to one type first")
    return kinds.pop()


def _kind_of_value(value: Value) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, datetime.datetime):
        return "datetime"
    return "date" if isinstance(value, datetime.date) else "text"


def in_order(values: Iterable[Value]) -> tuple[Value, ...]:
    """Different values in ascending order, null last."""
    present = {value for value in values if value is not None}
    ordered: list[Any] = sorted(present, key=lambda value: value)
    return (*ordered, None) if None in set(values) else tuple(ordered)


@dataclass(frozen=True)
class Column:
    """A column as categories: ``values[code]`` is the value (or the bin's label) of category ``code``, null last.

    ``means`` are those of the numbers in each bin of a cut, None for an empty one: what stands for it in a release.
    They are no part of what a column is, and differ in the last digits between engines. ``persons`` are how many people
    have each category, null included, where it is known who the rows are about.
    """

    name: str
    kind: str
    values: tuple[Value, ...]
    bins: Bins | None = None
    means: tuple[float | None, ...] | None = field(default=None, compare=False)
    persons: tuple[int, ...] | None = field(default=None, compare=False)

    @property
    def n_values(self) -> int:
        """The number of categories, null included."""
        return len(self.values)

    def label(self, code: int) -> str:
        """``name=value``."""
        return f"{self.name}={self.text(code)}"

    def text(self, code: int) -> str:
        """The value of a category, or its bin, as people read it."""
        value = self.values[code]
        return str(value) if isinstance(self.bins, Cut) and value is not None else shown(value)

    @property
    def null_code(self) -> int:
        """The category of null, or ``UNSEEN``."""
        return self.n_values - 1 if self.values and self.values[-1] is None else UNSEEN

    def encode(self, array: object) -> Codes:
        """Categories of new values.

        Args:
            array: A ``pyarrow`` array or chunked array of n values.

        Returns:
            n codes; ``UNSEEN`` for a value without a category, ``BELOW`` and ``ABOVE`` outside the edges of a cut.

        Raises:
            InvalidInputError: A cut column does not hold numbers, or one of dates no dates.
        """
        if isinstance(self.bins, Part):
            return self._encode_parts(array, self.bins)
        return self._encode_numbers(array) if isinstance(self.bins, Cut) else self._encode_values(array)

    def _encode_numbers(self, array: object) -> Codes:
        pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
        assert isinstance(self.bins, Cut)
        if self.bins.part:
            array = Part(self.bins.part).numbers(array, self.name)
        try:
            numbers = pc.cast(array, pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"column {self.name!r} must hold numbers for its bins {self.bins.rule!r}: {first_line(error)}"
            ) from error
        values = (
            numbers.to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else numbers.to_numpy()
        )
        missing = np.isnan(values)  # pyarrow gives null as NaN, which is null here too
        codes = self.bins.codes(np.where(missing, self.bins.edges[-1], values))
        codes[codes == UNSEEN] = BELOW
        codes[codes == self.bins.size] = ABOVE
        codes[missing] = self.null_code
        return codes

    def _encode_parts(self, array: object, part: Part) -> Codes:
        numbers = as_floats(part.numbers(array, self.name))
        found, where = np.unique(numbers[~np.isnan(numbers)], return_inverse=True)
        lookup = {value: code for code, value in enumerate(self.values)}
        table = np.array([lookup.get(part.value(int(number)), UNSEEN) for number in found], dtype=np.int64)
        codes = np.full(len(numbers), self.null_code, dtype=np.int64)
        codes[~np.isnan(numbers)] = table[where.reshape(-1)]
        return codes

    def _encode_values(self, array: Any) -> Codes:
        pa = need("pyarrow", "tables")
        chunk = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        lookup = {text(value): code for code, value in enumerate(self.values)}
        other = lookup.get(binning.OTHER, UNSEEN) if isinstance(self.bins, Top) else UNSEEN
        if pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type):
            return self._encode_texts(chunk, lookup, other)
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_encode(null_encoding="mask")
        new = [lookup.get(text(canonical(value)), other) for value in chunk.dictionary.to_pylist()]
        table = np.array([*new, self.null_code], dtype=np.int64)
        for position, value in enumerate(chunk.dictionary.to_pylist()):
            if canonical(value) is None:  # NaN sits in the dictionary; it is null all the same
                table[position] = self.null_code
        indices = chunk.indices.fill_null(len(new)).to_numpy(zero_copy_only=False)
        return np.asarray(table[indices])

    def _encode_texts(self, array: Any, lookup: Mapping[str | None, int], other: int) -> Codes:
        """Looked up as they are, in half the time of finding out first which texts there are."""
        pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
        known = {plain: code for plain, code in lookup.items() if plain is not None}
        table = np.array([*known.values(), other], dtype=np.int64)
        found = pc.index_in(array, value_set=pa.array(list(known), array.type))
        codes = table[found.fill_null(len(known)).to_numpy(zero_copy_only=False)]
        if array.null_count:
            codes[array.is_null().to_numpy(zero_copy_only=False)] = self.null_code
        return np.asarray(codes)

    def to_dict(self) -> Document:
        """JSON-ready."""
        values = [value.isoformat() if isinstance(value, datetime.date) else value for value in self.values]
        bins = None if self.bins is None else self.bins.to_dict()
        means = {} if self.means is None else {"means": list(self.means)}
        persons = {} if self.persons is None else {"persons": list(self.persons)}
        return {"name": self.name, "kind": self.kind, "values": values, "bins": bins, **means, **persons}

    @classmethod
    def from_dict(cls, data: Document) -> Column:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: The kind is unknown or a value does not fit it.
        """
        name, kind = str(data["name"]), str(data["kind"])
        if kind not in KINDS:
            raise InvalidInputError(
                f"column {name!r} has the unknown kind {kind!r}: expected one of {', '.join(KINDS)}"
            )
        bins = None if data["bins"] is None else binning.from_dict(data["bins"])
        values = (
            tuple(data["values"])
            if isinstance(bins, Cut)
            else tuple(_read(v, kind, name) for v in data["values"])
        )
        if len(set(map(repr, values))) < len(values) or None in values[:-1]:
            raise InvalidInputError(f"column {name!r} lists a value twice, or null before the end")
        if isinstance(bins, Cut) and values not in (bins.labels, (*bins.labels, None)):
            raise InvalidInputError(
                f"the values of column {name!r} do not fit its bins: the file was changed"
            )
        persons = people(data.get("persons"), len(values), f"column {name!r}")
        return cls(name, kind, values, bins, _means(data.get("means"), bins, name), persons)


def people(counts: object, size: int, of: str) -> tuple[int, ...] | None:
    """The numbers of persons of a file, as many as there are categories; None where it has none.

    Raises:
        InvalidInputError: They are not as many, or no numbers of persons.
    """
    if counts is None:
        return None
    if not isinstance(counts, list) or len(counts) != size or not all(is_whole(n) and n >= 0 for n in counts):
        raise InvalidInputError(f"the numbers of persons of {of} do not fit it: the file was changed")
    return tuple(map(int, counts))


def _means(values: Any, bins: Bins | None, column: str) -> tuple[float | None, ...] | None:
    """The means of a file; none of counts with noise."""
    if values is None:
        return None
    fits = isinstance(bins, Cut) and isinstance(values, list) and len(values) == bins.size
    if not fits or not all(mean is None or (is_number(mean) and math.isfinite(mean)) for mean in values):
        raise InvalidInputError(f"the means of column {column!r} do not fit its bins: the file was changed")
    return tuple(None if mean is None else float(mean) for mean in values)


def _read(value: Any, kind: str, column: str) -> Value:
    if value is None:
        return None
    types: dict[str, type | tuple[type, ...]] = {"boolean": bool, "integer": int, "number": (int, float)}
    try:
        if kind == "datetime":
            return datetime.datetime.fromisoformat(value)
        if kind == "date":
            return datetime.date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"column {column!r}: {value!r} is not a {kind}") from error
    if not isinstance(value, types.get(kind, str)) or (isinstance(value, bool) and kind != "boolean"):
        raise InvalidInputError(f"column {column!r}: {value!r} is not a {kind} value")
    return cast("bool | int | float | str", value)
