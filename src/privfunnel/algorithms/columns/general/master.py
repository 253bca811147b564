"""The linear program over allowed posteriors, on one live model that only gains columns.

With weights r on posteriors w of W, f_a(w) = −H(S|A_a)_w, or what :mod:`privfunnel.measures.leakages` says of another
measure, and nats,

    least leakage:    min z        s.t.  Σ r w = p_x,  H(S|A_a) + Σ r f_a(w) ≤ z,  Σ r H(w) ≤ H(X) − R,  r ≥ 0;
    most disclosure:  min Σ r H(w) s.t.  Σ r w = p_x,  H(S|A_a) + Σ r f_a(w) ≤ c_a,  r ≥ 0.

For a task with Q = p(u|x) and G(v) = −Σ_d ω_d v_d log v_d the first has the row Σ r G(Qw) ≤ Σ ω H(U) − R_U more, and
the row of the disclosure only where one is asked for; and

    most utility:     min Σ r G(Qw) s.t.  Σ r w = p_x,  H(S|A_a) + Σ r f_a(w) ≤ c_a,  Σ r H(w) ≤ H(X) − R,  r ≥ 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.columns.general.plan import PLAN
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.posteriors.exact_weights import DENSE_SYMBOLS, corrected
from privfunnel.algorithms.posteriors.lp import INFINITY, NO_ROWS, NO_VALUES, new_model, run_robustly
from privfunnel.errors import SolverError
from privfunnel.measures import Array, entropy, xlogx
from privfunnel.model.problem import Problem
from privfunnel.model.tasks import Utility
from privfunnel.model.threat import Stratum, Threat

#: Weights of posteriors above this are in use.
IN_USE = 1e-12
#: Weights that solve the equations of the program are taken where none is below minus this.
EXACT = 1e-12


def begins_in(problem: Problem, seconds: float) -> bool:
    """Whether the program of a problem is expected to be solved once in so many seconds."""
    return PLAN.first_unit_seconds * problem.n_x**3 <= max(seconds, PLAN.first_seconds)


class TooLateError(SolverError):
    """The time was up before there was a release."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Duals:
    """The duals of the program: weights θ (averages,), prices a (M,), slope μ; and its value in nats.

    ``task_slope`` is λ; None where there is no task.
    """

    weights: Array
    prices: Array
    slope: float
    value: float
    task_slope: float | None = None


class Purpose(NamedTuple):
    """What a release is for: the tasks, and how much of them to keep, in nats; None for as much as possible."""

    tasks: Utility
    utility: float | None = None

    def spent(self, posteriors: Array) -> Array:
        """G(Qw) of posteriors (n, M), in nats, shape (n,)."""
        return np.asarray(-xlogx(posteriors @ self.tasks.rows.T) @ self.tasks.weights)


def averaged(problem: Problem, threat: Threat, posteriors: Array) -> Array:
    """φ of the threat's averages at posteriors (n, M), shape (n, averages): −H(S|A)_w for mutual information."""
    made = np.zeros((len(posteriors), len(threat.averages)))
    start = np.zeros(1, dtype=np.intp)
    for image in threat.images(Stratum(np.arange(problem.n_x), problem, 1.0)):
        made[:, image.owner] += threat.measure.value(
            posteriors[:, image.x] @ image.columns, start, image.prior
        )[:, 0]
    return made


