"""What one would do otherwise: the best of dropping and coarsening columns, against all of them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import measures
from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.tables import Counts
from privfunnel.errors import InvalidInputError
from privfunnel.neighbours import alternatives
from privfunnel.neighbours.task_alternatives import instead_for_task


def counted(values: list[int], seed: int, *, kind: str = "integer", n: int = 3000) -> Counts:
    """Counts of a table with independent-looking public columns that all tell a little about S."""
    rng = np.random.default_rng(seed)
    codes = np.array(list(itertools.product(*(range(size) for size in values))))
    columns = tuple(
        Column(
            f"c{j}", kind, tuple(range(size)) if kind == "integer" else tuple(f"v{i}" for i in range(size))
        )
        for j, size in enumerate(values)
    )
    p_x = rng.dirichlet(np.full(len(codes), 2.0))
    tells = 0.5 + 0.35 * np.tanh((codes * rng.normal(size=len(values))).sum(axis=1))
    cells = rng.multinomial(n, np.concatenate([p_x * tells, p_x * (1.0 - tells)]))
    place = np.flatnonzero(cells)
    s = Alphabet((Column("s", "integer", (0, 1)),), np.arange(2)[:, None])
    return Counts(s, Alphabet(columns, codes), place // len(codes), place % len(codes), cells[place])


def dropped(counts: Counts, keep: tuple[int, ...]) -> tuple[float, float]:
    """H(X') and I(S;X') of releasing some columns, from scratch."""
    table: dict[tuple[int, ...], list[float]] = {}
    for s, x, n in zip(counts.cell_s, counts.cell_x, counts.cell_n, strict=True):
        cell = table.setdefault(tuple(counts.x_codes[x, list(keep)]), [0.0, 0.0])
        cell[s] += n / counts.n
    p = np.array(list(table.values())).T
    return float(measures.entropy(p.sum(axis=0))), float(measures.mutual_information(p))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 1.0])
def test_dropping_columns_is_the_best_of_all_subsets(seed: int, share: float) -> None:
    counts = counted([2, 3, 2, 2], seed)
    limit = share * counts.problem().leakage_ceiling
    found = alternatives.suppression(counts, limit)
    subsets = itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in range(5))
    feasible = [dropped(counts, keep)[0] for keep in subsets if dropped(counts, keep)[1] <= limit + 1e-9]
    assert found.exact
    assert found.disclosure == pytest.approx(max(feasible), abs=1e-12)
    assert found.leakage <= limit + 1e-9
    kept = tuple(j for j in range(4) if f"c{j}" not in found.done)
    assert dropped(counts, kept) == pytest.approx((found.disclosure, found.leakage), abs=1e-12)


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_coarser_categories_keep_at_least_what_dropping_keeps(kind: str) -> None:
    counts = counted([8, 4, 3], 1, kind=kind)
    for share in (0.05, 0.2, 0.5):
        limit = share * counts.problem().leakage_ceiling
        drop, coarse = alternatives.instead(counts.x_alphabet, counts.table() / counts.n, limit)
        assert coarse == alternatives.generalisation(counts, limit)
        assert coarse.disclosure >= drop.disclosure - 1e-12
        assert coarse.leakage <= limit + 1e-9
        assert coarse.exact


def test_a_missing_value_stays_apart_from_numbers() -> None:
    column = Column("a", "number", (1.0, 2.0, 3.0, 4.0, None))
    steps = alternatives._coarser(column, np.full(5, 0.2))
    assert [step.codes.tolist() for step in steps] == [[0, 0, 1, 1, 5]]
    assert steps[0].done == "2 of 4 bins"
    texts = alternatives._coarser(Column("b", "text", ("u", "v", "w", "z")), np.array([0.1, 0.4, 0.3, 0.2]))
    assert [step.codes.tolist() for step in texts] == [[4, 1, 2, 4], [4, 1, 4, 4]]


def test_a_search_that_is_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted([4, 4, 4], 2)
    limit = 0.1 * counts.problem().leakage_ceiling
    best = alternatives.generalisation(counts, limit)
    monkeypatch.setattr(alternatives, "MOST_EXAMINED", 2)
    rough = alternatives.generalisation(counts, limit)
    assert not rough.exact
    assert rough.leakage <= limit + 1e-9
    assert rough.disclosure <= best.disclosure + 1e-12
    assert "as far as was searched" in rough.words


def test_the_funnel_keeps_what_dropping_columns_would_throw_away() -> None:
    """Of two columns with many values the last bit tells a little about S; a third is a coin that tells nothing."""
    rng = np.random.default_rng(0)
    size = 8
    codes = np.array(list(itertools.product(range(size), range(size), range(2))))
    p_x = np.repeat(rng.dirichlet(np.full(size * size, 20.0)), 2) / 2.0
    tells = 0.5 + 0.08 * (2.0 * (codes[:, 0] % 2) - 1.0) + 0.08 * (2.0 * (codes[:, 1] % 2) - 1.0)
    columns = tuple(
        Column(name, "integer", tuple(range(k))) for name, k in (("a", size), ("b", size), ("c", 2))
    )
    cells = np.rint(np.concatenate([p_x * tells, p_x * (1.0 - tells)]) * 1_000_000).astype(np.int64)
    s = Alphabet((Column("s", "integer", (0, 1)),), np.arange(2)[:, None])
    n = len(codes)
    counts = Counts(s, Alphabet(columns, codes), np.arange(2 * n) // n, np.arange(2 * n) % n, cells)
    problem = counts.problem()
    solution = pf.solve(problem, disclosure=0.9 * problem.disclosure_ceiling)
    drop, coarse = alternatives.instead(counts.x_alphabet, problem.p_sx, solution.leakage)
    assert solution.disclosure >= 0.9 * problem.disclosure_ceiling - 1e-9
    assert drop.share < 0.2
    assert coarse.share < 0.9
    assert set(drop.done) == {"a", "b"}
    assert drop.words.startswith("By dropping columns one would keep 1")
    assert " keep 0.0 % of" in replace(drop, disclosure=-1e-17).words
    assert json.loads(json.dumps(drop.to_dict()))["done"] == {"a": "dropped", "b": "dropped"}


# --- as solvers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_suppression_leaks_least_of_all_subsets_that_keep_enough(seed: int, share: float) -> None:
    counts = counted([2, 3, 2], seed)
    problem = counts.problem()
    wanted = share * problem.disclosure_ceiling
    found = pf.solve(problem, disclosure=wanted, solver="suppression")
    subsets = itertools.chain.from_iterable(itertools.combinations(range(3), k) for k in range(4))
    points = [dropped(counts, keep) for keep in subsets]
    least = min(leaked for kept, leaked in points if kept >= wanted - 1e-9)
    assert found.leakage == pytest.approx(least, abs=1e-9)
    assert found.disclosure >= wanted - 1e-9
    coarser = pf.solve(problem, disclosure=wanted, solver="generalisation")
    assert coarser.leakage <= found.leakage + 1e-9  # dropping is one way of coarsening
    assert pf.solve(problem, disclosure=wanted).leakage <= coarser.leakage + 1e-9


def test_columns_are_coarsened_in_the_order_of_their_numbers() -> None:
    columns = {"age": ["18–40", "< 18", "≥ 65", "40–65"], "town": ["a", "null", "b", "a"]}
    problem = pf.Problem([[0.1, 0.2, 0.1, 0.1], [0.2, 0.1, 0.1, 0.1]], public_columns=columns)
    public = alternatives.alphabet_of(problem)
    age, town = public.columns
    assert age.values == ("< 18", "18–40", "40–65", "≥ 65")
    assert (age.kind, town.kind) == ("number", "text")
    assert town.values == ("a", "b", None)
    assert public.codes.tolist() == [[1, 0], [0, 2], [3, 1], [2, 0]]


def test_many_symbols_are_dropped_by_column_and_not_by_class() -> None:
    counts = counted([4, 5, 4], 1)
    problem = counts.problem()
    assert problem.n_x > 64  # beyond, other solvers work on classes, which have no columns
    found = pf.solve(problem, disclosure=0.5 * problem.disclosure_ceiling, solver="suppression")
    assert found.n_outputs in {4, 5, 16, 20}
    curve = pf.trace(problem, points=4, solver="suppression")
    assert (np.diff(curve.leakage) >= -1e-12).all()


def test_a_search_that_is_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = counted([4, 4, 4], 2).problem()
    monkeypatch.setattr(alternatives, "MOST_EXAMINED", 3)
    found = pf.solve(problem, disclosure=0.1 * problem.disclosure_ceiling, solver="generalisation")
    assert "too many" in found.message
    assert found.disclosure >= 0.1 * problem.disclosure_ceiling - 1e-9


# --- for a task -------------------------------------------------------------------------------------------------------


def with_task(counts: Counts, seed: int) -> pf.Problem:
    """The problem of counts, with two tasks of different weight that depend on the public columns."""
    rng, p_x = np.random.default_rng(seed), counts.problem().p_x
    chances = rng.dirichlet([1.0, 1.0], size=(2, len(p_x)))
    tables = {name: (chances[j] * p_x[:, None]).T for j, name in enumerate(("u", "v"))}
    return pf.Problem(counts.table() / counts.n, p_ux=tables, task_weights={"u": 1.0, "v": 0.5})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_dropping_for_a_task_leaks_least_of_all_subsets_that_are_as_good(seed: int, share: float) -> None:
    counts = counted([2, 3, 2], seed)
    problem = with_task(counts, seed)
    wanted = share * problem.utility_ceiling
    drop, coarse = instead_for_task(problem, wanted, counts.x_alphabet)
    points = []
    for keep in itertools.chain.from_iterable(itertools.combinations(range(3), k) for k in range(4)):
        _, place = np.unique(counts.x_codes[:, list(keep)], axis=0, return_inverse=True)
        point = problem.evaluate(np.eye(int(place.max()) + 1)[place.reshape(-1)])
        points.append((point.utility, point.leakage))
    least = min(leaked for kept, leaked in points if kept >= wanted - 1e-9)
    assert drop.exact
    assert drop.leakage == pytest.approx(least, abs=1e-12)
    assert drop.utility >= wanted - 1e-9
    assert coarse.leakage <= drop.leakage + 1e-12
    assert "to keep as much of u and v" in drop.words("bits")
    assert json.loads(json.dumps(drop.to_dict()))["leakage_share"] == pytest.approx(
        least / problem.leakage_ceiling
    )


def test_coarsening_that_is_cut_short_is_no_worse_than_dropping(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counted([4, 4, 4], 2)
    problem = with_task(counts, 2)
    monkeypatch.setattr(alternatives, "MOST_EXAMINED", 8)
    drop, coarse = instead_for_task(problem, 0.05 * problem.utility_ceiling, counts.x_alphabet)
    assert drop.exact
    assert not coarse.exact
    assert coarse.leakage <= drop.leakage
    assert "as far as was searched" in coarse.words()


def test_alternatives_for_no_task_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="has no task"):
        instead_for_task(counted([2, 2], 0).problem(), 0.1)


def test_coarser_categories_keep_no_less_than_dropping_columns_where_the_search_ends_too_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drop = alternatives.Alternative("dropping columns", 0.9, 2.0, 0.01, 0.02, {"a": "dropped"}, True, 4)
    coarse = alternatives.Alternative("coarser categories", 0.4, 2.0, 0.02, 0.02, {}, False, 9)
    found = {drop.method: drop, coarse.method: coarse}
    monkeypatch.setattr(alternatives, "_best", lambda public, p_sx, leakage, method: found[method])
    public: Any = None
    first, second = alternatives.instead(public, np.ones((2, 2)) / 4.0, 0.02)
    assert first == drop
    assert (second.disclosure, second.leakage, second.done) == (0.9, 0.01, {"a": "dropped"})
    assert (second.method, second.exact, second.tried) == ("coarser categories", False, 13)
    found[coarse.method] = replace(coarse, disclosure=1.0)
    assert alternatives.instead(public, np.ones((2, 2)) / 4.0, 0.02)[1].disclosure == 1.0
