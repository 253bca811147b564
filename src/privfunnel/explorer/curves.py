"""The curve of a tab: traced point by point, refined, and put together from what a run has found so far."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from privfunnel.amounts import check_disclosure, check_utility
from privfunnel.checks import is_whole
from privfunnel.curve import Curve
from privfunnel.ends import end_of_curve
from privfunnel.errors import InvalidInputError
from privfunnel.explorer import guards, people, purpose
from privfunnel.explorer.news import Listener, tell
from privfunnel.explorer.process import Event
from privfunnel.explorer.workspace import Found, Workspace
from privfunnel.guarded_tracing import GuardedPartialCurve
from privfunnel.jit import compiling
from privfunnel.lumping import LUMPED_BEYOND, chosen_lumping
from privfunnel.report import chart, view
from privfunnel.solution import FEASIBILITY, ROUNDING, USELESS, Solution
from privfunnel.solvers import registry
from privfunnel.task_curve import PartialTaskCurve
from privfunnel.tracing import PartialCurve, assemble, tracing

SEED = 0


def trace(
    workspace: Workspace,
    points: int,
    solver: str,
    refine: bool = False,
    at: float | None = None,
    guarded: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Trace the curve, or add points to it, reporting each point as it is found.

    Args:
        workspace: Where the counted table is.
        points: Number of points of a new curve, besides 0: half of them evenly spaced from the free limit to the end,
            the others one by one where the curve bends most.
        solver: Name of the solver.
        refine: Keep what has been found and add points: a quarter as many, where the least is known, or one at ``at``.
        at: A disclosure in nats.
        guarded: Attackers, published columns, guarantees and measure of a new curve, see :mod:`.guards`.
    """
    problem = workspace.setting().problem
    if not is_whole(points) or not 2 <= points <= 200:
        raise InvalidInputError(f"{points!r} points cannot be traced: give a number from 2 to 200")
    registry.get(solver)  # an unknown name is told before the work
    if workspace.setting().task:
        purpose.check(solver)
        return _trace_task(workspace, points, guarded or {}, at, refine=refine)
    if guarded or (refine and isinstance(workspace.get("found"), GuardedPartialCurve)):
        return _trace_guarded(workspace, points, guarded or {}, at, refine=refine)
    tell(workspace, 0, 0, "looking for what leaks nothing")
    free = problem.free_disclosure
    shown: list[Solution] = []
    bends = 0
    if refine:
        curve = curve_of(workspace)
        before: Found = workspace.get("found")
        new = _between(curve, max(points // 4, 3)) if at is None else [check_disclosure(problem, at)]
        shown += curve.solutions
    else:
        workspace.drop("found", "curve", "band")
        even = max(points - points // 2, 2)
        bends = points - even if problem.disclosure_ceiling > free + FEASIBILITY else 0
        before = Found((), even, (), solver, False)
        new = before.wanted(problem)
    found = replace(before, solver=solver)
    tell(workspace, 0, 0, "starting the solver")
    steps = tracing(
        problem, disclosures=new, refine=bends, solver=solver, seed=SEED, progress=Listener(workspace)
    )
    begun = time.process_time()
    with compiling() as compiled:
        for partial in steps:
            found = replace(
                found,
                answers=before.answers + partial.answers,
                extra=tuple(sorted({*before.extra, *partial.wanted} - {*before.even(problem)})),
                complete=before.complete or partial.complete,
            )
            workspace.put("found", found)
            if not partial.complete:
                shown.append(partial.newest)
                total = sum(end_of_curve(problem, r) is None for r in new) + bends
                workspace.emit(_point(partial, shown, free, total, workspace))
    curve_of(workspace)
    if not refine:
        tell(workspace, 0, 0, "looking for what holds for people like these")
        work = time.process_time() - begun - compiled()  # kernels are compiled once
        workspace.put("band", people.band(workspace.setting(), solver, SEED, work, Listener(workspace)))
    return {}


def _trace_guarded(
    workspace: Workspace, points: int, asked: dict[str, Any], at: float | None, *, refine: bool
) -> dict[str, Any]:
    """The same of a curve with guards, half as many points: each takes longer."""
    problem, listener = workspace.setting().problem, Listener(workspace)
    tell(workspace, 0, 0, "starting the solver")
    if refine:
        before: GuardedPartialCurve = workspace.get("found")
        curve = before.curve()
        new = (
            _between(curve, max(points // 8, 2))
            if at is None
            else [min(check_disclosure(problem, at), curve.most)]
        )
        total, steps = len(before.answers) + len(new), guards.further(before, new, listener)
    else:
        workspace.drop("found", "curve", "band")
        total = max(points // 2, 3)
        steps = guards.following(problem, asked, total, SEED, listener)
    for partial in steps:
        workspace.put("found", partial)
        if not partial.complete or refine:
            shown = [s for s in partial.answers if s.status not in USELESS]
            workspace.emit(_point(partial, shown, None, total, workspace))
    curve_of(workspace)
    return {}


def _trace_task(
    workspace: Workspace, points: int, asked: dict[str, Any], at: float | None, *, refine: bool
) -> dict[str, Any]:
    """The same of a curve along the utility of a task, half as many points with guards; ``at`` is a utility in nats."""
    problem, listener = workspace.setting().problem, Listener(workspace)
    tell(workspace, 0, 0, "starting the solver" if asked else "looking for what leaks nothing")
    if refine:
        curve = curve_of(workspace)
        before: PartialTaskCurve = workspace.get("found")
        few = max(points // 4, 3) if before.threat is None else max(points // 8, 2)
        new = _between(curve, few) if at is None else [min(check_utility(problem, at), curve.most)]
        total, steps = len(before.points) + len(new), purpose.further(before, new, listener)
    elif asked:
        workspace.drop("found", "curve", "band")
        total = max(points // 2, 3)
        steps = purpose.following_guarded(problem, asked, total, SEED, listener)
    else:
        workspace.drop("found", "curve", "band")
        total, steps = points + 1, purpose.following(problem, points, SEED, listener)
    for partial in steps:
        workspace.put("found", partial)
        if not partial.complete or refine:
            curve, done = partial.curve(), len(partial.points)
            newest = curve.solutions[-1]
            free = None if curve.threat is not None else view.free_utility(curve)
            drawn = view.picture(curve, free_disclosure=free, units=workspace.units)
            news = {"leakage": newest.leakage, "gap": newest.gap, "figure": chart.figure(drawn)}
            workspace.emit({"kind": "point", "done": done, "total": max(total, done), **news})
    curve_of(workspace)
    return {}


def _point(
    partial: PartialCurve | GuardedPartialCurve,
    shown: list[Solution],
    free: float | None,
    total: int,
    workspace: Workspace,
) -> Event:
    """The news of a point, with the drawing of all that is known: the points as they were found."""
    newest, done = partial.newest, len(partial.answers)
    sketch = Curve(
        problem=partial.problem,
        solutions=tuple(sorted(shown, key=lambda s: s.disclosure)),
        raw=(),
        solver=partial.solver.name,
        seed=partial.seed,
        threat=partial.threat if isinstance(partial, GuardedPartialCurve) else None,
    )
    return {
        "kind": "point",
        "done": done,
        "total": max(total, done),
        "leakage": newest.leakage,
        "gap": newest.gap,
        "figure": chart.figure(
            view.picture(
                sketch, free_disclosure=free, population=workspace.get("band"), units=workspace.units
            )
        ),
    }


def _between(curve: Curve, number: int) -> list[float]:
    """Return the middles of the intervals where the distance between what is achieved and what is proved is largest."""
    ends = np.array([view.place(curve, solution) for solution in curve.solutions])
    middles = [float(middle) for middle in (ends[:-1] + ends[1:]) / 2.0]
    return sorted(sorted(middles, key=lambda middle: -curve.at(middle).gap)[:number])


def curve_of(workspace: Workspace) -> Curve:
    """Return the traced curve, or what an interrupted run has left of it.

    Raises:
        InvalidInputError: Nothing has been found yet.
    """
    found: Found | GuardedPartialCurve | PartialTaskCurve | None = workspace.get("found")
    if found is None:
        raise InvalidInputError("no point of the curve has been found yet: draw the curve first")
    stored = workspace.get("curve")
    if isinstance(found, GuardedPartialCurve | PartialTaskCurve):
        held = found.points if isinstance(found, PartialTaskCurve) else found.answers
        state = len(held), found.complete
        if stored is None or stored[0] != state:
            stored = state, found.curve()
            workspace.put("curve", stored)
        whole: Curve = stored[1]
        return whole
    if stored is None or stored[0] != len(found.answers):
        chosen = registry.get(found.solver)
        problem = workspace.setting().problem
        wanted = found.wanted(problem)
        answers = list(found.answers)
        lumping = chosen_lumping(problem, False if chosen.by_columns else None)
        made = assemble(lumping, answers, wanted, chosen, SEED, complete=found.complete)
        stored = len(found.answers), made
        workspace.put("curve", stored)
    curve: Curve = stored[1]
    return curve


def grid_of(workspace: Workspace) -> tuple[int, tuple[float, ...]]:
    """Return how the curve's disclosures were chosen: how many evenly spaced, and which ones beside them.

    Of a task's curve, its utilities.
    """
    found: Found | GuardedPartialCurve | PartialTaskCurve = workspace.get("found")
    if isinstance(found, PartialTaskCurve):
        return 0, purpose.utilities_of(found)
    if isinstance(found, GuardedPartialCurve):
        return 0, found.wanted
    return found.points, found.extra


def chosen(curve: Curve, disclosure: float | None, leakage: float | None) -> Solution:
    """Return the curve's solution at a place along it, or the one that spends a leakage budget, in nats."""
    if (disclosure is None) == (leakage is None):
        raise InvalidInputError("choose a point by disclosure or by leakage: give exactly one")
    if disclosure is None:
        return curve.within(leakage)  # type: ignore[arg-type]
    # Under guarantees the curve ends before H(X), where the page's slider does.
    found = curve.at(disclosure if curve.threat is None else min(disclosure, curve.most))
    return _whole(curve, found)


def _whole(curve: Curve, found: Solution) -> Solution:
    """Return the curve's point that discloses most without leakage where the one found leaks nothing either.

    On a wide table only: what is time-shared with nothing has no decoys there; see :mod:`privfunnel.free`.
    """
    wide = curve.along[0] == "disclosure" and curve.problem.n_x > LUMPED_BEYOND
    if not wide or found.leakage > ROUNDING or found.disclosure <= FEASIBILITY:
        return found
    free = [point for point in curve.solutions if point.leakage <= ROUNDING]
    most = max(free, key=lambda point: point.disclosure, default=found)
    return replace(most, requested=found.requested) if most.disclosure > found.disclosure else found
