"""What a mechanism's file says about where it comes from: rows, persons, weights, noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from privfunnel.data.engines import Bins
from privfunnel.data.engines.bins import from_dict as bins_from
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_number, is_whole


class Provenance:
    """Answers from ``provenance``, which a file may have got from anybody: what makes no sense is not there.

    Attributes:
        provenance: Names to what was recorded at design time.
    """

    provenance: Mapping[str, Any]

    @property
    def rows(self) -> float:
        """Rows of the design data, of weighted ones how many they are worth; 0 where that is not recorded."""
        return float(self.provenance.get("rows", 0))

    @property
    def person(self) -> str | None:
        """The column that says who a row is about, where the design was told one."""
        column = self.provenance.get("person")
        return column if isinstance(column, str) and column else None

    @property
    def cluster(self) -> str | None:
        """The column that says which rows were sampled together, likewise."""
        column = self.provenance.get("cluster")
        return column if isinstance(column, str) and column else None

    @property
    def missing(self) -> str:
        """What the design did with rows that lack a value: ``"drop"`` where it left them out, else ``"category"``."""
        return "drop" if self.provenance.get("missing") == "drop" else "category"

    @property
    def weights(self) -> str | None:
        """The column that said how many people a row of the design data stands for, where there was one."""
        column = self.provenance.get("weights")
        return column if isinstance(column, str) and column else None

    @property
    def task(self) -> tuple[str, ...]:
        """The columns that the release was designed for, where it was designed for any."""
        found: Any = self.provenance.get("task")
        columns = found.get("columns") if isinstance(found, Mapping) else None
        named = columns if isinstance(columns, list) else []
        return tuple(column for column in named if isinstance(column, str) and column)

    @property
    def task_weights(self) -> dict[str, float]:
        """The same columns with what a nat of each counts."""
        found: Any = self.provenance.get("task")
        said = found.get("weights") if self.task else None
        weights = said if isinstance(said, Mapping) else {}
        given: dict[str, Any] = {name: weights.get(name) for name in self.task}
        return {
            name: float(each) if is_number(each) and 0.0 < each < math.inf else 1.0
            for name, each in given.items()
        }

    @property
    def task_bins(self) -> dict[str, Bins]:
        """How these columns were cut, where they were."""
        found: Any = self.provenance.get("task")
        said = found.get("bins") if self.task else None
        made = {}
        for name, cut in (said if isinstance(said, Mapping) else {}).items():
            with suppress(InvalidInputError, KeyError, TypeError, ValueError, AttributeError):
                made[name] = bins_from(cut)
        return {name: cut for name, cut in made.items() if name in self.task}

    @property
    def utility(self) -> tuple[float, float] | None:
        """I(U;Y) that the release was designed to keep of its task, and I(U;X), in nats; None without a task."""
        found: Any = self.provenance.get("task")
        if not self.task:
            return None
        kept, whole = found.get("utility"), found.get("utility_ceiling")
        usable = is_number(kept) and is_number(whole) and 0.0 <= kept <= whole < math.inf
        return (float(kept), float(whole)) if usable else None

    @property
    def invariant(self) -> bool:
        """Whether records are released with the table's own distribution."""
        found: Any = self.provenance.get("distortion")
        return isinstance(found, Mapping) and found.get("invariant") is True

    @property
    def follows(self) -> str | None:
        """The draw whose symbol a row's next one depends on, by its ledger's name; None for a release of its own."""
        found: Any = self.provenance.get("follows")
        draw = found.get("draw") if isinstance(found, Mapping) else None
        return draw if isinstance(draw, str) and draw else None

    @property
    def epsilon(self) -> float | None:
        """ε of a design that is differentially private and may be published, see :mod:`privfunnel.data.noise`."""
        found: Any = self.provenance.get("epsilon")
        return float(found) if is_number(found) and found > 0 else None

    @property
    def persons(self) -> int | None:
        """Persons in the design data, where the design was told who they are."""
        found: Any = self.provenance.get("persons")
        return found if is_whole(found) and found > 0 else None

    @property
    def pieces(self) -> int | None:
        """Independent pieces of evidence in the design data, clusters or persons, where the design was told of them."""
        found: Any = self.provenance.get("clusters")
        return found if is_whole(found) and found > 0 else self.persons

    @property
    def behind(self) -> float:
        """How many people are behind a published number: persons where they are known, rows otherwise."""
        return float(self.persons) if self.persons is not None else self.rows
