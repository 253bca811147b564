"""The pages behind the first one: the trade-off, the chosen point, every point, and how to check them."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from html import escape

import numpy as np

from privfunnel._version import __version__
from privfunnel.audit import PopulationBand
from privfunnel.averages import WORDS
from privfunnel.curve import Curve, worst_attacker
from privfunnel.measures import to_bits
from privfunnel.report import large, parts, survival, view
from privfunnel.report.chart import Line, Mark, Picture, Series, figure
from privfunnel.report.described import Described, published_axis
from privfunnel.report.rounding import ZERO, Rounding, Towards
from privfunnel.report.scale import Scale
from privfunnel.solution import Solution, Status

_LIBRARIES = ("numpy", "scipy", "highspy", "numba", "duckdb")


#: Smallest gap that is told, in bits.
FINEST_GAP = 1e-6


def curve_section(
    curve: Curve,
    chosen: Solution | None,
    others: Mapping[str, Curve | Line],
    say: Rounding,
    population: PopulationBand | None = None,
) -> str:
    """Return the drawing of the curve, and in words what is free, what costs, and what holds for people like these."""
    problem = curve.problem
    free = problem.free_disclosure if curve.threat is None else None
    series = [Series(name, line(other)) for name, other in others.items()]
    exact = view.picture(curve, free_disclosure=free, chosen=chosen, others=series, population=population)
    drawn = published(exact, say, Scale.of_curve(curve))
    lead = (
        f"The public data holds {say.bits(problem.disclosure_ceiling)}. Released as it is, it leaks "
        f"{say.bits(problem.leakage_ceiling)} about the private data. "
    )
    if free is None:
        lead += _guarded(curve, say)
    elif free > 0.0:
        kept = say.percent(view.share(free, problem.disclosure_ceiling, 1.0))
        lead += f"Up to {kept} of it can be released without leaking anything."
    else:
        lead += "No release that leaks nothing was found."
    if population is not None:
        lead += f" {_people(curve, population, say)}"
    return (
        f'<section><h2>The trade-off</h2><p class="lead">{escape(lead)}</p>{figure(drawn)}'
        f'<p class="small quiet">{escape(note(curve))}</p></section>'
    )


def _people(curve: Curve, found: PopulationBand, say: Rounding) -> str:
    """Say what holds for people like those of the table: at the free limit, or at half of what X says."""
    problem = curve.problem
    at = problem.free_disclosure or 0.5 * problem.disclosure_ceiling
    kept = say.percent(view.share(at, problem.disclosure_ceiling, 1.0))
    told = (
        f"About people like those of the table an estimated {say.bits(found.at(at)[0])} leaks where {kept} is kept, by "
        "designs on one half of the rows, judged by the other."
    )
    if found.classes is not None:
        told += f" This is about the symbol of the {found.classes} score classes that each design makes."
    if found.proved(problem.leakage_ceiling)[found.disclosure > 0.0].any():
        return told
    return f"{told} The rows are too few to prove a bound."


def _guarded(curve: Curve, say: Rounding) -> str:
    """Say whose leakage a guarded curve shows, and where guarantees end it."""
    if curve.threat is None:
        return ""
    scale = Scale.of_curve(curve)
    words = f"Shown is the largest leakage, {curve.threat.conditions}.{scale_words(scale, say)}"
    if curve.threat.published is not None and curve.solutions:
        told = say.bits(curve.solutions[0].published_leakage)
        words += f" What is published tells {told} by itself, which is not counted."
    if curve.limit is not None:
        most = say.percent(view.share(curve.limit.disclosure, curve.problem.disclosure_ceiling, 1.0))
        words += f" The guarantees allow {most} of the public data to be disclosed; the curve ends there."
    return words


def scale_words(scale: Scale, say: Rounding) -> str:
    """Say what leakage is measured by, where that is not mutual information, to follow another sentence."""
    if scale.usual:
        return ""
    return (
        f" Measured by {scale.name} ({WORDS[scale.measure][1]}), the public data themselves leak "
        f"{scale.told(scale.ceiling, say)}."
    )


def published(drawn: Picture, say: Rounding, scale: Scale) -> Picture:
    """The picture with every number rounded: a drawing can be measured."""
    h_x, i_sx = drawn.disclosure_ceiling, drawn.leakage_ceiling
    wide, high = say.information(h_x), scale.rounded(i_sx, say)

    def x(nats: float) -> float:
        return say.share(view.share(nats, h_x, 0.0)) * wide

    def y(nats: float, to: Towards = "near") -> float:
        return say.share(view.share(nats, i_sx, 0.0), to) * high

    def along(points: Line) -> tuple[tuple[float, float], ...]:
        return tuple((x(r), y(v)) for r, v in points)

    return replace(
        drawn,
        disclosure_ceiling=wide,
        leakage_ceiling=high,
        h_x_given_s=x(drawn.h_x_given_s),
        marks=tuple(
            Mark(x(m.disclosure), y(m.leakage), y(m.lower_bound, "down"), m.status) for m in drawn.marks
        ),
        proved=tuple((x(r), y(v, "down")) for r, v in drawn.proved),
        free_disclosure=None if drawn.free_disclosure is None else x(drawn.free_disclosure),
        chosen=None if drawn.chosen is None else (x(drawn.chosen[0]), y(drawn.chosen[1])),
        others=tuple(Series(series.name, along(series.points)) for series in drawn.others),
        population=along(drawn.population),
        achieved=along(drawn.achieved),
        population_most=tuple((x(r), y(v, "up")) for r, v in drawn.population_most),
    )


def note(curve: Curve) -> str:
    """Return how good a curve is, in numbers that may be published."""
    worst = max((s.gap for s in curve.solutions), default=0.0)
    whole = "" if curve.complete else "The run was stopped: this is what it had found. "
    unit = " bits" if curve.unit else ""
    return (
        f"{whole}{proved_words(curve.status)}; no point is more than {above(worst)}{unit} "
        f"above what is proved possible. Solver {curve.solver}. Numbers are rounded, to protect the people "
        "behind them."
    )


def proved_words(status: Sequence[Status]) -> str:
    """Return how many points are proved."""
    return f"{sum(each is Status.OPTIMAL for each in status)} of {len(status)} points proved optimal"


def above(gap: float) -> str:
    """Return a gap, in nats, as bits: to a power of ten, since digits of it could confirm a guessed table.

    Nothing is told below what rounding leaves.
    """
    return f"{10.0 ** math.ceil(math.log10(max(to_bits(gap), FINEST_GAP))):.0e}"


def release_section(release: Described, say: Rounding) -> str:
    """Return the chosen release in detail: its numbers, guesses, columns, worst case, and its channel.

    Of a table with few rows, nothing.
    """
    if not say.detailed:
        return ""
    meaning = release.meaning
    bound, least, leaked = "No release leaks less than", say.bits(release.lower_bound, "down"), ""
    if (asked := release.designed) is not None and asked.leakage is not None:
        bound = "No release designed alike leaks less than"
        least = asked.scale.told(asked.lower_bound, say, "down")
        about = ", ".join(filter(None, ("to who learns most" * bool(asked.who), asked.scale.unusual)))
        leaked = parts.fact("Largest leakage", asked.scale.told(asked.leakage, say), about) if about else ""
    elif release.aim is not None:
        bound = f"No {release.rivals} leaks less than"
    elif release.symbols is not None:
        kept_by_symbols = say.percent(view.share(release.symbols.disclosure, release.disclosure_ceiling, 1.0))
        bound = f"No release that keeps {kept_by_symbols}, as the symbols do, leaks less than"
    facts = "".join(
        (
            "" if release.aim is None else release.aim.facts(say),
            parts.fact(
                "Disclosed", say.bits(release.disclosure), f"{say.percent(release.promised_kept)} of H(X)"
            ),
            parts.fact(
                "Leaked", say.bits(release.leakage), f"{say.percent(release.promised_leaked)} of I(S;X)"
            ),
            leaked,
            parts.fact(bound, least, "proved"),
        )
    )
    guesses = [(g.name, *map(say.percent, (g.before, g.after, g.original))) for g in meaning.guesses]
    kept = [(k.name, say.percent(k.share), say.bits(k.entropy)) for k in meaning.kept]
    return (
        f'<section><h2>The chosen point</h2><dl class="facts">{facts}</dl><h3>What an attacker gains</h3>'
        + parts.table(
            "How often the best guess of a private value is right.",
            ("private column", "#without the release", "#with the release", "#with the original data"),
            guesses,
        )
        + "<h3>What a reader keeps</h3>"
        + parts.table(
            "Information kept about each public column.", ("public column", "#kept", "#in all"), kept
        )
        + f"{_details(release, say)}</section>"
    )


def _details(release: Described, say: Rounding) -> str:
    """Return what becomes of rows, the worst case, and the channel."""
    meaning = release.meaning
    named = not say.rare(float(release.p_sy[meaning.most_telling[0]].sum()))
    worst = [
        (row["name"], row["value"], row["words"])
        for row in view.worst_case(meaning, release.private, say, named=named, drawn=release.designed is None)
    ]
    return (
        survival.examples(release, say)
        + f"<h3>At worst, beside the average</h3>{parts.table('', ('measure', '#value', 'in words'), worst)}"
        + f"<h3>The mechanism</h3>{_maps(release, say)}"
    )


def _maps(release: Described, say: Rounding) -> str:
    """Draw the channel for the public values that enough rows have; a combination that few have is not listed."""
    if not release.drawable:
        return large.section(release, say)
    public = published_axis(release.public, release.p_x, say)
    rows = public.order[[not say.rare(float(release.p_x[i])) for i in public.order]]
    hidden = len(public) - len(rows)
    words = [
        f"{hidden} combinations of public values that fewer than {say.threshold} rows have are not listed."
    ]
    if not len(rows):
        return parts.paragraphs(words)
    channel = np.asarray(release.channel)
    p_y = release.p_x @ channel
    steps = np.array([max(say.of(float(p)).step, 0.01) for p in p_y])
    maps = view.channel_maps(
        channel, release.p_x, public, rows, width=820, step=max(say.step, 0.01), steps=steps
    )
    return f'<div class="heats">{maps}</div>{parts.paragraphs(words if hidden else [])}'


def points_section(curve: Curve, say: Rounding, population: PopulationBand | None = None) -> str:
    """Return the table of all points, with what is estimated for people like those of the table."""
    problem, scale = curve.problem, Scale.of_curve(curve)

    def leaked(leakage: float, to: Towards = "near") -> str:
        return say.percent(scale.share(leakage), to)

    rows = [
        (
            say.percent(view.share(s.disclosure, problem.disclosure_ceiling, 1.0)),
            leaked(s.leakage),
            leaked(s.lower_bound, "down"),
            *([] if population is None else [leaked(population.at(s.disclosure)[0])]),
            view.status_text(s.status),
            *([] if curve.threat is None else [worst_attacker(s) if s.leakage > ZERO else ""]),
        )
        for s in curve.solutions
    ]
    people = () if population is None else ("#people like them, estimated",)
    heads: tuple[str, ...] = (
        "#disclosure, of H(X)", f"#leakage, of {scale.whole}", "#proved at least", *people, "status",
    )  # fmt: skip
    if curve.threat is not None:
        heads = (*heads, "to who knows")
    return f"<section><h2>Points</h2>{parts.table('', heads, rows)}</section>"


def line(other: Curve | Line) -> list[tuple[float, float]]:
    """Return another method's points in nats, those that it did not reach left out."""
    found = ((s.disclosure, s.leakage) for s in other.solutions) if isinstance(other, Curve) else other
    return sorted((float(r), float(v)) for r, v in found if math.isfinite(r) and math.isfinite(v))


