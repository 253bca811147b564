"""Perfect privacy: the largest disclosure with I(S;Y) = 0 exactly, and its channel.

*Solves* max I(X;Y) where p(s|y) = p(s); *how*: vertices of {w ≥ 0, Pw = p(s)} mixed by a linear program
(:mod:`.equations`, :mod:`.polytope`, :mod:`.program`), all triangles of three private symbols (:mod:`.triangles`),
splits of p(x) where there are too many (:mod:`.too_large`, :mod:`.splitting`). *Proves* by the same vertices in whole
numbers. *Costs* the number of vertices; above some hundred classes of K ≥ 3 it bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.deadline import Deadline, Limits
from privfunnel.algorithms.options import check_seconds
from privfunnel.algorithms.perfect.equations import PrivateEquations
from privfunnel.algorithms.perfect.plan import PLAN
from privfunnel.algorithms.perfect.polytope import PrivateMixture, best_private_mixture
from privfunnel.algorithms.perfect.too_large import (
    LISTED_PAIRS,
    MOST_SEARCHED,
    Found,
    by_pairs,
    by_split,
    most_free,
)
from privfunnel.algorithms.posteriors.assembly import align, channel_of_posteriors
from privfunnel.algorithms.posteriors.components import Part, split_problem
from privfunnel.certificate import Certificate, FreeBody, FreeProof, FreeTree, Proof, components
from privfunnel.certificate.answer import Answer, Status
from privfunnel.certificate.private_equations import Whole, whole_table
from privfunnel.errors import CertificateError
from privfunnel.infra.watching import Listener
from privfunnel.measures import Array, Channel
from privfunnel.model import channels
from privfunnel.model.problem import Problem

#: R0 counts as proved largest where no channel discloses more by this, in nats.
PROVED = 1e-6
#: Requests up to this much beyond R0 count as R0, in nats.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class FreeDisclosure:
    """What can be released at no leakage at all.

    Attributes:
        disclosure: R0 in nats.
        channel: A channel with that disclosure and leakage 0, shape (M, N); sparse beyond ten million entries.
        upper: No channel with leakage 0 discloses more than this, in nats; errors of rounding are in it, which are
            large where S and X are nearly independent.
        mixtures: The perfectly private posteriors of each component that it is made of; none where
            no posteriors were listed or searched.
        prices: What a proof starts from, shape (M,); None where there is none.
        trees: A tree of boxes for each component that one was grown for; none where none was.
    """

    disclosure: float
    channel: Channel
    upper: float
    mixtures: tuple[PrivateMixture, ...]
    prices: Array | None = None
    trees: tuple[Proof | None, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether the search says that R0 is the largest, to a millionth of a nat: :func:`prove` proves it."""
        return self.upper - self.disclosure <= PROVED


def free_disclosure(
    problem: Problem,
    *,
    seed: int = 0,
    seconds: float = 20.0,
    nodes: int = 100_000,
    parts: list[Part] | None = None,
) -> FreeDisclosure:
    """The largest disclosure with zero leakage that was found, by a linear program over perfectly private posteriors.

    I(S;Y) = 0 iff every posterior satisfies P w = p_s. Components are released side by side, so that R0 is the
    average of theirs: R0 = H(X|C) − Σ_c p(c) min Σ_j r_j H(v_j). Two private symbols have a closed form at any size,
    and tables too large for the program get what a split of p(x) gives without a search, H(X) − log rank(P) or more.

    Args:
        problem: The problem.
        seed: Seeds the local search where the vertices are too many to list.
        seconds: Time for all of it; the result says whether it was enough to prove R0 largest.
        nodes: Boxes that branch and bound may open a component; 0 leaves the proof out.
        parts: The components of the problem, where they are known already.
    """
    deadline = Deadline(seconds)
    closed = _without_search(problem, deadline)
    if closed is not None:
        return _free(problem, closed)
    rng = np.random.default_rng(seed)
    parts = split_problem(problem) if parts is None else parts
    mixtures = []
    for part in parts:
        p_x = problem.p_x[part.x] / part.mass
        limits = Limits(max(deadline.left(), PLAN.least_seconds), nodes=nodes)
        mixtures.append(best_private_mixture(part.p_s_given_x, p_x, rng, limits, part.p_sx))
    used = [(part.mass * m.weights, m.posteriors) for part, m in zip(parts, mixtures, strict=True)]
    weights, posteriors = align(parts, used, 0.0)
    channel = channel_of_posteriors(problem, weights, posteriors)
    disclosure = problem.evaluate(channel).disclosure
    slack = sum(part.mass * m.slack for part, m in zip(parts, mixtures, strict=True))
    upper = min(disclosure + slack + problem.rounding, max(most_free(problem), disclosure))
    prices = _prices(problem, parts, mixtures)
    return FreeDisclosure(disclosure=disclosure, channel=channel, upper=upper, mixtures=tuple(mixtures), prices=prices,
                          trees=tuple(mixture.tree for mixture in mixtures))  # fmt: skip


