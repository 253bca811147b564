"""Worst-case guarantees for every mechanism at once, from intervals of p(s|x), p(x) and p(s)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

import privfunnel as pf
from privfunnel import audit, measures
from privfunnel.data import instances
from privfunnel.data.population.robust import _largest_mean, population_worst_lift
from privfunnel.errors import InvalidInputError


def test_the_largest_mean_is_that_of_a_linear_program() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        v, low = rng.random(5), 0.2 * rng.random((5, 1)) * (rng.random((5, 1)) < 0.7)
        high = low + rng.random((5, 1)) * (rng.random((5, 1)) < 0.8)
        if high.sum() == 0.0:
            continue
        # Weights w = u/t with Σ w = 1: maximise Σ v w over low·t ≤ w ≤ high·t.
        found = optimize.linprog(
            np.append(-v, 0.0),
            A_ub=np.vstack([np.hstack([np.eye(5), -high]), np.hstack([-np.eye(5), low])]),
            b_ub=np.zeros(10),
            A_eq=np.append(np.ones(5), 0.0)[None],
            b_eq=[1.0],
            bounds=(0.0, None),
        )
        assert float(_largest_mean(v, low, high)[0]) == pytest.approx(-found.fun, abs=1e-9)


def test_the_bound_holds_for_designs_on_the_same_rows() -> None:
    whole = instances.load("heart-failure")
    rng = np.random.default_rng(1)
    for trial in range(6):
        counts = rng.multinomial(3000, whole.p_sx.ravel()).reshape(whole.p_sx.shape)
        channel = pf.solve(pf.Problem(counts), disclosure=1.2, solver="greedy", seed=trial).channel
        truth = float(np.log(measures.lift(whole.p_sx @ channel).max()))
        on_rows = float(np.log(measures.lift(counts @ channel / counts.sum()).max()))
        bound = population_worst_lift(counts, channel)
        assert bound >= max(truth, on_rows)
        assert bound < math.log(1.0 / whole.p_s.min())


def test_more_rows_prove_more_and_less_confidence_too() -> None:
    whole = instances.load("heart-failure")
    channel = pf.solve(whole, disclosure=1.2, solver="greedy").channel
    bounds = [population_worst_lift(np.rint(whole.p_sx * n), channel) for n in (1000, 10_000, 1_000_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[2] == pytest.approx(float(np.log(measures.lift(whole.p_sx @ channel).max())), abs=0.05)
    assert population_worst_lift(np.rint(whole.p_sx * 1000), channel, 0.8) < bounds[0]


def test_a_constant_release_makes_nothing_much_likelier_and_an_unseen_value_is_unbounded() -> None:
    counts = np.array([[300.0, 200.0], [400.0, 100.0]])
    assert population_worst_lift(counts, np.ones((2, 1))) < population_worst_lift(counts, np.eye(2))
    assert math.isinf(population_worst_lift(np.vstack([counts, np.zeros(2)]), np.ones((2, 1))))
    with pytest.raises(InvalidInputError, match="not a number of rows"):
        population_worst_lift(counts / 3.0, np.eye(2))


def test_audits_of_samples_say_what_the_very_mechanism_does_at_worst() -> None:
    whole = instances.load("heart-failure")
    found = audit.cross_fitted(
        pf.Problem(np.random.default_rng(2).multinomial(3000, whole.p_sx.ravel()).reshape(whole.p_sx.shape)),
        disclosure=1.2,
        solver="greedy",
    )
    said = replace(found, worst_lift=0.5).words()
    assert any("makes no private value more than 1.65 times as likely there" in line for line in said)
