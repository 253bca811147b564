"""``privfunnel release``: rows through a mechanism into a file."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import console, read_options, shown_units_option, text_file_options
from privfunnel.app.cli._ledger import entered, entering, real, show_entered
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say
from privfunnel.infra.storage import Document
from privfunnel.release.options import (
    DEFAULT_FORM,
    DEFAULT_NAME,
    DEFAULT_NUMBERS,
    DEFAULT_THRESHOLD,
    DIALECTS,
    FORMS,
    NUMBERS,
    UNSEEN_RULES,
)

if TYPE_CHECKING:
    from privfunnel.release import ReleaseSummary
    from privfunnel.release.fidelity import Fidelity
    from privfunnel.release.mechanism import Mechanism


@click.command(
    "release", short_help="Write the sanitised table: rows through a mechanism into CSV or Parquet."
)
@click.argument("data")
@click.option("--mechanism", "path", required=True, type=PathName(), metavar="FILE",
              help="The mechanism.json that `privfunnel solve --out` wrote; confidential, keep it.")  # fmt: skip
@click.option("-o", "--out", required=True, type=PathName(), metavar="FILE",
              help="The file to write, .csv or .parquet.")  # fmt: skip
@click.option("--as", "form", type=click.Choice(FORMS), default=DEFAULT_FORM, show_default=True,
              help="The public columns drawn from p(x|y); all candidates of a row with weights; or one column with "
                   "the released symbol.")  # fmt: skip
@click.option("--numbers", type=click.Choice(NUMBERS), default=DEFAULT_NUMBERS, show_default=True,
              help="Records: what stands for a bin: its mean or middle, a number drawn from it, its name.")  # fmt: skip
@click.option("--threshold", type=int, default=DEFAULT_THRESHOLD, show_default=True, metavar="ROWS",
              help="Values of fewer rows become (other), and published numbers are worth as many rows.")  # fmt: skip
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Symbols: name of the column.")
@click.option("--keep", multiple=True, metavar="COLUMN",
              help="Copy this column unchanged; voids the guarantee. May be repeated.")  # fmt: skip
@click.option("--person", metavar="COLUMN",
              help="Column that says who a row is about: a person's rows with equal public values are drawn once; the "
                   "design's own by default, '' for none.")  # fmt: skip
@click.option("--sticky", type=PathName(), metavar="KEYFILE",
              help="Repeat the draws of earlier releases of the same --series: a row with the same id and public "
                   "values is drawn as before. The key is made where there is none; confidential.")  # fmt: skip
@click.option("--series", metavar="NAME", help="Sticky: name of the releases that repeat each other.")
@click.option("--id", "row_id", metavar="COLUMN",
              help="Sticky: column that tells the rows apart from release to release; that of --person by "
                   "default.")  # fmt: skip
@click.option("--ledger", type=PathName(), metavar="FILE",
              help="Enter the release in this ledger of the table before it is written; a new one is begun, and said "
                   "to be new, where there is none; see privfunnel ledger.")  # fmt: skip
@click.option("--budget", metavar="L",
              help="Ledger: refuse a release with which all draws would tell more: 5% (of I(S;X)), '0.1 bits', "
                   "0.05.")  # fmt: skip
@click.option("--unseen", type=click.Choice(UNSEEN_RULES), default="error", show_default=True,
              help="What to do with rows whose values were not seen at design time.")  # fmt: skip
@click.option("--order", type=PathName(), metavar="FILE",
              help="Where it goes which row each line is of; confidential, for the audit; beside the mechanism by "
                   "default.")  # fmt: skip
@click.option("--keep-order", is_flag=True,
              help="Do not shuffle the rows; refused where the private columns depend on a row's place.")  # fmt: skip
@click.option("--raw-text", is_flag=True,
              help="CSV: leave texts that a spreadsheet would compute (=…, +…, -…, @…) as they are.")  # fmt: skip
@click.option("--dialect", type=click.Choice(DIALECTS), default="plain", show_default=True,
              help="CSV: commas and decimal points; semicolons and decimal commas, for spreadsheets of many countries; "
                   "or as DATA is written.")  # fmt: skip
@click.option("--codebook", type=PathName(), metavar="FILE",
              help="Where p(y), p(x|y), p(s|y) go, rounded for publication, .json or .csv; beside the output by "
                   "default.")  # fmt: skip
@click.option(
    "--seed", type=int, help="For experiments only: reproducible draws instead of secure randomness."
)
@shown_units_option
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@text_file_options
def command(
    data: str,
    path: Path,
    out: Path,
    form: str,
    numbers: str,
    threshold: int,
    name: str,
    keep: tuple[str, ...],
    person: str | None,
    sticky: Path | None,
    series: str | None,
    row_id: str | None,
    ledger: Path | None,
    budget: str | None,
    unseen: str,
    order: Path | None,
    keep_order: bool,
    raw_text: bool,
    dialect: str,
    codebook: Path | None,
    seed: int | None,
    units: str | None,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Release the table DATA through a mechanism.

    Every row's public columns are drawn anew through the mechanism, and the rows are shuffled; private columns are
    never written. The file appears whole at the end or not at all.

    As decoys, a row becomes its candidates: at most as many records as there are private values, the true one among
    them, each with its weight. Weighted means, tables and regressions are those of DATA, without bias; what is promised
    is about the whole list of candidates, and for the table as it is, not for a population.

    The release and its codebook, whose numbers are rounded, are what is published. The mechanism and the order file
    beside it are the steward's own: one determines the joint table of private and public values up to rounding, the
    other says which line is whose. Keep them as confidential as DATA.

    Two draws of the same rows tell more than one. Where the table is released again and again, make the draws sticky:
    with the same key file, series and mechanism a row whose public values have not changed is drawn as before. A
    ledger counts two releases as one draw where that holds for every row of both.

    \b
    Examples:
      privfunnel release patients.csv --mechanism design/mechanism.json -o release.csv
      privfunnel release patients.parquet --mechanism design/mechanism.json -o release.parquet --as symbols
      privfunnel release patients.csv --mechanism design/mechanism.json -o decoys.csv --as decoys
      privfunnel release may.csv --mechanism design/mechanism.json -o may-released.csv \\
          --sticky steward.key --series monthly --id patient_id
    """
    from privfunnel import release
    from privfunnel.model.amounts import spoken_in
    from privfunnel.release import codebook as codebooks
    from privfunnel.release import order as orders
    from privfunnel.release.batch_writer import check_apart
    from privfunnel.release.mechanism import Mechanism

    mechanism = Mechanism.load(path)
    if order is None and not keep_order:
        order = orders.default_path(path.parent / out.name)
    # No output may take the place of the mechanism, which is needed for the audit.
    outputs = [out, codebook or codebooks.default_path(out), *([] if order is None else [order])]
    check_apart(outputs, {"the mechanism itself": path, "the ledger": real(ledger)})
    read = read_options(**reading)
    with (
        entering(ledger, mechanism, (data, read), ([out], series), (budget, units)) as book,
        _rows_on_terminal(f"releasing {data}", quiet=as_json) as progress,
    ):
        summary = release.write(
            data,
            mechanism,
            out,
            form=form,
            keep=keep,
            person=person,
            sticky=sticky,
            series=series,
            id=row_id,
            unseen=unseen,
            seed=seed,
            force=force,
            name=name,
            numbers=numbers,
            threshold=threshold,
            codebook=codebook,
            order=order,
            keep_order=keep_order,
            raw_text=raw_text,
            dialect=dialect,
            read=read,
            progress=progress,
            enter=None if book is None else book.intend,
        )
    if as_json:
        say(json.dumps(to_json(summary) | entered(book), indent=1))
        return
    with spoken_in(units or "bits"):
        show(summary, mechanism, form)
        show_entered(book)
    if summary.fidelity is not None:
        show_fidelity(summary.fidelity, mechanism.public_names)