def _prices(problem: Problem, parts: list[Part], mixtures: list[PrivateMixture]) -> Array | None:
    """The prices of all components, (M,); None where one has none."""
    prices = np.zeros(problem.n_x)
    for part, mixture in zip(parts, mixtures, strict=True):
        if mixture.prices is None:
            return None
        prices[part.x] = mixture.prices
    return prices


def prove(problem: Problem, free: FreeDisclosure) -> Certificate | None:
    """The certificate that no release without leakage discloses more; None where there is none that verifies.

    Vertices are gone through where they are few enough, whatever found the prices; otherwise a tree of boxes proves it,
    where the search has grown one.
    """
    if free.prices is None:
        return None
    parts, whole = split_problem(problem), whole_table(problem)
    trees = free.trees or (None,) * len(parts)
    proofs = []
    try:
        for (s, x), part, tree in zip(components(problem.p_s_given_x), parts, trees, strict=True):
            p_x = problem.p_x[x] / part.mass
            equations = PrivateEquations.of(part.p_s_given_x, p_x, part.p_sx)
            own = whole[np.ix_(s, x)], equations.combinations, free.prices[x]
            proofs.append(_proof(*own, tree))
        made = FreeBody.build(problem, free.prices, proofs)
        made.verify(problem)
    except CertificateError:
        return None
    return made


def _proof(whole: Whole, combinations: Array, prices: Array, tree: Proof | None) -> FreeProof:
    """The proof of one component, by its vertices or by its tree.

    Raises:
        CertificateError: The vertices cannot be gone through, and there is no tree.
    """
    try:
        return FreeProof.build(whole, combinations, prices)
    except CertificateError:
        if tree is None:
            raise
        return FreeTree(claim=tree.claim, combinations=combinations, tree=tree)


def _without_search(problem: Problem, deadline: Deadline) -> Found | None:
    """What pairs or one split give; None for tables small enough to list or to search posteriors."""
    huge = problem.n_x > MOST_SEARCHED
    if problem.n_s == 2 and (
        huge or (problem.n_x > LISTED_PAIRS and bool(np.any(problem.p_sx.min(axis=0) > 0.0)))
    ):
        return by_pairs(problem)
    if not huge:
        return None
    equations = PrivateEquations.of(problem.p_s_given_x, problem.p_x, problem.p_sx)
    return by_split(problem, equations.rows, equations.goal, deadline)


def _free(problem: Problem, found: Found) -> FreeDisclosure:
    """A channel found without a search, its posteriors listed where they fit."""
    disclosure = problem.evaluate(found.channel).disclosure
    upper = max(found.upper, disclosure)
    mixtures = []
    if isinstance(found.channel, np.ndarray):
        masses = (found.channel * problem.p_x[:, None]).T
        weights = masses.sum(axis=1)
        posteriors = masses / weights[:, None]
        entropy = problem.disclosure_ceiling - disclosure
        mixtures = [PrivateMixture(weights=weights, posteriors=posteriors, entropy=entropy, slack=upper - disclosure,
                        vertices=posteriors)]  # fmt: skip
    return FreeDisclosure(disclosure=disclosure, channel=found.channel, upper=upper, mixtures=tuple(mixtures),
                          prices=found.prices)  # fmt: skip


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
        return replace(self._answer(problem, free, free.disclosure), certificate=prove(problem, free))

    def _answer(self, problem: Problem, free: FreeDisclosure, disclosure: float) -> Answer:
        largest = "proved largest"
        if not free.proved:
            largest = f"the largest found; proved to be at most {free.upper:.9g}"
        message = f"perfect privacy up to R0 = {free.disclosure:.9g} nats ({largest})"
        if disclosure > free.disclosure + ROUNDING:
            return Answer(channel=free.channel, status=Status.INFEASIBLE, message=message)
        channel = share_down(problem, free.channel, disclosure)
        return Answer(channel=channel, status=Status.OPTIMAL, slope=0.0, message=message)
