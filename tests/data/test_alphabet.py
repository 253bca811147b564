"""Alphabets: symbols as combinations of categories, and what a joint table says about a single column."""

from __future__ import annotations

import numpy as np
import pytest

from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.engines.alphabet import distinct
from privfunnel.release.guesses import best_guesses, blind_accuracy

SEX = Column("sex", "text", ("f", "m"))
AGE = Column("age", "integer", (1, 2, 3, None))
BOTH = Alphabet((SEX, AGE), np.array([[0, 0], [0, 3], [1, 0], [1, 1]]))


def test_labels_and_values_say_the_same() -> None:
    assert BOTH.labels == ("sex=f, age=1", "sex=f, age=null", "sex=m, age=1", "sex=m, age=2")
    assert BOTH.values == [("f", 1), ("f", None), ("m", 1), ("m", 2)]
    assert BOTH.names == ("sex", "age")
    assert len(BOTH) == 4


def test_symbols_of_another_alphabet_are_found_by_their_labels() -> None:
    # The same symbols in another order, with other category numbers, and one that is not here.
    other = Alphabet((SEX, Column("age", "integer", (2, 1, 7))), np.array([[1, 0], [1, 1], [0, 2], [0, 1]]))
    assert BOTH.places(other).tolist() == [3, 2, -1, 0]


def test_the_column_that_makes_most_symbols_is_named() -> None:
    assert BOTH.largest_factor() is AGE
    assert Alphabet((SEX,), np.array([[0], [1]])).largest_factor() is SEX


@pytest.mark.parametrize("codes", [[[0, 4]], [[-1, 0]], [[0]], [0, 1]])
def test_codes_that_are_no_categories_do_not_fit(codes: list[object]) -> None:
    assert BOTH.fits
    assert not Alphabet((SEX, AGE), np.array(codes)).fits


def test_a_symbol_listed_twice_is_told() -> None:
    assert not BOTH.repeats
    assert BOTH.take([0, 1, 0]).repeats


def test_a_joint_table_is_collapsed_to_columns_and_all_together() -> None:
    joint = np.arange(8.0).reshape(4, 2)
    tables = BOTH.collapse(joint)
    assert list(tables) == ["sex", "age", "sex and age"]
    assert tables["sex"].tolist() == [[0 + 2, 1 + 3], [4 + 6, 5 + 7]]
    assert tables["age"].tolist() == [[0 + 4, 1 + 5], [6, 7], [0, 0], [2, 3]]
    assert list(BOTH.collapse(joint, together="all")) == ["sex", "age", "all"]
    assert list(Alphabet((SEX,), np.array([[0], [1]])).collapse(joint[:2])) == ["sex"]


def test_best_guesses_by_hand() -> None:
    p_sx = np.array([[4.0, 1.0], [2.0, 0.0], [0.0, 2.0], [1.0, 0.0]]) / 10.0
    # Releasing nothing: blind. Releasing X itself: as good as the original.
    (sex, age, both) = best_guesses(BOTH, p_sx, np.ones((2, 1)))
    assert (sex.before, sex.after, sex.original) == pytest.approx((0.7, 0.7, 0.8))
    assert (age.before, age.after, age.original) == pytest.approx((0.7, 0.7, 0.7))
    assert both.name == "sex and age"
    assert (both.before, both.after, both.original) == pytest.approx((0.5, 0.5, 0.6))
    assert [guess.after for guess in best_guesses(BOTH, p_sx, np.eye(2))] == pytest.approx([0.8, 0.7, 0.6])
    assert float(blind_accuracy(p_sx)) == pytest.approx(0.5)


@pytest.mark.parametrize("largest", [3, 2**40])
def test_different_rows_are_found_in_order(largest: int) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (200, 4)) * np.array([1, 1, 1, largest // 3])
    found, place = distinct(codes)
    expected, where = np.unique(codes, axis=0, return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(place, where.reshape(-1))
    wide = np.repeat(codes, 3, axis=1) * (2**40 // largest)  # more combinations than numbers of 64 bits
    np.testing.assert_array_equal(distinct(wide)[0], np.unique(wide, axis=0))
