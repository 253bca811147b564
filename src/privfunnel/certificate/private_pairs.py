"""Releases without leakage, two private symbols: μ H(w) − a·w is bounded on pairs of symbols, from counts.

A posterior w tells nothing where Σ w_x d_x = 0, d_x = p(s=1|x) − p(s=1). H is concave, so that μ H(w) − a·w is least at
a vertex of these posteriors: a symbol with d = 0 alone, or a pair of one at distance u below and one at v above, with
the weights v/(u+v) and u/(u+v). All pairs are looked at. Which side a symbol is on is decided in whole numbers,
n n_x d_x = c_1x n_0 − c_0x n_1 with counts c, and only then divided: the weights of a pair are right to a few
roundings, however near to p(s) its symbols are.
"""

from __future__ import annotations

import numpy as np

from privfunnel.certificate.pairs import PairsProof
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx
from privfunnel.model.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
#: Rows of a table beyond which products of counts do not fit whole numbers of 64 bits.
MOST_ROWS = 2**31
#: Pairs that are looked at at most, and together.
MOST_PAIRS, _BLOCK = 200_000_000, 200_000


def check_private_pairs(problem: Problem, prices: Array, slope: float, proof: PairsProof) -> None:
    """Raise CertificateError unless μ H(w) − a·w ≥ ``proof.claim`` for every posterior w that tells nothing."""
    least = least_of_private_pairs(problem, prices, slope)
    if proof.outer.size or proof.inner.size or not proof.claim <= least:
        raise CertificateError(
            f"the certificate does not prove its claim: a pair of symbols is {proof.claim - least:.3g} nats short of it"
        )


def least_of_private_pairs(problem: Problem, prices: Array, slope: float) -> float:
    """Proved: μ H(w) − a·w is at least this, in nats, for every posterior w that tells nothing.

    Args:
        problem: Counts of two private symbols; any table where S is known.
        prices: a, shape (M,).
        slope: μ ≥ 0.

    Raises:
        CertificateError: There are more private symbols, or too many rows or pairs.
    """
    if problem.n_s == 1:
        return -float(prices.max())
    counts = problem.counts
    if counts is None or problem.n_s != 2 or not counts.sum() < MOST_ROWS:
        raise CertificateError(
            "a proof by pairs without leakage needs counts of two private symbols: it is damaged"
        )
    whole = counts.astype(np.int64)
    n_s, n_x = whole.sum(axis=1), counts.sum(axis=0)
    distance = whole[1] * n_s[0] - whole[0] * n_s[1]
    below, above, alone = (np.flatnonzero(side) for side in (distance < 0, distance > 0, distance == 0))
    if below.size * above.size > MOST_PAIRS:
        raise CertificateError(
            f"the certificate has {below.size * above.size} pairs, {MOST_PAIRS} are looked at: it cannot be checked"
        )
    least = float((-prices[alone]).min(initial=np.inf))
    u, v = -distance[below] / n_x[below], distance[above] / n_x[above]
    rows = max(_BLOCK // max(above.size, 1), 1)
    for start in range(0, below.size, rows):
        b = slice(start, start + rows)
        total = u[b, None] + v[None, :]
        w, y = v[None, :] / total, u[b, None] / total
        price_b, price_a = prices[below[b], None], prices[None, above]
        value = -slope * (xlogx(w) + xlogx(y)) - w * price_b - y * price_a
        # Roundings in the value of a pair: four in each weight, which H and a·w feel less than once, and those of the
        # sums.
        rounding = 32.0 * _EPS * (slope + np.abs(price_b) + np.abs(price_a))
        least = min(least, float((value - rounding).min()))
    return least
