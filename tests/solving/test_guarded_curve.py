"""Whole curves of guarded funnels: convex, proved between the points, ended by guarantees, kept in files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from helpers_cli import assert_one_line_error, run
from privfunnel import measures
from privfunnel.app.cli.curve import better
from privfunnel.certificate import GuardedBody, load_bundle
from privfunnel.data import instances
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.watching import Progress
from privfunnel.model.question import Values
from privfunnel.solving import point, tracing
from privfunnel.solving.judging import applies, least_leakage
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution


def small(seed: int = 3) -> pf.Problem:
    """2 private × 6 public symbols of the columns a (2 values) and b (3 values)."""
    rng = np.random.default_rng(seed)
    table = rng.integers(2, 30, size=(2, 6)).astype(float)
    return pf.Problem(table, public_columns={"a": [0, 0, 0, 1, 1, 1], "b": [0, 1, 2, 0, 1, 2]})


@pytest.fixture(scope="module")
def known() -> pf.Curve:
    return pf.trace(small(), known=["a", "b"], points=4, gap=1e-3)


@pytest.fixture(scope="module")
def guaranteed() -> pf.Curve:
    return pf.trace(small(), guarantees=["lip=0.2"], points=4, gap=1e-3)


def test_a_curve_of_the_largest_leakage_is_convex_and_proved(known: pf.Curve) -> None:
    problem = known.problem
    assert all(status is pf.Status.OPTIMAL for status in known.status)
    assert float(known.gap.max()) <= 1e-3
    slopes = np.diff(known.leakage) / np.diff(known.disclosure)
    assert (np.diff(slopes) >= -1e-9).all()
    for solution in known.solutions:
        assert set(solution.leakages) == {"nothing", "a", "b"}
        assert solution.leakage == max(solution.leakages.values())
    assert known.disclosure[0] == pytest.approx(0.0, abs=1e-9)
    assert known.disclosure[-1] == pytest.approx(problem.disclosure_ceiling)
    assert known.leakage[-1] == pytest.approx(problem.leakage_ceiling)


def test_no_release_is_below_what_a_guarded_curve_proves(known: pf.Curve) -> None:
    problem, rng = known.problem, np.random.default_rng(0)
    for sharpness in (0.1, 0.3, 1.0):
        for _ in range(40):
            channel = rng.dirichlet(np.full(7, sharpness), size=problem.n_x)
            point = problem.evaluate(channel, known=["a", "b"])
            assert point.leakage >= float(known.proved(point.disclosure)) - 1e-12


def test_a_guarded_curve_is_never_below_the_plain_one(known: pf.Curve) -> None:
    plain = pf.trace(known.problem, disclosures=known.disclosure.tolist())
    assert (known.leakage >= plain.lower_bound - 1e-9).all()
    assert float((known.leakage - plain.leakage).max()) > 1e-3


def test_between_the_points_releases_are_time_shared(known: pf.Curve) -> None:
    middle = float(known.disclosure[1:3].mean())
    found = known.at(middle)
    assert found.disclosure == pytest.approx(middle, abs=1e-9)
    # The largest of several linear functions is convex: a mixture may leak less than the chord, never more.
    assert found.leakage <= float(np.interp(middle, known.disclosure, known.leakage)) + 1e-9
    assert found.lower_bound <= found.leakage
    spent = known.within(0.5 * float(known.leakage[-1]))
    assert spent.leakage <= 0.5 * float(known.leakage[-1]) + 1e-9
    assert spent.disclosure >= float(known.disclosure[2])


def test_a_curve_with_published_columns_begins_at_what_they_disclose() -> None:
    problem = small()
    curve = pf.trace(problem, published=["a"], points=3, gap=1e-3)
    first, last = curve.solutions[0], curve.solutions[-1]
    assert first.disclosure == pytest.approx(measures.entropy([problem.p_x[:3].sum(), problem.p_x[3:].sum()]))
    assert first.leakage == pytest.approx(0.0, abs=1e-12)
    assert last.leakage == pytest.approx(problem.leakage_ceiling - first.published_leakage)
    assert curve.within(0.0).disclosure >= first.disclosure
    assert float(curve.proved(problem.disclosure_ceiling)) == pytest.approx(last.leakage)


def test_guarantees_end_the_curve_at_the_most_that_they_allow(guaranteed: pf.Curve) -> None:
    alone = pf.solve(guaranteed.problem, guarantees=["lip=0.2"], gap=1e-3)
    assert guaranteed.limit is not None
    assert guaranteed.limit.disclosure == pytest.approx(alone.disclosure, abs=1e-3)
    assert guaranteed.most == guaranteed.limit.disclosure < guaranteed.problem.disclosure_ceiling - 1e-3
    assert guaranteed.disclosure[-1] == pytest.approx(guaranteed.most, abs=1e-7)
    for solution in guaranteed.solutions:
        assert solution.guaranteed["lip=0.2"] <= 0.2 + 1e-9
    with pytest.raises(InfeasibleError, match="guarantees allow"):
        guaranteed.at(guaranteed.problem.disclosure_ceiling)
    mixed = guaranteed.at(0.5 * guaranteed.most)
    assert mixed.guaranteed["lip=0.2"] <= 0.2 + 1e-9


def test_disclosures_beyond_the_guarantees_are_refused_or_a_status() -> None:
    problem = small()
    with pytest.raises(InfeasibleError, match="guarantees allow"):
        pf.trace(problem, guarantees=["lip=0.2"], disclosures=["30%", "99%"], gap=1e-2)
    curve = pf.trace(problem, guarantees=["lip=0.2"], disclosures=["30%", "99%"], gap=1e-2, throw=False)
    assert [s.value for s in curve.status] == ["optimal", "infeasible"]
    assert "guarantees allow" in curve.solutions[1].message


def test_a_guarded_curve_is_kept_in_files(known: pf.Curve, guaranteed: pf.Curve, tmp_path: Path) -> None:
    for curve in (known, guaranteed):
        curve.save(tmp_path / "curve.json")
        again = pf.Curve.load(tmp_path / "curve.json")
        assert again.leakage == pytest.approx(curve.leakage, abs=1e-12)
        assert again.guards.words == curve.guards.words
        assert again.most == pytest.approx(curve.most, abs=1e-12)
        assert [row["worst_attacker"] for row in again.rows()] == [
            row["worst_attacker"] for row in curve.rows()
        ]


def test_refinement_adds_points_where_a_guarded_curve_bends() -> None:
    curve = pf.trace(small(), known=["a"], points=2, refine=2, gap=1e-2)
    assert len(curve.solutions) == 4
    assert (np.diff(curve.disclosure) > 0.1).all()


def test_an_interrupt_keeps_the_points_of_a_guarded_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Solution] = []

    def interrupted(*arguments: object, **options: object) -> Solution:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(point.answered(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(tracing, "answered", interrupted)
    curve = pf.trace(small(), known=["a"], points=5, gap=1e-2)
    assert not curve.complete
    assert len(curve.solutions) == 2


def test_an_interrupt_inside_compiled_code_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from privfunnel.algorithms.columns.general import compiled_branching as exploring
    from privfunnel.algorithms.columns.general import search

    def veiled(*given: object, **options: object) -> NoReturn:
        raise SystemError("the function returned with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(exploring, "search", veiled)
    monkeypatch.setattr(search, "is_for", lambda *_: True)
    with pytest.raises(KeyboardInterrupt):
        pf.solve(small(), disclosure=0.5, known=["a"])


def test_who_listens_hears_how_many_points_are_done() -> None:
    heard: list[Progress] = []
    pf.trace(small(), known=["a"], points=3, gap=1e-2, progress=heard.append)
    assert heard
    assert {news.total for news in heard} == {3}
    assert max(news.done for news in heard) >= 1


def test_what_a_guarded_curve_cannot_be_asked_is_said() -> None:
    with pytest.raises(InvalidInputError, match="disclosures is empty"):
        pf.trace(small(), known=["a"], disclosures=[])
    with pytest.raises(InvalidInputError, match="points=1"):
        pf.trace(small(), known=["a"], points=1)
    with pytest.raises(InvalidInputError, match="solves the plain funnel"):
        pf.trace(small(), known=["a"], solver="greedy")
    with pytest.raises(InvalidInputError, match="no public column"):
        pf.trace(small(), known=["c"])


def test_the_command_draws_reports_and_proves_a_guarded_curve(tmp_path: Path) -> None:
    out, source = tmp_path / "out", str(tmp_path / "problem.json")
    small().save(source)
    done = run("curve", source, "--points", "3", "--option", "gap=3e-3", "--guarantee", "lip=0.2", "--known", "a",
               "--out", str(out), "--units", "bits", "--describe", "30%")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "largest leakage" in done.output
    assert "The guarantees allow" in done.output
    with (out / "curve.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["worst_attacker"] for row in rows} <= {"nothing", "a"}
    assert rows[-1]["closed_form_upper"] == ""
    page = (out / "report.html").read_text()
    assert "with lip=0.2 for every output" in page
    assert "between the closed-form bounds" not in page
    proofs = load_bundle(out / "certificates.npz")
    checked = run("verify", str(out / "certificates.npz"), source)
    assert checked.exit_code == 0
    assert f"VERIFIED: all {len(proofs)} lines" in checked.output
    assert any(not proof.claim.bounds_leakage for proof in proofs if isinstance(proof.body, GuardedBody))


def test_a_described_point_does_not_lie_above_the_curve(known: pf.Curve) -> None:
    at = float(0.5 * (known.disclosure[1] + known.disclosure[2]))
    alone = pf.solve(known.problem, disclosure=at, known=["a", "b"], gap=1e-3)
    assert better(known, alone, at).leakage <= min(alone.leakage, known.at(at).leakage) + 1e-9
    everything = alone.values._replace(leakages={"nothing": known.problem.leakage_ceiling})
    all_of_it = changed(alone, values=everything)
    assert better(known, all_of_it, at).leakage == pytest.approx(known.at(at).leakage)
    assert better(known, changed(all_of_it, status=pf.Status.FAILED), at).status is pf.Status.FAILED


def test_the_command_names_what_does_not_go_with_guards() -> None:
    for more in (["--view", "sample"], ["--compare-with", "aem", "--out", "nowhere"]):
        done = run("curve", "heart-failure", "--known", "anaemia", *more)
        assert_one_line_error(done, "about attackers who know nothing")


def test_five_attackers_of_heart_failure_have_a_curve_with_a_loose_proof() -> None:
    problem = instances.load("heart-failure")
    columns = ["anaemia", "high blood pressure", "diabetes", "smoking"]
    curve = pf.trace(problem, known=columns, points=3, gap=0.02)
    assert all(status is pf.Status.OPTIMAL for status in curve.status)
    assert len(curve.solutions[1].leakages) == 5


def test_k_holds_where_a_disclosure_is_asked_for_too() -> None:
    problem = small()
    crowd = int(np.sort(problem.p_x * (problem.n or 0.0))[1]) + 1  # two symbols have fewer rows
    asked = pf.solve(problem, disclosure="60%", guarantees=[f"k={crowd}"], gap=1e-3)
    assert asked.status is pf.Status.OPTIMAL
    assert asked.guaranteed[f"k={crowd}"] >= crowd - 1e-6
    curve = pf.trace(problem, guarantees=[f"k={crowd}"], points=3, gap=1e-3)
    assert all(s.guaranteed[f"k={crowd}"] >= crowd - 1e-6 for s in curve.solutions)
    assert curve.disclosure[-1] == pytest.approx(curve.most, abs=1e-7)


def test_the_plain_funnels_line_says_nothing_where_columns_are_published() -> None:
    problem = small()
    proof = pf.solve(problem, disclosure="90%").certificate
    assert proof is not None
    plain, known, shown = (
        Request(disclosure="90%", **guards).of(problem)
        for guards in ({}, {"known": ["a"]}, {"published": ["a"]})
    )
    at = Values(plain.disclosure, {})
    assert least_leakage(plain, proof.claim, at) == least_leakage(known, proof.claim, at) > 0.0
    assert applies(known, proof.claim)
    assert not applies(shown, proof.claim)
    assert least_leakage(shown, proof.claim, at) == -np.inf
