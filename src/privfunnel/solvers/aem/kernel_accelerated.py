"""Accelerated AEM as compiled code: the rules are those of :mod:`privfunnel.solvers.aem.schedule`.

numba's cache on disk looks at the time stamp of this file alone. Whoever changes a function of
:mod:`privfunnel.solvers.aem.kernel_plain` has to touch this file as well, or delete the cache (``make clean``).
"""

# numba gives its decorators no types.
# mypy: disable-error-code="untyped-decorator, misc"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privfunnel.measures import Array
from privfunnel.solvers.aem.kernel_plain import (
    _SUMS,
    FEWEST,
    HIGH,
    MOST,
    Index,
    exp_,
    joint,
    logarithms,
    root,
    subtract,
)
from privfunnel.solvers.aem.schedule import GRID, GROWTH, INEXACT, LONGEST, SAFETY, TINY
from privfunnel.solvers.aem.state import CUT, ZERO


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _shift(
    now: Array,
    before: Array,
    beta: float,
    p_x: Array,
    log_p_x: Array,
    weight: Array,
    scale: Array,
    shift: Array,
) -> None:
    """p(x, y) = ``scale``·``weight`` of the point y = log u + β(log u − log u before); ``shift`` (M,) normalises y."""
    n_x, n_y = now.shape
    for i in range(n_x):
        top = log_p_x[i]
        total = 0.0
        for attempt in range(2):
            total = 0.0
            for j in range(n_y):
                d = now[i, j] + beta * (now[i, j] - before[i, j]) - top
                d = d if d < HIGH else HIGH
                e = exp_(d if d > CUT else CUT)
                e = e if d > CUT else 0.0
                weight[i, j] = e
                total += e
            if attempt or FEWEST < total < MOST:
                break
            top = ZERO
            for j in range(n_y):
                y = now[i, j] + beta * (now[i, j] - before[i, j])
                top = y if y > top else top
        scale[i] = p_x[i] / total
        shift[i] = log_p_x[i] - top - np.log(total)


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _exponents(
    first: Index, count: Index, index: Index, s_value: Array, log_t: Array, log_r: Array, now: Array, before: Array,
    beta: float, shift: Array, weight: Array, eta: float, base: Array, log_w: Array,
) -> None:  # fmt: skip
    """Fill ``base`` = log y − η Σ_k s_ki log t_kj and ``log_w`` = log y − log r at the shifted point y."""
    n_x, n_y = now.shape
    for i in range(n_x):
        move = shift[i]
        for j in range(n_y):
            y = now[i, j] + beta * (now[i, j] - before[i, j]) + move
            y = y if weight[i, j] > 0.0 else ZERO
            base[i, j] = y
            log_w[i, j] = y - log_r[j]
        subtract(i, first, count, index, s_value, eta, log_t, base)


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _accept(
    base: Array, log_w: Array, log_r: Array, slope: float, p_x: Array, log_p_x: Array, weight: Array, top: Array,
    total: Array,
) -> tuple[float, float]:  # fmt: skip
    """Write the new log u over ``base``.

    Returns:
        The root mean square of its growth, centred row by row (η times the residual), and D(new ‖ old).
    """
    n_x, n_y = base.shape
    failure = 0.0
    divergence = 0.0
    for i in range(n_x):
        move = log_p_x[i] - top[i] - np.log(total[i])
        first = 0.0
        second = 0.0
        for j in range(n_y):
            value = base[i, j] + slope * log_w[i, j] + move
            growth = value - (log_w[i, j] + log_r[j])
            growth = growth if weight[i, j] > 0.0 else 0.0
            part = weight[i, j] * growth
            first += part
            second += part * growth
            base[i, j] = value if weight[i, j] > 0.0 else ZERO
        mean = first / total[i]
        spread = second / total[i] - mean * mean
        failure += p_x[i] * (spread if spread > 0.0 else 0.0)
        divergence += p_x[i] * mean
    return np.sqrt(failure), max(divergence, 0.0)


@njit(fastmath=_SUMS, error_model="numpy", cache=True, nogil=True)
def _excess(p_sy: Array, log_t: Array, old_t: Array) -> float:
    """Σ p(s, y) log(t / t_old): how far the leakage exceeds its linearisation at the old point."""
    n_s, n_y = p_sy.shape
    value = 0.0
    for k in range(n_s):
        for j in range(n_y):
            value += p_sy[k, j] * (log_t[k, j] - old_t[k, j])
    return value


@njit(error_model="numpy", cache=True, nogil=True)
def _coarse(value: float) -> float:
    """The nearest of GRID powers an octave: see :data:`privfunnel.solvers.aem.schedule.GRID`."""
    return float(np.exp2(np.floor(GRID * np.log2(max(value, TINY)) + 0.5) / GRID))


