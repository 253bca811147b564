"""The audit of a released table against its original: estimates from rows, with or without the mechanism."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from privfunnel import measures
from privfunnel.audit import cross_fit, evidence, findings, promise
from privfunnel.audit import population as beyond
from privfunnel.audit.alignment import Sample, align
from privfunnel.audit.cross_fit import Asked
from privfunnel.audit.effort import Effort, EffortKeywords
from privfunnel.audit.estimates import Information, information, permuted
from privfunnel.audit.evidence import chosen_columns
from privfunnel.audit.extra_columns import Further, further
from privfunnel.audit.findings import Resampled, split
from privfunnel.audit.informed import Informed, InformedBound, columns_of, informed, informed_bounds
from privfunnel.audit.models import models
from privfunnel.audit.persons import independent
from privfunnel.audit.promise import Draws
from privfunnel.audit.result import Audit
from privfunnel.audit.review_board import Board, board
from privfunnel.audit.voting import Persons, persons_of
from privfunnel.data.engines import ReadOptions
from privfunnel.data.population.intervals import checked_confidence
from privfunnel.data.population.views import View
from privfunnel.data.tables import Counts, recount
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import AnyPath, Document
from privfunnel.measures import Channel
from privfunnel.model.channels import joint
from privfunnel.neighbours.alternatives import instead
from privfunnel.release import order as orders
from privfunnel.release.batch_writer import is_ours_with_semicolons
from privfunnel.release.decoy_alphabet import DecoyAlphabet
from privfunnel.release.fidelity import Fidelity, numbers_of, numeric_columns
from privfunnel.release.guesses import exposures
from privfunnel.release.mechanism import Mechanism, symbol_names
from privfunnel.release.options import DEFAULT_THRESHOLD
from privfunnel.release.order import Order
from privfunnel.release.records import RecordAlphabet

Names = str | Iterable[str] | None


def release(
    original: object,
    released: object,
    *,
    mechanism: Mechanism | None = None,
    private: Names = None,
    public: Names = None,
    bins: Mapping[str, Any] | None = None,
    on: str | None = None,
    order: Order | AnyPath | None = None,
    read: ReadOptions | None = None,
    **effort: Unpack[EffortKeywords],
) -> Audit:
    """Audit a released table against its original: the release, and every other column that the file has.

    Args:
        original: The table before the release, as for :func:`privfunnel.data.tables.count`.
        released: The table after it: symbols, records, or (without a mechanism) any columns. A text file is taken to
            have a header; what is read otherwise is opened with :func:`privfunnel.data.engines.open_table` first.
        mechanism: The mechanism, if there is one; it brings the columns and bins and has its promise checked.
        private: Names of the private columns; with a mechanism, its own.
        public: Names of the public columns; with a mechanism, its own.
        bins: Bins of original and released columns; with a mechanism, its own.
        on: Column in both tables that matches rows; by their order without it.
        order: The order of a shuffled release, or the order file that was written with it; found by itself where it
            lies beside the released file.
        read: How to read the original, if it is a text file or a workbook; as the design data by default.
        **effort: ``bootstrap``, ``permutations``, ``attacker_rows``, ``seed``, ``confidence``, ``view``, ``person``,
            ``cluster``; see :class:`~privfunnel.audit.effort.Effort`.

    Raises:
        InvalidInputError: The tables cannot be read or matched, columns are missing, or the design had weights.
    """
    work = Effort(**effort)
    checked_confidence(work.confidence)
    roles = _roles(mechanism, private, public, bins)
    read = read if mechanism is None else mechanism.read_options(read)
    read_released = _reading(mechanism, released)
    counts = recount(original, roles.private, roles.public, roles.used, read)
    ordered = None if on is not None else _order(released, order)
    sample = align(
        original,
        released,
        counts,
        mechanism=mechanism,
        on=on,
        order=ordered,
        together=chosen_columns(original, read, mechanism, work.person, work.cluster),
        bins=roles.bins,
        read=read,
        read_released=read_released,
    )
    rng = np.random.default_rng(work.seed)
    found = _estimates(mechanism, counts, sample, work.bootstrap, rng)
    leakage = _leakage(sample, found, work.permutations, rng)
    disclosure = _disclosure(sample, found, work, rng)
    attacks = findings.attacks(sample, work.attacker_rows, rng) if work.attacker_rows else {}
    p_sx, drawn = found.original
    checked = None if mechanism is None else promise.recount(mechanism, counts, drawn, sample.people)
    ceiling = float(measures.mutual_information(p_sx))
    view = cross_fit.seen_as(mechanism, work.view, p_sx.shape, sample.evidence, ceiling)
    return Audit(
        rows=sample.n,
        n_y=len(sample.y_alphabet),
        private=roles.private,
        public=roles.public,
        disclosure=disclosure,
        disclosure_ceiling=float(measures.entropy(p_sx.sum(axis=0))),
        leakage_ceiling=ceiling,
        attributes=findings.attributes(
            leakage,
            split(counts.s_alphabet, found.worst),
            split(counts.s_alphabet, found.original if mechanism is None else (p_sx, ())),
            attacks,
        ),
        symbols=findings.symbols(found.worst, found.labels or sample.y_labels, counts.s_labels),
        recount=checked,
        draws=found.check,
        mechanism_known=found.agrees,
        unmatched=sample.unmatched,
        exposures=exposures(counts.s_alphabet, found.worst[0], sample.n),
        columns=findings.preserved(counts.x_alphabet, found.kept),
        further=_further(sample, leakage, work, rng),
        instead=instead(counts.x_alphabet, p_sx, float(measures.mutual_information(found.worst[0]))),
        **_known(mechanism, found, sample),
        view=view,
        population=_population(mechanism, checked, sample, view, work, agrees=found.agrees),
        persons=_persons(sample, work),
        clusters=None if sample.people is None else sample.people.clusters,
        fidelity=_fidelity(mechanism, sample, (original, read), (released, read_released)),
        models=models(mechanism, sample, work.attacker_rows, np.random.default_rng(work.seed)),
        threshold=DEFAULT_THRESHOLD if ordered is None else max(ordered.threshold, 2),
    )


def _form(sample: Sample) -> str:
    """How a mechanism's release is written, by the symbols that its columns form."""
    if isinstance(sample.y_alphabet, DecoyAlphabet):
        return "decoys"
    return "records" if isinstance(sample.y_alphabet, RecordAlphabet) else "symbols"


