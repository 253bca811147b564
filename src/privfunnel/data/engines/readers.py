"""Files through DuckDB, the embedded engine, and SQLite's own; nothing is ever fetched from a network."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from privfunnel.data.engines.advice import FIRST_ROWS
from privfunnel.data.engines.database import DatabaseSource
from privfunnel.data.engines.delimited import Delimited, read_delimited, sniff_delimited
from privfunnel.data.engines.dialect import MISSING_MARKS
from privfunnel.data.engines.encodings import SMALL_FILE
from privfunnel.data.engines.frames import FrameSource
from privfunnel.data.engines.reading import ReadOptions
from privfunnel.data.engines.source import Source
from privfunnel.data.engines.texts import LONGEST_MESSAGE, clip, one_line, pattern, quoted
from privfunnel.data.engines.workbooks import open_workbook, sniff_workbook
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.signals import interrupting

_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".duckdb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite",
    ".xlsx": "workbook", ".xlsm": "workbook", ".xlsb": "workbook", ".xls": "workbook", ".ods": "workbook",
}  # fmt: skip
_MAGIC = {
    b"PAR1": "parquet", b"ARROW1": "arrow", b"SQLite format 3": "sqlite",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "workbook",
}  # fmt: skip


def open_file(source: str, options: ReadOptions, stack: ExitStack) -> Source:
    """Open a file, or a table of a database file written ``FILE::TABLE``, as a DuckDB relation.

    Args:
        source: The path.
        options: How to read text.
        stack: Closes the connection and removes its spill folder when the caller is done.

    Raises:
        InvalidInputError: The file is missing, empty or unreadable.
    """
    path, inner = regular_file(source)
    form = _form(path)
    try:
        if form == "duckdb":
            return _table(_locked(stack, path), path, inner)
        if form == "sqlite":
            return _sqlite(path, inner, stack)
        if form == "workbook":
            return open_workbook(path, options)
        if form == "csv":
            return _text(path, options, stack)
        return _wrap(_BINARY[form](connect(stack), path), path, "")
    except need("duckdb", "tables").Error as error:
        raise _explained(error, path) from error
    except OSError as error:
        raise InvalidInputError(f"{path.name!r} cannot be read: {error.strerror or error}") from error


def sniff(source: str | os.PathLike[str], options: ReadOptions | None = None) -> ReadOptions:
    """What can be found out about how a file is to be read.

    Args:
        source: The path.
        options: What is known already, and kept.

    Returns:
        The options with encoding, delimiter, decimal sign, order of dates and rows above the header of a text file
        filled in, or the first sheet of a workbook and its rows above the header; a decimal comma is a suggestion,
        which nothing but this function makes. Other files describe themselves.

    Raises:
        InvalidInputError: The file cannot be read, or is no table.
    """
    known = options or ReadOptions()
    path, _ = regular_file(os.fspath(source))
    form = _form(path)
    if form == "workbook":
        return sniff_workbook(path, known)
    return sniff_delimited(path, known) if form == "csv" else known


def is_workbook(source: str | os.PathLike[str]) -> bool:
    """Whether a file is a workbook.

    Raises:
        InvalidInputError: There is no such file.
    """
    return _form(regular_file(os.fspath(source))[0]) == "workbook"


def regular_file(source: str) -> tuple[Path, str]:
    """The path, and the table behind ``::``, of what a user named as a file of records.

    Raises:
        InvalidInputError: There is no such file, or it is a folder, a pipe or empty.
    """
    text, _, inner = source.partition("::")
    path = Path(text)
    try:
        if not text or not path.exists():
            raise InvalidInputError(f"there is no file {clip(text)!r}: check the path")
        if path.is_dir():
            raise InvalidInputError(
                f"{clip(text)!r} is a folder: give one file, or open the folder with your own engine"
            )
        if not path.is_file():
            raise InvalidInputError(
                f"{clip(text)!r} is a pipe or a device, which can be read only once: save it to a file first"
            )
        if path.stat().st_size == 0:
            raise InvalidInputError(f"{path.name!r} is empty: it needs a header or --columns, and rows")
    except InvalidInputError:
        raise
    except (OSError, ValueError) as error:  # names that are too long, or hold a zero
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"{clip(text)!r} cannot be read ({reason}): check the path") from error
    return path, inner


def _text(path: Path, options: ReadOptions, stack: ExitStack) -> Source:
    found = read_delimited(connect(stack), path, options, stack)
    hint = "; if it has no header, name them with columns (--columns); if lines stand above it, say so (--skip-rows)"
    if len(found.relation.columns) == 1:
        hint = ", a single one: is the delimiter right? (--delimiter)"
    return _wrap(found.relation, path, hint, found)


def _wrap(relation: object, path: Path, hint: str, text: Delimited | None = None) -> Source:
    source = FrameSource(
        need("narwhals", "tables").from_native(relation),
        name=repr(path.name),
        hint=hint,
        explain=lambda error: _explained(error, path, 0 if text is None else text.skipped),
        check_rows=None if text is None else text.check,
    )
    source.read = None if text is None else text.options
    return source


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
    stack.enter_context(interrupting(connection.interrupt))  # a query of minutes hears no Ctrl-C
    connection.execute("SET enable_progress_bar = false")
    return connection


def _locked(stack: ExitStack, path: Path) -> Any:
    """A connection to a DuckDB file whose views cannot reach any other file."""
    connection = connect(stack, os.fspath(path.absolute()), read_only=True)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _parquet(connection: Any, path: Path) -> Any:
    return connection.sql(f"SELECT * FROM read_parquet({pattern(path)}, hive_partitioning=false)")


def _json(connection: Any, path: Path) -> Any:
    sample = ", sample_size=-1" if path.stat().st_size <= SMALL_FILE else ""
    return connection.sql(f"SELECT * FROM read_json({pattern(path)}{sample}, hive_partitioning=false)")


def _arrow(connection: Any, path: Path) -> Any:
    """An Arrow file, whose buffers are checked first: a changed offset would make a reader leave its memory."""
    dataset, ipc, pa = (need(name, "tables") for name in ("pyarrow.dataset", "pyarrow.ipc", "pyarrow"))
    try:
        with pa.memory_map(os.fspath(path)) as mapped, ipc.open_file(mapped) as reader:
            _ = reader.schema.names  # texts that no engine could show otherwise
            for i in range(reader.num_record_batches):
                reader.get_batch(i).validate(full=True)
        return connection.from_arrow(dataset.dataset(os.fspath(path.absolute()), format="ipc"))
    except (pa.ArrowException, ValueError, MemoryError) as error:
        raise InvalidInputError(
            f"{path.name!r} is not an Arrow file, or damaged: {clip(one_line(error), LONGEST_MESSAGE)}"
        ) from error


_BINARY = {"parquet": _parquet, "json": _json, "arrow": _arrow}


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
    except (sqlite3.Error, UnicodeError) as error:  # its messages quote the file, which may be no text
        raise InvalidInputError(
            f"{path.name!r} cannot be read: {clip(one_line(error), LONGEST_MESSAGE)}"
        ) from error
    if name not in known:
        raise _no_table(path, name, known)
    return DatabaseSource(connection, (name,))


def _no_table(path: Path, name: str, known: Sequence[str]) -> InvalidInputError:
    asked = f"has no table {name!r}" if name else "is a database: name a table"
    return InvalidInputError(
        f"{path.name!r} {asked}; it holds {', '.join(known) or 'none'}: write {path.name}::TABLE"
    )


def _explained(error: Exception, path: Path, skipped: int = 0) -> Exception:
    """An error of DuckDB about a file as one line with a remedy; ``skipped`` lines were left out at its beginning."""
    duckdb = need("duckdb", "tables")
    if not isinstance(error, duckdb.Error):
        return error
    message = one_line(error)
    found = re.search(
        r'CSV Error on Line: (\d+).*Error when converting column "(.+?)"\. Could not convert string "(.*?)"',
        message,
    )
    if found:
        number, column, value = found.groups()
        line = int(number) + skipped
        # What stands near the beginning may be the header itself.
        top = line <= FIRST_ROWS and value.strip().lower() not in MISSING_MARKS
        other = (
            "leave out the lines above it if it is the header (--skip-rows)"
            if top
            else f"mark {value!r} as null (--null)"
        )
        return InvalidInputError(
            f"{path.name!r} mixes types: column {column!r} looks like numbers or dates and holds {value!r} in line "
            f"{line}: read it as text (--type {shlex.quote(f'{column}=text')}), or {other}"
        )
    if "not utf-8" in message or "Invalid unicode" in message:
        numbered = re.search(r"CSV Error on Line: (\d+)", message)
        where = f" in line {int(numbered.group(1)) + skipped}" if numbered else ""
        return InvalidInputError(
            f"{path.name!r} is not UTF-8{where}: give its encoding, e.g. --encoding cp1252"
        )
    if "sniffing" in message or "CSV Error" in message:
        detail = re.search(r"(Expected Number of Columns: \d+ Found: \d+)", message)
        line_no = re.search(r"CSV Error on Line: (\d+)", message)
        where = ""
        if line_no and detail:
            where = f" (line {int(line_no.group(1)) + skipped}: {detail.group(1).lower()})"
        return InvalidInputError(
            f"{path.name!r} does not read as a CSV table{where}: its lines differ in length or the delimiter is wrong "
            "(--delimiter)"
        )
    return InvalidInputError(f"{path.name!r} cannot be read: {clip(message, LONGEST_MESSAGE)}")
