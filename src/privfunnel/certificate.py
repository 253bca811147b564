"""Certificates: proofs of a lower bound on the funnel, checked by plain arithmetic without the solver that made them.

For any prices a (M,) and slope μ ≥ 0, writing F(w) = −H(Pw) + μ H(w) − a·w over posteriors w, P = p(s|x),

    L(R) ≥ H(S) + a·p_x − μ (H(X) − R) + min_w F(w)      for every R  (nats).

What has to be proved is a lower bound on min F. Where the bipartite graph of P's nonzeros falls into components,
each has its own minimum f_c, and min F = −(1−μ) log Σ exp(−f_c/(1−μ)) for μ < 1, min f_c for μ ≥ 1. One component is
proved by a tree of boxes l ≤ w ≤ u that covers its simplex. A node holds multipliers q (normalised here, so any q is
safe) and ν: with Σ t log t ≥ q·t and e_i(w) = (p_i·q − a_i − ν) w − μ w log w, which is concave,

    F(w) ≥ ν + Σ_i e_i(w_i) ≥ ν + Σ_i min(e_i(l_i), e_i(u_i)).

If that reaches the claim the box is done. Otherwise the ends of [l_i, u_i] where e_i alone lifts the sum to the
claim are cut off, and the rest is handed to the node's children. Every bound is lowered by a rounding allowance first.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from privfunnel import measures
from privfunnel.errors import CertificateError, InvalidInputError
from privfunnel.files import write_bytes
from privfunnel.measures import Array, xlogx
from privfunnel.problem import Problem

Index = NDArray[np.intp]

SCHEMA = "privfunnel/certificate"
SCHEMA_VERSION = 1

#: Values of ``Proof.variable`` that are not a symbol to split on.
LEAF, SHRINK = -1, -2

#: Room left around a box when Σ w = 1 is used on it: far above the rounding of a sum of M numbers.
SIMPLEX_SLACK = 1e-12

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 2048


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
    return least - spread - 8.0 * _EPS * (abs(least) + spread + 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Proof:
    """A tree of boxes that proves F ≥ ``claim`` on one component's simplex; n nodes, node 0 is the root.

    Attributes:
        claim: The value proved, in nats.
        q: Multipliers of Pw, shape (n, K_c).
        nu: Multiplier of Σ w = 1, shape (n,).
        variable: Symbol split on, LEAF or SHRINK (one child, the shrunken box), shape (n,).
        split: The left child has ``w ≤ split[0]``, the right one ``w ≥ split[1]``, shape (n, 2).
        first: Number of the first child; the second follows it, shape (n,).
    """

    claim: float
    q: Array
    nu: Array
    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in (self.q, self.nu, self.variable, self.split, self.first):
            array.setflags(write=False)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.nu.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Proof of the line ``intercept + slope·R`` below the whole curve L(R), in nats.

    Attributes:
        fingerprint: The problem it belongs to.
        prices: a, shape (M,).
        slope: μ ≥ 0.
        value: Proved lower bound on min F.
        intercept: The line at R = 0.
        proofs: One tree a component, in the order of :func:`components`.
        coarsening: None, or for each private symbol the group it is merged into, shape (K,): since S' is then a
            function of S, a bound on its leakage is a bound on S's.
    """

    fingerprint: str
    prices: Array
    slope: float
    value: float
    intercept: float
    proofs: tuple[Proof, ...]
    coarsening: NDArray[np.int32] | None = None
    _verified: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    @classmethod
    def build(
        cls,
        problem: Problem,
        prices: Array,
        slope: float,
        proofs: Sequence[Proof],
        coarsening: NDArray[np.int32] | None = None,
    ) -> Certificate:
        """The certificate of some trees; claims nothing that :meth:`verify` would not compute from them."""
        value = combine([proof.claim for proof in proofs], slope)
        intercept = _intercept(problem, prices, slope, value, coarsening)
        return cls(
            fingerprint=problem.fingerprint, prices=np.array(prices), slope=float(slope), value=value,
            intercept=intercept - 1e-13, proofs=tuple(proofs), coarsening=coarsening,
        )  # fmt: skip

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
        if problem.fingerprint != self.fingerprint:
            raise CertificateError(
                f"the certificate belongs to another problem (fingerprint {self.fingerprint[:12]}…, this one is "
                f"{problem.fingerprint[:12]}…): verify it with the table it was made for"
            )
        if problem.fingerprint in self._verified:
            return self.value
        self._check_shapes(problem)
        p_s_given_x = _coarsen(problem.p_s_given_x, self.coarsening)
        parts = components(p_s_given_x)
        if len(parts) != len(self.proofs):
            raise CertificateError(
                f"the certificate has {len(self.proofs)} trees for {len(parts)} components: it is damaged"
            )
        for (s, x), proof in zip(parts, self.proofs, strict=True):
            check(np.ascontiguousarray(p_s_given_x[np.ix_(s, x)].T), self.prices[x], self.slope, proof)
        proved = combine([proof.claim for proof in self.proofs], self.slope)
        if not self.value <= proved:
            raise CertificateError(
                f"the certificate claims min F ≥ {self.value!r}, its trees prove {proved!r}"
            )
        line = _intercept(problem, self.prices, self.slope, self.value, self.coarsening)
        if not self.intercept <= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at R = 0, it proves {line!r}"
            )
        self._verified.add(problem.fingerprint)
        return self.value

    def _check_shapes(self, problem: Problem) -> None:
        numbers = np.array([self.slope, self.value, self.intercept])
        if self.prices.shape != (problem.n_x,) or not np.all(np.isfinite(self.prices)):
            raise CertificateError(f"the certificate's prices are not {problem.n_x} finite numbers")
        if not np.all(np.isfinite(numbers)) or self.slope < 0.0:
            raise CertificateError("the certificate's slope, value or line is not a usable number")
        groups = self.coarsening
        if groups is not None and (groups.shape != (problem.n_s,) or groups.min() < 0):
            raise CertificateError(f"the certificate's coarsening does not map {problem.n_s} private symbols")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as one ``.npz`` file."""
        save_bundle(path, [self])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate written by :meth:`save`; use :func:`load_bundle` for a file of several."""
        bundle = load_bundle(path)
        if len(bundle) != 1:
            raise CertificateError(
                f"{str(path)!r} holds {len(bundle)} certificates: read it with load_bundle"
            )
        return bundle[0]


