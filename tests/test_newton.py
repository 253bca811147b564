"""Newton's method on the conditions of optimality: its derivative, what it gains, and where it does not apply."""

from __future__ import annotations

import numpy as np
import pytest

import privfunnel as pf
from privfunnel.solvers import _newton, global_
from privfunnel.solvers._master import Master, Prices
from privfunnel.solvers._newton import conditions, refine
from privfunnel.solvers._search import Limits, Search

HEART = pf.instances.load("heart-failure")


def closed(problem: pf.Problem, disclosure: float, gap: float = 1e-4) -> Search:
    """A search that has proved one point to a coarse gap."""
    search = Search(problem, np.random.default_rng(0), Limits(seconds=60.0, nodes=10**6))
    search.close(disclosure, gap)
    return search


def test_the_derivative_is_that_of_the_conditions() -> None:
    rng = np.random.default_rng(5)
    columns = rng.dirichlet(np.ones(3), size=4)
    columns[0] = (0.0, 0.4, 0.6)  # a private symbol that one posterior excludes
    p_x = rng.dirichlet(np.ones(4))
    start, symbol = np.array([0, 1, 3, 6]), np.array([0, 0, 1, 1, 2, 3])

    def residual(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, jacobian = np.empty(11), np.empty((11, 11))
        conditions(columns, p_x, 0.3, start, symbol, z[:6], z[6:10], float(z[10]), values, jacobian)
        return values, jacobian

    z = np.concatenate([rng.uniform(0.1, 0.4, 6), rng.normal(size=4), [0.3]])
    _, jacobian = residual(z)
    step = 1e-6
    for i in range(11):
        move = step * np.eye(11)[i]
        numeric = (residual(z + move)[0] - residual(z - move)[0]) / (2.0 * step)
        assert np.allclose(jacobian[:, i], numeric, atol=1e-7)
    assert np.allclose(jacobian, jacobian.T)


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
def test_refined_posteriors_are_optimal_to_the_last_digits(share: float) -> None:
    disclosure = share * HEART.disclosure_ceiling
    search = closed(HEART, disclosure)
    before = search.master.solve(disclosure)
    refined = refine(search.master, disclosure, before)
    assert refined is not None
    for c, posteriors in enumerate(refined):
        assert np.allclose(posteriors.sum(axis=1), 1.0)
        search.master.add(c, posteriors)
    after = search.master.solve(disclosure)
    assert after.value < before.value
    # Refining once more changes nothing.
    again = refine(search.master, disclosure, after)
    assert again is not None
    assert np.allclose(
        np.sort(np.concatenate(again), axis=0), np.sort(np.concatenate(refined), axis=0), atol=1e-7
    )
    exact = pf.solve(HEART, disclosure=disclosure, solver="global", gap=1e-8)
    assert after.value == pytest.approx(exact.leakage, abs=1e-7)


def test_the_returned_channel_is_stationary() -> None:
    disclosure = 0.8 * HEART.disclosure_ceiling
    loose = pf.solve(HEART, disclosure=disclosure, solver="global", gap=1e-4)
    tight = pf.solve(HEART, disclosure=disclosure, solver="global", gap=1e-8)
    assert loose.gap <= 1e-4
    assert loose.leakage >= tight.lower_bound
    # Both ended on the same posteriors, although only one had to.
    assert loose.leakage == pytest.approx(tight.leakage, abs=1e-9)


def test_its_kernel_is_loaded_before_any_clock_starts() -> None:
    pytest.importorskip("numba", reason="nothing is compiled without the extra 'fast'")
    global_.load_kernels()
    loaded = list(conditions.signatures)
    pf.solve(HEART, disclosure=0.8 * HEART.disclosure_ceiling, solver="global")
    assert loaded
    assert conditions.signatures == loaded


def test_where_it_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    disclosure = 0.8 * HEART.disclosure_ceiling
    master = Master(HEART)
    duals = master.solve(disclosure)
    for slope in (0.0, 1.0):
        assert refine(master, disclosure, Prices(prices=duals.prices, slope=slope, value=duals.value)) is None
    search = closed(HEART, disclosure)
    duals = search.master.solve(disclosure)
    assert refine(search.master, disclosure, duals) is not None
    monkeypatch.setattr(_newton, "MOST_UNKNOWNS", 20)
    assert refine(search.master, disclosure, duals) is None


def test_a_singular_system_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    disclosure = 0.8 * HEART.disclosure_ceiling
    search = closed(HEART, disclosure)

    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "solve", singular)
    assert refine(search.master, disclosure, search.master.solve(disclosure)) is None
    assert HEART.evaluate(search.channel(disclosure)).disclosure >= disclosure
