"""Symbols as people know them: combinations of attribute values, in an order one can read.

A symbol of X such as ``"age=32–46, sex=Male"`` is a tuple of values. An :class:`Axis` is an alphabet with the texts of
its categories, so that a table of 160 symbols can be drawn in groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import Alphabet, Column

_NUMBER = re.compile(r"[\[(<>=]{0,2}\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
# name=value, where a value is quoted, an interval such as [0, 5), or free of commas.
_PART = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[\[(][^\])]*[\])]|[^,]*)(?:, |$)')


@dataclass(frozen=True)
class Axis:
    """The symbols of S or X as they are shown.

    Attributes:
        alphabet: The symbols, each a combination of the categories of A attributes.
        texts: The text of each category, by attribute, in reading order.
    """

    alphabet: Alphabet
    texts: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, alphabet: Alphabet) -> Axis:
        """The symbols of counted columns; their categories are in reading order."""
        return cls(alphabet, tuple(tuple(map(c.text, range(c.n_values))) for c in alphabet.columns))

    @classmethod
    def parse(cls, labels: Sequence[str], name: str) -> Axis:
        """Read labels of the form ``"a=1, b=2"``; any other set of labels is one attribute called ``name``."""
        rows = [_split(label) for label in labels]
        heads = {tuple(key for key, _ in row) for row in rows}
        head = next(iter(heads))
        if len(heads) > 1 or not head or len(set(head)) < len(head):
            head, rows = (name,), [((name, label),) for label in labels]
        texts = tuple(_reading_order(row[a][1] for row in rows) for a in range(len(head)))
        place = [{text: code for code, text in enumerate(levels)} for levels in texts]
        codes = np.array(
            [[place[a][text] for a, (_, text) in enumerate(row)] for row in rows], dtype=np.int64
        )
        columns = tuple(Column(key, "text", levels) for key, levels in zip(head, texts, strict=True))
        return cls(Alphabet(columns, codes), texts)

    def __len__(self) -> int:
        """Number of symbols."""
        return len(self.alphabet)

    def labelled(self, mask: NDArray[np.bool_]) -> tuple[str, ...]:
        """Labels of some symbols, a mask (n,)."""
        labels = self.alphabet.labels
        return tuple(labels[i] for i in np.flatnonzero(mask))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the A attributes."""
        return self.alphabet.names

    @cached_property
    def values(self) -> tuple[tuple[str, ...], ...]:
        """One tuple of A texts for each symbol."""
        return tuple(
            tuple(self.texts[a][code] for a, code in enumerate(row)) for row in self.alphabet.codes.tolist()
        )

    def levels(self, attribute: int) -> tuple[str, ...]:
        """Values of one attribute that occur, in reading order."""
        return tuple(self.texts[attribute][code] for code in np.unique(self.alphabet.codes[:, attribute]))

    def take(self, symbols: Iterable[int]) -> Axis:
        """Return the axis of some symbols, in the order given."""
        return Axis(self.alphabet.take(symbols), self.texts)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Symbols in reading order: by the first attribute, then the second, and so on."""
        return np.lexsort(self.alphabet.codes.T[::-1])


def _reading_order(texts: Iterable[str]) -> tuple[str, ...]:
    """Different texts: numbers and intervals by size, words in the order in which they appear."""
    seen = dict.fromkeys(texts)
    numbers = {text: found for text in seen if (found := _NUMBER.match(text)) is not None}
    if len(numbers) < len(seen):
        return tuple(seen)
    return tuple(sorted(seen, key=lambda text: float(numbers[text].group(1))))


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
