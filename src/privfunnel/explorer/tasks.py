"""What the working processes of a tab do: read a table, count it, trace its curve, describe and export a point.

Each task is a function of a :class:`Workspace`. The front and the tracer of a tab are two
processes that share the session's folder: what one needs from the other lies there, written in one piece.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from privfunnel import alternatives
from privfunnel.amounts import check_disclosure, check_utility
from privfunnel.audit.informed import informed
from privfunnel.checks import is_whole
from privfunnel.curve import Curve
from privfunnel.engines import Cut, open_table
from privfunnel.errors import InvalidInputError, PrivFunnelWarning
from privfunnel.explorer import (
    binning,
    describe,
    examples,
    exports,
    guards,
    people,
    profile,
    purpose,
    reading,
    wording,
)
from privfunnel.explorer.news import Listener, tell
from privfunnel.explorer.process import Event
from privfunnel.explorer.workspace import Found, Setting, Workspace
from privfunnel.guarded_tracing import USELESS, GuardedPartialCurve
from privfunnel.jit import compiling
from privfunnel.lumping import chosen_lumping
from privfunnel.measures import nats_per
from privfunnel.mechanism import Mechanism
from privfunnel.report import chart, view
from privfunnel.solution import FEASIBILITY, Solution
from privfunnel.solvers import registry
from privfunnel.solving import end_of_curve
from privfunnel.tables import Counts, count
from privfunnel.task_curve import PartialTaskCurve
from privfunnel.task_solution import TaskSolution
from privfunnel.tracing import PartialCurve, assemble, tracing

SEED = 0
MOST_KNOWING = 6  # readers who know a column that the page lists


# --- table and roles ------------------------------------------------------------------------------------------------


def example(workspace: Workspace, name: str) -> dict[str, Any]:
    """Write a packaged example into the folder and inspect it."""
    path = examples.write(name, workspace.folder)
    return inspect(workspace, str(path), path.name, roles=dict(examples.EXAMPLES[name].roles))


def inspect(
    workspace: Workspace,
    path: str,
    name: str,
    roles: dict[str, Any] | None = None,
    read: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Look at a table: how it is read, columns, types, distinct values, histograms and the first rows."""
    tell(workspace, 0, 0, f"Opening {name}")
    asked, shown = reading.found_out(path, read or {})
    with open_table(path, reading.options(asked)) as table:
        tell(workspace, 0, 0, "Counting the rows")
        rows = table.n_rows()
        if rows == 0:
            raise InvalidInputError(f"{name} has no rows: choose a table with data")
        preview = profile.preview(table)
        columns = profile.columns(table, lambda *news: tell(workspace, *news))
    workspace.drop("setting", "found", "curve", "band", "warnings")
    workspace.put("source", (path, name, asked))
    exports.clear(workspace.folder)
    suggested = {c["name"]: rule for c in columns if (rule := binning.suggested(c)) is not None}
    empty: dict[str, Any] = {"private": [], "public": [], "bins": suggested}
    return {
        "name": name,
        "rows": rows,
        "columns": columns,
        "preview": preview,
        "reading": shown,
        "roles": empty if roles is None else {**roles, "bins": {**suggested, **roles["bins"]}},
    }


