"""Dates by year, quarter, month, weekday and age: the same categories in every engine, in releases and in audits."""

from __future__ import annotations

import datetime
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import privfunnel as pf
from privfunnel import audit, release
from privfunnel.data import tables
from privfunnel.data.engines import Cut, Database, Part
from privfunnel.data.engines.bins import parse
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

DAY = datetime.timedelta(days=1)
DATES: list[datetime.date | None] = [datetime.date(1960, 2, 28) + DAY * (13 * i) for i in range(400)]
DATES[7] = None
AT = datetime.date(2020, 3, 1)
RULES = [
    "year:quantiles:4",
    "quarter",
    "month",
    "weekday",
    "age@2020-03-01:width:5",
    "age@2020-03-01:edges:0,50,120",
]


def age(born: datetime.date) -> int:
    had = (AT.month, AT.day) >= (born.month, born.day)
    return AT.year - born.year - (not had)


def expected(rule: str, date: datetime.date) -> str:
    if rule == "quarter":
        return f"{date.year}-Q{(date.month + 2) // 3}"
    if rule == "month":
        return f"{date:%Y-%m}"
    return f"{date:%A}"


def sources(tmp_path: Path) -> dict[str, Any]:
    table = pa.table({"s": ["a", "b"] * 200, "d": pa.array(DATES, pa.date32())})
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    text = "s;d\n" + "".join(
        f"{'ab'[i % 2]};{'' if date is None else f'{date:%d.%m.%Y}'}\n" for i, date in enumerate(DATES)
    )
    (tmp_path / "t.csv").write_text(text)
    duckdb.from_arrow(table).write_parquet(str(tmp_path / "t.parquet"))
    timed = [
        None if date is None else datetime.datetime.combine(date, datetime.time(23, 59)) for date in DATES
    ]
    zoned = pa.table({"s": table["s"], "d": pa.array(timed, pa.timestamp("us", "UTC"))})
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (s, d)")
    rows = [
        (s, None if date is None else date.isoformat())
        for s, date in zip(table["s"].to_pylist(), DATES, strict=True)
    ]
    database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    return {
        "arrow": table, "csv": str(tmp_path / "t.csv"), "parquet": str(tmp_path / "t.parquet"), "zoned": zoned,
        "pandas": pd.DataFrame({"s": table["s"].to_pylist(), "d": pd.to_datetime(timed)}),
        "polars": pl.from_arrow(table).lazy(), "sqlite": Database(database, "t"),
    }  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_every_engine_counts_the_same_parts(rule: str, tmp_path: Path) -> None:
    found = {
        name: tables.count(source, private="s", public="d", bins={"d": rule}, max_levels=1000)
        for name, source in sources(tmp_path).items()
    }
    assert {counts.fingerprint for counts in found.values()} == {found["arrow"].fingerprint}
    column = found["arrow"].columns["d"]
    assert column.values[-1] is None
    for source in (pa.array(DATES, pa.date32()), pa.array([d and d.isoformat() for d in DATES])):
        codes = column.encode(source)
        for date, code in zip(DATES, codes.tolist(), strict=True):
            if date is None:
                assert column.values[code] is None
            elif ":" not in rule:
                assert column.values[code] == expected(rule, date)
            else:
                assert isinstance(column.bins, Cut)
                number = age(date) if rule.startswith("age") else date.year
                low, high = column.bins.edges[code], column.bins.edges[code + 1]
                assert low <= number <= high


def test_categories_are_in_the_order_of_the_calendar() -> None:
    table = pa.table({"s": ["a", "b"] * 4, "d": [datetime.date(2020, 1, 1) + DAY * i for i in range(8)]})
    values = tables.count(table, private="s", public="d", bins={"d": "weekday"}).columns["d"].values
    assert values == ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def test_rules_are_read_and_written_back() -> None:
    for text in [*RULES, "year", "age@1999-12-31"]:
        assert str(parse("d", text)) == text
    for odd in ("month:width:3", "age@1.1.2020", "age", "year:month", "year:top:3", "century"):
        with pytest.raises(InvalidInputError) as caught:
            parse("d", odd)
        assert "\n" not in str(caught.value)


def test_other_columns_have_no_parts() -> None:
    table = pa.table({"s": ["a", "b"], "x": [1, 2], "d": [datetime.date(2020, 1, 1)] * 2})
    with pytest.raises(
        InvalidInputError, match="'x' of the frame is integer, so it cannot be binned by 'year'"
    ):
        tables.count(table, private="s", public="x", bins={"x": "year"})
    with pytest.raises(InvalidInputError, match=r"'d' of the frame is date, .*bin it by 'year', 'quarter'"):
        tables.count(table, private="s", public="d", bins={"d": 3})


def test_many_ages_are_to_be_cut_further() -> None:
    table = pa.table({"s": ["a", "b"] * 50, "d": [datetime.date(1900 + i, 1, 1) for i in range(100)]})
    with pytest.raises(InvalidInputError, match=r"--bin d=age@2020-01-01:quantiles:5"):
        tables.count(table, private="s", public="d", bins={"d": "age@2020-01-01"})
    assert tables.count(table, private="s", public="d", bins={"d": "age@2020-01-01:quantiles:5"}).n_x == 5


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1)] * 20
    table = pa.table({"s": ["a", "b"] * 10, "d": days, "d (year)": ["x"] * 20})
    counts = tables.count(table, private="s", public=["d", "d (year)"], bins={"d": "year"})
    mechanism = Mechanism.from_solution(counts, pf.solve(counts.problem(), disclosure=0.0))
    with pytest.raises(InvalidInputError, match=r"two columns 'd \(year\)': rename"):
        release.write(table, mechanism, tmp_path / "r.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rule", ["year:width:3", "age@2021-01-01", "quarter", "weekday"])
def test_a_release_of_dates_is_audited(rule: str, tmp_path: Path) -> None:
    rows = "".join(f"{'ab'[i % 2]},{1 + i % 28}.{1 + i % 12}.{2018 + i % 3}\n" for i in range(600))
    path = tmp_path / "t.csv"
    path.write_text("s,d\n" + rows)
    counts = tables.count(path, private="s", public="d", bins={"d": rule})
    assert counts.read is not None
    assert counts.read.dates == "dmy"
    mechanism = Mechanism.from_solution(counts, pf.solve(counts.problem(), disclosure=0.5))
    mechanism.save(tmp_path / "m.json")
    mechanism = Mechanism.load(tmp_path / "m.json")
    assert mechanism.read == counts.read
    assert isinstance(mechanism.bins["d"], Cut if ":" in rule else Part)
    # Only dates that may be read in two ways: what was found out about the design data decides.
    other = tmp_path / "u.csv"
    other.write_text("s,d\n" + "".join(f"a,0{1 + i % 2}/0{1 + i % 9}/2018\n" for i in range(30)))
    assert (
        release.write(
            other, mechanism, tmp_path / "v.csv", form="records", unseen="marginal", force=True
        ).rows
        == 30
    )
    written = release.write(path, mechanism, tmp_path / "r.csv", form="records")
    assert written.written == 600
    called = f"d ({rule.partition(':')[0].replace('@', ' at ')})"
    assert (tmp_path / "r.csv").read_text().splitlines()[0] == called
    book = json.loads((tmp_path / "r.codebook.json").read_text())
    assert book["public"] == [called]
    assert all(label.startswith(f"{called}=") for label in book["symbols"][0]["p_x_given_y"])
    found = audit.release(
        path, tmp_path / "r.csv", mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=0
    )
    assert found.rows == 600
