"""Trace a curve: run a solver over many disclosures and make one convex curve of everything that it finds."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from privfunnel.amounts import check_disclosure
from privfunnel.certificate import verify_all
from privfunnel.checks import check_seed, is_whole
from privfunnel.curve import AchievedPoints, Curve, lifted_curve
from privfunnel.ends import end_of_curve, ends_of
from privfunnel.errors import CertificateError, ConvergenceWarning, InvalidInputError, SolverError
from privfunnel.guarded_task_tracing import tracing_guarded_task
from privfunnel.guarded_tracing import GuardedPartialCurve, tracing_guarded
from privfunnel.guarding import guarded_solver
from privfunnel.judging import Line, judge
from privfunnel.lumping import Lumping, chosen_lumping
from privfunnel.problem import Problem
from privfunnel.solution import FAILURES, FEASIBILITY, UNFINISHED, Answer, Solution, Status, failed
from privfunnel.solvers import registry
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solving import GUARDS, lifted, problem_of
from privfunnel.tables import Counts
from privfunnel.task_curve import PartialTaskCurve, tracing_task, wanted_utilities
from privfunnel.task_guarding import guarded_task_solver
from privfunnel.tasking import task_solver
from privfunnel.threats import Threat
from privfunnel.watching import watching

#: What a curve may be traced along.
ALONG = ("disclosure", "utility")

#: More points than this draw no better curve.
MOST_POINTS = 10_000


def trace(
    problem: Problem | Counts,
    *,
    points: int = 20,
    disclosures: Iterable[float | str] | None = None,
    refine: int = 0,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | bool | None = None,
    lump: bool | None = None,
    **options: Any,
) -> Curve:
    """Trace the funnel's curve.

    Among the options, ``known``, ``published`` and ``guarantees`` say what releases are guarded against, as in
    :func:`privfunnel.solve`: the curve is then that of the largest leakage of the attackers, it begins at what is
    published, and under guarantees it ends at the most disclosure that they allow (:attr:`Curve.limit`). With
    ``measure`` leakage is measured otherwise than by mutual information.

    Where the problem has a task, ``along="utility"`` traces the least leakage along I(U;Y) instead, at ``points``
    utilities from 0 to I(U;X) or at ``utilities``: a :class:`~privfunnel.task_curve.TaskCurve`. It may be guarded, too;
    under guarantees it ends at the most utility that they allow. With ``also`` it has points at further utilities.

    Everything the solver finds goes into one pool, whose lower convex envelope is achievable by time sharing; each
    returned point lies on it and has a channel of its own. An interrupt (Ctrl-C) returns the curve of what was found
    until then, with ``complete=False``.

    Args:
        problem: The problem, or counts that make one.
        points: Number of points, spaced uniformly in disclosure from 0 to H(X), or from end to end of a guarded curve.
        disclosures: The disclosures in nats, or texts such as ``"60%"``, instead of ``points``.
        refine: Number of further points, placed one after the other where the curve bends most.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: If True, a failure raises and points that did not converge warn; if False their status says so. Points
            that a failing solver did not come to are then FAILED, and so are all those whose proof does not hold.
        progress: Called with news of a long run; True to show them.
        lump: True or False to solve classes of symbols with the same p(s|x) or every symbol; None for classes on tables
            with more than 64 public symbols.
        **options: Options of the solver, and what the releases are guarded against.

    Returns:
        The curve.
    """
    found: PartialCurve | GuardedPartialCurve | PartialTaskCurve | None = None
    along, utilities = options.pop("along", "disclosure"), options.pop("utilities", None)
    also = options.pop("also", ())
    if along not in ALONG:
        raise InvalidInputError(f"along={along!r} is not known: use {' or '.join(map(repr, ALONG))}")
    guards = {name: options.pop(name) for name in GUARDS if name in options}
    asked: dict[str, Any] = {"points": points, "disclosures": disclosures, "refine": refine}
    threat = Threat.of(problem_of(problem), **guards) if guards else None
    with watching(progress) as listener:
        try:
            if along == "utility" or utilities is not None:
                if disclosures is not None or refine:
                    raise InvalidInputError(
                        "a curve along utility is at points= or utilities=, whatever is disclosed: leave disclosures= "
                        "and refine= out; solve(utility=, disclosure=) keeps and discloses both"
                    )
                guarded = None if threat is None or threat.plain else threat
                begin = _task_start(problem_of(problem), guarded, solver, seed, options)
                _check_counts(points, refine)
                follow = tracing_task if guarded is None else tracing_guarded_task
                wanted = int(points) if utilities is None else wanted_utilities(begin.problem, utilities)
                further = tuple(wanted_utilities(begin.problem, also)) if also else ()
                for each in follow(replace(begin, throw=throw, also=further), wanted, listener):
                    found = each
            elif also:
                raise InvalidInputError("also= is for a curve along utility: give disclosures=, or refine=")
            elif threat is not None and not threat.plain:
                start = _guarded_start(problem_of(problem), threat, solver, seed, options)
                _check_counts(points, refine)
                for partial in tracing_guarded(
                    replace(start, throw=throw, lump=lump), progress=listener, **asked
                ):
                    found = partial
            else:
                for item in tracing(problem, solver=solver, seed=seed, throw=throw, progress=listener, lump=lump,
                                    **asked, **options):  # fmt: skip
                    found = item
        except KeyboardInterrupt:
            if found is None:
                raise
    assert found is not None  # the last item comes without an answer too
    curve = found.curve()
    if throw:
        _warn_unfinished(curve)
    return curve


@dataclass(frozen=True, kw_only=True, eq=False)
class PartialCurve:
    """What a run has found so far.

    Attributes:
        lumping: The problem and its classes.
        solver: The solver.
        seed: Seed of the run.
        wanted: The disclosures of the curve, in nats, those of the refinements so far included.
        answers: The solver's answers for the classes until now, in the order found.
        complete: True for the last item of a run that was not interrupted.
        throw: Whether what is wrong with an answer raises, or is a status.
        failure: What ended the run where that was not to be raised, or None.
    """

    lumping: Lumping
    solver: Solver
    seed: int
    wanted: tuple[float, ...]
    answers: tuple[Answer, ...] = ()
    complete: bool = False
    throw: bool = True
    failure: Exception | None = None

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.lumping.problem

    @cached_property
    def newest(self) -> Solution:
        """The answer that was found last, judged by itself."""
        classes = self.lumping.lumped
        found = judge(classes, self.answers[-1], self.solver.name, self.seed, gap=self.solver.target_gap)
        return lifted(self.lumping, found, requested=None)

    def curve(self) -> Curve:
        """The curve of everything found: where the run is not complete, up to the largest disclosure reached."""
        return assemble(self.lumping, self.answers, self.wanted, self.solver, self.seed, complete=self.complete,
                        throw=self.throw, failure=self.failure)  # fmt: skip


def tracing(
    problem: Problem | Counts,
    *,
    points: int = 20,
    disclosures: Iterable[float | str] | None = None,
    refine: int = 0,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | None = None,
    lump: bool | None = None,
    **options: Any,
) -> Iterator[PartialCurve]:
    """Trace the funnel's curve and say what has been found after each answer.

    The arguments are those of :func:`trace`, and are checked before the first item is asked for. The last item is
    complete; an interrupt (KeyboardInterrupt) comes out behind what was found until then.
    """
    chosen = registry.get(solver, **options)
    problem = problem_of(problem)
    check_seed(seed)
    _check_counts(points, refine)
    if disclosures is None:
        wanted = [float(x) for x in np.linspace(0.0, problem.disclosure_ceiling, int(points))]
    else:
        wanted = sorted({check_disclosure(problem, value) for value in disclosures})
        if not wanted:
            raise InvalidInputError("disclosures is empty: give at least one value in nats")
    lumping = chosen_lumping(problem, False if chosen.by_columns else lump)
    start = PartialCurve(lumping=lumping, solver=chosen, seed=seed, wanted=tuple(wanted), throw=throw)
    return _follow(start, int(refine), progress)


def _check_counts(points: int, refine: int) -> None:
    """Raise InvalidInputError unless a curve can have so many points."""
    for name, value, least in (("points", points, 2), ("refine", refine, 0)):
        if not is_whole(value) or not least <= value <= MOST_POINTS:
            raise InvalidInputError(
                f"{name}={value!r} is not usable: give a whole number from {least} to {MOST_POINTS}"
            )


def _guarded_start(
    problem: Problem, threat: Threat, solver: str | Solver, seed: int, options: dict[str, Any]
) -> GuardedPartialCurve:
    """What the tracing of a guarded curve begins with."""
    check_seed(seed)
    guarded = guarded_solver(registry.get(solver, **options), options)
    return GuardedPartialCurve(
        problem=problem, threat=threat, solver=guarded, seed=seed, ends=ends_of(problem, threat)
    )


def _task_start(
    problem: Problem, threat: Threat | None, solver: str | Solver, seed: int, options: dict[str, Any]
) -> PartialTaskCurve:
    """What the tracing of a task's curve begins with."""
    check_seed(seed)
    problem.required_tasks()
    take_over = task_solver if threat is None else guarded_task_solver
    chosen = take_over(registry.get(solver, **options), options)
    return PartialTaskCurve(problem=problem, solver=chosen, seed=seed, threat=threat)


