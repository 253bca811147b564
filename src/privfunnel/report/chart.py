"""The trade-off drawn as SVG: one drawing for the report and for the explorer.

Python draws, so that the picture is there without scripts, on paper and in a mail client; ``chart.js`` only adds what
moves (hover, keyboard, the chosen point). Colours are classes, so that the style sheet decides on light and dark.
Each figure holds the drawing twice, wide and narrow, and the style sheet shows the one that fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from privfunnel.measures import nats_per

Line = Sequence[tuple[float, float]]

#: What a curve is drawn over: the title of the axis, what it is called on a narrow drawing and in a tip, and in words.
ALONG = {
    "disclosure": ("disclosure I(X;Y)", "disclosed", "disclosure"),
    "utility": ("utility I(U;Y)", "useful", "utility"),
    "distortion": ("distortion E d(X,Y)", "changed", "distortion"),
}


@dataclass(frozen=True)
class Mark:
    """One computed point of the curve, in nats; ``disclosure`` is its place along the curve, whatever that is."""

    disclosure: float
    leakage: float
    lower_bound: float
    status: str = ""


@dataclass(frozen=True)
class Series:
    """Another method's curve, drawn for comparison, in nats."""

    name: str
    points: Line


@dataclass(frozen=True)
class Picture:
    """Everything the drawing shows, in nats.

    Attributes:
        disclosure_ceiling: H(X), or I(U;X), or the largest distortion: the right end of the horizontal axis.
        leakage_ceiling: I(S;X), or what X itself leaks by another measure: the top of the vertical axis.
        h_x_given_s: H(X|S), where the closed-form lower bound leaves zero.
        marks: Computed points by increasing disclosure.
        proved: Proved lower bound as a polyline, or empty where nothing beyond the closed form is proved.
        free_disclosure: The largest disclosure known to leak nothing, or None where it is not known.
        chosen: Disclosure and leakage of the chosen point, or None.
        others: Curves of other methods.
        units: What the axes are in, ``"bits"`` or ``"nats"``.
        population: What is estimated for people like those of the table, as a polyline; empty where nothing is.
        population_most: What is proved of them, likewise, where it is less than I(S;X), with ``confidence``.
        confidence: Of each point of ``population_most``.
        guarded: Whether leakage is the largest of several attackers', or guarantees hold: the closed-form bounds are
            those of the plain funnel, and are not drawn.
        along: What the curve goes along, see :data:`ALONG`: the closed-form bounds are those of disclosure. Distortions
            are in the unit of their costs.
        leakage: What the vertical axis is called.
        information: Whether leakages are amounts of information; other measures have no unit.
        achieved: What time sharing of the points achieves, as a polyline, where it is not straight between them.
    """

    disclosure_ceiling: float
    leakage_ceiling: float
    h_x_given_s: float
    marks: Sequence[Mark] = ()
    proved: Line = ()
    free_disclosure: float | None = None
    chosen: tuple[float, float] | None = None
    others: Sequence[Series] = field(default_factory=tuple)
    units: str = "bits"
    population: Line = ()
    population_most: Line = ()
    confidence: float = 0.95
    guarded: bool = False
    along: str = "disclosure"
    leakage: str = "leakage I(S;Y)"
    information: bool = True
    achieved: Line = ()

    @property
    def bounded(self) -> bool:
        """Whether the closed-form bounds are this curve's."""
        return not self.guarded and self.along == "disclosure"

    @property
    def falling(self) -> bool:
        """Whether less leaks the further one goes along the curve."""
        return self.along == "distortion"


@dataclass(frozen=True)
class _Frame:
    """Pixel geometry of one drawing and its map from nats; the ends of the axes are in ``units``."""

    name: str
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_max: float
    y_max: float
    units: str
    along: str = "disclosure"
    information: bool = True

    @property
    def y_units(self) -> str:
        """The unit of the vertical axis, where leakage is an amount of information."""
        return self.units if self.information else ""

    @property
    def x_units(self) -> str:
        """The unit of the horizontal axis; a distortion has none that is known here."""
        return "" if self.along == "distortion" else self.units

    def told(self, nats: float) -> float:
        return nats / nats_per(self.units)

    def told_leakage(self, leakage: float) -> float:
        return self.told(leakage) if self.y_units else leakage

    def told_along(self, place: float) -> float:
        return self.told(place) if self.x_units else place

    def x(self, place: float) -> float:
        return self.left + (self.width - self.left - self.right) * self.told_along(place) / self.x_max

    def y(self, leakage: float) -> float:
        high = self.height - self.top - self.bottom
        return self.height - self.bottom - high * self.told_leakage(leakage) / self.y_max

    def path(self, line: Line) -> str:
        return "M" + "L".join(f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in line)


