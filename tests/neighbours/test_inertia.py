"""Principal inertia components, the local approximation, the solver that uses it, and the proved χ² bound."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar

import privfunnel as pf
from forging import changed
from helpers_cli import assert_one_line_error, run
from privfunnel import measures
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError
from privfunnel.neighbours import inertia


def random_problem(seed: int, n_s: int = 3, n_x: int = 4) -> pf.Problem:
    return pf.Problem(np.random.default_rng(seed).dirichlet(np.ones(n_s * n_x)).reshape(n_s, n_x))


def chi(problem: pf.Problem, channel: np.ndarray) -> tuple[float, float]:
    """χ²(X;Y) and χ²(S;Y)."""
    p_xy = problem.p_x[:, None] * channel
    return float(measures.chi_squared(p_xy)), float(measures.chi_squared(problem.p_sx @ channel))


def test_a_binary_symmetric_table_has_one_component() -> None:
    problem = pf.Problem([[0.4, 0.1], [0.1, 0.4]])
    found = inertia.components(problem)
    assert found.values == pytest.approx([0.36])  # (1 − 2δ)²
    assert (found.hidden, found.maximal_correlation) == (0, pytest.approx(0.6))


@pytest.mark.parametrize("name", ["synthetic-skewed", "heart-failure"])
def test_components_add_up_to_chi_squared_and_are_orthogonal(name: str) -> None:
    problem = pf.instances.load(name)
    found = inertia.components(problem)
    assert found.chi_squared == pytest.approx(float(measures.chi_squared(problem.p_sx)), abs=1e-12)
    v = found.directions
    np.testing.assert_allclose(v.T @ v, np.eye(v.shape[1]), atol=1e-12)
    np.testing.assert_allclose(np.sqrt(problem.p_x) @ v, 0.0, atol=1e-12)
    assert found.hidden == max(problem.n_x - problem.n_s, 0)


def test_a_channel_along_a_direction_has_its_component() -> None:
    """p ± c√p∘v with equal weights: χ²(X;Y) = c², χ²(S;Y) = c² times the component."""
    problem = pf.instances.load("heart-failure")
    found = inertia.components(problem)
    both = inertia.posteriors(problem, found.directions[:, :1], (0.3,))
    # the two have different largest c: mix them so that they average to p
    steps = [float(np.sum((w - problem.p_x) ** 2 / problem.p_x)) ** 0.5 for w in both]
    weights = np.array(steps[::-1]) / sum(steps)
    channel = pf.channels.from_posteriors(weights, both.T, problem.p_x)
    told = chi(problem, channel)
    assert told[0] == pytest.approx(steps[0] * steps[1], rel=1e-9)
    assert told[1] == pytest.approx(told[0] * found.values[0], rel=1e-9)


def test_the_local_funnel_takes_the_smallest_components_first() -> None:
    problem = random_problem(0)
    values = np.sort(inertia.components(problem).values)
    found = inertia.local_funnel(problem, 1.5)
    assert found.chi_squared_x == pytest.approx(1.5)
    assert found.chi_squared_s == pytest.approx(values[0] + 0.5 * values[1], abs=1e-12)
    with pytest.raises(InfeasibleError, match="at most 3"):
        inertia.local_funnel(problem, 3.5)
    with pytest.raises(InvalidInputError, match="≥ 0"):
        inertia.local_funnel(problem, -1.0)
    with pytest.raises(InvalidInputError, match="no task"):
        inertia.local_funnel(problem, 0.1, task=True)


def test_the_local_funnel_for_a_third_variable_meets_its_dual() -> None:
    """For every λ ≥ 0, tr(S Λ) ≥ λρ + Σ of the negative eigenvalues of S − λU: the best λ proves the optimum."""
    rng = np.random.default_rng(3)
    p_x = rng.dirichlet(np.ones(5))
    p_s, p_u = (rng.dirichlet(np.ones(3), size=5).T * p_x for _ in range(2))
    problem = pf.Problem(p_s, p_ux=p_u)
    most = float(measures.chi_squared(p_u))
    for share in (0.2, 0.7):
        found = inertia.local_funnel(problem, share * most, task=True)
        assert found.chi_squared_u == pytest.approx(share * most, abs=1e-9)
        eigenvalues = np.linalg.eigvalsh(found.matrix)
        assert eigenvalues[0] >= -1e-9
        assert eigenvalues[-1] <= 1 + 1e-9
        least = minimize_scalar(
            lambda t, asked=share * most: (
                -(asked * t + np.minimum(inertia.mixed_directions(problem, t)[0], 0.0).sum())
            ),
            bounds=(0.0, 100.0), method="bounded", options={"xatol": 1e-12},
        )  # fmt: skip
        dual = max(-least.fun, 0.0)  # λ = 0 proves 0
        assert dual <= found.chi_squared_s + 1e-9
        assert found.chi_squared_s == pytest.approx(dual, abs=1e-6)
    solution = pf.solve(problem, disclosure=0.3, solver=pf.SDP(utility=2.0))
    assert solution.disclosure >= 0.3 - 1e-9


def test_the_solver_keeps_to_its_posteriors_and_to_the_bound() -> None:
    problem = random_problem(1)
    best = pf.solve(problem, disclosure=0.4, solver="global")
    found = pf.solve(problem, disclosure=0.4, solver="sdp")
    more = pf.solve(problem, disclosure=0.4, solver=pf.SDP(scales=(1.0, 0.75, 0.5, 0.25, 0.1)))
    assert best.leakage - 1e-9 <= more.leakage <= found.leakage + 1e-9
    assert found.leakage < float(problem.upper_bound(0.4))  # better than time sharing X and nothing
    with pytest.raises(InvalidInputError, match="up to 1"):
        pf.SDP(scales=(2.0,))
    with pytest.raises(InvalidInputError, match="utility"):
        pf.SDP(utility=-1.0)
    with pytest.raises(InvalidInputError, match="4001 public symbols"):
        inertia.components(pf.Problem(np.ones((2, 4001))))
    wide = pf.Problem(np.random.default_rng(0).random((2, 601)))
    refused = pf.SDP().solve(wide, 1.0)
    assert refused.status is pf.Status.FAILED
    assert "601 public symbols" in refused.message


def exact_chi_squared(problem: pf.Problem, asked: float) -> float:
    """The χ² funnel for few public symbols: column generation, priced exactly by looking at every face."""
    p_x, n = problem.p_x, problem.n_x
    cost = (problem.p_s_given_x.T / problem.p_s) @ problem.p_s_given_x
    gain = np.diag(1.0 / p_x)
    faces = [list(f) for k in range(1, n + 1) for f in itertools.combinations(range(n), k)]
    pool = [*np.eye(n), p_x]
    for _ in range(200):
        w = np.array(pool)
        lp = linprog(
            np.einsum("ij,jk,ik->i", w, cost, w), A_ub=-np.einsum("ij,jk,ik->i", w, gain, w)[None],
            b_ub=[-(1.0 + asked)], A_eq=w.T, b_eq=p_x, method="highs",
        )  # fmt: skip
        a, slope = lp.eqlin.marginals, -lp.ineqlin.marginals[0]
        form = cost - slope * gain
        new = []
        for face in faces:
            k = len(face)
            system = np.block(
                [[2.0 * form[np.ix_(face, face)], -np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]]
            )
            point = np.zeros(n)
            try:
                point[face] = np.linalg.solve(system, np.append(a[face], 1.0))[:k]
            except np.linalg.LinAlgError:
                continue
            if (point >= -1e-12).all() and point @ form @ point - a @ point < -1e-9:
                new.append(np.maximum(point, 0.0))
        if not new:
            return float(lp.fun) - 1.0
        pool += new
    return float(lp.fun) - 1.0


@pytest.mark.parametrize(("seed", "n_x"), [(0, 3), (1, 4), (2, 4)])
def test_the_relaxation_is_exact_for_few_symbols(seed: int, n_x: int) -> None:
    pytest.importorskip("clarabel", reason="the relaxation needs the sdp extra")
    problem = random_problem(seed, n_x=n_x)
    asked = 0.7 * (n_x - 1)
    bound = pf.chi_squared_funnel.lower_bound(problem, asked)
    exact = exact_chi_squared(problem, asked)
    assert bound.value <= exact + 1e-8
    assert bound.value == pytest.approx(exact, abs=1e-6)


def test_no_channel_is_below_the_chi_squared_bound() -> None:
    pytest.importorskip("clarabel", reason="the relaxation needs the sdp extra")
    problem, rng = pf.instances.load("heart-failure"), np.random.default_rng(0)
    line = pf.chi_squared_funnel.lower_bound(problem, 10.0).certificate
    assert line.lower_bound(10.0) > 0.05
    best = pf.solve(problem, disclosure=2.3, solver="global").channel
    drawn = [channel for a in (0.01, 0.1, 1.0) for channel in rng.dirichlet(np.full(16, a), size=(40, 16))]
    for channel in [best, np.eye(16), *drawn]:
        told_x, told_s = chi(problem, channel)
        assert told_s >= line.lower_bound(told_x) - 1e-12


def test_forged_chi_squared_certificates_fail() -> None:
    pytest.importorskip("clarabel", reason="the relaxation needs the sdp extra")
    problem = random_problem(1)
    c = pf.chi_squared_funnel.lower_bound(problem, 2.0).certificate
    c.verify(problem)
    assert "≥" in repr(c)
    for forged in (
        changed(c, intercept=c.intercept + 1e-9),
        changed(c, slope=1.1 * c.slope),
        changed(c, slope=-1.0, intercept=-5.0),
        changed(c, prices=c.body.prices + 1e-3),
        changed(c, prices=c.body.prices[1:]),
        changed(c, entries=c.body.entries + 10.0),
        changed(c, entries=np.full_like(c.body.entries, np.nan)),
        changed(c, fingerprint="0" * 64),
    ):
        with pytest.raises(CertificateError):
            forged.verify(problem)
    with pytest.raises(InfeasibleError, match="M − 1"):
        pf.chi_squared_funnel.lower_bound(problem, 3.5)
    with pytest.raises(InvalidInputError, match="≥ 0"):
        pf.chi_squared_funnel.lower_bound(problem, float("nan"))
    with pytest.raises(InvalidInputError, match="public symbols"):
        pf.chi_squared_funnel.lower_bound(random_problem(0, n_x=61), 3.5)


def test_the_command_shows_the_spectrum(tmp_path: Path) -> None:
    result = run("inertia", "heart-failure", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "12 of 15 directions" in result.output
    told = json.loads(run("inertia", "heart-failure", "--json").output)
    assert told["hidden"] == 12
    pytest.importorskip("clarabel", reason="the relaxation needs the sdp extra")
    proved = run("inertia", "synthetic-skewed", "--chi-squared", 1.5, "--out", tmp_path / "proved")
    assert "Proved" in proved.output
    verified = run("verify", tmp_path / "proved" / "certificates.npz", "synthetic-skewed")
    assert verified.exit_code == 0, verified.output
    assert "χ²(S;Y) ≥" in verified.output
    assert_one_line_error(run("inertia", "synthetic-skewed", "--chi-squared", 5), "infeasible")


def test_the_spectrum_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason="figures need the plots extra")
    axes = inertia.components(pf.instances.load("heart-failure")).plot().axes[0]
    assert len(axes.patches) == 15
