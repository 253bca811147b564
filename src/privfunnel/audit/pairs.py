"""Rows by pairs of symbols, as a table or, where that would be large, by the pairs that occur."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from privfunnel.data.engines.categories import Codes
from privfunnel.measures import Channel
from privfunnel.model.channels import DENSE_ENTRIES

#: Pairs that wait until they are counted together.
WAITING = 2**22


class Pairs:
    """Counts rows by (x, y).

    Args:
        n_x: M, the number of symbols x; ``n_y`` N, that of symbols y.
        n_y: See there.
    """

    def __init__(self, n_x: int, n_y: int) -> None:
        """Nothing is counted yet."""
        self.shape = (n_x, n_y)
        self.dense = np.zeros(n_x * n_y) if n_x * n_y <= DENSE_ENTRIES else None
        self.keys: Codes = np.zeros(0, dtype=np.int64)
        self.counts: Codes = np.zeros(0, dtype=np.int64)
        self._waiting: list[Codes] = []

    def add(self, x: Codes, y: Codes) -> None:
        """Count a batch of rows."""
        key = x * self.shape[1] + y
        if self.dense is not None:
            self.dense += np.bincount(key, minlength=self.dense.size)
            return
        self._waiting.append(key)
        if sum(map(len, self._waiting)) > WAITING:
            self._count()

    def _count(self) -> None:
        found, counts = np.unique(np.concatenate([*self._waiting, self.keys[:0]]), return_counts=True)
        both = np.concatenate([self.keys, found])
        self.keys, where = np.unique(both, return_inverse=True)
        total = np.bincount(where, np.concatenate([self.counts, counts]), len(self.keys))
        self.counts, self._waiting = total.astype(np.int64), []

    def table(self) -> Channel:
        """Rows by (x, y), shape (M, N): an array, or a SciPy sparse array beyond ten million entries."""
        if self.dense is not None:
            return self.dense.reshape(self.shape)
        self._count()
        places = (self.keys // self.shape[1], self.keys % self.shape[1])
        return sparse.csr_array((self.counts.astype(np.float64), places), shape=self.shape)
