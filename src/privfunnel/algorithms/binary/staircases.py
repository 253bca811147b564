"""The optimum at one slope: a staircase of pairs around a middle interval that is released alone.

With the slope μ given, one price at the start determines the whole staircase; a bisection over it finds the one that
uses up every mass. Where the walks from the two ends of the last bracket part ways, the staircase falls into
components: what both have in common is kept, and the next component has a price of its own to be found between the two.
Three things can part them (docs/math-binary.md):

* both classes of an edge are used up at once, and the next component begins with the next two classes;
* the first class below is used in part, the rest of it alone: the share is bisected at the price −h(π);
* the class above reaches its price −h(π): it takes all classes below that are left, and what remains of it is alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.binary.pair_prices import (
    NONE,
    Classes,
    odds_from_above,
    odds_from_below,
    pair_of,
    price_above,
    price_below,
)
from privfunnel.algorithms.binary.staircase_steps import (
    HIGH,
    LOW,
    SOLVED,
    Integers,
    Path,
    Start,
    empty_path,
    walk,
)
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.infra.jit import compiled
from privfunnel.measures import Array

#: What is bisected. FREE: the price of the first class above; which class below comes first follows from it. FIXED: the
#: same with the class below given. PART: the share of the first class below that is not released alone.
FREE, FIXED, PART = 0, 1, 2
#: The bracket begins this much below the price at which the first pair pays: there it surely does not.
MARGIN = 1e-9


class Guess(NamedTuple):
    """What is known of a component's first edge: the kind of guess, classes, price of a (PART only), floor."""

    kind: int
    b: int
    a: int
    price_a: float
    floor: int


class Staircase(NamedTuple):
    """An optimum at slope μ: edges between classes (b, a) with masses, mass released alone (n,), prices (n,).

    ``finished`` is False where rounding kept the walk from its end; prices and masses are valid all the same.
    """

    b: Integers
    a: Integers
    mass_b: Array
    mass_a: Array
    alone: Array
    prices: Array
    finished: bool


@compiled
def first_below(classes: Classes, slope: float, top: int, a: int, price_a: float) -> int:
    """The innermost class b ≤ top that pays better with a at ``price_a`` than alone; −1 if there is none.

    The gain of b falls with π_b, so that these are all classes up to it.
    """
    low = -1
    high = top + 1
    while high - low > 1:
        middle = (low + high) // 2
        pair = pair_of(classes, middle, a)
        odds = odds_from_above(pair, price_a, slope, 0.0)
        if odds != NONE and price_below(pair, odds, slope) < classes.caps[middle]:
            low = middle
        else:
            high = middle
    return low


@compiled
def first_edge(classes: Classes, left: Array, slope: float, guess: Guess, x: float) -> Start:
    """The first edge of a component when the unknown is ``x``; its class b is −1 where there is nothing to pair."""
    b = guess.b
    a = guess.a
    floor = guess.floor
    if guess.kind == PART:
        pair = pair_of(classes, b, a)
        odds = odds_from_below(pair, classes.caps[b], slope, 0.0)
        if odds == NONE:
            return Start(-1, a, 0.0, left[a], 0.0, guess.price_a, 0.0, floor)
        return Start(b, a, x * left[b], left[a], classes.caps[b], guess.price_a, odds, floor)
    if guess.kind == FREE:
        b = first_below(classes, slope, guess.b, a, x)
        floor = max(floor, b)
    if b < 0:
        return Start(-1, a, 0.0, left[a], 0.0, x, 0.0, floor)
    pair = pair_of(classes, b, a)
    odds = odds_from_above(pair, x, slope, 0.0)
    if odds == NONE:
        return Start(-1, a, 0.0, left[a], 0.0, x, 0.0, floor)
    price = min(price_below(pair, odds, slope), classes.caps[b])
    return Start(b, a, left[b], left[a], price, x, odds, floor)


@compiled
def attempt(classes: Classes, left: Array, slope: float, guess: Guess, x: float, path: Path) -> int:
    """Walk from the guess ``x``; with nothing to pair, a class above at its cap is SOLVED, below it HIGH."""
    start = first_edge(classes, left, slope, guess, x)
    if start.b < 0:
        path.n[0] = 0
        return SOLVED if start.price_a >= classes.caps[start.a] else HIGH
    return walk(classes, left, slope, start, path)


