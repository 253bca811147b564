"""From a table to a funnel problem: labelled counts of the private and public categories that occur.

The group-by runs in the table's own engine; only the counts come into Python. A symbol of S is a combination of private
categories, a symbol of X one of public categories; combinations that never occur are never built.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from privfunnel.data.engines import Alphabet, Bins, Column, Cut, ReadOptions, Source, Value, open_table
from privfunnel.data.engines import bins as binning
from privfunnel.data.engines.advice import (
    MEASURED,
    above_numbers,
    check_levels,
    identifier_warnings,
    looks_like_identifier,
    peek,
    too_many_cells,
)
from privfunnel.data.engines.alphabet import TwoAlphabets, distinct
from privfunnel.data.engines.categories import Codes
from privfunnel.data.engines.coding import bin_means, encode, of_dates, summed, symbols_of
from privfunnel.data.engines.rows import MISSING as MISSING
from privfunnel.data.engines.rows import check_weights, clusters_in, persons_in, without_missing
from privfunnel.data.engines.source import Grouped
from privfunnel.data.evidence import Evidence
from privfunnel.data.population.views import small_sample
from privfunnel.data.score_classes import ScoreClasses, parse_classes, score_classes
from privfunnel.data.sizes import Size as Size
from privfunnel.data.sizes import size_of
from privfunnel.data.task_tables import TaskCounts, as_tasks, task_counts, task_weights
from privfunnel.errors import IdentifierWarning, InvalidInputError, ReadingWarning, SmallSampleWarning
from privfunnel.infra import cards
from privfunnel.measures import Array, mutual_information
from privfunnel.model.amounts import asked_unit
from privfunnel.model.problem import Problem

MAX_LEVELS = 32  # a number with more different values must be binned
MAX_CELLS = 4_000_000  # most combinations that are brought back from an engine
MAX_MEMORY = 4 * 2**30  # bytes that solving may be estimated to need
PEEK_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class Counts(TwoAlphabets, Evidence):
    """How often each combination of private and public categories occurs.

    Attributes:
        s_alphabet: The K symbols of S that occur, combinations of private categories, the columns in the order given.
        x_alphabet: The M symbols of X, combinations of public categories.
        cell_s: Symbol of S of each occurring cell, ``cell_x`` its symbol of X, ``cell_n`` its number of rows.
        read: How the file was read; None for tables that describe themselves.
        person: The column that says who a row is about, if one was named, and ``persons`` how many there are.
        cluster: The column that says which rows were sampled together, likewise, and ``clusters`` how many there are.
        epsilon: ε of the noise in the counts, see :mod:`privfunnel.data.noise`; None where they are exact.
        part_of: Fingerprint of the counts that these are a part of, where rows were held out.
        missing: What was done with rows that lack a private or public value, one of ``MISSING``.
        dropped: How many rows were left out for that.
        weights: The column that says how many people each row stands for, if one was named, and ``cell_weight`` what
            the weights of each cell add up to, ``squares`` their squares in all.
        tasks: The columns that the release is for, with their counts.
        scores: Classes of public symbols, where p(s|x) is taken from them instead of counted for each symbol.
    """

    s_alphabet: Alphabet
    x_alphabet: Alphabet
    cell_s: NDArray[np.int64]
    cell_x: NDArray[np.int64]
    cell_n: NDArray[np.int64]
    read: ReadOptions | None = None
    person: str | None = None
    persons: int | None = None
    epsilon: float | None = None
    part_of: str | None = None
    missing: str = "category"
    dropped: int = 0
    weights: str | None = None
    cell_weight: Array | None = None
    squares: float | None = None
    tasks: tuple[TaskCounts, ...] = ()
    cluster: str | None = None
    clusters: int | None = None
    scores: ScoreClasses | None = None

    @property
    def cell_share(self) -> Array:
        """What each cell counts, in rows: Σ is ``n``."""
        if self.cell_weight is None:
            return self.cell_n.astype(np.float64)
        return np.asarray(self.cell_weight * (self.n / float(self.cell_weight.sum())))

    @property
    def n_s(self) -> int:
        """K, the number of private symbols that occur."""
        return len(self.s_alphabet)

    @property
    def n_x(self) -> int:
        """M, the number of public symbols that occur."""
        return len(self.x_alphabet)

    @property
    def s_values(self) -> list[tuple[Value, ...]]:
        """The private values of each symbol of S, in the order of ``s_labels``."""
        return self.s_alphabet.values

    @property
    def x_values(self) -> list[tuple[Value, ...]]:
        """The public values of each symbol of X, in the order of ``x_labels``."""
        return self.x_alphabet.values

    @property
    def columns(self) -> dict[str, Column]:
        """All columns by name; one in both roles appears once."""
        return {column.name: column for column in (*self.private, *self.public)}

    @property
    def bins(self) -> dict[str, Bins]:
        """The recorded bins by column name: pass them to :func:`count` to cut other data the same way."""
        found = self.s_alphabet.bins | self.x_alphabet.bins
        for task in self.tasks:
            found |= task.alphabet.bins
        return found

    @cached_property
    def size(self) -> Size:
        """What the default solver would take, to an order of magnitude."""
        return size_of(self.table())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of columns, categories and counts: the same table gives the same one in any engine and row order."""
        head = {
            role: [
                {key: value for key, value in column.to_dict().items() if key not in {"means", "persons"}}
                for column in columns
            ]
            for role, columns in (("private", self.private), ("public", self.public))
        }
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        # Symbols in the order of their codes, whatever order they are in here.
        (s_codes, s_place), (x_codes, x_place) = distinct(self.s_codes), distinct(self.x_codes)
        cell_s, cell_x = s_place[self.cell_s], x_place[self.cell_x]
        cells = np.lexsort((cell_x, cell_s))
        for array in (s_codes, x_codes, cell_s[cells], cell_x[cells], self.cell_n[cells]):
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        if self.cell_weight is not None:
            weight = self.cell_weight[cells]
            # Engines add in different orders; 1/π keeps shares such as 1/512 away from where rounding turns.
            share = np.floor(weight / self.cell_weight.sum() * 1e8 + 1.0 / math.pi)
            digest.update(str(self.weights).encode() + share.astype("<i8").tobytes())
        return digest.hexdigest()

    def _repr_html_(self) -> str:
        """What a notebook shows: the columns with their roles, and the sizes."""
        rows = [
            (column.name, role, column.kind, str(column.n_values))
            for role, columns in (("private", self.private), ("public", self.public))
            for column in columns
        ]
        rows += [
            (task.name, "task", task.alphabet.columns[0].kind, str(len(task.alphabet))) for task in self.tasks
        ]
        title = f"{self.n_rows:,} rows in {self.n_s} private × {self.n_x} public symbols"
        return cards.grid(title, ("column", "role", "kind", "categories"), rows)

    def table(self) -> NDArray[np.float64]:
        """The counts as a dense (K, M) array; with weights, theirs, scaled to add up to ``n``.

        With score classes the rows of each public symbol are divided among the private ones as those of its class are.
        """
        if self.scores is not None:
            return self.scores.smoothed(
                np.bincount(self.cell_x, self.cell_share, self.n_x).astype(np.float64)
            )
        dense = np.zeros((self.n_s, self.n_x))
        dense[self.cell_s, self.cell_x] = self.cell_share
        return dense

    def scored(self, classes: str, seed: int = 0) -> Counts:
        """The same rows with score classes, see :mod:`privfunnel.data.score_classes`.

        Args:
            classes: ``"score:16"`` for about 16 of them.
            seed: Fixes the classes.

        Raises:
            InvalidInputError: The classes cannot be made, or the counts have tasks.
            MissingExtraError: scikit-learn is not installed.
        """
        size, plain = parse_classes(classes), replace(self, scores=None)
        if size > self.n_rows:
            raise InvalidInputError(
                f"{self.n_rows} rows cannot fill {size} classes: ask for fewer, e.g. score:2"
            )
        if self.tasks:
            raise InvalidInputError(
                "score classes hide the private columns and know nothing of a task: leave out the task or the classes"
            )
        return replace(plain, scores=score_classes(self.x_alphabet, plain.table(), size, seed))

    def problem(self, *, max_memory: float = MAX_MEMORY) -> Problem:
        """The funnel problem of these counts.

        Args:
            max_memory: Bytes that solving may be estimated to need.

        Raises:
            InvalidInputError: It would need more; the message names the column to bin, drop or group.
        """
        size = self.size
        # With a task the funnel is solved on cells of symbols, whose number does not grow with the table.
        if size.memory > max_memory and not self.tasks:
            worst = self.largest_factor()
            raise InvalidInputError(
                f"the problem is too large to solve ({size}): column {worst.name!r} with {worst.n_values} values "
                f"causes most of it; {_remedy(worst)}, drop it, or raise the limit on memory"
            )
        n = None if self.weights is None and self.scores is None else float(self.n)
        columns: dict[str, Any] = {
            "public_columns": self.x_alphabet.column_labels,
            "private_columns": self.s_alphabet.column_labels,
        }
        tasks = as_tasks(self.tasks)
        return Problem(self.table(), self.s_labels, self.x_labels, n=n, **columns, **tasks)

    def largest_factor(self) -> Column:
        """The public column without which X would have the fewest symbols."""
        return self.x_alphabet.largest_factor()


