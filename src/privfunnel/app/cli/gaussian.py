"""``privfunnel gaussian``: the best Gaussian mechanisms for numeric columns, in closed form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import (
    Units,
    console,
    output,
    parse_quantity,
    record_options,
    tell_files,
    text_file_options,
    units_option,
)
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say
from privfunnel.app.cli._source import read_options
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.neighbours.gaussian import GaussianMechanism, GaussianProblem

#: What ``--out`` may leave behind.
OWNED = ("gaussian.json",)


@click.command(
    "gaussian",
    short_help="Numeric columns as a Gaussian: the least and the most that noise on X can tell of S.",
)
@click.argument("table")
@record_options
@text_file_options
@click.option("--resolution", type=float, default=0.01, show_default=True, metavar="SHARE",
              help="Least share of a direction's variance that a release leaves: its finest resolution.")  # fmt: skip
@click.option(
    "--points", type=int, default=11, show_default=True, help="Disclosures, uniform from 0 to the most."
)
@click.option(
    "--disclosure", metavar="R", help="Also show the mechanism at R: 60% (of the most), '0.9 bits', 1.2."
)
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in nats, instead of tables.")
@click.option("--out", type=PathName(), metavar="DIR", help="Folder for gaussian.json; it is confidential.")
def command(
    table: str,
    private: tuple[str, ...],
    public: tuple[str, ...],
    bins: dict[str, str],
    missing: str | None,
    resolution: float,
    points: int,
    disclosure: str | None,
    units: Units,
    as_json: bool,
    out: Path | None,
    **text: Any,
) -> None:
    """Funnel and bottleneck of the numeric columns of TABLE, among Gaussian mechanisms, in closed form.

    S and X are taken as jointly Gaussian with the means and covariances of the rows, and a release adds Gaussian noise
    to directions of X. Shown are the least I(S;Y) for each disclosure I(X;Y), and the most. Without a finest resolution
    the disclosure would be infinite. It is the best of these mechanisms, not of all; other data than Gaussian may leak
    more.

    \b
    Examples:
      privfunnel gaussian measurements.csv --private age --public pressure,weight
      privfunnel gaussian measurements.csv --private age --public pressure,weight --disclosure 50% --out out/gaussian
    """
    from privfunnel.neighbours.gaussian import GaussianProblem

    if bins:
        raise InvalidInputError(
            "--bin makes categories of numbers: leave it out here, or use curve and solve"
        )
    if not 2 <= points <= 10_000:
        raise InvalidInputError(f"--points {points} is not usable: give a whole number from 2 to 10000")
    problem = GaussianProblem.from_table(
        table, private=private, public=public, missing=missing or "refuse", read=read_options(**text)
    )
    most = problem.disclosure_ceiling(resolution)
    mechanism = None
    if disclosure is not None:
        asked = parse_quantity(disclosure, ceiling=most, whole="the most", option="--disclosure", units=units)
        mechanism = problem.funnel(asked, resolution=resolution)
    found = _document(problem, public, resolution, points, mechanism)
    with output(out, OWNED) as folder:
        if folder is not None:
            from privfunnel.infra.storage import PRIVATE, write_text

            write_text(folder / "gaussian.json", json.dumps(found, indent=1) + "\n", mode=PRIVATE)
    if as_json:
        say(json.dumps(found, indent=1))
        return
    _show(found, units, table)
    tell_files(out, OWNED)


def _document(
    problem: GaussianProblem,
    public: tuple[str, ...],
    resolution: float,
    points: int,
    mechanism: GaussianMechanism | None,
) -> Document:
    """Everything as JSON, in nats."""
    import numpy as np

    rows = []
    for amount in np.linspace(0.0, problem.disclosure_ceiling(resolution), points).tolist():
        least = problem.funnel(amount, resolution=resolution)
        rows.append(
            {"disclosure": amount, "least": least.leakage, "most": problem.bottleneck(amount).leakage}
        )
    found = {
        "units": "nats",
        "public": list(public),
        "mean": problem.mean.tolist(),
        "resolution": resolution,
        "leakage_ceiling": problem.leakage_ceiling,
        "gains": problem.gains.tolist(),
        "directions": problem.directions.tolist(),
        "curve": rows,
    }
    if mechanism is None:
        return found
    noise = [[value if np.isfinite(value) else None for value in row] for row in mechanism.noise.tolist()]
    return found | {
        "mechanism": {
            "disclosure": mechanism.disclosure,
            "leakage": mechanism.leakage,
            "shares": mechanism.shares.tolist(),
            "noise": noise,
        }
    }


def _show(found: Document, units: Units, title: str) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    curve = Table(title=f"Gaussian mechanisms for {title} ({units.name})", box=box.SIMPLE_HEAD)
    for name in ("disclosure", "least leakage", "most leakage"):
        curve.add_column(name, justify="right", no_wrap=True)
    for row in found["curve"]:
        curve.add_row(*(f"{units.of(row[name]):.6f}" for name in ("disclosure", "least", "most")))
    screen.print(curve)
    mechanism = found.get("mechanism")
    directions = Table(title="Directions of X: weights of its columns, for variance 1", box=box.SIMPLE_HEAD)
    directions.add_column("gain", justify="right", no_wrap=True)
    releases = [] if mechanism is None else mechanism["noise"]
    for share in [] if mechanism is None else mechanism["shares"]:
        directions.add_column(f"noise, {100 * share:.0f} %", justify="right", no_wrap=True)
    for name in found["public"]:
        directions.add_column(name, justify="right")
    for i, (gain, weights) in enumerate(zip(found["gains"], found["directions"], strict=True)):
        noise = ["hidden" if release[i] is None else f"{release[i] ** 0.5:.4f}" for release in releases]
        directions.add_row(f"{gain:.6f}", *noise, *(f"{weight:.4g}" for weight in weights))
    screen.print(directions)
    ceiling = units.of(found["leakage_ceiling"])
    screen.print(
        f"I(S;X) = {ceiling:.6f} {units.name} for a Gaussian with these covariances. A direction of gain 0 tells "
        "nothing about S. Least and most are among Gaussian mechanisms: others can do better, and data that are not "
        "Gaussian may leak more.",
        soft_wrap=True,
    )
    if mechanism is not None:
        screen.print(
            f"The release discloses {units.of(mechanism['disclosure']):.6f} and leaks "
            f"{units.of(mechanism['leakage']):.6f} {units.name}: each direction plus normal noise of this standard "
            "deviation; which column of noise was used is drawn for each row and told.",
            soft_wrap=True,
        )
