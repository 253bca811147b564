"""A first look at a table's columns: type, distinct values, missing values, histogram."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from privfunnel.data.engines import Cut, Part, Source
from privfunnel.data.engines import bins as binning
from privfunnel.data.engines.advice import Odd, odd_texts
from privfunnel.data.engines.texts import clip
from privfunnel.data.tables import MAX_LEVELS
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

HISTOGRAM_BARS = 24
PREVIEW_ROWS = 6
LONGEST_TEXT = 60
MOST_YEARS = 20_000


def columns(
    table: Source, tell: Callable[[int, int, str], None], as_text: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Describe each column: name, type, distinct and missing values, a histogram of numbers, the years of dates.

    Of a column of texts that are numbers but for some it is said what is ``odd``: that is asked about.

    Args:
        table: The table.
        tell: Called with the number of columns that are done, with that of all, and with what is being done.
        as_text: Columns that were asked for as text.
    """
    described: list[Document] = []
    number = len(table.columns)
    tell(0, number, "Counting the values of each column")
    odd = odd_texts(table, [name for name in table.columns if name not in as_text], MAX_LEVELS)
    for name, (distinct, missing) in table.overview(table.columns).items():
        tell(len(described), number, f"Looking at {clip(name, LONGEST_TEXT)}")
        numeric = table.kinds[name] in {"integer", "number"} and distinct > 2
        described.append(
            {
                "name": name,
                "type": table.kinds[name],
                "distinct": distinct,
                "nulls": missing,
                "histogram": _histogram(table, name) if numeric else None,
                "years": _years(table, name) if table.dated(name) else None,
                "odd": _asked(odd[name]) if name in odd else None,
            }
        )
    return described


def _asked(odd: Odd) -> Document:
    """What the page asks about a column; it writes nulls with commas between them."""
    nulls = [] if any("," in text for text in odd.nulls) else list(odd.nulls)
    return {"words": odd.words, "nulls": nulls}


def _histogram(table: Source, name: str) -> Document | None:
    try:
        low, high, whole = table.range(name)
    except InvalidInputError:  # infinite values have no equal-width bins
        return None
    edges = tuple(dict.fromkeys(low + (high - low) * i / HISTOGRAM_BARS for i in range(HISTOGRAM_BARS)))
    # For the steward's eyes, and no cut of the table: it runs from the least to the largest number.
    cut = Cut("edges", binning.merged((*edges, high)) if whole else (*edges, high), whole)
    grouped = table.group({name: cut}, HISTOGRAM_BARS + 3)
    counts = [0] * cut.size
    for code, n in zip(grouped.columns[name], grouped.counts, strict=True):
        if code is not None and 0 <= int(code) < cut.size:
            counts[int(code)] += n
    return {"low": cut.edges[0], "high": cut.edges[-1], "counts": counts}


def _years(table: Source, name: str) -> int:
    """How many different years the dates of a column have."""
    return len(table.group({name: Part("year")}, MOST_YEARS).counts)


def preview(table: Source) -> list[list[str | None]]:
    """Return the first rows as texts; None where a value is missing."""
    rows = next(iter(table.batches(table.columns, PREVIEW_ROWS))).slice(0, PREVIEW_ROWS).to_pylist()
    return [[_text(value) for value in row.values()] for row in rows]


def _text(value: object) -> str | None:
    if value is None or value != value:  # NaN differs from itself
        return None
    return clip(str(value), LONGEST_TEXT)
