"""The curve beyond the sample: at every disclosure, what designs made in this way leak in the population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privfunnel.audit import beyond
from privfunnel.audit.cross_fit import FOLDS, designs
from privfunnel.measures import Array
from privfunnel.population.bounds import population_bound
from privfunnel.population.intervals import checked_confidence
from privfunnel.problem import Problem
from privfunnel.solvers.base import Solver
from privfunnel.solving import problem_of
from privfunnel.tables import Counts
from privfunnel.tracing import sound, trace


@dataclass(frozen=True, eq=False)
class PopulationBand:
    """What designs on parts of the rows leak in the population, by disclosure; nats, arrays of shape (points,).

    Attributes:
        disclosure: Least disclosure of the designs, on their own rows.
        leakage: An estimate of I(S;Y), corrected for chance: no bound of anything.
        upper: With probability ``confidence``, for each point, I(S;Y) in the population is at most this, on average
            over the designs.
        confidence: Of each point.
        rows: All rows, of which each design saw but a part.
    """

    disclosure: Array
    leakage: Array
    upper: Array
    confidence: float
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, in nats."""
        return {
            "confidence": self.confidence,
            "rows": self.rows,
            "disclosure": self.disclosure.tolist(),
            "leakage": self.leakage.tolist(),
            "upper": self.upper.tolist(),
        }


def population_band(
    counts: Problem | Counts,
    disclosures: ArrayLike,
    *,
    solver: str | Solver = "auto",
    confidence: float = 0.95,
    splits: int = 1,
    seed: int = 0,
    **options: Any,
) -> PopulationBand:
    """Trace the curve on one half of the rows and judge its channels by the other half, in turn.

    Args:
        counts: A problem with its counts, or the counts of a table.
        disclosures: Disclosures in nats; no more than the design rows have is asked of them.
        solver: Solver of the designs.
        confidence: Of the bound at each point.
        splits: Number of random splits; more make the estimate smoother, the bound is that of the first.
        seed: Fixes splits, designs and releases.
        **options: Options of the solver.

    Raises:
        InvalidInputError: The number of rows is not known, or an argument cannot be used.
    """
    miss = checked_confidence(confidence)
    problem = problem_of(counts)
    wanted = np.asarray(disclosures, dtype=np.float64)
    rng = np.random.default_rng(seed)
    estimates, uppers = [], []
    for split in range(splits):
        for design, part in designs(problem, FOLDS, rng):
            asked = np.minimum(wanted, design.disclosure_ceiling)
            curve = sound(
                trace(design, disclosures=np.unique(asked), solver=solver, seed=seed, throw=False, **options)
            )
            channels = [design.restore(curve.at(float(r)).channel) for r in asked]
            estimates.append([beyond.estimate(part, channel) for channel in channels])
            if split == 0:
                drawn = [beyond.released(part, channel, rng).sy for channel in channels]
                uppers.append(
                    [population_bound(sy, 1.0 - miss / FOLDS, method="tilting").upper for sy in drawn]
                )
    return PopulationBand(
        disclosure=wanted,
        leakage=np.maximum(np.mean(estimates, axis=0), 0.0),
        upper=np.mean(uppers, axis=0),
        confidence=confidence,
        rows=int(problem.n or 0),
    )
