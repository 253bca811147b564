"""The audit command: its four ways, its exit codes, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from funnels import count_people, people, random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import release
from privfunnel.errors import GuaranteeWarning

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("sklearn")

QUICK = ("--bootstrap", 20, "--permutations", 9, "--attacker-rows", 300)
ROLES = ("--private", "sick,smoker", "--public", "age,town,member", "--bin", "age=edges:18,40,60,80")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    table = pa.table(people())
    pa_csv.write_csv(table, folder / "people.csv")
    mechanism = random_mechanism(count_people(folder / "people.csv"))
    mechanism.save(folder / "m.json")
    with pytest.warns(GuaranteeWarning, match="seed=0"):
        release.write(folder / "people.csv", mechanism, folder / "r.csv", seed=0, form="symbols")
    return folder


def test_a_release_is_audited(folder: Path, tmp_path: Path) -> None:
    done = run("audit", folder / "people.csv", folder / "r.csv", "--mechanism", folder / "m.json", *QUICK, "--out",
               tmp_path / "a.json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("• An attacker who guesses sick from the release is right")
    assert "The designed promise holds" in done.stdout
    assert "not differential privacy" in done.stdout
    assert "Worst case" in done.stdout
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["passed"] is True
    assert data["recount"]["same_table"] is True


def test_a_mechanism_alone_and_on_its_table(folder: Path) -> None:
    done = run("audit", "--mechanism", folder / "m.json")
    assert done.exit_code == 0, done.output
    assert "in the table it was designed on" in done.stdout
    done = run("audit", folder / "people.csv", "--mechanism", folder / "m.json", "--bootstrap", 20, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["recount"]["holds"] is True


def test_a_broken_promise_ends_with_one(folder: Path, tmp_path: Path) -> None:
    text = (folder / "r.csv").read_text().splitlines()
    (tmp_path / "r.csv").write_text("\n".join([text[0], *sorted(text[1:])]) + "\n")
    done = run("audit", folder / "people.csv", tmp_path / "r.csv", "--mechanism", folder / "m.json", *QUICK)
    assert done.exit_code == 1
    assert "NOT THIS MECHANISM'S" in done.stdout or "DO NOT AGREE" in done.stdout


def test_a_release_without_a_mechanism(folder: Path) -> None:
    done = run("audit", folder / "people.csv", folder / "r.csv", *ROLES, *QUICK, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["recount"] is None


def test_a_promise_that_does_not_hold_on_held_out_rows_ends_with_one(tmp_path: Path) -> None:
    """X says something of S, but few design rows may show nothing of it."""
    rows = ["a,u", "b,v"] * 350 + ["a,v", "b,u"] * 150
    (tmp_path / "t.csv").write_text("\n".join(["s,x", *rows]) + "\n")
    done = run("audit", tmp_path / "t.csv", "--private", "s", "--public", "x", "--holdout", 0.992,
               "--seed", 4, "--disclosure", "90%", "--solver", "greedy",
               "--out", tmp_path / "h.json")  # fmt: skip
    assert "the promise is refuted for the population" in done.stdout
    assert done.exit_code == 1
    assert json.loads((tmp_path / "h.json").read_text())["passed"] is False


@pytest.mark.parametrize("as_json", [False, True])
def test_holdout(folder: Path, tmp_path: Path, as_json: bool) -> None:
    extra = ["--json"] if as_json else []
    done = run("audit", folder / "people.csv", *ROLES, "--holdout", 0.5, "--leakage", "50%", "--solver", "greedy",
               "--out", tmp_path / "h.json", *extra)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Designed on 1000 rows" in done.stdout
    assert json.loads((tmp_path / "h.json").read_text())["held_out_rows"] == 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to audit"),
        (("a", "b", "c"), "3 tables are too many"),
        (("{people}",), "there is nothing to audit"),
        (("{people}", "{r}"), "name the private and the public columns"),
        (("{people}", "{r}", "--mechanism", "{m}", "--private", "sick"), "brings its own columns"),
        (("{people}", "--holdout", "0.5", "--mechanism", "{m}"), "--holdout designs by itself"),
        (("{people}", *ROLES, "--holdout", "0.5"), "exactly one of --disclosure"),
        (("{people}", *ROLES, "--holdout", "2", "--disclosure", "10%"), "leaves no rows on one side"),
        (("--mechanism", "{m}", "--disclosure", "10%"), "are for --holdout"),
        (("{people}", "{people}", "--mechanism", "{r}"), "is not a JSON file"),
        (("{people}", "none.csv", "--mechanism", "{m}"), "there is no file 'none.csv'"),
        (("{people}", "{r}", "--mechanism", "{m}", "--on", "id"), "no column 'id' to match rows on"),
    ],
)
def test_bad_requests_end_with_one_line(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    names = {"{people}": folder / "people.csv", "{r}": folder / "r.csv", "{m}": folder / "m.json"}
    done = run("audit", *(names.get(argument, argument) for argument in arguments))
    assert done.exit_code == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]


def test_an_audit_is_written_as_a_report_for_a_board(folder: Path, tmp_path: Path) -> None:
    done = run("audit", "--mechanism", folder / "m.json", "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "Who is exposed most" in text
    assert "<h2>Audit</h2>" in text


def test_a_report_in_another_form_or_without_a_mechanism_is_refused(folder: Path, tmp_path: Path) -> None:
    assert_one_line_error(
        run("audit", "--mechanism", folder / "m.json", "--out", tmp_path / "r.pdf"), ".html"
    )
    done = run("audit", folder / "people.csv", folder / "r.csv", *ROLES, "--out", tmp_path / "report.html")
    assert_one_line_error(done, "--mechanism")
    assert list(tmp_path.iterdir()) == []


def test_solve_promises_from_held_out_rows(folder: Path, tmp_path: Path) -> None:
    done = run("solve", folder / "people.csv", *ROLES, "--disclosure", "50%", "--holdout", 0.3, "--confidence", "90%",
               "--solver", "greedy", "--out", tmp_path / "design")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Designed on 1400 rows" in done.stdout
    assert "with 90 % confidence" in done.stdout
    assert "Instead: By dropping columns one would keep" in done.stdout
    found = json.loads((tmp_path / "design" / "population.json").read_text())
    assert found["held_out_rows"] == 600
    assert found["population"]["confidence"] == 0.9
    assert json.loads((tmp_path / "design" / "mechanism.json").read_text())["provenance"]["rows"] == 1400


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("heart-failure", "--holdout", 0.3), "--holdout holds rows out: give a table"),
        (("heart-failure", "--confidence", "much"), "--confidence 'much' is no confidence"),
        (("heart-failure", "--confidence", "100%"), "--confidence '100%' is no confidence"),
    ],
)
def test_bad_requests_for_a_population_are_refused(arguments: tuple[object, ...], message: str) -> None:
    done = run("solve", *arguments, "--disclosure", "50%")
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_report_of_a_release_says_what_was_possible_instead(folder: Path, tmp_path: Path) -> None:
    done = run("audit", folder / "people.csv", "--mechanism", folder / "m.json", "--bootstrap", 20,
               "--out", tmp_path / "report.html")  # fmt: skip
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text("utf-8")
    assert (
        page.index("What was possible instead")
        < page.index("dropping columns")
        < page.index("coarser categories")
    )
