"""Pieces of the benchmarks page: tables, and where a result was measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine(result: dict[str, Any]) -> str:
    """A sentence on where a result was measured."""
    info = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    cores = f"{info['cores']} core{'' if info['cores'] == 1 else 's'}"
    text = f"Measured on {info['processor']}, {cores} with a load of {info['load']}"
    text += f" (Python {info['python']}, {versions})."
    if info["load"] > 1.5 * info["cores"]:
        text += " **The machine was busy with other work**: take wall-clock ratios with care."
    return text + "\n"
