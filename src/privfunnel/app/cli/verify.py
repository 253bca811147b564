"""``privfunnel verify``: prove the bounds of a certificate file again, without the solver that made it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfunnel.app.cli._common import (
    NamedProblem,
    Units,
    console,
    open_source,
    parse_quantity,
    source_options,
    units_option,
)
from privfunnel.app.cli._distortion import cost_options, costs_in
from privfunnel.app.cli._paths import PathName
from privfunnel.app.cli._screen import say
from privfunnel.errors import CertificateError
from privfunnel.infra.storage import Document

if TYPE_CHECKING:
    from privfunnel.certificate import Certificate, Claim
    from privfunnel.model.problem import Problem


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
    costs: Document | None,
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
    from privfunnel.certificate import Quantity, load_bundle

    opened = open_source(source, units=units.name, **reading)
    problem = opened.problem
    at = None
    if disclosure is not None:
        at = parse_quantity(
            disclosure, ceiling=problem.disclosure_ceiling, whole="H(X)", option="--disclosure", units=units
        )
    lines = load_bundle(certificate)
    others = any(line.claim.scope.quantity is not Quantity.INFORMATION for line in lines)
    if others and (disclosure is not None or distortion is not None or costs or invariant):
        raise CertificateError(
            f"{str(certificate)!r} is about guesses or χ²: leave --disclosure, --distortion and --cost out"
        )
    _prove(lines, problem, source, certificate)
    check_costs(lines, source, opened, costs, invariant)
    if as_json:
        say(json.dumps([_summary(line, _place(line, at, distortion)) for line in lines], indent=1))
    else:
        _show(lines, units, (at, distortion), certificate.name)


def _prove(lines: tuple[Certificate, ...], problem: Problem, source: str, certificate: Path) -> None:
    """Prove every line again.

    Raises:
        CertificateError: There is none, or one is of another table or does not prove what it claims.
    """
    from privfunnel.certificate import verify_all

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
    verify_all(problem, lines)


def check_costs(
    lines: tuple[Certificate, ...], source: str, opened: NamedProblem, costs: object, invariant: bool
) -> None:
    """Refuse certificates of other costs than those that were asked about: they prove another thing.

    Raises:
        CertificateError: One is.
    """
    import numpy as np

    own = [line.claim.scope for line in lines if line.claim.scope.costs is not None]
    if (costs or invariant) and len(own) < len(lines):
        raise CertificateError("the certificate is not about distortion: leave --cost and --invariant out")
    if not own:
        return
    from privfunnel.release.distortion import costs_of

    known = costs_in(source) if costs is None else None
    expected = costs_of(opened.given, costs) if known is None else known
    for scope in own:
        if scope.costs is None or not np.array_equal(scope.costs, expected.matrix):
            raise CertificateError(
                f"the certificate is about other costs than {expected.words}: give the --cost options that it was made "
                "with, or the solution.json in place of the table"
            )
        if invariant and not scope.invariant:
            raise CertificateError(
                "the certificate is not about invariant releases alone: leave --invariant out"
            )


def _place(line: Certificate, at: float | None, distortion: float | None) -> float | None:
    """Where a line is looked at: a disclosure, or a distortion where it is about that."""
    return at if line.claim.scope.costs is None else distortion


def _summary(line: Certificate, at: float | None) -> Document:
    """One proved line as JSON, in nats."""
    claim, scope = line.claim, line.claim.scope
    summary: Document = {
        "verified": True,
        "units": "nats",
        "proves": line.words,
        "intercept": line.intercept,
        "slope": line.slope if scope.costs is None else -line.slope,
        "coarsened": "coarsening" in line.body.arrays(),
        "boxes": line.n_nodes,
    }
    if scope.costs is not None:
        summary |= {"invariant": scope.invariant}
    if scope.zero and math.isfinite(most := line.most_disclosure(0.0)):
        summary |= {"disclosure_upper_bound": most}
    if scope.guards is not None:
        summary |= {"threat": scope.guards.to_dict(), "weights": claim.weights.tolist()}
        if scope.tasks is not None:
            summary |= {"slope": claim.disclosure, "task_slope": claim.utility}
    if at is not None:
        bound = _bound_at(line, at)
        summary["disclosure" if scope.costs is None else "distortion"] = at
        # it may be about disclosure alone
        summary["upper_bound" if claim.turned else "lower_bound"] = bound if math.isfinite(bound) else None
    return summary


def _show(
    lines: tuple[Certificate, ...], units: Units, wanted: tuple[float | None, float | None], name: str
) -> None:
    from rich import box
    from rich.table import Table

    claims = [line.claim for line in lines]
    about_changes = all(claim.scope.costs is not None for claim in claims)
    at = wanted[1] if about_changes else wanted[0]
    many = len(lines) > 1
    table = Table(title=f"{name}: {len(lines)} proved line{'s' * many} ({units.name})", box=box.SIMPLE_HEAD)
    # others name attackers, guarantees and costs
    short = all(line.plain and line.claim.scope.costs is None for line in lines)
    along = all(claim.bounds_leakage or claim.turned for claim in claims)
    table.add_column(
        f"proved for every {'D' if about_changes else 'R'}" if along else "proved", no_wrap=short
    )
    if at is not None:
        place = f"D = {at:.6g}" if about_changes else f"R = {units.of(at):.6g}"
        table.add_column(f"at {place}", justify="right", no_wrap=True)
    table.add_column("cuts" if about_changes else "boxes", justify="right")
    for line in lines:
        cells = [line.told(units.name)]
        if at is not None:
            bound = _bound_at(line, at)
            cells.append(f"{units.of(bound):.9f}" if math.isfinite(bound) else "–")
        table.add_row(*cells, str(line.n_nodes))
    screen = console()
    screen.print(table)
    denied = list(dict.fromkeys(map(_denied, claims)))
    every = f"all {len(lines)} lines are" if many else "the line is"
    screen.print(
        f"VERIFIED: {every} proved again for this table, by arithmetic alone: no release of it "
        f"{', and none '.join(denied)}{',' * (len(denied) > 1)} than {'they say' if many else 'it says'}, whatever "
        "solver is used.",
        soft_wrap=True,
    )


def _denied(claim: Claim) -> str:
    """What no release does, as a claim says."""
    from privfunnel.certificate import Quantity

    scope = claim.scope
    if scope.quantity is Quantity.GUESSES:
        return "lets X be guessed right more often"
    if scope.quantity is Quantity.CHI_SQUARED:
        return "tells less of S by χ²"
    if claim.turned:
        return "of rate R tells more about S"
    if scope.costs is not None:
        kept = "with its distribution " if scope.invariant else ""
        return f"{kept}that changes records by at most D on average leaks less"
    if not claim.bounds_leakage:
        return "discloses more" if scope.tasks is None else "keeps more of the task"
    return "that keeps R leaks less"


def _bound_at(line: Certificate, at: float) -> float:
    """What a line says at R = ``at``, in nats."""
    return line.upper_bound(at) if line.claim.turned else line.lower_bound(at)
