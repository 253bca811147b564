r"""Proofs about the guessing funnel: what no release exceeds, from any multipliers, by one pass of sums.

Let P_c(X|Y) be how often the best guess of X from Y is right. For any λ ≥ 0 and any weights v_y ≥ 0 over the private
symbols, one vector for each public symbol y that may be guessed, scaled so that Σ_s v_sy = λ, every channel satisfies

    P_c(X|Y) ≤ λ P_c(S|Y) + Σ_x p(x) max_y (1[x = y] − Σ_s v_sy p(s|x)),

because Σ_y max_s p(s,y) is at least (1/λ) Σ_ys v_sy p(s,y), and outputs may be named after the guess they lead to. The
dual variables of the linear program make it an equality; whatever is stored, the line that the sums give holds.
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
class GuessingBody(Body):
    """Weights of the private symbols for each guess; probabilities. The claim's weight is λ, its slope 1.

    Attributes:
        weights: v, shape (K, M).
    """

    kind: ClassVar[str] = "guessing"
    says: ClassVar[frozenset[str]] = frozenset({"disclosure", "weights", Quantity.GUESSES.value})

    weights: Array

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    @classmethod
    def build(cls, problem: Problem, slope: float, weights: Array) -> Certificate:
        """The certificate of some multipliers; claims no more than they prove."""
        return Certificate.build(problem, cls.claim(slope), cls(weights=np.array(weights)))

    @staticmethod
    def claim(slope: float, intercept: float = 0.0) -> Claim:
        """λ P_c(S|Y) ≥ −intercept + P_c(X|Y)."""
        scope = Scope(quantity=Quantity.GUESSES)
        return Claim(constant=-intercept, disclosure=1.0, weights=np.array([float(slope)]), scope=scope)

    @property
    def n_nodes(self) -> int:
        """Pairs of a guess and a private symbol."""
        return int(self.weights.size)

    def arrays(self) -> Arrays:
        """All that is stored, by name."""
        return {"weights": self.weights}

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(weights=archive.floats(f"{place}.weights"))

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        if not usable(self.weights, (problem.n_s, problem.n_x), LARGEST):
            raise CertificateError(
                f"the certificate's weights are not {problem.n_s} × {problem.n_x} usable numbers: it is damaged"
            )
        guesses = claim.scope.quantity is Quantity.GUESSES
        if not (guesses and claim.weights.shape == (1,) and claim.disclosure == 1.0):
            raise CertificateError("the certificate is not about guesses: it is damaged")

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Nothing is left to check: the line follows from any multipliers."""

    def line(self, problem: Problem, claim: Claim) -> float:
        """``−Σ_x p(x) max_y (1[x = y] − Σ_s v_sy p(s|x))``, lowered by a rounding allowance.

        Weights are made what the proof needs: not negative, with columns that sum to λ; a column of zeros becomes
        λ p(s).
        """
        slope = float(claim.weights[0])
        v = np.maximum(self.weights, 0.0)
        total = v.sum(axis=0)
        # Shares first: λ over a sum near the smallest number there is would be infinite, and the line below everything.
        v = slope * np.where(total > 0.0, v / np.where(total > 0.0, total, 1.0), problem.p_s[:, None])
        told = problem.p_s_given_x.T @ v  # (x, y)
        scores = np.where(np.eye(problem.n_x, dtype=bool), 1.0 - told, -told).max(axis=1)
        allowance = (2 * problem.n_s + problem.n_x + 32) * _EPS * (1.0 + 2.0 * slope)
        return -(float(problem.p_x @ scores) + allowance)
