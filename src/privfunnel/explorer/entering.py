"""A release of the page on its way into a ledger: refused where all draws together would tell too much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privfunnel import ledger
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.explorer import reading
from privfunnel.explorer.keeping import Keeping
from privfunnel.explorer.workspace import Setting
from privfunnel.locking import locked
from privfunnel.mechanism import Mechanism
from privfunnel.quantities import spoken_in

#: Says of a release that it stands in the ledger: a process may end between the two.
ENTERED = "entered"


@contextmanager
def entering(keeping: Keeping, setting: Setting, mechanism: Mechanism, place: Path) -> Iterator[None]:
    """Enter a release in the ledger that the block draws, once: nothing is drawn beyond the budget.

    Args:
        keeping: The ledger; nothing happens where none is kept.
        setting: The counted table.
        mechanism: The mechanism.
        place: The folder of the release.

    Raises:
        InvalidInputError: The ledger cannot be used, or is of another table.
        InfeasibleError: All draws together would tell more than the budget.
    """
    if not keeping.ledger or (place / ENTERED).exists():
        yield
        return
    path = Path(keeping.ledger)
    with locked(path):
        held = _opened(keeping, setting, mechanism)
        _check(_next(held, keeping, mechanism), keeping)
        yield
        # Asked again: the key of sticky draws may be new, and have its name only now.
        _next(held, keeping, mechanism).save(path)
        (place / ENTERED).touch()


def account(
    keeping: Keeping, setting: Setting, mechanism: Mechanism, place: Path, units: str
) -> dict[str, Any]:
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
        held = _opened(keeping, setting, mechanism)
        after = held if entered else _next(held, keeping, mechanism)
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
            "words": held.words,
            "entered": entered,
            "after": after.words,
            "refused": refused,
        }


def _opened(keeping: Keeping, setting: Setting, mechanism: Mechanism) -> ledger.Ledger:
    return ledger.opened(keeping.ledger, setting.source, mechanism, reading.options(setting.reading))


def _next(held: ledger.Ledger, keeping: Keeping, mechanism: Mechanism) -> ledger.Ledger:
    return held.drawn(mechanism, keeping.sticky or None, keeping.series or None)


def _check(after: ledger.Ledger, keeping: Keeping) -> None:
    if keeping.budget:
        after.check_within(keeping.budget)
