"""Proved curves: what they cost, how large the proofs are, and how that compares with methods that prove nothing.

    python -m benchmarks.bench_global [--quick]

Three tables. Whole curves with their proofs: CPU seconds, boxes, the largest gap, and what checking them costs.
Random count tables of a size met in practice, a seed each. And single points against AEM (30 starts × 500 plain
steps) and SciPy's SLSQP (30 starts), each a ratio in one run: their CPU time over ours, at leakage no better than ours.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import harness
from privfunnel import free_disclosure, solve, trace
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.data import instances
from privfunnel.model.problem import Problem

#: label → (instance, its options, points, target gap in nats)
CURVES: dict[str, tuple[str, dict[str, Any], int, float]] = {
    "synthetic-uniform": ("synthetic-uniform", {}, 20, 1e-6),
    "synthetic-skewed": ("synthetic-skewed", {}, 20, 1e-6),
    "heart-failure, raw": ("heart-failure", {}, 20, 1e-6),
    "heart-failure, +1e-3": ("heart-failure", {"perturbation": "probabilities"}, 20, 1e-6),
    "heart-failure, raw, dense": ("heart-failure", {}, 200, 1e-6),
    "census-income, raw": ("census-income", {}, 20, 1e-5),
}


def count_table(n_s: int, n_x: int, rows: int, seed: int, *, loglinear: bool) -> Problem:
    """Raw counts of a random table with empty cells: log-linear with two factors, or Dirichlet columns."""
    rng = np.random.default_rng(seed)
    if loglinear:
        factors = 0.6 * rng.normal(size=(n_s, 2)) @ rng.normal(size=(2, n_x))
        noise = 0.3 * rng.normal(size=(n_s, n_x))
        p = np.exp(1.2 * rng.normal(size=n_x) + 0.5 * rng.normal(size=(n_s, 1)) + factors + noise)
    else:
        base = rng.dirichlet(np.full(n_s, 2.0))
        p = (rng.dirichlet(0.9 * n_s * base, size=n_x) * rng.dirichlet(np.ones(n_x))[:, None]).T
    return Problem(rng.multinomial(rows, (p / p.sum()).ravel()).reshape(n_s, n_x))


def curve(problem: Problem, disclosures: np.ndarray[Any, Any], gap: float) -> dict[str, Any]:
    """Trace and verify one curve; CPU seconds of both."""
    begin, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trace(problem, disclosures=disclosures, solver="global", gap=gap, time_limit=180.0)
    seconds, wall = time.process_time() - begin, time.perf_counter() - wall
    fresh = [replace(proof) for proof in found.certificates]  # copies, which have not been verified yet
    begin = time.process_time()
    for proof in fresh:
        proof.verify(problem)
    return {
        "shape": [problem.n_s, problem.n_x],
        "zeros": float(np.mean(problem.p_sx == 0.0)),
        "points": len(found.solutions),
        "target": gap,
        "largest_gap": float(found.gap.max()),
        "closed": int(np.sum(found.gap <= gap + 1e-12)),
        "cpu_seconds": seconds,
        "wall_seconds": wall,
        "boxes": sum(s.steps for s in found.solutions),
        "proved_lines": len(found.certificates),
        "boxes_in_proofs": sum(proof.n_nodes for proof in fresh),
        "verify_seconds": time.process_time() - begin,
        "free_share": free_disclosure(problem) / problem.disclosure_ceiling,
    }


def one_by_one(problem: Problem, disclosures: np.ndarray[Any, Any], gap: float) -> float:
    """CPU seconds of the same points solved separately."""
    begin = time.process_time()
    for disclosure in disclosures:
        solve(problem, disclosure=float(disclosure), solver="global", gap=gap)
    return time.process_time() - begin


def against(
    problem: Problem, name: str, share: float, rivals: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """One point by ``global`` and by methods without a proof."""
    rows: list[dict[str, Any]] = []
    for solver, options in {"global": {}, **rivals}.items():
        harness.warm_up(solver, options)
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = solve(
                problem,
                disclosure=share * problem.disclosure_ceiling,
                solver=solver,
                throw=False,
                **options,
            )
        seconds = time.process_time() - begin
        reached = found.disclosure >= share * problem.disclosure_ceiling - 1e-9
        rows.append(
            {
                "instance": name,
                "share": share,
                "solver": solver,
                "leakage": found.leakage if reached else None,
                "cpu_seconds": seconds,
                "ratio": seconds / rows[0]["cpu_seconds"] if rows else 1.0,
                "lower_bound": found.lower_bound,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small problems only")
    quick = parser.parse_args().quick
    with cpu_clock():  # limits in CPU time too: a busy machine cuts nobody short
        measure(quick)


def measure(quick: bool) -> None:
    """Measure and save; ``quick`` for small problems only."""
    harness.warm_up("global", {})
    curves = {}
    for label, (name, options, points, gap) in list(CURVES.items())[: 1 if quick else None]:
        problem = instances.load(name, **options)
        grid = np.linspace(0.0, problem.disclosure_ceiling, points)
        curves[label] = curve(problem, grid, gap)
        curves[label]["one_by_one_seconds"] = one_by_one(problem, grid[1:-1], gap)
        print(label, curves[label], flush=True)
    tables = {}
    sizes = [(3, 12, 400, 1e-4)] if quick else [
        (6, 48, 3000, 1e-5), (4, 40, 1000, 1e-5), (4, 60, 6000, 1e-5), (5, 50, 2000, 1e-5), (6, 60, 3000, 1e-5),
    ]  # fmt: skip
    for seed, (n_s, n_x, rows, gap) in enumerate(sizes):
        for loglinear in (False, True):
            problem = count_table(n_s, n_x, rows, seed, loglinear=loglinear)
            kind = "log-linear" if loglinear else "Dirichlet"
            grid = np.linspace(0.5, 0.95, 10) * problem.disclosure_ceiling
            label = f"{kind}, {rows} rows, seed {seed}"
            tables[label] = curve(problem, grid, gap)
            if seed < 2:
                tables[label]["one_by_one_seconds"] = one_by_one(problem, grid, gap)
            print(label, tables[label], flush=True)
    points = []
    plain = {"accelerate": False, "threads": 1}
    rivals = {"aem": plain, "slsqp": {"time_limit": 300.0}}
    if quick:
        points += against(instances.load("synthetic-uniform"), "synthetic-uniform", 0.7, rivals)
    else:
        perturbed = instances.load("heart-failure", perturbation="probabilities")
        for share in (0.7, 0.8, 0.9):
            points += against(perturbed, "heart-failure, +1e-3", share, rivals)
        points += against(instances.load("census-income"), "census-income, raw", 0.6, {"aem": plain})
    harness.save(
        "global",
        {
            "machine": harness.machine(),
            "curves": curves,
            "tables": tables,
            "points": points,
            "warmed": True,  # each solver with its own options; earlier results were not
        },
    )


if __name__ == "__main__":
    main()
