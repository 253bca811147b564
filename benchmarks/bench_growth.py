"""How time and memory of AEM grow with the sizes of the problem, the batch and the threads.

    python -m benchmarks.bench_growth [--quick]

Time is CPU time per step and run of the compiled plain iteration, memory the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks import harness
from privfunnel.algorithms.aem import AEM
from privfunnel.algorithms.aem.backends import StepState
from privfunnel.algorithms.aem.numba_backend import NumbaBackend
from privfunnel.algorithms.aem.starts import Starts
from privfunnel.algorithms.aem.state import Tables, log_of

# About this many entries are worked on in one measurement.
ENTRIES = 40_000_000


def seconds_per_step(
    n_s: int, n_x: int, n_y: int | None, runs: int, threads: int, entries: int, wall: bool
) -> float:
    """Seconds per step and run, after a few steps that warm the caches up."""
    problem = harness.random_problem(n_s, n_x)
    tables = Tables.of(problem.p_sx)
    n_y = n_x + 1 if n_y is None else n_y
    share = 0.5 * min(problem.disclosure_ceiling, np.log(n_y))
    start = Starts(tables, n_y, 0).channels(list(range(runs)), np.full(runs, share))
    log_u = log_of(tables.p_x[:, None] * start)
    target = np.full(runs, share - tables.h_x)
    backend = NumbaBackend(tables, threads)
    state = backend.advance(log_u, StepState.first(runs, 0.5), target, 5, 0.0).state
    steps = max(3, min(200, entries // (runs * n_x * n_y)))
    clock = time.perf_counter if wall else time.process_time
    taken = []
    for _ in range(3):
        points = log_u.copy()
        begin = clock()
        backend.advance(points, state, target, steps, 0.0)
        taken.append((clock() - begin) / (steps * runs))
    return float(np.median(taken))


def child(n_s: int, n_x: int, restarts: int, max_steps: int, memory: int | None) -> dict[str, Any]:
    """A whole solve in a process of its own: CPU seconds, peak memory, and whether the answer is feasible."""
    problem = harness.random_problem(n_s, n_x)
    before = harness.peak_bytes()
    disclosure = 0.5 * problem.disclosure_ceiling
    begin = time.process_time()
    answer = AEM(restarts=restarts, max_steps=max_steps, memory=memory).solve(problem, disclosure)
    taken = time.process_time() - begin
    point = problem.evaluate(answer.channel)
    return {
        "n_s": n_s, "n_x": n_x, "restarts": restarts, "max_steps": max_steps, "cpu_seconds": taken,
        "peak_bytes": harness.peak_bytes(), "peak_before_bytes": before,
        "shortfall": disclosure - point.disclosure, "leakage": point.leakage,
    }  # fmt: skip


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure, and return the numbers."""
    entries = ENTRIES // 50 if quick else ENTRIES
    seconds_per_step(2, 4, None, 1, 1, 1000, False)  # compile
    sweeps: dict[str, list[dict[str, Any]]] = {"n_x": [], "n_s": [], "n_y": [], "runs": [], "threads": []}

    def measure(name: str, size: int, **changes: int) -> None:
        settings = {"n_s": 10, "n_x": 100, "n_y": None, "runs": 1, "threads": 1} | changes
        value = seconds_per_step(**settings, entries=entries, wall=name == "threads")
        sweeps[name].append({"size": size, "seconds_a_step": value})
        print(name, size, f"{value:.3g} s", flush=True)

    for n_x in (10, 30, 100, 300) if quick else (10, 30, 100, 300, 1000, 3000):
        measure("n_x", n_x, n_x=n_x)
    for n_s in (2, 10, 30, 100):
        measure("n_s", n_s, n_s=n_s)
    for n_y in (10, 30, 100, 300, 1000):
        measure("n_y", n_y, n_y=n_y)
    for runs in (1, 4, 16, 64):
        measure("runs", runs, runs=runs)
    for threads in (1, 2):
        measure("threads", threads, runs=16, threads=threads)
    fitted = {
        name: harness.exponent(
            [float(row["size"]) for row in sweeps[name][-3:]],
            [row["seconds_a_step"] for row in sweeps[name][-3:]],
        )
        for name in ("n_x", "n_s", "n_y", "runs")
    }
    solves: list[tuple[int | None, ...]] = [(10, 100, 30, 40, None)]
    if not quick:
        solves += [
            (10, 300, 10, 20, None),
            (10, 1000, 4, 10, None),
            (100, 3000, 2, 4, None),
            (100, 3000, 8, 2, 1 << 29),
        ]
    whole = [
        harness.in_own_process(
            "benchmarks.bench_growth",
            dict(zip(("n_s", "n_x", "restarts", "max_steps", "memory"), arguments, strict=True)),
        )
        for arguments in solves
    ]
    for row in whole:
        print(row, flush=True)
    return {"machine": harness.machine(), "sweeps": sweeps, "exponents": fitted, "solves": whole}


def main() -> None:
    """Measure and write results/growth.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(harness.save("growth", run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
