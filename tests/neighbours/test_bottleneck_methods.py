"""ABP, agglomerative merging, and the proofs of the bottleneck: closed forms, brute force, forgeries that must fail."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import privfunnel as pf
from forging import changed
from helpers_cli import assert_one_line_error, run
from privfunnel.certificate import Certificate, load_bundle, save_bundle
from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.neighbours import bottleneck
from privfunnel.neighbours.bottleneck import abp, agglomerative


def random_problem(seed: int, n_s: int = 3, n_x: int = 6) -> pf.Problem:
    return pf.Problem(np.random.default_rng(seed).dirichlet(np.full(n_s * n_x, 0.6)).reshape(n_s, n_x))


def h(p: float) -> float:
    """Binary entropy in nats."""
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p))


def symmetric(noise: float) -> pf.Problem:
    return pf.Problem([[(1 - noise) / 2, noise / 2], [noise / 2, (1 - noise) / 2]])


def gerber(noise: float, rate: float) -> float:
    """The bottleneck of a binary symmetric channel, by Mrs. Gerber's lemma."""
    alpha = brentq(lambda a: np.log(2) - h(a) - rate, 1e-15, 0.5)
    return float(np.log(2) - h(noise * (1 - alpha) + (1 - noise) * alpha))


@pytest.mark.parametrize(("noise", "share"), [(0.05, 0.2), (0.2, 0.5), (0.35, 0.9)])
def test_abp_meets_the_closed_form_for_a_rate_and_for_a_relevance(noise: float, share: float) -> None:
    problem, rate = symmetric(noise), share * np.log(2)
    expected = gerber(noise, rate)
    most = bottleneck.solve(problem, rate=rate, method="abp", restarts=0)
    assert most.disclosure <= rate + 1e-9
    assert most.leakage == pytest.approx(expected, abs=1e-8)
    least = bottleneck.solve(problem, relevance=expected, method="abp", restarts=0)
    assert least.leakage >= expected - 1e-9
    assert least.disclosure == pytest.approx(rate, abs=1e-7)
    assert (most.solver, least.solver) == ("bottleneck-abp",) * 2


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_blahut_arimoto_stands_still_where_abp_ends(seed: int) -> None:
    problem = random_problem(seed)
    found = bottleneck.solve(problem, rate=0.5 * problem.disclosure_ceiling, method="abp")
    assert found.slope is not None
    beta = 1.0 / found.slope
    converged, still = bottleneck.iterate(problem, found.channel, beta, tolerance=1e-12, max_steps=20_000)
    after = problem.evaluate(converged)
    assert still
    assert found.leakage - found.slope * found.disclosure == pytest.approx(
        after.leakage - found.slope * after.disclosure, abs=1e-8
    )


def test_the_relevance_rises_in_every_step_at_a_rate() -> None:
    problem = random_problem(7)
    channel, before = np.random.default_rng(0).dirichlet(np.ones(6), size=6), 0.0
    for _ in range(15):
        channel = abp.run(problem, channel, rate=0.6, max_steps=1).channel
        point = problem.evaluate(channel)
        assert point.disclosure <= 0.6 + 1e-12
        assert point.leakage >= before - 1e-12
        before = point.leakage


def test_the_start_of_abp_tells_what_is_asked_for() -> None:
    problem = pf.instances.load("heart-failure")
    rng = np.random.default_rng(0)
    for share in (0.5, 0.99, 1.0):
        asked = share * problem.leakage_ceiling
        point = problem.evaluate(abp.near_identity(problem, rng, relevance=asked))
        assert point.leakage >= asked - 1e-12
    assert problem.evaluate(abp.whole(problem)).leakage == pytest.approx(problem.leakage_ceiling, abs=1e-12)


def test_tables_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="4001 public symbols"):
        bottleneck.prove(pf.Problem(np.ones((2, 4001))), 0.1)


def test_the_first_merger_is_the_best_of_all_pairs() -> None:
    problem = random_problem(3, n_x=5)
    first, *_, last = agglomerative.mappings(problem)
    best = -np.inf
    for i, j in itertools.combinations(range(5), 2):
        merged = np.delete(np.eye(5), j, axis=1)
        merged[j, i if i < j else i - 1] = 1.0
        best = max(best, problem.evaluate(merged).leakage)
    assert problem.evaluate(first).leakage == pytest.approx(best, abs=1e-12)
    assert (first.shape, last.shape) == ((5, 4), (5, 1))


