"""``privfunnel curve``: the whole trade-off of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.cli import _task
from privfunnel.cli._beyond import NODES, OTHERWISE, Rows, view_option
from privfunnel.cli._common import (
    Renamed,
    Units,
    can_draw,
    checked_threshold,
    console,
    guard_options,
    open_source,
    output,
    parse_guards,
    parse_options,
    parse_quantity,
    progress_on_terminal,
    solver_options,
    source_options,
    tell_files,
    units_option,
)
from privfunnel.cli._distortion import cost_options, trace_curve
from privfunnel.cli._funnels import CURVE_FILES, check_describing, write_curve, write_pictures, write_report
from privfunnel.cli._limits import chosen, limit_options, limited, memory_limited
from privfunnel.cli._paths import PathName
from privfunnel.cli._screen import say
from privfunnel.errors import InvalidInputError
from privfunnel.release.options import DEFAULT_THRESHOLD

if TYPE_CHECKING:
    from privfunnel.audit import PopulationBand
    from privfunnel.cli._source import NamedProblem
    from privfunnel.curve import Curve
    from privfunnel.problem import Problem
    from privfunnel.solution import Solution
    from privfunnel.solvers.base import Solver

#: Columns of a row of the curve that are amounts of information, and change with the unit.
INFORMATION = ("disclosure", "leakage", "lower_bound", "gap", "closed_form_lower", "closed_form_upper")

#: Said of options that do not go with guards.
PLAIN_ONLY = (
    "are about attackers who know nothing: leave them out, or --known, --published, --guarantee and --measure"
)

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
@click.option("--describe", "--choose", cls=Renamed, metavar="R",
              help="Describe this point in the report: 60% (of H(X)), '0.9 bits', '1.2 nats', 1.2, or a distortion; "
                   "with --task 90% (of I(U;X)), which the curve has then, too.")  # fmt: skip
@click.option("--compare-with", "--beside", cls=Renamed, multiple=True, metavar="SOLVER",
              help="Also draw this solver's curve in the report; may be repeated.")  # fmt: skip
def command(
    source: str,
    points: int,
    refine: int,
    distortion: str | None,
    costs: dict[str, Any] | None,
    invariant: bool,
    utility: tuple[str, ...],
    known: tuple[list[str], ...],
    published: tuple[str, ...],
    guarantees: tuple[str, ...],
    measure: str | None,
    view: str | None,
    solver: str,
    restarts: int | None,
    options: tuple[str, ...],
    seed: int,
    time_limit: float | None,
    memory_limit: str | None,
    units: Units,
    as_json: bool,
    out: Path | None,
    threshold: int,
    describe: str | None,
    compare_with: tuple[str, ...],
    **reading: Any,
) -> None:
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
    from privfunnel import solve, trace
    from privfunnel.solvers import registry
    from privfunnel.tracing import sound

    if distortion is not None or costs or invariant:
        trace_curve(click.get_current_context().params, reading)
        return
    if utility or reading["task"]:
        _task.trace_curve(click.get_current_context().params, reading)
        return
    guards = parse_guards(known, published, guarantees, measure)
    _check_together(guards, out, view, describe, compare_with)
    checked_threshold(threshold)
    for name in compare_with:
        registry.get(name)  # an unknown name is told before the work, not after it
    opened = open_source(source, units=units.name, **reading)
    problem = opened.problem
    at = _described(problem, describe, units)
    inner = points - 2 + refine  # the two ends need no solver
    with memory_limited(memory_limit), output(out, OWNED) as folder:
        given, rows = parse_options(options, restarts), Rows(source, opened, view, time_limit, points=inner)
        method = limited(solver, given, rows.own_limit, inner)
        asked: dict[str, Any] = {"solver": method, "seed": seed}
        asked |= _guarded(guards, (solver, given), time_limit, inner)
        drawing = folder is not None and can_draw()  # told before the work, not after it
        with progress_on_terminal(f"curve of {source}", quiet=as_json) as progress:
            with rows.timed():
                curve = trace(problem, points=points, refine=refine, progress=progress, **asked)
            same = partial(limited, solver, given, answers=inner)
            found, said = _people(rows, curve, same, seed=seed, progress=progress)
        if folder is not None:
            described = (
                None if at is None else better(curve, solve(problem, disclosure=at, throw=False, **asked), at)
            )
            others = {
                name: sound(trace(problem, points=points, solver=other, seed=seed, throw=False))
                for name, other in ((name, limited(name, {}, time_limit, inner)) for name in compare_with)
            }
            if drawing:
                write_pictures(folder, curve.plot(units=units.name, title=source, population=found))
            details = {
                "chosen": described, "others": others, "threshold": threshold, "population": found, "view": rows.taken,
            }  # fmt: skip
            write_files(curve, folder, units=units, title=source, details=details)
    if as_json:
        beyond = {} if found is None else {"population": found.to_dict()}
        say(json.dumps(curve.to_dict() | {"view": rows.taken} | beyond, indent=1))
    else:
        # These know the free disclosure anyway; for others it might cost more than their own work.
        show(curve, units=units, title=source, with_free=method.proves or method.free_only)
        if found is not None:
            show_population(found, curve, units, opened)
        if said:
            say(said)
        tell_files(out, OWNED, curve.solutions)
    rows.end()
    if not curve.complete:
        say("interrupted: this is the part of the curve that was found", err=True)
        click.get_current_context().exit(130)


def _check_together(
    guards: dict[str, Any],
    out: Path | None,
    view: str | None,
    describe: str | None,
    compare_with: tuple[str, ...],
) -> None:
    """Raise InvalidInputError for options that do not go together."""
    if guards and (view == "sample" or compare_with):
        raise InvalidInputError(f"--view sample and --compare-with {PLAIN_ONLY}")
    check_describing(out, describe, compare_with)


def _described(problem: Problem, describe: str | None, units: Units) -> float | None:
    """The disclosure that the report describes, in nats, if one was asked for."""
    from privfunnel.amounts import check_disclosure

    if describe is None:
        return None
    ceiling = problem.disclosure_ceiling
    return check_disclosure(
        problem, parse_quantity(describe, ceiling=ceiling, whole="H(X)", option="--describe", units=units)
    )


def better(curve: Curve, found: Solution, disclosure: float) -> Solution:
    """A point at a disclosure in nats that was solved by itself, or what the curve has there where that leaks less."""
    from privfunnel.solution import FEASIBILITY, ROUNDING, USELESS

    reached = max((s.disclosure for s in curve.solutions), default=0.0)
    if found.status in USELESS or disclosure > reached + FEASIBILITY:
        return found
    shared = curve.at(disclosure)
    return shared if shared.leakage < found.leakage - ROUNDING else found


def _guarded(
    guards: dict[str, Any], solver: tuple[str, dict[str, Any]], seconds: float | None, inner: int
) -> dict[str, Any]:
    """What :func:`privfunnel.trace` is told of guards and of a solver with its options; the time is for all points."""
    if not guards:
        return {}
    share = None if seconds is None else seconds / max(inner + ("guarantees" in guards), 1)
    return guards | chosen(*solver, share, guarded=True)


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

    if curve.threat is not None or not curve.complete:
        return None, rows.without(OTHERWISE) if curve.complete else ""
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


def write_files(
    curve: Curve,
    folder: Path,
    *,
    units: Units,
    title: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write the curve as table, JSON and report, and what it takes to check it: the problem and the proofs.

    Args:
        curve: The curve.
        folder: Where to.
        units: Unit of the table.
        title: What the curve is called.
        details: Further fields of :class:`privfunnel.report.Report`; ``population`` goes into the table, too.
    """
    from privfunnel.storage import PRIVATE, write_json

    found: PopulationBand | None = (details or {}).get("population")
    more = {} if found is None else {"population_leakage": found.leakage, "population_upper": found.upper}
    write_curve(folder, curve, units, INFORMATION if curve.unit else INFORMATION[:1], more)
    if found is not None:
        write_json(folder / "population.json", found.to_dict(), mode=PRIVATE)
    write_report(folder, curve, title, details or {})


