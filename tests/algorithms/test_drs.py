from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.drs import DRS, RepairedDRS, Starts, spread_outputs, spread_starts
from privfunnel.algorithms.drs.batches import CONVERGED, FROZEN, MAX_STEPS, TIMEOUT
from privfunnel.algorithms.drs.published import PublishedSettings, run_published
from privfunnel.algorithms.drs.repaired import RepairedSettings, _solve_q, run_repaired
from privfunnel.algorithms.sweep import stationarity, uniform_starts
from privfunnel.errors import InvalidInputError, SolverError


@pytest.fixture(scope="module")
def uniform() -> pf.Problem:
    return pf.instances.load("synthetic-uniform")


@pytest.fixture(scope="module")
def skewed() -> pf.Problem:
    return pf.instances.load("synthetic-skewed")


def reference_run(p_sx, start, beta, settings):
    """The published iteration for one run in the N × M layout of its description, with its loop of step trials."""
    p_s, p_x = p_sx.sum(1), p_sx.sum(0)
    a = (p_sx / p_s[:, None]).T
    p = start.T.copy()
    q, lam = p @ a, np.zeros((p.shape[0], len(p_s)))
    c = settings.penalty

    def move(z, gradient):
        gradient = gradient - gradient.mean(0)
        t = settings.step
        while ((z - t * gradient < 0) | (z - t * gradient > 1)).any():
            t *= settings.shrink
            if t < 1e-11:
                return None
        return z - t * gradient

    for step in range(1, settings.max_steps + 1):
        q_new = move(q, beta * p_s * (np.log(q) + 1) + lam + c * (q - p @ a))
        if q_new is None:
            return p.T, "frozen", step
        half = q_new - p @ a
        lam_half = lam - (1 - settings.relaxation) * c * half
        r = p @ p_x
        gradient = (
            -(beta - 1) * p_x * (np.log(r)[:, None] + 1) - p_x * (np.log(p) + 1) - (lam_half + c * half) @ a.T
        )
        p_new = move(p, gradient)
        if p_new is None:
            return p.T, "frozen", step
        error = q_new - p_new @ a
        lam = lam_half + c * error
        if 0.5 * np.abs(error).sum(0).max() < settings.tolerance:
            return p.T, "converged", step
        p, q = p_new, q_new
    return p.T, "max_steps", step


@pytest.mark.parametrize("relaxation", [1.0, 1.4])
def test_published_batch_follows_the_described_iteration(skewed, relaxation):
    rng = np.random.default_rng(3)
    start = np.concatenate([uniform_starts(rng, 12, 3, 3), spread_starts(spread_outputs(rng, 12, 3, 3), 3)])
    beta = np.tile(np.geomspace(1, 20, 12), 2)
    settings = PublishedSettings(relaxation=relaxation, max_steps=300)
    batch = run_published(skewed.p_sx, start, beta, settings, Deadline())
    words = {CONVERGED: "converged", MAX_STEPS: "max_steps", FROZEN: "frozen"}
    for i in range(len(beta)):
        channel, word, steps = reference_run(skewed.p_sx, start[i], beta[i], settings)
        assert words[int(batch.code[i])] == word
        assert batch.steps[i] == steps
        np.testing.assert_allclose(batch.channel[i], channel, atol=1e-9)


def test_published_fixed_point_is_stationary(uniform):
    """Without its own stopping test the iteration settles where all gradients vanish and the copies agree.

    That needs a minimiser without zeros: for a large multiplier the constant channel is one.
    """
    rng = np.random.default_rng(0)
    beta = np.full(6, 20.0)
    settings = PublishedSettings(tolerance=1e-300, max_steps=8_000)
    batch = run_published(uniform.p_sx, uniform_starts(rng, 6, 3, 2), beta, settings, Deadline())
    settled = batch.code == MAX_STEPS
    assert settled.any()
    copies = batch.second - (uniform.p_sx / uniform.p_s[:, None]) @ batch.channel
    assert np.abs(copies[settled]).max() < 1e-8
    assert stationarity(uniform.p_sx, batch.channel, beta)[settled].max() < 1e-4


