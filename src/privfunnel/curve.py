"""The whole curve: points of the lower convex envelope of all that was found, and a real channel for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import cards
from privfunnel.amounts import check_disclosure
from privfunnel.certificate import AnyCertificate, Certificate, verify_all
from privfunnel.ends import Dominated, Ends, closed_form, ends_of, usual
from privfunnel.envelope import Envelope, convex_bound
from privfunnel.errors import InfeasibleError, InvalidInputError, need
from privfunnel.guarding import INEXACT, judge_guarded
from privfunnel.judging import Line, judge, meet
from privfunnel.lumping import Lumping, lumping_of
from privfunnel.measures import Array
from privfunnel.problem import Point, Problem
from privfunnel.solution import (
    DEFAULT_GAP,
    FEASIBILITY,
    ROUNDING,
    UNFINISHED,
    Answer,
    Solution,
    Status,
    fields_from,
    final_status,
)
from privfunnel.solvers.guarded import GuardedAnswer
from privfunnel.solving import lifted, lowered
from privfunnel.storage import Stored
from privfunnel.threats import Threat

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve(Stored):
    """A traced funnel: convex, nondecreasing, each point with a channel that achieves it; nats.

    Attributes:
        problem: The problem.
        solutions: Points of the lower convex envelope, by increasing disclosure.
        raw: Every point found, as the solver found it.
        solver: Name of the solver.
        seed: Seed of the run.
        complete: False when the run was interrupted and the curve holds what was found until then.
        target_gap: The gap in nats at which a point counts as proved optimal.
        classes: The curve of the classes that this one was made of, or None where nothing was lumped.
        threat: Attackers who know something, published columns and guarantees, where there are any: leakage is then the
            largest of the attackers', and the bounds are of it.
        limit: The release that discloses most, where guarantees end the curve before X itself; None elsewhere.
    """

    schema: ClassVar[str] = "privfunnel/curve"
    #: Version 2 has a threat; a curve of the plain funnel is still written as version 1.
    schema_version: ClassVar[int] = 2
    oldest_version: ClassVar[int | None] = 1
    #: What the curve runs along, and the whole that it is a share of.
    along: ClassVar[tuple[str, str]] = ("disclosure", "H(X)")

    problem: Problem
    solutions: tuple[Solution, ...]
    raw: tuple[Point, ...]
    solver: str
    seed: int
    complete: bool = True
    target_gap: float = DEFAULT_GAP
    classes: Curve | None = None
    threat: Threat | None = None
    limit: Solution | None = None

    def __repr__(self) -> str:
        """One line with the number of points and the largest gap."""
        proved = sum(status is Status.OPTIMAL for status in self.status)
        return (
            f"{type(self).__name__}({len(self.solutions)} points of {self.problem!r}, {proved} proved optimal, "
            f"largest gap {self.gap.max(initial=0.0):.3g}{self.unit}, {self.solver})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: points, in nats."""
        name, ceiling = self.along
        whole = "of I(S;X)" if usual(self.threat) else "of X's own"
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
        by = "" if self.threat is None or usual(self.threat) else f", leakage by {self.threat.measure}"
        return cards.grid(f"Curve of {self.problem!r}, {self.solver}{part}; nats{by}", heads, rows)

    def _column(self, name: str) -> Array:
        values = (getattr(solution, name) for solution in self.solutions)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    @cached_property
    def disclosure(self) -> Array:
        """I(X;Y) of each point, shape (points,)."""
        return self._column("disclosure")

    @cached_property
    def leakage(self) -> Array:
        """I(S;Y) of each point, shape (points,)."""
        return self._column("leakage")

    @cached_property
    def lower_bound(self) -> Array:
        """Proved lower bound of L(R) at each point, shape (points,)."""
        return self._column("lower_bound")

    @cached_property
    def gap(self) -> Array:
        """Leakage above the proved bound, shape (points,)."""
        return self._column("gap")

    @cached_property
    def slope(self) -> Array:
        """dL/dR at each point, NaN where not known, shape (points,)."""
        return self._column("slope")

    @property
    def status(self) -> tuple[Status, ...]:
        """Status of each point."""
        return tuple(solution.status for solution in self.solutions)

    @cached_property
    def certificates(self) -> tuple[AnyCertificate, ...]:
        """The proofs behind the curve's bounds, each once, in the order of the points they prove."""
        held = self.solutions if self.limit is None else (*self.solutions, self.limit)
        proofs = (solution.certificate for solution in held)
        return tuple(dict.fromkeys(proof for proof in proofs if proof is not None))

    @cached_property
    def ends(self) -> Ends:
        """Where the curve begins, and where it ends unless guarantees end it before."""
        return ends_of(self.problem, self.threat)

    @cached_property
    def leakage_ceiling(self) -> float:
        """What X itself leaks to who knows nothing: I(S;X) in nats, or what another measure says of it."""
        if self.threat is None or usual(self.threat):
            return self.problem.leakage_ceiling
        return self.problem.evaluate(np.eye(self.problem.n_x), measure=self.threat.measure).leakage

    @property
    def unit(self) -> str:
        """The unit of leakage as it is written after a number: " nats", or nothing for a measure without one."""
        return " nats" if self.threat is None or self.threat.convex.in_nats else ""

    @property
    def most(self) -> float:
        """The most disclosure that the curve knows a release of, in nats: H(X), or what the guarantees allow."""
        if self.ends.most is not None:
            return self.problem.disclosure_ceiling
        held = self.solutions if self.limit is None else (*self.solutions, self.limit)
        return max((s.disclosure for s in held), default=self.ends.least.disclosure)

    @cached_property
    def _pool(self) -> AchievedPoints:
        held = self.solutions if self.limit is None else (*self.solutions, self.limit)
        found = ((Point(s.disclosure, s.leakage), s.channel, s.status) for s in held)
        return AchievedPoints.of(self.ends, found)

    def proved(self, disclosure: ArrayLike) -> Array:
        """The best lower bound on L(R) that is proved, at disclosures of any shape in [0, H(X)]; nats.

        The largest of the closed form, of the certificates' lines, each of which is below the whole curve, and of what
        the convexity of L makes of the points: see :func:`~privfunnel.envelope.convex_bound`. The curve's two ends,
        L(0) = 0 and L(H(X)) = I(S;X), are known. The largest leakage of several attackers is convex in R, too; under
        guarantees the bound says nothing about what is disclosed beyond :attr:`most`.
        """
        at = np.asarray(disclosure, dtype=np.float64)
        bound = closed_form(self.problem, self.threat, at)
        for certificate in self.certificates:
            bound = np.maximum(bound, _line(self.problem, self.threat, certificate, at))
        ends = np.array([[0.0, 0.0], [self.problem.disclosure_ceiling, self.problem.leakage_ceiling]])
        if self.threat is not None:
            ends = np.array([point for point, _ in self.ends.known])
        # A bound holds at the disclosure that was asked for, a leakage at the one that its channel has.
        asked = [s.disclosure if s.requested is None else s.requested for s in self.solutions]
        achieved = np.vstack([np.column_stack([self.disclosure, self.leakage]), ends]).T
        proved = np.vstack([np.column_stack([asked, self.lower_bound]), ends]).T
        steepest = self.ends.steepest
        if self.threat is not None:  # convex is what mixes linearly, such as exp of the maximal leakage
            achieved[1], proved[1] = self.ends.averages(achieved[1]), self.ends.averages(proved[1])
            bound = self.ends.averages(bound)
        bound = np.maximum(
            bound, convex_bound(at, (achieved[0], achieved[1]), (proved[0], proved[1]), steepest)
        )
        # What rounding puts above a real channel is not proved.
        bound = np.asarray(np.minimum(bound, Envelope.of(achieved.T).value(at)))
        return bound if self.threat is None else self.ends.leakages(bound)

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        """The certificates, named as the points say; they were verified when the curve was assembled."""
        named = {s.certificate: s.bound_source for s in self.solutions}
        plain = ("zero", "closed form")  # what proves the point itself where its certificate's line is lower
        return tuple(
            Line(proof, "certificate" if named[proof] in plain else named[proof])
            for proof in self.certificates
            if isinstance(proof, Certificate)
        )

    def at(self, disclosure: float) -> Solution:
        """The curve at any disclosure in nats: a channel that time-shares its two neighbours."""
        wanted = check_disclosure(self.problem, disclosure)
        if self.threat is not None:
            return self._guarded_at(wanted)
        if self.classes is not None:
            lumping = lumping_of(self.problem)
            return lifted(lumping, self.classes.at(lumping.inner(wanted)), requested=wanted)
        return judge(self.problem, self._pool.answer(wanted), self.solver, self.seed, gap=self.target_gap,
                     requested=wanted, lines=self._lines)  # fmt: skip

    def _guarded_at(self, wanted: float) -> Solution:
        """The curve of guarded releases at a disclosure in nats."""
        assert self.threat is not None
        if wanted > self.most + FEASIBILITY:
            raise InfeasibleError(
                f"disclosure={wanted:.9g} nats is infeasible: the guarantees allow {self.most:.9g} nats; lower it"
            )
        shared = self._pool.answer(wanted)
        answer = GuardedAnswer(channel=shared.channel, status=shared.status, slope=shared.slope)
        found = judge_guarded(self.problem, self.threat, answer, self.target_gap, (wanted, None), self.seed)
        return strengthened(found, self.certificates, self.target_gap)

    def within(self, leakage: float) -> Solution:
        """The most disclosure that the curve achieves within a leakage budget in nats."""
        if not leakage >= 0.0:
            raise InvalidInputError(f"leakage={leakage!r} is not a budget: give nats, 0 or more")
        x, y = self.with_ends()
        fits = np.flatnonzero(y <= leakage)
        i = int(fits[np.argmax(x[fits])])
        beyond = np.flatnonzero((y > leakage) & (x > x[i]))
        if beyond.size == 0:
            return self.at(float(x[i]))
        j = int(beyond[np.argmin(x[beyond])])
        low, spent, high = self.ends.averages(np.array([y[i], leakage, y[j]]))
        share = float((spent - low) / (high - low))
        return self.at(float(x[i] + share * (x[j] - x[i])))

    def achieved(self, disclosure: ArrayLike) -> Array:
        """The leakage of time-shared neighbours at disclosures of any shape, in nats or the measure's own numbers."""
        x, y = self.with_ends()
        return self.ends.leakages(np.interp(np.asarray(disclosure), x, self.ends.averages(y)))

    def with_ends(self) -> tuple[Array, Array]:
        """Disclosures and leakages of the points with the ends that are known, by disclosure; nats."""
        ends = [Point(0.0, 0.0), Point(self.problem.disclosure_ceiling, self.problem.leakage_ceiling)]
        if self.threat is not None:
            ends = [point for point, _ in self.ends.known]
        x = np.concatenate([[ends[0].disclosure], self.disclosure, [p.disclosure for p in ends[1:]]])
        y = np.concatenate([[ends[0].leakage], self.leakage, [p.leakage for p in ends[1:]]])
        order = np.argsort(x, kind="stable")
        return x[order], y[order]

    def plot(self, **options: Any) -> Figure:
        """Draw the curve with its bounds: see :func:`privfunnel.plot.curve`."""
        from privfunnel import plot  # plots are an extra, and a room above this one

        return plot.curve(self, **options)

    def to_frame(self) -> DataFrame:
        """One row a point as a pandas frame, in nats (needs pandas)."""
        pandas = need("pandas", extra="tables")
        frame: DataFrame = pandas.DataFrame(self.rows())
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a point: what the CSV file and the frame hold, in nats."""
        h_x, i_sx = self.problem.disclosure_ceiling, self.leakage_ceiling
        return [
            {
                "disclosure": s.disclosure,
                "disclosure_share": s.disclosure / h_x if h_x > 0.0 else 1.0,
                "leakage": s.leakage,
                "leakage_share": s.leakage / i_sx if i_sx > 0.0 else 0.0,
                "lower_bound": s.lower_bound,
                "gap": s.gap,
                "bound_source": s.bound_source,
                "closed_form_lower": float(closed_form(self.problem, self.threat, s.disclosure)),
                "closed_form_upper": None
                if self.ends.most is None or not usual(self.threat)
                else float(self.problem.upper_bound(s.disclosure)),
                "slope": s.slope,
                "status": s.status.value,
                "outputs": s.n_outputs,
                **({} if self.threat is None else {"worst_attacker": worst_attacker(s)}),
            }
            for s in self.solutions
        ]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form with every channel; certificates live in files of their own."""
        return {
            **self.stored_run(),
            "disclosure_ceiling": self.problem.disclosure_ceiling,
            "leakage_ceiling": self.leakage_ceiling,
            "problem": self.problem.to_dict(),
            **({} if self.classes is None else {"classes": lumping_of(self.problem).classes.tolist()}),
            "points": [{**s.summary(), **_without_classes(s.stored_channel())} for s in self.solutions],
            **self.stored_limit(),
            "raw": [list(point) for point in self.raw],
        }

    def stored_run(self) -> dict[str, Any]:
        """What a file of any curve begins with: what it is, and of which run."""
        return {
            **self.heading(),
            **({"version": 1} if self.threat is None else {"threat": self.threat.to_dict()}),
            "units": "nats",
            "solver": self.solver,
            "seed": self.seed,
            "complete": self.complete,
            "target_gap": self.target_gap,
        }

    def stored_limit(self) -> dict[str, Any]:
        """The release at which guarantees end the curve, as files hold it; nothing where they do not."""
        limit = self.limit
        return {} if limit is None else {"limit": {**limit.summary(), **limit.stored_channel()}}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        with cls.reading(data):
            if data["solver"] == "bottleneck":  # version 0.1.0 gave both kinds of curve one schema
                raise InvalidInputError(
                    "the file holds a bottleneck, not a funnel: read it with bottleneck.BottleneckCurve.load"
                )
            problem = Problem.from_dict(data["problem"])
            shared = {name: data[name] for name in ("classes", "threat") if name in data}
            points = [
                Solution(problem=problem, **fields_from({**p, **shared}, problem)) for p in data["points"]
            ]
            curve = cls(
                problem=problem,
                solutions=tuple(points),
                raw=tuple(Point(*map(float, point)) for point in data["raw"]),
                solver=data["solver"],
                seed=data["seed"],
                complete=data["complete"],
                target_gap=data["target_gap"],
                threat=Threat.from_dict(data["threat"]) if "threat" in data else None,
                limit=Solution(problem=problem, **fields_from({**data["limit"], **shared}, problem))
                if "limit" in data
                else None,
            )
            if "classes" not in shared:
                return curve
            classes = lumping_of(problem).lumped
            return replace(
                curve, classes=replace(curve, problem=classes, solutions=tuple(map(lowered, points)))
            )


