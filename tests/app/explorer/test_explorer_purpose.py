"""A release for a task on the explorer's page: what it is told equals what the library says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

import privfunnel as pf
from privfunnel.app.explorer import exports, recipes
from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.errors import InvalidInputError

BINS = {"hours": {"rule": "edges", "edges": [36]}}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, list[dict[str, Any]]]:
    """A workspace with the curve of a task whose column is neither private nor public, and what it told."""
    folder, rng = tmp_path_factory.mktemp("explorer"), np.random.default_rng(2)
    events: list[dict[str, Any]] = []
    workspace = Workspace(folder, emit=events.append)
    lines = ["sex,age,town,hours"]
    for _ in range(600):
        sex, age = rng.integers(0, 2), rng.integers(0, 2)
        town = "abc"[(sex + age + rng.integers(0, 2)) % 3]
        lines.append(f"{sex},{age},{town},{int(rng.normal(32 + 6 * age + 4 * sex, 6))}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    tasks.inspect(workspace, str(path), "people.csv")
    tasks.roles(workspace, private=["sex"], public=["age", "town"], bins=BINS, task="hours")
    tasks.trace(workspace, points=3, solver="auto")
    return workspace, events


def test_the_curve_goes_along_the_utility(traced: tuple[Workspace, list[dict[str, Any]]]) -> None:
    workspace, events = traced
    curve = tasks.curve_of(workspace)
    same = pf.trace(curve.problem, along="utility", utilities=curve.utility.tolist())
    assert curve.leakage == pytest.approx(same.leakage, abs=2e-5)
    shown = tasks.summary(workspace)
    assert (shown["along"], shown["task"]) == ("utility", "hours")
    assert shown["disclosure_ceiling"] == pytest.approx(curve.problem.utility_ceiling)
    # It begins at what is free: the second point leaks nothing.
    free = pf.solve(curve.problem, leakage=0)
    assert shown["free_disclosure"] == pytest.approx(free.utility, abs=1e-9)
    assert "utility I(U;Y)" in shown["figure"]
    assert [event["done"] for event in events if event["kind"] == "point"] == [2, 3, 4]


def test_a_point_says_what_it_is_good_for_and_what_else_would_be(
    traced: tuple[Workspace, list[dict[str, Any]]],
) -> None:
    workspace, _ = traced
    problem = tasks.curve_of(workspace).problem
    at = 0.9 * problem.utility_ceiling
    found = tasks.point(workspace, disclosure=at)
    assert found["at"] == pytest.approx(at, abs=1e-6)
    assert found["task"]["share"] == pytest.approx(0.9, abs=1e-6)
    (useful,) = found["useful"]
    assert useful["name"] == "hours"
    assert useful["before"] <= useful["after"] <= useful["original"] + 1e-12
    beside = tasks.beside(workspace, at)
    assert beside["task"] == "hours"
    assert all(other["leakage"] >= beside["leakage"] - 1e-9 for other in beside["others"])
    assert all(other["utility"] >= at - 1e-9 for other in beside["others"])
    within = tasks.point(workspace, leakage=0.5 * found["leakage"])
    assert within["leakage"] <= 0.5 * found["leakage"] + 1e-9
    assert within["at"] < found["at"]


def test_a_point_can_be_sharpened_and_taken_home(
    traced: tuple[Workspace, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MODEL_ROWS", 200)
    workspace, _ = traced
    at = 0.97 * tasks.curve_of(workspace).problem.utility_ceiling
    mixed = tasks.point(workspace, disclosure=at)["leakage"]
    tasks.trace(workspace, points=3, solver="auto", refine=True, at=at)
    curve = tasks.curve_of(workspace)
    assert len(curve.solutions) == 5
    found = tasks.point(workspace, disclosure=at)
    assert found["leakage"] <= mixed + 1e-9
    stored = json.loads(Path(tasks.export(workspace, "mechanism.json", at)).read_text())
    assert stored["provenance"]["task"]["columns"] == ["hours"]
    assert "--task hours" in found["command"]
    assert "--utility" in found["command"]
    assert "--bin hours=edges:" in found["command"]
    script = Path(tasks.export(workspace, "release.py", at)).read_text()
    compile(script, "release.py", "exec")
    assert "task='hours'" in script
    assert "utilities=utilities" in script
    report = Path(tasks.export(workspace, "report.html", at)).read_text("utf-8")
    assert "It was designed for hours" in report
    assert "What it is good for" in report
    setting = workspace.setting()
    rounded = recipes.command_line(setting, curve, curve.at(at), exact=False)
    assert "--utility 97.0%" in rounded


def test_a_task_is_guarded_on_request(traced: tuple[Workspace, list[dict[str, Any]]], tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, emit=lambda event: None)
    for name in ("source", "setting"):
        workspace.put(name, traced[0].get(name))
    tasks.trace(workspace, points=6, solver="auto", guarded={"known": [["age"]], "guarantees": ["lip=0.3"]})
    curve = tasks.curve_of(workspace)
    assert curve.limit is not None
    # The slider ends at I(U;X), the curve before; a point can be added to it.
    last = tasks.point(workspace, disclosure=curve.problem.utility_ceiling)
    assert last["task"]["utility"] == pytest.approx(curve.most, abs=1e-6)
    assert any("Guaranteed for every output: lip=0.3" in line for line in last["people"])
    asked = 0.5 * curve.most
    tasks.trace(workspace, points=6, solver="auto", refine=True, at=asked)
    more = tasks.curve_of(workspace)
    assert len(more.solutions) == len(curve.solutions) + 1
    found = tasks.point(workspace, disclosure=asked)
    alone = pf.solve(curve.problem, utility=asked, known=["age"], guarantees=["lip=0.3"], gap=1e-3)
    assert found["leakage"] == pytest.approx(alone.leakage, abs=2e-3)
    for part in ("--known age", "--guarantee lip=0.3", "--task hours", "--utility"):
        assert part in found["command"]
    compile(found["script"], "release.py", "exec")
    assert "throw=False, **guards" in found["script"]


def test_what_goes_with_no_task_is_said(traced: tuple[Workspace, list[dict[str, Any]]]) -> None:
    workspace, _ = traced
    with pytest.raises(InvalidInputError, match="'aem' solves the plain funnel"):
        tasks.trace(workspace, points=3, solver="aem")
    with pytest.raises(InvalidInputError, match="is private and a task"):
        tasks.roles(workspace, private=["sex"], public=["age"], bins={}, task="sex")
