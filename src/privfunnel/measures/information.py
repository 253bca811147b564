"""Information measures in nats: the only home of an information formula.

All functions accept arrays with any number of leading batch axes, treat ``0 log 0`` as 0, and never perturb their
input. Probabilities need not be normalised for :func:`xlogx`; the others assume that they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.errors import InvalidInputError

Array = NDArray[np.float64]
#: Arrays of any kind by name, as files of numbers hold them.
Arrays = dict[str, NDArray[Any]]
#: p(y|x) as it is given and returned: a dense array, or a SciPy sparse one where it would not fit.
Channel = Any

NATS_PER_BIT = math.log(2.0)
#: Less than any probability that matters: a floor that keeps logarithms and divisions finite.
TINY = 1e-300


def nats_per(units: str) -> float:
    """How many nats one unit is, of ``"nats"`` or ``"bits"``."""
    known = {"nats": 1.0, "bits": NATS_PER_BIT}
    if units not in known:
        raise InvalidInputError(f"units={units!r} are not known: use 'nats' or 'bits'")
    return known[units]


def to_bits(nats: float) -> float:
    """Convert nats to bits."""
    return nats / NATS_PER_BIT


def safe_log(p: ArrayLike) -> Array:
    """Natural logarithm with ``log 0 = 0``, for use where the result is multiplied by ``p``."""
    p = np.asarray(p, dtype=np.float64)
    return np.log(np.where(p > 0.0, p, 1.0))


def xlogx(p: ArrayLike) -> Array:
    """``p log p`` elementwise, 0 at 0, in nats."""
    p = np.asarray(p, dtype=np.float64)
    return np.asarray(p * safe_log(p))


def entropy(p: ArrayLike, axis: int = -1) -> Array:
    """Entropy ``H(p) = −Σ p log p`` along ``axis``, in nats."""
    return np.asarray(0.0 - np.sum(xlogx(p), axis=axis))  # not −Σ, which is −0.0 for a sure thing


def entropy_of_sums(n: float, n_log_n: float) -> float:
    """Entropy ``log n − (Σ n_i log n_i) / n`` of counts n_i, in nats, where only their sums are known.

    Args:
        n: Σ n_i, above 0.
        n_log_n: Σ n_i log n_i.
    """
    return max(math.log(n) - n_log_n / n, 0.0)


def joint_entropy(p_ab: ArrayLike) -> Array:
    """Joint entropy ``H(A, B)`` of a table ``(..., a, b)``, in nats."""
    return np.asarray(0.0 - np.sum(xlogx(p_ab), axis=(-2, -1)))


def conditional_entropy(p_ab: ArrayLike) -> Array:
    """``H(A|B) = H(A, B) − H(B)`` of a joint table ``(..., a, b)``, in nats."""
    p_ab = np.asarray(p_ab, dtype=np.float64)
    return np.asarray(joint_entropy(p_ab) - entropy(p_ab.sum(axis=-2)))


def conditional_information(p_ac: ArrayLike, p_abc: ArrayLike) -> float:
    """``I(A; B|C) = H(A|C) − H(A|B, C)`` of joint tables ``(a, c)`` and ``(a, pairs of b, c)``, in nats, at least 0.

    Pairs that do not occur may be left out; where C is a function of B, the pairs are the values of B.
    """
    return max(float(conditional_entropy(p_ac) - conditional_entropy(p_abc)), 0.0)


def mutual_information(p_ab: ArrayLike) -> Array:
    """``I(A; B)`` of a joint table ``(..., a, b)``, or of one SciPy sparse table ``(a, b)``, in nats, never negative.

    Computed as ``Σ p_ab log(p_ab / (p_a p_b))``, which keeps its relative accuracy when A and B are nearly
    independent; the difference of entropies would lose it to cancellation.
    """
    if hasattr(p_ab, "tocoo"):
        return _sparse_mutual_information(p_ab)
    p_ab = np.asarray(p_ab, dtype=np.float64)
    p_a = p_ab.sum(axis=-1, keepdims=True)
    p_b = p_ab.sum(axis=-2, keepdims=True)
    product = p_a * p_b
    # Where the product underflows to 0 so does its term of the sum.
    usable = (p_ab > 0.0) & (product > 0.0)
    ratio = np.where(usable, p_ab, 1.0) / np.where(usable, product, 1.0)
    # p log(p/q) − p + q is non-negative termwise, and Σ(p − q) = 0 up to rounding: the sum has no cancellation.
    terms = np.where(usable, p_ab * np.log(ratio) - p_ab + product, product)
    return np.asarray(np.maximum(np.sum(terms, axis=(-2, -1)), 0.0))


def _sparse_mutual_information(p_ab: Any) -> Array:
    """:func:`mutual_information` of a sparse table: the same sum over its entries, the empty cells taken together."""
    p_a, p_b = np.asarray(p_ab.sum(axis=1)).reshape(-1), np.asarray(p_ab.sum(axis=0)).reshape(-1)
    entries = p_ab.tocoo()
    p, product = entries.data, p_a[entries.coords[0]] * p_b[entries.coords[1]]
    usable = (p > 0.0) & (product > 0.0)
    ratio = np.where(usable, p, 1.0) / np.where(usable, product, 1.0)
    terms = np.where(usable, p * np.log(ratio) - p + product, product)
    empty = max(float(p_a.sum() * p_b.sum() - product.sum()), 0.0)
    return np.asarray(max(float(terms.sum()) + empty, 0.0))


def sampled_information(log_ratio: ArrayLike) -> tuple[float, float]:
    """``I(A; B)`` from samples of ``log p(b|a)/p(b)`` with exact densities, in nats, and its standard error.

    Args:
        log_ratio: One a sample of (A, B), shape (n,). The mean is unbiased, and may be negative by chance.
    """
    ratio = np.asarray(log_ratio, dtype=np.float64)
    return float(ratio.mean()), float(ratio.std(ddof=1) / math.sqrt(len(ratio)))


def predicted_information(log_q: ArrayLike, p_a: ArrayLike) -> tuple[float, float]:
    """``H(A) + E log q(a|b)``, a lower bound of I(A; B) whatever q is, in nats, and its standard error.

    Args:
        log_q: ``log q(a|b)`` of each sample of (A, B) that q has not seen, shape (n,).
        p_a: p(a), shape (K,).
    """
    logs = np.asarray(log_q, dtype=np.float64)
    return float(entropy(p_a) + logs.mean()), float(logs.std(ddof=1) / math.sqrt(len(logs)))


def mixture_entropy_bounds(mean: Array, deviation: Array) -> tuple[float, float]:
    """Lower and upper bound of the entropy of an equal mixture of normal densities, in nats (Kolchinsky, Tracey 2017).

    ``h(Y|C) − mean_i log mean_j exp(−d_ij)`` with d the Bhattacharyya distance of two components is at most the
    entropy, and with d the Kullback-Leibler divergence at least.

    Args:
        mean: Means, shape (n, size).
        deviation: Deviations, diagonal, shape (n, size).
    """
    variance = deviation**2
    given = float(np.mean(np.sum(0.5 * np.log(2.0 * math.pi * math.e * variance), axis=1)))
    low = high = 0.0
    for i in range(len(mean)):  # a row of distances at a time: n² · size numbers would not fit
        square = (mean[i] - mean) ** 2
        kl = 0.5 * np.sum(
            variance[i] / variance + square / variance - 1.0 + np.log(variance / variance[i]), axis=1
        )
        both = 0.5 * (variance[i] + variance)
        near = np.sum(0.125 * square / both + 0.5 * np.log(both / np.sqrt(variance[i] * variance)), axis=1)
        low, high = low - math.log(np.mean(np.exp(-near))), high - math.log(np.mean(np.exp(-kl)))
    return given + low / len(mean), given + high / len(mean)


def normal_information(covariance: ArrayLike, first: int) -> float:
    """``I(A; B)`` of jointly normal numbers in nats: ``½ log(det Σ_A det Σ_B / det Σ)``.

    Args:
        covariance: Σ of (A, B), shape (n, n).
        first: How many of the numbers are A's.
    """
    whole = np.asarray(covariance, dtype=np.float64)
    parts = [whole[:first, :first], whole[first:, first:], whole]
    a, b, ab = (float(np.linalg.slogdet(part)[1]) for part in parts)
    return max(0.5 * (a + b - ab), 0.0)


def kl_divergence(p: ArrayLike, q: ArrayLike, axis: int = -1) -> Array:
    """``D(p‖q) = Σ p log(p/q)`` along ``axis``, in nats; infinite where ``q = 0 < p``."""
    p, q = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    both = (p > 0.0) & (q > 0.0)
    terms = np.where(both, p * np.log(np.where(both, p, 1.0) / np.where(both, q, 1.0)), 0.0)
    return np.asarray(np.sum(np.where((p > 0.0) & (q <= 0.0), np.inf, terms), axis=axis))


def guessing_accuracy(p_ab: ArrayLike) -> Array:
    """``Σ_b max_a p(a, b)`` of a joint table ``(..., a, b)``: how often the best guess of A from B is right."""
    return np.asarray(np.sum(np.max(np.asarray(p_ab, dtype=np.float64), axis=-2), axis=-1))


def maximal_leakage(p_ab: ArrayLike) -> Array:
    """Maximal leakage ``log Σ_b max_a p(b|a)`` from A to B of a joint table ``(..., a, b)``, in nats.

    The largest factor, over every function of A an attacker may want, by which B multiplies the chance of guessing
    it. Symbols ``a`` of zero probability are left out.
    """
    p_ab = np.asarray(p_ab, dtype=np.float64)
    p_a = p_ab.sum(axis=-1, keepdims=True)
    conditional = np.where(p_a > 0.0, p_ab / np.where(p_a > 0.0, p_a, 1.0), 0.0)
    return np.asarray(np.maximum(np.log(np.sum(np.max(conditional, axis=-2), axis=-1)), 0.0))


def lift(p_ab: ArrayLike) -> Array:
    """Lift ``p(a|b) / p(a)`` of a joint table, shape ``(..., a, b)``; 1 where ``p(a) p(b) = 0``.

    Its extremes bound what any single released symbol can do to an attacker's belief: the local information privacy
    parameter is the largest ``|log lift|``.
    """
    p_ab = np.asarray(p_ab, dtype=np.float64)
    product = p_ab.sum(axis=-1, keepdims=True) * p_ab.sum(axis=-2, keepdims=True)
    return np.where(product > 0.0, p_ab / np.where(product > 0.0, product, 1.0), 1.0)


def pointing(p_ab: Any) -> tuple[float, float, int]:
    """How much better B points at single symbols of A than nothing does: the largest factor, the mean, and where.

    Args:
        p_ab: A joint table (a, b), an array or SciPy sparse.

    Returns:
        ``max p(b|a)/p(b)``, ``Σ_b max_a p(b|a)`` (the exponential of :func:`maximal_leakage`), and the b of the first.
    """
    p_a, p_b = np.asarray(p_ab.sum(axis=1)).ravel(), np.asarray(p_ab.sum(axis=0)).ravel()
    scale = 1.0 / np.where(p_a > 0.0, p_a, 1.0)[:, None]
    if isinstance(p_ab, np.ndarray):
        peaks = np.asarray((p_ab * scale).max(axis=0))
    else:
        peaks = np.asarray(p_ab.multiply(scale).tocsc().max(axis=0).toarray()).ravel()
    gains = np.divide(peaks, p_b, out=np.zeros_like(peaks), where=p_b > 0.0)
    at = int(np.argmax(gains))
    return float(gains[at]), float(peaks.sum()), at


def gaussian_information(gains: ArrayLike, variances: ArrayLike) -> Array:
    """``½ Σ log((1 + γ)/(1 + γδ))`` along the last axis, in nats: what noisy directions tell of another Gaussian.

    Args:
        gains: γ ≥ 0 of each direction, infinite for the direction itself.
        variances: δ in [0, 1], what is left of the variance of each direction.
    """
    gamma, delta = np.broadcast_arrays(np.asarray(gains, np.float64), np.asarray(variances, np.float64))
    finite = np.isfinite(gamma)
    gamma = np.where(finite, gamma, 0.0)
    terms = np.where(finite, np.log1p(gamma) - np.log1p(gamma * delta), -np.log(np.where(finite, 1.0, delta)))
    return np.asarray(0.5 * np.sum(terms, axis=-1))


def chi_squared(p_ab: ArrayLike) -> Array:
    """``χ²(A; B) = Σ (p_ab − p_a p_b)² / (p_a p_b)`` of a joint table ``(..., a, b)``, 0 iff they are independent."""
    p_ab = np.asarray(p_ab, dtype=np.float64)
    product = p_ab.sum(axis=-1, keepdims=True) * p_ab.sum(axis=-2, keepdims=True)
    terms = np.where(product > 0.0, (p_ab - product) ** 2 / np.where(product > 0.0, product, 1.0), 0.0)
    return np.asarray(np.sum(terms, axis=(-2, -1)))


def total_variation(p_ab: ArrayLike) -> Array:
    """``½ Σ |p_ab − p_a p_b|`` of a joint table ``(..., a, b)``: the mean distance of p(a|b) from p(a), in [0, 1]."""
    p_ab = np.asarray(p_ab, dtype=np.float64)
    product = p_ab.sum(axis=-1, keepdims=True) * p_ab.sum(axis=-2, keepdims=True)
    return np.asarray(0.5 * np.sum(np.abs(p_ab - product), axis=(-2, -1)))


def guessing_gain(p_ab: ArrayLike) -> Array:
    """``Σ_b max_a p(a, b) − max_a p(a)`` of a joint table: how much oftener the best guess of A is right, knowing B."""
    p_ab = np.asarray(p_ab, dtype=np.float64)
    gain = guessing_accuracy(p_ab) - np.max(p_ab.sum(axis=-1), axis=-1)
    return np.asarray(np.maximum(gain, 0.0))


def miller_madow_bias(n_a: int, n_b: int, n: float, cells: int | None = None) -> float:
    """How much the plug-in ``I(A; B)`` of ``n`` samples is expected to exceed the true one, in nats.

    First order (Miller and Madow): each plug-in entropy is too small by (occupied symbols − 1)/(2n), so the excess is
    ``(cells − n_a − n_b + 1) / (2n)``; with all ``n_a · n_b`` cells possible, ``(n_a − 1)(n_b − 1) / (2n)``.

    Args:
        n_a: Number of symbols of A.
        n_b: Number of symbols of B.
        n: Sample size.
        cells: Number of cells of the table that occur; all of them by default.
    """
    occupied = n_a * n_b if cells is None else cells
    return (occupied - n_a - n_b + 1) / (2.0 * n)


def released_bias(p_sx: Array, channel: Channel, n: float) -> float:
    """How much ``I(S; Y)`` of a channel, at p(s, x) counted in ``n`` rows, is expected to exceed the true one, in nats.

    Second order: φ(t) = t log t of an average t̂ exceeds φ(t) by var(t̂)/(2t), and n·var(p̂(s,y)) = Σ_x p(s,x) p(y|x)² −
    p(s,y)². A channel that releases X itself has the bias of :func:`miller_madow_bias`, any other one less.

    Args:
        p_sx: p(s, x), shape (K, M).
        channel: p(y|x), shape (M, N), dense or sparse.
        n: Sample size.
    """
    squares = channel**2 if isinstance(channel, np.ndarray) else channel.multiply(channel)
    p_sy, p_x = p_sx @ channel, p_sx.sum(axis=0)
    p_y = p_sy.sum(axis=0)
    joint = np.divide(p_sx @ squares, p_sy, out=np.zeros_like(p_sy), where=p_sy > 0.0).sum()
    outputs = np.divide(p_x @ squares, p_y, out=np.zeros_like(p_y), where=p_y > 0.0).sum()
    occupied = int((p_sx.sum(axis=1) > 0.0).sum())
    return float(joint - outputs - (occupied - 1)) / (2.0 * n)
