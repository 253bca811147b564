"""Original and released rows side by side, as counts of pairs; neither table is held in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from privfunnel.audit.extra_columns import FileRows, Reading, further_columns, gather
from privfunnel.audit.pairs import Pairs
from privfunnel.audit.persons import ALONE, PersonRows, Together, counted, gathered, pieces_of
from privfunnel.data import tables
from privfunnel.data.engines import Alphabet, Column, ReadOptions, Source, open_table
from privfunnel.data.engines.categories import Codes
from privfunnel.errors import IdentifierWarning, InvalidInputError, ReadingWarning, SmallSampleWarning, need
from privfunnel.measures import Array, Channel
from privfunnel.release.batch_writer import original as original_text
from privfunnel.release.candidates import ROW, WEIGHT
from privfunnel.release.decoy_alphabet import DecoyAlphabet, read_decoys
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.order import Order
from privfunnel.release.publication import Policy
from privfunnel.release.records import RecordAlphabet, released_names

BATCH_ROWS = 131_072


@dataclass(frozen=True, eq=False)
class Sample:
    """Counts of pairs of one original and one released table.

    Attributes:
        counts: The original's counts (S, X), with their columns; ``matched`` those of its rows that have a partner.
        sy: Rows by (s, y), shape (K, N); ``xy`` by (x, y), shape (M, N), a SciPy sparse array where that is large.
        y_alphabet: The N released symbols.
        unmatched: Rows of either table without a partner, where rows are matched by key.
        further: Columns of the released file that are not the release.
        rows: The matched rows where they are needed one by one, shape (rows, 4 + further columns): row of the original,
            s, x, y, and the category of each further column.
        people: The same with whom they are about, and in which cluster they were sampled, where a column says that.
    """

    counts: tables.Counts
    matched: tables.Counts
    sy: Array
    xy: Channel
    y_alphabet: Alphabet
    unmatched: int = 0
    further: tuple[Reading, ...] = ()
    rows: Codes | None = None
    people: PersonRows | None = None

    def file(self, rng: np.random.Generator) -> FileRows | None:
        """The rows with every further column, one of each person or cluster; None where the file has no such column."""
        if not self.further or self.rows is None:
            return None
        rows = self.rows if self.people is None else self.rows[self.people.one_each(rng)]
        return gather(rows[:, [1, *range(3, rows.shape[1])]], self.further)

    @property
    def evidence(self) -> int:
        """Independent rows of the original: all of them, or as many as persons or clusters."""
        return self.counts.n if self.people is None else self.people.pieces

    @property
    def n(self) -> int:
        """Rows that were matched."""
        return int(self.sy.sum())

    @property
    def y_labels(self) -> tuple[str, ...]:
        """Names of the released symbols."""
        if len(self.y_alphabet.columns) == 1:
            return tuple(str(value) for (value,) in self.y_alphabet.values)
        return self.y_alphabet.labels


def align(
    original: object,
    released: object,
    counts: tables.Counts,
    *,
    mechanism: Mechanism | None = None,
    on: str | None = None,
    order: Order | None = None,
    together: Together = ALONE,
    bins: Mapping[str, Any] | None = None,
    read: ReadOptions | None = None,
    read_released: ReadOptions | None = None,
) -> Sample:
    """Pair the rows of two tables: by the column ``on``, by the ``order`` of a shuffled release, or one by one.

    Where columns of the original say which rows go ``together``, they are kept one by one.

    Raises:
        InvalidInputError: The tables have different numbers of rows, the key is missing or not unique, or the release
            holds something that the mechanism cannot have released.
    """
    with open_table(released, read_released) as after:
        policy = Policy() if order is None else Policy(max(order.threshold, 2))
        y = _released_symbols(after, mechanism, on, bins or {}, policy)
        others = further_columns(after, [name for name in after.columns if name not in y.names])
        with open_table(original, read) as before:
            _require_key(before, after, on)
            pieces = pieces_of(before, together)
            left, right = _original_rows(before, counts, on), _released_rows(after, y, others, on)
            shape = (counts.n_s, counts.n_x, len(y))
            rows: list[Codes] | None = [] if others or together != ALONE else None
            if on is None:
                unmatched = 0
                if order is not None:
                    left, right, unmatched = _in_order(left, right, order)
                matched = counts
                if unmatched:
                    some = list(left)
                    matched, left = _recounted(counts, some), iter(some)
                sy, xy = _by_order(left, right, shape, rows)
            else:
                sy, xy, cells, unmatched = _by_key(left, right, shape, on, rows)
                matched = replace(counts, cell_s=cells[0], cell_x=cells[1], cell_n=cells[2], tasks=())
    found = None if rows is None else np.concatenate(rows)
    who = None
    if found is not None:
        person, cluster = (None if codes is None else codes[found[:, 0]] for codes in pieces)
        who = gathered(together, (person, cluster), (found[:, 1], found[:, 2], found[:, 3]))
    return Sample(counts, matched, sy, xy, y, unmatched, others, found, who)


class Block(NamedTuple):
    """Some rows of the original: private and public symbols, keys where rows have them, and places in the table."""

    s: Codes
    x: Codes
    key: Any
    place: Codes


def _original_rows(table: Source, counts: tables.Counts, on: str | None) -> Iterator[Block]:
    """The rows of the original, batch by batch."""
    s, x = counts.s_alphabet, counts.x_alphabet
    s_of, x_of = s.recogniser(), x.recogniser()
    start = 0
    for batch in table.batches(_with_key((*s.names, *x.names), on), BATCH_ROWS):
        place = np.arange(start, start + batch.num_rows)
        start += batch.num_rows
        yield Block(s_of(s.encode(batch)), x_of(x.encode(batch)), _key(batch, on), place)


def _released_rows(
    table: Source, y: Alphabet, others: Sequence[Reading], on: str | None
) -> Iterator[tuple[Codes, Any]]:
    """Released symbols, categories of the further columns, shape (rows, 1 + columns), and keys, batch by batch."""
    names = [*y.names, *(other.name for other in others)]
    if isinstance(y, DecoyAlphabet):
        # Candidates of one row may lie in two batches: the table is put together by its rows' numbers.
        batches = list(table.batches(_with_key(names, on), BATCH_ROWS))
        lists, begin = read_decoys(y, batches)
        whole = need("pyarrow", "tables").Table.from_batches(batches).take(begin) if batches else None
        seen = [] if whole is None else [other.encode(whole.column(other.name)) for other in others]
        yield np.stack([lists, *seen], axis=1), None if on is None or whole is None else whole.column(on)
        return
    y_of = y.recogniser()
    for batch in table.batches(_with_key(names, on), BATCH_ROWS):
        found = [_known(y_of(y.encode(batch)), batch, y.columns)]
        found += [other.encode(batch.column(batch.schema.get_field_index(other.name))) for other in others]
        yield np.stack(found, axis=1), _key(batch, on)


def _with_key(names: Sequence[str], on: str | None) -> list[str]:
    """Columns to read, each once."""
    return list(dict.fromkeys([*names, *([] if on is None else [on])]))


def _require_key(before: Source, after: Source, on: str | None) -> None:
    for table in (before, after):
        if on is not None and on not in table.columns:
            raise InvalidInputError(
                f"{table.name} has no column {on!r} to match rows on: keep the key, or match by order"
            )


def _released_symbols(
    table: Source, mechanism: Mechanism | None, on: str | None, bins: Mapping[str, Any], policy: Policy
) -> Alphabet:
    """The symbols that the released columns can form."""
    names = [name for name in table.columns if name != on]
    plain = {original_text(name): name for name in names} | {name: name for name in names}
    if mechanism is not None and set(released_names(mechanism)) <= set(plain):
        header = [plain[name] for name in released_names(mechanism)]
        if {ROW, WEIGHT} <= set(names):
            return DecoyAlphabet.of(mechanism, policy, header)
        return RecordAlphabet.of(mechanism, policy, header)
    if mechanism is not None:
        name = "released" if "released" in names else names[0] if len(names) == 1 else None
        if name is None:
            raise InvalidInputError(
                f"{table.name} has neither the column 'released' nor the public columns "
                f"{', '.join(released_names(mechanism))}: it was not released by this mechanism"
            )
        column = Column(name, "text", mechanism.y_labels)
        return Alphabet((column,), np.arange(mechanism.n_y)[:, None])
    used = {name: rule for name, rule in bins.items() if name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", IdentifierWarning)  # told when the mechanism was designed
        warnings.simplefilter("ignore", ReadingWarning)
        found = tables.count(table, private=names[:1], public=names, bins=used)
    return found.x_alphabet


def _key(batch: Any, on: str | None) -> Any:
    return None if on is None else batch.column(batch.schema.get_field_index(on))


def _known(y: Codes, batch: Any, columns: Sequence[Column]) -> Codes:
    bad = np.flatnonzero(y < 0)
    if len(bad):
        row = {
            c.name: batch.column(batch.schema.get_field_index(c.name))[int(bad[0])].as_py() for c in columns
        }
        raise InvalidInputError(
            f"the release holds {', '.join(f'{name}={value!r}' for name, value in row.items())}, which the mechanism "
            "never releases: is it the right mechanism?"
        )
    return y


def _in_order(
    left: Iterator[Block], right: Iterator[tuple[Codes, Any]], order: Order
) -> tuple[Iterator[Block], Iterator[tuple[Codes, Any]], int]:
    """Both tables' rows one by one in the order of the original, without those that were dropped, and how many were."""
    lines = np.concatenate([found for found, _ in right] or [np.zeros((0, 1), dtype=np.int64)])
    restored, released = order.restore(lines)

    def kept() -> Iterator[Block]:
        start = 0
        for s, x, key, place in left:
            mask = released[start : start + len(s)]
            start += len(s)
            if len(mask) < len(s):
                break
            yield Block(s[mask], x[mask], key, place[mask])
        if start != len(released):
            raise InvalidInputError(
                f"the order file is for a table of {len(released)} rows, and the original has another number: give the "
                "order file that was written with this release"
            )

    return kept(), iter([(restored, None)]), int((~released).sum())


