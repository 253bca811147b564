"""The solution that privfunnel makes of an answer: a release, its numbers and what is proved of all others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import USELESS, Record, Status
from privfunnel.errors import InvalidInputError
from privfunnel.infra import cards
from privfunnel.infra.storage import Document, Stored
from privfunnel.measures import Array, Channel
from privfunnel.model.channels import from_stored, to_stored
from privfunnel.model.costs import Costs
from privfunnel.model.equal_symbols import ClassChannel, as_table, held_by_classes, of_classes
from privfunnel.model.problem import Problem
from privfunnel.model.question import FEASIBILITY, ROUNDING, Quantity, Question, Values
from privfunnel.model.stationarity import kkt_residual
from privfunnel.model.threat import Threat


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution(Stored):
    """A release with its numbers, all recomputed from problem and channel, and what is proved of all others; nats.

    Attributes:
        question: What was asked.
        mapping: p(y|x) as it is held: an array (M, N), or a channel of classes; see :attr:`channel`.
        values: What the channel has: disclosure, leakages, utility, distortion.
        lower_bound: No release of this kind that is as good on the axis leaks less: proved.
        bound_source: What proves it: ``"zero"``, ``"closed form"``, ``"certificate"``, …
        bound: What is proved of the goal: for least leakage the same as ``lower_bound``; where most disclosure or
            utility, or least distortion, was asked for, what no release exceeds, or falls below.
        slope: Leakage per disclosure, utility or distortion along the curve, where known.
        status: How the run ended.
        certificate: Object that proves the bound, or None where a closed form does.
        solver: Name of the solver.
        seed: Seed of the run.
        steps: Iterations (or nodes) spent.
        seconds: Wall-clock time spent.
        message: Anything worth telling.
        record: The run's history, where it was asked for.
    """

    schema: ClassVar[str] = "privfunnel/solution"

    question: Question
    mapping: Channel | ClassChannel
    values: Values
    lower_bound: float
    bound_source: str
    bound: float
    slope: float | None
    status: Status
    certificate: Certificate | None = None
    solver: str = ""
    seed: int = 0
    steps: int = 0
    seconds: float = 0.0
    message: str = ""
    record: Record | None = None

    # --- what was asked ---------------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The problem it solves."""
        return self.question.problem

    @property
    def guards(self) -> Threat:
        """Who is guarded against, and what holds for every output."""
        return self.question.guards

    @property
    def requested(self) -> float | None:
        """The asked disclosure in nats, or None."""
        asked = self.question
        if asked.axis is Quantity.DISCLOSURE:
            return asked.disclosure if asked.names_place else None
        return asked.disclosure or None

    @property
    def requested_utility(self) -> float | None:
        """The asked utility in nats, or None."""
        asked = self.question
        return asked.utility if asked.axis is Quantity.UTILITY and asked.names_place else None

    @property
    def limit(self) -> float | None:
        """The asked distortion, or None."""
        return self.question.distortion if math.isfinite(self.question.distortion) else None

    @property
    def budget(self) -> float | None:
        """The asked leakage budget, or None."""
        return self.question.budget if math.isfinite(self.question.budget) else None

    @property
    def costs(self) -> Costs | None:
        """What changes cost, where records are released for records."""
        return self.question.costs

    @property
    def invariant(self) -> bool:
        """Whether p(y) = p(x) was asked for."""
        return self.question.invariant

    # --- what it has ------------------------------------------------------------------------------------------

    @property
    def disclosure(self) -> float:
        """I(X;Y) of the channel."""
        return self.values.disclosure

    @property
    def leakage(self) -> float:
        """The largest leakage of the channel to any attacker: I(S;Y) where there is only who knows nothing."""
        return self.values.leakage

    @property
    def leakages(self) -> dict[str, float]:
        """What the release tells each attacker that it was designed against, in nats, by what they know."""
        return dict(self.values.leakages)

    @property
    def utility(self) -> float:
        """Σ ω I(U;Y) of the channel, for a task."""
        return self.values.utility

    @property
    def distortion(self) -> float:
        """E d(X,Y) of the channel, in the unit of the costs."""
        return self.values.distortion

    @property
    def multiplier(self) -> float:
        """λ of a distortion: the leakage that one more unit of it saves."""
        return 0.0 if self.slope is None else max(-self.slope, 0.0)

    @property
    def published_leakage(self) -> float:
        """I(S;A), what the published columns tell as they are, in nats; 0 where none are published."""
        shown = self.guards.published
        if shown is None:
            return 0.0
        return self.problem.evaluate(np.eye(shown.n_values)[shown.values]).leakage

    @cached_property
    def guaranteed(self) -> dict[str, float]:
        """What the channel has of each guarantee that was asked for, by the guarantee as written."""
        return self.guards.reached(self.problem, self.channel) if self.guards.guarantees else {}

    # --- what is proved ---------------------------------------------------------------------------------------

    def _most(self, goal: Quantity) -> float | None:
        return self.bound if self.question.goal is goal else None

    @property
    def disclosure_upper_bound(self) -> float | None:
        """For a leakage budget, or guarantees alone: no channel within them discloses more."""
        return self._most(Quantity.DISCLOSURE)

    @property
    def utility_upper_bound(self) -> float | None:
        """The same for a task: no channel within them keeps more utility."""
        return self._most(Quantity.UTILITY)

    @property
    def least_distortion(self) -> float | None:
        """For records within a leakage budget: no channel within it has less distortion."""
        return self._most(Quantity.DISTORTION)

    @property
    def gap(self) -> float:
        """How far the goal is from what is proved of it, never negative: in its own unit."""
        reached = self.values.of(self.question.goal)
        return max(self.bound - reached if self.question.goal.sought_most else reached - self.bound, 0.0)

    @property
    def unit(self) -> str:
        """The unit of leakage as it is written after a number: " nats", or nothing for a measure without one."""
        return " nats" if self.guards.measure.in_nats else ""

    @property
    def free_extra(self) -> float:
        """What is disclosed beyond the asked disclosure where nothing leaks, in nats; 0 elsewhere."""
        asked = self.requested
        if asked is None or self.leakage > ROUNDING or self.disclosure <= asked + FEASIBILITY:
            return 0.0
        return self.disclosure - asked

    @property
    def advice(self) -> str:
        """What the status means and what to do next, in a sentence about what was asked for."""
        goal = self.question.goal
        if self.status is Status.OPTIMAL and goal is not Quantity.LEAKAGE:
            verb = {"disclosure": "discloses more", "utility": "keeps more", "distortion": "changes less"}[
                goal
            ]
            return f"Proved optimal within the gap: that no release {verb} was verified independently of the solver."
        return self.status.advice

    # --- the channel ------------------------------------------------------------------------------------------

    @property
    def channel(self) -> Channel:
        """p(y|x), shape (M, N): an array, or a SciPy sparse array where M·N exceeds ten million."""
        return as_table(self.mapping)

    @property
    def outputs(self) -> NDArray[np.intp] | None:
        """The public symbol that each output is, shape (N,), where records are released for records; None elsewhere."""
        if self.costs is None:
            return None
        n_x, n_y = self.costs.matrix.shape
        return np.arange(n_y) if n_x == n_y else None

    @property
    def n_outputs(self) -> int:
        """Outputs of the channel; of the channel of the classes where symbols were lumped."""
        return int(of_classes(self.mapping, self.problem)[1].shape[1])

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
        """Distance from stationarity: see :func:`kkt_residual`; of a distortion, which is convex, the gap in nats."""
        if self.costs is not None:
            return max(self.leakage - self.lower_bound, 0.0)
        # Members are released in full: only the classes can be improved.
        return kkt_residual(*of_classes(self.mapping, self.problem))

    # --- for people and files ---------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """One line with the numbers."""
        asked, values = self.question, self.values
        shown = list(dict.fromkeys([asked.axis, Quantity.LEAKAGE]))
        told = []
        for each in shown:
            unit = self.unit if each is Quantity.LEAKAGE else ""
            text = f"{each} {values.of(each):.6g}"
            if each is Quantity.LEAKAGE and asked.goal is Quantity.LEAKAGE:
                text += f" ≥ {self.lower_bound:.6g}{unit} by {self.bound_source}"
            elif each is asked.goal:
                text += f" {'≤' if each.sought_most else '≥'} {self.bound:.6g}{unit}"
            else:
                text += unit
            told.append(text)
        kind = self.costs.words if self.costs is not None else f"{self.n_outputs} outputs"
        return f"Solution({self.status.value}: {', '.join(told)}, {kind}, {self.solver})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        problem, asked = self.problem, self.question
        usual = self.guards.measure.is_information and not self.guards.attributes
        leaked = self.unit + (cards.share(self.leakage, problem.leakage_ceiling) if usual else "")
        kept = cards.share(self.disclosure, problem.disclosure_ceiling)
        facts = [("disclosure I(X;Y)", f"{self.disclosure:.6g} nats{kept}")]
        if asked.axis is Quantity.UTILITY:
            tasks = problem.required_tasks()
            useful = f"{self.utility:.6g} nats{cards.share(self.utility, tasks.ceiling)}"
            facts.insert(0, (f"utility I(U;Y), U = {', '.join(tasks.names)}", useful))
        if self.costs is not None:
            facts.insert(0, ("distortion E d(X,Y)", f"{self.distortion:.6g} ({self.costs.words})"))
        facts.append((self.guards.leakage_name, f"{self.leakage:.6g}{leaked}"))
        if asked.goal is Quantity.LEAKAGE:
            facts.append(("proved lower bound", f"{self.lower_bound:.6g}{self.unit}, {self.bound_source}"))
        else:
            which = "most" if asked.goal.sought_most else "least"
            unit = "" if asked.goal is Quantity.DISTORTION else " nats"
            facts.append((f"{which} {asked.goal}, proved", f"{self.bound:.6g}{unit}"))
        facts += [
            ("outputs", f"{self.n_outputs} for {problem.n_x} public symbols"),
            ("status", f"{self.status.value}: {self.advice}"),
            ("solver", f"{self.solver}, {self.seconds:.1f} s"),
        ]
        return cards.card("Solution", facts)

    def to_dict(self) -> Document:
        """A JSON-ready form; certificates and records live in files of their own."""
        return {
            **self.heading(),
            "units": "nats",
            "question": self.question.to_dict(),
            **self.summary(),
            **self.stored_channel(),
            "problem": self.problem.to_dict(),
        }

    def stored_channel(self) -> Document:
        """The channel as files hold it: its rows, or classes and the channel of the classes."""
        held = held_by_classes(self.mapping)
        return {"channel": to_stored(as_table(self.mapping))} if held is None else held.to_dict()

    def summary(self) -> Document:
        """The numbers without channel and problem, JSON-ready, in nats."""
        axis, made = self.question.axis, {
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
        }  # fmt: skip
        if not self.guards.plain:
            made |= {"leakages": self.leakages, "guaranteed": self.guaranteed}
        names: tuple[str, ...] = ()
        if axis is Quantity.UTILITY:
            names = ("utility", "requested_utility", "utility_upper_bound")
        elif axis is Quantity.DISTORTION:
            names = ("distortion", "limit", "multiplier", "invariant", "least_distortion")
        return made | {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, data: Any, problem: Problem | None = None) -> Self:
        """Read back what :meth:`to_dict` wrote; what the channel has is recomputed, not believed.

        Without its certificate the stored bound cannot be checked again: it is kept as written, and so is the status.
        """
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"]) if problem is None else problem
            return cls.of_stored(data, Question.from_dict(data["question"], problem))

    @classmethod
    def of_stored(cls, data: Any, question: Question) -> Self:
        """A solution from its stored summary and channel, the channel evaluated again.

        Raises:
            InvalidInputError: The file claims what its channel does not have.
        """
        problem = question.problem
        mapping: Channel | ClassChannel
        if "classes" in data:
            mapping = ClassChannel.from_dict(data, problem)
        else:
            mapping = problem.check_channel(from_stored(data["channel"]))
        values = question.values(mapping)
        axis = question.axis
        for name in dict.fromkeys(("disclosure", "leakage", axis.value)):
            found, slack = values.of(Quantity(name)), FEASIBILITY
            if name == "distortion" and question.costs is not None:
                slack *= question.costs.scale
            if not abs(float(data[name]) - found) <= slack:
                raise InvalidInputError(
                    f"the file claims {name} {data[name]!r}, its channel gives {found!r}: the file was changed"
                )
        if not float(data["lower_bound"]) <= values.leakage + FEASIBILITY:
            raise InvalidInputError(
                f"the file claims the lower bound {data['lower_bound']!r}, its channel leaks {values.leakage!r}: "
                "the file was changed"
            )
        try:
            status = Status(data["status"])
        except ValueError:
            raise InvalidInputError(f"unknown status {data['status']!r}: the file was changed") from None
        goal, lower = question.goal, float(data["lower_bound"])
        own = values.of(goal)
        proved = {
            Quantity.LEAKAGE: "lower_bound",
            Quantity.DISCLOSURE: "disclosure_upper_bound",
            Quantity.UTILITY: "utility_upper_bound",
            Quantity.DISTORTION: "least_distortion",
        }[goal]
        bound = float(data[proved])
        if goal.sought_most and status not in USELESS and not own <= bound + FEASIBILITY:
            raise InvalidInputError(
                f"the file claims that no {goal} exceeds {bound!r}, its channel has {own!r}: the file was changed"
            )
        names = ("bound_source", "slope", "solver", "seed", "steps", "seconds", "message")
        return cls(
            question=question,
            mapping=mapping,
            values=values,
            lower_bound=lower,
            bound=bound,
            status=status,
            **{name: data[name] for name in names},
        )


def posteriors_of(problem: Problem, solutions: Iterable[Solution]) -> Array:
    """p(x|y) of the releases among solutions, shape (n, M): what a search for another point may begin with."""
    made = [s.p_x_given_y.T[s.p_y > 0.0] for s in solutions if s.status not in USELESS]
    return np.concatenate([np.zeros((0, problem.n_x)), *made])
