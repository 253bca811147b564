"""The free disclosure where posteriors cannot be listed: pairs for two private symbols, a split of p(x) for others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import privfunnel as pf
from privfunnel.algorithms import perfect
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.algorithms.perfect.polytope import PrivateEquations
from privfunnel.algorithms.perfect.splitting import split
from privfunnel.algorithms.perfect.too_large import by_pairs, by_split
from privfunnel.app.cli._common import Units
from privfunnel.app.cli.curve import free_sentence
from privfunnel.measures import entropy
from privfunnel.model import channels


def random_problem(rng: np.random.Generator, n_s: int, n_x: int, kind: str) -> pf.Problem:
    """A table of one kind: smooth, of counts with zeros, or with entries many orders of magnitude apart."""
    table = {
        "smooth": rng.random((n_s, n_x)),
        "counts": rng.poisson(1.0, (n_s, n_x)) + np.eye(n_s, n_x),
        "wild": np.exp(4.0 * rng.normal(size=(n_s, n_x))),
    }[kind]
    return pf.Problem(table / table.sum())


@pytest.mark.parametrize("kind", ["smooth", "counts", "wild"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (3, 40), (4, 300), (9, 120), (6, 4)])
def test_p_x_is_split_into_private_posteriors_of_few_symbols(shape: tuple[int, int], kind: str) -> None:
    problem = random_problem(np.random.default_rng(sum(shape)), *shape, kind)
    silence = PrivateEquations.of(problem.p_s_given_x, problem.p_x)
    parts = split(silence.rows, silence.goal, problem.p_x)
    rank = silence.goal.size
    posteriors = parts.posteriors.toarray()
    assert parts.weights @ posteriors == pytest.approx(problem.p_x, abs=1e-13)
    crowded = (posteriors > 0.0).sum(axis=1) > rank
    assert parts.weights[crowded].sum() <= 1e-12
    assert float(parts.weights @ entropy(posteriors)) <= math.log(rank) + 1e-9
    leaked = np.abs(posteriors @ problem.p_s_given_x.T - problem.p_s).max(axis=1)
    assert float(parts.weights @ leaked) <= 1e-12


def test_the_free_disclosure_is_not_below_its_floor_when_there_is_no_time() -> None:
    rng = np.random.default_rng(5)
    for n_s, n_x in ((3, 200), (4, 120), (8, 60)):
        problem = random_problem(rng, n_s, n_x, "smooth")
        with cpu_clock():  # a split takes a moment, which a busy machine may make long
            free = perfect.free_disclosure(problem, seconds=1e-9, nodes=0)
        rank = np.linalg.matrix_rank(problem.p_s_given_x)
        assert free.disclosure >= problem.disclosure_ceiling - math.log(rank) - 1e-9
        assert problem.evaluate(free.channel).leakage <= 1e-12
        assert free.upper >= free.disclosure


def test_pairs_and_listed_vertices_agree() -> None:
    rng = np.random.default_rng(1)
    for n_x in (2, 7, 40, 64):
        problem = random_problem(rng, 2, n_x, "wild")
        listed = perfect.free_disclosure(problem)
        pairs = by_pairs(problem)
        assert problem.evaluate(pairs.channel).disclosure == pytest.approx(listed.disclosure, abs=1e-9)
        assert listed.disclosure <= pairs.upper + 1e-9


def test_two_private_symbols_are_proved_at_any_size_and_held_sparsely() -> None:
    problem = random_problem(np.random.default_rng(2), 2, 20_000, "smooth")
    free = perfect.free_disclosure(problem)
    assert sparse.issparse(free.channel)
    assert free.proved
    assert free.mixtures == ()
    point = problem.evaluate(free.channel)
    assert point.disclosure == free.disclosure == pf.free_disclosure(problem)
    assert point.leakage <= 1e-12
    half = perfect.share_down(problem, free.channel, 0.5 * free.disclosure)
    assert problem.evaluate(half).disclosure == pytest.approx(0.5 * free.disclosure, abs=1e-9)


def test_a_table_of_medium_size_lists_the_pairs_it_uses() -> None:
    problem = random_problem(np.random.default_rng(3), 2, 200, "smooth")
    free = perfect.free_disclosure(problem)
    (part,) = free.mixtures
    assert part.weights @ part.posteriors == pytest.approx(problem.p_x, abs=1e-13)
    assert free.proved


def test_a_huge_table_is_split_and_says_that_more_may_be_free() -> None:
    problem = random_problem(np.random.default_rng(4), 3, 3200, "smooth")
    free = perfect.free_disclosure(problem)
    assert sparse.issparse(free.channel)
    assert free.disclosure >= problem.disclosure_ceiling - math.log(3) - 1e-9
    silence = PrivateEquations.of(problem.p_s_given_x, problem.p_x)
    again = by_split(problem, silence.rows, silence.goal)
    assert problem.evaluate(again.channel).disclosure == free.disclosure
    assert not free.proved


def test_the_sentence_gives_both_ends_where_the_largest_is_not_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = pf.Problem([[2, 1, 3], [1, 2, 2]])
    least, most = pf.free_disclosure_bounds(problem)
    assert most - least <= 1e-6
    assert "can be released" in free_sentence(problem, Units("nats"))
    assert "at least" not in free_sentence(problem, Units("nats"))
    monkeypatch.setattr("privfunnel.solving.free_disclosure.free_disclosure_bounds", lambda _: (0.25, 0.5))
    told = free_sentence(problem, Units("nats"))
    ceiling = problem.disclosure_ceiling
    assert f"at least 0.250000 nats ({25 / ceiling:.1f} % of H(X))" in told
    assert f"at most 0.500000 nats ({50 / ceiling:.1f} % of H(X))" in told


def test_sparse_channels_are_time_shared_like_dense_ones() -> None:
    rng = np.random.default_rng(6)
    problem = random_problem(rng, 3, 6, "smooth")
    noisy = rng.dirichlet(np.ones(4), 6)
    dense = channels.time_share([np.eye(6), noisy, np.eye(6)], [0.25, 0.5, 0.25])
    held = channels.time_share([sparse.csc_array(np.eye(6)), noisy, np.eye(6)], [0.25, 0.5, 0.25])
    assert held.shape == dense.shape
    assert problem.evaluate(held) == pytest.approx(problem.evaluate(dense), abs=1e-12)
    assert sparse.issparse(channels.identity(4000))
