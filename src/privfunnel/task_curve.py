"""The curve of a task: least leakage at every utility, each point with a channel that has it and a proved bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import channels
from privfunnel.amounts import check_utility
from privfunnel.certificate import GuardedCertificate, TaskCertificate
from privfunnel.curve import Curve, worst_attacker
from privfunnel.envelope import Envelope
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Point, Problem
from privfunnel.solution import FAILURES, FEASIBILITY, ROUNDING, USELESS, Solution, Status
from privfunnel.solvers.base import Listener
from privfunnel.solvers.guarded import Guarded
from privfunnel.solvers.guarded.tasks import Asked
from privfunnel.solvers.task import TaskAnswer, TaskFunnel
from privfunnel.task_guarding import GuardedTaskAnswer, judge_guarded_task, whole_task
from privfunnel.task_solution import TaskSolution, task_fields
from privfunnel.tasking import end_of_task_curve, failed_task, judge_task
from privfunnel.threats import Threat

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskCurve(Curve):
    """A traced task funnel: convex and nondecreasing in utility; nats.

    What is inherited speaks of utility in place of disclosure, but for :attr:`disclosure` itself: with guarantees
    :attr:`limit` is the release that keeps most.
    """

    schema: ClassVar[str] = "privfunnel/task-curve"
    #: Version 2 has a threat; a curve against who knows nothing is still written as version 1.
    schema_version: ClassVar[int] = 2
    oldest_version: ClassVar[int | None] = 1
    along: ClassVar[tuple[str, str]] = ("utility", "I(U;X)")

    @cached_property
    def utility(self) -> Array:
        """I(U;Y) of each point, shape (points,)."""
        return self._column("utility")

    @property
    def most(self) -> float:
        """The utility at which the curve ends, in nats: I(U;X), or the most found that the guarantees allow."""
        held = (s.utility for s in (*self._points, self.limit) if isinstance(s, TaskSolution))
        return self.problem.utility_ceiling if self.limit is None else max(held)

    @cached_property
    def _task_lines(self) -> tuple[TaskCertificate | GuardedCertificate, ...]:
        return tuple(
            line for line in self.certificates if isinstance(line, TaskCertificate | GuardedCertificate)
        )

    def proved(self, disclosure: ArrayLike) -> Array:
        """The best lower bound on the leakage that is proved, at utilities of any shape; nats."""
        at = np.asarray(disclosure, dtype=np.float64)
        bound = np.zeros_like(at)
        for line in self._task_lines:
            bound = np.maximum(bound, line_at(line, at))
        return np.asarray(np.minimum(bound, self._mixed(self._shared.value(at))))

    @cached_property
    def _shared(self) -> Envelope:
        """The lower convex envelope of (utility, leakage), with nothing and with all that the task can use.

        Of maximal leakage its exponential, in which mixing is linear.
        """
        threat = Threat.of(self.problem) if self.threat is None else self.threat
        whole = whole_task(self.problem, threat)
        ends = [threat.nothing(self.problem), *([] if whole is None else [whole])]
        held = [*self._points, *([self.limit] if isinstance(self.limit, TaskSolution) else [])]
        points = [(s.utility, s.leakage) for s in held]
        for channel in ends:
            point = self.problem.evaluate(channel)
            told = None if self.threat is None else max(threat.leakages(self.problem, channel).values())
            points.append((float(point.utility or 0.0), point.leakage if told is None else told))
        useful, leaked = np.array(points).T
        mixing = np.column_stack([useful, self._mixing(leaked)])
        return Envelope.of(mixing, [*(s.channel for s in held), *ends])

    def _mixing(self, leakages: Array) -> Array:
        """What time sharing mixes linearly, of leakages of any shape: their averages, see :class:`.ends.Ends`."""
        return leakages if self.threat is None else self.ends.averages(leakages)

    def _mixed(self, averages: Array) -> Array:
        """The leakages that belong to averages of any shape."""
        return averages if self.threat is None else self.ends.leakages(averages)

    @property
    def _points(self) -> tuple[TaskSolution, ...]:
        return tuple(s for s in self.solutions if isinstance(s, TaskSolution))

    def with_ends(self) -> tuple[Array, Array]:
        """Utilities and leakages of the envelope, by utility; nats."""
        return self._shared.disclosure, self._mixed(self._shared.leakage)

    def at(self, disclosure: float | str) -> Solution:
        """The curve at any utility in nats: a channel that time-shares its two neighbours."""
        wanted = check_utility(self.problem, disclosure)
        if self.threat is not None:
            return self._guarded_task_at(wanted, self.threat)
        plain = (line for line in self._task_lines if isinstance(line, TaskCertificate))
        best = max(plain, key=lambda line: line.lower_bound(wanted), default=None)
        answer = TaskAnswer(
            channel=self._shared.channel(wanted),
            status=Status.FEASIBLE,
            slope=self._shared.slope(wanted),
            certificate=best,
        )
        return judge_task(self.problem, answer, self.target_gap, (wanted, None), self.seed)

    def _guarded_task_at(self, wanted: float, threat: Threat) -> Solution:
        """The curve of guarded releases at a utility in nats."""
        if wanted > self.most + FEASIBILITY:
            raise InfeasibleError(
                f"utility={wanted:.9g} nats is infeasible: the guarantees allow {self.most:.9g} nats; lower it"
            )
        lines = (line for line in self._task_lines if isinstance(line, GuardedCertificate))
        plain = (line for line in self._task_lines if isinstance(line, TaskCertificate))
        floor = max(plain, key=lambda line: line.lower_bound(wanted), default=None)
        answer = GuardedTaskAnswer(
            channel=self._shared.channel(wanted),
            status=Status.FEASIBLE,
            slope=self._shared.slope(wanted),
            certificate=max(lines, key=lambda line: line.lower_bound(0.0, wanted), default=None),
        )
        return judge_guarded_task(
            self.problem, threat, answer, self.target_gap, Asked(utility=wanted), self.seed, floor
        )

    def within(self, leakage: float) -> Solution:
        """The most utility that the curve achieves within a leakage budget in nats."""
        if not leakage >= 0.0:
            raise InvalidInputError(f"leakage={leakage!r} is not a budget: give nats, 0 or more")
        x, y = self.with_ends()
        if y[-1] <= leakage:
            return self.at(min(float(x[-1]), self.most))
        right = int(np.flatnonzero(y > leakage)[0])
        low, spent, high = self._mixing(np.array([y[right - 1], leakage, y[right]]))
        share = float((spent - low) / (high - low))
        return self.at(float(x[right - 1] + share * (x[right] - x[right - 1])))

    def plot(self, **options: Any) -> Figure:
        """Draw the curve with its bounds: see :func:`privfunnel.plot.task_curve`."""
        from privfunnel import plot  # plots are an extra, and a room above this one

        return plot.task_curve(self, **options)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a point: what the CSV file and the frame hold, in nats."""
        whole, i_sx = self.problem.utility_ceiling, self.leakage_ceiling
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
                **({} if self.threat is None else {"worst_attacker": worst_attacker(s)}),
            }
            for s in self._points
        ]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form with every channel; certificates live in files of their own."""
        return {
            **self.stored_run(),
            "utility_ceiling": self.problem.utility_ceiling,
            "leakage_ceiling": self.leakage_ceiling,
            "problem": self.problem.to_dict(),
            "points": [{**s.summary(), **s.stored_channel()} for s in self.solutions],
            **self.stored_limit(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            shared = {"threat": data["threat"]} if "threat" in data else {}
            limit = {"limit": data["limit"]} if "limit" in data else {}
            points, ends = (
                [TaskSolution(problem=problem, **task_fields({**p, **shared}, problem)) for p in held]
                for held in (data["points"], limit.values())
            )
            return cls(
                problem=problem,
                solutions=tuple(points),
                threat=Threat.from_dict(shared["threat"]) if shared else None,
                limit=ends[0] if ends else None,
                raw=(),
                solver=data["solver"],
                seed=data["seed"],
                complete=data["complete"],
                target_gap=data["target_gap"],
            )


def line_at(line: TaskCertificate | GuardedCertificate, utility: Array) -> Array:
    """What a certificate proves of the leakage at utilities of any shape, in nats; 0 where it says nothing."""
    if isinstance(line, TaskCertificate):
        return np.asarray(0.0 if line.zero else line.intercept + line.slope * utility)
    bound = np.vectorize(lambda u: line.lower_bound(0.0, u), otypes=[np.float64])(utility)
    return np.asarray(np.maximum(bound, 0.0))


@dataclass(frozen=True, kw_only=True)
class PartialTaskCurve:
    """What the tracing of a task's curve has found so far.

    Attributes:
        problem: The problem.
        solver: The solver.
        seed: Seed of the run.
        points: The points, judged, by utility.
        complete: True for the last item of a run that was not interrupted.
        threat: Attackers, published columns and guarantees; None for an attacker who knows nothing.
        limit: The release that keeps most, where guarantees end the curve.
        throw: Whether what is wrong with an answer raises, or is a status.
        also: Utilities in nats at which the curve has a point besides those that are asked of it.
    """

    problem: Problem
    solver: TaskFunnel | Guarded
    seed: int
    points: tuple[Solution, ...] = field(default=())
    complete: bool = False
    threat: Threat | None = None
    limit: Solution | None = None
    throw: bool = True
    also: tuple[float, ...] = ()

    def curve(self) -> TaskCurve:
        """The curve of the points found."""
        raw = tuple(Point(s.disclosure, s.leakage) for s in self.points)
        return TaskCurve(
            problem=self.problem, solutions=self.points, raw=raw, solver=self.solver.name, seed=self.seed,
            complete=self.complete, target_gap=self.solver.gap, threat=self.threat, limit=self.limit,
        )  # fmt: skip


def wanted_utilities(problem: Problem, given: Iterable[float | str]) -> list[float]:
    """The utilities that are asked for, in nats, by size.

    Raises:
        InvalidInputError: An empty list is given.
    """
    wanted = sorted({check_utility(problem, value) for value in given})
    if not wanted:
        raise InvalidInputError("utilities is empty: give at least one value in nats")
    return wanted


def spread(
    wanted: int | Sequence[float], least: float, most: float, also: Iterable[float] = ()
) -> list[float]:
    """The utilities of a curve, in nats: those given, or so many between the least and the most, and ``also``."""
    even = np.linspace(least, most, wanted) if isinstance(wanted, int) else np.asarray(wanted)
    further = (value for value in also if np.abs(even - value).min() > FEASIBILITY)
    return sorted([*even.tolist(), *further])


def convex(found: PartialTaskCurve) -> Iterator[Solution]:
    """The points, each as its neighbours time-shared where it is not proved optimal and these leak less."""
    curve = found.curve()
    for own in found.points:
        wanted = own.requested_utility if isinstance(own, TaskSolution) else None
        if wanted is None or own.status is Status.OPTIMAL or own.status in USELESS:
            yield own
            continue
        shared = curve.at(wanted)
        status = shared.status if shared.status is Status.OPTIMAL else own.status
        yield replace(shared, status=status) if shared.leakage < own.leakage - ROUNDING else own


def tracing_task(
    start: PartialTaskCurve, utilities: int | Sequence[float], progress: Listener | None
) -> Iterator[PartialTaskCurve]:
    """Trace the curve of a task and say what has been found after each point.

    Args:
        start: Problem, solver and seed.
        utilities: The utilities in nats, ascending, or how many points there are to be from 0 to I(U;X).
        progress: Called with news.
    """
    problem, solver, seed = start.problem, start.solver, start.seed
    assert isinstance(solver, TaskFunnel)
    wanted = spread(utilities, 0.0, problem.utility_ceiling, start.also)
    inner = [value for value in wanted if end_of_task_curve(problem, value, None) is None]
    answers = solver.trace(problem, inner, progress=progress) if inner else iter(())
    found = start
    for utility in wanted:
        answer = end_of_task_curve(problem, utility, None)
        try:
            answer = next(answers) if answer is None else answer
            point: Solution = judge_task(problem, answer, solver.gap, (utility, None), seed)
        except FAILURES as error:
            if start.throw:
                raise
            channel = channels.constant(problem.n_x) if answer is None else answer.channel
            point = failed_task(problem, channel, error, (utility, None), seed)
        found = replace(found, points=(*found.points, point))
        yield found
    # A point that was cut short may lie above those after it.
    yield replace(found, points=tuple(convex(found)), complete=True)
