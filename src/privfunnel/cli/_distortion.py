"""The distortion funnel on the command line: options, one point, the curve."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.cli._beyond import say_otherwise
from privfunnel.cli._common import (
    Function,
    Units,
    can_draw,
    checked_threshold,
    console,
    open_source,
    output,
    parse_quantity,
    tell_files,
    unquoted,
)
from privfunnel.cli._funnels import (
    CURVE_FILES,
    POINT_FILES,
    check_describing,
    options_besides,
    share,
    write_curve,
    write_pictures,
    write_point,
    write_report,
)
from privfunnel.cli._limits import memory_limited
from privfunnel.cli._screen import say
from privfunnel.errors import InvalidInputError

if TYPE_CHECKING:
    from privfunnel.distortion import Costs, DistortionCurve, DistortionSolution

#: What ``--out`` may leave behind, of a point.
FILES = (*POINT_FILES, "transition.csv")

#: A column and its rule with an order.
_LISTED = re.compile(r"(.+?)=((?:[^=*]*\*)?\s*ordinal:.*)")

#: Options of solve and curve that the distortion funnel has, too.
OWN = (
    "source", "distortion", "leakage", "costs", "invariant", "points", "units", "as_json", "out", "time_limit",
    "memory_limit", "seed", "threshold", "view", "describe",
)  # fmt: skip

#: Columns of a row of the curve that are amounts of information, and change with the unit.
INFORMATION = ("leakage", "lower_bound", "gap", "disclosure", "multiplier")


def cost_options(function: Function) -> Function:
    """``--cost`` and ``--invariant``."""
    decorators: Sequence[Callable[[Function], Function]] = (
        click.option("--cost", "costs", multiple=True, metavar="COLUMN=RULE", callback=_costs,
                     help="Distortion: what changing a column costs: hamming (1, the default), ordinal (steps between "
                          "ordered values; of texts ordinal:low,medium,high), never, a weight (2, 0.5*ordinal), or a "
                          ".csv of costs; costs add up. "
                          "Without any, 1 for a changed record."),
        click.option("--invariant", is_flag=True,
                     help="Distortion: the released records have the table's own distribution, p(y) = p(x)."),
    )  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def _costs(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any] | None:
    """``COLUMN=RULE`` pairs; the rules are read by the distortion room, files of costs here."""
    rules: dict[str, Any] = {}
    for value in values:
        listed = _LISTED.fullmatch(value)  # an order may have signs of its own: ordinal:<=5,6-9
        column, sign, rule = value.rpartition("=") if listed is None else (listed[1], "=", listed[2])
        if not (column.strip() and sign and rule.strip()):
            raise click.BadParameter(f"{value!r} is not COLUMN=RULE: give e.g. age=ordinal")
        rule = rule.strip()
        rules[unquoted(column)] = _read_costs(Path(rule)) if rule.lower().endswith(".csv") else rule
    return rules or None


def _read_costs(path: Path) -> dict[str, dict[str, float]]:
    """Costs listed in a file: the values after the change in the header, those before it in the first column."""
    try:
        rows = [row for row in csv.reader(io.StringIO(path.read_text("utf-8-sig"))) if row]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"cannot read {str(path)!r} ({error}): give a CSV of costs in UTF-8"
        ) from error
    try:
        header, body = [cell.strip() for cell in rows[0][1:]], rows[1:]
        return {
            row[0].strip(): {
                after: float(cell) for after, cell in zip(header, row[1:], strict=True) if cell.strip()
            }
            for row in body
        }
    except (IndexError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r} holds no table of costs ({error}): give the values in the first row and column and numbers "
            "between, inf for never"
        ) from None


def costs_in(source: str) -> Costs | None:
    """The costs of a solution.json of the distortion funnel; None for anything else."""
    from privfunnel.distortion import DistortionSolution
    from privfunnel.storage import read_json

    if not source.lower().endswith(".json"):
        return None
    found = read_json(source)
    if not isinstance(found, dict) or found.get("schema") != DistortionSolution.schema:
        return None
    return DistortionSolution.from_dict(found).costs


def _refuse(given: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """Refuse what was given for options that the distortion funnel has no use for."""
    others = options_besides((*OWN, *(name for name in reading if name != "task")))
    others = [*others, *(["--view sample"] if given["view"] == "sample" else [])]
    if others:
        them = "it" if len(others) == 1 else "them"
        raise InvalidInputError(
            f"the distortion funnel has no use for {', '.join(others)}: leave {them} out, or leave --distortion, "
            "--cost and --invariant out"
        )


def solve_point(given: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """Solve one point of the distortion funnel, write its files and show it.

    Args:
        given: The options of ``privfunnel solve`` by their names.
        reading: Those that say how to read the table.
    """
    from privfunnel import distortion

    _refuse(given, reading)
    if (given["distortion"] is None) == (not given["leakage"]) or len(given["leakage"]) > 1:
        raise InvalidInputError(
            "give exactly one of --distortion (the most changes) and --leakage (what may leak)"
        )
    units, out = given["units"], given["out"]
    opened = open_source(given["source"], units=units.name, **reading)
    wanted: dict[str, Any] = {"costs": given["costs"], "invariant": given["invariant"]}
    if given["distortion"] is not None:
        wanted["distortion"] = _number(given["distortion"])
    else:
        ceiling = opened.problem.leakage_ceiling
        wanted["leakage"] = parse_quantity(
            given["leakage"][0], ceiling=ceiling, whole="I(S;X)", option="--leakage", units=units
        )
    with memory_limited(given["memory_limit"]), output(out, FILES) as folder:
        solution = distortion.solve(opened.given, time_limit=given["time_limit"] or math.inf, **wanted)
        if folder is not None:
            write_point(folder, solution, opened.counts)
            distortion.write_transition_matrix(solution, folder / "transition.csv")
    if given["as_json"]:
        say(json.dumps(solution.to_dict(), indent=1))
        return
    show_point(solution, units=units, title=given["source"])
    say_otherwise(given, opened)
    tell_files(out, FILES, [solution])


def _costed(costs: Mapping[str, Any]) -> str:
    """What to check a curve's certificates against, as the command line takes it."""
    # The report may be published, and an order names values that few have.
    rules = (re.sub(":.*", ":…", rule) if isinstance(rule, str) else "costs.csv" for rule in costs.values())
    options = (f"--cost {shlex.quote(f'{column}={rule}')}" for column, rule in zip(costs, rules, strict=True))
    return " ".join(("problem.json", *options))


