"""Proofs by cliques of rivals: found, checked, stored, and refused where anything in them is changed."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import privfunnel as pf
from forging import changed
from privfunnel.algorithms.columns.plain import Global, branching
from privfunnel.algorithms.columns.plain import clique_pricing as cliqued
from privfunnel.algorithms.columns.plain.branching import search_cliques
from privfunnel.algorithms.columns.plain.descents import Pricing, descend_all, pricing_value
from privfunnel.certificate import (
    Certificate,
    CliqueProof,
    PlainBody,
    Proof,
    check_cliques,
    cliques_of,
    load_bundle,
    rivalry,
    rivals,
    save_bundle,
)
from privfunnel.certificate.checker import check
from privfunnel.certificate.tree import LEAF, SHRINK, Case
from privfunnel.errors import CertificateError

#: What a proof leaves below the least F that descents find, in nats.
LEFT = 1e-4


def drawn(seed: int, n_s: int = 3, n_x: int = 12) -> Pricing:
    """A pricing problem near an optimum: single symbols are worth nearly nothing, mixtures a little."""
    rng = np.random.default_rng(seed)
    columns = rng.dirichlet(np.full(n_s, 0.7), size=n_x)
    prices = (columns * np.log(columns)).sum(axis=1) - rng.uniform(0.0, 0.05, n_x)
    return Pricing(np.ascontiguousarray(columns), prices, 0.25)


def cliques_in(pricing: Pricing) -> NDArray[np.int32]:
    """Cliques of its rivals."""
    return cliques_of(rivals(rivalry(pricing.columns), pricing.slope))


def lowest(pricing: Pricing, seed: int = 0) -> float:
    """The least F that descents from many posteriors find, in nats."""
    n_x, n_s = pricing.columns.shape
    starts = np.random.default_rng(seed).dirichlet(np.full(n_x, 0.3), size=500)
    descend_all(pricing, starts, 200)
    return min(float(pricing_value(pricing, w, np.empty(n_s))) for w in [*starts, *np.eye(n_x)])


def proved(pricing: Pricing, cutoff: float) -> CliqueProof:
    """The proof of a cutoff that holds."""
    groups = cliques_in(pricing)
    explored = search_cliques(pricing, groups, cutoff, 20_000, 50, 0.2)
    assert explored.outcome == branching.PROVED
    return CliqueProof(tree=Proof(claim=cutoff - 1e-10, **explored.tree._asdict()), cliques=groups)


def checked(pricing: Pricing, proof: CliqueProof) -> None:
    """Raise unless it proves its claim."""
    check_cliques(pricing.columns.T, pricing.prices, pricing.slope, proof)


@pytest.mark.parametrize("seed", range(4))
def test_cliques_are_rivals_and_hold_every_symbol(seed: int) -> None:
    exclusive = rivals(rivalry(drawn(seed).columns), 0.25)
    groups = cliques_of(exclusive)
    together = groups[:, None] == groups
    np.fill_diagonal(together, False)
    assert np.all(exclusive[together] == 1)
    assert sorted(set(groups.tolist())) == list(range(int(groups.max()) + 1))
    assert groups.max() + 1 < groups.size
    assert np.array_equal(cliques_of(np.zeros((3, 3), np.uint8)), [0, 1, 2])


@pytest.mark.parametrize(("seed", "n_s"), [(0, 3), (1, 3), (2, 4), (3, 6)])
def test_what_holds_is_proved_and_what_does_not_is_found(seed: int, n_s: int) -> None:
    pricing = drawn(seed, n_s)
    least = lowest(pricing)
    checked(pricing, proved(pricing, least - LEFT))
    above = search_cliques(pricing, cliques_in(pricing), least + LEFT, 20_000, 50, 0.2)
    assert above.outcome == branching.FOUND
    image = np.empty(n_s)
    assert all(pricing_value(pricing, w, image) < least + LEFT for w in above.found)


def test_it_takes_fewer_boxes_than_single_symbols_do() -> None:
    pricing = drawn(5, 6, 40)
    cutoff = lowest(pricing) - LEFT
    exclusive = rivals(rivalry(pricing.columns), pricing.slope)
    by_symbols = branching.branch_and_bound(pricing, exclusive, cutoff, 10**6, 50, 0.2)
    assert by_symbols.outcome == branching.PROVED
    assert proved(pricing, cutoff).n_nodes < by_symbols.opened


@pytest.mark.parametrize("seed", range(3))
def test_no_change_of_a_tree_makes_it_prove_what_does_not_hold(seed: int) -> None:
    pricing = drawn(seed)
    least = lowest(pricing)
    proof = proved(pricing, least - LEFT)
    rng = np.random.default_rng(seed)
    tree, refused = proof.tree, 0
    for _ in range(60):
        parts = {name: getattr(tree, name).copy() for name in ("q", "nu", "variable", "split")}
        node = rng.integers(tree.n_nodes, size=3)
        parts["nu"][node] += rng.normal(size=3)
        parts["q"][node] += rng.normal(size=(3, 3))
        parts["split"][node] = rng.uniform(size=(3, 2))
        parts["variable"][node] = rng.integers(-2, 4 * int(proof.cliques.max() + 1), size=3)
        with pytest.raises(CertificateError):
            checked(pricing, changed(proof, tree=changed(tree, claim=least + 1e-9, **parts)))
        refused += 1
    assert refused == 60
    with pytest.raises(CertificateError, match="does not prove its claim"):
        checked(pricing, changed(proof, tree=changed(tree, claim=least + 1e-9)))


def test_cliques_that_are_none_are_found_out() -> None:
    pricing = drawn(0)
    proof = proved(pricing, lowest(pricing) - LEFT)
    for groups, said in (
        (np.roll(proof.cliques, 1), "no rivals"),
        (proof.cliques[:-1].copy(), "are not those of 12 classes"),
        (proof.cliques.astype(np.int64), "are not those of 12 classes"),
        (proof.cliques + np.int32(1), "numbered from 0"),
        (proof.cliques - np.int32(1), "numbered from 0"),
    ):
        with pytest.raises(CertificateError, match=said):
            checked(pricing, changed(proof, cliques=groups))


def test_holes_of_a_split_that_hold_posteriors_are_found_out() -> None:
    pricing = drawn(1)
    proof = proved(pricing, lowest(pricing) - LEFT)
    n_cliques = int(proof.cliques.max()) + 1
    masses = np.flatnonzero((proof.tree.variable >= 0) & (proof.tree.variable < n_cliques))
    split = proof.tree.split.copy()
    split[masses[0]] = 0.0, 1.0
    with pytest.raises(CertificateError, match="leaves out too much"):
        checked(pricing, changed(proof, tree=changed(proof.tree, split=split)))
    first = proof.tree.first.copy()
    inner = np.flatnonzero(proof.tree.variable != -1)
    first[inner[0]] = first[inner[1]]
    with pytest.raises(CertificateError):
        checked(pricing, changed(proof, tree=changed(proof.tree, first=first)))


def test_a_proof_of_more_classes_than_can_be_compared_is_refused() -> None:
    """A table of all pairs of them would fill the memory, whatever else is wrong with the proof."""
    n_x = 100_000
    arrays = {"nu": np.zeros(2), "split": np.zeros((2, 2)), "first": np.array([1, 0], np.int32)}
    variable = np.array([SHRINK, LEAF], np.int32)
    tree = Proof(claim=0.0, q=np.full((2, 2), -1.0), variable=variable, **arrays)
    columns, prices = np.full((2, n_x), 0.5), np.zeros(n_x)
    proof = CliqueProof(tree=tree, cliques=np.zeros(n_x, np.int32))
    with pytest.raises(CertificateError, match="all pairs of 100000 classes"):
        check_cliques(columns, prices, 0.5, proof)
    with pytest.raises(CertificateError, match="all pairs of 100000 classes"):
        check(columns.T, [Case(prices=prices, slope=0.5, proof=tree)])


def test_pairs_of_symbols_are_compared_once_each() -> None:
    columns = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    for n_x in (1, 2, 6):
        table = rivalry(columns[:n_x])
        assert np.array_equal(table, table.T)
        for i, j in itertools.combinations(range(n_x), 2):
            assert table[i, j] == rivalry(columns[[i, j]])[0, 1] > 0.0


PLAIN = """
import numpy as np
from privfunnel.certificate import cliques_of, rivalry, rivals
from privfunnel.algorithms.columns.plain.branching import search_cliques
from privfunnel.algorithms.columns.plain.descents import Pricing
columns = np.random.default_rng(1).dirichlet(np.full(3, 0.7), size=9)
pricing = Pricing(columns, (columns * np.log(columns)).sum(axis=1) - 0.02, 0.25)
groups = cliques_of(rivals(rivalry(columns), 0.25))
ends = [search_cliques(pricing, groups, cutoff, 150, 5, 0.2) for cutoff in (-0.2465, -0.1)]
told = [(end.outcome, round(end.best, 6)) for end in ends]
"""


def test_the_same_is_proved_and_found_without_numba() -> None:
    plain = subprocess.run(
        [sys.executable, "-c", f"{PLAIN}print(told)"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here: dict[str, object] = {}
    exec(PLAIN, here)
    assert plain == f"{here['told']}\n"
    assert plain.startswith("[(0, ")


# --- the solver -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem() -> pf.Problem:
    """Six private symbols, fourteen public ones, two of which are one class."""
    counts = np.random.default_rng(3).integers(1, 40, (6, 14))
    counts[:, 13] = 2 * counts[:, 3]
    return pf.Problem(counts)


@pytest.fixture
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cliques are searched in small tables, too."""
    monkeypatch.setattr(cliqued, "MANY", 8)


