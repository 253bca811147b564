"""Other measures of leakage as objective and as budget: values by dense grids, proofs, attacks on proofs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import privfunnel as pf
from forging import changed
from funnels import toy
from helpers_cli import assert_one_line_error, run
from privfunnel import certificate, measures
from privfunnel.audit import words
from privfunnel.audit.promise import recount
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.certificate.answer import Answer
from privfunnel.errors import CertificateError, InvalidInputError, SolverError
from privfunnel.measures import MEASURES, Array
from privfunnel.model.threat import Threat
from privfunnel.release.mechanism import Mechanism
from privfunnel.report.rounding import Rounding
from privfunnel.solving import plain_first as floors
from privfunnel.solving.judging import INEXACT, Line, Run, judge
from privfunnel.solving.request import Request

OTHERS = [name for name in measures.MEASURES if name != "mutual-information"]


@pytest.fixture(scope="module")
def small() -> pf.Problem:
    return pf.Problem([[9, 2, 4], [1, 5, 6], [2, 6, 1]], public_columns={"a": ["0", "0", "1"]})


def grid(steps: int) -> Array:
    """All posteriors of three symbols in steps."""
    points = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    return np.array(points) / steps


def by_grid(problem: pf.Problem, measure: str, disclosure: float, steps: int) -> float:
    """The least leakage of mixtures of the grid's posteriors, each row of the program written from the definition."""
    points = grid(steps)
    t, prior = points @ problem.p_s_given_x.T, problem.p_s
    told = {
        "maximal-leakage": (t / prior).max(axis=1),
        "guessing": t.max(axis=1) - prior.max(),
        "chi-squared": ((t - prior) ** 2 / prior).sum(axis=1),
        "total-variation": 0.5 * np.abs(t - prior).sum(axis=1),
    }[measure]
    solved = linprog(
        told,
        A_eq=points.T,
        b_eq=problem.p_x,
        A_ub=measures.entropy(points)[None, :],
        b_ub=[problem.disclosure_ceiling - disclosure],
        method="highs",
    )
    return float(np.log(solved.fun)) if measure == "maximal-leakage" else float(solved.fun)


@pytest.mark.parametrize("measure", OTHERS)
def test_the_least_leakage_of_a_measure_is_that_of_a_dense_grid(small: pf.Problem, measure: str) -> None:
    disclosure = 0.7 * small.disclosure_ceiling
    solution = pf.solve(small, disclosure=disclosure, measure=measure)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.leakage == pytest.approx(
        small.evaluate(solution.channel, measure=measure).leakage, abs=1e-12
    )
    # A grid holds fewer posteriors than there are, so that it is above the optimum; moving them to it costs little.
    fine = by_grid(small, measure, disclosure, 80)
    assert solution.lower_bound <= fine
    assert fine - 2.0 / 80 <= solution.leakage <= fine + 1e-6


def test_information_bounds_every_measure_and_is_bounded_by_it() -> None:
    rng, closest = np.random.default_rng(2), dict.fromkeys(OTHERS, np.inf)
    for _ in range(1000):
        prior = rng.dirichlet(np.full(rng.integers(1, 6), rng.choice([0.5, 5.0]))) + 1e-9
        prior /= prior.sum()
        joint = prior[:, None] * rng.dirichlet(
            np.full(rng.integers(1, 7), rng.choice([0.05, 3.0])), prior.size
        )
        information = float(measures.mutual_information(joint))
        for measure in OTHERS:
            told = float(measures.leakage(joint, measure))
            room = told - float(MEASURES[measure].leakage_at_least(information, prior))
            assert room >= -1e-14
            assert float(MEASURES[measure].information_at_most(told, prior)) >= information - 1e-14
            closest[measure] = min(closest[measure], room if told > 0.01 else np.inf)
    assert max(closest.values()) < 0.05  # none of them is far from being attained


