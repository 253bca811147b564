"""Trace a curve along any axis: answers go into one pool, and each point is the best release of it with every proof."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver
from privfunnel.certificate import verify_all
from privfunnel.certificate.answer import FAILURES, UNFINISHED, USELESS, Answer, Status
from privfunnel.data.tables import Counts
from privfunnel.errors import (
    CertificateError,
    ConvergenceWarning,
    InvalidInputError,
    SolverError,
)
from privfunnel.infra.checks import check_seed, is_whole
from privfunnel.infra.watching import Listener, counted, watching
from privfunnel.measures import Channel, Measure
from privfunnel.model.amounts import in_asked
from privfunnel.model.equal_symbols import Lumping, checked, of_classes
from privfunnel.model.guarantees import Guarantee
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import FEASIBILITY, Quantity, Question
from privfunnel.reductions.plain_classes import EqualSymbols
from privfunnel.solving.base import Asking, Found, Way
from privfunnel.solving.curve import Curve, Entry, Pool, check_place
from privfunnel.solving.dispatch import way_of
from privfunnel.solving.guaranteed_end import guaranteed_end, span
from privfunnel.solving.judging import Line, Run, failed, judge
from privfunnel.solving.plain import PlainWay
from privfunnel.solving.point import answered, judged
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution

#: More points than this draw no better curve.
MOST_POINTS = 10_000


def trace(
    problem: Problem | Counts,
    *,
    points: int = 20,
    disclosures: Iterable[float | str] | None = None,
    utilities: Iterable[float | str] | None = None,
    distortions: Iterable[float] | None = None,
    along: str = "disclosure",
    also: Iterable[float | str] = (),
    refine: int = 0,
    costs: object = None,
    invariant: bool = False,
    known: object = None,
    published: str | Sequence[str] | None = None,
    guarantees: str | Guarantee | Iterable[str | Guarantee] | None = None,
    measure: Measure | str | None = None,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | bool | None = None,
    lump: bool | None = None,
    **options: Any,
) -> Curve:
    """Trace the funnel's curve.

    ``known``, ``published``, ``guarantees`` and ``measure`` say what releases are guarded against, as in
    :func:`privfunnel.solve`: the curve is then that of the largest leakage of the attackers, it begins at what is
    published, and under guarantees it ends at the most that they allow (:attr:`Curve.limit`).

    Where the problem has a task, ``along="utility"`` traces the least leakage along I(U;Y) instead, and
    ``along="distortion"`` that of records released for records. It has points at further places with ``also``.

    Everything the solver finds goes into one pool, whose lower convex envelope is achievable by time sharing; each
    returned point lies on it and has a channel of its own. An interrupt (Ctrl-C) returns the curve of what was found
    until then, with ``complete=False``.

    Args:
        problem: The problem, or counts that make one.
        points: Number of points, spaced uniformly along the axis from end to end.
        disclosures: The disclosures in nats, or texts such as ``"60%"``, instead of ``points``.
        utilities: The utilities of a curve along utility, in the same way.
        distortions: The distortions of a curve along distortion, in the unit of the costs.
        along: The axis: ``"disclosure"``, ``"utility"`` or ``"distortion"``.
        also: Places along the axis at which the curve has a point besides.
        refine: Number of further points, placed one after the other where the curve bends most.
        costs: What a change of a record costs, see :func:`privfunnel.release.distortion.costs_of`.
        invariant: Whether released records must have the distribution of the table.
        known: What attackers may know: an entry for each.
        published: Public columns that are released as they are.
        guarantees: What every output has to meet.
        measure: What leakage is measured by.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: If True, a failure raises and points that did not converge warn; if False their status says so. Points
            that a failing solver did not come to are then FAILED, and so are all those whose proof does not hold.
        progress: Called with news of a long run; True to show them.
        lump: True or False to solve classes of symbols with the same p(s|x) or every symbol; None for classes on tables
            with more than 64 public symbols.
        **options: Options of the solver.

    Returns:
        The curve.
    """
    found: PartialCurve | None = None
    given = {"disclosure": disclosures, "utility": utilities, "distortion": distortions}
    axis = axis_of(
        "distortion" if (costs is not None or invariant) and along == "disclosure" else along, given
    )
    request = Request(
        costs=costs,
        invariant=invariant,
        known=known,
        published=published,
        guarantees=guarantees,
        measure=measure,
    )
    with watching(progress) as listener:
        try:
            steps = tracing(
                problem, request, Grid(points, given[axis.value], refine, also), axis=axis, solver=solver, seed=seed,
                throw=throw, progress=listener, lump=lump, **options,
            )  # fmt: skip
            for item in steps:
                found = item
        except KeyboardInterrupt:
            if found is None:
                raise
    assert found is not None  # the last item comes without an answer too
    curve = found.curve()
    if throw:
        _warn_unfinished(curve)
    return curve


class Grid(NamedTuple):
    """Where the points of a curve are to be.

    Attributes:
        points: How many are spaced uniformly from end to end.
        places: The places instead, in nats or as texts; None for none.
        refine: Further points where the curve bends most.
        also: Places besides.
    """

    points: int = 20
    places: Iterable[float | str] | None = None
    refine: int = 0
    also: Iterable[float | str] = ()


def axis_of(along: str, given: dict[str, Any]) -> Quantity:
    """The axis that is meant by its name and by the places that are given.

    Raises:
        InvalidInputError: There is no such axis, or places of two are given.
    """
    axes = [name for name, places in given.items() if places is not None]
    if along not in given:
        raise InvalidInputError(f"along={along!r} is not known: use {', '.join(map(repr, given))}")
    axis = axes[0] if along == "disclosure" and axes else along
    others = [name for name in axes if name != axis]
    if others:
        plural = {"disclosure": "disclosures", "utility": "utilities", "distortion": "distortions"}
        raise InvalidInputError(
            f"a curve along {axis} is at points= or {plural[axis]}=, whatever its {others[0]} is: leave "
            f"{plural[others[0]]}= out; solve() asks for both"
        )
    return Quantity(axis)


def tracing(
    problem: Problem | Counts,
    request: Request | None = None,
    grid: Grid | None = None,
    *,
    axis: Quantity | str = Quantity.DISCLOSURE,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | None = None,
    lump: bool | None = None,
    **options: Any,
) -> Iterator[PartialCurve]:
    """Trace a curve and say what has been found after each answer.

    Arguments are checked before the first item is asked for. The last item is complete; an interrupt
    (KeyboardInterrupt) comes out behind what was found until then.

    Args:
        problem: The problem, or counts that make one.
        request: Whom releases are guarded against, and what changes of records cost; nothing of both by default.
        grid: Where the points are to be; twenty from end to end by default.
        axis: What the curve runs along.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: See :func:`trace`.
        progress: Called with news of a long run.
        lump: See :func:`trace`.
        **options: Options of the solver.
    """
    chosen = registry.get(solver, **options)
    check_seed(seed)
    question = (request or Request()).open(problem, Quantity(axis))
    way = way_of(question, chosen, options)
    begun = PartialCurve(question=question, way=way, how=Asking(seed, None, lump), throw=throw)
    return following(begun, grid or Grid(), progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartialCurve:
    """What a run has found so far.

    Attributes:
        question: What each point asks; its place along the axis is open.
        way: The algorithm.
        how: How it is asked.
        wanted: The places of the curve, those of the refinements so far included.
        found: The answers until now, in the order found.
        asked: The solutions of ways that answer place by place, in the order found.
        limit: The release that has most of the axis, where guarantees end the curve before its end.
        complete: True for the last item of a run that was not interrupted.
        throw: Whether what is wrong with an answer raises, or is a status.
        failure: What ended the run where that was not to be raised, or None.
    """

    question: Question
    way: Way
    how: Asking
    wanted: tuple[float, ...] = ()
    found: tuple[Found, ...] = ()
    asked: tuple[Solution, ...] = ()
    limit: Solution | None = None
    complete: bool = False
    throw: bool = True
    failure: Exception | None = None

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.question.problem

    @property
    def count(self) -> int:
        """How many answers there are."""
        return len(self.found) + len(self.asked)

    @cached_property
    def newest(self) -> Solution:
        """The answer that was found last, judged by itself: at its own place where it answers no other."""
        if self.asked and not self.found:
            return self.asked[-1]
        last = self.found[-1]
        place = self.question.values(last.answer.channel).of(self.question.axis)
        return judged(self.question.at(place), self.way, last, self.how, throw=self.throw)

    @cached_property
    def usable(self) -> tuple[Found, ...]:
        """The answers that are releases."""
        return tuple(
            each for each in self.found if each.answer.status is not Status.FAILED and self._is_release(each)
        )

    def _is_release(self, found: Found) -> bool:
        if self.throw:
            return True
        try:
            checked(self.problem, found.answer.channel)
        except InvalidInputError:
            return False
        return True

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Everything that is a release, with its values; the one that ends the curve included."""
        own = [Entry(self.question.values(each.answer.channel), each.answer) for each in self.usable]
        return (*own, *(Entry.of(s) for s in self.solved if s.status not in USELESS))

    @property
    def solved(self) -> tuple[Solution, ...]:
        """The solutions there are, and the one that ends the curve."""
        return self.asked if self.limit is None else (*self.asked, self.limit)

    @cached_property
    def pool(self) -> Pool:
        """The envelope of what was found and of the ends."""
        return Pool.of(self.question, self.entries, self.way.classes(self.problem, self.how.lump))

    def curve(self) -> Curve:
        """The curve of everything found: where the run is not complete, up to the farthest place reached.

        Raises:
            SolverError: No answer has a usable channel, or a bound exceeds a real channel.
            CertificateError: A certificate does not prove what it claims.
        """
        axis = self.question.axis
        failure = self.failure or self._nothing_found()
        reached = max((entry.values.of(axis) for entry in self.entries), default=0.0)
        wanted = [place for place in self.wanted if self.complete or place <= reached + FEASIBILITY]
        lines, alarm = self._lines()
        points = tuple(self._point(place, lines, alarm, failure) for place in wanted)
        return Curve(
            question=self.question,
            solutions=points,
            raw=tuple(sorted(Point(values.disclosure, values.leakage) for values, _ in self.entries)),
            solver=self.way.name,
            seed=self.how.seed,
            complete=self.complete,
            target_gap=self.way.gap,
            limit=self.limit,
        )

    def _nothing_found(self) -> SolverError | None:
        """What is wrong where a solver was asked and none of its answers is a release."""
        if (
            self.usable
            or self.asked
            or all(self.pool.is_end(self.question.at(place)) for place in self.wanted)
        ):
            return None
        said = next((each.answer.message for each in self.found if each.answer.message), "no message")
        failure = SolverError(f"solver {self.way.name!r} found no channel ({said}): {Status.FAILED.advice}")
        if self.throw:
            raise failure
        return failure

    def _lines(self) -> tuple[tuple[Line, ...], Exception | None]:
        """All proofs that were found, verified; none, and what is wrong, where one fails and nothing is thrown."""
        try:
            return tuple(_verified(self)), None
        except CertificateError as alarm:
            if self.throw:
                raise
            return (), alarm

    def _point(
        self, place: float, lines: Sequence[Line], alarm: Exception | None, failure: Exception | None
    ) -> Solution:
        """The best release that was found for a place, with the best bound that is proved there."""
        asked, run = self.question.at(place), Run(self.way.name, self.how.seed)
        own = next((s for s in self.asked if s.question.place == place), None)
        if own is not None and own.status in USELESS:
            return own
        answer = self.pool.answer(asked)
        wrong = alarm if alarm is not None else (failure if self._beyond(answer.channel) else None)
        if wrong is not None and not self.pool.is_end(asked):
            return failed(asked, answer.channel, wrong, run)
        try:
            made = judge(asked, answer, run, gap=self.way.gap, lines=lines)
            cut_short = next((each.answer.status for each in self.found if each.place == place), made.status)
            if cut_short in UNFINISHED and made.status is not Status.OPTIMAL:
                made = replace(made, status=cut_short)
            if own is None or made.leakage <= own.leakage or own.free_extra > 0.0:
                return made
            # Rounding may have left the envelope a hair above what was found for this very place.
            better = Entry.of(own).answer
            return judge(asked, better, run, gap=self.way.gap, lines=lines)
        except FAILURES as error:
            if self.throw:
                raise
            return failed(asked, answer.channel, error, run)

    def _beyond(self, channel: Channel) -> bool:
        """Whether a place was not come to: its release is mixed of others."""
        _, held = of_classes(channel, self.problem)
        own = (of_classes(each.answer.channel, self.problem)[1] for each in self.usable)
        return all(one is not held for one in own)


