"""Bounds by thinning: never above the curve, above the closed forms, confirmed by the checker, and not to be forged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel import measures
from privfunnel.algorithms.columns.plain import Global
from privfunnel.algorithms.columns.plain.descents import Pricing, descend_best
from privfunnel.algorithms.columns.plain.run import Work
from privfunnel.algorithms.columns.plain.search import Outcome
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.perfect import free_disclosure
from privfunnel.algorithms.posteriors.points import pricing_values, sparse_starts
from privfunnel.algorithms.thinning import ceiling_lines, thinning_line
from privfunnel.certificate import Certificate, PlainBody, ThinProof, load_bundle, thinned
from privfunnel.certificate.answer import Status
from privfunnel.errors import CertificateError
from privfunnel.model import equal_symbols as lumping
from privfunnel.model.problem import Problem


def random_problem(rng: np.random.Generator, n_s: int, n_x: int) -> Problem:
    table = rng.dirichlet(np.full(n_s, 0.8), size=n_x).T * rng.dirichlet(np.ones(n_x))
    if rng.random() < 0.5:
        table[rng.random(table.shape) < 0.3] = 0.0
        table = table[:, table.sum(axis=0) > 0.0][table.sum(axis=1) > 0.0]
    return Problem(table / table.sum())


@pytest.fixture(scope="module")
def wide() -> Problem:
    """Eight private symbols, some hundred classes, a third of the entries 0."""
    rng = np.random.default_rng(2)
    return Problem(rng.poisson(2.0 * rng.dirichlet(np.full(8, 0.7), size=120).T * 5.0) + np.eye(8, 120))


@pytest.fixture(scope="module")
def small(wide: Problem) -> Problem:
    """The first thirty public symbols of it."""
    assert wide.counts is not None
    return Problem(wide.counts[:, :30])


def line_of(problem: Problem) -> Certificate:
    line = thinning_line(problem, problem.h_x_given_s)
    assert line is not None
    return line


def test_no_posterior_is_below_what_is_claimed() -> None:
    rng = np.random.default_rng(0)
    lines, least = 0, np.inf
    for _ in range(16):
        problem = random_problem(rng, int(rng.integers(2, 7)), int(rng.integers(6, 20)))
        line = thinning_line(problem, rng.uniform(0.7, 0.98) * problem.disclosure_ceiling)
        if line is None:
            continue
        lines += 1
        pricing = Pricing(np.ascontiguousarray(problem.p_s_given_x.T), line.body.prices, line.slope)
        found = descend_best(pricing, sparse_starts(rng, 200, problem.n_x, problem.n_s), 60)
        values = pricing_values(problem.p_s_given_x, line.body.prices, line.slope, found)
        assert values.min() >= line.body.value
        least = min(least, float(values.min()))
    assert lines > 10
    assert least < 1e-3  # and F comes close to it


def test_no_line_is_above_a_proved_optimum() -> None:
    problem = pf.instances.load("heart-failure")
    best = pf.solve(problem, disclosure=0.9 * problem.disclosure_ceiling)
    assert best.status is Status.OPTIMAL
    line = thinning_line(problem, best.disclosure)
    assert line is not None
    assert 0.0 < line.lower_bound(best.disclosure) <= best.leakage


def test_it_is_above_the_closed_forms_on_both_sides_of_their_kink(wide: Problem) -> None:
    kink = wide.h_x_given_s
    for disclosure in (kink - 0.05, kink, kink + 0.05):
        line = thinning_line(wide, disclosure)
        assert line is not None
        line.verify(wide)
        assert line.body.value <= 0.0
        assert line.lower_bound(disclosure) > float(wide.lower_bound(disclosure)) + 0.005


def test_where_the_closed_form_is_attained_there_is_none() -> None:
    """Two private symbols that never share a public one: R − H(X|S) is the curve from H(X|S) on."""
    problem = Problem([[0.2, 0.3, 0.0, 0.0], [0.0, 0.0, 0.25, 0.25]])
    assert thinning_line(problem, 0.9 * problem.disclosure_ceiling) is None


def test_what_is_kept_is_the_share_least_informative_about_the_public_symbol() -> None:
    rng = np.random.default_rng(3)
    columns = rng.dirichlet(np.ones(4), size=50).T
    measure = rng.dirichlet(np.ones(4))
    kept, level = thinned(columns, 0.3, measure)
    assert np.all(kept <= columns)
    assert np.all(level >= 1.0 - 1e-12)
    np.testing.assert_allclose(kept.sum(axis=0), 0.3, rtol=1e-12)
    told = measures.kl_divergence(kept / 0.3, measure[:, None], axis=0)
    for _ in range(50):  # any other mixture of q and a part of p that fits tells no less
        other = np.minimum(columns, kept + rng.uniform(0.0, 0.2, size=columns.shape))
        other *= 0.3 / other.sum(axis=0)
        fits = np.all(other <= columns, axis=0)
        others = measures.kl_divergence(other / 0.3, measure[:, None], axis=0)
        assert np.all(others[fits] >= told[fits] - 1e-12)


def test_lumped_tables_carry_it_to_their_members_and_to_files(tmp_path: Path, wide: Problem) -> None:
    assert wide.counts is not None
    problem = Problem(np.concatenate([wide.counts, 2.0 * wide.counts], axis=1))
    classes = lumping.chosen_lumping(problem, True)
    assert classes is not None
    r = problem.h_x_given_s
    line = thinning_line(classes.lumped, classes.inner(r))
    assert line is not None
    carried = line.on_members(problem, classes.cells)
    carried.verify(problem)
    assert carried.lower_bound(r) == pytest.approx(line.lower_bound(classes.inner(r)), abs=1e-9)
    carried.save(tmp_path / "c.npz")
    (again,) = load_bundle(tmp_path / "c.npz")
    assert isinstance(again.body, PlainBody)
    again.verify(problem)
    assert again.body.value == carried.body.value
    assert again.lower_bound(r) == carried.lower_bound(r)


def test_a_line_that_claims_more_or_is_damaged_is_refused(wide: Problem) -> None:
    line = line_of(wide)
    (proof,) = line.body.proofs
    assert isinstance(proof, ThinProof)
    for forged in (
        ThinProof(claim=proof.claim + 1e-6, measure=proof.measure),
        ThinProof(claim=proof.claim, measure=np.full(8, 1.0 / 8.0)),
        ThinProof(claim=proof.claim, measure=proof.measure[:7]),
        ThinProof(claim=proof.claim, measure=np.append(proof.measure[:7], 0.0)),
        ThinProof(claim=proof.claim, measure=np.append(proof.measure[:7], np.nan)),
    ):
        with pytest.raises(CertificateError):
            PlainBody.build(wide, line.body.prices, line.slope, [forged]).verify(wide)
    for slope in (0.9 * line.slope, 1.0, 1.5):
        with pytest.raises(CertificateError):
            PlainBody.build(wide, line.body.prices, slope, [proof]).verify(wide)
    with pytest.raises(CertificateError):
        PlainBody.build(wide, line.body.prices + 1e-6, line.slope, [proof]).verify(wide)
    with pytest.raises(CertificateError):
        changed(line, intercept=line.intercept + 1e-9).verify(wide)


def test_an_early_deadline_gives_a_lower_line(wide: Problem) -> None:
    r = wide.h_x_given_s
    early, late = thinning_line(wide, r, Deadline(0.0)), thinning_line(wide, r)
    assert late is not None
    assert early is not None
    assert early.lower_bound(r) < late.lower_bound(r)


def test_a_search_that_ends_early_has_it(small: Problem) -> None:
    work, r = Work(Global(), small, 0, None, 1), small.h_x_given_s
    outcome = Outcome(duals=work.search.master.solve(r), status=Status.TIME_LIMIT)
    assert work.search.bound(r) == (0.0, None)
    work._thin(r)
    (line,) = work.search.lines
    answer = work._finish(r, outcome, 0, 0.0)
    assert answer.certificate is line
    assert answer.bound_source == "thinning"
    assert 0.01 < line.lower_bound(r) < outcome.duals.value


def test_a_leakage_budget_is_bounded_by_it(small: Problem) -> None:
    budget = 0.05 * small.leakage_ceiling
    closed = small.h_x_given_s + budget
    free = free_disclosure(
        small, seconds=600.0, nodes=200
    ).disclosure  # a proof that it is the most is not needed
    lines = ceiling_lines(small, free, budget)
    reaches = [(budget - line.intercept) / line.slope for line in lines]
    assert free < min(reaches) < closed - 0.01
    assert min(reaches) == pytest.approx(reaches[-1], abs=1e-3)  # one more line would gain nothing


def test_a_table_too_large_for_a_search_has_it(wide: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Global, "_too_large", lambda *_: True)
    asked = wide.h_x_given_s
    solver = Global()
    answer = next(iter(solver.trace(wide, [asked])))
    assert (answer.status, answer.bound_source) == (Status.TIME_LIMIT, "thinning")
    assert isinstance(answer.certificate.body, PlainBody)
    bound = answer.certificate.lower_bound(asked)
    assert float(wide.lower_bound(asked)) < bound <= wide.evaluate(answer.channel).leakage
    budget = bound
    within = solver.solve_leakage(wide, budget)
    assert isinstance(within.certificate.body, PlainBody)
    reach = (budget - within.certificate.intercept) / within.certificate.slope
    assert wide.evaluate(within.channel).disclosure <= reach < wide.h_x_given_s + budget
