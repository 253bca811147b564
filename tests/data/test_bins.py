"""Columns as categories: cut points that are nobody's own value, the same in every engine, recorded for new data."""

from __future__ import annotations

import datetime
import sqlite3
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from privfunnel.data import tables
from privfunnel.data.engines import Cut, Database, Top, open_table
from privfunnel.data.engines.bins import merged
from privfunnel.data.engines.categories import ABOVE, BELOW, UNSEEN, Column, canonical, text
from privfunnel.errors import InvalidInputError, SmallSampleWarning

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pytest.importorskip("pandas")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")


def test_equal_width_bands_of_whole_numbers_are_written_as_whole_numbers() -> None:
    ages = pa.table({"age": [age for age in range(17, 91) for _ in range(5)], "s": ["u", "v"] * 185})
    counts = tables.count(ages, private="s", public="age", bins={"age": 5})
    assert counts.columns["age"].values == ("< 32", "32-46", "47-60", "61-75", "≥ 76")
    assert counts.table().sum(axis=0).tolist() == [75, 75, 70, 75, 75]
    assert counts.columns["age"].means == (24.0, 39.0, 53.5, 68.0, 83.0)


@pytest.mark.parametrize("name", ["arrow", "pandas", "polars", "duckdb"])
def test_quantile_bins_agree_across_engines_and_with_numpy(name: str) -> None:
    rng = np.random.default_rng(1)
    values = np.round(rng.lognormal(size=500), 2)
    arrow = pa.table({"v": values, "s": rng.integers(0, 2, 500)})
    sources = {"arrow": arrow, "pandas": arrow.to_pandas(), "polars": pl.from_arrow(arrow),
               "duckdb": duckdb.connect().from_arrow(arrow)}  # fmt: skip
    counts = tables.count(sources[name], private="s", public="v", bins={"v": "quantiles:4"})
    first, *inner, last = counts.bins["v"].edges
    assert (first, last) == (-np.inf, np.inf)
    np.testing.assert_allclose(inner, np.quantile(values, [0.25, 0.5, 0.75]), rtol=0.05)
    assert counts.table().sum(axis=0) == pytest.approx([125] * 4, abs=14)  # 5 % of a bin at each end
    assert not set(inner) & {v for v, n in zip(*np.unique(values, return_counts=True), strict=True) if n < 5}


def test_quantiles_of_more_values_than_may_leave_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privfunnel.data.engines.frames.QUANTILE_VALUES", 10)
    values = [float(i) for i in range(101)]
    counts = tables.count(
        pa.table({"v": values, "s": ["a"] * 101}), private="s", public="v", bins={"v": "quantiles:4"}
    )
    assert counts.bins["v"].edges == (-np.inf, 25.0, 50.0, 75.0, np.inf)


