"""Sticky draws: releases of one series that repeat each other.

Two independent draws of the same rows tell more than one, however little each tells
(:mod:`privfunnel.release.repeated`). The numbers that a row is drawn by are therefore a keyed function, HMAC-SHA256
with a secret that the steward keeps, of the row's id, its public symbol, the series and the mechanism's fingerprint: a
row whose public values have not changed gets the same symbol and the same record month after month, and a release that
repeats itself adds nothing. Without the secret the numbers cannot be told from random ones.

Whether a release repeated another is not taken on trust: its draw has a name that is made of the numbers that every row
was drawn by and the symbol that it got. Other ids, another way to write them, another column of ids, a row that came,
went or changed its public values: each makes another name, and so another draw for a ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privfunnel.data.engines import Source
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import check_target
from privfunnel.release import keys
from privfunnel.release.persons import Bits, PersonDraws, RowRandomness
from privfunnel.release.sampler import Indices


@dataclass(frozen=True)
class StickySummary:
    """Which draws a release repeats.

    Attributes:
        series: Name of the series.
        column: The column whose values the rows go by.
        key: The key file, which is confidential.
        new: Whether it was made for this release, which therefore repeats no other.
        draw: The name of the draw, the same for releases that repeat each other; None where that cannot be proved.
    """

    series: str
    column: str
    key: str
    new: bool
    draw: str | None

    @property
    def line(self) -> str:
        """What is repeated, and what to keep, in short."""
        told = f"series {self.series!r}, rows by {self.column!r}, key {self.key}"
        if self.new:
            return f"{told} (new: keep it, since with another key the next release would be a second draw)."
        return f"{told}; rows with the same public values are drawn as before by this mechanism."


class StickyDraws(PersonDraws):
    """Uniform numbers that are the same in all releases of a series by one mechanism.

    Args:
        column: The column whose values the rows go by.
        path: The key file.
        series: Name of the series.
        fingerprint: That of the mechanism.
        several: Whether rows may share a value: they are of one person then.
    """

    #: Numbers of 64 bits in one hash of 32 bytes.
    in_block = 4

    def __init__(
        self, column: str, path: str | os.PathLike[str], series: str, fingerprint: str, *, several: bool
    ) -> None:
        """Nothing is read yet."""
        super().__init__(column, None)
        self.path, self.series, self.fingerprint, self.several = Path(path), series, fingerprint, several
        self.new = False
        self._secret: bytes | None = None
        self._met, self._rows = np.zeros(self.in_block, dtype=np.uint64), 0

    def summary(self, draw: str | None) -> StickySummary:
        """Which draws are repeated; ``draw`` is the name of this one."""
        return StickySummary(self.series, self.column, str(self.path), self.new, draw)

    def met(self, drawn: RowRandomness, y: Indices) -> None:
        """Take the rows of a batch into the draw's name: what each was drawn by, and the symbol that it got.

        The sum over rows modulo 2^64, in four parts of a hash each, does not depend on the order of the rows or on how
        they come in batches.
        """
        symbols = np.zeros(len(drawn.messages), dtype=np.uint64)
        symbols[drawn.of_row] = y  # rows of one message have one symbol
        rows = np.bincount(drawn.of_row, minlength=len(symbols)).astype(np.uint64)
        # An odd factor for each symbol, so that no hash is lost.
        weights: Bits = rows * (np.uint64(2) * symbols + np.uint64(1))
        self._met += (drawn.bits(0) * weights[:, None]).sum(axis=0, dtype=np.uint64)
        self._rows += len(y)

    def name(self) -> str:
        """What tells the draw of the rows that were :meth:`met` from all others; then none have been met."""
        held = f"{self._rows}:{self.column}".encode("utf-8", "surrogatepass")
        found = hashlib.sha256(self.key + self._met.astype("<u8").tobytes() + held).hexdigest()[:16]
        self._met, self._rows = np.zeros(self.in_block, dtype=np.uint64), 0
        return found

    def open(self, table: Source) -> None:
        """Look at the ids of a table, and read the key file or think of a new key, which :meth:`keep` writes.

        Raises:
            InvalidInputError: Rows have no id, or share one and are not told to be of one person; the key file cannot
                be used.
        """
        told = table.overview([self.column])[self.column]
        if told.missing:
            raise InvalidInputError(
                f"column {self.column!r} is missing in {told.missing} of the rows: such a row cannot be drawn alike "
                "the next time; give every row its id"
            )
        rows = 0 if self.several else table.n_rows()
        if told.distinct < rows:
            raise InvalidInputError(
                f"column {self.column!r} has {told.distinct} different values in {rows} rows and does not tell them "
                f"apart: give a column that does, or say that it is who a row is about (--person {self.column})"
            )
        # A link to nowhere is no file that may be made.
        self.new = not (self.path.exists() or self.path.is_symlink())
        if self.new:
            check_target(self.path, force=False)
        secret = keys.new() if self.new else keys.load(self.path)
        self._secret = secret if self.new else None
        # Only what belongs to this series and mechanism travels to executors.
        self.key = _derived(secret, self.series, self.fingerprint)

    def keep(self) -> None:
        """Write a new key; called when everything was drawn, so that a release that fails leaves none behind."""
        if self._secret is not None:
            keys.save(self.path, self._secret)
            self._secret = None

    def block(self, messages: list[bytes], number: int) -> bytes:
        """The hashes of ``messages``; see :class:`~privfunnel.release.persons.PersonDraws`."""
        prefix = number.to_bytes(8, "little")
        return b"".join(hmac.digest(self.key, prefix + message, "sha256") for message in messages)

    def _names(self, values: object) -> list[str | None]:
        names = super()._names(values)
        if any(name is None or not name.strip() for name in names):
            raise InvalidInputError(
                f"rows have a blank {self.column!r}: such a row cannot be drawn alike the next time; give every "
                "row its id"
            )
        return names


def _derived(secret: bytes, series: str, fingerprint: str) -> bytes:
    """The key of one series and one mechanism."""
    name = series.encode("utf-8", "surrogatepass")
    return hmac.digest(secret, b"%d:%b:%b" % (len(name), name, fingerprint.encode()), "sha256")
