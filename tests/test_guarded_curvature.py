"""Boxes that set the attackers' curvature against that of −w log w: what they bound, and attacks on what they store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from funnels import toy
from privfunnel import certificate
from privfunnel.certificate import GuardedCertificate
from privfunnel.certificate.bundle import CHAINS_VERSION, CURVED_VERSION
from privfunnel.certificate.checker import check
from privfunnel.certificate.curvature import Case as Boxes
from privfunnel.certificate.curvature import Curved, curvature_of, curves_of, cut_down
from privfunnel.certificate.stacking import Stack, stack
from privfunnel.certificate.tree import Case
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx


@pytest.fixture(scope="module")
def proved() -> tuple[pf.Problem, GuardedCertificate]:
    problem = toy(6)
    solution = pf.solve(problem, disclosure="70%", known=["a", "b"], gap=1e-4)
    assert isinstance(solution.certificate, GuardedCertificate)
    return problem, solution.certificate


def curved_of(proof: GuardedCertificate) -> Curved:
    curved = proof.proofs[0].curved
    assert curved is not None
    return curved


def with_curved(proof: GuardedCertificate, curved: Curved | None) -> GuardedCertificate:
    return replace(proof, proofs=(replace(proof.proofs[0], curved=curved),))


def images_of(problem: pf.Problem, proof: GuardedCertificate) -> Stack:
    return stack(proof.threat.strata(problem)[0], proof.threat, proof.weights.tolist(), zero=False)


def bracket(images: Stack, proof: GuardedCertificate, w: Array) -> Array:
    """F(w) of posteriors (n, M), in nats."""
    t = w @ images.columns
    leaks = sum(xlogx(t[:, b.places]).sum(axis=1) - xlogx(t[:, b.places].sum(axis=1)) for b in images.blocks)
    return np.asarray(leaks - proof.slope * xlogx(w).sum(axis=1) - w @ proof.prices)


def boxes_around(
    images: Stack, proof: GuardedCertificate, centre: Array, width: float, share: float
) -> Boxes:
    """Boxes around some posteriors (n, M), with the multipliers of these."""
    t = centre @ images.columns
    q = np.zeros_like(t)
    for block in images.blocks:
        q[:, block.places] = np.log(t[:, block.places] / t[:, block.places].sum(axis=1, keepdims=True))
    safe, shift = images.normalised(q)
    lower, upper = centre * (1.0 - share * width), np.minimum(centre * (1.0 + width), 1.0)
    return Boxes(lower, upper, safe, shift, proof.prices, proof.slope, 0.0)


@pytest.mark.parametrize(("width", "share"), [(0.05, 1.0), (0.5, 1.0), (2.0, 0.5)])
def test_no_posterior_of_a_box_is_below_its_bound(
    proved: tuple[pf.Problem, GuardedCertificate], width: float, share: float
) -> None:
    problem, proof = proved
    images, rng = images_of(problem, proof), np.random.default_rng(3)
    centre = rng.dirichlet(np.ones(problem.n_x), 40)
    case = boxes_around(images, proof, centre, width, share)
    matrix = curvature_of(images, case.q, case.lower, case.upper)
    scales = np.sqrt(centre)[:, :, None] * (matrix + 10.0) * np.sqrt(centre)[:, None, :]
    bend = 0.9 * np.linalg.eigvalsh(scales)[:, :1] / centre
    nu = (case.q @ images.columns.T - proof.prices - proof.slope * np.log(centre)).mean(axis=1)
    rows = Curved(np.arange(40, dtype=np.int32), nu, bend, centre, case.lower, case.upper)
    curves = curves_of(images, case, rows)
    assert np.all(np.isfinite(curves.excess))
    for number in range(40):
        w = rng.uniform(case.lower[number], case.upper[number], (400, problem.n_x))
        w = centre[number] + (w - w.mean(axis=0)) * 0.5 * min(width, 1.0)
        w = w / w.sum(axis=1, keepdims=True)
        inside = np.all((w >= case.lower[number]) & (w <= case.upper[number]), axis=1)
        assert inside.sum() > 10
        assert bracket(images, proof, w[inside]).min() >= -curves.excess[number]
    # More curvature than there is proves nothing at all.
    greedy = curves_of(images, case, rows._replace(curvature=bend * 1.2))
    assert np.all(np.isinf(greedy.excess))


def test_a_cut_counts_only_where_it_is_safe(proved: tuple[pf.Problem, GuardedCertificate]) -> None:
    problem, proof = proved
    images, centre = images_of(problem, proof), np.random.default_rng(4).dirichlet(np.ones(problem.n_x), 5)
    case = boxes_around(images, proof, centre, 0.5, 1.0)._replace(claim=0.5)
    nu = np.zeros(5)
    rows = Curved(np.arange(5, dtype=np.int32), nu, np.zeros_like(centre) - 1e-3, centre, centre, centre)
    curves = curves_of(images, case, rows)
    lower, upper = cut_down(curves, rows, case.lower, case.upper)
    assert np.array_equal(lower, case.lower)  # nothing is half a nat above the least
    assert np.array_equal(upper, case.upper)
    lower, upper = cut_down(curves._replace(excess=np.full(5, -9.0)), rows, case.lower, case.upper)
    assert np.array_equal(lower, centre)
    assert np.array_equal(upper, centre)


def test_curvature_survives_its_file_and_old_files_have_none(
    proved: tuple[pf.Problem, GuardedCertificate], tmp_path: Path
) -> None:
    problem, proof = proved
    plain = pf.solve(problem, guarantees=["lip=0.1"], gap=1e-3).certificate
    assert isinstance(plain, GuardedCertificate)
    for made, version in ((proof, CURVED_VERSION), (plain, CHAINS_VERSION)):
        made.save(tmp_path / "proof.npz")
        with np.load(tmp_path / "proof.npz") as data:
            assert int(data["version"]) == version
        (read,) = certificate.load_bundle(tmp_path / "proof.npz")
        assert isinstance(read, GuardedCertificate)
        read.verify(problem)
    assert plain.proofs[0].curved is None


@pytest.mark.parametrize(
    "forge",
    [
        lambda rows: rows._replace(curvature=rows.curvature * 3.0 + 1.0),
        lambda rows: rows._replace(nu=rows.nu - 1.0),
        lambda rows: rows._replace(centre=rows.centre * 0.5),
        lambda rows: rows._replace(lower=np.zeros_like(rows.lower), upper=np.ones_like(rows.upper)),
        lambda rows: None,
    ],
)
def test_a_proof_without_its_curvature_proves_too_little(
    proved: tuple[pf.Problem, GuardedCertificate], forge: Callable[[Curved], Curved | None]
) -> None:
    problem, proof = proved
    with pytest.raises(CertificateError, match=r"short of it|leaves out too much"):
        with_curved(proof, forge(curved_of(proof))).verify(problem)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda rows: rows._replace(nodes=rows.nodes[::-1].copy()), "do not exist"),
        (lambda rows: rows._replace(nodes=rows.nodes + np.int32(1 << 20)), "do not exist"),
        (lambda rows: rows._replace(nodes=rows.nodes.astype(np.int64)), "do not fit"),
        (lambda rows: rows._replace(centre=rows.centre[:, 1:]), "do not fit"),
        (lambda rows: rows._replace(nu=np.full_like(rows.nu, np.nan)), "too large or none"),
        (lambda rows: rows._replace(curvature=np.full_like(rows.curvature, 1e9)), "too large or none"),
    ],
)
def test_damaged_curvature_is_refused(
    proved: tuple[pf.Problem, GuardedCertificate], forge: Callable[[Curved], Curved], message: str
) -> None:
    problem, proof = proved
    with pytest.raises(CertificateError, match=message):
        with_curved(proof, forge(curved_of(proof))).verify(problem)


def test_cuts_down_to_nothing_are_not_believed(proved: tuple[pf.Problem, GuardedCertificate]) -> None:
    problem, proof = proved
    rows = curved_of(proof)
    higher = replace(proof.proofs[0], claim=0.01, curved=rows._replace(lower=np.ones_like(rows.lower)))
    with pytest.raises(CertificateError, match=r"short of it|leaves out too much"):
        replace(proof, proofs=(higher,)).verify(problem)


def test_a_plain_certificate_has_no_curvature(proved: tuple[pf.Problem, GuardedCertificate]) -> None:
    problem, proof = proved
    case = Case(prices=proof.prices, slope=proof.slope, proof=proof.proofs[0])
    columns = images_of(problem, proof).columns
    with pytest.raises(CertificateError, match="no curvature"):
        check(columns, [case])