@given(
    values=st.lists(st.floats(-1e9, 1e9, width=32), min_size=8, max_size=60),
    rule=st.sampled_from(["bins:3", "bins:8", "quantiles:2", "quantiles:5"]),
)
def test_bins_never_end_at_the_least_or_the_largest_value(values: list[float], rule: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(pa.table({"v": values, "s": ["a"] * len(values)}), private="s", public="v",
                              bins={"v": rule})  # fmt: skip
    edges = counts.bins["v"].edges
    assert (edges[0], edges[-1]) == (-np.inf, np.inf)
    assert list(edges) == sorted(set(edges))
    assert (
        max(values) not in edges
        or values.count(max(values)) >= 5
        or max(values) == float(f"{max(values):.2g}")
    )
    assert counts.n == len(values)


def test_one_outlier_does_not_show_in_bins_or_means() -> None:
    usual = [float(i % 50) + 0.25 for i in range(1000)]
    for rule in ("bins:5", "width:2", "quantiles:4"):
        told = []
        for outlier in (4_711.5, 1_000_003.25):
            table = pa.table({"v": [*usual, outlier], "s": ["a"] * 1001})
            column = tables.count(table, private="s", public="v", bins={"v": rule}).columns["v"]
            told.append((column, column.means))
        assert told[0] == told[1]


def test_the_means_of_bins_are_those_of_their_numbers_in_every_engine() -> None:
    rng = np.random.default_rng(5)
    values = rng.lognormal(size=400)
    arrow = pa.table({"v": [*values, None, float("nan")], "s": ["a", "b"] * 201})
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (v REAL, s TEXT)")
    connection.executemany(
        "INSERT INTO t VALUES (?, ?)", zip([*values.tolist(), None, None], ["a", "b"] * 201, strict=True)
    )
    low, high = np.sort(values)[4], np.sort(values)[-5]
    for source in (
        arrow,
        pl.from_arrow(arrow),
        duckdb.connect().from_arrow(arrow),
        Database(connection, "t"),
    ):
        column = tables.count(source, private="s", public="v", bins={"v": "edges:0,1,2,1e9"}).columns["v"]
        inside = [values[(values >= a) & (values < b)] for a, b in ((0, 1), (1, 2), (2, 1e9))]
        assert column.means is not None
        assert column.means == pytest.approx([np.clip(part, low, high).mean() for part in inside])
        assert Column.from_dict(column.to_dict()).means == column.means


def test_recorded_bins_are_reused_on_new_data() -> None:
    first = tables.count(
        pa.table({"v": [0, 10, 20, 30], "s": list("abab")}), private="s", public="v", bins={"v": 3}
    )
    again = tables.count(pa.table({"v": [9, 11], "s": ["a", "b"]}), private="s", public="v", bins=first.bins)
    assert again.bins == first.bins
    assert again.x_labels == ("v=< 10", "v=10-19")
    beyond = tables.count(pa.table({"v": [31], "s": ["a"]}), private="s", public="v", bins=first.bins)
    assert beyond.x_labels == ("v=≥ 20",)
    with pytest.raises(InvalidInputError, match="1 rows of column 'v' lie outside its edges 0 to 30"):
        tables.count(pa.table({"v": [31], "s": ["a"]}), private="s", public="v", bins={"v": "edges:0,9,30"})


def test_top_keeps_the_frequent_values_and_groups_the_rest() -> None:
    table = pa.table({"c": ["x"] * 5 + ["y"] * 3 + ["z", "w", None], "s": ["p", "q"] * 5 + ["p"]})
    counts = tables.count(table, private="s", public="c", bins={"c": "top:2"})
    assert counts.columns["c"].values == ("(other)", "x", "y", None)
    rows = dict(zip(counts.x_labels, counts.table().sum(axis=0).tolist(), strict=True))
    assert rows == {"c=(other)": 2, "c=x": 5, "c=y": 3, "c=null": 1}
    assert counts.columns["c"].encode(pa.array(["z", "new", "x", None])).tolist() == [0, 0, 1, 3]


@given(
    edges=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True).map(sorted),
    values=st.lists(st.floats(-2e6, 2e6), min_size=1, max_size=20),
)
def test_engine_and_numpy_cut_alike(edges: list[float], values: list[float]) -> None:
    cut = Cut("edges", tuple(edges))
    with open_table(pa.table({"v": [*values, *edges]})) as table:
        grouped = table.group({"v": cut}, 1000)
    found = dict(zip(grouped.columns["v"], grouped.counts, strict=True))
    codes = cut.codes(np.array([*values, *edges]))
    assert found == {int(code): int((codes == code).sum()) for code in np.unique(codes)}
    assert len(set(cut.labels)) == cut.size


