"""``privfunnel lift``: worst-case baselines beside the proved optimum."""

from __future__ import annotations

import json
from typing import Any

import click

from privfunnel.app.cli._common import Units, console, load_source, source_options, units_option
from privfunnel.app.cli._screen import say


@click.command("lift", short_help="Worst-case methods: what each can disclose where no lift exceeds a bound.")
@source_options
@click.option("--epsilon", type=float, default=0.5, show_default=True, help="Largest |log lift|, in nats.")
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in nats, instead of a table.")
def command(source: str, epsilon: float, units: Units, as_json: bool, **reading: Any) -> None:
    """Compare releases of SOURCE in which no output makes a private value likelier or rarer by more than e^ε.

    The first row is what privfunnel solve --guarantee lip=ε finds, with its proof; the others are methods of the
    literature: vertices, watchdogs, merging, randomised response.

    \b
    Examples:
      privfunnel lift heart-failure --epsilon 0.25
    """
    from privfunnel import solve
    from privfunnel.errors import InvalidInputError
    from privfunnel.neighbours import worst_case

    problem = load_source(source, units=units.name, **reading)
    rows: list[dict[str, Any]] = []
    for method in worst_case.METHODS:
        try:
            found = worst_case.release(problem, epsilon, method=method)
        except InvalidInputError as error:
            if method != "vertex" or "candidates" not in str(error):
                raise
            rows.append({"method": method, "message": str(error)})
            continue
        rows.append({
            "method": method, "disclosure": found.disclosure, "leakage": found.leakage, "log_lift": found.reached,
        })  # fmt: skip
    best = solve(problem, guarantees=[f"lip={epsilon:.12g}"], throw=False)
    rows.insert(0, {
        "method": "proved", "disclosure": best.disclosure, "leakage": best.leakage,
        "log_lift": max(best.guaranteed.values()), "disclosure_upper_bound": best.disclosure_upper_bound,
    })  # fmt: skip
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    _show(rows, units, f"{source}, |log lift| ≤ {epsilon:g} nats", best.disclosure_upper_bound)


def _show(rows: list[dict[str, Any]], units: Units, title: str, most: float | None) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title=f"{title} ({units.name})", box=box.SIMPLE_HEAD)
    for name in ("method", "disclosure", "leakage", "|log lift|, nats"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for row in rows:
        if "message" in row:
            table.add_row(row["method"], "–", "–", "–")
            continue
        amounts = (f"{units.of(row[name]):.6f}" for name in ("disclosure", "leakage"))
        table.add_row(row["method"], *amounts, f"{row['log_lift']:.6f}")
    screen = console()
    screen.print(table)
    if most is not None:
        screen.print(
            f"Proved: no release within the bound discloses more than {units.of(most):.6f} {units.name}."
        )
