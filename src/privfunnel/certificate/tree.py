"""The trees of boxes that certificates store for one component, and whether they are well-formed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.attacker_images import Stack
from privfunnel.certificate.curvature import Curved, check_curved
from privfunnel.certificate.exclusion import check_size, rivalry, rivals
from privfunnel.certificate.parts import Part
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays

Index = NDArray[np.intp]

#: Values of ``Proof.variable`` that are not a symbol to split on.
LEAF, SHRINK = -1, -2

#: Multipliers and claims beyond this prove nothing that smaller ones do not, and could overflow the arithmetic.
LARGEST = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof(Part):
    """A tree of boxes that proves F ≥ ``claim`` on one component's simplex; n nodes, node 0 is the root.

    Attributes:
        claim: The value proved, in nats.
        q: Multipliers of Pw, shape (n, K_c).
        nu: Multiplier of Σ w = 1, shape (n,).
        variable: Symbol split on, LEAF or SHRINK (one child, the shrunken box), shape (n,).
        split: The left child has ``w ≤ split[0]``, the right one ``w ≥ split[1]``, shape (n, 2).
        first: Number of the first child; the second follows it, shape (n,).
        curved: What nodes with curvature store besides, of guarded certificates; None for none.
        touching: Posteriors (n, M) at which the multipliers touch what attackers learn, in place of q, which is then
            (n, 0): against many attackers there are far more multipliers than symbols. None where q is stored.
    """

    kind: ClassVar[str] = "tree"

    claim: float
    q: Array
    nu: Array
    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]
    curved: Curved | None = None
    touching: Array | None = None

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.setflags(write=False)

    def arrays(self) -> Arrays:
        """All that is stored but for the claim, by name."""
        made: Arrays = {
            "q": self.q, "nu": self.nu, "variable": self.variable, "split": self.split, "first": self.first,
        }  # fmt: skip
        if self.curved is not None:
            made |= {f"curved.{name}": array for name, array in self.curved._asdict().items()}
        return made if self.touching is None else made | {"touching": self.touching}

    @classmethod
    def read(cls, archive: Archive, place: str, claim: float) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        q, nu, split = (archive.floats(f"{place}.{name}") for name in ("q", "nu", "split"))
        variable, first = (archive.integers(f"{place}.{name}") for name in ("variable", "first"))
        curved = None
        if f"{place}.curved.nodes" in archive:
            nodes, *floats = (f"{place}.curved.{name}" for name in Curved._fields)
            curved = Curved(archive.integers(nodes), *(archive.floats(each) for each in floats))
        touching = archive.floats(f"{place}.touching") if f"{place}.touching" in archive else None
        return cls(claim=claim, q=q, nu=nu, variable=variable, split=split, first=first, curved=curved,
                   touching=touching)  # fmt: skip

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.nu.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """What a tree has to prove: F of these ``prices`` a, (M_c,), and this ``slope`` μ is at least ``proof.claim``.

    Where there is a task its entries have prices 0 and slopes of their own: ``slope`` is then of every entry, (n,).
    """

    prices: Array
    slope: float | Array
    proof: Proof


def check_form(proof: Proof, n_x: int, n_s: int) -> None:
    """Raise CertificateError unless shapes, types and ranges are those that the arithmetic relies on.

    A child has a larger number than its parent, so that no path through the tree comes back.
    """
    n = proof.n_nodes
    q, width = (proof.q, n_s) if proof.touching is None else (proof.touching, n_x)
    floats, integers = (q, proof.nu, proof.split), (proof.variable, proof.first)
    shapes = tuple(array.shape for array in (*floats, *integers))
    if n == 0 or shapes != ((n, width), (n,), (n, 2), (n,), (n,)):
        raise CertificateError("the certificate's tree is damaged: its arrays do not fit the problem")
    if any(a.dtype != np.float64 for a in floats) or any(a.dtype != np.int32 for a in integers):
        raise CertificateError("the certificate's tree is damaged: its arrays are not of the right type")
    if not all(np.all(np.abs(array) <= LARGEST) for array in (*floats, np.float64(proof.claim))):
        raise CertificateError(
            "the certificate's tree is damaged: it holds numbers that are too large or none"
        )
    if np.any(proof.variable >= n_x) or np.any(proof.variable < SHRINK):
        raise CertificateError("the certificate's tree is damaged: it splits a symbol that does not exist")
    if proof.touching is not None and (proof.q.shape != (n, 0) or np.any(proof.touching < 0.0)):
        raise CertificateError("the certificate's tree is damaged: multipliers touch at no posterior")
    if np.any(proof.split < 0.0) or np.any(proof.split > 1.0):
        raise CertificateError("the certificate's tree is damaged: a split lies outside [0, 1]")
    inner = proof.variable != LEAF
    children = np.where(proof.variable >= 0, 2, 1)
    first = proof.first.astype(np.int64)
    if np.any((first <= np.arange(n))[inner]) or np.any((first + children > n)[inner]):
        raise CertificateError("the certificate's tree is damaged: a child is missing")
    if proof.curved is not None:
        check_curved(proof.curved, n, n_x)


class Forest:
    """The trees of some cases side by side, so that one pass over their levels checks them all.

    Node arrays are those of :class:`Proof`, one tree after the other; ``case`` (n,) says whose node it is, ``roots``
    where each tree begins; ``sizes`` (M, K) are the absolute values that ``columns`` are sums of. Of each case:
    ``claim``, ``prices``, and ``slope``, one for all entries or one each.
    """

    def __init__(
        self, columns: Array, cases: Sequence[Case], *, exclusive: bool, images: Stack | None = None
    ) -> None:
        proofs = [case.proof for case in cases]
        sizes = np.array([proof.n_nodes for proof in proofs])
        self.columns, self.images = columns, images
        self.sizes = columns if images is None else images.sizes
        self.n_x = len(columns) if images is None else images.n_x
        self.groups = (slice(0, self.n_x),) if images is None else images.groups
        self.roots = np.cumsum(sizes) - sizes
        self.case = np.repeat(np.arange(len(cases)), sizes)
        self.q = np.concatenate([proof.q for proof in proofs])
        self.nu = np.concatenate([proof.nu for proof in proofs])
        self.variable = np.concatenate([proof.variable for proof in proofs])
        self.split = np.concatenate([proof.split for proof in proofs])
        self.first = np.concatenate(
            [proof.first.astype(np.intp) + root for proof, root in zip(proofs, self.roots, strict=True)]
        )
        self.claim = np.array([proof.claim for proof in proofs])
        self.prices = np.array([case.prices for case in cases])
        self.slope = np.stack([np.atleast_1d(case.slope) for case in cases])
        self._cases, self._exclusive = cases, exclusive
        self.curved, self.touching = (proofs[0].curved, proofs[0].touching) if proofs else (None, None)
        alone = images is not None and images.tasks is None and len(cases) == 1
        if not alone and any(proof.curved is not None for proof in proofs):
            raise CertificateError("the certificate's tree is damaged: a proof of its kind has no curvature")
        if not alone and any(proof.touching is not None for proof in proofs):
            raise CertificateError(
                "the certificate's tree is damaged: a proof of its kind stores multipliers"
            )

    @cached_property
    def allies(self) -> tuple[list[Array], Index]:
        """Tables (M, M), 1 where two symbols may be used together, and which of them is each case's, (n,).

        Cases of neighbouring slopes often share them. They are worked out when a box has to be made smaller, not where
        every tree is a root that settles at once: on a large table they are more work than all the rest.
        """
        n_x = len(self.columns)
        check_size(n_x)
        thresholds = rivalry(self.columns) if self._exclusive else np.full((n_x, n_x), np.inf)
        patterns: dict[bytes, int] = {}
        allied: list[Array] = []
        pattern = np.empty(len(self._cases), dtype=np.intp)
        for number, case in enumerate(self._cases):
            excluded = rivals(thresholds, float(np.max(case.slope)))
            pattern[number] = patterns.setdefault(excluded.tobytes(), len(allied))
            if pattern[number] == len(allied):
                allied.append(1.0 - excluded.astype(np.float64))
        return allied, pattern
