"""The whole curve: points of the lower convex envelope of all that was found, and a real channel for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import DEFAULT_GAP, UNFINISHED, USELESS, Answer, Status
from privfunnel.errors import InfeasibleError, need
from privfunnel.infra import cards
from privfunnel.infra.storage import Document, Stored
from privfunnel.measures import Array, Channel
from privfunnel.model import channels
from privfunnel.model.asked_amounts import check_budget, check_disclosure, check_utility
from privfunnel.model.envelope import Envelope, convex_bound
from privfunnel.model.equal_symbols import Lumping, lumping_in
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import FEASIBILITY, ROUNDING, Quantity, Question, Values
from privfunnel.model.threat import Threat
from privfunnel.reductions.plain_classes import EqualSymbols
from privfunnel.solving.ends import Ends, closed_form, ends_of
from privfunnel.solving.judging import Line, Run, applies, judge, least_leakage, meet, slack_of
from privfunnel.solving.request import check_distortion
from privfunnel.solving.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve(Stored):
    """A traced funnel: convex, each point with a channel that achieves it; nats.

    It runs along disclosure, utility or distortion: the axis of its question.

    Attributes:
        question: What each point asks, whose place along the axis is open.
        solutions: Points of the lower convex envelope, by their place.
        raw: Every point found, as the solver found it: disclosure and leakage.
        solver: Name of the solver.
        seed: Seed of the run.
        complete: False when the run was interrupted and the curve holds what was found until then.
        target_gap: The gap in nats at which a point counts as proved optimal.
        limit: The release that has most of the axis, where guarantees end the curve; None elsewhere.
    """

    schema: ClassVar[str] = "privfunnel/curve"

    question: Question
    solutions: tuple[Solution, ...]
    raw: tuple[Point, ...]
    solver: str
    seed: int
    complete: bool = True
    target_gap: float = DEFAULT_GAP
    limit: Solution | None = None

    def __repr__(self) -> str:
        """One line with the number of points and the largest gap."""
        proved = sum(status is Status.OPTIMAL for status in self.status)
        return (
            f"Curve({len(self.solutions)} points of {self.problem!r}, {proved} proved optimal, "
            f"largest gap {self.gap.max(initial=0.0):.3g}{self.unit}, {self.solver})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: points, in nats."""
        name, ceiling = self.along
        whole = "of I(S;X)" if self.guards.measure.is_information else "of X's own"
        heads = (name, f"of {ceiling}", "leakage", whole, "proved ≥", "status")
        rows = [
            (
                f"{row[name]:.6f}",
                f"{100 * row[f'{name}_share']:.1f} %",
                f"{row['leakage']:.6f}",
                f"{100 * row['leakage_share']:.1f} %",
                f"{row['lower_bound']:.6f}",
                str(row["status"]),
            )
            for row in self.rows()
        ]
        part = "" if self.complete else ", not complete"
        by = "" if self.guards.measure.is_information else f", leakage by {self.guards.measure}"
        return cards.grid(f"Curve of {self.problem!r}, {self.solver}{part}; nats{by}", heads, rows)

    # --- what it is about -------------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.question.problem

    @property
    def guards(self) -> Threat:
        """Who is guarded against; leakage is the largest of the attackers', and the bounds are of it."""
        return self.question.guards

    @property
    def axis(self) -> Quantity:
        """What the curve runs along."""
        return self.question.axis

    @property
    def along(self) -> tuple[str, str]:
        """The axis by name, and the whole that its places are shares of."""
        return self.axis.value, self.axis.whole or "the largest cost"

    @property
    def costs(self) -> Any:
        """What changes cost, where the curve runs along distortion."""
        return self.question.costs

    @property
    def unit(self) -> str:
        """The unit of leakage as it is written after a number: " nats", or nothing for a measure without one."""
        return " nats" if self.guards.measure.in_nats else ""

    @cached_property
    def leakage_ceiling(self) -> float:
        """What X itself leaks to who knows nothing: I(S;X) in nats, or what another measure says of it."""
        if self.guards.measure.is_information:
            return self.problem.leakage_ceiling
        return self.problem.evaluate(np.eye(self.problem.n_x), measure=self.guards.measure).leakage

    # --- its points -------------------------------------------------------------------------------------------

    def _column(self, name: str) -> Array:
        values = (getattr(solution, name) for solution in self.solutions)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    @cached_property
    def disclosure(self) -> Array:
        """I(X;Y) of each point, shape (points,)."""
        return self._column("disclosure")

    @cached_property
    def utility(self) -> Array:
        """I(U;Y) of each point, shape (points,), where the curve is for a task."""
        return self._column("utility")

    @cached_property
    def distortion(self) -> Array:
        """E d(X,Y) of each point, shape (points,), in the unit of the costs."""
        return self._column("distortion")

    @cached_property
    def place(self) -> Array:
        """Disclosure, utility or distortion of each point: that of the axis, shape (points,)."""
        return self._column(self.axis.value)

    @cached_property
    def leakage(self) -> Array:
        """The (largest) leakage of each point, shape (points,)."""
        return self._column("leakage")

    @cached_property
    def lower_bound(self) -> Array:
        """Proved lower bound of the leakage at each point, shape (points,)."""
        return self._column("lower_bound")

    @cached_property
    def gap(self) -> Array:
        """Leakage above the proved bound, shape (points,)."""
        return self._column("gap")

    @cached_property
    def slope(self) -> Array:
        """Leakage per unit of the axis at each point, NaN where not known, shape (points,)."""
        return self._column("slope")

    @property
    def status(self) -> tuple[Status, ...]:
        """Status of each point."""
        return tuple(solution.status for solution in self.solutions)

    @property
    def _held(self) -> tuple[Solution, ...]:
        return self.solutions if self.limit is None else (*self.solutions, self.limit)

    @cached_property
    def certificates(self) -> tuple[Certificate, ...]:
        """The proofs behind the curve's bounds, each once, in the order of the points they prove."""
        proofs = (solution.certificate for solution in self._held)
        return tuple(dict.fromkeys(proof for proof in proofs if proof is not None))

    @cached_property
    def ends(self) -> Ends:
        """What is known of the curve's ends without a search."""
        return ends_of(self.question)

    @property
    def most(self) -> float:
        """The most of the axis that the curve knows a release of: all there is, or what the guarantees allow."""
        if self.axis is not Quantity.DISTORTION and self.ends.last is not None:
            return self.question.whole
        places = (s.values.of(self.axis) for s in self._held)
        return max(places, default=0.0 if self.ends.first is None else self.ends.first.place)

    # --- between its points -----------------------------------------------------------------------------------

    @cached_property
    def _pool(self) -> Pool:
        return Pool.of(self.question, [Entry.of(s) for s in self._held if s.status not in USELESS])

    @cached_property
    def _line(self) -> Envelope:
        """The lower convex envelope of points and ends, of averages, by sign·place."""
        sign = -1.0 if self.axis is Quantity.DISTORTION else 1.0
        found = [(sign * s.values.of(self.axis), s.leakage) for s in self._held]
        found += [(end.place, end.leakage) for end in self.ends.known]
        places, leakages = np.array(found).T
        return Envelope.of(np.column_stack([places, self.ends.averages(leakages)]))

    def with_ends(self) -> tuple[Array, Array]:
        """Places and leakages of the curve's corners, its known ends included, by place; nats."""
        x, y = self._line.disclosure, self.ends.leakages(self._line.leakage)
        return (-x[::-1], y[::-1]) if self.axis is Quantity.DISTORTION else (x, y)

    def achieved(self, place: ArrayLike) -> Array:
        """The leakage of time-shared neighbours at places of any shape, in nats or the measure's own numbers."""
        x, y = self.with_ends()
        return self.ends.leakages(np.interp(np.asarray(place), x, self.ends.averages(y)))

    def proved(self, place: ArrayLike) -> Array:
        """The best lower bound on the leakage that is proved, at places of any shape along the axis; nats.

        The largest of the closed form, of the certificates' lines, each of which is below the whole curve, and along
        disclosure of what convexity makes of the points: see :func:`~privfunnel.model.envelope.convex_bound`. Under
        guarantees the bound says nothing about what is beyond :attr:`most`.
        """
        at = np.asarray(place, dtype=np.float64)
        if self.axis is not Quantity.DISTORTION:  # nothing lies beyond
            at = np.minimum(at, self.question.whole)
        bound = np.zeros(at.shape)
        if self.axis is Quantity.DISCLOSURE:
            bound = closed_form(self.problem, self.guards, at)
        for certificate in self.certificates:
            if applies(self.question.at(0.0), certificate.claim):
                bound = np.maximum(bound, self._proved_by(certificate, at))
        bound = self.ends.averages(bound)
        if self.axis is Quantity.DISCLOSURE:
            bound = np.maximum(bound, self._convex(at))
        # What rounding puts above a real channel is not proved; what is more above it is wrong.
        bound, achieved = self.ends.leakages(bound), self.achieved(at)
        beyond = np.flatnonzero(np.ravel(bound - achieved) > slack_of(self.question.at(0.0)))
        if beyond.size:
            meet(float(np.ravel(bound)[beyond[0]]), float(np.ravel(achieved)[beyond[0]]), "certificate")
        return np.asarray(np.minimum(bound, achieved))

    def _proved_by(self, certificate: Certificate, at: Array) -> Array:
        """What one certificate proves of the leakage at places of any shape."""

        def bound(place: float) -> float:
            axis = self.axis
            values = Values(
                place if axis is Quantity.DISCLOSURE else 0.0, {},
                place if axis is Quantity.UTILITY else 0.0, place if axis is Quantity.DISTORTION else 0.0,
            )  # fmt: skip
            return least_leakage(self.question, certificate.claim, values)

        return np.asarray(np.vectorize(bound, otypes=[np.float64])(at))

    def _convex(self, at: Array) -> Array:
        """What convexity makes of the points and the ends, which are known; in averages, linear in mixtures."""
        ends = np.array([(end.place, end.leakage) for end in self.ends.known])
        # A bound holds at the disclosure that was asked for, a leakage at the one that its channel has.
        asked = [s.disclosure if s.requested is None else s.requested for s in self.solutions]
        achieved = np.vstack([np.column_stack([self.disclosure, self.leakage]), ends]).T
        proved = np.vstack([np.column_stack([asked, self.lower_bound]), ends]).T
        achieved[1], proved[1] = self.ends.averages(achieved[1]), self.ends.averages(proved[1])
        return convex_bound(at, (achieved[0], achieved[1]), (proved[0], proved[1]), self.ends.steepest)

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        """The certificates, named as the points say; they were verified when the curve was assembled."""
        named = {s.certificate: s.bound_source for s in self.solutions}
        plain = ("zero", "closed form")  # what proves the point itself where its certificate's line is lower
        sources = (named.get(proof, "certificate").removesuffix(" of I(S;Y)") for proof in self.certificates)
        return tuple(
            Line(proof, "certificate" if source in plain else source)
            for proof, source in zip(self.certificates, sources, strict=True)
        )

    def at(self, place: float | str) -> Solution:
        """The curve at any place along its axis: a channel that time-shares its two neighbours.

        Raises:
            InfeasibleError: It is beyond what the guarantees allow.
        """
        asked = self.question.at(check_place(self.question, place))
        if asked.place > self.most + FEASIBILITY and self.axis is not Quantity.DISTORTION:
            raise InfeasibleError(
                f"{self.axis}={asked.place:.9g} nats is infeasible: the guarantees allow {self.most:.9g} nats; lower it"
            )
        return self._judged(asked, self._pool.answer(asked))

    def _judged(self, asked: Question, answer: Answer) -> Solution:
        """A release of the curve, judged with all of its proofs."""
        return judge(asked, answer, Run(self.solver, self.seed), gap=self.target_gap, lines=self._lines)

    def within(self, leakage: float | str) -> Solution:
        """The best that the curve achieves within a leakage budget: most disclosure or utility, least distortion.

        What is proved of it is what the curve's certificates prove of that: ask ``solve`` for the optimum.

        Raises:
            InvalidInputError: It is no budget.
            InfeasibleError: Every point leaks more.
        """
        budget = check_budget(self.problem, leakage, self.guards.measure)
        x, y = self._line.disclosure, self.ends.leakages(self._line.leakage)
        fits = np.flatnonzero(y <= budget + ROUNDING)
        if fits.size == 0:
            raise InfeasibleError(
                f"leakage={budget!r} is infeasible: the curve leaks {y.min():.9g} at least; allow more"
            )
        i = int(fits[np.argmax(x[fits])])
        found = float(x[i])
        if i + 1 < x.size and y[i] < budget:
            low, spent, high = self.ends.averages(np.array([y[i], budget, y[i + 1]]))
            found += float((spent - low) / (high - low)) * float(x[i + 1] - x[i])
        place = -found if self.axis is Quantity.DISTORTION else min(found, self.most)
        asked = replace(self.question, goal=self.axis, budget=budget)
        return self._judged(asked, self._pool.answer(self.question.at(place)))

    # --- for people and files ---------------------------------------------------------------------------------

    def plot(self, **options: Any) -> Figure:
        """Draw the curve with its bounds: see :func:`privfunnel.report.plot.curve`."""
        from privfunnel.report import plot  # plots are an extra, and a room above this one

        return plot.curve(self, **options)

    def to_frame(self) -> DataFrame:
        """One row a point as a pandas frame, in nats (needs pandas)."""
        pandas = need("pandas", extra="tables")
        frame: DataFrame = pandas.DataFrame(self.rows())
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a point: what the CSV file and the frame hold, in nats."""
        return [self._row(s) for s in self.solutions]

    def _row(self, s: Solution) -> Document:
        axis, whole, ceiling = self.axis, self.question.whole, self.leakage_ceiling
        place = s.values.of(axis)
        row: Document = {
            axis.value: place,
            f"{axis.value}_share": place / whole if whole > 0.0 else 1.0,
            "leakage": s.leakage,
            "leakage_share": s.leakage / ceiling if ceiling > 0.0 else 0.0,
            "lower_bound": s.lower_bound,
            "gap": s.gap,
            "bound_source": s.bound_source,
        }
        if axis is Quantity.DISCLOSURE:
            row["closed_form_lower"] = float(closed_form(self.problem, self.guards, s.disclosure))
            shared = self.ends.last is not None and self.guards.measure.is_information
            row["closed_form_upper"] = float(self.problem.upper_bound(s.disclosure)) if shared else None
        else:
            row["disclosure"] = s.disclosure
        row |= {"slope": s.slope, "status": s.status.value, "outputs": s.n_outputs}
        return row if self.guards.plain else row | {"worst_attacker": worst_attacker(s)}

    def to_dict(self) -> Document:
        """A JSON-ready form with every channel; certificates live in files of their own."""
        lumpings = (lumping_in(s.mapping) for s in self._held)
        classes = next((each.classes for each in lumpings if each is not None), None)
        limit = self.limit
        return {
            **self.heading(),
            "units": "nats",
            "question": self.question.to_dict(),
            "solver": self.solver,
            "seed": self.seed,
            "complete": self.complete,
            "target_gap": self.target_gap,
            f"{self.axis}_ceiling": self.question.whole,
            "leakage_ceiling": self.leakage_ceiling,
            "problem": self.problem.to_dict(),
            **({} if classes is None else {"classes": classes.tolist()}),
            "points": [_stored_point(s) for s in self.solutions],
            **({} if limit is None else {"limit": _stored_point(limit)}),
            "raw": [list(point) for point in self.raw],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            question = Question.from_dict(data["question"], problem)
            shared = {"classes": data["classes"]} if "classes" in data else {}

            def read(point: Any) -> Solution:
                held = point if "class_channel" not in point else {**point, **shared}
                return Solution.of_stored(held, question.reread(point["asked"]))

            return cls(
                question=question,
                solutions=tuple(read(point) for point in data["points"]),
                raw=tuple(Point(*map(float, point)) for point in data["raw"]),
                solver=data["solver"],
                seed=data["seed"],
                complete=data["complete"],
                target_gap=data["target_gap"],
                limit=read(data["limit"]) if "limit" in data else None,
            )


def _stored_point(solution: Solution) -> Document:
    """A point as a curve's file holds it: without problem and classes, which the file holds once."""
    stored = {name: value for name, value in solution.stored_channel().items() if name != "classes"}
    return {"asked": solution.question.asked(), **solution.summary(), **stored}


