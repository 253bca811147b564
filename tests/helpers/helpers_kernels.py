"""What the tests of compiled functions share."""

from __future__ import annotations

from typing import Any

import numpy as np

Table = np.ndarray[Any, Any]


def plain(function: Any) -> Any:
    """The Python function behind a compiled one."""
    return getattr(function, "py_func", function)


def simplex_grid(steps: int) -> Table:
    """All posteriors on three symbols whose entries are multiples of 1/steps."""
    i, j = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1), indexing="ij")
    inside = i + j <= steps
    first, second = i[inside], j[inside]
    return np.stack([first, second, steps - first - second], axis=1) / steps
