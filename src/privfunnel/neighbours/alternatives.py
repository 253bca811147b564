"""What one would do otherwise: drop columns, or coarsen them, until no more leaks than the funnel leaks.

Both are deterministic releases X' = f(X), so that I(X;X') = H(X'). Every column has a *ladder* of coarser and coarser
versions that ends with leaving it out; a release picks one step of each. Coarsening never raises H(X') nor I(S;X'), so
the releases are examined in the order of what they keep, and the first that leaks little enough is the best of all.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from privfunnel import measures
from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.engines.categories import NULL, Codes
from privfunnel.data.tables import Counts
from privfunnel.infra.storage import Document
from privfunnel.measures import Array
from privfunnel.model.problem import Problem
from privfunnel.model.tasks import Utility

#: Releases that are examined before the search settles for a good one: all ways to drop columns out of twelve.
MOST_EXAMINED = 2**12
#: Entries of tables that a search may look at in all: some seconds. What is found does not depend on the machine.
MOST_WORK = 4e7
#: The same for ways to drop columns, which are fewer and mostly small.
MOST_DROPPING = 5 * MOST_WORK
#: Nats by which a leakage may exceed the limit by rounding.
ROUNDING = 1e-9
#: Combinations of categories that are numbered without looking which of them occur.
MOST_PLACES = 2**62
ORDERED = frozenset({"integer", "number", "date", "datetime"})
#: The two kinds of releases.
DROPPING, COARSENING = "dropping columns", "coarser categories"
#: The first number in the text of a value or bin.
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Alternative:
    """The best release of a simpler kind that leaks no more; nats.

    Attributes:
        method: ``"dropping columns"`` or ``"coarser categories"``.
        disclosure: H(X') of what it releases; ``ceiling`` H(X).
        leakage: I(S;X'); ``limit`` what it was allowed.
        done: What happened to each column that is not released as it is.
        exact: No release of the kind is better; otherwise none was found.
        tried: How many releases were examined.
    """

    method: str
    disclosure: float
    ceiling: float
    leakage: float
    limit: float
    done: dict[str, str]
    exact: bool
    tried: int = 0

    @property
    def share(self) -> float:
        """Share of H(X) that is kept; 1 where there is nothing to keep."""
        return max(self.disclosure, 0.0) / self.ceiling if self.ceiling > 0.0 else 1.0

    @property
    def words(self) -> str:
        """The alternative as a sentence."""
        how = "; ".join(f"{name}: {what}" for name, what in self.done.items()) or "everything as it is"
        best = "at best" if self.exact else f"as far as was searched ({self.tried} releases)"
        much = f"{100 * self.share:.1f} % of H(X)"
        return f"By {self.method} one would keep {much} {best}, at no more leakage I(S;Y) ({how})."

    def to_dict(self) -> Document:
        """JSON-ready, in nats."""
        return {
            "method": self.method,
            "disclosure": self.disclosure,
            "share": self.share,
            "leakage": self.leakage,
            "limit": self.limit,
            "done": dict(self.done),
            "exact": self.exact,
            "tried": self.tried,
            "words": self.words,
        }


class Step(NamedTuple):
    """One version of a column: the coarser code of each category, and what was done."""

    codes: Codes
    done: str


def suppression(counts: Counts, leakage: float) -> Alternative:
    """The most that dropping public columns keeps while I(S;X') ≤ ``leakage`` (nats).

    Exact for up to twelve columns, unless the table is so large that :data:`MOST_DROPPING` ends the search.
    """
    return _best(counts.x_alphabet, counts.table() / counts.n, leakage, DROPPING)


def generalisation(counts: Counts, leakage: float) -> Alternative:
    """The most that coarser categories keep while I(S;X') ≤ ``leakage`` (nats); columns may be dropped too.

    Neighbouring bins and numbers are merged pairwise, again and again; of other categories the more frequent half is
    kept, again and again, and the rest becomes one.
    """
    return _best(counts.x_alphabet, counts.table() / counts.n, leakage, COARSENING)


def instead(public: Alphabet, p_sx: Array, leakage: float) -> tuple[Alternative, Alternative]:
    """Both alternatives to a release that leaks ``leakage`` nats.

    Args:
        public: The M public symbols.
        p_sx: p(s, x), shape (K, M).
        leakage: What they may leak, nats.
    """
    kinds = (DROPPING, COARSENING)
    first, second = (_best(public, p_sx, leakage, kind) for kind in kinds)
    if (
        first.disclosure > second.disclosure
    ):  # to drop a column is one way to coarsen it: its search ended too soon
        tried = first.tried + second.tried
        second = replace(first, method=second.method, exact=False, tried=tried)
    return first, second


class LeastLeaking(NamedTuple):
    """The release of a kind that leaks least: what each public symbol becomes, shape (M,), and how it was found."""

    place: Codes
    exact: bool
    tried: int


def least_leaking(public: Alphabet, p_sx: Array, disclosure: float, method: str) -> LeastLeaking:
    """The release of a kind that leaks least among those with H(X') ≥ ``disclosure`` (nats).

    Args:
        public: The M public symbols.
        p_sx: p(s, x), shape (K, M).
        disclosure: What is kept at least, in nats.
        method: :data:`DROPPING` or :data:`COARSENING`.
    """
    lattice = Lattice(public, p_sx, method)
    found, exact = lattice.least_leaking(disclosure)
    return LeastLeaking(lattice.place(found), exact, lattice.tried)


def alphabet_of(problem: Problem) -> Alphabet:
    """The public symbols of a problem as combinations of its columns' values; of one column where it knows none.

    A problem has texts alone: values that all hold a number are taken to be in the order of their first numbers.
    """
    named = problem.public_columns or {"x": problem.x_labels}
    columns, codes = [], []
    for name, texts in named.items():
        values = sorted({*texts} - {NULL}, key=_rank)
        ordered = all(_NUMBER.search(value) for value in values)
        listed = [*values, *([NULL] if NULL in texts else [])]
        place = {value: code for code, value in enumerate(listed)}
        shown = tuple(None if value == NULL else value for value in listed)
        columns.append(Column(name, "number" if ordered else "text", shown))
        codes.append([place[text] for text in texts])
    return Alphabet(tuple(columns), np.array(codes, dtype=np.int64).T)


def _rank(value: str) -> tuple[float, bool, str]:
    """Where a text comes in order: by its first number, ``< 18`` before ``18``."""
    number = _NUMBER.search(value)
    return (float(number[0]) if number else math.inf, not value.startswith("<"), value)


class Lattice:
    """All releases of a kind: a ladder of steps for each column, and what each choice of steps keeps and leaks."""

    def __init__(self, public: Alphabet, p_sx: Array, method: str, tasks: Utility | None = None) -> None:
        """Build the ladders.

        Args:
            public: The M public symbols.
            p_sx: p(s, x), shape (K, M).
            method: :data:`DROPPING` or :data:`COARSENING`.
            tasks: What is kept is Σ ω I(U;X') of these tasks; H(X') without them. Coarsening raises neither.
        """
        self.public = public
        margins = [table.sum(axis=1) for table in public.by_column(p_sx.sum(axis=0)[:, None]).values()]
        finest = [Step(np.arange(column.n_values), "") for column in public.columns]
        drops = [Step(np.zeros(column.n_values, dtype=np.int64), "dropped") for column in public.columns]
        between: list[list[Step]] = [[] for _ in public.columns]
        work = MOST_DROPPING
        if method != DROPPING:
            work = MOST_WORK
            between = [_coarser(column, p) for column, p in zip(public.columns, margins, strict=True)]
        # Releases that are examined however large the table is.
        self.most = min(MOST_EXAMINED, max(64, int(work / p_sx.size)))
        self.ladders = [[a, *b, c] for a, b, c in zip(finest, between, drops, strict=True)]
        self.sizes = [len(ladder) for ladder in self.ladders]
        self.tasks = tasks
        self.table = p_sx if tasks is None else np.vstack([p_sx, tasks.rows * tasks.p_x])
        self.weigh = cache(self._weigh)

    def _weigh(self, levels: tuple[int, ...]) -> tuple[float, float]:
        """What a release keeps, and I(S;X') of it; nats."""
        table = merged(self.table, self.place(levels))
        if self.tasks is None:
            return float(measures.entropy(table.sum(axis=0))), float(measures.mutual_information(table))
        p_sz, p_uz = np.split(table, [len(table) - len(self.tasks.rows)])
        blocks = zip(self.tasks.tasks, self.tasks.blocks, strict=True)
        kept = sum(task.weight * float(measures.mutual_information(p_uz[block])) for task, block in blocks)
        return kept, float(measures.mutual_information(p_sz))

    @property
    def tried(self) -> int:
        """How many releases were examined."""
        return self.weigh.cache_info().currsize

    def done(self, levels: tuple[int, ...]) -> dict[str, str]:
        """What happens to each column that is not released as it is."""
        return {
            column.name: ladder[level].done
            for column, ladder, level in zip(self.public.columns, self.ladders, levels, strict=True)
            if level > 0
        }

    def least_leaking(self, wanted: float) -> tuple[tuple[int, ...], bool]:
        """The steps that leak least among those that keep ``wanted`` nats, and whether all of these were examined."""
        start = (0,) * len(self.ladders)
        found, least, seen, waiting = start, math.inf, {start}, [start]
        while waiting and len(seen) <= self.most:
            levels = waiting.pop()
            leaked = self.weigh(levels)[1]
            if leaked < least:
                found, least = levels, leaked
            # Coarser releases keep less: whatever is below one that keeps too little does so, too.
            for coarser in _next(levels, self.sizes):
                if coarser not in seen and self.weigh(coarser)[0] >= wanted - ROUNDING:
                    seen.add(coarser)
                    waiting.append(coarser)
        return found, not waiting

    def place(self, levels: tuple[int, ...]) -> Codes:
        """What each public symbol becomes, numbered in any way, shape (M,)."""
        maps = [ladder[level].codes for ladder, level in zip(self.ladders, levels, strict=True)]
        return _place(self.public, maps)


def _best(public: Alphabet, p_sx: Array, leakage: float, method: str) -> Alternative:
    lattice = Lattice(public, p_sx, method)
    levels, exact = _search(lattice.sizes, lattice.weigh, leakage + ROUNDING, lattice.most)
    disclosure, leaked = lattice.weigh(levels)
    ceiling = float(measures.entropy(p_sx.sum(axis=0)))
    done = lattice.done(levels)
    return Alternative(method, min(disclosure, ceiling), ceiling, leaked, leakage, done, exact, lattice.tried)


def _coarser(column: Column, p: Array) -> list[Step]:
    """Coarser and coarser versions of a column with at least two categories left each.

    Args:
        column: The column.
        p: How often each of its categories is.
    """
    size = column.n_values
    missing = None in column.values
    steps = []
    if column.kind in ORDERED:
        present = size - missing
        width = 2
        while math.ceil(present / width) >= 2:
            codes = np.arange(size) // width
            if missing:  # a missing value is next to nothing
                codes[column.values.index(None)] = size
            steps.append(Step(codes, f"{math.ceil(present / width)} of {present} bins"))
            width *= 2
        return steps
    order = np.argsort(-p, kind="stable")
    kept = size // 2
    while size > 2 and kept >= 1:
        codes = np.full(size, size)
        codes[order[:kept]] = order[:kept]
        steps.append(Step(codes, f"the {kept} most frequent of {size} values, the others as one"))
        kept //= 2
    return steps


def _place(public: Alphabet, maps: Sequence[Codes]) -> Codes:
    """The combination that each public symbol becomes where each column's categories are mapped so, shape (M,)."""
    place = np.zeros(len(public), dtype=np.int64)
    places = 1
    for j, codes in enumerate(maps):
        size = int(codes.max()) + 1
        if places * size > MOST_PLACES:
            place = np.unique(place, return_inverse=True)[1].reshape(-1)
            places = int(place.max()) + 1
        place = place * size + codes[public.codes[:, j]]
        places *= size
    return place


def merged(table: Array, place: Codes) -> Array:
    """The table, shape (K, M), with the columns added up that become the same ``place``, shape (M,)."""
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    return np.asarray(np.add.reduceat(table[:, order], starts, axis=1))


def _search(
    sizes: Sequence[int], weigh: Callable[[tuple[int, ...]], tuple[float, float]], limit: float, most: int
) -> tuple[tuple[int, ...], bool]:
    """The level of each column that keeps most within the limit, and whether it is the best of all."""
    start = (0,) * len(sizes)
    kept, leaked = weigh(start)
    queue = [(-kept, start, leaked)]
    seen = {start}
    while queue:
        _, levels, leaked = heapq.heappop(queue)
        if leaked <= limit:
            return levels, True
        for coarser in _next(levels, sizes):
            if coarser not in seen:
                seen.add(coarser)
                kept, leaked = weigh(coarser)
                heapq.heappush(queue, (-kept, coarser, leaked))
        if len(seen) > most:
            break
    return _descent(sizes, weigh, limit), False


def _descent(
    sizes: Sequence[int], weigh: Callable[[tuple[int, ...]], tuple[float, float]], limit: float
) -> tuple[int, ...]:
    """Coarsen, one step at a time, where least is lost for what no longer leaks, until the limit is met."""
    levels = (0,) * len(sizes)
    kept, leaked = weigh(levels)
    while leaked > limit:
        found = [(*weigh(coarser), coarser) for coarser in _next(levels, sizes)]
        if not found:
            break
        kept, leaked, levels = min(
            found,
            key=lambda each: (kept - each[0]) / max(leaked - each[1], 1e-15),
        )
    return levels


def _next(levels: tuple[int, ...], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """All releases that are one step coarser."""
    return [
        (*levels[:j], level + 1, *levels[j + 1 :]) for j, level in enumerate(levels) if level + 1 < sizes[j]
    ]
