"""Run every solver on the same disclosures with the same time, each in a process of its own."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.deadline import Deadline, cpu_clock
from privfunnel.certificate import verify_all
from privfunnel.certificate.answer import UNFINISHED, Answer, Status
from privfunnel.errors import InvalidInputError, PrivFunnelError, need
from privfunnel.infra.checks import check_seed, is_number, is_whole
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Array
from privfunnel.model.asked_amounts import check_disclosure
from privfunnel.model.equal_symbols import Lumping, chosen_lumping
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY
from privfunnel.model.stationarity import kkt_residual
from privfunnel.solving.curve import Curve
from privfunnel.solving.ends import end_of_curve
from privfunnel.solving.tracing import assembled
from privfunnel.studies.comparison.entrants import REFERENCE, lineup
from privfunnel.studies.comparison.neighbours import Neighbour
from privfunnel.studies.comparison.result import Comparison, Entry

_FINISHED = (Status.OPTIMAL, Status.CONVERGED)


def compare(
    problem: Problem,
    *,
    solvers: Iterable[str | Solver] | Mapping[str, str | Solver] | None = None,
    points: int = 11,
    disclosures: Iterable[float] | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
    jobs: int = -1,
    reference: Curve | None = None,
    progress: Listener | None = None,
) -> Comparison:
    """Run solvers side by side.

    Every solver gets one process, one thread and ``time_limit`` seconds for the whole grid: CPU seconds, so that a
    busy machine puts nobody at a disadvantage.
    The limit is honoured cooperatively: a solver that looks at a clock is given its share of what is left (a sweep all
    of it), and no further disclosure is begun when the time is up. Compiled kernels are loaded before the clock starts.
    Tables with more than 64 public symbols are solved as classes of symbols with the same p(s|x), as ``solve`` does,
    which is exact; the numbers are those of the symbols. Methods for other problems get the symbols themselves.

    Args:
        problem: The problem.
        solvers: Labels of the line-up, solver names or objects, or a mapping from labels to them; all by default.
        points: Number of disclosures, uniform from 0 to H(X); the two ends need no solver and are left out.
        disclosures: The disclosures in nats, instead of ``points``.
        time_limit: Seconds for each solver.
        reference: A traced curve of the same problem whose certificates prove a bound as well, for instance one that
            took more time than the limit allows.
        seed: Fixes all randomness; what a time limit cuts off depends on the machine.
        jobs: Processes; −1 for as many as there are cores or cluster slots.
        progress: Told when a solver has finished.

    Returns:
        The comparison. The proved bound comes from the ``auto`` solver, which always takes part.
    """
    check_seed(seed)
    if not is_number(time_limit) or not time_limit > 0.0:
        raise InvalidInputError(f"time_limit={time_limit!r} is not usable: give seconds above 0")
    _check_reference(problem, reference)
    grid = _grid(problem, points, disclosures)
    entrants = lineup(solvers)
    if not any(solver.proves for solver in entrants.values()):
        entrants = {REFERENCE: registry.get(REFERENCE), **entrants}
    joblib = need("joblib", extra="compare")
    tasks = [
        joblib.delayed(_work)(label, solver, problem, grid, float(time_limit), seed)
        for label, solver in entrants.items()
    ]
    done: list[tuple[Entry, Curve | None]] = []
    for finished in joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks):
        done.append(finished)
        if progress is not None:
            progress(Progress(done=len(done), total=len(tasks), message=f"{finished[0].label} finished"))
    order = {label: i for i, label in enumerate(entrants)}
    done.sort(key=lambda pair: order[pair[0].label])
    proofs = [curve for _, curve in done if curve is not None]
    if reference is not None:
        proofs.append(verified_part(reference))
    # Disclosures at which the proved bound is kept for the figure's band.
    band = np.linspace(0.0, problem.disclosure_ceiling, 201)
    return Comparison(
        problem=problem,
        disclosure=np.array(grid),
        lower_bound=_proved(problem, proofs, np.array(grid)),
        band_disclosure=band,
        band_lower_bound=_proved(problem, proofs, band),
        entries=tuple(entry for entry, _ in done),
        time_limit=float(time_limit),
        seed=seed,
    )


def _check_reference(problem: Problem, reference: object) -> None:
    if reference is None:
        return
    if not isinstance(reference, Curve):
        raise InvalidInputError(f"reference={reference!r} is not a curve: give one that trace made")
    if reference.problem != problem:
        raise InvalidInputError("the reference curve belongs to another problem: trace one of this problem")


def verified_part(reference: Curve) -> Curve:
    """The points of a reference whose bound can be checked here and now: a file's own word for a bound is no proof."""
    held = [solution for solution in reference.solutions if solution.certificate is not None]
    proofs = (solution.certificate for solution in held)
    verify_all(reference.problem, [proof for proof in proofs if proof is not None])
    return replace(reference, solutions=tuple(held))