def _verified(found: PartialCurve) -> Iterator[Line]:
    """The proofs of all answers, each once and verified.

    Raises:
        CertificateError: One does not prove what it claims.
    """
    named: dict[Any, str] = {}
    for each in found.found:
        if each.answer.certificate is not None:
            named.setdefault(each.answer.certificate, each.answer.bound_source)
        named |= {line.certificate: line.source for line in each.lines}
    for solution in found.solved:
        if solution.certificate is not None and solution.status not in USELESS:
            named.setdefault(solution.certificate, "certificate")
    try:  # together they take a fraction of the time
        verify_all(found.problem, named)
    except CertificateError:
        for certificate in named:
            certificate.verify(found.problem)  # which of them does not hold, and why
        raise
    yield from (Line(certificate, source) for certificate, source in named.items())


def following(begun: PartialCurve, grid: Grid, progress: Listener | None) -> Iterator[PartialCurve]:
    """Find out where guarantees end the curve, ask for its places, and then for those where it bends most.

    What is asked for is checked before the first item is asked for. The last item is complete; an interrupt
    (KeyboardInterrupt) comes out behind what was found until then.
    """
    _check_counts(grid.points, grid.refine)
    question = begun.question
    if question.guards.attributes:
        raise InvalidInputError("attributes with budgets of their own have no curve: ask solve for a point")
    if question.axis is not Quantity.DISCLOSURE and grid.refine:
        raise InvalidInputError(
            f"a curve along {question.axis} is not refined: leave refine= out, or give its places"
        )
    places = None
    if grid.places is not None:
        places = tuple(sorted({check_place(question, place) for place in _several(grid.places)}))
        if not places:
            plural = {"disclosure": "disclosures", "utility": "utilities", "distortion": "distortions"}
            raise InvalidInputError(f"{plural[question.axis]} is empty: give at least one value in nats")
    also = tuple(check_place(question, place) for place in _several(grid.also))
    return _follow(begun, grid, places, also, progress)


