"""``privfunnel ledger``: what all releases of a table tell together."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import console, read_options, shown_units_option, text_file_options
from privfunnel.app.cli._ledger import entering, load, say_unsettled, say_waiting, show_entered, to_json
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say
from privfunnel.infra.storage import Document
from privfunnel.release.options import DEFAULT_NAME, UNSEEN_RULES, DrawOptions

if TYPE_CHECKING:
    from privfunnel.release.ledger import Ledger

budget_option = click.option(
    "--budget", metavar="L", help="Refuse draws that tell more together: 5% (of I(S;X)), '0.1 bits', 0.05."
)


@click.group("ledger", short_help="What all releases of a table tell together, against a budget.")
def command() -> None:
    """Keep the ledger of a table: its releases, and what all of them tell together.

    Two draws of the same rows tell more than one, and leakages do not add up. A ledger holds the channels that were
    used and the table, so that I(S;Y₁…Y_m) of all draws is computed exactly; releases that repeat each other (release
    --sticky) are one draw. It is the steward's own file, as confidential as the table.

    A release is entered before it is written and confirmed afterwards. One that was interrupted in between counts until
    it is settled; every command that reads the ledger names it.

    \b
    Examples:
      privfunnel release may.csv --mechanism design/mechanism.json -o may-released.csv \\
          --ledger ledger.json --budget 5%
      privfunnel ledger show ledger.json
      privfunnel ledger add ledger.json april.csv --mechanism design/mechanism.json
      privfunnel ledger settle ledger.json 3 --withdrawn
    """


@command.command("show", short_help="List the releases, and what they tell together.")
@click.argument("ledger", type=PathName())
@budget_option
@shown_units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in nats, instead of a table.")
def show(ledger: Path, budget: str | None, units: str | None, as_json: bool) -> None:
    """List the releases in LEDGER. Exit code 2: they tell more together than the budget."""
    from privfunnel.model.amounts import spoken_in

    found = load(ledger)
    if as_json:
        say(json.dumps(to_json(found), indent=1))
    else:
        with spoken_in(units or "bits"):
            _show(found)
    if budget is not None:
        found.check_within(budget, units)


@command.command("add", short_help="Enter a release that was made without the ledger.")
@click.argument("ledger", type=PathName())
@click.argument("data")
@click.option("--mechanism", "path", required=True, type=PathName(), metavar="FILE",
              help="The mechanism.json that the rows were drawn by.")  # fmt: skip
@click.option("--sticky", type=PathName(), metavar="KEYFILE", help="The key file, where draws were sticky.")
@click.option("--series", metavar="NAME", help="Sticky: name of the series.")
@click.option("--id", "row_id", metavar="COLUMN", help="Sticky: column that tells the rows apart.")
@click.option("--unseen", type=click.Choice(UNSEEN_RULES), default="error", show_default=True,
              help="Sticky: what was done with rows whose values were not seen at design time.")  # fmt: skip
@click.option("--released", type=PathName(), multiple=True, metavar="FILE",
              help="The file that was released, for the list; may be repeated.")  # fmt: skip
@budget_option
@shown_units_option
@text_file_options
def add(
    ledger: Path,
    data: str,
    path: Path,
    sticky: Path | None,
    series: str | None,
    row_id: str | None,
    unseen: str,
    released: tuple[Path, ...],
    budget: str | None,
    units: str | None,
    **reading: Any,
) -> None:
    """Enter a release of the table DATA in LEDGER, which is begun with DATA where there is none.

    Sticky draws are told by the rows: give DATA as it was released. Beyond the budget nothing is
    written, with exit code 2.
    """
    from privfunnel.errors import InvalidInputError
    from privfunnel.model.amounts import spoken_in
    from privfunnel.release.batch_writer import check_apart
    from privfunnel.release.drawing import draw_name
    from privfunnel.release.ledger import place_of
    from privfunnel.release.mechanism import Mechanism

    if (sticky is None) != (series is None):
        raise InvalidInputError("sticky draws go by a key file and a series: give both --sticky and --series")
    if sticky is not None and not sticky.exists():
        raise InvalidInputError(
            f"there is no key file {str(sticky)!r}: give the one that the rows were drawn with"
        )
    check_apart(
        [place_of(ledger)], {"the mechanism itself": path, "the table": Path(data), "the key file": sticky}
    )
    if missing := [file for file in released if not file.is_file()]:
        raise InvalidInputError(f"there is no file {str(missing[0])!r}: name the one that was released")
    mechanism, read = Mechanism.load(path), read_options(**reading)
    options = DrawOptions(sticky=sticky, series=series, id=row_id, person=row_id, unseen=unseen)
    draw = draw_name(data, mechanism, options, read)
    with entering(ledger, mechanism, (data, read), (released, series), (budget, units)) as book:
        assert book is not None
        book.intend(draw)
    with spoken_in(units or "bits"):
        show_entered(book)


@command.command("settle", short_help="Say of an unconfirmed release whether it was made.")
@click.argument("ledger", type=PathName())
@click.argument("number", type=int)
@click.option("--released/--withdrawn", "released", default=None,
              help="It was made, and goes on counting; or it never was, and counts no more.")  # fmt: skip
def settle(ledger: Path, number: int, released: bool | None) -> None:
    """Settle release NUMBER of LEDGER, which was begun and not confirmed.

    Say --withdrawn only where nobody can have its file: while the file is there, or a part of it, it is refused.
    """
    from privfunnel.errors import InvalidInputError
    from privfunnel.infra.locking import locked
    from privfunnel.release.ledger import Ledger, place_of

    if released is None:
        raise InvalidInputError(
            f"say what became of release {number}: --released where its file was made, --withdrawn where it never was"
        )
    path = place_of(ledger)
    with locked(path, partial(say_waiting, path)):
        found = Ledger.load(path).settled(number, released=released)
        found.save(path)
    say_unsettled(found, ledger)
    say(f"Ledger: {path}, {found.words}")


@command.command(
    "earlier", short_help="Add what rows were released as before to their table, for the next release."
)
@click.argument("ledger", type=PathName())
@click.argument("data")
@click.option("--mechanism", "path", required=True, type=PathName(), metavar="FILE",
              help="The mechanism.json that the rows were drawn by before.")  # fmt: skip
@click.option("-o", "--out", required=True, type=PathName(), metavar="FILE",
              help="DATA with one more column, .csv or .parquet; confidential.")  # fmt: skip
@click.option("--sticky", type=PathName(), metavar="KEYFILE",
              help="Sticky draws: their key file, by which they are made again.")  # fmt: skip
@click.option("--series", metavar="NAME", help="Sticky: name of the series.")
@click.option("--id", "row_id", metavar="COLUMN", help="Sticky: column that tells the rows apart.")
@click.option("--released", type=PathName(), metavar="FILE",
              help="Other draws: the file that was released, as symbols.")  # fmt: skip
@click.option("--order", type=PathName(), metavar="FILE", help="Other draws: its order file.")
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Other draws: its column of symbols.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@text_file_options
def earlier(
    ledger: Path,
    data: str,
    path: Path,
    out: Path,
    sticky: Path | None,
    series: str | None,
    row_id: str | None,
    released: Path | None,
    order: Path | None,
    name: str,
    force: bool,
    **reading: Any,
) -> None:
    """Write DATA with a column of the symbols that its rows were released as before.

    The release that `privfunnel solve --ledger` designs looks at them. Sticky draws are made again by their key; of
    others the released file of symbols is needed and its order file. The ledger has to know the draw.

    \b
    Examples:
      privfunnel ledger earlier ledger.json may.csv --mechanism design/mechanism.json \\
          --sticky steward.key --series monthly --id patient_id -o may-again.csv
      privfunnel solve may.csv --private sex --public age,job --ledger ledger.json --leakage 5% --out next
      privfunnel release may-again.csv --mechanism next/mechanism.json --ledger ledger.json -o next.csv
    """
    from privfunnel.errors import InvalidInputError
    from privfunnel.reductions.earlier_releases import EARLIER
    from privfunnel.release import earlier as attaching
    from privfunnel.release.drawing import draw_name
    from privfunnel.release.mechanism import Mechanism

    mechanism, standing = Mechanism.load(path), load(ledger).standing
    draws = [draw for draw, used in standing.items() if used == mechanism.fingerprint]
    read = read_options(**reading)
    again: Document = {"read": read, "force": force}
    if (
        sticky is not None
        and series is not None
        and row_id is not None
        and released is None
        and order is None
    ):
        drawn = draw_name(data, mechanism, DrawOptions(sticky=sticky, series=series, id=row_id), read)
        draws = [draw for draw in draws if draw == drawn]
        again |= {"sticky": sticky, "series": series, "id": row_id}
        write: Callable[..., int] = attaching.attach_redrawn
    elif released is not None and order is not None and sticky is None:
        again |= {"released": released, "order": order, "name": name}
        write = attaching.attach_released
    else:
        raise InvalidInputError(
            "say how the rows were drawn: --sticky, --series and --id, or --released and --order"
        )
    if not draws:
        raise InvalidInputError(
            f"no draw of the ledger {str(ledger)!r} that none follows is of this mechanism, key and series, and of "
            "these rows with these ids: give those of the last release"
        )
    rows = write(data, mechanism, out, **again)
    say(f"Written: {out} ({rows:,} rows, with the column {EARLIER!r}); as confidential as {data}.")


def _show(ledger: Ledger) -> None:
    from rich import box
    from rich.table import Table

    from privfunnel.model.amounts import amount, spoken_unit
    from privfunnel.release.ledger import CONFIRMED

    table = Table(title="Releases", box=box.SIMPLE_HEAD)
    follow = any(entry.follows for entry in ledger.entries)
    for head in ("", "date", "series", "mechanism", "draw", *(["follows"] if follow else [])):
        table.add_column(head)
    table.add_column(f"leakage alone ({spoken_unit()})", justify="right")
    for number, entry in enumerate(ledger.entries, 1):
        after = [entry.follows or ""] if follow else []
        told = (str(number), entry.date, entry.series or "", entry.mechanism[:12], entry.draw, *after)
        table.add_row(*told, amount(ledger.alone(entry)))
    console().print(table)
    for number, entry in enumerate(ledger.entries, 1):
        state = "" if entry.state == CONFIRMED else f" ({entry.state})"
        say(f"{number}{state}: {', '.join(entry.files) or 'no file is named'}")
    say(ledger.words)