@compiled
def copy_path(target: Path, source: Path) -> None:
    """Overwrite a path with another."""
    n = source.n[0]
    target.n[0] = n
    for k in range(n):
        target.b[k] = source.b[k]
        target.a[k] = source.a[k]
        target.odds[k] = source.odds[k]
        target.mass_b[k] = source.mass_b[k]
        target.mass_a[k] = source.mass_a[k]
        target.price_b[k] = source.price_b[k]
        target.price_a[k] = source.price_a[k]


class Paths(NamedTuple):
    """The walks from the two ends of the bracket, and scratch."""

    high: Path
    low: Path
    scratch: Path


@compiled
def bisect(
    classes: Classes, left: Array, slope: float, guess: Guess, ends: tuple[float, float], paths: Paths
) -> tuple[int, float]:
    """Narrow ``ends`` (HIGH, LOW) until no number lies between; the walks from both ends are left in ``paths``.

    Returns the outcome and the last guess: SOLVED, with the solution in ``paths.scratch``; LOW or HIGH where both ends
    already end so, which rounding can bring about; otherwise −1.
    """
    x_high, x_low = ends
    for x, path, wanted in ((x_high, paths.high, HIGH), (x_low, paths.low, LOW)):
        outcome = attempt(classes, left, slope, guess, x, path)
        if outcome == SOLVED:
            copy_path(paths.scratch, path)
        if outcome != wanted:
            return outcome, x
    # Halvings at most: the bracket is then narrower than rounding.
    for _ in range(70):
        x = 0.5 * (x_high + x_low)
        if x in (x_high, x_low):
            break
        outcome = attempt(classes, left, slope, guess, x, paths.scratch)
        if outcome == SOLVED:
            return SOLVED, x
        if outcome == HIGH:
            x_high = x
            copy_path(paths.high, paths.scratch)
        else:
            x_low = x
            copy_path(paths.low, paths.scratch)
    return -1, x_low


@compiled
def common(high: Path, low: Path) -> int:
    """How many edges the two walks have in common from the start."""
    n = int(min(high.n[0], low.n[0]))
    for k in range(n):
        if high.b[k] != low.b[k] or high.a[k] != low.a[k]:
            return k
    return n


