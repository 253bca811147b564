"""What version 0.1.0 wrote still loads, still verifies, and still says the same."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import audit, release
from privfunnel.bottleneck import BottleneckCurve
from privfunnel.certificate import Certificate, load_bundle
from privfunnel.errors import CertificateError

OLD = Path(__file__).parent / "fixtures" / "v0.1"

# Numbers are recomputed from the stored channels: they agree to the last digits of the sums, no further.
EXACT = 1e-12


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    return json.loads((OLD / "numbers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    return pf.Problem.load(OLD / "problem.json")


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=EXACT)


def test_a_problem_loads_and_is_the_packaged_one(problem: pf.Problem, numbers: dict[str, Any]) -> None:
    assert problem.fingerprint == pf.instances.load("heart-failure").fingerprint
    assert problem.disclosure_ceiling == close(numbers["problem"]["disclosure_ceiling"])
    assert problem.leakage_ceiling == close(numbers["problem"]["leakage_ceiling"])


def test_a_solution_loads_with_its_numbers(problem: pf.Problem, numbers: dict[str, Any]) -> None:
    solution = pf.Solution.load(OLD / "solution.json")
    old = numbers["solution"]
    assert solution.problem.fingerprint == problem.fingerprint
    assert solution.disclosure == close(old["disclosure"])
    assert solution.leakage == close(old["leakage"])
    assert solution.lower_bound == close(old["lower_bound"])
    assert str(solution.status) == old["status"]
    assert problem.evaluate(solution.channel).leakage == close(old["leakage"])


def test_a_certificate_loads_and_verifies(problem: pf.Problem, numbers: dict[str, Any]) -> None:
    certificate = Certificate.load(OLD / "certificate.npz")
    old = numbers["certificate"]
    assert certificate.verify(problem) == old["value"]
    assert certificate.slope == old["slope"]
    assert certificate.lower_bound(numbers["solution"]["disclosure"]) == close(old["lower_bound"])


def test_the_certificates_of_a_curve_load_and_verify(problem: pf.Problem, numbers: dict[str, Any]) -> None:
    bundle = load_bundle(OLD / "certificates.npz")
    assert [certificate.verify(problem) for certificate in bundle] == numbers["certificates"]["verify"]
    assert [certificate.slope for certificate in bundle] == numbers["certificates"]["slope"]


def test_a_certificate_of_then_is_refused_for_another_table_today() -> None:
    with pytest.raises(CertificateError, match="another problem"):
        Certificate.load(OLD / "certificate.npz").verify(pf.instances.load("synthetic-skewed"))


def test_a_curve_loads_point_by_point(numbers: dict[str, Any]) -> None:
    curve = pf.Curve.load(OLD / "curve.json")
    for name, expected in numbers["curve"].items():
        found = [getattr(solution, name) for solution in curve.solutions]
        assert found == (expected if name == "status" else close(expected))


def test_a_bottleneck_loads_point_by_point(numbers: dict[str, Any]) -> None:
    curve = BottleneckCurve.load(OLD / "bottleneck.json")
    assert isinstance(curve, BottleneckCurve)
    for name, expected in numbers["bottleneck"].items():
        assert [getattr(solution, name) for solution in curve.solutions] == close(expected)


def test_a_comparison_loads_with_its_entries(numbers: dict[str, Any]) -> None:
    result = pf.Comparison.load(OLD / "comparison.json")
    old = numbers["comparison"]
    assert [entry.label for entry in result.entries] == old["labels"]
    assert result.lower_bound.tolist() == close(old["lower_bound"])
    for entry, leakage in zip(result.entries, old["leakage"], strict=True):
        assert entry.leakage.tolist() == close(leakage)


def test_a_mechanism_loads_and_keeps_its_promise(numbers: dict[str, Any]) -> None:
    mechanism = pf.Mechanism.load(OLD / "mechanism.json")
    assert mechanism.disclosure == close(numbers["mechanism"]["disclosure"])
    assert mechanism.leakage == close(numbers["mechanism"]["leakage"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pf.PrivFunnelWarning)  # few rows for the cells
        found = audit.table(OLD / "patients.csv", mechanism, bootstrap=20)
    assert found.recount is not None
    assert found.recount.same_table
    assert found.recount.holds
    assert found.recount.leakage == close(numbers["mechanism"]["leakage"])


def test_a_mechanism_of_then_draws_the_same_release_today(tmp_path: Path) -> None:
    mechanism = pf.Mechanism.load(OLD / "mechanism.json")
    with pytest.warns(pf.PrivFunnelWarning, match="seed|keep_order"):
        release.write(
            OLD / "patients.csv", mechanism, tmp_path / "release.csv", seed=1, form="symbols", keep_order=True
        )
    assert (tmp_path / "release.csv").read_bytes() == (OLD / "release.csv").read_bytes()


def test_a_mechanism_saved_again_is_the_same(tmp_path: Path) -> None:
    mechanism = pf.Mechanism.load(OLD / "mechanism.json")
    mechanism.save(tmp_path / "mechanism.json")
    again = pf.Mechanism.load(tmp_path / "mechanism.json")
    assert np.array_equal(again.channel, mechanism.channel)
    assert again.promise == mechanism.promise
    assert again.x_labels == mechanism.x_labels
