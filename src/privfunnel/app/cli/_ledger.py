"""How commands enter a release in a ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from privfunnel.app.cli._screen import say
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from rich.table import Table

    from privfunnel.audit import Audit
    from privfunnel.data.engines import ReadOptions
    from privfunnel.release.ledger import Entering, Ledger
    from privfunnel.release.mechanism import Mechanism


@contextmanager
def entering(
    path: Path | None,
    mechanism: Mechanism,
    table: tuple[str, ReadOptions | None],
    released: tuple[Sequence[Path], str | None],
    within: tuple[str | None, str | None],
) -> Iterator[Entering | None]:
    """A release on its way into a ledger, while the block runs; None where no ledger is named.

    Args:
        path: The ledger's file.
        mechanism: The mechanism.
        table: The table, and how to read it.
        released: The files that hold the release, and the series of sticky draws.
        within: The budget of all draws together, and what a bare number counts in.

    Raises:
        InvalidInputError: The ledger cannot be used, or a budget is given without one.
    """
    budget, units = within
    if path is None:
        _check_alone(budget)
        yield None
        return
    from privfunnel.release.ledger import Entering

    def check(held: Ledger) -> None:
        if budget is not None:
            held.check_within(budget, units)

    book = Entering(path, mechanism, *released)
    with book.alone(partial(say_waiting, path)):
        held = book.open(*table, check)
        if book.new:
            say_new(path)
        say_unsettled(held, path)
        yield book


def show_entered(book: Entering | None) -> None:
    """Print what all draws tell together, with one that was entered."""
    if book is not None and book.ledger is not None:
        say(f"Ledger: {book.path}{' (new)' if book.new else ''}, {book.ledger.words}")


def entered(book: Entering | None) -> Document:
    """The same, JSON-ready."""
    if book is None or book.ledger is None:
        return {}
    return {"ledger": {"file": str(book.path), "new": book.new} | to_json(book.ledger)}


def real(path: Path | None) -> Path | None:
    """The ledger's file, whatever links lead to it; see :func:`privfunnel.release.ledger.place_of`."""
    from privfunnel.release.ledger import place_of

    return None if path is None else place_of(path)


def load(path: Path) -> Ledger:
    """Read a ledger, and say which of its releases are to be settled.

    Raises:
        InvalidInputError: There is none, or it cannot be read.
    """
    from privfunnel.release.ledger import Ledger, place_of

    held = Ledger.load(place_of(path))
    say_unsettled(held, path)
    return held


def tell_of(path: Path) -> None:
    """Say of a ledger that will be used whether it is new, and which of its releases are to be settled."""
    from privfunnel.release.ledger import place_of

    if place_of(path).exists():
        load(path)
    else:
        say_new(path)


def say_unsettled(held: Ledger, path: Path) -> None:
    """Say which releases were begun and not confirmed, and how to settle them."""
    if advice := held.unsettled(path):
        say(f"ledger {path}: {advice}", err=True)


def say_waiting(path: Path) -> None:
    """Say that another process holds the ledger."""
    say(f"waiting for another release that is entered in {path}", err=True)


def say_new(path: Path) -> None:
    """Say that a ledger begins here, which is no account of what was released before."""
    say(
        f"ledger {path}: there is no such file, so a new ledger is begun, which knows of no earlier release; if there "
        "was one, stop, and give its path or put it back",
        err=True,
    )


def _check_alone(budget: str | None) -> None:
    if budget is not None:
        raise InvalidInputError(
            f"--budget {budget} is for all draws of a ledger: name it, e.g. --ledger ledger.json"
        )


def with_ledger(
    found: Audit, path: Path | None, mechanism: Mechanism | None, budget: str | None, units: str | None
) -> Audit:
    """The audit with what all draws of a ledger tell together, where one is named.

    Raises:
        InvalidInputError: There is no mechanism whose draw could be counted, or a budget without a ledger.
    """
    if path is None:
        _check_alone(budget)
        return found
    if mechanism is None:
        raise InvalidInputError("--ledger counts the channels of mechanisms: give --mechanism, too")
    ledger = load(path)
    limit = None if budget is None else ledger.amount(budget, units)
    return replace(found, together=ledger.together(mechanism, limit))


def releases_table(found: Audit) -> Table | None:
    """The releases of an audit's ledger, and what they tell together."""
    if found.together is None:
        return None
    from rich import box
    from rich.table import Table

    from privfunnel.model.amounts import amount, spoken_unit

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


def to_json(ledger: Ledger) -> Document:
    """A ledger in short, JSON-ready; nats."""
    return {
        "releases": [entry.to_dict() | {"leakage": ledger.alone(entry)} for entry in ledger.entries],
        "draws": len(ledger.draws),
        "leakage": ledger.leakage,
        "leakage_ceiling": ledger.problem.leakage_ceiling,
    }
