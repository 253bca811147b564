"""What a solver answers, and the solution that privfunnel makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfunnel import cards, channels
from privfunnel.attackers import DEFAULT_MEASURE, NOTHING
from privfunnel.channels import from_stored, to_stored
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError, SolverError
from privfunnel.kkt import kkt_residual as kkt_residual
from privfunnel.kkt import stationarity as stationarity
from privfunnel.lumping import ClassChannel
from privfunnel.measures import Array
from privfunnel.problem import Channel, Problem
from privfunnel.storage import Stored
from privfunnel.threats import Threat

if TYPE_CHECKING:
    from privfunnel.certificate import Certificate, DistortionCertificate
    from privfunnel.certificate.guarded import GuardedCertificate
    from privfunnel.certificate.task import TaskCertificate

#: A channel meets an asked disclosure when it misses it by no more than this, in nats.
FEASIBILITY = 1e-9

#: What rounding may add to a difference of two informations of order 1.
ROUNDING = 1e-12

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


def final_status(claimed: Status, *, met: bool, proved: bool) -> Status:
    """What may be claimed, of what the solver claims: whether the request is met, and optimality is proved."""
    if claimed is Status.FAILED:
        return claimed
    if not met:
        return Status.INFEASIBLE
    if claimed is Status.OPTIMAL and not proved:
        return Status.CONVERGED
    if proved and claimed in (Status.CONVERGED, Status.FEASIBLE, *UNFINISHED):
        return Status.OPTIMAL
    return claimed


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


Proof = TypeVar("Proof")


@dataclass(frozen=True, kw_only=True, eq=False)
class ProvedAnswer(Generic[Proof]):
    """What a solver of any funnel returns: a channel, a status and a proof, never a leakage.

    Attributes:
        channel: p(y|x), shape (M, N), rows sum to 1.
        status: How the run ended.
        slope: λ, the multiplier of the constraint, where the solver has one: leakage per disclosure, or per utility.
        certificate: Proof of a bound, where the solver has one.
        steps: Iterations (or nodes) spent.
        seconds: Wall-clock time spent.
        message: Anything worth telling, in a sentence.
    """

    channel: Channel
    status: Status
    slope: float | None = None
    certificate: Proof | None = None
    steps: int = 0
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer(ProvedAnswer["Certificate"]):
    """What a solver of the plain funnel returns.

    Attributes:
        bound_source: What kind of proof the certificate is, for people.
        record: The run's history, where it was asked for.
        most_free: What no channel without leakage exceeds, in nats, where the solver looked for the most free one.
    """

    bound_source: str = "certificate"
    record: Record | None = None
    most_free: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution(Stored):
    """A channel with its numbers, all recomputed from the problem and the channel; nats.

    Attributes:
        problem: The problem it solves.
        mapping: p(y|x) as it is held: an array (M, N), or a channel of classes; see :attr:`channel`.
        disclosure: I(X;Y) of the channel.
        leakage: I(S;Y) of the channel.
        lower_bound: Proved lower bound on L(R) at the asked disclosure (at the channel's own for a leakage budget).
        bound_source: What proves it: ``"zero"``, ``"closed form"``, ``"certificate"``, …
        slope: dL/dR at the point, where known.
        status: How the run ended.
        certificate: Object that proves ``lower_bound``, or None where a closed form does.
        requested: The asked disclosure, or None.
        budget: The asked leakage budget, or None.
        disclosure_upper_bound: For a leakage budget, or guarantees alone: no channel within it discloses more.
        solver: Name of the solver.
        seed: Seed of the run.
        steps: Iterations (or nodes) spent.
        seconds: Wall-clock time spent.
        message: Anything worth telling.
        record: The run's history, where it was asked for.
        threat: Attackers who know something, published columns and guarantees, where there are any: ``leakage`` is then
            the largest of :attr:`leakages`, and ``lower_bound`` is of it.
    """

    schema: ClassVar[str] = "privfunnel/solution"
    #: Version 2 has a threat; a solution of the plain funnel is still written as version 1.
    schema_version: ClassVar[int] = 2
    oldest_version: ClassVar[int | None] = 1

    problem: Problem
    mapping: Channel | ClassChannel
    disclosure: float
    leakage: float
    lower_bound: float
    bound_source: str
    slope: float | None
    status: Status
    certificate: Certificate | GuardedCertificate | DistortionCertificate | TaskCertificate | None = None
    requested: float | None = None
    budget: float | None = None
    disclosure_upper_bound: float | None = None
    solver: str = ""
    seed: int = 0
    steps: int = 0
    seconds: float = 0.0
    message: str = ""
    record: Record | None = None
    threat: Threat | None = None

    def __repr__(self) -> str:
        """One line with the numbers."""
        if self.seeks_disclosure:
            return (
                f"Solution({self.status.value}: disclosure {self.disclosure:.6g} ≤ {self.disclosure_upper_bound:.6g}, "
                f"leakage {self.leakage:.6g}{self.unit}, {self.n_outputs} outputs, {self.solver})"
            )
        return (
            f"Solution({self.status.value}: disclosure {self.disclosure:.6g}, leakage {self.leakage:.6g} ≥ "
            f"{self.lower_bound:.6g}{self.unit} by {self.bound_source}, {self.n_outputs} outputs, {self.solver})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        problem = self.problem
        kept = cards.share(self.disclosure, problem.disclosure_ceiling)
        usual = self.threat is None or (self.threat.measure == DEFAULT_MEASURE and not self.threat.attributes)
        leaked = self.unit + (cards.share(self.leakage, problem.leakage_ceiling) if usual else "")
        facts = [
            ("disclosure I(X;Y)", f"{self.disclosure:.6g} nats{kept}"),
            ("leakage I(S;Y)" if self.threat is None else "largest leakage", f"{self.leakage:.6g}{leaked}"),
            ("most disclosure, proved", f"{self.disclosure_upper_bound:.6g} nats") if self.seeks_disclosure else
            ("proved lower bound", f"{self.lower_bound:.6g}{self.unit}, {self.bound_source}"),
            ("outputs", f"{self.n_outputs} for {problem.n_x} public symbols"),
            ("status", f"{self.status.value}: {self.advice}"),
            ("solver", f"{self.solver}, {self.seconds:.1f} s"),
        ]  # fmt: skip
        return cards.card("Solution", facts)

    @property
    def unit(self) -> str:
        """The unit of leakage as it is written after a number: " nats", or nothing for a measure without one."""
        return " nats" if self.threat is None or self.threat.convex.in_nats else ""

    @cached_property
    def leakages(self) -> dict[str, float]:
        """What the release tells each attacker that it was designed against, in nats, by what they know."""
        return (
            {NOTHING: self.leakage}
            if self.threat is None
            else self.threat.leakages(self.problem, self.channel)
        )

    @property
    def published_leakage(self) -> float:
        """I(S;A), what the published columns tell as they are, in nats; 0 where none are published."""
        if self.threat is None or self.threat.published is None:
            return 0.0
        shown = self.threat.published
        return self.problem.evaluate(np.eye(shown.n_values)[shown.values]).leakage

    @cached_property
    def guaranteed(self) -> dict[str, float]:
        """What the channel has of each guarantee that was asked for, by the guarantee as written."""
        return {} if self.threat is None else self.threat.reached(self.problem, self.channel)

    @property
    def seeks_disclosure(self) -> bool:
        """Whether a guarded release was to disclose as much as guarantees or a leakage budget allow."""
        return self.threat is not None and self.requested is None and self.disclosure_upper_bound is not None

    @property
    def gap(self) -> float:
        """Leakage above the proved lower bound, in nats, never negative.

        Where :attr:`seeks_disclosure`, it is what the disclosure is below the most that is proved possible.
        """
        if self.seeks_disclosure and self.disclosure_upper_bound is not None:
            return max(self.disclosure_upper_bound - self.disclosure, 0.0)
        return max(self.leakage - self.lower_bound, 0.0)

    @property
    def free_extra(self) -> float:
        """What is disclosed beyond the asked disclosure where nothing leaks, in nats; 0 elsewhere."""
        if (
            self.requested is None
            or self.leakage > ROUNDING
            or self.disclosure <= self.requested + FEASIBILITY
        ):
            return 0.0
        return self.disclosure - self.requested

    @property
    def advice(self) -> str:
        """What the status means and what to do next, in a sentence about what was asked for."""
        if self.seeks_disclosure and self.status is Status.OPTIMAL:
            return (
                "Proved optimal within the gap: that no release discloses more was verified independently of the "
                "solver."
            )
        return self.status.advice

    @property
    def channel(self) -> Channel:
        """p(y|x), shape (M, N): an array, or a SciPy sparse array where M·N exceeds ten million."""
        return self.mapping.table if isinstance(self.mapping, ClassChannel) else self.mapping

    @property
    def outputs(self) -> NDArray[np.intp] | None:
        """The public symbol that each output is, shape (N,), where records are released for records; None elsewhere."""
        return None

    @property
    def n_outputs(self) -> int:
        """Outputs of the channel; of the channel of the classes where symbols were lumped."""
        held = self.mapping.channel if isinstance(self.mapping, ClassChannel) else self.mapping
        return int(held.shape[1])

    @cached_property
    def p_y(self) -> Array:
        """p(y), shape (N,)."""
        return np.asarray(self.problem.p_x @ self.channel)

    @cached_property
    def p_x_given_y(self) -> Channel:
        """Posteriors p(x|y), shape (M, N), as dense as the channel; the column of an output that never occurs is 0."""
        if not isinstance(self.channel, np.ndarray):
            return self.channel.multiply(self.problem.p_x[:, None]).multiply(1.0 / self.p_y).tocsc()
        p_xy = self.channel * self.problem.p_x[:, None]
        return np.divide(p_xy, self.p_y, out=np.zeros_like(p_xy), where=self.p_y > 0.0)

    @cached_property
    def p_s_given_y(self) -> Array:
        """What an attacker believes after seeing y: p(s|y), shape (K, N)."""
        return np.asarray(self.problem.p_s_given_x @ self.p_x_given_y)

    @property
    def kkt_residual(self) -> float:
        """Distance from stationarity: see :func:`kkt_residual`."""
        if isinstance(
            self.mapping, ClassChannel
        ):  # members are released in full: only the classes can be improved
            return kkt_residual(self.mapping.lumping.lumped, self.mapping.channel)
        return kkt_residual(self.problem, self.mapping)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; certificates and records live in files of their own."""
        return {
            **self.heading(),
            **({"version": 1} if self.threat is None else {"threat": self.threat.to_dict()}),
            "units": "nats",
            **self.summary(),
            **self.stored_channel(),
            "problem": self.problem.to_dict(),
        }

    def stored_channel(self) -> dict[str, Any]:
        """The channel as files hold it: its rows, or classes and the channel of the classes."""
        if isinstance(self.mapping, ClassChannel):
            return self.mapping.to_dict()
        return {"channel": to_stored(self.mapping)}

    def summary(self) -> dict[str, Any]:
        """The numbers without channel and problem, JSON-ready, in nats."""
        return {
            "disclosure": self.disclosure,
            "leakage": self.leakage,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "bound_source": self.bound_source,
            "slope": self.slope,
            "status": self.status.value,
            "requested": self.requested,
            "budget": self.budget,
            "disclosure_upper_bound": self.disclosure_upper_bound,
            "free_extra": self.free_extra,
            "solver": self.solver,
            "seed": self.seed,
            "steps": self.steps,
            "seconds": self.seconds,
            "message": self.message,
            **({} if self.threat is None else {"leakages": self.leakages, "guaranteed": self.guaranteed}),
        }

    @classmethod
    def from_dict(cls, data: Any, problem: Problem | None = None) -> Self:
        """Read back what :meth:`to_dict` wrote; the channel's two numbers are recomputed, not believed.

        Without its certificate the stored lower bound cannot be checked again: it is kept as written, and so is the
        status.
        """
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"]) if problem is None else problem
            return cls(problem=problem, **fields_from(data, problem))


def failed(
    problem: Problem,
    channel: Channel,
    error: Exception,
    solver: str,
    seed: int,
    *,
    requested: float | None = None,
    budget: float | None = None,
    seconds: float = 0.0,
    threat: Threat | None = None,
) -> Solution:
    """What is left of an answer that cannot be believed: its channel and what that has, and no bound on anything.

    Args:
        problem: The problem.
        channel: The answer's channel; where it is none, the one that releases nothing, or the published columns alone.
        error: What is wrong with the answer.
        solver: Name of the solver.
        seed: Seed of the run.
        requested: The asked disclosure in nats, or None.
        budget: The asked leakage budget in nats, or None.
        seconds: Time spent.
        threat: What the release is guarded against, or None.
    """
    try:
        channel = problem.check_channel(channel)
    except InvalidInputError:
        channel = channels.constant(problem.n_x) if threat is None else threat.nothing(problem)
    point = problem.evaluate(channel)
    return Solution(
        problem=problem,
        mapping=channel,
        disclosure=point.disclosure,
        leakage=point.leakage if threat is None else max(threat.leakages(problem, channel).values()),
        lower_bound=0.0,
        bound_source="zero",
        slope=None,
        status=Status.INFEASIBLE if isinstance(error, InfeasibleError) else Status.FAILED,
        requested=requested,
        budget=budget,
        disclosure_upper_bound=problem.disclosure_ceiling if requested is None else None,
        solver=solver,
        seed=seed,
        seconds=seconds,
        message=str(error) or type(error).__name__,
        threat=threat,
    )


def posteriors_of(problem: Problem, solutions: Iterable[Solution]) -> Array:
    """p(x|y) of the releases among solutions, shape (n, M): what a search for another point may begin with."""
    made = [s.p_x_given_y.T[s.p_y > 0.0] for s in solutions if s.status not in USELESS]
    return np.concatenate([np.zeros((0, problem.n_x)), *made])


def fields_from(data: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """Fields of a :class:`Solution` from its stored summary and channel, the channel re-evaluated."""
    mapping: Channel | ClassChannel
    if "classes" in data:
        mapping = ClassChannel.from_dict(data, problem)
        point = mapping.evaluate()
    else:
        mapping = problem.check_channel(from_stored(data["channel"]))
        point = problem.evaluate(mapping)
    threat = Threat.from_dict(data["threat"]) if "threat" in data else None
    if threat is not None:
        point = point._replace(leakage=max(threat.leakages(problem, mapping).values()))
    for name, value in (("disclosure", point.disclosure), ("leakage", point.leakage)):
        if abs(float(data[name]) - value) > FEASIBILITY:
            raise InvalidInputError(
                f"the file claims {name} {data[name]!r}, its channel gives {value!r}: the file was changed"
            )
    if not float(data["lower_bound"]) <= point.leakage + FEASIBILITY:
        raise InvalidInputError(
            f"the file claims the lower bound {data['lower_bound']!r}, its channel leaks {point.leakage!r}: "
            "the file was changed"
        )
    try:
        status = Status(data["status"])
    except ValueError:
        raise InvalidInputError(f"unknown status {data['status']!r}: the file was changed") from None
    plain = (
        "lower_bound", "bound_source", "slope", "requested", "budget", "disclosure_upper_bound", "solver", "seed",
        "steps", "seconds", "message",
    )  # fmt: skip
    return {
        "mapping": mapping,
        "disclosure": point.disclosure,
        "leakage": point.leakage,
        "status": status,
        "threat": threat,
        **{name: data[name] for name in plain},
    }
