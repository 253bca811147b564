"""The command line: what it shows, what it writes, and how it fails."""

from __future__ import annotations

import csv
import json
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import AEM, QUICK, Terminal, assert_one_line_error, run
from privfunnel.algorithms import registry
from privfunnel.app.cli import main
from privfunnel.app.cli._common import progress_on_terminal
from privfunnel.app.cli._limits import limited
from privfunnel.certificate import load_bundle
from privfunnel.data import instances
from privfunnel.errors import ConvergenceWarning, InfeasibleError, InvalidInputError
from privfunnel.infra.watching import Progress
from toys import Mixer


@pytest.fixture
def joint(tmp_path: Path) -> Path:
    path = tmp_path / "joint.csv"
    path.write_text("s,a,b,c\nyes,10,20,5\nno,30,5,5\n")
    return path


# --- help and version ---------------------------------------------------------------------------------------------


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"privfunnel {pf.__version__}"


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "curve" in result.output
    assert "solve" in result.output
    for name in main.list_commands(None):  # type: ignore[arg-type]
        told = run(name, "--help")
        assert told.exit_code == 0
        assert f"privfunnel {name}" in told.output.replace("main ", "privfunnel ")


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "privfunnel", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"privfunnel {pf.__version__}"


@pytest.mark.parametrize(
    "what", ["import privfunnel.app.cli", "main(['--help'])", "main(['solve', '--help'])"]
)
def test_the_command_line_starts_without_a_numerical_library(what: str) -> None:
    program = f"""
import sys
from privfunnel.app.cli import main
try:
    {what}
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {{"numpy", "scipy", "numba", "highspy", "matplotlib", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- curve --------------------------------------------------------------------------------------------------------


def test_curve_of_an_instance_shows_a_table() -> None:
    result = run("curve", "synthetic-uniform", *QUICK)
    assert result.exit_code == 0, result.output
    for word in ("disclosure", "% of H(X)", "% of I(S;X)", "slope", "status", "1.098612", "0.454106"):
        assert word in result.stdout


def test_curve_in_bits() -> None:
    result = run("curve", "synthetic-uniform", *QUICK, "--units", "bits")
    assert "1.584963" in result.stdout
    assert "(bits)" in result.stdout


def test_curve_writes_its_files(tmp_path: Path, joint: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = run("curve", joint, *QUICK, "--out", out)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [
        "curve.csv",
        "curve.json",
        "curve.png",
        "curve.svg",
        "population.json",
        "problem.json",
        "report.html",
    ]
    report = (out / "report.html").read_text()
    assert f"privfunnel curve {joint} --solver aem" in report
    assert pf.Problem.load(out / "problem.json").s_labels == ("yes", "no")
    curve = pf.Curve.load(out / "curve.json")
    assert curve.problem.s_labels == ("yes", "no")
    with (out / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["leakage"]) for row in rows] == pytest.approx(curve.leakage.tolist(), abs=1e-12)
    assert {row["units"] for row in rows} == {"nats"}
    for path in out.iterdir():
        assert (path.stat().st_mode & 0o077 == 0) == (path.name != "report.html"), path.name
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    svg = (out / "curve.svg").read_text()
    assert "disclosure" in svg, "text in the figure stays text"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["folder"], "nothing temporary is left"


def test_curve_replaces_its_files_and_leaves_others(tmp_path: Path, joint: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "curve.csv").write_text("old")
    assert run("curve", joint, *QUICK, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "out" / "curve.csv").read_text() != "old"


def test_curve_json_is_the_file_format(tmp_path: Path, joint: Path) -> None:
    result = run("curve", joint, *QUICK, "--json")
    (tmp_path / "curve.json").write_text(result.stdout)
    assert pf.Curve.load(tmp_path / "curve.json").solver == "aem"


def test_json_is_in_nats_whatever_is_shown(joint: Path) -> None:
    nats = json.loads(run("curve", joint, *QUICK, "--json").stdout)
    bits = json.loads(run("curve", joint, *QUICK, "--json", "--units", "bits").stdout)
    assert bits["units"] == "nats"
    assert [p["leakage"] for p in bits["points"]] == [p["leakage"] for p in nats["points"]]


def test_same_seed_same_curve(joint: Path) -> None:
    def points(seed: str) -> list[float]:
        result = run("curve", joint, *QUICK, "--json", "--seed", seed)
        return [point["leakage"] for point in json.loads(result.stdout)["points"]]

    assert points("3") == points("3")


def test_unconverged_points_are_a_warning_not_a_failure() -> None:
    result = run("curve", "heart-failure", *QUICK)
    assert result.exit_code == 0
    assert "warning: solver 'aem'" in result.stderr
    assert "max_steps" in result.stderr


def test_other_warnings_keep_their_form(monkeypatch: pytest.MonkeyPatch, joint: Path) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.warn("something of a library", ConvergenceWarning, stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.warn("something else", UserWarning, stacklevel=1)
        raise InvalidInputError("stop: here")

    monkeypatch.setattr("privfunnel.app.cli.curve.open_source", warn)
    result = run("curve", joint)
    assert "warning: something of a library\n" in result.stderr
    assert "UserWarning: something else" in result.stderr


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "get", lambda *_, **__: Mixer(interrupt_after=5))
    result = run("curve", "synthetic-uniform", "--points", "11", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    curve = pf.Curve.load(tmp_path / "out" / "curve.json")
    assert not curve.complete
    assert len(curve.solutions) == 6


def test_the_default_solver_proves_its_curve(tmp_path: Path) -> None:
    result = run("curve", "synthetic-skewed", "--points", "4", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "4 of 4 points proved optimal" in result.stdout
    assert "Free disclosure: 0.000000 nats (nothing)" in result.stdout
    certificates = load_bundle(tmp_path / "certificates.npz")
    problem, curve = instances.load("synthetic-skewed"), pf.Curve.load(tmp_path / "curve.json")
    for certificate in certificates:
        certificate.verify(problem)
    for disclosure, leakage in zip(curve.disclosure[1:3], curve.leakage[1:3], strict=True):
        best = max(certificate.lower_bound(float(disclosure)) for certificate in certificates)
        assert leakage - 1e-6 <= best <= leakage + 1e-12


# --- solve --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "nats"),
    [
        ("60%", 0.6 * 1.0986122887),
        ("0.9 bits", 0.9 * 0.6931471806),
        ("0.5", 0.5),
        ("0.5 nats", 0.5),
        ("5e-1nat", 0.5),
    ],
)
def test_solve_reads_quantities(asked: str, nats: float) -> None:
    result = run("solve", "synthetic-uniform", "--disclosure", asked, *AEM, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["requested"] == pytest.approx(nats, abs=1e-9)
    assert told["disclosure"] >= nats - 1e-9


def test_a_bare_number_is_in_the_chosen_units() -> None:
    result = run("solve", "synthetic-uniform", "--disclosure", "1", "--units", "bits", *AEM, "--json")
    assert json.loads(result.stdout)["requested"] == pytest.approx(0.6931471805599453)
    assert json.loads(result.stdout)["units"] == "nats"


def test_solve_shows_and_writes(tmp_path: Path) -> None:
    result = run("solve", "synthetic-uniform", "--disclosure", "50%", *AEM, "--out", tmp_path / "one")
    assert result.exit_code == 0, result.output
    assert "50.00 % of H(X)" in result.stdout
    assert "proved lower bound" in result.stdout
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["solution.json"]
    solution = pf.Solution.load(tmp_path / "one" / "solution.json")
    assert solution.leakage == pytest.approx(0.120947, abs=2e-4)


def test_a_proved_solution_comes_with_its_certificate(tmp_path: Path) -> None:
    result = run("solve", "synthetic-uniform", "--disclosure", "50%", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert f"Files are in {tmp_path}: certificate.npz, solution.json\nConfidential" in result.stdout
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600, 0o600]
    (certificate,) = load_bundle(tmp_path / "certificate.npz")
    certificate.verify(instances.load("synthetic-uniform"))


def test_solve_within_a_leakage_budget() -> None:
    result = run("solve", "synthetic-uniform", "--leakage", "20%", *AEM)
    assert result.exit_code == 0, result.output
    assert "20.00 % of I(S;X)" in result.stdout
    assert "most disclosure, proved" in result.stdout


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_on_terminal("quiet") as listener:
        assert listener is None, "stderr is no terminal here"
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_on_terminal("quiet", quiet=True) as listener:
        assert listener is None
    with progress_on_terminal("curve of x") as listener:
        assert listener is not None
        listener(Progress(done=3, total=7, value=0.25, bound=0.125, message="R = 0.5"))
    shown = screen.getvalue()
    for part in ("curve of x", "3/7", "R = 0.5", "leakage 0.25", "proved ≥ 0.125"):
        assert part in shown


@pytest.mark.parametrize("table", [",a\ns,1\nt,2\n", ",a,b\ns,1,2\n"])
def test_one_symbol_is_a_trivial_curve(tmp_path: Path, table: str) -> None:
    (tmp_path / "one.csv").write_text(table)
    result = run("curve", tmp_path / "one.csv", "--points", "3", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "3 of 3 points proved optimal" in result.stdout
    assert "-0.0000" not in result.stdout
    assert run("solve", tmp_path / "one.csv", "--disclosure", "50%").exit_code == 0


def test_a_curve_is_written_without_pictures_where_there_is_no_library_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("curve", "synthetic-uniform", *QUICK, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "no pictures are written" in result.stderr
    assert "pip install 'privfunnel[plots]'" in result.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert {"curve.csv", "curve.json", "problem.json", "report.html"} <= names
    assert not names & {"curve.png", "curve.svg"}


def test_files_with_the_exact_table_are_for_the_user_alone_and_called_confidential(tmp_path: Path) -> None:
    result = run("curve", "synthetic-uniform", *QUICK, "--out", tmp_path)
    (told,) = [line for line in result.stdout.splitlines() if line.startswith("Confidential")]
    for name in ("curve.csv", "curve.json", "problem.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert name in told


def test_the_example_is_the_same_each_time_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    assert run("example", path).exit_code == 0
    first = path.read_text()
    assert first.splitlines()[0] == "sex,death,smoking,diabetes,age"
    assert len(first.splitlines()) == 601
    assert_one_line_error(run("example", path), "--force")
    assert run("example", path, "--force").exit_code == 0
    assert path.read_text() == first
    assert_one_line_error(run("example", tmp_path / "patients.xls"), ".csv")


def test_the_joint_example_counts_the_same_patients(tmp_path: Path) -> None:
    assert run("example", "--joint", tmp_path / "joint.csv").exit_code == 0
    result = run("curve", tmp_path / "joint.csv", *QUICK)
    assert result.exit_code == 0, result.output
    assert "4 private × 4 public symbols" in result.stdout
    rows = [line.split('",')[1] for line in (tmp_path / "joint.csv").read_text().splitlines()[1:]]
    assert sum(int(cell) for row in rows for cell in row.split(",")) == 600


def test_a_time_limit_is_what_the_solver_has_longer_or_shorter_than_its_own() -> None:
    assert limited("global", {}, 10.0, 5).time_limit == 2.0  # type: ignore[attr-defined]
    assert limited("auto", {}, 1000.0).time_limit == 1000.0  # type: ignore[attr-defined]
    assert limited("auto", {}, None).time_limit == 20.0  # type: ignore[attr-defined]
    assert limited("global", {"gap": 1e-3}, None).gap == 1e-3  # type: ignore[attr-defined]
    for command in ("solve", "curve"):
        asked = ("--disclosure", "50%") if command == "solve" else ("--points", "4")
        result = run(command, "synthetic-uniform", *asked, "--time-limit", "0.001")
        assert result.exit_code == 0, result.output
    assert_one_line_error(run("curve", "synthetic-uniform", "--time-limit", "0"), "--time-limit")


@pytest.mark.parametrize("more", [(), ("--known", "anaemia"), ("--utility", "90%")])
@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (("--time-limit", "90"), 90.0),
        (("--option", "time_limit=90"), 90.0),
        (("--time-limit", "90", "--option", "time_limit=60"), 60.0),
    ],
    ids=["limit", "option", "both"],
)
def test_an_option_and_the_time_limit_mean_the_same(
    asked: tuple[str, ...], seconds: float, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[str, Any] = {}

    def listen(_problem: pf.Problem, **given: Any) -> None:
        heard.update(given)
        raise InfeasibleError("enough heard")

    monkeypatch.setattr(pf, "solve", listen)
    monkeypatch.setattr("privfunnel.solving.point.solve", listen)
    source, goal = ("census-task", ()) if "--utility" in more else ("heart-failure", ("--disclosure", "60%"))
    result = run("solve", source, *goal, *more, *asked)
    assert "enough heard" in result.output
    assert heard.get("time_limit", getattr(heard["solver"], "time_limit", None)) == seconds


def test_a_time_limit_that_is_none_is_told_in_one_line() -> None:
    asked = ("solve", "synthetic-uniform", "--disclosure", "50%", "--option")
    assert_one_line_error(run(*asked, "time_limit=-3"), "time_limit=-3")
    assert_one_line_error(run(*asked, "time_limit=soon"), "time_limit='soon'")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on memory on Windows")
def test_more_memory_than_allowed_is_one_line_and_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)

    def greedy(*_: object, **__: object) -> None:
        np.ones(1 << 34)

    monkeypatch.setattr("privfunnel.solve", greedy)
    out = tmp_path / "out"
    result = run("solve", "synthetic-uniform", "--disclosure", "50%", "--memory-limit", "8G", "--out", out)
    assert_one_line_error(result, "--memory-limit 8G", "coarser bins")
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert_one_line_error(run("curve", "synthetic-uniform", "--memory-limit", "lots"), "not a size")


def test_solve_shows_what_is_kept_together_beside_what_is_kept_of_each_column() -> None:
    result = run("solve", "heart-failure", "--disclosure", "60%", "--solver", "greedy")
    told = " ".join(result.stdout.split())
    assert "Of the public columns together" in told
    assert "of each column by itself" in told
    assert "because what is held back is often one question about a combination" in told
