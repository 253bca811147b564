"""What is wrong with columns as they are, and what to do about all of them at once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from privfunnel.data.engines.bins import Bins, Cut, Top
from privfunnel.data.engines.calendar import Part
from privfunnel.data.engines.categories import Column
from privfunnel.data.engines.dialect import (
    MISSING_MARKS,
    Mixed,
    decimal_commas,
    grouped_numbers,
    is_number,
    mixed,
    null_options,
    ungrouped,
)
from privfunnel.data.engines.source import EXAMPLE_VALUES, Source
from privfunnel.data.engines.texts import clip
from privfunnel.errors import InvalidInputError, UnbinnedError

MEASURED = frozenset({"integer", "number", "date", "datetime"})
MANY_TEXTS = 100  # different texts from which grouping them is offered, where other columns need bins
#: Shares of different values from which a column tells rows apart, and of a range from which it is a numbering.
NEARLY_ALL = 0.9
FEWEST = 100  # different values below which nothing is taken for an identifier
FIRST_ROWS = 20  # rows above whose first number a header may have ended up
MOST_NULLS = 3  # texts that are offered as nulls at once
_IDENTIFIER = re.compile(r"(?i:(?:.*[_\W])?(?:id|uuid|guid|pid|ssn)|id[_\W].*|.*identifier)|.*[a-z](?:ID|Id)")


class Unbinned(NamedTuple):
    """A column that has too many values: its name, its kind and how many."""

    name: str
    kind: str
    values: int

    def __str__(self) -> str:
        """``'age' is a number with 74 different values``."""
        if self.kind in {"date", "datetime"}:
            return f"{self.name!r} holds {self.values} different dates"
        what = "is a number with" if self.kind in MEASURED else "is text with"
        return f"{self.name!r} {what} {self.values} different values"


def suggested(column: Unbinned) -> str:
    """A rule that fits the kind of a column."""
    if column.kind in {"date", "datetime"}:
        return "year"
    return "quantiles:5" if column.kind in MEASURED else "top:10"


def unbinned_error(
    unfit: Sequence[Unbinned],
    limit: int,
    offered: Sequence[Unbinned] = (),
    rules: Mapping[str, str] | None = None,
) -> UnbinnedError:
    """One line about every column that needs bins, with options that can be pasted.

    Args:
        unfit: The columns.
        limit: How many values would be fine.
        offered: Others for which bins may be a good idea.
        rules: Suggestions that differ from the usual ones, by column.
    """
    bins = {each.name: (rules or {}).get(each.name, suggested(each)) for each in (*unfit, *offered)}
    more = f" (more than {limit})" if all(each.kind in MEASURED for each in unfit) else ""
    if len(unfit) == 1:
        told = f"column {unfit[0]}{more}: bin it"
    else:
        told = f"{len(unfit)} columns need bins{more}: {'; '.join(map(str, unfit))}: bin them"
    pasted = " ".join(f"--bin {shlex.quote(f'{name}={rule}')}" for name, rule in bins.items())
    listed = ", ".join(f"{name!r}: {rule!r}" for name, rule in bins.items())
    return UnbinnedError(f"{told}, e.g. {pasted} or bins={{{listed}}}, or drop what is not needed", bins)


def peek(
    table: Source,
    names: Sequence[str],
    free: Sequence[str],
    *,
    rows: int,
    max_levels: int,
    max_cells: int,
    as_text: Iterable[str] = (),
    above: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, int]:
    """Look at the first rows, and refuse hopeless columns before the engine groups a billion of them.

    Args:
        table: The table.
        names: Columns to look at.
        free: Those of them without bins.
        rows: How many rows are the first.
        max_levels: Most different values of a number.
        max_cells: Most combinations.
        as_text: Columns that were asked for as text.
        above: What :func:`above_numbers` found.

    Returns:
        Different values among the first rows, by column.

    Raises:
        UnbinnedError: Columns have too many values.
        InvalidInputError: Texts were meant as numbers.
    """
    peeked = table.peek(names, rows)
    unfit, offered = [], []
    for name in free:
        kind, found = table.kinds[name], peeked[name]
        many = found > rows // 2 or found > max_cells
        if many or (kind in MEASURED and found > max_levels + 1):  # one of them may be null
            unfit.append(Unbinned(name, kind, table.n_unique(name)))
        elif kind == "text" and found > MANY_TEXTS:
            offered.append(Unbinned(name, kind, found))
    if unfit:
        # Texts that were meant as numbers would get the wrong bins.
        for column in (*unfit, *offered):
            if column.kind == "text" and column.name not in as_text:
                values = [str(v) for v in table.some_values(column.name, EXAMPLE_VALUES) if v is not None]
                _refuse_number_texts(column.name, values, max_levels, (above or {}).get(column.name, ()))
        raise unbinned_error(unfit, max_levels, offered)
    return peeked


def above_numbers(table: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """The texts that stand above the first number of columns of a file, among its first rows.

    So does a header where a line above it was taken for the names of the columns.
    """
    texts = [name for name in names if table.kinds[name] == "text"]
    if table.read is None or not texts:
        return {}
    batch = next(iter(table.batches(texts, FIRST_ROWS)), None)
    found = {}
    for j, name in enumerate(texts):
        values = [] if batch is None else batch.column(j).slice(0, FIRST_ROWS).to_pylist()
        numbers = [i for i, value in enumerate(values) if value is not None and is_number(value)]
        found[name] = [value.strip() for value in values[: min(numbers, default=0)] if value is not None]
    return found


class Odd(NamedTuple):
    """What is odd about a column of texts that was meant to hold numbers.

    Attributes:
        words: It, as a part of a sentence: ``73 numbers and 'NA'``.
        nulls: The texts that may be marked as null; none where there are many, or where one looks like a header.
    """

    words: str
    nulls: tuple[str, ...]


def odd_texts(table: Source, names: Sequence[str], few: int) -> dict[str, Odd]:
    """Columns of texts that a count would refuse or warn of, since they are numbers but for some.

    Args:
        table: The table.
        names: Columns to look at.
        few: How many different texts are few enough to be categories.
    """
    above = above_numbers(table, names)
    found = {}
    for name in above:
        texts = [str(value) for value in table.some_values(name, EXAMPLE_VALUES) if value is not None]
        if odd := mixed(texts, few):
            fine = len(odd.odd) <= MOST_NULLS and not _heading([*above[name], name], odd)
            words = f"{odd.numbers} numbers and {_in_words(odd.odd)}"
            found[name] = Odd(words, tuple(odd.odd) if fine else ())
    return found


def _heading(above: Sequence[str], found: Mixed) -> list[str]:
    """The odd texts above the first number of a column; marks of missing values are no header."""
    return [text for text in above if text in found.odd and text.lower() not in MISSING_MARKS]


def check_levels(
    columns: Iterable[Column], limit: int, as_text: Iterable[str], above: Mapping[str, Sequence[str]]
) -> list[str]:
    """Refuse columns of many numbers or dates, and texts that are meant as numbers.

    Args:
        columns: The columns as they were counted.
        limit: Most different values of a number or date, and of one of their parts.
        as_text: Columns that were asked for as text.
        above: What :func:`above_numbers` found.

    Returns:
        What to say about columns whose few texts are numbers but for marks of missing values.

    Raises:
        InvalidInputError: Some are unfit.
    """
    unfit, offered, rules, told = [], [], {}, []
    forced = set(as_text)
    for column in columns:
        present = [value for value in column.values if value is not None]
        kind = column.kind
        if isinstance(column.bins, Part):
            if len(present) > limit:
                unfit.append(Unbinned(column.name, "integer", len(present)))
                rules[column.name] = f"{column.bins.rule}:quantiles:5" if column.bins.numeric else "year"
        elif column.bins is None and kind in MEASURED and len(present) > limit:
            unfit.append(Unbinned(column.name, kind, len(present)))
        elif column.bins is None and kind == "text" and column.name not in forced:
            values = [str(value) for value in present]
            _refuse_number_texts(column.name, values, limit, above.get(column.name, ()))
            if found := mixed(values, limit):
                told.append(
                    f"column {column.name!r} is text, since it holds {_in_words(found.odd)} among its numbers: if that "
                    f"means missing, say so ({null_options(found.odd)})"
                )
            if len(present) > MANY_TEXTS:
                offered.append(Unbinned(column.name, kind, len(present)))
    if unfit:
        raise unbinned_error(unfit, limit, offered, rules)
    return told


def _in_words(texts: Sequence[str]) -> str:
    """Texts in quotes; of many, the first ones."""
    more = f" and {len(texts) - MOST_NULLS} other texts" if len(texts) > MOST_NULLS else ""
    return ", ".join(repr(clip(text)) for text in texts[:MOST_NULLS]) + more


def _refuse_number_texts(name: str, present: Sequence[str], limit: int, above: Sequence[str]) -> None:
    """Refuse texts that are numbers but for their decimal sign, their thousands or a few values.

    Args:
        name: The column.
        present: Its different texts, or many of them.
        limit: How many different texts are few enough to be values.
        above: Texts that stand above the first number.

    Raises:
        InvalidInputError: They are; the message says how to read them.
    """
    if len(present) <= limit:
        return
    stripped = [value.strip() for value in present]
    if decimal_commas(stripped):
        raise InvalidInputError(
            f"column {name!r} holds numbers with a decimal comma, such as {stripped[0]!r}: read them as such "
            f"(--decimal ,), or as text (--type {shlex.quote(f'{name}=text')})"
        )
    grouped = grouped_numbers(stripped)
    odd = sorted(value for value in stripped if not is_number(value))
    if grouped and odd:
        raise InvalidInputError(
            f"column {name!r} holds numbers with separated thousands, such as {grouped[0]!r}: {ungrouped(grouped)}; "
            f"or read the column as text (--type {shlex.quote(f'{name}=text')})"
        )
    if found := mixed(stripped, limit):
        told = f"column {name!r} mixes types, {found.numbers} numbers and {len(found.odd)} texts such as"
        as_text = f"read it as text (--type {shlex.quote(f'{name}=text')})"
        if name.strip() in found.odd:
            raise InvalidInputError(
                f"{told} {name.strip()!r}, its own name: the header stands among the rows, too, as where files were "
                f"joined; leave these lines out of the file, or {as_text}"
            )
        if heading := _heading(above, found):  # to be nulled it would have to be a value
            raise InvalidInputError(
                f"{told} {heading[0]!r}, which stands above the numbers: if it is the header, leave out the lines "
                f"above it (--skip-rows), else repair it, or {as_text}"
            )
        raise InvalidInputError(
            f"{told} {found.odd[0]!r}: mark them as null ({null_options(found.odd[:MOST_NULLS])}), or {as_text}"
        )


def looks_like_identifier(name: str) -> bool:
    """Whether a column is called like an identifier: ``id``, ``patient_id``, ``caseID``."""
    return _IDENTIFIER.fullmatch(name.strip()) is not None


def identifier_warnings(
    table: Source,
    peeked: Mapping[str, int],
    used: Sequence[str],
    rows: int,
    looked_at: int,
    person: str | None = None,
) -> list[str]:
    """What to say about columns that tell people apart.

    Args:
        table: The table.
        peeked: Different values of columns among the first rows.
        used: Columns that are private or public.
        rows: Rows of the table.
        looked_at: How many of them were the first.
        person: The column that says who a row is about, if that was told: then only columns in use are spoken of.
    """
    told = []
    for name, found in peeked.items():
        kind = table.kinds[name]
        called = looks_like_identifier(name)
        if kind not in {"integer", "text"} or found <= min(FEWEST, looked_at // 2) or looked_at < FEWEST:
            continue
        nearly_unique = found >= NEARLY_ALL * looked_at
        numbering = kind == "text" or called or (nearly_unique and _dense(table, name))
        if not numbering or not (called or (nearly_unique and name in used)):
            continue
        if person is not None and name not in used:
            continue
        values = table.n_unique(name)
        if person is not None:
            told.append(
                f"column {name!r} ({values} values in {rows} rows) tells people apart as {person!r} does: leave it out"
            )
        elif values >= NEARLY_ALL * rows:
            if name in used:
                told.append(
                    f"column {name!r} differs in nearly every row ({values} values in {rows} rows) and tells people "
                    f"apart: leave it out, or say that it is who a row is about (--person {shlex.quote(name)})"
                )
        elif called:
            told.append(
                f"column {name!r} has {values} values in {rows} rows, as if people had several rows each: if it is who "
                f"a row is about, say so (--person {shlex.quote(name)}), since an attacker may add their rows up"
            )
    return told


def _dense(table: Source, name: str) -> bool:
    """Whether whole numbers fill most of their range, as a numbering does."""
    low, high, _ = table.extremes(name)
    return low is not None and high is not None and table.n_unique(name) >= NEARLY_ALL * (high - low + 1)


def too_many_cells(table: Source, resolved: Mapping[str, Bins | None], limit: int) -> InvalidInputError:
    """What to do where more combinations occur than can be brought back."""
    found = {name: table.n_unique(name) for name, bins in resolved.items() if bins is None}
    found |= {name: bins.size for name, bins in resolved.items() if isinstance(bins, Cut)}
    found |= {name: len(bins.kept) + 1 for name, bins in resolved.items() if isinstance(bins, Top)}
    worst = max(found, key=lambda name: found[name])
    return InvalidInputError(
        f"more than {limit} combinations occur: column {worst!r} with {found[worst]} values causes most of them; "
        f"bin it, group its rare values (bins={{{worst!r}: 'top:10'}}) or drop it"
    )
