"""What is asked of a release, in nats: what is to be least or most, what must hold besides, and who is guarded against.

A question is about one problem. Whatever the funnel is, it is the same object: plain, guarded, for a task, within a
budget, of records for records. What is not asked for has its neutral value, never None: a floor of 0, a ceiling of ∞,
guards against an attacker who knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Channel
from privfunnel.model.costs import Costs
from privfunnel.model.equal_symbols import ClassChannel, as_table, evaluated
from privfunnel.model.problem import Problem
from privfunnel.model.threat import Threat

#: What was asked for is met where it is missed by no more than this, in nats.
FEASIBILITY = 1e-9

#: What rounding may add to a difference of two informations of order 1.
ROUNDING = 1e-12


#: The numbers that a question may ask for, and what they are where it does not.
NEUTRAL = {"disclosure": 0.0, "utility": 0.0, "distortion": math.inf, "budget": math.inf}


class Quantity(StrEnum):
    """What a release has, and what a question is about."""

    LEAKAGE = "leakage"
    DISCLOSURE = "disclosure"
    UTILITY = "utility"
    DISTORTION = "distortion"

    @property
    def symbol(self) -> str:
        """Its symbol in formulas."""
        return {"leakage": "I(S;Y)", "disclosure": "I(X;Y)", "utility": "I(U;Y)", "distortion": "E d(X,Y)"}[
            self
        ]

    @property
    def whole(self) -> str:
        """The symbol of what X itself has of it, which shares are of; empty where there is no such whole."""
        return {"leakage": "I(S;X)", "disclosure": "H(X)", "utility": "I(U;X)", "distortion": ""}[self]

    @property
    def sought_most(self) -> bool:
        """Whether more of it is better, where it is the goal."""
        return self in (Quantity.DISCLOSURE, Quantity.UTILITY)


class Values(NamedTuple):
    """What a release has, in nats; distortion in the unit of the costs.

    Attributes:
        disclosure: I(X;Y).
        leakages: What it tells each attacker, by what they know, in nats or in the measure's own numbers.
        utility: Σ ω I(U;Y) of the tasks, where the question is about them; 0 elsewhere.
        distortion: E d(X,Y), where there are costs; 0 elsewhere.
    """

    disclosure: float
    leakages: Mapping[str, float]
    utility: float = 0.0
    distortion: float = 0.0

    @property
    def leakage(self) -> float:
        """What the attacker learns who learns most."""
        return max(self.leakages.values())

    def of(self, quantity: Quantity) -> float:
        """The value of a quantity."""
        return float(getattr(self, quantity.value))


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """One question about a problem.

    Attributes:
        problem: The problem.
        goal: What is to be least (leakage, distortion) or most (disclosure, utility).
        axis: What a curve of such questions runs along: disclosure, utility or distortion.
        guards: Attackers, published columns, guarantees and the measure of leakage.
        disclosure: The least disclosure, in nats.
        utility: The least utility, in nats.
        distortion: The most distortion, in the unit of the costs.
        budget: What may leak to any attacker, in nats or in the measure's own numbers.
        costs: d, where the axis is distortion.
        invariant: Whether p(y) = p(x) is asked for.
    """

    problem: Problem
    goal: Quantity
    guards: Threat
    axis: Quantity = Quantity.DISCLOSURE
    disclosure: float = 0.0
    utility: float = 0.0
    distortion: float = math.inf
    budget: float = math.inf
    costs: Costs | None = None
    invariant: bool = False

    def at(self, place: float) -> Self:
        """The least leakage at another place along the axis."""
        numbers: dict[str, Any] = {self.axis.value: float(place)}
        return replace(self, goal=Quantity.LEAKAGE, budget=math.inf, **numbers)

    @property
    def nothing(self) -> Channel:
        """The release that tells nothing beyond what is published; with costs, records as cheap as can be."""
        if self.costs is None:
            return self.guards.nothing(self.problem)
        cheapest = np.zeros(self.costs.matrix.shape)
        cheapest[np.arange(self.problem.n_x), np.argmin(self.costs.matrix, axis=1)] = 1.0
        return cheapest

    @property
    def place(self) -> float:
        """What is asked for along the axis: the least disclosure or utility, or the most distortion."""
        return float(getattr(self, self.axis.value))

    @property
    def whole(self) -> float:
        """What the place is a share of: H(X), I(U;X), or the largest finite cost."""
        if self.axis is Quantity.UTILITY:
            return self.problem.utility_ceiling
        return self.problem.disclosure_ceiling if self.costs is None else self.costs.scale

    @property
    def scale(self) -> float:
        """What one unit of the goal counts as: the largest weight of a task, the largest cost, else 1."""
        if self.goal is Quantity.UTILITY:
            return max(float(self.problem.required_tasks().weights.max()), 1.0)
        return self.costs.scale if self.goal is Quantity.DISTORTION and self.costs is not None else 1.0

    @cached_property
    def limits_leakage(self) -> bool:
        """Whether something is said of what may leak: a budget, or budgets of single private columns."""
        return self.budget < math.inf or bool(self.guards.attributes)

    @property
    def names_place(self) -> bool:
        """Whether a place along the axis was asked for, rather than the most that is allowed."""
        return self.goal is Quantity.LEAKAGE

    def values(self, mapping: Channel | ClassChannel) -> Values:
        """What a release has, each number from its channel."""
        nobody = self.guards.attackers[0].name
        if self.guards.plain and self.axis is Quantity.DISCLOSURE:
            point = evaluated(self.problem, mapping)
            return Values(point.disclosure, {nobody: point.leakage})
        channel = as_table(mapping)
        point = self.problem.evaluate(channel)
        leakages = {nobody: point.leakage}
        if not self.guards.plain:
            leakages = self.guards.leakages(self.problem, channel)
        utility = float(point.utility or 0.0) if self.axis is Quantity.UTILITY else 0.0
        distortion = 0.0 if self.costs is None else self.costs.of(self.problem.p_x, np.asarray(channel))
        return Values(point.disclosure, leakages, utility, distortion)

    def met(self, values: Values, mapping: Channel | ClassChannel) -> bool:
        """Whether a release with these values is what was asked for, but for rounding."""
        unit = (
            1.0 if self.axis is not Quantity.UTILITY else float(self.problem.required_tasks().weights.max())
        )
        slack = FEASIBILITY * (1.0 if self.costs is None else self.costs.scale)
        kept = (
            values.disclosure >= self.disclosure - FEASIBILITY
            and values.utility >= self.utility - FEASIBILITY * max(unit, 1.0)
            and values.distortion <= self.distortion + slack
        )
        return kept and self.within(values) and self.allowed(mapping)

    def within(self, values: Values) -> bool:
        """Whether no more leaks than may leak, but for rounding."""
        return self.guards.overspent(values.leakages, self.budget) <= FEASIBILITY

    def allowed(self, mapping: Channel | ClassChannel) -> bool:
        """Whether a release meets the guarantees, but for rounding."""
        return not self.guards.guarantees or self.guards.allow(self.problem, as_table(mapping))

    @property
    def words(self) -> str:
        """What was asked for, for errors."""
        unit = " nats" if self.guards.measure.in_nats else ""
        if self.budget < math.inf:
            return f"leakage ≤ {self.budget:.6g}{unit}"
        if not self.names_place:
            return "what is guaranteed"
        sign = "≤ " if self.axis is Quantity.DISTORTION else ""
        of = "" if self.axis is Quantity.DISTORTION else " nats"
        return f"{self.axis} {sign}{self.place:.6g}{of}"

    def asked(self) -> Document:
        """The goal and the numbers that were asked for, JSON-ready; what is neutral is left out."""
        numbers = {name: getattr(self, name) for name in NEUTRAL}
        return {"goal": self.goal.value} | {name: n for name, n in numbers.items() if n != NEUTRAL[name]}

    def reread(self, data: Any) -> Self:
        """The same about what :meth:`asked` wrote.

        Raises:
            InvalidInputError: It was changed.
        """
        numbers: dict[str, Any] = {name: float(data.get(name, neutral)) for name, neutral in NEUTRAL.items()}
        if any(math.isnan(value) or value < 0.0 for value in numbers.values()):
            raise InvalidInputError("the question of the file has numbers below 0: the file was changed")
        try:
            return replace(self, goal=Quantity(data["goal"]), **numbers)
        except ValueError as error:
            raise InvalidInputError(f"{error}: the file was changed") from None

    def to_dict(self) -> Document:
        """JSON-ready, without the problem; what is neutral is left out."""
        return {
            **self.asked(),
            "axis": self.axis.value,
            **({} if self.guards.plain else {"guards": self.guards.to_dict()}),
            **({} if self.costs is None else {"costs": self.costs.to_dict(), "invariant": self.invariant}),
        }

    @classmethod
    def from_dict(cls, data: Any, problem: Problem) -> Self:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: It is no question about this problem.
        """
        try:
            axis = Quantity(data["axis"])
        except ValueError as error:
            raise InvalidInputError(f"{error}: the file was changed") from None
        made = cls(
            problem=problem,
            goal=Quantity.LEAKAGE,
            axis=axis,
            guards=Threat.from_dict(data["guards"]) if "guards" in data else Threat.of(problem),
            costs=Costs.from_dict(data["costs"], problem.n_x) if "costs" in data else None,
            invariant=bool(data.get("invariant", False)),
        )
        return made.reread(data)
