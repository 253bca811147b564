"""Tables of a database: the same counts as elsewhere, computed by the database, and rows streamed out of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from funnels import count_people, people, random_mechanism
from privfunnel import release
from privfunnel.app.explorer import profile
from privfunnel.data import tables
from privfunnel.data.engines import Database, open_table
from privfunnel.errors import InvalidInputError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

ROWS = people(1000)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(tmp_path / "d.sqlite")
    database.execute(
        'CREATE TABLE "my people" (id TEXT, age INTEGER, town TEXT, member INTEGER, sick INTEGER, smoker TEXT)'
    )
    database.executemany(
        'INSERT INTO "my people" VALUES (?, ?, ?, ?, ?, ?)', zip(*ROWS.values(), strict=True)
    )
    database.execute('CREATE TABLE odd ("a ""b""" TEXT, x, y REAL, z BLOB)')
    database.executemany(
        "INSERT INTO odd VALUES (?, ?, ?, ?)", [("it's", 1, 0.5, b"x"), (None, "two", 1.5, b"y")]
    )
    database.commit()
    yield database
    database.close()


def as_numbers(rows: dict[str, list[Any]]) -> Any:
    """SQLite has no booleans."""
    return pa.table(
        {**rows, "member": [int(v) for v in rows["member"]], "sick": [int(v) for v in rows["sick"]]}
    )


@pytest.mark.parametrize(
    "bins",
    [
        {"age": "edges:18,40,60,80"},
        {"age": "edges:-inf,40,inf", "town": "top:1"},
        {"age": "width:3"},
        {"age": "quantiles:4"},
    ],
)
def test_a_database_counts_like_any_engine(connection: sqlite3.Connection, bins: dict[str, str]) -> None:
    roles: dict[str, Any] = {"private": ["sick", "smoker"], "public": ["age", "town", "member"], "bins": bins}
    found = tables.count(Database(connection, "my people"), **roles)
    assert found.fingerprint == tables.count(as_numbers(ROWS), **roles).fingerprint


def test_a_sqlite_file_is_a_source(connection: sqlite3.Connection, tmp_path: Path) -> None:
    assert count_people(f"{tmp_path / 'd.sqlite'}::my people").n == 1000
    with pytest.raises(
        InvalidInputError, match=r"has no table 'none'; it holds my people, odd: write d\.sqlite::TABLE"
    ):
        count_people(f"{tmp_path / 'd.sqlite'}::none")
    with pytest.raises(InvalidInputError, match="is a database: name a table"):
        count_people(str(tmp_path / "d.sqlite"))
    (tmp_path / "bad.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    with pytest.raises(InvalidInputError, match=r"'bad\.sqlite' cannot be read"):
        count_people(f"{tmp_path / 'bad.sqlite'}::t")


def test_rows_stream_out_of_a_database(connection: sqlite3.Connection, tmp_path: Path) -> None:
    source = Database(connection, "my people")
    mechanism = random_mechanism(count_people(source))
    report = release.write(source, mechanism, tmp_path / "o.csv", batch_rows=300)
    assert report.written == 1000
    assert source.engine == "sqlite3"
    assert source.n_rows() == 1000


@pytest.mark.parametrize(
    ("table", "options", "match"),
    [
        ("my people", {"public": "twon"}, "did you mean 'town'"),
        ("my people", {"public": "age"}, "'age' is a number with 62 different values"),
        (
            "my people",
            {"public": "age", "bins": {"age": [20, 30]}},
            r"\d+ rows of column 'age' lie outside its edges",
        ),
        ("my people", {"public": "town", "bins": {"town": 3}}, r"is text \(it holds ''\)"),
        ("none", {"public": "x"}, "'none' cannot be read: no such table"),
        ("odd", {"private": 'a "b"', "public": "x"}, "column 'x' mixes types"),
        ("odd", {"private": 'a "b"', "public": "z"}, "'z' of 'odd' has the type bytes"),
    ],
)
def test_trouble_is_told_in_one_line(
    connection: sqlite3.Connection, table: str, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(InvalidInputError, match=match) as caught:
        tables.count(Database(connection, table), **{"private": "sick", **options})
    assert "\n" not in str(caught.value)


def test_awkward_names_and_values(connection: sqlite3.Connection) -> None:
    counts = tables.count(Database(connection, "odd"), private='a "b"', public="y")
    assert counts.s_labels == ('a "b"=it\'s', 'a "b"=null')
    assert counts.x_labels == ("y=0.5", "y=1.5")
    grouped = tables.count(Database(connection, "odd"), private="y", public='a "b"', bins={'a "b"': "top:1"})
    assert grouped.x_labels == ('a "b"=it\'s', 'a "b"=null')
    with pytest.raises(InvalidInputError, match="mixes types"):
        list(Database(connection, "odd").batches(["x"], 10))


def test_quantiles_of_too_many_values(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privfunnel.data.engines.database.QUANTILE_VALUES", 5)
    with pytest.raises(InvalidInputError, match="more than 5 different values: give its bins by edges"):
        tables.count(
            Database(connection, "my people"), private="sick", public="age", bins={"age": "quantiles:2"}
        )


def test_a_first_look_at_a_database_tells_what_a_frame_would(connection: sqlite3.Connection) -> None:
    names = ["age", "town", "smoker"]
    with open_table(as_numbers(ROWS)) as frame:
        assert Database(connection, "my people").overview(names) == frame.overview(names)
        news: list[tuple[int, int, str]] = []
        there = profile.columns(Database(connection, "my people"), lambda *told: news.append(told))
        assert there == profile.columns(frame, lambda *told: None)
        assert [done for done, *_ in news] == sorted(done for done, *_ in news)
