"""Many small convex programs at once: the least cost of a posterior whose p(u|y) lies in a box.

For each of n boxes, with costs c and posteriors w of the cells,

    minimise  −H(Pw) + c·w    subject to  low ≤ Qw ≤ high,  Σ w = 1,  w ≥ 0,

or, of posteriors without leakage, c·w alone subject to Pw = p(s) as well. A primal-dual interior-point method takes all
boxes through the same steps. Rows of Pw = p(s) and of the box may be missed by tiny multiples of their
multipliers, so that every program has a solution, one for a box that no p(u|y) lies in a very dear one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.measures import Array

#: By how much a row of the box, and of Pw = p(s), is missed for each unit of its multiplier.
ELASTIC, ELASTIC_IMAGE = 1e-7, 1e-9
#: The share of the gap that a step aims at, and how far it goes towards the boundary.
CENTRING, TO_BOUNDARY = 0.1, 0.93
MOST_STEPS = 30
#: Least p(s|y) whose inverse is used as a curvature.
LEAST_IMAGE = 1e-14


class Images(NamedTuple):
    """What posteriors of cells are seen through.

    Attributes:
        told: P, p(s|c), shape (C, K).
        kept: Q, p(u|c), shape (C, D).
        p_s: p(s), shape (K,), where nothing may leak; None where leakage is what is paid.
    """

    told: Array
    kept: Array
    p_s: Array | None


class Relaxed(NamedTuple):
    """Solutions of n programs.

    Attributes:
        posteriors: w, shape (n, C).
        q: Multipliers of Pw, shape (n, K): log p(s|y), or those of Pw = p(s).
        forces: Multipliers of the box, of its upper less those of its lower ends, shape (n, D).
    """

    posteriors: Array
    q: Array
    forces: Array


class _Iterate(NamedTuple):
    """Posteriors w, (n, C), with q, reduced costs and prices, and the box's slacks and multipliers, (n, 2 D)."""

    w: Array
    q: Array
    reduced: Array
    price: Array
    slack: Array
    force: Array


def relaxed(images: Images, costs: Array, low: Array, high: Array, tolerance: float) -> Relaxed:
    """Solve the programs with costs (n, C) and boxes (n, D) to a gap of ``tolerance`` nats each, or nearly so."""
    ends = np.concatenate([high, -low], axis=1)
    at = _start(images, costs, ends)
    live = np.arange(costs.shape[0])
    for _ in range(MOST_STEPS):
        some = _Iterate(*(part[live] for part in at))
        gap = (some.w * some.reduced).sum(axis=1) + (some.slack * some.force).sum(axis=1)
        going = gap > tolerance
        live, gap = live[going], gap[going]
        if not live.size:
            break
        try:
            with np.errstate(all="ignore"):
                moved = _step(images, costs[live], ends[live], _Iterate(*(p[going] for p in some)), gap)
        except np.linalg.LinAlgError:
            break
        sound = np.all([np.isfinite(part).reshape(live.size, -1).all(axis=1) for part in moved], axis=0)
        live = live[sound]
        for part, new in zip(at, moved, strict=True):
            part[live] = new[sound]
    w = at.w / at.w.sum(axis=1, keepdims=True)
    return Relaxed(w, _paid(images, at)[0], _folded(at.force))


def _start(images: Images, costs: Array, ends: Array) -> _Iterate:
    """Every posterior uniform."""
    n, cells = costs.shape
    w = np.full((n, cells), 1.0 / cells)
    q = np.zeros((n, images.told.shape[1]))
    if images.p_s is None:
        q = _logarithms(w @ images.told)
    gradient = q @ images.told.T + costs
    price = gradient.min(axis=1) - 0.3
    reduced = gradient - price[:, None]
    half = ends.shape[1] // 2
    width = np.maximum(ends[:, :half] + ends[:, half:], 0.0)
    slack = np.maximum(ends - _both(w @ images.kept), np.tile(0.5 * width + 1e-3, 2))
    force = (w * reduced).mean(axis=1)[:, None] / slack
    return _Iterate(w, q, reduced, price, slack, force)


