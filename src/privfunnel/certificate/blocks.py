"""How checkers walk through a tree of boxes: block after block of nodes, large enough for NumPy and for any memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate.tree import LEAF, Index
from privfunnel.errors import CertificateError
from privfunnel.measures import Array

Mask = NDArray[np.bool_]


class Block(NamedTuple):
    """Some nodes (n,) and the lower and upper ends of their boxes, (n, …) each."""

    nodes: Index
    lower: Array
    upper: Array

    def where(self, chosen: Mask | slice) -> Block:
        """Some of them."""
        return Block(self.nodes[chosen], self.lower[chosen], self.upper[chosen])


def walk(roots: Block, n_nodes: int, check: Callable[[Block], Block | None]) -> None:
    """Check a tree of ``n_nodes`` from its roots on, whatever ``check`` gives as children of a block.

    Raises:
        CertificateError: A node was reached twice, or the check failed.
    """
    seen = np.zeros(n_nodes, dtype=bool)
    pending = [roots]
    while pending:
        block = pending.pop()
        # Boxes that are worked on at a time, which bounds memory.
        if block.nodes.size > 2048:
            half = block.nodes.size // 2
            pending += [block.where(slice(half)), block.where(slice(half, None))]
            continue
        if np.any(seen[block.nodes]) or np.unique(block.nodes).size < block.nodes.size:
            raise CertificateError("the certificate's tree is damaged: a box has two parents")
        seen[block.nodes] = True
        children = check(block)
        if children is not None:
            pending.append(children)


def refuse_leaves(variable: NDArray[np.int32], excess: Array) -> None:
    """Raise CertificateError if a box that is still open, ``excess`` nats short of the claim, (n, 1), is a leaf."""
    leaf = variable == LEAF
    if leaf.any():
        short = float(excess[leaf].max())
        raise CertificateError(
            f"the certificate does not prove its claim: a box is {short:.3g} nats short of it"
        )
