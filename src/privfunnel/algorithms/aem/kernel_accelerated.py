"""Accelerated AEM as compiled code: the rules are those of :mod:`privfunnel.algorithms.aem.schedule`.

:func:`try_step`, :func:`accept` and :func:`reject` are the scalar twins of ``try_step`` and ``judge`` in
:mod:`privfunnel.algorithms.aem.arrays`; equations (1) to (5) are those of :mod:`privfunnel.algorithms.aem.state`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.aem.backends import Progressed
from privfunnel.algorithms.aem.kernel_groups import KernelTables, Outputs, Rows
from privfunnel.algorithms.aem.kernel_math import SUMS, exp_
from privfunnel.algorithms.aem.kernel_plain import find_outputs, subtract
from privfunnel.algorithms.aem.kernel_root import FEWEST, HIGH, MOST, root
from privfunnel.algorithms.aem.schedule import GRID, GROWTH, INEXACT, LONGEST, SAFETY
from privfunnel.algorithms.aem.state import CUT, ZERO
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array


class Points(NamedTuple):
    """log p(x, y) of the last point and of the one before it, both (M, N), or (B, M, N) for a batch."""

    now: Array
    before: Array


class Buffers(NamedTuple):
    """Arrays (M, N) of a run: three points that take turns, and log p(x|y).

    The fields of :class:`privfunnel.algorithms.aem.kernel_plain.Exponents` are among them, so that these buffers can
    stand for one.

    Attributes:
        now: log p(x, y) of the last point.
        before: log p(x, y) of the point before it.
        base: The exponents of the next point, then the point itself.
        log_w: log p(x|y) at the point that the step starts from.
    """

    now: Array
    before: Array
    base: Array
    log_w: Array


class RunState(NamedTuple):
    """What a run carries from step to step besides its points: see ``AcceleratedState`` of the reference."""

    slope: float
    eta: float
    age: float
    slack: float
    leakage: float
    residual: float


class Trial(NamedTuple):
    """A step that was tried; its point is in the spare buffer: see ``Trial`` of the reference."""

    slope: float
    leakage: float
    growth: float
    eta: float


@compiled(fastmath=SUMS, nogil=True)
def _shift(tables: KernelTables, buffers: Buffers, beta: float, rows: Rows) -> None:
    """Fill ``rows`` with the point y = log u + β(log u − log u before); ``shift`` normalises y."""
    now, before = buffers.now, buffers.before
    weight, scale, shift = rows.weight, rows.scale, rows.shift
    p_x, log_p_x = tables.p_x, tables.log_p_x
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


@compiled(nogil=True)
def _reuse(after: Outputs, here: Outputs, rows: Rows) -> None:
    """Start from the last point itself: its outputs are known, and its rows need no normalising."""
    _, log_t, log_r = here
    _, known_t, known_r = after
    n_s, n_y = log_t.shape
    for k in range(n_s):
        for j in range(n_y):
            log_t[k, j] = known_t[k, j]
    for j in range(n_y):
        log_r[j] = known_r[j]
    rows.shift[:] = 0.0


@compiled(fastmath=SUMS, nogil=True)
def _exponents(
    tables: KernelTables, outputs: Outputs, buffers: Buffers, rows: Rows, beta: float, eta: float
) -> None:
    """Fill ``base`` and ``log_w`` of equation (2) at the shifted point y."""
    now, before, base, log_w = buffers
    weight, shift = rows.weight, rows.shift
    log_t, log_r = outputs.log_t, outputs.log_r
    nonzeros = tables.nonzeros
    n_x, n_y = now.shape
    for i in range(n_x):
        move = shift[i]
        for j in range(n_y):
            y = now[i, j] + beta * (now[i, j] - before[i, j]) + move
            y = y if weight[i, j] > 0.0 else ZERO
            base[i, j] = y
            log_w[i, j] = y - log_r[j]
        subtract(i, nonzeros, eta, log_t, base)


@compiled(fastmath=SUMS, nogil=True)
def _write(
    tables: KernelTables, buffers: Buffers, rows: Rows, outputs: Outputs, slope: float
) -> tuple[float, float]:
    """Write the new log u (1) at λ = ``slope`` over ``base``, and scale its rows.

    Returns:
        The root mean square of its growth, centred row by row (η times the residual (5)), and D(new ‖ old).
    """
    base, log_w, log_r = buffers.base, buffers.log_w, outputs.log_r
    weight, total, top, scale, _ = rows
    p_x, log_p_x = tables.p_x, tables.log_p_x
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
        scale[i] = p_x[i] / total[i]
    return np.sqrt(failure), max(divergence, 0.0)


@compiled(fastmath=SUMS, nogil=True)
def _excess(after: Outputs, old: Outputs) -> float:
    """Σ p(s, y) log(t / t_old): how far the leakage exceeds its linearisation at the old point."""
    p_sy, log_t, old_t = after.p_sy, after.log_t, old.log_t
    n_s, n_y = p_sy.shape
    value = 0.0
    for k in range(n_s):
        for j in range(n_y):
            value += p_sy[k, j] * (log_t[k, j] - old_t[k, j])
    return value


@compiled(nogil=True)
def coarse(value: float) -> float:
    """The nearest of GRID powers per octave: see :data:`privfunnel.algorithms.aem.schedule.GRID`."""
    return float(np.exp2(np.floor(GRID * np.log2(max(value, TINY)) + 0.5) / GRID))


@compiled(nogil=True, forceinline=True)
def try_step(
    tables: KernelTables,
    buffers: Buffers,
    rows: Rows,
    old: Outputs,
    after: Outputs,
    state: RunState,
    beta: float,
    target: float,
) -> Trial:
    """Equations (1) to (4) from the point that momentum β leads to, with step length η.

    ``rows`` and ``old`` hold the point that the step starts from and its outputs. The new point is left in ``rows`` and
    ``buffers.base``, and its outputs in ``after``.
    """
    _exponents(tables, old, buffers, rows, beta, state.eta)
    found = root(buffers, rows, tables.p_x, state.slope * state.eta, target, state.slack)
    if found < 0.0:
        return Trial(found, np.inf, 0.0, 1.0)
    growth, divergence = _write(tables, buffers, rows, old, found)
    leakage = find_outputs(tables, rows, after)
    # The leakage exceeds its linearisation by ρ·D(new ‖ old); 1/η must not be below ρ.
    excess = _excess(after, old)
    if excess * LONGEST <= SAFETY * divergence:
        return Trial(found, leakage, growth, LONGEST)
    return Trial(found, leakage, growth, coarse(SAFETY * divergence / excess))


@compiled(nogil=True, forceinline=True)
def accept(state: RunState, trial: Trial, tolerance: float, root_tolerance: float) -> RunState:
    """The state after a trial that leaks less.

    η may grow, and the next root may be as inexact as the descent was large. A residual within the tolerance is that
    of the shifted point: the next step goes without momentum.
    """
    residual = trial.growth / state.eta
    return RunState(
        trial.slope / state.eta,
        max(1.0, min(trial.eta, GROWTH * state.eta)),
        0.0 if residual <= tolerance else state.age + 1.0,
        max(root_tolerance, coarse(INEXACT * (state.leakage - trial.leakage))),
        trial.leakage,
        residual,
    )


@compiled(nogil=True, forceinline=True)
def reject(state: RunState, trial: Trial, root_tolerance: float) -> RunState:
    """The state after a trial that was taken back: momentum goes first, then η is halved."""
    eta = state.eta
    if state.age <= 1.0:
        eta *= 0.5
    elif trial.slope >= 0.0:
        eta = min(trial.eta, eta)
    return RunState(state.slope, max(1.0, eta), 0.0, root_tolerance, state.leakage, state.residual)


@compiled(nogil=True)
def run(
    tables: KernelTables, points: Points, state: RunState, target: float, steps: int, tolerance: float
) -> tuple[RunState, int, bool]:
    """Advance one run by at most ``steps`` accelerated iterations, in place.

    Args:
        tables: The problem's tables.
        points: The last two points, both (M, N); overwritten.
        state: Where the run stands; its leakage and slack are computed here.
        target: R − H(X).
        steps: Iterations at most, those taken back included.
        tolerance: Residual at which the run stops.

    Returns:
        Where it stands now, iterations done, whether the run can go on.
    """
    shape = points.now.shape
    n_x, n_y = shape
    n_s = len(tables.log_p_s)
    buffers = Buffers(points.now, points.before, np.empty(shape), np.empty(shape))
    rows = Rows(np.empty(shape), np.empty(n_x), np.full(n_x, np.inf), np.ones(n_x), np.zeros(n_x))
    p_sy = np.empty((n_s, n_y))
    here = Outputs(p_sy, np.empty((n_s, n_y)), np.empty(n_y))
    after = Outputs(p_sy, np.empty((n_s, n_y)), np.empty(n_y))
    _shift(tables, buffers, 0.0, rows)
    leakage = find_outputs(tables, rows, after)
    state = RunState(state.slope, state.eta, state.age, tables.root_tolerance, leakage, np.inf)
    fresh = True  # `after` and the zeros of `rows` belong to the last point
    alive = True
    done = steps
    for n in range(steps):
        beta = (state.age - 1.0) / (state.age + 2.0) if state.age > 1.0 else 0.0
        if beta > 0.0 or not fresh:
            _shift(tables, buffers, beta, rows)
            find_outputs(tables, rows, here)
        else:
            _reuse(after, here, rows)
        trial = try_step(tables, buffers, rows, here, after, state, beta, target)
        fresh = trial.leakage < state.leakage
        if fresh:
            state = accept(state, trial, tolerance, tables.root_tolerance)
            buffers = Buffers(buffers.base, buffers.now, buffers.before, buffers.log_w)
            if state.residual <= tolerance and beta == 0.0:
                done = n + 1
                break
        else:
            alive = state.age > 1.0 or state.eta > 1.0
            state = reject(state, trial, tables.root_tolerance)
            if not alive:
                done = n
                break
    # The three points took turns in their arrays: bring the last two home, wherever they are.
    last, previous = buffers.now.copy(), buffers.before.copy()
    points.now[:] = last
    points.before[:] = previous
    return state, done, alive


@compiled(nogil=True)
def run_some(
    tables: KernelTables,
    points: Points,
    target: Array,
    steps: int,
    tolerance: float,
    result: Progressed,
    begin: int,
    end: int,
) -> None:
    """:func:`run` for the runs ``begin``:``end`` of a batch, in place: small ones cost less than a call each."""
    slope, eta, age = result.state
    for b in range(begin, end):
        state = RunState(slope[b], eta[b], age[b], tables.root_tolerance, np.inf, np.inf)
        pair = Points(points.now[b], points.before[b])
        state, result.steps[b], result.alive[b] = run(tables, pair, state, target[b], steps, tolerance)
        slope[b], eta[b], age[b] = state.slope, state.eta, state.age
        result.residual[b], result.leakage[b] = state.residual, state.leakage
