"""Attackers, published columns and guarantees on the explorer's page: what it is told equals what the library says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

import privfunnel as pf
from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.certificate import load_bundle
from privfunnel.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")


def small(folder: Path) -> tuple[Workspace, list[dict[str, Any]]]:
    """A workspace with a small counted table, and the events that it will tell."""
    rng, events = np.random.default_rng(2), []
    workspace = Workspace(folder, emit=events.append)
    lines = ["sick,a,b"]
    for _ in range(300):
        a, b = rng.integers(0, 2), rng.integers(0, 3)
        lines.append(f"{int(rng.random() < 0.2 + 0.3 * (a == b))},{a},{b}")
    path = folder / "small.csv"
    path.write_text("\n".join(lines) + "\n")
    tasks.inspect(workspace, str(path), "small.csv")
    tasks.roles(workspace, private=["sick"], public=["a", "b"], bins={})
    return workspace, events


def test_the_curve_against_an_attacker_is_the_librarys(tmp_path: Path) -> None:
    workspace, events = small(tmp_path)
    tasks.trace(workspace, points=6, solver="auto", guarded={"known": [["a"]]})
    curve = tasks.curve_of(workspace)
    assert [each.name for each in curve.guards.attackers] == ["nothing", "a"]
    same = pf.trace(curve.problem, disclosures=curve.disclosure.tolist(), known=["a"], gap=1e-3)
    assert curve.leakage == pytest.approx(same.leakage, abs=2e-3)
    assert [event["kind"] for event in events if event["kind"] == "point"] == ["point"] * 3
    shown = tasks.summary(workspace)
    assert "between the closed-form bounds" not in shown["figure"]
    assert shown["free_disclosure"] == 0.0
    found = tasks.point(workspace, disclosure=float(curve.disclosure[1]))
    assert found["leakage"] == pytest.approx(float(curve.leakage[1]), abs=1e-9)
    assert any("Of all attackers one who knows" in line for line in found["people"])
    assert "--known a" in found["command"]
    assert "guards = {'known': [['a']]}" in found["script"]
    # Points can be added to it.
    tasks.trace(workspace, points=8, solver="auto", refine=True, at=0.5 * float(curve.disclosure[-1]) + 0.1)
    assert len(tasks.curve_of(workspace).solutions) == 4
    assert tasks.beside(workspace, 0.5)["known"][0]["columns"] == "nothing"


def test_a_guarantee_and_a_published_column_can_be_taken_home(tmp_path: Path) -> None:
    workspace, _ = small(tmp_path)
    tasks.trace(workspace, points=6, solver="auto", guarded={"published": ["a"], "guarantees": ["lip=0.2"]})
    curve = tasks.curve_of(workspace)
    assert curve.limit is not None
    # The slider ends at H(X), the curve before.
    last = tasks.point(workspace, disclosure=curve.problem.disclosure_ceiling)
    assert last["disclosure"] == pytest.approx(curve.most, abs=1e-6)
    assert any(line.startswith("Published as counted: a, which tells") for line in last["people"])
    assert any("Guaranteed for every output: lip=0.2; the worst one has" in line for line in last["people"])
    stored = json.loads(Path(tasks.export(workspace, "mechanism.json", last["disclosure"])).read_text())
    assert stored["provenance"]["published"] == "a"
    bundle = load_bundle(tasks.export(workspace, "certificates.npz", last["disclosure"]))
    assert len(bundle) == len(curve.certificates)
    for proof in bundle:
        proof.verify(curve.problem)
    script = Path(tasks.export(workspace, "release.py", last["disclosure"])).read_text()
    compile(script, "release.py", "exec")
    assert "import numpy" not in script


def test_a_measure_is_told_in_its_own_numbers(tmp_path: Path) -> None:
    workspace, _ = small(tmp_path)
    asked = {"measure": "total-variation", "known": [["a", "b"]]}
    tasks.trace(workspace, points=6, solver="auto", guarded=asked)
    curve = tasks.curve_of(workspace)
    assert [each.name for each in curve.guards.attackers] == ["nothing", "a, b"]
    shown = tasks.summary(workspace)
    assert shown["information"] is False
    whole = curve.problem.evaluate(np.eye(curve.problem.n_x), measure="total-variation").leakage
    assert shown["leakage_ceiling"] == pytest.approx(whole)
    assert "total variation</text>" in shown["figure"]
    within = tasks.point(workspace, leakage=0.5 * whole)
    assert within["leakage"] == pytest.approx(0.5 * whole, abs=1e-9)
    assert within["leakage_share"] == pytest.approx(0.5, abs=1e-9)
    assert (within["leakage_name"], within["leakage_whole"]) == ("total variation", "what X itself leaks")
    assert f"It is {0.5 * whole:.4f} here, of the {whole:.4f}" in within["people"][0]
    # The sentence is about mutual information, and what else could be done is compared by it.
    plain = curve.problem.evaluate(curve.at(within["disclosure"]).channel).leakage
    assert f"leaks {plain / np.log(2):.4f} bits" in within["words"]
    assert all(other["leakage"] <= plain + 1e-9 for other in tasks.beside(workspace, within["at"])["others"])
    assert "--measure total-variation" in within["command"]
    assert "'measure': 'total-variation'" in within["script"]
    audited = tasks.audit(workspace, within["at"], "symbols")
    assert any("by total-variation to who knows a, b" in line for line in audited["words"])
    report = Path(tasks.export(workspace, "report.html", within["at"], "decoys")).read_text("utf-8")
    assert "Its total variation (" in report
    assert "a short list of candidates with weights, its own values and decoys" in report
    assert "--as decoys" in report
    with pytest.raises(InvalidInputError, match="no form 'cards'"):
        tasks.export(workspace, "report.html", within["at"], "cards")


def test_what_cannot_be_guarded_against_is_said(tmp_path: Path) -> None:
    workspace, _ = small(tmp_path)
    with pytest.raises(InvalidInputError, match="no public column"):
        tasks.trace(workspace, points=6, solver="auto", guarded={"known": [["sick"]]})
    with pytest.raises(InvalidInputError, match="lip"):
        tasks.trace(workspace, points=6, solver="auto", guarded={"guarantees": ["lip=-1"]})