class Master:
    """The program of one problem and threat.

    Args:
        problem: The problem.
        threat: Attackers whose leakages count.
        disclosure: R in nats, to find the least leakage; −∞ to find the most disclosure.
        limits: What each average may be, (averages,), where the most disclosure is looked for; ∞ or None for no limit.
        purpose: What the release is for: the least leakage, or the most utility, is then looked for among those that
            disclose R, or all.
    """

    def __init__(
        self,
        problem: Problem,
        threat: Threat,
        *,
        disclosure: float = -math.inf,
        limits: Array | None = None,
        purpose: Purpose | None = None,
    ) -> None:
        self.problem, self.threat, self.purpose = problem, threat, purpose
        self.floored = disclosure > -math.inf
        self.least = self.floored if purpose is None else purpose.utility is not None
        self.limited = self.least or (limits is not None and bool(np.isfinite(limits).any()))
        #: What the value counts in where the most utility is looked for: the largest weight, as if that were 1.
        self.unit = 1.0 if purpose is None or self.least else float(purpose.tasks.weights.max())
        self.posteriors = np.zeros((0, problem.n_x))
        self._known: set[bytes] = set()
        self._duals: Duals | None = None
        #: Whether the program could not be solved any more: what it found before is what there is.
        self.stalled = False
        #: Whether the first solution, without which there is no release, is given up when the time is up.
        self.impatient = False
        self._lp = new_model(primal=True)
        self._lp.addCol(1.0 if self.least else 0.0, -INFINITY if self.least else 0.0,
                        INFINITY if self.least else 0.0, 0, NO_ROWS, NO_VALUES)  # fmt: skip
        for p in problem.p_x:
            self._lp.addRow(float(p), float(p), 0, NO_ROWS, NO_VALUES)
        room = problem.disclosure_ceiling - disclosure if self.floored else INFINITY
        self._lp.addRow(-INFINITY, room, 0, NO_ROWS, NO_VALUES)
        if purpose is not None:
            room = INFINITY if purpose.utility is None else purpose.tasks.h_u - purpose.utility
            self._lp.addRow(-INFINITY, room, 0, NO_ROWS, NO_VALUES)
        if self.limited:
            z = (
                (1, np.array([0], dtype=np.int32), np.array([-1.0]))
                if self.least
                else (0, NO_ROWS, NO_VALUES)
            )
            room_of = -threat.constants(problem) + (0.0 if limits is None else limits)
            for each in np.minimum(room_of, INFINITY):
                self._lp.addRow(-INFINITY, float(each), *z)

    def add(self, posteriors: Array) -> int:
        """Add posteriors (n, M) that are not there yet; return how many were new."""
        new = []
        for w in posteriors:
            # Decimals to which two posteriors have to agree to be the same column.
            key = np.round(w, 11).tobytes()
            if key not in self._known:
                self._known.add(key)
                new.append(w)
        if not new:
            return 0
        made = np.array(new)
        resource = entropy(made)[:, None]
        if self.purpose is not None:
            resource = np.concatenate([resource, self.purpose.spent(made)[:, None]], axis=1)
        leaked = averaged(self.problem, self.threat, made) if self.limited else np.zeros((len(made), 0))
        for w, h, f in zip(made, resource, leaked, strict=True):
            column = np.concatenate([w, h, f])
            rows = np.flatnonzero(column).astype(np.int32)
            cost = 0.0 if self.least else float(h[-1]) / self.unit
            self._lp.addCol(cost, 0.0, INFINITY, rows.size, rows, column[rows])
        self.posteriors = np.concatenate([self.posteriors, made])
        return len(new)

    def solve(self, deadline: Deadline = NEVER) -> Duals:
        """The duals for the posteriors there are; those of the last time where the deadline or rounding comes first."""
        if self._duals is None:
            own = max(deadline.left(), PLAN.first * deadline.seconds, PLAN.first_seconds)
            deadline = Deadline(own, deadline.clock) if self.impatient else NEVER
        if not run_robustly(self._lp, deadline):
            if self._duals is None and deadline.passed():
                raise TooLateError(
                    "the time was up before the linear program over posteriors was solved once"
                )
            if self._duals is not None:
                self.stalled = not deadline.passed()
                return self._duals
            status = self._lp.modelStatusToString(self._lp.getModelStatus())
            raise SolverError(f"the linear program over posteriors ended {status!r}: report the table")
        n_x = self.problem.n_x
        solution = self._lp.getSolution()
        duals, self._primal = np.array(solution.row_dual), np.array(solution.col_value)
        first = n_x + (1 if self.purpose is None else 2)
        weights = np.maximum(-duals[first:], 0.0) if self.limited else np.zeros(len(self.threat.averages))
        last = max(-float(duals[first - 1]), 0.0) if self.least else 1.0 / self.unit
        self._duals = Duals(
            weights=weights,
            prices=duals[:n_x],
            slope=last if self.purpose is None else max(-float(duals[n_x]), 0.0),
            value=float(self._lp.getObjectiveValue()),
            task_slope=None if self.purpose is None else last,
        )
        return self._duals

    def active(self) -> Array:
        """The posteriors in use, (n, M)."""
        return np.asarray(self.posteriors[np.flatnonzero(self._primal[1:] > IN_USE)])

    def used(self) -> tuple[Array, Array]:
        """Weights (n,) and posteriors (n, M) in use, with Σ r w = p_x to rounding where that is possible."""
        r = self._primal[1:]
        posteriors, told = self.active(), r[r > IN_USE]
        if self.problem.n_x > DENSE_SYMBOLS:
            exact, good = corrected(posteriors, told, self.problem.p_x), True
        else:
            solved = np.linalg.lstsq(posteriors.T, self.problem.p_x, rcond=None)[0]
            exact = np.asarray(solved, dtype=np.float64)
            good = bool(np.linalg.matrix_rank(posteriors) == len(posteriors))
        good = good and exact.min() > -EXACT and np.abs(posteriors.T @ exact - self.problem.p_x).max() < EXACT
        weights = np.maximum(exact, 0.0) if good else told
        return weights / weights.sum(), posteriors