def _known(mechanism: Mechanism | None, found: _Estimates, sample: Sample) -> Document:
    """What the mechanism itself tells of the rows: attackers with knowledge, a review board's questions, the form."""
    counts = sample.counts
    return {
        "informed": _informed(found, counts),
        "board": _board(mechanism, found, sample, counts),
        "form": None if mechanism is None else _form(sample),
    }


def _board(mechanism: Mechanism | None, found: _Estimates, sample: Sample, counts: Counts) -> Board | None:
    """The three questions of a review board, for the mechanism's own symbols; None where the rows are not its draws."""
    if mechanism is None or found.check is None or not found.check.agrees:
        return None
    people = counts.n if sample.people is None else sample.people.persons
    channel, _ = promise.channel_for(mechanism, counts)
    p_sx = promise.as_designed(mechanism, counts).table() / counts.n
    labels = (mechanism.y_labels, counts.s_labels)
    # Decoys are symbols with all that they say, and records that are released for records are symbols, too.
    records = isinstance(sample.y_alphabet, RecordAlphabet) and mechanism.outputs is None
    made = board(joint(p_sx.sum(axis=0), channel), p_sx @ channel, people, labels, records=records)
    if made is None or not records:
        return made
    return replace(made, informed=informed(counts.x_alphabet, p_sx, channel))


def _reading(mechanism: Mechanism | None, released: object) -> ReadOptions:
    """How a released file is read: a mechanism's own texts as they were written, blanks and all."""
    if mechanism is None:
        return ReadOptions(header=True)
    return ReadOptions(header=True, trim=False, decimal="," if is_ours_with_semicolons(released) else ".")


def _fidelity(
    mechanism: Mechanism | None,
    sample: Sample,
    original: tuple[Any, ReadOptions | None],
    released: tuple[Any, ReadOptions | None],
) -> Fidelity | None:
    """What survives in released records, with the numbers of both tables."""
    found = findings.survives(mechanism, sample)
    if mechanism is None or found is None:
        return None
    header = dict(zip(mechanism.public_names, sample.y_alphabet.names, strict=True))
    names = {name: header[name] for name in numeric_columns(mechanism.public)}
    own = dict(zip(names, names, strict=True))
    before = numbers_of(original[0], own, original[1], inner=True, person=mechanism.person)
    after = numbers_of(released[0], names, released[1])
    columns = (
        replace(each, before=before.get(each.name), after=after.get(each.name)) for each in found.columns
    )
    return replace(found, columns=tuple(columns))


