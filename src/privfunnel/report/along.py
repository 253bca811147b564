"""Curves that go along something else than disclosure: the utility of a task, or how much records are changed."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape

import numpy as np

from privfunnel.distortion import DistortionCurve, DistortionSolution
from privfunnel.report import detail, parts, view
from privfunnel.report.chart import Mark, Picture, figure
from privfunnel.report.rounding import ZERO, Rounding, Towards
from privfunnel.report.scale import Scale
from privfunnel.solution import Solution
from privfunnel.task_curve import TaskCurve


def utility_section(curve: TaskCurve, chosen: Solution | None, say: Rounding) -> str:
    """Return the drawing of a task's curve, and in words what is free and what costs."""
    problem, tasks = curve.problem, " and ".join(curve.problem.required_tasks().names)
    scale = Scale.of_curve(curve)
    free, whole = view.free_utility(curve), problem.utility_ceiling
    drawn = view.picture(curve, free_disclosure=free, chosen=chosen)
    lead = (
        f"The public columns tell {say.bits(whole)} about {tasks}. Released as they are, they leak "
        f"{say.bits(problem.leakage_ceiling)} about the private data. "
    )
    if free > 0.0:
        kept = say.percent(view.share(free, whole, 1.0), "down")
        lead += f"A release that leaks nothing keeps {kept} or more of what they tell about {tasks}."
    else:
        lead += "No point of the curve keeps anything and leaks nothing."
    lead += _guarded(curve, tasks, say)
    return (
        f'<section><h2>The trade-off</h2><p class="lead">{escape(lead)}</p>'
        f"{figure(detail.published(drawn, say, scale))}"
        f'<p class="small quiet">{escape(detail.note(curve))}</p></section>'
    )


def _guarded(curve: TaskCurve, tasks: str, say: Rounding) -> str:
    """Say whose leakage the curve of guarded releases shows, and where guarantees end it."""
    if curve.threat is None:
        return ""
    scale = Scale.of_curve(curve)
    words = f" Shown is the largest leakage, {curve.threat.conditions}.{detail.scale_words(scale, say)}"
    if curve.threat.published is not None and curve.solutions:
        told = say.bits(curve.solutions[0].published_leakage)
        words += f" What is published tells {told} by itself, which is not counted."
    if curve.limit is not None:
        most = say.percent(view.share(curve.most, curve.problem.utility_ceiling, 1.0))
        words += f" The guarantees allow {most} of what the public columns tell about {tasks}; the curve ends there."
    return words


def utility_points(curve: TaskCurve, say: Rounding) -> str:
    """Return the table of all points of a task's curve."""
    scale = Scale.of_curve(curve)

    def leaked(leakage: float, to: Towards = "near") -> str:
        return say.percent(scale.share(leakage), to)

    rows = [
        (
            say.percent(view.share(float(utility), curve.problem.utility_ceiling, 1.0)),
            leaked(s.leakage),
            leaked(s.lower_bound, "down"),
            say.percent(view.share(s.disclosure, curve.problem.disclosure_ceiling, 1.0)),
            view.status_text(s.status),
        )
        for utility, s in zip(curve.utility, curve.solutions, strict=True)
    ]
    heads = (
        "#utility, of I(U;X)",
        f"#leakage, of {scale.whole}",
        "#proved at least",
        "#disclosure, of H(X)",
        "status",
    )
    return f"<section><h2>Points</h2>{parts.table('', heads, rows)}</section>"


def distortion_section(curve: DistortionCurve, chosen: Solution | None, say: Rounding) -> str:
    """Return the drawing of the least leakage for every distortion, and in words what it costs to leak nothing."""
    ceiling = curve.problem.leakage_ceiling
    lead = f"Released as they are, the records leak {say.bits(ceiling)} about the private data. "
    last = curve.solutions[-1]
    most = f"{say.percent(view.share(last.leakage, ceiling, 0.0), 'up')} of that at most"
    leaked = "nothing" if last.leakage <= ZERO else most
    lead += f"Changed by {_cost(curve, last.distortion, say)} on average, they leak {leaked}."
    worst = max((s.gap for s in curve.solutions), default=0.0)
    note = (
        f"Distortion: {curve.costs.words}. {detail.proved_words(curve.status)}; no point is more than "
        f"{detail.above(worst)} bits above what is proved possible. Numbers are rounded, to protect the people behind "
        "them."
    )
    picture = figure(distortion_picture(curve, chosen, say))
    return (
        f'<section><h2>The trade-off</h2><p class="lead">{escape(lead)}</p>{picture}'
        f'<p class="small quiet">{escape(note)}</p></section>'
    )


