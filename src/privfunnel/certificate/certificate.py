"""The certificate: prices, a slope and one tree a component, and the line that they prove."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from privfunnel import measures
from privfunnel.certificate.cells import cell_columns, spread_within
from privfunnel.certificate.chain import ChainProof, check_chain
from privfunnel.certificate.checker import check
from privfunnel.certificate.cliques import CliqueProof, check_cliques
from privfunnel.certificate.identity import check_owner, digest_of
from privfunnel.certificate.pairs import PairsProof, check_pairs
from privfunnel.certificate.supports import SupportsProof, check_supports
from privfunnel.certificate.thinning import ThinProof, check_thinning
from privfunnel.certificate.tree import LARGEST, Case, Index, Proof
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
#: Roundings that :func:`combine` allows for, in units of its terms' size: exponentials, their sum, one logarithm.
_COMBINING = 8.0
#: Roundings that the line allows for besides one for each symbol: products, entropies, and the sum of the four parts.
_ADDING = 16
#: Nats by which a new certificate claims less than it proves: another machine's logarithms may round otherwise.
_RESERVE = 1e-13

#: What may prove a certificate: a tree a component, or one proof for the whole table.
AnyProof = Proof | PairsProof | ChainProof | SupportsProof | ThinProof | CliqueProof


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
    return least - spread - _COMBINING * _EPS * (abs(least) + spread + 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Proof of the line ``intercept + slope·R`` below the whole curve L(R), in nats.

    Attributes:
        fingerprint: The problem it belongs to.
        prices: a, shape (M,).
        slope: μ ≥ 0.
        value: Proved lower bound on min F.
        intercept: The line at R = 0.
        proofs: One tree a component, in the order of :func:`components`; or one proof for all of a table, by pairs
            where it has two private symbols, by a chain of such, by supports, by thinning or by cliques where it has
            more.
        coarsening: None, or for each private symbol the group it is merged into, shape (K,): since S' is then a
            function of S, a bound on its leakage is a bound on S's.
        cells: None, or for each public symbol the cell it belongs to, shape (M,). Prices are then equal within a
            cell, and the trees' symbols are cells: see :func:`cell_columns`.
    """

    fingerprint: str
    prices: Array
    slope: float
    value: float
    intercept: float
    proofs: tuple[AnyProof, ...]
    coarsening: NDArray[np.int32] | None = None
    cells: NDArray[np.int32] | None = None
    _verified: set[str] = field(default_factory=set, init=False, repr=False)
    _members: dict[str, Certificate] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    def __repr__(self) -> str:
        """One line with the proved line and the size of the proof."""
        return f"Certificate(L(R) ≥ {self.intercept:.6g} + {self.slope:.6g} R nats, {self.n_nodes} boxes)"

    @classmethod
    def build(
        cls,
        problem: Problem,
        prices: Array,
        slope: float,
        proofs: Sequence[AnyProof],
        coarsening: NDArray[np.int32] | None = None,
        cells: NDArray[np.int32] | None = None,
    ) -> Certificate:
        """The certificate of some trees; claims nothing that :meth:`verify` would not compute from them."""
        value = combine([proof.claim for proof in proofs], slope)
        made = cls(
            fingerprint=problem.fingerprint, prices=np.array(prices), slope=float(slope), value=value,
            intercept=0.0, proofs=tuple(proofs), coarsening=coarsening, cells=cells,
        )  # fmt: skip
        return replace(made, intercept=made._line(problem) - _RESERVE)

    def on_members(self, problem: Problem, cells: NDArray[np.int32]) -> Certificate:
        """This certificate of a table of classes for ``problem``, whose symbol x belongs to class ``cells[x]``."""
        known = self._members.get(problem.fingerprint)
        if known is None:
            prices = self.prices[cells]
            cells = cells if self.cells is None else self.cells[cells]
            known = Certificate.build(problem, prices, self.slope, self.proofs, self.coarsening, cells)
            self._members[problem.fingerprint] = known
        return known

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at, over all components."""
        return sum(proof.n_nodes for proof in self.proofs)

    def lower_bound(self, disclosure: float) -> float:
        """The proved lower bound on L(R) at ``disclosure`` nats: affine in R, valid for every R."""
        return self.intercept + self.slope * float(disclosure)

    def verify(self, problem: Problem) -> float:
        """Prove the claim again for ``problem``, from the stored numbers alone.

        Returns:
            The proved lower bound on min F, in nats.

        Raises:
            CertificateError: It belongs to another problem, is damaged, or does not prove what it claims.
        """
        verify_all(problem, [self])
        return self.value

    def _proved(self, problem: Problem) -> bool:
        """Whether exactly this has been verified before; raise where it belongs to another problem."""
        check_owner(self.fingerprint, problem)
        return self._digest() in self._verified

    def _conclude(self, problem: Problem) -> None:
        """The steps from the trees' claims to the line."""
        proved = combine([proof.claim for proof in self.proofs], self.slope)
        if not self.value <= proved:
            raise CertificateError(
                f"the certificate claims min F ≥ {self.value!r}, its trees prove {proved!r}"
            )
        line = self._line(problem)
        if not self.intercept <= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at R = 0, it proves {line!r}"
            )
        self._verified.add(self._digest())

    def _digest(self) -> str:
        """SHA-256 of everything the proof consists of: what was verified once need not be verified again."""
        groups = (self.coarsening, self.cells)
        numbers: list[Any] = [self.fingerprint, self.slope, self.value, self.intercept]
        numbers += [each is None for each in groups]
        arrays: list[NDArray[Any]] = [self.prices, *(each for each in groups if each is not None)]
        for proof in self.proofs:
            numbers += [type(proof).__name__, proof.claim]
            arrays += _arrays(proof)
            if isinstance(proof, ChainProof):
                numbers.append([(step.slope, step.rest, step.proof.claim) for step in proof.steps])
        return digest_of(numbers, arrays)

    def _line(self, problem: Problem) -> float:
        """``H(S) + a·p_x − μ H(X) + value``, lowered by a rounding allowance: what the line is at R = 0, in nats."""
        groups = self.coarsening
        p_s = problem.p_s if groups is None else _coarsen(problem.p_sx, groups).sum(axis=1)
        h_s, h_x = float(measures.entropy(p_s)), problem.disclosure_ceiling
        paid = float(self.prices @ problem.p_x)
        size = h_s + self.slope * h_x + float(np.abs(self.prices) @ problem.p_x) + abs(self.value) + 1.0
        return (
            h_s + paid - self.slope * h_x + self.value - (problem.n_x + problem.n_s + _ADDING) * _EPS * size
        )

    def _check_shapes(self, problem: Problem) -> None:
        numbers = np.array([self.slope, self.value, self.intercept])
        sound = self.prices.shape == (problem.n_x,) and self.prices.dtype == np.float64
        if not (sound and np.all(np.abs(self.prices) <= LARGEST)):
            raise CertificateError(f"the certificate's prices are not {problem.n_x} usable numbers")
        if self.cells is not None:
            self._check_cells(self.cells)
        if not (np.all(np.abs(numbers) <= LARGEST) and self.slope >= 0.0):
            raise CertificateError("the certificate's slope, value or line is not a usable number")
        groups = self.coarsening
        if groups is not None and not (
            groups.shape == (problem.n_s,)
            and groups.dtype == np.int32
            and 0 <= groups.min() <= groups.max() < problem.n_s
        ):
            raise CertificateError(f"the certificate's coarsening does not map {problem.n_s} private symbols")

    def _check_cells(self, cells: NDArray[np.int32]) -> None:
        if cells.shape != self.prices.shape or cells.dtype != np.int32:
            raise CertificateError(
                f"the certificate's cells are not those of {self.prices.size} public symbols"
            )
        numbers, first = np.unique(cells, return_index=True)
        if not np.array_equal(numbers, np.arange(numbers.size)):
            raise CertificateError(f"the certificate's {numbers.size} cells are not numbered from 0 on")
        if not np.array_equal(self.prices, self.prices[first][cells]):
            raise CertificateError("the certificate's prices differ within a cell: it is damaged")

    def _cell_prices(self) -> Array:
        """The prices of the trees' symbols: of the cells where there are any, shape (C,), of all M otherwise."""
        if self.cells is None:
            return self.prices
        return np.asarray(self.prices[np.unique(self.cells, return_index=True)[1]])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as one ``.npz`` file."""
        from privfunnel.certificate.bundle import save_bundle

        save_bundle(path, [self])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate written by :meth:`save`; use :func:`load_bundle` for a file of several."""
        from privfunnel.certificate.bundle import load_bundle

        bundle = load_bundle(path)
        if len(bundle) != 1:
            raise CertificateError(
                f"{str(path)!r} holds {len(bundle)} certificates: read it with load_bundle"
            )
        only = bundle[0]
        if not isinstance(only, Certificate):
            raise CertificateError(
                f"{str(path)!r} is about attackers or guarantees: read it with load_bundle"
            )
        return only


