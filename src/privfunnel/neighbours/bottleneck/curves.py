"""A traced bottleneck, and the points that its methods find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import Document, Stored
from privfunnel.measures import Array, nats_per
from privfunnel.model import channels
from privfunnel.model.asked_amounts import check_disclosure
from privfunnel.model.envelope import Envelope
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import Quantity, Question
from privfunnel.model.threat import Threat
from privfunnel.solving.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the curve and its points are said to come from.
SOLVER = "bottleneck"


@dataclass(frozen=True, eq=False)
class Found:
    """A channel that a run ended with, its point, and how the run ended."""

    channel: Array
    point: Point
    status: Status


@dataclass(frozen=True, kw_only=True, eq=False)
class BottleneckCurve(Stored):
    """A traced bottleneck: concave, nondecreasing, each point with a channel that achieves it; nats.

    No :class:`~privfunnel.solving.curve.Curve`: the best point here is the highest, and what bounds it is
    :attr:`upper_bound`. The names are a funnel's, so that the two can be drawn on one plane.

    Attributes:
        problem: The problem.
        solutions: Points of the upper concave envelope, by increasing rate.
        raw: Every point found, as the iteration found it.
        seed: Seed of the run.
        certificates: Proved lines above the curve, where they were asked for; they live in files of their own.
    """

    schema: ClassVar[str] = "privfunnel/bottleneck-curve"
    solver: ClassVar[str] = SOLVER

    problem: Problem
    solutions: tuple[Solution, ...]
    raw: tuple[Point, ...]
    seed: int
    certificates: tuple[Certificate, ...] = ()

    def __repr__(self) -> str:
        """One line with the number of points."""
        return f"BottleneckCurve({len(self.solutions)} points of {self.problem!r})"

    @cached_property
    def disclosure(self) -> Array:
        """The rate I(X;Y) of each point, shape (points,)."""
        return np.array([solution.disclosure for solution in self.solutions])

    @cached_property
    def leakage(self) -> Array:
        """The relevance I(S;Y) of each point, shape (points,)."""
        return np.array([solution.leakage for solution in self.solutions])

    @cached_property
    def slope(self) -> Array:
        """1/β at each point, shape (points,)."""
        return np.array([solution.slope for solution in self.solutions], dtype=np.float64)

    @property
    def status(self) -> tuple[Status, ...]:
        """Status of each point."""
        return tuple(solution.status for solution in self.solutions)

    @property
    def upper_bound(self) -> Array:
        """No channel of that rate tells more: ``min(R, I(S;X))`` and the certificates, shape (points,), in nats."""
        return self.proved(self.disclosure)

    @property
    def gap(self) -> Array:
        """What each point is below its :attr:`upper_bound`, never negative, shape (points,), in nats."""
        return np.maximum(self.upper_bound - self.leakage, 0.0)

    def proved(self, rate: ArrayLike) -> Array:
        """What is proved of any rate in nats, any shape: the least of ``min(R, I(S;X))`` and the certified lines."""
        at = np.asarray(rate, dtype=np.float64)
        lines = [line.intercept + line.slope * at for line in self.certificates]
        return np.asarray(np.min([np.minimum(at, self.problem.leakage_ceiling), *lines], axis=0))

    @cached_property
    def envelope(self) -> Envelope:
        """The curve as an :class:`~privfunnel.model.envelope.Envelope` of the points (I(X;Y), −I(S;Y)) and the ends."""
        return envelope_of(self._found)

    @cached_property
    def _found(self) -> list[Found]:
        points = [Found(s.channel, Point(s.disclosure, s.leakage), s.status) for s in self.solutions]
        return [*ends(self.problem), *points]

    def at(self, disclosure: float) -> Solution:
        """The curve at any rate in nats: a channel that time-shares its two neighbours."""
        rate = check_disclosure(self.problem, disclosure)
        return answer(
            self.problem, self._found, self.envelope, rate, self.seed, solver=self.solutions[0].solver
        )

    def plot(self, *, units: str = "nats", **options: Any) -> Figure:
        """Draw the curve below what bounds it (needs matplotlib); ``units`` is ``"nats"`` or ``"bits"``."""
        if options:
            raise InvalidInputError(
                f"a bottleneck plot has no option {next(iter(options))!r}: it has units alone"
            )
        unit = 1.0 / nats_per(units)
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(5.2, 3.6), layout="constrained"
        )
        ax = figure.add_subplot()
        marks = np.array([0.0, self.problem.leakage_ceiling, self.problem.disclosure_ceiling]) * unit
        ax.plot(marks, np.minimum(marks, marks[1]), color="#666666", lw=0.8, ls="--", label="min(R, I(S;X))")
        if self.certificates:
            grid = np.linspace(0.0, self.problem.disclosure_ceiling, 400)
            ax.plot(
                grid * unit, self.proved(grid) * unit, color="#D55E00", lw=0.8, label="proved upper bound"
            )
        ax.plot(self.disclosure * unit, self.leakage * unit, color="#0072B2", lw=1.4, marker="o", ms=3.0,
                label="achieved (bottleneck)")  # fmt: skip
        ax.set_xlabel(f"rate $I(X;Y)$ [{units}]")
        ax.set_ylabel(f"relevance $I(S;Y)$ [{units}]")
        ax.legend(loc="lower right", fontsize=8, frameon=False)
        return figure

    def to_dict(self) -> Document:
        """A JSON-ready form with every channel, in nats."""
        return {
            **self.heading(),
            "units": "nats",
            "solver": self.solver,
            "seed": self.seed,
            "problem": self.problem.to_dict(),
            "points": [{**s.summary(), **s.stored_channel()} for s in self.solutions],
            "raw": [list(point) for point in self.raw],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            return cls(
                problem=problem,
                solutions=tuple(
                    Solution.of_stored(p, _asked(problem, p["requested"])) for p in data["points"]
                ),
                raw=tuple(Point(*map(float, point)) for point in data["raw"]),
                seed=data["seed"],
            )


def ends(problem: Problem) -> list[Found]:
    """What needs no iteration: nothing, and X itself."""
    pair = (channels.constant(problem.n_x), channels.identity(problem.n_x))
    return [Found(channel, problem.evaluate(channel), Status.CONVERGED) for channel in pair]


def envelope_of(found: Sequence[Found]) -> Envelope:
    """The upper concave envelope, as the lower one of (I(X;Y), −I(S;Y))."""
    points = [(each.point.disclosure, -each.point.leakage) for each in found]
    return Envelope.of(points, [each.channel for each in found])


def answer(
    problem: Problem,
    found: Sequence[Found],
    envelope: Envelope,
    rate: float,
    seed: int,
    seconds: float = 0.0,
    solver: str = SOLVER,
) -> Solution:
    """The envelope of what was found, at ``rate``, as a channel."""
    both = {found[envelope.index[i]].status for i in envelope.neighbours(rate)[:2]}
    status = Status.MAX_STEPS if Status.MAX_STEPS in both else Status.CONVERGED
    made = Answer(channel=envelope.channel(rate), status=status, slope=-envelope.slope(rate), seconds=seconds)
    return solution_of(problem, made, rate, seed, solver)


def solution_of(
    problem: Problem, answer: Answer, rate: float | None, seed: int, solver: str = SOLVER
) -> Solution:
    """A solution whose every number is computed from the channel of an answer."""
    channel = answer.channel
    point = problem.evaluate(channel)
    question = _asked(problem, point.disclosure if rate is None else rate)
    lower = float(problem.lower_bound(point.disclosure))
    return Solution(
        question=question,
        mapping=channel,
        values=question.values(channel),
        lower_bound=lower,
        bound_source="closed form",
        bound=lower,
        slope=answer.slope,
        status=answer.status,
        solver=solver,
        seed=seed,
        seconds=answer.seconds,
    )


def _asked(problem: Problem, rate: float) -> Question:
    """The question of a point: its rate stands where a funnel's disclosure does."""
    return Question(problem=problem, goal=Quantity.LEAKAGE, guards=Threat.of(problem), disclosure=rate)
