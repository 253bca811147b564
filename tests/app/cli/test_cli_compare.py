from __future__ import annotations

import json

import pytest

from helpers_cli import run
from privfunnel.studies.comparison import Comparison

FEW = ["--solvers", "greedy,control-maps", "--points", "6", "--time-limit", "5", "--jobs", "1"]


def test_table_and_files(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the plots extra")
    result = run("compare", "synthetic-uniform", *FEW, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    for text in ("greedy", "control-maps", "auto", "proved ≥", "80 %", "0.16175"):
        assert text in result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"comparison.csv", "comparison.json", "comparison.png", "comparison.svg"}
    assert "comparison.csv, comparison.json, comparison.png, comparison.svg" in result.output
    stored = Comparison.load(tmp_path / "out" / "comparison.json")
    assert stored["greedy"].leakage[1] == pytest.approx(0.1618, abs=5e-5)


def test_only_its_own_files_are_listed_and_replaced(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the plots extra")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "comparison.csv").write_text("an earlier run's")
    result = run("compare", "synthetic-uniform", *FEW, "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "notes.txt" not in result.output
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "comparison.csv").read_text().startswith("solver,")


def test_json_and_units():
    result = run("compare", "synthetic-uniform", *FEW, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "privfunnel/comparison"
    assert {entry["label"] for entry in document["entries"]} == {"auto", "greedy", "control-maps"}
    bits = run("compare", "synthetic-uniform", *FEW, "--units", "bits")
    assert "0.23336" in bits.output  # 0.16175 nats


def test_a_solver_without_an_answer_is_explained():
    result = run(
        "compare",
        "heart-failure",
        "--solvers",
        "deterministic",
        "--points",
        "4",
        "--time-limit",
        "5",
        "--jobs",
        "1",
    )
    assert result.exit_code == 0
    assert "deterministic has no answer" in result.output
    assert "too many partitions" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["synthetic-uniform", "--solvers", "gredy"], "did you mean 'greedy'"),
        (["synthetic-uniform", "--points", "1"], "points=1"),
        (["synthetic-uniform", "--time-limit", "-3"], "time_limit=-3.0"),
        (["nowhere.csv"], "nowhere.csv"),
    ],
)
def test_mistakes_end_in_one_line_and_write_nothing(arguments, told, tmp_path):
    result = run("compare", *arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_deep_methods_take_part_where_they_are_asked_for():
    pytest.importorskip("torch", reason="deep funnels need PyTorch")
    result = run("compare", "synthetic-uniform", "--solvers", "greedy", "--deep", "--points", "3",
                 "--time-limit", "0.1", "--jobs", "1", "--json")  # fmt: skip
    assert {entry["label"] for entry in json.loads(result.stdout)["entries"]} >= {
        "greedy",
        "deep-vpaf",
        "deep-alr",
    }
