"""The state of an AEM run, what all runs of a problem share, and the iteration in formulas.

The state of a run is ``log_u``, the logarithm of p(x, y) with shape (M, N). Since every column of p(s|x) sums
to 1, the auxiliary q = p(x|s, y) of Algorithm 1 never has to be stored: with t_kj = p(s_k|y_j) one iteration is

    (1)  log u_ij ← log p_i + log softmax_j( base_ij + λ log w_ij )
    (2)  base_ij = log u_ij − η Σ_k s_ki log t_kj,      log w_ij = log u_ij − log r_j

with η = 1 (accelerated runs take η ≥ 1, see :mod:`privfunnel.algorithms.aem.schedule`), where λ ≥ 0 is the root of the
nondecreasing function

    (3)  G(λ) = Σ_ij u_ij(λ) log w_ij − (R − H(X)),

or 0 when G(0) ≥ 0. By Gibbs' inequality G(λ) ≥ 0 implies I(X;Y) ≥ R after the update, so the root is always
approached from its feasible side, by

    (4)  Halley's method, λ ← λ − G / (G' − G G''/(2 G')), inside a bracket, because G is flat at both ends.

How far the update moves the point says how far the point is from a stationary one: at the λ of the step −log(u_new/u)
is, up to a constant for each x, the gradient g_xy of :func:`privfunnel.model.stationarity.kkt_residual`, so that

    (5)  residual = sqrt( Σ_ij u_new ( log(u_new/u) − its mean in row i )² ) / η

is that residual to first order, at no extra logarithm.

Each family of backends has these formulas once, and its docstrings name them: :mod:`~privfunnel.algorithms.aem.arrays`
(NumPy and PyTorch; the reference), :mod:`~privfunnel.algorithms.aem.kernel_root` and ``kernel_plain`` with
:mod:`~privfunnel.algorithms.aem.kernel_accelerated` (numba), and :mod:`~privfunnel.algorithms.aem.kernel_fused` (CUDA).

Zeros. The update is multiplicative: an entry that is 0 stays 0. Such entries carry ``log_u = ZERO``. An entry whose
share of its row falls below exp(CUT) is treated as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.measures import Array, entropy, safe_log

#: Stands for log 0: finite, so that λ·log w is a number even at λ = 0, and its exponential is exactly 0.
ZERO = -1.0e30
#: Exponents this far below their row's largest count as log 0: exp(CUT) ≈ 1e-287 is about to underflow and carries
#: less than 1e-284 nats of anything.
CUT = -660.0
#: A root λ beyond this is given up: G is as flat there as rounding can tell, and the constraint cannot be met.
SLOPE_LIMIT = 2.0**40
#: Evaluations of G for one root at most. Halley's method takes two to four; the worst case, doubling λ up to
#: SLOPE_LIMIT and halving the bracket down to neighbouring floats, about a hundred.
ROOT_EVALUATIONS = 120


@dataclass(frozen=True)
class Tables:
    """What all runs of one problem share.

    Attributes:
        p_s_given_x: p(s|x), shape (K, M).
        p_x: p(x), shape (M,).
        log_p_x: log p(x), shape (M,).
        log_p_s: log p(s), shape (K,).
        h_x: H(X) in nats.
    """

    p_s_given_x: Array
    p_x: Array
    log_p_x: Array
    log_p_s: Array
    h_x: float

    @classmethod
    def of(cls, p_sx: Array) -> Tables:
        """Tables of the joint distribution ``p_sx`` (K, M), whose columns all have positive mass."""
        p_x = p_sx.sum(axis=0)
        p_s_given_x = np.ascontiguousarray(p_sx / p_x)
        return cls(p_s_given_x, p_x, np.log(p_x), np.log(p_sx.sum(axis=1)), float(entropy(p_x)))

    def root_tolerance(self) -> float:
        """How far above 0 the accepted G(λ) may lie, in nats: a few hundred roundings of H(X)."""
        return 1.0e-13 * max(1.0, self.h_x)


def pieces(size: int, item_bytes: int) -> list[slice]:
    """Cut a batch of ``size`` items into slices whose work stays in cache: one call for many small, few large each."""
    # Work on arrays is cut into pieces of about this many bytes: what a core has for its own in the second-level
    # cache.
    length = max(1, (1 << 21) // max(1, item_bytes))
    return [slice(begin, min(size, begin + length)) for begin in range(0, size, length)]


def log_of(p_xy: Array) -> Array:
    """Log p(x, y) with exact zeros carried as ``ZERO``; any shape."""
    return np.asarray(np.where(p_xy > 0.0, safe_log(p_xy), ZERO))


def channel_of(tables: Tables, log_u: Array) -> Array:
    """The channel p(y|x) (…, M, N) of the state ``log_u``; rows sum to 1."""
    channel = np.exp(log_u - tables.log_p_x[:, None])
    return np.asarray(channel / channel.sum(axis=-1, keepdims=True))
