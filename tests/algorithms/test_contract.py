"""What every solver promises, whatever its algorithm: run over every registered solver and instance."""

from __future__ import annotations

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver, TimeLimited
from privfunnel.certificate.answer import Status
from privfunnel.errors import MissingExtraError, SolverError
from privfunnel.model.question import FEASIBILITY, ROUNDING
from privfunnel.solving.solution import Solution
from toys import QUICK

#: Solvers whose cost forbids a public alphabet of this size, with the largest one they accept.
LARGEST: dict[str, int] = {"deterministic": 10, "ipopt": 49, "slsqp": 38}

SOLVERS = registry.names()
INSTANCES = ("synthetic-uniform", "synthetic-skewed", "heart-failure", "census-income")
ENDED = (Status.INFEASIBLE, Status.FAILED)


def fitted(name: str, instance: str) -> pf.Problem:
    """An instance; for a solver that wants two private symbols, with all but the first one merged."""
    problem = pf.instances.load(instance)
    if registry.load(name).n_s in (None, problem.n_s):
        return problem
    return pf.Problem(np.stack([problem.p_sx[0], problem.p_sx[1:].sum(axis=0)]))


def run(name: str, problem: pf.Problem, share: float, seed: int = 0) -> Solution:
    try:
        return pf.solve(
            problem,
            disclosure=share * problem.disclosure_ceiling,
            solver=name,
            seed=seed,
            throw=False,
            **QUICK.get(name, {}),
        )
    except MissingExtraError as error:
        pytest.skip(str(error))


def assert_keeps_the_contract(solution: Solution, wanted: float) -> None:
    problem, channel = solution.problem, solution.channel
    assert channel.shape[0] == problem.n_x
    assert np.isfinite(channel).all()
    assert (channel >= 0.0).all()
    assert channel.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert isinstance(solution.status, Status)
    assert (solution.disclosure, solution.leakage) == problem.evaluate(channel)
    assert solution.status in ENDED or solution.disclosure >= wanted - FEASIBILITY
    if solution.status in ENDED:
        assert solution.message, "a solver that gives up says why"
    else:
        assert solution.leakage >= solution.lower_bound - 1e-12
    if solution.status is Status.OPTIMAL:
        assert solution.gap <= registry.load(solution.solver)().target_gap + ROUNDING


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", SOLVERS)
def test_an_instance(name: str, instance: str) -> None:
    problem = fitted(name, instance)
    if problem.n_x > LARGEST.get(name, problem.n_x):
        solution = run(name, problem, 0.6)
        assert solution.status is Status.FAILED
        assert solution.message
        return
    assert_keeps_the_contract(run(name, problem, 0.6), 0.6 * problem.disclosure_ceiling)


@pytest.mark.parametrize("name", SOLVERS)
def test_zeros_and_determinism(name: str) -> None:
    rng = np.random.default_rng(7)
    table = rng.poisson(1.0, size=(3, 6)).astype(float)
    table[0, :3] = 0.0  # the first private symbol is impossible for half of the public ones
    table[1, 5] += 1.0
    problem = pf.Problem(table)
    first, second = run(name, problem, 0.5), run(name, problem, 0.5)
    assert_keeps_the_contract(first, 0.5 * problem.disclosure_ceiling)
    assert (first.channel == second.channel).all(), "the same seed gives the same answer"


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", ["function", "independent", "identical"])
def test_degenerate_problems(name: str, kind: str) -> None:
    table = {
        "function": [[0.2, 0.3, 0.0, 0.0], [0.0, 0.0, 0.4, 0.1]],
        "independent": np.outer([0.3, 0.7], [0.1, 0.2, 0.3, 0.4]),
        "identical": np.diag([0.1, 0.2, 0.3, 0.4]),
    }[kind]
    problem = pf.Problem(table)
    assert_keeps_the_contract(run(name, problem, 0.5), 0.5 * problem.disclosure_ceiling)


@pytest.mark.parametrize("name", SOLVERS)
def test_trivial_problems(name: str) -> None:
    for table in ([[2, 3, 4]], [[2], [3]]):
        problem = pf.Problem(table)
        solution = run(name, problem, 0.5)
        assert_keeps_the_contract(solution, 0.5 * problem.disclosure_ceiling)


def configured(name: str) -> Solver:
    """The solver with its quick options, or a skip where what it needs is not installed."""
    solver = registry.get(name, **QUICK.get(name, {}))
    try:
        solver.warm_up()
    except MissingExtraError as error:
        pytest.skip(str(error))
    return solver


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_a_leakage_budget(name: str, share: float) -> None:
    problem = fitted(name, "synthetic-skewed")
    budget = share * problem.leakage_ceiling
    solution = pf.solve(problem, leakage=budget, solver=configured(name), throw=False)
    assert_keeps_the_contract(solution, 0.0)
    assert solution.status not in ENDED
    assert solution.leakage <= budget + FEASIBILITY
    assert solution.budget == budget
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure <= solution.disclosure_upper_bound + FEASIBILITY
    if share == 0.1:
        again = pf.solve(problem, leakage=budget, solver=configured(name), throw=False)
        assert (solution.channel == again.channel).all(), "the same seed gives the same answer"


