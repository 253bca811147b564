r"""Certificates of funnels with attackers who know something, published columns and guarantees.

Let W be the posteriors that are allowed, inside one stratum of the published columns. For any weights θ ≥ 0 of the
attackers, prices a and slope μ ≥ 0, every channel with posteriors of W satisfies, in nats,

    Σ_a θ_a I(S;Y|A_a) ≥ Σ_a θ_a H(S|A_a) + a·p_x − μ (H(X) − I(X;Y)) + min_{w ∈ W} F(w),
    F(w) = −Σ_a θ_a H(S|A_a)_w + μ H(w) − a·w,

because Σ r_y w_y = p_x, and the right-hand side is a line in I(X;Y). Where Σθ = 1 it bounds the largest leakage of the
attackers; where nothing leaks, or θ = 0, it bounds the disclosure. min F is proved by one tree a stratum, or by pairs
of symbols where S is binary and all that is known is published: the strata are then plain funnels. Other measures have
other convex functions in place of −H(S|A)_w, and other constants: see :mod:`privfunnel.averages`.

For a task U with Q = p(u|x) there is one more slope λ ≥ 0: F has λ G(Qw) more, G(v) = −Σ_d ω_d v_d log v_d, the
right-hand side −λ (Σ ω H(U) − Σ ω I(U;Y)), and it is a line in both I(X;Y) and I(U;Y). μ is 0 where no disclosure is
asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.attackers import DEFAULT_MEASURE, Attacker
from privfunnel.certificate.checker import check
from privfunnel.certificate.identity import check_owner, digest_of
from privfunnel.certificate.pairs import PairsProof, check_pairs
from privfunnel.certificate.private_pairs import check_private_pairs
from privfunnel.certificate.stacking import stack
from privfunnel.certificate.tree import LARGEST, Case, Proof
from privfunnel.errors import CertificateError, InvalidInputError, PrivFunnelError
from privfunnel.guarded_classes import checked_lumping, threat_to
from privfunnel.lumping import Lumping, singletons
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.threats import Attribute, Stratum, Threat

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class GuardedCertificate:
    """Proof of the line Σ θ_a I(S;Y|A_a) ≥ ``intercept + slope``·I(X;Y) for all channels that a threat allows, nats.

    I(S;Y|A_a) stands for the averages of the threat's measure, of which maximal leakage is the logarithm. For a task
    there is ``task_slope``·I(U;Y) more on the right.

    Attributes:
        fingerprint: The problem it belongs to.
        threat: Attackers, published columns and guarantees.
        zero: Whether it is about channels that tell no attacker anything, or nothing about attributes with budget 0.
        weights: θ ≥ 0, one an average of the threat, shape (averages,).
        prices: a, shape (M,).
        slope: μ ≥ 0.
        intercept: The line at disclosure 0.
        proofs: One tree a stratum, whose multipliers are those of :mod:`.stacking`; or one proof by pairs a stratum.
        task_fingerprint: The tasks it belongs to; None where there is no task.
        task_slope: λ ≥ 0; 0 where there is no task.
        cells: None, or for each public symbol its class, shape (M,): see :mod:`privfunnel.guarded_classes`. Prices are
            then equal within a class, and the trees' symbols are classes: H(w) is at least the entropy of the classes.
    """

    fingerprint: str
    threat: Threat
    zero: bool
    weights: Array
    prices: Array
    slope: float
    intercept: float
    proofs: tuple[Proof | PairsProof, ...]
    task_fingerprint: str | None = None
    task_slope: float = 0.0
    cells: NDArray[np.int32] | None = None
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
            if self.task_fingerprint is None or self.task_slope <= 0.0:
                return f"disclosure ≤ {self.most_disclosure(0.0) / per:.6g} {unit}{nothing}, {who}"
            besides = f" − {self.slope / self.task_slope:.6g} R" if self.slope > 0.0 else ""
            return f"utility ≤ {self.most_utility(0.0) / per:.6g}{besides} {unit}{nothing}, {who}"
        total, convex = float(self.weights.sum()), self.threat.convex
        if convex.in_nats and not convex.worst_value:
            return f"leakage ≥ {self.intercept / total / per:.6g}{self._along(1.0 / total)} {unit}, {who}"
        line = f"{self.intercept / total:.6g}{self._along(per / total)}"
        name = "exp(leakage in nats)" if convex.worst_value else "leakage"
        return f"{name} ≥ {line}, R in {unit}, {who}"

    def _along(self, per: float) -> str:
        """The terms of the line that grow, for people, each slope times ``per``."""
        utility = f" + {self.task_slope * per:.6g} I(U;Y)" if self.task_fingerprint is not None else ""
        disclosure = f" + {self.slope * per:.6g} R" if self.slope > 0.0 or not utility else ""
        return disclosure + utility

    @classmethod
    def build(
        cls,
        problem: Problem,
        threat: Threat,
        prices: Array,
        duals: tuple[Array, float],
        proofs: Sequence[Proof | PairsProof],
        *,
        zero: bool,
        task_slope: float | None = None,
    ) -> GuardedCertificate:
        """The certificate of some trees for weights and slope ``duals``; claims no more than they prove.

        ``task_slope`` is λ of a release for the problem's tasks, None for one that is for no task.
        """
        weights, slope = duals
        made = cls(
            fingerprint=problem.fingerprint, threat=threat, zero=zero, weights=np.array(weights),
            prices=np.array(prices), slope=float(slope), intercept=0.0, proofs=tuple(proofs),
            task_fingerprint=None if task_slope is None else problem.required_tasks().fingerprint,
            task_slope=float(task_slope or 0.0),
        )  # fmt: skip
        return replace(made, intercept=made._line(problem) - 1e-13)

    def on_members(self, problem: Problem, threat: Threat, cells: NDArray[np.int32]) -> GuardedCertificate:
        """This certificate of a table of classes for ``problem``, whose symbol x belongs to class ``cells[x]``."""
        prices = self.prices[cells]
        made = replace(self, fingerprint=problem.fingerprint, threat=threat, prices=prices, cells=cells)
        return replace(made, intercept=made._line(problem) - 1e-13)

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at."""
        return sum(proof.n_nodes for proof in self.proofs)

    def lower_bound(self, disclosure: float, utility: float = 0.0) -> float:
        """What the largest leakage of the attackers is at least at this disclosure, in nats; −∞ for no bound.

        For a task at this ``utility``, too. Of a measure that is no information it is in the measure's own numbers.
        """
        total = float(self.weights.sum())
        if self.bounds_disclosure:
            return -math.inf
        line = self.intercept + self.slope * float(disclosure) + self.task_slope * float(utility)
        average = line / total
        if not self.threat.convex.worst_value:
            return average
        return self.threat.convex.leakage(average * (1.0 - 4.0 * _EPS)) - 4.0 * _EPS

    def most_disclosure(self, budget: float) -> float:
        """What the disclosure is at most, in nats, where no attacker learns more than ``budget``; ∞ without a slope.

        Where attributes have budgets of their own, these count.
        """
        return math.inf if self.slope <= 0.0 else (self._spent(budget) - self.intercept) / self.slope

    def most_utility(self, budget: float, disclosure: float = 0.0) -> float:
        """What the utility is at most, in nats, where no attacker learns more than ``budget``; ∞ without a slope.

        Releases that disclose ``disclosure`` nats or more are meant.
        """
        if self.task_slope <= 0.0:
            return math.inf
        left = self._spent(budget) - self.intercept - self.slope * float(disclosure)
        return left / self.task_slope * (1.0 + math.copysign(4.0 * _EPS, left))

    def _spent(self, budget: float) -> float:
        """Σ θ times what each average may be; attributes have limits of their own."""
        return float(self.weights @ self.threat.limits(0.0 if self.zero else budget))

    def verify(self, problem: Problem) -> None:
        """Prove the claim again for ``problem``, from the stored numbers alone.

        Raises:
            CertificateError: It belongs to another problem, is damaged, or does not prove what it claims.
        """
        check_owner(self.fingerprint, problem)
        tasks = None if self.task_fingerprint is None else problem.tasks
        if self.task_fingerprint != (None if tasks is None else tasks.fingerprint):
            raise CertificateError(
                "the certificate is about a release for a task: name it, on the command line with --task"
                if tasks is None and self.task_fingerprint is not None
                else f"the certificate belongs to another task (fingerprint {str(self.task_fingerprint)[:12]}…): "
                "verify it with the task it was made for"
            )
        digest = self._digest()
        if digest in self._verified:
            return
        self._check_form(problem)
        try:
            lumping = self._classes(problem)
            threat, weights = threat_to(lumping, self.threat), self.weights.tolist()
            strata = threat.strata(lumping.lumped)
            stacks = [
                stack(each, threat, weights, zero=self.zero, tasks=tasks)
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
            prices, slope = own[stratum.x], self.slope
            if images is None or not isinstance(proof, Proof):
                self._check_by_pairs(stratum, threat, prices, proof)
                continue
            case = Case(prices=prices, slope=slope, proof=proof)
            if tasks is not None:
                none, steep = np.zeros(len(tasks.rows)), self.task_slope * tasks.weights
                slopes = np.concatenate([np.full(prices.size, slope), steep])
                case = Case(prices=np.concatenate([prices, none]), slope=slopes, proof=proof)
            check(images.columns, [case], images=images)
        line = self._line(problem)
        if not self.intercept <= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at disclosure 0, it proves {line!r}"
            )
        self._verified.add(digest)

    def _check_by_pairs(
        self, stratum: Stratum, threat: Threat, prices: Array, proof: Proof | PairsProof
    ) -> None:
        """Raise CertificateError unless pairs prove that F ≥ claim in a stratum that is a plain funnel of its own.

        The one attacker knows what is published, and has the weight 1; where nothing leaks, none.
        """
        known = np.unique(np.stack([each.values[stratum.x] for each in threat.attackers]), axis=1)
        alone = known.shape == (1, 1) and not threat.guarantees and not threat.attributes
        plain = alone and threat.measure == DEFAULT_MEASURE and self.task_fingerprint is None
        weighted = self.weights.tolist() == [0.0 if self.zero else 1.0]
        if isinstance(proof, Proof) or not plain or not weighted:
            raise CertificateError(
                "the certificate's proof by pairs is for published columns and nothing else: it is damaged"
            )
        if self.zero:
            check_private_pairs(stratum.problem, prices, self.slope, proof)
            return
        columns = stratum.problem.p_s_given_x
        if len(columns) == 1:  # S is known in this stratum
            columns = np.concatenate([columns, np.zeros_like(columns)])
        check_pairs(columns, prices, self.slope, proof, 4.0 * _EPS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as one ``.npz`` file."""
        from privfunnel.certificate.bundle import save_bundle

        save_bundle(path, [self])

    def _classes(self, problem: Problem) -> Lumping:
        """The classes that the trees are about, checked from the whole table; every symbol its own without cells."""
        if self.cells is None:
            return singletons(problem)
        if self.task_fingerprint is not None:
            raise InvalidInputError("it has classes besides a task, which may differ within them")
        lumping = checked_lumping(problem, self.threat, self.cells)
        first = np.unique(lumping.classes, return_index=True)[1]
        if not np.array_equal(self.prices[first][lumping.classes], self.prices):
            raise InvalidInputError("its prices differ within a class")
        return lumping

    def _check_form(self, problem: Problem) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        n_x, everyone = problem.n_x, self.threat.attackers
        arrays = ((self.prices, (n_x,)), (self.weights, (len(self.threat.averages),)))
        for array, shape in arrays:
            if array.shape != shape or array.dtype != np.float64 or not np.all(np.abs(array) <= LARGEST):
                raise CertificateError("the certificate's prices or weights are not usable numbers")
        numbers = np.array([self.slope, self.intercept, self.task_slope])
        signs = self.slope >= 0.0 and self.task_slope >= 0.0 and bool(np.all(self.weights >= 0.0))
        if not (np.all(np.abs(numbers) <= LARGEST) and signs):
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
        claims = [(type(proof).__name__, proof.claim) for proof in self.proofs]
        about = (self.threat.to_dict(), self.task_fingerprint, self.task_slope)
        head = (self.fingerprint, self.zero, self.slope, self.intercept, about, claims)
        arrays: list[Any] = [self.prices, self.weights, *(() if self.cells is None else (self.cells,))]
        for proof in self.proofs:
            arrays += proof.arrays
        return digest_of(head, arrays)

    def _line(self, problem: Problem) -> float:
        """The line where nothing is disclosed, lowered by a rounding allowance."""
        value, paid = min(proof.claim for proof in self.proofs), float(self.prices @ problem.p_x)
        h_a, h_x = float(self.weights @ self.threat.constants(problem)), problem.disclosure_ceiling
        size = abs(h_a) + self.slope * h_x + float(np.abs(self.prices) @ problem.p_x) + abs(value) + 1.0
        size += float(self.weights.sum()) * (1.0 + problem.h_s + h_x)
        terms, spent = problem.n_x * problem.n_s + len(self.threat.averages) + 16, 0.0
        if self.task_fingerprint is not None:
            tasks = problem.required_tasks()
            spent = self.task_slope * tasks.h_u
            size, terms = size + spent, terms + problem.n_x * len(tasks.rows)
        return h_a + paid - self.slope * h_x - spent + value - terms * _EPS * size


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
