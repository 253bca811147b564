"""Guarded releases of tables with many public symbols: releases without a search, sparse weights and channels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import privfunnel as pf
from privfunnel.algorithms import guarded_too_large as unsearched
from privfunnel.algorithms.columns.general import compiled_branching as exploring
from privfunnel.algorithms.columns.general.search import Search
from privfunnel.algorithms.deadline import Limits
from privfunnel.algorithms.posteriors.assembly import channel_of_posteriors, held_channel
from privfunnel.algorithms.posteriors.exact_weights import corrected
from privfunnel.errors import ConvergenceWarning, SolverError
from privfunnel.model import channels
from privfunnel.model.question import Quantity
from privfunnel.model.threat import Threat
from privfunnel.solving.request import Request


def few_and_many(copies: int = 40) -> tuple[pf.Problem, pf.Problem]:
    """A small table, the same with each public symbol divided into equal copies, each with a column."""
    small = np.array([[8, 2, 5, 1, 6, 3, 4, 1], [1, 6, 2, 9, 3, 3, 1, 8]])
    of = np.repeat(np.arange(8), copies)
    made = [pf.Problem(small[:, x], public_columns={"a": (x % 2).tolist()}) for x in (np.arange(8), of)]
    return made[0], made[1]


@pytest.fixture
def varied() -> pf.Problem:
    rng = np.random.default_rng(5)
    return pf.Problem(rng.integers(1, 60, (2, 320)), public_columns={"a": (np.arange(320) % 4).tolist()})


def solved(problem: pf.Problem, **asked: Any) -> pf.Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return pf.solve(problem, **asked)


@pytest.mark.parametrize(
    ("asked", "free"),
    [
        ({"known": "a", "disclosure": "99%"}, False),
        ({"known": "a", "leakage": "1%"}, False),
        ({"known": "a", "leakage": 0.0}, False),
        ({"published": "a", "disclosure": "60%"}, False),
        ({"guarantees": ["lip=0.1"]}, True),
        ({"guarantees": ["k=100"]}, False),
        ({"measure": "maximal-leakage", "leakage": 0.0}, True),
        ({"measure": "maximal-leakage", "disclosure": "99%"}, False),
    ],
    ids=["known", "budget", "nothing", "published", "lip", "crowds", "silent", "maximal"],
)
def test_tables_too_large_for_a_search_have_a_release_that_keeps_to_what_is_asked(
    varied: pf.Problem, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], free: bool
) -> None:
    monkeypatch.setattr(unsearched, "MOST_SEARCHED", 100)
    found = solved(varied, time_limit=1.0, **asked)
    assert found.status in (pf.Status.TIME_LIMIT, pf.Status.OPTIMAL)
    assert found.requested is None or found.disclosure >= found.requested - 1e-9
    assert found.budget is None or found.leakage <= found.budget + 1e-9
    assert not found.guards.guarantees or found.guards.excess(varied, found.channel) <= 1e-9
    if free:
        assert found.disclosure == pytest.approx(pf.free_disclosure(varied), abs=1e-6)


def test_budgets_of_columns_that_a_large_table_cannot_keep_to_leave_nothing(
    varied: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsearched, "MOST_SEARCHED", 100)
    told = channels.identity(320)
    asked = Request(known="a").open(varied, Quantity.DISCLOSURE)
    assert unsearched._within(asked, told) is told


def test_what_guarantees_keep_from_a_large_table_is_refused_with_advice(
    varied: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsearched, "MOST_SEARCHED", 100)
    with pytest.raises(
        SolverError, match="classes of public symbols are too many for a search: lower it, or take"
    ):
        pf.solve(varied, disclosure="99.9%", guarantees=["lip=0.1"], time_limit=1.0)


def test_a_box_that_takes_longer_than_there_is_time_for_is_not_begun(
    varied: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(exploring, "PLAN", exploring.PLAN._replace(box_seconds=1.0))
    monkeypatch.setattr(exploring, "advance", None)
    threat = Threat.of(varied, known="a")
    limits = Limits(1.0, nodes=100)
    search = Search(varied, threat, zero=False, rng=np.random.default_rng(0), limits=limits)
    bracket = exploring.Bracket(np.ones(2), np.zeros(320), 0.5, None)
    found = exploring.explore_compiled(search.strata[0], threat, bracket, -1e-6, 100, limits)
    assert (found.complete, found.hurried, found.opened, found.least) == (False, True, 0, -np.inf)


def test_weights_are_corrected_to_rounding() -> None:
    rng = np.random.default_rng(2)
    posteriors = np.eye(400)[:250] * 0.5 + np.eye(400)[rng.permutation(400)[:250]] * 0.5
    weights = rng.dirichlet(np.ones(250))
    p_x = posteriors.T @ weights
    found = corrected(posteriors, weights * (1.0 + 1e-6 * rng.normal(size=250)), p_x)
    assert np.abs(posteriors.T @ found - p_x).max() < 1e-15


def test_a_channel_of_many_posteriors_is_the_same_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = few_and_many()
    rng = np.random.default_rng(0)
    posteriors = (
        np.where(rng.random((20, 8)) < 0.5, rng.random((20, 8)), 0.0) + np.eye(8)[rng.integers(0, 8, 20)]
    )
    posteriors[:, 7] = 0.0  # lost in every posterior
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    weights = rng.dirichlet(np.ones(20))
    dense = problem.evaluate(channel_of_posteriors(problem, weights, posteriors))
    assert problem.evaluate(held_channel(problem, weights, posteriors)) == dense
    monkeypatch.setattr(channels, "DENSE_ENTRIES", 10)
    held = held_channel(problem, weights, posteriors)
    assert sparse.issparse(held)
    assert problem.evaluate(held) == pytest.approx(dense, abs=1e-12)


def test_parts_of_a_table_with_rounding_in_its_bases_say_nothing() -> None:
    rng = np.random.default_rng(1)
    rates = rng.choice([0.0, 1.0, 0.5, 0.25, 0.2, 0.1], 270)
    problem = pf.Problem(rng.dirichlet(np.ones(270)) * np.stack([1.0 - rates, rates]))
    threat = Threat.of(problem, known=[rng.integers(0, 10, 270)])
    search = Search(problem, threat, zero=True, rng=rng, limits=Limits(5.0, nodes=10))
    rows, goal = search.relaxations[0].equations
    assert np.abs(search.starts() @ rows.T - goal).max() <= 1e-11
