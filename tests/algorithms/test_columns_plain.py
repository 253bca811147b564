"""The global solver against independent methods, known answers and its own promises."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import privfunnel as pf
from helpers_kernels import Table, simplex_grid
from privfunnel.algorithms import deadline
from privfunnel.algorithms.columns.plain import run as work
from privfunnel.algorithms.columns.plain.fewer_private import coarse_lines, coarsenings
from privfunnel.algorithms.columns.plain.search import Search
from privfunnel.algorithms.deadline import Limits, cpu_clock
from privfunnel.errors import ConvergenceWarning, InvalidInputError
from privfunnel.infra.watching import Progress
from privfunnel.measures import entropy
from strategies import problems


def solve(problem: pf.Problem, share: float, **options: Any) -> pf.Solution:
    return pf.solve(problem, disclosure=share * problem.disclosure_ceiling, solver="global", **options)


# --- an independent method: a dense grid, its linear program, and the program's dual --------------------------------


def grid_interval(problem: pf.Problem, disclosure: float) -> tuple[float, float]:
    """(lower, upper) bounds of L(R) for three public symbols: SciPy's program on a grid, its duals on a finer one."""
    grid = simplex_grid(80)
    cost, resource = -entropy(grid @ problem.p_s_given_x.T), entropy(grid)
    result = linprog(
        cost,
        A_ub=resource[None, :],
        b_ub=[problem.disclosure_ceiling - disclosure],
        A_eq=grid.T,
        b_eq=problem.p_x,
        method="highs",
    )
    assert result.status == 0
    prices, slope = result.eqlin.marginals, -float(result.ineqlin.marginals[0])
    fine = simplex_grid(640)
    least = float((-entropy(fine @ problem.p_s_given_x.T) + slope * entropy(fine) - fine @ prices).min())
    # Between grid points F can be lower by what the entropies change over 1/640; 1e-4 is generous at these prices.
    lower = problem.h_s + prices @ problem.p_x - slope * (problem.disclosure_ceiling - disclosure) + least
    return float(lower) - 1e-4, problem.h_s + float(result.fun)


@pytest.mark.parametrize("seed", range(6))
def test_a_dense_grid_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = pf.Problem(rng.dirichlet(np.full(9, 0.7)).reshape(3, 3))
    for share in (0.2, 0.5, 0.8):
        solution = solve(problem, share)
        lower, upper = grid_interval(problem, share * problem.disclosure_ceiling)
        assert solution.leakage <= upper + 1e-9
        assert solution.lower_bound >= lower
        assert upper - solution.lower_bound < 2e-3


@pytest.mark.parametrize("name", ["synthetic-uniform", "synthetic-skewed"])
def test_the_packaged_synthetic_problems_agree_with_the_grid(name: str) -> None:
    problem = pf.instances.load(name)
    for share in np.linspace(0.1, 0.9, 9):
        solution = solve(problem, float(share))
        lower, upper = grid_interval(problem, float(share) * problem.disclosure_ceiling)
        assert lower <= solution.lower_bound <= solution.leakage <= upper + 1e-9


# --- reference values ------------------------------------------------------------------------------------------------


KNOWN = [(name, answer) for name in pf.instances.names() for answer in pf.instances.describe(name).known]


@pytest.mark.parametrize(("name", "answer"), KNOWN)
def test_the_catalogues_answers_are_found_again(name: str, answer: pf.instances.KnownAnswer) -> None:
    """Each is a proved interval of L(R), rounded outwards: this solver's own interval has to overlap it."""
    gap = 1e-5 if name == "census-income" else 1e-6
    problem = pf.instances.load(name, perturbation=answer.perturbation)
    solution = pf.solve(problem, disclosure=answer.disclosure, solver="global", gap=gap)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.gap <= gap
    assert solution.lower_bound <= answer.high
    assert solution.leakage >= answer.low


def test_the_closed_form_is_reached_at_the_census_curves_end() -> None:
    problem = pf.instances.load("census-income")
    for share in (0.7, 0.9):
        solution = solve(problem, share)
        closed = share * problem.disclosure_ceiling - problem.h_x_given_s
        assert solution.leakage == pytest.approx(closed, abs=1e-8)
        assert solution.bound_source == "closed form"


# --- known answers ---------------------------------------------------------------------------------------------------


def test_s_a_function_of_x() -> None:
    """S = f(X): the closed-form bound max(0, R − H(X|S)) is attained by shuffling inside the classes."""
    problem = pf.Problem([[0.2, 0.3, 0.0, 0.0, 0.1], [0.0, 0.0, 0.25, 0.15, 0.0]])
    for share in (0.1, 0.4, 0.7, 0.95):
        solution = solve(problem, share)
        assert solution.gap <= 1e-6
        assert solution.leakage == pytest.approx(
            max(0.0, share * problem.disclosure_ceiling - problem.h_x_given_s), abs=1e-6
        )


