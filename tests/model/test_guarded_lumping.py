"""Guarded funnels on classes of public symbols: nothing is lost, and the proof is checked from the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.certificate import Certificate, GuardedBody, load_bundle
from privfunnel.errors import CertificateError
from privfunnel.model.equal_symbols import classes_of
from privfunnel.model.seen_alike import guarded_lumping
from privfunnel.model.threat import Threat

#: Three classes of p(s|x), each seen by an attacker in two ways where A is known.
CLASSES = np.array([[3.0, 1.0, 2.0], [1.0, 4.0, 0.0]])
THREATS: dict[str, dict[str, Any]] = {
    "lip": {"guarantees": ["lip=0.3"]},
    "t-closeness": {"guarantees": ["t-closeness=0.1"]},
    "l-diversity": {"guarantees": ["l-diversity=1.5"]},
    "ldp": {"guarantees": ["ldp=0.5"]},
    "known": {"known": ["a"], "disclosure": "80%"},
    "published": {"published": ["a"], "leakage": 0.01},
    "maximal leakage": {"measure": "maximal-leakage", "disclosure": "85%"},
    "free": {"known": ["a"], "leakage": 0},
}


def table(copies: int, seed: int = 0) -> pf.Problem:
    """Counts with ``copies`` public symbols of each class and each value of a, in a random order."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 6, 6 * copies)
    kind, seen = np.arange(times.size) % 3, np.arange(times.size) // 3 % 2
    order = rng.permutation(times.size)
    counts = (CLASSES[:, kind] * times)[:, order]
    return pf.Problem(counts, public_columns={"a": [str(value) for value in seen[order]]})


def merged(problem: pf.Problem) -> tuple[pf.Problem, float]:
    """One symbol for each p(s|x) and value of a, and H(X|T): by other means than the package's."""
    counts, seen = np.asarray(problem.counts), np.array(problem.public_columns["a"])
    shares = (counts / counts.sum(axis=0)).round(9)
    names, inverse = np.unique(np.vstack([shares, seen.astype(float)]), axis=1, return_inverse=True)
    few = np.stack([np.bincount(inverse.reshape(-1), row) for row in counts])
    within = (
        -np.log(counts.sum(axis=0) / few.sum(axis=0)[inverse.reshape(-1)]) @ counts.sum(axis=0) / counts.sum()
    )
    return pf.Problem(few, public_columns={"a": [str(int(value)) for value in names[-1]]}), float(within)


@pytest.mark.parametrize("asked", THREATS.values(), ids=list(THREATS))
def test_a_guarded_release_of_classes_is_as_good_as_one_of_a_table_without_equal_symbols(
    asked: dict[str, Any],
) -> None:
    problem = table(12)
    few, within = merged(problem)
    at = dict(asked)
    if "disclosure" in at:  # in nats of either table
        wanted = float(at["disclosure"].rstrip("%")) / 100.0 * problem.disclosure_ceiling
        at["disclosure"] = wanted
    found = pf.solve(problem, **at)
    if "disclosure" in at:
        at["disclosure"] = max(at["disclosure"] - within, 0.0)
    expected = pf.solve(few, lump=False, **at)
    assert found.status is expected.status is pf.Status.OPTIMAL
    assert found.disclosure == pytest.approx(expected.disclosure + within, abs=2e-6)
    assert found.leakage == pytest.approx(expected.leakage, abs=2e-6)
    assert found.gap <= 1e-6
    if found.certificate is not None:
        found.certificate.verify(problem)


@pytest.mark.parametrize("guarantee", ["lip=0.3", "recursive-l-diversity=3,2", "delta-disclosure=0.4"])
def test_classes_lose_nothing_against_every_symbol_solved_by_itself(guarantee: str) -> None:
    problem = table(1, seed=3)
    lumped = pf.solve(problem, guarantees=[guarantee])
    single = pf.solve(problem, guarantees=[guarantee], lump=False, gap=1e-4)
    assert lumped.certificate.body.cells is not None
    assert single.certificate.body.cells is None
    assert lumped.disclosure == pytest.approx(single.disclosure, abs=1.1e-4)
    assert max(lumped.guaranteed.values()) == pytest.approx(max(single.guaranteed.values()), abs=1e-9)


