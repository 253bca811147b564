"""Proofs against attackers who know something, and under guarantees: how long they take, and what stays open.

    python -m benchmarks.bench_guarded [--quick]

Heart failure against those who know nothing or any one column, and against all 15 sets of columns, the latter twice:
within a minute and until all points are proved. Dirichlet's 6 × 48 of the proofs' page under guarantees, the census
against who knows the age. Seconds are CPU time of warm code with the checks of the proofs; limits count it, too.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np

from benchmarks import harness
from privfunnel import Problem, solve, trace
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.data import instances

GAP, POINTS = 1e-5, 10
#: Seconds a point: a minute for ten of them, and as long as it takes.
SHORT, LONG = 6.0, 300.0
GUARANTEES = ("lip=0.1", "lip=0.5", "lip=1", "t-closeness=0.1")


def dirichlet(rows: int = 3000, n_s: int = 6, n_x: int = 48) -> Problem:
    """Counts of rows from a Dirichlet table."""
    rng = np.random.default_rng(0)
    return Problem(rng.multinomial(rows, rng.dirichlet(np.ones(n_s * n_x))).reshape(n_s, n_x))


def sets_of_columns(problem: Problem, most: int) -> list[list[str]]:
    """All sets of one to ``most`` public columns."""
    columns = list(problem.public_columns)
    return [
        list(chosen)
        for size in range(1, most + 1)
        for chosen in itertools.combinations(columns, size)
    ]  # fmt: skip


def point(what: str, problem: Problem, **asked: Any) -> dict[str, Any]:
    """One answer."""
    begin = time.process_time()
    found = solve(problem, gap=GAP, throw=False, **asked)
    return {"what": what, "cpu_seconds": time.process_time() - begin, "gap": found.gap, "steps": found.steps,
            "disclosure": found.disclosure / problem.disclosure_ceiling, "leakage": found.leakage}  # fmt: skip


def curve(problem: Problem, points: int, limit: float, gap: float) -> dict[str, Any]:
    """The curve against all sets of columns."""
    begin = time.process_time()
    known = sets_of_columns(problem, len(problem.public_columns))
    found = trace(problem, points=points, known=known, gap=gap, time_limit=limit, throw=False)
    return {
        "limit": limit, "aim": gap, "sets": len(known), "cpu_seconds": time.process_time() - begin,
        "points": [{"disclosure": s.disclosure / problem.disclosure_ceiling, "leakage": s.leakage, "gap": s.gap,
                    "steps": s.steps} for s in found.solutions],
    }  # fmt: skip


def main() -> None:
    """Measure and write results/guarded.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heart, census = instances.load("heart-failure"), instances.load("census-income")
    singles = sets_of_columns(heart, 1)
    solve(heart, disclosure="90%", known=singles, gap=1e-2)  # load what is loaded once
    with cpu_clock():
        shares = ("90%",) if options.quick else ("50%", "70%", "90%")
        answers = [
            point(f"heart failure, any one column, {share}", heart, disclosure=share, known=singles)
            for share in shares
        ]
        if not options.quick:
            table = dirichlet()
            answers += [point(f"6 × 48, {each}", table, guarantees=[each]) for each in GUARANTEES]
            answers += [
                point(f"census, age, {share}", census, disclosure=share, known=["age"])
                for share in ("30%", "60%", "90%")
            ]
        for answer in answers:
            print(answer, flush=True)
        curves = []
        for limit in (0.2,) if options.quick else (SHORT, LONG):
            curves.append(curve(heart, 3 if options.quick else POINTS, limit, GAP))
            print(curves[-1], flush=True)
    print(harness.save("guarded", {"machine": harness.machine(), "answers": answers, "curves": curves}))


if __name__ == "__main__":
    main()