def ticks(top: float, about: int) -> list[float]:
    """Round numbers from 0 to ``top``, roughly ``about`` of them."""
    if not top > 0.0:
        return [0.0]
    raw = top / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= raw * 0.999)
    return [i * step for i in range(int(top / step * 1.0001) + 1)]


def figure(picture: Picture, *, label: str = "") -> str:
    """Return the ``<figure>`` with both drawings and the legend."""
    label = label or f"Privacy funnel: leakage against {ALONG[picture.along][2]}"
    per = nats_per(picture.units)
    x_max = picture.disclosure_ceiling / (1.0 if picture.along == "distortion" else per) or 1.0
    y_max = picture.leakage_ceiling / (per if picture.information else 1.0) * 1.06 or 1.0
    ends = (x_max, y_max, picture.units, picture.along, picture.information)
    frames = (
        _Frame("wide", 760, 400, 76, 22, 20, 54, *ends),
        _Frame("narrow", 360, 300, 62, 14, 18, 50, *ends),
    )
    drawings = "".join(_drawing(picture, frame, label) for frame in frames)
    return (
        f'<figure class="funnel">{drawings}<div class="tip" hidden=""></div>'
        f'<figcaption class="legend">{_legend(picture)}</figcaption></figure>'
    )


def _drawing(picture: Picture, f: _Frame, label: str) -> str:
    parts = [
        f'<svg class="chart {f.name}" viewBox="0 0 {f.width} {f.height}" role="group" aria-label="{escape(label)}" '
        f'data-left="{f.left}" data-right="{f.width - f.right}" data-top="{f.top}" '
        f'data-bottom="{f.height - f.bottom}" data-xmax="{f.x_max:.9g}" data-ymax="{f.y_max:.9g}" '
        f'data-unit="{f.y_units}" data-xunit="{f.x_units}" data-along="{ALONG[f.along][1]}">',
        *_axes(f, picture.leakage),
        *_bounds(picture, f),
        *_others(picture, f),
        *_population(picture, f),
        *_free(picture, f),
        *_curve(picture, f),
    ]
    x, y = picture.chosen if picture.chosen is not None else (0.0, 0.0)
    hidden = "" if picture.chosen is not None else ' visibility="hidden"'
    parts.append(
        f'<g class="chosen"{hidden} transform="translate({f.x(x):.1f} {f.y(y):.1f})">'
        '<circle class="halo" r="11"/><circle class="dot" r="6"/></g></svg>'
    )
    return "".join(parts)


def _axes(f: _Frame, leakage: str) -> list[str]:
    base, end = f.height - f.bottom, f.width - f.right
    out = ['<g class="axis" aria-hidden="true">']
    for value in ticks(f.y_max, 5 if f.name == "wide" else 4):
        y = base - (base - f.top) * value / f.y_max
        out.append(f'<line class="grid" x1="{f.left}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{f.left - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for value in ticks(f.x_max, 8 if f.name == "wide" else 4):
        x = f.left + (end - f.left) * value / f.x_max
        out.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 5}"/>')
        out.append(f'<text x="{x:.1f}" y="{base + 19}" text-anchor="middle">{value:.4g}</text>')
    out.append(f'<line class="base" x1="{f.left}" x2="{end}" y1="{base}" y2="{base}"/>')
    middle = (f.left + end) / 2
    narrow = f.name == "narrow"
    names = (ALONG[f.along][1], "leaked") if narrow else (ALONG[f.along][0], leakage)
    what = [
        f"{name}, {unit}".removesuffix(", ") for name, unit in zip(names, (f.x_units, f.y_units), strict=True)
    ]
    out.append(
        f'<text class="title" x="{middle:.1f}" y="{f.height - 8}" text-anchor="middle">{what[0]}</text>'
    )
    across = (f.top + base) / 2
    out.append(
        f'<text class="title" transform="translate(12 {across:.1f}) rotate(-90)" text-anchor="middle">{what[1]}</text>'
    )
    out.append("</g>")
    return out