def lifted_curve(lumping: Lumping, inner: Curve, wanted: Iterable[float]) -> Curve:
    """The curve of the members, at the ``wanted`` disclosures that the curve of the classes has points for; nats."""
    if lumping.trivial:
        return inner
    plain = [c for c in inner.certificates if isinstance(c, Certificate)]
    verify_all(lumping.problem, [c.on_members(lumping.problem, lumping.cells) for c in plain])
    points = {s.requested: s for s in inner.solutions}
    at = [(r, points.get(lumping.inner(r))) for r in wanted]
    more = lumping.h_within
    return replace(
        inner,
        problem=lumping.problem,
        solutions=tuple(lifted(lumping, point, requested=r) for r, point in at if point is not None),
        raw=tuple(Point(point.disclosure + more, point.leakage) for point in inner.raw),
        classes=inner,
    )


def worst_attacker(solution: Solution) -> str:
    """What the attacker knows who learns most; of several who learn the same up to rounding, the first."""
    most = max(solution.leakages.values())
    return next(who for who, leakage in solution.leakages.items() if leakage >= most - FEASIBILITY)


def strengthened(solution: Solution, certificates: Iterable[AnyCertificate], gap: float) -> Solution:
    """A guarded solution at a disclosure, with the best bound that its curve's certificates prove there.

    Args:
        solution: The solution; one that failed stays as it is.
        certificates: Proofs for the same problem and threat, verified before: each is a line below the whole curve.
        gap: The gap in nats at which an answer is proved optimal.
    """
    if solution.requested is None or solution.status in (Status.FAILED, Status.INFEASIBLE):
        return solution
    at = np.asarray(solution.requested)
    proofs = {proof: float(_line(solution.problem, solution.threat, proof, at)) for proof in certificates}
    best = max(proofs, key=lambda proof: proofs[proof], default=None)
    if best is None or proofs[best] <= solution.lower_bound:
        return solution
    lower = proofs[best]
    if solution.threat is not None and solution.threat.guarantees and lower <= solution.leakage + INEXACT:
        lower = min(lower, solution.leakage)  # guarantees are met up to rounding
    lower = meet(lower, solution.leakage, "certificate")
    proved = solution.leakage - lower <= gap + ROUNDING
    status = final_status(solution.status, met=True, proved=proved)
    told = None if solution.threat is None else Dominated.of(solution.problem, solution.threat)
    source = told.source if told is not None and isinstance(best, Certificate) else "certificate"
    return replace(solution, lower_bound=lower, bound_source=source, certificate=best, status=status)


