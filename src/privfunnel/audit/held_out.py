"""Design on some rows, bound on the others: what a promise is worth for the population the rows come from."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from privfunnel.audit import population as beyond
from privfunnel.audit import promise
from privfunnel.audit.persons import PersonRows, counted
from privfunnel.audit.provable import provable
from privfunnel.audit.result import Holdout
from privfunnel.data.population.intervals import checked_confidence
from privfunnel.data.tables import Counts
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import mutual_information
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.point import solve
from privfunnel.solving.solution import Solution


class Guaranteed(NamedTuple):
    """A design, the mechanism made of it, what held-out rows prove about it, and the rows it was designed on."""

    solution: Solution
    mechanism: Mechanism
    holdout: Holdout
    counts: Counts


def holdout(
    counts: Counts,
    *,
    disclosure: float | None = None,
    leakage: float | None = None,
    share: float = 0.5,
    solver: str = "auto",
    confidence: float = 0.95,
    seed: int = 0,
    people: PersonRows | None = None,
    **options: Any,
) -> Holdout:
    """Hold rows out at random, design on the others and bound the leakage in the population on those held out.

    Args:
        counts: Counts of the whole table.
        disclosure: Least disclosure to design for, in nats of the design rows; or
        leakage: the leakage budget, in nats.
        share: Share of the rows to hold out.
        solver: Solver of the design.
        confidence: Of each bound for the population.
        seed: Fixes split, design and the release of the held-out rows.
        people: The rows with whom they are about, see :func:`guaranteed`.
        **options: Options of the solver.

    Raises:
        InvalidInputError: As :func:`guaranteed`.
    """
    asked: Document = {"disclosure": disclosure, "leakage": leakage, "solver": solver, **options}
    return guaranteed(counts, share=share, confidence=confidence, seed=seed, people=people, **asked).holdout


def guaranteed(
    counts: Counts,
    *,
    share: float = 0.3,
    confidence: float = 0.95,
    seed: int = 0,
    disclosure: float | None = None,
    people: PersonRows | None = None,
    merge: bool = False,
    **asked: Any,
) -> Guaranteed:
    """Design on all rows but a held-out share, and bound what the mechanism does in the population.

    Rows of one cell are alike to every count, so the split is drawn cell by cell (a hypergeometric draw has the same
    law as splitting rows). Public values that the design rows do not have are released from p(y). Bins come from all
    rows. The held-out rows are released once, and the bounds are of what was released; of a design with score classes,
    which are made of the design rows alone, they are of the class symbol.

    Args:
        counts: Counts of the whole table.
        share: Share of the rows to hold out.
        confidence: Of each bound for the population.
        seed: Fixes split, design and the release of the held-out rows.
        disclosure: Least disclosure, in nats; no more than the design rows have.
        people: The rows with whom they are about (:func:`privfunnel.audit.rows_of`), where people have several, were
            sampled in clusters or have weights: persons or clusters are held out, not rows, and bounds rest on one row
            of each, kept in proportion to its weight.
        merge: If True, outputs are merged where that lowers what the held-out rows can be expected to prove, see
            :mod:`privfunnel.audit.provable`; for a disclosure.
        **asked: ``leakage``, ``solver`` and its options.

    Raises:
        InvalidInputError: The share leaves one part without rows, the confidence is none, the counts know of persons
            or clusters or weights and ``people`` is missing, or outputs are to be merged without a disclosure.
    """
    checked_confidence(confidence)
    rng = np.random.default_rng(seed)
    if people is None:
        _require_rows(counts)
    design, rest = (
        split_rows(counts, share, rng) if people is None else _split_pieces(counts, people, share, rng)
    )
    if counts.scores is not None:
        design = design.scored(counts.scores.rule, seed)
    design = replace(design, part_of=counts.fingerprint)
    problem = design.problem()
    if disclosure is not None:
        disclosure = min(disclosure, problem.disclosure_ceiling)
    if merge:
        if disclosure is None:
            raise InvalidInputError("outputs are merged down to a disclosure: ask for one, not for a leakage")
        solution = provable(problem, disclosure, rest.n, confidence, seed=seed, **asked)
    else:
        solution = solve(problem, disclosure=disclosure, seed=seed, **asked)
    mechanism = Mechanism.from_solution(design, solution)
    channel, new = promise.channel_for(mechanism, rest)
    ceiling = float(mutual_information(design.table() / design.n))
    found = Holdout(
        design_rows=design.n,
        held_out_rows=rest.n,
        promised_disclosure=solution.disclosure,
        promised_leakage=solution.leakage,
        population=beyond.judge(rest, promise.telling(mechanism, channel), rng, confidence, ceiling, counts)
        .resting_on(people)
        .of_classes(mechanism.scores),
        new_rows=int(rest.table()[:, new].sum()),
        design_persons=design.persons,
        design_clusters=design.clusters,
    )
    return Guaranteed(solution, mechanism, found, design)


def split_rows(counts: Counts, share: float, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Rows to design on and rows held out, ``share`` of all; each part has the symbols that occur in it.

    Raises:
        InvalidInputError: The share leaves one part without rows.
    """
    held_out = round(share * counts.n) if math.isfinite(share) else 0
    if not 0 < held_out < counts.n:
        raise InvalidInputError(
            f"a share of {share!r} leaves no rows on one side: give a number between 0 and 1"
        )
    picked = rng.multivariate_hypergeometric(counts.cell_n, counts.n - held_out, method="marginals")
    return some_rows(counts, picked), some_rows(counts, counts.cell_n - picked)


