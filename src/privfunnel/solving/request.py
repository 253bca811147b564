"""What a person wrote: texts such as "60%" and names of columns, equal where they say the same, and bound to no table.

A request is posed to a problem with :meth:`Request.of`, which makes a :class:`~privfunnel.model.question.Question` of
it, in nats and arrays. The same request may be posed to other tables: parts of the rows, classes, the next survey.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privfunnel.data.cost_rules import costs_of
from privfunnel.data.tables import Counts, problem_of
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.infra.storage import Document
from privfunnel.measures import INFORMATION, Measure, measure_of
from privfunnel.model.asked_amounts import check_budget, check_budgets, check_disclosure, check_utility
from privfunnel.model.problem import Problem
from privfunnel.model.question import Quantity, Question
from privfunnel.model.threat import Threat

#: What a release can be asked to have at least, and how that is read.
FLOORS = {"disclosure": check_disclosure, "utility": check_utility}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A question as it is written; see :func:`privfunnel.solve` for each of its entries.

    Attributes:
        disclosure: The least disclosure: nats, or a text such as ``"60%"``; None where none is asked for.
        leakage: What may leak, or that for each of several private columns; None where that is to be least, or free.
        utility: The least utility; None where none is asked for.
        distortion: The most distortion, in the unit of the costs; None where none is asked for.
        costs: What a change of a record costs, where records are released for records.
        invariant: Whether released records have the distribution of the table.
        known: What attackers may know: an entry for each.
        published: Public columns that are released as they are.
        guarantees: What holds for every output.
        measure: What leakage is measured by; None for mutual information.
    """

    disclosure: float | str | None = None
    leakage: float | str | Mapping[str, float | str] | None = None
    utility: float | str | None = None
    distortion: float | None = None
    costs: Any = None
    invariant: bool = False
    known: Any = None
    published: Any = None
    guarantees: Any = None
    measure: Measure | str | None = None

    def to_dict(self) -> Document:
        """What was asked for, JSON-ready; what was not is left out."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        neutral = {field.name: field.default for field in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in given.items() if value is not neutral[name]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: It has an entry that is none of a request.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in data:
            if name not in names:
                close = difflib.get_close_matches(str(name), names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"use {', '.join(names)}"
                raise InvalidInputError(f"a request has no entry {name!r}: {hint}")
        return cls(**data)

    def of(self, given: Problem | Counts, *, axis: Quantity | str | None = None) -> Question:
        """The question that this is about a problem, or about the problem of counts.

        Args:
            given: The problem, or counts that make one and know the order of values.
            axis: What a curve of such questions runs along; by default what is asked for.

        Raises:
            InvalidInputError: It makes no sense, or a name does not exist.
            InfeasibleError: More is asked for than there is.
        """
        problem, budgets, leakage = problem_of(given), None, self.leakage
        if isinstance(leakage, Mapping):
            budgets, leakage = check_budgets(problem, leakage, measure_of(self.measure or INFORMATION)), None
        guards = Threat.of(
            problem, known=self.known, published=self.published, guarantees=self.guarantees,
            measure=self.measure or INFORMATION, budgets=budgets,
        )  # fmt: skip
        along = self._axis(problem) if axis is None else Quantity(axis)
        if along is Quantity.DISTORTION:
            return self._of_records(given, problem, guards, leakage)
        if along is Quantity.UTILITY:
            problem.required_tasks()
        self._check(along, guards, leakage)
        floors: dict[str, Any] = {
            name: check(problem, getattr(self, name))
            for name, check in FLOORS.items()
            if name in self.amounts
        }
        return Question(
            problem=problem,
            goal=Quantity.LEAKAGE if along in floors else along,
            axis=along,
            guards=guards,
            budget=math.inf if leakage is None else check_budget(problem, leakage, guards.measure),
            **floors,
        )

    def open(self, given: Problem | Counts, axis: Quantity) -> Question:
        """What each point of a curve along an axis asks, its place left open.

        Raises:
            InvalidInputError: A name does not exist, or the problem has no task.
        """
        problem = problem_of(given)
        guards = Threat.of(
            problem,
            known=self.known,
            published=self.published,
            guarantees=self.guarantees,
            measure=self.measure or INFORMATION,
        )
        records = axis is Quantity.DISTORTION
        if axis is Quantity.UTILITY:
            problem.required_tasks()
        if records:
            self._check_records(guards)
        return Question(
            problem=problem,
            goal=Quantity.LEAKAGE,
            axis=axis,
            guards=guards,
            costs=costs_of(given, self.costs) if records else None,
            invariant=bool(self.invariant),
        )

    @property
    def amounts(self) -> frozenset[str]:
        """The names of those quantities of which an amount was asked for."""
        return frozenset(each.value for each in Quantity if getattr(self, each.value) is not None)

    def _axis(self, problem: Problem) -> Quantity:
        if Quantity.DISTORTION in self.amounts or self.costs is not None or self.invariant:
            return Quantity.DISTORTION
        for_task = problem.tasks is not None and Quantity.DISCLOSURE not in self.amounts
        return Quantity.UTILITY if for_task or Quantity.UTILITY in self.amounts else Quantity.DISCLOSURE

    def at_most(self, problem: Problem) -> Request:
        """The same with all there is where more is asked for."""
        most = {name: getattr(problem, f"{name}_ceiling") for name in FLOORS if name in self.amounts}
        return dataclasses.replace(self, **most)

    def _check(self, along: Quantity, guards: Threat, leakage: object) -> None:
        """Raise InvalidInputError where too much or too little is asked for."""
        name, floors = along.value, self.amounts & FLOORS.keys()
        keep = "nats of the task to keep" if along is Quantity.UTILITY else "nats to keep"
        if guards.attributes and floors:
            words = "utility= and disclosure=" if along is Quantity.UTILITY else "disclosure="
            raise InvalidInputError(
                f"attributes with budgets of their own are for the most {name}: leave {words} out"
            )
        limited = bool(guards.guarantees or guards.attributes)
        spends = leakage is not None
        both, neither = along in floors and spends, along not in floors and not spends
        if guards.plain and (both or neither):
            raise InvalidInputError(f"give exactly one of {name}= ({keep}) and leakage= (nats to spend)")
        if both:
            raise InvalidInputError(f"give at most one of {name}= ({keep}) and leakage= (nats to spend)")
        if neither and not limited:
            raise InvalidInputError(
                f"give {name}= ({keep}) or leakage= (nats to spend); with guarantees= neither is needed"
            )

    def _of_records(
        self, given: Problem | Counts, problem: Problem, guards: Threat, leakage: Any
    ) -> Question:
        """The question of a release of records for records."""
        self._check_records(guards)
        if len(self.amounts) != 1:
            raise InvalidInputError(
                "give exactly one of distortion= (the most E d(X,Y)) and leakage= (nats to spend)"
            )
        asked: dict[str, Any] = (
            {"goal": Quantity.LEAKAGE, "distortion": check_distortion(self.distortion)}
            if Quantity.DISTORTION in self.amounts
            else {"goal": Quantity.DISTORTION, "budget": check_budget(problem, leakage)}
        )
        return Question(
            problem=problem,
            axis=Quantity.DISTORTION,
            guards=guards,
            costs=costs_of(given, self.costs),
            invariant=bool(self.invariant),
            **asked,
        )

    def _check_records(self, guards: Threat) -> None:
        """Raise InvalidInputError where records for records are asked for with what does not go with them."""
        if not guards.plain:
            raise InvalidInputError(
                "distortion= and costs= are against who knows nothing, by mutual information: leave known=, "
                "published=, guarantees=, measure= and budgets of columns out"
            )
        if self.amounts & FLOORS.keys():
            raise InvalidInputError("distortion= is about records: leave disclosure= and utility= out")


def _plain(value: object) -> Any:
    """A value as JSON has it: measures and guarantees by their names, arrays as lists."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, str | int | float):
        return value
    return [_plain(each) for each in value] if hasattr(value, "__iter__") else str(value)


def check_distortion(distortion: Any) -> float:
    """The asked distortion, in the unit of the costs.

    Raises:
        InvalidInputError: It is no number of at least 0.
    """
    if not is_number(distortion) or not 0.0 <= distortion < math.inf:
        raise InvalidInputError(
            f"distortion={distortion!r} is not usable: give a number ≥ 0 in the unit of the costs"
        )
    return float(distortion)