@pytest.mark.parametrize("measure", OTHERS)
def test_the_plain_funnel_bounds_other_measures_of_tables_too_large_to_search(measure: str) -> None:
    problem = pf.Problem(np.random.default_rng(5).integers(1, 15, (2, 65)).astype(float))
    at = 0.99 * problem.disclosure_ceiling
    asked = Request(disclosure=at, measure=measure).of(problem)
    floor = floors.plain_floor(asked, 1e-6, 60.0, 0)
    assert floor is not None
    assert floor.certificate is not None
    answer = Answer(channel=floor.channel, status=pf.Status.FEASIBLE)
    bare, told = (judge(asked, answer, Run(""), lines=each) for each in ([], [Line(floor.certificate)]))
    expected = float(MEASURES[measure].leakage_at_least(floor.certificate.lower_bound(at), problem.p_s))
    assert bare.lower_bound < told.lower_bound == expected <= told.leakage
    assert told.bound_source == "certificate of I(S;Y)"
    # What may leak says how much information may, and this how much disclosure: at least what the release has.
    most = floor.most_disclosure(told.leakage)
    assert at <= most
    assert most == pytest.approx(at, abs=1e-6) or floor.lower_bound(most) == pytest.approx(
        told.leakage, abs=1e-9
    )


@pytest.mark.parametrize("more", [{"measure": "chi-squared"}, {"known": ["a"]}])
@pytest.mark.parametrize("budget", [1e-12, 1e-6])
def test_a_budget_of_next_to_nothing_discloses_what_is_free_at_least(
    budget: float, more: dict[str, Any]
) -> None:
    problem = pf.Problem([[9, 2, 4, 3], [1, 5, 6, 2]], public_columns={"a": ["0", "0", "1", "1"]})
    free = pf.solve(problem, leakage=0.0, gap=1e-4, **more)
    solution = pf.solve(problem, leakage=budget, node_limit=20, throw=False, **more)
    assert solution.leakage <= budget + 1e-9
    assert solution.disclosure >= free.disclosure - 1e-4
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound >= solution.disclosure


@pytest.mark.parametrize("measure", OTHERS)
@pytest.mark.parametrize("more", [{"known": ["a"]}, {"published": ["b"]}])
def test_no_random_release_beats_the_bound_of_a_measure(measure: str, more: dict[str, Any]) -> None:
    problem = toy(3)
    solution = pf.solve(problem, disclosure="90%", measure=measure, gap=1e-3, **more)
    assert solution.status is pf.Status.OPTIMAL
    proof, threat = solution.certificate, solution.guards
    assert isinstance(proof.body, GuardedBody)
    assert solution.leakage == max(threat.leakages(problem, solution.channel).values())
    rng = np.random.default_rng(1)
    least = np.inf
    for concentration in rng.choice([0.02, 0.2, 1.0], 250):
        channel = rng.dirichlet(np.full(6, concentration), size=7)
        if threat.published is not None:
            channel = np.concatenate(
                [channel * (threat.published.values == v)[:, None] for v in (0, 1)], axis=1
            )
        told = max(threat.leakages(problem, channel).values())
        least = min(least, told - proof.lower_bound(problem.evaluate(channel).disclosure))
    assert least >= -1e-12
    proved = proof.lower_bound(solution.disclosure)
    assert proved <= solution.leakage <= proved + 1e-3


@pytest.mark.parametrize("measure", OTHERS)
def test_a_budget_of_a_measure_is_kept_and_leads_back(measure: str) -> None:
    problem = toy(3)
    solution = pf.solve(problem, leakage="40%", measure=measure, gap=1e-3)
    whole = problem.evaluate(np.eye(7), measure=measure).leakage
    assert solution.status is pf.Status.OPTIMAL
    assert solution.leakage <= 0.4 * whole + 1e-9
    assert solution.disclosure_upper_bound is not None
    assert solution.gap <= 1e-3
    back = pf.solve(problem, disclosure=solution.disclosure, measure=measure, gap=1e-3)
    assert back.leakage <= solution.leakage + 1e-3
    assert back.lower_bound <= solution.leakage + 1e-9


