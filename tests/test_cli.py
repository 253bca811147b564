"""The command line: what it shows, what it writes, and how it fails."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import privfunnel as pf
from privfunnel import instances
from privfunnel.certificate import load_bundle
from privfunnel.cli import main
from privfunnel.cli._common import Units, parse_options, parse_quantity, progress_on_terminal
from privfunnel.cli._source import load_source, parse_bands, read_joint
from privfunnel.errors import ConvergenceWarning, InvalidInputError, SmallSampleWarning
from privfunnel.solvers import registry
from privfunnel.solvers.base import Progress
from toys import Mixer

QUICK = ("--solver", "aem", "--restarts", "2", "--option", "max_steps=40", "--points", "5")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def assert_one_line_error(result: Result, *words: str) -> None:
    """Exit code 2, nothing on stdout, and a last line on stderr that names the trouble."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.lower().startswith("error: ")
    for word in words:
        assert word in last


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


def test_json_in_bits_is_converted_and_says_so(joint: Path) -> None:
    nats = json.loads(run("curve", joint, *QUICK, "--json").stdout)
    bits = json.loads(run("curve", joint, *QUICK, "--json", "--units", "bits").stdout)
    assert bits["units"] == "bits"
    assert "schema" not in bits
    factor = nats["disclosure_ceiling"] / bits["disclosure_ceiling"]
    assert factor == pytest.approx(0.6931471805599453)
    for a, b in zip(nats["points"], bits["points"], strict=True):
        assert a["leakage"] == pytest.approx(b["leakage"] * factor)
        assert a["slope"] == b["slope"]


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

    monkeypatch.setattr("privfunnel.cli.curve.load_source", warn)
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

AEM = ("--solver", "aem", "--restarts", "3")


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
    assert json.loads(result.stdout)["requested"] == pytest.approx(1.0)
    assert json.loads(result.stdout)["units"] == "bits"


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
    assert f"Files are in {tmp_path}: certificate.npz, solution.json" in result.stdout
    (certificate,) = load_bundle(tmp_path / "certificate.npz")
    certificate.verify(instances.load("synthetic-uniform"))


def test_solve_within_a_leakage_budget() -> None:
    result = run("solve", "synthetic-uniform", "--leakage", "20%", *AEM)
    assert result.exit_code == 0, result.output
    assert "20.00 % of I(S;X)" in result.stdout
    assert "most disclosure, proved" in result.stdout


# --- sources ------------------------------------------------------------------------------------------------------


def test_instances_with_options() -> None:
    assert load_source("heart-failure", perturbation="counts") == instances.load(
        "heart-failure", perturbation="counts"
    )
    assert load_source("census-income", bands="2").n_s == 4
    assert parse_bands("17-40, 41-90") == [(17, 40), (41, 90)]


