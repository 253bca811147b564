"""What a release did, for the person who made it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from privfunnel.release.fidelity import Fidelity
from privfunnel.release.persons import PersonSummary
from privfunnel.release.sticky import StickySummary


@dataclass(frozen=True)
class ReleaseSummary:
    """What a release did.

    Attributes:
        files: The files, all of one draw.
        codebook: The codebook that was written with them, if any.
        order: The confidential file that says which row each line was drawn for; None where the order was kept.
        rows: Rows read.
        written: Rows written to each file.
        unseen: Rows with values unknown at design time, by column (``"combination"`` for a new combination).
        unseen_rule: What was done with them.
        symbols: How often each symbol was released.
        seconds: Wall-clock time.
        seed: The seed, or ``None`` for secure randomness.
        persons: Whom the rows are about; None where every row is a person of its own.
        sticky: Which draws this release repeats; None where they are its own.
        fidelity: What survives of the public columns; None where no records were written.
    """

    files: tuple[Path, ...]
    codebook: Path | None
    order: Path | None
    rows: int
    written: int
    unseen: dict[str, int]
    unseen_rule: str
    symbols: tuple[int, ...]
    seconds: float
    seed: int | None
    persons: PersonSummary | None = None
    sticky: StickySummary | None = None
    fidelity: Fidelity | None = None

    @property
    def out(self) -> Path:
        """The file, or the first of several."""
        return self.files[0]
