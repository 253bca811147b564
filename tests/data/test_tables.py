"""Counting tables: values, nulls, bins, sources, and what is refused."""

from __future__ import annotations

import datetime
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfunnel import measures
from privfunnel.algorithms.auto import Auto
from privfunnel.data import sizes, tables
from privfunnel.data.engines import ReadOptions, open_table
from privfunnel.data.engines.alphabet import Alphabet
from privfunnel.data.engines.categories import Column
from privfunnel.errors import InvalidInputError, SmallSampleWarning
from privfunnel.model.amounts import spoken_in

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
nw = pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROWS = {
    "a b": [1, 2, None, 2, None, 1, 1],
    'na"me': ["x", "", "null", None, "x", "x", "é, ü"],
    "f": [1.5, float("nan"), None, 2.5, -1e9, 1.5, 3.0],
    "ok": [True, False, None, True, True, True, False],
    "day": [datetime.date(2020, 1, 1 + i % 2) for i in range(7)],
}
KEYS = {"private": ["ok", "a b"], "public": ['na"me', "f", "a b", "day"], "bins": {"f": "edges:-inf,0,2,inf"}}


def frames() -> dict[str, Any]:
    arrow = pa.table(ROWS)
    return {
        "arrow": arrow,
        "pandas": arrow.to_pandas(),
        "polars": pl.from_arrow(arrow),
        "polars lazy": pl.from_arrow(arrow).lazy(),
        "duckdb": duckdb.connect().from_arrow(arrow),
    }


@pytest.fixture(scope="module")
def reference() -> tables.Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return tables.count(pa.table(ROWS), **KEYS)


def test_reference_by_hand(reference: tables.Counts) -> None:
    assert reference.n == 7
    assert reference.columns['na"me'].values == ("", "null", "x", "é, ü", None)
    assert reference.columns["ok"].values == (False, True, None)
    assert reference.columns["a b"].values == (1, 2, None)
    assert reference.columns["f"].values == ("< 0", "[0, 2)", "≥ 2", None)
    assert reference.s_labels == ("ok=false, a b=1", "ok=false, a b=2", "ok=true, a b=1", "ok=true, a b=2",
                                  "ok=true, a b=null", "ok=null, a b=null")  # fmt: skip
    assert 'na"me="", f=null, a b=2, day=2020-01-02' in reference.x_labels
    assert 'na"me="null", f=null, a b=null, day=2020-01-01' in reference.x_labels
    assert 'na"me=null, f=≥ 2, a b=2, day=2020-01-02' in reference.x_labels
    s, x = (
        reference.s_values.index((True, 1)),
        reference.x_values.index(("x", "[0, 2)", 1, datetime.date(2020, 1, 1))),
    )
    assert reference.table()[s, x] == 1
    assert reference.table().sum() == 7


@pytest.mark.parametrize("name", list(frames()))
def test_every_engine_gives_the_same_counts(name: str, reference: tables.Counts) -> None:
    assert tables.count(frames()[name], **KEYS).fingerprint == reference.fingerprint


@pytest.mark.parametrize("name", list(frames()))
def test_every_engine_tells_different_and_missing_values(name: str) -> None:
    with open_table(frames()[name]) as table:
        found = table.overview(["a b", 'na"me', "f", "ok"])
    for column, (distinct, missing) in found.items():
        present = [
            value for value in ROWS[column] if value is not None and value == value
        ]  # NaN differs from itself
        assert missing == len(ROWS[column]) - len(present)
        assert distinct == len(set(present))


