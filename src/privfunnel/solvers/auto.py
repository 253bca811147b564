"""The default: closed forms and perfect privacy where they apply, a proved optimum within a modest time otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from privfunnel import channels
from privfunnel.problem import Problem
from privfunnel.solution import Answer, Status
from privfunnel.solvers.base import Listener, Solver
from privfunnel.solvers.global_ import Global


@dataclass(frozen=True, kw_only=True)
class Auto(Solver):
    """Choose the method: what is known in closed form, perfect privacy, then :class:`Global`.

    Attributes:
        gap: Stop when leakage and proved bound are within this, in nats.
        time_limit: Seconds a point may take; the best value and bound until then are returned.
    """

    name: ClassVar[str] = "auto"
    gap: float = 1e-6
    time_limit: float = 20.0

    def __post_init__(self) -> None:
        self._engine()

    def _engine(self) -> Global:
        return Global(gap=self.gap, time_limit=self.time_limit)

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Least leakage at ``disclosure`` nats or more."""
        return closed_form(problem, disclosure) or self._engine().solve(
            problem, disclosure, seed=seed, progress=progress
        )

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
        found = self._engine().trace(problem, rest, seed=seed, progress=progress) if rest else iter(())
        for answer in known:
            yield next(found) if answer is None else answer
        next(found, None)  # an interrupt waits behind the last answer: without this it would be lost

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Most disclosure within ``leakage`` nats."""
        return self._engine().solve_leakage(problem, leakage, seed=seed, progress=progress)


def closed_form(problem: Problem, disclosure: float) -> Answer | None:
    """The answer where none has to be searched for: the ends of the curve, and where its two bounds coincide.

    The bounds max(0, R − H(X|S)) and I(S;X) R / H(X) meet on the whole curve when S is independent of X (both are 0)
    and when S determines X (H(X|S) = 0, both are R); time sharing X and nothing is then optimal.
    """
    ceiling = problem.disclosure_ceiling
    if disclosure <= 0.0:
        return Answer(channel=channels.constant(problem.n_x), status=Status.OPTIMAL, slope=0.0)
    if disclosure >= ceiling:
        return Answer(channel=channels.identity(problem.n_x), status=Status.OPTIMAL)
    if float(problem.upper_bound(disclosure)) - float(problem.lower_bound(disclosure)) > 1e-12:
        return None
    share = disclosure / ceiling
    parts = [channels.identity(problem.n_x), channels.constant(problem.n_x)]
    channel = channels.time_share(parts, [share, 1.0 - share])
    slope = problem.leakage_ceiling / ceiling
    return Answer(channel=channel, status=Status.OPTIMAL, slope=slope, message="closed form")
