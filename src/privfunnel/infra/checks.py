"""What the arguments of several rooms are checked for; NumPy's numbers count as numbers, truth values do not."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.errors import InvalidInputError

#: A table of probabilities may miss 1 by this much; it is then normalised.
SUM_TOLERANCE = 1e-6


def with_comma(name: str, columns: Sequence[str]) -> str:
    """How to write the column that a comma has cut ``name`` off, an advice; empty where there is none such."""
    for column in columns:
        if "," in column and name.strip().casefold() in (
            part.strip().casefold() for part in column.split(",")
        ):
            inside = column.replace('"', '""')
            written = shlex.quote(f'"{inside}"')
            return f"did you mean {column!r}? A name that holds a comma stands in quotes: {written}"
    return ""


def is_whole(value: object) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a real number, infinities and NaN included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_seed(seed: int) -> None:
    """Raise unless ``seed`` is a whole number of at least 0."""
    if not is_whole(seed) or seed < 0:
        raise InvalidInputError(f"seed={seed!r} is not a seed: give a whole number ≥ 0")


def frame_labels(given: object, side: str) -> list[str] | None:
    """Labels such as ``sex=man, death=1`` from the ``index`` or ``columns`` of a frame; None where it has none.

    A plain numbering without a name is no label.
    """
    axis: Any = getattr(given, side, None)
    if not (hasattr(given, "to_numpy") and hasattr(axis, "names")):
        return None
    names, values = list(axis.names), axis.tolist()
    if names == [None] and values == list(range(len(values))):
        return None
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        ", ".join(str(v) if name is None else f"{name}={v}" for name, v in zip(names, row, strict=True))
        for row in rows
    ]


def refuse_margins(given: object, table: NDArray[np.float64]) -> None:
    """Refuse a cross-tabulation with its sums in the last row and column: they would be counted as people."""
    last = [_last(getattr(given, side, None)) for side in ("index", "columns")]
    if last[0] is not None and last[0] == last[1] and min(table.shape) > 1:
        sums = np.array_equal(table[-1], table[:-1].sum(axis=0)) and np.array_equal(
            table[:, -1], table[:, :-1].sum(axis=1)
        )
        if sums:
            raise InvalidInputError(
                f"the table has its sums as {last[0]!r} in the last row and column: make it without margins"
            )


def _last(axis: Any) -> Any:
    """The last label of a frame's axis, the first part of it where it has several; None where there is no axis."""
    if not hasattr(axis, "tolist") or not len(axis):
        return None
    label = axis.tolist()[-1]
    return label[0] if isinstance(label, tuple) else label


def as_labels(labels: Sequence[str] | None, size: int, letter: str) -> tuple[str, ...]:
    """Labels as texts, one a symbol and all different; ``x0``, ``x1``, … where none are given."""
    if labels is None:
        return tuple(f"{letter}{i}" for i in range(size))
    if isinstance(labels, str):
        raise InvalidInputError(
            f"{letter}_labels is the text {labels!r}: give a list with one label a symbol"
        )
    try:
        named = tuple(map(str, labels))
    except TypeError:
        raise InvalidInputError(
            f"{letter}_labels={labels!r} is not a list: give one label a symbol"
        ) from None
    if len(named) != size:
        raise InvalidInputError(f"{len(named)} {letter}_labels for {size} symbols: give one label a symbol")
    if len(set(named)) != size:
        twice = next(label for label in named if named.count(label) > 1)
        raise InvalidInputError(f"{letter}_labels has {twice!r} twice: labels must differ")
    return named


def as_columns(columns: Mapping[str, Sequence[object]], size: int, whose: str) -> dict[str, tuple[str, ...]]:
    """Named columns as texts, one value a symbol each; ``whose`` they are, public or private, is for the error."""
    if not isinstance(columns, Mapping):
        raise InvalidInputError(
            f"{whose}_columns is a {type(columns).__name__}: give names and, for each, one value a symbol"
        )
    made = {}
    for name, values in columns.items():
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"the {whose} column {name!r} is not a name: give texts")
        texts = () if isinstance(values, str) else tuple(map(str, values))
        if len(texts) != size:
            raise InvalidInputError(
                f"the {whose} column {name!r} has {len(texts)} values for {size} symbols: give one value a symbol"
            )
        made[name] = texts
    return made


def as_table(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """A finite, non-negative float64 matrix, or InvalidInputError with the first offender."""
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise InvalidInputError(
            f"{name} has masked entries: fill them first, with 0 where nothing was counted"
        )
    try:
        given = np.asarray(values)
        if np.iscomplexobj(given):
            raise InvalidInputError(f"{name} has complex entries: give real numbers")
        table = np.array(given, dtype=np.float64)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{name} is not a numeric matrix ({error}): give numbers, rows of one length"
        ) from None
    if table.ndim != 2 or table.size == 0:
        raise InvalidInputError(f"{name} has shape {table.shape}: give a matrix with rows and columns")
    for bad, what in ((~np.isfinite(table), "not finite"), (table < 0.0, "negative")):
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            raise InvalidInputError(
                f"{name}[{row}, {column}] = {table[row, column]:g} is {what}: entries must be finite and ≥ 0"
            )
    return table


def summed(table: NDArray[np.float64], name: str) -> tuple[float, bool]:
    """What a table of counts, weights or probabilities sums to, and whether it holds counts.

    Raises:
        InvalidInputError: It has no positive finite sum, or looks like probabilities that do not sum to 1.
    """
    with np.errstate(over="ignore"):  # an infinite sum is an error with advice, not a warning
        total = float(table.sum())
    if not (total > 0.0 and math.isfinite(total)):
        raise InvalidInputError(
            f"{name} sums to {total:g}: give a table with at least one positive entry and a finite sum"
        )
    is_count = bool(np.all(table == np.floor(table))) and total > 1.0
    if not is_count and table.max() <= 1.0 and SUM_TOLERANCE < abs(total - 1.0) < 0.5:
        raise InvalidInputError(
            f"{name} sums to {total:.9g}, not to 1: correct the table, or divide it by its sum if that is meant"
        )
    return total, is_count


def as_joint(p_s_given_x: ArrayLike, p_x: ArrayLike) -> NDArray[np.float64]:
    """p(s, x), shape (K, M), of p(s|x), shape (K, M) with columns that sum to 1, and p(x), shape (M,).

    Raises:
        InvalidInputError: Sums are further from 1 than by rounding, or the sizes do not fit.
    """
    conditional = as_table(p_s_given_x, "p_s_given_x")
    marginal = as_table(np.atleast_2d(np.asarray(p_x, dtype=object)), "p_x")[0]
    if marginal.shape != (conditional.shape[1],):
        raise InvalidInputError(
            f"p_x has {marginal.size} entries for {conditional.shape[1]} columns of p_s_given_x: give one each"
        )
    sums = conditional.sum(axis=0)
    worst = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[worst] - 1.0) > SUM_TOLERANCE:
        raise InvalidInputError(
            f"column {worst} of p_s_given_x sums to {sums[worst]:.9g}, not to 1: columns are p(s|x), "
            "rows S; transpose the matrix if its rows sum to 1"
        )
    total = float(marginal.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise InvalidInputError(f"p_x sums to {total:.9g}, not to 1: divide it by its sum")
    return np.asarray((conditional / sums) * (marginal / total), dtype=np.float64)
