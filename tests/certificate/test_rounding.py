"""Allowances for rounding, against sums of fifty digits: no bound is above what is true of the very numbers it is of.

Each instance is one where the bound is met with equality, so that an allowance that is left out, or has the other sign,
is above it in some. ``tests/house/mutants.py`` shows that these tests notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from funnels import toy
from helpers_kernels import plain
from privfunnel.certificate import (
    BottleneckBody,
    ChainProof,
    ChiSquaredBody,
    Claim,
    DistortionBody,
    FreeBody,
    FreeProof,
    GuardedBody,
    GuessingBody,
    PairsProof,
    PlainBody,
    Scope,
    Step,
    TaskBody,
    ThinProof,
    check_chain,
    check_pairs,
    check_thinning,
    least_of_private_pairs,
)
from privfunnel.certificate.attacker_images import stack
from privfunnel.certificate.curvature import Case, Curved, curves_of
from privfunnel.certificate.image_boxes import Box, Bracket, weigh
from privfunnel.certificate.kinds.bottleneck import BoxTree
from privfunnel.errors import CertificateError
from privfunnel.model.threat import Threat

Array = np.ndarray[Any, Any]
NONE = np.zeros(0, dtype=np.int32)


@pytest.fixture(autouse=True)
def _fifty_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 50
        yield


def exact(values: Any) -> list[Decimal]:
    """The very values of some floating-point numbers."""
    return [Decimal(float(value)) for value in np.asarray(values).reshape(-1)]


def dot(a: Any, b: Any) -> Decimal:
    return sum((x * y for x, y in zip(exact(a), exact(b), strict=True)), Decimal(0))


def entropy(p: list[Decimal]) -> Decimal:
    return -sum((x * x.ln() for x in p if x > 0), Decimal(0))


def shares(p: list[Decimal]) -> list[Decimal]:
    return [x / sum(p) for x in p]


def most(accepts: Callable[[float], None], near: float) -> Decimal:
    """The highest claim that a checker accepts, to the last digit, near a number."""
    low, high = near - 1e-6, near + 1e-6
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return Decimal(low)
        try:
            accepts(middle)
            low = middle
        except CertificateError:
            high = middle


def tables(n_s: int, n_x: int, count: int = 40) -> Iterator[tuple[np.random.Generator, pf.Problem]]:
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield rng, pf.Problem(rng.integers(1, 40, (n_s, n_x)))


def test_the_line_of_prices() -> None:
    for rng, problem in tables(3, 9):
        prices, slope, value = rng.normal(size=9), float(rng.random()), -float(rng.random())
        body = PlainBody(prices=prices, value=value, proofs=())
        claim = PlainBody.build(problem, prices, slope, [ThinProof(claim=value, measure=np.ones(3))]).claim
        true = entropy(exact(problem.p_s)) + dot(prices, problem.p_x) + Decimal(value)
        true -= Decimal(slope) * Decimal(problem.disclosure_ceiling)
        assert Decimal(body.line(problem, claim)) <= true


def test_the_line_of_what_is_free() -> None:
    claim = Claim(constant=0.0, disclosure=1.0, weights=np.zeros(1), scope=Scope(zero=True))
    for rng, problem in tables(3, 9):
        prices, value = rng.normal(size=9), -float(rng.random())
        part = FreeProof(claim=value, combinations=np.zeros((3, 0)))
        line = FreeBody(prices=prices, proofs=(part,)).line(problem, claim)
        most = entropy(exact(problem.p_x)) - dot(prices, problem.p_x) - Decimal(value)
        assert Decimal(line) <= -most


def test_the_line_of_cuts() -> None:
    """Also where large cuts and costs cancel, so that entries are off by far more than their sum tells."""
    for rng, problem in tables(3, 5):
        slope, large = float(0.5 + rng.random()), rng.choice([0.0, 3e4])
        raw = max(large, 1.0) * rng.normal(size=(5, 3))
        raw -= raw.max(axis=1, keepdims=True)
        costs = (rng.random((5, 5)) - (raw @ problem.p_s_given_x).T * (large > 0.0)) / slope
        line = DistortionBody.build(problem, costs, slope, raw)
        q = []
        for row in line.body.cuts:
            total = sum((x.exp() for x in exact(row)), Decimal(0)).ln()
            q.append([x - total for x in exact(row)])
        true = entropy(exact(problem.p_s))
        for x, p_x in enumerate(exact(problem.p_x)):
            column = exact(problem.p_s_given_x[:, x])
            paid = [Decimal(slope) * d for d in exact(costs[x])]
            cut = [sum((a * b for a, b in zip(column, row, strict=True)), Decimal(0)) for row in q]
            true += p_x * min(a + b for a, b in zip(cut, paid, strict=True))
        assert Decimal(line.body.line(problem, line.claim)) <= true


def test_the_line_of_guesses() -> None:
    for rng, problem in tables(3, 5):
        slope, v = float(rng.random()), rng.random((3, 5))
        line = GuessingBody.build(problem, slope, v)
        p = [exact(problem.p_s_given_x[:, x]) for x in range(5)]
        weights = [[Decimal(slope) * s for s in shares(exact(v[:, y]))] for y in range(5)]
        true = Decimal(0)
        for x, p_x in enumerate(exact(problem.p_x)):
            scores = [
                int(x == y) - sum(a * b for a, b in zip(p[x], weights[y], strict=True)) for y in range(5)
            ]
            true += p_x * max(scores)
        assert Decimal(line.body.line(problem, line.claim)) <= -true


def test_the_line_of_squares() -> None:
    """S is X itself: χ²(S;Y) = χ²(X;Y) for every channel, so that the line is 0 at best."""
    for seed in range(20):
        p_x = np.random.default_rng(seed).dirichlet(np.full(6, 0.3)) + 1e-4
        problem = pf.Problem(np.diag(p_x / p_x.sum()))
        body = ChiSquaredBody(prices=np.zeros(6), entries=np.zeros((6, 6)))
        claim = ChiSquaredBody.build(problem, 1.0, body.prices, body.entries).claim
        assert body.line(problem, claim) <= 0.0


def test_the_line_of_the_bottleneck() -> None:
    """It bounds from above: what is told is H(S) + a·p − μ H(X) + value at most."""
    tree = BoxTree(
        variable=np.full(1, -1, dtype=np.int32), split=np.zeros(1), first=np.zeros(1, dtype=np.int32)
    )
    for rng, problem in tables(3, 9):
        prices, slope, value = rng.normal(size=9), float(0.1 + rng.random()), float(rng.random())
        body = BottleneckBody(prices=prices, value=value, tree=tree)
        claim = Claim(constant=0.0, disclosure=-slope, weights=-np.ones(1))
        true = entropy(exact(problem.p_s)) + dot(prices, problem.p_x) + Decimal(value)
        true -= Decimal(slope) * entropy(exact(problem.p_x))
        assert -Decimal(body.line(problem, claim)) >= true


def test_the_line_against_attackers() -> None:
    """Σ θ_a H(S|A_a) + a·p − μ H(X) + value, of an attacker who knows nothing and of one who knows a column."""
    for rng, problem in tables(3, 9):
        known = pf.Problem(problem.counts, public_columns={"a": list("xyzxyzxyz")})
        guards = Threat.of(known, known=["a"])
        prices, slope, value = rng.normal(size=9), float(rng.random()), -float(rng.random())
        weights = rng.random(2)
        body = GuardedBody(prices=prices, proofs=(ThinProof(claim=value, measure=np.ones(3)),))
        claim = Claim(constant=0.0, disclosure=slope, weights=weights, scope=Scope(guards=guards))
        true = dot(prices, known.p_x) + Decimal(value) - Decimal(slope) * entropy(exact(known.p_x))
        for weight, attacker in zip(exact(weights), guards.attackers, strict=True):
            for each in np.unique(attacker.values):
                told = [sum(exact(row), Decimal(0)) for row in known.p_sx[:, attacker.values == each]]
                true += weight * (entropy(told) + sum(told) * sum(told).ln())
        assert Decimal(body.line(known, claim)) <= true


def test_the_line_of_a_task() -> None:
    """H(S) + Σ_x p(x) min f − μ H(U), with f of the very coefficients that the boxes have."""
    for rng, problem in tables(3, 6, 12):
        kept = np.stack([share := rng.random(6), 1.0 - share]) * problem.p_x
        useful = pf.Problem(problem.counts, p_ux={"u": kept})
        proof = pf.solve(useful, utility=0.95 * useful.utility_ceiling).certificate
        assert proof is not None
        body, tasks = proof.body_of(TaskBody), useful.required_tasks()
        made = body.functions(useful, proof.claim)
        true = entropy(exact(useful.p_s)) - Decimal(proof.claim.utility) * entropy(
            exact(kept.sum(axis=1) / kept.sum())
        )
        for x, p_x in enumerate(exact(useful.p_x)):
            columns = [*useful.p_s_given_x[:, x], *tasks.rows[:, x]]
            values = [dot(columns, [*made.of_told[:, b], *made.of_kept[:, b]]) + Decimal(float(made.constant[b]))
                      for b in range(made.constant.size)]  # fmt: skip
            true += p_x * min(values)
        assert Decimal(body.line(useful, proof.claim)) <= true + Decimal("1e-18")


def test_thinning_at_a_symbol_that_loses_nothing() -> None:
    """With π = p(·|x) nothing of x is thinned, and F at x itself is the bound."""
    for rng, problem in tables(4, 1):
        columns, prices, slope = problem.p_s_given_x, rng.normal(size=1), float(0.05 + 0.9 * rng.random())
        true = -entropy(shares(exact(columns))) - Decimal(float(prices[0]))
        measure = np.array(columns[:, 0])

        def accepts(claim: float, columns: Array = columns, prices: Array = prices,
                    slope: float = slope, measure: Array = measure) -> None:  # fmt: skip
            check_thinning(columns, prices, slope, ThinProof(claim=claim, measure=measure), 0.0)

        assert most(accepts, float(true)) <= true


def pair(seed: int) -> tuple[Array, float, Array]:
    """Two symbols of two private ones, a slope and prices."""
    rng = np.random.default_rng(seed)
    rates = np.sort(rng.random(2))
    return np.stack([1.0 - rates, rates]), float(0.3 + 0.6 * rng.random()), rng.normal(size=2)


def test_a_chain_of_one_question() -> None:
    """With two private symbols the one question is all of F, which is least at a symbol."""
    for seed in range(40):
        columns, slope, prices = pair(seed)
        at = [-entropy(shares(exact(columns[:, x]))) - Decimal(float(prices[x])) for x in range(2)]
        true = min(at)

        def by_pairs(
            claim: float, columns: Array = columns, prices: Array = prices, slope: float = slope
        ) -> None:
            check_pairs(columns, prices, slope, PairsProof(claim=claim, outer=NONE, inner=NONE), 0.0)

        assert most(by_pairs, float(true)) <= true
        for spare in (1e-11, 1e-12, 0.0, -1e-13, -3e-13, -6e-13):

            def accepts(claim: float, columns: Array = columns, prices: Array = prices,
                        slope: float = slope, spare: float = spare) -> None:  # fmt: skip
                inner = PairsProof(claim=claim + spare, outer=NONE, inner=NONE)
                step = Step(sides=np.array([0, 1], dtype=np.int32), slope=slope, rest=0.0, prices=prices,
                            cells=np.arange(2, dtype=np.int32), proof=inner)  # fmt: skip
                chain = ChainProof(claim=claim, shares=np.array([0.5, 0.5]), steps=(step,))
                check_chain(columns, prices, slope, chain, 0.0)

            assert most(accepts, float(true)) <= true


def test_pairs_that_tell_nothing() -> None:
    for rng, problem in tables(2, 5):
        prices, slope = rng.normal(size=5), float(rng.random())
        counts = np.asarray(problem.counts).astype(int)
        n_s, n_x = counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
        distance = [Decimal(int(counts[1, x] * n_s[0] - counts[0, x] * n_s[1])) / n_x[x] for x in range(5)]
        true = Decimal(10)
        for x, u in enumerate(distance):
            if u == 0:
                true = min(true, -Decimal(float(prices[x])))
            for y, v in enumerate(distance):
                if u < 0 < v:
                    w = [v / (v - u), -u / (v - u)]
                    paid = w[0] * Decimal(float(prices[x])) + w[1] * Decimal(float(prices[y]))
                    true = min(true, Decimal(slope) * entropy(w) - paid)
        assert Decimal(least_of_private_pairs(problem, prices, slope)) <= true


def test_weights_of_symbols_at_the_very_image() -> None:
    """At a posterior that is stationary on its face, equation (1) gives each weight exactly."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        columns, w = 0.9 * np.eye(3) + 0.1 * rng.dirichlet(np.ones(3), size=3), rng.dirichlet(np.full(3, 5.0))
        slope, value = float(0.2 + 0.3 * rng.random()), float(rng.normal())
        t = w @ columns
        prices = columns @ np.log(t) - slope * np.log(w) - value
        near, mates = np.zeros((3, 0), dtype=np.intp), np.ones((3, 3), dtype=bool)
        bracket = Bracket(columns, np.log(columns), prices, slope, mates, near)
        ends, nothing, name = np.log(t), np.zeros(3), np.zeros(3, dtype=np.intp)
        box = Box(
            ends, ends, t, t, np.array([value, value]), name, nothing, nothing, np.zeros(1, dtype=np.intp)
        )
        for x in range(3):
            least, highest = plain(weigh)(bracket, x, box)
            assert least < w[x] < highest
            assert highest - least < 1e-8


