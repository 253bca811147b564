"""The paper's experiments: Figures 1 and 2 with the numbers behind them, and what became of each claim.

Chen, Ye, Wu, Wu, Wu and Zhang compare AEM with Douglas-Rachford splitting (DRS) on two synthetic problems, both with
N = 4 outputs, 500 iterations and the best of 30 trials for each R, and on two real tables perturbed by 1e-3. The paper
leaves open how that perturbation is meant, so both readings are run.

:func:`run` works panel by panel. A finished panel is a file of its own, so that an interrupted run goes on where it
stopped; figures, ``points.csv`` and the page are made from those files alone.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path

from privfunnel.infra.storage import check_schema, heading, output_folder, read_json, write_json, write_text
from privfunnel.report import plot
from privfunnel.studies.reproduce.figures import FIGURES, draw
from privfunnel.studies.reproduce.page import document
from privfunnel.studies.reproduce.panels import PANELS, Panel, PanelResult, Plan, compute

__all__ = ["PANELS", "Panel", "PanelResult", "Plan", "compute", "run"]

SCHEMA = "privfunnel/panel"


def run(
    out: str | os.PathLike[str],
    *,
    quick: bool = False,
    seed: int = 0,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[PanelResult]:
    """Reproduce the paper's figures.

    Args:
        out: Folder for ``figure-*.png`` and ``.svg``, ``points.csv``, ``reproduction.md`` and ``panels/``.
        quick: About a minute instead of the full settings; the page says so.
        seed: Fixes all randomness (DRS is cut by a time limit on large tables, so that its part also depends on the
            machine).
        fresh: Compute panels again that a previous run with the same settings has finished.
        tell: Called with one line of news now and then.

    Returns:
        The results, panel by panel.

    Raises:
        InvalidInputError: The folder cannot be written.
    """
    target = Path(out)
    plan = Plan(quick=quick, seed=seed)
    results = [_panel(panel, plan, target, fresh=fresh, tell=tell) for panel in PANELS]
    with output_folder(target) as folder:
        for name, keys in FIGURES.items():
            figure = draw([result for result in results if result.panel.key in keys])
            plot.save(figure, folder / f"{name}.png", folder / f"{name}.svg")
        write_text(folder / "points.csv", points_csv(results))
        write_text(folder / "reproduction.md", document(results, plan))
    return results


def _panel(
    panel: Panel, plan: Plan, target: Path, *, fresh: bool, tell: Callable[[str], None]
) -> PanelResult:
    """One panel, from its file where a run with the same settings has finished it."""
    file = target / "panels" / f"{panel.key}.json"
    settings = plan.settings(panel)
    if file.exists() and not fresh:
        data = read_json(file)
        check_schema(data, SCHEMA)
        if data.get("settings") == settings:
            tell(f"{panel.title}: finished before, kept")
            return PanelResult.from_dict(panel, data["result"])
    with output_folder(target / "panels"):  # an unwritable folder is told before the work
        result = compute(panel, plan, tell=tell)
    write_json(
        file,
        {**heading(SCHEMA), "settings": settings, "result": result.to_dict()},
    )
    return result


def points_csv(results: list[PanelResult]) -> str:
    """Every point of every panel as CSV text, in nats."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "panel",
            "instance",
            "perturbation",
            "series",
            "requested",
            "disclosure",
            "leakage",
            "status",
            "steps",
        ]
    )
    for result in results:
        panel = result.panel
        for series in result.series:
            for p in series.points:
                writer.writerow([panel.key, panel.instance, panel.perturbation or "", series.name, p.requested,
                                 p.disclosure, p.leakage, p.status, p.steps])  # fmt: skip
    return text.getvalue()
