"""The figures in the paper's layout: two panels side by side, AEM red, DRS blue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privfunnel.errors import need
from privfunnel.report import plot
from privfunnel.studies.reproduce.panels import AEM, DRS, DRS_REPAIRED, DRS_TUNED, PanelResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Name of the file to the keys of its panels.
FIGURES = {
    "figure-1": ("synthetic-uniform", "synthetic-skewed"),
    "figure-2-probabilities": ("heart-failure-probabilities", "census-income-probabilities"),
    "figure-2-counts": ("heart-failure-counts", "census-income-counts"),
}

_STYLES: dict[str, dict[str, Any]] = {
    DRS: {"color": plot.BLUE, "ls": "--", "marker": "s", "ms": 3},
    DRS_TUNED: {"color": plot.SKY, "ls": "--", "marker": "^", "ms": 3},
    DRS_REPAIRED: {"color": plot.GREEN, "ls": ":", "marker": "D", "ms": 2.5},
    AEM: {"color": "#C00000", "ls": "--", "marker": "o", "ms": 3.5, "zorder": 3},
}


def draw(results: list[PanelResult]) -> Figure:
    """Draw the panels side by side, in nats."""
    matplotlib = need("matplotlib", extra="plots")
    with matplotlib.rc_context(plot.STYLE):
        figure: Figure = need("matplotlib.figure", extra="plots").Figure(
            figsize=(9.0, 3.6), layout="constrained"
        )
        for ax, result in zip(figure.subplots(1, len(results)), results, strict=True):
            _panel(ax, result)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _panel(ax: Axes, result: PanelResult) -> None:
    ceiling, leak = result.disclosure_ceiling, result.leakage_ceiling
    for name, style in _STYLES.items():
        series = result[name]
        # The authors of DRS show the best run of each rounded disclosure; AEM has one point for each R.
        xy = np.column_stack([series.disclosure, series.leakage]) if name == AEM else series.binned()
        ax.plot(xy[:, 0], xy[:, 1], lw=1.0, label=name, **style)
    ax.plot(
        [0, result.h_x_given_s, ceiling], [0, 0, leak], color=plot.GREY, lw=0.8, label="closed-form bounds"
    )
    ax.plot([0, ceiling], [0, leak], color=plot.GREY, lw=0.8)
    ax.plot(
        [0, ceiling], [0, leak], "*", color="black", ms=9, clip_on=False, label="$(0,0)$, $(H(X), I(S;X))$"
    )
    ax.set_xlim(0.0, 1.02 * ceiling)
    ax.set_ylim(-0.02 * leak, 1.05 * leak)
    ax.set_xlabel("disclosure $I(X;Y)$ [nats]")
    ax.set_ylabel("leakage $I(S;Y)$ [nats]")
    ax.set_title(result.panel.title, fontsize=9)