def test_a_box_of_one_posterior_with_curvature() -> None:
    """Its bound touches F there, attackers' part and all."""
    problem = toy(6)
    threat = Threat.of(problem, known=["a"])
    images = stack(threat.strata(problem)[0], threat, [0.4, 0.6], zero=False)
    n = problem.n_x
    for seed in range(40):
        rng = np.random.default_rng(seed)
        size = rng.choice([1.0, 1e4])  # of prices: large ones are off by more than multipliers are
        w, prices, slope = rng.dirichlet(np.ones(n))[None], size * rng.normal(size=n), float(rng.random())
        q, shift = images.normalised(images.touching(w))
        zero = np.zeros((1, n))
        rows = Curved(np.zeros(1, dtype=np.int32), np.zeros(1), zero, w, w, w)
        case = Case(w, w, q, shift, prices, slope, 0.0)
        bound = -curves_of(images, case, rows).excess
        true = -sum((Decimal(slope) * x * x.ln() for x in exact(w)), Decimal(0)) - dot(prices, w)
        for weight, attacker in zip((0.4, 0.6), threat.attackers, strict=True):
            for group in attacker.groups():
                t = [dot(problem.p_s_given_x[s, group], w[0, group]) for s in range(problem.n_s)]
                told = sum((x * (x / sum(t)).ln() for x in t), Decimal(0))
                true += Decimal(weight) * told
        assert Decimal(float(bound[0])) <= true
        assert float(bound[0]) >= float(true) - 1e-9 * size
