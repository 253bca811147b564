"""The search for λ as compiled code: equations (1), (3) and (4) of :mod:`privfunnel.algorithms.aem.state`.

An evaluation of G(λ) is one pass over the rows (exponential, four sums): the number that keeps the exponentials in
range is the row's log-sum of the evaluation before, and only where that fails the row's true maximum. Where λ moves a
little within a step, the weights are multiplied instead, without exponentials (:func:`renew`).
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.aem.kernel_groups import AnyExponents, Rows
from privfunnel.algorithms.aem.kernel_math import SUMS, exp_
from privfunnel.algorithms.aem.state import CUT, ROOT_EVALUATIONS, SLOPE_LIMIT
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: A row whose weights add up to less than FEWEST or more than MOST was shifted by the wrong amount; HIGH keeps its
#: exponentials finite until that is seen.
FEWEST = 1.0e-100
MOST = 1.0e100
HIGH = 600.0
#: What the remainder of the polynomial of :func:`renew`, x⁸/8! of an entry, may add up to in a row: NEGLIGIBLE of it.
#: Exponents that move by more than FAR do not get that far. A change of λ beyond CLOSE is not tried.
NEGLIGIBLE, FAR, CLOSE = 1.0e-17 * 40320.0, 1.0, 0.01
_C3, _C4, _C5, _C6, _C7 = 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0


@compiled(fastmath=SUMS, nogil=True)
def evaluate(exponents: AnyExponents, rows: Rows, p_x: Array, slope: float) -> tuple[float, float, float]:
    """The update (1) at λ = ``slope``: fills ``rows.weight`` and ``rows.total``.

    ``rows.top`` is on entry a guess of each row's constant, on exit what was used; ``rows.scale`` holds the mean of
    log w in each row until the rows are scaled.

    Returns:
        Σ_ij u_ij(λ) log w_ij of (3) and its first two derivatives in λ: mean, variance and third central moment of
        log w.
    """
    base, log_w = exponents.base, exponents.log_w
    weight, total, top, scale, _ = rows
    n_x, n_y = base.shape
    value = 0.0
    gain = 0.0
    bend = 0.0
    for i in range(n_x):
        zeroth = 0.0
        first = 0.0
        second = 0.0
        third = 0.0
        for attempt in range(2):
            guess = top[i]
            zeroth = 0.0
            first = 0.0
            second = 0.0
            third = 0.0
            for j in range(n_y):
                w = log_w[i, j]
                d = (base[i, j] + slope * w) - guess
                d = d if d < HIGH else HIGH
                e = exp_(d if d > CUT else CUT)
                e = e if d > CUT else 0.0
                weight[i, j] = e
                zeroth += e
                ew = e * w
                first += ew
                eww = ew * w
                second += eww
                third += eww * w
            if attempt or FEWEST < zeroth < MOST:
                break
            highest = base[i, 0] + slope * log_w[i, 0]
            for j in range(n_y):
                x = base[i, j] + slope * log_w[i, j]
                highest = x if x > highest else highest
            top[i] = highest
        total[i] = zeroth
        mean = first / zeroth
        scale[i] = mean
        square = second / zeroth
        spread = square - mean * mean
        value += p_x[i] * mean
        gain += p_x[i] * (spread if spread > 0.0 else 0.0)
        bend += p_x[i] * (third / zeroth - mean * (3.0 * square - 2.0 * mean * mean))
    return value, gain, bend


@compiled(fastmath=SUMS, nogil=True)
def renew(exponents: AnyExponents, rows: Rows, p_x: Array, change: float) -> tuple[float, float, float, bool]:
    """:func:`evaluate` at λ + ``change`` from ``rows`` as evaluated at λ, without exponentials.

    Each weight is multiplied by e^x, x = change·(log w − its mean in the row), by the polynomial of degree 7.

    Returns:
        The same three numbers, and whether the polynomial is good enough for them.
    """
    log_w = exponents.log_w
    weight, total, top, scale, _ = rows
    n_x, n_y = log_w.shape
    value = 0.0
    gain = 0.0
    bend = 0.0
    holds = True
    for i in range(n_x):
        zeroth = 0.0
        first = 0.0
        second = 0.0
        third = 0.0
        rest = 0.0
        centre = scale[i]
        for j in range(n_y):
            w = log_w[i, j]
            x = change * (w - centre)
            x = x if x < FAR else FAR
            x = x if x > -FAR else -FAR
            x2 = x * x
            x4 = x2 * x2
            e = weight[i, j]
            rest += e * (x4 * x4)
            e *= ((1.0 + x) + x2 * (0.5 + _C3 * x)) + x4 * ((_C4 + _C5 * x) + x2 * (_C6 + _C7 * x))
            weight[i, j] = e
            zeroth += e
            ew = e * w
            first += ew
            eww = ew * w
            second += eww
            third += eww * w
        holds = holds and rest <= NEGLIGIBLE * zeroth
        top[i] += change * centre
        total[i] = zeroth
        mean = first / zeroth
        scale[i] = mean
        square = second / zeroth
        spread = square - mean * mean
        value += p_x[i] * mean
        gain += p_x[i] * (spread if spread > 0.0 else 0.0)
        bend += p_x[i] * (third / zeroth - mean * (3.0 * square - 2.0 * mean * mean))
    return value, gain, bend, holds


@compiled(nogil=True, forceinline=True)
def moved(
    exponents: AnyExponents, rows: Rows, p_x: Array, before: float, slope: float
) -> tuple[float, float, float]:
    """:func:`evaluate` at λ = ``slope``, by :func:`renew` where ``rows`` is evaluated at a λ ``before`` close by.

    ``before`` is negative where it is not.
    """
    if before >= 0.0 and abs(slope - before) < CLOSE:
        value, gain, bend, holds = renew(exponents, rows, p_x, slope - before)
        if holds:
            return value, gain, bend
    return evaluate(exponents, rows, p_x, slope)


@compiled(nogil=True, forceinline=True)
def root(exponents: AnyExponents, rows: Rows, p_x: Array, slope: float, target: float, slack: float) -> float:
    """λ with 0 ≤ G(λ) ≤ ``slack``, or −1 if there is none: equation (4), from λ = ``slope``.

    ``rows`` is left as evaluated at that λ. Scalar twin of :func:`privfunnel.algorithms.aem.arrays.root`.
    """
    low = -1.0
    high = np.inf
    best = -1.0
    at = -1.0
    trial = max(slope, 0.0)
    for _ in range(ROOT_EVALUATIONS):
        value, gain, bend = moved(exponents, rows, p_x, at, trial)
        value -= target
        at = trial
        if value >= 0.0:
            best = trial
            high = trial
            if value <= slack or trial == 0.0:
                break
        else:
            low = trial
        value -= 0.5 * slack
        following = next_slope(trial, value, halley(value, gain, bend), low, high)
        if following == trial or following > SLOPE_LIMIT:
            break
        trial = following
    if best >= 0.0 and at != best:
        moved(exponents, rows, p_x, at, best)
    return best


@compiled(nogil=True)
def halley(value: float, gain: float, bend: float) -> float:
    """Scalar twin of :func:`privfunnel.algorithms.aem.arrays.halley`."""
    slope = gain - 0.5 * value * bend / gain if gain > 0.0 else gain
    return slope if 0.5 * gain < slope < 2.0 * gain else gain


@compiled(nogil=True)
def next_slope(trial: float, value: float, gain: float, low: float, high: float) -> float:
    """Scalar twin of :func:`privfunnel.algorithms.aem.arrays.next_slope`."""
    newton = trial - value / gain if gain > 0.0 else trial
    bounded = high < np.inf
    if gain > 0.0 and low < newton < high and (bounded or newton < 4.0 * trial + 4.0):
        chosen = newton
    elif bounded:
        chosen = 0.5 * (max(low, 0.0) + high)
    else:
        chosen = 2.0 * trial + 1.0
    if low < 0.0 and (chosen <= 0.0 or (gain > 0.0 and newton <= 0.0)):
        chosen = 0.0
    if chosen <= low or chosen >= high:
        return trial
    return chosen
