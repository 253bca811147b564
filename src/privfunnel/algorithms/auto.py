"""The default: closed forms and perfect privacy where they apply, a proved optimum within a modest time otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.binary.solver import Binary
from privfunnel.algorithms.chain import Chain
from privfunnel.algorithms.columns.plain import NODE_LIMIT, Global
from privfunnel.algorithms.deadline import Deadline
from privfunnel.certificate.answer import DEFAULT_GAP, Answer, Status
from privfunnel.infra.watching import Listener
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.question import ROUNDING

#: Tables with two private symbols and more public ones than this go to :class:`Binary`.
FEW = 64
#: How the global solver says that its limits came first.
CUT_SHORT = (Status.TIME_LIMIT, Status.NODE_LIMIT)


class Plan(NamedTuple):
    """Shares of the time limit."""

    #: For a chain of binary funnels where the global solver does not end, which has the rest: a chain only bounds.
    chain: float = 0.15


PLAN = Plan()


@dataclass(frozen=True, kw_only=True)
class Auto(TimeLimited):
    """Closed forms where they decide the point, :class:`Binary` or :class:`Global` where they do not.

    Two private symbols and more than 64 public ones (classes, where symbols are lumped) are Binary's, and so are points
    of smaller tables that Global does not finish. Where there are more private symbols and Global does not finish, a
    :class:`Chain` of binary funnels may give the better bound.

    Attributes:
        gap: Stop when leakage, or within a budget disclosure, and proved bound are within this, in nats.
        time_limit: Seconds a point may take; the best value and bound until then are returned, which depend on the
            machine and its load.
        node_limit: Boxes that Global may open a point. With ``time_limit=math.inf`` it gives the same answer under any
            load.
    """

    name: ClassVar[str] = "auto"
    proves: ClassVar[bool] = True

    gap: float = DEFAULT_GAP
    time_limit: float = 20.0
    node_limit: int = NODE_LIMIT

    def __post_init__(self) -> None:
        """Check the options: they are the global solver's."""
        _ = self._global

    @property
    def target_gap(self) -> float:
        """The gap in nats at which an answer counts as proved optimal."""
        return self.gap

    def warm_up(self) -> None:
        """Load the kernels of both solvers."""
        self._global.warm_up()
        self._binary.warm_up()

    @cached_property
    def _binary(self) -> Binary:
        return Binary(gap=self.gap, time_limit=self.time_limit)

    def _prover(self, problem: Problem) -> Global | Binary:
        return self._binary if problem.n_s == Binary.n_s and problem.n_x > FEW else self._global

    @cached_property
    def _global(self) -> Global:
        searching = (1.0 - PLAN.chain) * self.time_limit
        return Global(gap=self.gap, time_limit=searching, node_limit=self.node_limit)

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """One answer a disclosure, in the order given."""
        wanted = [float(r) for r in disclosures]
        known = [closed_form(problem, r) for r in wanted]
        rest = [r for r, answer in zip(wanted, known, strict=True) if answer is None]
        searched = (
            self._prover(problem).trace(problem, rest, seed=seed, progress=progress) if rest else iter(())
        )
        chain = Chain(problem)
        for disclosure, answer in zip(wanted, known, strict=True):
            found = next(searched) if answer is None else answer
            if found.status in CUT_SHORT and problem.n_s == Binary.n_s:
                found = self._binary.solve(problem, disclosure, seed=seed)
            yield self._bounded(found, disclosure, chain)
        yield from searched  # nothing is left, unless an interrupt waits behind the last answer

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Most disclosure within ``leakage`` nats."""
        answer = self._prover(problem).solve_leakage(problem, leakage, seed=seed, progress=progress)
        if answer.status is not Status.OPTIMAL and problem.n_s == Binary.n_s:
            return self._binary.solve_leakage(problem, leakage, seed=seed)
        return self._bounded(answer, problem.evaluate(answer.channel).disclosure, Chain(problem))

    def _bounded(self, answer: Answer, disclosure: float, chain: Chain) -> Answer:
        """An answer with the better of its own bound and a chain's, where limits kept it from being proved."""
        if answer.status not in CUT_SHORT:
            return answer
        line = chain.line(disclosure, Deadline(PLAN.chain * self.time_limit))
        own = answer.certificate
        if line is None or (own is not None and own.lower_bound(disclosure) >= line.lower_bound(disclosure)):
            return answer
        return replace(answer, certificate=line, bound_source="chain")


def closed_form(problem: Problem, disclosure: float) -> Answer | None:
    """The answer where the curve's two closed-form bounds coincide, 0 < disclosure < H(X); None elsewhere.

    The bounds max(0, R − H(X|S)) and I(S;X) R / H(X) meet on the whole curve when S is independent of X (both are 0)
    and when S determines X (H(X|S) = 0, both are R); time sharing X and nothing is then optimal.
    """
    if float(problem.upper_bound(disclosure)) - float(problem.lower_bound(disclosure)) > ROUNDING:
        return None
    ceiling = problem.disclosure_ceiling
    share = disclosure / ceiling
    parts = [channels.identity(problem.n_x), channels.constant(problem.n_x)]
    channel = channels.time_share(parts, [share, 1.0 - share])
    slope = problem.leakage_ceiling / ceiling
    return Answer(channel=channel, status=Status.OPTIMAL, slope=slope, message="closed form")