def _coarsen(p_s_given_x: Array, groups: NDArray[np.int32] | None) -> Array:
    """p(s'|x) of merged private symbols, shape (number of groups, M)."""
    if groups is None:
        return p_s_given_x
    merged = np.zeros((int(groups.max()) + 1, p_s_given_x.shape[1]))
    np.add.at(merged, groups, p_s_given_x)
    kept: Array = merged[merged.sum(axis=1) > 0.0]
    return kept


def _intercept(
    problem: Problem, prices: Array, slope: float, value: float, groups: NDArray[np.int32] | None
) -> float:
    """``H(S) + a·p_x − μ H(X) + value``, lowered by a rounding allowance."""
    p_s = problem.p_s if groups is None else _coarsen(problem.p_sx, groups).sum(axis=1)
    h_s, h_x = float(measures.entropy(p_s)), problem.disclosure_ceiling
    paid = float(prices @ problem.p_x)
    size = h_s + slope * h_x + float(np.abs(prices) @ problem.p_x) + abs(value) + 1.0
    return h_s + paid - slope * h_x + value - (problem.n_x + problem.n_s + 16) * _EPS * size


# --- checking one tree ------------------------------------------------------------------------------------------


def check(columns: Array, prices: Array, slope: float, proof: Proof) -> None:
    """Raise CertificateError unless the tree proves F ≥ ``proof.claim`` on the simplex of one component.

    Args:
        columns: Pᵀ of the component, shape (M_c, K_c).
        prices: a of the component, shape (M_c,).
        slope: μ.
        proof: The tree.
    """
    _check_tree(columns, proof)
    n_x = columns.shape[0]
    seen = np.zeros(proof.n_nodes, dtype=bool)
    pending = [(np.zeros(1, dtype=np.intp), np.zeros((1, n_x)), np.ones((1, n_x)))]
    while pending:
        nodes, lower, upper = pending.pop()
        if nodes.size > _BLOCK:
            half = nodes.size // 2
            pending += [
                (nodes[:half], lower[:half], upper[:half]),
                (nodes[half:], lower[half:], upper[half:]),
            ]
            continue
        if np.any(seen[nodes]) or np.unique(nodes).size < nodes.size:
            raise CertificateError("the certificate's tree is damaged: a box has two parents")
        seen[nodes] = True
        children = _check_block(columns, prices, slope, proof, nodes, lower, upper)
        if children is not None:
            pending.append(children)