def verify_all(problem: Problem, certificates: Iterable[Certificate]) -> None:
    """Verify certificates of one problem together, for a fraction of what they cost one by one.

    Raises:
        CertificateError: One of them does not prove what it claims; :meth:`Certificate.verify` says of each if it does.
    """
    alike: dict[tuple[bytes, bytes], list[Certificate]] = {}
    for certificate in dict.fromkeys(certificates):  # a line may prove several points
        if not certificate._proved(problem):
            certificate._check_shapes(problem)
            key = tuple(b"" if groups is None else groups.tobytes()
                        for groups in (certificate.coarsening, certificate.cells))  # fmt: skip
            alike.setdefault((key[0], key[1]), []).append(certificate)
    for together in alike.values():
        whole = [c for c in together if not all(isinstance(proof, Proof) for proof in c.proofs)]
        for certificate in whole:
            _verify_whole(problem, certificate)
        trees = [c for c in together if c not in whole]
        if trees:
            _verify_alike(problem, trees)


def _verify_whole(problem: Problem, certificate: Certificate) -> None:
    """Verify a certificate that consists of one proof for the whole table."""
    proof = certificate.proofs[0]
    if len(certificate.proofs) != 1 or isinstance(proof, Proof):
        raise CertificateError("the certificate mixes trees and other proofs: it is damaged")
    table = _coarsen(problem.p_s_given_x, certificate.coarsening)
    columns, exact = cell_columns(table, certificate.cells)
    if not exact:
        raise CertificateError(
            "the certificate's cells hold different p(s|x), which only trees can prove: it is damaged"
        )
    spread = spread_within(table, columns, certificate.cells)
    prices, slope = certificate._cell_prices(), certificate.slope
    if isinstance(proof, PairsProof):
        check_pairs(columns, prices, slope, proof, spread)
    elif isinstance(proof, SupportsProof):
        check_supports(columns, prices, slope, proof, spread)
    elif isinstance(proof, ThinProof):
        check_thinning(columns, prices, slope, proof, spread)
    elif isinstance(proof, CliqueProof):
        check_cliques(columns, prices, slope, proof)
    else:
        check_chain(columns, prices, slope, proof, spread)
    certificate._conclude(problem)


