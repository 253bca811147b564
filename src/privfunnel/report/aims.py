"""What a release was designed to keep where that is not disclosure: a task, or the records themselves.

A proved bound is one among releases that keep as much of the same thing. A report has to say which.
"""

from __future__ import annotations

from dataclasses import dataclass

from privfunnel.data.engines import Alphabet
from privfunnel.model.question import Quantity
from privfunnel.release.distortion import unchanged
from privfunnel.release.mechanism import Mechanism
from privfunnel.report import parts
from privfunnel.report.rounding import Rounding
from privfunnel.solving.solution import Solution


@dataclass(frozen=True)
class TaskAim:
    """A release for tasks; nats.

    Attributes:
        names: The task columns.
        utility: Σ ω I(U;Y); ``ceiling`` Σ ω I(U;X).
    """

    names: tuple[str, ...]
    utility: float
    ceiling: float

    @property
    def told(self) -> str:
        """The tasks in words."""
        return " and ".join(self.names)

    @property
    def share(self) -> float:
        """Share of I(U;X) that is kept."""
        return self.utility / self.ceiling if self.ceiling > 0.0 else 1.0

    @property
    def rivals(self) -> str:
        """The releases among which the bound is proved."""
        return f"release that keeps as much of what the public columns tell about {self.told}"

    def words(self, say: Rounding, *, redrawn: bool) -> str:
        """Say what the release was designed for; ``redrawn`` where records are drawn from its symbols."""
        kept = say.percent(self.share)
        if redrawn:
            return (
                f"It was designed for {self.told}: the mechanism's symbols keep {kept} of what the public columns tell "
                "about it. Records, which are drawn from them, keep less: where the task counts, release symbols."
            )
        return f"It was designed for {self.told}: it keeps {kept} of what the public columns tell about it."

    def facts(self, say: Rounding) -> str:
        """Return its numbers."""
        more = f"{say.percent(self.share)} of I(U;X)"
        return parts.fact(f"Kept of {self.told}", say.bits(self.utility), more)


@dataclass(frozen=True)
class RecordsAim:
    """A release of records for records, changed as little as possible.

    Attributes:
        unchanged: Share of the records that are released as they are.
        columns: The same of each public column.
        invariant: Whether the released records have the table's own distribution.
    """

    unchanged: float
    columns: dict[str, float]
    invariant: bool

    @property
    def rivals(self) -> str:
        """The releases among which the bound is proved."""
        same = " and keeps their distribution" if self.invariant else ""
        return f"release of records that changes them as little{same}"

    def words(self, say: Rounding, *, redrawn: bool) -> str:
        """Say how many records are changed; ``redrawn`` makes no difference, since its symbols are records."""
        same = (
            " The released records have the table's own distribution, up to chance." if self.invariant else ""
        )
        return (
            f"Records are released for records, and changed as little as possible: {say.percent(self.unchanged)} of "
            f"them stay as they are.{same}"
        )

    def facts(self, say: Rounding) -> str:
        """Return its numbers."""
        each = ", ".join(f"{name} {say.percent(share)}" for name, share in self.columns.items())
        return parts.fact("Records unchanged", say.percent(self.unchanged), f"by column: {each}")


Aim = TaskAim | RecordsAim


def aim_of_solution(solution: Solution, public: Alphabet) -> Aim | None:
    """What a solution was asked to keep; None for disclosure."""
    if solution.question.axis is Quantity.UTILITY:
        tasks = solution.problem.required_tasks()
        return TaskAim(tasks.names, solution.utility, tasks.ceiling)
    if solution.outputs is not None:
        kept, columns = unchanged(solution.channel, solution.problem.p_x, solution.outputs, public)
        return RecordsAim(kept, columns, solution.invariant)
    return None


def aim_of_mechanism(mechanism: Mechanism) -> Aim | None:
    """What a mechanism was designed to keep; None for disclosure."""
    if mechanism.utility is not None:
        return TaskAim(mechanism.task, *mechanism.utility)
    if mechanism.outputs is not None and not mechanism.sparse:
        kept, columns = unchanged(mechanism.channel, mechanism.p_x, mechanism.outputs, mechanism.x_alphabet)
        return RecordsAim(kept, columns, mechanism.invariant)
    return None
