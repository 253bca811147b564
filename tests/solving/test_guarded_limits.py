"""Guarded releases at their limits, and what is said of them: gaps, promises, proofs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from highspy import HighsModelStatus

import privfunnel as pf
from clocks import ticking
from forging import changed
from funnels import toy
from helpers_cli import run
from privfunnel import measures
from privfunnel.algorithms import registry
from privfunnel.algorithms.columns.general import Guarded, master
from privfunnel.algorithms.columns.general.search import Search
from privfunnel.algorithms.deadline import Limits
from privfunnel.algorithms.posteriors.lp import run_until
from privfunnel.app.cli import _limits
from privfunnel.app.cli._common import tell_files
from privfunnel.app.cli._point import closed_words
from privfunnel.audit import words
from privfunnel.audit.promise import recount
from privfunnel.certificate import GuardedBody, PlainBody, load_bundle
from privfunnel.certificate.answer import Answer
from privfunnel.data import instances, tables
from privfunnel.errors import SolverError
from privfunnel.infra import jit
from privfunnel.model import guarantees
from privfunnel.model.threat import Threat
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.guarded import GuardedWay
from privfunnel.solving.judging import Line, Run, judge
from privfunnel.solving.plain_first import plain_floor
from privfunnel.solving.request import Request


def wide(n_x: int = 150) -> pf.Problem:
    return pf.Problem(np.random.default_rng(0).integers(1, 40, size=(2, n_x)))


@pytest.mark.parametrize("texts", [["lip=0.2"], ["t-closeness=0.05"], ["lift=0.1", "ldp=0.2"]])
def test_a_limit_does_not_end_in_an_empty_release(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Parts of p(x) that tell nothing about two private values have two symbols at most.
    problem = wide()
    ticking(monkeypatch, 60.0, 4000)
    solution = pf.solve(problem, guarantees=texts, time_limit=60.0, throw=False)
    assert solution.status is pf.Status.TIME_LIMIT
    assert Threat.of(problem, guarantees=texts).excess(problem, solution.channel) <= guarantees.MET
    assert solution.disclosure >= problem.disclosure_ceiling - np.log(2) - 1e-9


@pytest.mark.parametrize("asked", [{"disclosure": "60%"}, {"leakage": "5%"}])
def test_a_first_linear_program_that_takes_too_long_is_given_up(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = pf.Problem(np.random.default_rng(0).integers(1, 40, size=(3, 12)),
                         public_columns={"a": [str(x % 3) for x in range(12)]})  # fmt: skip
    limits: list[float] = []

    def endless(_lp: Any, deadline: Limits) -> bool:
        limits.append(deadline.seconds)
        return False

    monkeypatch.setattr(master, "run_robustly", endless)
    monkeypatch.setattr(
        master, "PLAN", master.PLAN._replace(first=0.0, first_seconds=0.0, first_unit_seconds=0.0)
    )
    solution = pf.solve(problem, known=[["a"]], time_limit=1e-6, throw=False, **asked)
    assert len(limits) == 1
    assert limits[0] < 1.0  # it hears the limit
    assert solution.status is pf.Status.TIME_LIMIT
    assert max(solution.leakages.values()) <= (solution.budget or np.inf) + 1e-9
    assert solution.disclosure >= (solution.requested or 0.0) - 1e-9


@pytest.mark.parametrize("texts", [["lip=0.2"], ["k=60"], ["k=60", "lip=0.1"]])
def test_the_first_posteriors_are_allowed_and_have_the_table_as_a_mixture(texts: list[str]) -> None:
    from scipy.optimize import linprog

    problem = wide(40)
    threat = Threat.of(problem, guarantees=texts)
    search = Search(
        problem, threat, zero=False, rng=np.random.default_rng(0), limits=Limits(math.inf, nodes=1)
    )
    first = search.starts()
    worst = max(each.excess(problem, w) for w in first for each in threat.guarantees)
    assert worst <= guarantees.MET
    solved = linprog(measures.entropy(first), A_eq=first.T, b_eq=problem.p_x, method="highs")
    assert solved.fun < 0.5 * problem.disclosure_ceiling


@pytest.mark.parametrize(
    "guards", [{"guarantees": ["lip=0.2"]}, {"leakage": 0.01, "guarantees": ["ldp=0.3"]}, {"leakage": 0.01}]
)
def test_a_time_limit_is_kept(guards: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    problem, known = wide(), [np.arange(150) % 7]
    ticking(monkeypatch, 60.0)
    solution = pf.solve(problem, known=known, time_limit=60.0, throw=False, **guards)
    assert solution.status is pf.Status.TIME_LIMIT


@pytest.mark.parametrize(("late", "runs"), [(False, 3), (True, 1)])
def test_a_program_goes_on_until_the_deadline_itself_has_passed(late: bool, runs: int) -> None:
    """The clock of the linear programs is another one, and ended some a moment too early."""
    deadline = Mock(**{"left.return_value": 0.5, "passed.return_value": late})
    ended = HighsModelStatus.kTimeLimit
    lp = Mock(**{"getRunTime.return_value": 2.0})
    lp.getModelStatus.side_effect = [ended, ended, HighsModelStatus.kOptimal]
    run_until(lp, deadline)
    assert lp.run.call_count == runs
    lp.setOptionValue.assert_called_with("time_limit", 2.5)


def test_a_time_limit_that_is_named_counts_though_it_is_the_plain_solver_s_own() -> None:
    own = registry.get("auto")
    seconds = own.time_limit  # type: ignore[attr-defined]
    assert GuardedWay.of(own, (), "").solver.time_limit == Guarded().time_limit
    assert GuardedWay.of(own, {"time_limit"}, "").solver.time_limit == seconds
    told = _limits.chosen("auto", {"gap": 1e-3}, 60.0, guarded=True)
    assert told == {"solver": "auto", "gap": 1e-3, "time_limit": 60.0}
    assert _limits.time_limited({"time_limit": 5, "gap": 1e-3}, 60.0) == ({"gap": 1e-3}, 5.0)
    assert _limits.chosen("aem", {}, 60.0, guarded=True) == {"solver": "aem"}
    assert _limits.chosen("auto", {}, 60.0, guarded=False)["solver"].time_limit == 60.0


def test_a_disclosure_is_infeasible_only_where_that_is_proved() -> None:
    problem = wide()
    with pytest.raises(SolverError, match="raise time_limit, or lower it"):
        pf.solve(problem, disclosure="97%", guarantees=["lip=0.01"], time_limit=0.2)


def test_the_gap_is_of_the_quantity_that_was_asked_for() -> None:
    problem = toy(1, n_s=2)
    solution = pf.solve(problem, guarantees=["lip=0.3"])
    assert solution.disclosure_upper_bound is not None
    assert solution.gap == solution.disclosure_upper_bound - solution.disclosure <= 1e-6
    assert solution.leakage > 1e-3  # which the gap is not about
    assert "discloses more" in solution.advice
    assert f"≤ {solution.disclosure_upper_bound:.6g}" in repr(solution)
    assert "most disclosure, proved" in solution._repr_html_()
    with pytest.warns(pf.PrivFunnelWarning, match="nats of disclosure"):
        pf.solve(wide(), guarantees=["lip=0.3"], time_limit=0.1)


def test_release_and_audit_name_what_was_designed_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    s = (a == b) ^ (rng.random(3000) < 0.3)
    table = tmp_path / "rows.csv"
    table.write_text("a,b,s\n" + "".join(f"{i},{j},{int(k)}\n" for i, j, k in zip(a, b, s, strict=True)))
    design, columns = tmp_path / "design", ["--private", "s", "--public", "a,b"]
    run("solve", str(table), *columns, "--guarantee", "lip=0.05", "--known", "a", "--option", "gap=1e-3",
        "--out", str(design))  # fmt: skip
    told = run(
        "release",
        str(table),
        "--mechanism",
        str(design / "mechanism.json"),
        "--out",
        str(tmp_path / "out.csv"),
    )
    assert "Designed for: lip=0.05 for every output;" in told.output
    assert "to who knows a" in told.output
    mechanism = Mechanism.load(design / "mechanism.json")
    counts = tables.count(str(table), private="s", public=["a", "b"])
    found = recount(mechanism, counts, [counts.table() / counts.n] * 3)
    assert found.holds
    assert found.guaranteed["lip=0.05"] <= 0.05 + 1e-7
    assert set(found.guarded_leakages) == {"nothing", "a"}
    assert f"lip=0.05 for every output: {found.guaranteed['lip=0.05']:.3f} counted again" in words._recount(
        found, None
    )
    # A file that claims what its channel does not keep is found out.
    stricter = mechanism.provenance | {"guaranteed": {"lip=0.001": 0.001}}
    assert not recount(changed(mechanism, provenance=stricter), counts, [counts.table() / counts.n] * 3).holds
    unknown = mechanism.provenance | {"leakages": {"z": 0.1}}
    assert not recount(
        changed(mechanism, provenance=unknown), counts, [counts.table() / counts.n] * 3
    ).guaranteed


@pytest.mark.parametrize(
    ("seconds", "compiled", "told"), [(9.0, False, True), (9.0, True, False), (1.0, False, False)]
)
def test_who_lacks_compiled_kernels_is_told_what_they_bring(
    seconds: float,
    compiled: bool,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = pf.solve(pf.Problem([[0.3, 0.2], [0.1, 0.4]]), disclosure=0, guarantees=["lip=1"])
    monkeypatch.setattr(jit, "compiles", lambda: compiled)
    tell_files(None, (), [changed(found, seconds=seconds)])
    assert ("pip install 'privfunnel[fast]'" in capsys.readouterr().out) is told


def test_verify_speaks_of_disclosure_where_that_is_bounded(tmp_path: Path) -> None:
    design = tmp_path / "design"
    run("solve", "heart-failure", "--guarantee", "lip=1", "--option", "gap=1e-3", "--out", str(design))
    proof = str(design / "certificate.npz")
    told = run("verify", proof, "heart-failure", "--units", "bits", "--disclosure", "50%")
    assert "discloses more than it says" in told.output
    assert "for every R" not in told.output
    most = load_bundle(proof)[0].most_disclosure(0.0) / np.log(2)  # type: ignore[union-attr]
    assert f"disclosure ≤ {most:.6g} bits" in told.output
    assert "with lip=1 for every output" in " ".join(told.output.split())
    in_json = json.loads(run("verify", proof, "heart-failure", "--disclosure", "50%", "--json").output)
    assert in_json[0]["lower_bound"] is None


@pytest.mark.parametrize("asked", [{"disclosure": "66%"}, {"leakage": "5%"}])
def test_the_plain_funnel_s_proof_counts_where_its_release_tells_nobody_more(asked: dict[str, str]) -> None:
    census = instances.load("census-income")
    solution = pf.solve(census, known=["age"], time_limit=60, **asked)  # type: ignore[arg-type]
    assert solution.status is pf.Status.OPTIMAL
    assert solution.gap <= 1e-6
    assert solution.leakages["age"] <= solution.leakage
    assert isinstance(solution.certificate.body, PlainBody)
    solution.certificate.verify(census)


def test_a_wide_table_is_bounded_by_its_plain_funnel() -> None:
    rng = np.random.default_rng(3)
    columns = {"a": rng.integers(0, 2, 80).tolist()}
    problem = pf.Problem(rng.integers(1, 40, size=(2, 80)), public_columns=columns)
    plain = pf.solve(problem, disclosure="97%")
    asked = Request(disclosure=plain.requested, known=["a"]).of(problem)
    floor = plain_floor(asked, 1e-6, 12.0, 0)
    assert floor is not None
    assert floor.certificate is not None
    whole = Answer(channel=np.eye(80), status=pf.Status.OPTIMAL)
    judged = judge(asked, whole, Run("guarded"), lines=[Line(floor.certificate)])
    assert judged.lower_bound == pytest.approx(plain.lower_bound, abs=1e-6)
    assert judged.status is not pf.Status.OPTIMAL
    # Limits may come at any time: what is found and what is proved stay on their sides.
    guarded = pf.solve(problem, disclosure="97%", known=["a"], throw=False, time_limit=0.5)
    assert plain.lower_bound - 1e-9 <= guarded.leakage
    free = pf.solve(problem, leakage=0, known=["a"], throw=False, time_limit=0.5)
    assert free.disclosure_upper_bound is not None
    assert free.disclosure <= free.disclosure_upper_bound
    assert max(free.leakages.values()) <= 1e-9
    # What tells nothing keeps every guarantee about beliefs; what tells something need not.
    kept = pf.solve(problem, disclosure="50%", guarantees=["lip=0.5"])
    assert kept.status is pf.Status.OPTIMAL
    assert kept.leakage <= 1e-9
    strict = pf.solve(problem, leakage=0.02, guarantees=["lip=0.01"], throw=False, time_limit=0.5)
    assert strict.guaranteed["lip=0.01"] <= 0.01 + 1e-9
    assert strict.disclosure <= plain.disclosure


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ([[9, 6], [7, 4], [8, 6]], "ldp=0"),
        ([[1, 10, 11], [1, 9, 8]], "lip=0"),
        ([[10, 11], [9, 10]], "ldp=0"),
    ],
)
def test_multipliers_of_narrow_guarantees_leave_the_checker_its_rounding(
    table: list[list[int]], text: str
) -> None:
    problem = pf.Problem(table)
    solution = pf.solve(problem, guarantees=[text])
    assert solution.status == "optimal"
    assert solution.disclosure == pytest.approx(pf.solve(problem, leakage=0).disclosure, abs=2e-6)


def test_a_closed_form_that_bounds_the_disclosure_is_not_taken_for_the_certificate() -> None:
    solution = pf.solve(toy(6), leakage=0.01, known=["a"], gap=1e-3)
    assert isinstance(solution.certificate.body, GuardedBody)
    assert closed_words(solution) == ""
    weak = changed(solution.certificate, intercept=solution.certificate.intercept - 1.0)
    assert closed_words(changed(solution, certificate=weak)) == "closed form; the certificate proves less"
