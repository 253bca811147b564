"""Missing values as the table's owner says: a category, rows to leave out, or a reason to stop."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import audit
from privfunnel.data import tables
from privfunnel.data.engines import Database
from privfunnel.data.noise import private_counts
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import _by_text

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pl = pytest.importorskip("polars")
pytest.importorskip("pandas")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

N = 400
ROLES: dict[str, Any] = {"private": "ill", "public": ["town", "size"], "bins": {"size": "quantiles:3"}}
OPTIONS = ("--private", "ill", "--public", "town,size", "--bin", "size=quantiles:3")


def answers() -> Any:
    """People of whom some did not answer: 20 privately, 30 publicly, 5 both."""
    rng = np.random.default_rng(3)
    town = rng.integers(0, 3, N)
    ill = np.where(rng.random(N) < 0.2 + 0.25 * town, "yes", "no").astype(object)
    size = 150.0 + 10.0 * town + rng.normal(0, 8, N)
    ill[:20] = None
    sizes = [None if 15 <= i < 30 else float(v) for i, v in enumerate(size)]
    towns = [None if 30 <= i < 45 else f"t{v}" for i, v in enumerate(town)]
    house = [f"h{i // 2}" for i in range(N)]
    return pa.table({"ill": pa.array(ill), "town": towns, "size": sizes, "house": house})


def complete() -> Any:
    return answers().slice(45)


def in_sqlite(table: Any, connection: sqlite3.Connection) -> Database:
    connection.execute("CREATE TABLE answers (ill TEXT, town TEXT, size REAL, house TEXT)")
    connection.executemany(
        "INSERT INTO answers VALUES (?, ?, ?, ?)", zip(*table.to_pydict().values(), strict=True)
    )
    return Database(connection, "answers")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("missing") / "answers.csv"
    pa_csv.write_csv(answers(), file)
    return file


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    yield opened
    opened.close()


@pytest.mark.parametrize("engine", ["arrow", "pandas", "polars", "duckdb", "sqlite", "file"])
def test_dropping_is_counting_the_rows_that_are_complete(
    engine: str, path: Path, connection: sqlite3.Connection
) -> None:
    table = answers()
    sources = {
        "arrow": lambda: table,
        "pandas": table.to_pandas,  # NaN where the others have nulls
        "polars": lambda: pl.from_arrow(table).lazy(),
        "duckdb": lambda: duckdb.connect().from_arrow(table),
        "sqlite": lambda: in_sqlite(table, connection),
        "file": lambda: path,
    }
    counts = tables.count(sources[engine](), **ROLES, person="house", missing="drop")
    wanted = tables.count(complete(), **ROLES, person="house")
    assert (counts.dropped, counts.n, counts.missing) == (45, N - 45, "drop")
    assert counts.persons == wanted.persons
    assert counts.x_labels == wanted.x_labels
    np.testing.assert_array_equal(counts.table(), wanted.table())


def test_without_missing_values_all_three_are_the_same() -> None:
    prints = {rule: tables.count(complete(), **ROLES, missing=rule).fingerprint for rule in tables.MISSING}
    assert len(set(prints.values())) == 1
    assert tables.count(complete(), **ROLES, missing="drop").dropped == 0


def test_missing_is_a_category_unless_something_else_is_said() -> None:
    counts = tables.count(answers(), **ROLES)
    assert (counts.n, counts.dropped) == (N, 0)
    assert counts.columns["ill"].values == ("no", "yes", None)


def test_refusing_names_the_columns_and_the_rows() -> None:
    with pytest.raises(InvalidInputError, match=r"45 rows .* 'ill' \(20\), 'town' \(15\), 'size' \(15\): "):
        tables.count(answers(), **ROLES, missing="refuse")
    with pytest.raises(InvalidInputError, match="missing='ignore' is unknown: use one of category"):
        tables.count(answers(), **ROLES, missing="ignore")
    with pytest.raises(InvalidInputError, match="has no rows without a missing value"):
        tables.count(answers().slice(0, 10), private="ill", public="town", missing="drop")


def test_an_audit_of_the_design_table_leaves_the_same_rows_out(tmp_path: Path) -> None:
    counts = tables.count(answers(), **ROLES, person="house", missing="drop")
    random_mechanism(counts).save(tmp_path / "m.json")
    mechanism = Mechanism.load(tmp_path / "m.json")
    assert mechanism.missing == "drop"
    found = audit.table(answers(), mechanism, bootstrap=20, view="register")
    assert found.recount is not None
    assert found.recount.same_table
    assert found.rows == N - 45
    assert found.persons is not None
    assert found.persons.persons == counts.persons


def test_rows_of_persons_are_those_that_were_counted() -> None:
    counts = tables.count(answers(), **ROLES, person="house", missing="drop")
    people = audit.rows_of(answers(), counts)
    again = np.zeros((counts.n_s, counts.n_x))
    np.add.at(again, (people.s, people.x), 1.0)
    np.testing.assert_array_equal(again, counts.table())


def test_rows_of_the_design_prove_nothing_where_incomplete_ones_are_audited_with_them() -> None:
    mechanism = random_mechanism(tables.count(answers(), **ROLES, missing="drop"))
    counts = tables.count(answers(), **ROLES)
    found = audit.promise.recount(mechanism, counts, [counts.table() / counts.n])
    assert not found.same_table
    assert found.overlaps


def test_parts_and_noisy_counts_remember_what_was_done() -> None:
    counts = tables.count(answers(), **ROLES, missing="drop")
    assert private_counts(counts, 1.0).missing == "drop"
    found = audit.guaranteed(counts, share=0.3, leakage=0.0, solver="perfect")
    assert found.mechanism.missing == "drop"
    assert audit.table(answers(), found.mechanism, bootstrap=20).recount.overlaps  # type: ignore[union-attr]


def test_the_command_line_says_how_many_rows_are_left_out(path: Path, tmp_path: Path) -> None:
    asked = ("--leakage", 0, "--solver", "perfect")
    done = run("solve", path, *OPTIONS, "--missing", "drop", *asked, "--json", "--out", tmp_path / "d")
    assert done.exit_code == 0, done.output
    assert "45 of 400 rows have missing values and are left out." in done.stderr
    assert json.loads(done.stdout)["solver"] == "perfect"
    assert Mechanism.load(tmp_path / "d" / "mechanism.json").missing == "drop"
    told = run("audit", path, *OPTIONS, "--missing", "drop", "--holdout", 0.3, *asked)
    assert "45 of 400 rows have missing values and are left out." in told.stderr


def test_the_command_line_refuses_what_it_cannot_do(path: Path, tmp_path: Path) -> None:
    assert_one_line_error(run("curve", path, *OPTIONS, "--missing", "refuse"), "45 rows", "--missing drop")
    assert_one_line_error(run("solve", "heart-failure", "--missing", "drop", "--leakage", 0), "--missing")
    random_mechanism(tables.count(path, **ROLES)).save(tmp_path / "m.json")
    given = ("--mechanism", tmp_path / "m.json", "--missing", "drop")
    assert_one_line_error(run("audit", path, *given), "leave --private, --public, --bin and --missing out")
    assert_one_line_error(run("audit", path, path, *OPTIONS, "--missing", "drop"), "is for --holdout")


def test_what_is_missing_in_a_released_column_is_read_as_null_or_as_unseen() -> None:
    array = pa.array(["high", None, "low", "other"])
    assert _by_text(("low", "high", "null"), array).tolist() == [1, 2, 0, -1]
    assert _by_text(("low", "high"), array).tolist() == [1, -1, 0, -1]
