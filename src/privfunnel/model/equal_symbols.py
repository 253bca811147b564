"""Exact lumping: public symbols with the same p(s|x) form one class, and nothing is lost by solving on classes.

Let T(x) be the class of x. Then L_X(R) = L_T(max(0, R − H(X|T))), nats. (≥) I(X;Y) = I(T;Y) + I(X;Y|T) and the second
term is at most H(X|T). (≤) Take an optimal Y_T for T. For every class draw a member V(t) ~ p(x|t) independently of
everything else, except that the true class has V(T) = X. Releasing (Y_T, V) leaks I(S;Y_T), because V is independent
of (S, T, Y_T), and leaves H(X|Y) = H(T|Y_T).

Only the members of classes that an output y can come from have to be released with it, and their joint distribution
is free as long as p(t|y) stays what it is: here it is the fixed staircase of :mod:`privfunnel.model.coupling`. A
released symbol is then a short list of candidate public symbols, one for each class of y, and the channel is sparse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import as_held, from_stored, to_stored
from privfunnel.model.coupling import Coupled, Index, couple
from privfunnel.model.problem import Point, Problem

#: Probabilities p(s|x) whose logarithms agree to this are equal: far above their rounding, far below any effect.
EQUAL = 1e-12

#: Up to this many public symbols are solved one by one unless lumping is asked for.
LUMPED_BEYOND = 64


@dataclass(frozen=True, eq=False)
class Lumping:
    """The classes of a problem's public symbols.

    Attributes:
        problem: The problem with all M public symbols.
        classes: Class of each public symbol, shape (M,), numbered 0 … C − 1 by first appearance.
    """

    problem: Problem
    classes: Index

    @property
    def n_classes(self) -> int:
        """C, the number of classes."""
        return int(self.classes.max()) + 1

    @cached_property
    def cells(self) -> NDArray[np.int32]:
        """The classes as certificates hold them, shape (M,)."""
        return self.classes.astype(np.int32)

    @property
    def trivial(self) -> bool:
        """Whether every class has one member, so that there is nothing to lump."""
        return self.n_classes == self.problem.n_x

    @cached_property
    def lumped(self) -> Problem:
        """The problem of the classes, p(s, t), shape (K, C); the problem itself where lumping is trivial."""
        if self.trivial:
            return self.problem
        counts = self.problem.counts
        table = self.problem.p_sx if counts is None else counts
        merged = np.stack([np.bincount(self.classes, row, self.n_classes) for row in table])
        size = np.bincount(self.classes)
        first = np.unique(self.classes, return_index=True)[1]
        names = [
            label if n == 1 else f"{label} (+{n - 1})"
            for label, n in zip((self.problem.x_labels[i] for i in first), size.tolist(), strict=True)
        ]
        return Problem(merged, self.problem.s_labels, names, n=None if counts is not None else self.problem.n)

    @cached_property
    def h_within(self) -> float:
        """H(X|T) in nats: what the members disclose beyond their class, at no leakage."""
        if self.trivial:
            return 0.0
        return max(float(self.problem.p_x @ -np.log(self.p_x_given_class)), 0.0)

    @cached_property
    def p_x_given_class(self) -> Array:
        """p(x|t(x)) of each public symbol, shape (M,)."""
        p_x = self.problem.p_x
        return np.asarray(p_x / np.bincount(self.classes, p_x)[self.classes])

    def inner(self, disclosure: float) -> float:
        """The disclosure of the classes, in nats, that goes with ``disclosure`` nats of X."""
        return min(max(disclosure - self.h_within, 0.0), self.lumped.disclosure_ceiling)

    def lift(self, channel: Channel) -> Any:
        """The channel of X, sparse (M, N), made of a channel p(y|t) of the classes, (C, N_T).

        The leakage is the same, the disclosure larger by H(X|T). Columns come in the order of the class channel's
        outputs; see :func:`~privfunnel.model.coupling.couple`.
        """
        return couple(self.classes, self.problem.p_x, channel).channel


def lump(problem: Problem) -> Lumping:
    """The classes of public symbols with equal p(s|x).

    Counts decide equality exactly: two columns are equal when they are the same multiple of the same column of
    coprime numbers. Probabilities are equal when their logarithms are within rounding.
    """
    if problem.counts is not None:
        return Lumping(problem, classes_of(problem.counts))
    p = problem.p_s_given_x
    present = p > 0.0
    keys = np.where(present, np.rint(np.log(np.where(present, p, 1.0)) / EQUAL), 1.0).astype(np.int64)
    return Lumping(problem, numbered(keys))


def classes_of(counts: Array) -> Index:
    """Class of each column of a table of counts (K, M), shape (M,): columns of one class are multiples of one."""
    whole = counts.astype(np.int64)
    return numbered(whole // np.maximum(np.gcd.reduce(whole, axis=0), 1))


def numbered(keys: NDArray[np.int64]) -> Index:
    """The number of each column of ``keys`` (K, M) among the different ones, by first appearance, shape (M,)."""
    _, first, group = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    return np.asarray(rank[group.reshape(-1)])


def chosen_lumping(problem: Problem, lump: bool | None) -> Lumping:
    """The classes that a solver gets: all of them where ``lump`` is True, none where it is False.

    None leaves it to the size: with few symbols there is little to gain, and a channel of single symbols needs no more
    than M + 1 outputs.
    """
    wanted = problem.n_x > LUMPED_BEYOND if lump is None else lump
    return lumping_of(problem) if wanted else singletons(problem)


def singletons(problem: Problem) -> Lumping:
    """Every public symbol a class of its own: nothing is lumped."""
    return Lumping(problem, np.arange(problem.n_x))


def lumping_of(problem: Problem) -> Lumping:
    """:func:`lump`, remembered by the problem."""
    known: Lumping | None = vars(problem).get("_lumping")
    if known is None:
        known = lump(problem)
        vars(problem)["_lumping"] = known
    return known


def held_by_classes(mapping: Channel | ClassChannel) -> ClassChannel | None:
    """A channel that is held by classes; None where it is one of the symbols."""
    return mapping if isinstance(mapping, ClassChannel) else None


def as_table(mapping: Channel | ClassChannel) -> Channel:
    """p(y|x), shape (M, N), of a channel as it is held."""
    held = held_by_classes(mapping)
    return mapping if held is None else held.table


def of_classes(mapping: Channel | ClassChannel, problem: Problem) -> tuple[Problem, Channel]:
    """The problem and the channel that a release is held by: those of its classes, or those of the symbols."""
    held = held_by_classes(mapping)
    return (problem, mapping) if held is None else (held.lumping.lumped, held.channel)


def checked(problem: Problem, mapping: Channel | ClassChannel) -> Channel | ClassChannel:
    """A channel with rows that sum to 1, also where it is held by classes.

    Raises:
        InvalidInputError: It is none.
    """
    held = held_by_classes(mapping)
    if held is None:
        return problem.check_channel(mapping)
    return replace(held, channel=held.lumping.lumped.check_channel(held.channel))


def evaluated(problem: Problem, mapping: Channel | ClassChannel) -> Point:
    """Disclosure and leakage in nats, by classes where it is held by them."""
    held = held_by_classes(mapping)
    return problem.evaluate(mapping) if held is None else held.evaluate()


def lumping_in(mapping: Channel | ClassChannel) -> Lumping | None:
    """The classes that a channel is held by; None where it is one of the symbols."""
    held = held_by_classes(mapping)
    return None if held is None else held.lumping


@dataclass(frozen=True, eq=False)
class ClassChannel:
    """A channel of X held as one of its classes: M symbols and up to millions of outputs in a small table.

    Attributes:
        lumping: The classes.
        channel: p(y|t), shape (C, N_T), rows sum to 1; sparse beyond ten million entries.
        share: How often the output is released, with the members coupled to it; nothing is released otherwise. Less
            than 1 only below H(X|T), where the members alone disclose more than was asked for.
    """

    lumping: Lumping
    channel: Channel
    share: float = 1.0

    @cached_property
    def table(self) -> Channel:
        """p(y|x), shape (M, N): dense up to ten million entries, a SciPy sparse array beyond."""
        return as_held(self.coupled.channel)

    @cached_property
    def coupled(self) -> Coupled:
        """The same sparse whatever its size, with the output of the classes that each of its outputs belongs to."""
        return couple(self.lumping.classes, self.lumping.problem.p_x, self.channel, self.share)

    @property
    def p_s_given_y(self) -> Array:
        """p(s|y) of each output of the classes and, last, of the one that says nothing; shape (K, N_T + 1)."""
        lumped = self.lumping.lumped
        told, p_y = np.asarray(lumped.p_sx @ self.channel), np.asarray(lumped.p_x @ self.channel)
        used = np.divide(told, p_y, out=np.zeros_like(told), where=p_y > 0.0)
        return np.concatenate([used, lumped.p_s[:, None]], axis=1)

    @property
    def most_outputs(self) -> int:
        """At least as many outputs as :attr:`table` has, counted without making it."""
        return self.lumping.problem.n_x + int(self.channel.shape[1]) + 1

    def evaluate(self) -> Point:
        """Disclosure and leakage in nats.

        Small channels are evaluated as they are. The others by their classes, which is the same up to rounding: H(X|T)
        is disclosed beside what the classes disclose.
        """
        problem = self.lumping.problem
        # A channel of fewer entries than this is made outright where its numbers are asked for.
        if problem.n_x * self.most_outputs <= 4_000_000:
            return problem.evaluate(self.table)
        inner = self.lumping.lumped.evaluate(self.channel)
        disclosure = min(inner.disclosure + self.lumping.h_within, problem.disclosure_ceiling)
        return Point(self.share * disclosure, self.share * inner.leakage)

    def to_dict(self) -> Document:
        """JSON-ready."""
        return {
            "classes": self.lumping.classes.tolist(),
            "share": self.share,
            "class_channel": to_stored(self.channel),
        }

    @classmethod
    def from_dict(cls, data: Document, problem: Problem) -> ClassChannel:
        """Read back what :meth:`to_dict` wrote for this problem.

        Raises:
            InvalidInputError: The classes are not those of the problem, or the share is no probability.
        """
        lumping = lumping_of(problem)
        if lumping.classes.tolist() != data["classes"]:
            raise InvalidInputError(
                "the classes of the file are not those of its problem: the file was changed"
            )
        share = float(data["share"])
        if not 0.0 <= share <= 1.0:
            raise InvalidInputError(
                f"the share {share!r} of the file is no probability: the file was changed"
            )
        return cls(lumping, lumping.lumped.check_channel(from_stored(data["class_channel"])), share)
