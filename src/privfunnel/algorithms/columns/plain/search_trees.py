"""The tree of a search by boxes, with room for more nodes than there are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.algorithms.posteriors.boxes import copy
from privfunnel.certificate import LEAF
from privfunnel.infra.jit import compiled, compiled_inner
from privfunnel.measures import Array


class Tree(NamedTuple):
    """The nodes' arrays as in :class:`privfunnel.certificate.Proof`, with room for more nodes than there are."""

    q: Array
    nu: Array
    variable: NDArray[np.int32]
    split: Array
    first: NDArray[np.int32]


@compiled(later=True)
def new_tree(size: int, n_s: int) -> Tree:
    """A tree with room for ``size`` nodes, all leaves; the root's multipliers are those of the uniform p(s)."""
    q = np.zeros((size, n_s))
    for k in range(n_s):
        q[0, k] = -np.log(n_s)
    return Tree(
        q, np.zeros(size), np.full(size, LEAF, np.int32), np.zeros((size, 2)), np.zeros(size, np.int32)
    )


@compiled_inner
def doubled(table: Array) -> Array:
    """A table (n, m) with room for as many rows again, which are 0."""
    larger = np.zeros((2 * table.shape[0], table.shape[1]))
    for i in range(table.shape[0]):
        copy(larger[i], table[i])
    return larger


@compiled_inner
def doubled_index(values: NDArray[np.int32], rest: int) -> NDArray[np.int32]:
    """A vector with room for as many entries again, which are ``rest``."""
    larger = np.full(2 * values.size, rest, np.int32)
    for i in range(values.size):
        larger[i] = values[i]
    return larger


@compiled(later=True)
def grown(tree: Tree) -> Tree:
    """The tree with room for twice as many nodes."""
    return Tree(
        doubled(tree.q),
        doubled(tree.nu.reshape(-1, 1)).reshape(-1),
        doubled_index(tree.variable, LEAF),
        doubled(tree.split),
        doubled_index(tree.first, 0),
    )


@compiled(later=True)
def kept(tree: Tree, n: int) -> Tree:
    """The tree without the room beyond its ``n`` nodes."""
    return Tree(tree.q[:n], tree.nu[:n], tree.variable[:n], tree.split[:n], tree.first[:n])


def root_alone(tree: Tree) -> Tree:
    """A tree of nothing but this one's root."""
    root = kept(tree, 1)
    return root._replace(variable=np.full(1, LEAF, np.int32))
