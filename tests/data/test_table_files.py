"""Files as sources: dialects, headers, databases, and what is wrong with them."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions, open_table, sniff
from privfunnel.errors import InvalidInputError, ReadingWarning

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")


def write(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_text(text, encoding=encoding)
    return str(path)


def count(source: str, **options: object) -> tables.Counts:
    return tables.count(source, private="s", public="x", read=ReadOptions(**options))  # type: ignore[arg-type]


MIXED = "s,x\n" + "".join(f"a,{i}\n" for i in range(60)) + "b,oops\n"
GOOD = "s,x\na,1\nb,2\na,2\n"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (GOOD, {}),
        (GOOD.replace(",", ";"), {}),
        (GOOD.replace(",", "\t"), {"delimiter": "tab"}),
        (GOOD.replace(",", " , "), {}),
        (GOOD.replace("s,x\n", ""), {"columns": ("s", "x")}),
        (GOOD.replace("s,x", "p,q"), {"columns": ("s", "x"), "header": True}),
        (GOOD + "\n\n", {}),
        ("\ufeff" + GOOD, {}),
        (GOOD.replace("\n", "\r\n"), {}),
    ],
    ids=["plain", "semicolon", "tab", "blanks", "no header", "new header", "blank lines", "mark", "crlf"],
)
def test_dialects(content: str, options: dict[str, object], tmp_path: Path) -> None:
    counts = count(write(tmp_path / "t.csv", content), **options)
    assert counts.table().tolist() == [[1, 1], [0, 1]]
    assert counts.x_labels == ("x=1", "x=2")


def test_nulls_and_empty_texts_are_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 's,x\na,\na,""\na,null\na,?\na,  \na, y\n')
    assert count(path).columns["x"].values == ("", "?", "null", "y", None)
    assert count(path, nulls=("?",)).columns["x"].values == ("", "null", "y", None)
    assert count(path).table().tolist() == [[1, 1, 1, 1, 2]]
    assert count(path, trim=False).columns["x"].values == ("", "  ", " y", "?", "null", None)


def test_yes_and_no_stay_as_they_are_written(tmp_path: Path) -> None:
    assert count(write(tmp_path / "t.csv", "s,x\na,yes\nb,no\n")).x_labels == ("x=no", "x=yes")


def test_rows_that_start_with_a_hash_are_rows(tmp_path: Path) -> None:
    rows = [f"{i % 9},{i % 2}\n" for i in range(600)] + ["#3,1\n"] * 60
    counts = count(write(tmp_path / "t.csv", "x,s\n" + "".join(rows)))
    assert counts.n == 660
    assert "#3" in counts.columns["x"].values


@pytest.mark.parametrize(
    ("dates", "kind"),
    [
        (("01/02/2020", "13/02/2020"), "date"),
        (("01/02/2020", "02/13/2020"), "date"),
        (("13/02/2020", "02/13/2020"), "text"),
        (("01/02/2020", "02/12/2020"), "text"),
        (("01-02-20", "02-03-20"), "text"),
        (("01/02/2020 10:00:00", "03/02/2020 11:00:00"), "text"),
        (("2020-02-01", "2020-02-13"), "date"),
        (("2020-02-01 10:00:00", "2020-02-13 11:00:00.5"), "datetime"),
    ],
)
def test_dates_are_not_guessed_afresh_in_every_file(
    dates: tuple[str, str], kind: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.csv", f"s,x\na,{dates[0]}\nb,{dates[1]}\na,{dates[1]}\nb,?\n")
    column = count(path, nulls=("?",)).columns["x"]
    assert column.kind == kind
    assert kind != "text" or set(column.values) == {*dates, None}


def test_types_may_be_forced(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "s,x\na,01\nb,1\n")
    assert count(path).x_labels == ("x=01", "x=1")
    assert count(path, types={"x": "number"}).x_labels == ("x=1",)


def test_repeated_values_in_the_first_row_are_no_header(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,1,1\nb,2,2\n")
    assert count(path, columns=("s", "x", "z")).n == 2
    assert count(write(tmp_path / "m.csv", MIXED), types={"x": "text"}).n_x == 61


def test_other_encodings(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "s,x\na,é\n", "latin-1")
    with pytest.raises(InvalidInputError, match=r"not utf-8 \(byte 0xe9 in line 2, .*: name its encoding"):
        count(path, encoding="utf-8")
    assert count(path, encoding="latin-1").x_labels == ("x=é",)


@pytest.mark.parametrize(
    ("content", "options", "match"),
    [
        ("", {}, "'t.csv' is empty"),
        ("s,x\n", {}, "'t.csv' has no rows"),
        (GOOD, {"delimiter": ";"}, r"its columns are s,x, a single one: is the delimiter right\?"),
        (GOOD.replace("s,x\n", ""), {}, "if it has no header, name them with columns"),
        (GOOD, {"columns": ("s", "x", "y")}, "has 2 columns and 3 names were given"),
        (GOOD, {"columns": ("s", "s")}, "two columns are named 's': every column needs"),
        (GOOD, {"columns": ("s", "S")}, "are named 's' and 'S', the same but for case: every"),
        (GOOD, {"types": {"y": "text"}}, "no column 'y' to read as text"),
        (GOOD, {"types": {"x": "colour"}}, "unknown type 'colour'"),
        ("s,x,x\na,1,2\nb,2,3\n", {}, "has two columns called 'x'"),
        ("S,s,x\n1,a,2\n2,b,3\n", {}, "two columns called 'S' and 's', the same but for case: rename one"),
        (MIXED, {}, "'x' mixes types, 60 numbers and 1 texts such as 'oops': mark them as null"),
        ("s,x\na,1\nb\nc,1,2,3\n", {"header": True, "delimiter": ","}, "does not read as a CSV table"),
    ],
)
def test_trouble_is_told_in_one_line(
    content: str, options: dict[str, object], match: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(InvalidInputError, match=match) as caught:
        count(write(path, content), **options)
    assert "\n" not in str(caught.value)


def test_mixed_types_late_in_a_large_file_are_told_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privfunnel.data.engines.delimited.SMALL_FILE", 0)
    path = write(tmp_path / "t.csv", "s,x\n" + "a,1\n" * 30_000 + "b,oops\n")
    with pytest.raises(InvalidInputError, match=r"column 'x' .*holds 'oops' in line 30002: .*--type x=text"):
        count(path)
    assert count(path, types={"x": "text"}).x_labels == ("x=1", "x=oops")


def test_mixed_types_in_a_column_to_be_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "s,x\na,1\nb,2\nb,oops\n")
    with pytest.raises(
        InvalidInputError, match=r"'x' of 't.csv' is text \(it holds 'oops'\), so it cannot be cut"
    ):
        tables.count(path, private="s", public="x", bins={"x": 2})
    read = ReadOptions(nulls=("oops",))
    assert (
        tables.count(path, private="s", public="x", bins={"x": 2}, read=read).columns["x"].values[-1] is None
    )


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no file"):
        count(str(tmp_path / "none.csv"))
    with pytest.raises(InvalidInputError, match="is a folder"):
        count(str(tmp_path))


@pytest.mark.parametrize(("name", "content"), [("t.parquet", b"PAR1 nonsense"), ("t.arrow", b"ARROW1 nonsense"),
                                               ("t.jsonl", b'{"s": 1}\n{oops\n')])  # fmt: skip
def test_broken_files(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=name) as caught:
        count(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_tables_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 'a' AS s, 1 AS x")
        database.execute("CREATE SCHEMA other; CREATE VIEW other.v AS SELECT 'b' AS s, 2 AS x")
    assert count(f"{path}::t").x_labels == ("x=1",)
    assert count(f"{path}::other.v").x_labels == ("x=2",)
    with pytest.raises(
        InvalidInputError, match=r"'d\.duckdb' has no table 'u'; it holds t, v: write d\.duckdb::TABLE"
    ):
        count(f"{path}::u")
    with pytest.raises(InvalidInputError, match="is a database: name a table"):
        count(str(path))


def test_an_arrow_dataset_streams(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(pa.table({"s": ["a", "b"], "x": [1, 2]}), tmp_path / "t.parquet")
    assert tables.count(dataset.dataset(tmp_path), private="s", public="x").n == 2


def test_counting_leaves_nothing_on_standard_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", GOOD * 1)
    code = f"from privfunnel import tables; tables.count({path!r}, private='s', public='x')"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_batches_keep_the_order_of_the_rows(suffix: str, tmp_path: Path) -> None:
    source = str(tmp_path / f"t.{suffix}")
    duckdb.sql("SELECT i AS x, 'é' || i AS s FROM range(200000) r(i)").write_csv(
        source, header=True
    ) if suffix == "csv" else (
        duckdb.sql("SELECT i AS x, 'é' || i AS s FROM range(200000) r(i)").write_parquet(source)
    )
    with open_table(source) as table:
        batches = list(table.batches(["s", "x"], 30_000))
    with open_table(source) as table:
        assert table.n_rows() == 200_000
    assert max(batch.num_rows for batch in batches) <= 30_000
    assert pa.Table.from_batches(batches)["x"].to_pylist() == list(range(200_000))


def test_marks_of_missing_values_among_numbers_are_proposed_as_missing(tmp_path: Path) -> None:
    marked = "s,x\n" + "".join(f"{'ab'[i % 2]},{i % 3}\n" for i in range(60)) + "b,N/A\na,-\n"
    path = write(tmp_path / "t.csv", marked)
    with pytest.warns(
        ReadingWarning, match=r"'x' is text, since it holds '-', 'N/A' .*\(--null - --null N/A\)"
    ):
        count(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        assert count(path, nulls=("-", "N/A")).columns["x"].values == (0, 1, 2, None)
        assert count(path, types={"x": "text"}).columns["x"].values == ("-", "0", "1", "2", "N/A")
        assert count(write(tmp_path / "u.csv", marked.replace("-", "low"))).n_x == 5  # a text of its own
    with pytest.raises(
        InvalidInputError, match=r"cannot be cut by 'width:2': mark '-', 'N/A' as null \(--null -"
    ):
        tables.count(path, private="s", public="x", bins={"x": "width:2"})


@pytest.mark.parametrize("mark", ["NA", "N/A", "n/a", "NULL", "-", "."])
def test_a_mark_among_many_numbers_is_refused_with_the_option_that_helps(mark: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", MIXED.replace("oops", mark))
    with pytest.raises(InvalidInputError, match=rf"60 numbers and 1 texts .*\(--null {re.escape(mark)}\)"):
        count(path)


def test_a_header_among_the_rows_is_never_advised_to_be_nulled(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "s,x\ns,age\n" + "".join(f"a,{i}\n" for i in range(60)))
    with pytest.raises(
        InvalidInputError, match=r"'age', which stands above the numbers: .*--skip-rows"
    ) as caught:
        count(path)
    assert "--null" not in str(caught.value)


RECORDS = "s,x,city\na,1,Ulm\nb,2,Bonn\na,2,Ulm\n"


@pytest.mark.parametrize(
    ("above", "title"),
    [
        ("Patients of 2020\n", "Patients of 2020"),
        ("Patients of 2020\nmade on 1 May\n\n", "Patients of 2020"),
        ("Patients of 2020,,\n,,\n", "Patients of 2020"),
        ("\n\n,Patients,\n", "Patients"),
        ('"Patients\nof 2020"\r\n\r\n', "Patients\nof 2020"),
        ("Patients of 2020; for the board\r", "Patients of 2020; for the board"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_titles_above_the_header_are_found_out_and_told(
    above: str, title: str, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes((above + RECORDS.replace("\n", ending)).encode())
    rows = above.count("\n") or above.count("\r")
    told = re.escape(f"left out above the header of 't.csv' ({title!r})")
    with pytest.warns(ReadingWarning, match=f"{rows} rows? (is|are) {told}"):
        counts = count(str(path))
    assert counts.table().tolist() == [[1, 1], [0, 1]]
    assert counts.read is not None
    assert counts.read.skip_rows is None  # another file may have other titles: they are found out again
    assert sniff(path).skip_rows == rows
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        assert count(str(path), skip_rows=rows).fingerprint == counts.fingerprint


def test_blank_lines_above_the_header_are_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        for options in ({}, {"header": True}):
            assert count(write(tmp_path / "t.csv", "\n\n" + RECORDS), **options).n == 3
        assert count(write(tmp_path / "t.csv", "T,2\n\n" + RECORDS), skip_rows=1).n == 3
        assert count(write(tmp_path / "t.csv", "T\nb,1\na,2\n"), skip_rows=1, columns=("s", "x")).n == 2


@pytest.mark.parametrize(
    "content",
    [
        ",s\na,Ulm\nb,Bonn\n",  # names of rows, as pandas writes them
        "s\na,Ulm\nb,Bonn\n",  # and R
        "s,x\n1,a,Ulm\n2,b,Bonn\n",
        "s,x,city\na,,\nb,u,Ulm\nc,v,Ulm\n",
    ],
)
def test_no_row_is_taken_for_a_title_that_may_be_a_header(content: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", content)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        with contextlib.suppress(InvalidInputError), open_table(path) as table:
            assert table.n_rows() == content.count("\n") - 1


def test_rows_to_be_left_out_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "T\n" + RECORDS)
    with pytest.raises(InvalidInputError, match="has nothing behind its first 9 lines: leave out fewer"):
        count(path, skip_rows=9)
    with pytest.raises(
        InvalidInputError, match=r"line 1 has 1 field .* leave out lines above .*\(--skip-rows\)"
    ):
        count(path, skip_rows=0)
    for wrong in (-1, 1.5, True):
        with pytest.raises(InvalidInputError, match="above the header cannot be left out"):
            ReadOptions(skip_rows=wrong)  # type: ignore[arg-type]
    assert ReadOptions.from_dict(ReadOptions(skip_rows=0).to_dict()) == ReadOptions(skip_rows=0)


def test_lines_are_numbered_as_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privfunnel.data.engines.delimited.SMALL_FILE", 0)
    path = write(tmp_path / "t.csv", "T\n\ns,x\n" + "a,1\n" * 30_000 + "b,oops\n")
    with pytest.warns(ReadingWarning), pytest.raises(InvalidInputError, match="'oops' in line 30004"):
        count(path)


@pytest.mark.parametrize("bins", [{}, {"age": "width:5"}])
def test_a_header_among_the_rows_is_no_missing_value(tmp_path: Path, bins: dict[str, str]) -> None:
    """Two exports that were joined: to mark the name of the column as null would be to invent a person."""
    lines = [f"{'yes' if i % 2 else 'no'},{20 + i % 50}" for i in range(200)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["sick,age", *lines[:100], "sick,age", *lines[100:], ""]))
    with pytest.raises(InvalidInputError) as told:
        tables.count(str(path), private="sick", public="age", bins=bins)
    assert "null" not in str(told.value)
    if not bins:
        assert "its own name: the header stands among the rows" in str(told.value)
