"""Amounts of information as people write and read them: ``60%``, ``0.5 bits``, ``1.2 nats``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from privfunnel.errors import InvalidInputError
from privfunnel.measures import nats_per

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(%|nats?|bits?)?\s*")

#: The unit of sentences; everything that is computed or stored is in nats.
_SPOKEN: ContextVar[str | None] = ContextVar("spoken", default=None)


@contextmanager
def spoken_in(unit: str) -> Iterator[None]:
    """Let sentences be in another unit than bits.

    Args:
        unit: ``"nats"`` or ``"bits"``.
    """
    token = _SPOKEN.set(unit)
    try:
        yield
    finally:
        _SPOKEN.reset(token)


def spoken_unit() -> str:
    """The unit of sentences."""
    return _SPOKEN.get() or "bits"


def asked_unit() -> str | None:
    """The unit that was asked for with :func:`spoken_in`; None where nothing was said."""
    return _SPOKEN.get()


def amount(nats: float, digits: int = 4) -> str:
    """An amount of information in the unit of sentences, without its name: ``0.0123``; what rounds to −0 is 0."""
    return f"{round(float(nats) / nats_per(spoken_unit()), digits) + 0.0:.{digits}f}"


def told(nats: float, digits: int = 4) -> str:
    """The same with its name: ``0.0123 bits``."""
    return f"{amount(nats, digits)} {spoken_unit()}"


def in_asked(nats: float, form: str = ".3g") -> str:
    """An amount with its name in the unit that was asked for, for warnings; in nats where nothing was said."""
    unit = asked_unit() or "nats"
    return f"{nats / nats_per(unit):{form}} {unit}"


def in_both(nats: float) -> str:
    """An amount in both units, for errors: ``0.0123 bits (0.00853 nats)``."""
    return f"{nats / nats_per('bits'):.6g} bits ({nats:.6g} nats)"


def parse(text: str, *, ceiling: float, whole: str, name: str, units: str = "nats") -> float:
    """Read an amount of information as nats.

    Args:
        text: ``"60%"``, ``"0.9 bits"``, ``"1.2 nats"``, or ``"1.2"`` in ``units``.
        ceiling: What 100 % is, in nats.
        whole: What to call it, e.g. ``"H(X)"``.
        name: What the user calls the amount, for the error.
        units: Unit of a bare number, ``"nats"`` or ``"bits"``.

    Raises:
        InvalidInputError: The text cannot be read, or is negative or not finite.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InvalidInputError(
            f"{name} {text!r} cannot be read: give e.g. 60% (of {whole}), '0.9 bits' or 1.2"
        )
    value, unit = float(match[1]), match[2] or units
    nats = (
        value / 100.0 * ceiling
        if unit == "%"
        else value * nats_per("bits" if unit.startswith("bit") else "nats")
    )
    if not (math.isfinite(nats) and nats >= 0.0):
        raise InvalidInputError(f"{name} {text!r} is negative or not finite: give 0 to 100% of {whole}")
    return nats


def bare_number(text: str) -> float | None:
    """The number where a text is one without a unit, otherwise None."""
    match = _QUANTITY.fullmatch(text)
    return float(match[1]) if match is not None and match[2] is None else None