def _remedy(column: Column) -> str:
    if column.kind in {"integer", "number"}:
        return f"bin it (bins={{{column.name!r}: 'quantiles:5'}})"
    if column.kind in MEASURED:
        return f"bin it (bins={{{column.name!r}: 'year'}})"
    return f"group its rare values (bins={{{column.name!r}: 'top:10'}})"


class More(TypedDict, total=False):
    """Further keywords of :func:`count`."""

    cluster: str | None
    max_levels: int
    max_cells: int
    classes: str | None
    seed: int


def count(
    source: object,
    *,
    private: str | Iterable[str],
    public: str | Iterable[str],
    bins: Mapping[str, Any] | None = None,
    read: ReadOptions | None = None,
    person: str | None = None,
    missing: str = "category",
    weights: str | None = None,
    task: str | Iterable[str] | Mapping[str, float] | None = None,
    **more: Unpack[More],
) -> Counts:
    """Count a table by its private and public columns, in the table's own engine.

    Args:
        source: A path (CSV, Excel, Parquet, JSON lines, Arrow), ``"FILE.duckdb::TABLE"``, or a frame of any engine
            narwhals knows (pandas, Polars, PyArrow, DuckDB relation, PySpark, Dask …).
        private: Names of the private columns (S).
        public: Names of the public columns (X); a column may be in both.
        bins: Column name to a number of bins of equal width (``"bins:5"``), ``"width:5"`` for bins 5 wide,
            ``"quantiles:4"``, ``"edges:0,18,65,inf"``, a list of edges, ``"top:10"`` for text, ``"year"``,
            ``"quarter"``, ``"month"``, ``"weekday"`` or
            ``"age@2020-01-01"`` for dates (years and ages may be cut further, ``"age@2020-01-01:width:10"``), or the
            ``bins`` of earlier counts.
        read: How to read a text file or a workbook: column names, delimiter, nulls, sheet …
        person: Column that says who a row is about, where people have several rows: what few have is counted in people
            then, and bins are cut by people, too.
        missing: What becomes of rows in which a private or public value is null or NaN: ``"category"`` takes that as a
            value of its own, ``"drop"`` leaves the rows out (``Counts.dropped`` says how many), ``"refuse"`` raises.
        weights: Column that says how many people each row stands for (survey weights): the problem is that of the
            people, and the rows are worth ``Counts.n`` equal ones. Rows of weight 0 do not count. Bins are cut by rows.
        task: Names of the columns that the release is for (U), each a task of its own; a mapping from names to weights
            where some count more than others. They are not released.
        **more: ``cluster``, the column that says which rows were sampled together, such as the household;
            ``max_levels``, the most different values of a number that is not binned; ``max_cells``, the most
            combinations to bring back from the engine; and ``classes``, ``"score:16"`` for 16 score classes where the
            table is too wide for its rows (:mod:`privfunnel.data.score_classes`), with their ``seed``.

    Returns:
        The labelled counts; where nulls (and NaN) are a category, it is apart from the texts ``""`` and ``"null"``.

    Raises:
        InvalidInputError: A column is missing, twice in a role or of no usable type; there are too many combinations;
            the table has no rows, or rows with missing values that are to be refused, or without a usable weight.
        UnbinnedError: Columns have too many values; the message names all of them, with bins that can be pasted.

    Warns:
        IdentifierWarning: A column tells people apart, or people seem to have several rows each.
        ReadingWarning: A file has lines above its header, or a column marks of missing values among numbers.
        SmallSampleWarning: The rows are few for the cells; the message states the expected bias of I(S;X), and how many
            outputs such rows can guarantee.
    """
    cluster, most = _more(more)
    classes = more.get("classes")
    if classes is not None:
        parse_classes(classes)
    roles = {"private": column_names(private, "private"), "public": column_names(public, "public")}
    tasks = task_weights(task)
    rules = {name: binning.parse(name, spec) for name, spec in (bins or {}).items()}
    names = list(dict.fromkeys([*roles["private"], *roles["public"], *tasks]))
    _check_roles(roles, tasks, rules)
    with open_table(source, read) as table:
        table.require(names)
        table, dropped = without_missing(table, names, missing)
        persons, clusters = persons_in(table, person, names), clusters_in(table, cluster, names)
        weighed, squares = check_weights(table, weights, [*names, *filter(None, (person, cluster))])
        called = [name for name in table.columns if name not in names and looks_like_identifier(name)]
        free = [name for name in names if name not in rules]
        as_text = () if read is None else read.types
        above = above_numbers(table, free)
        peeked = peek(table, [*names, *called], free, rows=PEEK_ROWS, **most, as_text=as_text, above=above)
        # What is rare is counted in persons where they are known, and so are ends, cut points and frequent values.
        asked = {name: table if person is None else table.each_once(person, name) for name in names}
        resolved = {name: asked[name].resolve(name, rules[name]) if name in rules else None for name in names}
        grouped = table.group(resolved, most["max_cells"], summed(asked, resolved) | weighed)
        if not grouped.counts:
            left = " without a missing value" if dropped else ""
            raise InvalidInputError(f"{table.name} has no rows{left}: there is nothing to count")
        if not grouped.complete:
            raise too_many_cells(table, resolved, most["max_cells"])
        n = sum(grouped.counts)
        undated = {name: found for name, found in peeked.items() if not of_dates(resolved.get(name))}
        told = identifier_warnings(table, undated, names, n, min(n, PEEK_ROWS), person)
        parts = {
            name: asked[name].part_means(name, bins)
            for name, bins in resolved.items()
            if isinstance(bins, Cut) and bins.part
        }
        people = {} if person is None else _people(table, person, roles, resolved, most["max_cells"])
        known = table.read
    rows = grouped.counts
    encoded = {name: encode(name, values, rows, resolved[name]) for name, values in grouped.columns.items()}
    sums_of = dict(grouped.sums)
    cell_weight = None if weights is None else np.array(sums_of.pop(weights), dtype=np.float64)
    for name, sums in sums_of.items():
        column, codes = encoded[name]
        encoded[name] = replace(column, means=bin_means(codes, rows, sums, column)), codes
    for name, means in parts.items():
        encoded[name] = replace(encoded[name][0], means=means), encoded[name][1]
    marked = check_levels((column for column, _ in encoded.values()), most["max_levels"], as_text, above)
    counts, x = _assemble(encoded, np.asarray(grouped.counts, dtype=np.int64), roles, cell_weight)
    counts = replace(_with_people(counts, people, resolved), weights=weights, squares=squares)
    counts = replace(counts, tasks=_task_counts(counts, encoded, x, rows, cell_weight, tasks))
    for words in told:
        warnings.warn(words, IdentifierWarning, stacklevel=2)
    for words in marked if known is not None else ():  # other tables say themselves what is missing
        warnings.warn(words, ReadingWarning, stacklevel=2)
    counts = replace(counts, read=known, missing=missing, dropped=dropped)
    counts = replace(counts, person=person, persons=persons, cluster=cluster, clusters=clusters)
    if classes is not None:
        counts = counts.scored(classes, more.get("seed", 0))
    _warn_if_small(counts)
    return counts


