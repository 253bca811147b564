from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import privfunnel as pf
from privfunnel.curve import lower_hull
from privfunnel.errors import ConvergenceWarning, InvalidInputError, SolverError
from privfunnel.problem import Point
from strategies import problems
from test_problem import synthetic
from toys import Mixer, Wavy


def assert_is_a_funnel(curve: pf.Curve, tolerance: float = 1e-9) -> None:
    """Convex, nondecreasing, between its closed-form bounds, each point re-evaluated from its own channel."""
    problem, x, y = curve.problem, curve.disclosure, curve.leakage
    for solution in curve.solutions:
        assert (solution.disclosure, solution.leakage) == problem.evaluate(solution.channel)
    assert (np.diff(x) > 0.0).all()
    assert (np.diff(y) >= -tolerance).all()
    slopes = np.diff(y) / np.diff(x)
    widths = np.minimum(np.diff(x)[1:], np.diff(x)[:-1])
    assert (np.diff(slopes) * widths >= -tolerance).all()
    assert (y >= problem.lower_bound(x) - tolerance).all()
    assert (y <= problem.upper_bound(x) + tolerance).all()
    assert (curve.lower_bound <= y + 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_envelope_is_convex_and_achieved(seed: int) -> None:
    curve = pf.trace(synthetic(), solver=Wavy(), seed=seed, points=12, throw=False)
    assert len(curve.solutions) == 12
    assert len(curve.raw) == 10
    assert_is_a_funnel(curve)


@given(problems(min_x=2))
def test_the_envelope_of_any_problem(problem: pf.Problem) -> None:
    if problem.disclosure_ceiling > 1e-6:
        assert_is_a_funnel(pf.trace(problem, solver=Wavy(), points=5, throw=False))


def test_default_points_are_uniform() -> None:
    problem = synthetic()
    curve = pf.trace(problem, solver=Mixer())
    assert curve.disclosure == pytest.approx(np.linspace(0, problem.disclosure_ceiling, 20), abs=1e-12)
    assert curve.slope[1:-1] == pytest.approx(problem.leakage_ceiling / problem.disclosure_ceiling, abs=0.5)
    assert curve.status[0] is pf.Status.OPTIMAL
    assert (curve.gap >= 0).all()


def test_refinement_adds_points_between() -> None:
    curve = pf.trace(synthetic(), solver=Wavy(), points=5, refine=4, throw=False)
    assert len(curve.solutions) == 9
    assert_is_a_funnel(curve)


def test_given_disclosures() -> None:
    curve = pf.trace(synthetic(), solver=Mixer(), disclosures=[0.5, 0.2, 0.5])
    assert curve.disclosure == pytest.approx([0.2, 0.5])


def test_the_curve_can_be_asked_anywhere() -> None:
    curve = pf.trace(synthetic(), solver=Wavy(), points=6, throw=False)
    for disclosure in (0.0, 0.3, 0.777, curve.problem.disclosure_ceiling):
        solution = curve.at(disclosure)
        assert solution.disclosure == pytest.approx(disclosure, abs=1e-9)
        assert solution.leakage == pytest.approx(
            np.interp(disclosure, curve.disclosure, curve.leakage), abs=1e-9
        )
    spent = curve.within(0.2)
    assert spent.leakage == pytest.approx(0.2, abs=1e-9)
    assert curve.within(9.0).disclosure == pytest.approx(curve.problem.disclosure_ceiling)
    with pytest.raises(InvalidInputError, match="not a budget"):
        curve.within(-0.1)


def test_unfinished_points_warn_once() -> None:
    with pytest.warns(ConvergenceWarning, match="points are not finished") as caught:
        pf.trace(synthetic(), solver=Wavy(), points=6)
    assert len(caught) == 1


def test_an_interrupt_keeps_what_was_found() -> None:
    curve = pf.trace(synthetic(), solver=Mixer(interrupt_after=5), points=11)
    assert not curve.complete
    assert len(curve.solutions) == 6
    assert_is_a_funnel(curve)
    with pytest.raises(KeyboardInterrupt):
        pf.trace(synthetic(), solver=Mixer(interrupt_after=0), points=11)


def test_a_solver_that_finds_nothing_is_an_error() -> None:
    with pytest.raises(SolverError, match="found no channel"):
        pf.trace(synthetic(), solver=Mixer(status=pf.Status.FAILED), points=4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"points": 1}, "points=1"),
        ({"points": 2.5}, r"points=2\.5"),
        ({"refine": -1}, "refine=-1"),
        ({"refine": "x", "disclosures": [0.3]}, "refine='x'"),
        ({"points": 10**9}, "points=1000000000"),
        ({"disclosures": []}, "disclosures is empty"),
        ({"disclosures": [-1.0]}, "not in"),
        ({"solver": "nope"}, "unknown solver 'nope'"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.trace(synthetic(), **{"solver": Mixer(), **arguments})  # type: ignore[arg-type]


def test_files_and_frames(tmp_path: Path) -> None:
    curve = pf.trace(synthetic(), solver=Wavy(), points=5, throw=False)
    path = tmp_path / "curve.json"
    curve.save(path)
    again = pf.Curve.load(path)
    assert again.rows() == curve.rows()
    assert again.raw == curve.raw
    data = json.loads(path.read_text())
    data["points"][1]["disclosure"] += 0.1
    with pytest.raises(InvalidInputError, match="the file was changed"):
        pf.Curve.from_dict(data)
    with pytest.raises(InvalidInputError, match="not a complete curve"):
        pf.Curve.from_dict({k: v for k, v in curve.to_dict().items() if k != "raw"})
    frame = curve.to_frame()
    assert list(frame["disclosure"]) == list(curve.disclosure)


def test_trivial_problems_have_a_curve() -> None:
    for table in ([[3, 4, 5]], [[3], [4]], [[7]]):
        curve = pf.trace(pf.Problem(table), points=4, solver=Mixer())
        assert (curve.leakage == 0.0).all()
        assert set(curve.status) == {pf.Status.OPTIMAL}


def test_lower_hull() -> None:
    points = [Point(0, 0), Point(1, 1), Point(1, 0.5), Point(2, 2), Point(0.5, 0.4), Point(2, 3)]
    assert lower_hull(points) == [0, 2, 3]
