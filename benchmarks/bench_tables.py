"""Counting and release at scale, as ratios to bare DuckDB on the same file in the same run.

    python -m benchmarks.bench_tables [--rows 1 10 50] [--repeats 3] [--out benchmarks/results/tables.json]

For each size (in millions of rows) a Parquet file is made in a temporary folder. Then, interleaved, each in a process
of its own: a bare DuckDB group-by and ours; a bare DuckDB copy of the file and our release, with secure randomness.
Recorded are CPU seconds (all threads), wall seconds and the peak memory of the process; ratios are of medians.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import harness

HERE = Path(__file__).resolve().parent
PRIVATE, PUBLIC = ["income", "age"], ["age", "sex", "education"]
BINS = {"age": "edges:17,31.6,46.2,60.8,75.4,90"}
KEYS = "income, sex, education, region"


def make_file(path: Path, rows: int) -> None:
    """A table like the census, with dependence between its columns."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            f"""
            COPY (
                SELECT 17 + (h % 74)::INTEGER AS age,
                       CASE WHEN (h >> 8) % 3 = 0 THEN 'Female' ELSE 'Male' END AS sex,
                       'level-' || lpad(((h >> 16) % 16)::VARCHAR, 2, '0') AS education,
                       'region-' || ((h >> 24) % 9) AS region,
                       CASE WHEN (h >> 32) % 100 < 10 + 3 * ((h >> 16) % 16) + ((h % 74) // 4)
                            THEN '>50K' ELSE '<=50K' END AS income
                FROM (SELECT hash(i) AS h FROM range({rows}) r(i))
            ) TO '{path}' (FORMAT parquet)
            """
        )


def bare_group(path: str, out: str) -> None:
    """What counting costs DuckDB alone."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SELECT {KEYS}, count(*) FROM read_parquet('{path}') GROUP BY ALL").fetchall()


def our_count(path: str, out: str) -> None:
    """The same counts through privfunnel."""
    from privfunnel.data import tables

    tables.count(path, private=["income"], public=["sex", "education", "region"])


def bare_group_bins(path: str, out: str) -> None:
    """Counting with the age in five bands, written as a person would write it in SQL."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(
            "SELECT income, sex, education, CASE WHEN age < 31.6 THEN 0 WHEN age < 46.2 THEN 1 WHEN age < 60.8 THEN 2 "
            f"WHEN age < 75.4 THEN 3 ELSE 4 END AS band, count(*) FROM read_parquet('{path}') GROUP BY ALL"
        ).fetchall()


def our_count_bins(path: str, out: str) -> None:
    """The same bands through privfunnel, whose edges are also checked against the data's range."""
    from privfunnel.data import tables

    tables.count(path, private=PRIVATE, public=PUBLIC, bins=BINS)


