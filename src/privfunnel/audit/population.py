"""What rows that a mechanism was not designed on prove about the population they come from, put together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.audit.estimates import Interval, plain
from privfunnel.audit.informed import InformedBound, Triples, columns_of, informed_bounds
from privfunnel.audit.pairs import Pairs
from privfunnel.audit.persons import PersonRows
from privfunnel.data.population.bounds import (
    guaranteed_outputs,
    population_bound,
    population_guessing,
    population_lift,
    population_lower_bound,
)
from privfunnel.data.score_classes import ScoreClasses
from privfunnel.data.tables import Counts
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, Channel
from privfunnel.model.amounts import amount, spoken_unit, told
from privfunnel.model.attackers import Columns
from privfunnel.model.channels import is_sparse
from privfunnel.release.sampler import Cumulative

#: Entries of the table (x, y) up to which a lower bound of the disclosure is computed.
LARGEST = 50_000
#: Outputs can be guaranteed if the release provably leaks less than this share of I(S;X).
WORTHWHILE = 0.5


@dataclass(frozen=True)
class Population:
    """Bounds for the population that held-out rows come from; nats. Each holds with the stated confidence.

    Attributes:
        rows: Held-out rows; ``outputs`` the number of released symbols.
        confidence: Of each statement.
        leakage: I(S;Y): of the rows as they were released (of cross-fitted designs, an estimate), and between which
            ends that of the population lies.
        disclosure: I(X;Y): of the rows, and its ends; None where the table is too large to bound it.
        lift: The largest log p(s|y)/p(s) is at most this; infinite where nothing is proved.
        guess: The best guess of all private columns together is right at most so often.
        guaranteed: So many outputs can be guaranteed to leak less than ``target``, half of I(S;X).
        promised: I(S;Y) of the design rows, where the bounds are of designs made for them.
        worst_case: I(S;Y) of the mechanism itself, designed on all rows, is at most this: a bound for every channel at
            once (:func:`~privfunnel.audit.population_worst_case`); None where it was not asked for.
        worst_lift: Its largest log p(s|y)/p(s) is at most this, likewise
            (:func:`~privfunnel.audit.population_worst_lift`).
        designs: 1 for bounds of one mechanism; of more designs they are averages, see :mod:`.cross_fit`.
        persons: Whether the rows are one of each person; ``clusters`` whether they are one of each cluster.
        weighted: Whether they were kept in proportion to their weights.
        largest_lift: The largest log 1/p(s) of the rows, which no lift exceeds: a bound above it says nothing.
        informed: What attackers who know public columns learn, at most, all of them at once; the largest first. Nothing
            where the public symbols have no columns.
        classes: The number of score classes of the design, where it has any: the bounds are then of the class symbol.
    """

    rows: int
    outputs: int
    confidence: float
    leakage: Interval
    disclosure: Interval | None
    lift: float
    guess: float
    guaranteed: int
    target: float
    promised: float | None = None
    worst_case: float | None = None
    worst_lift: float | None = None
    designs: int = 1
    persons: bool = False
    clusters: bool = False
    weighted: bool = False
    largest_lift: float = math.inf
    informed: tuple[InformedBound, ...] = ()
    classes: int | None = None

    @property
    def proves_little(self) -> bool:
        """Whether the rows are too few to prove even that less leaks than the public columns hold."""
        return self.leakage.high >= self.target / WORTHWHILE

    def resting_on(self, people: PersonRows | None) -> Population:
        """The same where the rows are one of each of these persons or clusters, or kept by their weights."""
        if people is None:
            return self
        clusters = people.cluster is not None
        persons, weighted = bool(people.column) and not clusters, people.weight is not None
        return dataclasses.replace(self, persons=persons, clusters=clusters, weighted=weighted)

    def of_classes(self, scores: ScoreClasses | None) -> Population:
        """The same where what was released is the class symbol of a design with score classes."""
        return self if scores is None else dataclasses.replace(self, classes=scores.n_classes)

    def words(self) -> list[str]:
        """The bounds as sentences."""
        return words(self)

    def to_dict(self) -> Document:
        """JSON-ready, in nats; infinite numbers as the text ``"inf"``."""
        return {"units": "nats", "words": self.words(), **plain(dataclasses.asdict(self))}


class Released(NamedTuple):
    """Rows as they were released: by (s, y), shape (K, N), by (x, y), shape (M, N), and by all three."""

    sy: Array
    xy: Channel
    triples: Triples


def bounds(
    sy: Array,
    xy: Channel,
    confidence: float,
    leakage_ceiling: float,
    informed: tuple[InformedBound, ...] = (),
) -> Population:
    """Bound what a mechanism does in the population, from rows that it was not designed on.

    Args:
        sy: Rows by (s, y), shape (K, N), with every symbol that can be released.
        xy: Rows by (x, y), shape (M, N), dense or sparse.
        confidence: For example 0.95.
        leakage_ceiling: I(S;X), in nats.
        informed: What such rows prove about attackers who know something.
    """
    n, two_sided = float(sy.sum()), 0.5 * (1.0 + confidence)
    high = population_bound(sy, two_sided).upper
    low = min(population_lower_bound(sy, two_sided).lower, high)
    found = None
    if xy.shape[0] * xy.shape[1] <= LARGEST:
        least = population_lower_bound(xy, confidence)
        found = Interval(max(least.plug_in, least.lower), least.lower, least.upper)
    target, p_s = WORTHWHILE * leakage_ceiling, sy.sum(axis=1) / n
    return Population(
        rows=int(n),
        outputs=sy.shape[1],
        confidence=confidence,
        leakage=Interval(min(max(float(measures.mutual_information(sy / n)), low), high), low, high),
        disclosure=found,
        lift=population_lift(sy, confidence),
        guess=population_guessing(sy, confidence).after,
        guaranteed=guaranteed_outputs(int(n), target, p_s=p_s, confidence=confidence),
        target=target,
        largest_lift=float(-measures.safe_log(p_s[p_s > 0.0]).min()),
        informed=informed,
    )


def judge(
    counts: Counts,
    channel: Channel,
    rng: np.random.Generator,
    confidence: float,
    leakage_ceiling: float,
    whole: Counts | None = None,
) -> Population:
    """Release rows that a mechanism was not designed on once, and bound what it does in the population.

    Args:
        counts: These rows.
        channel: p(y|x), shape (M, N).
        rng: Draws the release.
        confidence: Of each bound.
        leakage_ceiling: I(S;X), in nats.
        whole: The table that they are a part of, with all the values that public columns have; ``counts`` by default.
    """
    drawn, all_symbols = released(counts.table(), channel, rng), (whole or counts).x_alphabet
    places = all_symbols.places(counts.x_alphabet)
    drawn = drawn._replace(triples=drawn.triples._replace(x=places[drawn.triples.x]))
    return of_released(drawn, columns_of(all_symbols), confidence, leakage_ceiling)


def of_released(drawn: Released, columns: Columns, confidence: float, leakage_ceiling: float) -> Population:
    """Bound what a mechanism does in the population from rows that it released, and whose public columns are known."""
    known = informed_bounds(columns, drawn.triples, drawn.sy.shape, confidence) if columns else ()
    return bounds(drawn.sy, drawn.xy, confidence, leakage_ceiling, known)


def estimate(table: Array, channel: Channel) -> float:
    """I(S;Y) in the population, from rows that had no part in the design, corrected for chance: no bound; nats.

    Args:
        table: Counts, shape (K, M).
        channel: p(y|x), shape (M, N).
    """
    n = float(table.sum())
    p_sx = table / n
    return float(measures.mutual_information(p_sx @ channel)) - measures.released_bias(p_sx, channel, n)


def released(
    table: Array, channel: Channel, rng: np.random.Generator, row: NDArray[np.intp] | None = None
) -> Released:
    """Rows of a table of counts (K, M), released once.

    Args:
        table: The counts.
        channel: p(y|x), shape (M, N), dense or sparse.
        rng: Draws the release.
        row: The row of a sparse channel that each symbol is drawn from, shape (M,); its own by default.
    """
    n_y = channel.shape[1]
    cells = np.argwhere(table > 0.0)
    if is_sparse(channel):
        s_rows, x_rows = np.repeat(cells, table[table > 0.0].astype(np.int64), axis=0).T
        own = x_rows if row is None else row[x_rows]
        y_rows = Cumulative(channel).draw(own, rng.random(len(x_rows)))
        pairs = Pairs(table.shape[1], n_y)
        pairs.add(x_rows, y_rows)
        counted = np.bincount(s_rows * n_y + y_rows, minlength=table.shape[0] * n_y)
        sy = counted.astype(np.float64).reshape(table.shape[0], n_y)
        return Released(
            sy, pairs.table(), Triples(s_rows, x_rows, y_rows, np.ones(len(s_rows), dtype=np.int64))
        )
    sy, xy = np.zeros((table.shape[0], n_y)), np.zeros((table.shape[1], n_y))
    entries = []
    for s, x in cells:
        y = rng.multinomial(int(table[s, x]), np.clip(channel[x], 0.0, 1.0))  # 1 may have been rounded up
        sy[s] += y
        xy[x] += y
        some = np.flatnonzero(y)
        entries.append(np.stack([np.full(len(some), s), np.full(len(some), x), some, y[some]]))
    return Released(sy, xy, Triples(*np.concatenate(entries, axis=1)))


class Judged(NamedTuple):
    """A design that rows had no part in: what they prove, what they estimate, and what its own rows were promised."""

    population: Population
    estimated: float
    promised: float


def average(found: Sequence[Judged], confidence: float, further: Sequence[float] = ()) -> Population:
    """The averages of what was found for several designs; ``further`` estimates, in nats, make theirs steadier."""
    each = [design.population for design in found]
    kept = [population.disclosure for population in each if population.disclosure is not None]
    proved = _mean([population.leakage for population in each])
    estimated = float(np.mean([*(design.estimated for design in found), *further]))
    return Population(
        rows=sum(population.rows for population in each),
        outputs=max(population.outputs for population in each),
        confidence=confidence,
        leakage=dataclasses.replace(proved, value=min(max(estimated, proved.low), proved.high)),
        disclosure=_mean(kept) if len(kept) == len(each) else None,
        lift=max(population.lift for population in each),
        guess=float(np.mean([population.guess for population in each])),
        guaranteed=min(population.guaranteed for population in each),
        target=each[0].target,
        promised=float(np.mean([design.promised for design in found])),
        designs=len(each),
        largest_lift=max(population.largest_lift for population in each),
        informed=_mean_informed([population.informed for population in each]),
    )


def _mean_informed(found: Sequence[tuple[InformedBound, ...]]) -> tuple[InformedBound, ...]:
    """The averages of the attackers' bounds, by what they know."""
    by_name: dict[str, list[InformedBound]] = {}
    for each in (bound for design in found for bound in design):
        by_name.setdefault(each.columns, []).append(each)
    means = (
        dataclasses.replace(some[0], upper=float(np.mean([each.upper for each in some])))
        for some in by_name.values()
    )
    return tuple(sorted(means, key=lambda each: -each.upper))