class Shooting:
    """Build the staircase of one slope, component by component."""

    def __init__(self, classes: Classes, slope: float, deadline: Deadline = NEVER) -> None:
        n = classes.pi.size
        self.classes, self.slope, self.deadline = classes, slope, deadline
        self.left = classes.mass.copy()
        self.prices = classes.caps.copy()
        self.paths = Paths(empty_path(n), empty_path(n), empty_path(n))
        self.edges: list[tuple[Integers, Integers, Array, Array]] = []
        self.guess = Guess(FREE, n - 2, n - 1, 0.0, -1)

    def solve(self) -> Staircase:
        """The optimal staircase; ``finished`` is False where rounding or the time stopped the walk early."""
        ends = self._first_ends()
        finished = True
        while ends is not None:
            if self.deadline.passed():
                finished = False
                break
            outcome, x = bisect(self.classes, self.left, self.slope, self.guess, ends, self.paths)
            if outcome == SOLVED:
                self._keep(self.paths.scratch, int(self.paths.scratch.n[0]))
                break
            shared = common(self.paths.high, self.paths.low) if outcome < 0 else 0
            if outcome >= 0:
                finished = False
                break
            ends = self._share_the_first(x) if shared == 0 else self._next(shared)
        parts = [np.concatenate(part) for part in zip(*self.edges, strict=True)] if self.edges else None
        none = np.empty(0)
        b, a, mass_b, mass_a = parts if parts else (none.astype(np.int64), none.astype(np.int64), none, none)
        return Staircase(b, a, mass_b, mass_a, np.maximum(self.left, 0.0), self.prices, finished)

    def _first_ends(self) -> tuple[float, float] | None:
        """Bracket of the price of the outermost class above: where nothing pays with it, and its cap."""
        n = self.classes.pi.size
        if n < 2:
            return None
        lowest = self._price_above(0, n - 1, float(self.classes.caps[0]))
        cap = float(self.classes.caps[n - 1])
        return None if lowest >= cap else (lowest - MARGIN * (1.0 + abs(lowest)), cap)

    def _price_above(self, b: int, a: int, price_b: float) -> float:
        """The price of a that makes its pair with b tight, at most a's cap."""
        pair = pair_of(self.classes, b, a)
        odds = odds_from_below(pair, price_b, self.slope, 0.0)
        cap = float(self.classes.caps[a])
        return cap if odds == NONE else min(price_above(pair, odds, self.slope), cap)

    def _price_below(self, b: int, a: int, price_a: float) -> float:
        """The price of b that makes its pair with a tight, at most b's cap."""
        pair = pair_of(self.classes, b, a)
        odds = odds_from_above(pair, price_a, self.slope, 0.0)
        cap = float(self.classes.caps[b])
        return cap if odds == NONE else min(price_below(pair, odds, self.slope), cap)

    def _keep(self, path: Path, n: int, *, exhaust: bool = False) -> None:
        """Keep the first ``n`` edges of a walk; with ``exhaust`` the last one uses up both its classes."""
        b, a = path.b[:n].copy(), path.a[:n].copy()
        mass_b, mass_a = path.mass_b[:n].copy(), path.mass_a[:n].copy()
        if n == 0:
            return
        if exhaust:
            mass_a[-1] = max(self.left[a[-1]] - mass_a[:-1][a[:-1] == a[-1]].sum(), 0.0)
            if not (self.guess.kind == PART and b[-1] == self.guess.b):
                mass_b[-1] = max(self.left[b[-1]] - mass_b[:-1][b[:-1] == b[-1]].sum(), 0.0)
        np.subtract.at(self.left, b, mass_b)
        np.subtract.at(self.left, a, mass_a)
        self.prices[b], self.prices[a] = path.price_b[:n], path.price_a[:n]
        self.edges.append((b, a, mass_b, mass_a))

    def _share_the_first(self, x: float) -> tuple[float, float]:
        """The walks begin with different classes below: bisect how much of the innermost one is not alone."""
        a, b = self.guess.a, int(self.paths.low.b[0])
        floor = max(self.guess.floor, b)
        while b > 0:
            self.guess = Guess(PART, b, a, self._price_above(b, a, float(self.classes.caps[b])), floor)
            if attempt(self.classes, self.left, self.slope, self.guess, 0.0, self.paths.scratch) != LOW:
                break
            b -= 1
        self.guess = Guess(PART, b, a, self._price_above(b, a, float(self.classes.caps[b])), floor)
        return 0.0, 1.0

    def _next(self, shared: int) -> tuple[float, float] | None:
        """Keep the ``shared`` first edges and say where the next component's unknown lies; None at the end."""
        high, low = self.paths.high, self.paths.low
        b, a = int(high.b[shared - 1]), int(high.a[shared - 1])
        price_b, price_a = float(high.price_b[shared - 1]), float(high.price_a[shared - 1])
        floor = self.guess.floor if self.guess.floor >= 0 else int(high.b[0])
        if int(high.n[0]) > shared and int(high.b[shared]) == b and int(low.n[0]) == shared:
            # The class above has reached its cap on the way from HIGH to LOW: it takes the rest.
            self._keep(high, shared)
            self.guess = Guess(FIXED, b, a - 1, 0.0, floor)
            attempt(
                self.classes,
                self.left,
                self.slope,
                self.guess,
                float(self.classes.caps[a - 1]),
                self.paths.scratch,
            )
            self._keep(self.paths.scratch, int(self.paths.scratch.n[0]))
            return None
        partly = self.guess.kind == PART and b == self.guess.b
        if b == 0:
            # The end. Classes above too rare to be told from none by bisection are in the LOW walk only.
            self._keep(low, int(low.n[0]))
            if not partly:
                self.edges[-1][2][-1] += self.left[0]
                self.left[0] = 0.0
            return None
        self._keep(high, shared, exhaust=True)
        if a - 1 <= floor:
            return None
        upper = self._price_above(b, a - 1, price_b)
        lower = self._price_above(b - 1, a - 1, self._price_below(b - 1, a, price_a))
        self.guess = Guess(FIXED, b - 1, a - 1, 0.0, floor)
        if partly:
            beyond = attempt(self.classes, self.left, self.slope, self.guess, upper, self.paths.scratch)
            if beyond == HIGH:
                self.guess = Guess(PART, b, a - 1, upper, floor)
                return 0.0, 1.0
        return lower, upper


def staircase(classes: Classes, slope: float, deadline: Deadline = NEVER) -> Staircase:
    """The optimal staircase of the classes at slope 0 < μ < 1, as far as there is time."""
    return Shooting(classes, slope, deadline).solve()