def test_no_leakage_is_independence_by_every_measure_but_guessing() -> None:
    problem = toy(3)
    free = pf.free_disclosure(problem)
    for measure in OTHERS:
        solution = pf.solve(problem, leakage=0, measure=measure, gap=1e-3)
        assert solution.status is pf.Status.OPTIMAL
        if measure == "guessing":
            assert solution.disclosure > free + 0.1
            assert problem.evaluate(solution.channel).leakage > 0.01
        else:
            assert solution.disclosure == pytest.approx(free, abs=2e-3)
        assert solution.leakage < 1e-9


def test_measures_go_with_guarantees() -> None:
    problem = toy(5)
    most = pf.solve(problem, guarantees=["lip=0.3"], gap=1e-3).disclosure
    solution = pf.solve(problem, disclosure=0.97 * most, guarantees=["lip=0.3"], measure="guessing", gap=1e-2)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.guaranteed["lip=0.3"] <= 0.3 + 1e-7


@pytest.mark.parametrize("measure", list(measures.MEASURES))
def test_any_multipliers_of_a_measure_are_safe(measure: str) -> None:
    """Whatever stands in a file, z·t ≤ φ(t) for all t ≥ 0; and the cut at t touches φ there."""
    convex, rng = MEASURES[measure], np.random.default_rng(2)
    start = np.zeros(1, dtype=np.intp)
    for scale in (1e-3, 1.0, 30.0):
        prior = rng.dirichlet(np.ones(4))
        z = convex.safe(scale * rng.standard_normal((300, 4)), prior)
        t = rng.dirichlet(np.full(4, 0.3), size=300) * rng.uniform(0.0, 2.0, size=(300, 1))
        values = convex.value(t, start, prior)[:, 0]
        assert np.all((z * t).sum(axis=1) <= values)
        for row, height in zip(t[:50], values, strict=False):
            cut = convex.safe(convex.cut(row, prior)[None, :], prior)[0]
            assert cut @ row == pytest.approx(height, abs=1e-9)


@pytest.mark.parametrize("measure", OTHERS)
def test_a_proof_of_one_measure_proves_nothing_of_another(measure: str, tmp_path: Path) -> None:
    problem = toy(3)
    proof = pf.solve(problem, disclosure="90%", measure=measure, gap=1e-3).certificate
    assert isinstance(proof.body, GuardedBody)
    proof.save(tmp_path / "proof.npz")
    (read,) = certificate.load_bundle(tmp_path / "proof.npz")
    assert isinstance(read.body, GuardedBody)
    read.verify(problem)
    assert read.words == proof.words
    assert read.claim.scope.guards.measure is MEASURES[measure]
    tree = proof.body.proofs[0]
    with pytest.raises(CertificateError, match="claims the line"):
        changed(proof, intercept=proof.intercept + 1e-9).verify(problem)
    with pytest.raises(CertificateError):
        changed(proof, proofs=(changed(tree, claim=tree.claim + 0.01),)).verify(problem)
    for other in measures.MEASURES:
        if other != measure:
            renamed = changed(proof.claim.scope.guards, measure=MEASURES[other])
            try:
                forged = changed(proof, guards=renamed)
                forged.verify(problem)
            except CertificateError:
                continue
            # What passes is then true: no channel of this problem contradicts it.
            rng = np.random.default_rng(0)
            for _ in range(200):
                channel = rng.dirichlet(np.full(6, 0.2), size=7)
                point = problem.evaluate(channel, measure=other)
                assert point.leakage >= forged.lower_bound(point.disclosure) - 1e-12


def test_no_gain_in_guessing_is_not_taken_for_independence() -> None:
    problem = toy(3)
    proof = pf.solve(problem, leakage=0, measure="total-variation", gap=1e-3).certificate
    assert isinstance(proof.body, GuardedBody)
    assert proof.claim.scope.zero
    with pytest.raises(CertificateError, match="guessing"):
        changed(proof, guards=changed(proof.claim.scope.guards, measure=MEASURES["guessing"])).verify(problem)
    with pytest.raises(InvalidInputError, match="no measure"):
        Threat.from_dict(proof.claim.scope.guards.to_dict() | {"measure": "entropy"})


