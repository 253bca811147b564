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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privfunnel import channels
from privfunnel.curve import Curve
from privfunnel.envelope import Envelope
from privfunnel.errors import InvalidInputError, need
from privfunnel.measures import NATS_PER_BIT, Array
from privfunnel.problem import Point, Problem
from privfunnel.solution import Solution, Status
from privfunnel.solvers.options import check_positive, check_whole
from privfunnel.solving import check_disclosure, check_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True, eq=False)
class BottleneckCurve(Curve):
    """A traced bottleneck: a :class:`~privfunnel.curve.Curve` that is concave, and best where ``leakage`` is largest.

    ``disclosure`` is the rate I(X;Y), ``leakage`` the relevance I(S;Y), ``slope`` is 1/β. ``lower_bound`` keeps its
    meaning (no channel of that disclosure leaks less); what bounds the bottleneck is :attr:`upper_bound`.
    """

    @property
    def upper_bound(self) -> Array:
        """No channel of that rate tells more: ``min(R, I(S;X))``, shape (points,), in nats."""
        return np.minimum(self.disclosure, self.problem.leakage_ceiling)

    def at(self, disclosure: float) -> Solution:
        """The curve at any rate in nats: a channel that time-shares its two neighbours."""
        rate = check_disclosure(self.problem, disclosure)
        found = [(s.channel, s.slope or 0.0, s.status) for s in self.solutions]
        return _answer(self.problem, _Points(self.problem, found), rate, self.seed)

    def plot(self, *, units: str = "nats", **options: Any) -> Figure:
        """Draw the curve below its closed-form bound (needs matplotlib); ``units`` is ``"nats"`` or ``"bits"``."""
        if options:
            raise InvalidInputError(
                f"a bottleneck plot has no option {next(iter(options))!r}: it has units alone"
            )
        unit = {"nats": 1.0, "bits": 1.0 / NATS_PER_BIT}.get(units)
        if unit is None:
            raise InvalidInputError(f"units={units!r} are not known: use 'nats' or 'bits'")
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
    points = _Points(problem)
    warm: Array | None = None
    for _ in range(40):
        envelope = points.envelope()
        slope, before = -envelope.slope(wanted), envelope.value(wanted)
        # A chord of slope 0 is flat: nothing above it. One of slope 1 meets the bound I(S;Y) ≤ I(X;Y).
        if slope <= 1e-9 or slope >= 1.0:
            break
        channel, status = _best(problem, 1.0 / slope, rng, restarts, tolerance, max_steps, warm)
        points.add(channel, slope, status)
        warm = channel
        if points.envelope().value(wanted) >= before - 1e-10:
            break
    return _answer(problem, points, wanted, seed, time.perf_counter() - started)


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
    found = _Points(problem)
    warm: Array | None = None
    for beta in betas[::-1]:
        channel, status = _best(problem, float(beta), rng, restarts, tolerance, max_steps, warm)
        found.add(channel, 1.0 / float(beta), status)
        warm = channel
    solutions = tuple(_answer(problem, found, rate, seed) for rate in wanted)
    raw = tuple(sorted(found.points))
    return BottleneckCurve(problem=problem, solutions=solutions, raw=raw, solver="bottleneck", seed=seed)


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
    p_y = np.maximum(problem.p_x @ channel, _TINY)
    log_t = np.log(np.maximum(problem.p_sx @ channel / p_y, _TINY))
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


class _Points:
    """Channels found, and the upper concave envelope of their points; X itself and nothing are always there."""

    def __init__(self, problem: Problem, found: Iterable[tuple[Array, float, Status]] = ()) -> None:
        self.problem = problem
        self.channels: list[Array] = []
        self.slopes: list[float] = []
        self.statuses: list[Status] = []
        self.points: list[Point] = []
        self.add(channels.constant(problem.n_x), 1.0, Status.CONVERGED)
        self.add(channels.identity(problem.n_x), 0.0, Status.CONVERGED)
        for channel, slope, status in found:
            self.add(channel, slope, status)

    def add(self, channel: Array, slope: float, status: Status) -> None:
        """Keep a channel."""
        self.channels.append(channel)
        self.slopes.append(slope)
        self.statuses.append(status)
        self.points.append(self.problem.evaluate(channel))

    def envelope(self) -> Envelope:
        """The upper concave envelope, as the lower one of (I(X;Y), −I(S;Y))."""
        return Envelope.of([(point.disclosure, -point.leakage) for point in self.points], self.channels)


def _answer(problem: Problem, points: _Points, rate: float, seed: int, seconds: float = 0.0) -> Solution:
    """The envelope at ``rate`` as a channel."""
    envelope = points.envelope()
    both = {points.statuses[envelope.index[i]] for i in envelope.neighbours(rate)[:2]}
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
        channel=channel,
        disclosure=point.disclosure,
        leakage=point.leakage,
        lower_bound=float(problem.lower_bound(point.disclosure)),
        bound_source="closed form",
        slope=slope,
        status=status,
        requested=rate,
        solver="bottleneck",
        seed=seed,
        seconds=seconds,
    )


def _check(restarts: int, tolerance: float, max_steps: int, seed: int) -> None:
    check_whole("bottleneck", 0, restarts=restarts)
    check_whole("bottleneck", 1, max_steps=max_steps)
    check_positive("bottleneck", tolerance=tolerance)
    check_seed(seed)
