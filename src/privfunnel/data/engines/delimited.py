"""Text files of records through DuckDB: nothing about their dialect is left to a guess of the engine.

Encoding and delimiter are told by :mod:`~privfunnel.data.engines.dialect`, the quote is fixed, and the number of rows
that the engine delivers is compared with a count of the file's lines.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from privfunnel.data.engines import dialect as dialects
from privfunnel.data.engines import titles
from privfunnel.data.engines.dialect import Dialect
from privfunnel.data.engines.encodings import (
    CHUNK,
    SMALL_FILE,
    check_encoding,
    encoding_of,
    opened,
    transcode,
)
from privfunnel.data.engines.reading import SQL_TYPES, ReadOptions
from privfunnel.data.engines.texts import clip, listed, literal, pattern, quoted
from privfunnel.data.engines.written_dates import Order, order_of, parsed
from privfunnel.errors import InvalidInputError

LINE_END = re.compile(rb"\r\n|\n|\r")


class Delimited(NamedTuple):
    """A text file, opened.

    Attributes:
        relation: The engine's relation.
        options: How it is read: what was given, and the order of its dates where that was found out.
        check: Raises an error where the number of rows that were read is not that of the file.
        skipped: Lines above the header that were left out.
    """

    relation: Any
    options: ReadOptions
    check: Callable[[int], None]
    skipped: int


def read_delimited(connection: Any, path: Path, options: ReadOptions, stack: ExitStack) -> Delimited:
    """Open a text file of records.

    Args:
        connection: The engine.
        path: The file.
        options: How to read it.
        stack: Removes the copy of a file in another encoding when the caller is done.

    Raises:
        InvalidInputError: It is no table, or the options do not fit it.
    """
    file = _behind(_as_utf8(path, options, stack), path, options.skip_rows or 0, stack)
    dialect = dialects.dialect_of(dialects.sample_of(file, path), options, path)
    file = _behind(file, path, dialect.begins, stack)
    titles.tell(repr(path.name), dialect.begins, dialect.above)
    arguments = _arguments(file, dialect, options)
    found = _sniffed(connection, file, arguments)
    names = [name.strip() for name in found.names]
    if options.columns:
        names = _renamed(path, names, options.columns)
    elif found.header and dialect.records:
        _check_header(path, dialect.records[0])
    asked = _types(path, names, options.types)
    types = {name: asked.get(name, kind) for name, kind in zip(names, found.types, strict=True)}
    relation = connection.sql(_select(file, arguments, found, types, asked))
    orders = _orders(relation, names, types, asked, dialect, options, path)
    relation = relation.project(
        ", ".join(
            _cleaned(raw, name, str(kind), options, orders.get(name))
            for raw, name, kind in zip(relation.columns, names, relation.types, strict=True)
        )
    )
    told = {order.order for order in orders.values()}
    known = replace(options, dates=told.pop()) if len(told) == 1 and options.dates is None else options
    check = _row_check(path, file, dialect.delimiter, options, header=found.header)
    return Delimited(relation, known, check, (options.skip_rows or 0) + dialect.begins)


def sniff_delimited(path: Path, options: ReadOptions) -> ReadOptions:
    """What is found out about a text file of records from its beginning.

    Raises:
        InvalidInputError: It is no table.
    """
    with ExitStack() as stack:
        encoding = options.encoding or encoding_of(path)
        file = _as_utf8(path, replace(options, encoding=encoding), stack)
        file = _behind(file, path, options.skip_rows or 0, stack)
        dialect = dialects.dialect_of(dialects.sample_of(file, path), options, path)
    decimal = options.decimal if options.decimal != "." else dialects.decimal_of(dialect, options.nulls)
    orders = (
        {order_of(dialect.column(j, options.nulls)) for j in range(len(dialect.records[0]))}
        if dialect.records
        else set()
    )
    told = [order for order in orders if order in {"dmy", "mdy"}]
    dates = options.dates or (told[0] if len(told) == 1 else None)
    skip = dialect.begins if dialect.above else options.skip_rows
    return replace(
        options, encoding=encoding, delimiter=dialect.delimiter, decimal=decimal, dates=dates, skip_rows=skip
    )


def _as_utf8(path: Path, options: ReadOptions, stack: ExitStack) -> Path:
    """The file itself or, where it has another encoding, a private copy that is removed at the end."""
    encoding = options.encoding or encoding_of(path)
    if codecs.lookup(encoding).name in {"utf-8", "utf-8-sig", "ascii"}:
        if options.encoding is not None:
            check_encoding(path, encoding)
        return path
    folder = stack.enter_context(TemporaryDirectory(prefix="privfunnel-", ignore_cleanup_errors=True))
    copy = Path(folder) / "table.csv"
    transcode(path, encoding, copy)
    return copy


def _behind(file: Path, path: Path, lines: int, stack: ExitStack) -> Path:
    """The file, or a private copy without its first lines.

    An engine that skips lines by itself takes one that a quote goes on beyond for the same line.

    Raises:
        InvalidInputError: There are no more lines.
    """
    if lines == 0:
        return file
    folder = stack.enter_context(TemporaryDirectory(prefix="privfunnel-", ignore_cleanup_errors=True))
    copy = Path(folder) / "table.csv"
    with opened(file) as stream, copy.open("wb") as out:
        rest = _after_lines(stream, lines)
        while rest:
            out.write(rest)
            rest = stream.read(CHUNK)
    if copy.stat().st_size == 0:
        raise InvalidInputError(
            f"{path.name!r} has nothing behind its first {lines} lines: leave out fewer (--skip-rows)"
        )
    return copy


def _after_lines(stream: IO[bytes], lines: int) -> bytes:
    """What is read behind the given number of lines, as far as it came with them; a line ends by LF, CR or both."""
    chunk, ends = b"", 0
    while ends < lines:
        chunk = stream.read(CHUNK)
        if chunk.endswith(b"\r"):
            chunk += stream.read(1)  # one line end may not be cut in two
        if not chunk:
            return b""
        found = [match.end() for match in LINE_END.finditer(chunk)]
        if ends + len(found) >= lines:
            return chunk[found[lines - ends - 1] :] or stream.read(CHUNK)
        ends += len(found)
    return chunk


def _arguments(file: Path, dialect: Dialect, options: ReadOptions) -> list[str]:
    arguments = [
        f"delim={literal(dialect.delimiter)}",
        f"quote={literal(options.quote)}",
        f"escape={literal(options.quote if options.escape is None else options.escape)}",
        f"decimal_separator={literal(options.decimal)}",
        "skip=0",  # otherwise lines that do not fit the rest are skipped without a word
        "comment=''",  # otherwise rows that start with # may be taken for comments and vanish
        "allow_quoted_nulls=false",  # "" is a text, an empty field is null
        "hive_partitioning=false",  # a folder called year=2020 is no column
    ]
    if file.stat().st_size <= SMALL_FILE:
        arguments.append("sample_size=-1")
    if options.nulls:
        arguments.append(f"nullstr={listed(['', *options.nulls, *(f' {text}' for text in options.nulls)])}")
    header = options.header if options.header is not None else (False if options.columns else None)
    if header is not None:
        arguments.append(f"header={str(header).lower()}")
    return arguments


class _Sniffed(NamedTuple):
    """What the engine makes of the columns."""

    names: list[str]
    types: list[str]
    header: bool
    formats: dict[str, str]


def _sniffed(connection: Any, file: Path, arguments: Sequence[str]) -> _Sniffed:
    # Booleans stay text, so that yes/no and t/f are not rewritten as true/false.
    candidates = "auto_type_candidates=['BIGINT', 'DOUBLE', 'DATE', 'TIMESTAMP', 'VARCHAR']"
    columns, header, date, timestamp = connection.sql(
        "SELECT Columns, HasHeader, DateFormat, TimestampFormat FROM "
        f"sniff_csv({pattern(file)}, {', '.join([*arguments, candidates])})"
    ).fetchall()[0]
    forms = {"dateformat": date, "timestampformat": timestamp}
    kinds = {"DATE": date, "TIMESTAMP": timestamp}
    types = []
    for column in columns:
        form = kinds.get(column["type"])
        # For dates that do not begin with the year the engine guesses, and another file may give another guess.
        types.append("VARCHAR" if form and not form.startswith("%Y") else column["type"])
    kept = {name: form for name, form in forms.items() if form and form.startswith("%Y")}
    return _Sniffed([column["name"] for column in columns], types, bool(header), kept)


def _select(
    file: Path, arguments: Sequence[str], found: _Sniffed, types: Mapping[str, str], asked: Mapping[str, str]
) -> str:
    """The query that reads a file whose columns are known; dates that were asked for are read as text first."""
    kinds = [
        "VARCHAR" if name in asked and kind in {"DATE", "TIMESTAMP"} else kind for name, kind in types.items()
    ]
    columns = ", ".join(
        f"{literal(raw)}: {literal(kind)}" for raw, kind in zip(found.names, kinds, strict=True)
    )
    given = [argument for argument in arguments if not argument.startswith("header=")]
    forms = [f"{name}={literal(form)}" for name, form in found.formats.items()]
    told = [f"header={str(found.header).lower()}", "auto_detect=false", f"columns={{{columns}}}", *forms]
    return f"SELECT * FROM read_csv({pattern(file)}, {', '.join([*given, *told])})"


def _orders(
    relation: Any,
    names: Sequence[str],
    types: Mapping[str, str],
    asked: Mapping[str, str],
    dialect: Dialect,
    options: ReadOptions,
    path: Path,
) -> dict[str, Order]:
    """Columns of text that are dates, and how they are written."""
    orders = {}
    for j, (raw, name) in enumerate(zip(relation.columns, names, strict=True)):
        if name in asked and types[name] in {"DATE", "TIMESTAMP"}:
            orders[name] = Order(options.dates or "ymd", types[name] == "TIMESTAMP")
        elif (
            types[name] == "VARCHAR"
            and name not in asked
            and order_of(dialect.column(j, options.nulls)) is not None
        ):
            order = parsed(relation, raw, name, options.dates, path)
            if order is not None:
                orders[name] = order
    return orders


def _check_header(path: Path, written: Sequence[str]) -> None:
    """Refuse a header with a name twice: the engine renames the second one without a word."""
    twice = _alike([name.strip() for name in written])
    if twice:
        raise InvalidInputError(
            f"{path.name!r} has two columns called {twice}: rename one of them in the file"
        )


def _alike(names: Sequence[str]) -> str:
    """Names that the engine cannot tell apart, in words; it does not look at case."""
    folded = [name.lower() for name in names]
    alike = [name for name, low in zip(names, folded, strict=True) if low and folded.count(low) > 1]
    alike = [name for name in alike if name.lower() == alike[0].lower()]
    different = list(dict.fromkeys(alike))
    if len(different) < 2:
        return "".join(map(repr, different))
    return f"{different[0]!r} and {different[1]!r}, the same but for case"


def _renamed(path: Path, found: Sequence[str], columns: Sequence[str]) -> list[str]:
    if len(columns) != len(found):
        raise InvalidInputError(
            f"{path.name!r} has {len(found)} columns and {len(columns)} names were given: name every column, in order"
        )
    twice = _alike(columns)
    if twice:
        raise InvalidInputError(f"two columns are named {twice}: every column needs a name of its own")
    return list(columns)


def _types(path: Path, names: Sequence[str], types: Mapping[str, str]) -> dict[str, str]:
    for name, kind in types.items():
        if name not in names:
            raise InvalidInputError(
                f"{path.name!r} has no column {name!r} to read as {kind}: its columns are {clip(', '.join(names), 200)}"
            )
        if kind not in SQL_TYPES:
            raise InvalidInputError(
                f"unknown type {kind!r} for column {name!r}: use one of {', '.join(SQL_TYPES)}"
            )
    return {name: SQL_TYPES[kind] for name, kind in types.items()}


def _cleaned(found: str, name: str, sql_type: str, options: ReadOptions, order: Order | None) -> str:
    column = quoted(found)
    if order is not None:
        column = order.sql(column)
    elif options.trim and sql_type == "VARCHAR":
        # A field of blanks alone is an empty field, hence null; a quoted "" stays a text.
        column = f"CASE WHEN {column} = '' THEN '' WHEN trim({column}) = '' THEN NULL ELSE trim({column}) END"
    return f"{column} AS {quoted(name)}"


def _row_check(
    path: Path, file: Path, delimiter: str, options: ReadOptions, *, header: bool
) -> Callable[[int], None]:
    """Compare rows that were read with the records of the file, counted in another way."""

    def check(rows: int) -> None:
        plain = options.quote if options.escape in {None, options.quote} else ""
        # The fast count takes every quote for one that opens or closes; the reader knows better, and is asked last.
        counted = []
        for blank_lines in (False, True):  # in a table of one column a blank line may be a null
            counted.append(dialects.count_records(file, quote=plain, blank_lines=blank_lines) - header)
            if counted[-1] == rows:
                return
        for blank_lines in (False, True):
            if dialects.count_with_reader(file, delimiter, options, blank_lines=blank_lines) - header == rows:
                return
        raise InvalidInputError(
            f"{path.name!r} has {counted[0]} records and {rows} were read: look for a quote that is never closed, "
            "or name the quote (--quote)"
        )

    return check