@example(
    inner=[0.0, 1.0], below=True, above=False, integer=False, u=0.0
)  # the float before 0 cannot be halved
@given(
    inner=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8, unique=True).map(sorted),
    below=st.booleans(),
    above=st.booleans(),
    integer=st.booleans(),
    u=st.floats(0.0, 1.0, exclude_max=True),
)
def test_what_is_written_for_a_bin_lies_in_it(
    inner: list[float], below: bool, above: bool, integer: bool, u: float
) -> None:
    edges = (*([-np.inf] if below else []), *inner, *([np.inf] if above else []))
    if len(edges) < 2:
        return
    edges = merged(edges) if integer else edges
    if integer and not any(np.isinf(edges)) and np.floor(edges[-1]) < np.ceil(edges[0]):
        return  # no whole number at all between the ends
    cut = Cut("edges", edges, integer)
    assert len(set(cut.labels)) == cut.size
    for code in range(cut.size):
        low, high = cut.span(code)
        between = low + np.floor(u * (high - low + 1)) if integer else min(low + u * (high - low), high)
        numbers = np.array([low, high, cut.middle(code), between])
        assert np.isfinite(numbers).all()
        assert cut.codes(numbers).tolist() == [code] * 4
        assert not integer or (numbers == np.floor(numbers)).all()


def test_the_middle_of_a_bin_is_a_number_a_person_would_write() -> None:
    assert Cut("edges", (0.0, 10.0, 20.0)).middle(0) == 5.0
    assert Cut("edges", (-np.inf, 18.0, 65.0, np.inf), integer=True).middle(0) == 17.0


@pytest.mark.parametrize("rule", ["bins:10", "quantiles:10", "edges:0,0.2,0.4,1.5,1.7,2"])
def test_bins_without_a_whole_number_vanish(rule: str) -> None:
    table = pa.table({"s": ["a", "b"] * 6, "x": [0, 1, 2] * 4})
    cut = tables.count(table, private="s", public="x", bins={"x": rule}).columns["x"].bins
    assert isinstance(cut, Cut)
    assert cut.codes(np.array([0.0, 1.0, 2.0])).tolist() == [0, 1, 2]
    assert cut.labels == (("0", "1", "2") if rule.startswith("edges") else ("< 1", "1", "≥ 2"))


def test_new_numbers_outside_the_edges_are_told_apart() -> None:
    column = Column("v", "integer", ("0-9", "10-20", None), Cut("edges", (0.0, 10.0, 20.0), integer=True))
    array = pa.chunked_array([[0, 9, 10], [20, 21, -1, None]])
    assert column.encode(array).tolist() == [0, 0, 1, 1, ABOVE, BELOW, 2]
    assert column.encode(pa.array(["3", "15"])).tolist() == [0, 1]
    with pytest.raises(InvalidInputError, match="must hold numbers"):
        column.encode(pa.array(["three"]))


def test_new_values_are_recognised_whatever_their_type() -> None:
    column = Column("v", "integer", (1, 2), None)
    assert column.encode(pa.array([1.0, 2.0, 3.0, None, float("nan")])).tolist() == [
        0,
        1,
        UNSEEN,
        UNSEEN,
        UNSEEN,
    ]
    assert column.encode(pa.array(["2", "1", "1.0"])).tolist() == [1, 0, UNSEEN]
    with_null = Column("v", "integer", (1, 2, None), None)
    assert with_null.encode(pa.array([None, float("nan"), 2.0], from_pandas=False)).tolist() == [2, 2, 1]
    dates = Column("d", "date", (datetime.date(2020, 1, 1),), None)
    assert dates.encode(pa.array(["2020-01-01", "2020-01-02"])).tolist() == [0, UNSEEN]