def test_merging_stays_below_the_proved_bound() -> None:
    problem = pf.instances.load("heart-failure")
    proved = bottleneck.trace(problem, points=5, method="abp", certify=True, restarts=0)
    merged = bottleneck.trace(problem, points=5, method="agglomerative")
    assert (merged.leakage <= proved.upper_bound + 1e-12).all()
    assert (merged.leakage >= problem.upper_bound(merged.disclosure) - 1e-9).all()  # at least time sharing
    assert {s.solver for s in merged.solutions} == {"bottleneck-agglomerative"}
    assert proved.gap.max() <= 1e-6
    assert (proved.proved([0.5]) < min(0.5, problem.leakage_ceiling)).all()
    assert bottleneck.solve(problem, rate=1.0, method="agglomerative").leakage <= proved.proved(1.0)


@pytest.mark.parametrize(("noise", "share"), [(0.1, 0.3), (0.3, 0.7)])
def test_the_proved_bound_encloses_the_closed_form(noise: float, share: float) -> None:
    rate = share * np.log(2)
    point = bottleneck.prove(symmetric(noise), rate)
    assert point.solution.leakage - 1e-10 <= gerber(noise, rate) <= point.upper_bound + 1e-12
    assert point.gap <= 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_no_channel_is_above_a_certificate(seed: int) -> None:
    problem, rng = random_problem(seed, n_s=3, n_x=5), np.random.default_rng(seed)
    point = bottleneck.prove(problem, 0.4 * problem.disclosure_ceiling)
    assert point.gap <= 1e-6
    assert point.certificate is not None
    for concentration in (0.05, 0.3, 1.0):
        for channel in rng.dirichlet(np.full(4, concentration), size=(100, 5)):
            told = problem.evaluate(channel)
            assert told.leakage <= point.certificate.upper_bound(told.disclosure)


def test_a_stationary_point_that_is_not_the_best_is_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    """ABP from a start with random rows ends below the optimum of heart failure; the search for a proof sees it."""
    problem = pf.instances.load("heart-failure")
    rate = 0.5 * problem.disclosure_ceiling
    start = abp.near_identity(problem, np.random.default_rng(0), relevance=0.0)
    alone = abp.run(problem, start, rate=rate)
    monkeypatch.setattr(abp, "whole", lambda _problem: start)
    proved = bottleneck.prove(problem, rate)
    assert proved.gap <= 1e-6
    assert problem.evaluate(alone.channel).leakage < proved.solution.leakage - 1e-5


@pytest.mark.parametrize(
    ("name", "share"),
    [("synthetic-skewed", 0.5), ("heart-failure", 0.4), ("heart-failure", 0.8)],
)
def test_abp_ends_where_blahut_arimoto_ends(name: str, share: float) -> None:
    """Both begin with X itself, and agree to 1e-8 nats; their times are on the page of benchmarks."""
    problem = pf.instances.load(name)
    rate = share * problem.disclosure_ceiling
    alone, searched = (
        bottleneck.solve(problem, rate=rate, method=method, restarts=0).leakage
        for method in ("abp", "blahut-arimoto")
    )
    assert alone == pytest.approx(searched, abs=1e-8)


def test_any_solution_gives_a_bound_that_holds() -> None:
    problem = random_problem(5)
    rate = 0.5 * problem.disclosure_ceiling
    optimum = bottleneck.prove(problem, rate)
    rough = bottleneck.solve(problem, multiplier=4.0, restarts=0, max_steps=20)
    certificate = bottleneck.certify(problem, rough)
    assert certificate.upper_bound(rate) >= optimum.solution.leakage
    few = bottleneck.certify(problem, rough, node_limit=3)  # less tight, and as true
    assert few.n_nodes <= 3
    assert few.upper_bound(rate) >= certificate.upper_bound(rate) - 1e-9
    with pytest.raises(InvalidInputError, match="closed form"):
        bottleneck.certify(problem, changed(rough, slope=None))


@pytest.mark.parametrize(
    "table", [[[2, 3, 4]], [[2], [3]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 2], [2, 4]]]
)
def test_tables_with_little_in_them_are_proved_too(table: list[list[int]]) -> None:
    problem = pf.Problem(table)
    for share in (0.0, 0.4, 1.0):
        point = bottleneck.prove(problem, share * problem.disclosure_ceiling)
        assert point.gap <= 1e-6
        assert point.solution.disclosure <= share * problem.disclosure_ceiling + 1e-9
    curve = bottleneck.trace(problem, points=3, method="abp", certify=True)
    assert np.isfinite(curve.leakage).all()
    assert np.isfinite(bottleneck.trace(problem, points=3, method="agglomerative").leakage).all()


@pytest.fixture(scope="module")
def proved() -> tuple[pf.Problem, Certificate]:
    problem = random_problem(1)
    certificate = bottleneck.prove(problem, 0.5 * problem.disclosure_ceiling).certificate
    assert certificate is not None
    return problem, certificate


