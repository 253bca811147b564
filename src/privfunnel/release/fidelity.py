"""What survives in released records: values left as they were, margins, pairs of columns, and sums of numbers.

All of it is the steward's: it is exact, and no part of what is published. A report rounds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import Column, Cut, ReadOptions, open_table
from privfunnel.data.engines.categories import Codes, canonical, shown
from privfunnel.data.engines.source import Tails
from privfunnel.errors import need
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import RecordAlphabet

Index = NDArray[np.intp]

#: Shares of the rows at which the numbers of a column are compared.
QUARTILES = (0.25, 0.5, 0.75)
#: Cells of a pair of columns up to which a table of all of them is made.
MOST_CELLS = 2**22
#: Combinations of values up to which columns are counted together.
TOGETHER = 2**9
BATCH_ROWS = 131_072


@dataclass(frozen=True)
class Numbers:
    """Mean, standard deviation and quartiles of a column's numbers; missing ones are left out.

    ``inner`` are mean and standard deviation with the numbers that only a few have moved inwards, where they are known:
    what a report compares, since a single number far out shows in the others.
    """

    mean: float
    sd: float
    quartiles: tuple[float, float, float]
    inner: tuple[float, float] | None = None


@dataclass(frozen=True)
class ColumnFidelity:
    """What survives of one public column.

    Attributes:
        name: The column.
        unchanged: Share of the rows whose value is written as it was; a bin counts as one value.
        margin: Largest difference between the shares of a value before and after, and ``value`` which value.
        value: See there.
        before: The numbers of the table, ``after`` those of the release; None for a column of others.
    """

    name: str
    unchanged: float
    margin: float
    value: str
    before: Numbers | None = None
    after: Numbers | None = None


@dataclass(frozen=True)
class RowPair:
    """A row before and after, the public columns as texts."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Fidelity:
    """What survives of all public columns.

    Attributes:
        rows: Rows that were released.
        columns: Column by column.
        pair: The two columns whose cross-tabulation changes most; None where there is one column.
        pair_margin: Largest difference between the shares of a pair of their values before and after.
        sample: Some rows before and after.
    """

    rows: int
    columns: tuple[ColumnFidelity, ...]
    pair: tuple[str, str] | None = None
    pair_margin: float = 0.0
    sample: tuple[RowPair, ...] = ()

    @property
    def words(self) -> list[str]:
        """What survives, as sentences."""
        least, most = (choose(self.columns, key=lambda c: c.unchanged) for choose in (min, max))
        kept = f"{100 * least.unchanged:.1f} % ({least.name})"
        if len(self.columns) > 1:
            kept = f"between {kept} and {100 * most.unchanged:.1f} % ({most.name})"
        margin = max(self.columns, key=lambda c: c.margin)
        lines = [
            f"Of the released values {kept} are what they were. The share of no value changes by more than "
            f"{100 * margin.margin:.1f} points ({margin.name}={margin.value})"
            + ("." if self.pair is None else f", of no pair of values by more than {100 * self.pair_margin:.1f} points "
               f"({self.pair[0]} and {self.pair[1]}).")
        ]  # fmt: skip
        for each in self.columns:
            if each.before is not None and each.after is not None:
                b, a = each.before, each.after
                lines.append(
                    f"{each.name}: mean {figures(b.mean)} before, {figures(a.mean)} after; standard deviation "
                    f"{figures(b.sd)}, {figures(a.sd)}; quartiles {_listed(b.quartiles)}, {_listed(a.quartiles)}."
                )
        return lines


