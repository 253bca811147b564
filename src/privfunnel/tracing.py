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
from privfunnel.errors import CertificateError, ConvergenceWarning, InvalidInputError, SolverError
from privfunnel.lumping import Lumping, chosen_lumping
from privfunnel.problem import Problem
from privfunnel.solution import FEASIBILITY, ROUNDING, UNFINISHED, Answer, Solution, Status
from privfunnel.solvers import registry
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solving import (
    Line,
    end_of_curve,
    judge,
    lifted,
    problem_of,
)
from privfunnel.tables import Counts
from privfunnel.watching import watching

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

    Everything the solver finds goes into one pool, whose lower convex envelope is achievable by time sharing; each
    returned point lies on it and has a channel of its own. An interrupt (Ctrl-C) returns the curve of what was found
    until then, with ``complete=False``.

    Args:
        problem: The problem, or counts that make one.
        points: Number of points, spaced uniformly in disclosure from 0 to H(X).
        disclosures: The disclosures in nats, or texts such as ``"60%"``, instead of ``points``.
        refine: Number of further points, placed one after the other where the curve bends most.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: If True, warn of points that did not converge; if False their status says so.
        progress: Called with news of a long run; True to show them.
        lump: True or False to solve classes of symbols with the same p(s|x) or every symbol; None for classes on tables
            with more than 64 public symbols.
        **options: Options of the solver.

    Returns:
        The curve.
    """
    found: PartialCurve | None = None
    with watching(progress) as listener:
        try:
            for item in tracing(problem, points=points, disclosures=disclosures, refine=refine, solver=solver,
                                seed=seed, progress=listener, lump=lump, **options):  # fmt: skip
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
    """

    lumping: Lumping
    solver: Solver
    seed: int
    wanted: tuple[float, ...]
    answers: tuple[Answer, ...] = ()
    complete: bool = False

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
        return assemble(
            self.lumping, self.answers, self.wanted, self.solver, self.seed, complete=self.complete
        )


def tracing(
    problem: Problem | Counts,
    *,
    points: int = 20,
    disclosures: Iterable[float | str] | None = None,
    refine: int = 0,
    solver: str | Solver = "auto",
    seed: int = 0,
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
    for name, value, least in (("points", points, 2), ("refine", refine, 0)):
        if not is_whole(value) or not least <= value <= MOST_POINTS:
            raise InvalidInputError(
                f"{name}={value!r} is not usable: give a whole number from {least} to {MOST_POINTS}"
            )
    if disclosures is None:
        wanted = [float(x) for x in np.linspace(0.0, problem.disclosure_ceiling, int(points))]
    else:
        wanted = sorted({check_disclosure(problem, value) for value in disclosures})
        if not wanted:
            raise InvalidInputError("disclosures is empty: give at least one value in nats")
    lumping = chosen_lumping(problem, lump)
    start = PartialCurve(lumping=lumping, solver=chosen, seed=seed, wanted=tuple(wanted))
    return _follow(start, int(refine), progress)


def _follow(found: PartialCurve, refine: int, progress: Listener | None) -> Iterator[PartialCurve]:
    """Run the solver over the wanted disclosures and then where the curve bends most."""
    lumping, solver, seed = found.lumping, found.solver, found.seed
    problem = lumping.lumped
    inner = [r for r in _inner(lumping, found.wanted) if end_of_curve(problem, r) is None]
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
) -> Curve:
    """Build a curve at the wanted disclosures in nats from whatever answers there are for the classes."""
    wanted = list(wanted)
    inner = _assemble(lumping.lumped, found, _inner(lumping, wanted), solver, seed, complete=complete)
    return lifted_curve(lumping, inner, wanted)


def _assemble(
    problem: Problem,
    found: Iterable[Answer],
    wanted: Iterable[float],
    solver: Solver,
    seed: int,
    *,
    complete: bool = True,
) -> Curve:
    """The curve of the classes."""
    answers, wanted = list(found), list(wanted)
    usable = [a for a in answers if a.status is not Status.FAILED]
    if not usable and any(end_of_curve(problem, r) is None for r in wanted):
        said = next((a.message for a in answers if a.message), "no message")
        raise SolverError(f"solver {solver.name!r} found no channel ({said}): {Status.FAILED.advice}")
    points = [problem.evaluate(a.channel) for a in usable]
    pool = AchievedPoints.of(
        problem, ((point, a.channel, a.status) for point, a in zip(points, usable, strict=True))
    )
    if not complete:
        reached = max((point.disclosure for point in points), default=0.0)
        wanted = [r for r in wanted if r <= reached + FEASIBILITY]
    lines = _verified(problem, usable)
    solutions = []
    for disclosure in wanted:
        answer = pool.answer(disclosure)
        own = next((a for a in usable if a.channel is answer.channel), answer)
        # Every certificate counts, whichever point it was found for.
        solutions.append(judge(problem, replace(own, certificate=None), solver.name, seed, gap=solver.target_gap,
                               requested=disclosure, lines=lines))  # fmt: skip
    return Curve(problem=problem, solutions=tuple(solutions), raw=tuple(sorted(points)), solver=solver.name, seed=seed,
                 complete=complete, target_gap=solver.target_gap)  # fmt: skip


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
    pool = AchievedPoints.of(problem, ((problem.evaluate(a.channel), a.channel, a.status) for a in usable))
    x = np.unique([0.0, *wanted, problem.disclosure_ceiling])
    y = pool.envelope.value(x)
    slopes = np.diff(y) / np.diff(x)
    before = np.concatenate([[0.0], slopes[:-1]])
    after = np.concatenate([slopes[1:], [1.0]])
    # A convex curve through the ends of a chord with the neighbours' slopes lies within this triangle's height.
    room = np.diff(x) * (slopes - before) * (after - slopes) / np.maximum(after - before, ROUNDING)
    # Of intervals with the same room (all of them, on a straight curve) the widest goes first.
    i = int(np.argmax(room + ROUNDING * np.diff(x)))
    return float((x[i] + x[i + 1]) / 2.0)


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
