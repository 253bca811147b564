"""How the page asks for a file to be read: the reading options that people meet, each a text; empty for found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from privfunnel.engines import ReadOptions
from privfunnel.errors import InvalidInputError

#: Field of ReadOptions to the option of the command line; the page has those that this version can read by.
FLAGS = {
    "encoding": "--encoding",
    "delimiter": "--delimiter",
    "decimal": "--decimal",
    "sheet": "--sheet",
    "dates": "--dates",
    "nulls": "--null",
}
_WORDS = {"tab": "\t"}
LONGEST = 200


def offered() -> list[str]:
    """Return the names of the options that the page shows."""
    known = {field.name for field in fields(ReadOptions)}
    return [name for name in FLAGS if name in known]


def checked(asked: Any) -> dict[str, str]:
    """Return the options that were filled in.

    Raises:
        InvalidInputError: It is no table of texts, or there is no such option.
    """
    if not isinstance(asked, dict) or not set(asked) <= set(offered()):
        raise InvalidInputError(
            "the reading options are not those of the page: reload the page and try again"
        )
    for name, text in asked.items():
        if not isinstance(text, str) or len(text) > LONGEST:
            raise InvalidInputError(f"the {name} is not a short text: choose or type another")
    return {name: text for name, text in asked.items() if text.strip()}


def options(asked: Mapping[str, str]) -> ReadOptions:
    """Return the options as the tables take them; texts that mean null are separated by commas."""
    given: dict[str, Any] = {name: _WORDS.get(text, text) for name, text in asked.items()}
    if "nulls" in given:
        given["nulls"] = tuple(text.strip() for text in given["nulls"].split(",") if text.strip())
    return ReadOptions(**given)


def arguments(asked: Mapping[str, str]) -> list[str]:
    """Return the options as the command line takes them."""
    found: list[str] = []
    for name, text in asked.items():
        texts = [part.strip() for part in text.split(",")] if name == "nulls" else [text]
        found += [part for one in texts for part in (FLAGS[name], one)]
    return found


def literal(asked: Mapping[str, str]) -> str:
    """Return the options as an argument of a Python call; the texts are literals and nothing else."""
    read = options(asked)
    given = ", ".join(f"{name}={getattr(read, name)!r}" for name in asked)
    return f"pf.tables.ReadOptions({given})"
