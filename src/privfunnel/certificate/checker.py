"""A tree of boxes that proves a bound on one component's simplex, and the arithmetic that checks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.exclusion import rivalry, rivals
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx

Index = NDArray[np.intp]

#: Values of ``Proof.variable`` that are not a symbol to split on.
LEAF, SHRINK = -1, -2

#: Room left around a box when Σ w = 1 is used on it: far above the rounding of a sum of M numbers.
SIMPLEX_SLACK = 1e-12

#: Multipliers and claims beyond this prove nothing that smaller ones do not, and could overflow the arithmetic.
LARGEST = 1e6

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 2048


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof:
    """A tree of boxes that proves F ≥ ``claim`` on one component's simplex; n nodes, node 0 is the root.

    Attributes:
        claim: The value proved, in nats.
        q: Multipliers of Pw, shape (n, K_c).
        nu: Multiplier of Σ w = 1, shape (n,).
        variable: Symbol split on, LEAF or SHRINK (one child, the shrunken box), shape (n,).
        split: The left child has ``w ≤ split[0]``, the right one ``w ≥ split[1]``, shape (n, 2).
        first: Number of the first child; the second follows it, shape (n,).
    """

    claim: float
    q: Array
    nu: Array
    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in (self.q, self.nu, self.variable, self.split, self.first):
            array.setflags(write=False)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.nu.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """What a tree has to prove: F of these ``prices`` a, (M_c,), and this ``slope`` μ is at least ``proof.claim``."""

    prices: Array
    slope: float
    proof: Proof


class _Forest:
    """The trees of some cases side by side, so that one pass over their levels checks them all.

    Node arrays are those of :class:`Proof`, one tree after the other; ``case`` (n,) says whose node it is.
    """

    def __init__(self, columns: Array, cases: Sequence[Case], *, exclusive: bool) -> None:
        proofs = [case.proof for case in cases]
        sizes = np.array([proof.n_nodes for proof in proofs])
        self.columns = columns
        self.roots = np.cumsum(sizes) - sizes
        self.case = np.repeat(np.arange(len(cases)), sizes)
        self.q = np.concatenate([proof.q for proof in proofs])
        self.nu = np.concatenate([proof.nu for proof in proofs])
        self.variable = np.concatenate([proof.variable for proof in proofs])
        self.split = np.concatenate([proof.split for proof in proofs])
        self.first = np.concatenate(
            [proof.first.astype(np.intp) + root for proof, root in zip(proofs, self.roots, strict=True)]
        )
        self.claim = np.array([proof.claim for proof in proofs])
        self.prices = np.array([case.prices for case in cases])
        self.slope = np.array([case.slope for case in cases])
        # Cases of neighbouring slopes often have the same rivals.
        thresholds = rivalry(columns) if exclusive else np.full((len(columns), len(columns)), np.inf)
        patterns: dict[bytes, int] = {}
        self.allied: list[Array] = []
        self.pattern = np.empty(len(cases), dtype=np.intp)
        for number, case in enumerate(cases):
            excluded = rivals(thresholds, case.slope)
            self.pattern[number] = patterns.setdefault(excluded.tobytes(), len(self.allied))
            if self.pattern[number] == len(self.allied):
                self.allied.append(1.0 - excluded.astype(np.float64))


def check(columns: Array, cases: Sequence[Case], *, exclusive: bool = True) -> None:
    """Raise CertificateError unless every tree proves its case on the simplex of one component.

    Args:
        columns: Pᵀ of the component, shape (M_c, K_c).
        cases: The trees, and what they are to prove.
        exclusive: Whether rivals may be used: not where a column stands for different ones.
    """
    for case in cases:
        _check_tree(columns, case.proof)
    n_x = columns.shape[0]
    forest = _Forest(columns, cases, exclusive=exclusive)
    seen = np.zeros(forest.case.size, dtype=bool)
    n = len(cases)
    pending = [(forest.roots, np.zeros((n, n_x)), np.ones((n, n_x)))]
    while pending:
        nodes, lower, upper = pending.pop()
        if nodes.size > _BLOCK:
            half = nodes.size // 2
            pending += [
                (nodes[:half], lower[:half], upper[:half]),
                (nodes[half:], lower[half:], upper[half:]),
            ]
            continue
        if np.any(seen[nodes]) or np.unique(nodes).size < nodes.size:
            raise CertificateError("the certificate's tree is damaged: a box has two parents")
        seen[nodes] = True
        children = _check_block(forest, nodes, lower, upper)
        if children is not None:
            pending.append(children)


def _check_tree(columns: Array, proof: Proof) -> None:
    """Shapes, finiteness and the ranges that the arithmetic relies on."""
    n, (n_x, n_s) = proof.n_nodes, columns.shape
    floats, integers = (proof.q, proof.nu, proof.split), (proof.variable, proof.first)
    shapes = tuple(array.shape for array in (*floats, *integers))
    if n == 0 or shapes != ((n, n_s), (n,), (n, 2), (n,), (n,)):
        raise CertificateError("the certificate's tree is damaged: its arrays do not fit the problem")
    if any(a.dtype != np.float64 for a in floats) or any(a.dtype != np.int32 for a in integers):
        raise CertificateError("the certificate's tree is damaged: its arrays are not of the right type")
    if not all(np.all(np.abs(array) <= LARGEST) for array in (*floats, np.float64(proof.claim))):
        raise CertificateError(
            "the certificate's tree is damaged: it holds numbers that are too large or none"
        )
    if np.any(proof.variable >= n_x) or np.any(proof.variable < SHRINK):
        raise CertificateError("the certificate's tree is damaged: it splits a symbol that does not exist")
    if np.any(proof.split < 0.0) or np.any(proof.split > 1.0):
        raise CertificateError("the certificate's tree is damaged: a split lies outside [0, 1]")
    inner = proof.variable != LEAF
    children = np.where(proof.variable >= 0, 2, 1)
    first = proof.first.astype(np.int64)
    if np.any((first <= np.arange(n))[inner]) or np.any((first + children > n)[inner]):
        raise CertificateError("the certificate's tree is damaged: a child is missing")


def _check_block(
    forest: _Forest, nodes: Index, lower: Array, upper: Array
) -> tuple[Index, Array, Array] | None:
    """Bound the boxes of some nodes, shrink those that are not done, and return their children."""
    columns = forest.columns
    n_x, n_s = columns.shape
    case = forest.case[nodes]
    prices, slope = forest.prices[case], forest.slope[case][:, None]
    q = forest.q[nodes]
    q = q - q.max(axis=1, keepdims=True)
    # Σ exp q ≤ 1, made sure of by the allowance: the largest entry is 0, so that the sum is in [1, K].
    allowance = 8.0 * n_s * _EPS * (1.0 - q.min(axis=1, keepdims=True))
    q = q - np.log(np.exp(q).sum(axis=1, keepdims=True)) - allowance
    nu = forest.nu[nodes][:, None]
    rates = q @ columns.T - prices - nu
    size = np.abs(q) @ columns.T + np.abs(prices) + np.abs(nu)
    e_low, e_high = rates * lower - slope * xlogx(lower), rates * upper - slope * xlogx(upper)
    # What one evaluation of e_i may be off by, anywhere in its interval: |w log w| is at most 1/e there.
    noise = 16.0 * _EPS * (np.abs(rates) * upper + 0.4 * slope)
    least = np.minimum(e_low, e_high)
    # Rates are off by their own rounding, which Σ w = 1 turns into its maximum; sums by γ_M times their size.
    rounding = (
        (n_s + 16) * _EPS * size.max(axis=1)
        + noise.sum(axis=1)
        + (n_x + 8) * _EPS * (np.abs(nu[:, 0]) + np.abs(least).sum(axis=1))
        + 8.0 * n_s * _EPS
    )
    bound = nu[:, 0] + least.sum(axis=1) - rounding
    excess = forest.claim[case] - bound
    open_ = ~(excess <= 0.0)  # written so that what is not a number stays open, and fails below
    if not open_.any():
        return None
    nodes, lower, upper, rates, least = nodes[open_], lower[open_], upper[open_], rates[open_], least[open_]
    excess, noise, slope, case = excess[open_][:, None], noise[open_], slope[open_], case[open_]
    lower, upper = _shrink(rates, slope, excess, noise, lower, upper, e_low[open_], e_high[open_])
    lower, upper, full = _propagate(lower, _exclude_all(forest, case, lower, upper))
    nodes, lower, upper, rates = nodes[full], lower[full], upper[full], rates[full]
    excess, noise, least, slope = excess[full][:, 0], noise[full], least[full], slope[full]
    variable = forest.variable[nodes]
    leaf = variable == LEAF
    if leaf.any():
        raise CertificateError(
            f"the certificate does not prove its claim: a box is {float(excess[leaf].max()):.3g} nats short of it"
        )
    if nodes.size == 0:
        return None
    _check_holes(rates, slope, excess, noise, least, variable, forest.split[nodes])
    return _children(forest, nodes, variable, lower, upper)


def _shrink(
    rates: Array,
    slope: Array,
    excess: Array,
    noise: Array,
    lower: Array,
    upper: Array,
    e_low: Array,
    e_high: Array,
) -> tuple[Array, Array]:
    """Cut off the ends of the intervals where e_i alone lifts the bound to the claim, all arrays (nodes, M).

    A secant of the concave e_i lands where e_i is at least as high as asked; two of them are taken. The new end and the
    old one are then checked by evaluation, which makes the part between them safe.
    """
    asked = excess + 4.0 * noise
    rise = e_high - e_low
    base = np.minimum(e_low, e_high)
    steep = np.abs(rise) > asked
    width = (upper - lower) * np.where(steep, asked / np.where(steep, np.abs(rise), 1.0), 1.0)

    def end_at(width: Array) -> tuple[Array, Array]:
        end = np.where(rise > 0.0, lower + width, upper - width)
        return end, rates * end - slope * xlogx(end) - base

    _, reached = end_at(width)
    width = width * np.where(reached > asked, asked / np.where(reached > asked, reached, 1.0), 1.0)
    end, reached = end_at(width)
    safe = steep & (reached - 2.0 * noise >= excess)
    return np.where(safe & (rise < 0.0), end, lower), np.where(safe & (rise > 0.0), end, upper)


def _exclude_all(forest: _Forest, case: Index, lower: Array, upper: Array) -> Array:
    """:func:`_exclude` for boxes (nodes, M) of several cases, each with its own rivals."""
    pattern = forest.pattern[case]
    if np.all(pattern == pattern[0]):
        return _exclude(lower, upper, forest.allied[pattern[0]])
    upper = upper.copy()
    for number in np.unique(pattern):
        own = np.flatnonzero(pattern == number)
        upper[own] = _exclude(lower[own], upper[own], forest.allied[number])
    return upper


def _exclude(lower: Array, upper: Array, allied: Array) -> Array:
    """New upper ends of boxes (nodes, M): no symbol is used beside a rival, nor where its allies do not suffice.

    ``allied`` (M, M) is 1 where two symbols may be used together, a symbol and itself included. A used symbol and its
    allies carry the whole posterior, so that w_i > 0 needs Σ of the allies' upper ends ≥ 1.
    """
    beaten = (lower > 0.0).astype(np.float64) @ (1.0 - allied) > 0.0
    upper = np.where(beaten, 0.0, upper)
    return np.where(upper @ allied < 1.0 - SIMPLEX_SLACK, 0.0, upper)


def _propagate(lower: Array, upper: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Use Σ w = 1 on boxes (nodes, M); the mask is False where a box misses the simplex."""
    low, high = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
    full = (low <= 1.0 + SIMPLEX_SLACK) & (high >= 1.0 - SIMPLEX_SLACK)
    full &= np.all(lower <= upper, axis=1, keepdims=True)
    new_upper = np.minimum(upper, lower + (1.0 - low) + SIMPLEX_SLACK)
    new_lower = np.maximum(lower, upper - (high - 1.0) - SIMPLEX_SLACK)
    return new_lower, new_upper, full[:, 0]


