"""The only way to the screen: what a table or a path holds never reaches a terminal as a command to it.

A label may hold an escape sequence that moves the cursor, changes the title or rewrites what was said before, or a
character that turns the direction of a line. Each is shown as what it is, ``\\x1b`` say.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

#: C0 controls but tab and line feed, DEL, C1 controls, separators of lines, and what changes the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Half a character, which no output can encode.
_HALVES = re.compile("[\ud800-\udfff]")


def printable(text: str, *, one_line: bool = False) -> str:
    """The text with every control character written out; ``one_line``: line feeds, too."""
    text = _HALVES.sub(_written, _CONTROLS.sub(_written, text))
    return text.replace("\n", "\\n") if one_line else text


def _written(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def say(text: object, *, err: bool = False, one_line: bool = False) -> None:
    """Write a line to the output, or to stderr."""
    click.echo(printable(str(text), one_line=one_line), err=err)


def console(*, stderr: bool = False) -> Console:
    """A rich console; wide enough for a table where the output is not a terminal."""
    from rich.console import Console

    class Screen(Console):
        """A console whose own colours are the only control sequences."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    stream: Any = sys.stderr if stderr else sys.stdout
    # Never narrower than the widest table: a number that wraps can be read, one that is cut cannot.
    wide = 120 if not stream.isatty() else max(shutil.get_terminal_size().columns, 120)
    width = None if stderr else wide  # what is redrawn on stderr has to fit the terminal
    # No markup: labels and file names with square brackets are shown as they are.
    return Screen(file=stream, width=width, highlight=False, soft_wrap=False, markup=False)
