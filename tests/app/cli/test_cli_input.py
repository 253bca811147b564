"""The command line: what it reads, and how it refuses what it cannot use."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from helpers_cli import AEM, QUICK, assert_one_line_error, run
from privfunnel.algorithms import registry
from privfunnel.app.cli._common import Units, parse_options, parse_quantity
from privfunnel.app.cli._source import load_source, read_joint
from privfunnel.data import instances
from privfunnel.errors import InvalidInputError, SmallSampleWarning


@pytest.fixture
def joint(tmp_path: Path) -> Path:
    path = tmp_path / "joint.csv"
    path.write_text("s,a,b,c\nyes,10,20,5\nno,30,5,5\n")
    return path


# --- sources ------------------------------------------------------------------------------------------------------


def test_instances_with_options() -> None:
    for name, perturbation in (
        ("heart-failure+1e-3", "probabilities"),
        ("heart-failure+0.001rows", "counts"),
    ):
        assert load_source(name) == instances.load("heart-failure", perturbation=perturbation)
    assert load_source("synthetic-uniform+0.5") == instances.load(
        "synthetic-uniform", perturbation="probabilities", amount=0.5
    )
    assert load_source("census-income:2").n_s == 4
    pairs = instances.load("census-income", bands=[(17, 40), (41, 90)], perturbation="counts")
    assert load_source("census-income:17-40, 41-90+1e-3rows") == pairs


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
    assert_one_line_error(run("curve", joint, "--bin", "age=5"), "--private and --public")
    assert_one_line_error(run("curve", joint, "--bin", "age"), "COLUMN=RULE")
    for bands in ("young", "", "²", "9" * 5000):
        assert_one_line_error(run("curve", f"census-income:{bands}"), "17-40,41-90")
    assert_one_line_error(run("curve", "census-income:17-40,50-90"), "start at 41")
    assert_one_line_error(run("curve", "heart-failure:5"), "has no age bands")
    assert_one_line_error(run("curve", "heart-failure+"), "write heart-failure+1e-3")
    assert_one_line_error(run("curve", "heart-failure+nan"), "amount = nan is not a perturbation")
    assert_one_line_error(run("curve", "heart-failur+1e-3"), "did you mean 'heart-failure'?")


SMALL_TABLE = "s,a,u\n" + "".join(f"s{i % 2},a{i % 3},u{i % 3 % 2}\n" for i in range(60))
TASK = ("--task", "u", "--utility")
KEEP = ("--disclosure", "50%")


@pytest.mark.parametrize(
    ("command", "arguments", "advice"),
    [
        ("solve", (*TASK, "90"), "is I(U;X) = 0.63"),
        ("curve", (*TASK, "50%", "--points", "7"), "leave --points out"),
        ("curve", (*TASK, "90"), "did you mean 90%?"),
        ("curve", ("--threshold", "7"), "--out DIR"),
        ("curve", ("--sheet", "first"), "leave --sheet out"),
        ("solve", (*KEEP, "--known", ""), "'' names no column"),
        ("solve", (*KEEP, "--published", " , "), "names no column"),
        ("solve", (*KEEP, "--task", ""), "names no column"),
        ("solve", (*KEEP, "--type", "b=text"), "its columns are s, a, u"),
        ("solve", (*KEEP, "--known", "a", "--confidence", "90%"), "--confidence is of what rows prove"),
        ("solve", (*KEEP, "--design-epsilon", "1", "--confidence", "95%"), "without noise: leave it out"),
        ("solve", (*KEEP, "--view", "register", "--confidence", "90%"), "of a sample"),
        ("solve", (*KEEP, "--holdout", "0.3", "--task", "u"), "leave it out, or --holdout"),
        ("solve", (*KEEP, "--ledger", "none.json", "--confidence", "90%"), "leave --confidence out"),
        ("solve", (*KEEP, "--ledger", "none.json", "--task", "u"), "leave --task out"),
        ("solve", ("--distortion", "1", "--known", "a", "--holdout", "0.3"), "leave them out"),
    ],
)
def test_no_option_is_passed_over_in_silence(
    tmp_path: Path, command: str, arguments: tuple[str, ...], advice: str
) -> None:
    (tmp_path / "small.csv").write_text(SMALL_TABLE)
    roles = ("--private", "s", "--public", "a")
    assert_one_line_error(run(command, tmp_path / "small.csv", *roles, *arguments), advice)


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

    monkeypatch.setattr("privfunnel.report.plot.curve", fail)
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


@pytest.mark.parametrize(("stop", "code"), [(SystemExit(143), 143), (KeyboardInterrupt(), 130)])
def test_a_signal_during_an_import_is_no_import_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stop: BaseException, code: int
) -> None:
    """Python turns what is raised while a compiled module is imported into an ImportError."""

    def struck(*_: object, **__: object) -> None:
        raise ImportError("initialization failed") from stop

    monkeypatch.setattr("privfunnel.app.cli._common.need", struck)
    result = run("curve", "heart-failure", "--out", tmp_path / "out")
    assert result.exit_code == code
    assert "initialization failed" not in result.output
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


RAW = Path(os.environ.get("PRIVFUNNEL_RAW_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))


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


def test_hints_about_types_can_be_pasted(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("s;monthly income\n" + "".join(f"{i % 2};{i},{i % 10}5\n" for i in range(200)))
    done = run("curve", path, "--private", "s", "--public", "monthly income")
    assert_one_line_error(done, "--decimal ,", "--type 'monthly income=text'")


def test_a_table_in_another_encoding_is_asked_for_the_roles_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("Härtefall;Wohnort\nja;Köln\nnein;Bonn\n".encode("cp1252"))
    assert_one_line_error(run("curve", path), "--private and --public", "encoding is found out", "UTF-8")


def test_records_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("sex;smoker;town\n" + "f;yes;A\nf;no;B\nm;yes;A\nm;yes;B\n" * 50)
    result = run("curve", path, "--private", "sex", "--public", "smoker,town", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["problem"]["x_labels"][0] == "smoker=no, town=B"
    assert_one_line_error(run("curve", path, "--private", "sexe", "--public", "town"), "sexe", "sex")
    assert_one_line_error(run("curve", path, "--private", "sex"), "public")


@pytest.mark.parametrize(
    "arguments",
    [
        ("curve", "heart-failure", "--publc", "x"),
        ("curve",),
        ("curve", "heart-failure", "--points", "x"),
        ("crve",),
    ],
)
def test_a_mistyped_command_line_is_one_line(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "--help" in result.stderr


def test_the_error_for_a_name_with_a_comma_shows_the_quoting_that_works(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('sex,"height, ""cm"""\n' + "".join(f"{'ab'[i % 2]},{i % 3}\n" for i in range(90)))
    asked = ("solve", path, "--private", "sex", "--disclosure", "50%", "--public")
    refused = run(*asked, 'height, "cm"').stderr
    assert_one_line_error(run(*asked, 'height, "cm"'), "did you mean", "stands in quotes")
    (written,) = shlex.split(refused.partition("stands in quotes: ")[2])
    assert run(*asked, written).exit_code == 0
    assert_one_line_error(run(*asked, written, "--known", "height"), "there is no public column", written)
