"""Proofs of the free disclosure R₀: no release that leaks nothing discloses more.

Such a release consists of posteriors w with Pw = p(s), whose mixture is p(x). For any prices a (M,),

    R₀ = H(X) − min Σ r H(w) ≤ H(X) − a·p_x − min_w (H(w) − a·w)         over these posteriors w  (nats),

and the least mixture has prices at which both sides are equal. In each component of the table, c, these posteriors have
the mass p(c), and H(w) − a·w = H(C) + Σ_c p(c) [H(w_c) − a_c·w_c]: each component's minimum is proved for itself, by
its vertices (:mod:`~privfunnel.certificate.private_vertices`), without storing them, or by a tree of boxes
(:mod:`~privfunnel.certificate.checker`) with the equations of these posteriors as its images. With ``cells``, symbols
with the same p(s|x) are one: a release of X discloses no more than one of the cells does and H(X|cell).

The claim is 0 ≥ I(X;Y) − R₀ for the releases that tell nothing: the one average, which is 0 there, has the weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.archive import Archive
from privfunnel.certificate.attacker_images import Block, Stack
from privfunnel.certificate.cells import check_cells
from privfunnel.certificate.checker import check
from privfunnel.certificate.claim import Claim, Scope
from privfunnel.certificate.kinds.plain import components
from privfunnel.certificate.parts import Part, packed, unpacked
from privfunnel.certificate.private_equations import Whole, equations_of, merged, whole_table
from privfunnel.certificate.private_vertices import least_private
from privfunnel.certificate.proof import Body, Certificate, usable
from privfunnel.certificate.tree import LARGEST, Case, Proof
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays
from privfunnel.model.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
#: Nats by which a new part claims less than it proves: another machine's logarithms may round otherwise.
_RESERVE = 1e-13
#: Roundings that the bound allows for besides one for each symbol: products, entropies, and the sum of its parts.
_ADDING = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class FreeProof(Part):
    """Proof of H(w) − a·w ≥ ``claim`` for the posteriors of one component that tell nothing, by all of their vertices.

    Attributes:
        claim: The value proved, in nats.
        combinations: Which combinations of rows of P − p(s) are the equations, shape (K_c, j).
    """

    kind: ClassVar[str] = "vertices"

    claim: float
    combinations: Array

    def __post_init__(self) -> None:
        self.combinations.setflags(write=False)

    @property
    def n_nodes(self) -> int:
        """Number of boxes: none."""
        return 0

    def arrays(self) -> Arrays:
        """All that is stored, but for the claim, by name."""
        return {"combinations": self.combinations}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(claim=claim, combinations=archive.floats(f"{place}.combinations"))

    @classmethod
    def build(cls, whole: Whole, combinations: Array, prices: Array) -> Self:
        """The most that the vertices prove of a component at some prices.

        Raises:
            CertificateError: They cannot be gone through.
        """
        return cls(claim=least_private(whole, combinations, prices) - _RESERVE, combinations=combinations)

    def check(self, whole: Whole, prices: Array) -> None:
        """Raise CertificateError unless it proves its claim for a component, (K_c, M_c), at these prices, (M_c,)."""
        sound = self.combinations.ndim == 2 and self.combinations.dtype == np.float64
        sound = sound and len(self.combinations) == len(whole) > self.combinations.shape[1]
        if not (sound and np.all(np.abs(self.combinations) <= 1.0) and abs(self.claim) <= LARGEST):
            raise CertificateError("the certificate's equations do not fit the problem: it is damaged")
        self._check_least(whole, prices)

    def _check_least(self, whole: Whole, prices: Array) -> None:
        least = least_private(whole, self.combinations, prices)
        if not self.claim <= least:
            short = self.claim - least
            raise CertificateError(
                f"the certificate does not prove its claim: a posterior is {short:.3g} nats short of it"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class FreeTree(FreeProof):
    """The same by a tree of boxes.

    Attributes:
        tree: The boxes, whose multipliers are those of the equations.
    """

    kind: ClassVar[str] = "free tree"

    tree: Proof

    @property
    def n_nodes(self) -> int:
        """Number of boxes."""
        return self.tree.n_nodes

    def arrays(self) -> Arrays:
        """All that is stored, but for the claim, by name."""
        return {**super().arrays(), **{f"tree.{name}": each for name, each in self.tree.arrays().items()}}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(
            claim=claim,
            combinations=archive.floats(f"{place}.combinations"),
            tree=Proof.read(archive, f"{place}.tree", claim),
        )

    def _check_least(self, whole: Whole, prices: Array) -> None:
        if self.tree.claim != self.claim:
            raise CertificateError("the certificate's tree proves another claim: it is damaged")
        images = _images(whole, self.combinations)
        check(images.columns, [Case(prices=prices, slope=1.0, proof=self.tree)], images=images)


def _images(whole: Whole, combinations: Array) -> Stack:
    """The equations as the trees' images, each of length 1."""
    rows = equations_of(whole, combinations).rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    columns = np.ascontiguousarray((rows / np.where(lengths > 0.0, lengths, 1.0)).T)
    n_x, count = columns.shape
    return Stack(columns, np.abs(columns), (Block("equal", 0, count),), np.ones(n_x))


