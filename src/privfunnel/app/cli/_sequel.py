"""``privfunnel solve --ledger``: the next release of rows that were released before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from privfunnel.app.cli import _population as _beyond
from privfunnel.app.cli._common import (
    Units,
    console,
    open_source,
    output,
    parse_options,
    progress_on_terminal,
    tell_files,
)
from privfunnel.app.cli._funnels import POINT_FILES, was_said, write_point
from privfunnel.app.cli._ledger import load
from privfunnel.app.cli._limits import chosen, memory_limited, time_limited
from privfunnel.app.cli._question import asked_of
from privfunnel.app.cli._screen import say
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.release.sequels import Sequel

#: What ``--out`` may leave behind.
OWNED = POINT_FILES

#: Options of ``solve`` that say what the design is for otherwise.
OTHERWISE = (
    "known", "published", "guarantees", "measure", "holdout", "merge_outputs", "design_epsilon", "view", "distortion",
)  # fmt: skip


def design_next(given: dict[str, Any], reading: Document) -> None:
    """Design the release after those of a ledger, and show it.

    Args:
        given: The options of ``solve``.
        reading: Those that say how to read SOURCE.

    Raises:
        InvalidInputError: The ledger is of another table or has no releases, or an option does not go with it.
    """
    wrong = [name for name in OTHERWISE if given.get(name)]
    wrong += ["confidence"] * was_said("confidence") + ["task"] * bool(reading["task"])
    if wrong:
        option = wrong[0].replace("_", "-").removesuffix("s")
        raise InvalidInputError(
            f"--ledger designs for who knows nothing but the earlier releases: leave --{option} out"
            + (" (pf.sequel says how to design for attackers in Python)" if option == "known" else "")
        )
    if (given["disclosure"] is None) == (len(given["leakage"]) != 1) or len(given["leakage"]) > 1:
        raise InvalidInputError(
            "give exactly one of --disclosure (what all releases together keep) and --leakage (what they may tell)"
        )
    units, out, source = given["units"], given["out"], given["source"]
    opened = open_source(source, units=units.name, **reading)
    found = load(given["ledger"])
    if found.problem.fingerprint != opened.problem.fingerprint:
        raise InvalidInputError(
            f"the ledger {str(given['ledger'])!r} was begun with another table, or with other columns or bins: give "
            "that of this table"
        )
    asked = asked_of(opened, given) | chosen(
        given["solver"],
        *time_limited(parse_options(given["options"], given["restarts"]), given["time_limit"]),
        guarded=True,
    )
    with memory_limited(given["memory_limit"]), output(out, OWNED) as folder:
        with progress_on_terminal(f"solving {source}", quiet=given["as_json"]) as progress:
            made = found.next_release(**asked, seed=given["seed"], progress=progress)
        if folder is not None:
            write_point(folder, made.solution, None)
            if opened.counts is not None and len(found.standing) == 1:
                found.next_mechanism(made, opened.counts).save(folder / "mechanism.json")
    if given["as_json"]:
        say(json.dumps(to_json(made), indent=1))
        return
    show(made, len(found.draws), units, source)
    _say_how(len(found.standing), tabular=opened.counts is not None)
    if said := _beyond.Rows(source, opened, given["view"]).without(_beyond.OTHERWISE):
        say(said)
    tell_files(out, OWNED, [made.solution])


def to_json(made: Sequel) -> Document:
    """The design in short, JSON-ready; nats."""
    names = ("disclosure", "leakage", "lower_bound", "disclosure_upper_bound", "gap")
    return {
        "units": "nats",
        "before": made.before._asdict(),
        **{name: getattr(made, name) for name in names},
        "status": made.status.value,
        "solution": made.solution.to_dict(),
    }


def show(made: Sequel, draws: int, units: Units, title: str) -> None:
    """Print what all releases together keep and tell."""
    from rich import box
    from rich.table import Table

    table = Table(title=f"{title}, after {draws} earlier draws ({units.name})", box=box.SIMPLE_HEAD)
    for head in ("", "disclosure of X", "leakage about S"):
        table.add_column(head, justify="left" if not head else "right")
    rows = [
        ("earlier releases", made.before.disclosure, made.before.leakage),
        ("all together with the next one", made.disclosure, made.leakage),
        ("proved: at most, at least", made.disclosure_upper_bound, made.lower_bound),
    ]
    for name, kept, told in rows:
        shown = ["" if value is None else f"{units.of(value):.6f}" for value in (kept, told)]
        table.add_row(name, *shown)
    screen = console()
    screen.print(table)
    screen.print(f"{made.status.value}: {made.solution.advice}", soft_wrap=True)


def _say_how(standing: int, *, tabular: bool) -> None:
    """Print how the next release is made."""
    told = "The next release is drawn from p(y|x, y₀), y₀ what was released for the row before."
    if standing == 1 and tabular:
        more = (
            "Add that as a column of the table (privfunnel ledger earlier), then release the table by mechanism.json "
            "with the same --ledger."
        )
    elif tabular:
        more = (
            f"A mechanism follows one draw, and {standing} independent ones stand: add their symbols as columns of the "
            "table, and design with these as public columns that are published (--published)."
        )
    else:
        more = "Design it from the table of records to get its mechanism."
    console().print(f"{told} {more}", soft_wrap=True)
