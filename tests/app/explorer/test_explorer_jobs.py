"""The explorer's tasks, run in this process: what the page is told equals what the library says."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

import privfunnel as pf
from helpers_explorer import AWKWARD, CENSUS_ROLES, heart
from privfunnel import audit
from privfunnel.app.explorer import describe, lookup, recipes, wording
from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer import population_band as people
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.audit import cross_fit
from privfunnel.data.population.views import NOTHING_CLAIMED
from privfunnel.errors import InvalidInputError
from privfunnel.model.equal_symbols import lumping_of
from privfunnel.neighbours import alternatives
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy
from privfunnel.report.from_audit import population_words
from privfunnel.report.rounding import Rounding

# --- tables ---------------------------------------------------------------------------------------------------------


def test_the_heart_example_is_the_instance(workspace: Workspace) -> None:
    table = tasks.example(workspace, "heart-failure")
    assert table["rows"] == 299
    assert [c["distinct"] for c in table["columns"]] == [2] * 6
    found = tasks.roles(workspace, **table["roles"])
    assert (found["n_s"], found["n_x"], found["n"]) == (4, 16, 299)
    instance = pf.instances.load("heart-failure")
    problem = workspace.setting().problem
    assert problem.disclosure_ceiling == pytest.approx(instance.disclosure_ceiling, abs=1e-12)
    assert problem.leakage_ceiling == pytest.approx(instance.leakage_ceiling, abs=1e-12)


def test_the_census_example_is_the_instance(workspace: Workspace) -> None:
    table = tasks.example(workspace, "census-income")
    assert table["rows"] == 32561
    found = tasks.roles(workspace, **CENSUS_ROLES)
    assert (found["n_s"], found["n_x"]) == (10, 156)
    instance = pf.instances.load("census-income")
    assert workspace.setting().problem.leakage_ceiling == pytest.approx(instance.leakage_ceiling, abs=1e-12)
    assert found["edges"]["age"] == [32, 47, 61, 76]


def test_unknown_examples_are_refused(workspace: Workspace) -> None:
    with pytest.raises(InvalidInputError, match="choose one of heart-failure"):
        tasks.example(workspace, "nothing")


def test_an_awkward_table_is_described(workspace: Workspace) -> None:
    table = tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    by_name = {c["name"]: c for c in table["columns"]}
    assert table["rows"] == 400
    assert by_name["score"]["type"] == "integer"
    assert by_name["score"]["distinct"] == 40
    assert sum(by_name["score"]["histogram"]["counts"]) == 400
    assert by_name["town, region"]["nulls"] == 25
    assert by_name["naïve Größe"]["type"] == "text"
    assert any("Wells, Somerset" in (value or "") for row in table["preview"] for value in row)
    assert any(value is None for row in table["preview"] for value in row)
    suggested = {"rule": "quantiles", "number": 4}
    assert table["roles"]["bins"] == {"score": suggested, "weight": suggested}


def test_a_table_without_rows_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(InvalidInputError, match="no rows"):
        tasks.inspect(workspace, str(tmp_path / "empty.csv"), "empty.csv")


def test_infinite_numbers_have_no_histogram(workspace: Workspace, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="writes the table")
    pandas.DataFrame({"v": [1.0, 2.0, 3.0, math.inf, math.nan]}).to_parquet(tmp_path / "t.parquet")
    table = tasks.inspect(workspace, str(tmp_path / "t.parquet"), "t.parquet")
    assert table["columns"][0]["histogram"] is None
    assert table["columns"][0]["nulls"] == 1


@pytest.mark.parametrize(
    ("rule", "labels"),
    [
        ({"rule": "edges", "edges": [20, 10]}, ["< 10", "10-19", "≥ 20"]),
        ({"rule": "bins", "number": 2}, ["< 20", "≥ 20"]),
        ({"rule": "width", "number": 15}, ["< 15", "15-29", "≥ 30"]),
    ],
)
def test_bins_are_what_was_asked_for(workspace: Workspace, rule: dict[str, Any], labels: list[str]) -> None:
    tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    tasks.roles(workspace, private=["naïve Größe"], public=["score"], bins={"score": rule})
    assert workspace.setting().public_axis.levels(0) == tuple(labels)


@pytest.mark.parametrize(
    "rule",
    [{"rule": "edges", "edges": []}, {"rule": "edges", "edges": [None]}, {"rule": "edges", "edges": 5},
     {"rule": "edges", "edges": "5"}, {"rule": "edges", "edges": [math.inf]}, {"rule": "edges", "edges": [True]},
     {"rule": "edges", "edges": [10**400]}, {"rule": ["bins"], "number": 4}, {"rule": "bins", "number": 1},
     {"rule": "width", "number": 0},
     {"rule": "width", "number": "x"}, {"rule": "magic"}, {},
     {"rule": "ages", "number": 4}, {"rule": "ages", "number": 4, "at": "soon"}],
)  # fmt: skip
def test_bins_that_cannot_be_are_refused(workspace: Workspace, rule: dict[str, Any]) -> None:
    tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    with pytest.raises(InvalidInputError, match="'score'"):
        tasks.roles(workspace, private=["naïve Größe"], public=["score"], bins={"score": rule})


def test_too_many_values_are_explained(workspace: Workspace) -> None:
    tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    with pytest.raises(InvalidInputError, match="40 different values"):
        tasks.roles(workspace, private=["naïve Größe"], public=["score"], bins={})


def test_few_rows_are_warned_of(workspace: Workspace) -> None:
    assert "299 rows" in heart(workspace)["warnings"][0]


def test_roles_before_a_table_and_curves_before_roles_are_refused(workspace: Workspace) -> None:
    with pytest.raises(InvalidInputError, match="no table is loaded"):
        tasks.roles(workspace, private=["a"], public=["b"], bins={})
    with pytest.raises(InvalidInputError, match="no table with roles"):
        tasks.trace(workspace, points=5, solver="auto")
    heart(workspace)
    with pytest.raises(InvalidInputError, match="draw the curve first"):
        tasks.summary(workspace)


# --- curves ---------------------------------------------------------------------------------------------------------


def test_points_arrive_one_by_one_and_add_up_to_the_librarys_curve(
    workspace: Workspace, events: list[dict[str, Any]]
) -> None:
    heart(workspace)
    tasks.trace(workspace, points=5, solver="aem")
    points = [event for event in events if event["kind"] == "point"]
    problem = workspace.setting().problem
    assert [(p["done"], p["total"]) for p in points] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert all("<figure" in p["figure"] for p in points)
    free = pf.free_disclosure(problem)
    grid = [0.0, *np.linspace(free, problem.disclosure_ceiling, 3)]
    curve = pf.trace(problem, disclosures=grid, refine=2, solver="aem", throw=False)
    np.testing.assert_array_equal(tasks.curve_of(workspace).leakage, curve.leakage)
    np.testing.assert_array_equal(tasks.curve_of(workspace).disclosure, curve.disclosure)


def test_two_points_where_nothing_is_free_need_no_solver(
    workspace: Workspace, events: list[dict[str, Any]], tmp_path: Path
) -> None:
    table = tmp_path / "same.csv"
    table.write_text("s,x\n" + "".join(f"{v},{v}\n" for v in "aabbc"))
    tasks.inspect(workspace, str(table), "same.csv")
    tasks.roles(workspace, private=["s"], public=["x"], bins={})
    tasks.trace(workspace, points=2, solver="greedy")
    assert tasks.curve_of(workspace).disclosure.tolist() == [
        0.0,
        workspace.setting().problem.disclosure_ceiling,
    ]
    assert [event for event in events if event["kind"] == "point"] == []


def test_the_summary_has_the_ceilings_and_the_free_limit(traced: Workspace) -> None:
    summary = tasks.summary(traced)
    problem = traced.setting().problem
    assert summary["disclosure_ceiling"] == problem.disclosure_ceiling
    assert summary["free_disclosure"] == summary["suggested"] == pf.free_disclosure(problem)
    assert summary["groups"] == []
    assert "7 of 7 points proved optimal" in summary["note"]


def test_the_free_limit_leaks_nothing(traced: Workspace) -> None:
    found = tasks.point(traced, disclosure=pf.free_disclosure(traced.setting().problem))
    assert found["leakage"] == pytest.approx(0.0, abs=1e-12)
    assert found["status"] == "optimal"
    assert "tells nothing about the private ones" in found["words"]


def test_a_point_says_what_the_library_says(traced: Workspace) -> None:
    curve = tasks.curve_of(traced)
    found = tasks.point(traced, disclosure=2.2)
    solution = curve.at(2.2)
    for name in ("disclosure", "leakage", "lower_bound", "gap"):
        assert found[name] == getattr(solution, name)
    assert found["disclosure_share"] == solution.disclosure / curve.problem.disclosure_ceiling
    assert [g["name"] for g in found["guesses"]] == ["sex", "death", "all together"]
    mechanism = Mechanism.from_solution(traced.setting().counts, solution)
    for page, design in zip(found["guesses"], mechanism.guesses, strict=True):
        assert page["after"] == pytest.approx(design.after)
        assert page["original"] == pytest.approx(design.original)
    for label in mechanism.y_labels:
        assert f'"{label}"' in found["heat"]


def test_a_budget_is_spent(traced: Workspace) -> None:
    found = tasks.point(traced, leakage=0.02)
    assert found["leakage"] <= 0.02 + 1e-9
    assert found["disclosure"] == pytest.approx(tasks.curve_of(traced).within(0.02).disclosure)


def test_a_point_needs_one_of_the_two(traced: Workspace) -> None:
    with pytest.raises(InvalidInputError, match="exactly one"):
        tasks.point(traced)
    with pytest.raises(InvalidInputError, match="exactly one"):
        tasks.point(traced, disclosure=1.0, leakage=0.1)


def test_refining_adds_points_where_least_is_known(workspace: Workspace) -> None:
    heart(workspace)
    tasks.trace(workspace, points=4, solver="greedy")
    before = tasks.curve_of(workspace)
    tasks.trace(workspace, points=4, solver="greedy", refine=True)
    after = tasks.curve_of(workspace)
    assert len(after.solutions) == len(before.solutions) + 3
    for r in before.disclosure:
        assert np.abs(after.disclosure - r).min() < 1e-9
    for r in np.linspace(0.0, before.problem.disclosure_ceiling, 11):
        assert after.at(float(r)).leakage <= before.at(float(r)).leakage + 1e-9


def test_sharpening_solves_the_very_point(workspace: Workspace) -> None:
    heart(workspace)
    tasks.trace(workspace, points=4, solver="auto")
    mixed = tasks.point(workspace, disclosure=2.3)
    assert mixed["status"] != "optimal"
    tasks.trace(workspace, points=4, solver="auto", refine=True, at=2.3)
    sharp = tasks.point(workspace, disclosure=2.3)
    assert sharp["status"] == "optimal"
    assert sharp["leakage"] < mixed["leakage"]


def test_what_an_interrupted_run_has_found_is_kept(
    workspace: Workspace, events: list[dict[str, Any]]
) -> None:
    heart(workspace)

    class StopError(Exception):
        pass

    def stop(event: dict[str, Any]) -> None:
        if event["kind"] == "point" and event["done"] == 2:
            raise StopError

    workspace.emit = stop
    with pytest.raises(StopError):
        tasks.trace(workspace, points=8, solver="auto")
    fresh = Workspace(workspace.folder, emit=events.append)
    curve = tasks.curve_of(fresh)
    assert not curve.complete
    assert 2 <= len(curve.solutions) < 9
    assert "The run was stopped" in tasks.summary(fresh)["note"]


@pytest.mark.parametrize("points", [1, 201, "x", None, 2.5])
def test_senseless_numbers_of_points_are_refused(workspace: Workspace, points: Any) -> None:
    heart(workspace)
    with pytest.raises(InvalidInputError, match="from 2 to 200"):
        tasks.trace(workspace, points=points, solver="greedy")


def test_new_roles_forget_the_old_curve(workspace: Workspace) -> None:
    heart(workspace)
    tasks.trace(workspace, points=3, solver="greedy")
    tasks.roles(workspace, private=["sex"], public=["smoking"], bins={})
    with pytest.raises(InvalidInputError, match="draw the curve first"):
        tasks.summary(workspace)


def test_the_page_has_one_unit_that_can_be_changed(traced: Workspace) -> None:
    ceiling = traced.setting().problem.disclosure_ceiling
    in_bits = tasks.point(traced, disclosure=0.8 * ceiling)
    assert " bits about the private ones" in in_bits["words"]
    with pytest.raises(InvalidInputError, match="use 'nats' or 'bits'"):
        tasks.units(traced, "bans")
    assert "nats too high" in " ".join(tasks.units(traced, "nats")["warnings"])
    try:
        summary, in_nats = tasks.summary(traced), tasks.point(traced, disclosure=0.8 * ceiling)
        assert f"leaks {in_nats['leakage']:.4f} nats" in in_nats["words"]
        assert "disclosure I(X;Y), nats" in summary["figure"]
        assert f'data-xmax="{ceiling:.9g}"' in summary["figure"]
        shown = f"{summary['figure']} {summary['note']} {in_nats['words']} {in_nats['worst']} {in_nats['command']}"
        assert "bits" not in shown
        assert wording.for_page("0.5 nats too high", "nats") == "0.5 nats too high"
    finally:
        tasks.units(traced, "bits")


def test_the_exposed_are_told_as_people(traced: Workspace) -> None:
    ceiling = traced.setting().problem.disclosure_ceiling
    told = tasks.point(traced, disclosure=ceiling)["people"]
    assert told[0].startswith("For ")
    assert " of 299 people the chance of " in told[0]
    assert told[-1].startswith("All this is about the 299 rows of the table, which are few for its cells.")
    estimated = traced.get("band").at(ceiling)[0] / math.log(2)
    assert f"For people like these the release leaks an estimated {estimated:.3f} bits; " in told[-1]
    figure = tasks.summary(traced)["figure"]
    assert 'class="people-band"' in figure
    assert "people like them: estimated leakage, nothing is proved" in figure
    assert tasks.point(traced, disclosure=0.0)["people"] == []


def test_page_and_report_claim_the_same_about_people_like_these(
    traced: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = traced.setting()
    solution = tasks.chosen(tasks.curve_of(traced), 2.0, None)
    mechanism = Mechanism.from_solution(setting.counts, solution)
    # As channels of thousands of symbols are.
    wide = replace(mechanism, channel=sparse.csr_array(mechanism.channel))
    monkeypatch.setattr(cross_fit, "SPLITS", 1)
    for designed, affordable in ((wide, True), (mechanism, False)):
        if not affordable:
            monkeypatch.setattr(cross_fit, "AFFORDABLE", -1.0)
        band = traced.get("band") if affordable else people.band(setting, "auto", 0, 0.0, lambda _: None)
        page = describe.beyond(solution, setting.counts, "bits", band)[0]
        found = audit.table(setting.source, designed, bootstrap=0)
        report = " ".join(population_words(found, Rounding(299.0, Policy())))
        for told in (page, report):
            assert ("an estimated" in told) == affordable
            assert (NOTHING_CLAIMED in told) == (not affordable)


def test_few_rows_are_told_by_persons_and_what_they_prove(workspace: Workspace) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 400)
    s = rng.random(400) < 0.2 + 0.15 * a
    lines = [f"{i // 4},{i // 8},{1 + i % 2},{v},{int(w)}" for i, (v, w) in enumerate(zip(a, s, strict=True))]
    path = workspace.folder / "survey.csv"
    path.write_text("\n".join(["who,home,w,a,s", *lines]) + "\n", "utf-8")
    workspace.put("source", (str(path), path.name, {}))
    said = {}
    for rows in ({}, {"person": "who"}, {"person": "who", "cluster": "home"}, {"weights": "w"}):
        found = tasks.roles(workspace, private=["s"], public=["a"], bins={}, **rows)
        tasks.trace(workspace, points=3, solver="greedy")
        setting = workspace.setting()
        assert setting.rows == rows
        solution = tasks.chosen(tasks.curve_of(workspace), 0.9, None)
        said[tuple(rows)] = " ".join(describe.beyond(solution, setting.counts, "bits"))
        assert (found["persons"], found["clusters"]) == (
            100 if "person" in rows else None,
            50 if "cluster" in rows else None,
        )
        assert all(f"--{name}" in recipes.table_arguments(setting) for name in rows)
    assert "All this is about the 100 persons of the table" in said["person",]
    assert "All this is about the 50 clusters of the table" in said["person", "cluster"]


def test_what_one_would_do_otherwise_stands_beside_a_point(traced: Workspace) -> None:
    setting = traced.setting()
    at = 0.8 * setting.problem.disclosure_ceiling
    found = tasks.beside(traced, at)
    assert found["share"] == pytest.approx(0.8)
    leakage = tasks.point(traced, disclosure=at)["leakage"]
    best = alternatives.suppression(setting.counts, leakage)
    assert found["others"][0]["share"] == pytest.approx(best.share)
    assert 0.0 < found["others"][0]["share"] <= found["others"][1]["share"] < 0.8
    assert found["others"][0]["tried"] == best.tried > 1
    # Who knows a column learns more than who knows nothing.
    curve = tasks.curve_of(traced)
    expected = setting.problem.leakages(curve.at(at).channel, known=["smoking"])
    known = {each["columns"]: each for each in found["known"]}
    assert known["nothing"]["leakage"] == pytest.approx(expected["nothing"], abs=1e-9)
    assert known["smoking"]["leakage"] == pytest.approx(expected["smoking"], abs=1e-9)
    assert known["nothing"]["leakage"] < known["smoking"]["leakage"] <= known["smoking"]["ceiling"]


def test_large_tables_are_shown_group_by_group(workspace: Workspace) -> None:
    tasks.example(workspace, "census-income")
    tasks.roles(workspace, **CENSUS_ROLES)
    tasks.trace(workspace, points=3, solver="greedy")
    summary = tasks.summary(workspace)
    assert summary["group_name"] == "age"
    assert summary["groups"] == ["< 32", "32-46", "47-60", "61-75", "≥ 76"]
    whole = tasks.point(workspace, disclosure=2.0)["heat"]
    part = tasks.point(workspace, disclosure=2.0, group="32-46")["heat"]
    assert whole.count("education=Masters") == 2 * 10
    assert part.count("education=Masters") == 2 * 2
    assert ">Masters<" in part  # there is room for each label now


def test_points_are_spent_where_something_leaks(traced: Workspace) -> None:
    curve = tasks.curve_of(traced)
    below = [s for s in curve.solutions if s.disclosure < pf.free_disclosure(curve.problem) - 1e-9]
    assert [s.disclosure for s in below] == [0.0]
    assert len(curve.solutions) == 7
    even = pf.trace(curve.problem, points=7)
    grid = np.linspace(0.0, curve.problem.disclosure_ceiling, 200)
    assert max(curve.at(float(r)).gap for r in grid) < max(even.at(float(r)).gap for r in grid)
    assert sum(curve.at(float(r)).leakage for r in grid) < sum(even.at(float(r)).leakage for r in grid)


def test_a_mechanism_too_large_for_a_picture_is_told_by_its_classes(
    traced: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tasks.point(traced, disclosure=2.0)["classes"] == []
    monkeypatch.setattr(describe, "MOST_CELLS", 10)
    found = tasks.point(traced, disclosure=2.0)
    assert "What becomes of each class" in found["heat"]
    assert sum(c["size"] for c in found["classes"]) == 16
    shares = [c["share"] for c in found["classes"]]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == sorted(shares, reverse=True)
    for c in found["classes"]:
        assert 0.0 < sum(y["p"] for y in c["released"]) <= 1.0 + 1e-9
    assert {m.count(",") for c in found["classes"] for m in c["members"]} == {3}


@pytest.mark.parametrize("most", [40, 3])
def test_the_picture_of_classes_holds_everything_that_is_released(
    traced: Workspace, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(lookup, "MOST_DRAWN", most)
    curve = tasks.curve_of(traced)
    solution = tasks.chosen(curve, 2.0, None)
    drawn = lookup.picture(solution, traced.setting().public_axis, width=800)
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', drawn)[1])  # type: ignore[index]
    assert max(len(data["rows"]), len(data["columns"])) <= most
    cells = np.array(data["cells"]).reshape(len(data["rows"]), len(data["columns"]))
    np.testing.assert_allclose(cells.sum(axis=1), 1000, atol=0.5 * cells.shape[1])
    assert ("other classes" in data["rows"][-1]) == (most == 3)
    table, sizes = lookup.grouped(
        solution.channel, solution.problem.p_x, lumping_of(solution.problem).classes
    )
    assert table.sum() == pytest.approx(1.0)
    assert sizes.sum() == np.count_nonzero(solution.p_y)


def test_combinations_are_found_by_their_values(traced: Workspace) -> None:
    problem = traced.setting().problem
    found = tasks.search(traced, 2.0, "Anaemia=yes, smoking=no")
    assert (found["count"], found["total"]) == (4, 16)
    assert [x["values"][0] + x["values"][3] for x in found["found"]] == ["yesno"] * 4
    assert [x["share"] for x in found["found"]] == sorted((x["share"] for x in found["found"]), reverse=True)
    solution = tasks.chosen(tasks.curve_of(traced), 2.0, None)
    values = list(traced.setting().public_axis.values)
    for each in found["found"]:
        x = values.index(tuple(each["values"]))
        assert sum(s["p"] for s in each["private"]) == pytest.approx(1.0)
        assert each["private"][0]["p"] == pytest.approx(problem.p_sx[:, x].max() / problem.p_x[x])
        for y in each["released"]:
            assert y["p"] == solution.channel[x, int(y["name"][1:])]
            assert each["values"] in [c["values"] for c in y["candidates"]]
    assert tasks.search(traced, 2.0, "yes no")["count"] == 14  # each word in some column
    assert tasks.search(traced, 2.0, "maybe")["found"] == []


def test_rows_are_shown_before_and_after(traced: Workspace) -> None:
    found = tasks.point(traced, disclosure=2.0)
    assert found["names"] == ["anaemia", "high blood pressure", "diabetes", "smoking"]
    assert found == tasks.point(traced, disclosure=2.0)  # the same each time: no further draw
    assert {value for row in found["samples"] for value in row["before"] + row["after"]} == {"yes", "no"}
    everything = tasks.point(traced, disclosure=traced.setting().problem.disclosure_ceiling)
    assert all(row["before"] == row["after"] for row in everything["samples"])
    assert any(row["before"] != row["after"] for row in found["samples"])
    for row in found["samples"]:
        assert row["before"] in [
            each["values"] for each in row["candidates"]
        ]  # the true record is one of them
        assert sum(each["weight"] for each in row["candidates"]) == pytest.approx(1.0)
    assert all(len(row["candidates"]) == 1 for row in everything["samples"])


def test_loading_says_how_far_it_is(workspace: Workspace, events: list[dict[str, Any]]) -> None:
    tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    news = [(e["done"], e["total"], e["message"]) for e in events]
    assert news[0] == (0, 0, "Opening awkward.csv")
    assert news[-1][:2] == (4, 5)
    assert "Looking at score" in [message for _, _, message in news]
