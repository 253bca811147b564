"""Douglas-Rachford splitting as its authors ship it, over a batch of runs of one shape.

For a multiplier ``β`` the method minimises ``β I(S;Y) − I(X;Y)`` with two copies of the channel, ``P = p(y|x)`` and
``Q ≈ p(y|s)``, tied by ``Q = A P`` with ``A = p(x|s)``. With ``r = p_x P`` and ``E = Q − A P`` the Lagrangian is

    ``(β−1) H(r) − β H(Y|S; Q) + H(Y|X; P) + ⟨Λ, E⟩ + (c/2) ‖E‖²``

and each iteration takes one gradient step in ``Q``, half a dual step, one gradient step in ``P`` and the other half
(Huang, El Gamal, El Gamal 2022). Rows are distributions over ``y`` here, so every gradient has its mean over ``y``
removed. Nothing is repaired in this module: there is no descent test, the step restarts at ``t0`` and only shrinks
until every entry stays inside [0, 1], and the stopping test is the distance of the two copies, not stationarity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.drs.batches import Batch, Group, Table, run_groups
from privfunnel.algorithms.sweep import BATCH_ENTRIES, groups
from privfunnel.measures import TINY, Array

#: A run whose step has shrunk to less cannot move.
_SMALLEST_STEP = 1e-11


@dataclass(frozen=True)
class PublishedSettings:
    """The authors' constants: penalty ``c``, relaxation ``a``, tolerance ``ε``, step ``t0`` and its shrink factor."""

    penalty: float = 1024.0
    relaxation: float = 1.0
    tolerance: float = 1e-6
    step: float = 1e-3
    shrink: float = 0.25
    max_steps: int = 40_000


def run_published(
    p_sx: Array,
    start: Array,
    beta: Array,
    settings: PublishedSettings,
    deadline: Deadline,
    seconds: float = 0.0,
) -> Batch:
    """Run the published iteration from ``start`` (runs, M, N), one multiplier ``beta`` (runs,) a run.

    A run that cannot move (every step leaves [0, 1], which is also how a wrong penalty ends) has code ``FROZEN``; its
    last interior channel is returned, so no entry is ever NaN. A step takes about ``seconds``, of a run alone.
    """
    table = Table(p_sx)
    batch = Batch.begin(table, start)
    work = [_Group(table, batch, part, start, beta, settings) for part in groups(start)]
    return run_groups(work, batch, deadline, seconds)


class _Group(Group["_State"]):
    """Runs of the published iteration that are advanced together."""

    def __init__(
        self, table: Table, batch: Batch, part: slice, start: Array, beta: Array, settings: PublishedSettings
    ) -> None:
        super().__init__(batch, part, _State.begin(table, start[part], beta[part]), settings.max_steps)
        self._table, self._settings = table, settings
        # A step is so short that asking the clock each time would be felt.
        self._per_look = 16 if start[part].size <= BATCH_ENTRIES else 1

    def advance(self) -> None:
        """A few steps of every run that goes on."""
        for _ in range(self._per_look):
            if not self.going:
                return
            self._steps += 1
            new, frozen = self._state.advance(self._table, self._settings)
            close = (0.5 * np.abs(new.error).sum(axis=2).max(axis=1) < self._settings.tolerance) & ~frozen
            # A converged run returns the pair before its last step, as the authors' code does.
            self._go_on(new, self._state, close, frozen)


@dataclass
class _State:
    """A batch of iterates: P (runs, M, N); Q, Λ, E = Q − A P (runs, K, N); β (runs, 1, 1)."""

    p: Array
    q: Array
    dual: Array
    error: Array
    beta: Array

    @classmethod
    def begin(cls, table: Table, start: Array, beta: Array) -> _State:
        p, q = start.copy(), table.x_given_s @ start
        return cls(p, q, np.zeros_like(q), q - table.x_given_s @ p, beta[:, None, None])

    def keep(self, mask: NDArray[np.bool_]) -> _State:
        return _State(**{name: value[mask] for name, value in vars(self).items()})

    def advance(self, table: Table, settings: PublishedSettings) -> tuple[_State, NDArray[np.bool_]]:
        """The next iterates, and which runs (runs,) could not move."""
        c, half = settings.penalty, (1.0 - settings.relaxation) * settings.penalty
        slope_q = _centred(self.beta * table.p_s[:, None] * (_log(self.q) + 1.0) + self.dual + c * self.error)
        t_q = _feasible_step(self.q, slope_q, settings)
        q = np.clip(self.q - t_q[:, None, None] * slope_q, 0.0, 1.0)
        middle = q - table.x_given_s @ self.p
        dual = self.dual - half * middle
        r = np.matmul(table.p_x, self.p)[:, None, :]
        slope_p = _centred(
            -table.p_x[:, None] * ((self.beta - 1.0) * (_log(r) + 1.0) + _log(self.p) + 1.0)
            - table.x_given_s.T @ (dual + c * middle)
        )
        t_p = _feasible_step(self.p, slope_p, settings)
        p = np.clip(self.p - t_p[:, None, None] * slope_p, 0.0, 1.0)
        error = q - table.x_given_s @ p
        frozen = (t_q < _SMALLEST_STEP) | (t_p < _SMALLEST_STEP)
        return _State(p, q, dual + c * error, error, self.beta), frozen


def _log(p: Array) -> Array:
    """Logarithm of a distribution, large and finite at 0."""
    return np.asarray(np.log(np.maximum(p, TINY)))


def _centred(gradient: Array) -> Array:
    """The gradient with its mean over ``y`` removed, so that rows keep summing to 1."""
    return np.asarray(gradient - gradient.mean(axis=2, keepdims=True))


def _feasible_step(p: Array, gradient: Array, settings: PublishedSettings) -> Array:
    """The first of ``t0, ρ t0, ρ² t0, …`` that keeps every entry of ``p − t gradient`` inside [0, 1], a run (runs,).

    The largest admissible step is known in closed form, so the authors' loop of trials becomes one logarithm.
    """
    room = np.where(gradient > 0.0, p, 1.0 - p)
    speed = np.abs(gradient)
    with np.errstate(divide="ignore", invalid="ignore"):
        longest = np.where(speed > 0.0, room / speed, np.inf)
    ratio = longest.min(axis=(1, 2)) / settings.step
    shrinks = np.ceil(np.log(np.clip(ratio, TINY, 1.0)) / np.log(settings.shrink))
    step: Array = settings.step * settings.shrink**shrinks
    return np.where(np.isfinite(speed).all(axis=(1, 2)), step, 0.0)
