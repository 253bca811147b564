"""The records that a mechanism can write, as symbols of their own: how a released table is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from privfunnel.engines import Alphabet, Cut
from privfunnel.engines.alphabet import distinct, joined
from privfunnel.engines.categories import UNSEEN, Codes
from privfunnel.errors import need
from privfunnel.mechanism import Mechanism
from privfunnel.problem import Channel
from privfunnel.publication import Policy, Written
from privfunnel.release.writer import original


@dataclass(frozen=True, eq=False)
class RecordAlphabet(Alphabet):
    """The different records of a mechanism's release: combinations of public values as they are written.

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
        codes = mechanism.x_codes
        if any((w.codes != np.arange(len(w.codes))).any() for w in written):
            codes = np.stack([w.codes[codes[:, j]] for j, w in enumerate(written)], axis=1)
        found, of_x = distinct(codes)
        names = tuple(header or mechanism.public_names)
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

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One text a record, as the codebook names it."""
        parts = [[f"{w.column.name}={text}" for text in w.texts] for w in self.written]
        return joined(parts, self.codes)


def written_columns(mechanism: Mechanism, policy: Policy) -> tuple[Written, ...]:
    """How the public columns of a mechanism are written."""
    return policy.columns(mechanism.x_alphabet, mechanism.p_x, mechanism.behind)


def _encode(written: Written, array: Any) -> Codes:
    column = written.column.as_released
    if str(array.type) not in {"string", "large_string"}:
        codes = column.encode(array)
    elif isinstance(column.bins, Cut):
        codes = _by_text(written.texts, array)
    else:
        codes = column.encode(_as_designed(array))
    # Some values, and bins of few rows, are written as others; null keeps its place at the end.
    final = np.arange(column.n_values)
    kept = len(written.codes) - (column.null_code >= 0)
    final[:kept] = written.codes[:kept]
    return np.where(codes >= 0, final[np.maximum(codes, 0)], codes)


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
