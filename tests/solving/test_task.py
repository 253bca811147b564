"""The task funnel: least leakage at a utility, proved, against brute force and on tables with known answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import privfunnel as pf
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.task import TaskFunnel
from privfunnel.algorithms.task.barrier import Program, minimise
from privfunnel.algorithms.task.rare import RARE, without_rare
from privfunnel.algorithms.task.relaxation import Images, relaxed
from privfunnel.algorithms.task.shaping import shaped
from privfunnel.certificate import Certificate, TaskBody
from privfunnel.certificate.answer import Answer
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError
from privfunnel.reductions.task_cells import Cells, cells_of, classes
from privfunnel.solving.base import Asking, Found
from privfunnel.solving.judging import Run, judge
from privfunnel.solving.request import Request
from privfunnel.solving.task import TaskWay
from privfunnel.solving.tracing import PartialCurve

GAP = TaskFunnel().gap


def random_problem(seed: int, n_s: int = 2, n_u: int = 2, n_x: int = 6, **options: object) -> pf.Problem:
    rng = np.random.default_rng(seed)
    p_x = rng.dirichlet(np.full(n_x, 2.0))
    p_s = rng.dirichlet(np.full(n_s, 0.8), size=n_x).T
    p_u = rng.dirichlet(np.full(n_u, 0.8), size=n_x).T
    return pf.Problem(p_s * p_x, p_ux=p_u * p_x, **options)


def random_channels(problem: pf.Problem, count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        n_y = int(rng.integers(2, 5))
        made.append(rng.dirichlet(np.full(n_y, rng.choice([0.05, 0.3, 1.0])), size=problem.n_x))
    return made


@pytest.fixture(scope="module")
def small() -> pf.Problem:
    return random_problem(1)


@pytest.fixture(scope="module")
def curve(small: pf.Problem) -> pf.Curve:
    return pf.trace(small, along="utility", points=6)


def test_points_keep_what_was_asked_and_are_proved(curve: pf.Curve, small: pf.Problem) -> None:
    wanted = np.linspace(0.0, small.utility_ceiling, 6)
    assert np.all(curve.utility >= wanted - 1e-9)
    assert curve.gap.max() <= GAP
    assert all(status is pf.Status.OPTIMAL for status in curve.status)
    assert np.all(np.diff(curve.leakage) >= -1e-9)
    assert min((small.p_x @ point.channel).min() for point in curve.solutions) >= RARE
    for point in curve.solutions:
        again = small.evaluate(point.channel)
        assert again.leakage == pytest.approx(point.leakage, abs=1e-12)


@pytest.mark.parametrize(("seed", "n_s", "n_u"), [(1, 2, 2), (2, 3, 2), (3, 2, 3)])
def test_no_random_channel_beats_the_bound(seed: int, n_s: int, n_u: int) -> None:
    problem = random_problem(seed, n_s, n_u)
    solution = pf.solve(problem, utility="95%")
    assert solution.gap <= GAP
    line = solution.certificate
    assert isinstance(line.body, TaskBody)
    for channel in random_channels(problem, 300, seed):
        point = problem.evaluate(channel)
        assert point.leakage >= line.lower_bound(point.utility) - 1e-12


def test_deterministic_channels_never_beat_the_optimum(small: pf.Problem, curve: pf.Curve) -> None:
    below = 0
    for choice in itertools.product(range(3), repeat=small.n_x):
        point = small.evaluate(np.eye(3)[list(choice)])
        assert point.leakage >= float(curve.proved(min(point.utility, small.utility_ceiling))) - 1e-12
        below += point.leakage < np.interp(point.utility, curve.utility, curve.leakage) + 0.05
    assert below  # some come near, so that the comparison says something


@pytest.mark.parametrize("kind", ["two values", "three values", "two tasks"])
def test_a_grid_of_posteriors_gives_the_same_optimum(kind: str) -> None:
    # A linear program over all posteriors of three symbols on a fine grid: an independent method from above.
    from scipy.optimize import linprog

    problem = random_problem(
        7, n_s=3 if kind == "three values" else 2, n_u=3 if kind == "three values" else 2, n_x=3
    )
    if kind == "two tasks":
        rows = [each.required_tasks().rows * problem.p_x for each in (problem, random_problem(8, n_x=3))]
        problem = pf.Problem(problem.p_sx, p_ux={"a": rows[0], "b": rows[1]}, task_weights={"b": 0.5})
    n = 60
    grid = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)], dtype=float) / n

    def minus_entropy(rows: np.ndarray) -> np.ndarray:
        t = grid @ rows.T
        return np.where(t > 0, t * np.log(np.where(t > 0, t, 1.0)), 0.0)

    tasks = problem.required_tasks()
    wanted = 0.6 * tasks.ceiling
    found = linprog(
        minus_entropy(problem.p_s_given_x).sum(axis=1),
        A_ub=-(minus_entropy(tasks.rows) @ tasks.weights)[None],
        b_ub=[tasks.h_u - wanted],
        A_eq=grid.T,
        b_eq=problem.p_x,
    )
    by_grid = problem.h_s + found.fun
    solution = pf.solve(problem, utility=wanted)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.lower_bound <= by_grid + 1e-9
    # The grid loses at most the curvature within a cell of it, 1/(8 n² t) or so for each distribution.
    assert solution.leakage == pytest.approx(by_grid, abs=2e-3)


def test_utility_can_be_free_and_that_is_proved() -> None:
    problem = random_problem(4, n_x=8)
    solution = pf.solve(problem, leakage=0)
    assert solution.leakage <= 1e-9
    assert solution.utility > 0.01
    assert solution.utility_upper_bound is not None
    assert solution.utility_upper_bound - solution.utility <= GAP
    assert solution.status is pf.Status.OPTIMAL
    # Whoever keeps more leaks.
    assert pf.solve(problem, utility=solution.utility_upper_bound + 1e-2).lower_bound > 0.0


def test_nothing_leaks_about_a_rare_private_symbol_either() -> None:
    rare, task = np.array([0.002, 0.001, 0.0005]), np.array([0.9, 0.2, 0.5])
    tables = [np.stack([each, 1.0 - each]) / 3.0 for each in (rare, task)]
    problem = pf.Problem(tables[0], p_ux=tables[1])
    found = pf.solve(problem, leakage=0.0, gap=1e-3)
    # Posteriors with p(s|y) = p(s) lie between these two.
    ends = np.array([[1 / 6, 5 / 6, 0.0], [4 / 9, 0.0, 5 / 9]]).T
    channel = ends * np.linalg.lstsq(ends, problem.p_x, rcond=None)[0] / problem.p_x[:, None]
    best = problem.evaluate(channel)
    assert best.leakage < 1e-15
    assert found.status is pf.Status.OPTIMAL
    assert found.leakage <= 1e-9
    assert best.utility is not None
    assert best.utility - 1e-3 <= found.utility <= best.utility + 1e-8
    assert found.utility_upper_bound is not None
    assert found.utility_upper_bound >= best.utility
    # The proof is as good in other units, however large its numbers are.
    heavy, proof = pf.Problem(tables[0], p_ux=tables[1], task_weights={"task": 1e9}), found.certificate
    assert isinstance(proof.body, TaskBody)
    assert proof.body.tilts is not None
    scaled = TaskBody.build(
        heavy, proof.body.partition, 1e9 * proof.body.q, 1.0, tilts=1e9 * proof.body.tilts, zero=True
    )
    scaled.verify(heavy)
    assert scaled.most_utility(0.0) == pytest.approx(1e9 * proof.most_utility(0.0), rel=1e-6)


def test_a_budget_buys_the_utility_that_costs_it(small: pf.Problem, curve: pf.Curve) -> None:
    budget = float(curve.leakage[3])
    solution = pf.solve(small, leakage=budget)
    assert solution.leakage <= budget + 1e-9
    assert solution.utility == pytest.approx(curve.utility[3], abs=1e-3)
    assert solution.utility_upper_bound is not None
    assert solution.utility <= solution.utility_upper_bound
    everything = pf.solve(small, leakage=1.0)
    assert everything.utility == pytest.approx(small.utility_ceiling, abs=1e-12)
    assert everything.status is pf.Status.OPTIMAL


def test_all_utility_is_kept_by_telling_apart_what_differs_in_it() -> None:
    p_x, u = np.array([0.3, 0.2, 0.5]), np.array([0.2, 0.2, 0.9])
    s = np.array([0.1, 0.6, 0.5])
    problem = pf.Problem(np.stack([1 - s, s]) * p_x, p_ux=np.stack([1 - u, u]) * p_x)
    solution = pf.solve(problem, utility="100%")
    merged = problem.evaluate(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert solution.leakage == pytest.approx(merged.leakage, abs=1e-12)
    assert solution.bound_source == "closed form"
    assert solution.status is pf.Status.OPTIMAL


def test_nearly_all_utility_is_not_bounded_like_all_of_it() -> None:
    p_x, s, u = np.array([0.25, 0.25, 0.5]), np.array([0.1, 0.9, 0.5]), np.array([0.3, 0.30003, 0.8])
    problem = pf.Problem(np.stack([1 - s, s]) * p_x, p_ux=np.stack([1 - u, u]) * p_x)
    asked = problem.utility_ceiling - 5e-10
    merged = problem.evaluate(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert merged.utility is not None
    assert merged.utility >= asked
    assert merged.leakage <= 1e-12
    whole = Answer(channel=np.eye(3), status=pf.Status.OPTIMAL)
    questions = [Request(utility=0.0, known=known).of(problem).at(asked) for known in (None, [[0, 0, 1]])]
    judged = [judge(question, whole, Run("")) for question in questions]
    assert [(found.lower_bound, found.status) for found in judged] == [(0.0, pf.Status.CONVERGED)] * 2
    exact = pf.solve(problem, utility=asked)
    assert exact.requested_utility == problem.utility_ceiling
    assert exact.lower_bound == exact.leakage == pytest.approx(problem.leakage_ceiling)


def test_a_task_that_is_the_secret_costs_all_of_itself() -> None:
    p = np.array([[0.3, 0.1, 0.05], [0.1, 0.2, 0.25]])
    problem = pf.Problem(p, p_ux=p)
    solution = pf.solve(problem, utility="50%")
    assert solution.leakage == pytest.approx(0.5 * problem.utility_ceiling, abs=GAP)
    assert solution.lower_bound >= 0.5 * problem.utility_ceiling - GAP


def test_several_tasks_are_kept_together() -> None:
    one, other = random_problem(5), random_problem(6)
    p_x = one.p_x
    second = other.required_tasks().rows * p_x
    first = one.required_tasks().rows * p_x
    problem = pf.Problem(one.p_sx, p_ux={"a": first, "b": second}, task_weights={"b": 0.5})
    solution = pf.solve(problem, utility="60%")
    assert solution.utility >= 0.6 * problem.utility_ceiling - 1e-9
    assert solution.lower_bound <= solution.leakage
    assert solution.status is pf.Status.OPTIMAL
    assert solution.gap <= GAP


def test_weights_count_by_their_ratio() -> None:
    first, second = (random_problem(seed).required_tasks().rows for seed in (5, 6))
    problem = random_problem(5)
    tables = {"a": first * problem.p_x, "b": second * problem.p_x}
    one = pf.solve(pf.Problem(problem.p_sx, p_ux=tables, task_weights={"b": 0.5}), utility="60%")
    many = pf.Problem(problem.p_sx, p_ux=tables, task_weights={"a": 2000.0, "b": 1000.0})
    thousand = pf.solve(many, utility="60%")
    assert thousand.status is pf.Status.OPTIMAL
    assert thousand.leakage == pytest.approx(one.leakage, abs=GAP)
    most = [pf.solve(each, leakage=0) for each in (one.problem, many)]
    assert [each.status for each in most] == [pf.Status.OPTIMAL] * 2
    assert most[1].leakage <= 1e-9
    assert most[1].utility / 2000.0 == pytest.approx(most[0].utility, abs=GAP)
    assert most[1].gap <= 2000.0 * GAP


@pytest.mark.parametrize("n_s", [2, 4])
def test_four_values_are_proved_with_and_without_leakage(n_s: int) -> None:
    problem = random_problem(21, n_s=n_s, n_u=4, n_x=9)
    free = pf.solve(problem, leakage=0)
    assert free.status is pf.Status.OPTIMAL
    assert free.leakage <= 1e-9
    assert free.utility <= free.utility_upper_bound <= free.utility + GAP
    near = pf.solve(problem, utility="99%")
    assert near.status is pf.Status.OPTIMAL
    assert near.utility >= 0.99 * problem.utility_ceiling - 1e-9
    assert near.leakage <= pf.solve(problem, utility="100%").leakage


def test_relaxations_are_solved_on_boxes_with_and_without_leakage() -> None:
    # Three cells: all posteriors on a grid, those in the box are candidates.
    rng = np.random.default_rng(4)
    told, kept, costs = rng.dirichlet([1, 1], size=3), rng.dirichlet([1, 1, 1], size=3), rng.random((1, 3))
    n = 400
    grid = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)], dtype=float) / n
    middle = kept.mean(axis=0)[None]
    low, high = middle - 0.05, middle + 0.05
    inside = np.all((grid @ kept >= low) & (grid @ kept <= high), axis=1)
    t = grid @ told
    values = np.where(inside, (t * np.log(t)).sum(axis=1) + grid @ costs[0], np.inf)
    for p_s in (None, told.mean(axis=0)):
        if p_s is not None:
            near = np.abs(t - p_s).max(axis=1) <= 1.0 / n
            values = np.where(inside & near, grid @ costs[0], np.inf)
        made = relaxed(Images(told, kept, p_s), costs, low, high, 1e-9)
        w = made.posteriors[0]
        assert np.all((w @ kept >= low - 1e-6) & (w @ kept <= high + 1e-6))
        image = w @ told
        value = w @ costs[0] + (0.0 if p_s is not None else (image * np.log(image)).sum())
        assert value == pytest.approx(values.min(), abs=5.0 / n)
        if p_s is not None:
            np.testing.assert_allclose(image, p_s, atol=1e-6)


def test_symbols_that_are_alike_change_nothing(small: pf.Problem) -> None:
    double = np.repeat(np.arange(small.n_x), 2)
    twin = pf.Problem(
        small.p_sx[:, double] / 2, p_ux=small.required_tasks().rows[:, double] * small.p_x[double] / 2
    )
    assert classes(twin).n == small.n_x
    wanted = 0.7 * small.utility_ceiling
    assert pf.solve(twin, utility=wanted).leakage == pytest.approx(
        pf.solve(small, utility=wanted).leakage, abs=GAP
    )


def test_cells_lose_nothing_that_is_achieved() -> None:
    rng = np.random.default_rng(3)
    n = 4000
    problem = random_problem(11, n_x=n)
    cells = cells_of(problem, 300)
    assert 150 <= cells.n <= 300
    channel = rng.dirichlet([0.5, 0.5, 0.5], size=cells.n)
    point = problem.evaluate(channel[cells.of])
    assert cells.leakage(channel) == pytest.approx(point.leakage, abs=1e-12)
    assert cells.utility(channel) == pytest.approx(point.utility, abs=1e-12)
    assert Cells(problem, np.zeros(n, dtype=np.intp)).refined(8).n > 1


def test_a_hundred_symbols_are_proved_in_a_few_programs() -> None:
    rng = np.random.default_rng(0)
    p_x, common = rng.dirichlet(np.ones(100)), 3.0 * rng.normal(size=100)
    s, u = (1.0 / (1.0 + np.exp(common + rng.normal(size=100))) for _ in range(2))
    problem = pf.Problem(np.stack([s, 1.0 - s]) * p_x, p_ux=np.stack([u, 1.0 - u]) * p_x)
    answer = TaskFunnel().solve(problem, 0.5 * problem.utility_ceiling)
    assert answer.status is pf.Status.OPTIMAL
    assert answer.steps < 150  # Newton steps of all programs; labels one after the other took thousands


def test_cells_in_the_shape_of_a_proof_lose_less_than_round_ones() -> None:
    rng = np.random.default_rng(0)
    p_x, common = rng.dirichlet(np.ones(2000)), rng.normal(size=2000)
    s, u = (1.0 / (1.0 + np.exp(common + rng.normal(size=2000))) for _ in range(2))
    problem = pf.Problem(np.stack([s, 1.0 - s]) * p_x, p_ux=np.stack([u, 1.0 - u]) * p_x)
    proved = TaskFunnel(gap=1e-3).solve(problem, 0.8 * problem.utility_ceiling).certificate
    assert proved is not None
    functions = proved.body.functions(problem, proved.claim)

    def paid(told: np.ndarray, kept: np.ndarray, p: np.ndarray) -> float:
        return sum(float(p[some] @ values.min(axis=1)) for some, values in functions.values(told, kept))

    whole = paid(problem.p_s_given_x, problem.required_tasks().rows, problem.p_x)
    narrow, round_ones = shaped(problem, functions, 0.0, 200), cells_of(problem, 200)
    assert narrow.n <= round_ones.n * 1.2
    lost = [paid(each.told.T, each.kept.T, each.p) - whole for each in (narrow, round_ones)]
    assert 0.0 <= lost[0] <= lost[1] / 3.0
    assert shaped(problem, functions, 1.0, 200).n == 1


def test_the_program_is_solved_to_its_duality_gap() -> None:
    # Two cells that cannot be told apart but by their task: all mass in one output leaks nothing.
    program = Program(np.array([0.5, 0.5]), np.array([[0.2, 0.8], [0.8, 0.2]]), np.zeros((2, 2)), 1.0)
    outcome = minimise(program, 1e-8, Deadline(10.0))
    joint = outcome.mass.T @ program.told
    ratio = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ratio, 0.5, atol=1e-3)
    np.testing.assert_allclose(outcome.mass.sum(axis=1), program.p, atol=1e-9)


def test_what_makes_no_sense_is_refused(small: pf.Problem) -> None:
    with pytest.raises(InvalidInputError, match="exactly one of utility"):
        pf.solve(small, utility=0.1, leakage=0.1)
    with pytest.raises(InfeasibleError, match="largest feasible is I"):
        pf.solve(small, utility=5.0)
    with pytest.raises(InvalidInputError, match="has no task"):
        pf.solve(pf.Problem(small.p_sx), utility=0.1)
    with pytest.raises(InvalidInputError, match="solves the plain funnel"):
        pf.solve(small, utility=0.1, solver="aem")
    with pytest.raises(InvalidInputError, match="along='sideways'"):
        pf.trace(small, along="sideways")
    with pytest.raises(InvalidInputError, match="leave disclosures="):
        pf.trace(small, along="utility", disclosures=[0.1])
    told = pf.solve(small, utility=5.0, throw=False)
    assert told.status is pf.Status.INFEASIBLE
    assert "largest feasible" in told.message


def test_a_point_that_fails_keeps_its_place_on_the_curve(
    small: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CertificateError("it does not prove its bound")

    monkeypatch.setattr(Certificate, "verify", refuse)
    monkeypatch.setattr("privfunnel.solving.tracing.verify_all", refuse)
    at = {"along": "utility", "utilities": [0.0, "85%", "100%"]}
    curve = pf.trace(small, **at, throw=False)
    ends, middle = curve.rows()[::2], curve.rows()[1]
    assert [row["status"] for row in ends] == ["optimal", "optimal"]
    assert (middle["status"], middle["lower_bound"]) == ("failed", 0.0)
    assert curve.solutions[1].message == "it does not prove its bound"
    with pytest.raises(CertificateError, match="does not prove"):
        pf.trace(small, **at)


def test_disclosure_may_be_asked_for_besides(small: pf.Problem) -> None:
    double = np.repeat(np.arange(small.n_x), 3)
    twin = pf.Problem(
        small.p_sx[:, double] / 3, p_ux=small.required_tasks().rows[:, double] * small.p_x[double] / 3
    )
    plain = pf.solve(twin, utility="60%")
    more = pf.solve(twin, utility="60%", disclosure=plain.disclosure + 0.5)
    assert more.disclosure >= plain.disclosure + 0.5
    assert more.leakage == pytest.approx(plain.leakage, abs=1e-9)
    assert more.utility == pytest.approx(plain.utility, abs=1e-9)
    whole = pf.solve(twin, utility="60%", disclosure="100%")
    assert whole.bound_source == "closed form"
    assert whole.leakage == pytest.approx(twin.leakage_ceiling)


def test_disclosure_alone_is_the_plain_funnel(small: pf.Problem) -> None:
    plain = pf.solve(pf.Problem(small.p_sx), disclosure=1.5)
    assert pf.solve(small, disclosure=1.5).leakage == pytest.approx(
        plain.leakage, abs=1e-6
    )  # both within their gap


def test_a_point_that_was_cut_short_does_not_lie_above_its_neighbours(small: pf.Problem) -> None:
    half = 0.5 * small.utility_ceiling
    ends = [pf.solve(small, utility=share) for share in ("0%", "100%")]
    short = Answer(channel=ends[1].channel, status=pf.Status.TIME_LIMIT)
    way = TaskWay(TaskFunnel())
    places = (0.0, half, small.utility_ceiling)
    found = PartialCurve(
        question=ends[0].question, way=way, how=Asking(), wanted=places, asked=tuple(ends), complete=True,
        found=(Found(short, place=half),),
    )  # fmt: skip
    low, middle, high = found.curve().solutions
    assert found.newest.leakage == high.leakage
    assert middle.leakage <= 0.5 * (low.leakage + high.leakage) + 1e-9
    assert middle.status is pf.Status.TIME_LIMIT
    assert (low.leakage, high.leakage) == tuple(each.leakage for each in ends)


def test_the_curve_answers_between_its_points(curve: pf.Curve, small: pf.Problem) -> None:
    middle = float(curve.utility[2] + curve.utility[3]) / 2
    point = curve.at(middle)
    assert point.utility == pytest.approx(middle, abs=1e-9)
    assert point.lower_bound <= point.leakage <= (curve.leakage[2] + curve.leakage[3]) / 2 + 1e-9
    spent = curve.within(point.leakage)
    assert spent.utility == pytest.approx(middle, abs=1e-6)
    assert curve.within(10.0).utility == pytest.approx(small.utility_ceiling, abs=1e-9)


def test_solutions_and_curves_survive_their_files(curve: pf.Curve, small: pf.Problem, tmp_path) -> None:
    solution = pf.solve(small, utility="50%")
    solution.save(tmp_path / "solution.json")
    again = pf.Solution.load(tmp_path / "solution.json")
    assert again.requested_utility == solution.requested_utility
    assert again.utility == pytest.approx(solution.utility, abs=1e-12)
    curve.save(tmp_path / "curve.json")
    np.testing.assert_allclose(pf.Curve.load(tmp_path / "curve.json").utility, curve.utility, atol=1e-12)
    data = solution.to_dict() | {"utility": solution.utility + 1e-3}
    with pytest.raises(InvalidInputError, match="claims utility"):
        pf.Solution.from_dict(data)
    assert [row["utility"] for row in curve.rows()] == curve.utility.tolist()
    assert "of I(U;X)" in curve._repr_html_()
    assert "utility" in solution._repr_html_()


def test_a_time_limit_leaves_an_answer_with_a_true_bound() -> None:
    problem = random_problem(12, n_s=4, n_u=4, n_x=40)
    solution = pf.solve(problem, utility="80%", time_limit=0.2, throw=False)
    assert solution.utility >= 0.8 * problem.utility_ceiling - 1e-9
    assert 0.0 <= solution.lower_bound <= solution.leakage


def test_another_table_or_task_has_no_such_certificate(small: pf.Problem) -> None:
    line = pf.solve(small, utility="70%").certificate
    with pytest.raises(CertificateError, match="another problem"):
        line.verify(random_problem(2))
    with pytest.raises(CertificateError, match="another problem"):
        line.verify(pf.Problem(small.p_sx))


@pytest.mark.parametrize("held", [np.asarray, sparse.csc_array])
def test_outputs_that_never_occur_are_merged_as_far_as_the_utility_allows(
    small: pf.Problem, held: Callable[[np.ndarray], Any]
) -> None:
    tasks = small.required_tasks()
    rng = np.random.default_rng(3)
    likely, never = rng.dirichlet(np.ones(4), small.n_x), rng.dirichlet(np.ones(3), small.n_x)
    full = np.hstack([(1.0 - 1e-10) * likely, 1e-10 * never])
    kept = tasks.of(full)
    merged = without_rare(tasks, held(full), kept - 1e-9)
    assert merged.shape == (small.n_x, 4)
    point = small.evaluate(small.check_channel(np.asarray(merged)))
    assert kept - 1e-9 <= tasks.of(merged) <= kept + 1e-15
    assert point.leakage <= small.evaluate(full).leakage + 1e-15
    # Without utility to spare they stay, and so does a channel that has no such output.
    assert without_rare(tasks, held(full), kept).shape == full.shape
    assert without_rare(tasks, likely, 0.0) is likely
