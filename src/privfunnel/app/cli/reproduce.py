"""``privfunnel reproduce``: the paper's figures with the numbers behind them."""

from __future__ import annotations

from pathlib import Path

import click

from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say


@click.command("reproduce", short_help="The paper's figures, with the numbers behind them.")
@click.option("--quick", is_flag=True, help="About a minute, with reduced settings, instead of the full run.")
@click.option("--out", type=PathName(), default=Path("out/reproduction"), show_default=True,
              metavar="DIR", help="Folder for the figures, points.csv and reproduction.md.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Fixes all randomness.")
@click.option("--fresh", is_flag=True, help="Compute panels again that an earlier run has finished.")
def command(quick: bool, out: Path, seed: int, fresh: bool) -> None:
    """Run the experiments of the paper that introduced AEM.

    Both synthetic problems, heart failure and census income, AEM against Douglas-Rachford splitting, as PNG and SVG
    figures, a CSV of every point, and a page that says for each claim of the paper what was found.

    A finished panel is kept: an interrupted run goes on where it stopped.
    """
    from privfunnel.errors import need
    from privfunnel.infra.checks import check_seed
    from privfunnel.studies import reproduce

    check_seed(seed)
    need("matplotlib", extra="plots")  # told before the work, not after it
    try:
        reproduce.run(out, quick=quick, seed=seed, fresh=fresh, tell=say)
    except KeyboardInterrupt:
        say(
            f"interrupted: finished panels are kept in {out / 'panels'}; run the same again to go on",
            err=True,
        )
        click.get_current_context().exit(130)
    say(f"The page is {out / 'reproduction.md'}")
