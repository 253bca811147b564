from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

import privfunnel as pf
from privfunnel.algorithms.dca import DCA, RepairedDCA, _objective
from privfunnel.algorithms.dca.steps import (
    Table,
    linearised,
    project_rows,
    published_step,
    repaired_step,
    target,
)
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.sweep import stationarity, uniform_starts
from privfunnel.errors import InvalidInputError


@pytest.fixture(scope="module")
def skewed() -> pf.Problem:
    return pf.instances.load("synthetic-skewed")


def ridge_by_slsqp(problem, q, alpha):
    """The regression of one run, solved by a method of its own: rows of P on the simplex."""
    a = problem.p_sx / problem.p_s[:, None]
    shape = (problem.n_x, q.shape[1])

    def value(flat):
        p = flat.reshape(shape)
        return np.sum((a @ p - q) ** 2) + alpha * np.sum(p**2)

    def slope(flat):
        p = flat.reshape(shape)
        return (2 * a.T @ (a @ p - q) + 2 * alpha * p).ravel()

    rows = np.kron(np.eye(shape[0]), np.ones(shape[1]))
    result = minimize(
        value, np.full(shape, 1 / shape[1]).ravel(), jac=slope, method="SLSQP", bounds=[(0, 1)] * (shape[0] * shape[1]),
        constraints=[{"type": "eq", "fun": lambda z: rows @ z - 1, "jac": lambda z: rows}],
        options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip
    return result.x.reshape(shape)


def test_ridge_step_solves_its_quadratic_program(skewed):
    rng = np.random.default_rng(0)
    table = Table.of(skewed.p_sx)
    start = uniform_starts(rng, 6, 3, 4)
    beta, alpha = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 10.0]), np.geomspace(0.01, 10, 6)
    new = published_step(table, start, beta, alpha, sparse=False)
    q = target(table, start, beta)
    for i in range(6):
        np.testing.assert_allclose(new[i], ridge_by_slsqp(skewed, q[i], alpha[i]), atol=2e-6)


def test_sparse_step_is_a_nonnegative_lasso(skewed):
    """min ‖A P − Q̂‖² + α ΣP over P ≥ 0 has the normal equations of a non-negative least-squares problem."""
    rng = np.random.default_rng(1)
    table = Table.of(skewed.p_sx)
    start, beta, alpha = uniform_starts(rng, 3, 3, 4), np.array([1.0, 2.0, 4.0]), np.array([0.01, 0.05, 0.2])
    new = published_step(table, start, beta, alpha, sparse=True)
    q = target(table, start, beta)
    a = table.x_given_s
    for i in range(3):
        shift = np.linalg.solve(a.T, np.full(3, 0.5 * alpha[i]))
        exact = np.stack([nnls(a, q[i][:, y] - shift)[0] for y in range(4)], axis=1)
        exact = np.clip(exact, 1e-8, 1 - 1e-8)
        np.testing.assert_allclose(new[i], exact / exact.sum(1, keepdims=True), atol=1e-4)


def test_target_meets_the_linearised_stationarity(skewed):
    """With B square the target solves Σ_s p(s|x) ln p(y|s) = C_xy + const_x exactly."""
    rng = np.random.default_rng(2)
    table = Table.of(skewed.p_sx)
    channel, beta = uniform_starts(rng, 5, 3, 3), np.geomspace(2, 8, 5)
    difference = table.s_given_x.T @ np.log(target(table, channel, beta)) - linearised(table, channel, beta)
    assert np.ptp(difference, axis=2).max() < 1e-8


