"""Figures of the information plane, in publication quality: vector text, labelled axes with units, certified band.

Figures are made without pyplot, so that nothing global is touched and no display is needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import Document, write_whole
from privfunnel.measures import Array, nats_per
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, Quantity
from privfunnel.solving.curve import Curve
from privfunnel.solving.free_disclosure import free_disclosure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from privfunnel.audit import PopulationBand

#: Okabe and Ito's colours, distinct with any colour vision.
BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#666666",
)  # fmt: skip
COLOURS = (VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW)
MARKERS = ("s", "^", "D", "v", "P", "X")

STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: it can be searched, edited and read aloud
    "svg.hashsalt": "privfunnel",  # the same figure gives the same file
    "savefig.dpi": 200,
}


def scale(units: str) -> float:
    """Factor from nats to ``units``."""
    return 1.0 / nats_per(units)


def curve(
    curve: Curve,
    *,
    others: Mapping[str, Curve] | None = None,
    units: str = "nats",
    title: str | None = None,
    label: str | None = None,
    ax: Axes | None = None,
    legend: bool = True,
    free: bool | None = None,
    population: PopulationBand | None = None,
) -> Figure:
    """Draw a traced curve on the information plane.

    Shown are the points and the time-shared curve through them, the band down to what is proved, the two closed-form
    bounds, the theoretical end points (0, 0) and (H(X), I(S;X)), and where leakage has to begin. Of a guarded curve it
    is the largest leakage of the attackers and what is proved of it, from end to end; of a task or of records for
    records, the curve over its own axis.

    Args:
        curve: The curve.
        others: Further curves of the same problem, by name.
        units: ``"nats"`` or ``"bits"``.
        title: Title of the plot.
        label: What to call the curve; its solver by default.
        ax: Draw here instead of on a new figure.
        legend: If True, add a legend.
        free: Whether to mark the free disclosure; by default where it is known already or quick to compute.
        population: What designs like these leak in the population that the rows come from, drawn above the curve.

    Returns:
        The figure; see :func:`save`.
    """
    matplotlib = need("matplotlib", extra="plots")
    unit = scale(units)
    with matplotlib.rc_context(STYLE):
        if ax is None:
            ax = (
                need("matplotlib.figure", extra="plots")
                .Figure(figsize=(5.2, 3.6), layout="constrained")
                .add_subplot()
            )
        plain = curve.guards.plain and curve.axis is Quantity.DISCLOSURE
        if plain:
            bounds(ax, curve.problem, unit)
        grid, high = _grid(curve), unit if curve.unit else 1.0
        wide = 1.0 if curve.axis is Quantity.DISTORTION else unit
        band(ax, grid * wide, curve.proved(grid) * high, curve.achieved(grid) * high)
        for i, (name, other) in enumerate((others or {}).items()):
            ax.plot(other.place * wide, other.leakage * high, color=COLOURS[i % 6], lw=1.0, ls="--",
                    marker=MARKERS[i % 6], ms=3.0, label=name)  # fmt: skip
        ax.plot(curve.place * wide, curve.leakage * high, color=BLUE, lw=1.4, marker="o", ms=3.0,
                label=label or f"achieved ({curve.solver})", zorder=3)  # fmt: skip
        if population is not None:
            _population(ax, curve.problem, population, unit)
        if plain and (_affordable(curve.problem) if free is None else free):
            _free(ax, curve.problem, unit)
        return _finished(ax, curve, f"{curve.axis} ${curve.axis.symbol}$ [{_of(curve, units)}]", units, title,
                         legend=legend)  # fmt: skip


def _of(curve: Curve, units: str) -> str:
    """The unit of the axis that a curve runs along."""
    return units if curve.costs is None else curve.costs.words


def _finished(ax: Axes, curve: Curve, along: str, units: str, title: str | None, *, legend: bool) -> Figure:
    """The figure of axes that a curve was drawn in, named and cut at 0."""
    ax.set_xlabel(along)
    ax.set_ylabel(_leakage_axis(curve, units))
    ax.set_xlim(left=0.0)
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    if title:
        ax.set_title(title)
    if legend:
        _legend(ax)
    figure: Figure = ax.figure  # type: ignore[assignment]
    return figure


def _leakage_axis(curve: Curve, units: str) -> str:
    """What the vertical axis shows, with the unit where it has one."""
    unit = f" [{units}]" if curve.unit else ""
    if curve.guards.plain:
        return f"leakage $I(S;Y)${unit}"
    by = "" if curve.guards.measure.is_information else f" by {curve.guards.measure}"
    return f"largest leakage{by}{unit}"


def _population(ax: Axes, problem: Problem, found: PopulationBand, unit: float) -> None:
    """Draw what holds for people like these: an estimate and, where it is below I(S;X), what is proved."""
    proved = found.proved(problem.leakage_ceiling)
    if proved[found.disclosure > 0.0].any():
        sure = f"people like these, at most ({100 * found.confidence:g} %)"
        most = np.where(proved, found.upper, np.nan) * unit
        ax.plot(found.disclosure * unit, most, color=ORANGE, lw=1.0, label=sure)
        label = "people like these, estimated"
    else:
        label = "people like these, estimated only"
    ax.plot(found.disclosure * unit, found.leakage * unit, color=ORANGE, lw=1.2, ls=(0, (4, 2)), label=label)


def _legend(ax: Axes) -> None:
    """The achieved curve first, whatever was drawn below it."""
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: not labels[i].startswith("achieved"))
    ax.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper left", fontsize=8)


def _grid(curve: Curve) -> Array:
    first = curve.place.min(initial=curve.most) if curve.axis is Quantity.DISTORTION else 0.0
    return np.unique(np.concatenate([np.linspace(first, curve.most, 401), curve.place]))


def band(ax: Axes, disclosure: Array, proved: Array, achieved: Array) -> None:
    """Draw the certified band between what is proved and what is achieved, each (points,) in the axes' units."""
    ax.fill_between(disclosure, proved, achieved, color=BLUE, alpha=0.25, lw=0, label="certified band")
    ax.plot(disclosure, proved, color=BLUE, lw=0.8, ls=(0, (1, 1)), label="proved lower bound")


