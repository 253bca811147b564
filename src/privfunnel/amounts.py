"""What was asked for, in nats: a disclosure or a leakage, as a number or as a text such as ``"60%"``."""

from __future__ import annotations

import math

from privfunnel import quantities
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.problem import Problem
from privfunnel.solution import FEASIBILITY


def check_disclosure(problem: Problem, disclosure: float | str) -> float:
    """The asked disclosure in nats, clipped by rounding only, or an error that says the largest feasible one."""
    if isinstance(disclosure, str):
        ceiling = problem.disclosure_ceiling
        disclosure = quantities.parse(disclosure, ceiling=ceiling, whole="H(X)", name="disclosure")
    try:
        wanted = float(disclosure)
    except (TypeError, ValueError):
        raise InvalidInputError(f"disclosure={disclosure!r} is not a number: give nats") from None
    ceiling = problem.disclosure_ceiling
    if math.isnan(wanted) or wanted < 0.0:
        raise InvalidInputError(
            f"disclosure={wanted!r} is not in [0, H(X)] = [0, {ceiling:.9g}] nats: raise it"
        )
    if wanted > ceiling + FEASIBILITY:
        raise InfeasibleError(
            f"disclosure={wanted!r} nats is infeasible: the largest feasible is H(X) = {ceiling:.9g} nats; lower it"
        )
    return min(wanted, ceiling)


def check_budget(problem: Problem, leakage: float | str | None) -> float:
    """The asked leakage in nats, or an error that says what is wrong with it."""
    if isinstance(leakage, str):
        leakage = quantities.parse(leakage, ceiling=problem.leakage_ceiling, whole="I(S;X)", name="leakage")
    try:
        budget = float(leakage)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidInputError(f"leakage={leakage!r} is not a number: give nats") from None
    if math.isnan(budget) or budget < 0.0:
        raise InvalidInputError(f"leakage={budget!r} is not a budget: give nats, 0 or more")
    return budget