def _check_tree(columns: Array, proof: Proof) -> None:
    """Shapes, finiteness and the ranges that the arithmetic relies on."""
    n, (n_x, n_s) = proof.n_nodes, columns.shape
    shapes = (proof.q.shape, proof.variable.shape, proof.split.shape, proof.first.shape)
    if n == 0 or shapes != ((n, n_s), (n,), (n, 2), (n,)):
        raise CertificateError("the certificate's tree is damaged: its arrays do not fit the problem")
    finite = [np.all(np.isfinite(array)) for array in (proof.q, proof.nu, proof.split)]
    if not (all(finite) and np.isfinite(proof.claim)):
        raise CertificateError("the certificate's tree is damaged: it holds numbers that are not finite")
    if np.any(proof.variable >= n_x) or np.any(proof.variable < SHRINK):
        raise CertificateError("the certificate's tree is damaged: it splits a symbol that does not exist")
    if np.any(proof.split < 0.0) or np.any(proof.split > 1.0):
        raise CertificateError("the certificate's tree is damaged: a split lies outside [0, 1]")
    inner = proof.variable != LEAF
    children = np.where(proof.variable >= 0, 2, 1)
    first = proof.first.astype(np.int64)
    if np.any((first <= np.arange(n))[inner]) or np.any((first + children > n)[inner]):
        raise CertificateError("the certificate's tree is damaged: a child is missing")


def _check_block(
    columns: Array, prices: Array, slope: float, proof: Proof, nodes: Index, lower: Array, upper: Array
) -> tuple[Index, Array, Array] | None:
    """Bound the boxes of some nodes, shrink those that are not done, and return their children."""
    n_x, n_s = columns.shape
    q = proof.q[nodes]
    q = q - np.asarray(logsumexp(q, axis=1, keepdims=True)) - 8.0 * n_s * _EPS * (1.0 + np.abs(q).max())
    nu = proof.nu[nodes][:, None]
    rates = q @ columns.T - prices - nu
    size = np.abs(q) @ columns.T + np.abs(prices) + np.abs(nu)
    e_low, e_high = rates * lower - slope * xlogx(lower), rates * upper - slope * xlogx(upper)
    # What one evaluation of e_i may be off by, anywhere in its interval: |w log w| is at most 1/e there.
    noise = 16.0 * _EPS * (np.abs(rates) * upper + 0.4 * slope)
    least = np.minimum(e_low, e_high)
    # Rates are off by their own rounding, which Σ w = 1 turns into its maximum; sums by γ_M times their size.
    rounding = (
        (n_s + 16) * _EPS * size.max(axis=1)
        + noise.sum(axis=1)
        + (n_x + 8) * _EPS * (np.abs(nu[:, 0]) + np.abs(least).sum(axis=1))
        + 8.0 * n_s * _EPS
    )
    bound = nu[:, 0] + least.sum(axis=1) - rounding
    excess = proof.claim - bound
    open_ = excess > 0.0
    if not open_.any():
        return None
    nodes, lower, upper, rates, least = nodes[open_], lower[open_], upper[open_], rates[open_], least[open_]
    excess, noise = excess[open_][:, None], noise[open_]
    lower, upper = _shrink(rates, slope, excess, noise, lower, upper, e_low[open_], e_high[open_])
    lower, upper, full = _propagate(lower, upper)
    nodes, lower, upper, rates = nodes[full], lower[full], upper[full], rates[full]
    excess, noise, least = excess[full][:, 0], noise[full], least[full]
    variable = proof.variable[nodes]
    leaf = variable == LEAF
    if leaf.any():
        raise CertificateError(
            f"the certificate does not prove its claim: a box is {float(excess[leaf].max()):.3g} nats short of it"
        )
    if nodes.size == 0:
        return None
    _check_holes(rates, slope, excess, noise, least, variable, proof.split[nodes])
    return _children(proof, nodes, variable, lower, upper)


