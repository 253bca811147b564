"""Bounds from fewer private symbols, for tables whose rank is too large to search.

If S' is a function of S then I(S';Y) ≤ I(S;Y) for every channel, so that L_S'(R) ≤ L_S(R): a certificate for the
table with merged private symbols is a certificate for the table itself.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privfunnel.algorithms.columns.plain import first_posteriors as seeding
from privfunnel.algorithms.columns.plain.search import Search
from privfunnel.algorithms.deadline import NEVER, Deadline, Limits
from privfunnel.certificate import Certificate, PlainBody
from privfunnel.measures import Array, mutual_information
from privfunnel.model.equal_symbols import lumping_of
from privfunnel.model.problem import Problem

#: Numbers of groups that are tried.
SIZES = (5, 4, 3, 2)
#: Numbers that are tried of tables so large that their own proof is out of reach, the first with all the time it
#: needs: proofs by supports end soonest there.
LARGE_SIZES = (3, 4)


def _losses(table: Array, row: int, others: NDArray[np.intp]) -> Array:
    """What merging ``row`` of a joint table (K, M) with each of ``others`` loses of I(S;X), in nats.

    It is the information about X in which of the two it was, when it was one of them.
    """
    pairs = np.stack([np.broadcast_to(table[row], (others.size, table.shape[1])), table[others]], axis=1)
    masses = pairs.sum(axis=(1, 2))
    return np.asarray(masses * mutual_information(pairs / masses[:, None, None]))


def coarsenings(p_sx: Array, deadline: Deadline = NEVER) -> list[NDArray[np.int32]]:
    """Group of each private symbol, (K,), for 5, 4, 3 and 2 groups, as far as that merges anything.

    Greedy: of all pairs of groups the one whose merger loses least of I(S;X) is merged, again and again; O(K² M). None
    where there is no time.
    """
    n_s = len(p_sx)
    table, groups = p_sx.copy(), np.arange(n_s, dtype=np.int32)
    losses = np.full(
        (n_s, n_s), np.inf
    )  # of pairs i < j of groups that are left, named by their first symbol
    for i in range(n_s - 1):
        if deadline.passed():
            return []
        losses[i, i + 1 :] = _losses(table, i, np.arange(i + 1, n_s))
    coarser: list[NDArray[np.int32]] = []
    for left in range(n_s - 1, 1, -1):
        if deadline.passed():
            return coarser
        i, j = divmod(int(np.argmin(losses)), n_s)
        table[i] += table[j]
        groups[groups == j] = i
        losses[j, :] = losses[:, j] = np.inf
        others = np.setdiff1d(groups, [i]).astype(np.intp)
        again = _losses(table, i, others)
        losses[i, others[others > i]], losses[others[others < i], i] = again[others > i], again[others < i]
        if left in SIZES:
            coarser.append(np.unique(groups, return_inverse=True)[1].astype(np.int32))
    return coarser


def coarse_lines(
    problem: Problem, disclosure: float, gap: float, limits: Limits, rng: Generator
) -> list[Certificate]:
    """Lines below the curve of ``problem``, proved on coarser tables at ``disclosure`` nats.

    The time is for all of them, the boxes are for each.
    """
    lines = []
    tables = coarsenings(problem.p_sx, limits)
    seeded = seeding.beyond_proofs(problem)
    if seeded:
        tables = sorted((groups for groups in tables if groups.max() + 1 in LARGE_SIZES), key=np.max)
    for number, groups in enumerate(tables):
        if limits.passed():
            break
        lumping = lumping_of(_merged(problem, groups))
        inner = lumping.inner(disclosure)
        seconds = limits.left() / (1 if seeded else len(tables) - number)
        search = Search(lumping.lumped, rng, Limits(seconds, limits.clock, nodes=limits.nodes))
        own = gap
        if seeded:
            search.seed(inner)
            # The share of its value that such a table's proof may leave.
            own = max(gap, 0.01 * search.master.solve(inner).value)
        search.close(inner, own)
        _, line = search.bound(inner)
        if line is not None:
            cells = None if lumping.trivial else lumping.cells
            body = line.body_of(PlainBody)
            prices = body.prices if cells is None else body.prices[cells]
            lines.append(PlainBody.build(problem, prices, line.slope, body.proofs, groups, cells))
    return lines


def _merged(problem: Problem, groups: NDArray[np.int32]) -> Problem:
    """The problem of the groups of private symbols; what tells symbols of a group apart is gone."""
    table = problem.p_sx if problem.counts is None else problem.counts
    merged = np.zeros((int(groups.max()) + 1, problem.n_x), dtype=table.dtype)
    np.add.at(merged, groups, table)
    return Problem(merged)
