r"""Proofs about funnels with attackers who know something, published columns and guarantees.

Let W be the posteriors that are allowed, inside one stratum of the published columns. For any weights θ ≥ 0 of the
attackers, prices a and slope μ ≥ 0, every channel with posteriors of W satisfies, in nats,

    Σ_a θ_a I(S;Y|A_a) ≥ Σ_a θ_a H(S|A_a) + a·p_x − μ (H(X) − I(X;Y)) + min_{w ∈ W} F(w),
    F(w) = −Σ_a θ_a H(S|A_a)_w + μ H(w) − a·w,

because Σ r_y w_y = p_x, and the right-hand side is a line in I(X;Y). Where Σθ = 1 it bounds the largest leakage of the
attackers; where nothing leaks, or θ = 0, it bounds the disclosure. min F is proved by one tree a stratum, or by pairs
of symbols where S is binary and all that is known is published: the strata are then plain funnels. Other measures have
other convex functions in place of −H(S|A)_w, and other constants: see :mod:`privfunnel.measures.leakages`.

For a task U with Q = p(u|x) there is one more slope λ ≥ 0: F has λ G(Qw) more, G(v) = −Σ_d ω_d v_d log v_d, the
right-hand side −λ (Σ ω H(U) − Σ ω I(U;Y)), and it is a line in both I(X;Y) and I(U;Y). μ is 0 where no disclosure is
asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.attacker_images import stack
from privfunnel.certificate.checker import check
from privfunnel.certificate.claim import Claim, Scope
from privfunnel.certificate.pairs import PairsProof, check_pairs
from privfunnel.certificate.parts import Part, packed, unpacked
from privfunnel.certificate.private_pairs import check_private_pairs
from privfunnel.certificate.proof import Body, Certificate, usable
from privfunnel.certificate.tree import LARGEST, Case, Proof
from privfunnel.errors import CertificateError, InvalidInputError, PrivFunnelError
from privfunnel.measures import Array, Arrays
from privfunnel.model.attackers import Attacker
from privfunnel.model.equal_symbols import Lumping, singletons
from privfunnel.model.problem import Problem
from privfunnel.model.seen_alike import checked_lumping, threat_to
from privfunnel.model.threat import Attribute, Stratum, Threat

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class GuardedBody(Body):
    """Prices, and what proves of each stratum that F is at least its claim with them; nats.

    Attributes:
        prices: a, shape (M,).
        proofs: One tree a stratum, whose multipliers are those of :mod:`~privfunnel.certificate.attacker_images`; or
            one proof by pairs a stratum.
        cells: None, or for each public symbol its class, shape (M,): see :mod:`privfunnel.model.seen_alike`.
            Prices are then equal within a class, and the trees' symbols are classes: H(w) is at least the entropy of
            the classes.
    """

    kind: ClassVar[str] = "guarded"
    says: ClassVar[frozenset[str]] = frozenset(
        {"disclosure", "utility", "weights", "guards", "zero", "tasks"}
    )

    prices: Array
    proofs: tuple[Part, ...]
    cells: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    @classmethod
    def build(
        cls,
        problem: Problem,
        guards: Threat,
        prices: Array,
        duals: tuple[Array, float],
        proofs: Sequence[Part],
        *,
        zero: bool,
        task_slope: float | None = None,
    ) -> Certificate:
        """The certificate of some trees for weights and slope ``duals``; claims no more than they prove.

        ``task_slope`` is λ of a release for the problem's tasks, None for one that is for no task.
        """
        weights, slope = duals
        tasks = None if task_slope is None else problem.required_tasks().fingerprint
        claim = Claim(
            constant=0.0, disclosure=float(slope), utility=float(task_slope or 0.0), weights=np.array(weights),
            scope=Scope(guards=guards, zero=zero, tasks=tasks),
        )  # fmt: skip
        return Certificate.build(problem, claim, cls(prices=np.array(prices), proofs=tuple(proofs)))

    def on_members(self, cells: NDArray[np.int32]) -> Self:
        """The same for the members of classes."""
        own = cells if self.cells is None else self.cells[cells]
        return replace(self, prices=self.prices[cells], cells=own)

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at."""
        return sum(proof.n_nodes for proof in self.proofs)

    def arrays(self) -> Arrays:
        """All that is stored, by name."""
        cells = {} if self.cells is None else {"cells": self.cells}
        return {"prices": self.prices, **cells, **packed(self.proofs)}

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(
            prices=archive.floats(f"{place}.prices"),
            proofs=unpacked(archive, place),
            cells=archive.integers(f"{place}.cells") if f"{place}.cells" in archive else None,
        )

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Raise CertificateError unless each proves its strata's claims."""
        for claim, body in proofs:
            body._check(problem, claim)

    def _check(self, problem: Problem, claim: Claim) -> None:
        scope = claim.scope
        tasks = None if scope.tasks is None else problem.tasks
        try:
            lumping = self._classes(problem, claim)
            guards, weights = threat_to(lumping, _guards(claim)), claim.weights.tolist()
            strata = guards.strata(lumping.lumped)
            stacks = [
                stack(each, guards, weights, zero=scope.zero, tasks=tasks)
                if isinstance(proof, Proof)
                else None
                for each, proof in zip(strata, self.proofs, strict=False)
            ]
        except PrivFunnelError as error:
            raise CertificateError(
                f"the certificate's guarantees or classes do not fit the problem ({error})"
            ) from error
        if len(strata) != len(self.proofs):
            raise CertificateError(
                f"the certificate has {len(self.proofs)} trees for {len(strata)} strata: it is damaged"
            )
        own = self.prices[np.unique(lumping.classes, return_index=True)[1]]
        for stratum, images, proof in zip(strata, stacks, self.proofs, strict=True):
            prices, slope = own[stratum.x], claim.disclosure
            if images is None or not isinstance(proof, Proof):
                _check_by_pairs(claim, stratum, guards, prices, proof)
                continue
            case = Case(prices=prices, slope=slope, proof=proof)
            if tasks is not None:
                none, steep = np.zeros(len(tasks.rows)), claim.utility * tasks.weights
                slopes = np.concatenate([np.full(prices.size, slope), steep])
                case = Case(prices=np.concatenate([prices, none]), slope=slopes, proof=proof)
            check(images.columns, [case], images=images)

    def _classes(self, problem: Problem, claim: Claim) -> Lumping:
        """The classes that the trees are about, checked from the whole table; every symbol its own without cells."""
        if self.cells is None:
            return singletons(problem)
        if claim.scope.tasks is not None:
            raise InvalidInputError("it has classes besides a task, which may differ within them")
        lumping = checked_lumping(problem, _guards(claim), self.cells)
        first = np.unique(lumping.classes, return_index=True)[1]
        if not np.array_equal(self.prices[first][lumping.classes], self.prices):
            raise InvalidInputError("its prices differ within a class")
        return lumping

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        guards, scope = _guards(claim), claim.scope
        for array, size in ((self.prices, problem.n_x), (claim.weights, scope.n_averages)):
            if not usable(array, (size,), LARGEST):
                raise CertificateError("the certificate's prices or weights are not usable numbers")
        if not self.proofs:
            raise CertificateError("the certificate has 0 trees: it is damaged")
        if scope.tasks is None and claim.utility > 0.0:
            raise CertificateError("the certificate is about a utility without a task: it is damaged")
        if scope.zero and not guards.measure.faithful:
            raise CertificateError(
                f"the certificate takes no leakage by {guards.measure} for independence: it is damaged"
            )
        for one in guards.attributes:
            _check_attribute(one, problem)
        shown = () if guards.published is None else (guards.published,)
        for attacker in (*guards.attackers, *shown):
            _check_attacker(attacker, problem)
        for attacker in guards.attackers:
            for each in shown:
                # Everyone knows what is published: a value of A belongs to one stratum.
                pairs = np.unique(np.stack([attacker.values, each.values]), axis=1)
                if pairs.shape[1] != attacker.n_values:
                    raise CertificateError(
                        f"the certificate's attacker {attacker.name!r} does not know what is published: it is damaged"
                    )

    def line(self, problem: Problem, claim: Claim) -> float:
        """The line where nothing is disclosed, lowered by a rounding allowance."""
        value, paid = min(proof.claim for proof in self.proofs), float(self.prices @ problem.p_x)
        constants = _guards(claim).constants(problem)
        h_a, h_x = float(claim.weights @ constants), problem.disclosure_ceiling
        slope = claim.disclosure
        size = abs(h_a) + slope * h_x + float(np.abs(self.prices) @ problem.p_x) + abs(value) + 1.0
        size += float(claim.weights.sum()) * (1.0 + problem.h_s + h_x)
        terms, spent = problem.n_x * problem.n_s + constants.size + 16, 0.0
        if claim.scope.tasks is not None:
            tasks = problem.required_tasks()
            spent = claim.utility * tasks.h_u
            size, terms = size + spent, terms + problem.n_x * len(tasks.rows)
        return h_a + paid - slope * h_x - spent + value - terms * _EPS * size


