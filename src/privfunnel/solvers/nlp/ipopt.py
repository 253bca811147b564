"""IPOPT on the channel itself, through casadi, with exact derivatives: the strongest general-purpose opponent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privfunnel.errors import need
from privfunnel.measures import Array
from privfunnel.problem import Problem
from privfunnel.solution import Answer
from privfunnel.solvers.base import Listener, Progress, TimeLimited
from privfunnel.solvers.deadline import Deadline
from privfunnel.solvers.nlp.restarts import best_of, too_large
from privfunnel.solvers.options import check_positive, check_seconds, check_whole

_SUCCESS = ("Solve_Succeeded", "Solved_To_Acceptable_Level")


@dataclass(frozen=True, kw_only=True)
class IPOPT(TimeLimited):
    """The interior-point method over the entries of p(y|x), best of several random starts (needs casadi).

    Attributes:
        restarts: Number of random feasible starts.
        outputs: Number of outputs N ≥ M; M + 1 by default.
        max_steps: Cap on iterations a run.
        tolerance: IPOPT's ``tol``.
        barrier: Initial barrier parameter; None keeps IPOPT's own defaults. A small one (1e-4) starts the run at the
            given start instead of the middle of the box, which is better on some tables and worse on others.
        max_variables: Channels with more entries are refused: their exact Hessian is too large to build.
        time_limit: Seconds for one :meth:`solve`, honoured inside a run as well; infinite for no limit.
    """

    name: ClassVar[str] = "ipopt"
    formerly_none: ClassVar[tuple[str, ...]] = ("time_limit",)

    restarts: int = 30
    outputs: int | None = None
    max_steps: int = 1000
    tolerance: float = 1e-8
    barrier: float | None = None
    max_variables: int = 2500
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_whole(
            "ipopt", 1, restarts=self.restarts, max_steps=self.max_steps, max_variables=self.max_variables
        )
        check_whole("ipopt", 2, outputs=self.outputs)
        check_seconds(self.name, self.time_limit)
        check_positive("ipopt", tolerance=self.tolerance, barrier=self.barrier)

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Minimise I(S;Y) subject to I(X;Y) ≥ ``disclosure`` (nats) and rows that sum to 1."""
        return next(iter(self.trace(problem, [disclosure], seed=seed, progress=progress)))

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """One answer a disclosure; the derivatives are built once."""
        wanted = list(disclosures)
        n_y = max(problem.n_x + 1 if self.outputs is None else self.outputs, problem.n_x)
        if problem.n_x * n_y > self.max_variables:
            for _ in wanted:
                yield too_large(problem, "ipopt", problem.n_x * n_y, self.max_variables)
            return
        casadi = need("casadi", extra="ipopt")
        program = _program(casadi, problem, n_y)
        for done, disclosure in enumerate(wanted):
            yield self._solve(casadi, program, problem, disclosure, n_y, seed, progress)
            if progress is not None:
                progress(Progress(done=done + 1, total=len(wanted), message=f"R = {disclosure:.4f} nats"))

    def _solve(
        self, casadi: Any, program: dict[str, Any], problem: Problem, disclosure: float, n_y: int, seed: int,
        progress: Listener | None,
    ) -> Answer:  # fmt: skip
        deadline = Deadline(self.time_limit)
        n_x = problem.n_x
        options: dict[str, Any] = {
            # IPOPT shortens a step on which a logarithm fails; that is no news.
            "print_time": False, "error_on_fail": False, "show_eval_warnings": False,
            "ipopt.print_level": 0, "ipopt.sb": "yes",
            "ipopt.max_iter": self.max_steps, "ipopt.tol": self.tolerance, "ipopt.bound_relax_factor": 0.0,
        }  # fmt: skip
        if self.barrier is not None:
            options.update(
                {"ipopt.mu_init": self.barrier, "ipopt.bound_push": 1e-8, "ipopt.bound_frac": 1e-8}
            )
        if self.time_limit < math.inf:
            options["ipopt.max_cpu_time" if deadline.clock == "cpu" else "ipopt.max_wall_time"] = (
                self.time_limit
            )
        engine = casadi.nlpsol("funnel", "ipopt", program, options)
        lower = np.concatenate([np.ones(n_x), [disclosure]])
        upper = np.concatenate([np.ones(n_x), [np.inf]])

        def run(start: Array) -> tuple[Array, bool, int]:
            # casadi stores matrices by columns.
            result = engine(x0=start.ravel(order="F"), lbx=0.0, ubx=1.0, lbg=lower, ubg=upper)
            stats = engine.stats()
            channel = np.array(result["x"], dtype=np.float64).reshape((n_x, n_y), order="F")
            return channel, stats["return_status"] in _SUCCESS, int(stats["iter_count"])

        return best_of(
            problem, disclosure, run, restarts=self.restarts, n_y=n_y, seed=seed, deadline=deadline, progress=progress
        )  # fmt: skip


def _program(casadi: Any, problem: Problem, n_y: int) -> dict[str, Any]:
    """The nonlinear program: variables p(y|x), objective I(S;Y), constraints row sums and I(X;Y)."""
    n_x = problem.n_x
    channel = casadi.SX.sym("channel", n_x, n_y)
    p_sy = casadi.mtimes(casadi.DM(problem.p_sx), channel)
    p_y = casadi.mtimes(casadi.DM(problem.p_x).T, channel)
    every = casadi.repmat
    leakage = casadi.sum1(casadi.sum2(p_sy * casadi.log(p_sy / every(p_y, problem.n_s, 1)))) + problem.h_s
    p_xy = every(casadi.DM(problem.p_x), 1, n_y) * channel
    disclosure = casadi.sum1(casadi.sum2(p_xy * casadi.log(channel / every(p_y, n_x, 1))))
    return {
        "x": casadi.vec(channel),
        "f": leakage,
        "g": casadi.vertcat(casadi.sum2(channel), disclosure),
    }
