"""What every solver is: a frozen configuration with one way in, and what it can do written on its class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.leakage_budget import most_disclosure
from privfunnel.certificate.answer import DEFAULT_GAP, Answer
from privfunnel.infra.watching import Listener, Progress
from privfunnel.model.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Solver:
    """A funnel solver: options as fields, no state.

    A solver returns channels and says how the run ended; the front door (``privfunnel.solve``, ``privfunnel.trace``)
    answers the two ends of the curve itself and computes every number from the channel. ``seed`` fixes all randomness,
    whatever the number of threads. A solver defines :meth:`solve` or :meth:`trace`; each has the other as its default.
    """

    #: The name it is registered and reported under.
    name: ClassVar[str] = ""
    #: Whether it comes with a proof of how close to optimal each of its answers is.
    proves: ClassVar[bool] = False
    #: Whether :meth:`trace` is a native sweep: it minimises leakage − λ·disclosure for many multipliers λ and yields
    #: what that reaches, not one answer for each disclosure.
    sweeps: ClassVar[bool] = False
    #: Whether it answers only what leaks nothing, up to the free disclosure R0.
    free_only: ClassVar[bool] = False
    #: Whether it works on the public columns, which classes of symbols do not have.
    by_columns: ClassVar[bool] = False
    #: How many private symbols a table must have for it; None for any. Other tables it answers with Status.FAILED.
    n_s: ClassVar[int | None] = None

    @property
    def target_gap(self) -> float:
        """The gap in nats at which an answer counts as proved optimal."""
        return DEFAULT_GAP

    def limited(self, seconds: float, *, threads: int = 1) -> Solver:
        """This solver with ``seconds`` for one answer (a sweep: for all of it) and ``threads`` threads, where it can.

        The limit is honoured cooperatively: a solver looks at the clock between steps.
        """
        return self

    def warm_up(self) -> None:
        """Load or compile what the first run would, so that no time limit and no measurement pays for it."""

    def solve(
        self, problem: Problem, disclosure: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Least leakage at ``disclosure`` nats or more, 0 < disclosure < H(X): the ends need no solver."""
        if type(self).trace is Solver.trace:
            raise TypeError(f"{type(self).__name__} defines neither solve nor trace: define one")
        (answer,) = self.trace(problem, [disclosure], seed=seed, progress=progress)  # exhausts it: see trace
        return answer

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """Answers that draw the curve over ``disclosures``, each in (0, H(X)): one each, in the order given.

        A sweep (:attr:`sweeps`) yields whatever its multipliers reach instead, by growing disclosure.

        An interrupt may come with answers: a solver that is interrupted may yield what it has found so far, and raises
        KeyboardInterrupt after the last item. Who reads a trace therefore has to exhaust it, or the interrupt is lost.
        """
        wanted = list(disclosures)
        for i, disclosure in enumerate(wanted):
            yield self.solve(problem, disclosure, seed=seed, progress=progress)
            if progress is not None:
                progress(Progress(done=i + 1, total=len(wanted), message=f"R = {disclosure:.4f} nats"))

    def solve_leakage(
        self, problem: Problem, leakage: float, *, seed: int = 0, progress: Listener | None = None
    ) -> Answer:
        """Most disclosure within a leakage budget, 0 ≤ leakage < I(S;X): see :mod:`.leakage_budget`.

        A time limit is for the whole search.
        """
        deadline = Deadline(getattr(self, "time_limit", math.inf))

        def solve(target: float) -> Answer:
            solver = self if deadline.seconds == math.inf else self.limited(deadline.left())
            return solver.solve(problem, target, seed=seed, progress=progress)

        return most_disclosure(problem, leakage, solve, deadline)


#: A limit in seconds for a solver whose time is up already: a time limit of 0 is refused as a mistake.
SHORTEST_LIMIT = 1e-9


@dataclass(frozen=True, kw_only=True)
class TimeLimited(Solver):
    """A solver that looks at a clock.

    Attributes:
        time_limit: Seconds that one answer (of a sweep: all of them together) may take; infinite for no limit. An
            answer depends on the machine only where the limit was met.
    """

    time_limit: float = math.inf

    def limited(self, seconds: float, *, threads: int = 1) -> Self:
        """The same solver with another time limit; it has one thread."""
        return replace(self, time_limit=max(seconds, SHORTEST_LIMIT))