def _recounted(counts: tables.Counts, rows: Sequence[Block]) -> tables.Counts:
    """Counts of some of the rows of a table."""
    s, x = (np.concatenate(codes) for codes in ([b.s for b in rows], [b.x for b in rows]))
    return counted(counts, s, x)


def _by_order(
    left: Iterator[Block],
    right: Iterator[tuple[Codes, Any]],
    shape: tuple[int, int, int],
    kept: list[Codes] | None,
) -> tuple[Array, Channel]:
    """Counts (s, y) and (x, y) of rows paired one by one; the rows themselves go to ``kept``, see :class:`Sample`."""
    n_s, n_x, n_y = shape
    sy, xy = np.zeros(n_s * n_y), Pairs(n_x, n_y)
    waiting: list[Codes] = []
    rows = [0, 0]
    for s, x, _, place in left:
        rows[0] += len(s)
        parts = waiting
        while sum(map(len, parts)) < len(s):
            found, _key_column = next(right, (None, None))
            if found is None:
                break
            rows[1] += len(found)
            parts.append(found)
        if not parts:
            continue
        joined = np.concatenate(parts)
        seen, waiting = joined[: len(s)], [joined[len(s) :]]
        y = seen[:, 0]
        if kept is not None:
            kept.append(np.column_stack([place[: len(y)], s[: len(y)], x[: len(y)], seen]))
        sy += np.bincount(s[: len(y)] * n_y + y, minlength=len(sy))
        xy.add(x[: len(y)], y)
    rows[1] += sum(len(y) for y, _ in right)
    if rows[0] != rows[1]:
        raise InvalidInputError(
            f"the original has {rows[0]} rows and the release {rows[1]}: match them by a kept key (--on COLUMN)"
        )
    return sy.reshape(n_s, n_y), xy.table()