def _proved(problem: Problem, curves: list[Curve], disclosure: Array) -> Array:
    """The best bound at each disclosure that the closed form or any of the curves proves."""
    bounds = [problem.lower_bound(disclosure), *(curve.proved(disclosure) for curve in curves)]
    return np.asarray(np.max(bounds, axis=0))


def _grid(problem: Problem, points: int, disclosures: Iterable[float] | None) -> list[float]:
    if disclosures is None:
        if not is_whole(points) or points < 3:
            raise InvalidInputError(
                f"points={points!r} is not usable: give a whole number ≥ 3 (the ends are trivial)"
            )
        disclosures = np.linspace(0.0, problem.disclosure_ceiling, points)[1:-1]
    grid = sorted({check_disclosure(problem, float(value)) for value in disclosures})
    inner = [value for value in grid if end_of_curve(problem, value) is None]
    if not inner:
        raise InvalidInputError(
            "there is nothing to compare at: give disclosures strictly between 0 and H(X)"
        )
    return inner


def _work(
    label: str, solver: Solver, problem: Problem, grid: list[float], seconds: float, seed: int
) -> tuple[Entry, Curve | None]:
    """One solver's whole part, in a worker process.

    Whatever a solver fails with becomes its entry's message: the others' hours of work are not lost with it.
    """
    # Columns and other objectives are about the symbols themselves: what is exact for the funnel changes them.
    as_they_are = solver.by_columns or isinstance(solver, Neighbour)
    task = _Task.of(chosen_lumping(problem, False if as_they_are else None), grid)
    answers: dict[int, Answer] = {}
    message = ""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        solver.warm_up()
        wall, cpu = time.perf_counter(), time.process_time()
        with cpu_clock():
            for index, answer in _answers(solver, task, Deadline(seconds), seed):
                answers[index] = answer
    except Exception as error:
        message = _failure(error)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    try:
        return _judge(label, solver, task, answers, message, (wall, cpu), seed)
    except Exception as error:  # answers that are no channels
        return _judge(label, solver, task, {}, message or _failure(error), (wall, cpu), seed)


class _Task(NamedTuple):
    """What a solver is asked: the classes, the disclosures of their members, and those of the classes; nats.

    Several disclosures of the members may need the same one of the classes; an end of the curve needs no solver.
    """

    lumping: Lumping
    grid: list[float]
    inner: list[float]

    @classmethod
    def of(cls, lumping: Lumping, grid: list[float]) -> _Task:
        """The task of a problem's classes at the members' disclosures ``grid``."""
        if lumping.trivial:
            return cls(lumping, grid, grid)
        wanted = sorted({lumping.inner(value) for value in grid})
        return cls(lumping, grid, [r for r in wanted if end_of_curve(lumping.lumped, r) is None])

    def leakages(self, answers: dict[int, Answer]) -> Array:
        """The leakage at each disclosure of the grid, in nats; NaN where no answer discloses enough."""
        classes = self.lumping.lumped
        met = {}
        for i, answer in answers.items():
            point = classes.evaluate(answer.channel)
            if i < len(self.inner) and point.disclosure >= self.inner[i] - FEASIBILITY:
                met[self.inner[i]] = point.leakage
        if self.lumping.trivial:
            return np.array([met.get(r, np.nan) for r in self.grid])
        inner = [self.lumping.inner(value) for value in self.grid]
        ends = {r: end for r in inner if (end := end_of_curve(classes, r)) is not None}
        met |= {r: classes.evaluate(end.channel).leakage for r, end in ends.items()}
        return np.array([met.get(r, np.nan) for r in inner])


def _failure(error: Exception) -> str:
    """What to say of a solver that failed, on one line."""
    if isinstance(error, PrivFunnelError):
        return str(error)
    return " ".join(f"failed with {type(error).__name__}: {error}".split())


