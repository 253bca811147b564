"""The ledger of a table: which mechanisms its rows were drawn by, and what all draws tell together.

Draws that repeat each other (:mod:`privfunnel.release.sticky`) are one, and one that follows another tells that too
(:mod:`privfunnel.sequels`); all others are independent given x, and tell I(S;Y_1 … Y_m) together, which is computed
exactly on the table that the ledger was begun with (:mod:`privfunnel.repeated`). The file holds that table and the
channels: it is confidential, as the mechanisms are.
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from privfunnel import channels, measures
from privfunnel.audit.alignment import recount
from privfunnel.audit.board import LedgerEntry, Together
from privfunnel.engines import Alphabet, ReadOptions
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.mechanism import Mechanism
from privfunnel.problem import Channel, Problem
from privfunnel.quantities import in_both, parse, told
from privfunnel.release.sticky import draw_name
from privfunnel.repeated import joint_channel, joint_leakage
from privfunnel.sequels import Sequel, sequel
from privfunnel.storage import AnyPath, Stored, check_target
from privfunnel.tables import Counts

#: Nats by which a budget may be exceeded: rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Entry:
    """One release.

    Attributes:
        mechanism: Fingerprint of the mechanism.
        draw: What tells draws apart; the same for releases that repeat each other.
        series: Name of the series, where the draws are sticky.
        date: When it was entered, e.g. ``2026-05-31``.
        follows: The draw whose symbols its own depend on, where it was designed for that; its symbols tell those.
    """

    mechanism: str
    draw: str
    series: str | None
    date: str
    follows: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """JSON-ready; what follows none is written as before there were such."""
        return {name: value for name, value in vars(self).items() if name != "follows" or value is not None}


@dataclass(frozen=True, eq=False)
class Ledger(Stored):
    """Releases of one table; nats.

    Attributes:
        problem: The table that the ledger was begun with.
        entries: The releases, the first one first.
        channels: p(y|x) by the fingerprint of each mechanism, shape (M, N).
    """

    schema: ClassVar[str] = "privfunnel/ledger"
    #: Version 2 has releases that follow others; a ledger without any is still written as version 1.
    schema_version: ClassVar[int] = 2
    oldest_version: ClassVar[int | None] = 1

    problem: Problem
    entries: tuple[Entry, ...] = ()
    channels: Mapping[str, Channel] = field(default_factory=dict)

    @classmethod
    def begin(cls, table: Any, mechanism: Mechanism, read: ReadOptions | None = None) -> Ledger:
        """An empty ledger for a table, which is counted as the mechanism counts.

        Args:
            table: Its rows, as for :func:`privfunnel.tables.count`, private columns included.
            mechanism: Says which columns are private and public, and how they are binned.
            read: How to read a file, where it differs from the design data.
        """
        names = mechanism.private_names, mechanism.public_names
        how = mechanism.read_options(read)
        counts = recount(table, *names, mechanism.bins, how, mechanism.missing, mechanism.weights)
        return cls(counts.problem())

    @cached_property
    def draws(self) -> dict[str, str]:
        """The different draws, each with the fingerprint of its mechanism."""
        return {entry.draw: entry.mechanism for entry in self.entries}

    @cached_property
    def standing(self) -> dict[str, str]:
        """The draws that no other follows: these are independent given x, and tell all there is."""
        followed = {entry.follows for entry in self.entries}
        return {draw: name for draw, name in self.draws.items() if draw not in followed}

    @property
    def told(self) -> list[Channel]:
        """p(y|x) of these draws, each (M, N)."""
        return [self.channels[name] for name in self.standing.values()]

    @cached_property
    def leakage(self) -> float:
        """I(S;Y_1 … Y_m) of the different draws in nats, exactly; 0 where there are none."""
        return joint_leakage(self.problem, self.told) if self.draws else 0.0

    def together(self, mechanism: Mechanism, budget: float | None = None) -> Together:
        """What all draws tell, that of a mechanism included, for an audit of it.

        Args:
            mechanism: The mechanism.
            budget: What they may tell together, in nats, where that is to be checked.

        Raises:
            InvalidInputError: The mechanism is for other columns or bins.
        """
        entered = mechanism.fingerprint in self.draws.values()
        every = self if entered else self.with_release(mechanism)
        joint = joint_channel(self.problem, every.told)
        people = float(self.problem.n or mechanism.behind or 1.0)
        mean = measures.pointing(channels.joint(self.problem.p_x, joint))[1]
        return Together(
            releases=len(every.entries),
            draws=len(every.draws),
            leakage=every.leakage,
            ceiling=self.problem.leakage_ceiling,
            linked=min(mean / people, 1.0),
            entered=entered,
            listed=tuple(
                LedgerEntry(each.date, each.series, self.alone(each), each.follows is not None)
                for each in self.entries
            ),
            budget=budget,
        )

    def next_release(self, **asked: Any) -> Sequel:
        """The design of the next release, given all draws that there are: see :func:`privfunnel.sequels.sequel`.

        Args:
            **asked: ``disclosure=`` or ``leakage=`` of all releases together, and options of the solver.

        Raises:
            InvalidInputError: There are no releases yet.
        """
        if not self.draws:
            raise InvalidInputError("the ledger has no releases: the first one is designed by solve alone")
        return sequel(self.problem, self.told, **asked)

    def next_mechanism(self, made: Sequel, counts: Counts) -> Mechanism:
        """The mechanism of a design by :meth:`next_release`.

        Raises:
            InvalidInputError: Several draws stand side by side, so that a row has several earlier symbols; or the
                counts are of another table.
        """
        if len(self.standing) != 1:
            raise InvalidInputError(
                f"{len(self.standing)} independent draws stand in the ledger, and a mechanism follows one: keep what "
                "is designed (solution.json), and name their symbols --published in a design of their own"
            )
        return made.mechanism(counts, next(iter(self.standing)))

    def alone(self, entry: Entry) -> float:
        """I(S;Y) of one release in nats."""
        return self.problem.evaluate(self.channels[entry.mechanism]).leakage

    def with_release(
        self,
        mechanism: Mechanism,
        *,
        draw: str | None = None,
        series: str | None = None,
        date: str | None = None,
    ) -> Ledger:
        """This ledger with one release more.

        Args:
            mechanism: The mechanism.
            draw: What tells sticky draws apart, see :func:`privfunnel.release.sticky.draw_name`; without it, the rows
                were drawn anew.
            series: Name of the series, where the draws are sticky.
            date: Today by default.

        Raises:
            InvalidInputError: The mechanism is for other columns or bins.
        """
        channel = self._channel(mechanism)
        entry = Entry(
            mechanism.fingerprint,
            draw or secrets.token_hex(8),
            series,
            date or datetime.datetime.now(datetime.UTC).date().isoformat(),
            mechanism.follows,
        )
        if (
            mechanism.follows is not None
            and entry.draw not in self.draws
            and mechanism.follows not in self.standing
        ):
            raise InvalidInputError(
                f"another release follows the draw {mechanism.follows} already, and this one was not designed for it: "
                "design the next release anew (solve --ledger)"
            )
        known = {**self.channels, entry.mechanism: channel}
        return replace(self, entries=(*self.entries, entry), channels=known)

    def drawn(self, mechanism: Mechanism, sticky: AnyPath | None = None, series: str | None = None) -> Ledger:
        """This ledger with a release more: drawn anew, or by the key file and series of sticky draws."""
        if sticky is None or series is None:
            return self.with_release(mechanism)
        draw = draw_name(sticky, series, mechanism.fingerprint)
        return self.with_release(mechanism, draw=draw, series=series.strip())

    @property
    def words(self) -> str:
        """How many releases and draws there are, and what they tell together."""
        return (
            f"releases {len(self.entries)}, draws {len(self.draws)}: together they tell at most "
            f"{told(self.leakage)}."
        )

    def check_within(self, budget: str, units: str | None = None) -> None:
        """Refuse draws that tell more together than an amount as people write it: ``5%``, ``0.1 bits``.

        Args:
            budget: The amount, a share of I(S;X) or in a unit.
            units: What a bare number counts in, nats by default.

        Raises:
            InfeasibleError: They do.
        """
        self.check(self.amount(budget, units))

    def amount(self, budget: str, units: str | None = None) -> float:
        """A budget as people write it, in nats."""
        ceiling = self.problem.leakage_ceiling
        return parse(budget, ceiling=ceiling, whole="I(S;X)", name="--budget", units=units or "nats")

    def check(self, budget: float) -> None:
        """Refuse draws that tell more than ``budget`` nats together.

        Raises:
            InfeasibleError: They do.
        """
        if self.leakage > budget + ROUNDING:
            raise InfeasibleError(
                f"all draws of these rows together ({len(self.draws)}) tell {in_both(self.leakage)}, more than the "
                f"budget of {in_both(budget)}: repeat an earlier draw (--sticky, with its key, series and mechanism) "
                "or allow more"
            )

    def _channel(self, mechanism: Mechanism) -> Channel:
        """p(y|x) for the public symbols of the ledger's table."""
        if mechanism.follows is not None:
            return self._after(mechanism, mechanism.follows)
        places = {label: place for place, label in enumerate(mechanism.x_labels)}
        missing = [label for label in self.problem.x_labels if label not in places]
        if missing:
            raise InvalidInputError(
                f"the mechanism does not know the symbol {missing[0]!r} of the ledger's table: give the ledger of the "
                "table it was designed on, with the same columns and bins, or begin a new one"
            )
        at = np.array([places[label] for label in self.problem.x_labels])
        rows = mechanism.channel.tocsr()[at] if mechanism.sparse else mechanism.channel[at]
        return self.problem.check_channel(rows)

    def _after(self, mechanism: Mechanism, draw: str) -> Channel:
        """p(y|x) = Σ p(y_0|x) p(y|x, y_0) of a mechanism that follows a draw; each y belongs to one y_0.

        Raises:
            InvalidInputError: The ledger has no such draw, or it was drawn otherwise.
        """
        if draw not in self.draws:
            raise InvalidInputError(
                f"the mechanism follows the draw {draw}, which this ledger does not have: give the ledger that it was "
                "designed with"
            )
        earlier = self.channels[self.draws[draw]]
        table = np.asarray(earlier.toarray() if channels.is_sparse(earlier) else earlier)
        alphabet = mechanism.x_alphabet
        labels = Alphabet(alphabet.columns[:-1], alphabet.codes[:, :-1]).labels
        places = {label: place for place, label in enumerate(self.problem.x_labels)}
        x, y = np.array([places.get(label, -1) for label in labels]), alphabet.codes[:, -1]
        shares = np.zeros_like(table)
        if x.min() >= 0 and y.max() < table.shape[1]:
            shares[x, y] = table[x, y]
        if np.abs(shares.sum(axis=1) - 1.0).max() > ROUNDING:
            raise InvalidInputError(
                f"the mechanism does not know every public value and symbol of the draw {draw} that it follows: give "
                "the ledger that it was designed with"
            )
        made = np.zeros((self.problem.n_x, mechanism.n_y))
        np.add.at(made, x, shares[x, y][:, None] * mechanism.channel)
        return self.problem.check_channel(made)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        follow = any(entry.follows is not None for entry in self.entries)
        return {
            **self.heading(),
            "version": 2 if follow else 1,
            "units": "nats",
            "problem": self.problem.to_dict(),
            "entries": [entry.to_dict() for entry in self.entries],
            "channels": {name: channels.to_stored(channel) for name, channel in self.channels.items()},
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: It is no ledger, of a version this release cannot read, incomplete or altered.
        """
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            entries = tuple(Entry(**entry) for entry in data["entries"])
            known = {
                str(name): problem.check_channel(channels.from_stored(stored))
                for name, stored in data["channels"].items()
            }
            for entry in entries:
                texts = (entry.mechanism, entry.draw, entry.date, entry.series or "", entry.follows or "")
                fits = entry.mechanism in known and entry.follows in (None, *(each.draw for each in entries))
                if not all(isinstance(text, str) for text in texts) or not fits:
                    raise InvalidInputError(
                        f"entry {entry!r} of the ledger is malformed: the file was changed"
                    )
            return cls(problem, entries, known)


def opened(path: AnyPath, table: Any, mechanism: Mechanism, read: ReadOptions | None = None) -> Ledger:
    """The ledger of a file, or where there is none an empty one for a table, see :meth:`Ledger.begin`.

    Raises:
        InvalidInputError: The file is no ledger or cannot be written, or the table does not fit the mechanism.
    """
    check_target(Path(path), force=True)
    return Ledger.load(path) if Path(path).exists() else Ledger.begin(table, mechanism, read)