@dataclass(frozen=True, kw_only=True, eq=False)
class FreeBody(Body):
    """Prices, and what proves of each component what H(w) − a·w is at least.

    Attributes:
        prices: a, shape (M,).
        proofs: One a component, in the order of :func:`~privfunnel.certificate.components`.
        cells: None, or for each public symbol the cell it belongs to, shape (M,): the trees' symbols are cells then.
    """

    kind: ClassVar[str] = "free"
    says: ClassVar[frozenset[str]] = frozenset({"disclosure", "weights", "zero"})

    prices: Array
    proofs: tuple[Part, ...]
    cells: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    @classmethod
    def build(
        cls,
        problem: Problem,
        prices: Array,
        proofs: Sequence[FreeProof],
        cells: NDArray[np.int32] | None = None,
    ) -> Certificate:
        """The certificate of some proofs; claims nothing that verifying it would not compute from them."""
        body = cls(prices=np.array(prices), proofs=tuple(proofs), cells=cells)
        claim = Claim(constant=0.0, disclosure=1.0, weights=np.zeros(1), scope=Scope(zero=True))
        return Certificate.build(problem, claim, body)

    def on_members(self, cells: NDArray[np.int32]) -> Self:
        """The same for the members of classes."""
        own = cells if self.cells is None else self.cells[cells]
        return replace(self, prices=self.prices[cells], cells=own)

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at, over all components."""
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

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        about_nothing = claim.scope.zero and claim.weights.tolist() == [0.0]
        if not (about_nothing and claim.disclosure == 1.0):
            raise CertificateError(
                "the certificate claims something else than what is disclosed where nothing leaks: it is damaged"
            )
        if not usable(self.prices, (problem.n_x,), LARGEST):
            raise CertificateError(f"the certificate's prices are not {problem.n_x} usable numbers")
        if self.cells is not None:
            check_cells(self.cells, self.prices)

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Raise CertificateError unless each proves its components' claims."""
        for _, body in proofs:
            body._check(problem)

    def _check(self, problem: Problem) -> None:
        whole, prices = whole_table(problem), self.prices
        if self.cells is not None:
            whole, prices = merged(whole, self.cells), prices[np.unique(self.cells, return_index=True)[1]]
        parts = components((whole != 0).astype(np.float64))
        if len(parts) != len(self.proofs):
            raise _unfit(len(self.proofs), len(parts))
        for (s, x), proof in zip(parts, self.proofs, strict=True):
            if not isinstance(proof, FreeProof):
                raise CertificateError(
                    f"the certificate's proof by {proof.kind} is not about what leaks nothing: it is damaged"
                )
            proof.check(whole[np.ix_(s, x)], prices[x])

    def line(self, problem: Problem, claim: Claim) -> float:
        """``−(H(X) − a·p_x − H(C) − Σ p(c) claim_c)``, lowered by a rounding allowance, in nats."""
        masses = np.array([problem.p_x[x].sum() for _, x in components(problem.p_sx)])
        claims = np.array([proof.claim for proof in self.proofs])
        if masses.shape != claims.shape:
            raise _unfit(claims.size, masses.size)
        h_x, h_c = problem.disclosure_ceiling, float(measures.entropy(masses)) if masses.size > 1 else 0.0
        paid, claimed = float(self.prices @ problem.p_x), float(claims @ masses)
        size = h_x + h_c + float(np.abs(self.prices) @ problem.p_x) + float(np.abs(claims) @ masses) + 1.0
        rounding = (problem.n_x + _ADDING) * _EPS * size
        return -(h_x - paid - h_c - claimed + rounding)


def _unfit(proofs: int, parts: int) -> CertificateError:
    return CertificateError(f"the certificate has {proofs} proofs for {parts} components: it is damaged")
