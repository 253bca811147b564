r"""Certificates of the χ² funnel: what χ²(S;Y) is at least where χ²(X;Y) ≥ ρ.

A channel with weights r on posteriors w has the matrix G = Σ_y r_y w_y w_yᵀ, which is positive semidefinite, has no
negative entry, trace at most 1 and G1 = p_x, and both informations are linear in it:

    χ²(X;Y) = ⟨diag(1/p_x), G⟩ − 1,      χ²(S;Y) = ⟨C, G⟩ − 1,      C = Pᵀ diag(1/p_s) P,   P = p(s|x).

For any μ ≥ 0, z (M,) and N ≥ 0 (M, M), with A = C − μ diag(1/p_x) − (z1ᵀ + 1zᵀ)/2 − N, that gives

    χ²(S;Y) ≥ z·p_x + μ (1 + ρ) − 1 − δ      wherever A + δI ⪰ 0,

because ⟨N, G⟩ ≥ 0 and ⟨A, G⟩ ≥ −δ tr G ≥ −δ. The checker finds δ and proves A + δI ⪰ 0 by a Cholesky factorisation that
succeeds on a matrix smaller by more than the factorisation can be off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privfunnel.certificate.identity import check_owner
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.problem import Problem

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class ChiSquaredCertificate:
    """Proof of the line χ²(S;Y) ≥ ``intercept + slope``·χ²(X;Y) for all channels.

    Attributes:
        fingerprint: The problem it belongs to.
        slope: μ ≥ 0.
        prices: z, shape (M,).
        entries: N, shape (M, M); what is negative in it counts as 0.
        intercept: The line at χ²(X;Y) = 0.
    """

    fingerprint: str
    slope: float
    prices: Array
    entries: Array
    intercept: float

    @classmethod
    def build(cls, problem: Problem, slope: float, prices: Array, entries: Array) -> ChiSquaredCertificate:
        """The certificate of some multipliers; claims what they prove."""
        line = _line(problem, slope, prices, entries)
        return cls(
            fingerprint=problem.fingerprint,
            slope=float(slope),
            prices=prices,
            entries=entries,
            intercept=line,
        )

    def __repr__(self) -> str:
        """One line with the proved line."""
        return f"ChiSquaredCertificate(χ²(S;Y) ≥ {self.intercept:.6g} + {self.slope:.6g} χ²(X;Y))"

    def told(self) -> str:
        """What is proved, for people."""
        return f"χ²(S;Y) ≥ {self.intercept:.9f} + {self.slope:.9f} χ²(X;Y)"

    def lower_bound(self, chi_squared: float) -> float:
        """No channel with χ²(X;Y) ≥ ``chi_squared`` has less χ²(S;Y); never below 0."""
        return max(self.intercept + self.slope * float(chi_squared), 0.0)

    def verify(self, problem: Problem) -> None:
        """Prove the line again for ``problem``, from the stored numbers alone.

        Raises:
            CertificateError: It belongs to another problem, is damaged, or does not prove what it claims.
        """
        check_owner(self.fingerprint, problem)
        n = problem.n_x
        shapes = (self.prices.shape, self.entries.shape)
        if shapes != ((n,), (n, n)) or {self.prices.dtype.char, self.entries.dtype.char} != {"d"}:
            raise CertificateError(
                f"the certificate's multipliers are not those of {n} symbols: it is damaged"
            )
        numbers = (np.array([self.slope, self.intercept]), self.prices, self.entries)
        if not (all(np.all(np.abs(each) <= LARGEST) for each in numbers) and self.slope >= 0.0):
            raise CertificateError("the certificate's slope, line or multipliers are not usable numbers")
        line = _line(problem, self.slope, self.prices, self.entries)
        if not self.intercept <= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at 0, it proves {line!r}"
            )


def _line(problem: Problem, slope: float, prices: Array, entries: Array) -> float:
    """``z·p_x + μ − 1 − δ``, lowered by a rounding allowance."""
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
