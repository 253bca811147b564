"""Audits of a mechanism without a release: its own exact numbers, alone or on a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privfunnel import measures
from privfunnel.audit import cross_fit, findings, promise
from privfunnel.audit import population as beyond
from privfunnel.audit.cross_fit import Asked
from privfunnel.audit.effort import BOOTSTRAP
from privfunnel.audit.estimates import exact_information, fitting, resample
from privfunnel.audit.evidence import chosen_columns
from privfunnel.audit.findings import split
from privfunnel.audit.informed import informed
from privfunnel.audit.persons import ALONE, PersonRows, independent, rows_of
from privfunnel.audit.result import Audit
from privfunnel.audit.review_board import board
from privfunnel.audit.voting import persons_of
from privfunnel.data.engines import ReadOptions
from privfunnel.data.population.intervals import checked_confidence
from privfunnel.data.population.views import View
from privfunnel.data.tables import Counts, recount
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import joint
from privfunnel.neighbours.alternatives import instead
from privfunnel.release.guesses import exposures
from privfunnel.release.mechanism import Mechanism, symbol_names


def mechanism(designed: Mechanism) -> Audit:
    """Audit a mechanism alone: its own exact numbers for the table it was designed on."""
    tables = split(designed.s_alphabet, (designed.p_sy, ()))
    attributes = findings.attributes(
        {name: exact_information(*resampled) for name, resampled in tables.items()}, tables, {}, {}
    )
    from_x = {guess.name: findings.exact(guess.original) for guess in designed.guesses}
    return Audit(
        rows=int(designed.provenance.get("rows", 0)),
        n_y=designed.n_y,
        private=designed.private_names,
        public=designed.public_names,
        disclosure=exact_information(designed.p_xy, ()),
        disclosure_ceiling=float(designed.promise["disclosure_ceiling"]),
        leakage_ceiling=float(designed.promise["leakage_ceiling"]),
        attributes=tuple(replace(each, original=from_x.get(each.name)) for each in attributes),
        symbols=findings.symbols((designed.p_sy, ()), designed.y_labels, designed.s_labels),
        exact=True,
        mechanism_known=True,
        exposures=exposures(designed.s_alphabet, designed.p_sy, int(designed.provenance.get("rows", 0))),
        columns=findings.preserved(designed.x_alphabet, designed.p_xy),
        board=board(designed.p_xy, designed.p_sy, designed.behind, (designed.y_labels, designed.s_labels)),
    )


def table(
    original: object,
    designed: Mechanism,
    *,
    read: ReadOptions | None = None,
    bootstrap: int = BOOTSTRAP,
    seed: int = 0,
    confidence: float = 0.95,
    view: View | None = None,
    person: str | None = None,
    cluster: str | None = None,
) -> Audit:
    """Audit a mechanism on a table, the one it was designed on or another, and check its promise.

    The numbers are exact for the table and have no intervals. What is said about the population behind it rests on rows
    that a design had no part in: those of another table, or parts of this one, see
    :func:`~privfunnel.audit.cross_fitted`. Where the design was made of weighted rows, the table is counted with the
    same weights, and what is said about a population rests on rows kept in proportion to them.

    Args:
        original: The table, as for :func:`privfunnel.data.tables.count`.
        designed: The mechanism.
        read: How to read a text file or a workbook, where it differs from the design data.
        bootstrap: Number of resampled tables, for the comparison of two tables.
        seed: Fixes the resampling, and the release that bounds for the population rest on.
        confidence: Of each of these bounds.
        view: ``"register"``, the table is the population, or ``"sample"``, it comes from one; by default a small table
            is a sample. For a sample that the mechanism was designed on, designs are made again on parts of it.
        person: Column that says who a row is about: the rows of a person are resampled together, and bounds rest on one
            row of each. That of the mechanism by default; "" for none.
        cluster: Column that says which rows were sampled together, a household for example: the same for these.

    Raises:
        InvalidInputError: The table cannot be read or does not fit the mechanism, or an argument cannot be used.
    """
    checked_confidence(confidence)
    rng = np.random.default_rng(seed)
    read = designed.read_options(read)
    names = designed.private_names, designed.public_names
    counts = recount(original, *names, designed.bins, read, designed.missing, designed.weights)
    together = chosen_columns(original, read, designed, person, cluster)
    people = None
    if together != ALONE or (counts.weights is not None and view != "register"):
        people = rows_of(original, counts, together.person, read, cluster=together.cluster)
    channel, _ = promise.channel_for(designed, counts)
    p_sx = promise.as_designed(designed, counts).table() / counts.n
    grouped = None if together == ALONE else people
    drawn = _resampled(counts, grouped, bootstrap, rng)
    p_x = p_sx.sum(axis=0)
    told = promise.telling(designed, channel)
    p_sy, p_xy = promise.said(designed, counts, told), joint(p_x, channel)
    y_labels = designed.y_labels if designed.scores is None else symbol_names(told.shape[1])
    tables = split(counts.s_alphabet, (p_sy, ()))
    checked = promise.recount(designed, counts, drawn, grouped)
    ceiling = float(measures.mutual_information(p_sx))
    alone = independent(counts, people, rng)
    seen_as = cross_fit.seen_as(designed, view, p_sx.shape, alone.n, ceiling)
    return Audit(
        rows=counts.n,
        n_y=designed.n_y,
        private=designed.private_names,
        public=designed.public_names,
        disclosure=exact_information(p_xy, ()),
        disclosure_ceiling=float(measures.entropy(p_x)),
        leakage_ceiling=ceiling,
        attributes=findings.attributes(
            {name: exact_information(*resampled) for name, resampled in tables.items()},
            tables,
            split(counts.s_alphabet, (p_sx, ())),
            {},
        ),
        symbols=findings.symbols((p_sy, ()), y_labels, counts.s_labels),
        recount=checked,
        exact=True,
        mechanism_known=True,
        exposures=exposures(counts.s_alphabet, p_sy, counts.n),
        columns=findings.preserved(counts.x_alphabet, p_xy),
        instead=instead(counts.x_alphabet, p_sx, float(measures.mutual_information(p_sy))),
        informed=informed(counts.x_alphabet, p_sx, channel if checked.same_table else told),
        board=board(p_xy, p_sy, counts.n if people is None else people.persons, (y_labels, counts.s_labels)),
        view=seen_as,
        population=(
            cross_fit.of_design(designed, alone, people, Asked(view, seen_as, confidence, seed))
            if checked.same_table
            else _elsewhere(designed, checked, alone, people, (told, rng, confidence, ceiling))
        ),
        persons=persons_of(people) if people is not None and people.column else None,
        clusters=None if people is None else people.clusters,
    )


def _elsewhere(
    designed: Mechanism,
    checked: promise.Recount,
    alone: Counts,
    people: PersonRows | None,
    judging: tuple[Channel, np.random.Generator, float, float],
) -> beyond.Population | None:
    """What a table says about the population that the mechanism was not designed on; None where rows may be shared.

    Args:
        designed: The mechanism.
        checked: Whether the table has rows of the design.
        alone: Its rows, or one of each person or cluster.
        people: These.
        judging: What is released, the draws, the confidence and I(S;X), as :func:`~.population.judge` takes them.
    """
    if checked.overlaps or alone.weights is not None:
        return None
    return beyond.judge(alone, *judging).resting_on(people).of_classes(designed.scores)


def _resampled(
    counts: Counts, people: PersonRows | None, size: int, rng: np.random.Generator
) -> Sequence[Array]:
    """Tables p(s, x) of rows, persons or clusters, drawn with replacement."""
    table = counts.table() / counts.n
    if people is None:
        return resample(table, counts.n, size, rng)
    shape = (counts.n_s, counts.n_x)
    return list(people.resampling(people.s, people.x, shape, min(size, fitting(table)), rng))