def test_a_bound_above_a_real_channel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = toy(6)
    monkeypatch.setattr(Certificate, "verify", lambda self, problem: None)
    build = GuardedBody.build.__func__  # type: ignore[attr-defined]

    def boastful(cls: Any, *given: Any, **more: Any) -> Certificate:
        made = build(cls, *given, **more)
        return changed(made, intercept=made.intercept + 0.01)

    monkeypatch.setattr(GuardedBody, "build", classmethod(boastful))
    with pytest.raises(SolverError, match="a real channel misses what is proved"):
        pf.solve(problem, disclosure="80%", known=["a"], gap=1e-3)
    with pytest.raises(SolverError, match="a real channel misses what is proved"):
        pf.solve(problem, leakage=0, known=["a"], gap=1e-3)
    said = pf.solve(problem, leakage=0, known=["a"], gap=1e-3, throw=False)
    assert said.status is pf.Status.FAILED
    assert said.lower_bound == 0.0
    assert INEXACT <= 1e-6


@pytest.mark.parametrize(
    ("leakage", "words"),
    [("0.1 bits", "has none"), ("x", "cannot be read"), (-1.0, "has no unit"), (None, "give")],
)
def test_budgets_that_a_measure_does_not_have_are_refused(leakage: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.solve(toy(), leakage=leakage, measure="guessing")


@pytest.mark.parametrize("measure", OTHERS)
def test_no_random_release_is_below_the_curve_of_a_measure(
    small: pf.Problem, measure: str, tmp_path: Path
) -> None:
    curve = pf.trace(small, measure=measure, points=4, gap=1e-3)
    assert all(status is pf.Status.OPTIMAL for status in curve.status)
    assert curve.leakage[-1] == curve.leakage_ceiling == small.evaluate(np.eye(3), measure=measure).leakage
    rng = np.random.default_rng(1)
    for sharpness in (0.05, 0.3, 1.0):
        for _ in range(40):
            point = small.evaluate(rng.dirichlet(np.full(4, sharpness), size=3), measure=measure)
            assert point.leakage >= float(curve.proved(point.disclosure)) - 1e-12
    # Between the points a release is mixed of two, and leaks what is drawn.
    middle = curve.at(0.9 * small.disclosure_ceiling)
    assert middle.leakage == pytest.approx(float(curve.achieved(middle.disclosure)), abs=1e-9)
    assert curve.within(0.5 * curve.leakage_ceiling).leakage <= 0.5 * curve.leakage_ceiling + 1e-9
    curve.save(tmp_path / "curve.json")
    read = pf.Curve.load(tmp_path / "curve.json")
    assert read.leakage.tolist() == curve.leakage.tolist()


def test_the_slope_of_a_curve_of_maximal_leakage_is_in_nats(small: pf.Problem) -> None:
    curve = pf.trace(small, measure="maximal-leakage", disclosures=["80%", "80.5%", "81%"], gap=1e-5)
    rise = float(np.diff(curve.leakage).sum() / np.diff(curve.disclosure).sum())
    assert curve.slope[1] == pytest.approx(rise, rel=0.05)


def test_the_command_line_traces_the_curve_of_a_measure(small: pf.Problem, tmp_path: Path) -> None:
    small.save(tmp_path / "toy.json")
    asked = (
        "curve",
        tmp_path / "toy.json",
        "--measure",
        "total-variation",
        "--points",
        "3",
        "--units",
        "bits",
    )
    told = run(*asked, "--option", "gap=1e-2", "--out", tmp_path / "curve", "--describe", "90%")
    assert told.exit_code == 0, told.output
    assert "measured by total-variation" in told.output
    assert "by total-variation" in (tmp_path / "curve" / "curve.svg").read_text(encoding="utf-8")
    whole = small.evaluate(np.eye(3), measure="total-variation").leakage
    assert f"{whole:.6f}" in told.output  # a probability has no bits
    assert f"{whole}" in (tmp_path / "curve" / "curve.csv").read_text(encoding="utf-8")
    report = (tmp_path / "curve" / "report.html").read_text(encoding="utf-8")
    assert "Measured by total variation" in report
    assert "leakage, of what X itself leaks" in report
    assert 'data-unit="" data-xunit="bits"' in report  # a probability has no bits, in a drawing either
    assert "It was designed against an attacker who knows nothing, measured by total-variation." in report


def test_the_command_line_measures_otherwise(tmp_path: Path) -> None:
    told = run("solve", "heart-failure", "--disclosure", "97%", "--measure", "maximal-leakage", "--units", "bits",
               "--option", "gap=1e-2", "--out", tmp_path / "design")  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "by maximal-leakage" in told.output
    solution = pf.Solution.load(tmp_path / "design" / "solution.json")
    assert f"{solution.leakage / np.log(2):.9f}" in told.output
    usual = solution.problem.evaluate(solution.channel).leakage
    assert f"mutual information I(S;Y)   {usual / np.log(2):.9f}" in told.output
    checked = run("verify", tmp_path / "design" / "certificate.npz", "heart-failure")
    assert checked.exit_code == 0, checked.output
    assert "exp(leakage" in checked.output
    told = run("solve", "heart-failure", "--leakage", "80%", "--measure", "guessing", "--units", "bits", "--json",
               "--option", "gap=1e-2")  # fmt: skip
    problem = pf.instances.load("heart-failure")
    whole = problem.evaluate(np.eye(problem.n_x), measure="guessing").leakage
    assert json.loads(told.output)["budget"] == pytest.approx(0.8 * whole)
    assert_one_line_error(
        run("solve", "heart-failure", "--leakage", "1 bits", "--measure", "guessing"), "has none"
    )


def test_audit_and_report_know_the_measure_that_a_release_was_designed_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    s = (a == b) ^ (rng.random(3000) < 0.3)
    table = tmp_path / "rows.csv"
    table.write_text(
        "a,b,s,r\n" + "".join(f"{i},{j},{int(k)},{i % 2}\n" for i, j, k in zip(a, b, s, strict=True))
    )
    counts = pf.tables.count(str(table), private=["s"], public=["a", "b"])
    asked = {"measure": "total-variation", "known": ["a"], "gap": 1e-3}
    solution = pf.solve(counts.problem(), disclosure="90%", **asked)
    mechanism = Mechanism.from_solution(counts, solution)
    shares = [counts.table() / counts.n] * 3
    found = recount(mechanism, counts, shares)
    assert found.holds
    assert found.measured == pytest.approx(solution.leakages)
    assert f"{solution.leakages['a']:.4f} by total-variation to who knows a" in words._recount(found, None)
    # A file that claims what its channel does not have is found out.
    better = mechanism.provenance | {"measured": {"nothing": 0.0, "a": 0.0}}
    assert not recount(changed(mechanism, provenance=better), counts, shares).holds
    most = Rounding(3000).share(solution.leakage, "up")
    for told in (pf.report.render(mechanism), pf.report.render(pf.trace(counts.problem(), points=3, **asked),
                                                               pf.report.Report(chosen=solution))):  # fmt: skip
        assert "It was designed against attackers who know nothing; a, measured by total-variation." in told
        assert f"is at most {most:.3g} for who learns most" in told
        assert "under the same conditions has less than" in told
    mechanism.save(tmp_path / "mechanism.json")
    said = run(
        "release", table, "--mechanism", tmp_path / "mechanism.json", "--out", tmp_path / "out.csv"
    ).output
    assert f"{solution.leakages['a']:.4f} by total-variation to who knows a" in said.replace("\n", " ")
    # Budgets of single private columns are counted again, too.
    counts = pf.tables.count(str(table), private=["r", "s"], public=["a"])
    solution = pf.solve(counts.problem(), leakage={"s": 0.01}, gap=1e-3)
    found = recount(Mechanism.from_solution(counts, solution), counts, [counts.table() / counts.n] * 3)
    assert found.holds
    assert found.measured == pytest.approx({"s": 0.01}, abs=1e-3)
    assert "about s" in words._recount(found, None)
