"""The explorer's tasks, run in this process: what the page is told equals what the library says."""

from __future__ import annotations

import ast
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

import privfunnel as pf
from privfunnel.errors import InvalidInputError
from privfunnel.explorer import describe, examples, reading, tasks, wording
from privfunnel.explorer.workspace import Workspace
from privfunnel.mechanism import Mechanism
from workbooks import write_xlsx

AWKWARD = Path(__file__).parent / "data" / "awkward.csv"
CENSUS_ROLES: dict[str, Any] = dict(examples.EXAMPLES["census-income"].roles)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, emit=events.append)


events: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def _no_events() -> None:
    events.clear()


def heart(workspace: Workspace) -> dict[str, Any]:
    table = tasks.example(workspace, "heart-failure")
    return tasks.roles(workspace, **table["roles"])


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("traced"), emit=lambda event: None)
    heart(workspace)
    tasks.trace(workspace, points=6, solver="auto")
    return workspace


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


def test_a_file_is_read_as_the_page_asks(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("Größe;S\nklein;a\ngroß;b\n-;a\n".encode("latin-1"))
    read = {"encoding": "latin-1", "delimiter": ";", "nulls": "-, ?"}
    table = tasks.inspect(workspace, str(tmp_path / "t.csv"), "t.csv", read=read)
    assert [c["name"] for c in table["columns"]] == ["Größe", "S"]
    assert table["preview"] == [["klein", "a"], ["groß", "b"], [None, "a"]]
    tasks.roles(workspace, private=["S"], public=["Größe"], bins={})
    tasks.trace(workspace, points=2, solver="greedy")
    found = tasks.point(workspace, disclosure=0.5)
    words = shlex.split(found["command"].replace("\\\n", ""))
    assert words.count("latin-1") == 2  # for solve and for release
    assert [words[i + 1] for i, word in enumerate(words) if word == "--null"] == ["-", "?"] * 2
    assert (
        "read=pf.tables.ReadOptions(encoding='latin-1', delimiter=';', nulls=('-', '?'))" in found["script"]
    )
    ast.parse(found["script"])
    assert len(Path(tasks.export(workspace, "release.csv", 0.5)).read_text("utf-8").splitlines()) == 4


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {"rows": "5"},
        {"encoding": 1},
        {"nulls": "x" * 2001},
        {"types": {"a": "colour"}},
        {"header": "maybe"},
    ],
)
def test_reading_options_that_the_page_has_not_are_refused(asked: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"try again|choose or type another|choose others|choose one of them"
    ):
        reading.checked(asked)


OFFICE = """Nr;Geburtstag;Aufnahme;Größe;Stadt;krank
""" + "".join(
    f"{i};{i % 28 + 1:02d}.{i % 12 + 1:02d}.{1930 + i % 70};{i % 28 + 1:02d}.{i % 12 + 1:02d}.{2020 + i % 5};"
    f"{1500 + i % 400},5;Stadt{i % 40};{'ja' if i % 3 else 'nein'}\n"
    for i in range(600)
)