def _follow(found: PartialCurve, refine: int, progress: Listener | None) -> Iterator[PartialCurve]:
    """Run the solver over the wanted disclosures and then where the curve bends most."""
    lumping, solver, seed = found.lumping, found.solver, found.seed
    problem = lumping.lumped
    inner = [r for r in _inner(lumping, found.wanted) if end_of_curve(problem, r) is None]
    try:
        for answer in solver.trace(problem, inner, seed=seed, progress=progress) if inner else ():
            found = replace(found, answers=(*found.answers, answer))
            yield found
        for _ in range(refine):
            extra = _bend(problem, found.answers, _inner(lumping, found.wanted))
            answer = solver.solve(problem, extra, seed=seed, progress=progress)
            further = extra + lumping.h_within
            found = replace(
                found, answers=(*found.answers, answer), wanted=tuple(sorted((*found.wanted, further)))
            )
            yield found
    except FAILURES as error:
        if found.throw:
            raise
        found = replace(found, failure=error)
    yield replace(found, complete=True)


def _inner(lumping: Lumping, wanted: Iterable[float]) -> list[float]:
    """The disclosures of the classes behind those of their members, each once, ascending; nats."""
    if lumping.trivial:
        return list(wanted)
    return sorted({lumping.inner(disclosure) for disclosure in wanted})


