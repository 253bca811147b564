"""``privfunnel example``: the table that the README and the tutorials speak of."""

from __future__ import annotations

from pathlib import Path

import click

from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say
from privfunnel.errors import InvalidInputError


@click.command("example", short_help="Write the table of patients that the README and the tutorials use.")
@click.argument("file", type=PathName())
@click.option(
    "--joint", is_flag=True, help="Write counts instead of rows: sex and death by smoking and diabetes."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(file: Path, joint: bool, force: bool) -> None:
    """Write invented patients to FILE, a CSV: 600 rows with sex, death, smoking, diabetes and age.

    The numbers are drawn from a fixed seed, so that everybody has the same table; no real person is behind any row.

    \b
    Examples:
      privfunnel example patients.csv
      privfunnel curve patients.csv --private sex,death --public smoking,diabetes
    """
    from privfunnel.data.instances import patients

    if file.suffix.lower() != ".csv":
        raise InvalidInputError(f"{str(file)!r} does not end in .csv: the example is a CSV, name it so")
    patients.write(file, joint=joint, force=force)
    what = (
        f"counts of {patients.ROWS} invented patients: sex and death by smoking and diabetes"
        if joint
        else f"{patients.ROWS} invented patients: {', '.join(patients.COLUMNS)}"
    )
    say(f"Written: {file}, {what}.")
