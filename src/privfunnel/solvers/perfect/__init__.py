"""Perfect privacy: the largest disclosure with I(S;Y) = 0 exactly, and its channel."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel import channels
from privfunnel.problem import Channel, Problem
from privfunnel.solution import Answer, Status
from privfunnel.solvers.base import Listener, TimeLimited
from privfunnel.solvers.options import check_seconds
from privfunnel.solvers.perfect.large import LISTED_PAIRS, MOST_SEARCHED, Found, by_pairs, by_split
from privfunnel.solvers.perfect.polytope import Silence, Silent, most_silent
from privfunnel.solvers.posteriors.assembly import align, release
from privfunnel.solvers.posteriors.components import split_problem


@dataclass(frozen=True, kw_only=True, eq=False)
class FreeDisclosure:
    """What can be released at no leakage at all.

    Attributes:
        disclosure: R0 in nats.
        channel: A channel with that disclosure and leakage 0, shape (M, N); sparse beyond ten million entries.
        upper: No channel with leakage 0 discloses more than this, in nats.
        parts: The silent posteriors of each component; none where no posteriors were listed or searched.
    """

    disclosure: float
    channel: Channel
    upper: float
    parts: tuple[Silent, ...]

    @property
    def proved(self) -> bool:
        """Whether R0 is proved largest, to a millionth of a nat."""
        return self.upper - self.disclosure <= 1e-6


def free_disclosure(
    problem: Problem, *, seed: int = 0, seconds: float = 20.0, nodes: int = 100_000
) -> FreeDisclosure:
    """The largest disclosure with zero leakage that was found, by a linear program over silent posteriors.

    I(S;Y) = 0 iff every posterior satisfies P w = p_s. Components are released side by side, so that R0 is the
    average of theirs: R0 = H(X|C) − Σ_c p(c) min Σ_j r_j H(v_j). Two private symbols have a closed form at any size,
    and tables too large for the program get what a split of p(x) gives without a search, H(X) − log rank(P) or more.

    Args:
        problem: The problem.
        seed: Seeds the local search where the vertices are too many to list.
        seconds: Time for that search; the result says whether it was enough to prove R0 largest.
        nodes: Boxes that branch and bound may open a component; 0 leaves the proof out.
    """
    closed = _without_search(problem)
    if closed is not None:
        return _free(problem, closed)
    rng = np.random.default_rng(seed)
    parts = split_problem(problem)
    deadline = time.perf_counter() + seconds
    silent = []
    for part in parts:
        own = problem.p_x[part.x] / part.mass
        left = max(deadline - time.perf_counter(), 0.1)
        silent.append(most_silent(part.p_s_given_x, own, rng, left, nodes))
    used = [(part.mass * s.weights, s.posteriors) for part, s in zip(parts, silent, strict=True)]
    weights, posteriors = align(parts, used, 0.0)
    channel = release(problem, weights, posteriors)
    disclosure = problem.evaluate(channel).disclosure
    slack = sum(part.mass * s.slack for part, s in zip(parts, silent, strict=True))
    upper = min(disclosure + slack, max(problem.h_x_given_s, disclosure))
    return FreeDisclosure(disclosure=disclosure, channel=channel, upper=upper, parts=tuple(silent))


def _without_search(problem: Problem) -> Found | None:
    """What pairs or one split give; None for tables small enough to list or to search posteriors."""
    huge = problem.n_x > MOST_SEARCHED
    if problem.n_s == 2 and (
        huge or (problem.n_x > LISTED_PAIRS and bool(np.any(problem.p_sx.min(axis=0) > 0.0)))
    ):
        return by_pairs(problem)
    if not huge:
        return None
    silence = Silence.of(problem.p_s_given_x, problem.p_x)
    return by_split(problem, silence.rows, silence.goal)


def _free(problem: Problem, found: Found) -> FreeDisclosure:
    """A channel found without a search, its posteriors listed where they fit."""
    disclosure = problem.evaluate(found.channel).disclosure
    upper = max(found.upper, disclosure)
    parts = []
    if isinstance(found.channel, np.ndarray):
        masses = (found.channel * problem.p_x[:, None]).T
        weights = masses.sum(axis=1)
        posteriors = masses / weights[:, None]
        entropy = problem.disclosure_ceiling - disclosure
        parts = [Silent(weights=weights, posteriors=posteriors, entropy=entropy, slack=upper - disclosure,
                        vertices=posteriors)]  # fmt: skip
    return FreeDisclosure(disclosure=disclosure, channel=found.channel, upper=upper, parts=tuple(parts))


def share_down(problem: Problem, channel: Channel, disclosure: float) -> Channel:
    """``channel`` with just ``disclosure`` nats, the rest of the time releasing nothing."""
    have = problem.evaluate(channel).disclosure
    share = min(disclosure / have, 1.0) if have > 0.0 else 1.0
    return (
        channel
        if share >= 1.0
        else channels.time_share([channel, channels.constant(problem.n_x)], [share, 1.0 - share])
    )


@dataclass(frozen=True, kw_only=True)
class Perfect(TimeLimited):
    """Release as much as possible at zero leakage.

    Attributes:
        time_limit: Seconds to spend where the vertices of the polytope are too many to list.
    """

    name: ClassVar[str] = "perfect"
    free_only: ClassVar[bool] = True

    time_limit: float = 60.0

    def __post_init__(self) -> None:
        check_seconds(self.name, self.time_limit)

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Zero leakage at ``disclosure`` nats, or the most there is with a status that says it falls short."""
        return self._answer(problem, free_disclosure(problem, seed=seed, seconds=self.time_limit), disclosure)

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """The most disclosure at zero leakage, whatever the budget."""
        free = free_disclosure(problem, seed=seed, seconds=self.time_limit)
        return self._answer(problem, free, free.disclosure)

    def _answer(self, problem: Problem, free: FreeDisclosure, disclosure: float) -> Answer:
        told = (
            "proved largest" if free.proved else f"the largest found; proved to be at most {free.upper:.9g}"
        )
        message = f"perfect privacy up to R0 = {free.disclosure:.9g} nats ({told})"
        if disclosure > free.disclosure + 1e-9:
            return Answer(channel=free.channel, status=Status.INFEASIBLE, message=message)
        channel = share_down(problem, free.channel, disclosure)
        return Answer(channel=channel, status=Status.OPTIMAL, slope=0.0, message=message)
