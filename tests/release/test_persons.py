"""People with several rows: one draw for each of them."""

from __future__ import annotations

import csv
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import release
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, IdentifierWarning, InvalidInputError, SmallSampleWarning
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.persons import PersonDraws, PersonTally
from privfunnel.release.randomness import secure

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

VISITS = 4
ROLES: dict[str, Any] = {"private": "s", "public": ["a", "b"]}


def panel(persons: int = 300, varying: int = 0, seed: int = 0) -> Any:
    """People with four rows each, of whom the first ``varying`` have other public values on every second row."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, persons), rng.choice(["n", "s"], persons)
    s = np.where(rng.random(persons) < 0.2 + 0.2 * a, "ill", "well")
    who = np.repeat(np.arange(persons), VISITS)
    changed = (who < varying) & (np.arange(len(who)) % 2 == 1)
    order = rng.permutation(len(who))
    rows = {"id": [f"p{i}" for i in who], "a": (a[who] + changed) % 4, "b": b[who], "s": s[who]}
    return pa.table(rows).take(order)


def designed(table: Any, **options: Any) -> Mechanism:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", IdentifierWarning)
        return random_mechanism(tables.count(table, **ROLES, **options))


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    return designed(panel(), person="id")


def by_person(table: Any, released: Any, order: Any) -> dict[tuple[Any, ...], set[tuple[Any, ...]]]:
    """Released rows of each person with the same public values."""
    found = defaultdict(set)
    rows = table.to_pylist()
    for line, place in zip(released.to_pylist(), order.rows.tolist(), strict=True):
        row = rows[place]
        found[row["id"], row["a"], row["b"]].add(tuple(line.values()))
    return found


@pytest.mark.parametrize("form", ["records", "symbols"])
@pytest.mark.parametrize("batch_rows", [90, 10_000])
def test_rows_of_one_person_are_drawn_once(mechanism: Mechanism, form: str, batch_rows: int) -> None:
    orders: list[Any] = []
    table = panel()
    released = release.frame(table, mechanism, form=form, on_order=orders.append, batch_rows=batch_rows)
    found = by_person(table, released, orders[0])
    assert len(found) == 300
    assert all(len(lines) == 1 for lines in found.values())
    # Row by row, four draws of a person are rarely all the same.
    released = release.frame(table, mechanism, form=form, on_order=orders.append, person="")
    assert sum(len(lines) > 1 for lines in by_person(table, released, orders[1]).values()) > 100


def test_persons_are_drawn_as_the_channel_says(mechanism: Mechanism) -> None:
    table = pa.table({"a": [1] * 40_000, "b": ["n"] * 40_000, "who": range(40_000)})
    with pytest.warns(GuaranteeWarning, match="seed=3"):
        released = release.frame(table, mechanism, form="symbols", person="who", seed=3)
    found = {value["values"]: value["counts"] for value in released["released"].value_counts().to_pylist()}
    p = mechanism.channel[mechanism.x_labels.index("a=1, b=n")]
    shares = np.array([found.get(name, 0) for name in mechanism.y_labels]) / 40_000
    assert np.abs(shares - p).max() < 4.5 * 0.5 / np.sqrt(40_000)
    assert all(
        found.get(name, 0) == 0 for name, chance in zip(mechanism.y_labels, p, strict=True) if chance == 0.0
    )


def test_different_public_values_of_a_person_are_drawn_apart_and_told(mechanism: Mechanism) -> None:
    table, orders = panel(varying=20), []
    with pytest.warns(GuaranteeWarning, match="20 of them have rows with different public values"):
        released = release.frame(table, mechanism, on_order=orders.append, form="symbols", seed=None)
    assert len(by_person(table, released, orders[0])) == 320


def test_a_seed_gives_the_same_draws_and_other_seeds_others(mechanism: Mechanism) -> None:
    with pytest.warns(GuaranteeWarning, match="seed"):
        first, again, other = (release.frame(panel(), mechanism, seed=seed) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    assert not release.frame(panel(), mechanism).equals(release.frame(panel(), mechanism))


def test_rows_without_a_name_are_persons_of_their_own() -> None:
    draws, tally = PersonDraws("who", None), PersonTally()
    who = pa.array([None, "a", None, "a", float("nan") and "b", None])
    uniforms = draws.rows(who, np.zeros(6, dtype=np.int64), secure, tally)
    first = uniforms(6)
    assert first[1] == first[3]
    assert len(set(first.tolist())) == 5
    assert len({*(float(uniforms(6)[1]) for _ in range(20)), float(first[1])}) == 21  # also beyond one hash
    assert tally.summary("who").persons == 5


def test_one_person_with_several_draws_is_said() -> None:
    tally = PersonTally()
    tally.add(np.array([1, 2], dtype=np.uint64), np.zeros(2, dtype=np.int64), 0)
    assert tally.summary("who").words == "2 persons (who), each drawn once."
    tally.add(np.array([1], dtype=np.uint64), np.ones(1, dtype=np.int64), 0)
    assert tally.summary("who").words.startswith("2 persons (who); 1 of them have rows with different public")


def test_numbers_and_texts_name_the_same_person_in_every_batch() -> None:
    draws, x = PersonDraws("who", 1), np.zeros(2, dtype=np.int64)
    kinds = (
        pa.array([7, 8]),
        pa.array([7.0, 8.0]),
        pa.array(["7", "8"]),
        pa.array(["7", "8"]).dictionary_encode(),
    )
    found = [draws.rows(who, x, secure, PersonTally())(2).tolist() for who in kinds]
    assert all(each == found[0] for each in found)


def test_many_persons_are_counted_from_an_even_sample() -> None:
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**64, 60_000, dtype=np.uint64)
    tally = PersonTally(remembered=2_000)
    for part in np.array_split(np.arange(60_000), 40):
        varying = part[part < 15_000]
        tally.add(hashes[part], np.zeros(len(part), dtype=np.int64), 0)
        tally.add(hashes[varying], np.ones(len(varying), dtype=np.int64), 1)
    found = tally.summary("id")
    assert not found.exact
    assert len(tally.persons) <= 2_000
    # At least a thousand persons are remembered: five standard deviations of their number are 16 %.
    assert found.persons == pytest.approx(60_040, rel=0.16)
    assert found.varying == pytest.approx(15_000, rel=0.32)
    assert "about" in found.words


def test_a_table_without_the_persons_of_the_design_is_released_row_by_row_with_a_warning(
    mechanism: Mechanism,
) -> None:
    table = panel().drop_columns("id")
    with pytest.warns(GuaranteeWarning, match="tells persons by 'id'"):
        release.frame(table, mechanism)
    with pytest.raises(InvalidInputError, match="no column 'who'"):
        release.frame(table, mechanism, person="who")
    with pytest.raises(InvalidInputError, match="'a' cannot say who a row is about"):
        release.frame(table, mechanism, person="a")


def test_the_command_draws_once_a_person(tmp_path: Path) -> None:
    table = panel(varying=30)
    pa_csv.write_csv(table, tmp_path / "panel.csv")
    designed(table).save(tmp_path / "m.json")
    asked = ("release", tmp_path / "panel.csv", "--mechanism", tmp_path / "m.json", "--person", "id")
    done = run(*asked, "-o", tmp_path / "r.csv", "--as", "symbols")
    assert done.exit_code == 0, done.output
    assert "Persons: 300 (id), 30 of them with several draws." in done.stdout
    assert "30 of them have rows with different public values, which are drawn one by one" in done.stderr
    rows = (tmp_path / "r.csv").read_text().splitlines()
    assert len(rows) == 1201
    done = run(*asked, "-o", tmp_path / "r2.csv", "--json")
    told = json.loads(done.stdout)["persons"]
    assert told == {"column": "id", "persons": 300, "varying": 30, "exact": True}
    with (tmp_path / "r2.csv").open() as stream:
        assert next(csv.reader(stream)) == ["a", "b"]
    done = run(*asked[:-1], "who", "-o", tmp_path / "r3.csv")
    assert_one_line_error(done, "no column 'who'")
    assert not (tmp_path / "r3.csv").exists()


def test_other_identifiers_are_warned_about_beside_a_person() -> None:
    table = panel().append_column("case_id", pa.array([f"c{i}" for i in range(1200)]))
    with (
        pytest.warns(SmallSampleWarning, match=r"300 persons \(1200 rows\)"),
        pytest.warns(IdentifierWarning, match="'case_id' .* tells people apart as 'id' does: leave it out"),
    ):
        tables.count(table, private="s", public=["a", "case_id"], bins={"case_id": "top:5"}, person="id")
