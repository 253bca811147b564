"""What can be chosen about a release; light, so that the command line can list it before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

#: Released symbols, one column; or records, the public columns with values drawn from p(x|y).
FORMS = ("symbols", "records")
#: What a record holds for a bin of numbers.
BINNED = ("midpoint", "uniform", "label")
#: What is done with a row whose values were not seen at design time.
UNSEEN_RULES = ("error", "nearest", "marginal", "drop")

DEFAULT_NAME = "released"
BATCH_ROWS = 131_072


class DrawKeywords(TypedDict, total=False):
    """The fields of :class:`DrawOptions`, as the keywords of the functions that make one of them."""

    keep: Sequence[str]
    unseen: str
    seed: int | None
    name: str
    binned: str
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
        binned: What a record holds for a bin of numbers: ``"midpoint"``, ``"uniform"`` (drawn from the bin) or
            ``"label"``.
        batch_rows: Rows in memory at a time.
    """

    keep: Sequence[str] = ()
    unseen: str = "error"
    seed: int | None = None
    name: str = DEFAULT_NAME
    binned: str = "midpoint"
    batch_rows: int = BATCH_ROWS
