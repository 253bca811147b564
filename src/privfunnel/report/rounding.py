"""Numbers that may be published: so coarse that the rows behind them cannot be solved for.

From exact informations and shares the counts of a small table follow. What a report tells is therefore rounded: shares
to steps that are each worth several rows, informations to few digits, numbers of rows to two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from privfunnel.measures import nats_per, to_bits

#: Rows below which a number would speak of few people.
THRESHOLD = 5
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: The step where the number of rows is not known.
UNKNOWN = 0.01
#: Informations below this, in bits, are told as less than it.
LEAST = 1e-4
ZERO = 1e-9  # what rounding leaves of nothing

Towards = Literal["near", "down", "up"]


def _whole(value: float, to: Towards) -> int:
    """A whole number; what floating point leaves of one (2.9999999999) is that one."""
    near = round(value)
    if to == "near" or abs(value - near) < ZERO:
        return near
    return math.floor(value) if to == "down" else math.ceil(value)


@dataclass(frozen=True)
class Rounding:
    """How numbers of a table are told.

    Attributes:
        rows: Rows behind the table, or None where their number is not known.
        threshold: Rows that a step is worth at least.
    """

    rows: float | None
    threshold: int = THRESHOLD

    @cached_property
    def step(self) -> float:
        """The step of shares and probabilities."""
        if self.rows is None:
            return UNKNOWN
        return next((step for step in STEPS if step * self.rows >= self.threshold), STEPS[-1])

    @cached_property
    def digits(self) -> int:
        """Significant digits of an information: one for a hundredth of a share, two, and three for fine steps."""
        return 1 if self.step > 0.02 else 3 if self.step <= 0.001 else 2

    def share(self, value: float, to: Towards = "near") -> float:
        """A share, to a step."""
        return min(max(round(_whole(value / self.step, to) * self.step, 6), 0.0), 1.0)

    def information(self, nats: float, to: Towards = "near") -> float:
        """An amount of information in nats that has few digits in bits."""
        bits = to_bits(nats)
        if bits < LEAST:
            return 0.0
        unit = 10.0 ** (math.floor(math.log10(bits)) + 1 - self.digits)
        return _whole(bits / unit, to) * unit * nats_per("bits")

    def percent(self, value: float, to: Towards = "near") -> str:
        """A share as people read it: ``64 %``; a bound is rounded ``"down"`` or ``"up"``, so that it stays one."""
        near = self.share(value, to)
        decimals = 1 if self.step < 0.01 else 0
        if near == 0.0 and value > ZERO and to == "near":
            return f"less than {100 * self.step:.{decimals}f} %"
        return f"{100 * near:.{decimals}f} %"

    def bits(self, nats: float, to: Towards = "near") -> str:
        """An amount of information as people read it: ``0.29 bits``."""
        near = to_bits(self.information(nats, to))
        if near == 0.0 and nats > ZERO and to != "down":
            return f"less than {LEAST} bits"
        return f"{near:.{self.digits}g} bits"

    def factor(self, value: float) -> str:
        """A largest ratio of probabilities, rounded up to two digits: a bound stays one."""
        if math.isinf(value) or value <= 0.0:
            return "∞" if value > 0.0 else "0"
        unit = 10.0 ** (math.floor(math.log10(value)) + 1 - min(self.digits, 2))
        return f"{_whole(value / unit, 'up') * unit:.2g}"

    def count(self, rows: float) -> str:
        """A number of people or rows: ``about 300``, ``fewer than 5``; two digits, and multiples of the threshold."""
        if rows < self.threshold:
            return f"fewer than {self.threshold}"
        unit = max(self.threshold, 10 ** (math.floor(math.log10(rows)) - 1))
        return f"about {round(rows / unit) * unit:,}"

    def rare(self, share: float) -> bool:
        """Whether fewer rows than the threshold are behind a share; never where the number of rows is not known."""
        return self.rows is not None and share * self.rows < self.threshold


@dataclass(frozen=True)
class Exact:
    """Numbers as the steward's own page shows them, in the words of :class:`Rounding`."""

    def percent(self, value: float) -> str:
        """A share: ``64.9 %``."""
        return "less than 0.1 %" if ZERO < value < 5e-4 else f"{100 * value:.1f} %"

    def bits(self, nats: float) -> str:
        """An amount of information: ``0.0123 bits``, or less than the smallest number shown."""
        value = to_bits(nats)
        return f"less than {LEAST} bits" if ZERO < value < 0.5 * LEAST else f"{value:.4f} bits"

    def factor(self, value: float) -> str:
        """A ratio of probabilities."""
        return "∞" if math.isinf(value) else f"{value:.3g}"


Numbers = Rounding | Exact
