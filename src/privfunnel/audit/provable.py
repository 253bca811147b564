"""Designs that can be guaranteed: outputs are merged where that lowers the leakage that held-out rows can prove.

What n rows prove about a release of N outputs is about its leakage, plus what chance adds to it in N outputs, plus a
term for the confidence. Merging two outputs lowers the first two and costs disclosure. So designs that disclose more
than was asked for are merged down to it, and the one of which the rows can be expected to prove the least leakage is
taken. The held-out rows themselves are not looked at, only their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from privfunnel import measures
from privfunnel.certificate.answer import Answer, Status
from privfunnel.data.population.bounds import expected_bound
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import is_sparse, merge_outputs
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, Quantity
from privfunnel.solving.judging import Run, judge
from privfunnel.solving.point import solve
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution

#: Where between the disclosure that was asked for and all of X the designs lie that are merged down.
BEYOND = (0.0, 0.05, 0.15, 0.3, 0.5)
#: More outputs than this are left as they are.
MOST_OUTPUTS = 400


def provable(problem: Problem, disclosure: float, rows: int, confidence: float, **asked: Any) -> Solution:
    """The design of which held-out rows can be expected to prove the least leakage.

    Args:
        problem: The design rows.
        disclosure: Least disclosure of the design rows, in nats.
        rows: Number of held-out rows.
        confidence: Of the bound that they are for.
        **asked: Solver, seed and options of :func:`privfunnel.solve`.

    Returns:
        The solution, with the closed-form bound: certificates speak of the least leakage, not of the least provable.
    """
    margin = np.maximum(np.rint(problem.p_s * rows), 0.0)
    best, least, name = None, np.inf, ""
    for share in BEYOND:
        target = disclosure + share * (problem.disclosure_ceiling - disclosure)
        found = solve(problem, disclosure=target, throw=False, **asked)
        name = found.solver
        for channel in merged(problem, found.channel, disclosure):
            proved = expected_bound(
                problem.evaluate(channel).leakage, margin, channel.shape[1], confidence=confidence
            )
            if proved < least:
                best, least = channel, proved
    assert best is not None  # the first design meets the request without any merging
    answer = Answer(channel=best, status=Status.FEASIBLE)
    question = Request(disclosure=disclosure).of(problem, axis=Quantity.DISCLOSURE)
    return judge(question, answer, Run(name, int(asked.get("seed", 0))))


def merged(problem: Problem, channel: Channel, disclosure: float) -> Iterator[Any]:
    """The channel, and what merging its outputs two by two makes of it, down to a disclosure in nats.

    Each time the two outputs are merged whose merging loses the least of X that is not about S.
    """
    if channel.shape[1] > MOST_OUTPUTS:
        yield channel
        return
    current = merge_outputs(channel.toarray() if is_sparse(channel) else channel)
    yield current
    pairs = _Pairs(problem, current)
    while len(pairs.public) > 1:
        kept, gone = pairs.cheapest()
        current = _merge(current, kept, gone)
        if problem.evaluate(current).disclosure < disclosure - FEASIBILITY:
            return
        pairs.merge(kept, gone)
        yield current


def _merge(channel: Array, kept: int, gone: int) -> Array:
    joined = channel.copy()
    joined[:, kept] += joined[:, gone]
    return np.delete(joined, gone, axis=1)


class _Pairs:
    """What merging each pair of outputs loses: of X and, with the other sign, of S; nats.

    Attributes:
        public: p(x, y), shape (N, M), one row an output; ``private`` p(s, y), shape (N, K).
        cost: Upper triangle of what merging loses, shape (N, N); infinite elsewhere.
    """

    def __init__(self, problem: Problem, channel: Array) -> None:
        self.public = (channel * problem.p_x[:, None]).T
        self.private = (problem.p_sx @ channel).T
        n = len(self.public)
        self.cost = np.full((n, n), np.inf)
        for i in range(n):
            self.cost[i, i + 1 :] = self._losses(i)[i + 1 :]

    def _losses(self, i: int) -> Array:
        """Of merging output i with each one."""
        lost = [
            uncertainty(table + table[i]) - uncertainty(table) - uncertainty(table[i : i + 1])
            for table in (self.public, self.private)
        ]
        return np.asarray(lost[0] - lost[1])

    def cheapest(self) -> tuple[int, int]:
        """The pair that loses least."""
        i, j = np.unravel_index(int(np.argmin(self.cost)), self.cost.shape)
        return int(i), int(j)

    def merge(self, kept: int, gone: int) -> None:
        """Make one output of two."""
        for name in ("public", "private"):
            table = getattr(self, name)
            table[kept] += table[gone]
            setattr(self, name, np.delete(table, gone, axis=0))
        self.cost = np.delete(np.delete(self.cost, gone, axis=0), gone, axis=1)
        losses = self._losses(kept)
        self.cost[kept, kept + 1 :], self.cost[:kept, kept] = losses[kept + 1 :], losses[:kept]


def uncertainty(joint: Array) -> Array:
    """p(y) H(X|Y = y) of each output, nats.

    Args:
        joint: p(x, y), shape (N, M).
    """
    p_y = joint.sum(axis=1)
    return np.asarray(p_y * measures.entropy(joint / np.maximum(p_y, measures.TINY)[:, None], axis=1))
