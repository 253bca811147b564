"""Douglas-Rachford splitting, repaired: the same two copies and penalty, with steps that cannot fail silently.

What is kept is the splitting of ``β I(S;Y) − I(X;Y)`` into ``P = p(y|x)`` and ``Q ≈ p(y|s)``, tied by ``Q = A P``
with a multiplier ``Λ`` and a penalty ``c``. What is changed:

* The penalty weighs every private symbol by its probability, ``Σ_s c β p(s) ‖E_s‖² / 2``. One value of ``c`` then
  serves every table and multiplier; with equal weights a rare symbol makes the others' copies drift apart.
* ``P`` moves in the log domain, ``P⁺ ∝ P exp(−t ∇/p_x)``, so that an entry near 0 does not freeze the step. Apart
  from the penalty the Lagrangian is concave in ``P``, and the penalty is smooth relative to ``Σ_x p(x) D(·‖·)`` with
  constant ``c β``: a step ``t = 1/(c β)`` therefore descends. Longer steps, up to ``1/β`` (the step that an
  alternating minimisation would take), are kept while they descend; beyond that a run jumps to the nearest vertex.
* ``Q`` is solved exactly. Its problem is separable over ``s`` and strictly convex, and its optimality condition
  ``q + κ ln q = z − ν`` has the Wright omega function as its solution, with one scalar root ``ν`` a row.
* The multiplier follows the exact ``Q`` step, which keeps ``Λ = −∇F(Q)``.
* A run stops on the stationarity of ``β I(S;Y) − I(X;Y)`` at ``P`` itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.drs.batches import Batch, Group, Table, run_groups
from privfunnel.algorithms.sweep import groups, stationarity
from privfunnel.measures import TINY, Array, xlogx

#: Newton steps for the row sums of Q, and the error in them that is rounding.
_NEWTON_STEPS, _ROW_SUM = 50, 1e-13


@dataclass(frozen=True)
class RepairedSettings:
    """Penalty ``c`` (times ``β p(s)``), stationarity tolerance and the cap on steps."""

    penalty: float = 64.0
    tolerance: float = 1e-5
    max_steps: int = 4000


def run_repaired(
    p_sx: Array,
    start: Array,
    beta: Array,
    settings: RepairedSettings,
    deadline: Deadline,
    seconds: float = 0.0,
) -> Batch:
    """Run the repaired iteration from ``start`` (runs, M, N), one multiplier ``beta`` (runs,) a run.

    A step takes about ``seconds``, of a run alone.
    """
    table = Table(p_sx)
    batch = Batch.begin(table, start)
    work = [_Group(p_sx, batch, part, start, beta, settings) for part in groups(start)]
    return run_groups(work, batch, deadline, seconds)


class _Group(Group["_State"]):
    """Runs of the repaired iteration that are advanced together."""

    def __init__(
        self, p_sx: Array, batch: Batch, part: slice, start: Array, beta: Array, settings: RepairedSettings
    ) -> None:
        self._p_sx, self._table, self._settings = p_sx, Table(p_sx), settings
        state = _State.begin(self._table, start[part], beta[part], settings)
        super().__init__(batch, part, state, settings.max_steps)

    def advance(self) -> None:
        """A step of every run that goes on."""
        self._steps += 1
        state = self._state.advance(self._table)
        residual = stationarity(self._p_sx, state.p, state.beta)
        close = residual < self._settings.tolerance
        # A run whose step has shrunk to less cannot move.
        self._go_on(state, state, close, ~np.isfinite(residual) | (state.step < 1e-12))


@dataclass
class _State:
    """A batch of iterates: log P, P (runs, M, N); Q, Λ (runs, K, N); ν, c β p(s) (runs, K); β, safe t, t (runs,)."""

    log_p: Array
    p: Array
    q: Array
    dual: Array
    shift: Array
    beta: Array
    penalty: Array
    safe: Array
    step: Array

    @classmethod
    def begin(cls, table: Table, start: Array, beta: Array, settings: RepairedSettings) -> _State:
        p = start / start.sum(axis=2, keepdims=True)
        q = table.x_given_s @ p
        # Λ = −∇F(Q), the relation that every later exact Q step keeps.
        dual = -beta[:, None, None] * table.p_s[:, None] * (np.log(np.maximum(q, TINY)) + 1.0)
        strength = settings.penalty * np.maximum(beta, 1.0)
        return cls(
            log_p=np.log(np.maximum(p, TINY)), p=p, q=q, dual=dual, shift=np.zeros(q.shape[:2]), beta=beta,
            penalty=strength[:, None] * table.p_s, safe=1.0 / strength, step=1.0 / strength,
        )  # fmt: skip

    def keep(self, mask: NDArray[np.bool_]) -> _State:
        return _State(**{name: value[mask] for name, value in vars(self).items()})

    def advance(self, table: Table) -> _State:
        p, log_p, step = self._move_p(table)
        image = table.x_given_s @ p
        q, shift = _solve_q(image, self.dual, self.beta[:, None] * table.p_s, self.penalty, self.shift)
        error = q - image
        dual = self.dual + self.penalty[:, :, None] * error
        return _State(log_p, p, q, dual, shift, self.beta, self.penalty, self.safe, step)

    def _move_p(self, table: Table) -> tuple[Array, Array, Array]:
        """One log-domain step of ``P`` that does not raise the augmented Lagrangian."""
        c = self.penalty[:, :, None]
        error = self.q - table.x_given_s @ self.p
        log_r = np.log(np.maximum(np.matmul(table.p_x, self.p), TINY))[:, None, :]
        pull = table.x_given_s.T @ (self.dual + c * error)
        direction = (self.beta[:, None, None] - 1.0) * log_r + self.log_p + pull / table.p_x[:, None]
        before = self._value(table, self.p)
        safe = self.safe
        step = np.maximum(np.minimum(2.0 * self.step, 1.0 / self.beta), safe)
        p, log_p = _softmax(self.log_p + step[:, None, None] * direction)
        # Halvings of a step at most: 40 take the longest one below the safe one, which always descends.
        for _ in range(40):
            # Relative rounding of the Lagrangian: a rise of less is none.
            worse = (self._value(table, p) > before + 1e-14 * np.abs(before)) & (step > safe)
            if not worse.any():
                break
            step = np.where(worse, np.maximum(0.5 * step, safe), step)
            p_new, log_new = _softmax(self.log_p[worse] + step[worse, None, None] * direction[worse])
            p[worse], log_p[worse] = p_new, log_new
        return p, log_p, step

    def _value(self, table: Table, p: Array) -> Array:
        """The part of the augmented Lagrangian that depends on ``P`` (runs,)."""
        error = self.q - table.x_given_s @ p
        r = np.matmul(table.p_x, p)
        value = -(self.beta - 1.0) * xlogx(r).sum(axis=1) - np.matmul(xlogx(p).sum(axis=2), table.p_x)
        c = self.penalty[:, :, None]
        return np.asarray(value + np.sum((self.dual + 0.5 * c * error) * error, axis=(1, 2)))


def _softmax(logits: Array) -> tuple[Array, Array]:
    """Row-normalised ``exp(logits)`` and its logarithm, floored where it underflows."""
    logits = logits - logits.max(axis=2, keepdims=True)
    p = np.exp(logits)
    total = p.sum(axis=2, keepdims=True)
    # Logarithm of the smallest entry: just above log TINY, so that every entry stays positive.
    return p / total, np.maximum(logits - np.log(total), -690.0)


def _solve_q(image: Array, dual: Array, weight: Array, penalty: Array, shift: Array) -> tuple[Array, Array]:
    """Minimise ``weight Σ q ln q + Λ·q + (c/2) ‖q − image‖²`` over the simplex, each row apart.

    ``weight`` is ``β p_s`` and ``c`` the penalty, both (runs, K). With ``κ = weight / c`` the optimum is
    ``q = κ ω(z/κ − ln κ)``, ``z = image − (Λ + weight)/c − ν``; Newton finds the ``ν`` (runs, K) at which each row sums
    to 1.
    """
    kappa = (weight / penalty)[:, :, None]
    centre = image - (dual + weight[:, :, None]) / penalty[:, :, None]
    nu = shift
    for _ in range(_NEWTON_STEPS):
        q = kappa * wrightomega((centre - nu[:, :, None]) / kappa - np.log(kappa)).real
        excess = q.sum(axis=2) - 1.0
        if np.all(np.abs(excess) < _ROW_SUM):
            break
        # The row sum is convex and decreasing in ν: Newton's step from the left never overshoots.
        nu = nu + excess / np.sum(q / (q + kappa), axis=2)
    return q / q.sum(axis=2, keepdims=True), nu
