"""The AEM iteration as compiled code: one run at a time, from start to stop, with its arrays in the core's own cache.

The step is the one of :mod:`privfunnel.solvers._aem_step`, arranged so that

- no logarithm of an entry is ever taken: log u is the state, and its new value is the exponent less the row's
  constant;
- an evaluation of G(λ) is one pass over the rows: exponential, three sums;
- p(s, y) is accumulated over the nonzeros of p(s|x) alone.

Exponential and logarithm are polynomials without branches, so that the compiler keeps eight (or four) entries
in flight; both are within 2 units in the last place. Sums may be reordered by the compiler, always in the same
way: the result of a run depends on nothing but its own input. The functions release the interpreter's lock;
    threads are the caller's business.
"""

# numba gives its decorators no types.
# mypy: disable-error-code="untyped-decorator, misc"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.solvers._aem_step import CUT, ROOT_EVALUATIONS, SLOPE_LIMIT, ZERO

Index = NDArray[np.int64]

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 · 2**52: adding it leaves the nearest integer in the low bits
_EXPONENT_ONE = np.int64(1023) << np.int64(52)
_HALF_ROOT = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
_STEPS_A_CHECK = 8

_EXACT = {"contract"}  # a·b + c may be one rounding; nothing else may be reordered
_SUMS = {"reassoc", "contract", "nsz", "nnan"}


@njit(fastmath=_EXACT, error_model="numpy", cache=True)
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


@njit(fastmath=_EXACT, error_model="numpy", cache=True)
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


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _evaluate(
    base: Array, log_w: Array, slope: float, p_x: Array, weight: Array, top: Array, total: Array
) -> tuple[float, float]:
    """One evaluation of the update at λ = ``slope``: fills ``weight`` (M, N), ``top``, ``total`` (M,).

    Returns:
        Σ_ij u_ij(λ) log w_ij and its derivative in λ.
    """
    n_x, n_y = base.shape
    value = 0.0
    gain = 0.0
    for i in range(n_x):
        base_i, w_i, out = base[i], log_w[i], weight[i]
        highest = base_i[0] + slope * w_i[0]
        for j in range(n_y):
            x = base_i[j] + slope * w_i[j]
            highest = x if x > highest else highest
        zeroth = 0.0
        first = 0.0
        second = 0.0
        for j in range(n_y):
            w = w_i[j]
            d = (base_i[j] + slope * w) - highest
            e = exp_(d if d > CUT else CUT)
            e = e if d > CUT else 0.0
            out[j] = e
            zeroth += e
            ew = e * w
            first += ew
            second += ew * w
        top[i] = highest
        total[i] = zeroth
        mean = first / zeroth
        value += p_x[i] * mean
        spread = second / zeroth - mean * mean
        gain += p_x[i] * (spread if spread > 0.0 else 0.0)
    return value, gain


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _outputs(
    first: Index,
    count: Index,
    index: Index,
    s_value: Array,
    weight: Array,
    scale: Array,
    p_sy: Array,
    log_t: Array,
    log_r: Array,
) -> None:
    """p(s, y) (K, N) from the weights, then log p(s|y) and log p(y); zeros get logarithm 0."""
    n_x, n_y = weight.shape
    n_s = p_sy.shape[0]
    p_sy[:] = 0.0
    for i in range(n_x):
        row = weight[i]
        for z in range(first[i], first[i] + count[i]):
            factor = s_value[z] * scale[i]
            out = p_sy[index[z]]
            for j in range(n_y):
                out[j] += factor * row[j]
    for j in range(n_y):
        log_r[j] = 0.0
    for k in range(n_s):
        out = p_sy[k]
        for j in range(n_y):
            log_r[j] += out[j]
    for j in range(n_y):
        r = log_r[j]
        value = log_(r if r > 0.0 else 1.0)
        log_r[j] = value
    for k in range(n_s):
        out, log_out = p_sy[k], log_t[k]
        for j in range(n_y):
            t = out[j]
            value = log_(t if t > 0.0 else 1.0) - log_r[j]
            log_out[j] = value if t > 0.0 else 0.0


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _exponents(
    first: Index,
    count: Index,
    index: Index,
    s_value: Array,
    log_t: Array,
    log_r: Array,
    log_u: Array,
    base: Array,
    log_w: Array,
) -> None:
    """Fill ``base`` = log u − Σ_k s_ki log t_kj and ``log_w`` = log u − log r, all (M, N)."""
    n_x, n_y = log_u.shape
    for i in range(n_x):
        u_i, base_i, w_i = log_u[i], base[i], log_w[i]
        for j in range(n_y):
            base_i[j] = u_i[j]
            w_i[j] = u_i[j] - log_r[j]
        for z in range(first[i], first[i] + count[i]):
            s = s_value[z]
            t_k = log_t[index[z]]
            for j in range(n_y):
                base_i[j] -= s * t_k[j]


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _accept(
    base: Array,
    log_w: Array,
    slope: float,
    log_p_x: Array,
    weight: Array,
    top: Array,
    total: Array,
    log_u: Array,
) -> None:
    """Write the new log u (M, N) of the evaluation at ``slope``."""
    n_x, n_y = base.shape
    for i in range(n_x):
        shift = log_p_x[i] - top[i] - np.log(total[i])
        base_i, w_i, e_i, u_i = base[i], log_w[i], weight[i], log_u[i]
        for j in range(n_y):
            value = base_i[j] + slope * w_i[j] + shift
            u_i[j] = value if e_i[j] > 0.0 else ZERO


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _residual(log_w: Array, log_r: Array, log_u: Array, weight: Array, total: Array, p_x: Array) -> float:
    """The residual of the *old* point read off the accepted update: twin of the reference's ``change_residual``."""
    n_x, n_y = log_u.shape
    worst = 0.0
    for i in range(n_x):
        w_i, u_i, e_i = log_w[i], log_u[i], weight[i]
        first = 0.0
        second = 0.0
        for j in range(n_y):
            growth = u_i[j] - (w_i[j] + log_r[j])
            growth = growth if e_i[j] > 0.0 else 0.0
            part = e_i[j] * growth
            first += part
            second += part * growth
        mean = first / total[i]
        spread = second / total[i] - mean * mean
        worst += p_x[i] * (spread if spread > 0.0 else 0.0)
    return float(np.sqrt(worst))


