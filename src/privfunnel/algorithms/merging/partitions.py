"""Deterministic maps as partitions of X: columns, costs and channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.measures import Array, xlogx


def phi(t: ArrayLike) -> Array:
    """``φ(t) = −t log t``, 0 at 0."""
    return np.asarray(-xlogx(t))


def channel_of(labels: Sequence[int] | NDArray[np.int64]) -> Array:
    """The deterministic channel (M, N) that sends symbol ``x`` to output ``labels[x]``; outputs are renumbered."""
    _, index = np.unique(np.asarray(labels), return_inverse=True)
    return np.eye(int(index.max()) + 1)[index]


def disclosed(p_y: ArrayLike) -> Array:
    """A column's share ``φ(p_y)`` of the disclosure ``I(X;Y) = H(Y)`` of a deterministic map."""
    return phi(p_y)


def leaked(p_sy: ArrayLike, axis: int = 0) -> Array:
    """A column's share ``φ(p_y) − Σ_s φ(p_sy)`` of ``I(S;Y) − H(S)``, with ``s`` along ``axis``.

    It differs from the share of I(S;Y) itself by a term that is linear in the column, which cancels in every merge.
    """
    p_sy = np.asarray(p_sy, dtype=np.float64)
    return np.asarray(phi(p_sy.sum(axis=axis)) - phi(p_sy).sum(axis=axis))
