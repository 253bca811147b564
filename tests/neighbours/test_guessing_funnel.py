"""The guessing funnel: closed form, brute force over deterministic maps, and its certificates."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from helpers_cli import assert_one_line_error, run
from privfunnel import measures
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError
from privfunnel.neighbours import guessing_funnel


def random_problem(seed: int, n_s: int = 3, n_x: int = 4) -> pf.Problem:
    return pf.Problem(np.random.default_rng(seed).dirichlet(np.full(n_s * n_x, 0.6)).reshape(n_s, n_x))


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
def test_a_binary_symmetric_table_has_a_straight_line(noise: float) -> None:
    """P_c(S|Y) − ½ = (1 − 2δ)(P_c(X|Y) − ½) for every channel, hence for the best one."""
    problem = pf.Problem([[(1 - noise) / 2, noise / 2], [noise / 2, (1 - noise) / 2]])
    for allowed in np.linspace(0.5, 1 - noise, 4):
        point = guessing_funnel.solve(problem, allowed)
        assert point.public_accuracy == pytest.approx(0.5 + (allowed - 0.5) / (1 - 2 * noise), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_no_channel_is_above_the_line_and_the_point_is_on_it(seed: int) -> None:
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    least, most = guessing_funnel.accuracy_range(problem)
    point = guessing_funnel.solve(problem, 0.5 * (least + most))
    assert point.private_accuracy <= point.requested + 1e-9
    assert point.gap <= 1e-9
    maps = [np.eye(4)[list(labels)] for labels in itertools.product(range(4), repeat=4)]
    for channel in [*maps, *rng.dirichlet(np.full(6, 0.2), size=(200, 4))]:
        told = float(measures.guessing_accuracy(problem.p_sx @ channel))
        kept = float(measures.guessing_accuracy(problem.p_x[:, None] * channel))
        assert kept <= point.certificate.upper_bound(told) + 1e-12


def test_the_curve_is_concave_and_ends_at_x_itself(tmp_path: Path) -> None:
    problem = pf.instances.load("heart-failure")
    curve = guessing_funnel.trace(problem, points=6)
    told = np.array([point.public_accuracy for point in curve.points])
    assert (np.diff(told, 2) <= 1e-9).all()
    assert told[-1] == pytest.approx(1.0, abs=1e-9)
    assert max(point.gap for point in curve.points) <= 1e-9
    assert told[2] <= curve.proved(curve.points[2].requested) <= told[2] + 1e-9
    curve.save(tmp_path / "guessing.json")
    again = guessing_funnel.GuessingCurve.load(tmp_path / "guessing.json")
    for one, other in zip(again.rows(), curve.rows(), strict=True):
        assert one == pytest.approx(other, abs=1e-12)
    assert "6 points" in repr(again)
    stored = json.loads((tmp_path / "guessing.json").read_text())
    stored["points"][0]["intercept"] -= 1e-6
    with pytest.raises(CertificateError, match="claims"):
        guessing_funnel.GuessingCurve.from_dict(stored)


def test_forged_certificates_fail() -> None:
    problem = random_problem(9)
    least, most = guessing_funnel.accuracy_range(problem)
    certificate = guessing_funnel.solve(problem, 0.5 * (least + most)).certificate
    certificate.verify(problem)
    assert "≤" in repr(certificate)
    forged = [
        (changed(certificate, intercept=certificate.intercept - 1e-9), "claims the line"),
        (changed(certificate, slope=0.5 * certificate.slope), "claims the line"),
        (changed(certificate, slope=-1.0), "a sign is wrong"),
        (changed(certificate, slope=np.inf), "not a usable number"),
        (changed(certificate, weights=certificate.body.weights[:, 1:]), "weights are not"),
        (changed(certificate, weights=np.full_like(certificate.body.weights, np.nan)), "usable numbers"),
        (changed(certificate, weights=np.roll(certificate.body.weights, 1, axis=1)), "claims the line"),
        (changed(certificate, fingerprint="0" * 64), "another problem"),
    ]
    for each, said in forged:
        with pytest.raises(CertificateError, match=said):
            each.verify(problem)
    # However small weights are: λ over their sum must not become infinite, below which every claim would lie.
    tiny = changed(certificate, weights=np.full_like(certificate.body.weights, 1e-320))
    with pytest.raises(CertificateError, match="claims"):
        tiny.verify(problem)
    with pytest.raises(CertificateError, match="claims"):
        changed(tiny, intercept=-1e6).verify(problem)
    # Weights of the wrong scale prove the same line: the checker scales them itself.
    changed(
        certificate, weights=7.0 * certificate.body.weights, intercept=certificate.intercept + 1e-12
    ).verify(problem)


def test_requests_out_of_reach_are_refused() -> None:
    problem = random_problem(2)
    assert guessing_funnel.solve(problem, 1.0).public_accuracy == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(InfeasibleError, match="without any release"):
        guessing_funnel.solve(problem, 0.1)
    for accuracy in (float("nan"), -1.0, "x"):
        with pytest.raises(InvalidInputError, match="probability"):
            guessing_funnel.solve(problem, accuracy)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="public symbols"):
        guessing_funnel.solve(random_problem(0, n_s=2, n_x=401), 0.9)
    with pytest.raises(InvalidInputError, match="empty"):
        guessing_funnel.trace(problem, accuracies=[])
    with pytest.raises(InvalidInputError, match="points"):
        guessing_funnel.trace(problem, points=1)


@pytest.mark.parametrize("table", [[[2, 3, 4]], [[2], [3]], [[1, 0], [0, 1]]])
def test_tables_with_little_in_them_have_a_point(table: list[list[int]]) -> None:
    problem = pf.Problem(table)
    for accuracy in guessing_funnel.accuracy_range(problem):
        assert guessing_funnel.solve(problem, accuracy).gap <= 1e-9


def test_the_command_shows_and_writes(tmp_path: Path) -> None:
    result = run("guess", "synthetic-skewed", "--points", 3, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Guessing funnel" in result.output
    assert (tmp_path / "out" / "guessing.json").exists()
    proofs = tmp_path / "out" / "certificates.npz"
    verified = run("verify", proofs, "synthetic-skewed")
    assert verified.exit_code == 0, verified.output
    assert "VERIFIED: all 3 lines" in verified.output
    assert "P(X guessed) ≤" in verified.output
    told = json.loads(run("verify", proofs, "synthetic-skewed", "--json").output)
    assert [line["verified"] for line in told] == [True] * 3
    assert_one_line_error(run("verify", proofs, "synthetic-uniform"), "another problem")
    assert_one_line_error(run("verify", proofs, "synthetic-skewed", "--disclosure", "50%"), "--disclosure")
    rows = json.loads(run("guess", "synthetic-skewed", "--points", 2, "--json").output)
    assert rows[-1]["public_accuracy"] == pytest.approx(1.0)
    assert_one_line_error(run("guess", "synthetic-skewed", "--points", 1), "points")