def _several(places: object) -> list[Any]:
    """Places, where one may stand for itself."""
    return [places] if isinstance(places, str) or not hasattr(places, "__iter__") else list(places)


def _follow(
    begun: PartialCurve,
    grid: Grid,
    places: tuple[float, ...] | None,
    also: tuple[float, ...],
    progress: Listener | None,
) -> Iterator[PartialCurve]:
    """The answers to all places, item by item."""
    how = begun.how._replace(progress=progress)
    limit = begun.limit or guaranteed_end(begun.question, begun.way, how, also, throw=begun.throw)
    found = replace(begun, limit=limit)
    if places is None:
        low, high = span(found.question, found.way, found.limit)
        places = tuple(np.linspace(low, high, int(grid.points)).tolist())
    further_ = (place for place in also if np.abs(np.array(places) - place).min() > FEASIBILITY)
    places = tuple(sorted((*places, *further_)))
    found = replace(found, wanted=tuple(sorted((*found.wanted, *places))))
    try:
        for item in _asked(found, places, progress, len(places) + grid.refine):
            found = item
            yield found
        for _ in range(int(grid.refine)):
            extra = found.pool.bend(
                [*found.wanted] if found.way.warm else [*found.wanted, *_whole_span(found)]
            )
            found = replace(found, wanted=tuple(sorted((*found.wanted, extra))))
            for item in _asked(found, (extra,), progress, len(places) + grid.refine, alone=True):
                found = item
                yield found
    except FAILURES as error:
        if found.throw:
            raise
        found = replace(found, failure=error)
    yield replace(found, complete=True)


