"""Limits are limits, in every phase; what they cut short is still an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from clocks import AFTERWARDS, BEFORE, ticking
from privfunnel.algorithms import deadline, perfect, registry, sweep
from privfunnel.algorithms.columns.general import plan as columns_general_plan
from privfunnel.algorithms.columns.plain import fewer_private as coarsening
from privfunnel.algorithms.columns.plain import search
from privfunnel.algorithms.columns.plain.fewer_private import coarsenings
from privfunnel.algorithms.columns.plain.too_large import channel_seconds
from privfunnel.algorithms.deadline import Deadline, Limits, Pace
from privfunnel.algorithms.merging import submodular
from privfunnel.algorithms.perfect import splitting
from privfunnel.algorithms.perfect.equations import PrivateEquations
from privfunnel.certificate import exclusion, rivalry
from privfunnel.measures import mutual_information


def dense(n_s: int, n_x: int, seed: int = 0) -> pf.Problem:
    rng = np.random.default_rng(seed)
    return pf.Problem(rng.dirichlet(np.full(n_s * n_x, 0.5)).reshape(n_s, n_x))


@pytest.mark.parametrize("shape", [(40, 60), (6, 150)])
@pytest.mark.parametrize("asked", ["disclosure", "leakage"])
def test_a_hopeless_table_is_left_in_time(
    shape: tuple[int, int], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = dense(*shape)
    amount = {"disclosure": 0.9 * problem.disclosure_ceiling, "leakage": 0.3 * problem.leakage_ceiling}[asked]
    ticking(monkeypatch, 60.0)
    solution = pf.solve(problem, **{asked: amount}, solver="global", time_limit=60.0, throw=False)  # type: ignore[arg-type]
    assert solution.status is pf.Status.TIME_LIMIT
    assert solution.lower_bound <= solution.leakage


@pytest.mark.parametrize("asked", ["disclosure", "leakage"])
@pytest.mark.parametrize("share", [0.01, 0.9])
def test_a_table_too_large_for_a_search_is_time_shared_with_what_is_free(asked: str, share: float) -> None:
    problem = dense(3, 200)
    solver = registry.get("global", time_limit=0.5 * channel_seconds(problem))
    ceiling = {"disclosure": problem.disclosure_ceiling, "leakage": problem.leakage_ceiling}[asked]
    solution = pf.solve(problem, **{asked: share * ceiling}, solver=solver, throw=False)  # type: ignore[arg-type]
    if asked == "disclosure":
        assert solution.disclosure >= share * ceiling - 1e-9
    else:
        assert solution.leakage == pytest.approx(share * ceiling, abs=1e-9)
    assert solution.status is (pf.Status.OPTIMAL if solution.leakage < 1e-12 else pf.Status.TIME_LIMIT)
    time_shared = problem.leakage_ceiling * solution.disclosure / problem.disclosure_ceiling
    assert solution.lower_bound <= solution.leakage <= time_shared + 1e-9


def test_the_points_of_a_trace_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dense(20, 30)
    solver = registry.get("global", time_limit=60.0)
    wanted = np.linspace(0.3, 0.9, 6) * problem.disclosure_ceiling
    clock = ticking(monkeypatch, 6 * 60.0, 6 * BEFORE, 6 * AFTERWARDS)
    assert len(list(solver.trace(problem, wanted))) == 6
    assert clock.looks >= 6 * BEFORE


@pytest.mark.parametrize("solver", ["auto", "global", "slsqp", "submodular"])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_budget_is_spent_however_short_the_time_is(solver: str, share: float) -> None:
    problem = dense(6, 9)
    budget = share * problem.leakage_ceiling
    solution = pf.solve(problem, leakage=budget, solver=solver, time_limit=1e-3, throw=False)
    assert solution.leakage <= budget + 1e-9
    assert solution.disclosure >= share * problem.disclosure_ceiling - 1e-9


def test_without_time_for_rivals_a_line_is_proved_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PLAN", search.PLAN._replace(rivals=0.0, rivals_foreseen=-1.0))
    monkeypatch.setattr(exclusion, "_REMEMBERED", {})
    problem = pf.Problem([[0.3, 0.02, 0.02, 0.1], [0.02, 0.3, 0.02, 0.1], [0.04, 0.01, 0.05, 0.02]])
    run = search.Search(problem, np.random.default_rng(0), Limits(30.0, nodes=1000))
    outcome = run.close(0.8 * problem.disclosure_ceiling, 1e-6)
    assert outcome.status is pf.Status.TIME_LIMIT
    (line,) = run.lines
    assert line.n_nodes == 1
    line.verify(problem)
    assert exclusion._REMEMBERED == {}  # the checker did without them, too


def test_finding_rivals_can_be_stopped_and_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "_REMEMBERED", {})
    columns = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    with pytest.raises(TimeoutError):
        rivalry(columns, lambda share: share > 0.5)
    shares: list[float] = []
    table = rivalry(columns, lambda share: bool(shares.append(share)))
    assert 0.0 == shares[0] < shares[-1] < 1.0
    assert rivalry(columns.copy()) is table
    monkeypatch.setattr(exclusion, "MOST_REMEMBERED", 0)
    other = rivalry(columns[:5])
    assert list(exclusion._REMEMBERED.values()) == [other]


def by_all_pairs(p_sx: np.ndarray) -> list[list[int]]:
    """The groups of the greedy rule, every merger tried outright."""
    groups = [[s] for s in range(len(p_sx))]
    found = []
    while len(groups) > 2:
        kept = {}
        for i in range(len(groups)):
            for j in range(i + 1, len(groups)):
                merged = [g for k, g in enumerate(groups) if k not in (i, j)] + [groups[i] + groups[j]]
                table = np.array([p_sx[g].sum(axis=0) for g in merged])
                kept[i, j] = float(mutual_information(table))
        i, j = max(kept, key=lambda pair: kept[pair])
        groups = [g for k, g in enumerate(groups) if k not in (i, j)] + [groups[i] + groups[j]]
        if len(groups) <= 5:
            found.append(sorted(map(sorted, groups)))
    return found  # type: ignore[return-value]


def test_coarser_tables_are_those_that_lose_least_at_each_step() -> None:
    for seed in range(5):
        p_sx = dense(9, 6, seed).p_sx
        got = [
            sorted(sorted(np.flatnonzero(groups == g)) for g in np.unique(groups))
            for groups in coarsenings(p_sx)
        ]
        assert got == by_all_pairs(p_sx)
        assert [groups.max() + 1 for groups in coarsenings(p_sx)] == [5, 4, 3, 2]


def test_coarsening_many_private_symbols_takes_no_cubic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    p_sx = dense(60, 40).p_sx
    tried: list[int] = []

    def losses(table: np.ndarray, row: int, others: np.ndarray) -> np.ndarray:
        tried.append(others.size)
        return inner(table, row, others)

    inner = coarsening._losses
    monkeypatch.setattr(coarsening, "_losses", losses)
    assert len(coarsenings(p_sx)) == 4
    assert sum(tried) <= 60**2  # and not 60³ / 6, when every merger is tried outright
    assert coarsenings(p_sx, Deadline(0.0)) == []


def test_a_split_that_is_cut_short_is_a_mixture_all_the_same() -> None:
    problem = dense(5, 30)
    equations = PrivateEquations.of(problem.p_s_given_x, problem.p_x)
    parts = splitting.split(equations.rows, equations.goal, problem.p_x, Deadline(0.0))
    assert parts.weights @ parts.posteriors.toarray() == pytest.approx(problem.p_x, abs=1e-15)


def test_slices_cover_everything_once_and_end_with_the_time() -> None:
    pieces = list(Deadline().slices(1000, first=3))
    assert [i for piece in pieces for i in range(piece.start, piece.stop)] == list(range(1000))
    assert list(Deadline(0.0).slices(5)) == []


def test_the_pace_follows_the_work() -> None:
    class Watch:
        now = 0.0

        def elapsed(self) -> float:
            return self.now

        def passed(self) -> bool:
            return self.now > 10.0

    watch: Any = Watch()
    pace = Pace(4)
    assert pace.goes_on(watch)
    watch.now += 0.001
    assert pace.goes_on(watch)
    assert pace.size == 8
    watch.now += 1.0
    assert pace.goes_on(watch)
    assert pace.size == 4
    watch.now += 10.0
    assert not pace.goes_on(watch)


@pytest.mark.parametrize("accelerate", [True, False])
def test_aem_is_left_in_time_with_what_it_has(*, accelerate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dense(30, 40)
    solver = registry.get("aem", restarts=50, threads=1, time_limit=0.25, accelerate=accelerate)
    wanted = np.array([0.5, 0.8]) * problem.disclosure_ceiling
    ticking(monkeypatch, 0.5, 40, 80)
    answers = list(solver.trace(problem, wanted))
    for disclosure, answer in zip(wanted, answers, strict=True):
        assert answer.status is pf.Status.TIME_LIMIT
        assert problem.evaluate(answer.channel).disclosure >= disclosure - 1e-9


def test_a_limit_that_is_not_met_changes_nothing() -> None:
    problem = dense(4, 6)
    for name in ("aem", "binary"):
        table = problem if name == "aem" else dense(2, 80)
        asked = 0.8 * table.disclosure_ceiling
        free, limited = (
            pf.solve(table, disclosure=asked, solver=name, time_limit=limit, throw=False)
            for limit in (np.inf, 3600.0)
        )
        assert np.array_equal(free.channel, limited.channel)


def test_the_binary_solver_is_left_in_time_with_a_channel() -> None:
    problem = dense(2, 400)
    asked = 0.95 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=asked, solver="binary", time_limit=1e-6, throw=False)
    assert solution.status is pf.Status.TIME_LIMIT
    assert solution.disclosure >= asked - 1e-9
    assert solution.lower_bound <= solution.leakage <= problem.leakage_ceiling
    budget = 0.2 * problem.leakage_ceiling
    spent = pf.solve(problem, leakage=budget, solver="binary", time_limit=1e-6, throw=False)
    assert spent.leakage <= budget + 1e-9
    assert spent.disclosure >= 0.2 * problem.disclosure_ceiling


def test_a_limit_on_boxes_gives_the_same_answer_however_fast_the_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = dense(6, 12)
    asked = 0.7 * problem.disclosure_ceiling
    answers = []
    for moment in (0.1, 0.0):  # as on a machine where every box takes long
        monkeypatch.setattr(deadline, "MOMENT", moment)
        answers.append(
            pf.solve(problem, disclosure=asked, node_limit=60, time_limit=np.inf, gap=1e-8, throw=False)
        )
    assert answers[0].status is pf.Status.NODE_LIMIT
    assert answers[0].lower_bound == answers[1].lower_bound
    assert np.array_equal(answers[0].channel, answers[1].channel)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("dca", (30, 200)), ("dca", (3, 2500)), ("dca-repaired", (3, 2500)), ("drs", (3, 2500)),
        ("drs-repaired", (200, 300)), ("submodular", (3, 2500)), ("control-maps", (3, 2500)), ("aem", (3, 2500)),
    ],
)  # fmt: skip
def test_a_sweep_is_left_in_time_however_large_its_steps_are(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = dense(*shape)
    asked = 0.8 * problem.disclosure_ceiling
    solver: Any = registry.get(name).limited(0.2)
    outputs: list[int] = []
    if isinstance(solver, sweep.RestartedSweep):
        inner = type(solver)._run_job

        def run_job(self: Any, problem: pf.Problem, pool: Any, job: sweep.Job, *more: Any) -> None:
            outputs.append(job.n_y)
            inner(self, problem, pool, job, *more)

        monkeypatch.setattr(type(solver), "_run_job", run_job)
    ticking(monkeypatch, 0.2, 50, 50)
    answer = solver.solve(problem, asked)
    # What takes longer than all the time there is from one look to the next, is not begun.
    assert all(solver._seconds(problem, np.array(n_y)) <= 0.2 for n_y in outputs)
    assert answer.status is not pf.Status.OPTIMAL
    assert problem.evaluate(answer.channel).disclosure >= asked - 1e-9


def test_groups_of_runs_are_small_and_the_clock_is_looked_at_before_each_of_their_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for runs, n_x, n_y in ((1000, 30, 40), (7, 300, 400), (1, 2, 2)):
        parts = sweep.groups(np.empty((runs, n_x, n_y)))
        assert max(part.stop - part.start for part in parts) <= max(1, sweep.BATCH_ENTRIES // (n_x * n_y))
        assert parts[-1].stop >= runs
    clock = ticking(monkeypatch, 10.0, 10)
    looked: list[int] = []

    class Steps:
        going = True

        def advance(self) -> None:
            looked.append(clock.looks)

    sweep.in_turns([Steps(), Steps(), Steps()], Deadline(10.0), seconds=3.5)
    assert looked == [
        2,
        3,
        4,
        5,
        6,
        7,
    ]  # the first look was the start; the step after these would not end in time


@pytest.mark.parametrize("name", ["dca-repaired", "drs"])
def test_a_run_does_not_depend_on_the_runs_it_is_advanced_with(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = dense(4, 6)
    solver: Any = registry.get(name, max_steps=50)
    start = sweep.uniform_starts(np.random.default_rng(0), 7, 6, 4)
    beta = np.geomspace(1.0, 9.0, 7)
    together = solver.run(problem, start, beta)
    monkeypatch.setattr(sweep, "BATCH_ENTRIES", 48)
    assert len(sweep.groups(start)) == 4
    apart = solver.run(problem, start, beta)
    np.testing.assert_array_equal(together.channel, apart.channel)
    np.testing.assert_array_equal(together.steps, apart.steps)


def test_what_was_merged_when_the_time_is_up_is_a_partition() -> None:
    columns = dense(3, 40).p_sx
    looks = iter(range(1000))

    class Soon(Deadline):
        def passed(self, share: float = 1.0) -> bool:
            return next(looks) > 30

    rng = np.random.default_rng(0)
    labels, merges = submodular.agglomerate(columns, 0.3, rng, 4, 0, Soon())
    assert merges > 0
    assert 1 < len(np.unique(labels)) < 40
    whole, _ = submodular.agglomerate(columns, 0.3, np.random.default_rng(0), 4, 0)
    assert len(np.unique(whole)) < len(np.unique(labels))


def test_pairs_are_those_of_trying_each(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = dense(4, 23).p_sx
    first, second = np.triu_indices(23, 1)
    masks = np.zeros((len(first), 23), dtype=bool)
    masks[np.arange(len(first)), first] = masks[np.arange(len(first)), second] = True
    order = np.argsort(submodular.merge_change(columns, 0.4, masks), kind="stable")[:6]
    monkeypatch.setattr(submodular, "_BLOCK_ENTRIES", 300)
    pairs = submodular._best_pairs(columns, 0.4, 6, Deadline())
    np.testing.assert_array_equal(pairs, np.stack([first, second], axis=1)[order])
    cut = submodular._best_pairs(columns, 0.4, 6, Deadline(0.0))
    assert cut[:, 0].max() < pairs[:, 0].max()


def test_the_search_for_what_is_free_takes_a_share_of_a_short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everywhere: for a budget of nothing, and for the sentence that a curve ends with."""
    searched: list[float] = []

    def free(problem: pf.Problem, *, seconds: float, **options: Any) -> perfect.FreeDisclosure:
        searched.append(seconds)
        return perfect.free_disclosure(problem, seconds=0.05, nodes=10)

    monkeypatch.setattr(
        "privfunnel.solving.free_disclosure.perfect",
        SimpleNamespace(free_disclosure=free, prove=perfect.prove),
    )
    counts = np.random.default_rng(3).integers(1, 60, (5, 30))
    problem = pf.Problem(counts)
    pf.solve(problem, leakage=0, solver="global", time_limit=0.5, throw=False)
    pf.free_disclosure_bounds(problem)
    pf.trace(problem, points=2, solver="greedy")  # which has no limit
    pf.free_disclosure_bounds(problem)
    pf.free_disclosure_bounds(problem)
    assert searched == [0.1, 20.0], (
        "a search that was cut short is made again where there is more time, and once"
    )


def test_a_guarded_search_that_cannot_begin_in_time_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privfunnel.algorithms.columns.general.master.PLAN",
                        columns_general_plan.PLAN._replace(first_unit_seconds=1.0, first_seconds=0.0))  # fmt: skip
    monkeypatch.setattr("privfunnel.algorithms.columns.general.Guarded.answer", None)
    problem = pf.Problem(
        np.random.default_rng(0).integers(1, 60, (3, 70)), public_columns={"k": ["0", "1"] * 35}
    )
    found = pf.solve(problem, disclosure="60%", known=["k"], time_limit=5.0, throw=False)
    assert found.status is pf.Status.TIME_LIMIT
    assert "too large for a search" in found.message
    assert found.disclosure >= 0.6 * problem.disclosure_ceiling - 1e-9
