"""From the rows at hand to the population they come from: bounds that hold with a stated confidence.

All functions take counts of *held-out* rows: rows drawn from the population, independently of each other and of the
design of the mechanism that released them. Nothing is plugged in; the confidence is that of the whole statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privfunnel import measures
from privfunnel.data.population import ball, confidence_limits, tilting
from privfunnel.data.population.intervals import (
    ROUNDING,
    binary_divergence,
    checked_confidence,
    checked_counts,
    clopper_pearson,
    divergence_radius,
)
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array

#: Share of the error probability that each method has when the smallest of their bounds is reported.
SHARES = {"tilting": 0.8, "intervals": 0.1, "ball": 0.1}
#: Of the error probability of tilting: for its main step; for D(p̂_s‖p_s); for the least p(s).
STEPS = (0.7, 0.25, 0.05)
#: A private symbol expected in fewer rows than this may be merged with another in the proof, at a price.
RARE_ROWS = 4.0


@dataclass(frozen=True)
class PopulationBound:
    """What held-out rows prove about an information in the population, nats.

    Attributes:
        lower: With probability ``confidence`` the true value is at least ``lower`` and at most ``upper``. One of the
            two is what was asked for, the other is trivial: 0, or log min(K, N).
        upper: See ``lower``.
        plug_in: The value of the counts themselves; no bound of anything.
        method: The method that gave the bound.
        n: Rows.
        outputs: Symbols counted, seen or not.
        confidence: Of the bound.
    """

    lower: float
    upper: float
    plug_in: float
    method: str
    n: int
    outputs: int
    confidence: float


def population_bound(
    counts_sy: ArrayLike, confidence: float = 0.95, *, method: str = "best"
) -> PopulationBound:
    """An upper bound of I(S;Y) in the population, or of I(S;Y|A) for an attacker who knows A.

    With probability at least ``confidence`` over the rows, the true value is at most ``upper``. Methods:

    * ``"intervals"``: exact intervals of all p(s|y) and p(y) at once, and the largest Σ_y p(y) D(p(s|y)‖q) within
      them, which is at least I(S;Y) for any q;
    * ``"ball"``: the largest I(S;Y) over {p : D(p̂‖p) ≤ ε} (:mod:`privfunnel.data.population.ball`), with Agrawal's ε;
    * ``"tilting"``: a lower tail of the plug-in (:mod:`privfunnel.data.population.tilting`), the sharpest for most
      tables;
    * ``"best"``: the smallest of them, each at its share of the error probability (``SHARES``).

    Args:
        counts_sy: Held-out rows, shape (K, N), private symbols down and *all* released symbols across, also those
            that no row has; or (K, N, A) with what the attacker knows.
        confidence: For example 0.95.
        method: One of the above.

    Raises:
        InvalidInputError: The counts or the confidence cannot be used, or there is no such method.
    """
    table, miss = checked_counts(counts_sy), checked_confidence(confidence)
    counts = table if table.ndim == 3 else table[:, :, None]
    if method == "best":
        shares = SHARES
    elif method in _METHODS:
        shares = {method: 1.0}
    else:
        raise InvalidInputError(f"there is no method {method!r}: choose best, {', '.join(_METHODS)}")
    ceiling, plug_in = math.log(min(counts.shape[:2])), _plug_in(counts)
    found: dict[str, float] = {}
    for name, share in shares.items():
        # A method may be left out whenever it cannot win; the ball never stays so close to the plug-in.
        radius = divergence_radius(counts.size - 1, share * miss) / counts.sum()
        if name != "ball" or min(found.values(), default=math.inf) > plug_in + radius / 2.0:
            found[name] = min(float(_METHODS[name](counts, share * miss)), ceiling)
    name = min(found, key=lambda each: found[each])
    return PopulationBound(
        lower=0.0,
        upper=found[name],
        plug_in=plug_in,
        method=name,
        n=int(counts.sum()),
        outputs=counts.shape[1],
        confidence=confidence,
    )


def population_worst_case(
    counts_sx: ArrayLike, channel: Array, confidence: float = 0.95, *, cells: int | None = None
) -> PopulationBound:
    """An upper bound of I(S;Y) in the population that holds for every channel at once, also one designed on these rows.

    With probability at least ``confidence``, D(p̂(s,x)‖p(s,x)) is at most Agrawal's radius; no channel makes it larger,
    so p(s,y) of *every* channel lies in the ball of that radius around its p̂(s,y), and the largest I(S;Y) there is a
    bound. Nothing needs to be held out; the price is a ball of K·M − 1 dimensions instead of K·N − 1.

    Args:
        counts_sx: Rows, shape (K, M).
        channel: p(y|x), shape (M, N).
        confidence: For example 0.95.
        cells: How many pairs (s, x) there can be, seen or not; those of the table by default.

    Raises:
        InvalidInputError: The counts or the confidence cannot be used.
    """
    counts, miss = checked_counts(counts_sx, axes=(2,)), checked_confidence(confidence)
    released = np.asarray(counts @ channel, dtype=np.float64)
    radius = divergence_radius(max(cells or 0, counts.size) - 1, miss)
    upper = ball.largest_information(released[:, :, None], radius) * (1.0 + ROUNDING)
    return PopulationBound(
        lower=0.0,
        upper=min(upper, math.log(min(released.shape))),
        plug_in=float(measures.mutual_information(released / released.sum())),
        method="every channel",
        n=int(counts.sum()),
        outputs=released.shape[1],
        confidence=confidence,
    )


def population_lower_bound(counts_uy: ArrayLike, confidence: float = 0.95) -> PopulationBound:
    """A lower bound of I(U;Y) in the population: what the release keeps of U, the public data or a task.

    With probability at least ``confidence`` the true value is at least ``lower``: the larger of an upper tail of the
    plug-in (:mod:`privfunnel.data.population.tilting`) and the least value over a divergence ball
    (:mod:`privfunnel.data.population.ball`), each at half the error probability.

    Args:
        counts_uy: Held-out rows, shape (K, N).
        confidence: For example 0.95.

    Raises:
        InvalidInputError: The counts or the confidence cannot be used.
    """
    counts, miss = checked_counts(counts_uy, axes=(2,)), checked_confidence(confidence)
    n = counts.sum()
    radius = divergence_radius(counts.size - 1, miss / 2.0)
    found = {
        "tilting": tilted_lower_bound(counts, miss / 2.0),
        "ball": ball.least_information(counts, radius),
    }
    name = max(found, key=lambda each: found[each])
    return PopulationBound(
        lower=found[name],
        upper=math.log(min(counts.shape)),
        plug_in=float(measures.mutual_information(counts / n)),
        method=name,
        n=int(n),
        outputs=counts.shape[1],
        confidence=confidence,
    )


def population_lift(counts_sy: ArrayLike, confidence: float = 0.95) -> float:
    """An upper bound of the largest ``log p(s|y)/p(s)`` in the population, nats; infinite where nothing is known.

    Every lift is p(s|y)/p(s) and p(y|s)/p(y); both are bounded by exact limits of their parts, all at once. A symbol s
    and an output y that no row has leave the lift unbounded: such outputs should not be released.

    Args:
        counts_sy: Held-out rows, shape (K, N).
        confidence: For example 0.95.

    Raises:
        InvalidInputError: The counts or the confidence cannot be used.
    """
    counts, miss = checked_counts(counts_sy, axes=(2,)), checked_confidence(confidence)
    if min(counts.shape) == 1:
        return 0.0
    n, n_s, n_y = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    tail = miss / (2 * counts.size + len(n_s) + len(n_y))
    low_s, low_y = (clopper_pearson(margin, n, tail)[0] for margin in (n_s, n_y))
    s_given_y = clopper_pearson(counts, n_y, tail)[1]
    y_given_s = clopper_pearson(counts, n_s[:, None], tail)[1]
    with np.errstate(divide="ignore"):
        lifts = np.minimum(s_given_y / low_s[:, None], y_given_s / low_y)
        return float(np.log(lifts.max())) * (1.0 + ROUNDING)


@dataclass(frozen=True)
class GuessingBound:
    """How often the best guess of S is right in the population, as far as rows prove it.

    Attributes:
        before: At least so often without the release.
        after: At most so often with it.
        gain: At most ``after − before`` more often.
        confidence: Of all three together.
    """

    before: float
    after: float
    gain: float
    confidence: float


def population_guessing(counts_sy: ArrayLike, confidence: float = 0.95) -> GuessingBound:
    """Bounds of the best guess of S without and with the release.

    The best rule of the population is right in a binomial number of rows, and no rule is right in more rows than the
    best one for these rows; so the exact upper limit of Σ_y max_s n_sy is one of Σ_y max_s p(s, y), with no count of
    the rules.

    Args:
        counts_sy: Held-out rows, shape (K, N).
        confidence: For example 0.95.

    Raises:
        InvalidInputError: The counts or the confidence cannot be used.
    """
    counts, miss = checked_counts(counts_sy, axes=(2,)), checked_confidence(confidence)
    n = counts.sum()
    after = float(clopper_pearson(counts.max(axis=0).sum(), n, miss / 2.0)[1])
    lows = clopper_pearson(counts.sum(axis=1), n, miss / 2.0 / len(counts))[0]
    before = max(float(lows.max()), 1.0 / len(counts))
    return GuessingBound(before, max(after, before), max(after - before, 0.0), confidence)


def guaranteed_outputs(
    n: int, target: float, *, p_s: ArrayLike = (0.5, 0.5), confidence: float = 0.95, most: int = 10_000
) -> int:
    """How many outputs can be guaranteed: the most for which n held-out rows typically prove I(S;Y) ≤ target.

    *Typically* is for a release that says nothing about S, whose plug-in is (K − 1)(N − 1)/(2n) on average; of a
    release that leaks, fewer. One output is always guaranteed, as it says nothing.

    Args:
        n: Held-out rows.
        target: The leakage that must not be exceeded, nats.
        p_s: Shares of the private symbols.
        confidence: For example 0.95.
        most: Where to stop.

    Raises:
        InvalidInputError: n is not positive or ``p_s`` no distribution.
    """
    checked_confidence(confidence)
    shares = np.asarray(p_s, dtype=np.float64)
    if n < 1 or shares.ndim != 1 or (shares < 0.0).any() or not math.isclose(shares.sum(), 1.0, abs_tol=1e-6):
        raise InvalidInputError(f"give at least one row and shares of S that sum to 1; not n = {n}, {p_s!r}")
    margin = np.floor(shares * n)
    margin[np.argmax(shares)] += n - margin.sum()

    def kept(outputs: int) -> bool:
        return expected_bound(0.0, margin, outputs, confidence=confidence) <= target

    low, high = 1, 2
    while high <= most and kept(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def expected_bound(leakage: float, n_s: ArrayLike, outputs: int, *, confidence: float = 0.95) -> float:
    """What held-out rows can be expected to prove: an upper bound of I(S;Y) from its value and from chance, nats.

    Args:
        leakage: I(S;Y) of the release, nats; the plug-in of n rows is larger by (K − 1)(N − 1)/(2n) on average.
        n_s: Held-out rows of each private symbol, shape (K,).
        outputs: N, the number of outputs.
        confidence: For example 0.95.
    """
    margin = np.asarray(n_s, dtype=np.float64)
    miss = checked_confidence(confidence) * SHARES["tilting"]
    plug_in = leakage + measures.miller_madow_bias(len(margin), outputs, float(margin.sum()))
    return min(_tilted(plug_in, margin[:, None], miss), math.log(min(len(margin), outputs)))


def _plug_in(counts: Array) -> float:
    """Î(S;Y|A) of counts (s, y, a)."""
    n_a = counts.sum(axis=(0, 1))
    some = n_a > 0.0
    each = measures.mutual_information(np.moveaxis(counts[:, :, some] / n_a[some], 2, 0))
    return float(np.sum(n_a[some] * each) / n_a.sum())


def _by_tilting(counts: Array, miss: float) -> float:
    return _tilted(_plug_in(counts), counts.sum(axis=1), miss)


def _tilted(plug_in: float, n_sa: Array, miss: float) -> float:
    """The bound (3) of :mod:`privfunnel.data.population.tilting` with what is not known about p(s|a) bounded too, nats.

    The proof merges, for each a, the symbols of p(s, a) below τ = RARE_ROWS/n with the likeliest one into S'. Merging
    raises neither Î nor D(p̂‖p), so (3) bounds I(S';Y|A) with p(s'|a) ≥ min max(p(s, a), τ)/p(a); and I(S;Y|A) is larger
    by H(S|S', A) at most, which is below Σ (−p log p + p) over the merged p(s, a) < τ. Which symbols are merged
    depends on the true p alone; those that may be are the ones whose lower limit is below τ.

    Args:
        plug_in: Î(S;Y|A).
        n_sa: Rows of (s, a).
        miss: Error probability.
    """
    n = n_sa.sum()
    rare = RARE_ROWS / n
    if rare > math.exp(-1.0):
        return math.inf
    n_a = n_sa.sum(axis=0)
    if n_sa.shape == (2, 1):
        low, high = clopper_pearson(n_sa[0, 0], n, (STEPS[1] + STEPS[2]) * miss / 2.0)
        lows, high_a = np.array([[low], [1.0 - high]]), np.ones(1)
        divergence = float(np.max(binary_divergence(n_sa[0, 0] / n, np.array([low, high]))))
    else:
        dimensions = int((n_a > 0.0).sum()) * (len(n_sa) - 1)
        divergence = divergence_radius(dimensions, STEPS[1] * miss) / n
        tail = STEPS[2] * miss / (n_sa.size + (len(n_a) if len(n_a) > 1 else 0))
        lows, high_a = clopper_pearson(n_sa, n, tail)[0], clopper_pearson(n_a, n, tail)[1]
    least = float(np.min(np.maximum(lows, rare) / high_a))
    merged = int((lows < rare).sum()) * (float(-measures.xlogx(rare)) + rare)
    return float(tilting.upper(plug_in, divergence, n, least, STEPS[0] * miss) + merged) * (1.0 + ROUNDING)


def tilted_lower_bound(counts: Array, miss: float) -> float:
    """The bound (4) of :mod:`.tilting`, with the axis of fewer symbols in the part of S, nats.

    The proof merges the symbols of p(s) below τ = RARE_ROWS/n with a symbol t into S', so that p(s') ≥ τ, and bounds
    I(S';Y) ≤ I(S;Y). For a p with such symbols it is made for every t at once, at the K-th part of the error
    probability each, and used for the most frequent t. Which symbols are merged depends on the true p; merging all
    whose lower limit is below τ can only lower the plug-in. Where no lower limit is, nothing is merged.
    """
    table = counts if counts.shape[0] <= counts.shape[1] else counts.T
    n, n_s = float(table.sum()), table.sum(axis=1)
    rare = RARE_ROWS / n
    lows = clopper_pearson(n_s, n, STEPS[2] * miss / len(table))[0]
    kept, likeliest, main = lows >= rare, int(np.argmax(n_s)), (1.0 - STEPS[2]) * miss
    if not kept[likeliest]:
        return 0.0
    if not kept.all():
        kept[likeliest] = False
        table, main = np.vstack([table[kept], table[~kept].sum(axis=0)]), main / len(table)
    plug_in = float(measures.mutual_information(table / n))
    least = float(np.maximum(lows, rare).min())
    return tilting.lower(plug_in, counts.size - max(counts.shape), n, 1.0 / least, main)


def _by_ball(counts: Array, miss: float) -> float:
    return ball.largest_information(counts, divergence_radius(counts.size - 1, miss)) * (1.0 + ROUNDING)


_METHODS: dict[str, Callable[[Array, float], float]] = {
    "tilting": _by_tilting,
    "intervals": confidence_limits.largest_information,
    "ball": _by_ball,
}
