"""Outputs that never occur in practice, given to others: an interior point and time sharing leave them behind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel import measures
from privfunnel.measures import Array, Channel
from privfunnel.model import channels
from privfunnel.model.tasks import Utility

#: Outputs with less probability than this are rare.
RARE = 1e-9


def without_rare(tasks: Utility, channel: Channel, utility: float) -> Any:
    """The channel (M, N) with its rare outputs merged into others, as far as it keeps ``utility`` nats.

    Leakage only falls by merging. Utility falls by at most r_i D(v_i‖v_j) for output i with v_i = p(u|i) and
    probability r_i, merged into j; each goes where that is least, and they do so as long as half of what the channel
    keeps beyond ``utility`` pays for it.
    """
    joint = np.asarray((tasks.rows * tasks.p_x) @ channel)
    r = np.asarray(tasks.p_x @ channel)
    rare = np.flatnonzero(r < RARE)
    if not rare.size or rare.size == r.size:
        return channel
    spare = max(tasks.of(channel) - utility, 0.0) / 2.0
    common = np.flatnonzero(r >= RARE)
    v = (joint / np.maximum(r, measures.TINY)).T
    losses = np.zeros((rare.size, common.size))
    for task, block in zip(tasks.tasks, tasks.blocks, strict=True):
        losses += task.weight * measures.kl_divergence(v[rare, None, block], v[None, common, block])
    losses *= r[rare, None]
    nearest = losses.argmin(axis=1)
    least = losses[np.arange(rare.size), nearest]
    order = np.argsort(least, kind="stable")
    order = order[np.cumsum(least[order]) <= spare]
    into = np.arange(r.size)
    into[rare[order]] = common[nearest[order]]
    return _joined(channel, into)


def _joined(channel: Channel, into: NDArray[np.intp]) -> Any:
    """The channel with output j counted as ``into[j]``, shape (N,)."""
    kept, place = np.unique(into, return_inverse=True)
    n = into.size
    sums = sparse.csc_array((np.ones(n), (np.arange(n), place.reshape(-1))), shape=(n, kept.size))
    if channels.is_sparse(channel):
        return channels.as_held(sparse.csc_array(channel) @ sums)
    made: Array = np.asarray(channel @ sums)
    return made
