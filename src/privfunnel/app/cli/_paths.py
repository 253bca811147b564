"""Paths as commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class PathName(click.Path):
    """The name of a file or folder; an empty one, which ``Path`` would take for this folder, is refused."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("the name is empty: give one, '.' for this folder", param, ctx)
        return super().convert(value, param, ctx)
