"""Bounds hold in exact arithmetic, also where double precision has lost most of its digits."""

from __future__ import annotations

import numpy as np
import pytest

import exactly
import privfunnel as pf
from privfunnel.solvers.perfect import equations, free_disclosure
from privfunnel.solvers.perfect.large import by_pairs

#: What the judge's own linear program leaves open.
JUDGE = 1e-8


def nearly_independent(rng: np.random.Generator, n_s: int, n_x: int, dependence: float) -> pf.Problem:
    product = np.outer(rng.dirichlet(np.full(n_s, 3.0)), rng.dirichlet(np.full(n_x, 3.0)))
    table = product * np.clip(1.0 + dependence * rng.standard_normal((n_s, n_x)), 0.01, None)
    return pf.Problem(table / table.sum())


@pytest.mark.parametrize("dependence", [1e-1, 1e-4, 1e-7, 1e-9, 1e-11])
def test_the_free_disclosure_of_nearly_independent_tables_is_that_of_exact_arithmetic(
    dependence: float,
) -> None:
    rng = np.random.default_rng(int(-np.log10(dependence)))
    for n_s, n_x in ((2, 5), (2, 7), (3, 5), (3, 6), (4, 6)):
        problem = nearly_independent(rng, n_s, n_x, dependence)
        free, true = free_disclosure(problem), exactly.free_disclosure(problem.p_sx)
        assert true <= free.upper + JUDGE
        assert free.disclosure == pytest.approx(true, abs=JUDGE)
        assert free.proved


def test_without_the_exact_numbers_the_bound_says_how_far_off_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equations, "MOST_EXACT", 0)
    rng = np.random.default_rng(5)
    off = []
    for dependence in np.logspace(-12, -6, 30):
        problem = nearly_independent(rng, int(rng.integers(2, 4)), 5, dependence)
        free, true = free_disclosure(problem), exactly.free_disclosure(problem.p_sx)
        assert true <= free.upper + JUDGE
        assert free.disclosure <= true + (free.upper - free.disclosure) + JUDGE
        off.append(abs(free.disclosure - true) > 1e-6 and free.proved)
    assert not any(off)


@pytest.mark.parametrize("dependence", [1e-2, 1e-7, 1e-9, 1e-10, 1e-11, 1e-12])
def test_pairs_of_nearly_independent_tables_are_bounded_from_above(dependence: float) -> None:
    rng = np.random.default_rng(int(-np.log10(dependence)))
    for _ in range(4):
        problem = nearly_independent(rng, 2, 7, dependence)
        found, true = by_pairs(problem), exactly.free_disclosure(problem.p_sx)
        disclosure = problem.evaluate(found.channel).disclosure
        assert true <= found.upper + JUDGE
        assert abs(disclosure - true) <= (found.upper - disclosure) + JUDGE


def test_directions_within_rounding_of_0_leave_everything_free() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        problem = pf.Problem(np.outer(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(6))))
        free = free_disclosure(problem)
        assert free.disclosure == pytest.approx(problem.disclosure_ceiling, abs=1e-12)
        assert free.disclosure <= free.upper


@pytest.mark.parametrize("dependence", [1.0, 1e-3, 1e-6, 1e-9])
def test_closed_forms_are_rounded_outwards(dependence: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        problem = nearly_independent(rng, int(rng.integers(2, 9)), int(rng.integers(2, 13)), dependence)
        joint = exactly.fractions(problem.p_sx)
        h_x = exactly.entropy([sum(column) for column in zip(*joint, strict=True)])  # type: ignore[misc]
        leaked = exactly.information(joint)
        for share in (0.3, 0.9, 0.999, 1.0):
            disclosure = share * problem.disclosure_ceiling
            true = max(exactly.Decimal(disclosure) - (h_x - leaked), exactly.Decimal(0))
            assert exactly.Decimal(float(problem.lower_bound(disclosure))) <= true
            assert (
                exactly.Decimal(float(problem.upper_bound(disclosure)))
                >= leaked * exactly.Decimal(disclosure) / h_x
            )


def test_a_budget_buys_no_more_than_is_said() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        problem = nearly_independent(rng, 3, 5, 1.0)
        joint = exactly.fractions(problem.p_sx)
        h_x = exactly.entropy([sum(column) for column in zip(*joint, strict=True)])  # type: ignore[misc]
        budget = 0.98 * problem.leakage_ceiling
        solution = pf.solve(problem, leakage=budget, solver="greedy")
        most = h_x - exactly.information(joint) + exactly.Decimal(budget)
        assert solution.disclosure_upper_bound is not None
        assert exactly.Decimal(solution.disclosure_upper_bound) >= min(most, h_x)
