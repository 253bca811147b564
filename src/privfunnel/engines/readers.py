"""Files through DuckDB, the embedded engine, and SQLite's own; nothing is ever fetched from a network."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from privfunnel.engines.database import DatabaseSource
from privfunnel.engines.frames import FrameSource
from privfunnel.engines.source import Source
from privfunnel.engines.texts import clip, literal, one_line, quoted
from privfunnel.errors import InvalidInputError, need

SMALL_FILE = 64 * 2**20  # a CSV up to this size is looked at whole to find its types
LONGEST_MESSAGE = 200  # characters of an engine's own words that are passed on
SQL_TYPES = {"text": "VARCHAR", "number": "DOUBLE", "integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE"}
_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".duckdb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite",
}  # fmt: skip
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"SQLite format 3": "sqlite"}


@dataclass(frozen=True)
class ReadOptions:
    """How to read a text file; other formats describe themselves.

    Attributes:
        columns: Names of the columns of a CSV without a header, in order; with a header, they replace it.
        header: Whether the first line holds the names; ``None`` lets the engine look.
        delimiter: The separator; ``None`` lets the engine look.
        nulls: Texts that mean null, besides the empty field.
        trim: Remove blanks around unquoted and quoted text values.
        types: Column name to ``text``, ``number``, ``integer``, ``boolean`` or ``date``, where the guess is wrong.
        encoding: Encoding of the text, e.g. ``latin-1``.
    """

    columns: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None
    nulls: tuple[str, ...] = ()
    trim: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"


def open_file(source: str, options: ReadOptions, stack: ExitStack) -> Source:
    """Open a file, or a table of a database file written ``FILE::TABLE``, as a DuckDB relation.

    Args:
        source: The path.
        options: How to read text.
        stack: Closes the connection and removes its spill folder when the caller is done.

    Raises:
        InvalidInputError: The file is missing, empty or unreadable.
    """
    text, _, inner = source.partition("::")
    path = Path(text)
    if not path.exists():
        raise InvalidInputError(f"there is no file {text!r}: check the path")
    if path.is_dir():
        raise InvalidInputError(
            f"{text!r} is a folder: give one file, or open the folder with your own engine"
        )
    if path.stat().st_size == 0:
        raise InvalidInputError(f"{path.name!r} is empty: it needs a header or --columns, and rows")
    form = _form(path)
    readers = {"parquet": _parquet, "json": _json, "arrow": _arrow, "csv": _csv}
    try:
        if form == "duckdb":
            return _table(connect(stack, text, read_only=True), path, inner)
        if form == "sqlite":
            return _sqlite(path, inner, stack)
        relation = readers[form](connect(stack), path, options)
    except need("duckdb", "tables").Error as error:
        raise _explained(error, path) from error
    except OSError as error:
        raise InvalidInputError(f"{path.name} cannot be read: {error.strerror or error}") from error
    hint = ""
    if form == "csv":
        hint = "; if it has no header, name them with columns (--columns)"
        if len(relation.columns) == 1:
            hint = ", a single one: is the delimiter right? (--delimiter)"
    return _wrap(relation, path, hint)


def _wrap(relation: Any, path: Path, hint: str) -> Source:
    frame = need("narwhals", "tables").from_native(relation)
    return FrameSource(frame, name=repr(path.name), hint=hint, explain=lambda error: _explained(error, path))


def _form(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(16)
    for magic, form in _MAGIC.items():
        if head.startswith(magic):
            return form
    if head[8:12] == b"DUCK":
        return "duckdb"
    suffixes = [suffix for suffix in path.suffixes if suffix not in {".gz", ".zst"}]
    return _SUFFIXES.get(suffixes[-1].lower(), "csv") if suffixes else "csv"


def connect(stack: ExitStack, database: str = ":memory:", *, read_only: bool = False) -> Any:
    """A DuckDB connection that spills to a private folder and never goes to the network; ``stack`` closes it."""
    # DuckDB 2.0 imports this by itself on the way to Arrow, and then complains of leaked types when Python ends.
    need("pyarrow.dataset", "tables")
    duckdb = need("duckdb", "tables")
    spill = stack.enter_context(TemporaryDirectory(prefix="privfunnel-", ignore_cleanup_errors=True))
    config = {
        "temp_directory": spill,  # otherwise .tmp in the working folder
        "autoinstall_known_extensions": "false",  # a privacy tool does not open connections of its own
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(database, read_only=read_only, config=config)
    stack.callback(connection.close)
    connection.execute("SET enable_progress_bar = false")
    return connection


def _listed(values: Sequence[str]) -> str:
    return "[" + ", ".join(literal(value) for value in values) + "]"


def _path(path: Path) -> str:
    # DuckDB reads [ * ? in a path as a pattern; a bracket around each makes it literal.
    return literal(re.sub(r"([\[*?])", r"[\1]", os.fspath(path)))


def _parquet(connection: Any, path: Path, options: ReadOptions) -> Any:
    return connection.sql(f"SELECT * FROM read_parquet({_path(path)})")


def _json(connection: Any, path: Path, options: ReadOptions) -> Any:
    sample = ", sample_size=-1" if path.stat().st_size <= SMALL_FILE else ""
    return connection.sql(f"SELECT * FROM read_json({_path(path)}{sample})")


def _arrow(connection: Any, path: Path, options: ReadOptions) -> Any:
    dataset, pa = need("pyarrow.dataset", "tables"), need("pyarrow", "tables")
    try:
        return connection.from_arrow(dataset.dataset(os.fspath(path), format="ipc"))
    except pa.ArrowException as error:
        raise InvalidInputError(f"{path.name} is not an Arrow file: {one_line(error)}") from error


def _csv(connection: Any, path: Path, options: ReadOptions) -> Any:
    arguments = [
        "skip=0",  # otherwise lines that do not fit the rest are skipped without a word
        "comment=''",  # otherwise rows that start with # may be taken for comments and vanish
        "allow_quoted_nulls=false",  # "" is a text, an empty field is null
        # Booleans stay text, so that yes/no and t/f are not rewritten as true/false.
        "auto_type_candidates=['BIGINT', 'DOUBLE', 'DATE', 'TIMESTAMP', 'VARCHAR']",
    ]
    if path.stat().st_size <= SMALL_FILE:
        arguments.append("sample_size=-1")
    header = options.header if options.header is not None else (False if options.columns else None)
    if header is not None:
        arguments.append(f"header={str(header).lower()}")
    if options.delimiter is not None:
        arguments.append(f"delim={literal(_delimiter(options.delimiter))}")
    if options.nulls:
        arguments.append(f"nullstr={_listed(['', *options.nulls, *(f' {text}' for text in options.nulls)])}")
    if options.encoding != "utf-8":
        arguments.append(f"encoding={literal(options.encoding)}")
    reader = f"read_csv({_path(path)}, {', '.join(arguments)}"
    found = connection.sql(f"SELECT * FROM {reader})")
    names = [name.strip() for name in found.columns]
    if not options.columns:
        _check_header(connection, path, found.columns, arguments)
    if options.columns:
        names = _renamed(path, found.columns, options.columns)
    types = _types(path, names, options.types)
    guessed = [n for n, kind in zip(names, found.types, strict=True) if str(kind) in {"DATE", "TIMESTAMP"}]
    if guessed and not _year_first(connection, path, arguments):
        types = {**dict.fromkeys(guessed, SQL_TYPES["text"]), **types}
    if types:
        override = ", ".join(
            f"{literal(found.columns[names.index(name)])}: {literal(sql)}" for name, sql in types.items()
        )
        found = connection.sql(f"SELECT * FROM {reader}, types={{{override}}})")
    return found.project(
        ", ".join(map(_cleaned, found.columns, names, map(str, found.types), [options] * len(names)))
    )


def _year_first(connection: Any, path: Path, arguments: Sequence[str]) -> bool:
    """Whether dates are written year first; for others the engine guesses, and another file may give another guess."""
    found = connection.sql(
        f"SELECT DateFormat, TimestampFormat FROM sniff_csv({_path(path)}, {', '.join(arguments)})"
    )
    return all(form is None or form.startswith("%Y") for form in found.fetchall()[0])


def _check_header(connection: Any, path: Path, columns: Sequence[str], arguments: Sequence[str]) -> None:
    """Refuse a header with a name twice: DuckDB renames the second one without a word."""
    plain = ", ".join(
        [*(argument for argument in arguments if not argument.startswith("header=")), "header=false"]
    )
    first = connection.sql(
        f"SELECT * FROM read_csv({_path(path)}, {plain}, all_varchar=true) LIMIT 1"
    ).fetchall()
    if not first or len(first[0]) != len(columns):
        return
    written = [(value or "").strip() for value in first[0]]
    is_header = all(
        name.strip() == text or name.startswith(text) for name, text in zip(columns, written, strict=True)
    )
    twice = _alike(written)
    if is_header and twice:
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


def _delimiter(text: str) -> str:
    return {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(text, text)


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
            raise InvalidInputError(f"{path.name!r} has no column {name!r} to read as {kind}")
        if kind not in SQL_TYPES:
            raise InvalidInputError(
                f"unknown type {kind!r} for column {name!r}: use one of {', '.join(SQL_TYPES)}"
            )
    return {name: SQL_TYPES[kind] for name, kind in types.items()}


def _cleaned(found: str, name: str, sql_type: str, options: ReadOptions) -> str:
    column = quoted(found)
    if options.trim and sql_type == "VARCHAR":
        # A field of blanks alone is an empty field, hence null; a quoted "" stays a text.
        column = f"CASE WHEN {column} = '' THEN '' WHEN trim({column}) = '' THEN NULL ELSE trim({column}) END"
    return f"{column} AS {quoted(name)}"


def _table(connection: Any, path: Path, name: str) -> Source:
    found = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() UNION ALL "
        "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
    ).fetchall()
    known = {
        **{f"{schema}.{table}": (schema, table) for schema, table in found},
        **{t: (s, t) for s, t in found},
    }
    if name not in known:
        raise _no_table(path, name, sorted(table for _, table in found))
    schema, table = known[name]
    return _wrap(connection.sql(f"SELECT * FROM {quoted(schema)}.{quoted(table)}"), path, "")


def _sqlite(path: Path, name: str, stack: ExitStack) -> Source:
    """A table of a SQLite file, through Python's own driver."""
    connection = stack.enter_context(
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True))
    )
    try:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        )
        known = [table for (table,) in found.fetchall()]
    except sqlite3.Error as error:
        raise InvalidInputError(f"{path.name!r} cannot be read: {error}") from error
    if name not in known:
        raise _no_table(path, name, known)
    return DatabaseSource(connection, name)


