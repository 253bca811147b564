r"""Certificates of the guessing funnel: what no release exceeds, from any multipliers, by one pass of sums.

Let P_c(X|Y) be how often the best guess of X from Y is right. For any λ ≥ 0 and any weights v_y ≥ 0 over the private
symbols, one vector for each public symbol y that may be guessed, scaled so that Σ_s v_sy = λ, every channel satisfies

    P_c(X|Y) ≤ λ P_c(S|Y) + Σ_x p(x) max_y (1[x = y] − Σ_s v_sy p(s|x)),

because Σ_y max_s p(s,y) is at least (1/λ) Σ_ys v_sy p(s,y), and outputs may be named after the guess they lead to. The
dual variables of the linear program make it an equality; whatever is stored, the line that the sums give holds.
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
class GuessingCertificate:
    """Proof of the line P_c(X|Y) ≤ ``intercept + slope``·P_c(S|Y) for all channels; probabilities.

    Attributes:
        fingerprint: The problem it belongs to.
        slope: λ ≥ 0.
        weights: v, shape (K, M).
        intercept: The line at 0.
    """

    fingerprint: str
    slope: float
    weights: Array
    intercept: float

    @classmethod
    def build(cls, problem: Problem, slope: float, weights: Array) -> GuessingCertificate:
        """The certificate of some multipliers; claims what they prove."""
        line = _line(problem, slope, weights)
        return cls(fingerprint=problem.fingerprint, slope=float(slope), weights=weights, intercept=line)

    def __repr__(self) -> str:
        """One line with the proved line."""
        return f"GuessingCertificate(P(X guessed) ≤ {self.intercept:.6g} + {self.slope:.6g} P(S guessed))"

    def told(self) -> str:
        """What is proved, for people."""
        return f"P(X guessed) ≤ {self.intercept:.9f} + {self.slope:.9f} P(S guessed)"

    def upper_bound(self, accuracy: float) -> float:
        """No release from which S is guessed right at most this often lets X be guessed right more often."""
        return self.intercept + self.slope * float(accuracy)

    def verify(self, problem: Problem) -> None:
        """Prove the line again for ``problem``, from the stored numbers alone.

        Raises:
            CertificateError: It belongs to another problem, is damaged, or does not prove what it claims.
        """
        check_owner(self.fingerprint, problem)
        if self.weights.shape != (problem.n_s, problem.n_x) or self.weights.dtype != np.float64:
            raise CertificateError(
                f"the certificate's weights are not {problem.n_s} × {problem.n_x}: it is damaged"
            )
        numbers = np.array([self.slope, self.intercept])
        usable = np.all(np.abs(numbers) <= LARGEST) and np.all(np.abs(self.weights) <= LARGEST)
        if not (usable and self.slope >= 0.0):
            raise CertificateError("the certificate's slope, line or weights are not usable numbers")
        line = _line(problem, self.slope, self.weights)
        if not self.intercept >= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at 0, it proves {line!r}"
            )


def _line(problem: Problem, slope: float, weights: Array) -> float:
    """``Σ_x p(x) max_y (1[x = y] − Σ_s v_sy p(s|x))``, raised by a rounding allowance.

    Weights are made what the proof needs: not negative, with columns that sum to λ; a column of zeros becomes λ p(s).
    """
    v = np.maximum(weights, 0.0)
    total = v.sum(axis=0)
    # Shares first: λ over a sum near the smallest number there is would be infinite, and the line below everything.
    v = slope * np.where(total > 0.0, v / np.where(total > 0.0, total, 1.0), problem.p_s[:, None])
    told = problem.p_s_given_x.T @ v  # (x, y)
    scores = np.where(np.eye(problem.n_x, dtype=bool), 1.0 - told, -told).max(axis=1)
    allowance = (2 * problem.n_s + problem.n_x + 32) * _EPS * (1.0 + 2.0 * slope)
    return float(problem.p_x @ scores) + allowance
