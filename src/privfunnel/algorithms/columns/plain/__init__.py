"""The global solver, for who knows nothing: a channel and a proof of how close to optimal it is.

*Solves* a disclosure or a budget (:mod:`.run`); *how*: a linear program over posteriors (:mod:`.master`,
:mod:`.search`) that learns new ones from :mod:`.descents`, from AEM on large tables (:mod:`.first_posteriors`,
:mod:`.interior_prices`). *Proves* F ≥ cutoff by boxes (:mod:`.branching`), cliques (:mod:`.clique_pricing`) or supports
(:mod:`.support_pricing`). *Costs* little up to some hundred classes of symbols; beyond, bounds from
:mod:`.fewer_private` and thinning remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.columns.plain.run import Work, load_kernels
from privfunnel.algorithms.columns.plain.too_large import Hurried, channel_seconds
from privfunnel.algorithms.options import check_positive, check_seconds, check_whole
from privfunnel.certificate.answer import DEFAULT_GAP, Answer
from privfunnel.errors import InvalidInputError
from privfunnel.infra.watching import Listener
from privfunnel.model.problem import Problem

#: The smallest gap that double precision and the checker's rounding allowance support, in nats.
SMALLEST_GAP = 1e-8
#: Boxes that a point may take unless the caller says otherwise: more than any time limit has room for.
NODE_LIMIT = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Global(TimeLimited):
    """Column generation over posteriors with exact pricing by spatial branch and bound.

    Each answer carries a certificate of its lower bound. A trace shares posteriors and lines among its points.

    Attributes:
        gap: Stop when leakage, or within a budget disclosure, and proved bound are within this, in nats.
        time_limit: Seconds a point may take, from the call on. The last fifth is for coarser proofs where the search
            does not end, the last quarter with more than five private symbols and 300 public ones or more, unless one
            run of AEM takes it all. What is found by then depends on the machine and its load. Where the channel of a
            search alone would take longer (ten seconds at 200 × 4500), what is free is time-shared with X itself. Where
            supports are looked at, a point of a curve may take ten times as long, of what the points before it left:
            the curve as a whole takes no longer.
        node_limit: Boxes that branch and bound may open a point: a limit that gives the same answer under any load.
    """

    name: ClassVar[str] = "global"
    proves: ClassVar[bool] = True

    gap: float = DEFAULT_GAP
    time_limit: float = 300.0
    node_limit: int = NODE_LIMIT

    def __post_init__(self) -> None:
        check_positive(self.name, gap=self.gap)
        if self.gap < SMALLEST_GAP:
            raise InvalidInputError(f"gap={self.gap!r} cannot be proved: give {SMALLEST_GAP:g} nats or more")
        check_seconds(self.name, self.time_limit)
        check_whole(self.name, 1, node_limit=self.node_limit)

    @property
    def target_gap(self) -> float:
        """The gap in nats at which an answer counts as proved optimal."""
        return self.gap

    def warm_up(self) -> None:
        """Compile the search's kernels, or read them from the cache."""
        load_kernels()

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
        if self._too_large(problem):
            yield from map(Hurried(problem, seed, self.time_limit, len(wanted)).answer, wanted)
            return
        work = Work(self, problem, seed, progress, len(wanted))
        try:
            work.warm(wanted)
        except KeyboardInterrupt:
            # No point is proved yet, but the pool has a channel for each: hand them over before giving up.
            yield from map(work.pooled, wanted)
            raise
        yield from work.answers(wanted)

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Most disclosure within ``leakage`` nats, with a certificate that no channel discloses much more."""
        if self._too_large(problem):
            return Hurried(problem, seed, self.time_limit).within(leakage)
        return Work(self, problem, seed, progress, 1).within(leakage)

    def _too_large(self, problem: Problem) -> bool:
        """Whether the channel of a search alone would take longer than a point may."""
        return channel_seconds(problem) > self.time_limit
