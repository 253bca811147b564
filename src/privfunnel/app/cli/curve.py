"""``privfunnel curve``: the whole trade-off of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import (
    READING,
    Units,
    can_draw,
    checked_threshold,
    console,
    guard_options,
    open_source,
    output,
    parse_options,
    progress_on_terminal,
    solver_options,
    source_options,
    tell_files,
    units_option,
)
from privfunnel.app.cli._distortion import cost_options, costed
from privfunnel.app.cli._funnels import (
    CURVE_FILES,
    check_describing,
    was_said,
    write_curve,
    write_pictures,
    write_report,
)
from privfunnel.app.cli._limits import chosen, limit_options, limited, memory_limited, time_limited
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._population import NODES, OTHERWISE, Rows, view_option
from privfunnel.app.cli._question import axis_of, check_own, guards_of, read_place, records_of
from privfunnel.app.cli._screen import say
from privfunnel.app.cli._source import taken_as
from privfunnel.app.cli._task import as_good
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.release.options import DEFAULT_THRESHOLD

if TYPE_CHECKING:
    from privfunnel.algorithms.base import Solver
    from privfunnel.app.cli._source import NamedProblem
    from privfunnel.audit import PopulationBand
    from privfunnel.model.problem import Problem
    from privfunnel.solving.curve import Curve
    from privfunnel.solving.solution import Solution

#: The last columns of numbers, by what a curve runs along.
ENDING = {"disclosure": ("slope",), "utility": ("disclosure",), "distortion": ("disclosure", "slope")}

#: What ``--out`` may leave behind.
OWNED = tuple(sorted((*CURVE_FILES, "population.json")))


def _no_disclosure(_ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """Say what has a disclosure, to who gives it to a curve."""
    if value is not None:
        raise InvalidInputError(
            f"--disclosure {value} is one point of a curve: ask solve --disclosure {value}, with --task solve "
            f"--utility 90% --disclosure {value}; --describe {value} describes it in the report"
        )


@click.command("curve", short_help="The whole curve: least leakage for every disclosure.")
@source_options
@click.option(
    "--points", type=int, default=20, show_default=True, help="Points, uniform in disclosure from end to end."
)
@click.option(
    "--refine", type=int, default=0, show_default=True, help="Further points where the curve bends most."
)
@click.option(
    "--distortion",
    metavar="D",
    help="Leakage against distortion instead, up to D; 'all' for up to no leakage.",
)
@cost_options
@click.option(
    "--utility",
    multiple=True,
    metavar="R",
    help="With --task: only at this utility, 90% (of I(U;X)) or 0.2, not at --points; may be repeated.",
)
@click.option("--disclosure", expose_value=False, hidden=True, callback=_no_disclosure)
@guard_options
@view_option
@solver_options
@limit_options
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", type=PathName(), metavar="DIR",
              help="Folder for report.html, which may be published, and for curve.csv, .json (in nats), .png, .svg, "
                   "problem.json and the proofs, which are confidential.")  # fmt: skip
@click.option("--threshold", type=int, default=DEFAULT_THRESHOLD, show_default=True, metavar="ROWS",
              help="Report: what fewer rows have is not told, and numbers come in steps worth as many.")  # fmt: skip
@click.option("--describe", metavar="R",
              help="Describe this point in the report: 60% (of H(X)), '0.9 bits', '1.2 nats', 1.2, or a distortion; "
                   "with --task 90% (of I(U;X)), which the curve has then, too.")  # fmt: skip
@click.option("--compare-with", multiple=True, metavar="SOLVER",
              help="Also draw this solver's curve in the report; may be repeated.")  # fmt: skip
def command(**given: Any) -> None:
    """Trace the privacy funnel of SOURCE.

    For disclosures R from 0 to H(X), find how little about the private data a release has to leak: the least I(S;Y)
    with I(X;Y) ≥ R. Each line shows the leakage of a channel that was found and, as the gap, how far it may be from
    the proved optimum. With --known, --published or --guarantee it is the curve of the largest leakage of the
    attackers, which begins at what is published and ends where the guarantees end it. With --measure leakage is
    measured otherwise, and so are its bounds.

    With --distortion, --cost or --invariant records are released for records, and the curve is the least leakage for
    every distortion: how much records are changed on average, as --cost counts changes.

    With --task the curve is the least leakage for every utility I(U;Y) of the task U, from 0 to I(U;X), or to the most
    that --guarantee allows.

    \b
    Examples:
      privfunnel curve heart-failure
      privfunnel curve joint.csv --points 40 --units bits --out out/mine
      privfunnel curve patients.csv --private sex,death --public smoking,diabetes
      privfunnel curve heart-failure --distortion all
      privfunnel curve heart-failure --out out/heart --describe 80% --compare-with aem --compare-with greedy
      privfunnel curve heart-failure --known anaemia --known smoking,diabetes --points 8 --option gap=1e-3
      privfunnel curve heart-failure --measure guessing --points 8 --option gap=1e-3
    """
    from privfunnel.algorithms import registry

    axis = axis_of(given)
    check_own(axis, given)
    _check_together(axis, given)
    for name in given["compare_with"]:
        registry.get(name)  # an unknown name is told before the work, not after it
    source, units, out = given["source"], given["units"], given["out"]
    with taken_as(given["view"]):
        opened = open_source(source, units=units.name, **{name: given[name] for name in READING})
    at, places = _places(axis, opened.problem, given)
    options, seconds = time_limited(parse_options(given["options"], given["restarts"]), given["time_limit"])
    answers = _answers(axis, given)
    rows = Rows(source, opened, given["view"], seconds, points=answers)
    with memory_limited(given["memory_limit"]), output(out, OWNED) as folder:
        how = _solver(axis, given, options, rows.own_limit, answers)
        drawing = folder is not None and can_draw()  # told before the work, not after it
        with progress_on_terminal(f"curve of {source}", quiet=given["as_json"]) as progress:
            with rows.timed():
                curve = _traced(opened, given, how | {"progress": progress}, places)
            same = partial(limited, given["solver"], options, answers=answers)
            found, said = _people(rows, curve, same, seed=given["seed"], progress=progress)
        if folder is not None:
            details = {"population": found, "view": rows.taken, **_details(opened, given, curve, at, how)}
            details["others"] = _others(opened.problem, given, seconds, answers)
            if drawing:
                write_pictures(folder, curve.plot(units=units.name, title=source, population=found))
            _write(folder, curve, units, found)
            write_report(folder, curve, source, details)
    if given["as_json"]:
        beyond = {} if found is None else {"population": found.to_dict()}
        view = {"view": rows.taken} if axis == "disclosure" else {}
        say(json.dumps(curve.to_dict() | view | beyond, indent=1))
    else:
        # These know the free disclosure anyway; for others it might cost more than their own work.
        show(curve, units=units, title=source, with_free=_knows_free(how["solver"]))
        if found is not None:
            show_population(found, curve, units, opened)
        if said:
            say(said)
        tell_files(out, OWNED, curve.solutions)
    rows.end()
    if not curve.complete:
        say("interrupted: this is the part of the curve that was found", err=True)
        click.get_current_context().exit(130)


def _check_together(axis: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError for options that do not go together."""
    if given["utility"] and was_said("points"):
        raise InvalidInputError(
            "--utility says where the curve has its points: leave --points out, or --utility"
        )
    if axis == "disclosure" and guards_of(given) and (given["view"] == "sample" or given["compare_with"]):
        raise InvalidInputError(
            "--view sample and --compare-with are about attackers who know nothing: leave them out, or --known, "
            "--published, --guarantee and --measure"
        )
    check_describing(given["out"], given["describe"], given["compare_with"])
    checked_threshold(given["threshold"])


