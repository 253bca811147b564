"""What ``solve`` and ``curve`` are asked, along whichever axis: options that go together, and amounts in nats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privfunnel.app.cli._common import READING, Units, parse_guards, parse_quantity, unquoted
from privfunnel.app.cli._funnels import options_besides
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.app.cli._source import NamedProblem
    from privfunnel.model.problem import Problem

#: Options that the questions along any axis have.
SHARED = (
    "source", "leakage", "points", "seed", "time_limit", "memory_limit", "units", "as_json", "out", "threshold", "view",
    "describe",
)  # fmt: skip

#: Options of a question along an axis besides those; along disclosure there are all.
OWN = {
    "utility": (
        "utility", "disclosure", "solver", "restarts", "options", "known", "published", "guarantees", "measure",
        *READING,
    ),
    "distortion": ("distortion", "costs", "invariant", *(name for name in READING if name != "task")),
}  # fmt: skip

#: Said of other options, {0}.
REFUSED = {
    "utility": "a release for a task is designed on all rows, by itself: leave {0} out, or --task and --utility",
    "distortion": "the distortion funnel has no use for {0}: leave {1} out, or leave --distortion, --cost and "
    "--invariant out",
}

#: What a place along an axis is.
PLACES = {
    "disclosure": "what to keep",
    "utility": "what to keep of the task",
    "distortion": "the most changes",
}


def axis_of(given: Mapping[str, Any]) -> str:
    """What the options of a command ask about: ``"disclosure"``, ``"utility"`` or ``"distortion"``."""
    if given["distortion"] is not None or given["costs"] or given["invariant"]:
        return "distortion"
    for_task = given["task"] and given.get("disclosure") is None
    return "utility" if for_task or given["utility"] not in (None, ()) else "disclosure"


def check_own(axis: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError for options that questions along an axis do not have."""
    if axis not in OWN:
        return
    others = [*options_besides((*SHARED, *OWN[axis])), *["--view sample"] * (given["view"] == "sample")]
    if others:
        them = "it" if len(others) == 1 else "them"
        raise InvalidInputError(REFUSED[axis].format(", ".join(others), them))


def check_one(axis: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError unless one thing is asked for: a place along the axis, a budget, or guarantees alone."""
    place, alone = given[axis] is not None, bool(given["guarantees"])
    if place == bool(given["leakage"]) and (place or not alone):
        more = "" if axis == "distortion" else ", or --guarantee alone"
        raise InvalidInputError(
            f"give exactly one of --{axis} ({PLACES[axis]}) and --leakage (what may leak){more}"
        )
    if axis == "distortion" and (len(given["leakage"]) > 1 or any("=" in each for each in given["leakage"])):
        raise InvalidInputError(
            f"--leakage {' --leakage '.join(given['leakage'])} is more than the distortion funnel knows: give one "
            "amount for all private columns together, e.g. 5%"
        )


def guards_of(given: Mapping[str, Any]) -> Document:
    """What releases are guarded against, as :func:`privfunnel.solve` takes it."""
    return parse_guards(given["known"], given["published"], given["guarantees"], given["measure"])


def read_place(problem: Problem, axis: str, text: str, units: Units, option: str = "") -> float:
    """A place along an axis in nats, of distortion in the unit of the costs; ``option`` if it is not the axis's own."""
    from privfunnel.model.question import Quantity

    option = option or f"--{axis}"
    if axis == "distortion":
        try:
            return float(text)
        except ValueError:
            raise InvalidInputError(
                f"{option} {text!r} is not a number: give the most E d(X,Y), in the unit of the costs"
            ) from None
    ceiling: float = getattr(problem, f"{axis}_ceiling")
    return parse_quantity(text, ceiling=ceiling, whole=Quantity(axis).whole, option=option, units=units)


def records_of(opened: NamedProblem, given: Mapping[str, Any]) -> Document:
    """What changes of records cost, and whether they keep their distribution; nothing for other questions."""
    if axis_of(given) != "distortion":
        return {}
    from privfunnel.data.cost_rules import costs_of

    return {"costs": costs_of(opened.given, given["costs"]), "invariant": given["invariant"]}


def asked_of(opened: NamedProblem, given: Mapping[str, Any]) -> Document:
    """What the options of ``solve`` ask for, as :func:`privfunnel.solve` takes it, amounts in nats."""
    problem, units = opened.problem, given["units"]
    budget = read_budgets(given["leakage"], units, given["measure"])
    places = {axis: given[axis] for axis in PLACES if given[axis] is not None}
    asked = guards_of(given) | records_of(opened, given)
    asked |= {axis: read_place(problem, axis, at, units) for axis, at in places.items()}
    return asked if budget is None else asked | {"leakage": _budget(problem, budget, units, given["measure"])}


def _budget(problem: Problem, budget: str | dict[str, str], units: Units, measure: str | None) -> Any:
    """A budget in nats; those of columns, or by a measure without unit, are read where they are used."""
    if isinstance(budget, dict) or not _in_nats(measure):
        return budget
    ceiling = problem.leakage_ceiling
    if measure is not None:
        from privfunnel.model import channels

        ceiling = problem.evaluate(channels.identity(problem.n_x), measure=measure).leakage
    return parse_quantity(budget, ceiling=ceiling, whole="I(S;X)", option="--leakage", units=units)


def read_budgets(given: tuple[str, ...], units: Units, measure: str | None) -> str | dict[str, str] | None:
    """What may leak as it was written: one amount, or one for each private column; None for nothing."""
    from privfunnel.model.amounts import bare_number

    named = [each.rpartition("=") for each in given if "=" in each]
    if not named and len(given) <= 1:
        return given[0] if given else None
    if len(named) < len(given) or not all(column.strip() for column, _, _ in named):
        raise InvalidInputError("give --leakage once, or as COLUMN=BUDGET for each private column")
    in_bits = units.name == "bits" and _in_nats(measure)
    made = {
        unquoted(column): f"{amount} bits" if in_bits and bare_number(amount) is not None else amount
        for column, _, amount in named
    }
    if len(made) < len(named):
        raise InvalidInputError("--leakage names a column twice: give one budget for each")
    return made


def _in_nats(measure: str | None) -> bool:
    """Whether leakages by a measure, None for the usual one, have a unit."""
    from privfunnel.measures import MEASURES

    return measure is None or MEASURES[measure].in_nats