def problem_of(given: Problem | Counts) -> Problem:
    """The problem, or the problem of counts.

    Raises:
        InvalidInputError: It is neither.
    """
    if isinstance(given, Problem):
        return given
    if isinstance(given, Counts):
        return given.problem()
    raise InvalidInputError(
        f"a {type(given).__name__} is no problem: give pf.Problem(table), or the counts of pf.tables.count"
    )


def column_names(names: str | Iterable[str], role: str) -> tuple[str, ...]:
    """The columns of a role, at least one and none twice.

    Raises:
        InvalidInputError: They are not.
    """
    listed = (names,) if isinstance(names, str) else tuple(names)
    if not listed:
        raise InvalidInputError(f"no {role} column is named: give at least one")
    for name in listed:
        if not isinstance(name, str):
            raise InvalidInputError(f"the {role} column {name!r} is not a name: give texts")
        if listed.count(name) > 1:
            raise InvalidInputError(f"column {name!r} is {role} twice: name it once")
    return listed


def _more(given: More) -> tuple[str | None, dict[str, int]]:
    """The column of clusters, and the limits of :func:`count` with their defaults."""
    limits = {"max_levels": MAX_LEVELS, "max_cells": MAX_CELLS}
    for name, value in given.items():
        if name not in More.__annotations__:
            raise TypeError(f"count() got an unexpected keyword argument {name!r}")
        if isinstance(value, int) and name in limits:
            limits[name] = value
    return given.get("cluster"), limits