def _population(
    mechanism: Mechanism | None,
    checked: promise.Recount | None,
    sample: Sample,
    view: View,
    work: Effort,
    *,
    agrees: bool,
) -> beyond.Population | None:
    """What rows that a design had no part in say about the population; nothing where the design is not known.

    Attackers who know something are bounded where the released rows agree with the mechanism.
    """
    if mechanism is None or checked is None:
        return None
    people, rng = sample.people, np.random.default_rng(work.seed)
    if checked.same_table:
        asked = Asked(work.view, view, work.confidence, work.seed)
        return cross_fit.of_design(mechanism, independent(sample.counts, people, rng), people, asked)
    if checked.overlaps:
        return None
    seen = promise.as_designed(mechanism, sample.counts).table() / sample.counts.n
    ceiling = float(measures.mutual_information(seen))
    if mechanism.scores is not None:
        rows = independent(sample.matched, people, rng)
        channel = promise.telling(mechanism, promise.channel_for(mechanism, rows)[0])
        found = beyond.judge(rows, channel, rng, work.confidence, ceiling)
        return found.resting_on(people).of_classes(mechanism.scores)
    known: tuple[InformedBound, ...] = ()
    if agrees:  # what is proved of the mechanism holds for its release
        drawn = beyond.released(
            independent(sample.matched, people, rng).table(), promise.channel_of(mechanism, sample), rng
        )
        columns = columns_of(sample.counts.x_alphabet)
        known = informed_bounds(columns, drawn.triples, drawn.sy.shape, work.confidence)
    if people is None:
        return beyond.bounds(sample.sy, sample.xy, work.confidence, ceiling, known)
    one = people.take(people.one_each(rng))
    sy, xy = (one.table(a, one.y, (len(n), n.shape[1])) for a, n in ((one.s, sample.sy), (one.x, sample.xy)))
    return beyond.bounds(sy, xy, work.confidence, ceiling, known).resting_on(people)


def _informed(found: _Estimates, counts: Counts) -> tuple[Informed, ...]:
    """What attackers with knowledge learn, where the channel is known: released rows alone would overstate it."""
    if not found.agrees:
        return ()
    p_sx = found.original[0]
    return informed(counts.x_alphabet, p_sx, joint(1.0 / p_sx.sum(axis=0), found.kept))


def _disclosure(sample: Sample, found: _Estimates, work: Effort, rng: np.random.Generator) -> Information:
    """I(X;Y)."""
    return information(
        sample.xy,
        evidence.resampling(sample, "xy", work.bootstrap, rng),
        null=np.zeros(0),
        bias=found.bias.get(promise.DISCLOSURE),
        independent=sample.people is None,
    )


def _leakage(
    sample: Sample, found: _Estimates, permutations: int, rng: np.random.Generator
) -> dict[str, Information]:
    """I(attribute; Y) of each private attribute and of all together."""
    private = sample.counts.s_alphabet
    nulls = evidence.nulls(sample, permutations, rng) if sample.people is not None else None
    told = {}
    for name, (p, draws) in split(private, found.rows).items():
        table = p * sample.n
        told[name] = information(
            table,
            draws,
            null=permuted(table, permutations, rng) if nulls is None else nulls[name],
            bias=found.bias.get(name),
            independent=sample.people is None,
        )
    return told


def _persons(sample: Sample, work: Effort) -> Persons | None:
    """Whom the rows are about, and what adding them up brings."""
    if sample.people is None or not sample.people.column:
        return None
    private = sample.counts.private
    targets = {column.name: sample.counts.s_codes[:, j] for j, column in enumerate(private)}
    return persons_of(sample.people, targets, n_y=len(sample.y_alphabet), seed=work.seed)


def _further(
    sample: Sample, leakage: Mapping[str, Information], work: Effort, rng: np.random.Generator
) -> Further | None:
    """What the columns add that the file has besides the release."""
    file = sample.file(rng)
    if file is None:
        return None
    counts = sample.counts
    return further(
        file,
        counts.s_codes,
        counts.s_alphabet.names,
        released=list(leakage.values())[-1].corrected,
        attacker_rows=work.attacker_rows,
        rng=rng,
    )


