"""The ledger of a table: which mechanisms its rows were drawn by, and what all draws tell together.

Draws that repeat each other (:mod:`privfunnel.release.sticky`) are one, and one that follows another tells that too
(:mod:`privfunnel.release.sequels`); all others are independent given x, and tell I(S;Y_1 … Y_m) together, which is
computed exactly on the table that the ledger was begun with (:mod:`privfunnel.release.repeated`). The file holds that
table and the channels: it is confidential, as the mechanisms are.

No release is without its entry: :class:`Entering` writes it first, as *intended*, and confirms it when the files are on
the disk. What ends in between leaves an entry that counts as a release until the steward settles it.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.data.engines import Alphabet, ReadOptions
from privfunnel.data.tables import Counts, recount
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.locking import locked
from privfunnel.infra.storage import PRIVATE, AnyPath, Document, Stored, check_target, sync_names, write_whole
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.amounts import in_both, parse, told
from privfunnel.model.problem import Problem
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.repeated import joint_channel, joint_leakage
from privfunnel.release.sequels import Sequel, sequel

#: Nats by which a budget may be exceeded: rounding.
ROUNDING = 1e-9
#: What is known of a release: that it was to be made, that it was made, or that it was not after all.
INTENDED, CONFIRMED, WITHDRAWN = "intended", "confirmed", "withdrawn"


class LedgerEntry(NamedTuple):
    """A release in a ledger: when, in which series of sticky draws, and what it tells alone, in nats.

    ``follows`` is whether it was designed for an earlier one, and tells that too.
    """

    date: str
    series: str | None
    leakage: float
    follows: bool


@dataclass(frozen=True)
class Together:
    """What all draws of a ledger tell together; nats.

    Attributes:
        releases: Releases in the ledger; ``draws`` those that do not repeat each other.
        draws: See there.
        leakage: I(S;Y_1 … Y_m), ``ceiling`` I(S;X) of the ledger's table.
        ceiling: See there.
        linked: As :attr:`~privfunnel.audit.review_board.Board.linked`, for who knows which rows of releases are one
            person's.
        entered: Whether the audited mechanism is among the releases; it is counted as one more where it is not.
        listed: The releases of the ledger, the first one first.
        budget: What all draws may tell together, where that was said.
    """

    releases: int
    draws: int
    leakage: float
    ceiling: float
    linked: float
    entered: bool
    listed: tuple[LedgerEntry, ...] = ()
    budget: float | None = None

    @property
    def within(self) -> bool:
        """Whether they keep to the budget, rounding allowed for, where there is one."""
        return self.budget is None or self.leakage <= self.budget + 1e-9


@dataclass(frozen=True)
class Entry:
    """One release.

    Attributes:
        mechanism: Fingerprint of the mechanism.
        draw: What tells draws apart; the same for releases that repeat each other.
        series: Name of the series, where the draws are sticky.
        date: When it was entered, e.g. ``2026-05-31``.
        follows: The draw whose symbols its own depend on, where it was designed for that; its symbols tell those.
        files: The files that hold it, as far as they are known.
        state: ``"intended"`` before they are written, ``"confirmed"`` afterwards; ``"withdrawn"`` where they never
            were: such a release counts no more, and all others do.
    """

    mechanism: str
    draw: str
    series: str | None
    date: str
    follows: str | None = None
    files: tuple[str, ...] = ()
    state: str = CONFIRMED

    def to_dict(self) -> Document:
        """JSON-ready."""
        return vars(self) | {"files": list(self.files)}

    @property
    def named(self) -> str:
        """Its files by their names alone, and when it was entered."""
        return ", ".join([*(Path(file).name for file in self.files), self.date])

    @property
    def well_formed(self) -> bool:
        """Whether everything in it is of the right kind."""
        texts = (self.mechanism, self.draw, self.date, self.series or "", self.follows or "", *self.files)
        return all(isinstance(text, str) for text in texts) and self.state in (INTENDED, CONFIRMED, WITHDRAWN)


@dataclass(frozen=True, eq=False)
class Ledger(Stored):
    """Releases of one table; nats.

    Attributes:
        problem: The table that the ledger was begun with.
        entries: The releases, the first one first, those included that were withdrawn.
        channels: p(y|x) by the fingerprint of each mechanism, shape (M, N).
    """

    schema: ClassVar[str] = "privfunnel/ledger"

    problem: Problem
    entries: tuple[Entry, ...] = ()
    channels: Mapping[str, Channel] = field(default_factory=dict)

    @classmethod
    def begin(cls, table: object, mechanism: Mechanism, read: ReadOptions | None = None) -> Ledger:
        """An empty ledger for a table, which is counted as the mechanism counts.

        Args:
            table: Its rows, as for :func:`privfunnel.data.tables.count`, private columns included.
            mechanism: Says which columns are private and public, and how they are binned.
            read: How to read a file, where it differs from the design data.
        """
        names = mechanism.private_names, mechanism.public_names
        how = mechanism.read_options(read)
        counts = recount(table, *names, mechanism.bins, how, mechanism.missing, mechanism.weights)
        return cls(counts.problem())

    @cached_property
    def releases(self) -> tuple[Entry, ...]:
        """The entries that count: all but the withdrawn."""
        return tuple(entry for entry in self.entries if entry.state != WITHDRAWN)

    @cached_property
    def draws(self) -> dict[str, str]:
        """The different draws, each with the fingerprint of its mechanism."""
        return {entry.draw: entry.mechanism for entry in self.releases}

    @cached_property
    def standing(self) -> dict[str, str]:
        """The draws that no other follows: these are independent given x, and tell all there is."""
        followed = {entry.follows for entry in self.releases}
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
            releases=len(every.releases),
            draws=len(every.draws),
            leakage=every.leakage,
            ceiling=self.problem.leakage_ceiling,
            linked=min(mean / people, 1.0),
            entered=entered,
            listed=tuple(
                LedgerEntry(each.date, each.series, self.alone(each), each.follows is not None)
                for each in self.releases
            ),
            budget=budget,
        )

    def next_release(self, **asked: Any) -> Sequel:
        """The design of the next release, given all draws there are: see :func:`~privfunnel.release.sequels.sequel`.

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
        files: Sequence[AnyPath] = (),
        state: str = CONFIRMED,
    ) -> Ledger:
        """This ledger with one release more.

        Args:
            mechanism: The mechanism.
            draw: The name of a sticky draw, as ``summary.sticky.draw`` of :func:`privfunnel.release.write` and
                :func:`privfunnel.release.drawing.draw_name` tell it; without it, the rows were drawn anew.
            series: Name of the series, where the draws are sticky.
            date: Today by default.
            files: The files that hold it.
            state: ``"intended"`` where they are still to be written.

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
            tuple(str(Path(file).absolute()) for file in files),
            state,
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

    def settled(self, number: int, *, released: bool) -> Ledger:
        """This ledger with an unconfirmed release settled.

        Args:
            number: Its place among the entries, counted from 1.
            released: Whether it was made; otherwise it is withdrawn.

        Raises:
            InvalidInputError: There is no such release or it is settled; or it is to be withdrawn, and something of it
                is there, or another release follows it.
        """
        if not 1 <= number <= len(self.entries) or self.entries[number - 1].state != INTENDED:
            waiting = [str(i) for i, entry in enumerate(self.entries, 1) if entry.state == INTENDED]
            have = f"choose among {', '.join(waiting)}" if waiting else "there is nothing to settle"
            raise InvalidInputError(f"release {number} of the ledger does not wait to be settled: {have}")
        entry = self.entries[number - 1]
        if not released:
            left = [found for file in entry.files for found in _left_of(Path(file))]
            if left:
                raise InvalidInputError(
                    f"{str(left[0])!r} is there, so release {number} may have been made: settle it as --released, or "
                    "remove the file first (move it away where it is an earlier release)"
                )
            others = [each for each in self.releases if each.follows == entry.draw]
            if others and [each.draw for each in self.releases].count(entry.draw) == 1:
                raise InvalidInputError(
                    f"the release of {others[0].named} follows the draw of release {number}, which was made therefore: "
                    "settle it as --released"
                )
        settled = replace(entry, state=CONFIRMED if released else WITHDRAWN)
        return replace(self, entries=(*self.entries[: number - 1], settled, *self.entries[number:]))

    def unsettled(self, path: AnyPath) -> str:
        """One line about releases that were begun and not confirmed, and how to settle them; empty without any.

        Args:
            path: The ledger's file.
        """
        waiting = [(i, entry) for i, entry in enumerate(self.entries, 1) if entry.state == INTENDED]
        if not waiting:
            return ""
        which = "; ".join(f"{i} ({entry.named})" for i, entry in waiting)
        settle = shlex.join(["privfunnel", "ledger", "settle", str(path), str(waiting[0][0])])
        return (
            f"releases that were begun and not confirmed: {which}. Each counts as a release. Unless it is under way, "
            f"look for its files: if they are there or were given away, {settle} --released; if they were never made, "
            f"{settle} --withdrawn"
        )

    @property
    def words(self) -> str:
        """How many releases and draws there are, and what they tell together."""
        more = " Rows whose public values changed between them may tell more." if len(self.draws) > 1 else ""
        return (
            f"releases {len(self.releases)}, draws {len(self.draws)}: together they tell at most "
            f"{told(self.leakage)}.{more}"
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

    def to_dict(self) -> Document:
        """JSON-ready."""
        return {
            **self.heading(),
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
            entries = tuple(Entry(**(entry | {"files": tuple(entry["files"])})) for entry in data["entries"])
            known = {
                str(name): problem.check_channel(channels.from_stored(stored))
                for name, stored in data["channels"].items()
            }
            for entry in entries:
                fits = entry.mechanism in known and entry.follows in (None, *(each.draw for each in entries))
                if not (entry.well_formed and fits):
                    raise InvalidInputError(
                        f"entry {entry!r} of the ledger is malformed: the file was changed"
                    )
            return cls(problem, entries, known)

    def save(self, path: AnyPath) -> None:
        """Write it as JSON, for the user alone, so that it outlasts a power failure; a link is followed.

        Raises:
            InvalidInputError: It cannot be written, or the link leads nowhere.
        """
        target = place_of(path)
        super().save(target)
        sync_names([target])


def place_of(path: AnyPath) -> Path:
    """Where the ledger of this name really is: there it is read, locked and replaced, whatever links lead to it.

    Raises:
        InvalidInputError: It is a link that leads nowhere, or can be no file's name.
    """
    try:
        real = Path(path).resolve()
        nowhere = Path(path).is_symlink() and not real.exists()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle; a name that holds a zero
        raise InvalidInputError(
            f"the ledger {str(path)[:40]!r} cannot be found ({error}): check the path"
        ) from error
    if nowhere:
        raise InvalidInputError(
            f"the ledger {str(path)!r} is a link to {str(real)!r}, which is not there: put the ledger back, or remove "
            "the link"
        )
    return real


def opened(path: AnyPath, table: object, mechanism: Mechanism, read: ReadOptions | None = None) -> Ledger:
    """The ledger of a file, or where there is none an empty one for a table, see :meth:`Ledger.begin`.

    Raises:
        InvalidInputError: The file is no ledger or cannot be written, or the table does not fit the mechanism.
    """
    real = place_of(path)
    check_target(real, force=True)
    return Ledger.load(real) if real.exists() else Ledger.begin(table, mechanism, read)


class Entering:
    """A release on its way into the ledger of a file: entered as intended, then made, then confirmed.

    ``with entering.alone(): release.write(..., enter=entering.intend)``. A release that fails takes its entry back, as
    long as none of its files has appeared; so does whatever else ends the block by an exception.

    Args:
        path: The ledger's file.
        mechanism: The mechanism.
        files: The files that will hold the release.
        series: Name of the series, where the draws are sticky.

    Attributes:
        path: Where the file really is.
        ledger: What was read, or begun, and then what was written.
        new: Whether there was no such file.
    """

    def __init__(
        self, path: AnyPath, mechanism: Mechanism, files: Sequence[AnyPath] = (), series: str | None = None
    ) -> None:
        """Nothing is read yet."""
        self.path = place_of(path)
        self.mechanism, self.files = mechanism, [Path(file) for file in files]
        self.series = None if series is None else series.strip()
        self.ledger: Ledger | None = None
        self.new = False
        self._budget: Callable[[Ledger], object] | None = None
        self._before: tuple[Ledger, bytes] | None = None
        self._number = 0

    @contextlib.contextmanager
    def alone(self, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Let no other process use the ledger while the block runs; then confirm what was intended in it.

        Args:
            waiting: Called once where another process has to be waited for.

        Raises:
            InvalidInputError: The ledger cannot be locked; or it cannot be written, and the release stays unconfirmed.
        """
        with locked(self.path, waiting):
            were = [_trace(file) for file in self.files]
            try:
                yield
            except BaseException:
                if [_trace(file) for file in self.files] == were:
                    self._take_back()
                raise
            if self._before is not None:
                self._confirm()

    def open(
        self,
        table: object,
        read: ReadOptions | None = None,
        budget: Callable[[Ledger], object] | None = None,
    ) -> Ledger:
        """Read the ledger, or begin one for the table.

        Args:
            table: The table, as for :meth:`Ledger.begin`.
            read: How to read it.
            budget: Refuses a ledger whose draws tell too much together, where there is a budget.

        Raises:
            InvalidInputError: The ledger cannot be used.
        """
        self.new = not self.path.exists()
        self.ledger, self._budget = opened(self.path, table, self.mechanism, read), budget
        return self.ledger

    def intend(self, draw: str | None) -> None:
        """Enter the release as intended, on the disk, before anything of it is written.

        Args:
            draw: The name of its draw; None for one that repeats no other.

        Raises:
            InfeasibleError: All draws together would tell more than the budget.
            InvalidInputError: The mechanism is for other columns, or the ledger cannot be written.
        """
        assert self.ledger is not None
        after = self.ledger.with_release(
            self.mechanism, draw=draw, series=self.series, files=self.files, state=INTENDED
        )
        if self._budget is not None:
            self._budget(after)
        self._before = self.ledger, b"" if self.new else self.path.read_bytes()
        self.ledger, self._number = after, len(after.entries)
        after.save(self.path)

    def adopt(self) -> None:
        """Enter a release whose files are there already: confirm what was intended for them, where that was."""
        assert self.ledger is not None
        files = tuple(str(file.absolute()) for file in self.files)
        own = [(i, entry) for i, entry in enumerate(self.ledger.entries, 1) if entry.files == files]
        if not own or own[-1][1].state == WITHDRAWN:
            self.intend(None)
        elif own[-1][1].state == INTENDED:
            self._before, self._number = (self.ledger, self.path.read_bytes()), own[-1][0]

    def _confirm(self) -> None:
        assert self.ledger is not None
        confirmed = self.ledger.settled(self._number, released=True)
        try:
            sync_names(self.files)
            confirmed.save(self.path)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{error}. The release is made and counts, but is not confirmed: privfunnel ledger settle "
                f"{self.path} {self._number} --released"
            ) from error
        self.ledger = confirmed

    def _take_back(self) -> None:
        """Let the file be as before; where that fails, the release counts until the steward settles it."""
        if self._before is None:
            return
        ledger, held = self._before
        with contextlib.suppress(InvalidInputError, OSError):
            if self.new:
                self.path.unlink(missing_ok=True)
            else:
                write_whole(self.path, lambda stream: stream.write(held), mode=PRIVATE)
            sync_names([self.path])
            self.ledger = ledger


def _trace(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from others of its name; None without one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _left_of(path: Path) -> list[Path]:
    """A file, or what was written of it when its release was interrupted."""
    written = [path] if path.exists() else []
    folder = path.parent
    return written + sorted(folder.glob(f".{glob.escape(path.name)}.*.partial") if folder.is_dir() else ())
