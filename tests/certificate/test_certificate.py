"""Certificates prove what they say, are checked without the solver, and fail when anything in them is changed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privfunnel as pf
from forging import changed
from privfunnel.certificate import (
    Certificate,
    PlainBody,
    combine,
    components,
    load_bundle,
    rivalry,
    rivals,
    save_bundle,
    verify_all,
)
from privfunnel.errors import CertificateError, ConvergenceWarning, InvalidInputError
from privfunnel.measures import entropy
from strategies import problems


def certified(problem: pf.Problem, share: float = 0.8, **options: Any) -> tuple[pf.Solution, Certificate]:
    solution = pf.solve(
        problem, disclosure=share * problem.disclosure_ceiling, solver="global", throw=False, **options
    )
    assert solution.certificate is not None
    return solution, solution.certificate


@pytest.fixture(scope="module")
def heart() -> pf.Problem:
    return pf.instances.load("heart-failure")


@pytest.fixture(scope="module")
def certificate(heart: pf.Problem) -> Certificate:
    return certified(heart)[1]


def pricing_values(problem: pf.Problem, line: Certificate, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """F at posteriors (n, M), written from its definition."""
    leak = entropy(w @ problem.p_s_given_x.T)
    return np.asarray(-leak + line.slope * entropy(w) - w @ line.body.prices)


def scattered(rng: np.random.Generator, n: int, n_x: int) -> np.ndarray[Any, Any]:
    """Posteriors from everywhere: dense, sparse, vertices."""
    dense = rng.dirichlet(np.ones(n_x), size=n)
    sparse = rng.dirichlet(np.full(n_x, 0.05), size=n)
    return np.concatenate([dense, sparse, np.eye(n_x)])


def test_no_posterior_is_below_the_proved_value(heart: pf.Problem, certificate: Certificate) -> None:
    certificate.verify(heart)
    value = certificate.body.value
    w = scattered(np.random.default_rng(0), 20_000, heart.n_x)
    assert pricing_values(heart, certificate, w).min() >= value


def test_the_line_is_below_every_channel(heart: pf.Problem, certificate: Certificate) -> None:
    certificate.verify(heart)
    rng = np.random.default_rng(1)
    for _ in range(300):
        channel = rng.dirichlet(np.full(rng.integers(2, 17), rng.choice([0.02, 0.2, 1.0])), size=heart.n_x)
        point = heart.evaluate(channel)
        assert point.leakage >= certificate.lower_bound(point.disclosure)


def test_the_line_is_what_weak_duality_gives(heart: pf.Problem, certificate: Certificate) -> None:
    expected = (
        heart.h_s
        + certificate.body.prices @ heart.p_x
        - certificate.slope * (heart.disclosure_ceiling - 2.0)
        + certificate.body.value
    )
    assert certificate.lower_bound(2.0) == pytest.approx(expected, abs=1e-11)
    assert certificate.lower_bound(2.0) <= expected


# --- tampering -----------------------------------------------------------------------------------------------------


def change_proof(certificate: Certificate, **fields: Any) -> Certificate:
    proof = changed(certificate.body.proofs[0], **fields)
    return changed(certificate, proofs=(proof, *certificate.body.proofs[1:]))


def moved(array: np.ndarray[Any, Any], place: Any, value: Any) -> np.ndarray[Any, Any]:
    copy = array.copy()
    copy[place] = value
    return copy


def inner_split(certificate: Certificate) -> int:
    """A node near the root that splits a box."""
    return int(np.flatnonzero(certificate.body.proofs[0].variable >= 0)[0])


def tampered(certificate: Certificate, kind: str) -> Certificate:
    proof = certificate.body.proofs[0]
    split = inner_split(certificate)
    if kind == "prices":
        return changed(certificate, prices=certificate.body.prices + 1e-5)
    if kind == "one price":
        return changed(
            certificate, prices=moved(certificate.body.prices, 3, certificate.body.prices[3] + 0.01)
        )
    if kind == "slope":
        return changed(certificate, slope=certificate.slope * 1.01)
    if kind == "value":
        return changed(certificate, value=certificate.body.value + 1e-9)
    if kind == "intercept":
        return changed(certificate, intercept=certificate.intercept + 1e-9)
    if kind == "claim":
        return change_proof(certificate, claim=proof.claim + 1e-5)
    if kind == "multipliers":
        return change_proof(certificate, q=proof.q[::-1].copy())
    if kind == "nu":
        return change_proof(certificate, nu=proof.nu + 0.1)
    if kind == "split":
        hole = moved(proof.split, split, [0.0, 1.0])
        return change_proof(certificate, split=hole)
    if kind == "outside":
        return change_proof(certificate, split=moved(proof.split, split, [-0.5, 1.0]))
    if kind == "leaf":
        return change_proof(certificate, variable=moved(proof.variable, split, -1))
    if kind == "symbol":
        return change_proof(certificate, variable=moved(proof.variable, split, 99))
    if kind == "loop":
        return change_proof(certificate, first=moved(proof.first, split, split))
    if kind == "two parents":
        inner = proof.variable >= 0
        twins = next(i for i in proof.first[inner] if inner[i] and inner[i + 1])
        return change_proof(certificate, first=moved(proof.first, twins, proof.first[twins + 1]))
    if kind == "truncated":
        half = proof.n_nodes // 2
        return change_proof(
            certificate, q=proof.q[:half], nu=proof.nu[:half], variable=proof.variable[:half],
            split=proof.split[:half], first=proof.first[:half],
        )  # fmt: skip
    if kind == "empty":
        return change_proof(
            certificate, q=proof.q[:0], nu=proof.nu[:0], variable=proof.variable[:0], split=proof.split[:0],
            first=proof.first[:0],
        )  # fmt: skip
    if kind == "uneven":
        return change_proof(certificate, q=proof.q[1:])
    if kind == "no tree":
        return changed(certificate, proofs=())
    if kind == "nan multiplier":
        return change_proof(certificate, q=moved(proof.q, (0, 0), np.nan))
    if kind == "nan claim":
        return change_proof(certificate, claim=np.nan)
    if kind == "nan price":
        return changed(certificate, prices=moved(certificate.body.prices, 0, np.nan))
    if kind == "nan slope":
        return changed(certificate, slope=np.nan)
    if kind == "negative slope":
        return changed(certificate, slope=-certificate.slope)
    if kind == "infinite line":
        return changed(certificate, intercept=np.inf)
    if kind == "short prices":
        return changed(certificate, prices=certificate.body.prices[1:])
    if kind == "coarsening":
        return changed(certificate, coarsening=np.zeros(2, dtype=np.int32))
    if kind == "merged":
        return changed(certificate, coarsening=np.array([0, 0, 1, 1], dtype=np.int32))
    raise AssertionError(kind)


#: What is tampered with, and why the checker refuses it.
REFUSALS = {
    "prices": "does not prove its claim",
    "one price": "does not prove its claim",
    "slope": "claims the line",
    "value": "its trees prove",
    "intercept": "claims the line",
    "claim": "does not prove its claim",
    "multipliers": "does not prove its claim",
    "nu": "does not prove its claim",
    "split": "a split leaves out too much",
    "outside": "a split lies outside",
    "leaf": "nats short of it",
    "symbol": "it splits a symbol that does not exist",
    "loop": "a child is missing",
    "two parents": "a box has two parents",
    "truncated": "a child is missing",
    "empty": "its arrays do not fit the problem",
    "uneven": "its arrays do not fit the problem",
    "no tree": "has 0 trees for 1 components",
    "nan multiplier": "numbers that are too large or none",
    "nan claim": "numbers that are too large or none",
    "nan price": "prices are not 16 usable numbers",
    "nan slope": "not a usable number",
    "negative slope": "a sign is wrong",
    "infinite line": "not a usable number",
    "short prices": "prices are not 16 usable numbers",
    "coarsening": "coarsening does not map 4 private symbols",
    "merged": "its arrays do not fit the problem",
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_tampered_certificate_fails(heart: pf.Problem, certificate: Certificate, kind: str) -> None:
    with pytest.raises(CertificateError, match=REFUSALS[kind]) as caught:
        tampered(certificate, kind).verify(heart)
    assert "\n" not in str(caught.value)


def test_another_problem_fails(certificate: Certificate) -> None:
    with pytest.raises(CertificateError, match="another problem"):
        certificate.verify(pf.instances.load("heart-failure", perturbation="probabilities"))


def test_multipliers_that_are_not_normalised_prove_nothing_extra(
    heart: pf.Problem, certificate: Certificate
) -> None:
    """Adding 1 to q would lift every bound by a nat if the checker believed it."""
    change_proof(certificate, q=certificate.body.proofs[0].q + 1.0).verify(heart)
    with pytest.raises(CertificateError, match="does not prove its claim"):
        change_proof(
            certificate, q=certificate.body.proofs[0].q + 1.0, claim=certificate.body.proofs[0].claim + 1e-5
        ).verify(heart)


def test_arrays_cannot_be_changed_in_place(certificate: Certificate) -> None:
    with pytest.raises(ValueError, match="read-only"):
        certificate.body.prices[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        certificate.body.proofs[0].q[0, 0] = 1.0


# --- components ----------------------------------------------------------------------------------------------------


def test_components_of_a_block_table() -> None:
    table = np.zeros((4, 5))
    table[:2, :3] = 1.0
    table[2:, 3:] = 1.0
    found = components(table)
    assert [(s.tolist(), x.tolist()) for s, x in found] == [([0, 1], [0, 1, 2]), ([2, 3], [3, 4])]


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.999, 1.0, 1.5])
def test_combination_is_the_minimum_over_shares(slope: float) -> None:
    """min over π of (μ − 1) H(π) + Σ π f, by a grid over two components."""
    f = np.array([0.3, -0.1])
    share = np.linspace(0.0, 1.0, 100_001)
    pi = np.stack([share, 1.0 - share], axis=1)
    brute = float(((slope - 1.0) * entropy(pi) + pi @ f).min())
    assert combine(f.tolist(), slope) <= brute
    assert combine(f.tolist(), slope) == pytest.approx(brute, abs=1e-8)


def test_a_decomposed_problem_is_proved_component_by_component() -> None:
    problem = pf.instances.load("census-income")
    solution, certificate = certified(problem, 0.6, gap=1e-5)
    assert len(certificate.body.proofs) == 5
    assert solution.status is pf.Status.OPTIMAL
    w = scattered(np.random.default_rng(0), 2000, problem.n_x)
    certificate.verify(problem)
    assert pricing_values(problem, certificate, w).min() >= certificate.body.value


def test_a_coarsening_bounds_the_finer_problem(heart: pf.Problem) -> None:
    """Merging private symbols gives a problem whose certificate, lifted, bounds the original."""
    groups = np.array([0, 1, 0, 1], dtype=np.int32)
    merged = np.zeros((2, heart.n_x))
    np.add.at(merged, groups, heart.p_sx)
    coarse = pf.Problem(merged)
    _, line = certified(coarse, 0.9)
    # p(s'|x) is rounded differently on the two ways to it, so that the claim needs a little room.
    roomy = tuple(changed(proof, claim=proof.claim - 1e-9) for proof in line.body.proofs)
    lifted = PlainBody.build(heart, line.body.prices.copy(), line.slope, roomy, groups, line.body.cells)
    lifted.verify(heart)
    assert lifted.lower_bound(2.3) == pytest.approx(line.lower_bound(2.3), abs=1e-8)
    fine = pf.solve(heart, disclosure=2.3)
    assert lifted.lower_bound(2.3) <= fine.leakage


# --- files -----------------------------------------------------------------------------------------------------------


def test_files_keep_every_bit(tmp_path: Path, heart: pf.Problem, certificate: Certificate) -> None:
    certificate.save(tmp_path / "one.npz")
    again = Certificate.load(tmp_path / "one.npz")
    again.verify(heart)
    assert again.body.value == certificate.body.value
    assert again.lower_bound(1.9) == certificate.lower_bound(1.9)
    assert (again.body.proofs[0].q == certificate.body.proofs[0].q).all()
    assert [path.name for path in tmp_path.iterdir()] == ["one.npz"]


def test_a_bundle_holds_many(tmp_path: Path, heart: pf.Problem, certificate: Certificate) -> None:
    lifted = changed(certificate, coarsening=np.arange(4, dtype=np.int32))
    save_bundle(tmp_path / "many.npz", [certificate, lifted])
    first, second = load_bundle(tmp_path / "many.npz")
    assert first.body.coarsening is None
    assert second.body.coarsening is not None
    assert second.body.coarsening.tolist() == [0, 1, 2, 3]
    with pytest.raises(CertificateError, match="2 certificates"):
        Certificate.load(tmp_path / "many.npz")


def test_unreadable_files(tmp_path: Path, certificate: Certificate) -> None:
    with pytest.raises(InvalidInputError, match="cannot read"):
        Certificate.load(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    certificate.save(tmp_path / "whole.npz")
    data = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    np.savez(tmp_path / "schema.npz", schema=np.array("something else"))
    np.savez(tmp_path / "pickle.npz", schema=np.array([object()], dtype=object))
    with np.load(tmp_path / "whole.npz") as whole:
        arrays = dict(whole)
    assert int(arrays["version"]) == 1  # no more than a tree needs
    for name, number in (("version", 99), ("nought", 0)):
        np.savez(tmp_path / f"{name}.npz", **{**arrays, "version": np.array(number)})
    for name, number in (("infinite", np.inf), ("wide", 2**40)):
        np.savez(
            tmp_path / f"{name}.npz",
            **{**arrays, "0.body.0.first": np.full(arrays["0.body.0.first"].shape, number)},
        )
    said = {
        "schema": "is not a certificate file",
        "version": "has certificate version 99, this release reads version 1",
        "nought": "version 0",
    }
    for name in ("text", "cut", "other", "schema", "version", "nought", "pickle", "infinite", "wide"):
        with pytest.raises(CertificateError, match=said.get(name)) as caught:
            Certificate.load(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
        assert f"{name}.npz" in str(caught.value)


def test_a_folder_that_cannot_be_written(tmp_path: Path, certificate: Certificate) -> None:
    with pytest.raises(InvalidInputError, match="cannot write"):
        certificate.save(tmp_path / "absent" / "one.npz")


# --- random problems -------------------------------------------------------------------------------------------------


@given(problem=problems(max_s=4, max_x=6), share=st.floats(0.01, 0.99), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_bound_is_below_every_value(problem: pf.Problem, share: float, seed: int) -> None:
    solution = pf.solve(problem, disclosure=share * problem.disclosure_ceiling, solver="global", throw=False)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.gap <= 1e-6
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = pf.solve(
            problem,
            disclosure=share * problem.disclosure_ceiling,
            solver="aem",
            restarts=2,
            max_steps=50,
            throw=False,
        )
    if other.disclosure >= share * problem.disclosure_ceiling - 1e-9:
        assert solution.lower_bound <= other.leakage + 1e-9
    if solution.certificate is not None:
        w = scattered(rng, 200, problem.n_x)
        assert (
            pricing_values(problem, solution.certificate, w).min() >= solution.certificate.body.value - 1e-12
        )


# --- rivals ----------------------------------------------------------------------------------------------------------


def test_rivalry_is_the_largest_curvature_ratio() -> None:
    """c_ij against a fine grid of its definition, x(1−x) Σ (p−q)²/m."""
    rng = np.random.default_rng(0)
    columns = np.concatenate([rng.dirichlet(np.full(4, 0.5), size=6), np.eye(4)[:2]])
    columns = np.concatenate([columns, columns[:1]])
    thresholds = rivalry(columns)
    x = np.linspace(0.0005, 0.9995, 1999)[:, None]
    for i, p in enumerate(columns):
        for j, q in enumerate(columns):
            m = x * p + (1.0 - x) * q
            terms = np.divide((p - q) ** 2, m, out=np.zeros_like(m), where=m > 0.0)
            brute = float((x[:, 0] * (1.0 - x[:, 0]) * terms.sum(axis=1)).max())
            assert thresholds[i, j] >= brute - 1e-12
            assert thresholds[i, j] == pytest.approx(brute, abs=2e-3)
    assert thresholds[6, 7] == pytest.approx(1.0)  # no private symbol in common
    assert thresholds[0, 8] <= 1e-9  # the same column


def test_pricing_is_concave_between_rivals() -> None:
    """Along e_i − e_j the middle is never below the chord, wherever the two exclude each other."""
    rng = np.random.default_rng(1)
    checked = 0
    for _ in range(300):
        columns = rng.dirichlet(np.full(3, 0.7), size=5)
        prices, slope = rng.normal(size=5), float(rng.random())
        pairs = np.argwhere(rivals(rivalry(columns), slope))
        if not len(pairs):
            continue
        i, j = pairs[rng.integers(len(pairs))]
        w = rng.dirichlet(np.ones(5))
        ends = np.stack([w, w, w])
        total = w[i] + w[j]
        for row, share in zip(ends, sorted(rng.random(3)), strict=True):
            row[i], row[j] = share * total, (1.0 - share) * total
        share = (ends[1, i] - ends[0, i]) / (ends[2, i] - ends[0, i])
        cost = -entropy(ends @ columns) + slope * entropy(ends) - ends @ prices
        assert cost[1] >= (1.0 - share) * cost[0] + share * cost[2] - 1e-12
        checked += 1
    assert checked > 100


def test_certificates_are_verified_together(heart: pf.Problem) -> None:
    curve = pf.trace(heart, points=12, solver="global", gap=1e-4)
    lines = list(dict.fromkeys(s.certificate for s in curve.solutions if s.certificate is not None))
    assert len(lines) > 3
    assert len({line.slope for line in lines}) == len(lines)
    fresh = [PlainBody.build(heart, line.body.prices, line.slope, line.body.proofs) for line in lines]
    assert not any(line._verified for line in fresh)
    verify_all(heart, fresh)
    assert all(line._verified for line in fresh)
    # One that does not hold fails among others as it does alone, wherever it stands.
    for place in range(len(lines)):
        proof = lines[place].body.proofs[0]
        bold = changed(proof, claim=proof.claim + 1e-3)
        forged = [PlainBody.build(heart, line.body.prices, line.slope, line.body.proofs) for line in lines]
        forged[place] = PlainBody.build(heart, lines[place].body.prices, lines[place].slope, [bold])
        with pytest.raises(CertificateError, match="does not prove its claim"):
            verify_all(heart, forged)
        with pytest.raises(CertificateError, match="does not prove its claim"):
            forged[place].verify(heart)
    other = pf.instances.load("synthetic-uniform")
    with pytest.raises(CertificateError, match="another problem"):
        verify_all(other, fresh)


def test_components_are_verified_together() -> None:
    rng = np.random.default_rng(2)
    blocks = np.zeros((4, 6))
    blocks[:2, :3], blocks[2:, 3:] = rng.random((2, 3)) + 0.1, rng.random((2, 3)) + 0.1
    problem = pf.Problem(blocks)
    lines = [certified(problem, share)[1] for share in (0.4, 0.5)]
    _, own = certified(pf.Problem(rng.random((2, 3)) + 0.1))
    with pytest.raises(CertificateError):
        verify_all(problem, [*lines, changed(own, fingerprint=problem.fingerprint)])
    fresh = [PlainBody.build(problem, line.body.prices, line.slope, line.body.proofs) for line in lines]
    verify_all(problem, fresh)
    assert [line.body.value for line in fresh] == [line.body.value for line in lines]


def test_a_forged_line_in_a_curve_is_named(monkeypatch: pytest.MonkeyPatch, heart: pf.Problem) -> None:
    build = PlainBody.build

    def bold(problem: pf.Problem, prices: Any, slope: float, proofs: Any, coarsening: Any = None) -> Any:
        proofs = [changed(proof, claim=proof.claim + 1e-3) for proof in proofs]
        return build(problem, prices, slope, proofs, coarsening)

    monkeypatch.setattr(PlainBody, "build", bold)
    with pytest.raises(CertificateError, match="does not prove its claim"):
        pf.trace(heart, points=6, solver="global", gap=1e-4)
