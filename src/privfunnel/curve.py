"""The whole curve: many points, their lower convex envelope, and a real channel for each."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import channels
from privfunnel.certificate import Certificate, verify_all
from privfunnel.checks import check_seed
from privfunnel.envelope import Envelope, convex_bound
from privfunnel.errors import (
    CertificateError,
    ConvergenceWarning,
    InvalidInputError,
    SolverError,
    need,
)
from privfunnel.measures import Array
from privfunnel.problem import Point, Problem
from privfunnel.solution import DEFAULT_GAP, FEASIBILITY, Answer, Solution, Status, fields_from
from privfunnel.solvers import registry
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solving import (
    ROUNDING,
    UNFINISHED,
    check_disclosure,
    judge,
    meet,
)
from privfunnel.storage import check_schema, read_json, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SCHEMA = "privfunnel/curve"
SCHEMA_VERSION = 1

#: More points than this draw no better curve.
MOST_POINTS = 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """A traced funnel: convex, nondecreasing, each point with a channel that achieves it; nats.

    Attributes:
        problem: The problem.
        solutions: Points of the lower convex envelope, by increasing disclosure.
        raw: Every point found, as the solver found it.
        solver: Name of the solver.
        seed: Seed of the run.
        complete: False when the run was interrupted and the curve holds what was found until then.
        target_gap: The gap in nats at which a point counts as proved optimal.
    """

    problem: Problem
    solutions: tuple[Solution, ...]
    raw: tuple[Point, ...]
    solver: str
    seed: int
    complete: bool = True
    target_gap: float = DEFAULT_GAP

    def __repr__(self) -> str:
        """One line with the number of points and the largest gap."""
        proved = sum(status is Status.OPTIMAL for status in self.status)
        return (
            f"Curve({len(self.solutions)} points of {self.problem!r}, {proved} proved optimal, largest gap "
            f"{self.gap.max(initial=0.0):.3g} nats, {self.solver})"
        )

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
    def certificates(self) -> tuple[Certificate, ...]:
        """The proofs behind the curve's bounds, each once, in the order of the points they prove."""
        proofs = (solution.certificate for solution in self.solutions)
        return tuple(dict.fromkeys(proof for proof in proofs if proof is not None))

    @cached_property
    def _pool(self) -> _Pool:
        found = ((Point(s.disclosure, s.leakage), s.channel, s.status) for s in self.solutions)
        return _Pool.of(self.problem, found)

    def proved(self, disclosure: ArrayLike) -> Array:
        """The best lower bound on L(R) that is proved, at disclosures of any shape in [0, H(X)]; nats.

        The largest of the closed form, of the certificates' lines, each of which is below the whole curve, and of what
        the convexity of L makes of the points: see :func:`~privfunnel.envelope.convex_bound`. The curve's two ends,
        L(0) = 0 and L(H(X)) = I(S;X), are known.
        """
        at = np.asarray(disclosure, dtype=np.float64)
        bound = self.problem.lower_bound(at)
        for certificate in self.certificates:
            bound = np.maximum(bound, certificate.intercept + certificate.slope * at)
        ends = np.array([[0.0, 0.0], [self.problem.disclosure_ceiling, self.problem.leakage_ceiling]])
        # A bound holds at the disclosure that was asked for, a leakage at the one that its channel has.
        asked = [s.disclosure if s.requested is None else s.requested for s in self.solutions]
        achieved = np.vstack([np.column_stack([self.disclosure, self.leakage]), ends]).T
        proved = np.vstack([np.column_stack([asked, self.lower_bound]), ends]).T
        bound = np.maximum(bound, convex_bound(at, (achieved[0], achieved[1]), (proved[0], proved[1])))
        # What rounding puts above a real channel is not proved.
        return np.asarray(np.minimum(bound, Envelope.of(achieved.T).value(at)))

    def at(self, disclosure: float) -> Solution:
        """The curve at any disclosure in nats: a channel that time-shares its two neighbours."""
        wanted = check_disclosure(self.problem, disclosure)
        return self._judge(self._pool.answer(wanted), wanted)

    def within(self, leakage: float) -> Solution:
        """The most disclosure that the curve achieves within a leakage budget in nats."""
        if not leakage >= 0.0:
            raise InvalidInputError(f"leakage={leakage!r} is not a budget: give nats, 0 or more")
        x = np.concatenate([[0.0], self.disclosure, [self.problem.disclosure_ceiling]])
        y = np.concatenate([[0.0], self.leakage, [self.problem.leakage_ceiling]])
        fits = np.flatnonzero(y <= leakage)
        i = int(fits[np.argmax(x[fits])])
        beyond = np.flatnonzero((y > leakage) & (x > x[i]))
        if beyond.size == 0:
            return self.at(float(x[i]))
        j = int(beyond[np.argmin(x[beyond])])
        share = (leakage - y[i]) / (y[j] - y[i])
        return self.at(float(x[i] + share * (x[j] - x[i])))

    def _judge(self, answer: Answer, disclosure: float) -> Solution:
        """Judge an answer with the best of the curve's certificates: each proves a line below the whole curve."""
        plain = judge(
            self.problem,
            replace(answer, certificate=None),
            self.solver,
            self.seed,
            gap=self.target_gap,
            requested=disclosure,
        )
        sources = {s.certificate: s for s in self.solutions if s.certificate is not None}
        lines = [(proof.lower_bound(disclosure), sources[proof]) for proof in self.certificates]
        if not lines:
            return plain
        proved, best = max(lines, key=lambda line: line[0])
        if proved <= plain.lower_bound:
            return plain
        proved = meet(proved, plain.leakage, "certificate")
        status = plain.status
        close = plain.leakage - proved <= self.target_gap + ROUNDING
        if close and status in (Status.CONVERGED, Status.FEASIBLE, *UNFINISHED):
            status = Status.OPTIMAL
        source = best.bound_source if best.bound_source not in ("zero", "closed form") else "certificate"
        return replace(
            plain, lower_bound=proved, bound_source=source, certificate=best.certificate, status=status
        )

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
        h_x, i_sx = self.problem.disclosure_ceiling, self.problem.leakage_ceiling
        return [
            {
                "disclosure": s.disclosure,
                "disclosure_share": s.disclosure / h_x if h_x > 0.0 else 1.0,
                "leakage": s.leakage,
                "leakage_share": s.leakage / i_sx if i_sx > 0.0 else 0.0,
                "lower_bound": s.lower_bound,
                "gap": s.gap,
                "bound_source": s.bound_source,
                "closed_form_lower": float(self.problem.lower_bound(s.disclosure)),
                "closed_form_upper": float(self.problem.upper_bound(s.disclosure)),
                "slope": s.slope,
                "status": s.status.value,
                "outputs": s.channel.shape[1],
            }
            for s in self.solutions
        ]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form with every channel; certificates live in files of their own."""
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "units": "nats",
            "solver": self.solver,
            "seed": self.seed,
            "complete": self.complete,
            "target_gap": self.target_gap,
            "disclosure_ceiling": self.problem.disclosure_ceiling,
            "leakage_ceiling": self.problem.leakage_ceiling,
            "problem": self.problem.to_dict(),
            "points": [{**s.summary(), "channel": s.channel.tolist()} for s in self.solutions],
            "raw": [list(point) for point in self.raw],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Curve:
        """Read back what :meth:`to_dict` wrote; every channel is evaluated again."""
        check_schema(data, SCHEMA, SCHEMA_VERSION)
        if data.get("solver") == "bottleneck":  # version 0.1.0 gave both kinds of curve one schema
            raise InvalidInputError(
                "the file holds a bottleneck, not a funnel: read it with bottleneck.BottleneckCurve.load"
            )
        try:
            problem = Problem.from_dict(data["problem"])
            return cls(
                problem=problem,
                solutions=tuple(Solution(problem=problem, **fields_from(p, problem)) for p in data["points"]),
                raw=tuple(Point(*map(float, point)) for point in data["raw"]),
                solver=data["solver"],
                seed=data["seed"],
                complete=data["complete"],
                target_gap=data["target_gap"],
            )
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"not a complete curve file: {error} is missing or malformed") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the curve as JSON."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Curve:
        """Read a curve written by :meth:`save`."""
        return cls.from_dict(read_json(path))


@dataclass(frozen=True, eq=False)
class _Pool:
    """Channels with their statuses, the two ends of the curve included, and the envelope of their points."""

    envelope: Envelope
    statuses: tuple[Status, ...]

    @classmethod
    def of(cls, problem: Problem, found: Iterable[tuple[Point, Array, Status]]) -> _Pool:
        ends = (channels.constant(problem.n_x), channels.identity(problem.n_x))
        pool = [*found, *((problem.evaluate(channel), channel, Status.OPTIMAL) for channel in ends)]
        envelope = Envelope.of([point for point, _, _ in pool], [channel for _, channel, _ in pool])
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


def trace(
    problem: Problem,
    *,
    points: int = 20,
    disclosures: Iterable[float] | None = None,
    refine: int = 0,
    solver: str | Solver = "auto",
    seed: int = 0,
    throw: bool = True,
    progress: Listener | None = None,
    **options: Any,
) -> Curve:
    """Trace the funnel's curve.

    Everything the solver finds goes into one pool, whose lower convex envelope is achievable by time sharing; each
    returned point lies on it and has a channel of its own. An interrupt (Ctrl-C) returns the curve of what was found
    until then, with ``complete=False``.

    Args:
        problem: The problem.
        points: Number of points, spaced uniformly in disclosure from 0 to H(X).
        disclosures: The disclosures in nats, instead of ``points``.
        refine: Number of further points, placed one after the other where the curve bends most.
        solver: A solver's name or object.
        seed: Fixes all randomness.
        throw: If True, warn of points that did not converge; if False their status says so.
        progress: Called with news of a long run.
        **options: Options of the solver.

    Returns:
        The curve.
    """
    engine = registry.get(solver, **options)
    check_seed(seed)
    for name, value, least in (("points", points, 2), ("refine", refine, 0)):
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, np.integer))
            or not least <= value <= MOST_POINTS
        ):
            raise InvalidInputError(
                f"{name}={value!r} is not usable: give a whole number from {least} to {MOST_POINTS}"
            )
    if disclosures is None:
        wanted = [float(x) for x in np.linspace(0.0, problem.disclosure_ceiling, int(points))]
    else:
        wanted = sorted({check_disclosure(problem, value) for value in disclosures})
        if not wanted:
            raise InvalidInputError("disclosures is empty: give at least one value in nats")
    found: list[Answer] = []
    complete = True
    try:
        inner = [r for r in wanted if 0.0 < r < problem.disclosure_ceiling]  # the ends need no solver
        for answer in engine.trace(problem, inner, seed=seed, progress=progress) if inner else ():
            found.append(answer)
        for _ in range(int(refine)):
            extra = _bend(problem, found, wanted)
            found.append(engine.solve(problem, extra, seed=seed, progress=progress))
            wanted = sorted([*wanted, extra])
    except KeyboardInterrupt:
        complete = False
    if not found and not complete:
        raise KeyboardInterrupt
    curve = assemble(problem, found, wanted, engine, seed, complete=complete)
    if throw:
        _warn_unfinished(curve)
    return curve


def assemble(
    problem: Problem,
    found: list[Answer],
    wanted: list[float],
    engine: Solver,
    seed: int,
    *,
    complete: bool = True,
) -> Curve:
    """Build a curve at the wanted disclosures from whatever answers there are."""
    usable = [a for a in found if a.status is not Status.FAILED]
    if not usable and any(0.0 < r < problem.disclosure_ceiling for r in wanted):
        told = next((a.message for a in found if a.message), "no message")
        raise SolverError(f"solver {engine.name!r} found no channel ({told}): {Status.FAILED.advice}")
    judged = [(problem.evaluate(a.channel), a) for a in usable]
    pool = _Pool.of(problem, ((point, a.channel, a.status) for point, a in judged))
    if not complete:
        reached = max((point.disclosure for point, _ in judged), default=0.0)
        wanted = [r for r in wanted if r <= reached + FEASIBILITY]
    with contextlib.suppress(CertificateError):  # one that does not hold is named when it is judged
        verify_all(problem, (a.certificate for a in usable if a.certificate is not None))
    base = Curve(
        problem=problem,
        # Every certificate counts, whichever point it ends up proving.
        solutions=tuple(
            judge(problem, a, engine.name, seed, gap=engine.target_gap)
            for a in usable
            if a.certificate is not None
        ),
        raw=tuple(sorted(point for point, _ in judged)),
        solver=engine.name,
        seed=seed,
        complete=complete,
        target_gap=engine.target_gap,
    )
    solutions = []
    for disclosure in wanted:
        answer = pool.answer(disclosure)
        own = next((a for a in usable if a.channel is answer.channel), answer)
        solutions.append(base._judge(own, disclosure))
    return replace(base, solutions=tuple(solutions))


def _bend(problem: Problem, found: list[Answer], wanted: list[float]) -> float:
    """Where one more point would tell most: the middle of the interval whose chord may be furthest from the curve."""
    usable = [a for a in found if a.status is not Status.FAILED]
    pool = _Pool.of(problem, ((problem.evaluate(a.channel), a.channel, a.status) for a in usable))
    x = np.unique([0.0, *wanted, problem.disclosure_ceiling])
    y = pool.envelope.value(x)
    slopes = np.diff(y) / np.diff(x)
    before = np.concatenate([[0.0], slopes[:-1]])
    after = np.concatenate([slopes[1:], [1.0]])
    # A convex curve through the ends of a chord with the neighbours' slopes lies within this triangle's height.
    room = np.diff(x) * (slopes - before) * (after - slopes) / np.maximum(after - before, 1e-12)
    # Of intervals with the same room (all of them, on a straight curve) the widest goes first.
    i = int(np.argmax(room + 1e-12 * np.diff(x)))
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
