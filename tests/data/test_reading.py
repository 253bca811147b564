"""Files as people have them: encodings, delimiters, decimal signs, dates; and files that are no tables."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions, open_table, sniff
from privfunnel.errors import InvalidInputError

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")

GERMAN = "Größe;Tag;Ort;s\n" + "".join(
    f"1{i % 9},5;{i % 28 + 1}.0{i % 9 + 1}.2020;{'Köln' if i % 2 else 'Bonn'};{i % 2}\n" for i in range(40)
)


def put(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def values(path: Path, name: str, **options: object) -> list[object]:
    with open_table(path, ReadOptions(**options)) as table:  # type: ignore[arg-type]
        return [value for batch in table.batches([name], 1000) for value in batch.column(0).to_pylist()]


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(InvalidInputError) as caught, open_table(path, ReadOptions(**options)) as table:  # type: ignore[arg-type]
        table.group(dict.fromkeys(table.columns), 10_000)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_encodings_are_found_out(encoding: str, tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", GERMAN, encoding)
    assert values(path, "Ort") == ["Bonn", "Köln"] * 20
    with open_table(path) as table:
        assert table.columns[0] == "Größe"


def test_an_encoding_that_does_not_fit_is_told_with_byte_and_line(tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", b"s,x\na,1\nb,\x812\n")
    assert "byte 0x81 in line 3" in refusal(path)
    assert "is not shift_jis (byte 0x81 in line 3" in refusal(path, encoding="shift_jis")
    assert values(path, "x", encoding="latin-1") == ["1", "\x812"]
    with pytest.raises(InvalidInputError, match="the encoding 'klingon' is unknown"):
        ReadOptions(encoding="klingon")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_delimiters_are_found_out(mark: str, tmp_path: Path) -> None:
    text = f'a{mark}b{mark}c\n1{mark}"x{mark};,y"{mark}2\n3{mark}z{mark}4\n'
    path = put(tmp_path / "t.csv", text)
    assert sniff(path).delimiter == mark
    assert values(path, "b") == [f"x{mark};,y", "z"]


def test_what_was_found_out_is_told_and_may_be_kept_as_json(tmp_path: Path) -> None:
    found = sniff(put(tmp_path / "t.csv", GERMAN, "cp1252"))
    assert found.to_dict() == {"encoding": "cp1252", "delimiter": ";", "decimal": ",", "dates": "dmy"}
    assert ReadOptions.from_dict(found.to_dict()) == found
    assert ReadOptions(quote="'").over(found).to_dict() == {**found.to_dict(), "quote": "'"}
    for odd in ({"colour": 1}, {"columns": "ab"}, {"decimal": None}, {"types": {"a": 1}}, []):
        with pytest.raises(InvalidInputError):
            ReadOptions.from_dict(odd)


def test_decimal_commas_are_numbers_when_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", GERMAN)
    assert values(path, "Größe", decimal=",")[:2] == [10.5, 11.5]
    assert values(path, "Größe")[:2] == ["10,5", "11,5"]
    with pytest.raises(
        InvalidInputError, match=r"'Größe' of 't.csv' is text .*decimal commas \(--decimal ,\)"
    ):
        tables.count(path, private="s", public="Größe", bins={"Größe": 3})
    many = put(tmp_path / "u.csv", "s;x\n" + "".join(f"{i % 2};{i},5\n" for i in range(60)))
    with pytest.raises(InvalidInputError, match=r"column 'x' .*decimal comma, such as '0,5': .*--decimal ,"):
        tables.count(many, private="s", public="x")
    with pytest.raises(InvalidInputError, match="delimiter and decimal sign are both ','"):
        ReadOptions(delimiter=",", decimal=",")


def test_marks_beside_decimal_commas_are_to_be_null(tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", "s;x\n" + "".join(f"{i % 2};{i},5\n" for i in range(9)) + "1;NA\n")
    with pytest.raises(InvalidInputError, match=r"decimal commas \(--decimal , --null NA\)"):
        tables.count(path, private="s", public="x", bins={"x": "quantiles:3"})
    german = ReadOptions(decimal=",")
    with pytest.raises(InvalidInputError, match=r"it holds 'NA'.*mark 'NA' as null \(--null NA\)"):
        tables.count(path, private="s", public="x", bins={"x": "quantiles:3"}, read=german)


def test_separated_thousands_are_refused(tmp_path: Path) -> None:
    path = put(
        tmp_path / "t.csv",
        "s;x\n" + "".join(f"{i % 2};{i}.{i:03d}\n" for i in range(1, 60)) + "1;1.234.567\n",
    )
    with pytest.raises(
        InvalidInputError, match=r"'x' .*separated thousands, such as '1\.001': remove .* '\.' in"
    ):
        tables.count(path, private="s", public="x")
    with pytest.raises(InvalidInputError, match="it has separated thousands, remove the separators"):
        tables.count(path, private="s", public="x", bins={"x": "quantiles:3"})
    both = put(tmp_path / "u.csv", "s;x\n" + "".join(f"{i % 2};{i}.435,{i:02d}\n" for i in range(1, 60)))
    with pytest.raises(InvalidInputError, match=r"remove the separators '\.' in the file, and .*--decimal ,"):
        tables.count(both, private="s", public="x")
    points = put(tmp_path / "v.csv", "s;x\n" + "".join(f"{i % 2};{i},435.{i:02d}\n" for i in range(1, 60)))
    with pytest.raises(InvalidInputError, match=r"remove the separators ',' in the file; or read"):
        tables.count(points, private="s", public="x")


@pytest.mark.parametrize(
    ("written", "options", "expected"),
    [
        ("31.12.2020", {}, "2020-12-31"),
        ("1.2.2020", {}, "2020-02-01"),
        ("31/12/2020", {}, "2020-12-31"),
        ("12/31/2020", {}, "2020-12-31"),
        ("01/02/2020", {"dates": "dmy"}, "2020-02-01"),
        ("01/02/2020", {"dates": "mdy"}, "2020-01-02"),
        ("31.12.2020 23:59", {}, "2020-12-31T23:59:00"),
        ("2020/12/31", {}, "2020-12-31"),
        ("1-2-2020", {"types": {"d": "date"}, "dates": "dmy"}, "2020-02-01"),
    ],
)
def test_dates_as_people_write_them(
    written: str, options: dict[str, object], expected: str, tmp_path: Path
) -> None:
    path = put(tmp_path / "t.csv", f"s,d\na,{written}\nb,{written}\nb,\n")
    first, _, last = values(path, "d", **options)
    assert first.isoformat() == expected  # type: ignore[attr-defined]
    assert last is None


@pytest.mark.parametrize("written", ["01/02/2020", "31.02.2020", "13/13/2020", "1.2.20"])
def test_dates_that_may_be_read_in_two_ways_or_none_stay_texts(written: str, tmp_path: Path) -> None:
    assert values(put(tmp_path / "t.csv", f"s,d\na,{written}\nb,{written}\n"), "d") == [written] * 2


def test_the_order_of_dates_is_told_by_all_rows(tmp_path: Path) -> None:
    rows = "".join(f"a,{i % 12 + 1:02d}/02/2020\n" for i in range(40_000))
    path = put(tmp_path / "t.csv", "s,d\n" + rows + "b,31/12/2020\n")
    with open_table(path) as table:
        assert table.kinds["d"] == "date"
        assert table.read is not None
        assert table.read.dates == "dmy"
    assert "holds '31/12/2020' in column 'd', which is no date in the order mdy" in refusal(path, dates="mdy")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "a,b\n1,2\n3\n4,5\n", "line 3 has 1 field where others have 2"),
        ("t.csv", "My table\n1,2\n3,4\n", "line 1 has 1 field where others have 2"),
        (
            "t.txt",
            "Dear Sir,\n\nthank you for the letter, which I read.\nYours,\nMe\n",
            "does not read as a table",
        ),
        ("t.txt", "Dear Sir\n\nthank you for the letter which I read\nYours\n", "reads as prose"),
        ("t.csv", "A sentence of more than five words\nand another one that is long\n", "reads as prose"),
        ("t.csv", b"a,b\n1,2\n\x00\x01\x02\x03\n", "is a binary file"),
        ("t.csv", b"a,b\n1,\x1b[31m\n", "is a binary file"),
        ("t.csv", b"%PDF-1.7 what", "is a PDF"),
        ("t.csv", b"PK\x03\x04 what", "is an archive"),
        ("t.csv", b"  \n \n", "is empty"),
        ("t.csv.gz", b"no gzip at all", "cannot be read"),
        ("t.csv", 'a,b\n1,"x\n2,y\n', "does not read"),
    ],
)
def test_files_that_are_no_tables_are_refused(
    name: str, content: str | bytes, words: str, tmp_path: Path
) -> None:
    assert words in refusal(put(tmp_path / name, content))


def test_a_single_column_without_any_delimiter_is_a_table(tmp_path: Path) -> None:
    assert values(put(tmp_path / "t.csv", "released\ny1\ny2\n\ny1\n"), "released") == ["y1", "y2", None, "y1"]


@pytest.mark.parametrize("mark", ["'", '"', "`"])
@pytest.mark.parametrize("place", ["{m}{i}", "x{m}{i}", "{i}{m}"])
def test_a_lone_quote_makes_no_row_vanish(mark: str, place: str, tmp_path: Path) -> None:
    rows = [f"{i % 2},{place.format(m=mark, i=i) if i in {3, 12} else i}" for i in range(20)]
    path = put(tmp_path / "t.csv", "s,x\n" + "\n".join(rows) + "\n")
    if mark == '"' and place.startswith("{m}"):  # it opens a field that never ends
        assert "quote" in refusal(path) or "does not read" in refusal(path)
        return
    assert len(values(path, "x", types={"x": "text"})) == 20


def test_rows_are_counted_in_a_second_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 's,x\n"a\nb",1\n\n"say ""no""",2\r\nd,5" pipe\n'.replace("\r\n", "\n")
    path = put(tmp_path / "t.csv", text)
    assert values(path, "s") == ["a\nb", 'say "no"', "d"]
    for name in ("count_records", "count_with_reader"):
        monkeypatch.setattr(f"privfunnel.data.engines.dialect.{name}", lambda *_args, **_options: 5)
    with pytest.raises(InvalidInputError, match=r"has 4 records and 3 were read: look for a quote"):
        values(path, "s")


