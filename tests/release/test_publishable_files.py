"""Published files are functions of what may be published: another suppressed value changes no byte of them."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import run
from privfunnel import audit, release, report
from privfunnel.app.explorer import release_files
from privfunnel.data import tables
from privfunnel.data.engines import Database
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism
from privfunnel.report.axes import Axis

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.csv")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

#: Values that one person has, in place of another: quoted by a CSV, computed by a spreadsheet, elsewhere in the order.
RARE = ("RAREVILLE", "RARE,VILLE", 'RARE"VILLE', "=RARE()", "-", "Rareville-upon-the-longest-river-there-is", "Žďár",
        "Aachen", "zzz", "line\nbreak", "<b>R;</b>", " padded ", "null", "东京")  # fmt: skip
ROLES: dict[str, Any] = {"private": "sick", "public": ["town", "g", "n"]}


def rows(rare: str = RARE[0], *, number: float = 3, illness: str = "flu") -> Any:
    """The issue of a registry: of two towns few people come, of one of them a single one."""
    n = 400
    rng = np.random.default_rng(1)
    town = rng.choice(["Bonn", "Ulm", "Köln, am Rhein"], n).astype(object)
    town[7], town[8], town[11] = rare, "RAREVILLE2", None
    sick = rng.choice(["no", "cold"], n).astype(object)
    sick[3] = illness
    g = rng.integers(0, 3, n).astype(float)
    g[9] = number
    return pa.table({"who": range(n), "sick": sick, "town": town, "g": g, "n": rng.integers(18, 80, n)})


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def designed(table: Any, **options: Any) -> Mechanism:
    counts = tables.count(table, **ROLES, bins={"n": "quantiles:3"}, **options)
    problem = counts.problem()
    found = pf.solve(problem, disclosure=0.6 * problem.disclosure_ceiling, solver="global")
    return Mechanism.from_solution(counts, found)


@pytest.fixture(scope="module")
def base() -> Callable[..., Any]:
    made: dict[tuple[Any, ...], Mechanism] = {}

    def mechanism(*rare: Any, **changed: Any) -> Mechanism:
        key = (*rare, *changed.items())
        if key not in made:
            made[key] = designed(rows(*rare, **changed))
        return made[key]

    return mechanism


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("records", {}), ("records", {"numbers": "interval"}), ("records", {"numbers": "draw"}),
    ("records", {"numbers": "midpoint", "dialect": "semicolon"}), ("records", {"raw_text": True}),
    ("records", {"keep_order": True}), ("records", {"person": "who"}), ("records", {"threshold": 2}),
    ("decoys", {}), ("decoys", {"numbers": "interval"}), ("symbols", {}), ("symbols", {"name": "=y"}),
]  # fmt: skip


def files(
    table: Any, mechanism: Mechanism, form: str, options: dict[str, Any], folder: Path
) -> dict[str, bytes]:
    """All that is published of a table in one form."""
    folder.mkdir()
    found = {}
    for suffix in ("csv", "parquet"):
        for book in ("json", "csv"):
            out, notes = folder / f"r.{suffix}", folder / f"r.codebook.{book}"
            release.write(table, mechanism, out, form=form, codebook=notes, seed=5, force=True, **options)
            found |= {out.name: out.read_bytes(), notes.name: notes.read_bytes()}
    return found


@pytest.mark.parametrize(("form", "options"), OPTIONS)
def test_another_suppressed_value_changes_no_byte(
    base: Callable[..., Any], tmp_path: Path, form: str, options: dict[str, Any]
) -> None:
    first = files(rows(), base(), form, options, tmp_path / "first")
    for i, rare in enumerate(RARE[1:]):
        other = files(rows(rare), base(rare), form, options, tmp_path / str(i))
        for name, content in first.items():
            assert other[name] == content, f"{name} tells {rare!r}"
            assert rare in {"-", "null"} or rare.encode() not in content


def test_a_rare_private_value_and_a_rare_number_change_no_byte(
    base: Callable[..., Any], tmp_path: Path
) -> None:
    first = files(rows(), base(), "records", {}, tmp_path / "first")
    for i, changed in enumerate(
        ({"illness": "A, rare one"}, {"illness": "zoster"}, {"number": 2.5}, {"number": 99})
    ):
        other = files(rows(**changed), base(**changed), "records", {}, tmp_path / str(i))
        assert other == first, changed


def _ages(outlier: float) -> Any:
    """Ages in tens, and one that is none of them."""
    rng = np.random.default_rng(3)
    age = rng.choice([20, 30, 40], 400).astype(float)
    age[5] = outlier
    return pa.table({"sick": rng.choice(["no", "cold"], 400), "age": age, "g": rng.integers(0, 3, 400)})


def _aged(table: Any, rule: str | None) -> Mechanism:
    bins = {} if rule is None else {"age": rule}
    counts = tables.count(table, private="sick", public=["age", "g"], bins=bins)
    problem = counts.problem()
    found = pf.solve(problem, disclosure=0.6 * problem.disclosure_ceiling, solver="global")
    return Mechanism.from_solution(counts, found)


@pytest.mark.parametrize("rule", [None, "edges:0,25,35,inf", "width:10", "bins:3", "quantiles:3"])
def test_decimals_of_one_row_write_no_bin_otherwise(tmp_path: Path, rule: str | None) -> None:
    told = [
        files(_ages(age), _aged(_ages(age), rule), "records", {}, tmp_path / f"{age}") for age in (41, 40.5)
    ]
    assert told[0] == told[1]


def test_the_report_of_an_audit_tells_no_number_far_out(tmp_path: Path) -> None:
    told = []
    for far in (41, 5000):
        table, mechanism, out = _ages(far), _aged(_ages(far), None), tmp_path / f"{far}.csv"
        release.write(table, mechanism, out, seed=5)
        found = audit.release(table, out, mechanism=mechanism, bootstrap=2, permutations=2, attacker_rows=0)
        told.append(report.render(mechanism, report.Report(audit=found)))
        # What one row out of 400 says is further off in the exact numbers, which are the steward's.
        assert found.fidelity is not None
        before = next(each.before for each in found.fidelity.columns if each.name == "age")
        assert before is not None
        assert before.mean > (40.0 if far == 5000 else 29.0)
    survives = [html[html.index("What survives") :] for html in told]
    assert "age" in survives[0]
    assert survives[0] == survives[1]


def test_a_report_tells_no_worst_case_of_a_private_value_that_few_people_have(tmp_path: Path) -> None:
    """What a symbol says of a rare illness is what it says of those who have it."""
    rng = np.random.default_rng(2)
    towns = rng.choice(["Bonn", "Ulm", "Jena"], 500)
    told = []
    for rare in (("fabry", "fabry", "fabry"), ("fabry", "cold", "no")):
        sick = rng.choice(["no", "cold"], 500, p=[0.5, 0.5]).astype(object)
        sick[:] = np.where(np.arange(500) % 2, "no", "cold")
        where = np.array(towns, dtype=object)
        sick[:3], where[:3] = rare, "Jena"
        counts = tables.count(pa.table({"sick": sick, "town": where}), private="sick", public="town")
        problem = counts.problem()
        found = pf.solve(problem, disclosure=problem.disclosure_ceiling)
        mechanism = Mechanism.from_solution(counts, found)
        html = report.render(
            mechanism, report.Report(audit=audit.table(pa.table({"sick": sick, "town": where}), mechanism))
        )
        told.append(html)
        lifts = re.findall(
            r"(?:up to|more than) ([\d.]+) times as likely|× ([\d.]+)(?! public|[\d.])",
            re.sub(r"<[^>]*>", " ", html),
        )
        assert lifts
        assert max(float(a or b) for a, b in lifts) < 2.0, "fabry is three times as likely in Jena"
    assert "fabry" not in told[0]


def page(table: Any, mechanism: Mechanism, folder: Path) -> dict[str, bytes]:
    """What the page lets a person download for publication, but for the report."""
    source = folder / "t.parquet"
    folder.mkdir()
    pa.parquet.write_table(table, source)
    held = {**release_files.FILES, **release_files.DECOY_FILES}
    targets = {folder / name: form for name, form in held.items()}
    release_files.write(str(source), mechanism, targets, draws={"seed": 5})
    return {name: (folder / name).read_bytes() for name in held}


def test_what_the_page_offers_for_publication_tells_no_suppressed_value(
    base: Callable[..., Any], tmp_path: Path
) -> None:
    first = page(rows(), base(), tmp_path / "first")
    for i, rare in enumerate(RARE[1:]):
        assert page(rows(rare), base(rare), tmp_path / str(i)) == first, rare


def reports(table: Any) -> list[str]:
    """The report of a curve and of an audited release of records."""
    counts = tables.count(table, **ROLES, bins={"n": "quantiles:3"})
    problem = counts.problem()
    curve = pf.trace(problem, points=3, solver="global")
    chosen = pf.solve(problem, disclosure=0.6 * problem.disclosure_ceiling, solver="global")
    mechanism = Mechanism.from_solution(counts, chosen)
    orders: list[Any] = []
    released = release.frame(table, mechanism, seed=5, on_order=orders.append)
    found = audit.release(
        table, released, mechanism=mechanism, order=orders[0], bootstrap=20, permutations=0, attacker_rows=0
    )
    when = datetime(2026, 1, 1, tzinfo=UTC)
    axes = {"private": Axis.of(counts.s_alphabet), "public": Axis.of(counts.x_alphabet)}
    return [
        report.render(curve, report.Report(chosen=chosen, created=when, **axes)),
        report.render(mechanism, report.Report(audit=audit.table(table, mechanism), created=when)),
        report.render(mechanism, report.Report(audit=found, created=when)),
    ]


def test_reports_tell_no_suppressed_value() -> None:
    first = reports(rows())
    for rare in ("=RARE()", "Rareville-upon-the-longest-river-there-is", "Žďár"):
        assert reports(rows(rare)) == first, rare
    assert reports(rows(illness="a rare one, and long")) == first


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_table_that_is_read_from_a_file_is_released_alike(tmp_path: Path, suffix: str) -> None:
    made = []
    for i, rare in enumerate(("RAREVILLE", "=RARE", "A longer, rarer one", "Žďár")):
        text = io.StringIO()
        csv.writer(text).writerows([rows().column_names, *zip(*rows(rare).to_pydict().values(), strict=True)])
        path = tmp_path / f"{i}.{suffix}"
        data = text.getvalue().encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
        mechanism = designed(str(path))
        mechanism.save(tmp_path / "m.json")
        options = {"dialect": "source", "threshold": 5}
        made.append(
            files(str(path), Mechanism.load(tmp_path / "m.json"), "records", options, tmp_path / str(i))
        )
    assert all(each == made[0] for each in made)


def test_sticky_draws_tell_no_suppressed_value(
    base: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprint in the name of a draw makes other draws of another design: the same is taken here."""
    monkeypatch.setattr(Mechanism, "fingerprint", "0")
    key, made = tmp_path / "k.key", []
    for i, rare in enumerate(RARE[:6]):
        out = tmp_path / f"{i}.parquet"
        release.write(rows(rare), base(rare), out, sticky=key, series="s", id="who", keep_order=True)
        made.append((out.read_bytes(), (tmp_path / f"{i}.codebook.json").read_bytes()))
    assert len(set(made)) == 1


