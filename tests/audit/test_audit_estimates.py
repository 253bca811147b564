"""What an audit's numbers are made of: estimates against known truths, and attackers who learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfunnel import measures
from privfunnel.audit import attacker, estimates

pytest.importorskip("sklearn")


# --- estimates --------------------------------------------------------------------------------------------------


def test_corrected_information_and_its_interval_cover_the_truth() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(24, 1.0)).reshape(4, 6)
    truth = float(measures.mutual_information(p))
    covered, plug_in, corrected = 0, [], []
    for _ in range(100):
        counts = rng.multinomial(2000, p.ravel()).reshape(p.shape).astype(float)
        draws = estimates.resample(counts, 2000, 100, rng)
        estimate = estimates.information(counts, draws, null=np.zeros(0))
        covered += truth in estimate
        plug_in.append(estimate.plug_in)
        corrected.append(estimate.corrected)
    assert covered >= 88  # 95 on average; below 88 once in a thousand
    assert abs(np.mean(corrected) - truth) < abs(np.mean(plug_in) - truth)


@pytest.mark.parametrize("higher", [True, False])
def test_rows_that_are_not_independent_are_corrected_by_what_resampling_adds(higher: bool) -> None:
    counts = np.array([[40.0, 10.0], [10.0, 40.0]])
    plain = counts / 100.0
    moved = np.array([[0.02, -0.02], [-0.02, 0.02]]) * (1.0 if higher else -1.0)
    estimate = estimates.information(counts, [plain, plain + moved], null=np.zeros(0), independent=False)
    plug_in, drawn = (float(measures.mutual_information(p)) for p in (plain, plain + moved))
    assert estimate.plug_in == pytest.approx(plug_in)
    assert estimate.corrected == pytest.approx(plug_in - max((drawn - plug_in) / 2.0, 0.0))


def test_independent_columns_show_no_leakage_beyond_chance() -> None:
    rng = np.random.default_rng(1)
    p = np.outer(rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(8)))
    small, above = 0, 0
    for _ in range(40):
        counts = rng.multinomial(1000, p.ravel()).reshape(p.shape).astype(float)
        estimate = estimates.information(
            counts, estimates.resample(counts, 1000, 50, rng), null=estimates.permuted(counts, 99, rng)
        )
        above += estimate.low > 0.0
        assert estimate.null_mean == pytest.approx(measures.miller_madow_bias(5, 8, 1000), rel=0.25)
        small += estimate.p_value is not None and estimate.p_value <= 0.05
    # 2 of each on average; more than 7 once in a thousand.
    assert small <= 7
    assert above <= 7


def test_wilson_interval_matches_a_known_value() -> None:
    share = estimates.proportion(50, 100)
    assert (share.low, share.high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert estimates.proportion(0, 10).low == 0.0


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=2, max_size=4))
def test_worst_case_measures_bound_the_average(rows: list[list[int]]) -> None:
    counts = np.array(rows, dtype=float)
    counts = counts[counts.sum(axis=1) > 0]
    if counts.size == 0:
        return
    p = counts / counts.sum()
    information = float(measures.mutual_information(p))
    assert information <= float(measures.maximal_leakage(p)) + 1e-12
    assert information <= float(estimates.max_log_lift(p)) + 1e-12
    assert float(estimates.max_log_lift(p)) <= float(estimates.local_information_privacy(p))


def test_a_symbol_that_rules_a_value_out_has_infinite_epsilon() -> None:
    p = np.array([[0.5, 0.0], [0.25, 0.25]])
    assert np.isinf(estimates.local_information_privacy(p))
    assert float(estimates.max_log_lift(p)) == pytest.approx(np.log(2.0))


# --- the attacker -----------------------------------------------------------------------------------------------


def test_the_attacker_finds_what_is_there_and_nothing_that_is_not() -> None:
    rng = np.random.default_rng(2)
    target = np.array([0, 1])
    features = np.arange(4)[:, None]
    telling = np.array([[400.0, 50.0, 40.0, 10.0], [10.0, 40.0, 50.0, 400.0]])
    best = float(measures.guessing_accuracy(telling / telling.sum()))
    assert best in attacker.score(telling, features, target, size=5000, rng=rng).accuracy
    silent = np.full((2, 4), 250.0)
    assert attacker.score(silent, features, target, size=5000, rng=rng).accuracy.low < 0.5
    assert attacker.prior(telling, target).value == 0.5


def test_the_attacker_copes_with_rare_and_single_classes() -> None:
    rng = np.random.default_rng(3)
    counts = np.array([[30.0, 30.0], [1.0, 1.0]])
    assert (
        attacker.score(counts, np.arange(2)[:, None], np.array([0, 1]), size=1000, rng=rng).accuracy.value
        > 0.9
    )
    assert (
        attacker.score(counts, np.arange(2)[:, None], np.array([0, 0]), size=1000, rng=rng).accuracy.value
        == 1.0
    )


def test_sampled_rows_keep_the_counts_or_their_share() -> None:
    rng = np.random.default_rng(4)
    counts = np.array([[3.0, 0.0], [1.0, 2.0]])
    a, b = attacker.sample_rows(counts, 100, rng)
    table = np.zeros((2, 2))
    np.add.at(table, (a, b), 1.0)
    np.testing.assert_array_equal(table, counts)
    assert len(attacker.sample_rows(counts * 100, 50, rng)[0]) == 50