def _guards(claim: Claim) -> Threat:
    """The guards of the claim.

    Raises:
        CertificateError: There are none.
    """
    if claim.scope.guards is None:
        raise CertificateError("the certificate does not say who is guarded against: it is damaged")
    return claim.scope.guards


def _check_by_pairs(claim: Claim, stratum: Stratum, guards: Threat, prices: Array, proof: Part) -> None:
    """Raise CertificateError unless pairs prove that F ≥ claim in a stratum that is a plain funnel of its own.

    The one attacker knows what is published, and has the weight 1; where nothing leaks, none.
    """
    zero = claim.scope.zero
    known = np.unique(np.stack([each.values[stratum.x] for each in guards.attackers]), axis=1)
    alone = known.shape == (1, 1) and not guards.guarantees and not guards.attributes
    plain = alone and guards.measure.is_information and claim.scope.tasks is None
    weighted = claim.weights.tolist() == [0.0 if zero else 1.0]
    if not isinstance(proof, PairsProof) or not plain or not weighted:
        raise CertificateError(
            "the certificate's proof by pairs is for published columns and nothing else: it is damaged"
        )
    if zero:
        check_private_pairs(stratum.problem, prices, claim.disclosure, proof)
        return
    columns = stratum.problem.p_s_given_x
    if len(columns) == 1:  # S is known in this stratum
        columns = np.concatenate([columns, np.zeros_like(columns)])
    check_pairs(columns, prices, claim.disclosure, proof, 4.0 * _EPS)


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
