"""How good AEM's answers are: against the proved optimum, and against the values known of the real tables."""

from __future__ import annotations

import numpy as np
import pytest

from privfunnel import solve
from privfunnel.algorithms.aem import AEM
from privfunnel.data import instances
from privfunnel.data.instances import KnownAnswer
from privfunnel.measures import Array

SHARES = np.arange(1, 20) * 0.05
# Proved brackets of the curve of heart failure with 1e-3 added to the probabilities, the first below R0.
HEART = [
    known for known in instances.describe("heart-failure").known if known.perturbation == "probabilities"
]
# A curve drawn 200 pixels high, up to I(S;X), shows a difference of one pixel: a local method has to do as well.
PIXELS = 200


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


@pytest.mark.parametrize("known", HEART, ids=lambda known: str(known.disclosure))
def test_heart_failure_is_solved_as_far_as_a_picture_shows(known: KnownAnswer) -> None:
    problem = instances.load("heart-failure", perturbation="probabilities")
    point = problem.evaluate(AEM().solve(problem, known.disclosure).channel)
    assert point.disclosure >= known.disclosure - 1e-9
    assert known.low - 1e-9 <= point.leakage <= known.high + problem.leakage_ceiling / PIXELS
