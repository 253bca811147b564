"""Exponential and logarithm for the compiled loops, and what the compiler may do with their arithmetic.

Both are polynomials without branches, so that the compiler keeps eight (or four) entries in flight; both are within 2
units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privfunnel.infra.jit import compiled

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 · 2**52: adding it leaves the nearest integer in the low bits
_HALF_ROOT = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)

#: What the compiler may do with the arithmetic. EXACT: a·b + c may be one rounding, nothing else may be reordered.
#: SUMS: sums may be reordered, there are no NaNs, and the sign of 0 does not matter.
EXACT = {"contract"}
SUMS = {"reassoc", "contract", "nsz", "nnan"}


@compiled(fastmath=EXACT)
def exp_(x: Any) -> Any:
    """exp(x) for −700 ≤ x ≤ 700."""
    shifted = x * _LOG2_E + _ROUND
    whole = shifted - _ROUND
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (0.50000000000000010221 + 0.16666666666666667453 * r) + r2 * (
        0.041666666666624127873 + 0.0083333333333300618325 * r
    )
    middle = (0.0013888888917213716901 + 0.00019841269863053616878 * r) + r2 * (
        0.000024801521295954375131 + 2.7557268459997064772e-6 * r
    )
    high = 2.7620088445409748161e-7 + 2.5100385495510319078e-8 * r
    value = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)))
    bits = np.float64(value).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64)


@compiled(fastmath=EXACT)
def log_(x: Any) -> Any:
    """log(x) for positive normal x."""
    bits = np.float64(x).view(np.int64)
    # The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
    scale = (bits - _HALF_ROOT) >> np.int64(52)
    mantissa = np.int64(bits - (scale << np.int64(52))).view(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    z2 = z * z
    tail = (0.66666666666666696883 + 0.39999999999899443233 * z) + z2 * (
        (0.28571428626003268766 + 0.22222211130259874204 * z)
        + z2 * ((0.18182889455675106065 + 0.1533171061820642037 * z) + z2 * 0.14616585424934121642)
    )
    power = np.float64(scale)
    # log m = 2s + s·z·tail; f = m − 1 exactly, 2s = f − s·f keeps the leading term exact.
    f = mantissa - 1.0
    return power * _LN2_HIGH + (f - (s * (f - z * tail) - power * _LN2_LOW))
