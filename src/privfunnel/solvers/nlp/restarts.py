"""Best of several runs of a general-purpose solver from random feasible starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privfunnel import channels
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Answer, Record, Status
from privfunnel.solvers.base import Listener, Progress
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.nlp.starts import feasible_starts, lift

#: Runs from a start (M, N) and returns (channel, whether its own convergence test was met, iterations).
Run = Callable[[Array], tuple[Array, bool, int]]


def best_of(
    problem: Problem,
    disclosure: float,
    run: Run,
    *,
    restarts: int,
    n_y: int,
    seed: int,
    deadline: Deadline,
    progress: Listener | None,
) -> Answer:
    """The run of least leakage; a run that ends short of ``disclosure`` is time-shared with X until it reaches it.

    The start itself counts as a run of no steps, so that an answer exists whenever the time limit comes.
    """
    rng = np.random.default_rng(seed)
    starts = feasible_starts(rng, problem, disclosure, restarts, n_y)
    best, least = starts[0], problem.evaluate(starts[0]).leakage
    status, steps, finished, converged = Status.TIME_LIMIT, 0, 0, 0
    for start in starts:
        if deadline.passed():
            break
        channel, success, n_steps = run(start)
        finished += 1
        converged += success
        steps += n_steps
        channel = lift(problem, _clean(channel), disclosure)
        leakage = problem.evaluate(channel).leakage
        if leakage < least:
            best, least = channel, leakage
            status = Status.CONVERGED if success else Status.MAX_STEPS
        if progress is not None:
            progress(Progress(done=finished, total=restarts, value=least, message="restarts"))
    if deadline.passed() and status is not Status.CONVERGED:
        status = Status.TIME_LIMIT
    return Answer(
        channel=best,
        status=status,
        steps=steps,
        seconds=deadline.elapsed(),
        message=f"{converged} of {finished} runs converged"
        + (", cut by the time limit" if finished < restarts else ""),
        record=Record(
            series={"runs": np.array([float(finished)]), "converged": np.array([float(converged)])}
        ),
    )


def too_large(problem: Problem, name: str, n_variables: int, limit: int) -> Answer:
    """The refusal of a table whose channel has more entries than a general-purpose solver can handle."""
    message = (
        f"{name}: a channel of {n_variables} entries is beyond max_variables={limit}: lower outputs, raise the limit, "
        "or use another solver"
    )
    return Answer(channel=channels.identity(problem.n_x), status=Status.FAILED, message=message)


def _clean(channel: Array) -> Array:
    """The channel with rounding below 0 removed and rows normalised."""
    channel = np.where(np.isfinite(channel), channel, 0.0)
    channel = np.maximum(channel, 0.0) + 1e-300
    return np.asarray(channel / channel.sum(axis=1, keepdims=True))
