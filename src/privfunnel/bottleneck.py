"""The information bottleneck, the funnel's dual: most I(S;Y) for at most R nats of I(X;Y).

Same :class:`~privfunnel.problem.Problem`, same channel X → Y, opposite wish: S is what the release should tell, and
I(X;Y) is the rate it may cost. Solved by the Blahut-Arimoto iteration of Tishby, Pereira and Bialek,

    ``p(y|x) ∝ p(y) exp(−β D(p(s|x) ‖ p(s|y)))``,

which lowers ``I(X;Y) − β I(S;Y)`` for a multiplier β; the slope of the curve is ``1/β``. Points between two of its
answers are reached by time sharing. The curve is concave and lies between the funnel's and ``min(R, I(S;X))``.

    >>> import privfunnel as pf
    >>> problem = pf.Problem([[0.4, 0.1], [0.1, 0.4]])
    >>> round(pf.bottleneck.solve(problem, rate=0.3).leakage, 4)
    0.1001
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from privfunnel import channels
from privfunnel.amounts import check_disclosure
from privfunnel.checks import check_seed
from privfunnel.curve import Curve
from privfunnel.envelope import Envelope
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import TINY, Array, nats_per
from privfunnel.problem import Point, Problem
from privfunnel.solution import Solution, Status, fields_from
from privfunnel.solvers.options import check_positive, check_whole
from privfunnel.storage import Stored

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the curve and its points are said to come from.
SOLVER = "bottleneck"

#: Multipliers that are tried for one rate, at most.
MOST_MULTIPLIERS = 40

#: A chord of no more than this slope is flat; a gain of no more than PROGRESS nats is none.
FLAT, PROGRESS = 1e-9, 1e-10


@dataclass(frozen=True, eq=False)
class _Found:
    """A channel that a run ended with, its point, and how the run ended."""

    channel: Array
    point: Point
    status: Status


@dataclass(frozen=True, kw_only=True, eq=False)
class BottleneckCurve(Stored):
    """A traced bottleneck: concave, nondecreasing, each point with a channel that achieves it; nats.

    No :class:`~privfunnel.curve.Curve`: the best point here is the highest, and what bounds it is :attr:`upper_bound`.
    The names are a funnel's, so that the two can be drawn on one plane.

    Attributes:
        problem: The problem.
        solutions: Points of the upper concave envelope, by increasing rate.
        raw: Every point found, as the iteration found it.
        seed: Seed of the run.
    """

    schema: ClassVar[str] = "privfunnel/bottleneck-curve"
    solver: ClassVar[str] = SOLVER

    problem: Problem
    solutions: tuple[Solution, ...]
    raw: tuple[Point, ...]
    seed: int

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
        """No channel of that rate tells more: ``min(R, I(S;X))``, shape (points,), in nats."""
        return np.minimum(self.disclosure, self.problem.leakage_ceiling)

    @cached_property
    def envelope(self) -> Envelope:
        """The curve as an :class:`~privfunnel.envelope.Envelope` of the points (I(X;Y), −I(S;Y)), ends included."""
        return _envelope(self._found)

    @cached_property
    def _found(self) -> list[_Found]:
        points = [_Found(s.channel, Point(s.disclosure, s.leakage), s.status) for s in self.solutions]
        return [*_ends(self.problem), *points]

    def at(self, disclosure: float) -> Solution:
        """The curve at any rate in nats: a channel that time-shares its two neighbours."""
        rate = check_disclosure(self.problem, disclosure)
        return _answer(self.problem, self._found, self.envelope, rate, self.seed)

    def plot(self, *, units: str = "nats", **options: Any) -> Figure:
        """Draw the curve below its closed-form bound (needs matplotlib); ``units`` is ``"nats"`` or ``"bits"``."""
        if options:
            raise InvalidInputError(
                f"a bottleneck plot has no option {next(iter(options))!r}: it has units alone"
            )
        unit = 1.0 / nats_per(units)
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(5.2, 3.6), layout="constrained"
        )
        ax = figure.add_subplot()
        ends = np.array([0.0, self.problem.leakage_ceiling, self.problem.disclosure_ceiling]) * unit
        ax.plot(ends, np.minimum(ends, ends[1]), color="#666666", lw=0.8, ls="--", label="min(R, I(S;X))")
        ax.plot(self.disclosure * unit, self.leakage * unit, color="#0072B2", lw=1.4, marker="o", ms=3.0,
                label="achieved (bottleneck)")  # fmt: skip
        ax.set_xlabel(f"rate $I(X;Y)$ [{units}]")
        ax.set_ylabel(f"relevance $I(S;Y)$ [{units}]")
        ax.legend(loc="lower right", fontsize=8, frameon=False)
        return figure

    def to_dict(self) -> dict[str, Any]:
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
        if isinstance(data, dict) and (data.get("schema"), data.get("solver")) == (Curve.schema, SOLVER):
            data = {**data, "schema": cls.schema}  # so version 0.1.0 wrote it; the entries are the same
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"])
            return cls(
                problem=problem,
                solutions=tuple(Solution(problem=problem, **fields_from(p, problem)) for p in data["points"]),
                raw=tuple(Point(*map(float, point)) for point in data["raw"]),
                seed=data["seed"],
            )


def solve(
    problem: Problem,
    *,
    rate: float | None = None,
    multiplier: float | None = None,
    restarts: int = 4,
    tolerance: float = 1e-9,
    max_steps: int = 5000,
    seed: int = 0,
) -> Solution:
    """Solve one point of the bottleneck.

    Args:
        problem: The problem.
        rate: The most I(X;Y) allowed, 0 ≤ rate ≤ H(X), in nats: the multiplier is searched, and two neighbours are
            time-shared where it jumps over the rate.
        multiplier: β ≥ 1 instead of a rate: minimise ``I(X;Y) − β I(S;Y)``. Give exactly one of the two.
        restarts: Random starts beside the one from X itself.
        tolerance: Stop when no entry of p(y|x) moves by more.
        max_steps: Cap on iterations a run.
        seed: Fixes all randomness.

    Returns:
        The solution: ``leakage`` is the relevance I(S;Y), ``disclosure`` the rate I(X;Y), ``slope`` is 1/β.
    """
    _check(restarts, tolerance, max_steps, seed)
    if (rate is None) == (multiplier is None):
        raise InvalidInputError("give exactly one of rate= (nats, the most I(X;Y)) and multiplier= (β ≥ 1)")
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    if multiplier is not None:
        if not 1.0 <= multiplier < math.inf:
            raise InvalidInputError(f"multiplier={multiplier!r} is not usable: give a finite β ≥ 1")
        channel, status = _best(problem, float(multiplier), rng, restarts, tolerance, max_steps, None)
        return _solution(
            problem, channel, 1.0 / multiplier, status, None, seed, time.perf_counter() - started
        )
    assert rate is not None
    wanted = check_disclosure(problem, rate)
    found = _ends(problem)
    envelope = _envelope(found)
    warm: Array | None = None
    for _ in range(MOST_MULTIPLIERS):
        slope, before = -envelope.slope(wanted), envelope.value(wanted)
        # A chord of slope 0 is flat: nothing above it. One of slope 1 meets the bound I(S;Y) ≤ I(X;Y).
        if slope <= FLAT or slope >= 1.0:
            break
        warm, status = _best(problem, 1.0 / slope, rng, restarts, tolerance, max_steps, warm)
        found.append(_Found(warm, problem.evaluate(warm), status))
        envelope = _envelope(found)
        if envelope.value(wanted) >= before - PROGRESS:
            break
    return _answer(problem, found, envelope, wanted, seed, time.perf_counter() - started)


def trace(
    problem: Problem,
    *,
    points: int = 20,
    rates: Iterable[float] | None = None,
    multipliers: Iterable[float] | None = None,
    restarts: int = 1,
    tolerance: float = 1e-9,
    max_steps: int = 5000,
    seed: int = 0,
) -> BottleneckCurve:
    """Trace the bottleneck's curve by lowering β step by step from X itself (annealing), then time sharing.

    Args:
        problem: The problem.
        points: Number of rates, uniform from 0 to H(X).
        rates: The rates in nats, instead of ``points``.
        multipliers: β ≥ 1 of the sweep; 60 values, geometric in [1.001, 1000], by default.
        restarts: Random starts for each β beside the annealed one.
        tolerance: Stop when no entry of p(y|x) moves by more.
        max_steps: Cap on iterations a run.
        seed: Fixes all randomness.
    """
    _check(restarts, tolerance, max_steps, seed)
    check_whole("bottleneck", 2, points=points)
    chosen = np.linspace(0.0, problem.disclosure_ceiling, points) if rates is None else rates
    wanted = sorted({check_disclosure(problem, float(rate)) for rate in chosen})
    betas = (
        np.geomspace(1.001, 1000.0, 60)
        if multipliers is None
        else np.array(sorted(multipliers), dtype=np.float64)
    )
    if not (betas.size and np.isfinite(betas).all() and betas.min() >= 1.0 and wanted):
        raise InvalidInputError(
            "rates and multipliers must not be empty, and multipliers β must be finite and ≥ 1"
        )
    rng = np.random.default_rng(seed)
    found = _ends(problem)
    warm: Array | None = None
    for beta in betas[::-1]:
        warm, status = _best(problem, float(beta), rng, restarts, tolerance, max_steps, warm)
        found.append(_Found(warm, problem.evaluate(warm), status))
    envelope = _envelope(found)
    solutions = tuple(_answer(problem, found, envelope, rate, seed) for rate in wanted)
    raw = tuple(sorted(each.point for each in found))
    return BottleneckCurve(problem=problem, solutions=solutions, raw=raw, seed=seed)


def iterate(
    problem: Problem, channel: Array, beta: float, *, tolerance: float, max_steps: int
) -> tuple[Array, bool]:
    """Blahut-Arimoto from ``channel`` (M, N): the channel it ends at, and whether it stopped moving."""
    for _ in range(max_steps):
        new = update(problem, channel, beta)
        moved = float(np.abs(new - channel).max())
        channel = new
        if moved < tolerance:
            return channel, True
    return channel, False


def update(problem: Problem, channel: Array, beta: float) -> Array:
    """One iteration ``p(y|x) ∝ p(y) exp(−β D(p(s|x) ‖ p(s|y)))`` on a channel (M, N)."""
    p_y = np.maximum(problem.p_x @ channel, TINY)
    log_t = np.log(np.maximum(problem.p_sx @ channel / p_y, TINY))
    logits = np.log(p_y) + beta * (problem.p_s_given_x.T @ log_t)
    logits -= logits.max(axis=1, keepdims=True)
    new = np.exp(logits)
    return np.asarray(new / new.sum(axis=1, keepdims=True))


def _best(
    problem: Problem,
    beta: float,
    rng: np.random.Generator,
    restarts: int,
    tolerance: float,
    max_steps: int,
    warm: Array | None,
) -> tuple[Array, Status]:
    """The least ``I(X;Y) − β I(S;Y)`` over the runs from X itself, from ``warm`` and from random channels."""
    n_x = problem.n_x
    starts = [channels.identity(n_x)] if warm is None else [warm, channels.identity(n_x)]
    starts += list(rng.dirichlet(np.ones(n_x), size=(restarts, n_x)))
    best, least, status = channels.constant(n_x), 0.0, Status.CONVERGED
    for start in starts:
        channel, still = iterate(problem, start, beta, tolerance=tolerance, max_steps=max_steps)
        point = problem.evaluate(channel)
        value = point.disclosure - beta * point.leakage
        if value < least:
            best, least, status = channel, value, Status.CONVERGED if still else Status.MAX_STEPS
    return channels.merge_outputs(best), status


def _ends(problem: Problem) -> list[_Found]:
    """What needs no iteration: nothing, and X itself."""
    pair = (channels.constant(problem.n_x), channels.identity(problem.n_x))
    return [_Found(channel, problem.evaluate(channel), Status.CONVERGED) for channel in pair]


def _envelope(found: Sequence[_Found]) -> Envelope:
    """The upper concave envelope, as the lower one of (I(X;Y), −I(S;Y))."""
    points = [(each.point.disclosure, -each.point.leakage) for each in found]
    return Envelope.of(points, [each.channel for each in found])


def _answer(
    problem: Problem,
    found: Sequence[_Found],
    envelope: Envelope,
    rate: float,
    seed: int,
    seconds: float = 0.0,
) -> Solution:
    """The envelope of what was found, at ``rate``, as a channel."""
    both = {found[envelope.index[i]].status for i in envelope.neighbours(rate)[:2]}
    status = Status.MAX_STEPS if Status.MAX_STEPS in both else Status.CONVERGED
    return _solution(problem, envelope.channel(rate), -envelope.slope(rate), status, rate, seed, seconds)


def _solution(
    problem: Problem,
    channel: Array,
    slope: float,
    status: Status,
    rate: float | None,
    seed: int,
    seconds: float,
) -> Solution:
    """A solution whose every number is computed from the channel."""
    point = problem.evaluate(channel)
    return Solution(
        problem=problem,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=float(problem.lower_bound(point.disclosure)),
        bound_source="closed form",
        slope=slope,
        status=status,
        requested=rate,
        solver=SOLVER,
        seed=seed,
        seconds=seconds,
    )


def _check(restarts: int, tolerance: float, max_steps: int, seed: int) -> None:
    check_whole("bottleneck", 0, restarts=restarts)
    check_whole("bottleneck", 1, max_steps=max_steps)
    check_positive("bottleneck", tolerance=tolerance)
    check_seed(seed)
