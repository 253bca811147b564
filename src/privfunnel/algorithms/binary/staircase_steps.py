"""Follow a staircase of pairs from a guessed start: the trial step of the shooting method.

A staircase pairs classes b below with classes a above, both in descending order of π: a tight pair hands its price from
one class to the other, the class whose mass is used up makes way for the next one outwards (b) or inwards (a). What is
left over at the end says in which direction the start was wrong (docs/math-binary.md proves that this is monotone).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.binary.pair_prices import (
    NONE,
    Classes,
    odds_from_above,
    odds_from_below,
    pair_of,
    price_above,
    price_below,
)
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: How a walk ends. HIGH: the classes below are used up, one above is not; the price of the first class above was too
#: low (that of the first below too high). LOW: a class below finds no partner; the other way round.
HIGH, LOW, SOLVED = 0, 1, 2

Integers = NDArray[np.int64]


class Path(NamedTuple):
    """Edges of a walk, each array with room for two edges a class; ``n[0]`` of them are used.

    b, a: the classes; odds: log odds of b; mass_b, mass_a: what the edge uses of them; price_b, price_a: their prices.
    """

    n: Integers
    b: Integers
    a: Integers
    odds: Array
    mass_b: Array
    mass_a: Array
    price_b: Array
    price_a: Array


class Start(NamedTuple):
    """Where a walk begins: classes, masses that may be used of them, prices, log odds of b; no class above ≤ floor."""

    b: int
    a: int
    mass_b: float
    mass_a: float
    price_b: float
    price_a: float
    odds: float
    floor: int


def empty_path(n_classes: int) -> Path:
    """A path without edges and with room for any."""
    room = 2 * n_classes + 2
    n, b, a = np.zeros(1, dtype=np.int64), np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64)
    return Path(n, b, a, *[np.zeros(room) for _ in range(5)])


@compiled
def record(path: Path, start: Start, mass_b: float, mass_a: float) -> None:
    """Append an edge between the classes of ``start``."""
    k = path.n[0]
    path.b[k] = start.b
    path.a[k] = start.a
    path.odds[k] = start.odds
    path.mass_b[k] = mass_b
    path.mass_a[k] = mass_a
    path.price_b[k] = start.price_b
    path.price_a[k] = start.price_a
    path.n[0] = k + 1


@compiled
def walk(classes: Classes, left: Array, slope: float, start: Start, path: Path) -> int:
    """Follow the staircase from ``start`` and record its edges; HIGH, LOW or SOLVED.

    Args:
        classes: The classes.
        left: Mass of each class that is still to be placed, (n,).
        slope: μ.
        start: The first edge.
        path: Overwritten.
    """
    path.n[0] = 0
    at = start
    while True:
        needed = at.mass_b * np.exp(-at.odds)
        if needed <= at.mass_a:
            record(path, at, at.mass_b, needed)
            b = at.b - 1
            if b < 0:
                return SOLVED if at.price_a >= classes.caps[at.a] else HIGH
            pair = pair_of(classes, b, at.a)
            odds = odds_from_above(pair, at.price_a, slope, at.odds)
            if odds == NONE:
                return HIGH
            price = min(price_below(pair, odds, slope), classes.caps[b])
            at = Start(b, at.a, left[b], at.mass_a - needed, price, at.price_a, odds, at.floor)
        else:
            used = at.mass_a * np.exp(at.odds)
            record(path, at, used, at.mass_a)
            a = at.a - 1
            if a <= at.floor:
                return LOW
            pair = pair_of(classes, at.b, a)
            odds = odds_from_below(pair, at.price_b, slope, at.odds)
            if odds == NONE:
                return LOW
            price = price_above(pair, odds, slope)
            if price >= classes.caps[a]:
                return LOW
            at = Start(at.b, a, at.mass_b - used, left[a], at.price_b, price, odds, at.floor)
