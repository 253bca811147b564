"""Proofs of the free disclosure: tight, above exact arithmetic, carried to members and files, and not to be forged."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exactly
import privfunnel as pf
from forging import changed
from helpers_cli import run
from privfunnel.algorithms import perfect
from privfunnel.algorithms.perfect import polytope
from privfunnel.certificate import Certificate, FreeBody, FreeProof, FreeTree, load_bundle, private_vertices
from privfunnel.certificate.answer import Status
from privfunnel.certificate.private_equations import equations_of, whole_table
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, entropy
from privfunnel.model import equal_symbols as lumping
from privfunnel.solving.free_disclosure import free_certificate


def proof_of(problem: pf.Problem) -> Certificate:
    made = perfect.prove(problem, perfect.free_disclosure(problem))
    assert made is not None
    return made


def most_of(proof: Certificate) -> float:
    """The bound itself: what is read off a claim is a few roundings above it."""
    assert proof.claim.constant <= 0.0
    assert proof.most_disclosure(0.0) == pytest.approx(-proof.claim.constant, abs=1e-13)
    return -proof.claim.constant


def parts_of(proof: Certificate) -> tuple[FreeProof, ...]:
    parts = proof.body_of(FreeBody).proofs
    made = tuple(part for part in parts if isinstance(part, FreeProof))
    assert len(made) == len(parts)
    return made


def is_free(proof: Certificate | None) -> bool:
    return proof is not None and proof.body.kind == "free"


def random_table(rng: np.random.Generator, kind: str) -> Array:
    """Counts, probabilities, nearly independent ones, or counts with columns that are multiples of others."""
    n_s, n_x = int(rng.integers(2, 5)), int(rng.integers(2, 11))
    if kind == "probabilities":
        return rng.dirichlet(np.ones(n_s * n_x)).reshape(n_s, n_x)
    if kind == "nearly independent":
        apart = 10.0 ** -rng.integers(1, 13) * rng.uniform(-0.9, 0.9, (n_s, n_x))
        made = np.outer(rng.dirichlet(np.ones(n_s)), rng.dirichlet(np.ones(n_x))) * (1.0 + apart)
        return np.asarray(made / made.sum())
    made = rng.integers(0, 6, (n_s, n_x)).astype(float)
    if kind == "multiples":
        made[:, n_x // 2 :] = 2.0 * made[:, : n_x - n_x // 2]
    made = made[:, made.sum(axis=0) > 0.0]
    return np.asarray(made[made.sum(axis=1) > 0.0])


@pytest.mark.parametrize("kind", ["counts", "probabilities", "nearly independent", "multiples"])
def test_no_bound_is_below_what_exact_arithmetic_says_and_all_are_tight(kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        problem = pf.Problem(random_table(rng, kind))
        found = perfect.free_disclosure(problem)
        proof = perfect.prove(problem, found)
        assert proof is not None
        assert most_of(proof) >= exactly.free_disclosure(problem.p_sx) - 1e-12
        assert most_of(proof) - found.disclosure <= 1e-7


@pytest.mark.parametrize(("name", "known"), [("heart-failure", 1.562634), ("census-income", 2.154848)])
def test_the_most_that_is_free_is_proved_and_verify_shows_the_number_of_solve(
    name: str, known: float, tmp_path: Path
) -> None:
    problem = pf.instances.load(name)
    solution = pf.solve(problem, leakage=0)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate is not None
    assert is_free(solution.certificate)
    assert solution.disclosure_upper_bound == pytest.approx(known, abs=1e-6)
    assert solution.disclosure_upper_bound == max(
        solution.certificate.most_disclosure(0.0), solution.disclosure
    )
    solution.certificate.save(tmp_path / "proof.npz")
    shown = json.loads(run("verify", str(tmp_path / "proof.npz"), name, "--json").output)
    assert shown[0]["disclosure_upper_bound"] == solution.disclosure_upper_bound
    assert (
        f"disclosure ≤ {solution.disclosure_upper_bound:.9f} nats"
        in run("verify", str(tmp_path / "proof.npz"), name).output
    )


def test_without_a_proof_nothing_is_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pf.instances.load("heart-failure")
    monkeypatch.setattr(private_vertices, "MOST_SUPPORTS", 0)  # the search still says that it is the largest
    assert perfect.free_disclosure(problem).proved
    for solver in ("auto", "global", "perfect"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = pf.solve(problem, leakage=0, solver=solver)
        assert solution.status is not Status.OPTIMAL
        assert not is_free(solution.certificate)
        assert solution.disclosure_upper_bound is not None
        assert solution.disclosure_upper_bound > solution.disclosure + 1e-3


def test_trees_prove_what_lists_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tables = [rng.geometric(0.05, (4, 12)).astype(float), rng.dirichlet(np.ones(60)).reshape(5, 12)]
    # Two components, of which only the wide one needs a tree.
    apart = np.zeros((6, 15))
    apart[:2, :3], apart[2:, 3:] = [[5, 2, 1], [1, 2, 4]], tables[0]
    for table in (*tables, apart):
        problem = pf.Problem(table)
        listed = proof_of(problem)
        with monkeypatch.context() as limits:
            limits.setattr(polytope, "MOST_SUPPORTS", 3)
            limits.setattr(private_vertices, "MOST_SUPPORTS", 3)
            grown = proof_of(problem)
            assert any(isinstance(proof, FreeTree) for proof in parts_of(grown))
            assert most_of(listed) - 1e-12 <= most_of(grown) <= most_of(listed) + 3e-7
            grown.save(tmp_path / "tree.npz")
            (again,) = load_bundle(tmp_path / "tree.npz")
            again.verify(problem)
            assert most_of(again) == most_of(grown)
            assert again.n_nodes == grown.n_nodes > 10
            _refuse_damaged_trees(problem, grown)


def _refuse_damaged_trees(problem: pf.Problem, grown: Certificate) -> None:
    proofs_of, prices = parts_of(grown), grown.body_of(FreeBody).prices
    place, grew = next((i, proof) for i, proof in enumerate(proofs_of) if isinstance(proof, FreeTree))
    tree = grew.tree
    for changes in (
        {"claim": tree.claim + 1e-3},
        {"q": np.zeros_like(tree.q)},
        {"nu": tree.nu + 1e-3},
        {"split": np.stack([0.5 * tree.split[:, 0], tree.split[:, 1]], axis=1)},
        {"variable": np.full_like(tree.variable, -1)},
        {"q": tree.q[:, :-1]},
    ):
        broken = dataclasses.replace(tree, **changes)
        proof = dataclasses.replace(grew, tree=broken, claim=broken.claim)
        proofs = (*proofs_of[:place], proof, *proofs_of[place + 1 :])
        with pytest.raises(CertificateError):
            FreeBody.build(problem, prices, proofs).verify(problem)


@pytest.mark.parametrize("n_x", [90, 7000])
def test_pairs_and_the_staircase_through_them_prove_the_same(
    n_x: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n_x)
    problem = pf.Problem(rng.dirichlet(np.ones(2 * n_x)).reshape(2, n_x))
    found = perfect.free_disclosure(problem)
    listed = proof_of(problem)
    monkeypatch.setattr(private_vertices, "MOST_PAIRS", 0)
    along = proof_of(problem)
    assert found.disclosure <= most_of(listed) + 1e-12
    assert max(most_of(listed), most_of(along)) - found.disclosure <= 1e-8
    # Prices that violate a pair by a little prove as much less.
    whole, combinations = whole_table(problem), parts_of(along)[0].combinations
    rich = along.body_of(FreeBody).prices.copy()
    rich[3] += 1e-3
    assert private_vertices.least_private(whole, combinations, rich) <= -1e-5


def test_triangles_prove_what_all_supports_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="triangles are compiled: install privfunnel[fast]")
    rng = np.random.default_rng(4)
    problem = pf.Problem(rng.integers(1, 30, (3, 40)).astype(float))
    by_supports = proof_of(problem)
    monkeypatch.setattr("privfunnel.certificate.private_triangles.FEW", 3)
    monkeypatch.setattr(private_vertices, "_least_of_supports", None)
    assert most_of(proof_of(problem)) == pytest.approx(most_of(by_supports), abs=1e-8)


def test_at_any_prices_the_least_of_all_vertices_is_known_from_below() -> None:
    rng = np.random.default_rng(5)
    for _ in range(6):
        problem = pf.Problem(rng.integers(1, 9, (int(rng.integers(2, 5)), 8)).astype(float))
        equations = perfect.PrivateEquations.of(problem.p_s_given_x, problem.p_x, problem.p_sx)
        vertices = equations.vertices()[0]
        for _ in range(4):
            prices = rng.normal(1.0, 1.0, problem.n_x)
            least = float((entropy(vertices) - vertices @ prices).min())
            proved = private_vertices.least_private(whole_table(problem), equations.combinations, prices)
            assert least - 1e-10 <= proved <= least


def test_classes_carry_it_to_their_members_and_to_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 20, (3, 12)).astype(float)
    problem = pf.Problem(np.concatenate([counts * times for times in range(1, 8)], axis=1))
    solution = pf.solve(problem, leakage=0)
    proof = solution.certificate
    assert solution.status is Status.OPTIMAL
    assert proof is not None
    body = proof.body_of(FreeBody)
    assert body.cells is not None
    assert most_of(proof) == pytest.approx(solution.disclosure, abs=1e-9)
    proof.save(tmp_path / "proof.npz")
    (again,) = load_bundle(tmp_path / "proof.npz")
    again.verify(problem)
    assert most_of(again) == most_of(proof)
    joined = body.cells % 11
    other = changed(proof, cells=joined, prices=body.prices[:11][joined])
    with pytest.raises(CertificateError, match=r"p\(s\|x\)"):
        other.verify(problem)


def test_probabilities_whose_classes_are_equal_up_to_rounding_only_are_not_proved_by_them() -> None:
    rng = np.random.default_rng(8)
    columns = rng.dirichlet(np.ones(3), 5).T
    problem = pf.Problem(np.concatenate([columns * w for w in rng.dirichlet(np.ones(20))], axis=1) / 5.0)
    classes = lumping.lumping_of(problem)
    assert classes.n_classes < problem.n_x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = pf.solve(problem, leakage=0)
    assert solution.status is Status.CONVERGED
    assert solution.certificate is None
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound >= solution.disclosure
    assert free_certificate(problem) is None


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    return pf.Problem([[5, 2, 1, 4, 3], [1, 2, 4, 1, 3], [2, 3, 1, 5, 2]])


@pytest.mark.parametrize(
    "changes",
    [
        {"constant": -0.1},
        {"constant": np.nan},
        {"disclosure": 0.5},
        {"weights": np.ones(1)},
        {"zero": False},
        {"prices": np.zeros(4)},
        {"prices": np.full(5, np.inf)},
        {"prices": np.zeros(5, dtype=object)},
        {"prices": np.full(5, 3.0)},
        {"proofs": ()},
        {"cells": np.array([0, 1, 2, 3, 5], dtype=np.int32)},
        {"cells": np.zeros(5, dtype=np.int32)},
        {"cells": np.zeros(5)},
        {"fingerprint": "0" * 64},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_forged_numbers_fail(problem: pf.Problem, changes: dict[str, Any]) -> None:
    forged = changed(proof_of(problem), **changes)
    with pytest.raises(CertificateError):
        forged.verify(problem)


@pytest.mark.parametrize(
    "changes",
    [
        {"claim": 1e-9},
        {"claim": np.nan},
        {"combinations": np.zeros((3, 3))},
        {"combinations": np.full((3, 2), np.nan)},
        {"combinations": np.full((3, 2), 1e300)},
        {"combinations": np.array([[0.5, 0.5], [0.2, 0.2], [0.1, 0.1]])},
        {"combinations": np.array([[0.5, 0.0], [0.2, 0.0], [0.1, 0.0]])},
        {"combinations": np.zeros((2, 1))},
        {"combinations": np.zeros((3, 0))},
    ],
    ids=["claim", "nan claim", "many", "nan", "huge", "dependent", "nothing", "other", "none"],
)
def test_forged_equations_prove_nothing_more(problem: pf.Problem, changes: dict[str, Any]) -> None:
    honest = proof_of(problem)
    forged = dataclasses.replace(parts_of(honest)[0], **changes)
    with pytest.raises(CertificateError):
        FreeBody.build(problem, honest.body_of(FreeBody).prices, [forged]).verify(problem)


def test_a_proof_is_of_its_own_table_and_no_price_is_free(problem: pf.Problem) -> None:
    honest, other = proof_of(problem), pf.Problem([[5, 2, 1, 4, 3], [1, 2, 4, 1, 3], [2, 3, 1, 5, 3]])
    with pytest.raises(CertificateError, match="another problem"):
        honest.verify(other)
    rng = np.random.default_rng(0)
    least = perfect.free_disclosure(problem).disclosure
    for _ in range(50):  # whatever prices are stored, nothing below what a real release discloses is proved
        prices = honest.body_of(FreeBody).prices + rng.normal(
            0.0, 10.0 ** rng.uniform(-9.0, 0.0), problem.n_x
        )
        made = FreeProof.build(whole_table(problem), parts_of(honest)[0].combinations, prices)
        assert most_of(FreeBody.build(problem, prices, [made])) >= least


def test_what_rounding_may_add_is_allowed_for_where_proofs_are_tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tables with known R₀ the bounds are never below it; without the allowances some are."""
    rng = np.random.default_rng(11)
    tables = [rng.integers(1, 50, (2, int(rng.integers(3, 9)))).astype(float) for _ in range(40)]
    problems = [pf.Problem(table) for table in tables]
    true = [_exact_bound(problem) for problem in problems]
    assert all(most_of(proof) >= bound for proof, bound in true)
    monkeypatch.setattr(private_vertices, "VALUED", 0.0)
    monkeypatch.setattr("privfunnel.certificate.kinds.free_disclosure._RESERVE", 0.0)
    monkeypatch.setattr("privfunnel.certificate.proof._RESERVE", 0.0)
    monkeypatch.setattr("privfunnel.certificate.kinds.free_disclosure._ADDING", -64)
    assert any(most_of(proof) < bound for proof, bound in map(_exact_bound, problems))


