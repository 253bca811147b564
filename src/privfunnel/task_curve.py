"""The curve of a task: least leakage at every utility, each point with a channel that has it and a proved bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import channels
from privfunnel.amounts import check_utility
from privfunnel.certificate import TaskCertificate
from privfunnel.curve import Curve
from privfunnel.envelope import Envelope
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Point, Problem
from privfunnel.solution import FAILURES, Solution, Status
from privfunnel.solvers.base import Listener
from privfunnel.solvers.task import TaskAnswer, TaskFunnel
from privfunnel.task_solution import TaskSolution, task_fields
from privfunnel.tasking import end_of_task_curve, failed_task, judge_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskCurve(Curve):
    """A traced task funnel: convex and nondecreasing in utility; nats.

    What is inherited speaks of utility in place of disclosure, but for :attr:`disclosure` itself.
    """

    schema: ClassVar[str] = "privfunnel/task-curve"
    schema_version: ClassVar[int] = 1
    oldest_version: ClassVar[int | None] = None
    along: ClassVar[tuple[str, str]] = ("utility", "I(U;X)")

    @cached_property
    def utility(self) -> Array:
        """I(U;Y) of each point, shape (points,)."""
        return self._column("utility")

    @property
    def most(self) -> float:
        """The utility at which the curve ends, I(U;X), in nats."""
        return self.problem.utility_ceiling

    @cached_property
    def _task_lines(self) -> tuple[TaskCertificate, ...]:
        return tuple(line for line in self.certificates if isinstance(line, TaskCertificate))

    def proved(self, disclosure: ArrayLike) -> Array:
        """The best lower bound on the leakage that is proved, at utilities of any shape; nats."""
        at = np.asarray(disclosure, dtype=np.float64)
        bound = np.zeros_like(at)
        for line in self._task_lines:
            bound = np.maximum(bound, 0.0 if line.zero else line.intercept + line.slope * at)
        return np.asarray(np.minimum(bound, self._shared.value(at)))

    @cached_property
    def _shared(self) -> Envelope:
        """The lower convex envelope of (utility, leakage), with nothing and with all that the task can use."""
        ends = [channels.constant(self.problem.n_x), _whole(self.problem)]
        points = [(s.utility, s.leakage) for s in self._points]
        for channel in ends:
            point = self.problem.evaluate(channel)
            points.append((float(point.utility or 0.0), point.leakage))
        return Envelope.of(points, [*(s.channel for s in self._points), *ends])

    @property
    def _points(self) -> tuple[TaskSolution, ...]:
        return tuple(s for s in self.solutions if isinstance(s, TaskSolution))

    def with_ends(self) -> tuple[Array, Array]:
        """Utilities and leakages of the envelope, by utility; nats."""
        return self._shared.disclosure, self._shared.leakage

    def at(self, disclosure: float | str) -> Solution:
        """The curve at any utility in nats: a channel that time-shares its two neighbours."""
        wanted = check_utility(self.problem, disclosure)
        best = max(self._task_lines, key=lambda line: line.lower_bound(wanted), default=None)
        answer = TaskAnswer(
            channel=self._shared.channel(wanted),
            status=Status.FEASIBLE,
            slope=self._shared.slope(wanted),
            certificate=best,
        )
        return judge_task(self.problem, answer, self.target_gap, (wanted, None), self.seed)

    def within(self, leakage: float) -> Solution:
        """The most utility that the curve achieves within a leakage budget in nats."""
        if not leakage >= 0.0:
            raise InvalidInputError(f"leakage={leakage!r} is not a budget: give nats, 0 or more")
        x, y = self.with_ends()
        if y[-1] <= leakage:
            return self.at(float(x[-1]))
        right = int(np.flatnonzero(y > leakage)[0])
        share = (leakage - y[right - 1]) / (y[right] - y[right - 1])
        return self.at(float(x[right - 1] + share * (x[right] - x[right - 1])))

    def plot(self, **options: Any) -> Figure:
        """Draw the curve with its bounds: see :func:`privfunnel.plot.task_curve`."""
        from privfunnel import plot  # plots are an extra, and a room above this one

        return plot.task_curve(self, **options)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a point: what the CSV file and the frame hold, in nats."""
        whole, i_sx = self.problem.utility_ceiling, self.problem.leakage_ceiling
        return [
            {
                "utility": s.utility,
                "utility_share": s.utility / whole,
                "leakage": s.leakage,
                "leakage_share": s.leakage / i_sx if i_sx > 0.0 else 0.0,
                "lower_bound": s.lower_bound,
                "gap": s.gap,
                "bound_source": s.bound_source,
                "disclosure": s.disclosure,
                "slope": s.slope,
                "status": s.status.value,
                "outputs": s.n_outputs,
            }
            for s in self._points
        ]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form with every channel; certificates live in files of their own."""
        return {
            **self.heading(),
            "units": "nats",
            "solver": self.solver,
            "seed": self.seed,
            "complete": self.complete,
            "target_gap": self.target_gap,
            "utility_ceiling": self.problem.utility_ceiling,
            "leakage_ceiling": self.problem.leakage_ceiling,
            "problem": self.problem.to_dict(),
            "points": [{**s.summary(), **s.stored_channel()} for s in self.solutions],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            points = [TaskSolution(problem=problem, **task_fields(p, problem)) for p in data["points"]]
            return cls(
                problem=problem,
                solutions=tuple(points),
                raw=(),
                solver=data["solver"],
                seed=data["seed"],
                complete=data["complete"],
                target_gap=data["target_gap"],
            )


def _whole(problem: Problem) -> Any:
    """The channel that keeps all of I(U;X)."""
    answer = end_of_task_curve(problem, problem.utility_ceiling, None)
    assert answer is not None
    return answer.channel


@dataclass(frozen=True, kw_only=True)
class PartialTaskCurve:
    """What the tracing of a task's curve has found so far.

    Attributes:
        problem: The problem.
        solver: The solver.
        seed: Seed of the run.
        points: The points, judged, by utility.
        complete: True for the last item of a run that was not interrupted.
    """

    problem: Problem
    solver: TaskFunnel
    seed: int
    points: tuple[Solution, ...] = field(default=())
    complete: bool = False

    def curve(self) -> TaskCurve:
        """The curve of the points found."""
        raw = tuple(Point(s.disclosure, s.leakage) for s in self.points)
        return TaskCurve(
            problem=self.problem, solutions=self.points, raw=raw, solver=TaskFunnel.name, seed=self.seed,
            complete=self.complete, target_gap=self.solver.gap,
        )  # fmt: skip


def tracing_task(
    start: PartialTaskCurve,
    *,
    points: int,
    utilities: Iterable[float | str] | None,
    throw: bool = True,
    progress: Listener | None = None,
) -> Iterator[PartialTaskCurve]:
    """Trace the curve of a task and say what has been found after each point.

    Args:
        start: Problem, solver and seed.
        points: Number of points, spaced uniformly from 0 to I(U;X).
        utilities: The utilities in nats, or texts such as ``"90%"``, instead of ``points``.
        throw: If False, what goes wrong is a status.
        progress: Called with news.
    """
    problem, solver, seed = start.problem, start.solver, start.seed
    if utilities is None:
        wanted = [float(x) for x in np.linspace(0.0, problem.utility_ceiling, points)]
    else:
        wanted = sorted({check_utility(problem, value) for value in utilities})
        if not wanted:
            raise InvalidInputError("utilities is empty: give at least one value in nats")
    inner = [value for value in wanted if end_of_task_curve(problem, value, None) is None]
    answers = solver.trace(problem, inner, progress=progress) if inner else iter(())
    found = start
    for utility in wanted:
        answer = end_of_task_curve(problem, utility, None)
        try:
            answer = next(answers) if answer is None else answer
            point: Solution = judge_task(problem, answer, solver.gap, (utility, None), seed)
        except FAILURES as error:
            if throw:
                raise
            channel = channels.constant(problem.n_x) if answer is None else answer.channel
            point = failed_task(problem, channel, error, (utility, None), seed)
        found = replace(found, points=(*found.points, point))
        yield found
    yield replace(found, complete=True)
