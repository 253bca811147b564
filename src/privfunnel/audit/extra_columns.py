"""Columns that a released file holds besides the release: kept or added, outside the promise, and in plain sight.

They are read whatever they are: numbers and dates by quantiles, everything else by its most frequent values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.audit import attacker
from privfunnel.audit.attacker import Score
from privfunnel.data.engines import Source
from privfunnel.data.engines.categories import Codes
from privfunnel.errors import need
from privfunnel.measures import Array

#: Categories a further column is read with.
LEVELS = 16
#: Rows that quantiles and frequent values are taken from, and rows that an association is tested on.
LOOK_ROWS, TEST_ROWS = 200_000, 20_000
#: An honest file is said to tell more than its release at most so often.
ALARM, PERMUTATIONS = 0.005, 999


@dataclass(frozen=True, eq=False)
class Reading:
    """How a further column is turned into categories.

    Attributes:
        name: The column.
        edges: Inner edges of its bins, where it is a number or a date; ``values`` its frequent values otherwise.
        distinct: Different values among the rows looked at, ``looked``.
    """

    name: str
    edges: Array | None
    values: Any
    distinct: int
    looked: int

    @property
    def ordered(self) -> bool:
        """Whether the categories have an order."""
        return self.edges is not None

    @property
    def names_rows(self) -> bool:
        """Whether so many values are different that the column tells rows, and people, apart."""
        # A column with more different values than this share of its rows names rows.
        return self.looked > 2 * LEVELS and self.distinct > 0.5 * self.looked

    def encode(self, array: object) -> Codes:
        """Category of each row of an Arrow array; rare values share one, missing ones another."""
        if self.edges is not None:
            numbers = _numbers(array)
            codes = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isnan(numbers), len(self.edges) + 1, codes).astype(np.int64)
        pc = need("pyarrow.compute", "tables")
        found = pc.index_in(_texts(array), value_set=self.values)
        rare = pc.fill_null(found, len(self.values)).to_numpy(zero_copy_only=False)
        missing = pc.is_null(array).to_numpy(zero_copy_only=False)
        return np.where(missing, len(self.values) + 1, rare).astype(np.int64)


def further_columns(table: Source, names: Sequence[str]) -> tuple[Reading, ...]:
    """Look at columns of a table and decide how to read each."""
    if not names:
        return ()
    pa = need("pyarrow", "tables")
    batches, rows = [], 0
    for batch in table.batches(list(names), LOOK_ROWS):
        batches.append(batch)
        rows += batch.num_rows
        if rows >= LOOK_ROWS:
            break
    columns = {
        name: [batch.column(batch.schema.get_field_index(name)) for batch in batches] for name in names
    }
    return tuple(_reading(name, pa.chunked_array(parts), pa) for name, parts in columns.items() if parts)


def _reading(name: str, array: Any, pa: Any) -> Reading:
    pc = need("pyarrow.compute", "tables")
    if _is_measured(array.type, pa):
        numbers = _numbers(array)
        present = np.unique(numbers[~np.isnan(numbers)])
        if len(present) <= LEVELS:
            edges = present[1:]
        else:
            cuts = np.linspace(0.0, 1.0, LEVELS + 1)[1:-1]
            edges = np.unique(np.nanquantile(numbers, cuts, method="closest_observation"))
        return Reading(name, edges, None, len(present), len(array))
    counted = pc.value_counts(_texts(array).drop_null())
    order = np.argsort(-counted.field("counts").to_numpy(zero_copy_only=False), kind="stable")
    frequent = counted.field("values").take(pa.array(order[:LEVELS]))
    return Reading(name, None, frequent, len(counted), len(array))


def _is_measured(kind: Any, pa: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_temporal(kind)
    )


def _numbers(array: Any) -> Array:
    """Numbers and dates as floats; missing ones as NaN."""
    pa = need("pyarrow", "tables")
    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        array = array.cast(pa.int64())
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _texts(array: Any) -> Any:
    """An Arrow array as texts, whatever it holds."""
    pa = need("pyarrow", "tables")
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists and structures have no cast
        return pa.array(
            [None if value is None else repr(value) for value in array.to_pylist()], type=pa.string()
        )


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows of a file as counts of what they hold.

    Attributes:
        columns: The further columns.
        codes: Rows that differ, shape (combinations, 2 + columns): s, y, and the category of each further column.
        n: How often each occurs.
    """

    columns: tuple[Reading, ...]
    codes: Codes
    n: NDArray[np.int64]


def gather(rows: Codes, columns: tuple[Reading, ...]) -> FileRows:
    """Count rows, given as codes of shape (rows, 2 + columns)."""
    codes, n = np.unique(rows, axis=0, return_counts=True)
    return FileRows(columns, codes, n.astype(np.int64))


@dataclass(frozen=True)
class FurtherColumn:
    """What one further column adds to the release.

    Attributes:
        name: The column.
        added: Î(S; column | Y) less what permuted rows give, in nats.
        names_rows: It has so many values that it tells rows, and people, apart.
    """

    name: str
    added: float
    names_rows: bool


