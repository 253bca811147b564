"""IPOPT on the channel itself, through casadi, with exact derivatives: the strongest general-purpose opponent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.nlp.program import LocalProgram, Program, Run
from privfunnel.algorithms.options import check_positive, without_none
from privfunnel.errors import need
from privfunnel.infra.storage import Document
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

_SUCCESS = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
#: How far a start is pushed away from the bounds where a small barrier is to keep it where it is.
_PUSH = 1e-8


@dataclass(frozen=True, kw_only=True)
class IPOPT(LocalProgram):
    """The interior-point method over the entries of p(y|x), best of several random starts (needs casadi).

    Attributes:
        restarts: Number of random feasible starts.
        outputs: Number of outputs N ≥ M; M + 1 by default.
        max_steps: Cap on iterations a run.
        tolerance: IPOPT's ``tol``.
        barrier: Initial barrier parameter; None keeps IPOPT's own defaults. A small one (1e-4) starts the run at the
            given start instead of the middle of the box, which is better on some tables and worse on others.
        max_variables: Channels with more entries are refused: their exact Hessian is too large to build.
        time_limit: Seconds for one answer, honoured inside a run as well; infinite for no limit.
    """

    name: ClassVar[str] = "ipopt"

    max_steps: int = 1000
    barrier: float | None = None
    max_variables: int = 2500

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_positive(self.name, **without_none(barrier=self.barrier))

    def warm_up(self) -> None:
        """Load casadi."""
        need("casadi", extra="ipopt")

    def _programs(
        self, problem: Problem, n_y: int, disclosures: list[float]
    ) -> Iterator[tuple[Program, Deadline]]:
        casadi = need("casadi", extra="ipopt")
        derived = _program(casadi, problem, n_y)  # the derivatives are built once
        for disclosure in disclosures:
            deadline = Deadline(self.time_limit)
            nlp = casadi.nlpsol("funnel", "ipopt", derived, self._settings(deadline.clock))
            yield _Program(nlp, (problem.n_x, n_y), disclosure), deadline

    def _settings(self, clock: str) -> Document:
        """IPOPT's own options."""
        settings: Document = {
            # IPOPT shortens a step on which a logarithm fails; that is no news.
            "print_time": False, "error_on_fail": False, "show_eval_warnings": False,
            "ipopt.print_level": 0, "ipopt.sb": "yes",
            "ipopt.max_iter": self.max_steps, "ipopt.tol": self.tolerance, "ipopt.bound_relax_factor": 0.0,
        }  # fmt: skip
        if self.barrier is not None:
            settings |= {"ipopt.mu_init": self.barrier, "ipopt.bound_push": _PUSH, "ipopt.bound_frac": _PUSH}
        if self.time_limit < math.inf:
            settings["ipopt.max_cpu_time" if clock == "cpu" else "ipopt.max_wall_time"] = self.time_limit
        return settings


class _Program(Program):
    """IPOPT for one disclosure; casadi stores the channel (M, N) by columns."""

    def __init__(self, nlp: Any, shape: tuple[int, int], disclosure: float) -> None:
        self.nlp, self.shape = nlp, shape
        self.lower = np.concatenate([np.ones(shape[0]), [disclosure]])
        self.upper = np.concatenate([np.ones(shape[0]), [np.inf]])

    def run(self, start: Array) -> Run:
        """Run from a start (M, N)."""
        result = self.nlp(x0=start.ravel(order="F"), lbx=0.0, ubx=1.0, lbg=self.lower, ubg=self.upper)
        stats = self.nlp.stats()
        channel = np.array(result["x"], dtype=np.float64).reshape(self.shape, order="F")
        return Run(channel, stats["return_status"] in _SUCCESS, int(stats["iter_count"]))


def _program(casadi: Any, problem: Problem, n_y: int) -> Document:
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
