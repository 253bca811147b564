"""The AEM iteration as compiled code: one run at a time, from start to stop, with its arrays in the core's own cache.

Equations (1) to (5) are those of :mod:`privfunnel.algorithms.aem.state`, arranged so that

- no logarithm of an entry is ever taken: log u is the state, and its new value is the exponent less the row's
  constant;
- λ is found in few passes over the rows (:mod:`.kernel_root`);
- p(s, y) is accumulated over the nonzeros of p(s|x) alone, four rows at a time where they have them at the same places.

Sums may be reordered by the compiler, always in the same way: the result of a run depends on nothing but its own input.
The functions release the interpreter's lock; threads are the caller's business.
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.aem.backends import Progressed
from privfunnel.algorithms.aem.kernel_groups import Exponents, KernelTables, Nonzeros, Outputs, Rows
from privfunnel.algorithms.aem.kernel_math import EXACT, SUMS, log_
from privfunnel.algorithms.aem.kernel_root import root
from privfunnel.algorithms.aem.state import ZERO
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array


@compiled(nogil=True)
def _alike(nonzeros: Nonzeros, i: int) -> bool:
    """Whether rows i … i + 3 have their nonzeros at the same private symbols."""
    first, length, symbol, _ = nonzeros
    for other in range(i + 1, i + 4):
        if length[other] != length[i]:
            return False
        for z in range(length[i]):
            if symbol[first[other] + z] != symbol[first[i] + z]:
                return False
    return True


@compiled(fastmath=SUMS, nogil=True)
def joint(nonzeros: Nonzeros, rows: Rows, outputs: Outputs) -> None:
    """Fill p(s, y) of the point p(x, y) that ``rows`` holds."""
    first, length, symbol, s_value = nonzeros
    weight, scale, p_sy = rows.weight, rows.scale, outputs.p_sy
    n_x, n_y = weight.shape
    p_sy[:] = 0.0
    i = 0
    while i < n_x:
        if i + 3 < n_x and _alike(nonzeros, i):
            for z in range(length[i]):
                f_0 = s_value[first[i] + z] * scale[i]
                f_1 = s_value[first[i + 1] + z] * scale[i + 1]
                f_2 = s_value[first[i + 2] + z] * scale[i + 2]
                f_3 = s_value[first[i + 3] + z] * scale[i + 3]
                k = symbol[first[i] + z]
                for j in range(n_y):
                    p_sy[k, j] += (
                        f_0 * weight[i, j]
                        + f_1 * weight[i + 1, j]
                        + f_2 * weight[i + 2, j]
                        + f_3 * weight[i + 3, j]
                    )
            i += 4
        else:
            for z in range(first[i], first[i] + length[i]):
                factor = s_value[z] * scale[i]
                k = symbol[z]
                for j in range(n_y):
                    p_sy[k, j] += factor * weight[i, j]
            i += 1


@compiled(fastmath=SUMS, nogil=True, forceinline=True)
def find_outputs(tables: KernelTables, rows: Rows, outputs: Outputs) -> float:
    """Fill p(s, y), log p(s|y) and log p(y) of the point that ``rows`` holds; zeros get logarithm 0.

    Returns:
        The leakage I(S;Y), nats.
    """
    joint(tables.nonzeros, rows, outputs)
    p_sy, log_t, log_r = outputs
    log_p_s = tables.log_p_s
    n_s, n_y = p_sy.shape
    for j in range(n_y):
        log_r[j] = 0.0
    for k in range(n_s):
        for j in range(n_y):
            log_r[j] += p_sy[k, j]
    for j in range(n_y):
        r = log_r[j]
        value = log_(r if r > 0.0 else 1.0)
        log_r[j] = value
    leakage = 0.0
    for k in range(n_s):
        prior = log_p_s[k]
        for j in range(n_y):
            t = p_sy[k, j]
            value = log_(t if t > 0.0 else 1.0) - log_r[j]
            value = value if t > 0.0 else 0.0
            log_t[k, j] = value
            leakage += t * (value - prior)
    return leakage


@compiled(fastmath=EXACT, nogil=True)
def subtract(i: int, nonzeros: Nonzeros, eta: float, log_t: Array, base: Array) -> None:
    """Subtract η Σ_k s_ki log t_kj from row i of ``base`` (M, N): equation (2).

    Term by term and not reordered, so that it does not matter to the last digit into what function this is inlined.
    """
    first, length, symbol, s_value = nonzeros
    n_y = base.shape[1]
    z = first[i]
    end = first[i] + length[i]
    while z + 3 < end:
        s_0, s_1 = eta * s_value[z], eta * s_value[z + 1]
        s_2, s_3 = eta * s_value[z + 2], eta * s_value[z + 3]
        k_0, k_1, k_2, k_3 = symbol[z], symbol[z + 1], symbol[z + 2], symbol[z + 3]
        for j in range(n_y):
            rest = base[i, j] - s_0 * log_t[k_0, j]
            rest -= s_1 * log_t[k_1, j]
            rest -= s_2 * log_t[k_2, j]
            base[i, j] = rest - s_3 * log_t[k_3, j]
        z += 4
    while z + 1 < end:
        s_0, s_1 = eta * s_value[z], eta * s_value[z + 1]
        k_0, k_1 = symbol[z], symbol[z + 1]
        for j in range(n_y):
            rest = base[i, j] - s_0 * log_t[k_0, j]
            base[i, j] = rest - s_1 * log_t[k_1, j]
        z += 2
    while z < end:
        s_0, k_0 = eta * s_value[z], symbol[z]
        for j in range(n_y):
            base[i, j] -= s_0 * log_t[k_0, j]
        z += 1


@compiled(fastmath=SUMS, nogil=True, forceinline=True)
def _next_exponents(
    tables: KernelTables, outputs: Outputs, exponents: Exponents, rows: Rows, slope: float
) -> None:
    """Turn the exponents of the last update into those of the next: equation (2) with η = 1.

    log u itself is λ·``log_w`` + ``base`` + ``shift`` where ``weight`` is positive: it is not stored between steps.
    """
    base, log_w = exponents
    weight, shift = rows.weight, rows.shift
    log_t, log_r = outputs.log_t, outputs.log_r
    nonzeros = tables.nonzeros
    n_x, n_y = base.shape
    for i in range(n_x):
        move = shift[i]
        for j in range(n_y):
            u = base[i, j] + slope * log_w[i, j] + move
            u = u if weight[i, j] > 0.0 else ZERO
            base[i, j] = u
            log_w[i, j] = u - log_r[j]
        subtract(i, nonzeros, 1.0, log_t, base)


@compiled(nogil=True, forceinline=True)
def _normalise(tables: KernelTables, rows: Rows) -> None:
    """Set the constants of the rows after an update; what it subtracted is the next one's guess."""
    _, total, top, scale, shift = rows
    p_x, log_p_x = tables.p_x, tables.log_p_x
    for i in range(len(p_x)):
        scale[i] = p_x[i] / total[i]
        top[i] += np.log(total[i])
        shift[i] = log_p_x[i] - top[i]


