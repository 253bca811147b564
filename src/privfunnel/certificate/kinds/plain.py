"""The plain funnel's proofs: prices, a slope and one tree a component, and the line that they prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from privfunnel import measures
from privfunnel.certificate.archive import Archive
from privfunnel.certificate.cells import cell_columns, check_cells, spread_within
from privfunnel.certificate.checker import check
from privfunnel.certificate.claim import Claim
from privfunnel.certificate.parts import Part, packed, unpacked
from privfunnel.certificate.proof import Body, Certificate, usable
from privfunnel.certificate.thinning import ThinProof
from privfunnel.certificate.tree import LARGEST, Case, Index, Proof
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays
from privfunnel.model.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
#: Roundings that the line allows for besides one for each symbol: products, entropies, and the sum of the four parts.
_ADDING = 16


def components(p_s_given_x: Array) -> list[tuple[Index, Index]]:
    """Connected components of the bipartite graph of p(s|x)'s nonzeros, as pairs (indices of s, indices of x)."""
    n_s, n_x = p_s_given_x.shape
    rows, columns = np.nonzero(p_s_given_x)
    ones = np.ones(rows.size)
    graph = csr_array((ones, (rows, columns + n_s)), shape=(n_s + n_x, n_s + n_x))
    count, label = connected_components(graph, directed=False)
    return [(np.flatnonzero(label[:n_s] == c), np.flatnonzero(label[n_s:] == c)) for c in range(count)]


