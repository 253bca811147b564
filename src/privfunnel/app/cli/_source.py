"""From SOURCE on the command line to a problem."""

from __future__ import annotations

import contextlib
import csv
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfunnel.app.cli._screen import say
from privfunnel.errors import InvalidInputError, SmallSampleWarning
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.data.engines import ReadOptions
    from privfunnel.data.tables import Counts
    from privfunnel.model.problem import Problem


@dataclass(frozen=True)
class NamedProblem:
    """What the user named: the problem, and the counts behind it where it is a table of records."""

    problem: Problem
    counts: Counts | None = None

    @property
    def given(self) -> Problem | Counts:
        """The counts, which know more about their columns, or else the problem."""
        return self.problem if self.counts is None else self.counts

    @property
    def pieces(self) -> int | None:
        """How many independent pieces of evidence the rows are, where a column says which go together."""
        return None if self.counts is None else self.counts.pieces

    @property
    def described(self) -> Document:
        """What a report is told of the table besides the problem: its columns, and how many people it is about."""
        from privfunnel.report import Axis

        if self.counts is None:
            return {}
        axes = {"private": Axis.of(self.counts.s_alphabet), "public": Axis.of(self.counts.x_alphabet)}
        return {**axes, "persons": self.counts.persons}

    @property
    def kind(self) -> str:
        """What these are: rows, persons or clusters."""
        if self.counts is None or self.counts.pieces is None:
            return "rows"
        return "persons" if self.counts.clusters is None else "clusters"


def load_source(source: str, **reading: Any) -> Problem:
    """The problem alone of :func:`open_source`, for commands that know no task."""
    if reading.get("task"):
        raise InvalidInputError(
            f"--task {', '.join(reading['task'])} is for solve, curve and verify: leave it out here; what dropping or "
            "coarsening columns would leak for a task is said by solve --task"
        )
    return open_source(source, **reading).problem


@contextlib.contextmanager
def taken_as(view: str | None) -> Iterator[None]:
    """Where a table was said to be everybody, few rows are no warning: what is counted is what there is."""
    with warnings.catch_warnings():
        if view == "register":
            warnings.simplefilter("ignore", SmallSampleWarning)
        yield


def open_source(
    source: str,
    *,
    private: Sequence[str] = (),
    public: Sequence[str] = (),
    bins: Mapping[str, Any] | None = None,
    missing: str | None = None,
    **text: Any,
) -> NamedProblem:
    """Make a problem of what the user named.

    Args:
        source: An instance's name, as :func:`packaged` reads it, or a path: a joint table as CSV, a problem saved as
            JSON (by itself or in a solution.json), or, with ``private`` and ``public``, any table of records that
            :func:`privfunnel.data.tables.count` reads.
        private: Columns that are private.
        public: Columns that may be published.
        bins: Column to binning rule, as :func:`privfunnel.data.tables.count` takes it.
        missing: What to do with rows that lack a value, as :func:`privfunnel.data.tables.count` takes it.
        **text: How to read a text file of records, as :func:`read_options` takes it; ``person``, ``cluster`` and
            ``weights``, columns that say what a row is; ``task``, columns that the release is for, of an instance its
            own; ``classes``, score classes; and ``units``, the unit of what is said about few rows, ``"nats"`` by
            default.

    Raises:
        InvalidInputError: It cannot be found, read or used.
    """
    from privfunnel.data import instances
    from privfunnel.data.engines.texts import clip

    units = text.pop("units", "nats")
    rows = {name: text.pop(name, None) for name in ("person", "cluster", "weights", "task", "classes")}
    records = {
        "--private": private,
        "--public": public,
        "--bin": bins,
        "--missing": missing,
        **{f"--{name}": column for name, column in rows.items()},
    } | {
        {"nulls": "--null", "types": "--type"}.get(name, f"--{name}".replace("_", "-")): value
        for name, value in text.items()
    }
    of_records = [option for option, value in records.items() if value]
    name = re.split("[:+]", source)[0]
    if name in instances.names() and not _exists(source):
        if rows["task"] == {instances.describe(name).task: 1.0}:
            of_records.remove("--task")
        if of_records:
            raise InvalidInputError(
                f"{source!r} is a packaged table with its columns chosen: leave {', '.join(of_records)} out"
            )
        return NamedProblem(packaged(source))
    if private or public:
        roles = {"private": private, "public": public, "bins": bins, "missing": missing or "category"}
        return _counted(source, {**roles, **rows}, text, units)
    if of_records:
        raise InvalidInputError(
            f"{of_records[0]} is for tables of records: name their columns with --private and --public"
        )
    path = Path(source)
    if not source or not _exists(source):
        close = get_close_matches(source, instances.names(), n=1)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else f"check the path, or use {', '.join(instances.names())}"
        )
        raise InvalidInputError(
            f"cannot read {clip(source, 120)!r}: there is no such file or packaged table; {hint}"
        )
    if not path.is_file():
        raise InvalidInputError(f"cannot read {clip(source, 120)!r}, a folder, pipe or device: give a file")
    return NamedProblem(_load_problem(path) if path.suffix.lower() == ".json" else read_joint(path))


