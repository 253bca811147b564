"""Which rows of a table count, whom they are about, and for how many people each stands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from privfunnel.data.engines.source import Source, Tails
from privfunnel.errors import InvalidInputError

#: What to do with rows that lack a private or public value: count them as a category, leave them out, or stop.
MISSING = ("category", "drop", "refuse")
#: Between these, sums leave weights as they are.
ANY_WEIGHT = Tails(0.0, sys.float_info.max)


def without_missing(table: Source, names: Sequence[str], missing: str) -> tuple[Source, int]:
    """The rows to count, and how many are left out for a missing value.

    Raises:
        InvalidInputError: The rule is unknown, or values are missing and that is refused.
    """
    if missing not in MISSING:
        raise InvalidInputError(f"missing={missing!r} is unknown: use one of {', '.join(MISSING)}")
    lacking = 0 if missing == "category" else table.incomplete(names)
    if not lacking:
        return table, 0
    if missing == "drop":
        return table.complete(names), lacking
    found = {name: told.missing for name, told in table.overview(names).items() if told.missing}
    told = ", ".join(f"{name!r} ({n})" for name, n in found.items())
    raise InvalidInputError(
        f"{lacking} rows of {table.name} have missing values, in {told}: fill them in, leave these rows out (missing="
        "'drop', --missing drop), or take missing as a category"
    )


def persons_in(table: Source, person: str | None, names: Sequence[str]) -> int | None:
    """How many people the rows are about; a row without a name is a person of its own."""
    if person is None:
        return None
    table.require([person])
    if person in names:
        raise InvalidInputError(
            f"column {person!r} says who a row is about: it cannot be private or public too, leave it out there"
        )
    told = table.overview([person])[person]
    return told.distinct + told.missing


def clusters_in(table: Source, cluster: str | None, names: Sequence[str]) -> int | None:
    """How many clusters the rows were sampled in; a row without one is a cluster of its own."""
    if cluster is None:
        return None
    table.require([cluster])
    if cluster in names:
        raise InvalidInputError(
            f"column {cluster!r} says which rows were sampled together: it cannot be private or public too, leave it "
            "out there"
        )
    told = table.overview([cluster])[cluster]
    return told.distinct + told.missing


def check_weights(
    table: Source, weights: str | None, names: Sequence[str]
) -> tuple[dict[str, Tails], float | None]:
    """The column of weights as a sum to ask for, once it is known to hold some, and Σw².

    Returns:
        The column with limits that change no weight, and the sum of the squares; nothing where no column is named.

    Raises:
        InvalidInputError: The column is private, public or no number, or holds something that is no weight.
    """
    if weights is None:
        return {}, None
    table.require([weights])
    if weights in names:
        raise InvalidInputError(
            f"column {weights!r} says how many people a row stands for: it cannot be private or public, nor a person "
            "or a cluster, leave it out there"
        )
    if table.kinds[weights] not in {"integer", "number"}:
        raise InvalidInputError(
            f"column {weights!r} of {table.name} is {table.kinds[weights]}: weights are numbers, "
            f"{table.number_advice(weights) or 'name their column'}"
        )
    found = table.weighing(weights)
    if found.unusable:
        raise InvalidInputError(
            f"{found.unusable} rows of {table.name} have no usable weight in {weights!r} (missing, negative or "
            "infinite): correct them, or give 0 to rows that are not to count"
        )
    if not 0.0 < found.total <= sys.float_info.max or not 0.0 < found.squares <= sys.float_info.max:
        raise InvalidInputError(
            f"the weights in {weights!r} of {table.name} add up to {found.total:g}: give some that are positive, and "
            "of ordinary size"
        )
    return {weights: ANY_WEIGHT}, found.squares
