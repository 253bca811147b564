"""The pages behind the first one: the trade-off, the chosen point, every point, and how to check them."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from html import escape
from typing import NamedTuple

import numpy as np

from privfunnel._version import __version__
from privfunnel.audit import PopulationBand
from privfunnel.certificate.answer import Status
from privfunnel.measures import to_bits
from privfunnel.model.question import Quantity
from privfunnel.report import large, parts, survival, view
from privfunnel.report.chart import Line, Mark, Picture, Series, figure
from privfunnel.report.described import Described, published_axis
from privfunnel.report.rounding import ZERO, Rounding, Towards
from privfunnel.report.scale import Scale
from privfunnel.solving.curve import Curve, worst_attacker
from privfunnel.solving.free_disclosure import free_disclosure
from privfunnel.solving.solution import Solution

_LIBRARIES = ("numpy", "scipy", "highspy", "numba", "duckdb")


#: Smallest gap that is told, in bits.
FINEST_GAP = 1e-6


class Words(NamedTuple):
    """What is said of a curve by its axis: how it opens, what is free or that nothing is, what guarantees allow."""

    opening: str
    free: str
    nothing: str
    allowed: str


WORDS = {
    Quantity.DISCLOSURE: Words(
        "The public data holds {whole}. Released as it is, it leaks {leaked} about the private data.",
        "Up to {kept} of it can be released without leaking anything.",
        "No release that leaks nothing was found.",
        "the public data to be disclosed",
    ),
    Quantity.UTILITY: Words(
        "The public columns tell {whole} about {tasks}. Released as they are, they leak {leaked} about the private "
        "data.",
        "A release that leaks nothing keeps {kept} or more of what they tell about {tasks}.",
        "No point of the curve keeps anything and leaks nothing.",
        "what the public columns tell about {tasks}",
    ),
    Quantity.DISTORTION: Words(
        "Released as they are, the records leak {leaked} about the private data.",
        "Changed by {kept} on average, they leak nothing.",
        "Changed by {kept} on average, they leak {rest} of that at most.",
        "",
    ),
}


@dataclass(frozen=True)
class Places:
    """Places along a curve in numbers that may be published.

    Attributes:
        curve: The curve.
        say: How numbers are told.
    """

    curve: Curve
    say: Rounding

    @property
    def falling(self) -> bool:
        """Whether less leaks the further one goes along the curve: places are then mean costs."""
        return self.curve.axis is Quantity.DISTORTION

    def rounded(self, place: float) -> float:
        """A place in steps of the whole axis.

        A mean cost is rounded up: a release that changes less is one of those that change so much.
        """
        whole = self.curve.question.whole
        share = view.share(place, whole, 0.0)
        return self.say.share(share, "up") * whole if self.falling else self.say.share(share) * self._wide

    @cached_property
    def _wide(self) -> float:
        return self.say.information(self.curve.question.whole)

    def told(self, place: float) -> str:
        """A place as people read it: a share of the whole, or a mean cost."""
        if self.falling:
            return f"{self.rounded(place):.3g}"
        return self.say.percent(view.share(place, self.curve.question.whole, 1.0))

    def proved(self, place: float, bound: float) -> float:
        """What is proved at a place as it is told: moved to the right, a bound of a falling curve claims too much."""
        return min(bound, float(self.curve.proved(self.rounded(place)))) if self.falling else bound


def curve_section(
    curve: Curve,
    chosen: Solution | None,
    others: Mapping[str, Curve | Line],
    say: Rounding,
    population: PopulationBand | None = None,
) -> str:
    """Return the drawing of the curve, and in words what is free, what costs, and what holds for people like these."""
    drawn = picture(curve, chosen, say, others, population)
    lead = [*_lead(curve, say), *([] if population is None else [_people(curve, population, say)])]
    return (
        f'<section><h2>The trade-off</h2><p class="lead">{escape(" ".join(lead))}</p>{figure(drawn)}'
        f'<p class="small quiet">{escape(note(curve))}</p></section>'
    )


def picture(
    curve: Curve,
    chosen: Solution | None,
    say: Rounding,
    others: Mapping[str, Curve | Line] | None = None,
    population: PopulationBand | None = None,
) -> Picture:
    """Return what the chart draws of a curve, with every number rounded: a drawing can be measured."""
    series = [Series(name, line(other)) for name, other in (others or {}).items()]
    free = None if curve.axis is Quantity.DISTORTION else _free(curve)
    drawn = view.picture(curve, free_disclosure=free, chosen=chosen, others=series, population=population)
    return published(drawn, Places(curve, say), Scale.of_curve(curve))


def _free(curve: Curve) -> float | None:
    """Where the curve is known to leak nothing: the most of its axis, or the least distortion; None for guards."""
    if curve.axis is Quantity.DISTORTION:
        return curve.solutions[-1].distortion if curve.solutions[-1].leakage <= ZERO else 0.0
    return view.free_utility(curve) if curve.axis is Quantity.UTILITY else view.free_of(curve)


def _lead(curve: Curve, say: Rounding) -> Iterator[str]:
    """Say what X itself leaks, what is free, and under guards whose leakage is shown and where guarantees end it."""
    problem, axis, words = curve.problem, curve.axis, WORDS[curve.axis]
    told = {"leaked": say.bits(problem.leakage_ceiling), "whole": say.bits(curve.question.whole)}
    if problem.tasks is not None:
        told["tasks"] = " and ".join(problem.tasks.names)
    yield words.opening.format(**told)
    free = _free(curve)
    if free is not None:
        if axis is Quantity.DISTORTION:
            last = curve.solutions[-1]
            told["kept"] = Places(curve, say).told(last.distortion)
            told["rest"] = say.percent(view.share(last.leakage, problem.leakage_ceiling, 0.0), "up")
        else:
            down: Towards = "down" if axis is Quantity.UTILITY else "near"
            told["kept"] = say.percent(view.share(free, curve.question.whole, 1.0), down)
        yield (words.free if free > 0.0 else words.nothing).format(**told)
    if curve.guards.plain:
        return
    scale = Scale.of_curve(curve)
    yield f"Shown is the largest leakage, {curve.guards.conditions}.{scale_words(scale, say)}"
    if curve.guards.published is not None and curve.solutions:
        shown = say.bits(curve.solutions[0].published_leakage)
        yield f"What is published tells {shown} by itself, which is not counted."
    if curve.limit is not None:
        most = Places(curve, say).told(curve.limit.values.of(axis))
        yield f"The guarantees allow {most} of {words.allowed.format(**told)}; the curve ends there."


def _people(curve: Curve, found: PopulationBand, say: Rounding) -> str:
    """Say what holds for people like those of the table: at the free limit, or at half of what X says."""
    problem = curve.problem
    at = free_disclosure(problem) or 0.5 * problem.disclosure_ceiling
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


def scale_words(scale: Scale, say: Rounding) -> str:
    """Say what leakage is measured by, where that is not mutual information, to follow another sentence."""
    if scale.usual:
        return ""
    return (
        f" Measured by {scale.name} ({scale.measure.about}), the public data themselves leak "
        f"{scale.told(scale.ceiling, say)}."
    )


def published(drawn: Picture, places: Places, scale: Scale) -> Picture:
    """The picture with every number rounded: a drawing can be measured."""
    say, x, i_sx = places.say, places.rounded, drawn.leakage_ceiling
    high = scale.rounded(i_sx, say)

    def y(nats: float, to: Towards = "near") -> float:
        return say.share(view.share(nats, i_sx, 0.0), to) * high

    def along(points: Line) -> tuple[tuple[float, float], ...]:
        return tuple((x(r), y(v)) for r, v in points)

    return replace(
        drawn,
        disclosure_ceiling=x(drawn.disclosure_ceiling),
        leakage_ceiling=high,
        h_x_given_s=x(drawn.h_x_given_s),
        marks=tuple(
            Mark(
                x(m.disclosure), y(m.leakage), y(places.proved(m.disclosure, m.lower_bound), "down"), m.status
            )
            for m in drawn.marks
        ),
        proved=tuple(dict.fromkeys((x(r), y(places.proved(r, v), "down")) for r, v in drawn.proved)),
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
    changes = f"Distortion: {curve.costs.words}. " if curve.axis is Quantity.DISTORTION else ""
    return (
        f"{changes}{whole}{proved_words(curve.status)}; no point is more than {above(worst)}{unit} "
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
    named = bool(say.named(release.private.alphabet, release.p_sy.sum(axis=1))[meaning.most_telling[0]])
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
    rows = public.order[say.named(release.public.alphabet, release.p_x)[public.order]]
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
    axis, scale, places = curve.axis, Scale.of_curve(curve), Places(curve, say)
    besides = axis is not Quantity.DISCLOSURE

    def leaked(leakage: float, to: Towards = "near") -> str:
        return say.percent(scale.share(leakage), to)

    def cells(s: Solution) -> Iterator[str]:
        place = s.values.of(axis)
        yield from (
            places.told(place),
            leaked(s.leakage),
            leaked(places.proved(place, s.lower_bound), "down"),
        )
        if population is not None:
            yield leaked(population.at(s.disclosure)[0])
        if besides:
            yield say.percent(view.share(s.disclosure, curve.problem.disclosure_ceiling, 1.0))
        yield view.status_text(s.status)
        if not curve.guards.plain:
            yield worst_attacker(s) if s.leakage > ZERO else ""

    heads = (
        f"#{axis}, of {axis.whole}".removesuffix(", of "),
        f"#leakage, of {scale.whole}",
        "#proved at least",
        *["#people like them, estimated"] * (population is not None),
        *["#disclosure, of H(X)"] * besides,
        "status",
        *["to who knows"] * (not curve.guards.plain),
    )
    rows = [tuple(cells(s)) for s in curve.solutions]
    return f"<section><h2>Points</h2>{parts.table('', heads, rows)}</section>"


def line(other: Curve | Line) -> list[tuple[float, float]]:
    """Return another method's points in nats, those that it did not reach left out."""
    found = zip(other.place, other.leakage, strict=True) if isinstance(other, Curve) else other
    return sorted((float(r), float(v)) for r, v in found if math.isfinite(r) and math.isfinite(v))


def others_section(curve: Curve, others: Mapping[str, Curve | Line], say: Rounding) -> str:
    """Return how far other methods lie above the curve."""
    rows = []
    for name, other in others.items():
        inside = [(r, v) for r, v in line(other) if 0.0 < r < curve.question.whole]
        excess = [v - curve.at(r).leakage for r, v in inside]
        worst = max(excess, default=0.0)
        mean = sum(excess) / len(excess) if excess else 0.0
        rows.append((name, str(len(inside)), say.bits(mean), say.bits(worst)))
    heads = ("method", "#points", "#mean excess", "#largest excess")
    return (
        "<section><h2>Other methods</h2>"
        f"{parts.table(f'Leakage above the curve of this report at the same {curve.axis}.', heads, rows)}</section>"
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