def _bounds(picture: Picture, f: _Frame) -> list[str]:
    """Draw what no funnel can be under and what none needs to be over."""
    top = (picture.disclosure_ceiling, picture.leakage_ceiling)
    knee = (min(picture.h_x_given_s, picture.disclosure_ceiling), 0.0)
    closed = [
        f'<path class="possible" d="{f.path([(0.0, 0.0), top, knee])}Z"/>',
        f'<path class="closed" d="{f.path([(0.0, 0.0), top])}"/>',
        f'<path class="closed" d="{f.path([knee, top])}"/>',
    ]
    out = closed if picture.bounded else []
    if picture.proved and picture.marks:
        origin = [] if picture.falling else [(0.0, 0.0)]
        achieved = picture.achieved or [*origin, *((m.disclosure, m.leakage) for m in picture.marks)]
        out.append(f'<path class="band" d="{f.path([*achieved, *reversed(list(picture.proved))])}Z"/>')
        out.append(f'<path class="proved" d="{f.path(picture.proved)}"/>')
    return out


def _free(picture: Picture, f: _Frame) -> list[str]:
    """Draw what leaks nothing."""
    free = picture.free_disclosure
    if free is None or free <= 0.0:
        return []
    x, base = f.x(free), f.height - f.bottom
    anchor, offset = ("end", -6) if x > (f.left + f.width) / 2 else ("start", 6)
    text = "free" if f.name == "narrow" else f"free up to {f.told(free):.3g} {f.units}"
    return [
        f'<g class="free"><line x1="{f.left}" x2="{x:.1f}" y1="{base}" y2="{base}"/>'
        f'<line class="post" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base - 26}"/>'
        f'<text x="{x + offset:.1f}" y="{base - 14}" text-anchor="{anchor}">{text}</text></g>'
    ]


def _population(picture: Picture, f: _Frame) -> list[str]:
    """Draw what holds for people like those of the table, and the band between them and its rows."""
    if not picture.population or not picture.marks:
        return []
    rows = [(0.0, 0.0), *((m.disclosure, m.leakage) for m in picture.marks)]
    people = [(r, min(v, picture.leakage_ceiling)) for r, v in picture.population]
    out = [f'<path class="people-band" d="{f.path([*rows, *reversed(people)])}Z"/>']
    if picture.population_most:
        out.append(f'<path class="people-most" d="{f.path(picture.population_most)}"/>')
    return [*out, f'<path class="people" d="{f.path(people)}"/>']


def _others(picture: Picture, f: _Frame) -> list[str]:
    return [
        f'<path class="other o{i % 5}" d="{f.path(series.points)}"><title>{escape(series.name)}</title></path>'
        for i, series in enumerate(picture.others)
        if series.points
    ]


def _curve(picture: Picture, f: _Frame) -> list[str]:
    if not picture.marks:
        return []
    line = [(m.disclosure, m.leakage) for m in picture.marks]
    if line[0][0] > 0.0 and not picture.falling:
        line.insert(0, (0.0, 0.0))
    out = [f'<path class="curve" d="{f.path(picture.achieved or line)}"/>', '<g class="points">']
    for i, mark in enumerate(picture.marks):
        r, v, b = f.told_along(mark.disclosure), *map(f.told_leakage, (mark.leakage, mark.lower_bound))
        place = f"{ALONG[f.along][2]} {r:.3f} {f.x_units}".rstrip()
        said = f"{place}, leakage {f'{v:.4f} {f.y_units}'.rstrip()}, proved at least {b:.4f}"
        out.append(
            f'<circle class="point" r="{4 if f.name == "wide" else 3.2}" cx="{f.x(mark.disclosure):.1f}" '
            f'cy="{f.y(mark.leakage):.1f}" tabindex="{0 if i == 0 else -1}" role="button" aria-label="{said}" '
            f'data-r="{mark.disclosure!r}" data-l="{mark.leakage!r}" data-b="{mark.lower_bound!r}" '
            f'data-status="{escape(mark.status)}"/>'
        )
    out.append("</g>")
    return out


def _legend(picture: Picture) -> str:
    whose = "these rows: " if picture.population else ""
    entries = [("curve", f"{whose}least leakage found")] if picture.marks else []
    if picture.population and picture.marks:
        only = "" if picture.population_most else ", nothing is proved"
        entries.append(("people", f"people like them: estimated leakage{only}"))
        if picture.population_most:
            sure = f"{100 * picture.confidence:g} % confidence"
            entries.append(("people-most", f"people like them: at most, {sure}"))
    if picture.proved and picture.marks:
        entries.append(("proved", "proved: no release leaks less"))
    if picture.bounded:
        entries.append(("possible", "between the closed-form bounds"))
    if picture.free_disclosure:
        entries.append(("free", f"{whose}leaks nothing"))
    entries += [(f"other o{i % 5}", series.name) for i, series in enumerate(picture.others) if series.points]
    return "".join(f'<span><i class="key {cls}"></i>{escape(text)}</span>' for cls, text in entries)
