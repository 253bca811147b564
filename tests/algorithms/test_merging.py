"""Greedy, submodular and exhaustive merging, and the controls, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms.merging.deterministic import Deterministic, partition_points, set_partitions
from privfunnel.algorithms.merging.greedy import Greedy, merge_path
from privfunnel.algorithms.merging.partitions import channel_of
from privfunnel.algorithms.merging.submodular import (
    Submodular,
    agglomerate,
    enumerate_subsets,
    merge_change,
    search_subset,
)
from privfunnel.errors import InvalidInputError
from privfunnel.studies.random_baselines import RandomMaps, RandomStarts, random_maps


def random_problem(rng, n_x, n_s=3, concentration=1.0):
    return pf.Problem(rng.dirichlet(np.full(n_s * n_x, concentration)).reshape(n_s, n_x))


def merge(blocks, i, j):
    rest = [b for k, b in enumerate(blocks) if k not in (i, j)]
    return tuple(sorted([*rest, tuple(sorted(blocks[i] + blocks[j]))]))


def labels_of(blocks):
    labels = np.empty(sum(map(len, blocks)), dtype=int)
    for k, block in enumerate(blocks):
        labels[list(block)] = k
    return labels


def all_merge_sequences(problem, disclosure):
    """Every sequence of feasible pair merges, as lists of states, by brute force."""
    start = tuple((i,) for i in range(problem.n_x))
    stack = [[start]]
    while stack:
        path = stack.pop()
        extended = False
        for i, j in itertools.combinations(range(len(path[-1])), 2):
            state = merge(path[-1], i, j)
            if problem.evaluate(channel_of(labels_of(state))).disclosure >= disclosure - 1e-12:
                stack.append([*path, state])
                extended = True
        if not extended:
            yield path


@pytest.mark.parametrize("n_x", [2, 3, 4, 5])
def test_greedy_is_the_steepest_of_all_merge_sequences(n_x):
    rng = np.random.default_rng(n_x)
    for _ in range(4):
        problem = random_problem(rng, n_x)
        disclosure = rng.uniform(0.1, 0.9) * problem.disclosure_ceiling
        states = [frozenset(map(frozenset, (np.flatnonzero(labels == k) for k in set(labels.tolist())))) for labels in
                  merge_path(problem.p_sx, disclosure)]  # fmt: skip
        leakages = {}
        sequences = []
        for path in all_merge_sequences(problem, disclosure):
            for state in path:
                leakages[state] = problem.evaluate(channel_of(labels_of(state))).leakage
            sequences.append(path)
        # Of all sequences only those survive that take, step by step, the largest drop in leakage.
        depth = 1
        while any(len(path) > depth for path in sequences):
            going = [path for path in sequences if len(path) > depth]
            least = min(leakages[path[depth]] for path in going)
            sequences = [path for path in going if leakages[path[depth]] <= least + 1e-13]
            depth += 1
        expected = [
            {frozenset(map(frozenset, state)) for state in column} for column in zip(*sequences, strict=True)
        ]
        assert len(states) == len(expected)
        assert all(state in allowed for state, allowed in zip(states, expected, strict=True))


def test_greedy_on_the_synthetic_problem():
    problem = pf.instances.load("synthetic-uniform")
    ceiling = problem.disclosure_ceiling
    low = pf.solve(problem, disclosure=0.4 * ceiling, solver="greedy")
    high = pf.solve(problem, disclosure=0.8 * ceiling, solver="greedy")
    assert low.leakage == pytest.approx(0.1618, abs=5e-5)
    assert high.leakage == pytest.approx(0.4541, abs=5e-5)
    assert set(np.unique(low.channel)) == {0.0, 1.0}


def test_greedy_does_not_spend_disclosure_on_twins():
    """Symbols with the same p(s|x) leak the same apart and together: the only merge that gains is with the third."""
    problem = pf.Problem([[0.2, 0.2, 0.1], [0.1, 0.1, 0.3]])
    twins, other = (problem.evaluate(channel_of(labels)) for labels in ([0, 0, 1], [0, 1, 0]))
    assert twins.leakage == pytest.approx(problem.leakage_ceiling, abs=1e-15)
    assert min(twins.disclosure, other.disclosure) > 0.6  # either merge is allowed, a second one is not
    solution = pf.solve(problem, disclosure=0.6, solver="greedy")
    assert solution.leakage == pytest.approx(other.leakage, abs=1e-15)
    assert solution.leakage < 0.5 * twins.leakage
    assert (solution.channel[0] != solution.channel[1]).any()


def recursive_partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for partition in recursive_partitions(rest):
        for k in range(len(partition)):
            yield [*partition[:k], [first, *partition[k]], *partition[k + 1 :]]
        yield [[first], *partition]


@pytest.mark.parametrize("n_x", [1, 2, 4, 6])
def test_deterministic_against_enumeration(n_x):
    rng = np.random.default_rng(n_x)
    problem = random_problem(rng, n_x)
    points = [problem.evaluate(channel_of(labels_of(p))) for p in recursive_partitions(list(range(n_x)))]
    assert len(points) == len(set_partitions(n_x))
    for share in (0.2, 0.5, 0.8, 0.99) if n_x > 1 else ():
        asked = share * problem.disclosure_ceiling
        least = min(leakage for disclosure, leakage in points if disclosure >= asked)
        solution = pf.solve(problem, disclosure=asked, solver="deterministic")
        assert solution.leakage == pytest.approx(least, abs=1e-12)


@pytest.mark.parametrize(("n", "bell"), [(1, 1), (3, 5), (5, 52), (8, 4140)])
def test_set_partitions_are_all_and_distinct(n, bell):
    rows = set_partitions(n)
    assert rows.shape == (bell, n)
    assert len({tuple(row) for row in rows.tolist()}) == bell
    running = np.maximum.accumulate(rows, axis=1)
    assert (rows[:, 1:] <= running[:, :-1] + 1).all()


def test_partition_points_are_those_of_the_channel():
    rng = np.random.default_rng(9)
    problem = random_problem(rng, 5, 4)
    labels = set_partitions(5)
    disclosure, leakage = partition_points(problem.p_sx, labels)
    for k in range(0, len(labels), 7):
        point = problem.evaluate(channel_of(labels[k]))
        assert disclosure[k] == pytest.approx(point.disclosure, abs=1e-12)
        assert leakage[k] + problem.h_s == pytest.approx(point.leakage, abs=1e-12)


def test_deterministic_refuses_large_tables_with_a_status():
    problem = random_problem(np.random.default_rng(0), 11)
    solution = pf.solve(problem, disclosure=0.5, solver="deterministic", throw=False)
    assert solution.status is pf.Status.FAILED
    assert "11 public symbols" in solution.message
    with pytest.raises(pf.PrivFunnelError, match="too many partitions"):
        pf.solve(problem, disclosure=0.5, solver="deterministic")


def test_no_merging_method_beats_the_best_partition():
    rng = np.random.default_rng(4)
    for n_x in (4, 7):
        problem = random_problem(rng, n_x)
        for share in (0.3, 0.6, 0.9):
            asked = share * problem.disclosure_ceiling
            floor = pf.solve(problem, disclosure=asked, solver="deterministic").leakage
            assert pf.solve(problem, disclosure=asked, solver="greedy").leakage >= floor - 1e-12


@pytest.mark.parametrize("n_y", [2, 4, 6, 8, 10, 12])
def test_inner_search_finds_the_best_subset(n_y):
    rng = np.random.default_rng(n_y)
    for _ in range(12):
        n_s, concentration = int(rng.integers(2, 6)), rng.choice([0.3, 1.0, 3.0])
        columns = rng.dirichlet(np.full(n_s * n_y, concentration)).reshape(n_s, n_y)
        slope = rng.uniform(0.02, 0.95)
        subset, change = search_subset(columns, slope, rng, 12)
        _, least = enumerate_subsets(columns, slope)
        assert change == pytest.approx(least, abs=1e-11)
        assert change == pytest.approx(float(merge_change(columns, slope, subset[None])[0]), abs=1e-15)


def test_merge_change_is_the_change_of_the_objective():
    rng = np.random.default_rng(1)
    problem = random_problem(rng, 6, 4)
    subset = np.array([True, False, True, True, False, False])
    before = problem.evaluate(np.eye(6))
    after = problem.evaluate(channel_of(np.where(subset, 0, np.arange(6))))
    change = float(merge_change(problem.p_sx, 0.3, subset[None])[0])
    expected = (after.leakage - 0.3 * after.disclosure) - (before.leakage - 0.3 * before.disclosure)
    assert change == pytest.approx(expected, abs=1e-12)


def test_agglomeration_ends_where_no_subset_helps():
    rng = np.random.default_rng(2)
    problem = random_problem(rng, 9)
    for exact in (0, 12):
        labels, merges = agglomerate(problem.p_sx, 0.15, rng, 12, exact)
        channel = channel_of(labels)
        assert merges >= 1
        _, change = enumerate_subsets(problem.p_sx @ channel, 0.15)
        assert change > -1e-11


def test_submodular_answers_between_its_points():
    problem = random_problem(np.random.default_rng(3), 8)
    asked = 0.55 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=asked, solver="submodular")
    assert solution.disclosure >= asked - 1e-9
    assert solution.leakage <= problem.upper_bound(asked) + 1e-12
    curve = pf.trace(problem, disclosures=[asked], solver="submodular")
    assert solution.leakage <= curve.leakage[0] + 1e-12
    cut = Submodular(time_limit=1e-9).solve(problem, asked)
    assert "time limit" in cut.message


def test_controls_are_feasible_and_seeded():
    problem = random_problem(np.random.default_rng(5), 6)
    for solver in (RandomMaps(restarts=200), RandomStarts(restarts=20)):
        for share in (0.05, 0.5, 0.95):
            asked = share * problem.disclosure_ceiling
            first = pf.solve(problem, disclosure=asked, solver=solver, seed=3)
            again = pf.solve(problem, disclosure=asked, solver=solver, seed=3)
            assert first.disclosure >= asked - 1e-9
            np.testing.assert_array_equal(first.channel, again.channel)
    more = pf.solve(problem, disclosure=0.5, solver=RandomMaps(restarts=2000), seed=3).leakage
    assert more <= pf.solve(problem, disclosure=0.5, solver=RandomMaps(restarts=20), seed=3).leakage + 1e-12


def test_random_maps_are_deterministic_and_of_all_sizes():
    maps = random_maps(np.random.default_rng(0), 2000, 4)
    assert set(np.unique(maps)) == {0.0, 1.0}
    np.testing.assert_array_equal(maps.sum(-1), 1.0)
    assert set(maps.any(axis=1).sum(-1).tolist()) == {1, 2, 3, 4}


def test_progress_is_told():
    problem = random_problem(np.random.default_rng(5), 4)
    for solver in (Submodular(slopes=(0.2, 0.5)), Deterministic(), Greedy()):
        news = []
        list(solver.trace(problem, [0.3, 0.6], progress=news.append))
        assert news[-1].done == news[-1].total == 2


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Submodular, {"slopes": (1.2,)}), (Submodular, {"slopes": ()}), (Submodular, {"exact_outputs": 17}),
        (Submodular, {"restarts": 0}), (Deterministic, {"max_symbols": 0}), (RandomMaps, {"restarts": -1}),
        (RandomStarts, {"restarts": True}),
    ],
)  # fmt: skip
def test_options_are_checked(cls, options):
    with pytest.raises(InvalidInputError, match=cls.name):
        cls(**options)
