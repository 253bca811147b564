"""The frame of every proof: whose it is, what it claims, and the body that proves it.

A body is of some *kind*, one module of :mod:`privfunnel.certificate.kinds`, and says three things: the arrays that a
file holds, how they are read back, and how they are checked. All else is written here once: that a proof belongs to
the problem, that its claim is one that its kind proves, that what was proved once need not be proved again, and that
the line which the body proves is at least the one that is claimed.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.claim import Claim, Quantity
from privfunnel.certificate.identity import check_owner, digest_of
from privfunnel.certificate.words import told
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays
from privfunnel.model.problem import Problem
from privfunnel.model.threat import Threat

#: Nats by which a new certificate claims less than it proves: another machine's logarithms may round otherwise.
_RESERVE = 1e-13
#: The kinds of bodies by their name in files.
KINDS: dict[str, type[Body]] = {}

Kind = TypeVar("Kind", bound="Body")


class Body(ABC):
    """What proves a claim; a kind is a frozen dataclass that derives from this, in a module of its own.

    Attributes:
        kind: Its name in files.
        says: What of a claim it proves beyond the plain funnel's, see :attr:`.claim.Claim.says`. The frame refuses
            claims that say more: no check has to think of what it is not about.
        turned: Whether it bounds averages from above.
    """

    kind: ClassVar[str]
    says: ClassVar[frozenset[str]]
    turned: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Register the kind."""
        KINDS[cls.kind] = cls

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """How much there is to look at: boxes, as a rule."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """All that is stored, by name; names of parts have dots in them."""

    @classmethod
    @abstractmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, each name behind ``place`` and a dot, from a file of unknown origin."""

    @abstractmethod
    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""

    @classmethod
    @abstractmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Raise CertificateError unless every body proves what its :meth:`line` rests on; forms are sound."""

    @abstractmethod
    def line(self, problem: Problem, claim: Claim) -> float:
        """The largest constant that follows for the claim's slopes and scope, rounded down; forms are sound."""

    def on_members(self, cells: NDArray[np.int32]) -> Self:
        """This body of a table of classes for one whose symbol x belongs to class ``cells[x]``.

        Raises:
            CertificateError: Its kind does not speak of classes.
        """
        raise CertificateError(f"a proof by {self.kind} does not speak of classes")


