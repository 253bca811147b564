"""How commands enter a release in a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfunnel.cli._screen import say
from privfunnel.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.table import Table

    from privfunnel.audit import Audit
    from privfunnel.engines import ReadOptions
    from privfunnel.ledger import Ledger
    from privfunnel.mechanism import Mechanism


@dataclass
class Entering:
    """A release on its way into a ledger; nothing happens where no ledger is named.

    Attributes:
        path: The ledger's file.
        mechanism: The mechanism.
        sticky: The key file of sticky draws, and ``series`` the name of their series.
        series: See there.
        ledger: What was read, or begun, and then what was written.
    """

    path: Path | None
    mechanism: Mechanism
    sticky: Path | None
    series: str | None
    ledger: Ledger | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other process enter a release in the ledger while the block runs; wait for one that does."""
        if self.path is None:
            yield
            return
        from privfunnel.locking import locked

        def tell() -> None:
            say(f"waiting for another release that is entered in {self.path}", err=True)

        with locked(self.path, tell):
            yield

    def check(
        self, data: str, read: ReadOptions | None, budget: str | None, units: str | None = None
    ) -> None:
        """Read the ledger, and refuse a release beyond the budget, before anything is written.

        Raises:
            InvalidInputError: The ledger cannot be used, or a budget is given without one.
            InfeasibleError: All draws together would tell more than the budget.
        """
        if self.path is None:
            if budget is not None:
                raise InvalidInputError(
                    f"--budget {budget} is for all draws of a ledger: name it, e.g. --ledger ledger.json"
                )
            return
        from privfunnel import ledger

        self.ledger = ledger.opened(self.path, data, self.mechanism, read)
        following = self._next()
        if budget is not None:
            following.check_within(budget, units)

    def enter(self) -> dict[str, Any]:
        """Write the ledger; gives what is to be told as JSON."""
        if self.path is None:
            return {}
        # Asked again: the key of sticky draws may be new, and have its name only now.
        self.ledger = self._next()
        self.ledger.save(self.path)
        return {"ledger": to_json(self.ledger)}

    def show(self) -> None:
        """Print what all draws tell together."""
        if self.ledger is not None:
            say(f"Ledger: {self.path}, {self.ledger.words}")

    def _next(self) -> Ledger:
        assert self.ledger is not None
        return self.ledger.drawn(self.mechanism, self.sticky, self.series)


def with_ledger(
    found: Audit, path: Path | None, mechanism: Mechanism | None, budget: str | None, units: str | None
) -> Audit:
    """The audit with what all draws of a ledger tell together, where one is named.

    Raises:
        InvalidInputError: There is no mechanism whose draw could be counted, or a budget without a ledger.
    """
    if path is None:
        if budget is not None:
            raise InvalidInputError(
                f"--budget {budget} is for all draws of a ledger: name it, e.g. --ledger ledger.json"
            )
        return found
    from privfunnel.ledger import Ledger

    if mechanism is None:
        raise InvalidInputError("--ledger counts the channels of mechanisms: give --mechanism, too")
    ledger = Ledger.load(path)
    limit = None if budget is None else ledger.amount(budget, units)
    return replace(found, together=ledger.together(mechanism, limit))


def releases_table(found: Audit) -> Table | None:
    """The releases of an audit's ledger, and what they tell together."""
    if found.together is None:
        return None
    from rich import box
    from rich.table import Table

    from privfunnel.quantities import amount, spoken_unit

    table = Table(title=f"Releases of these rows ({spoken_unit()})", box=box.SIMPLE_HEAD)
    for head in ("date", "series"):
        table.add_column(head)
    table.add_column("tells", justify="right")
    for each in found.together.listed:
        alone = " with the one it follows" if each.follows else " alone"
        table.add_row(each.date, each.series or "", f"{amount(each.leakage)}{alone}")
    if not found.together.entered:
        table.add_row("this one", "", "")
    table.add_row("all", f"draws {found.together.draws}", f"{amount(found.together.leakage)} together")
    if found.together.budget is not None:
        table.add_row("budget", "", amount(found.together.budget))
    return table


def to_json(ledger: Ledger) -> dict[str, Any]:
    """A ledger in short, JSON-ready; nats."""
    return {
        "releases": [entry.to_dict() | {"leakage": ledger.alone(entry)} for entry in ledger.entries],
        "draws": len(ledger.draws),
        "leakage": ledger.leakage,
        "leakage_ceiling": ledger.problem.leakage_ceiling,
    }
