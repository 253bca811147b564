"""The global solver on tables with many classes: supports are looked at, and what limits leave is proved, too."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms.columns.plain import Global
from privfunnel.algorithms.columns.plain import support_pricing as supported
from privfunnel.algorithms.columns.plain.run import Work
from privfunnel.algorithms.columns.plain.search import Outcome, Search
from privfunnel.algorithms.columns.plain.support_pricing import Sight
from privfunnel.algorithms.deadline import Limits
from privfunnel.certificate import SupportsProof
from privfunnel.certificate.answer import Answer
from privfunnel.certificate.supports import Below


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    """Three private symbols, ten public ones."""
    return pf.Problem(np.random.default_rng(3).dirichlet(np.full(30, 0.6)).reshape(3, 10))


@pytest.fixture
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Supports are looked at in small tables, too."""
    monkeypatch.setattr(supported, "MANY", 8)


def solved(problem: pf.Problem, share: float = 0.9, **options: float) -> pf.Solution:
    """The point at a share of H(X), without a clock."""
    solver = Global(**({"time_limit": math.inf} | options))  # type: ignore[arg-type]
    return pf.solve(problem, disclosure=share * problem.disclosure_ceiling, solver=solver, throw=False)


def proof_of(solution: pf.Solution) -> object:
    """What its certificate consists of."""
    assert solution.certificate is not None
    return solution.certificate.body.proofs[0]


@pytest.mark.usefixtures("_few_are_many")
@pytest.mark.parametrize("share", [0.8, 0.95])
def test_supports_prove_what_trees_prove(
    problem: pf.Problem, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_supports = solved(problem, share)
    assert isinstance(proof_of(by_supports), SupportsProof)
    monkeypatch.setattr(supported, "MANY", 11)
    by_trees = solved(problem, share)
    assert not isinstance(proof_of(by_trees), SupportsProof)
    assert by_supports.status is by_trees.status is pf.Status.OPTIMAL
    assert by_supports.leakage == pytest.approx(by_trees.leakage, abs=2e-6)


@pytest.mark.usefixtures("_few_are_many")
def test_the_same_seed_gives_the_same_answer(problem: pf.Problem) -> None:
    first, second = solved(problem, 0.85), solved(problem, 0.85)
    assert np.array_equal(first.channel, second.channel)
    assert first.lower_bound == second.lower_bound


@pytest.mark.usefixtures("_few_are_many")
def test_something_is_proved_when_limits_come_first(problem: pf.Problem) -> None:
    limited = solved(problem, 0.9, node_limit=1)
    assert limited.status is pf.Status.NODE_LIMIT
    assert isinstance(proof_of(limited), SupportsProof)
    assert limited.leakage - limited.lower_bound < 2.0 * supported.COARSE * limited.leakage


@pytest.mark.usefixtures("_few_are_many")
def test_the_least_f_that_a_look_found_is_proved_at_the_end(problem: pf.Problem) -> None:
    limits = Limits(nodes=10_000)
    search = Search(problem, np.random.default_rng(0), limits)
    disclosure = 0.9 * problem.disclosure_ceiling
    search.improve(disclosure, rounds=1, threshold=-1e-6)
    assert search._find_rivals()
    duals, _ = search._solve(disclosure)
    assert supported.applies(search.master, duals.slope)
    assert search._look(disclosure, duals, -1e-6, 10_000, limits) is Sight.FOUND
    best = max(look.bound for look in search._looks)
    assert search._prove_by_supports(disclosure, duals)
    assert search.bound(disclosure, by_line=True)[0] == pytest.approx(best, abs=1e-8)


@pytest.mark.usefixtures("_few_are_many")
def test_the_last_proof_is_of_prices_that_know_what_the_looks_before_it_found(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks that end with their first find are not whole, so that the least F of their prices is not known."""
    monkeypatch.setattr("privfunnel.certificate.supports.ENOUGH", 1)
    monkeypatch.setattr(supported, "COARSE", 1e-5)
    search = Search(problem, np.random.default_rng(0), Limits(nodes=10_000))
    disclosure = 0.9 * problem.disclosure_ceiling
    search.improve(disclosure, rounds=1, threshold=-1e-6)
    assert search._find_rivals()
    duals, _ = search._solve(disclosure)
    assert search._prove_by_supports(disclosure, duals)
    assert not np.allclose(search.lines[-1].body.prices, duals.prices)
    assert search.bound(disclosure, by_line=True)[0] > 0.5 * search._solve(disclosure)[0].value


def test_time_is_left_for_another_look_as_long_as_the_longest(problem: pf.Problem) -> None:
    search = Search(problem, np.random.default_rng(0), Limits(100.0, nodes=1))
    assert not search._late()
    search._longest = 99.0 / supported.KEPT
    assert not search._late()
    search._longest = 101.0 / supported.KEPT
    assert search._late()


@pytest.mark.usefixtures("_few_are_many")
def test_trees_are_grown_where_supports_cannot_be_settled(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Below(np.zeros((0, 10)), np.zeros(0), whole=False)
    monkeypatch.setattr(supported, "search", lambda *_: nothing)
    solution = solved(problem)
    assert solution.status is pf.Status.OPTIMAL
    assert not isinstance(proof_of(solution), SupportsProof)


@pytest.mark.usefixtures("_few_are_many")
def test_points_are_answered_in_the_order_asked_for(problem: pf.Problem) -> None:
    wanted = [share * problem.disclosure_ceiling for share in (0.8, 0.95, 0.9)]
    answers = list(Global(time_limit=math.inf).trace(problem, wanted))
    assert [problem.evaluate(answer.channel).disclosure for answer in answers] == pytest.approx(
        wanted, abs=1e-6
    )


@pytest.mark.usefixtures("_few_are_many")
def test_what_is_free_leaves_its_time_to_a_hard_point(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    close: Callable[..., Outcome] = Search.close
    given: list[float] = []

    def noted(search: Search, *args: object) -> Outcome:
        given.append(search.limits.seconds)
        return close(search, *args)

    monkeypatch.setattr(Search, "close", noted)
    free = [share * pf.free_disclosure(problem) for share in (0.2, 0.4, 0.6, 0.8)]
    list(Global(time_limit=1000.0).trace(problem, [*free, 0.9 * problem.disclosure_ceiling]))
    assert len(given) == 1
    assert 4000.0 < given[0] <= 5000.0  # of five thousand seconds, of which next to nothing is used up


@pytest.mark.usefixtures("_few_are_many")
def test_an_interrupt_hands_over_what_is_known(problem: pf.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    answer: Callable[[Work, float], Answer] = Work.answer
    wanted = [share * problem.disclosure_ceiling for share in (0.9, 0.95)]

    def interrupted(work: Work, disclosure: float) -> Answer:
        if disclosure == wanted[0]:
            raise KeyboardInterrupt
        return answer(work, disclosure)

    monkeypatch.setattr(Work, "answer", interrupted)
    given: list[Answer] = []
    with pytest.raises(KeyboardInterrupt):
        given.extend(Global(time_limit=math.inf).trace(problem, wanted))
    assert [each.status for each in given] == [pf.Status.TIME_LIMIT, pf.Status.OPTIMAL]
