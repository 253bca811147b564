"""The semidefinite method (Bu, Wang, Wornell 2021): posteriors along the directions of X that tell least about S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.options import check_numbers
from privfunnel.algorithms.posteriors.assembly import channel_of_posteriors, reduce
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InvalidInputError
from privfunnel.infra.watching import Listener
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.neighbours import inertia

#: Public symbols beyond this make a linear program that takes minutes.
MOST_SYMBOLS = 600


@dataclass(frozen=True, kw_only=True)
class SDP(Solver):
    """The local approximation of the funnel, whose semidefinite program the spectral theorem solves.

    :mod:`privfunnel.neighbours.inertia` has the equations. Every direction v gives posteriors p ± c√p∘v; together with
    X released as it is they are mixed by the funnel's linear program, so that any disclosure is reached. The
    approximation holds near p(x), that is for little disclosure; far from it the method is what its directions are
    worth.

    Attributes:
        scales: c as shares of the largest c that leaves a posterior.
        utility: λ ≥ 0: directions of B_SᵀB_S − λ B_UᵀB_U for the problem's tasks U, instead of B_SᵀB_S alone.
    """

    name: ClassVar[str] = "sdp"

    scales: tuple[float, ...] = (1.0, 0.5, 0.25)
    utility: float = 0.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_numbers(self.name, "scales", self.scales)
        if max(self.scales) > 1.0:
            raise InvalidInputError(
                f"{self.name}: scales has {max(self.scales)!r}, which is not usable: give numbers up to 1"
            )
        if not 0.0 <= self.utility < np.inf:
            raise InvalidInputError(f"{self.name}: utility={self.utility!r} is not usable: give a number ≥ 0")

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Mix the posteriors of all directions, p itself and X itself to ``disclosure`` (nats)."""
        if problem.n_x > MOST_SYMBOLS:
            message = (
                f"{self.name}: {problem.n_x} public symbols make a program of {6 * problem.n_x} dense posteriors, more "
                f"than those of {MOST_SYMBOLS}: use 'auto' or 'aem'"
            )
            return Answer(channel=channels.identity(problem.n_x), status=Status.FAILED, message=message)
        _, directions = inertia.mixed_directions(problem, self.utility) if self.utility > 0.0 else (
            None, inertia.components(problem).directions
        )  # fmt: skip
        pool = np.concatenate(
            [
                np.eye(problem.n_x),
                problem.p_x[None],
                inertia.posteriors(problem, directions, self.scales),
            ]
        )
        weights = np.zeros(len(pool))
        weights[: problem.n_x] = problem.p_x
        used, posteriors = reduce(problem, weights, pool, disclosure)
        kept = used > 0.0
        channel = channel_of_posteriors(problem, used[kept], posteriors[kept])
        return Answer(channel=channel, status=Status.FEASIBLE, steps=len(pool))
