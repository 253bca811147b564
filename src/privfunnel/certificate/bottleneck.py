r"""Certificates of the information bottleneck: proofs that no channel of a rate tells more about S.

For any prices a (M,) and slope μ > 0, writing F(w) = −H(Pw) + μ H(w) − a·w over posteriors w, P = p(s|x), every channel
with I(X;Y) ≤ R satisfies, in nats,

    I(S;Y) ≤ H(S) + a·p_x − μ (H(X) − R) + max_w F(w),

because Σ r_y w_y = p_x. What has to be proved is an upper bound of max F, and for that a tree of boxes l ≤ t ≤ u of
t = Pw, which has K entries however many public symbols there are. On a box each t_k log t_k lies below a chord,
t_k log t_k ≤ α_k + β_k t_k, which leaves a maximum over w that is known:

    max F ≤ Σ_k α_k + μ log Σ_x exp((β·p_x − a_x)/μ)     on the box, p_x being column x of P.

Outside the box the chord lies below t log t, so that a small box costs little. Whatever β is stored or rounded to, α is
the larger of what the two ends ask for, which makes the chord valid: t log t is convex.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.archive import Archive, FileKind
from privfunnel.certificate.blocks import Block, walk
from privfunnel.certificate.checker import SIMPLEX_SLACK
from privfunnel.certificate.identity import check_owner, digest_of
from privfunnel.certificate.tree import LARGEST, LEAF
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx
from privfunnel.problem import Problem

FILES = FileKind("privfunnel/bottleneck-certificate", 1, "a bottleneck", "bottleneck --out")

#: The unit of rounding errors.
_EPS = float(np.finfo(np.float64).eps)
#: Slopes below this would overflow the exponentials, and prove nothing that the closed form min(R, I(S;X)) does not.
SMALLEST_SLOPE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxTree:
    """A tree of boxes of t = p(s|y), n nodes, node 0 the root; a child has a larger number than its parent.

    Attributes:
        variable: Private symbol split on, or LEAF, shape (n,).
        split: The left child has ``t ≤ split``, the right one ``t ≥ split``, shape (n,).
        first: Number of the left child; the right one follows it, shape (n,).
    """

    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in (self.variable, self.split, self.first):
            array.setflags(write=False)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.split.size)


def root_box(p_s_given_x: Array) -> tuple[Array, Array]:
    """The box that holds every t = Pw: between the least and the largest entry of each row of P, each (1, K)."""
    return p_s_given_x.min(axis=1)[None], p_s_given_x.max(axis=1)[None]


def shrunken(lower: Array, upper: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Boxes (n, K) made smaller by Σ t = 1, and which of them hold any t at all, (n,)."""
    low, high = lower.sum(axis=1, keepdims=True), upper.sum(axis=1, keepdims=True)
    new_upper = np.minimum(upper, lower + (1.0 - low) + SIMPLEX_SLACK)
    new_lower = np.maximum(lower, upper - (high - 1.0) - SIMPLEX_SLACK)
    full = (low <= 1.0 + SIMPLEX_SLACK) & (high >= 1.0 - SIMPLEX_SLACK)
    return new_lower, new_upper, np.all(full & (new_lower <= new_upper), axis=1)


def chords(lower: Array, upper: Array) -> tuple[Array, Array]:
    """α and β, each (n, K), with t log t ≤ α + βt wherever lower ≤ t ≤ upper, rounding allowed for."""
    at_lower, at_upper, width = xlogx(lower), xlogx(upper), upper - lower
    wide = width > 1e-12
    tangent = np.log(np.maximum(upper, 1e-12)) + 1.0
    beta = np.where(wide, (at_upper - at_lower) / np.where(wide, width, 1.0), tangent)
    alpha = np.maximum(at_lower - beta * lower, at_upper - beta * upper)
    return alpha + 8.0 * _EPS * (np.abs(beta) * upper + 1.0), beta


