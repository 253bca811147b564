"""``privfunnel compare``: every method on one table, judged by one proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import (
    Units,
    can_draw,
    console,
    load_source,
    output,
    progress_on_terminal,
    source_options,
    tell_files,
    units_option,
)
from privfunnel.app.cli._limits import memory_limited
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say

if TYPE_CHECKING:
    from privfunnel.studies.comparison import Comparison

#: What ``--out`` may leave behind.
OWNED = ("comparison.csv", "comparison.json", "comparison.png", "comparison.svg")


@click.command(
    "compare", short_help="Every method on one table: who is best, by how much, and how far from the optimum."
)
@source_options
@click.option("--solvers", metavar="NAMES", help="Solvers to compare, separated by commas; all by default.")
@click.option("--deep", is_flag=True, help="Also the deep methods, trained on the table (privfunnel[deep]).")
@click.option("--points", type=int, default=11, show_default=True,
              help="Disclosures, uniform from 0 to H(X); the two ends are trivial.")  # fmt: skip
@click.option("--time-limit", type=float, default=60.0, show_default=True,
              metavar="SECONDS", help="CPU time for each solver.")  # fmt: skip
@click.option("--memory-limit", metavar="SIZE", help="Stop instead of taking more memory a process, e.g. 2G.")
@click.option(
    "--jobs", type=int, default=-1, show_default=True, help="Processes; −1 for as many as there are cores."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Fixes all randomness.")
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON (in nats) instead of a table.")
@click.option("--out", type=PathName(), metavar="DIR",
              help="Folder for comparison.csv, .json (both in nats), .png and .svg, all confidential.")  # fmt: skip
def command(
    source: str,
    solvers: str | None,
    deep: bool,
    points: int,
    time_limit: float,
    memory_limit: str | None,
    jobs: int,
    seed: int,
    units: Units,
    as_json: bool,
    out: Path | None,
    **reading: Any,
) -> None:
    """Compare solvers on SOURCE: same table, same disclosures, same time.

    Shown are the leakage of each solver at each disclosure, how far it is above the proved lower bound, the share of
    disclosures where it is best, its time and its convergence rate. Above 64 public symbols every solver gets classes
    of symbols with the same p(s|x), which is exact. Methods for the funnel's neighbours (guesses, distortion, the
    bottleneck, bounded lifts) take part with what their channels disclose and leak.

    \b
    Examples:
      privfunnel compare heart-failure
      privfunnel compare heart-failure --deep --time-limit 30
      privfunnel compare joint.csv --solvers aem,drs,greedy --time-limit 20 --out out/compared
    """
    from privfunnel import compare
    from privfunnel.studies import comparison

    problem = load_source(source, units=units.name, **reading)
    names = None if solvers is None else [name.strip() for name in solvers.split(",") if name.strip()]
    if deep:
        names = [*(comparison.labels() if names is None else names), *comparison.DEEP]
    with memory_limited(memory_limit), output(out, OWNED) as folder:
        drawing = folder is not None and can_draw()  # told before the work, not after it
        with progress_on_terminal(f"comparison on {source}", quiet=as_json) as progress:
            result = compare(
                problem,
                solvers=names,
                points=points,
                time_limit=time_limit,
                jobs=jobs,
                seed=seed,
                progress=progress,
            )
        if folder is not None:
            result.save(folder / "comparison.json")
            result.save(folder / "comparison.csv")
        if folder is not None and drawing:
            from privfunnel.infra.storage import PRIVATE
            from privfunnel.report import plot

            figure = result.plot(units=units.name, title=source)
            plot.save(figure, folder / "comparison.png", folder / "comparison.svg")
            for name in ("comparison.png", "comparison.svg"):  # numbers can be read from them
                (folder / name).chmod(PRIVATE)
    if as_json:
        say(json.dumps(result.to_dict(), indent=1))
        return
    show(result, units=units, title=source)
    tell_files(out, OWNED)


def show(result: Comparison, *, units: Units, title: str) -> None:
    """Print the leakages and the summary as two tables, with what they mean below."""
    import numpy as np
    from rich import box
    from rich.table import Table

    from privfunnel.studies.comparison import Neighbour

    out = console()
    leakages = Table(title=f"Leakage on {title} ({units.name}), by disclosure", box=box.SIMPLE_HEAD)
    leakages.add_column("solver", no_wrap=True)
    for share in result.disclosure / result.problem.disclosure_ceiling:
        leakages.add_column(f"{100 * share:.0f} %", justify="right", no_wrap=True)
    for entry in result.entries:
        cells = [f"{units.of(v):.5f}" if np.isfinite(v) else "–" for v in entry.leakage]
        leakages.add_row(entry.label, *cells)
    leakages.add_row("proved ≥", *(f"{units.of(v):.5f}" for v in result.lower_bound), style="bold")
    out.print(leakages)

    summary = Table(title=f"Summary ({units.name})", box=box.SIMPLE_HEAD)
    summary.add_column("solver", no_wrap=True)
    for name in ("excess", "time-shared", "relative", "best at", "seconds", "CPU", "converged", "KKT"):
        summary.add_column(name, justify="right", no_wrap=True)
    for row in result.summary():
        summary.add_row(
            row["solver"],
            _number(row["mean_excess"], units),
            _number(row["mean_excess_shared"], units),
            _share(row["median_relative_excess"]),
            _share(row["share_best"], digits=0),
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            _share(row["converged"], digits=0),
            _number(row["kkt_residual"], units),
        )
    out.print(summary)
    out.print(
        "excess: mean leakage above the proved bound; time-shared: the same when a solver's answers are mixed; "
        "relative: median excess over the bound where that is positive; best at: share of disclosures within 1e-6 nats "
        "of the best; converged: share of runs that met their own test; KKT: median residual of the answers."
    )
    others = [entry.label for entry in result.entries if entry.name == Neighbour.name]
    if others:
        out.print(
            f"{', '.join(others)}: made for problems of their own; shown is the one of their channels that leaks least "
            "among those that disclose as much, X itself if none does."
        )
    told = [(entry.label, entry.message) for entry in result.entries if not entry.answered]
    for label, message in told:
        out.print(f"{label} has no answer: {message}")


def _number(value: float | None, units: Units) -> str:
    return "–" if value is None else f"{units.of(value):.1e}"


def _share(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"