def _places(axis: str, problem: Problem, given: Mapping[str, Any]) -> tuple[float | None, Document]:
    """The place that the report describes, and the places of the curve where they are given, for its tracer."""
    units = given["units"]
    at = None
    if given["describe"] is not None:
        at = read_place(problem, axis, given["describe"], units, "--describe")
    if axis == "utility":
        places = [read_place(problem, axis, text, units) for text in given["utility"]]
        return at, {"utilities": places or None, "also": () if at is None else (at,)}
    if given["distortion"] in (None, "all"):
        return at, {}
    return at, {"end": read_place(problem, axis, given["distortion"], units)}


def _answers(axis: str, given: Mapping[str, Any]) -> int:
    """How many answers a solver is asked for: the two ends of a curve along disclosure need none."""
    if axis == "disclosure":
        return int(given["points"] - 2 + given["refine"])
    return (len(given["utility"]) or int(given["points"])) + (given["describe"] is not None)


def _solver(
    axis: str, given: Mapping[str, Any], options: dict[str, Any], seconds: float | None, answers: int
) -> Document:
    """Guards and solver as :func:`privfunnel.trace` is told of them; the time is for all points."""
    guards, name, seed = guards_of(given), given["solver"], {"seed": given["seed"]}
    if axis == "disclosure" and not guards:
        return {"solver": limited(name, options, seconds, answers), **seed}
    if guards and seconds is not None:
        seconds /= max(answers + ("guarantees" in guards), 1)
    return guards | chosen(name, options, seconds, guarded=True) | seed


