"""Audits: promises checked, rows matched, words said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from funnels import count_people, people, random_mechanism
from privfunnel import audit, release
from privfunnel.audit import promise
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")
pytest.importorskip("sklearn")

ROWS = people(6000, seed=1)


@pytest.fixture(scope="module")
def counts() -> tables.Counts:
    return count_people(pa.table(ROWS))


@pytest.fixture(scope="module")
def mechanism(counts: tables.Counts) -> Mechanism:
    return random_mechanism(counts, n_y=5)


@pytest.fixture(scope="module")
def released(mechanism: Mechanism) -> Any:
    return draw(mechanism)


def draw(mechanism: Mechanism, **options: Any) -> Any:
    """A release that is the same in every run, so that no honest one is ever taken for unlucky."""
    with pytest.warns(GuaranteeWarning):
        return release.frame(
            pa.table(ROWS), mechanism, seed=0, **{"form": "symbols", "keep_order": True, **options}
        )


@pytest.fixture(scope="module")
def found(mechanism: Mechanism, released: Any) -> audit.Audit:
    return audit.release(
        pa.table(ROWS), released, mechanism=mechanism, bootstrap=200, permutations=99, attacker_rows=3000
    )


# --- a release and its mechanism --------------------------------------------------------------------------------


def test_an_honest_release_agrees_with_its_promise(found: audit.Audit, mechanism: Mechanism) -> None:
    assert found.passed
    assert found.recount is not None
    assert found.recount.same_table
    assert found.recount.leakage == pytest.approx(mechanism.leakage, abs=1e-12)
    assert found.draws is not None
    assert found.draws.agrees
    assert mechanism.leakage in found.leakage
    assert mechanism.disclosure in found.disclosure
    assert found.rows == 6000
    assert [each.name for each in found.attributes] == ["sick", "smoker", "sick and smoker"]
    known = {guess.attribute: guess for guess in mechanism.guesses}
    for each in found.attributes:
        assert known[each.name].after == pytest.approx(each.after.value, abs=1e-12)
        assert each.original is not None
        assert each.original.value == pytest.approx(known[each.name].original)
        assert each.leakage.plug_in >= each.leakage.corrected
    attack = found.attributes[0].attack
    assert attack is not None
    assert attack.original is not None
    assert attack.prior.value <= attack.original.high
    assert attack.release.value <= attack.original.high


def test_symbols_add_up_to_the_leakage(found: audit.Audit, mechanism: Mechanism) -> None:
    assert sum(s.share * s.information.value for s in found.symbols) == pytest.approx(
        mechanism.leakage, abs=1e-9
    )
    assert [s.information.value for s in found.symbols] == sorted(
        (s.information.value for s in found.symbols), reverse=True
    )
    p_sy = mechanism.p_sy
    lift = p_sy / (p_sy.sum(axis=1, keepdims=True) * p_sy.sum(axis=0))
    for symbol in found.symbols:
        column = lift[:, mechanism.y_labels.index(symbol.label)]
        assert symbol.lift == pytest.approx(column.max())
        assert symbol.about == mechanism.s_labels[int(column.argmax())]


def test_the_words_come_first_and_the_limits_last(found: audit.Audit) -> None:
    words = found.words()
    assert words[0].startswith("An attacker who guesses sick from the release is right ")
    assert "% without it; " in words[0]
    assert "from the original data); on rows it has not seen, one trained on the release is right" in words[0]
    assert any(line.startswith("The designed promise holds: leakage") for line in words)
    assert any("not differential privacy" in line for line in found.limits)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["words"] == words
    assert data["attributes"][0]["leakage"]["plug_in"] == found.attributes[0].leakage.plug_in


def test_the_same_seed_gives_the_same_audit(mechanism: Mechanism, released: Any) -> None:
    options: dict[str, Any] = {
        "mechanism": mechanism,
        "bootstrap": 20,
        "permutations": 5,
        "attacker_rows": 100,
    }
    first = audit.release(pa.table(ROWS), released, **options)
    assert first.to_dict() == audit.release(pa.table(ROWS), released, **options).to_dict()
    assert first.to_dict() != audit.release(pa.table(ROWS), released, seed=1, **options).to_dict()


def test_a_release_by_another_mechanism_is_found_out(counts: tables.Counts, mechanism: Mechanism) -> None:
    other = random_mechanism(counts, n_y=5, seed=9)
    forged = draw(other)
    found = audit.release(
        pa.table(ROWS), forged, mechanism=mechanism, bootstrap=50, permutations=0, attacker_rows=0
    )
    assert found.draws is not None
    assert found.draws.impossible > 0
    assert not found.passed
    assert any("NOT THIS MECHANISM'S" in line for line in found.words())
    strange = pa.table({"released": ["y9"] * 6000})
    with pytest.raises(InvalidInputError, match="released='y9', which the mechanism never releases"):
        audit.release(pa.table(ROWS), strange, mechanism=mechanism)


def test_a_subtly_biased_release_is_found_out(mechanism: Mechanism) -> None:
    """Rows that keep their most likely symbol leak more than draws would, without any impossible symbol."""
    x = mechanism.x_alphabet.recogniser()(mechanism.x_alphabet.encode(pa.table(ROWS)))
    honest = draw(mechanism)["released"].to_pylist()
    cheat = [mechanism.y_labels[int(mechanism.channel[i].argmax())] if k % 4 == 0 else y
             for k, (i, y) in enumerate(zip(x, honest, strict=True))]  # fmt: skip
    found = audit.release(pa.table(ROWS), pa.table({"released": cheat}), mechanism=mechanism, bootstrap=100,
                          permutations=0, attacker_rows=0)  # fmt: skip
    assert found.draws is not None
    assert found.draws.impossible == 0
    assert not found.passed


@pytest.mark.parametrize("block", [4_000_000, 500])
def test_fresh_draws_follow_the_channel_by_row_and_by_cell(
    counts: tables.Counts, mechanism: Mechanism, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privfunnel.audit.promise.BLOCK", block)
    wide = np.zeros((counts.n_x, 200))
    wide[:, :: 200 // mechanism.n_y] = mechanism.channel  # so many outputs that rows are less work than cells
    for channel in (mechanism.channel, wide):
        drawn = list(promise.fresh(counts, channel, 30, np.random.default_rng(0)))
        p_sx = counts.table() / counts.n
        for sy, xy in drawn:
            np.testing.assert_array_equal(sy.sum(axis=1), counts.table().sum(axis=1))
            np.testing.assert_array_equal(xy.sum(axis=1), counts.table().sum(axis=0))
            np.testing.assert_array_equal(sy.sum(axis=0), xy.sum(axis=0))
        mean = np.mean([sy for sy, _ in drawn], axis=0) / counts.n
        assert np.abs(mean - p_sx @ channel).max() < 6 * np.sqrt(0.25 / (30 * counts.n))


@pytest.mark.parametrize("numbers", ["mean", "midpoint", "draw", "interval"])
def test_records_are_audited_through_both_draws(mechanism: Mechanism, numbers: str) -> None:
    records = draw(mechanism, form="records", numbers=numbers)
    found = audit.release(
        pa.table(ROWS), records, mechanism=mechanism, bootstrap=100, permutations=0, attacker_rows=0
    )
    assert found.passed
    assert found.leakage.low <= mechanism.leakage
    assert found.disclosure.low <= mechanism.disclosure


def test_rows_may_be_matched_by_key(mechanism: Mechanism, found: audit.Audit) -> None:
    kept = draw(mechanism, keep=["id"])
    shuffled = kept.take(np.random.default_rng(0).permutation(6000))
    options: dict[str, Any] = {
        "mechanism": mechanism,
        "on": "id",
        "bootstrap": 50,
        "permutations": 0,
        "attacker_rows": 0,
    }
    by_key = audit.release(pa.table(ROWS), shuffled, **options)
    by_order = audit.release(pa.table(ROWS), kept.drop(["id"]), **{**options, "on": None})
    assert by_key.leakage.plug_in == pytest.approx(by_order.leakage.plug_in, abs=1e-12)
    assert by_key.passed
    part = audit.release(pa.table(ROWS), shuffled.slice(0, 5000), **options)
    assert part.unmatched == 1000
    assert part.draws is not None
    assert part.passed
    assert any("1000 rows have no partner" in line for line in part.words())


@pytest.mark.parametrize("missing", [0, 1])
def test_a_forged_release_is_found_out_with_rows_missing(mechanism: Mechanism, missing: int) -> None:
    """Symbols that tell sick people apart: nothing of the mechanism may be said about them."""
    told = [mechanism.y_labels[int(sick)] for sick in ROWS["sick"]]
    forged = pa.table({"id": ROWS["id"], "released": told}).slice(missing)
    found = audit.release(pa.table(ROWS), forged, mechanism=mechanism, on="id", bootstrap=20, permutations=0,
                          attacker_rows=0)  # fmt: skip
    assert found.unmatched == missing
    assert found.draws is not None
    assert found.draws.impossible > 0
    assert not found.passed
    assert not found.mechanism_known
    assert found.attributes[0].after.value == 1.0
    assert np.isinf(found.attributes[0].local_information_privacy.value)


def test_an_honest_release_is_seldom_taken_for_forged() -> None:
    """The place of one draw among its like is uniform, however skewed their law."""
    rng = np.random.default_rng(0)
    trials, n = 4000, promise.LEAST_DRAWS
    laws = rng.standard_exponential((trials, n + 1, 3)) ** 2
    p_values = np.array([promise._surprise(law)[1] for law in laws])
    for level in (promise.ALARM, 0.05, 0.5):
        assert np.mean(p_values <= level) == pytest.approx(level, abs=5 * np.sqrt(level / trials))
    laws[0, 0, 1] += 1000.0
    assert promise._surprise(laws[0])[1] == 1 / (n + 1) <= promise.ALARM
    constant = np.ones((n + 1, 3))
    constant[0] += 1e-12  # rounding is no surprise
    assert promise._surprise(constant) == (0.0, 1.0)


def test_blanks_around_released_texts_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    table = pa.table({"s": ["a", "b"] * 300, "x": [" u", "u", "v "] * 200})
    mechanism = random_mechanism(count_people_like(table), n_y=3)
    with pytest.warns(GuaranteeWarning, match="seed=0"):
        release.write(table, mechanism, tmp_path / "r.csv", form="records", seed=0)
    found = audit.release(table, tmp_path / "r.csv", mechanism=mechanism, bootstrap=20, permutations=0,
                          attacker_rows=0)  # fmt: skip
    assert found.passed


def test_tables_that_cannot_be_matched_are_refused(mechanism: Mechanism, released: Any) -> None:
    original = pa.table(ROWS)
    with pytest.raises(
        InvalidInputError, match=r"original has 6000 rows and the release 5999: match them by a kept key"
    ):
        audit.release(original, released.slice(1), mechanism=mechanism)
    with pytest.raises(InvalidInputError, match="original has 5999 rows and the release 6000"):
        audit.release(original.slice(1), released, mechanism=mechanism)
    with pytest.raises(InvalidInputError, match="no column 'id' to match rows on"):
        audit.release(original, released, mechanism=mechanism, on="id")
    twice = pa.table({"released": released["released"], "id": ["a"] * 6000})
    with pytest.raises(InvalidInputError, match="'id' is not unique in the release"):
        audit.release(original, twice, mechanism=mechanism, on="id")
    alien = pa.table({"released": released["released"], "id": list(range(6000))})
    with pytest.raises(InvalidInputError, match="no value of 'id' is in both"):
        audit.release(original, alien, mechanism=mechanism, on="id")
    with pytest.raises(InvalidInputError, match="was not released by this mechanism"):
        audit.release(original, pa.table({"u": [1], "v": [2]}), mechanism=mechanism)
    with pytest.raises(InvalidInputError, match="name the private and the public"):
        audit.release(original, released)


def test_any_release_can_be_audited_without_a_mechanism() -> None:
    """Releasing X itself leaks I(S;X); a constant column leaks nothing."""
    original = pa.table({"s": ["a", "b"] * 500, "x": ["u", "v"] * 450 + ["v", "u"] * 50})
    same = audit.release(
        original, original.select(["x"]), private="s", public="x", bootstrap=50, permutations=20
    )
    assert same.leakage.plug_in == pytest.approx(same.leakage_ceiling)
    assert same.disclosure.plug_in == pytest.approx(same.disclosure_ceiling)
    assert same.passed
    assert same.recount is None
    assert any("among these rows" in line for line in same.words())
    attack = same.attributes[0].attack
    assert attack is not None
    assert attack.release.value == pytest.approx(0.9, abs=0.02)
    constant = pa.table({"y": [1] * 1000})
    nothing = audit.release(original, constant, private=["s"], public=["x"], bootstrap=50, permutations=20)
    assert nothing.leakage.plug_in == 0.0
    assert nothing.attributes[0].after.value == nothing.attributes[0].before.value
    numbers = pa.table({"y": np.arange(1000) / 7.0})
    binned = audit.release(
        original, numbers, private="s", public="x", bins={"y": 3}, bootstrap=50, permutations=0
    )
    assert binned.n_y == 3


# --- mechanism alone, on its table, on another one, held out ----------------------------------------------------


def test_a_mechanism_alone_reports_its_own_numbers(mechanism: Mechanism) -> None:
    found = audit.mechanism(mechanism)
    assert found.exact
    assert found.leakage.plug_in == pytest.approx(mechanism.leakage, abs=1e-12)
    assert found.disclosure.plug_in == pytest.approx(mechanism.disclosure, abs=1e-12)
    assert [each.after.value for each in found.attributes] == pytest.approx(
        [g.after for g in mechanism.guesses]
    )
    assert found.words()[0].startswith("An attacker who guesses sick from the release is right")
    assert found.rows == 6000


def test_the_promise_is_recounted_on_its_table(mechanism: Mechanism) -> None:
    found = audit.table(pa.table(ROWS), mechanism, bootstrap=100)
    assert found.passed
    assert found.recount is not None
    assert found.recount.same_table
    assert found.leakage.plug_in == pytest.approx(mechanism.leakage, abs=1e-12)
    assert found.leakage.low <= found.leakage.corrected <= found.leakage.high
    lie = replace(mechanism, promise={**mechanism.promise, "leakage": mechanism.leakage / 2})
    caught = audit.table(pa.table(ROWS), lie, bootstrap=20)
    assert not caught.passed
    assert any("DOES NOT HOLD" in line for line in caught.words())


def test_another_table_is_told_apart(mechanism: Mechanism) -> None:
    rows = people(3000, seed=8)
    rows["town"][5] = "mars"
    found = audit.table(pa.table(rows), mechanism, bootstrap=20)
    assert found.recount is not None
    assert not found.recount.same_table
    assert found.recount.new_rows >= 1
    assert any("designed on another table" in line for line in found.words())


def test_a_fresh_table_of_the_same_population_keeps_the_promise(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of such tables leak a little more than the design's; about one in forty is to fail."""
    # What holds for the population takes most of the time, and is not what is looked at.
    monkeypatch.setattr(
        "privfunnel.audit.population.judge",
        Mock(**{"return_value.resting_on.return_value.of_classes.return_value": None}),
    )
    kept, more = 0, 0
    for seed in range(40):
        found = audit.table(pa.table(people(3000, seed=100 + seed)), mechanism, bootstrap=100).recount
        assert found is not None
        assert not found.same_table
        assert found.least_leakage < found.leakage
        kept += found.holds
        more += found.leakage > mechanism.leakage
    assert kept >= 36
    assert more >= 5


