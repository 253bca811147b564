"""Proofs about task funnels: for any slope μ ≥ 0, a partition of the values of p(u|y), and some q for each part.

Write P = p(s|x), Q = p(u|x), v = Qw and G(v) = −Σ_d ω_d v_d log v_d for a posterior w. For any prices a

    L(R) ≥ H(S) + a·p_x − μ (Σ_j ω_j H(U_j) − R) + min_w [−H(Pw) + μ G(Qw) − a·w]        for every R (nats).

On a box l ≤ v ≤ u each −v log v lies above its chord α + β v, and −H(t) ≥ q·t whenever Σ e^q ≤ 1. So on that box the
bracket is at least min_x [P_x·q + μ Σ_d ω_d (α_d + β_d Q_dx) − a_x], and with

    a_x = min over boxes of f_box(x),    f_box(x) = P_x·q + μ Σ_d ω_d (α_d + β_d Q_dx)

it is at least 0 on all boxes together: one pass over the symbols proves L(R) ≥ H(S) + Σ_x p_x a_x − μ (Σ ω H(U) − R),
and no price has to be stored. A box may have a tilt γ as well: with k at most the least of γ·v + μ G(v) on the box (its
chords', with Σ_d v_d = 1 in each task) f_box(x) = P_x·q − γ·Q_x + k will do, too; with the slopes of the chords, turned
around, for γ it is the function above. Of releases without leakage, Pw = p(s), the q are free: f_box(x) = (P_x −
p(s))·q + Σ ω (α + β Q_x) proves that their utility is at most Σ ω H(U) − Σ_x p_x a_x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.archive import Archive
from privfunnel.certificate.claim import Claim, Scope
from privfunnel.certificate.proof import Body, Certificate
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, Arrays
from privfunnel.model.problem import Problem
from privfunnel.model.tasks import Utility

_EPS = float(np.finfo(np.float64).eps)
#: How far p(u|y) may leave a box, or sum to something else than 1, by rounding.
_SLACK = 1e-13


@dataclass(frozen=True, eq=False)
class Partition:
    """Boxes of v = p(u|y), the leaves of a tree of cuts through the box that all of p(u|x) lie in.

    Attributes:
        variable: Row of p(u|x) that a node cuts, −1 for a leaf, shape (nodes,).
        split: Where it cuts, shape (nodes,).
        first: Its first child, which keeps what is below the cut; the next node is the other; shape (nodes,).
    """

    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]

    @property
    def n_nodes(self) -> int:
        """Nodes, leaves included."""
        return int(self.variable.size)

    @property
    def leaves(self) -> NDArray[np.intp]:
        """The nodes that are leaves, in order."""
        return np.flatnonzero(self.variable < 0)

    def boxes(self, tasks: Utility) -> tuple[Array, Array]:
        """Lower and upper ends of every node, each (nodes, D).

        Raises:
            CertificateError: It is no tree.
        """
        n, rows = self.n_nodes, tasks.rows
        low, high = np.zeros((n, rows.shape[0])), np.ones((n, rows.shape[0]))
        low[0], high[0] = rows.min(axis=1), rows.max(axis=1)
        seen = np.zeros(n, dtype=np.int64)
        for node in range(n):
            d, child = int(self.variable[node]), int(self.first[node])
            if d < 0:
                continue
            if not (d < rows.shape[0] and node < child < n - 1):
                raise CertificateError("the certificate's partition is no tree: it is damaged")
            at = float(self.split[node])
            seen[child : child + 2] += 1
            low[child : child + 2], high[child : child + 2] = low[node], high[node]
            high[child, d], low[child + 1, d] = at, at
            tighten(low[child : child + 2], high[child : child + 2], tasks.blocks)
        if not (seen[0] == 0 and np.all(seen[1:] == 1)):
            raise CertificateError("the certificate's partition is no tree: it is damaged")
        return low, high


def tighten(low: Array, high: Array, blocks: tuple[slice, ...]) -> None:
    """Shrink boxes (…, D) in place: within a task probabilities sum to 1, up to rounding."""
    for block in blocks:
        least, most = (
            low[..., block].sum(axis=-1, keepdims=True),
            high[..., block].sum(axis=-1, keepdims=True),
        )
        below = np.maximum(low[..., block], 1.0 - (most - high[..., block]) - _SLACK)
        above = np.minimum(high[..., block], 1.0 - (least - low[..., block]) + _SLACK)
        low[..., block], high[..., block] = np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0)


def chords(low: Array, high: Array) -> tuple[Array, Array]:
    """α and β with α + β v ≤ −v log v for low ≤ v ≤ high, equal at the ends up to rounding; shapes of ``low``."""
    at_low, at_high = -measures.xlogx(low), -measures.xlogx(high)
    width = high - low
    narrow = width <= 1e-9
    beta = np.where(narrow, 0.0, (at_high - at_low) / np.where(narrow, 1.0, width))
    # −v log v is concave: a line that is below it at both ends is below it in between.
    alpha = np.minimum(at_low - beta * low, at_high - beta * high)
    return alpha - 4.0 * _EPS * (1.0 + np.abs(beta)) - _SLACK * (1.0 + np.abs(beta)), beta


def least_tilted(low: Array, high: Array, weights: Array, tilts: Array, blocks: tuple[slice, ...]) -> Array:
    """At most the least of Σ_d (γ_d v_d − ω_d v_d log v_d) on each box (n, D), tasks' probabilities summing to 1.

    On chords that is a linear program with one row for each task, Σ_d v_d = 1, and the multiplier of that row is one of
    the costs; any gives a bound.

    Args:
        low: Lower ends of the boxes.
        high: Upper ends.
        weights: ω, shape (D,).
        tilts: γ, shape (n, D).
        blocks: Rows of each task.
    """
    alpha, beta = chords(low, high)
    costs = beta * weights + tilts
    total = alpha @ weights
    for block in blocks:
        c, ends = costs[:, block], (low[:, None, block], high[:, None, block])
        apart = c[:, None, :] - c[:, :, None]  # (n, the multiplier's, D)
        sums = np.minimum(apart * ends[0], apart * ends[1]).sum(axis=2) + c
        total = total + sums.max(axis=1)
    return np.asarray(total - 4.0 * _SLACK * np.abs(costs).sum(axis=1))


def empty(low: Array, high: Array, blocks: tuple[slice, ...]) -> NDArray[np.bool_]:
    """Which boxes (n, D) hold no p(u|y): an interval is empty, or no probabilities in them sum to 1."""
    found = np.any(low > high + _SLACK, axis=1)
    for block in blocks:
        found |= low[:, block].sum(axis=1) > 1.0 + 1e-9
        found |= high[:, block].sum(axis=1) < 1.0 - 1e-9
    return np.asarray(found)


class Functions(NamedTuple):
    """f of n boxes, each linear in a symbol's p(s|x) and p(u|x).

    Attributes:
        of_told: Coefficients of p(s|x), shape (K, n).
        of_kept: Coefficients of p(u|x), shape (D, n).
        constant: What is added, shape (n,).
    """

    of_told: Array
    of_kept: Array
    constant: Array

    def values(self, told: Array, kept: Array) -> Iterator[tuple[slice, Array]]:
        """Values of all boxes at symbols with p(s|x), (K, M), and p(u|x), (D, M): some symbols, and (symbols, n)."""
        stacked = np.vstack([self.of_told, self.of_kept, self.constant[None]])
        # Entries of a table of symbols and boxes that are looked at together: what a processor's cache holds.
        chunk = max(131_072 // self.constant.size, 16)
        for start in range(0, told.shape[1], chunk):
            some = slice(start, start + chunk)
            columns = (*told[:, some], *kept[:, some], np.ones(told[0, some].size))
            yield some, np.asarray(np.stack(columns, axis=1) @ stacked)


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskBody(Body):
    """Boxes of p(u|y) that prove a line along the utility; μ is 1 of releases without leakage.

    Attributes:
        partition: Boxes of p(u|y).
        q: Multipliers of the leaves, in their order, shape (leaves, K).
        tilts: γ of the leaves, shape (leaves, D); None where they are those of the chords.
    """

    kind: ClassVar[str] = "task"
    says: ClassVar[frozenset[str]] = frozenset({"utility", "tasks", "zero", "weights"})

    partition: Partition
    q: Array
    tilts: Array | None = None

    @classmethod
    def build(
        cls,
        problem: Problem,
        partition: Partition,
        q: Array,
        slope: float,
        *,
        tilts: Array | None = None,
        zero: bool = False,
    ) -> Certificate:
        """The certificate of these multipliers; claims nothing that verifying it would not compute from them."""
        scope = Scope(zero=zero, tasks=problem.required_tasks().fingerprint)
        claim = Claim(constant=0.0, utility=float(slope), weights=_weights(scope), scope=scope)
        tilts = None if tilts is None else np.array(tilts, dtype=np.float64)
        body = cls(partition=partition, q=np.array(q, dtype=np.float64), tilts=tilts)
        return Certificate.build(problem, claim, body)

    @property
    def n_nodes(self) -> int:
        """Boxes, those that were cut included."""
        return self.partition.n_nodes

    def arrays(self) -> Arrays:
        """All that is stored, by name."""
        tree, tilts = self.partition, {} if self.tilts is None else {"tilts": self.tilts}
        return {"variable": tree.variable, "split": tree.split, "first": tree.first, "q": self.q, **tilts}

    @classmethod
    def read(cls, archive: Archive, place: str) -> Self:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        return cls(
            partition=Partition(
                archive.integers(f"{place}.variable"),
                archive.floats(f"{place}.split"),
                archive.integers(f"{place}.first"),
            ),
            q=archive.floats(f"{place}.q"),
            tilts=archive.floats(f"{place}.tilts") if f"{place}.tilts" in archive else None,
        )

    @classmethod
    def check_many(cls, problem: Problem, proofs: Sequence[tuple[Claim, Self]]) -> None:
        """Nothing is left to check: the line follows from any multipliers."""

    def line(self, problem: Problem, claim: Claim) -> float:
        """What the line is at R = 0, lowered by a rounding allowance."""
        tasks = problem.required_tasks()
        made = self.functions(problem, claim)
        total = size = 0.0
        for some, values in made.values(problem.p_s_given_x, tasks.rows):
            total += float(problem.p_x[some] @ values.min(axis=1))
            # What each price may be off by: the terms of any box bound those of the one that is taken.
            size += float(problem.p_x[some].sum())
        terms = np.abs(made.of_told).max() + np.abs(made.of_kept).max() + np.abs(made.constant).max()
        h_s = 0.0 if claim.scope.zero else problem.h_s
        spent = claim.utility * tasks.h_u
        allowance = (problem.n_s + tasks.rows.shape[0] + 16) * _EPS * terms * size
        allowance += (problem.n_x + 16) * _EPS * (abs(total) + h_s + spent + 1.0)
        return float(h_s + total - spent - allowance)

    def functions(self, problem: Problem, claim: Claim) -> Functions:
        """The functions of the boxes that hold anything."""
        tasks = problem.required_tasks()
        low, high = self.partition.boxes(tasks)
        leaves = self.partition.leaves
        low, high = low[leaves], high[leaves]
        some = ~empty(low, high, tasks.blocks)
        if not some.any():
            raise CertificateError("the certificate's boxes are all empty: it is damaged")
        weights = claim.utility * tasks.weights
        if self.tilts is None:
            alpha, beta = chords(low[some], high[some])
            constant, of_kept = alpha @ weights, beta * weights
        else:
            tilts = self.tilts[some]
            constant, of_kept = least_tilted(low[some], high[some], weights, tilts, tasks.blocks), -tilts
        q = self.q[some]
        if claim.scope.zero:
            constant = (
                constant - q @ problem.p_s - (problem.n_s + 4) * _EPS * np.abs(q).max(axis=1, initial=0.0)
            )
        else:
            most = q.max(axis=1, keepdims=True)
            q = (
                q
                - most
                - np.log(np.exp(q - most).sum(axis=1, keepdims=True))
                - 8.0 * _EPS * (1.0 + np.abs(q))
            )
        return Functions(q.T, of_kept.T, constant)

    def check_form(self, problem: Problem, claim: Claim) -> None:
        """Raise CertificateError where the arrays are not those of a certificate of this problem."""
        if claim.scope.tasks is None or claim.weights.tolist() != _weights(claim.scope).tolist():
            raise CertificateError(
                "the certificate is not about the leakage of a task's release: it is damaged"
            )
        tree, tasks = self.partition, problem.required_tasks()
        n = tree.n_nodes
        sound = n > 0 and tree.variable.shape == tree.split.shape == tree.first.shape == (n,)
        sound = sound and self.q.shape == (int((tree.variable < 0).sum()), problem.n_s)
        if self.tilts is not None:
            sound = sound and self.tilts.shape == (self.q.shape[0], tasks.rows.shape[0])
        sound = sound and bool(np.all(tree.variable >= -1) and np.all(tree.variable < tasks.rows.shape[0]))
        if not sound:
            raise CertificateError(
                "the certificate's boxes and multipliers do not fit the problem: it is damaged"
            )
        tilts = np.zeros(0) if self.tilts is None else self.tilts.reshape(-1)
        numbers = np.concatenate([[claim.constant], self.q.reshape(-1), tree.split, tilts])
        # A slope is per utility, and all numbers are utility where nothing leaks: in units of the largest weight.
        unit = float(tasks.weights.max())
        most = LARGEST * max(unit, 1.0) if claim.scope.zero else LARGEST
        if not (np.all(np.abs(numbers) <= most) and 0.0 <= claim.utility * min(unit, 1.0) <= LARGEST):
            raise CertificateError("the certificate's slope, line or multipliers are not usable numbers")
        if claim.scope.zero and claim.utility != 1.0:
            raise CertificateError(
                f"a certificate without leakage has slope 1, not {claim.utility!r}: it is damaged"
            )


def _weights(scope: Scope) -> Array:
    """The weight of the leakage: what is proved without leakage says nothing of it."""
    return np.zeros(1) if scope.zero else np.ones(1)
