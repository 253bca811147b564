"""The lists of candidates that a release of decoys can hold, as symbols of their own: how such a table is read back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.data.engines import Alphabet
from privfunnel.data.engines.categories import UNSEEN, Codes
from privfunnel.errors import InvalidInputError
from privfunnel.release.candidates import PARTS, ROW, WEIGHT, Candidates, candidates
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy
from privfunnel.release.records import RecordAlphabet

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class DecoyAlphabet(Alphabet):
    """The different lists of candidates of a mechanism's release.

    Its ``codes`` describe the heaviest candidates of each list: weight and categories, for attackers to learn from.

    Attributes:
        records: The records that candidates are.
        lists: The candidates of each of the mechanism's symbols.
        of_y: The list that is written for each of the mechanism's symbols, shape (N,).
        first: A symbol of the mechanism that each list is written for, shape (lists,).
    """

    records: RecordAlphabet
    lists: Candidates
    of_y: Codes
    first: Codes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns in the file."""
        return (ROW, *self.records.names, WEIGHT)

    @classmethod
    def of(cls, mechanism: Mechanism, policy: Policy, header: list[str]) -> DecoyAlphabet:
        """The lists of a mechanism under a policy; ``header`` are the names of the public columns in the file."""
        records = RecordAlphabet.of(mechanism, policy, header)
        found = candidates(mechanism, records)
        group = np.repeat(np.arange(mechanism.n_y), np.diff(found.start))
        keys = _keys(group, found.record, found.parts, mechanism.n_y)
        _, first, of_y = np.unique(keys, return_index=True, return_inverse=True)
        codes = _features(records, found, first)
        return cls(records.columns, codes, records, found, of_y.reshape(-1), first)

    def given_y(self, mechanism: Mechanism) -> Any:
        """Which list a symbol is written as, a 0-1 matrix of shape (N, lists), sparse."""
        places = (np.arange(mechanism.n_y), self.of_y)
        return sparse.csr_array((np.ones(mechanism.n_y), places), shape=(mechanism.n_y, len(self)))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One text a list: its candidates with their weights."""
        texts = self.records.labels
        return tuple(
            " or ".join(
                f"{self.lists.parts[i] / PARTS:g} × ({texts[self.lists.record[i]]})"
                for i in range(self.lists.start[y], self.lists.start[y + 1])
            )
            for y in self.first.tolist()
        )

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """The labels, as values of one column."""
        return [(label,) for label in self.labels]

    def recognise(self, row: Codes, record: Codes, parts: Codes) -> Codes:
        """The list of each row, from 0 on; negative where the mechanism writes no such list.

        Args:
            row: The row of each candidate, numbered from 0 without gaps.
            record: The record that it is, negative where there is none.
            parts: Its weight in parts.
        """
        rows = int(row.max(initial=-1)) + 1
        found = _keys(row, record, parts, rows)
        group = np.repeat(np.arange(len(self.of_y)), np.diff(self.lists.start))
        known = _keys(group, self.lists.record, self.lists.parts, len(self.of_y))[self.first]
        at = np.minimum(np.searchsorted(known, found), len(known) - 1)
        lists = np.where(known[at] == found, at, UNSEEN)
        # Sums of hashes may be forged; the lists themselves may not.
        order = np.lexsort((record, row))
        sizes = np.bincount(row, minlength=rows)
        y = self.first[np.maximum(lists, 0)]
        lists[sizes != np.diff(self.lists.start)[y]] = UNSEEN
        inside = lists[row[order]] >= 0
        within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = (self.lists.start[y][row[order]] + within)[inside]
        sorted_rows = order[inside]
        wrong = (self.lists.record[place] != record[sorted_rows]) | (
            self.lists.parts[place] != parts[sorted_rows]
        )
        lists[row[sorted_rows[wrong]]] = UNSEEN
        return lists


def read_decoys(alphabet: DecoyAlphabet, batches: Any) -> tuple[Codes, NDArray[np.intp]]:
    """The list of each row of a released table, and the line on which each row begins; rows by their numbers.

    Raises:
        InvalidInputError: The table holds what the mechanism never releases.
    """
    numbers, records, parts = [], [], []
    known = alphabet.records.recogniser()
    for batch in batches:
        numbers.append(_column(batch, ROW))
        records.append(known(alphabet.records.encode(batch)))
        parts.append(np.rint(_column(batch, WEIGHT).astype(np.float64) * PARTS).astype(np.int64))
    if not numbers:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.intp)
    told, begin, row = np.unique(np.concatenate(numbers), return_index=True, return_inverse=True)
    lists = alphabet.recognise(row.reshape(-1), np.concatenate(records), np.concatenate(parts))
    bad = np.flatnonzero(lists < 0)
    if bad.size:
        raise InvalidInputError(
            f"the candidates of row {told[bad[0]]} are none that the mechanism releases together: is it the right "
            "mechanism, and its order file beside it?"
        )
    return lists, begin


def _column(batch: Any, name: str) -> Any:
    array = batch.column(batch.schema.get_field_index(name))
    if array.null_count:
        raise InvalidInputError(f"column {name!r} of the release has empty entries: it was changed")
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iuf":
        raise InvalidInputError(f"column {name!r} of the release holds no numbers: it was changed")
    return values


def _keys(row: Codes, record: Codes, parts: Codes, rows: int) -> Hashes:
    """One number of 64 bits for each row: a sum of hashes of its candidates, so that their order does not matter."""
    mixed = (record.astype(np.uint64) * np.uint64(PARTS + 1) + parts.astype(np.uint64)) + np.uint64(
        0x9E3779B97F4A7C15
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    found = np.zeros(rows, dtype=np.uint64)
    np.add.at(found, row, mixed)
    return found


def _features(records: RecordAlphabet, found: Candidates, symbols: Codes) -> Codes:
    """Weight and categories of the heaviest candidates of each symbol; those that are missing are one category more."""
    sizes = np.diff(found.start)[symbols]
    none = np.array([column.n_values for column in records.columns])
    group = np.repeat(np.arange(len(found.start) - 1), np.diff(found.start))
    order = np.lexsort((-found.parts, group))
    parts = []
    # Candidates, the heaviest first, whose values an attacker is trained on.
    for k in range(min(3, found.most)):
        has = sizes > k
        at = order[np.where(has, found.start[symbols] + k, 0)]
        codes = np.where(has[:, None], records.codes[found.record[at]], none)
        parts.append(np.column_stack([np.where(has, found.parts[at], 0), codes]))
    return np.concatenate(parts, axis=1)
