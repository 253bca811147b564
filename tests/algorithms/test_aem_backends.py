"""The backends of AEM make the same step: compiled and batched against the formulas of Algorithm 1."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from helpers_aem import case
from privfunnel.algorithms.aem import AEM, arrays, devices, numba_backend, starts
from privfunnel.algorithms.aem.backends import StepState
from privfunnel.algorithms.aem.devices import make_backend
from privfunnel.algorithms.aem.kernel_groups import Exponents, Rows
from privfunnel.algorithms.aem.numba_backend import NumbaBackend
from privfunnel.algorithms.aem.numpy_backend import NumpyBackend
from privfunnel.algorithms.aem.schedule import KEPT_AT_R, KEPT_TO_THE_END, kept, level_steps
from privfunnel.algorithms.aem.starts import Mixture, Starts, anchor, random_channel
from privfunnel.algorithms.aem.state import ZERO, Tables, channel_of, log_of
from privfunnel.data import instances
from privfunnel.errors import MissingExtraError
from privfunnel.measures import Array, mutual_information
from privfunnel.model.problem import Problem

HEART = instances.load("heart-failure", perturbation="probabilities")


@pytest.fixture(scope="module")
def kernels() -> tuple[ModuleType, ModuleType, ModuleType, ModuleType]:
    pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
    from privfunnel.algorithms.aem import kernel_accelerated, kernel_math, kernel_plain, kernel_root

    return kernel_math, kernel_root, kernel_plain, kernel_accelerated


def interpret(monkeypatch: pytest.MonkeyPatch, modules: tuple[ModuleType, ...]) -> None:
    """Let the compiled functions of some modules run, and call each other, as the Python they are."""
    for module in modules:
        for name, value in list(vars(module).items()):
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)


def printed_step(tables: Tables, u: Array, target: float) -> tuple[Array, float]:
    """One iteration of Algorithm 1 written out with q = p(x|s, y) as an M×N×K array; new u (M, N) and G'(λ)."""
    s = tables.p_s_given_x.T[:, None, :]  # p(s_k|x_i)
    joint = s * u[:, :, None]  # p(x_i, y_j, s_k)
    given = joint.sum(axis=0)
    q = joint / np.where(given > 0.0, given, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        phi = np.where(s > 0.0, s * np.log(q / s), 0.0).sum(axis=2)
        r = u.sum(axis=0)
        log_w = np.log(u / r)
    used = u > 0.0

    def update(slope: float) -> Array:
        exponent = np.where(used, np.where(used, phi, 0.0) + slope * np.where(used, log_w, 0.0), -np.inf)
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True)) * r
        return tables.p_x[:, None] * weight / weight.sum(axis=1, keepdims=True)

    def constraint(slope: float) -> float:
        return float((update(slope) * np.where(used, log_w, 0.0)).sum() - target)

    slope = 0.0
    if constraint(0.0) < 0.0:
        high = 1.0
        while constraint(high) < 0.0 and high < 1e6:
            high *= 2.0
        assume(constraint(high) >= 0.0)
        slope = float(brentq(constraint, 0.0, high, xtol=1e-15, rtol=1e-14))
    new = update(slope)
    finite = np.where(used, log_w, 0.0)
    mean = (new * finite).sum(axis=1) / tables.p_x
    return new, float((new * finite**2).sum() - (tables.p_x * mean**2).sum())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_reference_step_is_algorithm_1_as_printed(seed: int) -> None:
    tables, log_u, target = case(seed)
    made = arrays.plain_step(arrays.Batch.of(tables), log_u, None, np.full(3, 0.5), target)
    for run in range(3):
        expected, gain = printed_step(tables, np.exp(log_u[run]), float(target[run]))
        # Both meet the constraint to 1e-13 nats; where G' ≥ 1e-3, λ is then known to 1e-10 and u to about as much.
        assume(gain > 1e-3)
        assert made.moved[run]
        assert np.abs(np.exp(made.log_u[run]) - expected).max() < 1e-9


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_compiled_step_is_the_reference_step(kernels: object, seed: int) -> None:
    tables, log_u, target = case(seed)
    state = StepState.first(3, 0.5)
    expected = arrays.plain_step(arrays.Batch.of(tables), log_u, None, state.slope, target)
    compiled = log_u.copy()
    made = NumbaBackend(tables, 1).advance(compiled, state, target, 1, 0.0)
    assert np.array_equal(made.alive, expected.moved)
    assert np.abs(np.exp(compiled) - np.exp(expected.log_u)).max() < 1e-12
    assert np.array_equal(compiled == ZERO, expected.log_u == ZERO)
    # λ is determined where G is not flat.
    assert np.allclose(made.state.slope, expected.slope, rtol=1e-6, atol=1e-6) or _flat(
        tables, log_u, expected.slope
    )
    moved = expected.moved
    assert np.allclose(made.residual[moved], expected.residual[moved], rtol=1e-6, atol=1e-7)


