"""Merging subsets of outputs by minimising a difference of submodular functions (Ding, Sadeghi 2019).

For a multiplier ``λ < 1`` start with ``Y = X`` and merge, again and again, the subset ``W`` of outputs that lowers
``I(S;Y) − λ I(X;Y)`` most. With ``φ(t) = −t log t`` a merge changes it by

    ``Δ(W) = (1−λ) φ(p(W)) − Σ_s φ(p(s, W)) + Σ_{j∈W} m_j``,   ``m_j = Σ_s φ(p(s, j)) − (1−λ) φ(p(j))``,

a difference of two concave functions of modular ones, hence of two submodular set functions. Minimising it is hard; the
inner search is the submodular-supermodular procedure of :func:`search_subset`, or enumeration for few outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.merging.partitions import channel_of, phi
from privfunnel.algorithms.options import check_numbers, check_whole
from privfunnel.algorithms.pool import ENTRY_SECONDS, Pool
from privfunnel.algorithms.sweep import MultiplierSweep
from privfunnel.certificate.answer import Status
from privfunnel.errors import InvalidInputError
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

Mask = NDArray[np.bool_]

#: A merge has to lower the objective by more than rounding.
_GAIN = 1e-12
#: Entries of the arrays that are looked at between two looks at the clock.
_BLOCK_ENTRIES = 1 << 20
#: Outputs whose subsets can be listed: 65 536 of them.
_MOST_ENUMERATED = 16


@dataclass(frozen=True, kw_only=True)
class Submodular(MultiplierSweep):
    """Iterative agglomerative merging of subsets, swept over the multiplier.

    Attributes:
        slopes: Multipliers 0 < λ < 1 of the sweep.
        restarts: Starts of the inner search for each merge: the best pairs, then random subsets.
        exact_outputs: Up to this many outputs the best subset is found by enumeration (at most 16).
        refine: How many times :meth:`solve` runs again at the slope of the chord around the asked disclosure.
        time_limit: Seconds after which nothing more is merged; infinite for no limit.
    """

    name: ClassVar[str] = "submodular"
    resolution: ClassVar[float] = _GAIN

    slopes: tuple[float, ...] = tuple(np.geomspace(1e-3, 0.97, 30).tolist())
    restarts: int = 12
    exact_outputs: int = 10
    refine: int = 8
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_whole(self.name, 1, restarts=self.restarts)
        check_whole(self.name, 0, exact_outputs=self.exact_outputs)
        if self.exact_outputs > _MOST_ENUMERATED:
            raise InvalidInputError(
                f"submodular: exact_outputs={self.exact_outputs} means 2^{self.exact_outputs} subsets: "
                f"give {_MOST_ENUMERATED} or fewer"
            )
        check_numbers(self.name, "slopes", self.slopes)
        if max(self.slopes) >= 1.0:
            raise InvalidInputError(
                f"submodular: slopes has {max(self.slopes)!r}, which is not usable: give numbers between 0 and 1"
            )

    def _multipliers(self) -> Array:
        return np.array(self.slopes)

    def _multiplier(self, slope: float) -> float:
        return slope

    def _fill(
        self,
        problem: Problem,
        pool: Pool,
        multipliers: Array,
        seed: int,
        deadline: Deadline,
        progress: Listener | None,
    ) -> None:
        for done, slope in enumerate(multipliers):
            if deadline.passed():
                return
            rng = np.random.default_rng([seed, done])
            labels, merges = agglomerate(
                problem.p_sx, float(slope), rng, self.restarts, self.exact_outputs, deadline
            )
            # What the time limit cut is kept where the channel takes a tenth of it at most: the pool has X itself.
            seconds = labels.size * (int(labels.max()) + 1) * ENTRY_SECONDS
            if deadline.passed() and seconds > 0.1 * deadline.seconds:
                pool.cut = True
                return
            pool.runs += 1
            pool.converged += 1
            channel = channel_of(labels)[None]
            pool.add(channel, [Status.FEASIBLE], np.array([merges]), np.array([slope]))
            if progress is not None:
                message = f"submodular, slope {slope:.3g}"
                progress(Progress(done=done + 1, total=len(multipliers), message=message))


def agglomerate(
    p_sx: Array,
    slope: float,
    rng: np.random.Generator,
    starts: int,
    exact_outputs: int,
    deadline: Deadline = NEVER,
) -> tuple[NDArray[np.int64], int]:
    """Merge subsets until none lowers ``I(S;Y) − λ I(X;Y)``; returns the labels (M,) and the number of merges.

    What has been merged when the time is up is a partition all the same.
    """
    labels = np.arange(p_sx.shape[1])
    columns = p_sx
    merges = 0
    while columns.shape[1] > 1:
        if columns.shape[1] <= exact_outputs:
            subset, change = enumerate_subsets(columns, slope)
        else:
            subset, change = search_subset(columns, slope, rng, starts, deadline)
        if change > -_GAIN or deadline.passed():
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


def search_subset(
    columns: Array, slope: float, rng: np.random.Generator, starts: int, deadline: Deadline = NEVER
) -> tuple[Mask, float]:
    """A good subset by the submodular-supermodular procedure, from several starts.

    At the current set ``W`` the subtracted function ``h = Σ_s φ(p(s, ·))`` is replaced by a modular lower bound that is
    tight at ``W``: its gains along a permutation that lists ``W`` first. What remains is a concave function of ``p(W)``
    plus a modular one, whose minimum is exact (:func:`_minimise_bound`). Each round is therefore a descent; where it
    stalls, single elements are moved in or out while that helps, and the procedure goes on from there.
    """
    n = columns.shape[1]
    best, best_change = np.zeros(n, dtype=bool), 0.0
    for start in _starts(columns, slope, rng, starts, deadline):
        subset, change = start, float(merge_change(columns, slope, start[None])[0])
        while not deadline.passed():
            candidate = _minimise_bound(columns, slope, subset, rng)
            value = float(merge_change(columns, slope, candidate[None])[0])
            if value > change - _GAIN:
                candidate, value = _best_toggle(columns, slope, subset)
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


def _best_toggle(columns: Array, slope: float, subset: Mask) -> tuple[Mask, float]:
    """The best set that differs from ``subset`` in one element, and its change."""
    n = columns.shape[1]
    values = np.empty(n)
    for first in range(0, n, block := max(1, _BLOCK_ENTRIES // n)):
        toggled = np.tile(subset, (min(block, n - first), 1))
        rows = np.arange(len(toggled))
        toggled[rows, first + rows] ^= True
        values[first : first + block] = merge_change(columns, slope, toggled)
    at = int(np.argmin(values))
    candidate = subset.copy()
    candidate[at] ^= True
    return candidate, float(values[at])


def _best_pairs(columns: Array, slope: float, count: int, deadline: Deadline) -> NDArray[np.int64]:
    """The ``count`` pairs (count, 2) whose merger changes the objective most, or the best of those there was time for.

    The first of equal ones is preferred, in the order (0, 1), (0, 2), …, (1, 2), ….
    """
    n = columns.shape[1]
    p_sy = np.ascontiguousarray(columns.T)
    single = phi(columns).sum(axis=0) - (1.0 - slope) * phi(columns.sum(axis=0))
    best, best_change = np.empty((0, 2), dtype=np.int64), np.empty(0)
    for first in range(0, n - 1, rows := max(1, _BLOCK_ENTRIES // (n * (1 + len(columns))))):
        if first and deadline.passed():
            break
        one, other = _pairs(first, min(first + rows, n - 1), n)
        joint = p_sy[one] + p_sy[other]
        change = (
            (1.0 - slope) * phi(joint.sum(axis=1)) - phi(joint).sum(axis=1) + (single[one] + single[other])
        )
        best = np.concatenate([best, np.stack([one, other], axis=1)])
        best_change = np.concatenate([best_change, change])
        order = np.argsort(best_change, kind="stable")[:count]
        best, best_change = best[order], best_change[order]
    return best


def _pairs(first: int, last: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs (i, j) with ``first ≤ i < last`` and i < j < n, in order."""
    one, other = np.triu_indices(last - first, 1, n - first)
    return one + first, other + first


def _starts(
    columns: Array, slope: float, rng: np.random.Generator, count: int, deadline: Deadline
) -> Iterator[Mask]:
    """The most promising pairs, everything, then random subsets of growing size: ``count`` starts in all."""
    n = columns.shape[1]
    chosen: list[Mask] = []
    for pair in _best_pairs(columns, slope, (count + 1) // 2, deadline):
        mask = np.zeros(n, dtype=bool)
        mask[pair] = True
        chosen.append(mask)
    chosen.append(np.ones(n, dtype=bool))
    while len(chosen) < count:
        chosen.append(np.asarray(rng.random(n) < rng.uniform(0.1, 0.9)))
    yield from chosen[:count]
