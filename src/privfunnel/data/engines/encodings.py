"""Encodings of text files: finding them out, and writing a copy in the one that the embedded engine reads."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from privfunnel.data.engines.texts import clip, one_line
from privfunnel.errors import InvalidInputError, need

SMALL_FILE = 64 * 2**20  # bytes up to which a text file is looked at whole
CHUNK = 2**20
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
#: Beginnings of files that are often given in place of a table, and what to do with them.
FOREIGN = {
    b"%PDF": "a PDF", b"\x89PNG": "an image", b"GIF8": "an image", b"\xff\xd8\xff": "an image",
    b"{\\rtf": "a word processor's file", b"\x1f\x8b": "compressed without the ending .gz", b"PK\x03\x04": "an archive",
}  # fmt: skip
#: Characters that no text of records holds.
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed by its ending (``.gz``, ``.zst``).

    Raises:
        InvalidInputError: They cannot be read or decompressed.
    """
    pa = need("pyarrow", "tables")
    packed = path.suffix.lower() in {".gz", ".zst"}
    try:
        with pa.input_stream(str(path), compression="detect") if packed else path.open("rb") as stream:
            yield stream
    except (OSError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"{path.name!r} cannot be read: {clip(one_line(error), 160)}: check the file"
        ) from error


def encoding_of(path: Path) -> str:
    """The encoding of a text file: what a mark at its beginning says, else UTF-8 if it is valid, else Windows-1252.

    Raises:
        InvalidInputError: The file is binary, or neither of these.
    """
    with opened(path) as stream:
        head = stream.read(CHUNK)
        for magic, what in FOREIGN.items():
            if head.startswith(magic):
                raise InvalidInputError(
                    f"{path.name!r} is {what}, not a table: export it as CSV, Excel workbook or Parquet"
                )
        for mark, encoding in MARKS.items():
            if head.startswith(mark):
                return encoding
        if b"\0" in head[:4096]:
            return _without_mark(head[:4096], path)
        decoder = codecs.getincrementaldecoder("utf-8")()
        seen, chunk = 0, head
        try:
            while chunk and seen < SMALL_FILE:
                decoder.decode(chunk)
                seen += len(chunk)
                chunk = stream.read(CHUNK)
            if not chunk:
                decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _windows(path)
    return "utf-8"


def _without_mark(head: bytes, path: Path) -> str:
    """UTF-16 whose byte order is told by where the zeros of its plain letters are."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    if min(even, odd) * 4 < max(even, odd) > len(head) // 8:
        return "utf-16-le" if odd > even else "utf-16-be"
    raise InvalidInputError(
        f"{path.name!r} is a binary file, not a table: give CSV, Parquet, Arrow or a workbook"
    )


def _windows(path: Path) -> str:
    with opened(path) as stream:
        line, chunk, seen = 1, stream.read(CHUNK), 0
        while chunk and seen < SMALL_FILE:
            try:
                text = chunk.decode("cp1252")
            except UnicodeDecodeError as error:
                line += chunk[: error.start].count(b"\n")
                raise InvalidInputError(
                    f"{path.name!r} is neither UTF-8 nor Windows-1252 (byte 0x{chunk[error.start]:02x} in line "
                    f"{line}): name its encoding (--encoding)"
                ) from None
            refuse_control(text, line, path)
            line, seen = line + text.count("\n"), seen + len(chunk)
            chunk = stream.read(CHUNK)
    return "cp1252"


def refuse_control(text: str, line: int, path: Path) -> None:
    """Refuse characters that no text of records holds; ``line`` is the number of the first line."""
    odd = CONTROL.search(text)
    if odd:
        line += text.count("\n", 0, odd.start())
        raise InvalidInputError(
            f"{path.name!r} is a binary file, not a table (control character 0x{ord(odd[0]):02x} in line {line}): give "
            "CSV, Parquet, Arrow or a workbook"
        )


def transcode(path: Path, encoding: str, target: Path) -> None:
    """Write a text file again as UTF-8.

    Raises:
        InvalidInputError: Some bytes are not of the encoding; the message says which and where.
    """
    with target.open("w", encoding="utf-8", newline="") as copy:
        for i, text in enumerate(_decoded(path, encoding)):
            copy.write(text if i else text.removeprefix("\ufeff"))


def check_encoding(path: Path, encoding: str) -> None:
    """Decode the beginning of a text file.

    Raises:
        InvalidInputError: Some bytes are not of the encoding; the message says which and where.
    """
    seen = 0
    for text in _decoded(path, encoding):
        seen += len(text)
        if seen > SMALL_FILE:
            return


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    line, offset = 1, 0
    with opened(path) as stream:
        while True:
            chunk = stream.read(CHUNK)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeError as error:
                at = error.start if isinstance(error, UnicodeDecodeError) else 0
                byte = f"byte 0x{chunk[at]:02x}" if at < len(chunk) else "its end"
                # The position is that in a chunk, which may begin with the few bytes that the last one left over.
                line += chunk[:at].count(b"\n")
                raise InvalidInputError(
                    f"{path.name!r} is not {encoding} ({byte} in line {line}, near byte {offset + at}): name its "
                    "encoding (--encoding), e.g. cp1252"
                ) from error
            yield text
            line, offset = line + text.count("\n"), offset + len(chunk)
            if not chunk:
                return
