"""Best of many restarts at many disclosures, as one batch of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privfunnel.errors import SolverError
from privfunnel.measures import Array, mutual_information
from privfunnel.solvers._aem_engines import Engine
from privfunnel.solvers._aem_starts import Starts
from privfunnel.solvers._aem_step import Tables, channel_of, log_of

# Iterations between two looks at the batch: finished runs leave it, progress is reported, interrupts are served.
STEPS_A_LOOK = 64
FIRST_SLOPE = 0.5


@dataclass(frozen=True)
class Run:
    """The end of one run.

    Attributes:
        channel: p(y|x), shape (M, N).
        leakage: I(S;Y) of the channel, nats.
        slope: λ of the last iteration.
        steps: Iterations done.
        restart: Index of the restart.
    """

    channel: Array
    leakage: float
    slope: float
    steps: int
    restart: int


@dataclass(frozen=True)
class Plan:
    """How the runs are to be made: see the options of :class:`privfunnel.solvers.aem.AEM`."""

    restarts: int
    max_steps: int
    tolerance: float
    memory: int


def best_runs(
    tables: Tables,
    disclosures: Sequence[float],
    starts: Starts,
    engine: Engine,
    plan: Plan,
    look: Callable[[int, int], None],
) -> Iterator[Run]:
    """The run of least leakage for each disclosure, in order.

    Args:
        tables: The problem's tables.
        disclosures: R of each point, nats, strictly between 0 and H(X).
        starts: Where the runs start.
        engine: What advances them.
        plan: Restarts, steps, tolerance and memory.
        look: Called with (iterations done, iterations at most) after every few.

    Yields:
        One :class:`Run` a disclosure. Runs are made in blocks that keep to ``plan.memory`` bytes.
    """
    entry = 8 * len(tables.p_x) * starts.n_y
    block = max(1, plan.memory // (entry * engine.arrays_a_run))
    jobs = [(point, restart) for point in range(len(disclosures)) for restart in range(plan.restarts)]
    best: dict[int, Run] = {}
    following = 0
    for begin in range(0, len(jobs), block):
        part = jobs[begin : begin + block]

        def seen(done: int, begin: int = begin, size: int = len(part)) -> None:
            look(begin * plan.max_steps + done * size, len(jobs) * plan.max_steps)

        for (point, _), run in zip(
            part, _run_block(tables, disclosures, starts, engine, plan, part, seen), strict=True
        ):
            if point not in best or run.leakage < best[point].leakage:
                best[point] = run
        finished = len(disclosures) if begin + block >= len(jobs) else jobs[begin + block][0]
        for point in range(following, finished):
            yield best.pop(point)
        following = finished


def _run_block(
    tables: Tables,
    disclosures: Sequence[float],
    starts: Starts,
    engine: Engine,
    plan: Plan,
    jobs: Sequence[tuple[int, int]],
    seen: Callable[[int], None],
) -> Iterator[Run]:
    """Run a block of (point, restart) pairs to their ends."""
    p_x = tables.p_x[:, None]
    log_u = np.empty((len(jobs), len(tables.p_x), starts.n_y))
    # Restart by restart, so that each random channel is drawn once for all points of the block.
    for run in sorted(range(len(jobs)), key=lambda run: jobs[run][::-1]):
        point, restart = jobs[run]
        log_u[run] = log_of(p_x * starts.channel(restart, disclosures[point]))
    target = np.array([disclosures[point] for point, _ in jobs]) - tables.h_x
    slope = np.full(len(jobs), FIRST_SLOPE)
    steps = np.zeros(len(jobs), dtype=np.int64)
    going = np.arange(len(jobs))
    for begin in range(0, plan.max_steps, STEPS_A_LOOK):
        length = min(STEPS_A_LOOK, plan.max_steps - begin)
        whole = len(going) == len(jobs)
        part = log_u if whole else log_u[going]
        made = engine.advance(part, slope[going], target[going], length, plan.tolerance)
        if not whole:
            log_u[going] = part
        slope[going] = made.slope
        steps[going] += made.steps
        going = going[made.alive & (made.residual > plan.tolerance)]
        seen(begin + length)
        if not len(going):
            break
    for run, (_, restart) in enumerate(jobs):
        channel = channel_of(tables, log_u[run])
        leakage = float(mutual_information(tables.p_s_given_x @ (p_x * channel)))
        if not np.isfinite(leakage):
            raise SolverError(
                f"restart {restart} ended in numbers that are not finite: check the table for extremes"
            )
        yield Run(channel, leakage, float(slope[run]), int(steps[run]), restart)