def _mean(found: Sequence[Interval]) -> Interval:
    value, low, high = np.mean([(each.value, each.low, each.high) for each in found], axis=0).tolist()
    return Interval(value, low, high)


def words(found: Population) -> list[str]:
    """The bounds as sentences."""
    if found.designs > 1:
        return [_cross_fitted(found), *_classes(found), *_this_one(found), *_informed(found), _outputs(found)]
    sure = f"with {100 * found.confidence:g} % confidence"
    return [
        f"In the population that these {found.rows:,} {_pieces(found, alone=True)} come from, {sure}, the release "
        f"leaks {_leaks(found)}{_kept(found)}; {_lift(found)}; the best guess is right at most "
        f"{100 * found.guess:.1f} % of the time.",
        *_classes(found),
        *_informed(found),
        _outputs(found),
    ]


def _classes(found: Population) -> list[str]:
    """What bounds of class symbols are about."""
    if found.classes is None:
        return []
    return [
        f"This is about the symbol of the {found.classes} score classes. Records and decoys show members of them, and "
        "tell more as far as members of one class differ, which the trained attackers of an audit of the released "
        "file look for; a new row is released as a member of its class is."
    ]


def _pieces(found: Population, *, alone: bool = False) -> str:
    """What the bounds rest on; where that is said first, ``alone``, also that it was chosen by weights."""
    what = "clusters" if found.clusters else "persons" if found.persons else "rows"
    return f"{what}, kept in proportion to their weights," if found.weighted and alone else what


