"""Checks that the solvers' options share, and options that go from one solver to another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number, is_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from privfunnel.algorithms.base import Solver

    class Named(DataclassInstance, Protocol):
        """A solver of any funnel: a dataclass with a name."""

        name: ClassVar[str]


#: The solvers of the plain funnel that stand for another funnel's where it is asked for.
SAME_SOLVER = ("auto", "global")

Number = TypeVar("Number", bound=float)
Other = TypeVar("Other", bound="Named")


def check_positive(solver: str, **values: float) -> None:
    """Raise unless every value is a finite number above 0."""
    for name, value in values.items():
        if not is_number(value) or not 0.0 < value < math.inf:
            raise InvalidInputError(f"{solver}: {name}={value!r} is not usable: give a number above 0")


def without_none(**values: Number | None) -> dict[str, Number]:
    """The options that are not None, where None stands for a default that depends on the table or the machine."""
    return {name: value for name, value in values.items() if value is not None}


def check_whole(solver: str, least: int, **values: int) -> None:
    """Raise unless every value is a whole number of at least ``least``."""
    for name, value in values.items():
        if not is_whole(value) or value < least:
            raise InvalidInputError(
                f"{solver}: {name}={value!r} is not usable: give a whole number ≥ {least}"
            )


def check_seconds(solver: str, value: float) -> None:
    """Raise unless ``value`` is a time limit: seconds above 0, infinity for none."""
    if not is_number(value) or not value > 0.0:
        raise InvalidInputError(f"{solver}: time_limit={value!r} is not a time: give seconds above 0")


def check_choice(solver: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        listed = " or ".join(repr(choice) for choice in choices)
        raise InvalidInputError(f"{solver}: {name}={value!r} is not known: choose {listed}")


def check_numbers(solver: str, name: str, values: tuple[float, ...], least: float = 0.0) -> None:
    """Raise unless ``values`` are some finite numbers above 0, each at least ``least``."""
    check_some(solver, name, values)
    for value in values:
        if not (0.0 < value < math.inf and value >= least):
            wanted = f"numbers ≥ {least:g}" if least > 0.0 else "numbers above 0"
            raise InvalidInputError(f"{solver}: {name} has {value!r}, which is not usable: give {wanted}")


def check_some(solver: str, name: str, values: tuple[float, ...]) -> None:
    """Raise where ``values`` is empty."""
    if not values:
        raise InvalidInputError(f"{solver}: {name} is empty: give at least one value, or leave it out")


def taken_over(kind: type[Other], chosen: Solver | Other, named: Collection[str], where: str) -> Other:
    """Another funnel's solver with the gap and the limits that ``chosen``, a solver of the plain funnel, was given.

    Args:
        kind: The other funnel's solver.
        chosen: The solver; one of that kind is taken as it is.
        named: Options that were named, which count even where they say what the plain funnel's solver has anyway.
        where: Where the other funnel is asked for, for the error.

    Raises:
        InvalidInputError: ``chosen`` knows the plain funnel only.
    """
    if isinstance(chosen, kind):
        return chosen
    if chosen.name not in SAME_SOLVER:
        raise InvalidInputError(f"solver {chosen.name!r} solves the plain funnel: leave it out where {where}")
    known = {field.name for field in dataclasses.fields(kind)}
    given = {
        field.name: getattr(chosen, field.name)
        for field in dataclasses.fields(chosen)
        if field.name in known and (field.name in named or getattr(chosen, field.name) != field.default)
    }
    return kind(**given)
