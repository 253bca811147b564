"""The history of one AEM run: what each iteration did to the objective, and Lemma 1's account of it.

The relaxed objective of the paper, up to the constant H(S), is

    f̃(u, r, q) = Σ_ijk s_ki u_ij ( log(s_ki u_ij) − log r_j − log q_ijk ),

where q comes from the previous iterate u'. Writing ζ_kj = Σ_i s_ki u_ij, every sum over k collapses because
the columns of p(s|x) sum to 1, and nothing of size M×N×K is needed:

    f̃ = Σ u log(u / u') − Σ r log r + Σ_kj ζ log ζ'
    Σ_jk ζ_kj D(q_jk ‖ q'_jk) = D(u ‖ u') − D(ζ ‖ ζ').
"""

from __future__ import annotations

import numpy as np

from privfunnel.algorithms.aem import arrays
from privfunnel.algorithms.aem.state import Tables, channel_of
from privfunnel.certificate.answer import Record
from privfunnel.measures import Array, entropy, safe_log, xlogx
from privfunnel.model.problem import Problem
from privfunnel.model.stationarity import kkt_residual

#: The four terms of Lemma 1, in its order.
LEMMA_TERMS = ("descent_q", "descent_r", "descent_u", "descent_w")
SERIES = ("objective", "leakage", "disclosure", "slope", "kkt_residual", *LEMMA_TERMS)


def record_run(
    problem: Problem, tables: Tables, log_u: Array, first_slope: float, disclosure: float, steps: int
) -> Record:
    """Repeat a run of plain Algorithm 1 step by step and write down what happens.

    Args:
        problem: The problem.
        tables: Its tables.
        log_u: log p(x, y) of the start, shape (M, N).
        first_slope: λ the first root search starts from.
        disclosure: R in nats.
        steps: Iterations to make.

    Returns:
        Arrays of shape (steps + 1,), entry n belonging to u⁽ⁿ⁾ (entry 0: the start):

        - ``objective``: f̃(u⁽ⁿ⁾, r⁽ⁿ⁾, q⁽ⁿ⁾) + H(S), with q⁽ⁿ⁾ computed from u⁽ⁿ⁻¹⁾; equal to the leakage at
          the start, and again in the limit (Theorem 1);
        - ``leakage``, ``disclosure``, ``kkt_residual`` of u⁽ⁿ⁾ and ``slope`` λ⁽ⁿ⁾;
        - the terms of Lemma 1 for the descent from n to n + 1: ``descent_q``, ``descent_r``, ``descent_u``,
          ``descent_w``. They need the iterates n − 1, n and n + 1, so they are not a number at the start and
          at the end.
    """
    h_s = float(entropy(problem.p_s))
    series: dict[str, list[float]] = {name: [] for name in SERIES}
    batch = arrays.Batch.of(tables)
    slope, target = np.array([first_slope]), np.array([disclosure - tables.h_x])
    history = [log_u]
    for n in range(steps + 1):
        current = history[-1]
        previous = history[-2] if n else current
        channel = channel_of(tables, current)
        point = problem.evaluate(channel)
        following, next_slope = current, slope
        if n < steps:
            made = arrays.plain_step(batch, current[None], None, slope, target)
            following, next_slope = made.log_u[0], made.slope
        values = [
            _objective(tables, current, previous) + h_s,
            point.leakage,
            point.disclosure,
            float(slope[0]) if n else float("nan"),
            kkt_residual(problem, channel),
        ]
        if 0 < n < steps:
            values += _descent(tables, previous, current, following, float(next_slope[0]))
        else:
            values += [float("nan")] * len(LEMMA_TERMS)
        for name, value in zip(SERIES, values, strict=True):
            series[name].append(value)
        history = [current, following]
        slope = next_slope
    return Record(series={name: np.array(values) for name, values in series.items()})


def _objective(tables: Tables, log_u: Array, log_before: Array) -> float:
    u, before = np.exp(log_u), np.exp(log_before)
    zeta, zeta_before = tables.p_s_given_x @ u, tables.p_s_given_x @ before
    return float(
        (u * (log_u - log_before)).sum() - xlogx(u.sum(axis=0)).sum() + (zeta * safe_log(zeta_before)).sum()
    )


def _divergence(u: Array, log_u: Array, log_v: Array) -> float:
    """D(u‖v) where v may have lost entries to underflow: those weigh less than 1e-284."""
    return float(np.where(log_v > -1.0e29, u * (log_u - log_v), 0.0).sum())


def _descent(tables: Tables, before: Array, now: Array, after: Array, slope: float) -> list[float]:
    """The four terms of Lemma 1 for the step from ``now`` to ``after`` at λ = ``slope``, all (M, N) logarithms."""
    u_before, u, u_after = np.exp(before), np.exp(now), np.exp(after)
    zeta, zeta_before = tables.p_s_given_x @ u, tables.p_s_given_x @ u_before
    r_before, r, r_after = u_before.sum(axis=0), u.sum(axis=0), u_after.sum(axis=0)
    of_u = _divergence(u, now, before)
    of_r = float((r * (safe_log(r) - safe_log(r_before))).sum())
    return [
        of_u - float((zeta * (safe_log(zeta) - safe_log(zeta_before))).sum()),
        float((r_after * (safe_log(r_after) - safe_log(r))).sum()),
        _divergence(u, now, after),
        slope * (of_u - of_r),
    ]