@dataclass(frozen=True)
class FileAttack:
    """An attacker trained on one private column: on the release alone, and on all columns of the file.

    Shares of right guesses on rows it has not seen are ``release`` and ``file``, with AUCs beside them.
    """

    attribute: str
    prior: float
    release: float
    file: float
    file_low: float
    release_high: float
    auc_release: float
    auc_file: float


@dataclass(frozen=True)
class Further:
    """What the columns of a file that are not the release add; nats.

    Attributes:
        columns: One entry a column, the most telling first.
        released: I(S;Y) of the released symbol; ``file`` that of everything in the file: more by Î(S;Z|Y) less what
            permuted rows give, of all further columns Z or of the most telling one, whichever is larger.
        p_value: How often rows whose private values are permuted among rows of the same released symbol look at least
            as telling, the most telling column and all columns together considered.
        attacks: One entry a private column; none without attackers.
    """

    columns: tuple[FurtherColumn, ...]
    released: float
    file: float
    p_value: float
    attacks: tuple[FileAttack, ...] = ()

    @property
    def leaks(self) -> bool:
        """Whether the further columns tell something about the private ones that the release does not."""
        return self.p_value <= ALARM or any(each.file_low > each.release_high for each in self.attacks)

    @property
    def added(self) -> float:
        """What they add, in nats."""
        return self.file - self.released


def further(
    rows: FileRows, private_codes: Codes, private: Sequence[str], *, released: float, attacker_rows: int,
    rng: np.random.Generator,
) -> Further:  # fmt: skip
    """Say what the further columns of a file add.

    The private values are permuted among rows of the same released symbol: then the further columns add nothing, and
    the place of the true rows among the permuted ones is uniform, whatever the number of rows.

    Args:
        rows: The file's rows.
        private_codes: Categories of each private symbol, shape (K, private columns).
        private: Names of the private columns.
        released: I(S;Y) of the release, in nats.
        attacker_rows: Most rows an attacker trains on; 0 for none.
        rng: Draws permutations, rows and folds.
    """
    sample = _rows(rows, TEST_ROWS, rng)
    told, p_value = _association(sample, rng)
    columns = sorted(
        (FurtherColumn(c.name, t, c.names_rows) for c, t in zip(rows.columns, told, strict=False)),
        key=lambda each: -each.added,
    )
    attacks: tuple[FileAttack, ...] = ()
    if attacker_rows:
        chosen = _rows(rows, attacker_rows, rng)
        attacks = tuple(
            _attack(name, private_codes[chosen[:, 0], j], chosen[:, 1:], rows.columns, rng)
            for j, name in enumerate(private)
        )
    return Further(tuple(columns), released, released + max(*told, 0.0), p_value, attacks)


def _rows(rows: FileRows, size: int, rng: np.random.Generator) -> Codes:
    """At most ``size`` rows, drawn without replacement, one a line."""
    n = rows.n
    if n.sum() > size:
        n = rng.multivariate_hypergeometric(n, size, method="marginals")
    return rng.permutation(np.repeat(rows.codes, n, axis=0))


def _association(rows: Codes, rng: np.random.Generator) -> tuple[list[float], float]:
    """By how much H(S, Y, Z) is lower than for permuted S, for each column Z and all together, and one p-value.

    The difference is the plug-in I(S;Z|Y) less its mean where Z adds nothing: the other entropies do not change.
    """
    y = rows[:, 1]
    order = np.argsort(y, kind="stable")
    s, y, z = rows[order, 0], y[order], rows[order, 2:]
    together = np.unique(z, axis=0, return_inverse=True)[1].reshape(-1)
    seen = [
        np.unique(np.stack([y, column], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        for column in (*z.T, together)
    ]
    width = int(s.max()) + 1

    def entropies(private: Codes) -> list[float]:
        counts = (np.bincount(place * width + private) for place in seen)
        return [float(measures.entropy(each / len(s))) for each in counts]

    found = [entropies(s)]
    for _ in range(PERMUTATIONS):
        # Rows stay sorted by y: a random order within each y permutes S there.
        found.append(entropies(s[np.lexsort((rng.random(len(s)), y))]))
    table = np.array(found)
    less, scale = table.mean(axis=0) - table, table.std(axis=0)
    surprise = np.divide(less, scale, out=np.zeros_like(less), where=scale > 1e-12).max(axis=1)
    p_value = float((surprise >= surprise[0] - 1e-9).sum() / len(table))
    return [float(max(value, 0.0)) for value in table[1:].mean(axis=0) - table[0]], p_value


def _attack(
    name: str, target: Codes, features: Codes, columns: tuple[Reading, ...], rng: np.random.Generator
) -> FileAttack:
    unordered = [0, *(j + 1 for j, column in enumerate(columns) if not column.ordered)]
    categories = [j for j in unordered if 0 < features[:, j].max() < attacker.MAX_CATEGORIES]
    alone: Score = attacker.score_rows(features[:, :1], target, [j for j in categories if j == 0], rng)
    whole = attacker.score_rows(features, target, categories, rng)
    return FileAttack(
        attribute=name,
        prior=float(np.bincount(target).max() / len(target)),
        release=alone.accuracy.value,
        file=whole.accuracy.value,
        file_low=whole.accuracy.low,
        release_high=alone.accuracy.high,
        auc_release=alone.auc,
        auc_file=whole.auc,
    )
