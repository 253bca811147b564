"""Proofs by supports: what they prove holds everywhere, and what they find is there."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import deque
from typing import Any

import numpy as np
import pytest

from helpers_kernels import simplex_grid
from privfunnel.certificate import rivalry, rivals, supports
from privfunnel.certificate.supports import Below, SupportsProof, check_supports, search
from privfunnel.errors import CertificateError, MissingExtraError
from privfunnel.measures import xlogx

Table = np.ndarray[Any, Any]

#: What is asked of the least F of a table: less than this below it there is nothing.
CLEAR = 1e-4


@pytest.fixture(autouse=True)
def _every_search_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker remembers nothing."""
    monkeypatch.setattr(supports, "_SETTLED", deque(maxlen=0))


def random_table(seed: int, n_x: int, n_s: int, zeros: float = 0.0) -> tuple[Table, Table, float]:
    """Pᵀ with a share of zeros, prices that are worth something, and a slope."""
    rng = np.random.default_rng(seed)
    columns = rng.dirichlet(np.full(n_s, 0.7), n_x)
    columns[rng.random(columns.shape) < zeros] = 0.0
    columns[columns.sum(axis=1) == 0.0, 0] = 1.0
    columns /= columns.sum(axis=1, keepdims=True)
    # Values of single symbols that differ by little: then mixtures have the least F.
    return columns, xlogx(columns).sum(axis=1) - 0.05 * rng.random(n_x), float(rng.uniform(0.03, 0.9))


def value(columns: Table, prices: Table, slope: float, w: Table) -> Table:
    """F of posteriors (n, M), in nats."""
    return np.asarray(xlogx(w @ columns).sum(axis=1) - slope * xlogx(w).sum(axis=1) - w @ prices)


def lowest(columns: Table, prices: Table, slope: float) -> tuple[float, Table]:
    """The least F over all supports of three symbols, by a grid that closes in on the best point, and the point."""
    best, at = np.inf, np.zeros(len(columns))
    for support in itertools.combinations(range(len(columns)), 3):
        grid = simplex_grid(20)
        names, part = columns[list(support)], prices[list(support)]
        values = value(names, part, slope, grid)
        width = 1.0 / 20.0
        while values.min() < best + 0.01 and width > 1e-7:
            centre = grid[values.argmin()]
            steps = centre + width * (simplex_grid(8)[:, None] - simplex_grid(8)).reshape(-1, 3)[::7]
            grid = np.concatenate([centre[None], steps[np.all(steps >= 0.0, axis=1)]])
            values, width = value(names, part, slope, grid), width / 3.0
        if values.min() < best:
            best, at = float(values.min()), np.zeros(len(columns))
            at[list(support)] = grid[values.argmin()]
    return best, at


def searched(columns: Table, prices: Table, slope: float, cutoff: float) -> Below:
    return search(columns, prices, slope, cutoff, rivals(rivalry(columns), slope) == 0)


@pytest.mark.parametrize("seed", range(12))
def test_the_least_f_of_a_small_table_is_proved_from_below_and_found_from_above(seed: int) -> None:
    columns, prices, slope = random_table(seed, 5 + seed % 3, 3, zeros=0.25 * (seed % 2))
    least, _ = lowest(columns, prices, slope)
    assert searched(columns, prices, slope, least - CLEAR).proved
    above = searched(columns, prices, slope, least + CLEAR)
    assert not above.proved
    assert len(above.values) > 0
    np.testing.assert_allclose(value(columns, prices, slope, above.found), above.values, atol=1e-12)
    assert above.values.max() < least + CLEAR
    assert above.values.min() > least - CLEAR


