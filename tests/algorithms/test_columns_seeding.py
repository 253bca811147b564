"""Large tables with many private symbols: AEM begins the search, and tables with fewer private symbols bound it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms.columns.plain import first_posteriors as seeding
from privfunnel.algorithms.columns.plain import interior_prices as interior
from privfunnel.algorithms.columns.plain import run as work
from privfunnel.algorithms.columns.plain.fewer_private import coarse_lines
from privfunnel.algorithms.columns.plain.plan import PLAN
from privfunnel.algorithms.columns.plain.search import Search
from privfunnel.algorithms.deadline import Deadline, Limits
from privfunnel.measures import Array


@pytest.fixture
def problem() -> pf.Problem:
    rng = np.random.default_rng(4)
    return pf.Problem(rng.integers(1, 4, (6, 14)))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeding, "MANY", 10)
    monkeypatch.setattr(seeding, "UNPROVED", 10)


def test_only_many_classes_begin_with_aem() -> None:
    sizes = [(6, 100), (3, 100), (3, 99), (2, 100)]
    assert [seeding.pays(pf.Problem(np.ones(size))) for size in sizes] == [True, True, False, False]


def test_only_many_classes_of_many_private_symbols_are_beyond_proofs() -> None:
    sizes = [(6, 300), (6, 299), (5, 300)]
    assert [seeding.beyond_proofs(pf.Problem(np.ones(size))) for size in sizes] == [True, False, False]


@pytest.mark.parametrize("n_s", [3, 6])
def test_a_point_begins_with_aem_and_steps_towards_a_budget_with_those_before(
    n_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    problem = pf.Problem(rng.dirichlet(np.ones(n_s), size=seeding.MANY).T)
    begun: list[float] = []
    monkeypatch.setattr(Search, "approach", lambda _self, disclosure, _gap: begun.append(disclosure))
    wanted = 0.99 * problem.disclosure_ceiling
    pf.solve(problem, disclosure=wanted, solver="global", time_limit=2.0, throw=False)
    assert begun == [wanted]
    budget = 0.95 * problem.leakage_ceiling
    pf.solve(problem, leakage=budget, solver="global", time_limit=2.0, throw=False)
    assert begun == [wanted]


def test_a_seeded_pool_is_no_worse_than_aem(problem: pf.Problem) -> None:
    wanted = 0.9 * problem.disclosure_ceiling
    search = Search(problem, np.random.default_rng(0), Limits(nodes=1))
    search.seed(wanted)
    number = int(np.random.default_rng(0).integers(2**31))
    aem = pf.solve(
        problem, disclosure=wanted, solver="aem", restarts=1, max_steps=100, seed=number, throw=False
    )
    assert search.master.solve(wanted).value <= aem.leakage + 1e-9


def test_nothing_is_seeded_beyond_the_curve(problem: pf.Problem) -> None:
    search = Search(problem, np.random.default_rng(0), Limits(nodes=1))
    before = search.master.n_columns
    for begin in (search.seed, search.approach):
        begin(problem.disclosure_ceiling)
        begin(0.0)
    assert search.master.n_columns == before


def test_prices_from_the_interior_find_what_two_runs_of_aem_miss() -> None:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.full(6, 0.5), size=60).T * rng.dirichlet(np.ones(60))
    problem, wanted = pf.Problem(table / table.sum()), 3.4
    search = Search(problem, np.random.default_rng(0), Limits(nodes=1))
    numbers = np.random.default_rng(0).integers(2**31, size=seeding.RUNS)
    aem = [
        pf.solve(
            problem, disclosure=wanted, solver="aem", restarts=1, max_steps=500, seed=int(n), throw=False
        )
        for n in numbers
    ]
    search.approach(wanted)
    value = search.master.solve(wanted).value
    assert value < min(found.leakage for found in aem)
    channel = search.channel(wanted)
    assert problem.evaluate(channel).disclosure >= wanted - 1e-9
    assert problem.evaluate(channel).leakage <= value + 1e-6


def test_prices_from_the_interior_reach_a_proved_optimum(problem: pf.Problem) -> None:
    wanted = 0.9 * problem.disclosure_ceiling
    best = pf.solve(problem, disclosure=wanted, solver="global")
    assert best.status is pf.Status.OPTIMAL
    start = np.random.default_rng(1).dirichlet(np.full(14, 0.1), size=40)
    used, value = interior.approach(problem, wanted, start, np.random.default_rng(0), Deadline())
    assert len(used) <= problem.n_x + 1
    assert best.lower_bound <= value <= 1.1 * best.leakage


def test_without_time_the_start_comes_back(problem: pf.Problem) -> None:
    start = np.eye(problem.n_x)[:3]
    used, value = interior.approach(problem, 1.0, start, np.random.default_rng(0), Deadline(0.0))
    assert used is start
    assert value == np.inf


def test_the_pool_of_prices_from_the_interior_stays_within_its_room(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interior, "MOST_ENTRIES", 40 * problem.n_x)
    start = np.random.default_rng(1).dirichlet(np.full(14, 0.1), size=40)
    wanted = 0.9 * problem.disclosure_ceiling
    used, value = interior.approach(problem, wanted, start, np.random.default_rng(0), Deadline())
    assert len(used) <= problem.n_x + 1
    assert 0.0 < value < problem.leakage_ceiling
    assert not interior.pays(pf.Problem(np.ones((6, 2001))))


@pytest.mark.usefixtures("large")
def test_large_tables_are_bounded_by_three_and_four_groups_on_their_own_classes(problem: pf.Problem) -> None:
    wanted = 0.9 * problem.disclosure_ceiling
    limits = Limits(math.inf, nodes=20_000)
    lines = coarse_lines(problem, wanted, 1e-5, limits, np.random.default_rng(0))
    assert [
        len(set(line.body.coarsening.tolist())) if line.body.coarsening is not None else 0 for line in lines
    ] == [3, 4]
    best = pf.solve(
        problem, disclosure=wanted, solver="global", node_limit=2000, time_limit=math.inf, throw=False
    )
    for line in lines:
        line.verify(problem)
        assert line.lower_bound(wanted) <= best.leakage


def test_symbols_that_merging_makes_equal_are_one_cell_of_the_proof() -> None:
    rng = np.random.default_rng(2)
    half = rng.integers(1, 6, (6, 5))
    swapped = half[[1, 0, 2, 3, 4, 5]]  # the same once the first two are merged
    problem = pf.Problem(np.hstack([half, swapped]))
    wanted = 0.95 * problem.disclosure_ceiling
    lines = coarse_lines(problem, wanted, 1e-5, Limits(math.inf, nodes=20_000), np.random.default_rng(0))
    merged = [
        c for c in lines if c.body.coarsening is not None and c.body.coarsening[0] == c.body.coarsening[1]
    ]
    assert merged
    for line in merged:
        line.verify(problem)
        assert line.body.cells is not None
        assert int(line.body.cells.max()) + 1 == 5


@pytest.mark.usefixtures("large")
def test_what_the_search_of_a_large_table_leaves_is_for_coarser_ones(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    monkeypatch.setattr(Search, "_prove_something", lambda *_: None)

    def note(
        _problem: pf.Problem, _disclosure: float, _gap: float, limits: Limits, _rng: object
    ) -> list[object]:
        given.append(limits.seconds)
        return []

    monkeypatch.setattr(work, "coarse_lines", note)
    found = pf.solve(problem, disclosure="90%", solver="global", node_limit=1, time_limit=1000.0, throw=False)
    assert found.status is pf.Status.NODE_LIMIT
    assert 500.0 < given[0] <= 750.0


def test_where_the_search_ends_above_aem_the_answer_is_aems(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = 0.9 * problem.disclosure_ceiling
    monkeypatch.setattr(interior, "approach", lambda *_: (np.eye(problem.n_x), 1.0))
    found = seeding.runs(problem, wanted, np.random.default_rng(0), Deadline())
    search = Search(problem, np.random.default_rng(0), Limits(nodes=1))
    search.approach(wanted)
    leakage = problem.evaluate(search.channel(wanted)).leakage
    assert search.master.solve(wanted).value > leakage + 1e-3
    assert leakage == min(seed.leakage for seed in found)


@pytest.mark.parametrize(("most_symbols", "goes_on"), [(0.0, True), (math.inf, False)])
def test_without_time_for_a_long_run_the_best_goes_on_where_none_has_ended(
    most_symbols: float, goes_on: bool, problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "NEAR", 1.0)
    monkeypatch.setattr(seeding, "LONG_TIMES", math.inf)
    monkeypatch.setattr(seeding, "MOST_SYMBOLS", most_symbols)
    made: list[int] = []
    run = seeding.run

    def note(*of: Any) -> seeding.Seed | None:
        made.append(of[4])
        return run(*of)

    monkeypatch.setattr(seeding, "run", note)
    seeding.runs(problem, 0.8 * problem.disclosure_ceiling, np.random.default_rng(0), Deadline(1e3))
    assert (seeding.LAST_STEPS in made) is goes_on


@pytest.mark.parametrize(
    ("near", "beyond", "share"),
    [(0.0, 15, PLAN.prices_before_proof), (1.0, 15, PLAN.prices), (0.0, 14, PLAN.prices)],
)
def test_prices_leave_time_for_a_proof_where_one_may_be_had(
    near: float, beyond: int, share: float, problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "NEAR", near)
    monkeypatch.setattr(seeding, "UNPROVED", beyond)
    given: list[float] = []

    def note(*of: Any) -> tuple[Array, float]:
        given.append(of[-1].seconds)
        return np.eye(problem.n_x), 1.0

    monkeypatch.setattr(interior, "approach", note)
    Search(problem, np.random.default_rng(0), Limits(1e5, nodes=1)).approach(0.9 * problem.disclosure_ceiling)
    assert given == pytest.approx([share * 1e5], rel=0.01)


def test_a_run_that_leaks_next_to_nothing_closes_its_point(problem: pf.Problem) -> None:
    wanted = 0.3 * problem.disclosure_ceiling
    search = Search(problem, np.random.default_rng(0), Limits(nodes=1))
    search.approach(wanted, 1e-6)
    outcome = search.close(wanted, 1e-6)
    assert outcome.status is pf.Status.OPTIMAL
    assert outcome.duals.value == problem.evaluate(search.channel(wanted)).leakage <= 1e-6
    assert search.master.n_columns == problem.n_x


def test_the_only_run_is_that_of_aem_which_ramps_up(problem: pf.Problem) -> None:
    wanted = 0.9 * problem.disclosure_ceiling
    only = seeding.only_run(problem, wanted, 2, Deadline())
    ramped = pf.AEM(restarts=2, threads=1).solve(problem, wanted, seed=2)
    assert only is not None
    assert "(number 1)" in ramped.message
    assert np.array_equal(only.channel, ramped.channel)


@pytest.mark.usefixtures("large")
def test_with_time_for_one_run_all_of_it_is_aems(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "PLAN", PLAN._replace(aem_entry_seconds=10.0))
    monkeypatch.setattr(interior, "approach", None)
    monkeypatch.setattr(work, "coarse_lines", None)
    wanted = 0.9 * problem.disclosure_ceiling
    found = pf.solve(
        problem, disclosure=wanted, solver="global", node_limit=1, time_limit=1000.0, throw=False
    )
    only = seeding.run(problem, wanted, 1e3, 0, seeding.FEWEST_STEPS, seeding.Ramped)
    assert only is not None
    assert found.leakage <= only.leakage + 1e-12


def test_nothing_comes_of_a_table_too_large_for_aem(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seeding.runs(pf.Problem(np.ones((6, 3300))), 5.0, np.random.default_rng(0), Deadline(1e-3)) == []
    monkeypatch.setattr(seeding, "run", lambda *_: None)
    search = Search(problem, np.random.default_rng(0), Limits(nodes=1))
    before = search.master.n_columns
    for begin in (search.seed, search.approach):
        begin(1.0)
    search.hurry(1.0, 0)
    assert search.master.n_columns == before
    assert problem.evaluate(search.channel(1.0)).disclosure >= 1.0
