"""Records for records on the command line: what changes cost, and how many there are."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import Function, unquoted
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.model.costs import Costs
    from privfunnel.solving.solution import Solution

#: A column and its rule with an order.
_LISTED = re.compile(r"(.+?)=((?:[^=*]*\*)?\s*ordinal:.*)")


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


def _costs(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> Document | None:
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
    from privfunnel.infra.storage import read_bytes

    try:
        rows = [row for row in csv.reader(io.StringIO(read_bytes(path).decode("utf-8-sig"))) if row]
    except UnicodeDecodeError as error:
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
    from privfunnel.infra.storage import read_json
    from privfunnel.solving.solution import Solution

    if not source.lower().endswith(".json"):
        return None
    found = read_json(source)
    if not isinstance(found, dict) or found.get("schema") != Solution.schema:
        return None
    return Solution.from_dict(found).costs


def costed(costs: Mapping[str, Any]) -> str:
    """What to check a curve's certificates against, as the command line takes it."""
    # The report may be published, and an order names values that few have.
    rules = (re.sub(":.*", ":…", rule) if isinstance(rule, str) else "costs.csv" for rule in costs.values())
    options = (f"--cost {shlex.quote(f'{column}={rule}')}" for column, rule in zip(costs, rules, strict=True))
    return " ".join(("problem.json", *options))


def unchanged_words(solution: Solution) -> str:
    """How often records and columns are released as they are."""
    from privfunnel.neighbours.alternatives import alphabet_of
    from privfunnel.release.distortion import unchanged

    if solution.outputs is None:
        return ""
    problem = solution.problem
    whole, each = unchanged(solution.channel, problem.p_x, solution.outputs, alphabet_of(problem))
    parts = [f"{name} {100 * share:.1f} %" for name, share in each.items()]
    columns = f"; columns: {', '.join(parts)}" if len(parts) > 1 else ""
    return f"Released as they are: {100 * whole:.1f} % of the records{columns}."
