"""The order of a column's values, for costs that count the steps between two of them.

Numbers, dates and bins have an order of their own. Texts have the one that is given, or that of the numbers they begin
with, where these leave no doubt: ``18-29``, ``30-39``, ``40+``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from privfunnel.data.engines import Column
from privfunnel.errors import InvalidInputError

#: Kinds of columns whose categories are in an order of their own.
ORDERED = frozenset({"integer", "number", "date", "datetime", "boolean"})

_NUMBER = r"\d+(?:\.\d+)?"
#: A band: perhaps a sign that compares, its first number, perhaps its last, what is written close to each, and words.
_BAND = re.compile(
    rf"(?P<sign>[<>≤≥]?)=?\s*(?P<low>-?{_NUMBER})(?P<unit>[^\W\d]*)"
    rf"(?:\s*(?:-|–|—|to|\.\.|<)=?\s*(?P<high>{_NUMBER})(?P<last>[^\W\d]*))?\s*[+]?(?:\s[^\d]*)?"
)
#: Thousands that are grouped: 1.000 may be one or a thousand.
_GROUPED = re.compile(r"(?<!\d)[1-9]\d{0,2}(?:[.,' ]\d{3})+(?!\d)")


class Band(NamedTuple):
    """Where a band begins and ends, and what is written close to its numbers, such as the k of 5k."""

    begin: tuple[float, int]
    end: float
    units: frozenset[str]


def places_of(name: str, values: Iterable[str], column: Column | None, listed: str) -> dict[str, int]:
    """Where each value of a column, as a text, is in their order: 0, 1, ….

    Args:
        name: The column.
        values: Its values as texts, without missing ones.
        column: The column itself, where it is known.
        listed: The order as it was given, ``low,medium,high``; empty for the values' own.

    Raises:
        InvalidInputError: The order is not known, or does not name every value once.
    """
    found = sorted({*values})
    if listed:
        return _numbered(_given(name, found, listed))
    if column is not None and column.kind in ORDERED:
        texts = (column.text(code) for code in range(column.n_values))
        return _numbered(text for text, value in zip(texts, column.values, strict=True) if value is not None)
    sizes = _sizes(found)
    if sizes is not None:
        order = sorted({*sizes.values()})
        return {text: order.index(size) for text, size in sizes.items()}
    bands = banded(found)
    if bands is None and len(found) > 2:  # of two values the order is of no matter
        shown = [*found[:3], *(["…"] if len(found) > 3 else [])]
        raise InvalidInputError(
            f"the order of the values of {name!r} is not known ({', '.join(shown)}): give it, the first one first, as "
            f"ordinal:{','.join(shown)}; use hamming; or list the costs"
        )
    return _numbered(bands or found)


def _numbered(order: Iterable[str]) -> dict[str, int]:
    return {text: place for place, text in enumerate(order)}


def _given(name: str, found: Sequence[str], listed: str) -> list[str]:
    """The order that was given."""
    order = [text.strip() for text in listed.split(",")]
    for text in found:
        if order.count(text) != 1:
            often = "is not" if text not in order else "is twice"
            raise InvalidInputError(
                f"{text!r} {often} in the order {listed!r} of {name!r}: name every value once, with commas between"
            )
    return order


def _sizes(found: Sequence[str]) -> dict[str, float] | None:
    """Texts as numbers; None where one is none."""
    try:
        return {text: float(text) for text in found}
    except ValueError:
        return None


def banded(found: Sequence[str]) -> list[str] | None:
    """Texts that begin with a number, in its order; None where that may be wrong.

    No two may begin alike, no band may end before it begins or behind where the next begins, and units, such as k, are
    all the same.
    """
    bands = {text: _band(text) for text in found}
    read = {text: band for text, band in bands.items() if band is not None}
    units = {unit for band in read.values() for unit in band.units}
    if len(read) < len(bands) or len(units) > 1 or any(_GROUPED.search(text) for text in found):
        return None
    order = sorted(read, key=lambda text: read[text].begin)
    alone = all(read[text].end >= read[text].begin[0] for text in order)
    apart = all(read[a].begin < read[b].begin and read[a].end <= read[b].begin[0] for a, b in pairwise(order))
    return order if alone and apart else None


def _band(text: str) -> Band | None:
    """A text as a band; None where it does not begin with a number, or has more than two."""
    match = _BAND.fullmatch(text.strip())
    if match is None:
        return None
    low, high = float(match["low"]), match["high"]
    side = -1 if match["sign"] in {"<", "≤"} else 1 if match["sign"] in {">", "≥"} else 0
    # One of two numbers may leave its unit to the other: 10-20k.
    written = {match["unit"], match["last"] or ""} - {""}
    return Band((low, side), float(high) if high else low, frozenset(written or {""}))