def show(curve: Curve, *, units: Units, title: str, with_free: bool) -> None:
    """Print the curve as a table, with what it means below it; with the free disclosure if asked for."""
    from rich import box
    from rich.table import Table

    from privfunnel.ends import usual
    from privfunnel.report import Axis
    from privfunnel.solution import FEASIBILITY, Status

    problem, guarded = curve.problem, curve.threat is not None
    table = Table(title=f"Privacy funnel of {title} ({units.name})", box=box.SIMPLE_HEAD)
    plain = usual(curve.threat)
    leaked = "largest leakage" if guarded else "leakage"

    def leakage(value: float, form: str = ".6f") -> str:
        return format(units.of(value) if curve.unit else value, form)

    whole = "% of I(S;X)" if plain else "% of X's"
    for name in ("disclosure", "% of H(X)", leaked, whole, "proved ≥", "gap", "slope"):
        table.add_column(name, justify="right", no_wrap=not guarded)
    table.add_column("status", no_wrap=True)
    if guarded:
        table.add_column("to who knows")
    for row in curve.rows():
        worst = [row["worst_attacker"] if row["leakage"] > FEASIBILITY else ""] if guarded else []
        table.add_row(
            f"{units.of(row['disclosure']):.6f}",
            f"{100 * row['disclosure_share']:.1f}",
            leakage(row["leakage"]),
            f"{100 * row['leakage_share']:.1f}",
            leakage(row["lower_bound"]),
            leakage(row["gap"], ".1e"),
            "" if row["slope"] is None else f"{row['slope']:.4f}",
            row["status"],
            *worst,
        )
    out = console()
    out.print(table)
    ceiling, leak = units.of(problem.disclosure_ceiling), units.of(problem.leakage_ceiling)
    sizes = f"{problem.n_s} private × {problem.n_x} public symbols"
    out.print(f"H(X) = {ceiling:.6f}, I(S;X) = {leak:.6f} {units.name}; {sizes}.")
    if guarded:
        for line in guarded_words(curve, units):
            out.print(line, soft_wrap=True)
    elif with_free:
        out.print(free_sentence(problem, units))
    if len(Axis.parse(problem.x_labels, "public").names) > 1:
        out.print(
            "Shares of H(X) are of all public columns together; of a column by itself more or less is kept: "
            "privfunnel solve shows both."
        )
    worst_gap = leakage(float(curve.gap.max()), ".1e") + (f" {units.name}" if curve.unit else "")
    proved = sum(status is Status.OPTIMAL for status in curve.status)
    out.print(
        f"Solver {curve.solver}, seed {curve.seed}: {proved} of {len(curve.solutions)} points proved optimal, "
        f"largest gap to the proved bound {worst_gap}."
    )


