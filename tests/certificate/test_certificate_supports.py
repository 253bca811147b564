"""Certificates by supports: proved again from the table alone, whatever is changed in them is found out."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.certificate import (
    Certificate,
    PlainBody,
    SupportsProof,
    load_bundle,
    rivalry,
    rivals,
    save_bundle,
    supports,
)
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx
from privfunnel.model.equal_symbols import lumping_of


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    """Three private symbols, seven public ones, two of which are one class."""
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 40, (3, 7))
    counts[0, 2] = 0
    counts[:, 6] = 2 * counts[:, 3]
    return pf.Problem(counts)


@pytest.fixture(scope="module")
def by_trees(problem: pf.Problem) -> Certificate:
    """The certificate of a point of the curve, by trees over classes."""
    solution = pf.solve(problem, disclosure=0.85 * problem.disclosure_ceiling, solver="global", lump=True)
    assert solution.certificate is not None
    assert solution.certificate.body.cells is not None
    return solution.certificate


@pytest.fixture(scope="module")
def certificate(problem: pf.Problem, by_trees: Certificate) -> Certificate:
    """The same line, by supports."""
    return rebuilt(problem, by_trees, proofs=[SupportsProof(claim=by_trees.body.value)])


def rebuilt(problem: pf.Problem, certificate: Certificate, **changes: object) -> Certificate:
    """The certificate with other parts, its line as the builder would claim it."""
    parts = {
        name: getattr(certificate.body, name) for name in ("prices", "proofs", "coarsening", "cells")
    } | {"slope": certificate.slope}
    return PlainBody.build(problem, **(parts | changes))


def test_it_proves_the_line_that_trees_prove(
    problem: pf.Problem, by_trees: Certificate, certificate: Certificate
) -> None:
    certificate.verify(problem)
    by_trees.verify(problem)
    assert certificate.body.value == by_trees.body.value
    assert certificate.lower_bound(1.0) == by_trees.lower_bound(1.0)
    assert certificate.n_nodes == 0


def test_more_than_that_is_refused(problem: pf.Problem, certificate: Certificate) -> None:
    for claim in (1e-6, 1e-3):  # prices of an optimum are tight somewhere
        raised = rebuilt(problem, certificate, proofs=[SupportsProof(claim=claim)])
        with pytest.raises(CertificateError, match="does not prove its claim: F is"):
            raised.verify(problem)
    with pytest.raises(CertificateError, match="claims the line"):
        changed(certificate, intercept=certificate.intercept + 1e-9).verify(problem)
    with pytest.raises(CertificateError, match="claims min F"):
        changed(certificate, value=certificate.body.value + 1e-9).verify(problem)


def test_prices_and_slopes_that_were_changed_are_found_out(
    problem: pf.Problem, certificate: Certificate
) -> None:
    for cell in range(int(certificate.body.cells.max()) + 1):  # type: ignore[union-attr]
        prices = certificate.body.prices + 1e-4 * (certificate.body.cells == cell)
        with pytest.raises(CertificateError, match="does not prove"):
            rebuilt(problem, certificate, prices=prices).verify(problem)
    with pytest.raises(CertificateError, match="does not prove"):
        rebuilt(problem, certificate, slope=0.99 * certificate.slope).verify(problem)


def test_another_table_is_found_out(problem: pf.Problem, certificate: Certificate) -> None:
    other = pf.Problem(problem.p_sx[::-1, ::-1])
    with pytest.raises(CertificateError, match="another problem"):
        certificate.verify(other)
    with pytest.raises(CertificateError, match=r"cells hold different|does not prove"):
        changed(certificate, fingerprint=other.fingerprint).verify(other)


@pytest.mark.parametrize("claim", [float("nan"), float("inf"), -1e300])
def test_damaged_claims_are_found_out(problem: pf.Problem, certificate: Certificate, claim: float) -> None:
    with pytest.raises(CertificateError):
        changed(certificate, proofs=(SupportsProof(claim=claim),)).verify(problem)


def test_slopes_and_mixtures_that_it_cannot_prove_are_refused(
    problem: pf.Problem, by_trees: Certificate, certificate: Certificate
) -> None:
    for slope in (0.0, 1.0, 1.5):
        with pytest.raises(CertificateError, match="slope between 0 and 1"):
            rebuilt(problem, certificate, slope=slope).verify(problem)
    with pytest.raises(CertificateError, match="mixes"):
        changed(certificate, proofs=(*certificate.body.proofs, *by_trees.body.proofs)).verify(problem)


def test_it_is_stored_and_read_back_beside_trees(
    tmp_path: Path, problem: pf.Problem, by_trees: Certificate, certificate: Certificate
) -> None:
    save_bundle(tmp_path / "both.npz", [by_trees, certificate])
    trees, supports = load_bundle(tmp_path / "both.npz")
    assert isinstance(supports.body, PlainBody)
    assert isinstance(supports.body.proofs[0], SupportsProof)
    supports.verify(problem)
    assert supports.body.value == certificate.body.value
    trees.verify(problem)
    assert trees.body.value == by_trees.body.value


def test_a_file_whose_claim_was_raised_is_refused(
    tmp_path: Path, problem: pf.Problem, certificate: Certificate
) -> None:
    save_bundle(tmp_path / "c.npz", [certificate])
    arrays = dict(np.load(tmp_path / "c.npz"))
    arrays["0.body.claims"] = arrays["0.body.claims"] + 1e-3
    np.savez(tmp_path / "forged.npz", **arrays)
    (forged,) = load_bundle(tmp_path / "forged.npz")
    with pytest.raises(CertificateError, match="does not prove"):
        forged.verify(problem)
    del arrays["0.body.kinds"]
    np.savez(tmp_path / "damaged.npz", **arrays)
    with pytest.raises(CertificateError, match="not a readable"):
        load_bundle(tmp_path / "damaged.npz")


# --- searches that are remembered -----------------------------------------------------------------------------------


@pytest.fixture
def searched(certificate: Certificate, problem: pf.Problem, monkeypatch: pytest.MonkeyPatch) -> Array:
    """The table of a search that has just proved the certificate's claim; any other search is an error."""
    monkeypatch.setattr(supports, "_SETTLED", deque(maxlen=64))
    table = np.ascontiguousarray(lumping_of(problem).lumped.p_s_given_x.T)
    prices = certificate.body.prices[np.unique(lumping_of(problem).classes, return_index=True)[1]]
    mates = rivals(rivalry(table), certificate.slope) == 0
    claim = certificate.body.proofs[0].claim
    assert supports.search(table, prices, certificate.slope, claim + 1e-10, mates).proved

    def never(*_: object) -> NoReturn:
        raise AssertionError("searched again")

    monkeypatch.setattr(supports, "_search_face", never)
    return table


