"""Certificates made to deceive: each must fail, and with a CertificateError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.certificate import Certificate, PlainBody, Proof
from privfunnel.errors import CertificateError


@pytest.fixture
def problem() -> pf.Problem:
    return pf.Problem([[0.2, 0.1, 0.15], [0.1, 0.3, 0.15]])


def one_leaf(claim: float, q: Any, nu: Any = (0.0,)) -> Proof:
    """A tree of a single box, the whole simplex."""
    return Proof(
        claim=claim,
        q=np.array([q], dtype=np.float64),
        nu=np.array(nu, dtype=np.float64),
        variable=np.array([-1], dtype=np.int32),
        split=np.zeros((1, 2)),
        first=np.zeros(1, dtype=np.int32),
    )


def forge(problem: pf.Problem, proof: Proof, **changes: Any) -> Certificate:
    certificate = PlainBody.build(problem, np.zeros(problem.n_x), 0.5, [proof])
    return changed(certificate, **changes)


def test_an_honest_single_box_is_accepted(problem: pf.Problem) -> None:
    # F(w) = −H(Pw) + H(w)/2 ≥ −log 2 over the whole simplex.
    forge(problem, one_leaf(-np.log(2.0) - 1e-9, [0.0, 0.0], [-np.log(2.0)])).verify(problem)


@pytest.mark.parametrize(
    "proof",
    [
        one_leaf(5.0, [1.7e308, -1.7e308]),
        one_leaf(5.0, [np.nan, 0.0]),
        one_leaf(np.nan, [0.0, 0.0]),
        one_leaf(5.0, [0.0, 0.0], [1e308]),
        one_leaf(-1e300, [0.0, 0.0]),
        one_leaf(-10.0, [0.0, 0.0], [[0.0]]),
        one_leaf(0.0, [0.0, 0.0], [0.0]),
        changed(one_leaf(5.0, [0.0, 0.0]), q=np.zeros((1, 2), dtype=object)),
        changed(one_leaf(5.0, [0.0, 0.0]), first=np.zeros(1, dtype=np.int64)),
    ],
    ids=[
        "overflow",
        "nan",
        "nan claim",
        "huge",
        "huge claim",
        "matrix",
        "too much",
        "objects",
        "wide integers",
    ],
)
def test_a_forged_tree_fails(problem: pf.Problem, proof: Proof) -> None:
    with pytest.raises(CertificateError):
        forge(problem, proof).verify(problem)


@pytest.mark.parametrize(
    "changes",
    [
        {"prices": np.full(3, np.nan)},
        {"prices": np.full(3, 1e300)},
        {"prices": np.zeros(3, dtype=object)},
        {"slope": -0.5},
        {"slope": np.inf},
        {"value": np.nan},
        {"intercept": 1.0},
        {"coarsening": np.array([0, 2**31 - 1], dtype=np.int32)},
        {"coarsening": np.array([0.0, 0.5])},
        {"coarsening": np.array([0], dtype=np.int32)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_forged_numbers_fail(problem: pf.Problem, changes: dict[str, Any]) -> None:
    with pytest.raises(CertificateError):
        forge(problem, one_leaf(-10.0, [0.0, 0.0]), **changes).verify(problem)


def test_what_was_verified_once_is_verified_again_after_a_change(problem: pf.Problem, tmp_path: Path) -> None:
    certificate = forge(problem, one_leaf(-10.0, [0.0, 0.0]))
    certificate.verify(problem)
    bold = changed(certificate.claim, constant=certificate.claim.constant + 1.0)
    object.__setattr__(certificate, "claim", bold)
    with pytest.raises(CertificateError):
        certificate.verify(problem)
    certificate.save(tmp_path / "forged.npz")
    with pytest.raises(CertificateError):
        Certificate.load(tmp_path / "forged.npz").verify(problem)
