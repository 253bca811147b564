"""A first look at a table's columns: type, distinct values, missing values, histogram."""

from __future__ import annotations

from typing import Any

from privfunnel.engines import Cut, Table
from privfunnel.engines import bins as binning
from privfunnel.errors import InvalidInputError, need

HISTOGRAM_BARS = 24
PREVIEW_ROWS = 6
LONGEST_TEXT = 60


def columns(table: Table) -> list[dict[str, Any]]:
    """Describe each column: name, type, distinct values, missing values, and a histogram for numbers."""
    nw = need("narwhals", "tables")
    asked = []
    for i, name in enumerate(table.columns):
        value = nw.col(name)
        missing = value.is_null() | value.is_nan() if table.kinds[name] == "number" else value.is_null()
        asked += [value.n_unique().alias(f"u{i}"), missing.sum().alias(f"m{i}")]
    found = table.frame.select(*asked).to_native().to_arrow_table().to_pylist()[0]
    described = []
    for i, name in enumerate(table.columns):
        missing = int(found[f"m{i}"] or 0)
        distinct = int(found[f"u{i}"]) - (missing > 0)
        numeric = table.kinds[name] in {"integer", "number"} and distinct > 2
        described.append(
            {
                "name": name,
                "type": table.kinds[name],
                "distinct": distinct,
                "nulls": missing,
                "histogram": _histogram(table, name) if numeric else None,
            }
        )
    return described


def _histogram(table: Table, name: str) -> dict[str, Any] | None:
    try:
        cut = table.resolve(name, binning.parse(name, f"width:{HISTOGRAM_BARS}"))
    except InvalidInputError:  # infinite values have no equal-width bins
        return None
    assert isinstance(cut, Cut)
    grouped = table.group({name: cut}, HISTOGRAM_BARS + 3)
    counts = [0] * cut.size
    for code, n in zip(grouped.columns[name], grouped.counts, strict=True):
        if code is not None and 0 <= int(code) < cut.size:
            counts[int(code)] += n
    return {"low": cut.edges[0], "high": cut.edges[-1], "counts": counts}


def preview(table: Table) -> list[list[str | None]]:
    """Return the first rows as texts; None where a value is missing."""
    rows = next(iter(table.batches(table.columns, PREVIEW_ROWS))).slice(0, PREVIEW_ROWS).to_pylist()
    return [[_text(value) for value in row.values()] for row in rows]


def _text(value: object) -> str | None:
    if value is None or value != value:  # NaN differs from itself
        return None
    shown = str(value)
    return shown if len(shown) <= LONGEST_TEXT else shown[: LONGEST_TEXT - 1] + "…"
