"""Run the benchmarks and write docs/benchmarks.md: ``python -m benchmarks [--quick] [--out DIR] [names …]``.

Each benchmark is a script of its own that writes ``results/<name>.json``; this only runs them one after the other. The
GPU is measured by hand (see :mod:`benchmarks.bench_gpu`), because it is rarely where the rest runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import harness, page

HERE = Path(__file__).resolve().parent
BY_HAND = ("gpu",)


def names() -> list[str]:
    """Benchmarks that run everywhere."""
    found = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    return [name for name in found if name not in BY_HAND]


def main() -> int:
    """Run what was asked for; the page is written even if a benchmark fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run: {', '.join(names())} (all by default)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few repeats, to see that it works; not into docs",
    )
    parser.add_argument("--out", type=Path, help="folder for the results instead of benchmarks/results")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in names()]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(names())}")
    out = options.out or (Path("out/benchmarks") if options.quick else None)
    if out is not None:  # for this process, which writes the page, and those it starts
        os.environ[harness.ELSEWHERE] = str(out.resolve())
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ}
    failed = []
    for name in options.names or names():
        command = [sys.executable, "-m", f"benchmarks.bench_{name}"]
        if options.quick:
            command.append("--quick")
        print("::", *command[1:], flush=True)
        if subprocess.run(command, cwd=HERE.parent, env=environment, check=False).returncode:
            failed.append(name)
    print(f"written: {page.write()}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
