"""Attackers who know something, published columns, guarantees and measures on the page: their curve and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.averages import WORDS
from privfunnel.curve import Curve, worst_attacker
from privfunnel.ends import ends_of
from privfunnel.guarded_tracing import GuardedPartialCurve, tracing_guarded, with_point
from privfunnel.problem import Problem
from privfunnel.report.rounding import Exact
from privfunnel.report.scale import Scale
from privfunnel.solution import FEASIBILITY, Solution
from privfunnel.solvers.base import Listener
from privfunnel.solvers.guarded import Guarded
from privfunnel.threats import Threat

#: What the page proves, in nats, and how many seconds a point may take: somebody is waiting.
GAP, SECONDS = 1e-3, 20.0


def threat_of(problem: Problem, asked: Mapping[str, Any]) -> Threat:
    """The threat that the page asks for: what attackers ``known``, columns ``published``, ``guarantees``, ``measure``.

    Raises:
        InvalidInputError: A column, guarantee or measure does not exist.
        InfeasibleError: A guarantee cannot hold.
    """
    return Threat.of(problem, **asked)


def solver() -> Guarded:
    """The solver of guarded points."""
    return Guarded(gap=GAP, time_limit=SECONDS)


def following(
    problem: Problem, asked: Mapping[str, Any], points: int, seed: int, progress: Listener
) -> Iterator[GuardedPartialCurve]:
    """Trace a curve against these guards, see :func:`threat_of`, and say what was found after each point.

    Half of the points are spread evenly, the others go to where the curve bends most.
    """
    threat = threat_of(problem, asked)
    start = GuardedPartialCurve(
        problem=problem, threat=threat, solver=solver(), seed=seed, ends=ends_of(problem, threat)
    )
    even = max(points - points // 2, 3)
    return tracing_guarded(start, points=even, disclosures=None, refine=points - even, progress=progress)


def further(
    found: GuardedPartialCurve, disclosures: Sequence[float], progress: Listener
) -> Iterator[GuardedPartialCurve]:
    """Add points to a curve, at disclosures in nats."""
    for disclosure in disclosures:
        if disclosure not in found.wanted:
            wanted = tuple(sorted((*found.wanted, disclosure)))
            found = with_point(replace(found, wanted=wanted), disclosure, progress, len(disclosures))
            yield found


def words(solution: Solution, units: str) -> list[str]:
    """Say who learns most, what is proved of that, and what every output has; nothing of the plain funnel."""
    threat = solution.threat
    if threat is None:
        return []
    numbers, scale = Exact(units), Scale.of(solution.problem, threat)
    most, knowing = (
        scale.told(solution.leakage, numbers),
        len(solution.leakages) > 1 or threat.published is not None,
    )
    proved = _proved(solution, scale, numbers)
    said = []
    if not scale.usual:
        name, about = WORDS[threat.measure]
        said.append(
            f"Leakage is measured by {name}: {about}. It is {most} here, of the {scale.told(scale.ceiling, numbers)} "
            f"that the public columns have themselves{'' if knowing else proved}. The sentence above is about mutual "
            "information."
        )
    if knowing:  # whoever learns most is the one that the proof is about
        worst = worst_attacker(solution)
        said.append(
            f"Of all attackers one who knows {worst} learns most, {most}{proved}."
            if solution.leakage > FEASIBILITY
            else f"No attacker learns anything, whether they know {' or '.join(solution.leakages)}."
            if threat.convex.faithful
            else f"No attacker guesses oftener right, whether they know {' or '.join(solution.leakages)}."
        )
    if threat.published is not None:
        said.append(
            f"Published as counted: {threat.published.name}, which tells {numbers.amount(solution.published_leakage)} "
            "by itself."
        )
    in_nats = {str(each): " nats" if each.in_nats and units == "nats" else "" for each in threat.guarantees}
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


def of_curve(curve: Curve) -> dict[str, Any]:
    """The guards of a curve, as :func:`privfunnel.trace` takes them; empty for the plain funnel."""
    threat = curve.threat
    if threat is None:
        return {}
    shown = [] if threat.published is None else threat.published.name.split(", ")
    knowing = [[name for name in each.name.split(", ") if name not in shown] for each in threat.attackers]
    given: dict[str, Any] = {
        "known": [names for names in knowing if names and names != ["nothing"]],
        "published": shown,
        "guarantees": [str(each) for each in threat.guarantees],
        "measure": "" if threat.measure == DEFAULT_MEASURE else threat.measure,
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
