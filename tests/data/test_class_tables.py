"""Classes counted where the rows are, and releases made of them: the same classes, channel and draws as elsewhere."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import release
from privfunnel.data import class_tables, tables
from privfunnel.data.class_tables import ClassCounts
from privfunnel.errors import InvalidInputError, PrivFunnelError, SmallSampleWarning
from privfunnel.model.coupling import couple
from privfunnel.model.equal_symbols import Lumping, lump
from privfunnel.release import classwise
from privfunnel.release.randomness import seeded
from wide import wide_columns

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

PUBLIC = ["a", "b", "c"]
COLUMNS = wide_columns(3000)


@pytest.fixture(scope="module")
def lumping() -> Lumping:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return lump(tables.count(pa.table(COLUMNS), private="ill", public=PUBLIC).problem())


@pytest.fixture(scope="module")
def counts() -> ClassCounts:
    return class_tables.count(pa.table(COLUMNS), private="ill", public=PUBLIC)


def sorted_columns(table: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, np.asarray(table).astype(int).T.tolist()))


@pytest.mark.parametrize("engine", ["pyarrow", "pandas", "polars", "duckdb"])
def test_every_engine_finds_the_classes_of_lumping(engine: str, lumping: Lumping) -> None:
    frame = pa.table(COLUMNS)
    if engine != "pyarrow":
        module = pytest.importorskip(engine)
        make = {
            "pandas": lambda: frame.to_pandas(), "polars": lambda: module.from_arrow(frame),
            "duckdb": lambda: module.from_arrow(frame),
        }  # fmt: skip
        frame = make[engine]()
    found = class_tables.count(frame, private="ill", public=PUBLIC)
    assert sorted_columns(found.table) == sorted_columns(lumping.lumped.counts)
    assert (found.n, found.n_x, found.n_classes) == (3000, lumping.problem.n_x, lumping.n_classes)
    assert found.s_values == (("no",), ("yes",))
    assert found.h_x == pytest.approx(lumping.problem.disclosure_ceiling, abs=1e-12)
    assert found.h_within == pytest.approx(lumping.h_within, abs=1e-12)


def test_missing_values_are_values_and_the_order_of_rows_is_of_no_matter() -> None:
    rows = {
        "s": ["y", None, "n", "y", None, "y"],
        "x": ["u", None, None, "u", "v", None],
        "z": [1, 1, 2, 1, 2, 2],
    }
    found = class_tables.count(pa.table(rows), private="s", public=["x", "z"])
    assert found.s_values == (("n",), ("y",), (None,))
    assert sorted_columns(found.table) == [(0, 0, 2), (0, 2, 0), (1, 1, 0)]
    assert sorted(found.members.tolist()) == [1, 1, 2]
    again = pa.table({name: values[::-1] for name, values in rows.items()})
    assert class_tables.count(again, private="s", public=["x", "z"]).table.tolist() == found.table.tolist()


def test_the_curve_of_the_classes_is_that_of_the_table(counts: ClassCounts, lumping: Lumping) -> None:
    disclosure = 0.96 * counts.h_x
    of_classes = pf.solve(counts.problem(), disclosure=counts.inner(disclosure))
    of_table = pf.solve(lumping.problem, disclosure=disclosure)
    assert of_classes.leakage == pytest.approx(of_table.leakage, abs=2e-6)
    assert counts.inner(0.0) == 0.0
    with pytest.raises(InvalidInputError, match="not between 0 and H"):
        counts.inner(counts.h_x + 1.0)


def test_what_cannot_be_counted_is_refused_with_advice(tmp_path: Any) -> None:
    table = pa.table({"s": ["y", "n"] * 40, "x": list(range(80)), "many": [str(i) for i in range(80)]})
    with pytest.raises(InvalidInputError, match=r"'x' \(integer\) has 80 different values or more: cut it"):
        class_tables.count(table, private="s", public="x")
    with pytest.raises(InvalidInputError, match="more than 64 combinations"):
        class_tables.count(table, private="many", public="s")
    with pytest.raises(InvalidInputError, match="no rows"):
        class_tables.count(table.slice(0, 0), private="s", public="many")
    with pytest.raises(PrivFunnelError, match="did you mean 'many'"):
        class_tables.count(table, private="s", public="mani")


def test_only_spark_frames_and_their_own_solutions_are_released_by_classes(counts: ClassCounts) -> None:
    solution = pf.solve(counts.problem(), disclosure=0.0)
    with pytest.raises(InvalidInputError, match="is no Spark frame"):
        release.by_classes(pa.table(COLUMNS), counts, solution)
    with pytest.raises(InvalidInputError, match="needs a list of all symbols; use one of decoys, records"):
        release.by_classes(pa.table(COLUMNS), counts, solution, form="symbols")


def laid_out(lumping: Lumping) -> tuple[ClassCounts, classwise.Stretches]:
    """The classes in the order of lumping, and every symbol's place, as the cluster would lay it out."""
    rows = lumping.problem.p_x * 3000.0
    table = np.asarray(lumping.lumped.counts).astype(np.int64)
    counts = ClassCounts(
        ("ill",), tuple(PUBLIC), (("no",), ("yes",)), table, np.bincount(lumping.classes), 0.0, 0
    )
    begin = np.zeros(len(rows))
    for t in range(lumping.n_classes):
        own = lumping.classes == t
        begin[own] = np.cumsum(rows[own]) - rows[own]
    return counts, classwise.Stretches(lumping.classes, np.rint(begin), np.rint(rows))


