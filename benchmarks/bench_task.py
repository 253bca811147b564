"""Releases for a task: the curve of the census table with a task, and one point of random tables of growing size.

    python -m benchmarks.bench_task [--quick] [--sizes 10000 100000 1000000]

Each size runs in a process of its own. All public symbols of a random table differ; the private attribute and the task
have two values each, which depend on a common cause. Seconds are CPU time of warm code, from the problem to the answer
with its proof; limits count CPU time, too.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from benchmarks import harness
from privfunnel import Problem, solve, trace
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.data import instances

SIZES = (10_000, 100_000, 1_000_000)
QUICK = (200,)
POINTS, GAP, SHARE, LIMIT = 20, 1e-5, 0.85, 120.0


def random_task(n_x: int, seed: int = 0) -> Problem:
    """A table with a task whose public symbols all differ."""
    rng = np.random.default_rng(seed)
    p_x, cause = rng.dirichlet(np.ones(n_x)), 3.0 * rng.normal(size=n_x)
    of_s, of_u = (1.0 / (1.0 + np.exp(cause + rng.normal(size=n_x))) for _ in range(2))
    return Problem(np.stack([of_s, 1.0 - of_s]) * p_x, p_ux=np.stack([of_u, 1.0 - of_u]) * p_x)


def census(points: int, gap: float) -> dict[str, Any]:
    """The curve of the packaged table."""
    problem = instances.load("census-task")
    begin = time.process_time()
    curve = trace(problem, along="utility", points=points, gap=gap, throw=False)
    taken = time.process_time() - begin
    gaps = [solution.leakage - solution.lower_bound for solution in curve.solutions]
    return {"n_x": problem.n_x, "points": points, "gap": gap, "largest_gap": max(gaps), "cpu_seconds": taken}


def child(n_x: int) -> dict[str, Any]:
    """One point of a random table."""
    warnings.simplefilter("ignore")
    solve(random_task(100), utility="50%")  # load what is loaded once
    problem = random_task(n_x)
    begin = time.process_time()
    with cpu_clock():
        found = solve(
            problem, utility=SHARE * problem.utility_ceiling, gap=GAP, time_limit=LIMIT, throw=False
        )
    return {
        "n_x": n_x, "cpu_seconds": time.process_time() - begin, "gap": found.leakage - found.lower_bound,
        "leakage": found.leakage, "n_y": found.channel.shape[1], "peak_bytes": harness.peak_bytes(),
    }  # fmt: skip


def main() -> None:
    """Measure and write results/task.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    options = parser.parse_args()
    solve(random_task(100), utility="50%")  # load what is loaded once
    with cpu_clock():
        curve = census(2, 1e-2) if options.quick else census(POINTS, GAP)
    print(curve, flush=True)
    sizes = []
    for n_x in options.sizes or (QUICK if options.quick else SIZES):
        sizes.append(harness.in_own_process("benchmarks.bench_task", {"n_x": n_x}))
        print(sizes[-1], flush=True)
    print(
        harness.save("task", {"machine": harness.machine(), "share": SHARE, "census": curve, "sizes": sizes})
    )


if __name__ == "__main__":
    main()
