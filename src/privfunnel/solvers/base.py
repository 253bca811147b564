"""What every solver is: a frozen configuration with one way in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from privfunnel import channels
from privfunnel.problem import Problem
from privfunnel.solution import FEASIBILITY, Answer, Status


@dataclass(frozen=True, kw_only=True)
class Progress:
    """News from a long run.

    Attributes:
        done: Units of work finished.
        total: Units of work in all, or 0 where it is not known.
        value: Best leakage so far at the point in work, in nats, or None.
        bound: Best proved bound so far, in nats, or None.
        message: What is being done, for people.
    """

    done: int = 0
    total: int = 0
    value: float | None = None
    bound: float | None = None
    message: str = ""


#: Called with news now and then; whatever it raises (KeyboardInterrupt, say) stops the run.
Listener = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A funnel solver: options as fields, no state.

    A solver returns channels and says how the run ended; the front door (``privfunnel.solve``) computes every number
    from the channel. ``seed`` fixes all randomness, whatever the number of threads.
    """

    #: The name it is registered and reported under.
    name: ClassVar[str] = ""
    #: True for methods that minimise leakage − λ·disclosure for a multiplier and sweep it to draw a curve.
    multiplier: ClassVar[bool] = False

    @abstractmethod
    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Least leakage at ``disclosure`` nats or more, 0 ≤ disclosure ≤ H(X)."""

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """Answers that draw the curve over ``disclosures``: one each here, a native sweep for multiplier methods."""
        wanted = list(disclosures)
        for i, disclosure in enumerate(wanted):
            yield self.solve(problem, disclosure, seed=seed, progress=progress)
            if progress is not None:
                progress(Progress(done=i + 1, total=len(wanted), message=f"R = {disclosure:.4f} nats"))

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Most disclosure within a leakage budget, 0 ≤ leakage < I(S;X).

        Searches the disclosure by bisection and time-shares the two last neighbours, which spends the budget exactly.
        """
        below = Answer(channel=channels.constant(problem.n_x), status=Status.FEASIBLE)
        above = Answer(channel=channels.identity(problem.n_x), status=Status.FEASIBLE)
        low, high = problem.evaluate(below.channel), problem.evaluate(above.channel)
        steps = 0
        while high.disclosure - low.disclosure > 1e-3 * problem.disclosure_ceiling and steps < 30:
            steps += 1
            # The chord between the neighbours is achievable, so the answer lies at or beyond where it meets the budget.
            rise = high.leakage - low.leakage
            share = (leakage - low.leakage) / rise if rise > 0.0 else 0.5
            width = high.disclosure - low.disclosure
            target = low.disclosure + min(max(share, 0.1), 0.9) * width
            answer = self.solve(problem, target, seed=seed, progress=progress)
            point = problem.evaluate(answer.channel)
            if point.disclosure < target - FEASIBILITY or point.disclosure >= high.disclosure:
                break
            if point.leakage <= leakage:
                if point.disclosure <= low.disclosure:
                    break
                below, low = answer, point
            else:
                above, high = answer, point
        rise = high.leakage - low.leakage
        share = min(max((leakage - low.leakage) / rise, 0.0), 1.0) if rise > 0.0 else 0.0
        channel = channels.time_share([below.channel, above.channel], [1.0 - share, share])
        return Answer(channel=channel, status=below.status, slope=rise / max(high.disclosure - low.disclosure, 1e-300),
                      steps=below.steps)  # fmt: skip
