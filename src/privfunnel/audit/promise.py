"""Whether a mechanism keeps what it promises: on the table it was designed on, and in the rows it released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privfunnel import measures
from privfunnel.audit.alignment import Sample
from privfunnel.audit.estimates import TAIL, Interval, exact_information
from privfunnel.audit.guards import Guards, count_again
from privfunnel.audit.persons import PersonRows
from privfunnel.data.tables import Counts
from privfunnel.measures import INFORMATION, Array, Channel, Measure
from privfunnel.model.channels import is_sparse, joint
from privfunnel.release.checked_claims import AGREEMENT
from privfunnel.release.decoy_alphabet import DecoyAlphabet
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import RecordAlphabet
from privfunnel.release.sampler import Alias, Cumulative
from privfunnel.release.strata import Strata

#: Share of honest releases that may be taken for forged: rows less likely than this are not believed to be drawn.
ALARM = 0.005
LEAST_DRAWS = 199  # with fewer, no rows could be as unlikely as that
DISCLOSURE = "I(X;Y)"
MAX_DRAWS = 2e8  # symbols drawn in all for one comparison
BLOCK = 4_000_000  # symbols drawn at a time


@dataclass(frozen=True)
class Recount:
    """What the mechanism claims, and what counting the given table again gives for its channel; nats.

    Attributes:
        same_table: The table is the one the mechanism was designed on, category by category and count by count.
        claimed_disclosure: Promised I(X;Y); ``claimed_leakage`` the promised I(S;Y).
        disclosure: I(X;Y) recomputed from the table; ``leakage`` I(S;Y).
        new_rows: Rows whose public values were not seen at design time; they count as drawn from p(y).
        least_leakage: Lower end of the 95 % range of the leakage in the population, corrected for the bias of few
            rows; on another table than the design's, it allows for the chance in the rows of both.
        epsilon: ε of the noise in the counts of the design, which is then never the table's own; None without.
        overlaps: Rows of the table were used in the design, or may have been: all of them, all but those held out,
            those behind the noise, those without missing values, or those of a ledger; they prove nothing about the
            population.
        guarded_leakages: On the design table of a guarded mechanism: what it tells attackers by what they know.
        guaranteed: Likewise the value of each guarantee as it is written.
        measured: Likewise the leakages by the ``measure`` of the design, or about single private columns, where it was
            designed for those.
        measure: What ``measured`` is measured by.
        holds: On the design table: claims and recount agree, and guarantees are met. On another one: the claim is not
            below ``least_leakage``: chance alone, in tables of one population, breaks about one promise in forty.
    """

    same_table: bool
    claimed_disclosure: float
    claimed_leakage: float
    disclosure: float
    leakage: float
    new_rows: int
    least_leakage: float
    holds: bool
    epsilon: float | None = None
    overlaps: bool = False
    guarded_leakages: dict[str, float] = field(default_factory=dict)
    guaranteed: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    measure: Measure = INFORMATION


def channel_for(mechanism: Mechanism, counts: Counts) -> tuple[Channel, NDArray[np.bool_]]:
    """The mechanism's channel for the symbols of other counts, and which of them it does not know.

    Returns:
        p(y|x) of shape (M of the counts, N), with p(y) for unknown symbols, p(y|a) where columns are published, p(y|t)
        of their score class where the design has classes, and their mask; as dense as the channel.
    """
    places = mechanism.x_alphabet.places(counts.x_alphabet)
    new = places < 0
    if mechanism.scores is not None and not mechanism.published:
        classes = mechanism.scores.of_alphabet(counts.x_alphabet, mechanism.x_alphabet, places)
        at = np.where(new, len(mechanism.p_x) + classes, places)
        if mechanism.sparse:
            return sparse.vstack([mechanism.channel, mechanism.class_channel]).tocsr()[at], new
        return np.vstack([mechanism.channel, mechanism.class_channel])[at], new
    if mechanism.sparse:
        stacked = sparse.vstack([mechanism.channel, sparse.csr_array(mechanism.p_y[None, :])]).tocsr()
        return stacked[np.where(new, len(mechanism.p_x), places)], new
    silent = mechanism.p_y[None, :]
    if mechanism.published:
        strata = Strata.of(mechanism)
        silent = strata.drawn(mechanism, strata.locate(counts.x_alphabet))
    channel = np.where(new[:, None], silent, mechanism.channel[np.where(new, 0, places)])
    return np.asarray(channel, dtype=np.float64), new


def telling(mechanism: Mechanism, channel: Channel) -> Channel:
    """The channel by which leakage is counted on rows: p(y|x) or, of a design with score classes, of its class symbols.

    Symbols of such a design show single records, of which most occur once or twice: counts of them say nothing.
    """
    if mechanism.scores is None:
        return channel
    symbols = mechanism.class_symbols
    places = (np.ones(len(symbols)), (np.arange(len(symbols)), symbols))
    merged = channel @ sparse.csr_array(places, shape=(len(symbols), int(symbols.max()) + 1))
    return merged.toarray() if is_sparse(merged) else np.asarray(merged)


def as_designed(mechanism: Mechanism | None, counts: Counts) -> Counts:
    """The counts with the score classes of a mechanism, where it has any: p(s|x) is then that of the class."""
    if mechanism is None or mechanism.scores is None:
        return counts
    found = mechanism.scores.counted(counts.x_alphabet, mechanism.x_alphabet, counts.table())
    return replace(counts, scores=found)


def said(mechanism: Mechanism, counts: Counts, told: Channel) -> Array:
    """p(s, y) of a table for the channel of :func:`telling`: counted, or as the classes promise for their own table."""
    if _designed_on(mechanism, counts):
        counts = as_designed(mechanism, counts)
    return np.asarray(counts.table() / counts.n @ told)


def _designed_on(mechanism: Mechanism, counts: Counts) -> bool:
    return bool(mechanism.provenance.get("data") == counts.fingerprint)


def recount(
    mechanism: Mechanism, counts: Counts, drawn: Sequence[Array], people: PersonRows | None = None
) -> Recount:
    """Check the promise against a table.

    Args:
        mechanism: The mechanism.
        counts: Counts of the table.
        drawn: Tables p(s, x) of its rows, or persons, resampled.
        people: Whom the rows are about, where that is known.
    """
    channel, new = channel_for(mechanism, counts)
    p_sx = counts.table() / counts.n
    disclosure = float(measures.mutual_information(joint(p_sx.sum(axis=0), channel)))
    told = telling(mechanism, channel)
    found = exact_information(said(mechanism, counts, told), [draw @ told for draw in drawn])
    leakage = found.plug_in
    same = _designed_on(mechanism, counts)
    agree = max(abs(disclosure - mechanism.disclosure), abs(leakage - mechanism.leakage)) <= AGREEMENT
    # The claim was itself counted on a sample; the spread of a difference of two grows with the rows of both.
    design_rows, n = float(mechanism.provenance.get("rows", 0)), counts.n
    if people is not None and mechanism.pieces is not None:
        design_rows, n = float(mechanism.pieces), people.pieces
    widened = 1.0 if same or design_rows <= 0.0 else float(np.sqrt(1.0 + n / design_rows))
    least = max(found.corrected - widened * (found.corrected - found.low), 0.0)
    guards = count_again(mechanism, counts, channel) if same else Guards({}, {}, hold=True)
    return Recount(
        same_table=same,
        claimed_disclosure=mechanism.disclosure,
        claimed_leakage=mechanism.leakage,
        disclosure=disclosure,
        leakage=leakage,
        new_rows=int(counts.table()[:, new].sum()),
        least_leakage=least,
        holds=agree and guards.hold if same else least <= mechanism.leakage + AGREEMENT,
        epsilon=mechanism.epsilon,
        overlaps=same
        or mechanism.epsilon is not None
        or mechanism.follows
        is not None  # designed on the same rows, before what was released of them was a column
        or (mechanism.missing == "drop" and counts.missing == "category")
        or mechanism.provenance.get("part_of") == counts.fingerprint,
        guarded_leakages=guards.leakages,
        guaranteed=guards.guaranteed,
        measured=dict(guards.measured),
        measure=guards.measure,
    )


@dataclass(frozen=True)
class Draws:
    """Whether released rows look as if this mechanism had drawn them.

    Attributes:
        leakage: Plug-in I(S;Y) of the released rows, with the 95 % range of what fresh draws for the same rows give.
        disclosure: The same for I(X;Y).
        impossible: Rows whose released symbol has probability 0 given their public values.
        misfit: Σ counts · log(frequency / p(y|x)) of the rows, with its 95 % range under the mechanism.
        surprise: The largest distance of the three from their means over this release and fresh draws, in standard
            deviations.
        p_value: Share of releases, this one and the fresh draws, whose surprise is at least this one's.
        agrees: Nothing impossible was released and the p-value is above 0.005: an honest release fails by chance at
            most once in 200 times. One honest release in ten leaves some 95 % range.
    """

    leakage: Interval
    disclosure: Interval
    impossible: int
    misfit: Interval
    surprise: float
    p_value: float
    agrees: bool


def draws(
    mechanism: Mechanism, sample: Sample, *, size: int, rng: np.random.Generator
) -> tuple[Draws, dict[str, float]]:
    """Compare released rows with fresh draws of the mechanism for the original rows they are matched with.

    A release of records holds x' drawn from p(x'|y); it is compared through the channel Σ_y p(y|x) p(x'|y).

    Returns:
        The comparison, and by how much the plug-in informations of fresh draws exceed what the mechanism promises: by
        name of the private attribute, and under ``DISCLOSURE`` for I(X;Y).
    """
    channel = channel_of(mechanism, sample)
    counts = sample.matched
    impossible = int(_impossible(sample.xy, channel))
    observed = _statistics(sample.sy, sample.xy, channel)
    drawn, told = [], []
    for sy, xy in _redrawn(sample, channel, size, rng):
        drawn.append(_statistics(sy, xy, channel))
        told.append(_informations(counts, sy / counts.n, xy / counts.n))
    found = []
    for value, sampled in zip(observed, np.array(drawn).T, strict=True):
        low, high = np.quantile(sampled, [TAIL, 1.0 - TAIL])
        found.append(Interval(value, float(low), float(high)))
    surprise, p_value = _surprise(np.array([observed, *drawn]))
    agrees = impossible == 0 and p_value > ALARM
    p_sx = as_designed(mechanism, counts).table() / counts.n
    promised = _informations(counts, p_sx @ channel, joint(p_sx.sum(axis=0), channel))
    bias = {name: float(np.mean([each[name] for each in told])) - value for name, value in promised.items()}
    return Draws(found[0], found[1], impossible, found[2], surprise, p_value, agrees), bias


def _surprise(statistics: Array) -> tuple[float, float]:
    """How far the first row of statistics is from the others, and the Monte Carlo p-value (1 + k) / (1 + n).

    All rows, the first one too, are measured from the mean of all: if the first is a draw like the others, its place
    among them is uniform, whatever the law of the statistics.
    """
    away = np.abs(statistics - statistics.mean(axis=0))
    # A statistic that cannot vary (a deterministic channel) may still differ by rounding.
    away[away <= 1e-9 * np.maximum(np.abs(statistics), 1.0)] = 0.0
    scale = statistics.std(axis=0)
    distance = np.divide(away, scale, out=np.zeros_like(away), where=away > 0.0).max(axis=1)
    at_least = int((distance[1:] >= distance[0] * (1.0 - 1e-9)).sum())
    return float(distance[0]), (1 + at_least) / len(distance)


def _redrawn(
    sample: Sample, channel: Array, size: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """Tables (s, y) and (x, y) of the rows released anew, once for a person where they were."""
    people = sample.people
    if people is None or not people.column or not people.drawn_once:
        return fresh(sample.matched, channel, size, rng)
    times = max(LEAST_DRAWS, min(size, int(MAX_DRAWS / people.n)))
    return people.fresh(channel, sample.counts.n_s, times, rng)


def fresh(
    counts: Counts, channel: Channel, size: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Channel]]:
    """Tables (s, y) and (x, y) of rows released anew, row by row or cell by cell, whichever is less work.

    Huge tables are drawn fewer times; a comparison that could never raise an alarm would be none, so never fewer
    than ``LEAST_DRAWS``.
    """
    n_y = channel.shape[1]
    if is_sparse(channel):
        yield from _fresh_entries(counts, channel, size, rng)
        return
    by_row, by_cell = counts.n, len(counts.cell_n) * n_y
    alias = Alias(channel) if by_row < by_cell else None
    for _ in range(max(LEAST_DRAWS, min(size, int(MAX_DRAWS / min(by_row, by_cell))))):
        sy, xy = np.zeros((counts.n_s, n_y)), np.zeros((counts.n_x, n_y))
        for part in _blocks(counts.cell_n if alias is not None else np.full(len(counts.cell_n), n_y)):
            s, x, n = counts.cell_s[part], counts.cell_x[part], counts.cell_n[part]
            if alias is None:
                y = rng.multinomial(n, channel[x])
                np.add.at(sy, s, y)
                np.add.at(xy, x, y)
            else:
                rows_s, rows_x = np.repeat(s, n), np.repeat(x, n)
                y = alias.draw(rows_x, rng.random(len(rows_x)))
                sy += np.bincount(rows_s * n_y + y, minlength=sy.size).reshape(sy.shape)
                xy += np.bincount(rows_x * n_y + y, minlength=xy.size).reshape(xy.shape)
        yield sy, xy


def _fresh_entries(
    counts: Counts, channel: Channel, size: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Channel]]:
    """The same for a sparse channel, row by row; the tables (x, y) have its entries."""
    drawer, n_y = Cumulative(channel), channel.shape[1]
    for _ in range(max(LEAST_DRAWS, min(size, int(MAX_DRAWS / counts.n)))):
        sy, entries = np.zeros(counts.n_s * n_y), np.zeros(len(channel.data))
        for part in _blocks(counts.cell_n):
            s, x = (np.repeat(cell[part], counts.cell_n[part]) for cell in (counts.cell_s, counts.cell_x))
            drawn = drawer.entries(x, rng.random(len(x)))
            sy += np.bincount(s * n_y + drawer.outcome[drawn], minlength=sy.size)
            entries += np.bincount(drawn, minlength=entries.size)
        table = sparse.csr_array((entries, channel.indices, channel.indptr), shape=channel.shape)
        yield sy.reshape(counts.n_s, n_y), table


def _blocks(work: NDArray[np.int64]) -> Iterator[slice]:
    """Consecutive cells whose work together stays near a bound on memory."""
    block = np.cumsum(work) // BLOCK
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(work)]
    for start, end in pairwise(edges):
        yield slice(start, end)


def _informations(counts: Counts, p_sy: Array, p_xy: Channel) -> dict[str, float]:
    tables = {**counts.s_alphabet.collapse(p_sy), DISCLOSURE: p_xy}
    return {name: float(measures.mutual_information(table)) for name, table in tables.items()}


def channel_of(mechanism: Mechanism, sample: Sample) -> Channel:
    """The channel from the symbols of the original to those of the release, of symbols or of records."""
    channel, _ = channel_for(mechanism, sample.counts)
    if isinstance(sample.y_alphabet, RecordAlphabet | DecoyAlphabet):
        channel = channel @ sample.y_alphabet.given_y(mechanism)
    if is_sparse(channel):
        rows = sparse.csr_array(channel.multiply(1.0 / channel.sum(axis=1)[:, None]))
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows
    return np.asarray(channel / channel.sum(axis=1, keepdims=True))


def _impossible(xy: Channel, channel: Channel) -> float:
    """Rows whose released symbol has probability 0."""
    if is_sparse(channel):
        n, _, p = _probabilities(xy, channel)
        return float(n[p <= 0.0].sum())
    return float(xy[channel <= 0.0].sum())


def _probabilities(xy: Channel, channel: Channel) -> tuple[Array, Array, Array]:
    """Rows of each pair of a sparse table, rows of its x, and p(y|x)."""
    entries = xy.tocoo()
    x, y = entries.coords
    p = channel.data if xy.indices is channel.indices else np.asarray(channel[x, y])
    return entries.data, np.asarray(xy.sum(axis=1))[x], p


def _statistics(sy: Array, xy: Channel, channel: Channel) -> tuple[float, float, float]:
    if is_sparse(channel):
        table, of_x, p = _probabilities(xy, channel)
        expected = of_x * p
    else:
        table, expected = xy, xy.sum(axis=1, keepdims=True) * channel
    possible = (table > 0.0) & (expected > 0.0)
    misfit = float(np.sum(table[possible] * np.log(table[possible] / expected[possible])))
    n = sy.sum()
    return float(measures.mutual_information(sy / n)), float(measures.mutual_information(xy / n)), misfit
