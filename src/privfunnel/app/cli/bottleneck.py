"""``privfunnel bottleneck``: the dual curve of a table, most relevance for every rate."""

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
    source_options,
    tell_files,
    units_option,
)
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say

if TYPE_CHECKING:
    from privfunnel.neighbours.bottleneck import BottleneckCurve

#: What ``--out`` may leave behind.
OWNED = ("bottleneck.json", "bottleneck.png", "certificates.npz", "problem.json")


@click.command("bottleneck", short_help="The dual curve: most of S that a rate of X can tell.")
@source_options
@click.option(
    "--points", type=int, default=20, show_default=True, help="Points, uniform in rate from 0 to H(X)."
)
@click.option("--method", type=click.Choice(["blahut-arimoto", "abp", "agglomerative"]), default="abp",
              show_default=True, help="ABP takes each rate as it is; the others compare.")  # fmt: skip
@click.option("--certify", is_flag=True, help="Prove an upper bound beside every point.")
@click.option("--restarts", type=int, default=1, show_default=True, help="Random starts beside the main one.")
@click.option("--seed", type=int, default=0, show_default=True, help="Fixes all randomness.")
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in nats, instead of a table.")
@click.option("--out", type=PathName(), metavar="DIR",
              help="Folder for bottleneck.json, .png, problem.json and the proofs; all are confidential.")  # fmt: skip
def command(
    source: str,
    points: int,
    method: str,
    certify: bool,
    restarts: int,
    seed: int,
    units: Units,
    as_json: bool,
    out: Path | None,
    **reading: Any,
) -> None:
    """Trace the information bottleneck of SOURCE, the funnel's dual.

    For rates R from 0 to H(X), find how much about S a release of X can tell: the largest I(S;Y) with I(X;Y) ≤ R.
    Nothing here protects anybody: it is the other end of what the funnel keeps small.

    \b
    Examples:
      privfunnel bottleneck heart-failure --certify
      privfunnel bottleneck heart-failure --method agglomerative --units bits
      privfunnel bottleneck heart-failure --certify --out out/dual
      privfunnel verify out/dual/certificates.npz heart-failure
    """
    from privfunnel.neighbours import bottleneck

    problem = load_source(source, units=units.name, **reading)
    with output(out, OWNED) as folder:
        drawing = folder is not None and can_draw()
        curve = bottleneck.trace(
            problem, points=points, method=method, certify=certify, restarts=restarts, seed=seed
        )
        if folder is not None:
            _write(curve, folder, units, drawing=drawing)
    if as_json:
        bounds = {"upper_bound": curve.upper_bound.tolist(), "gap": curve.gap.tolist()}
        say(json.dumps(curve.to_dict() | bounds, indent=1))
        return
    _show(curve, units, source)
    tell_files(out, OWNED)


def _write(curve: BottleneckCurve, folder: Path, units: Units, *, drawing: bool) -> None:
    """Write the curve, its problem, its proofs and its picture."""
    from privfunnel.certificate import save_bundle
    from privfunnel.infra.storage import PRIVATE

    curve.save(folder / "bottleneck.json")
    curve.problem.save(folder / "problem.json")
    if curve.certificates:
        save_bundle(folder / "certificates.npz", curve.certificates)
    if drawing:
        from privfunnel.report import plot

        plot.save(curve.plot(units=units.name), folder / "bottleneck.png")
        (folder / "bottleneck.png").chmod(PRIVATE)


def _show(curve: BottleneckCurve, units: Units, title: str) -> None:
    """Print the curve as a table."""
    from rich import box
    from rich.table import Table

    problem = curve.problem
    table = Table(title=f"Information bottleneck of {title} ({units.name})", box=box.SIMPLE_HEAD)
    for name in ("rate", "% of H(X)", "relevance", "% of I(S;X)", "proved ≤", "gap", "slope"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = zip(curve.disclosure, curve.leakage, curve.upper_bound, curve.gap, curve.slope, strict=True)
    for rate, told, bound, gap, slope in rows:
        table.add_row(
            f"{units.of(rate):.6f}", f"{100 * rate / max(problem.disclosure_ceiling, 1e-12):.1f}",
            f"{units.of(told):.6f}", f"{100 * told / max(problem.leakage_ceiling, 1e-12):.1f}",
            f"{units.of(bound):.6f}", f"{units.of(gap):.1e}", f"{slope + 0.0:.4f}",
        )  # fmt: skip
    screen = console()
    screen.print(table)
    ceiling, most = units.of(problem.disclosure_ceiling), units.of(problem.leakage_ceiling)
    proof = (
        f"{len(curve.certificates)} proved lines and min(R, I(S;X))"
        if curve.certificates
        else "min(R, I(S;X))"
    )
    screen.print(f"H(X) = {ceiling:.6f}, I(S;X) = {most:.6f} {units.name}; bound: {proof}.")
