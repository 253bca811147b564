"""What the benchmarks share: fair timing, a record of the machine, files."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from privfunnel import solve
from privfunnel.algorithms import registry
from privfunnel.data import instances
from privfunnel.model.problem import Problem

Key = TypeVar("Key")

RESULTS = Path(__file__).resolve().parent / "results"

#: Names another folder for the results, so that a quick run does not replace measured ones.
ELSEWHERE = "PRIVFUNNEL_BENCHMARK_RESULTS"


def results() -> Path:
    """The folder of the results."""
    return Path(os.environ[ELSEWHERE]) if os.environ.get(ELSEWHERE) else RESULTS


def warm_up(solver: str, options: Mapping[str, Any]) -> None:
    """Solve a small problem with the very options that are measured: another option may be another compiled kernel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.get(solver, **options).warm_up()  # small problems alone may not pay for compiling
        solve(instances.load("synthetic-uniform"), disclosure=0.5, solver=solver, throw=False, **options)


def interleaved(
    works: Mapping[Key, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
    of: Callable[[list[float]], float] = statistics.median,
) -> dict[Key, float]:
    """Seconds of each piece of work, taken in turns so that a slow minute of the machine hits all alike.

    CPU time by default: on a machine that others use as well the wall clock measures them, not us. The median of the
    repeats by default; ``of=min`` where neighbours disturb even the CPU time of short loops, by way of the caches.
    """
    for work in works.values():
        work()  # compile, fill caches
    taken: dict[Key, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            begin = clock()
            work()
            taken[name].append(clock() - begin)
    return {name: of(values) for name, values in taken.items()}


def machine() -> dict[str, Any]:
    """The processor, how many of its cores we may use and how busy they are, and the versions that matter."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next(
            (line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line),
            model,
        )
    versions = {}
    for package in ("numpy", "scipy", "numba", "torch", "highspy", "casadi"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": model,
        "cores": cores,
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": versions,
    }


def exponent(sizes: list[float], values: list[float]) -> float:
    """Slope of log value over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def peak_bytes() -> int:
    """Largest resident memory of this process so far.

    Linux's own high-water mark where there is one: ``getrusage`` also counts what the parent had before it started us.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(
            int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if "VmHWM" in line
        )
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def in_own_process(module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run ``module.child(**arguments)`` in a process of its own, so that its peak memory is its own."""
    code = (
        f"import json, sys; from {module} import child; "
        "print('RESULT' + json.dumps(child(**json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(dict(arguments))], capture_output=True, text=True, check=True
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT"))
    return result


def random_problem(n_s: int, n_x: int, seed: int = 0) -> Problem:
    """Sparse Dirichlet p(s|x) under a Dirichlet p(x); no empty cell."""
    rng = np.random.default_rng(seed)
    return Problem(
        (rng.dirichlet(np.full(n_s, 0.3), size=n_x) * rng.dirichlet(np.ones(n_x))[:, None]).T + 1e-300
    )


def save(name: str, result: Mapping[str, Any]) -> Path:
    """Write ``results/<name>.json``."""
    results().mkdir(parents=True, exist_ok=True)
    path = results() / f"{name}.json"
    path.write_text(json.dumps(dict(result), indent=1) + "\n", encoding="utf-8")
    return path


def load(name: str) -> dict[str, Any] | None:
    """Read ``results/<name>.json`` if it is there."""
    path = results() / f"{name}.json"
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result