def _check_roles(
    roles: Mapping[str, tuple[str, ...]], tasks: Mapping[str, float], rules: Mapping[str, object]
) -> None:
    """Raise InvalidInputError where bins are for no column that is used, or what is private is also a task."""
    used = {*roles["private"], *roles["public"], *tasks}
    for name in rules:
        if name not in used:
            what = "neither private nor public" if not tasks else "neither private, public nor a task"
            raise InvalidInputError(f"bins are given for {name!r}, which is {what}: drop them")
    for name in tasks:
        if name in roles["private"]:
            raise InvalidInputError(
                f"column {name!r} is private and a task: a release cannot hide it and keep it; choose one"
            )


def _task_counts(
    counts: Counts,
    encoded: Mapping[str, tuple[Column, Codes]],
    x: Codes,
    rows: Sequence[int],
    weight: Array | None,
    tasks: Mapping[str, float],
) -> tuple[TaskCounts, ...]:
    """The counts of the task columns, scaled as those of the private symbols are."""
    share = np.asarray(rows, dtype=np.float64)
    if weight is not None:
        share = weight * (counts.n / float(weight.sum()))
    return task_counts(encoded, x, share, tasks)


def _assemble(
    encoded: Mapping[str, tuple[Column, Codes]],
    n: NDArray[np.int64],
    roles: Mapping[str, tuple[str, ...]],
    weight: Array | None,
) -> tuple[Counts, Codes]:
    """Symbols of S and X, and the cells that occur, with a weight if there are any.

    Beside the counts, the public symbol of each group of rows: −1 where they have no weight.
    """
    alphabets, index = {}, {}
    some = np.ones(len(n), dtype=bool) if weight is None else weight > 0.0
    n = n[some]
    kept = {name: (column, codes[some]) for name, (column, codes) in encoded.items()}
    for role, names in roles.items():
        symbols, index[role] = symbols_of(kept, names, n)
        alphabets[role] = Alphabet(tuple(encoded[name][0] for name in names), symbols)
    width = len(alphabets["public"])
    # Values that are one category here may have been several in the engine (0.0 and −0.0, NaN and null): add them up.
    cells, where = np.unique(index["private"] * width + index["public"], return_inverse=True)
    total = np.zeros(len(cells), dtype=np.int64)
    np.add.at(total, where.reshape(-1), n)
    s, x = np.divmod(cells, width)
    weighed = None
    if weight is not None:
        weighed = np.zeros(len(cells))
        np.add.at(weighed, where.reshape(-1), weight[some])
    public = np.full(len(some), -1)
    public[some] = index["public"]
    return Counts(alphabets["private"], alphabets["public"], s, x, total, cell_weight=weighed), public