def bare_copy(path: str, out: str) -> None:
    """What reading and writing the file costs DuckDB alone."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM read_parquet('{path}')) TO '{out}' (FORMAT parquet)")


def our_release(path: str, out: str) -> None:
    """A release of symbols with secure randomness."""
    from privfunnel import release
    from privfunnel.release.mechanism import Mechanism

    release.write(path, Mechanism.load(Path(path).with_name("mechanism.json")), out)


def our_records(path: str, out: str) -> None:
    """A release of records with secure randomness."""
    from privfunnel import release
    from privfunnel.release.mechanism import Mechanism

    release.write(path, Mechanism.load(Path(path).with_name("mechanism.json")), out, form="records")


TASKS = {
    f.__name__: f
    for f in (bare_group, our_count, bare_group_bins, our_count_bins, bare_copy, our_release, our_records)
}
RATIOS = {
    "count": ("our_count", "bare_group"),
    "count with bins": ("our_count_bins", "bare_group_bins"),
    "release symbols": ("our_release", "bare_copy"),
    "release records": ("our_records", "bare_copy"),
}


def child(tasks: str, path: str, folder: str) -> None:
    """Run tasks, by commas, in this process and print what each took; imports and warming up are left out."""
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet

    from privfunnel.data import tables

    duckdb.connect().execute("SELECT 1").fetchall()
    tables.count(duckdb.connect().from_arrow(pa.table({"s": ["a"], "x": ["b"]})), private="s", public="x")
    for task in tasks.split(","):
        target = Path(folder) / f"{task}.parquet"
        wall, cpu = time.perf_counter(), time.process_time()
        TASKS[task](path, str(target))
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        remove(target)
        print(json.dumps({**took, "peak_mib": peak_mib()}))


def remove(out: Path) -> None:
    """Remove what a task may have written."""
    out.unlink(missing_ok=True)
    out.with_name(f"{out.stem}.codebook.json").unlink(missing_ok=True)


def peak_mib() -> float:
    """Peak memory of this process; on Linux not getrusage's, which starts from the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(tasks: Sequence[str], path: Path, folder: Path) -> list[dict[str, float]]:
    """Some tasks in a process of their own."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.bench_tables",
        "--task",
        ",".join(tasks),
        str(path),
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE.parent)])}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=HERE.parent
    )
    return [json.loads(line) for line in done.stdout.splitlines()[-len(tasks) :]]


def design(path: Path) -> None:
    """A mechanism for the file, kept beside it; its quality does not matter here, its size does."""
    from privfunnel.data import tables
    from privfunnel.release.mechanism import Mechanism
    from privfunnel.solving.point import solve

    counts = tables.count(path, private=PRIVATE, public=PUBLIC, bins=BINS)
    problem = counts.problem()
    solution = solve(
        problem,
        disclosure=0.6 * problem.disclosure_ceiling,
        solver="aem",
        restarts=1,
        max_steps=50,
        throw=False,
    )
    Mechanism.from_solution(counts, solution).save(path.with_name("mechanism.json"))


def measure(rows: int, repeats: int, folder: Path, *, together: bool = False) -> dict[str, Any]:
    """All tasks on a file of ``rows`` rows, interleaved; ``together`` in one process, which rehearses quickly."""
    path = folder / f"rows-{rows}.parquet"
    make_file(path, rows)
    design(path)
    took: dict[str, list[dict[str, float]]] = {task: [] for task in TASKS}
    for _ in range(repeats):
        for tasks in [list(took)] if together else [[task] for task in took]:
            for task, result in zip(tasks, run(tasks, path, folder), strict=True):
                took[task].append(result)
    size = path.stat().st_size
    path.unlink()
    median = {
        task: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for task, runs in took.items()
    }
    ratios = {
        name: {key: median[ours][key] / median[bare][key] for key in ("cpu", "wall")}
        for name, (ours, bare) in RATIOS.items()
    }
    rates = {name: rows / median[ours]["wall"] for name, (ours, _) in RATIOS.items()}
    return {
        "rows": rows,
        "file_mib": size / 2**20,
        "median": median,
        "ratio": ratios,
        "rows_per_second": rates,
    }


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument(
        "--rows", type=float, nargs="+", default=[1, 10, 50], help="sizes in millions of rows"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="twenty thousand rows, once, in one process")
    parser.add_argument("--out", type=Path, default=harness.results() / "tables.json")
    parser.add_argument("--task", nargs=3, metavar=("TASKS", "PATH", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        child(*arguments.task)
        return
    if arguments.quick:
        arguments.rows, arguments.repeats = [0.02], 1
    with tempfile.TemporaryDirectory(prefix="privfunnel-bench-") as temporary:
        needed = 60 * max(arguments.rows) * 1e6
        if shutil.disk_usage(temporary).free < needed:
            parser.error(
                f"{temporary} has less than {needed / 2**30:.1f} GiB free: set TMPDIR to a larger disk"
            )
        sizes = []
        for millions in arguments.rows:
            found = measure(int(millions * 1e6), arguments.repeats, Path(temporary), together=arguments.quick)
            sizes.append(found)
            show(found)
    first, last = sizes[0], sizes[-1]
    growth = {
        task: (last["median"][task]["cpu"] / first["median"][task]["cpu"]) / (last["rows"] / first["rows"])
        for task in TASKS
    }
    document = {
        "benchmark": "tables",
        "machine": machine(),
        "repeats": arguments.repeats,
        "sizes": sizes,
        "cpu_growth_per_row": growth,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"CPU per row at {last['rows']:,} rows over {first['rows']:,}: "
          + ", ".join(f"{task} {value:.2f}" for task, value in growth.items()))  # fmt: skip


def machine() -> dict[str, Any]:
    """Where this was measured, with the versions of the engines."""
    info = harness.machine()
    return {
        **info,
        "versions": {name: importlib.metadata.version(name) for name in ("duckdb", "narwhals", "pyarrow")},
    }


def show(found: dict[str, Any]) -> None:
    """One block a size."""
    print(f"{found['rows']:,} rows, {found['file_mib']:.0f} MiB")
    for name, (ours, bare) in RATIOS.items():
        a, b, ratio = found["median"][ours], found["median"][bare], found["ratio"][name]
        print(
            f"  {name:16s} {found['rows_per_second'][name]:12,.0f} rows/s, CPU {a['cpu']:.2f} s against {b['cpu']:.2f} "
            f"s (×{ratio['cpu']:.2f}, wall ×{ratio['wall']:.2f}), peak {a['peak_mib']:.0f} MiB"
        )


if __name__ == "__main__":
    main()
