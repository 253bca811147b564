"""Numbers drawn for a bin: a smooth distribution inside it that has the bin's mean.

Inside [a, b) the density is linear where that can have the mean m, c = 6(m − a)/(b − a) − 3 being its slope, and else a
triangle that falls from the nearer end to 0 at three times the mean's distance. In a bin without an end it is such a
triangle from the cut point on: its mean is a third of its length.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import Cut
from privfunnel.data.engines.cutting import nice
from privfunnel.measures import TINY, Array

#: Parts of a bin's width to which a drawn number is rounded: the digits beyond would be noise.
PARTS = 1000.0


class Density:
    """Draws numbers for the bins of a cut.

    Args:
        cut: The bins, as they are published.
        means: The mean of each bin, inside it, shape (bins,).
    """

    def __init__(self, cut: Cut, means: Array) -> None:
        """Build the tables."""
        self.whole = cut.integer
        shapes = [_shape(cut, code, float(mean)) for code, mean in enumerate(means)]
        self.start, self.length, self.slope = (np.array(part) for part in zip(*shapes, strict=True))
        spans = [cut.span(code) for code in range(cut.size)]
        self.least = np.array(
            [low if math.isfinite(cut.edges[i]) else -math.inf for i, (low, _) in enumerate(spans)]
        )
        self.most = np.array(
            [high if math.isfinite(cut.edges[i + 1]) else math.inf for i, (_, high) in enumerate(spans)]
        )
        sizes = np.abs(self.length) / PARTS
        self.step = np.array([nice(size) if size > 0.0 else 0.0 for size in sizes.tolist()])

    def draw(self, codes: NDArray[np.int64], uniform: Array) -> Array:
        """One number for each bin of ``codes``, from as many uniform numbers in [0, 1)."""
        slope = self.slope[codes]
        triangle = np.isnan(slope)
        c = np.where(triangle, 0.0, slope)
        # F(t) = c t² + (1 − c) t = u, solved without cancellation.
        linear = 2.0 * uniform / ((1.0 - c) + np.sqrt((1.0 - c) ** 2 + 4.0 * c * uniform) + TINY)
        part = np.where(triangle, 1.0 - np.sqrt(1.0 - uniform), linear)
        numbers = self.start[codes] + self.length[codes] * part
        step = np.where(self.whole, 1.0, self.step[codes])
        near = np.divide(numbers, step, out=np.zeros_like(numbers), where=step > 0.0)
        numbers = np.where(step > 0.0, np.round(near) * step, numbers)
        # Rounding must not carry a number over the end of its bin.
        return np.asarray(np.clip(numbers, self.least[codes], self.most[codes]))


def _shape(cut: Cut, code: int, mean: float) -> tuple[float, float, float]:
    """Where the density starts, its signed length, and its slope; NaN for a triangle that falls from the start."""
    low, high = cut.edges[code], cut.edges[code + 1]
    if cut.integer:  # whole numbers own half a unit on either side
        least, most = cut.span(code)
        low = least - 0.5 if math.isfinite(low) else low
        high = most + 0.5 if math.isfinite(high) else high
    if math.isinf(low) and math.isinf(high):
        return mean, 0.0, math.nan
    if math.isinf(high) or mean - low < (high - low) / 3.0:
        return low, 3.0 * (mean - low), math.nan
    if math.isinf(low) or high - mean < (high - low) / 3.0:
        return high, -3.0 * (high - mean), math.nan
    return low, high - low, 6.0 * (mean - low) / (high - low) - 3.0