def _people(
    table: Source,
    person: str,
    roles: Mapping[str, tuple[str, ...]],
    resolved: Mapping[str, Bins | None],
    limit: int,
) -> dict[tuple[str, ...], Grouped]:
    """How many people have each combination of the columns of a role, and each category of a single one."""
    asked = dict.fromkeys([*roles.values(), *((name,) for names in roles.values() for name in names)])
    return {
        names: table.group({name: resolved[name] for name in names}, limit, person=person) for names in asked
    }


def _with_people(
    counts: Counts, people: Mapping[tuple[str, ...], Grouped], resolved: Mapping[str, Bins | None]
) -> Counts:
    """The counts with how many people have each symbol and category, where that was counted."""
    if not people:
        return counts
    persons = {}
    for names, found in people.items():
        codes = [encode(name, found.columns[name], found.counts, resolved[name])[1] for name in names]
        persons[names] = np.stack(codes, axis=1), np.array(found.counts, dtype=np.int64)

    def told(alphabet: Alphabet) -> Alphabet:
        columns = []
        for column in alphabet.columns:
            codes, n = persons[(column.name,)]
            # What is one category here may have been several in the engine, of the same people.
            most = np.zeros(column.n_values, dtype=np.int64)
            np.maximum.at(most, codes[:, 0], n)
            columns.append(replace(column, persons=tuple(most.tolist())))
        codes, n = persons[alphabet.names]
        place = alphabet.recogniser()(list(codes.T))
        most = np.zeros(len(alphabet), dtype=np.int64)
        np.maximum.at(most, place[place >= 0], n[place >= 0])
        return Alphabet(tuple(columns), alphabet.codes, persons=most)

    return replace(counts, s_alphabet=told(counts.s_alphabet), x_alphabet=told(counts.x_alphabet))


