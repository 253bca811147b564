"""Workbooks of spreadsheet programs (Excel, OpenDocument): one sheet, one name above every column."""

from __future__ import annotations

import datetime
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privfunnel.data.engines import titles
from privfunnel.data.engines.categories import canonical, text
from privfunnel.data.engines.frames import FrameSource
from privfunnel.data.engines.reading import ReadOptions
from privfunnel.data.engines.source import Source
from privfunnel.data.engines.texts import clip, first_line
from privfunnel.data.engines.titles import filled
from privfunnel.errors import InvalidInputError, need

MAX_BYTES = 2**30  # unpacked, of one member of the file
MAX_CELLS = 50_000_000  # that a sheet may span
_REFERENCE = re.compile(rb' r="([A-Z]{1,3})(\d{1,7})"')
_REPEATED = re.compile(rb'number-(?:rows|columns)-repeated="(\d+)"')
#: How workbooks begin: the older ones (.xls), and packed ones (.xlsx, .ods).
_SIGNATURES = (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK")
#: Bytes by which a file is taken for text.
LOOKED_AT = 512
_REMEDY = (
    "put one name above every column, in the first row, or leave out rows above the header (--skip-rows)"
)


def sheets(path: Path) -> list[str]:
    """Names of the sheets of a workbook.

    Raises:
        InvalidInputError: It cannot be read, or has none.
    """
    names = _workbook(path).sheet_names
    if not names:
        raise InvalidInputError(f"{path.name!r} has no sheet: it holds no table")
    return [str(name) for name in names]


def open_workbook(path: Path, options: ReadOptions) -> Source:
    """The table on one sheet of a workbook.

    Args:
        path: The file.
        options: Its sheet, names of columns, nulls and types.

    Raises:
        InvalidInputError: The file is damaged, the sheet is not there, or its header is not one name a column.
    """
    known = sheets(path)
    name = known[0] if options.sheet is None else options.sheet
    if name not in known:
        raise InvalidInputError(
            f"{path.name!r} has no sheet {name!r}; it holds {', '.join(map(clip, known))}: choose one (--sheet)"
        )
    where = f"sheet {name!r} of {path.name!r}"
    numbers, rows = _rows(path, name, options, where)
    at = _header_at(numbers, rows, options)
    titles.tell(where, numbers[at], rows[:at])
    rows = _trimmed(rows[at:])
    header = options.header if options.header is not None else not options.columns
    # Cells beyond the names would be dropped without a word otherwise.
    width = max(j + 1 for row in rows for j, cell in enumerate(row) if filled(cell))
    names, body = (_header(rows[0][:width], where), rows[1:]) if header else ([], rows)
    if options.columns:
        if len(options.columns) != width:
            raise InvalidInputError(
                f"{where} has {width} columns and {len(options.columns)} names were given: name every column, in order"
            )
        names = list(options.columns)
    elif not names:
        raise InvalidInputError(f"{where} has no header: {_REMEDY}, or name them (--columns)")
    _check_types(names, options, where)
    pa = need("pyarrow", "tables")
    columns = [
        _column([row[j] if j < len(row) else None for row in body], names[j], options, where)
        for j in range(width)
    ]
    table = pa.Table.from_arrays(columns, names=names)
    source = FrameSource(need("narwhals", "tables").from_native(table), name=repr(path.name))
    source.read = options
    return source


def sniff_workbook(path: Path, options: ReadOptions) -> ReadOptions:
    """The first sheet of a workbook, and the rows above the header of the sheet.

    Raises:
        InvalidInputError: It cannot be read, or the sheet is empty or not there.
    """
    known = sheets(path)
    told = replace(options, sheet=options.sheet or known[0])
    if told.sheet not in known:
        return told  # it is said when it is opened
    numbers, rows = _rows(path, str(told.sheet), options, f"sheet {told.sheet!r} of {path.name!r}")
    at = _header_at(numbers, rows, options)
    return replace(told, skip_rows=numbers[at]) if at else told


def _header_at(numbers: Sequence[int], rows: Sequence[Sequence[Any]], options: ReadOptions) -> int:
    """The place of the header among the rows, 0 where nothing was found out."""
    if not titles.looked_for(options):
        return 0
    spans, low, high = [], len(rows[0]), 0
    for row in reversed(rows):
        used = [j for j, cell in enumerate(row) if filled(cell)]
        low, high = min(low, used[0]), max(high, used[-1] + 1)
        spans.append((low, high))
    return titles.header_at(rows, spans[::-1], numbers)


def _trimmed(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows without the columns that are empty in all of them at the left: a title may begin further left."""
    left = min(next(j for j, cell in enumerate(row) if filled(cell)) for row in rows)
    return [row[left:] for row in rows]


def _workbook(path: Path) -> Any:
    calamine = need("python_calamine", "tables")
    _check_size(path)
    _refuse_text(path)
    return _guarded(path, lambda: calamine.CalamineWorkbook.from_path(str(path)))


def _rows(path: Path, name: str, options: ReadOptions, where: str) -> tuple[list[int], list[list[Any]]]:
    """How many rows are above each row of a sheet that is not empty nor to be left out, and these rows.

    Raises:
        InvalidInputError: There is none.
    """
    sheet = _guarded(path, lambda: _workbook(path).get_sheet_by_name(name))
    found: list[list[Any]] = _guarded(path, sheet.to_python)
    first = 0 if sheet.start is None else int(sheet.start[0])  # empty rows at the beginning are not delivered
    kept = [(i, row) for i, row in enumerate(found, first) if any(map(filled, row))]
    if not kept:
        raise InvalidInputError(f"{where} is empty: it needs a header and rows, or choose another (--sheet)")
    kept = [(i, row) for i, row in kept if i >= (options.skip_rows or 0)]
    if not kept:
        raise InvalidInputError(
            f"{where} has nothing behind its first {options.skip_rows} rows: leave out fewer (--skip-rows)"
        )
    return [i for i, _ in kept], [row for _, row in kept]


def _guarded(path: Path, work: Any) -> Any:
    """Run a piece of the reader; whatever it meets in a damaged file is one line."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit, InvalidInputError):
        raise
    except BaseException as error:  # a panic of the compiled reader is no Exception
        raise InvalidInputError(
            f"{path.name!r} cannot be read as a workbook ({clip(first_line(error), 120)}): save it again as "
            ".xlsx or CSV"
        ) from error


def _refuse_text(path: Path) -> None:
    """Refuse text with the ending of a workbook, as many programs export it.

    Raises:
        InvalidInputError: The file begins with text.
    """
    with path.open("rb") as stream:
        start = stream.read(LOOKED_AT)
    if not start or start.startswith(_SIGNATURES) or any(byte < 9 for byte in start):
        return
    web = start.lstrip().lower().startswith((b"<html", b"<!doctype", b"<table", b"<?xml"))
    remedy = "open it in a spreadsheet and save it as .xlsx" if web else "rename it to .csv"
    raise InvalidInputError(
        f"{path.name!r} is no workbook but {'a web page' if web else 'text'} with that ending: {remedy}"
    )


def _check_size(path: Path) -> None:
    """Refuse packed files that unpack to a mountain, and sheets whose corners are too far apart, before reading."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.file_size > MAX_BYTES:
                    raise _too_large(path)
                if re.search(r"worksheets/[^/]+\.xml$", member.filename):
                    _check_extent(archive.read(member), path)
                elif member.filename == "content.xml":
                    _check_repeats(archive.read(member), path)
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
    ) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"{path.name!r} cannot be read as a workbook ({clip(first_line(error), 120)}): save it again as "
            ".xlsx or CSV"
        ) from error


def _check_extent(sheet: bytes, path: Path) -> None:
    width = height = 0
    for letters, digits in _REFERENCE.findall(sheet):
        column = 0
        for letter in letters:
            column = 26 * column + letter - 64
        width, height = max(width, column), max(height, int(digits))
    if width * height > MAX_CELLS:
        raise _too_large(path)


def _check_repeats(content: bytes, path: Path) -> None:
    # A spreadsheet program ends each sheet by an empty row that is repeated to the last one it knows.
    repeats = [int(number) for number in _REPEATED.findall(content)]
    if any(number > 2**24 for number in repeats):
        raise _too_large(path)


def _too_large(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{path.name!r} is too large for a workbook: save the sheet as CSV or Parquet")


def _header(row: Sequence[Any], where: str) -> list[str]:
    for j, cell in enumerate(row):
        if not filled(cell):
            raise InvalidInputError(
                f"the header of {where} has no name above column {j + 1} (are cells merged, or a title above?): "
                f"{_REMEDY}"
            )
    names = [cell.strip() if isinstance(cell, str) else str(text(_plain(cell))) for cell in row]
    folded = [name.lower() for name in names]
    twice = next((name for name, low in zip(names, folded, strict=True) if folded.count(low) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{where} has two columns called {twice!r}: rename one of them")
    return names


def _check_types(names: Sequence[str], options: ReadOptions, where: str) -> None:
    for name, kind in options.types.items():
        if name not in names:
            raise InvalidInputError(
                f"{where} has no column {name!r} to read as {kind}: its columns are {clip(', '.join(names), 200)}"
            )
        if kind != "text":
            raise InvalidInputError(
                f"column {name!r} of {where} cannot be read as {kind}: a workbook says what its cells are; only text "
                "is possible"
            )


def _plain(cell: object) -> Any:
    """A cell as a value that every engine knows."""
    if isinstance(cell, datetime.time | datetime.timedelta):
        return str(cell)
    return canonical(cell)


def _column(cells: Sequence[Any], name: str, options: ReadOptions, where: str) -> Any:
    """One column; numbers and texts in one column become texts, as they would in a text file."""
    pa = need("pyarrow", "tables")
    values: list[Any] = []
    for cell in cells:
        if not filled(cell):
            values.append(None)
            continue
        value = _plain(cell)
        value = value.strip() if isinstance(value, str) and options.trim else value
        values.append(None if text(value) in options.nulls else value)
    kinds = {type(value) for value in values if value is not None}
    if options.types.get(name) == "text" or (len(kinds) > 1 and str in kinds):
        return pa.array([text(value) for value in values], pa.string())
    if kinds == {datetime.date, datetime.datetime}:
        midnight = datetime.time()
        values = [datetime.datetime.combine(v, midnight) if type(v) is datetime.date else v for v in values]
    elif kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        return pa.array([text(value) for value in values], pa.string())
    try:
        return pa.array(values, pa.string() if not kinds else None)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInputError(
            f"column {name!r} of {where} cannot be read: {first_line(error)}: make its cells one type"
        ) from error
