"""R₀ with three private symbols, by triangles around p(s): against lists of vertices, and with too little time."""

from __future__ import annotations

import math

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms import perfect
from privfunnel.algorithms.deadline import Limits
from privfunnel.algorithms.perfect import triangles
from privfunnel.algorithms.perfect.equations import PrivateEquations
from privfunnel.algorithms.perfect.program import MixtureProgram
from privfunnel.certificate import private_triangles
from privfunnel.errors import SolverError
from privfunnel.measures import entropy

pytest.importorskip("numba", reason="triangles are compiled: install privfunnel[fast]")


def table(seed: int, n_x: int, most: int) -> pf.Problem:
    """Small counts: many symbols lie on a line with p(s), some at it."""
    counts = np.random.default_rng(seed).integers(0, most, (3, n_x)).astype(float)
    counts[:, 0] = counts[:, 1:].sum(axis=1) + 1.0  # about p(s) itself
    counts[:, 1] = 1.0
    return pf.Problem(counts[:, counts.sum(axis=0) > 0.0])


def plane_of(problem: pf.Problem) -> triangles.Plane:
    return triangles.plane_of(problem.p_s_given_x, problem.p_x, problem.p_sx)


@pytest.mark.parametrize(
    ("seed", "n_x", "most"), [(0, 9, 3), (1, 14, 4), (2, 18, 9), (3, 25, 60), (4, 16, 2)]
)
def test_triangles_prove_what_a_list_of_all_vertices_says(seed: int, n_x: int, most: int) -> None:
    problem = table(seed, n_x, most)
    equations = PrivateEquations.of(problem.p_s_given_x, problem.p_x, problem.p_sx)
    vertices = equations.vertices()[0]
    listed, found = MixtureProgram(problem.p_x), MixtureProgram(problem.p_x)
    listed.add(vertices)
    found.add(problem.p_x[None, :])
    slack, _ = triangles.generate(found, plane_of(problem), Limits(60.0, nodes=1))
    value, best = found.solve()[0], listed.solve()[0]
    assert slack <= 1e-6
    assert value - slack - 1e-9 <= best <= value + 1e-9
    assert np.abs(found.pool @ problem.p_s_given_x.T - problem.p_s).max() < 1e-9
    # At any prices the least of all vertices is known, none is missed and nothing is below them.
    for prices in np.random.default_rng(seed).normal(1.0, 1.0, (5, problem.n_x)):
        least = min(0.0, float((entropy(vertices) - vertices @ prices).min()))
        assert least - 1e-7 <= triangles.least(plane_of(problem), prices, Limits(60.0, nodes=1)) <= least


def test_symbols_on_a_line_through_the_centre_are_pairs() -> None:
    problem = pf.Problem(
        [[2, 4, 3, 3, 3], [4, 2, 3, 5, 1], [3, 3, 3, 1, 5]]
    )  # all sums alike, p(s) in the middle
    first, second, share = private_triangles.pairs_of(plane_of(problem))
    assert {frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)} == {
        frozenset({0, 1}),
        frozenset({3, 4}),
    }
    assert share == pytest.approx(np.full(2, 0.5))
    limits = Limits(60.0, nodes=1)
    for rich in ([0, 1], [3, 4], [2]):  # prices that only the pair, or the symbol at p(s), is worth
        prices = np.full(5, -1.0)
        prices[rich] = 2.0
        gain = 2.0 - math.log(len(rich))
        assert triangles.least(plane_of(problem), prices, limits) == pytest.approx(-gain, abs=1e-7)


@pytest.mark.slow
def test_the_free_disclosure_of_three_private_symbols_is_proved_where_vertices_are_too_many_to_list() -> None:
    rng = np.random.default_rng(7)
    problem = pf.Problem(rng.dirichlet(np.full(3, 3.0), 115).T * rng.geometric(0.1, 115))
    free = perfect.free_disclosure(problem, seconds=120.0)
    assert free.proved
    assert problem.evaluate(free.channel).leakage < 1e-12
    assert free.disclosure <= free.upper


def test_without_time_triangles_prove_nothing_and_spoil_nothing() -> None:
    problem = table(2, 18, 9)
    assert triangles.least(plane_of(problem), problem.p_x, Limits(0.0, nodes=1)) == -math.inf
    found = MixtureProgram(problem.p_x)
    found.add(problem.p_x[None, :])
    assert triangles.generate(found, plane_of(problem), Limits(0.0, nodes=1))[0] == math.inf
    assert found.solve()[0] <= problem.disclosure_ceiling


def test_only_planes_are_for_triangles() -> None:
    rows, some = np.ones((3, 200)), Limits(1.0, nodes=1)
    assert triangles.is_for(rows, some)
    assert not triangles.is_for(np.ones((4, 200)), some)
    assert not triangles.is_for(np.ones((3, triangles.MOST_SYMBOLS + 1)), some)
    assert not triangles.is_for(rows, Limits(1.0, nodes=0))  # a proof was not asked for


def test_a_program_that_hears_its_limit_goes_on_from_what_it_solved_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, heard = MixtureProgram(np.array([0.5, 0.5])), []
    program.add(np.array([[0.5, 0.5]]))
    value, weights, prices = program.solve()
    program.add(np.eye(2))
    monkeypatch.setattr(
        "privfunnel.algorithms.perfect.program.run_until", lambda _, limit: heard.append(limit)
    )
    late = Limits(0.0, nodes=0)
    again = program.solve(late)
    assert heard == [late]
    assert again[0] == value == pytest.approx(math.log(2.0))
    assert again[1].tolist() == [*weights.tolist(), 0.0, 0.0]
    assert again[2].tolist() == prices.tolist()
    new = MixtureProgram(np.array([0.5, 0.5]))
    new.add(np.eye(2))
    with pytest.raises(SolverError):
        new.solve(late)


def test_a_program_forgets_posteriors_and_finds_them_again() -> None:
    program = MixtureProgram(np.array([0.5, 0.5]))
    program.add(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]))
    assert program.solve()[0] == pytest.approx(0.0)
    program.keep(np.array([0]))
    assert program.solve()[0] == pytest.approx(math.log(2.0))
    assert program.add(np.eye(2)) == 2
