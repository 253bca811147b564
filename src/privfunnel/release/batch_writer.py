"""Arrow batches as files, and the names that they must not take."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from privfunnel.data.engines import ReadOptions, sniff
from privfunnel.errors import InvalidInputError, need


def check_apart(outputs: Sequence[Path], precious: Mapping[str, Path | None]) -> None:
    """Refuse outputs that would take each other's place, or that of a file which is still needed.

    Args:
        outputs: The files to be written, the codebook last.
        precious: What must stay, in words, to where it is.

    Raises:
        InvalidInputError: They would.
    """
    for i, path in enumerate(outputs):
        if any(path.absolute() == other.absolute() for other in outputs[:i]):
            raise InvalidInputError(
                f"two of release, codebook and order file are both {str(path)!r}: give them different names"
            )
        for what, place in precious.items():
            if place is not None and _same(path, place):
                raise InvalidInputError(
                    f"{str(path)!r} is {what}: it is never overwritten, choose another name"
                )


def _same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other))


class BatchWriter:
    """Writes Arrow batches as Parquet or CSV.

    Args:
        form: ``"csv"`` or ``"parquet"``.
        stream: Where the bytes go; it stays open.
        fields: Arrow fields; arrays may come dictionary-encoded, they are stored plain.
        texts: Every text that may appear, or ``None`` where that is not known.
        raw_text: Leave texts that a spreadsheet would take for a formula as they are in a CSV.
        semicolons: Write a CSV with semicolons and decimal commas, and a mark that it is UTF-8.
    """

    def __init__(
        self,
        form: str,
        stream: BinaryIO,
        fields: Sequence[Any],
        texts: Sequence[str] | None,
        *,
        raw_text: bool = False,
        semicolons: bool = False,
    ) -> None:
        """Remember them; the first batch decides how texts are stored."""
        pa = need("pyarrow", "tables")
        self.schema = pa.schema(fields)
        self.parquet = form == "parquet"
        self.stream = stream
        self.writer: Any = None
        # Only a CSV quotes: the texts of a large release take as long to look through as its rows to write.
        self.semicolons = semicolons and not self.parquet
        # Decimal commas are written as texts, which need no quotes where commas separate nothing.
        marks = _SEMICOLON_MARKS if self.semicolons else _MARKS
        self.quote = not self.parquet and (texts is None or any(_needs_quotes(text, marks) for text in texts))
        self.harmless = raw_text or self.parquet or (texts is not None and not any(map(is_formula, texts)))
        self.raw_text = raw_text

    def __enter__(self) -> BatchWriter:
        """Use as a context manager, so that the file is complete at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the file, an empty one too; after an error it is not needed, and its end need not fit on the disk."""
        with contextlib.nullcontext() if kind is None else contextlib.suppress(Exception):
            if self.writer is None:
                self._open(self.schema)
            self.writer.close()

    def _open(self, schema: object) -> None:
        if self.parquet:
            parquet = need("pyarrow.parquet", "tables")
            # Without Arrow's own schema in the file, a dictionary of texts reads back as plain texts.
            self.writer = parquet.ParquetWriter(self.stream, schema, store_schema=False)
            return
        csv = need("pyarrow.csv", "tables")
        # pyarrow quotes every text or none; none is enough where no text needs it.
        mark = ";" if self.semicolons else ","
        options = csv.WriteOptions(
            include_header=False, delimiter=mark, quoting_style="needed" if self.quote else "none"
        )
        names = self.schema.names if self.raw_text else [neutral(name) for name in self.schema.names]
        header = mark.join(_quoted(name, _SEMICOLON_MARKS if self.semicolons else _MARKS) for name in names)
        self.stream.write((codecs.BOM_UTF8 if self.semicolons else b"") + f"{header}\n".encode())
        kept = schema if self.semicolons else self.schema  # decimal commas make texts of numbers
        self.writer = csv.CSVWriter(self.stream, kept, write_options=options)

    def write(self, arrays: Sequence[Any]) -> None:
        """Append one batch."""
        pa = need("pyarrow", "tables")
        if not self.parquet:
            arrays = [array.cast(field.type) for array, field in zip(arrays, self.schema, strict=True)]
            arrays = arrays if self.harmless else [_neutralised(array) for array in arrays]
            arrays = [_with_comma(array) for array in arrays] if self.semicolons else arrays
        batch = pa.RecordBatch.from_arrays(list(arrays), names=self.schema.names)
        if self.writer is None:
            self._open(batch.schema)
        self.writer.write(batch)


def uses_semicolons(dialect: str, source: object, read: ReadOptions) -> bool:
    """Whether a CSV of this dialect has semicolons and decimal commas.

    Args:
        dialect: One of :data:`~privfunnel.release.options.DIALECTS`.
        source: The table that is released; of a text file, what it is written with is found out.
        read: How it is read.
    """
    if dialect != "source":
        return dialect == "semicolon"
    found = sniff(source, read) if isinstance(source, str | os.PathLike) and "::" not in str(source) else read
    return found.decimal == "," or found.delimiter == ";"


def is_ours_with_semicolons(released: object) -> bool:
    """Whether a file begins as those that are written with semicolons do, so that its numbers have decimal commas."""
    if not isinstance(released, str | os.PathLike) or not Path(released).is_file():
        return False
    with Path(released).open("rb") as file:
        first = file.readline(100_000)
    return first.startswith(codecs.BOM_UTF8) and (b";" in first or b"," not in first)


def file_format(path: Path) -> str:
    """``"csv"`` or ``"parquet"`` by suffix.

    Raises:
        InvalidInputError: The suffix is another one.
    """
    forms = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
    if path.suffix.lower() not in forms:
        raise InvalidInputError(f"{str(path)!r} is neither .csv nor .parquet: the suffix chooses the format")
    return forms[path.suffix.lower()]


#: Characters of a text that a CSV has to quote.
_MARKS, _SEMICOLON_MARKS = re.compile(r'[,"\n\r]'), re.compile(r'[;"\n\r]')
#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a CSV would compute this text instead of showing it."""
    return text.startswith(_FORMULA)


def neutral(text: str) -> str:
    """The text as a spreadsheet shows it: an apostrophe before what would be a formula."""
    return f"'{text}" if is_formula(text) else text


def original(text: str) -> str:
    """The text before :func:`neutral`."""
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def _neutralised(array: Any) -> Any:
    """An Arrow column whose texts are :func:`neutral`; other columns as they are."""
    pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return array
    formula = pc.match_substring_regex(array, "^[=+@\t\r-]")
    return pc.if_else(formula, pc.binary_join_element_wise("'", array, ""), array)


def _with_comma(array: Any) -> Any:
    """Numbers with decimals as texts with a decimal comma; other columns as they are."""
    pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
    if not pa.types.is_floating(array.type):
        return array
    return pc.replace_substring(array.cast(pa.string()), ".", ",")


def _needs_quotes(value: str, marks: re.Pattern[str]) -> bool:
    return value == "" or value != value.strip() or marks.search(value) is not None


def _quoted(value: str, marks: re.Pattern[str]) -> str:
    return '"' + value.replace('"', '""') + '"' if _needs_quotes(value, marks) else value