def _answers(solver: Solver, task: _Task, deadline: Deadline, seed: int) -> Iterator[tuple[int, Answer]]:
    """(index, answer) pairs until the deadline; a sweep's answers are numbered from the end of the grid."""
    problem, grid = task.lumping.lumped, task.inner
    if not grid:
        return
    if solver.sweeps:
        sweep = solver.limited(deadline.left())
        for i, answer in enumerate(sweep.trace(problem, grid, seed=seed)):
            yield len(grid) + i, answer
        return
    if solver.proves:
        # A prover shares what it learns among its points: it gets the grid at once.
        prover = solver.limited(deadline.left() / len(grid))
        yield from enumerate(prover.trace(problem, grid, seed=seed))
        return
    order = _spread(len(grid))
    for done, index in enumerate(order):
        if deadline.passed():
            return
        share = deadline.left() / (len(order) - done)
        yield index, solver.limited(share).solve(problem, grid[index], seed=seed)


def _spread(n: int) -> list[int]:
    """The numbers 0 … n−1, coarse to fine: a limit that comes early leaves no end of the curve empty."""
    order: list[int] = []
    step = n
    while len(order) < n:
        step = max(1, step // 2)
        order.extend(i for i in range(step // 2, n, step) if i not in order)
    return order


def _judge(
    label: str,
    solver: Solver,
    task: _Task,
    answers: dict[int, Answer],
    message: str,
    took: tuple[float, float],
    seed: int,
) -> tuple[Entry, Curve | None]:
    """Evaluate every channel and assemble the curve that time sharing makes of them.

    ``took`` is (wall-clock, CPU) seconds.
    """
    usable = {i: a for i, a in answers.items() if a.status is not Status.FAILED}
    message = message or next((a.message for a in answers.values() if a.message), "")
    needless = not task.inner and not message
    curve = (
        assembled(task.lumping, list(usable.values()), task.grid, solver, seed)
        if usable or needless
        else None
    )
    leakage = task.leakages(usable) if usable or needless else np.full(len(task.grid), np.nan)
    residual = [kkt_residual(task.lumping.lumped, answer.channel) for answer in usable.values()]
    shared = np.full(len(task.grid), np.nan) if curve is None else curve.leakage
    if isinstance(solver, Neighbour):
        leakage = _unshared(task, usable)
    elif solver.sweeps:
        leakage = shared
    entry = Entry(
        label=label,
        name=solver.name,
        options={f.name: _plain(getattr(solver, f.name)) for f in dataclasses.fields(solver)},
        leakage=leakage,
        shared=shared,
        points=() if curve is None else curve.raw,
        runs=_count(solver, list(usable.values()), "runs"),
        converged=_rate(solver, list(usable.values())),
        kkt_residual=float(np.median(residual)) if residual else float("nan"),
        seconds=took[0],
        cpu_seconds=took[1],
        message=message,
        process=os.getpid(),
    )
    return entry, curve


def _unshared(task: _Task, answers: dict[int, Answer]) -> Array:
    """What a neighbour's channels leak at each disclosure by themselves, in nats; NaN where there are none."""
    if not answers:
        return np.full(len(task.grid), np.nan)
    problem = task.lumping.lumped
    points = [problem.evaluate(answer.channel) for answer in answers.values()]
    return np.array([Neighbour.own(problem, points, disclosure) for disclosure in task.grid])


def _plain(value: object) -> Any:
    """An option as JSON can store it: tuples as lists, NumPy's numbers as plain ones, infinity (no limit) as None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _count(solver: Solver, answers: list[Answer], series: str) -> int:
    """Sum of a count over the answers' records; the answers of a sweep all carry the same one."""
    counts = [int(a.record[series][0]) for a in answers if a.record is not None and series in a.record.series]
    return sum(counts[:1] if solver.sweeps else counts)


def _rate(solver: Solver, answers: list[Answer]) -> float:
    """Share of runs that met their method's own convergence test; NaN where a method has none."""
    if any(a.record is not None and "converged" in a.record.series for a in answers):
        return _count(solver, answers, "converged") / max(_count(solver, answers, "runs"), 1)
    judged = [a.status for a in answers if a.status in (*_FINISHED, *UNFINISHED)]
    return sum(status in _FINISHED for status in judged) / len(judged) if judged else float("nan")
