"""Large tables with many private symbols: AEM begins the search, and tables with fewer private symbols bound it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.solvers.deadline import Limits
from privfunnel.solvers.global_ import seeding, work
from privfunnel.solvers.global_.coarsening import coarse_lines
from privfunnel.solvers.global_.search import Search


@pytest.fixture
def problem() -> pf.Problem:
    rng = np.random.default_rng(4)
    return pf.Problem(rng.integers(1, 4, (6, 14)))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeding, "MANY", 10)


def test_only_many_classes_of_many_private_symbols_begin_with_aem() -> None:
    sizes = [(6, 300), (6, 299), (5, 300)]
    assert [seeding.pays(pf.Problem(np.ones(size))) for size in sizes] == [True, False, False]


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
    search.seed(problem.disclosure_ceiling)
    search.seed(0.0)
    assert search.master.n_columns == before


@pytest.mark.usefixtures("large")
def test_large_tables_are_bounded_by_three_and_four_groups_on_their_own_classes(problem: pf.Problem) -> None:
    wanted = 0.9 * problem.disclosure_ceiling
    limits = Limits(math.inf, nodes=20_000)
    lines = coarse_lines(problem, wanted, 1e-5, limits, np.random.default_rng(0))
    assert [
        len(set((line.coarsening if line.coarsening is not None else []).tolist())) for line in lines
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
    merged = [c for c in lines if c.coarsening is not None and c.coarsening[0] == c.coarsening[1]]
    assert merged
    for line in merged:
        line.verify(problem)
        assert line.cells is not None
        assert int(line.cells.max()) + 1 == 5


@pytest.mark.usefixtures("large")
def test_half_of_the_time_of_a_large_table_is_for_coarser_ones(
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
    assert 300.0 < given[0] <= 500.0