def roles(
    workspace: Workspace, private: list[str], public: list[str], bins: dict[str, Any], **rows: str
) -> dict[str, Any]:
    """Count the table by its roles and say how large the problem is.

    Args:
        workspace: Where the table is.
        private: Names of the private columns.
        public: Names of the public columns.
        bins: How columns are cut, see :mod:`.binning`.
        **rows: What is said of the table besides, ``ROWS``; empty texts where nothing is.
    """
    loaded: tuple[str, str, dict[str, Any]] | None = workspace.get("source")
    if loaded is None:
        raise InvalidInputError("no table is loaded: drop a file or pick an example")
    source, name, read = loaded
    rules = {column: binning.rule(column, asked) for column, asked in bins.items()}
    said: dict[str, Any] = {name: value for name, value in rows.items() if value}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivFunnelWarning)
        counts = count(
            source,
            private=private,
            public=public,
            bins=rules,
            read=reading.options(read),
            **said,
        )
        problem = counts.problem()
    workspace.drop("found", "curve", "band")
    told = [str(w.message) for w in caught if issubclass(w.category, PrivFunnelWarning)]
    workspace.put("warnings", told)
    workspace.put(
        "setting", Setting(source, name, tuple(private), tuple(public), rules, counts, problem, read, **said)
    )
    return {
        "n_s": counts.n_s,
        "n_x": counts.n_x,
        "n": counts.n,
        "persons": counts.persons,
        "clusters": counts.clusters,
        "rows": counts.n_rows,
        "dropped": counts.dropped,
        "estimate": _estimate(counts),
        "warnings": _warnings(workspace),
        "edges": {
            column: [edge for edge in cut.edges if math.isfinite(edge)]
            for column, cut in counts.bins.items()
            if isinstance(cut, Cut) and not cut.part
        },
    }


def _warnings(workspace: Workspace) -> list[str]:
    """What the roles were warned of, in the page's words and unit."""
    return [wording.for_page(message, workspace.units) for message in workspace.get("warnings") or ()]


def _estimate(counts: Counts) -> str:
    size = counts.size
    if size.seconds < 1:
        return "A small problem: seconds for a curve."
    if not size.limited:
        return "A medium problem: from seconds to a few minutes for a curve."
    return (
        f"A large problem: about {size.memory / 2**20:.0f} MiB, many minutes for a curve, and proofs that stop at "
        "their time limit; coarser bins help."
    )


# --- curve ----------------------------------------------------------------------------------------------------------


