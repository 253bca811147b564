"""The curve of a tab: traced point by point, refined, and put together from what a run has found so far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from privfunnel.algorithms import registry
from privfunnel.app.explorer import population_band as people
from privfunnel.app.explorer.events import Event
from privfunnel.app.explorer.news import Listener, tell
from privfunnel.app.explorer.workspace import Setting, Workspace
from privfunnel.certificate.answer import USELESS
from privfunnel.errors import InvalidInputError
from privfunnel.infra.checks import is_whole
from privfunnel.infra.jit import compiling
from privfunnel.infra.storage import Document
from privfunnel.model.equal_symbols import LUMPED_BEYOND
from privfunnel.model.question import FEASIBILITY, ROUNDING, Quantity
from privfunnel.report import chart, view
from privfunnel.solving.base import Asking, Way
from privfunnel.solving.curve import Curve, check_place
from privfunnel.solving.dispatch import way_of
from privfunnel.solving.ends import end_of_curve
from privfunnel.solving.free_disclosure import free_disclosure
from privfunnel.solving.point import answered
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution
from privfunnel.solving.tracing import Grid, PartialCurve, following, further

SEED = 0
#: What the page proves of guarded points, in nats, and how many seconds one may take: somebody is waiting.
GUARDED = {"gap": 1e-3, "time_limit": 20.0}
#: Seconds that the points of a task's curve may take together.
TASK = {"time_limit": 60.0}


def trace(
    workspace: Workspace,
    points: int,
    solver: str,
    refine: bool = False,
    at: float | None = None,
    guarded: Document | None = None,
) -> Document:
    """Trace the curve, or add points to it, reporting each point as it is found.

    Args:
        workspace: Where the counted table is.
        points: Number of points of a new curve, besides 0; half as many with guards, since each takes longer.
        solver: Name of the solver.
        refine: Keep what has been found and add points: a quarter as many, where the least is known, or one at ``at``.
        at: A place along the axis, in nats.
        guarded: Attackers, published columns, guarantees and measure of a new curve.
    """
    if not is_whole(points) or not 2 <= points <= 200:
        raise InvalidInputError(f"{points!r} points cannot be traced: give a number from 2 to 200")
    registry.get(solver)  # an unknown name is told before the work
    listener = Listener(workspace)
    shown: list[Solution] = []
    if refine:
        curve = curve_of(workspace)
        before: PartialCurve = workspace.get("found")
        begun = replace(before, way=_way(before, solver))
        new = _between(curve, points) if at is None else [min(check_place(curve.question, at), curve.most)]
        steps, total = further(begun, new, listener), before.count + len(new)
        shown += curve.solutions
    else:
        workspace.drop("found", "curve", "band")
        tell(workspace, 0, 0, "looking for what leaks nothing")
        begun = _begun(workspace.setting(), solver, guarded or {}, listener)
        grid = _grid(begun, points)
        steps, total = following(begun, grid, listener), begun.count + _open(begun, grid) + grid.refine
        shown += begun.asked
    tell(workspace, 0, 0, "starting the solver")
    work = _follow(workspace, steps, shown, total, refine=refine)
    found = curve_of(workspace)
    if not refine and found.guards.plain and found.axis is Quantity.DISCLOSURE:
        tell(workspace, 0, 0, "looking for what holds for people like these")
        workspace.put("band", people.band(workspace.setting(), solver, SEED, work, listener))
    return {}


def _begun(setting: Setting, solver: str, guarded: Document, listener: Listener) -> PartialCurve:
    """What a new curve begins with: of a task, what is free."""
    axis = Quantity.UTILITY if setting.task else Quantity.DISCLOSURE
    question, chosen = Request(**guarded).open(setting.problem, axis), registry.get(solver)
    plain = question.guards.plain and axis is Quantity.DISCLOSURE
    limits = {} if plain else TASK if question.guards.plain else GUARDED
    if not plain:
        known = {name: value for name, value in limits.items() if hasattr(chosen, name)}
        chosen = replace(chosen, **known)
    way = way_of(question, chosen, limits)
    begun = PartialCurve(question=question, way=way, how=Asking(SEED), throw=plain)
    if plain or not question.guards.plain:
        return begun
    free = answered(replace(question, goal=axis, budget=0.0), way, Asking(SEED, listener), throw=False)
    useful = free.utility > FEASIBILITY and free.leakage <= FEASIBILITY and free.status not in USELESS
    return replace(begun, asked=(free,), wanted=(free.utility,)) if useful else begun


def _way(before: PartialCurve, solver: str) -> Way:
    """The algorithm of a curve's further points: another solver may be chosen for the plain funnel."""
    question = before.question
    plain = question.guards.plain and question.axis is Quantity.DISCLOSURE
    return way_of(question, registry.get(solver)) if plain else before.way