def test_a_cap_on_single_symbols_and_tables_without_counts_have_no_classes() -> None:
    problem = table(4)
    everyone = {"k": ["k=2"], "lip": ["lip=0.3"]}
    threats = {name: Threat.of(problem, guarantees=given) for name, given in everyone.items()}
    assert guarded_lumping(problem, threats["k"]).trivial
    assert guarded_lumping(problem, threats["lip"]).n_classes == 3
    assert guarded_lumping(problem, Threat.of(problem, known=["a"])).n_classes == 6
    assert guarded_lumping(problem, threats["lip"], False).trivial
    assert guarded_lumping(pf.Problem(problem.p_sx), Threat.of(problem, guarantees=["lip=0.3"])).trivial


def test_a_curve_of_classes_is_proved_and_ends_where_its_guarantee_does() -> None:
    problem = table(12)
    curve = pf.trace(problem, guarantees=["lip=0.3"], known=["a"], points=4)
    assert curve.limit is not None
    assert curve.disclosure[-1] == pytest.approx(
        pf.solve(problem, guarantees=["lip=0.3"]).disclosure, abs=2e-6
    )
    assert np.all(curve.gap <= 1e-5)
    assert np.all(np.diff(curve.leakage) >= -1e-9)


@pytest.fixture(scope="module")
def proved() -> tuple[pf.Problem, Certificate]:
    """A table, and the certificate of its worst attacker by classes."""
    problem = table(12)
    solution = pf.solve(problem, disclosure="80%", known=["a"])
    certificate = solution.certificate
    assert isinstance(certificate.body, GuardedBody)
    assert certificate.body.cells is not None
    return problem, certificate


def test_a_certificate_of_classes_is_read_again(proved: Any, tmp_path: Any) -> None:
    problem, curved = proved
    plain = pf.solve(problem, guarantees=["lip=0.3"]).certificate
    for certificate in (plain, curved):
        certificate.save(tmp_path / "proof.npz")
        (again,) = load_bundle(tmp_path / "proof.npz")
        again.verify(problem)
        assert again.words == certificate.words


def _coarser(problem: pf.Problem, cells: Any) -> Any:
    """Classes of equal p(s|x) whatever an attacker sees of them."""
    return classes_of(np.asarray(problem.counts)).astype(np.int32)


FORGERIES: dict[str, Any] = {
    "attackers see members differently": _coarser,
    "members have other p(s|x)": lambda problem, cells: np.where(cells == 1, 0, cells - (cells > 1)),
    "one class": lambda problem, cells: np.zeros_like(cells),
    "numbers are left out": lambda problem, cells: 2 * cells,
    "negative numbers": lambda problem, cells: cells - 1,
    "a huge number": lambda problem, cells: np.where(cells == cells.max(), 2**31 - 1, cells),
    "too few": lambda problem, cells: cells[1:],
    "members are moved": lambda problem, cells: np.roll(cells, 1),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=list(FORGERIES))
def test_classes_that_hide_a_difference_are_refused(proved: Any, forge: Any) -> None:
    problem, certificate = proved
    cells = forge(problem, certificate.body.cells).astype(np.int32)
    with pytest.raises(CertificateError):
        changed(certificate, cells=cells).verify(problem)


def test_prices_that_differ_in_a_class_a_higher_line_and_a_cap_are_refused(proved: Any) -> None:
    problem, certificate = proved
    prices = certificate.body.prices.copy()
    prices[-1] += 1e-3
    capped = Threat.of(problem, known=["a"], guarantees=["k=2"])
    forged = [
        {"prices": prices},
        {"intercept": certificate.intercept + 1e-6},
        {"guards": capped},
        {"cells": None},
    ]
    for change in forged:
        with pytest.raises(CertificateError):
            changed(certificate, **change).verify(problem)


def test_who_knows_what_is_published_is_no_other_attacker() -> None:
    # Two symbols are one class here: the attackers of the classes were fewer than those of the table.
    columns = {"a": [0, 1, 1, 1], "b": [1, 0, 0, 1]}
    problem = pf.Problem([[6, 0, 3, 0], [2, 2, 1, 9]], public_columns=columns)
    known = ["a", "b", ["a", "b"]]
    solution = pf.solve(problem, disclosure="90%", published=["a"], known=known)
    assert solution.status == "optimal"
    assert list(solution.leakages) == ["a", "a, b"]
    assert solution.leakage == pf.solve(problem, disclosure="90%", published=["a"], known=["b"]).leakage