def test_dask_gives_the_same_counts() -> None:
    dd = pytest.importorskip("dask.dataframe")
    rows = {key: ROWS[key] for key in ("a b", 'na"me', "f")}
    keys = {"private": ["a b"], "public": ['na"me', "f"], "bins": {"f": "edges:-inf,0,2,inf"}}
    expected = tables.count(pa.table(rows), **keys)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        found = tables.count(dd.from_pandas(pd.DataFrame(rows), npartitions=3), **keys)
    assert found.fingerprint == expected.fingerprint


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl", "duckdb", "csv"])
def test_files_give_the_same_counts(suffix: str, tmp_path: Path, reference: tables.Counts) -> None:
    arrow, path = pa.table(ROWS), tmp_path / f"it's [1].{suffix}"
    source = str(path)
    connection = duckdb.connect()
    relation = connection.from_arrow(arrow)
    if suffix == "parquet":
        relation.write_parquet(source)
    elif suffix == "arrow":
        with pa.ipc.new_file(source, arrow.schema) as writer:
            writer.write_table(arrow)
    elif suffix == "jsonl":
        relation.create_view("v")
        # JSON has no NaN; a null is the same category.
        columns = "* REPLACE (CASE WHEN isnan(f) THEN NULL ELSE f END AS f)"
        connection.execute(
            f"COPY (SELECT {columns} FROM v) TO '{source.replace(chr(39), chr(39) * 2)}' (FORMAT json)"
        )
    elif suffix == "duckdb":
        with duckdb.connect(source) as database:
            database.register("arrow_rows", arrow)
            database.execute('CREATE TABLE "my table" AS SELECT * FROM arrow_rows')
        source += "::my table"
    else:
        path.write_text(
            '"a b", na""me,f,ok,day\n1,x,1.5,true,2020-01-01\n2,"",nan,false,2020-01-02\n,null,,,2020-01-01\n'
            '2,,2.5,true,2020-01-02\n, x ,-1e9,true,2020-01-01\n1,x,1.5,true,2020-01-02\n1,"é, ü",3,false,2020-01-01\n'
        )
    connection.close()
    read = ReadOptions(columns=tuple(ROWS), header=True, types={"ok": "boolean"}) if suffix == "csv" else None
    assert tables.count(source, read=read, **KEYS).fingerprint == reference.fingerprint


def test_problem_carries_counts_and_labels(reference: tables.Counts) -> None:
    problem = reference.problem()
    assert problem.n == 7
    assert problem.s_labels == reference.s_labels
    assert problem.x_labels == reference.x_labels
    np.testing.assert_array_equal(problem.counts, reference.table())


def test_a_fingerprint_ignores_row_order_and_sees_one_row(reference: tables.Counts) -> None:
    reversed_rows = pa.table({name: values[::-1] for name, values in ROWS.items()})
    assert tables.count(reversed_rows, **KEYS).fingerprint == reference.fingerprint
    fewer = pa.table(ROWS).slice(1)
    assert tables.count(fewer, **KEYS).fingerprint != reference.fingerprint


# --- what is refused --------------------------------------------------------------------------------------------

SMALL = pa.table(
    {"age": [1, 2, 3], "sex": ["m", "f", "m"], "Income": [1.0, 2.0, 3.0], "tags": [["a"], [], ["b"]]}
)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"public": ["aeg"]}, r"no column 'aeg': did you mean 'age'\?"),
        ({"public": ["income"]}, r"no column 'income': did you mean 'Income'\?"),
        ({"public": ["zzz"]}, "its columns are age, sex, Income, tags"),
        ({"public": ["age", "age"]}, "'age' is public twice"),
        ({"public": []}, "no public column"),
        ({"public": [3]}, "3 is not a name"),
        ({"public": ["tags"]}, "'tags' of the frame has the type List"),
        ({"bins": {"zip": 3}}, "'zip', which is neither"),
        ({"bins": {"age": 0}}, "0 bins"),
        ({"bins": {"age": True}}, "cannot be True"),
        ({"bins": {"age": 1.5}}, "cannot be 1.5"),
        ({"bins": {"age": "fine:3"}}, "'fine:3' for column 'age' cannot be read"),
        ({"bins": {"age": "width:x"}}, "cannot be read"),
        ({"bins": {"age": [1]}}, "at least two numbers"),
        ({"bins": {"age": ["x", "y"]}}, "not a list of numbers"),
        ({"bins": {"age": "edges:3,1"}}, "must increase"),
        ({"bins": {"age": [0, 2]}}, "1 rows of column 'age' lie outside its edges 0 to 2"),
        ({"bins": {"sex": 3}}, r"'sex' of the frame is text \(it holds 'f'\)"),
        ({"bins": {"age": "top:2"}}, "'top:2' groups text"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match) as caught:
        tables.count(SMALL, **{"private": ["sex"], "public": ["age"], **options})
    assert "\n" not in str(caught.value)


def test_a_number_with_many_values_must_be_binned() -> None:
    table = pa.table({"v": list(range(40)), "s": ["a", "b"] * 20})
    with pytest.raises(InvalidInputError, match=r"'v' is a number with 40 .*bins=\{'v': 'quantiles:5'\}"):
        tables.count(table, private="s", public="v")
    assert tables.count(table, private="s", public="v", max_levels=40).n_x == 40


