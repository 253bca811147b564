"""Wide tables, from a file to a release: how cost grows with rows, public symbols and classes, and what limits it.

    python -m benchmarks.bench_wide [--quick] [--rows 30000 1000000]

For each number of rows a Parquet file with twelve public columns and a private one is made, whose combinations become
more with the rows. It is counted by DuckDB, solved from its classes (twenty points), made into a mechanism, and
released as records, decoys and symbols. Each size runs in a process of its own; seconds are CPU time of all threads,
peak memory is that of the process up to and with each stage.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import harness

ROWS = (30_000, 100_000, 300_000, 1_000_000, 10_000_000)
QUICK = (1_000,)
#: Values of the public columns.
VALUES = (6, 2, 5, 4, 3, 8, 2, 3, 4, 2, 6, 3)
PUBLIC = [f"c{j}" for j in range(len(VALUES))]
POINTS = 20
FORMS = ("records", "decoys", "symbols")


def make_file(path: Path, rows: int) -> None:
    """A table whose columns depend on each other and on the private one."""
    import duckdb

    columns = ", ".join(
        f"'v' || (CASE WHEN hash(i * 31 + {j}) % 100 < 55 THEN (hash(i) >> {3 * j}) % 2 "
        f"ELSE hash(i * 17 + {j}) % {size} END)::VARCHAR AS c{j}"
        for j, size in enumerate(VALUES)
    )
    ill = "hash(i * 7 + 1) % 100 < 8 + 5 * ((hash(i) >> 3) % 2) + 6 * (hash(i * 17 + 3) % 4)"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {columns}, CASE WHEN {ill} THEN 'yes' ELSE 'no' END AS ill FROM range({rows}) r(i)) "
            f"TO '{path}' (FORMAT parquet)"
        )


def child(rows: int) -> dict[str, Any]:
    """All stages for one number of rows."""
    import privfunnel as pf
    from privfunnel import release
    from privfunnel.data import tables
    from privfunnel.model.equal_symbols import lumping_of

    warnings.simplefilter("ignore")
    stages: dict[str, dict[str, float]] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        begin = time.process_time()
        found = work()
        stages[name] = {"cpu_seconds": time.process_time() - begin, "peak_bytes": harness.peak_bytes()}
        return found

    pf.solve(harness.random_problem(2, 100), disclosure=2.0)  # compile
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.parquet"
        make_file(path, rows)
        counts = stage("count", lambda: tables.count(path, private="ill", public=PUBLIC))
        problem = stage("problem", counts.problem)
        classes = stage("classes", lambda: lumping_of(problem)).n_classes
        curve = stage("curve", lambda: pf.trace(problem, points=POINTS))
        solution = stage("point", lambda: pf.solve(problem, disclosure=0.98 * problem.disclosure_ceiling))
        mechanism = stage("mechanism", lambda: pf.Mechanism.from_solution(counts, solution))
        for form in FORMS:
            out = Path(folder) / f"{form}.parquet"
            stage(form, lambda out=out, form=form: release.write(path, mechanism, out, form=form))
    return {
        "rows": rows, "n_x": counts.n_x, "n_classes": classes, "n_y": mechanism.n_y,
        "largest_gap": max(solution.gap for solution in curve.solutions), "stages": stages,
    }  # fmt: skip


def main() -> None:
    """Measure and write results/wide.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, nargs="+", default=None)
    options = parser.parse_args()
    found = []
    for rows in options.rows or (QUICK if options.quick else ROWS):
        found.append(harness.in_own_process("benchmarks.bench_wide", {"rows": rows}))
        print(found[-1], flush=True)
    print(harness.save("wide", {"machine": harness.machine(), "sizes": found}))


if __name__ == "__main__":
    main()
