"""What the explorer was started with to keep an account of releases: a ledger, and the key of sticky draws.

The server only hands it on; what is done with it, in the working processes, is in :mod:`.ledger_entries`.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NamedTuple

from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import PRIVATE, check_target, write_whole
from privfunnel.model.amounts import parse
from privfunnel.release import keys
from privfunnel.release.ledger import Ledger, place_of
from privfunnel.release.options import DrawKeywords, DrawOptions

#: Under this name it lies in the folder of every session.
NAME = "keeping"


class Keeping(NamedTuple):
    """How releases are kept account of; empty texts where they are not.

    Attributes:
        ledger: The ledger's file, begun where there is none.
        budget: What all draws of a ledger may tell together, as people write it: ``5%``, ``0.1 bits``.
        sticky: The key file of draws that repeat themselves, made where there is none.
        series: The name of the releases that repeat each other.
        id: Column that tells the rows apart from release to release.
        known: Whether the ledger was there when the session began: one that is gone since is not begun anew.
    """

    ledger: str = ""
    budget: str = ""
    sticky: str = ""
    series: str = ""
    id: str = ""
    known: bool = False

    @property
    def draws(self) -> DrawKeywords:
        """How rows are drawn, as keywords of :func:`privfunnel.release.write_all`."""
        return {"sticky": self.sticky or None, "series": self.series or None, "id": self.id or None}

    @property
    def arguments(self) -> list[str]:
        """The same as ``privfunnel release`` takes it."""
        said = self._replace(known=False)._asdict()
        return [part for name, value in said.items() if value for part in (f"--{name}", value)]

    def checked(self) -> Keeping:
        """This with absolute paths, since working processes may be elsewhere.

        Raises:
            InvalidInputError: Something is missing, cannot be read, or is no ledger or key.
        """
        if self.budget and not self.ledger:
            raise InvalidInputError(
                f"--budget {self.budget} is for all draws of a ledger: name it, e.g. --ledger ledger.json"
            )
        if self.budget:
            parse(self.budget, ceiling=1.0, whole="I(S;X)", name="--budget")
        DrawOptions(**self.draws)
        ledger = str(place_of(self.ledger)) if self.ledger else ""
        for path in filter(None, (ledger, self.sticky)):
            check_target(Path(path), force=True)
        if ledger and Path(ledger).exists():
            Ledger.load(ledger)
        if self.sticky and Path(self.sticky).exists():
            keys.load(Path(self.sticky))
        return self._replace(ledger=ledger, sticky=str(Path(self.sticky).resolve()) if self.sticky else "")

    def leave_in(self, folder: Path) -> None:
        """Leave it for the working processes of a session."""
        left = self._replace(known=bool(self.ledger) and Path(self.ledger).exists())
        write_whole(folder / f"{NAME}.pickle", lambda stream: pickle.dump(left, stream), mode=PRIVATE)
