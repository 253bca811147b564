"""What the trees of guarded certificates speak of: the images of a posterior, stacked, and their multipliers.

A bracket of the general funnel is Σ_a θ_a φ_a(w) + μ H(w) − a·w over posteriors w of a convex set W. Each part has
multipliers z that bound it from below by a linear function of w, whatever z is stored, after it is normalised:

* ``entropy``, ``largest``, ``quadratic``, ``variation``: φ(t) ≥ z·t with t = columns·w, one block for each value of
  what an attacker knows, see :mod:`privfunnel.averages`; θ is in the columns because φ is homogeneous;
* ``equal``: W has columns·w = 0, so that z·columns·w = 0;
* ``below``: W has columns·w ≤ 0; z ≥ 0 gives 0 ≥ z·columns·w;
* ``ball``: W has ‖columns·w‖₁ ≤ ρ, so that z·columns·w ≤ ρ max|z|;
* ``diverse``: W has H(t) ≥ log l; with η ≥ 0 and Σ exp q_k ≤ 1, 0 ≥ η(log l − H(t)) ≥ η log l + ηq·t; z = (ηq, η).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.averages import KINDS, gibbs
from privfunnel.measures import Array
from privfunnel.threats import Stratum, Threat

_EPS = float(np.finfo(np.float64).eps)


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


@dataclass(frozen=True, eq=False)
class Stack:
    """The images of a stratum's posteriors.

    Attributes:
        columns: Shape (M, J); those of an average are multiplied by its weight θ.
        sizes: The absolute values that each entry is a sum of, shape (M, J).
        blocks: What they are.
        caps: Largest entries of a posterior, shape (M,).
    """

    columns: Array
    sizes: Array
    blocks: tuple[Block, ...]
    caps: Array

    def normalised(self, given: Array) -> tuple[Array, Array]:
        """Multipliers (n, J) made safe, and what has to be added to each bound, (n,); see the module's list."""
        made, shift = given.copy(), np.zeros(len(given))
        for block in self.blocks:
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


def stack(stratum: Stratum, threat: Threat, weights: Sequence[float], *, zero: bool) -> Stack:
    """The images that a proof about this stratum may use.

    Args:
        stratum: The symbols, all of them where nothing is published.
        threat: Attackers and guarantees.
        weights: θ, one an average; those of weight 0 have no columns.
        zero: Whether nothing may leak to any attacker, or about some attributes: W is then the posteriors that tell
            nothing of it.
    """
    n_x = stratum.problem.n_x
    made = [*_leakages(stratum, threat, weights), *_constraints(stratum, threat, zero=zero)]
    caps = np.ones(n_x)
    for guarantee in threat.guarantees:
        cap = guarantee.caps(stratum.problem)
        caps = caps if cap is None else np.minimum(caps, cap * (1.0 + 4.0 * _EPS))
    ends = np.cumsum([0, *(each.columns.shape[1] for each in made)])
    blocks = tuple(
        Block(each.kind, int(start), int(stop), each.owner, each.number, each.prior)
        for each, start, stop in zip(made, ends, ends[1:], strict=False)
    )
    empty = np.zeros((n_x, 0))
    columns = np.concatenate([empty, *(each.columns for each in made)], axis=1)
    sizes = np.concatenate([empty, *(each.sizes for each in made)], axis=1)
    return Stack(np.ascontiguousarray(columns), np.ascontiguousarray(sizes), blocks, caps)


def _leakages(stratum: Stratum, threat: Threat, weights: Sequence[float]) -> Iterator[_Made]:
    """The images of each average with a weight, one block a value of A."""
    for image in threat.images(stratum):
        if weights[image.owner] > 0.0:
            columns = np.zeros((stratum.problem.n_x, image.prior.size))
            columns[image.x] = weights[image.owner] * image.columns
            yield _Made(threat.convex.kind, columns, columns, image.owner, prior=image.prior)


def _constraints(stratum: Stratum, threat: Threat, *, zero: bool) -> Iterator[_Made]:
    """What W consists of."""
    problem = stratum.problem
    p = problem.p_s_given_x
    if zero:
        # The images of mutual information are those of p(s|x) itself, one for each value of what is known.
        plain = replace(threat, measure=DEFAULT_MEASURE)
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