@pytest.mark.parametrize("name", SOLVERS)
def test_a_budget_buys_at_least_what_time_sharing_with_nothing_does(name: str) -> None:
    problem = fitted(name, "synthetic-uniform")
    solver = configured(name)
    solution = pf.solve(problem, leakage=0.5 * problem.leakage_ceiling, solver=solver, throw=False)
    if not solver.free_only:
        assert solution.disclosure >= 0.5 * problem.disclosure_ceiling - FEASIBILITY


@pytest.mark.parametrize("name", SOLVERS)
def test_a_trace_answers_every_disclosure_in_order(name: str) -> None:
    problem = fitted(name, "synthetic-skewed")
    wanted = [share * problem.disclosure_ceiling for share in (0.8, 0.3, 0.6)]
    solver = configured(name)
    answers = list(solver.trace(problem, wanted, seed=1))
    points = [problem.evaluate(problem.check_channel(answer.channel)) for answer in answers]
    if solver.sweeps:
        reached = [point.disclosure for point in points]
        assert reached == sorted(reached)
        return
    for asked, answer, point in zip(wanted, answers, points, strict=True):
        assert answer.status in ENDED or point.disclosure >= asked - FEASIBILITY
    (alone,) = solver.trace(problem, wanted[1:2], seed=1)
    assert (alone.channel == solver.solve(problem, wanted[1], seed=1).channel).all()


@pytest.mark.parametrize("name", SOLVERS)
def test_a_traced_curve_is_convex_and_made_of_channels(name: str) -> None:
    problem = fitted(name, "synthetic-skewed")
    curve = pf.trace(problem, points=6, solver=configured(name), throw=False)
    assert curve.complete
    assert curve.solver == name
    for solution in curve.solutions:
        assert solution.requested is not None
        assert_keeps_the_contract(solution, solution.requested)
    assert (np.diff(curve.leakage) >= -1e-12).all()
    chords = np.diff(curve.leakage) / np.diff(curve.disclosure)
    assert (np.diff(chords) >= -1e-8).all()


@pytest.mark.parametrize("name", SOLVERS)
def test_an_interrupt_ends_a_run_or_leaves_a_part_of_it(name: str) -> None:
    """Whatever a solver hands over, KeyboardInterrupt follows: nobody takes a part for the whole."""
    problem = fitted(name, "synthetic-skewed")
    solver = configured(name)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    wanted = [share * problem.disclosure_ceiling for share in (0.3, 0.6, 0.8)]
    told: list[object] = []
    list(solver.trace(problem, wanted, progress=told.append))
    if told:
        with pytest.raises(KeyboardInterrupt):
            list(solver.trace(problem, wanted, progress=stop))


@pytest.mark.parametrize("name", SOLVERS)
def test_what_a_solver_can_do_is_on_its_class(name: str) -> None:
    problem = fitted(name, "synthetic-uniform")
    solver = configured(name)
    assert solver.name == name
    limited = solver.limited(7.0, threads=1)
    assert type(limited) is type(solver)
    assert getattr(limited, "time_limit", 7.0) == 7.0
    assert solver.limited(0.0), "a time that is up already is no mistake"
    assert isinstance(solver, TimeLimited) == hasattr(solver, "time_limit")
    if solver.proves:
        midway = 0.5 * (pf.free_disclosure(problem) + problem.disclosure_ceiling)
        solution = pf.solve(problem, disclosure=midway, solver=solver)
        assert solution.status is Status.OPTIMAL
        assert solution.certificate is not None


@pytest.mark.parametrize("name", [name for name in SOLVERS if registry.load(name).n_s is not None])
def test_a_table_a_solver_is_not_made_for_is_refused_with_advice(name: str) -> None:
    problem = pf.Problem([[2, 1, 4, 3], [1, 3, 1, 1], [3, 3, 1, 4]])
    solutions = [
        pf.solve(problem, disclosure=0.5, solver=name, throw=False),
        pf.solve(problem, leakage=0.01, solver=name, throw=False),
    ]
    for solution in solutions:
        assert solution.status is Status.FAILED
        assert "this table has 3: use solver='auto'" in solution.message
    with pytest.raises(SolverError, match="needs two private symbols"):
        pf.trace(problem, points=4, solver=name)


def test_a_solver_that_defines_neither_solve_nor_trace_is_told_so() -> None:
    class Idle(Solver):
        name = "idle"

    with pytest.raises(TypeError, match="Idle defines neither solve nor trace"):
        Idle().solve(pf.Problem([[2, 1], [1, 3]]), 0.1)
