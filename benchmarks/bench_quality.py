"""Time to quality on the four instances: AEM plain and accelerated, ``auto``, and the methods it is compared with.

    python -m benchmarks.bench_quality [--quick]

Two tables. The first gives every solver the same wall-clock limit a value of R and records what it found and the CPU
time it used. The second asks how much CPU time accelerated AEM needs to be as good as 30 starts × 500 plain steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from typing import Any

from benchmarks import harness
from privfunnel import solve
from privfunnel.algorithms.aem import AEM
from privfunnel.certificate.answer import Status
from privfunnel.data import instances
from privfunnel.errors import PrivFunnelError
from privfunnel.model.problem import Problem

INSTANCES: dict[str, dict[str, Any]] = {
    "synthetic-uniform": {"shares": (0.3, 0.7)},
    "synthetic-skewed": {"shares": (0.3, 0.9)},
    "heart-failure": {"perturbation": "probabilities", "shares": (0.7, 0.8)},
    "census-income": {"shares": (0.6, 0.8)},
}


def limit_seconds(quick: bool) -> float:
    """Wall-clock seconds that a solver with a time limit may take for one disclosure."""
    return 0.3 if quick else 30.0


def solvers(limit: float) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name for the page → (solver, options); the general-purpose programs get the time their 30 starts need."""
    return {
        "aem, plain (30 × 500)": ("aem", {"accelerate": False, "threads": 1}),
        "aem (30 × 125)": ("aem", {"max_steps": 125, "threads": 1}),
        "aem (30 × 500)": ("aem", {"threads": 1}),
        "auto": ("auto", {"time_limit": limit}),
        "drs, repaired": ("drs-repaired", {"time_limit": limit}),
        "drs, published": ("drs", {"time_limit": limit}),
        "dca, repaired": ("dca-repaired", {"time_limit": limit}),
        "dca, published": ("dca", {"time_limit": limit}),
        "slsqp": ("slsqp", {"time_limit": 4.0 * limit}),
        "ipopt": ("ipopt", {"time_limit": 4.0 * limit}),
    }


def load(name: str) -> Problem:
    """The instance as the paper uses it, or raw where the raw table is the harder and cleaner one."""
    return instances.load(name, perturbation=INSTANCES[name].get("perturbation"))


def side_by_side(quick: bool) -> list[dict[str, Any]]:
    """Each solver once on each instance and disclosure."""
    limit = limit_seconds(quick)
    rows = []
    for name, settings in list(INSTANCES.items())[: 1 if quick else None]:
        problem = load(name)
        for share in settings["shares"][: 1 if quick else None]:
            for label, (solver, options) in solvers(limit).items():
                rows.append(
                    {
                        "instance": name,
                        "share": share,
                        "solver": label,
                        **once(problem, share, solver, options),
                    }
                )
                print(
                    {key: rows[-1][key] for key in ("instance", "share", "solver", "cpu_seconds", "leakage")},
                    flush=True,
                )
    return rows


def once(problem: Problem, share: float, solver: str, options: dict[str, Any]) -> dict[str, Any]:
    """CPU and wall seconds, leakage, proved bound and status of one solve; compiled code is warm."""
    disclosure = share * problem.disclosure_ceiling
    begin, begin_wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            solution = solve(problem, disclosure=disclosure, solver=solver, throw=False, **options)
        except PrivFunnelError as error:
            return {"cpu_seconds": None, "wall_seconds": None, "leakage": None, "why": str(error)}
    taken = time.process_time() - begin
    feasible = solution.disclosure >= disclosure - 1e-9 and solution.status is not Status.FAILED
    return {
        "cpu_seconds": taken,
        "wall_seconds": time.perf_counter() - begin_wall,
        "leakage": solution.leakage if feasible else None,
        "lower_bound": solution.lower_bound,
        "status": solution.status.value,
        **({} if feasible else {"why": solution.message or f"reached {solution.disclosure:.4f} nats"}),
    }


def acceleration(quick: bool) -> list[dict[str, Any]]:
    """CPU time of accelerated AEM with the fewest steps that match the plain leakage, over that of plain AEM."""
    step_limits = (24, 32, 40, 50, 60, 80, 100, 125, 160, 200, 300)
    rows = []
    for name, shares, seeds in (
        ("heart-failure", (0.693,) if quick else (0.594, 0.644, 0.693, 0.792), range(1 if quick else 10)),
        ("census-income", () if quick else (0.4, 0.5, 0.55, 0.6, 0.63), range(1)),
    ):
        problem = load(name)
        AEM(max_steps=10, threads=1).solve(problem, 0.5)
        AEM(max_steps=10, threads=1, accelerate=False).solve(problem, 0.5)
        for share in shares:
            disclosure = share * problem.disclosure_ceiling
            for seed in seeds:
                rows.append(
                    {
                        "instance": name,
                        "share": share,
                        "seed": seed,
                        **match(problem, disclosure, seed, step_limits),
                    }
                )
                print(rows[-1], flush=True)
    return rows


def match(problem: Problem, disclosure: float, seed: int, step_limits: tuple[int, ...]) -> dict[str, Any]:
    """The fewest accelerated steps that reach the leakage of 500 plain ones, and the ratio of CPU times."""
    seconds, leakage = timed(AEM(accelerate=False, threads=1), problem, disclosure, seed)
    for steps in step_limits:
        taken, reached = timed(AEM(max_steps=steps, threads=1), problem, disclosure, seed)
        if reached <= leakage * (1.0 + 1e-3) + 1e-9:
            break
    full, best = timed(AEM(threads=1), problem, disclosure, seed)
    return {
        "plain_leakage": leakage, "plain_seconds": seconds, "steps": steps, "matched": reached, "seconds": taken,
        "ratio": seconds / taken, "full_leakage": best, "full_seconds": full,
    }  # fmt: skip


def timed(solver: AEM, problem: Problem, disclosure: float, seed: int) -> tuple[float, float]:
    """Median CPU seconds of three solves, and the leakage."""
    taken = []
    for _ in range(3):
        begin = time.process_time()
        answer = solver.solve(problem, disclosure, seed=seed)
        taken.append(time.process_time() - begin)
    return statistics.median(taken), problem.evaluate(answer.channel).leakage


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure, and return the numbers."""
    for solver, options in solvers(1.0).values():  # compile
        once(
            load("synthetic-uniform"),
            0.5,
            solver,
            options | ({"time_limit": 0.5} if "time_limit" in options else {}),
        )
    return {
        "machine": harness.machine(),
        "acceleration": acceleration(quick),
        "limit_seconds": limit_seconds(quick),
        "side_by_side": side_by_side(quick),
    }


def main() -> None:
    """Measure and write results/quality.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(harness.save("quality", run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
