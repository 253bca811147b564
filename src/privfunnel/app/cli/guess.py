"""``privfunnel guess``: the guessing funnel, how often X can be guessed right where S must not be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import console, load_source, output, source_options, tell_files
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say

if TYPE_CHECKING:
    from privfunnel.neighbours.guessing_funnel import GuessingCurve

#: What ``--out`` may leave behind.
OWNED = ("certificates.npz", "guessing.json")


@click.command("guess", short_help="The guessing funnel: right guesses of X against right guesses of S.")
@source_options
@click.option(
    "--points", type=int, default=10, show_default=True, help="Points, from max p(s) to P(S guessed from X)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", type=PathName(), metavar="DIR",
              help="Folder for guessing.json, with the channels, and the proofs; both are confidential.")  # fmt: skip
def command(source: str, points: int, as_json: bool, out: Path | None, **reading: Any) -> None:
    """Trace the guessing funnel of SOURCE: an exact linear program with a proof at every point.

    How often can X be guessed right from a release from which S is guessed right at most so often? Without any release
    S is guessed right max p(s) of the time, from X itself P(S guessed from X).

    \b
    Examples:
      privfunnel guess heart-failure
      privfunnel guess heart-failure --points 20 --out out/guessing
      privfunnel verify out/guessing/certificates.npz heart-failure
    """
    from privfunnel.certificate import save_bundle
    from privfunnel.neighbours import guessing_funnel

    problem = load_source(source, units="nats", **reading)
    with output(out, OWNED) as folder:
        curve = guessing_funnel.trace(problem, points=points)
        if folder is not None:
            curve.save(folder / "guessing.json")
            save_bundle(folder / "certificates.npz", (point.certificate for point in curve.points))
    if as_json:
        say(json.dumps(curve.rows(), indent=1))
        return
    _show(curve, source)
    tell_files(out, OWNED)


def _show(curve: GuessingCurve, title: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title=f"Guessing funnel of {title} (% of guesses that are right)", box=box.SIMPLE_HEAD)
    for name in ("S, at most", "S", "X", "X, proved ≤", "gap"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in curve.rows():
        shares = (row[name] for name in ("allowed", "private_accuracy", "public_accuracy", "upper_bound"))
        table.add_row(*(f"{100 * share:.4f}" for share in shares), f"{100 * row['gap']:.1e}")
    console().print(table)