def _counted(source: str, asked: Document, text: Document, units: str) -> NamedProblem:
    """The problem of a table of records.

    Args:
        source: The file.
        asked: The roles of its columns, as :func:`privfunnel.data.tables.count` takes them.
        text: How to read it, as :func:`read_options` takes it.
        units: The unit of what is said about few rows.

    Raises:
        InvalidInputError: It cannot be read, or counted so.
    """
    from privfunnel.data import tables
    from privfunnel.data.engines.readers import is_workbook
    from privfunnel.model.amounts import spoken_in

    if text.get("sheet") is not None and not is_workbook(source):
        raise InvalidInputError(f"{source!r} is no workbook (.xlsx, .xls, .ods): leave --sheet out")
    with spoken_in(units):
        counts = tables.count(source, **asked, read=read_options(**text))
    tell_rows(counts)
    return NamedProblem(counts.problem(), counts)


def _load_problem(path: Path) -> Problem:
    """A problem saved as JSON, by itself or in a solution."""
    from privfunnel.infra.storage import read_json
    from privfunnel.model.problem import Problem
    from privfunnel.solving.solution import Solution

    found = read_json(path)
    if (
        isinstance(found, dict)
        and found.get("schema") == Solution.schema
        and isinstance(found.get("problem"), dict)
    ):
        found = found["problem"]
    return Problem.from_dict(found)


def tell_rows(counts: Counts) -> None:
    """Say on stderr how many rows were left out, what weighted ones are worth, and what score classes there are."""
    if counts.weights is not None:
        # Fewer than the design effect leaves, where heavy rows stand for more people than there are rows of them.
        few = ", and no share of the people counts for more rows than it has"
        fewer = counts.n + 1.0 < counts.n_rows / counts.design_effect
        say(
            f"Weighted by {counts.weights!r}, {counts.n_rows:,} rows are worth {counts.n:,} equal ones "
            f"(design effect {counts.design_effect:.2f}{few if fewer else ''}).",
            err=True,
        )
    if counts.scores is not None:
        say(f"{counts.scores.words}.", err=True)
    if counts.dropped:
        # Rows of weight 0 were not counted, so that with weights the number of all rows is not known.
        of = f" of {counts.n_rows + counts.dropped:,}" if counts.weights is None else ""
        say(f"{counts.dropped:,}{of} rows have missing values and are left out.", err=True)


