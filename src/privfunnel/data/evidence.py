"""How much evidence the rows of a table are: which of them go together, and for how many people each stands."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.score_classes import ScoreClasses
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array


class Evidence:
    """What counts know of the rows behind them; the fields are those of :class:`privfunnel.data.tables.Counts`."""

    cell_n: NDArray[np.int64]
    person: str | None
    persons: int | None
    cluster: str | None
    clusters: int | None
    missing: str
    weights: str | None
    cell_weight: Array | None
    squares: float | None
    epsilon: float | None
    part_of: str | None
    scores: ScoreClasses | None

    @property
    def pieces(self) -> int | None:
        """Independent pieces of evidence where a column says which rows go together: clusters, or persons."""
        return self.persons if self.clusters is None else min(self.clusters, self.persons or self.clusters)

    @property
    def unequal(self) -> bool:
        """Whether rows go together or have weights, so that they are no equal and independent draws."""
        return self.pieces is not None or self.weights is not None

    @property
    def n(self) -> int:
        """The number of rows; of weighted ones, how many a share of the people may be taken to be about.

        That is at most the effective number (Σw)²/Σw², and such that n·p(s, x) is at most the rows of each cell:
        rounding, and hiding what few rows have, never take a heavy row for several.
        """
        if self.cell_weight is None:
            return self.n_rows
        most = float((self.cell_n / self.cell_weight).min()) * float(self.cell_weight.sum())
        # Equal weights give the rows themselves, whatever the last digit says.
        return min(max(math.floor(min(self.n_effective, most) * (1.0 + 1e-9)), 1), self.n_rows)

    @property
    def n_rows(self) -> int:
        """The number of rows, whatever their weights."""
        return int(self.cell_n.sum())

    @property
    def n_effective(self) -> float:
        """(Σw)²/Σw², the number of equally weighted rows with as much evidence; the rows where there are no weights."""
        if self.cell_weight is None or self.squares is None:
            return float(self.n_rows)
        return min(float(self.cell_weight.sum()) ** 2 / self.squares, float(self.n_rows))

    @property
    def design_effect(self) -> float:
        """How many rows are needed for as much evidence as one equally weighted row gives (Kish), 1 or more."""
        return self.n_rows / self.n_effective

    @property
    def described(self) -> Document:
        """What the rows are, JSON-ready, for the files of what is made of them; what is not known is left out."""
        return {
            "rows": self.n,
            **({} if self.person is None else {"person": self.person, "persons": self.persons}),
            **({} if self.cluster is None else {"cluster": self.cluster, "clusters": self.clusters}),
            **({} if self.missing == "category" else {"missing": self.missing}),
            **({} if self.weights is None else {"weights": self.weights}),
            **({} if self.epsilon is None else {"epsilon": self.epsilon}),
            **({} if self.part_of is None else {"part_of": self.part_of}),
            **({} if self.scores is None else {"classes": self.scores.rule}),
        }

    def require_equal(self, what: str) -> None:
        """Refuse ``what`` where rows have weights.

        Raises:
            InvalidInputError: They have.
        """
        if self.weights is not None:
            raise InvalidInputError(
                f"{what} takes each row as one draw from the population, and these rows have weights "
                f"({self.weights!r}): draw rows in proportion to them first (docs/auditing.md, Surveys), or leave the "
                "weights out"
            )