def check_place(question: Question, place: float | str) -> float:
    """A place along the axis of a question: nats, or a share as a text; of distortion a number.

    Raises:
        InvalidInputError: It cannot be read.
        InfeasibleError: There is no such place.
    """
    if question.axis is Quantity.UTILITY:
        return check_utility(question.problem, place)
    if question.axis is Quantity.DISTORTION:
        return check_distortion(place)
    return check_disclosure(question.problem, place)


def worst_attacker(solution: Solution) -> str:
    """What the attacker knows who learns most; of several who learn the same up to rounding, the first."""
    most = max(solution.leakages.values())
    return next(who for who, leakage in solution.leakages.items() if leakage >= most - FEASIBILITY)


class Entry(NamedTuple):
    """A release that was found: its values, and the answer it came with."""

    values: Values
    answer: Answer

    @classmethod
    def of(cls, solution: Solution) -> Entry:
        """A solution's."""
        guards, slope = solution.guards, solution.slope
        if slope is not None and guards.measure.worst_value:  # answers have the slope of the averages
            slope *= guards.measure.average(solution.leakage)
        found = Answer(
            channel=solution.mapping, status=solution.status, slope=slope, steps=solution.steps,
            seconds=solution.seconds, message=solution.message, record=solution.record,
        )  # fmt: skip
        return cls(solution.values, found)


