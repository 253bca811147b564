"""A table with thousands of public symbols in few classes, as wide tables have them."""

from __future__ import annotations

from typing import Any

import numpy as np


def wide_columns(rows: int = 9000, seed: int = 0) -> dict[str, list[Any]]:
    """Columns a, b, c with 8000 combinations, some 5400 of which occur, and a private column ``ill`` that needs b."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.integers(0, 25, rows), rng.integers(0, 20, rows), rng.integers(0, 16, rows)
    ill = rng.random(rows) < 0.15 + 0.35 * (b > 12)
    return {
        "a": a.tolist(),
        "b": [f"b{value:02d}" for value in b],
        "c": [f"c{value:02d}" for value in c],
        "ill": np.where(ill, "yes", "no").tolist(),
    }
