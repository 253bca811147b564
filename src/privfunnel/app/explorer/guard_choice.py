"""Attackers who know something, published columns, guarantees and measures on the page: their words and options."""

from __future__ import annotations

from typing import Any

from privfunnel.infra.storage import Document
from privfunnel.model.question import FEASIBILITY
from privfunnel.report.rounding import Exact
from privfunnel.report.scale import Scale
from privfunnel.solving.curve import Curve, worst_attacker
from privfunnel.solving.solution import Solution


def words(solution: Solution, units: str) -> list[str]:
    """Say who learns most, what is proved of that, and what every output has; nothing of the plain funnel."""
    guards = solution.guards
    if guards.plain:
        return []
    numbers, scale = Exact(units), Scale.of(solution.problem, guards)
    most, knowing = (
        scale.told(solution.leakage, numbers),
        len(solution.leakages) > 1 or guards.published is not None,
    )
    proved = _proved(solution, scale, numbers)
    said = []
    if not scale.usual:
        measure = guards.measure
        said.append(
            f"Leakage is measured by {measure.title}: {measure.about}. It is {most} here, of the "
            f"{scale.told(scale.ceiling, numbers)} that the public columns have themselves{'' if knowing else proved}. "
            "The sentence above is about mutual information."
        )
    if knowing:  # whoever learns most is the one that the proof is about
        worst = worst_attacker(solution)
        said.append(
            f"Of all attackers one who knows {worst} learns most, {most}{proved}."
            if solution.leakage > FEASIBILITY
            else f"No attacker learns anything, whether they know {' or '.join(solution.leakages)}."
            if guards.measure.faithful
            else f"No attacker guesses oftener right, whether they know {' or '.join(solution.leakages)}."
        )
    if guards.published is not None:
        said.append(
            f"Published as counted: {guards.published.name}, which tells {numbers.amount(solution.published_leakage)} "
            "by itself."
        )
    in_nats = {str(each): " nats" if each.in_nats and units == "nats" else "" for each in guards.guarantees}
    said += [
        f"Guaranteed for every output: {asked}; the worst one has {reached:.4g}{in_nats[asked]}."
        for asked, reached in solution.guaranteed.items()
    ]
    return said


def _proved(solution: Solution, scale: Scale, numbers: Exact) -> str:
    """What is proved of releases that leak less, to end a sentence: nothing of less than nothing."""
    if solution.leakage <= FEASIBILITY:
        return ""
    if solution.lower_bound <= FEASIBILITY:
        return "; how little it could be is not known"
    least = scale.told(solution.lower_bound, numbers)
    return f"; no release of this kind that keeps as much has less than {least}: proved"


def of_curve(curve: Curve) -> Document:
    """The guards of a curve, as :func:`privfunnel.trace` takes them; empty for the plain funnel."""
    guards = curve.guards
    if guards.plain:
        return {}
    shown = [] if guards.published is None else guards.published.name.split(", ")
    knowing = [[name for name in each.name.split(", ") if name not in shown] for each in guards.attackers]
    given: dict[str, Any] = {
        "known": [names for names in knowing if names and names != ["nothing"]],
        "published": shown,
        "guarantees": [str(each) for each in guards.guarantees],
        "measure": "" if guards.measure.is_information else guards.measure.name,
    }
    return {name: value for name, value in given.items() if value}


def arguments(curve: Curve) -> list[str]:
    """The same as the command line takes them."""
    found = of_curve(curve)
    known = [part for names in found.get("known", []) for part in ("--known", ",".join(names))]
    published = ["--published", ",".join(found["published"])] if "published" in found else []
    guarantees = [part for each in found.get("guarantees", []) for part in ("--guarantee", each)]
    measure = ["--measure", found["measure"]] if "measure" in found else []
    return [*known, *published, *guarantees, *measure]
