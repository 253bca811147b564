"""Operations on channels p(y|x), shape (M, N), rows sum to 1, that leave or mix the two informations exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privfunnel.measures import Array


def identity(n_x: int) -> Array:
    """Release X itself: disclosure H(X), leakage I(S;X)."""
    return np.eye(n_x)


def constant(n_x: int) -> Array:
    """Release nothing: one output, disclosure and leakage 0."""
    return np.ones((n_x, 1))


def time_share(channels: Sequence[Array], weights: Sequence[float]) -> Array:
    """Use channel c with probability ``weights[c]`` and reveal which: both informations average linearly."""
    shares = np.asarray(weights, dtype=np.float64)
    shares = shares / shares.sum()
    parts = [share * channel for share, channel in zip(shares, channels, strict=True) if share > 0.0]
    return merge_outputs(np.hstack(parts))


def merge_outputs(channel: Array, tolerance: float = 1e-13) -> Array:
    """Drop outputs that never occur and merge those with the same posterior; neither information changes.

    Two columns of p(y|x) that are proportional have the same posterior p(x|y). Columns are compared after division by
    their sum, to ``tolerance`` in every entry. The first of each group keeps its place.
    """
    channel = channel[:, channel.sum(axis=0) > 0.0]
    shapes = channel / channel.sum(axis=0)
    kept: list[int] = []
    merged: list[Array] = []
    for j in range(channel.shape[1]):
        if kept:
            same = np.flatnonzero(np.abs(shapes[:, kept] - shapes[:, [j]]).max(axis=0) <= tolerance)
            if same.size:
                merged[int(same[0])] = merged[int(same[0])] + channel[:, j]
                continue
        kept.append(j)
        merged.append(channel[:, j])
    out = np.stack(merged, axis=1)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def from_posteriors(p_y: Array, p_x_given_y: Array, p_x: Array) -> Array:
    """The channel ``p(y|x) = p(y) p(x|y) / p(x)`` of weights (N,) on posteriors (M, N); rows normalised exactly."""
    channel = p_x_given_y * p_y / p_x[:, None]
    return np.asarray(channel / channel.sum(axis=1, keepdims=True))
