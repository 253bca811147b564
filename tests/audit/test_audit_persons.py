"""Audits of people with several rows: resampled, permuted and held out a person at a time."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import audit, release
from privfunnel.audit import attacker
from privfunnel.audit.estimates import permuted, proportion
from privfunnel.audit.persons import PersonRows, person_codes, rows_of, share_by_person
from privfunnel.data import tables
from privfunnel.data.engines import open_table
from privfunnel.errors import GuaranteeWarning, IdentifierWarning, InvalidInputError, SmallSampleWarning
from privfunnel.measures import mutual_information
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")
pytest.importorskip("sklearn")

PERSONS, VISITS = 250, 6
QUICK: dict[str, Any] = {"bootstrap": 60, "permutations": 19, "attacker_rows": 0}


def panel(persons: int = PERSONS, seed: int = 0) -> Any:
    """People with six rows each; what is private depends on what is public, which is the same on all rows."""
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(persons), VISITS))
    a = rng.integers(0, 3, persons)
    ill = rng.random(persons) < 0.25 + 0.25 * a
    return pa.table({"id": who, "a": a[who], "s": np.where(ill[who], "ill", "well")})


def visits(persons: int, seed: int) -> Any:
    """People whose rows differ, and each of whose rows says something about them."""
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(persons), VISITS))
    ill = (rng.random(persons) < 0.5)[who]
    a = np.where(rng.random(len(who)) < 0.6, np.where(ill, 2, 0), rng.integers(0, 3, len(who)))
    return pa.table({"id": who, "a": a, "s": np.where(ill, "ill", "well")})


def counted(table: Any, **options: Any) -> tables.Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", IdentifierWarning)
        return tables.count(table, private="s", public="a", **options)


def audited(table: Any, mechanism: Mechanism, drawn: str | None = None, **options: Any) -> audit.Audit:
    """A release with a fixed seed, and its audit."""
    orders: list[Any] = []
    with pytest.warns(GuaranteeWarning, match="seed"):
        released = release.frame(
            table, mechanism, form="symbols", seed=5, on_order=orders.append, person=drawn
        )
    return audit.release(table, released, mechanism=mechanism, order=orders[0], **{**QUICK, **options})


@pytest.fixture(scope="module")
def constant() -> tuple[Any, Mechanism]:
    table = panel()
    return table, random_mechanism(counted(table, person="id"), n_y=4)


def test_one_draw_a_person_is_an_honest_release(constant: tuple[Any, Mechanism]) -> None:
    table, mechanism = constant
    found = audited(table, mechanism)
    assert found.persons is not None
    assert (found.persons.persons, found.persons.drawn_once, found.persons.varying) == (PERSONS, True, 0)
    assert found.draws is not None
    assert found.draws.agrees
    assert found.passed
    assert "1,500 rows are about 250 persons (id): each person was drawn once" in "\n".join(found.words())
    assert any("one piece of evidence" in words for words in found.limits)
    # Row by row such rows look as if somebody had chosen them.
    alone = audited(table, mechanism, person="")
    assert alone.persons is None
    assert alone.draws is not None
    assert not alone.draws.agrees


def test_intervals_are_those_of_persons_and_not_of_rows(constant: tuple[Any, Mechanism]) -> None:
    table, mechanism = constant
    by_person = audited(table, mechanism)
    by_row = audited(table, mechanism, person="")
    wide = by_person.leakage.high - by_person.leakage.low
    narrow = by_row.leakage.high - by_row.leakage.low
    # Six identical rows are worth one, so that intervals are about √6 = 2.4 times as wide.
    assert wide > 1.5 * narrow
    assert by_person.leakage.null_mean is not None
    assert by_row.leakage.null_mean is not None
    assert by_person.leakage.null_mean > 3.0 * by_row.leakage.null_mean


def test_an_attacker_who_adds_rows_up_is_found_where_they_were_drawn_one_by_one() -> None:
    table = visits(400, seed=3)
    mechanism = random_mechanism(counted(table, person="id"), n_y=4)
    found = audited(table, mechanism, drawn="")
    assert found.persons is not None
    assert found.persons.drawn_once is False
    (vote,) = found.persons.votes
    assert vote.together.low > vote.alone.high
    assert vote.auc_together > vote.auc_alone + 0.05
    words = "\n".join(found.words())
    assert "were drawn one by one, so that they can be added up" in words
    assert "bits of leakage are for one row, not for all rows of a person" in words


def test_nothing_is_gained_from_rows_that_are_one_draw(constant: tuple[Any, Mechanism]) -> None:
    found = audited(*constant)
    assert found.persons is not None
    for vote in found.persons.votes:
        assert vote.together.value == pytest.approx(vote.alone.value, abs=1e-12)


def test_attackers_are_tested_on_persons_they_have_not_seen() -> None:
    # A column that names the person tells everything about rows of persons already seen, and nothing about others.
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 12)
    truth = (rng.random(60) < 0.5)[person].astype(np.int64)
    features = person[:, None]
    seen = attacker.score_rows(features, truth, [], np.random.default_rng(1))
    unseen = attacker.score_rows(features, truth, [], np.random.default_rng(1), persons=person)
    assert seen.accuracy.value > 0.85
    assert unseen.accuracy.low < 0.55
    assert unseen.accuracy.high - unseen.accuracy.low > 2.0 * (seen.accuracy.high - seen.accuracy.low)


def test_a_share_of_persons_has_the_interval_of_as_many_persons() -> None:
    right = np.repeat(np.random.default_rng(0).random(100) < 0.3, 10)
    found = share_by_person(right, np.repeat(np.arange(100), 10))
    expected = proportion(float(right[::10].sum()), 100.0)
    assert found.value == pytest.approx(expected.value)
    assert found.high - found.low == pytest.approx(expected.high - expected.low, rel=0.02)
    single, plain = share_by_person(right, np.arange(1000)), proportion(float(right.sum()), 1000.0)
    assert single.high - single.low == pytest.approx(plain.high - plain.low, rel=0.01)


def test_permutations_keep_the_rows_of_a_person_together() -> None:
    person = np.array([0, 0, 1, 1, 2, 2, 3])
    rows = PersonRows(
        "id", person, np.array([0, 0, 1, 1, 1, 1, 0]), np.zeros(7, dtype=np.int64), person * 2 % 5
    )
    for table in rows.permuted((2, 5), 20, np.random.default_rng(0)):
        assert table.sum() == 7
        assert set(np.unique(table)) <= {0.0, 1.0, 2.0, 4.0}
        assert table[0, person[-1] * 2 % 5] >= 1.0  # nobody else has one row
    assert len({tuple(t.ravel()) for t in rows.permuted((2, 5), 20, np.random.default_rng(0))}) > 1


def test_the_null_is_right_for_persons(constant: tuple[Any, Mechanism]) -> None:
    """Where S says nothing about X, p-values by person are uniform, and those by row far too small."""
    rng = np.random.default_rng(1)
    table, mechanism = constant
    by_person, by_row = [], []
    for _ in range(25):
        ill = rng.random(PERSONS) < 0.5
        other = table.set_column(2, "s", pa.array(np.where(ill[table["id"].to_numpy()], "ill", "well")))
        counts = counted(other, person="id")
        rows = rows_of(other, counts)
        y = mechanism.channel.argmax(axis=1)[rows.x]
        rows = PersonRows("id", rows.person, rows.s, rows.x, y)
        shape = (counts.n_s, mechanism.n_y)
        seen = rows.table(rows.s, rows.y, shape)
        value = float(mutual_information(seen / rows.n))
        null = [float(mutual_information(each / rows.n)) for each in rows.permuted(shape, 39, rng)]
        by_person.append(float(np.mean([v >= value for v in null])))
        by_row.append(float(np.mean(permuted(seen, 39, rng) >= value)))
    assert (
        sum(p <= 0.1 for p in by_person) <= 8
    )  # of 25, 2.5 are expected; 9 or more come once in a thousand times
    assert sum(p <= 0.1 for p in by_row) >= 12


def test_persons_are_held_out_and_not_rows(constant: tuple[Any, Mechanism]) -> None:
    table, _ = constant
    counts = counted(table, person="id")
    with pytest.raises(InvalidInputError, match="must not be on both sides"):
        audit.holdout(counts, disclosure=0.3, share=0.4)
    found = audit.guaranteed(counts, disclosure=0.3, share=0.4, people=audit.rows_of(table, counts))
    assert found.holdout.design_persons == 150
    assert found.holdout.design_rows == 150 * VISITS
    assert found.holdout.held_out_rows == 100
    assert found.mechanism.persons == 150
    assert "900 rows of 150 persons" in found.holdout.words()[0]
    assert "100 rows, one of each other person" in found.holdout.words()[0]
    assert "In the population that these 100 persons come from" in found.holdout.words()[1]
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="leaves no persons on one side"):
            audit.holdout(counts, disclosure=0.3, share=share, people=audit.rows_of(table, counts))


def test_another_table_is_bounded_by_one_row_of_each_person(constant: tuple[Any, Mechanism]) -> None:
    _, mechanism = constant
    other = panel(120, seed=9)
    found = audit.table(other, mechanism, bootstrap=20)
    assert found.population is not None
    assert found.population.rows == 120
    assert found.rows == 120 * VISITS
    assert "720 rows are about 120 persons (id)" in "\n".join(found.words())
    assert "that these 120 persons come from" in "\n".join(found.words())
    released = audited(other, mechanism)
    assert released.population is not None
    assert released.population.rows == 120
    assert released.population.persons


def test_kept_columns_are_tested_on_one_row_of_each_person(constant: tuple[Any, Mechanism]) -> None:
    table, mechanism = constant
    # A coin a person, repeated on six rows: row by row it looks as if it told something.
    coin = np.random.default_rng(4).random(PERSONS) < 0.5
    table = table.append_column("coin", pa.array(np.where(coin[table["id"].to_numpy()], "h", "t")))
    orders: list[Any] = []
    with pytest.warns(GuaranteeWarning):
        released = release.frame(
            table, mechanism, form="symbols", seed=5, keep=["coin"], on_order=orders.append
        )
    found = audit.release(table, released, mechanism=mechanism, order=orders[0], **QUICK)
    assert found.further is not None
    assert found.further.p_value > 0.005
    assert not found.further.leaks


def test_persons_are_told_apart_by_any_kind_of_column() -> None:
    named = {
        "text": pa.array(["a", "b", None, "a"]),
        "number": pa.array([1.0, 2.0, float("nan"), 1.0]),
        "coded": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    }
    with open_table(pa.table(named)) as table:
        for name in named:
            codes = person_codes(table, name)
            assert codes[0] == codes[3]
            assert sorted(set(codes.tolist())) == [0, 1, 2]
    with (
        open_table(pa.table({"who": ["a", "a"]})) as table,
        pytest.raises(InvalidInputError, match="the same in all rows"),
    ):
        person_codes(table, "who")


def test_the_command_line_takes_a_person(tmp_path: Path) -> None:
    table = panel(120)
    pa_csv.write_csv(table, tmp_path / "panel.csv")
    asked = (tmp_path / "panel.csv", "--private", "s", "--public", "a", "--person", "id")
    done = run("solve", *asked, "--disclosure", "60%", "--out", tmp_path / "d")
    assert done.exit_code == 0, done.output
    mechanism = tmp_path / "d" / "mechanism.json"
    done = run("release", tmp_path / "panel.csv", "--mechanism", mechanism, "-o", tmp_path / "r.csv")
    assert done.exit_code == 0, done.output
    assert "Persons: 120 (id), each drawn once." in done.stdout
    book = json.loads((tmp_path / "r.codebook.json").read_text())
    assert book["provenance"]["persons"] == 120
    quick = ("--bootstrap", 20, "--permutations", 9, "--attacker-rows", 300)
    checked = ("audit", tmp_path / "panel.csv", tmp_path / "r.csv", "--mechanism", mechanism, *quick)
    done = run(*checked, "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert "720 rows are about 120 persons (id): each person was drawn once" in done.stdout
    report = (tmp_path / "report.html").read_text()
    assert "about 720 rows of about 120 persons" in report
    assert (
        "Each person was drawn once for each combination of public values; none of them has several."
        in report
    )
    assert json.loads(run(*checked, "--person", "", "--json").stdout)["persons"] is None
    assert_one_line_error(run(*checked, "--person", "who"), "no column 'who'")
    assert_one_line_error(run(*checked, "--person", "a"), "'a' cannot say who a row is about")
    done = run("audit", *asked, "--holdout", 0.5, "--disclosure", "60%", "--json")
    assert json.loads(done.stdout)["design_persons"] == 60, done.output
    done = run("solve", *asked, "--holdout", 0.5, "--disclosure", "60%", "--json")
    assert json.loads(done.stdout)["holdout"]["design_persons"] == 60, done.output


def test_designs_made_again_on_halves_of_the_persons_are_said_to_be_of_persons(tmp_path: Path) -> None:
    pa_csv.write_csv(panel(120), tmp_path / "panel.csv")
    asked = (tmp_path / "panel.csv", "--private", "s", "--public", "a", "--person", "id", "--view", "sample")
    done = run("solve", *asked, "--disclosure", "60%", "--out", tmp_path / "d")
    assert done.exit_code == 0, done.output
    assert "designed again on one half of the 120 persons" in done.stdout
    done = run("curve", *asked, "--points", 3)
    assert "one half of the 120 persons" in done.stdout
    mechanism = tmp_path / "d" / "mechanism.json"
    done = run("audit", tmp_path / "panel.csv", "--mechanism", mechanism, "--view", "sample")
    assert "designed again on one half of the 120 persons" in done.stdout
