"""What may be in a published file: the one place that decides how numbers, values and bins leave the steward's hands.

A release hides persons, and what goes with it must not bring them back. From exact p(y), p(x|y) and p(s|y) the joint
counts follow by linear equations in whole numbers; from an exact size, a fingerprint or an information to nine digits a
guessed table can be confirmed; a bin that ends at the largest value gives that value away. So published shares come in
steps worth at least ``threshold`` rows, information in steps that as many rows could move, sizes are "about 300",
values and combinations that fewer than ``threshold`` rows have are "(other)", and bins end at round numbers or nowhere.

The problem that is solved and its proofs know nothing of this: only what is written does. What it does not protect from
is in ``docs/security.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import Alphabet, Column, Cut, Part, Value
from privfunnel.data.engines.bins import OTHER
from privfunnel.data.engines.categories import Codes
from privfunnel.data.engines.cutting import FEW, nice_above, rounded
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number, is_whole
from privfunnel.infra.storage import Document
from privfunnel.measures import Array

Mask = NDArray[np.bool_]

THRESHOLD = FEW
#: Finest steps of published probabilities: of symbols and public values, and of private ones.
FINEST, FINEST_PRIVATE = 0.001, 0.01
#: Steps that probabilities come in.
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: Most significant digits of a published information.
DIGITS = 3
#: Parts of a bin's width to which the number that stands for it is rounded.
PARTS = 20.0
#: Below this an information is nothing, nats.
NOTHING = 1e-9
#: What of a mechanism's promise is published, and to which side it is rounded: no promise becomes larger.
PROMISED = {
    "disclosure": -1, "leakage": 1, "lower_bound": -1, "requested": -1, "budget": 1, "disclosure_ceiling": 0,
    "leakage_ceiling": 0,
}  # fmt: skip


class Written(NamedTuple):
    """How a public column is written: all that code which writes is given of it.

    Attributes:
        column: The column as it is published. Its values, or bins, are those that may be named, "(other)" and null
            among them; no other value of the designed column is in it, nor its means, nor its own bins.
        codes: The published category of each category of the designed column, shape (designed categories,).
        texts: What people read for each category of ``column``.
        numbers: The number that stands for each bin of a cut, shape (bins,); None for other columns.
    """

    column: Column
    codes: Codes
    texts: tuple[str, ...]
    numbers: Array | None


@dataclass(frozen=True)
class Policy:
    """Decides what may be published.

    Attributes:
        threshold: The number of rows below which a value, a bin or a step of a number counts as telling of persons.

    Raises:
        InvalidInputError: The threshold is no whole number of at least 2.
    """

    threshold: int = THRESHOLD

    def __post_init__(self) -> None:
        """Check the threshold."""
        if not is_whole(self.threshold) or self.threshold < 2:
            raise InvalidInputError(
                f"a threshold of {self.threshold!r} rows hides nobody: give a whole number of at least 2, e.g. 5"
            )

    # --- numbers ------------------------------------------------------------------------------------------------

    def rows(self, n: float) -> int:
        """A number of rows: to two digits, and to no less than twice the threshold."""
        if n <= 0.0:
            return 0
        step = max(10.0 ** (math.floor(math.log10(n)) - 1), nice_above(2.0 * self.threshold))
        return int(max(rounded(n, step), step))

    def about(self, n: float) -> str:
        """The same in words: ``about 300``."""
        return f"about {self.rows(n):,}"

    def step(self, rows: float, finest: float = FINEST) -> float | None:
        """The step to which shares of so many rows are rounded: worth the threshold; None where no step is."""
        return next((s for s in STEPS if s >= finest and s * rows >= self.threshold), None)

    def steps(self, rows: Array, finest: float = FINEST) -> Array:
        """:meth:`step` for many numbers of rows, NaN where no step is worth the threshold; shape (n,)."""
        found = np.full(len(rows), np.nan)
        for step in reversed(STEPS):
            if step >= finest:
                found[step * rows >= self.threshold] = step
        return found

    def share(self, p: float, rows: float, finest: float = FINEST) -> float | None:
        """A share of so many rows, rounded; None where too few rows are behind it."""
        step = self.step(rows, finest)
        return None if step is None else rounded(p, step)

    def information(self, nats: float, rows: float, towards: int = 0) -> float:
        """An amount of information, in nats.

        The step is what ``threshold`` of the rows could change, threshold/n nats, and leaves at most ``DIGITS`` digits.

        Args:
            nats: The amount.
            rows: n, the rows it was counted from; 0 where it comes from no table.
            towards: −1 to round down, 1 to round up, 0 to the nearest.
        """
        if not math.isfinite(nats) or abs(nats) <= NOTHING:
            return nats if not math.isfinite(nats) else 0.0
        step = 10.0 ** (math.floor(math.log10(abs(nats))) - DIGITS + 1)
        if rows > 0.0:
            step = max(step, nice_above(self.threshold / rows))
        multiple = round(nats / step)
        # A number that is a multiple already stays, whatever the last bit of the division says.
        if towards and abs(nats / step - multiple) > 1e-9:
            multiple = math.ceil(nats / step) if towards > 0 else math.floor(nats / step)
        return rounded(multiple * step, step)

    def promise(self, promise: Mapping[str, Any], rows: float) -> Document:
        """A mechanism's promise: leakage rounded up, disclosure and proved bounds down."""
        return {
            name: self.information(float(value), rows, PROMISED[name])
            if name in PROMISED and value is not None
            else value
            for name, value in promise.items()
        }

    def provenance(self, provenance: Mapping[str, Any]) -> Document:
        """Where something comes from, without what a guessed table could be checked against."""
        told = {name: provenance[name] for name in ("privfunnel", "epsilon") if name in provenance}
        for name in ("rows", "persons"):
            n: Any = provenance.get(name)
            if is_number(n) and n > 0:
                told[name] = self.rows(float(n))
        return told

    # --- values -------------------------------------------------------------------------------------------------

    def rare(self, rows: Array | Codes) -> Mask:
        """Which of some numbers of rows are few, of those above 0; floating sums may fall short of a whole number."""
        return np.asarray((rows > 0.0) & (rows < self.threshold - 1e-6))

    def listed(self, p: Array, rows: float) -> Mask:
        """Which symbols of probabilities ``p`` may be named in a codebook or report; a mask."""
        return ~self.rare(p * rows) if rows > 0.0 else np.ones(len(p), dtype=bool)

    def column(self, column: Column, p: Array, rows: float) -> Written:
        """How a public column is written, from the probabilities ``p`` of its categories and the number of rows.

        A rare value of a text is "(other)". Among ordered values (numbers, dates) it is the nearest value that is not
        rare, or null where there is none; a rare bin goes with its fuller neighbour. Null stays null.
        """
        counts = self.counted(column, p, rows)
        if isinstance(column.bins, Cut):
            return self._bins(column, column.bins, counts)
        null = np.arange(column.n_values) == column.null_code
        # A value that no row has is none that was met: it is no more published than a rare one.
        common = ~null & ~self.rare(counts) & ((counts > 0.0) | (not counts.any()))
        known = [column.values[code] for code in np.flatnonzero(common).tolist()]
        place = np.cumsum(common) - 1
        lost = ~null & ~common
        if column.kind == "text":
            if (lost & (counts > 0.0)).any() and OTHER not in known:
                known.append(OTHER)
            place[lost] = known.index(OTHER) if OTHER in known else 0
        else:
            near = np.flatnonzero(common)
            for code in np.flatnonzero(lost).tolist():
                place[code] = np.abs(near - code).argmin() if near.size else 0
        place[null] = len(known)
        shown = Column(
            published_name(column), _kind(column, known), (*known, *[None] * (bool(null.any()) or not known))
        )
        return Written(shown, place.astype(np.int64), _texts(shown), None)

    def _bins(self, column: Column, cut: Cut, counts: Array) -> Written:
        """How a cut column is written: rare bins are one with their neighbours."""
        few = self.threshold if counts.any() else 0
        groups = list(dict.fromkeys(_grouped(counts[: cut.size], few)))
        ends = (*(cut.edges[min(group)] for group in groups), cut.edges[-1])
        merged = replace(cut, edges=ends, part="")
        place = np.full(column.n_values, len(groups))  # null
        for i, group in enumerate(groups):
            place[list(group)] = i
        null = (None,) * (column.null_code >= 0)
        kind = "integer" if merged.integer and column.kind == "number" else column.kind
        told = Column(published_name(column), kind, (*merged.labels, *null), merged)
        numbers = bin_numbers(column, counts, groups, few)
        return Written(told, place.astype(np.int64), _texts(told), numbers)

    def counted(self, column: Column, p: Array, rows: float) -> Array:
        """How many people have each category: persons where they were counted, else rows; shape (categories,)."""
        return p * rows if column.persons is None else np.array(column.persons, dtype=np.float64)

    def named(self, alphabet: Alphabet, p: Array, rows: float) -> Mask:
        """Which symbols of an alphabet, of probabilities ``p``, enough people have to be named; a mask."""
        return self.listed(p, rows) if alphabet.persons is None else ~self.rare(alphabet.persons)

    def columns(self, alphabet: Alphabet, p: Array, rows: float) -> tuple[Written, ...]:
        """:meth:`column` for each column of an alphabet whose symbols have the probabilities ``p``."""
        tables = alphabet.by_column(p[:, None])
        return tuple(self.column(column, tables[column.name][:, 0], rows) for column in alphabet.columns)


