"""Published columns and two private symbols on wide tables: the strata's own funnels, proved by pairs of symbols."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.algorithms.binary import stratified
from privfunnel.algorithms.binary.stratified import StrataOracle, is_for
from privfunnel.certificate import (
    Certificate,
    GuardedBody,
    PairsProof,
    Proof,
    least_of_private_pairs,
    load_bundle,
    private_pairs,
)
from privfunnel.errors import CertificateError
from privfunnel.measures import MEASURES
from privfunnel.model.attackers import Attacker
from privfunnel.model.threat import Threat
from privfunnel.solving.request import Request

NONE = np.zeros(0, dtype=np.int32)


def wide(n_x: int = 90, *, counted: bool = True) -> pf.Problem:
    """Five strata: two of many symbols, one in which S is known, one of a single row, one in which S tells nothing."""
    counts = np.random.default_rng(3).integers(1, 60, (2, n_x))
    values = np.arange(n_x) % 2
    values[:8], values[8], values[9:12] = 2, 3, 4
    counts[0, :8], counts[:, 8], counts[1, 9:12] = 0, (1, 0), 2 * counts[0, 9:12]
    return pf.Problem(
        counts if counted else counts / counts.sum(),
        public_columns={"a": values.tolist(), "b": (values % 2).tolist()},
    )


def of_strata(problem: pf.Problem) -> list[tuple[float, pf.Problem]]:
    """p(a) and p(s, x | a) of every value of the column ``a``."""
    values, counts = np.array(problem.public_columns["a"], dtype=int), problem.counts
    assert counts is not None
    return [(problem.p_x[values == a].sum(), pf.Problem(counts[:, values == a])) for a in np.unique(values)]


@pytest.fixture(scope="module")
def free() -> pf.Solution:
    return pf.solve(wide(), leakage=0, published="a")


@pytest.fixture(scope="module")
def line() -> pf.Solution:
    return pf.solve(wide(), disclosure="95%", published="a")


def proof_of(solution: pf.Solution) -> Certificate:
    assert isinstance(solution.certificate.body, GuardedBody)
    return solution.certificate


def test_what_is_free_is_what_is_free_in_each_stratum(free: pf.Solution) -> None:
    strata = of_strata(free.problem)
    shares = np.array([share for share, _ in strata])
    each = sum(share * pf.free_disclosure(one) for share, one in strata) - shares @ np.log(shares)
    assert free.status is pf.Status.OPTIMAL
    assert free.disclosure == pytest.approx(each, abs=1e-9)
    assert free.leakage < 1e-12
    assert free.disclosure_upper_bound is not None
    assert 0.0 <= free.disclosure_upper_bound - each <= 1e-9


@pytest.mark.parametrize(
    "asked", [{"disclosure": "95%"}, {"disclosure": "98%"}, {"leakage": 0.01}, {"leakage": 0.0}]
)
def test_the_strata_at_one_slope_are_what_a_search_finds(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    problem = wide(24)
    searched = pf.solve(problem, published="a", **asked)
    monkeypatch.setattr("privfunnel.solving.guarded.SEARCHED_UP_TO", 0)
    found = pf.solve(problem, published="a", **asked)
    assert all(isinstance(proof, Proof) for proof in proof_of(searched).body.proofs)
    assert all(isinstance(proof, PairsProof) for proof in proof_of(found).body.proofs)
    assert found.status is searched.status is pf.Status.OPTIMAL
    assert found.gap <= 1e-8
    assert found.disclosure == pytest.approx(searched.disclosure, abs=2e-6)
    assert found.leakage == pytest.approx(searched.leakage, abs=2e-6)
    if found.requested is not None:
        assert searched.lower_bound <= found.leakage + 1e-12
        assert found.lower_bound <= searched.leakage + 1e-12


@pytest.mark.parametrize("which", ["free", "line"])
def test_proofs_by_pairs_are_read_back_and_verified(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    solution = request.getfixturevalue(which)
    proof_of(solution).save(tmp_path / "proof.npz")
    (again,) = load_bundle(tmp_path / "proof.npz")
    again.verify(wide())
    assert repr(again) == repr(solution.certificate)


def forged(certificate: Certificate, how: str) -> Certificate:
    """The certificate with one thing changed that it would prove more, or something else, with."""
    proofs, threat = certificate.body.proofs, certificate.claim.scope.guards
    if how == "claim":
        return changed(certificate, proofs=(changed(proofs[0], claim=1e-6), *proofs[1:]))
    if how == "prices":
        return changed(certificate, prices=certificate.body.prices + 1e-6)
    if how == "intercept":
        return changed(certificate, intercept=certificate.intercept + 1e-6)
    if how == "weights":
        return changed(certificate, weights=np.full(1, 0.5))
    if how == "zero":
        return changed(certificate, zero=not certificate.claim.scope.zero)
    if how == "measure":
        return changed(certificate, guards=changed(threat, measure=MEASURES["chi-squared"]))
    if how == "strata":
        return changed(certificate, proofs=proofs[:-1])
    if how == "crossings":
        named = np.zeros(3, dtype=np.int32)
        return changed(certificate, proofs=(PairsProof(claim=-1.0, outer=named, inner=named), *proofs[1:]))
    coarse = Attacker("b", wide().attackers([["b"]])[-1].values)
    return changed(certificate, guards=Threat((coarse,), coarse))


@pytest.mark.parametrize(
    "how", ["claim", "prices", "intercept", "weights", "zero", "measure", "strata", "crossings", "threat"]
)
@pytest.mark.parametrize("which", ["free", "line"])
def test_forged_proofs_by_pairs_are_refused(which: str, how: str, request: pytest.FixtureRequest) -> None:
    certificate = proof_of(request.getfixturevalue(which))
    with pytest.raises(CertificateError):
        forged(certificate, how).verify(wide())


def test_a_proof_by_pairs_is_for_nothing_but_published_columns(line: pf.Solution) -> None:
    certificate = proof_of(line)
    known = Request(leakage=0.01, known="b", published="a").of(wide())
    guaranteed = Request(leakage=0.01, published="a", guarantees="lip=0.5").of(wide())
    for asked, weights in ((known, np.array([1.0, 0.0])), (guaranteed, np.ones(1))):
        assert not is_for(asked)
        with pytest.raises(CertificateError, match="for published columns and nothing else"):
            changed(certificate, guards=asked.guards, weights=weights, cells=None).verify(wide())


def test_the_least_of_all_private_pairs_is_found_to_rounding() -> None:
    counts = np.array([[5, 2, 7, 1, 4, 3], [1, 6, 2, 9, 4, 8]])
    prices, problem = np.linspace(-0.3, 0.5, 6), pf.Problem(counts)
    rates = [Fraction(int(b), int(a + b)) for a, b in counts.T]
    mean = Fraction(int(counts[1].sum()), int(counts.sum()))
    assert mean not in rates
    values = []
    for b in (x for x in range(6) if rates[x] < mean):
        for a in (x for x in range(6) if rates[x] > mean):
            w = float((rates[a] - mean) / (rates[a] - rates[b]))
            values.append(-w * np.log(w) - (1 - w) * np.log(1 - w) - w * prices[b] - (1 - w) * prices[a])
    assert min(values) - 1e-13 < least_of_private_pairs(problem, prices, 1.0) <= min(values)


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_PAIRS", "counts"])
def test_without_counts_or_with_too_many_a_line_bounds_what_is_free(
    limit: str, free: pf.Solution, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit != "counts":
        monkeypatch.setattr(private_pairs, limit, 3)
    monkeypatch.setattr(stratified, "SEARCHED_WITHOUT_COUNTS", 0)
    problem = wide(counted=limit != "counts")
    found = pf.solve(problem, leakage=0, published="a")
    assert not proof_of(found).claim.scope.zero
    assert found.disclosure == pytest.approx(free.disclosure, abs=1e-9)
    assert found.disclosure_upper_bound is not None
    assert 0.0 <= found.disclosure_upper_bound - found.disclosure <= 1e-4


def test_no_random_release_of_strata_lies_below_the_line(line: pf.Solution) -> None:
    problem, rng, certificate = wide(), np.random.default_rng(1), proof_of(line)
    threat = certificate.claim.scope.guards
    for outputs in (2, 5, 40):
        inside = rng.dirichlet(np.full(outputs, 0.1), problem.n_x)
        channel = np.concatenate([inside * one[:, None] for one in threat.nothing(problem).T], axis=1)
        leaked = max(threat.leakages(problem, channel).values())
        assert certificate.lower_bound(problem.evaluate(channel).disclosure) <= leaked


def test_an_answer_without_time_is_a_release_all_the_same() -> None:
    problem = wide()
    for request in (Request(disclosure="90%", published="a"), Request(leakage=0.01, published="a")):
        asked = request.of(problem)
        answer = stratified.solve_strata(asked, 1e-9)
        assert answer.status is pf.Status.TIME_LIMIT
        assert asked.met(asked.values(answer.channel), answer.channel)


def test_a_curve_of_strata_is_supported_by_those_of_all_of_them() -> None:
    problem = wide()
    curve = StrataOracle(problem, Threat.of(problem, published="a"))
    assert curve.told().point.disclosure == pytest.approx(problem.disclosure_ceiling, abs=1e-12)
    low, high = curve.at(0.1), curve.at(0.3)
    assert low.line(high.point.disclosure) <= high.point.leakage
    assert high.line(low.point.disclosure) <= low.point.leakage


def test_a_curve_of_a_wide_table_discloses_what_its_points_ask_for_and_is_proved(free: pf.Solution) -> None:
    curve = pf.trace(wide(), published="a", points=5)
    assert curve.disclosure == pytest.approx(
        np.linspace(curve.disclosure[0], curve.disclosure[-1], 5), abs=1e-9
    )
    assert curve.disclosure[2] < free.disclosure < curve.disclosure[-1]
    assert np.all(curve.gap <= 1e-8)