@pytest.mark.usefixtures("searched")
def test_what_was_searched_before_is_not_searched_again(
    problem: pf.Problem, certificate: Certificate
) -> None:
    changed(certificate).verify(problem)
    for forged in (
        rebuilt(problem, certificate, proofs=[SupportsProof(claim=certificate.body.proofs[0].claim + 1e-9)]),
        rebuilt(problem, certificate, slope=certificate.slope * (1.0 + 1e-12)),
        rebuilt(problem, certificate, prices=certificate.body.prices * (1.0 + 1e-12)),
    ):
        with pytest.raises(AssertionError, match="searched again"):
            forged.verify(problem)


def test_rounding_of_a_table_is_no_other_table_and_a_change_is(
    searched: Array, certificate: Certificate
) -> None:
    settled = supports._SETTLED[0]
    given = (settled.prices, settled.slope)
    assert settled.settles(searched * (1.0 + 1e-15), *given, settled.cutoff - 1e-10)
    assert not settled.settles(searched * (1.0 + 1e-15), *given, settled.cutoff)
    assert not settled.settles(searched * (1.0 + 1e-9), *given, settled.cutoff - 1e-10)
    assert not settled.settles(searched[1:], *given, settled.cutoff - 1e-10)
    absent = np.argwhere(searched == 0.0)[0]
    there = searched.copy()
    there[tuple(absent)] = 1e-18
    assert not settled.settles(there, *given, settled.cutoff - 1e-10)


def test_rivals_that_a_caller_made_up_are_not_believed(
    problem: pf.Problem, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were all symbols rivals, only single ones would be looked at, and almost anything would be proved."""
    monkeypatch.setattr(supports, "_SETTLED", deque(maxlen=64))
    lumping, slope = lumping_of(problem), 0.05
    table = np.ascontiguousarray(lumping.lumped.p_s_given_x.T)
    prices = (
        xlogx(table).sum(axis=1) - 0.05
    )  # every symbol alone is at 0.05 nats, and what they mix lies below
    nobody = np.zeros((len(table), len(table)), dtype=np.bool_)
    assert supports.search(table, prices, slope, 0.049, nobody).proved
    changed = {"prices": prices[lumping.classes], "slope": slope}
    forged = rebuilt(problem, certificate, **changed, proofs=[SupportsProof(claim=0.0489)])
    with pytest.raises(CertificateError, match="does not prove its claim: F is"):
        forged.verify(problem)
