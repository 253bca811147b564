"""The examples of the documentation run as they are written, and say what the pages say they do."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import privfunnel as pf
from documents import ROOT, blocks
from helpers_cli import run
from privfunnel.data.instances import patients as example
from privfunnel.studies import reproduce
from privfunnel.studies.comparison import run as run_comparison

pytest.importorskip("duckdb", reason="the tutorials read tables of records")
pytest.importorskip("sklearn", reason="the tutorials train attackers")

FEW_ROWS = pytest.mark.filterwarnings("ignore::privfunnel.errors.PrivFunnelWarning")


def play(page: str, sources: list[str], names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Execute Python blocks one after the other, as a reader would who types them."""
    names = {} if names is None else names
    for source in sources:
        exec(compile(source, page, "exec"), names)
    return names


@pytest.fixture
def here() -> Iterator[None]:
    """Comparisons run in this process: others would import everything first."""
    joblib = pytest.importorskip("joblib", reason="comparisons are spread by joblib")
    with joblib.parallel_config(backend="sequential"):
        yield


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    example.write(tmp_path / "patients.csv")
    return tmp_path


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@FEW_ROWS
def test_the_commands_of_the_stewards_tutorial_run_and_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [block.replace("\\\n", " ") for block in blocks("tutorial-steward.md", "bash")]
    shown = iter(blocks("tutorial-steward.md", "text"))
    for command in commands:
        done = run(*shlex.split(command)[1:])
        # An audit takes one honest release in 200 for another mechanism's, and says so by exit code 1.
        assert done.exit_code in ((0, 1) if "release.csv" in command else (0,)), (command, done.output)
        if " example " in command:
            continue
        # The optimum is proved to 1e-6 nats: its last digits may change, and what depends on the draw is left out.
        told, written = flat(done.stdout), flat(next(shown))
        for label in ("leakage I(S;Y)", "proved lower bound"):
            quoted = re.findall(rf"{re.escape(label)} ([\d.]+)", written)
            if quoted:
                printed = re.findall(rf"{re.escape(label)} ([\d.]+)", told)
                assert float(printed[0]) == pytest.approx(float(quoted[0]), abs=2e-6)
                written = written.replace(quoted[0], "…")
        for part in written.split("…"):
            assert part.strip() in told, command
    assert next(shown, None) is None
    assert {"design", "release.csv", "release.codebook.json", "report.html"} <= {
        path.name for path in tmp_path.iterdir()
    }


@FEW_ROWS
def test_the_page_on_few_rows_says_what_its_commands_print(patients: Path) -> None:
    rows = (patients / "patients.csv").read_text("utf-8").splitlines(keepends=True)
    (patients / "few.csv").write_text("".join(rows[:301]), "utf-8")
    script = "".join(blocks("few-rows.md", "bash")).replace("\\\n", " ")
    told = []
    for line in script.splitlines()[2:]:  # the first two write the tables
        done = run(*shlex.split(line)[1:])
        assert done.exit_code == 0, (line, done.output)
        told.append(flat(done.stdout))
    shown = [flat(text).strip() for text in blocks("few-rows.md", "text")[1:]]
    for printed, quoted in zip(told[1:], shown, strict=True):
        for part in quoted.split("…"):
            assert part.strip() in printed


@FEW_ROWS
def test_a_survey_is_made_self_weighting_as_the_page_on_audits_says(patients: Path) -> None:
    pd = pytest.importorskip("pandas")
    table = pd.read_csv(patients / "patients.csv")
    table = pd.concat([table] * 20, ignore_index=True)
    table["weight"] = 1.0 + 3.0 * table["smoking"]
    table.to_csv(patients / "survey.csv", index=False)
    names = play("auditing.md", blocks("auditing.md", "python"))
    rows, smokers = len(table), float(table["smoking"].mean())
    expected = 4.0 * smokers / (1.0 + 3.0 * smokers)
    alike = names["alike"]
    assert alike.n < rows
    place = [label.startswith("smoking=1") for label in alike.x_labels]
    # Five standard deviations of a share of n rows.
    assert abs(alike.table().sum(axis=0)[place].sum() / alike.n - expected) < 5.0 * (0.25 / alike.n) ** 0.5
    assert names["held_out"].population.weighted


