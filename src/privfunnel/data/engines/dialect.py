"""How a text file separates its fields, and how many records it has.

Everything is looked at here, with fixed rules, and told to the embedded engine: an engine that guesses a quote or a
delimiter of its own may lose rows without a word.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privfunnel.data.engines import titles
from privfunnel.data.engines.encodings import CHUNK, opened, refuse_control
from privfunnel.data.engines.reading import ReadOptions
from privfunnel.data.engines.texts import one_line
from privfunnel.errors import InvalidInputError

SAMPLE = 2**18  # characters from which the delimiter is told
CANDIDATES = (",", ";", "\t", "|")
COMMA_NUMBER = re.compile(r"[-+]?\d+(,\d+)?")
GROUPED_NUMBER = re.compile(r"[-+]?\d{1,3}(?:([,.'’\u00a0\u202f ])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
NEWLINE = 10
WORDS = 5  # blank-separated words that make a field prose
#: What programs write for a missing number, in small letters.
MISSING_MARKS = frozenset({"na", "n/a", "null", "-", "."})


class Sample(NamedTuple):
    """The beginning of a text file.

    Attributes:
        text: Its characters, cut at the end of a line.
        whole: Whether this is all of it.
    """

    text: str
    whole: bool


class Dialect(NamedTuple):
    """How a text file is written.

    Attributes:
        delimiter: The separator of fields.
        records: The first records, each a list of fields.
        above: Those above the header, which are none of them.
        begins: How many lines stand above the first record.
    """

    delimiter: str
    records: list[list[str]]
    above: list[list[str]] = []  # noqa: RUF012  # never changed
    begins: int = 0

    @property
    def rows(self) -> list[list[str]]:
        """The records behind the first one, which may be a header."""
        return self.records[1:]

    def column(self, j: int, nulls: Sequence[str] = ()) -> list[str]:
        """The values of one column that are neither blank nor null, header left out."""
        values = [row[j].strip() for row in self.rows if j < len(row)]
        return [value for value in values if value and value not in nulls]


def sample_of(file: Path, path: Path) -> Sample:
    """The beginning of a UTF-8 file, whole lines only.

    Args:
        file: The file, or its copy in UTF-8.
        path: What the user named.

    Raises:
        InvalidInputError: It holds characters that no text does, or nothing but blanks.
    """
    with opened(file) as stream:
        raw = stream.read(SAMPLE)
        whole = not stream.read(1)
    text = raw.decode("utf-8", errors="replace").lstrip("\ufeff")
    if not whole:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    refuse_control(text, 1, path)
    if whole and not text.strip():
        raise InvalidInputError(f"{path.name!r} is empty: it needs a header or --columns, and rows")
    return Sample(text, whole)


def dialect_of(sample: Sample, options: ReadOptions, path: Path) -> Dialect:
    """The delimiter of a text file: the one by which all its first records have as many fields as the first.

    Raises:
        InvalidInputError: No delimiter fits, or the file is prose.
    """
    if options.delimiter is not None:
        return _dialect(sample, options.delimiter, options)
    tried = {
        mark: _dialect(sample, mark, options)
        for mark in CANDIDATES
        if mark not in {options.decimal, options.quote}
    }
    best, share = ",", -1.0
    for mark, dialect in tried.items():
        if dialect.records and len(dialect.records[0]) > 1:
            found = sum(_fits(record, dialect.records[0]) for record in dialect.records) / len(
                dialect.records
            )
            width = len(tried[best].records[0]) if best in tried and tried[best].records else 0
            # A table without titles above it is the plainer reading.
            if (found, not dialect.above, len(dialect.records[0])) > (
                share,
                best in tried and not tried[best].above,
                width,
            ):
                best, share = mark, found
    if share == 1.0:
        return tried[best]
    records = {mark: dialect.records for mark, dialect in tried.items()}
    if share < 0.0 and all(len(record) < 2 for each in records.values() for record in each):
        first = next(iter(tried.values()))
        _refuse_prose(first.records, path)
        return first
    raise _ragged(path, sample, best, records, options)


def _dialect(sample: Sample, delimiter: str, options: ReadOptions) -> Dialect:
    """The first records behind a delimiter, less those above the header where these are to be found out."""
    records, lines = records_of(sample, delimiter, options)
    unnamed = options.header is False or (bool(options.columns) and options.header is None)
    if not records or unnamed:  # a blank line may be a record of one missing value
        return Dialect(delimiter, records)
    header = 0
    if titles.looked_for(options):
        lengths = [len(record) for record in records]
        width = max(set(lengths), key=lengths.count)
        rows = [row[:width] for row in records]
        header = titles.header_at(rows, [(0, width)] * len(rows), lines)
    return Dialect(delimiter, records[header:], records[:header], lines[header])


def records_of(sample: Sample, delimiter: str, options: ReadOptions) -> tuple[list[list[str]], list[int]]:
    """The records of a sample and how many lines are above each, blank lines left out.

    The last one is left out, too, where the sample may cut it off.
    """
    records: list[list[str]] = []
    lines: list[int] = []
    reader = _reader(io.StringIO(sample.text, newline=""), delimiter, options)
    seen = 0
    try:
        for record in reader:
            if record:
                records.append(record)
                lines.append(seen)
            seen = reader.line_num
    except csv.Error:
        return records, lines
    return (records, lines) if sample.whole or len(records) < 2 else (records[:-1], lines[:-1])


def _reader(lines: Any, delimiter: str, options: ReadOptions) -> Any:
    quoting: dict[str, Any] = {"quoting": csv.QUOTE_NONE}
    if options.quote:
        quoting = {"quotechar": options.quote, "doublequote": options.escape in {None, options.quote}}
        if options.escape not in {None, options.quote}:
            quoting["escapechar"] = options.escape
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != " ", **quoting)


def _fits(record: Sequence[str], first: Sequence[str]) -> bool:
    """As many fields as the first record, or one more that is empty: some programs end each line by a delimiter."""
    return len(record) == len(first) or (len(record) == len(first) + 1 and not record[-1].strip())


def _refuse_prose(records: Sequence[Sequence[str]], path: Path) -> None:
    wordy = sum(len(field.split()) >= WORDS for record in records for field in record)
    texts = path.suffix.lower() not in {".csv", ".tsv", ".gz", ".zst"}
    if wordy * 2 > len(records) or (texts and any(" " in field for record in records for field in record)):
        raise InvalidInputError(
            f"{path.name!r} reads as prose, not as a table: give a file with one record a line, or its delimiter "
            "(--delimiter)"
        )


def _ragged(
    path: Path, sample: Sample, best: str, tried: dict[str, list[list[str]]], options: ReadOptions
) -> InvalidInputError:
    """Say which line is odd, under the delimiter that fits most lines."""
    lengths = {mark: [len(record) for record in records] for mark, records in tried.items() if records}
    if not lengths:
        return InvalidInputError(
            f"{path.name!r} does not read as a table: a quote is never closed; check the file, or name "
            "the quote (--quote)"
        )

    def common(mark: str) -> int:
        return max(set(lengths[mark]), key=lengths[mark].count)

    mark = max(lengths, key=lambda each: (common(each) > 1, lengths[each].count(common(each)), each == best))
    usual = common(mark)
    odd = next((i for i, length in enumerate(lengths[mark]) if length != usual), 0)
    reader = _reader(io.StringIO(sample.text, newline=""), mark, options)
    seen = -1
    for record in reader:
        seen += bool(record)
        if seen == odd:
            break
    fields, line = lengths[mark][odd], reader.line_num + (options.skip_rows or 0)
    return InvalidInputError(
        f"{path.name!r} does not read as a table: line {line} has {fields} field{'s' * (fields != 1)} where others "
        f"have {usual}: repair it, leave out lines above the header (--skip-rows), or name the delimiter (--delimiter)"
    )


def decimal_of(dialect: Dialect, nulls: Sequence[str]) -> str:
    """The decimal sign that the columns of a sample suggest, ``"."`` or ``","``."""
    if dialect.delimiter == "," or not dialect.rows:
        return "."
    for j in range(len(dialect.records[0])):
        values = dialect.column(j, nulls)
        if values and decimal_commas(values):
            return ","
    return "."


def decimal_commas(values: Sequence[str]) -> bool:
    """Whether texts are numbers with decimal commas; 1,234 alone may be a thousand or so, and is none."""
    if not all(COMMA_NUMBER.fullmatch(value) for value in values):
        return False
    commas = [value for value in values if "," in value]
    return bool(commas) and not all(GROUPED_NUMBER.fullmatch(value) for value in commas)


def grouped_numbers(values: Sequence[str]) -> list[str]:
    """Those of some texts that are numbers with separated thousands, if all of them are numbers; else none."""
    grouped = [value for value in values if GROUPED_NUMBER.fullmatch(value)]
    others = [value for value in values if not GROUPED_NUMBER.fullmatch(value)]
    plain = all(re.fullmatch(r"[-+]?\d+([.,]\d+)?", value) for value in others)
    return grouped if plain and any(re.search(r"[,.'’\u00a0\u202f ]", value) for value in grouped) else []


def ungrouped(grouped: Sequence[str]) -> str:
    """What to do about numbers with separated thousands, by some of them, in words."""
    found = {match[1] for value in grouped if (match := GROUPED_NUMBER.fullmatch(value))}
    signs = " and ".join(repr(sign) for sign in sorted(found))
    comma = any(
        re.search(r",\d+$", value) and value.count(",") == 1 and "," not in found for value in grouped
    )
    rest = ", and read what is left with a decimal comma (--decimal ,)" if comma else ""
    return f"remove the separators {signs} in the file{rest}"


def is_number(value: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True


class Mixed(NamedTuple):
    """Different texts of a column that are numbers but for some.

    Attributes:
        numbers: How many are numbers.
        odd: The others, in order.
    """

    numbers: int
    odd: list[str]

    @property
    def marked(self) -> bool:
        """Whether all the others are what programs write for a missing number."""
        return all(value.lower() in MISSING_MARKS for value in self.odd)


def mixed(values: Sequence[str], few: int) -> Mixed | None:
    """The numbers and the other texts of a column that was meant to hold numbers; None where it was not.

    It was where marks of missing values are alone among numbers, or where the numbers are more than ``few`` and more
    than the others.

    Args:
        values: Different texts of the column, or many of them.
        few: How many different texts are few enough to be categories.
    """
    odd = sorted({value.strip() for value in values if not is_number(value)})
    found = Mixed(len({value.strip() for value in values} - set(odd)), odd)
    if not odd or found.numbers <= len(odd):
        return None
    return found if found.marked or found.numbers > few else None


def null_options(texts: Sequence[str]) -> str:
    """The options that mark texts as null, to be pasted."""
    return " ".join(f"--null {shlex.quote(text)}" for text in texts)


def count_records(path: Path, *, quote: str, blank_lines: bool) -> int:
    """How many records a UTF-8 file holds, told by its line ends outside quotes alone.

    Args:
        path: The file.
        quote: The quote, one ASCII character, or nothing.
        blank_lines: Whether blank lines are records (of one empty field).
    """
    records, inside, last, returned = 0, np.uint8(0), NEWLINE, False
    with opened(path) as stream:
        while chunk := stream.read(CHUNK):
            if returned and chunk[:1] == b"\n":  # the second half of a line end that a chunk cut in two
                chunk = chunk[1:]
            returned = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            letters = np.frombuffer(chunk, dtype=np.uint8)
            ends = letters == NEWLINE
            if quote and (inside or quote.encode() in chunk):
                # A doubled quote leaves the quotes and enters them again: the parity is what counts.
                within = np.bitwise_xor.accumulate((letters == ord(quote)).view(np.uint8)) ^ inside
                inside = within[-1] if len(within) else inside
                ends = ends & (within == 0)
            if not blank_lines:
                before = np.concatenate([np.array([last], dtype=np.uint8), letters[:-1]])
                ends = ends & (before != NEWLINE)
            records += int(ends.sum())
            last = int(letters[-1]) if len(letters) else last
    return records + (last != NEWLINE)


def count_with_reader(path: Path, delimiter: str, options: ReadOptions, *, blank_lines: bool) -> int:
    """As :func:`count_records`, by a reader that knows where a quote may open: slower, and right for lone quotes."""
    with opened(path) as stream:
        raw: Any = _Buffered(stream)
        lines = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
        try:
            return sum(bool(record) or blank_lines for record in _reader(lines, delimiter, options))
        except csv.Error as error:
            raise InvalidInputError(f"{path.name!r} cannot be read: {one_line(error)}") from error


class _Buffered(io.BufferedIOBase):
    """Just enough of a stream for a text wrapper."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def read1(self, size: int | None = -1, /) -> bytes:
        return bytes(self.stream.read(CHUNK if size is None or size < 0 else size))

    read = read1
