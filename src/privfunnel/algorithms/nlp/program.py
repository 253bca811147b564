"""What the general-purpose solvers share: options, random feasible starts, and the best of several runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.nlp.starts import feasible_starts, lift
from privfunnel.algorithms.options import check_positive, check_seconds, check_whole, without_none
from privfunnel.certificate.answer import Answer, Record, Status
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import TINY, Array
from privfunnel.model import channels
from privfunnel.model.problem import Problem


class Run(NamedTuple):
    """Where a run ended: a channel (M, N), whether its own convergence test was met, and its iterations."""

    channel: Array
    converged: bool
    steps: int


class Program(ABC):
    """min I(S;Y) over p(y|x) ≥ 0 with rows that sum to 1 and I(X;Y) ≥ R, for one R until one deadline."""

    @abstractmethod
    def run(self, start: Array) -> Run:
        """Run from a start (M, N)."""


@dataclass(frozen=True, kw_only=True)
class LocalProgram(TimeLimited, ABC):
    """A general-purpose method on the entries of p(y|x), best of several random starts.

    Attributes:
        restarts: Number of random feasible starts.
        outputs: Number of outputs N ≥ M; M + 1 by default.
        max_steps: Cap on iterations a run.
        tolerance: The method's own tolerance.
        max_variables: Channels with more entries are refused.
        time_limit: Seconds for one answer; infinite for no limit.
    """

    restarts: int = 30
    outputs: int | None = None
    max_steps: int
    tolerance: float = 1e-8
    max_variables: int
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole(
            self.name, 1, restarts=self.restarts, max_steps=self.max_steps, max_variables=self.max_variables
        )
        check_whole(self.name, 2, **without_none(outputs=self.outputs))
        check_positive(self.name, tolerance=self.tolerance)
        check_seconds(self.name, self.time_limit)

    @abstractmethod
    def _programs(
        self, problem: Problem, n_y: int, disclosures: list[float]
    ) -> Iterator[tuple[Program, Deadline]]:
        """The program of each disclosure, and the deadline that it looks at: its clock starts when it is yielded."""

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """One answer for each disclosure, the best of the runs from as many starts as there are restarts."""
        wanted = list(disclosures)
        n_y = max(problem.n_x + 1 if self.outputs is None else self.outputs, problem.n_x)
        if problem.n_x * n_y > self.max_variables:
            yield from [self._too_large(problem, n_y)] * len(wanted)
            return
        programs = self._programs(problem, n_y, wanted)
        for done, (disclosure, (program, deadline)) in enumerate(zip(wanted, programs, strict=True), start=1):
            starts = feasible_starts(np.random.default_rng(seed), problem, disclosure, self.restarts, n_y)
            yield best_of(problem, disclosure, program, starts, deadline, progress)
            if progress is not None:
                progress(Progress(done=done, total=len(wanted), message=f"R = {disclosure:.4f} nats"))

    def _too_large(self, problem: Problem, n_y: int) -> Answer:
        """The refusal of a table whose channel has more entries than the method can handle."""
        message = (
            f"{self.name}: a channel of {problem.n_x * n_y} entries is beyond max_variables={self.max_variables}: "
            "lower outputs, raise the limit, or use another solver"
        )
        return Answer(channel=channels.identity(problem.n_x), status=Status.FAILED, message=message)


def best_of(
    problem: Problem,
    disclosure: float,
    program: Program,
    starts: Array,
    deadline: Deadline,
    progress: Listener | None,
) -> Answer:
    """The run of least leakage; a run that ends short of ``disclosure`` is time-shared with X until it reaches it.

    The first start itself counts as a run of no steps, so that an answer exists whenever the time limit comes.
    """
    best, least = starts[0], problem.evaluate(starts[0]).leakage
    status, steps, finished, converged = Status.TIME_LIMIT, 0, 0, 0
    for start in starts:
        if deadline.passed():
            break
        run = program.run(start)
        finished += 1
        converged += run.converged
        steps += run.steps
        channel = lift(problem, _clean(run.channel), disclosure)
        leakage = problem.evaluate(channel).leakage
        if leakage < least:
            best, least = channel, leakage
            status = Status.CONVERGED if run.converged else Status.MAX_STEPS
        if progress is not None:
            progress(Progress(done=finished, total=len(starts), value=least, message="restarts"))
    if deadline.passed() and status is not Status.CONVERGED:
        status = Status.TIME_LIMIT
    cut = ", cut by the time limit" if finished < len(starts) else ""
    return Answer(
        channel=best,
        status=status,
        steps=steps,
        seconds=deadline.elapsed(),
        message=f"{converged} of {finished} runs converged{cut}",
        record=Record(
            series={"runs": np.array([float(finished)]), "converged": np.array([float(converged)])}
        ),
    )


def _clean(channel: Array) -> Array:
    """The channel with rounding below 0 removed and rows normalised."""
    channel = np.where(np.isfinite(channel), channel, 0.0)
    channel = np.maximum(channel, 0.0) + TINY
    return np.asarray(channel / channel.sum(axis=1, keepdims=True))
