"""A release of the page on its way into a ledger: refused where all draws together would tell too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from privfunnel.app.explorer import reading
from privfunnel.app.explorer.ledger_keeping import Keeping
from privfunnel.app.explorer.workspace import Setting
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.model.amounts import spoken_in
from privfunnel.release import ledger
from privfunnel.release.drawing import draw_name
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawOptions, Entered

#: Says of a release that it stands in the ledger.
ENTERED = "entered"
#: Said of a ledger that is not there yet.
NEW = "It is new, and knows of no earlier release."


def wanted(keeping: Keeping, place: Path) -> bool:
    """Whether the release of a folder has to be entered in a ledger still."""
    return bool(keeping.ledger) and not (place / ENTERED).exists()


@contextmanager
def entering(
    keeping: Keeping, setting: Setting, mechanism: Mechanism, files: Sequence[Path]
) -> Iterator[Entered | None]:
    """Enter a release in the ledger that the block draws, once: nothing is drawn beyond the budget.

    Args:
        keeping: The ledger; nothing happens where none is kept.
        setting: The counted table.
        mechanism: The mechanism.
        files: The files of the release, in a folder of their own.

    Yields:
        What is to be told before anything is written, for :func:`privfunnel.release.write_all`; None where the release
        stands in the ledger.

    Raises:
        InvalidInputError: The ledger cannot be used, is gone, or is of another table.
        InfeasibleError: All draws together would tell more than the budget.
    """
    place = files[0].parent
    if not wanted(keeping, place):
        yield None
        return
    _check_there(keeping, place)
    book = ledger.Entering(keeping.ledger, mechanism, files, keeping.series or None)
    with book.alone():
        book.open(setting.source, reading.options(setting.reading), lambda held: _check(held, keeping))
        if all(file.exists() for file in files):  # a process ended before it could say so
            book.adopt()
        yield book.intend
    (place / ENTERED).touch()


def account(keeping: Keeping, setting: Setting, mechanism: Mechanism, place: Path, units: str) -> Document:
    """What the page says of the ledger beside a point.

    Returns:
        Whether one is kept (``kept``), what it says (``words``), whether this very release stands in it (``entered``),
        what all would tell together with it, and why it would be refused (``refused``), which is empty where it is not.
    """
    if not keeping.ledger:
        return {"kept": False}
    about = {"kept": True, "name": Path(keeping.ledger).name, "budget": keeping.budget}
    entered = (place / ENTERED).exists()
    try:
        _check_there(keeping, place)
        new = not Path(keeping.ledger).exists()
        held = ledger.opened(keeping.ledger, setting.source, mechanism, reading.options(setting.reading))
        after = held if entered else _next(held, keeping, setting, mechanism)
    except InvalidInputError as error:  # it is of other columns, say
        return {**about, "words": "", "entered": entered, "after": "", "refused": str(error)}
    refused = ""
    try:
        _check(after, keeping)
    except InfeasibleError as error:
        refused = str(error)
    with spoken_in(units):
        return {
            **about,
            "words": " ".join([held.words, *([NEW] if new else []), *_unsettled(held, keeping)]),
            "entered": entered,
            "after": after.words,
            "refused": refused,
        }


def _next(held: ledger.Ledger, keeping: Keeping, setting: Setting, mechanism: Mechanism) -> ledger.Ledger:
    """The ledger with the release that would be drawn now."""
    draw = None
    if mechanism.fingerprint in held.draws.values():  # no other can have been repeated
        options = DrawOptions(**keeping.draws)
        draw = draw_name(setting.source, mechanism, options, reading.options(setting.reading))
    return held.with_release(mechanism, draw=draw, series=keeping.series or None)


def _unsettled(held: ledger.Ledger, keeping: Keeping) -> list[str]:
    """A sentence about releases that wait to be settled, where there are some."""
    told = held.unsettled(keeping.ledger)
    return [f"{told[0].upper()}{told[1:]}."] if told else []


def _check_there(keeping: Keeping, place: Path) -> None:
    """Refuse to begin a ledger anew where there was one.

    Raises:
        InvalidInputError: It is gone.
    """
    known = keeping.known or any(place.parent.glob(f"*/{ENTERED}"))
    if known and not Path(keeping.ledger).exists():
        raise InvalidInputError(
            f"the ledger {keeping.ledger!r} is gone, and with it the account of all releases: put it back"
        )


def _check(after: ledger.Ledger, keeping: Keeping) -> None:
    if keeping.budget:
        after.check_within(keeping.budget)