def test_published_stopping_test_is_not_stationarity(uniform):
    rng = np.random.default_rng(0)
    beta = np.full(50, 3.0)
    batch = run_published(uniform.p_sx, uniform_starts(rng, 50, 3, 3), beta, PublishedSettings(), Deadline())
    assert (batch.code == CONVERGED).mean() > 0.9
    assert np.median(stationarity(uniform.p_sx, batch.channel, beta)) > 1e-3


def test_repaired_converges_to_stationary_points(uniform):
    rng = np.random.default_rng(1)
    beta = np.tile(np.geomspace(1.1, 6.0, 10), 4)
    settings = RepairedSettings(max_steps=20_000)
    batch = run_repaired(uniform.p_sx, uniform_starts(rng, 40, 3, 4), beta, settings, Deadline())
    assert (batch.code == CONVERGED).all()
    assert stationarity(uniform.p_sx, batch.channel, beta).max() < settings.tolerance
    for channel, b in zip(batch.channel, beta, strict=True):
        assert pf.kkt_residual(uniform, channel, slope=1 / b) < 1e-2


def test_repaired_second_copy_is_solved_exactly():
    rng = np.random.default_rng(2)
    image = rng.dirichlet(np.ones(5), size=(3, 4))
    dual = rng.normal(size=(3, 4, 5))
    weight, penalty = rng.uniform(0.1, 2.0, (3, 4)), rng.uniform(0.5, 50.0, (3, 4))
    q, _ = _solve_q(image, dual, weight, penalty, np.zeros((3, 4)))
    np.testing.assert_allclose(q.sum(-1), 1.0, atol=1e-12)
    gradient = weight[..., None] * (np.log(q) + 1) + dual + penalty[..., None] * (q - image)
    assert np.ptp(gradient, axis=-1).max() < 1e-7


@pytest.mark.parametrize("cls", [DRS, RepairedDRS])
def test_a_wrong_penalty_ends_in_a_status_not_in_nan(uniform, cls):
    rng = np.random.default_rng(0)
    for penalty in (1e-8, 5e3, 1e12):
        batch = cls(penalty=penalty, max_steps=200).run(
            uniform, uniform_starts(rng, 20, 3, 3), np.full(20, 2.0)
        )
        assert np.isfinite(batch.channel).all()
        np.testing.assert_allclose(batch.channel.sum(-1), 1.0, atol=1e-6)
        assert set(batch.code.tolist()) <= {CONVERGED, MAX_STEPS, FROZEN}


def test_a_penalty_that_never_converges_is_said_in_the_answer(uniform):
    wrong = DRS(penalty=4096.0, restarts=2, betas=(2.0, 4.0), max_steps=300)
    answer = wrong.solve(uniform, 0.5)
    assert "none of" in answer.message
    assert "penalty" in answer.message
    with pytest.raises(SolverError, match="found no channel"):
        pf.trace(uniform, solver=wrong, points=5)


@pytest.mark.parametrize("cls", [DRS, RepairedDRS])
def test_solve_meets_the_disclosure_and_is_seeded(skewed, cls):
    options = {
        "restarts": 2,
        "betas": (1.0, 2.0, 4.0, 8.0),
        "refine": 1,
        "max_steps": 300,
        "time_limit": math.inf,
    }
    for share in (0.1, 0.5, 0.9):
        target = share * skewed.disclosure_ceiling
        first = pf.solve(skewed, disclosure=target, solver=cls.name, throw=False, **options)
        again = pf.solve(skewed, disclosure=target, solver=cls.name, throw=False, **options)
        assert first.disclosure >= target - 1e-9
        assert first.leakage <= skewed.upper_bound(target) + 1e-9
        np.testing.assert_array_equal(first.channel, again.channel)
        assert cls.variant in first.message


@pytest.mark.slow
def test_the_sweep_of_the_repaired_variant_is_near_the_known_optimum(uniform):
    curve = pf.trace(uniform, disclosures=[0.548752], solver=RepairedDRS(time_limit=np.inf), throw=False)
    assert 0.1208448 - 1e-7 <= curve.leakage[0] <= 0.1208448 + 2e-3
    published = pf.trace(
        uniform, disclosures=[0.548752], solver=DRS(restarts=3, time_limit=np.inf), throw=False
    )
    assert published.leakage[0] > curve.leakage[0]