def test_published_converges_to_its_fixed_points(skewed):
    rng = np.random.default_rng(3)
    solver = DCA(tolerance=1e-15, max_steps=3000)
    beta, alpha = np.repeat(np.array([1.5, 2.5, 4.0]), 4), np.tile(np.array([0.02, 0.1, 0.5, 2.0]), 3)
    channel, converged, _ = solver.run(skewed, uniform_starts(rng, 12, 3, 3), beta, alpha)
    assert converged.all()
    table = Table.of(skewed.p_sx)
    q = target(table, channel, beta)
    for i in range(12):
        again = np.clip(ridge_by_slsqp(skewed, q[i], alpha[i]), 1e-8, 1)
        np.testing.assert_allclose(channel[i], again / again.sum(1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize("inner_steps", [1, 7])
def test_every_repaired_step_descends(skewed, inner_steps):
    rng = np.random.default_rng(4)
    table = Table.of(skewed.p_sx)
    channel, beta = uniform_starts(rng, 40, 3, 4), np.tile(np.geomspace(1, 200, 10), 4)
    value = _objective(skewed, channel, beta)
    for _ in range(50):
        channel = repaired_step(table, channel, beta, inner_steps)
        new = _objective(skewed, channel, beta)
        assert (new <= value + 1e-12 * beta).all()
        value = new


def test_repaired_converges_to_stationary_points(skewed):
    rng = np.random.default_rng(5)
    beta = np.tile(np.geomspace(1.2, 6, 10), 3)
    channel, converged, _ = RepairedDCA().run(skewed, uniform_starts(rng, 30, 3, 4), beta)
    assert converged.all()
    assert stationarity(skewed.p_sx, channel, beta).max() < 1e-5


def test_projection_onto_the_simplex():
    rng = np.random.default_rng(6)
    z = rng.normal(size=(50, 4, 6)) * 3
    p = project_rows(z)
    np.testing.assert_allclose(p.sum(-1), 1.0, atol=1e-12)
    assert (p >= 0).all()
    # Optimality: z − p is constant on the support and no larger outside it.
    gap = z - p
    level = np.where(p > 0, gap, np.inf).min(-1, keepdims=True)
    assert (np.abs(np.where(p > 0, gap - level, 0)) < 1e-12).all()
    assert (gap <= level + 1e-12).all()


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (DCA, {"alphas": (0.05, 0.2)}),
        (DCA, {"alphas": (0.05, 0.2), "penalty": "sparse"}),
        (RepairedDCA, {}),
    ],
)
def test_solve_meets_the_disclosure_and_is_seeded(skewed, cls, options):
    small = {"betas": (1.5, 4.0), "outputs": (3,), "restarts": 2, "refine": 1, "max_steps": 40, **options}
    solver = cls(time_limit=math.inf, **small)
    for share in (0.2, 0.8):
        asked = share * skewed.disclosure_ceiling
        first = pf.solve(skewed, disclosure=asked, solver=solver, throw=False)
        again = pf.solve(skewed, disclosure=asked, solver=solver, throw=False)
        assert first.disclosure >= asked - 1e-9
        assert first.leakage <= skewed.upper_bound(asked) + 1e-9
        np.testing.assert_array_equal(first.channel, again.channel)
        assert "dca (" in first.message


def test_rank_deficient_tables_and_zeros_give_no_nan():
    for table in ([[5, 0, 3], [0, 2, 0], [10, 0, 6]], [[4, 0], [0, 3], [2, 1]]):
        problem = pf.Problem(table)
        asked = 0.5 * problem.disclosure_ceiling
        for cls, options in (
            (DCA, {"alphas": (0.1,)}),
            (DCA, {"penalty": "sparse", "alphas": (0.1,)}),
            (RepairedDCA, {}),
        ):
            solution = pf.solve(
                problem,
                disclosure=asked,
                solver=cls(betas=(2.0, 8.0), restarts=2, max_steps=100, **options),
                throw=False,
            )
            assert np.isfinite(solution.channel).all()
            assert solution.disclosure >= asked - 1e-9


def test_a_passed_deadline_stops_the_runs(skewed):
    start = uniform_starts(np.random.default_rng(0), 3, 3, 3)
    channel, _, steps = DCA().run(skewed, start, np.full(3, 2.0), np.ones(3), Deadline(1e-9))
    assert not steps.any()
    np.testing.assert_array_equal(channel, start)
    assert "cut by the time limit" in DCA(time_limit=1e-9).solve(skewed, 0.4).message


@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_that_the_time_limit_cuts_is_not_taken(skewed, sparse):
    table, start = Table.of(skewed.p_sx), uniform_starts(np.random.default_rng(0), 3, 3, 3)
    arguments = (table, start, np.full(3, 2.0), np.ones(3))
    assert published_step(*arguments, sparse=sparse, deadline=Deadline(0.0)) is None
    assert published_step(*arguments, sparse=sparse, deadline=Deadline(3600.0)) is not None


def test_two_products_do_what_the_gram_matrix_does():
    p_sx = np.random.default_rng(0).dirichlet(np.ones(2 * 300)).reshape(2, 300)
    table = Table.of(p_sx)
    assert table.gram is None
    channel = uniform_starts(np.random.default_rng(1), 2, 300, 3)
    np.testing.assert_allclose(
        table.squared(channel), table.x_given_s.T @ table.x_given_s @ channel, rtol=1e-12
    )


def test_progress_is_told(skewed):
    news = []
    solver = DCA(betas=(2.0,), alphas=(0.1,), restarts=1, max_steps=50)
    assert list(solver.trace(skewed, [0.4], progress=news.append))
    assert news[-1].done == news[-1].total == 3


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (DCA, {"penalty": "lasso"}), (DCA, {"betas": (0.0,)}), (DCA, {"alphas": (-1.0,)}), (DCA, {"alphas": ()}),
        (DCA, {"outputs": (1,)}), (DCA, {"outputs": ()}), (DCA, {"restarts": 0}), (DCA, {"tolerance": -1.0}),
        (DCA, {"refine": -1}), (RepairedDCA, {"inner_steps": 0}), (RepairedDCA, {"betas": ()}),
    ],
)  # fmt: skip
def test_options_are_checked(cls, options):
    with pytest.raises(InvalidInputError, match=f"{cls.name}: {next(iter(options))}"):
        cls(**options)


def test_variants_are_siblings_with_names_of_their_own():
    assert (DCA().name, RepairedDCA().name) == ("dca", "dca-repaired")
    assert not issubclass(RepairedDCA, DCA)
    assert not hasattr(RepairedDCA(), "penalty")
