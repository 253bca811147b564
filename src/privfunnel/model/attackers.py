"""Attackers who know something: public columns of their target, or any function a(x) of the public symbol.

Against one who knows A = a(X) the release leaks I(S;Y|A) = Σ_a p(a) I(S;Y|A=a), nats. The attacker who knows nothing is
always among them, with I(S;Y).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import with_comma
from privfunnel.measures import INFORMATION, Array, Channel, Measure

#: What the attacker who knows nothing is called.
NOTHING = "nothing"

#: The public columns of a problem: the name of each, and its value in each public symbol.
Columns = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Attacker:
    """Someone who knows a(x) of their target.

    Attributes:
        name: What is known, for people: names of columns joined by commas, or ``"nothing"``.
        values: a(x) of each of the M public symbols, numbered from 0, shape (M,).
    """

    name: str
    values: NDArray[np.intp]

    @property
    def n_values(self) -> int:
        """How many different values A has."""
        return int(self.values.max()) + 1

    def groups(self) -> Iterator[NDArray[np.intp]]:
        """The public symbols of each value of A, in order."""
        order = np.argsort(self.values, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(self.values[order])) + 1)

    def leakage(self, p_sx: Array, channel: Channel, measure: Measure = INFORMATION) -> float:
        """What a channel p(y|x), (M, N), tells this attacker about S: averaged over A, or of its worst value."""
        total = 0.0
        rows = channel if isinstance(channel, np.ndarray) else channel.tocsr()
        for group in self.groups():
            if group.size == 1:
                continue  # who knows x itself learns nothing from y
            part = p_sx[:, group]
            mass = float(part.sum())
            told = float(measures.leakage((part / mass) @ rows[group], measure))
            total = max(total, told) if measure.worst_value else total + mass * told
        return total


def attackers(
    known: object, columns: Columns, n_x: int, *, kept: NDArray[np.bool_] | None = None
) -> tuple[Attacker, ...]:
    """The attackers that ``known`` describes, the one who knows nothing first.

    Args:
        known: A sequence with an entry for each attacker: the name of a column, several names, or an array a(x) with
            one value a public symbol. The name of one column alone stands for one attacker. None for none.
        columns: The public columns of the problem.
        n_x: M, the number of public symbols.
        kept: Mask over all symbols that were given, those of probability 0 included: an array may have one value each.

    Raises:
        InvalidInputError: A column does not exist, an array does not fit, or two attackers have one name.
    """
    found = [Attacker(NOTHING, np.zeros(n_x, dtype=np.intp))]
    entries = [] if known is None else [known] if isinstance(known, str) else _listed(known)
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, str) or _names_columns(entry):
            names = [entry] if isinstance(entry, str) else list(entry)
            made = knowing(names, columns)
        else:
            made = Attacker(f"array {number}", _codes(entry, n_x, kept))
        found.append(made)
    return distinct(found)


def distinct(everyone: Sequence[Attacker]) -> tuple[Attacker, ...]:
    """The attackers, each of them once.

    Raises:
        InvalidInputError: Two that know different things have the same name.
    """
    if len(everyone) == 1:
        return tuple(everyone)
    found: dict[str, Attacker] = {}
    for each in everyone:
        other = found.setdefault(each.name, each)
        pairs = np.unique(np.stack([each.values, other.values]), axis=1).shape[1]
        if not each.n_values == other.n_values == pairs:
            raise InvalidInputError(
                f"two attackers who know different things would both be called {each.name!r}: rename the public column "
                "of that name, or the one whose name holds a comma"
            )
    return tuple(found.values())


def knowing(names: Sequence[str], columns: Columns) -> Attacker:
    """The attacker who knows these columns.

    Raises:
        InvalidInputError: There is no such column; the message lists those there are.
    """
    for name in names:
        if name not in columns:
            close = get_close_matches(name, columns, n=1)
            listed = ", ".join(columns)
            hint = f"did you mean {close[0]!r}?" if close else f"choose among {listed}" if columns else (
                "this problem has no named columns, give an array with one value a public symbol"
            )  # fmt: skip
            hint = with_comma(name, list(columns)) or hint
            raise InvalidInputError(f"there is no public column {name!r}: {hint}")
    distinct = list(dict.fromkeys(names))
    rows = list(zip(*(columns[name] for name in distinct), strict=True))
    return Attacker(", ".join(distinct), _numbered(rows))


def few_columns(columns: Columns, most: int = 2) -> tuple[Attacker, ...]:
    """The attackers who know any one, two, … up to ``most`` of the columns."""
    sets = (names for size in range(1, most + 1) for names in combinations(columns, size))
    return tuple(knowing(names, columns) for names in sets)


def _listed(known: object) -> list[Any]:
    if isinstance(known, Mapping) or not hasattr(known, "__iter__"):
        raise InvalidInputError(
            f"known={known!r} is no list of attackers: give e.g. [['age'], ['sex', 'town']]"
        )
    return list(known)


def _names_columns(entry: object) -> bool:
    """Whether an attacker is described by names of columns."""
    if isinstance(entry, np.ndarray) or not isinstance(entry, Sequence):
        return False
    return len(entry) > 0 and all(isinstance(name, str) for name in entry)


def _codes(entry: object, n_x: int, kept: NDArray[np.bool_] | None) -> NDArray[np.intp]:
    """The values of an array a(x), numbered from 0; one value each of the M symbols, or of all that were given."""
    values = list(np.asarray(entry).tolist()) if hasattr(entry, "__len__") else []
    if kept is not None and len(values) == kept.size:
        values = [value for value, stays in zip(values, kept, strict=True) if stays]
    if not values:
        raise InvalidInputError(
            "an attacker in known= knows no column: name some, or leave the entry out; who knows nothing is always "
            "among the attackers"
        )
    if len(values) != n_x:
        raise InvalidInputError(
            f"an attacker in known= is an array of {len(values)} values for {n_x} public symbols: give names of "
            "columns, or one value a symbol"
        )
    return _numbered(values)


def _numbered(values: Sequence[Any]) -> NDArray[np.intp]:
    """Each value's number by first appearance, shape (n,)."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.intp)
