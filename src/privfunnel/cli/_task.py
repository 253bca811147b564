"""The task funnel on the command line: one point, the curve, what an audit says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privfunnel.cli._beyond import say_otherwise
from privfunnel.cli._common import (
    Units,
    can_draw,
    checked_threshold,
    console,
    open_source,
    output,
    parse_guards,
    parse_options,
    parse_quantity,
    progress_on_terminal,
    tell_files,
)
from privfunnel.cli._funnels import (
    CURVE_FILES,
    POINT_FILES,
    check_describing,
    leaked_share,
    options_besides,
    share,
    was_said,
    write_curve,
    write_pictures,
    write_point,
    write_report,
)
from privfunnel.cli._limits import chosen, memory_limited
from privfunnel.cli._point import guarantee_words, told_rows
from privfunnel.cli._screen import say
from privfunnel.errors import InvalidInputError

if TYPE_CHECKING:
    from privfunnel.audit import Audit, TaskFindings
    from privfunnel.cli._source import NamedProblem
    from privfunnel.engines import ReadOptions
    from privfunnel.mechanism import Mechanism
    from privfunnel.problem import Problem
    from privfunnel.solution import Solution
    from privfunnel.tables import Counts
    from privfunnel.task_curve import TaskCurve
    from privfunnel.task_solution import TaskSolution

#: Options of solve and curve that the task funnel has, too.
OWN = (
    "source", "utility", "disclosure", "leakage", "points", "solver", "restarts", "options", "seed", "time_limit",
    "memory_limit", "units", "as_json", "out", "threshold", "view", "describe", "known", "published", "guarantees",
    "measure",
)  # fmt: skip

#: Columns of a row of the curve that are amounts of information, and change with the unit.
INFORMATION = ("utility", "leakage", "lower_bound", "gap", "disclosure")


def _refuse(given: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """Refuse options that releases for a task do not have."""
    others = [*options_besides((*OWN, *reading)), *(["--view sample"] if given["view"] == "sample" else [])]
    if others:
        raise InvalidInputError(
            f"a release for a task is designed on all rows, by itself: leave {', '.join(others)} out, or --task and "
            "--utility"
        )


def _asked(problem: Problem, given: Mapping[str, Any], utility: str, option: str = "--utility") -> float:
    """An asked utility in nats."""
    ceiling = problem.utility_ceiling
    return parse_quantity(utility, ceiling=ceiling, whole="I(U;X)", option=option, units=given["units"])


def solve_point(given: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """Solve one point of a task funnel, write its files and show it.

    Args:
        given: The options of ``privfunnel solve`` by their names.
        reading: Those that say how to read the table.
    """
    from privfunnel import solve
    from privfunnel.cli.solve import read_budgets  # which solves releases for a task by this module

    _refuse(given, reading)
    guards, budget = _guards(given), read_budgets(given["leakage"], given["units"], given["measure"])
    neither = given["utility"] is None and budget is None and "guarantees" in guards
    if not neither and (given["utility"] is None) == (budget is None):
        raise InvalidInputError(
            "give exactly one of --utility (what to keep of the task) and --leakage (what may leak), or --guarantee "
            "alone"
        )
    units, out = given["units"], given["out"]
    opened = open_source(given["source"], units=units.name, **reading)
    problem = opened.problem
    asked: dict[str, Any] = {**guards}
    if given["utility"] is not None:
        asked["utility"] = _asked(problem, given, given["utility"])
    elif "measure" in guards or isinstance(budget, dict):
        asked |= (
            {} if budget is None else {"leakage": budget}
        )  # read where the measure and the columns are known
    elif budget is not None:
        ceiling = problem.leakage_ceiling
        asked["leakage"] = parse_quantity(
            budget, ceiling=ceiling, whole="I(S;X)", option="--leakage", units=units
        )
    if given["disclosure"] is not None:
        ceiling = problem.disclosure_ceiling
        asked["disclosure"] = parse_quantity(
            given["disclosure"], ceiling=ceiling, whole="H(X)", option="--disclosure", units=units
        )
    with memory_limited(given["memory_limit"]), output(out, POINT_FILES) as folder:
        method = _method(given)
        with progress_on_terminal(f"solving {given['source']}", quiet=given["as_json"]) as progress:
            solution = solve(problem, **asked, **method, progress=progress)
        if folder is not None:
            write_point(folder, solution, opened.counts)
    if given["as_json"]:
        say(json.dumps(solution.to_dict(), indent=1))
        return
    show_point(solution, units=units, title=given["source"])  # type: ignore[arg-type]
    tell_instead(solution, opened.counts, units)  # type: ignore[arg-type]
    say_otherwise(given, opened)
    tell_files(out, POINT_FILES, [solution])


def _guards(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the release is guarded against."""
    return parse_guards(given["known"], given["published"], given["guarantees"], given["measure"])


