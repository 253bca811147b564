"""Audits: what a release really says about the private columns, every number with an interval.

* :func:`mechanism` looks at a mechanism alone,
* :func:`table` counts a table again and checks the promise made for it,
* :func:`release` compares an original and a released table,
* :func:`holdout` designs on some rows and audits on the others.
"""

from __future__ import annotations

from privfunnel.audit.attacker import Attack
from privfunnel.audit.designed import mechanism, table
from privfunnel.audit.estimates import Information, Interval
from privfunnel.audit.held_out import holdout
from privfunnel.audit.population import (
    GuessingBound,
    PopulationBound,
    guaranteed_outputs,
    population_bound,
    population_guessing,
    population_lift,
    population_lower_bound,
)
from privfunnel.audit.promise import Draws, Recount
from privfunnel.audit.released import release
from privfunnel.audit.result import LIMITS, Attribute, Audit, Holdout, Symbol

__all__ = [
    "LIMITS", "Attack", "Attribute", "Audit", "Draws", "GuessingBound", "Holdout", "Information", "Interval",
    "PopulationBound", "Recount", "Symbol", "guaranteed_outputs", "holdout", "mechanism", "population_bound",
    "population_guessing", "population_lift", "population_lower_bound", "release", "table",
]  # fmt: skip
