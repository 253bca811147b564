"""How the tests call the command line, and what an error has to look like."""

from __future__ import annotations

import io

from click.testing import CliRunner, Result

from privfunnel.app.cli import main

#: Options that make a curve, or a point, quick.
QUICK = ("--solver", "aem", "--restarts", "2", "--option", "max_steps=40", "--points", "5")
AEM = ("--solver", "aem", "--restarts", "3")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


def assert_one_line_error(result: Result, *words: str) -> None:
    """Exit code 2, nothing on stdout, and a last line on stderr that names the trouble."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.lower().startswith("error: ")
    for word in words:
        assert word in last
