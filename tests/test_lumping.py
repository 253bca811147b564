"""Exact lumping: classes of equal p(s|x), the curve on classes, and the channel lifted back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import privfunnel as pf
from privfunnel.lumping import lump
from privfunnel.measures import mutual_information


def repeated(seed: int, n_s: int = 3, n_columns: int = 4, n_x: int = 9) -> pf.Problem:
    """Counts whose columns are multiples of a few columns, so that classes have several members."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 5, (n_s, n_columns))
    columns[0, columns.sum(axis=0) == 0] = 1
    return pf.Problem(columns[:, rng.integers(0, n_columns, n_x)] * rng.integers(1, 6, n_x))


def test_counts_decide_equality_exactly() -> None:
    problem = pf.Problem([[1, 2, 10**9, 3, 0], [2, 4, 2 * 10**9 + 1, 6, 7]])
    assert lump(problem).classes.tolist() == [0, 0, 1, 0, 2]


def test_probabilities_are_equal_within_rounding() -> None:
    p_s_given_x = np.array([[0.1, 0.7, 0.1, 0.1 + 1e-9], [0.9, 0.3, 0.9, 0.9 - 1e-9]])
    problem = pf.Problem.from_conditional(p_s_given_x, [0.37, 0.21, 0.11, 0.31])
    assert lump(problem).classes.tolist() == [0, 1, 0, 2]


def test_nothing_to_lump_leaves_the_problem_alone() -> None:
    problem = pf.Problem([[1, 2], [2, 1]])
    lumping = lump(problem)
    assert lumping.trivial
    assert lumping.lumped is problem
    assert lumping.h_within == 0.0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_lifting_keeps_the_leakage_and_adds_the_entropy_within_classes(seed: int, share: float) -> None:
    problem = repeated(seed)
    lumping = lump(problem)
    rng = np.random.default_rng(seed)
    channel = rng.dirichlet(np.full(3, 0.5), size=lumping.n_classes)
    channel[rng.random(channel.shape) < share / 2] = 0.0
    channel[:, 0] += channel.sum(axis=1) == 0.0
    channel /= channel.sum(axis=1, keepdims=True)
    inner = lumping.lumped.evaluate(channel)
    lifted = lumping.lift(channel)
    outer = problem.evaluate(lifted.toarray())
    assert outer.leakage == pytest.approx(inner.leakage, abs=1e-12)
    assert outer.disclosure == pytest.approx(inner.disclosure + lumping.h_within, abs=1e-12)
    # A released symbol has one candidate for each class that its output can come from.
    assert np.diff(lifted.indptr).max() <= np.count_nonzero(channel, axis=0).max()


def test_the_entropies_of_classes_and_members_add_up() -> None:
    problem = repeated(5)
    lumping = lump(problem)
    assert lumping.n_classes < problem.n_x
    assert lumping.h_within + lumping.lumped.disclosure_ceiling == pytest.approx(
        problem.disclosure_ceiling, abs=1e-14
    )
    assert lumping.lumped.leakage_ceiling == pytest.approx(problem.leakage_ceiling, abs=1e-14)


@pytest.mark.parametrize("seed", range(12))
def test_the_curve_on_classes_is_the_curve(seed: int) -> None:
    problem = repeated(seed)
    lumping = lump(problem)
    for share in (0.5, 0.8, 0.95):
        disclosure = share * problem.disclosure_ceiling
        whole = pf.solve(problem, disclosure=disclosure, solver="global", gap=1e-8)
        classes = pf.solve(lumping.lumped, disclosure=lumping.inner(disclosure), solver="global", gap=1e-8)
        assert classes.leakage == pytest.approx(whole.leakage, abs=2e-8)


def test_the_information_of_a_sparse_table_is_that_of_the_dense_one() -> None:
    rng = np.random.default_rng(3)
    table = rng.random((7, 9)) * (rng.random((7, 9)) < 0.3)
    table /= table.sum()
    assert mutual_information(sparse.csc_array(table)) == pytest.approx(mutual_information(table), abs=1e-15)