def readme_commands() -> list[str]:
    """The commands of README's section on the command line, without their comments."""
    section = (
        (ROOT / "README.md")
        .read_text("utf-8")
        .partition("## From the command line\n")[2]
        .partition("\n## ")[0]
    )
    return [
        line.partition(" #")[0].strip() for line in section.splitlines() if line.startswith("    privfunnel ")
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@FEW_ROWS
def test_the_commands_of_the_readme_run_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="reproduce draws figures")
    monkeypatch.chdir(tmp_path)
    # Two of the paper's panels will do here; test_reproduce.py and a full run by hand see the others.
    synthetic = tuple(panel for panel in reproduce.PANELS if panel.key.startswith("synthetic"))
    monkeypatch.setattr(reproduce, "PANELS", synthetic)
    monkeypatch.setattr(reproduce, "FIGURES", {"figure-1": tuple(panel.key for panel in synthetic)})
    # Its sweeps use up all the time that they are given.
    runs = reproduce.Plan.runs
    monkeypatch.setattr(
        reproduce.Plan,
        "runs",
        lambda plan, panel: {
            name: (solver, options | {"time_limit": 0.2} if "time_limit" in options else options)
            for name, (solver, options) in runs(plan, panel).items()
        },
    )
    # So do some of the methods that are compared; test_compare.py sees them all.
    entrants = run_comparison.lineup
    monkeypatch.setattr(
        run_comparison,
        "lineup",
        lambda solvers: {name: entrants(solvers)[name] for name in ("auto", "aem", "greedy", "submodular")},
    )
    commands = readme_commands()
    assert len(commands) >= 12
    for command in commands:
        done = run(*shlex.split(command)[1:])
        # An audit takes one honest release in 200 for another mechanism's, and says so by exit code 1.
        assert done.exit_code in ((0, 1) if "audit" in command else (0,)), (command, done.output)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"joint.csv", "patients.csv", "design", "out", "release.csv", "release.codebook.json"} <= written


@FEW_ROWS
def test_the_ten_lines_of_the_stewards_tutorial_run(
    patients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, _ = blocks("tutorial-steward.md", "python")
    names = play("tutorial-steward.md", [here])
    assert 0.0 < float(capsys.readouterr().out.splitlines()[0]) <= 1.0
    assert names["solution"].leakage <= 0.01 + 1e-9
    assert (patients / "release.parquet").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@FEW_ROWS
def test_the_blocks_of_the_researchers_tutorial_run_and_say_what_they_say(patients: Path) -> None:
    pytest.importorskip("matplotlib", reason="the tutorial draws a curve")
    sources = blocks("tutorial-researcher.md", "python")
    names = play("tutorial-researcher.md", sources)
    text = "\n".join(sources)
    assert f"# {names['problem']!r}" in text
    assert f"# {pf.free_disclosure(names['problem']):.6f}…" in text
    solution = names["solution"]
    # The optimum is proved to 1e-6 nats, so that its last digits may change; so may an optimal channel.
    *values, status = re.findall(r"solution.status # (.*), (.*), (.*)\n", text)[0]
    assert [solution.leakage, solution.lower_bound] == pytest.approx([float(v) for v in values], abs=1e-5)
    assert status == solution.status
    shown = [
        [float(number) for number in line.split()] for line in re.findall(r"^# (\d .*)\n", text, re.MULTILINE)
    ]
    frame = names["curve"].to_frame()[["disclosure", "leakage", "lower_bound"]].iloc[3:6]
    assert len(shown) == len(frame)
    for (place, *told), row in zip(shown, frame.itertuples(), strict=True):
        assert place == row[0]
        assert list(row[1:]) == pytest.approx(told, abs=3e-6)
    known = ast.literal_eval(re.findall(r"# (\{'nothing'.*\})\n", text)[0])
    assert names["learnt"] == pytest.approx(known, abs=0.01)
    assert known["age"] > 5 * known["nothing"]
    assert names["found"].leakage is not None
    assert hasattr(names["model"], "predict")


def test_the_block_of_the_explorers_page_writes_a_report(patients: Path) -> None:
    play("explorer.md", blocks("explorer.md", "python"))
    assert "The chosen point" in (patients / "report.html").read_text("utf-8")


@FEW_ROWS
def test_the_blocks_of_the_page_on_decoys_run_and_come_near_the_truth(
    patients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = play("decoys.md", blocks("decoys.md", "python"))
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert list(names["released"].columns) == [
        "decoy_row", "sex", "smoking", "diabetes", "age", "decoy_weight",
    ]  # fmt: skip
    for what, estimate in names["found"].items():
        # Bins stand for ages by their rounded means, a year or less from the ages themselves.
        allowed = 4.0 * estimate.error + 1.0
        assert abs(estimate.value - names["truth"][what]) <= allowed
    assert list(names["model"]) == ["(constant)", "smoking", "diabetes"]