def test_candidates_are_those_of_the_coupling(lumping: Lumping) -> None:
    counts, symbols = laid_out(lumping)
    solution = pf.solve(counts.problem(), disclosure=0.5 * counts.problem().disclosure_ceiling)
    layout = classwise.Layout.of(counts, solution)
    channel = couple(lumping.classes, lumping.problem.p_x, solution.channel).channel
    known = {
        frozenset(channel.indices[a:b].tolist())
        for a, b in zip(channel.indptr, channel.indptr[1:], strict=False)
    }
    draws = symbols.n.astype(np.int64)
    row, t, at, weight, _ = classwise.candidates(layout, symbols, draws, seeded(1), False)
    member = [
        int(np.flatnonzero((symbols.t == k) & (symbols.begin <= place))[-1])
        for k, place in zip(t.tolist(), at.tolist(), strict=True)
    ]
    lines: dict[int, set[int]] = {}
    for number, found in zip(row.tolist(), member, strict=True):
        lines.setdefault(number, set()).add(found)
    assert len(lines) == 3000
    # Members that end together, up to rounding, may be cut in one place or the other.
    assert sum(frozenset(found) not in known for found in lines.values()) <= 3
    truth = np.repeat(np.arange(len(draws)), draws)
    _, first = np.unique(row, return_index=True)
    assert all(int(x) in lines[number] for x, number in zip(truth, row[np.sort(first)].tolist(), strict=True))
    np.testing.assert_allclose(np.bincount(np.unique(row, return_inverse=True)[1], weight), 1.0)


def test_a_record_is_one_of_the_candidates_by_its_weight(lumping: Lumping) -> None:
    counts, symbols = laid_out(lumping)
    layout = classwise.Layout.of(counts, pf.solve(counts.problem(), disclosure=0.0))
    draws = 20 * symbols.n.astype(np.int64)
    row, t, *_ = classwise.candidates(layout, symbols, draws, seeded(2), True)
    assert len(np.unique(row)) == len(row) == 60_000
    share = counts.table.sum(axis=0) / 3000.0
    assert np.abs(np.bincount(t, minlength=len(share)) / 60_000 - share).max() < 6.0 * np.sqrt(0.25 / 60_000)


def test_rows_are_drawn_in_portions_that_add_up() -> None:
    n = np.array([3.0, 0.0, 10.0, 1.0])
    parts = list(classwise.portions(n, 4))
    assert [int(part.sum()) for part in parts] == [4, 4, 4, 2]
    assert np.sum(parts, axis=0).tolist() == n.tolist()
    assert list(classwise.portions(np.zeros(0), 4)) == []
