"""Rows with whom they are about: resampled, permuted and split a person, or a cluster, at a time.

Rows of one person are no independent evidence, nor are those of one household, class or clinic (a *cluster*) where
clusters were sampled. An interval comes from persons or clusters drawn again with all their rows, a null from released
rows exchanged between them, a bound for the population from one row of each.

Rows that stand for different numbers of people are no equal draws from the population either. Each kept with a
probability in proportion to its weight, they are: what is left is a sample of the people that the weights describe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from privfunnel.audit.estimates import Interval, proportion
from privfunnel.data.engines import ReadOptions, Source, open_table
from privfunnel.data.engines.categories import Codes
from privfunnel.data.tables import Counts
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import DENSE_ENTRIES
from privfunnel.release.sampler import drawer

BATCH_ROWS = 131_072
#: Rows gone through in all for one interval or null.
MOST_ROWS = 2e8
LEAST_DRAWS = 20


class Together(NamedTuple):
    """Columns that say which rows go together: those of one person, and those of one cluster; None where none does."""

    person: str | None = None
    cluster: str | None = None


#: No column says so: every row stands for itself.
ALONE = Together()


@dataclass(frozen=True)
class Clusters:
    """Rows that were sampled together: the ``column`` that says so, and how many ``clusters`` there are."""

    column: str
    clusters: int

    def words(self, rows: int) -> str:
        """What that means, as a sentence."""
        return (
            f"{rows:,} rows are in {self.clusters:,} clusters ({self.column}): intervals, permutations, attackers and "
            "splits take the rows of a cluster together, and bounds for the population rest on one row of each."
        )


@dataclass(frozen=True, eq=False)
class PersonRows:
    """Rows of a table as codes, one entry a row.

    Attributes:
        column: The column that says who a row is about; empty where every row is about somebody else.
        person: Who, from 0 on without gaps; a row without a name is a person of its own.
        s: Private symbol; ``x`` the public one; ``y`` the released one, empty where nothing was released.
        cluster_column: The column that says which rows were sampled together; empty where each person was alone.
        cluster: Its cluster, from 0 on without gaps, whole persons together; None where there is no such column.
        weight: How many people it stands for, above 0; None where rows are equal.
    """

    column: str
    person: Codes
    s: Codes
    x: Codes
    y: Codes
    cluster_column: str = ""
    cluster: Codes | None = None
    weight: Array | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.person)

    @property
    def piece(self) -> Codes:
        """The piece of evidence that each row belongs to: its cluster, or its person."""
        return self.person if self.cluster is None else self.cluster

    @cached_property
    def pieces(self) -> int:
        """The number of pieces of evidence."""
        return int(self.piece.max(initial=-1)) + 1

    @property
    def clusters(self) -> Clusters | None:
        """The clusters, where a column names them."""
        return None if self.cluster is None else Clusters(self.cluster_column, self.pieces)

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
        y = self.y[rows] if len(self.y) else self.y
        return replace(
            self,
            person=_numbered(self.person[rows]),
            s=self.s[rows],
            x=self.x[rows],
            y=y,
            cluster=None if self.cluster is None else _numbered(self.cluster[rows]),
            weight=None if self.weight is None else self.weight[rows],
        )

    def one_each(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """A row of each person, or of each cluster, chosen at random."""
        order = rng.permutation(self.n)
        return order[np.unique(self.piece[order], return_index=True)[1]]

    def independent(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Rows that are equal and independent draws: one of each piece, kept in proportion to its weight if it has one.

        The heaviest row of all is kept for certain.
        """
        one = self.one_each(rng)
        if self.weight is None:
            return one
        kept: NDArray[np.bool_] = rng.random(len(one)) < self.weight[one] / self.weight.max()
        return np.asarray(one[kept], dtype=np.intp)

    def some(self, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """All rows of persons or clusters chosen at random, at most ``size`` of them, but of two pieces at least."""
        ranked = rng.permutation(self.pieces)
        rows = np.cumsum(np.bincount(self.piece, minlength=self.pieces)[ranked])
        chosen = np.zeros(self.pieces, dtype=bool)
        chosen[ranked[: max(int(np.searchsorted(rows, size, side="right")), 2)]] = True
        return rng.permutation(np.flatnonzero(chosen[self.piece]))

    def table(self, a: Codes, b: Codes, shape: tuple[int, int], weights: Array | None = None) -> Any:
        """Rows by (a, b), weighted where weights of pieces are given; sparse where the table is large."""
        of_row = self.weight
        if weights is not None:
            of_row = weights[self.piece] if of_row is None else weights[self.piece] * of_row
        if shape[0] * shape[1] > DENSE_ENTRIES:
            rows = np.ones(len(a)) if of_row is None else of_row
            return sparse.csr_array((rows, (a, b)), shape=shape)
        cells = np.bincount(a * shape[1] + b, weights=of_row, minlength=shape[0] * shape[1])
        return cells.reshape(shape).astype(np.float64)

    def resampling(
        self, a: Codes, b: Codes, shape: tuple[int, int], size: int, rng: np.random.Generator
    ) -> Iterator[Array]:
        """Tables of relative frequencies of (a, b) from as many pieces drawn with replacement, with all their rows."""
        for _ in range(self._draws(size)):
            weights = np.bincount(rng.integers(0, self.pieces, self.pieces), minlength=self.pieces)
            found = self.table(a, b, shape, weights.astype(np.float64))
            yield found / found.sum()

    def permuted(self, shape: tuple[int, int], size: int, rng: np.random.Generator) -> Iterator[Array]:
        """Counts of (s, y) where the released rows of pieces with equally many rows are exchanged at random."""
        rows = np.lexsort((np.arange(self.n), self.piece))
        sizes = np.bincount(self.piece, minlength=self.pieces)
        starts = np.cumsum(sizes) - sizes
        by_size = np.argsort(sizes, kind="stable")
        for _ in range(min(size, self._draws(size))):
            mixed = by_size[np.lexsort((rng.random(self.pieces), sizes[by_size]))]
            partner = np.empty(self.pieces, dtype=np.int64)
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


def _numbered(codes: Codes) -> Codes:
    """Codes without gaps, from 0 on, in the same order."""
    return np.asarray(np.unique(codes, return_inverse=True)[1].reshape(-1), dtype=np.int64)


#: Person and cluster of each row; None where no column says it.
Pieces = tuple[Codes | None, Codes | None]


def pieces_of(table: Source, together: Together) -> Pieces:
    """Person and cluster of each row of a table, as numbers from 0 on; None where no column says it.

    Raises:
        InvalidInputError: A column does not exist, or is the same in all rows.
    """
    person = None if together.person is None else person_codes(table, together.person)
    if together.cluster is None:
        return person, None
    return person, person_codes(table, together.cluster, "which rows belong together")


def gathered(
    together: Together,
    pieces: Pieces,
    rows: tuple[Codes, Codes, Codes],
    weight: Array | None = None,
) -> PersonRows | None:
    """Rows (s, x, y) with their persons, clusters and weights; None where nothing of it is known.

    A person with rows in two clusters joins them: no piece of evidence shares a person with another.
    """
    person, cluster = pieces
    if person is None and cluster is None and weight is None:
        return None
    who = np.arange(len(rows[0])) if person is None else _numbered(person)
    if cluster is not None:
        cluster = _numbered(cluster)
        if person is not None:
            links = sparse.coo_array((np.ones(len(who)), (who, cluster)))
            width = links.shape[0] + links.shape[1]
            graph = sparse.coo_array(
                (links.data, (links.row, links.col + links.shape[0])), shape=(width, width)
            )
            cluster = _numbered(csgraph.connected_components(graph, directed=False)[1][who].astype(np.int64))
    return PersonRows(together.person or "", who, *rows, together.cluster or "", cluster, weight)


def person_codes(table: Source, column: str, what: str = "who a row is about") -> Codes:
    """Who each row of a table is about, as numbers from 0 on; a row without a name is a person of its own.

    The same serves for clusters; ``what`` the column says is for the message.

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
            f"column {column!r} of {table.name} is the same in all rows: it does not say {what}"
        )
    return codes


def rows_of(
    source: object,
    counts: Counts,
    column: str | None = None,
    read: ReadOptions | None = None,
    *,
    cluster: str | None = None,
) -> PersonRows:
    """The rows of a table that was counted, with whom they are about and the clusters they were sampled in.

    Args:
        source: The table.
        counts: Its counts.
        column: The column that says who a row is about; the one it was counted with by default.
        read: How to read the table, if it is a text file or a workbook; as it was counted by default.
        cluster: The column that says which rows were sampled together, a household for example; the one it was counted
            with by default.

    Raises:
        InvalidInputError: No column is named, or it cannot be used.
    """
    together = Together(column or counts.person, cluster or counts.cluster)
    if together == ALONE and counts.weights is None:
        raise InvalidInputError("nothing says who a row is about, or which belong together: name the column")
    s, x = counts.s_alphabet, counts.x_alphabet
    s_of, x_of = s.recogniser(), x.recogniser()
    names = list(dict.fromkeys([*s.names, *x.names]))
    with open_table(source, read or counts.read) as table:
        table = table.complete(names) if counts.dropped else table
        pieces = pieces_of(table, together)
        parts = [(s_of(s.encode(b)), x_of(x.encode(b))) for b in table.batches(names, BATCH_ROWS)]
        weight = None if counts.weights is None else _weights(table, counts.weights)
    found = [np.concatenate(codes) for codes in zip(*parts, strict=True)]
    if weight is not None:
        some = weight > 0.0  # the others were not counted
        found, weight = [codes[some] for codes in found], weight[some]
        person, cluster_of = (None if codes is None else codes[some] for codes in pieces)
        pieces = person, cluster_of
    people = gathered(together, pieces, (found[0], found[1], np.zeros(0, dtype=np.int64)), weight)
    assert people is not None  # a column was named
    return people


def _weights(table: Source, column: str) -> Array:
    """The weights of the rows, which are known to be usable."""
    parts = [np.asarray(batch.column(0), dtype=np.float64) for batch in table.batches([column], BATCH_ROWS)]
    return np.concatenate(parts) if parts else np.zeros(0)


def counted(counts: Counts, s: Codes, x: Codes, weight: Array | None = None) -> Counts:
    """Counts of some rows of a table, with the symbols of the whole; rows are equal unless they have a weight."""
    cells, place, n = np.unique(s * counts.n_x + x, return_inverse=True, return_counts=True)
    return replace(
        counts,
        cell_s=cells // counts.n_x,
        cell_x=cells % counts.n_x,
        cell_n=n.astype(np.int64),
        scores=None,
        weights=None if weight is None else counts.weights,
        cell_weight=None if weight is None else np.bincount(place.reshape(-1), weight).astype(np.float64),
        squares=None if weight is None else float((weight**2).sum()),
    )


def independent(counts: Counts, people: PersonRows | None, rng: np.random.Generator) -> Counts:
    """Counts of rows that are equal and independent draws: all, one of each piece, or some in proportion to weights."""
    if people is None:
        return counts
    rows = people.independent(rng)
    return counted(counts, people.s[rows], people.x[rows])


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
