"""Audits that read the whole file, speak of people, and say nothing about a population from the rows of a design."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import count_people, mechanism_of, people, random_mechanism
from helpers_cli import run
from privfunnel import audit, release
from privfunnel.audit import population as beyond
from privfunnel.data import tables
from privfunnel.data.engines import Alphabet, Column
from privfunnel.errors import GuaranteeWarning, InvalidInputError
from privfunnel.measures import mutual_information
from privfunnel.release.guesses import exposures, ranking_auc
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("sklearn")

QUICK: dict[str, Any] = {"bootstrap": 20, "permutations": 0, "attacker_rows": 0}


def visits(rows: dict[str, list[Any]]) -> list[int]:
    """Visits to a hospital: the sick have more of them."""
    return np.random.default_rng(5).poisson(1.0 + 2.0 * np.array(rows["sick"])).tolist()


@pytest.fixture(scope="module")
def table() -> Any:
    rows = people(3000, seed=2)
    noise = np.random.default_rng(6).normal(size=3000)
    first = date(2000, 1, 1)
    days = [first + timedelta(days=int(day)) for day in np.random.default_rng(7).integers(0, 4000, 3000)]
    return pa.table({**rows, "visits": visits(rows), "noise": noise, "day": days, "list": [[1]] * 3000})


@pytest.fixture(scope="module")
def mechanism(table: Any) -> Mechanism:
    return random_mechanism(count_people(table), n_y=5)


def released(table: Any, mechanism: Mechanism, *keep: str, **options: Any) -> Any:
    with pytest.warns(GuaranteeWarning):
        return release.frame(
            table,
            mechanism,
            seed=0,
            keep=list(keep),
            **{"form": "symbols", "keep_order": True, **options},
        )


# --- every column of the file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["symbols", "records"])
def test_a_kept_column_that_tells_breaks_the_verdict(table: Any, mechanism: Mechanism, form: str) -> None:
    file = released(table, mechanism, "id", "visits", form=form)
    found = audit.release(table, file, mechanism=mechanism, **{**QUICK, "attacker_rows": 3000})
    assert found.recount is not None
    assert found.recount.holds
    assert found.further is not None
    assert found.further.leaks
    assert found.further.columns[0].name == "visits"
    assert found.further.file > found.further.released
    assert {each.name for each in found.further.columns if each.names_rows} == {"id"}
    sick = found.further.attacks[0]
    assert sick.auc_file > sick.auc_release + 0.05
    assert not found.passed
    words = found.words()
    assert words[0].startswith("THE FILE TELLS MORE THAN ITS RELEASE: beside it stand visits, id")
    assert not any(line.startswith("The designed promise holds") for line in words)
    json.dumps(found.to_dict(), allow_nan=False)


def test_columns_that_tell_nothing_are_named_and_nothing_more(table: Any, mechanism: Mechanism) -> None:
    file = released(table, mechanism, "noise", "day", "id").append_column("list", table["list"])
    found = audit.release(table, file, mechanism=mechanism, **QUICK)
    assert found.passed
    assert found.further is not None
    assert {each.name for each in found.further.columns} == {"noise", "day", "id", "list"}
    assert found.further.p_value > 0.005
    assert any("which no promise covers: " in line for line in found.words())
    assert audit.release(table, file.select(["released"]), mechanism=mechanism, **QUICK).further is None


def test_the_key_of_the_match_is_a_column_of_the_file_too(table: Any, mechanism: Mechanism) -> None:
    telling = [f"{'a' if sick else 'b'}{i}" for i, sick in enumerate(table["sick"].to_pylist())]
    original = table.append_column(
        "key", pa.array([int(t[0] == "a") * 10_000 + i for i, t in enumerate(telling)])
    )
    file = released(original, mechanism, "key")
    found = audit.release(original, file, mechanism=mechanism, on="key", **QUICK)
    assert found.further is not None
    assert found.further.leaks
    assert not found.passed


def test_a_file_that_tells_more_ends_with_one(table: Any, mechanism: Mechanism, tmp_path: Path) -> None:
    pa_csv.write_csv(table.drop(["list"]), tmp_path / "t.csv")
    mechanism.save(tmp_path / "m.json")
    with pytest.warns(GuaranteeWarning):
        release.write(
            tmp_path / "t.csv", mechanism, tmp_path / "r.csv", seed=0, keep=["visits"], form="symbols"
        )
    done = run("audit", tmp_path / "t.csv", tmp_path / "r.csv", "--mechanism", tmp_path / "m.json", "--bootstrap", 20,
               "--permutations", 0, "--attacker-rows", 0)  # fmt: skip
    assert done.exit_code == 1
    assert "THE FILE TELLS MORE THAN ITS RELEASE" in done.stdout


def test_honest_further_columns_are_seldom_accused() -> None:
    """Z depends on Y alone: the test of what it adds is exact, however dependent S and Y are."""
    from privfunnel.audit import extra_columns as kept

    rng = np.random.default_rng(8)
    p_values = []
    for _ in range(30):
        y = rng.integers(0, 3, 300)
        s, z = (y + rng.integers(0, 2, 300)) % 3, (y + rng.integers(0, 3, 300)) % 4
        p_values.append(kept._association(np.column_stack([s, y, z]), rng)[1])
    assert np.mean(p_values) == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / 30))


# --- people -----------------------------------------------------------------------------------------------------


def alphabet(*values: str) -> Alphabet:
    return Alphabet((Column("ill", "text", values),), np.arange(len(values))[:, None])


def test_a_rare_condition_is_told_in_people() -> None:
    """The best guess stays "no" for everybody, and yet 64 people are told from the others."""
    n, exposed = 2139, 64
    ill = np.array([(180 - 24) / n, 24 / n])
    p_sy = np.stack([np.array([n - exposed, exposed]) / n - ill, ill])
    found = exposures(alphabet("no", "yes"), p_sy, n)
    assert found[0].value == "ill=yes"
    assert (found[0].rows, found[0].of) == (64, 2139)
    assert found[0].words.startswith(
        "For 64 of 2,139 people the chance of ill=yes rises from 8.4 % to 37.5 % or more"
    )
    assert found[0].lift == pytest.approx((24 / 64) / (180 / n))
    assert found[0].notable
    assert not found[1].notable


def test_the_auc_is_that_of_comparing_all_pairs() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 5, 6).astype(float), rng.integers(1, 5, 6).astype(float)
    score = rng.integers(0, 4, 6).astype(float)
    pairs = sum(
        positive[i] * negative[j] * ((score[i] > score[j]) + 0.5 * (score[i] == score[j]))
        for i in range(6)
        for j in range(6)
    )
    assert ranking_auc(positive, negative, score) == pytest.approx(pairs / positive.sum() / negative.sum())
    assert ranking_auc(np.zeros(2), np.ones(2), np.arange(2.0)) == 0.5


def test_words_say_whom_a_release_exposes_and_what_single_columns_keep(mechanism: Mechanism) -> None:
    found = audit.mechanism(mechanism)
    words = found.words()
    assert any(line.startswith("For ") and "of 3,000 people the chance of" in line for line in words)
    assert any(line.startswith("Of single public columns it keeps between") for line in words)
    assert any(line.startswith("Every row counts as a person of its own") for line in found.limits)
    assert {each.name for each in found.columns} == {"age", "town", "member"}
    assert all(0.0 <= each.share <= 1.0 for each in found.columns)


def test_a_silent_release_is_said_to_change_nothing() -> None:
    original = pa.table({"s": ["a", "b"] * 100, "x": ["u", "v"] * 100})
    constant = pa.table({"y": ["c"] * 200})
    found = audit.release(original, constant, private="s", public="x", **QUICK)
    assert "No released symbol changes the chance of any private value." in found.words()


def test_a_silent_release_has_no_table_of_exposed_people_nor_of_telling_symbols(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    mechanism.save(tmp_path / "telling.json")
    counts = tables.count(pa.table({"s": ["a", "b"] * 500, "x": ["u", "v"] * 500}), private="s", public="x")
    mechanism_of(counts, np.ones((2, 1))).save(tmp_path / "silent.json")
    titles = ("Whom the release exposes most", "Most telling of")
    told, nothing = (run("audit", "--mechanism", tmp_path / f"{name}.json") for name in ("telling", "silent"))
    assert (told.exit_code, nothing.exit_code) == (0, 0)
    for title in titles:
        assert title in told.stdout
        assert title not in nothing.stdout
    assert "No released symbol changes the chance of any private value." in nothing.stdout


# --- these rows, and the population -----------------------------------------------------------------------------


def test_nothing_is_claimed_about_a_population_from_design_rows(table: Any, mechanism: Mechanism) -> None:
    found = audit.table(table, mechanism, bootstrap=20)
    assert found.population is None
    for each in found.attributes:
        assert each.leakage.low == each.leakage.high == each.leakage.plug_in
        assert each.after.low == each.after.high
    assert any("About the population nothing is claimed" in line for line in found.words())
    assert any("or, for a plain release, designing again" in line for line in found.words())
    assert not any("in the population behind it" in line for line in found.words())


def test_rows_of_another_table_bound_the_population(mechanism: Mechanism) -> None:
    other = pa.table(people(2000, seed=21))
    by_table = audit.table(other, mechanism, bootstrap=20)
    by_release = audit.release(other, released(other, mechanism), mechanism=mechanism, **QUICK)
    for found in (by_table, by_release):
        assert found.population is not None
        assert found.population.rows == 2000
        assert found.population.leakage.low <= mechanism.leakage <= found.population.leakage.high
        assert any("with 95 % confidence, the release leaks at most" in line for line in found.words())
    surer = audit.table(other, mechanism, bootstrap=20, confidence=0.999)
    assert surer.population is not None
    assert surer.population.leakage.high > by_table.population.leakage.high  # type: ignore[union-attr]
    with pytest.raises(InvalidInputError, match="confidence lies between 0 and 1"):
        audit.table(other, mechanism, confidence=1.0)


def test_bounds_that_say_nothing_are_said_to_prove_nothing() -> None:
    rows = np.array([[10.0, 0.0], [1.0, 1.0]])
    few = beyond.bounds(rows, rows, 0.95, 0.1)
    assert few.largest_lift == pytest.approx(np.log(6.0))  # two of twelve rows
    assert few.lift >= few.largest_lift
    said = few.words()[0]
    assert "from below these rows prove no bound" in said
    assert "no limit of a lift is proved below 6.00, the largest possible" in said
    assert "0.0000" not in said
    rows = np.array([[900.0, 100.0], [100.0, 900.0]])
    said = beyond.bounds(rows, rows, 0.95, 0.5).words()[0]
    assert " and at least 0." in said
    assert "it keeps at least 0." in said
    assert "no private value becomes more than" in said
    assert "no bound" not in said


def test_held_out_bounds_cover_a_population_that_is_known() -> None:
    """Designed to leak nothing on few rows, it leaks in the population, and the bound says so every time but few."""
    rng = np.random.default_rng(3)
    p_sx = rng.dirichlet(np.full(12, 0.7)).reshape(2, 6)
    columns = [Column("s", "integer", tuple(range(2))), Column("x", "integer", tuple(range(6)))]
    covered, trials = 0, 10
    for trial in range(trials):
        cells = rng.multinomial(300, p_sx.ravel())
        place = np.flatnonzero(cells)
        counts = tables.Counts(
            Alphabet((columns[0],), np.arange(2)[:, None]), Alphabet((columns[1],), np.arange(6)[:, None]),
            place // 6, place % 6, cells[place],
        )  # fmt: skip
        found = audit.guaranteed(counts, share=0.3, leakage=0.0, seed=trial)
        known = {label: i for i, label in enumerate(found.mechanism.x_labels)}
        channel = np.array(
            [
                found.mechanism.channel[known[label]] if label in known else found.mechanism.p_y
                for label in counts.x_labels
            ]
        )
        p_sy = p_sx @ channel
        leakage = found.holdout.leakage
        assert leakage.low <= leakage.value <= leakage.high
        covered += leakage.low <= float(mutual_information(p_sy)) <= leakage.high
    assert covered >= 7  # each fails at most once in twenty times; four of ten once in a thousand


@pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")
def test_a_promise_of_nothing_on_few_rows_is_not_said_to_have_held() -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({"s": rng.integers(0, 2, 300), "x": rng.integers(0, 6, 300)})
    counts = tables.count(rows, private="s", public="x")
    found = audit.guaranteed(counts, share=0.3, leakage=0.0).holdout
    assert (found.design_rows, found.held_out_rows) == (210, 90)
    words = " ".join(found.words())
    assert "the promise is not refuted, and not proved either" in words
    assert "held" not in words.replace("held-out", "")
    assert "With these rows no release of more than one output can be guaranteed to leak less than" in words
