r"""Certificates of funnels with attackers who know something, published columns and guarantees.

Let W be the posteriors that are allowed, inside one stratum of the published columns. For any weights θ ≥ 0 of the
attackers, prices a and slope μ ≥ 0, every channel with posteriors of W satisfies, in nats,

    Σ_a θ_a I(S;Y|A_a) ≥ Σ_a θ_a H(S|A_a) + a·p_x − μ (H(X) − I(X;Y)) + min_{w ∈ W} F(w),
    F(w) = −Σ_a θ_a H(S|A_a)_w + μ H(w) − a·w,

because Σ r_y w_y = p_x, and the right-hand side is a line in I(X;Y). Where Σθ = 1 it bounds the largest leakage of the
attackers; where nothing leaks, or θ = 0, it bounds the disclosure. min F is proved by one tree a stratum. Other
measures have other convex functions in place of −H(S|A)_w, and other constants: see :mod:`privfunnel.averages`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.attackers import Attacker
from privfunnel.certificate.checker import check
from privfunnel.certificate.identity import check_owner, digest_of
from privfunnel.certificate.stacking import stack
from privfunnel.certificate.tree import LARGEST, Case, Proof
from privfunnel.errors import CertificateError, PrivFunnelError
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.threats import Attribute, Threat

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class GuardedCertificate:
    """Proof of the line Σ θ_a I(S;Y|A_a) ≥ ``intercept + slope``·I(X;Y) for all channels that a threat allows, nats.

    I(S;Y|A_a) stands for the averages of the threat's measure, of which maximal leakage is the logarithm.

    Attributes:
        fingerprint: The problem it belongs to.
        threat: Attackers, published columns and guarantees.
        zero: Whether it is about channels that tell no attacker anything, or nothing about attributes with budget 0.
        weights: θ ≥ 0, one an average of the threat, shape (averages,).
        prices: a, shape (M,).
        slope: μ ≥ 0.
        intercept: The line at disclosure 0.
        proofs: One tree a stratum; their multipliers are those of :mod:`.stacking`.
    """

    fingerprint: str
    threat: Threat
    zero: bool
    weights: Array
    prices: Array
    slope: float
    intercept: float
    proofs: tuple[Proof, ...]
    _verified: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)
        self.weights.setflags(write=False)

    def __repr__(self) -> str:
        """One line with the proved line and the size of the proof."""
        return f"GuardedCertificate({self.words}, {self.n_nodes} boxes)"

    @property
    def words(self) -> str:
        """What is proved, for people, in nats."""
        return self.told("nats")

    @property
    def bounds_disclosure(self) -> bool:
        """Whether it bounds the disclosure from above, and says nothing about leakage."""
        return self.zero or not self.weights.any() or bool(self.threat.attributes)

    def told(self, unit: str) -> str:
        """What is proved, for people, in ``unit``, one of nats and bits."""
        per, who = measures.nats_per(unit), self.threat.conditions
        if self.bounds_disclosure:
            nothing = " that tells them nothing" if self.zero and not self.threat.attributes else ""
            return f"disclosure ≤ {self.most_disclosure(0.0) / per:.6g} {unit}{nothing}, {who}"
        total, convex = float(self.weights.sum()), self.threat.convex
        if convex.in_nats and not convex.worst_value:
            return f"leakage ≥ {self.intercept / total / per:.6g} + {self.slope / total:.6g} R {unit}, {who}"
        line = f"{self.intercept / total:.6g} + {self.slope / total * per:.6g} R"
        name = "exp(leakage in nats)" if convex.worst_value else "leakage"
        return f"{name} ≥ {line}, R in {unit}, {who}"

    @classmethod
    def build(
        cls,
        problem: Problem,
        threat: Threat,
        prices: Array,
        duals: tuple[Array, float],
        proofs: Sequence[Proof],
        *,
        zero: bool,
    ) -> GuardedCertificate:
        """The certificate of some trees for weights and slope ``duals``; claims no more than they prove."""
        weights, slope = duals
        line = _line(problem, threat, weights, prices, slope, min(proof.claim for proof in proofs))
        return cls(
            fingerprint=problem.fingerprint, threat=threat, zero=zero, weights=np.array(weights),
            prices=np.array(prices), slope=float(slope), intercept=line - 1e-13, proofs=tuple(proofs),
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at."""
        return sum(proof.n_nodes for proof in self.proofs)

    def lower_bound(self, disclosure: float) -> float:
        """What the largest leakage of the attackers is at least at this disclosure, in nats; −∞ for no bound.

        Of a measure that is no information it is in the measure's own numbers.
        """
        total = float(self.weights.sum())
        if self.bounds_disclosure:
            return -math.inf
        average = (self.intercept + self.slope * float(disclosure)) / total
        if not self.threat.convex.worst_value:
            return average
        return self.threat.convex.leakage(average * (1.0 - 4.0 * _EPS)) - 4.0 * _EPS

    def most_disclosure(self, budget: float) -> float:
        """What the disclosure is at most, in nats, where no attacker learns more than ``budget``; ∞ without a slope.

        Where attributes have budgets of their own, these count.
        """
        if self.slope <= 0.0:
            return math.inf
        limits = self.threat.limits(0.0 if self.zero else budget)
        spent = float(self.weights @ limits)
        return (spent - self.intercept) / self.slope

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
        try:
            strata = self.threat.strata(problem)
            stacks = [stack(each, self.threat, self.weights.tolist(), zero=self.zero) for each in strata]
        except PrivFunnelError as error:
            raise CertificateError(
                f"the certificate's guarantees do not fit the problem ({error})"
            ) from error
        if len(strata) != len(self.proofs):
            raise CertificateError(
                f"the certificate has {len(self.proofs)} trees for {len(strata)} strata: it is damaged"
            )
        for stratum, images, proof in zip(strata, stacks, self.proofs, strict=True):
            case = Case(prices=self.prices[stratum.x], slope=self.slope, proof=proof)
            check(images.columns, [case], images=images)
        least = min(proof.claim for proof in self.proofs)
        line = _line(problem, self.threat, self.weights, self.prices, self.slope, least)
        if not self.intercept <= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at disclosure 0, it proves {line!r}"
            )
        self._verified.add(digest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as one ``.npz`` file."""
        from privfunnel.certificate.bundle import save_bundle

        save_bundle(path, [self])

    def _check_form(self, problem: Problem) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        n_x, everyone = problem.n_x, self.threat.attackers
        arrays = ((self.prices, (n_x,)), (self.weights, (len(self.threat.averages),)))
        for array, shape in arrays:
            if array.shape != shape or array.dtype != np.float64 or not np.all(np.abs(array) <= LARGEST):
                raise CertificateError("the certificate's prices or weights are not usable numbers")
        numbers = np.array([self.slope, self.intercept])
        if not (np.all(np.abs(numbers) <= LARGEST) and self.slope >= 0.0 and np.all(self.weights >= 0.0)):
            raise CertificateError("the certificate's slope, line or weights are not usable numbers")
        if self.zero and not self.threat.convex.faithful:
            raise CertificateError(
                f"the certificate takes no leakage by {self.threat.measure} for independence: it is damaged"
            )
        for one in self.threat.attributes:
            _check_attribute(one, problem)
        shown = () if self.threat.published is None else (self.threat.published,)
        for attacker in (*everyone, *shown):
            _check_attacker(attacker, problem)
        for attacker in everyone:
            for each in shown:
                # Everyone knows what is published: a value of A belongs to one stratum.
                pairs = np.unique(np.stack([attacker.values, each.values]), axis=1)
                if pairs.shape[1] != attacker.n_values:
                    raise CertificateError(
                        f"the certificate's attacker {attacker.name!r} does not know what is published: it is damaged"
                    )

    def _digest(self) -> str:
        """SHA-256 of everything the proof consists of: what was verified once need not be verified again."""
        claims = [proof.claim for proof in self.proofs]
        head = (self.fingerprint, self.zero, self.slope, self.intercept, self.threat.to_dict(), claims)
        arrays: list[Any] = [self.prices, self.weights]
        for proof in self.proofs:
            arrays += [proof.q, proof.nu, proof.variable, proof.split, proof.first]
        return digest_of(head, arrays)


def _check_attacker(attacker: Attacker, problem: Problem) -> None:
    """Raise CertificateError unless an attacker knows a function of x, and that of the columns it is named after."""
    values = attacker.values
    if (
        values.shape != (problem.n_x,)
        or values.dtype != np.intp
        or not 0 <= values.min() <= values.max() < values.size
    ):
        raise CertificateError(f"the certificate's attacker {attacker.name!r} does not fit the problem")
    if np.unique(values).size != attacker.n_values:
        raise CertificateError(f"the certificate's attacker {attacker.name!r} has values that do not occur")
    try:
        named = problem.attackers([attacker.name.split(", ")] if attacker.name != "nothing" else None)[-1]
    except PrivFunnelError:
        return  # knowledge that is no column of this problem
    pairs = np.unique(np.stack([values, named.values]), axis=1).shape[1]
    if not pairs == attacker.n_values == named.n_values:
        raise CertificateError(
            f"the certificate's attacker {attacker.name!r} knows something else than these columns: it is damaged"
        )


def _check_attribute(attribute: Attribute, problem: Problem) -> None:
    """Raise CertificateError unless an attribute is a function of s, and the private column it is named after."""
    values, name = attribute.values, attribute.name
    if (
        values.shape != (problem.n_s,)
        or values.dtype != np.intp
        or not 0 <= values.min() <= values.max() < values.size
    ):
        raise CertificateError(f"the certificate's attribute {name!r} does not fit the problem")
    if not 0.0 <= attribute.budget <= LARGEST:
        raise CertificateError(f"the certificate's budget for {name!r} is not a usable number")
    named = problem.private_columns.get(name)
    pairs = set(values.tolist()) if named is None else set(zip(values.tolist(), named, strict=True))
    if not len(pairs) == len(set(values.tolist())) == len(set(values.tolist() if named is None else named)):
        raise CertificateError(
            f"the certificate's attribute {name!r} is another than this column: it is damaged"
        )


def _line(
    problem: Problem, threat: Threat, weights: Array, prices: Array, slope: float, value: float
) -> float:
    """The line at disclosure 0, lowered by a rounding allowance."""
    h_a, h_x = float(weights @ threat.constants(problem)), problem.disclosure_ceiling
    size = abs(h_a) + slope * h_x + float(np.abs(prices) @ problem.p_x) + abs(value) + 1.0
    size += float(weights.sum()) * (1.0 + problem.h_s + problem.disclosure_ceiling)
    terms = problem.n_x * problem.n_s + len(threat.averages) + 16
    return h_a + float(prices @ problem.p_x) - slope * h_x + value - terms * _EPS * size
