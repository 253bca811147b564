"""Costs d(x, y) of releasing y for x, as numbers: what a distortion is the mean of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array

#: Costs beyond this are no longer apart from those that forbid a change.
LARGEST = 1e6


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs of releasing y for x.

    Attributes:
        matrix: d, shape (M, N), ≥ 0; infinite where a change is forbidden.
        words: What they are, for people.
    """

    matrix: Array
    words: str

    @property
    def scale(self) -> float:
        """The largest finite cost; 1 where there is none above 0."""
        largest = float(self.matrix[np.isfinite(self.matrix)].max())
        return largest if largest > 0.0 else 1.0

    @property
    def least(self) -> Array:
        """The least that a record costs, shape (M,)."""
        return np.asarray(self.matrix.min(axis=1))

    def of(self, p_x: Array, channel: Array) -> float:
        """E d(X,Y) of a channel, shape (M, N); infinite where it makes a forbidden change."""
        if channel[~np.isfinite(self.matrix)].any():
            return math.inf
        finite = np.where(np.isfinite(self.matrix), self.matrix, 0.0)
        return float(p_x @ (channel * finite).sum(axis=1))

    def to_dict(self) -> Document:
        """JSON-ready; null stands for infinity."""
        rows = [[None if math.isinf(d) else d for d in row] for row in self.matrix.tolist()]
        return {"words": self.words, "matrix": rows}

    @classmethod
    def from_dict(cls, data: Any, n_x: int) -> Costs:
        """Read back what :meth:`to_dict` wrote."""
        rows = [[math.inf if d is None else d for d in row] for row in data["matrix"]]
        return cls(checked_costs(rows, n_x), str(data["words"]))


def checked_costs(costs: object, n_x: int) -> Array:
    """A matrix of costs, or an error that says what is wrong with it."""
    try:
        matrix = np.array(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"costs are not a matrix of numbers ({error}): give d(x, y), a row for each public symbol"
        ) from None
    if matrix.ndim != 2 or matrix.shape[0] != n_x or matrix.shape[1] == 0:
        raise InvalidInputError(
            f"costs have the shape {matrix.shape} for {n_x} public symbols: give d(x, y), a row for each symbol"
        )
    wrong = np.isnan(matrix) | (matrix < 0.0) | (np.isfinite(matrix) & (matrix > LARGEST))
    if wrong.any():
        x, y = (int(i) for i in np.argwhere(wrong)[0])
        raise InvalidInputError(
            f"the cost d[{x}, {y}] = {matrix[x, y]:g} is not usable: give 0 to {LARGEST:g}, or infinity to forbid it"
        )
    stuck = ~np.isfinite(matrix).any(axis=1)
    if stuck.any():
        raise InvalidInputError(
            f"row {int(np.argmax(stuck))} of the costs is infinite: nothing may be released for this symbol"
        )
    return matrix
