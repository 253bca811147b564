"""Merging subsets of outputs by minimising a difference of submodular functions (Ding, Sadeghi 2019).

For a multiplier ``λ < 1`` start with ``Y = X`` and merge, again and again, the subset ``W`` of outputs that lowers
``I(S;Y) − λ I(X;Y)`` most. With ``φ(t) = −t log t`` a merge changes it by

    ``Δ(W) = (1−λ) φ(p(W)) − Σ_s φ(p(s, W)) + Σ_{j∈W} m_j``,   ``m_j = Σ_s φ(p(s, j)) − (1−λ) φ(p(j))``,

a difference of two concave functions of modular ones, hence of two submodular set functions. Minimising it is hard; the
inner search is the submodular-supermodular procedure of :func:`search_subset`, or enumeration for few outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Answer, Status
from privfunnel.solvers.base import Listener, Progress, TimeLimited
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.merging.partitions import channel_of, phi
from privfunnel.solvers.options import check_seconds, check_whole
from privfunnel.solvers.sweep import Pool

Mask = NDArray[np.bool_]

# A merge has to lower the objective by more than rounding.
_GAIN = 1e-12


@dataclass(frozen=True, kw_only=True)
class Submodular(TimeLimited):
    """Iterative agglomerative merging of subsets, swept over the multiplier.

    Attributes:
        slopes: Multipliers 0 < λ < 1 of the sweep; 30 values, geometric in [1e-3, 0.97], by default.
        starts: Starts of the inner search for each merge: the best pairs, then random subsets.
        exact_outputs: Up to this many outputs the best subset is found by enumeration (at most 16).
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which no further multiplier is tried; infinite for no limit.
    """

    name: ClassVar[str] = "submodular"
    formerly_none: ClassVar[tuple[str, ...]] = ("time_limit",)
    sweeps: ClassVar[bool] = True

    slopes: tuple[float, ...] | None = None
    starts: int = 12
    exact_outputs: int = 10
    refine: int = 8
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole("submodular", 1, starts=self.starts)
        check_whole("submodular", 0, exact_outputs=self.exact_outputs, refine=self.refine)
        check_seconds(self.name, self.time_limit)
        if self.exact_outputs > 16:
            raise InvalidInputError(
                f"submodular: exact_outputs={self.exact_outputs} means 2^{self.exact_outputs} subsets: give 16 or fewer"
            )
        for slope in self.slopes if self.slopes is not None else ():
            if not 0.0 < slope < 1.0:
                raise InvalidInputError(
                    f"submodular: slope {slope!r} is not usable: give multipliers between 0 and 1"
                )
        if self.slopes == ():
            raise InvalidInputError("submodular: slopes must not be empty: give at least one value or None")

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Sweep, then search the multiplier around ``disclosure`` and time-share the two neighbours."""
        deadline = Deadline(self.time_limit)
        pool = Pool(problem.p_sx)
        self._sweep(problem, pool, self._slopes(), seed, deadline, progress)
        for round_ in range(self.refine):
            before, slope = pool.value(disclosure), pool.slope(disclosure)
            if deadline.passed() or slope <= 1e-12:
                break
            self._sweep(problem, pool, np.array([slope]), seed + 7919 * (round_ + 1), deadline, None)
            if pool.value(disclosure) > before - 1e-12:
                break
        return pool.answer(disclosure, message=self._message(deadline), seconds=deadline.elapsed())

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """The native sweep over the multiplier: every map that is on the envelope or best near its disclosure."""
        deadline = Deadline(self.time_limit)
        pool = Pool(problem.p_sx)
        self._sweep(problem, pool, self._slopes(), seed, deadline, progress)
        yield from pool.answers(message=self._message(deadline))

    def _slopes(self) -> Array:
        return np.geomspace(1e-3, 0.97, 30) if self.slopes is None else np.array(self.slopes)

    def _message(self, deadline: Deadline) -> str:
        return "submodular: the sweep was cut by the time limit" if deadline.passed() else ""

    def _sweep(
        self,
        problem: Problem,
        pool: Pool,
        slopes: Array,
        seed: int,
        deadline: Deadline,
        progress: Listener | None,
    ) -> None:
        for done, slope in enumerate(slopes):
            if deadline.passed():
                return
            rng = np.random.default_rng([seed, done])
            labels, merges = agglomerate(problem.p_sx, float(slope), rng, self.starts, self.exact_outputs)
            pool.runs += 1
            pool.converged += 1
            channel = channel_of(labels)[None]
            pool.add(channel, [Status.FEASIBLE], np.array([merges]), np.array([slope]))
            if progress is not None:
                progress(Progress(done=done + 1, total=len(slopes), message=f"submodular, slope {slope:.3g}"))


