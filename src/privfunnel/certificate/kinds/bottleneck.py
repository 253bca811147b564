r"""The information bottleneck: proofs that no channel of a rate tells more about S.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.archive import Archive
from privfunnel.certificate.blocks import Block, walk
from privfunnel.certificate.checker import SIMPLEX_SLACK
from privfunnel.certificate.claim import Claim
from privfunnel.certificate.proof import Body, Certificate, usable
from privfunnel.certificate.tree import LARGEST, LEAF
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays, xlogx
from privfunnel.model.problem import Problem

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
class BottleneckBody(Body):
    """Prices, and boxes on each of which F is at most ``value`` with them.

    Attributes:
        prices: a, shape (M,).
        value: What max F is at most.
        tree: Boxes on each of which F ≤ ``value``.
    """

    kind: ClassVar[str] = "bottleneck"
    says: ClassVar[frozenset[str]] = frozenset({"disclosure", "weights"})
    turned: ClassVar[bool] = True

    prices: Array
    value: float
    tree: BoxTree

    def __post_init__(self) -> None:
        self.prices.setflags(write=False)

    @classmethod
    def build(cls, problem: Problem, prices: Array, slope: float, value: float, tree: BoxTree) -> Certificate:
        """The certificate of a tree on which F ≤ ``value``; claims no more than that proves."""
        claim = Claim(constant=0.0, disclosure=-float(slope), weights=-np.ones(1))
        return Certificate.build(problem, claim, cls(prices=np.array(prices), value=float(value), tree=tree))

    @property
    def n_nodes(self) -> int:
        """Number of boxes looked at."""
        return self.tree.n_nodes

    def arrays(self) -> Arrays:
        """All that is stored, by name."""
        tree = self.tree
        return {
            "prices": self.prices, "value": np.array(self.value),
            "variable": tree.variable, "split": tree.split, "first": tree.first,
        }  # fmt: skip

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(
            prices=archive.floats(f"{place}.prices"),
            value=float(archive[f"{place}.value"]),
            tree=BoxTree(
                variable=archive.integers(f"{place}.variable"),
                split=archive.floats(f"{place}.split"),
                first=archive.integers(f"{place}.first"),
            ),
        )

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Raise CertificateError unless F is at most each one's value."""
        for claim, body in proofs:
            body._check_boxes(problem.p_s_given_x, -claim.disclosure)

    def line(self, problem: Problem, claim: Claim) -> float:
        """``μ H(X) − H(S) − a·p_x − value``, lowered by a rounding allowance: minus what the line is at R = 0."""
        slope, value = -claim.disclosure, self.value
        h_s, h_x, paid = problem.h_s, problem.disclosure_ceiling, float(self.prices @ problem.p_x)
        size = h_s + slope * h_x + float(np.abs(self.prices) @ problem.p_x) + abs(value) + 1.0
        allowance = (problem.n_x + problem.n_s + 16) * _EPS * size + problem.rounding
        return -(h_s + paid - slope * h_x + value + allowance)

    def _check_boxes(self, p_s_given_x: Array, slope: float) -> None:
        """Raise CertificateError unless F ≤ ``value`` on every leaf that holds some t."""
        root = Block(np.zeros(1, dtype=np.intp), *root_box(p_s_given_x))
        walk(root, self.n_nodes, lambda block: self._check_block(p_s_given_x, slope, block))

    def _check_block(self, p_s_given_x: Array, slope: float, block: Block) -> Block | None:
        """Bound the leaves of a block that hold some t, and return the children of the others; None if there are none.

        Raises:
            CertificateError: A bound is above ``value``.
        """
        lower, upper, full = shrunken(block.lower, block.upper)
        block = Block(block.nodes, lower, upper).where(full)
        leaf = self.tree.variable[block.nodes] == LEAF
        ends = block.where(leaf)
        bounds = box_bounds(p_s_given_x, self.prices, slope, ends.lower, ends.upper)
        if not np.all(bounds <= self.value):  # written so that what is not a number fails
            over = float(np.max(bounds)) - self.value
            raise CertificateError(
                f"the certificate does not prove its claim: a box is {over:.3g} nats above it"
            )
        return None if np.all(leaf) else _children(self.tree, block.where(~leaf))

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError unless all numbers are such as the arithmetic relies on."""
        tree, n = self.tree, self.tree.n_nodes
        if claim.weights.tolist() != [-1.0]:
            raise CertificateError("the certificate is not about I(S;Y): it is damaged")
        sound = usable(self.prices, (problem.n_x,), LARGEST) and abs(self.value) <= LARGEST
        if not (sound and -claim.disclosure >= SMALLEST_SLOPE):
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
