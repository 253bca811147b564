"""The checker, on which every proof by boxes rests: does a tree prove F ≥ claim on one component's simplex?

For posteriors w ≥ 0 with Σ w = 1, F(w) = −H(Pw) + μ H(w) − a·w in nats. A node has multipliers q (K,) and ν. Put
ρ_i = p_i·q − a_i − ν, p_i being column i of P, and e_i(w) = ρ_i w − μ w log w, which is concave. Then

    (1)  Σ_k exp q_k ≤ 1                     gives  −H(t) ≥ q·t for every distribution t (Gibbs), hence
    (2)  F(w) ≥ ν + Σ_i e_i(w_i)             wherever Σ w = 1, and, a concave function being least at an end,
    (3)  F ≥ ν + Σ_i min(e_i(l_i), e_i(u_i)) on the box l ≤ w ≤ u.

A box whose bound (3) reaches the claim is settled. Where it misses it by an *excess*, three rules make the box smaller
without losing a posterior that could be below the claim:

    (4)  e_i(w_i) < min(e_i(l_i), e_i(u_i)) + excess    for each i, or (2) would reach the claim;
    (5)  1 − Σ_{j≠i} u_j ≤ w_i ≤ 1 − Σ_{j≠i} l_j        because Σ w = 1;
    (6)  w_i = 0 where a rival of i is used, and where i and its allies cannot add up to 1, see :mod:`.exclusion`.

A guarded certificate has more images than Pw, and its posteriors are those of a convex set W; (1) is then what
:mod:`.attacker_images` says of each image, and (2) to (5) are the same. For a task the entries of p(u|y) follow those
of w, with e_d(v) = ρ_d v − λω_d v log v, ρ_d without ν, and (5) for each task. For attackers' mutual information

    (7)  boxes may store how much of μ's curvature that of the attackers makes up for, see :mod:`.curvature`.

What remains belongs to the node's children, which have to cover it; a leaf may have nothing left. Arithmetic rounds, so
each bound is lowered by more than rounding could have added, and each cut is checked by evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privfunnel.certificate.attacker_images import Stack
from privfunnel.certificate.blocks import Block, Mask, refuse_leaves, walk
from privfunnel.certificate.curvature import Case as CurvedCase
from privfunnel.certificate.curvature import curves_of, cut_down
from privfunnel.certificate.tree import Case, Forest, Index, check_form
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx
from privfunnel.measures.leakages import gibbs

#: Room left around a box when Σ w = 1 is used on it: far above the rounding of a sum of M numbers.
SIMPLEX_SLACK = 1e-12

#: The unit of rounding errors, and how many boxes with curvature are worked on at a time, which bounds memory.
_EPS = float(np.finfo(np.float64).eps)
_CURVED_BLOCK = 256


class _Terms(NamedTuple):
    """What (2) and (3) say of n boxes: ρ (n, M) and μ (n, 1), e_i at both ends and what one e_i may be off by, (n, M).

    ``slope`` is (n, M) where entries have their own; ``excess`` (n, 1) is what the bound misses the claim by. ``q``
    (n, J) are the multipliers, made safe, and ``shift`` (n, 1) what that adds to ν.
    """

    rates: Array
    slope: Array
    at_lower: Array
    at_upper: Array
    noise: Array
    excess: Array
    q: Array
    shift: Array

    def where(self, chosen: Mask) -> _Terms:
        """Those of some of the boxes."""
        return _Terms(*(array[chosen] for array in self))

    @property
    def least(self) -> Array:
        """min(e_i(l_i), e_i(u_i)), (n, M)."""
        return np.minimum(self.at_lower, self.at_upper)


def check(
    columns: Array, cases: Sequence[Case], *, exclusive: bool = True, images: Stack | None = None
) -> None:
    """Raise CertificateError unless every tree proves its case on the simplex of one component.

    Args:
        columns: Pᵀ of the component, shape (M_c, K_c); those of ``images``, where there are any.
        cases: The trees, and what they are to prove.
        exclusive: Whether rivals may be used: not where a column stands for different ones.
        images: The images and constraints of a guarded certificate.
    """
    n_x, n_s = columns.shape
    for case in cases:
        check_form(case.proof, n_x, n_s)
    forest = Forest(columns, cases, exclusive=exclusive and images is None, images=images)
    n = len(cases)
    # Every tree begins with the whole simplex, 0 ≤ w ≤ 1, or what a guarantee leaves of it.
    caps = np.ones(n_x) if images is None else images.caps
    floors = np.zeros(n_x) if images is None else images.floors
    roots = Block(forest.roots, np.tile(floors, (n, 1)), np.tile(caps, (n, 1)))
    walk(roots, forest.case.size, lambda block: _check_block(forest, block))


def _check_block(forest: Forest, block: Block) -> Block | None:
    """Bound some boxes, make those smaller that are not settled, and return their children; None if there are none."""
    terms = _bound(forest, block)
    # Written so that what is not a number stays open, and fails below.
    unsettled = ~(terms.excess[:, 0] <= 0.0)
    if not unsettled.any():
        return None
    block, terms = block.where(unsettled), terms.where(unsettled)
    block, terms = _shrink_curved(forest, block, terms)
    block = block if forest.images is not None else _exclude(forest, block)
    block, full = _propagate(forest, block)
    block, terms = block.where(full), terms.where(full)
    refuse_leaves(forest.variable[block.nodes], terms.excess)
    if block.nodes.size == 0:
        return None
    _check_holes(forest, block, terms)
    return _children(forest, block)


def _multipliers(forest: Forest, nodes: Index) -> tuple[Array, Array]:
    """The q of some nodes (n, K), normalised: (1) holds for whatever was stored; and what it adds to ν, (n, 1)."""
    if forest.images is None:
        return gibbs(forest.q[nodes]), np.zeros((nodes.size, 1))
    points = forest.touching
    given = forest.q[nodes] if points is None else forest.images.touching(points[nodes])
    q, shift = forest.images.normalised(given)
    return q, shift[:, None]


def _bound(forest: Forest, block: Block) -> _Terms:
    """(2) and (3), rounding allowed for."""
    nodes, lower, upper = block
    columns, case = forest.columns, forest.case[nodes]
    n_x, n_s = columns.shape
    prices, slope = forest.prices[case], forest.slope[case]
    q, shift = _multipliers(forest, nodes)
    nu = forest.nu[nodes][:, None]
    # ρ_i, and the absolute values that it is a sum of; ν belongs to Σ w = 1, and not to the entries of a task
    rates = q @ columns.T - prices
    rates[:, : forest.n_x] -= nu
    size = np.abs(q) @ forest.sizes.T + np.abs(prices) + np.abs(nu) + np.abs(shift)
    # e_i(l_i) and e_i(u_i)
    at_lower, at_upper = rates * lower - slope * xlogx(lower), rates * upper - slope * xlogx(upper)
    # What one evaluation of e_i may be off by, anywhere in its interval: |w log w| is at most 1/e there.
    noise = 16.0 * _EPS * (np.abs(rates) * upper + 0.4 * slope)
    least = np.minimum(at_lower, at_upper)
    # Rates are off by their own rounding, which Σ w = 1 turns into its maximum, for each task once more; sums by γ_M
    # times their size.
    rounding = (
        len(forest.groups) * (n_s + 16) * _EPS * size.max(axis=1)
        + noise.sum(axis=1)
        + (n_x + 8) * _EPS * (np.abs(nu[:, 0]) + np.abs(least).sum(axis=1))
        + 8.0 * n_s * _EPS
    )
    # (3): F ≥ ν + Σ_i min(e_i(l_i), e_i(u_i))
    bound = nu[:, 0] + shift[:, 0] + least.sum(axis=1) - rounding
    excess = forest.claim[case] - bound
    return _Terms(rates, slope, at_lower, at_upper, noise, excess[:, None], q, shift)


def _shrink(block: Block, terms: _Terms) -> Block:
    """(4) at the ends of the intervals: cut off where e_i ≥ min(e_i(l_i), e_i(u_i)) + excess.

    A secant of the concave e_i lands where e_i is at least as high as asked; two of them are taken. The new end and the
    old one are then checked by evaluation, which makes the part between them safe: e_i is concave.
    """
    rates, slope, at_lower, at_upper, noise, excess = terms[:6]
    least, asked, rise = terms.least, excess + 4.0 * noise, at_upper - at_lower
    # Only the higher end can be cut off, and only where it is high enough.
    steep = np.abs(rise) > asked
    width = block.upper - block.lower
    width = width * np.where(steep, asked / np.where(steep, np.abs(rise), 1.0), 1.0)

    def end_at(width: Array) -> tuple[Array, Array]:
        """The end that leaves this width, and how far e_i is above the lower end's value there."""
        end = np.where(rise > 0.0, block.lower + width, block.upper - width)
        return end, rates * end - slope * xlogx(end) - least

    _, reached = end_at(width)
    width = width * np.where(reached > asked, asked / np.where(reached > asked, reached, 1.0), 1.0)
    end, reached = end_at(width)
    # The evaluation that counts: e_i(end) − min(e_i(l_i), e_i(u_i)) ≥ excess, both values being off by noise at most.
    safe = steep & (reached - 2.0 * noise >= excess)
    lower = np.where(safe & (rise < 0.0), end, block.lower)
    upper = np.where(safe & (rise > 0.0), end, block.upper)
    return Block(block.nodes, lower, upper)


