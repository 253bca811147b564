"""Worst-case baselines: the vertex method against the guarded solver, closed forms, and what every method keeps."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import assert_one_line_error, run
from privfunnel.errors import InvalidInputError
from privfunnel.neighbours import worst_case


def random_problem(seed: int, n_s: int = 3, n_x: int = 5) -> pf.Problem:
    return pf.Problem(np.random.default_rng(seed).dirichlet(np.ones(n_s * n_x)).reshape(n_s, n_x))


@pytest.mark.parametrize(
    ("epsilon", "most"),
    [
        (0.0, 1.56263),
        (0.05, 1.71544),
        (0.1, 1.81171),
        (0.25, 2.00765),
        (0.5, 2.22549),
        (1.0, 2.40185),
        (2.0, 2.51175),
    ],
)
def test_the_vertex_method_on_heart_failure(epsilon: float, most: float) -> None:
    """Values of an earlier, independent enumeration."""
    found = worst_case.release(pf.instances.load("heart-failure"), epsilon)
    assert found.disclosure == pytest.approx(most, abs=6e-6)
    assert found.reached <= epsilon + 1e-8


@pytest.mark.parametrize(("seed", "epsilon"), [(1, 0.4), (2, 0.3)])
def test_the_vertex_method_agrees_with_the_guarded_solver(seed: int, epsilon: float) -> None:
    problem = random_problem(seed)
    found = worst_case.release(problem, epsilon)
    proved = pf.solve(problem, guarantees=[f"lip={epsilon}"])
    assert proved.disclosure_upper_bound is not None
    assert found.disclosure <= proved.disclosure_upper_bound + 1e-7
    assert found.disclosure == pytest.approx(proved.disclosure, abs=1e-5)


def test_no_lift_at_all_is_the_free_disclosure() -> None:
    problem = random_problem(2)
    assert worst_case.release(problem, 0.0).disclosure == pytest.approx(pf.free_disclosure(problem), abs=1e-6)


@pytest.mark.parametrize("method", list(worst_case.METHODS))
@pytest.mark.parametrize("seed", range(3))
def test_every_method_keeps_the_bound_and_stays_below_the_optimum(method: str, seed: int) -> None:
    problem = random_problem(seed)
    for epsilon in (0.0, 0.2, 1.0):
        found = worst_case.release(problem, epsilon, method=method)
        assert found.reached <= epsilon + 1e-8
        assert found.channel.sum(axis=1) == pytest.approx(1.0)
        assert found.disclosure <= worst_case.release(problem, epsilon).disclosure + 1e-9
    whole = worst_case.release(problem, 50.0, method=method)
    assert whole.disclosure == pytest.approx(problem.disclosure_ceiling, abs=1e-9)
    assert whole.leakage == pytest.approx(problem.leakage_ceiling, abs=1e-9)
    assert method in repr(whole)


def test_randomised_response_uses_the_bound_up() -> None:
    problem = random_problem(4)
    for epsilon in (0.05, 0.3):
        found = worst_case.release(problem, epsilon, method="randomised-response")
        assert found.reached == pytest.approx(epsilon, abs=1e-12)
    binary = pf.Problem([[0.4, 0.1], [0.1, 0.4]])
    # lifts are 1.6 and 0.4; the lower one binds: 1 − 0.6 a = e^−ε
    kept = (1 - math.exp(-0.2)) / 0.6
    expected = kept * np.eye(2) + (1 - kept) / 2
    np.testing.assert_allclose(
        worst_case.release(binary, 0.2, method="randomised-response").channel, expected, atol=1e-12
    )


def test_the_watchdog_releases_safe_symbols_alone() -> None:
    table = np.array([[10, 10, 30, 2], [10, 10, 2, 30]])
    found = worst_case.release(pf.Problem(table), 0.1, method="watchdog")
    np.testing.assert_array_equal(found.channel, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])


def test_what_cannot_be_done_is_refused() -> None:
    problem = random_problem(0)
    for epsilon in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InvalidInputError, match="epsilon"):
            worst_case.release(problem, epsilon)
    with pytest.raises(InvalidInputError, match="method"):
        worst_case.release(problem, 0.1, method="magic")
    with pytest.raises(InvalidInputError, match=r"guarantees=\['lip=0.1'\]"):
        worst_case.release(pf.instances.load("census-income"), 0.1)
    with pytest.raises(InvalidInputError, match="1001 public symbols"):
        worst_case.release(pf.Problem(np.ones((2, 1001))), 0.1, method="max-lift")


def test_the_command_compares_them() -> None:
    result = run("lift", "synthetic-skewed", "--epsilon", 0.3)
    assert result.exit_code == 0, result.output
    assert "watchdog" in result.output
    rows = {row["method"]: row for row in json.loads(run("lift", "synthetic-skewed", "--json").output)}
    assert rows["vertex"]["disclosure"] == pytest.approx(rows["proved"]["disclosure"], abs=1e-5)
    assert_one_line_error(run("lift", "synthetic-skewed", "--epsilon", -1), "epsilon")
