"""What the trees of guarded certificates speak of: the images of a posterior, stacked, and their multipliers.

A bracket of the general funnel is Σ_a θ_a φ_a(w) + μ H(w) − a·w over posteriors w of a convex set W. Each part has
multipliers z that bound it from below by a linear function of w, whatever z is stored, after it is normalised:

* ``entropy``, ``largest``, ``quadratic``, ``variation``: φ(t) ≥ z·t with t = columns·w, one block for each value of
  what an attacker knows, see :mod:`privfunnel.measures.leakages`; θ is in the columns because φ is homogeneous;
* ``equal``: W has columns·w = 0, so that z·columns·w = 0;
* ``below``: W has columns·w ≤ 0; z ≥ 0 gives 0 ≥ z·columns·w;
* ``ball``: W has ‖columns·w‖₁ ≤ ρ, so that z·columns·w ≤ ρ max|z|;
* ``diverse``: W has H(t) ≥ log l; with η ≥ 0 and Σ exp q_k ≤ 1, 0 ≥ η(log l − H(t)) ≥ η log l + ηq·t; z = (ηq, η).

A release for a task has λ Σ_d ω_d (−v_d log v_d) in the bracket, with v = p(u|y) = Qw. Then the *entries* of a point
are the M of w and the D of v, each with its concave term and its interval, and

* ``kept``: the entries satisfy Qw − v = 0, so that z·(Qw − v) = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.measures import INFORMATION, TINY, Array
from privfunnel.measures.leakages import KINDS, gibbs
from privfunnel.model.tasks import Utility
from privfunnel.model.threat import Stratum, Threat

Index = NDArray[np.intp]

_EPS = float(np.finfo(np.float64).eps)
#: Entries of t are raised to this share of T before log gives multipliers: huge ones are refused.
LEAST_IMAGE = 1e-16
#: How far an entry of p(u|y) may leave the interval that those of p(u|x) span, by rounding.
_SLACK = 1e-13


class Block(NamedTuple):
    """Columns ``start`` to ``stop`` of a stack: their kind, and whose average they belong to.

    ``number`` is ρ of a ball and log l of a diversity, ``prior`` p(s|a) of an average's block, (stop − start,).
    """

    kind: str
    start: int
    stop: int
    owner: int = -1
    number: float = 0.0
    prior: Array | None = None

    @property
    def places(self) -> slice:
        """Where they are."""
        return slice(self.start, self.stop)

    @property
    def leaks(self) -> bool:
        """Whether it is part of an average, and no constraint."""
        return self.kind in KINDS


class _Made(NamedTuple):
    """One block before it has a place: columns (M, j), sizes (M, j)."""

    kind: str
    columns: Array
    sizes: Array
    owner: int = -1
    number: float = 0.0
    prior: Array | None = None

    def longer(self, entries: int) -> _Made:
        """The same for points with so many further entries, about which it says nothing."""
        more = np.zeros((entries, self.columns.shape[1]))
        return self._replace(
            columns=np.concatenate([self.columns, more]), sizes=np.concatenate([self.sizes, more])
        )


class Alike(NamedTuple):
    """B blocks of one attacker's mutual information that have as many members, g, and columns, k.

    Attributes:
        members: The entries of a point that each block sees, (B, g); no two blocks of an attacker share one.
        places: Its columns in the stack, (B, k).
        columns: Those columns of its members, (B, g, k).
    """

    members: Index
    places: Index
    columns: Array


@dataclass(frozen=True, eq=False)
class Stack:
    """The images of a stratum's points: their n entries are those of a posterior, n = M, and of a task's p(u|y).

    Attributes:
        columns: Shape (n, J); those of an average are multiplied by its weight θ.
        sizes: The absolute values that each entry is a sum of, shape (n, J).
        blocks: What they are.
        caps: Largest entries of a point, shape (n,).
        tasks: What the release is for, the M public symbols of the stratum alone; None for no task.
    """

    columns: Array
    sizes: Array
    blocks: tuple[Block, ...]
    caps: Array
    tasks: Utility | None = None

    @property
    def n_x(self) -> int:
        """M, the number of public symbols."""
        return len(self.columns) - (0 if self.tasks is None else len(self.tasks.rows))

    @property
    def floors(self) -> Array:
        """Least entries of a point, shape (n,)."""
        if self.tasks is None:
            return np.zeros(self.n_x)
        return np.concatenate([np.zeros(self.n_x), np.maximum(self.tasks.rows.min(axis=1) - _SLACK, 0.0)])

    @property
    def groups(self) -> tuple[slice, ...]:
        """The entries that sum to 1 each: the posterior, and p(u|y) of every task."""
        if self.tasks is None:
            return (slice(0, self.n_x),)
        ends = np.cumsum([0, self.n_x, *(task.n_u for task in self.tasks.tasks)]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """The blocks of mutual information, those together that can be worked on together."""
        shared: dict[tuple[int, int, int], list[tuple[Index, Index]]] = {}
        for block in self.blocks:
            if block.kind == "entropy":
                members = np.flatnonzero(self.columns[:, block.places].any(axis=1))
                key = (block.owner, members.size, block.stop - block.start)
                shared.setdefault(key, []).append((members, np.arange(block.start, block.stop)))
        made = []
        for listed in shared.values():
            members, places = (np.array(each) for each in zip(*listed, strict=True))
            made.append(Alike(members, places, self.columns[members[:, :, None], places[:, None, :]]))
        return tuple(made)

    def points(self, posteriors: Array) -> Array:
        """Posteriors (…, M) with their p(u|y) behind them, (…, n)."""
        if self.tasks is None:
            return posteriors
        return np.concatenate([posteriors, posteriors @ self.tasks.rows.T], axis=-1)

    def touching(self, posteriors: Array) -> Array:
        """The multipliers (n, J) that touch attackers' φ at posteriors (n, M), log t/T; those of other blocks are 0."""
        images = posteriors @ self.columns
        made = np.zeros_like(images)
        for each in self.alike:
            t = images[:, each.places]
            total = t.sum(axis=2, keepdims=True)
            raised = np.where(total > TINY, np.maximum(t, LEAST_IMAGE * total), 1.0)
            made[:, each.places] = np.log(raised / raised.sum(axis=2, keepdims=True))
        return made

    def normalised(self, given: Array) -> tuple[Array, Array]:
        """Multipliers (n, J) made safe, and what has to be added to each bound, (n,); see the module's list."""
        made, shift = given.copy(), np.zeros(len(given))
        for each in self.alike:
            z = given[:, each.places].reshape(-1, each.places.shape[1])
            made[:, each.places] = gibbs(z).reshape(len(given), *each.places.shape)
        for block in self.blocks:
            if block.kind == "entropy":
                continue
            z = given[:, block.places]
            if block.prior is not None:
                made[:, block.places] = KINDS[block.kind].safe(z, block.prior)
            elif block.kind == "below":
                made[:, block.places] = np.maximum(z, 0.0)
            elif block.kind == "ball":
                shift -= block.number * np.abs(z).max(axis=1, initial=0.0) * (1.0 + 4.0 * _EPS)
            elif block.kind == "diverse":
                weight = np.maximum(z[:, -1:], 0.0)
                some = weight > 0.0
                q = gibbs(np.where(some, z[:, :-1] / np.where(some, weight, 1.0), 0.0))
                made[:, block.places] = np.concatenate([weight * q, weight], axis=1)
        return made, shift