def test_a_table_of_another_population_breaks_the_promise(mechanism: Mechanism) -> None:
    rows = people(6000, seed=3)
    rows["sick"] = [age > 50 for age in rows["age"]]
    found = audit.table(pa.table(rows), mechanism, bootstrap=100)
    assert not found.passed
    assert any("ABOVE the" in line for line in found.words())


def test_a_promise_is_held_out(counts: tables.Counts) -> None:
    ceiling = counts.problem().disclosure_ceiling
    options: dict[str, Any] = {
        "solver": "aem",
        "restarts": 1,
        "max_steps": 50,
        "throw": False,
    }
    held = audit.holdout(counts, disclosure=0.7 * ceiling, share=0.75, **options)
    assert (held.design_rows, held.held_out_rows) == (1500, 4500)
    assert held.leakage.low <= held.leakage.value <= held.leakage.high
    assert held.words()[0].startswith("Designed on 1500 rows")
    assert held == audit.holdout(counts, disclosure=0.7 * ceiling, share=0.75, **options)
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="leaves no rows on one side"):
            audit.holdout(counts, disclosure=0.1, share=share)


def test_the_bias_of_a_design_shows_on_held_out_rows() -> None:
    """S and X are independent: a design on few rows believes in structure that the others do not have."""
    rng = np.random.default_rng(0)
    table = pa.table({"s": rng.integers(0, 3, 400), "x": rng.integers(0, 10, 400)})
    counts = count_people_like(table)
    held = audit.holdout(counts, disclosure=counts.problem().disclosure_ceiling, solver="greedy")
    assert held.promised_leakage > 0.01
    assert held.leakage.low == 0.0 < held.promised_leakage < held.leakage.high
    assert held.verdict == "not refuted"