@contextmanager
def _rows_on_terminal(title: str, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A count of rows on stderr, or None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} rows"))
    with Progress(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda rows: bar.update(task, completed=rows)


def to_json(summary: ReleaseSummary) -> Document:
    """What was done, JSON-ready."""
    told = dataclasses.asdict(summary)
    del told["files"]
    return {
        "out": str(summary.out),
        **told,
        "codebook": str(summary.codebook),
        "order": None if summary.order is None else str(summary.order),
        "symbols": list(summary.symbols),
    }


def show(summary: ReleaseSummary, mechanism: Mechanism, form: str) -> None:
    """Print what was done."""
    from privfunnel.audit.guards import designed_for, designed_measure, measured_words
    from privfunnel.measures import mutual_information
    from privfunnel.model.amounts import amount, spoken_unit, told

    rate = f"{summary.rows / summary.seconds:,.0f} rows/s" if summary.seconds > 0 else ""
    say(
        f"Written: {summary.out} ({summary.written:,} of {summary.rows:,} rows, {rate}), codebook {summary.codebook}"
    )
    if summary.order is not None:
        say(f"Confidential: {summary.order}, which line is of which row; keep it for the audit.")
    if summary.persons is not None:
        say(f"Persons: {summary.persons.line}")
    if summary.sticky is not None:
        say(f"Sticky: {summary.sticky.line}")
    for cause, rows in summary.unseen.items():
        what = "a new combination of known values" if cause == "combination" else f"a new value of {cause}"
        say(f"  {rows:,} rows with {what}: rule {summary.unseen_rule!r}")
    both = "" if mechanism.follows is None else ", together with the earlier release"
    say(
        f"Promise: disclosure {told(mechanism.disclosure)} of X, leakage "
        f"{told(mechanism.leakage)} about {', '.join(mechanism.private_names)}{both}; see privfunnel audit."
    )
    if mechanism.published:
        names = ", ".join(mechanism.published)
        codebook = ", which the codebook names for every symbol" if form == "symbols" else ""
        say(f"Published as counted: {names}{codebook}; whoever reads the release knows it of every row.")
    leakages, guaranteed = designed_for(mechanism)
    designed = [f"{text} for every output" for text in guaranteed]
    if (task := mechanism.provenance.get("task")) is not None:
        share = 100.0 * task["utility"] / task["utility_ceiling"] if task["utility_ceiling"] else 100.0
        designed.append(
            f"{' and '.join(task['columns'])}, of which the symbols tell {told(task['utility'])}, {share:.1f} % of "
            "what the public columns tell"
        )
    designed += [
        f"{told(each)} to who knows {known}" for known, each in leakages.items() if len(leakages) > 1
    ]
    measure, measured = designed_measure(mechanism)
    designed += measured_words(measured, measure, leakages)
    if designed:
        say(f"Designed for: {'; '.join(designed)}.")
    if form == "records" and mechanism.outputs is not None:
        say("Every line is a record in place of a record, as the mechanism drew it: nothing is drawn anew.")
    elif form == "records":
        # X → Y → X': the second draw keeps less of X than Y does, and leaks no more.
        kept = amount(float(mutual_information(mechanism.p_x_given_y @ mechanism.p_xy.T)))
        say(
            f"Records drawn anew from the symbols keep {kept} of these {spoken_unit()}; release symbols and their "
            "codebook to keep all of them."
        )


def show_fidelity(found: Fidelity, names: Sequence[str]) -> None:
    """Print what survives of the public columns, and some rows before and after."""
    from rich import box
    from rich.table import Table

    from privfunnel.release.fidelity import figures

    screen = console()
    for line in found.words[:1]:
        screen.print(line, soft_wrap=True)
    table = Table(title="What survives (exact, for you alone; before → after)", box=box.SIMPLE_HEAD)
    table.add_column("column")
    for head in ("unchanged", "largest change of a share", "mean", "standard deviation", "quartiles"):
        table.add_column(head, justify="right")
    for each in found.columns:
        numbers = ("", "", "")
        if each.before is not None and each.after is not None:
            pair = (each.before, each.after)
            numbers = (
                " → ".join(figures(one.mean) for one in pair),
                " → ".join(figures(one.sd) for one in pair),
                " → ".join(" ".join(map(figures, one.quartiles)) for one in pair),
            )
        change = f"{100 * each.margin:.1f} points ({each.value})"
        table.add_row(each.name, f"{100 * each.unchanged:.1f} %", change, *numbers)
    screen.print(table)
    rows = Table(title="Rows before and after (not in the order of the file)", box=box.SIMPLE_HEAD)
    for head in ("", *names):
        rows.add_column(head)
    for shown in found.sample:
        rows.add_row("before", *shown.before)
        rows.add_row("after", *shown.after, end_section=True)
    screen.print(rows)