def box_bounds(p_s_given_x: Array, prices: Array, slope: float, lower: Array, upper: Array) -> Array:
    """An upper bound of F on each of n boxes ``lower`` ≤ t ≤ ``upper``, (n, K), rounding allowed for, shape (n,)."""
    n_s, n_x = p_s_given_x.shape
    alpha, beta = chords(lower, upper)
    exponents = (beta @ p_s_given_x - prices) / slope
    top = exponents.max(axis=1)
    summed = np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    size = (np.abs(beta) @ p_s_given_x + np.abs(prices)).max(axis=1)
    rounding = (
        (n_s + 16) * _EPS * size
        + slope * (n_x + 16) * _EPS * (1.0 + np.abs(summed))
        + (n_s + 8) * _EPS * (np.abs(alpha).sum(axis=1) + 1.0)
    )
    return np.asarray(alpha.sum(axis=1) + slope * (top + summed) + rounding)


@dataclass(frozen=True, kw_only=True, eq=False)
class BottleneckCertificate:
    """Proof of the line I(S;Y) ≤ ``intercept + slope``·R for all channels with I(X;Y) ≤ R, in nats.

    Attributes:
        fingerprint: The problem it belongs to.
        prices: a, shape (M,).
        slope: μ > 0.
        value: What max F is at most.
        intercept: The line at R = 0.
        tree: Boxes on each of which F ≤ ``value``.
    """

    fingerprint: str
    prices: Array
    slope: float
    value: float
    intercept: float
    tree: BoxTree
    _verified: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    def __repr__(self) -> str:
        """One line with the proved line and the size of the proof."""
        return (
            f"BottleneckCertificate(I(S;Y) ≤ {self.intercept:.6g} + {self.slope:.6g} R, {self.n_nodes} boxes)"
        )

    @classmethod
    def build(
        cls, problem: Problem, prices: Array, slope: float, value: float, tree: BoxTree
    ) -> BottleneckCertificate:
        """The certificate of a tree on which F ≤ ``value``; claims no more than that proves."""
        intercept = _line(problem, prices, slope, value) + 1e-13
        return cls(
            fingerprint=problem.fingerprint, prices=np.array(prices), slope=float(slope), value=float(value),
            intercept=intercept, tree=tree,
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at."""
        return self.tree.n_nodes

    def upper_bound(self, rate: float) -> float:
        """No channel with I(X;Y) ≤ ``rate`` tells more about S, in nats."""
        return self.intercept + self.slope * float(rate)

    def told(self, unit: str) -> str:
        """What is proved, for people, in ``unit``, one of nats and bits."""
        return f"I(S;Y) ≤ {self.intercept / measures.nats_per(unit):.9f} + {self.slope:.9f} R"

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
        self._check_boxes(problem.p_s_given_x)
        line = _line(problem, self.prices, self.slope, self.value)
        if not self.intercept >= line:
            raise CertificateError(
                f"the certificate claims the line {self.intercept!r} at R = 0, it proves {line!r}"
            )
        self._verified.add(digest)

    def _check_boxes(self, p_s_given_x: Array) -> None:
        """Raise CertificateError unless F ≤ ``value`` on every leaf that holds some t."""
        root = Block(np.zeros(1, dtype=np.intp), *root_box(p_s_given_x))
        walk(root, self.n_nodes, lambda block: self._check_block(p_s_given_x, block))

    def _check_block(self, p_s_given_x: Array, block: Block) -> Block | None:
        """Bound the leaves of a block that hold some t, and return the children of the others; None if there are none.

        Raises:
            CertificateError: A bound is above ``value``.
        """
        lower, upper, full = shrunken(block.lower, block.upper)
        block = Block(block.nodes, lower, upper).where(full)
        leaf = self.tree.variable[block.nodes] == LEAF
        ends = block.where(leaf)
        bounds = box_bounds(p_s_given_x, self.prices, self.slope, ends.lower, ends.upper)
        if not np.all(bounds <= self.value):  # written so that what is not a number fails
            over = float(np.max(bounds)) - self.value
            raise CertificateError(
                f"the certificate does not prove its claim: a box is {over:.3g} nats above it"
            )
        return None if np.all(leaf) else _children(self.tree, block.where(~leaf))

    def _check_form(self, problem: Problem) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        tree, n = self.tree, self.tree.n_nodes
        numbers = np.array([self.slope, self.value, self.intercept])
        if self.prices.shape != (problem.n_x,) or self.prices.dtype != np.float64:
            raise CertificateError(f"the certificate's prices are not {problem.n_x} numbers: it is damaged")
        usable = np.all(np.abs(self.prices) <= LARGEST) and np.all(np.abs(numbers) <= LARGEST)
        if not (usable and self.slope >= SMALLEST_SLOPE):
            raise CertificateError("the certificate's prices, slope, value or line are not usable numbers")
        kinds = "".join(array.dtype.char for array in (tree.variable, tree.split, tree.first))
        if kinds != "idi" or n == 0:
            raise CertificateError("the certificate's tree is damaged: its arrays are not of the right type")
        if not tree.variable.shape == tree.split.shape == tree.first.shape == (n,):
            raise CertificateError("the certificate's tree is damaged: its arrays do not fit each other")
        if np.any(tree.variable >= problem.n_s) or np.any(tree.variable < LEAF):
            raise CertificateError(
                "the certificate's tree is damaged: it splits a symbol that does not exist"
            )
        if not np.all((tree.split >= 0.0) & (tree.split <= 1.0)):
            raise CertificateError("the certificate's tree is damaged: a split lies outside [0, 1]")
        inner, first = tree.variable != LEAF, tree.first.astype(np.int64)
        if np.any((first <= np.arange(n))[inner]) or np.any((first + 2 > n)[inner]):
            raise CertificateError("the certificate's tree is damaged: a child is missing")

    def _digest(self) -> str:
        """SHA-256 of everything the proof consists of: what was verified once need not be verified again."""
        head, tree = (self.fingerprint, self.slope, self.value, self.intercept), self.tree
        return digest_of(head, [self.prices, tree.variable, tree.split, tree.first])


def _children(tree: BoxTree, block: Block) -> Block:
    """Both children of nodes and their boxes: t_k ≤ split and t_k ≥ split."""
    nodes, lower, upper = block
    rows, variable, split = np.arange(nodes.size), tree.variable[nodes], tree.split[nodes]
    left, right = upper.copy(), lower.copy()
    left[rows, variable] = np.minimum(upper[rows, variable], split)
    right[rows, variable] = np.maximum(lower[rows, variable], split)
    first = tree.first[nodes].astype(np.intp)
    return Block(
        np.concatenate([first, first + 1]),
        np.concatenate([lower, right]),
        np.concatenate([left, upper]),
    )


def _line(problem: Problem, prices: Array, slope: float, value: float) -> float:
    """``H(S) + a·p_x − μ H(X) + value``, raised by a rounding allowance: what the line is at R = 0, in nats."""
    h_s, h_x = problem.h_s, problem.disclosure_ceiling
    size = h_s + slope * h_x + float(np.abs(prices) @ problem.p_x) + abs(value) + 1.0
    allowance = (problem.n_x + problem.n_s + 16) * _EPS * size + problem.rounding
    return h_s + float(prices @ problem.p_x) - slope * h_x + value + allowance


def save_bottleneck(path: str | os.PathLike[str], certificates: Iterable[BottleneckCertificate]) -> None:
    """Write certificates, e.g. those of a curve, as one compressed ``.npz`` file, for the user alone."""
    FILES.save(path, map(_arrays, certificates))


def is_bottleneck(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it holds certificates of the bottleneck."""
    return FILES.named_by(path)


def load_bottleneck(path: str | os.PathLike[str]) -> tuple[BottleneckCertificate, ...]:
    """Read what :func:`save_bottleneck` wrote, from a file that anybody may have made.

    Raises:
        CertificateError: The file cannot be read as certificates of the bottleneck.
    """
    return FILES.load(path, _read)


def _arrays(certificate: BottleneckCertificate) -> dict[str, Any]:
    tree = certificate.tree
    return {
        "fingerprint": np.array(certificate.fingerprint),
        "prices": certificate.prices,
        "numbers": np.array([certificate.slope, certificate.value, certificate.intercept]),
        "variable": tree.variable,
        "split": tree.split,
        "first": tree.first,
    }


def _read(data: Archive, c: int) -> BottleneckCertificate:
    head = data.head(c, "slope", "value", "intercept")
    return BottleneckCertificate(
        **head,
        prices=data.floats(f"{c}.prices"),
        tree=BoxTree(
            variable=data.integers(f"{c}.variable"),
            split=data.floats(f"{c}.split"),
            first=data.integers(f"{c}.first"),
        ),
    )