def assemble(
    lumping: Lumping,
    found: Iterable[Answer],
    wanted: Iterable[float],
    solver: Solver,
    seed: int,
    *,
    complete: bool = True,
    throw: bool = True,
    failure: Exception | None = None,
) -> Curve:
    """Build a curve at the wanted disclosures in nats from whatever answers there are for the classes.

    Args:
        lumping: The problem and its classes.
        found: The solver's answers for the classes.
        wanted: The disclosures of the curve, in nats.
        solver: The solver.
        seed: Seed of the run.
        complete: Whether the run came to its end; otherwise the curve ends at the largest disclosure reached.
        throw: If False, what is wrong with an answer is the status of points, and raises nothing.
        failure: What ended the run; points that it did not come to say so.

    Raises:
        SolverError: No answer has a usable channel, or a bound exceeds a real channel.
        CertificateError: A certificate does not prove what it claims.
    """
    wanted = list(wanted)
    inner = _assemble(lumping.lumped, list(found), _inner(lumping, wanted), solver, seed, complete=complete,
                      throw=throw, failure=failure)  # fmt: skip
    try:
        return lifted_curve(lumping, inner, wanted)
    except FAILURES as error:
        if throw:
            raise
        return lifted_curve(lumping, _all_failed(inner, error), wanted)


def _all_failed(curve: Curve, error: Exception) -> Curve:
    """The curve's channels with no claim about any of them."""
    points = (
        failed(curve.problem, s.channel, error, s.solver, s.seed, requested=s.requested)
        for s in curve.solutions
    )
    return replace(curve, solutions=tuple(points))


