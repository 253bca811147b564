"""The scripts that measure: rehearsed with small numbers, so that what they write can be trusted to be written."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from documents import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks import bench_global, bench_large, harness, page

from privfunnel import free_disclosure, solve
from privfunnel.certificate.answer import DEFAULT_GAP

pytest.importorskip("numba", reason="the benchmarks compare compiled kernels")


def test_a_table_is_markdown() -> None:
    assert page.table(("a", "b"), [(1, "x"), (2.5, "y")]) == "| a | b |\n|---|---|\n| 1 | x |\n| 2.5 | y |\n"


def test_results_go_where_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert harness.results() == harness.RESULTS
    monkeypatch.setenv(harness.ELSEWHERE, str(tmp_path / "new"))
    assert harness.load("x") is None
    path = harness.save("x", {"a": 1})
    assert path == tmp_path / "new" / "x.json"
    assert harness.load("x") == {"a": 1}
    assert page.write() == tmp_path / "new" / "benchmarks.md"


def test_the_page_in_the_docs_is_what_the_results_say() -> None:
    assert page.PAGE.read_text("utf-8") == page.render()


def test_a_missed_aim_is_said() -> None:
    stored = harness.load("tables")
    assert stored is not None
    for size in stored["sizes"]:
        size["ratio"]["count"]["cpu"] = 1.1
    assert "| count within 1.2× of bare DuckDB, CPU | met |" in page.tables(stored)
    stored["sizes"][0]["ratio"]["count"]["cpu"] = 1.3
    assert "**missed** at 1,000,000 rows (1.30×)" in page.tables(stored)


def test_a_step_far_from_its_exponentials_is_said_to_miss_its_aim() -> None:
    stored = harness.load("parts")
    assert stored is not None
    exponentials = stored["times"]["plain"]["moved"] * stored["ns_an_entry"]["exponentials"]
    for factor, said in ((1.9, "met, at 1.90 times"), (2.1, "missed, at 2.10 times")):
        stored["ns_an_entry"]["plain step"] = factor * exponentials
        assert said in page.SECTIONS["parts"](stored)


def test_a_busy_machine_is_said() -> None:
    stored = harness.load("tables")
    assert stored is not None
    assert "busy" not in page.machine({"machine": {**stored["machine"], "cores": 2, "load": 2.0}})
    assert "busy" in page.machine({"machine": {**stored["machine"], "cores": 2, "load": 9.0}})


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Rehearse a benchmark in this process, which has loaded all that it takes; what it starts is not traced."""

    def rehearse(name: str, *arguments: str) -> dict[str, Any]:
        module = f"benchmarks.{name}" if arguments else f"benchmarks.bench_{name}"
        monkeypatch.setattr(sys, "argv", [name, *arguments, "--quick"])
        monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        monkeypatch.setenv(harness.ELSEWHERE, str(tmp_path))
        monkeypatch.chdir(tmp_path)
        importlib.import_module(module).main()
        result: dict[str, Any] = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        return result

    return rehearse


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "binary",
        "global",
        "growth",
        "guarded",
        "large",
        "many",
        "parts",
        "quality",
        "step",
        "tables",
        "task",
        "wide",
    ],
)
def test_a_benchmark_can_be_rehearsed_and_shown(name: str, quick: Callable[..., dict[str, Any]]) -> None:
    if name in {"tables", "wide"}:
        pytest.importorskip("duckdb", reason="tables are counted by DuckDB")
    text = page.SECTIONS[name](quick(name))
    assert text.startswith("## ")
    assert "nan" not in text


@pytest.mark.slow
def test_two_versions_can_be_compared_in_one_run(quick: Callable[..., dict[str, Any]]) -> None:
    result = quick("versions", str(ROOT / "src"), str(ROOT / "src"))
    assert all(case["change"] == 0.0 and case["ratio"] > 0.0 for case in result["cases"].values())
    assert page.versions(result).count("| same |") == len(result["cases"]) == 5


def test_every_solver_is_warmed_up_with_the_options_that_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another option may be another compiled kernel: plain AEM once counted the three seconds of compiling it."""
    calls: list[tuple[str, str, dict[str, Any]]] = []
    answer = solve(harness.random_problem(2, 3), disclosure=0.1, solver="greedy", throw=False)

    def recorder(where: str) -> Any:
        def record(problem: Any, *, disclosure: float, solver: str, throw: bool, **options: Any) -> Any:
            calls.append((where, solver, options))
            return answer

        return record

    monkeypatch.setattr(harness, "solve", recorder("warm"))
    monkeypatch.setattr(bench_global, "solve", recorder("measured"))
    rivals = {"aem": {"accelerate": False, "threads": 1}, "slsqp": {"time_limit": 1.0}}
    bench_global.against(harness.random_problem(2, 3), "random", 0.5, rivals)
    assert len(calls) == 6
    for (first, *warm), (second, *measured) in zip(calls[::2], calls[1::2], strict=True):
        assert (first, second) == ("warm", "measured")
        assert warm == measured


@pytest.mark.parametrize("size", [(3, 90, 400), (3, 140, 500), (2, 300, 1500), (4, 70, 250)], ids=str)
def test_the_default_is_no_worse_than_its_peers_on_surveys(size: tuple[int, int, int]) -> None:
    """All limits are numbers of steps and boxes, so that the answers do not depend on the machine."""
    problem = bench_large.survey(*size)
    ceiling = problem.disclosure_ceiling
    free = free_disclosure(problem)
    assert free >= ceiling - np.log(np.linalg.matrix_rank(problem.p_s_given_x)) - 1e-9
    answer = solve(problem, disclosure=0.8 * ceiling, throw=False, time_limit=math.inf, node_limit=20_000)
    assert 0.0 <= answer.lower_bound <= answer.leakage
    peers: dict[str, dict[str, Any]] = {"greedy": {}, "aem": {"restarts": 10, "max_steps": 100, "threads": 1}}
    for solver, options in peers.items():
        peer = solve(problem, disclosure=0.8 * ceiling, solver=solver, throw=False, **options)
        assert min(peer.disclosure, answer.disclosure) >= 0.8 * ceiling - 1e-9
        assert answer.leakage <= peer.leakage + DEFAULT_GAP
    if free < 0.8 * ceiling:
        assert answer.lower_bound > 0.0
