"""What a mechanism was designed for besides its leakage, counted again: attackers who know something, guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from privfunnel.checks import is_number
from privfunnel.claims import AGREEMENT
from privfunnel.errors import PrivFunnelError
from privfunnel.guarantees import MET
from privfunnel.mechanism import Mechanism
from privfunnel.problem import Channel
from privfunnel.tables import Counts
from privfunnel.threats import Threat


class Guards(NamedTuple):
    """Leakages by what attackers know, in nats; values of guarantees as they are written; whether all are as designed.

    Attackers who know something else than columns cannot be counted again, and are left out with all else.
    """

    leakages: dict[str, float]
    guaranteed: dict[str, float]
    hold: bool


def designed_for(mechanism: Mechanism) -> tuple[dict[str, float], dict[str, float]]:
    """The design's leakages in nats by what attackers know, and its guarantees with their values; empty for neither.

    They are what the file says, which only the table can confirm.
    """
    leakages, guaranteed = (
        {str(name): float(value) for name, value in each.items() if is_number(value)}
        if isinstance(each, Mapping)
        else {}
        for each in (mechanism.provenance.get("leakages"), mechanism.provenance.get("guaranteed"))
    )
    return leakages, guaranteed


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
    except PrivFunnelError:
        return Guards({}, {}, hold=True)
    same = all(abs(leakages.get(name, 0.0) - value) <= AGREEMENT for name, value in claimed.items())
    return Guards(leakages, reached, hold=met and same)