def _knows_free(solver: Solver | str) -> bool:
    """Whether a solver has found out what is free; one that is named is of a question that is not plain."""
    return not isinstance(solver, str) and (solver.proves or solver.free_only)


def _traced(opened: NamedProblem, given: Mapping[str, Any], how: Document, places: Document) -> Curve:
    """The curve along the axis that the options are about."""
    from privfunnel import trace
    from privfunnel.release import distortion

    axis, points = axis_of(given), given["points"]
    if axis == "distortion":
        limit = {"time_limit": how["time_limit"]} if "time_limit" in how else {}
        return distortion.trace(opened.given, points=points, **records_of(opened, given), **places, **limit)
    return trace(opened.problem, along=axis, points=points, refine=given["refine"], **places, **how)


def _details(
    opened: NamedProblem, given: Mapping[str, Any], curve: Curve, at: float | None, how: Document
) -> Document:
    """What the report says besides the curve: of the table, and of the point at a place that was asked for."""
    from privfunnel import solve
    from privfunnel.model.question import FEASIBILITY

    axis = axis_of(given)
    told = {"threshold": given["threshold"], **opened.described}
    if given["costs"]:
        told["table"] = costed(given["costs"])
    if at is None:
        return told
    if axis == "utility":
        held = (each for each in curve.solutions if abs(each.question.place - at) <= FEASIBILITY)
        # A curve that was interrupted may not have come to it.
        point = next(held, None) or curve.at(at)
        others = as_good(opened.problem, point.utility, opened.counts)
        return told | {"chosen": point, "task_alternatives": others}
    asked: Document = {axis: at, **records_of(opened, given), **how}
    return told | {"chosen": better(curve, solve(opened.problem, throw=axis == "distortion", **asked), at)}


def _others(
    problem: Problem, given: Mapping[str, Any], seconds: float | None, answers: int
) -> dict[str, Curve]:
    """The curves of the solvers to compare with, by name."""
    from privfunnel import trace
    from privfunnel.solving.tracing import sound

    asked = {"points": given["points"], "seed": given["seed"], "throw": False}
    named = {name: limited(name, {}, seconds, answers) for name in given["compare_with"]}
    return {name: sound(trace(problem, solver=solver, **asked)) for name, solver in named.items()}


def better(curve: Curve, found: Solution, place: float) -> Solution:
    """A point at a place that was solved by itself, or what the curve has there where that leaks less."""
    from privfunnel.certificate.answer import USELESS
    from privfunnel.model.question import FEASIBILITY, ROUNDING

    reached = float(curve.place.max(initial=0.0))
    if found.status in USELESS or place > reached + FEASIBILITY:
        return found
    shared = curve.at(place)
    return shared if shared.leakage < found.leakage - ROUNDING else found


def _people(
    rows: Rows, curve: Curve, solver: Callable[[float | None], Solver], **how: Any
) -> tuple[PopulationBand | None, str]:
    """What designs like those of a curve leak in the population, or what to say in its place.

    Args:
        rows: The rows of the curve.
        curve: The curve.
        solver: Its solver, within so many seconds.
        **how: Seed and listener.
    """
    from privfunnel.audit import population_band

    if not curve.complete:
        return None, ""
    if not curve.guards.plain or curve.axis != "disclosure":
        return None, rows.without(OTHERWISE)
    return rows.beyond(
        lambda part, again: population_band(
            part, curve.disclosure, solver=solver(again.seconds), splits=again.splits, nodes=NODES, **how
        )
    )


