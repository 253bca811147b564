"""What a steward does by hand: drop public columns, or coarsen them, as little as leaks least.

Both release a function X' of X, one step of a ladder for each column; see :mod:`privfunnel.neighbours.alternatives`,
which asks the other way round for the most disclosure at a leakage. They need to know the columns: a problem without
any is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.merging.partitions import channel_of
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener
from privfunnel.model.problem import Problem
from privfunnel.neighbours import alternatives


@dataclass(frozen=True, kw_only=True)
class Suppression(Solver):
    """Drop public columns: of all ways that keep the asked disclosure, the one that leaks least.

    Exact for up to twelve columns; no options and no randomness.
    """

    name: ClassVar[str] = "suppression"
    by_columns: ClassVar[bool] = True
    method: ClassVar[str] = alternatives.DROPPING

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """The least leakage with ``I(X;Y) ≥ disclosure`` (nats) that the ladders of the columns allow."""
        found = alternatives.least_leaking(
            alternatives.alphabet_of(problem), problem.p_sx, disclosure, self.method
        )
        searched = (
            "" if found.exact else f"the best of {found.tried} releases: there are too many for all of them"
        )
        return Answer(
            channel=channel_of(found.place), status=Status.FEASIBLE, steps=found.tried, message=searched
        )


@dataclass(frozen=True, kw_only=True)
class Generalisation(Suppression):
    """Coarsen public columns, or drop them: of the lattice of all ways, the one that leaks least.

    Neighbouring numbers and bins are merged pairwise, again and again; of other values the more frequent half is kept,
    again and again, and the rest becomes one. No options and no randomness.
    """

    name: ClassVar[str] = "generalisation"
    method: ClassVar[str] = alternatives.COARSENING
