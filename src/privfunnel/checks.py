"""What the arguments of several rooms are checked for; NumPy's numbers count as numbers, truth values do not."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

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
