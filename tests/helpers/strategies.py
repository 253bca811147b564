"""Hypothesis strategies: funnel problems of the awkward kinds, and channels for them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from privfunnel import Problem

KINDS = ("dense", "zeros", "tiny", "rank-deficient", "deterministic", "counts", "duplicates")


@st.composite
def problems(draw: st.DrawFn, max_s: int = 5, max_x: int = 7, min_s: int = 1, min_x: int = 1) -> Problem:
    """A problem with zeros, tiny probabilities, rank-deficient or deterministic p(s|x), or duplicate columns."""
    kind = draw(st.sampled_from(KINDS))
    n_s = draw(st.integers(min_s, max_s))
    n_x = draw(st.integers(min_x, max_x))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = rng.dirichlet(np.ones(n_s * n_x)).reshape(n_s, n_x)
    if kind == "zeros":
        table *= rng.random(table.shape) < 0.6
    elif kind == "tiny":
        table *= 10.0 ** -rng.integers(0, 18, size=table.shape)
    elif kind == "rank-deficient":
        table = np.outer(rng.dirichlet(np.ones(n_s)), table.sum(axis=0))
    elif kind == "deterministic":
        table *= np.arange(n_s)[:, None] == rng.integers(0, n_s, size=n_x)
    elif kind == "counts":
        table = rng.poisson(2.0, size=table.shape).astype(float)
    elif kind == "duplicates":
        table = table[:, rng.integers(0, n_x, size=n_x)]
    if table.sum() == 0.0:
        table[0, 0] = 1.0
    return Problem(table if kind == "counts" else table / table.sum())


@st.composite
def channels_for(draw: st.DrawFn, problem: Problem, max_y: int = 6) -> NDArray[np.float64]:
    """A random channel, often with exact zeros."""
    n_y = draw(st.integers(1, max_y))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    channel = rng.dirichlet(np.ones(n_y), size=problem.n_x)
    if draw(st.booleans()):
        channel *= rng.random(channel.shape) < 0.6
        channel[channel.sum(axis=1) == 0.0, 0] = 1.0
    return channel / channel.sum(axis=1, keepdims=True)
