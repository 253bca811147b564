"""The AEM solver: answers, guarantees along the run, determinism, options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel.algorithms.aem import AEM, arrays
from privfunnel.algorithms.aem.record import LEMMA_TERMS
from privfunnel.algorithms.aem.starts import Starts, anchor
from privfunnel.algorithms.aem.state import Tables, channel_of, log_of
from privfunnel.certificate.answer import Status
from privfunnel.data import instances
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.watching import Progress
from privfunnel.model.problem import Problem
from privfunnel.model.stationarity import kkt_residual

HEART = instances.load("heart-failure", perturbation="probabilities")


def random_problem(seed: int, n_s: int = 3, n_x: int = 5, zeros: float = 0.3) -> Problem:
    rng = np.random.default_rng(seed)
    table = rng.gamma(0.7, size=(n_s, n_x)) * (rng.uniform(size=(n_s, n_x)) > zeros)
    table[rng.integers(n_s, size=n_x), np.arange(n_x)] += 0.2  # no empty column
    return Problem(table / table.sum())


@given(seed=st.integers(0, 10**6), share=st.floats(0.02, 0.98))
@settings(max_examples=40, deadline=None)
def test_every_iterate_is_feasible_and_descends(seed: int, share: float) -> None:
    problem = random_problem(seed)
    tables = Tables.of(problem.p_sx)
    disclosure = share * problem.disclosure_ceiling
    log_u = log_of(tables.p_x[:, None] * Starts(tables, 6, seed).channels([0], np.array([disclosure])))
    slope, target = np.array([0.5]), np.array([disclosure - tables.h_x])
    before = problem.evaluate(channel_of(tables, log_u[0])).leakage
    for _ in range(30):
        made = arrays.plain_step(arrays.Batch.of(tables), log_u, None, slope, target)
        log_u, slope = made.log_u, made.slope
        point = problem.evaluate(channel_of(tables, log_u[0]))
        assert point.disclosure >= disclosure - 1e-12
        assert slope[0] >= 0.0
        assert point.leakage <= before + 1e-12
        before = point.leakage


@pytest.mark.parametrize("name", ["synthetic-skewed", "heart-failure"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_lemma_1_accounts_for_every_descent(name: str, share: float) -> None:
    problem = instances.load(name)  # heart failure raw: with zero cells
    solver = AEM(record=True, restarts=1, max_steps=60, tolerance=0.0, accelerate=False)
    record = solver.solve(problem, share * problem.disclosure_ceiling).record
    assert record is not None
    descent = -np.diff(record["objective"])[1:]
    terms = np.array([record[name][1:-1] for name in LEMMA_TERMS])
    # The identity wants an active constraint in both iterations.
    active = (record["slope"][1:-1] > 0.0) & (record["slope"][2:] > 0.0)
    assert active.sum() > 30
    assert np.abs(descent - terms.sum(axis=0))[active].max() < 1e-12
    assert terms.min() > -1e-13
    assert np.all(np.diff(record["leakage"]) <= 1e-13)


def test_relaxed_objective_is_the_leakage_at_a_solution() -> None:
    problem = instances.load("synthetic-uniform")
    solver = AEM(record=True, restarts=1, max_steps=2000, outputs=4, accelerate=False)
    answer = solver.solve(problem, 0.9)
    assert answer.status is Status.CONVERGED
    assert answer.record is not None
    assert answer.record["objective"][-1] == pytest.approx(
        problem.evaluate(answer.channel).leakage, abs=1e-12
    )
    assert answer.record["kkt_residual"][-1] <= 1e-8
    assert len(answer.record["objective"]) == answer.steps + 1


def test_the_same_seed_gives_the_same_bits_in_one_batch_or_one_by_one() -> None:
    wanted = [0.8, 1.4, 2.4]
    for device in ("numpy", "numba"):
        if device == "numba":
            pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
        solver = AEM(restarts=2, max_steps=30, device=device, accelerate=False)
        together = list(solver.trace(HEART, wanted, seed=7))
        small_blocks = list(
            AEM(restarts=2, max_steps=30, device=device, memory=1, accelerate=False).trace(
                HEART, wanted, seed=7
            )
        )
        for value, answer, blocked in zip(wanted, together, small_blocks, strict=True):
            alone = solver.solve(HEART, value, seed=7)
            assert np.array_equal(alone.channel, answer.channel)
            assert np.array_equal(blocked.channel, answer.channel)
        threads = AEM(restarts=2, max_steps=30, device=device, threads=3, accelerate=False).solve(
            HEART, 1.4, seed=7
        )
        assert np.array_equal(threads.channel, together[1].channel)
        assert not np.array_equal(solver.solve(HEART, 1.4, seed=8).channel, together[1].channel)


def test_census_meets_its_closed_form_bound() -> None:
    problem = instances.load("census-income")
    wanted = [share * problem.disclosure_ceiling for share in (0.7, 0.8, 0.9)]
    for disclosure, answer in zip(wanted, AEM(restarts=2).trace(problem, wanted), strict=True):
        point = problem.evaluate(answer.channel)
        assert point.disclosure >= disclosure - 1e-9
        assert point.leakage - float(problem.lower_bound(disclosure)) < 1e-6


def test_zeros_of_the_start_stay_zero_and_poison_nothing() -> None:
    tables = Tables.of(instances.load("heart-failure").p_sx)
    start = np.random.default_rng(0).dirichlet(np.ones(17), size=16)
    start[:, 3] = 0.0  # an output that never occurs
    start[2, 5:9] = 0.0
    start[4] = np.eye(17)[4]  # a row that is decided
    start /= start.sum(axis=1, keepdims=True)
    log_u = log_of(tables.p_x[:, None] * start)[None]
    slope, target = np.zeros(1), np.array([0.2 - tables.h_x])
    for _ in range(50):
        made = arrays.plain_step(arrays.Batch.of(tables), log_u, None, slope, target)
        log_u, slope = made.log_u, made.slope
    channel = channel_of(tables, log_u[0])
    assert np.isfinite(log_u).all()
    assert np.all(channel[start == 0.0] == 0.0)
    assert np.all(channel[start > 0.0] > 0.0)
    assert np.allclose(channel.sum(axis=1), 1.0, atol=1e-14)


def test_the_identity_is_a_fixed_point() -> None:
    """The printed start of the paper: a multiplicative update cannot leave it."""
    tables = Tables.of(HEART.p_sx)
    log_u = log_of(np.diag(tables.p_x))[None]
    made = arrays.plain_step(
        arrays.Batch.of(tables), log_u, None, np.array([0.5]), np.array([1.0 - tables.h_x])
    )
    assert np.array_equal(channel_of(tables, made.log_u[0]), np.eye(16))


@pytest.mark.parametrize(
    "table",
    [
        [[0.2, 0.3, 0.5]],  # one private symbol: everything is free
        [[0.4], [0.6]],  # one public symbol: nothing to tell
        [[0.5, 0.0], [0.0, 0.5]],  # S = X
        [[1e-12, 0.3], [0.5, 0.2]],
        [[1e-300, 0.3], [0.5, 0.2]],
        [[0.25, 0.25], [0.25, 0.25]],  # independent
    ],
)
def test_degenerate_problems(table: list[list[float]]) -> None:
    problem = Problem(np.array(table) / np.sum(table))
    for share in (0.0, 0.3, 0.7, 1.0):
        disclosure = share * problem.disclosure_ceiling
        point = pf.solve(problem, disclosure=disclosure, solver=AEM(restarts=3, max_steps=200), throw=False)
        assert point.disclosure >= disclosure - 1e-9
        assert point.leakage >= float(problem.lower_bound(disclosure)) - 1e-12
        assert point.leakage <= float(problem.upper_bound(disclosure)) + 1e-6


def test_fewer_outputs_than_symbols() -> None:
    balanced = anchor(HEART.p_x, 4, np.random.default_rng(0))
    assert sorted(set(balanced)) == [0, 1, 2, 3]
    answer = AEM(outputs=4, restarts=3, max_steps=100).solve(HEART, 1.2)
    assert answer.channel.shape[1] <= 4
    assert HEART.evaluate(answer.channel).disclosure >= 1.2 - 1e-9
    with pytest.raises(InfeasibleError, match=r"4 outputs reach .* raise the option outputs"):
        AEM(outputs=4, restarts=2, max_steps=10).solve(HEART, 1.6)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"restarts": 0}, "restarts=0"),
        ({"restarts": True}, "restarts=True"),
        ({"max_steps": 1.5}, "max_steps=1.5"),
        ({"outputs": 0}, "outputs=0"),
        ({"threads": -1}, "threads=-1"),
        ({"tolerance": -1.0}, "tolerance=-1.0"),
        ({"memory": 0}, "memory=0"),
        ({"record": True, "accelerate": True}, "accelerate=False"),
    ],
)
def test_unusable_options_are_named(options: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        AEM(**options)  # type: ignore[arg-type]


def test_unknown_device_is_named() -> None:
    with pytest.raises(InvalidInputError, match="unknown device 'abacus'"):
        AEM(device="abacus").solve(HEART, 1.0)


@pytest.mark.parametrize("disclosure", [3.0, HEART.disclosure_ceiling, 0.0, -0.1])
def test_a_disclosure_that_is_not_inside_the_curve_is_refused_with_advice(disclosure: float) -> None:
    with pytest.raises(InfeasibleError, match=r"not in \(0, H\(X\)\).*privfunnel\.solve"):
        AEM().solve(HEART, disclosure)


def test_progress_ends_at_its_total() -> None:
    news: list[Progress] = []
    AEM(restarts=2, max_steps=130, tolerance=0.0, memory=1, accelerate=False).solve(
        HEART, 1.0, progress=news.append
    )
    assert news[-1].done == news[-1].total == 260
    assert [n.done for n in news] == sorted(n.done for n in news)


def test_interrupt_passes_through() -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AEM(restarts=2).solve(HEART, 1.0, progress=stop)


def test_status_is_what_the_residual_says() -> None:
    problem = instances.load("synthetic-uniform")
    done = AEM(restarts=2, max_steps=3000).solve(problem, 0.9)
    assert done.status is Status.CONVERGED
    assert kkt_residual(problem, done.channel) <= 1e-8
    short = AEM(restarts=2, max_steps=5).solve(HEART, 1.8)
    assert short.status is Status.MAX_STEPS
    assert kkt_residual(HEART, short.channel) > 1e-8
    assert "KKT residual" in short.message
