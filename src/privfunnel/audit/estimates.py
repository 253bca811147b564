"""Estimates from counts, each with an interval: resampled rows, permuted pairs, corrected bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import sparse, special

from privfunnel import measures
from privfunnel.measures import Array, Channel, Measure
from privfunnel.model.channels import entries_of, is_sparse

LEVEL = 0.95
TAIL = (1.0 - LEVEL) / 2.0
MAX_BYTES = 2**28  # for all resampled tables of one kind together
MAX_ENTRIES = 1e8  # of all resampled sparse tables together

Statistic = Callable[[Array], Array]


@dataclass(frozen=True)
class Interval:
    """A number with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        """Whether the interval covers ``value``."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Information:
    """A mutual information estimated from counts, in nats.

    Attributes:
        plug_in: Of the counts as they are; too high on average.
        corrected: Less the expected bias, not below 0. The bias is that of fresh draws for the same rows where the
            mechanism is known, so that ``corrected`` is an estimate of what it promises for this very table; otherwise
            Miller and Madow's over the cells that occur, for the population behind the rows.
        low: Lower end of the 95 % interval around ``corrected``; ``high`` its upper end.
        null_mean: Average of ``plug_in`` when the pairing is permuted, so that the truth is 0.
        null_high: Its 95 % quantile.
        p_value: How often a permuted pairing gives at least ``plug_in``; ``None`` without permutations.
    """

    plug_in: float
    corrected: float
    low: float
    high: float
    null_mean: float | None = None
    null_high: float | None = None
    p_value: float | None = None

    def __contains__(self, value: float) -> bool:
        """Whether the interval covers ``value``."""
        return self.low <= value <= self.high


def resample(p: Array, n: int, size: int, rng: np.random.Generator) -> list[Array]:
    """``size`` tables of relative frequencies of ``n`` rows drawn from the table ``p``; fewer if they would be huge."""
    return list(resampling(p, n, min(size, fitting(p)), rng))


def fitting(p: Array) -> int:
    """How many tables like ``p`` are held together at most."""
    return max(20, int(MAX_BYTES / p.nbytes))


def resampling(p: Channel, n: int, size: int, rng: np.random.Generator) -> Iterator[Channel]:
    """The same one by one, for tables of which only a number is kept, dense or sparse."""
    if is_sparse(p):
        for _ in range(min(size, max(20, int(MAX_ENTRIES / len(p.data))))):
            drawn = rng.multinomial(n, p.data / p.data.sum()) / n
            yield sparse.csr_array((drawn, p.indices, p.indptr), shape=p.shape)
        return
    cells = np.flatnonzero(p)
    weights = p.ravel()[cells] / p.sum()
    for _ in range(size):
        drawn = np.zeros(p.size)
        drawn[cells] = rng.multinomial(n, weights) / n
        yield drawn.reshape(p.shape)


def intervals(p: Array, draws: Sequence[Array], statistics: Mapping[str, Statistic]) -> dict[str, Interval]:
    """Percentile intervals of statistics of a table of relative frequencies."""
    return {
        name: spread(statistic(p), np.array([statistic(draw) for draw in draws]))
        for name, statistic in statistics.items()
    }


def spread(value: Any, sample: Array) -> Interval:
    """A value between the 95 % quantiles of resampled ones; without any, the value is taken as exact."""
    if len(sample) == 0:
        return Interval(float(value), float(value), float(value))
    low, high = np.quantile(sample, [TAIL, 1.0 - TAIL], method="closest_observation")
    return Interval(float(value), float(min(low, value)), float(max(high, value)))


def corrected(value: float, sample: Array, bias: float) -> Interval:
    """A value less its bias, with the spread of resampled values around it, nothing below 0.

    Resampling repeats the bias once more, so only the spread of the resampled values is of use.
    """
    if len(sample) == 0:
        return Interval(value, value, value)
    below, above = np.quantile(sample - sample.mean(), [TAIL, 1.0 - TAIL])
    centre = value - bias
    return Interval(*(float(max(end, 0.0)) for end in (centre, centre - above, centre - below)))


def information(
    counts: Channel,
    draws: Iterable[Channel],
    *,
    null: Array,
    bias: float | None = None,
    independent: bool = True,
) -> Information:
    """I(A;B) of a table of counts (a, b) of released rows.

    Args:
        counts: The table, dense or sparse.
        draws: The same table, as relative frequencies, from resampled rows.
        null: Informations of permuted pairings; none of them for no null.
        bias: How much ``plug_in`` is expected to be too high, where that is known; Miller and Madow's otherwise, or by
            how much resampling raises it where rows are not independent.
        independent: Whether each row is evidence of its own.
    """
    n = float(counts.sum())
    plug_in = float(measures.mutual_information(counts / n))
    sample = np.array([measures.mutual_information(draw) for draw in draws])
    if bias is None and not independent:
        bias = max(float(sample.mean()) - plug_in, 0.0) if len(sample) else 0.0
    if bias is None:
        occupied = (counts.sum(axis=1) > 0).sum(), (counts.sum(axis=0) > 0).sum()
        cells = int((entries_of(counts) > 0).sum())
        bias = measures.miller_madow_bias(int(occupied[0]), int(occupied[1]), n, cells)
    found = corrected(plug_in, sample, bias)
    size = len(null)
    return Information(
        plug_in=plug_in,
        corrected=found.value,
        low=found.low,
        high=found.high,
        null_mean=float(null.mean()) if size else None,
        null_high=float(np.quantile(null, LEVEL)) if size else None,
        p_value=float((1 + (null >= plug_in - 1e-12).sum()) / (1 + size)) if size else None,
    )


def exact_information(p: Channel, draws: Sequence[Channel]) -> Information:
    """I(A;B) of a table that is known exactly; the interval is that of the population behind it.

    Args:
        p: The table.
        draws: The same table from resampled rows; without any, the population is the table itself.
    """
    value = float(measures.mutual_information(p))
    sample = np.array([float(measures.mutual_information(draw)) for draw in draws])
    found = corrected(value, sample, float(sample.mean()) - value if len(sample) else 0.0)
    return Information(plug_in=value, corrected=found.value, low=found.low, high=found.high)


def permuted(counts: Array, size: int, rng: np.random.Generator) -> Array:
    """Plug-in informations of ``size`` tables with the same margins and a random pairing."""
    whole = np.rint(counts).astype(np.int64)
    rows, columns = whole.sum(axis=1), whole.sum(axis=0)
    if size == 0 or counts.shape[0] < 2 or counts.shape[1] < 2:
        return np.zeros(size)
    law = scipy.stats.random_table(
        rows, columns
    )  # by its full name: what is slow to import waits until it is used
    n = float(whole.sum())
    return np.array([float(measures.mutual_information(law.rvs(random_state=rng) / n)) for _ in range(size)])


def proportion(successes: float, n: float) -> Interval:
    """A share with its 95 % Wilson interval."""
    z = float(special.ndtri(0.5 + LEVEL / 2.0))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return Interval(share, max(centre - half, 0.0), min(centre + half, 1.0))


def max_log_lift(p_ab: Array) -> Array:
    """The largest ``log p(a|b)/p(a)``, in nats."""
    return np.asarray(np.log(measures.lift(p_ab).max()))


def local_information_privacy(p_ab: Array) -> Array:
    """The largest ``|log p(a|b)/p(a)|`` over pairs of positive margins, in nats; infinite where b rules a out."""
    lift = measures.lift(p_ab)
    low, high = float(lift.min()), float(lift.max())
    return np.asarray(max(np.log(high), -np.log(low) if low > 0.0 else np.inf))


def plain(value: object) -> Any:
    """A document with infinite numbers as texts, which JSON has no numbers for, and measures by their names."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    told = isinstance(value, Measure) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if told else value