def trace(
    workspace: Workspace,
    points: int,
    solver: str,
    refine: bool = False,
    at: float | None = None,
    guarded: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Trace the curve, or add points to it, reporting each point as it is found.

    Args:
        workspace: Where the counted table is.
        points: Number of points of a new curve, besides 0: half of them evenly spaced from the free limit to the end,
            the others one by one where the curve bends most.
        solver: Name of the solver.
        refine: Keep what has been found and add points: a quarter as many, where the least is known, or one at ``at``.
        at: A disclosure in nats.
        guarded: Attackers, published columns and guarantees of a new curve, see :mod:`.guards`.
    """
    problem = workspace.setting().problem
    if not is_whole(points) or not 2 <= points <= 200:
        raise InvalidInputError(f"{points!r} points cannot be traced: give a number from 2 to 200")
    registry.get(solver)  # an unknown name is told before the work
    if workspace.setting().task:
        purpose.check(solver, guarded)
        return _trace_task(workspace, points, at, refine=refine)
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
    workspace: Workspace, points: int, asked: dict[str, list[str]], at: float | None, *, refine: bool
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


def _trace_task(workspace: Workspace, points: int, at: float | None, *, refine: bool) -> dict[str, Any]:
    """The same of a curve along the utility of a task; ``at`` is a utility in nats."""
    problem, listener = workspace.setting().problem, Listener(workspace)
    tell(workspace, 0, 0, "looking for what leaks nothing")
    if refine:
        curve = curve_of(workspace)
        before: PartialTaskCurve = workspace.get("found")
        new = _between(curve, max(points // 4, 3)) if at is None else [check_utility(problem, at)]
        total, steps = len(before.points) + len(new), purpose.further(before, new, listener)
    else:
        workspace.drop("found", "curve", "band")
        total, steps = points + 1, purpose.following(problem, points, SEED, listener)
    for partial in steps:
        workspace.put("found", partial)
        if not partial.complete or refine:
            curve, done = partial.curve(), len(partial.points)
            newest = curve.solutions[-1]
            drawn = view.picture(curve, free_disclosure=view.free_utility(curve), units=workspace.units)
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


def units(workspace: Workspace, units: str) -> dict[str, Any]:
    """Choose the unit of the page's amounts of information; return the warnings in it."""
    nats_per(units)  # an unknown one is told
    workspace.put("units", units)
    return {"warnings": _warnings(workspace)}


def summary(workspace: Workspace) -> dict[str, Any]:
    """Return the finished curve as the page shows it."""
    setting, curve = workspace.setting(), curve_of(workspace)
    return view.curve_summary(curve, setting.public_axis, workspace.units, workspace.get("band"))


def point(
    workspace: Workspace,
    disclosure: float | None = None,
    leakage: float | None = None,
    width: int = 520,
    group: str = "",
) -> dict[str, Any]:
    """Describe the curve at a disclosure, or a utility where it goes along one, or within a leakage budget; nats."""
    setting, curve = workspace.setting(), curve_of(workspace)
    solution = chosen(curve, disclosure, leakage)
    large = describe.too_large(solution)
    public = setting.public_axis
    return {
        **view.point(
            solution,
            setting.private_axis,
            public,
            width=0 if large else width,
            group=group,
            units=workspace.units,
        ),
        "at": view.place(curve, solution),
        "at_share": view.share(view.place(curve, solution), view.ceiling(curve), 1.0),
        **purpose.described(solution),
        "people": [
            *guards.words(solution, workspace.units),
            *describe.people(solution, setting.counts.s_alphabet, setting.counts.n),
            *describe.beyond(solution, setting.counts, workspace.units, workspace.get("band")),
        ],
        "classes": describe.classes(solution, public) if large else [],
        "names": list(public.names),
        "samples": describe.samples(Mechanism.from_solution(setting.counts, solution), public),
        **exports.offer(setting, curve, solution, grid_of(workspace), workspace.units),
    }


def beside(workspace: Workspace, disclosure: float) -> dict[str, Any]:
    """What stands beside a point, and takes longer to find than the point itself.

    Returns:
        What dropping columns and coarser categories keep where they leak no more (``others``), beside the point's own
        ``share`` of H(X); of a release for a ``task`` what they leak where they are as good for it, beside its own
        ``leakage``. And what readers learn who know public columns already (``known``), in nats.
    """
    setting = workspace.setting()
    solution = chosen(curve_of(workspace), disclosure, None)
    counts, problem = setting.counts, setting.problem
    if isinstance(solution, TaskSolution):
        others = purpose.instead(solution, counts)
    else:
        found = alternatives.instead(counts.x_alphabet, counts.table() / counts.n, solution.leakage)
        others = [each.to_dict() for each in found]
    knowing = informed(counts.x_alphabet, problem.p_sx, solution.channel)
    one = [each for each in knowing if each.columns in setting.public]
    more = [each for each in knowing if each.columns not in setting.public]
    return {
        "share": describe.share_kept(solution),
        "columns": len(setting.public),
        "task": setting.task,
        "leakage": solution.leakage,
        "leakage_ceiling": problem.leakage_ceiling,
        "others": others,
        "known": [
            {
                "columns": "nothing",
                "leakage": problem.evaluate(solution.channel).leakage,
                "ceiling": problem.leakage_ceiling,
            },
            *(vars(each) for each in (*one[:MOST_KNOWING], *more[:1])),
        ],
    }


def chosen(curve: Curve, disclosure: float | None, leakage: float | None) -> Solution:
    """Return the curve's solution at a place along it, or the one that spends a leakage budget, in nats."""
    if (disclosure is None) == (leakage is None):
        raise InvalidInputError("choose a point by disclosure or by leakage: give exactly one")
    if disclosure is None:
        return curve.within(leakage)  # type: ignore[arg-type]
    # Under guarantees the curve ends before H(X), where the page's slider does.
    return curve.at(disclosure if curve.threat is None else min(disclosure, curve.most))


def export(workspace: Workspace, name: str, disclosure: float) -> str:
    """Write one of the files of a chosen point into the folder and return its path."""
    setting, curve = workspace.setting(), curve_of(workspace)
    found = exports.Exported(
        curve, chosen(curve, disclosure, None), grid_of(workspace), workspace.get("band")
    )
    return str(exports.write(name, workspace.folder, setting, found))


TASKS: dict[str, Callable[..., Any]] = {
    "example": example,
    "inspect": inspect,
    "roles": roles,
    "trace": trace,
    "units": units,
    "summary": summary,
    "point": point,
    "export": export,
    "beside": beside,
}