def _exists(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_options(
    *,
    columns: Sequence[str] = (),
    nulls: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    **said: str | int | None,
) -> ReadOptions:
    """How to read a file, from the options of ``text_file_options``.

    Args:
        columns: Names of the columns of a table without a header.
        nulls: Texts that mean null.
        types: Column to type, where the guess is wrong.
        **said: Delimiter, decimal sign, encoding, quote, escape, sheet, order of dates and rows above the
            header; None where nothing was said.
    """
    from privfunnel.data.engines import ReadOptions

    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return ReadOptions(columns=tuple(columns), nulls=tuple(nulls), types=types or {}, **given)


def packaged(source: str) -> Problem:
    """A packaged table by its name, with what is added to its entries and the age bands that the name says.

    ``NAME+1e-3`` adds that to every probability, ``NAME+1e-3rows`` to every count; ``census-income:2`` has two age
    bands, ``census-income:17-40,41-90`` these.

    Raises:
        InvalidInputError: There is no such table, or the rest of its name cannot be read.
    """
    from privfunnel.data import instances

    name, _, added = source.partition("+")
    name, _, bands = name.partition(":")
    asked: Document = {"bands": _bands(bands)} if ":" in source else {}
    if "+" in source:
        kind = "counts" if added.endswith("rows") else "probabilities"
        try:
            asked |= {"perturbation": kind, "amount": float(added.removesuffix("rows"))}
        except ValueError:
            raise InvalidInputError(
                f"{added!r} in {source!r} cannot be added to a table: write {name}+1e-3 for that much more of every "
                f"probability, {name}+1e-3rows of every count"
            ) from None
    return instances.load(name, **asked)


def _bands(text: str) -> int | list[tuple[int, int]]:
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    pairs = [re.fullmatch(r"\s*(\d{1,9})\s*[-–]\s*(\d{1,9})\s*", part) for part in text.split(",")]
    if not all(pairs):
        raise InvalidInputError(
            f"age bands {text[:40]!r} cannot be read: give a number such as 5, or bands such as 17-40,41-90"
        )
    return [(int(pair[1]), int(pair[2])) for pair in pairs if pair]


def read_joint(path: Path) -> Problem:
    """Read a joint table: rows S, columns X; labels of X in the header, labels of S in the first column.

    Numbers are probabilities, counts or weights. Comma, semicolon and tab are recognised as separators.
    """
    from privfunnel.infra.storage import read_bytes
    from privfunnel.model.problem import Problem

    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"{str(path)!r} is no joint table in UTF-8: for a table of records, whose encoding is found out, name its "
            "columns with --private and --public; save a joint table as CSV in UTF-8"
        ) from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = [
        row for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(cell.strip() for cell in row)
    ]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise InvalidInputError(
            f"{str(path)!r} holds no joint table: give a header with the labels of X and one row a private symbol"
        )
    header, body = [cell.strip() for cell in rows[0]], rows[1:]
    for i, row in enumerate(body):
        if len(row) != len(header):
            raise InvalidInputError(
                f"{str(path)!r}, row {i + 1} has {len(row)} cells for {len(header)} in the header: "
                "each row is a label and one number for each label of X"
            )
    s_labels = [row[0].strip() for row in body]
    if _numbers_not_labels(s_labels):
        raise InvalidInputError(
            f"{str(path)!r}: the first column ({', '.join(s_labels[:3])}, …) holds numbers where the labels of S "
            "belong: put a label in front of each row, or for a table of records name its columns with --private "
            "and --public"
        )
    table = [
        [_number(path, i, header[j + 1], cell) for j, cell in enumerate(row[1:])]
        for i, row in enumerate(body)
    ]
    try:
        return Problem(table, s_labels, header[1:])
    except InvalidInputError as error:
        raise InvalidInputError(f"{str(path)!r}: {error}") from None


def _numbers_not_labels(labels: list[str]) -> bool:
    """True for a first column of numbers that are not a plain numbering: a table that was given without labels."""
    try:
        values = [float(label) for label in labels]
    except ValueError:
        return False
    return values != [values[0] + i for i in range(len(values))] or values[0] != int(values[0])


def _number(path: Path, row: int, column: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InvalidInputError(
            f"{str(path)!r}, row {row + 1}, column {column!r}: {cell.strip()!r} is not a number; "
            "for a table of records name its columns with --private and --public"
        ) from None