def _warn_if_small(counts: Counts) -> None:
    # From the cells that occur, since the whole table may be huge.
    share = counts.cell_share
    s = np.bincount(counts.cell_s, weights=share)
    p_sx: Any = coo_array((share / counts.n, (counts.cell_s, counts.cell_x)))
    information = float(mutual_information(p_sx))
    n_x = counts.n_x
    if counts.scores is not None:
        n_x, information = counts.scores.n_classes, counts.scores.told
    unit, kind = asked_unit() or "nats", "persons" if counts.clusters is None else "clusters"
    pieces = None if counts.pieces is None else (counts.pieces, kind)
    if said := small_sample(s.astype(np.float64), n_x, information, pieces=pieces, unit=unit):
        warnings.warn(said, SmallSampleWarning, stacklevel=3)


def recount(
    original: object,
    private: Sequence[str],
    public: Sequence[str],
    bins: Mapping[str, Any],
    read: ReadOptions | None,
    missing: str = "category",
    weights: str | None = None,
) -> Counts:
    """Counts of the original table; the audit's own intervals say what few rows mean, so no warning here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", IdentifierWarning)  # told when the mechanism was designed
        warnings.simplefilter("ignore", ReadingWarning)
        return count(
            original,
            private=private,
            public=public,
            bins=bins,
            read=read,
            missing=missing,
            weights=weights,
            max_levels=10_000,
        )