def test_many_dates_must_be_coarser() -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(40)]
    table = pa.table({"day": days, "s": ["a", "b"] * 20})
    with pytest.raises(InvalidInputError, match=r"'day' holds 40 different dates .* --bin day=year"):
        tables.count(table, private="s", public="day")
    with pytest.raises(InvalidInputError, match=r"too large .*'day' .*bins=\{'day': 'year'\}"):
        tables.count(table, private="s", public="day", max_levels=99).problem(max_memory=1e3)


def test_a_number_that_grows_many_values_after_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PEEK_ROWS", 5)
    table = pa.table({"v": [1, 2] * 5 + list(range(50)), "s": ["a", "b"] * 30})
    with pytest.raises(InvalidInputError, match="50 different values"):
        tables.count(table, private="s", public="v")


def test_an_identifier_is_refused_before_the_engine_groups_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PEEK_ROWS", 100)
    table = pa.table({"id": [f"p{i}" for i in range(300)], "s": ["a", "b"] * 150})
    with pytest.raises(InvalidInputError, match=r"'id' is text with 300 different values: .*'top:10'"):
        tables.count(table, private="s", public="id")


def test_too_many_combinations_name_the_column() -> None:
    table = pa.table({"a": [f"a{i % 3}" for i in range(300)], "b": [f"b{i % 100}" for i in range(300)],
                      "c": [i % 20 for i in range(300)]})  # fmt: skip
    with pytest.raises(
        InvalidInputError, match="more than 150 combinations occur: column 'b' with 100 values"
    ):
        tables.count(table, private="a", public=["b", "c"], bins={"c": 2}, max_cells=150)


def test_too_large_a_problem_is_refused_before_solving() -> None:
    # Value i of "big" occurs once with a and i + 1 times with b: no two of them are of one class.
    rows = [("a", f"v{i}", i % 2) for i in range(200)] + [
        ("b", f"v{i}", i % 2) for i in range(200) for _ in range(i + 1)
    ]
    table = pa.table(dict(zip(("s", "big", "small"), zip(*rows, strict=True), strict=True)))
    counts = tables.count(table, private="s", public=["small", "big"])
    assert counts.size.n_classes == 200
    assert counts.size.memory > 8 * 200 * 10
    with pytest.raises(InvalidInputError, match=r"too large .*'big' with 200 values .*'top:10'"):
        counts.problem(max_memory=1e5)
    numbers = tables.count(
        pa.table({"s": ["a", "b"] * 20, "v": range(40)}), private="s", public="v", max_levels=99
    )
    with pytest.raises(InvalidInputError, match="'quantiles:5'"):
        numbers.problem(max_memory=1e3)


def alphabet(name: str, values: list[str]) -> Alphabet:
    return Alphabet((Column(name, "text", tuple(values)),), np.arange(len(values))[:, None])


@pytest.mark.filterwarnings("ignore::privfunnel.errors.IdentifierWarning")
def test_the_size_is_that_of_the_default_solver() -> None:
    # Its time limit, and the four tenths more that coarser tables get.
    assert pytest.approx(1.4 * Auto().time_limit) == sizes.TIME_LIMIT
    table = pa.table({"s": ["a", "b"] * 1000, "v": [f"v{i}" for i in range(2000)]})
    alike = tables.count(table, private="s", public="v").size
    assert (alike.n_x, alike.n_classes) == (2000, 2)
    assert "2 × 2000 symbols in 2 classes" in str(alike)
    assert alike.seconds < 1.0
    n = 2000
    cells = np.arange(n)
    different = tables.Counts(
        alphabet("s", ["a", "b"]), alphabet("v", [f"v{i}" for i in range(n)]),
        np.repeat([0, 1], n), np.tile(cells, 2), np.concatenate([np.ones(n, dtype=np.int64), cells + 1]),
    )  # fmt: skip
    # Two private symbols are solved at any size.
    assert not different.size.limited
    assert different.size.memory < 2**22
    three = tables.Counts(
        alphabet("s", ["a", "b", "c"]), different.x_alphabet,
        np.repeat([0, 1, 2], n), np.tile(cells, 3), np.concatenate([different.cell_n, np.ones(n, dtype=np.int64)]),
    )  # fmt: skip
    large = three.size
    small = tables.count(table.slice(0, 20), private="s", public="v").size
    assert large.limited
    assert large.seconds < 2 * sizes.TIME_LIMIT
    assert not small.limited
    assert small.seconds < 1.0


def test_size_speaks_of_minutes_and_hours() -> None:
    assert "s a point" in str(tables.Size(2, 3, 3, 1e6, 5.0))
    assert "min a point" in str(tables.Size(2, 3, 3, 1e6, 600.0))
    assert "h a point" in str(tables.Size(2, 3, 3, 1e6, 1e5))


