"""Proofs by cliques of rivals: trees whose boxes bound the mass of whole groups of symbols, and say which may carry it.

Of any two rivals some minimiser of F uses one at most, see :mod:`.exclusion`. So where the symbols fall into *cliques*
Q, groups of rivals, it uses at most one symbol of each. A box has a least mass L_Q for each clique and a most u_i for
each symbol, 0 where it is not used: a posterior in it has for each Q one symbol i with L_Q ≤ w_i ≤ u_i, or none where
L_Q = 0. With q, ν, ρ_i and e_i as in :mod:`.checker`, i running over the symbols of Q with u_i > 0,

    (1)  F ≥ ν + Σ_Q m_Q,    m_Q = min over i of min(e_i(L_Q), e_i(u_i)), and no more than 0 where L_Q = 0.

A box whose bound (1) reaches the claim is settled. Where it misses it by an *excess*,

    (2)  e_i(w_i) < m_Q + excess for the symbol i of Q that is used, and 0 < m_Q + excess where none is;
    (3)  L_Q ≥ 1 − Σ_{Q'≠Q} max u and u_i ≤ 1 − Σ_{Q'≠Q} L_Q', because Σ w = 1,

make it smaller. What remains belongs to the node's children: of a clique's mass below and above a point, of its symbols
with p(s|i) below and above a number, or the one box as it is. A hundred symbols make some ten cliques, so that boxes
have ten dimensions where those of :mod:`.checker` have a hundred. A :class:`.blocks.Block` has the L_Q of n boxes as
``lower`` (n, G), and the u_i as ``upper`` (n, M).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.blocks import Block, Mask, refuse_leaves, walk
from privfunnel.certificate.checker import SIMPLEX_SLACK
from privfunnel.certificate.exclusion import check_size, rivalry, rivals
from privfunnel.certificate.parts import Part
from privfunnel.certificate.tree import Index, Proof, check_form
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays, xlogx
from privfunnel.measures.leakages import gibbs

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class CliqueProof(Part):
    """A tree of such boxes that proves F ≥ ``claim`` on the simplex of n classes, G cliques.

    Attributes:
        tree: Its nodes. ``variable`` is a clique g < G whose mass is split, or G + gK + s where its symbols are, by
            p(s|i): those up to ``split[0]`` belong to the first child.
        cliques: The clique of each class, numbered from 0 on, shape (n,).
    """

    kind: ClassVar[str] = "cliques"

    tree: Proof
    cliques: NDArray[np.int32]

    def __post_init__(self) -> None:
        self.cliques.setflags(write=False)

    def arrays(self) -> Arrays:
        """All that is stored but for the claim, by name."""
        return {"cliques": self.cliques, **self.tree.arrays()}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(tree=Proof.read(archive, place, claim), cliques=archive.integers(f"{place}.cliques"))

    def check_alone(self, columns: Array, prices: Array, slope: float, spread: float) -> None:
        """Raise CertificateError unless it proves its claim: see :func:`check_cliques`."""
        check_cliques(columns, prices, slope, self)

    @property
    def claim(self) -> float:
        """The value proved, in nats."""
        return self.tree.claim

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.tree.n_nodes


class _Table(NamedTuple):
    """What all boxes share, symbols in the order of their cliques.

    Pᵀ (M, K), a (M,), μ, the tree, the clique of each symbol (M,) and where each clique begins (G,).
    """

    columns: Array
    prices: Array
    slope: float
    tree: Proof
    clique: Index
    start: Index

    def least(self, values: Array) -> Array:
        """The least value of each clique, (n, G) from (n, M)."""
        return np.asarray(np.minimum.reduceat(values, self.start, axis=1))

    def most(self, values: Array) -> Array:
        """The largest value of each clique, (n, G) from (n, M)."""
        return np.asarray(np.maximum.reduceat(values, self.start, axis=1))


class _Terms(NamedTuple):
    """Of n boxes: ρ (n, M), what one e_i may be off by (n, M), m_Q (n, G), and what (1) misses the claim by (n, 1)."""

    rates: Array
    noise: Array
    least: Array
    excess: Array

    def where(self, chosen: Mask) -> _Terms:
        """Those of some of the boxes."""
        return _Terms(*(array[chosen] for array in self))


def check_cliques(columns: Array, prices: Array, slope: float, proof: CliqueProof) -> None:
    """Raise CertificateError unless the tree proves F ≥ ``proof.claim`` on the simplex of these classes.

    Args:
        columns: p(s|class), shape (K, n), those of cells as :func:`.cell_columns` gives them.
        prices: Shape (n,).
        slope: μ.
        proof: The tree and its cliques.
    """
    table = _table(np.ascontiguousarray(columns.T), prices, slope, proof)
    n_cliques = table.start.size
    root = Block(np.zeros(1, dtype=np.intp), np.zeros((1, n_cliques)), np.ones((1, prices.size)))
    walk(root, proof.n_nodes, lambda block: _check_block(table, block))


def _table(columns: Array, prices: Array, slope: float, proof: CliqueProof) -> _Table:
    """The table in the order of cliques; raises unless they are cliques of rivals, and the tree is well-formed."""
    n_x, n_s = columns.shape
    groups = proof.cliques
    if groups.shape != (n_x,) or groups.dtype != np.int32:
        raise CertificateError(f"the certificate's cliques are not those of {n_x} classes: it is damaged")
    n_cliques = int(groups.max()) + 1
    if groups.min() < 0 or np.unique(groups).size != n_cliques:
        raise CertificateError("the certificate's cliques are not numbered from 0 on: it is damaged")
    check_form(proof.tree, n_cliques * (1 + n_s), n_s)
    check_size(n_x)
    together = groups[:, None] == groups
    np.fill_diagonal(together, False)
    if together.any() and not np.all(rivals(rivalry(columns), slope)[together]):
        raise CertificateError("the certificate's cliques hold symbols that are no rivals: it is damaged")
    order = np.argsort(groups, kind="stable")
    clique = groups[order].astype(np.intp)
    start = np.searchsorted(clique, np.arange(n_cliques))
    return _Table(columns[order], prices[order], slope, proof.tree, clique, start)


def _check_block(table: _Table, block: Block) -> Block | None:
    """Bound some boxes, make those smaller that are not settled, and return their children; None if there are none."""
    block = block.where(_meets(table, block))
    terms = _bound(table, block)
    # Written so that what is not a number stays open, and fails below.
    unsettled = ~(terms.excess[:, 0] <= 0.0)
    block, terms = block.where(unsettled), terms.where(unsettled)
    block = _shrink(table, block, terms)
    full = _meets(table, block)
    block, terms = block.where(full), terms.where(full)
    block = _propagate(table, block)
    refuse_leaves(table.tree.variable[block.nodes], terms.excess)
    if block.nodes.size == 0:
        return None
    _check_holes(table, block, terms)
    return _children(table, block)


def _meets(table: _Table, block: Block) -> Mask:
    """Whether there is any posterior in each box, (n,)."""
    top = table.most(block.upper)
    light = block.lower.sum(axis=1) <= 1.0 + SIMPLEX_SLACK
    return np.asarray(
        light & (top.sum(axis=1) >= 1.0 - SIMPLEX_SLACK) & np.all(block.lower <= top, axis=1), dtype=np.bool_
    )


def _bound(table: _Table, block: Block) -> _Terms:
    """(1), rounding allowed for."""
    nodes, low, upper = block
    n_s, slope = table.columns.shape[1], table.slope
    q, nu = gibbs(table.tree.q[nodes]), table.tree.nu[nodes][:, None]
    rates = q @ table.columns.T - table.prices - nu
    size = np.abs(q) @ table.columns.T + np.abs(table.prices) + np.abs(nu)
    # What one evaluation of e_i may be off by, anywhere in its interval: |w log w| is at most 1/e there.
    noise = 16.0 * _EPS * (np.abs(rates) * upper + 0.4 * slope)
    own = low[:, table.clique]
    ends = np.minimum(rates * own - slope * xlogx(own), rates * upper - slope * xlogx(upper))
    least = table.least(np.where(upper > 0.0, ends, np.inf))
    least = np.where(low > 0.0, least, np.minimum(least, 0.0))
    # Rates are off by their own rounding, which Σ w = 1 turns into its maximum; sums by γ_G times their size.
    rounding = (
        (n_s + 16) * _EPS * size.max(axis=1)
        + table.most(noise).sum(axis=1)
        + (low.shape[1] + 8) * _EPS * (np.abs(nu[:, 0]) + np.abs(least).sum(axis=1))
        + 8.0 * n_s * _EPS
    )
    bound = nu[:, 0] + least.sum(axis=1) - rounding
    return _Terms(rates, noise, least, (table.tree.claim - bound)[:, None])


def _shrink(table: _Table, block: Block, terms: _Terms) -> Block:
    """(2): cut off where e_i ≥ m_Q + excess.

    A secant of the concave e_i lands where e_i is at least as high as asked; two of them are taken. The new end is then
    checked by evaluation, which makes the part between it and the old one safe: e_i is concave.
    """
    slope, used = table.slope, block.upper > 0.0
    lower, upper = block.lower[:, table.clique], block.upper
    least, excess = terms.least[:, table.clique], terms.excess
    asked = excess + 4.0 * terms.noise

    def height(w: Array) -> Array:
        """How far e_i is above m_Q."""
        return np.asarray(terms.rates * w - slope * xlogx(w) - least)

    at_lower, at_upper = height(lower), height(upper)
    high_lower, high_upper = (at - 2.0 * terms.noise >= excess for at in (at_lower, at_upper))
    # One end is high enough: move it towards the other, which is not.
    bottom, rise = np.minimum(at_lower, at_upper), at_upper - at_lower
    steep = (np.maximum(at_lower, at_upper) > asked) & (bottom < asked)
    share = np.where(steep, (asked - bottom) / np.where(steep, np.abs(rise), 1.0), 1.0)

    def end_at(share: Array) -> tuple[Array, Array]:
        """The end that leaves this share of the interval, and how high e_i is there."""
        width = share * (upper - lower)
        end = np.where(rise > 0.0, lower + width, upper - width)
        return end, height(end)

    _, reached = end_at(share)
    over = steep & (reached > asked)
    share = share * np.where(over, (asked - bottom) / np.where(over, reached - bottom, 1.0), 1.0)
    end, reached = end_at(share)
    safe = steep & (reached - 2.0 * terms.noise >= excess)
    new_upper = np.where(safe & (rise > 0.0), end, upper)
    new_lower = np.where(safe & (rise < 0.0), end, lower)
    used = used & ~(high_lower & high_upper)
    # A clique's least mass is that of the symbol that can do with least, unless none of them need be used.
    must = (block.lower > 0.0) | (-terms.least - 2.0 * table.most(terms.noise) >= excess)
    low = np.where(must, table.least(np.where(used, new_lower, np.inf)), block.lower)
    return Block(block.nodes, low, np.where(used, new_upper, 0.0))


def _propagate(table: _Table, block: Block) -> Block:
    """(3), and symbols that cannot carry their clique's least mass are not used."""
    nodes, low, upper = block
    top = table.most(upper)
    room = low[:, table.clique] + (1.0 - low.sum(axis=1, keepdims=True)) + SIMPLEX_SLACK
    upper = np.minimum(upper, room)
    low = np.maximum(low, top - (top.sum(axis=1, keepdims=True) - 1.0) - SIMPLEX_SLACK)
    return Block(nodes, low, np.where(upper < low[:, table.clique], 0.0, upper))