def distortion_picture(curve: DistortionCurve, chosen: Solution | None, say: Rounding) -> Picture:
    """Return what the chart of a distortion funnel draws, with every number rounded: a drawing can be measured."""
    at = chosen if isinstance(chosen, DistortionSolution) else None
    ceiling = curve.problem.leakage_ceiling
    drawn = Picture(
        disclosure_ceiling=float(curve.distortion.max(initial=0.0)),
        leakage_ceiling=ceiling,
        h_x_given_s=0.0,
        marks=tuple(
            Mark(s.distortion, s.leakage, _bound(curve, s, say), view.status_text(s.status))
            for s in curve.solutions
        ),
        proved=_proved(curve),
        chosen=None if at is None else (at.distortion, at.leakage),
        along="distortion",
    )
    return _published(drawn, curve, say)


def distortion_points(curve: DistortionCurve, say: Rounding) -> str:
    """Return the table of all points of a distortion funnel."""
    ceiling = curve.problem.leakage_ceiling
    rows = [
        (
            _cost(curve, s.distortion, say),
            say.percent(view.share(s.leakage, ceiling, 0.0)),
            say.percent(view.share(_bound(curve, s, say), ceiling, 0.0), "down"),
            say.percent(view.share(s.disclosure, curve.problem.disclosure_ceiling, 1.0)),
            view.status_text(s.status),
        )
        for s in curve.solutions
    ]
    heads = ("#distortion", "#leakage, of I(S;X)", "#proved at least", "#disclosure, of H(X)", "status")
    return f"<section><h2>Points</h2>{parts.table('', heads, rows)}</section>"


def _rounded(curve: DistortionCurve, distortion: float, say: Rounding) -> float:
    """A mean cost in steps that are worth as many rows at the largest cost as those of a share.

    Rounded up: a release that changes less is one of those that change so much.
    """
    scale = curve.costs.scale
    return scale * say.share(distortion / scale, "up")


def _bound(curve: DistortionCurve, solution: DistortionSolution, say: Rounding) -> float:
    """What is proved at the distortion that is told of a point, in nats: less than at its own."""
    return min(solution.lower_bound, curve.proved(_rounded(curve, solution.distortion, say)))


def _cost(curve: DistortionCurve, distortion: float, say: Rounding) -> str:
    return f"{_rounded(curve, distortion, say):.3g}"


def _proved(curve: DistortionCurve) -> tuple[tuple[float, float], ...]:
    """The proved lower bound between the ends of the curve, as a polyline."""
    low, high = float(curve.distortion.min()), float(curve.distortion.max())
    grid = np.union1d(np.linspace(low, high, view.GRID + 1), curve.distortion)
    return tuple((float(d), curve.proved(float(d))) for d in grid)


def _published(drawn: Picture, curve: DistortionCurve, say: Rounding) -> Picture:
    """The picture with every number rounded: a drawing can be measured."""
    high = say.information(drawn.leakage_ceiling)

    def x(distortion: float) -> float:
        return _rounded(curve, distortion, say)

    def y(nats: float, to: Towards = "near") -> float:
        return say.share(view.share(nats, drawn.leakage_ceiling, 0.0), to) * high

    return replace(
        drawn,
        disclosure_ceiling=x(drawn.disclosure_ceiling) or math.ulp(1.0),
        leakage_ceiling=high,
        marks=tuple(
            Mark(x(m.disclosure), y(m.leakage), y(m.lower_bound, "down"), m.status) for m in drawn.marks
        ),
        # The bound of the rounded place itself: moved to the right, one of a falling curve would claim too much.
        proved=tuple((d, y(curve.proved(d), "down")) for d in sorted({x(d) for d, _ in drawn.proved})),
        chosen=None if drawn.chosen is None else (x(drawn.chosen[0]), y(drawn.chosen[1])),
    )
