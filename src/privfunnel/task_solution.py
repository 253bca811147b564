"""Solutions of the task funnel: a channel with its utility beside its leakage, and what is proved of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from privfunnel import cards
from privfunnel.attackers import DEFAULT_MEASURE
from privfunnel.errors import InvalidInputError
from privfunnel.problem import Problem
from privfunnel.solution import FEASIBILITY, Solution, Status, fields_from


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskSolution(Solution):
    """A channel for a task with its numbers, all recomputed from the problem and the channel; nats.

    What is inherited speaks of utility in place of disclosure: ``lower_bound`` is a proved lower bound on the leakage
    at the asked utility (at the channel's own for a leakage budget), and ``slope`` leakage per utility.

    Attributes:
        utility: Σ ω I(U;Y) of the channel.
        requested_utility: The asked utility, or None.
        utility_upper_bound: For a leakage budget: no channel within it keeps more utility.
    """

    schema: ClassVar[str] = "privfunnel/task-solution"
    #: Version 2 has a threat; a solution against who knows nothing is still written as version 1.
    schema_version: ClassVar[int] = 2
    oldest_version: ClassVar[int | None] = 1

    utility: float = 0.0
    requested_utility: float | None = None
    utility_upper_bound: float | None = None

    def __repr__(self) -> str:
        """One line with the numbers."""
        if self.utility_upper_bound is not None:
            return (
                f"TaskSolution({self.status.value}: utility {self.utility:.6g} ≤ {self.utility_upper_bound:.6g}, "
                f"leakage {self.leakage:.6g}{self.unit}, {self.n_outputs} outputs)"
            )
        return (
            f"TaskSolution({self.status.value}: utility {self.utility:.6g}, leakage {self.leakage:.6g} ≥ "
            f"{self.lower_bound:.6g}{self.unit} by {self.bound_source}, {self.n_outputs} outputs)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        problem, tasks = self.problem, self.problem.required_tasks()
        usual = self.threat is None or self.threat.measure == DEFAULT_MEASURE
        kept, leaked = (
            cards.share(self.utility, tasks.ceiling),
            cards.share(self.leakage, problem.leakage_ceiling) if usual else "",
        )
        facts = [
            (f"utility I(U;Y), U = {', '.join(tasks.names)}", f"{self.utility:.6g} nats{kept}"),
            (
                "leakage I(S;Y)" if self.threat is None else "largest leakage",
                f"{self.leakage:.6g}{self.unit}{leaked}",
            ),
            ("most utility, proved", f"{self.utility_upper_bound:.6g} nats")
            if self.utility_upper_bound is not None
            else ("proved lower bound", f"{self.lower_bound:.6g}{self.unit}, {self.bound_source}"),
            ("disclosure I(X;Y)", f"{self.disclosure:.6g} nats"),
            ("outputs", f"{self.n_outputs} for {problem.n_x} public symbols"),
            ("status", f"{self.status.value}: {self.advice}"),
        ]
        return cards.card("Solution for a task", facts)

    @classmethod
    def of(cls, plain: Solution, **task: Any) -> Self:
        """A solution with what it has of a task: its utility, what was asked for, and the bound on it.

        Args:
            plain: The release with its leakage and what is proved of that.
            **task: The fields of a task, and those of ``plain`` that are others.
        """
        shared = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return cls(**shared | {"disclosure_upper_bound": None} | task)

    @property
    def seeks_utility(self) -> bool:
        """Whether the release was to keep as much as guarantees, or attackers who learn nothing or little, allow."""
        sought = self.utility_upper_bound is not None
        return sought and (self.threat is not None or self.budget is None or self.budget <= 0.0)

    @property
    def gap(self) -> float:
        """Leakage above the proved lower bound in nats; without leakage, utility below what is proved possible.

        So it is wherever :attr:`seeks_utility`.
        """
        if self.utility_upper_bound is not None and self.seeks_utility:
            return max(self.utility_upper_bound - self.utility, 0.0)
        return max(self.leakage - self.lower_bound, 0.0)

    @property
    def advice(self) -> str:
        """What the status means and what to do next, in a sentence."""
        if self.status is Status.FEASIBLE:
            return "A feasible channel, not proved optimal: compare its gap, or raise outputs."
        if self.seeks_utility and self.status is Status.OPTIMAL:
            return "Proved optimal within the gap: that no release keeps more was verified independently of the solver."
        return self.status.advice

    def summary(self) -> dict[str, Any]:
        """The numbers without channel and problem, JSON-ready, in nats."""
        return {
            **super().summary(),
            "utility": self.utility,
            "requested_utility": self.requested_utility,
            "utility_upper_bound": self.utility_upper_bound,
        }

    @classmethod
    def from_dict(cls, data: Any, problem: Problem | None = None) -> Self:
        """Read back what :meth:`to_dict` wrote; the channel's numbers are recomputed, not believed."""
        with cls.reading(data):
            problem = Problem.from_dict(data["problem"]) if problem is None else problem
            return cls(problem=problem, **task_fields(data, problem))


def task_fields(data: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """Fields of a :class:`TaskSolution` from its stored summary and channel, the channel re-evaluated.

    Raises:
        InvalidInputError: The file claims another utility than its channel has.
    """
    found = fields_from(data, problem)
    utility = problem.required_tasks().of(problem.check_channel(found["mapping"]))
    if abs(float(data["utility"]) - utility) > FEASIBILITY:
        raise InvalidInputError(
            f"the file claims utility {data['utility']!r}, its channel gives {utility!r}: the file was changed"
        )
    more = {name: data[name] for name in ("requested_utility", "utility_upper_bound")}
    return found | more | {"utility": utility}
