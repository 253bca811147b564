"""The binary funnel at any size: CPU seconds of a proved point, and of the largest disclosure without leakage.

    python -m benchmarks.bench_binary [--quick]

Random tables with all p(s|x) different: uniform p(s=1|x), Dirichlet p(x). A point is solved and proved at a share of
the way from R0 to H(X); its parts are one staircase and one proof at the slope found. Compilation is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import harness
from privfunnel.algorithms.binary.funnel import ClassOracle, solve_binary
from privfunnel.algorithms.binary.proof import prove
from privfunnel.algorithms.binary.table import binary_table
from privfunnel.algorithms.binary.transport import free_pairs

SIZES = (300, 1_000, 3_000, 10_000, 100_000)
FREE_SIZES = (10_000, 100_000, 1_000_000)
SHARES = (0.25, 0.5, 0.75)


def random_table(n_x: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """p(s, x), shape (2, M): uniform p(s=1|x), Dirichlet p(x)."""
    rng = np.random.default_rng(seed)
    p_x, pi = rng.dirichlet(np.ones(n_x)), rng.random(n_x)
    table = np.stack([p_x * (1.0 - pi), p_x * pi])
    return table / table.sum()


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the CPU seconds it took."""
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin


def point(n_x: int, share: float) -> dict[str, Any]:
    """One proved point, ``share`` of the way from R0 to H(X)."""
    table = random_table(n_x)
    curve = ClassOracle(binary_table(table))
    free = curve.free().point.disclosure
    target = free + share * (curve.h_t - free)
    answer, seconds = timed(lambda: solve_binary(table, target))
    support, one_slope = timed(lambda: curve.at(answer.slope))
    _, one_proof = timed(lambda: prove(curve.classes, support.prices, answer.slope))
    return {
        "n_x": n_x,
        "share": share,
        "leakage": answer.leakage,
        "gap": answer.leakage - answer.lower_bound,
        "slope": answer.slope,
        "slopes_tried": answer.slopes_tried,
        "cpu_seconds": seconds,
        "one_slope_seconds": one_slope,
        "one_proof_seconds": one_proof,
    }


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small problems only")
    quick = parser.parse_args().quick
    solve_binary(random_table(20), 2.0)  # compile
    points = []
    for n_x in SIZES[: 1 if quick else None]:
        for share in SHARES:
            points.append(point(n_x, share))
            print(points[-1], flush=True)
    free = []
    for n_x in FREE_SIZES[: 1 if quick else None]:
        table = random_table(n_x)
        found, seconds = timed(lambda table=table: free_pairs(table))
        row = {"n_x": n_x, "disclosure": found.disclosure, "gap": found.upper - found.disclosure}
        free.append({**row, "leakage": found.leakage, "cpu_seconds": seconds})
        print(free[-1], flush=True)
    harness.save(
        "binary", {"machine": harness.machine(), "points": points, "free": free, "peak": harness.peak_bytes()}
    )


if __name__ == "__main__":
    main()
