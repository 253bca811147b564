"""The symbols of a variable made of columns: the combinations of categories that occur.

S, X and the released Y are such variables. A symbol is a row of category codes, one a column; everything that is
asked of symbols (their texts and values, the symbol of a new row, what a joint table says about a single column) is
answered here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.data.engines.bins import Bins
from privfunnel.data.engines.categories import Codes, Column, Value
from privfunnel.infra.storage import Document
from privfunnel.model.channels import is_sparse

#: Entries up to which a recogniser keeps a table that is indexed directly, and as many for each prefix.
DENSE, DENSE_PER_PREFIX = 2**22, 8


@dataclass(frozen=True, eq=False)
class Alphabet:
    """Combinations of categories, in a fixed order.

    Attributes:
        columns: The A columns.
        codes: Category of each column, shape (symbols, A): symbol k is the combination ``codes[k]``.
        persons: How many people have each symbol, shape (symbols,), where it is known who the rows are about.
    """

    columns: tuple[Column, ...]
    codes: Codes
    persons: Codes | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        """The number of symbols."""
        return len(self.codes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def bins(self) -> dict[str, Bins]:
        """Recorded bins by column name."""
        return {column.name: column.bins for column in self.columns if column.bins is not None}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One text a symbol, all different: ``sex=Male, income=>50K``."""
        parts = [[column.label(code) for code in range(column.n_values)] for column in self.columns]
        return joined(parts, self.codes)

    @property
    def column_labels(self) -> dict[str, list[str]]:
        """By column, the text of its category in each symbol, different for different categories."""
        texts = [[column.text(code) for code in range(column.n_values)] for column in self.columns]
        return {
            column.name: list(map(texts[j].__getitem__, self.codes[:, j].tolist()))
            for j, column in enumerate(self.columns)
        }

    @property
    def values(self) -> list[tuple[Value, ...]]:
        """The values of each symbol, one a column."""
        return [
            tuple(self.columns[j].values[code] for j, code in enumerate(row)) for row in self.codes.tolist()
        ]

    @property
    def fits(self) -> bool:
        """Whether the codes are categories of the columns; read from a file, they may not be."""
        sizes = np.array([column.n_values for column in self.columns])
        return bool(
            self.codes.ndim == 2
            and self.codes.shape[1] == len(self.columns)
            and (self.codes >= 0).all()
            and (self.codes < sizes).all()
        )

    @property
    def repeats(self) -> bool:
        """Whether a symbol is listed twice."""
        return len(distinct(self.codes)[0]) < len(self.codes)

    def take(self, symbols: Iterable[int]) -> Alphabet:
        """Some of the symbols, in the order given."""
        some = np.fromiter(symbols, dtype=np.int64)
        persons = None if self.persons is None else self.persons[some]
        return Alphabet(self.columns, self.codes[some], persons=persons)

    def largest_factor(self) -> Column:
        """The column without which there would be the fewest symbols."""
        if len(self.columns) == 1:
            return self.columns[0]
        left = [len(distinct(np.delete(self.codes, j, axis=1))[0]) for j in range(len(self.columns))]
        return self.columns[int(np.argmin(left))]

    # --- joint tables -----------------------------------------------------------------------------------------

    def by_column(self, joint: Any) -> Document:
        """What a joint table says about each column alone.

        Args:
            joint: p(symbol, other), shape (symbols, others), an array or a SciPy sparse array.

        Returns:
            Column name to p(category, other), shape (categories, others), as dense as the table given.
        """
        tables = {}
        for j, column in enumerate(self.columns):
            if is_sparse(joint):
                ones = (np.ones(len(self)), (self.codes[:, j], np.arange(len(self))))
                tables[column.name] = sparse.csr_array(ones, shape=(column.n_values, len(self))) @ joint
                continue
            if joint.shape[1] == 1:
                total = np.bincount(self.codes[:, j], joint[:, 0], column.n_values)
                tables[column.name] = total.astype(np.float64)[:, None]
                continue
            table = np.zeros((column.n_values, joint.shape[1]))
            np.add.at(table, self.codes[:, j], joint)
            tables[column.name] = table
        return tables

    def collapse(self, joint: object, *, together: str | None = None) -> Document:
        """:meth:`by_column` and, of several columns, their combination last.

        Args:
            joint: p(symbol, other), shape (symbols, others).
            together: What to call the combination; all names joined by "and" by default.
        """
        tables = self.by_column(joint)
        if len(self.columns) > 1:
            tables[" and ".join(self.names) if together is None else together] = joint
        return tables

    # --- rows -------------------------------------------------------------------------------------------------

    def encode(self, batch: Any) -> list[Codes]:
        """Category codes of an Arrow batch or table, one array a column; negative where a value is unknown."""
        return [
            column.encode(batch.column(batch.schema.get_field_index(column.name))) for column in self.columns
        ]

    def recogniser(self) -> Recogniser:
        """What finds the symbols of encoded rows."""
        return Recogniser(self)

    def places(self, other: Alphabet) -> Codes:
        """Where the symbols of another alphabet are in this one, by label; −1 for one that is not here."""
        known = {label: i for i, label in enumerate(self.labels)}
        return np.array([known.get(label, -1) for label in other.labels], dtype=np.int64)