def guarded_words(curve: Curve, units: Units) -> list[str]:
    """Who is guarded against, what is published, and where guarantees end the curve, in the unit asked for."""
    from privfunnel.ends import usual

    if curve.threat is None:
        return []
    words = [f"Leakage is the largest, {curve.threat.conditions}."]
    if not usual(curve.threat):
        most, unit = curve.leakage_ceiling, f" {units.name}" if curve.unit else ""
        shown = f"{units.of(most) if curve.unit else most:.6f}{unit}"
        words.append(f"X itself leaks {shown} by this measure, to who knows nothing.")
    if curve.threat.published is not None and curve.solutions:
        told = units.of(curve.solutions[0].published_leakage)
        words.append(
            f"What is published tells {told:.6f} {units.name} by itself, I(S;A), which is not counted here."
        )
    if curve.limit is not None:
        most, bound = curve.limit.disclosure, curve.limit.disclosure_upper_bound
        proved = "" if bound is None else f", proved at most {units.of(bound):.6f}"
        words.append(
            f"The guarantees allow {units.of(most):.6f} {units.name} of disclosure{proved}: the curve ends there."
        )
    return words


def free_sentence(problem: Problem, units: Units) -> str:
    """What can be released without any leakage, and how much more it may be where that is not proved."""
    from privfunnel.free import FREE_PROVED, free_disclosure_bounds

    least, most = free_disclosure_bounds(problem)
    ceiling = problem.disclosure_ceiling
    told = f"{units.of(least):.6f} {units.name}"
    share = f"{100 * least / ceiling:.1f} % of H(X)" if least > 0.0 else "nothing"
    if most - least <= FREE_PROVED:
        return f"Free disclosure: {told} ({share}) can be released without any leakage."
    bound = f"{units.of(most):.6f} {units.name} ({100 * most / ceiling:.1f} % of H(X))"
    return f"Free disclosure: at least {told} ({share}), at most {bound} can be released without any leakage."