def agglomerate(
    p_sx: Array, slope: float, rng: np.random.Generator, starts: int, exact_outputs: int
) -> tuple[NDArray[np.int64], int]:
    """Merge subsets until none lowers ``I(S;Y) − λ I(X;Y)``; returns the labels (M,) and the number of merges."""
    labels = np.arange(p_sx.shape[1])
    columns = p_sx
    merges = 0
    while columns.shape[1] > 1:
        if columns.shape[1] <= exact_outputs:
            subset, change = enumerate_subsets(columns, slope)
        else:
            subset, change = search_subset(columns, slope, rng, starts)
        if change > -_GAIN:
            break
        new_index = np.cumsum(~subset) - 1
        rest = columns[:, ~subset]
        target = rest.shape[1]
        labels = np.where(subset[labels], target, new_index[labels])
        columns = np.hstack([rest, columns[:, subset].sum(axis=1, keepdims=True)])
        merges += 1
    return labels, merges


def merge_change(columns: Array, slope: float, subsets: Mask) -> Array:
    """``Δ(W)`` of merging each subset, rows of a mask (subsets, N), of the columns ``p(s, y)`` (K, N)."""
    joint = subsets.astype(np.float64) @ columns.T
    single = phi(columns).sum(axis=0) - (1.0 - slope) * phi(columns.sum(axis=0))
    return np.asarray((1.0 - slope) * phi(joint.sum(axis=1)) - phi(joint).sum(axis=1) + subsets @ single)


def enumerate_subsets(columns: Array, slope: float) -> tuple[Mask, float]:
    """The best subset by trying all of them."""
    n = columns.shape[1]
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 > 0
    change = merge_change(columns, slope, subsets)
    best = int(np.argmin(change))
    return subsets[best], float(change[best])


def search_subset(columns: Array, slope: float, rng: np.random.Generator, starts: int) -> tuple[Mask, float]:
    """A good subset by the submodular-supermodular procedure, from several starts.

    At the current set ``W`` the subtracted function ``h = Σ_s φ(p(s, ·))`` is replaced by a modular lower bound that is
    tight at ``W``: its gains along a permutation that lists ``W`` first. What remains is a concave function of ``p(W)``
    plus a modular one, whose minimum is exact (:func:`_minimise_bound`). Each round is therefore a descent; where it
    stalls, single elements are moved in or out while that helps, and the procedure goes on from there.
    """
    n = columns.shape[1]
    best, best_change = np.zeros(n, dtype=bool), 0.0
    for start in _starts(columns, slope, rng, starts):
        subset, change = start, float(merge_change(columns, slope, start[None])[0])
        while True:
            candidate = _minimise_bound(columns, slope, subset, rng)
            value = float(merge_change(columns, slope, candidate[None])[0])
            if value > change - _GAIN:
                toggled = subset ^ np.eye(n, dtype=bool)
                values = merge_change(columns, slope, toggled)
                at = int(np.argmin(values))
                candidate, value = toggled[at], float(values[at])
            if value > change - _GAIN:
                break
            subset, change = candidate, value
        if change < best_change:
            best, best_change = subset, change
    return best, best_change


def _minimise_bound(columns: Array, slope: float, subset: Mask, rng: np.random.Generator) -> Mask:
    """Minimise ``(1−λ) φ(p(W)) + c(W)``, where ``c`` holds the modular terms and the bound of ``h`` at ``subset``.

    The points ``(p(W), c(W))`` fill a zonotope, a concave function attains its minimum at a vertex of its lower side,
    and those vertices are the prefixes of the elements sorted by ``c_j / p_j``.
    """
    n = columns.shape[1]
    shuffled = rng.permutation(n)
    order = shuffled[np.argsort(~subset[shuffled], kind="stable")]
    along = phi(np.cumsum(columns[:, order], axis=1)).sum(axis=0)
    bound = np.empty(n)
    bound[order] = np.diff(along, prepend=0.0)
    p_y = columns.sum(axis=0)
    modular = phi(columns).sum(axis=0) - (1.0 - slope) * phi(p_y) - bound
    by_ratio = np.argsort(modular / p_y, kind="stable")
    values = (1.0 - slope) * phi(np.cumsum(p_y[by_ratio])) + np.cumsum(modular[by_ratio])
    size = int(np.argmin(values)) + 1
    chosen = np.zeros(n, dtype=bool)
    if values[size - 1] < 0.0:
        chosen[by_ratio[:size]] = True
    return chosen


def _starts(columns: Array, slope: float, rng: np.random.Generator, count: int) -> Iterator[Mask]:
    """The most promising pairs, everything, then random subsets of growing size: ``count`` starts in all."""
    n = columns.shape[1]
    first, second = np.triu_indices(n, 1)
    pairs = np.zeros((len(first), n), dtype=bool)
    rows = np.arange(len(first))
    pairs[rows, first] = pairs[rows, second] = True
    order = np.argsort(merge_change(columns, slope, pairs), kind="stable")
    chosen = [pairs[i] for i in order[: (count + 1) // 2]]
    chosen.append(np.ones(n, dtype=bool))
    while len(chosen) < count:
        chosen.append(rng.random(n) < rng.uniform(0.1, 0.9))
    yield from chosen[:count]