def test_kept_columns_bring_no_value_that_no_row_has(base: Callable[..., Any], tmp_path: Path) -> None:
    clerks = pa.DictionaryArray.from_arrays(np.zeros(400, dtype=np.int32), pa.array(["ann", "SECRETCLERK"]))
    table = rows().append_column("clerk", clerks)
    path = tmp_path / "r.parquet"
    for form in ("records", "decoys", "symbols"):
        release.write(table, base(), path, form=form, keep=["clerk"], force=True)
        assert b"SECRETCLERK" not in path.read_bytes()
        assert set(pa.parquet.read_table(path)["clerk"].to_pylist()) == {"ann"}


def test_values_of_one_person_are_rare_however_many_rows_they_have(tmp_path: Path) -> None:
    table = _panel()
    town = table["town"].to_pylist()
    for source in (table, table.to_pandas(), _database(table, tmp_path)):
        counts = tables.count(source, private="sick", public=["town", "income"], person="who",
                              bins={"income": "width:3"})  # fmt: skip
        assert counts.public[0].persons == (town.count("Bonn"), 1, town.count("Ulm"))
        problem = counts.problem()
        made = Mechanism.from_solution(
            counts, pf.solve(problem, disclosure=0.6 * problem.disclosure_ceiling, solver="greedy")
        )
        made.save(tmp_path / "m.json")
        mechanism = Mechanism.load(tmp_path / "m.json")
        told = files(table, mechanism, "records", {}, tmp_path / str(id(source)))
        told["report.html"] = report.render(
            mechanism, report.Report(audit=audit.table(table, mechanism))
        ).encode()
        for name, content in told.items():
            assert b"UNIQUE" not in content, name
            assert b"987" not in content, name
    with pytest.raises(InvalidInputError, match="persons of the symbols do not fit"):
        Mechanism.from_dict(made.to_dict() | {"x_persons": [1]})


