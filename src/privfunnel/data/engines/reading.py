"""How a file is read: one object that counting, releases, audits, the command line and the explorer share."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_whole
from privfunnel.infra.storage import Document

#: Types that a column of a text file may be read as, and what the embedded engine calls them.
SQL_TYPES = {
    "text": "VARCHAR", "number": "DOUBLE", "integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE",
    "datetime": "TIMESTAMP",
}  # fmt: skip
#: The orders of day, month and year in which dates are written.
DATE_ORDERS = ("ymd", "dmy", "mdy")
#: Words for delimiters that are awkward to type.
DELIMITERS = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": " ",
}


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file of records; what is left at its default is found out from the file.

    Databases, Parquet and Arrow files describe themselves: nothing here concerns them.

    Attributes:
        columns: Names of the columns of a table without a header, in order; with a header, they replace it.
        header: Whether the first line holds the names; ``None`` finds out.
        delimiter: The separator, one character or ``tab``, ``comma``, ``semicolon``, ``pipe``; ``None`` finds out.
        nulls: Texts that mean null, besides the empty field.
        trim: Remove blanks around unquoted and quoted text values.
        types: Column name to ``text``, ``number``, ``integer``, ``boolean``, ``date`` or ``datetime``, where the guess
            is wrong.
        encoding: Encoding of the text, e.g. ``cp1252``; ``None`` finds out.
        decimal: What stands before the decimals of a number, ``"."`` or ``","``.
        quote: What stands around a field that holds a delimiter; ``""`` for nothing.
        escape: What stands before a quote inside quotes; ``None`` for a second quote.
        sheet: Name of a workbook's sheet; ``None`` for the first.
        dates: Order in which dates are written: ``ymd``, ``dmy`` or ``mdy``; ``None`` finds out where it can.
        skip_rows: Lines of a text file, or rows of a sheet, that are left out at its beginning, since titles stand
            above the header; ``None`` finds out.

    Raises:
        InvalidInputError: An option makes no sense, or two contradict each other.
    """

    columns: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None
    nulls: tuple[str, ...] = ()
    trim: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None
    decimal: str = "."
    quote: str = '"'
    escape: str | None = None
    sheet: str | None = None
    dates: str | None = None
    skip_rows: int | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense, before a file is touched."""
        if self.delimiter is not None:
            delimiter = DELIMITERS.get(self.delimiter.lower(), self.delimiter)
            if len(delimiter) != 1 or delimiter in "\r\n\0":
                raise InvalidInputError(
                    f"the delimiter {self.delimiter!r} is not one character: give e.g. ';' or tab"
                )
            object.__setattr__(self, "delimiter", delimiter)
        if self.escape == "":
            object.__setattr__(self, "escape", None)
        if self.decimal not in {".", ","}:
            raise InvalidInputError(f"the decimal sign {self.decimal!r} is unknown: use '.' or ','")
        if self.decimal == self.delimiter:
            raise InvalidInputError(
                f"delimiter and decimal sign are both {self.decimal!r}: give the delimiter of the file, e.g. ';'"
            )
        for name, mark in (("quote", self.quote), ("escape", self.escape or "")):
            if len(mark) > 1 or mark in {"\r", "\n", "\0"} or (mark and mark == self.delimiter):
                raise InvalidInputError(
                    f"the {name} {mark!r} cannot be used: give one character that is not the delimiter"
                )
        if self.dates is not None and self.dates not in DATE_ORDERS:
            raise InvalidInputError(f"dates in the order {self.dates!r}: use one of {', '.join(DATE_ORDERS)}")
        if self.skip_rows is not None and not (is_whole(self.skip_rows) and self.skip_rows >= 0):
            raise InvalidInputError(
                f"{self.skip_rows!r} rows above the header cannot be left out: give a number, 0 for none"
            )
        if self.encoding is not None:
            _check_encoding(self.encoding)

    @property
    def taken_for_granted(self) -> bool:
        """Whether nothing was said, and everything is to be found out."""
        return not self.to_dict()

    def over(self, base: ReadOptions) -> ReadOptions:
        """These options, with those of ``base`` where nothing was said."""
        return replace(base, **{name: getattr(self, name) for name in self.to_dict()})

    def to_dict(self) -> Document:
        """JSON-ready: what differs from the defaults."""
        told: Document = {}
        for each in fields(self):
            value = getattr(self, each.name)
            plain = list(value) if isinstance(value, tuple) else value
            plain = dict(plain) if isinstance(plain, Mapping) else plain
            if plain != _PLAIN[each.name]:
                told[each.name] = plain
        return told

    @classmethod
    def from_dict(cls, data: object) -> ReadOptions:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: A name is unknown, or a value of the wrong type.
        """
        if not isinstance(data, Mapping):
            raise InvalidInputError(f"reading options {data!r} are no names and values")
        given: dict[str, Any] = {}
        for name, value in data.items():
            if name not in _PLAIN or not _fits(name, value):
                raise InvalidInputError(f"the reading option {name!r} cannot be {value!r}")
            given[name] = tuple(value) if isinstance(value, list) else value
        return cls(**given)


#: Defaults as JSON holds them.
_PLAIN: dict[str, Any] = {
    "columns": [], "header": None, "delimiter": None, "nulls": [], "trim": True, "types": {}, "encoding": None,
    "decimal": ".", "quote": '"', "escape": None, "sheet": None, "dates": None,
    "skip_rows": None,
}  # fmt: skip


def _fits(name: str, value: object) -> bool:
    """Whether a value read from JSON has the type of an option."""
    if name in {"columns", "nulls"}:
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if name == "types":
        return isinstance(value, Mapping) and all(
            isinstance(k, str) and isinstance(v, str) for k, v in value.items()
        )
    if name == "skip_rows":
        return value is None or is_whole(value)
    if name in {"header", "trim"}:
        return isinstance(value, bool) or (name == "header" and value is None)
    return isinstance(value, str) or (value is None and name not in {"decimal", "quote"})


def _check_encoding(encoding: str) -> None:
    try:
        known = codecs.lookup(encoding)
        "".encode(known.name)  # some codecs turn bytes into bytes
    except (LookupError, ValueError):
        raise InvalidInputError(
            f"the encoding {encoding!r} is unknown: use e.g. utf-8, cp1252, latin-1 or utf-16"
        ) from None
