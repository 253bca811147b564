"""The lower convex envelope of achieved points, and the channels that achieve it.

Two channels can be mixed by drawing which one to use independently of X and releasing the draw with the output.
Disclosure and leakage mix linearly, so whatever points a method reaches, every point of their lower convex envelope is
achieved by time-sharing its two neighbours. Convexity also works from below: what is proved at some disclosures bounds
L(R) at all of them.

A concave curve, such as the information bottleneck's, is the envelope of its points with the second coordinate negated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.measures import Array, Channel
from privfunnel.model.channels import time_share
from privfunnel.model.question import FEASIBILITY, ROUNDING

#: Shorter chords prove nothing worth having and would magnify the rounding of their ends, in nats.
SHORTEST_CHORD = 1e-6


def lower_envelope(x: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
    """Indices of the vertices of the lower convex envelope of points (x, y), from the least x to the largest.

    Of points with the same x the lowest counts; points on a chord are left out.

    Args:
        x: First coordinates, shape (points,).
        y: Second coordinates, shape (points,).
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    order, x_of, y_of = np.lexsort((ys, xs)).tolist(), xs.tolist(), ys.tolist()
    hull: list[int] = []
    for c in order:
        if hull and x_of[c] <= x_of[hull[-1]]:
            continue
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            # b stays while it lies below the chord from a to c.
            if (y_of[b] - y_of[a]) * (x_of[c] - x_of[a]) < (y_of[c] - y_of[a]) * (x_of[b] - x_of[a]):
                break
            hull.pop()
        hull.append(c)
    return np.array(hull, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Envelope:
    """A lower convex envelope, asked at any disclosure between its ends; nats.

    Attributes:
        disclosure: The vertices' disclosures, increasing, shape (vertices,).
        leakage: The vertices' leakages, shape (vertices,).
        index: Which of the given points each vertex is, shape (vertices,).
        channels: The vertices' channels p(y|x), each (M, N); empty where only the numbers are of interest.
    """

    disclosure: Array
    leakage: Array
    index: NDArray[np.int64]
    channels: tuple[Array, ...] = ()

    @classmethod
    def of(cls, points: Iterable[tuple[float, float]], channels: Sequence[Array] = ()) -> Envelope:
        """The envelope of at least one (disclosure, leakage) pair, each with its channel where there are any."""
        x, y = np.array([(float(a), float(b)) for a, b in points]).T
        index = lower_envelope(x, y)
        return cls(x[index], y[index], index, tuple(channels[i] for i in index) if len(channels) else ())

    def neighbours(self, disclosure: float) -> tuple[int, int, float]:
        """The two vertices around a disclosure, and the weight of the right one that time-shares them."""
        last = len(self.disclosure) - 1
        if last == 0:
            return 0, 0, 0.0
        right = int(np.clip(np.searchsorted(self.disclosure, disclosure), 1, last))
        left = right - 1
        width = self.disclosure[right] - self.disclosure[left]
        return left, right, float(np.clip((disclosure - self.disclosure[left]) / width, 0.0, 1.0))

    def vertex(self, disclosure: float) -> int | None:
        """The vertex at a disclosure, up to what a request may be missed by, or None where there is none."""
        nearest = int(np.argmin(np.abs(self.disclosure - disclosure)))
        return nearest if abs(self.disclosure[nearest] - disclosure) <= FEASIBILITY else None

    def value(self, disclosure: ArrayLike) -> Array:
        """Leakage of the envelope at disclosures of any shape."""
        return np.asarray(np.interp(np.asarray(disclosure), self.disclosure, self.leakage))

    def slope(self, disclosure: float) -> float:
        """Slope of the envelope's segment at a disclosure; 0 where it is a single point."""
        left, right, _ = self.neighbours(disclosure)
        if left == right:
            return 0.0
        rise = self.leakage[right] - self.leakage[left]
        return float(rise / (self.disclosure[right] - self.disclosure[left]))

    def bend(self, disclosures: Iterable[float]) -> float:
        """Where one more point would tell most, in nats.

        It is the middle of the interval between two of the ``disclosures`` whose chord may be furthest from the curve:
        a convex curve through the ends of a chord with the neighbours' slopes lies within that triangle's height.
        """
        x = np.unique([self.disclosure[0], *disclosures, self.disclosure[-1]])
        y = self.value(x)
        slopes = np.diff(y) / np.diff(x)
        before = np.concatenate([[0.0], slopes[:-1]])
        after = np.concatenate([slopes[1:], [max(1.0, slopes[-1])]])
        room = np.diff(x) * (slopes - before) * (after - slopes) / np.maximum(after - before, ROUNDING)
        # Of intervals with the same room (all of them, on a straight curve) the widest goes first.
        i = int(np.argmax(room + ROUNDING * np.diff(x)))
        return float((x[i] + x[i + 1]) / 2.0)

    def channel(self, disclosure: float) -> Channel:
        """A channel (M, N) that achieves the envelope: a vertex's own (the same object), or two time-shared."""
        at = self.vertex(disclosure)
        if at is not None:
            return self.channels[at]
        left, right, weight = self.neighbours(disclosure)
        return time_share([self.channels[left], self.channels[right]], [1.0 - weight, weight])


def convex_bound(
    disclosure: ArrayLike, achieved: tuple[Array, Array], proved: tuple[Array, Array], ceiling: float = 1.0
) -> Array:
    """Lower bound of a convex, nondecreasing function L at any R, from what is known of it at some R.

    Where L(t) ≥ l is proved and L(x) ≤ u is achieved, the chord through (x, u) and (t, l) is below L on the far side
    of t. With the steepest such chord to the right of t and the flattest to its left::

        L(R) ≥ l + max(0, max over x < t of (l − u)/(t − x)) (R − t)           for R ≥ t,
        L(R) ≥ l + min(ceiling, min over x > t of (u − l)/(x − t)) (R − t)     for R ≤ t.

    Args:
        disclosure: Where to evaluate it, in nats, any shape.
        achieved: Disclosures x and leakages u of real channels, each (points,).
        proved: Disclosures t and bounds l, each (bounds,).
        ceiling: The steepest slope that L can have anywhere.
    """
    at = np.asarray(disclosure, dtype=np.float64)
    bound = np.full(at.shape, -np.inf)
    x, u = achieved
    for t, low in zip(*proved, strict=True):
        before, after = x < t - SHORTEST_CHORD, x > t + SHORTEST_CHORD
        right = np.max((low - u[before]) / (t - x[before]), initial=0.0)
        left = np.min((u[after] - low) / (x[after] - t), initial=ceiling)
        bound = np.maximum(bound, low + np.where(at >= t, right, left) * (at - t))
    return bound
