"""What a chosen point means to the attacker and to the user, as numbers ready for the page.

Everything here follows from p(s, x) and the channel alone; formulas are in :mod:`privfunnel.measures`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.audit.result import Preserved
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import joint
from privfunnel.model.problem import Point, Problem
from privfunnel.release.guesses import Guess, best_guesses
from privfunnel.report.axes import Axis

#: What the page calls the combination of all private attributes.
TOGETHER = "all together"


#: Information about one public attribute that survives.
Kept = Preserved


@dataclass(frozen=True)
class Meaning:
    """What a release does, on average and at worst.

    Attributes:
        disclosure: I(X;Y) in nats.
        leakage: I(S;Y) in nats.
        guesses: One entry a private attribute, and one for all together if there are several.
        kept: One entry a public attribute.
        maximal_leakage: log Σ_y max_s p(y|s), in nats.
        max_lift: Largest p(s|y)/p(s).
        min_lift: Smallest p(s|y)/p(s).
        most_telling: The private symbol and the released symbol where the largest lift occurs, and its p(y).
        rarest: The smallest p(y).
    """

    disclosure: float
    leakage: float
    guesses: tuple[Guess, ...]
    kept: tuple[Kept, ...]
    maximal_leakage: float
    max_lift: float
    min_lift: float
    most_telling: tuple[int, int, float]
    rarest: float = 1.0

    @property
    def epsilon(self) -> float:
        """Local information privacy ε: the largest |log lift|, in nats; infinite where a private value is excluded."""
        low = math.inf if self.min_lift <= 0.0 else -math.log(self.min_lift)
        return max(math.log(self.max_lift), low)


def explain(problem: Problem, channel: Channel, private: Axis, public: Axis) -> Meaning:
    """Describe what a channel, shape (M, N), releases about a problem.

    Args:
        problem: p(s, x), shape (K, M).
        channel: p(y|x); outputs that never occur are left out of the worst case.
        private: The K private symbols.
        public: The M public symbols.
    """
    guesses = best_guesses(private.alphabet, problem.p_sx, channel, together=TOGETHER)
    return meaning_of(
        problem.evaluate(channel), problem.p_sx @ channel, joint(problem.p_x, channel), guesses, public
    )


def meaning_of(point: Point, p_sy: Array, p_xy: Channel, guesses: tuple[Guess, ...], public: Axis) -> Meaning:
    """Describe a release without the table behind it.

    Args:
        point: Disclosure and leakage, in nats.
        p_sy: p(s, y), shape (K, N).
        p_xy: p(x, y), shape (M, N), dense or sparse.
        guesses: How often each private attribute is guessed.
        public: The M public symbols.
    """
    used = np.flatnonzero(p_sy.sum(axis=0) > 0.0)
    p_sy = p_sy[:, used]
    lift = measures.lift(p_sy)
    s, y = (int(i) for i in np.unravel_index(int(np.argmax(lift)), lift.shape))
    return Meaning(
        disclosure=point.disclosure,
        leakage=point.leakage,
        guesses=guesses,
        kept=tuple(_kept(name, table) for name, table in public.alphabet.by_column(p_xy).items()),
        maximal_leakage=float(measures.maximal_leakage(p_sy)),
        max_lift=float(lift[s, y]),
        min_lift=float(lift.min()),
        most_telling=(s, int(used[y]), float(p_sy[:, y].sum())),
        rarest=float(p_sy.sum(axis=0).min()),
    )


def among(meaning: Meaning, p_sy: Array, named: NDArray[np.bool_]) -> Meaning:
    """The same with worst cases over the private symbols that are ``named`` alone, a mask (K,).

    What a release tells of a private value that few people have is theirs: a report must not tell it.
    """
    used = np.flatnonzero(p_sy.sum(axis=0) > 0.0)
    if named.all() or not named.any() or not used.size:
        return meaning
    lift = measures.lift(p_sy[:, used])[named]
    s, y = (int(i) for i in np.unravel_index(int(np.argmax(lift)), lift.shape))
    told = p_sy[np.ix_(named, used)] / p_sy[named].sum(axis=1, keepdims=True)
    return replace(
        meaning,
        maximal_leakage=max(float(np.log(told.max(axis=0).sum())), 0.0),
        max_lift=max(float(lift[s, y]), 1.0),
        min_lift=min(float(lift.min()), 1.0),
        most_telling=(int(np.flatnonzero(named)[s]), int(used[y]), float(p_sy[:, used[y]].sum())),
    )


def _kept(name: str, p_ay: Array) -> Kept:
    entropy = float(measures.entropy(p_ay.sum(axis=1)))
    return Kept(name, min(float(measures.mutual_information(p_ay)), entropy), entropy)
