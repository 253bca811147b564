"""The linear program over posteriors, on one live HiGHS model that only ever gains columns.

The columns are posteriors of single components (see :func:`privfunnel.certificate.components`). With C the
component, which both S and X determine, I(S;Y) = I(C;Y) + I(S;Y|C) and I(X;Y) = I(C;Y) + I(X;Y|C). Revealing some of C
costs a nat of leakage for a nat of disclosure, the steepest slope a curve can have; all else happens inside components,
which can be released side by side. So with weights r on component posteriors w and d = I(C;Y),

    L(R) = H(S|C) + min  d + Σ r (−H(P_c w))   s.t.  Σ r w = p_x,  Σ r H(w) − d ≤ H(X|C) − R,  0 ≤ d ≤ H(C),  r ≥ 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.algorithms.posteriors.assembly import Used
from privfunnel.algorithms.posteriors.components import Part, split_problem
from privfunnel.algorithms.posteriors.lp import INFINITY, NO_ROWS, NO_VALUES, new_model, run_robustly
from privfunnel.algorithms.posteriors.points import entries
from privfunnel.errors import SolverError
from privfunnel.measures import Array, entropy
from privfunnel.model.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Prices:
    """The duals at an optimum of the restricted program, and its value in nats.

    ``prices`` are scaled so that each component's least F is 0 at optimality; :meth:`global_prices` gives the a of the
    certificate, which carries the entropy of C as well.
    """

    prices: Array
    slope: float
    value: float


#: Weights of posteriors above this are in use.
IN_USE = 1e-13


class Pool:
    """The posteriors (n, M_c) of one component, with their cost −H(Pw) and resource H(w), in arrays that grow."""

    def __init__(self, n_x: int) -> None:
        self.size = 0
        # Posteriors that a pool has room for at first.
        self._table = np.zeros((256, n_x + 2))

    def extend(self, posteriors: Array, cost: Array, resource: Array) -> None:
        """Append posteriors."""
        end = self.size + len(posteriors)
        if end > len(self._table):
            larger = np.zeros((max(end, 2 * len(self._table)), self._table.shape[1]))
            larger[: self.size] = self._table[: self.size]
            self._table = larger
        self._table[self.size : end, :-2] = posteriors
        self._table[self.size : end, -2] = cost
        self._table[self.size : end, -1] = resource
        self.size = end

    @property
    def posteriors(self) -> Array:
        """All of them, (n, M_c)."""
        return self._table[: self.size, :-2]

    def least(self, prices: Array, slope: float) -> float:
        """The least F of the pool, in nats."""
        return float((self._table[: self.size] @ np.append(-prices, (1.0, slope))).min())


class Master:
    """The restricted program of one problem; ``parts`` are its components where they are known already."""

    def __init__(self, problem: Problem, parts: list[Part] | None = None) -> None:
        self.problem = problem
        self.parts = split_problem(problem) if parts is None else parts
        self.h_c = float(entropy([part.mass for part in self.parts])) if len(self.parts) > 1 else 0.0
        self.columns = np.ascontiguousarray(problem.p_s_given_x.T)
        self.pools = [Pool(part.x.size) for part in self.parts]
        self._known: list[set[bytes]] = [set() for _ in self.parts]
        self._owner: list[tuple[int, int]] = []
        # Of the last solution: d, and the weights of the posteriors there were then.
        self._primal = np.zeros(0)
        self._lp = new_model(primal=True)
        for p in problem.p_x:
            self._lp.addRow(float(p), float(p), 0, NO_ROWS, NO_VALUES)
        self._lp.addRow(-INFINITY, 0.0, 0, NO_ROWS, NO_VALUES)
        row = np.array([problem.n_x], dtype=np.int32)
        self._lp.addCol(1.0, 0.0, self.h_c, 1, row, np.array([-1.0]))
        for c, part in enumerate(self.parts):
            self.add(c, np.eye(part.x.size))

    @property
    def n_columns(self) -> int:
        """Number of posteriors in the program."""
        return len(self._owner)

    def add(self, component: int, posteriors: Array) -> int:
        """Add posteriors (n, M_c) of a component that are not there yet; return how many were new."""
        new = []
        for w in posteriors:
            # Decimals to which two posteriors have to agree to be the same column.
            key = np.round(w, 11).tobytes()
            if key not in self._known[component]:
                self._known[component].add(key)
                new.append(w)
        if not new:
            return 0
        part = self.parts[component]
        w_new = np.array(new)
        cost, resource = entries(part.p_s_given_x, w_new)
        starts, rows, values = [0], [], []
        for w, h in zip(w_new, resource, strict=True):
            used = np.flatnonzero(w)
            rows.append(np.append(part.x[used], self.problem.n_x))
            values.append(np.append(w[used], h))
            starts.append(starts[-1] + used.size + 1)
        n = len(new)
        self._lp.addCols(
            n, cost, np.zeros(n), np.full(n, INFINITY), starts[-1], np.array(starts[:-1], dtype=np.int32),
            np.concatenate(rows).astype(np.int32), np.concatenate(values),
        )  # fmt: skip
        place = self.pools[component].size
        self.pools[component].extend(w_new, cost, resource)
        self._owner.extend((component, place + j) for j in range(n))
        return n

    def solve(self, disclosure: float) -> Prices:
        """Solve for ``disclosure`` nats and return the duals."""
        n_x = self.problem.n_x
        room = self.problem.disclosure_ceiling - self.h_c - disclosure
        self._lp.changeRowBounds(n_x, -INFINITY, room)
        if not run_robustly(self._lp):
            status = self._lp.modelStatusToString(self._lp.getModelStatus())
            raise SolverError(f"the linear program over posteriors ended {status!r}: report the table")
        solution = self._lp.getSolution()
        duals, self._primal = np.array(solution.row_dual), np.array(solution.col_value)
        value = self.problem.h_s - self.h_c + self._lp.getObjectiveValue()
        return Prices(prices=duals[:n_x], slope=max(-float(duals[n_x]), 0.0), value=value)

    @property
    def revealed(self) -> float:
        """``d = I(C;Y)`` of the last solution, in nats."""
        return max(float(self._primal[0]), 0.0)

    def weights(self) -> list[Used]:
        """For each component, what the last solution uses."""
        r = self._primal[1:]
        used: list[tuple[list[float], list[int]]] = [([], []) for _ in self.parts]
        for j in np.flatnonzero(r > IN_USE):
            component, place = self._owner[j]
            used[component][0].append(float(r[j]))
            used[component][1].append(place)
        return [
            (np.array(weights), pool.posteriors[places])
            for pool, (weights, places) in zip(self.pools, used, strict=True)
        ]

    def cost(self, used: list[Used]) -> float:
        """``Σ r (−H(Pw))`` of weighted posteriors, in nats."""
        return float(
            sum(r @ entries(part.p_s_given_x, w)[0] for part, (r, w) in zip(self.parts, used, strict=True))
        )

    def least(self, duals: Prices) -> float:
        """The least F of all posteriors in the program, in nats."""
        return min(
            pool.least(duals.prices[part.x], duals.slope)
            for part, pool in zip(self.parts, self.pools, strict=True)
        )

    def global_prices(self, duals: Prices) -> Array:
        """The certificate's a: the prices plus ``(1 − μ) log p(c)`` on each component's symbols."""
        a = duals.prices.copy()
        if len(self.parts) > 1:
            for part in self.parts:
                a[part.x] += (1.0 - min(duals.slope, 1.0)) * np.log(part.mass)
        return a