def _check_holes(
    rates: Array,
    slope: Array,
    excess: Array,
    noise: Array,
    least: Array,
    variable: NDArray[np.int32],
    split: Array,
) -> None:
    """Raise unless every part between two children is above the claim by its e_i alone (at both ends, so inside)."""
    holes = np.flatnonzero((variable >= 0) & (split[:, 0] < split[:, 1]))
    i = variable[holes]
    ends = split[holes]
    height = rates[holes, i][:, None] * ends - slope[holes] * xlogx(ends) - least[holes, i][:, None]
    if not np.all(height.min(axis=1, initial=np.inf) - 2.0 * noise[holes, i] >= excess[holes]):
        raise CertificateError("the certificate does not prove its claim: a split leaves out too much")


def _children(
    forest: _Forest, nodes: Index, variable: NDArray[np.int32], lower: Array, upper: Array
) -> tuple[Index, Array, Array]:
    """Boxes of the children: one for SHRINK, two for a split."""
    first = forest.first[nodes]
    both = np.flatnonzero(variable >= 0)
    symbol = variable[both]
    left_upper, right_lower = upper.copy(), lower[both]
    left_upper[both, symbol] = np.minimum(upper[both, symbol], forest.split[nodes[both], 0])
    right_lower[np.arange(both.size), symbol] = np.maximum(lower[both, symbol], forest.split[nodes[both], 1])
    return (
        np.concatenate([first, first[both] + 1]),
        np.concatenate([lower, right_lower]),
        np.concatenate([left_upper, upper[both]]),
    )