def _flat(tables: Tables, log_u: Array, slope: Array) -> bool:
    batch = arrays.Batch.of(tables)
    now = arrays.outputs(batch, np.exp(log_u))
    base = log_u - tables.p_s_given_x.T @ now.log_t
    return bool((arrays.evaluate(batch, base, log_u - now.log_r, slope, slope).gain < 1e-6).any())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_accelerated_steps_agree_descend_and_stay_feasible(kernels: object, seed: int) -> None:
    tables, log_u, target = case(seed)
    one, two = (log_u.copy(), log_u.copy()), (log_u.copy(), log_u.copy())
    state = StepState.first(3, 0.5)
    before = mutual_information(tables.p_s_given_x @ np.exp(log_u))
    for _ in range(6):
        compiled = NumbaBackend(tables, 1).advance_accelerated(*one, state, target, 1, 0.0)
        numpy = NumpyBackend(tables).advance_accelerated(*two, state, target, 1, 0.0)
        u = np.exp(one[0])
        assert np.abs(u - np.exp(two[0])).max() < 1e-11
        leakage = mutual_information(tables.p_s_given_x @ u)
        assert np.allclose(leakage, compiled.leakage, atol=1e-12)
        assert np.all(leakage <= before + 1e-13)
        moved = compiled.alive & (leakage < before)
        assert np.all(mutual_information(u)[moved] - tables.h_x >= target[moved] - 1e-12)
        if not np.array_equal(compiled.alive, numpy.alive):
            break  # at the last digit one of them saw a descent and the other did not
        before, state = leakage, compiled.state
        two[0][...], two[1][...] = one


def test_exp_and_log_are_accurate(kernels: tuple[ModuleType, ...]) -> None:
    rng = np.random.default_rng(0)
    exponents = np.concatenate([rng.uniform(-660.0, 600.0, 500), rng.uniform(-1.0, 1.0, 500), [0.0, -660.0]])
    positive = np.concatenate([np.exp(rng.uniform(-600.0, 600.0, 500)), rng.uniform(0.5, 2.0, 500), [1.0]])
    for make in (lambda f: f, lambda f: f.py_func):
        exp_, log_ = make(kernels[0].exp_), make(kernels[0].log_)
        with np.errstate(over="ignore"):
            exps = np.array([exp_(np.float64(x)) for x in exponents])
            logs = np.array([log_(np.float64(x)) for x in positive])
        assert np.abs(exps / np.exp(exponents) - 1.0).max() < 5e-16
        assert np.abs(logs - np.log(positive)).max() <= np.abs(np.log(positive)).max() * 2.5e-16
        small = np.abs(np.log(positive)) < 1.0
        assert np.abs(logs - np.log(positive))[small].max() < 2.5e-16


def _dense() -> tuple[Tables, Array, Array]:
    """Rows with their nonzeros at the same places, and a target that no λ meets for the last of three runs."""
    rng = np.random.default_rng(1)
    tables = Tables.of(Problem(rng.dirichlet(np.ones(42)).reshape(7, 6)).p_sx)
    p_xy = tables.p_x[:, None] * np.stack([random_channel(6, 7, 0.5, rng) for _ in range(3)])
    target = 0.6 * mutual_information(p_xy) - tables.h_x
    target[2] = 1.0
    return tables, log_of(p_xy), target


