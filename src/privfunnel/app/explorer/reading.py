"""How the page asks for a file to be read: every reading option in words of its own; what is left out is found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from privfunnel.data.engines import ReadOptions, sniff
from privfunnel.data.engines.readers import is_workbook
from privfunnel.data.engines.reading import SQL_TYPES
from privfunnel.data.engines.workbooks import sheets
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

#: What was asked: option to text, ``types`` to a type by column.
Asked = Mapping[str, Any]

#: Option to that of the command line; for the others the commands begin with a mechanism, which remembers them.
FLAGS = {
    "encoding": "--encoding",
    "delimiter": "--delimiter",
    "decimal": "--decimal",
    "dates": "--dates",
    "nulls": "--null",
    "quote": "--quote",
    "escape": "--escape",
    "columns": "--columns",
    "types": "--type",
    "sheet": "--sheet",
    "skip_rows": "--skip-rows",
}
#: What the page writes for a value, by option; an empty field of the page means that nothing was said.
_WORDS: dict[str, dict[str, Any]] = {
    "delimiter": {"tab": "\t", "space": " "},
    "quote": {"none": ""},
    "header": {"yes": True, "no": False},
    "trim": {"yes": True, "no": False},
}
_LISTS = ("nulls", "columns")
#: Which options concern a workbook.
_OF_SHEETS = ("sheet", "skip_rows", "columns", "nulls", "types")
LONGEST = 2000


def offered() -> list[str]:
    """Return the names of the options that the page shows: all there are."""
    return [field.name for field in fields(ReadOptions)]


def checked(asked: object) -> Document:
    """Return the options that were filled in.

    Raises:
        InvalidInputError: It is no table of texts, or there is no such option.
    """
    if not isinstance(asked, dict) or not set(asked) <= set(offered()):
        raise InvalidInputError(
            "the reading options are not those of the page: reload the page and try again"
        )
    found: Document = {}
    for name, value in asked.items():
        if name == "types":
            if not isinstance(value, dict) or not set(value.values()) <= set(SQL_TYPES):
                raise InvalidInputError(
                    f"the types of columns are not among {', '.join(SQL_TYPES)}: choose others"
                )
            found |= {name: dict(value)} if value else {}
        elif not isinstance(value, str) or len(value) > LONGEST:
            raise InvalidInputError(f"the {name} is not a short text: choose or type another")
        elif (
            name in _WORDS
            and set(_WORDS[name].values()) <= {True, False}
            and value not in {"", *_WORDS[name]}
        ):
            raise InvalidInputError(f"the {name} {value!r} is neither yes nor no: choose one of them")
        elif name == "skip_rows" and value.strip() and not value.strip().isdecimal():
            raise InvalidInputError(
                f"{value!r} rows above the header cannot be left out: type a number, 0 for none"
            )
        elif value.strip():
            found[name] = value
    return found


def options(asked: Asked) -> ReadOptions:
    """Return the options as the tables take them; lists are separated by commas."""
    given: dict[str, Any] = {}
    for name, value in asked.items():
        if name in _LISTS:
            given[name] = tuple(text.strip() for text in value.split(",") if text.strip())
        elif name == "skip_rows":
            given[name] = int(value)
        else:
            given[name] = value if name == "types" else _WORDS.get(name, {}).get(value, value)
    return ReadOptions(**given)


def found_out(path: str, asked: Asked) -> tuple[Document, Document]:
    """Look at a file that is to be read.

    Args:
        path: The file.
        asked: What is said already.

    Returns:
        What to ask for: a decimal comma is taken where it is seen, and titles are left out, since the page shows that
        they were; and what the page shows: ``options`` that concern the file, the ``values`` in force, and the
        ``sheets`` of a workbook.

    Raises:
        InvalidInputError: The file is no table.
    """
    workbook = is_workbook(path)
    asked = {name: value for name, value in asked.items() if name != "sheet" or workbook}
    told = sniff(path, options(asked))
    above = {} if told.skip_rows is None else {"skip_rows": str(told.skip_rows)}
    if workbook:
        values = {"sheet": told.sheet, **asked, **above}
        return {**asked, **above}, {
            "options": list(_OF_SHEETS),
            "values": values,
            "sheets": sheets(Path(path)),
        }
    if told.delimiter is None:
        return dict(asked), {"options": [], "values": {}, "sheets": []}
    known = {
        "encoding": told.encoding,
        "delimiter": told.delimiter,
        "decimal": told.decimal,
        "dates": told.dates,
    }
    words = {value: word for word, value in _WORDS["delimiter"].items()}
    known["delimiter"] = words.get(told.delimiter, told.delimiter)
    values = {**{name: value for name, value in known.items() if value is not None}, **asked, **above}
    effective = {**asked, **above}
    if told.decimal != ".":
        effective["decimal"] = told.decimal
    return effective, {
        "options": [name for name in offered() if name != "sheet"], "values": values, "sheets": [],
    }  # fmt: skip


def sayable(asked: Asked) -> bool:
    """Whether the command line has an option for each."""
    return set(asked) <= set(FLAGS) and not any("=" in name for name in asked.get("types", ()))


def arguments(asked: Asked) -> list[str]:
    """Return the options as the command line takes them."""
    found: list[str] = []
    for name in asked:
        if name not in FLAGS:
            continue
        value = getattr(options(asked), name)
        if name == "types":
            texts = [f"{column}={kind}" for column, kind in value.items()]
        else:
            texts = list(value) if name == "nulls" else [",".join(value) if name == "columns" else str(value)]
        found += [part for text in texts for part in (FLAGS[name], "tab" if text == "\t" else text)]
    return found


def literal(asked: Asked) -> str:
    """Return the options as an argument of a Python call; the texts are literals and nothing else."""
    read = options(asked)
    given = ", ".join(f"{name}={getattr(read, name)!r}" for name in asked)
    return f"pf.tables.ReadOptions({given})"