def _no_table(path: Path, name: str, known: Sequence[str]) -> InvalidInputError:
    asked = f"has no table {name!r}" if name else "is a database: name a table"
    return InvalidInputError(
        f"{path.name!r} {asked}; it holds {', '.join(known) or 'none'}: write {path.name}::TABLE"
    )


def _explained(error: Exception, path: Path) -> Exception:
    """An error of DuckDB about a file as one line with a remedy."""
    duckdb = need("duckdb", "tables")
    if not isinstance(error, duckdb.Error):
        return error
    message = one_line(error)
    found = re.search(
        r'CSV Error on Line: (\d+).*Error when converting column "(.+?)"\. Could not convert string "(.*?)"',
        message,
    )
    if found:
        line, column, value = found.groups()
        return InvalidInputError(
            f"{path.name!r} mixes types: column {column!r} looks like numbers or dates and holds {value!r} in line "
            f"{line}: read it as text (--type {column}=text), or mark {value!r} as null (--null)"
        )
    if "not utf-8" in message or "Invalid unicode" in message:
        return InvalidInputError(f"{path.name!r} is not UTF-8: give its encoding, e.g. --encoding latin-1")
    if "sniffing" in message or "CSV Error" in message:
        detail = re.search(r"(Expected Number of Columns: \d+ Found: \d+)", message)
        line_no = re.search(r"CSV Error on Line: (\d+)", message)
        where = f" (line {line_no.group(1)}: {detail.group(1).lower()})" if line_no and detail else ""
        return InvalidInputError(
            f"{path.name!r} does not read as a CSV table{where}: its lines differ in length or the delimiter is wrong "
            "(--delimiter)"
        )
    return InvalidInputError(f"{path.name!r} cannot be read: {clip(message, LONGEST_MESSAGE)}")