@pytest.mark.parametrize(("n_x", "n_s"), [(40, 3), (30, 4), (11, 5)])
def test_larger_tables_are_proved_at_a_little_below_what_is_found(n_x: int, n_s: int) -> None:
    columns, prices, slope = random_table(n_x, n_x, n_s, zeros=0.1)
    cutoff, rounds = float((xlogx(columns).sum(axis=1) - prices).min()) - 1e-9, 0
    while not (below := searched(columns, prices, slope, cutoff)).proved:
        assert len(below.values) > 0
        assert below.values.min() < cutoff
        cutoff, rounds = float(below.values.min()) - 1e-3, rounds + 1
    # What is proved at some cutoff is proved at any lower one.
    assert searched(columns, prices, slope, cutoff - 0.01).proved
    w = np.random.default_rng(1).dirichlet(np.full(n_x, 0.1), 20_000)
    assert value(columns, prices, slope, w).min() >= cutoff


def test_a_search_that_is_stopped_proves_nothing() -> None:
    columns, prices, slope = random_table(3, 12, 3)
    mates = rivals(rivalry(columns), slope) == 0
    below = search(columns, prices, slope, -5.0, mates, lambda: True)
    assert not below.proved
    assert not below.whole


def test_a_claim_above_the_least_f_is_refused_with_a_value_that_contradicts_it() -> None:
    columns, prices, slope = random_table(5, 6, 3)
    least, _ = lowest(columns, prices, slope)
    check_supports(columns.T, prices, slope, SupportsProof(claim=least - CLEAR), 0.0)
    with pytest.raises(CertificateError, match="does not prove its claim: F is"):
        check_supports(columns.T, prices, slope, SupportsProof(claim=least + CLEAR), 0.0)
    for broken, claim in ((1.5, least), (slope, np.nan), (0.0, least)):
        with pytest.raises(CertificateError, match="it is damaged"):
            check_supports(columns.T, prices, broken, SupportsProof(claim=claim), 0.0)


def test_other_numbers_of_private_symbols_are_refused() -> None:
    for n_s in (2, 6):
        columns, prices, slope = random_table(5, 6, n_s)
        with pytest.raises(CertificateError, match=f"3 to 5 private symbols, not {n_s}"):
            check_supports(columns.T, prices, slope, SupportsProof(claim=-5.0), 0.0)


def test_a_claim_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, prices, slope = random_table(5, 6, 3)
    proof = SupportsProof(claim=lowest(columns, prices, slope)[0] - CLEAR)
    check_supports(columns.T, prices, slope, proof, 0.0)
    monkeypatch.setattr(supports, "MOST_SLICES", 0)
    with pytest.raises(CertificateError, match="too long to check"):
        check_supports(columns.T, prices, slope, proof, 0.0)


def test_a_large_proof_asks_for_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, prices, slope = random_table(7, 101, 3)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match=r"privfunnel\[fast\]"):
        check_supports(columns.T, prices, slope, SupportsProof(claim=-5.0), 0.0)


def test_numbers_that_the_arithmetic_cannot_bear_prove_nothing() -> None:
    columns, prices, slope = random_table(6, 6, 3)
    assert not searched(columns, prices + 1e5, slope, -2e5).proved
    columns[0] = [1e-290, 0.5, 0.5]
    assert not searched(columns, prices, slope, -5.0).proved


PLAIN = """
import numpy as np
from privfunnel.certificate.supports import search
columns = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.5, 0.5, 0.0]])
prices = np.array([-0.64, -0.64, -0.64, -0.7])
for cutoff in (-0.4, 0.0):
    below = search(columns, prices, 0.3, cutoff, np.ones((4, 4), dtype=bool))
    print(below.proved, len(below.values), [round(value, 9) for value in below.values.tolist()])
"""


def test_the_same_is_proved_and_found_without_numba() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PLAIN],
            env={**os.environ, "NUMBA_DISABLE_JIT": flag},
            capture_output=True, text=True, check=True,
        ).stdout
        for flag in ("0", "1")
    ]  # fmt: skip
    assert printed[0] == printed[1]
    assert printed[0].startswith("True 0 []\nFalse ")
