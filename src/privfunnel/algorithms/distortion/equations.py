"""What a channel has to satisfy, as linear equations for Newton's method: its rows, and its outputs if they are fixed.

``H⁻¹`` stands for the inverses of :class:`Inverse`, one M × M matrix an output; the equations' matrix is their sum as
the multipliers see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from privfunnel.measures import Array


@dataclass(frozen=True, eq=False)
class Case:
    """What is to be solved.

    Attributes:
        p_s_given_x: P, shape (K, M).
        p_x: p, shape (M,).
        costs: d, shape (M, N), 0 where a change is not allowed.
        allowed: Which changes are, shape (M, N).
        limit: D; ∞ where every allowed channel will do.
        invariant: Whether p(y) = p(x), N = M.
    """

    p_s_given_x: Array
    p_x: Array
    costs: Array
    allowed: NDArray[np.bool_]
    limit: float
    invariant: bool

    @property
    def limited(self) -> bool:
        """Whether what is paid on average is limited."""
        return self.limit < math.inf

    @cached_property
    def equations(self) -> Equations:
        """What the channel has to satisfy besides the limit."""
        return Balances(self) if self.invariant else Rows(self)


class Inverse:
    """Solves with diag(1/w_y) + Pᵀ G_y P for every output y, by the Woodbury formula.

    Args:
        case: The case.
        p_sy: v = p(s, y), shape (K, N), positive.
        weights: w, shape (M, N).
    """

    def __init__(self, case: Case, p_sy: Array, weights: Array) -> None:
        """Factor a K × K matrix an output."""
        p, root = case.p_s_given_x, np.sqrt(p_sy.T)
        self.weights = np.where(case.allowed, weights, 0.0)
        total = p_sy.sum(axis=0)[:, None, None]
        project = np.eye(p.shape[0]) - root[:, :, None] * root[:, None, :] / total
        low = np.matmul(p.T[None], project / root[:, :, None])  # PᵀB, shape (N, M, K)
        scaled = self.weights.T[:, :, None] * low
        inner = np.eye(p.shape[0]) + np.matmul(low.transpose(0, 2, 1), scaled)
        factor = np.linalg.cholesky(0.5 * (inner + inner.transpose(0, 2, 1)))
        self.low = np.linalg.solve(factor, scaled.transpose(0, 2, 1))  # (N, K, M)

    def __call__(self, right: Array) -> Array:
        """The solutions for right-hand sides of shape (M, N)."""
        inner = np.matmul(self.low, right.T[:, :, None])
        return np.asarray(self.weights * right - np.matmul(self.low.transpose(0, 2, 1), inner)[:, :, 0].T)


class Equations(Protocol):
    """Linear equations of p(x, y), with multipliers."""

    def matrix(self, inverse: Inverse) -> Array:
        """What multiplies the multipliers once p(x, y) is eliminated."""

    def sums(self, field: Array) -> Array:
        """The left-hand sides for a field of shape (M, N)."""

    def missing(self, u: Array) -> Array:
        """Right-hand sides less what p(x, y) has of them."""

    def spread(self, solved: Array) -> Array:
        """The multipliers as a field of shape (M, N)."""

    def multipliers(self, solved: Array) -> tuple[Array, Array]:
        """The multipliers a of rows, shape (M,), and b of outputs, shape (N,)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Σ_y u_xy = p_x."""

    case: Case

    def matrix(self, inverse: Inverse) -> Array:
        """Σ_y H⁻¹_y, shape (M, M)."""
        flat = inverse.low.reshape(-1, inverse.low.shape[2])
        return np.asarray(np.diag(inverse.weights.sum(axis=1)) - flat.T @ flat)

    def sums(self, field: Array) -> Array:
        """Sums of rows."""
        return np.asarray(field.sum(axis=1))

    def missing(self, u: Array) -> Array:
        """p_x − Σ_y u_xy."""
        return np.asarray(self.case.p_x - u.sum(axis=1))

    def spread(self, solved: Array) -> Array:
        """a_x for every y."""
        return np.broadcast_to(solved[:, None], self.case.costs.shape)

    def multipliers(self, solved: Array) -> tuple[Array, Array]:
        """a, and nothing for the outputs."""
        return solved, np.zeros(self.case.costs.shape[1])


@dataclass(frozen=True, eq=False)
class Balances:
    """Σ_y u_xy = p_x and Σ_x u_xy = p_y, as: what leaves a symbol comes back, and the outputs.

    With a_x + b_y = a_x − a_y + c_y the mass that stays where it is, mostly nearly all of it, enters the equations of c
    alone, and those of a are a Laplacian of the changes: taken as rows and columns they would cancel nearly.
    """

    case: Case

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """Symbols whose balance is needed: among those that changes connect, one follows from the others."""
        rows, columns = np.nonzero(self.case.allowed)
        size = self.case.p_x.size
        graph = csr_array((np.ones(rows.size), (rows, columns)), shape=(size, size))
        label = connected_components(graph, directed=False)[1]
        return np.setdiff1d(np.arange(size), np.unique(label, return_index=True)[1])

    def matrix(self, inverse: Inverse) -> Array:
        """The balances first, then the outputs, shape (free + M, free + M)."""
        every = np.arange(self.case.p_x.size)
        weights = _moving(inverse.weights)
        low = inverse.low.copy()
        low[every, :, every] = 0.0
        low[every, :, every] = -low.sum(axis=2)
        flat = low.reshape(-1, every.size)
        laplacian = np.diag(weights.sum(axis=0) + weights.sum(axis=1)) - weights - weights.T - flat.T @ flat
        ones = inverse(self.case.allowed.astype(np.float64))
        across = _moving(ones)
        across[every, every] = -across.sum(axis=0)
        across, laplacian = across[self.free], laplacian[np.ix_(self.free, self.free)]
        return np.block([[laplacian, across], [across.T, np.diag(ones.sum(axis=0))]])

    def sums(self, field: Array) -> Array:
        """What leaves less what comes, and the sums of outputs."""
        moving = _moving(field)
        balance = moving.sum(axis=1) - moving.sum(axis=0)
        return np.concatenate([balance[self.free], field.sum(axis=0)])

    def missing(self, u: Array) -> Array:
        """0 less the balances, p_y less the outputs."""
        target = np.concatenate([np.zeros(self.free.size), self.case.p_x])
        return np.asarray(target - self.sums(u))

    def spread(self, solved: Array) -> Array:
        """a_x − a_y + c_y."""
        a, c = self._parts(solved)
        return np.asarray(a[:, None] - a + c)

    def multipliers(self, solved: Array) -> tuple[Array, Array]:
        """The two, with b = c − a."""
        a, c = self._parts(solved)
        return a, c - a

    def _parts(self, solved: Array) -> tuple[Array, Array]:
        a = np.zeros(self.case.p_x.size)
        a[self.free] = solved[: self.free.size]
        return a, solved[self.free.size :]


def _moving(field: Array) -> Array:
    """A square field without its diagonal."""
    moving = field.copy()
    np.fill_diagonal(moving, 0.0)
    return moving


def circulating(allowed: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """The changes that a channel with p(y) = p(x) can make, and the group of each symbol.

    What leaves a symbol has to come back: only changes within a group, whose symbols all reach each other, do.
    """
    rows, columns = np.nonzero(allowed)
    graph = csr_array((np.ones(rows.size), (rows, columns)), shape=allowed.shape)
    label = connected_components(graph, directed=True, connection="strong")[1]
    return allowed & (label[:, None] == label), label


def levelled(value: Array, allowed: NDArray[np.bool_], label: NDArray[np.int32]) -> Array:
    """Prices that keep changes between groups away, one an output, shape (N,), to be added to b.

    A price that is the same within a group costs its rows what it pays its outputs. The groups have an order, since no
    change leads back: a group is priced above what can be reached from it by as much as is needed.

    Args:
        value: What a change is worth, P_x·q_y + λ d_xy − b_y, shape (M, M).
        allowed: All changes that are not forbidden.
        label: Group of each symbol.
    """
    price = np.zeros(int(label.max()) + 1)
    within = allowed & (label[:, None] == label)
    least = np.where(within, value, np.inf).min(axis=1)
    x, y = np.nonzero(allowed & ~within)
    for _ in range(price.size):
        raised = price.copy()
        np.maximum.at(raised, label[x], price[label[y]] + least[x] - value[x, y])
        if np.array_equal(raised, price):
            break
        price = raised
    return np.asarray(price[label])
