"""The release command: solve a table of records, release it, and every bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from funnels import people
from helpers_cli import Terminal, run

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    pa_csv.write_csv(pa.table(people()), folder / "people.csv")
    done = run("solve", folder / "people.csv", "--private", "sick,smoker", "--public", "age,town,member", "--bin",
               "age=edges:18,40,60,80", "--disclosure", "50%", "--solver", "aem", "--restarts", 1, "--option",
               "max_steps=50", "--out", folder / "design")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "mechanism.json" in done.output
    assert "warning: 2000 rows for" in done.output
    return folder


def test_release_of_a_csv(folder: Path, tmp_path: Path) -> None:
    done = run(
        "release",
        folder / "people.csv",
        "--mechanism",
        folder / "design/mechanism.json",
        "-o",
        tmp_path / "r.csv",
    )
    assert done.exit_code == 0, done.output
    assert "2,000 of 2,000 rows" in done.output
    assert "leakage" in done.output
    assert duckdb.read_csv(str(tmp_path / "r.csv")).columns == ["age", "town", "member"]
    assert (tmp_path / "r.codebook.json").exists()
    order = folder / "design" / "r.order"
    assert f"Confidential: {order}" in done.output
    assert order.stat().st_mode & 0o777 == 0o600
    order.unlink()


def test_the_mechanism_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "m.json"
    own.write_bytes((folder / "design/mechanism.json").read_bytes())
    before = own.read_bytes()
    done = run("release", folder / "people.csv", "--mechanism", own, "-o", tmp_path / "r.csv", "--codebook",
               tmp_path / "." / "m.json", "--force")  # fmt: skip
    assert done.exit_code == 2
    assert "is the mechanism itself: it is never overwritten" in done.stderr
    assert own.read_bytes() == before
    assert not (tmp_path / "r.csv").exists()


def test_release_as_json_with_everything(folder: Path, tmp_path: Path) -> None:
    done = run("release", folder / "people.csv", "--mechanism", folder / "design/mechanism.json", "-o",
               tmp_path / "r.parquet", "--as", "records", "--numbers", "draw", "--keep", "id", "--seed", 1, "--json",
               "--unseen", "nearest", "--order", tmp_path / "r.order")  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["written"] == 2000
    assert report["seed"] == 1
    assert "warning: seed=1" in done.stderr
    assert "warning: kept columns (id)" in done.stderr
    assert duckdb.read_parquet(str(tmp_path / "r.parquet")).columns == ["age", "town", "member", "id"]


def test_unseen_rows_are_reported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,town,member\n99,north,true\n20,mars,false\n30,north,true\n")
    base = [
        "release",
        tmp_path / "new.csv",
        "--mechanism",
        folder / "design/mechanism.json",
        "-o",
        tmp_path / "r.csv",
        "--order",
        tmp_path / "r.order",
    ]
    done = run(*base)
    assert done.exit_code == 2
    assert done.stderr == (
        "error: row 1: age=99 was outside the bins at design time: map it with --unseen nearest or marginal, drop such "
        "rows with --unseen drop, or design again\n"
    )
    done = run(*base, "--unseen", "marginal")
    assert done.exit_code == 0
    assert "1 rows with a new value of age: rule 'marginal'" in done.stdout
    assert "1 rows with a new value of town" in done.stdout


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", [], "is empty"),
        ("age,town,member\n", [], "no rows"),
        ("colour,size\nred,1\n", [], "mechanism is for other columns"),
        ("age;town;member\n20;north;true\n", ["--delimiter", ","], "is the delimiter right?"),
        ("20,north,true\n", [], "name them with columns (--columns)"),
        ("age,town,member\nold,north,true\n", [], "must hold numbers"),
        ("age,town,member\n20,north,true\n", ["--type", "age"], "is not COLUMN=TYPE"),
        ("age,town,member\n20,north,true\n", ["--keep", "sick"], "is private"),
    ],
)
def test_bad_tables_end_with_one_line_and_nothing_written(
    folder: Path, tmp_path: Path, content: str, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.csv").write_text(content)
    done = run("release", tmp_path / "bad.csv", "--mechanism", folder / "design/mechanism.json", "-o",
               tmp_path / "r.csv", *arguments)  # fmt: skip
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1 or "Usage" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_a_file_without_a_header_can_be_released(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("20,north,true\n30,north,false\n")
    done = run("release", tmp_path / "plain.csv", "--columns", "age,town,member", "--mechanism",
               folder / "design/mechanism.json", "-o", tmp_path / "r.csv", "--order", tmp_path / "o")  # fmt: skip
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("content", "message"), [("{oops", "not a JSON file"), ("{}", "not a privfunnel/mechanism")]
)
def test_bad_mechanisms_end_with_one_line(folder: Path, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "m.json").write_text(content)
    done = run("release", folder / "people.csv", "--mechanism", tmp_path / "m.json", "-o", tmp_path / "r.csv")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    done = run(
        "release", folder / "people.csv", "--mechanism", tmp_path / "none.json", "-o", tmp_path / "r.csv"
    )
    assert done.exit_code == 2
    assert "cannot read" in done.stderr


def test_a_person_at_a_terminal_sees_the_rows_go_by(monkeypatch: pytest.MonkeyPatch) -> None:
    from privfunnel.app.cli import release

    monkeypatch.setattr("sys.stderr", Terminal())
    with release._rows_on_terminal("releasing", quiet=False) as progress:
        assert progress is not None
        progress(1_000)
    with release._rows_on_terminal("releasing", quiet=True) as progress:
        assert progress is None