def _verify_alike(problem: Problem, together: list[Certificate]) -> None:
    """Verify certificates that share coarsening and cells, so that their trees speak of the same columns."""
    table, exact = cell_columns(_coarsen(problem.p_s_given_x, together[0].coarsening), together[0].cells)
    parts = components(table)
    for certificate in together:
        if len(parts) != len(certificate.proofs):
            raise CertificateError(
                f"the certificate has {len(certificate.proofs)} trees for {len(parts)} components: it is damaged"
            )
    for number, (s, x) in enumerate(parts):
        columns = np.ascontiguousarray(table[np.ix_(s, x)].T)
        trees = [proof for c in together if isinstance(proof := c.proofs[number], Proof)]
        cases = [
            Case(prices=c._cell_prices()[x], slope=c.slope, proof=tree)
            for c, tree in zip(together, trees, strict=True)
        ]
        check(columns, cases, exclusive=exact)
    for certificate in together:
        certificate._conclude(problem)


def _coarsen(p_s_given_x: Array, groups: NDArray[np.int32] | None) -> Array:
    """p(s'|x) of merged private symbols, shape (number of groups, M)."""
    if groups is None:
        return p_s_given_x
    merged = np.zeros((int(groups.max()) + 1, p_s_given_x.shape[1]))
    np.add.at(merged, groups, p_s_given_x)
    kept: Array = merged[merged.sum(axis=1) > 0.0]
    return kept


def _arrays(proof: AnyProof) -> list[NDArray[Any]]:
    """All arrays of a proof."""
    if isinstance(proof, ChainProof):
        arrays: list[NDArray[Any]] = [proof.shares]
        for step in proof.steps:
            arrays += [step.sides, step.prices, step.cells, *_arrays(step.proof)]
        return arrays
    if isinstance(proof, PairsProof):
        return [proof.outer, proof.inner]
    if isinstance(proof, SupportsProof):
        return []
    if isinstance(proof, ThinProof):
        return [proof.measure]
    if isinstance(proof, CliqueProof):
        return [proof.cliques, *_arrays(proof.tree)]
    return [proof.q, proof.nu, proof.variable, proof.split, proof.first]
