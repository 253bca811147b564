"""Heat maps of a channel that stay readable from 4 to some hundreds of symbols.

Rows are public symbols in reading order, grouped by their attributes; columns are released symbols, ordered so that
the mass lies along the diagonal. The cells are one small PNG with transparency (so light and dark pages share it);
labels and group lines are SVG text around it.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.report.axes import Axis

_INK = (32, 110, 178)  # one hue, told apart by opacity: safe for every kind of colour vision
MARGIN = 14.0  # right of the cells, for the end of the last label
_CHARACTER = 6.1  # width of a character of an 11 px label, about


@dataclass(frozen=True)
class Heat:
    """A matrix with named rows and columns.

    Attributes:
        title: What a cell is, e.g. ``p(y|x)``.
        values: Probabilities, shape (rows, columns), rows and columns in drawing order.
        rows: Names of the rows, as attribute values.
        columns: Names of the columns.
    """

    title: str
    values: Array
    rows: Axis
    columns: tuple[str, ...]


def column_order(p_x_given_y: Array, row_order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order released symbols by where, in reading order of X, their posterior p(x|y), shape (M, N), has its mass."""
    place = np.empty(len(row_order))
    place[row_order] = np.arange(len(row_order))
    centre = place @ p_x_given_y
    return np.lexsort((np.argmax(p_x_given_y[row_order], axis=0), np.round(centre, 9)))


def draw(heat: Heat, *, width: int = 560) -> str:
    """Return the heat map as a ``<figure>``; ``chart.js`` adds the read-out."""
    n_rows, n_columns = heat.values.shape
    row_height = _row_height(n_rows)
    gutter = _gutter(heat.rows, row_height, width)
    left = sum(w for w, _ in gutter) + 8
    top = 22
    cell = max((width - left - MARGIN) / max(n_columns, 1), 1.5)
    grid_height = row_height * n_rows
    total = left + cell * n_columns + MARGIN
    peak = float(heat.values.max()) if heat.values.size else 1.0
    parts = [
        f'<svg class="heat" viewBox="0 0 {total:.0f} {top + grid_height + 6:.0f}" width="{total:.0f}" '
        f'height="{top + grid_height + 6:.0f}" role="img" tabindex="0" '
        f'aria-label="{escape(heat.title)}: {n_rows} public by {n_columns} released symbols; arrow keys read cells" '
        f'data-left="{left:.2f}" data-top="{top}" data-cell="{cell:.4f}" data-row="{row_height:.4f}" '
        f'data-cols="{n_columns}" data-rows="{n_rows}">',
        *_row_labels(heat.rows, gutter, row_height, top, left + cell * n_columns),
        *_column_labels(heat.columns, cell, left, top),
        f'<rect class="sheet" x="{left:.2f}" y="{top}" width="{cell * n_columns:.2f}" height="{grid_height:.2f}"/>',
        f'<image x="{left:.2f}" y="{top}" width="{cell * n_columns:.2f}" height="{grid_height:.2f}" '
        f'preserveAspectRatio="none" href="{_png(heat.values, peak)}"/>',
        f'<rect class="cursor" width="{max(cell, 3):.2f}" height="{max(row_height, 3):.2f}" visibility="hidden"/>',
        "</svg>",
    ]
    names = [
        ", ".join(f"{n}={v}" for n, v in zip(heat.rows.names, row, strict=True)) for row in heat.rows.values
    ]
    data = {
        "title": heat.title,
        "rows": names,
        "columns": list(heat.columns),
        # Tenths of a per cent: what the read-out shows.
        "cells": np.rint(heat.values * 1000).astype(int).ravel().tolist(),
    }
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<figure class="heatmap"><figcaption><b>{escape(heat.title)}</b> '
        f'<span class="ramp"><i></i> 0 – {100 * peak:.3g} %</span></figcaption>'
        f'<div class="scroll">{"".join(parts)}</div><p class="readout" aria-live="polite">&nbsp;</p>'
        f'<script type="application/json">{packed}</script></figure>'
    )


def _row_height(rows: int) -> float:
    if rows <= 24:
        return 18.0
    return 13.0 if rows <= 60 else max(5.0, 800.0 / rows) if rows <= 320 else 2.5


def _gutter(rows: Axis, row_height: float, width: int) -> list[tuple[float, bool]]:
    """Width of each attribute's label column, and whether its labels are written."""
    out = []
    for attribute, name in enumerate(rows.names):
        runs = [len(list(g)) for _, g in groupby(rows.values, key=lambda row: row[: attribute + 1])]
        written = max(runs, default=1) * row_height >= 11.0
        longest = max((len(v) for v in rows.levels(attribute)), default=1)
        room = max(width * 0.42 / len(rows.names), 30.0)
        out.append((min(max(longest, len(name)) * _CHARACTER + 8, room) if written else 4.0, written))
    return out


def _row_labels(
    rows: Axis, gutter: list[tuple[float, bool]], row_height: float, top: float, right: float
) -> list[str]:
    out, x = [], 0.0
    for attribute, (wide, written) in enumerate(gutter):
        if written:
            out.append(
                f'<text class="head" x="{x:.1f}" y="{top - 8}">{escape(_fit(rows.names[attribute], wide))}</text>'
            )
        start = 0
        for _, run in groupby(rows.values, key=lambda row: row[: attribute + 1]):
            members = list(run)
            height = len(members) * row_height
            y = top + start * row_height
            if start and len(members) > 1:
                out.append(f'<line class="rule" x1="{x:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            if written and height >= 10.0:
                value = members[0][attribute]
                middle = y + min(height / 2, 30.0) + 4
                out.append(
                    f'<text x="{x:.1f}" y="{middle:.1f}">{escape(_fit(value, wide))}'
                    f"<title>{escape(rows.names[attribute])}: {escape(value)}</title></text>"
                )
            start += len(members)
        x += wide
    return out


def _column_labels(columns: tuple[str, ...], cell: float, left: float, top: float) -> list[str]:
    longest = max((len(c) for c in columns), default=1)
    every = max(1, int(np.ceil((min(longest, 6) * _CHARACTER + 12) / cell)))
    room = every * cell
    return [
        f'<text class="column" x="{left + (i + 0.5) * cell:.1f}" y="{top - 8}" text-anchor="middle">'
        f"{escape(_fit(name, room))}</text>"
        for i, name in enumerate(columns)
        if i % every == 0
    ]


def _fit(text: str, width: float) -> str:
    """Cut a label to a width in pixels."""
    most = max(int((width - 4) / _CHARACTER), 2)
    return text if len(text) <= most else text[: most - 1] + "…"


def _png(values: Array, peak: float) -> str:
    """Encode a matrix as a palette PNG whose opacity grows with the square root of the value."""
    height, width = values.shape
    level = np.rint(255 * np.sqrt(np.clip(values / peak if peak > 0 else values, 0.0, 1.0))).astype(np.uint8)
    raw = np.zeros((height, width + 1), dtype=np.uint8)  # each line starts with its filter, 0
    raw[:, 1:] = level
    blocks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(_INK) * 256),
        (b"tRNS", bytes(range(256))),
        (b"IDAT", zlib.compress(raw.tobytes(), 9)),
        (b"IEND", b""),
    )
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in blocks
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
