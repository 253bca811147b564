"""The order file: which row of the table each line of a release was drawn for.

A release is shuffled, since a row's place in a file can tell more than its values do. Whoever holds the order file and
the table undoes that, so it is confidential, as the mechanism is; the audit needs it to match rows. It begins with one
line of JSON,

    {"schema": "privfunnel/order", "version": 1, "rows": 3, "original_rows": 4, "type": "<u4", "threshold": 5}

and then has, for each released line, the number of its row in the table, counted from 0, as ``rows`` unsigned whole
numbers of the type named, least significant byte first.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines.categories import Codes
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_whole
from privfunnel.infra.storage import AnyPath, check_schema, heading, open_input
from privfunnel.release.options import DEFAULT_THRESHOLD

SCHEMA = "privfunnel/order"
SUFFIX = ".order"
#: Bytes of the largest file: a thousand million rows.
MOST_BYTES = 4 << 30
TYPES = ("<u4", "<u8")


@dataclass(frozen=True, eq=False)
class Order:
    """Which rows the lines of a release were drawn for.

    Attributes:
        rows: The row of the table, from 0, of each released line, shape (lines,).
        original_rows: Rows of the table; more than lines where rows were dropped.
        threshold: How many rows were few to the release; see :class:`~privfunnel.release.publication.Policy`.
    """

    rows: NDArray[np.unsignedinteger[Any]]
    original_rows: int
    threshold: int = DEFAULT_THRESHOLD

    def lines(self) -> Codes:
        """The released line of each row of the table, −1 for a row that was dropped; shape (original_rows,)."""
        found = np.full(self.original_rows, -1, dtype=np.int64)
        found[self.rows] = np.arange(len(self.rows))
        return found

    def restore(self, lines: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Something a released line each, in the order of the table's rows.

        Args:
            lines: One entry a released line, shape (lines, …).

        Returns:
            One entry for each row that was released, in the order of the rows, and a mask of these rows.

        Raises:
            InvalidInputError: There are more or fewer lines than this order has.
        """
        if len(lines) != len(self.rows):
            raise InvalidInputError(
                f"the order file has {len(self.rows)} lines and the release {len(lines)}: give the order file that was "
                "written with this release"
            )
        at = self.lines()
        return lines[at[at >= 0]], at >= 0


def write_header(stream: BinaryIO, lines: int, original_rows: int, threshold: int) -> str:
    """Write the first line and return the type of what has to follow it."""
    kind = TYPES[0] if original_rows < 2**32 else TYPES[1]
    header = {
        **heading(SCHEMA),
        "rows": lines,
        "original_rows": original_rows,
        "type": kind,
        "threshold": threshold,
    }
    stream.write(json.dumps(header).encode() + b"\n")
    return kind


def load(path: AnyPath) -> Order:
    """Read an order file.

    Raises:
        InvalidInputError: It cannot be read, is no order file, or is no permutation of what it says.
    """
    wrong = f"{os.fspath(path)!r} is no complete order file: give the one that was written with the release"
    try:
        with open_input(path, MOST_BYTES) as stream:
            # Bytes that the first line may have.
            first = stream.readline(4096)
            size = os.fstat(stream.fileno()).st_size - len(first)
            try:
                header = json.loads(first)
            except ValueError as error:
                raise InvalidInputError(wrong) from error
            check_schema(header, SCHEMA)
            lines, rows, kind, threshold = (
                header.get(name) for name in ("rows", "original_rows", "type", "threshold")
            )
            if not all(is_whole(n) and n >= 0 for n in (lines, rows, threshold)) or kind not in TYPES:
                raise InvalidInputError(wrong)
            if lines * np.dtype(kind).itemsize != size:
                raise InvalidInputError(wrong)
            found = np.fromfile(stream, dtype=kind, count=lines)
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {os.fspath(path)!r} ({error.strerror or error}): check the path"
        ) from error
    if len(found) and (int(found.max()) >= rows or len(np.unique(found)) < len(found)):
        raise InvalidInputError(wrong)
    return Order(found, rows, threshold)


def default_path(out: Path) -> Path:
    """``release.csv`` → ``release.order``."""
    return out.parent / f"{out.stem}{SUFFIX}"
