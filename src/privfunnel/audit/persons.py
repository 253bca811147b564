"""Rows with whom they are about: resampled, permuted and split a person at a time.

Rows of one person are no independent evidence. An interval comes from persons drawn again with all their rows, a null
from released rows exchanged between persons, a bound for the population from one row of each person.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.audit.estimates import Interval, proportion
from privfunnel.channels import DENSE_ENTRIES
from privfunnel.engines import ReadOptions, Source, open_table
from privfunnel.engines.categories import Codes
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.problem import Channel
from privfunnel.release.sampler import drawer
from privfunnel.tables import Counts

BATCH_ROWS = 131_072
#: Rows gone through in all for one interval or null.
MOST_ROWS = 2e8
LEAST_DRAWS = 20


@dataclass(frozen=True, eq=False)
class PersonRows:
    """Rows of a table as codes, one entry a row.

    Attributes:
        column: The column that says who a row is about.
        person: Who, from 0 on without gaps; a row without a name is a person of its own.
        s: Private symbol; ``x`` the public one; ``y`` the released one, empty where nothing was released.
    """

    column: str
    person: Codes
    s: Codes
    x: Codes
    y: Codes

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.person)

    @cached_property
    def persons(self) -> int:
        """The number of persons."""
        return int(self.person.max(initial=-1)) + 1

    @cached_property
    def units(self) -> Codes:
        """The draw that each row belongs to where a person is drawn once for each public symbol: numbers from 0 on."""
        width = int(self.x.max(initial=0)) + 1
        return np.asarray(np.unique(self.person * width + self.x, return_inverse=True)[1].reshape(-1))

    @cached_property
    def drawn_once(self) -> bool:
        """Whether all rows of a person with the same public symbol have the same released symbol."""
        width = int(self.y.max(initial=0)) + 1
        return len(np.unique(self.units * width + self.y)) == int(self.units.max(initial=-1)) + 1

    def varying(self, codes: Codes) -> int:
        """Persons whose rows differ in ``codes``, one a row."""
        width = int(codes.max(initial=0)) + 1
        pairs = np.unique(self.person * width + codes)
        return int((np.bincount(pairs // width, minlength=self.persons) > 1).sum())

    def take(self, rows: NDArray[np.intp]) -> PersonRows:
        """Some of the rows."""
        person = np.unique(self.person[rows], return_inverse=True)[1].reshape(-1)
        y = self.y[rows] if len(self.y) else self.y
        return PersonRows(self.column, person, self.s[rows], self.x[rows], y)

    def one_each(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """A row of each person, chosen at random."""
        order = rng.permutation(self.n)
        return order[np.unique(self.person[order], return_index=True)[1]]

    def some(self, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """All rows of persons chosen at random, at most ``size`` of them, but of two persons at least."""
        ranked = rng.permutation(self.persons)
        rows = np.cumsum(np.bincount(self.person, minlength=self.persons)[ranked])
        chosen = np.zeros(self.persons, dtype=bool)
        chosen[ranked[: max(int(np.searchsorted(rows, size, side="right")), 2)]] = True
        return rng.permutation(np.flatnonzero(chosen[self.person]))

    def table(self, a: Codes, b: Codes, shape: tuple[int, int], weights: Array | None = None) -> Any:
        """Rows by (a, b), weighted where weights of persons are given; sparse where the table is large."""
        of_row = None if weights is None else weights[self.person]
        if shape[0] * shape[1] > DENSE_ENTRIES:
            rows = np.ones(len(a)) if of_row is None else of_row
            return sparse.csr_array((rows, (a, b)), shape=shape)
        cells = np.bincount(a * shape[1] + b, weights=of_row, minlength=shape[0] * shape[1])
        return cells.reshape(shape).astype(np.float64)

    def resampling(
        self, a: Codes, b: Codes, shape: tuple[int, int], size: int, rng: np.random.Generator
    ) -> Iterator[Array]:
        """Tables of relative frequencies of (a, b) from as many persons drawn with replacement, with all their rows."""
        for _ in range(self._draws(size)):
            weights = np.bincount(rng.integers(0, self.persons, self.persons), minlength=self.persons)
            found = self.table(a, b, shape, weights.astype(np.float64))
            yield found / found.sum()

    def permuted(self, shape: tuple[int, int], size: int, rng: np.random.Generator) -> Iterator[Array]:
        """Counts of (s, y) where the released rows of persons with equally many rows are exchanged at random."""
        rows = np.lexsort((np.arange(self.n), self.person))
        sizes = np.bincount(self.person, minlength=self.persons)
        starts = np.cumsum(sizes) - sizes
        by_size = np.argsort(sizes, kind="stable")
        for _ in range(min(size, self._draws(size))):
            mixed = by_size[np.lexsort((rng.random(self.persons), sizes[by_size]))]
            partner = np.empty(self.persons, dtype=np.int64)
            partner[by_size] = mixed
            shift = np.repeat(starts[partner] - starts, sizes)
            yield self.table(self.s[rows], self.y[rows[np.arange(self.n) + shift]], shape)

    def fresh(
        self, channel: Channel, n_s: int, size: int, rng: np.random.Generator
    ) -> Iterator[tuple[Array, Channel]]:
        """Tables (s, y) and (x, y) of rows released anew, once for each person and public symbol."""
        n_x, n_y = channel.shape
        chances = drawer(channel)
        _, first = np.unique(self.units, return_index=True)
        of_unit = self.x[first]
        for _ in range(size):
            y = chances.draw(of_unit, rng.random(len(of_unit)))[self.units]
            yield self.table(self.s, y, (n_s, n_y)), self.table(self.x, y, (n_x, n_y))

    def _draws(self, size: int) -> int:
        return max(min(size, LEAST_DRAWS), min(size, int(MOST_ROWS / max(self.n, 1))))


def person_codes(table: Source, column: str) -> Codes:
    """Who each row of a table is about, as numbers from 0 on; a row without a name is a person of its own.

    Raises:
        InvalidInputError: The column does not exist, or names one person only.
    """
    pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
    table.require([column])
    parts = []
    for batch in table.batches([column], BATCH_ROWS):
        part = batch.column(0)
        part = part.dictionary_decode() if pa.types.is_dictionary(part.type) else part
        if pa.types.is_floating(part.type):
            part = pc.if_else(pc.is_nan(part), pa.scalar(None, part.type), part)
        parts.append(part)
    if not parts:
        return np.zeros(0, dtype=np.int64)
    coded = pa.chunked_array(parts).dictionary_encode()
    indices = pa.chunked_array([chunk.indices for chunk in coded.chunks]).fill_null(-1)
    codes = np.asarray(indices.to_numpy()).astype(np.int64)
    nameless = np.flatnonzero(codes < 0)
    codes[nameless] = int(codes.max(initial=-1)) + 1 + np.arange(len(nameless))
    codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    if len(codes) > 1 and codes.max() == 0:
        raise InvalidInputError(
            f"column {column!r} of {table.name} is the same in all rows: it does not say who a row is about"
        )
    return codes


def rows_of(
    source: Any, counts: Counts, column: str | None = None, read: ReadOptions | None = None
) -> PersonRows:
    """The rows of a table that was counted, with whom they are about.

    Args:
        source: The table.
        counts: Its counts.
        column: The column that says who a row is about; the one it was counted with by default.
        read: How to read the table, if it is a text file or a workbook; as it was counted by default.

    Raises:
        InvalidInputError: No column is named, or it cannot be used.
    """
    counts.require_equal("what rests on rows of persons")
    column = column or counts.person
    if column is None:
        raise InvalidInputError("nothing says who a row is about: name the column")
    s, x = counts.s_alphabet, counts.x_alphabet
    s_of, x_of = s.recogniser(), x.recogniser()
    names = list(dict.fromkeys([*s.names, *x.names]))
    with open_table(source, read or counts.read) as table:
        table = table.complete(names) if counts.dropped else table
        person = person_codes(table, column)
        parts = [(s_of(s.encode(b)), x_of(x.encode(b))) for b in table.batches(names, BATCH_ROWS)]
    found = [np.concatenate(codes) for codes in zip(*parts, strict=True)]
    return PersonRows(column, person, found[0], found[1], np.zeros(0, dtype=np.int64))


def counted(counts: Counts, s: Codes, x: Codes) -> Counts:
    """Counts of some rows of a table, with the symbols of the whole."""
    cells, n = np.unique(s * counts.n_x + x, return_counts=True)
    return replace(
        counts, cell_s=cells // counts.n_x, cell_x=cells % counts.n_x, cell_n=n.astype(np.int64), tasks=()
    )


def independent(counts: Counts, people: PersonRows | None, rng: np.random.Generator) -> Counts:
    """Counts of independent rows: all of them, or one of each person."""
    if people is None:
        return counts
    one = people.one_each(rng)
    return counted(counts, people.s[one], people.x[one])


def share_by_person(right: NDArray[np.bool_], person: Codes) -> Interval:
    """The share of right rows with a 95 % interval that takes the rows of a person as one piece of evidence.

    It is Wilson's interval for the number of independent rows that would vary as much as the persons do.
    """
    n, share = len(right), float(right.mean())
    _, place = np.unique(person, return_inverse=True)
    off = np.bincount(place.reshape(-1), weights=right - share)
    persons = len(off)
    variance = float((off**2).sum()) / n**2 * persons / max(persons - 1, 1)
    worth = share * (1.0 - share) / variance if variance > 0.0 else float(persons)
    worth = min(max(worth, 1.0), float(n))
    return proportion(share * worth, worth)
