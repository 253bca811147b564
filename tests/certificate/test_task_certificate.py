"""Certificates of task funnels: what they prove, and that forged ones do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.certificate import TaskBody, load_bundle, save_bundle
from privfunnel.certificate.kinds.task import Certificate, Partition, chords, empty, least_tilted, tighten
from privfunnel.errors import CertificateError

P_X = np.array([0.3, 0.2, 0.25, 0.25])
S = np.array([0.1, 0.6, 0.5, 0.8])
U = np.array([0.2, 0.3, 0.9, 0.6])
PROBLEM = pf.Problem(np.stack([1 - S, S]) * P_X, p_ux=np.stack([1 - U, U]) * P_X)


@pytest.fixture(scope="module")
def line() -> Certificate:
    found = pf.solve(PROBLEM, utility="90%").certificate
    assert isinstance(found.body, TaskBody)
    return found


@pytest.fixture(scope="module")
def zero() -> Certificate:
    found = pf.solve(PROBLEM, leakage=0).certificate
    assert isinstance(found.body, TaskBody)
    return found


def test_chords_lie_below(line: Certificate) -> None:
    rng = np.random.default_rng(0)
    low = rng.random(200)
    high = np.minimum(low + rng.random(200) ** 4, 1.0)
    low[:20] = 0.0
    alpha, beta = chords(low, high)
    for share in np.linspace(0.0, 1.0, 21):
        v = low + share * (high - low)
        assert np.all(alpha + beta * v <= -v * np.log(np.maximum(v, 1e-300)))


def test_boxes_cover_everything(line: Certificate) -> None:
    tasks = PROBLEM.required_tasks()
    low, high = line.body.partition.boxes(tasks)
    leaves = line.body.partition.leaves
    rng = np.random.default_rng(1)
    for w in rng.dirichlet(np.full(4, 0.3), size=200):
        v = tasks.rows @ w
        inside = np.all((low[leaves] <= v + 1e-12) & (v <= high[leaves] + 1e-12), axis=1)
        assert inside.any()


def test_tightening_keeps_what_sums_to_one() -> None:
    low, high = np.array([[0.2, 0.0, 0.0]]), np.array([[0.4, 0.3, 0.35]])
    tighten(low, high, (slice(0, 3),))
    np.testing.assert_allclose(low[0], [0.35, 0.25, 0.3], atol=1e-12)
    np.testing.assert_allclose(high[0], [0.4, 0.3, 0.35], atol=1e-12)
    assert empty(np.array([[0.7, 0.7]]), np.array([[0.8, 0.8]]), (slice(0, 2),))[0]


def test_any_multipliers_prove_something_true(line: Certificate) -> None:
    # Whatever q and slope are, the line lies below real channels: nothing about them has to be believed.
    rng = np.random.default_rng(2)
    for _ in range(20):
        q = rng.normal(size=line.body.q.shape) * rng.choice([0.1, 1.0, 10.0])
        made = TaskBody.build(PROBLEM, line.body.partition, q, float(rng.random() * 2))
        made.verify(PROBLEM)
        for n_y in (2, 4):
            point = PROBLEM.evaluate(rng.dirichlet(np.full(n_y, 0.2), size=4))
            assert point.leakage >= made.lower_bound(point.utility)


THREE = np.array([[0.2, 0.3, 0.1, 0.6], [0.1, 0.5, 0.7, 0.2], [0.7, 0.2, 0.2, 0.2]])
TERNARY = pf.Problem(np.stack([1 - S, S]) * P_X, p_ux=THREE * P_X)


@pytest.fixture(scope="module")
def tilted() -> Certificate:
    found = pf.solve(TERNARY, utility="90%").certificate
    assert isinstance(found.body, TaskBody)
    assert found.body.tilts is not None
    return found


def test_any_tilts_prove_something_true(tilted: Certificate) -> None:
    rng = np.random.default_rng(5)
    assert tilted.body.tilts is not None
    for size in (0.1, 1.0, 30.0):
        q = tilted.body.q + rng.normal(size=tilted.body.q.shape) * size
        tilts = tilted.body.tilts + rng.normal(size=tilted.body.tilts.shape) * size
        made = TaskBody.build(TERNARY, tilted.body.partition, q, tilted.slope, tilts=tilts)
        made.verify(TERNARY)
        for _ in range(20):
            point = TERNARY.evaluate(rng.dirichlet(np.full(4, 0.2), size=4))
            assert point.leakage >= made.lower_bound(point.utility)
            assert point.leakage >= tilted.lower_bound(point.utility)


def test_least_tilted_is_below_every_value_in_the_box() -> None:
    rng = np.random.default_rng(6)
    blocks, weights = (slice(0, 3), slice(3, 5)), np.array([1.0, 1.0, 1.0, 0.5, 0.5])
    v = np.concatenate([rng.dirichlet(np.ones(3), 300), rng.dirichlet(np.ones(2), 300)], axis=1)
    low, high = np.maximum(v - 0.2 * rng.random(v.shape), 0.0), np.minimum(v + 0.2 * rng.random(v.shape), 1.0)
    tilts = rng.normal(size=v.shape) * 3.0
    least = least_tilted(low, high, weights, tilts, blocks)
    value = (tilts * v).sum(axis=1) - (v * np.log(np.maximum(v, 1e-300))) @ weights
    assert np.all(least <= value)
    at_point = least_tilted(v, v, weights, tilts, blocks)
    np.testing.assert_allclose(at_point, value, atol=1e-9)


@pytest.mark.parametrize("kind", ["tilts", "fewer", "nan", "none"])
def test_forged_tilts_do_not_verify(tilted: Certificate, kind: str, tmp_path: Path) -> None:
    assert tilted.body.tilts is not None
    tilted.save(tmp_path / "c.npz")
    (again,) = load_bundle(tmp_path / "c.npz")
    again.verify(TERNARY)
    assert again.intercept == tilted.intercept
    tilts = {
        "tilts": tilted.body.tilts + np.array([0.1, -0.1, 0.0]),
        "fewer": tilted.body.tilts[:-1],
        "nan": np.where(
            np.arange(tilted.body.tilts.size).reshape(tilted.body.tilts.shape) == 4, np.nan, tilted.body.tilts
        ),
        "none": None,
    }[kind]
    with pytest.raises(CertificateError):
        changed(tilted, tilts=tilts).verify(TERNARY)


def test_without_leakage_no_channel_keeps_more(zero: Certificate) -> None:
    assert zero.claim.scope.zero
    free = pf.solve(PROBLEM, leakage=0)
    assert free.utility <= zero.most_utility(0.0) <= free.utility + 1e-5
    assert zero.lower_bound(1.0) == -np.inf  # it says nothing of leakage
    assert zero.most_utility(0.1) == np.inf
    assert "without leakage" in repr(zero)
    assert "I(U;Y)" in line_of(zero)


def line_of(certificate: Certificate) -> str:
    return certificate.told("bits")


@pytest.mark.parametrize("which", ["line", "zero"])
def test_files_keep_certificates(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    certificate: Certificate = request.getfixturevalue(which)
    certificate.save(tmp_path / "c.npz")
    (again,) = load_bundle(tmp_path / "c.npz")
    assert isinstance(again.body, TaskBody)
    again.verify(PROBLEM)
    assert again.intercept == certificate.intercept
    assert (again.slope, again.claim.scope.zero) == (certificate.slope, certificate.claim.scope.zero)


def test_one_file_holds_proofs_of_several_kinds(line: Certificate, tmp_path: Path) -> None:
    plain = pf.solve(pf.Problem(PROBLEM.p_sx), disclosure="90%").certificate
    assert plain is not None
    save_bundle(tmp_path / "both.npz", [plain, line])
    first, second = load_bundle(tmp_path / "both.npz")
    first.verify(pf.Problem(PROBLEM.p_sx))
    second.verify(PROBLEM)


def forged(line: Certificate, kind: str) -> Certificate:
    tree = line.body.partition
    if kind == "line":
        return changed(line, intercept=line.intercept + 1e-6)
    if kind == "slope":
        return changed(line, slope=line.slope + 1e-3)
    if kind == "negative slope":
        return changed(line, slope=-0.1)
    if kind == "multipliers":
        return changed(line, q=line.body.q[:-1])
    if kind == "nan":
        return changed(
            line, q=np.where(np.arange(line.body.q.size).reshape(line.body.q.shape) == 3, np.nan, line.body.q)
        )
    if kind == "moved multipliers":
        return changed(line, q=line.body.q + np.array([0.0, 0.2]))
    if kind == "row":
        return changed(line, partition=Partition(np.where(tree.variable >= 0, 9, -1), tree.split, tree.first))
    if kind == "circle":
        first = tree.first.copy()
        first[np.flatnonzero(tree.variable >= 0)[-1]] = 0
        return changed(line, partition=Partition(tree.variable, tree.split, first))
    if kind == "shared child":
        first = tree.first.copy()
        cut = np.flatnonzero(tree.variable >= 0)
        first[cut[0]] = first[cut[-1]]
        return changed(line, partition=Partition(tree.variable, tree.split, first))
    if kind == "split":
        split = tree.split.copy()
        split[0] = np.inf
        return changed(line, partition=Partition(tree.variable, split, tree.first))
    return changed(line, zero=True)


KINDS = ("line", "slope", "negative slope", "multipliers", "nan", "moved multipliers", "row", "circle",
         "shared child", "split", "zero")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_forged_certificates_do_not_verify(line: Certificate, kind: str) -> None:
    line.verify(PROBLEM)
    with pytest.raises(CertificateError):
        forged(line, kind).verify(PROBLEM)


def test_cuts_outside_of_their_box_prove_nothing_false(line: Certificate) -> None:
    tree = line.body.partition
    for value in (-3.0, 0.0, 2.0):
        split = np.where(tree.variable >= 0, value, 0.0)
        made = TaskBody.build(PROBLEM, Partition(tree.variable, split, tree.first), line.body.q, line.slope)
        assert made.intercept <= line.intercept + 1e-9
