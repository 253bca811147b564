"""The area under a model's curve, with an interval that covers it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from privfunnel.audit.ranking import auc_words, below_chance, ranking
from privfunnel.release.guesses import ranking_auc


def scores(rng: np.random.Generator, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    y = (rng.random(n) < 0.3).astype(np.int64)
    chance = special.expit(rng.normal(size=n) + shift * y)
    return y, np.stack([1.0 - chance, chance], axis=1)


@pytest.mark.parametrize(("n", "shift"), [(80, 1.0), (300, 0.3), (300, 2.0)])
def test_the_interval_covers_the_auc_of_the_population_at_its_level(n: int, shift: float) -> None:
    rng = np.random.default_rng(5)
    truth = float(special.ndtr(shift / np.sqrt(2.0)))  # of two normal scores, a shift apart
    covered = [truth in ranking(*scores(rng, n, shift)) for _ in range(400)]
    assert np.mean(covered) > 0.95 - 3.0 * np.sqrt(0.95 * 0.05 / 400)


def test_the_value_is_the_mean_auc_and_lies_in_its_interval() -> None:
    rng = np.random.default_rng(0)
    y, chances = rng.integers(0, 3, 60), rng.dirichlet(np.ones(3), 60)
    found = ranking(y, chances)
    assert found.value == np.mean([ranking_auc(y == j, y != j, chances[:, j]) for j in range(3)])
    assert found.low < found.value < found.high


def test_rows_of_one_person_are_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(1)
    y, chances = scores(rng, 60, 1.0)
    alone = ranking(y, chances)
    copied = ranking(np.repeat(y, 9), np.repeat(chances, 9, axis=0), np.repeat(np.arange(60), 9))
    as_rows = ranking(np.repeat(y, 9), np.repeat(chances, 9, axis=0))
    assert copied.low == pytest.approx(alone.low, abs=0.01)
    assert as_rows.high - as_rows.low < 0.5 * (copied.high - copied.low)


def test_a_perfect_ranking_of_few_rows_is_not_taken_for_certain() -> None:
    y = np.array([0, 0, 0, 0, 1, 1, 1])
    found = ranking(y, np.stack([1.0 - y, y], axis=1).astype(float))
    assert found.value == found.high == 1.0
    assert found.low < 0.8
    assert auc_words(found.value, found).startswith("1.000 (0.")


def test_one_kind_of_rows_only_is_chance() -> None:
    found = ranking(np.zeros(5, dtype=np.int64), np.ones((5, 1)))
    assert found.value == 0.5
    assert auc_words(0.5, None) == "0.500"


def test_an_auc_that_is_shown_below_chance_is_explained_once() -> None:
    assert below_chance([0.4996, 0.5, 0.7]) == []
    (said,) = below_chance([0.47, 0.44])
    assert "chance in rows that are finite" in said