def figures(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, written plainly up to six figures: ``1503``, ``150300``."""
    return f"{float(f'{value:.{digits}g}'):.6g}"


def _listed(values: tuple[float, ...]) -> str:
    return " ".join(map(figures, values))


@dataclass
class Sums:
    """Number, mean and squared distances from it of numbers that go by."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: Array) -> None:
        """Add some, all of them finite."""
        if not len(values):
            return
        total = self.n + len(values)
        shift = float(values.mean()) - self.mean
        inside = float(((values - values.mean()) ** 2).sum())
        self.squares += inside + shift**2 * self.n * len(values) / total
        self.mean += shift * len(values) / total
        self.n = total

    @property
    def sd(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.squares / self.n)


@dataclass
class Series:
    """Numbers that go by: their sums, also with the ends beyond ``tails`` moved inwards, and an even sample of them."""

    tails: Tails | None = None
    sums: Sums = field(default_factory=Sums)
    inner: Sums = field(default_factory=Sums)
    stride: int = 1
    seen: int = 0
    sample: list[Array] = field(default_factory=list)

    def add(self, array: object) -> None:
        """Look at an Arrow array; one that holds no numbers is passed over."""
        values = _numbers(array)
        if values is None:
            return
        start, self.seen = self.seen, self.seen + len(values)
        chosen = values[-start % self.stride :: self.stride]
        self.sample.append(chosen[np.isfinite(chosen)])
        values = values[np.isfinite(values)]
        self.sums.add(values)
        if self.tails is not None:
            self.inner.add(np.clip(values, self.tails.low, self.tails.high))
        # Numbers of a column that are kept for its quartiles, at least where it has as many.
        if sum(map(len, self.sample)) > (2**16):
            self.sample, self.stride = [np.concatenate(self.sample)[::2]], 2 * self.stride

    def numbers(self) -> Numbers | None:
        """What was met; None where it was no number."""
        if self.sums.n == 0:
            return None
        low, middle, high = (float(q) for q in np.quantile(np.concatenate(self.sample), QUARTILES))
        inner = (self.inner.mean, self.inner.sd) if self.inner.n else None
        return Numbers(self.sums.mean, self.sums.sd, (low, middle, high), inner)


def _numbers(array: Any) -> Array | None:
    """A column's numbers, NaN where there is none; None for a column of others."""
    pa, pc = need("pyarrow", "tables"), need("pyarrow.compute", "tables")
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return np.asarray(
        pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64
    )


def numeric_columns(columns: tuple[Column, ...]) -> list[str]:
    """Names of the columns that hold numbers; parts of dates are none."""
    return [
        column.name
        for column in columns
        if column.kind in {"integer", "number"}
        and (column.bins is None or (isinstance(column.bins, Cut) and not column.bins.part))
    ]


def numbers_of(
    source: object,
    names: dict[str, str],
    read: ReadOptions | None,
    *,
    inner: bool = False,
    person: str | None = None,
) -> dict[str, Numbers]:
    """Mean, spread and quartiles of columns of a table that hold numbers.

    Args:
        source: The table.
        names: What to call each column, to its name in the table.
        read: How to read it.
        inner: Whether also with the numbers that only a few have moved inwards.
        person: The column that says who a row is about, where a few means people.
    """
    if not names:
        return {}
    with open_table(source, read) as table:
        series = {called: Series() for called in names}
        for called, name in names.items() if inner else ():
            once = table if person not in table.kinds else table.each_once(str(person), name)
            if table.kinds.get(name) in {"integer", "number"}:
                series[called].tails = once.tails(name)
        for batch in table.batches(list(names.values()), BATCH_ROWS):
            for called, name in names.items():
                series[called].add(batch.column(batch.schema.get_field_index(name)))
    found = {name: each.numbers() for name, each in series.items()}
    return {name: numbers for name, numbers in found.items() if numbers is not None}


def measured(alphabet: RecordAlphabet, before: Array, after: Array, same: Array) -> Fidelity:
    """What survives in margins and pairs of values as they are written, rare ones as one.

    Args:
        alphabet: The records.
        before: Rows by public symbol, shape (M,); ``after`` by record, shape (records,).
        after: See there.
        same: Rows whose value is written as it was, by column.
    """
    rows = float(after.sum())
    p, q = before / max(float(before.sum()), 1.0), after / max(rows, 1.0)
    # Column by column and as narrow as they can be: passes over codes of many symbols are what takes the time.
    most = max(column.n_values for column in alphabet.columns)
    narrow = np.min_scalar_type(-most - 1)
    new, old = (
        np.ascontiguousarray(codes.astype(narrow).T)
        for codes in (alphabet.codes, alphabet.codes[alphabet.of_x])
    )
    columns = []
    for j, column in enumerate(alphabet.columns):
        size = column.n_values
        away = np.bincount(new[j], weights=q, minlength=size) - np.bincount(old[j], weights=p, minlength=size)
        worst = int(np.abs(away).argmax())
        columns.append(
            ColumnFidelity(
                alphabet.written[j].column.name,
                float(same[j]) / max(rows, 1.0),
                float(abs(away[worst])),
                alphabet.written[j].texts[worst],
            )
        )
    codes = list(np.concatenate([new, old], axis=1))
    away_of = _pairs(codes, np.concatenate([q, -p]))
    worst_pair = max(away_of, key=lambda pair: away_of[pair], default=None)
    if worst_pair is None:
        return Fidelity(int(rows), tuple(columns))
    i, j = worst_pair
    return Fidelity(int(rows), tuple(columns), (columns[i].name, columns[j].name), away_of[worst_pair])


def _pairs(codes: list[NDArray[Any]], shares: Array) -> dict[tuple[int, int], float]:
    """For each two columns, in order, the largest sum of ``shares`` (n,) in a cell of their cross-tabulation.

    Columns of few values are counted several at once, and each two of them are margins of that: passes over all rows
    are what takes the time.
    """
    widths = [int(each.max(initial=0)) + 1 for each in codes]
    groups: list[list[int]] = []
    for j, width in enumerate(widths):
        if groups and math.prod(widths[i] for i in groups[-1]) * width <= TOGETHER:
            groups[-1].append(j)
        else:
            groups.append([j])
    joined = [_joined([codes[j] for j in group], [widths[j] for j in group]) for group in groups]
    found: dict[tuple[int, int], float] = {}
    for a, b in combinations(range(len(groups)), 2) if len(groups) > 1 else [(0, 0)]:
        of = groups[a] if a == b else groups[a] + groups[b]
        shape = [widths[j] for j in of]
        missing = [pair for pair in combinations(of, 2) if pair not in found]
        if math.prod(shape) > MOST_CELLS:
            for i, j in missing:
                cells = _joined([codes[i], codes[j]], [widths[i], widths[j]])
                found[i, j] = _largest(cells, shares, widths[i] * widths[j])
            continue
        cells = joined[a] if a == b else joined[a] * math.prod(widths[j] for j in groups[b]) + joined[b]
        table = np.bincount(cells, weights=shares, minlength=math.prod(shape)).reshape(shape)
        for i, j in missing:
            found[i, j] = float(
                np.abs(table.sum(axis=tuple(k for k, x in enumerate(of) if x not in {i, j}))).max()
            )
    return {pair: found[pair] for pair in combinations(range(len(codes)), 2)}


def _largest(cells: Index, shares: Array, size: int) -> float:
    """The largest sum of ``shares`` (n,) in one of ``size`` cells."""
    if size > MOST_CELLS:
        cells = np.unique(cells, return_inverse=True)[1].reshape(-1)
    return float(np.abs(np.bincount(cells, weights=shares)).max())


def _joined(codes: list[NDArray[Any]], widths: list[int]) -> Index:
    """One code (n,) for the values of several columns together."""
    joined = codes[0].astype(np.intp)
    for code, width in zip(codes[1:], widths[1:], strict=True):
        joined = joined * width + code
    return joined


class Watch:
    """Measures what survives while rows are released.

    Args:
        mechanism: The mechanism.
        alphabet: The records that it writes.
    """

    def __init__(self, mechanism: Mechanism, alphabet: RecordAlphabet) -> None:
        """Nothing has gone by yet."""
        self.mechanism, self.alphabet = mechanism, alphabet
        self.names = mechanism.public_names
        self.before, self.after = np.zeros(len(mechanism.p_x)), np.zeros(len(alphabet))
        self.same = np.zeros(len(alphabet.columns))
        self.series = {name: (Series(), Series()) for name in numeric_columns(mechanism.public)}
        self.sample: list[RowPair] = []

    def add(self, batch: Any, x: Codes, drawn: Codes, released: list[Any]) -> None:
        """Look at a batch.

        Args:
            batch: The rows that were released.
            x: Their public symbols; M or more for one that was not seen at design time.
            drawn: The public symbols that were drawn for them.
            released: Their records, an Arrow column each.
        """
        known = x < len(self.before)
        np.add.at(self.before, x[known], 1.0)  # no array of all symbols for each batch
        written = self.alphabet.of_x[drawn]
        np.add.at(self.after, written, 1.0)
        own, written = self.alphabet.of_x[x[known]], written[known]
        changed = np.flatnonzero(own != written)
        # Most records are often what they were: their columns need not be looked up.
        kept = (self.alphabet.codes[written[changed]] == self.alphabet.codes[own[changed]]).sum(axis=0)
        self.same += len(own) - len(changed) + kept
        originals = [batch.column(batch.schema.get_field_index(name)) for name in self.names]
        for j, name in enumerate(self.names):
            if name in self.series:
                for series, array in zip(self.series[name], (originals[j], released[j]), strict=True):
                    series.add(array)
        if not self.sample and len(x):
            # Rows that are shown before and after.
            rows = np.unique(np.linspace(0, len(x) - 1, min(5, len(x))).astype(int)).tolist()
            self.sample = [RowPair(_texts(originals, row), _texts(released, row)) for row in rows]

    def found(self) -> Fidelity:
        """What has survived."""
        told = measured(self.alphabet, self.before, self.after, self.same)
        columns = []
        for each in told.columns:
            before, after = (one.numbers() for one in self.series.get(each.name, (Series(), Series())))
            columns.append(replace(each, before=before, after=after))
        return replace(told, columns=tuple(columns), sample=tuple(self.sample))


def _texts(arrays: list[Any], row: int) -> tuple[str, ...]:
    return tuple(shown(canonical(array[row].as_py())) for array in arrays)