class TwoAlphabets:
    """What is made of private and public columns: a table's counts, and a mechanism.

    Attributes:
        s_alphabet: The K private symbols, ``x_alphabet`` the M public ones.
    """

    s_alphabet: Alphabet
    x_alphabet: Alphabet

    @property
    def private(self) -> tuple[Column, ...]:
        """The private columns, in the order given."""
        return self.s_alphabet.columns

    @property
    def public(self) -> tuple[Column, ...]:
        """The public columns, in the order given."""
        return self.x_alphabet.columns

    @property
    def private_names(self) -> tuple[str, ...]:
        """Names of the private columns."""
        return self.s_alphabet.names

    @property
    def public_names(self) -> tuple[str, ...]:
        """Names of the public columns."""
        return self.x_alphabet.names

    @property
    def s_codes(self) -> Codes:
        """Categories of each private symbol, shape (K, private columns)."""
        return self.s_alphabet.codes

    @property
    def x_codes(self) -> Codes:
        """Categories of each public symbol, shape (M, public columns)."""
        return self.x_alphabet.codes

    @property
    def s_labels(self) -> tuple[str, ...]:
        """One text a private symbol, e.g. ``sex=Male, income=>50K``."""
        return self.s_alphabet.labels

    @property
    def x_labels(self) -> tuple[str, ...]:
        """One text a public symbol."""
        return self.x_alphabet.labels


def joined(parts: Sequence[Sequence[str]], codes: Codes) -> tuple[str, ...]:
    """One text for each row of codes, shape (rows, columns): the texts ``parts[j][code]`` of its columns j."""
    columns = [map(part.__getitem__, column.tolist()) for part, column in zip(parts, codes.T, strict=True)]
    return tuple(map(", ".join, zip(*columns, strict=True))) if columns else ("",) * len(codes)


def distinct(codes: Codes) -> tuple[Codes, Codes]:
    """The different rows of codes ≥ 0, shape (rows, columns), in order, and the place of each row among them.

    What ``np.unique`` along the rows gives, by one sort of numbers where the combinations can be numbered.
    """
    sizes = codes.max(axis=0, initial=0).astype(object) + 1
    if np.prod(sizes) >= 2**62 or codes.shape[1] == 0:
        found, place = np.unique(codes, axis=0, return_inverse=True)
        return found, place.reshape(-1)
    keys = np.zeros(len(codes), dtype=np.int64)
    for j, size in enumerate(sizes.tolist()):
        keys = keys * size + codes[:, j]
    if (keys[1:] > keys[:-1]).all():  # as a counted table's symbols are
        return codes, np.arange(len(codes))
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return codes[first], place.reshape(-1)


class Recogniser:
    """Finds the symbol of each row of category codes; ``-1`` where the combination is new."""

    def __init__(self, alphabet: Alphabet) -> None:
        """Prepare one small table a column: prefix of known combinations × category → longer prefix."""
        self.steps: list[tuple[int, NDArray[np.int32] | None, Codes]] = []
        prefix = np.zeros(len(alphabet), dtype=np.int64)
        for j, column in enumerate(alphabet.columns):
            keys = prefix * column.n_values + alphabet.codes[:, j]
            known, prefix = np.unique(keys, return_inverse=True)
            prefix = prefix.reshape(-1)
            self.steps.append((column.n_values, *self._table(known)))
        self.symbol = np.empty(len(alphabet), dtype=np.int64)
        self.symbol[prefix] = np.arange(len(alphabet))

    @staticmethod
    def _table(known: Codes) -> tuple[NDArray[np.int32] | None, Codes]:
        if known[-1] >= max(DENSE, DENSE_PER_PREFIX * len(known)):
            return None, known
        dense = np.full(int(known[-1]) + 1, -1, dtype=np.int32)
        dense[known] = np.arange(len(known))
        return dense, known

    def __call__(self, codes: Sequence[Codes]) -> Codes:
        """Symbols of rows given as one array of codes a column; negative codes are unknown."""
        prefix = np.zeros(len(codes[0]), dtype=np.int64)
        for code, (width, dense, known) in zip(codes, self.steps, strict=True):
            key = prefix * width + code
            bad = (prefix < 0) | (code < 0)
            if dense is not None:
                bad |= key >= len(dense)
                prefix = dense[np.where(bad, 0, key)].astype(np.int64)
                prefix[bad] = -1
            else:
                position = np.minimum(np.searchsorted(known, key), len(known) - 1)
                prefix = np.where(~bad & (known[position] == key), position, -1)
        return np.where(prefix >= 0, self.symbol[prefix], -1)
