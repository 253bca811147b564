"""The paper's experiments: what is run, what is kept, and that the page says what the numbers say."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from privfunnel.app.cli import main
from privfunnel.data import instances
from privfunnel.errors import InvalidInputError
from privfunnel.studies import reproduce
from privfunnel.studies.reproduce import panels
from privfunnel.studies.reproduce.page import document
from privfunnel.studies.reproduce.panels import AEM, ALL_SERIES, DRS, PanelResult, Plan, Run, Series

SMALL = tuple(panel for panel in reproduce.PANELS if panel.key.startswith("synthetic"))


def small_runs(self: Plan, panel: panels.Panel) -> dict[str, tuple[str, dict[str, Any]]]:
    sweep = {"restarts": 2, "betas": (1.0, 2.0, 4.0), "time_limit": 20.0}
    return {
        AEM: ("aem", {"restarts": 3, "max_steps": 60, "outputs": panel.outputs, "accelerate": False}),
        **{name: ("drs-repaired" if "repaired" in name else "drs", sweep) for name in ALL_SERIES[1:]},
    }


#: What was computed for a panel, whatever the seed: the tests ask for it again and again.
COMPUTED: dict[str, PanelResult] = {}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reproduce.compute

    def compute(panel: panels.Panel, plan: Plan, **options: Any) -> PanelResult:
        if panel.key not in COMPUTED:
            COMPUTED[panel.key] = real(panel, plan, **options)
        return COMPUTED[panel.key]

    monkeypatch.setattr(reproduce, "compute", compute)
    monkeypatch.setattr(reproduce, "PANELS", SMALL)
    monkeypatch.setattr(reproduce, "FIGURES", {"figure-1": tuple(panel.key for panel in SMALL)})
    monkeypatch.setattr(Plan, "runs", small_runs)


def test_the_settings_are_the_papers() -> None:
    plan = Plan()
    for panel in reproduce.PANELS:
        solver, options = plan.runs(panel)[AEM]
        assert solver == "aem"
        assert (options["restarts"], options["max_steps"], options["accelerate"]) == (30, 500, False)
        assert options["outputs"] == (4 if panel.instance.startswith("synthetic") else None)
        assert plan.runs(panel)[DRS][0] == "drs"
    readings = {(panel.instance, panel.perturbation) for panel in reproduce.PANELS}
    for instance in ("heart-failure", "census-income"):
        assert {(instance, "probabilities"), (instance, "counts")} < readings
    assert Plan(quick=True).points(reproduce.PANELS[3]) < plan.points(reproduce.PANELS[3])


@pytest.mark.usefixtures("small")
def test_a_run_leaves_figures_points_and_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    results = reproduce.run(out, quick=True)
    assert sorted(path.name for path in out.iterdir()) == [
        "figure-1.png", "figure-1.svg", "panels", "points.csv", "reproduction.md",
    ]  # fmt: skip
    assert {path.name for path in (out / "panels").iterdir()} == {f"{panel.key}.json" for panel in SMALL}
    with (out / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["series"] for row in rows} == set(ALL_SERIES)
    aem = [row for row in rows if row["series"] == AEM and row["panel"] == "synthetic-uniform"]
    ceiling = instances.load("synthetic-uniform").disclosure_ceiling
    assert [float(row["requested"]) for row in aem] == pytest.approx(np.linspace(0, ceiling, 21)[1:].tolist())
    assert all(float(row["disclosure"]) >= float(row["requested"]) - 1e-9 for row in aem)
    told = (out / "reproduction.md").read_text()
    assert "**quick**" in told
    assert told.count("### ") == 4
    assert len(results) == 2


@pytest.mark.usefixtures("small")
def test_finished_panels_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real, calls = reproduce.compute, []

    def once(panel: panels.Panel, plan: Plan, **options: Any) -> PanelResult:
        calls.append(panel.key)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(panel, plan, **options)

    monkeypatch.setattr(reproduce, "compute", once)
    stopped = CliRunner().invoke(main, ["reproduce", "--quick", "--out", str(tmp_path / "out")])
    assert stopped.exit_code == 130
    assert "finished panels are kept" in stopped.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["panels"]
    done = CliRunner().invoke(main, ["reproduce", "--quick", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Synthetic, uniform p(x): finished before, kept" in done.stdout
    assert calls == ["synthetic-uniform", "synthetic-skewed", "synthetic-skewed"]
    again = CliRunner().invoke(main, ["reproduce", "--quick", "--seed", "1", "--out", str(tmp_path / "out")])
    assert again.exit_code == 0
    assert len(calls) == 5, "another seed is another run"


@pytest.mark.usefixtures("small")
def test_results_read_back_exactly(tmp_path: Path) -> None:
    result = reproduce.compute(SMALL[0], Plan(quick=True))
    assert PanelResult.from_dict(SMALL[0], json.loads(json.dumps(result.to_dict()))) == result


def test_unusable_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["reproduce", "--quick", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "cannot write to" in result.stderr
    (tmp_path / "panels").mkdir()
    (tmp_path / "panels" / "synthetic-uniform.json").write_text("[]")
    with pytest.raises(InvalidInputError, match="not a privfunnel/panel file"):
        reproduce.run(tmp_path, quick=True)


def made_up(panel: panels.Panel, drs: list[tuple[float, float, int]]) -> PanelResult:
    """AEM on L(R) = max(0, R − 1) for H(X) = 2, I(S;X) = 1, against given points of DRS."""
    asked = np.linspace(0.0, 2.0, 21)[1:]
    aem = tuple(Run(float(r), max(float(r) - 1.0, 0.0), "converged", 9, float(r)) for r in asked)
    other = tuple(Run(x, y, "feasible", steps) for x, y, steps in drs)
    series = [Series(AEM, aem, 1.0, 1.0), *(Series(name, other, 1.0, 1.0) for name in ALL_SERIES[1:])]
    return PanelResult(panel, 2.0, 1.0, 1.0, tuple(series))


def test_the_page_follows_the_numbers() -> None:
    heart = reproduce.PANELS[2]
    bad = document([made_up(heart, [(1.0, 0.25, 5)])], Plan())
    assert "AEM: confirmed on every panel. DRS with its authors' settings: not confirmed." in bad
    assert "| 1; 50 % |" in bad
    assert "On the real tables: confirmed on every panel" in bad
    assert "DRS with its authors' settings: confirmed on every panel. Compared" in bad
    assert "worse at 95% (by up to 0.2500, at 0.50 H(X)); better nowhere" in bad
    good = document([made_up(heart, [(0.5, 0.0, 1), (1.0, 0.0, 3), (2.0, 1.0, 8)])], Plan())
    assert "DRS with its authors' settings: confirmed on every panel. Counted" in good
    assert "DRS with its authors' settings: not confirmed. Compared" in good
    assert "within 3 steps" in good
    none = document([made_up(heart, [])], Plan())
    assert "No run of the published iteration met its stopping test" in none
    both = document([made_up(heart, [(1.0, 0.25, 5)]), made_up(heart, [(2.0, 1.0, 5)])], Plan())
    assert "DRS with its authors' settings: confirmed on 1 of 2 panels. Counted" in both


def test_binning_keeps_the_best_of_each_tenth() -> None:
    points = [(0.31, 0.2, 1), (0.33, 0.1, 1), (0.52, 0.3, 1)]
    series = Series("x", tuple(Run(a, b, "feasible", c) for a, b, c in points), 0.0, 0.0)
    assert series.binned().tolist() == [[0.33, 0.1], [0.52, 0.3]]
    assert Series("x", (), 0.0, 0.0).binned().shape == (0, 2)
