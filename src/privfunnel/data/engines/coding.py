"""From the values that an engine grouped by to categories: columns, and the code of every value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines.alphabet import distinct
from privfunnel.data.engines.bins import Bins, Cut
from privfunnel.data.engines.calendar import Part
from privfunnel.data.engines.categories import Codes, Column, Value, canonical, in_order, kind_of
from privfunnel.data.engines.cutting import FEW
from privfunnel.data.engines.source import Source, Tails
from privfunnel.errors import InvalidInputError


def encode(name: str, raw: list[Any], rows: list[int], bins: Bins | None) -> tuple[Column, Codes]:
    """A column and the code of each raw value that an engine returned."""
    if isinstance(bins, Cut):
        return _encode_cut(name, raw, rows, bins)
    if isinstance(bins, Part):
        return _encode_part(name, raw, bins)
    # Values that are equal but of different types, such as 1 and true, are told apart one by one.
    plain = len(set(map(type, raw)) - {type(None)}) <= 1
    known = {value: canonical(value) for value in set(raw)} if plain else {}
    values = set(known.values()) if plain else [canonical(value) for value in raw]
    kind = kind_of(set(values), name)
    ordered = in_order(values)
    column = Column(name, kind, ordered, bins)
    position = {value: code for code, value in enumerate(ordered)}
    codes = {value: position[stands] for value, stands in known.items()} if plain else position
    return column, np.fromiter(map(codes.__getitem__, raw if plain else values), np.int64, len(raw))


def _encode_part(name: str, raw: list[Any], part: Part) -> tuple[Column, Codes]:
    numbers = [None if value is None or math.isnan(value) else int(value) for value in raw]
    ordered = in_order(numbers)  # in the order of the calendar, not of the texts
    values = tuple(None if number is None else part.value(cast("int", number)) for number in ordered)
    position = {number: code for code, number in enumerate(ordered)}
    codes = np.array([position[number] for number in numbers], dtype=np.int64)
    return Column(name, part.kind, values, part), codes


def _encode_cut(name: str, raw: list[Any], rows: list[int], bins: Cut) -> tuple[Column, Codes]:
    codes = [None if value is None or math.isnan(value) else int(value) for value in raw]
    outside = sum(
        n for n, code in zip(rows, codes, strict=True) if code is not None and not 0 <= code < bins.size
    )
    if outside:
        raise InvalidInputError(
            f"{outside} rows of column {name!r} lie outside its edges {bins.edges[0]:g} to {bins.edges[-1]:g}: widen "
            "them, e.g. with -inf and inf"
        )
    has_null = None in codes
    values: tuple[Value, ...] = (*bins.labels, None) if has_null else bins.labels
    column = Column(name, "integer" if bins.integer else "number", values, bins)
    return column, np.array([bins.size if code is None else code for code in codes], dtype=np.int64)


def symbols_of(
    encoded: Mapping[str, tuple[Column, Codes]], names: Sequence[str], rows: Codes
) -> tuple[Codes, Codes]:
    """The combinations of categories that occur, and which of them each group of rows has.

    They are in the order of their categories, but for values of texts that few rows have: these come after all others,
    the more frequent first, in an order that does not depend on how they are written: the order of symbols shows in
    what is made of them.

    Args:
        encoded: All columns, and the category of each group of rows, shape (groups,).
        names: The columns to combine.
        rows: How many rows each group has, shape (groups,).
    """
    found, place = distinct(np.stack([encoded[name][1] for name in names], axis=1))
    ranks = {name: _ranks(column, codes, rows) for name, (column, codes) in encoded.items()}
    if not any(name in ranks and (np.diff(ranks[name]) != 1).any() for name in names):
        return found, place
    # Symbols that differ in nothing but rare values are told apart by their rows.
    told = distinct(np.stack([ranks[name][codes] for name, (_, codes) in encoded.items()], axis=1))[1]
    profile = np.zeros(len(found), dtype=np.uint64)
    mixed = _mixed(told.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + rows.astype(np.uint64))
    np.add.at(profile, place, mixed)
    shown = np.stack([ranks[name][found[:, j]] for j, name in enumerate(names)], axis=1)
    many = np.bincount(place, rows, len(found))
    order = np.lexsort((*found.T[::-1], profile, -many, *shown.T[::-1]))
    return found[order], np.argsort(order)[place]


def _ranks(column: Column, codes: Codes, rows: Codes) -> Codes:
    """The places of a column's categories, rare texts as one category after all others but null."""
    if column.kind != "text":
        return np.arange(column.n_values)
    n = np.bincount(codes, rows, column.n_values)
    null = np.arange(column.n_values) == column.null_code
    common = (n >= FEW) & ~null
    return np.where(common, np.cumsum(common) - 1, common.sum() + null)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of 64 bits, each hashed."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))


def bin_means(
    codes: Codes, rows: Sequence[int], sums: Sequence[float | None], column: Column
) -> tuple[float | None, ...]:
    """The mean of the numbers in each bin, None for a bin without any."""
    assert isinstance(column.bins, Cut)
    size = column.bins.size
    inside = codes < size  # not null
    total, n = np.zeros(size), np.zeros(size)
    np.add.at(total, codes[inside], np.array([value or 0.0 for value in sums], dtype=np.float64)[inside])
    np.add.at(n, codes[inside], np.asarray(rows, dtype=np.float64)[inside])
    return tuple(float(t / m) if m > 0.0 else None for t, m in zip(total, n, strict=True))


def summed(tables: Mapping[str, Source], resolved: Mapping[str, Bins | None]) -> dict[str, Tails]:
    """The cut columns, whose bins' means a release writes, with their tails: an outlier must not show in a mean.

    Args:
        tables: By column, the table whose rows tell how far out a few of them are.
        resolved: The bins of the columns.
    """
    cut = [name for name, bins in resolved.items() if isinstance(bins, Cut) and not bins.part]
    tails = {name: tables[name].tails(name) for name in cut}
    return {name: ends for name, ends in tails.items() if all(map(math.isfinite, ends))}


def of_dates(bins: Bins | None) -> bool:
    """Whether bins are those of dates."""
    return isinstance(bins, Part) or (isinstance(bins, Cut) and bool(bins.part))
