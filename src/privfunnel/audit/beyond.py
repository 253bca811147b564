"""What rows that a mechanism was not designed on prove about the population they come from, put together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privfunnel import measures
from privfunnel.audit.estimates import Interval
from privfunnel.audit.population import (
    guaranteed_outputs,
    population_bound,
    population_guessing,
    population_lift,
    population_lower_bound,
)
from privfunnel.measures import Array
from privfunnel.tables import Counts

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
        leakage: I(S;Y): of the rows as they were released, and between which ends that of the population lies.
        disclosure: I(X;Y): of the rows, and its ends; None where the table is too large to bound it.
        lift: The largest log p(s|y)/p(s) is at most this; infinite where nothing is proved.
        guess: The best guess of all private columns together is right at most so often.
        guaranteed: So many outputs can be guaranteed to leak less than ``target``, half of I(S;X).
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


def bounds(sy: Array, xy: Array, confidence: float, leakage_ceiling: float) -> Population:
    """Bound what a mechanism does in the population, from rows that it was not designed on.

    Args:
        sy: Rows by (s, y), shape (K, N), with every symbol that can be released.
        xy: Rows by (x, y), shape (M, N).
        confidence: For example 0.95.
        leakage_ceiling: I(S;X), in nats.
    """
    n, two_sided = float(sy.sum()), 0.5 * (1.0 + confidence)
    high = population_bound(sy, two_sided).upper
    low = min(population_lower_bound(sy, two_sided).lower, high)
    found = None
    if xy.size <= LARGEST:
        least = population_lower_bound(xy, confidence)
        found = Interval(max(least.plug_in, least.lower), least.lower, least.upper)
    target = WORTHWHILE * leakage_ceiling
    return Population(
        rows=int(n),
        outputs=sy.shape[1],
        confidence=confidence,
        leakage=Interval(min(max(float(measures.mutual_information(sy / n)), low), high), low, high),
        disclosure=found,
        lift=population_lift(sy, confidence),
        guess=population_guessing(sy, confidence).after,
        guaranteed=guaranteed_outputs(int(n), target, p_s=sy.sum(axis=1) / n, confidence=confidence),
        target=target,
    )


def drawn(counts: Counts, channel: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows by (s, y) and by (x, y), released once through a channel of shape (M, N)."""
    n_y = channel.shape[1]
    sy, xy = np.zeros((counts.n_s, n_y)), np.zeros((counts.n_x, n_y))
    for s, x, n in zip(counts.cell_s, counts.cell_x, counts.cell_n, strict=True):
        y = rng.multinomial(int(n), channel[x])
        sy[s] += y
        xy[x] += y
    return sy, xy


def words(found: Population) -> list[str]:
    """The bounds as sentences."""
    sure = f"with {100 * found.confidence:g} % confidence"
    kept = (
        ""
        if found.disclosure is None
        else f" and keeps at least {measures.to_bits(found.disclosure.low):.4f} bits of the public columns"
    )
    lift = (
        "no limit of a lift is proved"
        if math.isinf(found.lift)
        else f"no private value becomes more than {math.exp(found.lift):.2f} times as likely"
    )
    return [
        f"In the population that these {found.rows:,} rows come from, {sure}, the release leaks at most "
        f"{measures.to_bits(found.leakage.high):.4f} bits and at least "
        f"{measures.to_bits(found.leakage.low):.4f}{kept}; {lift}; the best guess is right at most "
        f"{100 * found.guess:.1f} % of the time.",
        f"With these rows at most {found.guaranteed} outputs can be guaranteed to leak less than "
        f"{measures.to_bits(found.target):.4f} bits, half of what the public columns hold; this release has "
        f"{found.outputs}.",
    ]