def _members(table: _Table, nodes: Index) -> tuple[Mask, Mask, Index, Index]:
    """Whether nodes split a mass, whether symbols; the clique that they split, and the private symbol, (n,) each."""
    variable = table.tree.variable[nodes].astype(np.intp)
    n_cliques, n_s = table.start.size, table.columns.shape[1]
    by_mass, by_symbols = (variable >= 0) & (variable < n_cliques), variable >= n_cliques
    clique, private = np.divmod(variable - n_cliques, n_s)
    return by_mass, by_symbols, np.where(by_mass, variable, clique), np.where(by_symbols, private, 0)


def _check_holes(table: _Table, block: Block, terms: _Terms) -> None:
    """(2) between two masses: raise unless every e_i is high enough at both ends of its part of the hole, so inside."""
    by_mass, _, clique, _ = _members(table, block.nodes)
    split = table.tree.split[block.nodes]
    rows = np.flatnonzero(by_mass & (split[:, 0] < split[:, 1]))
    if rows.size == 0:
        return
    upper, rates, first = block.upper[rows], terms.rates[rows], split[rows, :1]
    concerned = (table.clique == clique[rows][:, None]) & (upper > first)
    goal = terms.least[rows, clique[rows]][:, None] + terms.excess[rows] + 2.0 * terms.noise[rows]
    for ends in (np.broadcast_to(first, upper.shape), np.minimum(upper, split[rows, 1:])):
        high = rates * ends - table.slope * xlogx(ends) >= goal
        if not np.all(high | ~concerned):
            raise CertificateError("the certificate does not prove its claim: a split leaves out too much")


def _children(table: _Table, block: Block) -> Block:
    """The children and their boxes: one, the same box, or the two sides of a mass or of a clique's symbols."""
    nodes, low, upper = block
    by_mass, by_symbols, clique, private = _members(table, nodes)
    both = np.flatnonzero(by_mass | by_symbols)
    mine = (table.clique == clique[:, None]) & (by_mass | by_symbols)[:, None]
    split, first = table.tree.split[nodes], table.tree.first[nodes].astype(np.intp)
    below = table.columns.T[private] <= split[:, :1]  # of its symbols, which are the first child's
    mass = by_mass[:, None]
    left = np.where(mine & mass, np.minimum(upper, split[:, :1]), np.where(mine & ~below, 0.0, upper))
    right = np.where(
        mine & mass, np.where(upper < split[:, 1:], 0.0, upper), np.where(mine & below, 0.0, upper)
    )
    right_low = low.copy()
    rows = np.flatnonzero(by_mass)
    right_low[rows, clique[rows]] = np.maximum(low[rows, clique[rows]], split[rows, 1])
    return Block(
        np.concatenate([first, first[both] + 1]),
        np.concatenate([low, right_low[both]]),
        np.concatenate([left, right[both]]),
    )
