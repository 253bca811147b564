"""Private designs: noise that is drawn exactly, on every cell that can be, and nothing of the rows besides it."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privfunnel as pf
from helpers_cli import assert_one_line_error, run
from privfunnel.data import noise, tables
from privfunnel.errors import InvalidInputError, SmallSampleWarning
from privfunnel.release import codebook
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")


class Script(random.Random):
    """Whole numbers that are told beforehand."""

    def __init__(self, numbers: Iterator[int]) -> None:
        super().__init__()
        self.numbers = numbers

    def randrange(self, *arguments: Any, **options: Any) -> int:
        return next(self.numbers)


def people(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    town = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    age = rng.integers(0, 90, n)
    sick = rng.random(n) < 0.1 + 0.4 * (town == "b")
    return pa.table({"sick": sick, "town": town, "age": age})


def count(table: Any, **options: Any) -> tables.Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return tables.count(
            table, private="sick", public=["town", "age"], bins={"age": "edges:0,30,60,90"}, **options
        )


# --- the sampler --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 3), Fraction(7, 4)])
def test_noise_has_the_probabilities_of_the_discrete_laplace_law(rate: Fraction) -> None:
    n, source = 20_000, random.Random(str(rate))
    drawn = np.array([noise.discrete_laplace(rate, source) for _ in range(n)])
    q = math.exp(-float(rate))
    law = (1.0 - q) / (1.0 + q) * q ** np.abs(np.arange(-3, 4))
    seen = np.array([(drawn == z).sum() for z in range(-3, 4)])
    found = stats.chisquare(np.append(seen, n - seen.sum()), n * np.append(law, 1.0 - law.sum()))
    assert found.pvalue > 1e-4


def test_a_coin_of_probability_exp_minus_gamma_is_exact_term_by_term() -> None:
    """All outcomes of the first six tries, with exact fractions: 1 − γ + γ²/2 − …, as far as they go."""
    gamma, chance, reached = Fraction(2, 3), Fraction(0), Fraction(1)
    for tried in range(1, 7):
        happens = gamma / tried
        # The numbers below 2 of 3·tried make an event of probability γ/tried happen.
        script = Script(iter([0] * (tried - 1) + [2]))
        if noise._happens(2, 3, script):
            chance += reached * (1 - happens)
        reached *= happens
    assert float(chance) <= math.exp(-2 / 3) <= float(chance + reached)


def test_a_geometric_number_is_made_of_two_parts() -> None:
    # u = 3 of b = 5 is accepted by the first coin (4 ≥ 3 at the first try), v = 1 by two more: (3 + 5·1) // 2 = 4.
    script = Script(iter([3, 4, 0, 0, 2, 0, 1]))
    assert noise._geometric(Fraction(2, 5), script) == (3 + 5 * 1) // 2


def test_epsilon_is_never_larger_than_what_was_asked_for() -> None:
    for asked in (1, 0.1, 1 / 3, math.pi, 0.0001, 2.5):
        rate = noise.as_fraction(asked)
        assert 0 < rate <= Fraction(asked)
        assert float(rate) == pytest.approx(asked, rel=1e-3)
    for wrong in (0, -1.0, math.inf, math.nan, "1"):
        with pytest.raises(InvalidInputError, match="is no privacy parameter"):
            noise.as_fraction(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="too small to be of use"):
        noise.as_fraction(1e-9)


# --- the counts ---------------------------------------------------------------------------------------------------


def test_every_combination_of_values_gets_noise_also_those_that_do_not_occur(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = count(people(400).slice(0, 12))
    assert len(counts.cell_n) < 18
    monkeypatch.setattr(noise, "discrete_laplace", lambda *_: 1)
    found = noise.private_counts(counts, 1.0)
    assert (found.n_s, found.n_x, len(found.cell_n)) == (2, 9, 18)
    assert found.n == counts.n + 18
    assert found.epsilon == 1.0


def test_with_little_noise_the_counts_are_the_same_and_the_means_of_bins_are_gone() -> None:
    counts = count(people(400))
    assert any(column.means for column in counts.public)
    found = noise.private_counts(counts, 50.0)
    assert np.array_equal(found.table(), counts.table())
    assert not any(column.means for column in found.public)


def test_one_number_with_decimals_changes_nothing_but_its_count() -> None:
    made = []
    for age in (40, 40.5):
        table = people(400)
        ages = pa.array([age, *table["age"].to_pylist()[1:]], pa.float64())
        counts = count(table.set_column(2, "age", ages))
        assert counts.columns["age"].kind == "integer"  # decimals of a few rows do not count
        noisy = noise.private_counts(counts, 1.0, random.Random(5))
        found = Mechanism.from_solution(noisy, pf.solve(noisy.problem(), disclosure=0.6, solver="greedy"))
        made.append(found.to_dict())
    assert made[0] == made[1]
    assert made[0]["public"][1]["values"] == ["[0, 30)", "[30, 60)", "[60, 90]"]


def test_whole_numbers_are_written_as_such_where_an_option_says_so(tmp_path: Path) -> None:
    pa_csv.write_csv(people(3000), tmp_path / "t.csv")
    asked = ("solve", tmp_path / "t.csv", "--private", "sick", "--public", "town,age", "--disclosure", "95%",
             "--solver", "greedy", "--design-epsilon", 1)  # fmt: skip
    done = run(*asked, "--bin", "age=edges:0,30,60,90", "--type", "age=integer", "--out", tmp_path / "d")
    assert done.exit_code == 0, done.output
    found = Mechanism.load(tmp_path / "d" / "mechanism.json")
    assert found.public[1].values == ("0-29", "30-59", "60-90")
    narrow = ("--bin", "age=edges:0,0.2,0.5,60,90")
    assert_one_line_error(run(*asked, *narrow), "--type age=integer")
    assert run(*asked, *narrow, "--type", "age=integer").exit_code == 0


def test_a_column_that_is_private_and_public_makes_no_impossible_rows() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(people(300), private=["sick", "town"], public="town")
    found = noise.private_counts(counts, 0.1, random.Random(1))
    town = found.s_alphabet.names.index("town")
    assert (found.s_codes[found.cell_s, town] == found.x_codes[found.cell_x, 0]).all()


def test_what_cannot_be_private_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(60)
    counts = count(table)
    for name, value, message in (
        ("MOST_CELLS", 17, "2 × 9 combinations"),
        ("MOST_CELLS", 8, "9 combinations of town, age"),
        ("discrete_laplace", lambda *_: -1000, "leaves no rows"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(noise, name, value)
            with pytest.raises(InvalidInputError, match=message):
                noise.private_counts(counts, 1.0)
    named = table.append_column("who", pa.array([f"p{i // 2}" for i in range(60)]))
    with pytest.raises(InvalidInputError, match="keep one row a person"):
        noise.private_counts(count(named, person="who"), 1.0)


def test_a_private_mechanism_says_its_epsilon_and_so_does_its_codebook(tmp_path: Path) -> None:
    counts = noise.private_counts(count(people(3000)), 1.0, random.Random(2))
    mechanism = Mechanism.from_solution(counts, pf.solve(counts, disclosure=0.6, solver="greedy"))
    mechanism.save(tmp_path / "m.json")
    assert Mechanism.load(tmp_path / "m.json").epsilon == 1.0
    assert json.loads(codebook.render(mechanism, tmp_path / "c.json"))["provenance"]["epsilon"] == 1.0


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_says_what_the_noise_cost_and_what_may_be_published(tmp_path: Path) -> None:
    pa_csv.write_csv(people(3000), tmp_path / "t.csv")
    asked = ("solve", tmp_path / "t.csv", "--private", "sick", "--public", "town,age", "--disclosure", "95%",
             "--solver", "greedy", "--design-epsilon", 1)  # fmt: skip
    done = run(*asked, "--bin", "age=edges:0,30,60,90", "--out", tmp_path / "design")
    assert done.exit_code == 0, done.output
    assert "Designed on counts with noise, ε = 1" in done.stdout
    assert "CONFIDENTIAL, what the noise cost" in done.stdout
    assert "they may be published" in done.stdout
    audited = ("audit", tmp_path / "t.csv", "--mechanism", tmp_path / "design" / "mechanism.json")
    told = run(*audited, "--out", tmp_path / "report.html").stdout
    front, _, section = (tmp_path / "report.html").read_text().partition("Who is exposed most")
    for part in (front, section):
        assert "designed on counts with noise (ε = 1): it and its codebook are differentially private" in part
        assert "What the noise cost: on the rows themselves the release leaks " in part
    assert "Counted again on the rows without noise, the promise " in section
    assert "designed on counts with noise (ε = 1), for which it is differentially private" in told
    assert_one_line_error(run(*asked, "--bin", "age=quantiles:3"), "depends on the rows")
    edges = ("--bin", "age=edges:0,30,60,90")
    assert_one_line_error(run(*asked, *edges, "--holdout", 0.3), "leave --holdout and --view out")
    packaged = run("solve", "heart-failure", "--disclosure", "60%", "--design-epsilon", 1)
    assert_one_line_error(packaged, "give a table of records")
