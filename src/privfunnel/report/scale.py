"""What leakage is measured by, and how its numbers are told: bits of mutual information, or another measure's own."""

from __future__ import annotations

from dataclasses import dataclass

from privfunnel.data.engines.cutting import nice_above
from privfunnel.measures import INFORMATION, Measure
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.threat import Threat
from privfunnel.report.rounding import ZERO, Exact, Numbers, Rounding, Towards
from privfunnel.solving.curve import Curve


@dataclass(frozen=True)
class Scale:
    """How leakage is told.

    Attributes:
        measure: What it is measured by.
        ceiling: What X itself leaks, to who learns most: I(S;X) in nats, or in the measure's own numbers.
        guarded: Whether leakage is the largest of several attackers', or guarantees hold.
    """

    measure: Measure
    ceiling: float
    guarded: bool = False

    @classmethod
    def of(cls, problem: Problem, guards: Threat) -> Scale:
        """The scale of releases of a problem that are guarded against these."""
        if guards.measure.is_information:
            return cls(INFORMATION, problem.leakage_ceiling, not guards.plain)
        leakages = guards.leakages(problem, channels.identity(problem.n_x))
        return cls(guards.measure, max(leakages.values()), guarded=True)

    @classmethod
    def of_curve(cls, curve: Curve) -> Scale:
        """The scale of a curve."""
        return cls.of(curve.problem, curve.guards)

    @property
    def usual(self) -> bool:
        """Whether it is mutual information."""
        return self.measure.is_information

    @property
    def information(self) -> bool:
        """Whether leakage is an amount of information, in nats; otherwise it is a probability or a number."""
        return self.measure.in_nats

    @property
    def name(self) -> str:
        """The measure in the words of people."""
        return self.measure.title

    @property
    def unusual(self) -> str:
        """The measure in words, where it is not the usual one."""
        return "" if self.usual else f"by {self.name}"

    @property
    def axis(self) -> str:
        """The title of the axis of a drawing."""
        if not self.guarded:
            return "leakage I(S;Y)"
        return "largest leakage" if self.usual else self.name

    @property
    def whole(self) -> str:
        """What shares are of."""
        return "I(S;X)" if self.usual else "what X itself leaks"

    def share(self, leakage: float) -> float:
        """The share of what X itself leaks."""
        return leakage / self.ceiling if self.ceiling > 0.0 else 0.0

    def rounded(self, leakage: float, say: Rounding, to: Towards = "near") -> float:
        """A leakage in steps that may be published; a measure without unit has steps of its whole range."""
        if self.information:
            return say.information(leakage, to)
        most = nice_above(max(1.0, self.ceiling))
        return say.share(leakage / most, to) * most

    def told(self, leakage: float, numbers: Numbers, to: Towards = "near") -> str:
        """A leakage as people read it: ``0.29 bits``, or ``0.29`` of a measure without unit."""
        if isinstance(numbers, Exact):
            return numbers.amount(leakage) if self.information else f"{leakage:.4f}"
        if self.information:
            return numbers.bits(leakage, to)
        near = self.rounded(leakage, numbers, to)
        if near == 0.0 and leakage > ZERO and to == "near":
            return f"less than {self.rounded(leakage, numbers, 'up'):.3g}"
        return f"{near:.3g}"
