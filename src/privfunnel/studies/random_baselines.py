"""Controls: what pure luck gives, with as many draws as a method has runs and no iteration at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel.algorithms.base import Solver
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.nlp.starts import feasible_starts
from privfunnel.algorithms.options import check_seconds, check_whole
from privfunnel.algorithms.pool import ENTRY_SECONDS, Pool, evaluate_batch
from privfunnel.algorithms.sweep import Sweep
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener
from privfunnel.measures import Array
from privfunnel.model.problem import Problem


@dataclass(frozen=True, kw_only=True)
class RandomMaps(Sweep):
    """The envelope of random deterministic maps, time-shared: the control of the sweeping and merging methods.

    Attributes:
        restarts: Number of random maps.
        time_limit: Seconds after which no further map is drawn; infinite for no limit.
    """

    name: ClassVar[str] = "control-maps"
    iterative: ClassVar[bool] = False

    restarts: int = 4800

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole(self.name, 1, restarts=self.restarts)
        check_seconds(self.name, self.time_limit)

    def _swept(self, problem: Problem, seed: int, deadline: Deadline, progress: Listener | None) -> Pool:
        rng = np.random.default_rng(seed)
        pool = Pool(problem.p_sx, iterative=self.iterative)
        # Entries of the maps that are evaluated at one time.
        block = max(1, 500_000 // problem.n_x**2)
        seconds = block * problem.n_x**2 * ENTRY_SECONDS
        for first in range(0, self.restarts, block):
            if deadline.left() <= seconds:
                pool.cut = True
                break
            maps = random_maps(rng, min(block, self.restarts - first), problem.n_x)
            pool.runs += len(maps)
            pool.add(maps, [Status.FEASIBLE] * len(maps), np.zeros(len(maps)), np.full(len(maps), np.nan))
        return pool


def random_maps(rng: np.random.Generator, runs: int, n_x: int) -> Array:
    """Random deterministic channels (runs, M, M): a number of outputs between 1 and M, each symbol to any of them."""
    sizes = rng.integers(1, n_x + 1, size=runs)
    labels = np.floor(rng.random((runs, n_x)) * sizes[:, None]).astype(np.int64)
    return np.asarray(np.eye(n_x)[labels])


@dataclass(frozen=True, kw_only=True)
class RandomStarts(Solver):
    """The best of random feasible starts with zero iterations: the control of the restarted local methods.

    Attributes:
        restarts: Number of starts for each disclosure.
    """

    name: ClassVar[str] = "control-starts"

    restarts: int = 30

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole(self.name, 1, restarts=self.restarts)

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """The start of least leakage among those drawn for ``disclosure``, N = M + 1 outputs."""
        rng = np.random.default_rng(seed)
        starts = feasible_starts(rng, problem, disclosure, self.restarts, problem.n_x + 1)
        _, leakage = evaluate_batch(problem.p_sx, starts)
        return Answer(channel=starts[int(np.argmin(leakage))], status=Status.FEASIBLE)
