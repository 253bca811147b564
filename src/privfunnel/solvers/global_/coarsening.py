"""Bounds from fewer private symbols, for tables whose rank is too large to search.

If S' is a function of S then I(S';Y) ≤ I(S;Y) for every channel, so that L_S'(R) ≤ L_S(R): a certificate for the
table with merged private symbols is a certificate for the table itself.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privfunnel.certificate import Certificate
from privfunnel.measures import Array, mutual_information
from privfunnel.problem import Problem
from privfunnel.solvers.deadline import Limits
from privfunnel.solvers.global_.search import Search

#: Numbers of groups that are tried.
SIZES = (5, 4, 3, 2)


def coarsenings(p_sx: Array) -> list[NDArray[np.int32]]:
    """Group of each private symbol, (K,), for 5, 4, 3 and 2 groups, as far as that merges anything.

    Greedy: of all pairs of groups the one whose merger loses least of I(S;X) is merged, again and again.
    """
    groups = np.arange(p_sx.shape[0], dtype=np.int32)
    table = p_sx.copy()
    coarser = []
    while len(table) > 2:
        best, pair = -1.0, (0, 1)
        for i in range(len(table)):
            for j in range(i + 1, len(table)):
                merged = np.delete(table, j, axis=0)
                merged[i] += table[j]
                kept = float(mutual_information(merged))
                if kept > best:
                    best, pair = kept, (i, j)
        i, j = pair
        table[i] += table[j]
        table = np.delete(table, j, axis=0)
        groups[groups == j] = i
        groups[groups > j] -= 1
        if len(table) in SIZES:
            coarser.append(groups.copy())
    return coarser


def coarse_lines(
    problem: Problem, disclosure: float, gap: float, limits: Limits, rng: Generator
) -> list[Certificate]:
    """Lines below the curve of ``problem``, proved on coarser tables at ``disclosure`` nats; limits are for each."""
    lines = []
    for groups in coarsenings(problem.p_sx):
        merged = np.zeros((int(groups.max()) + 1, problem.n_x))
        np.add.at(merged, groups, problem.p_sx)
        search = Search(Problem(merged), rng, limits.restarted())
        search.close(disclosure, gap)
        _, line = search.bound(disclosure)
        if line is not None:
            lines.append(Certificate.build(problem, line.prices, line.slope, line.proofs, groups))
    return lines
