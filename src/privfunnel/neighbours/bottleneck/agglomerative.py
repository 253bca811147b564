"""The agglomerative bottleneck: merge, again and again, the two outputs whose merger loses least about S.

Slonim and Tishby (Agglomerative Information Bottleneck, NIPS 1999): from Y = X, merging outputs i and j loses

    ``δ I(S;Y) = Σ_s φ(p(s,i)) + φ(p(s,j)) − φ(p(s,i) + p(s,j)) − the same of p(y)``,   φ(t) = t log t,

which is (p_i + p_j) times the Jensen-Shannon divergence of p(s|i) and p(s|j). A baseline: every mapping is
deterministic, and no merger is ever taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privfunnel.measures import Array, xlogx
from privfunnel.model import channels
from privfunnel.model.problem import Problem


def mappings(problem: Problem) -> Iterator[Array]:
    """The channel (M, N) after each merger, from M outputs down to one: M − 1 of them."""
    n_x = problem.n_x
    joint = problem.p_sx.copy()
    label = np.arange(n_x)
    alive = np.ones(n_x, dtype=bool)
    loss = np.full((n_x, n_x), np.inf)
    for i in range(n_x - 1):
        loss[i, i + 1 :] = _losses(joint[:, [i]], joint[:, i + 1 :])
    for _ in range(n_x - 1):
        i, j = divmod(int(np.argmin(loss)), n_x)
        joint[:, i] += joint[:, j]
        label[label == j] = i
        alive[j] = False
        loss[j, :] = loss[:, j] = np.inf
        others = np.flatnonzero(alive & (np.arange(n_x) != i))
        new = _losses(joint[:, [i]], joint[:, others])
        loss[np.minimum(i, others), np.maximum(i, others)] = new
        yield _channel(label)


def _losses(one: Array, others: Array) -> Array:
    """What I(S;Y) loses when the output with p(s,y) ``one`` (K, 1) is merged with each of ``others`` (K, n), (n,)."""
    both = one + others
    joint = (xlogx(one) + xlogx(others) - xlogx(both)).sum(axis=0)
    single = xlogx(one.sum(axis=0)) + xlogx(others.sum(axis=0)) - xlogx(both.sum(axis=0))
    return np.asarray(joint - single)


def _channel(label: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Array:
    """The deterministic mapping x → label, (M, number of labels)."""
    _, number = np.unique(label, return_inverse=True)
    channel: Array = channels.identity(int(number.max()) + 1)[number]
    return channel
