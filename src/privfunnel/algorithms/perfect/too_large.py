"""The free disclosure of tables too large for a search: pairs for two private symbols, one split for others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from privfunnel.algorithms.binary.transport import proved_pairs
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.algorithms.perfect.splitting import split
from privfunnel.measures import Array, Channel, lift
from privfunnel.model.channels import as_held
from privfunnel.model.problem import Problem

#: Up to this many public symbols the pairs of two private symbols are listed like any other vertices.
LISTED_PAIRS = 64
#: Beyond this many public symbols one linear program of the search takes longer than its time limit.
MOST_SEARCHED = 2000


class Found(NamedTuple):
    """A channel without leakage, dense (M, N) up to ten million entries, and the most that any discloses, in nats.

    ``prices`` (M,) say so by pairs; None where a closed form does.
    """

    channel: Channel
    upper: float
    prices: Array | None = None


def most_free(problem: Problem) -> float:
    """What no channel without leakage exceeds, in nats: H(X) − Σ p(x) log max_s p(s|x)/p(s), no more than H(X|S).

    P w = p(s) keeps every w_x below min_s p(s)/p(s|x), and H(X|Y) is the mean of −log w_x.
    """
    told = float(np.log(lift(problem.p_sx).max(axis=0)) @ problem.p_x)
    return problem.disclosure_ceiling - told + problem.rounding


def by_pairs(problem: Problem) -> Found:
    """The largest disclosure without leakage of a binary private symbol, proved: see :mod:`..binary.transport`."""
    found, upper = proved_pairs(problem)
    return Found(as_held(found.release.channel(problem.n_x)), upper, found.prices)


def by_split(problem: Problem, rows: Array, goal: Array, deadline: Deadline = NEVER) -> Found:
    """At least H(X) − log rank(P) nats, without a search, less where there is no time: see :mod:`.splitting`."""
    parts = split(rows, goal, problem.p_x, deadline)
    masses = sparse.csc_array((parts.posteriors * parts.weights[:, None]).T)
    channel = sparse.csc_array(sparse.diags_array(1.0 / masses.sum(axis=1)) @ masses)
    return Found(as_held(channel), most_free(problem))