def _line(problem: Problem, threat: Threat | None, certificate: AnyCertificate, disclosure: Array) -> Array:
    """What a certificate proves of the (largest) leakage at disclosures of any shape, in nats or its own numbers."""
    if isinstance(certificate, Certificate):
        line = np.asarray(certificate.intercept + certificate.slope * disclosure)
        if threat is None:
            return line
        told = Dominated.of(problem, threat)
        # Who knows what is published may learn less than I(S;Y): a plain line says nothing of them.
        return np.full_like(line, -np.inf) if told is None else told.leakage(line)
    return np.asarray(np.vectorize(certificate.lower_bound, otypes=[np.float64])(disclosure))


def _without_classes(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored channel without its classes: a curve's file holds them once."""
    return {name: value for name, value in stored.items() if name != "classes"}


@dataclass(frozen=True, eq=False)
class AchievedPoints:
    """Channels with their statuses, the two ends of the curve included, and the envelope of their points."""

    envelope: Envelope
    statuses: tuple[Status, ...]

    @classmethod
    def of(cls, ends: Ends, found: Iterable[tuple[Point, Array, Status]]) -> AchievedPoints:
        """The points found, each with its channel and how its run ended, and the ends that are known."""
        pool = [*found, *((point, channel, Status.OPTIMAL) for point, channel in ends.known)]
        # Time sharing is linear in averages, of which maximal leakage is the logarithm.
        mixing = [(point.disclosure, ends.convex.average(point.leakage)) for point, _, _ in pool]
        envelope = Envelope.of(mixing, [channel for _, channel, _ in pool])
        return cls(envelope, tuple(pool[i][2] for i in envelope.index))

    def answer(self, disclosure: float) -> Answer:
        """The envelope at a disclosure: a vertex's own channel (the same object), or two that are time-shared."""
        at = self.envelope.vertex(disclosure)
        if at is None:
            around = (self.statuses[i] for i in self.envelope.neighbours(disclosure)[:2])
            status = next((status for status in around if status in UNFINISHED), Status.FEASIBLE)
        else:
            status = self.statuses[at]
        return Answer(
            channel=self.envelope.channel(disclosure), status=status, slope=self.envelope.slope(disclosure)
        )
