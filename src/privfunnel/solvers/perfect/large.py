"""The free disclosure of tables too large for a search: pairs for two private symbols, one split for others."""

from __future__ import annotations

from typing import NamedTuple

from scipy import sparse

from privfunnel.channels import as_held
from privfunnel.measures import Array
from privfunnel.problem import Channel, Problem
from privfunnel.solvers.binary.transport import free_pairs
from privfunnel.solvers.perfect.splitting import split

#: Up to this many public symbols the pairs of two private symbols are listed like any other vertices.
LISTED_PAIRS = 64


#: Beyond this many public symbols one linear program of the search takes longer than its time limit.
MOST_SEARCHED = 2000


class Found(NamedTuple):
    """A channel without leakage, dense (M, N) up to ten million entries, and the most that any discloses, in nats."""

    channel: Channel
    upper: float


def by_pairs(problem: Problem) -> Found:
    """The largest disclosure without leakage of a binary private symbol, proved: see :mod:`..binary.transport`."""
    found = free_pairs(problem.p_sx)
    return Found(as_held(found.release.channel(problem.n_x)), min(found.upper, problem.disclosure_ceiling))


def by_split(problem: Problem, rows: Array, goal: Array) -> Found:
    """At least H(X) − log rank(P) nats, without a search: see :mod:`.splitting`."""
    parts = split(rows, goal, problem.p_x)
    masses = sparse.csc_array((parts.posteriors * parts.weights[:, None]).T)
    channel = sparse.csc_array(sparse.diags_array(1.0 / masses.sum(axis=1)) @ masses)
    return Found(as_held(channel), problem.h_x_given_s)
