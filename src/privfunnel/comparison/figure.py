"""The figure of a comparison: all curves with the certified band, and each one's excess over the proved bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privfunnel.comparison.result import Comparison
from privfunnel.errors import need
from privfunnel.plot import BLUE, COLOURS, GREY, MARKERS, STYLE, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Excesses below this many nats are drawn at it: a logarithmic axis has no 0.
FLOOR = 1e-7
_LINES = ("-", "--", ":")


def draw(comparison: Comparison, *, units: str = "nats", title: str | None = None) -> Figure:
    """Draw a comparison; see :meth:`privfunnel.compare.Comparison.plot`."""
    matplotlib = need("matplotlib", extra="plots")
    unit = scale(units)
    with matplotlib.rc_context(STYLE):
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(10.5, 4.4), layout="constrained"
        )
        plane, excess = figure.subplots(1, 2)
        _band(plane, comparison, unit)
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
            above = np.maximum(entry.leakage - comparison.lower_bound, FLOOR)
            excess.plot(x, above * unit, **line)
        plane.set_ylabel(f"leakage $I(S;Y)$ [{units}]")
        excess.set_ylabel(f"leakage above the proved bound [{units}]")
        excess.set_yscale("log")
        for ax in (plane, excess):
            ax.set_xlabel(f"disclosure $I(X;Y)$ [{units}]")
            ax.set_xlim(0.0, comparison.problem.disclosure_ceiling * unit)
        figure.legend(loc="outside right upper", fontsize=8)
        if title:
            figure.suptitle(title)
    return figure


def _band(ax: Axes, comparison: Comparison, unit: float) -> None:
    """The certified band: between the proved bound and the best channel found, with the closed-form bounds."""
    problem = comparison.problem
    ends = np.array([0.0, problem.h_x_given_s, problem.disclosure_ceiling])
    ax.plot(
        ends * unit, problem.upper_bound(ends) * unit, color=GREY, lw=0.8, ls="--", label="closed-form bounds"
    )
    ax.plot(ends * unit, problem.lower_bound(ends) * unit, color=GREY, lw=0.8, ls="--")
    # The best channels found, time-shared: achievable everywhere between the points as well.
    shared = np.array([np.where(np.isfinite(e.shared), e.shared, np.inf) for e in comparison.entries]).min(
        axis=0
    )
    x = np.concatenate([[0.0], comparison.disclosure, [problem.disclosure_ceiling]])
    y = np.concatenate([[0.0], np.minimum(shared, problem.upper_bound(comparison.disclosure)),
                        [problem.leakage_ceiling]])  # fmt: skip
    r, low = comparison.band_disclosure, comparison.band_lower_bound
    high = np.maximum(np.interp(r, x, y), low)
    ax.fill_between(r * unit, low * unit, high * unit, color=BLUE, alpha=0.25, lw=0, label="certified band")
    ax.plot(r * unit, low * unit, color=BLUE, lw=1.2, label="proved lower bound")