@pytest.mark.parametrize("problem", [case(4), case(12), _dense()], ids=["sparse", "unused output", "dense"])
def test_compiled_functions_do_what_their_python_says(
    kernels: tuple[ModuleType, ...], monkeypatch: pytest.MonkeyPatch, problem: tuple[Tables, Array, Array]
) -> None:
    """The same source, interpreted: what the compiler may reorder must not matter."""
    tables, log_u, target = problem
    backend, state = NumbaBackend(tables, 1), StepState.first(3, 0.5)
    plain, accelerated = [log_u.copy(), log_u.copy()], [(log_u.copy(), log_u.copy()) for _ in range(2)]
    made, fast = [], []
    for way in range(2):
        if way:
            interpret(monkeypatch, kernels)
        with np.errstate(all="ignore"):  # the polynomials shift bits on purpose
            made.append(backend.advance(plain[way], state, target, 5, 0.0))
            fast.append(backend.advance_accelerated(*accelerated[way], state, target, 7, 0.0))
    for one, two in (made, fast):
        assert np.array_equal(one.alive, two.alive)
        assert np.array_equal(one.steps, two.steps)
        assert np.allclose(one.state.slope, two.state.slope, rtol=1e-6)
        assert np.allclose(one.residual, two.residual, rtol=1e-6, atol=1e-9)
    assert np.allclose(fast[0].leakage, fast[1].leakage, atol=1e-12)
    assert np.abs(np.exp(plain[0]) - np.exp(plain[1])).max() < 1e-12
    assert np.abs(np.exp(accelerated[0][0]) - np.exp(accelerated[1][0])).max() < 1e-12


@pytest.mark.parametrize("compiled", [True, False])
def test_weights_are_renewed_without_exponentials(
    kernels: tuple[ModuleType, ...], monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    """As evaluated at the new λ, to rounding, or said not to hold; zeros stay zero whatever log w is there."""
    kernel = kernels[1]
    if not compiled:
        interpret(monkeypatch, kernels)
    rng = np.random.default_rng(5)
    log_w = (
        -rng.gamma(2.0, 3.0, size=(6, 9)) - 20.0 * np.arange(6)[:, None]
    )  # rare symbols: far down, row by row
    base = -rng.gamma(2.0, 3.0, size=(6, 9))
    log_w[2, 3] = base[2, 3] = ZERO
    p_x = rng.dirichlet(np.ones(6))
    exponents = Exponents(base, log_w)

    def rows() -> Rows:
        return Rows(np.empty((6, 9)), np.empty(6), np.zeros(6), np.empty(6), np.empty(6))

    for change, good in ((1e-9, True), (-1e-4, True), (2e-3, True), (0.3, False)):
        there, here = rows(), rows()
        expected = kernel.evaluate(exponents, there, p_x, 0.4 + change)
        kernel.evaluate(exponents, here, p_x, 0.4)
        *found, holds = kernel.renew(exponents, here, p_x, change)
        assert holds == good
        if good:
            assert found[:2] == pytest.approx(expected[:2], rel=1e-12)
            assert found[2] == pytest.approx(
                expected[2], abs=100 * np.finfo(float).eps * 130.0**3
            )  # it cancels
            shares = [made.weight / made.total[:, None] for made in (here, there)]
            np.testing.assert_allclose(shares[0], shares[1], rtol=1e-10, atol=1e-16)
            np.testing.assert_allclose(
                here.top + np.log(here.total), there.top + np.log(there.total), rtol=1e-13
            )
            assert here.weight[2, 3] == 0.0


def test_the_search_for_a_root_moves_alike_everywhere(kernels: tuple[ModuleType, ...]) -> None:
    kernel = kernels[1]
    for trial, value, gain, low, high in [
        (0.5, -0.1, 0.2, -1.0, np.inf), (0.5, 0.1, 0.0, -1.0, np.inf), (0.5, 9.0, 0.2, -1.0, 0.5),
        (0.5, -0.1, 1e-9, 0.1, 0.9), (0.5, -0.1, 0.2, 0.5, 0.5), (0.5, -1.0, 1e-9, 0.5, np.inf),
    ]:  # fmt: skip
        scalar = kernel.next_slope(trial, value, gain, low, high)
        assert scalar == arrays.next_slope(np, *(np.array([x]) for x in (trial, value, gain, low, high)))[0]
        assert scalar == kernel.next_slope.py_func(trial, value, gain, low, high)
    for value, gain, bend in [(0.1, 0.2, 0.3), (-0.1, 0.2, 5.0), (0.1, 0.0, 0.3), (0.1, 0.2, -0.1)]:
        scalar = kernel.halley(value, gain, bend)
        assert scalar == arrays.halley(np, *(np.array([x]) for x in (value, gain, bend)))[0]
        assert scalar == kernel.halley.py_func(value, gain, bend)


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_accelerated_answers_do_not_depend_on_the_batch_or_the_threads(device: str) -> None:
    if device == "numba":
        pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")
    wanted = [0.8, 1.5, 2.2]
    solver = AEM(device=device, restarts=5, max_steps=80)
    together = list(solver.trace(HEART, wanted, seed=2))
    for disclosure, answer in zip(wanted, together, strict=True):
        alone = AEM(device=device, restarts=5, max_steps=80, threads=3).solve(HEART, disclosure, seed=2)
        assert np.array_equal(alone.channel, answer.channel)


@pytest.mark.parametrize("share", [0.55, 0.7, 0.8])
def test_acceleration_beats_the_plain_iteration(share: float) -> None:
    disclosure = share * HEART.disclosure_ceiling
    plain = AEM(accelerate=False, max_steps=300, restarts=12).solve(HEART, disclosure)
    accelerated = AEM(max_steps=300, restarts=12).solve(HEART, disclosure)
    assert HEART.evaluate(accelerated.channel).disclosure >= disclosure - 1e-12
    assert HEART.evaluate(accelerated.channel).leakage < HEART.evaluate(plain.channel).leakage


def test_a_memory_too_small_for_all_restarts_still_answers() -> None:
    answer = AEM(restarts=7, max_steps=40, memory=40_000).solve(HEART, 1.5)
    assert HEART.evaluate(answer.channel).disclosure >= 1.5 - 1e-9


def test_without_numba_the_solver_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables.of(HEART.p_sx)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    assert isinstance(make_backend(tables, "cpu", None), NumpyBackend)
    assert isinstance(make_backend(tables, "auto", None), NumpyBackend)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match=r"privfunnel\[fast\]"):
        make_backend(tables, "numba", None)


