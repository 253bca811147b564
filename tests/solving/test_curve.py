from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import privfunnel as pf
from privfunnel.errors import ConvergenceWarning, InvalidInputError, SolverError
from privfunnel.solving.tracing import Grid, PartialCurve, tracing
from strategies import problems
from toys import Mixer, Wavy, synthetic


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
    # Every point time-shares X and nothing: the curve is the chord between its ends.
    chord = problem.leakage_ceiling / problem.disclosure_ceiling
    assert curve.leakage == pytest.approx(chord * curve.disclosure, abs=1e-12)
    assert [curve.at(r).slope for r in (0.1, 0.5, 1.0)] == pytest.approx([chord] * 3, abs=1e-9)
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


@pytest.fixture(scope="module")
def certified() -> pf.Curve:
    """A curve with certificates at its three inner points."""
    return pf.trace(synthetic(), points=5, solver="global")


def test_certificates_come_once_and_in_order(certified: pf.Curve) -> None:
    assert len(certified.certificates) == 3
    again = replace(certified, solutions=(*certified.solutions, certified.solutions[2]))
    assert again.certificates == certified.certificates
    slopes = [certificate.slope for certificate in certified.certificates]
    assert slopes == sorted(slopes)


def test_what_is_proved_holds_everywhere_and_uses_lines_and_chords(certified: pf.Curve) -> None:
    problem = certified.problem
    grid = np.linspace(0.0, problem.disclosure_ceiling, 41)
    finer = pf.trace(problem, disclosures=grid, solver="global")
    assert (certified.proved(grid) <= finer.leakage + 1e-9).all()
    for certificate in certified.certificates:
        line = [certificate.lower_bound(r) for r in grid]
        assert (certified.proved(grid) >= np.minimum(line, finer.leakage) - 1e-9).all()
    assert certified.proved(certified.disclosure) == pytest.approx(certified.lower_bound, abs=1e-6)
    assert certified.proved([[0.0], [problem.disclosure_ceiling]]) == pytest.approx(
        np.array([[0.0], [problem.leakage_ceiling]]), abs=1e-12
    )
    # The same curve without its certificates still has their bounds at three points: chords carry them further.
    bare = pf.Curve.from_dict(certified.to_dict())
    assert bare.certificates == ()
    chords = bare.proved(grid)
    assert (chords <= finer.leakage + 1e-9).all()
    at = np.searchsorted(grid, 0.6 * problem.disclosure_ceiling)
    assert chords[at] > float(problem.lower_bound(grid[at])) + 0.02
    assert chords[at] > float(np.max(bare.lower_bound[bare.disclosure <= grid[at]])) + 1e-3


def test_a_bound_counts_at_the_disclosure_that_was_asked_for(certified: pf.Curve) -> None:
    """A channel may miss its request by 1e-9; a bound for the request is not one for the channel's disclosure."""
    problem = certified.problem
    mid = certified.solutions[2]
    assert mid.requested is not None
    values = mid.values._replace(disclosure=mid.requested - 1e-9)
    short = replace(mid, values=values, certificate=None, lower_bound=mid.leakage)
    curve = replace(certified, solutions=(short,))
    below = curve.proved(short.disclosure)
    assert below < mid.leakage
    assert curve.proved(mid.requested) == pytest.approx(mid.leakage, abs=1e-15)
    assert curve.proved(problem.disclosure_ceiling) == problem.leakage_ceiling


def test_a_trace_can_be_followed_answer_by_answer() -> None:
    problem = synthetic()
    items = list(tracing(problem, grid=Grid(5, None, 1), solver=Wavy()))
    assert [item.count for item in items] == [1, 2, 3, 4, 4]
    assert [item.complete for item in items] == [False] * 4 + [True]
    assert [len(item.wanted) for item in items] == [5, 5, 5, 6, 6]
    newest = items[1].newest
    assert (newest.disclosure, newest.leakage) == problem.evaluate(items[1].found[-1].answer.channel)
    assert newest.requested == newest.disclosure
    whole = pf.trace(problem, points=5, refine=1, solver=Wavy(), throw=False)
    np.testing.assert_array_equal(items[-1].curve().leakage, whole.leakage)
    early = items[1].curve()
    assert not early.complete
    assert (
        early.disclosure[-1]
        <= max(problem.evaluate(a.answer.channel).disclosure for a in items[1].found) + 1e-9
    )


def test_an_interrupt_comes_behind_what_was_found() -> None:
    found: list[PartialCurve] = []

    def follow() -> None:
        for item in tracing(synthetic(), grid=Grid(11), solver=Mixer(interrupt_after=5)):
            found.append(item)

    with pytest.raises(KeyboardInterrupt):
        follow()
    assert [item.count for item in found] == [1, 2, 3, 4, 5]
    assert not any(item.complete for item in found)


def test_the_arguments_of_a_trace_are_checked_before_its_first_item() -> None:
    with pytest.raises(InvalidInputError, match="points=1"):
        tracing(synthetic(), grid=Grid(1), solver=Mixer())


def test_a_trace_of_the_ends_alone_asks_no_solver() -> None:
    problem = synthetic()
    ends = [0.0, 5e-10, problem.disclosure_ceiling - 5e-10, problem.disclosure_ceiling]
    curve = pf.trace(problem, disclosures=ends, solver=Mixer(status=pf.Status.FAILED))
    assert set(curve.status) == {pf.Status.OPTIMAL}
    assert curve.leakage == pytest.approx([0.0, 0.0, *[problem.leakage_ceiling] * 2], abs=1e-9)


def test_what_a_curve_has_within_a_budget_is_judged_by_that_budget() -> None:
    heart = pf.instances.load("heart-failure")
    curve = pf.trace(heart, points=4)
    free = curve.within(0)
    flat = [s.disclosure for s in curve.solutions if s.leakage <= 1e-12]
    assert free.disclosure == pytest.approx(max(flat))
    assert (free.budget, free.question.goal.value) == (0.0, "disclosure")
    # More is free than this curve has a point of: it is not optimal.
    assert free.status is not pf.Status.OPTIMAL
    assert free.disclosure_upper_bound is not None
    assert free.disclosure_upper_bound >= pf.free_disclosure(heart) - 1e-9
    some = curve.within("5%")
    assert some.leakage <= 0.05 * heart.leakage_ceiling + 1e-9
    assert some.gap == pytest.approx(some.disclosure_upper_bound - some.disclosure)
    with pytest.raises(InvalidInputError, match="not a budget"):
        curve.within(-1.0)


def test_places_beyond_the_end_and_single_texts_are_understood() -> None:
    heart = pf.instances.load("heart-failure")
    curve = pf.trace(heart, disclosures="50%")
    assert curve.disclosure == pytest.approx([0.5 * heart.disclosure_ceiling])
    assert curve.proved(2 * heart.disclosure_ceiling) == pytest.approx(heart.leakage_ceiling)
    more = pf.trace(heart, points=2, also="60%")
    assert len(more.solutions) == 3
    records = pf.trace(heart, points=2, invariant=True)
    assert (records.axis.value, records.question.invariant) == ("distortion", True)
    told = pf.solve(heart, costs={"smoking": "never"}, leakage=0, throw=False)
    assert told.status is pf.Status.INFEASIBLE
    assert told.distortion == 0.0
