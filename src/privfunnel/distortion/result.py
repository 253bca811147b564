"""What the distortion funnel gives: a solution with its costs, and a curve of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from privfunnel import cards
from privfunnel.certificate import DistortionCertificate
from privfunnel.distortion.costs import Costs
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import Array, nats_per
from privfunnel.problem import Problem
from privfunnel.solution import FEASIBILITY, Solution, Status, fields_from
from privfunnel.storage import Stored

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class DistortionSolution(Solution):
    """A channel to records, with the least leakage for its distortion; nats, distortions in the unit of the costs.

    Column y of the channel is public symbol y where the costs are square: a record is released in place of a record.

    Attributes:
        distortion: E d(X,Y) of the channel.
        costs: d.
        invariant: Whether p(y) = p(x) was asked for.
        limit: The asked distortion D, or None.
        multiplier: λ, the leakage that one more unit of distortion saves.
        least_distortion: For a leakage budget: no channel within it has less distortion, in the unit of the costs.
    """

    schema: ClassVar[str] = "privfunnel/distortion-solution"
    schema_version: ClassVar[int] = 1
    oldest_version: ClassVar[int | None] = None

    distortion: float
    costs: Costs
    invariant: bool = False
    limit: float | None = None
    multiplier: float = 0.0
    least_distortion: float | None = None

    def __repr__(self) -> str:
        """One line with the numbers."""
        return (
            f"DistortionSolution({self.status.value}: distortion {self.distortion:.6g}, leakage {self.leakage:.6g} ≥ "
            f"{self.lower_bound:.6g} nats by {self.bound_source}, {self.costs.words})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        problem = self.problem
        kept = cards.share(self.disclosure, problem.disclosure_ceiling)
        facts = [
            ("distortion E d(X,Y)", f"{self.distortion:.6g} ({self.costs.words})"),
            ("leakage I(S;Y)", f"{self.leakage:.6g} nats{cards.share(self.leakage, problem.leakage_ceiling)}"),
            ("proved lower bound", f"{self.lower_bound:.6g} nats, {self.bound_source}"),
            ("disclosure I(X;Y)", f"{self.disclosure:.6g} nats{kept}"),
            ("status", f"{self.status.value}: {self.advice}"),
        ]  # fmt: skip
        return cards.card("Distortion funnel", facts)

    @property
    def outputs(self) -> NDArray[np.intp] | None:
        """The public symbol that each output is, shape (N,); None where the costs are those of other outputs."""
        n_x, n_y = self.costs.matrix.shape
        return np.arange(n_y) if n_x == n_y else None

    @property
    def kkt_residual(self) -> float:
        """The gap, which for a convex problem says how far from stationary a channel may be, in nats."""
        return self.gap

    def summary(self) -> dict[str, Any]:
        """The numbers without channel and problem, JSON-ready, in nats and in the unit of the costs."""
        return super().summary() | {
            "distortion": self.distortion,
            "limit": self.limit,
            "multiplier": self.multiplier,
            "invariant": self.invariant,
            "least_distortion": self.least_distortion,
        }

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; certificates live in files of their own."""
        return {
            **self.heading(),
            "units": "nats",
            **self.summary(),
            **self.stored_channel(),
            "costs": self.costs.to_dict(),
            "problem": self.problem.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Any, problem: Problem | None = None, costs: Costs | None = None) -> Self:
        """Read back what :meth:`to_dict` wrote; what the channel has is recomputed, not believed."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"]) if problem is None else problem
            costs = Costs.from_dict(data["costs"], problem.n_x) if costs is None else costs
            fields = fields_from(data, problem)
            found = costs.of(problem.p_x, fields["mapping"])
            if not abs(found - float(data["distortion"])) <= FEASIBILITY * costs.scale:
                raise InvalidInputError(
                    f"the file claims distortion {data['distortion']!r}, its channel gives {found!r}: the file was "
                    "changed"
                )
            names = ("limit", "multiplier", "invariant", "least_distortion")
            own = {name: data[name] for name in names}
            return cls(problem=problem, costs=costs, distortion=found, **fields, **own)


@dataclass(frozen=True, kw_only=True, eq=False)
class DistortionCurve(Stored):
    """The least leakage for distortions from the least possible one on: convex and falling; nats.

    Attributes:
        problem: The problem.
        costs: d.
        solutions: Points by increasing distortion.
        invariant: Whether p(y) = p(x) was asked for.
    """

    schema: ClassVar[str] = "privfunnel/distortion-curve"

    problem: Problem
    costs: Costs
    solutions: tuple[DistortionSolution, ...]
    invariant: bool = False

    def __repr__(self) -> str:
        """One line with the number of points."""
        return f"DistortionCurve({len(self.solutions)} points of {self.problem!r}, {self.costs.words})"

    @cached_property
    def distortion(self) -> Array:
        """E d(X,Y) of each point, shape (points,), in the unit of the costs."""
        return np.array([solution.distortion for solution in self.solutions])

    @cached_property
    def leakage(self) -> Array:
        """I(S;Y) of each point, shape (points,), in nats."""
        return np.array([solution.leakage for solution in self.solutions])

    @cached_property
    def lower_bound(self) -> Array:
        """What is proved at each point, shape (points,), in nats."""
        return np.array([solution.lower_bound for solution in self.solutions])

    @property
    def gap(self) -> Array:
        """Leakage above the proved bound, shape (points,), in nats."""
        return np.maximum(self.leakage - self.lower_bound, 0.0)

    @property
    def status(self) -> tuple[Status, ...]:
        """Status of each point."""
        return tuple(solution.status for solution in self.solutions)

    @property
    def certificates(self) -> tuple[DistortionCertificate, ...]:
        """The lines that prove the bounds."""
        found = (solution.certificate for solution in self.solutions)
        return tuple(line for line in found if isinstance(line, DistortionCertificate))

    def proved(self, distortion: float) -> float:
        """The best lower bound at a distortion that any line proves, in nats."""
        return max([0.0, *(line.lower_bound(distortion) for line in self.certificates)])

    def rows(self) -> list[dict[str, Any]]:
        """One mapping a point: the numbers in nats and as shares."""
        ceiling = self.problem.leakage_ceiling
        return [
            {
                "distortion": s.distortion,
                "leakage": s.leakage,
                "leakage_share": s.leakage / ceiling if ceiling > 0.0 else 0.0,
                "lower_bound": s.lower_bound,
                "gap": s.gap,
                "disclosure": s.disclosure,
                "multiplier": s.multiplier,
                "status": s.status.value,
            }
            for s in self.solutions
        ]

    def plot(self, *, units: str = "nats") -> Figure:
        """Draw the curve and the proved bound between its points (needs matplotlib); units are nats or bits."""
        unit = 1.0 / nats_per(units)
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(5.2, 3.6), layout="constrained"
        )
        ax = figure.add_subplot()
        ax.plot(
            self.distortion,
            self.leakage * unit,
            color="#0072B2",
            lw=1.4,
            marker="o",
            ms=3.0,
            label="achieved",
        )
        if len(self.solutions) > 1:
            grid = np.linspace(self.distortion[0], self.distortion[-1], 201)
            proved = [self.proved(float(d)) * unit for d in grid]
            ax.plot(grid, proved, color="#666666", lw=0.8, ls="--", label="proved lower bound")
        ax.set_xlabel(f"distortion $E\\,d(X,Y)$ ({self.costs.words})")
        ax.set_ylabel(f"leakage $I(S;Y)$ [{units}]")
        ax.legend(loc="upper right", fontsize=8, frameon=False)
        return figure

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form with every channel, in nats."""
        return {
            **self.heading(),
            "units": "nats",
            "invariant": self.invariant,
            "costs": self.costs.to_dict(),
            "problem": self.problem.to_dict(),
            "points": [
                {**DistortionSolution.heading(), **s.summary(), **s.stored_channel()} for s in self.solutions
            ],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            costs = Costs.from_dict(data["costs"], problem.n_x)
            points = tuple(DistortionSolution.from_dict(p, problem, costs) for p in data["points"])
            if not all(math.isfinite(point.distortion) for point in points):
                raise InvalidInputError(
                    "a channel of the curve makes a forbidden change: the file was changed"
                )
            return cls(problem=problem, costs=costs, solutions=points, invariant=bool(data["invariant"]))