def _assemble(
    problem: Problem,
    answers: list[Answer],
    wanted: list[float],
    solver: Solver,
    seed: int,
    *,
    complete: bool,
    throw: bool,
    failure: Exception | None,
) -> Curve:
    """The curve of the classes."""
    usable = [a for a in answers if a.status is not Status.FAILED]
    if not throw:
        usable = [a for a in usable if _is_channel(problem, a)]
    if failure is None and not usable and any(end_of_curve(problem, r) is None for r in wanted):
        said = next((a.message for a in answers if a.message), "no message")
        failure = SolverError(f"solver {solver.name!r} found no channel ({said}): {Status.FAILED.advice}")
        if throw:
            raise failure
    points = [problem.evaluate(a.channel) for a in usable]
    pool = AchievedPoints.of(
        ends_of(problem), ((point, a.channel, a.status) for point, a in zip(points, usable, strict=True))
    )
    if not complete:
        reached = max((point.disclosure for point in points), default=0.0)
        wanted = [r for r in wanted if r <= reached + FEASIBILITY]
    lines, alarm = _lines(problem, usable, throw=throw)
    solutions = []
    for disclosure in wanted:
        answer = pool.answer(disclosure)
        own = next((a for a in usable if a.channel is answer.channel), None)
        wrong = alarm or (failure if own is None else None)
        try:
            if wrong is None or end_of_curve(problem, disclosure) is not None:
                # Every certificate counts, whichever point it was found for.
                point = judge(problem, replace(own or answer, certificate=None), solver.name, seed,
                              gap=solver.target_gap, requested=disclosure, lines=lines)  # fmt: skip
            else:
                point = failed(problem, answer.channel, wrong, solver.name, seed, requested=disclosure)
        except FAILURES as error:
            if throw:
                raise
            point = failed(problem, answer.channel, error, solver.name, seed, requested=disclosure)
        solutions.append(point)
    return Curve(problem=problem, solutions=tuple(solutions), raw=tuple(sorted(points)), solver=solver.name, seed=seed,
                 complete=complete, target_gap=solver.target_gap)  # fmt: skip


def _is_channel(problem: Problem, answer: Answer) -> bool:
    try:
        problem.check_channel(answer.channel)
    except InvalidInputError:
        return False
    return True


def _lines(
    problem: Problem, answers: Iterable[Answer], *, throw: bool
) -> tuple[list[Line], CertificateError | None]:
    """The answers' certificates, verified; none of them, and what is wrong, where one fails and nothing is thrown."""
    try:
        return _verified(problem, answers), None
    except CertificateError as alarm:
        if throw:
            raise
        return [], alarm


def _verified(problem: Problem, answers: Iterable[Answer]) -> list[Line]:
    """The answers' certificates, each once and verified.

    Raises:
        CertificateError: One does not prove what it claims.
    """
    named = {a.certificate: a.bound_source for a in answers if a.certificate is not None}
    with contextlib.suppress(CertificateError):  # together they take a fraction of the time
        verify_all(problem, named)
    for certificate in named:
        certificate.verify(problem)  # remembered, unless it does not hold: then this says so
    return [Line(certificate, source) for certificate, source in named.items()]


def _bend(problem: Problem, found: Iterable[Answer], wanted: Iterable[float]) -> float:
    """Where one more point would tell most: the middle of the interval whose chord may be furthest from the curve."""
    usable = [a for a in found if a.status is not Status.FAILED]
    pool = AchievedPoints.of(
        ends_of(problem), ((problem.evaluate(a.channel), a.channel, a.status) for a in usable)
    )
    return pool.envelope.bend([0.0, *wanted, problem.disclosure_ceiling])


def sound(curve: Curve) -> Curve:
    """The curve, for who draws conclusions from one that was traced with ``throw=False``.

    Raises:
        SolverError: A point of it failed.
    """
    wrong = next((s.message for s in curve.solutions if s.status is Status.FAILED), None)
    if wrong is not None:
        raise SolverError(wrong)
    return curve


def _warn_unfinished(curve: Curve) -> None:
    unfinished = [s for s in curve.solutions if s.status in UNFINISHED]
    if unfinished:
        worst = max(s.gap for s in unfinished)
        warnings.warn(
            f"solver {curve.solver!r}: {len(unfinished)} of {len(curve.solutions)} points are not finished, largest "
            f"gap {worst:.3g} nats: {unfinished[0].status.advice}",
            ConvergenceWarning,
            stacklevel=3,
        )
