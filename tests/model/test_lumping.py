"""Exact lumping: classes of equal p(s|x), the curve on classes, and the channel lifted back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import privfunnel as pf
from forging import changed
from privfunnel.certificate import cell_columns, load_bundle, save_bundle
from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.measures import mutual_information
from privfunnel.model.equal_symbols import lump, lumping_in


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


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_a_thousand_tables_are_solved_alike_with_classes_and_without(first: int) -> None:
    """Every answer is proved to 1e-6 nats, so that two of one table differ by no more."""
    for seed in range(first, first + 100):
        rng = np.random.default_rng([seed, 1])
        problem = repeated(seed, *rng.integers((2, 2, 5), (5, 5, 10)).tolist())
        lumping, disclosure = lump(problem), rng.uniform(0.2, 0.99) * problem.disclosure_ceiling
        classes, whole = (pf.solve(problem, disclosure=disclosure, lump=each) for each in (True, False))
        assert lumping.n_classes < problem.n_x
        assert classes.status is whole.status is pf.Status.OPTIMAL
        assert classes.leakage == pytest.approx(whole.leakage, abs=1e-6)
        assert min(classes.disclosure, whole.disclosure) >= disclosure - 1e-9
        # What is free is what is free of the classes, and what tells their members apart.
        free = pf.free_disclosure(lumping.lumped) + lumping.h_within
        assert pf.free_disclosure(problem) == pytest.approx(free, abs=1e-9)


def test_the_information_of_a_sparse_table_is_that_of_the_dense_one() -> None:
    rng = np.random.default_rng(3)
    table = rng.random((7, 9)) * (rng.random((7, 9)) < 0.3)
    table /= table.sum()
    assert mutual_information(sparse.csc_array(table)) == pytest.approx(mutual_information(table), abs=1e-15)


def test_a_solution_of_classes_is_one_of_the_table() -> None:
    problem = repeated(7, n_x=14)
    lumping = lump(problem)
    wanted = 0.5 * (lumping.h_within + problem.disclosure_ceiling)
    solution = pf.solve(problem, disclosure=wanted, lump=True)
    assert solution.problem is problem
    assert solution.channel.shape[0] == problem.n_x
    assert (solution.disclosure, solution.leakage) == problem.evaluate(solution.channel)
    assert solution.disclosure >= wanted - 1e-9
    assert solution.status is pf.Status.OPTIMAL
    alone = pf.solve(problem, disclosure=wanted)
    assert solution.leakage == pytest.approx(alone.leakage, abs=2e-6)
    assert solution.certificate is not None
    assert solution.certificate.body.cells is not None
    assert alone.certificate is not None
    assert alone.certificate.body.cells is None


def test_a_certificate_of_classes_is_checked_from_the_whole_table() -> None:
    problem = next(
        p
        for p in map(repeated, range(50))
        if pf.solve(p, disclosure=0.9 * p.disclosure_ceiling, lump=True).certificate
    )
    proof = pf.solve(problem, disclosure=0.9 * problem.disclosure_ceiling, lump=True).certificate
    assert proof is not None
    assert proof.body.cells is not None
    assert proof.body.prices.shape == (problem.n_x,)
    proof.verify(problem)
    # A symbol in another's cell: its column is not that of the cell, and the bound is recomputed with what it is.
    moved = proof.body.cells.copy()
    moved[np.flatnonzero(moved == moved[0])[-1]] = proof.body.cells.max()
    prices = proof.body.prices[np.unique(proof.body.cells, return_index=True)[1]][moved]
    for forged in (
        changed(proof, cells=moved),
        changed(proof, cells=moved, prices=prices, intercept=proof.intercept + 1e-3),
        changed(proof, cells=proof.body.cells[:-1]),
        changed(proof, cells=proof.body.cells + np.int32(1)),
        changed(proof, cells=proof.body.cells.astype(np.int64)),
        changed(proof, cells=None),
    ):
        with pytest.raises(CertificateError):
            forged.verify(problem)


def test_cells_of_different_columns_prove_a_lower_but_valid_line() -> None:
    rng = np.random.default_rng(11)
    columns = rng.dirichlet([2.0, 1.0, 1.0], size=4).T
    near = np.repeat(columns, 3, axis=1) * rng.uniform(0.98, 1.02, (3, 12))
    problem = pf.Problem.from_conditional(near / near.sum(axis=0), np.full(12, 1 / 12))
    cells = np.repeat(np.arange(4, dtype=np.int32), 3)
    highest, one_class = cell_columns(problem.p_s_given_x, cells)
    assert not one_class
    assert (highest[:, cells] >= problem.p_s_given_x).all()
    assert (highest[:, cells] <= problem.p_s_given_x * 1.1).all()


def test_a_curve_of_classes_goes_to_a_file_and_back(tmp_path: Path) -> None:
    problem = repeated(7, n_x=14)
    curve = pf.trace(problem, points=7, lump=True)
    assert lumping_in(curve.solutions[3].mapping) is not None
    assert curve.disclosure == pytest.approx(np.linspace(0.0, problem.disclosure_ceiling, 7), abs=1e-8)
    curve.save(tmp_path / "curve.json")
    again = pf.Curve.load(tmp_path / "curve.json")
    between = 0.61 * problem.disclosure_ceiling
    assert again.at(between).leakage == pytest.approx(curve.at(between).leakage, abs=1e-12)
    # Rows of channels are made to sum to 1 once more on reading.
    assert again.leakage == pytest.approx(curve.leakage, abs=1e-15)
    save_bundle(tmp_path / "proofs.npz", curve.certificates)
    for proof in load_bundle(tmp_path / "proofs.npz"):
        proof.verify(problem)
    solution = curve.at(between)
    solution.save(tmp_path / "solution.json")
    assert pf.Solution.load(tmp_path / "solution.json").leakage == solution.leakage


def test_a_wide_channel_is_sparse_and_evaluated_as_it_is() -> None:
    rng = np.random.default_rng(2)
    columns = rng.integers(1, 9, (2, 40))
    problem = pf.Problem(columns[:, rng.integers(0, 40, 4000)] * rng.integers(1, 50, 4000))
    wanted = 0.97 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=wanted)
    assert sparse.issparse(solution.channel)
    point = problem.evaluate(solution.channel)
    assert point.disclosure == pytest.approx(solution.disclosure, abs=1e-9)
    assert point.leakage == pytest.approx(solution.leakage, abs=1e-9)
    assert solution.p_y.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.diff(solution.p_x_given_y.indptr).max() <= 2


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        (sparse.csc_array([[0.5, 0.5], [1.0, 0.5]]), "row 1 of the channel sums to 1.5"),
        (sparse.csc_array([[1.5, -0.5], [1.0, 0.0]]), "channel has the entry -0.5"),
    ],
)
def test_a_sparse_table_that_is_no_channel_is_refused(channel: sparse.csc_array, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        pf.Problem([[1, 2], [3, 4]]).evaluate(channel)


def test_what_members_disclose_beyond_their_class_is_free() -> None:
    problem = repeated(3, n_s=4, n_columns=6, n_x=30)
    lumping = lump(problem)
    assert pf.free_disclosure(problem) == pytest.approx(
        lumping.h_within + pf.free_disclosure(lumping.lumped), abs=1e-12
    )
    rank = np.linalg.matrix_rank(problem.p_s_given_x)
    assert pf.free_disclosure(problem) >= problem.disclosure_ceiling - np.log(rank) - 1e-9
