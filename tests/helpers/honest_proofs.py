"""One honest proof of every kind, and of every kind of part: what lies are made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from unittest import mock

import numpy as np

import privfunnel as pf
from forging import changed
from funnels import toy
from privfunnel.algorithms.chain import Chain
from privfunnel.algorithms.columns.plain import clique_pricing as cliqued
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.perfect import polytope
from privfunnel.algorithms.thinning import thinning_line
from privfunnel.certificate import Certificate, ChiSquaredBody, PlainBody, SupportsProof, private_vertices
from privfunnel.neighbours import bottleneck
from privfunnel.release import distortion

Proved = tuple[pf.Problem, Certificate]


def _of(solution: pf.Solution) -> Proved:
    assert solution.certificate is not None
    return solution.problem, solution.certificate


def _three() -> pf.Problem:
    """Three private symbols, seven public ones, two of which are one class."""
    counts = np.random.default_rng(5).integers(1, 40, (3, 7))
    counts[:, 6] = 2 * counts[:, 3]
    return pf.Problem(counts)


def _tasked() -> pf.Problem:
    problem = toy(6)
    u = np.random.default_rng(1).dirichlet(np.ones(2), size=problem.n_x).T
    return pf.Problem(problem.counts, public_columns=problem.public_columns, p_ux=u * problem.p_x)


def _trees() -> Proved:
    return _of(pf.solve(_three(), disclosure="85%", solver="global", lump=True))


def _supports() -> Proved:
    problem, line = _trees()
    body = line.body_of(PlainBody)
    alone = [SupportsProof(claim=body.value)]
    return problem, PlainBody.build(problem, body.prices, line.slope, alone, body.coarsening, body.cells)


def _coarse() -> Proved:
    problem = toy(6, n_s=4)
    groups = np.array([0, 1, 0, 1], dtype=np.int32)
    merged = np.zeros((2, problem.n_x))
    np.add.at(merged, groups, problem.p_sx)
    _, line = _of(pf.solve(pf.Problem(merged), disclosure=0.9 * problem.disclosure_ceiling, solver="global"))
    body = line.body_of(PlainBody)
    roomy = [changed(part, claim=part.claim - 1e-9) for part in body.proofs]
    return problem, PlainBody.build(problem, body.prices, line.slope, roomy, groups, body.cells)


def _pairs() -> Proved:
    return _of(pf.solve(toy(4, n_s=2), disclosure="90%", solver="binary"))


def _chain() -> Proved:
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.full(4, 0.8), size=20).T * rng.dirichlet(np.ones(20))
    problem = pf.Problem(table / table.sum())
    line = Chain(problem).line(0.9 * problem.disclosure_ceiling, Deadline())
    assert line is not None
    return problem, line


def _thinning() -> Proved:
    rng = np.random.default_rng(2)
    problem = pf.Problem(rng.poisson(2.0 * rng.dirichlet(np.full(8, 0.7), size=30).T * 5.0) + np.eye(8, 30))
    line = thinning_line(problem, problem.h_x_given_s)
    assert line is not None
    return problem, line


def _cliques() -> Proved:
    counts = np.random.default_rng(3).integers(1, 40, (6, 14))
    counts[:, 13] = 2 * counts[:, 3]
    with mock.patch.object(cliqued, "MANY", 8):
        return _of(pf.solve(pf.Problem(counts), disclosure="90%", solver="global"))


def _published() -> Proved:
    """Pairs in two strata."""
    counts = np.random.default_rng(3).integers(1, 60, (2, 140))
    problem = pf.Problem(counts, public_columns={"a": (np.arange(140) % 2).tolist()})
    return _of(pf.solve(problem, disclosure="95%", published="a"))


#: Names that say the kind, and the parts or the question.
HONEST: dict[str, Callable[[], Proved]] = {
    "plain, trees": _trees,
    "plain, trees of merged symbols": _coarse,
    "plain, pairs": _pairs,
    "plain, chain": _chain,
    "plain, supports": _supports,
    "plain, thinning": _thinning,
    "plain, cliques": _cliques,
    "free, vertices": lambda: _of(pf.solve(_three(), leakage=0, lump=True)),
    "free, boxes": lambda: _boxes(),
    "guarded, known": lambda: _of(pf.solve(toy(6), disclosure="70%", known=["a", "b"], gap=1e-3)),
    "guarded, guarantees": lambda: _of(pf.solve(toy(6), guarantees=["lip=0.1"], gap=1e-3)),
    "guarded, maximal leakage": lambda: _of(
        pf.solve(toy(6), disclosure="80%", measure="maximal-leakage", gap=1e-3)
    ),
    "guarded, nothing leaks": lambda: _of(pf.solve(toy(6), leakage=0, known=["a"], gap=1e-3)),
    "guarded, pairs": _published,
    "guarded, task": lambda: _of(pf.solve(_tasked(), utility="80%", known=["a"], gap=1e-3)),
    "task": lambda: _of(pf.solve(_tasked(), utility="90%")),
    "task, nothing leaks": lambda: _of(pf.solve(_tasked(), leakage=0)),
    "distortion": lambda: _of(distortion.solve(toy(6), distortion=0.2)),
    "distortion, invariant": lambda: _of(distortion.solve(toy(6), distortion=0.2, invariant=True)),
    "bottleneck": lambda: _bottleneck(),
    "guessing": lambda: _guesses(),
    "chi-squared": lambda: _chi_squared(),
}


def _boxes() -> Proved:
    problem = pf.Problem(np.random.default_rng(1).geometric(0.05, (4, 12)))
    with (
        mock.patch.object(polytope, "MOST_SUPPORTS", 3),
        mock.patch.object(private_vertices, "MOST_SUPPORTS", 3),
    ):
        return _of(pf.solve(problem, leakage=0, solver="perfect"))


def _bottleneck() -> Proved:
    problem = toy(1)
    line = bottleneck.prove(problem, 0.5 * problem.disclosure_ceiling).certificate
    assert line is not None
    return problem, line


def _guesses() -> Proved:
    problem = toy(6)
    least, most = pf.guessing_funnel.accuracy_range(problem)
    return problem, pf.guessing_funnel.solve(problem, 0.5 * (least + most)).certificate


def _chi_squared() -> Proved:
    problem = toy(6)
    n = problem.n_x
    prices = -0.02 * np.ones(n)
    return problem, ChiSquaredBody.build(problem, 0.01, prices, np.full((n, n), 1e-3))


@cache
def honest(name: str) -> Proved:
    """A problem, and a proof about it that holds."""
    problem, line = HONEST[name]()
    line.verify(problem)
    return problem, line


def parts_of(line: Certificate) -> set[str]:
    """The kinds of the parts of a proof, of those that have any."""
    return {part.kind for part in getattr(line.body, "proofs", ())}