@njit(error_model="numpy", cache=True, nogil=True)
def next_slope(trial: float, value: float, gain: float, low: float, high: float) -> float:
    """Scalar twin of :func:`privfunnel.solvers._aem_step.next_slope`."""
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


@njit(error_model="numpy", cache=True, nogil=True)
def run(
    first: Index,
    count: Index,
    index: Index,
    s_value: Array,
    p_x: Array,
    log_p_x: Array,
    n_s: int,
    log_u: Array,
    slope: float,
    target: float,
    steps: int,
    tolerance: float,
    root_tolerance: float,
) -> tuple[float, float, int, bool]:
    """Advance one run by at most ``steps`` iterations, in place.

    Args:
        first: Where the nonzeros of symbol i begin in ``index`` and ``s_value``, shape (M,).
        count: How many there are, shape (M,).
        index: The private symbol k of each nonzero.
        s_value: p(s_k|x_i) of each nonzero.
        p_x: p(x), shape (M,).
        log_p_x: log p(x), shape (M,).
        n_s: K.
        log_u: log p(x, y), shape (M, N); overwritten.
        slope: λ to start from.
        target: R − H(X).
        steps: Iterations at most.
        tolerance: Residual at which the run stops.
        root_tolerance: How far above 0 the accepted G may lie.

    Returns:
        λ, the last residual seen, iterations done, whether the run can go on.
    """
    n_x, n_y = log_u.shape
    base = np.empty((n_x, n_y))
    log_w = np.empty((n_x, n_y))
    weight = np.empty((n_x, n_y))
    p_sy = np.empty((n_s, n_y))
    log_t = np.empty((n_s, n_y))
    log_r = np.empty(n_y)
    top = np.empty(n_x)
    total = np.empty(n_x)
    scale = np.ones(n_x)
    for i in range(n_x):
        for j in range(n_y):
            weight[i, j] = np.exp(log_u[i, j])
    residual = np.inf
    for n in range(steps):
        _outputs(first, count, index, s_value, weight, scale, p_sy, log_t, log_r)
        _exponents(first, count, index, s_value, log_t, log_r, log_u, base, log_w)
        low = -1.0
        high = np.inf
        best = -1.0
        trial = max(slope, 0.0)
        at = -1.0
        for _ in range(ROOT_EVALUATIONS):
            value, gain = _evaluate(base, log_w, trial, p_x, weight, top, total)
            value -= target
            at = trial
            if value >= 0.0:
                best = trial
                high = trial
                if value <= root_tolerance or trial == 0.0:
                    break
            else:
                low = trial
            following = next_slope(trial, value - 0.5 * root_tolerance, gain, low, high)
            if following == trial or following > SLOPE_LIMIT:
                break
            trial = following
        if best < 0.0:
            return slope, residual, n, False
        if at != best:
            _evaluate(base, log_w, best, p_x, weight, top, total)
        slope = best
        _accept(base, log_w, slope, log_p_x, weight, top, total, log_u)
        if n % _STEPS_A_CHECK == 0 or n == steps - 1:
            residual = _residual(log_w, log_r, log_u, weight, total, p_x)
            if residual <= tolerance:
                return slope, residual, n + 1, True
        for i in range(n_x):
            scale[i] = p_x[i] / total[i]
    return slope, residual, steps, True
