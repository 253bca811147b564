"""The released tables of a chosen point: all of them written from one draw."""

from __future__ import annotations

from pathlib import Path

from privfunnel import release
from privfunnel.engines import ReadOptions
from privfunnel.mechanism import Mechanism

#: File to the form it holds.
FILES = {"release.csv": "records", "release.parquet": "records", "symbols.csv": "symbols"}


def write(source: str, mechanism: Mechanism, folder: Path, read: ReadOptions | None = None) -> None:
    """Write the files of :data:`FILES` into a folder: line i is the same release in each of them.

    Raises:
        InvalidInputError: The table does not fit the mechanism, or a file cannot be written; none is left behind.
    """
    release.write_all(
        source, mechanism, {folder / name: form for name, form in FILES.items()}, force=True, read=read
    )
