"""``privfunnel audit``: what a release says about the private columns, with intervals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import (
    Units,
    amount,
    checked_threshold,
    console,
    parse_confidence,
    parse_options,
    parse_quantity,
    read_options,
    record_options,
    shown_units_option,
    solver_options,
    text_file_options,
)
from privfunnel.app.cli._ledger import releases_table, with_ledger
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say
from privfunnel.app.cli._source import tell_rows
from privfunnel.app.cli._task import audited_task, of_task
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from rich.table import Table

    from privfunnel.audit import Audit, Information, Interval
    from privfunnel.data.engines import ReadOptions
    from privfunnel.data.population.views import View
    from privfunnel.release.mechanism import Mechanism

SHOWN_SYMBOLS = 8


@click.command("audit", short_help="Check a release or a mechanism: leakage, attackers, worst case, promise.")
@click.argument("tables", nargs=-1, metavar="[ORIGINAL [RELEASED]]")
@click.option("--mechanism", "path", type=PathName(), metavar="FILE",
              help="The mechanism.json; brings columns and bins, and has its promise checked.")  # fmt: skip
@record_options
@click.option("--on", metavar="COLUMN", help="Match rows by this key instead of by their order.")
@click.option("--order", type=PathName(), metavar="FILE",
              help="The order file of RELEASED; found beside the mechanism or RELEASED by default.")  # fmt: skip
@click.option("--person", metavar="COLUMN",
              help="Column that says who a row is about, if people have several: their rows are resampled, permuted "
                   "and held out together; the design's own by default, '' for none.")  # fmt: skip
@click.option("--cluster", metavar="COLUMN",
              help="Column that says which rows were sampled together, such as the household: the same for these; the "
                   "design's own by default, '' for none.")  # fmt: skip
@click.option("--weights", metavar="COLUMN",
              help="Holdout: column that says how many people a row stands for; a mechanism has its own.")  # fmt: skip
@click.option("--holdout", type=float, metavar="SHARE",
              help="Hold this share of ORIGINAL's rows out: design on the others, bound on these.")  # fmt: skip
@click.option("--confidence", default="95%", show_default=True, metavar="SHARE",
              help="Of bounds for the population: from held-out rows, or a table not designed on.")  # fmt: skip
@click.option("--view", type=click.Choice(["register", "sample"]),
              help="What ORIGINAL is: the population itself, or a sample from one; a small table is a sample by "
                   "default, and what can be said about the population is found out.")  # fmt: skip
@click.option("--disclosure", metavar="R", help="Holdout: what to keep, e.g. 60% or '0.9 bits'.")
@click.option("--leakage", metavar="BUDGET", help="Holdout: what may leak, e.g. 5% or '0.01 bits'.")
@click.option("--bootstrap", type=click.IntRange(20, 100_000), default=400, show_default=True,
              help="Resampled tables behind an interval.")  # fmt: skip
@click.option("--permutations", type=click.IntRange(0, 100_000), default=199, show_default=True,
              help="Permuted pairings behind the null.")  # fmt: skip
@click.option("--attacker-rows", type=click.IntRange(0), default=20_000, show_default=True,
              help="Most rows an attacker trains on; 0 for no attacker.")  # fmt: skip
@solver_options
@text_file_options
@shown_units_option
@click.option("--ledger", type=PathName(), metavar="FILE",
              help="The ledger of ORIGINAL: also say what all its draws tell together, this mechanism's "
                   "included.")  # fmt: skip
@click.option("--budget", metavar="L",
              help="Ledger: what all draws may tell together, 5% (of I(S;X)), '0.1 bits', 0.05; beyond it the exit "
                   "code is 1.")  # fmt: skip
@click.option("--threshold", type=int, metavar="ROWS",
              help="Report: what fewer rows have is not told; that of the release by default, else 5.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON (in nats) instead of a report.")
@click.option("--out", type=PathName(), metavar="FILE",
              help="Also write it here: report.html, for a review board, or .json with the exact numbers, "
                   "confidential.")  # fmt: skip
def command(
    tables: tuple[str, ...],
    path: Path | None,
    private: tuple[str, ...],
    public: tuple[str, ...],
    bins: dict[str, str],
    missing: str | None,
    on: str | None,
    order: Path | None,
    person: str | None,
    cluster: str | None,
    weights: str | None,
    holdout: float | None,
    confidence: str,
    view: View | None,
    disclosure: str | None,
    leakage: str | None,
    bootstrap: int,
    permutations: int,
    attacker_rows: int,
    solver: str,
    restarts: int | None,
    options: tuple[str, ...],
    seed: int,
    units: str | None,
    ledger: Path | None,
    budget: str | None,
    threshold: int | None,
    as_json: bool,
    out: Path | None,
    **reading: Any,
) -> None:
    """Audit a mechanism alone, a mechanism on a table, or a released table against its original.

    Every column of RELEASED is read, also those that are not the release. Ends with exit code 1 where a promise is
    not kept or the file tells more than its release. Reading options are for ORIGINAL.

    \b
    Examples:
      privfunnel audit --mechanism design/mechanism.json
      privfunnel audit patients.csv --mechanism design/mechanism.json
      privfunnel audit patients.csv release.csv --mechanism design/mechanism.json --out report.html
      privfunnel audit patients.csv --private sex --public smoking,diabetes --holdout 0.3 --disclosure 60%
    """
    from privfunnel.model.amounts import spoken_in
    from privfunnel.release.mechanism import Mechanism

    if len(tables) > 2:
        raise InvalidInputError(f"{len(tables)} tables are too many: give the original and the released one")
    mechanism = None if path is None else Mechanism.load(path)
    if mechanism is not None and (private or public or bins or missing):
        raise InvalidInputError(
            "the mechanism brings its own columns and bins: leave --private, --public, --bin and --missing out"
        )
    _check_rows(missing, weights, holdout)
    _check_out(out, can_report=mechanism is not None)
    checked_threshold(threshold)
    read = read_options(**reading)
    roles: Document = {"private": private, "public": public, "bins": bins}
    sure = parse_confidence(confidence)
    if holdout is not None:
        if len(tables) != 1 or mechanism is not None:
            raise InvalidInputError(
                "--holdout designs by itself: give one table, --private and --public, no mechanism"
            )
        asked = {"disclosure": disclosure, "leakage": leakage}
        solving = {"solver": solver, "seed": seed, "confidence": sure, **parse_options(options, restarts)}
        roles |= {
            "person": person or None,
            "cluster": cluster or None,
            "weights": weights,
            "missing": missing or "category",
        }
        told = _held_out(tables[0], roles, read, holdout, asked, {**solving, "units": units})
        _tell(*told, units, as_json=as_json, out=out)
        return
    if disclosure or leakage:
        raise InvalidInputError(
            "--disclosure and --leakage are for --holdout: leave them out, or give it a share"
        )
    basic: dict[str, Any] = {
        "bootstrap": bootstrap, "seed": seed, "confidence": sure, "view": view, "person": person, "cluster": cluster
    }  # fmt: skip
    if len(tables) == 2:
        effort: Document = {**basic, "permutations": permutations, "attacker_rows": attacker_rows}
        matching = {"on": on, "order": _order_file(order, path, tables) if on is None else None}
        found = _with_release(tables, mechanism, matching, roles, read, effort)
    else:
        found = _without_release(tables, mechanism, read, basic)
    found = with_ledger(found, ledger, mechanism, budget, units)
    effort = {"rows": attacker_rows, "seed": seed}
    for_task = audited_task(tables, mechanism, read, found, effort)
    if out is not None and mechanism is not None and out.suffix.lower() == ".html":
        few = found.threshold if threshold is None else threshold
        details = {"source": ", ".join(tables) or str(path), "audit": found, "threshold": few}
        _write_report(out, mechanism, details | of_task(for_task))
        out = None
    with spoken_in("bits"):  # what machines read does not change with the unit
        document = found.to_dict() | ({} if for_task is None else for_task.to_dict())

    def show_all() -> None:
        show(found)
        _say([] if for_task is None else for_task.words(units or "bits"))

    _tell(document, show_all, units, as_json=as_json, out=out)


def _check_rows(missing: str | None, weights: str | None, holdout: float | None) -> None:
    """Refuse what says which rows count where that is not chosen."""
    if missing and holdout is None:
        raise InvalidInputError(
            "--missing is for --holdout: every row of a release is audited, those with missing values too"
        )
    if weights and holdout is None:
        raise InvalidInputError(
            "--weights is for --holdout: a mechanism brings the weights it was designed with, and released rows are "
            "counted one by one"
        )


def _write_report(out: Path, mechanism: Mechanism, details: Document) -> None:
    """Write the report for a review board."""
    from privfunnel import report

    report.write(out, mechanism, report.Report(**details))


def _check_out(out: Path | None, *, can_report: bool) -> None:
    """Refuse a file that could not be written, before the work."""
    if out is None or out.suffix.lower() == ".json":
        return
    if out.suffix.lower() != ".html":
        raise InvalidInputError(
            f"--out {str(out)!r} ends in neither .html nor .json: the ending chooses the form"
        )
    if not can_report:
        raise InvalidInputError(
            f"--out {str(out)!r} describes a mechanism: give it with --mechanism, or write .json instead"
        )


def _tell(
    document: Document, show: Callable[[], None], units: str | None, *, as_json: bool, out: Path | None
) -> None:
    """Write and show what was found; the exit code says whether the promise is kept."""
    from privfunnel.infra.storage import PRIVATE, write_json
    from privfunnel.model.amounts import spoken_in

    if out is not None:
        write_json(out, document, mode=PRIVATE)
    if as_json:
        say(json.dumps(document, indent=1))
    else:
        with spoken_in(units or "bits"):
            show()
    if not document["passed"]:
        click.get_current_context().exit(1)


def _with_release(
    tables: tuple[str, ...],
    mechanism: Mechanism | None,
    matching: Document,
    roles: Document,
    read: ReadOptions,
    effort: Document,
) -> Audit:
    from privfunnel import audit

    named: dict[str, Any] = {name: value or None for name, value in roles.items()}
    original, released = tables
    return audit.release(original, released, mechanism=mechanism, read=read, **matching, **named, **effort)


def _order_file(order: Path | None, mechanism: Path | None, tables: tuple[str, ...]) -> Path | None:
    """The order file of a release: the one named, or the one that `release` put beside the mechanism."""
    if order is not None or mechanism is None or len(tables) < 2:
        return order
    from privfunnel.release.order import default_path

    beside = default_path(mechanism.parent / Path(tables[1]).name)
    return beside if beside.is_file() else None


def _without_release(
    tables: tuple[str, ...], mechanism: Mechanism | None, read: ReadOptions, effort: Document
) -> Audit:
    from privfunnel import audit

    if mechanism is None:
        raise InvalidInputError(
            "there is nothing to audit: give --mechanism, or an original and a released table"
        )
    if tables:
        return audit.table(tables[0], mechanism, read=read, **effort)
    return audit.mechanism(mechanism)


def _held_out(
    source: str,
    roles: Document,
    read: ReadOptions,
    share: float,
    asked: dict[str, str | None],
    solving: Document,
) -> tuple[Document, Callable[[], None]]:
    """Hold a share of the rows out and design on the others: the findings, and what shows them."""
    from privfunnel import audit
    from privfunnel.data import tables
    from privfunnel.model.amounts import spoken_in

    if (asked["disclosure"] is None) == (asked["leakage"] is None):
        raise InvalidInputError(
            "give exactly one of --disclosure (what to keep) and --leakage (what may leak)"
        )
    with spoken_in(solving["units"] or "bits"):
        counts = tables.count(source, **roles, read=read)
    tell_rows(counts)
    problem = counts.problem()
    ceilings = {
        "disclosure": (problem.disclosure_ceiling, "H(X)"),
        "leakage": (problem.leakage_ceiling, "I(S;X)"),
    }
    units = Units(solving.pop("units") or "nats")
    wanted: Document = {
        name: parse_quantity(
            text, ceiling=ceilings[name][0], whole=ceilings[name][1], option=f"--{name}", units=units
        )
        for name, text in asked.items()
        if text is not None
    }
    people = audit.rows_of(source, counts) if counts.unequal else None
    found = audit.holdout(counts, share=share, people=people, **wanted, **solving)
    return found.to_dict(), lambda: _say(found.words())


def _say(words: list[str]) -> None:
    for line in words:
        console().print(f"• {line}", soft_wrap=True)


def show(found: Audit) -> None:
    """Print the words first, then the numbers behind them, then what the audit is not."""
    from privfunnel.audit import review_board as board

    screen = console()
    _say(found.words())
    tables = (_attributes(found), _exposures(found), _worst_case(found), _informed(found), _symbols(found))
    for table in (*tables, releases_table(found)):
        if table is not None:
            screen.print(table)
    asked = board.words(found)
    if asked:
        screen.print("Three questions of a review board:")
        _say(asked)
    screen.print("What this is not:")
    for line in found.limits:
        screen.print(f"• {line}", soft_wrap=True)


def _attributes(found: Audit) -> Table:
    from privfunnel.model.amounts import spoken_unit

    people = "" if found.persons is None else f" of {found.persons.persons:,} persons"
    people += "" if found.clusters is None else f" in {found.clusters.clusters:,} clusters"
    how = "" if found.exact else "; 95 % intervals"
    title = f"Private attributes, {found.rows:,} rows{people} ({spoken_unit()}{how})"
    heads = ("leakage", "by chance", "guess blind", "best guess", "best from X", "trained", "trained on X")
    table = _table(title)
    table.add_column("attribute")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for each in found.attributes:
        attack = each.attack
        table.add_row(
            each.name,
            _information(each.leakage, exact=found.exact),
            "" if each.leakage.null_high is None else f"≤ {amount(each.leakage.null_high)}",
            _percent(each.before),
            _percent(each.after),
            _percent(each.original),
            _percent(None if attack is None else attack.release),
            _percent(None if attack is None else attack.original),
        )
    return table


def _exposures(found: Audit) -> Table | None:
    exposed = [each for each in found.exposures if f"{each.lift:.2f}" != "1.00"]
    if not exposed:
        return None
    table = _table("Whom the release exposes most, by private value")
    table.add_column("value")
    for head in ("chance", "of the exposed", "at most", "exposed", "lift", "AUC"):
        table.add_column(head, justify="right", no_wrap=True)
    for each in exposed[:SHOWN_SYMBOLS]:
        many = f"{each.rows:,}" if each.of else f"{100 * each.share:.2f} %"
        chances = (f"{100 * chance:.1f} %" for chance in (each.before, each.after, each.highest))
        table.add_row(each.value, *chances, many, f"{each.lift:.2f}", f"{each.auc:.3f}")
    return table


def _worst_case(found: Audit) -> Table:
    from privfunnel.model.amounts import spoken_unit

    table = _table(f"Worst case ({spoken_unit()})")
    table.add_column("attribute")
    for head in ("maximal leakage", "largest log-lift", "local information privacy"):
        table.add_column(head, justify="right")
    for each in found.attributes:
        measured = (each.maximal_leakage, each.max_log_lift, each.local_information_privacy)
        table.add_row(each.name, *map(_amount, measured))
    return table


def _informed(found: Audit) -> Table | None:
    if not found.informed:
        return None
    from privfunnel.model.amounts import spoken_unit

    table = _table(f"Attackers who know public columns already ({spoken_unit()})")
    table.add_column("knows")
    bounds = (
        {} if found.population is None else {each.columns: each.upper for each in found.population.informed}
    )
    for head in ("learns", "of", "in the population at most")[: 3 if bounds else 2]:
        table.add_column(head, justify="right")
    for each in found.informed[:SHOWN_SYMBOLS]:
        most = [amount(bounds[each.columns]) if each.columns in bounds else ""] if bounds else []
        table.add_row(each.columns, amount(each.leakage), amount(each.ceiling), *most)
    return table


def _symbols(found: Audit) -> Table | None:
    from privfunnel.model.amounts import spoken_unit

    telling = [
        s for s in found.symbols if amount(s.information.value, 3) != "0.000" or f"{s.lift:.2f}" != "1.00"
    ]
    if not telling:
        return None
    table = _table(f"Most telling of {found.n_y} released symbols ({spoken_unit()})")
    table.add_column("symbol")
    for head in ("share", "says", "lift"):
        table.add_column(head, justify="right")
    table.add_column("towards")
    for symbol in telling[:SHOWN_SYMBOLS]:
        share = f"{100 * symbol.share:.2f} %"
        table.add_row(symbol.label, share, _amount(symbol.information), f"{symbol.lift:.2f}", symbol.about)
    return table


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=title, box=box.SIMPLE_HEAD)


def _information(found: Information, *, exact: bool) -> str:
    value = found.plug_in if exact else found.corrected
    ends = "" if found.low == found.high else f"\n({amount(found.low)}–{amount(found.high)})"
    return f"{amount(value)}{ends}"


def _amount(found: Interval) -> str:
    ends = "" if found.low == found.high else f" ({amount(found.low, 3)}–{amount(found.high, 3)})"
    return f"{amount(found.value, 3)}{ends}".replace("inf", "∞")


def _percent(found: Interval | None) -> str:
    if found is None:
        return ""
    ends = "" if found.low == found.high else f"\n({100 * found.low:.1f}–{100 * found.high:.1f})"
    return f"{100 * found.value:.1f} %{ends}"
