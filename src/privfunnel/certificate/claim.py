"""What a proof proves: one inequality about the averages, the disclosure, the utility and the distortion of releases.

Whatever is proved, and by whatever arithmetic, every release of the claim's scope satisfies

    Σ_i θ_i average_i ≥ constant + disclosure·I(X;Y) + utility·I(U;Y) − distortion·E d(X,Y)      (nats).

The averages are those of the scope's guards: I(S;Y) where the attacker knows nothing. Read for the averages it bounds
the leakage from below, read for the disclosure or the utility it bounds these from above, and read for E d it says how
much has to be changed. The bottleneck's lines bound I(S;Y) from above: both sides with the sign turned.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.certificate.archive import Archive
from privfunnel.certificate.tree import LARGEST
from privfunnel.errors import CertificateError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Arrays, Channel
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.threat import Average, Threat

_EPS = float(np.finfo(np.float64).eps)
#: Roundings that reading a bound off a claim may add, in units of the size of its terms.
_READING = 8.0


#: What a scope says that is as in the plain funnel.
_PLAIN: dict[str, Any] = {
    "zero": False, "tasks": None, "invariant": False, "quantity": "information", "guards": None,
}  # fmt: skip


class Quantity(StrEnum):
    """What the two numbers of a release are that a claim compares."""

    INFORMATION = "information"  # I(X;Y), and the averages of the guards' measure
    CHI_SQUARED = "chi-squared"  # χ²(X;Y) and χ²(S;Y)
    GUESSES = "guesses"  # how often the best guess of X and of S is right


@dataclass(frozen=True, kw_only=True, eq=False)
class Scope:
    """The releases that a claim is about.

    Attributes:
        guards: Attackers, published columns and guarantees; None for one attacker, who knows nothing.
        zero: Whether only releases are meant that tell no attacker anything, or nothing of attributes with budget 0.
        tasks: Fingerprint of the tasks whose utility it is about; None for none.
        costs: d, shape (M, N), ≥ 0, where it is about E d(X,Y); ∞ for a change that is forbidden. None for none.
        invariant: Whether only releases with p(y) = p(x) are meant.
        quantity: What the two numbers are.
    """

    guards: Threat | None = None
    zero: bool = False
    tasks: str | None = None
    costs: Array | None = None
    invariant: bool = False
    quantity: Quantity = Quantity.INFORMATION

    def __post_init__(self) -> None:
        if self.costs is not None:
            self.costs.setflags(write=False)

    @property
    def measure(self) -> measures.Measure:
        """The measure of leakage."""
        return measures.INFORMATION if self.guards is None else self.guards.measure

    @property
    def n_averages(self) -> int:
        """How many averages there are."""
        return 1 if self.guards is None else len(self.guards.averages)

    def limits(self, budget: float) -> Array:
        """What each average may be where no attacker learns more than ``budget``, shape (averages,)."""
        return np.array([budget]) if self.guards is None else self.guards.limits(budget)

    def values(self, problem: Problem, channel: Channel) -> Values:
        """The numbers of a channel p(y|x) that a claim of this scope is about."""
        channel = problem.check_channel(channel)
        if self.quantity is not Quantity.INFORMATION:
            read = measures.guessing_accuracy if self.quantity is Quantity.GUESSES else _chi_squared
            told = float(read(np.asarray(channels.joint(problem.p_x, channel))))
            return Values(np.array([float(read(problem.p_sx @ channel))]), told)
        point, distortion = problem.evaluate(channel), 0.0
        if self.costs is not None:
            paid = np.asarray(channel) * problem.p_x[:, None]
            distortion = float(np.sum(paid * np.where(paid > 0.0, self.costs, 0.0)))
        averages = np.array([point.leakage])
        if self.guards is not None:
            averages = np.array(
                [_average(self.guards, each, problem, channel) for each in self.guards.averages]
            )
        return Values(averages, point.disclosure, float(point.utility or 0.0), distortion)

    def arrays(self) -> Arrays:
        """All that is stored, by name; of what is as in the plain funnel nothing is."""
        said: Document = {
            "zero": self.zero,
            "tasks": self.tasks,
            "invariant": self.invariant,
            "quantity": self.quantity.value,
            "guards": None if self.guards is None else self.guards.to_dict(),
        }
        stored: Arrays = {} if self.costs is None else {"costs": self.costs}
        return stored if said == _PLAIN else stored | {"said": np.array(json.dumps(said))}

    @classmethod
    def read(cls, archive: Archive, place: str) -> Scope:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        named = f"{place}.said"
        said = json.loads(str(archive[named])) if named in archive else _PLAIN
        guards, tasks = said["guards"], said["tasks"]
        return cls(
            guards=None if guards is None else Threat.from_dict(guards),
            zero=bool(said["zero"]),
            tasks=None if tasks is None else str(tasks),
            costs=archive.floats(f"{place}.costs") if f"{place}.costs" in archive else None,
            invariant=bool(said["invariant"]),
            quantity=Quantity(said["quantity"]),
        )


@dataclass(frozen=True)
class Values:
    """The numbers of a release: the averages of its scope, (averages,), I(X;Y), I(U;Y) and E d(X,Y)."""

    averages: Array
    disclosure: float
    utility: float = 0.0
    distortion: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """Σ θ·averages ≥ constant + disclosure·I(X;Y) + utility·I(U;Y) − distortion·E d, for every release of a scope.

    Attributes:
        constant: What the averages are at least where nothing is disclosed and kept, in nats.
        disclosure: What a nat of I(X;Y) costs.
        utility: What a nat of I(U;Y) costs.
        distortion: What a unit of E d saves.
        weights: θ, one an average of the scope, shape (averages,).
        scope: Which releases.
    """

    constant: float
    disclosure: float = 0.0
    utility: float = 0.0
    distortion: float = 0.0
    weights: Array = field(default_factory=lambda: np.ones(1))
    scope: Scope = field(default_factory=Scope)

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    @property
    def turned(self) -> bool:
        """Whether it bounds the averages from above: the bottleneck's lines do."""
        return bool(self.weights[:1].sum() < 0.0)

    @property
    def says(self) -> frozenset[str]:
        """What of it is not as in the plain funnel: names of its parts, and of those of its scope."""
        scope = self.scope
        found = {
            "disclosure": self.disclosure != 0.0,
            "utility": self.utility != 0.0,
            "distortion": self.distortion != 0.0,
            "weights": self.weights.tolist() != [1.0],
            "guards": scope.guards is not None,
            "zero": scope.zero,
            "tasks": scope.tasks is not None,
            "costs": scope.costs is not None,
            "invariant": scope.invariant,
            scope.quantity.value: scope.quantity is not Quantity.INFORMATION,
        }
        return frozenset(name for name, said in found.items() if said)

    @cached_property
    def bounds_leakage(self) -> bool:
        """Whether it says what the largest leakage is at least."""
        guards = self.scope.guards
        silent = self.scope.zero or not self.total > 0.0
        return not (silent or (guards is not None and guards.attributes))

    def left_over(self, problem: Problem, channel: Channel) -> float:
        """By how much a channel of the scope meets the inequality, in nats: below 0, but for rounding, for none."""
        return self.left_of(self.scope.values(problem, channel))

    def left_of(self, has: Values) -> float:
        """:meth:`left_over` of a channel with these values, those of :meth:`Scope.values`."""
        told = float(self.weights @ has.averages)
        asked = (
            self.disclosure * has.disclosure + self.utility * has.utility - self.distortion * has.distortion
        )
        return told - self.constant - asked

    # --- bounds, each rounded to the safe side --------------------------------------------------------------------

    def least_leakage(self, disclosure: float = 0.0, utility: float = 0.0, distortion: float = 0.0) -> float:
        """What the largest leakage is at least where so much is kept and changed; −∞ where nothing is said of it.

        In nats, or in the measure's own numbers.
        """
        if not self.bounds_leakage:
            return -math.inf
        total, measure = self.total, self.scope.measure
        asked, size = self._asked(disclosure, utility, distortion)
        average = (asked - _READING * _EPS * size) / total
        if not measure.worst_value:
            return average - _EPS * abs(average)
        return measure.leakage(average * (1.0 - 4.0 * _EPS)) - 4.0 * _EPS

    def most_leakage(self, disclosure: float) -> float:
        """What the one average is at most at a disclosure, of a claim that is turned; ∞ of any other."""
        if not self.turned:
            return math.inf
        asked, size = self._asked(disclosure, 0.0, 0.0)
        most = (asked - _READING * _EPS * size) / float(self.weights.sum())
        return most + _EPS * abs(most)

    def most_disclosure(self, budget: float, utility: float = 0.0) -> float:
        """What the disclosure is at most, in nats, where no attacker learns more than ``budget``; ∞ without a slope.

        Where attributes have budgets of their own, these count.
        """
        return self._most(self.disclosure, budget, utility=utility)

    def most_utility(self, budget: float, disclosure: float = 0.0) -> float:
        """What the utility is at most, in nats, of releases that disclose so much within a budget; or ∞."""
        return self._most(self.utility, budget, disclosure=disclosure)

    def least_distortion(self, budget: float) -> float:
        """How much has to be changed on average so that no more than ``budget`` leaks; 0 without a slope."""
        return max(0.0, -self._most(self.distortion, budget))

    def _most(self, slope: float, budget: float, *, disclosure: float = 0.0, utility: float = 0.0) -> float:
        """What slope times something is at most within a budget, divided by the slope."""
        scope = self.scope
        own = scope.guards is not None and bool(scope.guards.attributes)
        if slope <= 0.0 or (scope.zero and not own and budget > 0.0):
            return math.inf
        limits = scope.limits(budget)
        # An average without weight may be as large as it likes: 0 times ∞ is 0 here.
        spent = float(
            sum(weight * most for weight, most in zip(self.weights, limits, strict=True) if weight > 0.0)
        )
        asked, size = self._asked(disclosure, utility, 0.0)
        if math.isinf(spent):
            return math.inf
        left = spent - asked + _READING * _EPS * (size + abs(spent))
        return left / slope + _EPS * abs(left / slope)

    def _asked(self, disclosure: float, utility: float, distortion: float) -> tuple[float, float]:
        """The right-hand side, and the sum of the sizes of its terms."""
        one, other = self.disclosure * disclosure, self.utility * utility
        saved = self.distortion * distortion
        size = abs(self.constant) + abs(one) + abs(other) + abs(saved)
        return self.constant + one + other - saved, size

    @cached_property
    def total(self) -> float:
        """Σ θ, the weights of all averages together."""
        return float(self.weights.sum())

    # --- what a file holds --------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """All that is stored, by name; weights only where they are not one 1."""
        numbers = np.array([self.constant, self.disclosure, self.utility, self.distortion])
        scope = {f"scope.{name}": array for name, array in self.scope.arrays().items()}
        weights = {} if self.weights.tolist() == [1.0] else {"weights": self.weights}
        return {"numbers": numbers, **weights, **scope}

    @classmethod
    def read(cls, archive: Archive, place: str) -> Claim:
        """What :meth:`arrays` gave, from a file of unknown origin."""
        named = f"{place}.weights"
        constant, disclosure, utility, distortion = (float(x) for x in archive.floats(f"{place}.numbers"))
        return cls(
            constant=constant,
            disclosure=disclosure,
            utility=utility,
            distortion=distortion,
            weights=archive.floats(named) if named in archive else np.ones(1),
            scope=Scope.read(archive, f"{place}.scope"),
        )

    def check_form(self, problem: Problem) -> None:
        """Raise CertificateError unless all numbers are usable; it belongs to ``problem``."""
        numbers = np.array([self.constant, self.disclosure, self.utility, self.distortion])
        one = self.weights.ndim == 1 and self.weights.dtype == np.float64
        if not (
            one and all(np.all(np.abs(each) <= self._largest(problem)) for each in (numbers, self.weights))
        ):
            raise CertificateError("the certificate's claim holds a number that is not a usable number")
        sign = -1.0 if self.turned else 1.0
        if np.any(sign * self.weights < 0.0) or np.any(sign * numbers[1:] < 0.0):
            raise CertificateError(
                "the certificate's slopes or weights are not usable numbers: a sign is wrong"
            )

    def _largest(self, problem: Problem) -> float:
        """The largest usable number; what is about a task counts in units of its largest weight."""
        tasks = None if self.scope.tasks is None else problem.tasks
        unit = 1.0 if tasks is None else float(tasks.weights.max())
        return LARGEST * max(unit, 1.0 / unit)


def _chi_squared(joint: Array) -> Array:
    return measures.leakage(joint, measures.MEASURES["chi-squared"])


def _average(guards: Threat, which: Average, problem: Problem, channel: Channel) -> float:
    """One average of a channel: of an attacker's mean, or of one value of what they know; of S or an attribute."""
    measure, attacker = guards.measure, which.attacker
    p_sx = problem.p_sx if which.attribute is None else which.attribute.merged(problem.p_sx)
    if which.value is None:
        return measure.average(attacker.leakage(p_sx, channel, measure))
    group = np.flatnonzero(attacker.values == which.value)
    part = p_sx[:, group]
    rows = channel if isinstance(channel, np.ndarray) else channel.tocsr()
    return measure.average(float(measures.leakage((part / part.sum()) @ rows[group], measure)))