def shortened(certificate: Certificate, **changes: Any) -> Certificate:
    return changed(certificate, tree=changed(certificate.body.tree, **changes))


def forgeries(c: Certificate) -> dict[str, Certificate]:
    tree, leaf = c.body.tree, np.full(1, -1, dtype=np.int32)
    moved = tree.split.copy()
    moved[0] = 0.999
    return {
        "value": changed(c, value=c.body.value - 1e-6, intercept=c.intercept - 1e-6),
        "line": changed(c, intercept=c.intercept - 1e-9),
        "prices": changed(c, prices=c.body.prices - 1e-3),
        "few prices": changed(c, prices=c.body.prices[1:]),
        "slope": changed(c, slope=0.5 * c.slope),
        "no slope": changed(c, slope=0.0),
        "nan": changed(c, value=float("nan")),
        "one box": shortened(c, variable=leaf, split=np.zeros(1), first=np.zeros(1, dtype=np.int32)),
        "two parents": shortened(c, first=np.where(tree.first > 3, 3, tree.first).astype(np.int32)),
        "lost child": shortened(c, variable=tree.variable[:-1], split=tree.split[:-1], first=tree.first[:-1]),
        "lengths": shortened(c, split=tree.split[:-1]),
        "types": shortened(c, first=tree.first.astype(np.int64)),
        "symbol": shortened(c, variable=np.where(tree.variable == 0, 9, tree.variable).astype(np.int32)),
        "outside": shortened(c, split=tree.split + 2.0),
        "moved": shortened(c, split=moved),
        "other problem": changed(c, fingerprint="0" * 64),
    }


def test_forged_certificates_fail(proved: tuple[pf.Problem, Certificate]) -> None:
    problem, certificate = proved
    certificate.verify(problem)
    passed = []
    for name, forged in forgeries(certificate).items():
        try:
            forged.verify(problem)
        except CertificateError:
            continue
        passed.append(name)
    assert passed == []


def test_certificates_come_back_from_their_file(
    tmp_path: Path, proved: tuple[pf.Problem, Certificate]
) -> None:
    problem, certificate = proved
    save_bundle(tmp_path / "proof.npz", [certificate, certificate])
    first, second = load_bundle(tmp_path / "proof.npz")
    first.verify(problem)
    assert (first.intercept, second.slope, first.n_nodes) == (
        certificate.intercept, certificate.slope, certificate.n_nodes,
    )  # fmt: skip
    assert "boxes" in repr(first)
    (tmp_path / "damaged.npz").write_bytes((tmp_path / "proof.npz").read_bytes()[:300])
    with pytest.raises(CertificateError, match="not a readable"):
        load_bundle(tmp_path / "damaged.npz")
    np.savez(tmp_path / "foreign.npz", schema=np.array("privfunnel/curve"), version=np.array(1))
    with pytest.raises(CertificateError, match="is not a certificate file"):
        load_bundle(tmp_path / "foreign.npz")
    with pytest.raises(InvalidInputError, match="check the path"):
        load_bundle(tmp_path / "missing.npz")


def test_the_command_traces_proves_and_is_verified(tmp_path: Path) -> None:
    out = tmp_path / "dual"
    result = run(
        "bottleneck", "synthetic-skewed", "--points", 4, "--certify", "--units", "bits", "--out", out
    )
    assert result.exit_code == 0, result.output
    assert "2 proved lines" in result.output
    assert {"bottleneck.json", "certificates.npz", "problem.json"} <= {path.name for path in out.iterdir()}
    checked = run("verify", out / "certificates.npz", "synthetic-skewed", "--disclosure", "50%")
    assert checked.exit_code == 0, checked.output
    assert "VERIFIED" in checked.output
    lines = json.loads(
        run("verify", out / "certificates.npz", "synthetic-skewed", "--disclosure", "50%", "--json").output
    )
    told = json.loads(run("bottleneck", "synthetic-skewed", "--points", 3, "--json").output)
    assert told["points"][1]["leakage"] <= min(line["upper_bound"] for line in lines)
    assert_one_line_error(run("bottleneck", "synthetic-skewed", "--points", 1), "points")
    assert_one_line_error(run("verify", out / "certificates.npz", "heart-failure"), "another problem")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 0.1, "method": "newton"}, "method"),
        ({"multiplier": 2.0, "method": "abp"}, "blahut-arimoto"),
        ({"relevance": 0.1}, "abp"),
        ({"relevance": 9.0, "method": "abp"}, "out of reach"),
        ({"relevance": 0.1, "rate": 0.1}, "exactly one"),
    ],
)
def test_requests_that_a_method_cannot_answer_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        bottleneck.solve(pf.Problem([[4, 1, 2], [1, 3, 2]]), **options)
