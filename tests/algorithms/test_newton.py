"""Newton's method on the conditions of optimality: its derivative, what it gains, and where it does not apply."""

from __future__ import annotations

import numpy as np
import pytest

import privfunnel as pf
from helpers_kernels import plain
from privfunnel.algorithms.columns.plain import newton
from privfunnel.algorithms.columns.plain import run as work
from privfunnel.algorithms.columns.plain.branching import advance
from privfunnel.algorithms.columns.plain.descents import Pricing, descend_rows, exchange_rows
from privfunnel.algorithms.columns.plain.master import Master, Prices
from privfunnel.algorithms.columns.plain.newton import Blocks, System, conditions, invert, moves, refine
from privfunnel.algorithms.columns.plain.search import Search
from privfunnel.algorithms.deadline import Limits
from privfunnel.algorithms.posteriors.points import pricing_values
from privfunnel.model.stationarity import stationarity

HEART = pf.instances.load("heart-failure")


def closed(problem: pf.Problem, disclosure: float, gap: float = 1e-4) -> Search:
    """A search that has proved one point to a coarse gap."""
    search = Search(problem, np.random.default_rng(0), Limits(seconds=60.0, nodes=10**6))
    search.close(disclosure, gap)
    return search


def test_small_matrices_are_inverted() -> None:
    rng = np.random.default_rng(3)
    for kernel in (invert, plain(invert)):
        for n in (1, 2, 5, 8):
            matrix = rng.normal(size=(n, n))
            matrix[0, 0] = 0.0 if n > 1 else 2.0  # a pivot has to be looked for
            room = np.full((n + 2, n + 2), 7.0)
            room[:n, :n] = matrix
            assert kernel(room, n)
            assert np.allclose(room[:n, :n] @ matrix, np.eye(n), atol=1e-10)
            assert np.all(room[n:] == 7.0)
        assert not kernel(np.zeros((3, 3)), 3)


