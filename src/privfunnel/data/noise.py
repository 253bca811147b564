"""Designs that may be published: noise on the counts before anything is computed from them.

Each cell of the table, also an empty one, gets discrete Laplace noise, P(z) ∝ exp(−ε|z|). A row more or less changes
one count by one, so the noisy counts are ε-differentially private, and so is whatever is made of them alone: problem,
solution, mechanism, codebook. The noise is drawn exactly, with whole numbers and the operating system's randomness: no
rounding of a floating-point number tells what was added. Which values a column can have, missing ones among them, and
its bins are taken as known, as is how the file is read; they are not protected. That the numbers in a bin are whole is
known where the column is read as whole numbers by an option, and nowhere else.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import Alphabet, Column, Cut
from privfunnel.data.engines.categories import Codes
from privfunnel.data.tables import Counts
from privfunnel.errors import InvalidInputError

#: Most cells that noise is drawn for, one by one.
MOST_CELLS = 250_000
#: ε is taken as the fraction with at most this denominator that is nearest from below.
DENOMINATOR = 10_000
#: The noise of a design: nobody can repeat it, which is what hides the rows.
SECURE: random.Random = random.SystemRandom()


def private_counts(counts: Counts, epsilon: float, source: random.Random = SECURE) -> Counts:
    """Counts with noise, ε-differentially private for tables that differ in one row.

    Noise is drawn for all combinations of the columns' values, whether they occur or not. Counts below 0 become 0, and
    symbols without rows are dropped, which needs no look at the table. Columns are those of :func:`known_columns`.

    Args:
        counts: The exact counts.
        epsilon: ε, for example 1.
        source: Random whole numbers; anything but the operating system's voids the promise and is for tests.

    Raises:
        InvalidInputError: ε is not positive, people have several rows or weights, the counts have score classes, there
            are too many combinations, or nothing is left.
    """
    rate = as_fraction(epsilon)
    if counts.person is not None:
        raise InvalidInputError(
            f"the design cannot be private where people have several rows ({counts.person!r}): keep one row a person"
        )
    counts.require_equal("noise for a private design")
    if counts.scores is not None:
        raise InvalidInputError(
            "score classes are made of the exact rows, so that noise would not hide them: leave one of the two out"
        )
    counts = known_columns(counts)
    s, x = (_all_symbols(alphabet) for alphabet in (counts.s_alphabet, counts.x_alphabet))
    if len(s) * len(x) > MOST_CELLS:
        raise InvalidInputError(
            f"{len(s)} × {len(x)} combinations of values are too many to add noise to (at most {MOST_CELLS}): use "
            "fewer columns or coarser bins"
        )
    table = np.zeros((len(s), len(x)), dtype=np.int64)
    at_s, at_x = s.places(counts.s_alphabet), x.places(counts.x_alphabet)
    table[at_s[counts.cell_s], at_x[counts.cell_x]] = counts.cell_n
    possible = _possible(s, x)
    noise = [discrete_laplace(rate, source) for _ in range(int(possible.sum()))]
    table[possible] = np.maximum(table[possible] + np.array(noise, dtype=np.int64), 0)
    if not table.any():
        raise InvalidInputError(f"with ε = {epsilon:g} the noise leaves no rows: choose a larger one")
    rows, columns = np.flatnonzero(table.sum(axis=1)), np.flatnonzero(table.sum(axis=0))
    kept = table[np.ix_(rows, columns)]
    cell_s, cell_x = np.nonzero(kept)
    return Counts(
        s.take(rows),
        x.take(columns),
        cell_s,
        cell_x,
        kept[cell_s, cell_x],
        read=counts.read,
        missing=counts.missing,
        epsilon=float(rate),
    )


def known_columns(counts: Counts) -> Counts:
    """The counts with columns as they are known without the rows: without means of bins, and without their being whole.

    One number with decimals would show in how all bins of its column are written. They are written as whole numbers
    where the column is read as such, ``types={"age": "integer"}``.
    """
    types = {} if counts.read is None else counts.read.types

    def known(alphabet: Alphabet) -> Alphabet:
        columns = (_known(column, whole=types.get(column.name) == "integer") for column in alphabet.columns)
        return Alphabet(tuple(columns), alphabet.codes)

    return replace(counts, s_alphabet=known(counts.s_alphabet), x_alphabet=known(counts.x_alphabet))


def _known(column: Column, *, whole: bool) -> Column:
    column, cut = replace(column, means=None, persons=None), column.bins
    if whole or not isinstance(cut, Cut) or cut.part:
        return column
    cut = replace(cut, integer=False)
    return replace(column, kind="number", bins=cut, values=(*cut.labels, *column.values[cut.size :]))


def discrete_laplace(rate: Fraction, source: random.Random = SECURE) -> int:
    """A whole number z with P(z) ∝ exp(−rate·|z|), drawn exactly: the difference of two geometric numbers."""
    return _geometric(rate, source) - _geometric(rate, source)


def as_fraction(epsilon: float) -> Fraction:
    """ε as a fraction, no larger than what was asked for.

    Raises:
        InvalidInputError: It is not a positive number.
    """
    if not (isinstance(epsilon, int | float | Fraction) and 0.0 < epsilon < float("inf")):
        raise InvalidInputError(f"ε = {epsilon!r} is no privacy parameter: give a positive number such as 1")
    asked = Fraction(epsilon)
    near = asked.limit_denominator(DENOMINATOR)
    rate = near if near <= asked else near - Fraction(1, DENOMINATOR * near.denominator)
    if rate <= 0:
        raise InvalidInputError(f"ε = {epsilon:g} is too small to be of use: give 0.001 or more")
    return rate


def _geometric(rate: Fraction, source: random.Random) -> int:
    """K ≥ 0 with probability (1 − q) q^k, q = exp(−rate).

    With rate a/b the integer part of g/a is such a number if g is one of rate 1/b; and such a g is u + b·v, with u < b
    of probability ∝ exp(−u/b) and v of rate 1.
    """
    a, b = rate.numerator, rate.denominator
    while True:
        u = source.randrange(b)
        if _happens(u, b, source):
            break
    v = 0
    while _happens(1, 1, source):
        v += 1
    return (u + b * v) // a


def _happens(numerator: int, denominator: int, source: random.Random) -> bool:
    """True with probability exp(−γ), γ = numerator/denominator ≤ 1, by whole numbers alone.

    Events of probabilities γ/1, γ/2, γ/3, … are tried until one fails: the first k all happen with probability γ^k/k!,
    so the first to fail is an odd one with probability 1 − γ + γ²/2 − … = exp(−γ).
    """
    tried = 1
    while source.randrange(denominator * tried) < numerator:
        tried += 1
    return tried % 2 == 1


def _all_symbols(alphabet: Alphabet) -> Alphabet:
    """Every combination of the columns' values."""
    sizes = [column.n_values for column in alphabet.columns]
    cells = 1
    for size in sizes:
        cells *= size
    if cells > MOST_CELLS:
        raise InvalidInputError(
            f"{cells} combinations of {', '.join(alphabet.names)} are too many to add noise to (at most {MOST_CELLS}): "
            "use fewer columns or coarser bins"
        )
    codes: Codes = np.stack(np.unravel_index(np.arange(cells), sizes), axis=1).astype(np.int64)
    return Alphabet(alphabet.columns, codes)


def _possible(s: Alphabet, x: Alphabet) -> NDArray[np.bool_]:
    """Pairs of symbols that agree in the columns that are both private and public."""
    possible = np.ones((len(s), len(x)), dtype=bool)
    for name in set(s.names) & set(x.names):
        possible &= s.codes[:, [s.names.index(name)]] == x.codes[:, x.names.index(name)]
    return possible
