"""Workbooks of spreadsheet programs as tables."""

from __future__ import annotations

import datetime
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions, open_table, sniff
from privfunnel.errors import InvalidInputError, ReadingWarning
from workbooks import write_ods, write_xlsx

pytest.importorskip("python_calamine")
pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

DAY = datetime.date(2020, 12, 31)
SHEET = [
    ["s", "x", "d", "ok", "mix"],
    ["a", 1, DAY, True, 1],
    ["b", 2.5, None, False, "NA"],
    ["a", None, DAY, True, " y "],
]


def values(path: Path, name: str, **options: Any) -> list[Any]:
    with open_table(path, ReadOptions(**options)) as table:
        return [value for batch in table.batches([name], 100) for value in batch.column(0).to_pylist()]


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InvalidInputError) as caught, open_table(path, ReadOptions(**options)):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_sheet_is_a_table(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "t.xlsx", {"First": SHEET, "Second": [["q"], ["z"]]})
    assert values(path, "s") == ["a", "b", "a"]
    assert values(path, "x") == [1.0, 2.5, None]
    assert values(path, "d") == [DAY, None, DAY]
    assert values(path, "ok") == [True, False, True]
    assert values(path, "mix") == ["1", "NA", "y"]
    assert values(path, "mix", nulls=("NA", "y")) == [1, None, None]
    assert values(path, "x", types={"x": "text"}) == ["1", "2.5", None]
    assert values(path, "q", sheet="Second") == ["z"]
    assert sniff(path).sheet == "First"
    counts = tables.count(path, private="s", public=["x", "d"], bins={"d": "year"})
    assert counts.x_values == [(1, 2020), (2.5, None), (None, 2020)]
    assert "it holds First, Second: choose one (--sheet)" in refusal(path, sheet="third")


def test_other_spreadsheet_programs(tmp_path: Path) -> None:
    path = write_ods(tmp_path / "t.ods", {"One": [["s", "x"], ["a", 1], ["b", 2]]})
    assert values(path, "x") == [1, 2]


def test_a_sheet_without_a_header_is_named(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "t.xlsx", {"One": [["a", 1], ["b", 2]]})
    assert values(path, "x", columns=("s", "x")) == [1, 2]
    assert "has 2 columns and 3 names were given" in refusal(path, columns=("s", "x", "y"))
    assert "has no header" in refusal(path, header=False)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["Table", "of visits"], [], ["s", "x", "z"], ["a", 1, 2]], "no name above column 3"),
        ([["s", None, "x"], ["a", 1, 2]], "no name above column 2 (are cells merged"),
        ([["s", "x", "S"], ["a", 1, 2]], "two columns called 's'"),
        ([[]], "is empty"),
        ([["s", "x"], ["a", 1, 7]], "no name above column 3"),
    ],
)
def test_headers_that_name_nothing_are_refused(rows: list[list[Any]], words: str, tmp_path: Path) -> None:
    assert words in refusal(write_xlsx(tmp_path / "t.xlsx", {"One": rows}))


def test_a_workbook_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "t.xlsx", {"One": [["s", "x"], ["a", 1]]})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text.replace(b'r="B2"', b'r="XFD1048576"'))
    assert "too large for a workbook" in refusal(path)


@pytest.mark.parametrize("name", ["t.xlsx", "t.xls", "t.ods"])
def test_what_is_no_workbook_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 nonsense")
    assert "cannot be read as a workbook" in refusal(tmp_path / name)
    (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    assert "cannot be read as a workbook" in refusal(tmp_path / name)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"id;s\n1;a\n", "is no workbook but text with that ending: rename it to .csv"),
        ("Größe;s\n1,5;a\n".encode("cp1252"), "rename it to .csv"),
        (b"<html><table><tr><td>s</td></tr></table></html>", "is no workbook but a web page"),
        (b'<?xml version="1.0"?><Workbook></Workbook>', "open it in a spreadsheet and save it as .xlsx"),
    ],
)
def test_text_that_is_called_a_workbook_is_recognised(start: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "old.xls").write_bytes(start)
    assert words in refusal(tmp_path / "old.xls")


TABLE = [["s", "x"], ["a", 1], ["b", 2], ["a", None]]


@pytest.mark.parametrize(
    ("rows", "above"),
    [
        ([["Table of visits"], *TABLE], 1),
        ([["Table of visits"], ["made in May"], [], *TABLE], 3),
        ([[], ["Table of visits"], *TABLE], 2),
        ([["Table of visits"], *([None, *row] for row in TABLE)], 1),  # one column further right
        (
            [
                [None, "Table of visits", None, None],
                *([*row, *row] for row in [["s", "x"], ["a", 1], ["b", 2]]),
            ],
            0,
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".xlsx", ".ods"])
def test_titles_above_the_header_are_found_out_and_told(
    rows: list[list[Any]], above: int, suffix: str, tmp_path: Path
) -> None:
    path = (write_xlsx if suffix == ".xlsx" else write_ods)(tmp_path / f"t{suffix}", {"One": rows})
    if not above:  # two columns with one name: no header
        assert "no name above column" in refusal(path)
        return
    with pytest.warns(
        ReadingWarning, match=rf"{above} rows? (is|are) left .* of sheet 'One' .*\('Table of visits'\)"
    ):
        assert values(path, "x") == [1, 2, None]
    assert sniff(path).skip_rows == above
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        assert values(path, "s", skip_rows=above) == ["a", "b", "a"]
    assert "has nothing behind its first 99 rows" in refusal(path, skip_rows=99)
    assert "leave out rows above the header (--skip-rows)" in refusal(path, skip_rows=0)


def test_empty_rows_at_the_top_of_a_sheet_count(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "t.xlsx", {"One": [[], [], ["Title", "of two"], *TABLE]})
    assert values(path, "x", skip_rows=3) == [1, 2, None]