@dataclass(frozen=True, eq=False)
class Pool:
    """Releases, the known ends of the curve among them, and the envelope of their points.

    Where classes of symbols were solved it is one of the classes' channels.

    Attributes:
        question: A question of the curve.
        classes: The classes; each symbol its own where none were solved.
        envelope: The lower convex envelope of (sign·place, average), with the channels.
        answers: What each of its vertices came with; None for an end.
        ends: The known ends of the curve.
    """

    question: Question
    classes: Lumping | None
    envelope: Envelope
    answers: tuple[Answer | None, ...]
    ends: Ends

    @classmethod
    def of(cls, question: Question, entries: Sequence[Entry], lumping: Lumping | None = None) -> Pool:
        """The pool of some releases, held by the classes of a lumping, or by those that one of them is held by."""
        lumpings = (lumping, *(lumping_in(entry.answer.channel) for entry in entries))
        classes = next((each for each in lumpings if each is not None and not each.trivial), None)
        inner = question if classes is None else replace(question, problem=classes.lumped)
        ends, sign = ends_of(inner), -1.0 if question.axis is Quantity.DISTORTION else 1.0
        found: list[tuple[float, float, Channel, Answer | None]] = []
        for values, answer in entries:
            if classes is None:
                place, leakage, channel = values.of(question.axis), values.leakage, answer.channel
            elif lumping_in(answer.channel) is not None and answer.channel.share >= 1.0:
                channel = answer.channel.channel
                own = inner.values(channel)
                place, leakage = own.of(question.axis), own.leakage
            else:
                continue  # less than what is free of the classes: the ends have it
            found.append((sign * place, leakage, channel, answer))
        found += [(sign * end.place, end.leakage, end.channel, None) for end in ends.known]
        averages = ends.averages(np.array([leakage for _, leakage, _, _ in found]))
        points = [(place, float(average)) for (place, *_), average in zip(found, averages, strict=True)]
        envelope = Envelope.of(points, [channel for _, _, channel, _ in found])
        return cls(question, classes, envelope, tuple(found[i][3] for i in envelope.index), ends)

    def answer(self, question: Question) -> Answer:
        """The envelope at the place that a question asks for: a vertex's own release, or two that are time-shared."""
        place = question.place if self.classes is None else self.classes.inner(question.place)
        x = -place if question.axis is Quantity.DISTORTION else place
        at, slope = self.envelope.vertex(x), self.envelope.slope(x)
        if question.axis is Quantity.DISTORTION and slope:  # whose envelope runs the other way
            slope = -slope
        if at is not None:
            own = self.answers[at]
            made = Answer(channel=self.envelope.channels[at], status=Status.OPTIMAL, slope=slope)
            if own is not None:
                made = Answer(
                    channel=self.envelope.channels[at], status=own.status, slope=own.slope, steps=own.steps,
                    seconds=own.seconds, message=own.message, record=own.record,
                )  # fmt: skip
        else:
            left, right, weight = self.envelope.neighbours(x)
            around = [self.answers[i] for i in (left, right)]
            unfinished = (each.status for each in around if each is not None and each.status in UNFINISHED)
            pair = [self.envelope.channels[i] for i in (left, right)]
            if question.axis is Quantity.DISTORTION:  # records for records: outputs are the same
                channel = np.asarray((1.0 - weight) * pair[0] + weight * pair[1])
            else:
                channel = channels.time_share(pair, [1.0 - weight, weight])
            made = Answer(channel=channel, status=next(unfinished, Status.FEASIBLE), slope=slope)
        return made if self.classes is None else EqualSymbols(self.classes).invert(made, question)

    def is_end(self, question: Question) -> bool:
        """Whether a question asks for an end of the curve, which no solver has to find."""
        place = question.place if self.classes is None else self.classes.inner(question.place)
        return any(abs(end.place - place) <= FEASIBILITY for end in self.ends.known)

    def bend(self, places: Iterable[float]) -> float:
        """Where one more point would tell most, between some places and the ends."""
        wanted = places if self.classes is None else (self.classes.inner(place) for place in places)
        found = self.envelope.bend(wanted)
        return found if self.classes is None else found + self.classes.h_within
