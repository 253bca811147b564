"""Design on some rows, audit on the others: whether a promise carries over to rows it has not seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.audit.estimates import corrected
from privfunnel.audit.result import Holdout
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solving import solve
from privfunnel.tables import Counts


def holdout(
    counts: Counts,
    *,
    disclosure: float | None = None,
    leakage: float | None = None,
    share: float = 0.5,
    solver: str = "auto",
    bootstrap: int = 400,
    seed: int = 0,
    **options: Any,
) -> Holdout:
    """Split the rows at random, design on one part and measure on the other.

    Rows of one cell are alike to every count, so the split is drawn cell by cell (a hypergeometric draw has the same
    law as splitting rows). Public values that the design rows do not have are released from p(y). Bins come from all
    rows.

    Args:
        counts: Counts of the whole table.
        disclosure: Least disclosure to design for, in nats of the design rows; or
        leakage: the leakage budget, in nats.
        share: Share of rows to design on.
        solver: Solver of the design.
        bootstrap: Number of resampled tables behind an interval.
        seed: Fixes split, design and resampling.
        **options: Options of the solver.

    Raises:
        InvalidInputError: The share leaves one part without rows.
    """
    rows = round(share * counts.n) if math.isfinite(share) else 0
    if not 0 < rows < counts.n:
        raise InvalidInputError(
            f"a share of {share!r} leaves no rows on one side: give a number between 0 and 1"
        )
    rng = np.random.default_rng(seed)
    picked = rng.multivariate_hypergeometric(counts.cell_n, rows, method="marginals")
    parts = [np.zeros((counts.n_s, counts.n_x)) for _ in range(2)]
    for part, cells in zip(parts, (picked, counts.cell_n - picked), strict=True):
        part[counts.cell_s, counts.cell_x] = cells
    problem = Problem(parts[0], counts.s_labels, counts.x_labels)
    if disclosure is not None:
        disclosure = min(disclosure, problem.disclosure_ceiling)
    solution = solve(problem, disclosure=disclosure, leakage=leakage, solver=solver, seed=seed, **options)
    channel = problem.restore(solution.channel)
    rest = parts[1]
    n = int(rest.sum())
    found = _both(rest / n, channel)
    sample = np.array(
        [
            _both(rng.multinomial(n, rest.ravel() / n).reshape(rest.shape) / n, channel)
            for _ in range(bootstrap)
        ]
    )
    return Holdout(
        design_rows=rows,
        held_out_rows=n,
        promised_disclosure=solution.disclosure,
        promised_leakage=solution.leakage,
        disclosure=corrected(found[0], sample[:, 0], float(sample[:, 0].mean()) - found[0]),
        leakage=corrected(found[1], sample[:, 1], float(sample[:, 1].mean()) - found[1]),
        new_rows=int(rest[:, ~problem.kept_x].sum()),
    )


def _both(p_sx: Array, channel: Array) -> tuple[float, float]:
    p_x = p_sx.sum(axis=0)
    return float(measures.mutual_information(channel * p_x[:, None])), float(
        measures.mutual_information(p_sx @ channel)
    )