def solved(problem: pf.Problem, share: float = 0.9, **options: float) -> pf.Solution:
    """The point at a share of H(X), without a clock."""
    solver = Global(**({"time_limit": math.inf} | options))  # type: ignore[arg-type]
    return pf.solve(problem, disclosure=share * problem.disclosure_ceiling, solver=solver, throw=False)


@pytest.mark.usefixtures("_few_are_many")
def test_cliques_prove_what_single_symbols_prove(
    tmp_path: Path, problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_cliques = solved(problem)
    certificate = by_cliques.certificate
    assert isinstance(certificate.body, PlainBody)
    assert isinstance(certificate.body.proofs[0], CliqueProof)
    assert certificate.n_nodes == certificate.body.proofs[0].n_nodes > 0
    assert np.array_equal(solved(problem).channel, by_cliques.channel)
    save_bundle(tmp_path / "c.npz", [certificate])
    (loaded,) = load_bundle(tmp_path / "c.npz")
    loaded.verify(problem)  # type: ignore[union-attr]
    assert loaded.body.value == certificate.body.value
    with pytest.raises(CertificateError):
        Certificate.load(tmp_path / "c.npz").verify(pf.Problem(problem.p_sx[:, ::-1]))
    monkeypatch.setattr(cliqued, "MANY", 15)
    by_symbols = solved(problem)
    assert by_symbols.certificate is not None
    assert isinstance(by_symbols.certificate.body.proofs[0], Proof)
    assert by_symbols.status is by_cliques.status is pf.Status.OPTIMAL
    assert by_symbols.leakage == pytest.approx(by_cliques.leakage, abs=2e-6)


@pytest.mark.usefixtures("_few_are_many")
def test_something_is_proved_when_limits_come_first(
    problem: pf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cliqued, "LAST_BOXES", 400)
    limited = solved(problem, 0.8, node_limit=2)
    assert limited.status is pf.Status.NODE_LIMIT
    assert limited.certificate is not None
    assert limited.certificate.body.coarsening is None
    assert 0.0 < limited.lower_bound < limited.leakage
    limited.certificate.verify(problem)


def test_a_ladder_leaves_more_each_time_that_it_fails() -> None:
    ladder = cliqued.Ladder()
    assert ladder.cutoff(1e-6, 0.1) == -1e-6
    parts = []
    for _ in range(5):
        ladder.failed()
        parts.append(-ladder.cutoff(1e-6, 1.0))
    assert parts[0] == cliqued.FIRST_PART
    assert parts == sorted(parts)
    assert parts[-1] == cliqued.LARGEST_PART
    assert ladder.cutoff(1e-6, 1e-7) == -1e-6
