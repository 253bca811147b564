"""Certificates by pairs: they hold for every posterior, and whatever is changed in them is found out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.algorithms.binary.funnel import Target, bracket
from privfunnel.algorithms.binary.solver import Run
from privfunnel.certificate import Certificate, PairsProof, PlainBody, load_bundle, save_bundle
from privfunnel.certificate.cells import spread_within
from privfunnel.certificate.pairs import check_pairs
from privfunnel.errors import CertificateError
from privfunnel.measures import entropy
from privfunnel.model.question import Quantity

NONE = np.zeros(0, dtype=np.int32)


def random_problem(seed: int, n_x: int) -> pf.Problem:
    """Two private symbols; rates near 0 and 1 too."""
    rng = np.random.default_rng(seed)
    rates = rng.beta(0.6, 0.6, n_x)
    p_x = rng.dirichlet(np.ones(n_x))
    return pf.Problem(np.stack([p_x * (1.0 - rates), p_x * rates]))


def proved(problem: pf.Problem, share: float = 0.9, *, crossings: bool = False) -> Certificate:
    """The certificate of a point of the curve."""
    run = Run(problem)
    wanted = Target(Quantity.DISCLOSURE, share * problem.disclosure_ceiling - run.within)
    certificate = run.certificate(bracket(run.curve, wanted, 1e-12, run.known).best, crossings=crossings)
    assert certificate is not None
    return certificate


def rebuilt(problem: pf.Problem, certificate: Certificate, **changes: object) -> Certificate:
    """The certificate with other prices, slope or proof, its line as the builder would claim it."""
    parts = {
        "prices": certificate.body.prices,
        "slope": certificate.slope,
        "proofs": certificate.body.proofs,
        **changes,
    }
    return PlainBody.build(
        problem, parts["prices"], parts["slope"], parts["proofs"], cells=certificate.body.cells
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("crossings", [False, True])
@pytest.mark.parametrize("n_x", [2, 3, 12, 60])
def test_f_is_not_below_the_claim_anywhere_on_a_dense_grid(n_x: int, *, crossings: bool) -> None:
    problem = random_problem(n_x, n_x)
    certificate = proved(problem, 0.95, crossings=crossings)
    weights = np.concatenate(
        [np.linspace(0.0, 1.0, 401), np.logspace(-12, -2, 60), 1.0 - np.logspace(-12, -2, 60)]
    )
    least = np.inf
    for b in range(n_x):
        for a in range(b):
            w = np.zeros((n_x, weights.size))
            w[b], w[a] = weights, 1.0 - weights
            image = (problem.p_s_given_x @ w).T
            f = -entropy(image) + certificate.slope * entropy(w.T) - certificate.body.prices @ w
            least = min(least, float(f.min()))
    assert least >= certificate.body.value - 1e-15
    assert least <= 1e-6, "prices of an optimum are tight somewhere"


@pytest.mark.parametrize("crossings", [False, True])
def test_a_raised_price_is_found_out_wherever_it_is(*, crossings: bool) -> None:
    problem = random_problem(3, 25)
    certificate = proved(problem, crossings=crossings)
    for x in range(problem.n_x):
        prices = certificate.body.prices.copy()
        prices[x] += 1e-9
        with pytest.raises(CertificateError, match="does not prove"):
            rebuilt(problem, certificate, prices=prices).verify(problem)


@pytest.mark.parametrize("factor", [0.9, 0.999])
def test_a_smaller_slope_is_found_out(factor: float) -> None:
    problem = random_problem(4, 30)
    certificate = proved(problem)
    with pytest.raises(CertificateError, match="does not prove"):
        rebuilt(problem, certificate, slope=factor * certificate.slope).verify(problem)


def test_another_table_and_higher_claims_are_found_out() -> None:
    problem, other = random_problem(5, 20), random_problem(6, 20)
    certificate = proved(problem)
    with pytest.raises(CertificateError, match="another problem"):
        certificate.verify(other)
    with pytest.raises(CertificateError, match="does not prove"):
        changed(certificate, fingerprint=other.fingerprint).verify(other)
    with pytest.raises(CertificateError, match="claims the line"):
        changed(certificate, intercept=certificate.intercept + 1e-9).verify(problem)
    with pytest.raises(CertificateError, match="claims min F"):
        changed(certificate, value=1e-9).verify(problem)
    with pytest.raises(CertificateError, match="does not prove"):
        rebuilt(problem, certificate, proofs=[PairsProof(claim=1e-9, outer=NONE, inner=NONE)]).verify(problem)


def test_damaged_numbers_are_found_out() -> None:
    problem = random_problem(7, 10)
    certificate = proved(problem)
    prices = certificate.body.prices.copy()
    prices[3] = np.nan
    for damaged in (
        changed(certificate, prices=prices),
        changed(certificate, prices=certificate.body.prices[:-1].copy()),
        changed(certificate, slope=float("nan")),
        changed(certificate, slope=0.0),
        changed(certificate, proofs=(PairsProof(claim=float("nan"), outer=NONE, inner=NONE),)),
        changed(
            certificate, proofs=(PairsProof(claim=-1e-13, outer=NONE, inner=np.zeros(3, dtype=np.int32)),)
        ),
        changed(certificate, proofs=(*certificate.body.proofs, *certificate.body.proofs)),
        changed(
            certificate, cells=np.zeros(10, dtype=np.int32), prices=np.full(10, certificate.body.prices.min())
        ),
    ):
        with pytest.raises(CertificateError):
            damaged.verify(problem)


def test_three_private_symbols_are_not_proved_by_pairs() -> None:
    problem = pf.Problem([[2, 1, 4], [1, 3, 1], [3, 3, 1]])
    proof = PairsProof(claim=-10.0, outer=NONE, inner=NONE)
    with pytest.raises(CertificateError, match="two private symbols"):
        PlainBody.build(problem, np.full(3, -5.0), 0.5, [proof]).verify(problem)
    merged = PlainBody.build(problem, np.full(3, -5.0), 0.5, [proof], np.array([0, 1, 1], dtype=np.int32))
    merged.verify(problem)
    assert merged.body.value == -10.0


def test_wrong_crossings_prove_nothing_that_is_false() -> None:
    problem = random_problem(8, 40)
    certificate = proved(problem, crossings=True)
    raised = certificate.body.prices.copy()
    raised[7] += 1e-8
    rng = np.random.default_rng(0)
    for _ in range(40):
        outer = np.array([rng.integers(0, max(a, 1)) for a in range(40)], dtype=np.int32)
        inner = np.array([rng.integers(-1, max(a - 1, 0)) for a in range(40)], dtype=np.int32)
        proof = PairsProof(claim=certificate.body.value, outer=outer, inner=inner)
        with pytest.raises(CertificateError):
            rebuilt(problem, certificate, prices=raised, proofs=[proof]).verify(problem)
        rebuilt(problem, certificate, proofs=[proof]).verify(problem)  # all pairs are looked at instead


def test_it_is_stored_and_read_back(tmp_path: Path) -> None:
    problem = random_problem(9, 400)
    solution = pf.solve(problem, disclosure=0.97 * problem.disclosure_ceiling, solver="binary")
    certificate = solution.certificate
    assert certificate is not None
    assert solution.bound_source == "pairs"
    assert solution.gap <= 1e-10
    save_bundle(tmp_path / "c.npz", [certificate])
    (read,) = load_bundle(tmp_path / "c.npz")
    read.verify(problem)
    assert read.body.value == certificate.body.value
    assert read.lower_bound(1.0) == certificate.lower_bound(1.0)


def test_classes_and_their_members_share_a_proof() -> None:
    rng = np.random.default_rng(10)
    counts = rng.integers(1, 5, (2, 300)) * rng.integers(1, 4, 300)
    problem = pf.Problem(counts)
    disclosure = 0.5 * (pf.free_disclosure(problem) + problem.disclosure_ceiling)
    lumped, whole = (
        pf.solve(problem, disclosure=disclosure, solver="binary", lump=lump) for lump in (True, False)
    )
    for solution in (lumped, whole):
        assert solution.status is pf.Status.OPTIMAL
        assert solution.certificate is not None
        assert solution.certificate.body.cells is not None
        solution.certificate.verify(problem)
    assert lumped.leakage == pytest.approx(whole.leakage, abs=1e-10)


@pytest.mark.parametrize("rates", [(0.1, 0.9), (0.1, 0.2, 0.9), (0.1, 0.8, 0.9)], ids=str)
def test_one_pair_that_lies_below_the_claim_is_enough(rates: tuple[float, ...]) -> None:
    """Neighbours in the order of their rates, or not: each symbol alone is above the claim, what they mix is not."""
    columns = np.stack([1.0 - np.array(rates), rates])
    alone, proof = -entropy(columns, axis=0), PairsProof(claim=0.0, outer=NONE, inner=NONE)
    check_pairs(columns, alone - 1.0, 0.1, proof, 0.0)
    prices = alone - 1.0
    prices[[0, -1]] = alone[[0, -1]] - 0.01
    with pytest.raises(CertificateError, match="a pair of symbols may lie below it"):
        check_pairs(columns, prices, 0.1, proof, 0.0)


def test_entries_of_a_class_differ_by_a_share() -> None:
    columns = np.array([[0.01, 0.01 * (1.0 - 1e-10), 0.5], [0.99, 0.99, 0.5]])
    cells = np.array([0, 0, 1], dtype=np.int32)
    assert spread_within(columns, columns[:, [0, 2]], cells) == pytest.approx(1e-10, rel=1e-5)
    assert spread_within(columns, columns, None) == 0.0
