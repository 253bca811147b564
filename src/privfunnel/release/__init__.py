"""Releases: rows go through a mechanism, batch by batch, and only what it draws is written.

:func:`write` makes a file of any table, :func:`write_all` several files of one draw, :func:`frame` a frame of the
engine the rows are in (on Spark the same sampler runs on the executors), :func:`by_classes` one of a Spark frame whose
public symbols are too many to be listed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from privfunnel.release.options import FORMS, NUMBERS, UNSEEN_RULES

if TYPE_CHECKING:
    from privfunnel.release.classwise import by_classes
    from privfunnel.release.frames import frame
    from privfunnel.release.order import Order
    from privfunnel.release.summary import ReleaseSummary
    from privfunnel.release.table_files import write, write_all

_HOMES = {
    "Order": "order", "ReleaseSummary": "summary", "by_classes": "classwise", "frame": "frames",
    "write": "table_files", "write_all": "table_files",
}  # fmt: skip

__all__ = [
    "FORMS",
    "NUMBERS",
    "UNSEEN_RULES",
    "Order",
    "ReleaseSummary",
    "by_classes",
    "frame",
    "write",
    "write_all",
]


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command line lists the options above without any of it.
    if name in _HOMES:
        return getattr(importlib.import_module(f"privfunnel.release.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'privfunnel.release' has no attribute {name!r}")
