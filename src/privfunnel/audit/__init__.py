"""Audits: what a release really says about the private columns, and to whom that applies.

What is said of the rows that a mechanism was designed on is about those rows. A number about the population they come
from rests on rows that were held out from the design, or on another table, and is a bound with a proof.

* :func:`mechanism` looks at a mechanism alone,
* :func:`table` counts a table again and checks the promise made for it,
* :func:`release` compares an original and a released table, every column of it,
* :func:`holdout` holds rows out, designs on the others and bounds the leakage in the population; :func:`guaranteed`
  also returns the design,
* :func:`usefulness` says how well a model for a task does that was trained on the release; :func:`for_task` also what
  else would be as good for it,
* :func:`cross_fitted` designs on parts of the rows in turn and bounds what such designs leak in the population.

Where people have several rows, ``person=`` names the column that says who a row is about, and :func:`rows_of` brings
the rows for :func:`holdout`.
"""

from __future__ import annotations

from privfunnel.audit.attacker import Attack
from privfunnel.audit.band import PopulationBand, population_band
from privfunnel.audit.cross_fit import cross_fitted
from privfunnel.audit.designed import mechanism, table
from privfunnel.audit.estimates import Information, Interval
from privfunnel.audit.extra_columns import FileAttack, Further, FurtherColumn
from privfunnel.audit.held_out import Guaranteed, guaranteed, holdout
from privfunnel.audit.informed import Informed, InformedBound
from privfunnel.audit.persons import Clusters, PersonRows, independent, rows_of
from privfunnel.audit.population import Population
from privfunnel.audit.promise import Draws, Recount
from privfunnel.audit.released import release
from privfunnel.audit.result import LIMITS, Attribute, Audit, Holdout, Preserved, Symbol
from privfunnel.audit.review_board import Board, Question
from privfunnel.audit.task_models import TaskFindings, Usefulness, attackers, for_task, usefulness
from privfunnel.audit.voting import Persons, Vote
from privfunnel.data.population.bounds import (
    GuessingBound,
    PopulationBound,
    guaranteed_outputs,
    population_bound,
    population_guessing,
    population_lift,
    population_lower_bound,
    population_worst_case,
)
from privfunnel.data.population.robust import population_worst_lift
from privfunnel.release.ledger import Together

__all__ = [
    "LIMITS",
    "Attack",
    "Attribute",
    "Audit",
    "Board",
    "Clusters",
    "Draws",
    "FileAttack",
    "Further",
    "FurtherColumn",
    "Guaranteed",
    "GuessingBound",
    "Holdout",
    "Information",
    "Informed",
    "InformedBound",
    "Interval",
    "PersonRows",
    "Persons",
    "Population",
    "PopulationBand",
    "PopulationBound",
    "Preserved",
    "Question",
    "Recount",
    "Symbol",
    "TaskFindings",
    "Together",
    "Usefulness",
    "Vote",
    "attackers",
    "cross_fitted",
    "for_task",
    "guaranteed",
    "guaranteed_outputs",
    "holdout",
    "independent",
    "mechanism",
    "population_band",
    "population_bound",
    "population_guessing",
    "population_lift",
    "population_lower_bound",
    "population_worst_case",
    "population_worst_lift",
    "release",
    "rows_of",
    "table",
    "usefulness",
]  # fmt: skip
