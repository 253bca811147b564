"""Proofs by thinning, for any number of private and public symbols: part of what S tells about X tells less of it.

Let ε = 1 − μ, and let q_x be distributions of a thinner S with ε q(s|x) ≤ p(s|x): with probability ε, S is drawn from
q_x. With h'_x the entropy of p(·|x) and all entropies under the posterior w,

    F(w) = −H(Pw) + μ H(w) − a·w = H(X|S) − ε H(w) − Σ_x w_x (h'_x + a_x),

and H(X|S) = Σ_s h(w p(s|·)), where h(v) = −Σ_x v_x log(v_x/Σv) rises with every v_x and scales with v. So it is at
least ε times what it is for the thinner S, ε (H(w) − I(X;thinner S)), and that information is at most Σ_x w_x KL(q_x‖π)
for any distribution π. Hence

    F(w) ≥ min_x [−h'_x − a_x − ε KL(q_x‖π)].

The best q_x is min(λ π, p(·|x)/ε), with the λ that makes it sum to 1. π is all that a proof has to store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.parts import Part
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays, xlogx

_EPS = float(np.finfo(np.float64).eps)
#: Roundings of one symbol besides one for each private symbol: logarithms, products and their sum.
_ADDING = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class ThinProof(Part):
    """Proof of F ≥ ``claim`` by thinning.

    Attributes:
        claim: The value proved, in nats.
        measure: π, positive, shape (K,).
    """

    kind: ClassVar[str] = "thinning"

    claim: float
    measure: Array

    def __post_init__(self) -> None:
        self.measure.setflags(write=False)

    def arrays(self) -> Arrays:
        """All that is stored but for the claim, by name."""
        return {"measure": self.measure}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(claim=claim, measure=archive.floats(f"{place}.measure"))

    def check_alone(self, columns: Array, prices: Array, slope: float, spread: float) -> None:
        """Raise CertificateError unless it proves its claim: see :func:`check_thinning`."""
        check_thinning(columns, prices, slope, self, spread)

    @property
    def n_nodes(self) -> int:
        """Number of boxes: none."""
        return 0


def thinned(columns: Array, share: float, measure: Array) -> tuple[Array, Array]:
    """ε q_x for every public symbol, and the λ of each.

    Args:
        columns: p(s|x), shape (K, M).
        share: ε, from above 0 to 1.
        measure: π > 0, summing to 1, shape (K,).

    Returns:
        min(ε λ π, p(s|x)), shape (K, M), each column of which sums to ε, and λ ≥ 1, shape (M,).
    """
    wanted = share * measure[:, None]
    full, level = np.zeros(columns.shape, dtype=bool), np.ones(columns.shape[1])
    for _ in range(len(columns)):
        rest = share - np.where(full, columns, 0.0).sum(axis=0)
        open_ = np.where(full, 0.0, wanted).sum(axis=0)
        level = np.where(open_ > 0.0, rest / np.where(open_ > 0.0, open_, 1.0), level)
        over = ~full & (columns < level * wanted)
        if not over.any():
            break
        full |= over
    return np.minimum(level * wanted, columns), level


def thinning_prices(columns: Array, kept: Array, share: float, measure: Array) -> Array:
    """``−h'_x − ε KL(q_x‖π)`` in nats, (M,): the highest prices at which F ≥ 0 is proved; ``kept`` is ε q, (K, M)."""
    told = np.where(kept > 0.0, kept, 1.0)
    return np.asarray(
        xlogx(columns).sum(axis=0) - (kept * np.log(told / (share * measure[:, None]))).sum(axis=0)
    )


def check_thinning(columns: Array, prices: Array, slope: float, proof: ThinProof, spread: float) -> None:
    """Raise CertificateError unless F ≥ ``proof.claim`` on the simplex of these classes.

    Args:
        columns: p(s|class), shape (K, C), to the share ``spread`` those of all members.
        prices: Shape (C,).
        slope: μ, from 0 to below 1.
        proof: The claim, and π.
        spread: By what share entries differ within a class.
    """
    n_s, n = columns.shape
    measure, share = proof.measure, 1.0 - slope
    sound = measure.shape == (n_s,) and measure.dtype == np.float64 and 0.0 <= slope < 1.0
    if not (sound and np.all((measure > 1.0 / LARGEST) & (measure <= 1.0)) and abs(proof.claim) < LARGEST):
        raise CertificateError("the certificate's measure of private symbols is not usable: it is damaged")
    measure = measure / measure.sum()
    columns = columns / columns.sum(axis=0)
    kept, _ = thinned(columns, share, measure)
    highest = thinning_prices(columns, kept, share, measure)
    size = 2.0 + np.log(n_s) + np.log(n) + float(np.abs(np.log(measure)).max()) + abs(float(np.log(share)))
    size += float(np.abs(prices).max())
    rounding = (n_s + _ADDING) * _EPS * size
    # What is kept of a symbol may miss ε by rounding: that much of H(w) and of the logarithms is not covered.
    rounding += float(np.abs(kept.sum(axis=0) - share).max()) * size
    # Entries that differ by a share δ move Σ t log t by no more than δ(h + 1), and so does their normalisation.
    rounding += (2.0 * spread + 8.0 * _EPS) * 2.0 * (1.0 + np.log(n_s))
    proved = float(np.min(highest - prices)) - rounding
    if not proof.claim <= proved:
        raise CertificateError(
            f"the certificate does not prove its claim: thinning gives {proved!r}, it claims {proof.claim!r}"
        )
