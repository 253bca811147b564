"""Symbols as people know them: combinations of attribute values, in an order one can read.

A symbol of X such as ``"age=32–46, sex=Male"`` is a tuple of values. An :class:`Axis` holds them, so that
what happens to one attribute can be shown alone and a table of 160 symbols can be drawn in groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import Array

_NUMBER = re.compile(r"[\[(<>=]{0,2}\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
# name=value, where a value is quoted, an interval such as [0, 5), or free of commas.
_PART = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[\[(][^\])]*[\])]|[^,]*)(?:, |$)')


@dataclass(frozen=True)
class Axis:
    """The symbols of S or X, each a tuple of attribute values.

    Attributes:
        names: Names of the A attributes.
        values: One tuple of A texts for each symbol.
        known_levels: The values of each attribute in order, where that is known; otherwise numbers go by size, and
            words in the order in which they appear.
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    known_levels: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def parse(cls, labels: Sequence[str], name: str) -> Axis:
        """Read labels of the form ``"a=1, b=2"``; any other set of labels is one attribute called ``name``."""
        rows = [_split(label) for label in labels]
        heads = {tuple(key for key, _ in row) for row in rows}
        if len(heads) == 1 and heads != {()}:
            return cls(heads.pop(), tuple(tuple(value for _, value in row) for row in rows))
        return cls((name,), tuple((label,) for label in labels))

    def __len__(self) -> int:
        """Number of symbols."""
        return len(self.values)

    def levels(self, attribute: int) -> tuple[str, ...]:
        """Distinct values of one attribute in reading order."""
        seen = dict.fromkeys(row[attribute] for row in self.values)
        if self.known_levels:
            return tuple(level for level in self.known_levels[attribute] if level in seen)
        numbers = {level: _NUMBER.match(level) for level in seen}
        if all(numbers.values()):
            return tuple(sorted(seen, key=lambda level: float(numbers[level].group(1))))  # type: ignore[union-attr]
        return tuple(seen)

    def codes(self, attribute: int) -> NDArray[np.intp]:
        """Index of each symbol's value in :meth:`levels`, shape (symbols,)."""
        place = {level: i for i, level in enumerate(self.levels(attribute))}
        return np.array([place[row[attribute]] for row in self.values], dtype=np.intp)

    def collapse(self, table: Array, attribute: int) -> Array:
        """Sum a table's rows, shape (symbols, …), to one row for each level of the attribute."""
        out = np.zeros((len(self.levels(attribute)), *table.shape[1:]))
        np.add.at(out, self.codes(attribute), table)
        return out

    def take(self, symbols: Iterable[int]) -> Axis:
        """Return the axis of some symbols, in the order given."""
        return Axis(self.names, tuple(self.values[i] for i in symbols), self.known_levels)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Symbols in reading order: by the first attribute, then the second, and so on."""
        keys = [self.codes(a) for a in range(len(self.names))]
        return np.lexsort(keys[::-1])


def _split(label: str) -> tuple[tuple[str, str], ...]:
    """Split ``"a=1, b=2"`` into pairs; empty where the label is not of that form."""
    pairs, at = [], 0
    while at < len(label):
        found = _PART.match(label, at)
        if found is None:
            return ()
        pairs.append((found.group(1), found.group(2)))
        at = found.end()
    return tuple(pairs)