def show_population(found: PopulationBand, curve: Curve, units: Units, opened: NamedProblem) -> None:
    """Print both numbers point by point: what leaks of these rows, and what of people like these.

    Args:
        found: What holds for people like these.
        curve: What holds for these rows.
        units: The unit.
        opened: The table.
    """
    from rich import box
    from rich.table import Table

    title = f"Leakage among these rows, and among people like these ({units.name})"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    proved = found.proved(curve.problem.leakage_ceiling)
    some = bool(proved[found.disclosure > 0.0].any())
    sure = f"{100 * found.confidence:g} % confidence"
    for name in ("disclosure", "these rows", "people like these, estimated"):
        table.add_column(name, justify="right", no_wrap=True)
    if some:
        table.add_column(f"at most, {sure}", justify="right", no_wrap=True)
    for i, solution in enumerate(curve.solutions):
        most = [f"{units.of(found.upper[i]):.4f}" if proved[i] else "not proved"] if some else []
        told = (found.disclosure[i], solution.leakage, found.leakage[i])
        table.add_row(*(f"{units.of(float(value)):.4f}" for value in told), *most)
    out = console()
    out.print(table)
    weighted = opened.counts is not None and opened.counts.weights is not None
    pieces = f"{found.rows:,} {opened.kind}{', kept in proportion to their weights' if weighted else ''}"
    symbol = ""
    if found.classes is not None:
        symbol = f" This is about the symbol of the {found.classes} score classes that each design makes."
    few = "" if some else f" They are too few to prove, with {sure}, that less leaks than X itself tells."
    out.print(
        f"People like these: designs on one half of the {pieces}, judged by the other half, in turn.{symbol}{few}",
        soft_wrap=True,
    )


def _write(folder: Path, curve: Curve, units: Units, found: PopulationBand | None) -> None:
    """Write the curve as table and JSON with what it takes to check it, and what holds for people like these."""
    if found is None:
        write_curve(folder, curve, units)
        return
    from privfunnel.infra.storage import PRIVATE, write_json

    write_curve(folder, curve, units, {"population_leakage": found.leakage, "population_upper": found.upper})
    write_json(folder / "population.json", found.to_dict(), mode=PRIVATE)


def show(curve: Curve, *, units: Units, title: str, with_free: bool) -> None:
    """Print the curve as a table, with what it means below it; with the free disclosure if asked for."""
    from rich import box
    from rich.table import Table

    axis, guarded = curve.axis.value, not curve.guards.plain
    tasks = f" for {', '.join(curve.problem.required_tasks().names)}" if axis == "utility" else ""
    name = {"disclosure": "Privacy", "utility": "Task", "distortion": "Distortion"}[axis]
    table = Table(title=f"{name} funnel of {title}{tasks} ({units.name})", box=box.SIMPLE_HEAD)
    for head in _heads(curve):
        table.add_column(head, justify="right", no_wrap=not guarded)
    table.add_column("status", no_wrap=True)
    if guarded:
        table.add_column("to who knows")
    for row in curve.rows():
        table.add_row(*_cells(curve, row, units))
    screen = console()
    screen.print(table)
    for line in _sentences(curve, units, with_free=with_free):
        screen.print(line, soft_wrap=True)


def _heads(curve: Curve) -> list[str]:
    """The columns of numbers."""
    axis, shares = curve.axis, "% of I(S;X)" if curve.guards.measure.is_information else "% of X's"
    place = [axis.value, f"% of {axis.whole}"] if axis.whole else [axis.value]
    leaked = "leakage" if curve.guards.plain else "largest leakage"
    return [*place, leaked, shares, "proved ≥", "gap", *ENDING[axis]]


