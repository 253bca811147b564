"""Methods for the funnel's neighbours as entrants: what their channels disclose and leak.

Each solves a problem of its own, with a parameter of its own: how often S may be guessed, how large a lift may be, how
many records may change, how much S is *wanted*. Its family of channels, over that parameter, is judged as every other
answer is: at a disclosure R the member that leaks least among those that disclose R or more, X itself if none does; and
all of them time-shared. Nothing in it is the methods' fault: they were made for other questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfunnel import measures
from privfunnel.algorithms.base import TimeLimited
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.options import check_choice, check_seconds, check_whole
from privfunnel.certificate.answer import Answer, Status
from privfunnel.infra.watching import Listener
from privfunnel.measures import Array
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import FEASIBILITY
from privfunnel.neighbours import bottleneck, guessing_funnel, worst_case
from privfunnel.neighbours.bottleneck import agglomerative
from privfunnel.release import distortion

#: The smallest bound on |log lift| that is tried, in nats, and the largest where some lift is 0.
LEAST_LIFT, MOST_LIFT = 0.01, 10.0

#: Channels of a method: for a problem, the disclosures asked for (nats), and a number of parameters.
Family = Callable[[Problem, list[float], int], Iterator[Array]]


@dataclass(frozen=True, kw_only=True)
class Neighbour(TimeLimited):
    """A method for one of the funnel's neighbours, over a range of its own parameter.

    Attributes:
        method: One of :data:`METHODS`.
        parameters: How many values of its parameter are tried; the bottleneck has one for each disclosure.
        time_limit: Seconds after which no further value is tried; infinite for no limit.
    """

    name: ClassVar[str] = "neighbour"
    sweeps: ClassVar[bool] = True

    method: str = "guessing"
    parameters: int = 12

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice(self.name, "method", self.method, tuple(METHODS))
        check_whole(self.name, 2, parameters=self.parameters)
        check_seconds(self.name, self.time_limit)

    def trace(
        self,
        problem: Problem,
        disclosures: Iterable[float],
        *,
        seed: int = 0,
        progress: Listener | None = None,
    ) -> Iterator[Answer]:
        """Every member of the family, as it comes; the bottleneck's are at the ``disclosures`` (nats)."""
        deadline = Deadline(self.time_limit)
        for channel in METHODS[self.method](problem, list(disclosures), self.parameters):
            cut = deadline.passed()
            message = f"{self.method}: the range of its parameter was cut by the time limit" if cut else ""
            yield Answer(channel=channel, status=Status.FEASIBLE, message=message)
            if cut:
                return

    @staticmethod
    def own(problem: Problem, points: Iterable[Point], disclosure: float) -> float:
        """Least leakage, in nats, of those ``points`` that disclose enough, that of X itself if none does."""
        enough = [point.leakage for point in points if point.disclosure >= disclosure - FEASIBILITY]
        return min(enough, default=problem.leakage_ceiling)


def _halving(values: Array) -> Iterator[float]:
    """The values, coarse to fine: a time limit that comes early leaves no end of the range empty."""
    seen: set[int] = set()
    step = len(values) - 1
    while len(seen) < len(values):
        for i in range(0, len(values), max(step, 1)):
            if i not in seen:
                seen.add(i)
                yield float(values[i])
        step //= 2


def _guessing(problem: Problem, wanted: list[float], parameters: int) -> Iterator[Array]:
    """Most right guesses of X, for right guesses of S from max p(s) to P_c(S|X)."""
    for accuracy in _halving(np.linspace(*guessing_funnel.accuracy_range(problem), parameters)):
        yield guessing_funnel.solve(problem, accuracy).channel


def _distortion(problem: Problem, wanted: list[float], parameters: int) -> Iterator[Array]:
    """Least leakage, for shares of changed records from 0 to that at which nothing leaks."""
    free = distortion.free_distortion(problem)
    for share in _halving(np.linspace(0.0, free, parameters)):
        yield np.asarray(distortion.solve(problem, distortion=share).channel)


def _blahut_arimoto(problem: Problem, wanted: list[float], parameters: int) -> Iterator[Array]:
    """Most relevance, at the rates asked for."""
    for rate in _halving(np.array(wanted)):
        yield np.asarray(bottleneck.solve(problem, rate=rate, restarts=0).channel)


def _abp(problem: Problem, wanted: list[float], parameters: int) -> Iterator[Array]:
    """Most relevance, at the rates asked for."""
    for rate in _halving(np.array(wanted)):
        yield np.asarray(bottleneck.solve(problem, rate=rate, method="abp").channel)


def _agglomerative(problem: Problem, wanted: list[float], parameters: int) -> Iterator[Array]:
    """Most relevance, for every number of outputs."""
    return agglomerative.mappings(problem)


def _within_lifts(method: str) -> Family:
    def family(problem: Problem, wanted: list[float], parameters: int) -> Iterator[Array]:
        """Releases whose lifts keep bounds up to the largest lift of X itself."""
        lift = measures.lift(problem.p_sx)
        positive = np.abs(np.log(lift[lift > 0.0]))
        most = MOST_LIFT if np.any(lift <= 0.0) else max(float(positive.max()), 2.0 * LEAST_LIFT)
        for epsilon in _halving(np.geomspace(LEAST_LIFT, most, parameters)):
            yield worst_case.release(problem, epsilon, method=method).channel

    return family


#: Label in a comparison → its channels.
METHODS: dict[str, Family] = {
    "guessing": _guessing,
    "distortion": _distortion,
    "bottleneck-blahut-arimoto": _blahut_arimoto,
    "bottleneck-abp": _abp,
    "bottleneck-agglomerative": _agglomerative,
    **{f"lip-{method}": _within_lifts(method) for method in worst_case.METHODS},
}