def test_a_saved_problem_is_a_source(tmp_path: Path) -> None:
    problem = instances.load("synthetic-skewed")
    problem.save(tmp_path / "problem.json")
    assert load_source(str(tmp_path / "problem.json")) == problem


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_joint_tables(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "joint.csv"
    text = '\ufeff,"a, one",b\n0,0.1,0.2\n1,0.3,0.4\n\n'.replace(",", separator).replace(
        f"a{separator} one", "a, one"
    )
    path.write_text(text, "utf-8")
    problem = read_joint(path)
    assert problem.x_labels == ("a, one", "b")
    assert problem.s_labels == ("0", "1")
    assert problem.p_sx.tolist() == [[0.1, 0.2], [0.3, 0.4]]


BAD_TABLES = {
    "a negative": (",a,b\ns,1,-2\nt,1,1\n", "negative"),
    "a NaN": (",a,b\ns,1,nan\nt,1,1\n", "not finite"),
    "an infinity": (",a,b\ns,1,inf\nt,1,1\n", "not finite"),
    "all zeros": (",a,b\ns,0,0\nt,0,0\n", "positive"),
    "a probability table that sums to 0.9": (",a,b\ns,0.2,0.2\nt,0.2,0.3\n", "sums to 0.9"),
    "too few labels": (",a\ns,1,2\nt,1,1\n", "3 cells for 2"),
    "too many labels": (",a,b,c\ns,1,2\nt,1,1\n", "3 cells for 4"),
    "the same label twice": (",a,a\ns,1,2\nt,1,1\n", "twice"),
    "text in a cell": (",a,b\ns,1,many\nt,1,1\n", "--private"),
    "no labels of S": ("a,b\n10,20\n5,6\n", "labels of S"),
    "an empty file": ("", "no joint table"),
    "a header only": (",a,b\n", "no joint table"),
    "one column": ("a\nb\n", "no joint table"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(tmp_path: Path, case: str) -> None:
    text, word = BAD_TABLES[case]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert_one_line_error(run("curve", path, "--out", tmp_path / "out"), "bad.csv", word)
    assert not (tmp_path / "out").exists()


def test_unreadable_sources(tmp_path: Path) -> None:
    assert_one_line_error(run("curve", "heart-failur"), "heart-failur", "did you mean 'heart-failure'?")
    assert_one_line_error(run("curve", tmp_path / "nowhere.csv"), "nowhere.csv", "no such file")
    assert_one_line_error(run("curve", tmp_path), "cannot read")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x81")
    assert_one_line_error(run("curve", tmp_path / "binary.csv"), "UTF-8")
    (tmp_path / "problem.json").write_text("{")
    assert_one_line_error(run("solve", tmp_path / "problem.json", "--disclosure", "1"), "not a JSON file")


def test_options_that_do_not_fit_the_source(joint: Path) -> None:
    assert_one_line_error(run("curve", "heart-failure", "--private", "sex"), "leave --private")
    assert_one_line_error(run("curve", joint, "--bands", "5"), "packaged tables")
    assert_one_line_error(run("curve", joint, "--bin", "age=5"), "--private and --public")
    assert_one_line_error(run("curve", joint, "--bin", "age"), "COLUMN=RULE")
    assert_one_line_error(run("curve", "census-income", "--bands", "young"), "17-40,41-90")
    assert_one_line_error(run("curve", "census-income", "--bands", "17-40,50-90"), "start at 41")


# --- bad requests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--disclosure", "-0.1"), "negative"),
        (("--disclosure", "nan"), "cannot be read"),
        (("--disclosure", "1e999"), "not finite"),
        (("--disclosure", "1.2", *AEM), "largest feasible is H(X) = 1.09861229"),
        (("--disclosure", "101%", *AEM), "infeasible"),
        (("--disclosure", "many"), "60%"),
        (("--disclosure", "1 furlong"), "60%"),
        (("--leakage", "-1"), "negative"),
        ((), "exactly one"),
        (("--disclosure", "1", "--leakage", "1"), "exactly one"),
        (("--disclosure", "1", "--solver", "aen"), "did you mean 'aem'"),
        (("--disclosure", "1", "--solver", "aem", "--option", "max_step=3"), "did you mean 'max_steps'"),
        (("--disclosure", "1", "--solver", "aem", "--option", "max_steps=-3"), "max_steps=-3"),
        (("--disclosure", "1", "--option", "restarts"), "NAME=VALUE"),
        (("--disclosure", "1", "--restarts", "3", "--option", "restarts=4"), "twice"),
        (("--disclosure", "1", "--seed", "-1", *AEM), "seed=-1"),
    ],
)
def test_bad_requests(tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    result = run("solve", "synthetic-uniform", *arguments, "--out", tmp_path / "out")
    assert_one_line_error(result, word)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("curve", "synthetic-uniform", "--colour", "red"),
        ("curve", "synthetic-uniform", "--points", "many"),
        ("curve", "synthetic-uniform", "--points", "1", *AEM),
        ("curve", "synthetic-uniform", "--refine", "-1", *AEM),
        ("curve", "synthetic-uniform", "--units", "bans"),
        ("curve",),
        ("dance",),
    ],
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    assert_one_line_error(run(*arguments))


@pytest.mark.parametrize("command", ["curve", "solve"])
def test_unwritable_output_is_found_out_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the solver was started")

    monkeypatch.setattr(registry, "get", work)
    (tmp_path / "file").write_text("in the way")
    asked = ("--disclosure", "50%") if command == "solve" else ()
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        assert_one_line_error(
            run(command, "synthetic-uniform", *asked, "--out", out), "cannot write to", "choose a folder"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_failure_in_the_middle_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, joint: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InvalidInputError("the figure failed: try again")

    monkeypatch.setattr("privfunnel.plot.curve", fail)
    assert_one_line_error(run("curve", joint, *QUICK, "--out", tmp_path / "out"), "the figure failed")
    assert [path.name for path in tmp_path.iterdir()] == ["joint.csv"]


def test_termination_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "privfunnel", "curve", "census-income", "--solver", "aem"]
    command += ["--option", "max_steps=100000", "--option", "device=numpy", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120.0
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.iterdir()), "the work began"
        process.terminate()
        assert process.wait(timeout=120) == 143
    finally:
        process.kill()
    assert list(tmp_path.iterdir()) == []


def test_commands_run_outside_the_main_thread(joint: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run, "curve", joint, *QUICK).result().exit_code == 0


def test_parsing_of_options() -> None:
    assert parse_options(["max-steps=5", "device=cpu", "betas=(1, 2)"], restarts=3) == {
        "restarts": 3,
        "max_steps": 5,
        "device": "cpu",
        "betas": (1, 2),
    }


def test_percentages_are_of_the_named_whole() -> None:
    assert (
        parse_quantity(" 25 % ", ceiling=2.0, whole="H(X)", option="--disclosure", units=Units("bits")) == 0.5
    )


RAW = Path(os.environ.get("PRIVFUNNEL_RAW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def test_the_raw_files_by_column_names_give_the_instances() -> None:
    heart, adult = RAW / "heart_failure.csv", RAW / "adult.data"
    if not (heart.is_file() and adult.is_file()):
        pytest.skip("raw UCI files not found: set PRIVFUNNEL_RAW_DATA to the folder that holds them")
    with pytest.warns(SmallSampleWarning):
        problem = load_source(
            str(heart),
            private=["sex", "DEATH_EVENT"],
            public=["anaemia", "high_blood_pressure", "diabetes", "smoking"],
        )
    np.testing.assert_array_equal(problem.p_sx, instances.load("heart-failure").p_sx)
    names = "age,workclass,fnlwgt,education,education-num,marital,job,relationship,race,sex,gain,loss,hours,country"
    census = load_source(
        str(adult),
        private=["age", "income"],
        public=["age", "sex", "education-num"],
        bins={"age": "5"},
        columns=[*names.split(","), "income"],
    )
    np.testing.assert_array_equal(census.p_sx, instances.load("census-income").p_sx)


def test_records_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("sex;smoker;town\n" + "f;yes;A\nf;no;B\nm;yes;A\nm;yes;B\n" * 50)
    result = run("curve", path, "--private", "sex", "--public", "smoker,town", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["problem"]["x_labels"][0] == "smoker=no, town=B"
    assert_one_line_error(run("curve", path, "--private", "sexe", "--public", "town"), "sexe", "sex")
    assert_one_line_error(run("curve", path, "--private", "sex"), "public")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