def _number(text: str, option: str = "--distortion") -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(
            f"{option} {text!r} is not a number: give the most E d(X,Y), in the unit of the costs"
        ) from None


def show_point(solution: DistortionSolution, *, units: Units, title: str) -> None:
    """Print one solution in words and numbers."""
    from rich import box
    from rich.table import Table

    problem = solution.problem
    table = Table(title=f"{title} ({units.name})", box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row("distortion E d(X,Y)", f"{solution.distortion:.9f}", solution.costs.words)
    if solution.least_distortion is not None:
        table.add_row("least distortion, proved", f"{solution.least_distortion:.9f}", "within the budget")
    table.add_row("leakage I(S;Y)", f"{units.of(solution.leakage):.9f}",
                  share(solution.leakage, problem.leakage_ceiling, "I(S;X)"))  # fmt: skip
    table.add_row("proved lower bound", f"{units.of(solution.lower_bound):.9f}", solution.bound_source)
    table.add_row("gap", f"{units.of(solution.gap):.2e}", "")
    table.add_row("disclosure I(X;Y)", f"{units.of(solution.disclosure):.9f}",
                  share(solution.disclosure, problem.disclosure_ceiling, "H(X)"))  # fmt: skip
    table.add_row("slope", f"{units.of(solution.multiplier):.6f}", "leakage saved per distortion")
    released = int((solution.p_y > 0.0).sum())
    kept = ", with the table's own distribution" if solution.invariant else ""
    table.add_row("records released", str(released), f"of {problem.n_x}{kept}")
    table.add_row("status", solution.status.value, solution.advice)
    screen = console()
    screen.print(table)
    if said := _unchanged(solution):
        screen.print(said, soft_wrap=True)


def _unchanged(solution: DistortionSolution) -> str:
    """How often records and columns are released as they are."""
    from privfunnel.alternatives import alphabet_of
    from privfunnel.distortion import unchanged

    if solution.outputs is None:
        return ""
    problem = solution.problem
    whole, each = unchanged(solution.channel, problem.p_x, solution.outputs, alphabet_of(problem))
    parts = [f"{name} {100 * share:.1f} %" for name, share in each.items()]
    columns = f"; columns: {', '.join(parts)}" if len(parts) > 1 else ""
    return f"Released as they are: {100 * whole:.1f} % of the records{columns}."


def trace_curve(given: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
    """Trace the distortion funnel, write its files and show it.

    Args:
        given: The options of ``privfunnel curve`` by their names.
        reading: Those that say how to read the table.
    """
    from privfunnel import distortion

    _refuse(given, reading)
    units, out = given["units"], given["out"]
    check_describing(out, given["describe"])
    checked_threshold(given["threshold"])
    at = None if given["describe"] is None else _number(given["describe"], "--describe")
    opened = open_source(given["source"], units=units.name, **reading)
    costs = distortion.costs_of(opened.given, given["costs"])
    options: dict[str, Any] = {"costs": costs, "invariant": given["invariant"], "points": given["points"]}
    if given["distortion"] not in (None, "all"):
        options["end"] = _number(given["distortion"])
    with memory_limited(given["memory_limit"]), output(out, CURVE_FILES) as folder:
        drawing = folder is not None and can_draw()
        seconds = given["time_limit"] or math.inf
        curve = distortion.trace(opened.given, time_limit=seconds, **options)
        if folder is not None:
            write_curve(folder, curve, units, INFORMATION)
            same = {"costs": costs, "invariant": given["invariant"]}
            described = (
                None
                if at is None
                else distortion.solve(opened.given, distortion=at, time_limit=seconds, **same)
            )
            checked = {"table": _costed(given["costs"])} if given["costs"] else {}
            details = {"chosen": described, "threshold": given["threshold"], **checked}
            write_report(folder, curve, given["source"], {"view": given["view"], **details})
            if drawing:
                write_pictures(folder, curve.plot(units=units.name))
    if given["as_json"]:
        say(json.dumps(curve.to_dict(), indent=1))
        return
    show_curve(curve, units=units, title=given["source"])
    say_otherwise(given, opened)
    tell_files(out, CURVE_FILES, curve.solutions)


def show_curve(curve: DistortionCurve, *, units: Units, title: str) -> None:
    """Print the curve as a table, with what it means below it."""
    from rich import box
    from rich.table import Table

    from privfunnel.solution import Status

    table = Table(title=f"Distortion funnel of {title} ({units.name})", box=box.SIMPLE_HEAD)
    for name in ("distortion", "leakage", "% of I(S;X)", "proved ≥", "gap", "disclosure", "slope"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for row in curve.rows():
        table.add_row(
            f"{row['distortion']:.6f}",
            f"{units.of(row['leakage']):.6f}",
            f"{100 * row['leakage_share']:.1f}",
            f"{units.of(row['lower_bound']):.6f}",
            f"{units.of(row['gap']):.1e}",
            f"{units.of(row['disclosure']):.6f}",
            f"{units.of(row['multiplier']):.4f}",
            row["status"],
        )
    screen = console()
    screen.print(table)
    proved = sum(status is Status.OPTIMAL for status in curve.status)
    screen.print(
        f"Distortion: {curve.costs.words}. {proved} of {len(curve.solutions)} points proved optimal, largest gap to "
        f"the proved bound {units.of(float(curve.gap.max())):.1e} {units.name}.",
        soft_wrap=True,
    )