def _shrink(
    rates: Array,
    slope: float,
    excess: Array,
    noise: Array,
    lower: Array,
    upper: Array,
    e_low: Array,
    e_high: Array,
) -> tuple[Array, Array]:
    """Cut off the ends of the intervals where e_i alone lifts the bound to the claim, all arrays (nodes, M).

    A secant of the concave e_i lands where e_i is at least as high as asked; two of them are taken. The new end and the
    old one are then checked by evaluation, which makes the part between them safe.
    """
    asked = excess + 4.0 * noise
    rise = e_high - e_low
    base = np.minimum(e_low, e_high)
    steep = np.abs(rise) > asked
    width = (upper - lower) * np.where(steep, asked / np.where(steep, np.abs(rise), 1.0), 1.0)

    def end_at(width: Array) -> tuple[Array, Array]:
        end = np.where(rise > 0.0, lower + width, upper - width)
        return end, rates * end - slope * xlogx(end) - base

    _, reached = end_at(width)
    width = width * np.where(reached > asked, asked / np.where(reached > asked, reached, 1.0), 1.0)
    end, reached = end_at(width)
    safe = steep & (reached - 2.0 * noise >= excess)
    return np.where(safe & (rise < 0.0), end, lower), np.where(safe & (rise > 0.0), end, upper)