def test_s_equal_to_x() -> None:
    problem = pf.Problem(np.diag([0.1, 0.2, 0.3, 0.4]))
    for share in (0.3, 0.9):
        assert solve(problem, share).leakage == pytest.approx(share * problem.disclosure_ceiling, abs=1e-8)


def test_s_independent_of_x() -> None:
    problem = pf.Problem(np.outer([0.3, 0.7], [0.1, 0.2, 0.3, 0.4]))
    assert solve(problem, 0.99).leakage <= 1e-12


def test_binary_symmetric_chain() -> None:
    """X uniform, S = X with a flip of probability p: some uniform mixture of posteriors (v, 1 − v) is optimal.

    Then R = log 2 − h(v) and L = log 2 − h(v * p) if that is below its chords; the convex envelope comes from the grid.
    """
    flip = 0.1
    problem = pf.Problem([[0.5 * (1 - flip), 0.5 * flip], [0.5 * flip, 0.5 * (1 - flip)]])
    v = np.linspace(0.0, 0.5, 20_001)

    def h(p: Table) -> Table:
        return entropy(np.stack([p, 1.0 - p], axis=-1))

    disclosures = np.log(2.0) - h(v)
    leakages = np.log(2.0) - h(v * (1 - flip) + (1 - v) * flip)
    for share in (0.25, 0.5, 0.75):
        wanted = share * problem.disclosure_ceiling
        # Lower envelope at `wanted` of chords between the family's points.
        left, right = disclosures <= wanted, disclosures >= wanted
        x0, y0 = disclosures[left][::40][:, None], leakages[left][::40][:, None]
        x1, y1 = disclosures[right][::40][None, :], leakages[right][::40][None, :]
        chord = y0 + (y1 - y0) * (wanted - x0) / np.maximum(x1 - x0, 1e-12)
        best = min(float(np.interp(wanted, disclosures[::-1], leakages[::-1])), float(chord.min()))
        solution = solve(problem, share)
        assert solution.lower_bound <= best + 1e-9
        assert solution.leakage <= best + 1e-6
        assert solution.leakage >= best - 1e-4


def test_a_block_problem_combines_its_blocks() -> None:
    """Two tables side by side: the whole splits its disclosure between them at the best rate."""
    rng = np.random.default_rng(3)
    one = pf.Problem(rng.dirichlet(np.ones(9)).reshape(3, 3))
    two = pf.Problem(rng.dirichlet(np.ones(8)).reshape(2, 4))
    share = 0.4
    table = np.zeros((5, 7))
    table[:3, :3] = share * one.p_sx
    table[3:, 3:] = (1.0 - share) * two.p_sx
    whole = pf.Problem(table)
    wanted = 0.75 * (share * one.disclosure_ceiling + (1.0 - share) * two.disclosure_ceiling)
    grid = np.linspace(0.02, 0.98, 25) * one.disclosure_ceiling
    rest = (wanted - share * grid) / (1.0 - share)
    fits = (rest > 0.0) & (rest < two.disclosure_ceiling)
    first = pf.trace(one, disclosures=grid[fits], solver="global")
    second = pf.trace(two, disclosures=rest[fits], solver="global")
    split = share * first.leakage + (1.0 - share) * second.leakage[::-1]
    solution = pf.solve(whole, disclosure=wanted, solver="global")
    assert solution.leakage <= split.min() + 1e-6
    assert solution.leakage >= split.min() - 2e-3  # the grid's own coarseness
    assert solution.certificate is None or len(solution.certificate.body.proofs) == 2


def test_duplicate_columns_change_nothing() -> None:
    rng = np.random.default_rng(5)
    conditional = rng.dirichlet(np.ones(3), size=4).T
    p_x = np.array([0.1, 0.2, 0.3, 0.4])
    twice = pf.Problem(np.concatenate([conditional * p_x / 2] * 2, axis=1))
    once = pf.Problem(conditional * p_x)
    # Telling the copies apart is free, so that the twice-listed problem discloses log 2 more at the same leakage.
    for share in (0.5, 0.9):
        wanted = share * once.disclosure_ceiling
        double = pf.solve(twice, disclosure=wanted + np.log(2.0), solver="global")
        assert double.leakage == pytest.approx(
            pf.solve(once, disclosure=wanted, solver="global").leakage, abs=2e-6
        )


# --- promises --------------------------------------------------------------------------------------------------------


