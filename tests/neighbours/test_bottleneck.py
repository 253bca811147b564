from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import privfunnel as pf
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.measures import kl_divergence
from privfunnel.neighbours import bottleneck


def h(p):
    """Binary entropy in nats."""
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p)) if 0 < p < 1 else 0.0


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.35])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.95])
def test_binary_symmetric_closed_form(noise, share):
    """Mrs. Gerber: with S = X xor Bernoulli(δ), I(S;Y) = log 2 − h(δ * α) for I(X;Y) = log 2 − h(α)."""
    problem = pf.Problem([[(1 - noise) / 2, noise / 2], [noise / 2, (1 - noise) / 2]])
    rate = share * np.log(2)
    alpha = brentq(lambda a: np.log(2) - h(a) - rate, 1e-15, 0.5)
    expected = np.log(2) - h(noise * (1 - alpha) + (1 - noise) * alpha)
    solution = bottleneck.solve(problem, rate=rate, restarts=1)
    assert solution.disclosure <= rate + 1e-9
    assert solution.leakage == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("beta", [5.0, 20.0])
def test_against_dit(beta):
    """dit minimises the same Lagrangian with a general-purpose optimiser of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dit = pytest.importorskip("dit")
        from dit.rate_distortion.information_bottleneck import InformationBottleneck

    problem = pf.Problem(np.random.default_rng(0).dirichlet(np.full(9, 0.7)).reshape(3, 3))
    names = [f"{x}{s}" for x in range(3) for s in range(3)]
    np.random.seed(0)  # noqa: NPY002 - dit draws from the global generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = InformationBottleneck(dit.Distribution(names, problem.p_sx.T.ravel()), beta=beta)
        theirs.optimize(niter=6)
        p_xy = theirs.construct_joint(theirs._optima).sum(axis=(1, 2))
    expected = problem.evaluate(p_xy / p_xy.sum(axis=1, keepdims=True))
    ours = bottleneck.solve(problem, multiplier=beta)
    assert ours.leakage == pytest.approx(expected.leakage, abs=1e-5)
    assert ours.disclosure == pytest.approx(expected.disclosure, abs=1e-5)


def test_fixed_point_equation():
    rng = np.random.default_rng(1)
    problem = pf.Problem(rng.dirichlet(np.ones(12)).reshape(3, 4))
    start = rng.dirichlet(np.ones(4), size=4)
    channel, still = bottleneck.iterate(problem, start, 6.0, tolerance=1e-13, max_steps=100_000)
    assert still
    p_y = problem.p_x @ channel
    p_s_given_y = problem.p_sx @ channel / p_y
    weight = p_y * np.exp(
        -6.0
        * np.array(
            [
                [kl_divergence(problem.p_s_given_x[:, x], p_s_given_y[:, y]) for y in range(4)]
                for x in range(4)
            ]
        )
    )
    np.testing.assert_allclose(channel, weight / weight.sum(1, keepdims=True), atol=1e-9)


@given(seed=st.integers(0, 10**6), beta=st.floats(1.0, 50.0))
@settings(max_examples=30, deadline=None)
def test_every_iteration_descends(seed, beta):
    rng = np.random.default_rng(seed)
    problem = pf.Problem(rng.dirichlet(np.ones(12)).reshape(3, 4))
    channel = rng.dirichlet(np.ones(4), size=4)
    value = np.inf
    for _ in range(20):
        channel = bottleneck.update(problem, channel, beta)
        point = problem.evaluate(channel)
        new = point.disclosure - beta * point.leakage
        assert new <= value + 1e-12
        value = new


def test_curve_is_concave_and_between_its_bounds(tmp_path):
    problem = pf.instances.load("heart-failure")
    curve = bottleneck.trace(problem, points=12, multipliers=np.geomspace(1.01, 100, 12), max_steps=500)
    assert not isinstance(curve, pf.Curve)  # concave, and best where it is highest
    assert (curve.leakage <= curve.upper_bound + 1e-9).all()
    assert (curve.leakage >= problem.upper_bound(curve.disclosure) - 1e-9).all()  # at least time sharing
    second = np.diff(np.diff(curve.leakage) / np.diff(curve.disclosure))
    assert (second <= 1e-9).all()
    middle = curve.at(1.0)
    assert middle.disclosure == pytest.approx(1.0, abs=1e-9)
    assert middle.leakage == pytest.approx(np.interp(1.0, curve.disclosure, curve.leakage), abs=1e-6)
    assert repr(curve).startswith("BottleneckCurve(12 points of Problem(4 private")


def test_a_saved_curve_comes_back_as_what_it_is(tmp_path):
    problem = pf.Problem([[4, 1, 2], [1, 3, 2]])
    curve = bottleneck.trace(problem, points=4, multipliers=[2.0, 5.0])
    curve.save(tmp_path / "bottleneck.json")
    again = bottleneck.BottleneckCurve.load(tmp_path / "bottleneck.json")
    assert type(again) is bottleneck.BottleneckCurve
    assert again.to_dict() == curve.to_dict()
    assert (again.status, again.raw, again.seed) == (curve.status, curve.raw, curve.seed)
    np.testing.assert_array_equal(again.at(0.3).channel, curve.at(0.3).channel)
    with pytest.raises(InvalidInputError, match="not a privfunnel/curve file"):
        pf.Curve.load(tmp_path / "bottleneck.json")
    pf.trace(problem, points=3).save(tmp_path / "funnel.json")
    with pytest.raises(InvalidInputError, match="not a privfunnel/bottleneck-curve file"):
        bottleneck.BottleneckCurve.load(tmp_path / "funnel.json")


def test_bottleneck_is_above_the_funnel():
    rng = np.random.default_rng(3)
    problem = pf.Problem(rng.dirichlet(np.ones(12)).reshape(3, 4))
    for share in (0.2, 0.5, 0.8):
        rate = share * problem.disclosure_ceiling
        most = bottleneck.solve(problem, rate=rate)
        least = pf.solve(problem, disclosure=rate, solver="global")
        assert most.leakage <= min(rate, problem.leakage_ceiling) + 1e-9
        assert most.leakage >= problem.upper_bound(rate) - 1e-9
        assert least.status is pf.Status.OPTIMAL
        assert most.leakage > least.leakage + 1e-3


def test_multiplier_one_tells_nothing_and_seeds_repeat():
    problem = pf.Problem([[4, 1, 2], [1, 3, 2]])
    assert bottleneck.solve(problem, multiplier=1.0).leakage == pytest.approx(0.0, abs=1e-9)
    first, again = (bottleneck.solve(problem, rate=0.4, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.channel, again.channel)


def test_trivial_and_degenerate_problems():
    for table in ([[2, 3, 4]], [[2], [3]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]):
        problem = pf.Problem(table)
        rate = 0.5 * problem.disclosure_ceiling
        solution = bottleneck.solve(problem, rate=rate)
        assert np.isfinite(solution.channel).all()
        assert solution.disclosure <= rate + 1e-9
        curve = bottleneck.trace(problem, points=3, multipliers=[2.0, 10.0])
        assert np.isfinite(curve.leakage).all()


def test_plot():
    pytest.importorskip("matplotlib", reason="figures need the plots extra")
    problem = pf.Problem([[4, 1, 2], [1, 3, 2]])
    curve = bottleneck.trace(problem, points=5, multipliers=[2.0, 5.0])
    for units in ("nats", "bits"):
        axes = curve.plot(units=units).axes[0]
        assert units in axes.get_xlabel()
    with pytest.raises(InvalidInputError, match="units"):
        curve.plot(units="dits")


@pytest.mark.parametrize(
    "options",
    [
        {}, {"rate": 0.1, "multiplier": 2.0}, {"multiplier": 0.5}, {"rate": -1.0}, {"rate": 0.1, "restarts": -1},
        {"rate": 0.1, "tolerance": 0.0}, {"rate": 0.1, "max_steps": 0}, {"rate": 0.1, "seed": -1},
    ],
)  # fmt: skip
def test_arguments_are_checked(options):
    problem = pf.Problem([[4, 1, 2], [1, 3, 2]])
    with pytest.raises(InvalidInputError):
        bottleneck.solve(problem, **options)
    with pytest.raises(InfeasibleError):
        bottleneck.solve(problem, rate=9.0)
    with pytest.raises(InvalidInputError):
        bottleneck.trace(problem, multipliers=[0.5])
    with pytest.raises(InvalidInputError):
        bottleneck.trace(problem, rates=[])


def test_plot_refuses_unknown_options():
    problem = pf.Problem([[4, 1, 2], [1, 3, 2]])
    curve = bottleneck.trace(problem, points=3, multipliers=[2.0])
    with pytest.raises(InvalidInputError, match="colour"):
        curve.plot(colour="red")