@compiled(fastmath=SUMS, nogil=True)
def _residual(
    tables: KernelTables, exponents: Exponents, rows: Rows, outputs: Outputs, slope: float
) -> float:
    """The residual (5) of the *old* point read off the new one."""
    base, log_w = exponents
    weight, total, _, _, shift = rows
    log_r, p_x = outputs.log_r, tables.p_x
    n_x, n_y = base.shape
    failure = 0.0
    for i in range(n_x):
        move = shift[i]
        first = 0.0
        second = 0.0
        for j in range(n_y):
            growth = base[i, j] + slope * log_w[i, j] + move - (log_w[i, j] + log_r[j])
            growth = growth if weight[i, j] > 0.0 else 0.0
            part = weight[i, j] * growth
            first += part
            second += part * growth
        mean = first / total[i]
        spread = second / total[i] - mean * mean
        failure += p_x[i] * (spread if spread > 0.0 else 0.0)
    return float(np.sqrt(failure))


@compiled(fastmath=SUMS, nogil=True)
def _write(exponents: Exponents, rows: Rows, slope: float, log_u: Array) -> None:
    """Write out log u (M, N) of the update at λ = ``slope``."""
    base, log_w = exponents
    weight, shift = rows.weight, rows.shift
    n_x, n_y = base.shape
    for i in range(n_x):
        move = shift[i]
        for j in range(n_y):
            value = base[i, j] + slope * log_w[i, j] + move
            log_u[i, j] = value if weight[i, j] > 0.0 else ZERO


