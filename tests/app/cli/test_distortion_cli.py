"""The distortion funnel from a table of records to an audited release, on the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from documents import blocks
from helpers_cli import assert_one_line_error, run
from privfunnel import audit, release
from privfunnel.data import tables
from privfunnel.errors import InvalidInputError
from privfunnel.release import distortion
from privfunnel.release.mechanism import Mechanism


def read(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text("utf-8").splitlines()))


def records(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


ROLES = ("--private", "sex", "--public", "age,smoking,dead", "--bin", "age=edges:0,30,50,70,100")
COSTS = ("--cost", "age=ordinal", "--cost", "dead=never")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, 2000)
    age = np.clip(rng.normal(45 + 6 * sex, 14), 18, 90).round().astype(int)
    smoking = (rng.random(2000) < 0.2 + 0.25 * sex).astype(int)
    dead = (rng.random(2000) < 0.1 + 0.004 * age).astype(int)
    path = tmp_path_factory.mktemp("rows") / "people.csv"
    rows = zip(np.where(sex, "m", "f"), age, smoking, dead, strict=True)
    path.write_text("sex,age,smoking,dead\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


@pytest.fixture(scope="module")
def design(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("design") / "out"
    result = run("solve", table, *ROLES, "--distortion", "0.2", *COSTS, "--out", folder)
    assert result.exit_code == 0, result.output
    assert "proved lower bound" in result.output
    assert "dead 100.0 %" in result.output
    return folder


def test_a_design_leaves_its_files(design: Path) -> None:
    assert {path.name for path in design.iterdir()} == {
        "certificate.npz", "mechanism.json", "solution.json", "transition.csv",
    }  # fmt: skip
    solution = pf.Solution.load(design / "solution.json")
    assert solution.distortion <= 0.2 + 1e-12
    assert solution.gap <= 1e-9
    rows = read(design / "transition.csv")
    assert rows[0][1:] == [row[0] for row in rows[1:]]


def test_its_proof_is_verified_for_these_costs_alone(table: Path, design: Path) -> None:
    proof = design / "certificate.npz"
    good = run("verify", proof, table, *ROLES, *COSTS, "--distortion", "0.2")
    assert good.exit_code == 0, good.output
    assert "VERIFIED" in good.output
    again = run("verify", proof, design / "solution.json", "--distortion", "0.2", "--json")
    assert again.exit_code == 0, again.output
    (line,) = json.loads(again.stdout)
    solution = pf.Solution.load(design / "solution.json")
    assert line["lower_bound"] == pytest.approx(solution.leakage, abs=1e-9)
    assert_one_line_error(run("verify", proof, table, *ROLES), "other costs")
    assert_one_line_error(run("verify", proof, table, *ROLES, *COSTS, "--invariant"), "invariant")


def test_records_are_released_and_audited(table: Path, design: Path, tmp_path: Path) -> None:
    mechanism = Mechanism.load(design / "mechanism.json")
    assert mechanism.outputs is not None
    out = tmp_path / "released.csv"
    result = run("release", table, "--mechanism", design / "mechanism.json", "-o", out, "--seed", "3",
                 "--keep-order")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "record in place of a record" in result.output
    rows = records(out)
    before = records(table)
    assert list(rows[0]) == ["age", "smoking", "dead"]
    assert [row["dead"] for row in rows] == [row["dead"] for row in before]  # never changed
    changed = float(np.mean([a["smoking"] != b["smoking"] for a, b in zip(before, rows, strict=True)]))
    solution = pf.Solution.load(design / "solution.json")
    value = np.array(solution.problem.public_columns["smoking"], dtype=object)
    expected = float((solution.channel * solution.problem.p_x[:, None])[value[:, None] != value].sum())
    assert changed == pytest.approx(expected, abs=5.0 * np.sqrt(expected / 2000))
    assert expected > 0.05
    found = audit.release(table, out, mechanism=mechanism)
    assert found.recount is not None
    assert found.recount.holds


def test_a_mechanism_of_records_is_read_back_and_checked(design: Path) -> None:
    mechanism = Mechanism.load(design / "mechanism.json")
    data = mechanism.to_dict()
    again = Mechanism.from_dict(data)
    assert again.fingerprint == mechanism.fingerprint
    assert mechanism.outputs is not None
    assert np.array_equal(again.outputs, mechanism.outputs)
    assert mechanism.record_given_y.sum(axis=0) == pytest.approx(np.ones(mechanism.n_y))
    for records in ([0] * mechanism.n_y, data["records"][:-1], [99, *data["records"][1:]]):
        with pytest.raises(InvalidInputError, match="records"):
            Mechanism.from_dict(data | {"records": records})


def test_records_have_no_decoys(table: Path, design: Path, tmp_path: Path) -> None:
    mechanism = Mechanism.load(design / "mechanism.json")
    with pytest.raises(InvalidInputError, match="no decoys"):
        release.write(table, mechanism, tmp_path / "d.csv", form="decoys")


def test_a_curve_of_distortion_is_traced(tmp_path: Path) -> None:
    out = tmp_path / "curve"
    result = run("curve", "heart-failure", "--distortion", "all", "--points", "4", "--out", out)
    assert result.exit_code == 0, result.output
    assert "they leak nothing" in (out / "report.html").read_text("utf-8")
    assert "4 of 4 points proved optimal" in result.output
    rows = records(out / "curve.csv")
    assert float(rows[-1]["leakage"]) == pytest.approx(0.0, abs=1e-9)
    verified = run("verify", out / "certificates.npz", "heart-failure")
    assert verified.exit_code == 0, verified.output
    part = run("curve", "heart-failure", "--distortion", "0.1", "--points", "2", "--invariant", "--json")
    assert json.loads(part.stdout)["points"][-1]["limit"] == pytest.approx(0.1)


def test_the_report_of_a_curve_describes_a_distortion(tmp_path: Path) -> None:
    asked = ["--distortion", "0.1", "--points", "2", "--cost", "smoking=never", "--describe", "0.05"]
    result = run("curve", "heart-failure", *asked, "--out", tmp_path / "curve")
    assert result.exit_code == 0, result.output
    report = (tmp_path / "curve" / "report.html").read_text("utf-8")
    assert "smoking 100 %" in report
    assert "privfunnel verify certificates.npz problem.json --cost smoking=never" in report
    assert_one_line_error(run("curve", "heart-failure", *asked), "--out DIR")


def test_the_least_distortion_for_a_leakage_is_found() -> None:
    result = run("solve", "heart-failure", "--leakage", "10%", "--cost", "smoking=2", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["distortion"] - found["least_distortion"] < 1e-6
    shown = run("solve", "heart-failure", "--leakage", "10%", "--invariant")
    assert "least distortion, proved" in shown.output
    assert "own distribution" in shown.output


@pytest.mark.parametrize(
    ("asked", "goal"),
    [
        (("--disclosure", "60%"), "leakage"),
        (("--leakage", "5%"), "disclosure"),
        (("--distortion", "0.1"), "leakage"),
        (("--leakage", "5%", "--invariant"), "distortion"),
    ],
)
def test_a_point_is_shown_alike_whatever_is_asked(asked: tuple[str, ...], goal: str) -> None:
    rows = [line.split() for line in run("solve", "heart-failure", *asked).output.splitlines()]
    (gap,) = (row for row in rows if row[:1] == ["gap"])
    assert gap[2:] == ["of", goal]
    for name in ("leakage", "disclosure", "slope", "status", "solver"):
        assert sum(row[:1] == [name] for row in rows) == 1, name
    proved = " ".join(" ".join(row[:3]) for row in rows)
    bound = {"leakage": "proved lower bound", "distortion": "least distortion, proved"}
    assert bound.get(goal, "most disclosure, proved") in proved


def test_listed_costs_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(",no,yes\nno,,3\nyes,inf,\n")
    result = run("solve", "heart-failure", "--distortion", "0.1", "--cost", f"smoking={path}", "--json")
    assert result.exit_code == 0, result.output
    assert "smoking as listed" in json.loads(result.stdout)["question"]["costs"]["words"]
    path.write_text(",no,yes\nno,3\n")
    assert_one_line_error(
        run("solve", "heart-failure", "--distortion", "0", "--cost", f"smoking={path}"), "costs"
    )
    assert_one_line_error(
        run("solve", "heart-failure", "--distortion", "0", "--cost", "smoking=no.csv"), "cannot read"
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--distortion", "0.1", "--disclosure", "60%"), "--disclosure"),
        (("--distortion", "0.1", "--solver", "aem"), "--solver"),
        (("--distortion", "0.1", "--guarantee", "k=5"), "--guarantee"),
        (("--distortion", "0.1", "--leakage", "0"), "exactly one"),
        (("--leakage", "death=5%", "--invariant"), "--leakage death=5% is more than"),
        (("--invariant",), "exactly one"),
        (("--distortion", "much"), "not a number"),
        (("--distortion", "-1"), "not usable"),
        (("--distortion", "0.1", "--cost", "town=never"), "town"),
    ],
)
def test_what_does_not_go_together_is_told(options: tuple[str, ...], word: str) -> None:
    assert_one_line_error(run("solve", "heart-failure", *options), word)


def test_a_cost_needs_a_column_and_a_rule() -> None:
    result = run("solve", "heart-failure", "--distortion", "0.1", "--cost", "never")
    assert result.exit_code == 2
    assert "COLUMN=RULE" in result.stderr
    assert_one_line_error(run("curve", "heart-failure", "--distortion", "all", "--refine", "3"), "--refine")


def test_costs_are_for_distortion_proofs(tmp_path: Path) -> None:
    run("solve", "heart-failure", "--disclosure", "70%", "--out", tmp_path)
    result = run("verify", tmp_path / "certificate.npz", "heart-failure", "--cost", "smoking=never")
    assert_one_line_error(result, "not about distortion")


def test_counts_are_released_without_rare_records(table: Path) -> None:
    counts = tables.count(table, private="sex", public=["smoking", "dead"])
    solution = distortion.solve(counts, distortion=distortion.free_distortion(counts))
    mechanism = Mechanism.from_solution(counts, solution)
    assert mechanism.n_y == int((solution.p_y > 0.0).sum())
    assert mechanism.provenance["distortion"]["limit"] == solution.limit


def test_the_points_that_the_page_on_distortion_asks_for_can_be_had() -> None:
    (block,) = blocks("distortion.md", "console")
    asked = [line.removeprefix("$ privfunnel ") for line in block.splitlines() if " solve " in line]
    assert len(asked) == 2
    for line in asked:
        done = run(*line.split())
        assert done.exit_code == 0, done.output
