"""The linear program over perfectly private posteriors: the mixture of those there are that has the least entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.posteriors.exact_weights import DENSE_SYMBOLS, corrected
from privfunnel.algorithms.posteriors.lp import INFINITY, NO_ROWS, NO_VALUES, is_optimal, new_model, run_until
from privfunnel.errors import SolverError
from privfunnel.measures import Array, entropy

#: Entries and weights within this of 0 are 0, and a solution is exact where it errs by less.
ZERO = 1e-12


class MixtureProgram:
    """Least ``Σ r H(w)`` with ``Σ r w = p_x``, ``r ≥ 0``, over a growing set of posteriors."""

    def __init__(self, p_x: Array) -> None:
        self.p_x = p_x
        self._begin()

    def _begin(self) -> None:
        self.pool = np.zeros((0, self.p_x.size))
        self._keys: set[bytes] = set()
        self._solved: tuple[float, Array, Array] | None = None
        self._lp = new_model(primal=True)
        for p in self.p_x:
            self._lp.addRow(float(p), float(p), 0, NO_ROWS, NO_VALUES)

    def add(self, posteriors: Array) -> int:
        """Add posteriors (n, M) that are not there yet; return how many were new."""
        new = []
        for w in posteriors:
            # Decimals to which two vertices agree that are the same.
            key = np.round(w, 9).tobytes()
            if key not in self._keys:
                self._keys.add(key)
                new.append(w)
                rows = np.flatnonzero(w).astype(np.int32)
                self._lp.addCol(float(entropy(w)), 0.0, INFINITY, rows.size, rows, w[rows])
        if new:
            self.pool = np.concatenate([self.pool, np.array(new)])
        return len(new)

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Forget all posteriors but some, by their numbers."""
        kept = self.pool[chosen]
        self._begin()
        self.add(kept)

    def solve(self, deadline: Deadline = NEVER) -> tuple[float, Array, Array]:
        """Value, weights (n,) and prices (M,); those of the last time where the deadline comes first.

        Raises:
            SolverError: There is no last time, or the program cannot be solved.
        """
        run_until(self._lp, deadline)
        if not is_optimal(self._lp):
            if self._solved is not None and deadline.passed():
                value, weights, prices = self._solved
                return value, np.append(weights, np.zeros(len(self.pool) - weights.size)), prices
            raise SolverError(
                "the linear program over perfectly private posteriors could not be solved: report the table"
            )
        solution = self._lp.getSolution()
        self._solved = (
            float(self._lp.getObjectiveValue()),
            np.maximum(np.array(solution.col_value), 0.0),
            np.array(solution.row_dual),
        )
        return self._solved

    def exact_weights(self, weights: Array) -> tuple[Array, Array]:
        """Weights and posteriors in use, with Σ r w = p_x to rounding instead of the solver's tolerance."""
        used = weights > ZERO
        posteriors = self.pool[used]
        if self.p_x.size > DENSE_SYMBOLS:
            r = corrected(posteriors, weights[used], self.p_x)
        else:
            r = np.asarray(np.linalg.lstsq(posteriors.T, self.p_x, rcond=None)[0], dtype=np.float64)
        good = r.min() > -ZERO and np.abs(posteriors.T @ r - self.p_x).max() < ZERO
        r = np.maximum(r, 0.0) if good else weights[used]
        return r / r.sum(), posteriors
