"""Where to cut a column of numbers: cut points that a person would choose, and that are nobody's own value.

Bins are published with a release. A cut point that is an order statistic of the data is some row's exact value, and the
ends of the outer bins would be the least and the largest one. So outer bins have no end, quantiles move to the roundest
number near them, and equal widths span the range that all but a few rows on either side lie in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines.bins import Cut, merged

#: Fewer rows than this are few: no published value, bin or number may belong to them alone.
FEW = 5
#: By how much of its share a quantile bin may become larger or smaller for the sake of a round cut point.
SLACK = 0.05
#: Parts of a bin's width to which equal-width cut points are rounded.
PARTS = 10.0
#: Bins that a column may have.
MOST_BINS = 10_000

Numbers = NDArray[np.float64]


def equal_width(low: float, high: float, size: int, *, integer: bool) -> Cut:
    """``size`` bins of about the same width from ``low`` to ``high``, the outer ones without an end.

    Args:
        low: Where the values begin, a few left out.
        high: Where they end, a few left out.
        size: How many bins; of whole numbers there may be fewer.
        integer: Whether the values are whole.
    """
    width = (high - low) / size
    if not width > 0.0:
        return Cut(f"bins:{size}", (-math.inf, math.inf), integer)
    step = nice(width / PARTS)
    inner = [low + width * i for i in range(1, size)]
    if integer and step <= 1.0:
        inner = [float(math.ceil(edge)) for edge in inner]  # the same values fall into the same bins
    else:
        inner = [rounded(edge, step) for edge in inner]
    return _open(f"bins:{size}", inner, integer)


def of_width(low: float, high: float, width: float, *, integer: bool) -> Cut | None:
    """Bins ``width`` wide that end at its multiples, the outer ones without an end; None where they are too many.

    No cut point depends on a value, only which multiples are used.

    Args:
        low: Where the values begin, a few left out.
        high: Where they end, a few left out.
        width: How wide a bin is.
        integer: Whether the values are whole.
    """
    if not (high - low) / width < MOST_BINS:
        return None
    first, last = math.floor(low / width) + 1, math.floor(high / width)
    inner = [float(f"{k * width:.12g}") for k in range(first, last + 1)]
    return _open(f"width:{width:.12g}", inner, integer)


def from_frequencies(values: Numbers, counts: NDArray[np.int64], size: int, *, integer: bool) -> Cut:
    """About equally full bins of sorted ``values`` that occur ``counts`` times each.

    A cut point is the roundest number that leaves as many rows below it as the quantile does, up to ``SLACK`` of a bin;
    it is no value that only a few rows have. Equal cut points are merged, so there may be fewer bins.
    """
    below = np.concatenate([[0], np.cumsum(counts)])
    rare = values[counts < FEW]
    slack = SLACK * below[-1] / size
    inner: list[float] = []
    done = 0  # rows below the last cut point
    for quantile in weighted_quantiles(values, counts, size)[1:-1]:
        at = int(below[np.searchsorted(values, quantile, side="left")])  # rows below the quantile
        if at <= done:
            continue
        # Cut points in (values[first], values[last]] leave between at − slack and at + slack rows below them.
        first = max(int(np.searchsorted(below, max(at - slack, done + 1), side="left")), 1) - 1
        last = min(int(np.searchsorted(below, at + slack, side="right")) - 1, len(values) - 1)
        found = roundest(float(values[first]), float(values[last]), quantile, rare, whole=integer)
        inner.append(found)
        done = int(below[np.searchsorted(values, found, side="left")])
    return _open(f"quantiles:{size}", inner, integer)


def from_quantiles(quantiles: Sequence[float], size: int, *, integer: bool) -> Cut:
    """The same where only the quantiles 0, 1/size, …, 1 of very many values are known."""
    none = np.zeros(0)
    inner = []
    for i in range(1, size):
        gaps = [g for g in (quantiles[i] - quantiles[i - 1], quantiles[i + 1] - quantiles[i]) if g > 0.0]
        reach = SLACK * min(gaps, default=0.0)
        at = quantiles[i]
        inner.append(roundest(at - reach, at + reach, at, none, whole=integer) if reach > 0.0 else at)
    return _open(f"quantiles:{size}", inner, integer)


def _open(rule: str, inner: Sequence[float], integer: bool) -> Cut:
    """The bins between cut points, without ends outside."""
    edges = (-math.inf, *dict.fromkeys(inner), math.inf)
    return Cut(rule, merged(edges) if integer else edges, integer)


def roundest(low: float, high: float, near: float, avoid: Numbers, *, whole: bool) -> float:
    """The number in (low, high] with the fewest digits, of several the nearest to ``near``, that is not in ``avoid``.

    Steps of 1, 5 and 2 units of a digit are tried, the largest first; a whole number where ``whole`` says so, and
    ``high`` where nothing else is left.
    """
    power = math.ceil(math.log10(max(abs(low), abs(high), high - low))) + 1
    for exponent in range(power, power - 18, -1):
        for unit in (1.0, 0.5, 0.2):
            step = unit * 10.0**exponent
            if whole and step < 1.0:
                return high
            first, last = math.floor(low / step) + 1, math.floor(high / step)
            found = sorted(
                {min(max(k, first), last) for k in _around(near / step)}, key=lambda k: abs(k * step - near)
            )
            for k in found if first <= last else ():
                number = rounded(k * step, step)
                if low < number <= high and not (avoid == number).any():
                    return number
    return high


def _around(position: float) -> tuple[int, int, int, int]:
    at = math.floor(position)
    return at - 1, at, at + 1, at + 2


def nice(size: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above ``size`` > 0."""
    power = 10.0 ** math.floor(math.log10(size))
    return max(unit * power for unit in (0.5, 1.0, 2.0, 5.0) if unit * power <= size * (1.0 + 1e-12))


def nice_above(size: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``size`` > 0."""
    power = 10.0 ** math.floor(math.log10(size))
    return min(unit * power for unit in (1.0, 2.0, 5.0, 10.0) if unit * power >= size * (1.0 - 1e-12))


def rounded(value: float, step: float) -> float:
    """The multiple of a step next to a value, without the dust of binary fractions."""
    digits = max(0, 1 - math.floor(math.log10(step)))
    return round(round(value / step) * step, digits) + 0.0  # no −0


def rounded_all(values: Numbers, steps: Numbers) -> Numbers:
    """:func:`rounded` of many values ≥ 0, each to a step of its own, shape (n,); of steps there are few."""
    found = np.empty(len(values))
    for step in np.unique(steps).tolist():
        own = steps == step
        multiples, where = np.unique(np.rint(values[own] / step), return_inverse=True)
        found[own] = np.array([rounded(k * step, step) for k in multiples.tolist()])[where.reshape(-1)]
    return found


def weighted_quantiles(values: Numbers, counts: NDArray[np.int64], size: int) -> list[float]:
    """Quantiles 0, 1/size, …, 1 with linear interpolation, of sorted ``values`` each repeated ``counts`` times."""
    ends = np.cumsum(counts)
    total = int(ends[-1])
    result = []
    for i in range(size + 1):
        position = (total - 1) * i / size
        low = math.floor(position)
        a = values[np.searchsorted(ends, low, side="right")]
        b = values[np.searchsorted(ends, min(low + 1, total - 1), side="right")]
        result.append(float(a + (b - a) * (position - low)))
    return result
