"""SLSQP and IPOPT on the channel itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import check_grad

import privfunnel as pf
from privfunnel.algorithms.nlp import ipopt as ipopt_module
from privfunnel.algorithms.nlp.ipopt import IPOPT
from privfunnel.algorithms.nlp.slsqp import SLSQP, disclosure_gradient, leakage_and_gradient
from privfunnel.algorithms.nlp.starts import feasible_starts, lift
from privfunnel.errors import InvalidInputError, MissingExtraError
from privfunnel.measures import mutual_information


@pytest.fixture(scope="module")
def uniform() -> pf.Problem:
    return pf.instances.load("synthetic-uniform")


@pytest.fixture
def casadi():
    return pytest.importorskip("casadi", reason="IPOPT comes with casadi, which is not installed")


def test_gradients_are_exact():
    rng = np.random.default_rng(0)
    problem = pf.Problem(rng.dirichlet(np.ones(12)).reshape(3, 4))
    flat = rng.dirichlet(np.ones(5), size=4).ravel()
    shape = (4, 5)
    # Directions that keep rows normalised: the gradient of an information is defined up to a constant a row.
    off = np.eye(20) - np.kron(np.eye(4), np.full((5, 5), 0.2))

    def leakage(z):
        return leakage_and_gradient(problem, (flat + off @ z).reshape(shape))[0]

    def leakage_slope(z):
        return off @ leakage_and_gradient(problem, (flat + off @ z).reshape(shape))[1]

    def disclosure(z):
        return float(mutual_information(problem.p_x[:, None] * (flat + off @ z).reshape(shape)))

    def disclosure_slope(z):
        return off @ disclosure_gradient(problem, (flat + off @ z).reshape(shape))

    assert check_grad(leakage, leakage_slope, np.zeros(20)) < 1e-6
    assert check_grad(disclosure, disclosure_slope, np.zeros(20)) < 1e-6


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_feasible_starts_reach_the_disclosure(share):
    problem = pf.Problem(np.random.default_rng(1).dirichlet(np.ones(15)).reshape(3, 5))
    asked = share * problem.disclosure_ceiling
    starts = feasible_starts(np.random.default_rng(0), problem, asked, 20, 6)
    reached = [problem.evaluate(start).disclosure for start in starts]
    assert min(reached) >= asked - 1e-12
    lifted = lift(problem, starts[0], asked + 0.5 * (problem.disclosure_ceiling - asked))
    assert problem.evaluate(lifted).disclosure == pytest.approx(
        0.5 * (asked + problem.disclosure_ceiling), abs=1e-9
    )
    np.testing.assert_array_equal(lift(problem, starts[0], 0.0), starts[0])


@pytest.mark.parametrize(("share", "optimum"), [(0.1, 0.0195824), (0.4, 0.0806), (0.8, 0.3138)])
@pytest.mark.parametrize(
    "solver", [SLSQP(time_limit=math.inf), IPOPT(barrier=1e-4, time_limit=math.inf)], ids=["slsqp", "ipopt"]
)
def test_best_of_30_is_near_the_optimum_of_the_synthetic_problem(uniform, solver, share, optimum, casadi):
    solution = pf.solve(uniform, disclosure=share * uniform.disclosure_ceiling, solver=solver)
    assert solution.leakage == pytest.approx(optimum, abs=6e-5)
    assert solution.disclosure >= share * uniform.disclosure_ceiling - 1e-9
    assert "of 30 runs converged" in solution.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "value", "restarts"), [(0.7, 0.00169, 3), (0.8, 0.01796, 10), (0.9, 0.06133, 3)]
)
def test_ipopt_on_heart_failure(share, value, restarts, casadi):
    problem = pf.instances.load("heart-failure", perturbation="probabilities", amount=1e-3)
    solution = pf.solve(
        problem,
        disclosure=share * problem.disclosure_ceiling,
        solver=IPOPT(restarts=restarts, time_limit=math.inf),
        throw=False,
    )
    assert solution.leakage == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("cls", [SLSQP, IPOPT])
def test_a_time_limit_still_gives_a_feasible_channel(cls, casadi):
    problem = pf.instances.load("heart-failure")
    solution = pf.solve(problem, disclosure=1.5, solver=cls(time_limit=0.05), throw=False)
    assert solution.status is pf.Status.TIME_LIMIT
    assert solution.disclosure >= 1.5 - 1e-9
    assert "time limit" in solution.message


@pytest.mark.parametrize("cls", [SLSQP, IPOPT])
def test_large_tables_are_refused_with_a_status(cls):
    problem = pf.instances.load("census-income")
    solution = pf.solve(problem, disclosure=1.5, solver=cls(), throw=False)
    assert solution.status is pf.Status.FAILED
    assert "max_variables" in solution.message


def test_ipopt_without_casadi_says_what_to_install(uniform, monkeypatch):
    def missing(module: str, extra: str) -> None:
        raise MissingExtraError(f"pip install 'privfunnel[{extra}]'")

    monkeypatch.setattr(ipopt_module, "need", missing)
    with pytest.raises(MissingExtraError, match="ipopt"):
        pf.solve(uniform, disclosure=0.5, solver="ipopt")


def test_progress_is_told(uniform, casadi):
    for solver in (SLSQP(restarts=2), IPOPT(restarts=2)):
        news = []
        list(solver.trace(uniform, [0.3, 0.6], progress=news.append))
        assert news[-1].done == news[-1].total == 2


@pytest.mark.parametrize("cls", [SLSQP, IPOPT])
@pytest.mark.parametrize(
    "options", [{"restarts": 0}, {"outputs": 1}, {"tolerance": 0.0}, {"time_limit": -1.0}]
)
def test_options_are_checked(cls, options):
    with pytest.raises(InvalidInputError, match=cls.name):
        cls(**options)
