"""What a mechanism was designed for besides its leakage, counted again: attackers who know something, guarantees."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from privfunnel.data.tables import Counts
from privfunnel.errors import PrivFunnelError
from privfunnel.infra.checks import is_number
from privfunnel.measures import INFORMATION, MEASURES, Channel, Measure
from privfunnel.model.amounts import told
from privfunnel.model.guarantees import MET
from privfunnel.model.problem import Problem
from privfunnel.model.threat import Threat
from privfunnel.release.checked_claims import AGREEMENT
from privfunnel.release.mechanism import Mechanism


class Guards(NamedTuple):
    """Leakages by what attackers know, in nats; values of guarantees as they are written; whether all are as designed.

    Attackers who know something else than columns cannot be counted again, and are left out with all else. What the
    design was measured by otherwise, or about single private columns, is in ``measured``, by the name of the
    ``measure``.
    """

    leakages: dict[str, float]
    guaranteed: dict[str, float]
    hold: bool
    measured: Mapping[str, float] = MappingProxyType({})
    measure: Measure = INFORMATION


def designed_for(mechanism: Mechanism) -> tuple[dict[str, float], dict[str, float]]:
    """The design's leakages in nats by what attackers know, and its guarantees with their values; empty for neither.

    They are what the file says, which only the table can confirm.
    """
    held = mechanism.provenance
    return _numbers(held.get("leakages")), _numbers(held.get("guaranteed"))


def measured_words(measured: Mapping[str, float], measure: Measure, attackers: Collection[str]) -> list[str]:
    """Say what a design leaks by its measure, to each of its ``attackers``, or about each of its private columns."""
    unit = told if measure.in_nats else "{:.4f}".format
    by = "" if measure.is_information else f" by {measure}"
    about = "to who knows" if set(measured) == set(attackers) else "about"
    return [f"{unit(value)}{by} {about} {name}" for name, value in measured.items()]


def designed_measure(mechanism: Mechanism) -> tuple[Measure, dict[str, float]]:
    """The measure of a design, and what its file says of leakages by it, or about single private columns.

    Nothing is said where the measure is the usual one, of all of S.
    """
    named = mechanism.provenance.get("measure")
    measure = MEASURES.get(str(named.get("name"))) if isinstance(named, Mapping) else INFORMATION
    if measure is None or not (isinstance(named, Mapping) or "budgets" in mechanism.provenance):
        return INFORMATION, {}
    return measure, _numbers(mechanism.provenance.get("measured"))


def count_again(mechanism: Mechanism, counts: Counts, channel: Channel) -> Guards:
    """What a channel, (M, N), does to the attackers and guarantees of the design on its own table.

    Args:
        mechanism: The mechanism.
        counts: The table that it was designed on.
        channel: Its channel for the table's symbols.
    """
    claimed, guaranteed = designed_for(mechanism)
    published = list(mechanism.published)
    if not claimed and not guaranteed:
        return Guards({}, {}, hold=True)
    try:
        problem = counts.problem()
        known = [name.split(", ") for name in claimed if name != "nothing"]
        threat = Threat.of(
            problem,
            known=[each for each in known if each != published] or None,
            published=published or None,
            guarantees=list(guaranteed),
        )
        leakages, reached = threat.leakages(problem, channel), threat.reached(problem, channel)
        met = not threat.guarantees or threat.excess(problem, channel) <= MET
        otherwise, measured = _otherwise(mechanism, threat, problem, channel)
    except PrivFunnelError:
        return Guards({}, {}, hold=True)
    same = _agree(leakages, claimed)
    if measured:
        same = same and _agree(measured, _numbers(mechanism.provenance.get("measured")))
    return Guards(leakages, reached, met and same, measured, otherwise)


def _otherwise(
    mechanism: Mechanism, threat: Threat, problem: Problem, channel: Channel
) -> tuple[Measure, dict[str, float]]:
    """The measure of the design, and by it what a channel tells: nothing where it is the usual one, of all of S."""
    measure, _ = designed_measure(mechanism)
    budgets = _numbers(mechanism.provenance.get("budgets"))
    if measure.is_information and not budgets:
        return measure, {}
    asked = Threat.of(problem, measure=measure, budgets=budgets)
    return measure, replace(threat, measure=measure, attributes=asked.attributes).leakages(problem, channel)


def _agree(counted: Mapping[str, float], claimed: Mapping[str, float]) -> bool:
    """Whether what was counted again is what a file says of it."""
    return all(abs(counted.get(name, 0.0) - value) <= AGREEMENT for name, value in claimed.items())


def _numbers(held: object) -> dict[str, float]:
    """The numbers of a table in a file, by name; nothing where there is no such table."""
    if not isinstance(held, Mapping):
        return {}
    return {str(name): float(value) for name, value in held.items() if is_number(value)}
