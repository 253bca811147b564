"""``privfunnel verify``: prove the bounds of a certificate file again, without the solver that made it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.cli._common import (
    NamedProblem,
    Units,
    console,
    open_source,
    parse_quantity,
    source_options,
    units_option,
)
from privfunnel.cli._distortion import cost_options, costs_in
from privfunnel.cli._paths import PathName
from privfunnel.cli._screen import say
from privfunnel.errors import CertificateError

if TYPE_CHECKING:
    from privfunnel.certificate import BottleneckCertificate, NeighbourCertificate
    from privfunnel.certificate.bundle import AnyCertificate as Bundled
    from privfunnel.problem import Problem

    AnyCertificate = Bundled | BottleneckCertificate


@click.command("verify", short_help="Check a certificate: prove its lower bound again by plain arithmetic.")
@click.argument("certificate", type=PathName())
@source_options
@click.option(
    "--disclosure", metavar="R", help="Also show the proved bound at R: 60% (of H(X)), '0.9 bits', 1.2."
)
@click.option(
    "--distortion", type=float, metavar="D", help="Also show what is proved where changes are at most D."
)
@cost_options
@units_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in nats, instead of a table.")
def command(
    certificate: Path,
    source: str,
    disclosure: str | None,
    distortion: float | None,
    costs: dict[str, Any] | None,
    invariant: bool,
    units: Units,
    as_json: bool,
    **reading: Any,
) -> None:
    """Prove the lines of CERTIFICATE, a .npz file, for the table SOURCE.

    Each line L(R) ≥ c + μ R holds for every disclosure R; where a release was to disclose as much as guarantees or no
    leakage allow, the line bounds the disclosure; those of privfunnel bottleneck bound I(S;Y) from above, those of
    guess and inertia are about right guesses and about χ². A certificate of a distortion funnel is proved for the
    costs that --cost describes, as solve took them; that of a task funnel is a
    line along the utility I(U;Y) of the columns that --task names. Exit code 0: every line is proved. Exit code 2: the
    file is empty or damaged, belongs to another table, or does not prove what it claims. Whoever made the file, reading
    it runs nothing, and takes no more memory than a certificate of its size needs.

    \b
    Examples:
      privfunnel solve heart-failure --disclosure 70% --out design
      privfunnel verify design/certificate.npz heart-failure --disclosure 70%
    """
    from privfunnel.certificate import (
        is_bottleneck,
        is_neighbours,
        load_bottleneck,
        load_bundle,
        load_neighbours,
    )

    opened = open_source(source, units=units.name, **reading)
    problem = opened.problem
    at = None
    if disclosure is not None:
        at = parse_quantity(
            disclosure, ceiling=problem.disclosure_ceiling, whole="H(X)", option="--disclosure", units=units
        )
    if is_neighbours(certificate):
        others = load_neighbours(certificate)
        if disclosure is not None or distortion is not None or costs or invariant:
            raise CertificateError(
                f"{str(certificate)!r} is about guesses or χ²: leave --disclosure, --distortion and --cost out"
            )
        _prove(others, problem, source, certificate)
        _tell_neighbours(others, certificate.name, as_json)
        return
    lines: tuple[AnyCertificate, ...] = (
        load_bottleneck(certificate) if is_bottleneck(certificate) else load_bundle(certificate)
    )
    _prove(lines, problem, source, certificate)
    check_costs(lines, source, opened, costs, invariant)
    if as_json:
        say(json.dumps([_summary(line, _place(line, at, distortion)) for line in lines], indent=1))
    else:
        _show(lines, units, (at, distortion), certificate.name)


def _prove(
    lines: tuple[AnyCertificate | NeighbourCertificate, ...], problem: Problem, source: str, certificate: Path
) -> None:
    """Prove every line again.

    Raises:
        CertificateError: There is none, or one is of another table or does not prove what it claims.
    """
    if not lines:
        raise CertificateError(f"{str(certificate)!r} holds no certificate: nothing is proved by it")
    for line in lines:
        if line.fingerprint != problem.fingerprint:
            raise CertificateError(
                f"{str(certificate)!r} belongs to another problem than {source!r} (fingerprint "
                f"{line.fingerprint[:12]}…, this one is {problem.fingerprint[:12]}…): give the table, columns and bins "
                "it was made for; a design with --holdout was made for a part of the rows, which only its "
                "solution.json holds: give that file in place of the table"
            )
        line.verify(problem)


def _tell_neighbours(lines: tuple[NeighbourCertificate, ...], name: str, as_json: bool) -> None:
    """Say what lines along guesses or χ² prove."""
    if as_json:
        rows = [
            {"verified": True, "proves": line.told(), "intercept": line.intercept, "slope": line.slope}
            for line in lines
        ]
        say(json.dumps(rows, indent=1))
        return
    from rich import box
    from rich.table import Table

    table = Table(title=f"{name}: {len(lines)} proved line{'s' * (len(lines) != 1)}", box=box.SIMPLE_HEAD)
    table.add_column("proved for every release", no_wrap=True)
    for line in lines:
        table.add_row(line.told())
    screen = console()
    screen.print(table)
    screen.print(
        f"VERIFIED: {_every(lines)} proved again for this table, by arithmetic alone, whatever solver is "
        "used.",
        soft_wrap=True,
    )


def check_costs(
    lines: tuple[AnyCertificate, ...], source: str, opened: NamedProblem, costs: Any, invariant: bool
) -> None:
    """Refuse certificates of other costs than those that were asked about: they prove another thing.

    Raises:
        CertificateError: One is.
    """
    import numpy as np

    from privfunnel.certificate import DistortionCertificate

    own = [line for line in lines if isinstance(line, DistortionCertificate)]
    if (costs or invariant) and len(own) < len(lines):
        raise CertificateError("the certificate is not about distortion: leave --cost and --invariant out")
    if not own:
        return
    from privfunnel.distortion import costs_of

    known = costs_in(source) if costs is None else None
    expected = costs_of(opened.given, costs) if known is None else known
    for line in own:
        if not np.array_equal(line.costs, expected.matrix):
            raise CertificateError(
                f"the certificate is about other costs than {expected.words}: give the --cost options that it was made "
                "with, or the solution.json in place of the table"
            )
        if invariant and not line.invariant:
            raise CertificateError(
                "the certificate is not about invariant releases alone: leave --invariant out"
            )


def _place(line: AnyCertificate, at: float | None, distortion: float | None) -> float | None:
    """Where a line is looked at: a disclosure, or a distortion where it is about that."""
    from privfunnel.certificate import DistortionCertificate

    return distortion if isinstance(line, DistortionCertificate) else at


def _summary(line: AnyCertificate, at: float | None) -> dict[str, Any]:
    """One proved line as JSON, in nats."""
    summary: dict[str, Any] = {
        "verified": True,
        "units": "nats",
        "intercept": line.intercept,
        "slope": line.slope,
        "coarsened": getattr(line, "coarsening", None) is not None,
        "boxes": line.n_nodes,
    }
    from privfunnel.certificate import DistortionCertificate, GuardedCertificate

    if isinstance(line, DistortionCertificate):
        summary |= {"proves": line.told("nats"), "slope": -line.slope, "invariant": line.invariant}
        return summary if at is None else summary | {"distortion": at, "lower_bound": line.lower_bound(at)}
    if isinstance(line, GuardedCertificate):
        summary |= {"proves": line.words, "threat": line.threat.to_dict(), "weights": line.weights.tolist()}
        summary |= {} if line.task_fingerprint is None else {"task_slope": line.task_slope}
    if at is not None:
        summary["disclosure"] = at
        bound = _bound_at(line, at)
        # it may be about disclosure alone
        summary[_side(line)] = bound if math.isfinite(bound) else None
    return summary


def _show(
    lines: tuple[AnyCertificate, ...], units: Units, wanted: tuple[float | None, float | None], name: str
) -> None:
    from rich import box
    from rich.table import Table

    from privfunnel.certificate import Certificate

    about_changes = _about_changes(lines)
    at = wanted[1] if about_changes else wanted[0]

    table = Table(title=f"{name}: {len(lines)} proved lines ({units.name})", box=box.SIMPLE_HEAD)
    upper = [_bounds_disclosure(line) for line in lines]
    short = all(
        isinstance(line, Certificate) for line in lines
    )  # others name attackers, guarantees and costs
    table.add_column(
        "proved" if all(upper) else f"proved for every {'D' if about_changes else 'R'}",
        no_wrap=short,
    )
    if at is not None:
        place = f"D = {at:.6g}" if about_changes else f"R = {units.of(at):.6g}"
        table.add_column(f"at {place}", justify="right", no_wrap=True)
    table.add_column("pairs" if about_changes else "boxes", justify="right")
    for line in lines:
        cells = [_told(line, units)]
        if at is not None:
            bound = _bound_at(line, at)
            cells.append(f"{units.of(bound):.9f}" if math.isfinite(bound) else "–")
        table.add_row(*cells, str(line.n_nodes))
    screen = console()
    screen.print(table)
    for_task = any(getattr(line, "task_fingerprint", None) is not None for line in lines)
    more = "keeps more of the task" if for_task else "discloses more"
    claim = more if all(upper) else "that keeps R leaks less"
    if any(upper) and not all(upper):
        claim += f", and none {more},"
    if any(_side(line) == "upper_bound" for line in lines):
        claim = "of rate R tells more about S"
    if about_changes:
        kept = "with its distribution " if any(getattr(line, "invariant", False) for line in lines) else ""
        claim = f"{kept}that changes records by at most D on average leaks less"
    screen.print(
        f"VERIFIED: {_every(lines)} proved again for this table, by arithmetic alone: no release of it "
        f"{claim} than {'it says' if len(lines) == 1 else 'they say'}, whatever solver is used.",
        soft_wrap=True,
    )


def _every(lines: Sequence[object]) -> str:
    """All lines, as the subject of a sentence with its verb."""
    return "the line is" if len(lines) == 1 else f"all {len(lines)} lines are"


def _about_changes(lines: tuple[AnyCertificate, ...]) -> bool:
    """Whether the lines are about distortion."""
    from privfunnel.certificate import DistortionCertificate

    return all(isinstance(line, DistortionCertificate) for line in lines)


def _side(line: AnyCertificate) -> str:
    """Whether a line lies below the funnel or above the bottleneck."""
    from privfunnel.certificate import BottleneckCertificate

    return "upper_bound" if isinstance(line, BottleneckCertificate) else "lower_bound"


def _bound_at(line: AnyCertificate, at: float) -> float:
    """What a line says at R = ``at``, in nats."""
    from privfunnel.certificate import BottleneckCertificate

    return line.upper_bound(at) if isinstance(line, BottleneckCertificate) else line.lower_bound(at)


def _told(line: AnyCertificate, units: Units) -> str:
    """What one line proves, in the units asked for."""
    from privfunnel.certificate import Certificate

    if not isinstance(line, Certificate):
        return line.told(units.name)
    return f"L(R) ≥ {units.of(line.intercept):.9f} + {line.slope:.9f} R"


def _bounds_disclosure(line: AnyCertificate) -> bool:
    """Whether a line bounds the disclosure from above instead of the leakage from below."""
    from privfunnel.certificate import GuardedCertificate

    return isinstance(line, GuardedCertificate) and line.bounds_disclosure
