"""The figure of a comparison: all curves with the certified band, and each one's excess over the proved bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privfunnel.errors import need
from privfunnel.measures import Array
from privfunnel.report.plot import COLOURS, MARKERS, STYLE, band, bounds, scale
from privfunnel.studies.comparison.result import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rows of a column of the legend, and what is in it beside the entrants.
_LEGEND_ROWS, _OTHER_ROWS = 24, 4
_LINES = ("-", "--", ":")


def draw(comparison: Comparison, *, units: str = "nats", title: str | None = None) -> Figure:
    """Draw a comparison; see :meth:`privfunnel.studies.comparison.Comparison.plot`."""
    matplotlib = need("matplotlib", extra="plots")
    unit = scale(units)
    with matplotlib.rc_context(STYLE):
        rows = len(comparison.entries) + _OTHER_ROWS
        columns = -(-rows // _LEGEND_ROWS)
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(8.5 + 2.0 * columns, 4.4), layout="constrained"
        )
        plane, excess = figure.subplots(1, 2)
        bounds(plane, comparison.problem, unit)
        at, proved = comparison.band_disclosure, comparison.band_lower_bound
        band(plane, at * unit, proved * unit, _achieved(comparison, at) * unit)
        styles = {entry.label: i for i, entry in enumerate(comparison.entries)}
        x = comparison.disclosure * unit
        for entry in comparison.entries:
            if not entry.answered:
                continue
            i = styles[entry.label]
            line = {
                "color": COLOURS[i % len(COLOURS)],
                "marker": MARKERS[(i // len(COLOURS) + i) % len(MARKERS)],
                "ls": _LINES[(i // len(COLOURS)) % len(_LINES)],
                "lw": 1.0,
                "ms": 3.5,
            }
            plane.plot(x, entry.leakage * unit, label=entry.label, **line)
            # Excesses below this many nats are drawn at it: a logarithmic axis has no 0.
            above = np.maximum(entry.leakage - comparison.lower_bound, 1e-7)
            excess.plot(x, above * unit, **line)
        plane.set_ylabel(f"leakage $I(S;Y)$ [{units}]")
        excess.set_ylabel(f"leakage above the proved bound [{units}]")
        excess.set_yscale("log")
        for ax in (plane, excess):
            ax.set_xlabel(f"disclosure $I(X;Y)$ [{units}]")
            ax.set_xlim(0.0, comparison.problem.disclosure_ceiling * unit)
        figure.legend(loc="outside right upper", fontsize=8, ncols=columns)
        if title:
            figure.suptitle(title)
    return figure


def _achieved(comparison: Comparison, disclosure: Array) -> Array:
    """The best channels found, time-shared: achieved at the disclosures of the band as well, in nats."""
    problem = comparison.problem
    shared = [np.where(np.isfinite(entry.shared), entry.shared, np.inf) for entry in comparison.entries]
    least = np.minimum(np.min(shared, axis=0), problem.upper_bound(comparison.disclosure))
    x = np.concatenate([[0.0], comparison.disclosure, [problem.disclosure_ceiling]])
    y = np.concatenate([[0.0], least, [problem.leakage_ceiling]])
    return np.asarray(np.maximum(np.interp(disclosure, x, y), comparison.band_lower_bound))
