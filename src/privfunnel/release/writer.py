"""Arrow batches as files, and the names that they must not take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

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
    """

    def __init__(
        self,
        form: str,
        stream: BinaryIO,
        fields: Sequence[Any],
        texts: Sequence[str] | None,
        *,
        raw_text: bool = False,
    ) -> None:
        """Remember them; the first batch decides how texts are stored."""
        pa = need("pyarrow", "tables")
        self.schema = pa.schema(fields)
        self.parquet = form == "parquet"
        self.stream = stream
        self.writer: Any = None
        # Only a CSV quotes: the texts of a large release take as long to look through as its rows to write.
        self.quote = not self.parquet and (texts is None or any(map(_needs_quotes, texts)))
        self.harmless = raw_text or self.parquet or (texts is not None and not any(map(is_formula, texts)))
        self.raw_text = raw_text

    def __enter__(self) -> BatchWriter:
        """Use as a context manager, so that the file is complete at the end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Finish the file, an empty one too."""
        if self.writer is None:
            self._open(self.schema)
        self.writer.close()

    def _open(self, schema: Any) -> None:
        if self.parquet:
            parquet = need("pyarrow.parquet", "tables")
            # Without Arrow's own schema in the file, a dictionary of texts reads back as plain texts.
            self.writer = parquet.ParquetWriter(self.stream, schema, store_schema=False)
            return
        csv = need("pyarrow.csv", "tables")
        # pyarrow quotes every text or none; none is enough where no text needs it.
        options = csv.WriteOptions(include_header=False, quoting_style="needed" if self.quote else "none")
        names = self.schema.names if self.raw_text else [neutral(name) for name in self.schema.names]
        self.stream.write((",".join(map(_quoted, names)) + "\n").encode())
        self.writer = csv.CSVWriter(self.stream, self.schema, write_options=options)

    def write(self, arrays: Sequence[Any]) -> None:
        """Append one batch."""
        pa = need("pyarrow", "tables")
        if not self.parquet:
            arrays = [array.cast(field.type) for array, field in zip(arrays, self.schema, strict=True)]
            arrays = arrays if self.harmless else [_neutralised(array) for array in arrays]
        batch = pa.RecordBatch.from_arrays(list(arrays), names=self.schema.names)
        if self.writer is None:
            self._open(batch.schema)
        self.writer.write(batch)


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
_MARKS = re.compile(r'[,"\n\r]')
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


def _needs_quotes(value: str) -> bool:
    return value == "" or value != value.strip() or _MARKS.search(value) is not None


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"' if _needs_quotes(value) else value
