"""The task funnel: least leakage I(S;Y) among releases that keep a utility I(U;Y), with a certificate.

Only −μ I(U;Y) is not convex, and it depends on p(u|y) alone. Outputs are labelled by a value of p(u|y); with −v log v
replaced by its tangent there the problem is convex and solved by an interior-point method (:mod:`.barrier`), on cells
of public symbols (:mod:`.cells`). What is found is feasible, and with enough labels optimal; its multipliers, as a
function of p(u|y), prove a bound over the whole table (:mod:`privfunnel.certificate.kinds.task`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.options import check_positive, check_seconds, check_whole
from privfunnel.algorithms.task.plan import PLAN
from privfunnel.algorithms.task.rare import without_rare
from privfunnel.algorithms.task.search import AIM, Work
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener, Progress
from privfunnel.model.problem import Problem

#: Near a budget points are proved to this share of the gap at their slope, but to no less than so many nats.
FINER, FINEST = 0.4, 1e-8


@dataclass(frozen=True, kw_only=True)
class TaskFunnel:
    """Convex programs over outputs labelled by p(u|y), and a proof from their multipliers.

    Attributes:
        gap: Stop when value and proved bound are within this, in nats; utility is compared in units of the largest
            weight of a task.
        time_limit: Seconds a point may take, of a curve all points together.
        outputs: Labels, and so outputs, that a program may have.
    """

    name: ClassVar[str] = "task"

    gap: float = 1e-5
    time_limit: float = 60.0
    outputs: int = 512

    def __post_init__(self) -> None:
        check_positive(self.name, gap=self.gap)
        check_seconds(self.name, self.time_limit)
        check_whole(self.name, 2, outputs=self.outputs)

    def solve(self, problem: Problem, utility: float, *, progress: Listener | None = None) -> Answer:
        """Least leakage at ``utility`` nats or more, 0 < utility < I(U;X)."""
        (answer,) = self.trace(problem, [utility], progress=progress)
        return answer

    def trace(
        self, problem: Problem, utilities: Sequence[float], *, progress: Listener | None = None
    ) -> Iterator[Answer]:
        """Answers at utilities in nats, in the order given."""
        work = self._work(problem, progress)
        whole = work.deadline
        for i, utility in enumerate(utilities):
            started, before = time.perf_counter(), work.steps
            work.deadline = Deadline(whole.left() * min(1.0, PLAN.fair / (len(utilities) - i)))
            work.reach(utility)
            gap = work.value(utility) - work.bound(utility)
            yield Answer(
                channel=without_rare(work.tasks, work.channel(utility), utility),
                status=self._status(work, gap),
                slope=work.slope(utility),
                certificate=work.line(utility),
                steps=work.steps - before,
                seconds=time.perf_counter() - started,
                message=f"{work.cells.n} cells",
            )
            if progress is not None:
                progress(Progress(done=i + 1, total=len(utilities), message=f"utility {utility:.4f} nats"))

    def free(self, problem: Problem, *, progress: Listener | None = None) -> Answer:
        """Most utility without leakage."""
        started = time.perf_counter()
        work = self._work(problem, progress)
        found, proof = work.free
        return Answer(
            channel=without_rare(work.tasks, found.table, found.utility - AIM),
            status=self._status(work, (proof.most_utility(0.0) - found.utility) / work.unit),
            slope=0.0,
            certificate=proof,
            steps=work.steps,
            seconds=time.perf_counter() - started,
            message=f"{work.cells.n} cells",
        )

    def solve_leakage(self, problem: Problem, leakage: float, *, progress: Listener | None = None) -> Answer:
        """Most utility within a leakage budget in nats, 0 < leakage.

        A proved line meets the budget at a utility that none exceeds; near there another line is proved, and so on.
        Where the curve is flat leakage has to be proved to less than the gap, which is of utility.
        """
        started = time.perf_counter()
        work = self._work(problem, progress)
        most, slope, proof = work.tasks.ceiling, 1.0, None
        _ = work.freely  # the curve begins there
        before = math.inf
        # Steps towards a leakage budget along proved lines, each of which squares the error, or halves what is open.
        for _ in range(40):
            reached = work.within(leakage)
            if most - reached <= self.gap * work.unit or work.deadline.passed():
                break
            slow, before = most - reached > 0.5 * before, most - reached
            if proof is not None:  # a line of slope μ turns leakage that is not proved into utility
                work.gap = min(self.gap, max(FINER * self.gap * work.unit * slope, FINEST))
            aim = work.meeting(leakage, most) if proof is None else (reached + 3.0 * most) / 4.0
            work.at(0.5 * (reached + most) if slow else aim)
            for line in work.lines:
                if line.most_utility(leakage) < most:
                    most, slope, proof = line.most_utility(leakage), line.slope, line
        reached = work.within(leakage)
        return Answer(
            channel=without_rare(work.tasks, work.channel(reached), reached - AIM),
            status=self._status(work, (most - reached) / work.unit),
            slope=work.slope(reached),
            certificate=proof,
            steps=work.steps,
            seconds=time.perf_counter() - started,
            message=f"{work.cells.n} cells",
        )

    def _work(self, problem: Problem, progress: Listener | None) -> Work:
        return Work(problem, self.gap, self.outputs, Deadline(self.time_limit), progress)

    def _status(self, work: Work, gap: float) -> Status:
        if gap <= self.gap:
            return Status.OPTIMAL
        return Status.TIME_LIMIT if work.deadline.passed() else Status.FEASIBLE
