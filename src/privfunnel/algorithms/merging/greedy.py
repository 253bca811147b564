"""Greedy merging of outputs (Makhdoumi, Salamatian, Fawaz, Médard 2014).

Start with ``Y = X``. While some pair of outputs can be merged with ``I(X;Y)`` staying at or above the asked disclosure,
merge the pair that lowers ``I(S;Y)`` most. The result is a deterministic map, locally optimal at best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.merging.partitions import channel_of, disclosed, leaked
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener
from privfunnel.measures import Array
from privfunnel.model.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Greedy(Solver):
    """Merge pairs of outputs while the disclosure allows it, the largest drop in leakage first.

    The method has no options and no randomness; its answer is a deterministic map, never a mixture.
    """

    name: ClassVar[str] = "greedy"

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Merge until no pair can be merged with ``I(X;Y) ≥ disclosure`` (nats)."""
        *_, labels = merge_path(problem.p_sx, disclosure)
        return Answer(
            channel=channel_of(labels),
            status=Status.FEASIBLE,
            steps=int(problem.n_x - len(np.unique(labels))),
        )


def merge_path(p_sx: Array, disclosure: float) -> Iterator[NDArray[np.int64]]:
    """Yield the labels (M,) of every state of the greedy merge, from ``Y = X`` to the last feasible map.

    Only columns that touch the newly merged one change their gain, so each step costs O(N K) after the first.
    Ties go to the pair that costs the least disclosure, then to the first pair.
    """
    n_x = p_sx.shape[1]
    labels = np.arange(n_x)
    columns = p_sx.copy()
    alive = np.ones(n_x, dtype=bool)
    current = float(disclosed(p_sx.sum(axis=0)).sum())
    gain = np.full((n_x, n_x), -np.inf)
    loss = np.full((n_x, n_x), np.inf)
    for i in range(n_x - 1):
        gain[i, i + 1 :], loss[i, i + 1 :] = _merge_terms(columns, i, np.arange(i + 1, n_x))
    yield labels.copy()
    while alive.sum() > 1:
        # Rounding of a difference of entropies: a merge may use up the slack to the asked disclosure to this many
        # nats.
        feasible = current - loss >= disclosure - 1e-12
        if not feasible.any():
            return
        best = np.where(feasible, gain, -np.inf)
        # Merges whose gains differ by less are tied: the one that loses less disclosure is taken.
        tied = best >= best.max() - 1e-15
        i, j = divmod(int(np.argmin(np.where(tied, loss, np.inf))), n_x)
        current -= float(loss[i, j])
        labels[labels == j] = i
        columns[:, i] += columns[:, j]
        alive[j] = False
        gain[j, :] = gain[:, j] = -np.inf
        loss[j, :] = loss[:, j] = np.inf
        others = np.flatnonzero(alive)
        others = others[others != i]
        new_gain, new_loss = _merge_terms(columns, i, others)
        low, high = np.minimum(others, i), np.maximum(others, i)
        gain[low, high], loss[low, high] = new_gain, new_loss
        yield labels.copy()


def _merge_terms(columns: Array, i: int, others: NDArray[np.int64]) -> tuple[Array, Array]:
    """Drop in leakage and in disclosure when column ``i`` is merged with each of ``others``."""
    first, rest = columns[:, [i]], columns[:, others]
    gain = leaked(first) + leaked(rest) - leaked(first + rest)
    loss = disclosed(first.sum(axis=0)) + disclosed(rest.sum(axis=0)) - disclosed((first + rest).sum(axis=0))
    return gain, loss