def test_few_rows_warn_with_the_expected_bias() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, 200)
    s = np.where(rng.random(200) < 0.5, x % 4, rng.integers(0, 4, 200))
    table = pa.table({"s": s, "x": x})
    with pytest.warns(
        SmallSampleWarning,
        match=r"200 rows for 4 × 10 cells are few.* about 0\.068 nats too high.* can be guaranteed",
    ):
        tables.count(table, private="s", public="x")


def test_few_persons_warn_however_many_rows_they_have_in_the_unit_that_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, 200)
    s = np.where(rng.random(200) < 0.5, x % 4, rng.integers(0, 4, 200))
    once = pa.table({"s": s, "x": x})
    often = pa.table({"s": np.tile(s, 50), "x": np.tile(x, 50), "who": np.tile(np.arange(200), 50)})
    with pytest.warns(SmallSampleWarning) as alone:
        tables.count(once, private="s", public="x")
    with pytest.warns(SmallSampleWarning) as together, spoken_in("bits"):
        tables.count(often, private="s", public="x", person="who")
    said = [
        next(str(each.message) for each in told if each.category is SmallSampleWarning)
        for told in (alone, together)
    ]
    assert said[1].startswith("200 persons (10000 rows) for 4 × 10 cells are few")
    assert "about 0.097 bits too high" in said[1]  # 27 / 400 / ln 2
    outputs = [re.search(r"at most \d+ outputs|no release of more than one output", text) for text in said]
    assert outputs[0] is not None
    assert outputs[1] is not None
    assert outputs[0][0] == outputs[1][0]


def test_mixed_types_in_a_pandas_column_are_refused() -> None:
    frame = pd.DataFrame({"v": [1, "a", 2.5, None], "s": ["x", "y", "x", "y"]})
    with pytest.raises(InvalidInputError, match=r"mixes types"):
        tables.count(frame, private="s", public="v")
    frame = pd.DataFrame({"v": pd.Series([True, datetime.date(2020, 1, 1)], dtype=object), "s": ["x", "y"]})
    with pytest.raises(InvalidInputError, match=r"mixes types"):
        tables.count(frame, private="s", public="v")


def test_a_source_that_is_no_table_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="type ndarray is not a table"):
        tables.count(np.zeros((2, 2)), private="a", public="b")


def test_numbers_without_a_range_are_refused() -> None:
    table = pa.table({"v": pa.array([None, None], pa.float64()), "w": [1.0, float("inf")], "s": ["a", "b"]})
    with pytest.raises(InvalidInputError, match="'v' of the frame has no numbers to bin"):
        tables.count(table, private="s", public="v", bins={"v": 3})
    with pytest.raises(InvalidInputError, match="infinite"):
        tables.count(table, private="s", public="w", bins={"w": 3})
    assert tables.count(table, private="s", public="v").x_labels == ("v=null",)
    by_edges = tables.count(table, private="s", public="w", bins={"w": "edges:-inf,5,inf"})
    assert by_edges.x_labels == ("w=< 5", "w=≥ 5")


def test_quantiles_leave_nulls_out() -> None:
    table = pa.table({"v": [None, 1, 2, 3, 4, None], "s": ["a", "b"] * 3})
    counts = tables.count(table, private="s", public="v", bins={"v": "quantiles:2"})
    assert counts.bins["v"].edges == (-np.inf, 3.0, np.inf)
    assert counts.columns["v"].values == ("< 3", "≥ 3", None)


@pytest.mark.parametrize("unit", ["bits", "nats"])
def test_rows_whose_information_is_all_bias_are_said_to_tell_nothing(unit: str) -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(30), 100)
    table = pa.table(
        {"s": rng.integers(0, 3, 3000), "x": [f"x{i}" for i in rng.integers(0, 300, 3000)], "who": who}
    )
    with pytest.warns(SmallSampleWarning) as told, spoken_in(unit):
        counts = tables.count(table, private="s", public="x", person="who")
    said = next(str(each.message) for each in told if each.category is SmallSampleWarning)
    assert "too high" not in said
    found = re.search(rf"cannot tell I\(S;X\), which is at most H\(S\) = (\S+) {unit}, and", said)
    assert found is not None
    p_s = counts.table().sum(axis=1) / counts.n
    assert float(found[1]) == pytest.approx(float(measures.entropy(p_s)) / measures.nats_per(unit), abs=5e-4)