def _propagate(lower: Array, upper: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Use Σ w = 1 on boxes (nodes, M); the mask is False where a box misses the simplex."""
    low, high = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
    full = (low <= 1.0 + SIMPLEX_SLACK) & (high >= 1.0 - SIMPLEX_SLACK)
    new_upper = np.minimum(upper, lower + (1.0 - low) + SIMPLEX_SLACK)
    new_lower = np.maximum(lower, upper - (high - 1.0) - SIMPLEX_SLACK)
    return new_lower, new_upper, full[:, 0]


def _check_holes(
    rates: Array,
    slope: float,
    excess: Array,
    noise: Array,
    least: Array,
    variable: NDArray[np.int32],
    split: Array,
) -> None:
    """Raise unless every part between two children is above the claim by its e_i alone (at both ends, so inside)."""
    holes = np.flatnonzero((variable >= 0) & (split[:, 0] < split[:, 1]))
    i = variable[holes]
    ends = split[holes]
    height = rates[holes, i][:, None] * ends - slope * xlogx(ends) - least[holes, i][:, None]
    if np.any(height.min(axis=1, initial=np.inf) - 2.0 * noise[holes, i] < excess[holes]):
        raise CertificateError("the certificate does not prove its claim: a split leaves out too much")


def _children(
    proof: Proof, nodes: Index, variable: NDArray[np.int32], lower: Array, upper: Array
) -> tuple[Index, Array, Array]:
    """Boxes of the children: one for SHRINK, two for a split."""
    first = proof.first[nodes].astype(np.intp)
    both = np.flatnonzero(variable >= 0)
    left_upper = upper.copy()
    left_upper[both, variable[both]] = np.minimum(upper[both, variable[both]], proof.split[nodes[both], 0])
    right_lower = lower[both]
    place = np.arange(both.size)
    right_lower[place, variable[both]] = np.maximum(
        right_lower[place, variable[both]], proof.split[nodes[both], 1]
    )
    return (
        np.concatenate([first, first[both] + 1]),
        np.concatenate([lower, right_lower]),
        np.concatenate([left_upper, upper[both]]),
    )


# --- files ------------------------------------------------------------------------------------------------------

_TREE_ARRAYS = ("q", "nu", "variable", "split", "first")


def save_bundle(path: str | os.PathLike[str], certificates: Iterable[Certificate]) -> None:
    """Write certificates, e.g. those of a curve, as one compressed ``.npz`` file, whole or not at all."""
    data: dict[str, Any] = {"schema": np.array(SCHEMA), "version": np.array(SCHEMA_VERSION)}
    count = 0
    for c, certificate in enumerate(certificates):
        count += 1
        data[f"{c}.fingerprint"] = np.array(certificate.fingerprint)
        data[f"{c}.prices"] = certificate.prices
        data[f"{c}.numbers"] = np.array([certificate.slope, certificate.value, certificate.intercept])
        data[f"{c}.claims"] = np.array([proof.claim for proof in certificate.proofs])
        if certificate.coarsening is not None:
            data[f"{c}.coarsening"] = certificate.coarsening
        for t, proof in enumerate(certificate.proofs):
            data.update({f"{c}.{t}.{name}": getattr(proof, name) for name in _TREE_ARRAYS})
    data["count"] = np.array(count)
    write_bytes(path, lambda stream: np.savez_compressed(stream, **data))


def load_bundle(path: str | os.PathLike[str]) -> tuple[Certificate, ...]:
    """Read what :func:`save_bundle` wrote.

    Raises:
        CertificateError: The file cannot be read as certificates of this version.
    """
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as data:
            if str(data["schema"]) != SCHEMA:
                raise CertificateError(f"{str(path)!r} is not a certificate file: give one written by save")
            if int(data["version"]) != SCHEMA_VERSION:
                raise CertificateError(
                    f"{str(path)!r} has certificate version {int(data['version'])}, this release reads "
                    f"{SCHEMA_VERSION}: update privfunnel or write the file again"
                )
            return tuple(_read(data, c) for c in range(int(data["count"])))
    except FileNotFoundError as error:
        raise InvalidInputError(f"cannot read {str(path)!r} ({error.strerror}): check the path") from error
    except (
        OSError,
        KeyError,
        ValueError,
        EOFError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as e:
        detail = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise CertificateError(f"{str(path)!r} is not a readable certificate file ({detail})") from e


def _read(data: Any, c: int) -> Certificate:
    slope, value, intercept = (float(x) for x in data[f"{c}.numbers"])
    proofs = []
    for t, claim in enumerate(data[f"{c}.claims"]):
        q, nu, variable, split, first = (data[f"{c}.{t}.{name}"] for name in _TREE_ARRAYS)
        proofs.append(
            Proof(
                claim=float(claim),
                q=q.astype(np.float64),
                nu=nu.astype(np.float64),
                variable=variable.astype(np.int32),
                split=split.astype(np.float64),
                first=first.astype(np.int32),
            )
        )
    groups = data[f"{c}.coarsening"].astype(np.int32) if f"{c}.coarsening" in data else None
    return Certificate(
        fingerprint=str(data[f"{c}.fingerprint"]),
        prices=data[f"{c}.prices"].astype(np.float64),
        slope=slope,
        value=value,
        intercept=intercept,
        proofs=tuple(proofs),
        coarsening=groups,
    )