def _by_key(
    left: Iterator[Block],
    right: Iterator[tuple[Codes, Any]],
    shape: tuple[int, int, int],
    on: str,
    kept: list[Codes] | None,
) -> tuple[Array, Channel, tuple[Codes, Codes, Codes], int]:
    """Codes and keys, a few bytes a row, are joined in Arrow."""
    pa = need("pyarrow", "tables")
    n_s, n_x, n_y = shape
    before = pa.concat_tables([pa.table({"key": b.key, "s": b.s, "x": b.x, "place": b.place}) for b in left])
    after = pa.concat_tables(
        [pa.table({"key": key, **{f"y{j}": codes for j, codes in enumerate(y.T)}}) for y, key in right]
    )
    for table, what in ((before, "original"), (after, "release")):
        if len(table["key"].unique()) < len(table) or table["key"].null_count:
            raise InvalidInputError(
                f"the key {on!r} is not unique in the {what}, or has nulls: choose another one"
            )
    if before["key"].type != after["key"].type:
        before, after = (t.set_column(0, "key", t["key"].cast(pa.string())) for t in (before, after))
    both = before.join(after, "key", join_type="inner")
    if len(both) == 0:
        raise InvalidInputError(f"no value of {on!r} is in both tables: is it the right key?")
    s, x, y = (both[name].to_numpy() for name in ("s", "x", "y0"))
    if kept is not None:
        others = [both[name].to_numpy() for name in after.column_names[2:]]
        kept.append(np.column_stack([both["place"].to_numpy(), s, x, y, *others]))
    sy = np.bincount(s * n_y + y, minlength=n_s * n_y).astype(np.float64)
    xy = Pairs(n_x, n_y)
    xy.add(x, y)
    unmatched = len(before) + len(after) - 2 * len(both)
    cells, n = np.unique(s * n_x + x, return_counts=True)
    matched = (cells // n_x, cells % n_x, n.astype(np.int64))
    return sy.reshape(n_s, n_y), xy.table(), matched, unmatched
