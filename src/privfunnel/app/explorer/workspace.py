"""What a tab is working on: the counted table, what has been found of its curve, and the folder they lie in."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privfunnel.app.explorer import ledger_keeping as keeping
from privfunnel.app.explorer.events import Event
from privfunnel.app.explorer.folders import UPLOAD
from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.data.tables import Counts
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import PRIVATE, Document, write_whole
from privfunnel.model.problem import Problem
from privfunnel.report.axes import Axis

#: What may be said of a table besides its private and public columns.
ROWS = ("person", "cluster", "weights", "missing", "task")


@dataclass(frozen=True)
class Setting:
    """The loaded table with its roles, counted.

    Attributes:
        source: Path of the table.
        name: What the person calls it: the name of the uploaded file.
        private: Names of the private columns.
        public: Names of the public columns.
        bins: Column to a rule such as ``"width:5"``.
        counts: The counted table.
        problem: Its funnel problem.
        reading: How the file was asked to be read, see :mod:`.reading`.
        person: Column that says who a row is about; empty where each row is about somebody else.
        cluster: Column that says which rows were sampled together; ``weights`` how many people a row stands for; empty
            where there is none.
        missing: What becomes of rows without a value; empty for the default.
        task: Column that the release is for; empty where it is to tell as much as it can.
    """

    source: str
    name: str
    private: tuple[str, ...]
    public: tuple[str, ...]
    bins: dict[str, str]
    counts: Counts
    problem: Problem
    reading: Document = field(default_factory=dict)
    person: str = ""
    cluster: str = ""
    weights: str = ""
    missing: str = ""
    task: str = ""

    @property
    def rows(self) -> dict[str, str]:
        """What was said of the table besides, as keywords of :func:`privfunnel.data.tables.count`."""
        said = {name: getattr(self, name) for name in ROWS}
        return {name: value for name, value in said.items() if value}

    @property
    def private_axis(self) -> Axis:
        """The private symbols."""
        return Axis.of(self.counts.s_alphabet)

    @property
    def public_axis(self) -> Axis:
        """The public symbols."""
        return Axis.of(self.counts.x_alphabet)


class Workspace:
    """One process's view of the session's folder, in which both processes leave what the other needs."""

    def __init__(self, folder: Path, emit: Callable[[Event], None]) -> None:
        """Work in ``folder`` and report through ``emit``."""
        self.folder = folder
        self.emit = emit
        self._cache: dict[str, tuple[int, Any]] = {}

    def put(self, name: str, value: object) -> None:
        """Store a value for both processes, in one piece."""
        write_whole(self.folder / f"{name}.pickle", lambda stream: pickle.dump(value, stream), mode=PRIVATE)

    def get(self, name: str) -> Any:
        """Return a stored value, or None; it is read again only when it has changed."""
        path = self.folder / f"{name}.pickle"
        if not path.exists():
            return None
        stamp = path.stat().st_mtime_ns
        if name not in self._cache or self._cache[name][0] != stamp:
            # The folder is private to this user and its files are written by put() alone.
            self._cache[name] = (stamp, pickle.loads(path.read_bytes()))
        return self._cache[name][1]

    def drop(self, *names: str) -> None:
        """Forget stored values."""
        for name in names:
            (self.folder / f"{name}.pickle").unlink(missing_ok=True)

    def without_paths(self, message: str) -> str:
        """Take the session's folder out of a message: a person knows the file by its name."""
        return re.sub(rf"{re.escape(str(self.folder))}/(?:{UPLOAD}[^/]*/)?", "", message)

    @property
    def units(self) -> str:
        """The unit of the page's amounts of information, ``"bits"`` or ``"nats"``."""
        return self.get("units") or "bits"

    @property
    def keeping(self) -> Keeping:
        """How releases are kept account of."""
        return self.get(keeping.NAME) or Keeping()

    def setting(self) -> Setting:
        """Return the counted table, or say that there is none yet."""
        found = self.get("setting")
        if not isinstance(found, Setting):
            raise InvalidInputError("no table with roles yet: load one and mark private and public columns")
        return found
