"""Rows above the header of a table: titles, remarks and blank lines, which people write there.

They are found out where there is no doubt, and told; where there is, nothing is left out unless it is asked for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from privfunnel.data.engines.reading import ReadOptions
from privfunnel.data.engines.texts import clip
from privfunnel.errors import ReadingWarning

MOST_ABOVE = 50  # rows above a header
LONGEST_TITLE = 60  # characters of a title that are told
#: Numbers, dates and times.
_MEASURED = re.compile(r"[-+]?[\d.,:/ T-]*\d[\d.,:/ %T-]*")

#: A row: its cells as text, None for what is no text.
Row = Sequence[Any]


def looked_for(options: ReadOptions) -> bool:
    """Whether rows above a header are to be found out: nothing has been said about it."""
    return options.skip_rows is None and options.header is None and not options.columns


def filled(cell: object) -> bool:
    """Whether a cell holds more than blanks."""
    return cell is not None and not (isinstance(cell, str) and not cell.strip())


def header_at(rows: Sequence[Row], spans: Sequence[tuple[int, int]], numbers: Sequence[int]) -> int:
    """The place of the header among the rows that are not empty; 0 where none stands clearly below others.

    It is the first row that is as wide as the table, and names alone: texts that are no numbers or dates, all
    different. What is above it fills less than half of the width. A header of two names could be a row below a header
    of one: numbers or dates below it, or an empty row above it, tell it apart.

    Args:
        rows: The first rows.
        spans: First column of the table and the one behind its last, if it begins at that row.
        numbers: Which line of the file, or row of the sheet, each is.
    """
    for h, (low, high) in enumerate(spans[: MOST_ABOVE + 1]):
        cells = rows[h][low:high]
        if high - low > 1 and len(cells) == high - low and all(map(filled, cells)):
            break
    else:
        return 0
    if h == 0 or h + 1 >= len(rows) or not _names(cells):
        return 0
    above, below = rows[:h], rows[h + 1 :]
    if any(2 * sum(map(filled, row)) > high - low for row in above):
        return 0
    sure = (
        high - low > 2
        or numbers[h] - numbers[h - 1] > 1
        or any(_measures(below, j) for j in range(low, high))
    )
    return h if sure and all(filled(row[0]) for row in above if len(row) == 2) else 0


def _names(cells: Row) -> bool:
    texts = [
        cell.strip().lower()
        for cell in cells
        if isinstance(cell, str) and not _MEASURED.fullmatch(cell.strip())
    ]
    return len(set(texts)) == len(cells)


def _measures(rows: Sequence[Row], j: int) -> bool:
    """Whether a column holds numbers or dates alone."""
    cells = [row[j] for row in rows if j < len(row) and filled(row[j])]
    return bool(cells) and all(
        not isinstance(cell, str) or _MEASURED.fullmatch(cell.strip()) for cell in cells
    )


def tell(where: str, left_out: int, titles: Sequence[Row]) -> None:
    """Say in a line what was left out above a header; of blank lines alone nothing is said."""
    texts = [" ".join(str(cell).strip() for cell in row if filled(cell)) for row in titles]
    if texts := [text for text in texts if text]:
        rows = "row is" if left_out == 1 else "rows are"
        warnings.warn(
            f"{left_out} {rows} left out above the header of {where} ({clip(texts[0], LONGEST_TITLE)!r}): if they are "
            "records, say so (--skip-rows 0)",
            ReadingWarning,
            stacklevel=2,
        )
