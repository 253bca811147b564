"""AEM: alternating expectation minimisation, Algorithm 1 of the paper, best of many random starts.

*Solves* the least leakage at a disclosure; *how*: an iteration in p(x|y), every iterate feasible and no worse
(:mod:`.state`, which has the formulas), from random :mod:`.starts`, lengthened by :mod:`.schedule`. *Proves* nothing:
a stationary point. *Costs* K·M·N numbers a step and run; a backend advances all runs (:mod:`.runs`, :mod:`.backends`).
Chen, Ye, Wu, Wu, Wu and Zhang, "An Expectation-Maximization Relaxed Method for Privacy Funnel".
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from privfunnel.algorithms.aem.devices import make_backend
from privfunnel.algorithms.aem.plan import PLAN
from privfunnel.algorithms.aem.record import record_run
from privfunnel.algorithms.aem.runs import FIRST_SLOPE, Run, Work, best_runs
from privfunnel.algorithms.aem.starts import Starts
from privfunnel.algorithms.aem.state import Tables, log_of
from privfunnel.algorithms.base import SHORTEST_LIMIT, TimeLimited
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.options import check_seconds, check_whole, without_none
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra.checks import is_number
from privfunnel.infra.watching import Listener, Progress
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.problem import Problem
from privfunnel.model.stationarity import kkt_residual


@dataclass(frozen=True, kw_only=True)
class AEM(TimeLimited):
    """Alternating expectation minimisation, best of ``restarts`` random feasible starts.

    Attributes:
        restarts: Random starts for each disclosure; the one of least leakage is kept.
        max_steps: Iterations of a run at most.
        tolerance: KKT residual (:func:`privfunnel.model.stationarity.kkt_residual`) at which a run has converged, in
            nats.
        outputs: Number of outputs N; None means M + 1, which always suffices.
        device: ``"cpu"`` (compiled if numba is installed, else NumPy), ``"numba"``, ``"numpy"``, ``"torch"``,
            ``"cuda"``, or ``"auto"``: a GPU if there is one.
        threads: Threads of the compiled code; None means all cores this process may use. Answers do not depend on it.
        memory: Bytes the runs in work at one time may take; the batch is cut into blocks accordingly. None means
            512 MiB, or most of what is free on a GPU.
        accelerate: Take longer steps that keep the guarantees, ramp up the disclosure, and retire restarts that fall
            behind (:mod:`privfunnel.algorithms.aem.schedule`); False is plain Algorithm 1 from independent starts.
        time_limit: Seconds for one answer, infinite for no limit: steps are a limit that gives the same answer on any
            machine.
        record: Keep the history of the best run (:func:`privfunnel.algorithms.aem.record.record_run`).
    """

    name: ClassVar[str] = "aem"
    #: Number of the first restart.
    first: ClassVar[int] = 0

    restarts: int = 30
    max_steps: int = 500
    tolerance: float = 1.0e-8
    outputs: int | None = None
    device: str = "cpu"
    threads: int | None = None
    memory: int | None = None
    record: bool = False
    accelerate: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole(self.name, 1, restarts=self.restarts, max_steps=self.max_steps,
                    **without_none(outputs=self.outputs, threads=self.threads, memory=self.memory))  # fmt: skip
        check_seconds(self.name, self.time_limit)
        if not is_number(self.tolerance) or not 0.0 <= self.tolerance < math.inf:
            raise InvalidInputError(
                f"{self.name}: tolerance={self.tolerance!r} is not usable: give a number of nats ≥ 0"
            )
        if self.record and self.accelerate:
            raise InvalidInputError(
                f"{self.name}: record=True follows plain Algorithm 1: give accelerate=False as well"
            )

    def limited(self, seconds: float, *, threads: int = 1) -> AEM:
        """The same solver with another time limit, on ``threads`` threads."""
        return replace(self, threads=threads, time_limit=max(seconds, SHORTEST_LIMIT))

    def warm_up(self) -> None:
        """Compile the kernels, or read them from the cache, by solving a tiny problem."""
        replace(self, outputs=None).solve(Problem([[0.3, 0.2, 0.1], [0.05, 0.15, 0.2]]), 0.4)

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """One answer a disclosure, all restarts of all disclosures in one batch.

        Raises:
            InfeasibleError: A disclosure is not between 0 and H(X), or exceeds what ``outputs`` outputs can carry.
        """
        wanted = list(disclosures)
        ceiling = problem.disclosure_ceiling
        for value in wanted:
            if not 0.0 < value < ceiling:
                raise InfeasibleError(
                    f"{self.name}: disclosure={value!r} is not in (0, H(X)) = (0, {ceiling:.9g}) nats: change it, or "
                    "call privfunnel.solve, which knows the answer at both ends"
                )
        yield from self._best(problem, wanted, seed, progress)

    def _best(
        self, problem: Problem, disclosures: list[float], seed: int, progress: Listener | None
    ) -> Iterator[Answer]:
        n_y = problem.n_x + 1 if self.outputs is None else self.outputs
        late = problem.n_x * n_y * (PLAN.late_entry_seconds + PLAN.late_product_seconds * problem.n_s)
        if n_y > problem.n_x and late > PLAN.late * self.time_limit + PLAN.late_seconds:
            yield from (too_large(problem, value) for value in disclosures)
            return
        tables = Tables.of(problem.p_sx)
        backend = make_backend(tables, "numpy" if self.record else self.device, self.threads)
        starts = Starts(tables, n_y, seed)
        work = Work(
            tables=tables,
            disclosures=disclosures,
            floors=[float(problem.lower_bound(value)) for value in disclosures],
            starts=starts,
            backend=backend,
            first=self.first,
            restarts=self.restarts,
            max_steps=self.max_steps,
            # The runs stop on an estimate of the residual; half of it leaves room for the difference.
            tolerance=0.5 * self.tolerance,
            memory=backend.memory if self.memory is None else self.memory,
            deadline=Deadline(self.time_limit * len(disclosures)),
        )

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(Progress(done=done, total=total, message=f"{self.name}: iterations"))

        began = time.perf_counter()
        for disclosure, run in zip(
            disclosures, best_runs(work, report, accelerate=self.accelerate), strict=True
        ):
            limit = Status.TIME_LIMIT if work.deadline.passed() else Status.MAX_STEPS
            yield self._answer(problem, tables, starts, disclosure, run, limit, time.perf_counter() - began)
            began = time.perf_counter()

    def _answer(
        self,
        problem: Problem,
        tables: Tables,
        starts: Starts,
        disclosure: float,
        run: Run,
        limit: Status,
        seconds: float,
    ) -> Answer:
        """The answer of the best run, which a ``limit`` ended where it has not converged."""
        residual = kkt_residual(problem, run.channel)
        record = None
        if self.record:
            start = log_of(tables.p_x[:, None] * starts.channels([run.restart], np.array([disclosure]))[0])
            record = record_run(problem, tables, start, FIRST_SLOPE, disclosure, run.steps)
        return Answer(
            channel=run.channel,
            status=Status.CONVERGED if residual <= self.tolerance else limit,
            slope=run.slope,
            steps=run.steps,
            seconds=seconds,
            message=f"best of {self.restarts} starts (number {run.restart}), KKT residual {residual:.2g} nats",
            record=record,
        )


class Ramped(AEM):
    """AEM without the direct run of its first restart: for one restart, which ramps up from sparse rows."""

    first: ClassVar[int] = 1


def too_large(problem: Problem, disclosure: float) -> Answer:
    """X itself at times and nothing otherwise: for a table with which the end of one run would exceed the limit."""
    share = disclosure / problem.disclosure_ceiling
    whole: Channel = channels.identity(problem.n_x)
    return Answer(
        channel=channels.time_share([channels.constant(problem.n_x), whole], [1.0 - share, share]),
        status=Status.TIME_LIMIT,
        slope=problem.leakage_ceiling / problem.disclosure_ceiling,
        message="the table is too large for a run in this time: raise the limit, or lower outputs",
    )