def published_name(column: Column) -> str:
    """What a column is called in a release: one that holds a part of dates says which, ``born (age at 2020-01-01)``."""
    part = column.bins.rule if isinstance(column.bins, Part) else getattr(column.bins, "part", "")
    return f"{column.name} ({Part(part).words})" if part else column.name


def published_codes(written: Sequence[Written], codes: Codes) -> Codes:
    """The published categories of symbols given by their designed ones, shape (symbols, columns)."""
    if all(len(w.codes) == w.column.n_values and (np.diff(w.codes) == 1).all() for w in written):
        return codes  # nothing is rare
    return np.stack([w.codes[codes[:, j]] for j, w in enumerate(written)], axis=1)


def _texts(column: Column) -> tuple[str, ...]:
    return tuple(column.text(code) for code in range(column.n_values))


def _kind(column: Column, known: Sequence[Value]) -> str:
    """The kind of published values: whether a rare number had decimals does not show in how the others are written."""
    whole = column.kind == "number" and all(isinstance(value, int) for value in known)
    return "integer" if whole else column.kind


# --- bins -------------------------------------------------------------------------------------------------------


def _grouped(counts: Array, threshold: float) -> list[tuple[int, ...]]:
    """Each bin's group, the first of which stands for it: a bin with few rows goes with its fuller neighbour."""
    groups = [[i] for i in range(len(counts))]

    def size(group: list[int]) -> float:
        return float(counts[group].sum())

    while len(groups) > 1 and (few := [g for g in groups if 0.0 < size(g) < threshold - 1e-6]):
        at = groups.index(min(few, key=size))
        beside = [i for i in (at - 1, at + 1) if 0 <= i < len(groups)]
        other = max(beside, key=lambda i: size(groups[i]))
        # The fuller one leads: its number stands for the group.
        low, high = min(at, other), max(at, other)
        groups[low : high + 1] = [groups[other] + groups[at]]
    leading = {code: tuple(group) for group in groups for code in group}
    return [leading[code] for code in range(len(counts))]


