"""Attackers who know something, published columns and guarantees on the page: their curve, and their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from privfunnel.curve import Curve, worst_attacker
from privfunnel.ends import ends_of
from privfunnel.guarded_tracing import GuardedPartialCurve, tracing_guarded, with_point
from privfunnel.problem import Problem
from privfunnel.report.rounding import Exact
from privfunnel.solution import FEASIBILITY, Solution
from privfunnel.solvers.base import Listener
from privfunnel.solvers.guarded import Guarded
from privfunnel.threats import Threat

#: What the page proves, in nats, and how many seconds a point may take: somebody is waiting.
GAP, SECONDS = 1e-3, 20.0


def following(
    problem: Problem, asked: dict[str, list[str]], points: int, seed: int, progress: Listener
) -> Iterator[GuardedPartialCurve]:
    """Trace a curve against these guards and say what was found after each point.

    Raises:
        InvalidInputError: A column or guarantee does not exist.
        InfeasibleError: A guarantee cannot hold.
    """
    known = [[name] for name in asked.get("known", [])]
    threat = Threat.of(
        problem, known=known or None, published=asked.get("published"), guarantees=asked.get("guarantees")
    )
    start = GuardedPartialCurve(problem=problem, threat=threat, solver=Guarded(gap=GAP, time_limit=SECONDS), seed=seed,
                                ends=ends_of(problem, threat))  # fmt: skip
    return tracing_guarded(start, points=points, disclosures=None, refine=0, progress=progress)


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
    numbers = Exact(units)
    said = []
    if len(solution.leakages) > 1 or threat.published is not None:
        worst = worst_attacker(solution)
        said.append(
            f"Of all attackers one who knows {worst} learns most, {numbers.amount(solution.leakage)}; no release "
            f"against them that keeps as much tells less than {numbers.amount(solution.lower_bound)}: proved."
            if solution.leakage > FEASIBILITY
            else f"No attacker learns anything, whether they know {' or '.join(solution.leakages)}."
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


def of_curve(curve: Curve) -> dict[str, list[Any]]:
    """The guards of a curve, as :func:`privfunnel.trace` takes them; empty for the plain funnel."""
    threat = curve.threat
    if threat is None:
        return {}
    shown = [] if threat.published is None else threat.published.name.split(", ")
    knowing = [[name for name in each.name.split(", ") if name not in shown] for each in threat.attackers]
    given: dict[str, list[Any]] = {
        "known": [names for names in knowing if names and names != ["nothing"]],
        "published": shown,
        "guarantees": [str(each) for each in threat.guarantees],
    }
    return {name: value for name, value in given.items() if value}


def arguments(curve: Curve) -> list[str]:
    """The same as the command line takes them."""
    found = of_curve(curve)
    known = [part for names in found.get("known", []) for part in ("--known", ",".join(names))]
    published = ["--published", ",".join(found["published"])] if "published" in found else []
    guarantees = [part for each in found.get("guarantees", []) for part in ("--guarantee", each)]
    return [*known, *published, *guarantees]