def bounds(ax: Axes, problem: Problem, unit: float) -> None:
    """Draw the closed-form bounds and the two points that every problem has; ``unit`` is the factor from nats."""
    ends = np.array([0.0, problem.h_x_given_s, problem.disclosure_ceiling])
    ax.plot(
        ends * unit, problem.upper_bound(ends) * unit, color=GREY, lw=0.8, ls="--", label="closed-form bounds"
    )
    ax.plot(ends * unit, problem.lower_bound(ends) * unit, color=GREY, lw=0.8, ls="--")
    ax.plot([0.0, problem.disclosure_ceiling * unit], [0.0, problem.leakage_ceiling * unit], ls="none", marker="*",
            ms=9, color="black", clip_on=False, zorder=4, label="$(0, 0)$ and $(H(X), I(S;X))$")  # fmt: skip


def _affordable(problem: Problem) -> bool:
    """Whether the free disclosure is cached, or the table is small enough to find it within a second or two."""
    return "free_disclosure" in vars(problem) or problem.n_s * problem.n_x <= 1000


def _free(ax: Axes, problem: Problem, unit: float) -> None:
    """Mark the largest disclosure that leaks nothing."""
    if free_disclosure(problem) > FEASIBILITY:
        free = free_disclosure(problem) * unit
        ax.axvline(free, color=GREEN, lw=0.9, ls="-.", label=f"free disclosure {free:.4g}")


def save(figure: Figure, *paths: str | os.PathLike[str]) -> None:
    """Write a figure, once for each path; PNG, SVG or PDF by the path's suffix."""
    matplotlib = need("matplotlib", extra="plots")
    with matplotlib.rc_context(STYLE):
        for path in map(Path, paths):
            metadata: Document = {"Date": None} if path.suffix == ".svg" else {}
            kind = path.suffix.removeprefix(".")
            try:
                write_whole(path, partial(figure.savefig, format=kind, metadata=metadata))
            except InvalidInputError:
                raise
            except ValueError as error:
                raise InvalidInputError(
                    f"cannot write the figure {str(path)!r} ({error}): use .png, .svg or .pdf"
                ) from error