def _exact_bound(problem: pf.Problem) -> tuple[Certificate, float]:
    """The proof, and what its prices prove in extended precision: H(X) − a·p − min (H(w) − a·w) over all pairs."""
    proof = proof_of(problem)
    counts = whole_table(problem).astype(object)
    n_x, n = counts.sum(axis=0), int(counts.sum())
    distance = equations_of(whole_table(problem), parts_of(proof)[0].combinations).exact[0]
    prices = proof.body_of(FreeBody).prices.astype(np.longdouble)

    def gain(places: list[int], weights: list[np.longdouble]) -> np.longdouble:
        w = np.array(weights, dtype=np.longdouble)
        return -(w * np.log(w)).sum() - (w * prices[places]).sum()

    least = np.longdouble(np.inf)
    for b in range(problem.n_x):
        if distance[b] == 0:
            least = min(least, -prices[b])
        for a in range(problem.n_x):
            if distance[b] < 0 < distance[a]:
                u, v = (np.longdouble(abs(int(distance[x]))) / np.longdouble(int(n_x[x])) for x in (b, a))
                least = min(least, gain([b, a], [v / (u + v), u / (u + v)]))
    p = np.array([np.longdouble(int(size)) for size in n_x]) / np.longdouble(n)
    return proof, -(p * np.log(p)).sum() - (prices * p).sum() - least
