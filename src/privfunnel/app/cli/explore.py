"""``privfunnel explore``: the local page."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

from privfunnel.app.cli._ledger import tell_of
from privfunnel.app.cli._limits import parse_size
from privfunnel.app.cli._screen import say

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@click.command("explore", short_help="A local page: see the curve, choose a point, download the release.")
@click.argument("data", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; a free one by default.")
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further host name under which the page may be opened; may be repeated.",
)
@click.option(
    "--max-upload",
    default="256M",
    show_default=True,
    metavar="SIZE",
    help="Largest file to drop on the page.",
)
@click.option(
    "--memory-limit",
    default="4G",
    show_default=True,
    metavar="SIZE",
    help="Memory of all working processes together; 0: no limit.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=1.0),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for one curve.",
)
@click.option("--ledger", metavar="FILE",
              help="Enter the releases of the page in this ledger, which is begun where there is none; see privfunnel "
                   "ledger.")  # fmt: skip
@click.option("--budget", metavar="L",
              help="Ledger: refuse a release with which all draws would tell more: 5% (of I(S;X)), '0.1 bits', "
                   "0.05.")  # fmt: skip
@click.option("--sticky", metavar="KEYFILE",
              help="Repeat the draws of earlier releases of the same --series; the key is made where there is "
                   "none.")  # fmt: skip
@click.option("--series", metavar="NAME", help="Sticky: name of the releases that repeat each other.")
@click.option("--id", "row_id", metavar="COLUMN",
              help="Sticky: column that tells the rows apart from release to release; the person's by "
                   "default.")  # fmt: skip
@click.option("--browser/--no-browser", default=True, help="Open the page in the default browser.")  # fmt: skip
def command(
    data: str | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    max_upload: str,
    memory_limit: str,
    time_limit: float,
    ledger: str | None,
    budget: str | None,
    sticky: str | None,
    series: str | None,
    row_id: str | None,
    browser: bool,
) -> None:
    """Open a local page on DATA, a table (CSV, Parquet, JSON lines, Arrow) or an example, or on what is chosen there.

    The page is served by this computer to this computer: the address carries a key that opens it once, nothing is
    sent anywhere, and what is uploaded is removed when the command ends. Stop it with Ctrl-C.

    \b
    Examples:
      privfunnel explore
      privfunnel explore heart-failure
      privfunnel explore patients.csv --port 8765 --no-browser
      privfunnel explore patients.csv --ledger ledger.json --budget 5%
    """
    from privfunnel.app.explorer import Keeping, Limits, serve
    from privfunnel.infra.signals import answered

    limits = Limits(memory=parse_size(memory_limit, "--memory-limit"), trace=time_limit)
    if host not in _LOOPBACK:
        say(
            f"warning: on {host} the page can be reached from other machines, unencrypted; anyone with the address "
            "can read what is loaded",
            err=True,
        )

    def announce(address: str) -> None:
        say(f"privfunnel explorer: {address}")
        say("Stop it with Ctrl-C; what was uploaded is removed then.")
        if ledger:
            tell_of(Path(ledger))

    with contextlib.suppress(KeyboardInterrupt):
        serve(
            data,
            host=host,
            port=port,
            names=names,
            max_upload=parse_size(max_upload, "--max-upload"),
            limits=limits,
            keeping=Keeping(ledger or "", budget or "", sticky or "", series or "", row_id or ""),
            browser=browser and _has_screen(),
            announce=announce,
        )
    answered()


def _has_screen() -> bool:
    """Whether a graphical browser can be expected; without one Python might start one inside the terminal."""
    if sys.platform in {"darwin", "win32"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
