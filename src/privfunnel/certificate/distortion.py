r"""Certificates of the distortion funnel: the least I(S;Y) with E d(X,Y) ≤ D, checked in one pass.

Let d be the costs, ∞ where a change is forbidden, and P = p(s|x). For any multiplier λ ≥ 0 and any cuts q_y with
Σ_k e^{q_yk} ≤ 1, every channel p(y|x) that makes no forbidden change satisfies, in nats,

    I(S;Y) ≥ H(S) + Σ_x p_x a_x − λ E d(X,Y),     a_x = min over y of [P_x·q_y + λ d_xy],

because Σ_k t_k log t_k ≥ q·t for every distribution t. The right-hand side falls with E d: it is a line below the whole
curve. Where p(y) is fixed (an *invariant* channel has p(y) = p(x)) any prices b of the outputs may be used, too:
a_x = min over y of [P_x·q_y + λ d_xy − b_y], and Σ_y p(y) b_y is added. Nothing is searched and nothing is branched on:
the checker takes M·N minima, each lowered by what its rounding may have added.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import numpy as np

from privfunnel import measures
from privfunnel.certificate.identity import check_owner, digest_of
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
#: Roundings of an entry besides one for each private symbol: logarithm and exponentials of the cut, products, sums.
_ENTRY = 16
#: Roundings of the line besides one for each symbol: entropies, products, and the sum of its parts.
_LINE = 16
#: Nats by which a new certificate claims less than it proves: another machine's logarithms may round otherwise.
_RESERVE = 1e-13


@dataclass(frozen=True, kw_only=True, eq=False)
class DistortionCertificate:
    """Proof of the line ``intercept − slope·D`` below the least leakage at distortion D, in nats.

    Attributes:
        fingerprint: The problem it belongs to.
        costs: d, shape (M, N), ≥ 0; ∞ for a forbidden change.
        slope: λ ≥ 0, nats for a unit of distortion.
        cuts: q, one row an output, shape (N, K); normalised here, so that any are safe.
        outputs: b, shape (N,), for channels with p(y) = p(x), N = M; None for all channels.
        intercept: The line at D = 0.
    """

    fingerprint: str
    costs: Array
    slope: float
    cuts: Array
    outputs: Array | None = None
    intercept: float = 0.0
    _verified: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        for array in (self.costs, self.cuts, self.outputs):
            if array is not None:
                array.setflags(write=False)

    def __repr__(self) -> str:
        """One line with the proved line."""
        return f"DistortionCertificate({self.told('nats')})"

    @classmethod
    def build(
        cls, problem: Problem, costs: Array, slope: float, cuts: Array, outputs: Array | None = None
    ) -> DistortionCertificate:
        """The certificate of some multipliers; claims nothing that :meth:`verify` would not compute from them."""
        made = cls(
            fingerprint=problem.fingerprint, costs=np.array(costs), slope=float(slope), cuts=np.array(cuts),
            outputs=None if outputs is None else np.array(outputs),
        )  # fmt: skip
        made._check_form(problem)
        return replace(made, intercept=made._line(problem) - _RESERVE)

    @property
    def invariant(self) -> bool:
        """Whether it is about channels with p(y) = p(x) alone."""
        return self.outputs is not None

    @property
    def n_nodes(self) -> int:
        """Pairs of a symbol and an output that are looked at."""
        return int(np.isfinite(self.costs).sum())

    def told(self, unit: str) -> str:
        """What is proved, for people, in ``unit``, one of nats and bits."""
        per = measures.nats_per(unit)
        kept = ", p(y) = p(x)" if self.invariant else ""
        return f"leakage ≥ {self.intercept / per:.9f} − {self.slope / per:.9f} D {unit}{kept}"

    def lower_bound(self, distortion: float) -> float:
        """The proved lower bound on the leakage where E d(X,Y) ≤ ``distortion``, in nats."""
        return self.intercept - self.slope * float(distortion)

    def verify(self, problem: Problem) -> None:
        """Prove the claim again for ``problem``, from the stored numbers alone.

        Raises:
            CertificateError: It belongs to another problem, is damaged, or does not prove what it claims.
        """
        check_owner(self.fingerprint, problem)
        digest = self._digest()
        if digest in self._verified:
            return
        self._check_form(problem)
        line = self._line(problem)
        if not self.intercept <= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at D = 0, it proves {line!r}"
            )
        self._verified.add(digest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as one ``.npz`` file."""
        from privfunnel.certificate.bundle import save_bundle

        save_bundle(path, [self])

    def _check_form(self, problem: Problem) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        shape = self.costs.shape
        sound = (
            len(shape) == 2
            and shape[0] == problem.n_x
            and self.costs.dtype == np.float64
            and bool(np.all(self.costs >= 0.0))
            and bool(np.all(np.isinf(self.costs) | (self.costs <= LARGEST)))
        )
        if not sound or not np.isfinite(self.costs).any(axis=1).all():
            raise CertificateError(
                f"the certificate's costs do not say for {problem.n_x} symbols what may become of each"
            )
        if not _usable(self.cuts, (shape[1], problem.n_s)):
            raise CertificateError(
                f"the certificate's cuts are not {shape[1]} × {problem.n_s} usable numbers"
            )
        if self.outputs is not None and not (
            shape[1] == problem.n_x and _usable(self.outputs, (problem.n_x,))
        ):
            raise CertificateError(
                f"the certificate's prices of outputs are not {problem.n_x} usable numbers"
            )
        numbers = np.array([self.slope, self.intercept])
        if not (np.all(np.abs(numbers) <= LARGEST) and self.slope >= 0.0):
            raise CertificateError("the certificate's slope or line is not a usable number")

    def _line(self, problem: Problem) -> float:
        """``H(S) + Σ p_x a_x + Σ p_y b_y``, lowered by a rounding allowance: what the line is at D = 0, in nats."""
        peak = self.cuts.max(axis=1, keepdims=True)
        total = peak + np.log(np.sum(np.exp(self.cuts - peak), axis=1, keepdims=True))
        total = total + _EPS * (problem.n_s + _ENTRY) * (1.0 + np.abs(total))
        q = self.cuts - total  # (N, K), Σ e^q ≤ 1 whatever the rounding
        p, p_x = problem.p_s_given_x, problem.p_x
        allowed = np.isfinite(self.costs)
        paid = self.slope * np.where(allowed, self.costs, 0.0)
        b = np.zeros(self.costs.shape[1]) if self.outputs is None else self.outputs
        entry = (q @ p).T + paid - b
        size = (np.abs(q) @ p).T + paid + np.abs(b) + 1.0
        entry = entry - _EPS * (problem.n_s + _ENTRY) * size
        a = np.where(allowed, entry, np.inf).min(axis=1)
        h_s = float(measures.entropy(problem.p_s))
        returned = float(b @ p_x) if self.outputs is not None else 0.0
        most = float(np.abs(a) @ p_x) + h_s + 1.0
        most += float(np.abs(b) @ p_x) if self.outputs is not None else 0.0
        terms = sum(self.costs.shape) + problem.n_s + _LINE
        return h_s + float(a @ p_x) + returned - terms * _EPS * most

    def _digest(self) -> str:
        """SHA-256 of everything the proof consists of: what was verified once need not be verified again."""
        head = (self.fingerprint, self.slope, self.intercept, self.invariant)
        return digest_of(head, [self.costs, self.cuts, *([] if self.outputs is None else [self.outputs])])


def _usable(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether an array has a shape and holds numbers that arithmetic does not overflow on."""
    return bool(array.shape == shape and array.dtype == np.float64 and np.all(np.abs(array) <= LARGEST))
