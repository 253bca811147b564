"""What a release tells attackers who know some of the public columns already: I(S;Y|A).

Of the rows at hand it is exact; of the population they come from, rows that a design had no part in give a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel import measures
from privfunnel.data.engines import Alphabet
from privfunnel.data.engines.categories import Codes
from privfunnel.data.population.bounds import population_bound
from privfunnel.measures import Array, Channel
from privfunnel.model.amounts import amount, told
from privfunnel.model.attackers import Attacker, Columns, few_columns

#: Entries of the channel, times attackers, up to which those who know two columns are looked at; beyond, those who know
#: one. Ten columns of 20 000 public symbols with two outputs each are 2 million.
MOST_ENTRIES = 20_000_000
#: Public symbols from which on only the channel's entries above 0 are looked at.
SPARSE_FROM = 2000
#: Entries of the table (s, y, a) of an attacker up to which a bound is computed.
LARGEST = 500_000


@dataclass(frozen=True)
class Informed:
    """An attacker who knows public columns of the target.

    Attributes:
        columns: What is known, names joined by commas.
        leakage: I(S;Y|A) in nats: what the release adds for this attacker, on average.
        ceiling: I(S;X|A) in nats: what publishing the public columns as they are would add.
    """

    columns: str
    leakage: float
    ceiling: float


def informed(x_alphabet: Alphabet, p_sx: Array, channel: Channel) -> tuple[Informed, ...]:
    """The attackers who know any one or two public columns, the one who learns most first.

    Args:
        x_alphabet: The M public symbols.
        p_sx: p(s, x), shape (K, M).
        channel: p(y|x), shape (M, N), dense or sparse.
    """
    columns, large = columns_of(x_alphabet), p_sx.shape[1] > SPARSE_FROM
    entries = sparse.coo_array(channel) if large else None
    pairs = math.comb(len(columns), 2)
    two = entries is None or pairs * (p_sx.shape[1] + entries.nnz) <= MOST_ENTRIES
    found = []
    for each in few_columns(columns, 2 if two else 1):
        ceiling = _ceiling(p_sx, each)
        learnt = each.leakage(p_sx, channel) if entries is None else _learnt(p_sx, entries, each)
        found.append(Informed(each.name, min(learnt, ceiling), ceiling))
    return tuple(sorted(found, key=lambda each: -each.leakage))


class Triples(NamedTuple):
    """How often each (s, x, y) was released: symbols of each entry, and ``n`` its rows; arrays of shape (entries,)."""

    s: NDArray[np.intp]
    x: NDArray[np.intp]
    y: NDArray[np.intp]
    n: NDArray[np.int64]

    def known(self, values: Codes, shape: tuple[int, int, int]) -> Array:
        """Rows by (s, y, a), of shape (K, N, A), with ``values`` a(x) of each public symbol."""
        n_s, n_y, n_a = shape
        cells = (self.s * n_y + self.y) * n_a + values[self.x]
        counted = np.bincount(cells, weights=self.n, minlength=n_s * n_y * n_a)
        return counted.reshape(shape).astype(np.float64)


@dataclass(frozen=True)
class InformedBound:
    """What an attacker who knows public columns learns in the population, at most.

    Attributes:
        columns: What is known, names joined by commas; ``known`` how many they are.
        upper: A bound of I(S;Y|A), nats.
    """

    columns: str
    known: int
    upper: float


def columns_of(alphabet: Alphabet) -> Columns:
    """The columns of public symbols, with their values in each."""
    return {name: tuple(values) for name, values in alphabet.column_labels.items()}


def informed_bounds(
    columns: Columns, released: Triples, shape: tuple[int, int], confidence: float
) -> tuple[InformedBound, ...]:
    """Bounds of I(S;Y|A) for attackers who know any one column, or any two of a few; the largest first.

    With probability at least ``confidence`` all of them hold together, if the columns have no other values in the
    population: each has an equal part of the error probability.

    Args:
        columns: The public columns, with their values in each public symbol of the whole table.
        released: Rows that the mechanism was not designed on, as released.
        shape: K and N.
        confidence: For example 0.95.
    """
    one, two = (few_columns(columns, most) for most in (1, 2))
    # Attackers who know two columns are bounded where that makes no more attackers than this.
    some = two if len(two) <= 15 else one
    found = []
    for number, each in enumerate(some):
        upper = math.log(min(shape))
        if shape[0] * shape[1] * each.n_values <= LARGEST:
            table = released.known(each.values, (*shape, each.n_values))
            sure = 1.0 - (1.0 - confidence) / len(some)
            upper = min(population_bound(table, sure, method="tilting").upper, upper)
        found.append(InformedBound(each.name, 1 if number < len(one) else 2, upper))
    return tuple(sorted(found, key=lambda each: -each.upper))


def _ceiling(p_sx: Array, attacker: Attacker) -> float:
    """I(S;X|A) in nats; A is a function of X."""
    p_sa = np.stack([p_sx[:, group].sum(axis=1) for group in attacker.groups()], axis=1)
    return measures.conditional_information(p_sa, p_sx)


def _learnt(p_sx: Array, channel: sparse.coo_array, attacker: Attacker) -> float:
    """I(S;Y|A) in nats, from the entries of a channel (M, N), however many values A has."""
    x, y = channel.coords
    known, number = np.unique(attacker.values[x] * channel.shape[1] + y, return_inverse=True)
    told = number.reshape(-1)
    p_say = np.stack([np.bincount(told, row[x] * channel.data, known.size) for row in p_sx])
    p_sa = np.stack([np.bincount(attacker.values, row) for row in p_sx])
    return measures.conditional_information(p_sa, p_say)


def how_many(found: tuple[Informed, ...]) -> str:
    """How many public columns the attackers know: pairs are left out where a table has many columns."""
    return "one or two" if any("," in each.columns for each in found) else "one"


def words(found: tuple[Informed, ...], alone: float) -> list[str]:
    """What the attacker who learns most learns, beside one who knows nothing.

    Args:
        found: The attackers, the one who learns most first.
        alone: I(S;Y), what the release tells an attacker who knows nothing else, in nats.
    """
    if not found:
        return []
    worst = found[0]
    return [
        f"Of attackers who know {how_many(found)} of the public columns of their target, one who knows {worst.columns} "
        "learns most: "
        f"{amount(worst.leakage)} of the {told(worst.ceiling)} that the columns as they are would "
        f"add; one who knows nothing learns {amount(alone)}."
    ]
