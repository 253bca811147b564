"""The records that a mechanism can write, as symbols of their own: how a released table is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.data.engines import Alphabet, Cut
from privfunnel.data.engines.alphabet import distinct, joined
from privfunnel.data.engines.categories import UNSEEN, Codes
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Channel
from privfunnel.release.batch_writer import original
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy, Written, published_codes, published_name


@dataclass(frozen=True, eq=False)
class RecordAlphabet(Alphabet):
    """The different records of a mechanism's release: combinations of public values as they are written.

    The publishable alphabet: files are written from it and the released symbols, and no value that may not be published
    is in it. The codes of its columns are those of the published ones.

    Attributes:
        written: How each column is written.
        of_x: The record that is written for each public symbol, shape (M,).
        header: Names of the columns in the file.
    """

    written: tuple[Written, ...]
    of_x: Codes
    header: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns in the file."""
        return self.header

    @classmethod
    def of(
        cls, mechanism: Mechanism, policy: Policy | None = None, header: Sequence[str] | None = None
    ) -> RecordAlphabet:
        """The records of a mechanism under a policy; ``header`` are the columns' names where they were changed."""
        written = written_columns(mechanism, policy or Policy())
        found, of_x = distinct(published_codes(written, mechanism.x_codes))
        names = tuple(header or released_names(mechanism))
        return cls(tuple(w.column for w in written), found, written, of_x, names)

    def encode(self, batch: Any) -> list[Codes]:
        """Categories of a released Arrow batch, one array a column; negative where nothing of the kind is written."""
        return [
            _encode(w, batch.column(batch.schema.get_field_index(name)))
            for name, w in zip(self.header, self.written, strict=True)
        ]

    def given_y(self, mechanism: Mechanism) -> Channel:
        """p(record|y), shape (N, records), as dense as the channel."""
        if mechanism.sparse:
            ones = (np.ones(len(self.of_x)), (self.of_x, np.arange(len(self.of_x))))
            return (sparse.csr_array(ones, shape=(len(self), len(self.of_x))) @ mechanism.record_given_y).T
        found = np.zeros((len(self), mechanism.n_y))
        np.add.at(found, self.of_x, mechanism.record_given_y)
        return found.T

    def named(self, mechanism: Mechanism, policy: Policy) -> NDArray[np.bool_]:
        """Which records enough people have to be named in a codebook, shape (records,)."""
        people = mechanism.x_alphabet.persons
        if people is None:
            shares = np.bincount(self.of_x, mechanism.p_x, len(self)).astype(np.float64)
            return policy.listed(shares, mechanism.behind)
        # Symbols that are written alike may be of the same people: as many as the symbol with the most has.
        most = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(most, self.of_x, people)
        return ~policy.rare(most)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One text a record, as the codebook names it."""
        parts = [[f"{w.column.name}={text}" for text in w.texts] for w in self.written]
        return joined(parts, self.codes)


def released_names(mechanism: Mechanism) -> tuple[str, ...]:
    """What the public columns of a mechanism are called in a release of records or decoys.

    Raises:
        InvalidInputError: Two would have one name.
    """
    names = tuple(map(published_name, mechanism.public))
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(
                f"the release would have two columns {name!r}: rename the one in the table"
            )
    return names


def written_columns(mechanism: Mechanism, policy: Policy) -> tuple[Written, ...]:
    """How the public columns of a mechanism are written."""
    return policy.columns(mechanism.x_alphabet, mechanism.p_x, mechanism.behind)


def _encode(written: Written, array: Any) -> Codes:
    if str(array.type) not in {"string", "large_string"}:
        return written.column.encode(array)
    if isinstance(written.column.bins, Cut):
        return _by_text(written.texts, array)
    return written.column.encode(_as_designed(array))


def _by_text(texts: tuple[str, ...], array: Any) -> Codes:
    """The first category of each text."""
    pa = need("pyarrow", "tables")
    lookup: dict[str | None, int] = {}
    for code, text in enumerate(texts):
        lookup.setdefault(text, code)
    chunk = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    coded = chunk.dictionary_encode()
    null = lookup.get("null", UNSEEN)
    table = np.array([*(lookup.get(text, UNSEEN) for text in coded.dictionary.to_pylist()), null])
    return np.asarray(table[coded.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)])


def _as_designed(array: Any) -> Any:
    """Texts without the apostrophe that keeps a spreadsheet from computing them."""
    pa = need("pyarrow", "tables")
    chunk = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    coded = chunk.dictionary_encode()
    texts = [None if text is None else original(text) for text in coded.dictionary.to_pylist()]
    return pa.array(texts, chunk.type).take(coded.indices)
