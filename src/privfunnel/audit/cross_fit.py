"""Cross-fitting: design on some rows, release the others, in turn; every row judges a design that it had no part in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel.algorithms import registry
from privfunnel.algorithms.base import Solver
from privfunnel.audit import population as beyond
from privfunnel.audit.held_out import some_rows
from privfunnel.audit.persons import PersonRows
from privfunnel.audit.population import Population
from privfunnel.audit.promise import channel_for, telling
from privfunnel.certificate.answer import DEFAULT_GAP
from privfunnel.data.population.bounds import population_worst_case
from privfunnel.data.population.intervals import checked_confidence
from privfunnel.data.population.robust import population_worst_lift
from privfunnel.data.population.views import View, view_of
from privfunnel.data.tables import Counts, problem_of
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import is_sparse, restored
from privfunnel.model.equal_symbols import chosen_lumping
from privfunnel.model.problem import Problem
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.point import solve
from privfunnel.solving.solution import Solution

#: Parts of the rows. Two leave most rows to judge a design, and make it from fewer than the real one, which is prudent.
FOLDS = 2
#: Rows below which designs on parts of them, with a few rows each, say nothing about anybody.
LEAST_ROWS = 20
#: Designs on parts of the rows are within this of optimal, in nats, divided by the number of their rows: their own luck
#: moves an estimate by ten times as much for each output beyond the first.
NEAR = 0.1
#: Random splits of few rows: the luck of one of them shows in an estimate.
SPLITS = 4
#: Seconds that designing again may be expected to take where nobody asked for it.
AFFORDABLE = 10.0


def affordable_splits(first: float, further: float | None = None) -> int:
    """How many random splits are made where nobody asked for it: all, one, or 0 where even that may take too long.

    Args:
        first: Seconds that the designs on one part of the rows are expected to take.
        further: The same in splits after the first, where they are not alike.
    """
    each = FOLDS * (first if further is None else further)
    if FOLDS * first + (SPLITS - 1) * each <= AFFORDABLE:
        return SPLITS
    return 1 if FOLDS * first <= AFFORDABLE else 0


def unasked_splits(rows: float, first: float, further: float | None = None, *, work: float = 0.0) -> int:
    """How many random splits of a sample are made where nobody asked for designs on parts of its rows: 0 for none.

    The one rule of audits, commands, reports and the explorer: so few rows say nothing, and what is expected to take
    long, or has been seen to, is left to those who ask for it.

    Args:
        rows: Independent pieces of evidence: rows, persons or clusters.
        first: Seconds that the designs on one part of the rows are expected to take.
        further: The same in splits after the first, where they are not alike.
        work: Seconds of the processor that the same designs on all rows took, where they were made.
    """
    if rows < LEAST_ROWS or FOLDS * work > AFFORDABLE:
        return 0
    return affordable_splits(first, further)


def repeatable(solver: object) -> bool:
    """Whether designs by a solver of this name can be made again on other rows: plain ones."""
    return solver in registry.names()


def proved_of_every_channel(counts: Counts, channel: Channel, confidence: float = 0.95) -> float:
    """What a channel leaks in the population at most, in nats, though it was designed on these very rows.

    It holds if the columns have no other values there; see
    :func:`~privfunnel.data.population.bounds.population_worst_case`.
    """
    cells = math.prod(column.n_values for column in (*counts.private, *counts.public))
    return population_worst_case(counts.table(), channel, confidence, cells=cells).upper


def cross_fitted(
    counts: Problem | Counts,
    *,
    disclosure: float | None = None,
    leakage: float | None = None,
    solver: str | Solver = "auto",
    confidence: float = 0.95,
    folds: int = FOLDS,
    splits: int = 1,
    seed: int = 0,
    classes: str | None = None,
    **options: Any,
) -> Population:
    """What designs made in this way leak in the population that the rows come from.

    The rows are split at random into ``folds`` parts. For each part a mechanism is designed on all the others, the part
    is released through it once, and the population is bounded at the error probability divided by ``folds``: no row
    judges a design that it had a part in. The bounds are averages over the designs, and hold for their average.

    A design on all rows, which no row is left to judge, is made in the same way from more rows.

    Args:
        counts: A problem with its counts, or the counts of a table.
        disclosure: Least disclosure, in nats; no more than the design rows have.
        leakage: The leakage budget, in nats. Give exactly one of the two.
        solver: Solver of the designs.
        confidence: Of each bound.
        folds: Number of parts, 2 at least.
        splits: Number of random splits; more make the estimate steadier, the bounds are those of the first.
        seed: Fixes splits, designs and releases.
        classes: Score classes of the designs, such as ``"score:16"``, made anew for each; those of the counts by
            default. The bounds are then of the class symbol, and there is one split.
        **options: Options of the solver.

    Raises:
        InvalidInputError: The number of rows is not known, there are too few, or an argument cannot be used.
    """
    asked: Document = {
        "disclosure": disclosure,
        "leakage": leakage,
        "solver": solver,
        "seed": seed,
        **options,
    }
    if classes is None and isinstance(counts, Counts) and counts.scores is not None:
        classes = counts.scores.rule
    if classes is not None:
        return _in_classes(counts, classes, asked, confidence, folds)
    judges = [judge for _, judge in judged(counts, confidence=confidence, folds=folds, **asked)]
    rng = np.random.default_rng((seed, 1))  # apart from the first split's, which draws releases too
    further = [
        _designed(design, **asked)[0].estimate(part)
        for _ in range(splits - 1)
        for design, part in designs(problem_of(counts), folds, rng)
    ]
    return beyond.average(judges, confidence, further)


def judged(
    counts: Problem | Counts,
    *,
    disclosure: float | None = None,
    leakage: float | None = None,
    confidence: float = 0.95,
    folds: int = FOLDS,
    seed: int = 0,
    **asked: Any,
) -> Iterator[tuple[Fitted, beyond.Judged]]:
    """The designs of :func:`cross_fitted` one by one: each channel, and what the rows it never saw say of it."""
    miss = checked_confidence(confidence)
    if isinstance(counts, Counts):
        counts.require_equal("designing again on parts of the rows")
    problem = problem_of(counts)
    rng = np.random.default_rng(seed)
    for design, part in designs(problem, folds, rng):
        fitted, promised = _designed(design, disclosure=disclosure, leakage=leakage, seed=seed, **asked)
        drawn = beyond.released(part, fitted.channel, rng, fitted.row)
        columns = problem.public_columns or {}
        bounded = beyond.of_released(drawn, columns, 1.0 - miss / folds, problem.leakage_ceiling)
        yield fitted, beyond.Judged(bounded, fitted.estimate(part), promised)


class Fitted(NamedTuple):
    """The channel of a design on some rows, for all symbols of the table.

    Symbols that the design never saw release Y drawn from p(y). In a large table many are new and p(y) has thousands of
    entries: there they share one row, with which I(S;Y) and its bias are the same.

    Attributes:
        channel: p(y|x), shape (rows, N).
        row: The row of each symbol, shape (M,); None where rows are symbols.
    """

    channel: Channel
    row: NDArray[np.intp] | None

    @classmethod
    def of(cls, design: Problem, channel: Channel) -> Fitted:
        """The channel of a design, whose rows are the symbols that it saw."""
        seen = design.kept_x
        if not is_sparse(channel) or seen.all():
            return cls(design.restore(channel), None)
        one_more = np.append(np.ones(channel.shape[0], dtype=bool), False)
        return cls(
            restored(channel, design.p_x, one_more), np.where(seen, np.cumsum(seen) - 1, channel.shape[0])
        )

    def estimate(self, part: Array) -> float:
        """I(S;Y) in the population, in nats, from counts (K, M): see :func:`~privfunnel.audit.population.estimate`."""
        return beyond.estimate(self.counted(part), self.channel)

    def counted(self, part: Array) -> Array:
        """Counts (K, M) by row of the channel, shape (K, rows)."""
        if self.row is None:
            return part
        size = (len(self.row), self.channel.shape[0])
        sums = sparse.csr_array((np.ones(size[0]), (np.arange(size[0]), self.row)), shape=size)
        return np.asarray(part @ sums)


def _designed(
    design: Problem, *, disclosure: float | None, leakage: float | None, seed: int, **asked: Any
) -> tuple[Fitted, float]:
    """The channel of a design on some rows, and what it leaks of these rows, in nats."""
    wanted = None if disclosure is None else min(disclosure, design.disclosure_ceiling)
    asked = asked | _as_near_as_rows_tell(design, **asked)
    solution = solve(design, disclosure=wanted, leakage=leakage, seed=seed, throw=False, **asked)
    return Fitted.of(design, solution.channel), solution.leakage


def _as_near_as_rows_tell(design: Problem, solver: str | Solver = "auto", **asked: Any) -> dict[str, float]:
    """The gap of a design on some rows, as an option: no nearer than rows can tell, unless it was asked for.

    Below it two designs are alike in the population, while a proof takes ever longer.
    """
    own = registry.load(solver) if isinstance(solver, str) else solver
    default = "gap" not in asked and getattr(own, "gap", None) == DEFAULT_GAP
    return {"gap": max(DEFAULT_GAP, NEAR / float(design.n or math.inf))} if default else {}


def _in_classes(
    counts: Problem | Counts, classes: str, asked: Document, confidence: float, folds: int
) -> Population:
    """:func:`cross_fitted` with score classes, which every design makes of its own rows."""
    miss, seed = checked_confidence(confidence), asked["seed"]
    rng = np.random.default_rng(seed)
    found, used = [], None
    for design, rest in class_designs(counts, classes, folds, seed, rng):
        problem, used = design.problem(), design.scores
        wanted = asked["disclosure"]
        wanted = None if wanted is None else float(like_disclosures(counts, problem, np.array(wanted)))
        solution = solve(problem, **(asked | {"disclosure": wanted, "throw": False}))
        channel = class_channel(design, solution, rest)
        assert isinstance(counts, Counts)
        bounded = beyond.judge(rest, channel, rng, 1.0 - miss / folds, problem.leakage_ceiling, counts)
        found.append(beyond.Judged(bounded, beyond.estimate(rest.table(), channel), solution.leakage))
    return beyond.average(found, confidence).of_classes(used)


def class_designs(
    counts: Problem | Counts, classes: str, folds: int, seed: int, rng: np.random.Generator
) -> Iterator[tuple[Counts, Counts]]:
    """For each part of the rows all the others, with score classes of their own, and the part.

    Raises:
        InvalidInputError: They are no counts, are not equal draws, or too few for so many parts.
    """
    if not isinstance(counts, Counts):
        raise InvalidInputError("score classes are made of a table's rows: give its counts, not a problem")
    counts.require_equal("designing again on parts of the rows")
    if not 2 <= folds <= counts.n:
        raise InvalidInputError(
            f"{folds!r} parts of {counts.n} rows cannot be made: give 2 or more, each with a row"
        )
    for part in parts(counts.cell_n.astype(np.float64), folds, rng):
        yield some_rows(counts, counts.cell_n - part).scored(classes, seed), some_rows(counts, part)


def like_disclosures(counts: Problem | Counts, design: Problem, disclosures: Array) -> Array:
    """What to ask of a design on some rows that is like disclosures of all rows in nats, of any shape.

    Fewer rows have fewer different records: with half of its rows a wide table loses much of H(X|T), which is free. So
    what is told of the class T is the same, and below that the share of H(X|T).

    Args:
        counts: All rows, with their score classes; without any no more than H(X) of the design is asked for.
        design: The problem of some of them, with classes of their own.
        disclosures: The disclosures of all rows.
    """
    most = design.disclosure_ceiling
    if not isinstance(counts, Counts) or counts.scores is None:
        return np.minimum(disclosures, most)
    whole, part = (chosen_lumping(each, lump=True).h_within for each in (counts.problem(), design))
    free = disclosures * part / whole if whole > 0.0 else 0.0
    told = disclosures - whole
    return np.asarray(np.minimum(np.where(told > 0.0, part + told, free), most))


def class_channel(design: Counts, solution: Solution, rest: Counts) -> Channel:
    """p(class symbol|x) of a design with score classes, for the public symbols of other rows, shape (M, N)."""
    mechanism = Mechanism.from_solution(design, solution)
    return telling(mechanism, channel_for(mechanism, rest)[0])


def designs(problem: Problem, folds: int, rng: np.random.Generator) -> list[tuple[Problem, Array]]:
    """For each part of the rows the problem of all the others, and the part: counts of shape (K, M).

    Raises:
        InvalidInputError: The rows are not counted, or too few for so many parts.
    """
    table = problem.counts
    if table is None:
        raise InvalidInputError("rows cannot be split where they are not counted: give a table of counts")
    if not 2 <= folds <= table.sum():
        raise InvalidInputError(
            f"{folds!r} parts of {table.sum():g} rows cannot be made: give 2 or more, each with a row"
        )
    return [(Problem(table - part), part) for part in parts(table, folds, rng)]


def seen_as(
    designed: Mechanism | None, asked: View | None, shape: tuple[int, int], n: float, ceiling: float
) -> View:
    """The view of a table, as :func:`~privfunnel.data.population.views.view_of`: with score classes always a sample.

    Raises:
        InvalidInputError: A register is asked for, whose p(s|x) is counted, not estimated.
    """
    view = view_of(asked, shape, n, ceiling)
    if designed is None or designed.scores is None:
        return view
    if asked == "register":
        raise InvalidInputError(
            "score classes estimate what a wide table says of the people behind it, and a register has no others: "
            "design without --classes, or leave --view register out"
        )
    return "sample"


class Asked(NamedTuple):
    """What an audit asks about the population: the view that was asked for and the one taken, confidence and seed."""

    view: View | None
    taken: View
    confidence: float
    seed: int


def of_design(
    designed: Mechanism, counts: Counts, people: PersonRows | None, asked: Asked
) -> Population | None:
    """What a mechanism's own table says about the population, by designing again in the same way on parts of it.

    Args:
        designed: The mechanism.
        counts: The table it was designed on.
        people: Persons or clusters of which the rows are one each.
        asked: The view, of which a register leaves nothing to say; where none was asked for, nothing is done that is
            expected to take long. Confidence of each bound; the seed of split, designs and releases.

    Returns:
        The bounds, or None where the view asks for none or the design cannot be made again.
    """
    if asked.taken == "register" or counts.n < FOLDS or not repeatable(designed.provenance.get("solver")):
        return None
    seconds = counts.size.seconds
    if asked.view is None and designed.scores is None and not unasked_splits(counts.n, seconds):
        return None
    splits = max(affordable_splits(seconds), 1)
    budget, requested = designed.promise.get("budget"), designed.promise.get("requested")
    wanted: Document = (
        {"leakage": budget}
        if budget is not None
        else {"disclosure": designed.disclosure if requested is None else requested}
    )
    made: Document = {"solver": designed.provenance["solver"], "splits": splits, "seed": asked.seed}
    if designed.scores is not None:
        made["classes"] = designed.scores.rule
    found = cross_fitted(counts, **wanted, **made, confidence=asked.confidence)
    if designed.scores is not None:
        return found.resting_on(people)
    channel = channel_for(designed, counts)[0]
    most = proved_of_every_channel(counts, channel, asked.confidence)
    lift = None if is_sparse(channel) else population_worst_lift(counts.table(), channel, asked.confidence)
    return replace(found, worst_case=most, worst_lift=lift).resting_on(people)


def parts(table: Array, folds: int, rng: np.random.Generator) -> list[Array]:
    """A table of counts split into parts of nearly equal size, row by row at random: tables that add up to it."""
    rest = np.rint(table).astype(np.int64).ravel()
    split = []
    for left in range(folds, 1, -1):
        picked = rng.multivariate_hypergeometric(rest, round(rest.sum() / left), method="marginals")
        split.append(picked)
        rest = rest - picked
    return [part.reshape(table.shape).astype(np.float64) for part in (*split, rest)]
