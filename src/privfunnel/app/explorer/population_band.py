"""What holds for people like those of the table, beside its curve: where its rows are few, and that takes seconds."""

from __future__ import annotations

import numpy as np

from privfunnel.app.explorer import reading
from privfunnel.app.explorer.workspace import Setting
from privfunnel.audit import PopulationBand, independent, population_band, rows_of
from privfunnel.audit.cross_fit import unasked_splits
from privfunnel.data.population.views import view_of
from privfunnel.errors import PrivFunnelError
from privfunnel.infra.watching import Listener
from privfunnel.solving.free_disclosure import free_disclosure

#: Points of the line, besides 0.
POINTS = 6


def band(setting: Setting, solver: str, seed: int, work: float, progress: Listener) -> PopulationBand | None:
    """Design again on parts of the rows, and say what such designs leak in the population.

    Args:
        setting: The counted table.
        solver: The curve's solver.
        seed: The curve's seed.
        work: Seconds of the processor that the curve took.
        progress: Called with news.

    Returns:
        What was found; None where the rows are not few, or it would take long, or no design could be made.
    """
    problem, counts = setting.problem, setting.counts
    pieces = counts.n if counts.pieces is None else counts.pieces
    if view_of(None, (problem.n_s, problem.n_x), pieces, problem.leakage_ceiling) == "register":
        return None
    if not (splits := unasked_splits(pieces, POINTS * counts.size.seconds, work=work)):
        return None
    free = min(free_disclosure(problem), problem.disclosure_ceiling)
    at = np.unique([0.0, *np.linspace(free, problem.disclosure_ceiling, POINTS)])
    read = reading.options(setting.reading)
    try:
        people = rows_of(setting.source, counts, read=read) if counts.unequal else None
        rows = independent(counts, people, np.random.default_rng(0)).problem()
        return population_band(rows, at, solver=solver, splits=splits, seed=seed, progress=progress)
    except PrivFunnelError:
        return None  # nobody asked for it, and the curve is there