def _vacuous(nats: float) -> bool:
    """Whether a lower bound says no more than that information is never negative, as it is told."""
    return amount(nats) == amount(0.0)


def _leaks(found: Population) -> str:
    """The bounds of the leakage; of a lower one that says nothing, that it does."""
    most = f"at most {told(found.leakage.high)}"
    if _vacuous(found.leakage.low):
        return f"{most}; from below these {_pieces(found)} prove no bound"
    return f"{most} and at least {amount(found.leakage.low)}"


def _kept(found: Population) -> str:
    if found.disclosure is None:
        return ""
    if _vacuous(found.disclosure.low):
        return f"; what it keeps of the public columns these {_pieces(found)} do not prove"
    return f"; it keeps at least {told(found.disclosure.low)} of the public columns"


def _lift(found: Population) -> str:
    if found.lift < found.largest_lift:
        return f"no private value becomes more than {math.exp(found.lift):.2f} times as likely"
    if math.isinf(found.largest_lift):
        return "no limit of a lift is proved"
    return f"no limit of a lift is proved below {math.exp(found.largest_lift):.2f}, the largest possible"


def _cross_fitted(found: Population) -> str:
    """What designs like this one do to people like these."""
    share = f"{found.designs - 1} of {found.designs} parts" if found.designs > 2 else "one half"
    start = (
        f"For people like these: designed again on {share} of the {found.rows:,} {_pieces(found, alone=True)} and "
        f"released for the other, in turn, it leaks an estimated {told(found.leakage.value)}"
    )
    sure = f"with {100 * found.confidence:g} % confidence"
    if found.proves_little:
        return (
            f"{start}. The {_pieces(found)} are too few to prove anything about the population: {sure} not "
            f"even that less leaks than the {told(found.target / WORTHWHILE)} that the public columns themselves tell "
            "of these rows."
        )
    return (
        f"{start}; in the population, {sure}, {_leaks(found)}; the best guess is right at most "
        f"{100 * found.guess:.1f} % of the time. A design on all rows, which none is left to judge, is made from more "
        "rows."
    )


