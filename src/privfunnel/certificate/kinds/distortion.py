r"""Proofs about the distortion funnel: the least I(S;Y) with E d(X,Y) ≤ D, checked in one pass.

Let d be the costs, ∞ where a change is forbidden, and P = p(s|x). For any multiplier λ ≥ 0 and any cuts q_y with
Σ_k e^{q_yk} ≤ 1, every channel p(y|x) that makes no forbidden change satisfies, in nats,

    I(S;Y) ≥ H(S) + Σ_x p_x a_x − λ E d(X,Y),     a_x = min over y of [P_x·q_y + λ d_xy],

because Σ_k t_k log t_k ≥ q·t for every distribution t. The right-hand side falls with E d: it is a line below the whole
curve. Where p(y) is fixed (an *invariant* channel has p(y) = p(x)) any prices b of the outputs may be used, too:
a_x = min over y of [P_x·q_y + λ d_xy − b_y], and Σ_y p(y) b_y is added. Nothing is searched and nothing is branched on:
the checker takes M·N minima, each lowered by what its rounding may have added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from privfunnel import measures
from privfunnel.certificate.archive import Archive
from privfunnel.certificate.claim import Claim, Scope
from privfunnel.certificate.proof import Body, Certificate, usable
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays
from privfunnel.model.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
#: Roundings of an entry besides one for each private symbol: logarithm and exponentials of the cut, products, sums.
_ENTRY = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class DistortionBody(Body):
    """Cuts that prove a line which falls with E d.

    Attributes:
        cuts: q, one row an output, shape (N, K); normalised here, so that any are safe.
        outputs: b, shape (N,), for channels with p(y) = p(x), N = M; None for all channels.
    """

    kind: ClassVar[str] = "distortion"
    says: ClassVar[frozenset[str]] = frozenset({"distortion", "costs", "invariant"})

    cuts: Array
    outputs: Array | None = None

    def __post_init__(self) -> None:
        for array in (self.cuts, self.outputs):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def build(
        cls, problem: Problem, costs: Array, slope: float, cuts: Array, outputs: Array | None = None
    ) -> Certificate:
        """The certificate of some multipliers; claims nothing that verifying it would not compute from them."""
        scope = Scope(costs=np.array(costs), invariant=outputs is not None)
        body = cls(cuts=np.array(cuts), outputs=None if outputs is None else np.array(outputs))
        claim = Claim(constant=0.0, distortion=float(slope), scope=scope)
        body.check_form(problem, claim)
        return Certificate.build(problem, claim, body)

    @property
    def n_nodes(self) -> int:
        """Cuts, one an output."""
        return len(self.cuts)

    def arrays(self) -> Arrays:
        """All that is stored, by name."""
        return {"cuts": self.cuts} | ({} if self.outputs is None else {"outputs": self.outputs})

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(
            cuts=archive.floats(f"{place}.cuts"),
            outputs=archive.floats(f"{place}.outputs") if f"{place}.outputs" in archive else None,
        )

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Nothing is left to check: the line follows from any multipliers."""

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        costs = claim.scope.costs
        if costs is None:
            raise CertificateError("the certificate does not say what changes cost: it is damaged")
        shape = costs.shape
        sound = (
            len(shape) == 2
            and shape[0] == problem.n_x
            and costs.dtype == np.float64
            and bool(np.all(costs >= 0.0))
            and bool(np.all(np.isinf(costs) | (costs <= LARGEST)))
        )
        if not sound or not np.isfinite(costs).any(axis=1).all():
            raise CertificateError(
                f"the certificate's costs do not say for {problem.n_x} symbols what may become of each"
            )
        if claim.scope.invariant != (self.outputs is not None):
            raise CertificateError("the certificate does not say for which releases it holds: it is damaged")
        if not usable(self.cuts, (shape[1], problem.n_s), LARGEST):
            raise CertificateError(
                f"the certificate's cuts are not {shape[1]} × {problem.n_s} usable numbers"
            )
        if self.outputs is not None and not (
            shape[1] == problem.n_x and usable(self.outputs, (problem.n_x,), LARGEST)
        ):
            raise CertificateError(
                f"the certificate's prices of outputs are not {problem.n_x} usable numbers"
            )

    def line(self, problem: Problem, claim: Claim) -> float:
        """``H(S) + Σ p_x a_x + Σ p_y b_y``, lowered by a rounding allowance: what the line is at D = 0, in nats."""
        costs = claim.scope.costs
        assert costs is not None
        peak = self.cuts.max(axis=1, keepdims=True)
        total = peak + np.log(np.sum(np.exp(self.cuts - peak), axis=1, keepdims=True))
        total = total + _EPS * (problem.n_s + _ENTRY) * (1.0 + np.abs(total))
        q = self.cuts - total  # (N, K), Σ e^q ≤ 1 whatever the rounding
        p, p_x = problem.p_s_given_x, problem.p_x
        allowed = np.isfinite(costs)
        paid = claim.distortion * np.where(allowed, costs, 0.0)
        b = np.zeros(costs.shape[1]) if self.outputs is None else self.outputs
        entry = (q @ p).T + paid - b
        size = (np.abs(q) @ p).T + paid + np.abs(b) + 1.0
        entry = entry - _EPS * (problem.n_s + _ENTRY) * size
        a = np.where(allowed, entry, np.inf).min(axis=1)
        h_s = float(measures.entropy(problem.p_s))
        returned = float(b @ p_x) if self.outputs is not None else 0.0
        most = float(np.abs(a) @ p_x) + h_s + 1.0
        most += float(np.abs(b) @ p_x) if self.outputs is not None else 0.0
        # Roundings of the line besides one for each symbol: entropies, products, and the sum of its parts.
        terms = sum(costs.shape) + problem.n_s + 16
        return h_s + float(a @ p_x) + returned - terms * _EPS * most
