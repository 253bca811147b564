"""Texts for messages and for SQL."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

LONGEST_MESSAGE = 200  # characters of an engine's own words that are passed on


def first_line(error: BaseException) -> str:
    """The first line of an engine's message; what follows is for programmers."""
    return str(error).strip().partition("\n")[0]


def one_line(error: BaseException) -> str:
    """A whole message on one line."""
    return " ".join(str(error).split())


def clip(text: str, length: int = 40) -> str:
    """A text cut to ``length`` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def quoted(name: str, quote: str = '"') -> str:
    """A SQL identifier; ``quote`` is a backtick in some dialects."""
    return quote + name.replace(quote, 2 * quote) + quote


def literal(value: str) -> str:
    """A SQL string."""
    return "'" + value.replace("'", "''") + "'"


def listed(values: Sequence[str]) -> str:
    """A SQL list of strings."""
    return "[" + ", ".join(literal(value) for value in values) + "]"


def pattern(path: Path) -> str:
    """A path as DuckDB reads it: absolute, since a leading ~ means a home there, with [ * ? taken literally."""
    return literal(re.sub(r"([\[*?])", r"[\1]", os.fspath(path.absolute())))
