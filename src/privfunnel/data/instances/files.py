"""The packaged count tables, as files in long form: one line a combination that occurs."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from importlib import resources

from privfunnel.measures import Array

#: A count or probability table (K, M) with its private and public labels.
Labelled = tuple[Array, tuple[str, ...], tuple[str, ...]]


def rows_of(file: str) -> Iterator[dict[str, str]]:
    """The lines of a packaged table, column to value; ``count`` says how many people they are."""
    data = resources.files("privfunnel.data.instances").joinpath("data", file).read_bytes()
    text = (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8")
    return csv.DictReader(text.splitlines())