def test_zeros_in_the_table_give_no_nan():
    problem = pf.Problem([[5, 0, 3, 0], [0, 2, 0, 4], [1, 0, 0, 2]])
    for cls in (DRS, RepairedDRS):
        solution = pf.solve(
            problem,
            disclosure=0.6,
            solver=cls(restarts=1, betas=(1.5, 3.0), refine=1, max_steps=300),
            throw=False,
        )
        assert np.isfinite(solution.channel).all()
        assert solution.disclosure >= 0.6 - 1e-9


def test_a_passed_deadline_stops_the_runs(uniform):
    spent = Deadline(1e-9)
    rng = np.random.default_rng(0)
    settings = PublishedSettings(tolerance=1e-300)
    batch = run_published(uniform.p_sx, uniform_starts(rng, 3, 3, 2), np.full(3, 2.0), settings, spent)
    assert (batch.code == TIMEOUT).all()
    batch = run_repaired(
        uniform.p_sx, uniform_starts(rng, 3, 3, 2), np.full(3, 2.0), RepairedSettings(), spent
    )
    assert (batch.steps <= 1).all()
    assert spent.left() == 0.0
    answer = DRS(time_limit=1e-9).solve(uniform, 0.5)
    assert "cut by the time limit" in answer.message


def test_progress_is_told_and_an_interrupt_passes(uniform):
    news = []
    list(DRS(restarts=1, betas=(2.0,)).trace(uniform, [0.5], progress=news.append))
    assert news[-1].done == news[-1].total

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(DRS(restarts=1, betas=(2.0,)).trace(uniform, [0.5], progress=stop))


def test_starts_are_channels():
    rng = np.random.default_rng(5)
    for n_x, n_y in ((3, 5), (6, 4), (2, 2)):
        for starts in (
            uniform_starts(rng, 7, n_x, n_y),
            spread_starts(spread_outputs(rng, 7, n_x, n_y), n_y),
        ):
            assert starts.shape == (7, n_x, n_y)
            np.testing.assert_allclose(starts.sum(-1), 1.0)
        largest = spread_starts(spread_outputs(rng, 50, n_x, n_y), n_y).argmax(-1)
        assert all(len(set(row)) == min(n_x, n_y) for row in largest)


def test_starts_drawn_part_by_part_are_those_drawn_at_once():
    def draw(*parts: slice) -> np.ndarray:
        starts = Starts(np.random.default_rng(3), 4, 5, 3)
        return np.concatenate([starts.draw(part) for part in parts])

    whole = draw(slice(0, 8))
    np.testing.assert_array_equal(whole, draw(slice(0, 3), slice(3, 5), slice(5, 8)))
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(whole[:4], uniform_starts(rng, 4, 5, 3))
    np.testing.assert_array_equal(whole[4:], spread_starts(spread_outputs(rng, 4, 5, 3), 3))


@pytest.mark.parametrize(
    "options",
    [
        {"betas": (0.5,)}, {"betas": ()}, {"outputs": (1,)}, {"restarts": 0}, {"penalty": -1.0},
        {"shrink": 1.5}, {"time_limit": 0.0}, {"max_steps": 2.5}, {"refine": -1},
    ],
)  # fmt: skip
def test_options_are_checked(options):
    with pytest.raises(InvalidInputError, match="drs"):
        DRS(**options)


def test_variants_are_siblings_with_names_of_their_own(skewed):
    assert (DRS().name, RepairedDRS().name) == ("drs", "drs-repaired")
    assert not issubclass(RepairedDRS, DRS)
    assert not hasattr(RepairedDRS(), "shrink")
    assert pickle.loads(pickle.dumps(RepairedDRS())) == RepairedDRS()
    quick = {"restarts": 1, "betas": (2.0, 4.0), "refine": 0, "max_steps": 100, "throw": False}
    assert pf.solve(skewed, disclosure=0.4, solver="drs-repaired", **quick).solver == "drs-repaired"
