"""The images of posteriors under an attacker's eyes, compiled: values, cuts and curvature of −Σ θ_a H(S|A_a)_w.

The columns are those that a certificate has, multiplied by the attackers' weights: φ = Σ_b Σ_k t_k log(t_k/T_b), with
t = columns·w and T_b = Σ t of block b, which is one value of what one attacker knows. A symbol is in one block of each
attacker, so that blocks list their members and no work is done on the zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.posteriors.boxes import plogp
from privfunnel.certificate.attacker_images import LEAST_IMAGE, Stack
from privfunnel.infra.jit import compiled
from privfunnel.measures import TINY, Array

Index = NDArray[np.int64]


class Images(NamedTuple):
    """The blocks of a stack: ``columns`` (M, J), where each begins, (B + 1,), and its members, list after list.

    Block b has the columns ``starts[b]`` to ``starts[b + 1]`` and the symbols ``members[first[b]:first[b + 1]]``.
    """

    columns: Array
    starts: Index
    members: Index
    first: Index


def images_of(stack: Stack) -> Images:
    """The blocks of a stack that has no others than attackers'."""
    listed = [np.flatnonzero(stack.columns[:, block.places].any(axis=1)) for block in stack.blocks]
    starts = [block.start for block in stack.blocks] + [stack.columns.shape[1]]
    first = np.cumsum([0, *(each.size for each in listed)])
    members = np.concatenate([np.zeros(0, np.int64), *listed])
    return Images(stack.columns, np.array(starts, np.int64), members.astype(np.int64), first.astype(np.int64))


@compiled
def fill_image(images: Images, point: Array, image: Array, sums: Array) -> float:
    """Write t (J,) and T (B,) of a posterior (M,); return φ in nats."""
    columns, starts, members, first = images
    value = 0.0
    for b in range(sums.size):
        total = 0.0
        for k in range(starts[b], starts[b + 1]):
            image[k] = 0.0
        for m in range(first[b], first[b + 1]):
            w = point[members[m]]
            if w > 0.0:
                for k in range(starts[b], starts[b + 1]):
                    image[k] += w * columns[members[m], k]
        for k in range(starts[b], starts[b + 1]):
            total += image[k]
            value += plogp(image[k])
        sums[b] = total
        value -= plogp(total)
    return value


@compiled
def fill_multipliers(images: Images, image: Array, sums: Array, q: Array) -> None:
    """``q = log t/T``, (J,): the cut that touches φ there; where a block is empty any will do, and all are equal."""
    starts = images.starts
    for b in range(sums.size):
        if sums[b] <= TINY:
            for k in range(starts[b], starts[b + 1]):
                q[k] = -np.log(starts[b + 1] - starts[b])
        else:
            norm = 0.0
            for k in range(starts[b], starts[b + 1]):
                norm += max(image[k], LEAST_IMAGE * sums[b])
            for k in range(starts[b], starts[b + 1]):
                q[k] = np.log(max(image[k], LEAST_IMAGE * sums[b]) / norm)


@compiled
def fill_costs(images: Images, linear: Array, q: Array, cost: Array) -> None:
    """``cost = columns·q + linear``, (M,): what the knapsack minimises for these multipliers (J,)."""
    columns, starts, members, first = images
    for i in range(cost.size):
        cost[i] = linear[i]
    for b in range(starts.size - 1):
        for m in range(first[b], first[b + 1]):
            total = 0.0
            for k in range(starts[b], starts[b + 1]):
                total += columns[members[m], k] * q[k]
            cost[members[m]] += total


@compiled
def fill_curvature(images: Images, image: Array, sums: Array, matrix: Array) -> None:
    """Write the lower triangle of φ's second derivatives, (M, M)."""
    columns, starts, members, first = images
    # Divisions once for each entry, not once for each pair of symbols.
    inverse = np.zeros(image.size)
    for k in range(image.size):
        if image[k] > TINY:
            inverse[k] = 1.0 / image[k]
    scaled = np.zeros(image.size)
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            matrix[i, j] = 0.0
    for b in range(sums.size):
        if sums[b] <= TINY:
            continue
        for m in range(first[b], first[b + 1]):
            i = members[m]
            # d²φ/dw_i dw_j = Σ_k c_ik c_jk/t_k − Σ_k c_ik Σ_k c_jk/T = Σ_k (c_ik/t_k − Σc_i/T) c_jk
            own = 0.0
            for k in range(starts[b], starts[b + 1]):
                own += columns[i, k]
            for k in range(starts[b], starts[b + 1]):
                scaled[k] = columns[i, k] * inverse[k] - own / sums[b]
            for n in range(first[b], m + 1):
                j = members[n]
                entry = 0.0
                for k in range(starts[b], starts[b + 1]):
                    entry += scaled[k] * columns[j, k]
                matrix[i, j] += entry
