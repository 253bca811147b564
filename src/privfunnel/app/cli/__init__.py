"""The command line: one module a command, each loaded when it is asked for.

A module ``app/cli/NAME.py`` whose name has no leading underscore is the command NAME; it holds a click command
called ``command``. Commands parse, call and show; they compute nothing themselves.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shlex
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import click

from privfunnel._version import __version__
from privfunnel.app.cli._screen import say
from privfunnel.errors import PrivFunnelError, PrivFunnelWarning
from privfunnel.infra.jit import announce
from privfunnel.infra.signals import answered, raise_requested, terminate_as_exception, unveiled
from privfunnel.infra.storage import finished

__all__ = ["COMMAND", "main"]

#: Where a command finds the line that the user typed, in ``click.get_current_context().meta``.
COMMAND = "privfunnel.command"

EPILOG = """
\b
Examples:
  privfunnel curve heart-failure --out out/heart     the whole trade-off of a packaged table
  privfunnel solve heart-failure --disclosure 60%    one point of it
  privfunnel curve joint.csv --units bits            your own table: rows S, columns X
"""


class _Commands(click.Group):
    """A group that finds its commands among the modules of this package and turns errors into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for _, name, _ in pkgutil.iter_modules(__path__) if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[COMMAND] = shlex.join(["privfunnel", *args])
        return super().parse_args(ctx, args)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run; in standalone mode a mistake in the command line is one line too, with exit code 2."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        try:
            code = run(*args, standalone_mode=False, **extra)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "privfunnel"
            message = f"error: {' '.join(error.format_message().split())} See: {command} --help"
            say(message, err=True, one_line=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(128 + signal.SIGINT)
        except OSError as error:
            say(_refused(error), err=True, one_line=True)
            _drop_output()
            sys.exit(2)
        return sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings(), terminate_as_exception(), finished() as files:
            warnings.simplefilter("always", PrivFunnelWarning)
            warnings.showwarning = _showing()
            announce(_say_compiling if sys.stderr.isatty() else None)
            try:
                with unveiled():
                    done = super().invoke(ctx)
                raise_requested()  # some library may have made nothing at all of it
                return done
            except PrivFunnelError as error:
                say(f"error: {error}", err=True, one_line=True)
                ctx.exit(2)
            except KeyboardInterrupt:
                answered()
                say(_interrupted(files), err=True)
                ctx.exit(128 + signal.SIGINT)


def _refused(error: OSError) -> str:
    """What the operating system would not do: a full disk where something is laid aside, say, or behind a redirect."""
    where = "" if error.filename is None else f" at {str(error.filename)!r}"
    return f"error: the system refused{where} ({error.strerror or error}): make room or give access, and try again"


def _drop_output() -> None:
    """Forget output that cannot be written: Python would try it again at its end, and end with another code."""
    try:
        sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())


def _say_compiling() -> None:
    say("compiling kernels for this and later runs, which takes some seconds once", err=True)


def _interrupted(files: list[Path]) -> str:
    """What is there after an interrupt: a command may have written everything, and be about to say so."""
    written = [str(path) for path in files if path.exists()]  # a temporary folder is gone by now
    if written:
        return f"interrupted: {', '.join(written)} was written before"
    return "interrupted: nothing was finished, nothing is written"


def _showing() -> Callable[..., None]:
    """What shows warnings: one line on stderr for what privfunnel has to say, once; Python's own form for all else."""
    said: set[str] = set()  # a command may read a table several times

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, PrivFunnelWarning):
            say(warnings.formatwarning(str(message), category, filename, lineno, line).rstrip("\n"), err=True)
        elif str(message) not in said:
            said.add(str(message))
            say(f"warning: {message}", err=True, one_line=True)

    return show


@click.group(cls=_Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="privfunnel", message="%(prog)s %(version)s")
def main() -> None:
    """Privacy funnels: what a public release tells about private data, and how little it has to.

    SOURCE is a packaged example, a table of probabilities or counts (CSV: rows are the private symbols, columns the
    public ones, labels in the header and in the first column), or a table of records with --private and --public. An
    example's NAME+1e-3 adds that to every probability, NAME+1e-3rows to every count; census-income:17-40,41-90 has
    these age bands.
    """
