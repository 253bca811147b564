"""What a release is designed against, beyond the attacker who knows nothing: who knows what, and what must hold.

A threat is the part of a question that says who is guarded against: attackers with knowledge, columns that are
published as they are, guarantees for every output. The plain funnel has none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.attackers import DEFAULT_MEASURE, NOTHING, Attacker, knowing
from privfunnel.averages import CONVEX, Convex
from privfunnel.errors import InvalidInputError
from privfunnel.guarantees import Guarantee, parse
from privfunnel.measures import Array
from privfunnel.problem import Channel, Problem

#: Posteriors that belong to one stratum: the symbols with one value of the published columns.
Index = NDArray[np.intp]


class Average(NamedTuple):
    """One average over the outputs that a release is held to: the leakage is the largest of them.

    Attributes:
        attacker: Whose leakage it is.
        value: The one value of A that it is about; None for the mean over all of them.
    """

    attacker: Attacker
    value: int | None = None


class Image(NamedTuple):
    """What one average is made of, for one value of A: φ of ``columns.T @ w[x]``.

    Attributes:
        owner: The number of the average.
        x: The public symbols with this value, numbered in their stratum, shape (g,).
        columns: p(s|x) of the private symbols that occur with them, or p(s|x)/p(s, a), shape (g, K_a).
        prior: p(s|a) of these, shape (K_a,).
    """

    owner: int
    x: Index
    columns: Array
    prior: Array


@dataclass(frozen=True, eq=False)
class Threat:
    """Who is guarded against, and what must hold for every output.

    Attributes:
        attackers: Everyone whose leakage counts; each knows the published columns.
        published: The published columns as an attacker who knows just them; None where there are none.
        guarantees: What holds for every output.
        measure: What leakage is measured by, one of :data:`privfunnel.measures.LEAKAGES`.
    """

    attackers: tuple[Attacker, ...]
    published: Attacker | None = None
    guarantees: tuple[Guarantee, ...] = ()
    measure: str = DEFAULT_MEASURE

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        known: Any = None,
        published: str | Sequence[str] | None = None,
        guarantees: str | Guarantee | Iterable[str | Guarantee] | None = None,
        measure: str = DEFAULT_MEASURE,
    ) -> Threat:
        """The threat that the arguments of :func:`privfunnel.solve` describe.

        Raises:
            InvalidInputError: A column, guarantee or measure does not exist.
            InfeasibleError: A guarantee cannot be met by any release.
        """
        if measure not in measures.LEAKAGES:
            raise InvalidInputError(
                f"there is no measure {measure!r}: choose one of {', '.join(measures.LEAKAGES)}"
            )
        everyone = problem.attackers(known)
        shown = None
        if published:
            shown = knowing(
                [published] if isinstance(published, str) else list(published), problem.public_columns
            )
            everyone = tuple(shown if each.name == NOTHING else _both(shown, each) for each in everyone)
        given = [guarantees] if isinstance(guarantees, str | Guarantee) else list(guarantees or ())
        wanted = tuple(parse(each) for each in given)
        made = cls(everyone, shown, wanted, measure)
        for stratum in made.strata(problem):
            for guarantee in wanted:
                guarantee.check_feasible(stratum.problem)
        return made

    @property
    def plain(self) -> bool:
        """Whether this is the plain funnel: one attacker, who knows nothing, and mutual information."""
        alone = len(self.attackers) == 1 and self.published is None
        return alone and not self.guarantees and self.measure == DEFAULT_MEASURE

    @property
    def convex(self) -> Convex:
        """The convex function of posteriors whose averages measure leakage."""
        return CONVEX[self.measure]

    @cached_property
    def averages(self) -> tuple[Average, ...]:
        """The averages whose largest is the leakage: one an attacker, or one for each value of what they know."""
        if not self.convex.worst_value:
            return tuple(Average(each) for each in self.attackers)
        return tuple(Average(each, value) for each in self.attackers for value in range(each.n_values))

    def images(self, stratum: Stratum) -> Iterator[Image]:
        """What the averages are made of in one stratum, in their order."""
        problem = stratum.problem
        for owner, (attacker, value) in enumerate(self.averages):
            values = attacker.values[stratum.x]
            inside = np.unique(values) if value is None else np.unique(values[values == value])
            for each in inside:
                x = np.flatnonzero(values == each)
                p_sa = problem.p_sx[:, x].sum(axis=1)
                kept = p_sa > 0.0
                columns = problem.p_s_given_x[:, x][kept].T
                if self.convex.worst_value:
                    columns = columns / (p_sa[kept] * stratum.mass)
                yield Image(owner, x, columns, p_sa[kept] / p_sa.sum())

    def constants(self, problem: Problem) -> Array:
        """What is added to each average, shape (averages,): H(S|A) for mutual information, in nats."""
        found = []
        for attacker, _ in self.averages:
            p_sa = np.stack([problem.p_sx[:, group].sum(axis=1) for group in attacker.groups()], axis=1)
            found.append(self.convex.constant(p_sa))
        return np.array(found)

    def strata(self, problem: Problem) -> list[Stratum]:
        """The problem, or one for each value of the published columns."""
        if self.published is None:
            return [Stratum(np.arange(problem.n_x), problem, 1.0)]
        return [_stratum(problem, group) for group in self.published.groups()]

    def nothing(self, problem: Problem) -> Channel:
        """The channel that releases the published columns alone, one output where there are none; shape (M, N)."""
        if self.published is None:
            return np.ones((problem.n_x, 1))
        return np.eye(self.published.n_values)[self.published.values]

    def leakages(self, problem: Problem, channel: Channel) -> dict[str, float]:
        """What a channel tells each attacker about S, by the attacker's name."""
        channel = problem.check_channel(channel)
        if any(each.values.shape != (problem.n_x,) for each in self.attackers):
            raise InvalidInputError(f"an attacker's values are not those of {problem.n_x} public symbols")
        return {each.name: each.leakage(problem.p_sx, channel, self.measure) for each in self.attackers}

    def reached(self, problem: Problem, channel: Channel) -> dict[str, float]:
        """The value that a channel has of each guarantee, the worst over the strata, by the guarantee as written."""
        channel = problem.check_channel(channel)
        found: dict[str, float] = {}
        for guarantee in self.guarantees:
            values = [guarantee.reached(each.problem, channel[each.x]) for each in self.strata(problem)]
            found[str(guarantee)] = min(values) if guarantee.more_is_stricter else max(values)
        return found

    def excess(self, problem: Problem, channel: Channel) -> float:
        """By how much the worst output misses the worst guarantee, a share; negative where all are met."""
        channel = problem.check_channel(channel)
        worst = -1.0
        for stratum in self.strata(problem):
            p_xy = np.asarray(channel[stratum.x] * stratum.problem.p_x[:, None])
            p_y = p_xy.sum(axis=0)
            for posterior in (p_xy[:, p_y > 0.0] / p_y[p_y > 0.0]).T:
                worst = max([worst, *(each.excess(stratum.problem, posterior) for each in self.guarantees)])
        return worst

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, names and values alike, so that it can be read without the problem's columns."""
        return {
            "attackers": {each.name: each.values.tolist() for each in self.attackers},
            "published": None if self.published is None else self.published.name,
            "guarantees": [str(each) for each in self.guarantees],
            "measure": self.measure,
        }

    @classmethod
    def from_dict(cls, data: Any) -> Threat:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: It was changed.
        """
        everyone = tuple(
            Attacker(str(name), np.array(values, dtype=np.intp)) for name, values in data["attackers"].items()
        )
        shown = [each for each in everyone if each.name == data["published"]]
        if not everyone or (data["published"] is not None and not shown):
            raise InvalidInputError("the attackers of the file are incomplete: the file was changed")
        wanted, measure = tuple(parse(text) for text in data["guarantees"]), str(data["measure"])
        if measure not in CONVEX:
            raise InvalidInputError(f"there is no measure {measure!r}: the file was changed")
        return cls(everyone, shown[0] if shown else None, wanted, measure)

    @cached_property
    def words(self) -> str:
        """Who is guarded against and what holds, for people."""
        parts = []
        if len(self.attackers) > 1 or self.published is not None:
            parts.append("attackers who know " + "; ".join(each.name for each in self.attackers))
        if self.published is not None:
            parts.append(f"{self.published.name} published")
        if self.guarantees:
            parts.append("guaranteed " + "; ".join(str(each) for each in self.guarantees))
        if self.measure != DEFAULT_MEASURE:
            parts.append(f"measured by {self.measure}")
        return ", ".join(parts) or "an attacker who knows nothing"

    @cached_property
    def conditions(self) -> str:
        """What is asked of a release, for people, to follow a sentence about such releases."""
        parts = []
        if len(self.attackers) > 1 or self.published is not None:
            parts.append("against attackers who know " + "; ".join(each.name for each in self.attackers))
        if self.published is not None:
            parts.append(f"with {self.published.name} published")
        if self.guarantees:
            parts.append("with " + "; ".join(str(each) for each in self.guarantees) + " for every output")
        parts = parts or ["against an attacker who knows nothing"]
        return ", ".join(
            [*parts, f"measured by {self.measure}"] if self.measure != DEFAULT_MEASURE else parts
        )


@dataclass(frozen=True, eq=False)
class Stratum:
    """The public symbols with one value of the published columns.

    Attributes:
        x: The symbols, shape (M_a,).
        problem: p(s, x | a) of these, all K private symbols that occur with them.
        mass: p(a).
    """

    x: Index
    problem: Problem
    mass: float


def _stratum(problem: Problem, x: Index) -> Stratum:
    counts = problem.counts
    table = (problem.p_sx if counts is None else counts)[:, x]
    mass = float(problem.p_x[x].sum())
    n = None if counts is not None or problem.n is None else problem.n * mass
    part: Array = table if counts is not None else table / table.sum()
    return Stratum(x, Problem(part, problem.s_labels, [problem.x_labels[i] for i in x], n=n), mass)


def _both(one: Attacker, other: Attacker) -> Attacker:
    """Who knows what both know."""
    names = list(dict.fromkeys([*one.name.split(", "), *other.name.split(", ")]))
    pairs = one.values * other.n_values + other.values
    return Attacker(", ".join(names), np.unique(pairs, return_inverse=True)[1].reshape(-1))