def _order(released: object, order: Order | AnyPath | None) -> Order | None:
    """The order of the released rows, where it is known."""
    if isinstance(order, Order):
        return order
    if order is not None:
        return orders.load(order)
    if isinstance(released, str | os.PathLike):
        beside = orders.default_path(Path(released))
        return orders.load(beside) if beside.is_file() else None
    return None


class _Roles(NamedTuple):
    """Columns of the original by role, bins of both tables, and those of them that belong to the original."""

    private: tuple[str, ...]
    public: tuple[str, ...]
    bins: Mapping[str, Any]
    used: Mapping[str, Any]


def _roles(
    mechanism: Mechanism | None, private: Names, public: Names, bins: Mapping[str, Any] | None
) -> _Roles:
    if mechanism is not None and mechanism.weights is not None:
        raise InvalidInputError(
            f"the mechanism was designed for rows with weights ({mechanism.weights!r}), and released rows are counted "
            "one by one, so that neither its promise nor an interval would be about the people behind them: audit the "
            "original alone, without the released table"
        )
    if mechanism is not None:
        private, public, bins = mechanism.private_names, mechanism.public_names, mechanism.bins
    if private is None or public is None:
        raise InvalidInputError(
            "without a mechanism, name the private and the public columns of the original"
        )
    named = [(names,) if isinstance(names, str) else tuple(names) for names in (private, public)]
    given = bins or {}
    used = {name: rule for name, rule in given.items() if name in {*named[0], *named[1]}}
    return _Roles(named[0], named[1], given, used)


@dataclass(frozen=True)
class _Estimates:
    """Tables that the audit's numbers are taken from.

    Attributes:
        original: p(s, x) of the original.
        rows: Relative frequencies of (s, y) in the released rows.
        worst: p(s, y) for the worst case: the mechanism's own where the rows are its draws, exact for these rows;
            otherwise the rows'.
        kept: p(x, y) likewise.
        check: Whether they are, where there is a mechanism.
        bias: By how much the informations of the rows are expected to be too high, where that is known.
        labels: Of class symbols, where ``rows`` and ``worst`` are about these.
    """

    original: Resampled
    rows: Resampled
    worst: Resampled
    kept: Channel
    check: Draws | None = None
    bias: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether the rows look like draws of a mechanism that is known."""
        return self.check is not None and self.check.agrees


def _estimates(
    mechanism: Mechanism | None, counts: Counts, sample: Sample, bootstrap: int, rng: np.random.Generator
) -> _Estimates:
    p_sx = promise.as_designed(mechanism, counts).table() / counts.n
    drawn = evidence.resample(sample, "sx", bootstrap, rng)
    rows: Resampled = (sample.sy / sample.n, evidence.resample(sample, "sy", bootstrap, rng))
    p_xy = sample.xy / sample.n
    if mechanism is None:
        return _Estimates((p_sx, drawn), rows, rows, p_xy)
    check, bias = promise.draws(mechanism, sample, size=bootstrap, rng=rng)
    if not check.agrees:  # a mechanism says nothing about rows that it did not draw, nor about their bias
        return _Estimates((p_sx, drawn), rows, rows, p_xy, check)
    channel = promise.channel_of(mechanism, sample)
    exact, worst = joint(p_sx.sum(axis=0), channel), p_sx @ channel
    merge = _class_symbols(mechanism, sample)
    if merge is None:
        return _Estimates((p_sx, drawn), rows, (worst, ()), exact, check, bias)
    rows = (rows[0] @ merge, [each @ merge for each in rows[1]])
    kept = {promise.DISCLOSURE: bias[promise.DISCLOSURE]}
    labels = symbol_names(merge.shape[1])
    return _Estimates((p_sx, drawn), rows, (worst @ merge, ()), exact, check, kept, labels)


def _class_symbols(mechanism: Mechanism, sample: Sample) -> measures.Array | None:
    """Which class symbol each released one belongs to, 0-1 of shape (N, class symbols).

    None without score classes, and for records, which may belong to several.
    """
    y = sample.y_alphabet
    if mechanism.scores is None or isinstance(y, RecordAlphabet):
        return None
    of_y = mechanism.class_symbols[y.first] if isinstance(y, DecoyAlphabet) else mechanism.class_symbols
    return np.asarray(np.eye(int(mechanism.class_symbols.max()) + 1)[of_y])
