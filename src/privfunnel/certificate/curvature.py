r"""(7) of the checker: what the attackers' part of F curves upwards is set against what −w log w curves downwards.

For a block of mutual information with multipliers q, let q̂ = exp q, so that Σ q̂ ≤ 1, and T = Σ t. Because
x log(x/y) − x + y ≥ 3 (x − y)²/(2 (x + 2y)),

    Σ_k t_k log(t_k/T) ≥ q·t + Σ_k (t_k − q̂_k T)²/(2 U_k),     U_k ≥ (t_k + 2 q̂_k T)/3 everywhere in the box.

All blocks together add w'Aw/2 to (2). Where A + κ11' − diag(D) is positive semidefinite, with any c that sums to 1,

    w'Aw/2 ≥ Σ_i D_i (w_i − c_i)²/2 + c'Aw − c'Ac/2     wherever Σ w = 1,

so that the e_i(w) = ρ_i w − μ w log w + D_i (w − c_i)²/2, with (Ac)_i more in ρ_i, may take the place of those of (2).
They are concave up to μ/D_i and convex beyond, where a tangent bounds them. Entries that can be nothing else than c_i
are no part of A. Proofs may also say how far the e_i cut a box down; a cut counts where it is safe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.attacker_images import Stack
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx

Mask = NDArray[np.bool_]

#: κ: moves that change Σ w are none, so that their curvature is free.
KAPPA = 10.0
#: U is at least this: what entries add is divided by it.
LEAST_SCALE = 1e-6
#: Positive definite by so much, a share of the largest diagonal entry, is positive semidefinite after rounding.
DEFINITE = 1e-11
#: Steps towards the least value of a convex part; its tangent is a bound wherever they end.
NEWTON_STEPS = 10
#: How much the bounds of Σ w = 1 are relaxed by, and the largest stored number.
SLACK, LARGEST = 1e-12, 1e6
_EPS = float(np.finfo(np.float64).eps)
#: What an evaluation of e_i may be off by, a share of its terms.
NOISE = 16.0 * _EPS


class Curved(NamedTuple):
    """What the nodes with curvature store, one row each: their numbers (n,), ν (n,), D and c (n, M).

    The box may be cut down to ``lower`` ≤ w ≤ ``upper``, (n, M).
    """

    nodes: NDArray[np.int32]
    nu: Array
    curvature: Array
    centre: Array
    lower: Array
    upper: Array

    def rows(self, chosen: NDArray[np.intp]) -> Curved:
        """Some of the rows."""
        nodes, nu, curvature, centre, lower, upper = self
        cuts = (lower[chosen], upper[chosen])
        return Curved(nodes[chosen], nu[chosen], curvature[chosen], centre[chosen], *cuts)


class Case(NamedTuple):
    """Some boxes ``lower`` ≤ w ≤ ``upper`` (n, M), their multipliers q (n, J), and what F is: a (M,), μ, the claim.

    ``shift`` (n,) is added to each bound.
    """

    lower: Array
    upper: Array
    q: Array
    shift: Array
    prices: Array
    slope: float
    claim: float


class Curves(NamedTuple):
    """The e_i of n boxes: ρ, D and c (n, M), with μ; their least values and rounding (n, M); what is missing, (n,)."""

    rates: Array
    curvature: Array
    centre: Array
    slope: float
    least: Array
    noise: Array
    excess: Array


def check_curved(curved: Curved, n_nodes: int, n_x: int) -> None:
    """Raise CertificateError unless shapes, types and ranges are those that the arithmetic relies on."""
    nodes, n = curved.nodes, curved.nodes.size
    floats = curved[1:]
    shapes = tuple(array.shape for array in floats)
    fits = nodes.shape == (n,) and shapes == ((n,), *((n, n_x),) * 4) and nodes.dtype == np.int32
    if not fits or any(array.dtype != np.float64 for array in floats):
        raise CertificateError("the certificate's curvature is damaged: its arrays do not fit the tree")
    if n and not (nodes[0] >= 0 and nodes[-1] < n_nodes and np.all(np.diff(nodes) > 0)):
        raise CertificateError("the certificate's curvature is damaged: it is of nodes that do not exist")
    if not all(np.all(np.abs(array) <= LARGEST) for array in floats):
        raise CertificateError(
            "the certificate's curvature is damaged: it holds numbers that are too large or none"
        )


def curvature_of(images: Stack, q: Array, lower: Array, upper: Array) -> Array:
    """A of some boxes, (n, M, M), for multipliers (n, J) that were made safe."""
    made = np.zeros((len(q), lower.shape[1], lower.shape[1]))
    free = np.maximum(1.0 - lower.sum(axis=1), 0.0)[:, None, None] + SLACK
    for members, places, columns in images.alike:
        # of n boxes, B blocks, g members and k columns: (n, B, g, k)
        expected = columns.sum(axis=2)[:, :, None] * np.exp(q[:, places])[:, :, None, :]
        slopes = columns - expected
        low, high = lower[:, members], upper[:, members]
        room = np.minimum((high - low).sum(axis=2, keepdims=True), free)
        # the greatest (t + 2 q̂T)/3: T takes all the room that Σ w = 1 leaves, t the symbols that it has most of first
        order = np.argsort(-columns, axis=1, kind="stable")
        sorted_columns = np.take_along_axis(columns, order, axis=1)
        wide = np.take_along_axis((high - low)[:, :, :, None], order[None], axis=2)
        before = np.cumsum(wide, axis=2) - wide
        taken = np.clip(room[:, :, :, None] - before, 0.0, wide)
        held = (columns * low[:, :, :, None]).sum(axis=2) + (sorted_columns * taken).sum(axis=2)
        most = (held + 2.0 * expected[:, :, 0] * (low.sum(axis=2, keepdims=True) + room)) / 3.0
        most = most * (1.0 + SLACK) + SLACK
        inverse = 1.0 / np.maximum(most, LEAST_SCALE)
        # one attacker's blocks share no member, so that no entry is added to twice
        made[:, members[:, :, None], members[:, None, :]] += (slopes * inverse[:, :, None]) @ slopes.swapaxes(
            2, 3
        )
    return made


def positive(matrices: Array) -> Mask:
    """Which of some symmetric matrices (n, M, M) are positive definite, by elimination; they are overwritten."""
    good = np.ones(len(matrices), dtype=bool)
    for j in range(matrices.shape[1]):
        pivot = matrices[:, j, j]
        good &= pivot > 0.0
        column = matrices[:, j + 1 :, j] / np.where(pivot > 0.0, pivot, 1.0)[:, None]
        matrices[:, j + 1 :, j + 1 :] -= column[:, :, None] * matrices[:, None, j, j + 1 :]
    return good


def least_values(curves: Curves, lower: Array, upper: Array) -> Array:
    """A lower bound on each e_i over its interval, (n, M): at the ends, or by a tangent of the convex part."""
    rates, curvature, centre, slope = curves[:4]

    def value(w: Array) -> Array:
        return np.asarray(rates * w - slope * xlogx(w) + 0.5 * curvature * (w - centre) ** 2)

    bends = curvature * upper > slope
    steep = np.where(bends, curvature, 1.0)
    begin = np.where(bends, np.maximum(lower, slope / steep), upper)
    w = upper.copy()
    for step in range(NEWTON_STEPS + 1):
        safe = np.maximum(w, 1e-300)
        rise = rates - slope * (np.log(safe) + 1.0) + curvature * (w - centre)
        if step < NEWTON_STEPS:
            bend = curvature - slope / safe
            move = rise / np.where(bend > 0.0, bend, np.inf)
            w = np.where(bends, np.clip(w - move, begin, upper), w)
    tangent = value(w) + np.minimum(rise * (begin - w), rise * (upper - w))
    convex = np.where(bends, tangent, value(upper))
    return np.asarray(np.where(bends & (begin <= lower), convex, np.minimum(value(lower), convex)))


def curves_of(images: Stack, case: Case, rows: Curved) -> Curves:
    """The e_i that some nodes' ``rows`` give, with what their boxes' bounds miss the claim by; ∞ for no bound."""
    lower, upper, q, shift, prices, slope, claim = case
    n_x = lower.shape[1]
    centre = rows.centre
    free = (upper > lower) | (centre != lower)
    matrix = curvature_of(images, q, lower, upper)
    moved = np.einsum("nij,nj->ni", matrix, centre)
    largest = np.einsum("nii->ni", matrix).max(axis=1)
    rates = q @ images.columns.T - prices + moved - rows.nu[:, None]
    size = np.abs(q) @ images.sizes.T + np.abs(prices) + np.abs(rows.nu)[:, None] + np.abs(shift)[:, None]
    size = size + np.abs(moved)
    both = free[:, :, None] & free[:, None, :]
    matrix += KAPPA
    diagonal = np.arange(n_x)
    matrix[:, diagonal, diagonal] -= rows.curvature + DEFINITE * (largest + KAPPA)[:, None]
    sound = positive(np.where(both, matrix, np.eye(n_x)))
    noise = NOISE * (np.abs(rates) * upper + 0.4 * slope + np.abs(rows.curvature))
    curves = Curves(rates, rows.curvature, centre, slope, np.zeros_like(rates), noise, np.zeros(len(rates)))
    least = least_values(curves, lower, upper)
    quadratic = 0.5 * np.einsum("ni,ni->n", moved, centre)
    astray = np.abs(centre.sum(axis=1) - 1.0) + SLACK
    columns = images.columns.shape[1]
    rounding = (
        (columns + 16) * _EPS * size.max(axis=1)
        + 2.0 * noise.sum(axis=1)
        + (n_x + 8) * _EPS * (np.abs(rows.nu) + np.abs(least).sum(axis=1) + np.abs(quadratic))
        + (columns + 32) * _EPS * (largest + KAPPA)
        + 0.5 * KAPPA * astray**2
        + 8.0 * columns * _EPS
    )
    bound = rows.nu + shift - quadratic + least.sum(axis=1) - rounding
    excess = np.where(sound, claim - bound, np.inf)
    return curves._replace(least=least, excess=np.where(np.isnan(excess), np.inf, excess))


def cut_down(curves: Curves, rows: Curved, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The boxes without the ends where one e_i alone lifts the bound to the claim, as far as that is so."""
    asked = curves.least + curves.excess[:, None] + 4.0 * curves.noise
    low, high = np.clip(rows.lower, lower, upper), np.clip(rows.upper, lower, upper)
    below = least_values(curves, lower, low) >= asked
    above = least_values(curves, high, upper) >= asked
    return np.where(below, low, lower), np.where(above, high, upper)
