"""What can be chosen about a release; light, so that the command line can list it before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from privfunnel.errors import InvalidInputError

#: Records, the public columns with values drawn from p(x|y); decoys, all candidate records of a row with their weights;
#: or released symbols, one column.
FORMS = ("records", "decoys", "symbols")
#: What a record holds for a bin of numbers: its mean, its middle, a number drawn from it, or its name.
NUMBERS = ("mean", "midpoint", "draw", "interval")
#: What is done with a row whose values were not seen at design time.
UNSEEN_RULES = ("error", "nearest", "class", "marginal", "drop")

#: How a CSV is written: commas and decimal points; as spreadsheets read it where commas are decimal signs, with
#: semicolons, decimal commas and a mark of UTF-8; or whichever of them the table itself is closer to.
DIALECTS = ("plain", "semicolon", "source")

DEFAULT_NAME = "released"
DEFAULT_FORM = "records"
DEFAULT_NUMBERS = "mean"
#: Fewer rows than this are few; as in :mod:`privfunnel.release.publication`, which is not loaded for it.
DEFAULT_THRESHOLD = 5
BATCH_ROWS = 131_072

#: Is told the name of a draw before anything is written; None for one that repeats no other. It may refuse it.
Entered = Callable[[str | None], object]


class DrawKeywords(TypedDict, total=False):
    """The fields of :class:`DrawOptions`, as the keywords of the functions that make one of them."""

    keep: Sequence[str]
    unseen: str
    seed: int | None
    name: str
    numbers: str
    threshold: int
    keep_order: bool
    raw_text: bool
    dialect: str
    person: str | None
    sticky: str | os.PathLike[str] | None
    series: str | None
    id: str | None
    enter: Entered | None
    batch_rows: int


@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """How rows are drawn.

    Attributes:
        keep: Further columns to copy unchanged; they void the guarantee.
        unseen: What to do with values that did not occur at design time, one of ``UNSEEN_RULES``; see
            :class:`~privfunnel.release.sampler.Sampler`.
        seed: For experiments only: draw reproducibly instead of from the operating system's secure randomness.
        name: Name of the symbol's column.
        numbers: What a record holds for a bin of numbers: its ``"mean"``, its ``"midpoint"``, a number that is drawn
            from the bin (``"draw"``), or its name (``"interval"``).
        threshold: Values that fewer rows have are written as "(other)"; see
            :class:`~privfunnel.release.publication.Policy`.
        keep_order: Leave the rows in their order instead of shuffling them; refused where the private columns depend on
            a row's place.
        raw_text: Leave texts that a spreadsheet would take for a formula as they are in CSV files.
        dialect: How a CSV is written, one of ``DIALECTS``.
        person: Column that says who a row is about: a person's rows with the same public values are drawn once. That
            of the mechanism by default; "" for none.
        sticky: A key file, for draws that repeat themselves: a row with the same id and the same public values gets the
            same symbol, and the same record, in every release of the series by the same mechanism. Made where there is
            none; confidential. See :mod:`privfunnel.release.sticky`.
        series: Name of the releases that are to repeat each other, with ``sticky``.
        id: Column that tells the rows apart, from release to release, with ``sticky``; that of ``person`` by default.
        enter: Called with the name of the draw before anything is written, so that a ledger has it first, and refuses
            it where it must (:class:`privfunnel.release.ledger.Entering`); the name is None for a draw that repeats no
            other.
        batch_rows: Rows in memory at a time.

    Raises:
        InvalidInputError: What stands for a bin is unknown, or options contradict each other.
    """

    keep: Sequence[str] = ()
    unseen: str = "error"
    seed: int | None = None
    name: str = DEFAULT_NAME
    numbers: str = DEFAULT_NUMBERS
    threshold: int = DEFAULT_THRESHOLD
    keep_order: bool = False
    raw_text: bool = False
    dialect: str = "plain"
    person: str | None = None
    sticky: str | os.PathLike[str] | None = None
    series: str | None = None
    id: str | None = None
    enter: Entered | None = None
    batch_rows: int = BATCH_ROWS

    def __post_init__(self) -> None:
        """Check what stands for a bin, and see whether options fit each other."""
        if self.numbers not in NUMBERS:
            raise InvalidInputError(f"numbers={self.numbers!r} is unknown: use one of {', '.join(NUMBERS)}")
        if self.dialect not in DIALECTS:
            raise InvalidInputError(f"dialect={self.dialect!r} is unknown: use one of {', '.join(DIALECTS)}")
        self._check_sticky()

    def _check_sticky(self) -> None:
        if self.sticky is None:
            if self.series is not None or self.id is not None:
                raise InvalidInputError(
                    "series and id are for sticky draws: name a key file too, e.g. --sticky release.key"
                )
            return
        if not (self.series or "").strip():
            raise InvalidInputError(
                "sticky draws repeat those of a series of releases: name it, e.g. --series monthly"
            )
        if self.seed is not None:
            raise InvalidInputError(
                f"seed={self.seed} and sticky draws exclude each other: leave the seed out"
            )
