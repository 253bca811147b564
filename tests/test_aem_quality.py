"""How good AEM's answers are: against the proved optimum, and against the values known of the real tables."""

from __future__ import annotations

import numpy as np
import pytest

from privfunnel import instances, solve
from privfunnel.measures import Array
from privfunnel.solvers.aem import AEM

SHARES = np.arange(1, 20) * 0.05
# Heart failure with 1e-3 added to the probabilities: R, and the leakage of 30 starts × 500 plain steps in the
# project's notes on the mathematics.
HEART = [(1.5641, 0.000115), (1.6943, 0.000505), (1.8245, 0.002228), (2.0850, 0.016323), (2.6059, 0.145123)]


@pytest.fixture(scope="module")
def optimum() -> dict[str, Array]:
    """Leakage of the global solver at 0.05, 0.10, …, 0.95·H(X), proved to 1e-6 nats."""
    found = {}
    for name in ("synthetic-uniform", "synthetic-skewed"):
        problem = instances.load(name)
        solutions = [
            solve(problem, disclosure=s * problem.disclosure_ceiling, solver="global") for s in SHARES
        ]
        assert max(solution.gap for solution in solutions) <= 1e-6
        found[name] = np.array([solution.leakage for solution in solutions])
    return found


def excess(name: str, optimum: Array, seed: int, *, accelerate: bool) -> Array:
    problem = instances.load(name)
    answers = AEM(outputs=4, accelerate=accelerate).trace(
        problem, SHARES * problem.disclosure_ceiling, seed=seed
    )
    return np.array([problem.evaluate(answer.channel).leakage for answer in answers]) - optimum


@pytest.mark.parametrize("accelerate", [False, True])
def test_uniform_synthetic_is_solved(optimum: dict[str, Array], accelerate: bool) -> None:
    for seed in range(2):
        assert (
            excess("synthetic-uniform", optimum["synthetic-uniform"], seed, accelerate=accelerate).max()
            < 5e-6
        )


@pytest.mark.parametrize("accelerate", [False, True])
def test_skewed_synthetic_is_solved_for_most_seeds(optimum: dict[str, Array], accelerate: bool) -> None:
    results = np.array(
        [
            excess("synthetic-skewed", optimum["synthetic-skewed"], seed, accelerate=accelerate)
            for seed in range(5)
        ]
    )
    solved = results < 5e-6
    assert np.median(solved[:, SHARES < 0.86].all(axis=1)) == 1.0
    # The sparse starts also find the solutions near the ceiling that flat ones miss.
    assert np.median(solved.all(axis=1)) == 1.0


@pytest.mark.parametrize(("disclosure", "known"), HEART)
def test_heart_failure_is_as_good_as_known(disclosure: float, known: float) -> None:
    problem = instances.load("heart-failure", perturbation="probabilities")
    point = problem.evaluate(AEM().solve(problem, disclosure).channel)
    assert point.disclosure >= disclosure - 1e-9
    assert point.leakage <= 1.1 * known
