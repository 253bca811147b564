"""Perfect privacy with two private symbols: the closed form is the linear program's answer, and is proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel.algorithms.binary.pairing import join
from privfunnel.algorithms.binary.table import binary_table
from privfunnel.algorithms.binary.transport import (
    free_pairs,
    north_west,
    potentials,
    split,
    unit_cost,
    worst_violation,
)
from privfunnel.algorithms.perfect import free_disclosure
from privfunnel.errors import InvalidInputError
from strategies import problems

Table = np.ndarray[Any, Any]


def beta_table(seed: int, n_x: int, shape: tuple[float, float] = (1.0, 1.0), evenness: float = 1.0) -> Table:
    """p(s, x) of shape (2, M) with beta-distributed p(s=1|x) and Dirichlet p(x)."""
    rng = np.random.default_rng(seed)
    p_x, pi = rng.dirichlet(np.full(n_x, evenness)), rng.beta(*shape, size=n_x)
    table = np.stack([p_x * (1.0 - pi), p_x * pi])[:, p_x > 1e-12]
    return table / table.sum()


@pytest.mark.parametrize("n_x", [2, 3, 7, 15, 40])
@pytest.mark.parametrize(("shape", "evenness"), [((1.0, 1.0), 1.0), ((0.5, 2.0), 0.3), ((0.2, 0.2), 1.0)])
def test_the_closed_form_is_the_optimum_of_the_linear_program(
    n_x: int, shape: tuple[float, float], evenness: float
) -> None:
    problem = pf.Problem(beta_table(n_x, n_x, shape, evenness))
    closed, program = free_pairs(problem.p_sx), free_disclosure(problem)
    assert program.proved
    assert closed.disclosure == pytest.approx(program.disclosure, abs=1e-9)
    assert closed.leakage <= 1e-15
    assert 0.0 <= closed.upper - closed.disclosure <= 1e-10


def test_counts_with_many_equal_columns_agree_with_the_linear_program() -> None:
    rng = np.random.default_rng(5)
    problem = pf.Problem(rng.poisson(1.5, size=(2, 60)))
    closed = free_pairs(problem.p_sx)
    assert closed.disclosure == pytest.approx(free_disclosure(problem).disclosure, abs=1e-9)


@given(problem=problems(min_s=2, max_s=2, min_x=2, max_x=9))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_release_is_a_channel_that_leaks_nothing_and_its_point_is_the_problems_own(
    problem: pf.Problem,
) -> None:
    if problem.n_s != 2:
        return
    free = free_pairs(problem.p_sx)
    channel = free.release.channel(problem.n_x).toarray()
    assert np.allclose(channel.sum(axis=1), 1.0, atol=1e-14)
    assert (channel > 0.0).sum(axis=0).max() <= 2
    point = problem.evaluate(channel)
    assert point.leakage <= 1e-12
    assert point.disclosure == pytest.approx(free.disclosure, abs=1e-12)
    assert free.disclosure <= free.upper <= free.disclosure + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_from_the_staircase_is_no_better_than_a_look_at_all_pairs(seed: int) -> None:
    table = beta_table(seed, 50)
    p_x, sides = table.sum(axis=0), split(table)
    stairs = north_west(p_x[sides.below] * sides.u, p_x[sides.above] * sides.v)
    phi, psi = potentials(sides, stairs)
    rng = np.random.default_rng(seed)
    for size in (0.0, 1e-9, 1e-3):
        moved = phi + size * rng.normal(size=phi.size)
        u, v = sides.u[:, None], sides.v[None, :]
        over = (moved[:, None] + psi[None, :] - unit_cost(u, v)) * u * v / (u + v)
        assert over.max() <= worst_violation(sides, stairs, moved, psi)


def test_the_mixed_difference_of_the_cost_has_the_sign_the_proof_needs() -> None:
    rng = np.random.default_rng(0)
    u, v = np.sort(rng.random((2, 1000)), axis=0), np.sort(rng.random((2, 1000)), axis=0)
    mixed = unit_cost(u[1], v[1]) + unit_cost(u[0], v[0]) - unit_cost(u[0], v[1]) - unit_cost(u[1], v[0])
    assert (mixed > 0.0).all()


def test_a_hundred_thousand_symbols_take_no_loop() -> None:
    free = free_pairs(beta_table(1, 100_000, (0.5, 2.0)))
    assert free.leakage <= 1e-14
    assert free.upper - free.disclosure <= 1e-7
    assert free.release.channel(100_000).shape == (100_000, free.release.n_y)


@given(seed=st.integers(0, 10_000), n_x=st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_a_table_where_s_is_independent_is_released_whole(seed: int, n_x: int) -> None:
    p_x = np.random.default_rng(seed).dirichlet(np.ones(n_x))
    free = free_pairs(np.outer([0.3, 0.7], p_x))
    assert free.disclosure == pytest.approx(free.upper, abs=1e-12)
    assert free.release.n_y == n_x


def test_sharing_two_releases_averages_both_numbers() -> None:
    table = beta_table(3, 12)
    free = free_pairs(table).release
    told = free_pairs(np.outer([0.5, 0.5], table.sum(axis=0))).release  # every symbol alone
    assert join([(1.0, free), (1e-15, told)]).n_y == free.n_y  # rounding is no share of the time
    mixed, parts = join([(0.25, free), (0.75, told)]).point(table), (free.point(table), told.point(table))
    assert mixed.disclosure == pytest.approx(
        0.25 * parts[0].disclosure + 0.75 * parts[1].disclosure, abs=1e-13
    )
    assert mixed.leakage == pytest.approx(0.25 * parts[0].leakage + 0.75 * parts[1].leakage, abs=1e-13)


def test_equal_columns_up_to_rounding_are_one_class() -> None:
    counts = np.array([[2.0, 4.0, 1.0, 0.0, 3.0], [1.0, 2.0, 1.0, 5.0, 0.0]])
    classes = binary_table(counts / counts.sum())
    assert classes.pi == pytest.approx([0.0, 1 / 3, 0.5, 1.0])
    assert classes.rho == pytest.approx([1.0, 2 / 3, 0.5, 0.0])
    assert classes.class_of.tolist() == [1, 1, 2, 3, 0]
    assert classes.mass.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [np.ones((3, 4)), np.ones(4), [[1.0, 0.0], [1.0, 0.0]], [[-1.0], [2.0]]])
def test_other_tables_are_refused_with_advice(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="p_sx has"):
        free_pairs(bad)
