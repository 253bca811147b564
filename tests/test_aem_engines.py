"""The engines of AEM make the same step: compiled, batched and PyTorch against the NumPy reference."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfunnel import instances
from privfunnel.errors import InvalidInputError, MissingExtraError
from privfunnel.measures import mutual_information
from privfunnel.problem import Problem
from privfunnel.solvers.aem import AEM
from privfunnel.solvers.aem import arrays as batched
from privfunnel.solvers.aem import backends as engines
from privfunnel.solvers.aem import state as reference
from privfunnel.solvers.aem.backends import KernelEngine, NumpyEngine, Pace, make_engine
from privfunnel.solvers.aem.schedule import kept, level_steps
from privfunnel.solvers.aem.starts import Mixture, Starts, anchor, random_channel
from privfunnel.solvers.aem.state import Tables, channel_of, log_of

HEART = instances.load("heart-failure", perturbation="probabilities")


@pytest.fixture(scope="module")
def kernel() -> object:
    pytest.importorskip("numba", reason="the compiled engine needs the extra 'fast'")
    from privfunnel.solvers.aem import kernel_plain

    return kernel_plain


@pytest.fixture(scope="module")
def fast() -> object:
    pytest.importorskip("numba", reason="the compiled engine needs the extra 'fast'")
    from privfunnel.solvers.aem import kernel_accelerated

    return kernel_accelerated


def case(seed: int) -> tuple[Tables, np.ndarray, np.ndarray]:
    """A random problem with zeros in p(s|x), three feasible points with zeros, and their targets."""
    rng = np.random.default_rng(seed)
    n_s, n_x = int(rng.integers(1, 6)), int(rng.integers(2, 12))
    table = rng.gamma(0.6, size=(n_s, n_x)) * (rng.uniform(size=(n_s, n_x)) > 0.4)
    table[rng.integers(n_s, size=n_x), np.arange(n_x)] += 0.1
    problem = Problem(table / table.sum())
    tables = Tables.of(problem.p_sx)
    n_y = problem.n_x + int(rng.integers(1, 4))
    channels = np.stack([random_channel(problem.n_x, n_y, 0.5, rng) for _ in range(3)])
    channels *= rng.uniform(size=channels.shape) > 0.3
    channels[:, :, -1] += 0.05
    if n_y > problem.n_x + 1:
        channels[:, :, 0] = 0.0  # an output that never occurs
    channels /= channels.sum(axis=-1, keepdims=True)
    p_xy = tables.p_x[:, None] * channels
    reached = mutual_information(p_xy)
    return tables, log_of(p_xy), reached * rng.uniform(0.3, 1.0, size=3) - tables.h_x


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_compiled_step_is_the_reference_step(kernel: object, seed: int) -> None:
    tables, log_u, target = case(seed)
    pace = Pace.first(3, 0.5)
    expected = reference.step(tables, log_u, pace.slope, target)
    compiled = log_u.copy()
    made = KernelEngine(tables, 1).advance(compiled, pace, target, 1, 0.0)
    assert np.array_equal(made.alive, expected.moved)
    assert np.abs(np.exp(compiled) - np.exp(expected.log_u)).max() < 1e-12
    assert np.array_equal(compiled == reference.ZERO, expected.log_u == reference.ZERO)
    # λ is determined where G is not flat.
    assert np.allclose(made.pace.slope, expected.slope, rtol=1e-6, atol=1e-6) or _flat(
        tables, log_u, expected
    )
    assert np.allclose(made.residual, expected.residual, rtol=1e-6, atol=1e-7)


def _flat(tables: Tables, log_u: np.ndarray, made: reference.StepResult) -> bool:
    base, log_w = reference.exponents(tables, log_u)
    gain = reference._update(tables, base, log_w, made.slope, made.slope)[2]
    return bool((gain < 1e-6).any())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_batched_plain_step_is_the_reference_step(seed: int) -> None:
    tables, log_u, target = case(seed)
    slope = np.full(3, 0.5)
    expected = reference.step(tables, log_u, slope, target)
    made = batched.plain_step(batched.Batch.of(tables), log_u, None, slope, target)
    assert np.array_equal(made.moved, expected.moved)
    assert np.abs(np.exp(made.log_u) - np.exp(expected.log_u)).max() < 1e-12
    assert np.array_equal(made.slope, expected.slope)
    assert np.allclose(made.residual[made.moved], expected.residual[made.moved], rtol=1e-6, atol=1e-7)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_accelerated_steps_agree_descend_and_stay_feasible(fast: object, seed: int) -> None:
    tables, log_u, target = case(seed)
    one, two = (log_u.copy(), log_u.copy()), (log_u.copy(), log_u.copy())
    pace = Pace.first(3, 0.5)
    before = mutual_information(tables.p_s_given_x @ np.exp(log_u))
    for _ in range(6):
        compiled = KernelEngine(tables, 1).hasten(*one, pace, target, 1, 0.0)
        numpy = NumpyEngine(tables).hasten(*two, pace, target, 1, 0.0)
        u = np.exp(one[0])
        assert np.abs(u - np.exp(two[0])).max() < 1e-11
        leakage = mutual_information(tables.p_s_given_x @ u)
        assert np.allclose(leakage, compiled.leakage, atol=1e-12)
        assert np.all(leakage <= before + 1e-13)
        moved = compiled.alive & (leakage < before)
        assert np.all(mutual_information(u)[moved] - tables.h_x >= target[moved] - 1e-12)
        if not np.array_equal(compiled.alive, numpy.alive):
            break  # at the last digit one of them saw a descent and the other did not
        before, pace = leakage, compiled.pace
        two[0][...], two[1][...] = one


def test_exp_and_log_are_accurate(kernel: object) -> None:
    rng = np.random.default_rng(0)
    exponents = np.concatenate([rng.uniform(-660.0, 600.0, 500), rng.uniform(-1.0, 1.0, 500), [0.0, -660.0]])
    positive = np.concatenate([np.exp(rng.uniform(-600.0, 600.0, 500)), rng.uniform(0.5, 2.0, 500), [1.0]])
    for make in (lambda f: f, lambda f: f.py_func):
        exp_, log_ = make(kernel.exp_), make(kernel.log_)
        with np.errstate(over="ignore"):
            exps = np.array([exp_(np.float64(x)) for x in exponents])
            logs = np.array([log_(np.float64(x)) for x in positive])
        assert np.abs(exps / np.exp(exponents) - 1.0).max() < 5e-16
        assert np.abs(logs - np.log(positive)).max() <= np.abs(np.log(positive)).max() * 2.5e-16
        small = np.abs(np.log(positive)) < 1.0
        assert np.abs(logs - np.log(positive))[small].max() < 2.5e-16


def test_compiled_functions_do_what_their_python_says(kernel: object, fast: object) -> None:
    """The same source, interpreted: what the compiler may reorder must not matter."""
    tables, log_u, target = case(4)
    shared = engines.nonzeros(tables.p_s_given_x)
    interpreted, compiled = log_u[0].copy(), log_u[0].copy()
    rest = (0.5, float(target[0]), 5, 0.0, tables.root_tolerance())
    plain = (*shared, tables.p_x, tables.log_p_x, tables.log_p_s)
    a = kernel.run.py_func(*plain, interpreted, *rest)
    b = kernel.run(*plain, compiled, *rest)
    assert np.allclose(a, b, rtol=1e-9)
    assert np.abs(np.exp(interpreted) - np.exp(compiled)).max() < 1e-12
    pairs = [(log_u[0].copy(), log_u[0].copy()) for _ in range(2)]
    head = (*shared, tables.p_x, tables.log_p_x, tables.log_p_s)
    tail = (0.5, 1.0, 0, float(target[0]), 7, 0.0, tables.root_tolerance())
    a = fast.run.py_func(*head, *pairs[0], *tail)
    b = fast.run(*head, *pairs[1], *tail)
    assert np.allclose(a, b, rtol=1e-6)
    assert np.abs(np.exp(pairs[0][0]) - np.exp(pairs[1][0])).max() < 1e-12
    for trial, value, gain, low, high in [
        (0.5, -0.1, 0.2, -1.0, np.inf), (0.5, 0.1, 0.0, -1.0, np.inf), (0.5, 9.0, 0.2, -1.0, 0.5),
        (0.5, -0.1, 1e-9, 0.1, 0.9), (0.5, -0.1, 0.2, 0.5, 0.5), (0.5, -1.0, 1e-9, 0.5, np.inf),
    ]:  # fmt: skip
        scalar = kernel.next_slope(trial, value, gain, low, high)
        arrays = [np.array([x]) for x in (trial, value, gain, low, high)]
        assert scalar == reference.next_slope(*arrays)[0]
        assert scalar == batched.next_slope(np, *arrays)[0]
        assert scalar == kernel.next_slope.py_func(trial, value, gain, low, high)


@pytest.mark.parametrize("accelerate", [False, True])
def test_torch_gives_the_same_answers(accelerate: bool) -> None:
    pytest.importorskip("torch", reason="the PyTorch engine needs the extra 'gpu'")
    wanted = [0.9, 1.5, 2.2]
    options = {"restarts": 4, "max_steps": 60, "accelerate": accelerate}
    ours = AEM(device="numpy", **options).trace(HEART, wanted, seed=3)
    theirs = AEM(device="torch", **options).trace(HEART, wanted, seed=3)
    for disclosure, one, two in zip(wanted, ours, theirs, strict=True):
        assert np.abs(one.channel - two.channel).max() < 1e-9
        assert HEART.evaluate(two.channel).disclosure >= disclosure - 1e-9
        assert one.steps == two.steps


def test_torch_stops_where_the_others_stop() -> None:
    pytest.importorskip("torch", reason="the PyTorch engine needs the extra 'gpu'")
    problem = instances.load("synthetic-uniform")
    answers = [
        AEM(device=d, restarts=3, max_steps=3000, accelerate=False).solve(problem, 0.9)
        for d in ("torch", "numpy")
    ]
    assert answers[0].steps == answers[1].steps < 3000
    assert np.abs(answers[0].channel - answers[1].channel).max() < 1e-9
    accelerated = AEM(device="torch", restarts=3, max_steps=400).solve(problem, 0.9)
    assert problem.evaluate(accelerated.channel).leakage == pytest.approx(
        problem.evaluate(answers[1].channel).leakage, abs=1e-9
    )


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_accelerated_answers_do_not_depend_on_the_batch_or_the_threads(device: str) -> None:
    if device == "numba":
        pytest.importorskip("numba", reason="the compiled engine needs the extra 'fast'")
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
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    assert isinstance(make_engine(tables, "cpu", None), NumpyEngine)
    assert isinstance(make_engine(tables, "auto", None), NumpyEngine)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match=r"privfunnel\[fast\]"):
        make_engine(tables, "numba", None)


def test_a_missing_gpu_is_named() -> None:
    torch = pytest.importorskip("torch", reason="the PyTorch engine needs the extra 'gpu'")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(InvalidInputError, match="PyTorch sees no GPU"):
        AEM(device="cuda").solve(HEART, 1.0)
    tables = Tables.of(HEART.p_sx)
    assert isinstance(make_engine(tables, "auto", None), (KernelEngine, NumpyEngine))


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
    assert [kept(30, 2), kept(30, 5), kept(4, 5), kept(2, 5), kept(1, 2)] == [15, 6, 2, 2, 1]
    assert [level_steps(500), level_steps(80), level_steps(3)] == [25, 10, 1]
    # A single restart and a handful of steps still make a legal run.
    answer = AEM(restarts=1, max_steps=1).solve(HEART, 1.5)
    assert HEART.evaluate(answer.channel).disclosure >= 1.5 - 1e-9
    assert np.allclose(
        channel_of(Tables.of(HEART.p_sx), log_of(HEART.p_x[:, None] * answer.channel)), answer.channel
    )


def test_accelerated_engines_agree_over_many_steps_and_calls(fast: object) -> None:
    # Accelerated steps carry two points and a pace from call to call: every engine has to hand over the same.
    tables = Tables.of(HEART.p_sx)
    for share, seed in ((0.4, 1), (0.6, 2), (0.7, 2)):
        wanted = np.full(6, share * HEART.disclosure_ceiling)
        start = log_of(tables.p_x[:, None] * Starts(tables, 17, seed).channels(range(6), wanted))
        ours, theirs = (start.copy(), start.copy()), (start.copy(), start.copy())
        one = two = Pace.first(6, 0.5)
        for steps in (7, 8, 9, 30):
            one = KernelEngine(tables, 1).hasten(*ours, one, wanted - tables.h_x, steps, 1e-12).pace
            two = NumpyEngine(tables).hasten(*theirs, two, wanted - tables.h_x, steps, 1e-12).pace
            assert np.allclose(one.eta, two.eta, rtol=1e-12)
            assert np.array_equal(one.age, two.age)
            assert np.abs(np.exp(ours[0]) - np.exp(theirs[0])).max() < 1e-9
            assert np.abs(np.exp(ours[1]) - np.exp(theirs[1])).max() < 1e-9


def test_accelerated_solves_leak_the_same_on_every_engine(fast: object) -> None:
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
        monkeypatch.setattr(engines, "ENTRIES_A_CALL", entries)
        seen: list[tuple[int, int]] = []
        KernelEngine(tables, threads)._share_out(lambda b, e, seen=seen: seen.append((b, e)), (9, 16, 17), 64)
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
    assert np.all((excess >= 0.0) | (weights == 1.0))
    assert np.all((excess <= 1e-3) | (weights == 0.0))
