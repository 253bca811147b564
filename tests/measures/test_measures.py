from __future__ import annotations

import dit
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privfunnel import measures


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_entropy_agrees_with_scipy(seed: int, size: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(size))
    assert measures.entropy(p) == pytest.approx(stats.entropy(p), abs=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_kl_agrees_with_scipy(seed: int, size: int) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.ones(size), size=2)
    assert measures.kl_divergence(p, q) == pytest.approx(stats.entropy(p, q), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_mutual_information_agrees_with_dit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(12)).reshape(3, 4)
    if seed % 2:
        table[0, 1] = 0.0
        table /= table.sum()
    outcomes = [f"{a}{b}" for a in range(3) for b in range(4)]
    distribution = dit.Distribution(outcomes, table.ravel())
    expected = dit.shannon.mutual_information(distribution, [0], [1]) * measures.NATS_PER_BIT
    assert measures.mutual_information(table) == pytest.approx(expected, abs=1e-12)
    h_ab = dit.shannon.conditional_entropy(distribution, [0], [1]) * measures.NATS_PER_BIT
    assert measures.conditional_entropy(table) == pytest.approx(h_ab, abs=1e-12)


def test_conditional_information_is_the_mean_over_what_is_known() -> None:
    p_abc = np.random.default_rng(3).dirichlet(np.ones(24)).reshape(3, 4, 2)
    p_c = p_abc.sum(axis=(0, 1))
    given_c = np.moveaxis(p_abc / p_c, -1, 0)
    expected = float(measures.mutual_information(given_c) @ p_c)
    found = measures.conditional_information(p_abc.sum(axis=1), p_abc.reshape(3, 8))
    assert found == pytest.approx(expected, abs=1e-14)
    alike = p_abc.sum(axis=1)
    assert measures.conditional_information(alike, np.hstack([0.3 * alike, 0.7 * alike])) < 1e-15


def test_zeros_are_safe_and_exact() -> None:
    assert measures.entropy([1.0, 0.0]) == 0.0
    assert measures.mutual_information([[0.5, 0.0], [0.0, 0.5]]) == pytest.approx(np.log(2), abs=1e-15)
    assert measures.mutual_information([[1.0, 0.0], [0.0, 0.0]]) == 0.0
    assert measures.kl_divergence([0.0, 1.0], [0.5, 0.5]) == pytest.approx(np.log(2))
    assert measures.kl_divergence([0.5, 0.5], [0.0, 1.0]) == np.inf


def test_near_independence_keeps_its_accuracy() -> None:
    # I ≈ 2 d² for this table, far below what a difference of entropies could resolve relatively.
    d = 1e-6
    table = np.array([[0.25 + d, 0.25 - d], [0.25 - d, 0.25 + d]])
    assert measures.mutual_information(table) == pytest.approx(8 * d * d, rel=1e-3)


def test_batches_are_the_same_as_one_by_one() -> None:
    tables = np.random.default_rng(0).dirichlet(np.ones(20), size=(2, 3)).reshape(2, 3, 4, 5)
    batch = measures.mutual_information(tables)
    assert batch.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert batch[i, j] == measures.mutual_information(tables[i, j])
    assert measures.entropy(tables, axis=-2).shape == (2, 3, 5)
    assert measures.joint_entropy(tables).shape == (2, 3)


def test_bits() -> None:
    assert measures.to_bits(measures.entropy([0.5, 0.5]).item()) == pytest.approx(1.0)
