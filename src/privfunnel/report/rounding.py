"""Numbers of a table as a report tells them: in the steps that the publication policy allows, in words.

What may be told is decided by :class:`privfunnel.release.publication.Policy`; here it becomes text. :class:`Exact` has
the same words for the steward's own page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from privfunnel.data.engines import Alphabet
from privfunnel.data.engines.cutting import nice_above
from privfunnel.measures import Array, nats_per, to_bits
from privfunnel.release.publication import STEPS, Mask, Policy

#: Exact informations below this, in their unit, are told as less than it.
LEAST = 1e-4
ZERO = 1e-9  # what rounding leaves of nothing
#: In place of a number that too few rows decide.
UNTOLD = "not told"

Towards = Literal["near", "down", "up"]
_SIDE: dict[Towards, int] = {"near": 0, "down": -1, "up": 1}


@dataclass(frozen=True)
class Rounding:
    """How numbers of a table are told.

    Attributes:
        rows: Rows behind the table, or None where their number is not known.
        policy: What may be published.
    """

    rows: float | None
    policy: Policy = field(default_factory=Policy)

    @property
    def threshold(self) -> int:
        """Rows below which a number would speak of few people."""
        return self.policy.threshold

    @cached_property
    def step(self) -> float:
        """The step of shares and probabilities."""
        if self.rows is None:
            # The step of shares where the number of rows is not known.
            return 0.01
        return self.policy.step(self.rows) or STEPS[-1]

    @property
    def detailed(self) -> bool:
        """Whether there are enough rows to tell many numbers: each may be coarse, and all of them together tell."""
        # The coarsest step of shares with which details are told; a hundred rows with a threshold of five.
        return self.step <= 0.05

    def share(self, value: float, to: Towards = "near") -> float:
        """A share, to a step."""
        return min(max(round(_whole(value / self.step, to) * self.step, 6), 0.0), 1.0)

    def bits_told(self, nats: float, to: Towards = "near") -> float:
        """An amount of information in bits, in steps that the policy allows."""
        # The policy's step is threshold/n nats: so many bits are threshold/(n ln 2).
        rows = (self.rows or 0.0) * nats_per("bits")
        return self.policy.information(to_bits(nats), rows, _SIDE[to])

    def information(self, nats: float, to: Towards = "near") -> float:
        """The same in nats."""
        return self.bits_told(nats, to) * nats_per("bits")

    def percent(self, value: float, to: Towards = "near") -> str:
        """A share as people read it: ``64 %``; a bound is rounded ``"down"`` or ``"up"``, so that it stays one."""
        near = self.share(value, to)
        decimals = 1 if self.step < 0.01 else 0
        if near == 0.0 and value > ZERO and to == "near":
            return f"less than {100 * self.step:.{decimals}f} %"
        return f"{100 * near:.{decimals}f} %"

    def bits(self, nats: float, to: Towards = "near") -> str:
        """An amount of information as people read it: ``0.29 bits``."""
        near = self.bits_told(nats, to)
        if near == 0.0 and nats > ZERO and to == "near":
            return f"less than {self.bits_told(nats, 'up'):.3g} bits"
        return f"{near:.3g} bits"

    def amount(self, nats: float) -> str:
        """An amount of information in the unit of what is published."""
        return self.bits(nats)

    def of(self, share: float) -> Rounding:
        """How numbers are told that only a share of the rows is behind: of one released symbol, or of one value."""
        return self if self.rows is None else replace(self, rows=share * self.rows)

    def factor(self, value: float) -> str:
        """A largest ratio of probabilities, rounded up to two digits or to what few rows could change.

        :data:`UNTOLD` where fewer rows than the threshold decide it.
        """
        if self.rows and self.rows < self.threshold:
            return UNTOLD
        if math.isinf(value) or value <= 0.0:
            return "∞" if value > 0.0 else "0"
        unit = 10.0 ** (math.floor(math.log10(value)) + -1)
        if self.rows:
            unit = max(unit, nice_above(value * self.threshold / self.rows))
        return f"{_whole(value / unit, 'up') * unit:.2g}"

    def log_factor(self, nats: float) -> str:
        """The logarithm of such a ratio, likewise; :data:`UNTOLD` where fewer rows than the threshold decide it."""
        if nats <= 0.0:
            return "0"
        if self.rows and self.rows < self.threshold:
            return UNTOLD
        if math.isinf(nats):
            return "∞"
        unit = 10.0 ** (math.floor(math.log10(nats)) + -1)
        if self.rows:
            unit = max(unit, nice_above(self.threshold / self.rows))
        return f"{_whole(nats / unit, 'up') * unit:.2g}"

    def count(self, rows: float) -> str:
        """A number of people or rows: ``about 300``, ``fewer than 5``."""
        return f"fewer than {self.threshold}" if rows < self.threshold else self.policy.about(rows)

    def named(self, alphabet: Alphabet, p: Array) -> Mask:
        """Which symbols of an alphabet, of probabilities ``p``, enough people have to be named."""
        return self.policy.named(alphabet, p, self.rows or 0.0)

    def rare(self, share: float) -> bool:
        """Whether fewer rows than the threshold are behind a share; never where the number of rows is not known."""
        return not self.policy.listed(np.array([share]), self.rows or 0.0)[0]


def _whole(value: float, to: Towards) -> int:
    """A whole number; what floating point leaves of one (2.9999999999) is that one."""
    near = round(round(value, 9))  # the noise of sums must not tell 39.5 from 39.5
    if to == "near" or abs(value - near) < ZERO:
        return near
    return math.floor(value) if to == "down" else math.ceil(value)


@dataclass(frozen=True)
class Exact:
    """Numbers as the steward's own page shows them, in the words of :class:`Rounding`.

    Attributes:
        units: What amounts of information are told in, ``"bits"`` or ``"nats"``.
    """

    units: str = "bits"

    def percent(self, value: float) -> str:
        """A share: ``64.9 %``."""
        return "less than 0.1 %" if ZERO < value < 5e-4 else f"{100 * value:.1f} %"

    def amount(self, nats: float) -> str:
        """An amount of information: ``0.0123 bits``, or less than the smallest number shown."""
        value = nats / nats_per(self.units)
        told = f"less than {LEAST}" if ZERO < value < 0.5 * LEAST else f"{value:.4f}"
        return f"{told} {self.units}"

    def of(self, share: float) -> Exact:
        """Exact numbers are told alike, whatever share of the rows is behind them."""
        return self

    def factor(self, value: float) -> str:
        """A ratio of probabilities."""
        return "∞" if math.isinf(value) else f"{value:.3g}"

    def log_factor(self, nats: float) -> str:
        """The logarithm of one."""
        return self.factor(nats)


Numbers = Rounding | Exact