def _method(given: Mapping[str, Any]) -> dict[str, Any]:
    options = parse_options(given["options"], given["restarts"])
    return chosen(given["solver"], options, given["time_limit"], guarded=True) | {"seed": given["seed"]}


def _shared_time(given: Mapping[str, Any], guards: Mapping[str, Any], points: int) -> dict[str, Any]:
    """The solver of a curve: the time that is given is for all points, which a guarded one counts one by one."""
    seconds = given["time_limit"]
    if not guards or seconds is None:
        return _method(given)
    answers = points + ("guarantees" in guards) + (given["describe"] is not None)
    return _method({**given, "time_limit": seconds / max(answers, 1)})


def show_point(solution: TaskSolution, *, units: Units, title: str) -> None:
    """Print one solution in words and numbers."""
    from rich import box
    from rich.table import Table

    problem, threat = solution.problem, solution.threat
    tasks = problem.required_tasks()

    def leaked(value: float, form: str = ".9f") -> str:
        return format(units.of(value) if solution.unit else value, form)

    table = Table(title=f"{title} ({units.name})", box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row(
        "utility I(U;Y)",
        f"{units.of(solution.utility):.9f}",
        share(solution.utility, tasks.ceiling, "I(U;X)"),
    )
    if len(tasks.tasks) > 1:
        for task in tasks.tasks:
            kept = task.information(problem.p_x, solution.channel)
            table.add_row(f"  {task.name}", f"{units.of(kept):.9f}", f"weight {task.weight:g}")
    if solution.utility_upper_bound is not None:
        spends = solution.budget is not None or (threat is not None and bool(threat.attributes))
        allowed = "within the budget" if spends else "within the guarantees"
        table.add_row("most utility, proved", f"{units.of(solution.utility_upper_bound):.9f}", allowed)
    table.add_row("leakage I(S;Y)" if threat is None else "largest leakage", leaked(solution.leakage),
                  leaked_share(solution))  # fmt: skip
    if threat is not None:
        for row in told_rows(solution, threat, leaked, units):
            table.add_row(*row)
    if threat is None or not solution.seeks_utility:
        table.add_row("proved lower bound", leaked(solution.lower_bound), solution.bound_source)
    of_utility = solution.seeks_utility
    gap = f"{units.of(solution.gap):.2e}" if of_utility else leaked(solution.gap, ".2e")
    table.add_row("gap", gap, "of utility" if of_utility else "")
    table.add_row("disclosure I(X;Y)", f"{units.of(solution.disclosure):.9f}",
                  share(solution.disclosure, problem.disclosure_ceiling, "H(X)"))  # fmt: skip
    if solution.slope is not None:
        table.add_row("slope", f"{solution.slope:.6f}", "leakage per utility")
    table.add_row("outputs", str(solution.n_outputs), f"for {problem.n_x} public symbols")
    table.add_row("status", solution.status.value, solution.advice)
    table.add_row("solver", solution.solver, f"{solution.seconds:.1f} s")
    screen = console()
    screen.print(table)
    for line in guarantee_words(solution):
        screen.print(line)
    screen.print(guess_words(solution), soft_wrap=True)


def guess_words(solution: Solution) -> str:
    """How often the task is guessed right from the release and from the public data themselves."""
    from privfunnel.measures import guessing_accuracy

    problem = solution.problem
    parts = []
    for task in problem.required_tasks().tasks:
        p_ux = task.p_u_given_x * problem.p_x
        blind, full = float(task.p_u(problem.p_x).max()), float(guessing_accuracy(p_ux))
        kept = float(guessing_accuracy(p_ux @ solution.channel))
        parts.append(
            f"{task.name} is guessed right in {100 * kept:.1f} % of the rows from the release, in {100 * full:.1f} % "
            f"from the public columns themselves, and in {100 * blind:.1f} % from nothing"
        )
    return f"On these rows {'; '.join(parts)}."


def tell_instead(solution: TaskSolution, counts: Counts | None, units: Units) -> None:
    """Say what one would do otherwise, and what that leaks, to be as good for the task."""
    from privfunnel.task_alternatives import instead_for_task

    public = None if counts is None else counts.x_alphabet
    for each in instead_for_task(solution.problem, solution.utility, public):
        say(f"Instead: {each.words(units.name, guarded=solution.threat is not None)}")


def trace_curve(given: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """Trace a task funnel, write its files and show it.

    Args:
        given: The options of ``privfunnel curve`` by their names.
        reading: Those that say how to read the table.
    """
    from privfunnel import trace

    _refuse(given, reading)
    units, out, guards = given["units"], given["out"], _guards(given)
    if given["utility"] and was_said("points"):
        raise InvalidInputError(
            "--utility says where the curve has its points: leave --points out, or --utility"
        )
    check_describing(out, given["describe"])
    checked_threshold(given["threshold"])
    opened = open_source(given["source"], units=units.name, **reading)
    utilities: Sequence[float] | None = [
        _asked(opened.problem, given, text) for text in given["utility"]
    ] or None
    described = None
    if given["describe"] is not None:
        described = _asked(opened.problem, given, given["describe"], "--describe")
    with memory_limited(given["memory_limit"]), output(out, CURVE_FILES) as folder:
        drawing = folder is not None and can_draw()
        with progress_on_terminal(f"curve of {given['source']}", quiet=given["as_json"]) as progress:
            curve: Any = trace(
                opened.problem, along="utility", points=given["points"], utilities=utilities, progress=progress,
                also=() if described is None else (described,),
                **guards, **_shared_time(given, guards, len(utilities or ()) or given["points"]),
            )  # fmt: skip
        if folder is not None:
            write_curve(folder, curve, units, INFORMATION if curve.unit else ("utility", "disclosure"))
            details = {"view": given["view"], "threshold": given["threshold"]}
            write_report(folder, curve, given["source"], details | _described(opened, curve, described))
            if drawing:
                write_pictures(folder, curve.plot(units=units.name))
    if given["as_json"]:
        say(json.dumps(curve.to_dict(), indent=1))
        return
    show_curve(curve, units=units, title=given["source"])
    say_otherwise(given, opened)
    tell_files(out, CURVE_FILES, curve.solutions)


def _described(opened: NamedProblem, curve: TaskCurve, utility: float | None) -> dict[str, Any]:
    """What the report says besides the curve: its point at a utility in nats, and what else is as good for the task."""
    from privfunnel.solution import FEASIBILITY
    from privfunnel.task_alternatives import instead_for_task

    if utility is None:
        return {}
    asked = ((each, getattr(each, "requested_utility", None)) for each in curve.solutions)
    held = (each for each, at in asked if at is not None and abs(at - utility) <= FEASIBILITY)
    # A curve that was interrupted may not have come to it.
    chosen: Any = next(held, None) or curve.at(utility)
    public = None if opened.counts is None else opened.counts.x_alphabet
    others = instead_for_task(opened.problem, chosen.utility, public)
    return {"chosen": chosen, "task_alternatives": others}


def show_curve(curve: TaskCurve, *, units: Units, title: str) -> None:
    """Print the curve as a table, with what it means below it."""
    from rich import box
    from rich.table import Table

    from privfunnel.ends import usual
    from privfunnel.solution import Status

    problem = curve.problem
    tasks = problem.required_tasks()
    table = Table(
        title=f"Task funnel of {title} for {', '.join(tasks.names)} ({units.name})", box=box.SIMPLE_HEAD
    )
    whole = "% of I(S;X)" if usual(curve.threat) else "% of X's"

    def leaked(value: float, form: str = ".6f") -> str:
        return format(units.of(value) if curve.unit else value, form)

    for name in ("utility", "% of I(U;X)", "leakage", whole, "proved ≥", "gap", "disclosure"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    attacked = curve.threat is not None and len(curve.threat.attackers) > 1
    if attacked:
        table.add_column("learnt by who knows", no_wrap=True)
    for row in curve.rows():
        table.add_row(
            f"{units.of(row['utility']):.6f}",
            f"{100 * row['utility_share']:.1f}",
            leaked(row["leakage"]),
            f"{100 * row['leakage_share']:.1f}",
            leaked(row["lower_bound"]),
            leaked(row["gap"], ".1e"),
            f"{units.of(row['disclosure']):.6f}",
            row["status"],
            *([row["worst_attacker"]] if attacked else []),
        )
    screen = console()
    screen.print(table)
    if curve.threat is not None:
        screen.print(f"Shown is the largest leakage, {curve.threat.conditions}.", soft_wrap=True)
    if curve.limit is not None:
        screen.print(
            f"The guarantees allow {units.of(curve.most):.6f} {units.name} of utility.", soft_wrap=True
        )
    proved = sum(status is Status.OPTIMAL for status in curve.status)
    gap = leaked(float(curve.gap.max()), ".1e") + (f" {units.name}" if curve.unit else "")
    screen.print(
        f"I(U;X) = {units.of(tasks.ceiling):.6f}, I(S;X) = {units.of(problem.leakage_ceiling):.6f} {units.name}; "
        f"{problem.n_s} private × {problem.n_x} public symbols. {proved} of {len(curve.solutions)} points proved "
        f"optimal, largest gap to the proved bound {gap}.",
        soft_wrap=True,
    )


def audited_task(
    tables: Sequence[str],
    mechanism: Mechanism | None,
    read: ReadOptions,
    found: Audit,
    effort: Mapping[str, int],
) -> TaskFindings | None:
    """What an audit says of a release for a task; None where there is none, or the table does not tell it.

    Args:
        tables: The original and perhaps the released table.
        mechanism: The mechanism.
        read: How to read the original.
        found: The audit: attackers that it has trained are not trained again.
        effort: The most ``rows`` to train on, and the ``seed``.
    """
    from privfunnel import audit
    from privfunnel.engines import open_table

    if not tables or mechanism is None or not mechanism.task:
        return None
    with open_table(tables[0], mechanism.read_options(read)) as table:
        if any(name not in table.columns for name in mechanism.task):
            return None
    trained = audit.attackers(found)
    try:
        findings = audit.for_task(tables[0], mechanism, read=read, private=not trained, **effort)
    except InvalidInputError as error:  # of another table than the design's; the audit stands without it
        say(f"warning: nothing is said of the task, {error}", err=True, one_line=True)
        return None
    return findings if not trained else replace(findings, private=trained)


def of_task(found: TaskFindings | None) -> dict[str, Any]:
    """The findings as fields of :class:`privfunnel.report.Report`."""
    if found is None:
        return {}
    return {"task_alternatives": found.instead, "usefulness": (*found.tasks, *found.private)}