def _cells(curve: Curve, row: Document, units: Units) -> Iterator[str]:
    """A row of the table."""
    from privfunnel.model.question import FEASIBILITY

    axis, costs = curve.axis, curve.costs

    def leaked(value: float, form: str = ".6f") -> str:
        return format(units.of(value) if curve.unit else value, form)

    yield f"{row[axis] if costs is not None else units.of(row[axis]):.6f}"
    if axis.whole:
        yield f"{100 * row[f'{axis}_share']:.1f}"
    yield from (leaked(row["leakage"]), f"{100 * row['leakage_share']:.1f}", leaked(row["lower_bound"]))
    yield leaked(row["gap"], ".1e")
    for name in ENDING[axis]:
        if name == "disclosure":
            yield f"{units.of(row[name]):.6f}"
        elif row[name] is None:
            yield ""
        else:
            yield f"{row[name] if costs is None else units.of(-row[name]):.4f}"
    yield row["status"]
    if not curve.guards.plain:
        yield row["worst_attacker"] if row["leakage"] > FEASIBILITY else ""


def _sentences(curve: Curve, units: Units, *, with_free: bool) -> Iterator[str]:
    """What the table is of, who is guarded against, what is free, and what is proved."""
    from privfunnel.certificate.answer import Status
    from privfunnel.report import Axis

    problem, axis = curve.problem, curve.axis
    if axis == "distortion":
        yield f"Distortion: {curve.costs.words}."
    ends = {axis.whole: curve.question.whole} if axis.whole else {}
    wholes = (
        f"{name} = {units.of(value):.6f}"
        for name, value in (ends | {"I(S;X)": problem.leakage_ceiling}).items()
    )
    yield f"{', '.join(wholes)} {units.name}; {problem.n_s} private × {problem.n_x} public symbols."
    yield from guarded_words(curve, units)
    if axis == "disclosure":
        if with_free and curve.guards.plain:
            yield free_sentence(problem, units)
        if len(Axis.parse(problem.x_labels, "public").names) > 1:
            yield (
                "Shares of H(X) are of all public columns together; of a column by itself more or less is kept: "
                "privfunnel solve shows both."
            )
    gap = units.of(float(curve.gap.max())) if curve.unit else float(curve.gap.max())
    proved = sum(status is Status.OPTIMAL for status in curve.status)
    yield (
        f"Solver {curve.solver}, seed {curve.seed}: {proved} of {len(curve.solutions)} points proved optimal, "
        f"largest gap to the proved bound {gap:.1e}{f' {units.name}' if curve.unit else ''}."
    )


def guarded_words(curve: Curve, units: Units) -> list[str]:
    """Who is guarded against, what is published, and where guarantees end the curve, in the unit asked for."""
    if curve.guards.plain:
        return []
    words = [f"Leakage is the largest, {curve.guards.conditions}."]
    if not curve.guards.measure.is_information:
        most, unit = curve.leakage_ceiling, f" {units.name}" if curve.unit else ""
        shown = f"{units.of(most) if curve.unit else most:.6f}{unit}"
        words.append(f"X itself leaks {shown} by this measure, to who knows nothing.")
    if curve.guards.published is not None and curve.solutions:
        told = units.of(curve.solutions[0].published_leakage)
        words.append(
            f"What is published tells {told:.6f} {units.name} by itself, I(S;A), which is not counted here."
        )
    if curve.limit is not None:
        most, bound = curve.limit.values.of(curve.axis), curve.limit.bound
        words.append(
            f"The guarantees allow {units.of(most):.6f} {units.name} of {curve.axis}, proved at most "
            f"{units.of(bound):.6f}: the curve ends there."
        )
    return words


def free_sentence(problem: Problem, units: Units) -> str:
    """What can be released without any leakage, and how much more it may be where that is not proved."""
    from privfunnel.solving.free_disclosure import FREE_PROVED, free_disclosure_bounds

    least, most = free_disclosure_bounds(problem)
    ceiling = problem.disclosure_ceiling
    told = f"{units.of(least):.6f} {units.name}"
    share = f"{100 * least / ceiling:.1f} % of H(X)" if least > 0.0 else "nothing"
    if most - least <= FREE_PROVED:
        return f"Free disclosure: {told} ({share}) can be released without any leakage."
    bound = f"{units.of(most):.6f} {units.name} ({100 * most / ceiling:.1f} % of H(X))"
    return f"Free disclosure: at least {told} ({share}), at most {bound} can be released without any leakage."