def _shrink_curved(forest: Forest, block: Block, terms: _Terms) -> tuple[Block, _Terms]:
    """(4), and (7) where nodes have curvature; boxes that this settles are left out, with their terms."""
    shrunk = _shrink(block, terms)
    if forest.curved is None or forest.images is None:
        return shrunk, terms
    place = np.minimum(np.searchsorted(forest.curved.nodes, block.nodes), forest.curved.nodes.size - 1)
    lower, upper = shrunk.lower.copy(), shrunk.upper.copy()
    missing = terms.excess[:, 0].copy()
    bends = (
        np.flatnonzero(forest.curved.nodes[place] == block.nodes)
        if forest.curved.nodes.size
        else np.arange(0)
    )
    for some in np.array_split(bends, -(-bends.size // _CURVED_BLOCK) or 1):
        rows = forest.curved.rows(place[some])
        case = CurvedCase(block.lower[some], block.upper[some], terms.q[some], terms.shift[some, 0],
                          forest.prices[0], float(forest.slope[0, 0]), float(forest.claim[0]))  # fmt: skip
        curves = curves_of(forest.images, case, rows)
        missing[some] = np.minimum(missing[some], curves.excess)
        lower[some], upper[some] = cut_down(curves, rows, lower[some], upper[some])
    still = ~(missing <= 0.0)
    return Block(block.nodes, lower, upper).where(still), terms.where(still)


def _exclude(forest: Forest, block: Block) -> Block:
    """(6), for boxes of several cases, each with its own rivals."""
    nodes, lower, upper = block
    allied, own = forest.allies
    pattern = own[forest.case[nodes]]
    if np.all(pattern == pattern[0]):
        return Block(nodes, lower, _without_rivals(lower, upper, allied[pattern[0]]))
    upper = upper.copy()
    for number in np.unique(pattern):
        rows = np.flatnonzero(pattern == number)
        upper[rows] = _without_rivals(lower[rows], upper[rows], allied[number])
    return Block(nodes, lower, upper)


def _without_rivals(lower: Array, upper: Array, allied: Array) -> Array:
    """New upper ends (n, M) by (6); ``allied`` (M, M) is 1 where two symbols may be used together, and for itself."""
    # l_j > 0 for a rival j of i: w_i = 0.
    beaten = (lower > 0.0).astype(np.float64) @ (1.0 - allied) > 0.0
    upper = np.where(beaten, 0.0, upper)
    # A used symbol and its allies carry the whole posterior: Σ of the allies' u_j < 1 means that w_i = 0.
    return np.where(upper @ allied < 1.0 - SIMPLEX_SLACK, 0.0, upper)


def _propagate(forest: Forest, block: Block) -> tuple[Block, Mask]:
    """(5) for the posterior and for each task, and the mask (n,) of the boxes that meet all their simplices."""
    nodes, lower, upper = block
    if len(forest.groups) == 1:
        return _propagate_one(block)
    lower, upper, full = lower.copy(), upper.copy(), np.ones(nodes.size, dtype=bool)
    for group in forest.groups:
        part, meets = _propagate_one(Block(nodes, lower[:, group], upper[:, group]))
        lower[:, group], upper[:, group] = part.lower, part.upper
        full &= meets
    return Block(nodes, lower, upper), full


def _propagate_one(block: Block) -> tuple[Block, Mask]:
    """(5), and the mask (n,) of the boxes that meet the simplex."""
    nodes, lower, upper = block
    low, high = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
    # Σ l ≤ 1 ≤ Σ u and l ≤ u, or there is no posterior in the box.
    full = (low <= 1.0 + SIMPLEX_SLACK) & (high >= 1.0 - SIMPLEX_SLACK)
    full &= np.all(lower <= upper, axis=1, keepdims=True)
    # w_i ≤ 1 − Σ_{j≠i} l_j  and  w_i ≥ 1 − Σ_{j≠i} u_j
    new_upper = np.minimum(upper, lower + (1.0 - low) + SIMPLEX_SLACK)
    new_lower = np.maximum(lower, upper - (high - 1.0) - SIMPLEX_SLACK)
    return Block(nodes, new_lower, new_upper), full[:, 0]


def _check_holes(forest: Forest, block: Block, terms: _Terms) -> None:
    """(4) between the two children of a split: raise unless e_i is high enough at both ends of the hole, so inside."""
    variable, split = forest.variable[block.nodes], forest.split[block.nodes]
    holes = np.flatnonzero((variable >= 0) & (split[:, 0] < split[:, 1]))
    i, ends = variable[holes], split[holes]
    slope = np.broadcast_to(terms.slope, terms.rates.shape)[holes, i][:, None]
    height = terms.rates[holes, i][:, None] * ends - slope * xlogx(ends) - terms.least[holes, i][:, None]
    lowest = height.min(axis=1, initial=np.inf)
    if not np.all(lowest - 2.0 * terms.noise[holes, i] >= terms.excess[holes, 0]):
        raise CertificateError("the certificate does not prove its claim: a split leaves out too much")


def _children(forest: Forest, block: Block) -> Block:
    """The children and their boxes: one, the same box, for SHRINK; w_i ≤ s_0 and w_i ≥ s_1 for a split at symbol i."""
    nodes, lower, upper = block
    variable, first = forest.variable[nodes], forest.first[nodes]
    both = np.flatnonzero(variable >= 0)
    symbol = variable[both]
    left_upper, right_lower = upper.copy(), lower[both]
    left_upper[both, symbol] = np.minimum(upper[both, symbol], forest.split[nodes[both], 0])
    right_lower[np.arange(both.size), symbol] = np.maximum(lower[both, symbol], forest.split[nodes[both], 1])
    return Block(
        np.concatenate([first, first[both] + 1]),
        np.concatenate([lower, right_lower]),
        np.concatenate([left_upper, upper[both]]),
    )
