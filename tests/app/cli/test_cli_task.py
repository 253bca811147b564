"""The task funnel on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import privfunnel as pf
from helpers_cli import assert_one_line_error
from privfunnel.app.cli import main
from privfunnel.errors import InfeasibleError
from privfunnel.release.mechanism import Mechanism

ROLES = ["--private", "sex", "--public", "age,town", "--task", "income"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    n = 1200
    sex, age = rng.integers(0, 2, n), rng.integers(0, 3, n)
    income = (rng.random(n) < 0.15 + 0.2 * age + 0.2 * sex).astype(int)
    town = np.array(["a", "b", "c"])[(age + sex + rng.integers(0, 2, n)) % 3]
    path = tmp_path_factory.mktemp("table") / "people.csv"
    frame = {"sex": np.array(["f", "m"])[sex], "age": age, "town": town, "income": income}
    pd.DataFrame(frame).to_csv(path, index=False)
    return path


def run(*arguments: str) -> str:
    found = CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_solve_writes_a_design_for_the_task(table: Path, tmp_path: Path) -> None:
    said = run("solve", table, *ROLES, "--utility", "95%", "--out", tmp_path / "design")
    assert "95.00 % of I(U;X)" in said
    assert "income is guessed right" in said
    for method in ("dropping columns", "coarser categories"):
        assert f"Instead: By {method} one would leak I(S;Y) = " in said
    assert "to who knows nothing" not in said
    solution = pf.Solution.load(tmp_path / "design" / "solution.json")
    assert solution.utility >= 0.95 * solution.problem.utility_ceiling - 1e-9
    mechanism = Mechanism.load(tmp_path / "design" / "mechanism.json")
    assert mechanism.task == ("income",)
    certificate = tmp_path / "design" / "certificate.npz"
    assert "VERIFIED" in run("verify", certificate, tmp_path / "design" / "solution.json")
    assert "I(U;Y)" in run("verify", certificate, table, *ROLES)


def test_a_release_of_the_design_needs_the_public_columns_alone(table: Path, tmp_path: Path) -> None:
    run("solve", table, *ROLES, "--leakage", "0", "--out", tmp_path / "design")
    public = pd.read_csv(table)[["age", "town"]]
    public.to_csv(tmp_path / "public.csv", index=False)
    mechanism = tmp_path / "design" / "mechanism.json"
    said = run("release", tmp_path / "public.csv", "--mechanism", mechanism, "-o", tmp_path / "released.csv")
    designed = Mechanism.load(mechanism).provenance["task"]
    share = 100.0 * designed["utility"] / designed["utility_ceiling"]
    assert "Designed for: income, of which the symbols tell " in said
    assert f"bits, {share:.1f} % of what the public columns tell." in said.replace("\n", " ")
    assert len(pd.read_csv(tmp_path / "released.csv")) == len(public)


def test_curve_is_along_the_utility(table: Path, tmp_path: Path) -> None:
    asked = ["--points", "4", "--units", "bits", "--describe", "90%"]
    said = run("curve", table, *ROLES, *asked, "--out", tmp_path / "curve")
    report = (tmp_path / "curve" / "report.html").read_text("utf-8")
    assert "It was designed for income: it keeps 90.0 %" in report
    assert "coarser categories, as good for income" in report
    assert "% of I(U;X)" in said
    curve = pf.Curve.load(tmp_path / "curve" / "curve.json")
    shares = curve.utility / curve.problem.utility_ceiling
    np.testing.assert_allclose(
        shares, [0, 1 / 3, 2 / 3, 0.9, 1], atol=1e-6
    )  # the described point is one of them
    rows = pd.read_csv(tmp_path / "curve" / "curve.csv")
    assert rows["utility"].iloc[-1] == pytest.approx(curve.problem.utility_ceiling / np.log(2))
    one = json.loads(run("curve", table, *ROLES, "--utility", "50%", "--json"))
    assert len(one["points"]) == 1


def test_a_curve_for_a_task_may_be_of_another_measure(table: Path, tmp_path: Path) -> None:
    asked = [
        "--measure",
        "guessing",
        "--utility",
        "90%",
        "--units",
        "bits",
        "--option",
        "gap=1e-2",
        "--describe",
        "90%",
    ]
    said = run("curve", table, *ROLES, *asked, "--out", tmp_path / "curve")
    assert "measured by guessing" in said.replace("\n", " ")
    assert "% of X's" in said
    (row,) = pd.read_csv(tmp_path / "curve" / "curve.csv").to_dict("records")
    curve = pf.Curve.load(tmp_path / "curve" / "curve.json")
    assert row["leakage"] == float(curve.leakage[0])  # a probability has no bits
    assert row["utility"] == pytest.approx(float(curve.utility[0]) / np.log(2))
    report = (tmp_path / "curve" / "report.html").read_text("utf-8")
    assert "Measured by gain in guessing" in report
    assert 'data-unit="" data-xunit="bits" data-along="useful"' in report


def test_the_described_point_has_the_time_of_any_other(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[str, object] = {}

    def listen(_problem: pf.Problem, **asked: object) -> None:
        heard.update(asked)
        raise InfeasibleError("enough heard")

    monkeypatch.setattr(pf, "trace", listen)
    asked = ["--known", "age", "--points", "4", "--describe", "90%", "--time-limit", "30"]
    CliRunner().invoke(main, ["curve", str(table), *ROLES, *asked, "--out", str(tmp_path / "curve")])
    assert heard["time_limit"] == 6.0
    assert len(heard["also"]) == 1  # type: ignore[arg-type]


def test_options_of_other_funnels_are_refused(table: Path) -> None:
    for more, words in (
        (["--utility", "90%", "--known", "income"], "there is no public column 'income'"),
        (["--utility", "90%", "--ledger", "none.json"], "leave --ledger out"),
        (["--utility", "90%", "--leakage", "0"], "exactly one of --utility"),
        (["--utility", "90%", "--holdout", "0.3"], "leave --holdout out"),
        (["--utility", "99.9%", "--guarantee", "lip=0.01"], "the guarantees allow"),
    ):
        found = CliRunner().invoke(main, ["solve", str(table), *ROLES, *more])
        assert found.exit_code == 2
        assert words in found.output + (found.stderr or "")
    wide = CliRunner().invoke(main, ["curve", str(table), *ROLES, "--disclosure", "50%"])
    assert_one_line_error(wide, "solve --utility 90% --disclosure 50%")
    nowhere = CliRunner().invoke(main, ["curve", str(table), *ROLES, "--describe", "90%"])
    assert_one_line_error(nowhere, "--out DIR")
    bare = CliRunner().invoke(main, ["solve", "heart-failure", "--utility", "90%"])
    assert bare.exit_code == 2


def test_a_release_for_a_task_is_guarded_on_request(table: Path, tmp_path: Path) -> None:
    guards = ["--known", "age", "--guarantee", "lip=0.5", "--disclosure", "50%", "--option", "gap=1e-3"]
    said = run("solve", table, *ROLES, "--utility", "90%", *guards, "--out", tmp_path / "design")
    assert "to who knows age" in said
    assert "one would leak I(S;Y) = " in said
    assert "% of I(S;X), to who knows nothing" in said.replace("\n", " ")
    assert "Guaranteed for every output: lip=0.5" in said
    assert "I(U;Y)" in run("verify", tmp_path / "design" / "certificate.npz", table, *ROLES)
    mechanism = Mechanism.load(tmp_path / "design" / "mechanism.json")
    assert mechanism.task == ("income",)
    assert mechanism.provenance["guarded"].endswith("guaranteed lip=0.5")
    most = run("solve", table, *ROLES, "--guarantee", "lip=0.1", "--option", "gap=1e-3")
    assert "within the guarantees" in most
    spent = run("solve", table, *ROLES, "--leakage", "sex=5%", "--option", "gap=1e-3")
    assert "about sex" in spent


def test_the_curve_of_a_task_ends_where_guarantees_end_it(table: Path, tmp_path: Path) -> None:
    guards = ["--known", "town", "--guarantee", "lip=0.1", "--option", "gap=1e-3"]
    said = run("curve", table, *ROLES, "--points", "3", *guards, "--out", tmp_path / "curve")
    assert "The guarantees allow" in said
    assert "to who knows" in said
    curve = pf.Curve.load(tmp_path / "curve" / "curve.json")
    assert 0.0 < curve.most < curve.problem.utility_ceiling
    report = (tmp_path / "curve" / "report.html").read_text()
    assert "the curve ends there" in report
    assert "<th>to who knows</th>" in report  # as on any other guarded curve


def test_a_budget_has_the_unit_that_is_shown_whatever_leakage_is_measured_by(table: Path) -> None:
    asked = [
        "--leakage",
        "0.02",
        "--measure",
        "maximal-leakage",
        "--option",
        "gap=1e-2",
        "--units",
        "bits",
        "--json",
    ]
    found = json.loads(run("solve", table, *ROLES, *asked))
    assert found["question"]["budget"] == pytest.approx(0.02 * np.log(2))


def test_several_tasks_have_weights(table: Path) -> None:
    roles = ["--private", "sex", "--public", "age,town", "--task", "income=2,age"]
    found = json.loads(run("solve", table, *roles, "--utility", "0", "--json"))
    assert {task["name"]: task["weight"] for task in found["problem"]["tasks"]} == {"income": 2.0, "age": 1.0}
    for tasks, words in (
        (["--task", "income", "--task", "income=2"], "'income' is a task twice"),
        (["--task", "income=0"], "the weight 0.0 of task 'income' is not usable"),
        (["--task", "town=b"], "'town=b'"),
    ):
        result = CliRunner().invoke(main, ["solve", str(table), *ROLES[:4], *tasks, "--utility", "0"])
        assert_one_line_error(result, words)


def test_commands_that_know_no_task_say_so(table: Path) -> None:
    for command in ("compare", "bottleneck", "guess", "inertia"):
        assert_one_line_error(
            CliRunner().invoke(main, [command, str(table), *ROLES]), "--task income is for solve"
        )
    mixed = CliRunner().invoke(main, ["solve", str(table), *ROLES, "--distortion", "0.2"])
    assert_one_line_error(mixed, "has no use for --task")


def test_a_disclosure_with_a_task_is_the_plain_funnel(table: Path) -> None:
    assert "income is guessed right in" in run("solve", table, *ROLES, "--disclosure", "50%")
    said = json.loads(run("solve", table, *ROLES, "--disclosure", "50%", "--json"))
    assert said["schema"] == pf.Solution.schema
    assert said["problem"]["tasks"][0]["name"] == "income"
