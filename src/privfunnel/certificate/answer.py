"""What an algorithm answers: a channel, how the run ended, and a proof, never a leakage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from privfunnel.certificate.proof import Certificate
from privfunnel.errors import CertificateError, InfeasibleError, SolverError
from privfunnel.measures import Array, Channel

#: The gap in nats at which a proof makes an answer optimal, for solvers that have no ``gap`` option of their own.
DEFAULT_GAP = 1e-6


#: What a solver may raise on a table at the edge of what floating-point numbers can hold, and what is raised of a proof
#: that does not hold; others are mistakes.
FAILURES = (SolverError, InfeasibleError, CertificateError, ArithmeticError, np.linalg.LinAlgError)


class Status(StrEnum):
    """How a run ended, and with it what may be claimed of the channel."""

    OPTIMAL = "optimal"
    CONVERGED = "converged"
    FEASIBLE = "feasible"
    MAX_STEPS = "max_steps"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    INFEASIBLE = "infeasible"
    FAILED = "failed"

    @property
    def advice(self) -> str:
        """What the status means and what to do next, in a sentence."""
        return _ADVICE[self]


_ADVICE = {
    Status.OPTIMAL: "Proved optimal within the gap: the lower bound was verified independently of the solver.",
    Status.CONVERGED: "A stationary point, not proved optimal: solver='auto' or 'global' gives a proof.",
    Status.FEASIBLE: "A feasible channel, nothing more is claimed: compare its gap, or use solver='auto'.",
    Status.MAX_STEPS: "Feasible, but the step limit came first: raise max_steps or restarts.",
    Status.TIME_LIMIT: "Best value and proved bound when time ran out: raise time_limit to close the gap.",
    Status.NODE_LIMIT: "Best value and proved bound when nodes ran out: raise node_limit to close the gap.",
    Status.INFEASIBLE: "The asked disclosure was not reached: lower it, or choose another solver.",
    Status.FAILED: "No usable channel: see the message, change the solver's options or choose another solver.",
}

#: Statuses of runs that a limit cut short.
UNFINISHED = (Status.MAX_STEPS, Status.TIME_LIMIT, Status.NODE_LIMIT)

#: Statuses of answers that have no usable release.
USELESS = (Status.FAILED, Status.INFEASIBLE)


@dataclass(frozen=True, kw_only=True)
class Record:
    """What happened along one run: a mapping from a quantity's name to its value at each step, in nats.

    Attributes:
        series: Name to array of shape (steps,).
    """

    series: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        """The series called ``name``."""
        return self.series[name]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a solver of any funnel returns.

    Attributes:
        channel: p(y|x), shape (M, N), rows sum to 1.
        status: How the run ended.
        slope: λ, the multiplier of the constraint, where the solver has one: leakage per disclosure, or per utility.
        certificate: Proof of a bound, where the solver has one.
        bound_source: What kind of proof the certificate is, for people.
        steps: Iterations (or nodes) spent.
        seconds: Wall-clock time spent.
        message: Anything worth telling, in a sentence.
        record: The run's history, where it was asked for.
    """

    channel: Channel
    status: Status
    slope: float | None = None
    certificate: Certificate | None = None
    bound_source: str = "certificate"
    steps: int = 0
    seconds: float = 0.0
    message: str = ""
    record: Record | None = None
