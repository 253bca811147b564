"""From rows to released symbols: recognise x, draw y from p(y|x)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.data.engines import Cut
from privfunnel.data.engines.categories import ABOVE, BELOW
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.model.channels import is_sparse
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import UNSEEN_RULES
from privfunnel.release.persons import PersonTally
from privfunnel.release.randomness import Uniforms
from privfunnel.release.strata import Strata

Indices = NDArray[np.int64]

#: Rows of a sparse matrix whose entries are summed in one go.
ROWS_SUMMED = 1024


class Alias:
    """Draws from the rows of a stochastic matrix in constant time a draw (Walker's alias method, Vose's tables).

    Only outcomes of positive probability get a cell, so that no rounding can ever draw another one.
    """

    def __init__(self, rows: Array) -> None:
        """Build the tables for ``rows``, shape (rows, outcomes), each with a positive sum."""
        support = [np.flatnonzero(row) for row in rows]
        self.size = np.array([len(outcomes) for outcomes in support], dtype=np.int64)
        self.start = np.concatenate([[0], np.cumsum(self.size)[:-1]])
        self.own = np.concatenate(support)
        self.other = self.own.copy()
        self.keep = np.ones(len(self.own))
        for row, outcomes, start in zip(rows, support, self.start.tolist(), strict=True):
            self._build(row[outcomes] / row[outcomes].sum() * len(outcomes), outcomes, start)

    def _build(self, scaled: Array, outcomes: Indices, start: int) -> None:
        weight = scaled.tolist()
        small = [j for j, value in enumerate(weight) if value < 1.0]
        large = [j for j, value in enumerate(weight) if value >= 1.0]
        while small and large:
            low, high = small.pop(), large[-1]
            self.keep[start + low] = weight[low]
            self.other[start + low] = outcomes[high]
            weight[high] -= 1.0 - weight[low]
            if weight[high] < 1.0:
                small.append(large.pop())

    def draw(self, rows: Indices, uniform: Array) -> Indices:
        """One outcome for each entry of ``rows``, from as many uniform numbers in [0, 1)."""
        size = self.size[rows]
        position = uniform * size
        column = np.minimum(position.astype(np.int64), size - 1)
        position -= column
        cell = self.start[rows] + column
        return np.asarray(np.where(position < self.keep[cell], self.own[cell], self.other[cell]))


class Cumulative:
    """Draws from the rows of a sparse stochastic matrix: bisection along the sums of a row's entries.

    Needs no more memory than the matrix, and no loop over its rows; only entries above 0 are ever drawn.
    """

    def __init__(self, rows: Any) -> None:
        """Build the tables for a SciPy sparse array of shape (rows, outcomes), each row with a positive sum."""
        entries = rows.tocsr()
        entries.eliminate_zeros()
        # As narrow as SciPy holds them: half the memory, and rows are looked up one by one.
        self.outcome, self.start = entries.indices, entries.indptr
        sizes = np.diff(self.start)
        sums = np.empty(len(entries.data))
        # Sums over all rows at once would lose the digits of the last ones.
        for first in range(0, len(sizes), ROWS_SUMMED):
            own = self.start[first : first + ROWS_SUMMED + 1]
            total = np.concatenate([[0.0], np.cumsum(entries.data[own[0] : own[-1]])])
            inside = np.repeat(total[own[:-1] - own[0]], np.diff(own))
            sums[own[0] : own[-1]] = total[1:] - inside
        last = self.start[1:] - 1
        self.upto = sums / np.repeat(sums[last], sizes)

    def entries(self, rows: Indices, uniform: Array) -> Indices:
        """The entry that is drawn for each of ``rows``, numbered row by row, from uniform numbers in [0, 1)."""
        low, high = self.start[rows], self.start[rows + 1] - 1
        found: Indices = high.astype(np.int64)
        # Most rows have one entry, and one in a table may have all of them: only those still open are gone on with.
        left = np.flatnonzero(low < high)
        low, high, uniform = low[left], high[left], uniform[left]
        while len(left):
            middle = (low + high) // 2
            above = self.upto[middle] > uniform
            high = np.where(above, middle, high)
            low = np.where(above, low, middle + 1)
            still = low < high
            found[left] = high
            left, low, high, uniform = (each[still] for each in (left, low, high, uniform))
        return found

    def draw(self, rows: Indices, uniform: Array) -> Indices:
        """One outcome for each entry of ``rows``, from as many uniform numbers in [0, 1)."""
        return np.asarray(self.outcome[self.entries(rows, uniform)], dtype=np.int64)


def drawer(rows: Any) -> Alias | Cumulative:
    """What draws from the rows of a stochastic matrix, dense or sparse."""
    return Cumulative(rows) if is_sparse(rows) else Alias(rows)


@dataclass
class Tally:
    """What a sampler met: rows, rows with values unknown at design time by cause, released symbols, and persons."""

    rows: int = 0
    written: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    symbols: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    persons: PersonTally = field(default_factory=PersonTally)

    @property
    def unseen_rows(self) -> int:
        """Rows with a value or combination unknown at design time."""
        return sum(self.unseen.values())


class Sampler:
    """Draws released symbols for batches of rows; holds the mechanism's tables, never a row.

    Args:
        mechanism: The mechanism.
        unseen: What to do with a value or combination that did not occur at design time: ``"error"``; ``"nearest"``,
            the designed symbol with the fewest differing columns (numbers outside the bins: the end bin); ``"class"``,
            drawn as a member of its score class is, where the design has score classes;
            ``"marginal"``, draw from p(y), which says nothing about the row; ``"drop"``, leave the row out. Published
            columns stay as they are: the nearest symbol agrees on them where one does, and p(y|a) takes p(y)'s place.

    Raises:
        InvalidInputError: The rule is unknown, or for score classes that the mechanism has not.
    """

    def __init__(self, mechanism: Mechanism, unseen: str = "error") -> None:
        """Build the tables."""
        if unseen not in UNSEEN_RULES:
            raise InvalidInputError(f"unseen={unseen!r} is unknown: use one of {', '.join(UNSEEN_RULES)}")
        self.scores = mechanism.scores
        if unseen == "class" and (self.scores is None or mechanism.published):
            raise InvalidInputError(
                "unseen='class' is for designs with score classes and without published columns: use nearest, marginal "
                "or drop"
            )
        self.x_alphabet, self.p_x = mechanism.x_alphabet, mechanism.p_x
        self.unseen, self.n_x, self.n_y = unseen, len(mechanism.p_x), mechanism.n_y
        # More rows than there are symbols: p(y), for rows that are to say nothing, and p(y|a) of every stratum, or
        # p(y|t) of every class.
        self.strata = Strata.of(mechanism) if mechanism.published else None
        marginal = mechanism.p_y[None, :]
        if self.strata is not None:
            marginal = np.vstack([marginal, self.strata.p_y])
        rows: Any = np.vstack
        if mechanism.sparse:
            rows = sparse.vstack
        classes = [mechanism.class_channel] if unseen == "class" else []
        self.drawer = drawer(rows([mechanism.channel, marginal, *classes]))
        self.recognise = self.x_alphabet.recogniser()
        self._nearest: dict[tuple[int, ...], int] = {}

    def draw(
        self, batch: object, uniforms: Uniforms, tally: Tally
    ) -> tuple[Indices, NDArray[np.bool_] | None]:
        """Released symbols of a batch.

        Returns:
            The symbols, and a mask of the rows they belong to where some were dropped.

        Raises:
            InvalidInputError: A value or combination was not there at design time, and the rule is ``"error"``.
        """
        x, kept = self.symbols(batch, tally)
        return self.released(x, uniforms, tally), kept

    def symbols(self, batch: object, tally: Tally) -> tuple[Indices, NDArray[np.bool_] | None]:
        """Public symbols of a batch, M or more for a row that is to say nothing, and a mask as in :meth:`draw`.

        Raises:
            InvalidInputError: As :meth:`draw`.
        """
        codes = self.x_alphabet.encode(batch)
        x = self.recognise(codes)
        new = x < 0
        kept = None
        tally.rows += len(x)
        if new.any():
            causes = self._causes([code[new] for code in codes])
            tally.unseen.update(causes)
            if self.unseen == "error":
                raise InvalidInputError(
                    self._complaint(batch, codes, int(np.argmax(new)), tally.rows - len(x))
                )
            if self.unseen == "drop":
                kept, x = ~new, x[~new]
            else:
                own = [code[new] for code in codes]
                by_rule = {"marginal": self._silent, "class": self._in_class, "nearest": self._closest}
                x[new] = by_rule[self.unseen](own)
        return x, kept

    def released(self, x: Indices, uniforms: Uniforms, tally: Tally) -> Indices:
        """Released symbols of public ones."""
        y = self.drawer.draw(x, uniforms(len(x)))
        if len(tally.symbols) == 0:
            tally.symbols = np.zeros(self.n_y, dtype=np.int64)
        np.add.at(tally.symbols, y, 1)  # no array of all symbols for each batch
        tally.written += len(y)
        return y

    def _causes(self, codes: list[Indices]) -> Counter[str]:
        """New rows by the first column that is new; a new combination of known values goes under its own name."""
        causes: Counter[str] = Counter()
        left = np.ones(len(codes[0]), dtype=bool)
        for column, code in zip(self.x_alphabet.columns, codes, strict=True):
            found = left & (code < 0)
            if found.any():
                causes[column.name] += int(found.sum())
            left &= ~found
        if left.any():
            causes["combination"] += int(left.sum())
        return causes

    def _complaint(self, batch: Any, codes: list[Indices], row: int, before: int) -> str:
        map_it = "nearest or marginal" if self.scores is None else "class or marginal"
        remedy = f"map it with --unseen {map_it}, drop such rows with --unseen drop, or design again"
        for column, code in zip(self.x_alphabet.columns, codes, strict=True):
            if code[row] < 0:
                value = batch.column(batch.schema.get_field_index(column.name))[row].as_py()
                known = (
                    "outside the bins" if isinstance(column.bins, Cut) and value is not None else "not seen"
                )
                return f"row {before + row + 1}: {column.name}={value!r} was {known} at design time: {remedy}"
        values = ", ".join(
            column.label(int(code[row])) for column, code in zip(self.x_alphabet.columns, codes, strict=True)
        )
        return f"row {before + row + 1}: the combination {values} was not seen at design time: {remedy}"

    def _silent(self, codes: list[Indices]) -> Indices:
        """Which row of the drawer says nothing beyond what is published."""
        if self.strata is None:
            return np.full(len(codes[0]), self.n_x)
        return self.n_x + 1 + self.strata.recognise(codes)  # −1, a value that is new, gives p(y)

    def _in_class(self, codes: list[Indices]) -> Indices:
        """Which row of the drawer draws as the score class of each new row does."""
        assert self.scores is not None
        return self.n_x + 1 + self.scores.classify(np.stack(codes, axis=1), self.x_alphabet.columns)

    def _closest(self, codes: list[Indices]) -> Indices:
        rows, where = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        found = [self._closest_one(tuple(row)) for row in rows.tolist()]
        return np.asarray(found, dtype=np.int64)[where.reshape(-1)]

    def _closest_one(self, row: tuple[int, ...]) -> int:
        """The symbol with the smallest distance; among equals the most probable one."""
        if row not in self._nearest:
            distance = np.zeros(self.n_x)
            for j, (column, code) in enumerate(zip(self.x_alphabet.columns, row, strict=True)):
                known = self.x_alphabet.codes[:, j]
                if isinstance(column.bins, Cut):
                    size = column.bins.size
                    code = {BELOW: 0, ABOVE: size - 1}.get(code, code)
                    apart = np.abs(known - code) / size
                    # Null is no neighbour of the last bin.
                    numbers = (known < size) & (0 <= code < size)
                    distance += np.where(known == code, 0.0, np.where(numbers, np.minimum(apart, 1.0), 1.0))
                else:
                    distance += known != code
                if self.strata is not None and j in self.strata.places:
                    distance += np.where(known == code, 0.0, float(len(row)))  # more than all others together
            best = np.flatnonzero(distance <= distance.min() + 1e-12)
            self._nearest[row] = int(best[np.argmax(self.p_x[best])])
        return self._nearest[row]