@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.99))
@settings(max_examples=40, deadline=None)
def test_mixtures_disclose_what_they_say(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    p_x = rng.dirichlet(np.ones(7))
    channel = random_channel(7, 8, 0.3, rng)
    channel[0] = np.eye(8)[0]
    outputs = anchor(p_x, 8, rng)
    weights = np.array([0.0, 0.3, 1.0])
    mixture = Mixture.of(p_x, np.stack([channel] * 3), np.stack([outputs] * 3))
    identity = np.zeros((7, 8))
    identity[np.arange(7), outputs] = 1.0
    expected = [mutual_information(p_x[:, None] * ((1 - w) * channel + w * identity)) for w in weights]
    assert np.allclose(mixture.disclosure(weights), expected, atol=1e-13)
    tables = Tables.of(np.stack([0.5 * p_x, 0.5 * p_x]))
    wanted = np.array([share * tables.h_x])
    start = Starts(tables, 8, seed).channels([3], wanted)[0]
    assert np.allclose(start.sum(axis=1), 1.0)
    assert float(mutual_information(p_x[:, None] * start)) >= wanted[0] - 1e-13


def test_the_race() -> None:
    assert [kept(n, KEPT_AT_R) for n in (30, 7, 4, 2, 1)] == [10, 3, 2, 2, 1]
    assert [kept(n, KEPT_TO_THE_END) for n in (30, 31, 10, 2, 1)] == [3, 4, 2, 2, 1]
    assert [level_steps(500), level_steps(80), level_steps(3)] == [25, 10, 1]
    # A single restart and a handful of steps still make a legal run.
    answer = AEM(restarts=1, max_steps=1).solve(HEART, 1.5)
    assert HEART.evaluate(answer.channel).disclosure >= 1.5 - 1e-9
    assert np.allclose(
        channel_of(Tables.of(HEART.p_sx), log_of(HEART.p_x[:, None] * answer.channel)), answer.channel
    )


def test_accelerated_backends_agree_over_many_steps_and_calls(kernels: object) -> None:
    # Accelerated steps carry two points and a step state from call to call: every backend has to hand over the same.
    tables = Tables.of(HEART.p_sx)
    for share, seed in ((0.4, 1), (0.6, 2), (0.7, 2)):
        wanted = np.full(6, share * HEART.disclosure_ceiling)
        start = log_of(tables.p_x[:, None] * Starts(tables, 17, seed).channels(range(6), wanted))
        ours, theirs = (start.copy(), start.copy()), (start.copy(), start.copy())
        one = two = StepState.first(6, 0.5)
        for steps in (7, 8, 9, 30):
            one = (
                NumbaBackend(tables, 1)
                .advance_accelerated(*ours, one, wanted - tables.h_x, steps, 1e-12)
                .state
            )
            two = (
                NumpyBackend(tables)
                .advance_accelerated(*theirs, two, wanted - tables.h_x, steps, 1e-12)
                .state
            )
            assert np.allclose(one.eta, two.eta, rtol=1e-12)
            assert np.array_equal(one.age, two.age)
            assert np.abs(np.exp(ours[0]) - np.exp(theirs[0])).max() < 1e-9
            assert np.abs(np.exp(ours[1]) - np.exp(theirs[1])).max() < 1e-9


def test_accelerated_solves_leak_the_same_on_every_backend(kernels: object) -> None:
    for share in (0.6, 0.8):
        leakages = [
            HEART.evaluate(
                AEM(device=device, restarts=10).solve(HEART, share * HEART.disclosure_ceiling).channel
            ).leakage
            for device in ("numba", "numpy")
        ]
        assert abs(leakages[0] - leakages[1]) < 1e-9


def test_small_runs_share_a_call_of_the_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables.of(HEART.p_sx)
    for threads, entries, expected in ((1, 1 << 24, [(0, 9)]), (1, 1, [(b, b + 1) for b in range(9)]),
                                       (2, 1 << 24, [(b, b + 1) for b in range(9)])):  # fmt: skip
        monkeypatch.setattr(numba_backend, "ENTRIES_PER_CALL", entries)
        seen: list[tuple[int, int]] = []
        NumbaBackend(tables, threads)._share_out(lambda b, e, seen=seen: seen.append((b, e)), (9, 16, 17), 64)
        assert sorted(seen) == expected


@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_anchors_weight_is_about_the_smallest(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    p_x = rng.dirichlet(np.full(6, 0.5))
    channels = np.stack([random_channel(6, 7, c, rng) for c in (1.0, 0.1)])
    mixture = Mixture.of(p_x, channels, np.stack([anchor(p_x, 7, rng) for _ in range(2)]))
    none, all_ = mixture.disclosure(np.zeros(2)), mixture.disclosure(np.ones(2))
    wanted = none + share * (all_ - none)
    weights = mixture.weights(wanted, 1e-3)
    excess = mixture.disclosure(weights) - wanted
    assert np.all((weights >= 0.0) & (weights <= 1.0))
    # What is wanted is itself rounded, to a unit in the last place of H(X) < 2.
    assert np.all((excess >= -np.spacing(2.0)) | (weights == 1.0))
    assert np.all((excess <= 1e-3) | (weights == 0.0))


@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_starts_are_the_same_without_numba(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    p_x = rng.dirichlet(np.full(6, 0.5))
    channels = np.stack([random_channel(6, 7, c, rng) for c in (1.0, 0.3, 0.1)])
    mixture = Mixture.of(p_x, channels, np.stack([anchor(p_x, 7, rng) for _ in range(3)]))
    none, all_ = mixture.disclosure(np.zeros(3)), mixture.disclosure(np.ones(3))
    wanted = none + share * (all_ - none)
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch, (starts,))
        looped = np.empty(3)
        starts.compiled_smallest_weights(mixture, wanted, 1e-3, looped)
    assert np.array_equal(starts.smallest_weights(mixture, wanted, 1e-3), looped)
    # Compiled, the logarithms may differ in the last digit; Newton's method ends at the same places.
    assert np.allclose(mixture.weights(wanted, 1e-3), looped, rtol=1e-9, atol=1e-12)
