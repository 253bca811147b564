"""Releases whose outputs name one public symbol or two: what an optimal binary funnel consists of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from privfunnel import measures
from privfunnel.algorithms.binary.table import Index
from privfunnel.measures import Array
from privfunnel.model.channels import NEGLIGIBLE
from privfunnel.model.problem import Point


@dataclass(frozen=True, kw_only=True, eq=False)
class PairRelease:
    """A channel whose every posterior p(x|y) has at most two entries; N outputs.

    Attributes:
        first: One public symbol of each output, shape (N,).
        second: The other one; the same as ``first`` where the output tells its symbol, shape (N,).
        mass_first: p(first, y), shape (N,).
        mass_second: p(second, y), 0 where there is no second symbol, shape (N,).
    """

    first: Index
    second: Index
    mass_first: Array
    mass_second: Array

    @property
    def n_y(self) -> int:
        """N, the number of outputs."""
        return int(self.first.size)

    @property
    def weights(self) -> Array:
        """p(y), shape (N,)."""
        return self.mass_first + self.mass_second

    @property
    def shares(self) -> Array:
        """The posterior probability of ``first``, shape (N,)."""
        return self.mass_first / self.weights

    def channel(self, n_x: int) -> csr_array[np.float64]:
        """p(y|x) as a sparse array (M, N), at most two entries a column, rows sum to 1."""
        outputs = np.arange(self.n_y)
        two = self.mass_second > 0.0
        rows = np.concatenate([self.first, self.second[two]])
        columns = np.concatenate([outputs, outputs[two]])
        values = np.concatenate([self.mass_first, self.mass_second[two]])
        total = np.bincount(rows, weights=values, minlength=n_x)
        return csr_array(coo_array((values / total[rows], (rows, columns)), shape=(n_x, self.n_y)))

    def point(self, p_sx: ArrayLike) -> Point:
        """Disclosure I(X;Y) and leakage I(S;Y) in nats, in O(M + N), for p(s, x) of shape (2, M)."""
        table = np.asarray(p_sx, dtype=np.float64)
        p_x = table.sum(axis=0)
        masses = np.stack([self.mass_first, self.mass_second])
        given_first, given_second = (
            table[:, self.first] / p_x[self.first],
            table[:, self.second] / p_x[self.second],
        )
        p_sy = given_first * self.mass_first + given_second * self.mass_second
        # Given the output, X is its first or its second symbol: H(X|Y) is the entropy of which.
        disclosure = float(measures.entropy(p_x) - measures.conditional_entropy(masses))
        return Point(max(disclosure, 0.0), float(measures.mutual_information(p_sy)))


def join(releases: list[tuple[float, PairRelease]]) -> PairRelease:
    """Time sharing: use each release with its share and reveal which; outputs that tell their symbol are merged.

    What rounding leaves of a share is none: see :func:`privfunnel.model.channels.time_share`.
    """
    used = [(share, release) for share, release in releases if share > NEGLIGIBLE]
    first = np.concatenate([release.first for _, release in used])
    second = np.concatenate([release.second for _, release in used])
    mass_first = np.concatenate([share * release.mass_first for share, release in used])
    mass_second = np.concatenate([share * release.mass_second for share, release in used])
    alone = mass_second <= 0.0
    told = np.unique(first[alone])
    masses = np.bincount(first[alone], weights=mass_first[alone], minlength=int(first.max()) + 1)[told]
    return PairRelease(
        first=np.concatenate([first[~alone], told]),
        second=np.concatenate([second[~alone], told]),
        mass_first=np.concatenate([mass_first[~alone], masses]),
        mass_second=np.concatenate([mass_second[~alone], np.zeros(told.size)]),
    )
