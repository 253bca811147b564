"""Chains of yes-or-no questions: never above the curve, confirmed by the checker, and no forgery gets through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel import measures
from privfunnel.algorithms.auto import Auto
from privfunnel.algorithms.chain import SLOPES, Chain, refined
from privfunnel.algorithms.chain.yes_no_splits import first_questions
from privfunnel.algorithms.deadline import Deadline
from privfunnel.certificate import Certificate, ChainProof, PlainBody, Step, load_bundle
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import CertificateError
from privfunnel.model import equal_symbols as lumping
from privfunnel.model.problem import Problem


def random_problem(rng: np.random.Generator, n_s: int, n_x: int) -> Problem:
    table = rng.dirichlet(np.full(n_s, 0.8), size=n_x).T * rng.dirichlet(np.ones(n_x))
    if rng.random() < 0.4:  # some strata lose public symbols
        table[rng.random(table.shape) < 0.3] = 0.0
        table = table[:, table.sum(axis=0) > 0.0][table.sum(axis=1) > 0.0]
    return Problem(table / table.sum())


def made(seed: int = 3, n_s: int = 4, n_x: int = 40, share: float = 0.9) -> tuple[Problem, Certificate]:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(n_s, 0.8), size=n_x).T * rng.dirichlet(np.ones(n_x))
    problem = Problem(table / table.sum())
    line = Chain(problem).line(share * problem.disclosure_ceiling, Deadline())
    assert line is not None
    return problem, line


def chain_of(certificate: Certificate) -> ChainProof:
    (proof,) = certificate.body.proofs
    assert isinstance(proof, ChainProof)
    return proof


def test_no_line_is_above_what_channels_reach() -> None:
    rng = np.random.default_rng(0)
    lines = 0
    for _ in range(14):
        problem = random_problem(rng, int(rng.integers(3, 5)), int(rng.integers(4, 9)))
        line = Chain(problem).line(rng.uniform(0.6, 0.99) * problem.disclosure_ceiling, Deadline())
        if line is None:
            continue
        lines += 1
        for _ in range(60):
            outputs = int(rng.integers(2, problem.n_x + 3))
            channel = rng.dirichlet(np.full(outputs, rng.choice([0.02, 0.1, 0.5])), size=problem.n_x)
            point = problem.evaluate(channel)
            assert line.lower_bound(point.disclosure) <= point.leakage + 1e-12
    assert lines >= 8


def test_no_line_is_above_the_proved_optimum_and_some_come_close() -> None:
    rng = np.random.default_rng(4)
    closest = 1.0
    for n_s in (3, 4):
        problem = random_problem(rng, n_s, 5)
        for share in (0.85, 0.95):
            best = pf.solve(problem, disclosure=share * problem.disclosure_ceiling, solver="global")
            assert best.status is Status.OPTIMAL
            line = Chain(problem).line(best.disclosure, Deadline())
            if line is not None:
                assert line.lower_bound(best.disclosure) <= best.leakage + 1e-9
                closest = min(closest, best.leakage - line.lower_bound(best.disclosure))
    assert closest < 0.1


def test_it_comes_close_where_each_question_is_about_a_column_of_its_own() -> None:
    """S = (S₁, S₂) with S₁ told by X₁ alone and S₂ by X₂ alone, all independent."""
    one = np.array([[0.30, 0.15, 0.05], [0.05, 0.15, 0.30]])
    problem = Problem(np.kron(one, one))
    best = pf.solve(problem, disclosure=0.93 * problem.disclosure_ceiling)
    assert best.status is Status.OPTIMAL
    line = Chain(problem).line(best.disclosure, Deadline())
    assert line is not None
    assert 0.95 * best.leakage <= line.lower_bound(best.disclosure) <= best.leakage


def test_it_bounds_a_table_with_many_classes_where_the_closed_forms_say_nothing() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(400, 0.5))
    problem = Problem(rng.dirichlet([2.0, 1.5, 1.0], size=400).T * p)
    r = 0.96 * problem.disclosure_ceiling
    assert float(problem.lower_bound(r)) == 0.0
    line = Chain(problem).line(r, Deadline())
    assert line is not None
    assert line.lower_bound(r) > 0.01
    line.verify(problem)
    assert line.body.value <= 0.0


def test_lumped_tables_carry_it_to_their_members(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    table = rng.integers(1, 4, size=(3, 30)).astype(float)
    problem = Problem(np.concatenate([table, 2.0 * table, 5.0 * table], axis=1))
    classes = lumping.chosen_lumping(problem, True)
    assert classes is not None
    r = 0.98 * problem.disclosure_ceiling
    line = Chain(classes.lumped).line(classes.inner(r), Deadline())
    assert line is not None
    carried = line.on_members(problem, classes.cells)
    carried.verify(problem)
    assert carried.lower_bound(r) == pytest.approx(line.lower_bound(classes.inner(r)), abs=1e-9)
    carried.save(tmp_path / "c.npz")
    (again,) = load_bundle(tmp_path / "c.npz")
    again.verify(problem)
    assert again.body.value == carried.body.value
    assert again.lower_bound(r) == carried.lower_bound(r)
    assert len(chain_of(again).steps) == len(chain_of(line).steps)


def test_slope_zero_is_bounded_by_gibbs_inequality() -> None:
    """A chain that stops after its first question leaves strata at slope 0."""
    problem, line = made()
    proof = chain_of(line)
    first = proof.steps[0]
    # Only the first question, at its own slope: what comes after is left at slope 0.
    stopped = changed(first, rest=0.0)
    shares = proof.shares
    from privfunnel.certificate import chain_prices, flat_prices, halves_of

    halves, left = halves_of(problem.p_s_given_x, first.sides)
    assert left.all()
    flat = [flat_prices(problem.p_s_given_x, first.sides == side, shares) for side in (0, 1)]
    prices = chain_prices(halves, 0.0, first.prices, (flat[0], flat[1]))
    alone = ChainProof(claim=first.proof.claim - 1e-11, shares=shares, steps=(stopped,))
    certificate = PlainBody.build(problem, prices, first.slope, [alone])
    certificate.verify(problem)
    merged = np.stack([problem.p_sx[first.sides == side].sum(axis=0) for side in (0, 1)])
    # It is the bound of the merged table: I(S';Y) at most I(S;Y).
    r = 0.95 * problem.disclosure_ceiling
    best = pf.solve(Problem(merged), disclosure=r, solver="binary")
    assert certificate.lower_bound(r) <= best.leakage + 1e-12


def forged(line: Certificate, **changes: Any) -> Certificate:
    return changed(line, proofs=(changed(chain_of(line), **changes),))


def test_forgeries_are_refused() -> None:
    problem, line = made()
    line.verify(problem)
    proof = chain_of(line)
    step = proof.steps[0]
    steps = proof.steps

    def with_first(**changes: Any) -> Certificate:
        return forged(line, steps=(changed(step, **changes), *steps[1:]))

    dearer = step.prices + 1e-6
    moved = np.where(np.arange(step.sides.size) == 0, 1 - step.sides, step.sides).astype(np.int32)
    wrong = [
        changed(line, intercept=line.intercept + 1e-9),
        changed(line, value=line.body.value + 1e-9),
        forged(line, claim=proof.claim + 1e-6),
        changed(line, prices=line.body.prices + 1e-6),
        with_first(prices=dearer),
        with_first(slope=step.slope + 1e-6),
        with_first(rest=min(step.rest + 1e-6, 0.99)),
        with_first(rest=1.0),
        with_first(cells=np.zeros_like(step.cells)),
        with_first(cells=step.cells[:-1]),
        with_first(cells=step.cells + 1),
        with_first(sides=moved),
        with_first(sides=np.zeros_like(step.sides)),
        with_first(prices=np.full_like(step.prices, np.nan)),
        with_first(proof=changed(step.proof, claim=step.proof.claim + 1e-6)),
        forged(line, steps=steps[1:]),
        forged(line, steps=()),
        forged(line, steps=(*steps, steps[0])),
        forged(line, shares=np.zeros_like(proof.shares)),
        forged(line, shares=proof.shares[1:]),
        changed(line, slope=line.slope + 1e-6),
        changed(line, slope=2.0),
        changed(line, proofs=(*line.body.proofs, *line.body.proofs)),
    ]
    for certificate in wrong:
        with pytest.raises(CertificateError):
            certificate.verify(problem)


def test_random_changes_of_steps_prove_nothing_false() -> None:
    """Whatever is changed, what the checker accepts is below what channels reach."""
    problem, line = made(seed=8, n_s=3, n_x=12)
    rng = np.random.default_rng(2)
    proof = chain_of(line)
    points = [problem.evaluate(rng.dirichlet(np.full(8, 0.05), size=problem.n_x)) for _ in range(300)] + [
        problem.evaluate(np.eye(problem.n_x))
    ]
    accepted = 0
    for _ in range(60):
        number = int(rng.integers(len(proof.steps)))
        step: Step = proof.steps[number]
        moved = step.prices + rng.normal(scale=10.0 ** rng.uniform(-12, -2), size=step.prices.size)
        claim = step.proof.claim - 10.0 ** rng.uniform(-12, 0)
        other = changed(step, prices=moved, proof=changed(step.proof, claim=claim))
        steps = tuple(other if i == number else s for i, s in enumerate(proof.steps))
        whole = ChainProof(claim=proof.claim - 10.0 ** rng.uniform(-12, 0), shares=proof.shares, steps=steps)
        certificate = PlainBody.build(problem, line.body.prices, line.slope, [whole])
        try:
            certificate.verify(problem)
        except CertificateError:
            continue
        accepted += 1
        assert all(certificate.lower_bound(p.disclosure) <= p.leakage + 1e-12 for p in points)
    assert 0 < accepted < 60


def test_questions_that_public_columns_tell_most_about_come_first() -> None:
    one, two = np.array([[0.45, 0.05], [0.05, 0.45]]), np.array([[0.3, 0.2], [0.2, 0.3]])
    problem = Problem(np.kron(one, two))
    sides = first_questions(problem, np.ones(4, dtype=bool))[0]
    assert sides.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    nine = Problem(np.random.default_rng(0).dirichlet(np.ones(9), size=5).T / 5.0)
    (only,) = first_questions(nine, np.ones(9, dtype=bool))
    assert sorted(only.tolist()) == [0] * 8 + [1]


def test_refining_keeps_the_slopes_and_adds_those_beside_the_ones_in_use() -> None:
    finer = refined(SLOPES, 0.2, [])
    assert set(SLOPES) < set(finer)
    assert {0.165, 0.24} <= {round(slope, 6) for slope in finer}
    assert min(finer) > 0.0


def test_no_time_gives_no_line() -> None:
    rng = np.random.default_rng(1)
    problem = random_problem(rng, 4, 30)
    assert Chain(problem).line(0.95 * problem.disclosure_ceiling, Deadline(0.0)) is None


def test_auto_takes_the_better_bound_where_it_was_cut_short() -> None:
    rng = np.random.default_rng(1)
    problem = Problem(rng.dirichlet([2.0, 1.5, 1.0], size=200).T * rng.dirichlet(np.full(200, 0.5)))
    r = 0.96 * problem.disclosure_ceiling
    channel = np.eye(problem.n_x)
    solver, chain = Auto(time_limit=60.0), Chain(problem)
    cut = solver._bounded(Answer(channel=channel, status=Status.TIME_LIMIT), r, chain)
    assert cut.bound_source == "chain"
    assert cut.certificate is not None
    assert cut.certificate.lower_bound(r) > float(problem.lower_bound(r))
    best = PlainBody.build(
        problem, cut.certificate.body.prices, cut.certificate.slope, cut.certificate.body.proofs
    )
    kept = solver._bounded(
        Answer(
            channel=channel,
            status=Status.TIME_LIMIT,
            certificate=changed(best, intercept=best.intercept + 1.0),
        ),
        r,
        chain,
    )
    assert kept.bound_source == "certificate"
    done = Answer(channel=channel, status=Status.OPTIMAL)
    assert solver._bounded(done, r, chain) is done


def test_the_identity_behind_a_chain_holds() -> None:
    """F of S is (1 − m) F of the question plus the strata's F's, for any prices and posterior."""
    from privfunnel.certificate import chain_prices, halves_of

    rng = np.random.default_rng(6)
    for _ in range(50):
        n_s, n_x = int(rng.integers(3, 6)), int(rng.integers(2, 7))
        table = rng.dirichlet(np.ones(n_s), size=n_x).T
        w = rng.dirichlet(np.ones(n_x))
        sides = np.array([0, 1, *rng.integers(0, 2, n_s - 2)], dtype=np.int32)
        m, mu = sorted(rng.uniform(0.0, 1.0, 2))
        sigma = (mu - m) / (1.0 - m)
        own, strata = rng.normal(size=n_x), rng.normal(size=(2, n_x))
        halves, left = halves_of(table, sides)
        assert left.all()
        a = chain_prices(halves, m, own, (strata[0], strata[1]))
        whole = -measures.entropy(table @ w) + mu * measures.entropy(w) - a @ w
        t = halves @ w
        parts = (1.0 - m) * (-measures.entropy(t) + sigma * measures.entropy(w) - own @ w)
        for i in (0, 1):
            inside = w * halves[i] / t[i]
            below = table[sides == i] / table[sides == i].sum(axis=0)
            f = -measures.entropy(below @ inside) + m * measures.entropy(inside) - strata[i] @ inside
            parts = parts + t[i] * f
        assert float(whole) == pytest.approx(float(parts), abs=1e-12)