def count_people_like(table: Any) -> tables.Counts:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tables.count(table, private="s", public="x")


def test_files_are_audited_like_frames(mechanism: Mechanism, released: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(ROWS), tmp_path / "o.parquet")
    parquet.write_table(released, tmp_path / "r.parquet")
    options: dict[str, Any] = {"mechanism": mechanism, "bootstrap": 20, "permutations": 0, "attacker_rows": 0}
    by_file = audit.release(tmp_path / "o.parquet", tmp_path / "r.parquet", **options)
    assert by_file.to_dict() == audit.release(pa.table(ROWS), released, **options).to_dict()


def test_roles_and_bins_are_those_of_the_mechanism(
    found: audit.Audit, mechanism: Mechanism, released: Any
) -> None:
    # Whatever else is asked for, a mechanism is audited on the columns it was designed for.
    options: dict[str, Any] = {"bootstrap": 20, "permutations": 0, "attacker_rows": 0}
    other = audit.release(
        pa.table(ROWS),
        released,
        mechanism=mechanism,
        private="town",
        public=["age"],
        bins={"age": 2},
        **options,
    )
    assert (
        (other.private, other.public)
        == (found.private, found.public)
        == (("sick", "smoker"), ("age", "town", "member"))
    )
    assert other.disclosure_ceiling == found.disclosure_ceiling