@compiled(nogil=True)
def _write_old(exponents: Exponents, outputs: Outputs, log_u: Array) -> None:
    """Write out log u (M, N) of the point that the update starts from."""
    log_w, log_r = exponents.log_w, outputs.log_r
    n_x, n_y = log_w.shape
    for i in range(n_x):
        for j in range(n_y):
            log_u[i, j] = log_w[i, j] + log_r[j] if log_w[i, j] > 0.5 * ZERO else ZERO


@compiled(nogil=True)
def run(
    tables: KernelTables, log_u: Array, slope: float, target: float, steps: int, tolerance: float
) -> tuple[float, float, int, bool]:
    """Advance one run by at most ``steps`` plain iterations, in place.

    Args:
        tables: The problem's tables.
        log_u: log p(x, y), shape (M, N); overwritten.
        slope: λ to start from.
        target: R − H(X).
        steps: Iterations at most.
        tolerance: Residual at which the run stops.

    Returns:
        λ, the last residual seen, iterations done, whether the run can go on.
    """
    n_x, n_y = log_u.shape
    p_x, n_s = tables.p_x, len(tables.log_p_s)
    exponents = Exponents(log_u.copy(), np.zeros((n_x, n_y)))
    weight = np.empty((n_x, n_y))
    rows = Rows(weight, np.empty(n_x), np.full(n_x, np.inf), np.ones(n_x), np.zeros(n_x))
    outputs = Outputs(np.empty((n_s, n_y)), np.empty((n_s, n_y)), np.empty(n_y))
    for i in range(n_x):
        for j in range(n_y):
            weight[i, j] = np.exp(log_u[i, j])
    residual = np.inf
    before = slope
    for n in range(steps):
        find_outputs(tables, rows, outputs)
        _next_exponents(tables, outputs, exponents, rows, slope if n else 0.0)
        # λ moves smoothly: where it is heading is a better guess than where it was.
        found = root(exponents, rows, p_x, 2.0 * slope - before, target, tables.root_tolerance)
        if found < 0.0:
            _write_old(exponents, outputs, log_u)
            return slope, residual, n, False
        before, slope = slope if n else found, found
        _normalise(tables, rows)
        # The residual costs a pass over the rows: it is computed in one step out of this many.
        if n % 8 == 0 or n == steps - 1:
            residual = _residual(tables, exponents, rows, outputs, slope)
            if residual <= tolerance:
                steps = n + 1
                break
    _write(exponents, rows, slope, log_u)
    return slope, residual, steps, True


@compiled(nogil=True)
def run_some(
    tables: KernelTables,
    log_u: Array,
    target: Array,
    steps: int,
    tolerance: float,
    result: Progressed,
    begin: int,
    end: int,
) -> None:
    """:func:`run` for the runs ``begin``:``end`` of a batch, in place: small ones cost less than a call each."""
    slope = result.state.slope
    for b in range(begin, end):
        slope[b], result.residual[b], result.steps[b], result.alive[b] = run(
            tables, log_u[b], slope[b], target[b], steps, tolerance
        )