def others_section(curve: Curve, others: Mapping[str, Curve | Line], say: Rounding) -> str:
    """Return how far other methods lie above the curve."""
    rows = []
    for name, other in others.items():
        inside = [(r, v) for r, v in line(other) if 0.0 < r < curve.problem.disclosure_ceiling]
        excess = [v - curve.at(r).leakage for r, v in inside]
        worst = max(excess, default=0.0)
        mean = sum(excess) / len(excess) if excess else 0.0
        rows.append((name, str(len(inside)), say.bits(mean), say.bits(worst)))
    heads = ("method", "#points", "#mean excess", "#largest excess")
    return (
        "<section><h2>Other methods</h2>"
        f"{parts.table('Leakage above the curve of this report at the same disclosure.', heads, rows)}</section>"
    )


def verify_section(certified: bool, table: str, *, designed: bool = False) -> str:
    """Return how whoever holds the table checks the bounds.

    Args:
        certified: Whether certificates prove them.
        table: What they are checked against, as the command line takes it; the file that goes with them by default.
        designed: Whether the report is of a mechanism, whose one certificate was written with the design.
    """
    proofs, problem = (
        ("certificate.npz", "solution.json")
        if certified and designed
        else ("certificates.npz", "problem.json")
    )
    writes = ", which <code>privfunnel solve --out</code> writes with the design,"
    how = (
        "A certificate is a list of dual prices and boxes; checking it is plain arithmetic and needs neither the "
        "solver nor an optimiser. The file "
        f"<code>{proofs}</code>{writes if designed else ''} is checked against the table with:"
        if certified
        else "The bounds here need no certificate: leakage is never negative, and closed forms follow from the table "
        "alone. Where a higher bound is proved, the default solver leaves certificates, and their file is checked "
        "against the table with:"
    )
    return (
        "<section><h2>How to verify</h2><p>Leakage and disclosure follow from the table and the channel by the "
        f"definition of mutual information. Each lower bound is proved for the whole curve. {how}</p>"
        f"<pre>privfunnel verify {proofs} {escape(table or problem)}</pre>"
        "<p>The table and the certificates are confidential, so that the steward, or somebody whom the steward trusts "
        "with the table, has to do this. Without the table nobody can.</p></section>"
    )


def provenance_section(facts: Sequence[tuple[str, str]], created: datetime, command: str) -> str:
    """Return where the report comes from: nothing in it that a guessed table could be checked against."""
    made = created.strftime("%Y-%m-%d %H:%M UTC")
    listed = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
        for name, value in (*facts, ("Versions", ", ".join(_versions())), ("Made", made))
    )
    again = f"<h3>To make it again</h3><pre>{escape(command)}</pre>" if command else ""
    return f'<section><h2>Provenance</h2><dl class="provenance">{listed}</dl>{again}</section>'


def _versions() -> list[str]:
    found = [f"privfunnel {__version__}", f"Python {platform.python_version()}"]
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
