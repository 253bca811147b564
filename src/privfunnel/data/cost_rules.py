"""What a change costs: d(x, y) for every record x and every record y that may be released for it.

A change that must not happen costs infinity. Costs of columns add up; the cost of a whole record is 1 by default,
whatever changes in it, so that E d(X,Y) is the share of records that are changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from privfunnel.data.engines import Column
from privfunnel.data.engines.categories import NULL
from privfunnel.data.tables import Counts
from privfunnel.data.value_orders import places_of
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.measures import Array
from privfunnel.model.costs import LARGEST, Costs, checked_costs
from privfunnel.model.problem import Problem

#: Rules for a column: 1 for another value, the number of steps between ordered values, and no change at all.
RULES = ("hamming", "ordinal", "never")
#: The rule for whole records: 1 for another record.
RECORD = "record"


def costs_of(given: Problem | Counts, costs: object = None) -> Costs:
    """The costs that a user describes.

    Args:
        given: The problem, or the counts behind it, which know the order of each column's values.
        costs: None or ``"record"`` for 1 where anything is changed; a mapping from public columns to rules, whose costs
            add up; or a matrix, shape (M, N), one row a public symbol and one column an output. The rule of a column is
            ``"hamming"`` (1 for another value; also of columns that are not named), ``"ordinal"`` (the number of steps
            between two ordered values), ``"ordinal:low,medium,high"`` for texts whose order is given, ``"never"``, a
            weight such as ``"2"`` or ``"0.5*ordinal"``, or a mapping of mappings from value to value to cost, the
            values as texts.

    Raises:
        InvalidInputError: They cannot be used.
    """
    problem = given if isinstance(given, Problem) else given.problem()
    if isinstance(costs, Costs):
        return Costs(checked_costs(costs.matrix, problem.n_x), costs.words)
    if costs is None or (isinstance(costs, str) and costs == RECORD):
        return Costs(1.0 - np.eye(problem.n_x), "1 for any other record")
    if isinstance(costs, str):
        raise InvalidInputError(
            f"costs={costs!r} is not known: use 'record', or give rules for columns or a matrix"
        )
    if isinstance(costs, Mapping):
        return _by_column(given, problem, costs)
    matrix = checked_costs(costs, problem.n_x)
    return Costs(matrix, f"a matrix for {matrix.shape[0]} records and {matrix.shape[1]} outputs")


def _by_column(given: Problem | Counts, problem: Problem, rules: Mapping[str, Any]) -> Costs:
    """Costs of columns, added up."""
    columns = problem.public_columns
    if not columns:
        raise InvalidInputError(
            "the problem does not say what its public symbols are made of: give a matrix of costs, or public_columns="
        )
    for name in rules:
        if name not in columns:
            raise InvalidInputError(
                f"there is no public column {name!r} to give a cost: use {', '.join(columns)}"
            )
    known = {} if isinstance(given, Problem) else {column.name: column for column in given.public}
    total = np.zeros((problem.n_x, problem.n_x))
    for name, values in columns.items():
        total += _column(name, values, rules.get(name, "hamming"), known.get(name))
    told = [
        f"{name} {f'{rule}'.partition(':')[0] if isinstance(rule, str | float | int) else 'as listed'}"
        for name, rule in rules.items()
    ]
    rest = [] if len(rules) == len(columns) else ["others hamming"]
    return Costs(checked_costs(total, problem.n_x), ", ".join([*told, *rest]))


def _column(name: str, values: tuple[str, ...], rule: object, column: Column | None) -> Array:
    """Costs of one column, shape (M, M)."""
    texts = np.array(values, dtype=object)
    differ = texts[:, None] != texts
    if isinstance(rule, Mapping):
        return _listed(name, values, rule)
    weight, kind, order = _read(name, rule)
    if kind == "never":
        return np.where(differ, np.inf, 0.0)
    if kind == "hamming":
        return np.asarray(weight * differ)
    return np.asarray(weight * np.where(differ, _steps(name, values, column, order), 0.0))


def _read(name: str, rule: object) -> tuple[float, str, str]:
    """Weight, kind and order of a rule such as ``"0.5*ordinal"``, ``"ordinal:low,medium,high"``, ``"never"`` or 2."""
    advice = (
        f"the cost {rule!r} of {name!r} cannot be read: give {', '.join(RULES)}, a weight, or 0.5*ordinal"
    )
    text, colon, order = (f"{rule}" if isinstance(rule, str) or is_number(rule) else "").partition(":")
    text = text.strip()
    weight, star, kind = text.partition("*")
    if not star:
        weight, kind = ("1", text) if text in RULES else (text, "hamming")
    try:
        number = float(weight)
    except ValueError:
        raise InvalidInputError(advice) from None
    kind = kind.strip()
    if kind not in RULES or not 0.0 <= number <= LARGEST or (kind == "never" and star):
        raise InvalidInputError(advice)
    if colon and (kind != "ordinal" or not order.strip()):
        raise InvalidInputError(advice)
    return number, kind, order


def _steps(name: str, values: tuple[str, ...], column: Column | None, order: str) -> Array:
    """Steps between the values of each two symbols, shape (M, M); to a missing value as many as there are values."""
    missing = _missing(column)
    places = places_of(name, (value for value in values if value != missing), column, order)
    at = np.array([places.get(value, math.nan) for value in values])
    steps = np.abs(at[:, None] - at)
    return np.where(np.isnan(steps), float(len({*places.values()})), steps)


def _missing(column: Column | None) -> str:
    """How a missing value is written."""
    if column is None or None not in column.values:
        return NULL
    return column.text(column.values.index(None))


def _listed(name: str, values: tuple[str, ...], costs: Mapping[Any, Any]) -> Array:
    """Costs that are listed value by value."""
    matrix = np.zeros((len(values), len(values)))
    for x, before in enumerate(values):
        for y, after in enumerate(values):
            if before == after:
                continue
            try:
                matrix[x, y] = float(costs[before][after])
            except (KeyError, TypeError, ValueError):
                raise InvalidInputError(
                    f"the costs of {name!r} have no number for the change from {before!r} to {after!r}: list it, "
                    "infinity to forbid it"
                ) from None
    return matrix