def test_a_step_is_newtons_on_the_whole_system() -> None:
    """The small system in (a, μ, r) gives the step of the large one in all entries u = r w and (a, μ)."""
    rng = np.random.default_rng(5)
    columns = rng.dirichlet(np.ones(3), size=4)
    columns[0] = (0.0, 0.4, 0.6)  # a private symbol that one posterior excludes
    p_x = rng.dirichlet(np.ones(4))
    start, symbol, owner = np.array([0, 1, 3, 6]), np.array([0, 0, 1, 1, 2, 3]), np.array([0, 1, 1, 2, 2, 2])
    w = np.concatenate([rng.dirichlet(np.ones(k)) for k in (1, 2, 3)])
    r, a, slope = rng.uniform(0.1, 0.4, 3), rng.normal(size=4), 0.3

    def residual(z: np.ndarray) -> np.ndarray:
        u, prices, mu = z[:6], z[6:10], z[10]
        posterior = u / np.bincount(owner, u)[owner]
        image = np.stack([np.bincount(owner, columns[symbol, s] * posterior) for s in range(3)], axis=1)
        logs = np.log(np.where(image > 0.0, image, 1.0))[owner]
        stationary = (columns[symbol] * logs).sum(axis=1) - mu * np.log(posterior) - prices[symbol]
        return np.concatenate(
            [stationary, p_x - np.bincount(symbol, u, 4), [-float(u @ np.log(posterior)) - 0.3]]
        )

    z = np.concatenate([r[owner] * w, a, [slope]])
    jacobian = np.empty((11, 11))
    for i in range(11):
        move = 1e-6 * np.eye(11)[i]
        jacobian[:, i] = (residual(z + move) - residual(z - move)) / 2e-6
    expected = np.linalg.solve(jacobian, -residual(z))
    for kernel, follow in ((conditions, moves), (plain(conditions), plain(moves))):
        blocks = Blocks(start, symbol, w, r)
        assert blocks.owner.tolist() == owner.tolist()
        system = System.room_for(blocks, 4)
        worst = kernel(Pricing(columns, a, slope), p_x, 0.3, blocks, system)
        change = np.linalg.solve(system.matrix, system.rhs)
        moved = follow(blocks, system, change, 4)
        assert np.bincount(owner, moved) == pytest.approx(0.0, abs=1e-12)
        step = np.concatenate([r[owner] * moved + change[5:][owner] * w, change[:4], change[4:5]])
        assert np.allclose(step, expected, rtol=1e-5, atol=1e-6)
        assert np.allclose(system.matrix, system.matrix.T)
        assert worst == pytest.approx(np.abs(residual(z)).max())


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
def test_refined_posteriors_are_optimal_to_the_last_digits(share: float) -> None:
    disclosure = share * HEART.disclosure_ceiling
    search = closed(HEART, disclosure, gap=1e-6)
    before = search.master.solve(disclosure)
    refined = refine(search.master, disclosure, before, search.master.weights())
    assert refined is not None
    for c, (weights, posteriors) in enumerate(refined.used):
        assert np.allclose(posteriors.sum(axis=1), 1.0)
        assert np.allclose(weights @ posteriors, HEART.p_x[search.master.parts[c].x], atol=1e-10)
        search.master.add(c, posteriors)
    after = search.master.solve(disclosure)
    assert after.value <= before.value
    assert after.value == pytest.approx(refined.duals.value, abs=1e-9)
    for part, (_, posteriors) in zip(search.master.parts, refined.used, strict=True):
        own = pricing_values(part.p_s_given_x, refined.duals.prices[part.x], refined.duals.slope, posteriors)
        assert own == pytest.approx(0.0, abs=1e-9)  # its prices are those of its posteriors
    # Refining once more changes nothing.
    again = refine(search.master, disclosure, after, search.master.weights())
    assert again is not None
    first, second = (np.concatenate([w for _, w in found.used]) for found in (refined, again))
    assert np.allclose(np.sort(first, axis=0), np.sort(second, axis=0), atol=1e-7)
    exact = pf.solve(HEART, disclosure=disclosure, solver="global", gap=1e-8)
    assert after.value == pytest.approx(exact.leakage, abs=1e-7)


def test_the_returned_channel_is_stationary() -> None:
    disclosure = 0.8 * HEART.disclosure_ceiling
    loose = pf.solve(HEART, disclosure=disclosure, solver="global", gap=1e-4)
    assert loose.gap <= 1e-4
    assert (
        stationarity(HEART, loose.channel)[0] < 1e-6
    )  # its last digits are right, although nobody asked for them


def test_the_kernels_are_loaded_before_any_clock_starts() -> None:
    pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    work.load_kernels()
    kernels = (conditions, moves, exchange_rows, descend_rows, advance)
    loaded = [list(kernel.signatures) for kernel in kernels]
    pf.solve(HEART, disclosure=0.8 * HEART.disclosure_ceiling, solver="global")
    assert all(loaded)
    assert [list(kernel.signatures) for kernel in kernels] == loaded


def test_where_it_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    disclosure = 0.8 * HEART.disclosure_ceiling
    master = Master(HEART)
    duals = master.solve(disclosure)
    for slope in (0.0, 1.0):
        flat = Prices(prices=duals.prices, slope=slope, value=duals.value)
        assert refine(master, disclosure, flat, master.weights()) is None
    search = closed(HEART, disclosure)
    duals, used = search.master.solve(disclosure), search.master.weights()
    assert refine(search.master, disclosure, duals, used) is not None
    for most in (10, 20, 30):  # too many symbols, supports, posteriors
        monkeypatch.setattr(newton, "MOST_UNKNOWNS", most)
        assert refine(search.master, disclosure, duals, used) is None


def test_a_singular_system_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    disclosure = 0.8 * HEART.disclosure_ceiling
    search = closed(HEART, disclosure)

    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "solve", singular)
    duals = search.master.solve(disclosure)
    assert refine(search.master, disclosure, duals, search.master.weights()) is None
    assert HEART.evaluate(search.channel(disclosure)).disclosure >= disclosure
