"""The files of ``--out``, and options that do not go together."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from privfunnel.app.cli import COMMAND
from privfunnel.app.cli._common import Units
from privfunnel.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privfunnel.data.tables import Counts
    from privfunnel.measures import Array
    from privfunnel.solving.curve import Curve
    from privfunnel.solving.solution import Solution

#: What :func:`write_point` may leave behind, and what :func:`write_curve`, :func:`write_pictures` and the report may.
POINT_FILES = ("certificate.npz", "mechanism.json", "solution.json", "transition.csv")
CURVE_FILES = (
    "certificates.npz", "curve.csv", "curve.json", "curve.png", "curve.svg", "problem.json", "report.html",
)  # fmt: skip


#: Columns of a row of a curve that are amounts of information, and change with the unit; where leakage is measured by
#: something that has none, only the first two are.
INFORMATION = (
    "disclosure", "utility", "leakage", "lower_bound", "gap", "closed_form_lower", "closed_form_upper",
)  # fmt: skip


def options_besides(own: Collection[str]) -> list[str]:
    """Options of the running command, as they are written, that were given and whose names are not in ``own``."""
    context = click.get_current_context()
    values = context.params
    return [
        option.opts[0]
        for option in context.command.params
        if (name := str(option.name)) not in own
        and values.get(name) not in (None, (), {}, False, option.get_default(context))
    ]


def was_said(name: str) -> bool:
    """Whether the running command was given an option, by its parameter's name, even with its default value."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def share(value: float, whole: float, name: str) -> str:
    """A part of a whole in words; nothing where the whole is nothing."""
    return f"{100 * value / whole:.2f} % of {name}" if whole > 0.0 else ""


def leaked_share(solution: Solution) -> str:
    """What the leakage is a share of, or measured by; nothing for one column's, whose share stands in a row below."""
    guards = solution.guards
    if not guards.measure.is_information:
        return f"by {guards.measure}"
    if guards.attributes:
        return "about one column"
    return share(solution.leakage, solution.problem.leakage_ceiling, "I(S;X)")


def write_point(folder: Path, solution: Solution, counts: Counts | None) -> None:
    """Write a solution, its proof and, for a table of records, its mechanism and its matrix of changes."""
    solution.save(folder / "solution.json")
    if solution.certificate is not None:
        solution.certificate.save(folder / "certificate.npz")
    if counts is not None:
        from privfunnel.release.mechanism import Mechanism

        Mechanism.from_solution(counts, solution).save(folder / "mechanism.json")
    if solution.costs is not None:
        from privfunnel.release.distortion import write_transition_matrix

        write_transition_matrix(solution, folder / "transition.csv")


def write_curve(
    folder: Path,
    curve: Curve,
    units: Units,
    more: Mapping[str, Array] | None = None,
) -> None:
    """Write a curve as table and as JSON, and what it takes to check it: the problem and the proofs.

    Args:
        folder: Where to.
        curve: The curve.
        units: Unit of the table.
        more: Further columns of such amounts, one entry for each point, in nats.
    """
    from privfunnel.certificate import save_bundle
    from privfunnel.infra.storage import PRIVATE, write_text

    rows, more = curve.rows(), more or {}
    known = (
        (*INFORMATION, "slope") if curve.costs is not None else INFORMATION if curve.unit else INFORMATION[:2]
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0], *more, "units"], lineterminator="\n")
    writer.writeheader()
    for i, row in enumerate(rows):
        told = {name: units.of(row[name]) for name in known if row.get(name) is not None}
        told |= {name: units.of(float(column[i])) for name, column in more.items()}
        writer.writerow({**row, **told, "units": units.name})
    write_text(folder / "curve.csv", text.getvalue(), mode=PRIVATE)
    curve.save(folder / "curve.json")
    curve.problem.save(folder / "problem.json")
    if curve.certificates:
        save_bundle(folder / "certificates.npz", curve.certificates)


def write_report(folder: Path, curve: Curve, title: str, details: Mapping[str, Any]) -> None:
    """Write the report of a curve, which may be published.

    Args:
        folder: Where to.
        curve: The curve.
        title: What the curve is called.
        details: Further fields of :class:`privfunnel.report.Report`.
    """
    from privfunnel import report

    command = click.get_current_context().meta.get(COMMAND, "")
    about = report.Report(title=f"Privacy funnel of {title}", source=title, command=command, **details)
    report.write(folder / "report.html", curve, about)


def check_describing(out: Path | None, *asked: object) -> None:
    """Refuse what goes into a report where there is none."""
    if out is None and (any(asked) or was_said("threshold")):
        raise InvalidInputError(
            "--describe, --compare-with and --threshold go into the report: say where to put it with --out DIR"
        )


def write_pictures(folder: Path, figure: Figure) -> None:
    """Write a curve as pictures, which are confidential: numbers can be read from them, to six digits or to a pixel."""
    from privfunnel.infra.storage import PRIVATE
    from privfunnel.report import plot

    for path in (folder / "curve.png", folder / "curve.svg"):
        plot.save(figure, path)
        path.chmod(PRIVATE)