def _whole_span(found: PartialCurve) -> tuple[float, float]:
    return (0.0, found.question.whole)


def further(
    found: PartialCurve, places: Iterable[float], progress: Listener | None
) -> Iterator[PartialCurve]:
    """Add points to a curve that was traced, at places along its axis."""
    new = tuple(sorted(set(places) - set(found.wanted)))
    whole = found.complete
    found = replace(found, wanted=tuple(sorted((*found.wanted, *new))), complete=False)
    for item in _asked(found, new, progress, len(new)):
        yield replace(item, complete=whole)


def _asked(
    found: PartialCurve,
    places: Sequence[float],
    progress: Listener | None,
    total: int,
    *,
    alone: bool = False,
) -> Iterator[PartialCurve]:
    """What was found, with the answers to some places: place by place where the way begins with what it has."""
    way = found.way
    if not way.warm:
        how = found.how._replace(progress=progress)
        answers = (
            (way.answer(found.question.at(place), how) for place in places)
            if alone
            else way.trace(found.question, places, how)
        )
        for each in answers:
            found = replace(found, found=(*found.found, each))
            yield found
        return
    for place in places:
        tell = counted(progress, len(found.asked), total)
        how = found.how._replace(progress=tell, before=found.solved)
        solution = answered(found.question.at(place), way, how, throw=found.throw)
        found = replace(found, asked=(*found.asked, solution))
        yield found


def _check_counts(points: int, refine: int) -> None:
    """Raise InvalidInputError unless a curve can have so many points."""
    for name, value, least in (("points", points, 2), ("refine", refine, 0)):
        if not is_whole(value) or not least <= value <= MOST_POINTS:
            raise InvalidInputError(
                f"{name}={value!r} is not usable: give a whole number from {least} to {MOST_POINTS}"
            )


def assembled(
    classes: Lumping, answers: Iterable[Answer], wanted: Iterable[float], solver: Solver, seed: int
) -> Curve:
    """The plain curve at the wanted disclosures, in nats, of a solver's answers for the classes of a problem."""
    found = tuple(Found(EqualSymbols(classes).invert(answer, None)) for answer in answers)
    question = Request().open(classes.problem, Quantity.DISCLOSURE)
    how, way = Asking(seed, lump=not classes.trivial), PlainWay(solver)
    return PartialCurve(
        question=question, way=way, how=how, wanted=tuple(wanted), found=found, complete=True
    ).curve()


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
            f"gap {in_asked(worst)}: {unfinished[0].status.advice}",
            ConvergenceWarning,
            stacklevel=3,
        )
