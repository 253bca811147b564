"""The default solver: closed forms, perfect privacy, then a proof."""

from __future__ import annotations

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms.auto import closed_form
from privfunnel.errors import InvalidInputError


def test_no_closed_form_where_the_bounds_differ() -> None:
    assert closed_form(pf.instances.load("heart-failure"), 1.0) is None


@pytest.mark.parametrize("table", [np.diag([0.1, 0.2, 0.3, 0.4]), np.outer([0.3, 0.7], [0.1, 0.2, 0.3, 0.4])])
def test_bounds_that_coincide_need_no_search(
    table: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> None:
    problem = pf.Problem(table)
    wanted = 0.4 * problem.disclosure_ceiling
    answer = closed_form(problem, wanted)
    assert answer is not None
    solution = pf.solve(problem, disclosure=wanted)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure == pytest.approx(wanted, abs=1e-9)
    assert solution.gap <= 1e-9
    assert solution.certificate is None


def test_auto_is_the_default_and_proves() -> None:
    problem = pf.instances.load("heart-failure")
    below, above = pf.solve(problem, disclosure=1.5), pf.solve(problem, disclosure=2.0)
    assert below.solver == above.solver == "auto"
    assert below.leakage <= 1e-12
    assert below.slope == 0.0
    assert below.bound_source == "zero"
    assert above.bound_source == "certificate"
    assert above.gap <= 1e-6
    assert above.status is pf.Status.OPTIMAL


def test_a_trace_mixes_closed_forms_and_searches_in_order() -> None:
    problem = pf.Problem(np.diag([0.1, 0.2, 0.3, 0.4]))
    assert (pf.trace(problem, points=5).gap <= 1e-9).all()
    curve = pf.trace(pf.instances.load("synthetic-skewed"), points=6)
    assert (curve.gap <= 1e-6).all()
    assert (np.diff(curve.disclosure) > 0.0).all()


def test_a_budget() -> None:
    problem = pf.instances.load("synthetic-uniform")
    solution = pf.solve(problem, leakage=0.1)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.leakage <= 0.1 + 1e-12


def test_one_symbol() -> None:
    for table in ([[2, 3, 4]], [[2], [3]]):
        curve = pf.trace(pf.Problem(table), points=3)
        assert (curve.leakage <= 1e-12).all()


def test_bad_options() -> None:
    with pytest.raises(InvalidInputError, match="gap"):
        pf.algorithms.registry.get("auto", gap=0.0)
