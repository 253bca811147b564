"""SciPy's SLSQP on the channel itself, with exact gradients: what a user would try first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.nlp.program import LocalProgram, Program, Run
from privfunnel.measures import TINY, Array, mutual_information
from privfunnel.model.problem import Problem


@dataclass(frozen=True, kw_only=True)
class SLSQP(LocalProgram):
    """Sequential quadratic programming over the entries of p(y|x), best of several random starts.

    Attributes:
        restarts: Number of random feasible starts.
        outputs: Number of outputs N ≥ M; M + 1 by default.
        max_steps: Cap on iterations a run.
        tolerance: SLSQP's ``ftol``, in nats.
        max_variables: Channels with more entries are refused: an iteration costs the cube of their number.
        time_limit: Seconds for one answer; a run that is cut keeps its last iterate. Infinite for no limit.
    """

    name: ClassVar[str] = "slsqp"

    max_steps: int = 300
    max_variables: int = 1500

    def _programs(
        self, problem: Problem, n_y: int, disclosures: list[float]
    ) -> Iterator[tuple[Program, Deadline]]:
        for disclosure in disclosures:
            deadline = Deadline(self.time_limit)
            yield _Program(self, problem, n_y, disclosure, deadline), deadline


class _OutOfTimeError(Exception):
    """Raised inside a run when its time is up, and caught there."""


class _Program(Program):
    """SLSQP for one disclosure; its variables are the entries of the channel, row by row (M N,)."""

    def __init__(
        self, options: SLSQP, problem: Problem, n_y: int, disclosure: float, deadline: Deadline
    ) -> None:
        self.problem, self.disclosure, self.deadline = problem, disclosure, deadline
        self.shape = (problem.n_x, n_y)
        self.rows = np.kron(np.eye(problem.n_x), np.ones(n_y))
        self.options: Any = {"maxiter": options.max_steps, "ftol": options.tolerance}
        self.constraints: Any = [
            {"type": "eq", "fun": self._row_sums, "jac": lambda _flat: self.rows},
            {"type": "ineq", "fun": self._slack, "jac": self._slack_gradient},
        ]

    def _leakage(self, flat: Array) -> tuple[float, Array]:
        return leakage_and_gradient(self.problem, flat.reshape(self.shape))

    def _row_sums(self, flat: Array) -> Array:
        return self.rows @ flat - 1.0

    def _slack(self, flat: Array) -> float:
        p_xy = self.problem.p_x[:, None] * flat.reshape(self.shape)
        return float(mutual_information(p_xy)) - self.disclosure

    def _slack_gradient(self, flat: Array) -> Array:
        return disclosure_gradient(self.problem, flat.reshape(self.shape))

    def run(self, start: Array) -> Run:
        """Run from a start (M, N); where the time is up the last iterate counts."""
        last, steps = start.ravel(), 0

        def watch(xk: Array) -> None:
            nonlocal last, steps
            last, steps = xk.copy(), steps + 1
            if self.deadline.passed():
                raise _OutOfTimeError

        try:
            result = minimize(
                self._leakage,
                start.ravel(),
                jac=True,
                method="SLSQP",
                # The least entry of p(y|x) that SLSQP may try: the gradient of I(X;Y) is infinite at 0.
                bounds=[(1e-12, 1.0)] * start.size,
                constraints=self.constraints,
                callback=watch,
                options=self.options,
            )
        except _OutOfTimeError:
            return Run(last.reshape(self.shape), False, steps)
        return Run(result.x.reshape(self.shape), bool(result.success), int(result.nit))


def leakage_and_gradient(problem: Problem, channel: Array) -> tuple[float, Array]:
    """I(S;Y) and its gradient ``p_x Σ_s p(s|x) log(p(s|y)/p(s))``, flattened (M N,), in nats."""
    p_sy = problem.p_sx @ channel
    ratio = np.maximum(p_sy, TINY) / np.maximum(problem.p_s[:, None] * p_sy.sum(axis=0), TINY)
    return float(mutual_information(p_sy)), (problem.p_sx.T @ np.log(ratio)).ravel()


def disclosure_gradient(problem: Problem, channel: Array) -> Array:
    """Gradient ``p_x log(p(y|x)/p(y))`` of I(X;Y), flattened (M N,), in nats."""
    p_y = np.maximum(problem.p_x @ channel, TINY)
    return np.asarray((problem.p_x[:, None] * np.log(np.maximum(channel, TINY) / p_y)).ravel())
