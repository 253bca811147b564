"""Means, tables and regressions from a release of decoys, with standard errors.

A released row is a list of candidates x with weights w = p(x|y). For a function f of the public columns let g(y) be its
weighted mean over the list. The mean of g over the rows has the mean of f over the table as its expectation: given the
table, E g(Y) = Σ_y p(y) E[f(X)|y] = E f(X). What the draw adds is E Var(g(Y)|X)/n, and that cannot be seen from the
release, but bounded: with B = Var g(Y) between rows and W = E Var(f(X)|Y) within them,

    E Var(g(Y)|X) ≤ B·W / (B + W).

(Let A be the expectation given Y followed by that given X. It is self-adjoint with spectrum in [0, 1], B = ⟨f, A f⟩ and
B + W = ⟨f, f⟩ for centred f, the left side is ⟨f, A(1 − A) f⟩, and λ(1 − λ) is concave: Jensen's inequality.) Standard
errors here are the root of that bound over n: how far an estimate is from the same number of the table that was
released. They say nothing about a population, and nothing here is unbiased for kept or private columns, or for rows
that the mechanism was not designed on. Weights are rounded to thousandths, which moves a mean by at most half a
thousandth of the range of f for each candidate of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import ReadOptions, open_table
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array
from privfunnel.release.candidates import ROW, WEIGHT

BATCH_ROWS = 131_072
#: The constant of a regression.
CONSTANT = "(constant)"


class Estimate(NamedTuple):
    """A number of the table that was released, and its standard error: what the draw of the release adds."""

    value: float
    error: float


def mean(released: object, column: str) -> Estimate:
    """The mean of a column of numbers over the table, empty entries left out.

    Args:
        released: A release of decoys: a path or a frame, as for :func:`privfunnel.data.tables.count`.
        column: The column.

    Raises:
        InvalidInputError: It is no such release, or the column holds no numbers.
    """
    lines = _Lines.read(released, [column])
    values = lines.numbers(column)
    known = ~np.isnan(values)
    share = lines.total(known.astype(np.float64)) / lines.rows
    if share <= 0.0:
        raise InvalidInputError(f"column {column!r} is empty: choose another one")
    value = lines.total(np.where(known, values, 0.0)) / lines.rows / share
    return Estimate(value, lines.error(np.where(known, values - value, 0.0) / share))


def crosstab(released: object, *columns: str) -> dict[tuple[Any, ...], Estimate]:
    """How many rows of the table have each combination of values of some columns.

    Args:
        released: As for :func:`mean`.
        columns: One column or more.

    Returns:
        Combination of values to its number of rows; combinations that no candidate has are left out.
    """
    if not columns:
        raise InvalidInputError("no column is named: give at least one")
    lines = _Lines.read(released, columns)
    found: dict[tuple[Any, ...], Estimate] = {}
    coded = [lines.categories(column) for column in columns]
    codes, place = np.unique(np.stack([code for _, code in coded], axis=1), axis=0, return_inverse=True)
    for k, row in enumerate(codes.tolist()):
        one = (place.reshape(-1) == k).astype(np.float64)
        combination = tuple(values[code] for (values, _), code in zip(coded, row, strict=True))
        found[combination] = Estimate(lines.total(one), lines.rows * lines.error(one))
    return found


def regression(released: object, outcome: str, on: Iterable[str]) -> dict[str, Estimate]:
    """Coefficients of the linear regression of a column of numbers on others, by least squares.

    The sums of squares and products are those of the table, without bias; the coefficients follow from them. Columns of
    texts enter as one indicator for each value but the first. Candidates with an empty entry are left out.

    Args:
        released: As for :func:`mean`.
        outcome: The column to be explained.
        on: The columns that explain it.

    Returns:
        Name of each coefficient, ``(constant)`` first, to its estimate.

    Raises:
        InvalidInputError: A column is missing, or the coefficients are not determined.
    """
    names = [on] if isinstance(on, str) else list(on)
    lines = _Lines.read(released, [outcome, *names])
    y = lines.numbers(outcome)
    terms = {CONSTANT: np.ones(len(y))}
    for name in names:
        terms |= lines.terms(name)
    z = np.stack(list(terms.values()), axis=1)
    known = ~(np.isnan(z).any(axis=1) | np.isnan(y))
    z, y = np.where(known[:, None], z, 0.0), np.where(known, y, 0.0)
    square = z.T @ (lines.weight[:, None] * z) / lines.rows
    if np.linalg.matrix_rank(square) < len(terms):
        raise InvalidInputError(
            f"the coefficients of {', '.join(names)} are not determined: leave out columns that follow from others"
        )
    inverse = np.linalg.inv(square)
    values = inverse @ (z.T @ (lines.weight * y) / lines.rows)
    moved = (z * (y - z @ values)[:, None]) @ inverse
    return {
        name: Estimate(float(value), lines.error(moved[:, k]))
        for k, (name, value) in enumerate(zip(terms, values, strict=True))
    }


class _Lines(NamedTuple):
    """The candidates of a release: row of each, from 0 on, weight, and columns as lists of Arrow arrays."""

    row: NDArray[np.int64]
    weight: Array
    columns: dict[str, Any]

    @classmethod
    def read(cls, released: object, names: Sequence[str]) -> _Lines:
        """Read some columns of a release.

        Raises:
            InvalidInputError: It has no candidates, or lacks a column.
        """
        pa = need("pyarrow", "tables")
        with open_table(released, ReadOptions(header=True)) as table:
            if not {ROW, WEIGHT} <= set(table.columns):
                raise InvalidInputError(
                    f"{table.name} has no columns {ROW!r} and {WEIGHT!r}: give a release that was written as decoys"
                )
            wanted = list(dict.fromkeys([ROW, *names, WEIGHT]))
            table.require(wanted)
            batches = list(table.batches(wanted, BATCH_ROWS))
        if not batches:
            raise InvalidInputError("the release has no rows: there is nothing to compute")
        whole = pa.Table.from_batches(batches)
        row = np.unique(whole.column(ROW).to_numpy(), return_inverse=True)[1].reshape(-1)
        weight = whole.column(WEIGHT).to_numpy().astype(np.float64)
        return cls(row, weight, {name: whole.column(name) for name in names})

    @property
    def rows(self) -> int:
        """n, the number of rows."""
        return int(self.row.max()) + 1

    def total(self, values: Array) -> float:
        """The weighted sum of a value of each candidate."""
        return float(self.weight @ values)

    def error(self, values: Array) -> float:
        """The standard error of the mean of a value, as at the head of this module."""
        inside = np.bincount(self.row, self.weight * values)
        squares = np.bincount(self.row, self.weight * values**2)
        within = max(float(np.mean(squares - inside**2)), 0.0)
        between = float(np.var(inside))
        both = between + within
        return float(np.sqrt(between * within / both / self.rows)) if both > 0.0 else 0.0

    def numbers(self, name: str) -> Array:
        """A column as numbers, NaN where it is empty.

        Raises:
            InvalidInputError: It holds something else.
        """
        kind = str(self.columns[name].type)
        if not kind.startswith(("int", "uint", "float", "double", "bool")):
            raise InvalidInputError(
                f"column {name!r} holds no numbers ({kind}): choose another one, or crosstab"
            )
        return np.asarray(self.columns[name].cast("float64").to_numpy(), dtype=np.float64)

    def categories(self, name: str) -> tuple[list[Any], NDArray[np.int64]]:
        """The different values of a column, in order, empty ones last, and the number of each candidate's."""
        told = self.columns[name].to_pylist()
        values = sorted(set(told), key=lambda value: (value is None, value if value is not None else 0))
        place = {value: i for i, value in enumerate(values)}
        return values, np.array([place[value] for value in told], dtype=np.int64)

    def terms(self, name: str) -> dict[str, Array]:
        """The columns that a column enters a regression with."""
        if str(self.columns[name].type) not in {"string", "large_string"}:
            return {name: self.numbers(name)}
        values, codes = self.categories(name)
        empty = codes == values.index(None) if None in values else np.zeros(len(codes), dtype=bool)
        return {
            f"{name}={value}": np.where(empty, np.nan, (codes == k).astype(np.float64))
            for k, value in enumerate(values)
            if k > 0 and value is not None
        }
