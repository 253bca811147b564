"""What the arguments of several rooms are checked for; NumPy's numbers count as numbers, truth values do not."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, infinities and NaN included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_seed(seed: int) -> None:
    """Raise unless ``seed`` is a whole number of at least 0."""
    if not is_whole(seed) or seed < 0:
        raise InvalidInputError(f"seed={seed!r} is not a seed: give a whole number ≥ 0")


def frame_labels(given: Any, side: str) -> list[str] | None:
    """Labels such as ``sex=man, death=1`` from the ``index`` or ``columns`` of a frame; None where it has none.

    A plain numbering without a name is no label.
    """
    axis: Any = getattr(given, side, None)
    if not (hasattr(given, "to_numpy") and hasattr(axis, "names")):
        return None
    names, values = list(axis.names), axis.tolist()
    if names == [None] and values == list(range(len(values))):
        return None
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        ", ".join(str(v) if name is None else f"{name}={v}" for name, v in zip(names, row, strict=True))
        for row in rows
    ]


def refuse_margins(given: Any, table: NDArray[np.float64]) -> None:
    """Refuse a cross-tabulation with its sums in the last row and column: they would be counted as people."""
    last = [_last(getattr(given, side, None)) for side in ("index", "columns")]
    if last[0] is not None and last[0] == last[1] and min(table.shape) > 1:
        sums = np.array_equal(table[-1], table[:-1].sum(axis=0)) and np.array_equal(
            table[:, -1], table[:, :-1].sum(axis=1)
        )
        if sums:
            raise InvalidInputError(
                f"the table has its sums as {last[0]!r} in the last row and column: make it without margins"
            )


def _last(axis: Any) -> Any:
    """The last label of a frame's axis, the first part of it where it has several; None where there is no axis."""
    if not hasattr(axis, "tolist") or not len(axis):
        return None
    label = axis.tolist()[-1]
    return label[0] if isinstance(label, tuple) else label
