"""How far a channel is from a stationary point of the funnel."""

from __future__ import annotations

import numpy as np

from privfunnel import measures
from privfunnel.measures import Array
from privfunnel.model.problem import Problem


def kkt_residual(problem: Problem, channel: Array, slope: float | None = None) -> float:
    r"""Distance of a channel from a stationary point of the funnel, in nats.

    With u = p(x, y), t = p(s|y), w = p(x|y), the derivative of I(S;Y) − λ I(X;Y) with respect to p(y|x) is p(x) times

        g_xy = Σ_s p(s|x) log(t_sy / p(s)) − λ log(w_xy / p(x)).

    A channel is stationary when some λ ≥ 0 makes g_xy equal to a constant α_x wherever u_xy > 0. The residual is the
    root mean square of that failure, weighted by u:

        min over λ ≥ 0 of  sqrt( Σ u_xy (g_xy − α_x)² ),   α_x = Σ_y u_xy g_xy / p(x),

    a least-squares problem in λ with a closed form. Where u_xy = 0 the derivative of the second term is +∞, so that
    stationarity holds by itself for λ > 0; for λ = 0 the shortfall α_x − g_xy, if positive, counts with weight
    p(x) p(y).

    Args:
        problem: The problem.
        channel: p(y|x), shape (M, N).
        slope: λ, where it is known; otherwise the best one is taken.

    Returns:
        The residual: 0 exactly at a stationary point.
    """
    residual, _ = stationarity(problem, channel, slope)
    return residual


def stationarity(problem: Problem, channel: Array, slope: float | None = None) -> tuple[float, float]:
    """The pair (KKT residual, λ) of :func:`kkt_residual`."""
    u = problem.check_channel(channel) * problem.p_x[:, None]
    u = u[:, u.sum(axis=0) > 0.0]
    r = u.sum(axis=0)
    w = u / r
    used = u > 0.0
    leak = (
        problem.p_s_given_x.T @ measures.safe_log(problem.p_s_given_x @ w)
        - (problem.p_s_given_x * np.log(problem.p_s)[:, None]).sum(axis=0)[:, None]
    )
    tell = np.where(used, measures.safe_log(w) - np.log(problem.p_x)[:, None], 0.0)

    def centred(g: Array) -> Array:
        alpha = (u * g).sum(axis=1, keepdims=True) / problem.p_x[:, None]
        return np.where(used, g - alpha, 0.0)

    d, e = centred(leak), centred(tell)
    scale = float((u * e * e).sum())
    if slope is None:
        # Where the disclosure cannot change to first order (a bijection, a constant) every λ fits: 1 is the
        # largest slope a curve can have.
        slope = max(float((u * d * e).sum()) / scale, 0.0) if scale > measures.TINY else 1.0
    failure = float((u * (d - slope * e) ** 2).sum())
    if slope == 0.0:
        alpha = (u * leak).sum(axis=1, keepdims=True) / problem.p_x[:, None]
        shortfall = np.where(used, 0.0, np.maximum(alpha - leak, 0.0))
        failure += float((problem.p_x[:, None] * r * shortfall**2).sum())
    return float(np.sqrt(failure)), slope
