"""From a frame, an array or a tensor to the matrix that networks read, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.learning.deep.layout import Layout
from privfunnel.measures import Array, Arrays

#: A private or useful number with more values than this is a number, not a category.
MOST_CLASSES = 20
#: More values than this are no category: names and identifiers tell who somebody is, and nothing can be learnt of them.
MOST_VALUES = 2000
#: What stands for a missing category.
MISSING = "(missing)"


@dataclass(frozen=True)
class Column:
    """One column: a number, centred and scaled, or a category with its values as texts.

    Attributes:
        name: What it is called.
        values: The values of a category, in their order; None for a number.
        centre: Mean of a number.
        scale: Its standard deviation.
        whole: Whether all of its values are whole numbers, as those of a released record are then.
    """

    name: str
    values: tuple[str, ...] | None = None
    centre: float = 0.0
    scale: float = 1.0
    whole: bool = False


@dataclass(frozen=True)
class Columns:
    """Columns of a table, numbers first, and how each becomes columns of a matrix."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, table: object, *, classes: bool = False) -> Columns:
        """Look at a table.

        Args:
            table: A frame, a tensor, or an array of shape (rows,) or (rows, columns). Columns of numbers are numbers,
                all others categories; missing categories are a category, missing numbers are refused.
            classes: Take numbers with few values for categories, too: whole ones, and those with at most 20 values.
        """
        made = []
        for name, values in _named(table).items():
            if _is_number(values, classes):
                numbers = values.astype(np.float64)
                _check_finite(name, numbers)
                spread = float(numbers.std())
                whole = bool((numbers == np.rint(numbers)).all())
                made.append(Column(name, None, float(numbers.mean()), spread if spread > 0.0 else 1.0, whole))
            else:
                found = sorted(set(_texts(values).tolist()))
                if len(found) > MOST_VALUES:
                    raise InvalidInputError(
                        f"the column {name!r} has {len(found)} values that are no numbers: leave identifiers out, or "
                        f"join values to at most {MOST_VALUES}"
                    )
                made.append(Column(name, tuple(found)))
        if not made:
            raise InvalidInputError("the table has no columns: give at least one")
        return cls(tuple(sorted(made, key=lambda column: column.values is not None)))

    @property
    def layout(self) -> Layout:
        """What the columns of the matrix mean."""
        groups = tuple(len(column.values) for column in self.columns if column.values is not None)
        return Layout(len(self.columns) - len(groups), groups)

    def matrix(self, table: object) -> NDArray[np.float32]:
        """The table as numbers, shape (rows, layout.width).

        Raises:
            InvalidInputError: A column is missing, or has a value that was not there before.
        """
        found = _named(table)
        parts = []
        for column in self.columns:
            if column.name not in found:
                raise InvalidInputError(f"the column {column.name!r} is missing: give the columns of fit")
            values = found[column.name]
            if column.values is None:
                numbers = _as_numbers(column.name, values)
                parts.append(((numbers - column.centre) / column.scale)[:, None])
            else:
                parts.append(_one_hot(column, _texts(values)))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def table(self, matrix: Array) -> Arrays:
        """Columns by name from a matrix: numbers in their own units, and the likeliest value of each category."""
        made: Arrays = {}
        at = 0
        for column in self.columns:
            if column.values is None:
                numbers = matrix[:, at] * column.scale + column.centre
                made[column.name] = np.rint(numbers) if column.whole else numbers
                at += 1
            else:
                place = matrix[:, at : at + len(column.values)].argmax(axis=1)
                made[column.name] = np.array(column.values, dtype=object)[place]
                at += len(column.values)
        return made

    def to_dict(self) -> list[Document]:
        """JSON-ready."""
        return [
            {
                "name": column.name, "values": None if column.values is None else list(column.values),
                "centre": column.centre, "scale": column.scale, "whole": column.whole,
            }
            for column in self.columns
        ]  # fmt: skip

    @classmethod
    def from_dict(cls, data: Sequence[Document]) -> Columns:
        """Read back what :meth:`to_dict` wrote."""
        return cls(
            tuple(
                Column(
                    str(each["name"]),
                    None if each["values"] is None else tuple(map(str, each["values"])),
                    float(each["centre"]),
                    float(each["scale"]),
                    bool(each["whole"]),
                )
                for each in data
            )
        )


def classes_of(table: object) -> NDArray[np.int64]:
    """One class a row, numbered, shape (rows,): categories as they are, numbers by quarters, columns taken together."""
    found, parts = _named(table), []
    for column in Columns.of(table, classes=True).columns:
        values = found[column.name]
        if column.values is None:
            numbers = values.astype(np.float64)
            parts.append(np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers))
        else:
            parts.append(np.searchsorted(np.array(column.values, dtype=str), _texts(values)))
    return np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _named(table: Any) -> Arrays:
    """The columns of a frame by their names, of anything else as x0, x1, …; each (rows,)."""
    names = getattr(table, "columns", None)
    if names is not None and not callable(names):
        labels = [str(name) for name in names]
        if len(set(labels)) < len(labels):
            raise InvalidInputError("two columns have the same name: rename one of them")
        return {label: np.asarray(table[name]) for label, name in zip(labels, names, strict=True)}
    if hasattr(table, "detach"):
        table = table.detach().cpu().numpy()
    array = np.asarray(table)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim < 2 or 0 in array.shape:
        raise InvalidInputError(
            f"a table of shape {array.shape} has nothing to learn from: give (rows, columns)"
        )
    array = array.reshape(len(array), -1)  # images are flattened
    return {f"x{j}": array[:, j] for j in range(array.shape[1])}


def _is_number(values: NDArray[Any], classes: bool) -> bool:
    if values.dtype.kind in "mM":
        raise InvalidInputError(
            "a column holds dates or durations: give years or days, as numbers or as texts"
        )
    if values.dtype.kind == "c":
        raise InvalidInputError("a column holds complex numbers: give their parts as two columns")
    if values.dtype.kind == "O":  # a mixed array: numbers if all of them are
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            return False
    if values.dtype.kind not in "iufb":
        return False
    return not classes or (values.dtype.kind == "f" and len(np.unique(values)) > MOST_CLASSES)


def _as_numbers(name: str, values: NDArray[Any]) -> Array:
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"the column {name!r} was numbers in fit and is not now: {error}") from error
    _check_finite(name, numbers)
    return numbers


def _check_finite(name: str, numbers: Array) -> None:
    # Numbers beyond this have no variance that a computer can hold.
    if not (np.abs(numbers) < 1e150).all():
        raise InvalidInputError(
            f"the column {name!r} has missing, infinite or huge numbers: fill, drop or scale them first"
        )


def _texts(values: NDArray[Any]) -> NDArray[np.str_]:
    return np.array([MISSING if _is_missing(value) else str(value) for value in values.tolist()], dtype=str)


def _is_missing(value: object) -> bool:
    """None, NaN, NaT, and pandas' NA, whose comparisons are neither true nor false."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _one_hot(column: Column, texts: NDArray[np.str_]) -> Array:
    known = np.array(column.values, dtype=str)
    place = np.searchsorted(known, texts).clip(0, len(known) - 1)
    strange = known[place] != texts
    if strange.any():
        raise InvalidInputError(
            f"the column {column.name!r} has the value {str(texts[strange][0])!r}, which fit has not seen: "
            "leave such rows out, or fit again with them"
        )
    return np.asarray(np.eye(len(known))[place])