def test_a_report_of_a_curve_counts_persons_too(tmp_path: Path) -> None:
    pa.csv.write_csv(_panel(), tmp_path / "t.csv")
    done = run("curve", tmp_path / "t.csv", "--private", "sick", "--public", "town", "--person", "who", "--points", 3,
               "--solver", "greedy", "--describe", "60%", "--out", tmp_path / "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    told = (tmp_path / "out" / "report.html").read_text()
    assert "440 rows of about 400 persons" in told
    assert "town = Bonn" in told
    assert "UNIQUE" not in told


def _panel() -> Any:
    """Four hundred people with a row each, and one with forty."""
    rng = np.random.default_rng(0)
    who = [*range(400), *[400] * 40]
    town = [*rng.choice(["Bonn", "Ulm"], 400), *["UNIQUE-PERSON-VALUE"] * 40]
    sick = [*rng.choice(["no", "cold"], 400), *["UNIQUE-PERSON-ILLNESS"] * 40]
    income = [*rng.integers(10, 60, 400).tolist(), *[987_654] * 40]
    return pa.table({"who": who, "sick": sick, "town": town, "income": income})


def _database(table: Any, folder: Path) -> Database:
    connection = sqlite3.connect(folder / "t.sqlite")
    names = ", ".join(table.column_names)
    connection.execute("CREATE TABLE t (who INTEGER, sick TEXT, town TEXT, income INTEGER)")
    connection.executemany(
        f"INSERT INTO t ({names}) VALUES (?, ?, ?, ?)", zip(*table.to_pydict().values(), strict=True)
    )
    return Database(connection, "t")


def test_rows_without_a_name_are_persons_of_their_own() -> None:
    table = pa.table(
        {"who": [1, 1, 2, None, None], "t": ["a", "a", "a", "a", "b"], "s": ["p", "q"] * 2 + ["p"]}
    )
    for source in (table, table.to_pandas()):
        counts = tables.count(source, private="s", public="t", person="who")
        assert counts.public[0].persons == (3, 1)
        assert dict(zip(counts.s_labels, counts.s_alphabet.persons.tolist(), strict=True)) == {
            "s=p": 3,
            "s=q": 2,
        }


def test_a_codebook_is_harmless_to_spreadsheets_as_cells_are(tmp_path: Path) -> None:
    table = pa.table({"=cmd()": ["a", "b"] * 50, "@s": ["p", "q", "q", "p"] * 25})
    counts = tables.count(table, private="@s", public="=cmd()")
    mechanism = Mechanism.from_solution(counts, pf.solve(counts.problem(), disclosure=0.3, solver="greedy"))
    for raw in (False, True):
        notes = tmp_path / "r.codebook.csv"
        release.write(table, mechanism, tmp_path / "r.csv", codebook=notes, raw_text=raw, force=True)
        with notes.open(newline="") as lines:
            labels = {line["label"] for line in csv.DictReader(lines)}
        assert labels == {
            f"{'' if raw else chr(39)}{label}" for label in ("=cmd()=a", "=cmd()=b", "@s=p", "@s=q")
        }