def bin_numbers(column: Column, counts: Array, groups: Sequence[tuple[int, ...]], threshold: float) -> Array:
    """The number that stands for each group of bins: its mean, rounded to what a bin's width and its rows support.

    Args:
        column: A cut column; without means (of counts with noise) the middle of a bin stands for it.
        counts: Expected rows of each category.
        groups: The bins that are written as one; the first of each group leads.
        threshold: Bins of fewer rows have no say, unless there are no others in their group.

    Returns:
        Shape (groups,); every number lies in the bin that leads its group.
    """
    cut = column.bins
    assert isinstance(cut, Cut)
    numbers = np.empty(len(groups))
    for i, group in enumerate(groups):
        lead = group[0]
        heard = tuple(code for code in group if counts[code] >= threshold - 1e-6) or group
        mean = _mean(column, counts, heard)
        value = _middle(cut, lead) if mean is None else mean
        step = _step(cut, lead, value, float(counts[list(heard)].sum()))
        if step > 0.0:
            value = rounded(value, max(step, 1.0) if cut.integer else step)
        least, most = cut.span(lead)
        low, high = cut.edges[lead], cut.edges[lead + 1]
        numbers[i] = min(
            max(value, least if math.isfinite(low) else -math.inf), most if math.isfinite(high) else math.inf
        )
    return numbers


def middles(cut: Cut, numbers: Array) -> Array:
    """The middle of each published bin, of one without an end the number that stands for it, shape (bins,)."""
    ends = np.isfinite(cut.edges)
    return np.array([cut.middle(i) if ends[i] and ends[i + 1] else numbers[i] for i in range(cut.size)])


def _mean(column: Column, counts: Array, group: tuple[int, ...]) -> float | None:
    if column.means is None:
        return None
    known = [(counts[code], column.means[code]) for code in group]
    total = sum(n for n, mean in known if mean is not None)
    return sum(n * mean for n, mean in known if mean is not None) / total if total > 0.0 else None


def _middle(cut: Cut, code: int) -> float:
    """The middle of a bin; of one without an end, as far from its cut point as the middle of its neighbour is."""
    low, high = cut.edges[code], cut.edges[code + 1]
    if math.isfinite(low) and math.isfinite(high):
        return cut.middle(code)
    finite = [edge for edge in cut.edges if math.isfinite(edge)]
    if not finite:
        return 0.0
    reach = 0.0
    if len(finite) > 1:
        reach = (finite[1] - finite[0] if math.isinf(low) else finite[-1] - finite[-2]) / 2.0
    return finite[0] - reach if math.isinf(low) else finite[-1] + reach


def _step(cut: Cut, code: int, value: float, rows: float) -> float:
    """To what a bin's number is rounded: a part of the bin's width, and more than one row could move it."""
    low, high = cut.edges[code], cut.edges[code + 1]
    if math.isfinite(low) and math.isfinite(high):
        width = high - low
    elif math.isinf(low) and math.isinf(high):
        width = abs(value)
    else:
        width = 3.0 * abs(value - (high if math.isinf(low) else low))
    size = max(width / PARTS, width / rows if rows > 0.0 else 0.0)
    return nice_above(size) if size > 0.0 else 0.0
