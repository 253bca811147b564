"""``privfunnel inertia``: the principal inertia components of a table, and bounds of its χ² funnel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from privfunnel.app.cli._common import can_draw, console, load_source, output, source_options, tell_files
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say

#: What ``--out`` may leave behind.
OWNED = ("certificates.npz", "inertia.png")


@click.command("inertia", short_help="Principal inertia components: which directions of X tell about S.")
@source_options
@click.option("--chi-squared", type=float, multiple=True, metavar="RHO",
              help="Prove what χ²(S;Y) is at least where χ²(X;Y) ≥ RHO; needs the extra sdp.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", type=PathName(), metavar="DIR",
              help="Folder for the spectrum, inertia.png, and the proofs; all are confidential.")  # fmt: skip
def command(
    source: str, chi_squared: tuple[float, ...], as_json: bool, out: Path | None, **reading: Any
) -> None:
    """Show the principal inertia components of SOURCE, largest first.

    Their sum is χ²(S;X), the largest is the squared maximal correlation, and directions of X with component 0 tell
    nothing about S.

    \b
    Examples:
      privfunnel inertia heart-failure
      privfunnel inertia heart-failure --chi-squared 10 --out out/inertia
      privfunnel verify out/inertia/certificates.npz heart-failure
    """
    from privfunnel.certificate import save_bundle
    from privfunnel.neighbours import chi_squared_funnel, inertia

    problem = load_source(source, units="nats", **reading)
    found = inertia.components(problem)
    proved = {rho: chi_squared_funnel.lower_bound(problem, rho) for rho in chi_squared}
    bounds = {rho: bound.value for rho, bound in proved.items()}
    with output(out, OWNED) as folder:
        if folder is not None and proved:
            save_bundle(folder / "certificates.npz", (bound.certificate for bound in proved.values()))
        if folder is not None and can_draw():
            from privfunnel.infra.storage import PRIVATE
            from privfunnel.report import plot

            plot.save(found.plot(), folder / "inertia.png")
            (folder / "inertia.png").chmod(PRIVATE)
    if as_json:
        rows = [{"chi_squared_x": rho, "chi_squared_s_at_least": value} for rho, value in bounds.items()]
        told = {"components": found.values.tolist(), "hidden": found.hidden, "bounds": rows}
        say(json.dumps(told, indent=1))
        return
    from rich import box
    from rich.table import Table

    table = Table(title=f"Principal inertia components of {source}", box=box.SIMPLE_HEAD)
    table.add_column("direction", justify="right")
    table.add_column("component", justify="right")
    shown = found.values[: found.values.size - found.hidden]
    for number, value in enumerate(shown, start=1):
        table.add_row(str(number), f"{value:.6f}")
    screen = console()
    screen.print(table)
    screen.print(
        f"χ²(S;X) = {found.chi_squared:.6f}, maximal correlation {found.maximal_correlation:.6f}; {found.hidden} of "
        f"{found.values.size} directions of X tell nothing about S.",
        soft_wrap=True,
    )
    for rho, value in bounds.items():
        screen.print(f"Proved: χ²(S;Y) ≥ {value:.9f} wherever χ²(X;Y) ≥ {rho:g}.")
    tell_files(out, OWNED)
