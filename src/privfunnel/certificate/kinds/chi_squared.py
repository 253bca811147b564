r"""Proofs about the χ² funnel: what χ²(S;Y) is at least where χ²(X;Y) ≥ ρ.

A channel with weights r on posteriors w has the matrix G = Σ_y r_y w_y w_yᵀ, which is positive semidefinite, has no
negative entry, trace at most 1 and G1 = p_x, and both informations are linear in it:

    χ²(X;Y) = ⟨diag(1/p_x), G⟩ − 1,      χ²(S;Y) = ⟨C, G⟩ − 1,      C = Pᵀ diag(1/p_s) P,   P = p(s|x).

For any μ ≥ 0, z (M,) and N ≥ 0 (M, M), with A = C − μ diag(1/p_x) − (z1ᵀ + 1zᵀ)/2 − N, that gives

    χ²(S;Y) ≥ z·p_x + μ (1 + ρ) − 1 − δ      wherever A + δI ⪰ 0,

because ⟨N, G⟩ ≥ 0 and ⟨A, G⟩ ≥ −δ tr G ≥ −δ. The checker finds δ and proves A + δI ⪰ 0 by a Cholesky factorisation that
succeeds on a matrix smaller by more than the factorisation can be off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.claim import Claim, Quantity, Scope
from privfunnel.certificate.proof import Body, Certificate, usable
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays
from privfunnel.model.problem import Problem

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class ChiSquaredBody(Body):
    """Multipliers of the relaxation.

    Attributes:
        prices: z, shape (M,).
        entries: N, shape (M, M); what is negative in it counts as 0.
    """

    kind: ClassVar[str] = "chi-squared"
    says: ClassVar[frozenset[str]] = frozenset({"disclosure", Quantity.CHI_SQUARED.value})

    prices: Array
    entries: Array

    def __post_init__(self) -> None:
        for array in (self.prices, self.entries):
            array.setflags(write=False)

    @classmethod
    def build(cls, problem: Problem, slope: float, prices: Array, entries: Array) -> Certificate:
        """The certificate of some multipliers; claims no more than they prove."""
        claim = Claim(constant=0.0, disclosure=float(slope), scope=Scope(quantity=Quantity.CHI_SQUARED))
        return Certificate.build(problem, claim, cls(prices=np.array(prices), entries=np.array(entries)))

    @property
    def n_nodes(self) -> int:
        """Entries of the matrix."""
        return int(self.entries.size)

    def arrays(self) -> Arrays:
        """All that is stored, by name."""
        return {"prices": self.prices, "entries": self.entries}

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(prices=archive.floats(f"{place}.prices"), entries=archive.floats(f"{place}.entries"))

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        n = problem.n_x
        if not (usable(self.prices, (n,), LARGEST) and usable(self.entries, (n, n), LARGEST)):
            raise CertificateError(
                f"the certificate's multipliers are not usable numbers for {n} symbols: it is damaged"
            )
        if claim.scope.quantity is not Quantity.CHI_SQUARED:
            raise CertificateError("the certificate is not about χ²: it is damaged")

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Nothing is left to check: the line follows from any multipliers."""

    def line(self, problem: Problem, claim: Claim) -> float:
        """``z·p_x + μ − 1 − δ``, lowered by a rounding allowance."""
        slope, prices, entries = claim.disclosure, self.prices, self.entries
        n_s, n_x = problem.n_s, problem.n_x
        table = problem.p_s_given_x
        cost = (table.T / problem.p_s) @ table
        free = np.maximum(0.5 * (entries + entries.T), 0.0)
        matrix = cost - np.diag(slope / problem.p_x) - 0.5 * (prices[:, None] + prices) - free
        size = cost + np.diag(slope / problem.p_x) + 0.5 * (np.abs(prices)[:, None] + np.abs(prices)) + free
        # Entries of the matrix are off by this much each; in the spectral norm by no more than the largest row sum.
        rounding = (n_s + 16) * _EPS * float(size.sum(axis=1).max())
        shift = _proved_shift(matrix) + rounding
        total = float(np.abs(prices) @ problem.p_x) + slope + 1.0
        return float(prices @ problem.p_x) + slope - 1.0 - shift - (n_x + 16) * _EPS * total


def _proved_shift(matrix: Array) -> float:
    """A δ ≥ 0 for which ``matrix + δI`` is proved positive semidefinite.

    A Cholesky factorisation in floating point that ends without a negative pivot proves that the matrix plus
    ``(n + 2) ε tr`` times the identity is positive semidefinite (Higham, Accuracy and Stability, theorem 10.3).
    """
    n = len(matrix)
    least = float(np.linalg.eigvalsh(matrix)[0])
    shift = max(-least, 0.0)
    margin = 1e-14 * (1.0 + shift)
    for _ in range(60):
        tried = matrix + (shift + margin) * np.eye(n)
        try:
            np.linalg.cholesky(tried)
        except np.linalg.LinAlgError:
            margin *= 2.0
            continue
        return shift + margin + 4.0 * (n + 2) * _EPS * float(np.trace(np.abs(tried)))
    raise CertificateError(
        "the certificate's matrix cannot be shown to be positive semidefinite: it is damaged"
    )
