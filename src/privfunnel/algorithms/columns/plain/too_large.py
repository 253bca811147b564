"""Answers for tables so large that the channel of a search alone would take longer than the time limit."""

from __future__ import annotations

import time

from privfunnel.algorithms.columns.plain.plan import PLAN
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.perfect import FreeDisclosure, free_disclosure, share_down
from privfunnel.algorithms.thinning import ceiling_lines, thinning_line
from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import Answer, Status
from privfunnel.model import channels
from privfunnel.model.problem import Problem


def channel_seconds(problem: Problem) -> float:
    """Seconds that building and judging a channel of the search takes, about."""
    return problem.n_x * problem.n_x * (PLAN.entry_seconds + problem.n_s * PLAN.product_seconds)


class Hurried:
    """What is free, time-shared with X itself: the channels (M, N) are sparse, and bounds are by thinning.

    Args:
        problem: The problem.
        seed: Seeds the search for what is free.
        seconds: The time of a point.
        points: How many there will be.
    """

    def __init__(self, problem: Problem, seed: int, seconds: float, points: int = 1) -> None:
        self.problem, self.seconds = problem, seconds
        self.free: FreeDisclosure = free_disclosure(
            problem, seed=seed, seconds=PLAN.hurried_free * seconds * points, nodes=0
        )

    def answer(self, disclosure: float) -> Answer:
        """The answer for one disclosure in nats."""
        if disclosure <= self.free.disclosure:
            channel = share_down(self.problem, self.free.channel, disclosure)
            return Answer(channel=channel, status=Status.OPTIMAL, slope=0.0, message="perfect privacy")
        rest = self.problem.disclosure_ceiling - self.free.disclosure
        line = thinning_line(self.problem, disclosure, self._deadline())
        return self._shared((disclosure - self.free.disclosure) / rest, line)

    def within(self, budget: float) -> Answer:
        """The answer for a leakage budget in nats."""
        lines = ceiling_lines(self.problem, self.free.disclosure, budget, self._deadline())
        rising = [line for line in lines if line.slope > 0.0]
        lowest = min(rising, key=lambda line: (budget - line.intercept) / line.slope, default=None)
        return self._shared(budget / self.problem.leakage_ceiling, lowest)

    def _deadline(self) -> Deadline:
        return Deadline(PLAN.hurried_thinning * self.seconds)

    def _shared(self, share: float, line: Certificate | None) -> Answer:
        started = time.perf_counter()
        channel = channels.mixed_with_all(self.free.channel, share)
        rest = self.problem.disclosure_ceiling - self.free.disclosure
        return Answer(
            channel=channel,
            status=Status.TIME_LIMIT,
            slope=min(self.problem.leakage_ceiling / rest, 1.0) if rest > 0.0 else None,
            certificate=line,
            bound_source="certificate" if line is None else "thinning",
            seconds=time.perf_counter() - started,
            message="the table is too large for a search in this time",
        )
