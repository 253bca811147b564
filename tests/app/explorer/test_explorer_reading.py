"""How the page reads files: what is found out, what can be asked for, and the words for what goes wrong."""

from __future__ import annotations

import ast
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the explorer reads tables through DuckDB")

from privfunnel.app.explorer import jobs as tasks
from privfunnel.app.explorer import reading, wording
from privfunnel.app.explorer.workspace import Workspace
from privfunnel.errors import InvalidInputError, ReadingWarning
from workbooks import write_xlsx


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, emit=lambda event: None)


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
    asked, shown = reading.found_out(str(tmp_path / "t.txt"), {**read, "sheet": "Data"})
    assert "sheet" not in {*asked, *shown["options"]}
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


def test_a_column_of_numbers_with_one_text_is_asked_about(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("s,age,code\n" + "".join(f"{'ab'[i % 2]},{i},{i % 3}\n" for i in range(60)) + "a,NA,NA\n")
    table = tasks.inspect(workspace, str(path), "t.csv")
    asked = {column["name"]: column["odd"] for column in table["columns"]}
    assert asked == {
        "s": None,
        "age": {"words": "60 numbers and 'NA'", "nulls": ["NA"]},
        "code": {"words": "3 numbers and 'NA'", "nulls": ["NA"]},
    }
    assert table["roles"]["bins"] == {}  # nothing is grouped without a word
    with pytest.raises(InvalidInputError, match="'age' mixes types, 60 numbers and 1 texts such as 'NA'"):
        tasks.roles(workspace, private=["s"], public=["age"], bins={})
    assert "if that means missing, say so (“Change how the file is read”)" in "".join(
        tasks.roles(workspace, private=["s"], public=["code"], bins={})["warnings"]
    )
    table = tasks.inspect(workspace, str(path), "t.csv", read={"nulls": "NA"})
    assert [(column["type"], column["odd"]) for column in table["columns"]] == [
        ("text", None),
        ("integer", None),
        ("integer", None),
    ]
    read = {"types": {"age": "text", "code": "text"}}
    table = tasks.inspect(workspace, str(path), "t.csv", read=read)
    assert [column["odd"] for column in table["columns"]] == [None, None, None]
    assert table["roles"]["bins"] == {"age": {"rule": "top", "number": 10}}


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_titles_above_the_header_are_left_out_and_shown(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    rows: list[list[Any]] = [["Visits of 2020"], [], ["s", "x"], *([["ab"[i % 2], i % 3] for i in range(60)])]
    if name == "t.xlsx":
        pytest.importorskip("python_calamine", reason="reads the workbook")
        write_xlsx(tmp_path / name, {"One": rows})
    else:
        (tmp_path / name).write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)  # it is the page that says it
        table = tasks.inspect(workspace, str(tmp_path / name), name)
    assert table["rows"] == 60
    assert [column["name"] for column in table["columns"]] == ["s", "x"]
    assert table["reading"]["values"]["skip_rows"] == "2"
    assert "skip_rows" in table["reading"]["options"]
    tasks.roles(workspace, private=["s"], public=["x"], bins={})
    tasks.trace(workspace, points=2, solver="greedy")
    found = tasks.point(workspace, disclosure=0.5)
    words = shlex.split(found["command"].replace("\\\n", ""))
    assert words[words.index("--skip-rows") + 1] == "2"
    assert "skip_rows=2" in found["script"]
    with pytest.raises(InvalidInputError, match="type a number, 0 for none"):
        reading.checked({"skip_rows": "two"})
