"""What large tables begin with, where descents from single symbols take too long: posteriors of short runs of AEM.

Where little or nothing has to leak, AEM's runs ramp up to channels that no search finds in the same time. The best of
them is kept, and is the answer where the search ends above it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from privfunnel.algorithms.aem import AEM, Ramped
from privfunnel.algorithms.base import SHORTEST_LIMIT
from privfunnel.algorithms.columns.plain.master import Prices
from privfunnel.algorithms.columns.plain.plan import PLAN
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.posteriors.points import tidy
from privfunnel.certificate import FEWEST, MOST
from privfunnel.measures import Array
from privfunnel.model.problem import Problem

#: Public symbols from which the search of a table begins with AEM, and from which one with more private symbols than
#: proofs by supports bear is left to coarser proofs.
MANY, UNPROVED = 100, 300
#: Steps of AEM's one run: more of them gain little, and what is left descents find sooner.
STEPS = 100
#: Where one of the fewest steps leaks more than this share of I(S;X), so many of these are enough: prices gain more.
NEAR, FAR_RUNS = 0.03, 2
#: Where prices from the interior go on from it: short runs, how many of them come before a long one, its steps.
RUNS, BEFORE_LONG, LONG_STEPS = 4, 2, 300
#: The long run is begun where there is time for this share of it, a short one after it where so many times what the
#: others took is left: the rest is better spent on prices.
LONG_TIMES, MORE_TIMES = 0.6, 3.0
#: Where it ends below this share of the short ones' least leakage, or where posteriors still have many symbols, there
#: may be nothing that has to leak, and prices have nothing to begin with: the best run goes on for so many steps.
FALLING, LAST_STEPS = 0.1, 3000
#: Where fewer short runs than this have time, by what a step takes, prices from the interior lead nowhere: one run has
#: as many steps as it has time for, fewer where it would not arrive at R.
FEWEST_RUNS, ONLY_STEPS, ARRIVING_STEPS = 2.0, 3000, 65
#: Steps of a run at least.
FEWEST_STEPS = 40
#: Symbols of a posterior, on average, beyond which it is not near its end, and linear programs take long for it.
MOST_SYMBOLS = 30.0


class Seed(NamedTuple):
    """A channel (M, N) that AEM ended with, its leakage in nats and slope, and its posteriors p(x|y), (n, M)."""

    channel: Array
    leakage: float
    slope: float
    posteriors: Array

    @property
    def ended(self) -> bool:
        """Whether the posteriors have so few symbols that programs over them are quick."""
        return bool(np.count_nonzero(self.posteriors) <= MOST_SYMBOLS * len(self.posteriors))

    @property
    def duals(self) -> Prices:
        """Value and slope as a program would have them, without prices."""
        return Prices(prices=np.zeros(self.posteriors.shape[1]), slope=self.slope, value=self.leakage)


def pays(problem: Problem) -> bool:
    """Whether a table is so large that its search begins with AEM; two private symbols are staircases."""
    return problem.n_s >= FEWEST and problem.n_x >= MANY


def beyond_proofs(problem: Problem) -> bool:
    """Whether a table is so large that the search ends without a proof of its own."""
    return problem.n_s > MOST and problem.n_x >= UNPROVED


@functools.cache
def load_kernels() -> None:
    """Compile AEM's kernels, or read them from numba's cache: no time limit should pay for that."""
    AEM(restarts=1, max_steps=STEPS, threads=1).warm_up()


def _step_seconds(problem: Problem) -> float:
    """Seconds that a step of AEM takes, about: logarithms of its entries take longer than products with p(s|x)."""
    return PLAN.aem_entry_seconds * problem.n_x**2


def near(problem: Problem, leakage: float) -> bool:
    """Whether a run that leaks so many nats says that little has to leak."""
    return leakage <= NEAR * problem.leakage_ceiling


def hurries(problem: Problem, seconds: float) -> bool:
    """Whether so little time for a point is well spent on a single run of AEM alone."""
    return PLAN.runs * seconds < FEWEST_RUNS * STEPS * _step_seconds(problem)


def run(
    problem: Problem, disclosure: float, seconds: float, seed: int, steps: int = STEPS, kind: type[AEM] = AEM
) -> Seed | None:
    """One run of AEM at ``disclosure`` nats, 0 < disclosure < H(X); None where the table is too large for it."""
    limit = max(seconds, SHORTEST_LIMIT)
    aem = kind(restarts=1, max_steps=steps, threads=1, time_limit=limit)
    answer = aem.solve(problem, disclosure, seed=seed)
    channel = answer.channel
    if not isinstance(channel, np.ndarray):
        return None  # it only shares time
    joint = problem.p_x * channel.T
    masses = joint.sum(axis=1)
    # Outputs less likely than this are left out.
    used = masses > 1e-12
    posteriors = tidy(joint[used] / masses[used, None])
    return Seed(channel, problem.evaluate(channel).leakage, answer.slope or 0.0, posteriors)


def only_run(problem: Problem, disclosure: float, seed: int, deadline: Deadline) -> Seed | None:
    """The run that has all the time: of AEM's restarts with the same ``seed`` the first that ramps up."""
    seconds = PLAN.only_run * deadline.left()
    steps = int(min(seconds / _step_seconds(problem), ONLY_STEPS))
    steps = ONLY_STEPS if steps >= ARRIVING_STEPS else max(steps, FEWEST_STEPS)
    return run(problem, disclosure, seconds, seed, steps, Ramped)


