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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.checks import is_number, is_whole
from privfunnel.engines import Alphabet, Column, Cut
from privfunnel.engines.bins import OTHER
from privfunnel.engines.categories import Codes
from privfunnel.engines.cutting import FEW, nice, nice_above, rounded
from privfunnel.errors import InvalidInputError
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
    """How a public column is written.

    Attributes:
        column: The column as it was designed, with "(other)" among the values of a text that has rare ones.
        codes: The category that is written for each category of the designed column, shape (categories,).
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

    def promise(self, promise: Mapping[str, Any], rows: float) -> dict[str, Any]:
        """A mechanism's promise: leakage rounded up, disclosure and proved bounds down."""
        return {
            name: self.information(float(value), rows, PROMISED[name])
            if name in PROMISED and value is not None
            else value
            for name, value in promise.items()
        }

    def provenance(self, provenance: Mapping[str, Any]) -> dict[str, Any]:
        """Where something comes from, without what a guessed table could be checked against."""
        told = {name: provenance[name] for name in ("privfunnel", "epsilon") if name in provenance}
        for name in ("rows", "persons"):
            n: Any = provenance.get(name)
            if is_number(n) and n > 0:
                told[name] = self.rows(float(n))
        return told

    # --- values -------------------------------------------------------------------------------------------------

    def rare(self, rows: Array) -> Mask:
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
        counts = p * rows
        if isinstance(column.bins, Cut):
            groups = _grouped(counts[: column.bins.size], self.threshold if rows else 0)
            codes = np.array([group[0] for group in groups] + [*range(column.bins.size, column.n_values)])
            cut = published(column.bins)
            texts = (*(_span_text(cut, group) for group in groups), *["null"] * (column.null_code >= 0))
            numbers = bin_numbers(column, counts, groups)
            return Written(column, codes.astype(np.int64), texts, numbers)
        codes = np.arange(column.n_values)
        rare = self.rare(counts) & (codes != column.null_code)
        if not rare.any():
            return Written(column, codes, _texts(column), None)
        if column.kind == "text":
            null, column = codes == column.null_code, _with_other(column)
            codes[rare], codes[null] = column.values.index(OTHER), column.null_code
            return Written(column, codes, _texts(column), None)
        common = [int(c) for c in np.flatnonzero((counts > 0.0) & ~rare) if c != column.null_code]
        if not common:
            column = column if column.null_code >= 0 else replace(column, values=(*column.values, None))
        for code in np.flatnonzero(rare):
            codes[code] = min(common, key=lambda c: abs(c - code), default=column.null_code)
        return Written(column, codes, _texts(column), None)

    def columns(self, alphabet: Alphabet, p: Array, rows: float) -> tuple[Written, ...]:
        """:meth:`column` for each column of an alphabet whose symbols have the probabilities ``p``."""
        tables = alphabet.by_column(p[:, None])
        return tuple(self.column(column, tables[column.name][:, 0], rows) for column in alphabet.columns)


def _texts(column: Column) -> tuple[str, ...]:
    return tuple(column.text(code) for code in range(column.n_values))


def _with_other(column: Column) -> Column:
    """A column with "(other)" among its values, before null."""
    if OTHER in column.values:
        return column
    at = column.n_values - (column.null_code >= 0)
    return replace(column, values=(*column.values[:at], OTHER, *column.values[at:]))


# --- bins -------------------------------------------------------------------------------------------------------


def published(cut: Cut) -> Cut:
    """Bins as they may be named: of bins that were cut at the data's own numbers, open at the ends and rounded.

    Bins that the steward gave by their edges, and such as have no ends, are published as they are. The others come from
    mechanism files of version 0.1.
    """
    if cut.rule == "edges" or (math.isinf(cut.edges[0]) and math.isinf(cut.edges[-1])):
        return cut
    inner = cut.edges[1:-1]
    if cut.integer:
        inner = tuple(float(math.ceil(edge)) for edge in inner)
    elif inner:
        width = min(high - low for low, high in zip(cut.edges, cut.edges[1:], strict=False))
        inner = tuple(rounded(edge, nice(width / 10.0)) for edge in inner)
    return replace(cut, edges=(-math.inf, *inner, math.inf))


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


def _span_text(cut: Cut, group: tuple[int, ...]) -> str:
    """The label of one bin, or of several that are written as one."""
    if len(group) == 1:
        return cut.labels[group[0]]
    first, last = min(group), max(group)
    return replace(cut, edges=(*cut.edges[: first + 1], *cut.edges[last + 1 :])).labels[first]


def bin_numbers(column: Column, counts: Array, groups: list[tuple[int, ...]]) -> Array:
    """The number that stands for each bin: its mean, rounded to what the bin's width and its rows support.

    Args:
        column: A cut column; without means (a file of version 0.1) the middle of a bin stands for it.
        counts: Expected rows of each category.
        groups: The bins that are written as one, for each bin; the first of them leads.

    Returns:
        Shape (bins,); every number lies in the bin that leads its group.
    """
    cut = column.bins
    assert isinstance(cut, Cut)
    shown = published(cut)
    numbers = np.empty(cut.size)
    for code, group in enumerate(groups):
        lead = group[0]
        mean = _mean(column, counts, group)
        value = _middle(shown, lead) if mean is None else mean
        step = _step(shown, lead, value, float(counts[list(group)].sum()))
        if step > 0.0:
            value = rounded(value, max(step, 1.0) if cut.integer else step)
        least, most = shown.span(lead)
        low, high = shown.edges[lead], shown.edges[lead + 1]
        numbers[code] = min(
            max(value, least if math.isfinite(low) else -math.inf), most if math.isfinite(high) else math.inf
        )
    return numbers


def middles(cut: Cut, numbers: Array) -> Array:
    """The middle of each bin, of one without an end the number that stands for it, shape (bins,)."""
    shown = published(cut)
    ends = np.isfinite(shown.edges)
    return np.array([shown.middle(i) if ends[i] and ends[i + 1] else numbers[i] for i in range(cut.size)])


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
