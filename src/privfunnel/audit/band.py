"""The curve beyond the sample: at every disclosure, what designs made in this way leak in the population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.algorithms.base import Solver
from privfunnel.audit import population as beyond
from privfunnel.audit.cross_fit import FOLDS, Fitted, class_channel, class_designs, designs, like_disclosures
from privfunnel.data.population.bounds import population_bound
from privfunnel.data.population.intervals import checked_confidence
from privfunnel.data.tables import Counts, problem_of
from privfunnel.infra.storage import Document
from privfunnel.measures import Array
from privfunnel.model.problem import Problem
from privfunnel.solving.solution import Solution
from privfunnel.solving.tracing import sound, trace


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
        classes: The number of score classes of the designs, where they have any: estimate and bound are then of the
            class symbol.
    """

    disclosure: Array
    leakage: Array
    upper: Array
    confidence: float
    rows: int
    classes: int | None = None

    def proved(self, leakage_ceiling: float) -> NDArray[np.bool_]:
        """At which points something is proved: less than I(S;X), in nats, which leaks at most anyway."""
        return np.asarray(self.upper < leakage_ceiling)

    def at(self, disclosure: float) -> tuple[float, float]:
        """Estimate and bound at a disclosure in nats, of designs that time-share those of its two neighbours."""
        leakage, upper = (
            float(np.interp(disclosure, self.disclosure, y)) for y in (self.leakage, self.upper)
        )
        return leakage, upper

    def to_dict(self) -> Document:
        """JSON-ready, in nats."""
        return {
            "confidence": self.confidence,
            "rows": self.rows,
            "disclosure": self.disclosure.tolist(),
            "leakage": self.leakage.tolist(),
            "upper": self.upper.tolist(),
            **({} if self.classes is None else {"classes": self.classes}),
        }


def population_band(
    counts: Problem | Counts,
    disclosures: ArrayLike,
    *,
    solver: str | Solver = "auto",
    confidence: float = 0.95,
    splits: int = 1,
    nodes: int | None = None,
    seed: int = 0,
    classes: str | None = None,
    **options: Any,
) -> PopulationBand:
    """Trace the curve on one half of the rows and judge its channels by the other half, in turn.

    Args:
        counts: A problem with its counts, or the counts of a table.
        disclosures: Disclosures in nats; no more than the design rows have is asked of them.
        solver: Solver of the designs.
        confidence: Of the bound at each point.
        splits: Number of random splits; more make the estimate smoother, the bound is that of the first.
        nodes: Of how many of the disclosures further splits make designs, all by default; between them, these are
            time-shared.
        seed: Fixes splits, designs and releases.
        classes: Score classes of the designs, such as ``"score:16"``, made anew for each; those of the counts by
            default. What is judged is then the class symbol, on one split.
        **options: Options of the solver, and ``progress``, called with news.

    Raises:
        InvalidInputError: The number of rows is not known, or an argument cannot be used.
        KeyboardInterrupt: It was interrupted.
    """
    miss = checked_confidence(confidence)
    problem = problem_of(counts)
    wanted = np.asarray(disclosures, dtype=np.float64)
    rng = np.random.default_rng(seed)
    estimates, uppers, n_classes = [], [], None
    if classes is None and isinstance(counts, Counts) and counts.scores is not None:
        classes = counts.scores.rule
    if classes is not None:
        splits = 0
        for scored, rest in class_designs(counts, classes, FOLDS, seed, rng):
            n_classes = None if scored.scores is None else scored.scores.n_classes
            some = scored.problem()
            points = _points(
                some, like_disclosures(counts, some, wanted), solver=solver, seed=seed, **options
            )
            told, table = [class_channel(scored, each, rest) for each in points], rest.table()
            estimates.append(np.array([beyond.estimate(table, channel) for channel in told]))
            drawn = [beyond.released(table, channel, rng).sy for channel in told]
            uppers.append(_bounds(drawn, miss))
    for split in range(splits):
        at = wanted if split == 0 or nodes is None else _some(wanted, nodes)
        for design, part in designs(problem, FOLDS, rng):
            made = _points(design, at, solver=solver, seed=seed, **options)
            fitted = [Fitted.of(design, each.channel) for each in made]
            found = [each.estimate(part) for each in fitted]
            estimates.append(np.interp(wanted, at, found))
            if split == 0:
                drawn = [beyond.released(each.counted(part), each.channel, rng).sy for each in fitted]
                uppers.append(_bounds(drawn, miss))
    return PopulationBand(
        disclosure=wanted,
        leakage=np.maximum(np.mean(estimates, axis=0), 0.0),
        upper=np.mean(uppers, axis=0),
        confidence=confidence,
        rows=int(problem.n or 0),
        classes=n_classes,
    )


def _some(disclosures: Array, number: int) -> Array:
    """Some of the disclosures, the ends among them."""
    return np.asarray(
        disclosures[np.unique(np.linspace(0, len(disclosures) - 1, number).round().astype(int))]
    )


def _bounds(drawn: list[Array], miss: float) -> list[float]:
    """Upper bounds in nats on I(S;Y) behind counts (K, N) of released rows."""
    return [population_bound(sy, 1.0 - miss / FOLDS, method="tilting").upper for sy in drawn]


def _points(design: Problem, disclosures: Array, **options: Any) -> list[Solution]:
    """The points of a problem's curve at these disclosures in nats."""
    asked = np.minimum(disclosures, design.disclosure_ceiling)
    curve = sound(trace(design, disclosures=np.unique(asked), throw=False, **options))
    if not curve.complete:
        raise KeyboardInterrupt  # a part of a curve says nothing about the rest of it
    return [curve.at(float(r)) for r in asked]