def _this_one(found: Population) -> list[str]:
    """What is proved of the mechanism itself, where that is something."""
    proved = []
    if found.worst_case is not None and found.worst_case < found.target / WORTHWHILE:
        proved.append(f"leaks at most {told(found.worst_case)} in the population")
    if found.worst_lift is not None and found.worst_lift < found.largest_lift:
        proved.append(
            f"makes no private value more than {math.exp(found.worst_lift):.2f} times as likely there"
        )
    if not proved:
        return []
    return [
        f"This very mechanism, designed on all rows, {' and '.join(proved)}, each with {100 * found.confidence:g} % "
        "confidence, if its columns have no other values there: bounds for every mechanism at once."
    ]


def provable_attackers(found: Population) -> tuple[list[InformedBound], str]:
    """Attackers of whom something is proved, and how many columns they know; nothing where it is of few of them.

    Something is less than what the public columns tell together. Attackers with one column are named one by one where
    it is not proved of all.
    """
    if found.proves_little:
        return [], ""
    proved = [each for each in found.informed if each.upper < found.target / WORTHWHILE]
    single = [each for each in proved if each.known == 1]
    if proved and len(proved) == len(found.informed):
        return proved, "one or two" if len(single) < len(proved) else "one"
    if len(single) == sum(each.known == 1 for each in found.informed):
        return single, "one" if single else ""
    return single, ""


def _informed(found: Population) -> list[str]:
    """What is proved of attackers who know public columns, where that is something."""
    proved, how_many = provable_attackers(found)
    if not proved:
        return []
    sure = f"with {100 * found.confidence:g} % confidence for all such attackers at once"
    only = "if the columns have no other values there"
    if not how_many:
        # Attackers who are named in a sentence.
        listed = ", ".join(f"{each.columns} {amount(each.upper)}" for each in proved[:4])
        return [
            f"Who knows a public column already learns in the population, {sure}, at most ({spoken_unit()}): {listed}, "
            f"{only}; of those who know another one these {_pieces(found)} prove nothing."
        ]
    what = "column" if how_many == "one" else "columns"
    return [
        f"Who knows {how_many} public {what} already learns at most {told(proved[0].upper)} in the population, {sure}, "
        f"{only}; the largest bound is that of who knows {proved[0].columns}."
    ]


def _outputs(found: Population) -> str:
    most = (
        "no release of more than one output"
        if found.guaranteed == 1
        else f"at most {found.guaranteed} outputs"
    )
    one = found.designs == 1
    has = "this release has" if one else "these designs have up to"
    # Parts that all judge share the error, so that they guarantee less than a single part does.
    how = (
        f"With these {_pieces(found)}"
        if one
        else f"Where {found.designs} parts judge in turn, all of them at once,"
    )
    return (
        f"{how} {most} can be guaranteed to leak less than {told(found.target)}, half "
        f"of what the public columns hold; {has} {found.outputs} outputs."
    )
