"""The binary funnel: staircases, their proofs, and whole answers against the general solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from test_binary_free import beta_table

import privfunnel as pf
from helpers_kernels import plain
from privfunnel.algorithms.binary import pair_prices as frontier
from privfunnel.algorithms.binary import proof
from privfunnel.algorithms.binary import staircase_steps as walking
from privfunnel.algorithms.binary import staircases as shooting
from privfunnel.algorithms.binary.expansion import class_release, expand
from privfunnel.algorithms.binary.funnel import ClassOracle, solve_binary
from privfunnel.algorithms.binary.pair_prices import Classes, Pair
from privfunnel.algorithms.binary.table import binary_table
from privfunnel.errors import InvalidInputError
from privfunnel.measures import entropy, xlogx
from strategies import problems

Table = np.ndarray[Any, Any]

#: (shape of p(s=1|x), evenness of p(x)): the last ones are the hard kind, extreme π and very uneven masses.
KINDS = [((1.0, 1.0), 1.0), ((2.0, 5.0), 1.0), ((0.5, 2.0), 0.3), ((0.2, 0.2), 0.1), ((0.1, 0.6), 0.1)]
SLOPES = (0.003, 0.01, 0.04, 0.1, 0.2, 0.4, 0.7, 0.95)


def classes_of(table: Table) -> Classes:
    found = binary_table(table)
    return Classes(found.pi, found.rho, found.mass, np.asarray(xlogx(found.pi) + xlogx(found.rho)))


def objective(classes: Classes, stairs: shooting.Staircase, slope: float) -> float:
    """Σ r (−H(Pw) + μ H(w)) of a staircase, in nats."""
    p_st = np.stack([classes.mass * classes.rho, classes.mass * classes.pi])
    point = class_release(stairs, classes.mass).point(p_st)
    h_s, h_t = float(entropy(p_st.sum(axis=1))), float(entropy(classes.mass))
    return point.leakage - h_s + slope * (h_t - point.disclosure)


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("seed", range(8))
def test_a_staircase_meets_the_bound_that_its_prices_prove(kind: int, seed: int) -> None:
    shape, evenness = KINDS[kind]
    classes = classes_of(beta_table(100 * kind + seed, 3 + 6 * seed, shape, evenness))
    for slope in SLOPES:
        stairs = shooting.staircase(classes, slope)
        proved = proof.prove(classes, stairs.prices, slope)
        assert stairs.finished
        assert proved is not None
        gap = objective(classes, stairs, slope) - float(proved @ classes.mass)
        assert -1e-13 <= gap <= 2e-12
        assert proof.bound_all_pairs(classes, proved, slope) >= -1e-13


@pytest.mark.parametrize("seed", range(6))
def test_a_staircase_pairs_both_sides_in_the_same_order_around_a_middle_released_alone(seed: int) -> None:
    classes = classes_of(beta_table(seed, 60))
    stairs = shooting.staircase(classes, 0.1)
    assert stairs.b.size > 10
    assert (np.diff(stairs.b) <= 0).all()
    assert (np.diff(stairs.a) <= 0).all()
    assert stairs.b.max() <= stairs.a.min()
    alone = np.flatnonzero(stairs.alone > 1e-12)
    assert (np.diff(alone) == 1).all()
    inside = stairs.mass_b / (stairs.mass_b + stairs.mass_a)
    t = inside * classes.pi[stairs.b] + (1.0 - inside) * classes.pi[stairs.a]
    assert (np.diff(t) > -1e-12).all()
    used = np.bincount(stairs.b, stairs.mass_b, 60) + np.bincount(stairs.a, stairs.mass_a, 60)
    assert used + stairs.alone == pytest.approx(classes.mass, abs=1e-15)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_prices_are_given_those_that_come_back_are_feasible_for_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, evenness = KINDS[seed % len(KINDS)]
    classes = classes_of(beta_table(seed, int(rng.integers(2, 40)), shape, evenness))
    slope = float(rng.choice(SLOPES[1:-1]))
    best = shooting.staircase(classes, slope).prices
    for size in (1e-12, 1e-8, 1e-3, 0.3):
        moved = best + size * rng.normal(size=best.size) * (rng.random(best.size) < rng.choice([0.1, 1.0]))
        proved = proof.prove(classes, moved, slope)
        assert proved is not None
        assert (proved <= moved).all()
        assert proof.bound_all_pairs(classes, proved, slope) >= -1e-13


@pytest.mark.parametrize("seed", range(40))
def test_the_price_a_class_allows_crosses_that_of_another_once(seed: int) -> None:
    """Theorem 1 of docs/math-binary.md, at any prices: the outer class binds more for the inner partners."""
    rng = np.random.default_rng(seed)
    slope = float(rng.uniform(0.01, 0.9))
    inner, outer = np.sort(rng.uniform(0.2, 1.0, size=2))
    prices = [float(frontier.cap(pi, 1.0 - pi)) - rng.exponential(0.1) for pi in (inner, outer)]
    allowed = np.empty((2, 400))
    below = np.linspace(1e-3, inner - 1e-3, 400)
    for k, (pi, price) in enumerate(zip((inner, outer), prices, strict=True)):
        for i, b in enumerate(below):
            pair = Pair(b, 1.0 - b, pi, 1.0 - pi)
            odds = frontier.odds_from_above(pair, price, slope, 0.0)
            cap = frontier.cap(b, 1.0 - b)
            allowed[k, i] = (
                cap if odds == frontier.NONE else min(frontier.price_below(pair, odds, slope), cap)
            )
    outer_binds = allowed[1] <= allowed[0] + 1e-13
    assert not (outer_binds[:-1] & ~outer_binds[1:]).any()


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_answers_agree_with_the_general_solver(kind: int) -> None:
    shape, evenness = KINDS[kind]
    problem = pf.Problem(beta_table(7 + kind, 14, shape, evenness))
    for share in (0.7, 0.85, 0.95):
        target = share * problem.disclosure_ceiling
        mine = solve_binary(problem.p_sx, target)
        theirs = pf.solve(problem, disclosure=target, solver="global", gap=1e-7)
        assert mine.leakage == pytest.approx(theirs.leakage, abs=1e-6)
        assert mine.lower_bound <= theirs.leakage + 1e-9
        assert mine.leakage >= theirs.lower_bound - 1e-9


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("n_x", [2, 3, 10, 100])
def test_the_disclosure_is_met_and_value_and_bound_meet(kind: int, n_x: int) -> None:
    shape, evenness = KINDS[kind]
    problem = pf.Problem(beta_table(kind, n_x, shape, evenness))
    before = 0.0
    for share in (0.0, 0.3, 0.6, 0.8, 0.9, 0.97, 0.999, 1.0):
        target = share * problem.disclosure_ceiling
        answer = solve_binary(problem.p_sx, target)
        point = problem.evaluate(answer.release.channel(problem.n_x).toarray())
        assert point.disclosure >= target - 1e-11
        assert point.leakage == pytest.approx(answer.leakage, abs=1e-12)
        assert -1e-13 <= answer.leakage - answer.lower_bound <= 1e-10
        assert answer.lower_bound >= before - 1e-11
        before = answer.lower_bound


@given(problem=problems(min_s=2, max_s=2, min_x=2, max_x=9))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_awkward_tables_are_answered_and_proved(problem: pf.Problem) -> None:
    if problem.n_s != 2:
        return
    target = 0.8 * problem.disclosure_ceiling
    answer = solve_binary(problem.p_sx, target)
    point = problem.evaluate(answer.release.channel(problem.n_x).toarray())
    assert point.disclosure >= target - 1e-9
    assert point.leakage <= problem.leakage_ceiling + 1e-9
    assert answer.lower_bound <= point.leakage + 1e-11
    assert point.leakage - answer.lower_bound <= 1e-8


def test_the_line_of_an_answer_holds_on_the_whole_curve() -> None:
    problem = pf.Problem(beta_table(4, 30))
    answers = {
        share: solve_binary(problem.p_sx, share * problem.disclosure_ceiling) for share in (0.8, 0.9, 0.97)
    }
    for answer in answers.values():
        base = problem.h_s + float(answer.prices @ problem.p_x)
        for share, other in answers.items():
            room = (1.0 - share) * problem.disclosure_ceiling
            assert base - answer.slope * room <= other.leakage + 1e-11


def test_symbols_of_equal_rate_are_released_with_all_that_distinguishes_them() -> None:
    rng = np.random.default_rng(2)
    problem = pf.Problem(rng.poisson(3.0, size=(2, 80)))
    target = 0.95 * problem.disclosure_ceiling
    answer = solve_binary(problem.p_sx, target)
    assert answer.classes < problem.n_x
    point = problem.evaluate(answer.release.channel(problem.n_x).toarray())
    assert point.disclosure == pytest.approx(target, abs=1e-11)
    assert point.leakage == pytest.approx(answer.leakage, abs=1e-12)
    assert answer.leakage - answer.lower_bound <= 1e-10
    table = binary_table(problem.p_sx)
    curve = ClassOracle(table)
    support = curve.at(0.2)
    whole = expand(table, support.release).point(problem.p_sx)
    assert whole.leakage == pytest.approx(support.point.leakage, abs=1e-13)
    within = problem.disclosure_ceiling - curve.h_t
    assert whole.disclosure == pytest.approx(support.point.disclosure + within, abs=1e-12)


def test_three_thousand_classes_are_proved_to_a_billionth() -> None:
    table = beta_table(1, 3000)
    answer = solve_binary(table, 0.95 * float(entropy(table.sum(axis=0))))
    assert answer.leakage - answer.lower_bound <= 1e-9
    assert answer.leakage > 1e-3


def test_too_much_disclosure_is_refused_with_advice() -> None:
    with pytest.raises(InvalidInputError, match="ask for at most that"):
        solve_binary(beta_table(0, 5), 7.0)


def test_prices_without_order_are_given_up_instead_of_looked_at_pair_by_pair() -> None:
    classes = classes_of(beta_table(0, 2000))
    prices = classes.caps - np.random.default_rng(0).random(2000)
    assert proof.prove(classes, prices, 0.05) is None


@pytest.mark.parametrize("slope", [0.02, 0.3])
def test_the_compiled_functions_do_what_the_plain_ones_do(
    slope: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = classes_of(beta_table(9, 12, (0.5, 2.0), 0.3))
    fast = shooting.staircase(classes, slope)
    proved = proof.prove(classes, fast.prices, slope)
    for module in (frontier, walking, shooting, proof):
        for name in dir(module):
            if hasattr(getattr(module, name), "py_func"):
                monkeypatch.setattr(module, name, plain(getattr(module, name)))
    slow = shooting.staircase(classes, slope)
    again = proof.prove(classes, fast.prices, slope)
    assert (slow.b == fast.b).all()
    assert slow.prices == pytest.approx(fast.prices, abs=1e-12)
    assert again == pytest.approx(proved, abs=1e-12)
    assert proof.bound_all_pairs(classes, again, slope) >= -1e-13


def test_without_leakage_no_release_discloses_more_than_pairs_prove() -> None:
    problem = pf.Problem(np.random.default_rng(4).dirichlet(np.ones(160)).reshape(2, 80))
    solution = pf.solve(problem, leakage=0.0, solver="binary")
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure_upper_bound is not None
    assert 0.0 <= solution.disclosure_upper_bound - solution.disclosure <= 1e-10
    assert solution.disclosure_upper_bound == pytest.approx(pf.free_disclosure(problem), abs=1e-10)