@njit(error_model="numpy", cache=True, nogil=True)
def run(
    first: Index, count: Index, index: Index, s_value: Array, p_x: Array, log_p_x: Array, log_p_s: Array,
    now: Array, before: Array, slope: float, eta: float, age: int, target: float, steps: int, tolerance: float,
    root_tolerance: float,
) -> tuple[float, float, int, float, int, bool, float]:  # fmt: skip
    """Advance one run by at most ``steps`` accelerated iterations, in place.

    Args:
        first: Where the nonzeros of symbol i begin in ``index`` and ``s_value``, shape (M,).
        count: How many there are, shape (M,).
        index: The private symbol k of each nonzero.
        s_value: p(s_k|x_i) of each nonzero.
        p_x: p(x), shape (M,).
        log_p_x: log p(x), shape (M,).
        log_p_s: log p(s), shape (K,).
        now: log p(x, y) of the last point, shape (M, N); overwritten.
        before: The point before it, shape (M, N); overwritten.
        slope: λ to start from.
        eta: Length η of the next step.
        age: Steps since momentum began.
        target: R − H(X).
        steps: Iterations at most, those taken back included.
        tolerance: Residual at which the run stops.
        root_tolerance: How far above 0 the accepted G may lie at the end.

    Returns:
        λ, residual, age, η, iterations done, whether the run can go on, leakage.
    """
    n_x, n_y = now.shape
    n_s = len(log_p_s)
    here, there, spare = now, before, np.empty((n_x, n_y))
    log_w = np.empty((n_x, n_y))
    weight = np.empty((n_x, n_y))
    p_sy = np.empty((n_s, n_y))
    log_t = np.empty((n_s, n_y))
    old_t = np.empty((n_s, n_y))
    log_r = np.empty(n_y)
    old_r = np.empty(n_y)
    top = np.full(n_x, np.inf)
    total = np.empty(n_x)
    scale = np.ones(n_x)
    shift = np.zeros(n_x)
    residual = np.inf
    slack = root_tolerance
    wanted = 1.0
    moved = 0.0
    value = 0.0
    alive = True
    done = steps
    _shift(here, there, 0.0, p_x, log_p_x, weight, scale, shift)
    joint(first, count, index, s_value, weight, scale, p_sy)
    leakage = logarithms(p_sy, log_p_s, log_t, log_r)
    fresh = True  # log_t, log_r and the zeros of weight belong to `here`
    for n in range(steps):
        beta = (age - 1.0) / (age + 2.0) if age > 1 else 0.0
        if beta > 0.0 or not fresh:
            _shift(here, there, beta, p_x, log_p_x, weight, scale, shift)
            joint(first, count, index, s_value, weight, scale, p_sy)
            logarithms(p_sy, log_p_s, log_t, log_r)
        else:
            shift[:] = 0.0
        _exponents(
            first, count, index, s_value, log_t, log_r, here, there, beta, shift, weight, eta, spare, log_w
        )
        found = root(spare, log_w, slope * eta, p_x, weight, top, total, target, slack)
        better = False
        if found >= 0.0:
            for i in range(n_x):
                scale[i] = p_x[i] / total[i]
            moved, divergence = _accept(spare, log_w, log_r, found, p_x, log_p_x, weight, top, total)
            old_t, log_t, old_r, log_r = log_t, old_t, log_r, old_r
            joint(first, count, index, s_value, weight, scale, p_sy)
            value = logarithms(p_sy, log_p_s, log_t, log_r)
            better = value < leakage
            # The leakage exceeds its linearisation by this share of D(new ‖ old); 1/η must not be below it.
            excess = _excess(p_sy, log_t, old_t)
            wanted = (
                LONGEST if excess * LONGEST <= SAFETY * divergence else _coarse(SAFETY * divergence / excess)
            )
        if better:
            residual = moved / eta
            slack = max(root_tolerance, _coarse(INEXACT * (leakage - value)))
            leakage = value
            slope = found / eta
            here, there, spare = spare, here, there
            fresh = True
            age += 1
            eta = max(1.0, min(wanted, GROWTH * eta))
            if residual <= tolerance:
                if beta == 0.0:
                    done = n + 1
                    break
                age = 0  # the residual was that of the shifted point: look at the next one without momentum
        else:
            fresh = False
            slack = root_tolerance
            if age > 1:
                eta = max(1.0, min(wanted, eta)) if found >= 0.0 else eta
            elif eta > 1.0:
                eta = max(1.0, 0.5 * eta)
            else:
                alive = False
                done = n
                break
            age = 0
    # The three buffers took turns: bring the last two points home, whichever buffers they are in.
    last, previous = here.copy(), there.copy()
    now[:] = last
    before[:] = previous
    return slope, residual, age, eta, done, alive, leakage


@njit(error_model="numpy", cache=True, nogil=True)
def run_some(
    first: Index, count: Index, index: Index, s_value: Array, p_x: Array, log_p_x: Array, log_p_s: Array,
    now: Array, before: Array, slope: Array, eta: Array, age: Array, target: Array, steps: int, tolerance: float,
    root_tolerance: float, begin: int, end: int, residual: Array, done: Index, alive: NDArray[np.bool_],
    leakage: Array,
) -> None:  # fmt: skip
    """:func:`run` for the runs ``begin``:``end`` of a batch, in place: small ones cost less than a call each."""
    for b in range(begin, end):
        slope[b], residual[b], age[b], eta[b], done[b], alive[b], leakage[b] = run(
            first, count, index, s_value, p_x, log_p_x, log_p_s, now[b], before[b], slope[b], eta[b], int(age[b]),
            target[b], steps, tolerance, root_tolerance,
        )  # fmt: skip
