"""What a release is designed against, beyond the attacker who knows nothing: who knows what, and what must hold.

A threat is the part of a question that says who is guarded against: attackers with knowledge, columns that are
published as they are, guarantees for every output. The plain funnel has none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import INFORMATION, MEASURES, Array, Channel, Measure, measure_of
from privfunnel.model.attackers import NOTHING, Attacker, distinct, knowing
from privfunnel.model.channels import is_sparse
from privfunnel.model.guarantees import MET, Guarantee, parse
from privfunnel.model.problem import Problem

#: Posteriors that belong to one stratum: the symbols with one value of the published columns.
Index = NDArray[np.intp]
#: Outputs of a sparse channel that guarantees look at together.
TOGETHER = 1024


class Attribute(NamedTuple):
    """A private attribute with a budget of its own.

    Attributes:
        name: Its name, that of a private column.
        values: Its value in each of the K private symbols, numbered from 0, shape (K,).
        budget: What may leak about it to any attacker, in nats, or in the measure's own numbers.
    """

    name: str
    values: Index
    budget: float

    def merged(self, table: Array, kept: NDArray[np.bool_] | slice = slice(None)) -> Array:
        """A table with a row for each private symbol, or for those ``kept``, as one with a row for each value."""
        made = np.zeros((int(self.values.max()) + 1, table.shape[1]))
        np.add.at(made, self.values[kept], table)
        return made


class Average(NamedTuple):
    """One average over the outputs that a release is held to: the leakage is the largest of them.

    Attributes:
        attacker: Whose leakage it is.
        value: The one value of A that it is about; None for the mean over all of them.
        attribute: The private attribute that it is about; None for all of S.
    """

    attacker: Attacker
    value: int | None = None
    attribute: Attribute | None = None


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
        measure: What leakage is measured by: the convex function of posteriors whose averages it is.
        attributes: Private attributes with budgets of their own; none where all of S is meant.
    """

    attackers: tuple[Attacker, ...]
    published: Attacker | None = None
    guarantees: tuple[Guarantee, ...] = ()
    measure: Measure = INFORMATION
    attributes: tuple[Attribute, ...] = ()

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        known: object = None,
        published: str | Sequence[str] | None = None,
        guarantees: str | Guarantee | Iterable[str | Guarantee] | None = None,
        measure: Measure | str = INFORMATION,
        budgets: Mapping[str, float] | None = None,
    ) -> Threat:
        """The threat that the arguments of :func:`privfunnel.solve` describe.

        Raises:
            InvalidInputError: A column, guarantee or measure does not exist.
            InfeasibleError: A guarantee cannot be met by any release.
        """
        by = measure_of(measure)
        everyone = problem.attackers(known)
        shown = None
        if published:
            shown = knowing(
                [published] if isinstance(published, str) else list(published), problem.public_columns
            )
            # Who knew no more than what is published is the same attacker now.
            everyone = distinct([shown if each.name == NOTHING else _both(shown, each) for each in everyone])
        given = [guarantees] if isinstance(guarantees, str | Guarantee) else list(guarantees or ())
        wanted = tuple(parse(each) for each in given)
        private = tuple(_attribute(problem, *each) for each in (budgets or {}).items())
        made = cls(everyone, shown, wanted, by, private)
        for stratum in made.strata(problem):
            for guarantee in wanted:
                guarantee.check_feasible(stratum.problem)
        return made

    @cached_property
    def plain(self) -> bool:
        """Whether this is the plain funnel: one attacker, who knows nothing, and mutual information."""
        alone = len(self.attackers) == 1 and self.published is None and not self.attributes
        return alone and not self.guarantees and self.measure.is_information

    @property
    def leakage_name(self) -> str:
        """What leakage is called in a table of numbers."""
        return "leakage I(S;Y)" if self.plain else "largest leakage"

    @cached_property
    def averages(self) -> tuple[Average, ...]:
        """The averages whose largest is the leakage: one an attacker, or one for each value of what they know."""
        about = self.attributes or (None,)
        if not self.measure.worst_value:
            return tuple(Average(each, None, one) for one in about for each in self.attackers)
        return tuple(
            Average(each, value, one)
            for one in about
            for each in self.attackers
            for value in range(each.n_values)
        )

    def silent(self, *, zero: bool) -> tuple[bool, ...]:
        """Which of the averages belong to a leakage of nothing at all, where it makes S and Y independent.

        Args:
            zero: Whether there are any: all of them, or those of attributes with a budget of 0.
        """
        return tuple(zero and (one is None or one.budget <= 0.0) for _, _, one in self.averages)

    def limits(self, budget: float) -> Array:
        """What each average may be, shape (averages,); ∞ where nothing limits it.

        Args:
            budget: What may leak, where attributes have no budgets of their own; ∞ for no limit.
        """
        leaked = [budget if one is None else one.budget for _, _, one in self.averages]
        return np.array([self.measure.average(each) if each < np.inf else np.inf for each in leaked])

    def images(self, stratum: Stratum) -> Iterator[Image]:
        """What the averages are made of in one stratum, in their order."""
        problem = stratum.problem
        for owner, (attacker, value, attribute) in enumerate(self.averages):
            p_sx, columns_of = problem.p_sx, problem.p_s_given_x
            if attribute is not None:
                p_sx, columns_of = (attribute.merged(each, problem.kept_s) for each in (p_sx, columns_of))
            values = attacker.values[stratum.x]
            inside = np.unique(values) if value is None else np.unique(values[values == value])
            for each in inside:
                x = np.flatnonzero(values == each)
                p_sa = p_sx[:, x].sum(axis=1)
                kept = p_sa > 0.0
                columns = columns_of[:, x][kept].T
                if self.measure.worst_value:
                    columns = columns / (p_sa[kept] * stratum.mass)
                yield Image(owner, x, columns, p_sa[kept] / p_sa.sum())

    def constants(self, problem: Problem) -> Array:
        """What is added to each average, shape (averages,): H(S|A) for mutual information, in nats."""
        found = []
        for attacker, _, attribute in self.averages:
            p_sa = np.stack([problem.p_sx[:, group].sum(axis=1) for group in attacker.groups()], axis=1)
            found.append(self.measure.constant(p_sa if attribute is None else attribute.merged(p_sa)))
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
        """What a channel tells each attacker about S, by the attacker's name; of each attribute, by its name too."""
        if self.plain:  # with what the data-processing inequality says beyond rounding
            return {NOTHING: problem.evaluate(channel).leakage}
        channel = problem.check_channel(channel)
        if any(each.values.shape != (problem.n_x,) for each in self.attackers):
            raise InvalidInputError(f"an attacker's values are not those of {problem.n_x} public symbols")
        if not self.attributes:
            return {each.name: each.leakage(problem.p_sx, channel, self.measure) for each in self.attackers}
        return {
            _about(one, each): each.leakage(one.merged(problem.p_sx), channel, self.measure)
            for one in self.attributes
            for each in self.attackers
        }

    def overspent(self, leakages: Mapping[str, float], budget: float) -> float:
        """By how much the leakages of :meth:`leakages` exceed what may leak, at most; −∞ without a limit, ∞."""
        spent = [leaked - budget for leaked in leakages.values()]
        own = [leakages[_about(one, each)] - one.budget for one in self.attributes for each in self.attackers]
        return max(own or spent)

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
            for posterior in _posteriors(channel[stratum.x], stratum.problem.p_x):
                worst = max([worst, *(each.excess(stratum.problem, posterior) for each in self.guarantees)])
        return worst

    def allow(self, problem: Problem, channel: Channel) -> bool:
        """Whether a channel meets the guarantees, but for rounding."""
        return not self.guarantees or self.excess(problem, channel) <= MET

    def to_dict(self) -> Document:
        """JSON-ready, names and values alike, so that it can be read without the problem's columns."""
        return {
            "attackers": {each.name: each.values.tolist() for each in self.attackers},
            "published": None if self.published is None else self.published.name,
            "guarantees": [str(each) for each in self.guarantees],
            "measure": self.measure.name,
            **(
                {"attributes": [[n, v.tolist(), b] for n, v, b in self.attributes]} if self.attributes else {}
            ),
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
        if measure not in MEASURES:
            raise InvalidInputError(f"there is no measure {measure!r}: the file was changed")
        private = tuple(
            Attribute(str(name), np.array(values, dtype=np.intp), float(budget))
            for name, values, budget in data.get("attributes", ())
        )
        if not all(
            0.0 <= one.budget < math.inf and one.values.ndim == 1 and one.values.size for one in private
        ):
            raise InvalidInputError(
                "the budgets of the file are no numbers of at least 0: the file was changed"
            )
        return cls(everyone, shown[0] if shown else None, wanted, MEASURES[measure], private)

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
        if not self.measure.is_information:
            parts.append(f"measured by {self.measure}")
        if self.attributes:
            parts.append(self._spending)
        return ", ".join(parts) or "an attacker who knows nothing"

    @property
    def _spending(self) -> str:
        return spending_words({one.name: one.budget for one in self.attributes}, in_nats=self.measure.in_nats)

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
        if self.attributes:
            parts.append(self._spending)
        return ", ".join(parts if self.measure.is_information else [*parts, f"measured by {self.measure}"])


def spending_words(budgets: Mapping[str, float], *, in_nats: bool) -> str:
    """What may leak about each private column, exactly: not for what is published."""
    unit = " nats" if in_nats else ""
    return "at most " + "; ".join(f"{budget:.6g}{unit} about {name}" for name, budget in budgets.items())


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


def _about(attribute: Attribute, attacker: Attacker) -> str:
    """What the leakage about an attribute to an attacker is called."""
    return attribute.name if attacker.name == NOTHING else f"{attribute.name}, given {attacker.name}"


def _attribute(problem: Problem, name: str, budget: float) -> Attribute:
    """A private column with its budget.

    Raises:
        InvalidInputError: There is no such column.
    """
    columns = problem.private_columns
    if name not in columns:
        close = get_close_matches(str(name), columns, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose among {', '.join(columns)}" if columns else (
            "this problem has no named ones, give pf.Problem(table, private_columns={name: one value a symbol})"
        )  # fmt: skip
        raise InvalidInputError(f"there is no private column {name!r}: {hint}")
    return Attribute(
        name, np.unique(columns[name], return_inverse=True)[1].reshape(-1).astype(np.intp), budget
    )


def _both(one: Attacker, other: Attacker) -> Attacker:
    """Who knows what both know."""
    names = list(dict.fromkeys([*one.name.split(", "), *other.name.split(", ")]))
    pairs = one.values * other.n_values + other.values
    return Attacker(", ".join(names), np.unique(pairs, return_inverse=True)[1].reshape(-1))


def _posteriors(channel: Channel, p_x: Array) -> Iterator[Any]:
    """p(x|y) of the outputs that occur: one (M,) at a time, or of a sparse channel some, sparse, (M, n), at a time."""
    if not is_sparse(channel):
        p_xy = np.asarray(channel * p_x[:, None])
        p_y = p_xy.sum(axis=0)
        yield from (p_xy[:, p_y > 0.0] / p_y[p_y > 0.0]).T
        return
    by_output: Any = sparse.csc_array(channel).multiply(p_x[:, None]).tocsc()
    p_y = np.asarray(by_output.sum(axis=0))
    used = np.flatnonzero(p_y > 0.0)
    for start in range(0, used.size, TOGETHER):
        some = used[start : start + TOGETHER]
        yield by_output[:, some].multiply(1.0 / p_y[some]).tocsc()
