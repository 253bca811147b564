"""Columns that tell people apart, and people with several rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import privfunnel as pf
from privfunnel.data import tables
from privfunnel.data.engines import ReadOptions
from privfunnel.data.engines.advice import looks_like_identifier
from privfunnel.errors import IdentifierWarning, InvalidInputError, SmallSampleWarning, UnbinnedError
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

N = 600
PANEL = pa.table(
    {
        "id": [i // 3 for i in range(N)],
        "serial": [f"K{i}" for i in range(N)],
        "number": list(range(N)),
        "income": [(i * 7919) % 100_003 for i in range(N)],
        "s": ["a", "b"] * (N // 2),
        "x": [i % 5 for i in range(N)],
    }
)


def told(**options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("always", IdentifierWarning)
        tables.count(PANEL, **{"private": "s", "public": "x", **options})  # type: ignore[arg-type]
    return [str(each.message) for each in caught]


def test_people_with_several_rows_are_asked_about() -> None:
    (words,) = told()
    assert "'id' has 200 values in 600 rows" in words
    assert "--person id" in words
    assert told(person="id") == []


@pytest.mark.parametrize(("name", "rule"), [("serial", "top:5"), ("number", "quantiles:4")])
def test_columns_that_differ_in_every_row_are_named(name: str, rule: str) -> None:
    found = told(public=["x", name], bins={name: rule})
    assert any(f"{name!r} differs in nearly every row (600 values in 600 rows)" in words for words in found)


def test_an_amount_is_no_identifier() -> None:
    assert not any("income" in words for words in told(public=["x", "income"], bins={"income": 4}))


def test_names_of_identifiers() -> None:
    for name in ("id", "ID", "patient_id", "caseID", "id number", "uuid", "Person-Id"):
        assert looks_like_identifier(name)
    for name in ("covid", "paid", "Madrid", "idle", "width", "x"):
        assert not looks_like_identifier(name)


def test_persons_are_counted_and_kept_in_the_mechanism(tmp_path: Path) -> None:
    with pytest.warns(SmallSampleWarning, match=r"200 persons \(600 rows\)"):
        counts = tables.count(PANEL, private="s", public="x", person="id")
    assert (counts.person, counts.persons, counts.n) == ("id", 200, 600)
    mechanism = Mechanism.from_solution(counts, pf.solve(counts.problem(), disclosure=0.5))
    mechanism.save(tmp_path / "m.json")
    assert Mechanism.load(tmp_path / "m.json").provenance["persons"] == 200
    with pytest.raises(InvalidInputError, match="'id' says who a row is about"):
        tables.count(PANEL, private="s", public=["x", "id"], person="id")
    with pytest.raises(InvalidInputError, match="no column 'who'"):
        tables.count(PANEL, private="s", public="x", person="who")


def test_a_row_without_a_person_is_one_of_its_own() -> None:
    table = pa.table({"s": ["a", "b"] * 3, "x": [1, 2, 3] * 2, "who": [1, 1, 2, None, None, 2]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        assert tables.count(table, private="s", public="x", person="who").persons == 4


def test_all_columns_that_need_bins_are_told_at_once() -> None:
    with pytest.raises(UnbinnedError) as caught:
        tables.count(PANEL, private="s", public=["income", "x", "number", "serial"])
    words = str(caught.value)
    assert words.startswith(
        "2 columns need bins (more than 32): 'income' is a number with 600 different values; 'number'"
    )
    assert "--bin income=quantiles:5 --bin number=quantiles:5 --bin serial=top:10" in words
    assert "\n" not in words
    assert told(public=["income", "x", "number", "serial"], bins=caught.value.bins)


def test_decimal_commas_are_told_before_bins_are_offered(tmp_path: Path) -> None:
    rows = [f"{i % 2};{i % 70};{i * 7 % 300},{i % 90 + 10}" for i in range(600)]
    (tmp_path / "t.csv").write_text("\n".join(["s;age;income", *rows]) + "\n")
    with pytest.raises(InvalidInputError, match=r"'income' holds numbers with a decimal comma.*--decimal ,"):
        tables.count(tmp_path / "t.csv", private="s", public=["age", "income"])
    as_text = ReadOptions(types={"income": "text"})
    with pytest.raises(UnbinnedError, match="--bin age=quantiles:5 --bin income=top:10"):
        tables.count(tmp_path / "t.csv", private="s", public=["age", "income"], read=as_text)