@given(problem=problems(max_s=4, max_x=6), share=st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_problem_is_closed_and_clean(problem: pf.Problem, share: float) -> None:
    solution = solve(problem, share, throw=False)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure >= share * problem.disclosure_ceiling - 1e-9
    assert solution.channel.shape[1] <= problem.n_x + 1
    shapes = solution.channel / solution.channel.sum(axis=0)
    distance = np.abs(shapes[:, :, None] - shapes[:, None, :]).max(axis=0)
    assert (distance + np.eye(shapes.shape[1]) > 1e-10).all(), "two outputs with the same posterior"


def test_a_trace_shares_its_work() -> None:
    problem = pf.instances.load("heart-failure")
    shares = np.linspace(0.65, 0.95, 7)
    curve = pf.trace(problem, disclosures=shares * problem.disclosure_ceiling, solver="global")
    assert (curve.gap <= 1e-6).all()
    assert set(curve.status) == {pf.Status.OPTIMAL}
    assert (np.diff(curve.leakage, 2) >= -1e-6).all()


def test_the_default_curves_are_proved_everywhere() -> None:
    for name, gap in (("synthetic-uniform", 1e-6), ("heart-failure", 1e-6), ("census-income", 1e-5)):
        curve = pf.trace(pf.instances.load(name), points=20, solver="global", gap=gap)
        assert set(curve.status) == {pf.Status.OPTIMAL}
        assert curve.gap.max() <= gap


def test_same_seed_same_channel() -> None:
    problem = pf.instances.load("heart-failure")
    first, second = (solve(problem, 0.7, seed=3) for _ in range(2))
    assert (first.channel == second.channel).all()


def test_limits_give_value_and_bound() -> None:
    problem = pf.instances.load("heart-failure")
    with pytest.warns(ConvergenceWarning, match="nodes ran out"):
        solution = solve(problem, 0.7, node_limit=40)
    assert solution.status is pf.Status.NODE_LIMIT
    assert 0.0 <= solution.lower_bound <= solution.leakage
    with pytest.warns(ConvergenceWarning, match="time ran out"):
        solution = solve(problem, 0.7, time_limit=1e-6)
    assert solution.status is pf.Status.TIME_LIMIT
    assert solution.disclosure >= 0.7 * problem.disclosure_ceiling - 1e-9


def test_limits_count_cpu_time_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that leaps by an hour at each look ends the search at once, and does not matter to the other."""
    hours = itertools.count(0.0, 3600.0)
    leaping = SimpleNamespace(monotonic=lambda: next(hours), thread_time=time.thread_time)
    monkeypatch.setattr(deadline, "time", leaping)
    problem = pf.instances.load("heart-failure")
    assert solve(problem, 0.7, time_limit=60.0, throw=False).status is pf.Status.TIME_LIMIT
    with cpu_clock():
        assert solve(problem, 0.7, time_limit=60.0, throw=False).status is pf.Status.OPTIMAL


def test_a_coarse_line_is_proved_when_the_target_is_out_of_reach() -> None:
    problem = pf.instances.load("heart-failure")
    solution = solve(problem, 0.8, node_limit=60, throw=False)
    assert solution.status is pf.Status.NODE_LIMIT
    assert solution.certificate is not None
    assert 0.0 < solution.lower_bound < solution.leakage


@pytest.mark.parametrize(
    "options", [{"gap": 0.0}, {"gap": 1e-12}, {"gap": float("nan")}, {"time_limit": 0.0}, {"node_limit": 0}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        pf.algorithms.registry.get("global", **options)


def test_progress_tells_value_and_bound_and_may_stop_the_run() -> None:
    problem = pf.instances.load("heart-failure")
    news: list[Progress] = []
    solve(problem, 0.8, progress=news.append)
    bounded = [n for n in news if n.value is not None and n.bound is not None]
    assert bounded
    assert all(n.bound <= n.value + 1e-9 for n in bounded)  # type: ignore[operator]
    assert news[-1].done == news[-1].total == 1

    def stop(news: Progress) -> None:
        if news.done == 2:
            raise KeyboardInterrupt

    curve = pf.trace(problem, disclosures=[1.7, 1.9, 2.1, 2.3], solver="global", progress=stop)
    assert not curve.complete
    assert len(curve.solutions) >= 1
    assert (curve.gap <= 1e-6).all()


def test_coarsenings_keep_what_tells_most() -> None:
    rng = np.random.default_rng(0)
    p_sx = rng.dirichlet(np.ones(42)).reshape(7, 6)
    p_sx[3] = p_sx[1] * 2.0  # telling these two apart says nothing about X: they are merged first
    p_sx /= p_sx.sum()
    found = coarsenings(p_sx)
    assert [int(groups.max()) + 1 for groups in found] == [5, 4, 3, 2]
    assert all(groups[3] == groups[1] for groups in found)
    for finer, coarser in itertools.pairwise(found):
        assert len(set(zip(finer.tolist(), coarser.tolist(), strict=True))) == int(finer.max()) + 1


def test_coarser_tables_bound_the_finer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    problem = pf.Problem(rng.dirichlet(np.full(48, 0.4)).reshape(6, 8))
    exact = solve(problem, 0.9)
    monkeypatch.setattr(Search, "_prove_something", lambda *_: None)
    thin = solve(problem, 0.9, node_limit=1, throw=False)
    assert thin.bound_source == "thinning"
    assert float(problem.lower_bound(thin.requested)) < thin.lower_bound <= exact.leakage
    monkeypatch.setattr(work, "thinning_line", lambda *_: None)
    limited = solve(problem, 0.9, node_limit=1, throw=False)
    assert limited.status is pf.Status.NODE_LIMIT
    assert limited.lower_bound == pytest.approx(float(problem.lower_bound(limited.requested)), abs=1e-12)
    lines = coarse_lines(
        problem, exact.requested or 0.0, 1e-5, Limits(seconds=30.0, nodes=100_000), np.random.default_rng(0)
    )
    assert len(lines) == 4
    bounds = []
    for line in lines:
        line.verify(problem)
        bounds.append(line.lower_bound(exact.requested or 0.0))
        assert bounds[-1] <= exact.leakage
    assert max(bounds) > exact.leakage / 2.0
    monkeypatch.setattr(work, "coarse_lines", lambda *_: lines)
    named = solve(problem, 0.9, node_limit=1, throw=False)
    assert named.bound_source == "coarsened certificate"
    assert named.lower_bound == pytest.approx(max(bounds), abs=1e-12)


# --- leakage budgets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["synthetic-uniform", "heart-failure", "census-income"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_budgets_are_met_and_closed(name: str, share: float) -> None:
    problem = pf.instances.load(name)
    solution = pf.solve(problem, leakage=share * problem.leakage_ceiling, solver="global")
    assert solution.status is pf.Status.OPTIMAL
    assert solution.budget is not None
    assert solution.leakage <= solution.budget + 1e-12
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure <= solution.disclosure_upper_bound + 1e-9
    back = pf.solve(problem, disclosure=solution.disclosure, solver="global")
    assert back.leakage <= solution.leakage + 2e-6


# --- the kernels, compiled and as plain Python ---------------------------------------------------------------


def test_plain_python_gives_the_same_answer() -> None:
    """Without numba the same functions run uncompiled: the whole solver in a fresh interpreter."""
    script = (
        "import privfunnel as pf; p = pf.Problem([[.2, .1, .05, .1], [.05, .1, .25, .15]]);"
        "s = pf.solve(p, disclosure=.8 * p.disclosure_ceiling, solver='global', gap=1e-5);"
        "b = pf.solve(p, leakage=.01, solver='global', gap=1e-4)"
    )
    told = subprocess.run(
        [sys.executable, "-c", f"{script}; print(s.leakage, s.lower_bound, s.status.value, b.status.value)"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    here: dict[str, pf.Solution] = {}
    exec(script, here)  # type: ignore[arg-type]
    compiled = here["s"]
    assert [compiled.status.value, here["b"].status.value] == told[2:] == ["optimal", "optimal"]
    assert [compiled.leakage, compiled.lower_bound] == pytest.approx([float(x) for x in told[:2]], abs=1e-5)


@pytest.mark.parametrize("solver", ["global", "auto"])
def test_an_interrupt_before_the_first_proof_keeps_the_pool(
    monkeypatch: pytest.MonkeyPatch, solver: str
) -> None:
    calls = 0
    improve = Search.improve

    def interrupted(self: Search, disclosure: float, rounds: int, threshold: float) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyboardInterrupt
        improve(self, disclosure, rounds, threshold)

    monkeypatch.setattr(Search, "improve", interrupted)
    problem = pf.instances.load("heart-failure")
    curve = pf.trace(problem, points=8, solver=solver, throw=False)
    assert not curve.complete
    assert len(curve.solutions) == 7
    assert (curve.leakage <= problem.upper_bound(curve.disclosure) + 1e-12).all()
    assert (curve.leakage >= curve.lower_bound - 1e-12).all()


@pytest.mark.parametrize("budget", [1e-7, 1e-6, 1e-5, 1e-4, 1e-2])
def test_a_budget_is_used_up(budget: float) -> None:
    solution = pf.solve(pf.instances.load("heart-failure"), leakage=budget, solver="global")
    assert 0.95 * budget <= solution.leakage <= budget
