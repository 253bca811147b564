"""Certificates of guarded funnels: what they survive, and attacks on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from funnels import toy
from privfunnel import certificate, measures
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.certificate.attacker_images import stack
from privfunnel.errors import CertificateError
from privfunnel.model.threat import Threat


@pytest.fixture(scope="module")
def proved() -> tuple[pf.Problem, Certificate]:
    problem = toy(6)
    solution = pf.solve(problem, disclosure="80%", known=["a"], gap=1e-3)
    assert isinstance(solution.certificate.body, GuardedBody)
    return problem, solution.certificate


@pytest.fixture(scope="module")
def allowed() -> tuple[pf.Problem, Certificate]:
    """A proof that these guarantees, both of them binding, allow no more disclosure."""
    problem = toy(6)
    solution = pf.solve(problem, guarantees=["lip=0.1", "t-closeness=0.03"])
    assert isinstance(solution.certificate.body, GuardedBody)
    return problem, solution.certificate


def forged(proof: Certificate, **changes: Any) -> Certificate:
    return changed(proof, **changes)


def test_a_certificate_survives_its_file(proved: tuple[pf.Problem, Certificate], tmp_path: Path) -> None:
    problem, proof = proved
    proof.save(tmp_path / "proof.npz")
    (read,) = certificate.load_bundle(tmp_path / "proof.npz")
    assert isinstance(read.body, GuardedBody)
    read.verify(problem)
    assert read.lower_bound(0.5) == proof.lower_bound(0.5)
    assert read.words == proof.words
    assert certificate.Certificate.load(tmp_path / "proof.npz").words == proof.words


def test_a_certificate_of_another_problem_is_refused(proved: tuple[pf.Problem, Certificate]) -> None:
    with pytest.raises(CertificateError, match="another problem"):
        proved[1].verify(toy(7))


def test_claims_beyond_the_proof_are_refused(proved: tuple[pf.Problem, Certificate]) -> None:
    problem, proof = proved
    tree = proof.body.proofs[0]
    with pytest.raises(CertificateError, match="claims the line"):
        forged(proof, intercept=proof.intercept + 1e-9).verify(problem)
    with pytest.raises(CertificateError, match=r"nats short|leaves out too much"):
        forged(proof, proofs=(changed(tree, claim=tree.claim + 0.01),)).verify(problem)
    with pytest.raises(CertificateError):
        forged(proof, prices=proof.body.prices + 0.01 * np.arange(7)).verify(problem)
    with pytest.raises(CertificateError):
        forged(proof, slope=proof.slope * 0.5).verify(problem)
    with pytest.raises(CertificateError, match="2 trees for"):
        forged(proof, proofs=(tree, tree)).verify(problem)


def test_weaker_threats_do_not_borrow_a_proof(
    proved: tuple[pf.Problem, Certificate], allowed: tuple[pf.Problem, Certificate]
) -> None:
    problem, proof = allowed
    for looser in (
        ["lip=0.2", "t-closeness=0.03"],
        ["lip=0.1", "t-closeness=0.9"],
        ["t-closeness=0.03", "lip=0.1"],
        [],
    ):
        threat = Threat.of(problem, guarantees=looser)
        with pytest.raises(CertificateError):
            forged(proof, guards=threat).verify(problem)
    problem, proof = proved
    # An attacker that is called a, but knows b.
    everyone = Threat.of(problem, known=["b"]).attackers
    renamed = (everyone[0], changed(everyone[1], name="a"))
    with pytest.raises(CertificateError, match="knows something else"):
        forged(proof, guards=changed(proof.claim.scope.guards, attackers=renamed)).verify(problem)
    # What holds for all posteriors holds for those that tell nothing.
    silent = forged(proof, zero=True)
    silent.verify(problem)
    free = pf.solve(problem, leakage=0, known=["a"]).disclosure
    assert silent.most_disclosure(0.0) >= free - 1e-9
    assert silent.most_disclosure(1.0) == np.inf  # nor does it say anything of others
    # Everyone knows what is published: an attacker that does not know it learns less of what is released.
    shown = changed(proof.claim.scope.guards, published=Threat.of(problem, published=["b"]).published)
    with pytest.raises(CertificateError, match="does not know what is published"):
        forged(proof, guards=shown).verify(problem)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.array([-0.1, 1.1])},
        {"weights": np.array([np.nan, 1.0])},
        {"weights": np.ones(3)},
        {"prices": np.full(7, np.inf)},
        {"slope": -1.0},
        {"intercept": np.nan},
    ],
)
def test_unusable_numbers_are_refused(proved: tuple[pf.Problem, Certificate], change: dict[str, Any]) -> None:
    problem, proof = proved
    with pytest.raises(CertificateError):
        forged(proof, **change).verify(problem)


def test_any_multipliers_are_safe() -> None:
    """Whatever stands in a tree, what it says of an allowed posterior is true: Σθ φ(w) ≥ z·columns·w + shift."""
    problem = toy(6)
    wanted = ["lip=1.5", "t-closeness=0.4", "l-diversity=1.5"]
    threat = Threat.of(problem, known=["a"], guarantees=wanted)
    weights = [0.3, 0.7]
    images = stack(threat.strata(problem)[0], threat, weights, zero=False)
    rng = np.random.default_rng(0)
    for _ in range(300):
        w = problem.p_x + 0.5 * (rng.dirichlet(np.full(7, 0.5)) - problem.p_x)
        if any(each.excess(problem, w) > 0.0 for each in threat.guarantees):
            continue
        exact = 0.0
        for weight, each in zip(weights, threat.attackers, strict=True):
            for group in each.groups():
                t = problem.p_s_given_x[:, group] @ w[group]
                exact -= weight * float(t.sum()) * float(measures.entropy(t / t.sum()))
        z, shift = images.normalised(3.0 * rng.standard_normal((1, images.columns.shape[1])))
        assert float(shift[0] + z[0] @ (images.columns.T @ w)) <= exact + 1e-12
