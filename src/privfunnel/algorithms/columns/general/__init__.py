"""Attackers who know something, published columns, guarantees, other measures: a channel and its certificate.

*Solves* the least leakage, most disclosure or, with a task, utility (:mod:`.task_points`); *how*: a linear program over
allowed posteriors (:mod:`.master`, :mod:`.search`), begun by :mod:`.first_posteriors`, fed by :mod:`.local_pricing`.
*Proves* by boxes: compiled for information without guarantees (:mod:`.compiled_branching`, with
:mod:`.curvature_bounds`), on linear programs for all else (:mod:`.branching`). *Costs* 2-3 times ``plain``.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.columns.general.kernels import load_kernels
from privfunnel.algorithms.columns.general.master import Master
from privfunnel.algorithms.columns.general.plan import PLAN
from privfunnel.algorithms.columns.general.search import Search
from privfunnel.algorithms.deadline import Limits
from privfunnel.algorithms.options import check_positive, check_seconds, check_whole
from privfunnel.certificate.answer import DEFAULT_GAP, Answer, Status
from privfunnel.errors import InfeasibleError, SolverError
from privfunnel.infra.watching import Listener
from privfunnel.measures import Array
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.model.threat import Threat

#: A channel's disclosure may fall short of the program's by rounding: aim so much higher, in nats.
AIM = 5e-10
#: Where a closed form bounds the value, this share of the gap above it is good enough: rounding needs the rest.
ENOUGH = 0.8
#: Budgets below this begin with what is free, where next to nothing is hard to tell from nothing, and how near the most
#: of it is good enough, in nats.
SMALL, FREE_GAP = 1e-4, 1e-4


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """Column generation over allowed posteriors with exact pricing by branch and bound on linear programs.

    Attributes:
        gap: Stop when value and proved bound are within this, in nats.
        time_limit: Seconds a point may take.
        node_limit: Boxes that branch and bound may open a point.
    """

    name: ClassVar[str] = "guarded"

    gap: float = DEFAULT_GAP
    time_limit: float = 300.0
    node_limit: int = 10_000_000

    def __post_init__(self) -> None:
        check_positive(self.name, gap=self.gap)
        check_seconds(self.name, self.time_limit)
        check_whole(self.name, 1, node_limit=self.node_limit)

    def answer(
        self,
        question: Question,
        *,
        seed: int = 0,
        progress: Listener | None = None,
        pool: Array | None = None,
        least: float = -math.inf,
    ) -> Answer:
        """Least leakage at a disclosure, or the most disclosure within a leakage and what the guards say.

        The search begins with the posteriors of ``pool``, (n, M), too: those of other points of the same curve, or of
        the plain funnel. It ends near ``least``, which the program's value is known to be no less than, in nats.

        Raises:
            InfeasibleError: The guarantees do not allow that much disclosure.
            SolverError: The limits came before a release that discloses so much was found, or any
                (:class:`~privfunnel.algorithms.columns.general.master.TooLateError`).
        """
        problem, threat = question.problem, question.guards
        budgets = [question.budget, *(one.budget for one in threat.attributes)]
        zero = threat.measure.faithful and any(each <= 0.0 for each in budgets)
        if threat.measure.is_information and not (threat.guarantees or zero):
            load_kernels()
        started = time.perf_counter()
        limits = Limits(self.time_limit, nodes=self.node_limit)
        rng = np.random.default_rng(seed)
        little = threat.measure.smooth and not zero and min(budgets) < SMALL
        if little and not question.names_place:
            pool = self._free(problem, threat, rng, pool)
        search = Search(problem, threat, zero=zero, rng=rng, limits=limits, pool=pool)
        if question.names_place:
            aim = min(question.disclosure + AIM, problem.disclosure_ceiling)
            master = Master(problem, threat, disclosure=aim)
            if threat.guarantees:
                self._make_room(search, master, aim)
        else:
            averages = np.where(threat.silent(zero=zero), np.inf, threat.limits(question.budget))
            master = Master(problem, threat, limits=averages)
        master.impatient = True
        enough = max(_closed(question), least) + ENOUGH * self.gap
        outcome = search.close(master, self.gap, progress, enough=enough)
        total = float(outcome.duals.weights.sum())
        return Answer(
            channel=outcome.channel,
            status=outcome.status,
            slope=outcome.duals.slope / total if total > 0.0 else 0.0 if zero else None,
            certificate=outcome.certificate,
            steps=outcome.opened,
            seconds=time.perf_counter() - started,
            message=f"{len(master.posteriors)} posteriors, {outcome.opened} boxes",
        )

    def _free(self, problem: Problem, threat: Threat, rng: Generator, pool: Array | None) -> Array:
        """The posteriors of ``pool`` and those of the release that discloses most of all that tell nothing, (n, M)."""
        limits = Limits(PLAN.free * self.time_limit, nodes=self.node_limit)
        search = Search(problem, threat, zero=True, rng=rng, limits=limits, pool=pool)
        master = Master(problem, threat)
        search.close(master, FREE_GAP, prove=False)
        own = master.active()
        return own if pool is None else np.concatenate([pool, own])

    def _make_room(self, search: Search, master: Master, disclosure: float) -> None:
        """Fill the pool with posteriors that disclose as much as the guarantees allow."""
        most = Master(search.problem, search.threat)
        outcome = search.close(most, self.gap, enough=search.problem.disclosure_ceiling - disclosure,
                               prove=False)  # fmt: skip
        largest = search.problem.disclosure_ceiling - outcome.duals.value
        if largest < disclosure - FEASIBILITY:
            if outcome.status is not Status.OPTIMAL:
                raise SolverError(
                    f"disclosure={disclosure:.9g} nats was not reached within the guarantees before the limits came, "
                    f"{largest:.9g} nats were: raise time_limit, or lower it"
                )
            raise InfeasibleError(
                f"disclosure={disclosure:.9g} nats is infeasible: the guarantees allow {largest:.9g} nats; lower it"
            )
        master.add(most.posteriors)


def _closed(question: Question) -> float:
    """What the program's value is at least by a closed form of the plain funnel, in nats; −∞ where there is none.

    Who knows nothing is among the attackers, unless columns are published: I(S;Y) ≥ I(X;Y) − H(X|S).
    """
    problem, threat = question.problem, question.guards
    if not threat.measure.is_information or threat.published is not None or threat.attributes:
        return -math.inf
    if question.names_place:
        return float(problem.lower_bound(question.disclosure))
    return problem.disclosure_ceiling - problem.h_x_given_s - question.budget