def test_an_office_file_is_found_out_and_binned(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "office.csv"
    path.write_bytes(OFFICE.encode("cp1252"))
    table = tasks.inspect(workspace, str(path), "office.csv")
    assert table["reading"]["values"] == {
        "encoding": "cp1252",
        "delimiter": ";",
        "decimal": ",",
        "dates": "dmy",
    }
    assert set(reading.offered()) - set(table["reading"]["options"]) == {"sheet"}
    kinds = {c["name"]: c["type"] for c in table["columns"]}
    assert kinds == {"Nr": "integer", "Geburtstag": "date", "Aufnahme": "date", "Größe": "number",
                     "Stadt": "text", "krank": "text"}  # fmt: skip
    suggested = table["roles"]["bins"]
    assert suggested["Geburtstag"] == {"rule": "years", "number": 4}
    assert suggested["Aufnahme"] == {"rule": "year"}
    assert suggested["Stadt"] == {"rule": "top", "number": 10}
    asked = {**suggested, "Geburtstag": {"rule": "ages", "number": 3, "at": "2025-01-01"}}
    roles = {"private": ["krank"], "public": ["Geburtstag", "Aufnahme", "Größe"], "person": "Nr"}
    bins = {column: asked[column] for column in roles["public"]}
    assert tasks.roles(workspace, **roles, bins=bins)["persons"] == 600
    setting = workspace.setting()
    assert setting.bins["Geburtstag"] == "age@2025-01-01:quantiles:3"
    assert setting.public_axis.levels(1) == ("2020", "2021", "2022", "2023", "2024")
    tasks.trace(workspace, points=2, solver="greedy")
    found = tasks.point(workspace, disclosure=0.5)
    words = shlex.split(found["command"].replace("\\\n", ""))
    # What nothing but the page assumes is said; what is found out anyway is not.
    assert words.count("--decimal") == 2
    assert "--encoding" not in words
    assert words[words.index("--person") + 1] == "Nr"
    assert "person='Nr'" in found["script"]
    ast.parse(found["script"])


def test_every_reading_option_reaches_the_table(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("'a\\'b' | 1\n'c' |2\n")
    read = reading.checked(
        {"delimiter": "|", "quote": "'", "escape": "\\", "header": "no", "trim": "yes", "columns": "text, number",
         "types": {"number": "text"}, "encoding": "", "nulls": "2"}
    )  # fmt: skip
    table = tasks.inspect(workspace, str(tmp_path / "t.txt"), "t.txt", read=read)
    assert [(c["name"], c["type"]) for c in table["columns"]] == [("text", "text"), ("number", "text")]
    assert table["preview"] == [["a'b", "1"], ["c", None]]
    assert reading.options({"quote": "none"}).quote == ""
    assert not reading.sayable(read)
    del read["header"], read["trim"]
    assert reading.sayable(read)
    assert reading.arguments({**read, "delimiter": "tab"}) == [
        "--delimiter", "tab", "--quote", "'", "--escape", "\\", "--columns", "text,number", "--type", "number=text",
        "--null", "2",
    ]  # fmt: skip


def test_a_workbook_shows_its_sheets(workspace: Workspace) -> None:
    pytest.importorskip("python_calamine", reason="reads the workbook")
    sheets = {"Notes": [["remark"], ["none"]], "Data": [["a", "b"], [1, "x"], [2, "y"]]}
    path = write_xlsx(workspace.folder / "book.xlsx", sheets)
    assert tasks.inspect(workspace, str(path), "book.xlsx")["reading"]["sheets"] == ["Notes", "Data"]
    table = tasks.inspect(workspace, str(path), "book.xlsx", read={"sheet": "Data"})
    assert table["rows"] == 2
    assert table["reading"]["values"] == {"sheet": "Data"}
    assert "delimiter" not in table["reading"]["options"]


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
        ({"rule": "width", "number": 2}, ["< 20", "≥ 20"]),
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
     {"rule": "edges", "edges": [10**400]}, {"rule": ["width"], "number": 4}, {"rule": "width", "number": 1},
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


def test_points_arrive_one_by_one_and_add_up_to_the_librarys_curve(workspace: Workspace) -> None:
    heart(workspace)
    tasks.trace(workspace, points=5, solver="aem")
    points = [event for event in events if event["kind"] == "point"]
    problem = workspace.setting().problem
    assert [(p["done"], p["total"]) for p in points] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert all("<figure" in p["figure"] for p in points)
    free = problem.free_disclosure
    grid = [0.0, *np.linspace(free, problem.disclosure_ceiling, 3)]
    curve = pf.trace(problem, disclosures=grid, refine=2, solver="aem", throw=False)
    np.testing.assert_array_equal(tasks.curve_of(workspace).leakage, curve.leakage)
    np.testing.assert_array_equal(tasks.curve_of(workspace).disclosure, curve.disclosure)


def test_two_points_where_nothing_is_free_need_no_solver(workspace: Workspace, tmp_path: Path) -> None:
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
    assert summary["free_disclosure"] == summary["suggested"] == problem.free_disclosure
    assert summary["groups"] == []
    assert "7 of 7 points proved optimal" in summary["note"]


def test_the_free_limit_leaks_nothing(traced: Workspace) -> None:
    found = tasks.point(traced, disclosure=traced.setting().problem.free_disclosure)
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


def test_what_an_interrupted_run_has_found_is_kept(workspace: Workspace) -> None:
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
    below = [s for s in curve.solutions if s.disclosure < curve.problem.free_disclosure - 1e-9]
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
    assert found["heat"] == ""
    assert sum(c["size"] for c in found["classes"]) == 16
    shares = [c["share"] for c in found["classes"]]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == sorted(shares, reverse=True)
    for c in found["classes"]:
        assert 0.0 < sum(y["p"] for y in c["released"]) <= 1.0 + 1e-9
    assert {m.count(",") for c in found["classes"] for m in c["members"]} == {3}


def test_rows_are_shown_before_and_after(traced: Workspace) -> None:
    found = tasks.point(traced, disclosure=2.0)
    assert found["names"] == ["anaemia", "high blood pressure", "diabetes", "smoking"]
    assert found == tasks.point(traced, disclosure=2.0)  # the same each time: no further draw
    assert {value for row in found["samples"] for value in row["before"] + row["after"]} == {"yes", "no"}
    everything = tasks.point(traced, disclosure=traced.setting().problem.disclosure_ceiling)
    assert all(row["before"] == row["after"] for row in everything["samples"])
    assert any(row["before"] != row["after"] for row in found["samples"])


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("column 'a' is a number with 40 different values (more than 12): bin it, e.g. bins={'a': 'width:5'} or "
         "--bin a=quantiles:5",
         "column 'a' is a number with 40 different values (more than 12): choose bins for it under Roles"),
        ("column 'a' mixes types, 9 numbers and 1 texts such as 'x': mark them as null (--null 'x'), or read it as "
         "text (--type a=text)",
         "column 'a' mixes types, 9 numbers and 1 texts such as 'x': mark them as null "
         "(“Change how the file is read”), or read it as text (“Change how the file is read”)"),
        ("2 columns need bins: 'a' is a number; 'b' holds dates: bin them, e.g. --bin a=quantiles:5 --bin b=year or "
         "bins={'a': 'quantiles:5'}, or drop what is not needed",
         "2 columns need bins: 'a' is a number; 'b' holds dates: choose bins for them under Roles"),
        ("column 'id' tells people apart: leave it out, or say that it is who a row is about (--person id)",
         "column 'id' tells people apart: leave it out, or say that it is who a row is about (“Each row is about”)"),
        ("300 cells for 'a': group its rare values (bins={'a': 'top:10'}) or drop it",
         "300 cells for 'a': group its rare values (under Roles) or drop it"),
        ("'t.xlsx' needs a reader: pip install 'privfunnel[excel]'",
         "'t.xlsx' needs a reader: change the table or the roles and try again"),
        ("--options only", "this did not work: change the table or the roles and try again"),
        ("I(S;X) = 0.203 nats is expected to be 1e-02 nats too high",
         "I(S;X) = 0.293 bits is expected to be 0.0144 bits too high"),
        ("a table of 3 rows -- few of them: add some", "a table of 3 rows -- few of them: add some"),
    ],
)  # fmt: skip
def test_errors_on_the_page_speak_of_the_page(message: str, told: str) -> None:
    assert wording.for_page(message) == told


def test_loading_says_how_far_it_is(workspace: Workspace) -> None:
    tasks.inspect(workspace, str(AWKWARD), "awkward.csv")
    news = [(e["done"], e["total"], e["message"]) for e in events]
    assert news[0] == (0, 0, "Opening awkward.csv")
    assert news[-1][:2] == (4, 5)
    assert "Looking at score" in [message for _, _, message in news]