def test_quotes_and_escapes_are_what_was_said(tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", "s,x\na,'b,c'\nd,'e\\'f'\n")
    assert values(path, "x", quote="'", escape="\\") == ["b,c", "e'f"]
    path = put(tmp_path / "u.csv", 's,x\na,"b\nd,e\n')
    assert values(path, "x", quote="") == ['"b', "e"]
    for odd in (
        {"quote": "''"},
        {"delimiter": "ab"},
        {"decimal": ";"},
        {"dates": "ydm"},
        {"quote": ",", "delimiter": ","},
    ):
        with pytest.raises(InvalidInputError):
            ReadOptions(**odd)  # type: ignore[arg-type]


def test_folders_named_like_partitions_add_no_columns(tmp_path: Path) -> None:
    folder = tmp_path / "year=2020"
    folder.mkdir()
    put(folder / "p.csv", "s,x\na,1\n")
    put(folder / "p.jsonl", '{"s": "a", "x": 1}\n')
    duckdb.sql("SELECT 'a' AS s, 1 AS x").write_parquet(str(folder / "p.parquet"))
    for suffix in ("csv", "jsonl", "parquet"):
        with open_table(folder / f"p.{suffix}") as table:
            assert table.columns == ("s", "x")


def test_a_view_inside_a_database_cannot_read_other_files(tmp_path: Path) -> None:
    put(tmp_path / "secret.csv", "s,x\na,1\n")
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{tmp_path}/secret.csv')")
        database.execute("CREATE TABLE t AS SELECT 'a' AS s, 1 AS x")
    assert tables.count(f"{tmp_path}/d.duckdb::t", private="s", public="x").n == 1
    with pytest.raises(InvalidInputError, match="cannot be read"):
        tables.count(f"{tmp_path}/d.duckdb::v", private="s", public="x")


def test_a_table_whose_name_has_a_dot(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript('CREATE TABLE "a.b" (s, x); INSERT INTO "a.b" VALUES (1, 2);')
    connection.close()
    assert tables.count(f"{path}::a.b", private="s", public="x").n == 1


def test_odd_paths_are_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "~.csv", "s,x\na,1\n")
    assert tables.count("~.csv", private="s", public="x").n == 1
    os.mkfifo(tmp_path / "pipe.csv")
    for odd, words in (("x" * 400 + ".csv", "cannot be read"), ("pipe.csv", "is a pipe"), ("", "there is no file"),
                       ("a\0b", "(cannot be read|no file)")):  # fmt: skip
        with pytest.raises(InvalidInputError, match=words) as caught:
            tables.count(odd, private="s", public="x")
        assert len(str(caught.value)) < 200