def stack(
    stratum: Stratum, threat: Threat, weights: Sequence[float], *, zero: bool, tasks: Utility | None = None
) -> Stack:
    """The images that a proof about this stratum may use.

    Args:
        stratum: The symbols, all of them where nothing is published.
        threat: Attackers and guarantees.
        weights: θ, one an average; those of weight 0 have no columns.
        zero: Whether nothing may leak to any attacker, or about some attributes: W is then the posteriors that tell
            nothing of it.
        tasks: The problem's tasks where the release is for them, of all its public symbols.
    """
    n_x = stratum.problem.n_x
    made = [*_leakages(stratum, threat, weights), *_constraints(stratum, threat, zero=zero)]
    caps = np.ones(n_x)
    own = None if tasks is None else tasks.among(stratum.x)
    for guarantee in threat.guarantees:
        cap = guarantee.caps(stratum.problem)
        caps = caps if cap is None else np.minimum(caps, cap * (1.0 + 4.0 * _EPS))
    if own is not None:
        made = [*(each.longer(len(own.rows)) for each in made), _kept(own)]
        caps = np.concatenate([caps, np.minimum(own.rows.max(axis=1) + _SLACK, 1.0)])
    ends = np.cumsum([0, *(each.columns.shape[1] for each in made)])
    blocks = tuple(
        Block(each.kind, int(start), int(stop), each.owner, each.number, each.prior)
        for each, start, stop in zip(made, ends, ends[1:], strict=False)
    )
    empty = np.zeros((caps.size, 0))
    columns = np.concatenate([empty, *(each.columns for each in made)], axis=1)
    sizes = np.concatenate([empty, *(each.sizes for each in made)], axis=1)
    return Stack(np.ascontiguousarray(columns), np.ascontiguousarray(sizes), blocks, caps, own)


def _kept(tasks: Utility) -> _Made:
    """One column for each entry of v, which says v = Qw."""
    n_v = len(tasks.rows)
    columns = np.concatenate([tasks.rows.T, -np.eye(n_v)])
    return _Made("kept", columns, np.abs(columns))


def _leakages(stratum: Stratum, threat: Threat, weights: Sequence[float]) -> Iterator[_Made]:
    """The images of each average with a weight, one block a value of A."""
    for image in threat.images(stratum):
        if weights[image.owner] > 0.0:
            columns = np.zeros((stratum.problem.n_x, image.prior.size))
            columns[image.x] = weights[image.owner] * image.columns
            yield _Made(threat.measure.kind, columns, columns, image.owner, prior=image.prior)


def _constraints(stratum: Stratum, threat: Threat, *, zero: bool) -> Iterator[_Made]:
    """What W consists of."""
    problem = stratum.problem
    p = problem.p_s_given_x
    if zero:
        # The images of mutual information are those of p(s|x) itself, one for each value of what is known.
        plain = replace(threat, measure=INFORMATION)
        silent = plain.silent(zero=zero)
        for image in plain.images(stratum):
            if image.x.size > 1 and silent[image.owner]:
                columns, sizes = np.zeros((2, p.shape[1], image.prior.size))
                columns[image.x] = image.columns - image.prior
                sizes[image.x] = image.columns + image.prior
                yield _Made("equal", columns, sizes, image.owner)
    for guarantee in threat.guarantees:
        rows = guarantee.rows(problem)
        if len(rows.values):
            yield _Made("below", rows.values.T, rows.sizes.T)
        for ball in guarantee.balls(problem):
            yield _Made("ball", ball.values.T, ball.sizes.T, number=ball.radius)
        least = guarantee.least_entropy
        if least is not None:
            columns = np.concatenate([p.T, np.full((p.shape[1], 1), least)], axis=1)
            yield _Made("diverse", columns, np.abs(columns), number=least)
