"""The cost of one AEM step on census-sized runs: compiled, clean NumPy, Algorithm 1 as printed, and the floor.

    python -m benchmarks.bench_step [--quick]

All variants start at the same points, find λ to the same tolerance and make the same number of steps.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numba import njit

from benchmarks import harness
from benchmarks.counting import counting
from privfunnel.algorithms.aem import arrays, kernel_accelerated, kernel_math, kernel_plain, kernel_root
from privfunnel.algorithms.aem.backends import StepState
from privfunnel.algorithms.aem.kernel_groups import KernelTables
from privfunnel.algorithms.aem.numba_backend import NumbaBackend
from privfunnel.algorithms.aem.starts import Starts
from privfunnel.algorithms.aem.state import Tables, log_of
from privfunnel.data import instances
from privfunnel.measures import Array, safe_log


def printed_step(tables: Tables, u: Array, slope: float, target: float) -> tuple[Array, float, int]:
    """One iteration of Algorithm 1 as printed, with q = p(x|s, y) as an M×N×K array; the same search for λ.

    Returns:
        The new p(x, y) (M, N), λ, and the evaluations of G it took.
    """
    s = tables.p_s_given_x.T[:, None, :]
    joint = s * u[:, :, None]
    total = joint.sum(axis=0)
    q = joint / np.where(total > 0.0, total, 1.0)
    phi = (s * (safe_log(q) - safe_log(s))).sum(axis=2)
    r = u.sum(axis=0)
    log_w = np.where(u > 0.0, safe_log(u) - safe_log(r), -1.0e30)
    low, high, trial = np.array([-1.0]), np.array([np.inf]), np.array([max(slope, 0.0)])
    tolerance = tables.root_tolerance()
    count = 0
    while count < 100:
        count += 1
        exponent = trial[0] * log_w + phi
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True)) * r
        new = weight / weight.sum(axis=1, keepdims=True) * tables.p_x[:, None]
        value = float((new * log_w).sum()) - target
        mean = (new * log_w).sum(axis=1) / tables.p_x
        gain = float(((new * log_w**2).sum(axis=1) - tables.p_x * mean**2).sum())
        if (0.0 <= value <= tolerance) or (value >= 0.0 and trial[0] == 0.0):
            break
        if value >= 0.0:
            high = trial
        else:
            low = trial
        missing = np.array([value - 0.5 * tolerance])
        following = arrays.next_slope(np, trial, missing, np.array([gain]), low, high)
        if following[0] == trial[0]:
            break
        trial = following
    return new, float(trial[0]), count


@njit(error_model="numpy", cache=True)
def _exp_pass(source: Array, target: Array) -> None:
    for i in range(source.size):
        target[i] = kernel_math.exp_(source[i])


@njit(error_model="numpy", cache=True)
def _log_pass(source: Array, target: Array) -> None:
    for i in range(source.size):
        target[i] = kernel_math.log_(source[i])


def floor(repeats: int) -> dict[str, dict[str, float]]:
    """Nanoseconds per element of one exp and one log pass over arrays that stay in cache, library by library."""
    source = -np.random.default_rng(0).gamma(2.0, 4.0, size=1 << 15)
    positive = np.exp(source)
    target = np.empty_like(source)
    works: dict[str, dict[str, Any]] = {
        "exp": {
            "numpy": lambda: np.exp(source, out=target),
            "polynomial": lambda: _exp_pass(source, target),
        },
        "log": {
            "numpy": lambda: np.log(positive, out=target),
            "polynomial": lambda: _log_pass(positive, target),
        },
    }
    try:
        import torch

        torch.set_num_threads(1)
        tensors = torch.asarray(source), torch.asarray(positive), torch.asarray(target)
        works["exp"]["torch"] = lambda: torch.exp(tensors[0], out=tensors[2])
        works["log"]["torch"] = lambda: torch.log(tensors[1], out=tensors[2])
    except ImportError:
        pass

    def many(work: Any) -> Any:
        return lambda: [work() for _ in range(20)]

    return {
        name: {
            library: 1e9 * seconds / 20 / source.size
            for library, seconds in harness.interleaved(
                {library: many(work) for library, work in these.items()}, repeats
            ).items()
        }
        for name, these in works.items()
    }


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure, and return the numbers."""
    problem = instances.load("census-income")
    tables = Tables.of(problem.p_sx)
    n_y, runs, steps = problem.n_x + 1, 4, 10 if quick else 40
    few = max(2, steps // 10)
    share = 0.6 * problem.disclosure_ceiling
    start = Starts(tables, n_y, 0).channels(list(range(runs)), np.full(runs, share))
    log_u = log_of(tables.p_x[:, None] * start)
    target = np.full(runs, share - tables.h_x)
    state = StepState.first(runs, 0.5)
    # Away from the first steps, whose λ has to be found from nothing.
    NumbaBackend(tables, 1).advance(log_u, state, target, 20, 0.0)
    state = StepState.first(runs, 0.05)
    grouped = KernelTables.of(tables)
    batch = arrays.Batch.of(tables)
    counts: dict[str, float] = {}

    def kernel(threads: int) -> None:
        points = log_u.copy()
        NumbaBackend(tables, threads).advance(points, state, target, steps, 0.0)

    def accelerated() -> None:
        now, before = log_u.copy(), log_u.copy()
        for run_ in range(runs):
            begin = kernel_accelerated.RunState(0.05, 1.0, 0.0, tables.root_tolerance(), np.inf, np.inf)
            points = kernel_accelerated.Points(now[run_], before[run_])
            kernel_accelerated.run(grouped, points, begin, float(target[run_]), steps, 0.0)

    def clean() -> None:
        for run_ in range(runs):
            points, slope = log_u[run_ : run_ + 1].copy(), state.slope[run_ : run_ + 1]
            for _ in range(few):
                made = arrays.plain_step(batch, points, None, slope, target[run_ : run_ + 1])
                points, slope = made.log_u, made.slope

    def printed() -> None:
        evaluations = 0
        u, slope = np.exp(log_u[0]), float(state.slope[0])
        for _ in range(few):
            u, slope, used = printed_step(tables, u, slope, float(target[0]))
            evaluations += used
        counts["evaluations"] = evaluations / few

    repeats = 3 if quick else 9
    entries = problem.n_x * n_y
    cpu = harness.interleaved(
        {"kernel": lambda: kernel(1), "accelerated": accelerated, "clean": clean, "printed": printed}, repeats
    )
    wall = harness.interleaved(
        {"one": lambda: kernel(1), "two": lambda: kernel(2), "clean": clean}, repeats, time.perf_counter
    )
    per_entry = {
        "kernel": 1e9 * cpu["kernel"] / (runs * steps * entries),
        "accelerated": 1e9 * cpu["accelerated"] / (runs * steps * entries),
        "clean": 1e9 * cpu["clean"] / (runs * few * entries),
        "printed": 1e9 * cpu["printed"] / (few * entries),
    }
    library = floor(repeats)
    fastest = {name: min(values.values()) for name, values in library.items()}
    evaluations, renewals = _evaluations(tables, log_u, target, steps)
    logs = (problem.n_s * n_y + n_y + problem.n_x) / entries
    lowest = evaluations * fastest["exp"] + logs * fastest["log"]
    return {
        "machine": harness.machine(),
        "problem": "census-income, raw counts",
        "n_s": problem.n_s, "n_x": problem.n_x, "n_y": n_y, "runs": runs, "steps": steps, "repeats": repeats,
        "ns_an_entry": per_entry,
        "evaluations_a_step": {"kernel": evaluations, "renewals": renewals, "printed": counts["evaluations"]},
        "wall_seconds": wall,
        "two_thread_speedup": wall["one"] / wall["two"],
        "library_ns": library,
        "floor_ns_an_entry": lowest,
        "ratios": {
            "printed_over_kernel": per_entry["printed"] / per_entry["kernel"],
            "clean_over_kernel": per_entry["clean"] / per_entry["kernel"],
            "clean_over_kernel_two_threads": (wall["clean"] / few) / (wall["two"] / steps),
            "kernel_over_floor": per_entry["kernel"] / lowest,
        },
    }  # fmt: skip


def _evaluations(tables: Tables, log_u: Array, target: Array, steps: int) -> tuple[float, float]:
    """Evaluations of G per step, and those without exponentials."""
    parts = [(kernel_root, "evaluate"), (kernel_root, "renew")]
    with counting(parts, [(kernel_root, "moved"), (kernel_plain, "root")]) as count:
        kernel_plain.run.py_func(KernelTables.of(tables), log_u[0].copy(), 0.05, float(target[0]), steps, 0.0)
    return (count["evaluate"] + count["renew"]) / steps, count["renew"] / steps


def main() -> None:
    """Measure and write results/step.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    result = run(quick=parser.parse_args().quick)
    print(harness.save("step", result))
    print({key: result[key] for key in ("ns_an_entry", "evaluations_a_step", "floor_ns_an_entry", "ratios")})


if __name__ == "__main__":
    main()
