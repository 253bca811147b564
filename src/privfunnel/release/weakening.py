"""What weakens a release: said before anything is drawn, and refused where it would break the promise."""

from __future__ import annotations

import re
import warnings
import zlib
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.data.engines import Column, Source
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawOptions
from privfunnel.release.publication import Policy
from privfunnel.release.sampler import Indices

#: Rows a stretch has at least.
BLOCK_ROWS = 10
#: Groups of values that were not seen at design time.
NEW_GROUPS = 32
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")


def warn(options: DrawOptions, *, stacklevel: int) -> None:
    """Say what weakens the guarantee."""
    told = []
    if options.seed is not None:
        told.append(
            f"seed={options.seed} makes the draws predictable: whoever knows it can undo the release; for experiments "
            "only"
        )
    if options.keep:
        told.append(
            f"kept columns ({', '.join(options.keep)}) are copied unchanged: the guarantee does not cover them, and "
            "together with the released column they void it"
        )
    if options.keep_order:
        told.append(
            "the rows stay in their order (keep_order): whoever knows how the table is sorted learns from a row's place"
        )
    for text in told:
        warnings.warn(text, GuaranteeWarning, stacklevel=stacklevel + 1)


def warn_of_decoys(mechanism: Mechanism, policy: Policy, *, stacklevel: int) -> None:
    """Say whom candidates and weights tell of: those whose public values few have.

    With the weights a reader can work out how p(s|x) differs between candidates. Against a reader who knows nothing of
    a row that is no more than the promise; whoever knows somebody's public values learns p(s|x) of them, and of a
    combination that few rows have that is nearly the private value itself.
    """
    rows = mechanism.rows * mechanism.p_x
    few = float(rows[policy.rare(rows)].sum())
    if few > 0.0:
        warnings.warn(
            f"decoys name combinations of public values that fewer than {policy.threshold} rows have, of {few:,.0f} of "
            f"{mechanism.rows:,.0f} rows: whoever knows such a person's public values can work out from candidates and "
            "weights how likely each private value is; use coarser values or release records where that matters",
            GuaranteeWarning,
            stacklevel=stacklevel + 1,
        )


def check_places(table: Source, mechanism: Mechanism, options: DrawOptions, *, stacklevel: int) -> None:
    """Refuse a release from which a row's place can be told where the private columns depend on it.

    The place is told by an order that is kept, and by a kept column that counts the rows. Whether a private column
    depends on it is found by permutation tests: of the column against stretches of the table, and of each second row
    against the row before it. Where the table lacks the private columns, nothing can be tested.

    Raises:
        InvalidInputError: A private column depends on the place of a row, and the release tells it.

    Warns:
        GuaranteeWarning: A kept column tells the place of a row.
    """
    if not (options.keep_order or options.keep):
        return
    private = [name for name in mechanism.private_names if name in table.columns]
    names = list(dict.fromkeys([*private, *options.keep]))
    columns: list[list[Indices]] = [[] for _ in private]
    counting = {name: _Counting() for name in options.keep}
    known = {column.name: column for column in mechanism.private}
    for batch in table.batches(names, options.batch_rows):
        for name, codes in zip(private, columns, strict=True):
            codes.append(_groups(known[name], batch.column(batch.schema.get_field_index(name))))
        for name, count in counting.items():
            count.add(batch.column(batch.schema.get_field_index(name)))
    telling = [name for name, count in counting.items() if count.ordered]
    if not (options.keep_order or telling):
        return
    rng = np.random.default_rng(0)  # a test, no draw: the same table gives the same verdict
    sorted_by = [
        name
        for name, codes in zip(private, columns, strict=True)
        if codes and depends_on_place(np.concatenate(codes), rng)
    ]
    how = "keep_order" if options.keep_order else f"the kept column {telling[0]!r}, which counts the rows,"
    if sorted_by:
        raise InvalidInputError(
            f"{how} would tell {sorted_by[0]!r}, which depends on the place of a row in the table: let the rows be "
            "shuffled"
            + ("" if options.keep_order else " and leave that column out, or give the rows new keys")
        )
    if telling:
        warnings.warn(
            f"kept columns ({', '.join(telling)}) count the rows: they give the order back that the shuffle hides",
            GuaranteeWarning,
            stacklevel=stacklevel + 1,
        )


def _groups(column: Column, array: Any) -> Indices:
    """Categories of a private column; values that the design has not seen fall into a few groups of their own."""
    codes = column.encode(array)
    new = codes < 0
    if new.any():
        texts = [str(array[int(i)].as_py()) for i in np.flatnonzero(new)]
        codes[new] = column.n_values + np.array([zlib.crc32(text.encode()) % NEW_GROUPS for text in texts])
    return codes.astype(np.int32)


def depends_on_place(codes: Indices, rng: np.random.Generator) -> bool:
    """Whether categories depend on the places of their rows; wrong about independent ones once in 500 times."""
    n = len(codes)
    _, codes = np.unique(codes, return_inverse=True)
    # Stretches of the table that a private column may differ between.
    blocks = min(64, n // BLOCK_ROWS)
    tables = []
    if blocks >= 2:
        block = np.arange(n) * blocks // n
        tables.append(_table(codes, block))
    if n >= 2 * BLOCK_ROWS:
        even = codes[: n - n % 2]
        tables.append(_table(even[::2], even[1::2]))
    return any(_beats_permutations(table, rng) for table in tables)


def _table(first: Indices, second: Indices) -> Array:
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1.0)
    return np.asarray(table[table.sum(axis=1) > 0.0][:, table.sum(axis=0) > 0.0])


def _beats_permutations(table: Array, rng: np.random.Generator) -> bool:
    """Whether a table of counts has more information than any of as many tables with its margins."""
    if min(table.shape) < 2:
        return False
    from scipy.stats import random_table

    margins = random_table(table.sum(axis=1).astype(np.int64), table.sum(axis=0).astype(np.int64))
    total = table.sum()
    found = float(measures.mutual_information(table / total))
    # Permutations that a private column is compared with; it depends on the place where it beats them all.
    drawn = (margins.rvs(random_state=rng) for _ in range(999))
    return all(float(measures.mutual_information(other / total)) < found for other in drawn)


class _Counting:
    """Whether the values of a column rise, or fall, from row to row: as numbers, or by the last number in a text."""

    def __init__(self) -> None:
        self.rises, self.falls, self.rows = True, True, 0
        self.last: float | None = None

    @property
    def ordered(self) -> bool:
        """Whether they do; of two rows and more."""
        return self.rows > 1 and (self.rises or self.falls)

    def add(self, array: Any) -> None:
        """Look at a batch."""
        if not (self.rises or self.falls) or len(array) == 0:
            return
        values = _as_numbers(array)
        if values is None or np.isnan(values).any():
            self.rises = self.falls = False
            return
        steps = np.diff(values if self.last is None else np.concatenate([[self.last], values]))
        self.rises, self.falls = (
            self.rises and bool((steps > 0).all()),
            self.falls and bool((steps < 0).all()),
        )
        self.last, self.rows = float(values[-1]), self.rows + len(values)


def _as_numbers(array: Any) -> Array | None:
    """Values as numbers, texts by the last number in them; None where there are none."""
    pa = need("pyarrow", "tables")
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = [_LAST_NUMBER.search(text or "") for text in array.to_pylist()]
        return None if None in found else np.array([float(match[1]) for match in found if match is not None])
    if pa.types.is_temporal(kind):
        array, kind = (
            array.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32(), safe=False),
            pa.int64(),
        )
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