def _grid(begun: PartialCurve, points: int) -> Grid:
    """Where the points of a new curve are to be: half of them where it bends most, along disclosure."""
    question, problem = begun.question, begun.problem
    if question.axis is Quantity.UTILITY:
        if not question.guards.plain:
            return Grid(max(points // 2, 3))
        least = max(begun.wanted, default=0.0)
        even = np.linspace(least, problem.utility_ceiling, points)[1:].tolist()
        return Grid(points, [0.0, *(even if least < problem.utility_ceiling - FEASIBILITY else [])])
    if not question.guards.plain:
        few = max(points // 2, 3)
        even = max(few - few // 2, 3)
        return Grid(even, None, few - even)
    free, ceiling = min(free_disclosure(problem), problem.disclosure_ceiling), problem.disclosure_ceiling
    half = max(points - points // 2, 2)
    bends = points - half if ceiling > free + FEASIBILITY else 0
    return Grid(half, [0.0, *np.linspace(free, ceiling, half).tolist()], bends)


def _open(begun: PartialCurve, grid: Grid) -> int:
    """How many of the places of a grid are asked: no solver has to find the ends of the plain curve."""
    question = begun.question
    if grid.places is None or not question.guards.plain or question.axis is not Quantity.DISCLOSURE:
        return grid.points if grid.places is None else len(list(grid.places))
    return sum(end_of_curve(begun.problem, float(place)) is None for place in grid.places)


def _follow(
    workspace: Workspace, steps: Iterator[PartialCurve], shown: list[Solution], total: int, *, refine: bool
) -> float:
    """Store what is found item by item and tell the page; CPU seconds of work, what was compiled not counted."""
    begun, count = time.process_time(), 0
    with compiling() as compiled:
        for partial in steps:
            workspace.put("found", partial)
            if partial.count > count and (refine or not partial.complete):
                newest = partial.newest
                if newest.status not in USELESS:
                    shown.append(newest)
                workspace.emit(_point(partial, newest, shown, total, workspace))
            count = partial.count
        return time.process_time() - begun - compiled()  # kernels are compiled once


def _point(
    partial: PartialCurve, newest: Solution, shown: list[Solution], total: int, workspace: Workspace
) -> Event:
    """The news of a point, with the drawing of all that is known: the points as they were found."""
    question, done = partial.question, partial.count
    axis = question.axis
    sketch = Curve(
        question=question,
        solutions=tuple(sorted(shown, key=lambda s: s.values.of(axis))),
        raw=(),
        solver=partial.way.name,
        seed=partial.how.seed,
        limit=partial.limit,
    )
    drawn = view.picture(
        sketch,
        free_disclosure=view.free_of(sketch),
        population=workspace.get("band"),
        units=workspace.units,
    )
    news = {"leakage": newest.leakage, "gap": newest.gap, "figure": chart.figure(drawn)}
    return {"kind": "point", "done": done, "total": max(total, done), **news}


def _between(curve: Curve, points: int) -> list[float]:
    """Return the middles of the intervals where the distance between what is achieved and what is proved is largest."""
    number = max(points // 4, 3) if curve.guards.plain else max(points // 8, 2)
    ends = np.array([view.place(curve, solution) for solution in curve.solutions])
    middles = [float(middle) for middle in (ends[:-1] + ends[1:]) / 2.0]
    return sorted(sorted(middles, key=lambda middle: -curve.at(middle).gap)[:number])


def curve_of(workspace: Workspace) -> Curve:
    """Return the traced curve, or what an interrupted run has left of it.

    Raises:
        InvalidInputError: Nothing has been found yet.
    """
    found: PartialCurve | None = workspace.get("found")
    if found is None:
        raise InvalidInputError("no point of the curve has been found yet: draw the curve first")
    stored, state = workspace.get("curve"), (found.count, found.complete)
    if stored is None or stored[0] != state:
        stored = state, found.curve()
        workspace.put("curve", stored)
    curve: Curve = stored[1]
    return curve


def places_of(workspace: Workspace) -> tuple[float, ...]:
    """Return the places along its axis that the curve was asked for, in nats."""
    found: PartialCurve = workspace.get("found")
    return found.wanted


def chosen(curve: Curve, place: float | None, leakage: float | None) -> Solution:
    """Return the curve's solution at a place along it, or the one that spends a leakage budget, in nats."""
    if (place is None) == (leakage is None):
        raise InvalidInputError("choose a point by disclosure or by leakage: give exactly one")
    if place is None:
        return curve.within(leakage)  # type: ignore[arg-type]
    # Under guarantees the curve ends before H(X), where the page's slider does.
    return _whole(curve, curve.at(min(place, curve.most)))


def _whole(curve: Curve, found: Solution) -> Solution:
    """Return the curve's point that discloses most without leakage where the one found leaks nothing either.

    On a wide table only: what is time-shared with nothing has no decoys there; see
    :mod:`privfunnel.solving.free_disclosure`.
    """
    wide = curve.axis is Quantity.DISCLOSURE and curve.problem.n_x > LUMPED_BEYOND
    if not wide or found.leakage > ROUNDING or found.disclosure <= FEASIBILITY:
        return found
    free = [point for point in curve.solutions if point.leakage <= ROUNDING]
    most = max(free, key=lambda point: point.disclosure, default=found)
    return replace(most, question=found.question) if most.disclosure > found.disclosure else found