def _both(values: Array) -> Array:
    return np.concatenate([values, -values], axis=1)


def _folded(values: Array) -> Array:
    half = values.shape[1] // 2
    return np.asarray(values[:, :half] - values[:, half:])


def _logarithms(images: Array) -> Array:
    return np.asarray(measures.safe_log(np.maximum(images, measures.TINY)))


def _paid(images: Images, at: _Iterate) -> tuple[Array, Array, Array]:
    """q, the inverse of its derivative by Pw, and by how much Pw misses what it belongs to; each (n, K)."""
    t = at.w @ images.told
    if images.p_s is None:
        return _logarithms(t), np.maximum(t, LEAST_IMAGE), np.zeros_like(t)
    return at.q, np.full_like(t, ELASTIC_IMAGE), t - images.p_s - ELASTIC_IMAGE * at.q


def _step(images: Images, costs: Array, ends: Array, at: _Iterate, gap: Array) -> _Iterate:
    """One Newton step towards a tenth of the gap, as long as everything stays positive.

    With D = reduced/w the Newton matrix is D + FᵀE F, F = (P, Q), E diagonal: its inverse takes a system of K + D rows.
    """
    q, softness, off = _paid(images, at)
    gradient = q @ images.told.T + costs + _folded(at.force) @ images.kept.T - at.price[:, None]
    # Where the curvature of the entropy has spoilt stationarity the multipliers are made to fit again.
    reduced = np.maximum(gradient, 0.5 * at.reduced)
    centre = (CENTRING * gap / (at.w.shape[1] + ends.shape[1]))[:, None]
    missed = ends - _both(at.w @ images.kept) - at.slack + ELASTIC * at.force
    give = 1.0 / (at.slack / at.force + ELASTIC)
    push = centre / at.force - at.slack - missed
    stiff = give[:, : give.shape[1] // 2] + give[:, give.shape[1] // 2 :]
    pushed = _folded(give * push)
    right = centre / at.w - gradient - pushed @ images.kept.T

    features = np.concatenate([images.told, images.kept], axis=1)
    inverse = at.w / reduced
    total = inverse.sum(axis=1)
    mean = (inverse @ features) / total[:, None]
    # Taken from their mean: otherwise cells that carry a posterior alone drown what tells them apart.
    centred = features[None] - mean[:, None, :]
    weighted = centred * inverse[:, :, None]
    matrix = np.matmul(centred.transpose(0, 2, 1), weighted)
    diagonal = np.arange(matrix.shape[1])
    matrix[:, diagonal, diagonal] += np.concatenate([softness, 1.0 / stiff], axis=1)
    level = (inverse * right).sum(axis=1) / total
    apart = right - level[:, None]
    lack = 1.0 - at.w.sum(axis=1)
    vector = np.matmul(apart[:, None, :], weighted)[:, 0] + mean * lack[:, None]
    vector[:, : q.shape[1]] += off
    found = np.linalg.solve(matrix, vector[:, :, None])[:, :, 0]

    d_w = inverse * (apart - np.matmul(centred, found[:, :, None])[:, :, 0] + (lack / total)[:, None])
    d_price = (mean * found).sum(axis=1) - level + lack / total
    d_reduced = gradient + pushed @ images.kept.T + found @ features.T - d_price[:, None] - reduced
    moved = _both(d_w @ images.kept)
    d_force = give * (push + moved)
    d_slack = missed - moved + ELASTIC * d_force
    pairs = ((at.w, d_w), (reduced, d_reduced), (at.slack, d_slack), (at.force, d_force))
    longest = np.min([np.where(d < 0.0, -x / d, np.inf).min(axis=1) for x, d in pairs], axis=0)
    length = np.minimum(TO_BOUNDARY * longest, 1.0)
    by = length[:, None]
    return _Iterate(
        at.w + by * d_w, q + by * found[:, : q.shape[1]], reduced + by * d_reduced, at.price + length * d_price,
        at.slack + by * d_slack, at.force + by * d_force,
    )  # fmt: skip
