"""SciPy's SLSQP on the channel itself, with exact gradients: what a user would try first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from privfunnel.measures import Array, mutual_information
from privfunnel.problem import Problem
from privfunnel.solution import Answer
from privfunnel.solvers.base import Listener, TimeLimited
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.nlp.restarts import best_of, too_large
from privfunnel.solvers.options import check_positive, check_seconds, check_whole

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class SLSQP(TimeLimited):
    """Sequential quadratic programming over the entries of p(y|x), best of several random starts.

    Attributes:
        restarts: Number of random feasible starts.
        outputs: Number of outputs N ≥ M; M + 1 by default.
        max_steps: Cap on iterations a run.
        tolerance: SLSQP's ``ftol``, in nats.
        max_variables: Channels with more entries are refused: an iteration costs the cube of their number.
        time_limit: Seconds for one :meth:`solve`; a run that is cut keeps its last iterate. Infinite for no limit.
    """

    name: ClassVar[str] = "slsqp"
    formerly_none: ClassVar[tuple[str, ...]] = ("time_limit",)

    restarts: int = 30
    outputs: int | None = None
    max_steps: int = 300
    tolerance: float = 1e-8
    max_variables: int = 1500
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole(
            "slsqp", 1, restarts=self.restarts, max_steps=self.max_steps, max_variables=self.max_variables
        )
        check_whole("slsqp", 2, outputs=self.outputs)
        check_seconds(self.name, self.time_limit)
        check_positive("slsqp", tolerance=self.tolerance)

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Minimise I(S;Y) subject to I(X;Y) ≥ ``disclosure`` (nats) and rows that sum to 1."""
        n_y = max(problem.n_x + 1 if self.outputs is None else self.outputs, problem.n_x)
        if problem.n_x * n_y > self.max_variables:
            return too_large(problem, "slsqp", problem.n_x * n_y, self.max_variables)
        deadline = Deadline(self.time_limit)
        shape = (problem.n_x, n_y)

        def leakage(flat: Array) -> tuple[float, Array]:
            return leakage_and_gradient(problem, flat.reshape(shape))

        def slack(flat: Array) -> float:
            return float(mutual_information(problem.p_x[:, None] * flat.reshape(shape))) - disclosure

        def slack_gradient(flat: Array) -> Array:
            return disclosure_gradient(problem, flat.reshape(shape))

        rows = np.kron(np.eye(problem.n_x), np.ones(n_y))
        constraints: Any = [
            {"type": "eq", "fun": lambda flat: rows @ flat - 1.0, "jac": lambda flat: rows},
            {"type": "ineq", "fun": slack, "jac": slack_gradient},
        ]

        options: Any = {"maxiter": self.max_steps, "ftol": self.tolerance}

        def run(start: Array) -> tuple[Array, bool, int]:
            last, steps = start.ravel(), 0

            def watch(xk: Array) -> None:
                nonlocal last, steps
                last, steps = xk.copy(), steps + 1
                if deadline.passed():
                    raise _OutOfTimeError

            try:
                result = minimize(
                    leakage,
                    start.ravel(),
                    jac=True,
                    method="SLSQP",
                    bounds=[(1e-12, 1.0)] * start.size,
                    constraints=constraints,
                    callback=watch,
                    options=options,
                )
            except _OutOfTimeError:
                return last.reshape(shape), False, steps
            return result.x.reshape(shape), bool(result.success), int(result.nit)

        return best_of(
            problem, disclosure, run, restarts=self.restarts, n_y=n_y, seed=seed, deadline=deadline, progress=progress
        )  # fmt: skip


class _OutOfTimeError(Exception):
    """Raised inside a run when its time is up, and caught there."""


def leakage_and_gradient(problem: Problem, channel: Array) -> tuple[float, Array]:
    """I(S;Y) and its gradient ``p_x Σ_s p(s|x) log(p(s|y)/p(s))``, flattened (M N,), in nats."""
    p_sy = problem.p_sx @ channel
    ratio = np.maximum(p_sy, _TINY) / np.maximum(problem.p_s[:, None] * p_sy.sum(axis=0), _TINY)
    return float(mutual_information(p_sy)), (problem.p_sx.T @ np.log(ratio)).ravel()


def disclosure_gradient(problem: Problem, channel: Array) -> Array:
    """Gradient ``p_x log(p(y|x)/p(y))`` of I(X;Y), flattened (M N,), in nats."""
    p_y = np.maximum(problem.p_x @ channel, _TINY)
    return np.asarray((problem.p_x[:, None] * np.log(np.maximum(channel, _TINY) / p_y)).ravel())
