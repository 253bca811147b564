"""What was asked for, in nats: a disclosure or a leakage, as a number or as a text such as ``"60%"``."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.measures import INFORMATION, Measure
from privfunnel.model import amounts as quantities
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY


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


def check_budgets(problem: Problem, leakage: Mapping[str, float | str], measure: Measure) -> dict[str, float]:
    """The asked leakage about each private column; a share is of what X itself tells about that column.

    Raises:
        InvalidInputError: A budget cannot be read, or there are none.
    """
    if not leakage:
        raise InvalidInputError("leakage={} names no private column: give e.g. {'sex': 0.01, 'income': '5%'}")
    made = {}
    for name, budget in leakage.items():
        values = problem.private_columns.get(
            name, tuple(problem.s_labels)
        )  # what does not exist is told later
        merged = np.array(
            [problem.p_sx[[v == each for v in values]].sum(axis=0) for each in dict.fromkeys(values)]
        )
        made[name] = check_budget(Problem(merged), budget, measure)
        if math.isinf(made[name]):
            raise InvalidInputError(f"the budget of {name!r} is infinite: leave the column out instead")
    return made


def check_utility(problem: Problem, utility: float | str) -> float:
    """The asked utility in nats, or an error that says the largest feasible one.

    Whoever comes as near to I(U;X) as a printed number does asks for all of it.

    Raises:
        InvalidInputError: It is no amount, or the problem has no task.
        InfeasibleError: It exceeds I(U;X).
    """
    ceiling = problem.utility_ceiling
    if isinstance(utility, str):
        utility = quantities.parse(utility, ceiling=ceiling, whole="I(U;X)", name="utility")
    try:
        wanted = float(utility)
    except (TypeError, ValueError):
        raise InvalidInputError(f"utility={utility!r} is not a number: give nats") from None
    if math.isnan(wanted) or wanted < 0.0:
        raise InvalidInputError(
            f"utility={wanted!r} is not in [0, I(U;X)] = [0, {ceiling:.9g}] nats: raise it"
        )
    if wanted > ceiling + FEASIBILITY:
        raise InfeasibleError(
            f"utility={wanted!r} nats is infeasible: the largest feasible is I(U;X) = {ceiling:.9g} nats; lower it"
        )
    return ceiling if wanted >= ceiling - FEASIBILITY else wanted


def check_budget(problem: Problem, leakage: float | str | None, measure: Measure = INFORMATION) -> float:
    """The asked leakage in nats, or in a measure's own numbers, or an error that says what is wrong with it.

    A share, ``"5%"``, is of what releasing X itself leaks to who knows nothing.
    """
    unit = "nats, 0 or more" if measure.in_nats else f"0 or more, {measure} has no unit"
    if isinstance(leakage, str):
        ceiling, whole = problem.leakage_ceiling, "I(S;X)"
        if not measure.is_information:
            ceiling = problem.evaluate(channels.identity(problem.n_x), measure=measure).leakage
            whole = "what X itself leaks"
        if not measure.in_nats and leakage.rstrip().endswith(("nats", "nat", "bits", "bit")):
            raise InvalidInputError(
                f"leakage {leakage!r} has a unit, {measure} has none: give e.g. 5% or 0.01"
            )
        leakage = quantities.parse(leakage, ceiling=ceiling, whole=whole, name="leakage")
    try:
        budget = float(leakage)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidInputError(f"leakage={leakage!r} is not a number: give {unit}") from None
    if math.isnan(budget) or budget < 0.0:
        raise InvalidInputError(f"leakage={budget!r} is not a budget: give {unit}")
    return budget