def combine(claims: Sequence[float], slope: float) -> float:
    """Lower bound on min F from lower bounds f_c on the components' own minima, rounding allowed for."""
    f = np.asarray(claims, dtype=np.float64)
    least = float(f.min())
    if slope >= 1.0 or f.size == 1:
        return least
    spread = (1.0 - slope) * float(np.log(np.sum(np.exp(-(f - least) / (1.0 - slope)))))
    # Roundings that :func:`combine` allows for, in units of its terms' size: exponentials, their sum, one logarithm.
    return least - spread - 8.0 * _EPS * (abs(least) + spread + 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainBody(Body):
    """Prices, and what proves that F is at least ``value`` with them; nats.

    Attributes:
        prices: a, shape (M,).
        value: Proved lower bound on min F.
        proofs: One tree a component, in the order of :func:`components`; or one proof for all of a table, by pairs
            where it has two private symbols, by a chain of such, by supports, by thinning or by cliques where it has
            more.
        coarsening: None, or for each private symbol the group it is merged into, shape (K,): since S' is then a
            function of S, a bound on its leakage is a bound on S's.
        cells: None, or for each public symbol the cell it belongs to, shape (M,). Prices are then equal within a
            cell, and the trees' symbols are cells: see :func:`cell_columns`.
    """

    kind: ClassVar[str] = "plain"
    says: ClassVar[frozenset[str]] = frozenset({"disclosure"})

    prices: Array
    value: float
    proofs: tuple[Part, ...]
    coarsening: NDArray[np.int32] | None = None
    cells: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    @classmethod
    def build(
        cls,
        problem: Problem,
        prices: Array,
        slope: float,
        proofs: Sequence[Part],
        coarsening: NDArray[np.int32] | None = None,
        cells: NDArray[np.int32] | None = None,
    ) -> Certificate:
        """The certificate of some trees; claims nothing that verifying it would not compute from them."""
        value = combine([proof.claim for proof in proofs], slope)
        body = cls(
            prices=np.array(prices), value=value, proofs=tuple(proofs), coarsening=coarsening, cells=cells
        )
        return Certificate.build(problem, Claim(constant=0.0, disclosure=float(slope)), body)

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
        groups = {"coarsening": self.coarsening, "cells": self.cells}
        return {
            "prices": self.prices,
            "value": np.array(self.value),
            **{name: array for name, array in groups.items() if array is not None},
            **packed(self.proofs),
        }

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        groups, cells = (
            archive.integers(f"{place}.{name}") if f"{place}.{name}" in archive else None
            for name in ("coarsening", "cells")
        )
        return cls(
            prices=archive.floats(f"{place}.prices"),
            value=float(archive[f"{place}.value"]),
            proofs=unpacked(archive, place),
            coarsening=groups,
            cells=cells,
        )

    def line(self, problem: Problem, claim: Claim) -> float:
        """``H(S) + a·p_x − μ H(X) + value``, lowered by a rounding allowance: what the line is at R = 0, in nats."""
        groups, slope = self.coarsening, claim.disclosure
        p_s = problem.p_s if groups is None else _coarsen(problem.p_sx, groups).sum(axis=1)
        h_s, h_x = float(measures.entropy(p_s)), problem.disclosure_ceiling
        paid = float(self.prices @ problem.p_x)
        size = h_s + slope * h_x + float(np.abs(self.prices) @ problem.p_x) + abs(self.value) + 1.0
        return h_s + paid - slope * h_x + self.value - (problem.n_x + problem.n_s + _ADDING) * _EPS * size

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        if not usable(self.prices, (problem.n_x,), LARGEST):
            raise CertificateError(f"the certificate's prices are not {problem.n_x} usable numbers")
        if self.cells is not None:
            check_cells(self.cells, self.prices)
        if not abs(self.value) <= LARGEST:
            raise CertificateError("the certificate's value is not a usable number")
        groups = self.coarsening
        if groups is not None and not (
            groups.shape == (problem.n_s,)
            and groups.dtype == np.int32
            and 0 <= groups.min() <= groups.max() < problem.n_s
        ):
            raise CertificateError(f"the certificate's coarsening does not map {problem.n_s} private symbols")

    def cell_prices(self) -> Array:
        """The prices of the trees' symbols: of the cells where there are any, shape (C,), of all M otherwise."""
        if self.cells is None:
            return self.prices
        return np.asarray(self.prices[np.unique(self.cells, return_index=True)[1]])

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Raise CertificateError unless F is at least each one's value; trees alike are walked at once."""
        alike: dict[tuple[bytes, bytes], list[tuple[Claim, Self]]] = {}
        for claim, body in proofs:
            coarse, cells = (
                b"" if each is None else each.tobytes() for each in (body.coarsening, body.cells)
            )
            alike.setdefault((coarse, cells), []).append((claim, body))
        for together in alike.values():
            trees = [(claim, body) for claim, body in together if body.by_trees]
            for claim, body in together:
                if not body.by_trees:
                    _check_alone(problem, claim, body)
            if trees:
                _check_alike(problem, trees)
        for claim, body in proofs:
            proved = combine([proof.claim for proof in body.proofs], claim.disclosure)
            if not body.value <= proved:
                raise CertificateError(
                    f"the certificate claims min F ≥ {body.value!r}, its trees prove {proved!r}"
                )

    @property
    def source(self) -> str:
        """What kind of proof it is, for people."""
        if isinstance(self.proofs[0], ThinProof):
            return "thinning"
        return "certificate" if self.coarsening is None else "coarsened certificate"

    @property
    def by_trees(self) -> bool:
        """Whether it consists of trees, one a component."""
        return all(isinstance(proof, Proof) for proof in self.proofs)


def _check_alone(problem: Problem, claim: Claim, body: PlainBody) -> None:
    """Check what consists of one proof for the whole table."""
    if len(body.proofs) != 1:
        raise CertificateError("the certificate mixes trees and other proofs: it is damaged")
    table = _coarsen(problem.p_s_given_x, body.coarsening)
    columns, exact = cell_columns(table, body.cells)
    if not exact:
        raise CertificateError(
            "the certificate's cells hold different p(s|x), which only trees can prove: it is damaged"
        )
    spread = spread_within(table, columns, body.cells)
    body.proofs[0].check_alone(columns, body.cell_prices(), claim.disclosure, spread)


def _check_alike(problem: Problem, together: Sequence[tuple[Claim, PlainBody]]) -> None:
    """Check bodies that share coarsening and cells, so that their trees speak of the same columns."""
    first = together[0][1]
    table, exact = cell_columns(_coarsen(problem.p_s_given_x, first.coarsening), first.cells)
    parts = components(table)
    for _, body in together:
        if len(parts) != len(body.proofs):
            raise CertificateError(
                f"the certificate has {len(body.proofs)} trees for {len(parts)} components: it is damaged"
            )
    for number, (s, x) in enumerate(parts):
        columns = np.ascontiguousarray(table[np.ix_(s, x)].T)
        cases = [
            Case(prices=body.cell_prices()[x], slope=claim.disclosure, proof=tree)
            for claim, body in together
            if isinstance(tree := body.proofs[number], Proof)
        ]
        check(columns, cases, exclusive=exact)


def _coarsen(p_s_given_x: Array, groups: NDArray[np.int32] | None) -> Array:
    """p(s'|x) of merged private symbols, shape (number of groups, M)."""
    if groups is None:
        return p_s_given_x
    merged = np.zeros((int(groups.max()) + 1, p_s_given_x.shape[1]))
    np.add.at(merged, groups, p_s_given_x)
    kept: Array = merged[merged.sum(axis=1) > 0.0]
    return kept
