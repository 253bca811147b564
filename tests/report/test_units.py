"""The unit that people read, the threshold of a report, and pictures that cannot be drawn."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from funnels import count_people, people, random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel.model import amounts as quantities

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")

QUICK = ("--bootstrap", 20, "--permutations", 9, "--attacker-rows", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units")
    pa_csv.write_csv(pa.table(people(800)), folder / "people.csv")
    random_mechanism(count_people(folder / "people.csv")).save(folder / "m.json")
    return folder


def test_sentences_are_in_bits_unless_told_otherwise() -> None:
    assert quantities.told(math.log(2.0)) == "1.0000 bits"
    assert quantities.told(-1e-17) == "0.0000 bits"
    assert quantities.amount(-0.4, 0) == "-1"
    assert quantities.amount(math.inf) == "inf"
    with quantities.spoken_in("nats"):
        assert quantities.told(0.5, 2) == "0.50 nats"
        assert quantities.spoken_unit() == "nats"
    assert quantities.amount(2.0 * math.log(2.0), 1) == "2.0"


def promised(text: str) -> tuple[float, str]:
    """The leakage that a command names, and its unit."""
    found = re.search(r"leakage ([0-9.]+) (bits|nats)", text)
    assert found is not None
    return float(found[1]), found[2]


def test_release_and_audit_speak_in_the_unit_asked_for(folder: Path, tmp_path: Path) -> None:
    asked = (folder / "people.csv", "--mechanism", folder / "m.json")
    shown = {}
    for units in ("bits", "nats"):
        done = run("release", *asked, "-o", tmp_path / f"{units}.csv", "--units", units)
        assert done.exit_code == 0, done.output
        other = "nats" if units == "bits" else "bits"
        assert f"of these {units};" in done.stdout
        assert other not in done.stdout
        checked = run(
            "audit", folder / "people.csv", "--mechanism", folder / "m.json", *QUICK[:2], "--units", units
        )
        assert f"Worst case ({units})" in checked.stdout
        assert not re.search(
            rf"[0-9] {other}\b(?!;)", checked.stdout.replace("ε", "").partition("At worst")[0]
        )
        shown[units] = (promised(done.stdout), promised(checked.stdout))
    for in_bits, in_nats in zip(shown["bits"], shown["nats"], strict=True):
        assert (in_bits[1], in_nats[1]) == ("bits", "nats")
        assert in_bits[0] * math.log(2.0) == pytest.approx(in_nats[0], abs=1e-4)
    assert run("release", *asked, "-o", tmp_path / "d.csv").stdout.count(" bits") >= 2


def test_json_does_not_change_with_the_unit(folder: Path) -> None:
    asked = ("audit", folder / "people.csv", "--mechanism", folder / "m.json", *QUICK[:2], "--json")
    assert run(*asked).stdout == run(*asked, "--units", "nats").stdout


def test_bare_amounts_of_a_holdout_are_in_the_unit_given(folder: Path) -> None:
    asked = ("audit", folder / "people.csv", "--private", "sick", "--public", "member", "--holdout", 0.4, "--json",
             "--disclosure")  # fmt: skip

    def promise(*more: object) -> float:
        done = run(*asked, *more)
        assert done.exit_code in {0, 1}, done.output
        return float(json.loads(done.stdout)["promised_disclosure"])

    assert promise("0.4 bits") == pytest.approx(promise("0.4", "--units", "bits"), abs=1e-9)
    assert promise("0.4 nats") == pytest.approx(promise("0.4"), abs=1e-9)
    assert promise("0.4 bits") < promise("0.4 nats")


def test_the_threshold_reaches_the_report(folder: Path, tmp_path: Path) -> None:
    asked = ("audit", folder / "people.csv", "--mechanism", folder / "m.json", *QUICK[:2])
    for more, few in (((), 5), (("--threshold", 40), 40)):
        done = run(*asked, *more, "--out", tmp_path / "report.html")
        assert done.exit_code == 0, done.output
        text = (tmp_path / "report.html").read_text()
        assert f"threshold {few} rows" in text
        assert f"fewer than {few} rows have are not listed" in text
    assert_one_line_error(run(*asked, "--threshold", 1, "--out", tmp_path / "other.html"), "hides nobody")
    assert not (tmp_path / "other.html").exists()


def test_an_audit_takes_the_threshold_of_the_release(folder: Path, tmp_path: Path) -> None:
    made = run("release", folder / "people.csv", "--mechanism", folder / "m.json", "-o", tmp_path / "r.csv", "--order",
               tmp_path / "r.order", "--threshold", 25)  # fmt: skip
    assert made.exit_code == 0, made.output
    done = run("audit", folder / "people.csv", tmp_path / "r.csv", "--mechanism", folder / "m.json", *QUICK, "--out",
               tmp_path / "report.html")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "threshold 25 rows" in (tmp_path / "report.html").read_text()


def test_a_curve_takes_a_threshold(folder: Path, tmp_path: Path) -> None:
    asked = ("curve", folder / "people.csv", "--private", "sick", "--public", "member", "--points", 3)
    done = run(*asked, "--threshold", 30, "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output
    assert "threshold 30 rows" in (tmp_path / "c" / "report.html").read_text()
    assert_one_line_error(run(*asked, "--threshold", 1, "--out", tmp_path / "e"), "hides nobody")
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("unit", ["nats", "bits"])
@pytest.mark.parametrize("command", [("curve", "--points", 3), ("solve", "--disclosure", "60%")])
def test_warnings_speak_in_the_unit_of_the_tables(command: tuple[str, ...], unit: str) -> None:
    name, *more = command
    unfinished = ("--solver", "aem", "--option", "max_steps=1", "--option", "restarts=1")
    told = run(name, "heart-failure", *more, *unfinished, "--units", unit).stderr
    assert re.search(rf"warning: .*gap \S+ {unit}", told)
    assert ("bits" if unit == "nats" else "nats") not in told
