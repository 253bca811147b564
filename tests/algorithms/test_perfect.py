"""Perfect privacy: exact zeros, the right R0, with and without a list of all vertices."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy.optimize import linprog

import privfunnel as pf
from privfunnel.algorithms import deadline
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.algorithms.perfect import free_disclosure, polytope
from privfunnel.algorithms.perfect.too_large import most_free
from privfunnel.certificate.answer import Status
from privfunnel.errors import InvalidInputError, SolverError
from privfunnel.measures import entropy
from strategies import problems


def brute_force(problem: pf.Problem) -> float:
    """R0 from all supports of up to K symbols, each solved by least squares, and SciPy's linear program."""
    vertices = [problem.p_x]
    p, target = problem.p_s_given_x, problem.p_s
    for size in range(1, min(problem.n_s, problem.n_x) + 1):
        for support in itertools.combinations(range(problem.n_x), size):
            part = p[:, support]
            w, *_ = np.linalg.lstsq(part, target, rcond=None)
            if w.min() >= -1e-12 and np.abs(part @ w - target).max() < 1e-10:
                vertex = np.zeros(problem.n_x)
                vertex[list(support)] = np.maximum(w, 0.0)
                vertices.append(vertex / vertex.sum())
    pool = np.array(vertices)
    result = linprog(entropy(pool), A_eq=pool.T, b_eq=problem.p_x, method="highs")
    assert result.status == 0
    return problem.disclosure_ceiling - float(result.fun)


@pytest.mark.parametrize("seed", range(8))
def test_r0_agrees_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_s, n_x = int(rng.integers(2, 4)), int(rng.integers(4, 8))
    problem = pf.Problem(rng.dirichlet(np.ones(n_s * n_x)).reshape(n_s, n_x))
    free = free_disclosure(problem)
    assert free.proved
    assert free.disclosure == pytest.approx(brute_force(problem), abs=1e-8)
    assert problem.evaluate(free.channel).leakage <= 1e-12


def test_heart_failure_reference() -> None:
    problem = pf.instances.load("heart-failure", perturbation="probabilities")
    assert pf.free_disclosure(problem) == pytest.approx(1.5785220, abs=1e-7)
    solution = pf.solve(problem, disclosure=1.5641, solver="perfect")
    assert solution.leakage <= 1e-12
    assert solution.disclosure == pytest.approx(1.5641, abs=1e-9)
    assert solution.status is pf.Status.OPTIMAL


@given(problem=problems(max_s=4, max_x=6))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_leaks(problem: pf.Problem) -> None:
    free = free_disclosure(problem)
    point = problem.evaluate(free.channel)
    assert point.leakage <= 1e-12
    assert point.disclosure == free.disclosure
    assert free.channel.shape[1] <= problem.n_x + 1
    assert 0.0 <= free.disclosure <= most_free(problem) <= problem.h_x_given_s + 1e-9


def test_components_are_released_side_by_side() -> None:
    """R0 of a block problem is the average of its blocks' R0, for the component must not show."""
    rng = np.random.default_rng(0)
    one = pf.Problem(rng.dirichlet(np.ones(10)).reshape(2, 5))
    two = pf.Problem(rng.dirichlet(np.ones(12)).reshape(3, 4))
    table = np.zeros((5, 9))
    table[:2, :5], table[2:, 5:] = 0.3 * one.p_sx, 0.7 * two.p_sx
    whole = free_disclosure(pf.Problem(table))
    expected = 0.3 * pf.free_disclosure(one) + 0.7 * pf.free_disclosure(two)
    assert whole.disclosure == pytest.approx(expected, abs=1e-9)


def test_known_answers() -> None:
    independent = pf.Problem(np.outer([0.3, 0.7], [0.1, 0.2, 0.3, 0.4]))
    assert pf.free_disclosure(independent) == pytest.approx(independent.disclosure_ceiling, abs=1e-9)
    equal = pf.Problem(np.diag([0.2, 0.3, 0.5]))
    assert pf.free_disclosure(equal) == pytest.approx(0.0, abs=1e-12)
    # S a function of X: the rank inside a class is free as far as the classes can be lined up.
    function = pf.Problem([[0.25, 0.25, 0.0, 0.0], [0.0, 0.0, 0.25, 0.25]])
    assert pf.free_disclosure(function) == pytest.approx(np.log(2.0), abs=1e-9)


def test_census_falls_into_components() -> None:
    problem = pf.instances.load("census-income")
    free = free_disclosure(problem)
    assert free.proved
    assert problem.evaluate(free.channel).leakage <= 1e-12
    assert free.disclosure == pytest.approx(2.154848, abs=1e-5)


def test_generated_vertices_agree_with_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pf.instances.load("heart-failure")
    listed = free_disclosure(problem)
    monkeypatch.setattr(polytope, "MOST_SUPPORTS", 0)
    generated = free_disclosure(problem, seconds=60.0)
    assert generated.proved
    assert generated.disclosure == pytest.approx(listed.disclosure, abs=1e-6)
    assert problem.evaluate(generated.channel).leakage <= 1e-12
    assert len(generated.mixtures[0].vertices) < len(listed.mixtures[0].vertices)
    local = free_disclosure(problem, nodes=0)
    assert not local.proved
    assert local.disclosure <= listed.disclosure + 1e-9