def _split_pieces(
    counts: Counts, people: PersonRows, share: float, rng: np.random.Generator
) -> tuple[Counts, Counts]:
    """All rows of the persons or clusters to design on, and one row of each of the others, ``share`` of all.

    Raises:
        InvalidInputError: The share leaves one part without any.
    """
    held_out = round(share * people.pieces) if math.isfinite(share) else 0
    if not 0 < held_out < people.pieces:
        whose = "persons" if people.cluster is None else "clusters"
        raise InvalidInputError(
            f"a share of {share!r} leaves no {whose} on one side: give a number between 0 and 1"
        )
    chosen = np.zeros(people.pieces, dtype=bool)
    chosen[rng.permutation(people.pieces)[:held_out]] = True
    one = people.independent(rng)
    parts = (np.flatnonzero(~chosen[people.piece]), one[chosen[people.piece[one]]])
    if not len(parts[1]):
        raise InvalidInputError("no held-out row is kept in proportion to its weight: hold more rows out")
    weight = None if people.weight is None else people.weight[parts[0]]
    design, rest = (
        some_rows(some, some.cell_n)
        for some in (
            counted(counts, people.s[rows], people.x[rows], heavy)
            for rows, heavy in zip(parts, (weight, None), strict=True)
        )
    )
    if people.column:
        persons = len(np.unique(people.person[parts[0]]))
        design = replace(design, person=people.column, persons=persons)
    if people.cluster is not None:
        design = replace(design, cluster=people.cluster_column, clusters=people.pieces - held_out)
    return design, rest


def some_rows(counts: Counts, n: Any) -> Counts:
    """Counts of so many rows of each cell, with the symbols that occur in them."""
    some = n > 0
    s, cell_s = np.unique(counts.cell_s[some], return_inverse=True)
    x, cell_x = np.unique(counts.cell_x[some], return_inverse=True)
    return Counts(
        counts.s_alphabet.take(s),
        counts.x_alphabet.take(x),
        cell_s.reshape(-1),
        cell_x.reshape(-1),
        n[some].astype(np.int64),
        counts.read,
        missing=counts.missing,
        dropped=counts.dropped,
        weights=counts.weights,
        cell_weight=None if counts.cell_weight is None else counts.cell_weight[some],
        squares=counts.squares,
    )


def _require_rows(counts: Counts) -> None:
    """Refuse counts whose rows go together, or have weights, without these rows.

    Raises:
        InvalidInputError: They do.
    """
    remedy = "give people=audit.rows_of(table, counts)"
    if counts.weights is not None:
        raise InvalidInputError(
            f"rows with weights ({counts.weights}) are held out in proportion to them: {remedy}"
        )
    if counts.person or counts.cluster:
        what = f"person ({counts.person})" if counts.cluster is None else f"cluster ({counts.cluster})"
        raise InvalidInputError(f"rows of one {what} must not be on both sides: {remedy}")