def runs(problem: Problem, disclosure: float, rng: Generator, deadline: Deadline) -> list[Seed]:
    """Several runs of AEM that ramp up to ``disclosure`` nats, of which the best goes on; fewer where time is short.

    Where little has to leak, a run that starts at R itself ends at twice the leakage of one that ramps up.
    """
    own = Deadline(PLAN.runs * deadline.left(), deadline.clock)
    numbers = rng.integers(2**31, size=RUNS + FAR_RUNS).tolist()
    first = run(problem, disclosure, own.left(), numbers.pop(), FEWEST_STEPS, Ramped)
    if first is None:
        return []
    if not near(problem, first.leakage):
        far = (
            run(problem, disclosure, own.left(), numbers.pop(), FEWEST_STEPS, Ramped)
            for _ in range(FAR_RUNS - 1)
        )
        return [first, *(seed for seed in far if seed is not None)]
    return [first, *_runs_near(problem, disclosure, numbers, own, deadline)]


def _runs_near(
    problem: Problem, disclosure: float, numbers: list[int], own: Deadline, whole: Deadline
) -> list[Seed]:
    """The runs where little has to leak, within their ``own`` deadline, and the last within the ``whole`` time."""
    steps = max(FEWEST_STEPS, int(min(STEPS, own.left() / (RUNS * _step_seconds(problem)))))
    found: list[Seed] = []
    took = 0.0
    for place, number in enumerate(numbers[:RUNS]):
        timely = LONG_TIMES * LONG_STEPS / steps * took <= own.left()
        if place == BEFORE_LONG and found and (timely or not any(seed.ended for seed in found)):
            found.extend(_go_on(problem, disclosure, found, numbers, (own, whole)))
        if took * (1.0 if place < BEFORE_LONG else MORE_TIMES) > own.left():
            break
        began = own.elapsed()
        seed = run(problem, disclosure, own.left(), number, steps, Ramped)
        if seed is None:
            break
        found.append(seed)
        took = max(took, own.elapsed() - began)
    return found


def _go_on(
    problem: Problem,
    disclosure: float,
    found: list[Seed],
    numbers: list[int],
    deadlines: tuple[Deadline, Deadline],
) -> list[Seed]:
    """Longer runs from the start of the best one so far, within the runs' own deadline and within all the time."""
    own, whole = deadlines
    least, best = min((seed.leakage, place) for place, seed in enumerate(found))
    longer = []
    if found[best].ended:
        longer = _one_or_none(run(problem, disclosure, own.left(), numbers[best], LONG_STEPS, Ramped))
        if all(seed.ended and seed.leakage > FALLING * least for seed in longer):
            return longer
    seconds = PLAN.last_run * whole.left()
    return longer + _one_or_none(run(problem, disclosure, seconds, numbers[best], LAST_STEPS, Ramped))


def _one_or_none(seed: Seed | None) -> list[Seed]:
    return [] if seed is None else [seed]
