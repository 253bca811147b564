"""``privfunnel verify`` and the certificate files that other commands write."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers_cli import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("design") / "out"
    result = run("solve", "heart-failure", "--disclosure", "80%", "--solver", "global", "--out", out)
    assert result.exit_code == 0, result.output
    assert "certificate.npz" in result.output
    return out


def test_a_certificate_verifies(folder: Path) -> None:
    result = run("verify", folder / "certificate.npz", "heart-failure", "--disclosure", "80%")
    assert result.exit_code == 0, result.output
    assert "L(R) ≥" in result.output
    solution = json.loads((folder / "solution.json").read_text())
    assert f"{solution['lower_bound']:.9f}" in result.output


def test_json_is_in_nats_whatever_is_shown(folder: Path) -> None:
    asked = ("verify", folder / "certificate.npz", "heart-failure", "--disclosure", "80%", "--units")
    nats, bits = (json.loads(run(*asked, unit, "--json").output) for unit in ("nats", "bits"))
    assert nats == bits
    assert (nats[0]["verified"], nats[0]["units"]) == (True, "nats")
    solution = json.loads((folder / "solution.json").read_text())
    assert nats[0]["lower_bound"] == pytest.approx(solution["lower_bound"], abs=1e-12)
    shown = run(*asked, "bits").output
    assert f"{nats[0]['lower_bound'] / np.log(2):.9f}" in shown


def test_the_wrong_table_exits_with_2(folder: Path) -> None:
    result = run("verify", folder / "certificate.npz", "heart-failure+1e-3")
    assert result.exit_code == 2
    assert "another problem" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_damaged_file_exits_with_2(folder: Path, tmp_path: Path) -> None:
    data = (folder / "certificate.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[:200])
    for path in (tmp_path / "cut.npz", tmp_path / "absent.npz"):
        result = run("verify", path, "heart-failure")
        assert result.exit_code == 2
        assert path.name in result.stderr


def test_a_curve_comes_with_its_bundle(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run("curve", "synthetic-uniform", "--points", "5", "--out", tmp_path / "c").exit_code == 0
    result = run("verify", tmp_path / "c" / "certificates.npz", "synthetic-uniform")
    assert result.exit_code == 0, result.output
    assert result.output.count("L(R) ≥") == 3


def test_a_design_without_leakage_says_that_it_needs_no_certificate(folder: Path, tmp_path: Path) -> None:
    result = run("solve", "heart-failure", "--disclosure", "40%", "--out", tmp_path / "free")
    assert result.exit_code == 0, result.output
    assert "No certificate is written, and none is needed: leakage is never negative." in result.output
    result = run(
        "solve", "heart-failure", "--disclosure", "80%", "--solver", "greedy", "--out", tmp_path / "greedy"
    )
    assert "none is needed" not in result.output
    result = run("verify", tmp_path / "free" / "certificate.npz", "heart-failure")
    assert result.exit_code == 2
    assert "needs none: leakage is never negative" in result.stderr


def test_the_certificate_of_a_part_of_the_rows_verifies_with_its_solution(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    rows = [f"{i % 2},{(i + i // 7) % 2 + (i % 5 == 0)},{i % 3}" for i in range(600)]
    (tmp_path / "t.csv").write_text("\n".join(["s,a,b", *rows]) + "\n")
    asked = (tmp_path / "t.csv", "--private", "s", "--public", "a,b")
    result = run("solve", *asked, "--disclosure", "90%", "--holdout", 0.3, "--out", tmp_path / "d")
    assert result.exit_code == 0, result.output
    certificate = tmp_path / "d" / "certificate.npz"
    result = run("verify", certificate, *asked)
    assert result.exit_code == 2
    assert "--holdout" in result.stderr
    assert "solution.json" in result.stderr
    result = run("verify", certificate, tmp_path / "d" / "solution.json")
    assert result.exit_code == 0, result.output
    assert "VERIFIED: the line is proved again" in result.output
    assert "than it says" in result.output
