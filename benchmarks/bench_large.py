"""Tables of thousands of people with hundreds to thousands of public symbols: what the default gives, and its peers.

    python -m benchmarks.bench_large [--quick]

Counts of people in combinations of many columns: most symbols occur once or twice, a few often, and p(s|x) is
log-linear in a few traits. Sizes are those of real surveys (K × M). For each table the free disclosure with its bounds,
and at two disclosures the leakage of ``auto`` with its proved bound, of ``greedy``, and of AEM on the same classes in
the CPU time that ``auto`` took. All limits count CPU time; compilation is not counted.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import privfunnel as pf
from benchmarks import harness
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.model.equal_symbols import lumping_of
from privfunnel.model.problem import Problem
from privfunnel.solving.free_disclosure import free_disclosure_bounds

SHARES = (0.8, 0.95)
#: Traits of a public symbol on which p(s|x) depends.
TRAITS = 2
#: How evenly symbols occur: their weights are Pareto distributed with this exponent, plus a little.
EXPONENT, LEAST = 1.1, 0.05
#: AEM has this many seconds at least, since a first step takes some.
LEAST_SECONDS = 0.5


class Size(NamedTuple):
    """A table to be made: private and public symbols, and people."""

    like: str
    n_s: int
    n_x: int
    people: int


SIZES = (
    Size("health panel, 8 columns", 3, 681, 5_000),
    Size("health panel, finer", 3, 1308, 8_000),
    Size("insurance experiment, 11 columns", 3, 1637, 8_000),
    Size("health insurance, 8 columns", 2, 3172, 20_000),
    Size("census, two private columns", 4, 1193, 30_000),
)
QUICK = (Size("small", 3, 90, 400), Size("small", 2, 150, 600))


def survey(n_s: int, n_x: int, people: int, seed: int = 0) -> Problem:
    """Counts (K, M) of ``people`` people, each public symbol at least once."""
    rng = np.random.default_rng(seed)
    weight = rng.pareto(EXPONENT, n_x) + LEAST
    members = 1 + rng.multinomial(people - n_x, weight / weight.sum())
    score = rng.normal(size=(n_x, TRAITS)) @ rng.normal(size=(TRAITS, n_s)) + rng.normal(size=n_s)
    p_s_given_x = np.exp(score)
    p_s_given_x /= p_s_given_x.sum(axis=1, keepdims=True)
    return Problem(np.stack([rng.multinomial(n, p) for n, p in zip(members, p_s_given_x, strict=True)]).T)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the CPU seconds it took."""
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin


def point(problem: Problem, share: float) -> dict[str, Any]:
    """The default, its bound, and its peers at ``share`` of H(X); leakages in nats."""
    asked: dict[str, Any] = {"disclosure": share * problem.disclosure_ceiling, "throw": False}
    answer, seconds = timed(lambda: pf.solve(problem, **asked))
    limit = max(seconds, LEAST_SECONDS)
    greedy, greedy_seconds = timed(lambda: pf.solve(problem, solver="greedy", **asked))
    aem, aem_seconds = timed(lambda: pf.solve(problem, solver="aem", time_limit=limit, threads=1, **asked))
    return {
        "share": share, "status": answer.status.value, "leakage": answer.leakage, "lower_bound": answer.lower_bound,
        "cpu_seconds": seconds, "greedy": greedy.leakage, "greedy_seconds": greedy_seconds,
        "aem": aem.leakage, "aem_seconds": aem_seconds,
    }  # fmt: skip


def measure(size: Size, seed: int = 0) -> dict[str, Any]:
    """One table."""
    problem = survey(size.n_s, size.n_x, size.people, seed)
    bounds, seconds = timed(lambda: free_disclosure_bounds(problem))
    rank = int(np.linalg.matrix_rank(problem.p_s_given_x))
    return {
        **size._asdict(), "n_classes": lumping_of(problem).n_classes, "h_x": problem.disclosure_ceiling,
        "leakage_ceiling": problem.leakage_ceiling, "rank": rank, "free": bounds, "free_seconds": seconds,
        "points": [point(problem, share) for share in SHARES],
    }  # fmt: skip


def main() -> None:
    """Measure and write results/large.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables only")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    small = survey(*QUICK[0][1:])
    found = []
    with cpu_clock():
        point(small, 0.9)  # compile
        for size in QUICK if quick else SIZES:
            found.append(measure(size))
            print(found[-1], flush=True)
    print(harness.save("large", {"machine": harness.machine(), "tables": found}))


if __name__ == "__main__":
    main()