@dataclass(frozen=True, eq=False)
class Certificate:
    """A claim about the releases of one problem, and its proof.

    Attributes:
        fingerprint: The problem it belongs to.
        claim: What it claims.
        body: What proves it.
    """

    fingerprint: str
    claim: Claim
    body: Body
    _verified: set[str] = field(default_factory=set, init=False, repr=False)
    _members: dict[str, Certificate] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def build(cls, problem: Problem, claim: Claim, body: Body) -> Certificate:
        """The certificate of a body; of the claim all but its constant counts, which is what the body proves."""
        return cls(problem.fingerprint, replace(claim, constant=body.line(problem, claim) - _RESERVE), body)

    def __repr__(self) -> str:
        """One line with the proved line and the size of the proof."""
        return f"Certificate({self.words}, {self.n_nodes} boxes)"

    # --- what it says -------------------------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """What is proved, for people, in nats."""
        return self.told("nats")

    def told(self, unit: str) -> str:
        """What is proved, for people, in ``unit``, one of nats and bits."""
        return told(self.claim, unit)

    @property
    def plain(self) -> bool:
        """Whether it is about what the attacker learns who knows nothing."""
        return self.claim.scope.guards is None

    @property
    def slope(self) -> float:
        """The slope of the line along its axis: disclosure, the utility of a task, or E d (there it falls)."""
        claim = self.claim
        if claim.scope.quantity is Quantity.GUESSES:
            return float(claim.weights.sum())
        if claim.scope.costs is not None:
            return claim.distortion
        if claim.scope.tasks is not None:
            return claim.utility
        return -claim.disclosure if claim.turned else claim.disclosure

    @property
    def intercept(self) -> float:
        """Where the line begins, in nats."""
        upper = self.claim.turned or self.claim.scope.quantity is Quantity.GUESSES
        return -self.claim.constant if upper else self.claim.constant

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at."""
        return self.body.n_nodes

    def lower_bound(self, at: float, /) -> float:
        """What leaks at least at a place of the line's axis: disclosure, the utility of a task, or E d; nats.

        −∞ where it says nothing of that. For a disclosure and a utility at once ask the claim.
        """
        scope = self.claim.scope
        if scope.costs is not None:
            return self.claim.least_leakage(distortion=float(at))
        if scope.tasks is not None:
            return self.claim.least_leakage(utility=float(at))
        return self.claim.least_leakage(float(at))

    def upper_bound(self, at: float, /) -> float:
        """What I(S;Y) is at most at a rate, of a bottleneck; of others, what is disclosed at most within a budget."""
        claim = self.claim
        return claim.most_leakage(float(at)) if claim.turned else claim.most_disclosure(float(at))

    def most_disclosure(self, budget: float) -> float:
        """What the disclosure is at most, in nats, where no attacker learns more than ``budget``; ∞ for no bound."""
        return self.claim.most_disclosure(float(budget))

    def most_utility(self, budget: float, disclosure: float = 0.0) -> float:
        """What the utility is at most, in nats, of releases that disclose so much within a budget; ∞ for no bound."""
        return self.claim.most_utility(float(budget), float(disclosure))

    # --- whether it is so ---------------------------------------------------------------------------------------------

    def verify(self, problem: Problem) -> None:
        """Prove the claim again for ``problem``, from the stored numbers alone.

        Raises:
            CertificateError: It belongs to another problem, is damaged, or does not prove what it claims.
        """
        verify_all(problem, [self])

    def body_of(self, kind: type[Kind]) -> Kind:
        """The body, which is of this kind.

        Raises:
            CertificateError: It is of another.
        """
        if not isinstance(self.body, kind):
            raise CertificateError(f"the proof is of the kind {self.body.kind}, not {kind.kind}")
        return self.body

    def on_members(
        self, problem: Problem, cells: NDArray[np.int32], guards: Threat | None = None
    ) -> Certificate:
        """This certificate of a table of classes for ``problem``, whose symbol x belongs to class ``cells[x]``.

        ``guards`` are what the scope's are for the members.
        """
        place = f"{problem.fingerprint} {digest_of(None if guards is None else guards.to_dict(), [cells])}"
        known = self._members.get(place)
        if known is None:
            claim = replace(self.claim, scope=replace(self.claim.scope, guards=guards))
            known = Certificate.build(problem, claim, self.body.on_members(cells))
            self._members[place] = known
        return known

    def arrays(self) -> Arrays:
        """All that it consists of, by name: what a file holds, and what its digest is of."""
        return {
            "fingerprint": np.array(self.fingerprint),
            "kind": np.array(self.body.kind),
            **{f"claim.{name}": array for name, array in self.claim.arrays().items()},
            **{f"body.{name}": array for name, array in self.body.arrays().items()},
        }

    @classmethod
    def read(cls, archive: Archive, place: str) -> Certificate:
        """What :meth:`arrays` gave, from a file of unknown origin.

        Raises:
            KeyError: Something is missing, or there is no such kind.
            ValueError: Something is damaged.
        """
        kind = KINDS[str(archive[f"{place}.kind"])]
        return cls(
            str(archive[f"{place}.fingerprint"]),
            Claim.read(archive, f"{place}.claim"),
            kind.read(archive, f"{place}.body"),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as one ``.npz`` file."""
        from privfunnel.certificate.file import save_bundle

        save_bundle(path, [self])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate written by :meth:`save`; use :func:`load_bundle` for a file of several."""
        from privfunnel.certificate.file import load_bundle

        bundle = load_bundle(path)
        if len(bundle) != 1:
            raise CertificateError(
                f"{str(path)!r} holds {len(bundle)} certificates: read it with load_bundle"
            )
        return bundle[0]

    def _digest(self) -> str:
        """SHA-256 of everything it consists of: what was verified once need not be verified again."""
        arrays = self.arrays()
        return digest_of(list(arrays), arrays.values())

    def _check_form(self, problem: Problem) -> None:
        """Raise CertificateError unless the claim is one that a proof of this kind can prove, and both are sound."""
        self.claim.check_form(problem)
        beyond = self.claim.says - self.body.says
        if beyond or self.claim.turned != self.body.turned:
            raise CertificateError(
                f"the certificate claims something about {', '.join(sorted(beyond)) or 'the other side'} that a proof "
                f"of the kind {self.body.kind!r} does not prove: it is damaged"
            )
        self.body.check_form(problem, self.claim)

    def _conclude(self, problem: Problem) -> None:
        """The step from what the body proves to the line that is claimed."""
        line = self.body.line(problem, self.claim)
        if not self.claim.constant <= line:  # written so that what is not a number fails
            raise CertificateError(
                f"the certificate claims the line {self.claim.constant!r} at its beginning, it proves {line!r}"
            )


def verify_all(problem: Problem, certificates: Iterable[Certificate]) -> None:
    """Verify certificates of one problem together, for a fraction of what they cost one by one.

    Raises:
        CertificateError: One of them does not prove what it claims; :meth:`Certificate.verify` says of each if it does.
    """
    open_: dict[Certificate, str] = {}
    for certificate in dict.fromkeys(certificates):  # a line may prove several points
        check_owner(certificate.fingerprint, certificate.claim.scope.tasks, problem)
        digest = certificate._digest()
        if digest not in certificate._verified:
            certificate._check_form(problem)
            open_[certificate] = digest
    for kind in {type(each.body): None for each in open_}:
        kind.check_many(problem, [(each.claim, each.body) for each in open_ if type(each.body) is kind])
    for certificate, digest in open_.items():
        certificate._conclude(problem)
        certificate._verified.add(digest)


def usable(array: Array, shape: tuple[int, ...], largest: float) -> bool:
    """Whether an array has a shape and holds numbers that arithmetic does not overflow on."""
    return bool(array.shape == shape and array.dtype == np.float64 and np.all(np.abs(array) <= largest))