def test_generating_vertices_counts_cpu_time_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that leaps by an hour at each look leaves no time to generate any, the other all it takes."""
    hours = itertools.count(0.0, 3600.0)
    leaping = SimpleNamespace(monotonic=lambda: next(hours), thread_time=time.thread_time)
    monkeypatch.setattr(deadline, "time", leaping)
    monkeypatch.setattr(polytope, "MOST_SUPPORTS", 0)
    problem = pf.instances.load("heart-failure")
    assert not free_disclosure(problem, seconds=60.0).proved
    with cpu_clock():
        assert free_disclosure(problem, seconds=60.0).proved


@pytest.mark.parametrize(("n_s", "n_x"), [(3, 100), (4, 46), (6, 22)])
def test_vertices_are_listed_only_where_there_is_time(
    n_s: int, n_x: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    problem = pf.Problem(rng.dirichlet(np.ones(n_s), size=n_x).T)
    equations = polytope.PrivateEquations.of(problem.p_s_given_x, problem.p_x)
    assert equations.n_supports < polytope.MOST_SUPPORTS
    seconds = polytope.listing_seconds(equations)
    monkeypatch.setattr(polytope.PrivateEquations, "vertices", None)
    with cpu_clock():
        free = free_disclosure(problem, seconds=0.5 * seconds, nodes=0)
        assert free.disclosure >= problem.disclosure_ceiling - np.log(n_s) - 1e-9
        with pytest.raises(TypeError):
            free_disclosure(problem, seconds=2.0 * seconds, nodes=0)


def test_too_many_vertices_to_list() -> None:
    rng = np.random.default_rng(1)
    problem = pf.Problem(rng.poisson(4.0, size=(6, 40)).astype(float))
    equations = polytope.PrivateEquations.of(problem.p_s_given_x, problem.p_x)
    assert equations.n_supports > polytope.MOST_SUPPORTS
    free = free_disclosure(problem, seconds=5.0, nodes=200)
    assert problem.evaluate(free.channel).leakage <= 1e-12
    assert free.disclosure > 0.3 * problem.disclosure_ceiling


@pytest.mark.parametrize("dependence", [1e-2, 1e-4, 1e-6])
def test_weak_dependence_leaves_as_much_free_as_strong(dependence: float) -> None:
    # P = t + ε D: the perfectly private posteriors are those of D, whatever ε, so that R0 does not depend on it.
    rng = np.random.default_rng(271)
    p_x = rng.dirichlet(np.ones(7))
    change = rng.standard_normal((4, 7))
    change -= change.mean(axis=0)
    change -= (change @ p_x)[:, None]

    def of(size: float) -> pf.Problem:
        return pf.Problem.from_conditional(0.25 + size * change, p_x)

    strong, weak = free_disclosure(of(0.05)), free_disclosure(of(dependence))
    assert strong.disclosure > 0.1
    assert weak.disclosure == pytest.approx(strong.disclosure, abs=1e-6)
    assert of(dependence).evaluate(weak.channel).leakage <= 1e-12


def test_a_program_that_cannot_be_solved_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: polytope.MixtureProgram, _deadline: object) -> None:
        raise SolverError("no")

    monkeypatch.setattr(polytope.MixtureProgram, "solve", fail)
    problem = pf.instances.load("heart-failure")
    free = free_disclosure(problem)
    rank = np.linalg.matrix_rank(problem.p_s_given_x)
    assert free.disclosure >= problem.disclosure_ceiling - np.log(rank) - 1e-9
    assert problem.evaluate(free.channel).leakage <= 1e-12
    assert not free.proved


def test_more_than_r0_is_infeasible() -> None:
    problem = pf.instances.load("heart-failure")
    with pytest.raises(SolverError, match=r"R0 = 1\.56263359"):
        pf.solve(problem, disclosure=2.0, solver="perfect")
    solution = pf.solve(problem, disclosure=2.0, solver="perfect", throw=False)
    assert solution.status is pf.Status.INFEASIBLE
    assert "proved largest" in solution.message


def test_a_budget_is_not_touched() -> None:
    problem = pf.instances.load("heart-failure")
    solution = pf.solve(problem, leakage=0.01, solver="perfect", throw=False)
    assert solution.leakage <= 1e-12
    assert solution.disclosure == pytest.approx(pf.free_disclosure(problem), abs=1e-9)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_bad_options(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="time_limit"):
        pf.algorithms.registry.get("perfect", time_limit=value)


@pytest.mark.slow
def test_a_budget_of_nothing_claims_no_more_than_is_proved_of_what_is_free() -> None:
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.dirichlet(np.full(4, 0.8), size=90).T * rng.pareto(1.5, size=90) * 20.0 + 0.05)
    problem = pf.Problem(counts[:, counts.sum(axis=0) > 0])
    solution = pf.solve(problem, leakage=0.0, time_limit=0.5, throw=False)
    assert solution.disclosure_upper_bound is not None
    told = np.log((problem.p_s_given_x / problem.p_s[:, None]).max(axis=0)) @ problem.p_x
    assert solution.disclosure_upper_bound <= problem.disclosure_ceiling - told + 1e-9
    proved = solution.disclosure_upper_bound - solution.disclosure <= 2e-6
    assert (solution.status is Status.OPTIMAL) == proved
