"""What every solver promises, whatever its algorithm: run over every registered solver and instance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.errors import MissingExtraError
from privfunnel.solution import FEASIBILITY, Solution, Status
from privfunnel.solvers import registry

#: Options that keep a solver quick here; quality is tested where the solver's own tests are.
QUICK: dict[str, dict[str, Any]] = {
    "aem": {"restarts": 3, "max_steps": 60},
    "drs": {"restarts": 1, "outputs": (8, 3), "refine": 1, "max_steps": 500, "time_limit": math.inf},
    "dca": {
        "betas": (1.5, 5.0),
        "alphas": (0.05, 0.5),
        "restarts": 1,
        "outputs": (4,),
        "max_steps": 30,
        "refine": 1,
        "time_limit": math.inf,
    },
    "drs-repaired": {
        "restarts": 1,
        "betas": (1.5, 5.0),
        "refine": 1,
        "max_steps": 50,
        "time_limit": math.inf,
    },
    "dca-repaired": {
        "restarts": 1,
        "betas": (1.5, 5.0),
        "refine": 1,
        "max_steps": 50,
        "time_limit": math.inf,
    },
    "ipopt": {"restarts": 2, "time_limit": math.inf},
    "slsqp": {"restarts": 1, "max_steps": 4, "time_limit": math.inf},
    "submodular": {"slopes": (0.05, 0.2, 0.5), "restarts": 4, "refine": 2, "time_limit": math.inf},
}

#: Solvers whose cost forbids a public alphabet of this size, with the largest one they accept.
LARGEST: dict[str, int] = {"deterministic": 10, "ipopt": 49, "slsqp": 38}

SOLVERS = registry.names()
INSTANCES = ("synthetic-uniform", "synthetic-skewed", "heart-failure", "census-income")
ENDED = (Status.INFEASIBLE, Status.FAILED)


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
        assert solution.gap <= 1e-4


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", SOLVERS)
def test_an_instance(name: str, instance: str) -> None:
    problem = pf.instances.load(instance)
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