@pytest.mark.parametrize(
    "column",
    [
        Column("a", "integer", (1, 2, None)),
        Column("a", "number", (0.1, 1e300, None)),
        Column("a", "boolean", (False, True)),
        Column("a", "text", ("", "null", None)),
        Column("a", "date", (datetime.date(2020, 2, 29),)),
        Column("a", "datetime", (datetime.datetime(2020, 2, 29, 1, 2, 3),)),
        Column("a", "number", ("< 0", "[0, 1]"), Cut("edges", (-np.inf, 0.0, 1.0))),
        Column("a", "text", ("(other)", "x"), Top("top:1", ("x",))),
    ],
)
def test_columns_survive_json(column: Column) -> None:
    assert Column.from_dict(column.to_dict()) == column


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"kind": "colour"}, "unknown kind 'colour'"),
        ({"values": [1, 1]}, "twice"),
        ({"values": [None, 1]}, "null before the end"),
        ({"values": ["x"]}, "'x' is not a integer"),
        ({"kind": "date", "values": ["someday"]}, "'someday' is not a date"),
        ({"bins": {"form": "fold"}}, "'fold' are unknown"),
        ({"bins": {"form": "cut", "rule": "edges", "edges": [1, 0], "integer": False}}, "must increase"),
    ],
)
def test_malformed_columns_are_refused(change: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        Column.from_dict({**Column("a", "integer", (1, 2)).to_dict(), **change})


def test_canonical_values() -> None:
    assert canonical(2.0) == 2
    assert canonical(float("nan")) is None
    assert text(canonical(-0.0)) == "0"
    assert text(canonical(np.float64(0.1))) == "0.1"
    assert text(True) == "true"
    with pytest.raises(InvalidInputError, match="bytes"):
        canonical(b"x")


@pytest.mark.parametrize(
    ("rule", "labels"),
    [
        ("width:15", ("< 30", "30-44", "45-59", "60-74", "75-89", "≥ 90")),
        ("bins:3", ("< 44", "44-67", "≥ 68")),
        (3, ("< 44", "44-67", "≥ 68")),
        ("width:1000", ("any",)),
    ],
)
def test_a_width_is_in_units_of_the_column_and_a_number_of_bins_is_one(
    rule: object, labels: tuple[str, ...]
) -> None:
    ages = pa.table({"age": [age for age in range(20, 92) for _ in range(10)], "s": ["u", "v"] * 360})
    counts = tables.count(ages, private="s", public="age", bins={"age": rule})
    assert counts.columns["age"].values == labels
    assert counts.bins["age"].rule == (f"bins:{rule}" if isinstance(rule, int) else rule)


def test_a_width_may_be_a_fraction_and_is_of_years_for_dates() -> None:
    days = [datetime.date(1970 + i % 30, 5, 1) for i in range(600)]
    table = pa.table({"v": [i % 10 / 10.0 for i in range(600)], "d": days, "s": ["u", "v", "u"] * 200})
    counts = tables.count(
        table, private="s", public=["v", "d"], bins={"v": "width:0.25", "d": "year:width:10"}
    )
    assert counts.columns["v"].values == ("< 0.25", "[0.25, 0.5)", "[0.5, 0.75)", "≥ 0.75")
    assert counts.columns["d"].values == ("< 1980", "1980-1989", "≥ 1990")


@pytest.mark.parametrize(
    ("rule", "words"),
    [("width:0", "cannot be 0 wide"), ("width:inf", "cannot be inf wide"), ("width:1e-9", "more than 10000"),
     ("bins:0", "0 bins"), ("bins:2.5", "cannot be read")],
)  # fmt: skip
def test_widths_that_make_no_bins_are_refused(rule: str, words: str) -> None:
    table = pa.table({"v": [float(i) for i in range(100)], "s": ["u", "v"] * 50})
    with pytest.raises(InvalidInputError, match=words):
        tables.count(table, private="s", public="v", bins={"v": rule})


def test_a_file_whose_labels_are_not_those_of_its_bins_is_refused() -> None:
    cut = Cut("edges", (0.0, 18.0, 65.0), True)
    kept = Column("age", "integer", (*cut.labels, None), cut).to_dict()
    assert Column.from_dict(kept).values == (*cut.labels, None)
    for values in (["0-17"], ["0-17", "18-66"], ["0-17", "18-65", "66", None], [None, "0-17", "18-65"]):
        with pytest.raises(
            InvalidInputError, match=r"values of column 'age' do not fit its bins|null before the end"
        ):
            Column.from_dict(kept | {"values": values})
